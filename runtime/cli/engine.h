/* What run and chat have in common: a model from a file or a workspace, a session whose cache is
 * reused from one prompt to the next, the generation loop, and its numbers. */
#ifndef FY_CLI_ENGINE_H
#define FY_CLI_ENGINE_H

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/machine.h"
#include "cli/spec_options.h"
#include "cli/verb_rows.h"
#include "model/model.h"
#include "model/prompt_cache.h"
#include "model/sample.h"

/* A verb embeds this as the field `engine` of its `options`, and FY_ROWS_MODEL and FY_ROWS_ENGINE,
 * the latter followed by a comma, in its rows. */
typedef struct {
    const char *model, *dir, *hub, *prompt_cache;
    bool fetch;
    int64_t n_ctx, n_threads, n_batch;
    int type_k, type_v;
    const char *sparse; /* fy_sparse_parse; NULL: auto */
    fy_machine_options machine;
    fy_spec_options spec; /* of a verb with FY_ROWS_SPEC; else zeroed, which is none */
    /* Of a verb that serves several texts; 0: one sequence. Graphs hold one: `sequences_are_asked`
     * makes that an error. */
    int64_t n_seq;
    bool sequences_are_asked;
    bool keeps_windows;     /* layers with the window keep that alone, unless ... */
    bool full_window_cache; /* ... this is asked */
    bool keeps_snapshots; /* at the ends of turns (fy_session_seq_snapshot); a saved cache has them
                           */
    bool shows_plan;      /* the plan of the memory at FY_LOG_INFO */
    const char *smaller;  /* options that make the session smaller; NULL: "-c or -b" */
} fy_engine_options;

#define FY_ROWS_MODEL                                                                             \
    {.group = "Model",                                                                            \
     .name = "model",                                                                             \
     .alias = "m",                                                                                \
     .kind = FY_OPT_STR,                                                                          \
     .arg = "FILE.gguf|DIR",                                                                      \
     .offset = offsetof(options, engine.model),                                                   \
     .help = "GGUF file to run, the directory of a model that was cut into chunks, a workspace, " \
             "or ORG/NAME[:TYPE] of the hub. The first argument means the same.",                 \
     .set = "model",                                                                              \
     .file = FY_FILE_WORKSPACE},                                                                  \
        {.group = "Model",                                                                        \
         .name = "work-folder",                                                                   \
         .alias = "d",                                                                            \
         .kind = FY_OPT_STR,                                                                      \
         .arg = "DIR",                                                                            \
         .offset = offsetof(options, engine.dir),                                                 \
         .help = "Workspace to run: its main model, with the defaults of its hparams.json.",      \
         .set = "model",                                                                          \
         .file = FY_FILE_WORKSPACE},                                                              \
        FY_ROWS_HUB_OF(engine.hub, engine.fetch)
/* The verb's fy_model_slots for these fields. */
#define FY_ENGINE_SLOTS(options, first)                                                       \
    {                                                                                         \
        .model = offsetof(options, engine.model), .workspace = offsetof(options, engine.dir), \
        .hub = offsetof(options, engine.hub), .fetch = offsetof(options, engine.fetch),       \
        .first_arg = first                                                                    \
    }
#define FY_ROW_PROMPT_CACHE(group_)                                                                \
    FY_LINE_STR(group_, "prompt-cache", "FILE", engine.prompt_cache,                               \
                "Take the beginning that the prompt has in common with this file from it instead " \
                "of computing it, and write all that was computed to it at the end.")
#define FY_ROW_FULL_WINDOW                                                                    \
    FY_LINE_FLAG("Machine", "full-window-cache", engine.full_window_cache,                    \
                 "Keep all positions in layers with a sliding window, too. Without it they "  \
                 "keep the window and one batch, which takes less memory and gives the same " \
                 "bits; a text that is taken back further is then computed again.")
#define FY_ROWS_ENGINE                                                                       \
    {.group = "Machine",                                                                     \
     .name = "ctx-size",                                                                     \
     .alias = "c",                                                                           \
     .kind = FY_OPT_INT,                                                                     \
     .arg = "N",                                                                             \
     .offset = offsetof(options, engine.n_ctx),                                              \
     .def = "0",                                                                             \
     .max = INT32_MAX,                                                                       \
     .help = "Positions of the context; 0: what the model was trained with, at most 4096."}, \
        FY_ROW_THREADS_OF(engine.n_threads), FY_ROW_BATCH_OF(engine.n_batch),                \
        FY_ROW_CACHE_K_OF(engine.type_k, "f16"), FY_ROW_CACHE_V_OF(engine.type_v, "f16"),    \
        FY_ROW_SPARSE_OF(engine.sparse), FY_ROWS_MACHINE_OF(engine.machine)

/* "auto", "exact", "off", "predict", "predict:THRESHOLD"; NULL is auto. *threshold: NAN when it is
 * not given. */
int fy_sparse_parse(const char *text, fy_sparse *out, float *threshold, fy_err *e);
/* Of a session that predicted neurons: logs the share of them that it computed. */
void fy_say_neurons(const fy_session *s);
/* What was counted since then; and "71.3 % of the experts in memory, 85.2 MB read for a token",
 * after `before`; nothing where memory is not limited. */
fy_expert_counts fy_experts_since(const fy_model *m, const fy_expert_counts *then);
void fy_experts_text(const fy_expert_counts *c, uint64_t n_tokens, const char *before, fy_str *out);

/* Opens a session once the memory it takes is known to be available (FY_EFIT otherwise), and
 * reports its size with -v. `smaller`: the verb's options that make it smaller, "-c". NULL on
 * failure. */
fy_session *fy_session_open(const fy_model *m, const fy_session_params *p, const char *smaller,
                            fy_err *e);

