/* Objects of JSON read by tables: one row per member, with its type, its place in a struct, its
 * range, and whether it may be absent. A message begins with the member's key. */
#ifndef FY_BASE_JSON_ROWS_H
#define FY_BASE_JSON_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"

typedef enum {
    FY_JSON_ROW_I64,    /* int64_t, of min..max when max is not 0 */
    FY_JSON_ROW_U32,    /* uint32_t, the same */
    FY_JSON_ROW_U64,    /* uint64_t, the same; times `unit` when that is not 0 */
    FY_JSON_ROW_REAL,   /* double */
    FY_JSON_ROW_BOOL,   /* bool */
    FY_JSON_ROW_TEXT,   /* char *, without NUL, of min..max bytes when max is not 0 */
    FY_JSON_ROW_CHARS,  /* char[max + 1], the same */
    FY_JSON_ROW_OBJECT, /* what `table` describes, a struct at the offset */
    FY_JSON_ROW_LIST,   /* objects, at least `min`: a pointer to the first; their number at n_at */
    FY_JSON_ROW_TAKE,   /* what `take` reads */
} fy_json_row_type;

typedef struct fy_json_table fy_json_table;

/* Reads one value of `j` to what is at the row's offset. */
typedef int fy_json_take(fy_json *j, const fy_json_table *t, void *at, fy_err *e);

typedef struct {
    const char *key;
    fy_json_row_type type;
    size_t offset;
    int64_t min, max;
    bool required;
    unsigned in; /* bits of the kinds of objects that have it; 0: all have */
    uint32_t unit;
    bool (*fits)(const char *text); /* of a text; else it is not what was `expected` */
    const char *expected;
    const fy_json_table *table;
    size_t n_at; /* offset of a size_t */
    fy_json_take *take;
} fy_json_row;

struct fy_json_table {
    const fy_json_row *rows;
    size_t n_rows;     /* at most FY_JSON_ROWS_MAX */
    unsigned in;       /* the kind of the object */
    bool strict;       /* unknown keys are refused; else they are skipped */
    fy_arena *strings; /* view; of texts; NULL: each is from malloc, the caller's */
    void *user;        /* of `take` and `check` */
    /* of lists */
    size_t item_bytes, most; /* most 0: any number */
    const void *fresh;       /* what an item is before it is read; NULL: zeroed */
    bool named;              /* an item begins with a char *, its name in messages */
    /* Called when items[i] was read; may be NULL. */
    int (*check)(void *user, void *items, size_t i, fy_err *e);
};

enum { FY_JSON_ROWS_MAX = 64 };

/* A row for a field of a struct, and one with a range; `list` in place of rows and n_rows. */
#define FY_JSON_FIELD(kind, name, holder, field, must)                              \
    {                                                                               \
        .key = name, .type = FY_JSON_ROW_##kind, .offset = offsetof(holder, field), \
        .required = must                                                            \
    }
#define FY_JSON_WITHIN(kind, name, holder, field, must, low, high)                  \
    {                                                                               \
        .key = name, .type = FY_JSON_ROW_##kind, .offset = offsetof(holder, field), \
        .required = must, .min = low, .max = high                                   \
    }
#define FY_JSON_ROWS(list) .rows = list, .n_rows = sizeof(list) / sizeof(list)[0]

/* One object into the struct `out`. What was read before a failure stays in it. */
int fy_json_object_of(fy_json *j, const fy_json_table *t, void *out, fy_err *e);
/* A whole document that is such an object. */
int fy_json_document_of(fy_span text, const fy_json_table *t, void *out, fy_err *e);
/* A list of them, appended to *items, an array from malloc; *n counts also an item that could not
 * be read whole. `items` is a pointer to the array's pointer. */
int fy_json_list_of(fy_json *j, const fy_json_table *t, void *items, size_t *n, fy_err *e);

#endif
