/* The lexer: cuts a template's text into tokens. Outside of tags it applies jinja2's whitespace
 * control; inside it makes names, operators and literals, whose values it decodes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/template/template_parse.h"

const char *fy_tok_text(const fy_tok *tok, char out[FY_TOK_TEXT])
{
    static const char *const kinds[] = {
        [FY_TOK_EOF] = "end of template",
        [FY_TOK_DATA] = "template data / text",
        [FY_TOK_VAR_BEGIN] = "begin of print statement",
        [FY_TOK_VAR_END] = "end of print statement",
        [FY_TOK_BLOCK_BEGIN] = "begin of statement block",
        [FY_TOK_BLOCK_END] = "end of statement block",
        [FY_TOK_NAME] = "name",
        [FY_TOK_STRING] = "string",
        [FY_TOK_INTEGER] = "integer",
        [FY_TOK_FLOAT] = "float",
        [FY_TOK_OPERATOR] = "operator",
    };
    bool itself = tok->kind == FY_TOK_OPERATOR || tok->kind == FY_TOK_NAME;
    return itself && tok->text.len > 0 ? fy_quote(out, FY_TOK_TEXT, tok->text) : kinds[tok->kind];
}

void fy_tlex_fail(fy_err *e, fy_code code, uint32_t line, uint32_t column, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fy_fail(e, code, "line %u, column %u: %s", line, column, text);
}

void fy_tlex_init(fy_tlex *lex, fy_span text, fy_arena *arena, fy_err *e)
{
    *lex = (fy_tlex){.arena = arena,
                     .e = e,
                     .text = text,
                     .line = 1,
                     .column = 1,
                     .last_line = 1,
                     .last_column = 1,
                     .line_starting = true};
}

/* --- places --- */

/* Sets line and column to those of `at`, which is not before the place asked for last. */
static void move_to(fy_tlex *lex, size_t at)
{
    for (; lex->mark < at; lex->mark++) {
        char c = lex->text.ptr[lex->mark];
        if (c == '\n') {
            lex->line++;
            lex->column = 1;
        } else if ((c & 0xC0) != 0x80) {
            lex->column++;
        }
    }
}

static void lex_fail(fy_tlex *lex, size_t at, const char *text)
{
    move_to(lex, at);
    fy_tlex_fail(lex->e, FY_EFORMAT, lex->line, lex->column, "%s", text);
}

/* A token of text[begin, end). */
static fy_tok make(fy_tlex *lex, fy_tok_kind kind, size_t begin, size_t end)
{
    move_to(lex, begin);
    lex->last_line = lex->line;
    lex->last_column = lex->column;
    return (fy_tok){.kind = kind,
                    .line = lex->line,
                    .column = lex->column,
                    .text = {lex->text.ptr + begin, end - begin}};
}

static char char_at(const fy_tlex *lex, size_t at)
{
    return at < lex->text.len ? lex->text.ptr[at] : '\0';
}

static bool has_at(const fy_tlex *lex, size_t at, const char *z)
{
    size_t n = strlen(z);
    return lex->text.len - at >= n && memcmp(lex->text.ptr + at, z, n) == 0;
}

static size_t skip_space(const fy_tlex *lex, size_t at)
{
    const char *p = lex->text.ptr + at, *end = lex->text.ptr + lex->text.len;
    for (const char *next = p; p < end && fy_tu_is_space(fy_tu_next(&next, end)); p = next)
        ;
    return (size_t)(p - lex->text.ptr);
}

static size_t find(const fy_tlex *lex, size_t at, const char *z)
{
    ptrdiff_t found =
        at >= lex->text.len
            ? -1
            : fy_tu_find((fy_span){lex->text.ptr + at, lex->text.len - at}, fy_span_of(z));
    return found < 0 ? lex->text.len : at + (size_t)found;
}

/* --- outside of tags --- */

