/* Making JSON of what files hold: names that are no text, numbers that JSON does not have. jansson
 * takes NULL for a value that could not be made; what is missing then does not go unnoticed. */
#ifndef FY_CLI_JSON_MAKE_H
#define FY_CLI_JSON_MAKE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    bool oom; /* an item could not be made */
} fy_maker;

void fy_make_append(fy_maker *m, json_t *array, json_t *v);                /* takes v */
void fy_make_set(fy_maker *m, json_t *object, const char *key, json_t *v); /* takes v */

/* JSON text is UTF-8 and names may be anything: what is not valid, or has a NUL (which many JSON
 * readers refuse), is shown escaped. */
json_t *fy_make_text(fy_span s);
void fy_make_set_name(fy_maker *m, json_t *object, fy_span name, json_t *v); /* takes v */
/* Numbers that JSON or its reader cannot hold are given as text: "18446744073709551615", "inf". */
json_t *fy_make_u64(uint64_t v);
json_t *fy_make_number(double v);

/* Appends the text of `top` and releases it. */
int fy_make_end(fy_maker *m, json_t *top, fy_str *out, fy_err *e);

#endif
