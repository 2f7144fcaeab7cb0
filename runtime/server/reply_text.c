/* JSON of tokens, probabilities and usage. */
#include "server/reply_text.h"

#include <math.h>

#include "base/json.h"
#include "model/text_out.h"

fy_span fy_str_view(const fy_str *s)
{
    return (fy_span){fy_str_z(s), s->len};
}

void fy_put_span(fy_str *out, const char *key, fy_span text)
{
    fy_str_printf(out, "\"%s\":", key);
    fy_json_put_string(out, text);
}

void fy_put_bytes(fy_str *out, fy_span bytes)
{
    fy_str_putc(out, '[');
    for (size_t i = 0; i < bytes.len; i++)
        fy_str_printf(out, "%s%u", i > 0 ? "," : "", (unsigned char)bytes.ptr[i]);
    fy_str_putc(out, ']');
}

void fy_put_base64(fy_str *out, fy_span bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        const size_t n = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t v = 0;
        for (size_t j = 0; j < 3; j++)
            v = v << 8 | (j < n ? (unsigned char)bytes.ptr[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            fy_str_putc(out, j <= n ? digits[v >> (18 - 6 * j) & 63] : '=');
    }
}

void fy_put_logprob(fy_str *out, float logprob)
{
    if (logprob > -9999) /* false for NAN, too */
        fy_str_printf(out, "%.9g", (double)logprob);
    else
        fy_str_puts(out, isnan(logprob) ? "null" : "-9999.0");
}

void fy_put_token_text(const fy_vocab *v, int32_t id, fy_str *out)
{
    fy_str raw = {0};
    fy_vocab_decode_one(v, id, true, &raw, NULL);
    fy_json_put_string(out, (fy_span){raw.ptr, raw.len});
    out->oom |= raw.oom;
    fy_str_release(&raw);
}

static void put_number(const fy_answer *a, float v, fy_str *out)
{
    fy_str_puts(out, a->ask->post_probs ? ",\"prob\":" : ",\"logprob\":");
    fy_put_logprob(out, v);
}

static void put_top(const fy_answer *a, const fy_logprob *p, fy_str *out)
{
    const fy_vocab *v = a->ask->served->vocab;
    fy_str raw = {0};
    fy_vocab_decode_one(v, p->id, true, &raw, NULL);
    fy_str_printf(out, "{\"id\":%d,\"token\":", p->id);
    fy_json_put_string(out, (fy_span){raw.ptr, raw.len});
    fy_str_puts(out, ",\"bytes\":");
    fy_put_bytes(out, (fy_span){raw.ptr, raw.len});
    put_number(a, p->logprob, out);
    fy_str_putc(out, '}');
    fy_str_release(&raw);
}

void fy_put_said(const fy_answer *a, size_t i, fy_str *out)
{
    const fy_said *s = &a->said[i];
    const fy_logprob *top = a->ask->n_top > 0 ? a->top + s->top : NULL;
    fy_str_printf(out, "{\"id\":%d,\"token\":", s->id);
    fy_json_put_string(out, (fy_span){fy_str_z(&a->text) + s->text, s->n_text});
    fy_str_puts(out, ",\"bytes\":");
    fy_put_bytes(out, (fy_span){fy_str_z(&a->raw) + s->raw, s->n_raw});
    put_number(a, s->logprob, out);
    fy_str_puts(out, a->ask->post_probs ? ",\"top_probs\":[" : ",\"top_logprobs\":[");
    for (uint32_t j = 0; j < a->ask->n_top && top[j].id >= 0; j++) {
        fy_str_puts(out, j > 0 ? "," : "");
        put_top(a, &top[j], out);
    }
    fy_str_puts(out, "]}");
}

static void put_usage(const fy_ask *k, fy_str *out)
{
    const fy_usage u = fy_ask_usage(k);
    fy_str_printf(
        out,
        "],\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%llu}},\"timings\":",
        (unsigned long long)u.prompt, (unsigned long long)u.completion,
        (unsigned long long)(u.prompt + u.completion), (unsigned long long)u.cached);
    fy_put_timings(&k->answers[0], out);
}

void fy_put_openai_head(const fy_ask *k, const char *object, fy_str *out)
{
    fy_str_printf(out, "\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", k->id, object,
                  (long long)k->created);
    fy_json_put_string(out, fy_span_of(k->served->name));
    fy_put_fingerprint(k, out);
}

void fy_put_openai_end(const fy_ask *k, fy_str *out)
{
    put_usage(k, out);
    if (k->verbose) {
        fy_str_putc(out, ',');
        fy_put_verbose(&k->answers[0], out);
    }
    fy_str_putc(out, '}');
}

void fy_put_openai_close(const fy_ask *k, const char *object, fy_str *out)
{
    fy_str json = {0};
    if (k->include_usage) {
        fy_str_putc(&json, '{');
        fy_put_openai_head(k, object, &json);
        fy_str_puts(&json, ",\"choices\":[");
        put_usage(k, &json);
        fy_str_putc(&json, '}');
        fy_put_event(out, &json);
    }
    fy_str_puts(out, FY_SSE_DONE);
}

void fy_put_fingerprint(const fy_ask *k, fy_str *out)
{
    fy_str_printf(out, ",\"system_fingerprint\":\"%s%s\"", k->compat ? "b0-" : "",
                  k->served->fingerprint);
}

void fy_put_event(fy_str *out, fy_str *json)
{
    fy_sse_put(out, NULL, fy_str_view(json));
    out->oom |= json->oom;
    fy_str_release(json);
}
