/* Makes a model N times as wide, which computes the same: the new weights are zeros. A tiny trained
 * model then costs what a large one costs, and says what it was trained to say; for measurements
 * that need a text.
 *
 *   widen_gguf IN.gguf OUT.gguf N TYPE     IN: family llama in f32; TYPE: of OUT's matrices
 *
 * Widths of the embedding, heads and feed-forward are multiplied; vocabulary, layers and the size
 * of a head stay. A norm divides by the root of the mean of the squares, which the zeros make
 * smaller: its weights are divided by the root of N, its epsilon by N. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "format/gguf_write.h"
#include "kernels/row.h"

static const char *const wider_keys[] = {
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
};
static const char eps_key[] = "llama.attention.layer_norm_rms_epsilon";

typedef struct {
    const fy_gguf *in;
    const fy_gguf_writer *w;
    uint32_t n;
    fy_kernels k;
    float *row; /* owned: the longest */
} widener;

static int put_key(fy_gguf_writer *w, const widener *x, const fy_gguf_kv *kv, fy_type type,
                   fy_err *e)
{
    for (size_t i = 0; i < sizeof wider_keys / sizeof wider_keys[0]; i++) {
        if (fy_span_is(kv->key, wider_keys[i]))
            return fy_gguf_add_u32(w, wider_keys[i], (uint32_t)fy_gguf_int_at(kv, 0) * x->n, e);
    }
    if (fy_span_is(kv->key, eps_key))
        return fy_gguf_add_f32(w, eps_key, (float)(fy_gguf_float_at(kv, 0) / x->n), e);
    if (fy_span_is(kv->key, FY_KEY_FILE_TYPE))
        return fy_gguf_add_u32(w, FY_KEY_FILE_TYPE, (uint32_t)fy_type_ftype(type), e);
    return fy_gguf_add_kv(w, kv, e);
}

static int plan(fy_gguf_writer *w, widener *x, fy_type type, fy_err *e)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < fy_gguf_n_kv(x->in); i++) {
        if (put_key(w, x, fy_gguf_kv_at(x->in, i), type, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < fy_gguf_n_tensors(x->in); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(x->in, i);
        const bool of_tokens =
            fy_span_begins(t->name, "token_embd") || fy_span_begins(t->name, "output.");
        const uint64_t ne[2] = {t->ne[0] * x->n, of_tokens ? t->ne[1] : t->ne[1] * x->n};
        char name[FY_GGUF_MAX_NAME + 1];
        if (t->type != FY_F32)
            return fy_fail(e, FY_EFORMAT, "%s: expected a model in f32", fy_gguf_path(x->in));
        memcpy(name, t->name.ptr, t->name.len);
        name[t->name.len] = '\0';
        longest = ne[0] > longest ? ne[0] : longest;
        if (fy_gguf_add_tensor(w, name, t->n_dims == 1 ? FY_F32 : type, t->n_dims, ne, e) < 0)
            return -1;
    }
    x->row = calloc(longest, sizeof *x->row);
    return x->row != NULL ? 0 : fy_nomem(e);
}

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    widener *x = user;
    const fy_gguf_tensor *from = fy_gguf_tensor_at(x->in, (size_t)i),
                         *to = fy_gguf_writer_tensor(x->w, i);
    const size_t row_bytes = (size_t)fy_type_row_bytes(to->type, to->ne[0]);
    const uint64_t n = from->ne[0];
    (void)thread;
    for (uint64_t r = row; r < row + n_rows; r++) {
        fy_row_fault fault;
        memset(x->row, 0, (size_t)to->ne[0] * sizeof *x->row);
        if (r < from->ne[1])
            memcpy(x->row, from->data + r * n * sizeof *x->row, (size_t)n * sizeof *x->row);
        for (uint64_t c = 0; to->n_dims == 1 && c < n; c++)
            x->row[c] /= sqrtf((float)x->n);
        if (fy_row_encode(&x->k, to->type, (uint8_t *)out + (r - row) * row_bytes, x->row,
                          (int64_t)to->ne[0], NULL, &fault) != 0)
            return fy_fail(e, FY_EFORMAT, "tensor %lld: a value does not fit", (long long)i);
    }
    return 0;
}

int main(int argc, char **argv)
{
    fy_err e = {0};
    fy_type type;
    widener x = {.n = argc == 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, .k = fy_kernels_for(0)};
    if (x.n == 0 || x.n > 256 || !fy_type_parse(argv[4], &type)) {
        fprintf(stderr, "usage: widen_gguf IN.gguf OUT.gguf N TYPE\n");
        return 2;
    }
    fy_gguf *in = fy_gguf_open(argv[1], &e);
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_pool *pool = fy_pool_new(1, &e); /* (one row at a time) */
    x.in = in;
    x.w = w;
    if (e.code == FY_OK && plan(w, &x, type, &e) == 0)
        fy_gguf_write(w, argv[2], fill, &x, pool, NULL, &e);
    fy_pool_free(pool);
    fy_gguf_writer_free(w);
    fy_gguf_close(in);
    free(x.row);
    if (e.code != FY_OK)
        fprintf(stderr, "widen_gguf: %s\n", e.msg);
    return e.code == FY_OK ? 0 : 1;
}
