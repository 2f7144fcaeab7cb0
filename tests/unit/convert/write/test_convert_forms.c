/* The forms in which checkpoints hold the tensors of a family: names below or without a wrapper,
 * experts apart or fused, matrices transposed or packed, rows that are computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "convert/write/convert_plan.h"
#include "convert/write/convert_stream.h"
#include "convert/source/family_match.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/convert/checkpoint.h"

enum { MAX = 48 };

typedef struct {
    shaped_tensor t[MAX];
    char names[MAX][96];
    size_t n;
    fy_hf_config config;
    fy_ckpt *dir;
    fy_convert_plan *plan;
    fy_err e;
} world;

static world w;

static void add(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    assert_true(w.n < MAX);
    snprintf(w.names[w.n], sizeof w.names[0], "%s", name);
    w.t[w.n] = (shaped_tensor){w.names[w.n], {a, b, c}};
    w.n++;
}

/* What element 0 is. */
static float contents(const char *name)
{
    size_t i = 0;
    while (i < w.n && strcmp(w.names[i], name) != 0)
        i++;
    assert_true(i < w.n);
    return (float)(1000 * i);
}

static void release(void)
{
    fy_convert_plan_free(w.plan);
    fy_ckpt_close(w.dir);
    fy_hf_config_release(&w.config);
    w = (world){0};
}

static int begin(void **state)
{
    release(); /* what a failed test left */
    return checkpoint_setup(state);
}

static void make(const char *config)
{
    put_shaped("model.safetensors", w.t, w.n);
    if (fy_hf_config_parse(&w.config, config, strlen(config), "config.json", &w.e) != 0)
        fail_msg("%s", w.e.msg);
    w.dir = fy_ckpt_open(made_dir, &w.e);
    if (w.dir == NULL)
        fail_msg("%s", w.e.msg);
    w.plan = fy_convert_plan_new(w.dir, &w.config, &(fy_plan_options){.outtype = FY_F32}, &w.e);
}

static void make_ok(const char *config)
{
    make(config);
    if (w.plan == NULL)
        fail_msg("%s", w.e.msg);
}

static void make_fails(const char *config, const char *words)
{
    make(config);
    assert_null(w.plan);
    if (strstr(w.e.msg, words) == NULL)
        fail_msg("no '%s' in: %s", words, w.e.msg);
}

static const fy_plan_tensor *find(const char *name)
{
    for (size_t i = 0; i < w.plan->n_tensors; i++) {
        char have[FY_ROW_NAME_BYTES];
        fy_plan_name(&w.plan->tensors[i], have);
        if (strcmp(have, name) == 0)
            return &w.plan->tensors[i];
    }
    return NULL;
}

static float out[8192];

/* The whole tensor, in pieces of `step` rows. */
static const float *filled(const char *name, uint64_t step)
{
    const fy_plan_tensor *t = find(name);
    assert_non_null(t);
    fy_convert_stream *s = fy_convert_stream_new(w.plan, 1, &w.e);
    assert_non_null(s);
    uint64_t rows = t->ne[1] * t->ne[2];
    assert_true(rows * t->ne[0] <= sizeof out / sizeof out[0]);
    for (uint64_t r = 0; r < rows; r += step) {
        uint64_t n = rows - r < step ? rows - r : step;
        if (fy_convert_fill(s, t - w.plan->tensors, r, n, out + r * t->ne[0], 0, &w.e) != 0)
            fail_msg("%s", w.e.msg);
    }
    fy_convert_stream_free(s);
    return out;
}

/* --- names ------------------------------------------------------------------------------------ */

#define LLAMA                                                                      \
    "\"hidden_size\": 8, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, " \
    "\"num_hidden_layers\": 1, \"intermediate_size\": 6, \"vocab_size\": 5, "      \
    "\"tie_word_embeddings\": true"

