/* The engine of Slurm: submits an array job for the parts and a job that ends the work, follows
 * both, and sends again what failed.
 *
 * In rounds: the array of a round has the parts that are not done, and the end depends on all of
 * it. When parts have failed, Slurm drops that end, and the next round begins. An array is held
 * until everything else of its round is there, so that nothing runs of what was half submitted. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/terminal.h"
#include "workspace/farm/farm.h"
#include "workspace/farm/farm_parts.h"
#include "workspace/farm/slurm_call.h"
#include "workspace/farm/slurm_state.h"
#include "workspace/farm/slurm_text.h"

enum {
    DIR_BYTES = 48,
    PATH_BYTES = DIR_BYTES + 32,
    TAIL = 4096,
    RESULT_MOST = 64 << 20, /* bytes of what the end prints */
    PATIENCE_S = 60,        /* how long cancelled jobs may take to end */
};

typedef struct {
    fy_slurm_state s;
    fy_farm_parts parts;
    char dir[DIR_BYTES];
    bool is_silent; /* slurmctld does not answer, and that was reported */
} farm;

static void put_dir(char out[DIR_BYTES], uint32_t job)
{
    snprintf(out, DIR_BYTES, "ferry-farm-%u", job);
}

/* --- submitting --- */

/* dir: where the script is now; the directory has its final name once the array has its number. */
static int submit_array(farm *f, const char *dir, fy_err *e)
{
    char script[PATH_BYTES], output[PATH_BYTES];
    fy_str tasks = {0};
    const bool first = f->dir[0] == '\0';
    fy_slurm_put_tasks(f->s.set, f->s.n, &tasks);
    f->s.array = 0;
    if (tasks.len == 0 && !tasks.oom)
        return 0;
    snprintf(script, sizeof script, "%s/script", dir);
    snprintf(output, sizeof output, "%s/%%a.log", first ? "ferry-farm-%A" : f->dir);
    const fy_slurm_order order = {.script = script,
                                  .argument = first ? NULL : f->dir,
                                  .array = fy_str_z(&tasks),
                                  .output = output,
                                  .held = true};
    const int rc = tasks.oom ? fy_nomem(e) : fy_slurm_submit(&order, &f->s.array, e);
    fy_str_release(&tasks);
    return rc;
}

static int submit_end(farm *f, fy_err *e)
{
    char script[PATH_BYTES], output[PATH_BYTES], error[PATH_BYTES], dependency[PATH_BYTES];
    snprintf(script, sizeof script, "%s/script", f->dir);
    snprintf(output, sizeof output, "%s/finish.out", f->dir);
    snprintf(error, sizeof error, "%s/finish.log", f->dir);
    snprintf(dependency, sizeof dependency, "afterok:%u", f->s.array);
    const fy_slurm_order order = {.script = script,
                                  .argument = f->dir,
                                  .dependency = f->s.array != 0 ? dependency : NULL,
                                  .output = output,
                                  .error = error};
    return fy_slurm_submit(&order, &f->s.end, e);
}

static int name_dir(farm *f, const char *dir, fy_err *e)
{
    put_dir(f->dir, f->s.array);
    if (rename(dir, f->dir) == 0)
        return 0;
    fy_fail_errno(e, "%s: cannot be made, which is for what job %u writes", f->dir, f->s.array);
    f->dir[0] = '\0';
    return -1;
}

/* The parts that are set and the end. dir: as submit_array. */
static int submit_round(farm *f, const char *dir, fy_err *e)
{
    f->s.end = 0;
    if (submit_array(f, dir, e) != 0)
        return -1;
    int rc = f->dir[0] != '\0' ? 0 : name_dir(f, dir, e);
    if (rc == 0)
        rc = submit_end(f, e);
    if (rc == 0)
        rc = fy_slurm_state_write(&f->s, f->dir, e);
    if (rc == 0 && f->s.array != 0)
        rc = fy_slurm_release(f->s.array, e);
    if (rc != 0)
        fy_slurm_cancel(f->s.array, f->s.end, NULL);
    return rc;
}

/* Clears what the parts of the round left in an earlier one. */
static void forget_round(const farm *f)
{
    for (uint32_t i = 1; i <= f->s.n; i++) {
        if (f->s.set[i])
            fy_slurm_status_forget(f->dir, i);
    }
    fy_slurm_status_forget(f->dir, 0);
}

