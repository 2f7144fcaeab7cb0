/* Parts of one output: which pieces are of a part, its journal, and what ends the work when all
 * parts are done. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "format/gguf_write_job.h"
#include "format/write_journal.h"

/* Bytes that a piece reads and writes. */
static uint64_t work_of(const fy_write_job *j, size_t tensor, uint64_t rows)
{
    const fy_gguf_tensor *t = j->w->tensor[tensor];
    const uint64_t *read = j->parts->read_bytes;
    return rows * fy_write_job_row_bytes(t) +
           (read != NULL ? read[tensor] / fy_write_job_n_rows(t) * rows : 0);
}

static uint64_t work_before(const fy_write_job *j, uint64_t piece)
{
    uint64_t sum = 0;
    for (size_t t = 0; t < j->w->n_tensors && j->first_piece[t] < piece; t++) {
        const uint64_t rows = fy_write_job_n_rows(j->w->tensor[t]),
                       some = (piece - j->first_piece[t]) *
                              fy_write_job_rows_per_piece(j->w->tensor[t]);
        sum += work_of(j, t, some < rows ? some : rows);
    }
    return sum;
}

/* The pieces of a part: parts do about the same work each. */
static void cut(fy_write_job *j, uint32_t i)
{
    const uint32_t n = j->parts->part.n;
    uint64_t all = 0, before = 0, piece = 0;
    for (size_t t = 0; t < j->w->n_tensors; t++)
        all += work_of(j, t, fy_write_job_n_rows(j->w->tensor[t]));
    const uint64_t first = fy_job_part_begin(all, i, n), last = fy_job_part_begin(all, i + 1, n);
    j->begin = j->end = UINT64_MAX;
    for (size_t t = 0; t < j->w->n_tensors; t++) {
        const uint64_t rows = fy_write_job_n_rows(j->w->tensor[t]),
                       each = fy_write_job_rows_per_piece(j->w->tensor[t]);
        for (uint64_t row = 0; row < rows; row += each, piece++) {
            if (before >= first && piece < j->begin)
                j->begin = piece;
            if (before >= last && piece < j->end)
                j->end = piece;
            before += work_of(j, t, rows - row < each ? rows - row : each);
        }
    }
    j->begin = j->begin < piece ? j->begin : piece;
    j->end = j->end < piece ? j->end : piece;
    j->next_piece = j->begin;
}

/* --- one part --------------------------------------------------------------------------------- */

/* "model.gguf.3-of-64": with .part after it the journal of a part. NULL when out of memory. */
static char *part_name(const char *path, fy_job_part part)
{
    fy_str s = {0};
    fy_str_printf(&s, "%s.%u-of-%u", path, part.i, part.n);
    char *name = s.oom ? NULL : strdup(fy_str_z(&s));
    fy_str_release(&s);
    return name;
}

static int open_own(fy_write_job *j, const char *path, fy_err *e)
{
    char *name = part_name(path, j->parts->part);
    if (name == NULL)
        return fy_nomem(e);
    j->own = fy_out_open_kept(name, e);
    free(name);
    return j->own != NULL ? 0 : -1;
}

int fy_write_job_key(fy_write_job *j, fy_err *e)
{
    fy_str s = {0};
    fy_str_add(&s, j->parts->identity.ptr, j->parts->identity.len);
    int rc = fy_writer_add_plan(j->w, &s, e);
    if (rc == 0)
        rc = s.oom ? fy_nomem(e) : fy_sha256_of(s.ptr, s.len, j->key, e);
    fy_str_release(&s);
    return rc;
}

void fy_write_job_put_part(const fy_write_job *j, uint32_t i, fy_str *out)
{
    char key[FY_SHA256_HEX];
    fy_sha256_to_hex(j->key, key);
    fy_str_printf(out, "work %s\npart %u of %u\n", key, i, j->parts->part.n);
    for (size_t f = 0; f < j->w->n_files; f++)
        fy_str_printf(out, "file %s\n", j->ids[f]);
}

/* A part is on the disk before its journal says that all of it is. Others may be at work: its files
 * stay, whatever happens. */
