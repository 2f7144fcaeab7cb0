/* The options for CPUs, memory and backend: pins the threads, and opens the model as they ask. */
#include "cli/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FERRY_STATIC
#include "backend/opencl/opencl_gpu.h"
#include "backend/qnn/graph_qnn.h"
#include "backend/qnn/qnn_lib.h"
#endif
#include "bundle/bundle.h"
#include "bundle/qnn_config.h"
#include "cli/cut_model.h"
#include "cli/npu_trust.h"
#include "cli/terminal.h"

static void log_cpus(const fy_cpus *asked, const fy_cpus *got)
{
    const bool less = fy_cpus_count(got) < fy_cpus_count(asked);
    fy_str a = {0}, g = {0};
    fy_cpus_text(asked, &a);
    fy_cpus_text(got, &g);
    if (less)
        fy_log(FY_LOG_DEBUG, "runs on CPUs %s; of %s this process may use no others", fy_str_z(&g),
               fy_str_z(&a));
    else
        fy_log(FY_LOG_DEBUG, "runs on CPUs %s", fy_str_z(&g));
    fy_str_release(&a);
    fy_str_release(&g);
}

int fy_machine_pin(const fy_machine_options *o, fy_err *e)
{
    fy_cpus asked = {0}, got;
    if (o->cpu_mask == NULL && o->cpu_range == NULL)
        return 0;
    if (o->cpu_mask != NULL && fy_cpus_add_mask(&asked, o->cpu_mask, e) != 0)
        return fy_ctx(e, "--cpu-mask");
    if (o->cpu_range != NULL && fy_cpus_add_range(&asked, o->cpu_range, e) != 0)
        return fy_ctx(e, "--cpu-range");
    if (fy_cpus_pin(&asked, &got, e) != 0)
        return fy_ctx(e, "%s", o->cpu_mask != NULL ? "--cpu-mask" : "--cpu-range");
    log_cpus(&asked, &got);
    return 0;
}

/* --- opening a model ------------------------------------------------------------------------ */

typedef struct {
    char *weights, *qnn; /* owned; qnn NULL: the model was not cut */
    const char *libs;    /* of the NPU; NULL: none beside it */
} source;

static void release(source *s)
{
    free(s->weights);
    free(s->qnn);
}

static int find_source(const char *path, const char *qnn, source *out, fy_err *e)
{
    const bool is_dir = fy_file_is_dir(path);
    int rc = 0;
    *out = (source){.weights = is_dir ? fy_path_join(path, FY_BUNDLE_WEIGHTS) : strdup(path),
                    .qnn = is_dir        ? fy_path_join(path, FY_QNN_DIR)
                           : qnn != NULL ? strdup(qnn)
                                         : NULL};
    if (out->weights == NULL || (out->qnn == NULL && (is_dir || qnn != NULL)))
        rc = fy_nomem(e);
    else if (is_dir && (!fy_file_exists(out->weights) || !fy_file_is_dir(out->qnn)))
        rc = fy_fail(e, FY_EARG,
                     "%s: is a directory, expected a GGUF file, or the directory of a model that "
                     "was cut ('ferry chunk': " FY_BUNDLE_WEIGHTS " and " FY_QNN_DIR
                     "/); a workspace is given with -d",
                     path);
    if (rc != 0)
        release(out);
    return rc;
}

/* --- its graphs ------------------------------------------------------------------------------ */

/* Were the graphs compiled? All or none of them. */
static int read_compiled(const char *qnn, bool *compiled, fy_err *e)
{
    fy_qnn_config c;
    if (fy_cut_config_read(qnn, &c, e) != 0)
        return -1;
    size_t n_gguf = 0, n = c.n_graphs + c.n_embeddings;
    for (size_t i = 0; i < n; i++)
        n_gguf += fy_qnn_is_gguf(i < c.n_graphs ? &c.graph[i] : &c.embedding[i - c.n_graphs]);
    fy_qnn_config_release(&c);
    *compiled = n_gguf == 0;
    return n_gguf == 0 || n_gguf == n
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "%s/" FY_QNN_CONFIG_NAME ": %zu of its %zu graphs are GGUF chunks and the "
                         "others compiled, expected one kind",
                         qnn, n_gguf, n);
}

#ifdef FERRY_STATIC
static int add_qnn(const fy_machine_options *o, const source *s, fy_model *m, fy_err *e)
{
    (void)o, (void)m;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%s: is compiled for an NPU, and this program cannot load the NPU's library (it "
                   "is static): use the one built with TARGET=android",
                   s->qnn);
}
#else
static int add_qnn(const fy_machine_options *o, const source *s, fy_model *m, fy_err *e)
{
    fy_str path = {0};
    fy_graph_device *device;
    stdout = stderr; /* the library's printf: ours is fy_stdout, and the answer's */
    const fy_canary_mode canary = (fy_canary_mode)o->canary;
    fy_npu_known known;
    int rc = fy_qnn_find(o->qnn_lib != NULL ? o->qnn_lib : s->libs, &path, e);
    if (rc == 0)
        rc = fy_npu_recall(m, s->qnn, fy_str_z(&path), canary, &known, e);
    if (rc == 0) {
        device = fy_graph_qnn_open(fy_str_z(&path), (fy_qnn_power_level)o->power, known.passed, e);
        rc = device != NULL ? fy_model_add_graphs(m, s->qnn, device, (fy_preset_mode)o->preset, e)
                            : -1;
    }
    if (rc == 0)
        rc = fy_npu_trust(m, s->qnn, &known, canary, e);
    fy_str_release(&path);
    return rc;
}
#endif

