/* Speculation as a state machine: the bytes say what is proposed (chains, trees, scouts, ids that
 * the model does not have), which token comes next, when the text ends and another begins, and
 * where the context does; the second byte whether the model is whole or in chunks. The logits are
 * those of a session of the whole model without speculation, to the bit, and afterwards so is the
 * cache. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/chain.h"
#include "model/speculate.h"
#include "tests/unit/model/tiny_model.h"
#include "workspace/npu/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB = 8, CTX = 24, MOST_STEPS = 64, LAYERS = 2, N_BATCH = 16 };

static fy_model *model, *chain;

static void close_models(void)
{
    fy_model_close(chain);
    fy_model_close(model);
}

static void make_chunks(const char *path, const char *into)
{
    static const uint32_t batch[] = {N_BATCH, 4, 1}, end_layer[] = {1, LAYERS}, end_token = VOCAB;
    const fy_cut cut = {.end_layer = end_layer,
                        .n_chunks = 2,
                        .end_token = &end_token,
                        .n_heads = 1,
                        .batch = batch,
                        .n_batches = 3,
                        .n_ctx = CTX + N_BATCH,
                        .soc = "",
                        .recipe = ""};
    fy_chunk_stats stats;
    fy_err e = {0};
    fy_pool *pool = fy_pool_new(1, &e);
    if (pool == NULL || fy_chunk(path, into, &cut, pool, NULL, &stats, &e) != 0)
        abort();
    fy_pool_free(pool);
}

static fy_model *open_chain(const char *dir)
{
    static const char *const names[] = {"qnn/chunk_0.gguf", "qnn/chunk_1.gguf", "qnn/lm_head.gguf",
                                        "ggml/weights.gguf"};
    static const uint32_t batch[] = {N_BATCH, 4, 1};
    const fy_map_options how = {.huge = false};
    char paths[4][128];
    fy_chain_graph_spec graphs[9];
    fy_err e = {0};
    for (int i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", dir, names[i]);
    for (uint32_t i = 0; i < 9; i++)
        graphs[i] = (fy_chain_graph_spec){.path = paths[i % 3],
                                          .name = "g",
                                          .n_batch = batch[i / 3],
                                          .first_layer = i % 3 == 1,
                                          .end_layer = i % 3 < 2 ? i % 3 + 1 : 0,
                                          .end_token = i % 3 < 2 ? 0 : VOCAB};
    const fy_chain_spec spec = {.graphs = graphs,
                                .n_graphs = 9,
                                .n_cache = CTX,
                                .n_ctx = CTX + N_BATCH,
                                .mask_value = -50000,
                                .model = ""};
    fy_model *m = fy_model_open_chunk(paths[3], &how, &e);
    fy_graph_device *d = m != NULL ? fy_graph_cpu_open(&how, &e) : NULL;
    if (d == NULL || fy_model_chain(m, d, &spec, &e) != 0)
        abort();
    return m;
}

static void open_models(void)
{
    char dir[] = "/tmp/ferry-fuzz-spec-XXXXXX", path[64], cut[64], command[64];
    fy_err e = {0};
    if (model != NULL)
        return;
    if (mkdtemp(dir) == NULL)
        abort();
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    snprintf(cut, sizeof cut, "%s/cut", dir);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    tiny_model t = tiny_default();
    t.hp.n_vocab = VOCAB;
    t.hp.n_layer = LAYERS;
    t.hp.n_embd = t.hp.n_ff = 16;
    t.hp.n_head = 2;
    t.hp.n_head_kv = 1;
    t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = 8;
    if (tiny_write(&t, path, &e) != 0 || (model = fy_model_open(path, &e)) == NULL)
        abort();
    make_chunks(path, cut);
    chain = open_chain(cut);
    if (system(command) != 0)
        abort();
    atexit(close_models);
}

typedef struct {
    const uint8_t *p, *end;
} bytes;

static uint8_t next_byte(bytes *b)
{
    return b->p < b->end ? *b->p++ : 0;
}

/* Proposes what the bytes say. */
typedef struct {
    fy_proposer p;
    bytes *in;
} from_bytes;

