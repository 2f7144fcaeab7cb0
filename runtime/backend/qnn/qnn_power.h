/* Votes for the clocks of the NPU. An NPU without a vote runs slowly; one whose vote is kept stays
 * hot. So a session votes before a graph runs, and a thread takes the vote back 300 ms after the
 * last one, as when a chat waits for its user. A vote that fails is said once, and the session goes
 * on with the clocks that there are. Votes are never made while a graph runs. */
#ifndef FY_BACKEND_QNN_QNN_POWER_H
#define FY_BACKEND_QNN_QNN_POWER_H

#include "backend/qnn/qnn_lib.h"

typedef enum {
    FY_QNN_BURST,    /* the highest clocks, and calls that wait without sleep */
    FY_QNN_BALANCED, /* nominal clocks */
    FY_QNN_SAVER,    /* no votes */
} fy_qnn_power_level;

typedef struct fy_qnn_power fy_qnn_power;

/* NULL on failure. */
fy_qnn_power *fy_qnn_power_new(const fy_qnn_lib *lib, fy_qnn_power_level level, fy_err *e);
void fy_qnn_power_free(fy_qnn_power *p); /* NULL is fine */

void fy_qnn_power_work(fy_qnn_power *p); /* a graph will run */
void fy_qnn_power_rest(fy_qnn_power *p); /* it has run */
/* The device is freed: takes the vote back, and the next work makes another one. */
void fy_qnn_power_drop(fy_qnn_power *p);

#endif
