#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/workspace/ws_fixture.h"

#include "workspace/npu/npu_recipe.h"

/* --- types ------------------------------------------------------------------------------------ */

static void types_are_named_as_executorch_names_them(void **state)
{
    (void)state;
    for (fy_npu_type t = FY_NPU_16A4W; t < FY_NPU_TYPE_COUNT; t++)
        assert_int_equal(fy_npu_type_of(fy_span_of(fy_npu_type_name(t))), t);
    assert_string_equal(fy_npu_type_name(FY_NPU_LPBQ_64), "16a4w-lpbq64");
    assert_int_equal(fy_npu_type_of(FY_SPAN("16a4w-lpbq")), FY_NPU_TYPE_COUNT);
    assert_int_equal(fy_npu_type_of(FY_SPAN("")), FY_NPU_TYPE_COUNT);
}

static void a_matrix_takes_its_weights_and_scales_in_tiles(void **state)
{
    (void)state;
    static const struct {
        fy_npu_type type;
        uint64_t n_out, n_in, bytes;
    } cases[] = {
        /* worked by hand: rows * (row bits / 8 + scales) */
        {FY_NPU_16A4W, 4096, 14336, 4096ull * (14336 / 2 + 4)},
        {FY_NPU_8A4W, 4096, 14336, 4096ull * (14336 / 2 + 4)},
        {FY_NPU_LPBQ_16, 4096, 14336, 4096ull * (14336 / 2 + 896 + 4)},
        {FY_NPU_LPBQ_32, 4096, 14336, 4096ull * (14336 / 2 + 448 + 4)},
        {FY_NPU_LPBQ_64, 4096, 14336, 4096ull * (14336 / 2 + 224 + 4)},
        {FY_NPU_16A8W, 4096, 14336, 4096ull * (14336 + 4)},
        {FY_NPU_FP16, 4096, 14336, 4096ull * 14336 * 2},
        {FY_NPU_FP16A8W, 4096, 14336, 4096ull * (14336 + 4)},
        {FY_NPU_FP16A4W, 4096, 14336, 4096ull * (14336 / 2 + 4)},
        /* GLM-Edge's odd sizes and a vocabulary are padded to 32 */
        {FY_NPU_16A4W, 33, 33, 64 * (64 / 2 + 4)},
        {FY_NPU_16A8W, 1, 1, 32 * (32 + 4)},
        {FY_NPU_FP16, 50257, 33, 50272ull * 64 * 2},
        {FY_NPU_LPBQ_64, 32, 96, 32 * (48 + 2 + 4)}, /* half a block has a scale, too */
        {FY_NPU_16A4W, 0, 32, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        assert_true(fy_npu_matrix_bytes(cases[i].type, cases[i].n_out, cases[i].n_in, &bytes));
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void more_bytes_than_64_bits_count_are_refused(void **state)
{
    (void)state;
    static const uint64_t large[][2] = {{UINT64_MAX, 1},
                                        {1, UINT64_MAX},
                                        {1, UINT64_MAX - 31},
                                        {1ull << 40, 1ull << 40},
                                        {UINT64_MAX, UINT64_MAX}};
    for (fy_npu_type t = FY_NPU_16A4W; t < FY_NPU_TYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
            uint64_t bytes = 7;
            assert_false(fy_npu_matrix_bytes(t, large[i][0], large[i][1], &bytes));
            assert_int_equal(bytes, 7);
        }
    }
}

static void lpbq_wants_whole_blocks(void **state)
{
    (void)state;
    assert_null(fy_npu_type_refuses(FY_NPU_LPBQ_32, 4096));
    assert_null(fy_npu_type_refuses(FY_NPU_16A4W, 33));
    assert_null(fy_npu_type_refuses(FY_NPU_LPBQ_16, 48));
    assert_non_null(strstr(fy_npu_type_refuses(FY_NPU_LPBQ_32, 48), "blocks of 32"));
    assert_non_null(strstr(fy_npu_type_refuses(FY_NPU_LPBQ_64, 96), "blocks of 64"));
    assert_non_null(strstr(fy_npu_type_refuses(FY_NPU_LPBQ_16, 8), "blocks of 16"));
}

/* --- the built-in recipes --------------------------------------------------------------------- */

static fy_npu_recipes *built_in(void)
{
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", at("none"), 1);
    fy_npu_recipes *r = fy_npu_recipes_open(&e);
    if (r == NULL)
        fail_msg("%s", e.msg);
    return r;
}

static const fy_npu_recipe *get(fy_npu_recipes *r, const char *name)
{
    fy_err e = {0};
    const fy_npu_recipe *found = fy_npu_recipes_find(r, name, &e);
    if (found == NULL)
        fail_msg("%s", e.msg);
    return found;
}

/* The recipes that ExecuTorch and PowerServe publish, in the words they are published in, and the
 * key of the model. */
static const struct {
    const char *model, *name, *title;
    uint32_t kv_bits;
} published[] = {
    {"llama-3.2-1b", "executorch-llama-3.2-1b", "16a4w, LPBQ 32; head and w2 of layers 0-3 8 bit",
     8},
    {"llama-3.2-3b", "executorch-llama-3.2-3b", "16a4w, LPBQ 32; head and w2 of layers 21-27 8 bit",
     8},
    {"llama-3.1-8b", "powerserve", "16a4w", 16},
    {"deepseek-r1-distill-llama-8b", "powerserve", "16a4w", 16},
    {"qwen2-0.5b", "powerserve", "16a4w", 16},
    {"qwen2.5-0.5b", "executorch-qwen2.5-0.5b", "16a4w, LPBQ 16", 16},
    {"qwen2.5-1.5b", "executorch-qwen2.5-1.5b", "16a4w, LPBQ 16; head 8 bit", 16},
    {"qwen2.5-3b", "powerserve", "16a4w", 16},
    {"smallthinker-3b-preview", "powerserve", "16a4w", 16},
    {"internlm3-8b", "powerserve", "16a4w", 16},
    {"qwen3-0.6b", "executorch-qwen3-0.6b", "16a4w, LPBQ 32; w2 8 bit", 16},
    {"qwen3-1.7b", "executorch-qwen3-1.7b", "16a4w, LPBQ 16; head 8 bit", 8},
    {"gemma-2b", "executorch-gemma-2b", "16a4w, LPBQ 64; wv and head 8 bit", 8},
    {"gemma2-2b", "executorch-gemma2-2b", "16a4w, LPBQ 32; wv 8 bit", 8},
    {"gemma3-1b", "executorch-gemma3-1b", "16a4w, LPBQ 64; wv 8 bit", 8},
    {"glm-edge-1.5b", "executorch-glm-edge-1.5b", "16a4w, LPBQ 32; head 8 bit", 8},
    {"granite-3.3-2b", "executorch-granite-3.3-2b", "16a4w, LPBQ 64; wv 8 bit", 8},
    {"phi-4-mini", "executorch-phi-4-mini", "16a4w, LPBQ 16; wv 8a4w; head 8 bit", 8},
    {"smollm2-135m", "executorch-smollm2-135m", "16a8w", 16},
    {"smollm3-3b", "executorch-smollm3-3b", "16a4w, LPBQ 32; wq, wk, wv, head 8 bit", 8},
    {"codegen2-1b", "executorch-codegen2-1b", "16a8w", 16},
    {"stories260k", "executorch-stories260k", "16a4w; head 8 bit", 8},
    {"stories110m", "executorch-stories110m", "16a4w; wv 8a4w; head 8 bit", 8},
};

static bool is_for(const fy_npu_recipe *r, const char *model)
{
    for (size_t i = 0; i < r->n_models; i++) {
        if (strcmp(r->models[i], model) == 0)
            return true;
    }
    return false;
}

static void every_published_recipe_is_there_in_its_words(void **state)
{
    (void)state;
    fy_npu_recipes *r = built_in();
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const fy_npu_recipe *p = get(r, published[i].name);
        assert_string_equal(p->title, published[i].title);
        assert_int_equal(p->kv_bits, published[i].kv_bits);
        size_t n = 0;
        for (size_t k = 0; k < fy_npu_recipes_n(r); k++)
            n += is_for(fy_npu_recipes_at(r, k), published[i].model);
        assert_int_equal(n, 1);
        assert_true(is_for(p, published[i].model));
        assert_true(p->source[0] != '\0');
    }
    for (size_t i = 1; i < fy_npu_recipes_n(r); i++)
        assert_true(strcmp(fy_npu_recipes_at(r, i - 1)->name, fy_npu_recipes_at(r, i)->name) < 0);
    fy_npu_recipes_free(r);
}

static void rules_say_the_type_of_each_matrix(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        fy_slot slot;
        uint32_t layer;
        fy_npu_type type;
    } cases[] = {
        {"executorch-llama-3.2-1b", FY_T_ATTN_Q, 0, FY_NPU_LPBQ_32},
        {"executorch-llama-3.2-1b", FY_T_FFN_DOWN, 0, FY_NPU_16A8W},
        {"executorch-llama-3.2-1b", FY_T_FFN_DOWN, 3, FY_NPU_16A8W},
        {"executorch-llama-3.2-1b", FY_T_FFN_DOWN, 4, FY_NPU_LPBQ_32},
        {"executorch-llama-3.2-1b", FY_T_OUTPUT, 0, FY_NPU_16A8W},
        {"executorch-llama-3.2-3b", FY_T_FFN_DOWN, 20, FY_NPU_LPBQ_32},
        {"executorch-llama-3.2-3b", FY_T_FFN_DOWN, 21, FY_NPU_16A8W},
        {"executorch-llama-3.2-3b", FY_T_FFN_DOWN_EXPS, 27, FY_NPU_16A8W},
        {"executorch-phi-4-mini", FY_T_ATTN_V, 31, FY_NPU_8A4W},
        {"executorch-phi-4-mini", FY_T_ATTN_K, 31, FY_NPU_LPBQ_16},
        {"executorch-smollm3-3b", FY_T_ATTN_Q, 0, FY_NPU_16A8W},
        {"executorch-smollm3-3b", FY_T_ATTN_OUT, 0, FY_NPU_LPBQ_32},
        {"executorch-qwen2.5-0.5b", FY_T_OUTPUT, 0, FY_NPU_LPBQ_16},
        {"executorch-codegen2-1b", FY_T_FFN_UP, 9, FY_NPU_16A8W},
        {"powerserve", FY_T_OUTPUT, 0, FY_NPU_16A4W},
        {"powerserve-qwen2.5-7b", FY_T_FFN_DOWN, 5, FY_NPU_FP16},
        {"powerserve-qwen2.5-7b", FY_T_FFN_DOWN, 6, FY_NPU_16A4W},
        {"powerserve-qwen2.5-7b", FY_T_ATTN_V, 6, FY_NPU_FP16},
        {"powerserve-qwen2.5-7b", FY_T_OUTPUT, 0, FY_NPU_16A4W}, /* it is in no layer */
        {"powerserve-smallthinker-3b", FY_T_ATTN_OUT, 35, FY_NPU_FP16},
        {"powerserve-smallthinker-3b", FY_T_FFN_GATE, 1, FY_NPU_FP16},
        {"powerserve-smallthinker-3b", FY_T_FFN_UP, 2, FY_NPU_16A4W},
        {"lpbq-64", FY_T_FFN_GATE_SHEXP, 2, FY_NPU_LPBQ_64},
        {"fp16", FY_T_OUTPUT, 0, FY_NPU_FP16},
        {"fp16a8w", FY_T_OUTPUT, 0, FY_NPU_FP16A8W},
        {"fp16a4w", FY_T_FFN_UP, 1, FY_NPU_FP16A4W},
        {"fp16a4w", FY_T_OUTPUT, 0, FY_NPU_FP16A8W},
        {"8a4w", FY_T_ATTN_Q, 1, FY_NPU_8A4W},
        {"8a4w", FY_T_OUTPUT, 0, FY_NPU_16A8W},
    };
    fy_npu_recipes *r = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fy_npu_recipe_type(get(r, cases[i].recipe), cases[i].slot, cases[i].layer),
                         cases[i].type);
    fy_npu_recipes_free(r);
}

