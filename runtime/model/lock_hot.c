/* Keeps in memory what every token reads and the neurons that are hot, and leaves the others to be
 * read when they are needed: a model larger than memory. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "model/weights.h"

typedef struct {
    uint64_t kept, paged; /* bytes */
    int failed;           /* errno; 0: all of it was locked */
} sums;

static void keep(const void *p, size_t n, sums *s)
{
    if (s->failed == 0 && mlock(p, n) != 0)
        s->failed = errno;
    else if (s->failed == 0)
        s->kept += n;
}

static void lock_weights(const fy_model *m, fy_weights *l, uint64_t n_hot, sums *s)
{
    for (int i = 0; i < FY_T_COUNT; i++) {
        fy_matrix *w = &l->w[i];
        const bool by_neuron =
            l != &m->once && (i == FY_T_FFN_GATE || i == FY_T_FFN_UP || i == FY_T_FFN_DOWN_T);
        if (w->data == NULL || (w == &m->once.w[FY_T_TOKEN_EMBD] && w != m->output))
            continue; /* of an embedding each token reads one row */
        const int64_t n_kept = by_neuron ? (int64_t)n_hot : w->n_rows;
        keep(w->data, (size_t)n_kept * w->row_bytes, s);
        w->n_paged = w->n_rows - n_kept;
        s->paged += (uint64_t)w->n_paged * w->row_bytes;
    }
}

int fy_model_hot(const fy_model *m, const char *option, const fy_gguf_kv **n_hot, fy_err *e)
{
    const char *path = fy_gguf_path(m->gguf);
    const int absent = fy_gguf_get_array(m->gguf, FY_KEY_HOT_NEURONS, FY_KV_U32, n_hot, e);
    if (absent < 0)
        return fy_ctx(e, "%s", path);
    if (absent > 0 || (*n_hot)->count != m->hp.n_layer || m->chain != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: %s: the file does not say which neurons of its %u layers are "
                       "hot; 'ferry quantize --hot' writes one that does",
                       path, option, m->hp.n_layer);
    for (uint32_t l = 0; l < m->hp.n_layer; l++) {
        const int64_t n = m->layers[l].w[FY_T_FFN_UP].n_rows, hot = fy_gguf_int_at(*n_hot, l);
        if (hot > n)
            return fy_fail(e, FY_EFORMAT, "%s: layer %u has %lld neurons, but %lld of them are hot",
                           path, l, (long long)n, (long long)hot);
    }
    return 0;
}

int fy_model_lock_hot(fy_model *m, fy_err *e)
{
    const char *path = fy_gguf_path(m->gguf);
    const fy_gguf_kv *n_hot = NULL;
    sums s = {0};
    if (m->gpu == NULL && fy_model_hot(m, "--mlock-hot", &n_hot, e) != 0)
        return -1;
    for (uint32_t l = 0; l < m->hp.n_layer; l++) /* what a GPU has is locked there */
        lock_weights(m, &m->layers[l], m->gpu == NULL ? (uint64_t)fy_gguf_int_at(n_hot, l) : 0, &s);
    lock_weights(m, &m->once, 0, &s);
    if (s.failed != 0)
        fy_log(FY_LOG_WARN, "%s: only %.1f MB are locked in memory: %s (ulimit -l; memory)", path,
               (double)s.kept * 1e-6, strerror(s.failed));
    fy_log(FY_LOG_INFO, "%.1f MB stay in memory, %.1f MB are read when needed",
           (double)s.kept * 1e-6, (double)s.paged * 1e-6);
    return 0;
}