static int propose(fy_proposer *p, const int32_t *text, uint32_t n, uint32_t most, fy_proposal *out,
                   fy_err *e)
{
    bytes *in = ((from_bytes *)p)->in;
    const uint32_t wanted = next_byte(in) % 12;
    (void)text;
    if (n == 0)
        abort();
    for (uint32_t i = 0; i < wanted && out->n < most; i++) {
        const uint8_t a = next_byte(in), b = next_byte(in);
        const int32_t id = a % (VOCAB + 2) - 1, parent = (int32_t)(b % (out->n + 1)) - 1;
        if (b == 255)
            return fy_fail(e, FY_EFORMAT, "no");
        if ((b & 0x40) != 0)
            out->node[out->n++] = (fy_proposal_node){id, parent, true};
        else
            fy_proposal_add(out, (a & 0x80) != 0 ? (int32_t)out->n - 1 : parent, id);
    }
    return 0;
}

static void free_proposer(fy_proposer *p)
{
    free(p);
}

static void check_logits(const float *a, const float *b)
{
    if (memcmp(a, b, VOCAB * sizeof *a) != 0)
        abort();
}

static void begin(fy_speculator *s, fy_session *a, fy_session *b, bytes *in)
{
    fy_err e = {0};
    int32_t text[CTX];
    const uint32_t n = 1 + next_byte(in) % (CTX - 1);
    const float *x, *y;
    for (uint32_t i = 0; i < n; i++)
        text[i] = next_byte(in) % VOCAB;
    fy_session_rewind(a, 0);
    fy_session_rewind(b, 0);
    if (fy_session_eval(a, text, n, NULL, &x, &e) != 0 ||
        fy_session_eval(b, text, n, NULL, &y, &e) != 0 || fy_speculator_begin(s, text, n, &e) != 0)
        abort();
    check_logits(x, y);
}

static void run(fy_speculator *s, fy_session *a, fy_session *b, bytes *in)
{
    begin(s, a, b, in);
    for (int i = 0; i < MOST_STEPS && in->p < in->end; i++) {
        const uint8_t what = next_byte(in);
        const int32_t id = what % VOCAB;
        const float *x, *y;
        fy_err e = {0};
        if (what >= 240 || fy_session_n_past(b) == CTX) {
            fy_speculator_settle(s, a);
            if (fy_session_n_past(a) != fy_session_n_past(b) || fy_session_tree_n(a) != 0)
                abort();
            begin(s, a, b, in);
            continue;
        }
        if (fy_speculator_next(s, a, id, what % 16 - 1, &x, &e) != 0) {
            if (e.code != FY_EFORMAT || strcmp(e.msg, "bytes: no") != 0)
                abort();
            continue;
        }
        if (fy_session_eval(b, &id, 1, NULL, &y, &e) != 0)
            abort();
        check_logits(x, y);
    }
    fy_speculator_settle(s, a);
    if (fy_session_n_past(a) != fy_session_n_past(b))
        abort();
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        for (int values = 0; values < 2; values++) {
            float x[CTX * 8] = {0}, y[CTX * 8] = {0};
            const uint32_t n = fy_session_n_past(a);
            if (fy_session_cached(a, layer, 0, values, n, x, NULL) != 0 ||
                fy_session_cached(b, layer, 0, values, n, y, NULL) != 0 ||
                memcmp(x, y, sizeof x) != 0)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fy_proposer_calls calls = {
        .name = "bytes", .propose = propose, .free = free_proposer};
    bytes in = {data, data + size};
    fy_err e = {0};
    open_models();
    const uint8_t how = next_byte(&in);
    const bool in_chunks = next_byte(&in) % 2 != 0;
    const fy_session_params p = {.n_ctx = CTX,
                                 .n_batch = how & 2 ? 5 : 0,
                                 .n_threads = 1,
                                 .type_k = how & 4 ? FY_F16 : FY_F32,
                                 .type_v = how & (in_chunks ? 4 : 8) ? FY_F16 : FY_F32};
    fy_session *a = fy_session_new(in_chunks ? chain : model, &p, &e),
               *b = fy_session_new(model, &p, &e);
    from_bytes *f = calloc(1, sizeof *f);
    if (a == NULL || b == NULL || f == NULL)
        abort();
    *f = (from_bytes){{&calls}, &in};
    fy_proposer *list[] = {&f->p};
    fy_speculator *s = fy_speculator_new(list, 1, 1 + (how >> 4), how & 1, &e);
    if (s == NULL)
        abort();
    run(s, a, b, &in);
    fy_speculator_free(s);
    fy_session_free(a);
    fy_session_free(b);
    return 0;
}
