/* The checks of doctor: each looks at the report's facts and adds one line, or several; then the
 * table of known quirks is matched. Thresholds that are not Android's own are here, with their
 * reason. */
#include "workspace/phone/doctor.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_rows.h"
#include "base/opts.h"
#include "base/path.h"
#include "base/str.h"
#include "workspace/data/data_files.h"

enum {
    SDK_SHELL_V2 = 24, /* Android 7: the first whose adb gives exit statuses */
    SDK_TRIED = 29,    /* Android 10: older phones have 32-bit vendors and old kernels */
    HOT_CPU_C = 85,    /* chips slow down from about 90 on */
    HOT_SKIN_C = 45,   /* phones slow down from 43 to 48 on to protect the hand */
    LOW_BATTERY = 15,  /* percent; there phones begin to save power */
};
#define OVERHEAD_BYTES (UINT64_C(64) << 20) /* program, vocabulary, stacks */
#define SPARE_STORAGE  (INT64_C(64) << 20)
#define GB             1e-9

/* A failure is one of the phone, or of a workspace that does not fit. */
typedef enum { OK, NOTE, WARNING, BROKEN, TOO_LARGE } outcome;

/* A line made of printf's parts; texts of the phone go through fy_quote first. */
__attribute__((format(printf, 5, 6))) static void
add(fy_doctor_report *r, const char *name, outcome o, const char *remedy, const char *fmt, ...)
{
    static const fy_verdict verdicts[] = {FY_CHECK_OK, FY_CHECK_NOTE, FY_CHECK_WARNING,
                                          FY_CHECK_FAIL, FY_CHECK_FAIL};
    char found[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(found, sizeof found, fmt, ap);
    va_end(ap);
    fy_doctor_add(r, name, verdicts[o],
                  o == BROKEN      ? FY_EDEVICE
                  : o == TOO_LARGE ? FY_EFIT
                                   : FY_OK,
                  found, remedy);
}

static const char *shown(char out[200], const char *text)
{
    return *text == '\0' ? "unknown" : fy_quote(out, 200, fy_span_of(text));
}

/* --- what it is ------------------------------------------------------------------------------- */

static void check_phone(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    char maker[200], model[200], soc[200], platform[200];
    add(r, "phone", OK, "", "%s %s, chip %s (%s)", shown(maker, f->manufacturer),
        shown(model, f->model), shown(soc, f->soc), shown(platform, f->platform));
}

static void check_android(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    char release[200];
    if (f->sdk < 0)
        add(r, "android", NOTE, "", "its version is not known");
    else if (f->sdk < SDK_SHELL_V2)
        add(r, "android", BROKEN, "update the phone: before Android 7 adb loses exit statuses",
            "Android %s (API %lld), too old", shown(release, f->android), (long long)f->sdk);
    else if (f->sdk < SDK_TRIED)
        add(r, "android", WARNING, "nobody has tried ferry before Android 10",
            "Android %s (API %lld)", shown(release, f->android), (long long)f->sdk);
    else
        add(r, "android", OK, "", "Android %s (API %lld)", shown(release, f->android),
            (long long)f->sdk);
}

static void check_abi(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    char abi[200];
    bool arm = strcmp(f->abi, "arm64-v8a") == 0 || fy_list_has(f->abis, ',', "arm64-v8a");
    if (f->abi[0] == '\0' && f->abis[0] == '\0')
        add(r, "abi", NOTE, "", "not known");
    else if (!arm)
        add(r, "abi", BROKEN,
            "ferry's device build is for arm64-v8a: take a phone with a 64-bit ARM system", "%s",
            shown(abi, f->abi));
    else if (strcmp(f->abi, "arm64-v8a") != 0)
        add(r, "abi", WARNING,
            "arm64 programs are translated here: speed says nothing about a phone",
            "%s, and arm64-v8a", shown(abi, f->abi));
    else
        add(r, "abi", OK, "", "arm64-v8a");
}

static void check_cpu(fy_doctor_report *r)
{
    static const struct {
        const char *flag, *name; /* as /proc/cpuinfo and as people call it */
    } rows[] = {{"asimddp", "dotprod"}, {"i8mm", "i8mm"}, {"asimdhp", "fp16"},
                {"bf16", "bf16"},       {"sve", "sve"},   {"sve2", "sve2"}};
    const fy_facts *f = &r->facts;
    fy_str s = {0};
    if (f->features[0] == '\0') {
        add(r, "cpu", NOTE, "", "/proc/cpuinfo names no features");
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (fy_list_has(f->features, ' ', rows[i].flag))
            fy_str_printf(&s, " %s", rows[i].name);
    }
    if (f->n_cpus > 0)
        fy_str_printf(&s, "; %lld CPUs", (long long)f->n_cpus);
    if (f->page_bytes > 4096)
        fy_str_printf(&s, "; pages of %lld KiB", (long long)f->page_bytes / 1024);
    bool fast = fy_list_has(f->features, ' ', "asimddp");
    add(r, "cpu", fast ? OK : WARNING,
        fast ? "" : "it works, several times slower than on a chip of 2018 or later", "neon%s%s",
        fast ? "" : " without dotprod", fy_str_z(&s));
    r->oom |= s.oom;
    fy_str_release(&s);
}

/* --- what it has room for --------------------------------------------------------------------- */

static void check_memory(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    const fy_need *n = &r->need;
    uint64_t own = n->kv + n->scratch + OVERHEAD_BYTES, all = own + n->weights;
    if (f->mem_available < 0 || f->mem_total < 0) {
        add(r, "memory", NOTE, "", "/proc/meminfo does not say what is free");
        return;
    }
    double total = (double)f->mem_total, free_now = (double)f->mem_available;
    char has[80], needs[240];
    snprintf(has, sizeof has, "%.1f of %.1f GB free", free_now * GB, total * GB);
    if (n->dir == NULL) {
        add(r, "memory", OK, "", "%s", has);
        return;
    }
    snprintf(needs, sizeof needs,
             "%s; the workspace takes %.2f GB (weights %.2f, cache of %u tokens %.2f, other %.2f)",
             has, (double)all * GB, (double)n->weights * GB, n->n_ctx, (double)n->kv * GB,
             (double)(n->scratch + OVERHEAD_BYTES) * GB);
    /* weights are pages of a file, which the system may drop; the rest has to stay */
    if ((double)own > free_now || (double)all > 0.9 * total)
        add(r, "memory", TOO_LARGE,
            "take a smaller model or type (--outtype q4_0), a smaller context (-c), or close what "
            "runs on the phone",
            "%s", needs);
    else if ((double)all > free_now)
        add(r, "memory", WARNING,
            "close other programs on the phone; a smaller context (-c) takes less", "%s", needs);
    else
        add(r, "memory", OK, "", "%s", needs);
}

static void check_storage(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    double free_now = (double)f->storage_free;
    bool there = r->need.dir != NULL && strcmp(r->there, r->need.sha256) == 0;
    if (f->storage_free < 0)
        add(r, "storage", NOTE, "", "what is free in /data/local/tmp is not known");
    else if (r->need.dir == NULL || there)
        add(r, "storage", OK, "", "%.1f GB free in /data/local/tmp%s", free_now * GB,
            there ? "; the workspace is there already" : "");
    else if ((double)r->need.bytes + (double)SPARE_STORAGE > free_now)
        add(r, "storage", TOO_LARGE,
            "make room on the phone; 'ferry push --prune' removes older versions",
            "%.2f GB free in /data/local/tmp, the workspace takes %.2f GB", free_now * GB,
            (double)r->need.bytes * GB);
    else
        add(r, "storage", OK, "", "%.1f GB free in /data/local/tmp, the workspace takes %.2f GB",
            free_now * GB, (double)r->need.bytes * GB);
}

static void check_execute(fy_doctor_report *r)
{
    const fy_probe *p = &r->probe;
    char text[200];
    if (!p->tried)
        add(r, "execute", NOTE,
            "give a workspace with -d, or build the device program: make TARGET=aarch64",
            "no program to try it with: %s", shown(text, p->text));
    else if (p->ran)
        add(r, "execute", OK, "", "ferry %s runs in /data/local/tmp", shown(text, p->version));
    else if (p->status == 126 && strcasestr(p->text, "permission denied") != NULL)
        add(r, "execute", BROKEN,
            "the phone does not let adb's user start programs there: a work profile or the maker's "
            "lock may forbid it; nothing can be done from here",
            "/data/local/tmp: %s", shown(text, p->text));
    else
        add(r, "execute", BROKEN,
            "'ferry explain' may know the text; a program for another machine does not start",
            "the program of the workspace does not run there (exit status %d): %s", p->status,
            shown(text, p->text));
}

/* --- its state -------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strncasecmp(text, words[i], strlen(words[i])) == 0)
            return true;
    }
    return false;
}

bool fy_facts_heat(const fy_facts *f, char *text, size_t size)
{
    static const char *const status[] = {"none",     "light",     "moderate", "severe",
                                         "critical", "emergency", "shutdown"};
    static const char *const chips[] = {"cpu", "soc", "gpu", "npu", "nsp", "apc", "mtktscpu"};
    static const char *const skins[] = {"skin", "shell", "quiet", "battery", "back", "front"};
    double chip = NAN, skin = NAN;
    for (size_t i = 0; i < f->n_zones; i++) {
        const char *type = f->zone[i].type;
        double *most = begins(type, chips, sizeof chips / sizeof chips[0])   ? &chip
                       : begins(type, skins, sizeof skins / sizeof skins[0]) ? &skin
                                                                             : NULL;
        if (most != NULL)
            *most = fmax(*most, f->zone[i].c); /* of a number and NAN the number */
    }
    size_t n = 0;
    text[0] = '\0';
    if (!isnan(chip))
        n += (size_t)snprintf(text + n, size - n, "chip %.0f °C", chip);
    if (!isnan(skin))
        n += (size_t)snprintf(text + n, size - n, "%sskin %.0f °C", n > 0 ? ", " : "", skin);
    if (f->thermal_status >= 0 && f->thermal_status <= 6)
        snprintf(text + n, size - n, "%sAndroid's status: %s", n > 0 ? ", " : "",
                 status[f->thermal_status]);
    return chip >= HOT_CPU_C || skin >= HOT_SKIN_C || f->thermal_status >= 2;
}

