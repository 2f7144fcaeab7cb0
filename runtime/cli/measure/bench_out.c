/* Printing the rows of `ferry bench` in four formats from the same tables of fields, which are
 * llama-bench's columns and two of our own. */
#include "cli/measure/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"

/* --- fields ----------------------------------------------------------------------------------- */

typedef enum {
    TEXT,  /* const char * */
    WHOLE, /* uint64_t */
    COUNT, /* uint64_t; 0: none */
    REAL,  /* double; NAN: none */
    FLAG,  /* bool */
} kind;

typedef struct {
    const char *name;
    kind kind;
    size_t offset;
} field;

#define ABOUT(member, kind)                             \
    {                                                   \
#member, kind, offsetof(fy_bench_about, member) \
    }
#define RESULT(member, kind)                             \
    {                                                    \
#member, kind, offsetof(fy_bench_result, member) \
    }
#define MOMENT(member, kind)                             \
    {                                                    \
#member, kind, offsetof(fy_bench_moment, member) \
    }

static const field about_fields[] = {
    ABOUT(build_commit, TEXT), ABOUT(build_number, WHOLE), ABOUT(cpu_info, TEXT),
    ABOUT(gpu_info, TEXT),     ABOUT(backends, TEXT),      ABOUT(model_filename, TEXT),
    ABOUT(model_type, TEXT),   ABOUT(model_size, WHOLE),   ABOUT(model_n_params, WHOLE),
    ABOUT(n_batch, WHOLE),     ABOUT(n_ubatch, WHOLE),     ABOUT(n_threads, WHOLE),
    ABOUT(type_k, TEXT),       ABOUT(type_v, TEXT),        ABOUT(use_mmap, FLAG),
    ABOUT(n_prompt, WHOLE),    ABOUT(n_gen, WHOLE),        ABOUT(n_depth, WHOLE),
    ABOUT(n_draft, WHOLE),     ABOUT(draft_accept, WHOLE),
    ABOUT(test_time, TEXT),
};
static const field result_fields[] = {
    RESULT(avg_ns, WHOLE),   RESULT(stddev_ns, WHOLE),       RESULT(avg_ts, REAL),
    RESULT(stddev_ts, REAL), RESULT(bytes_per_token, COUNT), RESULT(bandwidth_share, REAL),
    RESULT(draft_step_ns, REAL), RESULT(draft_bound_ts, REAL),
};
static const field moment_fields[] = {
    MOMENT(begin_s, REAL), MOMENT(end_s, REAL),     MOMENT(n_tokens, WHOLE),
    MOMENT(avg_ts, REAL),  MOMENT(clock_mhz, REAL), MOMENT(temperature_c, REAL),
};

/* A table of fields and what it describes. */
typedef struct {
    const field *f;
    size_t n;
    const void *of;
} part;
#define PART(table, p) ((part){(table), sizeof(table) / sizeof((table)[0]), (p)})

static const void *at(const part *p, size_t i)
{
    return (const char *)p->of + p->f[i].offset;
}

/* False: no value. */
static bool number_text(const part *p, size_t i, char *out, size_t size)
{
    const void *v = at(p, i);
    if (p->f[i].kind == REAL) {
        double d = *(const double *)v;
        snprintf(out, size, "%.6f", d);
        return isfinite(d);
    }
    uint64_t u = *(const uint64_t *)v;
    snprintf(out, size, "%" PRIu64, u);
    return p->f[i].kind == WHOLE || u != 0;
}

/* --- CSV -------------------------------------------------------------------------------------- */

static void put_csv_names(const part *parts, size_t n, fy_str *out)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < parts[k].n; i++)
            fy_str_printf(out, "%s%s", k + i > 0 ? "," : "", parts[k].f[i].name);
    }
    fy_str_putc(out, '\n');
}

static void put_csv_text(const char *text, fy_str *out)
{
    for (; *text != '\0'; text++)
        fy_str_puts(out, *text == '"' ? "\"\"" : (char[]){*text, '\0'});
}

