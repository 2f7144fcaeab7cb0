#include "arch/arch.h"

#include "base/log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/ferry-test-arch-XXXXXX";
static char path[64];

static fy_hparams small(void)
{
    return (fy_hparams){.n_vocab = 352,
                        .n_ctx_train = 256,
                        .n_embd = 64,
                        .n_layer = 2,
                        .n_ff = 96,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .norm_rms_eps = 1e-5F,
                        .rope_theta = 10000};
}

static const fy_family *family(const char *name)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (strcmp((*f)->name, name) == 0)
            return *f;
    }
    fail_msg("no family %s", name);
    return NULL;
}

static void unknown_fields_follow_from_the_known_ones(void **state)
{
    (void)state;
    fy_hparams hp = small();
    hp.n_head_kv = 0;
    fy_hparams_derive(&hp, family("llama"));
    assert_int_equal(hp.n_head_kv, 4);
    assert_int_equal(hp.head_dim, 16);
    assert_int_equal(hp.head_dim_v, 16);
    assert_int_equal(hp.n_rot, 16);
    assert_true(hp.rope_factor == 1 && hp.rope_attn_factor == 1);
    assert_true(hp.embedding_scale == 1 && hp.residual_scale == 1 && hp.logit_scale == 1);
    assert_true(hp.yarn_beta_fast == 32 && hp.yarn_beta_slow == 1);
    assert_int_equal(hp.rope_orig_ctx, 0);
    hp.rope_scaling = FY_ROPE_SCALING_YARN;
    fy_hparams_derive(&hp, family("llama"));
    assert_int_equal(hp.rope_orig_ctx, 256);
}

static void experts_are_as_wide_as_the_feed_forward_network_unless_told(void **state)
{
    (void)state;
    fy_hparams hp = small();
    fy_hparams_derive(&hp, family("llama"));
    assert_int_equal(hp.n_ff_exp, 0);
    fy_hparams_derive(&hp, family("mixtral"));
    assert_int_equal(hp.n_ff_exp, 96);
    hp.n_ff = 0;
    hp.n_ff_exp = 32;
    fy_hparams_derive(&hp, family("mixtral"));
    assert_int_equal(hp.n_ff, 32);
}

static void values_out_of_range_are_refused_by_key(void **state)
{
    (void)state;
    const struct {
        size_t offset;
        uint32_t value;
        const char *words;
    } cases[] = {
        {offsetof(fy_hparams, n_head), 0, "attention.head_count is 0"},
        {offsetof(fy_hparams, n_head_kv), 3, "not a multiple of attention.head_count_kv 3"},
        {offsetof(fy_hparams, head_dim), 15, "attention.key_length 15"},
        {offsetof(fy_hparams, n_rot), 18, "rope.dimension_count is 18"},
        {offsetof(fy_hparams, n_rot), 7, "rope.dimension_count is 7"},
        {offsetof(fy_hparams, n_layer), 1001, "block_count is 1001; expected 1 to 1000"},
        {offsetof(fy_hparams, n_vocab), 0x80000000u, "vocab_size is 2147483648"},
        {offsetof(fy_hparams, n_embd), 0, "embedding_length is 0"},
        {offsetof(fy_hparams, n_ff), 0, "feed_forward_length is 0"},
        {offsetof(fy_hparams, head_dim), 0x40000000u, "does not fit 31 bits"},
        {offsetof(fy_hparams, n_swa), 0xffffffffu, "attention.sliding_window"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hparams hp = small();
        fy_err e = {0};
        fy_hparams_derive(&hp, family("llama"));
        assert_int_equal(fy_hparams_check(&hp, family("llama"), &e), 0);
        *(uint32_t *)(void *)((char *)&hp + cases[i].offset) = cases[i].value;
        assert_int_equal(fy_hparams_check(&hp, family("llama"), &e), -1);
        assert_non_null(strstr(e.msg, cases[i].words));
    }
}

static void experts_out_of_range_are_refused_by_key(void **state)
{
    (void)state;
    const struct {
        size_t offset;
        uint32_t value;
        const char *words;
    } cases[] = {
        {offsetof(fy_hparams, n_expert), 0, "expert_count is 0"},
        {offsetof(fy_hparams, n_expert), 1025, "expert_count is 1025"},
        {offsetof(fy_hparams, n_expert_used), 0, "expert_used_count is 0"},
        {offsetof(fy_hparams, n_expert_used), 9, "expert_used_count 9 is above expert_count 8"},
        {offsetof(fy_hparams, gating), 3, "expert_gating_func is 3"},
        {offsetof(fy_hparams, n_ff_exp), 0x80000000u, "expert_feed_forward_length"},
    };
    const fy_family *f = family("mixtral");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hparams hp = f->defaults;
        fy_err e = {0};
        fy_hparams_derive(&hp, f);
        assert_int_equal(fy_hparams_check(&hp, f, &e), 0);
        *(uint32_t *)(void *)((char *)&hp + cases[i].offset) = cases[i].value;
        assert_int_equal(fy_hparams_check(&hp, f, &e), -1);
        assert_non_null(strstr(e.msg, cases[i].words));
    }
}

