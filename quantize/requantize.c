#include "quantize/requantize_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/file.h"
#include "base/quote.h"

/* --- plan ------------------------------------------------------------------------------------- */

static bool starts_with(fy_span s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && memcmp(s.ptr, prefix, n) == 0;
}

/* Everything as it is, in its order; only what describes the types changes. */
static int plan_keys(fy_requant *q, fy_err *e)
{
    const struct {
        const char *key;
        uint32_t value;
    } own[] = {
        {FY_KEY_FILE_TYPE, (uint32_t)fy_type_ftype(q->recipe.target)},
        {FY_KEY_QUANTIZATION_VERSION, FY_QUANTIZATION_VERSION},
    };
    enum { N_OWN = sizeof own / sizeof own[0] };
    bool done[N_OWN] = {false};
    for (size_t i = 0; i < fy_gguf_n_kv(q->in); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(q->in, i);
        size_t o = 0;
        while (o < N_OWN && !fy_span_is(kv->key, own[o].key))
            o++;
        int rc = 0;
        if (o < N_OWN) {
            rc = fy_gguf_add_u32(q->w, own[o].key, own[o].value, e);
            done[o] = true;
        } else if (!starts_with(kv->key, "split.")) {
            rc = fy_gguf_add_kv(q->w, kv, e);
        }
        if (rc != 0)
            return -1;
    }
    for (size_t o = 0; o < N_OWN; o++) {
        if (!done[o] && fy_gguf_add_u32(q->w, own[o].key, own[o].value, e) != 0)
            return -1;
    }
    return 0;
}

bool fy_requant_is_quantized(fy_type t)
{
    return fy_type_get((uint32_t)t)->block > 1;
}

static int check_conversion(const fy_gguf_tensor *t, const char *name, fy_type to, fy_err *e)
{
    const char *from = fy_type_name(t->type);
    if (t->type == to)
        return 0;
    if (fy_requant_is_quantized(t->type) && fy_requant_is_quantized(to))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "tensor '%s' is %s already: quantizing it again to %s would only lose "
                       "more; start from the f32, f16 or bf16 file",
                       name, from, fy_type_name(to));
    if (!fy_row_can_decode(t->type))
        return fy_fail(e, FY_EUNSUPPORTED, "tensor '%s' is %s, which ferry cannot convert to %s",
                       name, from, fy_type_name(to));
    return 0;
}

static int plan_tensor(fy_requant *q, const fy_gguf_tensor *t, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], name[FY_GGUF_MAX_NAME + 1];
    fy_quote(shown, sizeof shown, t->name);
    memcpy(name, t->name.ptr, t->name.len);
    name[t->name.len] = '\0';
    fy_type to = t->type;
    if (fy_recipe_is_matrix(t)) {
        bool fallback;
        to = fy_recipe_type(&q->recipe, t, &fallback);
        q->stats.n_matrices += to == q->recipe.target;
        if (fallback && q->stats.n_fallbacks++ == 0) {
            q->stats.first_fallback = t->name;
            q->stats.first_fallback_row = t->ne[0];
            q->stats.first_fallback_type = to;
        }
    }
    if (check_conversion(t, shown, to, e) != 0)
        return -1;
    return fy_gguf_add_tensor(q->w, name, to, t->n_dims, t->ne, e) < 0 ? -1 : 0;
}

static int plan(fy_requant *q, fy_err *e)
{
    if (plan_keys(q, e) != 0)
        return fy_ctx(e, "%s", fy_gguf_path(q->in));
    q->stats.n_tensors = fy_gguf_n_tensors(q->in);
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(q->in, i);
        if (plan_tensor(q, t, e) != 0)
            return fy_ctx(e, "%s", fy_gguf_path(q->in));
        q->stats.bytes_in += t->bytes;
    }
    return 0;
}

fy_requant *fy_requant_open(const char *in, fy_type target, bool llama, fy_err *e)
{
    fy_requant *q = calloc(1, sizeof *q);
    if (q == NULL) {
        fy_nomem(e);
        return NULL;
    }
    q->kernels = fy_kernels_for(fy_cpu_features());
    q->in = fy_gguf_open(in, e);
    if (q->in == NULL)
        goto fail;
    q->w = fy_gguf_writer_new(e);
    if (q->w == NULL || fy_recipe_for(&q->recipe, q->in, target, llama, e) != 0 || plan(q, e) != 0)
        goto fail;
    q->stats.bytes_in += fy_gguf_data_offset(q->in);
    q->stats.bytes_out = fy_gguf_writer_file_bytes(q->w);
    return q;
fail:
    fy_requant_close(q);
    return NULL;
}

void fy_requant_stats_of(const fy_requant *q, fy_requant_stats *out)
{
    *out = q->stats;
}

void fy_requant_close(fy_requant *q)
{
    if (q == NULL)
        return;
    fy_quant_report_free(q->report);
    fy_gguf_writer_free(q->w);
    fy_gguf_close(q->in);
    free(q);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The input is mapped while the output is written: neither the file nor its .part may be the input.
 */
static int check_distinct(const fy_gguf *in, const char *out, fy_err *e)
{
    char *part = malloc(strlen(out) + sizeof ".part");
    if (part == NULL)
        return fy_nomem(e);
    sprintf(part, "%s.part", out);
    bool same = false;
    for (size_t i = 0; i < fy_gguf_n_files(in); i++)
        same = same || fy_file_is_same(fy_gguf_file_path(in, i), out) ||
               fy_file_is_same(fy_gguf_file_path(in, i), part);
    free(part);
    return same ? fy_fail(e, FY_EARG, "%s: is the input, expected another name for the output", out)
                : 0;
}

int fy_requant_write(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                     fy_err *e)
{
    const char *in = fy_gguf_path(q->in);
    if (check_distinct(q->in, out, e) != 0)
        return -1;
    if (fy_gguf_write(q->w, out, fy_requant_fill, q, pool, progress, e) != 0)
        return e != NULL && e->code == FY_EFORMAT ? fy_ctx(e, "%s", in) : -1;
    return 0;
}