/* Where the next of "{{", "{%", "{#" begins, or the end. */
static size_t find_tag(const fy_tlex *lex)
{
    const char *p = lex->text.ptr + lex->pos, *end = lex->text.ptr + lex->text.len;
    for (; p < end && (p = memchr(p, '{', (size_t)(end - p))) != NULL; p++) {
        if (end - p > 1 && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return (size_t)(p - lex->text.ptr);
    }
    return lex->text.len;
}

/* The '-' or '+' of a tag that opens at `at`, else 0. */
static char sign_of(const fy_tlex *lex, size_t at)
{
    char c = char_at(lex, at + 2);
    return c == '-' || c == '+' ? c : '\0';
}

/* What the tag after text[begin, end) leaves of it: '-' takes all white space; a statement or
 * comment that is the first on its line takes the space before it, unless '+' forbids. */
static fy_span text_before_tag(const fy_tlex *lex, size_t begin, size_t end, char sign,
                               bool is_variable)
{
    fy_span text = {lex->text.ptr + begin, end - begin};
    if (sign == '-') {
        const char *stop = text.ptr + text.len, *before = stop;
        while (stop > text.ptr && fy_tu_is_space(fy_tu_prev(text.ptr, &before)))
            stop = before;
        text.len = (size_t)(stop - text.ptr);
    }
    if (sign != '\0' || is_variable)
        return text;
    size_t line = text.len;
    while (line > 0 && text.ptr[line - 1] != '\n')
        line--;
    if ((line > 0 || lex->line_starting) && skip_space(lex, begin + line) >= end)
        text.len = line;
    return text;
}

/* The place after the end of a tag that stands at `at` ("%}", "-%}", "+%}" ...); 0 if none stands
 * there. A statement's end takes one line end, '-' all white space. */
static size_t match_end(const fy_tlex *lex, size_t at, const char *end)
{
    bool is_variable = end[0] == '}';
    char c = char_at(lex, at);
    if (has_at(lex, at, end))
        return at + 2 + (!is_variable && char_at(lex, at + 2) == '\n');
    if ((c == '-' || (c == '+' && !is_variable)) && has_at(lex, at + 1, end))
        return c == '-' ? skip_space(lex, at + 3) : at + 3;
    return 0;
}

static void leave_tag(fy_tlex *lex, size_t end)
{
    lex->pos = end;
    lex->line_starting = lex->text.ptr[end - 1] == '\n';
}

/* A comment that opens at `at`. One that opens at the very end of the text is ignored. */
static void skip_comment(fy_tlex *lex, size_t at)
{
    size_t begin = at + (sign_of(lex, at) != '\0' ? 3 : 2), end = find(lex, begin, "#}");
    if (begin >= lex->text.len) {
        lex->pos = lex->text.len;
    } else if (end == lex->text.len) {
        lex_fail(lex, at, "Missing end of comment tag");
    } else {
        char before = end > begin ? lex->text.ptr[end - 1] : '\0';
        leave_tag(lex, match_end(lex, end - (before == '-' || before == '+'), "#}"));
    }
}

/* The place after "{% name " that opens at `at`; 0 if something else stands there. */
static size_t match_raw(const fy_tlex *lex, size_t at, const char *name)
{
    at = skip_space(lex, at + (sign_of(lex, at) != '\0' ? 3 : 2));
    return has_at(lex, at, name) ? skip_space(lex, at + strlen(name)) : 0;
}

/* The text between the end of "{% raw %}" and its endraw. False: it was empty, no token was made.
 */
static bool lex_raw(fy_tlex *lex, fy_tok *tok, size_t begin)
{
    size_t tag = find(lex, begin, "{%"), end = 0;
    lex->line_starting = lex->text.ptr[begin - 1] == '\n';
    for (; tag < lex->text.len; tag = find(lex, tag + 2, "{%")) {
        end = match_raw(lex, tag, "endraw");
        end = end > 0 ? match_end(lex, end, "%}") : 0;
        if (end > 0)
            break;
    }
    if (end == 0) {
        lex_fail(lex, begin, "Missing end of raw directive");
        return false;
    }
    fy_span text = text_before_tag(lex, begin, tag, sign_of(lex, tag), false);
    leave_tag(lex, end);
    if (text.len > 0)
        *tok = make(lex, FY_TOK_DATA, begin, begin + text.len);
    return text.len > 0;
}

/* False: what stood there leaves no token. */
static bool lex_outside(fy_tlex *lex, fy_tok *tok)
{
    size_t begin = lex->pos, tag = find_tag(lex);
    char kind = char_at(lex, tag + 1), sign = sign_of(lex, tag);
    size_t len = tag - begin;
    if (tag < lex->text.len)
        len = text_before_tag(lex, begin, tag, sign, kind == '{').len;
    lex->pos = tag;
    if (len > 0 || tag == lex->text.len) {
        *tok = make(lex, FY_TOK_DATA, begin, begin + len);
        return true;
    }
    if (kind == '#') {
        skip_comment(lex, tag);
        return false;
    }
    size_t raw = kind == '%' ? match_raw(lex, tag, "raw") : 0;
    if (raw > 0 && has_at(lex, raw, "-%}")) /* "{% raw %}" takes no line end */
        return lex_raw(lex, tok, skip_space(lex, raw + 3));
    if (raw > 0 && has_at(lex, raw, "%}"))
        return lex_raw(lex, tok, raw + 2);
    lex->pos = tag + (sign != '\0' ? 3 : 2);
    lex->end = kind == '{' ? '}' : '%';
    *tok = make(lex, kind == '{' ? FY_TOK_VAR_BEGIN : FY_TOK_BLOCK_BEGIN, tag, lex->pos);
    return true;
}

/* --- strings --- */

/* Decodes the escape at *p, after its backslash, and moves *p after it. NULL, or what is wrong. */
static const char *put_escape(const char **p, const char *end, char **out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *(*p)++;
    const char *simple = c != '\0' ? strchr(from, c) : NULL;
    uint32_t cp = 0;
    int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (simple != NULL) {
        *(*out)++ = to[simple - from];
    } else if (n > 0) {
        for (; n > 0; n--, ++*p) {
            int d = *p < end ? fy_hex_digit(**p) : -1;
            if (d < 0)
                return c == 'x'   ? "truncated \\xXX escape"
                       : c == 'u' ? "truncated \\uXXXX escape"
                                  : "truncated \\UXXXXXXXX escape";
            cp = cp << 4 | (uint32_t)d;
        }
        if (cp > 0x10FFFF)
            return "illegal Unicode character";
        if (cp >= 0xD800 && cp < 0xE000)
            return "a string cannot hold half of a surrogate pair: write the character itself";
        *out += fy_tu_put(*out, cp);
    } else if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            cp = cp << 3 | (uint32_t)(*(*p)++ - '0');
        *out += fy_tu_put(*out, cp);
    } else if (c == 'N') {
        return "characters by name (\\N{...}) are not supported: write the character itself";
    } else if (c != '\n') {
        *(*out)++ = '\\';
        *(*out)++ = c;
    }
    return NULL;
}

