#include "convert/write/convert_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "convert/write/convert_stream.h"
#include "policy/type_policy.h"
#include "kernels/row.h"
#include "tests/unit/convert/checkpoint.h"

/* A Llama of one layer: 2 heads of 4, one KV head. */
#define CONFIG                                                                          \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"num_attention_heads\": 2, "          \
    "\"num_key_value_heads\": 1, \"num_hidden_layers\": 1, \"intermediate_size\": 32, " \
    "\"vocab_size\": 6, \"hidden_size\": "
#define LAYER "model.layers.0."

enum { EMBD, NORM_1, Q, K, V, O, NORM_2, GATE, UP, DOWN, NORM, HEAD, N_TENSORS };
static const made_tensor plain[] = {
    [EMBD] = {"model.embed_tokens.weight", 6, 8},
    [NORM_1] = {LAYER "input_layernorm.weight", 8, 0},
    [Q] = {LAYER "self_attn.q_proj.weight", 8, 8},
    [K] = {LAYER "self_attn.k_proj.weight", 4, 8},
    [V] = {LAYER "self_attn.v_proj.weight", 4, 8},
    [O] = {LAYER "self_attn.o_proj.weight", 8, 8},
    [NORM_2] = {LAYER "post_attention_layernorm.weight", 8, 0},
    [GATE] = {LAYER "mlp.gate_proj.weight", 32, 8},
    [UP] = {LAYER "mlp.up_proj.weight", 32, 8},
    [DOWN] = {LAYER "mlp.down_proj.weight", 8, 32},
    [NORM] = {"model.norm.weight", 8, 0},
    [HEAD] = {"lm_head.weight", 6, 8},
};

typedef struct {
    fy_hf_config config;
    fy_ckpt *dir;
    fy_convert_plan *plan;
    fy_err e;
} world;

/* The plan of a checkpoint with the first n of `t` and CONFIG plus `more`. */
static void make_with(world *w, const made_tensor *t, size_t n, const char *more,
                      const fy_plan_options *o)
{
    *w = (world){0};
    char text[512];
    uint64_t width = 8;
    for (size_t i = 0; i < n; i++)
        width = strcmp(t[i].name, plain[EMBD].name) == 0 ? t[i].cols : width;
    snprintf(text, sizeof text, CONFIG "%u%s}", (unsigned)width, more);
    put_safetensors("model.safetensors", t, n);
    if (fy_hf_config_parse(&w->config, text, strlen(text), "config.json", &w->e) != 0)
        fail_msg("%s", w->e.msg);
    w->dir = fy_ckpt_open(made_dir, &w->e);
    assert_non_null(w->dir);
    w->plan = fy_convert_plan_new(w->dir, &w->config, o, &w->e);
}

static void make(world *w, const made_tensor *t, size_t n, const char *more, fy_type outtype)
{
    make_with(w, t, n, more, &(fy_plan_options){.outtype = outtype});
}

static void release(world *w)
{
    fy_convert_plan_free(w->plan);
    fy_ckpt_close(w->dir);
    fy_hf_config_release(&w->config);
}

static const fy_plan_tensor *find(const world *w, const char *name)
{
    for (size_t i = 0; i < w->plan->n_tensors; i++) {
        char have[FY_ROW_NAME_BYTES];
        fy_plan_name(&w->plan->tensors[i], have);
        if (strcmp(have, name) == 0)
            return &w->plan->tensors[i];
    }
    return NULL;
}

static void expect_failure(const made_tensor *t, size_t n, const char *more,
                           const char *const *words)
{
    world w;
    make(&w, t, n, more, FY_F32);
    assert_null(w.plan);
    assert_int_equal(w.e.code, FY_EFORMAT);
    for (; *words != NULL; words++) {
        if (strstr(w.e.msg, *words) == NULL)
            fail_msg("no '%s' in: %s", *words, w.e.msg);
    }
    release(&w);
}

#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void every_tensor_has_its_place(void **state)
{
    (void)state;
    world w;
    make(&w, plain, N_TENSORS, "", FY_F16);
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(w.plan->n_tensors, N_TENSORS);
    assert_int_equal(w.plan->n_drops, 0);
    assert_int_equal(w.plan->n_params, 48 + 8 + 64 + 32 + 32 + 64 + 8 + 3 * 256 + 8 + 48);
    assert_int_equal(find(&w, "blk.0.attn_norm.weight")->type, FY_F32);
    const fy_plan_tensor *down = find(&w, "blk.0.ffn_down.weight");
    assert_int_equal(down->type, FY_F16);
    assert_int_equal(down->ne[0], 32);
    assert_int_equal(down->ne[1], 8);
    assert_int_equal(find(&w, "token_embd.weight") - w.plan->tensors, 0);
    assert_int_equal(find(&w, "output.weight") - w.plan->tensors, N_TENSORS - 1);
    release(&w);
}

