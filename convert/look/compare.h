/* What two models differ in: tensor by tensor, key by key, and in their vocabularies; whatever they
 * are stored as (model_source.h).
 *
 * A model with GGUF's names and a checkpoint are compared as the GGUF file that the checkpoint
 * would become in f32. So are two checkpoints whose names or order of rows differ (Meta's and
 * Hugging Face's, one with the tied output stored and one without). Others are compared under the
 * names they have, as are checkpoints that ferry does not convert when they share some.
 *
 * Differences of values are relative to the largest value of A's tensor, as those of `eval`. Memory
 * does not grow with the model; results do not depend on the number of threads. */
#ifndef FY_CONVERT_COMPARE_H
#define FY_CONVERT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/part_options.h"
#include "convert/look/model_source.h"
#include "convert/write/planned_gguf.h"
#include "kernels/kernels.h"

typedef struct {
    const char *pattern; /* extended regular expression: only tensors whose name it is found in, and
                            neither keys nor vocabulary; NULL: all */
    double tolerance;    /* largest relative difference that is no failure */
    fy_pool *pool;
    fy_progress *progress;        /* counts bytes of A; may be NULL */
    const fy_part_options *parts; /* which tensors; NULL: all */
} fy_compare_params;

/* How far the values of two tensors are apart. Two values are the same when they are equal or both
 * NaN; NaN or an infinity against anything else is an infinite difference. */
typedef struct {
    uint64_t n, n_different;
    uint64_t n_wild;          /* of those, with an infinite difference; they are in no sum */
    double max_diff, largest; /* |a - b|; the largest finite |a| */
    double sum_diff2, sum_a2, sum_b2, sum_ab;
    uint64_t first; /* the first that differs, when n_different > 0 */
    float first_a, first_b;
} fy_tensor_diff;

/* Of n values that begin at element `at`; overwrites *d. */
void fy_tensor_diff_of(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                       uint64_t n, uint64_t at);
/* Adds the values that follow those of d. */
void fy_tensor_diff_join(fy_tensor_diff *d, const fy_tensor_diff *next);

double fy_tensor_diff_relative(const fy_tensor_diff *d); /* max_diff / largest; 0 when all equal */
double fy_tensor_diff_rmse(const fy_tensor_diff *d);
double fy_tensor_diff_cosine(const fy_tensor_diff *d); /* 1 when all are equal, zeros too */

typedef enum {
    FY_PAIR_EQUAL,  /* every value */
    FY_PAIR_WITHIN, /* the tolerance */
    FY_PAIR_BEYOND,
    FY_PAIR_SHAPE,  /* the shapes differ: values were not compared */
    FY_PAIR_UNREAD, /* values of one could not be read: `why` */
    FY_PAIR_ONLY_A,
    FY_PAIR_ONLY_B,
} fy_pair_state;

typedef struct {
    fy_pair_state state;
    const fy_source_tensor *a, *b; /* views; NULL: the model has none of the name */
    fy_tensor_diff diff;           /* of EQUAL, WITHIN, BEYOND */
    char *why;                     /* owned, or NULL */
} fy_tensor_pair;

/* A key that differs, or that one model alone has. */
typedef struct {
    fy_str key, a, b; /* quoted and short; a or b empty: the key is not there */
    bool has_a, has_b;
    bool is_provenance; /* where the model comes from or how it is stored, not what it computes */
} fy_key_pair;

enum { FY_VOCAB_SHOWN = 5 };

/* An array of the vocabulary that differs. */
typedef struct {
    const char *what;                            /* "tokens" */
    uint64_t n_a, n_b;                           /* entries */
    uint64_t n_different;                        /* of those that both have */
    uint64_t first[FY_VOCAB_SHOWN];              /* the first of them */
    fy_str a[FY_VOCAB_SHOWN], b[FY_VOCAB_SHOWN]; /* and what they are */
} fy_vocab_pair;

typedef struct {
    fy_source *a, *b;               /* owned */
    fy_source *plan_a, *plan_b;     /* owned; of checkpoints under their own names; or NULL */
    const fy_gguf *keys_a, *keys_b; /* views; NULL: keys were not compared */
    fy_err no_keys, no_tokenizer;   /* why they, or the tokenizer's, were not, or code 0 */
    fy_tensor_pair *pairs;          /* owned; all, those that differ first, the worst at the top */
    size_t n_pairs;
    size_t n_of[FY_PAIR_ONLY_B + 1]; /* pairs by state */
    fy_key_pair *keys;               /* owned */
    size_t n_keys, n_counting_keys;  /* counting: not of provenance */
    fy_vocab_pair *vocab;            /* owned */
    size_t n_vocab;
    bool has_vocab; /* both models have one, and they were compared */
    double tolerance;
    bool equal;   /* all that was compared, but keys of provenance */
    bool within;  /* the same, as far as the tolerance goes */
    fy_str parts; /* owned: where parts keep what they found */
} fy_comparison;

/* 0 when the two could be compared, whatever came out. fy_comparison_release in either case. Of a
 * part only `parts` is to be used: what came out is in its file. */
int fy_compare(const char *a, const char *b, const fy_compare_params *p, fy_comparison *out,
               fy_err *e);
void fy_comparison_release(fy_comparison *c);

/* compare_values.c: fills in state, diff and why of a pair that both models have in one shape. */
int fy_compare_values(fy_source *a, fy_source *b, fy_tensor_pair *pair, const fy_compare_params *p,
                      fy_err *e);
/* By its values; what could be read. */
void fy_compare_judge(fy_tensor_pair *pair, double tolerance);
/* Both models have it, in one shape. */
static inline bool fy_compare_has_values(const fy_tensor_pair *p)
{
    return p->a != NULL && p->b != NULL && p->state != FY_PAIR_SHAPE;
}

/* compare_parts.c: the values of one part, or of all parts as they have kept them. */
int fy_compare_in_parts(fy_comparison *c, const fy_compare_params *p, fy_err *e);

/* compare_keys.c: keys and vocabularies, of models that have some. */
int fy_compare_keys(fy_comparison *c, fy_err *e);

/* With `all`, tensors that are equal are listed as well. */
void fy_compare_put_text(const fy_comparison *c, bool all, fy_str *out);
int fy_compare_put_json(const fy_comparison *c, bool all, fy_str *out, fy_err *e);

#endif
