/* LoRA adapters merged into a checkpoint. The checkpoint and the adapter lie in one directory. */
#include "convert/source/lora.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/checkpoint.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/convert/checkpoint.h"

#define CONFIG                                                                                     \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, \"num_attention_heads\": 2, " \
    "\"num_hidden_layers\": 1, \"intermediate_size\": 12, \"vocab_size\": 6, "                     \
    "\"tie_word_embeddings\": "
#define EMBED  "model.embed_tokens.weight"
#define LAYER  "model.layers.0."
#define PEFT   "base_model.model."
#define LORA   "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3"
#define Q      LAYER "self_attn.q_proj.weight"
#define DOWN   LAYER "mlp.down_proj.weight"
#define BIAS   LAYER "self_attn.q_proj.bias"
#define Q_A    PEFT LAYER "self_attn.q_proj.lora_A.weight"
#define Q_B    PEFT LAYER "self_attn.q_proj.lora_B.weight"
#define EMBD_A PEFT "model.embed_tokens.lora_embedding_A"
#define EMBD_B PEFT "model.embed_tokens.lora_embedding_B"

static const shaped_tensor base[] = {
    {EMBED, {6, 8}}, {Q, {8, 8}}, {DOWN, {8, 12}}, {BIAS, {8}}, {"lm_head.weight", {6, 8}}};
enum { N_BASE = sizeof base / sizeof base[0] };

static fy_ckpt *ckpt;
static fy_hf_config config;

static void release(void)
{
    fy_ckpt_close(ckpt);
    fy_hf_config_release(&config);
    ckpt = NULL;
}

static int begin(void **state)
{
    release(); /* what a failed test left */
    return checkpoint_setup(state);
}

static int end(void **state)
{
    release();
    remove_file("adapter_config.json");
    remove_file("adapter_model.safetensors");
    return checkpoint_teardown(state);
}

/* A base of the first n tensors, and an adapter. */
static void put(size_t n, bool tied, const char *lora, const shaped_tensor *t, size_t n_t)
{
    char text[512];
    snprintf(text, sizeof text, CONFIG "%s}", tied ? "true" : "false");
    put_text("config.json", text);
    put_shaped("model.safetensors", base, n);
    put_text("adapter_config.json", lora);
    put_shaped("adapter_model.safetensors", t, n_t);
}

/* With the adapter at these scales. */
static int merge(const char *const *scales, size_t n, fy_err *e)
{
    char arg[4][96];
    const char *args[4];
    release();
    ckpt = fy_ckpt_open_model(made_dir, &config, e);
    if (ckpt == NULL)
        return -1;
    for (size_t i = 0; i < n; i++) {
        snprintf(arg[i], sizeof arg[i], "%s%s", made_dir, scales[i]);
        args[i] = arg[i];
    }
    return fy_ckpt_merge_loras(ckpt, &config, made_dir, args, n, e);
}

static void merge_all(const char *const *scales, size_t n)
{
    fy_err e = {0};
    if (merge(scales, n, &e) != 0)
        fail_msg("%s", e.msg);
}

/* All words must be in the message. */
static void refuse_as(fy_code code, const char *one, const char *two)
{
    static const char *const once[] = {""};
    fy_err e = {0};
    assert_int_equal(merge(once, 1, &e), -1);
    if (e.code != code || strstr(e.msg, one) == NULL || strstr(e.msg, two) == NULL)
        fail_msg("code %d, %s; wanted %s and %s", e.code, e.msg, one, two);
}

typedef double delta_fn(uint64_t row, uint64_t col);

/* Element k of the tensor is first + k and what is added to it; the same in whatever pieces it is
 * read, by any kernels. */
