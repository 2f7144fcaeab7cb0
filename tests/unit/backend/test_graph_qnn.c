/* Compiled graphs on the reference library: a session computes what the chunks compute, in floats
 * and in codes, and every file that does not fit is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/backend/compiled_fixture.h"
#include "workspace/compile/graph_float.h"

/* --- right ------------------------------------------------------------------------------------ */

static void evaluate(fy_model *m, fy_type kv, uint32_t step, float *logits)
{
    fy_err e = {0};
    int32_t ids[N_TOKENS];
    fy_session *s = chain_session(m, (fy_session_params){.type_k = kv, .type_v = kv});
    for (int32_t i = 0; i < N_TOKENS; i++)
        ids[i] = i * 7 % CHAIN_V;
    for (uint32_t i = 0; i < N_TOKENS; i += step) {
        const uint32_t n = N_TOKENS - i < step ? N_TOKENS - i : step;
        const fy_eval_sinks sinks = {.logits = keep, .user = logits};
        if (fy_session_eval(s, ids + i, n, &sinks, NULL, &e) != 0)
            fail_msg("%s", e.msg);
    }
    fy_session_free(s);
}

static double difference(const float *a, const float *b)
{
    double sum = 0, power = 0;
    for (size_t i = 0; i < (size_t)N_TOKENS * CHAIN_V; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        power += (double)a[i] * (double)a[i];
    }
    return sqrt(sum / power);
}

static void a_session_computes_what_the_chunks_compute(void **state)
{
    static const struct {
        const fy_npu_recipe *recipe;
        double most; /* of the logits' root mean square */
        const char *kv;
    } cases[] = {{&fp16, 5e-3, "f16"}, {&fixed16, 4e-2, "s16"}, {&fixed8, 8e-2, "u8"}};
    static float want[N_TOKENS * CHAIN_V], got[N_TOKENS * CHAIN_V], again[N_TOKENS * CHAIN_V];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_session_plan plan;
        compile_all(cases[i].recipe);
        fy_model *chunks = chain_open(&cut, N_LAYER), *m = open_compiled(&e);
        if (m == NULL)
            fail_msg("%s", e.msg);
        assert_string_equal(fy_model_backend(m), "qnn");
        evaluate(chunks, FY_F32, N_TOKENS, want);
        evaluate(m, FY_F16, N_TOKENS, got);
        evaluate(m, FY_F32, 5, again); /* other batches; the graphs have their own cache */
        if (!(difference(want, got) < cases[i].most) || !(difference(want, again) < cases[i].most))
            fail_msg("%s: %g and %g", cases[i].kv, difference(want, got), difference(want, again));
        const fy_session_params p = {.n_threads = 1, .type_k = FY_F16, .type_v = FY_F16};
        assert_int_equal(fy_session_plan_of(m, &p, &plan, &e), 0);
        assert_string_equal(plan.type_k, cases[i].kv);
        fy_model_close(m);
        fy_model_close(chunks);
    }
}

static void a_cache_of_another_type_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    compile_all(&fixed8);
    fy_model *m = open_compiled(&e);
    const fy_session_params p = {.n_threads = 1, .type_k = FY_Q8_0, .type_v = FY_F16};
    assert_null(fy_session_new(m, &p, &e));
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "compiled for one of u8: drop -ctk"));
    fy_model_close(m);
}

/* --- presets ---------------------------------------------------------------------------------- */

enum { N_PRESET = 3 };

