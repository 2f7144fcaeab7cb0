/* A chain with one hostile chunk: the first byte chooses the embedding, the layers or the lm_head
 * of the model below, the rest is the file in its place. What loads computes a few tokens, at once
 * and one by one, with the same bits. Corpus: the byte and the sound chunk, or a changed one. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/chain.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"
#include "workspace/npu/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    VOCAB = 8,
    LAYERS = 2,
    N_CACHE = 12,
    N_BATCH = 4,
    N_PROMPT = 6,
    N_CHUNKS = 3,
    MOST_BYTES = 64 << 20
};

static const char *const names[N_CHUNKS] = {"ggml/weights.gguf", "qnn/chunk_0.gguf",
                                            "qnn/lm_head.gguf"};
static char paths[N_CHUNKS][128];
static char dir[64];

static void remove_dir(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        abort();
}

/* The sound model, cut; once. */
static void make_chunks(void)
{
    static const uint32_t batch[] = {N_BATCH, 1};
    const uint32_t end_layer = LAYERS, end_token = VOCAB;
    const fy_cut cut = {.end_layer = &end_layer,
                        .n_chunks = 1,
                        .end_token = &end_token,
                        .n_heads = 1,
                        .batch = batch,
                        .n_batches = 2,
                        .n_ctx = N_CACHE + N_BATCH,
                        .soc = "",
                        .recipe = ""};
    char model[96], into[96];
    fy_chunk_stats stats;
    fy_err e = {0};
    if (dir[0] != '\0')
        return;
    snprintf(dir, sizeof dir, "/tmp/ferry-fuzz-chain-XXXXXX");
    if (mkdtemp(dir) == NULL)
        abort();
    atexit(remove_dir);
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(into, sizeof into, "%s/cut", dir);
    tiny_model t = tiny_default();
    t.hp.n_vocab = VOCAB;
    t.hp.n_layer = LAYERS;
    t.hp.n_embd = t.hp.n_ff = 16;
    t.hp.n_head = 2;
    t.hp.n_head_kv = 1;
    t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = 8;
    fy_pool *pool = fy_pool_new(1, &e);
    if (pool == NULL || tiny_write(&t, model, &e) != 0 ||
        fy_chunk(model, into, &cut, pool, NULL, &stats, &e) != 0)
        abort();
    fy_pool_free(pool);
    for (int i = 0; i < N_CHUNKS; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", into, names[i]);
}

static const float *eval(fy_session *s, uint32_t first, uint32_t n)
{
    static const int32_t ids[N_PROMPT] = {0, 3, 6, 1, 4, 7};
    fy_err e = {0};
    const float *last = NULL;
    if (fy_session_eval(s, ids + first, n, NULL, &last, &e) != 0 || last == NULL)
        abort();
    return last;
}

static void compute(const fy_model *m)
{
    const fy_session_params p = {.n_threads = 1};
    const float *last = NULL;
    float at_once[VOCAB];
    fy_session_plan plan;
    fy_err e = {0};
    if (fy_session_plan_of(m, &p, &plan, &e) != 0 ||
        plan.kv_bytes + plan.scratch_bytes > MOST_BYTES)
        return;
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL) /* a chunk whose tensors are others */
        return;
    memcpy(at_once, eval(s, 0, N_PROMPT), sizeof at_once);
    fy_session_rewind(s, 0);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        last = eval(s, i, 1);
    for (uint32_t i = 0; i < VOCAB; i++) {
        if (memcmp(&at_once[i], &last[i], sizeof *last) != 0 &&
            !(isnan(at_once[i]) && isnan(last[i])))
            abort();
    }
    fy_session_free(s);
}

static fy_model *open_chain(const char *const chunk[N_CHUNKS])
{
    fy_chain_graph_spec graphs[4];
    const fy_map_options how = {.huge = false};
    fy_err e = {0};
    for (uint32_t i = 0; i < 4; i++)
        graphs[i] = (fy_chain_graph_spec){.path = chunk[1 + i % 2],
                                          .name = "g",
                                          .n_batch = i < 2 ? N_BATCH : 1,
                                          .end_layer = i % 2 == 0 ? LAYERS : 0,
                                          .end_token = i % 2 == 0 ? 0 : VOCAB};
    const fy_chain_spec spec = {.graphs = graphs,
                                .n_graphs = 4,
                                .n_cache = N_CACHE,
                                .n_ctx = N_CACHE + N_BATCH,
                                .mask_value = -50000,
                                .model = ""};
    fy_model *m = fy_model_open_chunk(chunk[0], &how, &e);
    fy_graph_device *d = m != NULL ? fy_graph_cpu_open(&how, &e) : NULL;
    if (d != NULL && fy_model_chain(m, d, &spec, &e) == 0 && fy_model_hparams(m)->n_vocab == VOCAB)
        return m;
    fy_model_close(m);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    make_chunks();
    if (size == 0)
        return 0;
    char path[64];
    const char *chunk[N_CHUNKS] = {paths[0], paths[1], paths[2]};
    const int fd = memfd_create("chunk", 0);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    chunk[data[0] % N_CHUNKS] = path;
    fy_model *m = open_chain(chunk);
    if (m != NULL)
        compute(m);
    fy_model_close(m);
    close(fd);
    return 0;
}
