/* Does the calls of a record (backend/qnn/qnn_record.h) again, on any library of any release: a
 * failing job of one machine becomes a test on another. Answers are compared call by call; results
 * of graphs element by element where the record kept the bytes. Where it did not, made-up ones
 * stand in.
 */
#ifndef FY_WORKSPACE_QNN_REPLAY_H
#define FY_WORKSPACE_QNN_REPLAY_H

#include "backend/qnn/qnn_graph.h"

typedef struct {
    uint64_t n_calls;     /* done again */
    uint64_t n_executed;  /* of those, executions whose results were compared */
    uint64_t n_rounded;   /* elements of them that differ by one step of their encoding */
    uint64_t line;        /* of the first difference; 0: there is none */
    char call[40];        /* its name */
    char difference[200]; /* printable: "answered 3110, recorded 0" */
} fy_qnn_replayed;

/* Replays a record, with the bytes of `data` (empty: none were kept), up to the first difference.
 * most_bytes: of tensors and binaries that live at once. Fails when it is not a record. */
int fy_qnn_replay(const fy_qnn_lib *lib, fy_span text, fy_span data, uint64_t most_bytes,
                  fy_qnn_replayed *out, fy_err *e);

#endif
