/* One device, one queue that keeps the order of its commands. Tokens go in blocks: x of a block up,
 * three kernels, y down; nothing waits before `end`. */
#include "backend/opencl/opencl_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/opencl_lib.h"
#include "base/log.h"
#include "base/math.h"

enum {
    PLATFORMS = 16,
    GROUP = 64, /* work-items */
    TOKENS = 32,
    LOG_BYTES = 1 << 16,
    LOG_IN_MESSAGE = 160,
};

/* Activations, for the kernels. */
enum { RAW, RELU, DRELU, RELU2 };

/* The types that there are kernels for. */
enum { F16, Q8_0, Q4_0, N_TYPES };
static const struct {
    fy_type type;
    const char *dot, *add;
} types[N_TYPES] = {[F16] = {FY_F16, "dot_f16", "add_f16"},
                    [Q8_0] = {FY_Q8_0, "dot_q8_0", "add_q8_0"},
                    [Q4_0] = {FY_Q4_0, "dot_q4_0", "add_q4_0"}};

typedef struct {
    fy_cl_object rows, bias; /* owned; NULL: none */
    size_t row_bytes;
    fy_cl_object kernel; /* view */
} matrix;

typedef struct {
    matrix gate, up, down;
    int64_t n, n_cols; /* neurons; elements of x and y */
} layer;

typedef struct {
    fy_gpu base;
    fy_cl cl;
    fy_cl_object device, context, queue, program;
    fy_cl_object dot[N_TYPES], add[N_TYPES];
    fy_cl_object x, a, y; /* of TOKENS tokens */
    layer *layers;        /* owned */
    uint32_t n_layers;
    int f;
    float threshold;
} gpu;

static int fail(const gpu *g, const char *call, int32_t rc, fy_err *e)
{
    return fy_cl_fail(g->base.device, call, rc, e);
}

/* --- the device ------------------------------------------------------------------------------- */

static int read_name(gpu *g, fy_err *e)
{
    char name[256] = "";
    const int32_t rc =
        g->cl.clGetDeviceInfo(g->device, FY_CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    if (rc != FY_CL_SUCCESS)
        return fail(g, "clGetDeviceInfo", rc, e);
    name[sizeof name - 1] = '\0';
    fy_quote(g->base.device, sizeof g->base.device, fy_span_of(name));
    return 0;
}

/* The first device of a type, of the platforms in their order. */
static int find_of_type(gpu *g, const fy_cl_object *platforms, uint32_t n, uint64_t type, fy_err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_devices = 0;
        const int32_t rc = g->cl.clGetDeviceIDs(platforms[i], type, 1, &g->device, &n_devices);
        if (rc != FY_CL_SUCCESS && rc != FY_CL_DEVICE_NOT_FOUND)
            return fail(g, "clGetDeviceIDs", rc, e);
        if (rc == FY_CL_SUCCESS && n_devices > 0)
            return 0;
        g->device = NULL;
    }
    return 0;
}

static int find_device(gpu *g, fy_err *e)
{
    fy_cl_object platforms[PLATFORMS];
    uint32_t n = 0;
    const int32_t rc = g->cl.clGetPlatformIDs(PLATFORMS, platforms, &n);
    if (rc != FY_CL_SUCCESS && rc != FY_CL_PLATFORM_NOT_FOUND)
        return fail(g, "clGetPlatformIDs", rc, e);
    if (rc != FY_CL_SUCCESS)
        n = 0;
    n = n < PLATFORMS ? n : PLATFORMS;
    if (find_of_type(g, platforms, n, FY_CL_DEVICE_TYPE_GPU, e) != 0 ||
        (g->device == NULL && find_of_type(g, platforms, n, FY_CL_DEVICE_TYPE_ALL, e) != 0))
        return -1;
    if (g->device == NULL)
        return fy_fail(e, FY_EDEVICE,
                       "the OpenCL library knows no device (%u drivers are installed): install the "
                       "GPU's driver with its OpenCL part, or run without --gpu-hot",
                       n);
    return read_name(g, e);
}

