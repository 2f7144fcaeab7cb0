/* `ferry selftest`: runs the checks and prints them with a description of the machine. Names of
 * hosts and users and serial numbers stay out: reports are posted in public. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "cli/engine.h"
#include "cli/measure/selftest.h"
#include "cli/npu_trust.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

enum { MAX_CPUS = 64, VALUE_BYTES = 96 };

/* --- files of the system ---------------------------------------------------------------------- */

static void trim(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
}

static unsigned max_mhz(unsigned cpu)
{
    char path[96], line[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
    FILE *f = fopen(path, "re");
    if (f != NULL && fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    if (f != NULL)
        fclose(f);
    return (unsigned)(strtoul(line, NULL, 10) / 1000);
}

/* --- processor -------------------------------------------------------------------------------- */

typedef struct {
    char name[VALUE_BYTES]; /* "Intel(R) ...", or "0x41 0xd05": implementer and part */
    unsigned mhz, count;
} core_kind;

typedef struct {
    core_kind kind[MAX_CPUS];
    size_t n;
    char name[VALUE_BYTES], implementer[VALUE_BYTES];
    unsigned cpu;
    bool open;
} core_list;

/* Cores alike are counted. */
static void end_core(core_list *l)
{
    if (l->open && l->name[0] != '\0' && l->n < MAX_CPUS) {
        unsigned mhz = max_mhz(l->cpu);
        size_t i = 0;
        while (i < l->n && (strcmp(l->kind[i].name, l->name) != 0 || l->kind[i].mhz != mhz))
            i++;
        if (i == l->n) {
            memcpy(l->kind[i].name, l->name, sizeof l->name);
            l->kind[i].mhz = mhz;
            l->kind[l->n++].count = 0;
        }
        l->kind[i].count++;
    }
    l->open = false;
    l->name[0] = l->implementer[0] = '\0';
}

static void take_line(core_list *l, const char *line)
{
    const char *colon = strchr(line, ':');
    if (colon == NULL)
        return;
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (strncmp(line, "processor", 9) == 0) {
        end_core(l);
        l->open = true;
        l->cpu = (unsigned)strtoul(value, NULL, 10);
    } else if (strncmp(line, "model name", 10) == 0) {
        snprintf(l->name, sizeof l->name, "%s", value);
    } else if (strncmp(line, "CPU implementer", 15) == 0) {
        snprintf(l->implementer, sizeof l->implementer, "%s", value);
    } else if (strncmp(line, "CPU part", 8) == 0) {
        snprintf(l->name, sizeof l->name, "%.16s %.16s", l->implementer, value);
    }
}

static void list_cores(core_list *l)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    *l = (core_list){0};
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        trim(line);
        take_line(l, line);
    }
    end_core(l);
    if (f != NULL)
        fclose(f);
}

/* --- the phone -------------------------------------------------------------------------------- */

#define GETPROP "/system/bin/getprop"

static const struct {
    const char *key, *property;
} properties[] = {{"model", "ro.product.model"},
                  {"soc", "ro.soc.model"},
                  {"android", "ro.build.version.release"}};

