/* One file of a cut model: its header and tensors, the id of the model it is of, and the
 * qnn/config.json that lists all of them. */
#include "workspace/npu/chunk_impl.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "workspace/data/model_json.h"

#define STEP_BYTES (4u << 20) /* compared between two looks at the clock and at Ctrl-C */

/* --- keys ------------------------------------------------------------------------------------- */

/* Is it one that hyperparameters are read from, or that a reader of any file wants? */
static bool is_shape_key(const fy_chunk_source *s, fy_span key)
{
    const size_t n = strlen(s->family->gguf_arch);
    if (key.len > n && fy_span_begins(key, s->family->gguf_arch) && key.ptr[n] == '.')
        return true;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        if ((fy_hparam_rows[i].flags & FY_HP_OWN) && fy_span_is(key, fy_hparam_rows[i].gguf))
            return true;
    }
    return fy_span_is(key, FY_KEY_ARCHITECTURE) || fy_span_is(key, FY_KEY_NAME) ||
           fy_span_is(key, FY_KEY_ALIGNMENT);
}

/* Where a model has no such key, its tokens are counted, which only the embedding has. */
static int add_vocab_size(fy_chunk_out *p, fy_err *e)
{
    char key[128];
    snprintf(key, sizeof key, "%s.vocab_size", p->source->family->gguf_arch);
    return fy_gguf_find(p->source->gguf, key) != NULL
               ? 0
               : fy_gguf_add_u32(p->w, key, p->source->hp->n_vocab, e);
}

static int add_keys(fy_chunk_out *p, fy_err *e)
{
    const fy_chunk_source *s = p->source;
    const bool all = p->info.kind == FY_CHUNK_EMBEDDING;
    for (size_t i = 0; i < fy_gguf_n_kv(s->gguf); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(s->gguf, i);
        if (!fy_chunk_is_own_key(kv->key) && (all || is_shape_key(s, kv->key)) &&
            fy_gguf_add_kv(p->w, kv, e) != 0)
            return -1;
    }
    return !all && add_vocab_size(p, e) != 0 ? -1 : fy_chunk_info_to_gguf(p->w, s->hp, &p->info, e);
}

static int add_places(fy_chunk_out *p, fy_err *e)
{
    uint32_t *places = malloc((p->n_tensors + 1) * sizeof *places);
    if (places == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < p->n_tensors; i++)
        places[i] = p->tensors[i].place;
    const int rc = fy_gguf_add_array(p->w, FY_CHUNK_PLACES, FY_KV_U32, places, p->n_tensors, e);
    free(places);
    return rc;
}

/* --- tensors ---------------------------------------------------------------------------------- */

bool fy_row_is_sliced(const fy_tensor_row *row)
{
    return (row->slot == FY_T_OUTPUT || row->slot == FY_T_OUTPUT_B) && row->dims[0] == FY_D_VOCAB;
}

/* The row as which the chunk holds the tensor; NULL: it does not. */
static const fy_tensor_row *row_in(const fy_chunk_out *p, const fy_gguf_tensor *t)
{
    const fy_chunk_source *s = p->source;
    uint32_t layer;
    if (t == s->tied && p->info.kind == FY_CHUNK_HEAD)
        return fy_row_of_slot(s->family, FY_T_OUTPUT);
    const fy_tensor_row *row = fy_row_of_gguf(s->family, t->name, &layer);
    return row != NULL && fy_chunk_holds(&p->info, row, layer) ? row : NULL;
}

static int add_tensor(fy_chunk_out *p, const fy_tensor_row *row, uint32_t place, fy_err *e)
{
    const fy_gguf_tensor *t = fy_gguf_tensor_at(p->source->gguf, place);
    char name[FY_GGUF_MAX_NAME + 1];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    fy_chunk_out_tensor *to = &p->tensors[p->n_tensors];
    *to = (fy_chunk_out_tensor){.from = t, .place = place};
    if (t == p->source->tied && p->info.kind == FY_CHUNK_HEAD)
        snprintf(name, sizeof name, "%s", row->gguf);
    else
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
    memcpy(ne, t->ne, sizeof ne);
    if (fy_row_is_sliced(row)) {
        uint64_t shape[FY_GGUF_MAX_DIMS];
        const uint32_t tokens = fy_row_shape(p->source->hp, row, shape) - 1;
        to->at = t->bytes / ne[tokens] * p->info.first_token;
        ne[tokens] = p->info.end_token - p->info.first_token;
    }
    p->n_tensors++;
    return fy_gguf_add_tensor(p->w, name, t->type, t->n_dims, ne, e) < 0 ? -1 : 0;
}