/* The compiler's log, in the message as far as there is room; all of it with -v. */
static int fail_build(gpu *g, int32_t rc, fy_err *e)
{
    size_t n = 0;
    char *log = calloc(1, LOG_BYTES);
    fy_str shown = {0};
    char begins[LOG_IN_MESSAGE] = "";
    if (log != NULL && g->cl.clGetProgramBuildInfo(g->program, g->device, FY_CL_PROGRAM_BUILD_LOG,
                                                   LOG_BYTES - 1, log, &n) == FY_CL_SUCCESS)
        fy_str_put_shown(&shown, fy_span_of(log));
    fy_log_lines(FY_LOG_DEBUG, fy_str_z(&shown));
    if (log != NULL && log[0] != '\0')
        fy_quote(begins, sizeof begins, fy_span_of(log));
    if (begins[0] != '\0')
        fy_fail(e, FY_EDEVICE,
                "OpenCL, %s: the driver did not compile the kernels: %s; run without --gpu-hot, or "
                "update the driver",
                g->base.device, begins);
    else
        fail(g, "clBuildProgram", rc, e);
    fy_str_release(&shown);
    free(log);
    return -1;
}

static int build(gpu *g, fy_err *e)
{
    const char *text = fy_opencl_source;
    char numbers[80];
    int32_t rc = FY_CL_SUCCESS;
    snprintf(numbers, sizeof numbers, "-DGROUP=%d -DRAW=%d -DRELU=%d -DDRELU=%d -DRELU2=%d", GROUP,
             RAW, RELU, DRELU, RELU2);
    g->program = g->cl.clCreateProgramWithSource(g->context, 1, &text, NULL, &rc);
    if (g->program == NULL)
        return fail(g, "clCreateProgramWithSource", rc, e);
    rc = g->cl.clBuildProgram(g->program, 1, &g->device, numbers, NULL, NULL);
    if (rc != FY_CL_SUCCESS)
        return fail_build(g, rc, e);
    for (int t = 0; t < N_TYPES; t++) {
        g->dot[t] = g->cl.clCreateKernel(g->program, types[t].dot, &rc);
        if (g->dot[t] != NULL)
            g->add[t] = g->cl.clCreateKernel(g->program, types[t].add, &rc);
        if (g->add[t] == NULL)
            return fail(g, "clCreateKernel", rc, e);
    }
    return 0;
}

static int begin_device(gpu *g, fy_err *e)
{
    int32_t rc = FY_CL_SUCCESS;
    if (find_device(g, e) != 0)
        return -1;
    g->context = g->cl.clCreateContext(NULL, 1, &g->device, NULL, NULL, &rc);
    if (g->context == NULL)
        return fail(g, "clCreateContext", rc, e);
    g->queue = g->cl.clCreateCommandQueue(g->context, g->device, 0, &rc);
    if (g->queue == NULL)
        return fail(g, "clCreateCommandQueue", rc, e);
    return build(g, e);
}

/* --- its memory ------------------------------------------------------------------------------- */

static int kind_of(fy_type t)
{
    int i = 0;
    while (i < N_TYPES && types[i].type != t)
        i++;
    return i;
}

static int check_matrix(const fy_matrix *w, const char *what, uint32_t l, fy_err *e)
{
    if (w->data == NULL || kind_of(w->type) < N_TYPES)
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "--gpu-hot: %s of layer %u is %s, and the GPU computes with f16, q8_0 and q4_0: "
                   "'ferry quantize' makes such a file",
                   what, l, fy_type_name(w->type));
}

static int check_layer(const fy_gpu_layer *w, uint32_t l, fy_err *e)
{
    if (check_matrix(&w->gate, "gate", l, e) != 0 || check_matrix(&w->up, "up", l, e) != 0 ||
        check_matrix(&w->down, "down", l, e) != 0)
        return -1;
    if (w->gate.data != NULL &&
        fy_kernels_wants_q8(w->gate.type) != fy_kernels_wants_q8(w->up.type))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--gpu-hot: gate of layer %u is %s and up %s, expected f16 for both or "
                       "neither",
                       l, fy_type_name(w->gate.type), fy_type_name(w->up.type));
    return 0;
}

typedef struct {
    uint64_t sum, most; /* bytes of all buffers, and of the largest */
} sizes;

static void count(sizes *s, uint64_t n, uint64_t each)
{
    uint64_t bytes;
    if (!fy_mul_u64(n, each, &bytes) || !fy_add_u64(s->sum, bytes, &s->sum))
        bytes = s->sum = UINT64_MAX;
    s->most = bytes > s->most ? bytes : s->most;
}

