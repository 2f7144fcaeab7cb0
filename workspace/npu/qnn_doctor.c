/* Asks a QNN library what it can do, and holds the answers to those of the reference library. */
#include "workspace/npu/qnn_doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_product.h"
#include "backend/qnn/qnn_system.h"
#include "base/file.h"

#define REPLAY_BYTES (UINT64_C(32) << 30) /* of a record's tensors that live at once */

enum { CASE_TIMEOUT_S = 60, REPLAY_TIMEOUT_S = 3600, OBJECT_ROUNDS = 3 };

/* --- what the library is, and its objects ----------------------------------------------------- */

/* What a question is about, for the child, and where its answer goes, in the parent. */
typedef struct {
    const fy_qnn_doctor_params *params;
    fy_qnn_report *report;
    void *answer; /* of answer_bytes; NULL: none is sent, or `take` knows */
    size_t answer_bytes;
} question;

static int take_whole(void *user, const void *p, size_t n, fy_err *e)
{
    const question *q = user;
    if (n != q->answer_bytes)
        return fy_fail(e, FY_EDEVICE, "the process of the QNN library answered %zu bytes", n);
    memcpy(q->answer, p, n);
    return 0;
}

static int identify(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    (void)user;
    fy_qnn_identity id = {.core = lib->core, .api = lib->api};
    memcpy(id.build_id, lib->build_id, sizeof id.build_id);
    return fy_qnn_send(to, &id, sizeof id, e);
}

static int make_objects(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const fy_qnn_doctor_params *p = ((question *)user)->params;
    (void)to;
    for (int i = 0; i < OBJECT_ROUNDS; i++) {
        fy_qnn_handle device = NULL, context = NULL;
        int rc = fy_qnn_device_new(lib, &p->chip, &device, e);
        if (rc == 0)
            rc = fy_qnn_context_new(lib, device, false, &context, e);
        fy_qnn_context_free(lib, context);
        fy_qnn_device_free(lib, device);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* --- cases ------------------------------------------------------------------------------------ */

typedef struct {
    const fy_qnn_doctor_params *params;
    fy_qnn_report *report;
    bool reference;
    size_t next;    /* case that is tried next, in child and parent */
    float **values; /* owned, [n]: the reference's, until the library's are compared */
} matrix;

/* A message: this, then n floats. */
typedef struct {
    uint64_t index;
    uint32_t code[FY_QNN_STEPS], fixed;
    uint64_t n;
} answer_header;

static int send_answer(fy_qnn_pipe *to, size_t i, const fy_qnn_answer *a, fy_err *e)
{
    answer_header h = {.index = i, .fixed = a->fixed, .n = a->values != NULL ? a->n : 0};
    memcpy(h.code, a->code, sizeof h.code);
    const size_t bytes = sizeof h + (size_t)h.n * sizeof(float);
    char *p = malloc(bytes);
    if (p == NULL)
        return fy_nomem(e);
    memcpy(p, &h, sizeof h);
    if (h.n > 0)
        memcpy(p + sizeof h, a->values, (size_t)h.n * sizeof *a->values);
    const int rc = fy_qnn_send(to, p, bytes, e);
    free(p);
    return rc;
}

static int try_cases(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const matrix *m = user;
    const fy_qnn_doctor_params *p = m->params;
    fy_qnn_handle device = NULL;
    int rc = fy_qnn_device_new(lib, &p->chip, &device, e);
    for (size_t i = m->next; rc == 0 && i < m->report->n; i++) {
        fy_qnn_answer a;
        rc = fy_qnn_case_run(m->report->cases, i, lib, device, &p->chip, p->n_elements, &a, e);
        if (rc == 0) {
            rc = send_answer(to, i, &a, e);
            fy_qnn_answer_release(&a);
        }
    }
    fy_qnn_device_free(lib, device);
    return rc;
}

/* Steps for fixed types; for floats the part of the largest value of the reference. */
static void compare(fy_qnn_case_report *c, const float *ours, const char *theirs, uint64_t n)
{
    double largest = 0, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, theirs + i * sizeof v, sizeof v);
        const double d = fabs((double)v - (double)ours[i]);
        largest = fmax(largest, fabs((double)ours[i]));
        sum += d;
        c->max = d > c->max || isnan(d) ? d : c->max;
    }
    const double unit = c->fixed || largest == 0 ? 1 : largest;
    c->n = n;
    c->max /= unit;
    c->mean = sum / (double)n / unit;
}

