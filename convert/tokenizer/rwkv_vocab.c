#include "convert/tokenizer/rwkv_vocab.h"

#include <string.h>

#include "base/str.h"

/* --- literals --- */

/* The code of n hexadecimal digits at s; false: there are fewer. */
static bool read_hex(fy_span s, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int d = i < s.len ? fy_hex_digit(s.ptr[i]) : -1;
        if (d < 0)
            return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* One escape, s behind the backslash. Its length; 0: none that is known. */
static size_t read_escape(fy_span s, bool bytes, fy_str *out)
{
    static const char plain[] = "\\\\''\"\"n\nt\tr\r";
    uint32_t code;
    for (size_t i = 0; s.len > 0 && i + 1 < sizeof plain; i += 2) {
        if (s.ptr[0] == plain[i]) {
            fy_str_putc(out, plain[i + 1]);
            return 1;
        }
    }
    size_t digits = s.len == 0 ? 0 : s.ptr[0] == 'x' ? 2 : s.ptr[0] == 'u' && !bytes ? 4 : 0;
    if (digits == 0 || !read_hex((fy_span){s.ptr + 1, s.len - 1}, digits, &code) ||
        (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    if (bytes)
        fy_str_putc(out, (char)code);
    else
        fy_str_put_utf8(out, code);
    return 1 + digits;
}

/* '...', "..." or the same behind a b; appends the bytes. */
static bool read_literal(fy_span s, fy_str *out)
{
    bool bytes = s.len > 0 && s.ptr[0] == 'b';
    if (bytes)
        s = (fy_span){s.ptr + 1, s.len - 1};
    if (s.len < 2 || (s.ptr[0] != '\'' && s.ptr[0] != '"') || s.ptr[s.len - 1] != s.ptr[0])
        return false;
    const char quote = s.ptr[0];
    s = (fy_span){s.ptr + 1, s.len - 2};
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] == quote)
            return false;
        size_t n = 1;
        if (s.ptr[i] != '\\')
            fy_str_putc(out, s.ptr[i]);
        else if ((n = read_escape((fy_span){s.ptr + i + 1, s.len - i - 1}, bytes, out)) == 0)
            return false;
        else
            n++;
        i += n;
    }
    return true;
}

/* --- lines --- */

/* Digits only, and at most six of them. */
static bool read_number(fy_span s, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (i == 6 || s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        *out = *out * 10 + (uint32_t)(s.ptr[i] - '0');
    }
    return s.len > 0;
}

static bool read_line(fy_span line, uint32_t *id, uint32_t *n_bytes, fy_str *text)
{
    const char *first = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    const char *last = first != NULL ? memrchr(line.ptr, ' ', line.len) : NULL;
    if (last == first)
        return false;
    fy_span literal = {first + 1, (size_t)(last - first) - 1};
    fy_span count = {last + 1, line.len - (size_t)(last - line.ptr) - 1};
    return read_number((fy_span){line.ptr, (size_t)(first - line.ptr)}, id) &&
           read_number(count, n_bytes) && read_literal(literal, text);
}

bool fy_rwkv_vocab_is(const void *p, size_t n)
{
    fy_span rest = {p, n};
    fy_str text = {0};
    uint32_t id, n_bytes;
    bool is = n > 0 && read_line(fy_span_cut_line(&rest), &id, &n_bytes, &text);
    fy_str_release(&text);
    return is;
}

/* As Python's repr(): quotes stay as they are unless both kinds occur. */
static void spell(fy_span bytes, fy_str *out)
{
    bool both = memchr(bytes.ptr, '\'', bytes.len) && memchr(bytes.ptr, '"', bytes.len);
    fy_str_clear(out);
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned char c = (unsigned char)bytes.ptr[i];
        if (c == '\\' || (c == '\'' && both))
            fy_str_printf(out, "\\%c", c);
        else if (c == '\t' || c == '\n' || c == '\r')
            fy_str_puts(out, c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\r");
        else if (c < 0x20 || c >= 0x7F)
            fy_str_printf(out, "\\x%02x", c);
        else
            fy_str_putc(out, (char)c);
    }
}

static int put_line(fy_span line, fy_token_table *t, fy_str *bytes, fy_str *spelled, fy_err *e)
{
    uint32_t id, n_bytes;
    char q[FY_QUOTE_BYTES];
    fy_str_clear(bytes);
    bool ok = read_line(line, &id, &n_bytes, bytes);
    if (bytes->oom)
        return fy_nomem(e);
    if (!ok)
        return fy_fail(e, FY_EFORMAT, "'%s', expected an id, a literal of Python and its length",
                       fy_quote(q, sizeof q, line));
    if (id == 0 || bytes->len == 0 || bytes->len != n_bytes)
        return fy_fail(e, FY_EFORMAT,
                       "token %u has %zu bytes and says %u, expected the same, at least one, and "
                       "an id of at least 1",
                       (unsigned)id, bytes->len, (unsigned)n_bytes);
    spell((fy_span){bytes->ptr, bytes->len}, spelled);
    if (spelled->oom)
        return fy_nomem(e);
    return fy_token_table_put(t, id, (fy_span){spelled->ptr, spelled->len}, true, e);
}

int fy_rwkv_vocab_parse(const void *p, size_t n, fy_token_table *t, fy_err *e)
{
    fy_str bytes = {0}, spelled = {0};
    fy_span rest = {p, n};
    int rc = fy_token_table_put(t, 0, FY_SPAN("<s>"), false, e);
    if (rc == 0)
        t->rows[0].type = FY_TOKEN_CONTROL;
    for (uint64_t number = 1; rc == 0 && rest.len > 0; number++) {
        fy_span line = fy_span_cut_line(&rest);
        if (line.len > 0 && put_line(line, t, &bytes, &spelled, e) != 0)
            rc = fy_ctx(e, "line %llu", (unsigned long long)number);
    }
    if (rc == 0 && t->n == 1)
        rc = fy_fail(e, FY_EFORMAT, "no token in it");
    fy_str_release(&bytes);
    fy_str_release(&spelled);
    return rc;
}
