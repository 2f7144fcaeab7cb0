#include "cli/measure/bench_model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/session.h"

/* "1.2B", "8B", "135M", "98K". */
static void put_size(uint64_t n_params, char *out, size_t size)
{
    static const struct {
        double unit;
        const char *letter;
    } units[] = {{1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof units[0] && (double)n_params < units[i].unit)
        i++;
    double n = (double)n_params / units[i].unit;
    int tenths = i == 0 && (int)(n * 10 + 0.5) % 10 != 0;
    snprintf(out, size, "%.*f%s", tenths, n, units[i].letter);
}

static uint64_t n_elements(const fy_gguf_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

/* Does decoding a token read it whole? Of an embedding it reads a row. */
static bool is_lookup(const fy_model *m, const fy_gguf_tensor *t)
{
    if (fy_span_is(t->name, "token_embd.weight"))
        return fy_model_n_chunks(m) > 0 ||
               fy_gguf_tensor_find(fy_model_gguf(m), "output.weight") != NULL;
    return fy_span_is(t->name, "position_embd.weight");
}

static bool is_of_experts(const fy_gguf_tensor *t)
{
    return memmem(t->name.ptr, t->name.len, "_exps.", 6) != NULL;
}

static uint64_t bytes_read(const fy_model *m, const fy_gguf_tensor *t)
{
    const fy_hparams *hp = fy_model_hparams(m);
    if (is_lookup(m, t))
        return 0;
    if (is_of_experts(t) && hp->n_expert > 0)
        return t->bytes / hp->n_expert * hp->n_expert_used;
    return t->bytes;
}

static void put_type(const fy_model *m, fy_type commonest, fy_bench_model *out)
{
    char size[16], type[16];
    put_size(out->n_params, size, sizeof size);
    snprintf(type, sizeof type, "%s", fy_type_name(commonest));
    for (char *p = type; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    snprintf(out->type, sizeof out->type, "%s %s %s", fy_model_family(m)->gguf_arch, size, type);
}

/* copies: the output matrix is one of the embedding, in another file. */
static void add_file(const fy_model *m, const fy_gguf *g, bool copies,
                     uint64_t of_type[FY_TYPE_COUNT], fy_bench_model *out)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        out->weight_bytes += bytes_read(m, t);
        if (copies && fy_span_is(t->name, "output.weight"))
            continue;
        out->bytes += t->bytes;
        out->n_params += n_elements(t);
        of_type[t->type] += n_elements(t);
    }
}

static int add_piece(const fy_model *m, const char *path, uint64_t of_type[FY_TYPE_COUNT],
                     fy_bench_model *out, fy_err *e)
{
    fy_chunk_info part;
    fy_gguf *g = fy_gguf_open(path, e);
    if (g == NULL)
        return -1;
    const int rc = fy_chunk_info_from_gguf(g, fy_model_hparams(m), &part, e);
    if (rc == 0)
        add_file(m, g, part.tied, of_type, out);
    fy_gguf_close(g);
    return rc;
}

int fy_bench_model_of(const fy_model *m, fy_bench_model *out, fy_err *e)
{
    uint64_t of_type[FY_TYPE_COUNT] = {0};
    fy_type commonest = FY_F32;
    *out = (fy_bench_model){0};
    add_file(m, fy_model_gguf(m), false, of_type, out);
    for (size_t i = 0; i < fy_model_n_chunks(m); i++) {
        if (add_piece(m, fy_model_chunk_path(m, i), of_type, out, e) != 0)
            return -1;
    }
    for (int t = 0; t < FY_TYPE_COUNT; t++)
        commonest = of_type[t] > of_type[commonest] ? (fy_type)t : commonest;
    put_type(m, commonest, out);
    return 0;
}

/* Rows of one layer's keys that the tokens behind `depth` positions read, together: the i-th of
 * them reads depth + i, or the window. */
static double rows_read(uint32_t depth, uint32_t n, uint32_t window)
{
    double rows = 0;
    for (uint32_t i = 1; i <= n; i++) {
        uint64_t all = (uint64_t)depth + i;
        rows += window != 0 && all > window ? window : (double)all;
    }
    return rows;
}

int fy_bench_bytes_per_token(const fy_model *m, const fy_bench_model *b, const fy_bench_test *t,
                             uint64_t *out, fy_err *e)
{
    enum { POSITIONS = 64 }; /* of so many rows the cache's bytes are exact: no padding */
    const fy_hparams *hp = fy_model_hparams(m);
    uint64_t bytes;
    if (fy_kv_bytes(hp, 1, POSITIONS, t->type_k, t->type_v, &bytes, e) != 0)
        return -1;
    const double row = (double)bytes / (double)POSITIONS / hp->n_layer;
    const uint32_t n_full = hp->n_swa == 0 ? hp->n_layer : fy_layers_count(&hp->full_layers);
    const double read = n_full * rows_read(t->n_depth, t->n_gen, 0) +
                        (hp->n_layer - n_full) * rows_read(t->n_depth, t->n_gen, hp->n_swa);
    *out = b->weight_bytes + (uint64_t)(row * read / t->n_gen + 0.5);
    return 0;
}
