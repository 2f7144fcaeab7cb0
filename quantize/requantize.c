/* A GGUF file into one of another type (requantize.h): plans keys, types and tensors, gives each
 * matrix its importance, and fills the rows as the writer asks for them. */
#include "quantize/requantize.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "arch/arch.h"
#include "base/types.h"
#include "format/gguf.h"
#include "format/write_journal.h"
#include "kernels/row.h"

/* --- keys ------------------------------------------------------------------------------------ */

enum { MAX_OWN = 6, MAX_TEXT = 127 /* of llama-quantize */ };

typedef struct {
    const char *key;
    uint32_t number;
    fy_span text; /* ptr NULL: it is the number */
    bool done;
} own_key;

static fy_span cut(fy_span s)
{
    return (fy_span){s.ptr, s.len < MAX_TEXT ? s.len : MAX_TEXT};
}

/* The keys that the output gets, as llama-quantize has them. */
static size_t own_keys(const fy_requant *q, own_key out[MAX_OWN])
{
    size_t n = 0;
    const int type = fy_recipe_ftype(q->p.file.recipe, q->p.file.type);
    out[n++] = (own_key){.key = FY_KEY_FILE_TYPE, .number = (uint32_t)type};
    out[n++] = (own_key){.key = FY_KEY_QUANTIZATION_VERSION, .number = FY_QUANTIZATION_VERSION};
    if (q->imatrix == NULL)
        return n;
    const fy_span dataset = fy_imatrix_dataset(q->imatrix);
    const uint32_t chunks = fy_imatrix_n_chunks(q->imatrix);
    out[n++] = (own_key){.key = "quantize.imatrix.file", .text = cut(fy_span_of(q->p.imatrix))};
    if (dataset.len > 0)
        out[n++] = (own_key){.key = "quantize.imatrix.dataset", .text = cut(dataset)};
    out[n++] = (own_key){.key = "quantize.imatrix.entries_count",
                         .number = (uint32_t)fy_imatrix_n(q->imatrix)};
    if (chunks > 0)
        out[n++] = (own_key){.key = "quantize.imatrix.chunks_count", .number = chunks};
    return n;
}

static int add_own(fy_gguf_writer *w, own_key *k, fy_err *e)
{
    k->done = true;
    return k->text.ptr != NULL ? fy_gguf_add_str(w, k->key, k->text, e)
                               : fy_gguf_add_u32(w, k->key, k->number, e);
}

/* Everything as it is, in its order; only what describes the types changes. */
static int plan_keys(fy_requant *q, fy_err *e)
{
    own_key own[MAX_OWN];
    const size_t n_own = own_keys(q, own);
    for (size_t i = 0; i < fy_gguf_n_kv(q->in); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(q->in, i);
        size_t o = 0;
        while (o < n_own && !fy_span_is(kv->key, own[o].key))
            o++;
        int rc = 0;
        if (o < n_own)
            rc = add_own(q->w, &own[o], e);
        else if (!fy_span_begins(kv->key, "split."))
            rc = fy_gguf_add_kv(q->w, kv, e);
        if (rc != 0)
            return -1;
    }
    for (size_t o = 0; o < n_own; o++) {
        if (!own[o].done && add_own(q->w, &own[o], e) != 0)
            return -1;
    }
    return q->p.hot != NULL ? fy_hot_order_add_key(&q->hot, q->w, e) : 0;
}

/* --- tensors --------------------------------------------------------------------------------- */

static bool is_quantized(fy_type t)
{
    return fy_type_get((uint32_t)t)->block > 1;
}

