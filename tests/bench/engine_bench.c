/* Numbers that `ferry bench` does not print:
 *
 *   engine_bench attention THREADS ROUNDS [TYPE]
 *       GMAC/s of attention alone: a prompt of 4096 tokens in batches of 512, one layer of
 *       Llama-3.2-1B's shape, keys and values of TYPE (f16)
 *   engine_bench together FILE N ROUNDS
 *       tokens/s of N sequences that decode together, over those of one; fails when the logits of a
 *       sequence are not the bits that it has alone
 *
 *   engine_bench alone FILE N TOKENS ROUNDS
 *       microseconds of CPU time per token of N sequences that decode TOKENS each, one thread
 *
 * The best of ROUNDS counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/backend_cpu.h"
#include "base/err.h"
#include "base/process.h"
#include "base/thread.h"
#include "model/model.h"

/* --- attention -------------------------------------------------------------------------------- */

enum { HEADS = 32, HEADS_KV = 8, DIM = 64, PROMPT = 4096, BATCH = 512 };

typedef struct {
    fy_backend *b; /* owned, as the buffers */
    fy_kv_layer kv;
    float *q, *out;
    fy_place at[PROMPT];
} layer;

static void fill(float *x, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
}

static int open_layer(layer *l, int n_threads, fy_type type, fy_err *e)
{
    const fy_backend_params p = {.n_threads = n_threads, .n_tokens = BATCH, .head_dim = DIM};
    const size_t n_cache = (size_t)PROMPT * HEADS_KV * DIM;
    *l = (layer){.b = fy_backend_new(&p, e)};
    l->q = malloc(sizeof(float) * PROMPT * HEADS * DIM);
    l->out = malloc(sizeof(float) * BATCH * HEADS * DIM);
    l->kv = (fy_kv_layer){.k = malloc(n_cache * sizeof(float)),
                          .v = malloc(n_cache * sizeof(float)),
                          .type_k = type,
                          .type_v = type,
                          .n_rows = PROMPT,
                          .n_head_kv = HEADS_KV,
                          .head_dim = DIM,
                          .head_dim_v = DIM};
    if (l->b == NULL)
        return -1;
    if (l->q == NULL || l->out == NULL || l->kv.k == NULL || l->kv.v == NULL)
        return fy_nomem(e);
    fill(l->q, (size_t)PROMPT * HEADS * DIM);
    for (int i = 0; i < PROMPT; i++)
        l->at[i] = (fy_place){.seq = 0, .pos = i};
    for (int i = 0; i < PROMPT; i += BATCH)
        fy_backend_store(l->b, &l->kv, l->q + (size_t)i * DIM, l->q + (size_t)i * DIM + DIM,
                         l->at + i, BATCH);
    return 0;
}

static void close_layer(layer *l)
{
    fy_backend_free(l->b);
    free(l->q);
    free(l->out);
    free(l->kv.k);
    free(l->kv.v);
}

static double attend_seconds(layer *l)
{
    const double begin = fy_now_s();
    for (int i = 0; i < PROMPT; i += BATCH) {
        const fy_attention a = {
            .kv = &l->kv, .at = l->at + i, .n_head = HEADS, .scale = 0.125f, .cap = 0};
        fy_backend_attend(l->b, l->out, l->q + (size_t)i * HEADS * DIM, BATCH, &a);
    }
    return fy_now_s() - begin;
}

static int bench_attention(int n_threads, int rounds, fy_type type, fy_err *e)
{
    /* a query and a head: its products with the keys, and the sums of values */
    const double macs = (double)PROMPT * (PROMPT + 1) / 2 * HEADS * 2 * DIM;
    double best = 1e9;
    layer l;
    const int rc = open_layer(&l, n_threads, type, e);
    for (int r = 0; rc == 0 && r < rounds; r++) {
        const double s = attend_seconds(&l);
        best = s < best ? s : best;
    }
    close_layer(&l);
    if (rc == 0)
        printf("%.2f\n", macs / best * 1e-9);
    return rc;
}

/* --- sequences -------------------------------------------------------------------------------- */

enum { MOST_SEQS = 64, DEPTH = 32, STEPS = 16 };

static int32_t id_of(uint32_t seq, uint32_t i)
{
    return (int32_t)(100 + (seq * 131 + i * 17) % 400);
}

/* Steps of a token for each of the sequences [first, first + n), after DEPTH. Gives the seconds of
 * the best step; logits of the last: [n][n_vocab]. */
static int decode(fy_session *s, uint32_t first, uint32_t n, double *best, const float **logits,
                  fy_err *e)
{
    int32_t ids[MOST_SEQS];
    uint32_t seqs[MOST_SEQS];
    for (uint32_t q = 0; q < n; q++) {
        seqs[q] = first + q;
        fy_session_seq_rewind(s, seqs[q], DEPTH);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t q = 0; q < n; q++)
            ids[q] = id_of(seqs[q], DEPTH + i);
        const fy_batch b = {.ids = ids, .seqs = seqs, .n = n};
        const double begin = fy_now_s();
        if (fy_session_decode(s, &b, NULL, logits, e) != 0)
            return -1;
        const double took = fy_now_s() - begin;
        *best = took < *best ? took : *best;
    }
    return 0;
}

