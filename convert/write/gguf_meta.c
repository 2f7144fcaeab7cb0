/* Writes the keys of the output file, and warns of what other GGUF readers overlook in them. */
#include "convert/write/gguf_meta.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/log.h"
#include "convert/source/model_card.h"
#include "convert/write/model_id.h"
#include "policy/type_policy.h"

json_t *fy_gguf_meta_model(const char *dir, const char *id, const char *name,
                           const fy_hf_config *config, const fy_convert_plan *p, fy_err *e)
{
    char label[FY_SIZE_LABEL_BYTES];
    json_t *card;
    if (fy_model_card_read(dir, &card, e))
        return NULL;
    if (p != NULL) {
        const uint32_t n = p->n_expert_params > 0 ? config->hp.n_expert : 0;
        const uint64_t others = n > 0 ? p->n_expert_params - p->n_expert_params / n : 0;
        fy_size_label(n, p->n_params - others, label);
    }
    const fy_model_source s = {
        .card = card,
        .config = config != NULL ? config->root : NULL,
        .id = id,
        .name = name,
        .n_params = p != NULL ? p->n_params : 0,
        .size_label = p != NULL ? label : NULL,
    };
    json_t *meta = fy_model_meta_new(&s, e);
    json_decref(card);
    return meta;
}

static int write_general(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e)
{
    const char *arch = m->config != NULL ? m->config->family->gguf_arch : "llama";
    return fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, fy_span_of(arch), e) ||
                   fy_gguf_add_str(w, "general.type", FY_SPAN("model"), e) ||
                   fy_model_meta_write(m->model, w, e) ||
                   (m->source_sha256 != NULL &&
                    fy_gguf_add_str(w, "ferry.source_sha256", fy_span_of(m->source_sha256), e))
               ? -1
               : 0;
}

/* The version of the block layouts is written for every type, as the reference writer does: a later
 * quantization then changes values and no key. */
static int write_file_type(fy_gguf_writer *w, const fy_convert_plan *p, fy_err *e)
{
    const int file_type = fy_recipe_ftype(p->file.recipe, p->file.type);
    if (fy_gguf_add_u32(w, FY_KEY_FILE_TYPE, (uint32_t)file_type, e))
        return -1;
    return fy_gguf_add_u32(w, FY_KEY_QUANTIZATION_VERSION, FY_QUANTIZATION_VERSION, e);
}

int fy_gguf_meta_write(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e)
{
    uint32_t n_rows = m->plan != NULL ? m->plan->config->hp.n_vocab : 0;
    if (write_general(w, m, e) ||
        (m->tokenizer != NULL && fy_hf_tokenizer_write_sampling(m->tokenizer, w, e)))
        return -1;
    if (m->config != NULL) {
        fy_hparams hp = m->config->hp;
        uint32_t n_tokens = m->tokenizer != NULL ? fy_hf_tokenizer_n_tokens(m->tokenizer) : 0;
        if (m->plan == NULL && n_tokens > hp.n_vocab)
            hp.n_vocab = n_tokens; /* no embedding here that the list must agree with */
        if (fy_hparams_to_gguf(w, m->config->family, &hp, e))
            return -1;
    }
    if (m->plan != NULL && write_file_type(w, m->plan, e))
        return -1;
    return m->tokenizer != NULL ? fy_hf_tokenizer_write(m->tokenizer, n_rows, w, e) : 0;
}

int fy_gguf_add_planned(fy_gguf_writer *w, const fy_convert_plan *plan, fy_err *e)
{
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const fy_plan_tensor *t = &plan->tensors[i];
        char name[FY_ROW_NAME_BYTES];
        fy_plan_name(t, name);
        if (fy_gguf_add_tensor(w, name, t->type, t->n_dims, t->ne, e) < 0)
            return -1;
    }
    return 0;
}

/* --- other GGUF readers ----------------------------------------------------------------------- */