/* Its steps. "KV cache: 4096 positions x 16 layers, f16/f16: 128 MB; scratch: 31 MB" */
enum { FY_SESSION_TEXT_BYTES = 160 };
const char *fy_session_plan_text(const fy_model *m, const fy_session_plan *p,
                                 char out[FY_SESSION_TEXT_BYTES]);
/* FY_EFIT when `available` is known (not 0) and less than the plan. */
int fy_session_plan_check(const fy_model *m, const fy_session_plan *p, uint64_t available,
                          const char *smaller, fy_err *e);

typedef struct {
    const fy_engine_options *o;
    bool has_bundle;
    fy_bundle bundle; /* zeroed without -d */
    fy_model *model;
    const fy_vocab *vocab; /* view of model; NULL: the file has none (only when not needed) */
    fy_session *session;
    fy_session_plan plan;      /* of the session */
    fy_ids cached;             /* what the session's cache holds, n_past of them */
    fy_spec_method method;     /* of speculation */
    fy_model *draft;           /* owned; NULL: none */
    fy_speculator *speculator; /* owned; NULL: no speculation */
    fy_prompt_cache *stored;   /* owned: --prompt-cache; NULL: none, or no such file yet */
    double load_s;
} fy_engine;

/* On failure everything is released. The verb has called fy_machine_pin before. needs_vocab false:
 * a file without tokenizer is a warning. */
int fy_engine_open(fy_engine *g, const fy_engine_options *o, bool needs_vocab, fy_err *e);
void fy_engine_close(fy_engine *g);
/* Another speculator like g->speculator, which is not NULL. */
fy_speculator *fy_engine_new_speculator(fy_engine *g, fy_err *e);
const char *fy_engine_model_path(const fy_engine *g);

/* Times and counts of one prompt and its answer. */
typedef struct {
    const char *backend; /* what computed: fy_model_backend */
    const char *gpu;     /* a share of it: fy_model_gpu; NULL: none */
    double load_s, prompt_s, generate_s;
    double first_s;       /* from the start of the prompt to the first generated token */
    uint32_t n_prompt;    /* tokens of the prompt */
    uint32_t n_reused;    /* of them, found in the cache */
    uint32_t n_generated; /* tokens shown (an end token is not) */
    uint32_t n_evals;     /* tokens that generate_s measures, each with logits of its own */
    uint64_t n_steps;     /* of the model, with speculation; 0: there is none */
    uint64_t n_draft, n_draft_accepted; /* guesses */
    bool predicts;                      /* neurons are predicted, and of them ... */
    double neuron_share;                /* ... so many computed */
    fy_expert_counts experts;           /* of generate_s, where memory is limited; else all 0 */
} fy_timing;

typedef enum {
    FY_STOP_EOG,       /* the model ended its text */
    FY_STOP_LENGTH,    /* n tokens were generated */
    FY_STOP_CONTEXT,   /* the context is full */
    FY_STOP_INTERRUPT, /* Ctrl-C */
    FY_STOP_STRING,    /* the sink saw a stop string and returned 1 */
} fy_stop;
const char *fy_stop_name(fy_stop s); /* "stop", "length", "context", "interrupted", "string" */

/* Sees a generated token other than an end token, with the logits it was chosen from. 0: continue,
 * 1: stop (FY_STOP_STRING), -1: error. */
typedef int fy_token_sink(void *user, int32_t id, const float *logits, fy_err *e);

typedef struct {
    int64_t n; /* most tokens to generate; -1: until the model ends or the context is full */
    bool ignore_eos;
    const fy_eval_sinks *eval; /* for the prompt; not NULL: nothing is reused from the cache */
    fy_token_sink *token;
    /* The grammar of the text, NULL: none; view, begun by fy_engine_generate. Where `holds` is
     * given and returns false, the next token is free and not part of the grammar's text. */
    fy_matcher *grammar;
    bool (*holds)(void *user);
    void *user;
} fy_generate_params;

/* Computes the part of prompt that is not in the cache (at least its last token), then generates.
 * The sampler's window gets the prompt and each token. A full context and an interrupt are answers
 * (*why), except when the prompt itself does not fit (FY_EFIT) or was interrupted (FY_EINTR). After
 * a failure the cache holds what was computed. */
int fy_engine_generate(fy_engine *g, fy_sampler *s, const fy_ids *prompt,
                       const fy_generate_params *p, fy_timing *t, fy_stop *why, fy_err *e);

/* At the end of a verb that succeeded: writes what the session holds to --prompt-cache, unless the
 * file begins with it already. */
int fy_engine_save(const fy_engine *g, fy_err *e);

/* "load 2 ms | prompt 6 tokens 11493.2 tok/s | first token 1 ms | generated 44 tokens 5736.6 tok/s
 * | peak memory 11 MB (rss anon 2 MB) | cpu"; " (4 from the cache)" follows the prompt when some
 * were, " | 2.41 tokens a step" the rate with speculation. */
void fy_timing_line(const fy_timing *t, fy_str *out);
/* The same as members of a JSON object, without braces:
 * "backend":"cpu","load_ms":2.1,"prompt_tokens":6,... */
void fy_timing_json(const fy_timing *t, fy_str *out);

/* An open GGUF with the tokenizer.* keys of `path`, for a verb that needs nothing else of a model:
 * the file itself; the vocabulary of a workspace's main model, or of a model's directory with
 * ggml/weights.gguf; or, on the host, the result of `ferry convert --vocab-only` for a checkpoint
 * directory or one tokenizer file of it, in a temporary file that is gone when this returns (the
 * mapping stays). The conversion's warnings are shown, its other messages with --verbose only. NULL
 * on failure. */
fy_gguf *fy_vocab_source_open(const char *path, fy_err *e);

#endif
