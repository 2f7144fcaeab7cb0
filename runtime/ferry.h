/* libferry: language models in GGUF files, from text to text, on the CPU. docs/api.md has an
 * example.
 *
 *     ferry_model   a mapped file: immutable, any number of threads may share it
 *     ferry_vocab   its tokenizer: a view of the model, shared likewise
 *     ferry_session one or more contexts of n_ctx positions: one thread at a time;
 *                   ferry_session_cancel may come from any
 *     ferry_sampler chooses tokens: one thread at a time
 *     ferry_chat_template   conversation to prompt: immutable
 *     ferry_speculator guesses what a session may be asked next: one thread at a time
 *     ferry_grammar what a text may be: immutable, any number of samplers may use it
 *
 * Objects may be freed in any order; a vocabulary lives as long as its model's handle. The library
 * keeps no state of its own, takes no signals, never prints and never exits.
 *
 * Every function that can fail returns a status and describes it in *error, which may be NULL.
 * Outputs are written on success only, but pointers to objects become NULL on failure. No argument
 * may be NULL unless documented; one that is gives FERRY_EUSAGE, and the functions that cannot fail
 * do nothing then, or return 0 or NULL. Texts are UTF-8.
 *
 * Parameter structs begin with their size, set by ferry_..._params_init, so that later versions
 * can add to their ends: programs and libraries of different 0.x versions work together as long as
 * the soname is the same. NULL for one of them takes the defaults. */
#ifndef FERRY_H
#define FERRY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FERRY_API __attribute__((visibility("default")))
#else
#define FERRY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_model ferry_model;
typedef struct ferry_vocab ferry_vocab;
typedef struct ferry_session ferry_session;
typedef struct ferry_sampler ferry_sampler;
typedef struct ferry_chat_template ferry_chat_template;
typedef struct ferry_grammar ferry_grammar;
typedef struct ferry_speculator ferry_speculator;

/* "0.1.0": the version of the library that runs. */
FERRY_API const char *ferry_version(void);

/* --- errors --------------------------------------------------------------------------------- */

/* The exit statuses of the ferry program. Later versions may add to them. */
enum {
    FERRY_OK = 0,
    FERRY_EFAILED = 1, /* file not readable or not valid, no memory, model not supported */
    FERRY_EUSAGE = 2,  /* an argument */
    FERRY_EFIT = 3,    /* the context, the memory or the caller's buffer is too small */
    FERRY_EVERIFY = 4,
    FERRY_EDEVICE = 5,
    FERRY_ENOSPACE = 6,
    FERRY_EINTR = 130,
};
typedef int32_t ferry_status;

/* What was found, what was expected, and what to do where that is known. Functions that take one
 * set it always: FERRY_OK and an empty message on success. */
typedef struct {
    ferry_status status;
    char message[512];
} ferry_error;

/* --- model ---------------------------------------------------------------------------------- */

enum { FERRY_LOG_ERROR = 0, FERRY_LOG_WARN = 1, FERRY_LOG_INFO = 2, FERRY_LOG_DEBUG = 3 };
/* One line without its newline, from within a call on the model or on what was made of it, in the
 * caller's thread. */
typedef void (*ferry_log_fn)(void *user, int32_t level, const char *text);

enum {
    FERRY_MODEL_MLOCK = 1, /* keep the file in memory: it is read now and never paged out. What the
                              system's limits do not allow is a warning in the log. */
    FERRY_MODEL_NO_MMAP = 2, /* read the file into memory of its own instead of mapping it; then it
                                may change while the model is open */
};

typedef struct {
    uint32_t struct_size;
    uint32_t flags;   /* FERRY_MODEL_...; 0: mapped, pages come and go as they are needed */
    ferry_log_fn log; /* NULL: no messages */
    void *log_user;
} ferry_model_params;
FERRY_API void ferry_model_params_init(ferry_model_params *p, size_t struct_size);

