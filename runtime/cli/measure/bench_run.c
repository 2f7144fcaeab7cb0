/* Measuring for `ferry bench`: a test several times or decoding for a long while, what the model is
 * and how many bytes a token reads, and the sensors that show why a machine slows down. */
#include "cli/measure/bench.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/process.h"
#include "base/thermal.h"
#include "cli/engine.h"
#include "model/session.h"
#include "model/speculate.h"

/* --- a session -------------------------------------------------------------------------------- */

static uint64_t n_positions(const fy_bench_test *t)
{
    return (uint64_t)t->n_depth + t->n_prompt + t->n_gen;
}

int fy_bench_check(const fy_model *m, const fy_bench_test *tests, size_t n, fy_err *e)
{
    const uint32_t most = fy_model_hparams(m)->n_ctx_train;
    char name[FY_BENCH_NAME_BYTES];
    for (size_t i = 0; i < n; i++) {
        if (n_positions(&tests[i]) > most)
            return fy_fail(e, FY_EFIT,
                           "%s takes %" PRIu64 " positions, but the model was trained with %" PRIu32
                           "; use a smaller -p, -n or -d",
                           fy_bench_name(&tests[i], name), n_positions(&tests[i]), most);
    }
    return 0;
}

typedef struct {
    const fy_bench_test *t;
    fy_session *s;             /* owned */
    int32_t *ids;              /* owned; one for every position */
    fy_speculator *speculator; /* owned; NULL: no guesses */
} bench;

/* The same tokens in every run, without a pattern that a router of experts could follow. */
static int32_t any_id(uint64_t i, uint32_t n_vocab)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (int32_t)((x ^ x >> 32) % n_vocab);
}

static void close_bench(bench *b)
{
    fy_speculator_free(b->speculator);
    fy_session_free(b->s);
    free(b->ids);
}

/* Guesses of the text from a table, which costs nothing. */
static int open_guesses(bench *b, uint32_t n_vocab, fy_err *e)
{
    if (b->t->n_draft == 0)
        return 0;
    fy_proposer *p = fy_known_new(b->ids, (uint32_t)n_positions(b->t), b->t->draft_accept / 100.0,
                                  n_vocab, 1, e);
    b->speculator = p != NULL ? fy_speculator_new(&p, 1, b->t->n_draft, false, e) : NULL;
    return b->speculator != NULL ? 0 : -1;
}

/* The depth is computed once: its content is the same for every repetition. */
static int open_bench(bench *b, const fy_model *m, const fy_bench_test *t, fy_err *e)
{
    const uint64_t n = n_positions(t);
    const fy_session_params p = {.n_ctx = (uint32_t)n,
                                 .n_batch = t->n_batch,
                                 .n_threads = (int)t->n_threads,
                                 .n_logits = t->n_draft + 1,
                                 .type_k = t->type_k,
                                 .type_v = t->type_v,
                                 .sparse = t->sparse,
                                 .sparse_threshold = t->sparse_threshold};
    *b = (bench){.t = t,
                 .s = fy_session_open(m, &p, "-p, -n, -d or -b", e),
                 .ids = calloc(n, sizeof *b->ids)};
    if (b->s == NULL || b->ids == NULL) {
        close_bench(b);
        return b->s == NULL ? -1 : fy_nomem(e);
    }
    for (uint64_t i = 0; i < n; i++)
        b->ids[i] = any_id(i, fy_model_hparams(m)->n_vocab);
    if (open_guesses(b, fy_model_hparams(m)->n_vocab, e) != 0 ||
        (t->n_depth > 0 && fy_session_eval(b->s, b->ids, t->n_depth, NULL, NULL, e) != 0)) {
        close_bench(b);
        return -1;
    }
    return 0;
}

static int eval_next(const bench *b, uint32_t n, fy_err *e)
{
    return fy_session_eval(b->s, b->ids + fy_session_n_past(b->s), n, NULL, NULL, e);
}

/* Back to the depth; a model with states begins again. */
static int back_to_depth(const bench *b, fy_err *e)
{
    fy_session_rewind(b->s, b->t->n_depth);
    const uint32_t left = b->t->n_depth - fy_session_n_past(b->s);
    return left > 0 ? eval_next(b, left, e) : 0;
}

