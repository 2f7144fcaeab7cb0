#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/thread.h"
#include "cli/verb.h"
#include "workspace/data/model_json.h"
#include "workspace/phone/push.h"
#include "workspace/pack/trust_rows.h"

typedef struct {
    const char *serial, *to, *key;
    int64_t n_threads;
    bool require, prune, no_helper, json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    {.group = "Phone",
     .name = "to",
     .kind = FY_OPT_STR,
     .arg = "PATH",
     .offset = offsetof(options, to),
     .line_only = true,
     .help = "Where it will be on the phone; without it " FY_PHONE_DIR "/ and DIR's name."},
    {.group = "Phone",
     .name = "prune",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, prune),
     .line_only = true,
     .help = "Remove older versions from the phone."},
    {.group = "Phone",
     .name = "no-helper",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_helper),
     .help = "Send every file, as adb push does, and run nothing on the phone but its shell."},
    FY_ROWS_TRUST,
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "What was done, as JSON."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int print_json(const fy_push_result *r, double seconds, fy_err *e)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:f, s:f}", "serial", r->serial, "path",
        r->path, "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes, "sent_bytes",
        (json_int_t)r->sent_bytes, "reused_bytes", (json_int_t)r->reused_bytes, "up_to_date",
        r->up_to_date, "helper", r->helper, "older_versions", (json_int_t)r->done.n_old,
        "older_bytes", (json_int_t)r->done.old_bytes, "seconds", seconds, "bytes_per_s",
        seconds > 0 ? (double)r->bytes / seconds : 0.0);
    return fy_json_print(root, 6, e);
}

static void say(const fy_push_result *r, double seconds)
{
    double mb = (double)r->bytes * 1e-6, sent = (double)r->sent_bytes * 1e-6;
    const fy_agent_done *d = &r->done;
    if (r->up_to_date)
        fy_log(FY_LOG_INFO, "%s on %s: up to date, %llu files, %.1f MB, checked there by hash",
               r->path, r->serial, (unsigned long long)r->files, mb);
    else
        fy_log(FY_LOG_INFO, "%s on %s: %llu files, %.1f MB, %s; sent %.1f MB in %.1f s, %.1f MB/s",
               r->path, r->serial, (unsigned long long)r->files, mb,
               r->helper ? "checked there by hash" : "checked there by size", sent, seconds,
               seconds > 0 ? sent / seconds : 0.0);
    if (d->n_pruned > 0)
        fy_log(FY_LOG_INFO, "%llu older version%s removed, %.1f MB",
               (unsigned long long)d->n_pruned, d->n_pruned > 1 ? "s" : "",
               (double)d->pruned_bytes * 1e-6);
    if (d->n_old > 0)
        fy_log(FY_LOG_INFO, "%llu older version%s kept there, %.1f MB; --prune removes %s",
               (unsigned long long)d->n_old, d->n_old > 1 ? "s" : "", (double)d->old_bytes * 1e-6,
               d->n_old > 1 ? "them" : "it");
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    fy_push_params p = {.dir = args[0],
                        .serial = o->serial,
                        .to = o->to,
                        .self = "/proc/self/exe",
                        .trust = {o->key, o->require},
                        .prune = o->prune,
                        .no_helper = o->no_helper,
                        .n_threads = o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads()
                                                                      : (int)o->n_threads};
    fy_push_result r;
    fy_progress progress;
    double begin = fy_now_s();
    fy_show_begin(&progress, "pushing", 0);
    int rc = fy_push(&p, &progress, &r, e);
    fy_show_end(&progress);
    double seconds = fy_now_s() - begin;
    if (rc != 0)
        return rc;
    say(&r, seconds);
    return o->json ? print_json(&r, seconds, e) : 0;
}

const fy_verb fy_verb_push = {
    .name = "push",
    .summary = "put a workspace onto the phone, only what is not there",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks the workspace as 'ferry verify' does, and starts its bin/ferry on the phone as "
        "helper. The helper looks for every file, and every block of 4 MiB of large ones, in the "
        "versions that are there; only the rest travels. Each byte is checked on the phone by "
        "its hash, and the new version takes the place of the old one in one step when all of it "
        "is there and found right at both ends.\n\n"
        "A push that broke off is continued by the next. Free space is checked first (exit status "
        "6). Older versions stay, and are named with their size, until --prune removes them.\n\n"
        "Where the helper cannot run every file is sent by plain sync, and that is said.",
    .examples = "ferry push workspace\n"
                "ferry push workspace --prune\n"
                "ferry push workspace -s R5CT60XXXXX --to /data/local/tmp/ferry/tales\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT,
    .run = run,
};
