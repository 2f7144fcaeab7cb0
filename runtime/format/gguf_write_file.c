/* The writing half of the GGUF writer: the header, then pieces of rows that threads fill and put
 * where they belong; and, for outputs that another process may resume, the journal. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/math.h"
#include "format/gguf.h"
#include "format/gguf_write_job.h"
#include "format/write_journal.h"

#define BUFFERS_BYTES    (24u << 20) /* of all threads together, unless a single row is larger */
#define BUFFER_ALIGNMENT 64
#define MARK_MS          250 /* between two marks of the journal: what a power cut may cost */
#define LEAVE_MS         100 /* for a last mark of what was interrupted */
#define NO_PIECE         UINT64_MAX

/* --- pieces ----------------------------------------------------------------------------------- */

uint64_t fy_write_job_row_bytes(const fy_gguf_tensor *t)
{
    return fy_type_row_bytes(t->type, t->ne[0]);
}

uint64_t fy_write_job_rows_per_piece(const fy_gguf_tensor *t)
{
    const uint64_t row_bytes = fy_write_job_row_bytes(t),
                   n = row_bytes > 0 ? FY_WRITER_PIECE_BYTES / row_bytes : 1;
    return n > 0 ? n : 1;
}

uint64_t fy_write_job_n_rows(const fy_gguf_tensor *t)
{
    const uint64_t row_bytes = fy_write_job_row_bytes(t);
    return row_bytes > 0 ? t->bytes / row_bytes : 1;
}

static uint64_t n_pieces(const fy_write_job *j)
{
    return j->first_piece[j->w->n_tensors];
}

