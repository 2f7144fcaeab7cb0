/* A comparison in parts: each compares its own tensors and keeps what came out
 * (format/part_file.h), and their end takes that instead of comparing. A step is a tensor, in the
 * order of the parts. Keys and vocabularies are compared at the end. */
#include <stdlib.h>
#include <string.h>

#include "convert/look/compare.h"
#include "convert/write/convert_identity.h"
#include "format/part_file.h"

enum { KEY_DIGITS = 16 };

typedef struct {
    fy_comparison *c;
    const fy_compare_params *p;
    fy_str identity;
    size_t *order; /* owned, [n]: pairs by part, then by number */
    size_t n;
    size_t first, end; /* of this part, in `order` */
} dealing;

/* --- which work it is --------------------------------------------------------------------------
 */

static int add_source(const fy_source *s, fy_str *out, fy_err *e)
{
    fy_str_printf(out, "%s\n", fy_source_what(s));
    if (s->gguf == NULL)
        return fy_convert_identity(s->path, FY_IDENTITY_ANYWHERE, out, e);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_files(s->gguf); i++)
        rc = fy_identity_file(out, FY_IDENTITY_ANYWHERE, "model", fy_gguf_file_path(s->gguf, i), e);
    return rc;
}

static int identify(dealing *d, fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    fy_str *s = &d->identity, *base = &d->c->parts;
    fy_str_puts(s, "compare\n");
    if (d->p->pattern != NULL) {
        fy_str_puts(s, "tensors ");
        fy_str_put_quoted(s, fy_span_of(d->p->pattern), SIZE_MAX);
        fy_str_putc(s, '\n');
    }
    if (fy_identity_program(s, FY_IDENTITY_ANYWHERE, e) != 0 || add_source(d->c->a, s, e) != 0 ||
        add_source(d->c->b, s, e) != 0)
        return -1;
    if (s->oom)
        return fy_nomem(e);
    if (fy_sha256_of(s->ptr, s->len, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(base, "compare-%.*s", KEY_DIGITS, hex);
    return base->oom ? fy_nomem(e) : 0;
}

/* --- which tensors -----------------------------------------------------------------------------
 */

/* Bytes that are read, of every pair; 0 where nothing is. */
static uint64_t work_of(const fy_tensor_pair *p)
{
    return fy_compare_has_values(p) ? p->a->bytes + p->b->bytes : 0;
}

/* of: [n_pairs], the part of each. begin: [parts + 2], zeroed. */
static void put_in_order(dealing *d, const uint32_t *of, size_t *begin)
{
    const fy_job_part part = d->p->parts->part;
    for (size_t k = 0; k < d->c->n_pairs; k++)
        begin[of[k] + 1] += fy_compare_has_values(&d->c->pairs[k]);
    for (uint32_t i = 1; i <= part.n; i++)
        begin[i + 1] += begin[i];
    d->n = begin[part.n + 1];
    d->first = begin[part.i];
    d->end = begin[part.i + 1];
    for (size_t k = 0; k < d->c->n_pairs; k++) {
        if (fy_compare_has_values(&d->c->pairs[k]))
            d->order[begin[of[k]]++] = k;
    }
}

static int deal(dealing *d, fy_err *e)
{
    const size_t n = d->c->n_pairs;
    uint64_t *work = malloc((n + 1) * sizeof *work);
    uint32_t *of = malloc((n + 1) * sizeof *of);
    size_t *begin = calloc((size_t)d->p->parts->part.n + 2, sizeof *begin);
    d->order = malloc((n + 1) * sizeof *d->order);
    int rc = work != NULL && of != NULL && begin != NULL && d->order != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        work[i] = work_of(&d->c->pairs[i]);
    if (rc == 0)
        rc = fy_job_part_deal(work, n, d->p->parts->part.n, of, e);
    if (rc == 0)
        put_in_order(d, of, begin);
    free(begin);
    free(work);
    free(of);
    return rc;
}

/* --- a part ------------------------------------------------------------------------------------
 */

/* What came out of a pair, but for the tolerance; the reason why it could not be read follows. */
typedef struct {
    uint64_t is_unread;
    fy_tensor_diff diff;
} outcome;

static int put_outcome(fy_part_file *f, size_t step, const fy_tensor_pair *p, fy_err *e)
{
    const outcome o = {p->state == FY_PAIR_UNREAD, p->diff};
    fy_str s = {0};
    fy_str_add(&s, &o, sizeof o);
    if (o.is_unread)
        fy_str_puts(&s, p->why);
    const int rc =
        s.oom ? fy_nomem(e) : fy_part_file_add(f, FY_PART_STEP, step, (fy_span){s.ptr, s.len}, e);
    fy_str_release(&s);
    return rc;
}

static int compare_part(dealing *d, fy_part_file *f, fy_err *e)
{
    size_t at = d->first;
    if (fy_part_file_is_done(f))
        return 0;
    if (fy_part_file_next(f) > at)
        at = (size_t)fy_part_file_next(f);
    for (; at < d->end; at++) {
        fy_tensor_pair *p = &d->c->pairs[d->order[at]];
        if (fy_check_interrupt(e) != 0 || fy_compare_values(d->c->a, d->c->b, p, d->p, e) != 0 ||
            put_outcome(f, at, p, e) != 0)
            return -1;
        fy_progress_add(d->p->progress, p->a->bytes);
    }
    return fy_part_file_end(f, d->first, d->end, d->n, e);
}

static void count_progress(const dealing *d)
{
    uint64_t bytes = 0;
    for (size_t i = d->first; i < d->end; i++)
        bytes += d->c->pairs[d->order[i]].a->bytes;
    if (d->p->progress != NULL)
        d->p->progress->total_bytes = bytes;
}

/* --- the end -----------------------------------------------------------------------------------
 */

static int take_outcome(void *user, const fy_part_record *r, fy_err *e)
{
    dealing *d = user;
    outcome o;
    if (r->kind != FY_PART_STEP || r->step >= d->n || r->bytes.len < sizeof o)
        return fy_fail(e, FY_EFORMAT, "has what is not the difference of a tensor");
    memcpy(&o, r->bytes.ptr, sizeof o);
    fy_tensor_pair *p = &d->c->pairs[d->order[r->step]];
    const fy_span why = {r->bytes.ptr + sizeof o, r->bytes.len - sizeof o};
    const uint64_t n = p->a->n_elems;
    if ((o.is_unread == 0 && (o.diff.n != n || o.diff.n_different > n || o.diff.n_wild > n ||
                              (o.diff.first >= n && o.diff.n_different > 0) || why.len > 0)) ||
        (o.is_unread == 1 && memchr(why.ptr, '\0', why.len) != NULL) || o.is_unread > 1)
        return fy_fail(e, FY_EFORMAT, "has the difference of another tensor");
    p->diff = o.diff;
    if (o.is_unread == 0) {
        fy_compare_judge(p, d->p->tolerance);
        return 0;
    }
    p->state = FY_PAIR_UNREAD;
    p->why = strndup(why.ptr, why.len);
    return p->why != NULL ? 0 : fy_nomem(e);
}

/* --- both --------------------------------------------------------------------------------------
 */

int fy_compare_in_parts(fy_comparison *c, const fy_compare_params *p, fy_err *e)
{
    dealing d = {.c = c, .p = p};
    const fy_part_options *o = p->parts;
    int rc = deal(&d, e) == 0 ? identify(&d, e) : -1;
    const fy_span identity = {d.identity.ptr, d.identity.len};
    if (rc == 0 && o->finishes) {
        rc = fy_part_files_read(fy_str_z(&c->parts), o->part.n, identity, fy_str_z(&o->command),
                                take_outcome, &d, e);
    } else if (rc == 0) {
        fy_part_file *f = fy_part_file_open(fy_str_z(&c->parts), o->part, identity, e);
        count_progress(&d);
        rc = f != NULL ? compare_part(&d, f, e) : -1;
        fy_part_file_close(f);
    }
    free(d.order);
    fy_str_release(&d.identity);
    return rc;
}
