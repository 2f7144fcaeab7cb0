/* What a running program needs of a workspace directory: which models it holds, the sampler and
 * thread defaults, and the cheap check before loading (manifest readable, listed files present with
 * the listed sizes, the small JSON files by hash). Layout and schemas: docs/workspace.md. Reads
 * only; the writer is workspace/. */
#ifndef FY_BUNDLE_BUNDLE_H
#define FY_BUNDLE_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/gguf.h"

/* Where things are in a workspace; the last four below the directory of a model. */
#define FY_BUNDLE_EXE            "bin/ferry"
#define FY_BUNDLE_QNN_LIBS       "qnn_libs"
#define FY_BUNDLE_WORKSPACE_JSON "workspace.json"
#define FY_BUNDLE_HPARAMS_JSON   "hparams.json" /* what workspace.json of ours names */
#define FY_BUNDLE_MODEL_JSON     "model.json"
#define FY_BUNDLE_VOCAB          "vocab.gguf"
#define FY_BUNDLE_WEIGHTS        "ggml/weights.gguf"
#define FY_BUNDLE_PARITY         "parity.json" /* may be absent */

#define FY_BUNDLE_JSON_MAX_BYTES (1u << 20) /* of any other JSON file of a workspace */

typedef struct {
    char *model_main;  /* owned; directory name relative to the workspace */
    char *model_draft; /* owned; NULL: none */
    char *weights;     /* owned; path of the main model's weights.gguf, ready to open */
    char *qnn;         /* owned; path of the directory of its graphs (qnn_config.h); NULL: none */
    char *qnn_libs;    /* owned; path of the directory of the NPU's libraries; NULL: none */
    /* hparams.json; unset values are negative (n_threads, batch_size, top_k), NAN, INT64_MIN
     * (penalty_last_n, where -1 is "all"), or UINT64_MAX (seed, which is written -1, too) */
    int64_t n_threads, batch_size;
    double temperature, top_p, min_p, typical_p;
    int64_t top_k;
    double penalty_repeat, penalty_freq, penalty_present;
    int64_t penalty_last_n;
    uint64_t seed;
} fy_bundle;

/* Opens a workspace for running: manifest and sizes are checked first. */
int fy_bundle_open(const char *dir, fy_bundle *out, fy_err *e);
void fy_bundle_release(fy_bundle *b);

/* --- sampling hints --------------------------------------------------------------------------- */

typedef enum {
    FY_HINT_TEMP = 0,
    FY_HINT_TOP_K, /* 0: all */
    FY_HINT_TOP_P,
    FY_HINT_MIN_P,
    FY_HINT_TYPICAL,
    FY_HINT_REPEAT,
    FY_HINT_LAST_N, /* -1: all */
    FY_HINT_PRESENCE,
    FY_HINT_FREQUENCY,
    FY_HINTS
} fy_hint;

typedef struct {
    const char *gguf, *hparams, *config; /* NULL: has none there */
    double min, max;
    bool whole;
    bool draws; /* changes how to draw; the others change greedy choices too */
} fy_hint_row;

extern const fy_hint_row fy_hints[FY_HINTS];

/* What the file recommends; NAN: nothing. *bad (may be NULL) is set when there is a value of
 * another kind or out of range, which counts as none. */
double fy_hint_of(const fy_gguf *g, fy_hint h, bool *bad);

#endif
