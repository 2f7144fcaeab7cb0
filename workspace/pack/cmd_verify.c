/* The verb `verify`: the findings as text or JSON. */
#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/data/model_json.h"
#include "workspace/pack/sign.h"
#include "workspace/pack/workspace.h"

typedef struct {
    const char *key;
    int64_t n_threads;
    bool require, json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROWS_TRUST,  FY_ANY_FLAG("Output", "json", json, "The findings as JSON."),
    FY_ROW_THREADS, FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* Names come from the disk: what is not UTF-8 or acts on a terminal is escaped, in JSON too. */
static void quoted(fy_str *s, const char *text)
{
    fy_str_clear(s);
    fy_str_put_quoted(s, fy_span_of(text), SIZE_MAX);
}

/* [{"path": ..., <key>: ...}]; NULL when out of memory. */
static json_t *list_of(const fy_finding *f, size_t n, const char *key)
{
    json_t *list = json_array();
    fy_str path = {0}, text = {0};
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        quoted(&path, f[i].path);
        quoted(&text, f[i].text);
        ok = !path.oom && !text.oom &&
             json_array_append_new(
                 list, json_pack("{s:s, s:s}", "path", fy_str_z(&path), key, fy_str_z(&text))) == 0;
    }
    fy_str_release(&path);
    fy_str_release(&text);
    if (!ok)
        json_decref(list);
    return ok ? list : NULL;
}

/* Absent members are null. */
static json_t *signature_of(const fy_signature *s)
{
    fy_str name = {0};
    quoted(&name, s->name != NULL ? s->name : "");
    json_t *out = json_pack("{s:s, s:s*, s:s*}", "state", fy_sig_state_name(s->state), "key",
                            s->fingerprint[0] != '\0' ? s->fingerprint : NULL, "name",
                            s->name != NULL ? fy_str_z(&name) : NULL);
    fy_str_release(&name);
    return out;
}

static int print_json(const fy_verify_report *r, fy_err *e)
{
    json_t *problems = list_of(r->finding, r->n, "problem");
    json_t *programs = list_of(r->note, r->n_notes, "built_for");
    json_t *signature = signature_of(&r->signature);
    fy_str text = {0};
    int rc = -1;
    if (problems == NULL || programs == NULL || signature == NULL) {
        json_decref(problems);
        json_decref(programs);
        json_decref(signature);
        fy_nomem(e);
    } else {
        rc = fy_json_text(json_pack("{s:b, s:I, s:I, s:o, s:o, s:o}", "ok", r->n == 0, "files",
                                    (json_int_t)r->n_files, "bytes", (json_int_t)r->bytes,
                                    "signature", signature, "programs", programs, "problems",
                                    problems),
                          &text, e);
    }
    if (rc == 0)
        rc = fy_stdout(text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

static void put_lines(const fy_finding *f, size_t n, fy_str *out)
{
    fy_str part = {0};
    for (size_t i = 0; i < n; i++) {
        quoted(&part, f[i].path);
        fy_str_printf(out, "%s: ", fy_str_z(&part));
        quoted(&part, f[i].text);
        fy_str_printf(out, "%s\n", fy_str_z(&part));
    }
    out->oom |= part.oom;
    fy_str_release(&part);
}

static int print_text(const char *dir, const fy_verify_report *r, fy_err *e)
{
    fy_str line = {0};
    put_lines(r->finding, r->n, &line);
    if (r->n == 0) {
        put_lines(r->note, r->n_notes, &line);
        fy_str_printf(&line, "%s: %llu files, %.1f MB, %s; ", dir, (unsigned long long)r->n_files,
                      (double)r->bytes * 1e-6,
                      r->not_listed ? "which fit each other" : "all as listed");
        fy_signature_text(&r->signature, dir, &line);
        fy_str_putc(&line, '\n');
    }
    int rc = line.oom ? fy_nomem(e) : fy_stdout(line.ptr, line.len, e);
    fy_str_release(&line);
    return rc;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    int n_threads = o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)o->n_threads;
    fy_verify_report r;
    fy_progress progress;
    fy_show_begin(&progress, "verifying", 0);
    const fy_trust trust = {o->key, o->require};
    int rc = fy_verify(args[0], &trust, n_threads, &progress, &r, e);
    fy_show_end(&progress);
    if (rc != 0)
        return rc;
    rc = o->json ? print_json(&r, e) : print_text(args[0], &r, e);
    char shown[FY_QUOTE_BYTES];
    if (rc == 0 && r.n > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %zu problem%s, first %s", args[0], r.n, r.n > 1 ? "s" : "",
                     fy_quote(shown, sizeof shown, fy_span_of(r.finding[0].path)));
    fy_verify_report_release(&r);
    return rc;
}

const fy_verb fy_verb_verify = {
    .name = "verify",
    .summary = "check every file of a workspace, and its signature",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Compares size and SHA-256 of every file with the manifest, names changed, missing and "
        "unlisted ones, and checks that the files fit together: the machine and the interpreter "
        "of every program and library, model.json against the header of the weights, the keys of "
        "vocab.gguf, the names in workspace.json, and for the NPU qnn/config.json against "
        "model.json and the files it names. The findings go to standard output; the exit status "
        "is 4 when there are any.\n\n"
        "The signature is reported as one of: signed by a trusted key, with its name; signed by an "
        "unknown key, with its fingerprint; not signed; WRONG, which is a finding. Trusted keys "
        "are the files NAME.pem in ferry/trusted below $XDG_CONFIG_HOME, or below ~/.config.",
    .examples = "ferry verify workspace\n"
                "ferry verify --json workspace\n"
                "# only what this key has signed\n"
                "ferry verify signed --key key.pub.pem\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
