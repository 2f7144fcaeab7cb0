/* What the server counts about itself, for /metrics. Every member may be changed by any thread. */
#ifndef FY_SERVER_METRICS_H
#define FY_SERVER_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { FY_BUCKETS_MAX = 16, FY_METRIC_ROUTES = 64, FY_METRIC_CODES = 24 };

typedef struct {
    _Atomic uint64_t bucket[FY_BUCKETS_MAX + 1]; /* not cumulated; the last is beyond all bounds */
    _Atomic uint64_t n, sum_us;
} fy_histogram;

typedef struct {
    _Atomic uint64_t requests[FY_METRIC_ROUTES][FY_METRIC_CODES]; /* by route and code */
    _Atomic uint64_t cancelled, refused_queue, refused_limit, refused_access;
    _Atomic uint64_t prompt_tokens, cached_tokens, predicted_tokens, steps, evictions;
    _Atomic uint64_t draft_tokens, draft_accepted, drafts; /* guesses; steps with any */
    _Atomic uint64_t busy_slots, most_positions; /* of all steps; of a slot */
    _Atomic uint64_t prompt_us, predict_us, bytes_sent;
    _Atomic uint64_t cache_ram_bytes;
    _Atomic int64_t connections, running, waiting;
    fy_histogram batch_tokens; /* counts, not seconds */
    fy_histogram first_token, per_token, request, queued, grammar_mask;
} fy_metrics;

void fy_count_request(fy_metrics *m, size_t route, int code);
void fy_histogram_add(fy_histogram *h, const double *bounds, double value);
/* Bounds of the histograms, up to an INFINITY. */
extern const double fy_bounds_seconds[], fy_bounds_mask_seconds[], fy_bounds_tokens[];

/* The temperatures below root (base/thermal.h), "" for this machine's. */
void fy_metrics_put_heat(const char *root, fy_str *out);

typedef struct fy_server fy_server;
void fy_metrics_put(fy_server *s, fy_str *out);
/* The same as far as llama-server has it, under its names: for dashboards that know those. */
void fy_metrics_put_llama(fy_server *s, fy_str *out);

#endif
