#include "policy/type_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_LAYERS = 80, PER_LAYER = 4, MAX_TENSORS = MAX_LAYERS * PER_LAYER + 2 };

/* A letter for a type, as in the table below. */
static char letter(fy_type t)
{
    static const struct {
        fy_type type;
        char letter;
    } letters[] = {{FY_Q4_0, 'a'}, {FY_Q4_1, 'b'}, {FY_Q5_0, 'c'}, {FY_Q5_1, 'd'},
                   {FY_Q8_0, '8'}, {FY_Q4_K, '4'}, {FY_Q5_K, '5'}, {FY_Q6_K, '6'}};
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].type == t)
            return letters[i].letter;
    }
    return '?';
}

/* What llama_model_quantize of October 2026 (node-llama-cpp 3.22.1) gave files of these keys: layer
 * by layer the types of the values' matrix (attn_qkv for falcon) and of ffn_down; then of
 * token_embd, output, attn_k and attn_output, '-' where there is none. */
static const struct {
    const char *arch;
    uint32_t n_layer, n_head, n_head_kv, n_expert;
    bool imatrix;
    fy_type target;
    const char *values, *down, *others;
    bool small; /* Q4_K_S, Q5_K_S */
} cases[] = {
    {"llama", 19, 8, 1, 0, false, FY_Q4_K, "6644644644644644666", "6644644644644644666", "4644",
     false},
    {"llama", 19, 8, 1, 0, false, FY_Q5_K, "6655655655655655666", "6655655655655655666", "5655",
     false},
    {"llama", 7, 8, 1, 0, false, FY_Q4_K, "4464466", "4464466", "4644", false},
    {"llama", 80, 8, 1, 0, false, FY_Q4_K,
     "66666666665565565565565565565565565565565565565565565565565565565565566666666666",
     "66666666664464464464464464464464464464464464464464464464464464464464466666666666", "4644",
     false},
    {"llama", 80, 8, 8, 0, false, FY_Q4_K,
     "66666666664464464464464464464464464464464464464464464464464464464464466666666666",
     "66666666664464464464464464464464464464464464464464464464464464464464466666666666", "4644",
     false},
    {"qwen2", 80, 8, 8, 0, false, FY_Q4_K,
     "66666666665565565565565565565565565565565565565565565565565565565565566666666666",
     "66666666664464464464464464464464464464464464464464464464464464464464466666666666", "4644",
     false},
    {"llama", 80, 8, 1, 0, false, FY_Q5_K,
     "66666666665565565565565565565565565565565565565565565565565565565565566666666666",
     "66666666665565565565565565565565565565565565565565565565565565565565566666666666", "5655",
     false},
    {"falcon", 32, 8, 1, 0, false, FY_Q4_K, "66664464464464464464464464466666",
     "66554454454454454454454454455555", "48-4", false},
    {"falcon", 32, 8, 1, 0, false, FY_Q5_K, "66665565565565565565565565566666",
     "66665565565565565565565565566666", "8--5", false},
    {"llama", 16, 8, 1, 8, false, FY_Q4_K, "8888888888888888", "6644644644644666", "4685", false},
    {"llama", 16, 8, 1, 8, false, FY_Q5_K, "8888888888888888", "6655655655655666", "5685", false},
    {"qwen3moe", 12, 8, 1, 16, false, FY_Q4_K, "644644644666", "644644644666", "4644", false},
    {"gemma", 18, 8, 1, 0, false, FY_Q4_K, "664464464464464666", "664464464464464666", "6-44",
     false},
    {"llama", 19, 8, 1, 0, true, FY_Q4_0, "aaaaaaaaaaaaaaaaaaa", "bbaaaaaaaaaaaaaaaaa", "a6aa",
     false},
    {"llama", 19, 8, 1, 0, true, FY_Q5_0, "ccccccccccccccccccc", "ddccccccccccccccccc", "c6cc",
     false},
    {"llama", 19, 8, 1, 0, true, FY_Q4_1, "bbbbbbbbbbbbbbbbbbb", "bbbbbbbbbbbbbbbbbbb", "b6bb",
     false},
    {"llama", 19, 8, 1, 0, false, FY_Q4_0, "aaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaa", "a6aa",
     false},
    {"llama", 16, 8, 1, 8, true, FY_Q4_0, "8888888888888888", "bbaaaaaaaaaaaaaa", "a68a", false},
    {"llama", 19, 8, 1, 0, false, FY_Q4_K, "5555444444444444444", "5544444444444444444", "4644",
     true},
    {"llama", 19, 8, 1, 0, false, FY_Q5_K, "5555555555555555555", "5555555555555555555", "5655",
     true},
    {"llama", 80, 8, 1, 0, false, FY_Q4_K,
     "55555555555555555555555555555555555555555555555555555555555555555555555555555555",
     "55555555554444444444444444444444444444444444444444444444444444444444444444444444", "4644",
     true},
    {"falcon", 32, 8, 1, 0, false, FY_Q4_K, "55554444444444444444444444444444",
     "44444444444444444444444444444444", "48-4", true},
    {"falcon", 32, 8, 1, 0, false, FY_Q5_K, "55555555555555555555555555555555",
     "55555555555555555555555555555555", "58-5", true},
    {"falcon", 32, 8, 1, 0, false, FY_Q6_K, "66666666666666666666666666666666",
     "66666666666666666666666666666666", "68-6", false},
    {"llama", 16, 8, 1, 8, false, FY_Q4_K, "8888888888888888", "5544444444444444", "4685", true},
    {"llama", 16, 8, 1, 8, false, FY_Q5_K, "8888888888888888", "5555555555555555", "5685", true},
    {"llama", 16, 8, 1, 8, false, FY_Q6_K, "8888888888888888", "6666666666666666", "6686", false},
};