static void automatic_type_narrows_f32_to_f16(void **state)
{
    (void)state;
    world w;
    make(&w, plain, N_TENSORS, "", FY_OUTTYPE_AUTO);
    assert_non_null(w.plan);
    assert_int_equal(w.plan->file.type, FY_F16);
    assert_int_equal(find(&w, "blk.0.attn_q.weight")->type, FY_F16);
    release(&w);
}

static void rows_that_do_not_divide_stay_f16(void **state)
{
    (void)state;
    world w;
    make(&w, plain, N_TENSORS, "", FY_Q4_0);
    assert_non_null(w.plan);
    assert_int_equal(w.plan->file.type, FY_Q4_0);
    assert_int_equal(find(&w, "blk.0.ffn_down.weight")->type, FY_Q4_0); /* rows of 32 */
    assert_false(find(&w, "blk.0.ffn_down.weight")->fallback);
    assert_int_equal(find(&w, "blk.0.ffn_up.weight")->type, FY_F16); /* rows of 8 */
    assert_true(find(&w, "blk.0.ffn_up.weight")->fallback);
    assert_false(find(&w, "output_norm.weight")->fallback);
    release(&w);
}

static void the_output_is_left_out_when_it_is_tied(void **state)
{
    (void)state;
    world w;
    make(&w, plain, HEAD, ", \"tie_word_embeddings\": true", FY_F32);
    assert_non_null(w.plan);
    assert_null(find(&w, "output.weight"));
    release(&w);
    expect_failure(plain, HEAD, "", WORDS("lm_head.weight is missing", "tie_word_embeddings"));
}

static void a_tied_output_that_is_stored_must_equal_the_embedding(void **state)
{
    (void)state;
    /* contents count from 1000 times the index: another index, other contents */
    expect_failure(plain, N_TENSORS, ", \"tie_word_embeddings\": true",
                   WORDS("lm_head.weight differs from the embedding"));
}

static void what_is_no_weight_is_dropped_with_a_reason(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 2];
    memcpy(t, plain, sizeof plain);
    t[N_TENSORS] = (made_tensor){LAYER "self_attn.rotary_emb.inv_freq", 2, 0};
    t[N_TENSORS + 1] = (made_tensor){LAYER "attn.masked_bias", 1, 0};
    world w;
    make(&w, t, N_TENSORS + 2, "", FY_F32);
    assert_non_null(w.plan);
    assert_int_equal(w.plan->n_tensors, N_TENSORS);
    assert_int_equal(w.plan->n_drops, 2);
    assert_non_null(strstr(w.plan->drops[0].reason, "config.json"));
    release(&w);
}

static void all_problems_are_told_at_once(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS];
    memcpy(t, plain, sizeof plain);
    t[Q].name = LAYER "self_attn.q_prj.weight";
    t[GATE].rows = 31;
    t[NORM].name = "strange";
    expect_failure(
        t, N_TENSORS, "",
        WORDS("5 tensors do not fit a llama model", LAYER "self_attn.q_proj.weight is missing",
              "mlp.gate_proj.weight has shape [31, 8], config.json says [32, 8]",
              "model.norm.weight is missing",
              "nearest known name is " LAYER "self_attn.q_proj.weight", "strange is unknown"));
}

static void layers_beyond_the_config_are_told_so(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 1];
    memcpy(t, plain, sizeof plain);
    t[N_TENSORS] = (made_tensor){"model.layers.1.input_layernorm.weight", 8, 0};
    expect_failure(t, N_TENSORS + 1, "",
                   WORDS("model.layers.1.input_layernorm.weight is unknown", "says 1 layers"));
}

static void many_problems_are_counted(void **state)
{
    (void)state;
    expect_failure(plain, 1, "", WORDS("11 tensors do not fit", "more (-v lists them)"));
}

static void biases_are_required_by_their_flag_and_refused_without_it(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 1];
    memcpy(t, plain, sizeof plain);
    t[N_TENSORS] = (made_tensor){LAYER "self_attn.q_proj.bias", 8, 0};
    expect_failure(t, N_TENSORS + 1, "",
                   WORDS("q_proj.bias is there but attention_bias is not true"));
    expect_failure(
        t, N_TENSORS + 1, ", \"attention_bias\": true",
        WORDS("k_proj.bias is missing and attention_bias is true", "v_proj.bias", "o_proj.bias"));
    expect_failure(t, N_TENSORS, ", \"mlp_bias\": true",
                   WORDS("gate_proj.bias", "up_proj.bias", "down_proj.bias"));
}

