/* Compares a model with a golden file: what a reference implementation computed from the same
 * checkpoint (docs/golden.md). A golden is a safetensors file with input_ids [T] and some of
 *
 *   logits [T, V]         f32, of every position
 *   logits_tail [n, V]    f32, of the last n positions
 *   hidden [L + 1, T, d]  f32, the residual stream: [i] enters layer i, [L] leaves the last
 *   keys [L, n_head_kv, T, head_dim], values [L, n_head_kv, T, head_dim_v]  f32, as cached
 *   greedy_ids [n]        the argmax continuation
 *
 * Differences are relative to the largest golden value: of all logits, or of that place.
 */
#ifndef FY_MODEL_GOLDEN_H
#define FY_MODEL_GOLDEN_H

#include "model/model.h"

typedef struct fy_golden fy_golden;

/* Opens a golden and checks it against the model: FY_EFORMAT when a shape does not fit. NULL on
 * failure. */
fy_golden *fy_golden_open(const char *path, const fy_hparams *hp, fy_err *e);
void fy_golden_close(fy_golden *g);              /* NULL is fine */
uint32_t fy_golden_n_tokens(const fy_golden *g); /* T */
uint32_t fy_golden_n_ctx(const fy_golden *g);    /* positions a session must have */

typedef struct {
    double max_diff; /* largest |ours - golden|; infinite when ours is not finite */
    double largest;  /* largest |golden| */
    double sum_diff2, sum_golden2;
    double worst_diff2; /* of sum_diff2 what the worst position added */
} fy_difference;
bool fy_difference_seen(const fy_difference *d);  /* anything was compared */
double fy_difference_max(const fy_difference *d); /* max_diff / largest */
double fy_difference_rms(const fy_difference *d); /* RMS of the difference / RMS of the golden */
/* The same without the worst position: where another expert was chosen, the step is no measure of
 * precision. */
double fy_difference_rms_but_worst(const fy_difference *d);

/* Places are numbered as data flows: what enters layer 0, its keys, its values, what enters layer 1
 * and so on, to what leaves the last. */
enum { FY_GOLDEN_HIDDEN, FY_GOLDEN_KEYS, FY_GOLDEN_VALUES, FY_GOLDEN_PER_LAYER };

typedef struct {
    uint32_t n_rows; /* positions whose logits were compared; 0: the golden has none */
    uint32_t n_top1; /* of them, with the same largest logit */
    fy_difference logits;
    uint32_t n_places;       /* FY_GOLDEN_PER_LAYER * n_layer + 1 */
    fy_difference *places;   /* owned; fy_difference_seen: the golden has it, and graphs show only
                                what enters a chunk, and what leaves the last */
    int64_t first_wrong;     /* first place beyond the tolerance; -1: none */
    uint32_t n_greedy;       /* 0: the golden has none */
    uint32_t n_equal;        /* ids before the first that differs */
    int32_t expected, found; /* that id, when n_equal < n_greedy */
    bool within;             /* everything is within the tolerance, and the ids are equal */
} fy_golden_report;

/* Empties the session, runs the golden's tokens through it and compares. Being beyond the tolerance
 * is no failure. */
int fy_golden_compare(const fy_golden *g, fy_session *s, double tolerance, fy_golden_report *out,
                      fy_err *e);
void fy_golden_report_release(fy_golden_report *r);

/* Empties the session, runs the ids through it and saves ids, logits, keys and values, and the
 * residual stream of a whole model; `path` as fy_out_open. m: the session's. */
int fy_golden_save(const char *path, const fy_model *m, fy_session *s, const int32_t *ids,
                   uint32_t n, fy_err *e);

#endif