static void expect(const char *name, double first, delta_fn *delta, double scale)
{
    fy_kernels k[] = {fy_kernels_for(fy_cpu_features()), fy_kernels_for(0)};
    const fy_ckpt_tensor *t = fy_ckpt_find(ckpt, fy_span_of(name));
    assert_non_null(t);
    uint64_t n = fy_ckpt_n_elements(t), width = t->shape[t->rank - 1];
    float *all = malloc(n * sizeof *all), *pieces = malloc(n * sizeof *pieces);
    assert_non_null(all);
    assert_non_null(pieces);
    fy_ckpt_read(&k[0], t, 0, n, all);
    for (uint64_t i = 0; i < n; i++) {
        double want = first + (double)i + scale * delta(i / width, i % width);
        if (fabs(all[i] - want) > 1e-5 * fabs(want) + 1e-3)
            fail_msg("%s, element %d: %g, wanted %g", name, (int)i, (double)all[i], want);
    }
    for (uint64_t step = 1; step < 6; step += 2) {
        for (uint64_t at = 0; at < n; at += step)
            fy_ckpt_read(&k[1], t, at, n - at < step ? n - at : step, pieces + at);
        assert_memory_equal(all, pieces, n * sizeof *all);
    }
    for (uint64_t col = 0; col < width && t->rank == 2; col += 3) { /* all rows, the last first */
        uint64_t n_rows = n / width, m = width - col < 3 ? width - col : 3, rows[16];
        assert_true(n_rows <= 16);
        for (uint64_t r = 0; r < n_rows; r++)
            rows[r] = n_rows - 1 - r;
        fy_ckpt_read_rows(&k[0], t, rows, (int)n_rows, col, m, pieces);
        for (uint64_t r = 0; r < n_rows; r++)
            assert_memory_equal(pieces + r * m, all + rows[r] * width + col, m * sizeof *all);
    }
    free(all);
    free(pieces);
}

/* --- names and configuration ------------------------------------------------------------------ */

static void names_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        fy_lora_part part;
        const char *module, *rest;
    } cases[] = {
        {PEFT "a.b.lora_A.weight", FY_LORA_A, "a.b", ""},
        {PEFT "a.b.lora_B.default.weight", FY_LORA_B, "a.b", ""},
        {"a.b.lora_A.weight", FY_LORA_A, "a.b", ""},
        {PEFT "a.b.lora_B.bias", FY_LORA_BIAS, "a.b", ""},
        {PEFT "a.b.lora_B.x.bias", FY_LORA_BIAS, "a.b", ""},
        {PEFT "a.lora_embedding_A", FY_LORA_EMBEDDING_A, "a", ""},
        {PEFT "a.lora_embedding_B.default", FY_LORA_EMBEDDING_B, "a", ""},
        {PEFT "a.lora_magnitude_vector", FY_LORA_DORA, "a", ""},
        {PEFT "a.lora_magnitude_vector.default.weight", FY_LORA_DORA, "a", ""},
        {PEFT "a.lora_A", FY_LORA_UNKNOWN, "a", ""},
        {PEFT "a.lora_A.x.y.weight", FY_LORA_UNKNOWN, "a", ""},
        {PEFT "a.lora_C.weight", FY_LORA_UNKNOWN, "a", ""},
        {PEFT "a.lora_embedding_A.x.y", FY_LORA_UNKNOWN, "a", ""},
        {PEFT "lm_head.modules_to_save.weight", FY_LORA_INSTEAD, "lm_head", ".weight"},
        {PEFT "lm_head.modules_to_save.default.weight", FY_LORA_INSTEAD, "lm_head", ".weight"},
        {PEFT "mlp.modules_to_save.default.up.weight", FY_LORA_INSTEAD, "mlp", ".up.weight"},
        {PEFT "lm_head.base_layer.weight", FY_LORA_INSTEAD, "lm_head", ".weight"},
        {PEFT "a.base_layer.bias", FY_LORA_INSTEAD, "a", ".bias"},
        {PEFT "model.norm.weight", FY_LORA_INSTEAD, "model.norm", ".weight"},
        {"x", FY_LORA_INSTEAD, "x", ""},
        {"", FY_LORA_INSTEAD, "", ""},
        {".lora_A.weight", FY_LORA_INSTEAD, ".lora_A", ".weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_lora_name n = fy_lora_name_of(fy_span_of(cases[i].name));
        if (n.part != cases[i].part || !fy_span_is(n.module, cases[i].module) ||
            !fy_span_is(n.rest, cases[i].rest))
            fail_msg("%s: part %d, '%.*s', '%.*s'", cases[i].name, n.part, (int)n.module.len,
                     n.module.ptr, (int)n.rest.len, n.rest.ptr);
    }
    assert_true(fy_span_is(fy_lora_tail(FY_SPAN("model.language_model.layers.0.x")), "layers.0.x"));
    assert_true(fy_span_is(fy_lora_tail(FY_SPAN("visual.model.x")), "visual.model.x"));
}

