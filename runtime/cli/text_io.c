/* Reads the whole text of a file, a pipe or standard input. */
#include "cli/text_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

static int read_all(int fd, const char *name, fy_str *out, fy_err *e)
{
    char buf[1 << 16];
    const size_t before = out->len;
    for (;;) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        ssize_t n = read(fd, buf, sizeof buf);
        if (n == 0)
            return out->oom ? fy_nomem(e) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fy_fail_errno(e, "%s: cannot read", name);
        if ((size_t)n > FY_TEXT_IN_MAX_BYTES - (out->len - before))
            return fy_fail(e, FY_EFIT, "%s: more than %u MB of text; split it", name,
                           FY_TEXT_IN_MAX_BYTES >> 20);
        fy_str_add(out, buf, (size_t)n);
        if (out->oom)
            return fy_nomem(e);
    }
}

int fy_text_in_read(const char *path, fy_str *out, fy_err *e)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", out, e);
    if (fy_file_is_dir(path))
        return fy_fail(e, FY_EARG, "%s: is a directory, expected a file with text", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    int rc = read_all(fd, path, out, e);
    close(fd);
    return rc;
}
