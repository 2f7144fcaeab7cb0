/* Counters, and their text in Prometheus' format 0.0.4. */
#include "server/metrics.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/process.h"
#include "base/thermal.h"
#include "server/routes.h"
#include "server/server.h"

const double fy_bounds_seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                    0.5,   1,      2.5,   5,    10,    30,   60,  INFINITY};
const double fy_bounds_mask_seconds[] = {1e-6,   2.5e-6, 5e-6,   1e-5, 2.5e-5, 5e-5, 1e-4,
                                         2.5e-4, 5e-4,   0.001,  0.0025, 0.005, 0.01, INFINITY};
const double fy_bounds_tokens[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, INFINITY};

static const int codes[] = {200, 204, 400, 401, 403, 404, 405, 408, 413, 414, 415,
                            429, 431, 499, 500, 501, 503, 505};
enum { N_CODES = sizeof codes / sizeof codes[0] };
_Static_assert((int)N_CODES < (int)FY_METRIC_CODES, "a place for every code");

void fy_count_request(fy_metrics *m, size_t route, int code)
{
    size_t i = 0;
    while (i < N_CODES && codes[i] != code)
        i++;
    atomic_fetch_add(&m->requests[route < FY_METRIC_ROUTES ? route : FY_METRIC_ROUTES - 1][i], 1);
}

