/* Reads the output of sbatch and squeue. */
#include "workspace/farm/slurm_text.h"

#include <string.h>

bool fy_slurm_number(fy_span text, uint32_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        v = 10 * v + (uint64_t)(text.ptr[i] - '0');
        if (v > UINT32_MAX)
            return false;
    }
    *out = (uint32_t)v;
    return v > 0;
}

/* What stands before the separator; *rest is what stands after it. The whole text without one. */
static fy_span cut_at(fy_span *rest, char separator)
{
    const char *at = rest->len > 0 ? memchr(rest->ptr, separator, rest->len) : NULL;
    const size_t n = at != NULL ? (size_t)(at - rest->ptr) : rest->len;
    const fy_span before = {rest->ptr, n};
    const size_t used = n + (at != NULL);
    *rest = (fy_span){rest->ptr + used, rest->len - used};
    return before;
}

int fy_slurm_job_number(fy_span text, uint32_t *job, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span rest = text, line = fy_span_cut_line(&rest);
    if (fy_slurm_number(cut_at(&line, ';'), job))
        return 0;
    return fy_fail(e, FY_EFORMAT, "sbatch printed '%s', expected the number of a job",
                   fy_quote(shown, sizeof shown, text));
}

/* Those that end a job; the base states of slurm.h. */
static const struct {
    const char *name;
    fy_part_state state;
} states[] = {
    {"PENDING", FY_PART_WAITING},      {"REQUEUED", FY_PART_WAITING},
    {"REQUEUE_HOLD", FY_PART_WAITING}, {"REQUEUE_FED", FY_PART_WAITING},
    {"SPECIAL_EXIT", FY_PART_WAITING}, {"COMPLETED", FY_PART_DONE},
    {"FAILED", FY_PART_FAILED},        {"TIMEOUT", FY_PART_FAILED},
    {"NODE_FAIL", FY_PART_FAILED},     {"OUT_OF_MEMORY", FY_PART_FAILED},
    {"BOOT_FAIL", FY_PART_FAILED},     {"DEADLINE", FY_PART_FAILED},
    {"PREEMPTED", FY_PART_FAILED},     {"LAUNCH_FAILED", FY_PART_FAILED},
    {"RECONFIG_FAIL", FY_PART_FAILED}, {"CANCELLED", FY_PART_CANCELLED},
    {"REVOKED", FY_PART_CANCELLED},
};

/* Of others (COMPLETING, SUSPENDED, those of a later version) the job has not ended yet. */
static fy_part_state state_of(fy_span name)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (fy_span_is(name, states[i].name))
            return states[i].state;
    }
    return FY_PART_RUNNING;
}

int fy_slurm_next_row(fy_span *rest, fy_slurm_row *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (rest->len == 0)
        return 0;
    const fy_span line = fy_span_cut_line(rest);
    fy_span left = line;
    const fy_span job = cut_at(&left, '|'), task = cut_at(&left, '|'), state = cut_at(&left, '|'),
                  node = cut_at(&left, '|');
    *out = (fy_slurm_row){.state = state_of(state), .node = node, .why = left};
    if (state.len == 0 || !fy_slurm_number(job, &out->job) ||
        (!fy_span_is(task, "N/A") && !fy_slurm_number(task, &out->task)))
        return fy_fail(e, FY_EFORMAT, "squeue printed '%s', expected JOB|TASK|STATE|NODE|REASON",
                       fy_quote(shown, sizeof shown, line));
    return 1;
}

void fy_slurm_put_tasks(const bool *set, uint32_t n, fy_str *out)
{
    const size_t begin = out->len;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t last = i;
        if (!set[i])
            continue;
        while (last < n && set[last + 1])
            last++;
        fy_str_printf(out, "%s%u", out->len > begin ? "," : "", i);
        if (last > i)
            fy_str_printf(out, "-%u", last);
        i = last;
    }
}