static int take_answer(void *user, const void *p, size_t n, fy_err *e)
{
    matrix *m = user;
    answer_header h;
    if (n < sizeof h)
        return fy_fail(e, FY_EDEVICE, "%zu bytes about a case", n);
    memcpy(&h, p, sizeof h);
    if (h.index >= m->report->n || h.n > n || n != sizeof h + h.n * sizeof(float))
        return fy_fail(e, FY_EDEVICE, "%zu bytes about case %llu", n, (unsigned long long)h.index);
    fy_qnn_case_report *c = &m->report->c[h.index];
    const char *values = (const char *)p + sizeof h;
    memcpy(m->reference ? c->reference : c->code, h.code, sizeof h.code);
    c->fixed = h.fixed != 0;
    m->next = h.index + 1;
    if (m->reference && h.n > 0) {
        float *kept = malloc(h.n * sizeof *kept);
        if (kept == NULL)
            return fy_nomem(e);
        memcpy(kept, values, h.n * sizeof *kept);
        m->values[h.index] = kept;
        c->n = h.n;
    } else if (!m->reference) {
        const bool both = m->values[h.index] != NULL && c->n == h.n;
        c->n = 0;
        if (both && h.n > 0)
            compare(c, m->values[h.index], values, h.n);
        free(m->values[h.index]);
        m->values[h.index] = NULL;
    }
    return 0;
}

/* All cases on one library; one that ends the process is marked, and the next process begins after
 * it. */
static int run_matrix(const char *path, matrix *m, fy_err *e)
{
    m->next = 0;
    while (m->next < m->report->n) {
        fy_qnn_end end;
        if (fy_qnn_child(path, m->reference ? NULL : &m->params->record, try_cases, take_answer, m,
                         CASE_TIMEOUT_S, &end, e) != 0)
            return -1;
        if (end == FY_QNN_DONE)
            continue;
        fy_qnn_case_report *c = &m->report->c[m->next++];
        if (m->reference)
            continue;
        c->crashed = end == FY_QNN_CRASHED;
        c->hung = end == FY_QNN_HUNG;
        c->n = 0;
    }
    return 0;
}

static int ask_cases(const fy_qnn_doctor_params *p, const char *path, fy_qnn_report *r, fy_err *e)
{
    fy_str reference = {0};
    r->cases = fy_qnn_cases_open(e);
    if (r->cases == NULL)
        return -1;
    r->n = fy_qnn_cases_n(r->cases);
    r->c = calloc(r->n, sizeof *r->c);
    float **values = calloc(r->n, sizeof *values);
    int rc = r->c != NULL && values != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        r->c[i].name = fy_qnn_case_name(r->cases, i);
        for (size_t k = 0; k < FY_QNN_STEPS; k++)
            r->c[i].code[k] = r->c[i].reference[k] = FY_QNN_UNTRIED;
    }
    matrix m = {.params = p, .report = r, .reference = true, .values = values};
    char minor[16]; /* the reference has the rules of the library's release */
    snprintf(minor, sizeof minor, "%u", r->id.core.minor);
    setenv("FERRY_REF_MINOR", minor, 0);
    if (rc == 0 && fy_qnn_find("reference", &reference, &r->reference) == 0) {
        r->has_reference = run_matrix(fy_str_z(&reference), &m, &r->reference) == 0;
        rc = r->reference.code == FY_EINTR ? fy_fail(e, FY_EINTR, "%s", r->reference.msg) : 0;
    }
    m.reference = false;
    if (rc == 0)
        rc = run_matrix(path, &m, e);
    for (size_t i = 0; values != NULL && i < r->n; i++)
        free(values[i]);
    free(values);
    fy_str_release(&reference);
    return rc;
}

/* --- binaries --------------------------------------------------------------------------------- */

static bool same_tensor(const fy_qnn_tensor *a, const fy_qnn_tensor *b)
{
    const fy_qnn_tensor_v1 *p = &a->u.v1, *q = &b->u.v1;
    return strcmp(p->name, q->name) == 0 && p->id == q->id && p->type == q->type &&
           p->rank == q->rank && memcmp(p->dims, q->dims, p->rank * sizeof *p->dims) == 0 &&
           p->quant.encoding == q->quant.encoding &&
           p->quant.u.scale_offset.scale == q->quant.u.scale_offset.scale &&
           p->quant.u.scale_offset.offset == q->quant.u.scale_offset.offset;
}