static int check_conversion(const fy_requant *q, fy_requant_tensor *t, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const char *from = fy_type_name(t->from->type);
    fy_quote(shown, sizeof shown, t->from->name);
    if (t->transposed && is_quantized(t->from->type))
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "tensor '%s' is %s: blocks lie along its rows, which --transpose-down turns; "
            "start from the f32, f16 or bf16 file",
            shown, from);
    if (t->from->type == t->to)
        return 0;
    t->requantized = is_quantized(t->from->type) && is_quantized(t->to);
    if (t->requantized && !q->p.allow_requantize)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "tensor '%s' is %s already: quantizing it again to %s would only lose "
                       "more; start from the f32, f16 or bf16 file (--allow-requantize does it all "
                       "the same)",
                       shown, from, fy_type_name(t->to));
    if (!fy_row_can_decode(t->from->type))
        return fy_fail(e, FY_EUNSUPPORTED, "tensor '%s' is %s, which ferry cannot convert to %s",
                       shown, from, fy_type_name(t->to));
    return 0;
}

static int choose_types(fy_requant *q, fy_type_item *items, size_t n, fy_err *e)
{
    fy_type_request r = {
        .file = q->p.file, .output = q->p.output_type, .embedding = q->p.embedding_type};
    if (q->p.file.recipe != FY_RECIPE_PURE && fy_recipe_model(q->in, &r.model, e) != 0)
        return -1;
    r.model.imatrix = q->imatrix != NULL;
    if (q->p.n_tensor_types > 0) {
        r.rules = fy_type_rules_new("--tensor-type", FY_ROW_TYPES, q->p.tensor_types,
                                    q->p.n_tensor_types, e);
        if (r.rules == NULL)
            return -1;
    }
    const int rc = fy_choose_matrix_types(&r, items, n, e);
    fy_type_rules_free(r.rules);
    return rc;
}

/* --- transposition --------------------------------------------------------------------------- */

#define DOWN   ".ffn_down."
#define DOWN_T ".ffn_down_t."

static bool has_part(fy_span name, const char *part)
{
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

/* Which tensors get a row for each neuron. Refused where no neuron could be left out, and where
 * there is nothing to transpose. */
static int plan_transposed(fy_requant *q, fy_err *e)
{
    const fy_family *f = fy_family_of_file(q->in);
    fy_hparams hp;
    size_t n = 0;
    if (!q->p.transpose_down)
        return 0;
    if (f == NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--transpose-down: the model's architecture is not known, so neither is its "
                       "activation");
    if (fy_hparams_from_gguf(q->in, f, &hp, e) != 0)
        return -1;
    const bool gated = fy_gguf_tensor_find(q->in, "blk.0.ffn_gate.weight") != NULL;
    if (fy_row_by_neuron(f, FY_T_FFN_DOWN) == NULL || !fy_act_makes_zeros(hp.act, gated))
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "--transpose-down: %s, whose activations are hardly ever exactly 0: no neuron "
            "could be left out",
            fy_act_name(hp.act));
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        fy_requant_tensor *t = &q->tensors[i];
        t->transposed = t->from->n_dims == 2 && fy_span_ends(t->from->name, DOWN "weight");
        n += t->transposed;
    }
    return n > 0
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED, "--transpose-down: no tensor blk.N.ffn_down.weight%s",
                         fy_gguf_tensor_find(q->in, "blk.0.ffn_down_t.weight") != NULL
                             ? "; ffn_down_t is there already"
                             : "");
}

/* As the tensor is called in the output. */
static void put_name(const fy_requant *q, const fy_requant_tensor *t,
                     char out[FY_GGUF_MAX_NAME + 8])
{
    const fy_span name = t->from->name;
    const char *at = q->p.transpose_down ? memmem(name.ptr, name.len, DOWN, strlen(DOWN)) : NULL;
    const size_t head = at != NULL ? (size_t)(at - name.ptr) : name.len,
                 rest = at != NULL ? head + strlen(DOWN) : name.len;
    snprintf(out, FY_GGUF_MAX_NAME + 8, "%.*s%s%.*s", (int)head, name.ptr, at != NULL ? DOWN_T : "",
             (int)(name.len - rest), name.ptr + rest);
}