/* A Llama whose names begin with `base` instead of "model.". */
static void add_llama(const char *base)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } t[] = {
        {"embed_tokens.weight", 5, 8},
        {"layers.0.input_layernorm.weight", 8, 0},
        {"layers.0.self_attn.q_proj.weight", 8, 8},
        {"layers.0.self_attn.k_proj.weight", 4, 8},
        {"layers.0.self_attn.v_proj.weight", 4, 8},
        {"layers.0.self_attn.o_proj.weight", 8, 8},
        {"layers.0.post_attention_layernorm.weight", 8, 0},
        {"layers.0.mlp.gate_proj.weight", 6, 8},
        {"layers.0.mlp.up_proj.weight", 6, 8},
        {"layers.0.mlp.down_proj.weight", 8, 6},
        {"norm.weight", 8, 0},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", base, t[i].name);
        add(name, t[i].rows, t[i].cols, 0);
    }
}

static void one_form_of_names_holds_for_a_checkpoint(void **state)
{
    (void)state;
    static const char *const bases[] = {"model.", "language_model.model.", "model.language_model.",
                                        "", "model.model."};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        add_llama(bases[i]);
        make_ok("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}");
        assert_int_equal(w.plan->n_tensors, 11);
        release();
    }
    add_llama("language_model.model.");
    strcpy(w.names[10], "model.norm.weight");
    make_fails("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}",
               "language_model.model.norm.weight is missing");
    release();
    add_llama("language_model.model.");
    add("language_model.model.layers.1.input_layernorm.weight", 8, 0, 0);
    make_fails("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}",
               "config.json says 1 layers");
    release();
}

static void towers_are_dropped_from_nested_checkpoints_only(void **state)
{
    (void)state;
    static const char *const towers[] = {"vision_tower.a", "model.visual.a.weight",
                                         "multi_modal_projector.b"};
    add_llama("language_model.model.");
    for (size_t i = 0; i < 3; i++)
        add(towers[i], 3, 2, 0);
    make_ok("{\"text_config\": {\"model_type\": \"llama\", " LLAMA "}}");
    assert_int_equal(w.plan->n_drops, 3);
    assert_string_equal(w.plan->drops[0].reason, "not of the text model");
    release();
    add_llama("model.");
    add(towers[0], 3, 2, 0);
    make_fails("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}",
               "vision_tower.a is unknown");
    release();
}

static void dimensions_of_one_in_front_do_not_count(void **state)
{
    (void)state;
    add_llama("model.");
    w.t[1].shape[0] = 1;
    w.t[1].shape[1] = 8;
    make_ok("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}");
    assert_int_equal(find("blk.0.attn_norm.weight")->n_dims, 1);
    assert_true(filled("blk.0.attn_norm.weight", 1)[7] == 1007);
    release();
    add_llama("model.");
    w.t[1].shape[0] = 8;
    w.t[1].shape[1] = 1;
    make_fails("{\"architectures\": [\"LlamaForCausalLM\"], " LLAMA "}",
               "has shape [8, 1], config.json says [8]");
    release();
}

/* --- experts ---------------------------------------------------------------------------------- */

#define MIXTRAL                                                                          \
    "{\"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 8, "                 \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"num_hidden_layers\": 1, " \
    "\"intermediate_size\": 6, \"vocab_size\": 5, \"tie_word_embeddings\": true, "       \
    "\"num_experts_per_tok\": 2, \"num_local_experts\": "
#define LAYER "model.layers.0."

static void add_mixtral_without_experts(void)
{
    add_llama("model.");
    w.n = 7;
    add("model.norm.weight", 8, 0, 0);
}

static void add_experts_apart(void)
{
    add(LAYER "block_sparse_moe.gate.weight", 3, 8, 0);
    for (uint32_t x = 0; x < 3; x++) {
        static const char *const part[] = {"w1", "w2", "w3"};
        for (uint32_t k = 0; k < 3; k++) {
            char name[96];
            snprintf(name, sizeof name, LAYER "block_sparse_moe.experts.%u.%s.weight", x, part[k]);
            add(name, k == 1 ? 8 : 6, k == 1 ? 6 : 8, 0);
        }
    }
}

