/* Writing and reading a saved base of distributions, one row per scored position. */
#include "format/kl_base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/math.h"

enum {
    VERSION = 1,
    ROW_HEAD = 12,
    STEPS = 65535,
    CODES = 512, /* made at once */
    ROWS_BETWEEN_DROPS = 64,
};
static const char magic[] = {'F', 'E', 'R', 'R', 'Y', 'K', 'L', 'B'};

static bool row_bytes(uint32_t n_vocab, uint64_t *out)
{
    return fy_mul_u64(n_vocab, sizeof(uint16_t), out) && fy_add_u64(*out, ROW_HEAD, out) &&
           *out <= SIZE_MAX;
}

/* --- writing -------------------------------------------------------------------------------- */

struct fy_kl_writer {
    fy_kl_head head;
    fy_out *out;     /* owned */
    fy_sha256 *hash; /* owned; of the rows so far */
    fy_str row;      /* owned */
    size_t n_row;    /* bytes */
    uint64_t at;     /* where the next row goes */
};

fy_kl_writer *fy_kl_create(const char *path, const fy_kl_head *head, fy_err *e)
{
    uint64_t bytes;
    fy_kl_writer *w = calloc(1, sizeof *w);
    if (w == NULL || head->n_vocab == 0 || !row_bytes(head->n_vocab, &bytes)) {
        free(w);
        fy_nomem(e);
        return NULL;
    }
    w->head = *head;
    w->head.n_rows = 0;
    w->n_row = (size_t)bytes;
    w->at = FY_KL_HEAD_BYTES;
    w->hash = fy_sha256_new(e);
    w->out = w->hash != NULL ? fy_out_open(path, 0, e) : NULL;
    if (w->out != NULL)
        return w;
    fy_kl_abort(w);
    return NULL;
}

void fy_kl_abort(fy_kl_writer *w)
{
    if (w == NULL)
        return;
    fy_out_abort(w->out);
    if (w->hash != NULL)
        fy_sha256_end(w->hash, NULL, NULL);
    fy_str_release(&w->row);
    free(w);
}

int fy_kl_put_row(const float *logits, uint32_t n_vocab, fy_kl_token next, uint64_t position,
                  fy_str *out, fy_err *e)
{
    float max = logits[0], min = logits[0];
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (!isfinite(logits[i]))
            return fy_fail(e, FY_EFORMAT,
                           "the model's logit of token %u at scored position %llu is not a finite "
                           "number: there is no distribution to save",
                           i, (unsigned long long)position);
        max = logits[i] > max ? logits[i] : max;
        min = logits[i] < min ? logits[i] : min;
    }
    const float range = max - min; /* as the reader will have it */
    if (!isfinite(range))
        return fy_fail(e, FY_EFORMAT,
                       "the model's logits at scored position %llu lie farther apart than a number "
                       "can hold: there is no distribution to save",
                       (unsigned long long)position);
    fy_str_add(out, &next.id, 4);
    fy_str_add(out, &next.logprob, 4);
    fy_str_add(out, &range, 4);
    uint16_t codes[CODES];
    for (uint32_t at = 0; at < n_vocab; at += CODES) {
        const uint32_t n = n_vocab - at < CODES ? n_vocab - at : CODES;
        for (uint32_t i = 0; i < n; i++) {
            const double below = (double)max - (double)logits[at + i];
            const double part = range > 0 ? fmin(below / (double)range, 1) : 0;
            codes[i] = (uint16_t)((double)STEPS * sqrt(part) + 0.5);
        }
        fy_str_add(out, codes, n * sizeof *codes);
    }
    return out->oom ? fy_nomem(e) : 0;
}

int fy_kl_add_row(fy_kl_writer *w, fy_span row, fy_err *e)
{
    if (row.len != w->n_row)
        return fy_fail(e, FY_EFORMAT, "a position of %zu bytes, expected %zu", row.len, w->n_row);
    if (fy_sha256_add(w->hash, row.ptr, row.len, e) != 0 ||
        fy_out_pwrite(w->out, row.ptr, row.len, w->at, e) != 0)
        return -1;
    w->at += w->n_row;
    w->head.n_rows++;
    return 0;
}

