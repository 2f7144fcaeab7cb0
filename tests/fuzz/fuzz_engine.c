/* A whole model from a hostile file: what loads computes a few tokens and draws from their logits,
 * whatever its weights and factors are. Corpus: tests/fuzz/engine_corpus.py. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/model.h"
#include "model/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_CTX = 12, N_PROMPT = 5, MOST_BYTES = 64 << 20 };

static const float *eval(fy_session *s, const int32_t *ids, uint32_t n)
{
    fy_err e = {0};
    const float *last = NULL;
    if (fy_session_eval(s, ids, n, NULL, &last, &e) != 0 || last == NULL)
        abort();
    return last;
}

/* The same bits in one batch and token by token, NaNs included. */
static void compute(const fy_model *m, const fy_session_params *p)
{
    fy_err e = {0};
    const uint32_t n_vocab = fy_model_hparams(m)->n_vocab;
    fy_session *s = fy_session_new(m, p, &e);
    float *batch = calloc(n_vocab, sizeof *batch);
    if (s == NULL || batch == NULL)
        abort();
    int32_t ids[N_PROMPT];
    for (uint32_t i = 0; i < N_PROMPT; i++)
        ids[i] = (int32_t)(i * 3 % n_vocab);
    memcpy(batch, eval(s, ids, N_PROMPT), n_vocab * sizeof *batch);
    fy_session_rewind(s, 0);
    const float *last = NULL;
    for (int i = 0; i < N_PROMPT; i++)
        last = eval(s, ids + i, 1);
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (memcmp(&batch[i], &last[i], sizeof *batch) != 0 && !(isnan(batch[i]) && isnan(last[i])))
            abort();
    }
    free(batch);
    for (int draws = 0; draws < 2; draws++) {
        fy_sampler_params sp = fy_sampler_defaults();
        sp.temperature = draws ? 0.8f : 0;
        fy_sampler *sampler = fy_sampler_new(&sp, n_vocab, NULL, &e);
        if (sampler == NULL)
            abort();
        const int32_t id = fy_sampler_next(sampler, last, false, &e);
        if (id >= 0 ? (uint32_t)id >= n_vocab || isnan(last[id]) : e.code == FY_OK)
            abort();
        e = (fy_err){0};
        fy_sampler_free(sampler);
    }
    fy_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    fy_err e = {0};
    const int fd = memfd_create("engine", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fy_model *m = fy_model_open(path, &e);
    static const fy_sparse modes[] = {FY_SPARSE_AUTO, FY_SPARSE_PREDICT};
    for (int i = 0; m != NULL && i < 2; i++) {
        const fy_session_params p = {
            .n_ctx = N_CTX, .n_threads = 1, .sparse = modes[i], .sparse_threshold = NAN};
        fy_session_plan plan;
        if (fy_session_plan_of(m, &p, &plan, &e) == 0 &&
            plan.kv_bytes + plan.scratch_bytes <= MOST_BYTES)
            compute(m, &p);
    }
    fy_model_close(m);
    close(fd);
    return 0;
}
