/* The verb `doctor`: asks the phone for its facts, tries ferry's own program there, and prints the
 * checks of doctor_checks.c as a table or as JSON. */
#include "workspace/phone/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_lib.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json_rows.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/pack/workspace.h"
#include "workspace/phone/phone_workspace.h"

const char *const fy_verdict_names[4] = {"ok", "note", "warning", "fail"};

/* --- the report ------------------------------------------------------------------------------- */

void fy_doctor_add(fy_doctor_report *r, const char *name, fy_verdict v, fy_code code,
                   const char *found, const char *remedy)
{
    fy_check *grown = fy_grow(r->check, r->n, &r->cap, sizeof *grown);
    fy_check c = {strdup(name), strdup(found), strdup(remedy), v, code};
    r->check = grown != NULL ? grown : r->check;
    if (grown == NULL || c.name == NULL || c.found == NULL || c.remedy == NULL) {
        free(c.name);
        free(c.found);
        free(c.remedy);
        r->oom = true;
        return;
    }
    r->check[r->n++] = c;
}

void fy_doctor_release(fy_doctor_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->check[i].name);
        free(r->check[i].found);
        free(r->check[i].remedy);
    }
    free(r->check);
    fy_need_release(&r->need);
    *r = (fy_doctor_report){0};
}

fy_code fy_doctor_code(const fy_doctor_report *r)
{
    fy_code worst = FY_OK;
    for (size_t i = 0; i < r->n; i++) {
        if (r->check[i].verdict == FY_CHECK_FAIL && worst != FY_EDEVICE)
            worst = r->check[i].code;
    }
    return worst;
}

size_t fy_doctor_count(const fy_doctor_report *r, fy_verdict v)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->check[i].verdict == v;
    return n;
}

int fy_doctor_quirks(fy_doctor_report *r, fy_err *e)
{
    fy_quirks q;
    int rc = fy_quirks_read(&q, e);
    for (size_t i = 0; rc == 0 && i < q.n; i++) {
        const fy_quirk *row = &q.row[i];
        char name[2000], found[2000], remedy[2000];
        if (!fy_quirk_fits(row, &r->facts, &r->need))
            continue;
        /* what only some workspaces meet is a note as long as there is none */
        bool open = r->need.dir == NULL && (row->npu || row->parameters_above > 0);
        fy_doctor_add(r, fy_quote(name, sizeof name, fy_span_of(row->id)),
                      open ? FY_CHECK_NOTE : row->verdict, FY_EDEVICE,
                      fy_quote(found, sizeof found, fy_span_of(row->found)),
                      fy_quote(remedy, sizeof remedy, fy_span_of(row->remedy)));
    }
    fy_quirks_release(&q);
    return rc;
}

/* --- asking the phone ------------------------------------------------------------------------- */

static int ask_facts(const fy_adb *a, fy_facts *out, fy_err *e)
{
    fy_str text = {0};
    int status, rc = fy_adb_shell(a, fy_facts_command, &text, NULL, &status, e);
    if (rc == 0) {
        fy_facts_parse(fy_str_z(&text), text.len, out);
        rc = fy_facts_chip(out, e);
    }
    fy_str_release(&text);
    return rc;
}

int fy_doctor_chip(const char *serial, char soc[FY_QUOTE_BYTES], uint64_t *memory, fy_err *e)
{
    fy_facts f;
    fy_adb *a = fy_adb_open(serial != NULL && *serial != '\0' ? serial : NULL, e);
    int rc = a != NULL ? ask_facts(a, &f, e) : -1;
    if (rc == 0 && f.soc[0] == '\0')
        rc =
            fy_fail(e, FY_EDEVICE,
                    "the phone does not name its chip (ro.soc.model is empty); give it with --soc");
    if (rc == 0) {
        snprintf(soc, FY_QUOTE_BYTES, "%.*s", FY_QUOTE_BYTES - 1, f.soc);
        *memory = f.mem_total > 0 ? (uint64_t)f.mem_total : 0;
    }
    fy_adb_close(a);
    return rc;
}

/* The version in what `ferry --version --json` says there. */
static const fy_json_row version_rows[] = {
    FY_JSON_WITHIN(CHARS, "version", fy_probe, version, true, 0, FY_FACT_BYTES - 1)};
static const fy_json_table version_table = {FY_JSON_ROWS(version_rows)};

