/* Requests for text: from what an API's reader has filled in to answers, whatever the API.
 *
 * A reader (worker) makes a fy_ask, fills parameters and prompts, and hands it to fy_ask_submit. The
 * engine thread generates: sampling, stop strings, whole characters, log probabilities. A reply form,
 * one per API, turns what happens into bytes; generate.c sends them. fy_ask_submit takes the ask in
 * every case: it is freed after the end of its last answer. */
#ifndef FY_SERVER_GENERATE_H
#define FY_SERVER_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/sample.h"
#include "model/stop.h"
#include "model/text_out.h"
#include "server/call_hold.h"
#include "server/exchange.h"
#include "server/schedule.h"
#include "server/server.h"
#include "toolcall/toolcall.h"

enum { FY_ASK_ANSWERS_MAX = 64 }; /* prompts times choices */

/* The tools of a conversation. */
typedef struct {
    fy_tools *tools;              /* owned; NULL: the model is shown none */
    const fy_tool_format *format; /* how it writes calls */
    const fy_tool_format *marks;  /* the model's own: control tokens that are its marks are text */
    bool forced;                  /* the answer is nothing but calls */
    int only;                     /* the index of the tool that has to be called; -1: any */
    bool one;                     /* one call at most */
    fy_call_rules calls;          /* of calls that may come */
    const fy_think_marks *opened; /* of a section of thinking that the prompt opens; NULL: none */
} fy_ask_tools;
/* ask_tools.c. _hold fills `calls`. */
int fy_ask_tools_hold(fy_ask_tools *t, fy_err *e);
void fy_ask_tools_release(fy_ask_tools *t);

typedef struct fy_ask fy_ask;
typedef struct fy_answer fy_answer;

typedef enum {
    FY_END_NONE,    /* still running */
    FY_END_EOS,     /* the model ended it */
    FY_END_WORD,    /* a stop string */
    FY_END_LIMIT,   /* n_predict, or its time */
    FY_END_CONTEXT, /* the slot is full */
} fy_end;

/* A token of an answer, when they are kept (keeps_tokens). */
typedef struct {
    int32_t id;
    float logprob;       /* of the model: before bias and samplers; NAN: none (the first of a text).
                          * With post_probs: its probability, and that of the others, in the draw */
    size_t text, n_text; /* in answer->text: what came out with it */
    size_t raw, n_raw;   /* in answer->raw: its own bytes */
    size_t top;          /* in answer->top: its n_top likeliest */
} fy_said;

/* What an API makes of an answer: appends bytes to `out`. Engine thread. */
typedef struct {
    const char *stream_type; /* NULL: Server-Sent Events */
    /* Of a request without stream, when every answer has ended: one JSON object. */
    void (*whole)(fy_ask *k, fy_str *out);
    /* Of a stream: before anything else (may be NULL); new text (may be empty) with the tokens
     * [token, a->n_said) that came out with it; an answer has ended; all have (may be NULL). */
    void (*open)(fy_ask *k, fy_str *out);
    void (*piece)(fy_answer *a, fy_span text, size_t token, fy_str *out);
    /* With return_progress: the prompt has its slot, or more of it is computed; may be NULL. */
    void (*progress)(fy_answer *a, fy_str *out);
    void (*end)(fy_answer *a, fy_str *out);
    void (*close)(fy_ask *k, fy_str *out);
    /* A failure after the stream has begun; NULL: an event "error" as OpenAI's. */
    void (*fail)(fy_ask *k, const fy_api_refusal *r, const char *message, fy_str *out);
    void (*release)(fy_ask *k); /* frees k->state; may be NULL */
} fy_reply_form;

