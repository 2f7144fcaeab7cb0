/* Which part of a piece of work a process does: by its option, or by the environment of an array
 * job.
 */
#include "base/job_part.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static const struct {
    const char *name;
    int64_t first; /* of the first part */
} variables[] = {
    {"SLURM_ARRAY_TASK_ID", 1},
    {"JOB_COMPLETION_INDEX", 0},
    {"PMI_RANK", 0},
};

/* Digits alone, at most 9 of them. */
static bool to_number(fy_span s, int64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        *v = 10 * *v + (s.ptr[i] - '0');
    }
    return s.len > 0 && s.len < 10;
}

static int find_auto(const char *text, fy_job_part *out, fy_err *e)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name);
        const int64_t first = variables[i].first;
        int64_t v;
        if (value == NULL)
            continue;
        if (!to_number(fy_span_of(value), &v) || v < first || v - first >= out->n)
            return fy_fail(e, FY_EARG, "--part %s: %s is '%s', expected %lld to %lld", text,
                           variables[i].name, value, (long long)first,
                           (long long)(first + out->n - 1));
        out->i = (uint32_t)(v - first + 1);
        return 0;
    }
    return fy_fail(e, FY_EARG,
                   "--part %s: the environment names no part (SLURM_ARRAY_TASK_ID, "
                   "JOB_COMPLETION_INDEX or PMI_RANK); expected --part I/%u",
                   text, out->n);
}

int fy_job_part_parse(const char *text, fy_job_part *out, fy_err *e)
{
    *out = (fy_job_part){0};
    if (text == NULL)
        return 0;
    const char *slash = strchr(text, '/');
    const fy_span which = {text, slash != NULL ? (size_t)(slash - text) : 0};
    int64_t i = 0, n = 0;
    const bool is_auto = fy_span_is(which, "auto");
    if (slash == NULL || !to_number(fy_span_of(slash + 1), &n) || n < 1 || n > FY_PARTS_MAX ||
        (!is_auto && (!to_number(which, &i) || i < 1 || i > n)))
        return fy_fail(e, FY_EARG,
                       "--part %s: expected I/N, part I (from 1) of N parts (at most %d), or "
                       "auto/N in an array job",
                       text, FY_PARTS_MAX);
    *out = (fy_job_part){(uint32_t)i, (uint32_t)n};
    return is_auto ? find_auto(text, out, e) : 0;
}

uint64_t fy_job_part_begin(uint64_t work, uint32_t i, uint32_t n)
{
    return work / n * (i - 1) + work % n * (i - 1) / n;
}

typedef struct {
    uint64_t work;
    size_t number;
} share;

/* Of more work first, of equals the lower number. */
static int by_work(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static bool is_before(const share *a, const share *b)
{
    return a->work != b->work ? a->work < b->work : a->number < b->number;
}

/* The first of the heap has grown. */
static void sink(share *heap, size_t n)
{
    for (size_t at = 0, next; (next = 2 * at + 1) < n; at = next) {
        if (next + 1 < n && is_before(&heap[next + 1], &heap[next]))
            next++;
        if (!is_before(&heap[next], &heap[at]))
            return;
        const share s = heap[at];
        heap[at] = heap[next];
        heap[next] = s;
    }
}

int fy_job_part_deal(const uint64_t *work, size_t n_pieces, uint32_t n, uint32_t *of, fy_err *e)
{
    share *pieces = malloc((n_pieces + 1) * sizeof *pieces), *parts = malloc(n * sizeof *parts);
    if (pieces == NULL || parts == NULL) {
        free(pieces);
        free(parts);
        return fy_nomem(e);
    }
    for (size_t i = 0; i < n_pieces; i++)
        pieces[i] = (share){work[i], i};
    for (uint32_t i = 0; i < n; i++)
        parts[i] = (share){0, i + 1};
    qsort(pieces, n_pieces, sizeof *pieces, by_work);
    for (size_t i = 0; i < n_pieces; i++) {
        of[pieces[i].number] = (uint32_t)parts[0].number;
        parts[0].work += pieces[i].work;
        sink(parts, n);
    }
    free(pieces);
    free(parts);
    return 0;
}
