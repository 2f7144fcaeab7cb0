/* The session of a verb: what it takes is said, and compared with the memory there is, before any
 * of it is taken. */
#ifndef FY_CLI_SESSION_OPEN_H
#define FY_CLI_SESSION_OPEN_H

#include "model/model.h"

/* `smaller`: the verb's options that make it smaller, "-c". FY_EFIT when the machine has less
 * memory than it takes. NULL on failure. */
fy_session *fy_session_open(const fy_model *m, const fy_session_params *p, const char *smaller,
                            fy_err *e);

/* "KV cache: 4096 positions x 16 layers, f16/f16: 128 MB; scratch: 31 MB" */
enum { FY_SESSION_TEXT_BYTES = 160 };
const char *fy_session_plan_text(const fy_model *m, const fy_session_plan *p,
                                 char out[FY_SESSION_TEXT_BYTES]);
/* FY_EFIT when `available` is known (not 0) and less than the plan. */
int fy_session_plan_check(const fy_model *m, const fy_session_plan *p, uint64_t available,
                          const char *smaller, fy_err *e);

#endif
