/* Members of the objects in our data files. Messages begin with the key. */
#ifndef FY_WORKSPACE_DATA_JSON_H
#define FY_WORKSPACE_DATA_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define FY_DATA_LIST_MAX 64

/* 1 to 1000 bytes of text without control characters, into *out: heap, which is freed before. */
int fy_data_text(fy_json *j, const char *key, char **out, fy_err *e);
/* Up to FY_DATA_LIST_MAX of such texts. fy_data_list_free is the caller's, also after a failure. */
int fy_data_list(fy_json *j, const char *key, char ***out, size_t *n, fy_err *e);
void fy_data_list_free(char **list, size_t n);
/* A whole number of min..max. */
int fy_data_number(fy_json *j, const char *key, int64_t min, int64_t max, uint64_t *out, fy_err *e);
/* Refuses a key: names the nearest of those there are, or all of them. */
int fy_data_unknown(fy_span key, const char *const *keys, size_t n, fy_err *e);

#endif