static void parse(fy_lora_config *c, const char *text)
{
    fy_err e = {0};
    if (fy_lora_config_parse(c, text, strlen(text), &e) != 0)
        fail_msg("%s", e.msg);
}

/* What get_pattern_key of PEFT finds. */
static void the_first_pattern_that_ends_the_name_counts(void **state)
{
    (void)state;
    static const struct {
        const char *module;
        uint32_t rank;
        double scale;
    } cases[] = {
        {"model.layers.1.self_attn.q_proj", 8, 3 / 8.0},
        {"model.layers.11.self_attn.q_proj", 5, 3 / 5.0},
        {"model.layers.0.self_attn.q_proj", 5, 16 / 5.0},
        {"model.layers.0.self_attn.k_proj", 3, 7 / 3.0},
        {"model.layers.0.self_attn.kk_proj", 2, 3 / 2.0}, /* not after a dot */
        {"k_proj", 3, 3 / 3.0},
        {"model.layers.0.mlp.up_proj", 6, 3 / 6.0},
        {"model.layers.0.mlp.down-proj", 9, 3 / 9.0}, /* a dot is any character */
        {"lm_head", 2, 3 / 2.0},
    };
    fy_lora_config c;
    parse(&c, LORA ", \"rank_pattern\": {\"layers.1.self_attn.q_proj\": 8, \"(up|gate)_proj\": 6, "
                   "\"[kv]_proj\": 3, \"down.proj\": 9, \"q_proj\": 5, \"k_proj\": 1}, "
                   "\"alpha_pattern\": {\"^model\\\\.layers\\\\.0\\\\.self_attn\\\\.q_proj\": 16, "
                   "\"layers\\\\.\\\\d+\\\\.self_attn\\\\.k_proj\": 7}}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t rank = 0;
        double scale = 0;
        assert_int_equal(fy_lora_config_rank(&c, fy_span_of(cases[i].module), &rank, NULL), 0);
        assert_int_equal(fy_lora_config_scale(&c, fy_span_of(cases[i].module), rank, &scale, NULL),
                         0);
        if (rank != cases[i].rank || fabs(scale - cases[i].scale) > 1e-12)
            fail_msg("%s: rank %u, scale %g", cases[i].module, rank, scale);
    }
    fy_lora_config_release(&c);
}

static void rslora_divides_by_the_root(void **state)
{
    (void)state;
    double scale = 0;
    fy_lora_config c;
    parse(&c, "{\"peft_type\": \"LORA\", \"r\": 16, \"lora_alpha\": 2, \"use_rslora\": true}");
    assert_int_equal(fy_lora_config_scale(&c, FY_SPAN("x"), 16, &scale, NULL), 0);
    assert_true(scale == 0.5);
    fy_lora_config_release(&c);
    parse(&c, "{\"peft_type\": \"LORA\"}");
    assert_int_equal(c.rank, 8);
    assert_true(c.alpha == 8);
    fy_lora_config_release(&c);
}