/* Maps a GGUF file and checks all of it but the weights themselves. Unless it is read
 * (FERRY_MODEL_NO_MMAP), the file must not change while the model is open. */
FERRY_API ferry_status ferry_model_open(const char *path, const ferry_model_params *params,
                                        ferry_model **model, ferry_error *error);
/* Gives the handle back. Sessions go on; the file is closed with the last of them. */
FERRY_API void ferry_model_free(ferry_model *model);

FERRY_API const char *ferry_model_family(const ferry_model *model); /* "llama" */
FERRY_API uint32_t ferry_model_n_vocab(const ferry_model *model);   /* logits of a position */
FERRY_API uint32_t ferry_model_n_ctx_train(const ferry_model *model);
FERRY_API uint32_t ferry_model_n_embd(const ferry_model *model);
FERRY_API uint32_t ferry_model_n_layer(const ferry_model *model);

/* --- vocabulary ----------------------------------------------------------------------------- */

/* Loaded at the first call. FERRY_EFAILED when the file has no usable tokenizer: its model works
 * with token ids alone. */
FERRY_API ferry_status ferry_model_vocab(ferry_model *model, const ferry_vocab **vocab,
                                         ferry_error *error);

FERRY_API uint32_t ferry_vocab_size(const ferry_vocab *vocab);
FERRY_API int32_t ferry_vocab_bos(const ferry_vocab *vocab);            /* -1: none */
FERRY_API int ferry_vocab_is_end(const ferry_vocab *vocab, int32_t id); /* does it end a text? */

enum {
    FERRY_ADD_SPECIAL = 1,   /* BOS and EOS as the model asks for them */
    FERRY_PARSE_SPECIAL = 2, /* control tokens in the text become their ids */
    FERRY_RENDERED_CHAT = 4, /* alone: the text comes from ferry_chat_template_render; control
                                tokens are parsed, BOS is added where it is missing */
};

/* Writes the ids of text[0..n_bytes) and their number. With too small a buffer nothing but *n_ids
 * is written, the number needed, and FERRY_EFIT returned; with ids NULL they are only counted.
 * Bytes that are no UTF-8 are taken as bytes. */
FERRY_API ferry_status ferry_tokenize(const ferry_vocab *vocab, const char *text, size_t n_bytes,
                                      uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                                      ferry_error *error);

enum { FERRY_SHOW_SPECIAL = 1 }; /* control tokens as their text; else they are left out */

/* The text of a whole sequence, and a NUL after it that capacity counts and *n_bytes does not;
 * else as ferry_tokenize. It may hold NULs and bytes that are no UTF-8. */
FERRY_API ferry_status ferry_detokenize(const ferry_vocab *vocab, const int32_t *ids, size_t n_ids,
                                        uint32_t flags, char *text, size_t capacity,
                                        size_t *n_bytes, ferry_error *error);
/* Likewise the bytes of one token in the middle of a text. A character may be spread over several
 * tokens. */
FERRY_API ferry_status ferry_token_text(const ferry_vocab *vocab, int32_t id, uint32_t flags,
                                        char *text, size_t capacity, size_t *n_bytes,
                                        ferry_error *error);

/* --- text out of tokens ---------------------------------------------------------------------- */

/* The text of generated tokens as it may be shown: whole characters of valid UTF-8, where a
 * character that is spread over tokens waits for its last byte and what is not UTF-8 becomes
 * U+FFFD; and nothing of a stop string, whose possible beginning waits, too. The first stop string
 * that is complete ends the text, however it falls on tokens. */
typedef struct ferry_text ferry_text;

enum { FERRY_TEXT_CONTINUES = 1 }; /* it continues a text: a space at its beginning stays */

/* stops: n_stops texts, at most 16 of at most 1024 bytes; copied. One thread at a time; keeps the
 * model's file open as a session does. */
