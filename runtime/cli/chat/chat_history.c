#include "cli/chat/chat_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/text_in.h"

/* Directories and files made here are for their owner alone. */
static int make_dir(const char *path)
{
    mode_t before = umask(077);
    int rc = fy_mkdirs(path, NULL);
    umask(before);
    return rc;
}

char *fy_history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    fy_str s = {0};
    if (state != NULL && state[0] == '/')
        fy_str_printf(&s, "%s/ferry", state);
    else if (home != NULL && home[0] == '/')
        fy_str_printf(&s, "%s/.local/state/ferry", home);
    if (s.len == 0 || s.oom || make_dir(s.ptr) != 0) {
        fy_str_release(&s);
        return NULL;
    }
    fy_str_puts(&s, "/history");
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

static void unescape(fy_span line, fy_str *out)
{
    fy_str_clear(out);
    for (size_t i = 0; i < line.len; i++) {
        bool escape = line.ptr[i] == '\\' && i + 1 < line.len;
        i += escape;
        fy_str_putc(out, escape && line.ptr[i] == 'n' ? '\n' : line.ptr[i]);
    }
}

/* Where the last n lines of text begin. */
static size_t last_lines(fy_span text, size_t n)
{
    size_t at = text.len;
    while (at > 0) {
        size_t line = at - 1; /* its newline */
        while (line > 0 && text.ptr[line - 1] != '\n')
            line--;
        if (n-- == 0)
            break;
        at = line;
    }
    return at;
}

static int cut(const char *path, fy_span keep, fy_err *e)
{
    mode_t before = umask(077);
    int rc = fy_file_write(path, keep.ptr, keep.len, e);
    umask(before);
    return rc;
}

int fy_history_load(const char *path, fy_history_entry *entry, void *user, fy_err *e)
{
    fy_str text = {0}, one = {0};
    if (!fy_file_exists(path))
        return 0;
    if (fy_text_in_read(path, &text, e) != 0) {
        fy_str_release(&text);
        return -1;
    }
    fy_span all = {fy_str_z(&text), text.len};
    size_t at = last_lines(all, FY_HISTORY_MAX);
    bool too_long = last_lines(all, 2 * FY_HISTORY_MAX) > 0;
    int rc = too_long ? cut(path, (fy_span){all.ptr + at, all.len - at}, e) : 0;
    while (at < all.len) {
        const char *end = memchr(all.ptr + at, '\n', all.len - at);
        size_t n = end != NULL ? (size_t)(end - (all.ptr + at)) : all.len - at;
        unescape((fy_span){all.ptr + at, n}, &one);
        if (one.len > 0 && !one.oom)
            entry(user, one.ptr);
        at += n + 1;
    }
    fy_str_release(&one);
    fy_str_release(&text);
    return rc;
}

int fy_history_append(const char *path, fy_span entry, fy_err *e)
{
    fy_str line = {0};
    for (size_t i = 0; i < entry.len; i++) {
        if (entry.ptr[i] == '\n')
            fy_str_puts(&line, "\\n");
        else if (entry.ptr[i] == '\\')
            fy_str_puts(&line, "\\\\");
        else
            fy_str_putc(&line, entry.ptr[i]);
    }
    fy_str_putc(&line, '\n');
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int rc = line.oom ? fy_nomem(e) : fd < 0 ? fy_fail_errno(e, "%s: cannot open", path) : 0;
    if (rc == 0)
        rc = fy_write_all(fd, line.ptr, line.len, path, e);
    if (fd >= 0)
        close(fd);
    fy_str_release(&line);
    return rc;
}