int fy_kl_add(fy_kl_writer *w, const float *logits, fy_kl_token next, fy_err *e)
{
    fy_str_clear(&w->row);
    if (fy_kl_put_row(logits, w->head.n_vocab, next, w->head.n_rows, &w->row, e) != 0)
        return -1;
    return fy_kl_add_row(w, (fy_span){w->row.ptr, w->row.len}, e);
}

static void put_head(const fy_kl_head *h, uint8_t out[FY_KL_HEAD_BYTES])
{
    const uint32_t numbers[] = {VERSION, h->method, h->n_ctx, h->n_vocab};
    memcpy(out, magic, sizeof magic);
    memcpy(out + 8, numbers, sizeof numbers);
    memcpy(out + 24, &h->n_rows, 8);
    memcpy(out + 32, h->vocab_hash, FY_SHA256_BYTES);
    memcpy(out + 64, h->text_hash, FY_SHA256_BYTES);
}

int fy_kl_commit(fy_kl_writer *w, uint64_t *bytes, fy_err *e)
{
    uint8_t head[FY_KL_HEAD_BYTES], sum[FY_SHA256_BYTES];
    put_head(&w->head, head);
    int rc = fy_sha256_add(w->hash, head, sizeof head, e);
    if (fy_sha256_end(w->hash, sum, e) != 0)
        rc = -1;
    w->hash = NULL;
    if (rc == 0)
        rc = fy_out_pwrite(w->out, head, sizeof head, 0, e);
    if (rc == 0)
        rc = fy_out_pwrite(w->out, sum, sizeof sum, w->at, e);
    if (rc == 0) {
        rc = fy_out_commit(w->out, e);
        w->out = NULL;
    }
    if (rc == 0 && bytes != NULL)
        *bytes = w->at + sizeof sum;
    fy_kl_abort(w);
    return rc;
}

/* --- reading -------------------------------------------------------------------------------- */

struct fy_kl_reader {
    fy_kl_head head;
    fy_map map;          /* owned when a file was opened */
    const uint8_t *data; /* view */
    fy_sha256 *hash;     /* owned; of the rows read */
    size_t n_row;
    uint64_t n_read; /* rows */
};

/* The head of data[0..n), and whether the rows that it promises are there. */
static int read_head(fy_kl_reader *r, size_t n, fy_err *e)
{
    const uint8_t *p = r->data;
    uint64_t row, bytes;
    if (n < sizeof magic || memcmp(p, magic, sizeof magic) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "not a file of distributions: it does not begin with '%.8s'; "
                       "ferry eval --text FILE --kl-save F makes one",
                       magic);
    if (n < FY_KL_HEAD_BYTES)
        return fy_fail(e, FY_EFORMAT, "cut off: %zu bytes, the head alone has %d", n,
                       FY_KL_HEAD_BYTES);
    if (fy_le32(p + 8) != VERSION)
        return fy_fail(e, FY_EUNSUPPORTED, "version %u, this program reads %d; save it again",
                       fy_le32(p + 8), VERSION);
    r->head = (fy_kl_head){.method = fy_le32(p + 12),
                           .n_ctx = fy_le32(p + 16),
                           .n_vocab = fy_le32(p + 20),
                           .n_rows = fy_le64(p + 24)};
    memcpy(r->head.vocab_hash, p + 32, FY_SHA256_BYTES);
    memcpy(r->head.text_hash, p + 64, FY_SHA256_BYTES);
    if (r->head.n_vocab == 0 || !row_bytes(r->head.n_vocab, &row))
        return fy_fail(e, FY_EFORMAT, "damaged: a vocabulary of %u tokens", r->head.n_vocab);
    if (!fy_mul_u64(row, r->head.n_rows, &bytes) ||
        !fy_add_u64(bytes, FY_KL_HEAD_BYTES + FY_SHA256_BYTES, &bytes) || bytes != n)
        return fy_fail(e, FY_EFORMAT,
                       "damaged or cut off: %zu bytes do not hold %llu positions of %u tokens", n,
                       (unsigned long long)r->head.n_rows, r->head.n_vocab);
    r->n_row = (size_t)row;
    return 0;
}

fy_kl_reader *fy_kl_parse(const void *p, size_t n, fy_err *e)
{
    fy_kl_reader *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fy_nomem(e);
        return NULL;
    }
    r->data = p;
    if (read_head(r, n, e) == 0 && (r->hash = fy_sha256_new(e)) != NULL)
        return r;
    fy_kl_close(r);
    return NULL;
}

