/* A tiny model of any family, whole and cut into chunks, in a directory of its own. */
#ifndef FY_TESTS_CHAIN_FIXTURE_H
#define FY_TESTS_CHAIN_FIXTURE_H

#include <stdlib.h>
#include <unistd.h>

#include "model/chain.h"
#include "model/model.h"
#include "tests/unit/model/tiny_model.h"
#include "workspace/npu/chunk.h"

typedef struct {
    const char *arch;
    fy_type type;
    uint32_t n_swa, n_rot, n_layer;
    bool two_norms, tied;
} chain_kind;

typedef struct {
    const uint32_t *batch; /* 0-terminated, largest first */
    uint32_t n_chunks, n_heads;
    uint32_t n_cache;
} chain_cut;

enum { CHAIN_V = 96, CHAIN_N_GRAPHS = 64 };

static char chain_dir[64];

static const char *chain_at(const char *rel)
{
    static char paths[4][128];
    static int i;
    snprintf(paths[++i % 4], sizeof paths[0], "%s/%s", chain_dir, rel);
    return paths[i % 4];
}

static int chain_make_dir(void **state)
{
    (void)state;
    snprintf(chain_dir, sizeof chain_dir, "/tmp/ferry-chain-XXXXXX");
    return mkdtemp(chain_dir) != NULL ? 0 : -1;
}

static int chain_remove_dir(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", chain_dir);
    return system(command);
}

static void chain_write(const chain_kind *k)
{
    tiny_model t = tiny_of(k->arch, false);
    fy_err e = {0};
    t.type = k->type;
    t.two_norms = k->two_norms;
    t.tied = k->tied;
    t.biases = tiny_knows(&t, FY_T_FFN_DOWN_B);
    t.hp.n_layer = k->n_layer;
    t.hp.n_rot = k->n_rot;
    t.hp.n_swa = k->n_swa;
    t.hp.n_ctx_train = 512;
    if (strcmp(k->arch, "olmo2") == 0)
        t.hp.n_head_kv = t.hp.n_head;
    if (strcmp(k->arch, "gemma3") == 0)
        t.hp.rope_theta_swa = 20;
    if (strcmp(k->arch, "granite") == 0) {
        t.hp.embedding_scale = 3;
        t.hp.residual_scale = 0.5f;
        t.hp.logit_scale = 4;
        t.hp.attn_scale = 0.1f;
    }
    if (tiny_write(&t, chain_at("model.gguf"), &e) != 0)
        fail_msg("%s: %s", k->arch, e.msg);
}

static fy_model *chain_open_whole(void)
{
    fy_err e = {0};
    fy_model *m = fy_model_open(chain_at("model.gguf"), &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

/* Cuts model.gguf into cut/, even by layers and tokens. */
static void chain_write_chunks(const chain_cut *c)
{
    uint32_t end_layer[16], end_token[16], n_batches = 0;
    fy_chunk_stats stats;
    fy_err e = {0};
    fy_model *m = chain_open_whole();
    fy_pool *pool = fy_pool_new(1, &e);
    for (uint32_t i = 0; i < c->n_chunks; i++)
        end_layer[i] = fy_model_hparams(m)->n_layer * (i + 1) / c->n_chunks;
    for (uint32_t i = 0; i < c->n_heads; i++)
        end_token[i] = CHAIN_V * (i + 1) / c->n_heads;
    while (c->batch[n_batches] != 0)
        n_batches++;
    const fy_cut cut = {.end_layer = end_layer,
                        .n_chunks = c->n_chunks,
                        .end_token = end_token,
                        .n_heads = c->n_heads,
                        .batch = c->batch,
                        .n_batches = n_batches,
                        .n_ctx = c->n_cache + c->batch[0],
                        .soc = "",
                        .recipe = ""};
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", chain_at("cut"));
    if (system(command) != 0 ||
        fy_chunk(chain_at("model.gguf"), chain_at("cut"), &cut, pool, NULL, &stats, &e) != 0)
        fail_msg("%s", e.msg);
    fy_pool_free(pool);
    fy_model_close(m);
}

/* The list of the cut's graphs, as qnn/config.json would give it. */
typedef struct {
    char paths[32][128];
    fy_chain_graph_spec graphs[CHAIN_N_GRAPHS];
    fy_chain_spec spec;
} chain_list;

static inline void chain_list_of(const chain_cut *c, uint32_t n_layer, chain_list *l)
{
    size_t n = 0;
    *l = (chain_list){0};
    for (const uint32_t *b = c->batch; *b != 0; b++) {
        for (uint32_t i = 0; i < c->n_chunks + c->n_heads; i++) {
            const uint32_t h = i - c->n_chunks;
            const bool head = i >= c->n_chunks;
            char rel[48] = "cut/qnn/lm_head.gguf";
            if (!head)
                snprintf(rel, sizeof rel, "cut/qnn/chunk_%u.gguf", i);
            else if (c->n_heads > 1)
                snprintf(rel, sizeof rel, "cut/qnn/lm_head_%u.gguf", h);
            snprintf(l->paths[i], sizeof l->paths[i], "%s", chain_at(rel));
            l->graphs[n++] =
                head ? (fy_chain_graph_spec){.path = l->paths[i],
                                             .name = "g",
                                             .n_batch = *b,
                                             .first_token = CHAIN_V * h / c->n_heads,
                                             .end_token = CHAIN_V * (h + 1) / c->n_heads}
                     : (fy_chain_graph_spec){.path = l->paths[i],
                                             .name = "g",
                                             .n_batch = *b,
                                             .first_layer = n_layer * i / c->n_chunks,
                                             .end_layer = n_layer * (i + 1) / c->n_chunks};
        }
    }
    l->spec = (fy_chain_spec){.graphs = l->graphs,
                              .n_graphs = n,
                              .n_cache = c->n_cache,
                              .n_ctx = c->n_cache + c->batch[0],
                              .mask_value = -50000,
                              .model = ""};
}

static const fy_map_options chain_how = {.huge = false};

/* The embedding with the list's graphs; NULL with *e. */
static inline fy_model *chain_open_list(const chain_list *l, fy_err *e)
{
    fy_model *m = fy_model_open_chunk(chain_at("cut/ggml/weights.gguf"), &chain_how, e);
    fy_graph_device *d = m != NULL ? fy_graph_cpu_open(&chain_how, e) : NULL;
    if (d != NULL && fy_model_chain(m, d, &l->spec, e) == 0)
        return m;
    fy_model_close(m);
    return NULL;
}

static inline fy_model *chain_open(const chain_cut *c, uint32_t n_layer)
{
    chain_list l;
    fy_err e = {0};
    chain_list_of(c, n_layer, &l);
    fy_model *m = chain_open_list(&l, &e);
    if (m == NULL)
        fail_msg("%s", e.msg);
    return m;
}

static inline fy_session *chain_session(const fy_model *m, fy_session_params p)
{
    fy_err e = {0};
    p.n_threads = p.n_threads != 0 ? p.n_threads : 1;
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

#endif
