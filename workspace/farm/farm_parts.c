/* Keeps the state of each part, and shows the user how it changes. */
#include "workspace/farm/farm_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "workspace/farm/farm.h"

int fy_farm_parts_init(fy_farm_parts *p, uint32_t n, fy_err *e)
{
    *p = (fy_farm_parts){.part = calloc((size_t)n + 1, sizeof *p->part), .n = n};
    if (p->part == NULL)
        return fy_nomem(e);
    const fy_log_level level = fy_log_show(FY_LOG_INFO);
    fy_log_show(level);
    p->bar = level >= FY_LOG_INFO && fy_terminal(STDERR_FILENO);
    return 0;
}

static void clear(fy_farm_parts *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

void fy_farm_parts_release(fy_farm_parts *p)
{
    clear(p);
    free(p->part);
    *p = (fy_farm_parts){0};
}

uint32_t fy_farm_parts_count(const fy_farm_parts *p, fy_part_state state)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i <= p->n; i++)
        n += p->part[i].state == state;
    return n;
}

void fy_farm_parts_draw(fy_farm_parts *p)
{
    enum { WIDTH = 24, LINE = 160 };
    if (!p->bar)
        return;
    const uint32_t done = fy_farm_parts_count(p, FY_PART_DONE),
                   running = fy_farm_parts_count(p, FY_PART_RUNNING);
    char bar[WIDTH + 1], line[LINE];
    for (uint32_t i = 0; i < WIDTH; i++)
        bar[i] = (uint64_t)i * p->n < (uint64_t)done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    if (done == p->n)
        snprintf(line, sizeof line, "parts [%s] all %u are done, the end is %s", bar, p->n,
                 p->part[0].state == FY_PART_RUNNING ? "running" : "waiting");
    else
        snprintf(line, sizeof line, "parts [%s] %u of %u done, %u running", bar, done, p->n,
                 running);
    /* A line that wraps could not be drawn over. */
    const int columns = fy_terminal_columns(STDERR_FILENO, LINE);
    if ((size_t)columns <= strlen(line))
        line[columns - 1] = '\0';
    fprintf(stderr, "\r%s\033[K", line);
    p->drawn = true;
}

void fy_farm_parts_note(fy_farm_parts *p, fy_log_level level, const char *text)
{
    clear(p);
    fy_log(level, "%s", text);
    fy_farm_parts_draw(p);
}

const char *fy_farm_part_name(const fy_farm_parts *p, uint32_t i, char out[FY_PART_NAME_BYTES])
{
    if (i == 0)
        snprintf(out, FY_PART_NAME_BYTES, "the end");
    else
        snprintf(out, FY_PART_NAME_BYTES, "part %u of %u", i, p->n);
    return out;
}

/* " with exit status 6", or nothing. */
static void put_status(int status, fy_str *out)
{
    if (status > 128 && status != 130)
        fy_str_printf(out, ": signal %d", status - 128);
    else if (status >= 0)
        fy_str_printf(out, ": exit status %d", status);
}

void fy_farm_parts_set(fy_farm_parts *p, uint32_t i, fy_part_state state, int status, fy_span about)
{
    static const char *const what[] = {"waits again", "is running", "is done", "failed",
                                       "was cancelled"};
    char name[FY_PART_NAME_BYTES], node[FY_QUOTE_BYTES];
    fy_farm_part *one = &p->part[i];
    const size_t n = about.len < sizeof one->where ? about.len : sizeof one->where - 1;
    const bool same =
        one->state == state && (state != FY_PART_RUNNING || n == 0 ||
                                (strncmp(one->where, about.ptr, n) == 0 && one->where[n] == '\0'));
    one->state = state;
    one->status = status;
    if (same)
        return;
    memcpy(one->where, n > 0 ? about.ptr : "", n);
    one->where[n] = '\0';
    fy_str text = {0};
    fy_str_printf(&text, "%s %s", fy_farm_part_name(p, i, name), what[state]);
    if (about.len > 0)
        fy_str_printf(&text, " (%s)", fy_quote(node, sizeof node, about));
    if (state == FY_PART_FAILED)
        put_status(status, &text);
    fy_farm_parts_note(p, p->bar && state != FY_PART_FAILED ? FY_LOG_DEBUG : FY_LOG_INFO,
                       fy_str_z(&text));
    fy_str_release(&text);
}

int fy_farm_parts_fail(fy_farm_parts *p, uint32_t i, fy_span log, const char *logs, fy_err *e)
{
    enum { SHOWN = 240 };
    char name[FY_PART_NAME_BYTES], shown[SHOWN];
    const fy_farm_part *one = &p->part[i];
    fy_str status = {0};
    const fy_span last = fy_farm_last_line(log);
    put_status(one->status, &status);
    clear(p);
    fy_fail(e, fy_farm_code(one->status), "%s failed%s%s%s%s%s%s", fy_farm_part_name(p, i, name),
            one->retries > 0 ? ", as often as it was sent" : "", fy_str_z(&status),
            last.len > 0 ? ": " : "", last.len > 0 ? fy_quote(shown, sizeof shown, last) : "",
            logs != NULL ? "; more in " : "", logs != NULL ? logs : "");
    fy_str_release(&status);
    return -1;
}
