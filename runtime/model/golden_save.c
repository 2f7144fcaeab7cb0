/* Writes a golden file (docs/golden.md): what a session computes, as tensors of a safetensors file.
 * Rows go to their places as they are computed, as little-endian as every machine of ferry. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "model/golden.h"

typedef struct {
    fy_out *file;
    const fy_hparams *hp;
    uint32_t n_ids;
    uint64_t logits, hidden; /* offsets in the file */
} saved;

static int save_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    const saved *g = user;
    const size_t row = (size_t)g->hp->n_vocab * sizeof *logits;
    return fy_out_pwrite(g->file, logits, n * row, g->logits + pos * row, e);
}

static int save_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                       fy_err *e)
{
    const saved *g = user;
    const uint64_t row = (uint64_t)g->hp->n_embd * sizeof *x;
    return fy_out_pwrite(g->file, x, n * row, g->hidden + ((uint64_t)layer * g->n_ids + pos) * row,
                         e);
}

/* The header, spaces at its end up to a multiple of 8, and the ids. */
static int save_head(saved *g, const int32_t *ids, bool shows_hidden, uint64_t *end, fy_err *e)
{
    const uint64_t n = g->n_ids, n_logits = n * g->hp->n_vocab * 4,
                   n_hidden = shows_hidden ? (g->hp->n_layer + 1) * n * g->hp->n_embd * 4 : 0;
    fy_str s = {0};
    uint64_t length;
    fy_str_printf(&s,
                  "{\"input_ids\":{\"dtype\":\"I32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]},"
                  "\"logits\":{\"dtype\":\"F32\",\"shape\":[%llu,%u],\"data_offsets\":[%llu,%llu]}",
                  (unsigned long long)n, (unsigned long long)(4 * n), (unsigned long long)n,
                  g->hp->n_vocab, (unsigned long long)(4 * n),
                  (unsigned long long)(4 * n + n_logits));
    if (shows_hidden)
        fy_str_printf(
            &s,
            ",\"hidden\":{\"dtype\":\"F32\",\"shape\":[%u,%llu,%u],\"data_offsets\":[%llu,%llu]}",
            g->hp->n_layer + 1, (unsigned long long)n, g->hp->n_embd,
            (unsigned long long)(4 * n + n_logits),
            (unsigned long long)(4 * n + n_logits + n_hidden));
    fy_str_putc(&s, '}');
    while (!s.oom && s.len % 8 != 0)
        fy_str_putc(&s, ' ');
    const uint64_t data = 8 + s.len;
    length = s.len;
    g->logits = data + 4 * n;
    g->hidden = g->logits + n_logits;
    *end = g->hidden + n_hidden;
    int rc = s.oom ? fy_nomem(e) : fy_out_pwrite(g->file, &length, sizeof length, 0, e);
    if (rc == 0)
        rc = fy_out_pwrite(g->file, s.ptr, s.len, sizeof length, e);
    if (rc == 0)
        rc = fy_out_pwrite(g->file, ids, n * sizeof *ids, data, e);
    fy_str_release(&s);
    return rc;
}

int fy_golden_save(const char *path, const fy_model *m, fy_session *s, const int32_t *ids,
                   uint32_t n, fy_err *e)
{
    uint64_t bytes;
    const bool shows_hidden = fy_model_n_chunks(m) == 0;
    saved g = {.file = fy_out_open(path, 0, e), .hp = fy_model_hparams(m), .n_ids = n};
    const fy_eval_sinks sinks = {
        .logits = save_logits, .hidden = shows_hidden ? save_hidden : NULL, .user = &g};
    if (g.file == NULL)
        return -1;
    fy_session_rewind(s, 0);
    if (save_head(&g, ids, shows_hidden, &bytes, e) == 0 && fy_out_resize(g.file, bytes, e) == 0 &&
        fy_session_eval(s, ids, n, &sinks, NULL, e) == 0)
        return fy_out_commit(g.file, e);
    fy_out_abort(g.file);
    return -1;
}
