/* The manual page of a verb as a reader at a terminal wants it. */
#ifndef FY_CLI_MAN_PAGE_H
#define FY_CLI_MAN_PAGE_H

#include "base/err.h"
#include "base/str.h"

/* Appends the page, mdoc as fy_verb_man writes it, as plain text of that many columns. */
void fy_man_plain(const char *mdoc, int columns, fy_str *out);

/* Shows the page on the terminal at standard output: through man or mandoc, else as plain text. */
int fy_man_show(const char *mdoc, fy_err *e);

#endif
