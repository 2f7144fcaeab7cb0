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

/* In any layer that the file holds. */
static bool has_in_layer(const teller *t, const char *name)
{
    char full[FY_ROW_NAME_BYTES];
    bool found = false;
    for (uint32_t i = t->part.first_layer; i < t->part.end_layer && !found; i++) {
        snprintf(full, sizeof full, "blk.%u.%s", i, name);
        found = has(t, full);
    }
    return found;
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
    if (hp->wkv_head != 0)
        tell(t, "no attention: %u heads of %u, whose state takes %.3g MB of each sequence",
             hp->n_head, hp->wkv_head, (double)hp->n_layer * (double)fy_state_len(hp) * 4 / 1e6);
    else if (hp->kv_lora_rank > 0)
        tell(t,
             "%u attention heads of %u, queries out of %u values of a token, keys and values of %u "
             "out of %u (latent attention)",
             hp->n_head, hp->head_dim, hp->q_lora_rank, hp->head_dim_v, hp->kv_lora_rank);
    else if (hp->n_head == hp->n_head_kv)
        tell(t, "%u attention heads of %u", hp->n_head, hp->head_dim);
    else
        tell(t, "%u attention heads of %u share %u of keys and values", hp->n_head, hp->head_dim,
             hp->n_head_kv);
    if (hp->head_dim_swa != 0)
        tell(t, "in layers with the window heads have %u elements, and %u of keys and values",
             hp->head_dim_swa, hp->n_head_kv_swa != 0 ? hp->n_head_kv_swa : hp->n_head_kv);
    if (hp->n_embd_pl != 0)
        tell(t, "each layer gets %u numbers of every token from a table of its own", hp->n_embd_pl);
}

static void tell_streams(const teller *t)
{
    const fy_hparams *hp = t->hp;
    char layers[SENTENCE];
    if (hp->n_altup == 0)
        return;
    tell(t, "%u residual streams: a layer computes one and predicts the others (AltUp)",
         hp->n_altup);
    tell(t, "a branch of rank %u stands beside attention (LAuReL)", hp->n_laurel);
    if (fy_layers_count(&hp->sparse_layers) == 0)
        return;
    which_layers(layers, &hp->sparse_layers, hp->n_layer);
    tell(t, "in %s gates below mean + %.4g deviations count 0", layers, (double)hp->act_sparsity);
}

/* Whose keys and values a layer reads. */
static void tell_shared(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (hp->n_kv_shared != 0)
        tell(
            t,
            "the last %u layers have no keys and values: they read those of the last earlier layer "
            "of their kind",
            hp->n_kv_shared);
    if (hp->k_is_v)
        tell(t, "%s values are the keys before norm and rotation",
             hp->n_swa != 0 ? "in layers without the window" : "the");
    if (t->f->norm_values)
        tell(t, "values are normed, without a weight");
}

static void tell_mamba(const teller *t)
{
    const fy_hparams *hp = t->hp;
    char layers[SENTENCE];
    fy_layer_set mixers = {0}, ffn = {0};
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        fy_layer_put(&mixers, i, fy_layer_has_state(hp, i));
        fy_layer_put(&ffn, i, !fy_layer_in(&hp->no_ffn_layers, i));
    }
    which_layers(layers, &mixers, hp->n_layer);
    if (hp->ssm_place == FY_SSM_DELTA) {
        tell(t, "a gated delta net instead of attention in %s", layers);
        tell(
            t,
            "%u heads of %u values in it share %u of queries and keys of %u, a convolution over %u "
            "positions",
            hp->ssm_heads, hp->ssm_inner / hp->ssm_heads, hp->ssm_groups, hp->ssm_state,
            hp->ssm_conv);
        return;
    }
    if (hp->ssm_place == FY_SSM_BESIDE)
        tell(t, "attention and a Mamba-2 mixer side by side in every layer");
    else
        tell(t, "a Mamba-2 mixer instead of attention in %s", layers);
    tell(t,
         "%u heads of %u in the mixer, a state of %u, %u group%s, a convolution over %u positions",
         hp->ssm_heads, hp->ssm_inner / hp->ssm_heads, hp->ssm_state, hp->ssm_groups,
         hp->ssm_groups == 1 ? "" : "s", hp->ssm_conv);
    if (hp->ssm_place != FY_SSM_ALONE)
        return;
    which_layers(layers, &ffn, hp->n_layer);
    tell(t, "a feed-forward and nothing else in %s", layers);
}

static void tell_mixers(const teller *t)
{
    const fy_hparams *hp = t->hp;
    char layers[SENTENCE];
    if (hp->ssm_place != FY_SSM_NONE)
        tell_mamba(t);
    if (hp->ssm_place != FY_SSM_NONE || fy_layers_count(&hp->no_attn_layers) == 0 ||
        hp->wkv_head != 0)
        return;
    which_layers(layers, &hp->no_attn_layers, hp->n_layer);
    tell(t, "no attention in %s: a gated short convolution over %u positions", layers,
         hp->conv_len);
}

