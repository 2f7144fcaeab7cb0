#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "format/gguf_name.h"
#include "kernels/row.h"

/* Names as they are on the hub. */
static void test_names(void **state)
{
    static const struct {
        const char *path, *model, *label;
        unsigned bits, no, count;
    } cases[] = {
        {"Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Llama-3.2-1B-Instruct-Q4_K_M", "Q4_K_M", 4, 1, 1},
        {"qwen2.5-7b-instruct-q5_k_m-00001-of-00002.gguf", "qwen2.5-7b-instruct-q5_k_m", "Q5_K_M",
         5, 1, 2},
        {"tinyllama-1.1b-chat-v1.0.Q4_0.gguf", "tinyllama-1.1b-chat-v1.0.Q4_0", "Q4_0", 4, 1, 1},
        {"Qwen3-8B.i1-IQ3_XXS.gguf", "Qwen3-8B.i1-IQ3_XXS", "I1-IQ3_XXS", 3, 1, 1},
        {"UD-Q4_K_XL/Inkling-UD-Q4_K_XL-00004-of-00005.gguf", "UD-Q4_K_XL/Inkling-UD-Q4_K_XL",
         "UD-Q4_K_XL", 4, 4, 5},
        {"BF16/Model-BF16-00001-of-00003.gguf", "BF16/Model-BF16", "BF16", 16, 1, 3},
        {"ggml-model-q4_0.gguf", "ggml-model-q4_0", "Q4_0", 4, 1, 1},
        {"stories_q8_0.GGUF", "stories_q8_0", "Q8_0", 8, 1, 1},
        {"Phi-3-mini-4k-instruct-q4.gguf", "Phi-3-mini-4k-instruct-q4", "Q4", 4, 1, 1},
        {"Phi-3-mini-4k-instruct-fp16.gguf", "Phi-3-mini-4k-instruct-fp16", "FP16", 16, 1, 1},
        {"gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b-mxfp4", "MXFP4", 4, 1, 1},
        {"Mixtral-MXFP4_MOE.gguf", "Mixtral-MXFP4_MOE", "MXFP4_MOE", 4, 1, 1},
        {"Model-Q4_K_M-imat.gguf", "Model-Q4_K_M-imat", "Q4_K_M", 4, 1, 1},
        {"Model-Q4_0_4_8.gguf", "Model-Q4_0_4_8", "Q4_0_4_8", 4, 1, 1},
        {"BitNet-TQ1_0.gguf", "BitNet-TQ1_0", "TQ1_0", 1, 1, 1},
        {"QwQ-32B.gguf", "QwQ-32B", "", 0, 1, 1},
        {"model.gguf", "model", "", 0, 1, 1},
        {"Q9_0.gguf", "Q9_0", "", 0, 1, 1},
        {"m-Q4__K.gguf", "m-Q4__K", "", 0, 1, 1},
        {"m-Q4_.gguf", "m-Q4_", "", 0, 1, 1},
        {"m-Q4K.gguf", "m-Q4K", "", 0, 1, 1},
        {"m-00000-of-00002.gguf", "m-00000-of-00002", "", 0, 1, 1},
        {"m-00003-of-00002.gguf", "m-00003-of-00002", "", 0, 1, 1},
        {"m-0001-of-00002.gguf", "m-0001-of-00002", "", 0, 1, 1},
        {"-00001-of-00002.gguf", "-00001-of-00002", "", 0, 1, 1},
    };
    static const char *const others[] = {"mmproj-F16.gguf",
                                         "model-mmproj-f16.gguf",
                                         "imatrix.gguf",
                                         "Qwen3-imatrix.gguf",
                                         "mtp-Q8_0.gguf",
                                         "a/eagle3-Q8_0.gguf",
                                         "model.safetensors",
                                         ".gguf",
                                         "a/.gguf",
                                         "imatrix_unsloth.dat",
                                         "gguf",
                                         "",
                                         "MMPROJ-a-Q8_0.gguf"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_gguf_name n;
        if (!fy_gguf_name_read(cases[i].path, &n))
            fail_msg("%s: no model", cases[i].path);
        if (!fy_span_is(n.model, cases[i].model) || strcmp(n.label, cases[i].label) != 0 ||
            n.bits != cases[i].bits || n.no != cases[i].no || n.count != cases[i].count)
            fail_msg("%s: '%.*s' '%s' %u, %u of %u", cases[i].path, (int)n.model.len, n.model.ptr,
                     n.label, n.bits, n.no, n.count);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        fy_gguf_name n;
        if (fy_gguf_name_read(others[i], &n))
            fail_msg("%s: a model", others[i]);
    }
}

