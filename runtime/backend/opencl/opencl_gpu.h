/* The share of a GPU (backend/gpu.h) through OpenCL: any device that the system's library offers,
 * a GPU before others. Matrices are f16, q8_0 or q4_0. */
#ifndef FY_BACKEND_OPENCL_GPU_H
#define FY_BACKEND_OPENCL_GPU_H

#include "backend/gpu.h"

/* library NULL: the system's (opencl_lib.h). FY_EDEVICE when there is no library, no device, or one
 * that does not compile the kernels. */
fy_gpu *fy_opencl_open(const char *library, fy_err *e);

extern const char fy_opencl_source[]; /* opencl_kernels.cl, embedded */

#endif
