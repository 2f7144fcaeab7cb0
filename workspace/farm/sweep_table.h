/* The columns of a sweep's table, for people and for programs. */
#ifndef FY_FARM_SWEEP_TABLE_H
#define FY_FARM_SWEEP_TABLE_H

#include "workspace/farm/sweep.h"

typedef struct {
    const char *key;                                   /* in CSV and JSON; NULL: for people alone */
    const char *title;                                 /* for people; NULL: for programs alone */
    bool is_number;                                    /* or a truth: its text is JSON */
    void (*put)(const fy_sweep_row *row, fy_str *out); /* nothing: the row has none */
} fy_sweep_column;

#define FY_SWEEP_COLUMNS 23
extern const fy_sweep_column fy_sweep_columns[FY_SWEEP_COLUMNS];

/* Is it a column for people that any row has something in? */
bool fy_sweep_is_shown(const fy_sweep_result *r, const fy_sweep_column *c);

void fy_sweep_put_html(const fy_sweep_result *r, fy_str *out);

#endif
