/* ferry farm: its options, the engine that makes the parts, and sweeps. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/job_part.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/farm/farm.h"
#include "workspace/farm/sweep.h"

typedef struct {
    int engine, as, table;
    int64_t n, retries;
    fy_opt_list sbatch;
    const char *follow;
    bool detach, quiet, verbose;
    fy_opt_list words; /* after the verb */
} options;

enum { ENGINE_SLURM, ENGINE_LOCAL, ENGINE_PRINT };

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Work",
     .name = "engine",
     .kind = FY_OPT_CHOICE,
     .arg = "slurm|local|print",
     .offset = FIELD(engine),
     .def = "slurm",
     .help =
         "slurm: an array job, and a job for the end that depends on it. local: processes on this "
         "machine, as many at once as it has processors. print: nothing runs; what another "
         "scheduler needs is written to standard output."},
    {.group = "Work",
     .name = "parts",
     .alias = "j",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(n),
     .min = 1,
     .max = FY_PARTS_MAX,
     .line_only = true,
     .help = "Into how many parts the work is cut."},
    {.group = "Work",
     .name = "retries",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(retries),
     .def = "2",
     .min = 0,
     .max = 100,
     .help =
         "How often a part that failed is sent again. One that would fail in the same way, with "
         "exit status 2, 3, 4 or 6, is not."},
    {.group = "Work",
     .name = "as",
     .kind = FY_OPT_CHOICE,
     .arg = "commands|sbatch|kubernetes",
     .offset = FIELD(as),
     .line_only = true,
     .help =
         "What print writes: a list of commands (the default), the script that slurm submits, or a "
         "manifest of two jobs for Kubernetes."},
    FY_LINE_LIST(
        "Slurm", "sbatch", "OPTION", sbatch,
        "An option of sbatch for the parts and the end, as '--partition=long'. May be repeated."),
    FY_LINE_FLAG("Slurm", "detach", detach,
                 "Print the number of the job and leave it; nothing that fails is sent again until "
                 "somebody follows it."),
    FY_LINE_STR(
        "Slurm", "follow", "JOB", follow,
        "Follow a job that farm has submitted from this directory, by its number. Takes no verb."),
    FY_LINE_CHOICE("Sweep", "table", "text|csv|json|html", table,
                   "Write the table of a sweep like this: text (the default), or HTML with "
                   "charts, one page that needs nothing else."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int check_options(const options *o, int n_args, fy_err *e)
{
    if (o->follow != NULL &&
        (n_args > 0 || o->n != FY_OPT_UNSET_INT || o->detach || o->sbatch.n > 0 || o->as >= 0))
        return fy_fail(e, FY_EARG, "--follow takes no verb and no options of a new job");
    if (o->follow == NULL && n_args == 0)
        return fy_fail(e, FY_EARG,
                       "no verb: ferry farm -j N VERB ..., ferry farm FILE.json, or --follow JOB");
    if (o->as >= 0 && o->engine != ENGINE_PRINT)
        return fy_fail(e, FY_EARG, "--as is for --engine print");
    if (o->detach && o->engine != ENGINE_SLURM)
        return fy_fail(e, FY_EARG, "--detach is for --engine slurm");
    if (o->sbatch.n > 0 && o->engine == ENGINE_LOCAL)
        return fy_fail(e, FY_EARG, "--sbatch is for --engine slurm");
    return 0;
}

static int print(const fy_farm_job *job, const options *o, fy_err *e)
{
    fy_str out = {0};
    if (fy_farm_put(job, o->as >= 0 ? (fy_farm_print)o->as : FY_PRINT_COMMANDS, &o->sbatch, &out,
                    e) == 0)
        return fy_stdout_text(&out, e);
    fy_str_release(&out);
    return -1;
}

/* --- a sweep ---------------------------------------------------------------------------------- */

static int check_sweep(const options *o, fy_err *e)
{
    if (o->words.n > 0)
        return fy_fail(e, FY_EARG, "'%s': a sweep has its options in its file", o->words.items[0]);
    if (o->engine == ENGINE_PRINT || o->detach)
        return fy_fail(e, FY_EARG, "a sweep takes no --engine print and no --detach");
    if (o->sbatch.n > 0 && o->n == FY_OPT_UNSET_INT)
        return fy_fail(e, FY_EARG, "--sbatch: without -j N all is done here");
    return 0;
}

/* What verbs that have parts are given to; nothing without -j. */
static int put_farm(const options *o, fy_opt_list *words, char n[32], char retries[32], fy_err *e)
{
    snprintf(n, 32, "--parts=%lld", (long long)o->n);
    snprintf(retries, 32, "--retries=%lld", (long long)o->retries);
    if (o->n == FY_OPT_UNSET_INT)
        return 0;
    int rc = fy_opt_list_add(words, n, e);
    if (rc == 0)
        rc = fy_opt_list_add(words, retries, e);
    if (rc == 0)
        rc = fy_opt_list_add(words, o->engine == ENGINE_LOCAL ? "--engine=local" : "--engine=slurm",
                             e);
    for (size_t i = 0; rc == 0 && i < o->sbatch.n; i++) {
        rc = fy_opt_list_add(words, "--sbatch", e);
        if (rc == 0)
            rc = fy_opt_list_add(words, o->sbatch.items[i], e);
    }
    return rc;
}

static int end_sweep(const fy_sweep_result *r, int table, fy_err *e)
{
    fy_str out = {0};
    fy_log(FY_LOG_INFO, "%zu rows: %zu steps made, %zu were there", r->n, r->n_made, r->n_there);
    if (fy_sweep_put(r, table >= 0 ? (fy_sweep_format)table : FY_TABLE_TEXT, &out, e) != 0) {
        fy_str_release(&out);
        return -1;
    }
    if (fy_stdout_text(&out, e) != 0)
        return -1;
    return r->n_failed == 0
               ? 0
               : fy_fail(e, r->code, "%zu of %zu rows failed; the same command makes them again",
                         r->n_failed, r->n);
}

static int run_sweep(const options *o, const char *path, fy_err *e)
{
    fy_sweep s = {0};
    fy_sweep_result r = {0};
    fy_opt_list words = {0};
    char n[32], retries[32];
    int rc = check_sweep(o, e) != 0 || put_farm(o, &words, n, retries, e) != 0 ||
                     fy_sweep_open(path, &s, e) != 0
                 ? -1
                 : fy_sweep_run(&s, &words, &r, e);
    if (rc == 0)
        rc = end_sweep(&r, o->table, e);
    fy_sweep_result_release(&r);
    fy_sweep_release(&s);
    fy_opt_list_release(&words);
    return rc;
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    const options *o = opt;
    fy_farm_job job;
    if (check_options(o, n_args, e) != 0)
        return -1;
    if (o->follow != NULL)
        return fy_farm_follow(o->follow, e);
    if (fy_span_ends(fy_span_of(args[0]), ".json"))
        return run_sweep(o, args[0], e);
    if (o->table >= 0)
        return fy_fail(e, FY_EARG, "--table is for a sweep, ferry farm FILE.json");
    int rc = fy_farm_job_init(&job, args[0], &o->words, o->n, o->retries, e);
    if (rc == 0)
        rc = o->engine == ENGINE_PRINT   ? print(&job, o, e)
             : o->engine == ENGINE_LOCAL ? fy_farm_local(&job, e)
                                         : fy_farm_slurm(&job, &o->sbatch, o->detach, e);
    fy_farm_job_release(&job);
    return rc;
}

const fy_verb fy_verb_farm = {
    .name = "farm",
    .summary = "cut a verb's work into parts for many machines",
    .synopsis = "VERB|FILE.json [ARGUMENT...]",
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .words = FIELD(words),
    .arg_choices = "VERB=convert|quantize|compare|compile|eval",
    .task = FY_TASK_MAKE,
    .description =
        "Makes the parts of a verb that has --part and --finish, on machines that see one "
        "directory, "
        "and ends the work: the result has the bytes that one process writes. The words after the "
        "verb "
        "are the verb's own; -j and the other options of farm may stand before and after it.\n\n"
        "With Slurm, the parts are an array job of which task I makes part I, and a second job "
        "ends the "
        "work when all have succeeded. farm follows both: a bar on a terminal, a line for each "
        "change "
        "otherwise. Parts that fail are sent again, together, when the others have ended. Ctrl-C "
        "cancels "
        "both jobs; when the terminal closes they are left, and --follow rejoins. The directory "
        "ferry-farm-JOB holds what each part printed, and is removed when all is done.\n\n"
        "The exit status is 0 when the work is done, else that of the part that failed for good, "
        "or of "
        "the end; 130 also when somebody has cancelled a job. What was done is kept: the same "
        "command "
        "resumes.\n\n"
        "FILE.json instead of a verb is a sweep: several models in several types, for chips and "
        "recipes, converted, quantized, measured, planned, compiled and put into workspaces, and "
        "one table of the results on standard output. Steps that are done are not made again. With "
        "-j every step that has parts is made by the engine, without it by one process here. "
        "docs/farm.md has the file.",
    .examples = "ferry farm --engine local -j 2 quantize model-f16.gguf out.gguf q4_0\n"
                "# the script that --engine slurm submits\n"
                "ferry farm --engine print --as sbatch -j 64 convert checkpoint --outtype q4_0 -o "
                "out.gguf\n"
                "# the table of all that sweep.json names, as a page\n"
                "ferry farm sweep.json --table html >sweep.html\n",
    .run = run,
};
