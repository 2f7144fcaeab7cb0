#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend_cpu.h"

enum { SEQS = 3, CTX = 200, DIM = 32, DIM_V = 64, MOST_HEADS = 12, MOST_TOKENS = 3 * CTX };

static float value(uint64_t i)
{
    return (float)((double)((i * 2654435761u + 12345) % 10007) / 5003.5 - 1);
}

/* The cache, queries and places of one case, and what attention makes of them. */
typedef struct {
    int64_t n_head, n_head_kv, n_swa, n_tokens;
    fy_type type_k, type_v;
    float scale, cap;
    const float *sinks;
    fy_place at[MOST_TOKENS];
    float k[MOST_TOKENS * MOST_HEADS * DIM], v[MOST_TOKENS * MOST_HEADS * DIM_V];
    float q[MOST_TOKENS * MOST_HEADS * DIM], out[MOST_TOKENS * MOST_HEADS * DIM_V];
    float cache_k[SEQS * MOST_HEADS * CTX * DIM], cache_v[SEQS * MOST_HEADS * CTX * DIM_V];
} attention;

/* Every sequence from its first position on, one after the other. */
static void make(attention *a, const int *lengths)
{
    a->n_tokens = 0;
    for (int s = 0; s < SEQS; s++) {
        for (int p = 0; p < lengths[s]; p++)
            a->at[a->n_tokens++] = (fy_place){.seq = s, .pos = p};
    }
    for (int64_t i = 0; i < a->n_tokens * a->n_head_kv * DIM; i++)
        a->k[i] = value((uint64_t)i);
    for (int64_t i = 0; i < a->n_tokens * a->n_head_kv * DIM_V; i++)
        a->v[i] = value((uint64_t)i + 77777);
    for (int64_t i = 0; i < a->n_tokens * a->n_head * DIM; i++)
        a->q[i] = 3 * value((uint64_t)i + 1234567);
    memset(a->cache_k, 0xff, sizeof a->cache_k); /* NaN where nothing was stored */
    memset(a->cache_v, 0xff, sizeof a->cache_v);
}

/* Tokens begin .. end-1 are stored and asked. */
static void run(attention *a, fy_backend *b, int64_t begin, int64_t end)
{
    const fy_kv_layer kv = {.k = a->cache_k,
                            .v = a->cache_v,
                            .type_k = a->type_k,
                            .type_v = a->type_v,
                            .n_rows = CTX,
                            .n_head_kv = a->n_head_kv,
                            .head_dim = DIM,
                            .head_dim_v = DIM_V};
    const fy_attention what = {.kv = &kv,
                               .at = a->at + begin,
                               .n_head = a->n_head,
                               .n_swa = a->n_swa,
                               .scale = a->scale,
                               .cap = a->cap,
                               .sinks = a->sinks};
    fy_backend_store(b, &kv, a->k + begin * a->n_head_kv * DIM, a->v + begin * a->n_head_kv * DIM_V,
                     a->at + begin, end - begin);
    fy_backend_attend(b, a->out + begin * a->n_head * DIM_V, a->q + begin * a->n_head * DIM,
                      end - begin, &what);
}

static fy_backend *new_backend(int n_threads)
{
    const fy_backend_params p = {
        .n_threads = n_threads, .n_tokens = MOST_TOKENS, .head_dim = DIM_V};
    fy_err e = {0};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    return b;
}