fy_kl_reader *fy_kl_open(const char *path, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return NULL;
    fy_kl_reader *r = fy_kl_parse(map.data, map.size, e);
    if (r == NULL) {
        fy_ctx(e, "%s", path);
        fy_map_close(&map);
        return NULL;
    }
    r->map = map;
    return r;
}

void fy_kl_close(fy_kl_reader *r)
{
    if (r == NULL)
        return;
    if (r->hash != NULL)
        fy_sha256_end(r->hash, NULL, NULL);
    if (r->map.data != NULL)
        fy_map_close(&r->map);
    free(r);
}

const fy_kl_head *fy_kl_head_of(const fy_kl_reader *r)
{
    return &r->head;
}

static int fail_row(const fy_kl_reader *r, const char *what, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "damaged: position %llu %s", (unsigned long long)r->n_read, what);
}

/* Rows that have been read are not needed again. */
static void drop_read(const fy_kl_reader *r)
{
    if (r->map.data != NULL && r->n_read % ROWS_BETWEEN_DROPS == 0)
        fy_map_drop(&r->map, 0, FY_KL_HEAD_BYTES + r->n_read * r->n_row);
}

int fy_kl_next(fy_kl_reader *r, fy_kl_token *next, float *below, fy_err *e)
{
    if (r->n_read == r->head.n_rows)
        return fy_fail(e, FY_EARG, "it has %llu positions, one more was asked for",
                       (unsigned long long)r->n_read);
    const uint8_t *row = r->data + FY_KL_HEAD_BYTES + r->n_read * r->n_row;
    const uint32_t id = fy_le32(row);
    const float logprob = fy_lef32(row + 4), range = fy_lef32(row + 8);
    if (id >= r->head.n_vocab)
        return fail_row(r, "has a token that is not in the vocabulary", e);
    if (!isfinite(logprob) || logprob > 0 || !isfinite(range) || range < 0)
        return fail_row(r, "has a number that is not a probability", e);
    bool has_best = false;
    for (uint32_t i = 0; i < r->head.n_vocab; i++) {
        const uint16_t code = fy_le16(row + ROW_HEAD + (size_t)i * 2);
        const double part = (double)code / (double)STEPS;
        has_best |= code == 0;
        below[i] = (float)((double)range * part * part);
    }
    if (!has_best)
        return fail_row(r, "has no likeliest token", e);
    if (fy_sha256_add(r->hash, row, r->n_row, e) != 0)
        return -1;
    *next = (fy_kl_token){(int32_t)id, logprob};
    r->n_read++;
    drop_read(r);
    return 0;
}

int fy_kl_seek(fy_kl_reader *r, uint64_t row, fy_err *e)
{
    if (row > r->head.n_rows)
        return fy_fail(e, FY_EARG, "it has %llu positions, number %llu was asked for",
                       (unsigned long long)r->head.n_rows, (unsigned long long)row);
    r->n_read = row;
    return 0;
}

int fy_kl_check(fy_kl_reader *r, fy_err *e)
{
    for (; r->n_read < r->head.n_rows; r->n_read++) {
        const uint8_t *row = r->data + FY_KL_HEAD_BYTES + r->n_read * r->n_row;
        if (fy_check_interrupt(e) != 0 || fy_sha256_add(r->hash, row, r->n_row, e) != 0)
            return -1;
        drop_read(r);
    }
    return fy_kl_end(r, e);
}

int fy_kl_end(fy_kl_reader *r, fy_err *e)
{
    const uint8_t *expected = r->data + FY_KL_HEAD_BYTES + r->head.n_rows * r->n_row;
    uint8_t found[FY_SHA256_BYTES];
    if (r->n_read != r->head.n_rows)
        return fy_fail(e, FY_EARG, "it has %llu positions, %llu were compared",
                       (unsigned long long)r->head.n_rows, (unsigned long long)r->n_read);
    int rc = fy_sha256_add(r->hash, r->data, FY_KL_HEAD_BYTES, e);
    if (fy_sha256_end(r->hash, found, e) != 0)
        rc = -1;
    r->hash = NULL;
    if (rc == 0 && memcmp(found, expected, sizeof found) != 0)
        rc = fy_fail(e, FY_EFORMAT,
                     "damaged: its hash is not that of what was written; save it again");
    return rc;
}