void fy_histogram_add(fy_histogram *h, const double *bounds, double value)
{
    size_t i = 0;
    while (value > bounds[i])
        i++;
    atomic_fetch_add(&h->bucket[i], 1);
    atomic_fetch_add(&h->n, 1);
    atomic_fetch_add(&h->sum_us, (uint64_t)(value > 0 ? value * 1e6 : 0));
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_type(fy_str *out, const char *name, const char *type, const char *help)
{
    fy_str_printf(out, "# HELP ferry_%s %s\n# TYPE ferry_%s %s\n", name, help, name, type);
}

static void put_count(fy_str *out, const char *name, const char *help, uint64_t v)
{
    put_type(out, name, "counter", help);
    fy_str_printf(out, "ferry_%s %llu\n", name, (unsigned long long)v);
}

static void put_gauge(fy_str *out, const char *name, const char *help, double v)
{
    put_type(out, name, "gauge", help);
    fy_str_printf(out, "ferry_%s %.15g\n", name, v);
}

static void put_histogram(fy_str *out, const char *name, const char *help, fy_histogram *h,
                          const double *bounds)
{
    uint64_t sum = 0;
    put_type(out, name, "histogram", help);
    for (size_t i = 0;; i++) {
        sum += atomic_load(&h->bucket[i]);
        if (isinf(bounds[i])) {
            fy_str_printf(out, "ferry_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)sum);
            break;
        }
        fy_str_printf(out, "ferry_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i],
                      (unsigned long long)sum);
    }
    fy_str_printf(out, "ferry_%s_sum %.6f\nferry_%s_count %llu\n", name,
                  (double)atomic_load(&h->sum_us) * 1e-6, name, (unsigned long long)sum);
}

static void put_requests(fy_metrics *m, fy_str *out)
{
    size_t n_routes = 0;
    put_type(out, "requests_total", "counter", "Requests that were answered.");
    while (fy_routes[n_routes].path != NULL)
        n_routes++;
    for (size_t r = 0; r < FY_METRIC_ROUTES; r++) {
        for (size_t c = 0; c <= N_CODES; c++) {
            const uint64_t n = atomic_load(&m->requests[r][c]);
            if (n == 0)
                continue;
            fy_str_printf(out, "ferry_requests_total{endpoint=\"%s\",code=\"%d\"} %llu\n",
                          r < n_routes ? fy_routes[r].path : "other", c < N_CODES ? codes[c] : 0,
                          (unsigned long long)n);
        }
    }
}

static void put_slots(fy_server *s, fy_str *out)
{
    fy_slot_state states[FY_SEQ_MAX];
    double busy = 0, used = 0;
    const uint32_t n = fy_schedule_n_slots(s->schedule);
    fy_schedule_slots(s->schedule, states);
    for (uint32_t i = 0; i < n; i++) {
        busy += states[i].busy;
        used += states[i].n_cached_ids;
    }
    put_gauge(out, "slots", "Sequences of the session.", n);
    put_gauge(out, "slots_busy", "Slots with a request.", busy);
    put_gauge(out, "cache_positions_used", "Positions of the KV cache that are filled.", used);
}

static void put_tokens(fy_metrics *m, fy_str *out)
{
    put_count(out, "prompt_tokens_total", "Ids of prompts that were computed.",
              atomic_load(&m->prompt_tokens));
    put_count(out, "prompt_tokens_cached_total", "Ids of prompts that were taken from a cache.",
              atomic_load(&m->cached_tokens));
    put_count(out, "tokens_predicted_total", "Ids that were generated.",
              atomic_load(&m->predicted_tokens));
    put_count(out, "draft_tokens_total", "Ids that were guessed.", atomic_load(&m->draft_tokens));
    put_count(out, "draft_tokens_accepted_total", "Guesses that became text.",
              atomic_load(&m->draft_accepted));
    put_type(out, "prompt_seconds_total", "counter", "Time of steps that went into prompts.");
    fy_str_printf(out, "ferry_prompt_seconds_total %.6f\n", (double)atomic_load(&m->prompt_us) * 1e-6);
    put_type(out, "predict_seconds_total", "counter", "Time of steps that went into answers.");
    fy_str_printf(out, "ferry_predict_seconds_total %.6f\n",
                  (double)atomic_load(&m->predict_us) * 1e-6);
    put_count(out, "decode_steps_total", "Steps.", atomic_load(&m->steps));
}

enum { ZONES_MAX = 128, ZONE_BYTES = 48 };
typedef struct {
    fy_str *out;
    char seen[ZONES_MAX][ZONE_BYTES];
    size_t n;
} zones;

/* A name that several zones have gets a number: no series may come twice. */
static void put_zone(void *user, const char *type, double c)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.: /";
    zones *z = user;
    size_t same = 0;
    if (z->n == ZONES_MAX)
        return;
    char *name = z->seen[z->n];
    for (size_t i = 0; type[i] != '\0' && i < ZONE_BYTES - 1; i++)
        name[i] = type[i] != '\0' && strchr(plain, type[i]) != NULL ? type[i] : '_';
    for (size_t i = 0; i < z->n; i++)
        same += strcmp(z->seen[i], name) == 0;
    if (z->n++ == 0)
        put_type(z->out, "thermal_celsius", "gauge", "Temperatures of the phone.");
    fy_str_printf(z->out, "ferry_thermal_celsius{zone=\"%s", name);
    if (same > 0)
        fy_str_printf(z->out, "#%zu", same + 1);
    fy_str_printf(z->out, "\"} %.15g\n", c);
}

void fy_metrics_put_heat(const char *root, fy_str *out)
{
    zones z = {.out = out};
    fy_thermal_zones(root, put_zone, &z);
}

void fy_metrics_put(fy_server *s, fy_str *out)
{
    fy_metrics *m = &s->metrics;
    put_requests(m, out);
    put_gauge(out, "requests_running", "Answers that have a slot.", (double)atomic_load(&m->running));
    put_gauge(out, "requests_waiting", "Requests that wait for a slot.",
              (double)atomic_load(&m->waiting));
    put_count(out, "requests_cancelled_total", "Answers whose client left.",
              atomic_load(&m->cancelled));
    put_type(out, "requests_refused_total", "counter", "Requests that were refused.");
    fy_str_printf(out,
                  "ferry_requests_refused_total{reason=\"queue\"} %llu\n"
                  "ferry_requests_refused_total{reason=\"limit\"} %llu\n"
                  "ferry_requests_refused_total{reason=\"access\"} %llu\n",
                  (unsigned long long)atomic_load(&m->refused_queue),
                  (unsigned long long)atomic_load(&m->refused_limit),
                  (unsigned long long)atomic_load(&m->refused_access));
    put_tokens(m, out);
    put_histogram(out, "batch_tokens", "Ids of a step.", &m->batch_tokens, fy_bounds_tokens);
    put_histogram(out, "time_to_first_token_seconds", "From the request's first byte.",
                  &m->first_token, fy_bounds_seconds);
    put_histogram(out, "time_per_output_token_seconds", "Of an answer, on average.", &m->per_token,
                  fy_bounds_seconds);
    put_histogram(out, "request_seconds", "From first byte to answer.", &m->request,
                  fy_bounds_seconds);
    put_histogram(out, "queue_seconds", "Until a slot was free.", &m->queued, fy_bounds_seconds);
    put_histogram(out, "grammar_mask_seconds", "To find the tokens that a grammar allows.",
                  &m->grammar_mask, fy_bounds_mask_seconds);
    put_slots(s, out);
    put_gauge(out, "cache_ram_bytes", "Prefixes that left their slot.",
              (double)atomic_load(&m->cache_ram_bytes));
    put_count(out, "cache_evictions_total", "Prefixes that were dropped.", atomic_load(&m->evictions));
    put_gauge(out, "connections", "Open connections.", (double)atomic_load(&m->connections));
    put_count(out, "bytes_sent_total", "Bytes of answers.", atomic_load(&m->bytes_sent));
#ifdef FERRY_DEVICE
    fy_metrics_put_heat("", out);
#endif
    fy_str_printf(out,
                  "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %llu\n"
                  "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.3f\n"
                  "# TYPE ferry_build_info gauge\nferry_build_info{version=\"" FERRY_VERSION
                  "\"} 1\n",
                  (unsigned long long)fy_rss_anon_bytes(), s->start_time);
}

/* --- llama-server's names --------------------------------------------------------------------- */

typedef struct {
    const char *name, *type, *help;
    double value;
} llama_row;

void fy_metrics_put_llama(fy_server *s, fy_str *out)
{
    fy_metrics *m = &s->metrics;
    const double prompt = (double)atomic_load(&m->prompt_tokens),
                 prompt_s = (double)atomic_load(&m->prompt_us) * 1e-6,
                 predicted = (double)atomic_load(&m->predicted_tokens),
                 predict_s = (double)atomic_load(&m->predict_us) * 1e-6,
                 steps = (double)atomic_load(&m->steps);
    const llama_row rows[] = {
        {"prompt_tokens_total", "counter", "Number of prompt tokens processed.", prompt},
        {"prompt_tokens_cached_total", "counter", "Number of prompt tokens taken from a cache.",
         (double)atomic_load(&m->cached_tokens)},
        {"prompt_seconds_total", "counter", "Prompt process time.", prompt_s},
        {"tokens_predicted_total", "counter", "Number of generation tokens processed.", predicted},
        {"tokens_predicted_seconds_total", "counter", "Predict process time.", predict_s},
        {"n_decode_total", "counter", "Total number of steps.", steps},
        {"n_tokens_max", "counter", "Largest observed number of positions of a slot.",
         (double)atomic_load(&m->most_positions)},
        {"spec_decode_num_draft_tokens_total", "counter", "Number of drafted tokens.",
         (double)atomic_load(&m->draft_tokens)},
        {"spec_decode_num_accepted_tokens_total", "counter", "Number of accepted ones.",
         (double)atomic_load(&m->draft_accepted)},
        {"spec_decode_num_drafts_total", "counter", "Number of drafts.",
         (double)atomic_load(&m->drafts)},
        {"prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s.",
         prompt_s > 0 ? prompt / prompt_s : 0},
        {"predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.",
         predict_s > 0 ? predicted / predict_s : 0},
        {"n_busy_slots_per_decode", "gauge", "Average number of busy slots of a step.",
         steps > 0 ? (double)atomic_load(&m->busy_slots) / steps : 0},
        {"requests_processing", "gauge", "Number of requests processing.",
         (double)atomic_load(&m->running)},
        {"requests_deferred", "gauge", "Number of requests deferred.",
         (double)atomic_load(&m->waiting)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const llama_row *r = &rows[i];
        fy_str_printf(out, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %.15g\n",
                      r->name, r->help, r->name, r->type, r->name, r->value);
    }
}
