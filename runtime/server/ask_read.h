/* What readers of all APIs share: the JSON body, members by table, and the parameters that OpenAI's
 * and llama-server's requests have in common. Workers.
 *
 * Unknown members are ignored, null is absent; a known member of a wrong type or range is refused
 * with its name. */
#ifndef FY_SERVER_ASK_READ_H
#define FY_SERVER_ASK_READ_H

#include <jansson.h>

#include "server/generate.h"

/* The body as an object, or NULL when the request has been answered with 400. */
json_t *fy_body_read(fy_exchange *x);

/* A failure and the member that it is about: 400 when FY_EARG. */
typedef struct {
    fy_err e;
    char param[64];
} fy_bad_ask;
int fy_bad(fy_bad_ask *b, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Answers with it; frees k, which may be NULL. */
void fy_ask_refuse(fy_exchange *x, fy_ask *k, const fy_bad_ask *b);

/* Answers a request for text: reads the body, makes an ask, has `read` fill it, submits it. */
void fy_ask_handle(fy_exchange *x, const fy_reply_form *form, const char *id_prefix,
                   int (*read)(fy_ask *k, const json_t *o, fy_bad_ask *b));

/* The same of a body that has been read, which it takes. */
void fy_ask_handle_body(fy_exchange *x, json_t *o, const fy_reply_form *form, const char *id_prefix,
                        int (*read)(fy_ask *k, const json_t *o, fy_bad_ask *b));

typedef enum {
    FY_MEMBER_F32,     /* float within min..max */
    FY_MEMBER_F64,     /* double, the same */
    FY_MEMBER_I32,     /* int32_t, the same */
    FY_MEMBER_U32,     /* uint32_t, the same */
    FY_MEMBER_I64,     /* int64_t, the same */
    FY_MEMBER_BOOL,    /* bool */
    FY_MEMBER_NOT,     /* bool, the opposite of what is written */
    FY_MEMBER_NEUTRAL, /* a number that ferry has no use for: `min` or it is refused */
} fy_member_kind;

typedef struct {
    const char *name;
    fy_member_kind kind;
    size_t offset; /* in the struct that is read into */
    double min, max;
} fy_member;

/* Up to a row with a NULL name. */
int fy_members_read(const json_t *o, const fy_member *rows, void *into, fy_bad_ask *b);

/* Sampling, limits, stop strings, biases: what all requests for text may have, fields of
 * llama-server's /completion included. */
int fy_ask_read_common(fy_ask *k, const json_t *o, fy_bad_ask *b);

/* The grammar of the answers: "grammar", "json_schema", "response_format". Part of the above. */
int fy_ask_read_structure(fy_ask *k, const json_t *o, fy_bad_ask *b);

/* The text of an object's member; ptr NULL: it has none. The text is valid JSON. */
fy_span fy_member_text(fy_span object, const char *key, fy_err *e);
/* A schema, as it stands in the body under the name `param`. */
int fy_ask_take_schema(fy_ask *k, fy_span text, const char *param, fy_bad_ask *b);
/* {"type": "json_schema", "json_schema": {"schema": {...}}}, or the schema beside the type, as
 * llama-server takes it for both types of JSON; `text` is how the format stands in the body. */
int fy_ask_read_format(fy_ask *k, const json_t *format, fy_span text, const char *name,
                       fy_bad_ask *b);

/* A prompt: a string, ids, a mixed list, or a list of those; at least one, all added to k. */
int fy_ask_read_prompts(fy_ask *k, const json_t *prompt, const char *param, fy_bad_ask *b);
/* One string, a list of strings and ids, or {"prompt_string": "..."} or {"content": [text parts]}. */
int fy_read_ids(const fy_served *v, const json_t *prompt, bool add_special, bool parse_special,
                const char *param, fy_ids *out, fy_bad_ask *b);

/* "tools", "tool_choice" and "parallel_tool_calls" as OpenAI has them (ask_tools.c). */
int fy_read_tools(const fy_served *v, const json_t *o, fy_ask_tools *t, fy_bad_ask *b);

/* Calls that have to come become the grammar of the answers; for those that may come there is one
 * from their mark on (call_hold.h), unless the answers have a grammar of their own. */
int fy_force_tools(fy_ask *k, fy_bad_ask *b);

/* Of the member "messages": the text of the prompt, by the model's template. Takes
 * "chat_template_kwargs" and "add_generation_prompt" of the same object into account, too. */
int fy_read_messages(const fy_served *v, const json_t *o, const fy_ask_tools *tools, fy_str *out,
                     fy_bad_ask *b);

/* The same as the prompt of the ask; appends its end that opens a section of thinking. */
int fy_ask_read_conversation(fy_ask *k, const json_t *o, fy_str *opened, fy_bad_ask *b);

/* The tokens of the prompt that a conversation with tools becomes. */
int fy_count_conversation(const fy_served *v, const json_t *o, size_t *n, fy_bad_ask *b);

/* POST /v1/responses (api_responses.c): k is of that form. */
extern const fy_reply_form fy_responses_form;
int fy_responses_read(fy_ask *k, const json_t *o, fy_bad_ask *b);

/* POST /api/chat and /api/generate (api_ollama.c): k is of that form. */
extern const fy_reply_form fy_ollama_form;
int fy_ollama_read_chat(fy_ask *k, const json_t *o, fy_bad_ask *b);
int fy_ollama_read_generate(fy_ask *k, const json_t *o, fy_bad_ask *b);

/* --- filling in the middle (ask_infill.c) --- */

bool fy_can_infill(const fy_vocab *v);
/* "input_prefix", "input_suffix", "input_extra" and "prompt" become the prompt. fy_can_infill. */
int fy_ask_read_infill(fy_ask *k, const json_t *o, fy_bad_ask *b);
/* The text that follows what is asked for, of prompts that have been read. */
int fy_ask_read_suffix(fy_ask *k, const json_t *suffix, fy_bad_ask *b);

/* What a request for embeddings asks for. */
typedef struct {
    fy_ids *texts; /* owned, [n_texts]; none is empty or longer than a slot */
    size_t n_texts;
    bool is_content,
        base64;         /* is_content: "content" instead of "input", as llama-server once had it */
    int32_t normalize;  /* -1: not; 0: to 32760; 1, 2, ...: by that norm */
    int32_t dimensions; /* 0: not said */
} fy_embed_ask;
typedef enum {
    FY_EMBED_OPENAI,
    FY_EMBED_LLAMA,      /* llama-server's */
    FY_EMBED_OLLAMA,     /* /api/embed */
    FY_EMBED_OLLAMA_OLD, /* /api/embeddings: one text */
} fy_embed_form;
/* Answers the request, whose body may have been translated. Frees o. */
void fy_embed_handle(fy_exchange *x, json_t *o, fy_embed_form form);
int fy_embed_read(const fy_served *v, const json_t *o, fy_embed_ask *a, fy_bad_ask *b);
void fy_embed_ask_release(fy_embed_ask *a);

/* The string that is a member of an object; "" when it has none. */
const char *fy_member_word(const json_t *o, const char *key);
/* "a string", "a list", "nothing" for NULL: what a value is, for messages. */
const char *fy_json_type_name(const json_t *v);

#endif
