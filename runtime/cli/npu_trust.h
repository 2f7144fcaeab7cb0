/* Does an NPU compute the model? Asked once of every package, library and chip: the canary
 * (bundle/npu_canary.h) in whole batches, and its last tokens one by one. */
#ifndef FY_CLI_NPU_TRUST_H
#define FY_CLI_NPU_TRUST_H

#include "model/model.h"

typedef enum { FY_CANARY_ONCE, FY_CANARY_ALWAYS, FY_CANARY_OFF } fy_canary_mode;

/* m: with its graphs on the library at a path; qnn: their directory, in which the answer is kept
 * where that can be written. FY_EVERIFY where the NPU's answers are too far from the model's. A
 * package without a canary is not held against anything. */
int fy_npu_trust(fy_model *m, const char *qnn, const char *library, fy_canary_mode mode, fy_err *e);

#endif