FERRY_API ferry_status ferry_text_new(ferry_model *model, uint32_t flags, const char *const *stops,
                                      size_t n_stops, ferry_text **text, ferry_error *error);
FERRY_API void ferry_text_free(ferry_text *text);

/* *shown is what the token adds, *n_bytes long and with a NUL after it, valid until the next call
 * on the text; it may be empty. *stop (stop may be NULL) is the index of the stop string that has
 * ended the text, else -1: then nothing is added any more. */
FERRY_API ferry_status ferry_text_add(ferry_text *text, int32_t id, const char **shown,
                                      size_t *n_bytes, int32_t *stop, ferry_error *error);
/* What still waits at the end; an incomplete character becomes U+FFFD. Then a new text begins. */
FERRY_API ferry_status ferry_text_end(ferry_text *text, const char **shown, size_t *n_bytes,
                                      ferry_error *error);

/* --- session -------------------------------------------------------------------------------- */

/* Elements of the KV cache. Q8_0 and Q4_0 want heads of a multiple of 32 elements. */
enum { FERRY_KV_F16 = 0, FERRY_KV_F32 = 1, FERRY_KV_Q8_0 = 2, FERRY_KV_Q4_0 = 3 };

enum {
    /* Layers with a sliding window keep the window and a step alone: less memory, the same bits. A
     * rewind further back than a step is one to a snapshot, or to nothing: ask
     * ferry_session_seq_n_past. */
    FERRY_SESSION_WINDOWS = 1,
};

typedef struct {
    uint32_t struct_size;
    uint32_t n_ctx;         /* positions; 0: what the model was trained with, at most 4096 */
    uint32_t n_batch;       /* most tokens computed at once; 0: 512 */
    int32_t n_threads;      /* 0: the fast CPUs that the calling thread may use, at most 16 */
    int32_t type_k, type_v; /* FERRY_KV_...: what the model cannot have is FERRY_EUSAGE */
    uint32_t n_seq;         /* sequences, each with n_ctx positions of its own; 0: 1; at most 256 */
    uint32_t n_logits;      /* tokens whose logits are held at once; 0: n_seq, at least 16 */
    uint32_t flags;         /* FERRY_SESSION_...; 0 */
} ferry_session_params;
FERRY_API void ferry_session_params_init(ferry_session_params *p, size_t struct_size);

/* The memory that ferry_session_new would take beside the mapped file. */
FERRY_API ferry_status ferry_session_bytes(const ferry_model *model,
                                           const ferry_session_params *params, uint64_t *kv_bytes,
                                           uint64_t *scratch_bytes, ferry_error *error);
/* Threads of the session run where the calling thread may run now, and sleep between calls. */
FERRY_API ferry_status ferry_session_new(ferry_model *model, const ferry_session_params *params,
                                         ferry_session **session, ferry_error *error);
FERRY_API void ferry_session_free(ferry_session *session);

FERRY_API uint32_t ferry_session_n_ctx(const ferry_session *session);
FERRY_API uint32_t ferry_session_n_past(const ferry_session *session); /* positions filled */

/* Appends n tokens to those of earlier calls. *logits (logits may be NULL) becomes the
 * n_vocab logits of the last one, valid until the session's next call. FERRY_EFIT: the context
 * is full. After a failure the session is as it was before. Nothing is allocated. */
FERRY_API ferry_status ferry_session_eval(ferry_session *session, const int32_t *ids, size_t n,
                                          const float **logits, ferry_error *error);
/* Forgets the positions from n_past on. A model with a state (LFM2), which belongs to all positions
 * together, goes back to a snapshot, or to nothing: ask ferry_session_n_past. */
FERRY_API void ferry_session_rewind(ferry_session *session, uint32_t n_past);
/* From any thread: the evaluation or decoding that runs, else the next one, ends with FERRY_EINTR
 * within the time of a layer. */
FERRY_API void ferry_session_cancel(ferry_session *session);

/* --- several sequences ---------------------------------------------------------------------- */