static void floats_that_break_arithmetic_are_refused(void **state)
{
    (void)state;
    const size_t fields[] = {
        offsetof(fy_hparams, norm_rms_eps),   offsetof(fy_hparams, rope_theta),
        offsetof(fy_hparams, rope_factor),    offsetof(fy_hparams, rope_attn_factor),
        offsetof(fy_hparams, yarn_beta_fast), offsetof(fy_hparams, yarn_beta_slow),
    };
    const float values[] = {-1, 0, NAN, INFINITY};
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            if (fields[f] == offsetof(fy_hparams, rope_factor) && values[v] == 0)
                continue; /* what files say that have no scaling; it becomes 1 */
            fy_hparams hp = small();
            fy_err e = {0};
            fy_hparams_derive(&hp, family("llama"));
            *(float *)(void *)((char *)&hp + fields[f]) = values[v];
            assert_int_equal(fy_hparams_check(&hp, family("llama"), &e), -1);
            assert_int_equal(e.code, FY_EFORMAT);
        }
    }
}

static void names_and_rows_are_found_both_ways(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (size_t i = 0; i < (*f)->n_rows; i++) {
            const fy_tensor_row *row = &(*f)->rows[i];
            uint32_t layer, wanted = fy_row_is_layer(row) ? 417 : 0;
            char name[FY_ROW_NAME_BYTES];
            fy_row_name(row->gguf, wanted, name);
            const fy_tensor_row *found = fy_row_of_gguf(*f, fy_span_of(name), &layer);
            assert_int_equal(layer, wanted);
            assert_true(strlen(name) <= FY_GGUF_MAX_NAME);
            if (!(row->flags & FY_ROW_ALT)) {
                assert_ptr_equal(found, row);
                continue;
            }
            assert_true(i > 0); /* of a row right above */
            assert_string_equal(row[-1].gguf, row->gguf);
            assert_int_equal(found->slot, row->slot);
            assert_memory_equal(found->dims, row->dims, sizeof row->dims);
        }
    }
}

static void names_that_only_look_alike_are_not_found(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "blk..attn_q.weight",
        "blk.00.attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk.1x.attn_q.weight",
        "blk.0.attn_q.weights",
        "blk.99999999999.attn_q.weight",
        "blk.0.attn_q",
        "token_embd.weight ",
        "blk.attn_q.weight",
        ".attn_q.weight",
        "blk.",
    };
    uint32_t layer;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_null(fy_row_of_gguf(family("llama"), fy_span_of(names[i]), &layer));
}

static void a_slot_stands_once_in_a_family_and_the_reader_covers_the_writers(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        bool seen[FY_T_COUNT] = {false};
        const fy_family *reader = fy_family_of_gguf(fy_span_of((*f)->gguf_arch), (*f)->moe);
        assert_non_null(reader);
        assert_int_equal(reader->rope, (*f)->rope);
        assert_int_equal(reader->layer_norm, (*f)->layer_norm);
        assert_int_equal(reader->early_router, (*f)->early_router);
        for (size_t i = 0; i < (*f)->n_rows; i++) {
            const fy_tensor_row *row = &(*f)->rows[i], *same;
            uint32_t layer;
            char name[FY_ROW_NAME_BYTES];
            assert_true(row->hf != NULL || fy_transform_is_computed(row->transform) ||
                        (row->flags & FY_ROW_OPTIONAL));
            assert_true(fy_row_n_stacked(&(*f)->defaults, row) == 0 ||
                        row->hf_dims[0] != FY_D_END);
            if (row->flags & FY_ROW_ALT)
                continue;
            assert_false(seen[row->slot]);
            seen[row->slot] = true;
            fy_row_name(row->gguf, 1, name); /* the first layer of RWKV 7 has rows of its own */
            same = fy_row_of_gguf(reader, fy_span_of(name), &layer);
            assert_non_null(same);
            assert_int_equal(same->slot, row->slot);
            assert_memory_equal(same->dims, row->dims, sizeof row->dims);
        }
    }
}

