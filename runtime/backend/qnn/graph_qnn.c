/* Runs the graphs of context binaries. */
#include "backend/qnn/graph_qnn.h"

#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_areas.h"
#include "backend/qnn/qnn_graph.h"
#include "backend/qnn/qnn_metadata.h"
#include "backend/qnn/qnn_sidecar.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"

typedef struct {
    fy_graph_device base;
    fy_qnn_lib *lib;      /* owned */
    fy_qnn_handle handle; /* owned; made for the first chunk, whose chip it has */
    fy_qnn_chip chip;
    fy_qnn_power *power; /* owned */
    fy_qnn_areas areas;
    uint64_t raw_bytes;     /* that the library copies at a call through all chunks */
    bool told;              /* of them */
    bool hashed;            /* the binaries were, before */
    fy_graph_chunk *chunks; /* list of views, in the order in which they were loaded */
    uint32_t n_recovered;   /* in this session */
    double recovered_s;     /* fy_now_s of the last time */
} device;

struct fy_graph_chunk {
    device *d; /* view */
    fy_graph_chunk *next;
    char *path;            /* owned */
    fy_qnn_sidecar is;     /* owned */
    fy_qnn_handle context; /* owned */
    fy_qnn_shares shares;  /* of the graphs that are bound: */
    fy_graph *bound;       /* list of views, in the order in which they were bound */
    uint64_t raw_bytes;    /* of the graph with most */
};

struct fy_graph {
    fy_graph_chunk *chunk; /* view */
    fy_graph *next;
    const char *name; /* view of the chunk's */
    fy_qnn_graph g;
    fy_qnn_tensor *io; /* owned: inputs, then outputs, on memory of `take` */
    void **buffers;    /* owned: of io */
    uint32_t n_in, n_out;
};

/* --- chunks ----------------------------------------------------------------------------------- */

/* A build number of another form is not held against anything. */
static int check_release(const fy_qnn_lib *lib, const fy_qnn_sidecar *s, fy_err *e)
{
    fy_qnn_release made, has;
    fy_span binary = fy_span_of(s->build_id), library = fy_span_of(lib->build_id);
    if (!fy_qnn_release_take(&binary, &made) || !fy_qnn_release_take(&library, &has) ||
        !fy_qnn_is_newer(&made, &has))
        return 0;
    return fy_fail(
        e, FY_EUNSUPPORTED,
        "was compiled with SDK %u.%u, and the library is of %u.%u, which reads none that "
        "are newer: take the libraries of %u.%u, or compile with %u.%u",
        made.major, made.minor, has.major, has.minor, made.major, made.minor, has.major, has.minor);
}

/* Is it of this cut, and does the description belong to its bytes? One that was recovered from them
 * does, and names no model. */
static int check_binary(const device *d, const fy_graph_file *f, const fy_qnn_sidecar *s, fy_err *e)
{
    char hash[FY_SHA256_HEX];
    if (f->model[0] != '\0' && s->model[0] != '\0' && strcmp(f->model, s->model) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "was compiled from model %.16s..., expected %.16s...: chunks of two cuts",
                       s->model, f->model);
    if (d->hashed || s->sha256[0] == '\0')
        return 0;
    if (fy_file_sha256(f->path, hash, e) != 0)
        return -1;
    if (strcmp(hash, s->sha256) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "has SHA-256 %.16s..., expected %.16s... as the .json beside it says: copy "
                       "both again, or compile again",
                       hash, s->sha256);
    return 0;
}

/* A binary for another architecture may compute anything; one for less memory runs. */
static int check_chip(const fy_qnn_lib *lib, const fy_qnn_chip *of, fy_err *e)
{
    fy_qnn_chip own;
    if (!fy_qnn_own_chip(lib, &own))
        return 0;
    fy_log(FY_LOG_DEBUG, "NPU: chip %u, V%u, %u MB of VTCM", own.soc, own.arch, own.vtcm_mb);
    if (of->arch == 0 || (own.arch == of->arch && own.vtcm_mb >= of->vtcm_mb))
        return 0;
    return fy_fail(e, FY_EFIT,
                   "was compiled for V%u with %u MB of VTCM (chip %u), and this NPU is V%u with %u "
                   "MB (chip %u); compile it for this chip with --soc",
                   of->arch, of->vtcm_mb, of->soc, own.arch, own.vtcm_mb, own.soc);
}

