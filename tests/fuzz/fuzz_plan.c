/* ferry plan: whatever a config.json says, it is refused or planned; a plan that fits keeps every
 * limit of its chip, one that does not says why, and what is suggested for it fits. All of it can
 * be shown, with valid JSON.
 *
 * The first bytes choose chip, recipe, context, batches, chunks, layers, memory and KV bits; the
 * rest is config.json. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json_tree.h"
#include "base/math.h"
#include "convert/write/planned_gguf.h"
#include "workspace/npu/plan_show.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 12, MAX_LAYERS = 40 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

static fy_soc_table *g_socs;
static fy_npu_recipes *g_recipes;

static fy_npu_params params_of(const uint8_t *h)
{
    fy_npu_params p = {
        .soc = fy_soc_table_at(g_socs, h[0] % fy_soc_table_n(g_socs)),
        .recipe = fy_npu_recipes_at(g_recipes, h[1] % fy_npu_recipes_n(g_recipes)),
        .n_ctx = fy_le32(h + 2) & INT32_MAX,
        .batch = {h[6] % 2 != 0 ? 2 + h[6] * 4U : 1, 1},
        .n_batches = h[6] % 2 + 1,
        .n_chunks = h[7] % 8,
        .n_layers = h[8] % 64,
        .kv_bits = h[9] % 3 * 8,
        .memory_bytes = (uint64_t)h[10] << (h[11] % 40),
    };
    return p;
}

static void check_pieces(const fy_npu_plan *p, const fy_npu_chunk *piece, uint32_t n)
{
    const fy_soc *s = p->params.soc;
    for (uint32_t i = 0; i < n; i++) {
        require(piece[i].file_bytes <= s->file_bytes && piece[i].bytes <= s->context_bytes);
        require(piece[i].session < p->n_sessions && piece[i].kv_bytes <= piece[i].io_bytes);
    }
}

static void check_fits(const fy_npu_plan *p, const fy_npu_model *m)
{
    require(p->n_chunks > 0 && p->n_heads > 0 && p->n_sessions <= p->params.soc->n_sessions);
    check_pieces(p, p->chunks, p->n_chunks);
    check_pieces(p, p->heads, p->n_heads);
    require(p->chunks[0].first_layer == 0);
    for (uint32_t i = 1; i < p->n_chunks; i++)
        require(p->chunks[i].first_layer == p->chunks[i - 1].end_layer);
    require(p->chunks[p->n_chunks - 1].end_layer == p->params.n_layers);
    require(p->heads[p->n_heads - 1].end_token == m->hp.n_vocab);
    require(p->params.memory_bytes == 0 || p->npu_peak <= p->params.memory_bytes);
}

static void show(const fy_plan_model *m, const fy_npu_plan *p, const fy_npu_suggestion *s)
{
    const fy_plan_view v = {.model = m, .plan = p, .suggestion = s};
    fy_str out = {0};
    fy_plan_put_text(&out, &v, 100, true);
    require(out.len > 0 && !out.oom);
    fy_str_clear(&out);
    require(fy_plan_put_json(&out, &v, NULL) == 0);
    json_t *top = fy_json_data((fy_span){out.ptr, out.len}, NULL);
    require(top != NULL && json_is_boolean(json_object_get(top, "fits")));
    json_decref(top);
    fy_str_release(&out);
}

static void plan(const fy_plan_model *m, const fy_npu_params *asked)
{
    fy_npu_plan p, again;
    fy_npu_suggestion s = {0};
    fy_err e = {0};
    if (fy_npu_plan_make(&m->npu, asked, &p, &e) != 0) {
        require(e.code == FY_EARG && e.msg[0] != '\0');
        return;
    }
    if (p.fits) {
        check_fits(&p, &m->npu);
    } else {
        require(p.limit != FY_NPU_LIMIT_NONE && p.why.code == FY_EFIT);
        require(fy_npu_suggest(&m->npu, asked, g_recipes, &s, &e) == 0);
    }
    if (s.found) {
        require(fy_npu_plan_make(&m->npu, &s.params, &again, &e) == 0 && again.fits);
        check_fits(&again, &m->npu);
        fy_npu_plan_release(&again);
    }
    show(m, &p, p.fits ? NULL : &s);
    fy_npu_plan_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_hf_config c;
    fy_plan_model m = {.path = "config.json", .checkpoint = true};
    fy_err e = {0};
    if (g_socs == NULL) {
        g_socs = fy_soc_table_open(NULL, NULL);
        g_recipes = fy_npu_recipes_open(NULL);
        require(g_socs != NULL && g_recipes != NULL);
    }
    if (size < HEAD)
        return 0;
    int rc = fy_hf_config_parse(&c, data + HEAD, size - HEAD, "config.json", &e);
    if (rc == 0 && c.hp.n_layer <= MAX_LAYERS &&
        fy_config_header(&c, "/nonexistent", FY_F16, &m.header, &e) == 0) {
        m.gguf = fy_gguf_parse(m.header.ptr, m.header.len, m.path, true, &e);
        if (m.gguf != NULL && fy_npu_model_of(&m.npu, m.gguf, &e) == 0) {
            const fy_npu_params p = params_of(data);
            plan(&m, &p);
        }
    }
    fy_plan_model_release(&m);
    fy_hf_config_release(&c);
    return 0;
}
