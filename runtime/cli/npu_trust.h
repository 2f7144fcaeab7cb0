/* Does an NPU compute the model? Asked once of every package and library: the canary
 * (bundle/npu_canary.h) in whole batches, and its last tokens one by one.
 *
 *     fy_npu_recall(...)    before the binaries are loaded
 *     fy_npu_trust(...)     before the first text */
#ifndef FY_CLI_NPU_TRUST_H
#define FY_CLI_NPU_TRUST_H

#include "base/hash.h"
#include "model/model.h"

typedef enum { FY_CANARY_ONCE, FY_CANARY_ALWAYS, FY_CANARY_OFF } fy_canary_mode;

typedef struct {
    char key[FY_SHA256_HEX]; /* of the sizes and times of all files that the answers depend on */
    bool passed; /* it did, and no file has changed since: nothing has to be checked again */
} fy_npu_known;

/* m: the weights for the CPU; qnn: the directory of the graphs; library: its path. */
int fy_npu_recall(const fy_model *m, const char *qnn, const char *library, fy_canary_mode mode,
                  fy_npu_known *out, fy_err *e);
/* m: with its graphs on the library. The answer is kept in qnn where that can be written.
 * FY_EVERIFY where the NPU's answers are too far from the model's. A package without a canary is
 * not held against anything. */
int fy_npu_trust(fy_model *m, const char *qnn, const fy_npu_known *known, fy_canary_mode mode,
                 fy_err *e);

#endif