static void check_thermal(fy_doctor_report *r)
{
    char text[200];
    const bool hot = fy_facts_heat(&r->facts, text, sizeof text);
    if (text[0] == '\0')
        add(r, "thermal", NOTE, "", "the phone shows no temperature");
    else
        add(r, "thermal", hot ? WARNING : OK,
            hot ? "let it cool, out of its case and unplugged: a hot phone computes slower" : "",
            "%s", text);
}

static void check_battery(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    char status[200], heat[40] = "";
    bool charging = strncmp(f->battery_status, "Charging", 8) == 0 ||
                    strncmp(f->battery_status, "Full", 4) == 0;
    if (f->battery_percent < 0 || f->battery_percent > 100) {
        add(r, "battery", NOTE, "", "the phone does not show its battery");
        return;
    }
    if (!isnan(f->battery_c))
        snprintf(heat, sizeof heat, ", %.0f °C", f->battery_c);
    bool low = f->battery_percent <= LOW_BATTERY && !charging, hot = f->battery_c >= HOT_SKIN_C;
    add(r, "battery", low || hot ? WARNING : OK,
        low   ? "charge it: phones save power at the expense of speed when the battery is low"
        : hot ? "let it cool: a hot battery makes the phone slow down"
              : "",
        "%lld %%%s%s%s", (long long)f->battery_percent, f->battery_status[0] != '\0' ? ", " : "",
        f->battery_status[0] != '\0' ? shown(status, f->battery_status) : "", heat);
}

