/* Rendered templates against a reference's answers: parity.json (one template, many conversations)
 * and cases.json (every case has its own template and variables). */
#ifndef FY_CLI_TEMPLATE_VERIFY_H
#define FY_CLI_TEMPLATE_VERIFY_H

#include "base/err.h"
#include "base/str.h"
#include "cli/template_request.h"

/* Appends the differences (the first twenty) and a line of counts to *report. 0: all agree;
 * FY_EVERIFY: some differ; other errors: the file cannot be read as cases. The file's "bos_token"
 * and "eos_token" replace those of d. */
int fy_template_verify(const char *path, fy_template_defaults *d, fy_str *report, fy_err *e);

#endif
