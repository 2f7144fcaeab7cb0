/* Writes a golden file (docs/golden.md): what a session computes, as tensors of a safetensors file.
 * Rows go to their places as they are computed, as little-endian as every machine of ferry. */
#include <stdlib.h>

#include "base/file.h"
#include "base/str.h"
#include "model/golden.h"

enum { IDS, LOGITS, HIDDEN, KEYS, VALUES, N_PARTS };

typedef struct {
    const char *name;
    uint32_t rank; /* 0: the file has none */
    uint64_t shape[4];
    uint64_t at; /* offset in the file */
} part;

typedef struct {
    fy_out *file;
    const fy_hparams *hp;
    uint32_t n_ids;
    part parts[N_PARTS];
} saved;

static int save_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    const saved *g = user;
    const size_t row = (size_t)g->hp->n_vocab * sizeof *logits;
    return fy_out_pwrite(g->file, logits, n * row, g->parts[LOGITS].at + pos * row, e);
}

static int save_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                       fy_err *e)
{
    const saved *g = user;
    const uint64_t row = (uint64_t)g->hp->n_embd * sizeof *x;
    return fy_out_pwrite(g->file, x, n * row,
                         g->parts[HIDDEN].at + ((uint64_t)layer * g->n_ids + pos) * row, e);
}

/* Head after head of what the session caches: KEYS or VALUES. */
static int save_cached(const saved *g, const fy_session *s, int which, fy_err *e)
{
    const part *p = &g->parts[which];
    const size_t bytes = (size_t)(p->shape[2] * p->shape[3] * sizeof(float));
    float *rows = malloc(bytes);
    uint64_t at = p->at;
    int rc = rows != NULL ? 0 : fy_nomem(e);
    for (uint32_t i = 0; rc == 0 && i < g->hp->n_layer * g->hp->n_head_kv; i++, at += bytes) {
        rc = fy_session_cached(s, i / g->hp->n_head_kv, i % g->hp->n_head_kv, which == VALUES,
                               g->n_ids, rows, e);
        if (rc == 0)
            rc = fy_out_pwrite(g->file, rows, bytes, at, e);
    }
    free(rows);
    return rc;
}

/* Elements have four bytes: I32 or F32. */
static uint64_t put_part(const part *p, const char *dtype, uint64_t begin, fy_str *header)
{
    uint64_t end = 4;
    fy_str_printf(header, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", begin == 0 ? '{' : ',', p->name,
                  dtype);
    for (uint32_t i = 0; i < p->rank; i++, end *= p->shape[i - 1])
        fy_str_printf(header, "%s%llu", i > 0 ? "," : "", (unsigned long long)p->shape[i]);
    end += begin;
    fy_str_printf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                  (unsigned long long)end);
    return end;
}

/* The header, spaces at its end up to a multiple of 8, and the ids. */
static int save_head(saved *g, const int32_t *ids, fy_err *e)
{
    fy_str s = {0};
    uint64_t end = 0;
    for (int i = 0; i < N_PARTS; i++) {
        g->parts[i].at = end;
        if (g->parts[i].rank > 0)
            end = put_part(&g->parts[i], i == IDS ? "I32" : "F32", end, &s);
    }
    fy_str_putc(&s, '}');
    while (!s.oom && s.len % 8 != 0)
        fy_str_putc(&s, ' ');
    const uint64_t length = s.len, data = sizeof length + s.len;
    for (int i = 0; i < N_PARTS; i++)
        g->parts[i].at += data;
    int rc = s.oom ? fy_nomem(e) : fy_out_pwrite(g->file, &length, sizeof length, 0, e);
    if (rc == 0)
        rc = fy_out_pwrite(g->file, s.ptr, s.len, sizeof length, e);
    if (rc == 0)
        rc = fy_out_pwrite(g->file, ids, g->n_ids * sizeof *ids, data, e);
    fy_str_release(&s);
    return rc == 0 ? fy_out_resize(g->file, data + end, e) : -1;
}

int fy_golden_save(const char *path, const fy_model *m, fy_session *s, const int32_t *ids,
                   uint32_t n, fy_err *e)
{
    const fy_hparams *hp = fy_model_hparams(m);
    const bool shows_hidden = fy_model_n_chunks(m) == 0;
    saved g = {
        .file = fy_out_open(path, 0, e),
        .hp = hp,
        .n_ids = n,
        .parts = {[IDS] = {.name = "input_ids", .rank = 1, .shape = {n}},
                  [LOGITS] = {.name = "logits", .rank = 2, .shape = {n, hp->n_vocab}},
                  [HIDDEN] = {.name = "hidden",
                              .rank = shows_hidden ? 3 : 0,
                              .shape = {hp->n_layer + 1, n, hp->n_embd}},
                  [KEYS] = {.name = "keys",
                            .rank = 4,
                            .shape = {hp->n_layer, hp->n_head_kv, n, hp->head_dim}},
                  [VALUES] = {.name = "values",
                              .rank = 4,
                              .shape = {hp->n_layer, hp->n_head_kv, n, hp->head_dim_v}}},
    };
    const fy_eval_sinks sinks = {
        .logits = save_logits, .hidden = shows_hidden ? save_hidden : NULL, .user = &g};
    if (g.file == NULL)
        return -1;
    fy_session_rewind(s, 0);
    if (save_head(&g, ids, e) == 0 && fy_session_eval(s, ids, n, &sinks, NULL, e) == 0 &&
        save_cached(&g, s, KEYS, e) == 0 && save_cached(&g, s, VALUES, e) == 0)
        return fy_out_commit(g.file, e);
    fy_out_abort(g.file);
    return -1;
}