static void test_types(void **state)
{
    static const struct {
        const char *label;
        int type; /* -1: none */
    } cases[] = {{"Q4_K_M", FY_Q4_K},     {"UD-Q4_K_XL", FY_Q4_K},
                 {"Q8_0", FY_Q8_0},       {"UD-Q8_K_XL", FY_Q8_0},
                 {"Q4", FY_Q4_K},         {"FP16", FY_F16},
                 {"BF16", FY_BF16},       {"IQ4_XS", FY_IQ4_XS},
                 {"Q3_K_L", FY_Q3_K},     {"I1-Q6_K", FY_Q6_K},
                 {"MXFP4_MOE", FY_MXFP4}, {"Q4_0_4_8", -1},
                 {"IQ3_M", FY_IQ3_S},     {"UD-IQ2_M", FY_IQ2_S},
                 {"IQ5_X", -1},           {"", -1},
                 {"Q4_1", FY_Q4_1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_type t;
        const int got = fy_gguf_label_type(cases[i].label, &t) ? (int)t : -1;
        if (got != cases[i].type)
            fail_msg("%s: %d", cases[i].label, got);
    }
}

/* names "NAME=SIZE ..." and a label -> the first file; "!" and words when it is refused. */
static void chooses(const char *names, const char *label, const char *want)
{
    static char text[2000];
    const char *list[40];
    uint64_t sizes[40];
    size_t n = 0;
    snprintf(text, sizeof text, "%s", names);
    for (char *p = strtok(text, " "); p != NULL; p = strtok(NULL, " "), n++) {
        char *size = strchr(p, '=');
        sizes[n] = strtoull(size + 1, NULL, 10);
        *size = '\0';
        list[n] = p;
    }
    fy_gguf_variants l;
    fy_err e = {0};
    char got[600];
    assert_int_equal(fy_gguf_variants_of(list, sizes, n, fy_row_can_decode, &l, &e), 0);
    const fy_gguf_variant *v = fy_gguf_variants_choose(&l, label, &e);
    snprintf(got, sizeof got, "%s%s", v != NULL ? v->first : "!", v != NULL ? "" : e.msg);
    if (want[0] == '!' ? strstr(got, want + 1) == NULL || v != NULL : strcmp(got, want) != 0)
        fail_msg("%s:%s: '%s', wanted '%s'", names, label, got, want);
    fy_gguf_variants_release(&l);
}

static void test_choice(void **state)
{
    (void)state;
    const char *usual = "m-Q2_K.gguf=2 m-Q3_K_M.gguf=3 m-Q4_0.gguf=4 m-Q4_K_S.gguf=4 "
                        "m-Q4_K_M.gguf=5 m-Q8_0.gguf=8 m-f16.gguf=16 mmproj-f16.gguf=1";
    chooses(usual, "", "m-Q4_K_M.gguf");
    chooses(usual, "q8_0", "m-Q8_0.gguf");
    chooses(usual, "Q2_K", "m-Q2_K.gguf");
    chooses(usual, "Q4_K_L",
            "!no model of type 'Q4_K_L'; its GGUF files are Q2_K, Q3_K_M, Q4_0, "
            "Q4_K_S, Q4_K_M, Q8_0, F16");
    chooses("m-Q4_0.gguf=4 m-Q8_0.gguf=8", "", "m-Q4_0.gguf");
    chooses("m-Q5_K_M.gguf=5 m-Q8_0.gguf=8 m-Q2_K.gguf=2 m-Q4_0_4_4.gguf=4 m-Q4_0_4_8.gguf=4", "",
            "m-Q5_K_M.gguf");
    chooses("m-Q5_K_M.gguf=5 m-Q2_K.gguf=2 m-IQ4_XS.gguf=4", "", "m-IQ4_XS.gguf");
    chooses("m-UD-Q4_K_M.gguf=5 m-Q8_0.gguf=8", "", "m-UD-Q4_K_M.gguf");
    chooses("m-UD-Q4_K_M.gguf=6 m-Q4_K_M.gguf=5", "Q4_K_M", "m-Q4_K_M.gguf");
    chooses("m-UD-Q4_K_XL.gguf=6 m-Q4_K_M.gguf=5", "q4_k_xl", "m-UD-Q4_K_XL.gguf");
    chooses("m.gguf=5", "", "m.gguf");
    chooses("m-Q2_K.gguf=5", "", "m-Q2_K.gguf");
    chooses("m-Q2_K.gguf=5 m-Q4_0_4_4.gguf=7", "", "!none is of 4 bits or more");
    chooses("a.gguf=5 b.gguf=5", "", "!its GGUF files are a.gguf, b.gguf");
    chooses("a-Q4_K_M.gguf=5 b-Q4_K_M.gguf=6", "", "!2 of its models are of type 'Q4_K_M'");
    chooses("a-Q8_0.gguf=5 b-Q8_0.gguf=6", "q8_0", "!--include takes one");
    /* split models: the size of all files; not what is not whole */
    chooses("x/m-Q8_0-00002-of-00003.gguf=5 x/m-Q8_0-00001-of-00003.gguf=5 "
            "x/m-Q8_0-00003-of-00003.gguf=5 m-Q6_K.gguf=14",
            "", "m-Q6_K.gguf");
    chooses("x/m-Q8_0-00002-of-00003.gguf=5 x/m-Q8_0-00001-of-00003.gguf=5 "
            "x/m-Q8_0-00003-of-00003.gguf=5 m-Q6_K.gguf=16",
            "", "x/m-Q8_0-00001-of-00003.gguf");
    chooses("m-Q8_0-00001-of-00002.gguf=5 m-Q6_K.gguf=16", "Q8_0", "!no model of type 'Q8_0'");
    chooses("m-Q8_0-00001-of-00002.gguf=5 m-Q8_0-00002-of-00002.gguf=18446744073709551615 "
            "m-Q6_K.gguf=16",
            "", "m-Q6_K.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests_name("gguf_name", tests, NULL, NULL);
}