/* Qualcomm's R3: the models for which ExecuTorch sets it. A core in fp16: what computes in fp16,
 * and PowerServe's attention. */
static void rotation_and_core_are_those_of_the_recipe(void **state)
{
    (void)state;
    static const char *const rotating[] = {"executorch-qwen2.5-0.5b", "executorch-qwen2.5-1.5b",
                                           "executorch-qwen3-1.7b", "executorch-smollm2-135m"};
    fy_npu_recipes *r = built_in();
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++) {
        const fy_npu_recipe *one = fy_npu_recipes_at(r, i);
        bool rotates = false;
        for (size_t k = 0; k < sizeof rotating / sizeof rotating[0]; k++)
            rotates = rotates || strcmp(one->name, rotating[k]) == 0;
        assert_int_equal(one->rotate_keys, rotates);
        assert_int_equal(one->float_core, fy_span_begins(fy_span_of(one->name), "powerserve") ||
                                              fy_span_begins(fy_span_of(one->name), "fp16"));
    }
    fy_npu_recipes_free(r);
}

static void the_core_can_be_chosen(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool float_core;
    } cases[] = {
        {"{\"type\":\"16a4w\",\"kv_bits\":16}", false},
        {"{\"type\":\"16a4w\",\"kv_bits\":16,\"core\":\"fp16\"}", true},
        {"{\"core\":\"u16\",\"type\":\"fp16\",\"kv_bits\":8,\"rotate_keys\":true}", false},
        {"{\"type\":\"fp16a4w\",\"kv_bits\":16}", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_npu_recipe r;
        if (fy_npu_recipe_parse(cases[i].text, strlen(cases[i].text), "r", &r, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(r.float_core, cases[i].float_core);
        assert_int_equal(r.rotate_keys, i == 2);
        fy_npu_recipe_release(&r);
    }
}

static void an_unknown_recipe_is_told(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_npu_recipes *r = built_in();
    assert_null(fy_npu_recipes_find(r, "lpbq-33", &e));
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "no recipe 'lpbq-33', did you mean lpbq-32?"));
    e = (fy_err){0};
    assert_null(fy_npu_recipes_find(r, "quite another", &e));
    assert_non_null(strstr(
        e.msg, "there are 16a4w, 16a8w, 8a4w, fp16, fp16a4w, fp16a8w, lpbq-16, lpbq-32, lpbq-64, "
               "executorch-codegen2-1b, "));
    assert_string_equal(e.msg + strlen(e.msg) - 5, ", ...");
    e = (fy_err){0};
    assert_null(fy_npu_recipes_find(r, "", &e));
    fy_npu_recipes_free(r);
}

