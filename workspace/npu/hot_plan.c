/* `ferry plan --hot`: the hot neurons of a model, as a table, and as PowerInfer's split file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/opts.h"
#include "cli/terminal.h"
#include "format/gguf.h"
#include "workspace/npu/hot_neurons.h"

enum { NAME_BYTES = 48 };

typedef struct {
    const fy_hot_plan *asked;
    fy_neuron_counts counts; /* owned */
    fy_neuron_split split;   /* owned */
    uint64_t *n_hot;         /* owned, [counts.n_layer] */
    uint64_t neuron_bytes;   /* of the layer where a neuron takes most */
    uint64_t capacity;       /* neurons */
} plan;

static const fy_gguf_tensor *find(const fy_gguf *g, uint32_t layer, const char *what)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s.weight", layer, what);
    return fy_gguf_tensor_find(g, name);
}

/* The rows of a layer's neuron, and the column of a down matrix that is not transposed. */
static uint64_t bytes_of_neuron(const fy_gguf *g, uint32_t layer, uint64_t n)
{
    static const char *const matrices[] = {"ffn_gate", "ffn_up", "ffn_down_t", "ffn_down"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        const fy_gguf_tensor *t = find(g, layer, matrices[i]);
        bytes += t != NULL ? t->bytes / n : 0;
    }
    return bytes;
}

/* Are the counts those of this model? */
static int check_model(plan *p, const fy_gguf *g, fy_err *e)
{
    for (uint32_t l = 0; l < p->counts.n_layer; l++) {
        const uint64_t n = p->counts.layers[l].n;
        const fy_gguf_tensor *up = find(g, l, "ffn_up");
        if ((up != NULL ? up->ne[1] : 0) != n)
            return fy_fail(e, FY_EFORMAT,
                           "%s: layer %" PRIu32 ": counts of %" PRIu64
                           " neurons, but %s has %" PRIu64 " there: counted on another model",
                           p->asked->activations, l, n, p->asked->model,
                           up != NULL ? up->ne[1] : 0);
        const uint64_t bytes = n > 0 ? bytes_of_neuron(g, l, n) : 0;
        p->neuron_bytes = bytes > p->neuron_bytes ? bytes : p->neuron_bytes;
    }
    if (find(g, p->counts.n_layer, "ffn_up") != NULL)
        return fy_fail(e, FY_EFORMAT,
                       "%s: counts of %" PRIu32
                       " layers, but %s has more: counted on another model",
                       p->asked->activations, p->counts.n_layer, p->asked->model);
    return 0;
}

static int read_capacity(plan *p, fy_err *e)
{
    const char *text = p->asked->hot;
    int64_t n;
    if (!fy_parse_size(text, &n) || n < 0)
        return fy_fail(e, FY_EARG,
                       "--hot %s: expected a number of neurons, or bytes with K, M or G", text);
    const bool bytes = text[strspn(text, "0123456789")] != '\0';
    p->capacity = bytes ? (uint64_t)n / p->neuron_bytes : (uint64_t)n;
    return 0;
}

static double sum_of(const plan *p, uint32_t layer, bool hot_ones)
{
    const fy_layer_counts *c = &p->counts.layers[layer];
    const fy_layer_split *s = &p->split.layers[layer];
    double sum = 0;
    for (uint64_t i = 0; i < (hot_ones ? s->n_hot : c->n); i++)
        sum += c->of[hot_ones ? (uint64_t)s->hot[i] : i];
    return sum;
}

