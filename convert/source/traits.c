/* Describes a GGUF model in sentences, from its keys and from which tensors it has: shape, block,
 * attention, positions, window, feed-forward, and the two ends. */
#include "convert/source/traits.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch/chunk_info.h"

enum { SENTENCE = 400, LISTED = 8 };

typedef struct {
    const fy_gguf *g;
    const fy_family *f;
    const fy_hparams *hp;
    fy_chunk_info part; /* what of the model is in the file */
    fy_str *out;
} teller;

static void tell(const teller *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void tell(const teller *t, const char *fmt, ...)
{
    char line[SENTENCE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fy_str_printf(t->out, "%s\n", line);
}

static bool has(const teller *t, const char *name)
{
    return fy_gguf_tensor_find(t->g, name) != NULL;
}

/* In the first layer that the file holds. */
static bool has_in_layer(const teller *t, const char *name)
{
    char full[FY_ROW_NAME_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s", t->part.first_layer, name);
    return has(t, full);
}

static const char *ordinal(uint32_t n)
{
    return n % 100 / 10 == 1 ? "th"
           : n % 10 == 1     ? "st"
           : n % 10 == 2     ? "nd"
           : n % 10 == 3     ? "rd"
                             : "th";
}

/* "every 4th layer", "layers 0, 4, 8", "5 of 26 layers (0, 2, ...)". */
static void which_layers(char out[SENTENCE], const fy_layer_set *s, uint32_t n_layer)
{
    uint32_t n = fy_layers_count(s);
    for (uint32_t period = 2; period <= n_layer && n > 1; period++) {
        fy_layer_set last = fy_layers_of((fy_layer_pattern){period, false}, n_layer);
        if (memcmp(&last, s, sizeof last) == 0) {
            snprintf(out, SENTENCE, "every %u%s layer", period, ordinal(period));
            return;
        }
    }
    size_t at = (size_t)snprintf(out, SENTENCE, n == 1 ? "layer" : "layers");
    uint32_t shown = 0;
    for (uint32_t i = 0; i < n_layer && shown < LISTED; i++) {
        if (fy_layer_in(s, i))
            at += (size_t)snprintf(out + at, SENTENCE - at, "%s %u", shown++ > 0 ? "," : "", i);
    }
    if (shown < n)
        snprintf(out + at, SENTENCE - at, " and %u more", n - shown);
}

static void tell_shape(const teller *t)
{
    const fy_hparams *hp = t->hp;
    tell(t, "%s: %u layer%s of width %u, vocabulary of %u, trained on %u positions", t->f->name,
         hp->n_layer, hp->n_layer == 1 ? "" : "s", hp->n_embd, hp->n_vocab, hp->n_ctx_train);
    if (hp->n_head == hp->n_head_kv)
        tell(t, "%u attention heads of %u", hp->n_head, hp->head_dim);
    else
        tell(t, "%u attention heads of %u share %u of keys and values", hp->n_head, hp->head_dim,
             hp->n_head_kv);
}

static void tell_scaling(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (has(t, "rope_freqs.weight"))
        tell(t, "the rates of rotation are divided by rope_freqs (llama3 scaling)");
    switch (hp->rope_scaling) {
    case FY_ROPE_SCALING_NONE:
        break;
    case FY_ROPE_SCALING_LINEAR:
        tell(t, "positions are divided by %g (linear scaling)%s", (double)hp->rope_factor,
             hp->rope_theta_swa > 0 ? " in layers without the window" : "");
        break;
    case FY_ROPE_SCALING_YARN:
        tell(t, "YaRN scaling by %g beyond %u positions", (double)hp->rope_factor,
             hp->rope_orig_ctx);
        break;
    case FY_ROPE_SCALING_LONGROPE:
        tell(t,
             "LongRoPE: a context above %u positions turns by the long factors, others by the "
             "short ones",
             hp->rope_orig_ctx);
        break;
    }
    if (hp->rope_attn_factor != 1)
        tell(t, "cosine and sine are multiplied by %g", (double)hp->rope_attn_factor);
}

static void tell_positions(const teller *t)
{
    const fy_hparams *hp = t->hp;
    char layers[SENTENCE];
    if (t->f->rope == FY_ROPE_NO) {
        tell(t, "positions are learned: no more than %u, and no rotation", hp->n_ctx_train);
        return;
    }
    tell(t, "RoPE turns %s of a head%s, base %g",
         t->f->rope == FY_ROPE_NORM ? "neighbouring elements"
                                    : "elements half the rotated width apart",
         hp->n_rot < hp->head_dim ? " (a part of it)" : "", (double)hp->rope_theta);
    if (hp->n_rot < hp->head_dim)
        tell(t, "%u of the %u elements of a head rotate", hp->n_rot, hp->head_dim);
    if (fy_layers_count(&hp->nope_layers) > 0) {
        which_layers(layers, &hp->nope_layers, hp->n_layer);
        tell(t, "no RoPE in %s", layers);
    }
    tell_scaling(t);
}

static void tell_window(const teller *t)
{
    const fy_hparams *hp = t->hp;
    char layers[SENTENCE];
    if (hp->n_swa == 0)
        return;
    uint32_t full = fy_layers_count(&hp->full_layers);
    if (full == 0) {
        tell(t, "a token sees the %u nearest positions only (sliding window)", hp->n_swa);
        return;
    }
    which_layers(layers, &hp->full_layers, hp->n_layer);
    tell(t, "in %u of %u layers a token sees the %u nearest positions only, in %s all",
         hp->n_layer - full, hp->n_layer, hp->n_swa, layers);
    if (hp->rope_theta_swa > 0)
        tell(t, "layers with the window rotate with base %g, unscaled", (double)hp->rope_theta_swa);
}

static void tell_attention(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (has_in_layer(t, "attn_q_norm.weight"))
        tell(t, "queries and keys are normed before they rotate");
    if (has_in_layer(t, "attn_q.bias") || has_in_layer(t, "attn_qkv.bias"))
        tell(t, "queries, keys and values have biases");
    float usual = 1.0F / sqrtf((float)hp->head_dim);
    if (hp->attn_scale > 0 && fabsf(hp->attn_scale - usual) > 1e-6F * usual)
        tell(t, "scores are multiplied by %g instead of 1/sqrt(%u)", (double)hp->attn_scale,
             hp->head_dim);
    if (hp->attn_softcap > 0)
        tell(t, "scores are capped softly at %g", (double)hp->attn_softcap);
}

static void tell_block(const teller *t)
{
    const fy_hparams *hp = t->hp;
    tell(t, "%s norms, epsilon %g", t->f->layer_norm ? "layer" : "RMS",
         (double)(t->f->layer_norm ? hp->norm_eps : hp->norm_rms_eps));
    if (!has_in_layer(t, "attn_norm.weight"))
        tell(t, "attention and feed-forward read the residual stream without a norm");
    if (has_in_layer(t, "post_attention_norm.weight"))
        tell(t, "what attention and feed-forward add is normed first");
    if (hp->parallel)
        tell(t, "attention and feed-forward work side by side on the layer's input");
    if (hp->residual_scale != 1)
        tell(t, "what a block adds is multiplied by %g", (double)hp->residual_scale);
}

static void tell_feed_forward(const teller *t)
{
    const fy_hparams *hp = t->hp;
    const char *act = fy_act_name(hp->act);
    bool gated = has_in_layer(t, "ffn_gate.weight") || hp->n_expert > 0;
    for (size_t i = 0; i < t->f->n_rows; i++)
        gated |= t->f->rows[i].slot == FY_T_FFN_GATE_UP;
    if (hp->act == FY_ACT_DRELU)
        tell(t, "feed-forward of width %u: relu(gate) * relu(up)", hp->n_ff);
    else if (gated)
        tell(t, "feed-forward of width %u: %s(gate) * up",
             hp->n_expert > 0 ? hp->n_ff_exp : hp->n_ff, act);
    else
        tell(t, "feed-forward of width %u: %s(up)", hp->n_ff, act);
    if (hp->act == FY_ACT_FATRELU)
        tell(t, "fatrelu passes values above %g", (double)hp->act_threshold);
    if (hp->n_expert == 0)
        return;
    tell(t, "%u of %u experts for each token, by %s, weights %s", hp->n_expert_used, hp->n_expert,
         hp->gating == FY_GATING_SIGMOID ? "sigmoid" : "softmax",
         hp->expert_norm ? "divided by their sum" : "as they are");
    if (hp->n_ff_shexp > 0)
        tell(t, "a shared expert of width %u for every token%s", hp->n_ff_shexp,
             has_in_layer(t, "ffn_gate_inp_shexp.weight") ? ", with a gate of its own" : "");
    if (t->f->early_router)
        tell(t, "experts are chosen by the residual stream as it enters the layer");
}

static void tell_ends(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (hp->embedding_scale != 1)
        tell(t, "the embedding is multiplied by %g", (double)hp->embedding_scale);
    if (t->part.kind == FY_CHUNK_WHOLE ? !has(t, "output.weight") : t->part.tied)
        tell(t, "the output matrix is the embedding (tied)");
    if (hp->logit_scale != 1)
        tell(t, "logits are divided by %g", (double)hp->logit_scale);
    if (hp->logit_softcap > 0)
        tell(t, "logits are capped softly at %g", (double)hp->logit_softcap);
}

int fy_traits(const fy_gguf *g, fy_str *out, fy_err *e)
{
    const fy_family *f = fy_family_of_file(g);
    fy_hparams hp;
    if (f == NULL)
        return 1;
    if (fy_hparams_from_gguf(g, f, &hp, e) != 0)
        return -1;
    teller t = {.g = g, .f = f, .hp = &hp, .out = out};
    if (fy_chunk_info_from_gguf(g, &hp, &t.part, e) != 0)
        return -1;
    const bool layers = t.part.kind == FY_CHUNK_WHOLE || t.part.kind == FY_CHUNK_LAYERS;
    tell_shape(&t);
    if (layers) {
        tell_block(&t);
        tell_attention(&t);
    }
    tell_positions(&t);
    tell_window(&t);
    if (layers)
        tell_feed_forward(&t);
    tell_ends(&t);
    return 0;
}
