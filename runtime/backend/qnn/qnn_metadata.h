/* The description of a context binary that came without one, from the library of metadata
 * (qnn_system.h): what PowerServe publishes, and what was moved without its NAME.json. */
#ifndef FY_BACKEND_QNN_QNN_METADATA_H
#define FY_BACKEND_QNN_QNN_METADATA_H

#include "backend/qnn/qnn_sidecar.h"

/* `library`: the path of the backend's library, beside which that of metadata lies. What it answers
 * is held to all that a description in a file is held to. Not known, and empty or 0: the model, the
 * hashes, the chip's name, architecture and memory, the recipe; the chip's number where the answer
 * has none. Messages do not name the binary. */
int fy_qnn_sidecar_recover(const char *library, const void *binary, uint64_t bytes,
                           fy_qnn_sidecar *out, fy_err *e);

#endif