/* A session with n_seq sequences computes tokens of all of them together: the weights are read once
 * for all. A sequence's logits depend on its own tokens alone, bit for bit. The functions above
 * work on sequence 0. */
FERRY_API uint32_t ferry_session_n_seq(const ferry_session *session);

/* Appends token ids[i] to sequence seqs[i], for each i below n: prompts, parts of them
 * and single tokens, in any order. wants[i] not 0 asks for the logits of token i; wants NULL asks
 * for the last token of each sequence in the list. *logits (logits may be NULL) becomes the logits
 * of those that ask, one row of n_vocab after the other in the order of the list, valid until the
 * session's next call; NULL when none asks. At most n_seq tokens may ask, or 16 or n_logits where that is more.
 * The arrays are read, not kept. FERRY_EFIT: the context of a sequence is full, the message tells
 * which. After a failure every sequence is as it was before. Nothing is allocated. */
FERRY_API ferry_status ferry_session_decode(ferry_session *session, const int32_t *ids,
                                            const uint32_t *seqs, const uint8_t *wants, size_t n,
                                            const float **logits, ferry_error *error);

/* Positions filled; 0 for a sequence that the session does not have. */
FERRY_API uint32_t ferry_session_seq_n_past(const ferry_session *session, uint32_t seq);
/* Forgets the positions from n_past on. */
FERRY_API void ferry_session_seq_rewind(ferry_session *session, uint32_t seq, uint32_t n_past);
/* Remembers where a sequence stands, so that a rewind can come back here; for the end of a turn, or of
 * what prompts share. It goes when the sequence is rewound to before it, or one of 32, or of 128 MB in
 * all sequences, is one too many. Nothing happens where a rewind goes anywhere. */
FERRY_API void ferry_session_snapshot(ferry_session *session, uint32_t seq);
/* Sequence `to` becomes the first n_past positions of `from`, without computing them: the beginning
 * that prompts share. FERRY_EUSAGE when `from` holds fewer, FERRY_EFAILED when a rewind of it could
 * not end there. */
FERRY_API ferry_status ferry_session_seq_copy(ferry_session *session, uint32_t from, uint32_t to,
                                              uint32_t n_past, ferry_error *error);

/* What a sequence holds, n tokens `ids`, as bytes: put gets them piece by piece, in order, and returns 0, or
 * what ends this with FERRY_EFAILED. They are a file of docs/prompt-cache.md, snapshots included, which
 * `ferry run --prompt-cache` reads, too. FERRY_EUSAGE when the sequence holds another number of tokens. */
typedef int (*ferry_put_fn)(void *user, const void *bytes, size_t n_bytes);
FERRY_API ferry_status ferry_session_save(ferry_session *session, uint32_t seq, const int32_t *ids,
                                          size_t n, ferry_put_fn put, void *user,
                                          ferry_error *error);
/* Sequence `seq` becomes what these bytes have in common with a text of n tokens, or of that what it can
 * go on from: evaluate the rest, from ferry_session_seq_n_past on, and at least the last one. The logits
 * are those of evaluating all of it. The bytes are checked whole, and not kept. FERRY_EFAILED for bytes that
 * are damaged, FERRY_EUSAGE for those of another model, other types of cache or other kernels. */
FERRY_API ferry_status ferry_session_load(ferry_session *session, uint32_t seq, const void *bytes,
                                          size_t n_bytes, const int32_t *ids, size_t n,
                                          ferry_error *error);

/* --- speculation ---------------------------------------------------------------------------- */

/* Several tokens of a step: guesses of the next ones are computed together with one, and where the next token is
 * a guess its logits are there already. They are the same logits as without, bit for bit, so the text
 * is the same, too. Works on sequence 0 of a session:
 *
 *     eval the prompt, begin; sample, next, sample, next, ...; settle
 */