static void tell_scaling(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (has(t, "rope_freqs.weight"))
        tell(t, fy_row_of_slot(t->f, FY_T_ROPE_FREQS)->transform == FY_X_PART_FREQS
                    ? "in layers without the window a part of each head rotates (rope_freqs)"
                    : "the rates of rotation are divided by rope_freqs (llama3 scaling)");
    switch (hp->rope_scaling) {
    case FY_ROPE_SCALING_NONE:
        break;
    case FY_ROPE_SCALING_LINEAR:
        tell(t, "positions are divided by %g (linear scaling)%s", (double)hp->rope_factor,
             hp->rope_theta_swa > 0 ? " in layers without the window" : "");
        break;
    case FY_ROPE_SCALING_YARN:
        tell(t, "YaRN scaling by %g beyond %u positions%s", (double)hp->rope_factor,
             hp->rope_orig_ctx, hp->yarn_unrounded ? ", its ramp not rounded to whole pairs" : "");
        break;
    case FY_ROPE_SCALING_LONGROPE:
        tell(t,
             "LongRoPE: a context above %u positions turns by the long factors, others by the "
             "short ones",
             hp->rope_orig_ctx);
        break;
    }
    if (hp->temp_scale != 0)
        tell(t, "a query at position p is multiplied by 1 + %g ln(1 + floor(p / %u))",
             (double)hp->temp_scale, hp->rope_orig_ctx);
    if (hp->rope_attn_factor != 1 && hp->yarn_log_mul == 0)
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
    if (fy_layers_count(&hp->nope_layers) == hp->n_layer) {
        tell(t, "no rotation: attention does not see positions");
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
    fy_layer_set all = hp->full_layers;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        fy_layer_put(&all, i, fy_layer_in(&all, i) && !fy_layer_in(&hp->no_attn_layers, i));
    which_layers(layers, &all, hp->n_layer);
    tell(t, "in %u of %u layers a token sees the %u nearest positions only, in %s all",
         hp->n_layer - full, hp->n_layer, hp->n_swa, layers);
    if (hp->rope_theta_swa > 0)
        tell(t, "layers with the window rotate with base %g, unscaled", (double)hp->rope_theta_swa);
}

static void tell_attention(const teller *t)
{
    const fy_hparams *hp = t->hp;
    if (has_in_layer(t, "attn_q_norm.weight"))
        tell(t, "queries and keys are normed %s they rotate",
             t->f->norm_rotated ? "after" : "before");
    if (has_in_layer(t, "attn_q.bias") || has_in_layer(t, "attn_qkv.bias"))
        tell(t, "queries, keys and values have biases");
    if (has_in_layer(t, "attn_sinks.weight"))
        tell(t, "each head's softmax has a sink: a score without a value");
    float usual = 1.0F / sqrtf((float)hp->head_dim);
    if (hp->attn_scale > 0 && fabsf(hp->attn_scale - usual) > 1e-6F * usual)
        tell(t, "scores are multiplied by %g instead of 1/sqrt(%u)", (double)hp->attn_scale,
             hp->head_dim);
    tell_shared(t);
    if (hp->attn_softcap > 0)
        tell(t, "scores are capped softly at %g", (double)hp->attn_softcap);
    if (hp->gated_heads)
        tell(t, "what a head gives is multiplied by sigmoid(gate), one gate a head");
    if (hp->gated_queries)
        tell(t, "what attention gives is multiplied by sigmoid(gate), of which q has the rows");
}

static void tell_block(const teller *t)
{
    const fy_hparams *hp = t->hp;
    tell(t, "%s norms, epsilon %g", t->f->layer_norm ? "layer" : "RMS",
         (double)(t->f->layer_norm ? hp->norm_eps : hp->norm_rms_eps));
    if (!has_in_layer(t, "attn_norm.weight"))
        tell(t, "attention and feed-forward read the residual stream without a norm");
    if (fy_row_of_slot(t->f, FY_T_ATTN_POST_NORM) != NULL &&
        has_in_layer(t, "post_attention_norm.weight"))
        tell(t, "what attention and feed-forward add is normed first");
    if (hp->parallel)
        tell(t, "attention and feed-forward work side by side on the layer's input");
    if (hp->residual_scale != 1)
        tell(t, "what a block adds is multiplied by %g", (double)hp->residual_scale);
}

static void tell_widths(const teller *t)
{
    char layers[SENTENCE];
    for (int i = 0; i < FY_FF_WIDTHS && t->hp->ff_other[i].n_ff != 0; i++) {
        which_layers(layers, &t->hp->ff_other[i].layers, t->hp->n_layer);
        tell(t, "of width %u in %s", t->hp->ff_other[i].n_ff, layers);
    }
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
    else if (hp->act == FY_ACT_SWIGLU_OAI)
        tell(t,
             "feed-forward of width %u: g sigmoid(1.702 g) * (up + 1), g at most 7, up within 7 of "
             "0",
             hp->n_expert > 0 ? hp->n_ff_exp : hp->n_ff);
    else if (gated)
        tell(t, "feed-forward of width %u: %s(gate) * up",
             hp->n_expert > 0 ? hp->n_ff_exp : hp->n_ff, act);
    else
        tell(t, "feed-forward of width %u: %s(up)", hp->n_ff, act);
    if (hp->ff_other[0].n_ff != 0)
        tell_widths(t);
    if (hp->act == FY_ACT_FATRELU)
        tell(t, "fatrelu passes values above %g", (double)hp->act_threshold);
    if (hp->n_expert == 0)
        return;
    if (hp->n_dense_layers > 0)
        tell(t, "no experts in the first %u layers: a feed-forward of width %u", hp->n_dense_layers,
             hp->n_ff);
    tell(t, "%u of %u experts for each token, by %s, weights %s", hp->n_expert_used, hp->n_expert,
         hp->gating == FY_GATING_SIGMOID ? "sigmoid" : "softmax",
         hp->expert_norm ? "divided by their sum" : "as they are");
    if (fy_row_of_slot(t->f, FY_T_FFN_CHOICE_B) != NULL)
        tell(t, "a bias takes part in the choice of the experts, not in their weights");
    if (hp->n_ff_shexp > 0)
        tell(t, "a shared expert of width %u for every token%s", hp->n_ff_shexp,
             has_in_layer(t, "ffn_gate_inp_shexp.weight") ? ", with a gate of its own" : "");
    if (has_in_layer(t, "ffn_gate_exps.bias"))
        tell(t, "experts and their router have biases");
    if (t->f->early_router)
        tell(t, "experts are chosen by the residual stream as it enters the layer");
}

/* --- RWKV --- */

/* The decay of a value of version 5 or 6, or 7. */
static double decay_of(double v, bool is_7)
{
    return is_7 ? exp(-exp(-0.5) / (1 + exp(-v))) : exp(-exp(v));
}

/* From all layers' vectors, before what the tokens add to them. A checkpoint's are not at hand. */
static void tell_decay(const teller *t, bool is_7, const char *of_what)
{
    double least = 1, most = 0;
    for (uint32_t layer = t->part.first_layer; layer < t->part.end_layer; layer++) {
        char name[FY_ROW_NAME_BYTES];
        snprintf(name, sizeof name, "blk.%u.time_mix_%s.weight", layer, is_7 ? "w0" : "decay");
        const fy_gguf_tensor *tensor = fy_gguf_tensor_find(t->g, name);
        if (tensor == NULL || tensor->data == NULL || tensor->type != FY_F32)
            return;
        for (uint64_t i = 0; i + sizeof(float) <= tensor->bytes; i += sizeof(float)) {
            float v;
            memcpy(&v, tensor->data + i, sizeof v);
            least = fmin(least, decay_of((double)v, is_7));
            most = fmax(most, decay_of((double)v, is_7));
        }
    }
    tell(t, "a channel of the state keeps %.3g to %.3g of itself from token to token%s", least,
         most, of_what);
}

static void tell_rwkv(const teller *t)
{
    const fy_hparams *hp = t->hp;
    const bool is_7 = has_in_layer(t, "time_mix_k_k.weight"),
               is_6 = has_in_layer(t, "time_mix_w1.weight");
    if (is_7)
        tell(t,
             "RWKV 7: what a token writes replaces what stands there (low ranks: decay %u, rate of "
             "learning %u, values of the first layer %u, gate %u)",
             hp->n_rank_decay, hp->n_rank_iclr, hp->n_rank_value, hp->n_rank_gate);
    else if (is_6)
        tell(t, "RWKV 6: decay and token shift depend on the tokens (low ranks %u and %u)",
             hp->n_rank_decay, hp->n_rank_mix);
    else
        tell(t, "RWKV %s: decay and token shift are the same for all tokens, %s",
             has_in_layer(t, "time_mix_gate.weight") ? "5.1 or 5.2" : "5.0",
             has_in_layer(t, "time_mix_gate.weight") ? "with a gate" : "without a gate");
    tell_decay(t, is_7, is_7 || is_6 ? ", before what the tokens add" : "");
    tell(t, "norm of each head, epsilon %g", (double)hp->group_eps);
    tell(t, "channel mix of width %u: relu(up)^2%s", hp->n_ff,
         is_7 ? "" : ", down times a sigmoid of the receptance");
    if (hp->rescale_every != 0)
        tell(t, "the residual stream is halved after every %u layers", hp->rescale_every);
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
    tell_mixers(&t);
    tell_streams(&t);
    if (layers)
        tell_block(&t);
    if (hp.wkv_head != 0) {
        tell_rwkv(&t);
        tell_ends(&t);
        return 0;
    }
    if (layers)
        tell_attention(&t);
    tell_positions(&t);
    tell_window(&t);
    if (layers)
        tell_feed_forward(&t);
    tell_ends(&t);
    return 0;
}