/* --- what Slurm reports --- */

/* By the file of a part of which Slurm knows nothing any more. */
static void set_by_file(farm *f, uint32_t i)
{
    const int status = fy_slurm_status_of(f->dir, i);
    const bool done = status == 0 || (status < 0 && f->parts.part[i].state == FY_PART_DONE);
    fy_farm_parts_set(&f->parts, i, done ? FY_PART_DONE : FY_PART_FAILED, status, (fy_span){0});
}

/* Slurm could not start it ("launch failed requeued held"), and it would wait for ever. */
static bool is_stuck(const fy_slurm_row *row)
{
    return row->state == FY_PART_WAITING && row->why.len > 0 &&
           memmem(row->why.ptr, row->why.len, "requeued", 8) != NULL &&
           memmem(row->why.ptr, row->why.len, "held", 4) != NULL;
}

static void set_by_row(farm *f, uint32_t i, const fy_slurm_row *row)
{
    const bool stuck = i > 0 && is_stuck(row);
    if (row->state == FY_PART_CANCELLED && f->parts.part[i].state == FY_PART_FAILED)
        return; /* as below, by farm itself */
    if (stuck)
        fy_slurm_cancel_task(f->s.array, i, NULL);
    const fy_part_state state = stuck ? FY_PART_FAILED : row->state;
    const int status = state == FY_PART_FAILED ? fy_slurm_status_of(f->dir, i) : -1;
    fy_farm_parts_set(&f->parts, i, state, status,
                      state == FY_PART_WAITING || stuck ? row->why : row->node);
}

static int set_rows(farm *f, fy_span rows, bool *seen, fy_err *e)
{
    fy_slurm_row row, end = {0};
    bool has_end = false;
    int got;
    while ((got = fy_slurm_next_row(&rows, &row, e)) == 1) {
        if (row.job == f->s.array && row.task >= 1 && row.task <= f->s.n && f->s.set[row.task]) {
            seen[row.task] = true;
            set_by_row(f, row.task, &row);
        } else if (row.job == f->s.end && row.task == 0) {
            has_end = true;
            end = row;
        }
    }
    if (got < 0)
        return -1;
    for (uint32_t i = 1; i <= f->s.n; i++) {
        if (f->s.set[i] && !seen[i])
            set_by_file(f, i);
    }
    /* Before that, its state is what Slurm makes of the parts that failed. */
    if (fy_farm_parts_count(&f->parts, FY_PART_DONE) == f->s.n) {
        if (has_end)
            set_by_row(f, 0, &end);
        else
            set_by_file(f, 0);
    }
    return 0;
}

/* 0: asked and understood; 1: Slurm does not answer, which is reported once. */
static int ask(farm *f, fy_err *e)
{
    fy_str rows = {0}, text = {0};
    fy_err why = {0};
    bool *seen = calloc((size_t)f->s.n + 1, sizeof *seen);
    if (seen == NULL)
        return fy_nomem(e);
    int rc = fy_slurm_rows(f->s.array, f->s.end, &rows, &why);
    if (rc == 0)
        rc = set_rows(f, (fy_span){fy_str_z(&rows), rows.len}, seen, &why);
    if (rc != 0 && why.code == FY_EIO) {
        fy_str_printf(&text, "%s; it is asked again", why.msg);
        if (!f->is_silent)
            fy_farm_parts_note(&f->parts, FY_LOG_WARN, fy_str_z(&text));
        rc = 1;
    } else if (rc != 0 && why.code != FY_EINTR) {
        fy_fail(e, why.code, "%s (the jobs still run)", why.msg);
    }
    if (rc == 0 && f->is_silent)
        fy_farm_parts_note(&f->parts, FY_LOG_INFO, "Slurm answers again");
    f->is_silent = rc == 1;
    fy_str_release(&text);
    fy_str_release(&rows);
    free(seen);
    return rc;
}

/* --- what follows --- */

typedef enum { GOES_ON, ALL_DONE, GIVEN_UP } verdict;

/* The first part in this state, n + 1 when there is none. */
static uint32_t first_in(const farm *f, fy_part_state state)
{
    uint32_t i = 1;
    while (i <= f->s.n && f->parts.part[i].state != state)
        i++;
    return i;
}

/* What the end printed is the result of the work. */
static int show_result(const farm *f, fy_err *e)
{
    fy_str out = {0};
    fy_slurm_tail_of(f->dir, "finish.out", RESULT_MOST, &out);
    return fy_stdout_text(&out, e);
}