/* What the graphs in floats have in their caches after the first tokens of `evaluate`. */
static void make_preset(const fy_npu_recipe *recipe)
{
    const fy_graph_float_options o = {.recipe = recipe};
    const int32_t ids[N_PRESET] = {0, 7, 14};
    chain_list l;
    fy_err e = {0};
    chain_list_of(&cut, N_LAYER, &l);
    fy_model *m = fy_model_open_chunk(chain_at("cut/ggml/weights.gguf"), &chain_how, &e);
    assert_int_equal(fy_model_chain(m, fy_graph_float_open(&chain_how, &o, &e), &l.spec, &e), 0);
    fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F32, .type_v = FY_F32});
    assert_int_equal(fy_session_eval(s, ids, N_PRESET, NULL, NULL, &e), 0);
    const fy_hparams *hp = fy_model_hparams(m);
    const size_t n = (size_t)hp->n_layer * hp->n_head_kv;
    preset = (fy_chain_preset){.n = N_PRESET,
                               .ids = malloc(sizeof ids),
                               .keys = calloc(n, sizeof *preset.keys),
                               .values = calloc(n, sizeof *preset.values),
                               .n_pairs = n};
    memcpy(preset.ids, ids, sizeof ids);
    for (uint32_t i = 0; i < n; i++) {
        preset.keys[i] = calloc(N_PRESET * hp->head_dim, sizeof(float));
        preset.values[i] = calloc(N_PRESET * hp->head_dim_v, sizeof(float));
        const fy_chain_run *r = fy_session_chain(s);
        fy_chain_run_cached(r, i / hp->n_head_kv, i % hp->n_head_kv, false, N_PRESET,
                            preset.keys[i]);
        fy_chain_run_cached(r, i / hp->n_head_kv, i % hp->n_head_kv, true, N_PRESET,
                            preset.values[i]);
    }
    fy_session_free(s);
    fy_model_close(m);
}

static void a_preset_is_what_its_tokens_would_be(void **state)
{
    static const struct {
        const fy_npu_recipe *recipe;
        double most;
    } cases[] = {{&fp16, 5e-3}, {&fixed16, 4e-2}, {&fixed8, 8e-2}};
    static float want[N_TOKENS * CHAIN_V], got[N_TOKENS * CHAIN_V];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        compile_all(cases[i].recipe);
        make_preset(cases[i].recipe);
        fy_model *chunks = chain_open(&cut, N_LAYER), *m = open_compiled(&e);
        if (m == NULL)
            fail_msg("%s", e.msg);
        assert_null(preset.ids);
        evaluate(chunks, FY_F32, N_TOKENS, want);
        evaluate(m, FY_F16, N_TOKENS, got);
        if (!(difference(want, got) < cases[i].most))
            fail_msg("case %zu: %g", i, difference(want, got));
        /* without a sink nothing of the preset is computed, and the rest is the same */
        fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16});
        const int32_t ids[] = {0, 7, 14, 21, 28};
        const float *last;
        for (int again = 0; again < 2; again++) {
            fy_session_rewind(s, 0);
            assert_int_equal(fy_session_eval(s, ids, 5, NULL, &last, &e), 0);
            double worst = 0;
            for (size_t k = 0; k < CHAIN_V; k++)
                worst = fmax(worst, fabs((double)last[k] - (double)got[4 * CHAIN_V + k]));
            assert_true(worst < 10 * cases[i].most);
        }
        const int32_t strange[] = {5, 7, 14, 21};
        fy_session_rewind(s, 0);
        const int rc = fy_session_eval(s, strange, 4, NULL, NULL, &e);
        assert_int_equal(rc != 0, i > 0); /* floats do not need it */
        if (i > 0)
            assert_non_null(strstr(e.msg, "begin with a preset of 3 tokens (the first is 0)"));
        fy_session_free(s);
        fy_model_close(m);
        fy_model_close(chunks);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

