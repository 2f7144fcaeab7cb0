/* Small models with random weights for the tests of the engine, written as GGUF files. Any shape,
 * any weight type, with or without the optional tensors; and the same weights as doubles, for a
 * computation by hand. */
#ifndef FY_TESTS_TINY_MODEL_H
#define FY_TESTS_TINY_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/cpu.h"
#include "format/gguf_write.h"
#include "kernels/row.h"

typedef struct {
    const char *arch; /* general.architecture: "llama", "qwen3" */
    fy_hparams hp;    /* derived by tiny_write; with experts when n_expert is not 0 */
    fy_type type;     /* of the matrices */
    bool tied, biases;
    bool apart; /* where a family knows q, k and v as one matrix and as three: three; gate and up
                   likewise */
    bool two_norms;        /* of a parallel block whose family knows one and two */
    const char *leave_out; /* name of a tensor that is not written; NULL: none */
    const char *extra;     /* name of one more tensor; NULL: none */
    uint64_t extra_ne[2];  /* its shape; 0: [8] */
    const char *reshape;   /* name of a tensor that gets a row too many; NULL: none */
    const char *retype;    /* name of a tensor that gets type `retyped`; NULL: none */
    fy_type retyped;
} tiny_model;

static tiny_model tiny_default(void)
{
    return (tiny_model){
        .arch = "llama",
        .hp = {.n_vocab = 96,
               .n_ctx_train = 128,
               .n_embd = 64,
               .n_layer = 3,
               .n_ff = 160,
               .n_head = 4,
               .n_head_kv = 2,
               .head_dim = 32,
               .head_dim_v = 32,
               .n_rot = 32,
               .norm_rms_eps = 1e-5f,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .rope_factor = 1,
               .rope_attn_factor = 1,
               .yarn_beta_fast = 32,
               .yarn_beta_slow = 1},
        .type = FY_F32,
    };
}

static const fy_family *tiny_family(const tiny_model *m)
{
    return fy_family_of_gguf(fy_span_of(m->arch), m->hp.n_expert > 0);
}

/* The default shape with the traits of a family: 4 experts, 2 of them used, where it has them. */
static inline tiny_model tiny_of(const char *arch, bool experts)
{
    tiny_model t = tiny_default();
    const fy_family *f = fy_family_of_gguf(fy_span_of(arch), experts);
    t.arch = arch;
    t.hp.n_rot = 0;
    t.hp.act = f->defaults.act;
    t.hp.parallel = f->defaults.parallel;
    t.hp.attn_softcap = f->defaults.attn_softcap;
    t.hp.logit_softcap = f->defaults.logit_softcap;
    if (!experts)
        return t;
    t.hp.n_expert = 4;
    t.hp.n_expert_used = 2;
    t.hp.n_ff_exp = 96;
    t.hp.gating = f->defaults.gating;
    t.hp.expert_norm = f->defaults.expert_norm;
    return t;
}

/* Element i of the tensor called name: uniform in [-1, 1], the same on every machine. */
static float tiny_value(const char *name, uint64_t i)
{
    uint64_t h = 1469598103934665603u;
    for (const char *p = name; *p != '\0'; p++)
        h = (h ^ (uint8_t)*p) * 1099511628211u;
    h += (i + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
    return (float)((double)(h >> 11) * 0x1p-52 - 1);
}

/* Weights of a size that lets every part of the model matter. */
static void tiny_fill(const char *name, bool matrix, uint64_t row, uint64_t len, float *out)
{
    float scale = matrix ? 2.0f / sqrtf((float)len) : 0.3f;
    float offset = !matrix && strstr(name, ".bias") == NULL ? 1 : 0; /* norms, factors */
    for (uint64_t i = 0; i < len; i++)
        out[i] = offset + scale * tiny_value(name, row * len + i);
}

static int tiny_rows(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                     fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(user, i);
    char name[FY_ROW_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
    size_t bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]);
    if (!fy_row_can_encode(t->type)) { /* such tensors are only refused */
        memset(out, 0, n_rows * bytes);
        return 0;
    }
    float *x = malloc(t->ne[0] * sizeof *x);
    if (x == NULL)
        return -1;
    fy_kernels k = fy_kernels_for(0);
    int rc = 0;
    for (uint64_t r = 0; r < n_rows && rc == 0; r++) {
        fy_row_fault fault;
        tiny_fill(name, t->n_dims > 1, row + r, t->ne[0], x);
        rc = fy_row_encode(&k, t->type, (uint8_t *)out + r * bytes, x, (int64_t)t->ne[0], NULL, &fault);
    }
    free(x);
    return rc;
}

