/* qnn/config.json of a cut: PowerServe's schema, with what it has no place for on top. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/qnn_config.h"
#include "workspace/npu/chunk_impl.h"
#include "workspace/data/model_json.h"

/* What hides a column. PowerServe's converter has a value for each family: -1e5 for Llama, which
 * f16 has as -inf, so that a row of padding that sees nothing becomes NaN; -100 for Mistral, which
 * hides little. This one, of its Qwens, does for all. */
#define MASK_VALUE    (-50000.0)
#define N_HVX_THREADS 4 /* as its converter sets it */

/* Takes the value; false: out of memory. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

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

static json_t *model_parameters(const fy_chunk_source *s)
{
    const fy_hparams *hp = s->hp;
    json_t *o = json_object();
    const bool ok =
        set(o, "n_layers", json_integer(hp->n_layer)) &&
        set(o, "vocab_size", json_integer(hp->n_vocab)) &&
        set(o, "embed_dim", json_integer(hp->n_embd)) &&
        set(o, "ffn_hidden_dim", json_integer(hp->n_ff)) &&
        set(o, "head_dim", json_integer(hp->head_dim)) &&
        set(o, "n_kv_heads", json_integer(hp->n_head_kv)) &&
        set(o, "rope_theta", real(hp->rope_theta)) &&
        set(o, "rms_norm_eps", real(s->family->layer_norm ? hp->norm_eps : hp->norm_rms_eps)) &&
        set(o, "attention_mask_value", json_real(MASK_VALUE)) &&
        set(o, "tie_embedding", json_boolean(s->tied != NULL));
    if (!ok)
        json_decref(o);
    return ok ? o : NULL;
}

/* What layers and heads have in common. */
static bool set_graph(json_t *o, const fy_chunk_info *p, uint32_t batch, const char *out_name)
{
    char name[32], path[FY_CHUNK_FILE_BYTES];
    snprintf(name, sizeof name, "batch_%u", batch);
    const char *base = strchr(fy_part_file(p, path), '/') + 1;
    return set(o, "graph_name", json_string(name)) && set(o, "batch_size", json_integer(batch)) &&
           set(o, "model_path", json_string(base)) && set(o, "x_name", json_string("x")) &&
           set(o, "out_name", json_string(out_name));
}

static json_t *layers_graph(const fy_cut *cut, const fy_chunk_info *p, uint32_t batch)
{
    json_t *o = json_object();
    const bool ok =
        set(o, "type", json_string("transformers")) && set_graph(o, p, batch, "out") &&
        set(o, "start_layer_id", json_integer(p->first_layer)) &&
        set(o, "end_layer_id", json_integer(p->end_layer)) &&
        set(o, "cache_size", json_integer(cut->n_ctx - cut->batch[0])) &&
        set(o, "context_size", json_integer(cut->n_ctx)) && set(o, "kv_size", json_integer(0)) &&
        set(o, "kv_path_format", json_string("kv/layer_{layer_id}_{kv_type}_{head_id}.raw"));
    if (!ok)
        json_decref(o);
    return ok ? o : NULL;
}

static json_t *head_graph(const fy_chunk_info *p, uint32_t batch)
{
    json_t *o = json_object();
    const bool ok = set_graph(o, p, batch, "logits") &&
                    set(o, "first_token", json_integer(p->first_token)) &&
                    set(o, "end_token", json_integer(p->end_token));
    if (!ok)
        json_decref(o);
    return ok ? o : NULL;
}

static json_t *graphs(const fy_cut *cut, const fy_chunk_info *parts, size_t n, fy_chunk_kind kind)
{
    json_t *list = json_array();
    for (uint32_t b = 0; b < cut->n_batches; b++) {
        for (size_t i = 0; i < n; i++) {
            if (parts[i].kind != kind)
                continue;
            json_t *g = kind == FY_CHUNK_LAYERS ? layers_graph(cut, &parts[i], cut->batch[b])
                                                : head_graph(&parts[i], cut->batch[b]);
            if (json_array_append_new(list, g) != 0) {
                json_decref(list);
                return NULL;
            }
        }
    }
    return list;
}

static json_t *own(const fy_cut *cut, const char *model)
{
    json_t *o = json_object();
    const bool ok = set(o, "version", json_integer(FY_QNN_OWN_VERSION)) &&
                    set(o, "model", json_string(model)) &&
                    (cut->soc[0] == '\0' || set(o, "soc", json_string(cut->soc))) &&
                    (cut->recipe[0] == '\0' || set(o, "recipe", json_string(cut->recipe))) &&
                    (cut->kv_bits == 0 || set(o, "kv_bits", json_integer(cut->kv_bits)));
    if (!ok)
        json_decref(o);
    return ok ? o : NULL;
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

int fy_chunk_config(const fy_chunk_source *s, const fy_cut *cut, const fy_chunk_info *parts,
                    size_t n, fy_str *out, fy_err *e)
{
    json_t *root = json_object(), *qnn = json_object();
    if (!set(qnn, "n_hvx_threads", json_integer(N_HVX_THREADS))) {
        json_decref(qnn);
        qnn = NULL;
    }
    if (!set(root, "model_parameters", model_parameters(s)) || !set(root, "qnn_parameters", qnn) ||
        !set(root, "graphs", graphs(cut, parts, n, FY_CHUNK_LAYERS)) ||
        !set(root, "embeddings", graphs(cut, parts, n, FY_CHUNK_HEAD)) ||
        !set(root, "ferry", own(cut, parts[0].model))) {
        json_decref(root);
        return fy_nomem(e);
    }
    return fy_json_text(root, out, e) == 0 ? check(out, e) : -1;
}
