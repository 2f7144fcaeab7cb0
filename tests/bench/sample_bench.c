/* Milliseconds per token that choosing costs on a vocabulary of 128256, one thread: the usual chain
 * with penalties, and what is dearer and cheaper than it. The logits are made up, of the spread
 * that a model's have; each call sees another one of a few vectors, as in decoding. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/process.h"
#include "model/sample.h"

enum { N_VOCAB = 128256, N_LOGITS = 8, N_TOKENS = 400, N_ROUNDS = 5 };

static float *logits[N_LOGITS];

static int make_logits(void)
{
    uint32_t x = 1;
    for (int k = 0; k < N_LOGITS; k++) {
        logits[k] = malloc(N_VOCAB * sizeof(float));
        if (logits[k] == NULL)
            return -1;
        for (int i = 0; i < N_VOCAB; i++) {
            float sum = 0;
            for (int j = 0; j < 6; j++) { /* six uniform ones: nearly a normal distribution */
                x = x * 1664525u + 1013904223u;
                sum += (float)(x >> 8) * 0x1p-24f - 0.5f;
            }
            logits[k][i] = sum * 4;
        }
    }
    return 0;
}

/* The best round: other programs only make it slower. */
static double ms_per_token(const fy_sampler_params *p, fy_err *e)
{
    fy_sampler *s = fy_sampler_new(p, N_VOCAB, NULL, e);
    double best = 1e9;
    for (int r = 0; s != NULL && r < N_ROUNDS; r++) {
        double begin = fy_now_s();
        for (int i = 0; i < N_TOKENS / N_ROUNDS; i++) {
            int32_t id = fy_sampler_next(s, logits[i % N_LOGITS], false, e);
            if (id < 0 || fy_sampler_accept(s, id, e) != 0)
                break;
        }
        double ms = (fy_now_s() - begin) / (N_TOKENS / N_ROUNDS) * 1e3;
        best = ms < best ? ms : best;
    }
    fy_sampler_free(s);
    return best;
}

int main(void)
{
    static const struct {
        const char *name, *order;
        float temperature;
        int32_t top_k;
    } rows[] = {
        {"greedy", "e", 0, 0},
        {"top-k 40, top-p, min-p, penalties", "ekpmt", 0.8f, 40},
        {"the same with typical", "ekypmt", 0.8f, 40},
        {"min-p, temperature", "mt", 0.8f, 0},
        {"top-p over the whole vocabulary", "pt", 0.8f, 0},
        {"temperature alone", "t", 0.8f, 0},
    };
    fy_err e = {0};
    if (make_logits() != 0)
        return 1;
    printf("%-36s ms per token, vocabulary %d\n", "sampling", N_VOCAB);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && e.code == FY_OK; i++) {
        fy_sampler_params p = fy_sampler_defaults();
        p.temperature = rows[i].temperature;
        p.top_k = rows[i].top_k;
        p.typical_p = 0.9f;
        p.repeat_penalty = 1.1f;
        p.presence_penalty = p.frequency_penalty = 0.1f;
        if (fy_sampler_parse_order(rows[i].order, &p, &e) == 0)
            printf("%-36s %.3f\n", rows[i].name, ms_per_token(&p, &e));
    }
    if (e.code != FY_OK)
        fprintf(stderr, "sample_bench: %s\n", e.msg);
    for (int k = 0; k < N_LOGITS; k++)
        free(logits[k]);
    return e.code == FY_OK ? 0 : 1;
}
