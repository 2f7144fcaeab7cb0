/* Reads the whole text of a file, a pipe or standard input, and turns generated tokens into valid
 * UTF-8: bytes that end inside a character wait for the next token. */
#include "cli/text_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

/* --- input --- */

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

/* --- output --- */

void fy_text_out_begin(fy_text_out *t, const fy_vocab *vocab, bool begun)
{
    *t = (fy_text_out){.vocab = vocab, .begun = begun};
}

/* Moves the first n of the waiting bytes to *out. */
static int show(fy_text_out *t, size_t n, fy_str *out, fy_err *e)
{
    fy_put_lossy(out, (fy_span){t->bytes.ptr, n});
    if (n > 0)
        memmove(t->bytes.ptr, t->bytes.ptr + n, t->bytes.len - n + 1); /* with its NUL */
    t->bytes.len -= n;
    return out->oom || t->bytes.oom ? fy_nomem(e) : 0;
}

int fy_text_out_token(fy_text_out *t, int32_t id, fy_str *out, fy_err *e)
{
    int rc = t->begun ? fy_vocab_decode_one(t->vocab, id, false, &t->bytes, e)
                      : fy_vocab_decode(t->vocab, &id, 1, false, &t->bytes, e);
    if (rc != 0)
        return -1;
    t->begun |= t->bytes.len > 0;
    return show(t, fy_utf8_complete(fy_str_z(&t->bytes), t->bytes.len), out, e);
}

int fy_text_out_end(fy_text_out *t, fy_str *out, fy_err *e)
{
    return show(t, t->bytes.len, out, e);
}

void fy_text_out_release(fy_text_out *t)
{
    fy_str_release(&t->bytes);
    *t = (fy_text_out){0};
}

void fy_put_lossy(fy_str *out, fy_span s)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        int n = fy_utf8_next(s.ptr + i, s.len - i, &cp);
        if (n > 0) {
            fy_str_add(out, s.ptr + i, (size_t)n);
            i += (size_t)n;
            continue;
        }
        size_t n_bytes = 1; /* of a character that is cut short */
        while (n_bytes < 3 && i + n_bytes < s.len && fy_utf8_complete(s.ptr + i, n_bytes + 1) == 0)
            n_bytes++;
        fy_str_put_utf8(out, 0xFFFD);
        i += n_bytes;
    }
}