enum {
    FERRY_SPEC_AUTO = 0,      /* lookup, then the draft model, as many guesses as pay: measured */
    FERRY_SPEC_LOOKUP = 1,    /* what followed the same tokens in the text before */
    FERRY_SPEC_DRAFT = 2,     /* a chain of the draft model's likeliest tokens */
    FERRY_SPEC_TREE = 3,      /* a tree of them */
    FERRY_SPEC_LOOKAHEAD = 4, /* the model's own guesses for later positions */
};

typedef struct {
    uint32_t struct_size;
    int32_t method;      /* FERRY_SPEC_... */
    uint32_t n_draft;    /* guesses of a step, at most; 0: 15 of auto, 11 of a tree, else 8; lookahead
                            takes as many as it needs. The session's n_logits has to be more. */
    int32_t n_threads;   /* of the draft model; 0: as for a session */
    ferry_model *draft;  /* of DRAFT and TREE, and of AUTO where there is one; it has the model's tokens */
    uint32_t ngram, window, gcap; /* of LOOKAHEAD; 0: 5, 8, 8 */
} ferry_speculator_params;
FERRY_API void ferry_speculator_params_init(ferry_speculator_params *p, size_t struct_size);

/* For this session. FERRY_EUSAGE: the draft model has other tokens, or the model runs as graphs and
 * the method is no chain. */
FERRY_API ferry_status ferry_speculator_new(ferry_session *session,
                                            const ferry_speculator_params *params,
                                            ferry_speculator **speculator, ferry_error *error);
FERRY_API void ferry_speculator_free(ferry_speculator *speculator);

/* The text so far, which the session holds. */
FERRY_API ferry_status ferry_speculator_begin(ferry_speculator *speculator, const int32_t *ids,
                                              size_t n, ferry_error *error);
/* Appends `id` to the text: as ferry_session_eval of one token, with the same logits. n_more: tokens that
 * will follow it at most, -1 where that is not known. Between this and ferry_speculator_settle the session
 * holds guesses, too: nothing else may be done with its sequence 0. */
FERRY_API ferry_status ferry_speculator_next(ferry_speculator *speculator, ferry_session *session,
                                             int32_t id, int64_t n_more, const float **logits,
                                             ferry_error *error);
/* The session holds the text alone again, as after ferry_session_eval of all of it. */
FERRY_API void ferry_speculator_settle(ferry_speculator *speculator, ferry_session *session);

/* Since it was made: steps, guesses in them, and those that became text. */
FERRY_API void ferry_speculator_stats(const ferry_speculator *speculator, uint64_t *n_steps,
                                      uint64_t *n_draft, uint64_t *n_accepted);

/* --- sampler -------------------------------------------------------------------------------- */

typedef struct {
    int32_t id;
    float bias; /* added to the logit; -INFINITY: never chosen */
} ferry_logit_bias;

enum { FERRY_IGNORE_END = 1 }; /* never choose a token that ends the text */

typedef struct {
    uint32_t struct_size;
    uint32_t flags;               /* 0 */
    uint64_t seed;                /* 0 */
    float temperature;            /* 0: the likeliest token, after bias and penalties */
    int32_t top_k;                /* 40; 0: off */
    float top_p;                  /* 0.95; 1: off */
    float min_p;                  /* 0.05; 0: off */
    float typical_p;              /* 1: off */
    float repeat_penalty;         /* 1: off */
    float presence_penalty;       /* 0: off */
    float frequency_penalty;      /* 0: off */
    int32_t repeat_last_n;        /* 64: accepted tokens that the penalties see; -1: all */
    uint32_t n_bias;              /* 0 */
    const ferry_logit_bias *bias; /* NULL; copied */
    const char *order;            /* NULL: "penalties;top_k;typ_p;top_p;min_p;temperature" */
} ferry_sampler_params;
FERRY_API void ferry_sampler_params_init(ferry_sampler_params *p, size_t struct_size);

