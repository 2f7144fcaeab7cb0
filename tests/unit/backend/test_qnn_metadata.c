/* Context binaries without their descriptions: the library of metadata gives the same ones, in each
 * layout of its answers, sessions compute the same, and answers that do not hold together are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "backend/qnn/qnn_metadata.h"
#include "base/file.h"
#include "tests/unit/backend/compiled_fixture.h"

static void read_back(const char *name, fy_qnn_sidecar *out, int expected, fy_err *e)
{
    char path[160];
    fy_map map;
    snprintf(path, sizeof path, "%s/cut/qnn/%s.bin", chain_dir, name);
    assert_int_equal(fy_map_open(&map, path, e), 0);
    assert_int_equal(fy_qnn_sidecar_recover(library, map.data, map.size, out, e), expected);
    assert_true(expected != 0 || out->bytes == map.size);
    fy_map_close(&map);
}

static const fy_qnn_sidecar_tensor *find(const fy_qnn_sidecar_graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    }
    fail_msg("no %s", name);
    return NULL;
}

static void same_graph(const fy_qnn_sidecar_graph *a, const fy_qnn_sidecar_graph *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_batch, b->n_batch);
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (size_t i = 0; i < a->n_tensors; i++) {
        const fy_qnn_sidecar_tensor *t = &a->tensors[i], *u = find(b, t->name);
        assert_true(t->id == u->id && t->type == u->type && t->rank == u->rank);
        assert_memory_equal(t->dims, u->dims, t->rank * sizeof *t->dims);
        assert_true(t->output == u->output && t->offset == u->offset);
        assert_true((float)t->scale == (float)u->scale);
    }
}

/* All that a binary holds; what it was made from is not in it. */
static void the_description_is_recovered(void **state)
{
    static const fy_npu_recipe *const recipes[] = {&fp16, &fixed16, &fixed8};
    static const char *const layouts[] = {"", "layout 1\n", "layout 2\n", "layout 3\n"};
    (void)state;
    for (size_t i = 0; i < 3 * 4; i++) {
        if (i % 4 == 0)
            compile_all(recipes[i / 4]);
        ask_for_faults(layouts[i % 4]);
        for (int k = 0; k < N_FILES; k++) {
            fy_err e = {0};
            char path[160];
            fy_qnn_sidecar is, was;
            read_back(files[k], &is, 0, &e);
            snprintf(path, sizeof path, "%s/cut/qnn/%s.json", chain_dir, files[k]);
            assert_int_equal(fy_qnn_sidecar_read(path, &was, &e), 0);
            assert_int_equal(is.n_graphs, 2);
            for (size_t g = 0; g < 2; g++)
                same_graph(&was.graphs[g], &is.graphs[g]);
            assert_string_equal(is.build_id, was.build_id);
            assert_string_equal(is.core, was.core);
            assert_int_equal(is.mask_type, was.mask_type);
            assert_true((float)is.mask_depth == (float)was.mask_depth);
            assert_int_equal(is.soc_id, i % 4 == 0 || i % 4 == 3 ? 57 : 0);
            assert_true(is.model[0] == '\0' && is.sha256[0] == '\0' && is.recipe[0] == '\0');
            fy_qnn_sidecar_release(&is);
            fy_qnn_sidecar_release(&was);
        }
    }
    ask_for_faults("");
}

static void evaluate(float *logits)
{
    fy_err e = {0};
    int32_t ids[N_TOKENS];
    const fy_eval_sinks sinks = {.logits = keep, .user = logits};
    fy_model *m = open_compiled(&e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    fy_session *s = chain_session(m, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16});
    for (int32_t i = 0; i < N_TOKENS; i++)
        ids[i] = i * 5 % CHAIN_V;
    assert_int_equal(fy_session_eval(s, ids, N_TOKENS, &sinks, NULL, &e), 0);
    fy_session_free(s);
    fy_model_close(m);
}

/* A phone knows its chip, which older answers do not name. */
static void a_session_needs_no_description(void **state)
{
    static const char *const layouts[] = {"layout 1\nsoc 57\n", "layout 2\nsoc 57\n", "layout 3\n"};
    static float want[N_TOKENS * CHAIN_V], got[N_TOKENS * CHAIN_V];
    char command[160];
    (void)state;
    compile_all(&fixed8);
    evaluate(want);
    snprintf(command, sizeof command, "rm %s/cut/qnn/*.json", chain_dir);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < 3; i++) {
        ask_for_faults(layouts[i]);
        memset(got, 0, sizeof got);
        evaluate(got);
        assert_memory_equal(want, got, sizeof want);
    }
    ask_for_faults("");
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *fault, *says;
    } cases[] = {
        {"layout 4\n", "the QNN system library answers in version 4, expected 1 to 3"},
        {"system absent\n", "the QNN system library names no provider"},
    };
    fy_qnn_sidecar s;
    (void)state;
    compile_all(&fp16);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        ask_for_faults(cases[i].fault);
        read_back("chunk_0", &s, -1, &e);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("'%s', expected '%s'", e.msg, cases[i].says);
        assert_null(s.graphs);
    }
    ask_for_faults("");
    fy_err e = {0};
    static const uint8_t other[64] = "not a context binary";
    assert_int_equal(fy_qnn_sidecar_recover(library, other, sizeof other, &s, &e), -1);
    assert_non_null(strstr(e.msg, "systemContextGetMetaData: QNN error 30010"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_description_is_recovered),
        cmocka_unit_test(a_session_needs_no_description),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, compiled_set_up, chain_remove_dir);
}