/* A PC's library takes the place of any chip. */
static int open_device(device *d, const fy_qnn_chip *chip, fy_err *e)
{
    static const fy_qnn_chip own = {0};
    if (d->handle == NULL) {
        if (!FY_QNN_ON_PC && check_chip(d->lib, chip, e) != 0)
            return -1;
        if (fy_qnn_device_new(d->lib, FY_QNN_ON_PC ? chip : &own, &d->handle, e) != 0)
            return -1;
        d->chip = *chip;
    }
    return d->chip.soc == chip->soc
               ? 0
               : fy_fail(e, FY_EFORMAT, "was compiled for chip %u, another chunk for %u", chip->soc,
                         d->chip.soc);
}

static int load_context(fy_graph_chunk *p, fy_err *e)
{
    device *d = p->d;
    const fy_qnn_chip chip = {p->is.soc_id, p->is.arch, p->is.vtcm_mb};
    fy_map map;
    if (d->lib->no_sharing && p->is.shared) /* or error 1000; from SDK 2.50 on it crashes */
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the graphs share their weights, and the QNN library for PCs does not load "
                       "such binaries; compile with --no-sharing for it, or a cut with one batch "
                       "size");
    if (open_device(d, &chip, e) != 0 || fy_map_open(&map, p->path, e) != 0)
        return -1;
    const int rc = fy_qnn_context_load(d->lib, d->handle, map.data, map.size, &p->context, e);
    fy_map_close(&map);
    return rc;
}

static char *sidecar_path(const char *bin, fy_err *e)
{
    const char *dot = strrchr(bin, '.');
    fy_str path = {0};
    fy_str_printf(&path, "%.*s.json", dot != NULL ? (int)(dot - bin) : (int)strlen(bin), bin);
    if (!path.oom)
        return path.ptr;
    fy_str_release(&path);
    fy_nomem(e);
    return NULL;
}

/* The description beside the binary; where there is none, what the library of metadata says. */
static int describe_binary(fy_graph_chunk *p, fy_err *e)
{
    char *sidecar = sidecar_path(p->path, e);
    fy_map map;
    if (sidecar == NULL)
        return -1;
    const bool there = fy_file_exists(sidecar);
    int rc = there ? fy_qnn_sidecar_read(sidecar, &p->is, e) : fy_map_open(&map, p->path, e);
    if (!there && rc == 0) {
        rc = fy_qnn_sidecar_recover(p->d->lib->path, map.data, map.size, &p->is, e);
        fy_map_close(&map);
        if (rc != 0)
            fy_ctx(e, "%s: no %s, and the library of metadata does not help", p->path, sidecar);
    }
    free(sidecar);
    return rc;
}

static int read_binary(fy_graph_chunk *p, const fy_graph_file *f, fy_err *e)
{
    device *d = p->d;
    int rc = describe_binary(p, e);
    if (rc != 0)
        return -1;
    rc = check_release(d->lib, &p->is, e);
    if (rc == 0)
        rc = check_binary(d, f, &p->is, e);
    if (rc == 0)
        rc = load_context(p, e);
    return rc == 0 ? 0 : fy_ctx(e, "%s", f->path);
}

static void unload(fy_graph_chunk *p)
{
    if (p == NULL)
        return;
    fy_graph_chunk **at = &p->d->chunks;
    while (*at != NULL && *at != p)
        at = &(*at)->next;
    if (*at != NULL)
        *at = p->next;
    fy_qnn_context_free(p->d->lib, p->context);
    fy_qnn_sidecar_release(&p->is);
    free(p->path);
    free(p);
}

static fy_graph_chunk *load(fy_graph_device *base, const fy_graph_file *f, fy_err *e)
{
    device *d = (device *)(void *)base;
    fy_graph_chunk *p = calloc(1, sizeof *p);
    if (p == NULL || (p->path = strdup(f->path)) == NULL) {
        free(p);
        fy_nomem(e);
        return NULL;
    }
    p->d = d;
    const int rc = fy_check_interrupt(e) == 0 ? read_binary(p, f, e) : -1;
    if (rc == 0) {
        fy_graph_chunk **at = &d->chunks;
        while (*at != NULL)
            at = &(*at)->next;
        return *at = p;
    }
    unload(p);
    return NULL;
}