/* --- floors ----------------------------------------------------------------------------------- */

static char chip_name[] = "CHIP";

static fy_soc chip(uint32_t arch, bool no_fp16)
{
    return (fy_soc){.name = chip_name, .htp_arch = arch, .no_fp16 = no_fp16};
}

static void each_feature_has_its_floor(void **state)
{
    (void)state;
    static const struct {
        uint32_t arch;
        bool no_fp16, has[4]; /* LPBQ, fp16, KV 16, sharing */
    } cases[] = {{68, false, {false, false, false, false}},
                 {69, false, {true, false, false, false}},
                 {73, false, {true, true, true, true}},
                 {73, true, {true, false, true, true}},
                 {81, false, {true, true, true, true}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_soc s = chip(cases[i].arch, cases[i].no_fp16);
        for (int f = 0; f < 4; f++)
            assert_int_equal(fy_soc_has(&s, (fy_htp_feature)f), cases[i].has[f]);
    }
}

static void a_recipe_below_a_floor_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        uint32_t arch;
        bool no_fp16;
        uint32_t kv_bits;
        const char *says; /* NULL: it is fine */
    } cases[] = {
        {"lpbq-32", 69, false, 0, NULL},
        {"lpbq-32", 68, false, 0,
         "recipe lpbq-32: 16a4w-lpbq32 of its default: LPBQ needs HTP V69, CHIP has V68; it can "
         "have "
         "--recipe 16a4w"},
        {"16a4w", 68, false, 0, NULL},
        {"16a8w", 68, false, 0, NULL},
        {"16a4w", 69, false, 16,
         "--kv-bits 16: a KV cache of 16 bits needs HTP V73, CHIP has V69; it can have --kv-bits "
         "8"},
        {"executorch-smollm2-135m", 68, false, 0, "its kv_bits 16: a KV cache"},
        {"executorch-smollm2-135m", 68, false, 8, NULL},
        {"executorch-smollm2-135m", 73, true, 0, NULL},
        {"fp16", 73, false, 0, NULL},
        {"fp16", 69, false, 0, "fp16 needs HTP V73, CHIP has V69; it can have --recipe lpbq-32"},
        {"fp16", 73, true, 0,
         "the NPU of CHIP does not compute in fp16; it can have --recipe lpbq-32"},
        {"powerserve-spin", 69, false, 8, "fp16 of rules[0]: fp16 needs"},
        {"fp16a8w", 73, false, 0, NULL},
        {"fp16a8w", 69, false, 0, "fp16a8w of its default: fp16 needs HTP V73, CHIP has V69"},
        {"fp16a4w", 75, true, 0,
         "fp16a4w of its default: the NPU of CHIP does not compute in fp16"},
        {"fp16a4w", 75, false, 8,
         "--kv-bits 8: between matrices it computes in fp16, keys and values too; it can have "
         "--kv-bits 16"},
        {"powerserve", 75, false, 0, NULL},
        {"powerserve", 69, false, 0,
         "its core of fp16: fp16 needs HTP V73, CHIP has V69; it can have --recipe lpbq-32"},
        {"8a4w", 68, false, 0, NULL},
        {"lpbq-32", 75, false, 4, "keys and values of 4 bits, expected 8 or 16"},
    };
    fy_npu_recipes *r = built_in();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_soc s = chip(cases[i].arch, cases[i].no_fp16);
        int rc = fy_npu_recipe_check(get(r, cases[i].recipe), &s, cases[i].kv_bits, &e);
        if (cases[i].says == NULL ? rc != 0 : rc == 0 || strstr(e.msg, cases[i].says) == NULL)
            fail_msg("case %zu: '%s'", i, e.msg);
        if (rc != 0)
            assert_int_equal(e.code, cases[i].kv_bits == 4 ? FY_EARG : FY_EFIT);
    }
    fy_npu_recipes_free(r);
}

