/* `ferry doctor --qnn`: the checks of a QNN library on this machine, from the answers that
 * workspace/npu/qnn_doctor.c gathers. No path of the machine and no text of the library but its
 * build number is shown, so that a report can be passed on. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "workspace/npu/qnn_doctor.h"
#include "workspace/npu/soc_table.h"
#include "workspace/phone/doctor.h"

/* Two graphs with the same weights take about as much as one where a library shares them. */
#define SHARED_RATIO 1.3
/* What the reference library promises of integer arithmetic. */
#define STEPS_MAX     1.0
#define STEPS_MEAN    0.05
#define FLOAT_MEAN    0.002
#define MAX_LISTED    12
#define CASE_ELEMENTS 100000

static double times(uint64_t one_bytes, uint64_t two_bytes)
{
    return one_bytes > 0 ? (double)two_bytes / (double)one_bytes : 0;
}

static void check_library(fy_doctor_report *r, const fy_qnn_report *q)
{
    char found[256];
    snprintf(found, sizeof found, "SDK 2.%u (%s), core interface %u.%u", q->id.api.minor,
             q->id.build_id[0] != '\0' ? q->id.build_id : "no build number", q->id.core.major,
             q->id.core.minor);
    fy_doctor_add(r, "QNN library", FY_CHECK_OK, FY_OK, found, "");
}

static void check_part(fy_doctor_report *r, const char *name, const fy_err *e, const char *found)
{
    if (e->code == FY_OK)
        fy_doctor_add(r, name, FY_CHECK_OK, FY_OK, found, "");
    else
        fy_doctor_add(r, name, FY_CHECK_FAIL, FY_EDEVICE, e->msg,
                      "nothing can be compiled with this library");
}

static void check_binary(fy_doctor_report *r, const fy_qnn_report *q)
{
    char found[256];
    const double ratio = times(q->b.one_bytes, q->b.two_bytes);
    snprintf(
        found, sizeof found,
        "a graph is compiled, read back and computes the same; two graphs with the same weights "
        "take %.2f times one; metadata of version %u agrees",
        ratio, q->b.info_version);
    check_part(r, "binaries", &q->binary, found);
    if (q->binary.code != FY_OK)
        return;
    if (!q->b.same)
        fy_doctor_add(r, "binaries", FY_CHECK_FAIL, FY_EDEVICE,
                      "a graph that was read back computes something else", "");
    if (ratio > SHARED_RATIO)
        fy_doctor_add(r, "shared weights", FY_CHECK_WARNING, FY_OK,
                      "two graphs with the same weights take as much as both",
                      "give each batch size a chunk of its own, or use a newer SDK");
}

/* Recipes that compile, with the worst ratio of sharing; those that do not, with the first refusal.
 */
static void check_layers(fy_doctor_report *r, const fy_qnn_report *q)
{
    fy_str good = {0}, bad = {0};
    double worst = 0;
    for (size_t i = 0; i < q->n_layers; i++) {
        const fy_qnn_layer_answer *a = &q->layer[i];
        const double ratio = times(a->one_bytes, a->two_bytes);
        worst = a->code == 0 && ratio > worst ? ratio : worst;
        if (a->code == 0)
            fy_str_printf(&good, "%s%s", good.len > 0 ? ", " : "", fy_qnn_layer_recipes[i]);
        else
            fy_str_printf(&bad, "%s%s (%s: %u)", bad.len > 0 ? ", " : "", fy_qnn_layer_recipes[i],
                          a->step, a->code);
    }
    if (q->layers.code != FY_OK)
        fy_doctor_add(r, "decoder layer", FY_CHECK_FAIL, FY_EDEVICE, q->layers.msg, "");
    if (good.len > 0) {
        fy_str text = {0};
        fy_str_printf(&text, "compiles and runs in %s; two batch sizes take %.2f times one at most",
                      fy_str_z(&good), worst);
        fy_doctor_add(r, "decoder layer", FY_CHECK_OK, FY_OK, fy_str_z(&text), "");
        r->oom |= text.oom;
        fy_str_release(&text);
    }
    if (bad.len > 0)
        fy_doctor_add(r, "decoder layer", FY_CHECK_WARNING, FY_OK, fy_str_z(&bad),
                      "use another recipe");
    r->oom |= good.oom || bad.oom;
    fy_str_release(&good);
    fy_str_release(&bad);
}

/* Cases for which `is` holds: a check with their number and the first names. */
typedef bool predicate(const fy_qnn_case_report *c, const fy_qnn_report *q);

static bool is_accepted(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    (void)q;
    return fy_qnn_codes_accept(c->code);
}

static bool is_allowed_only_here(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    return q->has_reference && fy_qnn_codes_accept(c->reference) && !fy_qnn_codes_accept(c->code);
}