static bool tiny_knows(const tiny_model *m, fy_slot slot)
{
    const fy_family *f = tiny_family(m);
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].slot == slot)
            return true;
    }
    return false;
}

/* Is this tensor in the file? */
static bool tiny_has(const tiny_model *m, const fy_tensor_row *row)
{
    if (row->flags & FY_ROW_ALT)
        return false;
    if (!(row->flags & FY_ROW_OPTIONAL))
        return true;
    switch ((int)row->slot) {
    case FY_T_OUTPUT:
        return !m->tied;
    case FY_T_ROPE_FREQS:
        return false;
    case FY_T_ROPE_LONG:
    case FY_T_ROPE_SHORT:
        return m->hp.rope_scaling == FY_ROPE_SCALING_LONGROPE;
    case FY_T_ATTN_NORM_2:
    case FY_T_ATTN_NORM_2_B:
        return m->two_norms;
    case FY_T_ATTN_QKV:
    case FY_T_FFN_GATE_UP:
        return !m->apart;
    case FY_T_ATTN_QKV_B:
        return m->biases && !m->apart;
    case FY_T_ATTN_Q:
    case FY_T_ATTN_K:
    case FY_T_ATTN_V:
    case FY_T_FFN_GATE:
    case FY_T_FFN_UP:
        return m->apart;
    case FY_T_ATTN_Q_B:
    case FY_T_ATTN_K_B:
    case FY_T_ATTN_V_B:
        return m->biases && (m->apart || !tiny_knows(m, FY_T_ATTN_QKV_B));
    case FY_T_FFN_GATE_SHEXP:
    case FY_T_FFN_UP_SHEXP:
    case FY_T_FFN_DOWN_SHEXP:
        return m->hp.n_ff_shexp > 0;
    default:
        return m->biases;
    }
}

static bool tiny_is(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

static int tiny_add(const tiny_model *m, fy_gguf_writer *w, const fy_tensor_row *row,
                    uint32_t layer, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    fy_row_name(row->gguf, layer, name);
    const fy_hparams like = fy_hparams_of_layer(&m->hp, layer);
    uint32_t n = fy_row_shape(fy_row_is_layer(row) ? &like : &m->hp, row, ne);
    if (!tiny_has(m, row) || tiny_is(m->leave_out, name) || !fy_row_is_there(&m->hp, row) ||
        !fy_row_is_in_layer(&m->hp, row, layer))
        return 0;
    if (tiny_is(m->reshape, name))
        ne[n - 1]++;
    fy_type type = row->flags & FY_ROW_MATRIX ? m->type : FY_F32;
    if (tiny_is(m->retype, name))
        type = m->retyped;
    return fy_gguf_add_tensor(w, name, type, n, ne, e) < 0 ? -1 : 0;
}

static int tiny_add_all(tiny_model *m, fy_gguf_writer *w, const fy_family *f, fy_err *e)
{
    int rc = fy_gguf_add_str(w, "general.architecture", fy_span_of(m->arch), e);
    if (rc == 0)
        rc = fy_hparams_to_gguf(w, f, &m->hp, e);
    for (size_t i = 0; i < f->n_rows && rc == 0; i++) {
        uint32_t n = fy_row_is_layer(&f->rows[i]) ? m->hp.n_layer : 1;
        for (uint32_t layer = 0; layer < n && rc == 0; layer++)
            rc = tiny_add(m, w, &f->rows[i], layer, e);
    }
    if (rc == 0 && m->extra != NULL)
        rc = fy_gguf_add_tensor(w, m->extra, FY_F32, m->extra_ne[1] != 0 ? 2 : 1,
                                m->extra_ne[0] != 0 ? m->extra_ne : &(uint64_t){8}, e) < 0
                 ? -1
                 : 0;
    return rc;
}

/* Writes the model; 0, or -1 with *e. */
static int tiny_write(tiny_model *m, const char *path, fy_err *e)
{
    const fy_family *f = tiny_family(m);
    fy_gguf_writer *w = f != NULL ? fy_gguf_writer_new(e) : NULL;
    if (w == NULL)
        return -1;
    fy_hparams_derive(&m->hp, f);
    if (m->hp.n_swa > 0)
        m->hp.full_layers = fy_layers_of(f->full_attention, m->hp.n_layer);
    if (m->hp.n_swa > 0 || !f->nope_follows_swa)
        m->hp.nope_layers = fy_layers_of(f->no_rope, m->hp.n_layer);
    int rc = tiny_add_all(m, w, f, e);
    if (rc == 0)
        rc = fy_gguf_write(w, path, tiny_rows, w, NULL, NULL, e);
    fy_gguf_writer_free(w);
    return rc;
}

#endif