static void what_is_no_row_of_a_weight_matrix_stays_f32(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (size_t i = 0; i < (*f)->n_rows; i++) {
            const fy_tensor_row *row = &(*f)->rows[i];
            bool matrix = row->dims[1] != FY_D_END && row->slot != FY_T_FFN_ROUTER &&
                          row->slot != FY_T_POSITION_EMBD && row->slot != FY_T_CONV &&
                          row->slot != FY_T_FFN_GATE_EXPS_B && row->slot != FY_T_FFN_UP_EXPS_B &&
                          row->slot != FY_T_FFN_DOWN_EXPS_B && row->slot != FY_T_ALTUP_PREDICT &&
                          row->slot != FY_T_ALTUP_CORRECT &&
                          !(row->slot >= FY_T_UNUSED_0 && row->slot <= FY_T_UNUSED_2) &&
                          !(row->slot >= FY_T_MIX_LERP_5 && row->slot <= FY_T_MIX_R_K) &&
                          (row->slot < FY_T_SSM_CONV || row->slot > FY_T_SSM_NORM);
            assert_int_equal((row->flags & FY_ROW_MATRIX) != 0, matrix);
        }
    }
}

static void keys_name_fields_that_gguf_has_and_rules_are_complete(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (size_t i = 0; i < (*f)->n_keys; i++) {
            size_t row = 0;
            while (row < fy_n_hparam_rows && fy_hparam_rows[row].offset != (*f)->keys[i].field)
                row++;
            assert_true(row < fy_n_hparam_rows ||
                        (*f)->keys[i].field == offsetof(fy_hparams, n_qkv_groups) ||
                        (*f)->keys[i].field == offsetof(fy_hparams, k_is_v) ||
                        (*f)->keys[i].field == offsetof(fy_hparams, n_laurel) ||
                        (*f)->keys[i].field == offsetof(fy_hparams, n_vocab_pl));
        }
        for (size_t i = 0; i < (*f)->n_rules; i++)
            assert_true((*f)->rules[i].key != NULL && (*f)->rules[i].must != NULL);
    }
}

static void shapes_follow_from_the_hyperparameters(void **state)
{
    (void)state;
    fy_hparams hp = small();
    hp.head_dim = 32;
    fy_hparams_derive(&hp, family("llama"));
    const fy_family *f = family("llama");
    const struct {
        const char *name;
        uint32_t n;
        uint64_t ne0, ne1;
    } cases[] = {
        {"token_embd.weight", 2, 64, 352},    {"blk.0.attn_q.weight", 2, 64, 128},
        {"blk.0.attn_k.weight", 2, 64, 64},   {"blk.0.attn_output.weight", 2, 128, 64},
        {"blk.1.ffn_down.weight", 2, 96, 64}, {"blk.1.attn_q.bias", 1, 128, 1},
        {"rope_freqs.weight", 1, 16, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS];
        uint32_t layer;
        const fy_tensor_row *row = fy_row_of_gguf(f, fy_span_of(cases[i].name), &layer);
        assert_non_null(row);
        assert_int_equal(fy_row_shape(&hp, row, ne), cases[i].n);
        assert_int_equal(ne[0], cases[i].ne0);
        assert_int_equal(ne[1], cases[i].ne1);
        assert_int_equal(ne[2], 1);
    }
}