static void llama3_scaling_adds_a_computed_tensor(void **state)
{
    (void)state;
    world w;
    make(&w, plain, N_TENSORS,
         ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4}",
         FY_Q8_0);
    assert_non_null(w.plan);
    const fy_plan_tensor *t = find(&w, "rope_freqs.weight");
    assert_non_null(t);
    assert_null(t->src);
    assert_int_equal(t->type, FY_F32);
    assert_int_equal(t->ne[0], 2);
    release(&w);
}

/* --- pass 2 ----------------------------------------------------------------------------------- */

static float out[512];

static int fill(const world *w, const char *name, uint64_t row, uint64_t n, fy_err *e)
{
    fy_convert_stream *s = fy_convert_stream_new(w->plan, 1, e);
    assert_non_null(s);
    int rc = fy_convert_fill(s, find(w, name) - w->plan->tensors, row, n, out, 0, e);
    fy_convert_stream_free(s);
    return rc;
}

static void rows_of_q_and_k_become_neighbours(void **state)
{
    (void)state;
    /* in a head of 4, row r of the output was row (0, 2, 1, 3)[r] */
    static const uint64_t source[] = {0, 2, 1, 3, 4, 6, 5, 7};
    world w;
    make(&w, plain, N_TENSORS, "", FY_F32);
    fy_err e = {0};
    assert_int_equal(fill(&w, "blk.0.attn_q.weight", 0, 8, &e), 0);
    for (size_t r = 0; r < 8; r++) {
        for (size_t i = 0; i < 8; i++)
            assert_true(out[r * 8 + i] == (float)(1000 * Q + source[r] * 8 + i));
    }
    assert_int_equal(fill(&w, "blk.0.attn_k.weight", 1, 2, &e),
                     0); /* a piece in the middle of a head */
    assert_true(out[0] == 1000 * K + 16 && out[8] == 1000 * K + 8);
    assert_int_equal(fill(&w, "blk.0.attn_v.weight", 1, 1, &e), 0);
    assert_true(out[0] == 1000 * V + 8);
    release(&w);
}

static void biases_are_permuted_by_element(void **state)
{
    (void)state;
    static const char *const names[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    made_tensor t[N_TENSORS + 4];
    char name[4][64];
    memcpy(t, plain, sizeof plain);
    for (size_t i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], LAYER "self_attn.%s.bias", names[i]);
        t[N_TENSORS + i] = (made_tensor){name[i], i == 0 || i == 3 ? 8 : 4, 0};
    }
    world w;
    make(&w, t, N_TENSORS + 4, ", \"attention_bias\": true", FY_F16);
    fy_err e = {0};
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(find(&w, "blk.0.attn_q.bias")->type, FY_F32);
    assert_int_equal(fill(&w, "blk.0.attn_q.bias", 0, 1, &e), 0);
    assert_true(out[1] == 1000 * N_TENSORS + 2 && out[2] == 1000 * N_TENSORS + 1 &&
                out[5] == 1000 * N_TENSORS + 6);
    assert_int_equal(fill(&w, "blk.0.attn_v.bias", 0, 1, &e), 0);
    assert_true(out[1] == 1000 * (N_TENSORS + 2) + 1);
    release(&w);
}

static void a_value_that_does_not_fit_is_found(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 60];
    /* contents reach 70000 and more when the last tensor is number 70 */
    for (size_t i = 0; i < 60; i++)
        t[i] = (made_tensor){"", 1, 0};
    char names[60][80];
    for (size_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "model.layers.0.%zu.rotary_emb.inv_freq", i);
        t[i].name = names[i];
    }
    memcpy(t + 60, plain, sizeof plain);
    world w;
    make(&w, t, N_TENSORS + 60, "", FY_F16);
    fy_err e = {0};
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(fill(&w, "blk.0.attn_v.weight", 0, 4, &e), 0); /* 64000: fits */
    assert_int_equal(fill(&w, "output.weight", 2, 2, &e), -1);      /* 71016 */
    assert_non_null(strstr(e.msg, "'output.weight' (lm_head.weight), row 2, element 0: 71016"));
    assert_non_null(strstr(e.msg, "--outtype bf16"));
    release(&w);
}

/* --- options -------------------------------------------------------------------------------- */

