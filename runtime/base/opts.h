/* One option table per verb: it feeds the parser, --help, the man page and shell completion.
 *
 * A verb keeps its options in a struct; each row names a field by offset. fy_opts_parse first
 * stores every default (the `def` text, parsed like a value), then the arguments. Rules: `-` and
 * `_` are the same in long names; --x=y and --x y both work; a one-dash word of several letters
 * (-ctk) is an alias; -- ends options; positional arguments may stand between options. An unknown
 * option is FY_EARG and names the nearest one. */
#ifndef FY_BASE_OPTS_H
#define FY_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_OPT_FLAG,   /* bool; no value */
    FY_OPT_STR,    /* const char *; view of argv, NULL when not given and no default */
    FY_OPT_INT,    /* int64_t within [min, max]; FY_OPT_UNSET_INT when not given and no default */
    FY_OPT_SIZE,   /* as FY_OPT_INT, in bytes, takes K M G (1024) */
    FY_OPT_FLOAT,  /* double within [min, max]; NAN when not given and no default */
    FY_OPT_CHOICE, /* int: index into `arg` split at '|'; -1 when not given and no default */
} fy_opt_kind;

#define FY_OPT_UNSET_INT INT64_MIN

typedef struct {
    const char *group; /* heading in --help; rows of a group stand together */
    const char *name;  /* long name without dashes */
    const char *alias; /* short form without the dash: "m", "ctk"; NULL: none */
    fy_opt_kind kind;
    const char *arg;  /* "FILE", "N"; the choices of FY_OPT_CHOICE: "auto|f32|f16" */
    size_t offset;    /* of the field in the verb's struct */
    const char *def;  /* default as the user would write it; NULL: none */
    double min, max;  /* for INT, SIZE, FLOAT; both 0: not checked */
    const char *help; /* one sentence, without the default */
    bool many;        /* FY_OPT_STR only: the field is a fy_opt_list, the option may be repeated */
} fy_opt;

typedef struct {
    const char **items; /* owned: freed by fy_opt_list_release; the strings are views of argv */
    size_t n;
} fy_opt_list;
void fy_opt_list_release(fy_opt_list *l);
/* Frees the lists of an option struct that fy_opts_parse filled. */
void fy_opts_release(const fy_opt *opts, size_t n_opts, void *into);

/* Parses argv[0..argc) into `into`. Positional arguments are moved to the front of argv in order,
 * *n_args is their number. *help is set (and parsing stops, successfully) at -h or --help. */
int fy_opts_parse(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv, int *n_args,
                  bool *help, fy_err *e);

/* The options as grouped, wrapped text with each default, for --help. */
void fy_opts_help(const fy_opt *opts, size_t n_opts, fy_str *out);

/* A whole decimal or K/M/G-suffixed number. False when it is not one or does not fit. */
bool fy_parse_size(const char *s, int64_t *out);

/* The candidate nearest to `word` by edit distance, NULL when none is near. */
const char *fy_nearest(const char *word, const char *const *candidates, size_t n);

#endif