static void other_adapters_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fy_code code;
        const char *words;
    } cases[] = {
        {"{\"peft_type\": \"IA3\"}", FY_EUNSUPPORTED, "peft_type is IA3"},
        {"{\"peft_type\": \"ADALORA\"}", FY_EUNSUPPORTED, "ADALORA"},
        {"{\"r\": 8}", FY_EFORMAT, "peft_type is missing"},
        {LORA ", \"use_dora\": true}", FY_EUNSUPPORTED, "DoRA"},
        {LORA ", \"use_qalora\": true}", FY_EUNSUPPORTED, "QALoRA"},
        {LORA ", \"target_parameters\": [\"experts.down_proj\"]}", FY_EUNSUPPORTED,
         "target_parameters"},
        {LORA ", \"trainable_token_indices\": {\"embed_tokens\": [1]}}", FY_EUNSUPPORTED,
         "trainable_token_indices"},
        {LORA ", \"alora_invocation_tokens\": [1]}", FY_EUNSUPPORTED, "activated LoRA"},
        {LORA ", \"layer_replication\": [[0, 1]]}", FY_EUNSUPPORTED, "layer_replication"},
        {LORA ", \"init_lora_weights\": \"pissa_niter_4\"}", FY_EUNSUPPORTED, "pissa_niter_4"},
        {LORA ", \"init_lora_weights\": \"olora\"}", FY_EUNSUPPORTED,
         "path_initial_model_for_weight_conversion"},
        {LORA ", \"init_lora_weights\": 3}", FY_EFORMAT, "init_lora_weights is 3"},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", FY_EFORMAT, "r is 0; expected a rank"},
        {"{\"peft_type\": \"LORA\", \"r\": 1e9}", FY_EFORMAT, "r is 1000000000"},
        {"{\"peft_type\": \"LORA\", \"r\": 2.5}", FY_EFORMAT, "r is 2.5"},
        {"{\"peft_type\": \"LORA\", \"r\": \"8\"}", FY_EFORMAT, "r is \"8\""},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 1e99}", FY_EFORMAT, "lora_alpha is 1e+99"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": NaN}", FY_EFORMAT, ""},
        {LORA ", \"rank_pattern\": {\"a\": -1}}", FY_EFORMAT, "rank_pattern.a is -1"},
        {LORA ", \"rank_pattern\": {\"(a\": 4}}", FY_EFORMAT, "not a regular expression"},
        {LORA ", \"alpha_pattern\": {\"a\": null}}", FY_EFORMAT, "alpha_pattern.a is null"},
        {LORA ", \"alpha_pattern\": []}", FY_EFORMAT, "alpha_pattern is []"},
        {"[]", FY_EFORMAT, "not a JSON object"},
        {"", FY_EFORMAT, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_lora_config c;
        fy_err e = {0};
        assert_int_equal(fy_lora_config_parse(&c, cases[i].text, strlen(cases[i].text), &e), -1);
        if (e.code != cases[i].code || strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: code %d, %s", cases[i].text, e.code, e.msg);
        fy_lora_config_release(&c);
    }
}

static void what_leaves_the_base_alone_is_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LORA ", \"init_lora_weights\": \"eva\", \"use_dora\": false, \"target_parameters\": null}",
        LORA ", \"init_lora_weights\": \"gaussian\", \"kasa_config\": {}, \"modules_to_save\": []}",
        LORA ", \"init_lora_weights\": false, \"fan_in_fan_out\": true, \"rank_pattern\": null}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_lora_config c;
        parse(&c, texts[i]);
        fy_lora_config_release(&c);
    }
}

static void a_pattern_that_never_ends_is_stopped(void **state)
{
    (void)state;
    fy_lora_config c;
    fy_err e = {0};
    uint32_t rank;
    parse(&c, LORA ", \"rank_pattern\": {\"(a*)*(a*)*(a*)*b\": 4}}");
    assert_int_equal(
        fy_lora_config_rank(&c, FY_SPAN("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc"), &rank, &e),
        -1);
    assert_non_null(strstr(e.msg, "too many steps"));
    fy_lora_config_release(&c);
}

