/* What PowerServe's runtime expects beyond the layout: facts from its sources (src/core, src/model,
 * src/backend/ggml) at 0ec6d64. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/quote.h"
#include "workspace/model_json.h"

/* --- limits ----------------------------------------------------------------------------------- */

static void say(fy_str *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(fy_str *out, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_str_printf(out, "%s%s", out->len > 0 ? "; " : "", text);
}

static bool takes_type(const fy_gguf_tensor *t)
{
    bool matrix = t->n_dims > 1 && t->ne[1] > 1;
    if (!matrix)
        return t->type == FY_F32;
    if (fy_span_is(t->name, "token_embd.weight") && t->type == FY_F16)
        return false;
    return t->type == FY_F32 || t->type == FY_F16 || t->type == FY_Q8_0 || t->type == FY_Q4_0;
}

/* The first tensor of a type it refuses. */
static void say_type(const fy_gguf *g, fy_str *out)
{
    char name[FY_QUOTE_BYTES];
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        if (!takes_type(t)) {
            say(out, "%s is %s", fy_quote(name, sizeof name, t->name), fy_type_name(t->type));
            return;
        }
    }
}

void fy_powerserve_limits(const fy_gguf *g, const fy_family *f, const fy_hparams *hp, fy_str *out)
{
    if (strcmp(f->gguf_arch, "llama") != 0 && strcmp(f->gguf_arch, "qwen2") != 0)
        say(out, "family %s is not llama or qwen2", f->gguf_arch);
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN)
        say(out, "yarn rope scaling");
    if (fy_gguf_tensor_find(g, "rope_freqs.weight") != NULL)
        say(out, "rope_freqs.weight (llama3 rope scaling) is ignored");
    if ((uint64_t)hp->head_dim * hp->n_head != hp->n_embd || hp->head_dim_v != hp->head_dim)
        say(out, "heads of %u elements, expected embedding / heads = %u / %u", hp->head_dim,
            hp->n_embd, hp->n_head);
    if (hp->n_rot != hp->head_dim)
        say(out, "rope turns %u of %u elements", hp->n_rot, hp->head_dim);
    if (hp->n_swa > 0 && hp->n_swa < hp->n_ctx_train)
        say(out, "its sliding window of %u positions is ignored", hp->n_swa);
    say_type(g, out);
}

/* --- hparams.json ----------------------------------------------------------------------------- */

/* A recommended value within (0, max]; `def` when the file has none or another. */
static double sampling(const fy_gguf *g, const char *key, double max, double def)
{
    float v = 0;
    if (fy_gguf_get_f32(g, key, &v, NULL) != 0 || !isfinite(v) || v <= 0 || (double)v > max)
        return def;
    return v;
}

int fy_hparams_json_text(const fy_gguf *g, fy_str *out, fy_err *e)
{
    float temp = 1;
    uint32_t top_k = 0;
    bool greedy = fy_gguf_get_f32(g, "general.sampling.temp", &temp, NULL) == 0 && temp == 0;
    double t = sampling(g, "general.sampling.temp", 100, 0),
           p = sampling(g, "general.sampling.top_p", 1, 0);
    fy_gguf_get_u32(g, "general.sampling.top_k", &top_k, NULL);
    if (top_k > INT32_MAX)
        top_k = 0;
    /* greedy is written as top_k 1: its runtime aborts at temperature 0 and at top_k 0 (40 is its
     * own default) */
    if (greedy || (t <= 0 && p <= 0 && top_k == 0))
        top_k = 1;
    else if (top_k == 0)
        top_k = 40;
    return fy_json_text(
        json_pack("{s:i, s:i, s:{s:i, s:f, s:f, s:I, s:i, s:i, s:f, s:f, s:f, s:b, s:b}}",
                  "n_threads", 4, "batch_size", 128, "sampler", "seed", 0, "temperature",
                  t > 0 ? t : 1.0, "top_p", p > 0 ? p : 1.0, "top_k", (json_int_t)top_k, "min_keep",
                  0, "penalty_last_n", 64, "penalty_repeat",
                  sampling(g, "general.sampling.penalty_repeat", 10, 1.0), "penalty_freq", 0.0,
                  "penalty_present", 0.0, "penalize_nl", 0, "ignore_eos", 0),
        out, e);
}
