/* A text through the composed graphs twice: in floats, and rounded to the codes. */
#include "workspace/compile/canary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cut_model.h"
#include "workspace/compile/graph_float.h"

enum { N_IDS = 48, LEAST_IDS = 8, FEW_CALLS = 2 };

static const char text[] =
    "Once upon a time there was a little girl who lived with her grandmother in a house near the "
    "forest. One day she asked: \"What do we need for dinner, and where can I find it?\" Her "
    "grandmother smiled, gave her a basket and said that three apples, some bread and a bottle of "
    "milk would be enough for both of them until the morning came.";

/* Of the text. Each call that rounds encodes the whole model, so small batches get a shorter one.
 */
static size_t wanted_ids(uint32_t batch)
{
    const size_t n = (size_t)FEW_CALLS * batch;
    return n > N_IDS ? N_IDS : n < LEAST_IDS ? LEAST_IDS : n;
}

/* The preset, and as much of the text as the cache has slots for. */
static int take_ids(const fy_canary_source *s, fy_model *m, uint32_t batch, fy_canary *c, fy_err *e)
{
    fy_ids ids = {0};
    const size_t n_preset = s->preset->n, n_ctx = fy_model_max_ctx(m);
    const size_t room = n_ctx > n_preset ? n_ctx - n_preset : 0;
    const fy_vocab *v = fy_model_vocab(m, e);
    int rc = v == NULL ? -1
                       : fy_vocab_encode(v, (fy_span){text, sizeof text - 1}, n_preset == 0, false,
                                         &ids, e);
    size_t n = ids.n < wanted_ids(batch) ? ids.n : wanted_ids(batch);
    n = n < room ? n : room;
    c->n_ids = n_preset + n;
    c->ids = rc == 0 ? calloc(c->n_ids + 1, sizeof *c->ids) : NULL;
    if (rc == 0 && c->ids == NULL)
        rc = fy_nomem(e);
    if (rc == 0 && (n == 0 || c->n_ids > FY_CANARY_IDS))
        rc = fy_fail(e, FY_EFIT, "canary: %zu tokens, expected 1 to %d", c->n_ids, FY_CANARY_IDS);
    if (rc == 0) {
        if (n_preset > 0)
            memcpy(c->ids, s->preset->id, n_preset * sizeof *c->ids);
        memcpy(c->ids + n_preset, ids.id, n * sizeof *c->ids);
        c->n_positions = (n + 1) / 2 < FY_CANARY_POSITIONS ? (n + 1) / 2 : FY_CANARY_POSITIONS;
    }
    fy_ids_release(&ids);
    return rc;
}

typedef struct {
    fy_canary *c;
    uint32_t n_vocab;
    bool compares;
    double sum; /* of KL divergences */
    size_t n;
} listener;

static int listen(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    listener *l = user;
    const size_t begin = l->c->n_ids - l->c->n_positions;
    for (size_t i = first; i < (size_t)first + n; i++, logits += l->n_vocab) {
        double kl;
        if (i < begin)
            continue;
        if (!l->compares) {
            fy_canary_keep(l->c, i - begin, logits, l->n_vocab);
            continue;
        }
        if (fy_canary_kl(l->c, i - begin, logits, l->n_vocab, &kl, e) != 0)
            return -1;
        l->sum += kl;
        l->n++;
    }
    return 0;
}

static int eval(fy_session *session, listener *l, size_t first, size_t end, fy_err *e)
{
    const fy_eval_sinks sinks = {.logits = listen, .user = l};
    if (first == end)
        return 0;
    return fy_session_eval(session, l->c->ids + first, (uint32_t)(end - first), &sinks, NULL, e);
}

static int ask(const fy_canary_source *s, fy_model *m, fy_graph_device *device, fy_canary *c,
               fy_err *e)
{
    const fy_session_params p = {.n_ctx = fy_model_max_ctx(m),
                                 .n_threads = s->n_threads,
                                 .type_k = FY_F32,
                                 .type_v = FY_F32};
    listener l = {.c = c, .n_vocab = fy_model_hparams(m)->n_vocab};
    c->n_top = l.n_vocab < FY_CANARY_TOP ? l.n_vocab : FY_CANARY_TOP;
    fy_session *session = fy_session_new(m, &p, e);
    int rc = session != NULL ? eval(session, &l, 0, s->preset->n, e) : -1;
    if (rc == 0)
        rc = eval(session, &l, s->preset->n, c->n_ids, e);
    if (rc == 0) {
        fy_session_rewind(session, (uint32_t)s->preset->n);
        fy_graph_float_round(device, true);
        l.compares = true;
        rc = eval(session, &l, s->preset->n, c->n_ids, e);
    }
    if (rc == 0)
        c->kl = l.sum / (double)l.n;
    if (rc == 0 && !isfinite(c->kl))
        rc = fy_fail(e, FY_EFORMAT, "canary: a logit of the rounded model is not finite");
    fy_session_free(session);
    return rc;
}

int fy_canary_make(const fy_canary_source *s, fy_canary *out, fy_err *e)
{
    const fy_map_options map = {0};
    const fy_graph_float_options o = {
        .recipe = s->recipe, .rope_nodes = true, .codes = true, .ranges = s->ranges};
    fy_qnn_config config;
    fy_canary c = {0};
    if (fy_cut_config_read(s->qnn, &config, e) != 0)
        return -1;
    snprintf(c.model, sizeof c.model, "%s", config.own.model);
    fy_model *m = fy_model_open_chunk(s->weights, &map, e);
    fy_graph_device *device = m != NULL ? fy_graph_float_open(&map, &o, e) : NULL;
    int rc = device != NULL ? fy_model_add_graphs(m, s->qnn, device, FY_PRESET_AUTO, e) : -1;
    if (rc == 0)
        rc = take_ids(s, m, config.max_batch, &c, e);
    if (rc == 0)
        rc = ask(s, m, device, &c, e);
    fy_model_close(m);
    fy_qnn_config_release(&config);
    if (rc == 0)
        *out = c;
    else
        fy_canary_release(&c);
    return rc;
}