/* --- values ----------------------------------------------------------------------------------- */

static const char *const once[] = {""};

/* A is tensor 0 of the adapter, B tensor 1: element k of tensor i is 1000 i + k. */
static double of_linear(uint64_t row, uint64_t col)
{
    return (1000.0 + 2 * (double)row) * (double)col +
           (1001.0 + 2 * (double)row) * (8.0 + (double)col);
}

static void a_matrix_gets_b_a(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{Q_A, {2, 8}}, {Q_B, {8, 2}}};
    put(N_BASE, false, LORA "}", t, 2);
    merge_all(once, 1);
    expect(Q, 1000, of_linear, 1.5);
    const fy_ckpt_tensor *other = fy_ckpt_find(ckpt, FY_SPAN(DOWN));
    assert_null(other->delta);
    assert_true(other->plain);
    assert_false(fy_ckpt_find(ckpt, FY_SPAN(Q))->plain);
}

static void adapters_add_up_with_their_scales(void **state)
{
    (void)state;
    static const char *const scales[] = {"", ":-0.25", ":2"};
    static const shaped_tensor t[] = {{Q_A, {2, 8}}, {Q_B, {8, 2}}};
    put(N_BASE, false, LORA "}", t, 2);
    merge_all(scales, 3);
    expect(Q, 1000, of_linear, 1.5 * 2.75);
}

static double of_embedding(uint64_t row, uint64_t col)
{
    double sum = 0;
    for (int j = 0; j < 2; j++)
        sum += (6.0 * j + (double)row) * (1000.0 + 2 * (double)col + j);
    return sum;
}

static void an_embedding_gets_it_turned(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{EMBD_A, {2, 6}}, {EMBD_B, {8, 2}}};
    put(N_BASE, false, LORA "}", t, 2);
    merge_all(once, 1);
    expect(EMBED, 0, of_embedding, 1.5);
}

static double of_bias(uint64_t row, uint64_t col)
{
    (void)row;
    return (double)col;
}

static double nothing(uint64_t row, uint64_t col)
{
    (void)row;
    (void)col;
    return 0;
}

static void a_bias_of_b_is_scaled_and_a_whole_one_replaces(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{PEFT LAYER "self_attn.q_proj.lora_B.bias", {8}}};
    static const shaped_tensor whole[] = {{Q_A, {2, 8}},
                                          {Q_B, {8, 2}},
                                          {PEFT LAYER "self_attn.q_proj.base_layer.bias", {8}}};
    put(N_BASE, false, LORA "}", t, 1);
    merge_all(once, 1);
    expect(BIAS, 3000, of_bias, 1.5);
    put(N_BASE, false, LORA "}", whole, 3);
    merge_all(once, 1);
    expect(BIAS, 2000, nothing, 0);
}

/* The replacement first, whatever the order in the file. */
static void a_delta_is_added_to_what_replaces(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {
        {Q_A, {2, 8}}, {Q_B, {8, 2}}, {PEFT LAYER "self_attn.q_proj.base_layer.weight", {8, 8}}};
    put(N_BASE, false, LORA "}", t, 3);
    merge_all(once, 1);
    expect(Q, 2000, of_linear, 1.5);
}

static void names_of_another_form_are_found(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {
        {PEFT "model.language_model.layers.0.self_attn.q_proj.lora_A.default.weight", {2, 8}},
        {PEFT "model.language_model.layers.0.self_attn.q_proj.lora_B.default.weight", {8, 2}}};
    put(N_BASE, false, LORA "}", t, 2);
    merge_all(once, 1);
    expect(Q, 1000, of_linear, 1.5);
}

enum { WIDE = 1100, WIDE_RANK = 1000 };
static double of_wide(uint64_t row, uint64_t col)
{
    double sum = 0;
    for (int j = 0; j < WIDE_RANK; j++)
        sum += (1e6 / 1000 + (double)row * WIDE_RANK + j) * ((double)j * WIDE + (double)col);
    return sum;
}

