/* `ferry eval --text --imatrix-out`: what is computed to measure a text is collected as an
 * importance matrix. */
#ifndef FY_CLI_EVAL_IMATRIX_H
#define FY_CLI_EVAL_IMATRIX_H

#include "model/imatrix_collect.h"

/* Begins to collect, when the file can be written. NULL on failure. */
fy_collector *fy_eval_imatrix_begin(fy_session *s, const char *model, const char *out, fy_err *e);
/* Writes it; says what it holds, and warns of experts that no token chose. */
int fy_eval_imatrix_end(const fy_collector *c, const char *out, const char *text, uint32_t n_ctx,
                        fy_err *e);

#endif
