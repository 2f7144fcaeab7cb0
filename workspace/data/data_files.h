/* The files of workspace/data, compiled in (scripts/embed.sh writes the array while building), and
 * those of the user: NAME.json in ferry/KIND.d of the configuration directory. */
#ifndef FY_WORKSPACE_DATA_FILES_H
#define FY_WORKSPACE_DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_rows.h"

#define FY_DATA_MAX_BYTES (1u << 20) /* of a file that the user has */

typedef struct {
    const char *name; /* below workspace/data: "recipes/lpbq-32.json"; NULL ends the array */
    const unsigned char *data;
    size_t size;
} fy_data_file;
extern const fy_data_file fy_data_files[];          /* by name */
const fy_data_file *fy_data_find(const char *name); /* NULL: there is none */

/* Calls `each` with the text of a file; path is what messages name. */
typedef int fy_data_each(void *user, const void *p, size_t n, const char *path, fy_err *e);
int fy_data_read(const char *path, fy_data_each *each, void *user, fy_err *e);
/* Every NAME.json of that directory of the user's, by name; none is not an error. */
int fy_data_read_own(const char *dir, fy_data_each *each, void *user, fy_err *e);

/* --- members of their objects ----------------------------------------------------------------- */

enum { FY_DATA_LIST_MAX = 64, FY_DATA_TEXT_MAX = 1000 };

/* A text in a struct, in objects of these kinds; 0: of all. */
#define FY_DATA_TEXT(name, holder, field, kinds)                                            \
    {                                                                                       \
        .key = name, .type = FY_JSON_ROW_TEXT, .offset = offsetof(holder, field), .min = 1, \
        .max = FY_DATA_TEXT_MAX, .in = kinds, .fits = fy_data_is_plain,                     \
        .expected = "text without control characters"                                       \
    }
bool fy_data_is_plain(const char *text);
/* Up to FY_DATA_LIST_MAX of such texts. fy_data_list_free is the caller's, also after a failure. */
int fy_data_list(fy_json *j, char ***out, size_t *n, fy_err *e);
void fy_data_list_free(char **list, size_t n);

#endif