static void every_chip_can_have_the_default(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_npu_recipes *r = built_in();
    fy_soc_table *t = fy_soc_table_open(NULL, &e);
    assert_non_null(t);
    for (size_t i = 0; i < fy_soc_table_n(t); i++) {
        const fy_soc *s = fy_soc_table_at(t, i);
        const char *fixed = s->htp_arch >= 69 ? "lpbq-32" : "16a4w";
        const fy_npu_recipe *d = fy_npu_recipes_default(r, s, true);
        assert_string_equal(d->name, fixed);
        assert_int_equal(fy_npu_recipe_check(d, s, 0, &e), 0);
        d = fy_npu_recipes_default(r, s, false);
        assert_string_equal(d->name, s->htp_arch >= 73 && !s->no_fp16 ? "fp16a8w" : fixed);
        assert_int_equal(fy_npu_recipe_check(d, s, 0, &e), 0);
    }
    fy_soc_table_free(t);
    fy_npu_recipes_free(r);
}

/* --- what is refused -------------------------------------------------------------------------- */

#define RULES(text) "{\"type\":\"16a4w\",\"kv_bits\":8,\"rules\":[" text "]}"

static void bad_recipes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "expected"},
        {"{}", "\"type\" is missing"},
        {"{\"type\":\"16a4w\"}", "\"kv_bits\" is missing"},
        {"{\"type\":\"4w\",\"kv_bits\":8}", "type: '4w', expected one of 16a4w, 16a4w-lpbq16"},
        {"{\"type\":4,\"kv_bits\":8}", "type: "},
        {"{\"type\":\"16a4w\",\"kv_bits\":-8}", "kv_bits: -8, expected 8 to 16"},
        {"{\"type\":\"16a4w\",\"kv_bits\":9}", "kv_bits: 9, expected 8 or 16"},
        {"{\"type\":\"16a4w\",\"kv_bit\":8}", "unknown key 'kv_bit'; did you mean 'kv_bits'?"},
        {"{\"type\":\"16a4w\",\"kv_bits\":8,\"core\":\"f32\"}",
         "core: 'f32', expected \"u16\" or \"fp16\""},
        {"{\"type\":\"16a4w\",\"kv_bits\":8,\"core\":16}", "core: "},
        {"{\"type\":\"fp16a8w\",\"kv_bits\":8}",
         "kv_bits: 8, expected 16: between matrices of fp16a8w it computes in fp16"},
        {"{\"type\":\"16a4w\",\"kv_bits\":8,\"rotate_keys\":1}", "rotate_keys: "},
        {"{\"type\":\"16a4w\",\"type\":\"16a8w\",\"kv_bits\":8}", "type"},
        {"{\"type\":\"16a4w\",\"kv_bits\":8,\"models\":[1]}", "models: "},
        {"{\"type\":\"16a4w\",\"kv_bits\":8,\"title\":\"\"}", "title: 0 bytes"},
        {"{\"type\":\"16a4w\",\"kv_bits\":8} x", "expected"},
        {RULES("{}"), "rules: [0]: \"type\" is missing"},
        {RULES("{\"type\":\"16a8w\"}"), "rules: [0]: names neither tensors nor layers"},
        {RULES("{\"layers\":\"all\",\"type\":\"16a8w\"}"), "rules: [0]: names neither"},
        {RULES("{\"layers\":\"3-1\",\"type\":\"16a8w\"}"), "layers: '3-1' ends before it begins"},
        {RULES("{\"layers\":\"\",\"type\":\"16a8w\"}"), "layers: '', expected"},
        {RULES("{\"layers\":\"1-\",\"type\":\"16a8w\"}"), "layers: '1-', expected \"0-3\""},
        {RULES("{\"layers\":\"-1\",\"type\":\"16a8w\"}"), "layers: '-1', expected"},
        {RULES("{\"layers\":\"1-2-3\",\"type\":\"16a8w\"}"), "layers: '1-2-3', expected"},
        {RULES("{\"layers\":\"1 - 2\",\"type\":\"16a8w\"}"), "layers: '1 - 2', expected"},
        {RULES("{\"layers\":\"0-1000\",\"type\":\"16a8w\"}"), "no model has more than 1000"},
        {RULES("{\"layers\":\"0-99999999999\",\"type\":\"16a8w\"}"), "expected"},
        {RULES("{\"layers\":3,\"type\":\"16a8w\"}"), "layers: "},
        {RULES("{\"tensors\":[],\"type\":\"16a8w\"}"), "tensors: an empty list"},
        {RULES("{\"tensors\":[\"fnn_down\"],\"type\":\"16a8w\"}"),
         "tensors: unknown word 'fnn_down'; did you mean 'ffn_down'?"},
        {RULES("{\"tensors\":[\"elephants\"],\"type\":\"16a8w\"}"),
         "unknown word 'elephants', expected attn_q"},
        {RULES("{\"tensors\":[\"w2\",\"ffn_down\"],\"type\":\"16a8w\"}"),
         "tensors: 'ffn_down' is named already"},
        {RULES("{\"tensors\":[\"head\"],\"layers\":\"0-3\",\"type\":\"16a8w\"}"),
         "the head is in no layer"},
        {RULES("{\"tensors\":[\"w2\"],\"type\":\"16a8w\"},{\"tensors\":[\"ffn_down\"],"
               "\"type\":\"fp16\"}"),
         "rules: [1]: is for the same tensors and layers as [0], with another type"},
        {RULES("{\"tensors\":[\"wq\",\"wk\"],\"layers\":\"0-3\",\"type\":\"16a8w\"},{\"tensors\":"
               "[\"wk\",\"wq\"],\"layers\":\"0-3\",\"type\":\"16a8w\"}"),
         "rules: [1]: is for the same tensors and layers as [0]"},
        {RULES("{\"tensors\":[\"w2\"],\"colour\":1}"),
         "rules: [0]: unknown key 'colour', expected one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_npu_recipe r;
        int rc = fy_npu_recipe_parse(cases[i].text, strlen(cases[i].text), "r", &r, &e);
        if (rc != -1 || e.code != FY_EFORMAT || strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s: wanted '%s', got '%s'", cases[i].text, cases[i].says, e.msg);
    }
}

