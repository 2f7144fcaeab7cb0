/* Runs sbatch, scontrol, scancel and squeue. */
#include "workspace/farm/slurm_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "workspace/farm/farm.h"
#include "workspace/farm/slurm_text.h"

extern char **environ;

enum { OUTPUT_MOST = 64 << 20, ERROR_MOST = 64 << 10, WORDS_MAX = 16, OPTION_BYTES = 64 };

/* Filters of squeue and scancel would hide rows; a job that ferry is part of would lend its number
 * to the ones that it submits; and sbatch is not to wait. */
static const char *const dropped[] = {"SQUEUE_",      "SCANCEL_",          "SLURM_ARRAY_",
                                      "SBATCH_WAIT=", "SBATCH_ARRAY_INX=", "SBATCH_TEST_ONLY="};

static bool is_dropped(const char *variable)
{
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        if (strncmp(variable, dropped[i], strlen(dropped[i])) == 0)
            return true;
    }
    return false;
}

static char **environment(void)
{
    size_t n = 0;
    for (char **v = environ; *v != NULL; v++)
        n++;
    char **env = calloc(n + 1, sizeof *env);
    n = 0;
    for (char **v = environ; env != NULL && *v != NULL; v++) {
        if (!is_dropped(*v))
            env[n++] = *v;
    }
    return env;
}

static int call(const char *const *argv, bool whole, fy_str *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES * 4];
    fy_str text = {0};
    int status = 0;
    char **env = environment();
    int rc = env == NULL ? fy_nomem(e)
                         : fy_child_run(argv, env, whole, out != NULL ? OUTPUT_MOST : ERROR_MOST,
                                        out, &text, &status, e);
    free(env);
    if (rc == 0 && status != 0) {
        const fy_span last = fy_farm_last_line((fy_span){fy_str_z(&text), text.len});
        rc = fy_fail(e, FY_EIO, "%s: %s", argv[0],
                     last.len > 0 ? fy_quote(shown, sizeof shown, last)
                                  : "failed without a message");
    }
    fy_str_release(&text);
    return rc;
}

int fy_slurm_submit(const fy_slurm_order *o, uint32_t *job, fy_err *e)
{
    const char *argv[WORDS_MAX] = {"sbatch", "--parsable"};
    size_t n = 2;
    const struct {
        const char *name, *value;
    } options[] = {{"--array", o->array},
                   {"--dependency", o->dependency},
                   {"--output", o->output},
                   {"--error", o->error}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].value != NULL) {
            argv[n++] = options[i].name;
            argv[n++] = options[i].value;
        }
    }
    if (o->held)
        argv[n++] = "--hold";
    if (o->dependency != NULL)
        argv[n++] = "--kill-on-invalid-dep=yes";
    argv[n++] = o->script;
    argv[n++] = o->argument;
    fy_str out = {0};
    int rc = call(argv, true, &out, e);
    if (rc == 0)
        rc = fy_slurm_job_number((fy_span){fy_str_z(&out), out.len}, job, e);
    fy_str_release(&out);
    return rc;
}

int fy_slurm_release(uint32_t job, fy_err *e)
{
    char number[OPTION_BYTES];
    snprintf(number, sizeof number, "%u", job);
    const char *const argv[] = {"scontrol", "release", number, NULL};
    return call(argv, true, NULL, e);
}

int fy_slurm_cancel(uint32_t a, uint32_t b, fy_err *e)
{
    char first[OPTION_BYTES], second[OPTION_BYTES];
    const char *argv[] = {"scancel", "--quiet", NULL, NULL, NULL};
    size_t n = 2;
    snprintf(first, sizeof first, "%u", a);
    snprintf(second, sizeof second, "%u", b);
    if (a != 0)
        argv[n++] = first;
    if (b != 0)
        argv[n++] = second;
    return n > 2 ? call(argv, true, NULL, e) : 0;
}

int fy_slurm_cancel_task(uint32_t array, uint32_t task, fy_err *e)
{
    char name[OPTION_BYTES];
    snprintf(name, sizeof name, "%u_%u", array, task);
    const char *const argv[] = {"scancel", "--quiet", name, NULL};
    return call(argv, true, NULL, e);
}

/* Of two numbers squeue leaves out those that it does not know; a single one would be an error. */
int fy_slurm_rows(uint32_t a, uint32_t b, fy_str *rows, fy_err *e)
{
    char jobs[OPTION_BYTES];
    snprintf(jobs, sizeof jobs, "%u,%u", a != 0 ? a : b, b);
    const char *const argv[] = {"squeue",         "-h", "-r", "-t", "all", "-o",
                                FY_SQUEUE_FORMAT, "-j", jobs, NULL};
    fy_err why = {0};
    if (call(argv, false, rows, &why) == 0)
        return 0;
    if (strstr(why.msg, "Invalid job id") != NULL) {
        fy_str_clear(rows);
        return 0;
    }
    return fy_fail(e, why.code, "%s", why.msg);
}