static void shared_memory_gives_the_same_bits(void **state)
{
    static const char *const cases[] = {
        "",                     /* all is shared */
        "config 6 refuse\n",    /* an older library, which counts no room for it */
        "alias refuse\n",       /* no place has two shapes */
        "rpcmem limit 40960\n", /* the caches are shared, the rest is not */
        "rpcmem null\n",        /* nothing is */
        "rpcmem fd\n",
    };
    static float want[N_TOKENS * CHAIN_V], got[N_TOKENS * CHAIN_V];
    (void)state;
    fy_err e = {0};
    compile_all(&fixed8);
    fy_model *m = open_compiled(&e);
    evaluate(m, FY_F16, 5, want);
    fy_model_close(m);
    assert_non_null(dlopen(reference_path("libcdsprpc.so"), RTLD_NOW)); /* found from now on */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask_for_faults(cases[i]);
        m = open_compiled(&e);
        for (int again = 0; again < 2; again++) { /* sessions after each other */
            evaluate(m, FY_F16, 5, got);
            if (memcmp(want, got, sizeof want) != 0)
                fail_msg("case %zu", i);
        }
        fy_model_close(m);
    }
    ask_for_faults("memRegister code 8003\n"); /* such a call is made */
    m = open_compiled(&e);
    const fy_session_params p = {.n_threads = 1, .type_k = FY_F16, .type_v = FY_F16};
    assert_null(fy_session_new(m, &p, &e));
    assert_non_null(strstr(e.msg, "MB of shared memory: memRegister: QNN error 8003"));
    fy_model_close(m);
    ask_for_faults("");
}

/* --- wrong ------------------------------------------------------------------------------------ */

/* In the description of a file: the n-th `from` becomes `to`; NULL: the eight characters after it
 * become zeros. */
static void edit(const char *name, int n, const char *from, const char *to)
{
    char path[160];
    fy_map map;
    fy_err e = {0};
    fy_str s = {0};
    snprintf(path, sizeof path, "%s/cut/qnn/%s.json", chain_dir, name);
    assert_int_equal(fy_map_open(&map, path, &e), 0);
    fy_str_add(&s, (const char *)map.data, map.size);
    fy_map_close(&map);
    char *at = strstr(fy_str_z(&s), from);
    while (at != NULL && --n > 0)
        at = strstr(at + 1, from);
    assert_non_null(at);
    fy_str out = {0};
    fy_str_add(&out, s.ptr, (size_t)(at - s.ptr));
    fy_str_puts(&out, to != NULL ? to : from);
    fy_str_puts(&out, to != NULL ? "" : "00000000");
    fy_str_puts(&out, at + strlen(from) + (to != NULL ? 0 : 8));
    assert_int_equal(fy_file_write(path, out.ptr, out.len, &e), 0);
    fy_str_release(&s);
    fy_str_release(&out);
}

static void refuse(fy_code code, const char *says)
{
    fy_err e = {0};
    fy_model *m = open_compiled(&e);
    const fy_session_params p = {.n_threads = 1, .type_k = FY_F16, .type_v = FY_F16};
    fy_session *s = m != NULL ? fy_session_new(m, &p, &e) : NULL;
    if (s != NULL || strstr(e.msg, says) == NULL || e.code != code)
        fail_msg("'%s' (%d), expected '%s' (%d)", e.msg, e.code, says, code);
    fy_model_close(m);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *file, *from, *to;
        int nth;
        fy_code code;
        const char *says;
    } cases[] = {
        {"chunk_1", "v2.51.0", "v2.52.0", 1, FY_EUNSUPPORTED,
         "chunk_1.bin: was compiled with SDK 2.52, and the library is of 2.51"},
        {"chunk_1", "\"model\": \"", NULL, 1, FY_EFORMAT,
         "chunk_1.bin: was compiled from model 00000000"},
        {"chunk_0", "\"id\": 57", "\"id\": 69", 1, FY_EFORMAT,
         "chunk_0.bin: was compiled for chip 69, another chunk for 57"},
        {"chunk_0", "\"batch_8\"", "\"batch_9\"", 1, FY_EFORMAT,
         "chunk_0.bin: has no graph 'batch_8'"},
        {"chunk_0", "\"attn_bias\"", "\"bias\"", 1, FY_EFORMAT,
         "chunk_0.bin, graph 'batch_8': has no tensor 'attn_bias'"},
        {"chunk_0", "\"dims\": [8, 32]", "\"dims\": [8, 33]", 1, FY_EFORMAT,
         "input 'attn_bias' is [8, 33] of rank 2, expected input [8, 32]"},
        {"lm_head", "\"dims\": [8, 96]", "\"dims\": [8, 1, 96]", 1, FY_EFORMAT, "of rank 3"},
        {"lm_head", "\"type\": \"f32\"", "\"type\": \"f16\"", 1, FY_EFORMAT,
         "lm_head.bin: graph 'batch_8': tensor 'x' of f16 (offset 0), expected floats"},
        {"chunk_1", "\"offset\": -128", "\"offset\": -127", 1, FY_EFORMAT, "has scale "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compile_all(&fixed8);
        edit(cases[i].file, cases[i].nth, cases[i].from, cases[i].to);
        refuse(cases[i].code, cases[i].says);
    }
}

