#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/quote.h"
#include "kernels/row.h"
#include "model/weights.h"

/* --- problems: all of them in one message, as far as it holds them -------------------------- */

enum { PROBLEM_BYTES = 360 };

typedef struct {
    fy_str text;
    size_t n;
    fy_code code;
} problems;

/* The next problem's place in the text; NULL when there is no room left and it is only counted. */
static fy_str *next_problem(problems *p, fy_code code)
{
    p->code = p->n == 0 || code == FY_EFORMAT ? code : p->code;
    p->n++;
    if (p->text.len > PROBLEM_BYTES)
        return NULL;
    fy_str_puts(&p->text, p->n == 1 ? "" : "; ");
    return &p->text;
}

static int report_problems(problems *p, const fy_model *m, fy_err *e)
{
    int rc = 0;
    if (p->text.oom)
        rc = fy_nomem(e);
    else if (p->n > 0)
        rc = fy_fail(e, p->code, "%zu tensor%s not as family %s needs: %.*s%s", p->n,
                     p->n == 1 ? " is" : "s are", m->family->name, (int)(PROBLEM_BYTES + 40),
                     fy_str_z(&p->text), p->text.len > PROBLEM_BYTES ? " ..." : "");
    fy_str_release(&p->text);
    return rc;
}

static void put_shape(fy_str *s, const uint64_t ne[FY_GGUF_MAX_DIMS], uint32_t n)
{
    fy_str_putc(s, '[');
    for (uint32_t i = 0; i < n; i++)
        fy_str_printf(s, "%s%llu", i > 0 ? " " : "", (unsigned long long)ne[i]);
    fy_str_putc(s, ']');
}

static bool same_shape(const fy_gguf_tensor *t, const uint64_t ne[FY_GGUF_MAX_DIMS], uint32_t n)
{
    for (uint32_t i = 0; i < FY_GGUF_MAX_DIMS; i++) {
        if (t->ne[i] != (i < n ? ne[i] : 1))
            return false;
    }
    return true;
}

static bool usable_type(const fy_kernels *k, const fy_tensor_row *row, fy_type t)
{
    if (!(row->flags & FY_ROW_MATRIX))
        return t == FY_F32;
    return fy_kernels_matmul(k, t) != NULL &&
           (row->slot != FY_T_TOKEN_EMBD || fy_row_can_decode(t));
}

static void put_bad_type(fy_str *s, const fy_tensor_row *row, const fy_gguf_tensor *t)
{
    bool matrix = (row->flags & FY_ROW_MATRIX) != 0;
    fy_str_printf(s, "'%.*s' has type %s, expected %s", (int)t->name.len, t->name.ptr,
                  fy_type_name(t->type),
                  matrix ? "f32, f16, bf16, q8_0 or q4_0 (convert the checkpoint with --outtype "
                           "q8_0, q4_0 or f16)"
                         : "f32");
}

/* --- binding -------------------------------------------------------------------------------- */

/* Files may align tensors to less than a float; such vectors are copied. */
static const void *aligned_vector(fy_model *m, const fy_gguf_tensor *t)
{
    if ((uintptr_t)t->data % _Alignof(float) == 0)
        return t->data;
    void *copy = fy_arena_alloc(&m->arena, t->bytes);
    if (copy != NULL)
        memcpy(copy, t->data, t->bytes);
    return copy;
}

static int bind(fy_model *m, const fy_kernels *k, const fy_tensor_row *row, uint32_t layer,
                fy_weights *into, size_t *n_bound, problems *bad, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    fy_row_name(row->gguf, layer, name);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(m->gguf, name);
    if (t == NULL) {
        fy_str *s = row->flags & FY_ROW_OPTIONAL ? NULL : next_problem(bad, FY_EFORMAT);
        if (s != NULL)
            fy_str_printf(s, "'%s' is missing", name);
        return 0;
    }
    ++*n_bound;
    uint64_t ne[FY_GGUF_MAX_DIMS];
    uint32_t n = fy_row_shape(&m->hp, row, ne);
    if (!same_shape(t, ne, n)) {
        fy_str *s = next_problem(bad, FY_EFORMAT);
        if (s != NULL) {
            fy_str_printf(s, "'%s' has shape ", name);
            put_shape(s, t->ne, t->n_dims);
            fy_str_puts(s, ", expected ");
            put_shape(s, ne, n);
        }
        return 0;
    }
    if (!usable_type(k, row, t->type)) {
        fy_str *s = next_problem(bad, FY_EUNSUPPORTED);
        if (s != NULL)
            put_bad_type(s, row, t);
        return 0;
    }
    fy_matrix *w = &into->w[row->slot];
    *w = (fy_matrix){.data = t->data,
                     .type = t->type,
                     .row_bytes = (size_t)fy_type_row_bytes(t->type, t->ne[0]),
                     .n_rows = (int64_t)t->ne[1],
                     .n_cols = (int64_t)t->ne[0]};
    if (!(row->flags & FY_ROW_MATRIX))
        w->data = aligned_vector(m, t);
    else if (fy_kernels_wants_q8(t->type) && w->n_cols > m->q8_len)
        m->q8_len = w->n_cols;
    return w->data != NULL ? 0 : fy_nomem(e);
}

