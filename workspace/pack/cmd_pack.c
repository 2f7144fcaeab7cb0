/* The verbs `pack` and `unpack`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/pack/sign.h"
#include "workspace/pack/workspace.h"

typedef struct { /* of both */
    const char *out, *key;
    int64_t level, n_threads;
    bool require, quiet, verbose;
} options;

/* --- pack ------------------------------------------------------------------------------------- */

static const fy_opt pack_opts[] = {
    FY_LINE_STR_AS(
        "Output", "output", "o", "FILE", out,
        "The archive to write: .tar.zst, .tar.gz or .tar; without it DIR's name and .tar.zst, "
        "here."),
    {.group = "Output",
     .name = "level",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, level),
     .min = 1,
     .max = 19,
     .help = "Compression level: 1 to 19 for zstd (3), 1 to 9 for gzip (6)."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* A decimal number of seconds (https://reproducible-builds.org/specs/source-date-epoch). */
static int source_date_epoch(int64_t *out, fy_err *e)
{
    const char *s = getenv("SOURCE_DATE_EPOCH");
    *out = 0;
    if (s == NULL || *s == '\0')
        return 0;
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno != 0 || *end != '\0' || *s < '0' || *s > '9' || v > 253402300799) /* the year 9999 */
        return fy_fail(e, FY_EARG, "SOURCE_DATE_EPOCH is '%.40s', expected seconds since 1970", s);
    *out = v;
    return 0;
}

static char *default_name(const char *dir, fy_err *e)
{
    char *real = realpath(dir, NULL);
    if (real == NULL) {
        fy_fail_errno(e, "%s: cannot open", dir);
        return NULL;
    }
    fy_span base = fy_path_base(fy_path_is_plain(fy_path_base(dir)) ? dir : real);
    char *name = fy_path_format(e, "%.*s.tar.zst", (int)base.len, base.ptr);
    free(real);
    return name;
}

static int pack(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    fy_pack_params p = {.level = o->level == FY_OPT_UNSET_INT ? 0 : (int)o->level,
                        .n_threads = o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads()
                                                                      : (int)o->n_threads};
    if (source_date_epoch(&p.mtime, e) != 0)
        return -1;
    char *name = o->out != NULL ? fy_path_format(e, "%s", o->out) : default_name(args[0], e);
    if (name == NULL)
        return -1;
    fy_progress progress;
    fy_show_begin(&progress, "packing", 0);
    int rc = fy_pack(args[0], name, &p, &progress, e);
    fy_show_end(&progress);
    struct stat st;
    if (rc == 0 && stat(name, &st) == 0)
        fy_log(FY_LOG_INFO, "%s: %.1f MB from %.1f MB", name, (double)st.st_size * 1e-6,
               (double)progress.done_bytes * 1e-6);
    if (rc == 0) {
        fy_str next = {0};
        fy_str_puts(&next, "ferry unpack ");
        fy_str_put_word(&next, name);
        fy_str_puts(&next, " -o DIR, there");
        fy_say_next(&next);
    }
    free(name);
    return rc;
}

const fy_verb fy_verb_pack = {
    .name = "pack",
    .summary = "put a workspace into one archive, reproducibly",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = pack_opts,
    .n_opts = sizeof pack_opts / sizeof pack_opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Writes the manifest, its signature when there is one, and the files that it lists below "
        "one top directory: sorted, owner and group 0, modes from the manifest, times from "
        "SOURCE_DATE_EPOCH (0 when unset). The same workspace gives the same bytes on any day, for "
        "any user, with any number of threads (zstd compresses on several: at most 16 up to level "
        "4, 4 up to level 9, then 1, so that memory stays below 128 MB).\n\n"
        "Every file is compared with its hash on the way; one that has changed is an error that "
        "names it, and no archive is left. Files that the manifest does not list are left out "
        "with a warning.",
    .examples = "ferry pack workspace\n"
                "ferry pack workspace -o workspace.tar.gz --level 9\n",
    .task = FY_TASK_PACKAGE,
    .environment = "SOURCE_DATE_EPOCH The time of every file in the archive, in seconds since "
                   "1970.\n",
    .libraries = fy_archive_libraries,
    .run = pack,
};

/* --- unpack ----------------------------------------------------------------------------------- */

static const fy_opt unpack_opts[] = {
    FY_LINE_STR_AS(
        "Output", "out-path", "o", "DIR", out,
        "The workspace to create; must not exist, or be an empty directory. Without it the name "
        "of the archive's own directory, here, if it begins with neither '.' nor '-'."),
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
    fy_signature_text(&s, fy_str_z(&shown), &words);
    fy_log(FY_LOG_INFO, "%s: %.1f MB, every file as its manifest lists it; %s", fy_str_z(&shown),
           (double)bytes * 1e-6, fy_str_z(&words));
    fy_str_release(&words);
    fy_str_release(&shown);
    fy_signature_release(&s);
    return 0;
}

static int unpack(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    char *made = NULL;
    const fy_trust trust = {o->key, o->require};
    fy_progress progress;
    fy_show_begin(&progress, "unpacking", 0);
    int rc = fy_unpack(args[0], o->out, &trust, &made, &progress, e);
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
    .opts = unpack_opts,
    .n_opts = sizeof unpack_opts / sizeof unpack_opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Reads .tar.zst, .tar.gz and .tar; '-' is standard input. Each file must be listed in the "
        "archive's manifest and have the listed size and SHA-256. Absolute paths, '..', links, "
        "devices, repeated, unlisted and missing files are refused, and so is a signature that is "
        "wrong, or not by a trusted key where one is required. A refused archive leaves no files. "
        "For an archive that was cut off, the message gives the number of bytes and the file.\n\n"
        "An archive of 'ferry pack' begins with its manifest and is read once; another one is read "
        "twice, and cannot come from standard input.",
    .examples = "ferry unpack phone.tar.zst\n"
                "ferry unpack phone.tar.zst -o copy\n"
                "# from a pipe, without a copy on this disk\n"
                "cat phone.tar.zst | ferry unpack - -o from-pipe\n",
    .task = FY_TASK_PACKAGE,
    .run = unpack,
};
