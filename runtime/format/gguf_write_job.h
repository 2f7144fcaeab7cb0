/* The work of writing a GGUF file, between gguf_write_file.c, which does it, and gguf_write_part.c,
 * which cuts it into parts. */
#ifndef FY_FORMAT_GGUF_WRITE_JOB_H
#define FY_FORMAT_GGUF_WRITE_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "format/gguf_impl.h"
#include "format/write_journal.h"

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
    uint64_t begin, end;  /* pieces of this process */
    uint64_t next_piece;
    uint64_t *busy; /* owned: the piece that each lane writes now, or NO_PIECE */
    fy_err err;     /* the first failure of any thread */
    atomic_bool stop;
    bool kept;                    /* another process may resume: there is a journal */
    const fy_gguf_parts *parts;   /* NULL: the output is written whole */
    fy_out *own;                  /* owned: of a part, the file of its journal */
    char (*ids)[FY_OUT_ID_HEX];   /* owned: of parts, of each file */
    uint8_t key[FY_SHA256_BYTES]; /* of the work that is cut into parts */
    fy_journal journal;
    pthread_cond_t wake;
    bool finished; /* ends the thread of the journal */
} fy_write_job;

/* --- gguf_write_file.c --- */

uint64_t fy_write_job_row_bytes(const fy_gguf_tensor *t);
uint64_t fy_write_job_rows_per_piece(const fy_gguf_tensor *t);
uint64_t fy_write_job_n_rows(const fy_gguf_tensor *t);
/* Cuts the tensors into pieces and allocates the buffers. */
int fy_write_job_plan_pieces(fy_write_job *j, int n_threads, fy_err *e);
/* Bytes of its first n pieces. */
uint64_t fy_write_job_bytes_of(const fy_write_job *j, uint64_t n);
/* Arrays for the files, which are not opened yet; then those, with the names that `path` gives. */
int fy_write_job_take_files(fy_write_job *j, fy_err *e);
int fy_write_job_open_files(fy_write_job *j, const char *path, fy_err *e);
int fy_write_job_resume(fy_write_job *j, fy_span given, fy_err *e);
int fy_write_job_run_pieces(fy_write_job *j, fy_pool *pool, fy_err *e);
/* First the data, then the mark that `done` pieces are there. most_ms: as of fy_out_sync. */
int fy_write_job_mark(fy_write_job *j, uint64_t done, int most_ms, fy_err *e);
int fy_write_job_commit(fy_write_job *j, fy_err *e);
void fy_write_job_release(fy_write_job *j);

/* --- gguf_write_part.c --- */

/* The key of the work that is cut into parts. */
int fy_write_job_key(fy_write_job *j, fy_err *e);
/* What the journal of part i is of: the work, the part, and the files that it writes, as lines. */
void fy_write_job_put_part(const fy_write_job *j, uint32_t i, fy_str *out);
int fy_write_job_part(fy_write_job *j, const char *path, fy_pool *pool, fy_err *e);
/* Others may be at work: the files stay, whatever happens. */
void fy_write_job_leave_part(fy_write_job *j);

#endif