/* popen needs /bin/sh, which phones lack. */
static void get_property(const char *property, char value[VALUE_BYTES])
{
    char program[] = GETPROP, name[64];
    char *words[] = {program, name, NULL}, *none[] = {NULL};
    int ends[2];
    pid_t child;
    size_t n = 0;
    value[0] = '\0';
    snprintf(name, sizeof name, "%s", property);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    bool runs = posix_spawn(&child, GETPROP, &actions, NULL, words, none) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (ssize_t now = 1; runs && now > 0 && n + 1 < VALUE_BYTES; n += now > 0 ? (size_t)now : 0)
        now = read(ends[0], value + n, VALUE_BYTES - 1 - n);
    value[n] = '\0';
    close(ends[0]);
    while (runs && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    trim(value);
}

/* --- output ----------------------------------------------------------------------------------- */

static void put_member(fy_str *out, const char *key, const char *value)
{
    fy_str_printf(out, ", \"%s\": ", key);
    fy_json_put_string(out, fy_span_of(value));
}

void fy_self_cpu_text(fy_str *out)
{
    core_list l;
    list_cores(&l);
    for (size_t i = 0; i < l.n; i++)
        fy_str_printf(out, "%s%s", i > 0 ? ", " : "", l.kind[i].name);
}

void fy_self_system_json(fy_str *out)
{
    struct utsname u;
    core_list l;
    bool known = uname(&u) == 0;
    list_cores(&l);
    fy_str_puts(out, "{\"system\": ");
    fy_json_put_string(out, fy_span_of(known ? u.sysname : "unknown"));
    put_member(out, "release", known ? u.release : "");
    put_member(out, "build", known ? u.version : "");
    put_member(out, "machine", known ? u.machine : "");
    for (size_t i = 0; fy_file_exists(GETPROP) && i < sizeof properties / sizeof properties[0];
         i++) {
        char value[VALUE_BYTES];
        get_property(properties[i].property, value);
        if (value[0] != '\0')
            put_member(out, properties[i].key, value);
    }
    fy_str_printf(out,
                  ", \"page_bytes\": %ld, \"memory_bytes\": %llu, \"memory_free_bytes\": %llu, "
                  "\"cpus\": %ld, \"cores\": [",
                  sysconf(_SC_PAGESIZE), (unsigned long long)fy_meminfo_bytes("MemTotal"),
                  (unsigned long long)fy_meminfo_bytes("MemAvailable"),
                  sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < l.n; i++) {
        fy_str_puts(out, i > 0 ? ", {\"name\": " : "{\"name\": ");
        fy_json_put_string(out, fy_span_of(l.kind[i].name));
        fy_str_printf(out, ", \"count\": %u, \"max_mhz\": %u}", l.kind[i].count, l.kind[i].mhz);
    }
    fy_str_puts(out, "]}");
}

void fy_self_system_text(fy_str *out)
{
    struct utsname u;
    bool known = uname(&u) == 0;
    fy_version_text(out);
    fy_str_printf(out, ", %s %s, %s, %ld CPUs, %.1f GB memory of which %.1f GB free\n",
                  known ? u.sysname : "unknown system", known ? u.release : "",
                  known ? u.machine : "", sysconf(_SC_NPROCESSORS_ONLN),
                  (double)fy_meminfo_bytes("MemTotal") * 1e-9,
                  (double)fy_meminfo_bytes("MemAvailable") * 1e-9);
}

typedef struct {
    fy_engine_options engine; /* model, dir, n_threads */
    const char *device, *serial;
    int64_t cache_size;
    bool quick, json, verbose, quiet;
} options;

static const fy_opt opts[] = {
    FY_ROWS_MODEL
    FY_ROWS_DEVICE FY_ANY_FLAG(
        "Work", "quick", quick,
        "Hash no files, check one prompt of parity.json and measure for one second."),
    FY_ROW_THREADS_OF(engine.n_threads),
    FY_ROW_QNN_LIB_OF(engine.machine),
    FY_ANY_FLAG("Output", "json", json, "Write one JSON object, for a report."),
    FY_ROW_VERBOSE,
    FY_ROW_QUIET,
};

typedef struct {
    const options *o;
    int n_threads;
    fy_self_checks checks;
    bool has_bundle;
    fy_bundle bundle;
    fy_model *model;            /* owned; NULL: none was named, or it cannot be loaded */
    char sha256[FY_SHA256_HEX]; /* of its file, as the manifest has it; "" without one */
    fy_self_reading reading;
    double begin_s;
} job;

/* --- checking --------------------------------------------------------------------------------- */

static size_t count(const job *j, fy_self_verdict v)
{
    size_t n = 0;
    for (size_t i = 0; i < j->checks.n; i++)
        n += j->checks.item[i].verdict == v;
    return n;
}

/* A wrong path is an error; a model that exists and cannot be loaded is a failed check. */
static int failed_to_open(job *j, const char *name, const fy_err *why, fy_err *e)
{
    if (why->code == FY_EARG || why->code == FY_EIO)
        return fy_fail(e, why->code, "%s", why->msg);
    return fy_self_add_error(&j->checks, name, 0, why, e);
}

/* Lets a reader of the report identify the model. */
static int note_hash(job *j, fy_err *e)
{
    fy_manifest m;
    char rel[FY_MANIFEST_MAX_PATH];
    if (fy_manifest_read(j->o->engine.dir, &m, e) != 0)
        return -1;
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_WEIGHTS, j->bundle.model_main);
    const fy_manifest_entry *weights = fy_manifest_find(&m, rel);
    if (weights != NULL)
        fy_sha256_to_hex(weights->sha256, j->sha256);
    fy_manifest_release(&m);
    return 0;
}

