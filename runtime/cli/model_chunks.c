/* Turns the graphs of qnn/config.json into a chain that the CPU computes. */
#include "cli/model_chunks.h"

#include <stdlib.h>

#include "cli/cut_model.h"
#include "model/chain.h"

static int put_graph(const fy_qnn_graph *g, const char *qnn, uint32_t n_vocab,
                     fy_chain_graph_spec *to, fy_err *e)
{
    const bool head = g->start_layer == g->end_layer;
    if (!fy_qnn_is_gguf(g))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s/%s is compiled for an NPU, and this program has no backend for one: it "
                       "computes GGUF chunks ('ferry chunk') on the CPU",
                       qnn, g->model_path);
    *to = (fy_chain_graph_spec){.path = fy_path_join(qnn, g->model_path),
                                .name = g->graph_name,
                                .n_batch = g->batch_size,
                                .first_layer = g->start_layer,
                                .end_layer = g->end_layer,
                                .first_token = g->first_token,
                                .end_token = head && g->end_token == 0 ? n_vocab : g->end_token};
    return to->path != NULL ? 0 : fy_nomem(e);
}

static int put_graphs(const fy_qnn_config *c, const char *qnn, uint32_t n_vocab,
                      fy_chain_graph_spec *to, fy_err *e)
{
    for (size_t i = 0; i < c->n_graphs + c->n_embeddings; i++) {
        const fy_qnn_graph *g = i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
        if (put_graph(g, qnn, n_vocab, &to[i], e) != 0)
            return -1;
    }
    if (c->kv_size > 0)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the graphs begin behind a preset of %u tokens (kv_size), expected none",
                       c->kv_size);
    return 0;
}

static int add(fy_model *m, const fy_chain_spec *spec, const fy_map_options *how, fy_err *e)
{
    fy_graph_device *device = fy_graph_cpu_open(how, e);
    return device != NULL ? fy_model_chain(m, device, spec, e) : -1;
}

int fy_model_add_chunks(fy_model *m, const char *qnn, const fy_map_options *how, fy_err *e)
{
    fy_qnn_config c;
    if (fy_cut_config_read(qnn, &c, e) != 0)
        return -1;
    const size_t n = c.n_graphs + c.n_embeddings;
    fy_chain_graph_spec *graphs = calloc(n, sizeof *graphs);
    const fy_chain_spec spec = {.graphs = graphs,
                                .n_graphs = n,
                                .n_cache = c.cache_size,
                                .n_ctx = c.context_size,
                                .mask_value = (float)c.attention_mask_value,
                                .model = c.own.model};
    int rc = graphs != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        rc = put_graphs(&c, qnn, fy_model_hparams(m)->n_vocab, graphs, e);
    if (rc == 0 && (rc = add(m, &spec, how, e)) != 0)
        fy_ctx(e, "%s", qnn);
    for (size_t i = 0; graphs != NULL && i < n; i++)
        free((char *)(uintptr_t)graphs[i].path);
    free(graphs);
    fy_qnn_config_release(&c);
    return rc;
}

int fy_model_each_file(const fy_model *m, fy_model_file *each, void *user, fy_err *e)
{
    each(user, fy_model_gguf(m));
    for (size_t i = 0; i < fy_model_n_chunks(m); i++) {
        fy_gguf *g = fy_gguf_open(fy_model_chunk_path(m, i), e);
        if (g == NULL)
            return -1;
        each(user, g);
        fy_gguf_close(g);
    }
    return 0;
}
