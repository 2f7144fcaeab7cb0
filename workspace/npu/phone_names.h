/* Which chip a phone has, by the name under which it is sold, and whose chips are not Qualcomm's:
 * workspace/data/phones.json, compiled in. Names are compared as those of chips (soc_table.h). */
#ifndef FY_WORKSPACE_PHONE_NAMES_H
#define FY_WORKSPACE_PHONE_NAMES_H

#include <stddef.h>

#include "base/err.h"

typedef struct {
    char *maker;  /* owned: "Samsung" */
    char **names; /* owned, [n_names]: "Galaxy S24", "Galaxy S24+" */
    size_t n_names;
    char *soc;    /* owned: "SM8650" */
    char *where;  /* owned: where it has that chip, and what it has elsewhere; NULL: everywhere */
    char *source; /* owned */
} fy_phone;

typedef struct {
    char **chips; /* owned, [n_chips]: names begin so, "Dimensity" */
    size_t n_chips;
    char *maker; /* owned: "MediaTek's" */
} fy_other_chips;

typedef struct {
    fy_phone *phones; /* owned, [n_phones] */
    size_t n_phones;
    fy_other_chips *others; /* owned, [n_others] */
    size_t n_others;
} fy_phone_names;

/* Zeroed on failure. */
int fy_phone_names_open(fy_phone_names *t, fy_err *e);
void fy_phone_names_release(fy_phone_names *t);

/* By name, with or without the maker's; NULL: it is not there. */
const fy_phone *fy_phone_find(const fy_phone_names *t, const char *name);
/* Whose chip it is; NULL: none of these. */
const char *fy_chip_maker(const fy_phone_names *t, const char *name);

#endif
