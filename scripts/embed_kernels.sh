#!/bin/sh
# Usage: embed_kernels.sh FILE.cl   C source with the OpenCL kernels as text, for backend/opencl/opencl_gpu.h.
set -eu
printf '#include "backend/opencl/opencl_gpu.h"\n\nconst char fy_opencl_source[] = {\n'
od -An -v -tx1 "$1" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
printf '0};\n'