static size_t tensor_of(const fy_write_job *j, uint64_t piece)
{
    size_t lo = 0, hi = j->w->n_tensors; /* first_piece[lo] <= piece < first_piece[hi] */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (j->first_piece[mid] <= piece)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Bytes of data, over all files, before a piece. */
static uint64_t bytes_before(const fy_write_job *j, uint64_t piece)
{
    if (piece >= n_pieces(j))
        return j->w->data_bytes;
    const size_t i = tensor_of(j, piece);
    const fy_gguf_tensor *t = j->w->tensor[i];
    uint64_t n = t->offset + (piece - j->first_piece[i]) * fy_write_job_rows_per_piece(t) *
                                 fy_write_job_row_bytes(t);
    for (size_t f = 0; f < t->file; f++)
        n += j->w->files[f].data_bytes;
    return n;
}

static int write_piece(fy_write_job *j, uint64_t piece, uint8_t *buffer, int thread, fy_err *e)
{
    const size_t i = tensor_of(j, piece);
    const fy_gguf_tensor *t = j->w->tensor[i];
    uint64_t row = (piece - j->first_piece[i]) * fy_write_job_rows_per_piece(t);
    uint64_t n = fy_write_job_n_rows(t) - row;
    if (n > fy_write_job_rows_per_piece(t))
        n = fy_write_job_rows_per_piece(t);
    const uint64_t at = row * fy_write_job_row_bytes(t), bytes = n * fy_write_job_row_bytes(t),
                   to = j->data_begin[t->file] + t->offset + at;
    uint64_t end = t->bytes;
    if (j->fill(j->user, (int64_t)i, row, n, buffer, thread, e) != 0 ||
        fy_out_pwrite(j->out[t->file], buffer, (size_t)bytes, to, e) != 0)
        return -1;
    fy_out_begin_sync(j->out[t->file], to, bytes);
    fy_align_u64(end, j->w->alignment, &end);
    /* The padding after the last row is zero already, since the file was reserved. */
    fy_progress_add(j->progress, row + n == fy_write_job_n_rows(t) ? end - at : bytes);
    return 0;
}

static void fail(fy_write_job *j, const fy_err *e)
{
    pthread_mutex_lock(&j->lock);
    if (j->err.code == FY_OK)
        j->err = *e;
    pthread_mutex_unlock(&j->lock);
    atomic_store(&j->stop, true);
}

/* The next piece of a lane that has written the one before, or NO_PIECE. */
static uint64_t take_piece(fy_write_job *j, int64_t lane)
{
    pthread_mutex_lock(&j->lock);
    const bool more = !atomic_load(&j->stop) && j->next_piece < j->end;
    const uint64_t piece = more ? j->next_piece++ : NO_PIECE;
    j->busy[lane] = piece;
    pthread_mutex_unlock(&j->lock);
    return piece;
}

/* A lane is a buffer and the thread that works with it: there may be fewer lanes than threads when
 * rows are long. One that fails stays busy with its piece. */
static void run_lanes(void *ctx, int64_t begin, int64_t end, int thread)
{
    fy_write_job *j = ctx;
    for (int64_t lane = begin; lane < end; lane++) {
        uint8_t *buffer = j->buffers + (size_t)lane * j->buffer_bytes;
        uint64_t piece;
        fy_err e = {0};
        while ((piece = take_piece(j, lane)) != NO_PIECE) {
            if (fy_check_interrupt(&e) != 0 || write_piece(j, piece, buffer, thread, &e) != 0) {
                fy_fail(&e, FY_EIO, "writing the tensors failed"); /* unless there is a message */
                fail(j, &e);
                break;
            }
        }
    }
}

/* Cuts the tensors into pieces and allocates the buffers. */
int fy_write_job_plan_pieces(fy_write_job *j, int n_threads, fy_err *e)
{
    const fy_gguf_writer *w = j->w;
    j->first_piece = malloc((w->n_tensors + 1) * sizeof *j->first_piece);
    if (j->first_piece == NULL)
        return fy_nomem(e);
    uint64_t n = 0, largest = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const fy_gguf_tensor *t = w->tensor[i];
        j->first_piece[i] = n;
        n += (fy_write_job_n_rows(t) - 1) / fy_write_job_rows_per_piece(t) + 1;
        uint64_t bytes = fy_write_job_rows_per_piece(t) < fy_write_job_n_rows(t)
                             ? fy_write_job_rows_per_piece(t) * fy_write_job_row_bytes(t)
                             : t->bytes;
        if (bytes > largest)
            largest = bytes;
    }
    j->first_piece[w->n_tensors] = n;
    uint64_t lanes = largest > 0 ? BUFFERS_BYTES / largest : 0;
    if (lanes > (uint64_t)n_threads)
        lanes = (uint64_t)n_threads;
    j->n_lanes = lanes > 0 ? (int)lanes : 1;
    uint64_t bytes, total;
    if (!fy_align_u64(largest, BUFFER_ALIGNMENT, &bytes) ||
        !fy_mul_u64(bytes, (uint64_t)j->n_lanes, &total) || total > SIZE_MAX / 2)
        return fy_nomem(e);
    j->buffer_bytes = (size_t)bytes;
    j->buffers = aligned_alloc(BUFFER_ALIGNMENT, total > 0 ? (size_t)total : BUFFER_ALIGNMENT);
    j->busy = malloc((size_t)j->n_lanes * sizeof *j->busy);
    if (j->buffers == NULL || j->busy == NULL)
        return fy_nomem(e);
    for (int lane = 0; lane < j->n_lanes; lane++)
        j->busy[lane] = NO_PIECE;
    return 0;
}

/* --- the journal ------------------------------------------------------------------------------ */

/* Pieces from `begin` on without a gap. */
static uint64_t n_done(const fy_write_job *j)
{
    uint64_t n = j->next_piece;
    for (int lane = 0; lane < j->n_lanes; lane++)
        n = j->busy[lane] < n ? j->busy[lane] : n;
    return n - j->begin;
}

static fy_out *journal_file(const fy_write_job *j)
{
    return j->parts != NULL ? j->own : j->out[0];
}

/* First the data, then the mark that it is there. */
int fy_write_job_mark(fy_write_job *j, uint64_t done, int most_ms, fy_err *e)
{
    if (done <= j->journal.done)
        return 0;
    const uint32_t first = j->w->tensor[tensor_of(j, j->begin + j->journal.done)]->file,
                   last = j->w->tensor[tensor_of(j, j->begin + done - 1)]->file;
    for (uint32_t f = first; f <= last; f++) {
        if (fy_out_sync(j->out[f], most_ms, e) != 0)
            return -1;
    }
    return fy_journal_mark(&j->journal, journal_file(j), done, e);
}

/* A thread of its own, so that no lane waits for the disk. The system reports a disk error once, so
 * one that this thread gets must end the job. */