static int add_all(fy_chunk_out *p, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(p->source->gguf);
    p->tensors = calloc(n + 1, sizeof *p->tensors);
    if (p->tensors == NULL)
        return fy_nomem(e);
    if (add_keys(p, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const fy_tensor_row *row = row_in(p, fy_gguf_tensor_at(p->source->gguf, i));
        if (row != NULL && add_tensor(p, row, (uint32_t)i, e) != 0)
            return -1;
    }
    return add_places(p, e);
}

int fy_chunk_out_plan(fy_chunk_out *p, const char *dir, fy_err *e)
{
    char rel[FY_CHUNK_FILE_BYTES];
    p->path = fy_path_join(dir, fy_chunk_file_name(&p->info, rel));
    p->w = p->path != NULL ? fy_gguf_writer_new(e) : NULL;
    if (p->path == NULL)
        return fy_nomem(e);
    return p->w != NULL ? add_all(p, e) : -1;
}

void fy_chunk_out_release(fy_chunk_out *p)
{
    free(p->path);
    fy_gguf_writer_free(p->w);
    free(p->tensors);
    *p = (fy_chunk_out){0};
}

int fy_chunk_out_fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                      fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_chunk_out *p = user;
    const fy_chunk_out_tensor *t = &p->tensors[i];
    const fy_gguf_tensor *to = fy_gguf_writer_tensor(p->w, i);
    const uint64_t row_bytes = fy_type_row_bytes(to->type, to->ne[0]), at = t->at + row * row_bytes,
                   n = n_rows * row_bytes;
    memcpy(out, t->from->data + at, (size_t)n);
    fy_gguf_drop(p->source->gguf, t->from, at, n);
    return 0;
}

/* --- one that is there already ---------------------------------------------------------------- */

int fy_chunk_out_is_there(const fy_chunk_out *p, fy_err *e)
{
    fy_map map;
    fy_str head = {0};
    if (fy_gguf_writer_header(p->w, &head, e) != 0 || fy_map_open(&map, p->path, e) != 0) {
        fy_str_release(&head);
        return -1;
    }
    const bool same = map.size == fy_gguf_writer_file_bytes(p->w) && map.size >= head.len &&
                      memcmp(map.data, head.ptr, head.len) == 0;
    fy_map_close(&map);
    fy_str_release(&head);
    return same ? 0 : 1;
}

static int compare_tensor(const fy_chunk_out *p, const fy_gguf *there, size_t i,
                          fy_progress *progress, fy_err *e)
{
    const fy_chunk_out_tensor *t = &p->tensors[i];
    const fy_gguf_tensor *other = fy_gguf_tensor_at(there, i);
    for (uint64_t at = 0; at < other->bytes; at += STEP_BYTES) {
        const uint64_t n = other->bytes - at < STEP_BYTES ? other->bytes - at : STEP_BYTES;
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (memcmp(other->data + at, t->from->data + t->at + at, (size_t)n) != 0)
            return 1;
        fy_gguf_drop(there, other, at, n);
        fy_gguf_drop(p->source->gguf, t->from, t->at + at, n);
        fy_progress_add(progress, n);
    }
    return 0;
}

int fy_chunk_out_compare(const fy_chunk_out *p, fy_progress *progress, fy_err *e)
{
    fy_gguf *there = fy_gguf_open(p->path, e);
    int rc = there != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < p->n_tensors; i++)
        rc = compare_tensor(p, there, i, progress, e);
    fy_gguf_close(there);
    return rc;
}

/* --- qnn/config.json -------------------------------------------------------------------------- */

/* What hides a column. PowerServe's converter has a value for each family: -1e5 for Llama, which
 * f16 has as -inf, so that a row of padding that sees nothing becomes NaN; -100 for Mistral, which
 * hides little. This one, of its Qwens, does for all. */
#define MASK_VALUE    (-50000.0)
#define N_HVX_THREADS 4 /* as its converter sets it */

/* The f32 of a file with as many digits as tell it from others, not those of its double. */
static json_t *real(float v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double)v);
    for (int digits = 1; digits < 9; digits++) {
        char fewer[32];
        snprintf(fewer, sizeof fewer, "%.*g", digits, (double)v);
        if (strtof(fewer, NULL) == v) {
            memcpy(text, fewer, sizeof text);
            break;
        }
    }
    return json_real(strtod(text, NULL));
}

