/* The key of a context binary. */
#include "workspace/compile/compile_key.h"

#include <string.h>

#include "base/file.h"
#include "base/process.h"

/* --- of values -------------------------------------------------------------------------------- */

/* Numbers are added one by one: structs have bytes that mean nothing. */
static void put_u32(fy_str *s, uint32_t v)
{
    fy_str_add(s, &v, sizeof v);
}

static void put_f32(fy_str *s, float v)
{
    fy_str_add(s, &v, sizeof v);
}

static void put_text(fy_str *s, const char *text)
{
    put_u32(s, (uint32_t)strlen(text));
    fy_str_puts(s, text);
}

static void put_tensor(fy_str *s, const fy_q_tensor *t, const fy_q_encoding *c)
{
    const uint32_t numbers[] = {
        t->kind,      t->class,       t->type,        t->rank,       t->dims[0],      t->dims[1],
        t->dims[2],   t->dims[3],     t->from.slot,   t->from.layer, t->from.first,   t->from.n,
        t->from.type, t->from.halves, t->from.matrix, t->from.beta,  t->from.hadamard};
    put_text(s, t->name);
    fy_str_add(s, numbers, sizeof numbers);
    put_f32(s, t->from.scale);
    put_f32(s, t->from.value);
    put_f32(s, c->scale);
    put_u32(s, (uint32_t)c->offset);
}

static void put_node(fy_str *s, const fy_q_node *n)
{
    const uint32_t numbers[] = {n->op, n->out, n->axis, n->begin, n->end, n->act, n->n_in};
    fy_str_add(s, numbers, sizeof numbers);
    fy_str_add(s, n->in, n->n_in * sizeof *n->in);
    put_f32(s, n->eps);
}

static void put_importance(fy_str *s, const fy_qgraph *g, const fy_q_ranges *ranges)
{
    char name[FY_Q_MATRIX_NAME];
    for (size_t i = 0; ranges != NULL && i < g->n_tensors; i++) {
        const fy_q_tensor *t = &g->tensors[i];
        const double *v =
            t->class != FY_QC_WEIGHT
                ? NULL
                : fy_q_ranges_importance(ranges, fy_qgraph_matrix_name(&t->from, name), t->dims[2]);
        put_u32(s, v != NULL);
        if (v != NULL)
            fy_str_add(s, v, t->dims[2] * sizeof *v);
    }
}

static void put_graphs(fy_str *s, const fy_compile_job *job, const fy_compile_graphs *g)
{
    for (uint32_t k = 0; k < g->n; k++) {
        const fy_qgraph *graph = &g->graph[k];
        put_text(s, job->name[k]);
        put_f32(s, g->encodings[k].mask_depth);
        for (size_t i = 0; i < graph->n_tensors; i++)
            put_tensor(s, &graph->tensors[i], &g->encodings[k].of[i]);
        for (size_t i = 0; i < graph->n_nodes; i++)
            put_node(s, &graph->nodes[i]);
    }
    put_importance(s, &g->graph[0], job->ranges);
}

int fy_compile_key(const fy_compile_job *job, const fy_compile_graphs *g, char out[FY_SHA256_HEX],
                   fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    char file[FY_SHA256_HEX];
    fy_str s = {0};
    if (fy_file_sha256(job->gguf, file, e) != 0)
        return -1;
    put_text(&s, FERRY_VERSION);
    put_text(&s, file);
    put_text(&s, job->library_sha256);
    put_u32(&s, job->soc->soc_id);
    put_u32(&s, job->soc->htp_arch);
    put_u32(&s, fy_compile_vtcm_mb(job->soc));
    put_u32(&s, fy_compile_shares(job));
    put_graphs(&s, job, g);
    if (job->n_candidates > 0) {
        put_u32(&s, job->n_candidates);
        put_text(&s, job->inputs_sha256);
    }
    const int rc = s.oom ? fy_nomem(e) : fy_sha256_of(s.ptr, s.len, hash, e);
    fy_str_release(&s);
    if (rc == 0)
        fy_sha256_to_hex(hash, out);
    return rc;
}
