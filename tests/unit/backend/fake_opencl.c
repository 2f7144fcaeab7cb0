/* An OpenCL library that computes nothing and fails on request. It holds its user to the
 * rules: objects are of the right kind, are released once, and buffers are not left.
 *
 *   FAKE_OPENCL_FAIL=N[:CODE]  the Nth call that may fail does, with CODE (-5); N+: all from it on
 *   FAKE_OPENCL_NAME, _LOG     the device's name, and what its compiler says when it fails
 *   FAKE_OPENCL_MEMORY=BYTES   of the device
 *
 * A test in the same process uses fake_opencl_fail and its kin instead. */
#include "backend/opencl/opencl_lib.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef enum { CONTEXT = 71, QUEUE, PROGRAM, KERNEL, BUFFER } kind;
typedef struct {
    kind kind;
    size_t size;
} object;

EXPORT void fake_opencl_fail(long at, bool all_from, int32_t code);
EXPORT long fake_opencl_calls(void);
EXPORT long fake_opencl_live(void);

static char platform, device;
static long n_calls, fail_at = -1, n_live;
static bool fails_on;
static int32_t fail_code = -5;

static void read_settings(void)
{
    static bool was_read;
    const char *s = getenv("FAKE_OPENCL_FAIL");
    if (was_read || s == NULL)
        return;
    was_read = true;
    char *end;
    fail_at = strtol(s, &end, 10);
    if (*end == '+') {
        fails_on = true;
        end++;
    }
    if (*end == ':')
        fail_code = (int32_t)strtol(end + 1, NULL, 10);
}

void fake_opencl_fail(long at, bool all_from, int32_t code)
{
    n_calls = 0;
    fail_at = at;
    fails_on = all_from;
    fail_code = code;
}

long fake_opencl_calls(void)
{
    return n_calls;
}

long fake_opencl_live(void)
{
    return n_live;
}

static int32_t next(void)
{
    read_settings();
    const long i = n_calls++;
    return i == fail_at || (fails_on && fail_at >= 0 && i > fail_at) ? fail_code : 0;
}

static void need(bool rule)
{
    if (!rule)
        abort();
}

static void *new_object(kind k, size_t size, int32_t *rc)
{
    *rc = next();
    if (*rc != 0)
        return NULL;
    object *o = calloc(1, sizeof *o + size);
    need(o != NULL);
    *o = (object){k, size};
    n_live++;
    return o;
}

static object *of_kind(void *p, kind k)
{
    object *o = p;
    need(o != NULL && o->kind == k);
    return o;
}

static int32_t release(void *p, kind k)
{
    object *o = of_kind(p, k);
    o->kind = 0;
    free(o);
    n_live--;
    return 0;
}

static int32_t give_text(const char *text, size_t size, void *out, size_t *size_out)
{
    const int32_t rc = next();
    if (rc != 0)
        return rc;
    if (size_out != NULL)
        *size_out = strlen(text) + 1;
    if (strlen(text) + 1 > size)
        return -30;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *s = getenv(name);
    return s != NULL ? s : otherwise;
}

/* --- the library ------------------------------------------------------------------------------ */

#define DECLARE(name, result, parameters) EXPORT result name parameters;
FY_CL_FUNCTIONS(DECLARE)
#undef DECLARE

int32_t clGetPlatformIDs(uint32_t n, fy_cl_object *out, uint32_t *n_out)
{
    need(n > 0);
    *out = &platform;
    *n_out = 1;
    return next();
}

int32_t clGetDeviceIDs(fy_cl_object p, uint64_t type, uint32_t n, fy_cl_object *out,
                       uint32_t *n_out)
{
    need(p == &platform && n == 1);
    if (type == FY_CL_DEVICE_TYPE_GPU) /* the CPU, as PoCL offers it */
        return next() != 0 ? fail_code : FY_CL_DEVICE_NOT_FOUND;
    *out = &device;
    *n_out = 1;
    return next();
}

int32_t clGetDeviceInfo(fy_cl_object d, uint32_t what, size_t size, void *out, size_t *size_out)
{
    need(d == &device);
    if (what == FY_CL_DEVICE_NAME)
        return give_text(setting("FAKE_OPENCL_NAME", "fake"), size, out, size_out);
    const uint64_t bytes = strtoull(setting("FAKE_OPENCL_MEMORY", "1000000000"), NULL, 10);
    need(size == sizeof bytes);
    memcpy(out, &bytes, size);
    return next();
}

fy_cl_object clCreateContext(const intptr_t *properties, uint32_t n, const fy_cl_object *devices,
                             void (*notify)(const char *, const void *, size_t, void *), void *user,
                             int32_t *rc)
{
    (void)properties, (void)notify, (void)user;
    need(n == 1 && devices[0] == &device);
    return new_object(CONTEXT, 0, rc);
}