static int check_room(gpu *g, const sizes *s, fy_err *e)
{
    uint64_t whole = 0, most = 0;
    int32_t rc =
        g->cl.clGetDeviceInfo(g->device, FY_CL_DEVICE_GLOBAL_MEM_SIZE, sizeof whole, &whole, NULL);
    if (rc == FY_CL_SUCCESS)
        rc = g->cl.clGetDeviceInfo(g->device, FY_CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most,
                                   NULL);
    if (rc != FY_CL_SUCCESS)
        return fail(g, "clGetDeviceInfo", rc, e);
    if (s->sum <= whole && s->most <= most && s->sum <= SIZE_MAX)
        return 0;
    return fy_fail(e, FY_EFIT,
                   "--gpu-hot: the hot neurons take %.1f MB of the GPU's memory, %.1f MB in one "
                   "piece; %s has %.1f MB, and %.1f MB for a piece: make fewer hot (ferry plan "
                   "--hot)",
                   (double)s->sum * 1e-6, (double)s->most * 1e-6, g->base.device,
                   (double)whole * 1e-6, (double)most * 1e-6);
}

static int new_buffer(gpu *g, uint64_t flags, uint64_t bytes, fy_cl_object *out, fy_err *e)
{
    int32_t rc = FY_CL_SUCCESS;
    *out = g->cl.clCreateBuffer(g->context, flags, (size_t)bytes, NULL, &rc);
    return *out != NULL ? 0 : fail(g, "clCreateBuffer", rc, e);
}

/* A copy of so many bytes; none of them: no buffer. */
static int upload(gpu *g, const void *from, uint64_t bytes, fy_cl_object *out, fy_err *e)
{
    if (from == NULL)
        return 0;
    if (new_buffer(g, FY_CL_MEM_READ_ONLY, bytes, out, e) != 0)
        return -1;
    const int32_t rc = g->cl.clEnqueueWriteBuffer(g->queue, *out, FY_CL_TRUE, 0, (size_t)bytes,
                                                  from, 0, NULL, NULL);
    return rc == FY_CL_SUCCESS ? 0 : fail(g, "clEnqueueWriteBuffer", rc, e);
}

static int upload_matrix(gpu *g, const fy_matrix *w, const float *bias, const fy_cl_object *kernels,
                         matrix *out, fy_err *e)
{
    if (w->data == NULL)
        return 0;
    const uint64_t n = (uint64_t)w->n_rows;
    out->row_bytes = w->row_bytes;
    out->kernel = kernels[kind_of(w->type)];
    return upload(g, w->data, n * w->row_bytes, &out->rows, e) != 0 ||
                   upload(g, bias, n * sizeof *bias, &out->bias, e) != 0
               ? -1
               : 0;
}

static int upload_layer(gpu *g, const fy_gpu_layer *w, layer *out, fy_err *e)
{
    out->n = w->up.n_rows;
    out->n_cols = w->up.n_cols;
    return upload_matrix(g, &w->gate, w->gate_bias, g->dot, &out->gate, e) != 0 ||
                   upload_matrix(g, &w->up, w->up_bias, g->dot, &out->up, e) != 0 ||
                   upload_matrix(g, &w->down, NULL, g->add, &out->down, e) != 0
               ? -1
               : 0;
}

static int set_activation(gpu *g, const fy_activation *f, fy_err *e)
{
    g->threshold = f->kind == FY_ACT_FATRELU ? f->threshold : 0;
    if (f->kind == FY_ACT_RELU || f->kind == FY_ACT_FATRELU)
        g->f = RELU;
    else if (f->kind == FY_ACT_DRELU)
        g->f = DRELU;
    else if (f->kind == FY_ACT_RELU2)
        g->f = RELU2;
    else
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--gpu-hot: the GPU computes activations of the ReLU kind, and this model's "
                       "is another");
    return 0;
}

