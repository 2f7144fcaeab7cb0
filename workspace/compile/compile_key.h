/* What a context binary was made from, as one SHA-256: a binary whose sidecar has this key need not
 * be made again. */
#ifndef FY_WORKSPACE_COMPILE_KEY_H
#define FY_WORKSPACE_COMPILE_KEY_H

#include "base/hash.h"
#include "workspace/compile/compile_chunk.h"

/* The chunk's bytes, its graphs and encodings, how much each input counts, the chip, the library,
 * and the version of ferry. */
int fy_compile_key(const fy_compile_job *job, const fy_compile_graphs *g, char out[FY_SHA256_HEX],
                   fy_err *e);

#endif