static int prefill(fy_session *s, uint32_t n, fy_err *e)
{
    int32_t ids[DEPTH];
    uint32_t seqs[DEPTH];
    for (uint32_t q = 0; q < n; q++) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            ids[i] = id_of(q, i);
            seqs[i] = q;
        }
        const fy_batch b = {.ids = ids, .seqs = seqs, .n = DEPTH};
        if (fy_session_decode(s, &b, NULL, NULL, e) != 0)
            return -1;
    }
    return 0;
}

/* One and all in turns. Of each round another sequence is compared. */
static int alternate(fy_session *s, uint32_t n, uint32_t n_vocab, float *kept, int rounds,
                     double *ratio, fy_err *e)
{
    double one = 1e9, all = 1e9;
    const size_t row_bytes = n_vocab * sizeof *kept;
    for (int r = 0; r < rounds; r++) {
        const uint32_t seq = (uint32_t)r * 5 % n;
        const float *logits;
        if (decode(s, seq, 1, &one, &logits, e) != 0)
            return -1;
        memcpy(kept, logits, row_bytes);
        if (decode(s, 0, n, &all, &logits, e) != 0)
            return -1;
        if (memcmp(kept, logits + (size_t)seq * n_vocab, row_bytes) != 0)
            return fy_fail(e, FY_EVERIFY, "sequence %u differs from itself alone", seq);
    }
    *ratio = n * one / all;
    return 0;
}

static int bench_together(const char *path, uint32_t n, int rounds, fy_err *e)
{
    fy_model *m = fy_model_open(path, e);
    const fy_session_params p = {.n_ctx = DEPTH + STEPS,
                                 .n_batch = DEPTH > MOST_SEQS ? DEPTH : MOST_SEQS,
                                 .n_seq = n,
                                 .type_k = FY_F16,
                                 .type_v = FY_F16};
    fy_session *s = m != NULL ? fy_session_new(m, &p, e) : NULL;
    const uint32_t n_vocab = m != NULL ? fy_model_hparams(m)->n_vocab : 0;
    float *kept = calloc((size_t)n_vocab + 1, sizeof *kept);
    double ratio = 0;
    int rc = s == NULL ? -1 : kept == NULL ? fy_nomem(e) : prefill(s, n, e);
    if (rc == 0)
        rc = alternate(s, n, n_vocab, kept, rounds, &ratio, e);
    if (rc == 0)
        printf("%.3f\n", ratio);
    free(kept);
    fy_session_free(s);
    fy_model_close(m);
    return rc;
}

/* N sequences from their first position on. */
static int decode_all(fy_session *s, uint32_t n, uint32_t tokens, fy_err *e)
{
    int32_t ids[MOST_SEQS];
    uint32_t seqs[MOST_SEQS];
    for (uint32_t q = 0; q < n; q++) {
        seqs[q] = q;
        fy_session_seq_rewind(s, q, 0);
    }
    for (uint32_t i = 0; i < tokens; i++) {
        const float *logits;
        for (uint32_t q = 0; q < n; q++)
            ids[q] = id_of(q, i);
        const fy_batch b = {.ids = ids, .seqs = seqs, .n = n};
        if (fy_session_decode(s, &b, NULL, &logits, e) != 0)
            return -1;
    }
    return 0;
}

static int bench_alone(const char *path, uint32_t n, uint32_t tokens, int rounds, fy_err *e)
{
    fy_model *m = fy_model_open(path, e);
    const fy_session_params p = {.n_ctx = tokens,
                                 .n_batch = MOST_SEQS,
                                 .n_seq = n,
                                 .n_threads = 1,
                                 .type_k = FY_F16,
                                 .type_v = FY_F16};
    fy_session *s = m != NULL ? fy_session_new(m, &p, e) : NULL;
    double best = 1e9;
    int rc = s != NULL ? 0 : -1;
    for (int r = 0; rc == 0 && r < rounds; r++) {
        const clock_t begin = clock();
        rc = decode_all(s, n, tokens, e);
        const double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = took < best ? took : best;
    }
    if (rc == 0)
        printf("%.3f\n", 1e6 * best / n / tokens);
    fy_session_free(s);
    fy_model_close(m);
    return rc;
}

int main(int argc, char **argv)
{
    fy_err e = {0};
    fy_type type = FY_F16;
    int rc;
    if (argc >= 4 && strcmp(argv[1], "attention") == 0 &&
        (argc == 4 || fy_type_parse(argv[4], &type))) {
        rc = bench_attention(atoi(argv[2]), atoi(argv[3]), type, &e);
    } else if (argc == 5 && strcmp(argv[1], "together") == 0 && atoi(argv[3]) > 0 &&
               atoi(argv[3]) <= MOST_SEQS) {
        rc = bench_together(argv[2], (uint32_t)atoi(argv[3]), atoi(argv[4]), &e);
    } else if (argc == 6 && strcmp(argv[1], "alone") == 0 && atoi(argv[3]) > 0 &&
               atoi(argv[3]) <= MOST_SEQS && atoi(argv[4]) > 0) {
        rc = bench_alone(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), atoi(argv[5]),
                         &e);
    } else {
        fprintf(stderr, "usage: engine_bench attention THREADS ROUNDS [TYPE]\n"
                        "       engine_bench together FILE N ROUNDS\n"
                        "       engine_bench alone FILE N TOKENS ROUNDS\n");
        return 2;
    }
    if (rc != 0)
        fprintf(stderr, "engine_bench: %s\n", e.msg);
    return rc == 0 ? 0 : 1;
}