static void experts_apart_are_stacked(void **state)
{
    (void)state;
    for (uint64_t step = 1; step < 20; step += 4) {
        add_mixtral_without_experts();
        add_experts_apart();
        make_ok(MIXTRAL "3}");
        const fy_plan_tensor *t = find("blk.0.ffn_up_exps.weight");
        assert_int_equal(t->n_dims, 3);
        assert_int_equal(t->ne[0], 8);
        assert_int_equal(t->ne[1], 6);
        assert_int_equal(t->ne[2], 3);
        assert_non_null(t->stacked);
        const float *up = filled("blk.0.ffn_up_exps.weight", step);
        for (uint32_t x = 0; x < 3; x++) {
            char name[96];
            snprintf(name, sizeof name, LAYER "block_sparse_moe.experts.%u.w3.weight", x);
            float first = contents(name);
            for (uint32_t i = 0; i < 48; i++)
                assert_true(up[48 * x + i] == first + (float)i);
        }
        assert_int_equal(find("blk.0.ffn_gate_inp.weight")->type, FY_F32);
        release();
    }
}

static void experts_that_are_missing_are_told(void **state)
{
    (void)state;
    add_mixtral_without_experts();
    add_experts_apart();
    make_fails(MIXTRAL "4}", "experts.3.w1.weight is missing");
    release();
    add_mixtral_without_experts();
    add_experts_apart();
    make_fails(MIXTRAL "1000}", "config.json says 1000 experts");
    release();
    add_mixtral_without_experts();
    add_experts_apart();
    make_fails(MIXTRAL "2}", "experts.2.w1.weight is unknown");
    release();
    add_mixtral_without_experts();
    make_fails(MIXTRAL "3}", "block_sparse_moe.experts.0.w1.weight is missing");
    release();
}

#define GPT_OSS                                                                             \
    "{\"architectures\": [\"GptOssForCausalLM\"], \"vocab_size\": 10, \"hidden_size\": 8, " \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "    \
    "\"head_dim\": 4, \"intermediate_size\": 6, \"num_local_experts\": 3, "                 \
    "\"num_experts_per_tok\": 2, \"attention_bias\": false}"