static int plan_types(fy_requant *q, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(q->in);
    fy_type_item *items = calloc(n + 1, sizeof *items);
    q->tensors = calloc(n + 1, sizeof *q->tensors);
    if (items == NULL || q->tensors == NULL) {
        free(items);
        return fy_nomem(e);
    }
    q->stats.n_tensors = n;
    for (size_t i = 0; i < n; i++)
        q->tensors[i].from = fy_gguf_tensor_at(q->in, i);
    int rc = plan_transposed(q, e);
    for (size_t i = 0; i < n; i++)
        q->tensors[i].order = fy_hot_order_of(&q->hot, q->tensors[i].from);
    for (size_t i = 0; i < n; i++) {
        const fy_gguf_tensor *t = q->tensors[i].from;
        const bool matrix = fy_recipe_is_matrix(t);
        items[i] = (fy_type_item){.name = t->name,
                                  .ne0 = t->ne[q->tensors[i].transposed],
                                  .matrix = matrix,
                                  .type = matrix ? q->p.file.type : t->type};
    }
    if (rc == 0)
        rc = choose_types(q, items, n, e);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        q->tensors[i].to = items[i].type;
        q->tensors[i].wanted = items[i].wanted;
        q->tensors[i].why = items[i].why;
        q->stats.n_matrices += items[i].matrix && items[i].type == q->p.file.type;
        q->stats.bytes_in += q->tensors[i].from->bytes;
        rc = check_conversion(q, &q->tensors[i], e);
    }
    free(items);
    return rc;
}

/* --- importance ------------------------------------------------------------------------------ */

/* Names for a message: the first few, and how many there are. */
typedef struct {
    fy_str text;
    size_t n;
} names;

enum { SHOWN = 5 };

static void add_name(names *l, fy_span name)
{
    if (l->n < SHOWN) {
        fy_str_puts(&l->text, l->n > 0 ? ", " : "");
        fy_str_put_quoted(&l->text, name, FY_GGUF_MAX_NAME);
    } else if (l->n == SHOWN) {
        fy_str_puts(&l->text, ", ...");
    }
    l->n++;
}

/* q8_0 leaves no choice, what is in no blocks either. */
static bool asks(const fy_requant_tensor *t)
{
    return t->to != t->from->type && is_quantized(t->to) && t->to != FY_Q8_0;
}

/* Embedding and output are usually not in the files: llama.cpp collects none for them. */
static bool may_be_without(fy_span name)
{
    return fy_llama_is_embedding(name) || fy_llama_is_output(name);
}

/* What has a row for each neuron: its columns are the embedding, of which no product says how much
 * they count. */
static bool is_by_neuron(const fy_requant_tensor *t)
{
    return t->transposed || has_part(t->from->name, DOWN_T);
}

static int find_one(const fy_requant *q, fy_requant_tensor *t, names *missing, names *without,
                    fy_err *e)
{
    fy_err why = {0};
    if (is_by_neuron(t)) {
        add_name(without, t->from->name);
        return 0;
    }
    t->importance =
        fy_imatrix_find(q->imatrix, t->from->name, t->from->ne[0], t->from->ne[2], &why);
    if (t->importance != NULL)
        return 0;
    /* Of another shape, an embedding is another thing: llama-quantize leaves it, too. */
    if (why.code != FY_OK && !(why.code == FY_EFORMAT && fy_llama_is_embedding(t->from->name)))
        return fy_fail(e, why.code, "%s", why.msg);
    add_name(may_be_without(t->from->name) ? without : missing, t->from->name);
    return 0;
}

/* Entries for no tensor of the model: in part they may be of another version of it, all of them
 * they are of another model. */