static int load(fy_gpu *base, const fy_gpu_layer *layers, uint32_t n_layers, const fy_activation *f,
                fy_err *e)
{
    gpu *g = (gpu *)(void *)base;
    sizes s = {0};
    uint64_t n_cols = 1, n_neurons = 1;
    if (set_activation(g, f, e) != 0)
        return -1;
    for (uint32_t l = 0; l < n_layers; l++) {
        const fy_gpu_layer *w = &layers[l];
        const uint64_t n = (uint64_t)w->up.n_rows;
        if (n == 0)
            continue;
        if (check_layer(w, l, e) != 0)
            return -1;
        const fy_matrix *all[] = {&w->gate, &w->up, &w->down};
        for (int i = 0; i < 3; i++)
            count(&s, n, all[i]->data != NULL ? all[i]->row_bytes : 0);
        count(&s, 2 * n, sizeof(float)); /* biases */
        n_neurons = n > n_neurons ? n : n_neurons;
        n_cols = (uint64_t)w->up.n_cols > n_cols ? (uint64_t)w->up.n_cols : n_cols;
    }
    const uint64_t token = sizeof(float) * TOKENS;
    count(&s, n_cols, token);
    count(&s, n_cols, token);
    count(&s, n_neurons, token);
    g->layers = calloc(n_layers, sizeof *g->layers);
    if (g->layers == NULL)
        return fy_nomem(e);
    g->n_layers = n_layers;
    if (check_room(g, &s, e) != 0 ||
        new_buffer(g, FY_CL_MEM_READ_ONLY, n_cols * token, &g->x, e) != 0 ||
        new_buffer(g, FY_CL_MEM_READ_WRITE, n_neurons * token, &g->a, e) != 0 ||
        new_buffer(g, FY_CL_MEM_READ_WRITE, n_cols * token, &g->y, e) != 0)
        return -1;
    for (uint32_t l = 0; l < n_layers; l++) {
        if (layers[l].up.n_rows > 0 && upload_layer(g, &layers[l], &g->layers[l], e) != 0)
            return -1;
    }
    return 0;
}

/* --- computing -------------------------------------------------------------------------------- */

typedef struct {
    size_t size;
    const void *value;
} argument;
#define ARGUMENT(v) ((argument){sizeof(v), &(v)})

static int launch(gpu *g, fy_cl_object kernel, const argument *args, uint32_t n_args,
                  size_t n_groups, size_t n_tokens, fy_err *e)
{
    const size_t global[] = {n_groups * GROUP, n_tokens}, local[] = {GROUP, 1};
    for (uint32_t i = 0; i < n_args; i++) {
        const int32_t rc = g->cl.clSetKernelArg(kernel, i, args[i].size, args[i].value);
        if (rc != FY_CL_SUCCESS)
            return fail(g, "clSetKernelArg", rc, e);
    }
    const int32_t rc =
        g->cl.clEnqueueNDRangeKernel(g->queue, kernel, 2, NULL, global, local, 0, NULL, NULL);
    return rc == FY_CL_SUCCESS ? 0 : fail(g, "clEnqueueNDRangeKernel", rc, e);
}

/* a = f(W x + bias), or f(a) * (W x + bias). A buffer that is not read is x. */
static int dot(gpu *g, const layer *l, const matrix *w, int f, int32_t gated, size_t n_tokens,
               fy_err *e)
{
    const uint64_t row_bytes = w->row_bytes;
    const uint32_t n_cols = (uint32_t)l->n_cols;
    const int32_t has_bias = w->bias != NULL;
    const fy_cl_object bias = has_bias ? w->bias : g->x;
    const argument args[] = {ARGUMENT(g->a),        ARGUMENT(w->rows), ARGUMENT(row_bytes),
                             ARGUMENT(n_cols),      ARGUMENT(g->x),    ARGUMENT(bias),
                             ARGUMENT(has_bias),    ARGUMENT(gated),   ARGUMENT(f),
                             ARGUMENT(g->threshold)};
    return launch(g, w->kernel, args, sizeof args / sizeof args[0], (size_t)l->n, n_tokens, e);
}

static int add(gpu *g, const layer *l, size_t n_tokens, fy_err *e)
{
    const uint64_t row_bytes = l->down.row_bytes;
    const uint32_t n_cols = (uint32_t)l->n_cols, n = (uint32_t)l->n;
    const argument args[] = {ARGUMENT(g->y),   ARGUMENT(l->down.rows), ARGUMENT(row_bytes),
                             ARGUMENT(n_cols), ARGUMENT(g->a),         ARGUMENT(n)};
    return launch(g, l->down.kernel, args, sizeof args / sizeof args[0],
                  ((size_t)l->n_cols + GROUP - 1) / GROUP, n_tokens, e);
}

