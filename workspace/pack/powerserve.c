/* What PowerServe's runtime expects beyond the layout: facts from its sources (src/core, src/model,
 * src/backend/ggml) at 0ec6d64. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "workspace/data/model_json.h"

/* --- limits ----------------------------------------------------------------------------------- */

static void add_reason(fy_str *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(fy_str *out, const char *fmt, ...)
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

/* The first tensor of a type it refuses. A model that is f32 throughout crashes it (seen; a
 * bug of it). */
static void check_type(const fy_gguf *g, fy_str *out)
{
    char name[FY_QUOTE_BYTES];
    bool all_f32 = true;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        if (!takes_type(t)) {
            add_reason(out, "%s is %s", fy_quote(name, sizeof name, t->name),
                       fy_type_name(t->type));
            return;
        }
        all_f32 = all_f32 && t->type == FY_F32;
    }
    if (all_f32)
        add_reason(out,
                   "all weights are f32, on which it crashes (a bug of it); f16, q8_0 and q4_0 "
                   "run");
}

static bool is_one_of(fy_span s, const char *const *list)
{
    while (*list != NULL && !fy_span_is(s, *list))
        list++;
    return *list != NULL;
}

/* The tensors of a block, after "blk.N.", with those of qwen2, and the others. */
static const char *const block_tensors[] = {
    "attn_norm.weight", "ffn_norm.weight", "attn_q.weight",   "attn_k.weight",      "attn_v.weight",
    "ffn_gate.weight",  "ffn_up.weight",   "ffn_down.weight", "attn_output.weight", NULL};
static const char *const qwen2_tensors[] = {"attn_q.bias", "attn_k.bias", "attn_v.bias", NULL};
static const char *const other_tensors[] = {"token_embd.weight", "output_norm.weight",
                                            "output.weight",
                                            "rope_freqs.weight", /* has a message of its own */
                                            NULL};

static bool reads_tensor(fy_span name, bool qwen2)
{
    size_t digits = 0;
    if (!fy_span_begins(name, "blk."))
        return is_one_of(name, other_tensors);
    while (4 + digits < name.len && name.ptr[4 + digits] >= '0' && name.ptr[4 + digits] <= '9')
        digits++;
    if (4 + digits == name.len || name.ptr[4 + digits] != '.')
        return false;
    name = (fy_span){name.ptr + digits + 5, name.len - digits - 5};
    return is_one_of(name, block_tensors) || (qwen2 && is_one_of(name, qwen2_tensors));
}

/* It ignores tensors that it does not know, so its results would be wrong. */
static void check_ignored(const fy_gguf *g, bool qwen2, fy_str *out)
{
    char name[FY_QUOTE_BYTES];
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        if (!reads_tensor(t->name, qwen2)) {
            add_reason(out, "%s is ignored", fy_quote(name, sizeof name, t->name));
            return;
        }
    }
}

/* Its tokenizer asserts that no two tokens are the same text. */
static void check_tokens(const fy_gguf *g, fy_str *out)
{
    const fy_gguf_kv *tokens = NULL;
    fy_names seen = {0};
    char shown[FY_QUOTE_BYTES];
    if (fy_gguf_get_array(g, FY_KEY_TOKENS, FY_KV_STRING, &tokens, NULL) != 0) {
        add_reason(out, "no " FY_KEY_TOKENS);
        return;
    }
    uint64_t pos = 0;
    for (uint64_t i = 0; i < tokens->count; i++) {
        fy_span token = fy_gguf_next_string(tokens, &pos);
        if (fy_names_add(&seen, token, 0) == 1) {
            add_reason(out, "token '%s' is there twice", fy_quote(shown, sizeof shown, token));
            break;
        }
    }
    fy_names_release(&seen);
}

static void check_tokenizer(const fy_gguf *g, fy_str *out)
{
    static const char *const kinds[] = {"llama", "gpt2", "bert", "t5", "rwkv", NULL};
    static const char *const pres[] = {
        "default",        "llama3",       "llama-v3",     "llama-bpe", "deepseek-llm",
        "deepseek-coder", "falcon",       "mpt",          "starcoder", "gpt-2",
        "phi-2",          "refact",       "command-r",    "qwen2",     "stablelm2",
        "olmo",           "dbrx",         "smaug-bpe",    "poro-chat", "viking",
        "jais",           "chatglm-bpe",  "tekken",       "smollm",    "codeshell",
        "bloom",          "exaone",       "jina-es",      "jina-de",   "jina-v2-es",
        "jina-v2-de",     "jina-v2-code", "gpt3-finnish", NULL,
    };
    fy_span kind, pre;
    char shown[FY_QUOTE_BYTES];
    if (fy_gguf_get_str(g, "tokenizer.ggml.model", &kind, NULL) != 0) {
        add_reason(out, "no tokenizer.ggml.model");
        return;
    }
    if (!is_one_of(kind, kinds))
        add_reason(out, "tokenizer '%s'", fy_quote(shown, sizeof shown, kind));
    bool bpe = fy_span_is(kind, "gpt2");
    if (bpe && fy_gguf_get_str(g, "tokenizer.ggml.pre", &pre, NULL) == 0 && !is_one_of(pre, pres))
        add_reason(out, "pre-tokenizer '%s'", fy_quote(shown, sizeof shown, pre));
    if (bpe && fy_gguf_find(g, "tokenizer.ggml.merges") == NULL)
        add_reason(out, "no tokenizer.ggml.merges");
    check_tokens(g, out);
}