static int check_unused(const fy_requant *q, fy_err *e)
{
    names unknown = {0};
    const size_t n = fy_imatrix_n(q->imatrix);
    for (size_t i = 0; i < n; i++) {
        char name[FY_GGUF_MAX_NAME + 1];
        const fy_span s = fy_imatrix_name(q->imatrix, i);
        memcpy(name, s.ptr, s.len <= FY_GGUF_MAX_NAME ? s.len : 0);
        name[s.len <= FY_GGUF_MAX_NAME ? s.len : 0] = '\0';
        if (fy_gguf_tensor_find(q->in, name) == NULL)
            add_name(&unknown, s);
    }
    int rc = 0;
    if (unknown.n == n)
        rc = fy_fail(e, FY_EFORMAT, "%s: none of its %zu entries is of a matrix of %s: %s",
                     q->p.imatrix, n, fy_gguf_path(q->in), fy_str_z(&unknown.text));
    else if (unknown.n > 0)
        fy_log(FY_LOG_INFO, "%s: %zu of %zu entries are of no matrix of the model: %s",
               q->p.imatrix, unknown.n, n, fy_str_z(&unknown.text));
    fy_str_release(&unknown.text);
    return rc;
}

static int find_importance(fy_requant *q, fy_err *e)
{
    names missing = {0}, without = {0};
    size_t asked = 0;
    int rc = check_unused(q, e);
    for (size_t i = 0; rc == 0 && i < q->stats.n_tensors; i++) {
        if (!asks(&q->tensors[i]))
            continue;
        asked++;
        rc = find_one(q, &q->tensors[i], &missing, &without, e);
    }
    if (rc == 0 && missing.n > 0)
        rc = fy_fail(e, FY_EFORMAT,
                     "%s: has nothing for %zu of the %zu matrices that ask for it: %s; collect it "
                     "with the model itself, or name a type for them with --tensor-type REGEX=q8_0",
                     q->p.imatrix, missing.n, asked, fy_str_z(&missing.text));
    if (rc == 0 && without.n > 0)
        fy_log(FY_LOG_INFO, "%s: has nothing for %s, quantized without", q->p.imatrix,
               fy_str_z(&without.text));
    if (rc == 0 && asked == 0)
        fy_log(FY_LOG_WARN, "--imatrix: no matrix gets a type that asks for it");
    fy_str_release(&missing.text);
    fy_str_release(&without.text);
    return rc;
}

static int plan_tensors(fy_requant *q, fy_err *e)
{
    if (fy_gguf_writer_split(q->w, q->p.split_bytes, e) != 0)
        return -1;
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const fy_requant_tensor *t = &q->tensors[i];
        char name[FY_GGUF_MAX_NAME + 8];
        uint64_t ne[FY_GGUF_MAX_DIMS];
        put_name(q, t, name);
        memcpy(ne, t->from->ne, sizeof ne);
        if (t->transposed) {
            ne[0] = t->from->ne[1];
            ne[1] = t->from->ne[0];
        }
        if (fy_gguf_add_tensor(q->w, name, t->to, t->from->n_dims, ne, e) < 0)
            return -1;
    }
    return 0;
}

static int plan(fy_requant *q, fy_err *e)
{
    q->w = fy_gguf_writer_new(e);
    if (q->w == NULL)
        return -1;
    if (fy_gguf_is_powerinfer(q->in))
        fy_gguf_writer_powerinfer(q->w);
    if (q->p.hot != NULL &&
        fy_hot_order_open(&q->hot, q->p.hot, q->in, q->p.transpose_down, e) != 0)
        return -1;
    if (plan_keys(q, e) != 0 || plan_types(q, e) != 0 || plan_tensors(q, e) != 0)
        return e != NULL && e->code == FY_EARG ? -1 : fy_ctx(e, "%s", fy_gguf_path(q->in));
    return q->imatrix != NULL ? find_importance(q, e) : 0;
}

fy_requant *fy_requant_of(fy_gguf *in, fy_imatrix *imatrix, const fy_requant_params *p, fy_err *e)
{
    fy_requant *q = calloc(1, sizeof *q);
    if (q == NULL) {
        fy_imatrix_close(imatrix);
        fy_gguf_close(in);
        fy_nomem(e);
        return NULL;
    }
    q->p = *p;
    q->in = in;
    q->imatrix = imatrix;
    q->kernels = fy_kernels_for(fy_cpu_features());
    if (plan(q, e) != 0) {
        fy_requant_close(q);
        return NULL;
    }
    q->stats.bytes_in += fy_gguf_data_offset(in);
    q->stats.bytes_out = fy_gguf_writer_file_bytes(q->w);
    return q;
}

