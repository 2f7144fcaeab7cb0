#include <stdlib.h>

#include "base/log.h"
#include "cli/verb.h"
#include "workspace/workspace.h"

typedef struct {
    const char *out;
    bool quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "out-path",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, out),
     .line_only = true,
     .help = "The workspace to create; must not exist, or be an empty directory. Without it the "
             "archive's own name, here."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    char *made = NULL;
    fy_progress progress;
    fy_show_begin(&progress, "unpacking", 0);
    int rc = fy_unpack(args[0], o->out, &made, &progress, e);
    fy_show_end(&progress);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %.1f MB, every file as its manifest lists it", made,
               (double)progress.done_bytes * 1e-6);
    free(made);
    return rc;
}

const fy_verb fy_verb_unpack = {
    .name = "unpack",
    .summary = "turn an archive back into a workspace, checking every file",
    .synopsis = "FILE",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Reads .tar.zst, .tar.gz and .tar. Each file must be listed in the archive's manifest "
        "and have the listed size and SHA-256. Absolute paths, '..', links, devices, repeated, "
        "unlisted and missing files are refused, and whatever is refused leaves nothing behind.",
    .examples = "ferry unpack phone.tar.zst\n"
                "ferry unpack phone.tar.zst -o copy\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
