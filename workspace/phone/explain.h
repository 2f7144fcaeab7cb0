/* Error numbers and texts of ferry, of programs on the phone, of adb, QNN and FastRPC: what they
 * mean, the likely cause and what to do. All that is known is in workspace/data/explain.json, which
 * is compiled in and read at the first question. */
#ifndef FY_WORKSPACE_EXPLAIN_H
#define FY_WORKSPACE_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_EXPLAIN_FERRY,
    FY_EXPLAIN_PROGRAM, /* exit status of a program on the phone */
    FY_EXPLAIN_ADB,
    FY_EXPLAIN_QNN,
    FY_EXPLAIN_FASTRPC,
    FY_EXPLAIN_FAMILIES
} fy_explain_family;

#define FY_EXPLAIN_NO_CODE INT64_MIN /* known by its text */

typedef struct {
    fy_explain_family family;
    int64_t code;
    const char *name; /* one word, unique whatever its case */
    /* Words of a message that mean this, whatever their case; several separated by '|'. NULL: none.
     */
    const char *text;
    const char *meaning;        /* NULL: ferry's own text of this exit status */
    const char *cause, *remedy; /* NULL: the group's, else the family's */
} fy_explain_row;

/* Numbers of a family that belong together: rows in them, and the answer where there is no row. */
typedef struct {
    fy_explain_family family;
    int64_t first, last;
    const char *name, *what;
    const char *cause, *remedy; /* NULL: the family's */
} fy_explain_group;

typedef struct {
    const char *name;   /* "QNN" */
    const char *what;   /* whose numbers they are */
    const char *ranges; /* the numbers, in words */
    const char *cause, *remedy;
} fy_explain_family_row;

typedef struct {
    fy_explain_row *row; /* where texts are searched the first row that fits counts */
    fy_explain_group *group;
    size_t n_rows, n_groups;
    const fy_explain_family_row *family; /* [FY_EXPLAIN_FAMILIES] */
} fy_explain_table;

/* Lives as long as the program. NULL only when memory ran out. */
const fy_explain_table *fy_explain_known(void);

/* An answer, whole: nothing in it is NULL. */
typedef struct {
    fy_explain_family family;
    int64_t code; /* FY_EXPLAIN_NO_CODE when it has none */
    const char *name, *meaning, *cause, *remedy;
} fy_explanation;

/* Of a row, with what its group and family add. */
fy_explanation fy_explain_of(const fy_explain_row *r);

/* What a number (decimal, hexadecimal, negative; as a phone prints it), a name or a pasted line of
 * text means: at most `max` answers, the likeliest first; returns how many. 0: nothing in it is
 * known; then *near (may be NULL) is the name nearest to it, or NULL. */
size_t fy_explain(const char *query, fy_explanation *out, size_t max, const char **near);

/* The first row of the family with words that are in the text; NULL. */
const fy_explain_row *fy_explain_text(fy_explain_family family, const char *text);

/* The decimal number, and how a log would show it in hexadecimal. */
void fy_explain_code_text(const fy_explanation *x, char decimal[24], char hex[24]);

#endif