fy_requant *fy_requant_open(const char *in, const fy_requant_params *p, fy_err *e)
{
    fy_imatrix *imatrix = NULL;
    if (p->imatrix != NULL && (imatrix = fy_imatrix_open(p->imatrix, e)) == NULL)
        return NULL;
    fy_gguf *g = fy_gguf_open(in, e);
    if (g == NULL) {
        fy_imatrix_close(imatrix);
        return NULL;
    }
    return fy_requant_of(g, imatrix, p, e);
}

void fy_requant_close(fy_requant *q)
{
    if (q == NULL)
        return;
    fy_quant_report_free(q->report);
    fy_gguf_writer_free(q->w);
    free(q->tensors);
    fy_hot_order_release(&q->hot);
    fy_imatrix_close(q->imatrix);
    fy_gguf_close(q->in);
    free(q);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* A row passes through f32 in slices: a multiple of every block, small enough for the stack. */
enum { SLICE = 8192 };

static int report_fault(const fy_gguf_tensor *t, fy_type to, uint64_t row, uint64_t element,
                        const fy_row_fault *f, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, t->name);
    if (f->overflow)
        return fy_fail(e, FY_EFORMAT,
                       "tensor '%s', row %" PRIu64 ", element %" PRIu64
                       ": value %g is too large for "
                       "%s; choose %s",
                       shown, row, element, (double)f->value, fy_type_name(to),
                       to == FY_F16 ? "bf16 or f32" : "a wider type");
    return fy_fail(e, FY_EFORMAT,
                   "tensor '%s', row %" PRIu64 ", element %" PRIu64 ": value %g, expected a finite "
                   "number; the checkpoint is damaged",
                   shown, row, element, (double)f->value);
}

/* As ggml has it, which weighs by it: f32, in the order of the elements. */
static float mean_square(const fy_requant *q, const fy_gguf_tensor *t, const uint8_t *from)
{
    float x[SLICE], sum = 0;
    for (uint64_t at = 0; at < t->ne[0]; at += SLICE) {
        int64_t n = (int64_t)(t->ne[0] - at < SLICE ? t->ne[0] - at : SLICE);
        fy_row_decode(&q->kernels, t->type, x, from + fy_type_row_bytes(t->type, at), n);
        sum = fy_row_squares(sum, x, n);
    }
    return sum / (float)t->ne[0];
}

/* sums: what is added to as the row is measured; NULL: it is not. */
static int convert_row(const fy_requant *q, const fy_requant_tensor *plan, uint64_t row,
                       uint8_t *out, fy_error_sums *sums, fy_err *e)
{
    const fy_gguf_tensor *t = plan->from;
    const fy_type to = plan->to;
    const uint8_t *from = t->data + row * fy_type_row_bytes(t->type, t->ne[0]);
    const uint64_t matrix = row / t->ne[1] % t->ne[2];
    float x[SLICE], importance[SLICE];
    fy_encode_options how = {.fit = q->p.fit};
    if (plan->importance != NULL) {
        how.importance = importance;
        how.mean_square = mean_square(q, t, from);
    }
    for (uint64_t at = 0; at < t->ne[0]; at += SLICE) {
        int64_t n = (int64_t)(t->ne[0] - at < SLICE ? t->ne[0] - at : SLICE);
        uint8_t *slice = out + fy_type_row_bytes(to, at);
        fy_row_fault fault = {0};
        if (plan->importance != NULL)
            fy_imatrix_means(plan->importance, matrix * t->ne[0] + at, (uint64_t)n, importance);
        fy_row_decode(&q->kernels, t->type, x, from + fy_type_row_bytes(t->type, at), n);
        if (fy_row_encode(&q->kernels, to, slice, x, n, &how, &fault) != 0)
            return report_fault(t, to, row, at + (uint64_t)fault.index, &fault, e);
        if (sums != NULL)
            fy_row_error(&q->kernels, to, sums, x, slice, n);
    }
    return 0;
}