struct fy_answer {
    fy_seq_task task; /* first: a task is its answer */
    fy_ask *ask;  /* view */
    uint32_t index, prompt;
    uint64_t seed;
    fy_sampler *sampler; /* owned */
    fy_matcher *matcher; /* owned; of the ask's grammar; NULL: none */
    fy_call_hold *hold;  /* owned; of calls that may come; NULL: none */
    fy_text_out text_out;
    fy_str text;             /* owned: all that came out */
    fy_end end;
    uint32_t n_generated;    /* tokens, an end token not counted */
    bool is_prompted;        /* all of the prompt is computed */
    uint32_t n_draft, n_draft_accepted, n_guesses; /* guesses; of this step */
    bool guess_alone; /* its step has nothing else */
    double first_s, last_s;  /* when its first and last token were chosen; 0: none */
    fy_seq_end task_end;

    fy_said *said; /* owned; with keeps_tokens */
    size_t n_said, cap_said;
    size_t n_out;  /* tokens that came out */
    fy_str raw;    /* owned: the bytes of all tokens */
    bool raw_begun;  /* some text comes before the next token */
    size_t assigned; /* of text: bytes that belong to tokens that came out */
    size_t sent, n_sent; /* of text, of tokens: what the form has had */
    size_t n_echo;       /* bytes of text that are the prompt */
    fy_logprob *top; /* owned */
    size_t n_top, cap_top;
    size_t n_prompt_said; /* tokens of an echoed prompt in `said` */
    void *state;          /* of the form, released by it */
};

struct fy_ask {
    fy_exchange *x;          /* NULL: it was refused */
    fy_server *server;       /* view */
    const fy_served *served; /* view */
    const fy_reply_form *form;

    bool stream, include_usage, echo, ignore_eos, no_cache, return_tokens, timings_per_token;
    bool return_progress, verbose;
    bool keeps_tokens;   /* the form wants them; logprobs and return_tokens do, too */
    bool compat;         /* "?compat=llama": llama-server's names where ours differ */
    bool post_probs;     /* probabilities are those of the draw, not the model's */
    bool logprobs;       /* of every token */
    uint32_t n_top;      /* likeliest tokens with each */
    uint32_t n_choices;  /* of each prompt */
    int64_t n_predict;   /* -1: to the end of the context */
    double max_ms;       /* from the first token on; 0: no limit */
    int32_t slot;        /* -1: any */
    fy_sampler_params sampler;
    bool has_seed;
    fy_logit_bias *bias; /* owned */
    fy_stops *stops;     /* owned; NULL: none */
    fy_grammar *grammar; /* owned; what every answer has to match; NULL: its text is free */
    bool shows_marks;    /* marks of thinking and calls that are control tokens are part of the text */
    fy_ask_tools tools;
    fy_ids *prompts;     /* owned, [n_prompts] */
    size_t n_prompts;

    fy_answer *answers; /* owned, [n_answers]: the choices of prompt 0, then of 1, ... */
    size_t n_answers, n_ended;
    bool begun;         /* the stream is open */
    bool failed;
    uint64_t number;    /* at the end of its id */
    char id[48];
    int64_t created;
    void *state;        /* of the form */
    fy_str out;         /* owned: bytes of this step */
};

/* NULL: out of memory. The reader fills it; with fy_ask_free it takes it back. */
fy_ask *fy_ask_new(fy_exchange *x, const fy_reply_form *form, const char *id_prefix);
void fy_ask_free(fy_ask *k);
/* A prompt of these ids, which it takes. */
int fy_ask_add_prompt(fy_ask *k, fy_ids *ids, fy_err *e);
void fy_ask_submit(fy_ask *k);

/* "stop", "length", for OpenAI's forms. */
const char *fy_finish_reason(const fy_answer *a);
/* The stop string that ended it; ptr NULL: none. */
fy_span fy_stopping_word(const fy_answer *a);

typedef struct {
    uint64_t prompt, cached, completion;
} fy_usage;
fy_usage fy_ask_usage(const fy_ask *k); /* of all choices; each prompt once */
/* Appends {"cache_n":...,"prompt_n":...,...}, llama-server's timings. The first token comes with
 * the last step of the prompt: times and rates of the others begin there. */
void fy_put_timings(const fy_answer *a, fy_str *out);
/* Appends {"total":...,"cache":...,"processed":...,"time_ms":...} of the prompt. */
void fy_put_progress(const fy_answer *a, fy_str *out);

#endif
