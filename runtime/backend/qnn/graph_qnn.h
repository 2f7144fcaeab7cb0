/* "qnn": the graphs of a compiled model on a QNN library, the NPU's or one that stands for it. A
 * device for model/chain.h.
 *
 * A chunk is a context binary NAME.bin with NAME.json beside it (qnn_sidecar.h): its bytes are
 * hashed, the release that made it is held against the library's, and then the library gets it.
 * Without NAME.json, libQnnSystem.so describes it (qnn_metadata.h). */
#ifndef FY_BACKEND_QNN_GRAPH_QNN_H
#define FY_BACKEND_QNN_GRAPH_QNN_H

#include "backend/graph_backend.h"
#include "backend/qnn/qnn_power.h"
#include "base/err.h"

/* Loads the library at a path (fy_qnn_find); a process has one such device at a time. hashed: the
 * binaries were before, and have not changed since. NULL on failure. */
fy_graph_device *fy_graph_qnn_open(const char *library, fy_qnn_power_level power, bool hashed,
                                   fy_err *e);

#endif