/* Of a file without MXFP4: columns of gate and up take turns, and so do the elements of biases. */
static void columns_that_take_turns_are_told_apart(void **state)
{
    (void)state;
    add("model.embed_tokens.weight", 10, 8, 0);
    add("model.norm.weight", 8, 0, 0);
    add("lm_head.weight", 10, 8, 0);
    add(LAYER "input_layernorm.weight", 8, 0, 0);
    add(LAYER "post_attention_layernorm.weight", 8, 0, 0);
    add(LAYER "self_attn.q_proj.weight", 8, 8, 0);
    add(LAYER "self_attn.k_proj.weight", 4, 8, 0);
    add(LAYER "self_attn.v_proj.weight", 4, 8, 0);
    add(LAYER "self_attn.o_proj.weight", 8, 8, 0);
    add(LAYER "self_attn.sinks", 2, 0, 0);
    add(LAYER "mlp.router.weight", 3, 8, 0);
    add(LAYER "mlp.router.bias", 3, 0, 0);
    add(LAYER "mlp.experts.gate_up_proj", 3, 8, 12);
    add(LAYER "mlp.experts.gate_up_proj_bias", 3, 12, 0);
    add(LAYER "mlp.experts.down_proj", 3, 6, 8);
    add(LAYER "mlp.experts.down_proj_bias", 3, 8, 0);
    make_ok(GPT_OSS);
    const float first = contents(LAYER "mlp.experts.gate_up_proj");
    const float bias = contents(LAYER "mlp.experts.gate_up_proj_bias");
    for (uint64_t step = 1; step < 20; step += 6) {
        for (uint64_t odd = 0; odd < 2; odd++) {
            const float *got =
                filled(odd ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight", step);
            for (uint64_t i = 0; i < 3 * 48; i++) {
                const uint64_t x = i / 48, row = i / 8 % 6, col = i % 8;
                assert_true(got[i] == first + (float)((x * 8 + col) * 12 + 2 * row + odd));
            }
            got = filled(odd ? "blk.0.ffn_up_exps.bias" : "blk.0.ffn_gate_exps.bias", step);
            for (uint64_t i = 0; i < 3 * 6; i++)
                assert_true(got[i] == bias + (float)(i / 6 * 12 + 2 * (i % 6) + odd));
        }
    }
}

/* gate is the first half of each expert's rows, or of its columns. */
static void fused_experts_are_split_by_their_shape(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        add_mixtral_without_experts();
        add(LAYER "mlp.gate.weight", 3, 8, 0);
        add(LAYER "mlp.experts.gate_up_proj", 3, turned ? 8 : 12, turned ? 12 : 8);
        add(LAYER "mlp.experts.down_proj", 3, turned ? 6 : 8, turned ? 8 : 6);
        make_ok(MIXTRAL "3}");
        float fused = contents(LAYER "mlp.experts.gate_up_proj");
        for (uint64_t step = 1; step < 20; step += 6) {
            for (uint64_t half = 0; half < 2; half++) {
                const float *got =
                    filled(half ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight", step);
                for (uint64_t i = 0; i < 3 * 48; i++) {
                    uint64_t x = i / 48, row = i / 8 % 6, col = i % 8;
                    uint64_t from = turned ? (x * 8 + col) * 12 + half * 6 + row
                                           : (x * 12 + half * 6 + row) * 8 + col;
                    assert_true(got[i] == fused + (float)from);
                }
            }
        }
        const float *down = filled("blk.0.ffn_down_exps.weight", 5);
        float first = contents(LAYER "mlp.experts.down_proj");
        for (uint64_t i = 0; i < 3 * 48; i++) {
            uint64_t x = i / 48, row = i / 6 % 8, col = i % 6;
            assert_true(down[i] == first + (float)(turned ? (x * 6 + col) * 8 + row
                                                          : (x * 8 + row) * 6 + col));
        }
        release();
    }
    add_mixtral_without_experts();
    add(LAYER "mlp.gate.weight", 3, 8, 0);
    add(LAYER "mlp.experts.gate_up_proj", 3, 12, 9);
    add(LAYER "mlp.experts.down_proj", 3, 8, 6);
    /* told once, though two rows are made from it */
    make_fails(MIXTRAL "3}", "1 tensor does not fit a mixtral model: " LAYER
                             "mlp.experts.gate_up_proj has shape [3, 12, 9], config.json says "
                             "[3, 12, 8]");
    release();
}

/* --- transforms ------------------------------------------------------------------------------- */

/* More rows and columns than a tile has, so that its edges show. */
static void conv1d_is_transposed(void **state)
{
    (void)state;
    static const char *const parts[] = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"};
    static const uint64_t in[] = {4, 4, 4, 1030}, to[] = {12, 4, 1030, 4};
    char name[96];
    add("transformer.wte.weight", 5, 4, 0);
    add("transformer.wpe.weight", 6, 4, 0);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "transformer.h.0.%s.weight", parts[i]);
        add(name, in[i], to[i], 0);
        snprintf(name, sizeof name, "transformer.h.0.%s.bias", parts[i]);
        add(name, to[i], 0, 0);
    }
    for (int i = 0; i < 6; i++) {
        static const char *const norms[] = {"h.0.ln_1", "h.0.ln_2", "ln_f"};
        snprintf(name, sizeof name, "transformer.%s.%s", norms[i / 2], i % 2 ? "bias" : "weight");
        add(name, 4, 0, 0);
    }
    make_ok("{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 4, \"n_head\": 2, \"n_layer\": "
            "1, \"n_inner\": 1030, \"n_positions\": 6, \"vocab_size\": 5}");
    for (uint64_t step = 1; step < 2000; step = step * 5 + 2) {
        const float *up = filled("blk.0.ffn_up.weight", step);
        float first = contents("transformer.h.0.mlp.c_fc.weight");
        for (uint64_t i = 0; i < 4120; i++)
            assert_true(up[i] == first + (float)(i % 4 * 1030 + i / 4));
    }
    release();
}

