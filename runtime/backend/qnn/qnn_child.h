/* A QNN library in a process of its own: code that is not ours may crash, hang, or write to the
 * terminal, and a library can be opened only once in a process.
 *
 * The job runs in the child, with the library open and its standard streams closed; what it sends
 * arrives in the parent message by message. */
#ifndef FY_BACKEND_QNN_QNN_CHILD_H
#define FY_BACKEND_QNN_QNN_CHILD_H

#include "backend/qnn/qnn_lib.h"

typedef struct fy_qnn_pipe fy_qnn_pipe;
int fy_qnn_send(fy_qnn_pipe *to, const void *p, size_t n, fy_err *e);

/* In the child. */
typedef int fy_qnn_job(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e);
/* In the parent, a message each. */
typedef int fy_qnn_take(void *user, const void *p, size_t n, fy_err *e);

typedef enum { FY_QNN_DONE, FY_QNN_CRASHED, FY_QNN_HUNG } fy_qnn_end;

/* Opens the library at `path` in a child and runs `job`. A child that sends nothing for timeout_s
 * is ended: *end is FY_QNN_HUNG; one that a signal ended is FY_QNN_CRASHED, and neither is an
 * error. Fails with the child's own error, with that of `take`, and when interrupted. */
int fy_qnn_child(const char *path, const fy_qnn_record *record, fy_qnn_job *job, fy_qnn_take *take,
                 void *user, int timeout_s, fy_qnn_end *end, fy_err *e);

#endif
