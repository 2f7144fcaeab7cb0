/* Makes the header that a conversion would write, from a plan or from config.json alone, and opens
 * it as a GGUF file whose tensors are read through the plan. */
#include "convert/write/planned_gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "convert/write/convert_plan.h"
#include "convert/write/gguf_meta.h"
#include "hub/hub_model.h"

struct fy_planned_gguf {
    fy_hf_config config;
    fy_ckpt *source;           /* owned */
    fy_convert_plan *plan;     /* owned */
    fy_convert_stream *stream; /* owned */
    fy_str header;
    fy_gguf *file;       /* owned; a view of header */
    fy_err no_tokenizer; /* of its own code: there is none */
};

/* Rows that no checkpoint of this configuration is without. */
static bool is_expected(const fy_hf_config *c, const fy_tensor_row *row)
{
    if ((row->flags & FY_ROW_ALT) != 0 || !fy_row_is_there(&c->hp, row))
        return false;
    return row->hf == NULL ? fy_plan_row_is_computed(c, row) : fy_plan_row_is_required(c, row);
}

/* Its type: experts that are MXFP4 stay that. */
static fy_type expected_type(const fy_hf_config *c, const fy_tensor_row *row, fy_type matrices)
{
    const bool of_experts = row->slot >= FY_T_FFN_GATE_EXPS && row->slot <= FY_T_FFN_DOWN_EXPS_B;
    return (row->flags & FY_ROW_MATRIX) == 0 ? FY_F32
           : c->mxfp4 && of_experts          ? FY_MXFP4
                                             : matrices;
}

static int add_expected_tensors(fy_gguf_writer *w, const fy_hf_config *c, fy_type matrices,
                                fy_err *e)
{
    for (size_t i = 0; i < c->family->n_rows; i++) {
        const fy_tensor_row *row = &c->family->rows[i];
        uint32_t n_layer = fy_row_is_layer(row) ? c->hp.n_layer : 1;
        const fy_type type = expected_type(c, row, matrices);
        for (uint32_t layer = 0; layer < n_layer && is_expected(c, row); layer++) {
            uint64_t ne[FY_GGUF_MAX_DIMS];
            char name[FY_ROW_NAME_BYTES];
            if (!fy_row_is_in_layer(&c->hp, row, layer))
                continue;
            const fy_hparams like = fy_hparams_of_layer(&c->hp, layer);
            uint32_t n_dims = fy_row_shape(fy_row_is_layer(row) ? &like : &c->hp, row, ne);
            fy_row_name(row->gguf, layer, name);
            if (fy_gguf_add_tensor(w, name, type, n_dims, ne, e) < 0)
                return -1;
        }
    }
    return 0;
}

/* Keys, with those of the tokenizer if there is one, and tensors. plan: of weights that are there;
 * NULL: those that the configuration says. dir: for the model card. */
static int write_header(const fy_hf_config *c, const fy_convert_plan *plan, const char *dir,
                        const char *name, fy_type matrices, const fy_hf_tokenizer *tokenizer,
                        fy_str *out, fy_err *e)
{
    fy_span base = name != NULL ? fy_span_of(name) : fy_path_base(dir);
    char *id = base.len > 0 ? strndup(base.ptr, base.len) : strdup("model");
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    json_t *model = id != NULL ? fy_gguf_meta_model(dir, id, NULL, c, plan, e) : NULL;
    const fy_gguf_meta meta = {.config = c, .plan = plan, .tokenizer = tokenizer, .model = model};
    int rc = id == NULL ? fy_nomem(e) : 0;
    rc = rc || w == NULL || model == NULL || fy_gguf_meta_write(w, &meta, e) ||
         (plan != NULL ? fy_gguf_add_planned(w, plan, e)
                       : add_expected_tensors(w, c, matrices, e)) ||
         fy_gguf_writer_header(w, out, e);
    fy_gguf_writer_free(w);
    json_decref(model);
    free(id);
    return rc ? -1 : 0;
}

/* Weights are often copied without their tokenizer, and can still be looked at. */
static int make_header(fy_planned_gguf *p, const char *path, fy_err *e)
{
    fy_err *why = &p->no_tokenizer;
    fy_hf_tokenizer *tokenizer = fy_hf_tokenizer_open(path, NULL, why);
    int rc = tokenizer == NULL ? -1
                               : write_header(&p->config, p->plan, path, NULL, FY_F32, tokenizer,
                                              &p->header, why);
    fy_hf_tokenizer_free(tokenizer);
    if (rc != 0 && why->code == FY_ENOMEM)
        return fy_nomem(e);
    if (rc == 0)
        return 0;
    fy_str_clear(&p->header);
    return write_header(&p->config, p->plan, path, NULL, FY_F32, NULL, &p->header, e);
}