static json_t *model_parameters(fy_json_maker *m, const fy_chunk_source *s)
{
    const fy_hparams *hp = s->hp;
    json_t *o = json_object();
    fy_make_set(m, o, "n_layers", json_integer(hp->n_layer));
    fy_make_set(m, o, "vocab_size", json_integer(hp->n_vocab));
    fy_make_set(m, o, "embed_dim", json_integer(hp->n_embd));
    fy_make_set(m, o, "ffn_hidden_dim", json_integer(hp->n_ff));
    fy_make_set(m, o, "head_dim", json_integer(hp->head_dim));
    fy_make_set(m, o, "n_kv_heads", json_integer(hp->n_head_kv));
    fy_make_set(m, o, "rope_theta", real(hp->rope_theta));
    fy_make_set(m, o, "rms_norm_eps",
                real(s->family->layer_norm ? hp->norm_eps : hp->norm_rms_eps));
    fy_make_set(m, o, "attention_mask_value", json_real(MASK_VALUE));
    fy_make_set(m, o, "tie_embedding", json_boolean(s->tied != NULL));
    return o;
}

static json_t *graph(fy_json_maker *m, const fy_cut *cut, const fy_chunk_info *p, uint32_t batch)
{
    const bool layers = p->kind == FY_CHUNK_LAYERS;
    char name[32], path[FY_CHUNK_FILE_BYTES];
    json_t *o = json_object();
    snprintf(name, sizeof name, "batch_%u", batch);
    if (layers)
        fy_make_set(m, o, "type", json_string("transformers"));
    fy_make_set(m, o, "graph_name", json_string(name));
    fy_make_set(m, o, "batch_size", json_integer(batch));
    fy_make_set(m, o, "model_path", json_string(strchr(fy_chunk_file_name(p, path), '/') + 1));
    fy_make_set(m, o, "x_name", json_string("x"));
    fy_make_set(m, o, "out_name", json_string(layers ? "out" : "logits"));
    fy_make_set(m, o, layers ? "start_layer_id" : "first_token",
                json_integer(layers ? p->first_layer : p->first_token));
    fy_make_set(m, o, layers ? "end_layer_id" : "end_token",
                json_integer(layers ? p->end_layer : p->end_token));
    if (!layers)
        return o;
    fy_make_set(m, o, "cache_size", json_integer(cut->n_ctx - cut->batch[0]));
    fy_make_set(m, o, "context_size", json_integer(cut->n_ctx));
    fy_make_set(m, o, "kv_size", json_integer(0));
    fy_make_set(m, o, "kv_path_format", json_string("kv/layer_{layer_id}_{kv_type}_{head_id}.raw"));
    return o;
}

static json_t *graphs(fy_json_maker *m, const fy_cut *cut, const fy_chunk_out *outs, size_t n,
                      fy_chunk_kind kind)
{
    json_t *list = json_array();
    for (uint32_t b = 0; b < cut->n_batches; b++) {
        for (size_t i = 0; i < n; i++) {
            if (outs[i].info.kind == kind)
                fy_make_append(m, list, graph(m, cut, &outs[i].info, cut->batch[b]));
        }
    }
    return list;
}

static json_t *own(fy_json_maker *m, const fy_cut *cut, const char *model)
{
    json_t *o = json_object();
    fy_make_set(m, o, "version", json_integer(FY_QNN_OWN_VERSION));
    fy_make_set(m, o, "model", json_string(model));
    if (cut->soc[0] != '\0')
        fy_make_set(m, o, "soc", json_string(cut->soc));
    if (cut->recipe[0] != '\0')
        fy_make_set(m, o, "recipe", json_string(cut->recipe));
    if (cut->kv_bits != 0)
        fy_make_set(m, o, "kv_bits", json_integer(cut->kv_bits));
    return o;
}

/* Whatever a reader would refuse is refused before the work. */
static int check(const fy_str *text, fy_err *e)
{
    fy_qnn_config c;
    fy_err why = {0};
    if (fy_qnn_config_parse(text->ptr, text->len, &c, &why) != 0)
        return fy_fail(e, why.code == FY_EFORMAT ? FY_EARG : why.code,
                       FY_QNN_DIR "/" FY_QNN_CONFIG_NAME " would say: %s", why.msg);
    fy_qnn_config_release(&c);
    return 0;
}

