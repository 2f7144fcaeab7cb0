#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "cli/verb.h"
#include "workspace/data/model_json.h"
#include "workspace/phone/phone_workspace.h"
#include "workspace/phone/pull.h"

typedef struct {
    const char *serial, *out;
    bool json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "PATH",
     .offset = offsetof(options, out),
     .line_only = true,
     .help = "The file or directory to write; without it the name on the phone, here."},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "What was done, as JSON."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int print_json(const fy_pull_result *r, double seconds, fy_err *e)
{
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:b, s:f, s:f}", "serial", r->serial, "path",
                             r->path, "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes,
                             "verified", r->verified, "seconds", seconds, "bytes_per_s",
                             seconds > 0 ? (double)r->bytes / seconds : 0.0);
    return fy_json_print(root, 6, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    fy_pull_params p = {.path = args[0], .out = o->out, .serial = o->serial};
    fy_pull_result r;
    fy_progress progress;
    double begin = fy_now_s();
    fy_show_begin(&progress, "pulling", 0);
    int rc = fy_pull(&p, &progress, &r, e);
    fy_show_end(&progress);
    double seconds = fy_now_s() - begin;
    if (rc != 0)
        return rc;
    fy_log(FY_LOG_INFO, "%s: %llu file%s, %.1f MB%s, in %.1f s, %.1f MB/s", r.path,
           (unsigned long long)r.files, r.files == 1 ? "" : "s", (double)r.bytes * 1e-6,
           r.verified ? ", every file as its manifest lists it" : "", seconds,
           seconds > 0 ? (double)r.bytes * 1e-6 / seconds : 0.0);
    return o->json ? print_json(&r, seconds, e) : 0;
}

const fy_verb fy_verb_pull = {
    .name = "pull",
    .summary = "take a file, a directory or a workspace from the phone",
    .synopsis = "PATH",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "PATH is a path on the phone, or the name of a workspace in " FY_PHONE_DIR ". A directory "
        "with a manifest.json is taken as a workspace: the files that it lists, each compared "
        "with its hash. The result has its name once it is whole; a directory of that name must "
        "not exist, or be empty.",
    .examples = "ferry pull workspace -o pulled\n"
                "ferry pull /data/local/tmp/notes.txt\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT,
    .run = run,
};
