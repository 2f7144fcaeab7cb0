/* Models, chips and recipes made by hand for the tests of NPU plans. Include it after cmocka.h. */
#ifndef FY_TESTS_NPU_FIXTURE_H
#define FY_TESTS_NPU_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "workspace/npu/npu_plan.h"

#define NPU_MIB ((uint64_t)1 << 20)
#define NPU_GIB ((uint64_t)1 << 30)

typedef struct {
    bool tied, biases, no_gate, learned; /* learned: a table of n_ctx_train positions */
} npu_shape;

static inline void npu_put(fy_npu_model *m, fy_slot slot, int64_t layer, uint64_t n_out,
                           uint64_t n_in)
{
    fy_npu_tensor *t = &m->tensors[m->n_tensors++];
    *t = (fy_npu_tensor){.slot = slot,
                         .layer = layer < 0 ? 0 : (uint32_t)layer,
                         .per_layer = layer >= 0,
                         .matrix = n_out != 0,
                         .n_out = n_out != 0 ? n_out : 1,
                         .n_in = n_in};
    if (__builtin_mul_overflow(t->n_out, t->n_in * (n_out != 0 ? 2 : 4), &t->file_bytes))
        t->file_bytes = UINT64_MAX / 1024 / 1024;
    m->file_bytes += t->file_bytes;
}

/* The tensors of a decoder with these hyperparameters, as an f16 file has them. */
static inline fy_npu_model npu_model(const fy_hparams *hp, npu_shape s)
{
    fy_npu_model m = {.family = fy_family_of_gguf(FY_SPAN("llama"), false), .hp = *hp};
    const uint64_t d = hp->n_embd, q = (uint64_t)hp->n_head * hp->head_dim,
                   k = (uint64_t)hp->n_head_kv * hp->head_dim,
                   v = (uint64_t)hp->n_head_kv * hp->head_dim_v,
                   qv = (uint64_t)hp->n_head * hp->head_dim_v;
    m.tensors = calloc(8 + 16 * (size_t)hp->n_layer, sizeof *m.tensors);
    m.tied = s.tied;
    npu_put(&m, FY_T_TOKEN_EMBD, -1, hp->n_vocab, d);
    if (s.learned)
        npu_put(&m, FY_T_POSITION_EMBD, -1, hp->n_ctx_train, d);
    npu_put(&m, FY_T_OUTPUT_NORM, -1, 0, d);
    if (!s.tied)
        npu_put(&m, FY_T_OUTPUT, -1, hp->n_vocab, d);
    for (uint32_t l = 0; l < hp->n_layer; l++) {
        npu_put(&m, FY_T_ATTN_NORM, l, 0, d);
        npu_put(&m, FY_T_ATTN_Q, l, q, d);
        npu_put(&m, FY_T_ATTN_K, l, k, d);
        npu_put(&m, FY_T_ATTN_V, l, v, d);
        if (s.biases) {
            npu_put(&m, FY_T_ATTN_Q_B, l, 0, q);
            npu_put(&m, FY_T_ATTN_K_B, l, 0, k);
            npu_put(&m, FY_T_ATTN_V_B, l, 0, v);
        }
        npu_put(&m, FY_T_ATTN_OUT, l, d, qv);
        npu_put(&m, FY_T_FFN_NORM, l, 0, d);
        if (!s.no_gate)
            npu_put(&m, FY_T_FFN_GATE, l, hp->n_ff, d);
        npu_put(&m, FY_T_FFN_UP, l, hp->n_ff, d);
        npu_put(&m, FY_T_FFN_DOWN, l, d, hp->n_ff);
    }
    return m;
}

static inline fy_hparams npu_hparams(uint32_t n_layer, uint32_t n_embd, uint32_t n_head,
                                     uint32_t n_head_kv, uint32_t n_ff, uint32_t n_vocab)
{
    return (fy_hparams){.n_vocab = n_vocab,
                        .n_ctx_train = 131072,
                        .n_embd = n_embd,
                        .n_layer = n_layer,
                        .n_ff = n_ff,
                        .n_head = n_head,
                        .n_head_kv = n_head_kv,
                        .head_dim = n_embd / n_head,
                        .head_dim_v = n_embd / n_head,
                        .n_rot = n_embd / n_head,
                        .rope_theta = 500000};
}

static inline fy_npu_model npu_llama_1b(void)
{
    const fy_hparams hp = npu_hparams(16, 2048, 32, 8, 8192, 128256);
    return npu_model(&hp, (npu_shape){.tied = true});
}

static inline fy_npu_model npu_llama_8b(void)
{
    const fy_hparams hp = npu_hparams(32, 4096, 32, 8, 14336, 128256);
    return npu_model(&hp, (npu_shape){0});
}

static inline fy_npu_model npu_llama_70b(void)
{
    const fy_hparams hp = npu_hparams(80, 8192, 64, 8, 28672, 128256);
    return npu_model(&hp, (npu_shape){0});
}

/* As SM8650 has them. */
static inline fy_soc npu_soc(void)
{
    static char name[] = "SM8650";
    return (fy_soc){.name = name,
                    .soc_id = 57,
                    .htp_arch = 75,
                    .vtcm_mb = 8,
                    .n_sessions = 4,
                    .session_bytes = 3840 * NPU_MIB,
                    .context_bytes = 3072 * NPU_MIB,
                    .file_bytes = 2048 * NPU_MIB,
                    .memory_bytes = 16 * NPU_GIB};
}

static inline fy_npu_recipe npu_recipe(fy_npu_type type, uint32_t kv_bits)
{
    static char name[] = "by-hand";
    return (fy_npu_recipe){.name = name,
                           .title = name,
                           .source = name,
                           .type = type,
                           .kv_bits = kv_bits,
                           .float_core = fy_npu_type_is_float(type)};
}

/* With the recipes that are compiled in, and none of this machine. */
static inline fy_npu_recipes *npu_own_recipes(void)
{
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    fy_npu_recipes *r = fy_npu_recipes_open(&e);
    if (r == NULL)
        fail_msg("%s", e.msg);
    return r;
}

#endif