static bool is_refused_only_here(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    return q->has_reference && !fy_qnn_codes_accept(c->reference) && fy_qnn_codes_accept(c->code);
}

static bool is_fatal(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    (void)q;
    return c->crashed || c->hung;
}

static bool is_compared(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    (void)q;
    return c->n > 0 && fy_qnn_codes_accept(c->code);
}

static bool is_off(const fy_qnn_case_report *c, const fy_qnn_report *q)
{
    if (!is_compared(c, q))
        return false;
    return c->fixed ? !(c->max <= STEPS_MAX && c->mean <= STEPS_MEAN) : !(c->mean <= FLOAT_MEAN);
}

static size_t count(const fy_qnn_report *q, predicate *is, bool with_size, fy_str *names)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        const fy_qnn_case_report *c = &q->c[i];
        if (!is(c, q) || n++ >= MAX_LISTED || names == NULL)
            continue;
        fy_str_printf(names, "%s%s", n > 1 ? "; " : "", c->name);
        if (with_size)
            fy_str_printf(names, c->fixed ? " (%.0f steps, mean %.2f)" : " (%.1e, mean %.1e)",
                          c->max, c->mean);
    }
    if (names != NULL && n > MAX_LISTED)
        fy_str_printf(names, " and %zu more", n - MAX_LISTED);
    return n;
}