static verdict give_up(farm *f, uint32_t i, fy_err *e)
{
    char name[32];
    fy_str tail = {0};
    snprintf(name, sizeof name, i == 0 ? "finish.log" : "%u.log", i);
    f->parts.part[i].retries = f->s.round;
    if (i == 0 && f->parts.part[0].status == 4) /* a comparison, whose result that is */
        show_result(f, NULL);
    fy_slurm_cancel(f->s.array, f->s.end, NULL);
    fy_slurm_tail_of(f->dir, name, TAIL, &tail);
    fy_farm_parts_fail(&f->parts, i, (fy_span){fy_str_z(&tail), tail.len}, f->dir, e);
    fy_str_release(&tail);
    return GIVEN_UP;
}

static verdict was_cancelled(farm *f, uint32_t i, fy_err *e)
{
    char name[FY_PART_NAME_BYTES];
    fy_slurm_cancel(f->s.array, f->s.end, NULL);
    fy_fail(e, FY_EINTR, "%s was cancelled; the same command resumes",
            fy_farm_part_name(&f->parts, i, name));
    return GIVEN_UP;
}

/* The parts that failed once more, and the end; or the end alone. */
static verdict next_round(farm *f, fy_err *e)
{
    fy_str tasks = {0}, text = {0};
    for (uint32_t i = 1; i <= f->s.n; i++) {
        f->s.set[i] = f->parts.part[i].state == FY_PART_FAILED;
        if (f->s.set[i])
            f->parts.part[i].state = FY_PART_WAITING;
    }
    fy_slurm_put_tasks(f->s.set, f->s.n, &tasks);
    fy_str_printf(&text, "%s %s again: try %u of %u", tasks.len > 0 ? "parts" : "the end is sent",
                  tasks.len > 0 ? fy_str_z(&tasks) : "", f->s.round + 2, f->s.retries + 1);
    fy_farm_parts_note(&f->parts, FY_LOG_INFO, fy_str_z(&text));
    fy_str_release(&text);
    fy_str_release(&tasks);
    fy_slurm_cancel(0, f->s.end, NULL);
    forget_round(f);
    f->s.round++;
    f->parts.part[0].state = FY_PART_WAITING;
    return submit_round(f, f->dir, e) == 0 ? GOES_ON : GIVEN_UP;
}

static verdict check_round(farm *f, fy_err *e)
{
    const uint32_t n = f->s.n, failed = first_in(f, FY_PART_FAILED),
                   cancelled = first_in(f, FY_PART_CANCELLED);
    if (first_in(f, FY_PART_WAITING) <= n || first_in(f, FY_PART_RUNNING) <= n)
        return GOES_ON;
    if (cancelled <= n)
        return was_cancelled(f, cancelled, e);
    const uint32_t i = failed <= n ? failed : 0;
    switch (f->parts.part[i].state) {
    case FY_PART_DONE:
        return ALL_DONE;
    case FY_PART_CANCELLED:
        return was_cancelled(f, i, e);
    case FY_PART_FAILED:
        return f->s.round >= f->s.retries || fy_farm_is_final(f->parts.part[i].status)
                   ? give_up(f, i, e)
                   : next_round(f, e);
    case FY_PART_WAITING:
    case FY_PART_RUNNING:
        break;
    }
    return GOES_ON;
}

/* --- following --- */