static void gemma_norms_gain_one(void **state)
{
    (void)state;
    add_llama("model.");
    make_ok("{\"architectures\": [\"GemmaForCausalLM\"], \"head_dim\": 4, " LLAMA "}");
    assert_true(filled("blk.0.attn_norm.weight", 1)[0] == 1001);
    assert_true(filled("output_norm.weight", 1)[2] == 10003);
    assert_true(filled("blk.0.attn_q.weight", 3)[0] == 2000);
    release();
}

static void factors_and_zeros_are_computed(void **state)
{
    (void)state;
    add_llama("model.");
    make_ok("{\"architectures\": [\"MiniCPMForCausalLM\"], " LLAMA
            ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 3], "
            "\"short_factor\": [1, 2]}}");
    assert_int_equal(w.plan->n_tensors, 13);
    assert_true(filled("rope_factors_long.weight", 1)[1] == 3);
    assert_true(filled("rope_factors_short.weight", 1)[1] == 2);
    release();
    add_llama("model.");
    make_ok("{\"architectures\": [\"MiniCPMForCausalLM\"], " LLAMA "}");
    assert_int_equal(w.plan->n_tensors, 11);
    release();
}

/* Writes infinity over one element of what put_shaped wrote. */
static void spoil(const char *name, uint64_t element)
{
    char path[160];
    uint64_t at = 0, head;
    float bad = INFINITY;
    for (size_t i = 0; i < w.n && strcmp(w.names[i], name) != 0; i++) {
        uint64_t n = 1;
        for (size_t d = 0; d < 4 && w.t[i].shape[d] > 0; d++)
            n *= w.t[i].shape[d];
        at += n;
    }
    snprintf(path, sizeof path, "%s/model.safetensors", made_dir);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&head, sizeof head, 1, f), 1);
    assert_int_equal(fseek(f, (long)(sizeof head + head + 4 * (at + element)), SEEK_SET), 0);
    assert_int_equal(fwrite(&bad, sizeof bad, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void expect_fault(const char *hf, uint64_t element, const char *gguf, const char *words)
{
    make_ok(MIXTRAL "3}");
    spoil(hf, element);
    const fy_plan_tensor *t = find(gguf);
    assert_non_null(t);
    fy_convert_stream *s = fy_convert_stream_new(w.plan, 1, &w.e);
    assert_non_null(s);
    assert_int_equal(fy_convert_fill(s, t - w.plan->tensors, 0, t->ne[1] * t->ne[2], out, 0, &w.e),
                     -1);
    if (strstr(w.e.msg, words) == NULL)
        fail_msg("no '%s' in: %s", words, w.e.msg);
    fy_convert_stream_free(s);
    release();
}

static void a_fault_names_the_tensor_it_came_from(void **state)
{
    (void)state;
    add_mixtral_without_experts();
    add_experts_apart();
    expect_fault(LAYER "block_sparse_moe.experts.2.w3.weight", 4 * 8 + 1,
                 "blk.0.ffn_up_exps.weight",
                 "tensor 'blk.0.ffn_up_exps.weight' (" LAYER
                 "block_sparse_moe.experts.2.w3.weight), row 4, element 1 is inf");
    add_mixtral_without_experts();
    add(LAYER "mlp.gate.weight", 3, 8, 0);
    add(LAYER "mlp.experts.gate_up_proj", 3, 8, 12);
    add(LAYER "mlp.experts.down_proj", 3, 6, 8);
    expect_fault(LAYER "mlp.experts.gate_up_proj", 13 * 12 + 8, "blk.0.ffn_up_exps.weight",
                 "(" LAYER "mlp.experts.gate_up_proj), row 13, element 8 is inf");
}

/* --- unknown classes -------------------------------------------------------------------------- */

static void an_unknown_class_is_compared_with_the_nearest(void **state)
{
    (void)state;
    add_llama("model.");
    strcpy(w.names[10], "model.final.weight");
    add("model.layers.0.self_attn.sinks", 2, 0, 0);
    add("model.layers.1.self_attn.sinks", 2, 0, 0);
    put_shaped("model.safetensors", w.t, w.n);
    static const char *const classes[] = {"LlamaTwoForCausalLM", "Unlike"};
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        fy_str s = {0};
        fy_err none = {0};
        snprintf(text, sizeof text,
                 "{\"architectures\": [\"%s\"], \"sink_size\": 4, \"dropout\": 0, " LLAMA "}",
                 classes[i]);
        assert_int_equal(fy_hf_config_parse(&w.config, text, strlen(text), "config.json", &none),
                         -1);
        assert_int_equal(none.code, FY_EUNSUPPORTED);
        assert_null(w.config.family);
        w.dir = fy_ckpt_open(made_dir, &w.e);
        assert_non_null(w.dir);
        fy_family_explain(&w.config, w.dir, &s);
        if (strcmp(fy_str_z(&s), "compared with llama (LlamaForCausalLM):\n"
                                 "  keys of config.json that it does not have: sink_size\n"
                                 "  tensors that it does not have: model.final.weight, "
                                 "model.layers.N.self_attn.sinks\n"
                                 "  tensors of it that are absent: model.norm.weight\n") != 0)
            fail_msg("%s", fy_str_z(&s));
        fy_str_release(&s);
        fy_ckpt_close(w.dir);
        w.dir = NULL;
        fy_hf_config_release(&w.config);
    }
    release();
}

static void every_family_is_listed(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_family_list(false, &s);
    for (const fy_family *const *f = fy_families; *f != NULL; f++)
        assert_non_null(strstr(fy_str_z(&s), (*f)->hf_archs[0]));
    fy_str_release(&s);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void each_failing_allocation_of_a_plan_is_out_of_memory(void **state)
{
    (void)state;
    add_mixtral_without_experts();
    add_experts_apart();
    make_ok(MIXTRAL "3}");
    for (long n = 0;; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const fy_plan_options o = {.outtype = FY_F32};
        fy_convert_plan *p = fy_convert_plan_new(w.dir, &w.config, &o, &e);
        bool failed = alloc_fail_end();
        fy_convert_plan_free(p);
        if (!failed) {
            assert_non_null(p);
            break;
        }
        assert_null(p);
        assert_int_equal(e.code, FY_ENOMEM);
    }
    release();
}

static void a_config_that_runs_out_of_memory_says_so(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"architectures\": [\"MiniCPMForCausalLM\"], " LLAMA
        ", \"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 3], "
        "\"short_factor\": [1, 2]}}",
        "{\"architectures\": [\"FalconForCausalLM\"], \"alibi\": false, \"bias\": false}",
        "{\"text_config\": {\"model_type\": \"gemma3_text\", \"sliding_window_pattern\": 2}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (long n = 0;; n++) {
            fy_hf_config c;
            fy_err e = {0};
            alloc_fail_after(n);
            int rc = fy_hf_config_parse(&c, texts[i], strlen(texts[i]), "config.json", &e);
            bool failed = alloc_fail_end();
            fy_hf_config_release(&c);
            if (!failed) {
                if (rc != 0)
                    fail_msg("%s", e.msg);
                break;
            }
            assert_int_equal(rc, -1);
            assert_int_equal(e.code, FY_ENOMEM);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, checkpoint_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_form_of_names_holds_for_a_checkpoint),
        TEST(towers_are_dropped_from_nested_checkpoints_only),
        TEST(dimensions_of_one_in_front_do_not_count),
        TEST(experts_apart_are_stacked),
        TEST(experts_that_are_missing_are_told),
        TEST(columns_that_take_turns_are_told_apart),
        TEST(fused_experts_are_split_by_their_shape),
        TEST(conv1d_is_transposed),
        TEST(gemma_norms_gain_one),
        TEST(factors_and_zeros_are_computed),
        TEST(a_fault_names_the_tensor_it_came_from),
        TEST(an_unknown_class_is_compared_with_the_nearest),
        TEST(every_family_is_listed),
        TEST(each_failing_allocation_of_a_plan_is_out_of_memory),
        TEST(a_config_that_runs_out_of_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