static int run_probe(const fy_adb *a, const char *exe, fy_probe *p, fy_err *e)
{
    fy_str cmd = {0}, out = {0}, err = {0};
    char *temp = fy_phone_temp_name(e);
    char *to = temp != NULL ? fy_path_format(e, "%s/ferry", temp) : NULL;
    int rc = to != NULL ? fy_phone_send(a, exe, to, 0755, e) : -1;
    if (rc == 0) {
        fy_str_printf(&cmd, "%s --version --json", to);
        rc = fy_adb_run(a, &cmd, &out, &err, &p->status, e);
    }
    if (rc == 0) {
        fy_span said = {fy_str_z(&out), out.len};
        p->tried = true;
        p->ran = p->status == 0 && fy_json_document_of(said, &version_table, p, NULL) == 0;
        const char *text = fy_str_z(err.len > 0 ? &err : &out); /* its first line */
        snprintf(p->text, sizeof p->text, "%.*s", (int)strcspn(text, "\r\n"), text);
    }
    if (temp != NULL)
        fy_phone_temp_remove(a, temp);
    free(temp);
    free(to);
    fy_str_release(&out);
    fy_str_release(&err);
    return rc;
}

/* The workspace's own program, else the one of this installation. */
static int probe(const fy_adb *a, const fy_doctor_params *p, fy_probe *out, fy_err *e)
{
    fy_err why = {0};
    char *exe = p->dir != NULL ? fy_path_join(p->dir, FY_BUNDLE_EXE) : NULL;
    if (exe == NULL || !fy_file_exists(exe)) {
        free(exe);
        exe = fy_device_exe(getenv("FERRY_EXE_PATH"), p->self, &why);
    }
    if (exe == NULL) {
        memcpy(out->text, why.msg, sizeof out->text - 1);
        return 0;
    }
    int rc = run_probe(a, exe, out, e);
    if (rc != 0 && e != NULL && e->code == FY_ENOSPACE) {
        *e = (fy_err){0}; /* the check of the storage reports it */
        memcpy(out->text, "there is no space for it", sizeof "there is no space for it");
        rc = 0;
    }
    free(exe);
    return rc;
}

int fy_doctor(const fy_doctor_params *p, fy_doctor_report *out, fy_err *e)
{
    *out = (fy_doctor_report){0};
    if (p->dir != NULL && fy_need_of(p->dir, p->n_ctx, p->type_k, p->type_v, &out->need, e) != 0)
        return -1;
    fy_adb *a = fy_adb_open(p->serial, e);
    int rc = a != NULL ? ask_facts(a, &out->facts, e) : -1;
    if (rc == 0) {
        snprintf(out->serial, sizeof out->serial, "%s", fy_adb_serial(a));
        if (out->need.dir != NULL)
            rc = fy_phone_version_of(a, out->need.name, out->there, e);
    }
    if (rc == 0)
        rc = probe(a, p, &out->probe, e);
    fy_adb_close(a);
    if (rc == 0) {
        fy_doctor_checks(out);
        rc = fy_doctor_quirks(out, e);
    }
    if (rc == 0 && out->oom)
        rc = fy_nomem(e);
    if (rc != 0)
        fy_doctor_release(out);
    return rc;
}

/* --- options ---------------------------------------------------------------------------------- */

