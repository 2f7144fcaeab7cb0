/* model.json by one table of its fields: made from the weights, written, read and compared. */
#include "workspace/data/model_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_rows.h"
#include "base/str.h"
#include "cli/terminal.h"

#define SCHEMA_VERSION 20241202
/* PowerServe reserves 2 * n_layers * kv_dim * n_ctx floats at load: 8 GiB for a 1B model of 131072
 * positions. */
#define MAX_N_CTX 4096

typedef enum { TOP, LLM, ROPE, N_SECTIONS } section;
static const char *const section_key[N_SECTIONS] = {[LLM] = "llm_config", [ROPE] = "rope_config"};

typedef enum { SAME, FREE, AT_MOST } rule; /* of a value against that of the weights */

/* The schema in the order of the file; LLM is an object in TOP, ROPE one in LLM. */
#define ROW(section, kind, rule, name)                                           \
    {                                                                            \
        section, FY_JSON_ROW_##kind, rule, #name, offsetof(fy_model_json, name), \
            sizeof((fy_model_json *)0)->name                                     \
    }
static const struct {
    section in;
    fy_json_row_type kind;
    rule rule;
    const char *name;
    size_t offset, bytes;
} rows[] = {
    ROW(TOP, CHARS, FREE, model_id),
    ROW(TOP, CHARS, SAME, model_arch),
    ROW(TOP, I64, SAME, version),
    ROW(LLM, I64, SAME, embed_dim),
    ROW(LLM, I64, SAME, ffn_dim),
    ROW(LLM, I64, SAME, n_layers),
    ROW(LLM, I64, SAME, n_attn_heads),
    ROW(LLM, I64, SAME, n_attn_kv_heads),
    ROW(LLM, I64, AT_MOST, n_ctx),
    ROW(LLM, I64, SAME, vocab_size),
    ROW(LLM, I64, SAME, kv_dim),
    ROW(LLM, I64, SAME, head_size),
    ROW(LLM, REAL, SAME, norm_eps),
    ROW(ROPE, I64, SAME, rope_dim),
    ROW(ROPE, I64, SAME, n_rope_ctx_orig),
    ROW(ROPE, REAL, SAME, rope_freq_base),
    ROW(ROPE, REAL, SAME, rope_freq_scale),
    ROW(ROPE, REAL, SAME, rope_attn_factor),
    ROW(ROPE, CHARS, SAME, rope_scale_type),
    ROW(ROPE, I64, SAME, rope_type),
};
#undef ROW
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool is_text(size_t i)
{
    return rows[i].kind == FY_JSON_ROW_CHARS;
}

static const void *field(const fy_model_json *m, size_t i)
{
    return (const char *)m + rows[i].offset;
}

/* --- from the weights ------------------------------------------------------------------------- */

static bool is_printable(fy_span s)
{
    fy_str shown = {0};
    fy_str_put_quoted(&shown, s, SIZE_MAX);
    bool same = !shown.oom && fy_span_eq(s, (fy_span){fy_str_z(&shown), shown.len});
    fy_str_release(&shown);
    return same;
}

int fy_model_json_of(const fy_family *f, const fy_hparams *hp, const char *model_id,
                     fy_model_json *out, fy_err *e)
{
    size_t n = strlen(model_id);
    char shown[FY_QUOTE_BYTES];
    if (n == 0 || n >= FY_MODEL_ID_BYTES || !is_printable(fy_span_of(model_id)))
        return fy_fail(e, FY_EARG, "model id '%s': expected 1 to %d bytes of printable UTF-8",
                       fy_quote(shown, sizeof shown, fy_span_of(model_id)), FY_MODEL_ID_BYTES - 1);
    *out = (fy_model_json){
        .version = SCHEMA_VERSION,
        .embed_dim = hp->n_embd,
        .ffn_dim = hp->n_ff,
        .n_layers = hp->n_layer,
        .n_attn_heads = hp->n_head,
        .n_attn_kv_heads = hp->n_head_kv,
        .n_ctx = hp->n_ctx_train < MAX_N_CTX ? hp->n_ctx_train : MAX_N_CTX,
        .vocab_size = hp->n_vocab,
        .kv_dim = (int64_t)hp->n_head_kv * hp->head_dim,
        .head_size = hp->head_dim,
        .norm_eps = f->layer_norm ? hp->norm_eps : hp->norm_rms_eps,
        .rope_dim = hp->n_rot,
        .n_rope_ctx_orig = hp->rope_orig_ctx > 0 ? hp->rope_orig_ctx : hp->n_ctx_train,
        .rope_freq_base = hp->rope_theta,
        .rope_freq_scale =
            hp->rope_scaling == FY_ROPE_SCALING_NONE ? 1.0 : (double)(1.0f / hp->rope_factor),
        .rope_attn_factor = hp->rope_attn_factor,
        .rope_type = f->rope == FY_ROPE_NEOX ? 2 : 0,
    };
    memcpy(out->model_id, model_id, n + 1);
    strncpy(out->model_arch, f->gguf_arch, sizeof out->model_arch - 1);
    /* its generator writes "linear" with scale 1 for no scaling, as llama.cpp's default is */
    strcpy(out->rope_scale_type, hp->rope_scaling == FY_ROPE_SCALING_YARN ? "yarn" : "linear");
    return 0;
}