static const char *const parts[PER_LAYER] = {"attn_v", "ffn_down", "attn_k", "attn_output"};

/* A matrix whose type is to be chosen. */
static fy_type_item asked(const char *name, fy_type target)
{
    return (fy_type_item){.name = fy_span_of(name), .wanted = target, .why = FY_TYPE_ASKED};
}

static size_t name_tensors(size_t c, char names[MAX_TENSORS][48], fy_type_item *t)
{
    const bool experts = cases[c].n_expert > 0, qkv = cases[c].others[2] == '-';
    size_t n = 0;
    for (uint32_t l = cases[c].n_layer; l-- > 0;) { /* the order in the file does not matter */
        for (int p = 0; p < PER_LAYER; p++) {
            if (p != 2 || !qkv)
                snprintf(names[n++], 48, "blk.%u.%s%s.weight", l,
                         p == 0 && qkv ? "attn_qkv" : parts[p], p == 1 && experts ? "_exps" : "");
        }
    }
    snprintf(names[n++], 48, "token_embd.weight");
    if (cases[c].others[1] != '-')
        snprintf(names[n++], 48, "output.weight");
    for (size_t i = 0; i < n; i++)
        t[i] = asked(names[i], cases[c].target);
    return n;
}

static char expected(size_t c, const char *name)
{
    unsigned layer;
    if (strcmp(name, "token_embd.weight") == 0)
        return cases[c].others[0];
    if (sscanf(name, "blk.%u.", &layer) != 1)
        return cases[c].others[1];
    return strstr(name, "attn_v.") != NULL || strstr(name, "attn_qkv") != NULL
               ? cases[c].values[layer]
           : strstr(name, "ffn_down") != NULL ? cases[c].down[layer]
           : strstr(name, "attn_k.") != NULL  ? cases[c].others[2]
                                              : cases[c].others[3];
}

static fy_llama_model model_of(size_t c)
{
    return (fy_llama_model){.arch = fy_span_of(cases[c].arch),
                            .n_layer = cases[c].n_layer,
                            .n_head = cases[c].n_head,
                            .n_head_kv = cases[c].n_head_kv,
                            .n_expert = cases[c].n_expert,
                            .imatrix = cases[c].imatrix};
}