/* The metadata of a binary lists the graphs that were composed, tensor by tensor. */
static int check_metadata(const fy_qnn_lib *lib, const uint8_t *binary, uint64_t bytes,
                          const fy_qnn_product *g, size_t n, uint32_t *version, fy_err *e)
{
    fy_qnn_binary *b = malloc(sizeof *b);
    if (b == NULL)
        return fy_nomem(e);
    int rc = fy_qnn_binary_open(lib->path, binary, bytes, b, e);
    if (rc == 0) {
        *version = b->info_version;
        if (b->n_graphs != n)
            rc = fy_fail(e, FY_EVERIFY, "the metadata lists %u graphs, expected %zu", b->n_graphs,
                         n);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            const fy_qnn_graph_io *io = NULL;
            for (uint32_t k = 0; k < b->n_graphs; k++) {
                if (strcmp(b->graph[k].name, g[i].name) == 0)
                    io = &b->graph[k];
            }
            if (io == NULL || io->n_inputs != 1 || io->n_outputs != 1 ||
                !same_tensor(&io->inputs[0], g[i].x) || !same_tensor(&io->outputs[0], g[i].y))
                rc =
                    fy_fail(e, FY_EVERIFY,
                            "the metadata of graph '%s' differs from what was composed", g[i].name);
        }
        fy_qnn_binary_close(b);
    }
    free(b);
    return rc;
}

/* A graph that is read back computes what it computed where it was made. */
static int check_read_back(const fy_qnn_lib *lib, fy_qnn_handle device, const uint8_t *binary,
                           uint64_t bytes, fy_qnn_product *g, const uint16_t *expected,
                           uint32_t *same, fy_err *e)
{
    const size_t n = (size_t)FY_QNN_PRODUCT_TOKENS * FY_QNN_PRODUCT_OUT;
    uint16_t *out = calloc(n, sizeof *out);
    fy_qnn_handle context = NULL;
    fy_qnn_product again = *g;
    int rc =
        out != NULL ? fy_qnn_context_load(lib, device, binary, bytes, &context, e) : fy_nomem(e);
    if (rc == 0)
        rc = fy_qnn_graph_retrieve(lib, context, g->name, &again.graph, e);
    if (rc == 0)
        rc = fy_qnn_product_run(&again, out, e);
    *same = rc == 0 && memcmp(out, expected, n * sizeof *out) == 0;
    fy_qnn_context_free(lib, context);
    free(out);
    return rc;
}

static int make_binaries(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const fy_qnn_doctor_params *p = ((question *)user)->params;
    const size_t n_weights = (size_t)FY_QNN_PRODUCT_IN * FY_QNN_PRODUCT_OUT;
    fy_qnn_binary_answer a = {0};
    fy_qnn_handle device = NULL, one = NULL, two = NULL;
    fy_qnn_product g[3] = {0};
    uint8_t *binary = NULL, *shared = NULL;
    int8_t *weights = malloc(n_weights);
    uint16_t *out = calloc((size_t)FY_QNN_PRODUCT_TOKENS * FY_QNN_PRODUCT_OUT, sizeof *out);
    int rc = weights != NULL && out != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        fy_qnn_product_weights(weights);
    if (rc != 0 || fy_qnn_device_new(lib, &p->chip, &device, e) != 0 ||
        fy_qnn_context_new(lib, device, false, &one, e) != 0 ||
        fy_qnn_product_new(lib, one, &p->chip, FY_QNN_PRODUCT_TOKENS, weights, &g[0], e) != 0 ||
        fy_qnn_product_run(&g[0], out, e) != 0 ||
        fy_qnn_context_binary(lib, one, &binary, &a.one_bytes, e) != 0 ||
        check_metadata(lib, binary, a.one_bytes, g, 1, &a.info_version, e) != 0 ||
        check_read_back(lib, device, binary, a.one_bytes, &g[0], out, &a.same, e) != 0 ||
        fy_qnn_context_new(lib, device, true, &two, e) != 0 ||
        fy_qnn_product_new(lib, two, &p->chip, FY_QNN_PRODUCT_TOKENS, weights, &g[1], e) != 0 ||
        fy_qnn_product_new(lib, two, &p->chip, 1, weights, &g[2], e) != 0 ||
        fy_qnn_context_binary(lib, two, &shared, &a.two_bytes, e) != 0 ||
        check_metadata(lib, shared, a.two_bytes, g + 1, 2, &a.info_version, e) != 0 ||
        fy_qnn_send(to, &a, sizeof a, e) != 0)
        rc = -1;
    free(binary);
    free(shared);
    free(weights);
    free(out);
    fy_qnn_context_free(lib, one);
    fy_qnn_context_free(lib, two);
    for (size_t i = 0; i < 3; i++)
        fy_qnn_graph_release(&g[i].graph);
    fy_qnn_device_free(lib, device);
    return rc;
}

/* --- decoder layers --------------------------------------------------------------------------- */

static int try_layers(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const question *q = user;
    fy_qnn_handle device = NULL;
    int rc = fy_qnn_device_new(lib, &q->params->chip, &device, e);
    for (size_t i = 0; rc == 0 && i < FY_QNN_LAYER_RECIPES; i++) {
        fy_qnn_layer_answer a;
        rc = fy_qnn_layer_try(i, lib, device, &q->params->chip, &a, e);
        if (rc == 0)
            rc = fy_qnn_send(to, &a, sizeof a, e);
    }
    fy_qnn_device_free(lib, device);
    return rc;
}

