/* A sweep: each of several models in each of several types, for each chip and recipe, made,
 * measured and put into a workspace, and one table of all results. docs/farm.md has the file.
 *
 *     fy_sweep_open -> fy_sweep_run -> fy_sweep_put -> fy_sweep_release
 *
 * A row of the table is made in steps, each one call of a verb of this program in a process of its
 * own. A step has a directory below `out` with its result and a record: a key, which is a hash of
 * the program, the words and the contents of the inputs, and what the verb printed. A step whose
 * record has its key and is done is not made again. */
#ifndef FY_FARM_SWEEP_H
#define FY_FARM_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"

/* --- what is asked for --- */

/* The verbs that get options from the file; those of plan go to chunk, too. */
typedef enum {
    FY_SWEEP_CONVERT,
    FY_SWEEP_QUANTIZE,
    FY_SWEEP_EVAL,
    FY_SWEEP_PLAN,
    FY_SWEEP_COMPILE,
    FY_SWEEP_CREATE,
    FY_SWEEP_VERBS
} fy_sweep_verb;

typedef struct {
    fy_opt_list models;                  /* checkpoints and GGUF files */
    fy_opt_list types;                   /* of quantize */
    fy_opt_list chips, recipes;          /* of plan; may be empty */
    fy_opt_list options[FY_SWEEP_VERBS]; /* words */
    char *out;                           /* the directory of all results */
    char *text;                          /* to measure with; NULL: nothing is measured */
    char *sdk;                           /* to compile with; NULL: chunks are not compiled */
    bool no_workspaces;
    /* Made by fy_sweep_open: what models and recipes are called in the table and below `out`. */
    fy_opt_list model_names, recipe_names;
    fy_arena strings; /* of all texts */
} fy_sweep;

/* The text alone; release the sweep in every case. */
int fy_sweep_parse(fy_span text, fy_sweep *out, fy_err *e);
/* Reads the file, and checks all that can be known before the work: that the inputs are there, that
 * types, chips, recipes and options exist, and that no two cells are the same. */
int fy_sweep_open(const char *path, fy_sweep *out, fy_err *e);
void fy_sweep_release(fy_sweep *s);

extern const char *const fy_sweep_verbs[FY_SWEEP_VERBS]; /* their names */

/* --- its results --- */

/* Numbers that were not measured are NaN. */
typedef struct {
    const char *model, *type, *chip, *recipe; /* views of the sweep; without chips: NULL */
    uint64_t bytes;                           /* of the quantized file */
    double perplexity, perplexity_error, base_perplexity;
    double kl, kl_error; /* divergence from the file before it was quantized */
    double same_top;     /* share of positions */
    int fits;            /* 1, 0; -1: not asked */
    uint64_t n_chunks, n_sessions;
    char *why;       /* owned; why it does not fit; may be NULL */
    char *workspace; /* owned; its directory; may be NULL */
    char *error;     /* owned; why this row is not whole; NULL: it is */
} fy_sweep_row;

typedef struct {
    fy_sweep_row *rows; /* owned */
    size_t n, cap;
    size_t n_made, n_there; /* steps that were made, and that were there already */
    size_t n_failed;        /* rows with an error, */
    fy_code code;           /* and the first one's */
} fy_sweep_result;

/* Where steps are made: verbs that can be cut into parts by `ferry farm` with these words ("-j 8
 * --engine local"), everything else by one process here. None: all by one process. */
int fy_sweep_run(const fy_sweep *s, const fy_opt_list *farm, fy_sweep_result *out, fy_err *e);
void fy_sweep_result_release(fy_sweep_result *r);

typedef enum { FY_TABLE_TEXT, FY_TABLE_CSV, FY_TABLE_JSON, FY_TABLE_HTML } fy_sweep_format;
int fy_sweep_put(const fy_sweep_result *r, fy_sweep_format format, fy_str *out, fy_err *e);

#endif
