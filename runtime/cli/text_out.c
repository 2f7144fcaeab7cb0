/* Generated tokens as valid UTF-8: bytes that end inside a character wait for the next token. */
#include "cli/text_out.h"

#include <string.h>

#include "base/str.h"

void fy_text_out_begin(fy_text_out *t, const fy_vocab *vocab, bool begun)
{
    *t = (fy_text_out){.vocab = vocab, .begun = begun};
}

/* Moves the first n of the waiting bytes to *out. */
static int show(fy_text_out *t, size_t n, fy_str *out, fy_err *e)
{
    fy_put_lossy(out, (fy_span){t->bytes.ptr, n});
    if (n > 0)
        memmove(t->bytes.ptr, t->bytes.ptr + n, t->bytes.len - n + 1); /* with the NUL behind it */
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

/* Could more bytes make a character of p[0..n)? n is 1 to 3. */
static bool may_grow(const char *p, size_t n)
{
    return fy_utf8_complete(p, n) == 0;
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
        size_t part = 1;
        while (part < 3 && i + part < s.len && may_grow(s.ptr + i, part + 1))
            part++;
        fy_str_put_utf8(out, 0xFFFD);
        i += part;
    }
}