/* Without a workspace, or when it cannot be opened, there is no bundle. */
static int open_bundle(job *j, fy_err *e)
{
    const fy_engine_options *o = &j->o->engine;
    fy_err why = {0};
    if (o->dir != NULL && fy_bundle_open(o->dir, &j->bundle, &why) != 0)
        return failed_to_open(j, "workspace", &why, e);
    j->has_bundle = o->dir != NULL;
    return j->has_bundle ? note_hash(j, e) : 0;
}

static int check_npu(job *j, fy_err *e)
{
    const char *named = j->o->engine.machine.qnn_lib,
               *libs = named != NULL ? named : j->bundle.qnn_libs;
    return libs != NULL ? fy_self_npu(&j->checks, libs, e) : 0;
}

static int open_model(job *j, fy_err *e)
{
    const fy_engine_options *o = &j->o->engine;
    fy_err why = {0};
    fy_machine_options machine = o->machine;
    if (machine.canary == FY_CANARY_ONCE)
        machine.canary = FY_CANARY_ALWAYS;
    double begin = fy_now_s();
    j->model = fy_machine_open(&machine, j->has_bundle ? j->bundle.weights : o->model,
                               j->bundle.qnn, j->bundle.qnn_libs, &why);
    if (j->model == NULL)
        return failed_to_open(j, "model", &why, e);
    const fy_hparams *hp = fy_model_hparams(j->model);
    return fy_self_add(&j->checks, "model", FY_SELF_OK, fy_now_s() - begin, e,
                       "%s, %u layers, %u tokens in the vocabulary, backend %s",
                       fy_model_family(j->model)->name, hp->n_layer, hp->n_vocab,
                       fy_model_backend(j->model));
}

static int check_parity(job *j, fy_err *e)
{
    if (!j->has_bundle)
        return fy_self_add(&j->checks, "parity", FY_SELF_SKIPPED, 0, e,
                           "comes with a workspace (-d), not with a file");
    char *dir = fy_path_join(j->o->engine.dir, j->bundle.model_main);
    int rc = dir != NULL ? fy_self_parity(&j->checks, dir, j->model, j->n_threads, j->o->quick, e)
                         : fy_nomem(e);
    free(dir);
    return rc;
}

/* Nothing of a workspace is loaded when its files differ from the manifest. */
static int check_files(job *j, fy_err *e)
{
    const options *o = j->o;
    if (o->engine.dir == NULL)
        return 0;
    if (o->quick)
        return fy_self_add(&j->checks, "files", FY_SELF_SKIPPED, 0, e,
                           "a quick run hashes no files");
    return fy_self_files(&j->checks, o->engine.dir, j->n_threads, e);
}

static int check_model(job *j, fy_err *e)
{
    const options *o = j->o;
    const size_t n_failed = count(j, FY_SELF_FAILED);
    if (check_files(j, e) != 0)
        return -1;
    if (count(j, FY_SELF_FAILED) > n_failed)
        return 0;
    if (open_bundle(j, e) != 0 || check_npu(j, e) != 0)
        return -1;
    if (o->engine.dir != NULL && !j->has_bundle)
        return 0;
    if (o->engine.model == NULL && o->engine.dir == NULL)
        return fy_self_add(&j->checks, "model", FY_SELF_SKIPPED, 0, e,
                           "none is named: give a workspace (-d) or a GGUF file (-m)");
    if (open_model(j, e) != 0)
        return -1;
    if (j->model == NULL)
        return 0;
    return check_parity(j, e) != 0 ? -1 : fy_self_threads(&j->checks, j->model, j->n_threads, e);
}

/* --- showing ---------------------------------------------------------------------------------- */

