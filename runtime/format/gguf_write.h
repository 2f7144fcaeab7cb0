/* GGUF v3 writer: first the plan (keys and tensors, in the order they will have), then one
 * streaming pass.
 *
 * fy_gguf_writer_new -> add keys -> add tensors -> fy_gguf_write. The file appears under its final
 * name only when it is whole (base/file.h). Same keys, tensors and contents give the same bytes for
 * any thread count, and whether it was interrupted on the way or not. Key order is the caller's.
 * Memory: the header, plus threads x piece size during the write.
 *
 * The tensors may be split over several files; of those, the first one has its name
 * last, so that what a reader finds is whole. */
#ifndef FY_FORMAT_GGUF_WRITE_H
#define FY_FORMAT_GGUF_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/job_part.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/types.h"
#include "format/gguf.h"

typedef struct fy_gguf_writer fy_gguf_writer;

fy_gguf_writer *fy_gguf_writer_new(fy_err *e);
void fy_gguf_writer_free(fy_gguf_writer *w); /* NULL is fine */
/* The file begins as PowerInfer's do (format/gguf.h). */
void fy_gguf_writer_powerinfer(fy_gguf_writer *w);

/* Keys: copied. A duplicate or malformed key is FY_EARG. */
int fy_gguf_add_u32(fy_gguf_writer *w, const char *key, uint32_t v, fy_err *e);
int fy_gguf_add_i32(fy_gguf_writer *w, const char *key, int32_t v, fy_err *e);
int fy_gguf_add_f32(fy_gguf_writer *w, const char *key, float v, fy_err *e);
int fy_gguf_add_bool(fy_gguf_writer *w, const char *key, bool v, fy_err *e);
int fy_gguf_add_str(fy_gguf_writer *w, const char *key, fy_span v, fy_err *e);
/* Packed elements of a fixed-size type (u8..f64, bool). */
int fy_gguf_add_array(fy_gguf_writer *w, const char *key, fy_kv_type elem, const void *p,
                      uint64_t n, fy_err *e);
/* An array of strings, built one by one: begin, n times add, end. No other key may be added in
 * between. */
int fy_gguf_begin_strings(fy_gguf_writer *w, const char *key, fy_err *e);
int fy_gguf_add_string(fy_gguf_writer *w, fy_span v, fy_err *e);
int fy_gguf_end_strings(fy_gguf_writer *w, fy_err *e);
/* A key as it stands in another file. */
int fy_gguf_add_kv(fy_gguf_writer *w, const fy_gguf_kv *kv, fy_err *e);

/* A tensor; returns its index, or -1. ne[0] is the row length; trailing 1s are kept as given. */
int64_t fy_gguf_add_tensor(fy_gguf_writer *w, const char *name, fy_type type, uint32_t n_dims,
                           const uint64_t *ne, fy_err *e);

/* Begin another file where the tensors of one would have more than so many bytes (0: never). Before
 * the first tensor. */
int fy_gguf_writer_split(fy_gguf_writer *w, uint64_t bytes, fy_err *e);

/* Shape and place of tensor i, after it was added (offset from the start of the data section). */
const fy_gguf_tensor *fy_gguf_writer_tensor(const fy_gguf_writer *w, int64_t i);
uint64_t fy_gguf_writer_file_bytes(const fy_gguf_writer *w); /* of all finished files */
uint32_t fy_gguf_writer_n_files(const fy_gguf_writer *w);

/* FY_ENOSPACE when they do not fit on the file system of `path`; the space of an unfinished output
 * there counts as free. fy_gguf_write begins with this. */
int fy_gguf_writer_check_space(const fy_gguf_writer *w, const char *path, fy_err *e);

/* Appends what fy_gguf_write would put before the data section: fy_gguf_parse reads it with
 * header_only. Before fy_gguf_write. */
int fy_gguf_writer_header(const fy_gguf_writer *w, fy_str *out, fy_err *e);

/* Fills out (64-byte aligned) with rows [row, row + n_rows) of tensor i, encoded; a row is ne[0]
 * elements. Called from several threads at once, each with another `thread`; returns -1 with *e set
 * to stop everything. */
typedef int fy_gguf_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out,
                         int thread, fy_err *e);

/* Writes the file; one of several is `path` with its number. `fill` may be NULL when
 * there are no tensors. `pool` may be NULL (one thread). Free space is checked before the work;
 * polls fy_interrupted. Progress counts output bytes. */
int fy_gguf_write(fy_gguf_writer *w, const char *path, fy_gguf_fill *fill, void *user,
                  fy_pool *pool, fy_progress *progress, fy_err *e);

/* As fy_gguf_write, but resumes what an earlier process left: one that died, or one that ended with
 * FY_EINTR (its message reports that). `identity`: all that the tensors depend on besides the plan,
 * a line for each thing. An output with another identity or plan is started over, and the log names
 * the difference. After any other error nothing is left. */
int fy_gguf_write_resumed(fy_gguf_writer *w, const char *path, fy_span identity, fy_gguf_fill *fill,
                          void *user, fy_pool *pool, fy_progress *progress, fy_err *e);

/* Parts of one output, which processes on any machines write in any order, each its own ranges of
 * the .part file. "PATH.I-of-N.part" is the journal of part I: a part that was interrupted, killed
 * or run twice resumes. */
typedef struct {
    fy_job_part part;
    fy_span identity;           /* as of fy_gguf_write_resumed, the same on every machine */
    const uint64_t *read_bytes; /* [n_tensors] that a tensor is made from; NULL: none. Parts read
                                   and write about the same number of bytes */
    const char *command;        /* of fy_gguf_write_finish: what makes a part, without --part */
} fy_gguf_parts;
int fy_gguf_write_part(fy_gguf_writer *w, const char *path, const fy_gguf_parts *parts,
                       fy_gguf_fill *fill, void *user, fy_pool *pool, fy_progress *progress,
                       fy_err *e);
/* What each part reads and writes: work [part.n], bytes. Before it is written. */
int fy_gguf_parts_work(fy_gguf_writer *w, const fy_gguf_parts *parts, uint64_t *work, fy_err *e);
/* Gives the output its name, when all parts (part.n of them) are done, of this plan and identity;
 * FY_EVERIFY names the first that is not, and why. An output that is there already is right. */
int fy_gguf_write_finish(fy_gguf_writer *w, const char *path, const fy_gguf_parts *parts,
                         fy_err *e);

#endif