static int open_headers(fy_planned_gguf *p, const char *path, fy_type matrices, fy_err *e)
{
    p->source = fy_ckpt_open_model(path, &p->config, e);
    if (p->source == NULL)
        return -1;
    p->plan =
        fy_convert_plan_new(p->source, &p->config, &(fy_plan_options){.outtype = matrices}, e);
    return p->plan != NULL ? 0 : fy_ctx(e, "%s", path);
}

static int open_weights(fy_planned_gguf *p, const char *path, int n_threads, fy_err *e)
{
    if (open_headers(p, path, FY_F32, e))
        return -1;
    p->stream = fy_convert_stream_new(p->plan, n_threads, e);
    if (p->stream == NULL)
        return -1;
    p->stream->allow_nonfinite = true;
    return 0;
}

fy_planned_gguf *fy_planned_gguf_open(const char *path, int n_threads, fy_err *e)
{
    fy_planned_gguf *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    int rc = n_threads > 0 ? open_weights(p, path, n_threads, e)
                           : fy_hf_config_open(&p->config, path, e);
    if (rc == 0 && make_header(p, path, e) == 0)
        p->file = fy_gguf_parse(p->header.ptr, p->header.len, path, true, e);
    if (p->file != NULL)
        return p;
    fy_planned_gguf_close(p);
    return NULL;
}

static void release(fy_planned_gguf *p)
{
    fy_gguf_close(p->file);
    fy_str_release(&p->header);
    fy_convert_stream_free(p->stream);
    fy_convert_plan_free(p->plan);
    fy_ckpt_close(p->source);
    fy_hf_config_release(&p->config);
    *p = (fy_planned_gguf){0};
}

void fy_planned_gguf_close(fy_planned_gguf *p)
{
    if (p == NULL)
        return;
    release(p);
    free(p);
}

/* Weights that are not there, or not all of them, leave the configuration. */
static int open_headers_or_config(fy_planned_gguf *p, const char *path, fy_type matrices, fy_err *e)
{
    fy_err why = {0};
    if (open_headers(p, path, matrices, &why) == 0)
        return 0;
    bool absent = why.code == FY_EIO || why.code == FY_EUNSUPPORTED;
    release(p);
    if (!absent || !fy_file_is_dir(path) || fy_hf_config_open(&p->config, path, NULL))
        return fy_fail(e, why.code, "%s", why.msg);
    fy_log(FY_LOG_DEBUG, "config.json alone is read: %s", why.msg);
    return 0;
}

/* Whose name and card are the model's: a new string, NULL on failure. */
static char *dir_of(const char *path)
{
    fy_span base = fy_path_base(path);
    char *dir = fy_file_is_dir(path) ? strdup(path)
                : base.ptr == path   ? strdup(".")
                                     : strndup(path, (size_t)(base.ptr - path));
    char *real = dir != NULL ? realpath(dir, NULL) : NULL;
    free(dir);
    return real;
}

int fy_planned_header(const char *path, const char *name, fy_type matrices, fy_str *out, fy_err *e)
{
    fy_planned_gguf p = {0};
    bool config = fy_span_ends(fy_span_of(path), ".json") && !fy_file_is_dir(path);
    char *dir = dir_of(path);
    int rc = dir == NULL ? fy_fail_errno(e, "%s", path)
             : config    ? fy_hf_config_open(&p.config, path, e)
                         : open_headers_or_config(&p, path, matrices, e);
    if (rc == 0)
        rc = write_header(&p.config, p.plan, dir, name, matrices, NULL, out, e);
    release(&p);
    free(dir);
    return rc;
}

int fy_config_header(const fy_hf_config *c, const char *dir, fy_type matrices, fy_str *out,
                     fy_err *e)
{
    return write_header(c, NULL, dir, NULL, matrices, NULL, out, e);
}

const fy_gguf *fy_planned_gguf_file(const fy_planned_gguf *p)
{
    return p->file;
}

fy_convert_stream *fy_planned_gguf_stream(fy_planned_gguf *p)
{
    return p->stream;
}

const char *fy_planned_gguf_no_tokenizer(const fy_planned_gguf *p)
{
    return p->no_tokenizer.code != FY_OK ? p->no_tokenizer.msg : NULL;
}

int fy_checkpoint_header(const char *path, fy_str *out, fy_err *e)
{
    fy_hub_place place;
    if (fy_hub_find(path, FY_HUB_CHECKPOINT, &place, e))
        return -1;
    int rc = fy_planned_header(place.path, place.name, FY_F16, out, e);
    fy_hub_place_release(&place);
    return rc;
}
