/* A tiny model, compiled for the reference library, and what a session on it gives. */
#ifndef FY_TESTS_COMPILED_FIXTURE_H
#define FY_TESTS_COMPILED_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "backend/qnn/graph_qnn.h"
#include "tests/unit/model/chain_fixture.h"
#include "tests/unit/qnnref/compose.h"
#include "workspace/compile/compile_chunk.h"

enum { CACHE = 24, N_LAYER = 3, N_FILES = 3, N_TOKENS = 19 };

static const uint32_t batch[] = {8, 1, 0};
static const chain_cut cut = {batch, 2, 1, CACHE};
static const char *const files[] = {"chunk_0", "chunk_1", "lm_head"};
static const fy_soc soc = {.name = (char[]){"SM8650"}, .soc_id = 57, .htp_arch = 75, .vtcm_mb = 8};
static const fy_npu_recipe fp16 __attribute__((unused)) = {
    .name = (char[]){"fp16"}, .type = FY_NPU_FP16, .kv_bits = 16, .float_core = true};
static const fy_npu_recipe fixed8
    __attribute__((unused)) = {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 8};
static const fy_npu_recipe fixed16
    __attribute__((unused)) = {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 16};

static char library[1024];
static char faults[96];

/* --- a compiled model ------------------------------------------------------------------------- */

/* Ranges that nothing was measured for, wide enough for what this model computes. */
static fy_q_ranges *made_up(const fy_compile_graphs *g, float half)
{
    fy_err e = {0};
    fy_q_ranges *r = fy_q_ranges_new(fy_model_chunk_info(g->model)->model, &e);
    for (size_t i = 0; r != NULL && i < g->graph[0].n_ranges; i++)
        *fy_q_ranges_add(r, g->graph[0].ranges[i].name, &e) =
            (fy_q_range){-half, half, -half, half};
    assert_int_equal(e.code, FY_OK);
    return r;
}

static void compile(const char *name, const fy_npu_recipe *recipe, float half)
{
    static const char hash[FY_SHA256_HEX] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char gguf[160], out[160];
    fy_err e = {0};
    fy_compiled answer;
    fy_compile_graphs g;
    snprintf(gguf, sizeof gguf, "%s/cut/qnn/%s.gguf", chain_dir, name);
    snprintf(out, sizeof out, "%s/cut/qnn/%s.bin", chain_dir, name);
    fy_compile_job job = {.gguf = gguf,
                          .out = out,
                          .library = library,
                          .library_sha256 = hash,
                          .soc = &soc,
                          .recipe = recipe,
                          .name = {"batch_8", "batch_1"},
                          .batch = {8, 1},
                          .n_graphs = 2,
                          .n_threads = 1,
                          .n_cache = CACHE,
                          .n_ctx = CACHE + 8};
    if (fy_compile_compose(&job, false, &g, &e) != 0)
        fail_msg("%s", e.msg);
    fy_q_ranges *r = made_up(&g, half);
    job.ranges = r;
    if (fy_compile_encode(&g, r, &e) != 0 || fy_compile_chunk(&job, &g, &answer, &e) != 0)
        fail_msg("%s", e.msg);
    fy_compile_release(&g);
    fy_q_ranges_free(r);
}

static void compile_all(const fy_npu_recipe *recipe)
{
    chain_write(&(chain_kind){.arch = "llama", .type = FY_F32, .n_layer = N_LAYER});
    chain_write_chunks(&cut);
    for (int i = 0; i < N_FILES; i++)
        compile(files[i], recipe, 6);
}

static void list_compiled(chain_list *l)
{
    chain_list_of(&cut, N_LAYER, l);
    for (size_t i = 0; i < N_FILES; i++)
        strcpy(strrchr(l->paths[i], '.'), ".bin");
    for (size_t i = 0; i < l->spec.n_graphs; i++)
        l->graphs[i].name = l->graphs[i].n_batch == 8 ? "batch_8" : "batch_1";
}

static fy_chain_preset preset; /* of the next model that is opened */

static inline fy_model *open_compiled(fy_err *e)
{
    chain_list l;
    list_compiled(&l);
    l.spec.preset = &preset;
    fy_model *m = fy_model_open_chunk(chain_at("cut/ggml/weights.gguf"), &chain_how, e);
    fy_graph_device *d = m != NULL ? fy_graph_qnn_open(library, FY_QNN_BURST, false, e) : NULL;
    if (d != NULL && fy_model_chain(m, d, &l.spec, e) == 0)
        return m;
    fy_model_close(m);
    return NULL;
}

/* --- a session --- */

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + (size_t)first * CHAIN_V, logits, (size_t)n * CHAIN_V * sizeof *logits);
    return 0;
}

static void ask_for_faults(const char *text)
{
    FILE *f = fopen(faults, "w");
    fputs(text, f);
    fclose(f);
}

static int compiled_set_up(void **state)
{
    const int rc = chain_make_dir(state);
    strcpy(library, reference_path("libQnnRef.so"));
    snprintf(faults, sizeof faults, "%s/faults", chain_dir);
    ask_for_faults("");
    if (rc != 0 || setenv("FERRY_REF_STRICT", "1", 1) != 0) /* what is left at exit is an error */
        return -1;
    return setenv("FERRY_REF_FAULTS", faults, 1);
}

#endif
