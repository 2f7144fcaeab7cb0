/* The writing half of the GGUF writer: the header, then pieces of rows that threads fill and put
 * where they belong; and, for outputs that another process may resume, the journal. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/math.h"
#include "format/gguf.h"
#include "format/gguf_impl.h"
#include "format/write_journal.h"

#define PIECE_BYTES      (1u << 20)  /* output that one thread fills at a time */
#define BUFFERS_BYTES    (24u << 20) /* of all threads together, unless a single row is larger */
#define BUFFER_ALIGNMENT 64
#define MARK_MS          250 /* between two marks of the journal: what a power cut may cost */
#define LEAVE_MS         100 /* for a last mark of what was interrupted */
#define NO_PIECE         UINT64_MAX

/* --- sizes and header ------------------------------------------------------------------------- */

enum { HEADER_BYTES = 4 + 4 + 8 + 8 };

static void add_key(fy_str *s, const char *key, fy_kv_type type, const void *v)
{
    const uint64_t len = strlen(key);
    const uint32_t t = (uint32_t)type;
    fy_str_add(s, &len, sizeof len);
    fy_str_add(s, key, len);
    fy_str_add(s, &t, sizeof t);
    fy_str_add(s, v, fy_kv_type_bytes(type));
}

/* The keys that each file of a split model has of its own; returns how many. */
static uint64_t add_own_keys(const fy_gguf_writer *w, size_t file, fy_str *s)
{
    const uint16_t no = (uint16_t)file, count = (uint16_t)w->n_files;
    const int32_t n_tensors = (int32_t)w->n_tensors;
    const uint32_t alignment = (uint32_t)w->alignment;
    uint64_t n = 3;
    if (w->n_files == 1)
        return 0;
    if (file > 0 && alignment != FY_GGUF_ALIGNMENT) { /* the first one has the caller's */
        add_key(s, FY_KEY_ALIGNMENT, FY_KV_U32, &alignment);
        n++;
    }
    add_key(s, FY_KEY_SPLIT_NO, FY_KV_U16, &no);
    add_key(s, FY_KEY_SPLIT_COUNT, FY_KV_U16, &count);
    add_key(s, FY_KEY_SPLIT_TENSORS, FY_KV_I32, &n_tensors);
    return n;
}

static uint64_t data_begin(const fy_gguf_writer *w, size_t file)
{
    fy_str own = {0};
    add_own_keys(w, file, &own);
    uint64_t n = HEADER_BYTES + own.len + (file == 0 ? w->kv_bytes : 0) + w->files[file].info_bytes;
    fy_str_release(&own); /* out of memory is reported when the header is written */
    fy_align_u64(n, w->alignment, &n);
    return n;
}

static uint64_t file_bytes(const fy_gguf_writer *w, size_t file)
{
    return data_begin(w, file) + w->files[file].data_bytes;
}

uint64_t fy_gguf_writer_file_bytes(const fy_gguf_writer *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->n_files; i++)
        sum += file_bytes(w, i);
    return sum;
}

uint32_t fy_gguf_writer_n_files(const fy_gguf_writer *w)
{
    return (uint32_t)w->n_files;
}

/* Where the bytes of a header go: a file, a hash, or memory. */
typedef struct {
    fy_out *out;
    uint64_t at;
    fy_sha256 *hash;
    fy_str *text;
} sink;

static int emit(sink *s, const void *p, size_t n, fy_err *e)
{
    if (n == 0)
        return 0;
    if (s->hash != NULL)
        return fy_sha256_add(s->hash, p, n, e);
    if (s->text != NULL) {
        fy_str_add(s->text, p, n);
        return s->text->oom ? fy_nomem(e) : 0;
    }
    if (fy_out_pwrite(s->out, p, n, s->at, e) != 0)
        return -1;
    s->at += n;
    return 0;
}

static void add_info(fy_str *s, const fy_gguf_tensor *t)
{
    uint64_t len = t->name.len;
    uint32_t type = (uint32_t)t->type;
    fy_str_add(s, &len, sizeof len);
    fy_str_add(s, t->name.ptr, t->name.len);
    fy_str_add(s, &t->n_dims, sizeof t->n_dims);
    fy_str_add(s, t->ne, t->n_dims * sizeof t->ne[0]);
    fy_str_add(s, &type, sizeof type);
    fy_str_add(s, &t->offset, sizeof t->offset);
}