static int warm_up(const bench *b, fy_err *e)
{
    const fy_bench_test *t = b->t;
    return (t->n_prompt > 0 && eval_next(b, t->n_prompt, e) != 0) ||
                   (t->n_gen > 0 && eval_next(b, 1, e) != 0)
               ? -1
               : 0;
}

/* --- repetitions ------------------------------------------------------------------------------ */

/* The tokens of the table are what a sampler would draw. */
static int compute_guesses(const bench *b, fy_err *e)
{
    const uint32_t first = fy_session_n_past(b->s), n = b->t->n_gen;
    const float *logits;
    int rc = fy_speculator_begin(b->speculator, b->ids, first, e);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = fy_speculator_next(b->speculator, b->s, b->ids[first + i], n - 1 - i, &logits, e);
    fy_speculator_settle(b->speculator, b->s);
    return rc;
}

static int compute(const bench *b, fy_err *e)
{
    const fy_bench_test *t = b->t;
    if (t->n_prompt > 0 && eval_next(b, t->n_prompt, e) != 0)
        return -1;
    if (b->speculator != NULL)
        return compute_guesses(b, e);
    for (uint32_t i = 0; i < t->n_gen; i++) {
        if (eval_next(b, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* Of the graphs so far. */
static fy_chain_time time_of(const bench *b, size_t chunk)
{
    return fy_chain_run_time(fy_session_chain(b->s), chunk);
}

static void say_experts(const fy_model *m, const fy_expert_counts *before, uint64_t n_tokens)
{
    const fy_expert_counts counts = fy_experts_since(m, before);
    fy_str text = {0};
    fy_experts_text(&counts, n_tokens, "", &text);
    if (text.len > 0)
        fy_log(FY_LOG_INFO, "%s", fy_str_z(&text));
    fy_str_release(&text);
}

int fy_bench_measure(const fy_model *m, const fy_bench_test *t, uint32_t n, bool warmup,
                     uint64_t *ns, fy_chain_time *chunks, fy_err *e)
{
    bench b;
    if (open_bench(&b, m, t, e) != 0)
        return -1;
    int rc = warmup ? warm_up(&b, e) : 0;
    for (size_t i = 0; i < fy_model_n_chunks(m); i++)
        chunks[i] = time_of(&b, i);
    const fy_expert_counts before = fy_model_expert_counts(m);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = back_to_depth(&b, e);
        double begin = fy_now_s();
        if (rc == 0)
            rc = compute(&b, e);
        double took = fy_now_s() - begin;
        ns[i] = took > 1e-9 ? (uint64_t)(took * 1e9) : 1;
    }
    for (size_t i = 0; i < fy_model_n_chunks(m); i++) {
        const fy_chain_time end = time_of(&b, i);
        chunks[i] =
            (fy_chain_time){end.n_calls - chunks[i].n_calls, end.seconds - chunks[i].seconds};
    }
    fy_say_neurons(b.s);
    say_experts(m, &before, (uint64_t)n * (t->n_prompt + t->n_gen));
    close_bench(&b);
    return rc;
}

/* The tokens of the test in steps; the last may be smaller, and is not counted then. */
static int time_steps(const bench *b, uint32_t n_tokens, double *seconds, uint32_t *n_steps,
                      fy_err *e)
{
    uint8_t wants[FY_TREE_MAX];
    memset(wants, 1, sizeof wants);
    const uint32_t end = b->t->n_depth + b->t->n_gen;
    while (fy_session_n_past(b->s) + n_tokens <= end) {
        const fy_batch step = {
            .ids = b->ids + fy_session_n_past(b->s), .wants = wants, .n = n_tokens};
        const double begin = fy_now_s();
        if (fy_session_decode(b->s, &step, NULL, NULL, e) != 0)
            return -1;
        *seconds += fy_now_s() - begin;
        ++*n_steps;
    }
    return 0;
}

int fy_bench_step(const fy_model *m, const fy_bench_test *t, uint32_t n, double *step_s, fy_err *e)
{
    bench b;
    uint32_t n_steps = 0;
    double seconds = 0;
    const uint32_t n_tokens = t->n_draft + 1 < t->n_gen ? t->n_draft + 1 : t->n_gen;
    if (open_bench(&b, m, t, e) != 0)
        return -1;
    int rc = warm_up(&b, e);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = back_to_depth(&b, e);
        if (rc == 0)
            rc = time_steps(&b, n_tokens, &seconds, &n_steps, e);
    }
    close_bench(&b);
    *step_s = n_steps > 0 ? seconds / n_steps : 0;
    return rc;
}

double fy_bench_step_tokens(const fy_bench_test *t)
{
    double tokens = 1, right = 1;
    for (uint32_t i = 0; i < t->n_draft; i++)
        tokens += right *= t->draft_accept / 100.0;
    return tokens;
}

static void mean_of(const double *v, size_t n, double *mean, double *stddev)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    *mean = n > 0 ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - *mean) * (v[i] - *mean);
    *stddev = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

fy_bench_stats fy_bench_stats_of(const uint64_t *ns, size_t n, uint64_t n_tokens, double *ts)
{
    fy_bench_stats s;
    for (size_t i = 0; i < n; i++)
        ts[i] = (double)ns[i];
    mean_of(ts, n, &s.avg_ns, &s.stddev_ns);
    for (size_t i = 0; i < n; i++)
        ts[i] = 1e9 * (double)n_tokens / (double)ns[i];
    mean_of(ts, n, &s.avg_ts, &s.stddev_ts);
    return s;
}

/* --- sustained -------------------------------------------------------------------------------- */

fy_bench_meter fy_bench_meter_of(double seconds)
{
    double n = floor(seconds);
    n = n < 1 ? 1 : n > 20 ? 20 : n;
    return (fy_bench_meter){
        .seconds = seconds, .interval_s = seconds / n, .end_s = n == 1 ? seconds : seconds / n};
}

bool fy_bench_meter_token(fy_bench_meter *m, double now_s, fy_bench_interval *out)
{
    m->n_tokens++;
    if (now_s < m->end_s)
        return false;
    *out = (fy_bench_interval){m->begin_s, now_s, m->n_tokens,
                               (double)m->n_tokens / (now_s - m->begin_s)};
    m->begin_s = now_s;
    m->n_tokens = 0;
    while (m->end_s <= now_s)
        m->end_s += m->interval_s;
    if (m->end_s > m->seconds - m->interval_s / 2) /* rounding must not lose the last one */
        m->end_s = m->seconds;
    return true;
}

static int sustain(const bench *b, double seconds, fy_bench_interval_sink *sink, void *user,
                   fy_err *e)
{
    const uint32_t most = b->t->n_depth + b->t->n_gen;
    fy_bench_meter meter = fy_bench_meter_of(seconds);
    fy_bench_interval i;
    const double begin = fy_now_s();
    for (double now = 0; now < seconds;) {
        if ((fy_session_n_past(b->s) == most && back_to_depth(b, e) != 0) ||
            eval_next(b, 1, e) != 0)
            return -1;
        now = fy_now_s() - begin;
        if (fy_bench_meter_token(&meter, now, &i) && sink(user, &i, e) != 0)
            return -1;
    }
    return 0;
}

int fy_bench_sustain(const fy_model *m, const fy_bench_test *t, double seconds, bool warmup,
                     fy_bench_interval_sink *sink, void *user, fy_err *e)
{
    bench b;
    if (open_bench(&b, m, t, e) != 0)
        return -1;
    int rc = warmup ? warm_up(&b, e) : 0;
    if (rc == 0)
        rc = back_to_depth(&b, e);
    if (rc == 0)
        rc = sustain(&b, seconds, sink, user, e);
    close_bench(&b);
    return rc;
}

/* --- the model -------------------------------------------------------------------------------- */

/* "1.2B", "8B", "135M", "98K". */
static void put_size(uint64_t n_params, char *out, size_t size)
{
    static const struct {
        double unit;
        const char *letter;
    } units[] = {{1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof units[0] && (double)n_params < units[i].unit)
        i++;
    double n = (double)n_params / units[i].unit;
    int tenths = i == 0 && (int)(n * 10 + 0.5) % 10 != 0;
    snprintf(out, size, "%.*f%s", tenths, n, units[i].letter);
}

static uint64_t n_elements(const fy_gguf_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

/* Does decoding a token read it whole? Of an embedding it reads a row. */
static bool is_lookup(const fy_model *m, const fy_gguf_tensor *t)
{
    if (fy_span_is(t->name, "token_embd.weight"))
        return fy_model_n_chunks(m) > 0 ||
               fy_gguf_tensor_find(fy_model_gguf(m), "output.weight") != NULL;
    return fy_span_is(t->name, "position_embd.weight") ||
           fy_span_is(t->name, "per_layer_token_embd.weight");
}

static bool is_of_experts(const fy_gguf_tensor *t)
{
    return memmem(t->name.ptr, t->name.len, "_exps.", 6) != NULL;
}

static uint64_t bytes_read(const fy_model *m, const fy_gguf_tensor *t)
{
    const fy_hparams *hp = fy_model_hparams(m);
    if (is_lookup(m, t))
        return 0;
    if (is_of_experts(t) && hp->n_expert > 0)
        return t->bytes / hp->n_expert * hp->n_expert_used;
    return t->bytes;
}

static void put_type(const fy_model *m, fy_type commonest, fy_bench_model *out)
{
    char size[16], type[16];
    if (out->n_params == 0) {
        snprintf(out->type, sizeof out->type, "%s compiled", fy_model_family(m)->gguf_arch);
        return;
    }
    put_size(out->n_params, size, sizeof size);
    snprintf(type, sizeof type, "%s", fy_type_name(commonest));
    for (char *p = type; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    snprintf(out->type, sizeof out->type, "%s %s %s", fy_model_family(m)->gguf_arch, size, type);
}

/* copies: the output matrix is one of the embedding, in another file. */
static void add_file(const fy_model *m, const fy_gguf *g, bool copies,
                     uint64_t of_type[FY_TYPE_COUNT], fy_bench_model *out)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        out->weight_bytes += bytes_read(m, t);
        if (copies && fy_span_is(t->name, "output.weight"))
            continue;
        out->bytes += t->bytes;
        out->n_params += n_elements(t);
        of_type[t->type] += n_elements(t);
    }
}

/* A context binary says nothing of its tensors. */
static int add_binary(const char *path, fy_bench_model *out, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    out->bytes += map.size;
    out->weight_bytes += map.size;
    fy_map_close(&map);
    return 0;
}

static int add_piece(const fy_model *m, const char *path, uint64_t of_type[FY_TYPE_COUNT],
                     fy_bench_model *out, fy_err *e)
{
    fy_chunk_info part;
    if (!fy_span_ends(fy_span_of(path), ".gguf"))
        return add_binary(path, out, e);
    fy_gguf *g = fy_gguf_open(path, e);
    if (g == NULL)
        return -1;
    const int rc = fy_chunk_info_from_gguf(g, fy_model_hparams(m), &part, e);
    if (rc == 0)
        add_file(m, g, part.tied, of_type, out);
    fy_gguf_close(g);
    return rc;
}

int fy_bench_model_of(const fy_model *m, fy_bench_model *out, fy_err *e)
{
    uint64_t of_type[FY_TYPE_COUNT] = {0};
    fy_type commonest = FY_F32;
    *out = (fy_bench_model){0};
    add_file(m, fy_model_gguf(m), false, of_type, out);
    for (size_t i = 0; i < fy_model_n_chunks(m); i++) {
        if (add_piece(m, fy_model_chunk_path(m, i), of_type, out, e) != 0)
            return -1;
    }
    if (strcmp(fy_model_backend(m), "qnn") == 0)
        out->n_params = 0;
    for (int t = 0; t < FY_TYPE_COUNT; t++)
        commonest = of_type[t] > of_type[commonest] ? (fy_type)t : commonest;
    put_type(m, commonest, out);
    return 0;
}

/* Rows of one layer's keys that the tokens after `depth` positions read, together: the i-th of
 * them reads depth + i, or the window. */
static double rows_read(uint32_t depth, uint32_t n, uint32_t window)
{
    double rows = 0;
    for (uint32_t i = 1; i <= n; i++) {
        uint64_t all = (uint64_t)depth + i;
        rows += window != 0 && all > window ? window : (double)all;
    }
    return rows;
}

int fy_bench_bytes_per_token(const fy_model *m, const fy_bench_model *b, const fy_bench_test *t,
                             uint64_t *out, fy_err *e)
{
    enum { POSITIONS = 64 }; /* of so many rows the cache's bytes are exact: no padding */
    const fy_hparams *hp = fy_model_hparams(m);
    uint64_t bytes[2]; /* of 64 and of 128 positions; states take none of them */
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t n = (i + 1) * POSITIONS;
        const fy_kv_params shape = {
            .n_seq = 1, .n_ctx = n, .n_ring = n, .type_k = t->type_k, .type_v = t->type_v};
        if (fy_kv_bytes(hp, &shape, &bytes[i], e) != 0)
            return -1;
    }
    const uint64_t rows = bytes[1] - bytes[0], states = bytes[0] - rows;
    const uint32_t n_attn = hp->n_layer - fy_layers_count(&hp->no_attn_layers);
    const uint32_t n_full = hp->n_swa == 0 ? n_attn : fy_layers_count(&hp->full_layers);
    const double row = n_attn > 0 ? (double)rows / (double)POSITIONS / n_attn : 0;
    const double read = n_full * rows_read(t->n_depth, t->n_gen, 0) +
                        (n_attn - n_full) * rows_read(t->n_depth, t->n_gen, hp->n_swa);
    *out = b->weight_bytes + states + (uint64_t)(row * read / t->n_gen + 0.5);
    return 0;
}

/* --- sensors ---------------------------------------------------------------------------------- */

enum { PATH_BYTES = 512 };

static bool read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fgets(line, size, f) != NULL;
    if (f != NULL)
        fclose(f);
    return ok;
}

