/* The strict JSON reader of the whole program, and the writer of JSON strings.
 *
 * The reader keeps a stack of the open containers. `ready`: a value may be read now, at
 * the start and after a *_next that returned 1. Every check of the grammar is made where the byte
 * is consumed, so skipping is reading without a result. The first failure is kept and returned by
 * every later call. */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"
#include "base/names.h"
#include "base/str.h"

enum { POLL_STEPS = 4096 }; /* small documents are read whole, an interrupt or not */

#define TEXT(x)        #x
#define NUMBER_TEXT(x) TEXT(x)

typedef struct {
    bool is_object;
    bool any;         /* a member or an element has been seen */
    bool unchecked;   /* the caller looks for second keys */
    fy_names keys;    /* views of the input or of `decoded` */
    fy_arena decoded; /* keys that had escapes */
} frame;

struct fy_json {
    const char *p; /* view of the caller's text */
    size_t n, pos;
    size_t n_steps; /* members and elements so far */
    bool ready;
    int depth;
    fy_str scratch;
    fy_err failed;
    frame frames[FY_JSON_DEPTH];
};

fy_json *fy_json_new(const void *p, size_t n, fy_err *e)
{
    fy_json *j = calloc(1, sizeof *j);
    if (j == NULL) {
        fy_nomem(e);
        return NULL;
    }
    j->p = n > 0 ? p : "";
    j->n = n;
    j->ready = true;
    return j;
}

void fy_json_free(fy_json *j)
{
    if (j == NULL)
        return;
    for (int i = 0; i < FY_JSON_DEPTH; i++) {
        fy_names_release(&j->frames[i].keys);
        fy_arena_release(&j->frames[i].decoded);
    }
    fy_str_release(&j->scratch);
    free(j);
}

/* --- failures --------------------------------------------------------------------------------- */

static int again(fy_json *j, fy_err *e)
{
    return fy_fail(e, j->failed.code, "%s", j->failed.msg);
}

static int nomem(fy_json *j, fy_err *e)
{
    fy_nomem(&j->failed);
    return again(j, e);
}

/* Fails with the place of the byte at `at`. */
static int fail_at(fy_json *j, size_t at, fy_err *e, const char *found, const char *expected)
{
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < at; i++) {
        if (j->p[i] == '\n') {
            line++;
            begin = i + 1;
        }
    }
    fy_fail(&j->failed, FY_EFORMAT, "line %zu, column %zu: found %s, expected %s", line,
            at - begin + 1, found, expected);
    return again(j, e);
}

static const char *kind_name(fy_json_kind k)
{
    static const char *const names[] = {
        [FY_JSON_BAD] = "no value",    [FY_JSON_OBJECT] = "an object", [FY_JSON_ARRAY] = "an array",
        [FY_JSON_STRING] = "a string", [FY_JSON_NUMBER] = "a number",  [FY_JSON_TRUE] = "true",
        [FY_JSON_FALSE] = "false",     [FY_JSON_NULL] = "null",
    };
    return names[k];
}

/* Fails at the current byte. */
static int unexpected(fy_json *j, fy_err *e, const char *expected)
{
    static const char bom[] = "\xEF\xBB\xBF";
    char buf[FY_QUOTE_BYTES], found[FY_QUOTE_BYTES + 8];
    if (j->pos == j->n)
        return fail_at(j, j->pos, e, "the end of the text", expected);
    if (j->n - j->pos >= 3 && memcmp(j->p + j->pos, bom, 3) == 0)
        return fail_at(j, j->pos, e, "a byte order mark", expected);
    uint32_t cp;
    int len = fy_utf8_next(j->p + j->pos, j->n - j->pos, &cp);
    fy_quote(buf, sizeof buf, (fy_span){j->p + j->pos, len == 0 ? 1 : (size_t)len});
    found[0] = '\0';
    strcat(strcat(strcat(found, "'"), buf), "'");
    return fail_at(j, j->pos, e, found, expected);
}

