/* Compiles a chunk: composes in this process, talks to the QNN library in a child. */
#include "workspace/compile/compile_chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "backend/qnn/qnn_sidecar.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "bundle/qnn_config.h"
#include "workspace/compile/compile_key.h"
#include "workspace/compile/qemit.h"
#include "workspace/compile/qstatic.h"
#include "workspace/npu/npu_ops.h"
#include "backend/qnn/qnn_child.h"

/* --- graphs ----------------------------------------------------------------------------------- */

int fy_compile_compose(const fy_compile_job *job, bool rope_nodes, fy_compile_graphs *out,
                       fy_err *e)
{
    *out = (fy_compile_graphs){0};
    out->model = fy_model_open_chunk(job->gguf, &(fy_map_options){0}, e);
    if (out->model == NULL)
        return -1;
    fy_qgraph_of of = {.family = fy_model_family(out->model),
                       .hp = fy_model_hparams(out->model),
                       .chunk = fy_model_chunk_info(out->model),
                       .recipe = job->recipe,
                       .has = fy_qgraph_model_has,
                       .user = out->model,
                       .n_cache = job->n_cache,
                       .n_ctx = job->n_ctx,
                       .kv_bits = job->kv_bits,
                       .rope_nodes = rope_nodes};
    for (uint32_t i = 0; i < job->n_graphs; i++) {
        of.n_batch = job->batch[i];
        if (fy_qgraph_compose(&out->graph[i], &of, e) != 0)
            return fy_ctx(e, "%s", job->gguf);
        out->n++;
    }
    return 0;
}

int fy_compile_encode(fy_compile_graphs *g, const fy_q_ranges *ranges, fy_err *e)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (fy_q_encode(&g->graph[i], ranges, &g->encodings[i], e) != 0)
            return -1;
    }
    return 0;
}

void fy_compile_release(fy_compile_graphs *g)
{
    for (uint32_t i = 0; i < FY_NPU_BATCHES; i++) {
        fy_q_encodings_release(&g->encodings[i]);
        fy_qgraph_release(&g->graph[i]);
    }
    fy_model_close(g->model);
    *g = (fy_compile_graphs){0};
}

bool fy_compile_needs_ranges(const fy_compile_graphs *g)
{
    for (size_t i = 0; g->n > 0 && i < g->graph[0].n_tensors; i++) {
        const fy_q_tensor *t = &g->graph[0].tensors[i];
        if (t->range != FY_Q_NONE && t->type != FY_Q_F16 && t->type != FY_Q_F32)
            return true;
    }
    return false;
}

bool fy_compile_shares(const fy_compile_job *job)
{
    return job->n_graphs > 1 && !job->no_sharing && fy_soc_has(job->soc, FY_HTP_WEIGHT_SHARING);
}

void fy_compile_count_of(const fy_compile_graphs *g, const fy_compile_job *job,
                         fy_compile_count *out)
{
    uint64_t ops;
    *out = (fy_compile_count){.shared = fy_compile_shares(job)};
    for (uint32_t k = 0; k < g->n; k++)
        out->n_nodes += (uint32_t)g->graph[k].n_nodes;
    fy_npu_count_graphs(g->graph, g->n, &out->weights, &ops);
    if (!out->shared)
        out->weights = fy_npu_mul(out->weights, g->n);
    out->binary = fy_npu_add(out->weights, ops);
    out->memory = fy_npu_compile_peak(out->weights, ops, g->n);
}

/* --- what the child sends --------------------------------------------------------------------- */

typedef enum { STEP, REFUSED, DONE } message_kind; /* REFUSED: a text follows; DONE: the ids */

typedef struct {
    uint32_t kind, done, total;
    char what[48];
    fy_compiled answer;
    uint8_t sha256[FY_SHA256_BYTES];
    fy_qnn_version core;
} message;

/* --- the child -------------------------------------------------------------------------------- */

typedef struct {
    const fy_compile_job *job;
    const fy_compile_graphs *graphs;
    fy_out *file;    /* the binary, which the child fills */
    fy_qnn_pipe *to; /* both in the child */
    fy_pool *pool;
    message last;   /* in the parent: its last step, or the answer */
    fy_str refused; /* owned */
    fy_str ids;     /* owned; of the border tensors */
    bool done;
} compilation;

