/* One option table per verb: it feeds the parser, --help, the man page, shell completion, the
 * environment variables and the configuration file.
 *
 * A verb keeps its options in a struct; each row names a field by offset. Every default is stored
 * first (the `def` text, parsed like a value), then the arguments, then, for options that the
 * arguments leave open, values given elsewhere (fy_opts_fill).
 *
 * Rules: `-` and `_` are the same in long names; --x=y and --x y both work, unless the value may be
 * left out; a flag can be switched off again (--x=no); one dash and several letters (-ctk) is an
 * alias; -- ends options; positional arguments may stand between options. An unknown option is
 * FY_EARG, and the message names the nearest one. */
#ifndef FY_BASE_OPTS_H
#define FY_BASE_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_OPT_FLAG,   /* bool; no value, or one of 1 true yes on, 0 false no off */
    FY_OPT_STR,    /* const char *; view of the argument, NULL when not given and no default */
    FY_OPT_INT,    /* int64_t within [min, max]; FY_OPT_UNSET_INT when not given and no default */
    FY_OPT_SIZE,   /* as FY_OPT_INT, in bytes, takes K M G (1024) */
    FY_OPT_FLOAT,  /* double within [min, max]; NAN when not given and no default */
    FY_OPT_CHOICE, /* int: index into `arg` split at '|'; -1 when not given and no default */
} fy_opt_kind;

#define FY_OPT_UNSET_INT INT64_MIN

/* What file a value names: a verb that runs on another machine needs it there. */
typedef enum {
    FY_FILE_NONE,
    FY_FILE_IN,        /* a file that is read; "-" is standard input */
    FY_FILE_OR_WORD,   /* such a file if there is one of this name, else a plain word */
    FY_FILE_WORKSPACE, /* a workspace, or a file or directory inside it */
    FY_FILE_OUT,       /* a file that is written */
} fy_opt_file;

typedef struct {
    const char *group; /* heading in --help; rows of a group stand together */
    const char *name;  /* long name without dashes */
    const char *alias; /* short form without the dash: "m", "ctk"; NULL: none */
    fy_opt_kind kind;
    const char *arg;  /* "N", "FILE.gguf" (see fy_arg_names); FY_OPT_CHOICE: "auto|f32|f16" */
    size_t offset;    /* of the field in the verb's struct */
    const char *def;  /* default as the user would write it; NULL: none */
    double min, max;  /* for INT, SIZE, FLOAT; both 0: not checked */
    const char *help; /* one sentence, without the default */
    bool many;        /* FY_OPT_STR only: the field is a fy_opt_list, the option may be repeated */
    /* Options of one set exclude each other ("model": -m and -d): a value from a higher source
     * hides the others' values from lower ones. NULL: not in a set. */
    const char *set;
    bool line_only; /* only from the command line: it names an output, or the job of one call */
    /* FY_OPT_STR only: the value when it is left out; a value is accepted as --x=y only. */
    const char *bare;
    fy_opt_file file;
    bool host_only; /* another build of the program does not have it */
    /* FY_OPT_CHOICE only: what to say of a value that is none ("cannot be written yet"), or NULL.
     */
    const char *(*refuse)(const char *value);
} fy_opt;

typedef struct {
    const char **items; /* owned: freed by fy_opt_list_release; the strings are views */
    size_t n;
} fy_opt_list;
int fy_opt_list_add(fy_opt_list *l, const char *item, fy_err *e);
void fy_opt_list_release(fy_opt_list *l);
/* Frees the lists of an option struct that fy_opts_parse filled. */
void fy_opts_release(const fy_opt *opts, size_t n_opts, void *into);

/* Parses argv[0..argc) into `into`. Positional arguments are moved to the front of argv in order,
 * *n_args is their number. *help is set (and parsing stops, successfully) at -h or --help. */
int fy_opts_parse(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv, int *n_args,
                  bool *help, fy_err *e);

/* The option that an argument names ("--temp=0", "-n", "--json"), or NULL. *next: the next argument
 * is its value. */
const fy_opt *fy_opts_find(const fy_opt *opts, size_t n_opts, const char *word, bool *next);

/* As fy_opts_parse; from[i] becomes "command line" for the options given there, else NULL. */
int fy_opts_parse_from(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv,
                       int *n_args, bool *help, const char **from, fy_err *e);

/* A value that an option has from elsewhere. */
typedef struct {
    size_t row;         /* of the table */
    int rank;           /* of its source: a higher one counts */
    const char *value;  /* view; has to outlive the options */
    const char *source; /* view; "FERRY_THREADS", "config:3: threads": begins a message about it */
} fy_opt_given;

/* Stores values for the options that the arguments left open: of each option those of the highest
 * rank, unless an option of the same set has a higher one. `from` is that of fy_opts_parse_from and
 * becomes the `source` of what was stored. */
int fy_opts_fill(const fy_opt *opts, size_t n_opts, void *into, const fy_opt_given *given,
                 size_t n_given, const char **from, fy_err *e);

/* Appends the nth value (from 0) that the field holds, as it would be written after "--x=". False
 * when there is none. Parsing it gives the same value. */
bool fy_opt_value(const fy_opt *o, const void *into, size_t nth, fy_str *out);

/* The options as grouped, wrapped text with each default, for --help. */
void fy_opts_help(const fy_opt *opts, size_t n_opts, fy_str *out);

/* A whole decimal or K/M/G-suffixed number. False when it is not one or does not fit. */
bool fy_parse_size(const char *s, int64_t *out);

/* Which names of files a value or positional argument may be, by the word that stands for it:
 * "FILE" and "PATH" any, "DIR" directories, "MODEL.gguf" those of that extension (its text goes to
 * ext), "FILE.gguf|DIR" either; brackets and "..." around it do not matter. */
enum { FY_NAMES_ANY = 1, FY_NAMES_DIR = 2, FY_NAMES_EXT = 4 };
#define FY_EXT_BYTES 16
unsigned fy_arg_names(const char *word, size_t n, char ext[FY_EXT_BYTES]);

/* Does `word`, n bytes with '_' or '-', spell the long name? */
bool fy_opt_is_named(const fy_opt *o, const char *word, size_t n);

/* The candidate nearest to `word` by edit distance, or one that begins it or that it begins; NULL
 * when none is near. */
const char *fy_nearest(const char *word, const char *const *candidates, size_t n);

/* The index of `value` in "a|b|c", in any case; when it is none of them -1 with *e: "'q9' is not
 * one of a|b|c; did you mean ...?" */
int fy_choice(const char *choices, const char *value, fy_err *e);
/* That value of an index. */
void fy_choice_name(const char *choices, int index, char *out, size_t size);

#endif