/* --- graphs ----------------------------------------------------------------------------------- */

static fy_qnn_sidecar_graph *find_graph(fy_graph_chunk *p, const char *name, fy_err *e)
{
    for (size_t i = 0; i < p->is.n_graphs; i++) {
        if (strcmp(p->is.graphs[i].name, name) == 0)
            return &p->is.graphs[i];
    }
    fy_fail(e, FY_EFORMAT, "%s: has no graph '%s'", p->path, name);
    return NULL;
}

static fy_qnn_sidecar_tensor *find_tensor(const fy_graph_chunk *p, const fy_qnn_sidecar_graph *g,
                                          const fy_graph_tensor *t, fy_err *e)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        fy_qnn_sidecar_tensor *is = &g->tensors[i];
        if (strcmp(is->name, t->name) != 0)
            continue;
        if (is->output == t->output && is->rank == 2 && is->dims[0] == t->rows &&
            is->dims[1] == t->cols)
            return is;
        fy_fail(e, FY_EFORMAT,
                "%s, graph '%s': %s '%s' is [%u, %u] of rank %u, expected %s [%llu, %llu]", p->path,
                g->name, is->output ? "output" : "input", is->name, is->dims[0], is->dims[1],
                is->rank, t->output ? "output" : "input", (unsigned long long)t->rows,
                (unsigned long long)t->cols);
        return NULL;
    }
    fy_fail(e, FY_EFORMAT, "%s, graph '%s': has no tensor '%s'", p->path, g->name, t->name);
    return NULL;
}

static fy_element element_of(uint32_t type)
{
    switch (type) {
    case FY_QNN_FLOAT_16:
        return FY_EL_F16;
    case FY_QNN_UFIXED_16:
        return FY_EL_U16;
    case FY_QNN_SFIXED_16:
        return FY_EL_S16;
    case FY_QNN_UFIXED_8:
        return FY_EL_U8;
    default:
        return FY_EL_F32; /* a sidecar has no others */
    }
}

static int describe(fy_graph_chunk *p, const char *graph, fy_graph_tensor *tensors, uint32_t n,
                    fy_err *e)
{
    const fy_qnn_sidecar_graph *g = find_graph(p, graph, e);
    if (g == NULL)
        return -1;
    if (g->n_tensors != n)
        return fy_fail(e, FY_EFORMAT, "%s, graph '%s': %zu tensors, expected %u", p->path, g->name,
                       g->n_tensors, n);
    for (uint32_t i = 0; i < n; i++) {
        const fy_qnn_sidecar_tensor *t = find_tensor(p, g, &tensors[i], e);
        if (t == NULL)
            return -1;
        tensors[i].type = element_of(t->type);
        tensors[i].scale = (float)t->scale;
        tensors[i].offset = (int32_t)t->offset;
    }
    return 0;
}

static void unbind(fy_graph *g)
{
    if (g == NULL)
        return;
    fy_graph **at = &g->chunk->bound;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (g->chunk->bound == NULL) {
        fy_qnn_shares_clear(&g->chunk->shares, g->chunk->d->lib);
        g->chunk->d->raw_bytes -= g->chunk->raw_bytes;
        g->chunk->raw_bytes = 0;
    }
    fy_qnn_graph_release(&g->g);
    free(g->buffers);
    free(g->io);
    free(g);
}

static int bind_tensors(fy_graph_chunk *p, fy_graph *g, const fy_graph_binding *b, fy_err *e)
{
    const fy_qnn_sidecar_graph *is = find_graph(p, b->name, e);
    g->name = is != NULL ? is->name : NULL;
    for (uint32_t i = 0; is != NULL && i < b->n_tensors; i++) {
        fy_qnn_sidecar_tensor *t = find_tensor(p, is, &b->tensors[i], e);
        if (t == NULL)
            return -1;
        g->n_in += !t->output;
        g->n_out += t->output;
        g->io[i].version = 1;
        g->io[i].u.v1 = (fy_qnn_tensor_v1){
            .id = t->id,
            .name = t->name,
            .kind = t->output ? FY_QNN_APP_READ : FY_QNN_APP_WRITE,
            .type = t->type,
            .quant = t->scale > 0 ? fy_qnn_quant_scale((float)t->scale, (int32_t)t->offset)
                                  : fy_qnn_no_quant(),
            .rank = t->rank,
            .dims = t->dims};
    }
    return is != NULL ? 0 : -1;
}