static void classes_and_architectures_name_families(void **state)
{
    (void)state;
    assert_string_equal(fy_family_of_hf(FY_SPAN("LlamaForCausalLM"))->name, "llama");
    assert_string_equal(fy_family_of_hf(FY_SPAN("MistralForCausalLM"))->gguf_arch, "llama");
    assert_string_equal(fy_family_of_hf(FY_SPAN("Qwen2ForCausalLM"))->name, "qwen2");
    assert_null(fy_family_of_hf(FY_SPAN("LlamaForCausal")));
    assert_string_equal(fy_family_of_gguf(FY_SPAN("llama"), false)->name, "llama");
    assert_string_equal(fy_family_of_gguf(FY_SPAN("llama"), true)->name, "mixtral");
    assert_null(fy_family_of_gguf(FY_SPAN("qwen2"), true));
    assert_null(fy_family_of_gguf(FY_SPAN("qwen2moe"), false));
    assert_null(fy_family_of_gguf(FY_SPAN(""), false));
}

static void families_of_one_class_differ_in_experts_or_mixers(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (const char *const *name = (*f)->hf_archs; *name != NULL; name++) {
            for (const fy_family *const *i = fy_families; i < f; i++) {
                for (const char *const *other = (*i)->hf_archs; *other != NULL; other++)
                    assert_true(strcmp(*name, *other) != 0 || (*i)->moe != (*f)->moe ||
                                (*i)->ssm_place != (*f)->ssm_place);
            }
            assert_string_equal(fy_family_of_hf(fy_span_of(*name))->hf_archs[0], (*f)->hf_archs[0]);
        }
    }
}

static void names_of_activations_are_understood(void **state)
{
    (void)state;
    for (int a = 0; a < FY_ACT_COUNT; a++) {
        const char *name = fy_act_name((fy_act_kind)a);
        assert_int_equal(fy_act_of(fy_span_of(name)), a);
    }
    assert_int_equal(fy_act_of(FY_SPAN("gelu_new")), FY_ACT_GELU_TANH);
    assert_int_equal(fy_act_of(FY_SPAN("gelu_pytorch_tanh")), FY_ACT_GELU_TANH);
    assert_int_equal(fy_act_of(FY_SPAN("swish")), FY_ACT_SILU);
    assert_int_equal(fy_act_of(FY_SPAN("gel")), FY_ACT_COUNT);
    assert_int_equal(fy_act_of(FY_SPAN("quick_gelu")), FY_ACT_COUNT);
}

static void a_pattern_of_layers_says_which_are_the_exceptions(void **state)
{
    (void)state;
    fy_layer_set last = fy_layers_of((fy_layer_pattern){4, false}, 10);
    fy_layer_set first = fy_layers_of((fy_layer_pattern){4, true}, 10);
    fy_layer_set none = fy_layers_of((fy_layer_pattern){0, false}, 10);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(fy_layer_in(&last, i), i == 3 || i == 7);
        assert_int_equal(fy_layer_in(&first, i), i == 0 || i == 4 || i == 8);
    }
    assert_int_equal(fy_layers_count(&last), 2);
    assert_int_equal(fy_layers_count(&first), 3);
    assert_int_equal(fy_layers_count(&none), 0);
    fy_layer_put(&none, FY_N_LAYER_MAX - 1, true);
    assert_true(fy_layer_in(&none, FY_N_LAYER_MAX - 1));
    fy_layer_put(&none, FY_N_LAYER_MAX - 1, false);
    assert_int_equal(fy_layers_count(&none), 0);
}

/* --- GGUF
 * ------------------------------------------------------------------------------------------------------
 */

static fy_gguf *reread(fy_gguf_writer *w)
{
    fy_err e = {0};
    assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e), 0);
    fy_gguf *g = fy_gguf_open(path, &e);
    assert_non_null(g);
    fy_gguf_writer_free(w);
    return g;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    fy_hparams plain = small(), yarn = small(), linear = small();
    plain.n_swa = 4096;
    yarn.rope_scaling = FY_ROPE_SCALING_YARN;
    yarn.rope_factor = 4;
    yarn.rope_orig_ctx = 64;
    yarn.rope_attn_factor = 1.25F;
    yarn.yarn_beta_fast = 16;
    linear.rope_scaling = FY_ROPE_SCALING_LINEAR;
    linear.rope_factor = 2.5F;
    fy_hparams *cases[] = {&plain, &yarn, &linear};
    for (size_t i = 0; i < 3; i++) {
        fy_err e = {0};
        fy_hparams_derive(cases[i], family("llama"));
        fy_gguf_writer *w = fy_gguf_writer_new(&e);
        assert_int_equal(fy_hparams_to_gguf(w, family("llama"), cases[i], &e), 0);
        fy_gguf *g = reread(w);
        fy_hparams back;
        assert_int_equal(fy_hparams_from_gguf(g, family("llama"), &back, &e), 0);
        assert_memory_equal(&back, cases[i], sizeof back);
        assert_int_equal(fy_gguf_find(g, "llama.rope.scaling.yarn_beta_fast") != NULL, i == 1);
        assert_int_equal(fy_gguf_find(g, "llama.rope.scaling.yarn_beta_slow") != NULL, false);
        assert_int_equal(fy_gguf_find(g, "llama.rope.scaling.type") != NULL, i > 0);
        assert_non_null(fy_gguf_find(g, "llama.rope.dimension_count"));
        fy_gguf_close(g);
    }
}

