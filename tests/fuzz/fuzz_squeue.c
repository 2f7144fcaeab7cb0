/* What Slurm's commands print, and the file in which farm keeps a job: rows that are accepted have
 * numbers above 0 and views into the text; messages have nothing of it that acts on a terminal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/farm/slurm_state.h"
#include "workspace/farm/slurm_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const fy_err *e)
{
    if (e->code == FY_OK || e->msg[0] == '\0' || strpbrk(e->msg, "\033\r\n\a\b") != NULL)
        abort();
}

static void check_rows(fy_span text)
{
    fy_slurm_row row;
    fy_err e = {0};
    fy_span rest = text;
    int got;
    while ((got = fy_slurm_next_row(&rest, &row, &e)) == 1) {
        if (row.job == 0 || row.node.ptr < text.ptr ||
            row.why.ptr + row.why.len > text.ptr + text.len)
            abort();
    }
    if (got < 0)
        check_message(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fy_span text = {(const char *)data, size};
    fy_slurm_state s;
    fy_err e = {0};
    uint32_t job;
    check_rows(text);
    if (fy_slurm_job_number(text, &job, &e) != 0)
        check_message(&e);
    e = (fy_err){0};
    if (fy_slurm_state_parse(&s, text, &e) != 0)
        check_message(&e);
    fy_slurm_state_release(&s);
    return 0;
}
