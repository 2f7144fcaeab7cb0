/* Sums over a tile of rows, of several tokens: bit for bit the specification, and near the sum in
 * double. Some tokens count all rows, some a few, some none; lists go on after the tile. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum { ROWS = 40, AFTER = 3, TOKENS = 11, LISTED = TOKENS * (ROWS + AFTER), N_SHAPES = 120 };

/* What lies in fy_kc_case.work. */
typedef struct {
    float tile[ROWS][FY_ADD_COLS], p[LISTED];
    int32_t rows[LISTED];
    float y[TOKENS][FY_ADD_COLS], expected[TOKENS][FY_ADD_COLS];
    int n[TOKENS], n_taken[TOKENS];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

typedef struct {
    int n_tokens, n_listed; /* by all */
    int32_t first, end;
    bool hostile;
} shape;

static float any_value(fy_kc_case *t, const shape *s)
{
    static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, -6e-8f, 3e38f};
    const int i = s->hostile ? fy_kc_between(&t->random, 0, 30) : 30;
    return i < (int)(sizeof odd / sizeof odd[0]) ? odd[i] : fy_kc_normal(&t->random);
}

static void list_rows(fy_kc_case *t, shape *s, int c)
{
    work *w = t->work;
    const int often = fy_kc_between(&t->random, 0, 8); /* 4 and more: all */
    w->n[c] = w->n_taken[c] = 0;
    for (int32_t r = s->first; r < s->end + AFTER; r++) {
        if (fy_kc_between(&t->random, 0, 3) >= often)
            continue;
        w->rows[s->n_listed] = r;
        w->p[s->n_listed++] = any_value(t, s);
        w->n[c]++;
        w->n_taken[c] += r < s->end;
    }
}

static shape make_shape(fy_kc_case *t, int i)
{
    work *w = t->work;
    shape s = {.n_tokens = 1 + i % TOKENS, .hostile = i % 3 == 2};
    s.first = fy_kc_between(&t->random, 0, 1 << 24);
    s.end = s.first + fy_kc_between(&t->random, 1, ROWS);
    for (int c = 0; c < s.n_tokens; c++)
        list_rows(t, &s, c);
    for (int r = 0; r < s.end - s.first; r++) {
        for (int j = 0; j < FY_ADD_COLS; j++)
            w->tile[r][j] = any_value(t, &s);
    }
    for (int c = 0; c < s.n_tokens; c++) {
        for (int j = 0; j < FY_ADD_COLS; j++)
            w->y[c][j] = any_value(t, &s);
    }
    return s;
}

/* The sums of all tokens; NULL: one was left with other entries than those after the tile. */
static const float *add(fy_kc_case *t, const fy_kernels *k, const shape *s)
{
    work *w = t->work;
    const size_t n = (size_t)s->n_listed;
    float *y = fy_kc_place_copy(t, FY_KC_Y, w->y, (size_t)s->n_tokens * sizeof *w->y);
    const float *p = fy_kc_place_copy(t, FY_KC_X, w->p, n * sizeof *p);
    const int32_t *rows = fy_kc_place_copy(t, FY_KC_SUM, w->rows, n * sizeof *rows);
    const float *tile =
        fy_kc_place_copy(t, FY_KC_W, w->tile, (size_t)(s->end - s->first) * sizeof *w->tile);
    fy_add_token tokens[TOKENS];
    for (int c = 0, at = 0; c < s->n_tokens; at += w->n[c++])
        tokens[c] = (fy_add_token){y + c * FY_ADD_COLS, p + at, rows + at, w->n[c]};
    k->add_tile(tokens, s->n_tokens, tile, s->first, s->end);
    for (int c = 0, at = 0; c < s->n_tokens; at += w->n[c++]) {
        if (tokens[c].n != w->n[c] - w->n_taken[c] || tokens[c].p != p + at + w->n_taken[c] ||
            tokens[c].rows != rows + at + w->n_taken[c])
            return NULL;
    }
    return y;
}

bool fy_kc_add_tile_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape s = make_shape(t, i);
        memcpy(w->expected, add(t, &t->spec, &s), (size_t)s.n_tokens * sizeof *w->expected);
        const float *y = add(t, &t->k, &s);
        if (y == NULL)
            return fy_kc_fail(t, "%d tokens: one is left with other rows", s.n_tokens);
        if (!fy_kc_same_all(t, "y", y, w->expected[0], s.n_tokens * FY_ADD_COLS))
            return false;
    }
    return true;
}

bool fy_kc_add_tile_near(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape s = make_shape(t, i);
        const float *y = add(t, &t->k, &s);
        for (int e = 0, at = 0; e < s.n_tokens * FY_ADD_COLS && !s.hostile; e++) {
            const int c = e / FY_ADD_COLS, j = e % FY_ADD_COLS;
            at += j == 0 && c > 0 ? w->n[c - 1] : 0;
            double value = (double)w->y[c][j], size = fabs(value);
            for (int r = at; r < at + w->n_taken[c]; r++) {
                const double term = (double)w->p[r] * (double)w->tile[w->rows[r] - s.first][j];
                value += term;
                size += fabs(term);
            }
            if (!(fabs((double)y[e] - value) <= (w->n[c] + 2) * 0x1p-24 * size + 1e-40))
                return fy_kc_fail(t, "token %d: y[%d] is %.9g, expected %.9g", c, j, (double)y[e],
                                  value);
        }
    }
    return true;
}
