/* One step of a sweep: a verb of this program, run in a process of its own unless its record says
 * that it is done. */
#ifndef FY_FARM_SWEEP_STEP_H
#define FY_FARM_SWEEP_STEP_H

#include <jansson.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/opts.h"
#include "base/str.h"

/* What all steps share. */
typedef struct {
    char *exe;               /* owned; this program */
    fy_str program;          /* its part of every key */
    const fy_opt_list *farm; /* view; words of `ferry farm` for verbs that have parts */
    size_t n_made, n_there;
} fy_sweep_steps;

int fy_sweep_steps_init(fy_sweep_steps *all, const fy_opt_list *farm, fy_err *e);
void fy_sweep_steps_release(fy_sweep_steps *all);

/* Words and key are collected, in this order: what is added by `word` is part of both. Failures are
 * kept until it runs. */
typedef struct {
    const char *verb; /* view */
    char *dir;        /* owned; "OUT/MODEL/TYPE/VERB" */
    fy_str words;     /* each with a NUL after it */
    fy_str key;
    fy_err err;
} fy_sweep_step;

/* dir: of the cell; the step's own is in it, called `name`. */
void fy_sweep_step_init(fy_sweep_step *s, const fy_sweep_steps *all, const char *verb,
                        const char *dir, const char *name);
void fy_sweep_step_release(fy_sweep_step *s);
void fy_sweep_step_word(fy_sweep_step *s, const char *word);
/* A path, which the key leaves out: its contents are added as an input, or it is an output. */
void fy_sweep_step_path(fy_sweep_step *s, const char *path);
/* Options of the user; of files that they name the contents, too. */
void fy_sweep_step_options(fy_sweep_step *s, const fy_opt_list *words);
/* The contents of a file, or of the files of a directory. */
void fy_sweep_step_input(fy_sweep_step *s, const char *path);
/* What another step has made, by its key. */
void fy_sweep_step_after(fy_sweep_step *s, const char key[FY_SHA256_HEX]);

/* 0: it is done, *printed (may be NULL) is what it printed as JSON, or NULL. 1: it failed with
 * *status, and *why, which the caller frees, is its message. -1: the sweep cannot go on. A verb
 * that says with exit status `also` that something does not fit is done, too (0: none).
 * product: what is removed before it is made again, as the verb does not write over it; may be
 * NULL. */
int fy_sweep_step_run(fy_sweep_step *s, fy_sweep_steps *all, const char *product, int also,
                      char key[FY_SHA256_HEX], json_t **printed, int *status, char **why,
                      fy_err *e);

#endif