/* The defaults of a class on a small model whose layers are as its family has them. */
static fy_hparams usual(const fy_family *f)
{
    fy_hparams hp;
    memcpy(&hp, &f->defaults, sizeof hp); /* with its padding, which is compared */
    hp.n_layer = 9;
    hp.n_kv_shared = hp.n_kv_shared > 2 ? 2 : hp.n_kv_shared;
    hp.n_qkv_groups = 0; /* not in the file */
    if (hp.wkv_head != 0) {
        hp.n_embd = 2 * hp.wkv_head;
        hp.n_ff = 8 * hp.wkv_head;
    }
    if (hp.n_swa != 0)
        hp.full_layers = fy_layers_of(f->full_attention, hp.n_layer);
    hp.nope_layers = fy_usual_nope_layers(f, &hp);
    hp.ssm_inner = 64 * hp.ssm_heads;
    for (uint32_t i = 0; i < hp.n_layer; i++) {
        fy_layer_put(&hp.no_attn_layers, i,
                     i % 3 != 0 && f->ssm_place != FY_SSM_NONE && f->ssm_place != FY_SSM_BESIDE);
        if (f->ssm_place == FY_SSM_DELTA)
            hp.rope_sections[0] = 3;
        fy_layer_put(&hp.no_ffn_layers, i, i % 3 != 1 && f->ssm_place == FY_SSM_ALONE);
    }
    fy_hparams_derive(&hp, f);
    return hp;
}

static fy_hparams through_a_file(const fy_family *f, const fy_hparams *hp, fy_gguf **g)
{
    fy_err e = {0};
    fy_hparams back;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_int_equal(fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, fy_span_of(f->gguf_arch), &e), 0);
    assert_int_equal(fy_hparams_to_gguf(w, f, hp, &e), 0);
    *g = reread(w);
    const fy_family *reader = fy_family_of_file(*g);
    assert_ptr_equal(reader, fy_family_of_gguf(fy_span_of(f->gguf_arch), f->moe));
    assert_int_equal(fy_hparams_from_gguf(*g, reader, &back, &e), 0);
    return back;
}

static void what_any_family_writes_its_reader_reads_again(void **state)
{
    (void)state;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        fy_hparams hp = usual(*f);
        fy_gguf *g;
        fy_hparams back = through_a_file(*f, &hp, &g);
        assert_memory_equal(&back, &hp, sizeof hp);
        assert_null(fy_gguf_find(g, "ferry.rope_layers")); /* they follow from the family */
        fy_gguf_close(g);
        hp.act = hp.act == FY_ACT_RELU ? FY_ACT_GELU : FY_ACT_RELU;
        fy_layer_put(&hp.nope_layers, 1, (*f)->rope != FY_ROPE_NO);
        if ((*f)->rope_switch) /* all or none */
            hp.nope_layers = fy_layers_of((fy_layer_pattern){.period = 1}, hp.n_layer);
        fy_layer_put(&hp.full_layers, 1, hp.n_swa != 0);
        if ((*f)->swa_unscaled && hp.n_swa != 0)
            hp.rope_theta_swa = hp.rope_theta / 2;
        if ((*f)->defaults.rope_scaling != FY_ROPE_SCALING_NONE)
            hp.rope_scaling = FY_ROPE_SCALING_NONE;
        back = through_a_file(*f, &hp, &g);
        assert_memory_equal(&back, &hp, sizeof hp);
        fy_gguf_close(g);
    }
}

