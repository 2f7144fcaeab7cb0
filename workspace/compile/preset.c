/* Presets: which tokens, what the caches hold after them, and their files. */
#include "workspace/compile/preset.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/cut_model.h"
#include "model/template/chat_template.h"
#include "workspace/compile/graph_float.h"

/* --- ids -------------------------------------------------------------------------------------- */

/* What users may write after the system prompt: their tokens differ from the first one on, whatever
 * the template ends with. */
static const char *const users[] = {"a", "\n\n", " b", "1", "\""};
enum { N_USERS = sizeof users / sizeof users[0] };

static int render(const fy_chat_template *t, fy_span system, const char *user, fy_str *out,
                  fy_err *e)
{
    fy_str messages = {0};
    if (t == NULL) {
        fy_str_add(out, system.ptr, system.len);
        fy_str_puts(out, user);
        return out->oom ? fy_nomem(e) : 0;
    }
    fy_str_puts(&messages, "[{\"role\": \"system\", \"content\": ");
    fy_json_put_string(&messages, system);
    fy_str_puts(&messages, "}, {\"role\": \"user\", \"content\": ");
    fy_json_put_string(&messages, fy_span_of(user));
    fy_str_puts(&messages, "}]");
    const fy_chat_input in = {.messages = {messages.ptr, messages.len},
                              .add_generation_prompt = true};
    const int rc = messages.oom ? fy_nomem(e) : fy_chat_template_render(t, &in, out, e);
    fy_str_release(&messages);
    return rc;
}

/* Keeps of *ids what the prompt with this user begins with. */
static int keep_common(const fy_vocab *v, const fy_chat_template *t, fy_span system,
                       const char *user, bool first, fy_ids *ids, fy_err *e)
{
    fy_str text = {0};
    fy_ids now = {0};
    int rc = render(t, system, user, &text, e);
    if (rc == 0)
        rc = fy_chat_encode_text(v, (fy_span){text.ptr, text.len}, &now, e);
    fy_str_release(&text);
    if (rc == 0 && first) {
        *ids = now;
        return 0;
    }
    size_t n = 0;
    while (n < ids->n && n < now.n && ids->id[n] == now.id[n])
        n++;
    ids->n = n;
    fy_ids_release(&now);
    return rc;
}

static int system_ids(const fy_model *m, const fy_vocab *v, const char *path, fy_ids *out,
                      fy_err *e)
{
    fy_map map;
    fy_err why = {0};
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    fy_span system = {(const char *)map.data, map.size};
    while (system.len > 0 && system.ptr[system.len - 1] == '\n')
        system.len--;
    fy_chat_template *t = fy_chat_template_open(fy_model_gguf(m), NULL, &why);
    int rc = 0;
    if (t == NULL && why.code != FY_EUNSUPPORTED) {
        *e = why;
        rc = -1;
    }
    for (int i = 0; rc == 0 && i < N_USERS; i++)
        rc = keep_common(v, t, system, users[i], i == 0, out, e);
    fy_chat_template_free(t);
    fy_map_close(&map);
    return rc;
}

int fy_preset_ids(const char *weights, const char *system, fy_ids *out, fy_err *e)
{
    const fy_map_options map = {0};
    fy_model *m = fy_model_open_chunk(weights, &map, e);
    const fy_vocab *v = m != NULL ? fy_model_vocab(m, e) : NULL;
    int rc = v != NULL ? 0 : -1;
    if (rc == 0 && system != NULL) {
        rc = system_ids(m, v, system, out, e);
    } else if (rc == 0 && fy_vocab_bos(v) >= 0) {
        const int32_t bos = fy_vocab_bos(v);
        rc = fy_ids_push(out, bos, e);
    }
    if (rc == 0 && out->n == 0)
        rc = fy_fail(e, FY_EARG, "%s: %s", system != NULL ? system : weights,
                     system != NULL ? "no token comes of it that every prompt begins with"
                                    : "the model has no beginning-of-text token to preset");
    fy_model_close(m);
    return rc;
}

/* --- keys and values -------------------------------------------------------------------------- */