static void patterns_keep_matrices_in_other_types(void **state)
{
    (void)state;
    static const char *const texts[] = {"^blk\\.0\\.ffn_down=q8_0", "ffn_=bf16", "output=F32"};
    fy_err e = {0};
    world w;
    fy_type_rules *rules = fy_type_rules_new("--keep", FY_ROW_TYPES, texts, 3, &e);
    assert_non_null(rules);
    make_with(&w, plain, N_TENSORS, "", &(fy_plan_options){.outtype = FY_F16, .rules = rules});
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(find(&w, "blk.0.ffn_down.weight")->type, FY_Q8_0); /* the first counts */
    assert_int_equal(find(&w, "blk.0.ffn_up.weight")->type, FY_BF16);
    assert_int_equal(find(&w, "blk.0.attn_output.weight")->type, FY_F32);
    assert_int_equal(find(&w, "blk.0.attn_q.weight")->type, FY_F16);
    assert_int_equal(find(&w, "blk.0.ffn_norm.weight")->type, FY_F32); /* no matrix */
    assert_int_equal(w.plan->file.type, FY_F16);
    release(&w);
    fy_type_rules_free(rules);
}

static void patterns_that_do_nothing_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } wrong[] = {{"ffn_down", "REGEX=TYPE"},
                 {"=q8_0", "REGEX=TYPE"},
                 {"a=iq2_s", "none of f32"},
                 {"a=", "none of f32"},
                 {"(=q8_0", "regular expression"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fy_err e = {0};
        assert_null(fy_type_rules_new("--keep", FY_ROW_TYPES, &wrong[i].text, 1, &e));
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(strstr(e.msg, wrong[i].word));
    }
    static const char *const unused[] = {"attn_q=q8_0", "^ffn=q8_0", "norm=f16"};
    for (size_t i = 1; i < 3; i++) {
        fy_err e = {0};
        world w;
        const char *const texts[] = {unused[0], unused[i]};
        fy_type_rules *rules = fy_type_rules_new("--keep", FY_ROW_TYPES, texts, 2, &e);
        make_with(&w, plain, N_TENSORS, "", &(fy_plan_options){.outtype = FY_F16, .rules = rules});
        assert_null(w.plan);
        assert_int_equal(w.e.code, FY_EARG);
        assert_non_null(strstr(w.e.msg, unused[i]));
        release(&w);
        fy_type_rules_free(rules);
    }
}

/* The same with rows of 32 and of 256. */
static void widen(made_tensor *t, uint64_t width)
{
    memcpy(t, plain, sizeof plain);
    for (size_t i = 0; i < N_TENSORS; i++) {
        t[i].cols = t[i].cols == 8 ? width : t[i].cols;
        t[i].rows = t[i].rows == 8 ? width : t[i].rows;
    }
    t[K].rows = t[V].rows = width / 2;
}

static void llamas_recipe_keeps_the_output_in_better_types(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS];
    fy_plan_options o = {.outtype = FY_Q4_0, .recipe = FY_RECIPE_LLAMA};
    world w;
    widen(t, 32);
    make_with(&w, t, N_TENSORS, "", &o);
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(find(&w, "output.weight")->type, FY_Q8_0); /* rows too short for q6_K */
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_Q4_0);
    assert_int_equal(find(&w, "blk.0.attn_v.weight")->type, FY_Q4_0);
    release(&w);
    make_with(&w, t, N_TENSORS - 1, ", \"tie_word_embeddings\": true", &o);
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_Q8_0); /* it is the output */
    release(&w);
    widen(t, 256);
    make_with(&w, t, N_TENSORS, "", &o);
    assert_int_equal(find(&w, "output.weight")->type, FY_Q6_K);
    assert_false(find(&w, "output.weight")->fallback);
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_Q4_0);
    release(&w);
    make_with(&w, t, N_TENSORS - 1, ", \"tie_word_embeddings\": true", &o);
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_Q6_K);
    release(&w);
    o.outtype = FY_Q4_K;
    make_with(&w, t, N_TENSORS, "", &o);
    assert_int_equal(find(&w, "blk.0.attn_v.weight")->type,
                     FY_Q6_K); /* its one layer is the last */
    assert_int_equal(find(&w, "blk.0.attn_q.weight")->type, FY_Q4_K);
    assert_int_equal(w.plan->file.type, FY_Q4_K);
    release(&w);
    static const fy_type f16 = FY_F16, q5_0 = FY_Q5_0;
    o.output_type = &f16;
    o.embedding_type = &q5_0;
    make_with(&w, t, N_TENSORS, "", &o);
    assert_int_equal(find(&w, "output.weight")->type, FY_F16);
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_Q5_0);
    release(&w);
    o.output_type = o.embedding_type = NULL;
    o.outtype = FY_Q8_0;
    make_with(&w, t, N_TENSORS, "", &o);
    assert_int_equal(find(&w, "output.weight")->type, FY_Q8_0);
    release(&w);
}