static void decode_string(fy_tlex *lex, fy_tok *tok)
{
    const char *p = tok->text.ptr + 1, *end = p + tok->text.len - 2;
    tok->value = fy_tv_view((fy_span){p, (size_t)(end - p)});
    if (memchr(p, '\\', (size_t)(end - p)) == NULL)
        return;
    char *begin = fy_arena_alloc(lex->arena, 2 * (size_t)(end - p)), *out = begin;
    if (begin == NULL)
        fy_nomem(lex->e);
    while (p < end && lex->e->code == FY_OK) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        p++;
        bool by_name = *p == 'N';
        const char *error = put_escape(&p, end, &out);
        if (error != NULL)
            fy_tlex_fail(lex->e, by_name ? FY_EUNSUPPORTED : FY_EFORMAT, tok->line, tok->column,
                         "%s", error);
    }
    tok->value = fy_tv_view((fy_span){begin, (size_t)(out - begin)});
}

/* False: no string ends here. */
static bool lex_string(fy_tlex *lex, fy_tok *tok)
{
    char quote = lex->text.ptr[lex->pos];
    size_t i = lex->pos + 1;
    while (char_at(lex, i) != quote && i < lex->text.len)
        i += lex->text.ptr[i] == '\\' ? 2 : 1;
    if (i >= lex->text.len)
        return false;
    *tok = make(lex, FY_TOK_STRING, lex->pos, i + 1);
    lex->pos = i + 1;
    decode_string(lex, tok);
    return true;
}

