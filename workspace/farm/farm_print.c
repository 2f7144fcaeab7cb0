/* What other schedulers run: the script for Slurm, a manifest for Kubernetes, a list of commands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "workspace/farm/farm.h"

enum { VALUE_BYTES = 32 };

/* What stands after --part or --finish. */
typedef struct {
    char text[VALUE_BYTES];
} value;

static value part_value(const char *which, uint32_t n)
{
    value v;
    snprintf(v.text, sizeof v.text, "%s/%u", which, n);
    return v;
}

static value finish_value(uint32_t n)
{
    value v;
    snprintf(v.text, sizeof v.text, "%u", n);
    return v;
}

/* One command as a line of a shell. */
static int put_command(const fy_farm_job *job, const char *option, value v, fy_str *out, fy_err *e)
{
    const char **argv = fy_farm_argv(job, option, v.text, NULL);
    if (argv == NULL)
        return fy_nomem(e);
    for (size_t i = 0; argv[i] != NULL; i++) {
        if (i > 0)
            fy_str_putc(out, ' ');
        fy_str_put_word(out, argv[i]);
    }
    fy_str_putc(out, '\n');
    free(argv);
    return 0;
}

/* --- commands --- */

static int put_commands(const fy_farm_job *job, fy_str *out, fy_err *e)
{
    char which[16];
    fy_str_printf(out, "# %u parts, in any order and on any machines that see this directory\n",
                  job->n);
    for (uint32_t i = 1; i <= job->n; i++) {
        snprintf(which, sizeof which, "%u", i);
        if (put_command(job, "--part", part_value(which, job->n), out, e) != 0)
            return -1;
    }
    fy_str_puts(out, "# when all of them have ended\n");
    return put_command(job, "--finish", finish_value(job->n), out, e);
}

/* --- Slurm --- */

/* Each option becomes a line of the script, unchanged: its quoting is the user's. */
static int put_directives(const fy_opt_list *sbatch, fy_str *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < sbatch->n; i++) {
        const char *o = sbatch->items[i];
        bool plain = o[0] == '-';
        for (const char *c = o; *c != '\0'; c++)
            plain = plain && (unsigned char)*c >= ' ' && *c != 127;
        if (!plain)
            return fy_fail(e, FY_EARG,
                           "--sbatch '%s': expected one option of sbatch, such as --partition=long",
                           fy_quote(shown, sizeof shown, fy_span_of(o)));
        fy_str_printf(out, "#SBATCH %s\n", o);
    }
    return 0;
}

/* The shell stays until ferry has ended, also when Slurm asks both to end: the status of a part is
 * in a file of the directory that farm has made, if there is one. */
int fy_farm_put_sbatch(const fy_farm_job *job, const fy_opt_list *sbatch, fy_str *out, fy_err *e)
{
    fy_str_printf(out,
                  "#!/bin/sh\n"
                  "#SBATCH --job-name=ferry-%s\n"
                  "#SBATCH --requeue\n"
                  "#SBATCH --open-mode=append\n",
                  job->verb->name);
    if (put_directives(sbatch, out, e) != 0)
        return -1;
    fy_str_printf(
        out,
        "# Submit it twice: an array makes the parts, and a job without one ends the work.\n"
        "#     job=$(sbatch --parsable --array=1-%u FILE)\n"
        "#     sbatch --dependency=afterok:$job --kill-on-invalid-dep=yes FILE\n"
        "trap : TERM\n"
        "if [ -n \"$SLURM_ARRAY_TASK_ID\" ]; then\n"
        "    dir=${1:-ferry-farm-$SLURM_ARRAY_JOB_ID}\n"
        "    name=$SLURM_ARRAY_TASK_ID\n"
        "    ",
        job->n);
    if (put_command(job, "--part", part_value("auto", job->n), out, e) != 0)
        return -1;
    fy_str_puts(out, "else\n    dir=$1\n    name=finish\n    ");
    if (put_command(job, "--finish", finish_value(job->n), out, e) != 0)
        return -1;
    fy_str_puts(out, "fi\n"
                     "status=$?\n"
                     "if [ -n \"$dir\" ] && [ -d \"$dir\" ]; then\n"
                     "    echo $status >\"$dir/$name.status\"\n"
                     "fi\n"
                     "exit $status\n");
    return 0;
}