/* More than a quarter of the cache: decoded for each row. */
static void a_factor_too_large_for_the_cache_gives_the_same(void **state)
{
    (void)state;
    static const shaped_tensor wide[] = {{Q, {10, WIDE}}};
    static const shaped_tensor t[] = {{Q_A, {WIDE_RANK, WIDE}}, {Q_B, {10, WIDE_RANK}}};
    put(1, false, "{\"peft_type\": \"LORA\", \"r\": 1000, \"lora_alpha\": 0.001}", t, 2);
    put_shaped("model.safetensors", wide, 1);
    merge_all(once, 1);
    expect(Q, 0, of_wide, 1e-6);
}

static double of_conv(uint64_t row, uint64_t col)
{
    double sum = 0;
    for (int j = 0; j < 2; j++)
        sum += (8.0 * j + (double)row) * (1000.0 + 2 * (double)col + j);
    return sum;
}

/* GPT-2's c_proj is square: the shape does not say that it is [in, out]. */
static void a_conv1d_gets_it_turned(void **state)
{
    (void)state;
    static const shaped_tensor gpt2[] = {{"transformer.h.0.attn.c_proj.weight", {8, 8}}};
    static const shaped_tensor t[] = {
        {PEFT "transformer.h.0.attn.c_proj.lora_A.weight", {2, 8}},
        {PEFT "transformer.h.0.attn.c_proj.lora_B.weight", {8, 2}}};
    put(1, false, LORA "}", t, 2);
    put_text("config.json", "{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 8, \"n_head\": "
                            "2, \"n_layer\": 1, \"vocab_size\": 6}");
    put_shaped("model.safetensors", gpt2, 1);
    merge_all(once, 1);
    expect("transformer.h.0.attn.c_proj.weight", 0, of_conv, 1.5);
}

/* --- tied embeddings -------------------------------------------------------------------------- */

static void a_tied_output_becomes_a_tensor_of_its_own(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{EMBD_A, {2, 6}}, {EMBD_B, {8, 2}}};
    put(4, true, LORA "}", t, 2);
    merge_all(once, 1);
    assert_false(config.tied);
    expect(EMBED, 0, of_embedding, 1.5);
    expect("lm_head.weight", 0, nothing, 0);
}

static double of_head(uint64_t row, uint64_t col)
{
    return of_linear(row, col);
}

static void an_adapter_of_the_tied_output_leaves_the_embedding(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{PEFT "lm_head.lora_A.weight", {2, 8}},
                                      {PEFT "lm_head.lora_B.weight", {6, 2}}};
    put(N_BASE, true, LORA "}", t, 2); /* the stored one does not count: it is tied */
    merge_all(once, 1);
    assert_false(config.tied);
    expect(EMBED, 0, nothing, 0);
    expect("lm_head.weight", 0, of_head, 1.5);
}

static void other_adapters_leave_it_tied(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{Q_A, {2, 8}}, {Q_B, {8, 2}}};
    put(4, true, LORA "}", t, 2);
    merge_all(once, 1);
    assert_true(config.tied);
    assert_null(fy_ckpt_find(ckpt, FY_SPAN("lm_head.weight")));
}