/* The graph in the library, and its tensors' memory. */
static int attach(fy_graph *g, fy_err *e)
{
    fy_graph_chunk *p = g->chunk;
    uint64_t raw = 0;
    if (fy_qnn_graph_retrieve(p->d->lib, p->context, g->name, &g->g, e) != 0)
        return fy_ctx(e, "%s", p->path);
    for (uint32_t i = 0; i < g->n_in + g->n_out; i++) {
        fy_qnn_tensor_v1 *t = &g->io[i].u.v1;
        /* the sidecar's limit fits */
        const uint32_t bytes = t->dims[0] * t->dims[1] * fy_qnn_type_bytes(t->type);
        if (fy_qnn_share_tensor(&p->d->areas, p->d->lib, p->context, &p->shares, &g->io[i],
                                g->buffers[i], bytes, e) != 0)
            return fy_ctx(e, "%s", p->path);
        raw += t->memory == FY_QNN_RAW ? bytes : 0;
    }
    if (raw > p->raw_bytes) {
        p->d->raw_bytes += raw - p->raw_bytes;
        p->raw_bytes = raw;
    }
    return 0;
}

static fy_graph *bind(fy_graph_chunk *p, const fy_graph_binding *b, fy_err *e)
{
    fy_graph *g = calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->chunk = p;
    fy_graph **at = &p->bound;
    while (*at != NULL)
        at = &(*at)->next;
    *at = g;
    g->io = calloc(b->n_tensors, sizeof *g->io);
    g->buffers = calloc(b->n_tensors, sizeof *g->buffers);
    if (g->io == NULL || g->buffers == NULL) {
        fy_nomem(e);
    } else {
        memcpy(g->buffers, b->buffers, b->n_tensors * sizeof *g->buffers);
        if (bind_tensors(p, g, b, e) == 0 && attach(g, e) == 0)
            return g;
    }
    unbind(g);
    return NULL;
}

static int run(fy_graph *g, fy_err *e)
{
    if (g->g.handle == NULL)
        return fy_fail(e, FY_EDEVICE, "%s, graph '%s': is not loaded since the NPU was lost",
                       g->chunk->path, g->name);
    fy_qnn_power_work(g->chunk->d->power);
    const fy_qnn_error err = fy_qnn_graph_execute(&g->g, g->io, g->n_in, g->io + g->n_in, g->n_out);
    fy_qnn_power_rest(g->chunk->d->power);
    if (err == 0)
        return 0;
    fy_qnn_fail(g->g.lib, "graphExecute", err, e);
    return fy_ctx(e, "%s, graph '%s'", g->chunk->path, g->name);
}

/* --- after a restart -------------------------------------------------------------------------- */

enum { MOST_RESTARTS = 3, RESTART_PAUSE_S = 60 };

/* A phone whose NPU restarts again and again computes nothing, and gets hot. */
static int may_recover(device *d, fy_err *e)
{
    const double now = fy_now_s();
    if (d->n_recovered == MOST_RESTARTS)
        return fy_fail(e, FY_EDEVICE, "it was made anew %d times in this session already",
                       MOST_RESTARTS);
    if (d->n_recovered > 0 && now - d->recovered_s < RESTART_PAUSE_S)
        return fy_fail(e, FY_EDEVICE, "it was made anew %.0f s ago, and once a minute is tried",
                       now - d->recovered_s);
    d->n_recovered++;
    d->recovered_s = now;
    return 0;
}