static const char *verdict_text(const fy_self_check *c)
{
    return c->verdict == FY_SELF_OK ? "ok" : c->verdict == FY_SELF_FAILED ? "FAILED" : "skipped";
}

static bool is_kernel(const fy_self_check *c)
{
    return strncmp(c->name, "kernel ", 7) == 0;
}

static void put_model(const job *j, fy_str *out)
{
    const fy_hparams *hp = fy_model_hparams(j->model);
    const fy_gguf *g = fy_model_gguf(j->model);
    const fy_gguf_tensor *embd = fy_gguf_tensor_find(g, "token_embd.weight");
    uint64_t bytes = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++)
        bytes += fy_gguf_tensor_at(g, i)->bytes;
    fy_str_printf(out,
                  ",\n \"model\": {\"family\": \"%s\", \"layers\": %u, \"embedding\": %u, "
                  "\"vocabulary\": %u, \"type\": \"%s\", \"bytes\": %llu",
                  fy_model_family(j->model)->name, hp->n_layer, hp->n_embd, hp->n_vocab,
                  embd != NULL ? fy_type_name(embd->type) : "?", (unsigned long long)bytes);
    if (j->sha256[0] != '\0')
        fy_str_printf(out, ", \"sha256\": \"%s\"", j->sha256);
    fy_str_putc(out, '}');
}