/* --- the NPU ---------------------------------------------------------------------------------- */

/* The first library whose name holds the word. */
static const char *find_lib(const fy_facts *f, const char *word)
{
    for (size_t i = 0; i < f->n_libs; i++) {
        if (strstr(f->lib[i], word) != NULL)
            return f->lib[i];
    }
    return NULL;
}

/* "libQnnHtpV75Stub.so" among the phone's own: 75; 0: none. */
static int own_arch(const fy_facts *f)
{
    const char *lib = find_lib(f, "libQnnHtpV");
    long arch = lib != NULL ? strtol(strstr(lib, "libQnnHtpV") + 10, NULL, 10) : 0;
    return arch > 0 && arch < 1000 ? (int)arch : 0;
}

static void check_npu(fy_doctor_report *r)
{
    const fy_facts *f = &r->facts;
    const fy_need *n = &r->need;
    int arch = f->htp != 0 ? f->htp : own_arch(f);
    const int wants = n->npu_arch > 0 ? n->npu_arch : n->compiled;
    bool rpc = find_lib(f, "libcdsprpc.so") != NULL;
    char quoted[200], text[400], remedy[200];
    const char *soc = shown(quoted, f->soc);
    if (arch > 0)
        snprintf(text, sizeof text, "%s has V%d; libcdsprpc.so %s%s", soc, arch,
                 rpc ? "is there" : "was not found",
                 find_lib(f, "libQnn") != NULL ? ", and the maker's own libQnn" : "");
    else
        snprintf(text, sizeof text, "none that ferry knows in %s; libcdsprpc.so %s", soc,
                 rpc ? "is there" : "was not found");
    if (!n->npu) {
        add(r, "npu", OK, "", "%s%s", text,
            n->dir != NULL ? "; the workspace does not use it" : "");
    } else if (wants > 0 && arch > 0 && wants != arch) {
        snprintf(remedy, sizeof remedy,
                 "create the workspace for this phone: 'ferry create --htp V%d', with context "
                 "binaries made for it",
                 arch);
        add(r, "npu", BROKEN, remedy, "%s; the workspace is for V%d", text, wants);
    } else if (!rpc) {
        add(r, "npu", BROKEN,
            "this phone gives programs no way to its NPU; run the model on the CPU", "%s", text);
    } else {
        bool unknown = arch == 0 || n->npu_arch == 0;
        add(r, "npu", unknown ? WARNING : OK,
            arch == 0 ? "whether the workspace's libraries are for it cannot be said"
            : unknown ? "the workspace brings none of the vendor's libraries: 'ferry create --soc'"
                      : "",
            "%s%s", text, unknown ? "" : ", as the workspace is for");
    }
}

