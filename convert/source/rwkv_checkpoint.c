/* RWKV's files as BlinkDL publishes them: one .pth with the tensors and no configuration. Their
 * names say what model it is, their shapes how large. Sources: ChatRWKV
 * (rwkv_pip_package, model.py), RWKV-LM. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "convert/source/checkpoint_impl.h"

#define BLOCK "blocks.0."

static const fy_ckpt_tensor *found(const fy_ckpt *c, const char *name)
{
    return fy_ckpt_find(c, fy_span_of(name));
}

/* 5, 6 or 7; 0: none of them. */
static int version_of(const fy_ckpt *c)
{
    if (found(c, BLOCK "att.r_k") != NULL)
        return 7;
    if (found(c, BLOCK "att.time_maa_x") != NULL)
        return 6;
    return found(c, BLOCK "att.ln_x.weight") != NULL && found(c, BLOCK "att.time_decay") != NULL
               ? 5
               : 0;
}

/* Size `dim` of a tensor that has so many, and that is not 0. */
static int size_of(const fy_ckpt *c, const char *name, uint32_t dim, uint64_t *out, fy_err *e)
{
    const fy_ckpt_tensor *t = found(c, name);
    if (t == NULL)
        return fy_fail(e, FY_EFORMAT, "no tensor '%s', which says how large the model is", name);
    if (t->rank <= dim || t->shape[dim] == 0 || t->shape[dim] > INT32_MAX)
        return fy_fail(e, FY_EFORMAT,
                       "'%s' has %" PRIu32 " dimensions, expected %" PRIu32
                       " or more, from 1 to 2^31",
                       name, t->rank, dim + 1);
    *out = t->shape[dim];
    return 0;
}

/* Layers: one more than the largest number in a name. */
static uint64_t count_layers(const fy_ckpt *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->n_tensors; i++) {
        const fy_span name = c->tensors[i].name;
        uint64_t v = 0;
        size_t at = strlen("blocks.");
        if (!fy_span_begins(name, "blocks."))
            continue;
        for (; at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9' && v < INT32_MAX; at++)
            v = v * 10 + (uint64_t)(name.ptr[at] - '0');
        n = v + 1 > n ? v + 1 : n;
    }
    return n;
}

bool fy_rwkv_is(const fy_torch *t)
{
    return fy_torch_find(t, FY_SPAN("emb.weight")) != NULL &&
           fy_torch_find(t, FY_SPAN(BLOCK "ln0.weight")) != NULL;
}

static int write_config(fy_ckpt *c, fy_err *e)
{
    static const char *const classes[] = {"Rwkv5ForCausalLM", "Rwkv6ForCausalLM",
                                          "RWKV7ForCausalLM"};
    static const char *const heads[] = {BLOCK "att.time_decay", BLOCK "att.time_faaaa",
                                        BLOCK "att.r_k"};
    const int version = version_of(c);
    uint64_t vocab, width, n_ff, n_heads;
    if (version == 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "is a model of RWKV, but of none of the versions 5, 6 and 7 that ferry "
                       "computes: it has neither att.r_k nor att.time_maa_x nor att.ln_x with "
                       "att.time_decay (version 4 and before have none of them)");
    if (size_of(c, "emb.weight", 0, &vocab, e) || size_of(c, "emb.weight", 1, &width, e) ||
        size_of(c, BLOCK "ffn.key.weight", 0, &n_ff, e) ||
        size_of(c, heads[version - 5], 0, &n_heads, e))
        return -1;
    if (width % n_heads != 0)
        return fy_fail(e, FY_EFORMAT,
                       "'%s' has %" PRIu64 " heads, expected a divisor of the width %" PRIu64
                       " of emb.weight",
                       heads[version - 5], n_heads, width);
    fy_str_printf(&c->config,
                  "{\"architectures\":[\"%s\"],\"hidden_size\":%" PRIu64
                  ",\"num_hidden_layers\":%" PRIu64 ",\"intermediate_size\":%" PRIu64
                  ",\"vocab_size\":%" PRIu64 ",\"%s\":%" PRIu64 ",\"group_norm_epsilon\":64e-5}",
                  classes[version - 5], width, count_layers(c), n_ff, vocab,
                  version == 7 ? "head_dim" : "head_size", width / n_heads);
    return c->config.oom ? fy_nomem(e) : 0;
}

int fy_ckpt_take_rwkv(fy_ckpt *c, fy_err *e)
{
    for (size_t i = 0; i < c->files[0].n_tensors; i++) {
        if (fy_ckpt_add_tensor(c, &c->files[0].tensors[i], e))
            return -1; /* names are unique within a file */
    }
    return write_config(c, e);
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* What is measured: the low ranks, and the width of the channel mix. */
static uint32_t *measured(fy_hparams *hp, fy_dim d, uint32_t *per)
{
    *per = d == FY_D_RANK_MIX_5 ? 5 : 1;
    switch ((int)d) {
    case FY_D_FF:
        return &hp->n_ff;
    case FY_D_RANK_MIX:
    case FY_D_RANK_MIX_5:
        return &hp->n_rank_mix;
    case FY_D_RANK_DECAY:
        return &hp->n_rank_decay;
    case FY_D_RANK_ICLR:
        return &hp->n_rank_iclr;
    case FY_D_RANK_VALUE:
        return &hp->n_rank_value;
    case FY_D_RANK_GATE:
        return &hp->n_rank_gate;
    default:
        return NULL;
    }
}

void fy_rwkv_measure(const fy_ckpt *c, const fy_family *f, fy_hparams *hp)
{
    for (size_t i = 0; i < f->n_rows; i++) {
        const fy_tensor_row *row = &f->rows[i];
        char name[FY_ROW_NAME_BYTES];
        if (row->hf == NULL)
            continue;
        fy_row_name(row->hf, hp->n_layer > 1 ? 1 : 0, name); /* the first has no values to mix */
        const fy_ckpt_tensor *t = found(c, name);
        const fy_dim *dims = row->hf_dims[0] != FY_D_END ? row->hf_dims : row->dims;
        for (uint32_t d = 0; t != NULL && d < t->rank && d < 3 && dims[d] != FY_D_END; d++) {
            uint32_t per, *field = measured(hp, dims[d], &per);
            if (field != NULL && t->shape[d] > 0 && t->shape[d] <= INT32_MAX &&
                t->shape[d] % per == 0)
                *field = (uint32_t)(t->shape[d] / per);
        }
    }
}