static int run_block(gpu *g, const layer *l, const float *x, size_t n_tokens, float *y, fy_err *e)
{
    const size_t bytes = n_tokens * (size_t)l->n_cols * sizeof *x;
    const bool gated = l->gate.rows != NULL;
    int32_t rc =
        g->cl.clEnqueueWriteBuffer(g->queue, g->x, FY_CL_FALSE, 0, bytes, x, 0, NULL, NULL);
    if (rc != FY_CL_SUCCESS)
        return fail(g, "clEnqueueWriteBuffer", rc, e);
    if ((gated && dot(g, l, &l->gate, RAW, 0, n_tokens, e) != 0) ||
        dot(g, l, &l->up, g->f, gated, n_tokens, e) != 0 || add(g, l, n_tokens, e) != 0)
        return -1;
    rc = g->cl.clEnqueueReadBuffer(g->queue, g->y, FY_CL_FALSE, 0, bytes, y, 0, NULL, NULL);
    return rc == FY_CL_SUCCESS ? 0 : fail(g, "clEnqueueReadBuffer", rc, e);
}

static int begin(fy_gpu *base, uint32_t i, const float *x, int64_t n_tokens, float *y, fy_err *e)
{
    gpu *g = (gpu *)(void *)base;
    const layer *l = &g->layers[i];
    int rc = 0;
    for (int64_t done = 0; rc == 0 && done < n_tokens; done += TOKENS) {
        const int64_t left = n_tokens - done, n = left < TOKENS ? left : TOKENS;
        rc = run_block(g, l, x + done * l->n_cols, (size_t)n, y + done * l->n_cols, e);
    }
    if (rc == 0) {
        const int32_t flushed = g->cl.clFlush(g->queue);
        rc = flushed == FY_CL_SUCCESS ? 0 : fail(g, "clFlush", flushed, e);
    }
    if (rc != 0) /* what is on its way must not touch x and y any more */
        g->cl.clFinish(g->queue);
    return rc;
}

static int end(fy_gpu *base, fy_err *e)
{
    gpu *g = (gpu *)(void *)base;
    const int32_t rc = g->cl.clFinish(g->queue);
    return rc == FY_CL_SUCCESS ? 0 : fail(g, "clFinish", rc, e);
}

/* --- life ------------------------------------------------------------------------------------- */

static void release_buffer(const gpu *g, fy_cl_object buffer)
{
    if (buffer != NULL)
        g->cl.clReleaseMemObject(buffer);
}

static void release_matrix(const gpu *g, const matrix *w)
{
    release_buffer(g, w->rows);
    release_buffer(g, w->bias);
}

static void close_gpu(fy_gpu *base)
{
    gpu *g = (gpu *)(void *)base;
    if (g == NULL)
        return;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        release_matrix(g, &g->layers[l].gate);
        release_matrix(g, &g->layers[l].up);
        release_matrix(g, &g->layers[l].down);
    }
    release_buffer(g, g->x);
    release_buffer(g, g->a);
    release_buffer(g, g->y);
    for (int t = 0; t < N_TYPES; t++) {
        if (g->dot[t] != NULL)
            g->cl.clReleaseKernel(g->dot[t]);
        if (g->add[t] != NULL)
            g->cl.clReleaseKernel(g->add[t]);
    }
    if (g->program != NULL)
        g->cl.clReleaseProgram(g->program);
    if (g->queue != NULL)
        g->cl.clReleaseCommandQueue(g->queue);
    if (g->context != NULL)
        g->cl.clReleaseContext(g->context);
    free(g->layers);
    free(g);
}

static const fy_gpu_api api = {.close = close_gpu, .load = load, .begin = begin, .end = end};

fy_gpu *fy_opencl_open(const char *library, fy_err *e)
{
    gpu *g = calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->base.api = &api;
    if (fy_cl_load(&g->cl, library, e) == 0 && begin_device(g, e) == 0)
        return &g->base;
    close_gpu(&g->base);
    return NULL;
}
