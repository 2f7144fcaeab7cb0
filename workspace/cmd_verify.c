#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/quote.h"
#include "base/thread.h"
#include "cli/verb.h"
#include "workspace/model_json.h"
#include "workspace/workspace.h"

typedef struct {
    int64_t n_threads;
    bool json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "The findings as JSON."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* Names come from the disk: what is not UTF-8 or could move the cursor is shown escaped, in JSON
 * too. */
static void quoted(fy_str *s, const char *text)
{
    fy_str_clear(s);
    fy_str_put_quoted(s, fy_span_of(text), SIZE_MAX);
}

static int print_json(const fy_verify_report *r, fy_err *e)
{
    json_t *list = json_array();
    fy_str path = {0}, text = {0};
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < r->n; i++) {
        quoted(&path, r->finding[i].path);
        quoted(&text, r->finding[i].text);
        ok = !path.oom && !text.oom &&
             json_array_append_new(list, json_pack("{s:s, s:s}", "path", fy_str_z(&path), "problem",
                                                   fy_str_z(&text))) == 0;
    }
    fy_str_clear(&text);
    int rc = -1;
    if (!ok) {
        json_decref(list);
        fy_nomem(e);
    } else {
        rc = fy_json_text(json_pack("{s:b, s:I, s:I, s:o}", "ok", r->n == 0, "files",
                                    (json_int_t)r->n_files, "bytes", (json_int_t)r->bytes,
                                    "problems", list),
                          &text, e);
    }
    if (rc == 0)
        rc = fy_stdout(text.ptr, text.len, e);
    fy_str_release(&path);
    fy_str_release(&text);
    return rc;
}

static int print_text(const char *dir, const fy_verify_report *r, fy_err *e)
{
    fy_str line = {0}, path = {0};
    for (size_t i = 0; i < r->n; i++) {
        quoted(&path, r->finding[i].path);
        fy_str_printf(&line, "%s: ", fy_str_z(&path));
        quoted(&path, r->finding[i].text);
        fy_str_printf(&line, "%s\n", fy_str_z(&path));
    }
    if (r->n == 0)
        fy_str_printf(&line, "%s: %llu files, %.1f MB, all as listed\n", dir,
                      (unsigned long long)r->n_files, (double)r->bytes * 1e-6);
    int rc = line.oom || path.oom ? fy_nomem(e) : fy_stdout(line.ptr, line.len, e);
    fy_str_release(&line);
    fy_str_release(&path);
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
    int rc = fy_verify(args[0], n_threads, &progress, &r, e);
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
    .summary = "check every file of a workspace against its manifest",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Compares size and SHA-256 of every file, names changed, missing and unlisted ones, and "
        "checks that the files fit together: the program's machine, model.json against the "
        "header of the weights, and the tokens of vocab.gguf. The findings go to standard "
        "output; the exit status is 4 when there are any.",
    .examples = "ferry verify workspace\n"
                "ferry verify --json workspace\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