static int emit_header(const fy_gguf_writer *w, size_t file, sink *to, fy_err *e)
{
    const fy_writer_file *f = &w->files[file];
    fy_str rest = {0};
    uint8_t head[HEADER_BYTES] = "GGUF";
    const uint64_t n_tensors = f->n,
                   n_kv = (file == 0 ? w->n_kv : 0) + add_own_keys(w, file, &rest);
    memcpy(head + 4, &(uint32_t){3}, 4);
    memcpy(head + 8, &n_tensors, 8);
    memcpy(head + 16, &n_kv, 8);
    int rc = emit(to, head, sizeof head, e);
    for (const fy_writer_keys *k = w->first; rc == 0 && file == 0 && k != NULL; k = k->next)
        rc = emit(to, k->data, k->used, e);
    for (size_t i = 0; i < f->n; i++)
        add_info(&rest, w->tensor[f->first + i]);
    if (rc == 0)
        rc = rest.oom ? fy_nomem(e) : emit(to, rest.ptr, rest.len, e);
    fy_str_release(&rest);
    return rc;
}

int fy_gguf_writer_header(const fy_gguf_writer *w, fy_str *out, fy_err *e)
{
    return fy_writer_check_open(w, "header", e) ? -1 : emit_header(w, 0, &(sink){.text = out}, e);
}

/* --- pieces ----------------------------------------------------------------------------------- */

typedef struct {
    fy_gguf_writer *w;
    fy_out **out;         /* owned: one per file; NULL once it is committed */
    uint64_t *data_begin; /* owned: of each file */
    fy_gguf_fill *fill;
    void *user;
    fy_progress *progress;
    uint64_t *first_piece; /* owned: [n_tensors + 1], number of the first piece of each tensor */
    uint8_t *buffers;      /* owned: one per lane */
    size_t buffer_bytes;
    int n_lanes;
    pthread_mutex_t lock; /* guards next_piece, busy, err, finished */
    uint64_t next_piece;
    uint64_t *busy; /* owned: the piece that each lane writes now, or NO_PIECE */
    fy_err err;     /* the first failure of any thread */
    atomic_bool stop;
    bool kept; /* another process may resume: there is a journal */
    fy_journal journal;
    pthread_cond_t wake;
    bool finished; /* ends the thread of the journal */
} job;

static uint64_t row_bytes(const fy_gguf_tensor *t)
{
    return fy_type_row_bytes(t->type, t->ne[0]);
}

static uint64_t rows_per_piece(const fy_gguf_tensor *t)
{
    uint64_t n = PIECE_BYTES / row_bytes(t);
    return n > 0 ? n : 1;
}

static uint64_t n_rows(const fy_gguf_tensor *t)
{
    return t->bytes / row_bytes(t);
}

static uint64_t n_pieces(const job *j)
{
    return j->first_piece[j->w->n_tensors];
}

static size_t tensor_of(const job *j, uint64_t piece)
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
static uint64_t bytes_before(const job *j, uint64_t piece)
{
    if (piece >= n_pieces(j))
        return j->w->data_bytes;
    const size_t i = tensor_of(j, piece);
    const fy_gguf_tensor *t = j->w->tensor[i];
    uint64_t n = t->offset + (piece - j->first_piece[i]) * rows_per_piece(t) * row_bytes(t);
    for (size_t f = 0; f < t->file; f++)
        n += j->w->files[f].data_bytes;
    return n;
}

static int write_piece(job *j, uint64_t piece, uint8_t *buffer, int thread, fy_err *e)
{
    const size_t i = tensor_of(j, piece);
    const fy_gguf_tensor *t = j->w->tensor[i];
    uint64_t row = (piece - j->first_piece[i]) * rows_per_piece(t);
    uint64_t n = n_rows(t) - row;
    if (n > rows_per_piece(t))
        n = rows_per_piece(t);
    const uint64_t at = row * row_bytes(t), bytes = n * row_bytes(t),
                   to = j->data_begin[t->file] + t->offset + at;
    uint64_t end = t->bytes;
    if (j->fill(j->user, (int64_t)i, row, n, buffer, thread, e) != 0 ||
        fy_out_pwrite(j->out[t->file], buffer, (size_t)bytes, to, e) != 0)
        return -1;
    fy_out_begin_sync(j->out[t->file], to, bytes);
    fy_align_u64(end, j->w->alignment, &end);
    /* The padding after the last row is zero already, since the file was reserved. */
    fy_progress_add(j->progress, row + n == n_rows(t) ? end - at : bytes);
    return 0;
}

static void fail(job *j, const fy_err *e)
{
    pthread_mutex_lock(&j->lock);
    if (j->err.code == FY_OK)
        j->err = *e;
    pthread_mutex_unlock(&j->lock);
    atomic_store(&j->stop, true);
}

/* The next piece of a lane that has written the one before, or NO_PIECE. */
static uint64_t take_piece(job *j, int64_t lane)
{
    pthread_mutex_lock(&j->lock);
    const bool more = !atomic_load(&j->stop) && j->next_piece < n_pieces(j);
    const uint64_t piece = more ? j->next_piece++ : NO_PIECE;
    j->busy[lane] = piece;
    pthread_mutex_unlock(&j->lock);
    return piece;
}

