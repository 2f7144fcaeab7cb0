/* A recorder in front of a QNN library: every call with its arguments, its answer and its time, a
 * line of JSON each, so that what failed on one machine can be done again on another
 * (workspace/npu/qnn_replay.h). The line of a call begins before the call and ends after it: a line
 * that is not whole is of the call that crashed or hung.
 *
 *     {"call": "graphCreate", "context": 3, "name": "g", "configs": [], "result": 0, "graph": 4}
 *
 * Objects have numbers in the order in which they were made. Bytes (constants, inputs, outputs,
 * binaries) are written with their number and SHA-256; a few as "hex", others with "at", their
 * place in FILE.data, when the caller wants them kept. Log lines of the library follow the call,
 * with "log" and "level". */
#ifndef FY_BACKEND_QNN_QNN_RECORD_H
#define FY_BACKEND_QNN_QNN_RECORD_H

#include "backend/qnn/qnn_abi.h"
#include "base/err.h"

typedef struct {
    const char *path; /* NULL: nothing is recorded. A file that is there is continued */
    bool data;        /* keep the bytes in PATH.data */
} fy_qnn_record;

/* Begins: *call is the table to use instead of `table`, which has to live as long. One recorder a
 * process. */
int fy_qnn_record_begin(const fy_qnn_record *r, const fy_qnn_table *table, fy_qnn_version core,
                        const char *build_id, const fy_qnn_table **call, fy_err *e);
void fy_qnn_record_log(uint32_t level, const char *text); /* nothing when none is open */
/* Closes the files. FY_EIO when something could not be written. */
int fy_qnn_record_end(fy_err *e);

#endif