/* --- numbers --- */

enum { MAX_DIGITS = 4300 }; /* Python's limit for the text of an integer */

/* The place after digits of `base` at `at`, with single underscores between them. */
static size_t skip_digits(const fy_tlex *lex, size_t at, int base)
{
    for (;;) {
        size_t digit = at + (char_at(lex, at) == '_');
        int d = fy_hex_digit(char_at(lex, digit));
        if (d < 0 || d >= base)
            return at;
        at = digit + 1;
    }
}

/* The place after the float at `at`, 0: none stands there. After a dot comes an index: a.1.5 */
static size_t match_float(const fy_tlex *lex, size_t at)
{
    if (lex->text.ptr[at - 1] == '.')
        return 0;
    size_t whole = skip_digits(lex, at, 10), end = whole;
    if (char_at(lex, end) == '.' && fy_hex_digit(char_at(lex, end + 1)) >= 0)
        end = skip_digits(lex, end + 1, 10);
    if ((char_at(lex, end) | 0x20) == 'e') {
        char sign = char_at(lex, end + 1);
        size_t power = end + 1 + (sign == '+' || sign == '-');
        size_t after = skip_digits(lex, power, 10);
        end = after > power ? after : end;
    }
    return end > whole + 1 ? end : 0;
}

static void lex_number(fy_tlex *lex, fy_tok *tok)
{
    size_t begin = lex->pos, end = match_float(lex, begin), n = 0;
    bool is_float = end > 0;
    char letter = (char)(char_at(lex, begin + 1) | 0x20);
    int base = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 10;
    if (!is_float && char_at(lex, begin) == '0' && base != 10)
        end = skip_digits(lex, begin + 2, base);
    if (!is_float && end <= begin + 2) {
        base = 10;
        end = skip_digits(lex, begin, 10);
    }
    *tok = make(lex, is_float ? FY_TOK_FLOAT : FY_TOK_INTEGER, begin, end);
    lex->pos = end;
    char *digits = fy_arena_alloc(lex->arena, tok->text.len + 1); /* without underscores */
    if (digits == NULL) {
        fy_nomem(lex->e);
        return;
    }
    for (size_t i = 0; i < tok->text.len; i++) {
        if (tok->text.ptr[i] != '_')
            digits[n++] = tok->text.ptr[i];
    }
    digits[n] = '\0';
    errno = 0;
    tok->value = is_float ? fy_tv_float(strtod(digits, NULL)) /* the program keeps the C locale */
                          : fy_tv_int(strtoll(digits + (base == 10 ? 0 : 2), NULL, base));
    if (is_float || errno != ERANGE)
        return;
    if (base != 10)
        fy_tlex_fail(lex->e, FY_EFORMAT, tok->line, tok->column,
                     "an integer of more than 64 bits has to be written in decimal");
    else if (n > MAX_DIGITS)
        fy_tlex_fail(lex->e, FY_EFORMAT, tok->line, tok->column,
                     "Exceeds the limit (%d digits) for integer string conversion", MAX_DIGITS);
    tok->value = (fy_tv){.kind = FY_TV_BIGINT, .str = {digits, n}};
}

/* --- names and operators --- */