static void *keep_journal(void *ctx)
{
    fy_write_job *j = ctx;
    pthread_mutex_lock(&j->lock);
    while (!j->finished) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += MARK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&j->wake, &j->lock, &until) != ETIMEDOUT)
            continue;
        const uint64_t done = n_done(j);
        pthread_mutex_unlock(&j->lock);
        fy_err e = {0};
        if (fy_write_job_mark(j, done, 0, &e) != 0)
            fail(j, &e);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static bool sizes_fit(const fy_write_job *j)
{
    uint64_t size;
    for (size_t f = 1; f < j->w->n_files; f++) {
        if (fy_out_size(j->out[f], &size, NULL) != 0 || size != fy_writer_file_bytes(j->w, f))
            return false;
    }
    return true;
}

static int begin_kept(fy_write_job *j, fy_span identity, uint64_t at, fy_err *e)
{
    for (size_t f = 1; f < j->w->n_files && j->parts == NULL; f++) {
        if (fy_out_resize(j->out[f], 0, e) != 0 ||
            fy_out_resize(j->out[f], fy_writer_file_bytes(j->w, f), e) != 0)
            return -1;
    }
    return fy_journal_begin(&j->journal, journal_file(j), at, identity, e);
}

/* Bytes of its first n pieces. */
uint64_t fy_write_job_bytes_of(const fy_write_job *j, uint64_t n)
{
    return bytes_before(j, j->begin + n) - bytes_before(j, j->begin);
}

/* All that the bytes depend on. */
static int identify(const fy_write_job *j, fy_span given, fy_str *out, fy_err *e)
{
    if (j->parts != NULL) {
        fy_write_job_put_part(j, j->parts->part.i, out);
    } else {
        fy_str_add(out, given.ptr, given.len);
        if (fy_writer_add_plan(j->w, out, e) != 0)
            return -1;
    }
    return out->oom ? fy_nomem(e) : 0;
}