/* How far a query's head is from attention in double, relatively to the values' size of 1. */
static double distance(const attention *a, int64_t token, int64_t head)
{
    static double p[MOST_TOKENS];
    const int64_t kv_head = head / (a->n_head / a->n_head_kv), pos = a->at[token].pos;
    const int64_t first = a->n_swa > 0 && pos >= a->n_swa ? pos - a->n_swa + 1 : 0;
    const float *q = a->q + (token * a->n_head + head) * DIM;
    double max = -INFINITY, sum = 0, worst = 0;
    for (int64_t j = first; j <= pos; j++) {
        const float *k = a->k + ((token - pos + j) * a->n_head_kv + kv_head) * DIM;
        p[j] = 0;
        for (int i = 0; i < DIM; i++)
            p[j] += (double)a->scale * (double)q[i] * (double)k[i];
        p[j] = a->cap != 0 ? (double)a->cap * tanh(p[j] / (double)a->cap) : p[j];
        max = fmax(max, p[j]);
    }
    if (a->sinks != NULL)
        sum = exp((double)a->sinks[head] - max);
    for (int64_t j = first; j <= pos; j++)
        sum += p[j] = exp(p[j] - max);
    for (int i = 0; i < DIM_V; i++) {
        double want = 0;
        for (int64_t j = first; j <= pos; j++)
            want +=
                p[j] / sum * (double)a->v[((token - pos + j) * a->n_head_kv + kv_head) * DIM_V + i];
        const double d = fabs((double)a->out[(token * a->n_head + head) * DIM_V + i] - want);
        worst = d <= worst ? worst : d; /* a NaN is the worst */
    }
    return worst;
}

static attention *new_attention(void)
{
    attention *a = malloc(sizeof *a);
    assert_non_null(a);
    a->sinks = NULL;
    return a;
}

static void every_pair_of_types_is_near_attention_in_double(void **state)
{
    (void)state;
    const struct {
        fy_type type;
        double bound;
    } types[] = {{FY_F32, 2e-6}, {FY_F16, 2e-3}, {FY_Q8_0, 2e-2}, {FY_Q4_0, 0.3}};
    const int lengths[SEQS] = {CTX, 1, 70};
    attention *a = new_attention();
    fy_backend *b = new_backend(2);
    for (int c = 0; c < 16; c++) {
        for (int64_t swa = 0; swa <= 80; swa += 40) {
            a->type_k = types[c / 4].type;
            a->type_v = types[c % 4].type;
            a->n_head = 6;
            a->n_head_kv = 2;
            a->n_swa = swa;
            a->scale = 0.2f;
            a->cap = c % 2 == 0 ? 0 : 4;
            make(a, lengths);
            run(a, b, 0, a->n_tokens);
            const double bound = fmax(types[c / 4].bound, types[c % 4].bound);
            for (int64_t t = 0; t < a->n_tokens; t += 7) {
                for (int64_t h = 0; h < a->n_head; h++)
                    assert_true(distance(a, t, h) < bound);
            }
        }
    }
    fy_backend_free(b);
    free(a);
}

/* One sequence after the other in one batch; token by token; in uneven pieces; with other threads:
 * the same bits, whatever shares a KV head. */
static void results_do_not_depend_on_batch_neighbours_or_threads(void **state)
{
    (void)state;
    const struct {
        int64_t n_head, n_head_kv, n_swa;
    } shapes[] = {{2, 2, 0}, {4, 1, 70}, {12, 1, 0}, {6, 2, 33}, {12, 4, 5}};
    const fy_type types[] = {FY_F32, FY_F16, FY_Q8_0, FY_Q4_0};
    const int lengths[SEQS] = {131, 3, 66};
    const float sinks[MOST_HEADS] = {1, -1, 0, 4, 2, -3, 0.5f, 1, 1, 1, 9, 1};
    attention *a = new_attention();
    float *want = malloc(sizeof a->out);
    assert_non_null(want);
    for (int c = 0; c < 20; c++) {
        a->n_head = shapes[c / 4].n_head;
        a->n_head_kv = shapes[c / 4].n_head_kv;
        a->n_swa = shapes[c / 4].n_swa;
        a->type_k = a->type_v = types[c % 4];
        a->scale = 0.3f;
        a->cap = 0;
        a->sinks = c % 2 ? sinks : NULL;
        make(a, lengths);
        const size_t bytes = (size_t)(a->n_tokens * a->n_head * DIM_V) * sizeof *want;
        for (int threads = 1; threads <= 7; threads += 2) {
            fy_backend *b = new_backend(threads);
            run(a, b, 0, a->n_tokens);
            if (threads == 1)
                memcpy(want, a->out, bytes);
            assert_memory_equal(a->out, want, bytes);
            for (int64_t t = 0, n = 1; t < a->n_tokens; t += n, n = threads == 3 ? n % 90 + 7 : 1)
                run(a, b, t, t + n < a->n_tokens ? t + n : a->n_tokens);
            assert_memory_equal(a->out, want, bytes);
            fy_backend_free(b);
        }
    }
    free(want);
    free(a);
}