static void warn(const fy_hf_config *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(const fy_hf_config *c, const char *fmt, ...)
{
    char what[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fy_log(FY_LOG_WARN,
           "%s: other programs that read architecture \"%s\" may overlook it and compute wrongly",
           what, c->family->gguf_arch);
}

static bool same_layers(const fy_layer_set *a, const fy_layer_set *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void warn_values(const fy_hf_config *c, const fy_family *reader)
{
    if (c->hp.act != reader->defaults.act)
        warn(c, "the activation is %s, not %s", fy_act_name(c->hp.act),
             fy_act_name(reader->defaults.act));
    if (c->hp.rope_scaling == FY_ROPE_SCALING_YARN &&
        (c->hp.yarn_beta_fast != 32 || c->hp.yarn_beta_slow != 1))
        warn(c, "the ramp of yarn goes from %g to %g rotations, not from 32 to 1",
             (double)c->hp.yarn_beta_fast, (double)c->hp.yarn_beta_slow);
    if (c->hp.rope_scaling == FY_ROPE_SCALING_YARN && c->hp.yarn_unrounded)
        warn(c, "the ends of yarn's ramp are not rounded to whole pairs");
    if (c->hp.n_expert > 0 && c->hp.expert_norm != reader->defaults.expert_norm)
        warn(c, "the weights of the experts are %sdivided by their sum",
             c->hp.expert_norm ? "" : "not ");
}

/* Others know the scale of Gemma's scores by the number of layers, which is that of 27B or not. */
static void warn_gemma(const fy_hf_config *c, const fy_family *reader)
{
    const fy_hparams *hp = &c->hp;
    const bool large = hp->n_layer == 46 || hp->n_layer == 62;
    const float usual = reader->defaults.attn_scale != 0
                            ? reader->defaults.attn_scale
                            : 1 / sqrtf((float)(large ? hp->n_embd / hp->n_head : hp->head_dim));
    if (hp->attn_scale != 0 && fabsf(hp->attn_scale - usual) > 1e-4F * usual)
        warn(c, "scores are multiplied by %.4g, not by %.4g", (double)hp->attn_scale,
             (double)usual);
    if ((reader->defaults.attn_softcap != 0 && hp->attn_softcap == 0) ||
        (reader->defaults.logit_softcap != 0 && hp->logit_softcap == 0))
        warn(c, "a soft cap is null");
}

static void warn_layers(const fy_hf_config *c, const fy_family *reader)
{
    const fy_hparams *hp = &c->hp;
    fy_layer_set full = fy_layers_of(reader->full_attention, hp->n_layer);
    fy_layer_set nope = fy_usual_nope_layers(reader, hp);
    if (hp->n_swa != 0 && hp->n_swa < hp->n_ctx_train && !reader->lists_swa_layers) {
        /* Others have windows where a pattern of layers has them, and SmallThinker's is fixed. */
        if (reader->full_attention.period == 0)
            warn(c, "attention has a window of %u tokens", hp->n_swa);
        else if (reader->nope_follows_swa && hp->n_swa != reader->defaults.n_swa)
            warn(c, "the window is %u tokens, not %u", hp->n_swa, reader->defaults.n_swa);
        else if (!same_layers(&full, &hp->full_layers))
            warn(c, "%u of %u layers have the window of %u tokens, not those usual in this family",
                 hp->n_layer - fy_layers_count(&hp->full_layers), hp->n_layer, hp->n_swa);
    }
    if (reader->swa_unscaled && hp->rope_theta_swa != 0 && hp->rope_theta_swa != hp->rope_theta)
        warn(c, "layers with the window rotate with base %g", (double)hp->rope_theta_swa);
    if (reader->alibi_layers != 0 && hp->n_layer != reader->defaults.n_layer)
        warn(c, "heads rotate, which others know by %u layers, and here are %u",
             reader->defaults.n_layer, hp->n_layer);
    if (!reader->rope_switch && !same_layers(&nope, &hp->nope_layers))
        warn(c, "%u of %u layers do not rotate, not those usual in this family",
             fy_layers_count(&hp->nope_layers), hp->n_layer);
}

/* Others take the last two layers with keys of their own for the ones that are read. */
static void warn_shared(const fy_hf_config *c)
{
    const fy_hparams *hp = &c->hp;
    const uint32_t n_own = hp->n_layer - hp->n_kv_shared;
    for (uint32_t i = n_own; i < hp->n_layer; i++) {
        if (fy_kv_owner(hp, i) != n_own - (fy_layer_has_window(hp, i) ? 2 : 1)) {
            warn(c, "layer %u reads the keys and values of layer %u", i, fy_kv_owner(hp, i));
            return;
        }
    }
}

void fy_warn_other_readers(const fy_hf_config *c)
{
    const fy_family *reader =
        fy_family_of_gguf(fy_span_of(c->family->gguf_arch), c->hp.n_expert > 0);
    if (reader == NULL)
        return;
    if (reader->own_arch)
        fy_log(FY_LOG_WARN,
               "general.architecture is \"%s\", a name of ferry's own: other programs do not read "
               "this file yet (docs/gguf.md says what is in it)",
               reader->gguf_arch);
    warn_values(c, reader);
    warn_layers(c, reader);
    warn_shared(c);
    if (reader->sqrt_embedding)
        warn_gemma(c, reader);
}