static int send_step(void *user, const char *what, uint32_t done, uint32_t total, fy_err *e)
{
    message m = {.kind = STEP, .done = done, .total = total};
    snprintf(m.what, sizeof m.what, "%s", what);
    return fy_qnn_send(((compilation *)user)->to, &m, sizeof m, e);
}

static int send_refusals(compilation *c, const fy_q_refusals *r, fy_err *e)
{
    fy_str text = {0};
    const message m = {.kind = REFUSED, .done = r->n, .total = r->n_kinds};
    fy_str_add(&text, &m, sizeof m);
    fy_str_puts(&text, fy_str_z(&r->text));
    const int rc = text.oom ? fy_nomem(e) : fy_qnn_send(c->to, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

/* Every node of every graph. *no_rope: RotaryEmbedding is refused, whatever else is. */
static int ask(compilation *c, const fy_qnn_lib *lib, const fy_compile_graphs *g, bool *no_rope,
               fy_err *e)
{
    fy_q_refusals r = {0};
    int rc = send_step(c, "asked about every node", 0, 0, e);
    for (uint32_t k = 0; rc == 0 && k < g->n; k++)
        rc = fy_q_validate(lib, &g->graph[k], &g->encodings[k], &r, e);
    *no_rope = r.rope;
    if (rc == 0 && r.n > 0 && !r.rope)
        rc = send_refusals(c, &r, e);
    if (rc == 0 && r.n > 0)
        rc = fy_fail(e, FY_EUNSUPPORTED, "the QNN library refuses %u nodes", r.n);
    fy_q_refusals_release(&r);
    return rc;
}

static int finalize(compilation *c, fy_q_emitted *x, uint32_t n, fy_err *e)
{
    for (uint32_t k = 0; k < n; k++) {
        char what[sizeof c->last.what];
        snprintf(what, sizeof what, "finalizing %s", c->job->name[k]);
        if (send_step(c, what, k, n, e) != 0)
            return -1;
        const fy_qnn_error err = fy_qnn_graph_finalize(&x[k].graph);
        if (err != 0) {
            fy_qnn_fail(x[k].graph.lib, "graphFinalize", err, e);
            return fy_ctx(e, "graph %s", c->job->name[k]);
        }
    }
    return 0;
}

static int write_binary(compilation *c, const fy_qnn_lib *lib, fy_qnn_handle context, message *m,
                        fy_err *e)
{
    uint8_t *p = NULL;
    int rc = send_step(c, "asked for the binary", 0, 0, e);
    if (rc == 0)
        rc = fy_qnn_context_binary(lib, context, &p, &m->answer.bytes, e);
    if (rc == 0)
        rc = fy_sha256_of(p, m->answer.bytes, m->sha256, e);
    if (rc == 0)
        rc = fy_out_resize(c->file, m->answer.bytes, e);
    if (rc == 0)
        rc = fy_out_pwrite(c->file, p, m->answer.bytes, 0, e);
    if (rc == 0)
        rc = fy_out_sync(c->file, 0, e);
    free(p);
    return rc;
}

/* The answer, and the numbers of the border tensors, graph after graph. */
static int send_answer(compilation *c, const fy_compile_graphs *g, const fy_q_emitted *x,
                       message *m, fy_err *e)
{
    fy_str text = {0};
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    m->kind = DONE;
    m->answer.peak_bytes = (uint64_t)use.ru_maxrss * 1024;
    m->answer.weights = x[0].weights;
    m->answer.outputs = x[0].outputs;
    for (uint32_t k = 0; k < g->n; k++)
        m->answer.n_nodes += (uint32_t)g->graph[k].n_nodes;
    fy_str_add(&text, m, sizeof *m);
    for (uint32_t k = 0; k < g->n; k++) {
        const size_t n = fy_qgraph_n_border(&g->graph[k]);
        for (size_t i = 0; i < n; i++)
            fy_str_add(&text, &x[k].tensor[i]->u.v1.id, sizeof(uint32_t));
    }
    const int rc = text.oom ? fy_nomem(e) : fy_qnn_send(c->to, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

static bool has_rope(const fy_compile_graphs *g)
{
    for (size_t i = 0; i < g->graph[0].n_nodes; i++) {
        if (g->graph[0].nodes[i].op == FY_Q_ROPE)
            return true;
    }
    return false;
}

/* Makes all of it. *no_rope: what failed may go without RotaryEmbedding. */
static int make(compilation *c, const fy_qnn_lib *lib, fy_qnn_handle device,
                const fy_qnn_chip *chip, const fy_compile_graphs *g, bool *no_rope, fy_err *e)
{
    const fy_compile_job *job = c->job;
    fy_q_emit_graph graphs[FY_NPU_BATCHES];
    fy_q_emitted x[FY_NPU_BATCHES] = {0};
    fy_q_emit_params p = {.lib = lib,
                          .chip = chip,
                          .model = g->model,
                          .ranges = job->ranges,
                          .inputs = job->inputs,
                          .n_candidates = job->n_candidates,
                          .pool = c->pool,
                          .step = send_step,
                          .user = c};
    message m = {.core = lib->core, .answer.rope_nodes = c->graphs != g};
    memcpy(m.answer.build_id, lib->build_id, sizeof m.answer.build_id);
    for (uint32_t k = 0; k < g->n; k++)
        graphs[k] = (fy_q_emit_graph){job->name[k], &g->graph[k], &g->encodings[k]};
    int rc = ask(c, lib, g, no_rope, e);
    if (rc == 0)
        rc = fy_qnn_context_new(lib, device, fy_compile_shares(job), &p.context, e);
    if (rc == 0)
        rc = fy_q_emit(&p, graphs, g->n, x, e);
    if (rc == 0 && (rc = finalize(c, x, g->n, e)) != 0)
        *no_rope = has_rope(g); /* 2.47 accepts it of floats and does not finalize it */
    if (rc == 0)
        rc = write_binary(c, lib, p.context, &m, e);
    if (rc == 0)
        rc = send_answer(c, g, x, &m, e);
    fy_qnn_context_free(lib, p.context);
    fy_q_emitted_release(x, g->n);
    return rc;
}

static int compile(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    compilation *c = user;
    const fy_soc *soc = c->job->soc;
    const fy_qnn_chip chip = {soc->soc_id, soc->htp_arch, fy_compile_vtcm_mb(soc)};
    fy_qnn_handle device = NULL;
    fy_err first = {0};
    bool no_rope = false;
    c->to = to;
    c->pool = fy_pool_new(c->job->n_threads, e);
    if (c->pool == NULL || fy_qnn_device_new(lib, &chip, &device, e) != 0)
        return -1;
    int rc = make(c, lib, device, &chip, c->graphs, &no_rope, &first);
    if (rc != 0 && no_rope) {
        fy_compile_graphs again;
        rc = fy_compile_compose(c->job, true, &again, e);
        if (rc == 0)
            rc = fy_compile_encode(&again, c->job->ranges, e);
        if (rc == 0)
            rc = make(c, lib, device, &chip, &again, &no_rope, e);
        fy_compile_release(&again);
    } else if (rc != 0) {
        *e = first;
    }
    fy_qnn_device_free(lib, device);
    fy_pool_free(c->pool);
    return rc;
}

/* --- the parent ------------------------------------------------------------------------------- */

static int take(void *user, const void *p, size_t n, fy_err *e)
{
    compilation *c = user;
    if (n < sizeof c->last)
        return fy_fail(e, FY_EDEVICE, "the process of the QNN library sent %zu bytes", n);
    memcpy(&c->last, p, sizeof c->last);
    c->last.what[sizeof c->last.what - 1] = '\0';
    if (c->last.kind == REFUSED)
        fy_str_add(&c->refused, (const char *)p + sizeof c->last, n - sizeof c->last);
    else if (c->last.kind == STEP && c->last.total > 0)
        fy_log(FY_LOG_DEBUG, "%s: %s, %u of %u", c->job->out, c->last.what, c->last.done,
               c->last.total);
    else if (c->last.kind == STEP)
        fy_log(FY_LOG_DEBUG, "%s: %s", c->job->out, c->last.what);
    c->done = c->last.kind == DONE;
    if (c->done)
        fy_str_add(&c->ids, (const char *)p + sizeof c->last, n - sizeof c->last);
    return c->refused.oom || c->ids.oom ? fy_nomem(e) : 0;
}

/* The longest that a library is waited for between two signs of life: graphs of a whole model
 * take a minute. */
enum { TIMEOUT_S = 3600 };

static int run_child(compilation *c, fy_err *e)
{
    fy_qnn_end end = FY_QNN_DONE;
    int rc = fy_qnn_child(c->job->library, NULL, compile, take, c, TIMEOUT_S, &end, e);
    if (rc == 0 && end != FY_QNN_DONE)
        rc = fy_fail(e, FY_EDEVICE,
                     "the QNN library %s while it was %s; 'ferry doctor --qnn' checks it%s",
                     end == FY_QNN_HUNG ? "hung" : "crashed or was killed",
                     c->last.what[0] != '\0' ? c->last.what : "loaded",
                     end == FY_QNN_CRASHED ? ", and 'dmesg' tells if memory ran out" : "");
    if (rc == 0 && !c->done)
        rc = fy_fail(e, FY_EDEVICE, "the process of the QNN library gave no answer");
    if (c->refused.len > 0)
        fy_log_lines(FY_LOG_ERROR, fy_str_z(&c->refused));
    return rc;
}

/* --- the sidecar ------------------------------------------------------------------------------ */

static int describe_tensor(const fy_q_tensor *t, const fy_q_encoding *c, uint32_t id,
                           fy_qnn_sidecar_tensor *out, fy_err *e)
{
    *out = (fy_qnn_sidecar_tensor){.name = strdup(t->name),
                                   .id = id,
                                   .type = fy_q_qnn_type(t),
                                   .rank = t->rank,
                                   .output = t->kind == FY_Q_OUT,
                                   .scale = (double)c->scale,
                                   .offset = c->offset};
    memcpy(out->dims, t->dims, sizeof out->dims);
    return out->name != NULL ? 0 : fy_nomem(e);
}

/* *id: the next of those that the child has sent, before `end`. */
static int describe_graph(const fy_compile_job *job, const fy_compile_graphs *g, uint32_t k,
                          const char **id, const char *end, fy_qnn_sidecar *s, fy_err *e)
{
    const fy_qgraph *graph = &g->graph[k];
    fy_qnn_sidecar_graph *to = &s->graphs[k];
    const size_t n = fy_qgraph_n_border(graph);
    *to = (fy_qnn_sidecar_graph){.name = strdup(job->name[k]),
                                 .n_batch = job->batch[k],
                                 .tensors = calloc(n, sizeof *to->tensors)};
    s->n_graphs++;
    if (to->name == NULL || to->tensors == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        if ((size_t)(end - *id) < sizeof number)
            return fy_fail(e, FY_EDEVICE, "the process of the QNN library sent too few numbers");
        memcpy(&number, *id, sizeof number);
        *id += sizeof number;
        to->n_tensors++;
        if (describe_tensor(&graph->tensors[i], &g->encodings[k].of[i], number, &to->tensors[i],
                            e) != 0)
            return -1;
        if (graph->tensors[i].class == FY_QC_MASK) {
            s->mask_type = to->tensors[i].type;
            s->mask_depth =
                s->mask_type == FY_QNN_FLOAT_16 ? 0 : (double)g->encodings[k].mask_depth;
        }
    }
    return 0;
}

static int write_sidecar(const compilation *c, const char *key, const char *path, fy_err *e)
{
    const fy_compile_job *job = c->job;
    const char *id = c->ids.ptr;
    fy_qnn_sidecar s = {.bytes = c->last.answer.bytes,
                        .soc_id = job->soc->soc_id,
                        .arch = job->soc->htp_arch,
                        .vtcm_mb = fy_compile_vtcm_mb(job->soc),
                        .rope_nodes = c->last.answer.rope_nodes,
                        .shared = fy_compile_shares(job),
                        .graphs = calloc(c->graphs->n, sizeof *s.graphs)};
    memcpy(s.model, fy_model_chunk_info(c->graphs->model)->model, sizeof s.model);
    snprintf(s.key, sizeof s.key, "%s", key);
    snprintf(s.library_sha256, sizeof s.library_sha256, "%s", job->library_sha256);
    snprintf(s.soc, sizeof s.soc, "%s", job->soc->name);
    snprintf(s.recipe, sizeof s.recipe, "%s", job->recipe->name);
    snprintf(s.build_id, sizeof s.build_id, "%s", c->last.answer.build_id);
    snprintf(s.core, sizeof s.core, "%u.%u.%u", c->last.core.major, c->last.core.minor,
             c->last.core.patch);
    fy_sha256_to_hex(c->last.sha256, s.sha256);
    int rc = s.graphs != NULL ? 0 : fy_nomem(e);
    for (uint32_t k = 0; rc == 0 && k < c->graphs->n; k++)
        rc = describe_graph(job, c->graphs, k, &id, c->ids.ptr + c->ids.len, &s, e);
    if (rc == 0)
        rc = fy_qnn_sidecar_write(&s, path, e);
    fy_qnn_sidecar_release(&s);
    return rc;
}

/* Is the binary there that this would make? Whatever is wrong with it is a no. */
static bool is_there(const fy_compile_job *job, const char *key, const char *sidecar,
                     fy_compiled *out)
{
    char hash[FY_SHA256_HEX];
    fy_qnn_sidecar s;
    if (!fy_file_exists(job->out) || fy_qnn_sidecar_read(sidecar, &s, NULL) != 0)
        return false;
    const bool same = strcmp(s.key, key) == 0 && fy_file_sha256(job->out, hash, NULL) == 0 &&
                      strcmp(s.sha256, hash) == 0;
    *out = (fy_compiled){.bytes = s.bytes, .rope_nodes = s.rope_nodes, .kept = same};
    memcpy(out->build_id, s.build_id, sizeof out->build_id);
    fy_qnn_sidecar_release(&s);
    return same;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int make_binary(const fy_compile_job *job, const fy_compile_graphs *g, const char *key,
                       const char *sidecar, fy_compiled *out, fy_err *e)
{
    const double begin = fy_now_s();
    compilation c = {.job = job, .graphs = g};
    c.file = fy_out_open(job->out, 0, e);
    if (c.file == NULL)
        return -1;
    int rc = run_child(&c, e);
    if (rc == 0)
        rc = write_sidecar(&c, key, sidecar, e);
    *out = c.last.answer;
    out->seconds = fy_now_s() - begin;
    if (rc == 0)
        rc = fy_out_commit(c.file, e);
    else
        fy_out_abort(c.file);
    fy_str_release(&c.refused);
    fy_str_release(&c.ids);
    return rc;
}

/* The key of the binary, the path of its sidecar, and whether both are there. */
static int find(const fy_compile_job *job, const fy_compile_graphs *g, char key[FY_SHA256_HEX],
                fy_str *sidecar, fy_compiled *out, fy_err *e)
{
    *out = (fy_compiled){0};
    fy_qnn_sidecar_path(job->out, sidecar);
    const int rc = sidecar->oom ? fy_nomem(e) : fy_compile_key(job, g, key, e);
    if (rc == 0)
        is_there(job, key, sidecar->ptr, out);
    return rc;
}

int fy_compile_find(const fy_compile_job *job, const fy_compile_graphs *g, fy_compiled *out,
                    fy_err *e)
{
    char key[FY_SHA256_HEX];
    fy_str sidecar = {0};
    const int rc = find(job, g, key, &sidecar, out, e);
    fy_str_release(&sidecar);
    return rc == 0 ? 0 : fy_ctx(e, "%s", job->out);
}

int fy_compile_chunk(const fy_compile_job *job, const fy_compile_graphs *g, fy_compiled *out,
                     fy_err *e)
{
    char key[FY_SHA256_HEX];
    fy_str sidecar = {0};
    int rc = find(job, g, key, &sidecar, out, e);
    if (rc == 0 && !out->kept)
        rc = make_binary(job, g, key, sidecar.ptr, out, e);
    fy_str_release(&sidecar);
    return rc == 0 ? 0 : fy_ctx(e, "%s", job->out);
}