static void weights_that_were_kept_tied_stay_tied(void **state)
{
    (void)state;
    static const shaped_tensor one[] = {{PEFT EMBED, {6, 8}}};
    static const shaped_tensor two[] = {{PEFT EMBED, {6, 8}}, {PEFT "lm_head.weight", {6, 8}}};
    put(4, true, LORA ", \"ensure_weight_tying\": true}", one, 1);
    merge_all(once, 1);
    assert_true(config.tied);
    /* Two that differ are two, whatever was promised. */
    put(4, true, LORA ", \"ensure_weight_tying\": true}", two, 2);
    merge_all(once, 1);
    assert_false(config.tied);
    expect("lm_head.weight", 1000, nothing, 0);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void adapters_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        shaped_tensor t[3];
        size_t n;
        const char *one, *two;
    } cases[] = {
        {{{Q_A, {2, 8}}}, 1, "q_proj.lora_A.weight", "no lora_B"},
        {{{Q_B, {8, 2}}}, 1, "q_proj.lora_B.weight", "no lora_A"},
        {{{Q_A, {2, 8}}, {Q_B, {8, 3}}}, 2, "A [2, 8] and B [8, 3]", "[8, 8]"},
        {{{Q_A, {2, 9}}, {Q_B, {8, 2}}}, 2, "A [2, 9]", "q_proj.weight' [8, 8]"},
        {{{Q_A, {2, 8}}, {Q_B, {7, 2}}}, 2, "B [7, 2]", "[8, 8]"},
        {{{Q_A, {3, 8}}, {Q_B, {8, 3}}}, 2, "A [3, 8]", "which is 2"},
        {{{Q_A, {2, 4, 2}}, {Q_B, {8, 2}}}, 2, "A [2, 4, 2]", "[8, 8]"},
        {{{Q_A, {16}}, {Q_B, {16}}}, 2, "A [16] and B [16]", ""},
        {{{Q_A, {2, 8}},
          {Q_B, {8, 2}},
          {PEFT LAYER "self_attn.q_proj.lora_A.default.weight", {2, 8}}},
         3,
         "q_proj.lora_A.default.weight",
         "twice"},
        {{{PEFT EMBED, {6, 8}}, {PEFT "model.embed_tokens.modules_to_save.weight", {6, 8}}},
         2,
         "modules_to_save",
         "twice"},
        {{{EMBD_A, {2, 6}}, {PEFT "model.embed_tokens.lora_B.weight", {8, 2}}}, 2, "exclude", ""},
        {{{PEFT LAYER "self_attn.q_prj.lora_A.weight", {2, 8}},
          {PEFT LAYER "self_attn.q_prj.lora_B.weight", {8, 2}}},
         2,
         "q_prj.lora_A",
         "nearest name is " Q},
        {{{PEFT "score.weight", {2, 8}}}, 1, "'score.weight', which the checkpoint", ""},
        {{{PEFT EMBED, {7, 8}}}, 1, "[7, 8]", "[6, 8]"},
        {{{PEFT LAYER "self_attn.q_proj.lora_B.bias", {9}}}, 1, "[9]", "[8]"},
        {{{PEFT LAYER "self_attn.q_proj.lora_C.weight", {2, 8}}}, 1, "lora_C", "not a tensor of LoRA"},
        {{{"", {0}}}, 0, "no tensors", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(N_BASE, false, LORA "}", cases[i].t, cases[i].n);
        refuse_as(FY_EFORMAT, cases[i].one, cases[i].two);
    }
    static const shaped_tensor dora[] = {{PEFT "a.lora_magnitude_vector", {8}}};
    put(N_BASE, false, LORA "}", dora, 1);
    refuse_as(FY_EUNSUPPORTED, "lora_magnitude_vector", "DoRA");
}

static void a_factor_of_rank_0_is_refused(void **state)
{
    (void)state;
    static const char head[] =
        "{\"" Q_A "\":{\"dtype\":\"F32\",\"shape\":[0,8],\"data_offsets\":[0,0]},"
        "\"" Q_B "\":{\"dtype\":\"F32\",\"shape\":[8,0],\"data_offsets\":[0,0]}}";
    uint64_t n = sizeof head - 1;
    char file[8 + sizeof head];
    memcpy(file, &n, 8);
    memcpy(file + 8, head, sizeof head - 1);
    put(N_BASE, false, LORA "}", base, 0);
    put_file("adapter_model.safetensors", file, 8 + sizeof head - 1);
    refuse_as(FY_EFORMAT, "A [0, 8]", "B [8, 0]");
}