static void a_binary_is_hashed_first(void **state)
{
    (void)state;
    char command[256];
    compile_all(&fp16);
    snprintf(command, sizeof command, "printf x >>%s", chain_at("cut/qnn/chunk_1.bin"));
    assert_int_equal(system(command), 0);
    refuse(FY_EVERIFY, "chunk_1.bin: has SHA-256 ");
    snprintf(command, sizeof command, "rm %s", chain_at("cut/qnn/chunk_1.json"));
    assert_int_equal(system(command), 0);
    refuse(FY_EFORMAT, "chunk_1.json, and the library of metadata does not help: "
                       "systemContextGetMetaData: QNN error 30010");
}

static void what_the_library_answers_is_said(void **state)
{
    static const struct {
        const char *fault, *says;
    } cases[] = {
        {"contextCreateFromBinary code 1002\n",
         "chunk_1.bin: contextCreateFromBinary: QNN error 1002"},
        {"reload refuse\n", "chunk_1.bin: the graphs share their weights, and the QNN library for PCs"},
        {"graphRetrieve code 6003\n", "graphRetrieve: QNN error 6003"},
        {"deviceCreate code 14001\n", "deviceCreate: QNN error 14001"},
        {"backendCreate code 4000\n", "backendCreate: QNN error 4000"},
    };
    (void)state;
    compile_all(&fp16);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        ask_for_faults(cases[i].fault);
        fy_model *m = open_compiled(&e);
        const fy_session_params p = {.n_threads = 1, .type_k = FY_F16, .type_v = FY_F16};
        fy_session *s = m != NULL ? fy_session_new(m, &p, &e) : NULL;
        if (s != NULL || strstr(e.msg, cases[i].says) == NULL)
            fail_msg("'%s', expected '%s'", e.msg, cases[i].says);
        fy_model_close(m);
    }
    ask_for_faults("graphExecute code 6031\n");
    fy_err e = {0};
    fy_model *m = open_compiled(&e);
    fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16});
    const int32_t ids[] = {1, 2, 3};
    assert_int_not_equal(fy_session_eval(s, ids, 3, NULL, NULL, &e), 0);
    assert_non_null(strstr(e.msg, "chunk_0.bin, graph 'batch_8': graphExecute: QNN error 6031"));
    assert_int_equal(fy_session_n_past(s), 0);
    ask_for_faults("");
    assert_int_equal(fy_session_eval(s, ids, 3, NULL, NULL, &e), 0);
    fy_session_free(s);
    fy_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_computes_what_the_chunks_compute),
        cmocka_unit_test(a_preset_is_what_its_tokens_would_be),
        cmocka_unit_test(shared_memory_gives_the_same_bits),
        cmocka_unit_test(a_cache_of_another_type_is_refused),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_binary_is_hashed_first),
        cmocka_unit_test(what_the_library_answers_is_said),
    };
    return cmocka_run_group_tests(tests, compiled_set_up, chain_remove_dir);
}