static void check_workspace(fy_doctor_report *r)
{
    const fy_need *n = &r->need;
    if (n->dir == NULL)
        return;
    if (r->there[0] == '\0')
        add(r, "workspace", NOTE, "'ferry push' puts it there", "%s is not on the phone", n->name);
    else if (strcmp(r->there, n->sha256) != 0)
        add(r, "workspace", NOTE, "'ferry push' puts this one there",
            "the phone has another version of %s", n->name);
    else
        add(r, "workspace", OK, "", "%s is on the phone, in this version", n->name);
}

void fy_doctor_checks(fy_doctor_report *r)
{
    static void (*const checks[])(fy_doctor_report *) = {
        check_phone,   check_android, check_abi,     check_cpu, check_memory,   check_storage,
        check_execute, check_thermal, check_battery, check_npu, check_workspace};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        checks[i](r);
}

/* --- the table of quirks ---------------------------------------------------------------------- */

static int take_list(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_quirk_list *out = at;
    fy_span text;
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (out->n == FY_QUIRK_PATTERNS)
            return fy_fail(e, FY_EFORMAT, "more than %d patterns", FY_QUIRK_PATTERNS);
        if (fy_json_string(j, &text, NULL, e) != 0)
            return -1;
        out->pattern[out->n] = fy_arena_strndup(t->strings, text.ptr, text.len);
        if (out->pattern[out->n++] == NULL)
            return fy_nomem(e);
    }
    return more;
}

static int take_verdict(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_verdict *out = at;
    fy_span text;
    (void)t;
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    for (*out = FY_CHECK_NOTE; *out <= FY_CHECK_FAIL; ++*out) {
        if (fy_span_is(text, fy_verdict_names[*out]))
            return 0;
    }
    return fy_fail(e, FY_EFORMAT, "'%s', expected note, warning or fail",
                   fy_quote(shown, sizeof shown, text));
}

#define FIELD(kind, name, must) FY_JSON_FIELD(kind, #name, fy_quirk, name, must)
#define TAKE(name, must, how)                                                       \
    {                                                                               \
        .key = #name, .type = FY_JSON_ROW_TAKE, .offset = offsetof(fy_quirk, name), \
        .required = must, .take = how                                               \
    }
