#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/verb.h"
#include "workspace/phone/doctor.h"
#include "workspace/phone/quirks.h"

typedef struct {
    const char *serial, *dir;
    int64_t n_ctx;
    int type_k, type_v;
    bool json, quirks, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    {.group = "Phone",
     .name = "work-folder",
     .alias = "d",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, dir),
     .line_only = true,
     .help = "A workspace: does the phone have memory, storage and the NPU for it?"},
    {.group = "Machine",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_ctx),
     .def = "0",
     .max = INT32_MAX,
     .help = "Positions of the context that is to fit; 0: what run and chat take without -c."},
    FY_ROW_CACHE_K_OF(type_k, "f16"),
    FY_ROW_CACHE_V_OF(type_v, "f16"),
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object: the checks and the facts."},
    {.group = "Output",
     .name = "list-quirks",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, quirks),
     .line_only = true,
     .help = "Print the table of known quirks of phones and chips, and ask no phone."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* --- as a table ------------------------------------------------------------------------------- */

enum { NAME_COLUMN = 9, TEXT_COLUMN = 30, WIDTH = 100 };

static const char *colour_of(fy_verdict v)
{
    static const char *const colours[] = {"\033[32m", "", "\033[33m", "\033[31m"};
    return fy_colour(1) ? colours[v] : "";
}