static void the_choice_is_llama_quantizes(void **state)
{
    (void)state;
    static char names[MAX_TENSORS][48];
    static fy_type_item t[MAX_TENSORS];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const fy_llama_model m = model_of(c);
        const size_t n = name_tensors(c, names, t);
        const fy_file_type file = {cases[c].target,
                                   cases[c].small ? FY_RECIPE_LLAMA_SMALL : FY_RECIPE_LLAMA};
        fy_err e = {0};
        assert_int_equal(fy_llama_types(&m, &file, t, n, &e), 0);
        for (size_t i = 0; i < n; i++) {
            if (letter(t[i].wanted) != expected(c, names[i]))
                fail_msg("row %zu, %s of %s: %s, expected %c", c, names[i], cases[c].arch,
                         fy_type_name(t[i].wanted), expected(c, names[i]));
        }
    }
}

/* llama-quantize counts only what its rule decides: an option for one matrix moves the others. */
static void what_is_not_asked_does_not_count(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_v.weight", "blk.1.attn_v.weight",
                                        "blk.2.attn_v.weight", "blk.3.attn_v.weight",
                                        "blk.4.attn_v.weight"};
    const fy_llama_model m = {.arch = fy_span_of("llama"), .n_layer = 5};
    fy_type_item t[5];
    char got[6] = "";
    for (int skipped = -1; skipped <= 0; skipped++) {
        for (int i = 0; i < 5; i++)
            t[i] = asked(names[i], FY_Q4_K);
        if (skipped >= 0)
            t[skipped].why = FY_TYPE_OPTION;
        assert_int_equal(fy_llama_types(&m, &(fy_file_type){FY_Q4_K, FY_RECIPE_LLAMA}, t, 5, NULL),
                         0);
        for (int i = 0; i < 5; i++)
            got[i] = letter(t[i].wanted);
        assert_string_equal(got, skipped < 0 ? "44646" : "44464");
    }
}

static void floats_and_q8_0_stay_what_they_are(void **state)
{
    (void)state;
    const fy_llama_model m = {.arch = fy_span_of("llama"), .n_layer = 1};
    static const fy_type types[] = {FY_F32, FY_F16, FY_BF16, FY_Q8_0};
    for (size_t i = 0; i < 4; i++) {
        fy_type_item t = asked("output.weight", types[i]);
        assert_int_equal(
            fy_llama_types(&m, &(fy_file_type){types[i], FY_RECIPE_LLAMA}, &t, 1, NULL), 0);
        assert_int_equal(t.wanted, types[i]);
    }
}

static void the_embeddings_of_layers_are_tied_too(void **state)
{
    (void)state;
    const fy_llama_model m = {.arch = fy_span_of("gemma3n"), .n_layer = 1};
    fy_type_item t = asked("per_layer_token_embd.weight", FY_Q4_0);
    assert_int_equal(fy_llama_types(&m, &(fy_file_type){FY_Q4_0, FY_RECIPE_LLAMA}, &t, 1, NULL), 0);
    assert_int_equal(t.wanted, FY_Q6_K);
}

static void experts_without_a_layer_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"ffn_down_exps.weight", "blk.4.ffn_up_exps.weight",
                                      "blk.x.ffn_gate_exps.weight",
                                      "blk.99999999999.ffn_up_exps.weight"};
    const fy_llama_model m = {.arch = fy_span_of("llama"), .n_layer = 4, .n_expert = 4};
    for (size_t i = 0; i < 4; i++) {
        fy_err e = {0};
        fy_type_item t = asked(bad[i], FY_Q4_0);
        assert_int_equal(fy_llama_types(&m, &(fy_file_type){FY_Q4_0, FY_RECIPE_LLAMA}, &t, 1, &e),
                         -1);
        assert_non_null(strstr(e.msg, "expected blk.N with N below 4"));
    }
}

static void mixtures_have_file_types_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA, FY_Q4_K), 15);
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA, FY_Q5_K), 17);
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA, FY_Q6_K), 18);
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA, FY_Q4_0), 2);
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA_SMALL, FY_Q4_K), 14);
    assert_int_equal(fy_recipe_ftype(FY_RECIPE_LLAMA_SMALL, FY_Q5_K), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_llama_quantizes),
        cmocka_unit_test(what_is_not_asked_does_not_count),
        cmocka_unit_test(floats_and_q8_0_stay_what_they_are),
        cmocka_unit_test(the_embeddings_of_layers_are_tied_too),
        cmocka_unit_test(experts_without_a_layer_are_refused),
        cmocka_unit_test(mixtures_have_file_types_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