fy_cl_object clCreateCommandQueue(fy_cl_object context, fy_cl_object d, uint64_t properties,
                                  int32_t *rc)
{
    of_kind(context, CONTEXT);
    need(d == &device && properties == 0);
    return new_object(QUEUE, 0, rc);
}

fy_cl_object clCreateProgramWithSource(fy_cl_object context, uint32_t n, const char **text,
                                       const size_t *len, int32_t *rc)
{
    of_kind(context, CONTEXT);
    need(n == 1 && len == NULL && strstr(text[0], "__kernel") != NULL);
    return new_object(PROGRAM, 0, rc);
}

int32_t clBuildProgram(fy_cl_object program, uint32_t n, const fy_cl_object *devices,
                       const char *options, void (*notify)(fy_cl_object, void *), void *user)
{
    (void)n, (void)devices, (void)options, (void)notify, (void)user;
    of_kind(program, PROGRAM);
    return next();
}

int32_t clGetProgramBuildInfo(fy_cl_object program, fy_cl_object d, uint32_t what, size_t size,
                              void *out, size_t *size_out)
{
    of_kind(program, PROGRAM);
    need(d == &device && what == FY_CL_PROGRAM_BUILD_LOG);
    return give_text(setting("FAKE_OPENCL_LOG", ""), size, out, size_out);
}

fy_cl_object clCreateKernel(fy_cl_object program, const char *name, int32_t *rc)
{
    of_kind(program, PROGRAM);
    need(strncmp(name, "dot_", 4) == 0 || strncmp(name, "add_", 4) == 0);
    return new_object(KERNEL, 0, rc);
}

int32_t clSetKernelArg(fy_cl_object kernel, uint32_t index, size_t size, const void *value)
{
    of_kind(kernel, KERNEL);
    need(index < 10 && size <= 8 && value != NULL);
    return next();
}

fy_cl_object clCreateBuffer(fy_cl_object context, uint64_t flags, size_t size, void *host,
                            int32_t *rc)
{
    of_kind(context, CONTEXT);
    need(flags != 0 && size > 0 && host == NULL);
    return new_object(BUFFER, size, rc);
}

int32_t clEnqueueWriteBuffer(fy_cl_object queue, fy_cl_object buffer, uint32_t blocking, size_t at,
                             size_t size, const void *from, uint32_t n_wait,
                             const fy_cl_object *wait, fy_cl_object *event)
{
    object *b = of_kind(buffer, BUFFER);
    (void)blocking, (void)n_wait, (void)wait, (void)event;
    of_kind(queue, QUEUE);
    need(at == 0 && size <= b->size);
    memcpy(b + 1, from, size);
    return next();
}

int32_t clEnqueueReadBuffer(fy_cl_object queue, fy_cl_object buffer, uint32_t blocking, size_t at,
                            size_t size, void *to, uint32_t n_wait, const fy_cl_object *wait,
                            fy_cl_object *event)
{
    const object *b = of_kind(buffer, BUFFER);
    (void)blocking, (void)n_wait, (void)wait, (void)event;
    of_kind(queue, QUEUE);
    need(at == 0 && size <= b->size);
    memcpy(to, b + 1, size);
    return next();
}

int32_t clEnqueueNDRangeKernel(fy_cl_object queue, fy_cl_object kernel, uint32_t n_dims,
                               const size_t *first, const size_t *global, const size_t *local,
                               uint32_t n_wait, const fy_cl_object *wait, fy_cl_object *event)
{
    (void)n_wait, (void)wait, (void)event;
    of_kind(queue, QUEUE);
    of_kind(kernel, KERNEL);
    need(n_dims == 2 && first == NULL && global[0] > 0 && global[0] % local[0] == 0);
    return next();
}

int32_t clFlush(fy_cl_object queue)
{
    of_kind(queue, QUEUE);
    return next();
}

int32_t clFinish(fy_cl_object queue)
{
    of_kind(queue, QUEUE);
    return next();
}

int32_t clReleaseContext(fy_cl_object o)
{
    return release(o, CONTEXT);
}
int32_t clReleaseCommandQueue(fy_cl_object o)
{
    return release(o, QUEUE);
}
int32_t clReleaseProgram(fy_cl_object o)
{
    return release(o, PROGRAM);
}
int32_t clReleaseKernel(fy_cl_object o)
{
    return release(o, KERNEL);
}
int32_t clReleaseMemObject(fy_cl_object o)
{
    return release(o, BUFFER);
}