/* --- text ------------------------------------------------------------------------------------- */

int fy_json_text(json_t *root, fy_str *out, fy_err *e)
{
    return fy_json_text_digits(root, 17, out, e);
}

int fy_json_text_digits(json_t *root, int digits, fy_str *out, fy_err *e)
{
    size_t flags = JSON_INDENT(4) | JSON_REAL_PRECISION((size_t)digits);
    char *text = root != NULL ? json_dumps(root, flags) : NULL;
    json_decref(root);
    if (text == NULL)
        return fy_nomem(e);
    fy_str_puts(out, text);
    fy_str_putc(out, '\n');
    free(text);
    return out->oom ? fy_nomem(e) : 0;
}

int fy_json_print(json_t *root, int digits, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_json_text_digits(root, digits, &text, e);
    if (rc == 0)
        rc = fy_stdout(text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

static json_t *value_of(const fy_model_json *m, size_t i)
{
    int64_t v;
    double d;
    memcpy(&v, field(m, i), sizeof v);
    memcpy(&d, field(m, i), sizeof d);
    return is_text(i)                         ? json_string(field(m, i))
           : rows[i].kind == FY_JSON_ROW_REAL ? json_real(d)
                                              : json_integer(v);
}

int fy_model_json_text(const fy_model_json *m, fy_str *out, fy_err *e)
{
    json_t *at[N_SECTIONS] = {[TOP] = json_object()};
    bool ok = true;
    for (size_t i = 0; i < N_ROWS; i++) {
        section s = rows[i].in;
        if (at[s] == NULL) { /* the tree owns it, we only look */
            at[s] = json_object();
            ok &= json_object_set_new(at[s - 1], section_key[s], at[s]) == 0;
        }
        ok &= json_object_set_new(at[s], rows[i].name, value_of(m, i)) == 0;
    }
    ok &= json_object_set_new(at[TOP], "vision", json_object()) == 0;
    if (!ok) {
        json_decref(at[TOP]);
        return fy_nomem(e);
    }
    return fy_json_text(at[TOP], out, e);
}

int fy_model_json_parse(const void *p, size_t n, fy_model_json *out, fy_err *e)
{
    fy_json_row row[N_SECTIONS][N_ROWS + 1] = {0};
    fy_json_table table[N_SECTIONS] = {0};
    fy_model_json m = {0};
    for (size_t s = 0; s < N_SECTIONS; s++)
        table[s].rows = row[s];
    for (size_t i = 0; i < N_ROWS; i++) {
        fy_json_table *t = &table[rows[i].in];
        row[rows[i].in][t->n_rows++] =
            (fy_json_row){.key = rows[i].name,
                          .type = rows[i].kind,
                          .offset = rows[i].offset,
                          .max = is_text(i) ? (int64_t)rows[i].bytes - 1 : 0,
                          .required = true};
    }
    for (size_t s = LLM; s < N_SECTIONS; s++)
        row[s - 1][table[s - 1].n_rows++] = (fy_json_row){.key = section_key[s],
                                                          .type = FY_JSON_ROW_OBJECT,
                                                          .required = true,
                                                          .table = &table[s]};
    if (fy_json_document_of((fy_span){p, n}, &table[TOP], &m, e) != 0)
        return -1;
    *out = m;
    return 0;
}

/* --- comparing -------------------------------------------------------------------------------- */

static void put_value(const fy_model_json *m, size_t i, fy_str *out)
{
    int64_t v;
    double d;
    memcpy(&v, field(m, i), sizeof v);
    memcpy(&d, field(m, i), sizeof d);
    if (rows[i].kind == FY_JSON_ROW_I64)
        fy_str_printf(out, "%lld", (long long)v);
    else if (rows[i].kind == FY_JSON_ROW_REAL)
        fy_str_printf(out, "%.9g", d);
    else
        fy_str_put_quoted(out, fy_span_of(field(m, i)), FY_QUOTE_BYTES);
}

static bool agrees(const fy_model_json *found, const fy_model_json *expected, size_t i)
{
    int64_t a, b;
    if (rows[i].rule == FREE)
        return true;
    if (is_text(i))
        return strcmp(field(found, i), field(expected, i)) == 0;
    memcpy(&a, field(found, i), sizeof a);
    memcpy(&b, field(expected, i), sizeof b);
    return rows[i].rule == AT_MOST ? a >= 1 && a <= b
                                   : a == b; /* equal bits for reals: none is NaN or -0 */
}

int fy_model_json_compare(const fy_model_json *found, const fy_model_json *expected, fy_err *e)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (agrees(found, expected, i))
            continue;
        fy_str a = {0}, b = {0};
        put_value(found, i, &a);
        put_value(expected, i, &b);
        fy_fail(e, FY_EVERIFY, "%s is %s, the weights say %s%s", rows[i].name, fy_str_z(&a),
                rows[i].rule == AT_MOST ? "at most " : "", fy_str_z(&b));
        fy_str_release(&a);
        fy_str_release(&b);
        return -1;
    }
    return 0;
}