/* What a lost NPU answers to this does not matter. */
static void drop_all(device *d)
{
    fy_qnn_power_drop(d->power);
    for (fy_graph_chunk *p = d->chunks; p != NULL; p = p->next) {
        for (fy_graph *g = p->bound; g != NULL; g = g->next)
            g->g.handle = NULL;
        fy_qnn_shares_clear(&p->shares, d->lib);
        fy_qnn_context_free(d->lib, p->context);
        p->context = NULL;
    }
    fy_qnn_device_free(d->lib, d->handle);
    d->handle = NULL;
}

static int make_all(device *d, fy_err *e)
{
    if (fy_qnn_restart(d->lib, e) != 0)
        return -1;
    for (fy_graph_chunk *p = d->chunks; p != NULL; p = p->next) {
        if (load_context(p, e) != 0)
            return fy_ctx(e, "%s", p->path);
        for (fy_graph *g = p->bound; g != NULL; g = g->next) {
            if (attach(g, e) != 0)
                return -1;
        }
    }
    return 0;
}

static const char *last_lines(fy_str *text, int n)
{
    const char *begin = fy_str_z(text), *p = begin + text->len;
    while (p > begin && (p[-1] != '\n' || p == begin + text->len || --n > 0))
        p--;
    return p;
}

/* The areas are memory of this process: caches and all that is half computed are still there. */
static int recover(fy_graph_device *base, fy_err *e)
{
    device *d = (device *)(void *)base;
    fy_str log = {0};
    if (may_recover(d, e) == 0) {
        drop_all(d);
        if (make_all(d, e) == 0)
            return 0;
        drop_all(d);
    }
    fy_qnn_log_lines(&log);
    if (!log.oom)
        fy_log_lines(FY_LOG_WARN, last_lines(&log, 5));
    fy_str_release(&log);
    return -1;
}

/* --- the device ------------------------------------------------------------------------------- */

static void *take(fy_graph_device *base, uint64_t bytes, fy_err *e)
{
    return fy_qnn_area_take(&((device *)(void *)base)->areas, bytes, e);
}

static void give(fy_graph_device *base, void *memory)
{
    fy_qnn_area_give(&((device *)(void *)base)->areas, memory);
}

/* A PC's library computes where the tensors are. */
static int begin(fy_graph_device *base, int n_threads, fy_err *e)
{
    device *d = (device *)(void *)base;
    (void)n_threads, (void)e;
    d->n_recovered = 0;
    if (d->raw_bytes > 0 && !d->told)
        fy_log(FY_QNN_ON_PC ? FY_LOG_DEBUG : FY_LOG_WARN,
               "no memory is shared with the NPU (%s): each call copies %.1f MB", d->areas.why,
               (double)d->raw_bytes / (1 << 20));
    d->told = true;
    return 0;
}

static void end(fy_graph_device *base)
{
    (void)base;
}

static void close_device(fy_graph_device *base)
{
    device *d = (device *)(void *)base;
    if (d == NULL)
        return;
    fy_qnn_power_free(d->power);
    fy_qnn_areas_release(&d->areas);
    fy_qnn_device_free(d->lib, d->handle);
    fy_qnn_close(d->lib);
    free(d);
}

static const fy_graph_backend api = {.name = "qnn",
                                     .npu_keys = true,
                                     .close = close_device,
                                     .load = load,
                                     .unload = unload,
                                     .describe = describe,
                                     .take = take,
                                     .give = give,
                                     .align = FY_QNN_AREA_ALIGN,
                                     .bind = bind,
                                     .unbind = unbind,
                                     .begin = begin,
                                     .end = end,
                                     .run = run,
                                     .recover = recover};

fy_graph_device *fy_graph_qnn_open(const char *library, fy_qnn_power_level power, bool hashed,
                                   fy_err *e)
{
    device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *d = (device){.base = {.api = &api}, .lib = fy_qnn_open(library, NULL, e), .hashed = hashed};
    d->power = d->lib != NULL ? fy_qnn_power_new(d->lib, power, e) : NULL;
    if (d->power == NULL) {
        fy_qnn_close(d->lib);
        free(d);
        return NULL;
    }
    fy_qnn_areas_init(&d->areas, d->lib);
    fy_log(FY_LOG_DEBUG, "QNN library %s (%s, core interface %u.%u)", d->lib->path,
           d->lib->build_id, d->lib->core.major, d->lib->core.minor);
    return &d->base;
}