static void the_embedding_alone_drops_the_rest(void **state)
{
    (void)state;
    world w;
    make_with(&w, plain, N_TENSORS, "",
              &(fy_plan_options){.outtype = FY_OUTTYPE_AUTO, .embedding_only = true});
    assert_int_equal(w.plan->n_tensors, 1);
    assert_int_equal(find(&w, "token_embd.weight")->type, FY_F32);
    assert_int_equal(w.plan->file.type, FY_F32);
    assert_int_equal(w.plan->n_drops, N_TENSORS - 1);
    assert_int_equal(w.plan->n_params, 48 + 8 + 64 + 32 + 32 + 64 + 8 + 3 * 256 + 8 + 48);
    for (size_t i = 0; i < w.plan->n_drops; i++)
        assert_non_null(strstr(w.plan->drops[i].reason, "--embedding-only"));
    release(&w);
}

static void unknown_tensors_are_dropped_when_that_is_allowed(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 1];
    fy_plan_options o = {.outtype = FY_F32, .allow_unmapped = true};
    memcpy(t, plain, sizeof plain);
    t[N_TENSORS] = (made_tensor){LAYER "self_attn.q_prj.weight", 8, 8};
    world w;
    make_with(&w, t, N_TENSORS + 1, "", &o);
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
    assert_int_equal(w.plan->n_drops, 1);
    assert_non_null(strstr(w.plan->drops[0].reason, "--allow-unmapped"));
    release(&w);
    expect_failure(t, N_TENSORS + 1, "",
                   WORDS("q_prj.weight is unknown (the nearest known name is " LAYER
                         "self_attn.q_proj.weight)",
                         "--allow-unmapped"));
    t[DOWN].name = "x"; /* what is missing stays an error */
    make_with(&w, t, N_TENSORS + 1, "", &o);
    assert_null(w.plan);
    assert_non_null(strstr(w.e.msg, "down_proj.weight is missing"));
    assert_null(strstr(w.e.msg, "--allow-unmapped"));
    release(&w);
}

static void values_that_do_not_fit_go_through_when_that_is_allowed(void **state)
{
    (void)state;
    made_tensor t[N_TENSORS + 60];
    char names[60][80];
    uint16_t half[32];
    world w;
    for (size_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "model.layers.0.%zu.rotary_emb.inv_freq", i);
        t[i] = (made_tensor){names[i], 1, 0};
    }
    memcpy(t + 60, plain, sizeof plain);
    make(&w, t, N_TENSORS + 60, "", FY_F16); /* values of output.weight: 71000 and more */
    fy_err e = {0};
    fy_convert_stream *s = fy_convert_stream_new(w.plan, 1, &e);
    s->allow_nonfinite = true;
    int64_t head = find(&w, "output.weight") - w.plan->tensors;
    assert_int_equal(fy_convert_fill(s, head, 2, 4, half, 0, &e), 0);
    assert_int_equal(half[0], 0x7c00);
    assert_int_equal(s->n_nonfinite, 32);
    fy_convert_stream_free(s);
    release(&w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, checkpoint_setup, checkpoint_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_tensor_has_its_place),
        TEST(automatic_type_narrows_f32_to_f16),
        TEST(rows_that_do_not_divide_stay_f16),
        TEST(the_output_is_left_out_when_it_is_tied),
        TEST(a_tied_output_that_is_stored_must_equal_the_embedding),
        TEST(what_is_no_weight_is_dropped_with_a_reason),
        TEST(all_problems_are_told_at_once),
        TEST(layers_beyond_the_config_are_told_so),
        TEST(many_problems_are_counted),
        TEST(biases_are_required_by_their_flag_and_refused_without_it),
        TEST(llama3_scaling_adds_a_computed_tensor),
        TEST(rows_of_q_and_k_become_neighbours),
        TEST(biases_are_permuted_by_element),
        TEST(a_value_that_does_not_fit_is_found),
        TEST(patterns_keep_matrices_in_other_types),
        TEST(patterns_that_do_nothing_are_errors),
        TEST(llamas_recipe_keeps_the_output_in_better_types),
        TEST(the_embedding_alone_drops_the_rest),
        TEST(unknown_tensors_are_dropped_when_that_is_allowed),
        TEST(values_that_do_not_fit_go_through_when_that_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