/* The largest `value` of the files that match the pattern. */
static double most_of(const char *root, const char *pattern, double (*value)(const char *path))
{
    char full[PATH_BYTES];
    glob_t files;
    double most = 0;
    if (snprintf(full, sizeof full, "%s%s", root, pattern) >= (int)sizeof full ||
        glob(full, 0, NULL, &files) != 0)
        return 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        double v = value(files.gl_pathv[i]);
        most = v > most ? v : most;
    }
    globfree(&files);
    return most;
}

static double khz_in(const char *path)
{
    char line[64];
    return read_line(path, line, sizeof line) ? strtod(line, NULL) : 0;
}

static double cpuinfo_mhz(const char *path)
{
    static const char key[] = "cpu MHz";
    FILE *f = fopen(path, "re");
    char line[1024];
    double most = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || colon == NULL)
            continue;
        double v = strtod(colon + 1, NULL);
        most = v > most ? v : most;
    }
    if (f != NULL)
        fclose(f);
    return most;
}

double fy_bench_clock_mhz(const char *root)
{
    double khz =
        most_of(root, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", khz_in);
    return khz > 0 ? khz / 1000 : most_of(root, "/proc/cpuinfo", cpuinfo_mhz);
}

/* Does a zone of this name measure a processor? Intel's and AMD's do, Raspberry Pi's, Qualcomm's
 * ("cpu-0-0-usr", "cpuss-0"; but "socd" is the battery's charge), MediaTek's ("mtktscpu",
 * "soc_max"), those of Exynos and Tensor ("BIG", "LITTLE", "MID") and Rockchip
 * ("bigcore0-thermal").
 */
static bool is_processor(const char *zone)
{
    static const char *const parts[] = {"cpu",     "pkg_temp", "k10temp", "soc_",   "soc-",
                                        "cluster", "core",     "big",     "little", "mid"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcasestr(zone, parts[i]) != NULL)
            return true;
    }
    const size_t n = strlen(zone);
    return n >= 3 && strcasecmp(zone + n - 3, "soc") == 0;
}

static void take_zone(void *user, const char *type, double c)
{
    double *most = user;
    if (is_processor(type) && c > *most)
        *most = c;
}

double fy_bench_temperature_c(const char *root)
{
    double most = 0;
    fy_thermal_zones(root, take_zone, &most);
    return most;
}