/* Element i of a row of a type that has no blocks. */
static void decode_one(const fy_requant *q, const fy_gguf_tensor *t, const uint8_t *row, int32_t i,
                       float *out)
{
    fy_row_decode(&q->kernels, t->type, out, row + fy_type_row_bytes(t->type, (uint64_t)i), 1);
}

/* A vector with an element for each neuron; its type stays. */
static void fill_vector(const fy_requant_tensor *plan, uint8_t *out)
{
    const fy_gguf_tensor *t = plan->from;
    const size_t bytes = (size_t)fy_type_row_bytes(t->type, 1);
    for (uint64_t i = 0; i < t->ne[0]; i++)
        memcpy(out + i * bytes, t->data + (size_t)plan->order[i] * bytes, bytes);
}

enum { TURN_ROWS = 64, TURN_COLS = 256 /* a multiple of every block */ };

/* Rows [row, row + n) of a transposed tensor, n <= TURN_ROWS: columns of the source, a run of its
 * rows at a time. sums: as of convert_row. */
static int convert_turned(const fy_requant *q, const fy_requant_tensor *plan, uint64_t row,
                          uint64_t n, uint8_t *out, fy_error_sums *sums, fy_err *e)
{
    const fy_gguf_tensor *t = plan->from;
    const uint64_t from_bytes = fy_type_row_bytes(t->type, t->ne[0]), width = t->ne[1],
                   to_bytes = fy_type_row_bytes(plan->to, width);
    const fy_encode_options how = {.fit = q->p.fit};
    float x[TURN_ROWS], tile[TURN_ROWS][TURN_COLS];
    for (uint64_t at = 0; at < width; at += TURN_COLS) {
        const uint64_t cols = width - at < TURN_COLS ? width - at : TURN_COLS;
        for (uint64_t c = 0; c < cols; c++) {
            const uint8_t *from = t->data + (at + c) * from_bytes;
            if (plan->order == NULL)
                fy_row_decode(&q->kernels, t->type, x, from + fy_type_row_bytes(t->type, row),
                              (int64_t)n);
            for (uint64_t r = 0; r < n && plan->order != NULL; r++)
                decode_one(q, t, from, plan->order[row + r], &x[r]);
            for (uint64_t r = 0; r < n; r++)
                tile[r][c] = x[r];
        }
        for (uint64_t r = 0; r < n; r++) {
            uint8_t *to = out + r * to_bytes + fy_type_row_bytes(plan->to, at);
            fy_row_fault fault = {0};
            if (fy_row_encode(&q->kernels, plan->to, to, tile[r], (int64_t)cols, &how, &fault) != 0)
                return report_fault(t, plan->to, at + (uint64_t)fault.index, row + r, &fault, e);
            if (sums != NULL)
                fy_row_error(&q->kernels, plan->to, sums, tile[r], to, (int64_t)cols);
        }
    }
    return 0;
}

/* The last rows of a tensor let go of the whole source, all of whose rows each of them has read. */
static int fill_turned(fy_requant *q, size_t i, uint64_t row, uint64_t n_rows, uint8_t *out,
                       fy_err *e)
{
    const fy_requant_tensor *plan = &q->tensors[i];
    const fy_gguf_tensor *t = plan->from;
    const uint64_t to_bytes = fy_type_row_bytes(plan->to, t->ne[1]), first = row,
                   end = row + n_rows;
    const bool measured = q->report != NULL && fy_quant_is_lossy(t->type, plan->to);
    fy_error_sums sums = {0};
    for (uint64_t n; row < end; row += n, out += n * to_bytes) {
        n = end - row < TURN_ROWS ? end - row : TURN_ROWS;
        if (convert_turned(q, plan, row, n, out, measured ? &sums : NULL, e) != 0)
            return -1;
    }
    if (measured && fy_quant_report_add(q->report, i, first, &sums, e) != 0)
        return -1;
    if (end == t->ne[0])
        fy_gguf_drop(q->in, t, 0, t->bytes);
    return 0;
}