/* A file with the keys of small() except `without`, plus what `more` adds. */
static int read_back(const char *without, int (*more)(fy_gguf_writer *w, fy_err *e),
                     fy_hparams *out, fy_err *e)
{
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {
        {"qwen2.vocab_size", 352},         {"qwen2.context_length", 256},
        {"qwen2.embedding_length", 64},    {"qwen2.block_count", 2},
        {"qwen2.feed_forward_length", 96}, {"qwen2.attention.head_count", 4},
    };
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i].key, without) != 0)
            assert_int_equal(fy_gguf_add_u32(w, keys[i].key, keys[i].value, e), 0);
    }
    if (strcmp(without, "qwen2.attention.layer_norm_rms_epsilon") != 0)
        assert_int_equal(fy_gguf_add_f32(w, "qwen2.attention.layer_norm_rms_epsilon", 1e-6F, e), 0);
    if (more != NULL)
        assert_int_equal(more(w, e), 0);
    fy_gguf *g = reread(w);
    int rc = fy_hparams_from_gguf(g, family("qwen2"), out, e);
    fy_gguf_close(g);
    return rc;
}

static void a_missing_key_is_named(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "qwen2.vocab_size",
        "qwen2.context_length",
        "qwen2.embedding_length",
        "qwen2.block_count",
        "qwen2.feed_forward_length",
        "qwen2.attention.head_count",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        fy_err e = {0};
        fy_hparams hp;
        assert_int_equal(read_back(keys[i], NULL, &hp, &e), -1);
        assert_non_null(strstr(e.msg, i == 0 ? "vocab_size" : keys[i]));
    }
}

static char told[400];