static int take_cached(const fy_session *s, const fy_hparams *hp, fy_chain_preset *p, fy_err *e)
{
    const size_t n_pairs = (size_t)hp->n_layer * hp->n_head_kv;
    const fy_chain_run *r = fy_session_chain(s);
    p->keys = calloc(n_pairs, sizeof *p->keys);
    p->values = calloc(n_pairs, sizeof *p->values);
    if (p->keys == NULL || p->values == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n_pairs; i++) {
        const uint32_t layer = (uint32_t)(i / hp->n_head_kv), head = (uint32_t)(i % hp->n_head_kv);
        p->keys[i] = calloc((size_t)p->n * hp->head_dim, sizeof(float));
        p->values[i] = calloc((size_t)p->n * hp->head_dim_v, sizeof(float));
        p->n_pairs = i + 1;
        if (p->keys[i] == NULL || p->values[i] == NULL)
            return fy_nomem(e);
        fy_chain_run_cached(r, layer, head, false, p->n, p->keys[i]);
        fy_chain_run_cached(r, layer, head, true, p->n, p->values[i]);
    }
    return 0;
}

static int compute(fy_model *m, const fy_ids *ids, int n_threads, fy_chain_preset *p, fy_err *e)
{
    const fy_session_params how = {
        .n_ctx = fy_model_max_ctx(m), .n_threads = n_threads, .type_k = FY_F32, .type_v = FY_F32};
    if (ids->n + 1 > how.n_ctx)
        return fy_fail(e, FY_EFIT,
                       "the preset has %zu tokens, and the cache of the graphs %u slots", ids->n,
                       how.n_ctx);
    fy_session *s = fy_session_new(m, &how, e);
    int rc = s != NULL ? fy_session_eval(s, ids->id, (uint32_t)ids->n, NULL, NULL, e) : -1;
    p->n = (uint32_t)ids->n;
    p->ids = rc == 0 ? malloc(ids->n * sizeof *p->ids) : NULL;
    if (rc == 0 && p->ids == NULL)
        rc = fy_nomem(e);
    if (rc == 0) {
        memcpy(p->ids, ids->id, ids->n * sizeof *p->ids);
        rc = take_cached(s, fy_model_hparams(m), p, e);
    }
    fy_session_free(s);
    return rc;
}

int fy_preset_compute(const char *weights, const char *qnn, const fy_npu_recipe *recipe,
                      const fy_ids *ids, int n_threads, fy_chain_preset *out, fy_err *e)
{
    const fy_map_options map = {0};
    const fy_graph_float_options o = {.recipe = recipe, .rope_nodes = true};
    fy_chain_preset p = {0};
    fy_model *m = fy_model_open_chunk(weights, &map, e);
    fy_graph_device *device = m != NULL ? fy_graph_float_open(&map, &o, e) : NULL;
    int rc = device != NULL ? fy_model_add_graphs(m, qnn, device, FY_PRESET_AUTO, e) : -1;
    if (rc == 0)
        rc = compute(m, ids, n_threads, &p, e);
    fy_model_close(m);
    if (rc == 0)
        *out = p;
    else
        fy_chain_preset_release(&p);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

static int write_file(const char *qnn, const fy_str *rel, const float *v, size_t n, fy_err *e)
{
    if (rel->oom)
        return fy_nomem(e);
    char *path = fy_path_make(qnn, fy_str_z(rel), e);
    const int rc = path != NULL ? fy_file_write(path, v, n * sizeof *v, e) : -1;
    free(path);
    return rc;
}

int fy_preset_write(const fy_chain_preset *p, const fy_qnn_config *c, const fy_hparams *hp,
                    const char *qnn, fy_err *e)
{
    fy_str rel = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->n_pairs; i++) {
        const uint32_t layer = (uint32_t)(i / hp->n_head_kv), head = (uint32_t)(i % hp->n_head_kv);
        fy_str_clear(&rel);
        fy_qnn_preset_path(c, layer, "key", head, &rel);
        rc = write_file(qnn, &rel, p->keys[i], (size_t)p->n * hp->head_dim, e);
        fy_str_clear(&rel);
        fy_qnn_preset_path(c, layer, "value", head, &rel);
        if (rc == 0)
            rc = write_file(qnn, &rel, p->values[i], (size_t)p->n * hp->head_dim_v, e);
    }
    fy_str_release(&rel);
    return rc;
}