static uint64_t row_of(const fy_requant_tensor *plan, uint64_t row)
{
    return plan->order != NULL ? (uint64_t)plan->order[row] : row;
}

/* Floats pass through f32 even when their type stays: that is exact, and it is where damaged values
 * are found. What is quantized or no float is copied. */
int fy_requant_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                    fy_err *e)
{
    (void)thread;
    fy_requant *q = user;
    const fy_requant_tensor *plan = &q->tensors[i];
    const fy_gguf_tensor *t = plan->from;
    const fy_type to = plan->to;
    if (row == 0)
        fy_rss_anon_most(&q->peak_anon);
    if (plan->transposed)
        return fill_turned(q, (size_t)i, row, n_rows, out, e);
    if (plan->order != NULL && t->n_dims == 1) {
        fill_vector(plan, out);
        return 0;
    }
    uint64_t from_bytes = fy_type_row_bytes(t->type, t->ne[0]),
             to_bytes = fy_type_row_bytes(to, t->ne[0]);
    if (t->type == to && (is_quantized(to) || !fy_row_can_encode(to))) {
        for (uint64_t r = 0; r < n_rows && plan->order != NULL; r++)
            memcpy((uint8_t *)out + r * to_bytes, t->data + row_of(plan, row + r) * from_bytes,
                   from_bytes);
        if (plan->order == NULL)
            memcpy(out, t->data + row * from_bytes, n_rows * from_bytes);
    } else {
        const bool measured = q->report != NULL && fy_quant_is_lossy(t->type, to);
        fy_error_sums sums = {0};
        for (uint64_t r = 0; r < n_rows; r++) {
            if (convert_row(q, plan, row_of(plan, row + r), (uint8_t *)out + r * to_bytes,
                            measured ? &sums : NULL, e) != 0)
                return -1;
        }
        if (measured && fy_quant_report_add(q->report, (size_t)i, row, &sums, e) != 0)
            return -1;
    }
    if (plan->order == NULL)
        fy_gguf_drop(q->in, t, row * from_bytes, n_rows * from_bytes);
    else if (row + n_rows == t->ne[1]) /* rows from anywhere */
        fy_gguf_drop(q->in, t, 0, t->bytes);
    return 0;
}

int fy_requant_measure(fy_requant *q, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(q->in);
    q->report = fy_quant_report_new(n, e);
    for (size_t i = 0; i < n && q->report != NULL; i++)
        q->report->tensors[i] = (fy_quant_tensor){.from = fy_gguf_tensor_at(q->in, i),
                                                  .to = fy_gguf_writer_tensor(q->w, (int64_t)i)};
    return q->report != NULL ? 0 : -1;
}

/* --- writing --------------------------------------------------------------------------------- */

bool fy_requant_is_input(const fy_requant *q, const char *path)
{
    bool same = (q->p.imatrix != NULL && fy_file_is_same(q->p.imatrix, path)) ||
                (q->p.hot != NULL && fy_file_is_same(q->p.hot, path));
    for (size_t i = 0; i < fy_gguf_n_files(q->in); i++)
        same = same || fy_file_is_same(fy_gguf_file_path(q->in, i), path);
    return same;
}

/* The inputs are mapped while the output is written: none may be the output or its .part. */
static int check_distinct(const fy_requant *q, const char *out, fy_err *e)
{
    const uint32_t n = fy_gguf_writer_n_files(q->w);
    bool same = false;
    for (uint32_t i = 0; i < n && !same; i++) {
        fy_str part = {0};
        char *name = fy_gguf_split_name(out, i, n);
        fy_str_printf(&part, "%s.part", name != NULL ? name : "");
        const bool oom = name == NULL || part.oom;
        same = !oom && (fy_requant_is_input(q, name) || fy_requant_is_input(q, fy_str_z(&part)));
        free(name);
        fy_str_release(&part);
        if (oom)
            return fy_nomem(e);
    }
    return same ? fy_fail(e, FY_EARG, "%s: is the input, expected another name for the output", out)
                : 0;
}

