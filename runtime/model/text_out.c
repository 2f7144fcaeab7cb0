/* Turns generated tokens into valid UTF-8: what ends inside a character, or may begin a stop
 * string, waits for the next token. */
#include "model/text_out.h"

#include <string.h>

void fy_text_out_begin(fy_text_out *t, const fy_vocab *vocab, const fy_stops *stops, bool begun)
{
    *t = (fy_text_out){.vocab = vocab, .stops = stops, .begun = begun, .found = -1};
}

/* Moves the first n of the waiting bytes to *out. */
static int show(fy_text_out *t, size_t n, fy_str *out, fy_err *e)
{
    fy_put_lossy(out, (fy_span){fy_str_z(&t->bytes), n});
    if (n > 0)
        memmove(t->bytes.ptr, t->bytes.ptr + n, t->bytes.len - n + 1); /* with its NUL */
    t->bytes.len -= n;
    return out->oom || t->bytes.oom ? fy_nomem(e) : 0;
}

/* Searches the waiting bytes from n_old on, which are new, and shows what can be shown. */
static int see(fy_text_out *t, size_t n_old, fy_str *out, fy_err *e)
{
    size_t n_held = 0;
    if (t->bytes.oom)
        return fy_nomem(e);
    if (t->found >= 0) {
        fy_str_clear(&t->bytes);
        return 1;
    }
    if (t->stops != NULL) {
        size_t n_taken;
        t->found = fy_stop_next(t->stops, &t->search, fy_str_z(&t->bytes) + n_old,
                                t->bytes.len - n_old, &n_taken);
        if (t->found >= 0) {
            size_t n = n_old + n_taken - fy_stops_text(t->stops, t->found).len;
            int rc = show(t, n, out, e);
            fy_str_clear(&t->bytes);
            return rc == 0 ? 1 : -1;
        }
        n_held = t->search.n_held;
    }
    return show(t, fy_utf8_complete(fy_str_z(&t->bytes), t->bytes.len - n_held), out, e);
}

int fy_text_out_token(fy_text_out *t, int32_t id, fy_str *out, fy_err *e)
{
    const size_t n_old = t->bytes.len;
    int rc = t->begun ? fy_vocab_decode_one(t->vocab, id, false, &t->bytes, e)
                      : fy_vocab_decode(t->vocab, &id, 1, false, &t->bytes, e);
    if (rc != 0)
        return -1;
    t->begun |= t->bytes.len > 0;
    return see(t, n_old, out, e);
}

int fy_text_out_bytes(fy_text_out *t, fy_span bytes, fy_str *out, fy_err *e)
{
    const size_t n_old = t->bytes.len;
    fy_str_add(&t->bytes, bytes.ptr, bytes.len);
    return see(t, n_old, out, e);
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