/* Resumes what is there, if it has the same identity and plan. */
int fy_write_job_resume(fy_write_job *j, fy_span given, fy_err *e)
{
    fy_out *const file = journal_file(j);
    const char *part = fy_out_part(file);
    fy_str identity = {0}, bytes = {0}, why = {0};
    fy_journal old;
    uint64_t at = j->parts != NULL ? 0 : fy_writer_file_bytes(j->w, 0);
    fy_align_u64(at, FY_JOURNAL_SLOT_BYTES, &at);
    int rc = identify(j, given, &identity, e);
    const int found = rc == 0 ? fy_journal_read(&old, file, &bytes, e) : -1;
    if (found < 0)
        goto out;
    const fy_span now = {identity.ptr, identity.len};
    const bool same = found == 0 && fy_span_eq(old.identity, now);
    if (same && old.at == at && old.done > 0 && old.done <= j->end - j->begin &&
        (j->parts != NULL || sizes_fit(j))) {
        const uint64_t there = fy_write_job_bytes_of(j, old.done);
        fy_log(FY_LOG_INFO, "resuming %s: %.0f %% of it is there", part,
               100.0 * (double)there / (double)fy_write_job_bytes_of(j, j->end - j->begin));
        j->journal = old;
        j->journal.identity = (fy_span){0};
        j->next_piece = j->begin + old.done;
        if (j->progress != NULL && j->progress->total_bytes > there)
            j->progress->total_bytes -= there;
    } else {
        if (found == 0 && !same) {
            fy_journal_difference(old.identity, now, &why);
            fy_log(FY_LOG_INFO, "%s is of another conversion and is replaced: %s", part,
                   fy_str_z(&why));
        }
        rc = begin_kept(j, now, at, e);
    }
out:
    fy_str_release(&identity);
    fy_str_release(&bytes);
    fy_str_release(&why);
    return found < 0 ? -1 : rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

int fy_write_job_run_pieces(fy_write_job *j, fy_pool *pool, fy_err *e)
{
    pthread_t journal;
    if (j->kept && pthread_create(&journal, NULL, keep_journal, j) != 0)
        return fy_fail(e, FY_ENOMEM, "cannot start a thread");
    if (pool != NULL)
        fy_pool_run(pool, j->n_lanes, 1, run_lanes, j);
    else
        run_lanes(j, 0, 1, 0);
    if (j->kept) {
        pthread_mutex_lock(&j->lock);
        j->finished = true;
        pthread_cond_signal(&j->wake);
        pthread_mutex_unlock(&j->lock);
        pthread_join(journal, NULL);
    }
    return j->err.code != FY_OK ? fy_fail(e, j->err.code, "%s", j->err.msg) : 0;
}

static fy_out *open_file(fy_write_job *j, size_t f, const char *name, fy_err *e)
{
    const uint64_t bytes = fy_writer_file_bytes(j->w, f);
    if (j->parts == NULL)
        return j->kept ? fy_out_open_kept(name, e) : fy_out_open(name, bytes, e);
    fy_out *out = fy_out_open_shared(name, bytes, j->key, true, j->ids[f], e);
    if (out == NULL || j->ids[f][0] != '\0')
        return out;
    fy_fail(e, FY_EARG, "%s: all parts are done; --finish gives it its name", fy_out_part(out));
    fy_out_leave(out);
    return NULL;
}

int fy_write_job_take_files(fy_write_job *j, fy_err *e)
{
    const size_t n = j->w->n_files;
    j->out = calloc(n, sizeof *j->out);
    j->data_begin = malloc(n * sizeof *j->data_begin);
    j->ids = calloc(n, sizeof *j->ids);
    if (j->out == NULL || j->data_begin == NULL || j->ids == NULL)
        return fy_nomem(e);
    for (size_t f = 0; f < n; f++)
        j->data_begin[f] = fy_writer_data_begin(j->w, f);
    return j->parts != NULL ? fy_write_job_key(j, e) : 0;
}

int fy_write_job_open_files(fy_write_job *j, const char *path, fy_err *e)
{
    if (fy_write_job_take_files(j, e) != 0)
        return -1;
    for (size_t f = 0; f < j->w->n_files; f++) {
        char *name = fy_gguf_split_name(path, (uint32_t)f, (uint32_t)j->w->n_files);
        if (name == NULL)
            return fy_nomem(e);
        j->out[f] = open_file(j, f, name, e);
        free(name);
        if (j->out[f] == NULL)
            return -1;
    }
    return 0;
}

/* All files are on the disk before any gets its name, and the first one, which readers open, gets
 * its name last: a model is there as a whole or not at all. */
int fy_write_job_commit(fy_write_job *j, fy_err *e)
{
    const size_t n = j->w->n_files;
    for (size_t f = 0; f < n; f++) {
        if (j->out[f] != NULL && fy_out_sync(j->out[f], 0, e) != 0)
            return -1;
    }
    if (j->kept && fy_out_resize(j->out[0], fy_writer_file_bytes(j->w, 0), e) != 0)
        return -1;
    for (size_t f = n; f-- > 0;) {
        fy_out *out = j->out[f];
        j->out[f] = NULL;
        if (out != NULL && fy_out_finish(out, e) != 0)
            return -1;
    }
    return 0;
}

/* Leaves what was done for another process, unless that is nothing: up to the last mark if the disk
 * is too slow for one more. */
static bool leave(fy_write_job *j, fy_err *e)
{
    if (!j->kept || e->code != FY_EINTR)
        return false;
    fy_write_job_mark(j, n_done(j), LEAVE_MS, NULL);
    const uint64_t done = j->journal.done;
    if (done == 0)
        return false;
    *e = (fy_err){0};
    fy_fail(e, FY_EINTR,
            "interrupted: %s keeps the %.0f %% that are done; the same command resumes",
            fy_out_part(journal_file(j)),
            100.0 * (double)fy_write_job_bytes_of(j, done) /
                (double)fy_write_job_bytes_of(j, j->end - j->begin));
    for (size_t f = 0; f < j->w->n_files && j->parts == NULL; f++)
        fy_out_leave(j->out[f]);
    return true;
}

static int write_all(fy_write_job *j, const char *path, fy_span identity, fy_pool *pool, fy_err *e)
{
    fy_gguf_writer *w = j->w;
    if (fy_write_job_plan_pieces(j, pool != NULL ? fy_pool_threads(pool) : 1, e) != 0)
        return -1;
    if (j->parts != NULL)
        return fy_write_job_part(j, path, pool, e);
    j->end = n_pieces(j);
    if (fy_write_job_open_files(j, path, e) != 0 ||
        (j->kept && fy_write_job_resume(j, identity, e) != 0))
        return -1;
    w->written = true;
    for (size_t f = 0; f < w->n_files; f++) {
        if (fy_writer_emit_header(w, f, &(fy_writer_sink){.out = j->out[f]}, e) != 0)
            return -1;
        fy_progress_add(j->progress, j->data_begin[f]);
    }
    fy_writer_free_keys(w); /* the largest thing in memory during a conversion */
    if (w->n_tensors > 0 && fy_write_job_run_pieces(j, pool, e) != 0)
        return -1;
    return fy_check_interrupt(e) != 0 ? -1 : fy_write_job_commit(j, e);
}

int fy_gguf_writer_check_space(const fy_gguf_writer *w, const char *path, fy_err *e)
{
    const uint64_t need = fy_gguf_writer_file_bytes(w);
    uint64_t available;
    if (fy_file_space(path, &available, e) != 0)
        return -1;
    for (size_t f = 0; f < w->n_files; f++) {
        char *name = fy_gguf_split_name(path, (uint32_t)f, (uint32_t)w->n_files);
        if (name == NULL)
            return fy_nomem(e);
        available += fy_out_held(name);
        free(name);
    }
    if (need > available)
        return fy_fail(e, FY_ENOSPACE,
                       "%s: needs %" PRIu64 " bytes, the file system has %" PRIu64
                       " free; free some space or choose another place",
                       path, need, available);
    return 0;
}

static int check(const fy_gguf_writer *w, const char *path, fy_gguf_fill *fill, fy_err *e)
{
    if (fy_writer_check_open(w, path, e) != 0)
        return -1;
    if (fill == NULL && w->n_tensors > 0)
        return fy_fail(e, FY_EARG, "%s: %zu tensors, but nothing to fill them with", path,
                       w->n_tensors);
    if (w->n_files > FY_GGUF_MAX_FILES)
        return fy_fail(e, FY_EARG,
                       "%s: would be split into %zu files, at most %d: allow larger ones", path,
                       w->n_files, FY_GGUF_MAX_FILES);
    return fy_gguf_writer_check_space(w, path, e);
}

void fy_write_job_release(fy_write_job *j)
{
    free(j->out);
    free(j->ids);
    free(j->data_begin);
    free(j->first_piece);
    free(j->busy);
    free(j->buffers);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
}

static int write_as(fy_gguf_writer *w, const char *path, bool kept, fy_span identity,
                    const fy_gguf_parts *parts, fy_gguf_fill *fill, void *user, fy_pool *pool,
                    fy_progress *progress, fy_err *e)
{
    fy_err local = {0};
    if (check(w, path, fill, e) != 0)
        return -1;
    fy_write_job j = {.w = w,
                      .fill = fill,
                      .user = user,
                      .progress = progress,
                      .parts = parts,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .wake = PTHREAD_COND_INITIALIZER,
                      .kept = kept && w->n_tensors > 0};
    const int rc = write_all(&j, path, identity, pool, &local);
    const bool left = rc != 0 && leave(&j, &local);
    for (size_t f = 0; j.out != NULL && f < w->n_files && rc != 0 && !left && parts == NULL; f++)
        fy_out_abort(j.out[f]);
    if (parts != NULL)
        fy_write_job_leave_part(&j);
    fy_write_job_release(&j);
    return rc == 0 ? 0 : fy_fail(e, local.code, "%s", local.msg);
}

int fy_gguf_write(fy_gguf_writer *w, const char *path, fy_gguf_fill *fill, void *user,
                  fy_pool *pool, fy_progress *progress, fy_err *e)
{
    return write_as(w, path, false, (fy_span){0}, NULL, fill, user, pool, progress, e);
}

int fy_gguf_write_resumed(fy_gguf_writer *w, const char *path, fy_span identity, fy_gguf_fill *fill,
                          void *user, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    return write_as(w, path, true, identity, NULL, fill, user, pool, progress, e);
}

int fy_gguf_write_part(fy_gguf_writer *w, const char *path, const fy_gguf_parts *parts,
                       fy_gguf_fill *fill, void *user, fy_pool *pool, fy_progress *progress,
                       fy_err *e)
{
    return write_as(w, path, true, parts->identity, parts, fill, user, pool, progress, e);
}