static int check_kind(const fy_machine_options *o, const source *s, bool compiled, fy_err *e)
{
    if (o->backend == FY_BACKEND_QNN && !compiled)
        return fy_fail(e, FY_EARG,
                       "%s: holds GGUF chunks: 'ferry compile' makes of them what --backend qnn "
                       "runs, and --backend chunks computes them on the CPU",
                       s->qnn);
    if (o->backend == FY_BACKEND_CHUNKS && compiled)
        return fy_fail(
            e, FY_EARG,
            "%s: is compiled for an NPU, and the CPU computes GGUF chunks: use --backend "
            "qnn, or the cut that it was compiled from",
            s->qnn);
    return 0;
}

#ifdef FERRY_STATIC
static int give_hot(fy_model *m, fy_err *e)
{
    (void)m;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "--gpu-hot: this program cannot load the OpenCL library (it is static): use the "
                   "one built with TARGET=android");
}
#else
static int give_hot(fy_model *m, fy_err *e)
{
    fy_gpu *gpu = fy_opencl_open(NULL, e);
    return gpu != NULL ? fy_model_give_hot(m, gpu, e) : -1;
}
#endif

/* Adds the graphs to the embedding, or to a whole model when the options ask for it. */
static int choose(const fy_machine_options *o, const source *s, const fy_map_options *how,
                  fy_model *m, fy_err *e)
{
    const bool whole = fy_model_chunk_info(m)->kind == FY_CHUNK_WHOLE;
    bool compiled;
    if (o->backend == FY_BACKEND_CPU && !whole)
        return fy_fail(e, FY_EARG,
                       "%s: holds the embedding alone, the rest of the model is in graphs: use "
                       "--backend chunks or qnn, or the whole model ('ferry chunk --join')",
                       s->weights);
    if (whole && (o->backend == FY_BACKEND_CPU || o->backend == FY_BACKEND_AUTO))
        return 0;
    if (read_compiled(s->qnn, &compiled, e) != 0 || check_kind(o, s, compiled, e) != 0)
        return -1;
    if (o->backend == FY_BACKEND_AUTO)
        fy_log(FY_LOG_INFO, "backend: %s (%s holds the embedding alone)",
               compiled ? "qnn" : "chunks", s->weights);
    return compiled ? add_qnn(o, s, m, e) : fy_model_add_chunks(m, s->qnn, how, e);
}

static fy_model *open_source(const fy_machine_options *o, const source *s,
                             const fy_map_options *how, fy_err *e)
{
    const bool graphs = o->backend == FY_BACKEND_CHUNKS || o->backend == FY_BACKEND_QNN;
    if (s->qnn == NULL && graphs) {
        fy_fail(e, FY_EARG,
                "%s: --backend %s needs a model that was cut: 'ferry chunk' does it, and its "
                "directory is given with -m, or its workspace with -d",
                s->weights, o->backend == FY_BACKEND_QNN ? "qnn" : "chunks");
        return NULL;
    }
    if (s->qnn == NULL)
        return fy_model_open_as(s->weights, how, e);
    fy_model *m = fy_model_open_chunk(s->weights, how, e);
    if (m == NULL || choose(o, s, how, m, e) == 0)
        return m;
    fy_model_close(m);
    return NULL;
}

/* Options that give the weights memory in different ways. */
static int check_memory(const fy_machine_options *o, fy_err *e)
{
    if (o->mlock_hot && (o->mlock || o->no_mmap))
        return fy_fail(e, FY_EARG,
                       "--mlock-hot maps the file and locks a part of it: leave out --mlock and "
                       "--no-mmap (of bench: --mmap 0)");
    if (o->memory > 0 && (o->mlock || o->mlock_hot || o->no_mmap))
        return fy_fail(e, FY_EARG,
                       "--memory maps the file and keeps a part of it in memory: leave out "
                       "--mlock, --mlock-hot and --no-mmap (of bench: --mmap 0)");
    return 0;
}

static int keep_memory(const fy_machine_options *o, fy_model *m, fy_err *e)
{
    if (o->gpu_hot && give_hot(m, e) != 0)
        return -1;
    if (o->mlock_hot)
        return fy_model_lock_hot(m, e);
    return o->memory > 0 ? fy_model_limit_memory(m, (uint64_t)o->memory, e) : 0;
}

fy_model *fy_machine_open(const fy_machine_options *o, const char *path, const char *qnn,
                          const char *libs, fy_err *e)
{
    fy_progress progress;
    source s;
    if (check_memory(o, e) != 0 || find_source(path, qnn, &s, e) != 0)
        return NULL;
    s.libs = libs;
    fy_map_options how = {.huge = o->memory <= 0, .read = o->no_mmap, .lock = o->mlock};
    const bool shows = how.read || how.lock;
    how.progress = shows ? &progress : NULL;
    if (shows)
        fy_show_begin(&progress, how.read ? "reading" : "locking", 0);
    fy_model *m = open_source(o, &s, &how, e);
    if (shows)
        fy_show_end(&progress);
    release(&s);
    if (m == NULL || keep_memory(o, m, e) == 0)
        return m;
    fy_model_close(m);
    return NULL;
}

fy_model *fy_machine_open_any(const fy_machine_options *o, const char *path, fy_err *e)
{
    fy_bundle b = {0};
    const bool is_workspace = fy_file_is_dir(path) && fy_dir_has(path, FY_BUNDLE_WORKSPACE_JSON);
    if (is_workspace && fy_bundle_open(path, &b, e) != 0)
        return NULL;
    fy_model *m = fy_machine_open(o, is_workspace ? b.weights : path, b.qnn, b.qnn_libs, e);
    if (is_workspace)
        fy_bundle_release(&b);
    return m;
}