typedef struct {
    const char *serial, *dir, *sdk, *soc, *record, *replay;
    int64_t n_ctx;
    int type_k, type_v;
    bool json, quirks, qnn, record_data, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    FY_LINE_STR_AS("Phone", "work-folder", "d", "DIR", dir,
                   "A workspace: does the phone have memory, storage and the NPU for it?"),
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
    FY_LINE_FLAG(
        "NPU library", "qnn", qnn,
        "Look at a QNN library on this machine instead of a phone: what it accepts and what it "
        "computes (docs/npu-real.md)."),
    FY_ANY_STR("NPU library", "sdk", "DIR", sdk,
               "Where the library lies: an SDK, the unpacked Python package onnxruntime_qnn, or "
               "'reference', ferry's own."),
    {.group = "NPU library",
     .name = "soc",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .def = "SM8650",
     .offset = offsetof(options, soc),
     .help = "The chip to compile for."},
    FY_LINE_STR("NPU library", "qnn-record", "FILE", record,
                "Write the calls of the library and its answers to FILE, a line of JSON each."),
    FY_LINE_FLAG("NPU library", "qnn-record-data", record_data,
                 "With it, keep the bytes of tensors and binaries in FILE.data."),
    FY_LINE_STR("NPU library", "qnn-replay", "FILE", replay,
                "Make the calls of a record again, and print the first answer that differs."),
    FY_ANY_FLAG("Output", "json", json, "Write one JSON object: the checks and the facts."),
    FY_LINE_FLAG("Output", "list-quirks", quirks,
                 "Print the table of known quirks of phones and chips, and ask no phone."),
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

/* With colours the whole is written as drawn, so what a phone said is escaped here. */
static void put_wrapped(const char *text, fy_str *out)
{
    fy_str shown = {0};
    if (fy_colour(1))
        fy_str_put_shown(&shown, fy_span_of(text));
    else
        fy_str_puts(&shown, text);
    fy_str_wrap(out, fy_str_z(&shown), TEXT_COLUMN, WIDTH);
    out->oom |= shown.oom;
    fy_str_release(&shown);
}

static void put_check(const fy_check *c, fy_str *out)
{
    const char *colour = colour_of(c->verdict);
    fy_str_printf(out, "%s%-*s%s%-*s ", colour, NAME_COLUMN, fy_verdict_names[c->verdict],
                  *colour != '\0' ? "\033[0m" : "", TEXT_COLUMN - NAME_COLUMN - 1, c->name);
    put_wrapped(c->found, out);
    if (c->remedy[0] != '\0') {
        fy_str_printf(out, "%*s", TEXT_COLUMN, "");
        put_wrapped(c->remedy, out);
    }
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void put_member(fy_str *out, const char *name, const char *text)
{
    fy_str_printf(out, ", \"%s\": ", name);
    fy_json_put_string(out, fy_span_of(text));
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
    const char *comma = "";
    for (const fy_fact_row *r = fy_fact_rows; r->name != NULL || r->json != NULL; r++) {
        const void *at = (const char *)f + r->offset;
        const int64_t *number = at;
        if (r->json == NULL)
            continue;
        fy_str_printf(out, "%s\"%s\": ", comma, r->json);
        comma = ", ";
        if (r->kind == FY_FACT_TEXT)
            fy_json_put_string(out, fy_span_of(at));
        else if (r->kind == FY_FACT_CELSIUS)
            put_celsius(out, *(const double *)at);
        else if (*number < 0)
            fy_str_puts(out, "null");
        else
            fy_str_printf(out, "%lld", (long long)*number);
    }
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

static void put_json(const fy_doctor_report *r, const char *qnn, fy_str *out)
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
    fy_str_puts(out, qnn != NULL ? "],\n \"qnn\": {" : "],\n \"facts\": {");
    if (qnn != NULL)
        fy_str_puts(out, qnn);
    else
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
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, fy_doctor_code(r), "%s: %zu of %zu checks failed, first %s: %s",
                   fy_quote(shown, sizeof shown, fy_span_of(r->serial)), failed, r->n, first->name,
                   first->found);
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
    const fy_doctor_qnn_params q = {.sdk = o->sdk,
                                    .soc = o->soc,
                                    .record = o->record,
                                    .record_data = o->record_data,
                                    .replay = o->replay};
    const bool npu = o->qnn || o->replay != NULL;
    fy_doctor_report r;
    fy_str out = {0}, qnn = {0};
    if ((npu ? fy_doctor_qnn(&q, &r, &qnn, e) : fy_doctor(&p, &r, e)) != 0) {
        fy_str_release(&qnn);
        return -1;
    }
    if (o->json)
        put_json(&r, npu ? fy_str_z(&qnn) : NULL, &out);
    fy_str_release(&qnn);
    for (size_t i = 0; !o->json && i < r.n; i++)
        put_check(&r.check[i], &out);
    const bool drawn = !o->json && fy_colour(1);
    int rc =
        out.oom ? fy_nomem(e) : (drawn ? fy_stdout_drawn : fy_stdout)(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    if (rc == 0)
        rc = judge(&r, e);
    fy_doctor_release(&r);
    return rc;
}

const fy_verb fy_verb_doctor = {
    .name = "doctor",
    .summary = "look at a phone or an NPU library: what will fail, and what to do",
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
                "ferry doctor --list-quirks\n"
                "ferry doctor --qnn --sdk DIR --json\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT FY_QNN_ENVIRONMENT
    "XDG_CONFIG_HOME Where ferry/quirks.json and ferry/soc.d are "
    "looked for; ~/.config when not set.\n",
    .run = run,
};