/* Far below all scores a sink is none; far above them nothing is left; and no head feels that of
 * another. */
static void a_sink_takes_its_part_of_the_softmax(void **state)
{
    (void)state;
    const float sinks[] = {0.5f, -1e30f, 1e30f, 3, -2, 0};
    const int lengths[SEQS] = {CTX, 1, 70};
    attention *a = new_attention();
    float *without = malloc(sizeof a->out);
    assert_non_null(without);
    fy_backend *b = new_backend(2);
    for (int64_t swa = 0; swa <= 80; swa += 80) {
        a->n_head = 6;
        a->n_head_kv = 2;
        a->n_swa = swa;
        a->type_k = a->type_v = FY_F32;
        a->scale = 0.2f;
        a->cap = 0;
        a->sinks = NULL;
        make(a, lengths);
        run(a, b, 0, a->n_tokens);
        memcpy(without, a->out, sizeof a->out);
        a->sinks = sinks;
        run(a, b, 0, a->n_tokens);
        for (int64_t t = 0; t < a->n_tokens; t++) {
            const float *row = a->out + t * 6 * DIM_V;
            assert_memory_equal(row + DIM_V, without + (t * 6 + 1) * DIM_V, DIM_V * sizeof *row);
            for (int64_t i = 2 * DIM_V; i < 3 * DIM_V; i++)
                assert_true(row[i] == 0);
            for (int64_t h = 0; t % 7 == 0 && h < 6; h++)
                assert_true(distance(a, t, h) < 2e-6);
        }
    }
    fy_backend_free(b);
    free(without);
    free(a);
}

/* An infinity in a value and a NaN in a key reach the queries that see them, and no other. */
static void what_a_query_does_not_see_cannot_reach_it(void **state)
{
    (void)state;
    const int lengths[SEQS] = {150, 0, 40};
    attention *a = new_attention();
    fy_backend *b = new_backend(2);
    a->n_head = 4;
    a->n_head_kv = 2;
    a->n_swa = 50;
    a->scale = 0.3f;
    a->cap = 0;
    for (int c = 0; c < 4; c++) {
        a->type_k = c / 2 ? FY_F16 : FY_F32;
        a->type_v = c % 2 ? FY_F16 : FY_F32;
        make(a, lengths);
        a->k[(70 * 2 + 1) * DIM + 3] = NAN;
        a->v[(20 * 2 + 0) * DIM_V + 5] = INFINITY;
        run(a, b, 0, a->n_tokens);
        for (int64_t t = 0; t < a->n_tokens; t++) {
            for (int64_t i = 0; i < 4 * DIM_V; i++) {
                const bool sees_nan = t >= 70 && t < 120 && i / DIM_V >= 2;
                const bool sees_inf = t >= 20 && t < 70 && i / DIM_V < 2 && i % DIM_V == 5;
                assert_true((isfinite(a->out[t * 4 * DIM_V + i]) == 0) == (sees_nan || sees_inf));
            }
        }
    }
    fy_backend_free(b);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_types_is_near_attention_in_double),
        cmocka_unit_test(results_do_not_depend_on_batch_neighbours_or_threads),
        cmocka_unit_test(a_sink_takes_its_part_of_the_softmax),
        cmocka_unit_test(what_a_query_does_not_see_cannot_reach_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