/* --- Kubernetes --- */

/* A word as a string of YAML. In a container's command, $(NAME) would be replaced and $$ is a $. */
static int put_yaml_word(const char *word, fy_str *out, fy_err *e)
{
    fy_str text = {0};
    if (!fy_utf8_valid(word, strlen(word))) {
        char shown[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EARG, "'%s': is not UTF-8, which a manifest has to be",
                       fy_quote(shown, sizeof shown, fy_span_of(word)));
    }
    for (const char *c = word; *c != '\0'; c++) {
        fy_str_putc(&text, *c);
        if (*c == '$')
            fy_str_putc(&text, '$');
    }
    fy_json_put_string(out, (fy_span){fy_str_z(&text), text.len});
    out->oom |= text.oom;
    fy_str_release(&text);
    return 0;
}

static int put_pod(const fy_farm_job *job, const char *option, value v, const char *restart,
                   fy_str *out, fy_err *e)
{
    fy_str_printf(out,
                  "  template:\n"
                  "    spec:\n"
                  "      restartPolicy: %s\n"
                  "      containers:\n"
                  "      - name: ferry\n"
                  "        image: ferry\n"
                  "        workingDir: /data\n"
                  "        command: [\"ferry\", ",
                  restart);
    const char **argv = fy_farm_argv(job, option, v.text, NULL);
    int rc = argv != NULL ? 0 : fy_nomem(e);
    for (size_t i = 1; rc == 0 && argv[i] != NULL; i++) {
        fy_str_puts(out, i > 1 ? ", " : "");
        rc = put_yaml_word(argv[i], out, e);
    }
    free(argv);
    fy_str_puts(out, "]\n"
                     "        volumeMounts:\n"
                     "        - name: data\n"
                     "          mountPath: /data\n"
                     "      volumes:\n"
                     "      - name: data\n"
                     "        persistentVolumeClaim:\n"
                     "          claimName: data\n");
    return rc;
}

/* The end starts again until all parts are there: its command ends with status 4 before. */
static int put_kubernetes(const fy_farm_job *job, fy_str *out, fy_err *e)
{
    fy_str_printf(
        out,
        "# Two jobs: one pod for each part, and one that ends the work; it starts again until all\n"
        "# parts are there. Set the image, which has ferry in its PATH, and the claim, a volume "
        "that\n"
        "# all pods may write (ReadWriteMany).\n"
        "apiVersion: batch/v1\n"
        "kind: Job\n"
        "metadata:\n"
        "  name: ferry-%s\n"
        "spec:\n"
        "  completionMode: Indexed\n"
        "  completions: %u\n"
        "  parallelism: %u\n"
        "  backoffLimit: %u\n",
        job->verb->name, job->n, job->n, job->n * job->retries);
    if (put_pod(job, "--part", part_value("auto", job->n), "Never", out, e) != 0)
        return -1;
    fy_str_printf(out,
                  "---\n"
                  "apiVersion: batch/v1\n"
                  "kind: Job\n"
                  "metadata:\n"
                  "  name: ferry-%s-finish\n"
                  "spec:\n"
                  "  backoffLimit: 10000\n",
                  job->verb->name);
    return put_pod(job, "--finish", finish_value(job->n), "OnFailure", out, e);
}

int fy_farm_put(const fy_farm_job *job, fy_farm_print as, const fy_opt_list *sbatch, fy_str *out,
                fy_err *e)
{
    switch (as) {
    case FY_PRINT_SBATCH:
        return fy_farm_put_sbatch(job, sbatch, out, e);
    case FY_PRINT_KUBERNETES:
        return put_kubernetes(job, out, e);
    case FY_PRINT_COMMANDS:
        break;
    }
    return put_commands(job, out, e);
}
