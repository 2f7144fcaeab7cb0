/* qnn/canary.json of a compiled model: what the model answers to a few tokens, so that a runtime
 * sees whether an NPU computes it. Wrong numbers without an error are how an NPU fails.
 *
 *     {"version": 1, "model": "<64 hex digits>", "ids": [48 tokens], "kl": 0.0021,
 *      "top": [{"ids": [32 tokens], "logits": [...]}, ...]} */
#ifndef FY_BUNDLE_NPU_CANARY_H
#define FY_BUNDLE_NPU_CANARY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define FY_CANARY_NAME "canary.json" /* in FY_QNN_DIR */
enum { FY_CANARY_POSITIONS = 16, FY_CANARY_TOP = 32, FY_CANARY_IDS = 4096 };

typedef struct {
    char model[65]; /* of the cut: fy_chunk_info.model */
    int32_t *ids;   /* owned, [n_ids], at most FY_CANARY_IDS: a preset's tokens and a text */
    size_t n_ids;
    size_t n_positions, n_top; /* the last ones of ids; likeliest tokens of each */
    int32_t top[FY_CANARY_POSITIONS][FY_CANARY_TOP];
    float logits[FY_CANARY_POSITIONS][FY_CANARY_TOP]; /* of the model in floats */
    double kl; /* mean KL divergence of the compiled types from that, computed on a CPU */
} fy_canary;

int fy_canary_parse(const void *p, size_t n, fy_canary *out, fy_err *e);
int fy_canary_read(const char *path, fy_canary *out, fy_err *e);
void fy_canary_put(const fy_canary *c, fy_str *s); /* appends its text */
void fy_canary_release(fy_canary *c);

/* Keeps the likeliest tokens of a position; n_vocab at least c->n_top. */
void fy_canary_keep(fy_canary *c, size_t position, const float *logits, uint32_t n_vocab);
/* How far logits [n_vocab] are from those of a position, among its likeliest tokens: infinite when
 * one is not finite. FY_EFORMAT for tokens that the model does not have. */
int fy_canary_kl(const fy_canary *c, size_t position, const float *logits, uint32_t n_vocab,
                 double *kl, fy_err *e);
/* What the mean over the positions may be on an NPU. */
double fy_canary_bound(const fy_canary *c);

#endif