static void put_check(const fy_check *c, fy_str *out)
{
    const char *colour = colour_of(c->verdict);
    fy_str_printf(out, "%s%-*s%s%-*s ", colour, NAME_COLUMN, fy_verdict_names[c->verdict],
                  *colour != '\0' ? "\033[0m" : "", TEXT_COLUMN - NAME_COLUMN - 1, c->name);
    fy_str_wrap(out, c->found, TEXT_COLUMN, WIDTH);
    if (c->remedy[0] != '\0') {
        fy_str_printf(out, "%*s", TEXT_COLUMN, "");
        fy_str_wrap(out, c->remedy, TEXT_COLUMN, WIDTH);
    }
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void put_member(fy_str *out, const char *name, const char *text)
{
    fy_str_printf(out, ", \"%s\": ", name);
    fy_json_put_string(out, fy_span_of(text));
}

static void put_number(fy_str *out, const char *name, int64_t n)
{
    if (n < 0)
        fy_str_printf(out, ", \"%s\": null", name);
    else
        fy_str_printf(out, ", \"%s\": %lld", name, (long long)n);
}

static void put_celsius(fy_str *out, double c)
{
    if (isnan(c))
        fy_str_puts(out, "null");
    else
        fy_str_printf(out, "%.1f", c);
}

static void put_facts(const fy_facts *f, fy_str *out)
{
    fy_str_puts(out, "\"manufacturer\": ");
    fy_json_put_string(out, fy_span_of(f->manufacturer));
    put_member(out, "model", f->model);
    put_member(out, "soc", f->soc);
    put_member(out, "platform", f->platform);
    put_member(out, "android", f->android);
    put_number(out, "sdk", f->sdk);
    put_member(out, "abi", f->abi);
    put_member(out, "cpu_features", f->features);
    put_number(out, "cpus", f->n_cpus);
    put_number(out, "page_bytes", f->page_bytes);
    put_number(out, "memory_total_bytes", f->mem_total);
    put_number(out, "memory_available_bytes", f->mem_available);
    put_number(out, "storage_free_bytes", f->storage_free);
    put_number(out, "battery_percent", f->battery_percent);
    put_member(out, "battery_status", f->battery_status);
    fy_str_puts(out, ", \"battery_celsius\": ");
    put_celsius(out, f->battery_c);
    put_number(out, "thermal_status", f->thermal_status);
    fy_str_puts(out, ", \"zones\": [");
    for (size_t i = 0; i < f->n_zones; i++) {
        fy_str_puts(out, i > 0 ? ", {\"type\": " : "{\"type\": ");
        fy_json_put_string(out, fy_span_of(f->zone[i].type));
        fy_str_puts(out, ", \"celsius\": ");
        put_celsius(out, f->zone[i].c);
        fy_str_putc(out, '}');
    }
    fy_str_puts(out, "], \"npu_libraries\": [");
    for (size_t i = 0; i < f->n_libs; i++) {
        fy_str_puts(out, i > 0 ? ", " : "");
        fy_json_put_string(out, fy_span_of(f->lib[i]));
    }
    fy_str_putc(out, ']');
}

static void put_json(const fy_doctor_report *r, fy_str *out)
{
    fy_str_printf(out, "{\"ok\": %s", fy_doctor_code(r) == FY_OK ? "true" : "false");
    put_member(out, "serial", r->serial);
    fy_str_puts(out, ", \"checks\": [");
    for (size_t i = 0; i < r->n; i++) {
        const fy_check *c = &r->check[i];
        fy_str_puts(out, i > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ");
        fy_json_put_string(out, fy_span_of(c->name));
        put_member(out, "verdict", fy_verdict_names[c->verdict]);
        put_member(out, "found", c->found);
        put_member(out, "remedy", c->remedy);
        fy_str_putc(out, '}');
    }
    fy_str_puts(out, "],\n \"facts\": {");
    put_facts(&r->facts, out);
    fy_str_puts(out, "}}\n");
}

/* --- the table of quirks ---------------------------------------------------------------------- */

static void put_patterns(fy_str *out, const char *name, const fy_quirk_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        fy_str_printf(out, "%s%s%s", i == 0 ? " " : ",", i == 0 ? name : "", l->pattern[i]);
}

static int list_quirks(fy_err *e)
{
    fy_quirks q;
    fy_str out = {0};
    int rc = fy_quirks_read(&q, e);
    for (size_t i = 0; rc == 0 && i < q.n; i++) {
        const fy_quirk *r = &q.row[i];
        fy_str_printf(&out, "%s: %s", r->id, fy_verdict_names[r->verdict]);
        put_patterns(&out, "manufacturer=", &r->manufacturer);
        put_patterns(&out, "model=", &r->model);
        put_patterns(&out, "soc=", &r->soc);
        put_patterns(&out, "platform=", &r->platform);
        put_patterns(&out, "package=", &r->package);
        if (r->android_from >= 0)
            fy_str_printf(&out, " android>=%lld", (long long)r->android_from);
        if (r->android_below >= 0)
            fy_str_printf(&out, " android<%lld", (long long)r->android_below);
        if (r->htp_below >= 0)
            fy_str_printf(&out, " htp<V%lld", (long long)r->htp_below);
        if (r->npu)
            fy_str_puts(&out, " with the NPU");
        if (r->parameters_above > 0)
            fy_str_printf(&out, " parameters>%.3g", r->parameters_above);
        fy_str_putc(&out, '\n');
        for (size_t k = 0; k < 2; k++) {
            const char *text = k == 0 ? r->found : r->remedy;
            if (*text == '\0')
                continue;
            fy_str_puts(&out, "    ");
            fy_str_wrap(&out, text, 4, WIDTH);
        }
        if (r->source[0] != '\0')
            fy_str_printf(&out, "    (%s)\n", r->source);
    }
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    fy_quirks_release(&q);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int judge(const fy_doctor_report *r, fy_err *e)
{
    size_t failed = fy_doctor_count(r, FY_CHECK_FAIL);
    const fy_check *first = NULL;
    for (size_t i = 0; first == NULL && i < r->n; i++) {
        if (r->check[i].verdict == FY_CHECK_FAIL)
            first = &r->check[i];
    }
    if (first == NULL)
        return 0;
    return fy_fail(e, fy_doctor_code(r), "%s: %zu of %zu checks failed, first %s: %s", r->serial,
                   failed, r->n, first->name, first->found);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    (void)args;
    if (o->quirks)
        return list_quirks(e);
    fy_doctor_params p = {.serial = o->serial,
                          .dir = o->dir,
                          .self = "/proc/self/exe",
                          .n_ctx = (uint32_t)o->n_ctx,
                          .type_k = fy_cache_types[o->type_k],
                          .type_v = fy_cache_types[o->type_v]};
    fy_doctor_report r;
    if (fy_doctor(&p, &r, e) != 0)
        return -1;
    fy_str out = {0};
    if (o->json)
        put_json(&r, &out);
    for (size_t i = 0; !o->json && i < r.n; i++)
        put_check(&r.check[i], &out);
    int rc = out.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    if (rc == 0)
        rc = judge(&r, e);
    fy_doctor_release(&r);
    return rc;
}

const fy_verb fy_verb_doctor = {
    .name = "doctor",
    .summary = "look at a phone: what will fail there, and what to do",
    .synopsis = "",
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Asks the phone what it is (model, chip, Android, CPU features), what it has (memory, "
        "storage, battery, temperature, NPU libraries), and starts ferry's device program there. "
        "With a workspace (-d) all of it is held against what that takes. Nothing stays on the "
        "phone.\n\n"
        "Each line is ok, a note, a warning, or a failure, with what to do about it. Known quirks "
        "of phones and chips come from a table, to which ~/.config/ferry/quirks.json adds "
        "(docs/doctor.md).\n\n"
        "The exit status is 5 when something about the phone fails, 3 when the workspace does not "
        "fit, else 0.",
    .examples = "ferry doctor\n"
                "ferry doctor -d workspace\n"
                "ferry doctor -s R5CT60XXXXX --json\n"
                "ferry doctor --list-quirks\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT "XDG_CONFIG_HOME Where ferry/quirks.json and ferry/soc.d are "
                                      "looked for; ~/.config when not set.\n",
    .run = run,
};
