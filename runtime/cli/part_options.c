/* Reads --part and --finish, finds the command that makes a part, and shows how work is shared. */
#include "cli/part_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* The words of this process: a missing part is made by what was typed. */
static void put_command(fy_str *out)
{
    char *word = NULL;
    size_t cap = 0;
    FILE *f = fopen("/proc/self/cmdline", "re");
    bool skip = false;
    while (f != NULL && getdelim(&word, &cap, '\0', f) > 0) {
        const bool is_finish = strcmp(word, "--finish") == 0;
        if (!skip && !is_finish && strncmp(word, "--finish=", 9) != 0) {
            if (out->len > 0)
                fy_str_putc(out, ' ');
            fy_str_put_word(out, word);
        }
        skip = is_finish;
    }
    free(word);
    if (f != NULL)
        fclose(f);
}

int fy_part_options_read(const char *part, int64_t finish, fy_part_options *out, fy_err *e)
{
    *out = (fy_part_options){0};
    if (part != NULL && finish > 0)
        return fy_fail(e, FY_EARG, "--part and --finish: expected one of them");
    if (finish <= 0)
        return fy_job_part_parse(part, &out->part, e);
    out->part = (fy_job_part){1, (uint32_t)finish};
    out->finishes = true;
    put_command(&out->command);
    return out->command.oom ? fy_nomem(e) : 0;
}

void fy_part_options_release(fy_part_options *p)
{
    fy_str_release(&p->command);
}

int fy_part_say_done(const fy_part_options *p, const char *out, double seconds)
{
    if (p->finishes)
        fy_log(FY_LOG_INFO, "%s: all %u parts are there", out, p->part.n);
    else
        fy_log(FY_LOG_INFO, "%s: part %u of %u is done, %.1f s; when all are: --finish %u", out,
               p->part.i, p->part.n, seconds, p->part.n);
    return 0;
}

void fy_part_show(const uint64_t *work, uint32_t n, double seconds, fy_str *out)
{
    uint64_t all = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        all += work[i];
        most = work[i] > most ? work[i] : most;
    }
    const double mean = (double)all / n;
    fy_str_printf(out,
                  "%u parts read and write %.1f MB each on average, the largest %.1f MB: %.3f of "
                  "that\n",
                  n, mean * 1e-6, (double)most * 1e-6, mean > 0 ? (double)most / mean : 1);
    if (seconds >= 0 && all > 0)
        fy_str_printf(out, "all at once about %.1f s, one after the other %.1f s\n",
                      seconds * (double)most / (double)all, seconds);
}
