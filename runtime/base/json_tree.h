/* JSON as jansson trees: read by the strict reader of base/json.h, built, and written.
 *
 * jansson's own parser is not used anywhere (scripts/check_source.sh holds to it): when memory runs
 * out it can leave letters out of a string and report success. */
#ifndef FY_BASE_JSON_TREE_H
#define FY_BASE_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

/* --- reading: NULL on failure, else released by json_decref --- */

#define FY_JSON_TREE_MAX \
    ((size_t)64 << 20) /* bytes; the index of a model with 140,000 tensors has 13 MB */

/* A configuration. All numbers are reals: transformers writes some that fit no integer
 * (model_max_length 1000000000000000019884624838656). Strings hold no NUL: they are C strings. */
json_t *fy_json_tree(const void *p, size_t n, fy_err *e);

/* The same of a file that Python may have written with NaN or Infinity, which JSON does not have:
 * they are read as null, with a warning that names `path` unless that is NULL. */
json_t *fy_json_tree_of_python(const void *p, size_t n, const char *path, fy_err *e);

/* Data of any size: integers that fit stay integers, and strings may hold NUL. */
json_t *fy_json_data(fy_span text, fy_err *e);
/* The same of one line of JSON Lines: messages give the column alone. */
json_t *fy_json_data_line(fy_span line, fy_err *e);
/* The same of a file; messages name it. */
json_t *fy_json_data_file(const char *path, fy_err *e);

/* --- building: jansson takes NULL for a value that could not be made; `oom` remembers it --- */

typedef struct {
    bool oom; /* an item could not be made */
} fy_json_maker;

void fy_make_append(fy_json_maker *m, json_t *array, json_t *v);                /* takes v */
void fy_make_set(fy_json_maker *m, json_t *object, const char *key, json_t *v); /* takes v */

/* JSON text is UTF-8 and names may be anything: what is not valid, or has a NUL (which many JSON
 * readers refuse), is shown escaped. */
json_t *fy_make_text(fy_span s);
void fy_make_set_name(fy_json_maker *m, json_t *object, fy_span name, json_t *v); /* takes v */
/* Numbers that JSON or its reader cannot hold become strings: "18446744073709551615", "inf". */
json_t *fy_make_u64(uint64_t v);
json_t *fy_make_number(double v);

/* Appends the text of `top` and releases it. */
int fy_make_end(fy_json_maker *m, json_t *top, fy_str *out, fy_err *e);

#endif