/* A lane is a buffer and the thread that works with it: there may be fewer lanes than threads when
 * rows are long. One that fails stays busy with its piece. */
static void run_lanes(void *ctx, int64_t begin, int64_t end, int thread)
{
    job *j = ctx;
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
static int plan_pieces(job *j, int n_threads, fy_err *e)
{
    const fy_gguf_writer *w = j->w;
    j->first_piece = malloc((w->n_tensors + 1) * sizeof *j->first_piece);
    if (j->first_piece == NULL)
        return fy_nomem(e);
    uint64_t n = 0, largest = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const fy_gguf_tensor *t = w->tensor[i];
        j->first_piece[i] = n;
        n += (n_rows(t) - 1) / rows_per_piece(t) + 1;
        uint64_t bytes =
            rows_per_piece(t) < n_rows(t) ? rows_per_piece(t) * row_bytes(t) : t->bytes;
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

/* Pieces from the first on without a gap. */
static uint64_t n_done(const job *j)
{
    uint64_t n = j->next_piece;
    for (int lane = 0; lane < j->n_lanes; lane++)
        n = j->busy[lane] < n ? j->busy[lane] : n;
    return n;
}

/* First the data, then the mark that it is there. */
static int mark(job *j, uint64_t done, int most_ms, fy_err *e)
{
    if (done <= j->journal.done)
        return 0;
    const uint32_t first = j->w->tensor[tensor_of(j, j->journal.done)]->file,
                   last = j->w->tensor[tensor_of(j, done - 1)]->file;
    for (uint32_t f = first; f <= last; f++) {
        if (fy_out_sync(j->out[f], most_ms, e) != 0)
            return -1;
    }
    return fy_journal_mark(&j->journal, j->out[0], done, e);
}

/* A thread of its own, so that no lane waits for the disk. The system reports a disk error once, so
 * one that this thread gets must end the job. */
static void *keep_journal(void *ctx)
{
    job *j = ctx;
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
        if (mark(j, done, 0, &e) != 0)
            fail(j, &e);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* SHA-256 of the headers and of how they are cut into pieces, as a line. */
static int add_plan(const fy_gguf_writer *w, fy_str *s, fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    sink to = {.hash = fy_sha256_new(e)};
    if (to.hash == NULL)
        return -1;
    for (size_t f = 0; f < w->n_files; f++) {
        if (emit_header(w, f, &to, e) != 0) {
            fy_sha256_end(to.hash, NULL, NULL);
            return -1;
        }
    }
    if (fy_sha256_end(to.hash, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(s, "keys and tensors: sha256 %s, pieces of %u bytes\n", hex, PIECE_BYTES);
    return 0;
}

static bool sizes_fit(const job *j)
{
    uint64_t size;
    for (size_t f = 1; f < j->w->n_files; f++) {
        if (fy_out_size(j->out[f], &size, NULL) != 0 || size != file_bytes(j->w, f))
            return false;
    }
    return true;
}

static int begin_kept(job *j, fy_span identity, uint64_t at, fy_err *e)
{
    for (size_t f = 1; f < j->w->n_files; f++) {
        if (fy_out_resize(j->out[f], 0, e) != 0 ||
            fy_out_resize(j->out[f], file_bytes(j->w, f), e) != 0)
            return -1;
    }
    return fy_journal_begin(&j->journal, j->out[0], at, identity, e);
}

/* Resumes what is there, if it has the same identity and plan. */
static int resume(job *j, fy_span given, fy_err *e)
{
    const char *part = fy_out_part(j->out[0]);
    fy_str identity = {0}, bytes = {0}, why = {0};
    fy_journal old;
    uint64_t at = file_bytes(j->w, 0);
    fy_align_u64(at, FY_JOURNAL_SLOT_BYTES, &at);
    fy_str_add(&identity, given.ptr, given.len);
    int rc = add_plan(j->w, &identity, e);
    if (rc == 0 && identity.oom)
        rc = fy_nomem(e);
    const int found = rc == 0 ? fy_journal_read(&old, j->out[0], &bytes, e) : -1;
    if (found < 0)
        goto out;
    const fy_span now = {identity.ptr, identity.len};
    const bool same = found == 0 && fy_span_eq(old.identity, now);
    if (same && old.at == at && old.done > 0 && old.done <= n_pieces(j) && sizes_fit(j)) {
        const uint64_t there = bytes_before(j, old.done);
        fy_log(FY_LOG_INFO, "resuming %s: %.0f %% of it is there", part,
               100.0 * (double)there / (double)j->w->data_bytes);
        j->journal = old;
        j->journal.identity = (fy_span){0};
        j->next_piece = old.done;
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

static int run_pieces(job *j, fy_pool *pool, fy_err *e)
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

static int open_files(job *j, const char *path, fy_err *e)
{
    const size_t n = j->w->n_files;
    j->out = calloc(n, sizeof *j->out);
    j->data_begin = malloc(n * sizeof *j->data_begin);
    if (j->out == NULL || j->data_begin == NULL)
        return fy_nomem(e);
    for (size_t f = 0; f < n; f++) {
        char *name = fy_gguf_split_name(path, (uint32_t)f, (uint32_t)n);
        j->data_begin[f] = data_begin(j->w, f);
        if (name == NULL)
            return fy_nomem(e);
        j->out[f] = j->kept ? fy_out_open_kept(name, e) : fy_out_open(name, file_bytes(j->w, f), e);
        free(name);
        if (j->out[f] == NULL)
            return -1;
    }
    return 0;
}

/* All files are on the disk before any gets its name, and the first one, which readers open, gets
 * its name last: a model is there as a whole or not at all. */
static int commit(job *j, fy_err *e)
{
    const size_t n = j->w->n_files;
    for (size_t f = 0; f < n; f++) {
        if (fy_out_sync(j->out[f], 0, e) != 0)
            return -1;
    }
    if (j->kept && fy_out_resize(j->out[0], file_bytes(j->w, 0), e) != 0)
        return -1;
    for (size_t f = n; f-- > 0;) {
        fy_out *out = j->out[f];
        j->out[f] = NULL;
        if (fy_out_finish(out, e) != 0)
            return -1;
    }
    return 0;
}

/* Leaves what was done for another process, unless that is nothing: up to the last mark if the disk
 * is too slow for one more. */
static bool leave(job *j, fy_err *e)
{
    if (!j->kept || e->code != FY_EINTR)
        return false;
    mark(j, n_done(j), LEAVE_MS, NULL);
    const uint64_t done = j->journal.done;
    if (done == 0)
        return false;
    *e = (fy_err){0};
    fy_fail(
        e, FY_EINTR, "interrupted: %s keeps the %.0f %% that are done; the same command resumes",
        fy_out_part(j->out[0]), 100.0 * (double)bytes_before(j, done) / (double)j->w->data_bytes);
    for (size_t f = 0; f < j->w->n_files; f++)
        fy_out_leave(j->out[f]);
    return true;
}

static int write_all(job *j, const char *path, fy_span identity, fy_pool *pool, fy_err *e)
{
    fy_gguf_writer *w = j->w;
    if (plan_pieces(j, pool != NULL ? fy_pool_threads(pool) : 1, e) != 0 ||
        open_files(j, path, e) != 0 || (j->kept && resume(j, identity, e) != 0))
        return -1;
    w->written = true;
    for (size_t f = 0; f < w->n_files; f++) {
        if (emit_header(w, f, &(sink){.out = j->out[f]}, e) != 0)
            return -1;
        fy_progress_add(j->progress, j->data_begin[f]);
    }
    fy_writer_free_keys(w); /* the largest thing in memory during a conversion */
    if (w->n_tensors > 0 && run_pieces(j, pool, e) != 0)
        return -1;
    return fy_check_interrupt(e) != 0 ? -1 : commit(j, e);
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

static int write_as(fy_gguf_writer *w, const char *path, bool kept, fy_span identity,
                    fy_gguf_fill *fill, void *user, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    fy_err local = {0};
    if (check(w, path, fill, e) != 0)
        return -1;
    job j = {.w = w,
             .fill = fill,
             .user = user,
             .progress = progress,
             .lock = PTHREAD_MUTEX_INITIALIZER,
             .wake = PTHREAD_COND_INITIALIZER,
             .kept = kept && w->n_tensors > 0};
    const int rc = write_all(&j, path, identity, pool, &local);
    if (rc != 0 && !leave(&j, &local)) {
        for (size_t f = 0; j.out != NULL && f < w->n_files; f++)
            fy_out_abort(j.out[f]);
    }
    free(j.out);
    free(j.data_begin);
    free(j.first_piece);
    free(j.busy);
    free(j.buffers);
    pthread_cond_destroy(&j.wake);
    pthread_mutex_destroy(&j.lock);
    return rc == 0 ? 0 : fy_fail(e, local.code, "%s", local.msg);
}

int fy_gguf_write(fy_gguf_writer *w, const char *path, fy_gguf_fill *fill, void *user,
                  fy_pool *pool, fy_progress *progress, fy_err *e)
{
    return write_as(w, path, false, (fy_span){0}, fill, user, pool, progress, e);
}

int fy_gguf_write_resumed(fy_gguf_writer *w, const char *path, fy_span identity, fy_gguf_fill *fill,
                          void *user, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    return write_as(w, path, true, identity, fill, user, pool, progress, e);
}
