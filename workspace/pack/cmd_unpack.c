#include <stdlib.h>

#include "base/log.h"
#include "base/quote.h"
#include "cli/verb.h"
#include "workspace/pack/trust_rows.h"
#include "workspace/pack/workspace.h"

typedef struct {
    const char *out, *key;
    bool require, quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "out-path",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, out),
     .line_only = true,
     .help = "The workspace to create; must not exist, or be an empty directory. Without it the name "
             "of the archive's own directory, here, if it begins with neither '.' nor '-'."},
    FY_ROWS_TRUST,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int report(const char *made, const char *key_path, uint64_t bytes, fy_err *e)
{
    fy_signature s;
    fy_str words = {0}, shown = {0};
    if (fy_signature_read(made, key_path, &s, e) != 0)
        return -1;
    fy_str_put_quoted(&shown, fy_span_of(made), SIZE_MAX);
    fy_signature_words(&s, fy_str_z(&shown), &words);
    fy_log(FY_LOG_INFO, "%s: %.1f MB, every file as its manifest lists it; %s", fy_str_z(&shown),
           (double)bytes * 1e-6, fy_str_z(&words));
    fy_str_release(&words);
    fy_str_release(&shown);
    fy_signature_release(&s);
    return 0;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    char *made = NULL;
    const fy_trust trust = {o->key, o->require};
    fy_progress progress;
    fy_show_begin(&progress, "unpacking", 0);
    int rc = fy_unpack_trusted(args[0], o->out, &trust, &made, &progress, e);
    fy_show_end(&progress);
    if (rc == 0)
        rc = report(made, o->key, progress.done_bytes, e);
    free(made);
    return rc;
}

const fy_verb fy_verb_unpack = {
    .name = "unpack",
    .summary = "turn an archive back into a workspace, checking every file",
    .synopsis = "FILE|-",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Reads .tar.zst, .tar.gz and .tar; '-' is standard input. Each file must be listed in the "
        "archive's manifest and have the listed size and SHA-256. Absolute paths, '..', links, "
        "devices, repeated, unlisted and missing files are refused, and so is a signature that is "
        "wrong, or not by a trusted key where one is required; whatever is refused leaves nothing "
        "behind. Of an archive that was cut off it is "
        "said after how many bytes, and in which file.\n\n"
        "An archive of 'ferry pack' begins with its manifest and is read once; another one is read "
        "twice, and cannot come from standard input.",
    .examples = "ferry unpack phone.tar.zst\n"
                "ferry unpack phone.tar.zst -o copy\n"
                "# from a pipe, without a copy on this disk\n"
                "cat phone.tar.zst | ferry unpack - -o from-pipe\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
