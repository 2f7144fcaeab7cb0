/* The key of a context binary: the same for the same work, another for whatever changes the bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/unit/model/chain_fixture.h"
#include "workspace/compile/compile_key.h"

enum { CACHE = 24, LARGE = 8 };

static const fy_npu_recipe wide = {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 8},
                           narrow = {.name = (char[]){"16a4w"}, .type = FY_NPU_16A4W, .kv_bits = 8};
static const fy_soc soc = {.name = (char[]){"SM8650"}, .soc_id = 57, .htp_arch = 75, .vtcm_mb = 8};

/* What a key is made of. */
typedef struct {
    fy_compile_job job;
    fy_soc soc;
    char path[128], library[FY_SHA256_HEX];
    float most;       /* of every range */
    float importance; /* of every input of a matrix; 0: none was measured */
} work;

static work work_of(void)
{
    work w = {.soc = soc, .most = 8, .importance = 1};
    snprintf(w.path, sizeof w.path, "%s", chain_at("cut/qnn/chunk_0.gguf"));
    memset(w.library, 'a', sizeof w.library - 1);
    w.job = (fy_compile_job){.recipe = &wide,
                             .name = {"batch_8", "batch_1"},
                             .batch = {LARGE, 1},
                             .n_graphs = 2,
                             .n_cache = CACHE,
                             .n_ctx = CACHE + LARGE};
    return w;
}

static fy_q_ranges *ranges_of(const work *w, const fy_compile_graphs *g)
{
    fy_err e = {0};
    fy_q_ranges *r = fy_q_ranges_new(fy_model_chunk_info(g->model)->model, &e);
    for (size_t i = 0; i < g->graph[0].n_ranges; i++)
        *fy_q_ranges_add(r, g->graph[0].ranges[i].name, &e) =
            (fy_q_range){-w->most, w->most, -w->most, w->most};
    for (size_t i = 0; w->importance > 0 && i < g->graph[0].n_tensors; i++) {
        const fy_q_tensor *t = &g->graph[0].tensors[i];
        char name[FY_Q_MATRIX_NAME];
        if (t->class != FY_QC_WEIGHT)
            continue;
        double *v = fy_q_ranges_squares(r, fy_qgraph_matrix_name(&t->from, name), t->dims[2], &e);
        assert_non_null(v);
        v[0] = (double)w->importance;
    }
    assert_int_equal(e.code, FY_OK);
    return r;
}

static void key_of(work *w, char out[FY_SHA256_HEX])
{
    fy_compile_graphs g;
    fy_err e = {0};
    w->job.gguf = w->path;
    w->job.soc = &w->soc;
    w->job.library_sha256 = w->library;
    if (fy_compile_compose(&w->job, false, &g, &e) != 0)
        fail_msg("%s", e.msg);
    fy_q_ranges *r = ranges_of(w, &g);
    w->job.ranges = r;
    if (fy_compile_encode(&g, r, &e) != 0 || fy_compile_key(&w->job, &g, out, &e) != 0)
        fail_msg("%s", e.msg);
    fy_compile_release(&g);
    fy_q_ranges_free(r);
}

static void chip(work *w)
{
    w->soc.soc_id++;
}
static void arch(work *w)
{
    w->soc.htp_arch = 79;
}
static void vtcm(work *w)
{
    w->soc.vtcm_mb = 4;
}
static void library(work *w)
{
    w->library[0] = 'b';
}
static void recipe(work *w)
{
    w->job.recipe = &narrow;
}
static void caches(work *w)
{
    w->job.kv_bits = 16;
}
static void ranges(work *w)
{
    w->most = 9;
}
static void importance(work *w)
{
    w->importance = 2;
}
static void no_importance(work *w)
{
    w->importance = 0;
}
static void batches(work *w)
{
    w->job.n_graphs = 1;
}
static void batch(work *w)
{
    w->job.batch[1] = 2;
}
static void graph_name(work *w)
{
    w->job.name[1] = "batch_2";
}
static void cache(work *w)
{
    w->job.n_cache--;
}
static void context(work *w)
{
    w->job.n_ctx++;
}
static void candidates(work *w)
{
    w->job.n_candidates = 8;
    w->job.inputs_sha256 = "a";
}
static void more_candidates(work *w)
{
    candidates(w);
    w->job.n_candidates = 16;
}
static void other_inputs(work *w)
{
    candidates(w);
    w->job.inputs_sha256 = "b";
}
static void chunk(work *w)
{
    snprintf(w->path, sizeof w->path, "%s", chain_at("cut/qnn/chunk_1.gguf"));
}

static void whatever_changes_the_binary_changes_the_key(void **state)
{
    static const struct {
        const char *name;
        void (*change)(work *w);
    } changes[] = {
        {"chip", chip},
        {"arch", arch},
        {"vtcm", vtcm},
        {"library", library},
        {"recipe", recipe},
        {"caches", caches},
        {"ranges", ranges},
        {"importance", importance},
        {"batches", batches},
        {"no importance", no_importance},
        {"batch", batch},
        {"name of a graph", graph_name},
        {"cache", cache},
        {"context", context},
        {"chunk", chunk},
        {"candidates", candidates},
        {"more candidates", more_candidates},
        {"other inputs", other_inputs},
    };
    enum { N = sizeof changes / sizeof changes[0] };
    char keys[N + 1][FY_SHA256_HEX], again[FY_SHA256_HEX];
    (void)state;
    work w = work_of();
    key_of(&w, keys[N]);
    w = work_of();
    key_of(&w, again);
    assert_string_equal(keys[N], again);
    for (size_t i = 0; i < N; i++) {
        w = work_of();
        changes[i].change(&w);
        key_of(&w, keys[i]);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(keys[i], keys[k]) == 0)
                fail_msg("%s and %s have one key", changes[i].name, changes[k].name);
        }
        if (strcmp(keys[i], keys[N]) == 0)
            fail_msg("%s does not change the key", changes[i].name);
    }
}

/* The last byte of the chunk is of a weight. */
static void a_byte_of_the_chunk_changes_the_key(void **state)
{
    char before[FY_SHA256_HEX], after[FY_SHA256_HEX];
    (void)state;
    work w = work_of();
    key_of(&w, before);
    FILE *f = fopen(chain_at("cut/qnn/chunk_0.gguf"), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -40, SEEK_END), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, -40, SEEK_END), 0);
    fputc(c ^ 1, f);
    fclose(f);
    w = work_of();
    key_of(&w, after);
    assert_string_not_equal(before, after);
}

static int begin(void **state)
{
    static const uint32_t batch_sizes[] = {LARGE, 1, 0};
    if (chain_make_dir(state) != 0)
        return -1;
    chain_write(&(chain_kind){.arch = "llama", .type = FY_F16, .n_layer = 2});
    chain_write_chunks(
        &(chain_cut){.batch = batch_sizes, .n_chunks = 2, .n_heads = 1, .n_cache = CACHE});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_changes_the_binary_changes_the_key),
        cmocka_unit_test(a_byte_of_the_chunk_changes_the_key),
    };
    return cmocka_run_group_tests_name("compile_key", tests, begin, chain_remove_dir);
}