void fy_powerserve_limits(const fy_gguf *g, const fy_family *f, const fy_hparams *hp, fy_str *out)
{
    bool qwen2 = strcmp(f->gguf_arch, "qwen2") == 0;
    bool known = qwen2 || strcmp(f->gguf_arch, "llama") == 0;
    if (!known)
        add_reason(out, "family %s is not llama or qwen2", f->gguf_arch);
    if (f->moe)
        add_reason(out, "%u experts", hp->n_expert);
    if (hp->act != FY_ACT_SILU)
        add_reason(out, "feed-forward with %s, which it computes as silu", fy_act_name(hp->act));
    if (hp->embedding_scale != 1 || hp->residual_scale != 1 || hp->logit_scale != 1 ||
        hp->attn_scale != 0)
        add_reason(out, "scales of embedding, residual stream, scores or logits");
    if (hp->rope_scaling == FY_ROPE_SCALING_YARN)
        add_reason(out, "yarn rope scaling");
    if (hp->rope_scaling == FY_ROPE_SCALING_LONGROPE)
        add_reason(out, "LongRoPE scaling");
    if (hp->rope_scaling == FY_ROPE_SCALING_LINEAR)
        add_reason(out, "linear rope scaling is only for its CPU, its NPU ignores it");
    if (fy_gguf_tensor_find(g, "rope_freqs.weight") != NULL)
        add_reason(out, "rope_freqs.weight (llama3 rope scaling) is ignored");
    if ((uint64_t)hp->head_dim * hp->n_head != hp->n_embd || hp->head_dim_v != hp->head_dim)
        add_reason(out, "heads of %u elements, expected embedding / heads = %u / %u", hp->head_dim,
                   hp->n_embd, hp->n_head);
    if (hp->n_rot != hp->head_dim)
        add_reason(out, "RoPE covers %u of %u elements", hp->n_rot, hp->head_dim);
    if (hp->n_swa > 0 && hp->n_swa < hp->n_ctx_train)
        add_reason(out, "its sliding window of %u positions is ignored", hp->n_swa);
    check_type(g, out);
    if (known)
        check_ignored(g, qwen2, out);
    check_tokenizer(g, out);
}

/* --- hparams.json ----------------------------------------------------------------------------- */

/* Its reader takes its own default for a key that is absent (temperature 0.8, top_k 40, top_p 0.95,
 * no penalties, a new seed), which is ferry's too: so only what the file recommends is written.
 * Greedy is top_k 1 there, since the runtime aborts at temperature 0; it aborts at top_k 0 as well,
 * where all tokens are meant. */
static int set_sampler(json_t *sampler, const fy_gguf *g)
{
    int rc = 0;
    bool draws = false;
    for (int h = 0; h < FY_HINTS; h++) {
        double v = fy_hint_of(g, (fy_hint)h, NULL);
        if (isnan(v) || (h == FY_HINT_LAST_N && v < 0))
            continue; /* it dies of a window of -1, all; ferry finds that in the model itself */
        draws |= fy_hints[h].draws;
        rc |= json_object_set_new(sampler, fy_hints[h].hparams,
                                  fy_hints[h].whole ? json_integer((json_int_t)v) : json_real(v));
    }
    const json_t *temp = json_object_get(sampler, "temperature"),
                 *top_k = json_object_get(sampler, "top_k");
    if (!draws || (temp != NULL && json_number_value(temp) == 0)) {
        rc |= json_object_set_new(sampler, "temperature", json_real(1));
        rc |= json_object_set_new(sampler, "top_p", json_real(1));
        rc |= json_object_set_new(sampler, "top_k", json_integer(1));
    } else if (top_k != NULL && json_integer_value(top_k) == 0) {
        rc |= json_object_set_new(sampler, "top_k", json_integer(INT32_MAX));
    }
    return rc;
}

int fy_hparams_json_text(const fy_gguf *g, fy_str *out, fy_err *e)
{
    json_t *sampler = json_object();
    if (sampler == NULL || set_sampler(sampler, g) != 0) {
        json_decref(sampler);
        return fy_nomem(e);
    }
    /* seven digits: a float 0.7 is written as 0.7 */
    return fy_json_text_digits(
        json_pack("{s:i, s:i, s:o}", "n_threads", 4, "batch_size", 128, "sampler", sampler), 7, out,
        e);
}