static void find_unknown(const fy_model *m, problems *bad)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(m->gguf); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(m->gguf, i);
        uint32_t layer = 0;
        const fy_tensor_row *row = fy_row_of_gguf(m->family, t->name, &layer);
        if (row != NULL && (!fy_row_is_layer(row) || layer < m->hp.n_layer))
            continue;
        fy_str *s = next_problem(bad, FY_EUNSUPPORTED);
        char name[FY_QUOTE_BYTES];
        if (s != NULL && row != NULL)
            fy_str_printf(s, "'%s' belongs to no layer: block_count is %u",
                          fy_quote(name, sizeof name, t->name), m->hp.n_layer);
        else if (s != NULL)
            fy_str_printf(s, "'%s' is unknown", fy_quote(name, sizeof name, t->name));
    }
}

static int bind_all(fy_model *m, fy_err *e)
{
    fy_kernels k = fy_kernels_for(fy_cpu_features());
    problems bad = {0};
    size_t n_bound = 0;
    int rc = 0;
    for (size_t i = 0; i < m->family->n_rows && rc == 0; i++) {
        const fy_tensor_row *row = &m->family->rows[i];
        if (!fy_row_is_layer(row)) {
            rc = bind(m, &k, row, 0, &m->once, &n_bound, &bad, e);
            continue;
        }
        for (uint32_t layer = 0; layer < m->hp.n_layer && rc == 0; layer++)
            rc = bind(m, &k, row, layer, &m->layers[layer], &n_bound, &bad, e);
    }
    if (rc == 0 && n_bound != fy_gguf_n_tensors(m->gguf))
        find_unknown(m, &bad);
    return report_problems(&bad, m, e) != 0 ? -1 : rc;
}

/* --- open and close ------------------------------------------------------------------------- */

static int find_family(fy_model *m, fy_err *e)
{
    fy_span arch;
    int rc = fy_gguf_get_str(m->gguf, FY_KEY_ARCHITECTURE, &arch, e);
    if (rc < 0)
        return -1;
    if (rc > 0)
        return fy_fail(
            e, FY_EFORMAT,
            "key general.architecture is missing: this file says nothing about its model");
    m->family = fy_family_of_gguf(arch);
    if (m->family != NULL)
        return 0;
    char name[FY_QUOTE_BYTES];
    fy_str known = {0};
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (fy_family_of_gguf(fy_span_of((*f)->gguf_arch)) == *f)
            fy_str_printf(&known, "%s%s", known.len > 0 ? ", " : "", (*f)->gguf_arch);
    }
    rc = fy_fail(e, FY_EUNSUPPORTED, "general.architecture is '%s', expected one of: %s",
                 fy_quote(name, sizeof name, arch), fy_str_z(&known));
    fy_str_release(&known);
    return rc;
}

static int load(fy_model *m, fy_err *e)
{
    if (find_family(m, e) != 0 || fy_hparams_from_gguf(m->gguf, m->family, &m->hp, e) != 0)
        return -1;
    m->layers = fy_arena_calloc(&m->arena, m->hp.n_layer, sizeof *m->layers);
    if (m->layers == NULL)
        return fy_nomem(e);
    if (bind_all(m, e) != 0)
        return -1;
    bool tied = m->once.w[FY_T_OUTPUT].data == NULL;
    m->output = &m->once.w[tied ? FY_T_TOKEN_EMBD : FY_T_OUTPUT];
    return 0;
}

fy_model *fy_model_open(const char *path, fy_err *e)
{
    fy_model *m = calloc(1, sizeof *m);
    if (m == NULL) {
        fy_nomem(e);
        return NULL;
    }
    m->gguf = fy_gguf_open(path, e);
    if (m->gguf != NULL && load(m, e) == 0)
        return m;
    if (m->gguf != NULL)
        fy_ctx(e, "%s", path);
    fy_model_close(m);
    return NULL;
}

void fy_model_close(fy_model *m)
{
    if (m == NULL)
        return;
    fy_vocab_free(m->vocab);
    fy_arena_release(&m->arena);
    fy_gguf_close(m->gguf);
    free(m);
}

const fy_hparams *fy_model_hparams(const fy_model *m)
{
    return &m->hp;
}

const fy_family *fy_model_family(const fy_model *m)
{
    return m->family;
}

const fy_gguf *fy_model_gguf(const fy_model *m)
{
    return m->gguf;
}

const fy_vocab *fy_model_vocab(fy_model *m, fy_err *e)
{
    if (m->vocab == NULL) {
        m->vocab = fy_vocab_load(m->gguf, e);
        if (m->vocab == NULL)
            fy_ctx(e, "%s", fy_gguf_path(m->gguf));
    }
    return m->vocab;
}
