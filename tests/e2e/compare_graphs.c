/* compare_graphs [--rope-nodes] DIR RECIPE IDS: runs ids that follow from their number through the
 * chunks of a cut model on the engine, and through the graphs composed for a recipe on the float
 * interpreter. Prints the largest difference of a logit, divided by the largest logit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cut_model.h"
#include "workspace/compile/graph_float.h"

typedef struct {
    float *logits; /* [n][n_vocab] */
    size_t n_vocab;
} result;

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    result *r = user;
    memcpy(r->logits + first * r->n_vocab, logits, n * r->n_vocab * sizeof *logits);
    return 0;
}

static int evaluate(const char *dir, fy_graph_device *device, uint32_t n, result *out, fy_err *e)
{
    char weights[4096], qnn[4096];
    snprintf(weights, sizeof weights, "%s/ggml/weights.gguf", dir);
    snprintf(qnn, sizeof qnn, "%s/qnn", dir);
    const fy_map_options map = {0};
    const fy_session_params p = {.n_threads = 2, .type_k = FY_F32, .type_v = FY_F32};
    const fy_eval_sinks sinks = {.logits = keep, .user = out};
    fy_model *m = device != NULL ? fy_model_open_chunk(weights, &map, e) : NULL;
    int rc = m != NULL ? fy_model_add_graphs(m, qnn, device, FY_PRESET_AUTO, e) : -1;
    fy_session *s = rc == 0 ? fy_session_new(m, &p, e) : NULL;
    int32_t *ids = calloc(n, sizeof *ids);
    if (s != NULL && ids != NULL) {
        out->n_vocab = fy_model_hparams(m)->n_vocab;
        out->logits = calloc((size_t)n * out->n_vocab, sizeof(float));
        for (uint32_t i = 0; i < n; i++)
            ids[i] = (int32_t)((i * 2654435761u >> 7) % out->n_vocab);
        rc = fy_session_eval(s, ids, n, &sinks, NULL, e);
    } else {
        rc = -1;
    }
    free(ids);
    fy_session_free(s);
    fy_model_close(m);
    return rc;
}

int main(int argc, char **argv)
{
    const bool nodes = argc == 5 && strcmp(argv[1], "--rope-nodes") == 0;
    fy_err e = {0};
    result want = {0}, found = {0};
    if (argc != 4 + nodes)
        return 2;
    argv += nodes;
    const fy_map_options map = {0};
    const uint32_t n = (uint32_t)atoi(argv[3]);
    fy_npu_recipes *recipes = fy_npu_recipes_open(&e);
    const fy_npu_recipe *r = recipes != NULL ? fy_npu_recipes_find(recipes, argv[2], &e) : NULL;
    const fy_graph_float_options o = {.recipe = r, .rope_nodes = nodes};
    double worst = 0, largest = 0;
    int rc = r == NULL ? -1 : evaluate(argv[1], fy_graph_cpu_open(&map, &e), n, &want, &e);
    if (rc == 0)
        rc = evaluate(argv[1], fy_graph_float_open(&map, &o, &e), n, &found, &e);
    for (size_t i = 0; rc == 0 && i < n * want.n_vocab; i++) {
        const double d = fabs((double)want.logits[i] - (double)found.logits[i]);
        worst = d > worst || isnan(d) ? d : worst;
        largest = fabs((double)want.logits[i]) > largest ? fabs((double)want.logits[i]) : largest;
    }
    if (rc == 0)
        printf("%.3g\n", worst / largest);
    else
        fprintf(stderr, "%s\n", e.msg);
    free(want.logits);
    free(found.logits);
    fy_npu_recipes_free(recipes);
    return rc == 0 ? 0 : 1;
}
