#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/template/template_lex.h"

static int literal_fail(fy_tlex *lex, const fy_tok *tok, const char *text)
{
    return fy_tlex_fail(lex->e, FY_EFORMAT, tok->line, tok->column, "%s", text);
}

/* --- strings ---------------------------------------------------------------------------------- */

typedef struct {
    const char *p, *end;
    char *out;         /* has room for twice the source */
    const char *error; /* NULL: none */
} unescaper;

static void put_utf8(unescaper *u, uint32_t cp)
{
    if (cp < 0x80) {
        *u->out++ = (char)cp;
    } else if (cp < 0x800) {
        *u->out++ = (char)(0xC0 | cp >> 6);
        *u->out++ = (char)(0x80 | (cp & 63));
    } else if (cp < 0x10000) {
        *u->out++ = (char)(0xE0 | cp >> 12);
        *u->out++ = (char)(0x80 | (cp >> 6 & 63));
        *u->out++ = (char)(0x80 | (cp & 63));
    } else {
        *u->out++ = (char)(0xF0 | cp >> 18);
        *u->out++ = (char)(0x80 | (cp >> 12 & 63));
        *u->out++ = (char)(0x80 | (cp >> 6 & 63));
        *u->out++ = (char)(0x80 | (cp & 63));
    }
}

static void put_hex_digits(unescaper *u, char letter, uint32_t cp, int n)
{
    *u->out++ = letter;
    for (int i = n - 1; i >= 0; i--)
        *u->out++ = "0123456789abcdef"[cp >> (4 * i) & 15];
}

/* jinja2 spells characters beyond ASCII as escapes and then has all escapes decoded, so a backslash
 * in front of such a character turns its spelling into text: '\é' is four characters, \xe9. */
static void put_spelled(unescaper *u)
{
    uint32_t cp = 0;
    u->p += fy_utf8_next(u->p, (size_t)(u->end - u->p), &cp);
    *u->out++ = '\\';
    if (cp < 0x100)
        put_hex_digits(u, 'x', cp, 2);
    else if (cp < 0x10000)
        put_hex_digits(u, 'u', cp, 4);
    else
        put_hex_digits(u, 'U', cp, 8);
}

static void put_hex(unescaper *u, int n, const char *truncated)
{
    uint32_t cp = 0;
    for (int i = 0; i < n; i++) {
        int d = u->p < u->end ? fy_hex_digit(*u->p) : -1;
        if (d < 0) {
            u->error = truncated;
            return;
        }
        cp = cp << 4 | (uint32_t)d;
        u->p++;
    }
    if (cp > 0x10FFFF)
        u->error = "illegal Unicode character";
    else if (cp >= 0xD800 && cp < 0xE000)
        u->error = "a string cannot hold half of a surrogate pair: write the character itself";
    else
        put_utf8(u, cp);
}

static void put_octal(unescaper *u, char first)
{
    uint32_t cp = (uint32_t)(first - '0');
    for (int i = 0; i < 2 && u->p < u->end && *u->p >= '0' && *u->p <= '7'; i++)
        cp = cp << 3 | (uint32_t)(*u->p++ - '0');
    put_utf8(u, cp);
}

/* After a backslash; there is a character behind it. */
static void put_escape(unescaper *u)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    if ((unsigned char)*u->p >= 0x80) {
        put_spelled(u);
        return;
    }
    char c = *u->p++;
    const char *simple = c != '\0' ? strchr(from, c) : NULL;
    if (simple != NULL) {
        *u->out++ = to[simple - from];
    } else if (c == 'x') {
        put_hex(u, 2, "truncated \\xXX escape");
    } else if (c == 'u') {
        put_hex(u, 4, "truncated \\uXXXX escape");
    } else if (c == 'U') {
        put_hex(u, 8, "truncated \\UXXXXXXXX escape");
    } else if (c == 'N') {
        u->error = "\\N{...}";
    } else if (c >= '0' && c <= '7') {
        put_octal(u, c);
    } else if (c != '\n') {
        *u->out++ = '\\';
        *u->out++ = c;
    }
}

int fy_tlex_string(fy_tlex *lex, fy_tok *tok)
{
    fy_span raw = {tok->text.ptr + 1, tok->text.len - 2};
    tok->value = fy_tv_view(raw);
    const char *escape = memchr(raw.ptr, '\\', raw.len);
    if (escape == NULL)
        return 0;
    char *buffer = fy_arena_alloc(lex->arena, 2 * raw.len);
    if (buffer == NULL)
        return fy_nomem(lex->e);
    unescaper u = {raw.ptr, raw.ptr + raw.len, buffer, NULL};
    while (escape != NULL && u.error == NULL) {
        size_t plain = (size_t)(escape - u.p);
        memcpy(u.out, u.p, plain);
        u.out += plain;
        u.p = escape + 1;
        put_escape(&u);
        escape = memchr(u.p, '\\', (size_t)(u.end - u.p));
    }
    if (u.error != NULL && u.error[1] == 'N')
        return fy_tlex_fail(lex->e, FY_EUNSUPPORTED, tok->line, tok->column,
                            "characters by name (%s) are not supported: write the character itself",
                            u.error);
    if (u.error != NULL)
        return literal_fail(lex, tok, u.error);
    memcpy(u.out, u.p, (size_t)(u.end - u.p));
    u.out += u.end - u.p;
    tok->value = fy_tv_view((fy_span){buffer, (size_t)(u.out - buffer)});
    return 0;
}

