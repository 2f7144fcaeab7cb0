/* The system's OpenCL library: what ferry uses of OpenCL 1.2 (Khronos' cl.h), found when it is
 * asked for. The library stays loaded: drivers start threads. */
#ifndef FY_BACKEND_OPENCL_LIB_H
#define FY_BACKEND_OPENCL_LIB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Objects are pointers that only the library looks into: platforms, devices, contexts, queues,
 * programs, kernels and buffers. */
typedef void *fy_cl_object;

enum {
    FY_CL_SUCCESS = 0,
    FY_CL_DEVICE_NOT_FOUND = -1,
    FY_CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    FY_CL_OUT_OF_HOST_MEMORY = -6,
    FY_CL_BUILD_PROGRAM_FAILURE = -11,
    FY_CL_PLATFORM_NOT_FOUND = -1001, /* cl_khr_icd: no driver is installed */

    FY_CL_FALSE = 0,
    FY_CL_TRUE = 1,
    FY_CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    FY_CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    FY_CL_DEVICE_NAME = 0x102B,
    FY_CL_PROGRAM_BUILD_LOG = 0x1183,
};

#define FY_CL_DEVICE_TYPE_GPU ((uint64_t)4)
#define FY_CL_DEVICE_TYPE_ALL ((uint64_t)0xFFFFFFFF)
#define FY_CL_MEM_READ_WRITE  ((uint64_t)1)
#define FY_CL_MEM_READ_ONLY   ((uint64_t)4)

/* X(name, type of the result, (parameters)) */
#define FY_CL_FUNCTIONS(X)                                                                      \
    X(clGetPlatformIDs, int32_t, (uint32_t n, fy_cl_object * out, uint32_t * n_out))            \
    X(clGetDeviceIDs, int32_t,                                                                  \
      (fy_cl_object platform, uint64_t type, uint32_t n, fy_cl_object * out, uint32_t * n_out)) \
    X(clGetDeviceInfo, int32_t,                                                                 \
      (fy_cl_object device, uint32_t what, size_t size, void *out, size_t *size_out))           \
    X(clCreateContext, fy_cl_object,                                                            \
      (const intptr_t *properties, uint32_t n, const fy_cl_object *devices,                     \
       void (*notify)(const char *, const void *, size_t, void *), void *user, int32_t *rc))    \
    X(clReleaseContext, int32_t, (fy_cl_object context))                                        \
    X(clCreateCommandQueue, fy_cl_object,                                                       \
      (fy_cl_object context, fy_cl_object device, uint64_t properties, int32_t * rc))           \
    X(clReleaseCommandQueue, int32_t, (fy_cl_object queue))                                     \
    X(clCreateProgramWithSource, fy_cl_object,                                                  \
      (fy_cl_object context, uint32_t n, const char **text, const size_t *len, int32_t *rc))    \
    X(clReleaseProgram, int32_t, (fy_cl_object program))                                        \
    X(clBuildProgram, int32_t,                                                                  \
      (fy_cl_object program, uint32_t n, const fy_cl_object *devices, const char *options,      \
       void (*notify)(fy_cl_object, void *), void *user))                                       \
    X(clGetProgramBuildInfo, int32_t,                                                           \
      (fy_cl_object program, fy_cl_object device, uint32_t what, size_t size, void *out,        \
       size_t *size_out))                                                                       \
    X(clCreateKernel, fy_cl_object, (fy_cl_object program, const char *name, int32_t *rc))      \
    X(clReleaseKernel, int32_t, (fy_cl_object kernel))                                          \
    X(clSetKernelArg, int32_t,                                                                  \
      (fy_cl_object kernel, uint32_t index, size_t size, const void *value))                    \
    X(clCreateBuffer, fy_cl_object,                                                             \
      (fy_cl_object context, uint64_t flags, size_t size, void *host, int32_t *rc))             \
    X(clReleaseMemObject, int32_t, (fy_cl_object buffer))                                       \
    X(clEnqueueWriteBuffer, int32_t,                                                            \
      (fy_cl_object queue, fy_cl_object buffer, uint32_t blocking, size_t at, size_t size,      \
       const void *from, uint32_t n_wait, const fy_cl_object *wait, fy_cl_object *event))       \
    X(clEnqueueReadBuffer, int32_t,                                                             \
      (fy_cl_object queue, fy_cl_object buffer, uint32_t blocking, size_t at, size_t size,      \
       void *to, uint32_t n_wait, const fy_cl_object *wait, fy_cl_object *event))               \
    X(clEnqueueNDRangeKernel, int32_t,                                                          \
      (fy_cl_object queue, fy_cl_object kernel, uint32_t n_dims, const size_t *first,           \
       const size_t *global, const size_t *local, uint32_t n_wait, const fy_cl_object *wait,    \
       fy_cl_object *event))                                                                    \
    X(clFlush, int32_t, (fy_cl_object queue))                                                   \
    X(clFinish, int32_t, (fy_cl_object queue))

#define FY_CL_MEMBER(name, result, parameters) result(*name) parameters;
typedef struct {
    FY_CL_FUNCTIONS(FY_CL_MEMBER)
} fy_cl;
#undef FY_CL_MEMBER

/* path NULL: where systems have it, and the vendors of phones. FY_EDEVICE: there is none, or it
 * lacks functions. */
int fy_cl_load(fy_cl *cl, const char *path, fy_err *e);

/* "clFlush: -36 (invalid command queue)": FY_EFIT when memory was short, else FY_EDEVICE. */
int fy_cl_fail(const char *device, const char *call, int32_t rc, fy_err *e);

#endif