static void keep_line(void *user, fy_log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

/* What older converters leave out is taken from the class or from llama.cpp, and named. */
static void a_missing_epsilon_or_base_is_announced(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_hparams hp;
    const fy_family *f = fy_family_of_hf(FY_SPAN("Qwen2ForCausalLM"));
    assert_int_equal(read_back("qwen2.attention.layer_norm_rms_epsilon", NULL, &hp, &e), 0);
    assert_true(hp.norm_rms_eps == f->defaults.norm_rms_eps && hp.norm_rms_eps != 0);
    assert_int_equal(read_back("qwen2.rope.freq_base", NULL, &hp, &e), 0);
    assert_true(hp.rope_theta == 10000);
    fy_gguf *g = fy_gguf_open(path, &e);
    assert_non_null(g);
    fy_log_set(keep_line, NULL);
    told[0] = '\0';
    fy_hparams_tell_missing(g, f, &hp);
    fy_log_set(NULL, NULL);
    fy_gguf_close(g);
    assert_string_equal(
        told, "key 'qwen2.rope.freq_base' is missing; 10000 is taken, as llama.cpp does\n");
}

static int wrong_type(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_str(w, "qwen2.attention.head_count_kv", FY_SPAN("two"), e);
}
static int zero_heads(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_u32(w, "qwen2.attention.head_count_kv", 0, e);
}
static int dynamic(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_str(w, "qwen2.rope.scaling.type", FY_SPAN("dynamic"), e);
}
static int quick_gelu(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_str(w, "qwen2.hidden_activation", FY_SPAN("quick_gelu"), e);
}
static int three_layers(fy_gguf_writer *w, fy_err *e)
{
    const uint8_t in[3] = {1, 0, 1};
    return fy_gguf_add_array(w, "ferry.rope_layers", FY_KV_BOOL, in, 3, e);
}
static int groups(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_u32(w, "qwen2.expert_group_count", 4, e);
}
static int not_causal(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_bool(w, "qwen2.attention.causal", false, e);
}
static int sections(fy_gguf_writer *w, fy_err *e)
{
    const int32_t s[4] = {16, 24, 24, 0};
    return fy_gguf_add_array(w, "qwen2.rope.dimension_sections", FY_KV_I32, s, 4, e);
}

static void keys_that_cannot_be_honoured_are_refused(void **state)
{
    (void)state;
    const struct {
        int (*more)(fy_gguf_writer *w, fy_err *e);
        const char *words;
    } cases[] = {
        {wrong_type, "qwen2.attention.head_count_kv"},
        {zero_heads, "qwen2.attention.head_count_kv is 0"},
        {dynamic, "'dynamic'"},
        {quick_gelu, "'quick_gelu'"},
        {three_layers, "ferry.rope_layers: expected a list of 2 values"},
        {groups, "qwen2.expert_group_count is 4"},
        {not_causal, "qwen2.attention.causal is 0"},
        {sections, "qwen2.rope.dimension_sections"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_hparams hp;
        assert_int_equal(read_back("", cases[i].more, &hp, &e), -1);
        assert_non_null(strstr(e.msg, cases[i].words));
    }
}

static int neutral(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_u32(w, "qwen2.expert_count", 0, e) ||
           fy_gguf_add_f32(w, "qwen2.logit_scale", 1, e) ||
           fy_gguf_add_bool(w, "qwen2.attention.causal", true, e);
}
static int factor_alone(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_f32(w, "qwen2.rope.scale_linear", 4, e);
}
static int tokens(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", e) ||
           fy_gguf_add_string(w, FY_SPAN("a"), e) || fy_gguf_add_string(w, FY_SPAN("b"), e) ||
           fy_gguf_end_strings(w, e);
}

static int window(fy_gguf_writer *w, fy_err *e)
{
    const uint8_t in[2] = {0, 1};
    return fy_gguf_add_u32(w, "qwen2.attention.sliding_window", 8, e) ||
           fy_gguf_add_array(w, "qwen2.attention.sliding_window_pattern", FY_KV_BOOL, in, 2, e);
}
static int period(fy_gguf_writer *w, fy_err *e)
{
    return fy_gguf_add_u32(w, "qwen2.attention.sliding_window", 8, e) ||
           fy_gguf_add_u32(w, "qwen2.attention.sliding_window_pattern", 2, e);
}

static void layers_with_the_window_are_a_list_or_a_period(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_hparams hp;
    assert_int_equal(read_back("", window, &hp, &e), 0);
    assert_int_equal(hp.n_swa, 8);
    assert_true(fy_layer_in(&hp.full_layers, 0) && !fy_layer_in(&hp.full_layers, 1));
    assert_int_equal(read_back("", period, &hp, &e), 0);
    assert_true(!fy_layer_in(&hp.full_layers, 0) && fy_layer_in(&hp.full_layers, 1));
}

static void other_spellings_are_understood(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_hparams hp;
    assert_int_equal(read_back("", neutral, &hp, &e), 0);
    assert_int_equal(hp.n_head_kv, 4);
    assert_true(hp.rope_theta == 10000);
    assert_int_equal(read_back("", factor_alone, &hp, &e), 0);
    assert_int_equal(hp.rope_scaling, FY_ROPE_SCALING_LINEAR);
    assert_true(hp.rope_factor == 4);
    assert_int_equal(read_back("qwen2.vocab_size", tokens, &hp, &e), 0);
    assert_int_equal(hp.n_vocab, 2);
}

static int make_dir(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.gguf", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    remove(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_fields_follow_from_the_known_ones),
        cmocka_unit_test(experts_are_as_wide_as_the_feed_forward_network_unless_told),
        cmocka_unit_test(values_out_of_range_are_refused_by_key),
        cmocka_unit_test(experts_out_of_range_are_refused_by_key),
        cmocka_unit_test(floats_that_break_arithmetic_are_refused),
        cmocka_unit_test(names_and_rows_are_found_both_ways),
        cmocka_unit_test(names_that_only_look_alike_are_not_found),
        cmocka_unit_test(a_slot_stands_once_in_a_family_and_the_reader_covers_the_writers),
        cmocka_unit_test(what_is_no_row_of_a_weight_matrix_stays_f32),
        cmocka_unit_test(keys_name_fields_that_gguf_has_and_rules_are_complete),
        cmocka_unit_test(shapes_follow_from_the_hyperparameters),
        cmocka_unit_test(classes_and_architectures_name_families),
        cmocka_unit_test(families_of_one_class_differ_in_experts_or_mixers),
        cmocka_unit_test(names_of_activations_are_understood),
        cmocka_unit_test(a_pattern_of_layers_says_which_are_the_exceptions),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_any_family_writes_its_reader_reads_again),
        cmocka_unit_test(a_missing_key_is_named),
        cmocka_unit_test(a_missing_epsilon_or_base_is_announced),
        cmocka_unit_test(keys_that_cannot_be_honoured_are_refused),
        cmocka_unit_test(layers_with_the_window_are_a_list_or_a_period),
        cmocka_unit_test(other_spellings_are_understood),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
