#include "model/sample_window.h"

#include <stdlib.h>

int fy_window_init(fy_window *w, uint32_t n_vocab, int32_t last_n, fy_err *e)
{
    *w = (fy_window){.n_vocab = n_vocab, .size = last_n > 0 ? (uint32_t)last_n : 0};
    size_t n = n_vocab > 0 ? n_vocab : 1;
    if (w->size > 0)
        w->ring = calloc(w->size, sizeof *w->ring);
    w->count = calloc(n, sizeof *w->count);
    w->ids = calloc(n, sizeof *w->ids);
    w->slot = calloc(n, sizeof *w->slot);
    if ((w->size == 0 || w->ring != NULL) && w->count != NULL && w->ids != NULL && w->slot != NULL)
        return 0;
    fy_window_release(w);
    return fy_nomem(e);
}

void fy_window_release(fy_window *w)
{
    free(w->ring);
    free(w->count);
    free(w->ids);
    free(w->slot);
    *w = (fy_window){0};
}

void fy_window_clear(fy_window *w)
{
    for (uint32_t i = 0; i < w->n_ids; i++)
        w->count[w->ids[i]] = 0;
    w->n_ids = w->n = w->at = 0;
}

static void forget(fy_window *w, int32_t id)
{
    if (--w->count[id] > 0)
        return;
    int32_t last = w->ids[--w->n_ids];
    w->ids[w->slot[id]] = last;
    w->slot[last] = w->slot[id];
}

void fy_window_push(fy_window *w, int32_t id)
{
    if (w->ring != NULL) {
        if (w->n == w->size)
            forget(w, w->ring[w->at]);
        else
            w->n++;
        w->ring[w->at] = id;
        w->at = w->at + 1 < w->size ? w->at + 1 : 0;
    }
    if (w->count[id] == 0) {
        w->slot[id] = w->n_ids;
        w->ids[w->n_ids++] = id;
    }
    if (w->count[id] < UINT32_MAX)
        w->count[id]++;
}

/* As llama.cpp's llama_sampler_penalties, in float: dividing a negative logit would make its token
 * more likely. */
float fy_penalized(const fy_sampler_params *p, float logit, uint32_t count)
{
    float v = logit <= 0 ? logit * p->repeat_penalty : logit / p->repeat_penalty;
    return v - ((float)count * p->frequency_penalty + p->presence_penalty);
}