static void put_json(const job *j, fy_str *out)
{
    const fy_self_reading *r = &j->reading;
    fy_str_printf(out, "{\"selftest\": 1, \"ok\": %s, \"quick\": %s,\n \"ferry\": ",
                  count(j, FY_SELF_FAILED) == 0 ? "true" : "false", j->o->quick ? "true" : "false");
    fy_version_json(out);
    fy_str_puts(out, ",\n \"machine\": ");
    fy_self_system_json(out);
    if (j->model != NULL)
        put_model(j, out);
    fy_str_puts(out, ",\n \"checks\": [");
    for (size_t i = 0; i < j->checks.n; i++) {
        const fy_self_check *c = &j->checks.item[i];
        fy_str_puts(out, i > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ");
        fy_json_put_string(out, fy_span_of(c->name));
        fy_str_printf(out, ", \"ok\": %s, \"seconds\": %.3f, \"detail\": ",
                      c->verdict == FY_SELF_OK       ? "true"
                      : c->verdict == FY_SELF_FAILED ? "false"
                                                     : "null",
                      c->seconds);
        fy_json_put_string(out, fy_span_of(c->detail));
        fy_str_putc(out, '}');
    }
    fy_str_printf(out,
                  "],\n \"speed\": {\"threads\": %d, \"read_bytes_per_s\": %.0f, "
                  "\"prompt_tokens\": %u, \"prompt_tokens_per_s\": %.2f, "
                  "\"generated_tokens\": %u, \"generated_tokens_per_s\": %.2f},\n",
                  r->n_threads, r->read_bytes_per_s, r->n_prefill, r->prefill_per_s, r->n_decode,
                  r->decode_per_s);
    fy_str_printf(out,
                  " \"memory\": {\"anonymous_bytes\": %llu, \"peak_bytes\": %llu, "
                  "\"cache_bytes\": %llu, \"scratch_bytes\": %llu},\n \"seconds\": %.1f}\n",
                  (unsigned long long)r->anonymous_bytes, (unsigned long long)r->peak_bytes,
                  (unsigned long long)r->kv_bytes, (unsigned long long)r->scratch_bytes,
                  fy_now_s() - j->begin_s);
}

/* Kernels that pass are one line, unless --verbose. */
static void put_kernels(const job *j, fy_str *out)
{
    size_t n[3] = {0};
    for (size_t i = 0; i < j->checks.n; i++)
        n[j->checks.item[i].verdict] += is_kernel(&j->checks.item[i]);
    fy_str_printf(out, "%-7s  %-20s  %zu compute what they should",
                  n[FY_SELF_FAILED] > 0 ? "FAILED" : "ok", "kernels", n[FY_SELF_OK]);
    if (n[FY_SELF_FAILED] > 0)
        fy_str_printf(out, ", %zu do not", n[FY_SELF_FAILED]);
    if (n[FY_SELF_SKIPPED] > 0)
        fy_str_printf(out, ", %zu are for other CPUs", n[FY_SELF_SKIPPED]);
    fy_str_putc(out, '\n');
}

static void put_text(const job *j, fy_str *out)
{
    const fy_self_reading *r = &j->reading;
    fy_self_system_text(out);
    put_kernels(j, out);
    for (size_t i = 0; i < j->checks.n; i++) {
        const fy_self_check *c = &j->checks.item[i];
        if (!is_kernel(c) || c->verdict == FY_SELF_FAILED || j->o->verbose)
            fy_str_printf(out, "%-7s  %-20s  %s\n", verdict_text(c), c->name, c->detail);
    }
    fy_str_printf(out, "memory is read at %.1f GB/s by %d thread%s", r->read_bytes_per_s * 1e-9,
                  r->n_threads, r->n_threads == 1 ? "" : "s");
    if (r->n_prefill > 0)
        fy_str_printf(out, "; prompts %.1f tok/s, answers %.1f tok/s", r->prefill_per_s,
                      r->decode_per_s);
    fy_str_putc(out, '\n');
}

static int show(const job *j, fy_err *e)
{
    fy_str s = {0};
    if (j->o->json)
        put_json(j, &s);
    else
        put_text(j, &s);
    return fy_stdout_text(&s, e);
}

static int check_verdicts(const job *j, fy_err *e)
{
    size_t n = count(j, FY_SELF_FAILED), i = 0;
    if (n == 0)
        return 0;
    while (j->checks.item[i].verdict != FY_SELF_FAILED)
        i++;
    return fy_fail(e, FY_EVERIFY, "%zu of %zu checks failed, first '%s': %s", n,
                   j->checks.n - count(j, FY_SELF_SKIPPED), j->checks.item[i].name,
                   j->checks.item[i].detail);
}

/* --- running ---------------------------------------------------------------------------------- */

static int test_all(job *j, fy_err *e)
{
    const options *o = j->o;
    if (o->engine.model != NULL && o->engine.dir != NULL)
        return fy_fail(e, FY_EARG, "two models: give either a GGUF file (-m) or a workspace (-d)");
    fy_log(FY_LOG_INFO, "checking kernels");
    if (fy_self_kernels(&j->checks, e) != 0 || check_model(j, e) != 0)
        return -1;
    double seconds = o->quick ? 1 : 10;
    fy_log(FY_LOG_INFO, "measuring for %.0f s", seconds);
    return fy_self_measure(&j->checks, j->model, j->n_threads, seconds, &j->reading, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    job j = {.o = opaque, .begin_s = fy_now_s()};
    j.n_threads = j.o->engine.n_threads > 0 ? (int)j.o->engine.n_threads : fy_default_threads();
    int rc = test_all(&j, e);
    if (rc == 0)
        rc = show(&j, e);
    if (rc == 0)
        rc = check_verdicts(&j, e);
    fy_model_close(j.model);
    if (j.has_bundle)
        fy_bundle_release(&j.bundle);
    fy_self_release(&j.checks);
    return rc;
}

static const fy_model_slots slots = FY_ENGINE_SLOTS(options, false);

const fy_verb fy_verb_selftest = {
    .name = "selftest",
    .summary = "check that this machine computes correctly, and measure how fast",
    .synopsis = "",
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks every kernel of this build that the CPU can run against the scalar specification; "
        "for a workspace, every file against the manifest, and texts, conversations and greedy ids "
        "against its parity.json, written by the machine that made it; for a model, that logits do "
        "not depend on threads and batches and that it takes no more memory than announced; for "
        "an NPU's library (in qnn_libs/, or --qnn-lib), its files and versions, the memory that it "
        "shares, its device, and one operation. Then it measures the speed of memory and model for "
        "about ten seconds.\n\n"
        "With --json everything is one object, with versions, CPU features and the kernel's name, "
        "and without names of hosts or users, serial numbers or your texts, so that it can go into "
        "a report.",
    .examples = "ferry selftest -d workspace\n"
                "# a file, in a few seconds, for a report\n"
                "ferry selftest -m model.gguf --quick --json\n",
    .task = FY_TASK_USE,
    .on_phone = true,
    .model = &slots,
    .run = run,
};