/* A second at first, ten later; less when a signal comes. */
static void wait_a_while(double seconds)
{
    const double until = fy_now_s() + seconds;
    while (!fy_interrupted && fy_now_s() < until)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static bool has_active(const farm *f)
{
    return first_in(f, FY_PART_WAITING) <= f->s.n || first_in(f, FY_PART_RUNNING) <= f->s.n;
}

/* Ctrl-C ends the jobs; the end of the terminal leaves them. */
static int stop(farm *f, fy_err *e)
{
    if (fy_signals_take() == SIGHUP)
        return fy_fail(e, FY_EINTR, "left while it runs; ferry farm --follow %s",
                       strrchr(f->dir, '-') + 1);
    fy_farm_parts_note(&f->parts, FY_LOG_INFO, "cancelling the jobs");
    if (fy_slurm_cancel(f->s.array, f->s.end, e) != 0)
        return fy_ctx(e, "the jobs still run (scancel %u %u)", f->s.array, f->s.end);
    const double begin = fy_now_s();
    do {
        wait_a_while(1);
    } while (!fy_interrupted && fy_now_s() - begin < PATIENCE_S &&
             (ask(f, NULL) != 0 || has_active(f)));
    return fy_fail(e, FY_EINTR, "interrupted: %u of %u parts are done; the same command resumes",
                   fy_farm_parts_count(&f->parts, FY_PART_DONE), f->s.n);
}

static int follow(farm *f, fy_err *e)
{
    double pause = 1;
    verdict v = GOES_ON;
    while (v == GOES_ON) {
        const int rc = fy_interrupted ? 1 : ask(f, e);
        if (rc < 0 && !fy_interrupted)
            return -1;
        if (fy_interrupted)
            return stop(f, e);
        if (rc == 0)
            v = check_round(f, e);
        fy_farm_parts_draw(&f->parts);
        if (v == GOES_ON)
            wait_a_while(pause);
        pause = pause < 10 ? pause * 1.2 : 10;
    }
    if (v == GIVEN_UP)
        return -1;
    const uint32_t n = f->s.n;
    fy_farm_parts_release(&f->parts);
    fy_log(FY_LOG_INFO, "all %u parts and the end are done", n);
    if (show_result(f, e) != 0)
        return -1;
    fy_tree_remove(f->dir);
    return 0;
}

static void release(farm *f)
{
    fy_farm_parts_release(&f->parts);
    fy_slurm_state_release(&f->s);
}

/* --- the ways in --- */

static int write_script(const fy_farm_job *job, const fy_opt_list *sbatch, const char *dir,
                        fy_err *e)
{
    char path[PATH_BYTES];
    fy_str text = {0};
    snprintf(path, sizeof path, "%s/script", dir);
    int rc = fy_farm_put_sbatch(job, sbatch, &text, e);
    if (rc == 0)
        rc = text.oom ? fy_nomem(e) : fy_file_write(path, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

int fy_farm_slurm(const fy_farm_job *job, const fy_opt_list *sbatch, bool detach, fy_err *e)
{
    farm f = {0};
    char dir[] = "ferry-farm-XXXXXX";
    fy_str number = {0};
    if (mkdtemp(dir) == NULL)
        return fy_fail_errno(e,
                             "%s: cannot be made here; the working directory has to be one that "
                             "the nodes see and write",
                             dir);
    int rc = 0;
    if ((fy_slurm_state_init(&f.s, job->n, job->retries, e) != 0 ||
         fy_farm_parts_init(&f.parts, job->n, e) != 0 || write_script(job, sbatch, dir, e) != 0))
        rc = -1;
    if (rc == 0)
        rc = submit_round(&f, dir, e);
    if (rc != 0) {
        fy_tree_remove(f.dir[0] != '\0' ? f.dir : dir);
    } else if (detach) {
        fy_str_printf(&number, "%u\n", f.s.array);
        rc = fy_stdout_text(&number, e);
    } else {
        fy_log(FY_LOG_INFO,
               "job %u: %u parts, and job %u for the end; to rejoin: ferry farm --follow %u",
               f.s.array, job->n, f.s.end, f.s.array);
        rc = follow(&f, e);
    }
    release(&f);
    return rc;
}

int fy_farm_follow(const char *number, fy_err *e)
{
    farm f = {0};
    uint32_t job;
    char shown[FY_QUOTE_BYTES];
    if (!fy_slurm_number(fy_span_of(number), &job))
        return fy_fail(e, FY_EARG, "--follow %s: expected the number of a job",
                       fy_quote(shown, sizeof shown, fy_span_of(number)));
    put_dir(f.dir, job);
    if (!fy_file_is_dir(f.dir))
        return fy_fail(
            e, FY_EARG,
            "--follow %u: there is no %s here: it has ended, or was submitted in another "
            "directory",
            job, f.dir);
    if (fy_slurm_state_read(&f.s, f.dir, e) != 0)
        return -1;
    int rc = fy_farm_parts_init(&f.parts, f.s.n, e);
    for (uint32_t i = 1; rc == 0 && i <= f.s.n; i++)
        f.parts.part[i].state = f.s.set[i] ? FY_PART_WAITING : FY_PART_DONE;
    if (rc == 0)
        rc = follow(&f, e);
    release(&f);
    return rc;
}