/* What the bytes depend on besides keys and types. */
static int identify(const fy_requant *q, fy_identity_kind kind, fy_str *out, fy_err *e)
{
    int rc = fy_identity_program(out, kind, e);
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_files(q->in); i++)
        rc = fy_identity_file(out, kind, "source", fy_gguf_file_path(q->in, i), e);
    if (rc == 0 && q->p.imatrix != NULL)
        rc = fy_identity_file(out, kind, "imatrix", q->p.imatrix, e);
    if (rc == 0 && q->p.hot != NULL)
        rc = fy_identity_file(out, kind, "hot neurons", q->p.hot, e);
    if (q->p.fit)
        fy_str_puts(out, "--fit\n");
    return rc != 0 ? -1 : out->oom ? fy_nomem(e) : 0;
}

/* Bytes that each tensor is made from: [n_tensors]; the caller frees them. */
static uint64_t *read_bytes(const fy_requant *q, fy_err *e)
{
    const size_t n = q->stats.n_tensors;
    uint64_t *bytes = malloc((n > 0 ? n : 1) * sizeof *bytes);
    for (size_t i = 0; bytes != NULL && i < n; i++)
        bytes[i] = q->tensors[i].from->bytes;
    if (bytes == NULL)
        fy_nomem(e);
    return bytes;
}

int fy_requant_shares(fy_requant *q, uint32_t n, uint64_t *work, fy_err *e)
{
    uint64_t *bytes = read_bytes(q, e);
    const fy_gguf_parts parts = {.part = {1, n}, .read_bytes = bytes};
    const int rc = bytes != NULL ? fy_gguf_parts_work(q->w, &parts, work, e) : -1;
    free(bytes);
    return rc;
}

static int write_part(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                      fy_err *e)
{
    const fy_part_options *o = q->p.parts;
    fy_str lines = {0};
    uint64_t *bytes = read_bytes(q, e);
    int rc = bytes != NULL ? identify(q, FY_IDENTITY_ANYWHERE, &lines, e) : -1;
    const fy_gguf_parts parts = {.part = o->part,
                                 .identity = {lines.ptr, lines.len},
                                 .read_bytes = bytes,
                                 .command = fy_str_z(&o->command)};
    if (rc == 0)
        rc = o->finishes
                 ? fy_gguf_write_finish(q->w, out, &parts, e)
                 : fy_gguf_write_part(q->w, out, &parts, fy_requant_fill, q, pool, progress, e);
    fy_str_release(&lines);
    free(bytes);
    return rc;
}

static int write_whole(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                       fy_err *e)
{
    fy_str lines = {0};
    int rc = q->p.resume ? identify(q, FY_IDENTITY_HERE, &lines, e) : 0;
    if (rc == 0)
        rc = q->p.resume ? fy_gguf_write_resumed(q->w, out, (fy_span){lines.ptr, lines.len},
                                                 fy_requant_fill, q, pool, progress, e)
                         : fy_gguf_write(q->w, out, fy_requant_fill, q, pool, progress, e);
    fy_str_release(&lines);
    return rc;
}

int fy_requant_write(fy_requant *q, const char *out, fy_pool *pool, fy_progress *progress,
                     fy_err *e)
{
    if (check_distinct(q, out, e) != 0)
        return -1;
    const bool parts = q->p.parts != NULL && q->p.parts->part.n > 0;
    if ((parts ? write_part : write_whole)(q, out, pool, progress, e) == 0)
        return 0;
    return e != NULL && e->code == FY_EFORMAT ? fy_ctx(e, "%s", fy_gguf_path(q->in)) : -1;
}