static bool is_name_char(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static void check_bracket(fy_tlex *lex, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    char text[40], wanted = lex->n_open > 0 ? lex->open[lex->n_open - 1] : '\0';
    const char *found = strchr(open, c);
    if (found != NULL && lex->n_open == sizeof lex->open) {
        lex_fail(lex, lex->pos, "brackets are nested too deeply");
    } else if (found != NULL) {
        lex->open[lex->n_open++] = close[found - open];
    } else if (wanted == c) {
        lex->n_open--;
    } else if (strchr(close, c) != NULL) {
        snprintf(text, sizeof text,
                 wanted != '\0' ? "unexpected '%c', expected '%c'" : "unexpected '%c'", c, wanted);
        lex_fail(lex, lex->pos, text);
    }
}

/* False: no operator stands here. */
static bool lex_operator(fy_tlex *lex, fy_tok *tok)
{
    static const char *const longer[] = {"//", "**", "==", "!=", "<=", ">="};
    char c = lex->text.ptr[lex->pos];
    size_t n = c != '\0' && strchr("+-*/%~<>=.:|,;()[]{}", c) != NULL;
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        if (has_at(lex, lex->pos, longer[i]))
            n = 2;
    }
    if (n == 1)
        check_bracket(lex, c);
    lex->pos += n;
    *tok = make(lex, FY_TOK_OPERATOR, lex->pos - n, lex->pos);
    return n > 0;
}

/* With the index of the character, as jinja2 reports it. */
static void fail_unexpected(fy_tlex *lex)
{
    char shown[FY_TOK_TEXT];
    const char *p = lex->text.ptr + lex->pos, *after = p;
    size_t index = 0;
    fy_tu_next(&after, lex->text.ptr + lex->text.len);
    fy_quote(shown, sizeof shown, (fy_span){p, (size_t)(after - p)});
    for (size_t i = 0; i < lex->pos; i++)
        index += (lex->text.ptr[i] & 0xC0) != 0x80;
    char quote = *p == '\'' ? '"' : '\'';
    move_to(lex, lex->pos);
    fy_tlex_fail(lex->e, FY_EFORMAT, lex->line, lex->column, "unexpected char %c%s%c at %zu", quote,
                 shown, quote, index);
}

/* False: the end of the text. */
static bool lex_inside(fy_tlex *lex, fy_tok *tok)
{
    lex->pos = skip_space(lex, lex->pos);
    bool is_variable = lex->end == '}', made = true;
    size_t begin = lex->pos;
    size_t end = lex->n_open > 0 ? 0 : match_end(lex, begin, is_variable ? "}}" : "%}");
    char c = char_at(lex, begin);
    if (begin >= lex->text.len)
        return false;
    if (end > 0) {
        *tok = make(lex, is_variable ? FY_TOK_VAR_END : FY_TOK_BLOCK_END, begin, end);
        leave_tag(lex, end);
        lex->end = '\0';
    } else if (c >= '0' && c <= '9') {
        lex_number(lex, tok);
    } else if (is_name_char(c, true)) {
        while (is_name_char(char_at(lex, lex->pos), false))
            lex->pos++;
        *tok = make(lex, FY_TOK_NAME, begin, lex->pos);
    } else {
        made = c == '\'' || c == '"' ? lex_string(lex, tok) : lex_operator(lex, tok);
    }
    if (!made)
        fail_unexpected(lex);
    return true;
}

void fy_tlex_next(fy_tlex *lex, fy_tok *tok)
{
    bool made = false;
    while (!made && lex->e->code == FY_OK && lex->pos < lex->text.len && lex->end == '\0')
        made = lex_outside(lex, tok);
    if (!made && lex->e->code == FY_OK && lex->end != '\0')
        made = lex_inside(lex, tok);
    if (!made || lex->e->code != FY_OK)
        *tok = (fy_tok){.kind = FY_TOK_EOF, .line = lex->last_line, .column = lex->last_column};
}