static void the_last_rule_that_fits_counts(void **state)
{
    (void)state;
    const char *text =
        RULES("{\"layers\":\"0-7\",\"type\":\"16a8w\"},{\"layers\":\"2\",\"tensors\":"
              "[\"wv\",\"attn_k\"],\"type\":\"fp16\"},{\"layers\":\"all\","
              "\"tensors\":[\"attn_qkv\"],\"type\":\"8a4w\"}");
    fy_err e = {0};
    fy_npu_recipe r;
    if (fy_npu_recipe_parse(text, strlen(text), "mine", &r, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(r.name, "mine");
    assert_string_equal(r.title, "mine");
    assert_string_equal(r.source, "");
    assert_int_equal(fy_npu_recipe_type(&r, FY_T_FFN_UP, 7), FY_NPU_16A8W);
    assert_int_equal(fy_npu_recipe_type(&r, FY_T_FFN_UP, 8), FY_NPU_16A4W);
    assert_int_equal(fy_npu_recipe_type(&r, FY_T_ATTN_V, 2), FY_NPU_8A4W);
    assert_int_equal(fy_npu_recipe_type(&r, FY_T_OUTPUT, 2), FY_NPU_16A4W);
    fy_npu_recipe_release(&r);
}

/* --- the user's files ------------------------------------------------------------------------- */

static void own_recipes_extend_the_list(void **state)
{
    (void)state;
    fy_err e = {0};
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    assert_int_equal(fy_mkdirs(at("config/ferry/recipes.d"), &e), 0);
    put_text(at("config/ferry/recipes.d/mine.json"), "{\"type\":\"8a4w\",\"kv_bits\":8}");
    put_text(at("config/ferry/recipes.d/lpbq-32.json"), "{\"type\":\"fp16\",\"kv_bits\":16}");
    put_text(at("here.json"), "{\"type\":\"16a8w\",\"kv_bits\":8}");
    fy_npu_recipes *r = fy_npu_recipes_open(&e);
    if (r == NULL)
        fail_msg("%s", e.msg);
    const fy_npu_recipe *mine = get(r, "mine");
    assert_int_equal(mine->type, FY_NPU_8A4W);
    assert_int_equal(get(r, "lpbq-32")->type, FY_NPU_FP16);
    size_t n = fy_npu_recipes_n(r);
    const fy_npu_recipe *here = get(r, at("here.json"));
    assert_string_equal(here->name, "here");
    assert_int_equal(fy_npu_recipes_n(r), n + 1);
    assert_ptr_equal(get(r, "here"), here);
    assert_ptr_equal(get(r, "mine"), mine);
    assert_null(fy_npu_recipes_find(r, at("absent.json"), &e));
    assert_int_equal(e.code, FY_EIO);
    fy_npu_recipes_free(r);

    e = (fy_err){0};
    put_text(at("config/ferry/recipes.d/mine.json"), "{\"type\":\"8a4w\"}");
    assert_null(fy_npu_recipes_open(&e));
    assert_non_null(strstr(e.msg, "recipes.d/mine.json: \"kv_bits\" is missing"));
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    const char *text = "{\"type\":\"16a4w\",\"kv_bits\":8,\"title\":\"t\",\"source\":\"s\","
                       "\"models\":[\"a\",\"b\"],\"rules\":[{\"layers\":\"0-3\",\"tensors\":"
                       "[\"wq\",\"attn_qkv\"],\"type\":\"fp16\"}]}";
    const char *good = "{\"type\":\"16a4w\",\"kv_bits\":8,\"title\":\"t\",\"models\":[\"a\",\"b\"],"
                       "\"rules\":[{\"layers\":\"0-3\",\"tensors\":[\"wq\"],\"type\":\"fp16\"}]}";
    for (long n = 0;; n++) {
        fy_err e = {0};
        fy_npu_recipe r;
        alloc_fail_after(n);
        int rc = fy_npu_recipe_parse(good, strlen(good), "f", &r, &e);
        bool failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        if (rc == 0)
            fy_npu_recipe_release(&r);
        if (!failed)
            break;
    }
    fy_npu_recipe r;
    fy_err e = {0};
    assert_int_equal(fy_npu_recipe_parse(text, strlen(text), "f", &r, &e), -1);
    assert_non_null(strstr(e.msg, "'attn_qkv' is named already"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_named_as_executorch_names_them),
        cmocka_unit_test(a_matrix_takes_its_weights_and_scales_in_tiles),
        cmocka_unit_test(more_bytes_than_64_bits_count_are_refused),
        cmocka_unit_test(lpbq_wants_whole_blocks),
        cmocka_unit_test_setup_teardown(every_published_recipe_is_there_in_its_words, tmp_make,
                                        tmp_remove),
        cmocka_unit_test_setup_teardown(rules_say_the_type_of_each_matrix, tmp_make, tmp_remove),
        cmocka_unit_test_setup_teardown(rotation_and_core_are_those_of_the_recipe, tmp_make,
                                        tmp_remove),
        cmocka_unit_test(the_core_can_be_chosen),
        cmocka_unit_test_setup_teardown(an_unknown_recipe_is_told, tmp_make, tmp_remove),
        cmocka_unit_test(each_feature_has_its_floor),
        cmocka_unit_test_setup_teardown(a_recipe_below_a_floor_is_refused, tmp_make, tmp_remove),
        cmocka_unit_test_setup_teardown(every_chip_can_have_the_default, tmp_make, tmp_remove),
        cmocka_unit_test(bad_recipes_are_refused),
        cmocka_unit_test(the_last_rule_that_fits_counts),
        cmocka_unit_test_setup_teardown(own_recipes_extend_the_list, tmp_make, tmp_remove),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