static void put_csv_row(const part *parts, size_t n, fy_str *out)
{
    char number[40];
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < parts[k].n; i++) {
            const void *v = at(&parts[k], i);
            fy_str_puts(out, k + i > 0 ? ",\"" : "\"");
            if (parts[k].f[i].kind == TEXT)
                put_csv_text(*(const char *const *)v, out);
            else if (parts[k].f[i].kind == FLAG)
                fy_str_puts(out, *(const bool *)v ? "1" : "0");
            else if (number_text(&parts[k], i, number, sizeof number))
                fy_str_puts(out, number);
            fy_str_putc(out, '"');
        }
    }
    fy_str_putc(out, '\n');
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void put_json_value(const part *p, size_t i, fy_str *out)
{
    char number[40];
    if (p->f[i].kind == TEXT)
        fy_json_put_string(out, fy_span_of(*(const char *const *)at(p, i)));
    else if (p->f[i].kind == FLAG)
        fy_str_puts(out, *(const bool *)at(p, i) ? "true" : "false");
    else
        fy_str_puts(out, number_text(p, i, number, sizeof number) ? number : "null");
}

/* "NAME": VALUE, between any two members the separator. */
static void put_json_members(const part *parts, size_t n, const char *separator, fy_str *out)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < parts[k].n; i++) {
            fy_str_printf(out, "%s\"%s\": ", k + i > 0 ? separator : "", parts[k].f[i].name);
            put_json_value(&parts[k], i, out);
        }
    }
}