static int wrong_kind(fy_json *j, fy_err *e, const char *expected)
{
    fy_json_kind k = fy_json_peek(j);
    if (k == FY_JSON_BAD)
        return unexpected(j, e, expected);
    return fail_at(j, j->pos, e, kind_name(k), expected);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void skip_spaces(fy_json *j)
{
    while (j->pos < j->n) {
        char c = j->p[j->pos];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        j->pos++;
    }
}

/* Called several times for each value, and mostly there is none. */
static inline void skip_space(fy_json *j)
{
    if (j->pos < j->n && (unsigned char)j->p[j->pos] <= ' ')
        skip_spaces(j);
}

/* The next byte, or -1 at the end. */
static int at(const fy_json *j)
{
    return j->pos < j->n ? (unsigned char)j->p[j->pos] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

fy_json_kind fy_json_peek(fy_json *j)
{
    skip_space(j);
    int c = at(j);
    switch (c) {
    case '{':
        return FY_JSON_OBJECT;
    case '[':
        return FY_JSON_ARRAY;
    case '"':
        return FY_JSON_STRING;
    case 't':
        return FY_JSON_TRUE;
    case 'f':
        return FY_JSON_FALSE;
    case 'n':
        return FY_JSON_NULL;
    default:
        return c == '-' || is_digit(c) ? FY_JSON_NUMBER : FY_JSON_BAD;
    }
}

size_t fy_json_offset(fy_json *j)
{
    skip_space(j);
    return j->pos;
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Length of the plain ASCII of a string, eight bytes at a time: stops at '"', '\\', a control or
 * non-ASCII byte. */
static size_t plain_run(const char *p, size_t n)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t w = fy_le64(p + i), q = w ^ ones * '"', b = w ^ ones * '\\';
        uint64_t special = ((q - ones) & ~q) | ((b - ones) & ~b) | (w - ones * 0x20) | w;
        if (special & high)
            break;
    }
    while (i < n) {
        unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\' || c < 0x20 || c >= 0x80)
            break;
        i++;
    }
    return i;
}

/* Moves over one string, its quotes included. raw: the bytes between the quotes. */
static int scan_string(fy_json *j, fy_span *raw, bool *escaped, fy_err *e)
{
    size_t begin = ++j->pos;
    *escaped = false;
    for (;;) {
        j->pos += plain_run(j->p + j->pos, j->n - j->pos);
        int c = at(j);
        if (c == '"')
            break;
        if (c < 0)
            return unexpected(j, e, "the closing '\"' of a string");
        if (c == '\\') {
            *escaped = true;
            if (j->n - j->pos < 2)
                return fail_at(j, j->n, e, "the end of the text", "the rest of an escape");
            j->pos += 2; /* what follows is checked when it is decoded */
        } else if (c < 0x20) {
            return unexpected(j, e, "a string without bare control characters");
        } else {
            uint32_t cp;
            int len = fy_utf8_next(j->p + j->pos, j->n - j->pos, &cp);
            if (len == 0)
                return unexpected(j, e, "valid UTF-8");
            j->pos += (size_t)len;
        }
    }
    *raw = (fy_span){j->p + begin, j->pos - begin};
    j->pos++;
    return 0;
}

static int hex4(const char *p, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    if (n < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = fy_hex_digit(p[i]);
        if (d < 0)
            return -1;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return 0;
}

/* Decodes "uXXXX" (with its second half when it is a surrogate) at raw[i]; returns its length or 0.
 */
static size_t decode_unicode(fy_span raw, size_t i, uint32_t *cp)
{
    uint32_t low;
    if (hex4(raw.ptr + i + 1, raw.len - i - 1, cp) != 0)
        return 0;
    if (*cp < 0xD800 || *cp > 0xDFFF)
        return 5;
    if (*cp > 0xDBFF || raw.len - i < 11 || raw.ptr[i + 5] != '\\' || raw.ptr[i + 6] != 'u' ||
        hex4(raw.ptr + i + 7, 4, &low) != 0 || low < 0xDC00 || low > 0xDFFF)
        return 0;
    *cp = 0x10000 + ((*cp & 0x3FF) << 10 | (low & 0x3FF));
    return 11;
}

/* Resolves the escapes of `raw` into j->scratch. */
static int decode(fy_json *j, fy_span raw, fy_err *e)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    fy_str_clear(&j->scratch);
    for (size_t i = 0; i < raw.len;) {
        const char *slash = memchr(raw.ptr + i, '\\', raw.len - i);
        size_t run = slash == NULL ? raw.len - i : (size_t)(slash - raw.ptr) - i;
        fy_str_add(&j->scratch, raw.ptr + i, run);
        i += run;
        if (slash == NULL)
            break;
        char c = raw.ptr[++i];
        const char *simple = c != '\0' ? strchr(from, c) : NULL;
        if (simple != NULL) {
            fy_str_putc(&j->scratch, to[simple - from]);
            i++;
            continue;
        }
        uint32_t cp;
        size_t len = c == 'u' ? decode_unicode(raw, i, &cp) : 0;
        if (len == 0)
            return fail_at(j, (size_t)(slash - j->p), e,
                           c == 'u' ? "half a surrogate pair or bad digits" : "'\\'",
                           "an escape of JSON");
        fy_str_put_utf8(&j->scratch, cp);
        i += len;
    }
    return j->scratch.oom ? nomem(j, e) : 0;
}

/* Reads a string at the current byte; *in_input as in fy_json_string. */
static int read_string(fy_json *j, fy_span *out, bool *in_input, fy_err *e)
{
    bool escaped;
    if (scan_string(j, out, &escaped, e) != 0)
        return -1;
    *in_input = !escaped;
    if (!escaped)
        return 0;
    if (decode(j, *out, e) != 0)
        return -1;
    *out = (fy_span){fy_str_z(&j->scratch), j->scratch.len};
    return 0;
}

/* --- containers ------------------------------------------------------------------------------- */

static int begin(fy_json *j, bool is_object, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    assert(j->ready);
    if (fy_json_peek(j) != (is_object ? FY_JSON_OBJECT : FY_JSON_ARRAY))
        return wrong_kind(j, e, is_object ? "an object" : "an array");
    if (j->depth == FY_JSON_DEPTH)
        return fail_at(j, j->pos, e, "deeper nesting",
                       "at most " NUMBER_TEXT(FY_JSON_DEPTH) " levels");
    frame *f = &j->frames[j->depth++];
    f->is_object = is_object;
    f->any = false;
    f->unchecked = false;
    j->pos++;
    j->ready = false;
    return 0;
}

int fy_json_object_begin(fy_json *j, fy_err *e)
{
    return begin(j, true, e);
}

int fy_json_object_begin_unchecked(fy_json *j, fy_err *e)
{
    if (begin(j, true, e) != 0)
        return -1;
    j->frames[j->depth - 1].unchecked = true;
    return 0;
}

int fy_json_array_begin(fy_json *j, fy_err *e)
{
    return begin(j, false, e);
}

static void close_frame(fy_json *j)
{
    frame *f = &j->frames[--j->depth];
    fy_names_clear(&f->keys);
    fy_arena_release(&f->decoded);
    j->pos++;
}

/* Moves to the next member or element: 1, or 0 when the container has ended. */
static int step(fy_json *j, char close, const char *first, const char *more, fy_err *e)
{
    frame *f = &j->frames[j->depth - 1];
    if (++j->n_steps % POLL_STEPS == 0 && fy_check_interrupt(&j->failed) != 0)
        return again(j, e);
    skip_space(j);
    if (at(j) == close) {
        close_frame(j);
        return 0;
    }
    if (f->any) {
        if (at(j) != ',')
            return unexpected(j, e, more);
        j->pos++;
        skip_space(j);
    } else if (at(j) < 0) {
        return unexpected(j, e, first);
    }
    f->any = true;
    return 1;
}

static int remember_key(fy_json *j, frame *f, fy_span *key, bool in_input, size_t where, fy_err *e)
{
    if (!in_input) {
        char *copy = fy_arena_strndup(&f->decoded, key->ptr, key->len);
        if (copy == NULL)
            return nomem(j, e);
        key->ptr = copy;
    }
    int rc = fy_names_add(&f->keys, *key, 0);
    if (rc < 0)
        return nomem(j, e);
    if (rc == 1) {
        char name[FY_QUOTE_BYTES], found[FY_QUOTE_BYTES + 32] = "a second key '";
        fy_quote(name, 44, *key);
        strcat(strcat(found, name), "'");
        return fail_at(j, where, e, found, "every key of an object once");
    }
    return 0;
}

int fy_json_object_next(fy_json *j, fy_span *key, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    assert(j->depth > 0 && !j->ready);
    frame *f = &j->frames[j->depth - 1];
    assert(f->is_object);
    int rc = step(j, '}', "a key or '}'", "',' or '}'", e);
    if (rc != 1)
        return rc;
    if (at(j) != '"')
        return unexpected(j, e, "a key in double quotes");
    bool in_input;
    size_t where = j->pos;
    fy_span k;
    if (read_string(j, &k, &in_input, e) != 0 ||
        (!f->unchecked && remember_key(j, f, &k, in_input, where, e) != 0))
        return -1;
    skip_space(j);
    if (at(j) != ':')
        return unexpected(j, e, "':'");
    j->pos++;
    j->ready = true;
    *key = k;
    return 1;
}

int fy_json_array_next(fy_json *j, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    assert(j->depth > 0 && !j->frames[j->depth - 1].is_object && !j->ready);
    int rc = step(j, ']', "a value or ']'", "',' or ']'", e);
    j->ready = rc == 1;
    return rc;
}

/* --- scalars ---------------------------------------------------------------------------------- */

/* Checks that the next value may be read and is of the wanted kind. */
static int expect(fy_json *j, fy_json_kind kind, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    assert(j->ready);
    return fy_json_peek(j) == kind ? 0 : wrong_kind(j, e, kind_name(kind));
}

int fy_json_string(fy_json *j, fy_span *out, bool *in_input, fy_err *e)
{
    bool plain;
    fy_span s;
    if (expect(j, FY_JSON_STRING, e) != 0 || read_string(j, &s, &plain, e) != 0)
        return -1;
    j->ready = false;
    *out = s;
    if (in_input != NULL)
        *in_input = plain;
    return 0;
}

static int digits(fy_json *j, fy_err *e)
{
    if (!is_digit(at(j)))
        return unexpected(j, e, "a digit");
    while (is_digit(at(j)))
        j->pos++;
    return 0;
}

/* Moves over one number. is_integer: it has neither fraction nor exponent. */
static int scan_number(fy_json *j, fy_span *out, bool *is_integer, fy_err *e)
{
    size_t start = j->pos;
    if (at(j) == '-')
        j->pos++;
    if (at(j) == '0') {
        j->pos++;
        if (is_digit(at(j)))
            return unexpected(j, e, "a number without leading zeros");
    } else if (digits(j, e) != 0) {
        return -1;
    }
    *is_integer = true;
    if (at(j) == '.') {
        *is_integer = false;
        j->pos++;
        if (digits(j, e) != 0)
            return -1;
    }
    if (at(j) == 'e' || at(j) == 'E') {
        *is_integer = false;
        j->pos++;
        if (at(j) == '+' || at(j) == '-')
            j->pos++;
        if (digits(j, e) != 0)
            return -1;
    }
    *out = (fy_span){j->p + start, j->pos - start};
    return 0;
}

static int bad_number(fy_json *j, fy_span text, const char *expected, fy_err *e)
{
    char buf[44];
    return fail_at(j, (size_t)(text.ptr - j->p), e, fy_quote(buf, sizeof buf, text), expected);
}

/* Digits of a checked integer; false when they do not fit. */
static bool to_u64(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!fy_mul_u64(v, 10, &v) || !fy_add_u64(v, (uint64_t)(p[i] - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

static int next_number(fy_json *j, fy_span *text, bool *is_integer, fy_err *e)
{
    if (expect(j, FY_JSON_NUMBER, e) != 0 || scan_number(j, text, is_integer, e) != 0)
        return -1;
    j->ready = false;
    return 0;
}

int fy_json_u64(fy_json *j, uint64_t *out, fy_err *e)
{
    fy_span t;
    bool is_integer;
    if (next_number(j, &t, &is_integer, e) != 0)
        return -1;
    if (!is_integer || t.ptr[0] == '-' || !to_u64(t.ptr, t.len, out))
        return bad_number(j, t, "an integer from 0 to 2^64-1", e);
    return 0;
}

static bool to_i64(fy_span t, int64_t *out)
{
    const size_t minus = t.ptr[0] == '-';
    uint64_t v;
    if (!to_u64(t.ptr + minus, t.len - minus, &v) || v > (uint64_t)INT64_MAX + minus)
        return false;
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

int fy_json_i64(fy_json *j, int64_t *out, fy_err *e)
{
    fy_span t;
    bool is_integer;
    if (next_number(j, &t, &is_integer, e) != 0)
        return -1;
    return is_integer && to_i64(t, out) ? 0
                                        : bad_number(j, t, "an integer from -2^63 to 2^63-1", e);
}

int fy_json_i64_in(fy_json *j, const char *key, int64_t min, int64_t max, int64_t *out, fy_err *e)
{
    int64_t v = 0;
    if (fy_json_i64(j, &v, e) != 0)
        return fy_ctx(e, "%s", key);
    if (v < min || v > max)
        return fy_fail(e, FY_EFORMAT, "%s: %lld, expected %lld to %lld", key, (long long)v,
                       (long long)min, (long long)max);
    *out = v;
    return 0;
}

/* strtod under the C locale, which is the one a program has that does not ask for another. */
static int to_double(fy_json *j, fy_span t, double *out, fy_err *e)
{
    fy_str_clear(&j->scratch);
    fy_str_add(&j->scratch, t.ptr, t.len);
    if (j->scratch.oom)
        return nomem(j, e);
    double v = strtod(fy_str_z(&j->scratch), NULL);
    if (!isfinite(v))
        return bad_number(j, t, "a number that a double can hold", e);
    *out = v;
    return 0;
}

int fy_json_double(fy_json *j, double *out, fy_err *e)
{
    fy_span t;
    bool is_integer;
    return next_number(j, &t, &is_integer, e) != 0 ? -1 : to_double(j, t, out, e);
}

int fy_json_number(fy_json *j, int64_t *i, double *d, fy_err *e)
{
    fy_span t;
    bool is_integer;
    if (next_number(j, &t, &is_integer, e) != 0)
        return -1;
    return is_integer && to_i64(t, i) ? 1 : to_double(j, t, d, e);
}

static int word(fy_json *j, const char *w, fy_err *e)
{
    size_t n = strlen(w);
    if (j->n - j->pos < n || memcmp(j->p + j->pos, w, n) != 0)
        return unexpected(j, e, "true, false or null");
    j->pos += n;
    j->ready = false;
    return 0;
}

int fy_json_bool(fy_json *j, bool *out, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    fy_json_kind k = fy_json_peek(j);
    if (k != FY_JSON_TRUE && k != FY_JSON_FALSE)
        return wrong_kind(j, e, "true or false");
    assert(j->ready);
    if (word(j, k == FY_JSON_TRUE ? "true" : "false", e) != 0)
        return -1;
    *out = k == FY_JSON_TRUE;
    return 0;
}

int fy_json_null(fy_json *j, fy_err *e)
{
    return expect(j, FY_JSON_NULL, e) != 0 ? -1 : word(j, "null", e);
}

/* --- whole values ----------------------------------------------------------------------------- */

static int skip_container(fy_json *j, bool is_object, fy_err *e)
{
    fy_span key;
    int rc = begin(j, is_object, e);
    while (rc == 0 &&
           (rc = is_object ? fy_json_object_next(j, &key, e) : fy_json_array_next(j, e)) == 1)
        rc = fy_json_skip(j, e); /* nests at most FY_JSON_DEPTH deep */
    return rc;
}

int fy_json_skip(fy_json *j, fy_err *e)
{
    fy_span ignored;
    bool flag;
    if (j->failed.code != FY_OK)
        return again(j, e);
    fy_json_kind k = fy_json_peek(j);
    switch (k) {
    case FY_JSON_OBJECT:
    case FY_JSON_ARRAY:
        return skip_container(j, k == FY_JSON_OBJECT, e);
    case FY_JSON_STRING:
        return fy_json_string(j, &ignored, NULL, e);
    case FY_JSON_NUMBER:
        return next_number(j, &ignored, &flag, e);
    case FY_JSON_TRUE:
    case FY_JSON_FALSE:
        return fy_json_bool(j, &flag, e);
    case FY_JSON_NULL:
        return fy_json_null(j, e);
    case FY_JSON_BAD:
        break;
    }
    return unexpected(j, e, "a value");
}

int fy_json_end(fy_json *j, fy_err *e)
{
    if (j->failed.code != FY_OK)
        return again(j, e);
    assert(j->depth == 0 && !j->ready);
    skip_space(j);
    return j->pos == j->n ? 0 : unexpected(j, e, "the end of the document");
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_escaped(fy_str *out, unsigned char c)
{
    static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
    const char *simple = c != '\0' ? strchr(from, c) : NULL;
    if (simple != NULL)
        fy_str_printf(out, "\\%c", to[simple - from]);
    else
        fy_str_printf(out, "\\u%04x", c);
}

/* Length of the bytes from p on that need no escape. */
static size_t unescaped_run(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)p[i];
        uint32_t cp;
        int len = c < 0x80 ? 1 : fy_utf8_next(p + i, n - i, &cp);
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F || len == 0)
            break;
        i += (size_t)len;
    }
    return i;
}

void fy_json_put_string(fy_str *out, fy_span text)
{
    fy_str_putc(out, '"');
    for (size_t i = 0; i < text.len;) {
        size_t n = unescaped_run(text.ptr + i, text.len - i);
        fy_str_add(out, text.ptr + i, n);
        i += n;
        if (i == text.len)
            break;
        unsigned char c = (unsigned char)text.ptr[i++];
        if (c < 0x80)
            put_escaped(out, c);
        else
            fy_str_put_utf8(out, 0xFFFD);
    }
    fy_str_putc(out, '"');
}