static int end_part(fy_write_job *j, fy_err *e)
{
    return fy_write_job_mark(j, j->end - j->begin, 0, e);
}

void fy_write_job_leave_part(fy_write_job *j)
{
    for (size_t f = 0; j->out != NULL && f < j->w->n_files; f++)
        fy_out_leave(j->out[f]);
    fy_out_leave(j->own);
}

int fy_write_job_part(fy_write_job *j, const char *path, fy_pool *pool, fy_err *e)
{
    cut(j, j->parts->part.i);
    if (j->progress != NULL)
        j->progress->total_bytes = fy_write_job_bytes_of(j, j->end - j->begin);
    if (fy_write_job_open_files(j, path, e) != 0 || open_own(j, path, e) != 0 ||
        fy_write_job_resume(j, j->parts->identity, e) != 0)
        return -1;
    j->w->written = true;
    fy_writer_free_keys(j->w);
    return fy_write_job_run_pieces(j, pool, e) != 0 || fy_check_interrupt(e) != 0 ? -1
                                                                                  : end_part(j, e);
}

/* --- the end of all parts ----------------------------------------------------------------------
 */

/* Is file f there under its name, with the header that it has to have? */
static bool is_named(const fy_write_job *j, size_t f, const char *name)
{
    fy_str header = {0};
    fy_map m;
    if (fy_map_open(&m, name, NULL) != 0)
        return false;
    const bool same =
        fy_writer_emit_header(j->w, f, &(fy_writer_sink){.text = &header}, NULL) == 0 &&
        m.size == fy_writer_file_bytes(j->w, f) && memcmp(m.data, header.ptr, header.len) == 0;
    fy_map_close(&m);
    fy_str_release(&header);
    return same;
}

/* Opens the files that have no name yet, *left of them. *begun: all parts were found right once,
 * and what ended the work was interrupted: a file was cut to its size, or all have their names. */
static int open_made(fy_write_job *j, const char *path, bool *begun, size_t *left, fy_err *e)
{
    *begun = false;
    *left = 0;
    if (fy_write_job_take_files(j, e) != 0)
        return -1;
    for (size_t f = 0; f < j->w->n_files; f++) {
        char *name = fy_gguf_split_name(path, (uint32_t)f, (uint32_t)j->w->n_files);
        fy_err why = {0};
        if (name == NULL)
            return fy_nomem(e);
        j->out[f] =
            fy_out_open_shared(name, fy_writer_file_bytes(j->w, f), j->key, false, j->ids[f], &why);
        const bool named = j->out[f] == NULL && is_named(j, f, name);
        free(name);
        if (j->out[f] == NULL && !named)
            return fy_fail(e, why.code == FY_EIO ? FY_EVERIFY : why.code,
                           "%s; parts make it: '%s --part 1/%u' and so on", why.msg,
                           j->parts->command, j->parts->part.n);
        *begun = *begun || (!named && j->ids[f][0] == '\0');
        *left += !named;
    }
    *begun = *begun || *left == 0;
    return 0;
}

/* Is part i done? 0; 1 with why. */
static int check_part(fy_write_job *j, const char *path, uint32_t i, fy_str *why, fy_err *e)
{
    char *name = part_name(path, (fy_job_part){i, j->parts->part.n});
    fy_str text = {0}, bytes = {0};
    fy_journal old;
    fy_str_clear(why);
    fy_str_printf(&text, "%s.part", name != NULL ? name : "");
    const bool there = name != NULL && !text.oom && fy_file_exists(fy_str_z(&text));
    fy_out *own = there ? fy_out_open_kept(name, e) : NULL;
    int rc = own != NULL ? fy_journal_read(&old, own, &bytes, e) : there || name == NULL ? -1 : 1;
    fy_str_clear(&text);
    fy_write_job_put_part(j, i, &text);
    const fy_span is = {text.ptr, text.len};
    cut(j, i);
    if (rc == 1) {
        fy_str_puts(why, there ? "has done nothing" : "is not there");
    } else if (rc == 0 && !fy_span_eq(old.identity, is)) {
        fy_str_puts(why, "is of other work: ");
        fy_journal_difference(old.identity, is, why);
        rc = 1;
    } else if (rc == 0 && old.done != j->end - j->begin) {
        fy_str_printf(why, "has %.0f %% of its bytes",
                      100.0 * (double)fy_write_job_bytes_of(j, old.done) /
                          (double)fy_write_job_bytes_of(j, j->end - j->begin));
        rc = 1;
    }
    fy_out_leave(own);
    fy_str_release(&text);
    fy_str_release(&bytes);
    free(name);
    return rc;
}

