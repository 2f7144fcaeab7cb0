/* parity.json: results of the machine that made a workspace, to be compared with the phone's
 * (docs/workspace.md, "parity.json"): texts -> ids, conversations -> rendered prompts, prompts ->
 * greedy ids. `create` makes it, `selftest` checks it; texts and conversations can also be checked
 * with `tokenize --verify` and `template --verify`. */
#ifndef FY_CLI_PARITY_H
#define FY_CLI_PARITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "model/model.h"

#define FY_PARITY_VERSION 1
/* A prompt's ids end before the first step whose best logit leads the second best by less than this
 * part of itself: there another implementation may choose otherwise and be right. */
#define FY_PARITY_LEAD 0.01

typedef struct {
    const char *tool;  /* "ferry 0.1.0" */
    int n_threads;     /* 0: fy_default_threads() */
    double max_s;      /* greedy ids that are not there by then are left out */
    uint64_t max_read; /* bytes of weights that generating them may read; every step reads all */
} fy_parity_params;
fy_parity_params fy_parity_defaults(void);

typedef struct {
    unsigned n_texts, n_conversations, n_prompts, n_ids; /* ids: greedy ones */
    bool cut;                                            /* max_s was reached */
    double seconds;
} fy_parity_made;

/* Appends the file's text. FY_EUNSUPPORTED: the model has no tokenizer. */
int fy_parity_make(fy_model *m, const fy_parity_params *p, fy_str *out, fy_parity_made *made,
                   fy_err *e);

typedef enum {
    FY_PARITY_TEXTS,
    FY_PARITY_CONVERSATIONS,
    FY_PARITY_GREEDY,
    FY_PARITY_PARTS
} fy_parity_kind;

typedef struct {
    unsigned n, n_bad; /* compared, different */
    char first[256];   /* the first that differs: where, expected, found */
    double seconds;
} fy_parity_part;

typedef struct {
    fy_parity_part part[FY_PARITY_PARTS];
} fy_parity_report;

/* Compares the model with the text of a parity.json; differences are not a failure. only_first:
 * only the first prompt. FY_EFORMAT for any other text; FY_EINTR. */
int fy_parity_check(fy_model *m, const void *json, size_t n, int n_threads, bool only_first,
                    fy_parity_report *out, fy_err *e);

/* A session as both compute greedy ids: f32 keys and values. */
fy_session *fy_parity_session(const fy_model *m, uint32_t n_ctx, int n_threads, fy_err *e);
/* The best id of a row of logits; *lead: by how much it is ahead, as a part of itself. */
int32_t fy_parity_best(const float *logits, uint32_t n_vocab, double *lead);

#endif
