/* Describes a context binary by what the library of metadata says. */
#include "backend/qnn/qnn_metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_graph.h"
#include "backend/qnn/qnn_system.h"
#include "base/hash.h"

/* Scale and offset; floats have none. */
static int put_encoding(const fy_qnn_tensor_v1 *t, fy_qnn_sidecar_tensor *to, fy_err *e)
{
    if (fy_qnn_type_name(t->type) == NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "has a type that ferry does not know (0x%x)", t->type);
    if (t->type == FY_QNN_FLOAT_16 || t->type == FY_QNN_FLOAT_32)
        return 0;
    if (t->quant.definition != 1 || t->quant.encoding != FY_QNN_SCALE_OFFSET)
        return fy_fail(e, FY_EUNSUPPORTED, "has fixed numbers without one scale and offset");
    to->scale = (double)t->quant.u.scale_offset.scale;
    to->offset = t->quant.u.scale_offset.offset;
    return 0;
}

static int put_tensor(const fy_qnn_tensor_v1 *t, bool output, fy_qnn_sidecar *s,
                      fy_qnn_sidecar_tensor *to, fy_err *e)
{
    if (t->rank > FY_QNN_SIDECAR_RANK)
        return fy_fail(e, FY_EUNSUPPORTED, "has rank %u, expected at most %d", t->rank,
                       FY_QNN_SIDECAR_RANK);
    *to = (fy_qnn_sidecar_tensor){
        .name = strdup(t->name), .id = t->id, .type = t->type, .rank = t->rank, .output = output};
    if (to->name == NULL)
        return fy_nomem(e);
    memcpy(to->dims, t->dims, t->rank * sizeof *t->dims);
    if (put_encoding(t, to, e) != 0)
        return -1;
    if (!output && (strcmp(t->name, "attn_bias") == 0 || strcmp(t->name, "attn_bias_swa") == 0)) {
        s->mask_type = t->type;
        s->mask_depth = -to->scale * (double)to->offset;
    }
    return 0;
}

static int put_tensors(const fy_qnn_tensor *list, uint32_t n, bool output, fy_qnn_sidecar *s,
                       fy_qnn_sidecar_graph *to, fy_err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        fy_qnn_sidecar_tensor *t = &to->tensors[to->n_tensors++];
        if (put_tensor(&list[i].u.v1, output, s, t, e) != 0)
            return fy_ctx(e, "graph '%s': '%s'", to->name, list[i].u.v1.name);
    }
    return 0;
}

static int put_graph(const fy_qnn_graph_io *g, fy_qnn_sidecar *s, fy_err *e)
{
    fy_qnn_sidecar_graph *to = &s->graphs[s->n_graphs++];
    to->name = strdup(g->name);
    to->tensors = calloc((size_t)g->n_inputs + g->n_outputs + 1, sizeof *to->tensors);
    if (to->name == NULL || to->tensors == NULL)
        return fy_nomem(e);
    /* What comes out has a row for each token of the call. */
    to->n_batch = g->n_outputs > 0 ? g->outputs[0].u.v1.dims[0] : 0;
    return put_tensors(g->inputs, g->n_inputs, false, s, to, e) != 0
               ? -1
               : put_tensors(g->outputs, g->n_outputs, true, s, to, e);
}

static void put_origin(const fy_qnn_binary *b, uint64_t bytes, fy_qnn_sidecar *s)
{
    s->bytes = bytes;
    s->soc_id = b->soc;
    snprintf(s->core, sizeof s->core, "%u.%u.%u", b->core.major, b->core.minor, b->core.patch);
    if (b->build_id != NULL)
        fy_quote(s->build_id, sizeof s->build_id, fy_span_of(b->build_id));
}

/* What a file has to have and no library tells: values that hold, or none. */
static void put_unknown(fy_qnn_sidecar *s, bool hold)
{
    char *const hashes[] = {s->model, s->sha256, s->library_sha256};
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++)
        memset(hashes[i], hold ? '0' : '\0', FY_SHA256_HEX - 1);
    snprintf(s->soc, sizeof s->soc, "%s", hold ? "?" : "");
    snprintf(s->recipe, sizeof s->recipe, "%s", hold ? "?" : "");
    s->arch = s->vtcm_mb = hold;
}

/* By way of its text, so that a library is believed no more than a file. */
static int check(fy_qnn_sidecar *s, fy_qnn_sidecar *out, fy_err *e)
{
    fy_str text = {0};
    put_unknown(s, true);
    fy_qnn_sidecar_put(s, &text);
    const int rc = text.oom ? fy_nomem(e) : fy_qnn_sidecar_parse(text.ptr, text.len, out, e);
    fy_str_release(&text);
    if (rc != 0)
        return fy_ctx(e, "what the QNN system library says of it");
    put_unknown(out, false);
    return 0;
}

static int recover(const fy_qnn_binary *b, uint64_t bytes, fy_qnn_sidecar *s, fy_err *e)
{
    s->graphs = calloc(b->n_graphs, sizeof *s->graphs);
    if (s->graphs == NULL)
        return fy_nomem(e);
    put_origin(b, bytes, s);
    for (uint32_t i = 0; i < b->n_graphs; i++) {
        if (put_graph(&b->graph[i], s, e) != 0)
            return -1;
    }
    s->shared = b->n_graphs > 1; /* as far as is known */
    return 0;
}

int fy_qnn_sidecar_recover(const char *library, const void *binary, uint64_t bytes,
                           fy_qnn_sidecar *out, fy_err *e)
{
    fy_qnn_sidecar s = {0};
    fy_qnn_binary *b = malloc(sizeof *b);
    *out = (fy_qnn_sidecar){0};
    int rc = b != NULL ? fy_qnn_binary_open(library, binary, bytes, b, e) : fy_nomem(e);
    if (rc == 0) {
        rc = recover(b, bytes, &s, e);
        fy_qnn_binary_close(b);
    }
    if (rc == 0)
        rc = check(&s, out, e);
    fy_qnn_sidecar_release(&s);
    free(b);
    return rc;
}