static int check_parts(fy_write_job *j, const char *path, fy_err *e)
{
    fy_str missing = {0}, why = {0};
    uint32_t n_missing = 0;
    int rc = 0;
    for (uint32_t i = 1; i <= j->parts->part.n && rc >= 0; i++) {
        rc = fy_check_interrupt(e) != 0 ? -1 : check_part(j, path, i, &why, e);
        if (rc == 1 && n_missing++ == 0)
            fy_str_printf(&missing, "part %u %s: make it with '%s --part %u/%u'", i, fy_str_z(&why),
                          j->parts->command, i, j->parts->part.n);
    }
    if (rc >= 0 && n_missing > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %u of %u parts are missing; %s", path, n_missing,
                     j->parts->part.n, fy_str_z(&missing));
    fy_str_release(&missing);
    fy_str_release(&why);
    return rc >= 0 ? 0 : -1;
}

static void remove_journals(const fy_write_job *j, const char *path)
{
    fy_str s = {0};
    for (size_t f = 0; f < j->w->n_files; f++) {
        char *name = fy_gguf_split_name(path, (uint32_t)f, (uint32_t)j->w->n_files);
        if (name != NULL)
            fy_out_remove_unlinked(name);
        free(name);
    }
    for (uint32_t i = 1; i <= j->parts->part.n; i++) {
        fy_str_clear(&s);
        fy_str_printf(&s, "%s.%u-of-%u.part", path, i, j->parts->part.n);
        unlink(fy_str_z(&s));
    }
    fy_str_release(&s);
}

static int finish_all(fy_write_job *j, const char *path, fy_err *e)
{
    bool begun;
    size_t left;
    if (fy_write_job_plan_pieces(j, 1, e) != 0 || open_made(j, path, &begun, &left, e) != 0 ||
        (!begun && check_parts(j, path, e) != 0))
        return -1;
    for (size_t f = 0; f < j->w->n_files; f++) {
        if (j->out[f] != NULL &&
            (fy_writer_emit_header(j->w, f, &(fy_writer_sink){.out = j->out[f]}, e) != 0 ||
             fy_out_resize(j->out[f], fy_writer_file_bytes(j->w, f), e) != 0))
            return -1;
    }
    if (left > 0 && (fy_check_interrupt(e) != 0 || fy_write_job_commit(j, e) != 0))
        return -1;
    remove_journals(j, path);
    return 0;
}

int fy_gguf_parts_work(fy_gguf_writer *w, const fy_gguf_parts *parts, uint64_t *work, fy_err *e)
{
    fy_write_job j = {.w = w, .parts = parts};
    const int rc = fy_write_job_plan_pieces(&j, 1, e);
    for (uint32_t i = 1; rc == 0 && i <= parts->part.n; i++) {
        cut(&j, i);
        work[i - 1] = work_before(&j, j.end) - work_before(&j, j.begin);
    }
    fy_write_job_release(&j);
    return rc;
}

int fy_gguf_write_finish(fy_gguf_writer *w, const char *path, const fy_gguf_parts *parts, fy_err *e)
{
    fy_write_job j = {.w = w,
                      .parts = parts,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .wake = PTHREAD_COND_INITIALIZER};
    if (fy_writer_check_open(w, path, e) != 0)
        return -1;
    const int rc = finish_all(&j, path, e);
    fy_write_job_leave_part(&j);
    fy_write_job_release(&j);
    return rc;
}