/* --- numbers ---------------------------------------------------------------------------------- */

enum { MAX_DIGITS = 4300, LIMB_DIGITS = 9, MAX_LIMBS = MAX_DIGITS / LIMB_DIGITS + 2 };

typedef struct {
    uint32_t limb[MAX_LIMBS]; /* base 10^9, least first */
    uint32_t n;
} decimal;

/* d = d * factor + add; false when it outgrows the limbs. */
static bool decimal_push(decimal *d, uint64_t factor, uint64_t add)
{
    for (uint32_t i = 0; i < d->n; i++) {
        add += d->limb[i] * factor;
        d->limb[i] = (uint32_t)(add % 1000000000u);
        add /= 1000000000u;
    }
    for (; add != 0; add /= 1000000000u) {
        if (d->n == MAX_LIMBS)
            return false;
        d->limb[d->n++] = (uint32_t)(add % 1000000000u);
    }
    return true;
}

/* The digits of `digits` (of base 2^bits, underscores skipped) as decimal text in the arena. */
static int big_of_power(fy_tlex *lex, fy_span digits, int bits, fy_span *out)
{
    decimal d = {.n = 0};
    uint64_t chunk = 0;
    int held = 0;
    bool fits = true;
    for (size_t i = 0; i < digits.len && fits; i++) {
        if (digits.ptr[i] == '_')
            continue;
        chunk = chunk << bits | (uint64_t)fy_hex_digit(digits.ptr[i]);
        held += bits;
        if (held + bits > 32) {
            fits = decimal_push(&d, 1ull << held, chunk);
            chunk = 0;
            held = 0;
        }
    }
    fits = fits && decimal_push(&d, 1ull << held, chunk);
    char *text = fy_arena_alloc(lex->arena, (size_t)d.n * LIMB_DIGITS + 1);
    if (text == NULL)
        return fy_nomem(lex->e);
    char *p = text;
    for (uint32_t i = d.n; i-- > 0;) {
        for (uint32_t scale = 100000000u; scale > 0; scale /= 10)
            *p++ = (char)('0' + d.limb[i] / scale % 10);
    }
    while (text < p && *text == '0')
        text++;
    *out = (fy_span){text, fits ? (size_t)(p - text) : SIZE_MAX};
    return 0;
}

/* A copy without underscores; the same text where there are none. */
static int without_underscores(fy_tlex *lex, fy_span text, fy_span *out)
{
    *out = text;
    if (memchr(text.ptr, '_', text.len) == NULL)
        return 0;
    char *copy = fy_arena_alloc(lex->arena, text.len);
    if (copy == NULL)
        return fy_nomem(lex->e);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '_')
            copy[n++] = text.ptr[i];
    }
    *out = (fy_span){copy, n};
    return 0;
}

/* False: more than 63 bits. */
static bool small_integer(fy_span digits, int base, int64_t *out)
{
    int64_t v = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] != '_' && (__builtin_mul_overflow(v, base, &v) ||
                                     __builtin_add_overflow(v, fy_hex_digit(digits.ptr[i]), &v)))
            return false;
    }
    *out = v;
    return true;
}

int fy_tlex_integer(fy_tlex *lex, fy_tok *tok)
{
    fy_span digits = tok->text, big;
    char letter = digits.len > 2 ? digits.ptr[1] : '\0';
    int bits = letter == 'x' || letter == 'X'   ? 4
               : letter == 'o' || letter == 'O' ? 3
               : letter == 'b' || letter == 'B' ? 1
                                                : 0;
    if (bits > 0)
        digits = (fy_span){digits.ptr + 2, digits.len - 2};
    int64_t v;
    if (small_integer(digits, bits > 0 ? 1 << bits : 10, &v)) {
        tok->value = fy_tv_int(v);
        return 0;
    }
    if ((bits > 0 ? big_of_power(lex, digits, bits, &big)
                  : without_underscores(lex, digits, &big)) != 0)
        return -1;
    if (big.len > MAX_DIGITS)
        return literal_fail(lex, tok,
                            "Exceeds the limit (4300 digits) for integer string conversion");
    tok->value = fy_tv_view(big);
    tok->value.kind = FY_TV_BIGINT;
    return 0;
}

int fy_tlex_float(fy_tlex *lex, fy_tok *tok)
{
    fy_span text;
    if (without_underscores(lex, tok->text, &text) != 0)
        return -1;
    char small[64];
    char *z = small;
    if (text.len >= sizeof small) {
        z = fy_arena_strndup(lex->arena, text.ptr, text.len);
        if (z == NULL)
            return fy_nomem(lex->e);
    } else {
        memcpy(small, text.ptr, text.len);
        small[text.len] = '\0';
    }
    tok->value = fy_tv_float(strtod(z, NULL)); /* the program keeps the C locale */
    return 0;
}
