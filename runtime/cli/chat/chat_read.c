#include "cli/chat/chat_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/signals.h"

void fy_chat_reader_release(fy_chat_reader *r)
{
    fy_str_release(&r->bytes);
}

/* What poll has seen at a terminal may be gone: Ctrl-C empties its input. Waiting for more here
 * would miss that it was pressed. */
static ssize_t read_ready(int fd, char *buf, size_t n)
{
    const int flags = isatty(fd) ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    const ssize_t got = read(fd, buf, n);
    const int err = errno;
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags);
    errno = err;
    return got;
}

static int read_more(fy_chat_reader *r, fy_err *e)
{
    char buf[4096];
    if (r->at > 0) {
        memmove(r->bytes.ptr, r->bytes.ptr + r->at, r->bytes.len - r->at);
        r->bytes.len -= r->at;
        r->at = 0;
    }
    if (r->bytes.len > FY_CHAT_LINE_MAX_BYTES)
        return fy_fail(e, FY_EFIT, "standard input: a line of more than %u MB",
                       FY_CHAT_LINE_MAX_BYTES >> 20);
    if (fy_signals_wait_input(r->fd, NULL) != 0)
        return fy_check_interrupt(e);
    ssize_t n = read_ready(r->fd, buf, sizeof buf);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return fy_fail_errno(e, "standard input: cannot read");
    r->ended = n == 0;
    if (n > 0)
        fy_str_add(&r->bytes, buf, (size_t)n);
    return r->bytes.oom ? fy_nomem(e) : 0;
}

int fy_chat_read_line(fy_chat_reader *r, fy_str *line, fy_err *e)
{
    size_t seen = 0; /* bytes from r->at on without a newline */
    for (;;) {
        size_t n = r->bytes.len - r->at;
        const char *begin = n > 0 ? r->bytes.ptr + r->at : "";
        const char *end = n > seen ? memchr(begin + seen, '\n', n - seen) : NULL;
        if (end != NULL || (r->ended && n > 0)) {
            size_t len = end != NULL ? (size_t)(end - begin) : n;
            r->at += len + (end != NULL);
            len -= len > 0 && begin[len - 1] == '\r';
            fy_str_clear(line);
            fy_str_add(line, begin, len);
            return line->oom ? fy_nomem(e) : 1;
        }
        if (r->ended)
            return 0;
        seen = n;
        if (read_more(r, e) != 0)
            return -1;
    }
}

/* --- messages of several lines --------------------------------------------------------------- */

void fy_chat_gather_clear(fy_chat_gather *g)
{
    fy_str_clear(&g->text);
    g->block = g->begun = false;
}

static bool starts_with_quotes(fy_span s)
{
    return s.len >= 3 && memcmp(s.ptr, "\"\"\"", 3) == 0;
}

static bool ends_with_quotes(fy_span s)
{
    return s.len >= 3 && memcmp(s.ptr + s.len - 3, "\"\"\"", 3) == 0;
}

static bool goes_on(fy_span s)
{
    return s.len > 0 && s.ptr[s.len - 1] == '\\' && !(s.len > 1 && s.ptr[s.len - 2] == '\\');
}

bool fy_chat_gather_line(fy_chat_gather *g, fy_span line)
{
    bool first = !g->begun;
    if (first && starts_with_quotes(line)) {
        g->block = true;
        line = (fy_span){line.ptr + 3, line.len - 3};
    }
    bool open = g->block ? !ends_with_quotes(line) : goes_on(line);
    size_t n = g->block ? (open ? line.len : line.len - 3) : line.len - open;
    bool empty_first_of_block = g->block && first && n == 0;
    bool empty_last_of_block = g->block && !open && n == 0;
    if (!first && !empty_last_of_block && g->text.len > 0)
        fy_str_putc(&g->text, '\n');
    if (!empty_first_of_block)
        fy_str_add(&g->text, line.ptr, n);
    g->begun = true;
    return !open;
}