static const fy_json_row rows[] = {
    FIELD(TEXT, id, true),
    FIELD(TEXT, found, true),
    FIELD(TEXT, remedy, false),
    FIELD(TEXT, source, false),
    TAKE(verdict, true, take_verdict),
    TAKE(manufacturer, false, take_list),
    TAKE(model, false, take_list),
    TAKE(soc, false, take_list),
    TAKE(platform, false, take_list),
    TAKE(package, false, take_list),
    FIELD(I64, android_from, false),
    FIELD(I64, android_below, false),
    FIELD(I64, htp_below, false),
    FIELD(BOOL, npu, false),
    FIELD(REAL, parameters_above, false),
};

/* A row replaces the one with the same id. */
static int replace(void *user, void *items, size_t i, fy_err *e)
{
    fy_quirks *q = user;
    fy_quirk *row = items;
    (void)e;
    for (size_t k = 0; k < i; k++) {
        if (strcmp(row[k].id, row[i].id) == 0) {
            row[k] = row[i];
            q->n--;
            break;
        }
    }
    return 0;
}

int fy_quirks_parse(fy_quirks *q, const char *text, size_t n, const char *name, fy_err *e)
{
    static const fy_quirk fresh = {
        .remedy = "", .source = "", .android_from = -1, .android_below = -1, .htp_below = -1};
    const fy_json_table table = {
        FY_JSON_ROWS(rows),         .strict = true,  .strings = &q->strings, .user = q,
        .item_bytes = sizeof fresh, .fresh = &fresh, .named = true,          .check = replace};
    fy_json *j = fy_json_new(text, n, e);
    int rc =
        j != NULL && fy_json_list_of(j, &table, &q->row, &q->n, e) == 0 ? fy_json_end(j, e) : -1;
    fy_json_free(j);
    return rc == 0 ? 0 : fy_ctx(e, "%s", name);
}

static int add_quirks(void *user, const void *p, size_t n, const char *name, fy_err *e)
{
    return fy_quirks_parse(user, p, n, name, e);
}

int fy_quirks_read(fy_quirks *q, fy_err *e)
{
    fy_str path = {0};
    const fy_data_file *f = fy_data_find("quirks.json");
    *q = (fy_quirks){0};
    fy_config_path("quirks.json", &path);
    int rc = path.oom || f == NULL ? fy_nomem(e)
                                   : add_quirks(q, f->data, f->size, "the table of quirks", e);
    if (rc == 0 && path.len > 0 && fy_file_exists(path.ptr))
        rc = fy_data_read(path.ptr, add_quirks, q, e);
    fy_str_release(&path);
    return rc;
}

void fy_quirks_release(fy_quirks *q)
{
    free(q->row);
    fy_arena_release(&q->strings);
    *q = (fy_quirks){0};
}

/* --- which quirks a phone has ----------------------------------------------------------------- */

static bool matches(const fy_quirk_list *l, const char *text)
{
    for (size_t i = 0; i < l->n; i++) {
        if (fnmatch(l->pattern[i], text, FNM_CASEFOLD) == 0)
            return true;
    }
    return l->n == 0;
}

static bool has_package(const fy_quirk_list *l, const fy_facts *f)
{
    for (size_t i = 0; i < f->n_packages; i++) {
        if (matches(l, f->package[i]))
            return true;
    }
    return l->n == 0;
}

bool fy_quirk_fits(const fy_quirk *q, const fy_facts *f, const fy_need *need)
{
    int64_t android =
        f->android[0] >= '0' && f->android[0] <= '9' ? strtoll(f->android, NULL, 10) : -1;
    int arch = f->htp;
    bool phone = matches(&q->manufacturer, f->manufacturer) && matches(&q->model, f->model) &&
                 matches(&q->soc, f->soc) && matches(&q->platform, f->platform) &&
                 has_package(&q->package, f) &&
                 (q->android_from < 0 || android >= q->android_from) &&
                 (q->android_below < 0 || (android >= 0 && android < q->android_below)) &&
                 (q->htp_below < 0 || (arch > 0 && arch < q->htp_below));
    if (need->dir == NULL)
        return phone;
    return phone && (!q->npu || need->npu) && (double)need->parameters >= q->parameters_above;
}
