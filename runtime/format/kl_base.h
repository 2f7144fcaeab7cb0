/* What a model predicts at every scored position of a text, in a file: the base that another model
 * is compared with (docs/quality.md). Numbers are little-endian; the format is ours, version 1:
 *
 *     "FERRYKLB"  u32 version  u32 method  u32 n_ctx  u32 n_vocab  u64 n_rows
 *     SHA-256 of the vocabulary, SHA-256 of the text                          = 96 bytes
 *     n_rows times: i32 id of the token that follows, f32 its ln p, f32 range, n_vocab u16 codes
 *     SHA-256 of the rows, then of the 96 bytes
 *
 * A code gives how far a logit lies below the largest one: range * (code / 65535)^2, range being
 * the farthest. Likely tokens, which the divergence is made of, thus have fine steps: the error is
 * at most sqrt(distance * range) / 65535, and nothing is cut off. Code 0 is the largest logit and
 * its equals to 1e-10 of the range.
 *
 * A writer streams through fy_out: no file of the final name before it is whole. A reader checks
 * sizes when it opens, each row as it is read, and the hash at the end; do not show results before
 * fy_kl_end succeeds. Memory: a buffer of a row each. */
#ifndef FY_FORMAT_KL_BASE_H
#define FY_FORMAT_KL_BASE_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

#define FY_KL_HEAD_BYTES 96

typedef struct {
    uint32_t method, n_ctx; /* how the text was cut: for equality alone */
    uint32_t n_vocab;       /* logits of a row, at least 1 */
    uint64_t n_rows;        /* positions */
    uint8_t vocab_hash[FY_SHA256_BYTES], text_hash[FY_SHA256_BYTES];
} fy_kl_head;

typedef struct {
    int32_t id;    /* of the token that follows */
    float logprob; /* its ln p as the model gave it, not from the codes */
} fy_kl_token;

typedef struct fy_kl_writer fy_kl_writer;
/* Begins <path>.part. head->n_rows is counted and need not be known. NULL on failure. */
fy_kl_writer *fy_kl_create(const char *path, const fy_kl_head *head, fy_err *e);
/* FY_EFORMAT for a logit that is not finite. */
int fy_kl_add(fy_kl_writer *w, const float *logits, fy_kl_token next, fy_err *e);
/* A row as bytes, appended to *out, for a writer in another process. position: for messages. */
int fy_kl_put_row(const float *logits, uint32_t n_vocab, fy_kl_token next, uint64_t position,
                  fy_str *out, fy_err *e);
int fy_kl_add_row(fy_kl_writer *w, fy_span row, fy_err *e); /* FY_EFORMAT: of another length */
/* Gives the file its name; frees w in every case. *bytes: its size; may be NULL. */
int fy_kl_commit(fy_kl_writer *w, uint64_t *bytes, fy_err *e);
void fy_kl_abort(fy_kl_writer *w); /* NULL is fine */

typedef struct fy_kl_reader fy_kl_reader;
fy_kl_reader *fy_kl_open(const char *path, fy_err *e);
/* Of p[0..n), which outlives the reader. */
fy_kl_reader *fy_kl_parse(const void *p, size_t n, fy_err *e);
void fy_kl_close(fy_kl_reader *r); /* NULL is fine */
const fy_kl_head *fy_kl_head_of(const fy_kl_reader *r);
/* The next row: below[n_vocab], how far each logit lies below the largest one. FY_EARG after the
 * last one. */
int fy_kl_next(fy_kl_reader *r, fy_kl_token *next, float *below, fy_err *e);
/* Goes on at that row. After it fy_kl_end cannot tell. */
int fy_kl_seek(fy_kl_reader *r, uint64_t row, fy_err *e);
/* After the last row: is the file what was written? */
int fy_kl_end(fy_kl_reader *r, fy_err *e);
/* The same of a reader that has read nothing: passes over all rows. */
int fy_kl_check(fy_kl_reader *r, fy_err *e);

#endif