static void put_samples(const fy_bench_result *r, const char *separator, fy_str *out)
{
    fy_str_printf(out, "%s\"samples_ns\": [", separator);
    for (size_t i = 0; i < r->n_samples; i++)
        fy_str_printf(out, "%s%" PRIu64, i > 0 ? ", " : " ", r->samples_ns[i]);
    fy_str_printf(out, " ]%s\"samples_ts\": [", separator);
    for (size_t i = 0; i < r->n_samples; i++)
        fy_str_printf(out, "%s%.6f", i > 0 ? ", " : " ", r->samples_ts[i]);
    fy_str_puts(out, " ]");
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* "chunk_0" of its path. */
static fy_span chunk_name(const fy_bench_result *r, size_t i)
{
    fy_span name = fy_path_base(fy_model_chunk_path(r->cut, i));
    const char *dot = memrchr(name.ptr, '.', name.len);
    return (fy_span){name.ptr, dot != NULL ? (size_t)(dot - name.ptr) : name.len};
}

/* Of a repetition, outside of all graphs. */
static double host_ns(const fy_bench_result *r)
{
    double ns = (double)r->avg_ns;
    for (size_t i = 0; i < fy_model_n_chunks(r->cut); i++)
        ns -= r->chunks[i].seconds * 1e9 / (double)r->n_samples;
    return ns > 0 ? ns : 0;
}

static double call_ns(const fy_chain_time *t)
{
    return t->n_calls > 0 ? t->seconds * 1e9 / (double)t->n_calls : 0;
}

static void put_chunks(const fy_bench_result *r, const char *separator, fy_str *out)
{
    fy_str_printf(out, "%s\"chunks\": [", separator);
    for (size_t i = 0; i < fy_model_n_chunks(r->cut); i++) {
        fy_str_puts(out, i > 0 ? ", {\"name\": " : "{\"name\": ");
        fy_json_put_string(out, chunk_name(r, i));
        fy_str_printf(out, ", \"calls\": %" PRIu64 ", \"avg_ns\": %.0f}",
                      r->chunks[i].n_calls / r->n_samples, call_ns(&r->chunks[i]));
    }
    fy_str_printf(out, "]%s\"host_ns\": %.0f", separator, host_ns(r));
}

void fy_bench_chunks_text(const fy_bench_result *r, fy_str *out)
{
    for (size_t i = 0; i < fy_model_n_chunks(r->cut); i++) {
        const fy_span name = chunk_name(r, i);
        fy_str_printf(out, "%.*s %" PRIu64 " x %.3f ms, ", (int)name.len, name.ptr,
                      r->chunks[i].n_calls / r->n_samples, call_ns(&r->chunks[i]) * 1e-6);
    }
    fy_str_printf(out, "host %.3f ms (%.1f %%)", host_ns(r) * 1e-6,
                  100 * host_ns(r) / (double)r->avg_ns);
}

/* --- Markdown --------------------------------------------------------------------------------- */

enum {
    MODEL,
    SIZE,
    PARAMS,
    BACKEND,
    THREADS,
    BATCH,
    TYPE_K,
    TYPE_V,
    TEST,
    RATE,
    BYTES,
    SHARE,
    STEP,
    BOUND,
    OF_BOUND,
    SECONDS,
    NOW,
    CLOCK,
    HEAT,
    N_COLUMNS,
};

static const struct {
    const char *title;
    int width; /* negative: to the left */
} columns[N_COLUMNS] = {
    [MODEL] = {"model", -30},     [SIZE] = {"size", 10},         [PARAMS] = {"params", 10},
    [BACKEND] = {"backend", -10}, [THREADS] = {"threads", 7},    [BATCH] = {"n_batch", 7},
    [TYPE_K] = {"type_k", 6},     [TYPE_V] = {"type_v", 6},      [TEST] = {"test", 15},
    [RATE] = {"t/s", 20},         [BYTES] = {"bytes/token", 11}, [SHARE] = {"bandwidth", 9},
    [STEP] = {"step ms", 8},      [BOUND] = {"bound t/s", 9},    [OF_BOUND] = {"of bound", 8},
    [SECONDS] = {"seconds", 15},  [NOW] = {"t/s", 10},           [CLOCK] = {"MHz", 6},
    [HEAT] = {"\u00b0C", 6},
};

static unsigned columns_of(const fy_bench_out *o, bool sustained)
{
    unsigned always = sustained ? 1u << MODEL | 1u << THREADS | 1u << TEST | 1u << SECONDS |
                                      1u << NOW | 1u << CLOCK | 1u << HEAT
                                : 1u << MODEL | 1u << SIZE | 1u << PARAMS | 1u << BACKEND |
                                      1u << THREADS | 1u << TEST | 1u << RATE;
    bool bytes = o->show_bytes && !sustained;
    return always | (unsigned)o->show_batch << BATCH | (unsigned)o->show_type_k << TYPE_K |
           (unsigned)o->show_type_v << TYPE_V | (unsigned)bytes << BYTES | (unsigned)bytes << SHARE |
           (o->show_guesses ? 1u << STEP | 1u << BOUND | 1u << OF_BOUND : 0);
}

/* In columns of the terminal: printf counts bytes. */
static int shown_width(const char *s)
{
    int n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void put_cell(const char *text, int width, fy_str *out)
{
    int pad = (width < 0 ? -width : width) - shown_width(text);
    pad = pad > 0 ? pad : 0;
    fy_str_printf(out, " %*s%s%*s |", width > 0 ? pad : 0, "", text, width < 0 ? pad : 0, "");
}

static void put_head(unsigned set, fy_str *out)
{
    static const char dashes[] = "------------------------------";
    fy_str_putc(out, '|');
    for (int c = 0; c < N_COLUMNS; c++) {
        if (set >> c & 1)
            put_cell(columns[c].title, columns[c].width, out);
    }
    fy_str_puts(out, "\n|");
    for (int c = 0; c < N_COLUMNS; c++) {
        int width = columns[c].width;
        if (set >> c & 1)
            fy_str_printf(out, " %.*s%s |", (width < 0 ? -width : width) - 1, dashes,
                          width > 0 ? ":" : "-");
    }
    fy_str_putc(out, '\n');
}

static void bytes_text(uint64_t bytes, char *out, size_t size)
{
    bool giga = bytes >= 1u << 30;
    snprintf(out, size, "%.2f %s", (double)bytes / (giga ? 1 << 30 : 1 << 20),
             giga ? "GiB" : "MiB");
}

static void params_text(uint64_t n, char *out, size_t size)
{
    bool giga = n >= 1000000000;
    snprintf(out, size, "%.2f %s", (double)n / (giga ? 1e9 : 1e6), giga ? "B" : "M");
}

static void real_text(double v, int decimals, const char *unit, char *out, size_t size)
{
    if (isfinite(v))
        snprintf(out, size, "%.*f%s", decimals, v, unit);
    else
        snprintf(out, size, "-");
}

static void test_text(const fy_bench_about *a, char out[FY_BENCH_NAME_BYTES])
{
    fy_bench_name(&(fy_bench_test){.n_prompt = (uint32_t)a->n_prompt,
                                   .n_gen = (uint32_t)a->n_gen,
                                   .n_depth = (uint32_t)a->n_depth,
                                   .n_draft = (uint32_t)a->n_draft,
                                   .draft_accept = (uint32_t)a->draft_accept},
                  out);
}

static const char *about_cell(int column, const fy_bench_about *a, char out[FY_BENCH_NAME_BYTES])
{
    switch (column) {
    case MODEL:
        return a->model_type;
    case SIZE:
        bytes_text(a->model_size, out, FY_BENCH_NAME_BYTES);
        return out;
    case PARAMS:
        params_text(a->model_n_params, out, FY_BENCH_NAME_BYTES);
        return out;
    case BACKEND:
        return a->backends;
    case THREADS:
    case BATCH:
        snprintf(out, FY_BENCH_NAME_BYTES, "%" PRIu64,
                 column == THREADS ? a->n_threads : a->n_batch);
        return out;
    case TYPE_K:
        return a->type_k;
    case TYPE_V:
        return a->type_v;
    case TEST:
        test_text(a, out);
        return out;
    default:
        return NULL;
    }
}

static void result_cell(int column, const fy_bench_result *r, char out[FY_BENCH_NAME_BYTES])
{
    const size_t size = FY_BENCH_NAME_BYTES;
    if (column == RATE)
        snprintf(out, size, "%.2f \u00b1 %.2f", r->avg_ts, r->stddev_ts);
    else if (column == STEP)
        real_text(r->draft_step_ns * 1e-6, 2, "", out, size);
    else if (column == BOUND)
        real_text(r->draft_bound_ts, 2, "", out, size);
    else if (column == OF_BOUND)
        real_text(r->avg_ts / r->draft_bound_ts, 3, "", out, size);
    else if (column == SHARE)
        real_text(r->bandwidth_share * 100, 1, " %", out, size);
    else if (r->bytes_per_token > 0)
        bytes_text(r->bytes_per_token, out, size);
    else
        snprintf(out, size, "-");
}

static void moment_cell(int column, const fy_bench_moment *m, char out[FY_BENCH_NAME_BYTES])
{
    const size_t size = FY_BENCH_NAME_BYTES;
    if (column == SECONDS)
        snprintf(out, size, "%.0f-%.0f", m->begin_s, m->end_s);
    else if (column == NOW)
        snprintf(out, size, "%.2f", m->avg_ts);
    else if (column == CLOCK)
        real_text(m->clock_mhz, 0, "", out, size);
    else
        real_text(m->temperature_c, 1, "", out, size);
}

/* r or m is NULL. */
static void put_row(unsigned set, const fy_bench_about *a, const fy_bench_result *r,
                    const fy_bench_moment *m, fy_str *out)
{
    fy_str_putc(out, '|');
    for (int c = 0; c < N_COLUMNS; c++) {
        char text[FY_BENCH_NAME_BYTES];
        if ((set >> c & 1) == 0)
            continue;
        const char *cell = about_cell(c, a, text);
        if (cell == NULL && r != NULL)
            result_cell(c, r, text);
        else if (cell == NULL)
            moment_cell(c, m, text);
        put_cell(cell != NULL ? cell : text, columns[c].width, out);
    }
    fy_str_putc(out, '\n');
}

/* --- tests ------------------------------------------------------------------------------------ */

void fy_bench_out_begin(fy_bench_out *o, fy_str *out)
{
    const part parts[] = {PART(about_fields, NULL), PART(result_fields, NULL)};
    o->n_rows = 0;
    if (o->format == FY_BENCH_MD)
        put_head(columns_of(o, false), out);
    else if (o->format == FY_BENCH_CSV)
        put_csv_names(parts, 2, out);
    else if (o->format == FY_BENCH_JSON)
        fy_str_puts(out, "[\n");
}

void fy_bench_out_test(fy_bench_out *o, const fy_bench_about *about, const fy_bench_result *r,
                       fy_str *out)
{
    const part parts[] = {PART(about_fields, about), PART(result_fields, r)};
    switch (o->format) {
    case FY_BENCH_MD:
        put_row(columns_of(o, false), about, r, NULL, out);
        break;
    case FY_BENCH_CSV:
        put_csv_row(parts, 2, out);
        break;
    case FY_BENCH_JSON:
        fy_str_puts(out, o->n_rows > 0 ? ",\n  {\n    " : "  {\n    ");
        put_json_members(parts, 2, ",\n    ", out);
        put_samples(r, ",\n    ", out);
        if (r->cut != NULL)
            put_chunks(r, ",\n    ", out);
        fy_str_puts(out, "\n  }");
        break;
    case FY_BENCH_JSONL:
        fy_str_putc(out, '{');
        put_json_members(parts, 2, ", ", out);
        put_samples(r, ", ", out);
        if (r->cut != NULL)
            put_chunks(r, ", ", out);
        fy_str_puts(out, "}\n");
        break;
    }
    o->n_rows++;
}

void fy_bench_out_end(fy_bench_out *o, fy_str *out)
{
    if (o->format == FY_BENCH_JSON)
        fy_str_puts(out, "\n]\n");
}

/* --- sustained -------------------------------------------------------------------------------- */

void fy_bench_out_begin_sustained(fy_bench_out *o, const fy_bench_about *about, fy_str *out)
{
    const part parts[] = {PART(about_fields, about), PART(moment_fields, NULL)};
    o->n_rows = 0;
    if (o->format == FY_BENCH_MD) {
        put_head(columns_of(o, true), out);
    } else if (o->format == FY_BENCH_CSV) {
        put_csv_names(parts, 2, out);
    } else if (o->format == FY_BENCH_JSON) {
        fy_str_puts(out, "{\n  ");
        put_json_members(parts, 1, ",\n  ", out);
        fy_str_puts(out, ",\n  \"intervals\": [");
    }
}

void fy_bench_out_moment(fy_bench_out *o, const fy_bench_about *about, const fy_bench_moment *m,
                         fy_str *out)
{
    const part parts[] = {PART(about_fields, about), PART(moment_fields, m)};
    switch (o->format) {
    case FY_BENCH_MD:
        put_row(columns_of(o, true), about, NULL, m, out);
        break;
    case FY_BENCH_CSV:
        put_csv_row(parts, 2, out);
        break;
    case FY_BENCH_JSON:
        fy_str_puts(out, o->n_rows > 0 ? ",\n    {" : "\n    {");
        put_json_members(parts + 1, 1, ", ", out);
        fy_str_putc(out, '}');
        break;
    case FY_BENCH_JSONL:
        fy_str_putc(out, '{');
        put_json_members(parts, 2, ", ", out);
        fy_str_puts(out, "}\n");
        break;
    }
    o->n_rows++;
}

void fy_bench_out_end_sustained(fy_bench_out *o, double first_ts, double last_ts, fy_str *out)
{
    const double ratio = last_ts > 0 ? first_ts / last_ts : 0;
    if (o->format == FY_BENCH_MD && o->n_rows > 0)
        fy_str_printf(out, "\nfirst interval : last interval = %.2f : %.2f = %.3f\n", first_ts,
                      last_ts, ratio);
    if (o->format == FY_BENCH_JSON)
        fy_str_puts(out, "\n  ],\n  ");
    if (o->format == FY_BENCH_JSONL)
        fy_str_putc(out, '{');
    if (o->format == FY_BENCH_JSON || o->format == FY_BENCH_JSONL)
        fy_str_printf(out, "\"first_ts\": %.6f, \"last_ts\": %.6f, \"first_to_last\": %.4f}\n",
                      first_ts, last_ts, ratio);
}