static int take_layer(void *user, const void *p, size_t n, fy_err *e)
{
    fy_qnn_report *r = ((question *)user)->report;
    if (n != sizeof r->layer[0] || r->n_layers == FY_QNN_LAYER_RECIPES)
        return fy_fail(e, FY_EDEVICE, "%zu bytes about a layer", n);
    fy_qnn_layer_answer *a = &r->layer[r->n_layers++];
    memcpy(a, p, n);
    a->step[sizeof a->step - 1] = '\0';
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* A part whose failure is an answer: only an interrupt ends the whole. */
static int ask(const char *path, fy_qnn_job *job, fy_qnn_take *take, question *q, fy_err *found,
               fy_err *e)
{
    fy_qnn_end end;
    if (fy_qnn_child(path, &q->params->record, job, take, q, CASE_TIMEOUT_S, &end, found) != 0)
        return found->code == FY_EINTR ? fy_fail(e, FY_EINTR, "interrupted") : 0;
    if (end != FY_QNN_DONE)
        fy_fail(found, FY_EDEVICE, end == FY_QNN_HUNG ? "the library hung" : "the library crashed");
    return 0;
}

int fy_qnn_doctor(const fy_qnn_doctor_params *p, fy_qnn_report *out, fy_err *e)
{
    fy_str path = {0};
    fy_qnn_end end;
    question id = {p, out, &out->id, sizeof out->id}, objects = {p, out, NULL, 0},
             binaries = {p, out, &out->b, sizeof out->b};
    *out = (fy_qnn_report){0};
    int rc = fy_qnn_find(p->sdk, &path, e);
    if (rc == 0)
        rc =
            fy_qnn_child(fy_str_z(&path), NULL, identify, take_whole, &id, CASE_TIMEOUT_S, &end, e);
    out->id.build_id[sizeof out->id.build_id - 1] = '\0';
    if (rc == 0 && end != FY_QNN_DONE)
        rc = fy_fail(e, FY_EDEVICE, "the QNN library %s when it was loaded",
                     end == FY_QNN_HUNG ? "hung" : "crashed");
    if (rc == 0)
        rc = ask(fy_str_z(&path), make_objects, take_whole, &objects, &out->objects, e);
    if (rc == 0 && out->objects.code == FY_OK &&
        (ask(fy_str_z(&path), make_binaries, take_whole, &binaries, &out->binary, e) != 0 ||
         ask(fy_str_z(&path), try_layers, take_layer, &objects, &out->layers, e) != 0 ||
         ask_cases(p, fy_str_z(&path), out, e) != 0))
        rc = -1;
    fy_str_release(&path);
    return rc;
}

void fy_qnn_report_release(fy_qnn_report *r)
{
    free(r->c);
    fy_qnn_cases_free(r->cases);
    *r = (fy_qnn_report){0};
}

bool fy_qnn_codes_accept(const uint32_t code[FY_QNN_STEPS])
{
    for (size_t i = 0; i < FY_QNN_STEPS; i++) {
        if (code[i] != 0)
            return false;
    }
    return true;
}

/* --- a record --------------------------------------------------------------------------------- */

typedef struct {
    question q; /* first: take_whole reads it */
    const char *path;
    fy_map text, data;
} replay;

static int replay_record(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const replay *r = user;
    fy_qnn_replayed out;
    const fy_span text = {(const char *)r->text.data, r->text.size},
                  data = {(const char *)r->data.data, r->data.size};
    return fy_qnn_replay(lib, text, data, REPLAY_BYTES, &out, e) == 0
               ? fy_qnn_send(to, &out, sizeof out, e)
               : fy_ctx(e, "%s", r->path);
}

int fy_qnn_doctor_replay(const fy_qnn_doctor_params *p, const char *path, fy_qnn_replayed *out,
                         fy_qnn_end *end, fy_err *e)
{
    replay r = {.q = {p, NULL, out, sizeof *out}, .path = path};
    fy_str lib = {0};
    char *data = fy_path_format(e, "%s.data", path);
    int rc = data != NULL ? fy_map_open(&r.text, path, e) : -1;
    if (rc == 0 && fy_file_exists(data))
        rc = fy_map_open(&r.data, data, e);
    if (rc == 0)
        rc = fy_qnn_find(p->sdk, &lib, e);
    if (rc == 0)
        rc = fy_qnn_child(fy_str_z(&lib), NULL, replay_record, take_whole, &r, REPLAY_TIMEOUT_S,
                          end, e);
    fy_map_close(&r.text);
    fy_map_close(&r.data);
    fy_str_release(&lib);
    free(data);
    return rc;
}
