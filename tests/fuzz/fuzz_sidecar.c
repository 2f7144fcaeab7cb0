/* Descriptions of context binaries: what is accepted keeps what the header promises, and is the
 * same after it was written and read again. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_abi.h"
#include "backend/qnn/qnn_sidecar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(const fy_qnn_sidecar *s, const fy_qnn_sidecar_graph *g,
                         const fy_qnn_sidecar_tensor *t)
{
    const bool floats = t->type == FY_QNN_FLOAT_32 || t->type == FY_QNN_FLOAT_16;
    const bool cache = !t->output && strncmp(t->name, "layer_", 6) == 0;
    uint64_t n = 4;
    if (t->rank < 1 || t->rank > FY_QNN_SIDECAR_RANK || (!cache && t->dims[0] != g->n_batch))
        abort();
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0)
            abort();
        n *= t->dims[i];
    }
    if (n > UINT32_MAX || !isfinite((float)t->scale) || floats != ((float)t->scale == 0) ||
        (floats && t->offset != 0))
        abort();
    if (!t->output && strcmp(t->name, "attn_bias") == 0 && t->type != s->mask_type)
        abort();
}

static void check(const fy_qnn_sidecar *s)
{
    if (s->n_graphs == 0 || strlen(s->model) != 64 || strlen(s->sha256) != 64 ||
        strlen(s->library_sha256) != 64 || (strlen(s->key) != 64 && s->key[0] != '\0'))
        abort();
    if (s->mask_type == FY_QNN_UFIXED_16 ? !((float)s->mask_depth > 0) : s->mask_depth != 0)
        abort();
    for (size_t g = 0; g < s->n_graphs; g++) {
        const fy_qnn_sidecar_graph *graph = &s->graphs[g];
        if (graph->n_batch == 0 || graph->n_tensors == 0)
            abort();
        for (size_t i = 0; i < graph->n_tensors; i++)
            check_tensor(s, graph, &graph->tensors[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_qnn_sidecar s, again;
    fy_str text = {0}, twice = {0};
    if (fy_qnn_sidecar_parse(data, size, &s, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    check(&s);
    fy_qnn_sidecar_put(&s, &text);
    if (fy_qnn_sidecar_parse(text.ptr, text.len, &again, &e) != 0)
        abort();
    fy_qnn_sidecar_put(&again, &twice);
    if (text.len != twice.len || memcmp(text.ptr, twice.ptr, text.len) != 0)
        abort();
    fy_str_release(&text);
    fy_str_release(&twice);
    fy_qnn_sidecar_release(&s);
    fy_qnn_sidecar_release(&again);
    return 0;
}