int fy_chunk_config(const fy_chunk_source *s, const fy_cut *cut, const fy_chunk_out *outs, size_t n,
                    fy_str *out, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *root = json_object(), *qnn = json_object();
    fy_make_set(&m, qnn, "n_hvx_threads", json_integer(N_HVX_THREADS));
    fy_make_set(&m, root, "model_parameters", model_parameters(&m, s));
    fy_make_set(&m, root, "qnn_parameters", qnn);
    fy_make_set(&m, root, "graphs", graphs(&m, cut, outs, n, FY_CHUNK_LAYERS));
    fy_make_set(&m, root, "embeddings", graphs(&m, cut, outs, n, FY_CHUNK_HEAD));
    fy_make_set(&m, root, "ferry", own(&m, cut, outs[0].info.model));
    if (m.oom) {
        json_decref(root);
        return fy_nomem(e);
    }
    return fy_json_text(root, out, e) == 0 ? check(out, e) : -1;
}

/* --- which model ------------------------------------------------------------------------------ */

bool fy_chunk_is_own_key(fy_span key)
{
    return fy_span_begins(key, FY_CHUNK_KEYS) || fy_span_begins(key, "split.");
}

static void put_text(fy_str *s, fy_span text)
{
    const uint64_t n = text.len;
    fy_str_add(s, &n, sizeof n);
    fy_str_add(s, text.ptr, text.len);
}

static int add(fy_chunk_id *id, fy_str *head, const void *p, size_t n, fy_err *e)
{
    int rc = head->oom ? fy_nomem(e) : fy_sha256_add(id->hash, head->ptr, head->len, e);
    if (rc == 0 && n > 0)
        rc = fy_sha256_add(id->hash, p, n, e);
    fy_str_release(head);
    return rc;
}

static int add_key(fy_chunk_id *id, const fy_gguf_kv *kv, fy_err *e)
{
    fy_str head = {0};
    const uint32_t type = kv->type, elem = kv->elem;
    put_text(&head, kv->key);
    fy_str_add(&head, &type, sizeof type);
    if (kv->type == FY_KV_ARRAY) {
        fy_str_add(&head, &elem, sizeof elem);
        fy_str_add(&head, &kv->count, sizeof kv->count);
    }
    return add(id, &head, kv->data, (size_t)kv->bytes, e);
}

int fy_chunk_id_begin(fy_chunk_id *id, const fy_gguf *keys, fy_err *e)
{
    id->hash = fy_sha256_new(e);
    if (id->hash == NULL)
        return -1;
    for (size_t i = 0; i < fy_gguf_n_kv(keys); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(keys, i);
        if (!fy_chunk_is_own_key(kv->key) && add_key(id, kv, e) != 0)
            return -1;
    }
    return 0;
}

int fy_chunk_id_add(fy_chunk_id *id, const fy_gguf_tensor *t, const void *data, fy_err *e)
{
    fy_str head = {0};
    const uint32_t type = t->type;
    put_text(&head, t->name);
    fy_str_add(&head, &t->n_dims, sizeof t->n_dims);
    fy_str_add(&head, t->ne, t->n_dims * sizeof t->ne[0]);
    fy_str_add(&head, &type, sizeof type);
    return add(id, &head, data, t->bytes < FY_CHUNK_ID_BYTES ? (size_t)t->bytes : FY_CHUNK_ID_BYTES,
               e);
}

int fy_chunk_id_end(fy_chunk_id *id, char out[FY_CHUNK_MODEL_BYTES], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    fy_sha256 *h = id->hash;
    *id = (fy_chunk_id){0};
    if (h == NULL || fy_sha256_end(h, out != NULL ? hash : NULL, e) != 0)
        return -1;
    if (out != NULL)
        fy_sha256_to_hex(hash, out);
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

const char *fy_chunk_file_name(const fy_chunk_info *p, char out[FY_CHUNK_FILE_BYTES])
{
    if (p->kind == FY_CHUNK_LAYERS)
        snprintf(out, FY_CHUNK_FILE_BYTES, FY_QNN_DIR "/chunk_%u.gguf", p->index);
    else if (p->kind == FY_CHUNK_HEAD && p->count > 1)
        snprintf(out, FY_CHUNK_FILE_BYTES, FY_QNN_DIR "/lm_head_%u.gguf", p->index);
    else
        snprintf(out, FY_CHUNK_FILE_BYTES, "%s",
                 p->kind == FY_CHUNK_HEAD ? FY_QNN_DIR "/lm_head.gguf" : FY_BUNDLE_WEIGHTS);
    return out;
}
