/* session_logits LIBRARY DIR OUT N <PROMPTS: what qnn_driver.c does, by a session of ferry on a QNN
 * library: for each line of token ids the N likeliest that follow, and in OUT all logits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/graph_qnn.h"
#include "base/str.h"
#include "cli/cut_model.h"

enum { MOST_IDS = 1 << 16 };

typedef struct {
    FILE *out;
    float *last; /* [n_vocab] */
    uint32_t n_vocab;
} sink;

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    sink *s = user;
    (void)first;
    memcpy(s->last, logits + (size_t)(n - 1) * s->n_vocab, s->n_vocab * sizeof *logits);
    return fwrite(logits, sizeof *logits * s->n_vocab, n, s->out) == n
               ? 0
               : fy_fail(e, FY_EIO, "cannot be written");
}

static int32_t likeliest(const sink *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->n_vocab; i++)
        best = s->last[i] > s->last[best] ? i : best;
    return (int32_t)best;
}

static int answer(fy_session *s, sink *k, const int32_t *ids, uint32_t n, uint32_t n_more,
                  fy_err *e)
{
    const fy_eval_sinks sinks = {.logits = keep, .user = k};
    fy_session_rewind(s, 0);
    int rc = fy_session_eval(s, ids, n, &sinks, NULL, e);
    for (uint32_t i = 0; rc == 0 && i < n_more; i++) {
        const int32_t id = likeliest(k);
        printf("%s%d", i > 0 ? " " : "", id);
        if (i + 1 < n_more)
            rc = fy_session_eval(s, &id, 1, &sinks, NULL, e);
    }
    putchar('\n');
    return rc;
}

static int run(const char *library, const char *dir, sink *k, uint32_t n_more, fy_err *e)
{
    static int32_t ids[MOST_IDS];
    static char line[MOST_IDS * 8];
    char weights[4096], qnn[4096];
    snprintf(weights, sizeof weights, "%s/ggml/weights.gguf", dir);
    snprintf(qnn, sizeof qnn, "%s/qnn", dir);
    const fy_map_options map = {0};
    fy_graph_device *d = fy_graph_qnn_open(library, FY_QNN_SAVER, false, e);
    fy_model *m = d != NULL ? fy_model_open_chunk(weights, &map, e) : NULL;
    int rc = m != NULL ? fy_model_add_graphs(m, qnn, d, FY_PRESET_AUTO, e) : -1;
    const fy_session_params p = {.n_threads = 1, .n_ctx = rc == 0 ? fy_model_max_ctx(m) : 0};
    fy_session *s = rc == 0 ? fy_session_new(m, &p, e) : NULL;
    k->n_vocab = s != NULL ? fy_model_hparams(m)->n_vocab : 0;
    k->last = calloc(k->n_vocab + 1, sizeof *k->last);
    rc = s == NULL ? -1 : k->last == NULL ? fy_nomem(e) : 0;
    while (rc == 0 && fgets(line, sizeof line, stdin) != NULL) {
        uint32_t n = 0;
        for (char *t = strtok(line, " \n"); t != NULL && n < MOST_IDS; t = strtok(NULL, " \n"))
            ids[n++] = (int32_t)strtol(t, NULL, 10);
        if (n > 0)
            rc = answer(s, k, ids, n, n_more, e);
    }
    free(k->last);
    fy_session_free(s);
    fy_model_close(m);
    return rc;
}

int main(int argc, char **argv)
{
    fy_err e = {0};
    sink k = {0};
    if (argc != 5)
        return 2;
    k.out = fopen(argv[3], "wb");
    if (k.out == NULL)
        return 2;
    const int rc = run(argv[1], argv[2], &k, (uint32_t)atoi(argv[4]), &e);
    if (rc != 0)
        fprintf(stderr, "%s\n", e.msg);
    return fclose(k.out) == 0 && rc == 0 ? 0 : 1;
}
