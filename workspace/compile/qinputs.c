/* Sampled inputs of matrices: kept by name, written and read as GGUF. */
#include "workspace/compile/qinputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf_write.h"

#define MODEL_KEY "ferry.inputs.model"

void fy_q_sampler_init(fy_q_sampler *s, uint64_t n_tokens)
{
    *s = (fy_q_sampler){.stride = 1, .n_rows = (uint32_t)n_tokens};
    if (n_tokens <= FY_Q_INPUT_ROWS)
        return;
    s->stride = n_tokens / FY_Q_INPUT_ROWS;
    s->n_rows = FY_Q_INPUT_ROWS;
}

void fy_q_sampler_release(fy_q_sampler *s)
{
    free(s->samples);
    fy_names_release(&s->names);
    fy_arena_release(&s->arena);
    *s = (fy_q_sampler){0};
}

/* NULL: out of memory. */
static fy_q_sample *sample_of(fy_q_sampler *s, const char *name, uint32_t cols, fy_err *e)
{
    uint32_t at;
    if (fy_names_find(&s->names, fy_span_of(name), &at))
        return &s->samples[at];
    const fy_q_sample one = {
        .name = fy_arena_strndup(&s->arena, name, strlen(name)),
        .rows = fy_arena_calloc(&s->arena, (size_t)s->n_rows * cols, sizeof *one.rows),
        .cols = cols};
    if (one.name == NULL || one.rows == NULL ||
        fy_append(&s->samples, &s->n, &s->cap, &one, sizeof one, e) != 0 ||
        fy_names_add(&s->names, fy_span_of(one.name), (uint32_t)s->n - 1) != 0) {
        fy_nomem(e);
        return NULL;
    }
    return &s->samples[s->n - 1];
}

int fy_q_sampler_add(fy_q_sampler *s, const char *name, uint64_t first, const float *v, uint32_t n,
                     uint32_t cols, fy_err *e)
{
    fy_q_sample *to = sample_of(s, name, cols, e);
    if (to == NULL)
        return -1;
    if (to->cols != cols)
        return fy_fail(e, FY_EFORMAT, "'%s' has %u columns, expected %u", name, cols, to->cols);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t token = first + i, row = token / s->stride;
        if (row < s->n_rows && token % s->stride == s->stride / 2)
            memcpy(to->rows + row * cols, v + (size_t)i * cols, cols * sizeof *v);
    }
    return 0;
}

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    const fy_q_sample *one = &((const fy_q_sampler *)user)->samples[i];
    (void)thread, (void)e;
    memcpy(out, one->rows + row * one->cols, n_rows * one->cols * sizeof *one->rows);
    return 0;
}

int fy_q_sampler_write(const fy_q_sampler *s, const char *model, const char *path, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    fy_q_sampler *user = (fy_q_sampler *)(uintptr_t)s;
    int rc = w != NULL ? fy_gguf_add_str(w, MODEL_KEY, fy_span_of(model), e) : -1;
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const uint64_t ne[] = {s->samples[i].cols, s->n_rows};
        rc = fy_gguf_add_tensor(w, s->samples[i].name, FY_F32, 2, ne, e) < 0 ? -1 : 0;
    }
    if (rc == 0)
        rc = fy_gguf_write(w, path, fill, user, NULL, NULL, e);
    fy_gguf_writer_free(w);
    return rc;
}

fy_gguf *fy_q_inputs_open(const char *path, const char *model, fy_err *e)
{
    fy_gguf *g = fy_gguf_open(path, e);
    fy_span of = FY_SPAN("");
    if (g == NULL)
        return NULL;
    if (fy_gguf_get_str(g, MODEL_KEY, &of, e) >= 0 && fy_span_is(of, model))
        return g;
    fy_fail(e, FY_EARG, "%s: has the inputs of another model (%.*s...), not of %.12s...", path,
            (int)(of.len < 12 ? of.len : 12), of.ptr, model);
    fy_gguf_close(g);
    return NULL;
}

const float *fy_q_inputs_find(const fy_gguf *g, const char *name, uint64_t cols, uint32_t *n,
                              fy_err *e)
{
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    if (t == NULL || t->type != FY_F32 || t->ne[0] != cols || t->ne[1] > FY_Q_INPUT_ROWS ||
        (uintptr_t)t->data % _Alignof(float) != 0) {
        fy_fail(e, FY_EFORMAT,
                "%s: has no rows of %llu inputs named '%s'; calibrate again with --seq-mse",
                fy_gguf_path(g), (unsigned long long)cols, name);
        return NULL;
    }
    const float *rows = (const float *)(const void *)t->data;
    for (uint64_t i = 0; i < cols * t->ne[1]; i++) {
        if (!isfinite(rows[i])) {
            fy_fail(e, FY_EFORMAT, "%s: '%s': a value is not finite", fy_gguf_path(g), name);
            return NULL;
        }
    }
    *n = (uint32_t)t->ne[1];
    return rows;
}