static void whole_tensors_of_two_adapters_must_be_equal(void **state)
{
    (void)state;
    static const char *const twice[] = {"", ""};
    static const shaped_tensor t[] = {{PEFT EMBED, {6, 8}}};
    put(N_BASE, false, LORA "}", t, 1);
    merge_all(twice, 2); /* the same file: the same bytes */
    expect(EMBED, 0, nothing, 0);
}

static void directories_and_scales_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *end, *words;
    } cases[] = {{":inf", "expected a number"},
                 {":1e99", "expected a number"},
                 {":x", "no such directory"},
                 {"/nowhere", "no such directory"},
                 {"/config.json", "is a file"}};
    static const shaped_tensor t[] = {{Q_A, {2, 8}}, {Q_B, {8, 2}}};
    put(N_BASE, false, LORA "}", t, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_int_equal(merge(&cases[i].end, 1, &e), -1);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s: %s", cases[i].end, e.msg);
    }
    remove_file("adapter_model.safetensors");
    refuse_as(FY_EIO, "adapter_model.safetensors", "adapter_model.bin");
    remove_file("adapter_config.json");
    refuse_as(FY_EIO, "adapter_config.json", "no adapter");
}

static void rows_in_metas_order_are_refused(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{Q_A, {2, 8}}, {Q_B, {8, 2}}};
    const char *args[] = {made_dir};
    fy_err e = {0};
    put(N_BASE, false, LORA "}", t, 2);
    ckpt = fy_ckpt_open_model(made_dir, &config, &e);
    assert_non_null(ckpt);
    ckpt->rotates_neighbours = true;
    assert_int_equal(fy_ckpt_merge_loras(ckpt, &config, made_dir, args, 1, &e), -1);
    assert_non_null(strstr(e.msg, "Meta's form"));
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const shaped_tensor t[] = {{Q_A, {2, 8}},       {Q_B, {8, 2}},
                                      {EMBD_A, {2, 6}},    {EMBD_B, {8, 2}},
                                      {PEFT BIAS, {8}}, {PEFT DOWN, {8, 12}}};
    put(4, true, LORA ", \"rank_pattern\": {\"q.*\": 2}}", t, 6);
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = merge(once, 1, &e);
        bool failed = alloc_fail_end();
        if (failed && (rc == 0 || e.code != FY_ENOMEM))
            fail_msg("allocation %ld: %d, code %d, %s", n, rc, e.code, e.msg);
        done = !failed;
        if (done)
            assert_int_equal(rc, 0);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(names_are_taken_apart),
        TEST(the_first_pattern_that_ends_the_name_counts),
        TEST(rslora_divides_by_the_root),
        TEST(other_adapters_are_refused_by_name),
        TEST(what_leaves_the_base_alone_is_taken),
        TEST(a_pattern_that_never_ends_is_stopped),
        TEST(a_matrix_gets_b_a),
        TEST(adapters_add_up_with_their_scales),
        TEST(an_embedding_gets_it_turned),
        TEST(a_bias_of_b_is_scaled_and_a_whole_one_replaces),
        TEST(a_delta_is_added_to_what_replaces),
        TEST(names_of_another_form_are_found),
        TEST(a_factor_too_large_for_the_cache_gives_the_same),
        TEST(a_conv1d_gets_it_turned),
        TEST(a_tied_output_becomes_a_tensor_of_its_own),
        TEST(an_adapter_of_the_tied_output_leaves_the_embedding),
        TEST(other_adapters_leave_it_tied),
        TEST(weights_that_were_kept_tied_stay_tied),
        TEST(adapters_that_do_not_fit_are_refused),
        TEST(a_factor_of_rank_0_is_refused),
        TEST(whole_tensors_of_two_adapters_must_be_equal),
        TEST(directories_and_scales_are_checked),
        TEST(rows_in_metas_order_are_refused),
        TEST(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
