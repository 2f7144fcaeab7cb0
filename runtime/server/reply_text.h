/* Pieces of JSON that the answers of several APIs have in common. */
#ifndef FY_SERVER_REPLY_TEXT_H
#define FY_SERVER_REPLY_TEXT_H

#include "server/generate.h"

fy_span fy_str_view(const fy_str *s);                         /* all of it; ptr is never NULL */
void fy_put_span(fy_str *out, const char *key, fy_span text); /* "key":"text" */
void fy_put_bytes(fy_str *out, fy_span bytes);                /* [104,105] */
void fy_put_base64(fy_str *out, fy_span bytes);
void fy_put_logprob(fy_str *out, float logprob); /* JSON has no infinity: -9999 then */
/* {"id":1,"token":"a","bytes":[97],"logprob":-0.5,"top_logprobs":[...]} of a token that was kept;
 * "prob" and "top_probs" with post_probs. */
void fy_put_said(const fy_answer *a, size_t i, fy_str *out);
/* The text of an id, its bytes where it is not UTF-8 replaced. */
void fy_put_token_text(const fy_vocab *v, int32_t id, fy_str *out);
/* "id":...,"object":"...","created":...,"model":...,"system_fingerprint":... */
void fy_put_openai_head(const fy_ask *k, const char *object, fy_str *out);
/* Ends the list of choices, and the answer: ],"usage":{"prompt_tokens":...},"timings":{...}} */
void fy_put_openai_end(const fy_ask *k, fy_str *out);
/* Ends a stream: the event with the usage, when it was asked for, and the last line. */
void fy_put_openai_close(const fy_ask *k, const char *object, fy_str *out);
/* ,"system_fingerprint":"..."; llama-server's begin with b. */
void fy_put_fingerprint(const fy_ask *k, fy_str *out);
/* "__verbose":{...}: the answer as /completion has it, its prompt included (api_completion.c). */
void fy_put_verbose(const fy_answer *a, fy_str *out);
/* Puts JSON as an event. */
void fy_put_event(fy_str *out, fy_str *json); /* releases json */

#endif