/* --- what is shown ---------------------------------------------------------------------------- */

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static int show(const plan *p, fy_err *e)
{
    fy_str s = {0};
    fy_json_maker m = {0};
    json_t *list = p->asked->json ? json_array() : NULL;
    uint64_t n = 0, n_hot = 0;
    double all = 0, hot = 0;
    int rc = 0;
    if (!p->asked->json)
        fy_str_puts(&s, "layer  neurons      hot  of its activations\n");
    for (uint32_t l = 0; l < p->counts.n_layer; l++) {
        const fy_layer_split *layer = &p->split.layers[l];
        const double of_all = sum_of(p, l, false), of_hot = sum_of(p, l, true);
        n += layer->n, n_hot += layer->n_hot, all += of_all, hot += of_hot;
        if (p->asked->json)
            fy_make_append(&m, list,
                           json_pack("{s:I, s:I, s:f}", "neurons", (json_int_t)layer->n, "hot",
                                     (json_int_t)layer->n_hot, "share", share(of_hot, of_all)));
        else
            fy_str_printf(&s, "%5" PRIu32 " %8" PRIu64 " %8" PRIu64 "  %.1f %%\n", l, layer->n,
                          layer->n_hot, 100 * share(of_hot, of_all));
    }
    if (p->asked->json) {
        json_t *top = json_object();
        fy_make_set(&m, top, "neurons", fy_make_u64(n));
        fy_make_set(&m, top, "hot", fy_make_u64(n_hot));
        fy_make_set(&m, top, "hot_bytes", fy_make_u64(n_hot * p->neuron_bytes));
        fy_make_set(&m, top, "share", json_real(share(hot, all)));
        fy_make_set(&m, top, "layers", list);
        rc = fy_make_end(&m, top, &s, e);
    } else {
        fy_str_printf(&s,
                      "%" PRIu64 " of %" PRIu64 " neurons, %.1f of %.1f MB, have %.1f %% of the "
                      "activations\n",
                      n_hot, n, (double)(n_hot * p->neuron_bytes) * 1e-6,
                      (double)(n * p->neuron_bytes) * 1e-6, 100 * share(hot, all));
    }
    if (rc == 0)
        rc = fy_stdout_text(&s, e);
    fy_str_release(&s);
    return rc;
}

/* --- the work --------------------------------------------------------------------------------- */

static int write_split(plan *p, fy_err *e)
{
    uint32_t n_cold = 0;
    for (uint32_t l = 0; l < p->split.n_layer; l++)
        n_cold += p->split.layers[l].n_hot == 0;
    p->split.capacity_bytes = p->capacity * p->neuron_bytes;
    if (n_cold > 0)
        fy_log(FY_LOG_WARN,
               "%s: %u layers have no hot neuron: ferry takes that, PowerInfer's loader does not",
               p->asked->out, n_cold);
    return fy_neuron_split_write(&p->split, p->asked->out, e);
}

static int solve(plan *p, const fy_gguf *g, fy_err *e)
{
    p->n_hot = calloc((size_t)p->counts.n_layer + 1, sizeof *p->n_hot);
    if (p->n_hot == NULL)
        return fy_nomem(e);
    if (check_model(p, g, e) != 0 || read_capacity(p, e) != 0 ||
        fy_hot_solve(&p->counts, p->capacity, p->asked->least, p->n_hot, e) != 0 ||
        fy_hot_split(&p->counts, p->n_hot, &p->split, e) != 0 ||
        (p->asked->out != NULL && write_split(p, e) != 0))
        return -1;
    return show(p, e);
}

int fy_hot_plan_run(const fy_hot_plan *asked, fy_err *e)
{
    plan p = {.asked = asked};
    fy_gguf *g = fy_gguf_open(asked->model, e);
    if (g == NULL)
        return -1;
    int rc = -1;
    if (asked->out != NULL && (fy_file_is_same(asked->out, asked->model) ||
                               fy_file_is_same(asked->out, asked->activations)))
        fy_fail(e, FY_EARG, "%s: is an input, expected another name for the split file",
                asked->out);
    else if (fy_neuron_counts_open(&p.counts, asked->activations, e) == 0)
        rc = solve(&p, g, e);
    fy_neuron_split_release(&p.split);
    fy_neuron_counts_release(&p.counts);
    free(p.n_hot);
    fy_gguf_close(g);
    return rc;
}