static void check_cases(fy_doctor_report *r, const fy_qnn_report *q)
{
    static const struct {
        predicate *is;
        const char *name, *found, *remedy;
        fy_verdict verdict;
        bool with_size;
    } rows[] = {
        {is_fatal, "crashes", "cases that crash or hang the library",
         "keep to recipes without them, or use another SDK", FY_CHECK_FAIL, false},
        {is_allowed_only_here, "operations",
         "cases that ferry's rules allow and the library refuses",
         "report them: compile would find out late", FY_CHECK_FAIL, false},
        {is_refused_only_here, "operations",
         "cases that ferry's rules refuse and the library takes", "", FY_CHECK_NOTE, false},
        {is_off, "arithmetic", "cases that differ from the reference library by more than rounding",
         "", FY_CHECK_NOTE, true},
    };
    char found[160];
    snprintf(found, sizeof found, "%zu of %zu cases accepted", count(q, is_accepted, false, NULL),
             q->n);
    fy_doctor_add(r, "operations", FY_CHECK_OK, FY_OK, found, "");
    if (!q->has_reference) {
        fy_doctor_add(r, "arithmetic", FY_CHECK_NOTE, FY_OK, q->reference.msg,
                      "without it nothing tells what the results should be");
        return;
    }
    snprintf(found, sizeof found, "%zu cases executed by the library and by the reference",
             count(q, is_compared, false, NULL));
    fy_doctor_add(r, "arithmetic", FY_CHECK_OK, FY_OK, found, "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_str names = {0}, text = {0};
        const size_t n = count(q, rows[i].is, rows[i].with_size, &names);
        fy_str_printf(&text, "%zu %s: %s", n, rows[i].found, fy_str_z(&names));
        if (n > 0)
            fy_doctor_add(r, rows[i].name, rows[i].verdict, FY_EDEVICE, fy_str_z(&text),
                          rows[i].remedy);
        r->oom |= names.oom || text.oom;
        fy_str_release(&names);
        fy_str_release(&text);
    }
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void put_codes(fy_str *out, const char *name, const uint32_t code[FY_QNN_STEPS])
{
    fy_str_printf(out, ", \"%s\": [", name);
    for (size_t i = 0; i < FY_QNN_STEPS; i++) {
        fy_str_puts(out, i > 0 ? ", " : "");
        if (code[i] == FY_QNN_UNTRIED)
            fy_str_puts(out, "null");
        else
            fy_str_printf(out, "%u", code[i]);
    }
    fy_str_putc(out, ']');
}

static void put_report(const fy_qnn_report *q, fy_str *out)
{
    fy_str_puts(out, "\"build_id\": ");
    fy_json_put_string(out, fy_span_of(q->id.build_id));
    fy_str_printf(out,
                  ", \"core\": \"%u.%u.%u\", \"backend\": \"%u.%u.%u\", \"binary_bytes\": %llu, "
                  "\"shared_binary_bytes\": %llu, \"metadata_version\": %u, \"layers\": [",
                  q->id.core.major, q->id.core.minor, q->id.core.patch, q->id.api.major,
                  q->id.api.minor, q->id.api.patch, (unsigned long long)q->b.one_bytes,
                  (unsigned long long)q->b.two_bytes, q->b.info_version);
    for (size_t i = 0; i < q->n_layers; i++)
        fy_str_printf(
            out,
            "%s\n  {\"recipe\": \"%s\", \"code\": %u, \"nodes\": %u, \"binary_bytes\": %llu, "
            "\"shared_binary_bytes\": %llu}",
            i > 0 ? "," : "", fy_qnn_layer_recipes[i], q->layer[i].code, q->layer[i].n_nodes,
            (unsigned long long)q->layer[i].one_bytes, (unsigned long long)q->layer[i].two_bytes);
    fy_str_puts(out, "], \"cases\": [");
    for (size_t i = 0; i < q->n; i++) {
        const fy_qnn_case_report *c = &q->c[i];
        fy_str_puts(out, i > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ");
        fy_json_put_string(out, fy_span_of(c->name));
        put_codes(out, "codes", c->code);
        put_codes(out, "reference_codes", c->reference);
        fy_str_printf(out, ", \"crashed\": %s, \"hung\": %s, \"elements\": %llu",
                      c->crashed ? "true" : "false", c->hung ? "true" : "false",
                      (unsigned long long)c->n);
        if (c->n > 0)
            fy_str_printf(out, ", \"unit\": \"%s\", \"max\": %.6g, \"mean\": %.6g",
                          c->fixed ? "step" : "part of the largest", c->max, c->mean);
        fy_str_putc(out, '}');
    }
    fy_str_putc(out, ']');
}

/* --- the whole -------------------------------------------------------------------------------- */

static int find_chip(const char *soc, fy_qnn_chip *out, fy_err *e)
{
    fy_soc_table *t = fy_soc_table_open(NULL, e);
    const fy_soc *s = t != NULL ? fy_soc_find(t, soc, e) : NULL;
    if (s != NULL)
        *out = (fy_qnn_chip){s->soc_id, s->htp_arch, s->vtcm_mb > 0 ? s->vtcm_mb : 8};
    fy_soc_table_free(t);
    if (s != NULL && out->soc == 0)
        return fy_fail(e, FY_EARG, "%s: its number in QNN is not known; choose another --soc", soc);
    return s != NULL ? 0 : -1;
}

static int check_replay(const fy_qnn_doctor_params *p, const char *path, fy_doctor_report *out,
                        fy_str *facts, fy_err *e)
{
    fy_qnn_replayed r = {0};
    fy_qnn_end end;
    char found[320];
    if (fy_qnn_doctor_replay(p, path, &r, &end, e) != 0)
        return -1;
    if (end != FY_QNN_DONE)
        snprintf(found, sizeof found, "the library %s", end == FY_QNN_HUNG ? "hung" : "crashed");
    else if (r.line > 0)
        snprintf(found, sizeof found, "line %llu, %s: %s", (unsigned long long)r.line, r.call,
                 r.difference);
    else
        snprintf(
            found, sizeof found,
            "%llu calls answered as recorded; the results of %llu executions are the same (%llu "
            "elements but for one step)",
            (unsigned long long)r.n_calls, (unsigned long long)r.n_executed,
            (unsigned long long)r.n_rounded);
    const bool ok = end == FY_QNN_DONE && r.line == 0;
    fy_doctor_add(out, "record", ok ? FY_CHECK_OK : FY_CHECK_FAIL, FY_EDEVICE, found, "");
    fy_str_printf(facts, "\"calls\": %llu, \"executions_compared\": %llu, \"line\": %llu",
                  (unsigned long long)r.n_calls, (unsigned long long)r.n_executed,
                  (unsigned long long)r.line);
    return 0;
}

static int check_all(const fy_qnn_doctor_params *p, fy_doctor_report *out, fy_str *facts, fy_err *e)
{
    fy_qnn_report q;
    const int rc = fy_qnn_doctor(p, &q, e);
    if (rc == 0) {
        check_library(out, &q);
        check_part(out, "objects", &q.objects,
                   "a device and a context, made and freed three times");
        if (q.objects.code == FY_OK) {
            check_binary(out, &q);
            check_layers(out, &q);
            check_cases(out, &q);
        }
        put_report(&q, facts);
    }
    fy_qnn_report_release(&q);
    return rc;
}

int fy_doctor_qnn(const fy_doctor_qnn_params *d, fy_doctor_report *out, fy_str *facts, fy_err *e)
{
    fy_qnn_doctor_params p = {
        .sdk = d->sdk, .n_elements = CASE_ELEMENTS, .record = {d->record, d->record_data}};
    *out = (fy_doctor_report){0};
    snprintf(out->serial, sizeof out->serial, "QNN library");
    int rc = find_chip(d->soc, &p.chip, e);
    if (rc == 0)
        rc = d->replay != NULL ? check_replay(&p, d->replay, out, facts, e)
                               : check_all(&p, out, facts, e);
    if (rc == 0 && (out->oom || facts->oom))
        rc = fy_nomem(e);
    if (rc != 0)
        fy_doctor_release(out);
    return rc;
}