FERRY_API ferry_status ferry_sampler_new(ferry_model *model, const ferry_sampler_params *params,
                                         ferry_sampler **sampler, ferry_error *error);
FERRY_API void ferry_sampler_free(ferry_sampler *sampler);

/* Chooses from the n_vocab logits of a position: the same logits, parameters, accepted tokens and
 * seed give the same token on every machine. It is not accepted yet. */
FERRY_API ferry_status ferry_sampler_sample(ferry_sampler *sampler, const float *logits,
                                            int32_t *id, ferry_error *error);
/* Tells the penalties of a token of the text, of the prompt or chosen. */
FERRY_API ferry_status ferry_sampler_accept(ferry_sampler *sampler, int32_t id, ferry_error *error);
/* For a new text: no token is accepted, the draws start over, and there is no grammar. */
FERRY_API void ferry_sampler_reset(ferry_sampler *sampler, uint64_t seed);

/* --- structured output ----------------------------------------------------------------------- */

enum {
    FERRY_GRAMMAR_GBNF = 0,        /* llama.cpp's notation; the text must match the rule "root" */
    FERRY_GRAMMAR_JSON_SCHEMA = 1, /* a JSON Schema: the text is JSON that is valid under it */
};
/* Compiles a grammar for texts of this model. kind: FERRY_GRAMMAR_...; FERRY_EFAILED with line and
 * column where the text breaks its rules, FERRY_EFIT beyond the limits of docs/structured-output.md. A
 * grammar, and a sampler that uses it, keep the model's file open as a session does. */
FERRY_API ferry_status ferry_grammar_new(ferry_model *model, uint32_t kind, const char *text,
                                         size_t n_bytes, ferry_grammar **grammar,
                                         ferry_error *error);
FERRY_API void ferry_grammar_free(ferry_grammar *grammar);

/* From here on the accepted tokens are a text of this grammar, and only tokens that continue it are
 * chosen; one that ends the text exactly where it may end. Set it after the tokens of the prompt
 * are accepted, and accept every token that is chosen: one that does not fit is FERRY_EUSAGE. Where
 * the model's biases forbid all that the grammar allows, the grammar wins. NULL: no grammar. */
FERRY_API ferry_status ferry_sampler_set_grammar(ferry_sampler *sampler, ferry_grammar *grammar,
                                                 ferry_error *error);
/* Is the text whole, so that no token but one that ends it may follow? 0 without a grammar. */
FERRY_API int ferry_sampler_is_complete(const ferry_sampler *sampler);

/* --- chat ----------------------------------------------------------------------------------- */

/* which: NULL: the model's own; else a name of the model's templates, of a built-in one (`ferry
 * template --list`), or a file with a Jinja template. The model is not needed afterwards. */
FERRY_API ferry_status ferry_chat_template_open(ferry_model *model, const char *which,
                                                ferry_chat_template **chat, ferry_error *error);
FERRY_API void ferry_chat_template_free(ferry_chat_template *chat);

enum { FERRY_CHAT_ANSWER = 1 }; /* end with the text that begins an answer */

typedef struct {
    uint32_t struct_size;
    uint32_t flags;        /* FERRY_CHAT_ANSWER */
    const char *tools;     /* JSON list; NULL: none */
    const char *variables; /* JSON object: what else the template sees; NULL: nothing */
} ferry_chat_params;
FERRY_API void ferry_chat_params_init(ferry_chat_params *p, size_t struct_size);

/* The prompt of a conversation: messages is a JSON list of {"role": "user", "content": "..."}.
 * text, capacity and n_bytes as of ferry_detokenize; FERRY_RENDERED_CHAT makes ids of it. */
FERRY_API ferry_status ferry_chat_template_render(const ferry_chat_template *chat,
                                                  const char *messages,
                                                  const ferry_chat_params *params, char *text,
                                                  size_t capacity, size_t *n_bytes,
                                                  ferry_error *error);

#ifdef __cplusplus
}
#endif

#endif
