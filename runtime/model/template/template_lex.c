#include "model/template/template_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/str.h"
#include "model/template/template_builtin.h"

static const char *const kind_text[] = {
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
    [FY_TOK_ADD] = "+",
    [FY_TOK_SUB] = "-",
    [FY_TOK_MUL] = "*",
    [FY_TOK_DIV] = "/",
    [FY_TOK_FLOORDIV] = "//",
    [FY_TOK_MOD] = "%",
    [FY_TOK_POW] = "**",
    [FY_TOK_TILDE] = "~",
    [FY_TOK_EQ] = "==",
    [FY_TOK_NE] = "!=",
    [FY_TOK_LT] = "<",
    [FY_TOK_LE] = "<=",
    [FY_TOK_GT] = ">",
    [FY_TOK_GE] = ">=",
    [FY_TOK_ASSIGN] = "=",
    [FY_TOK_DOT] = ".",
    [FY_TOK_COLON] = ":",
    [FY_TOK_PIPE] = "|",
    [FY_TOK_COMMA] = ",",
    [FY_TOK_SEMICOLON] = ";",
    [FY_TOK_LBRACKET] = "[",
    [FY_TOK_RBRACKET] = "]",
    [FY_TOK_LPAREN] = "(",
    [FY_TOK_RPAREN] = ")",
    [FY_TOK_LBRACE] = "{",
    [FY_TOK_RBRACE] = "}",
};

static const char *const word_text[FY_W_COUNT] = {
    [FY_W_NONE] = "",
    [FY_W_FALSE_UPPER] = "False",
    [FY_W_NONE_UPPER] = "None",
    [FY_W_TRUE_UPPER] = "True",
    [FY_W_AND] = "and",
    [FY_W_AUTOESCAPE] = "autoescape",
    [FY_W_BLOCK] = "block",
    [FY_W_BREAK] = "break",
    [FY_W_CALL] = "call",
    [FY_W_CONTINUE] = "continue",
    [FY_W_ELIF] = "elif",
    [FY_W_ELSE] = "else",
    [FY_W_ENDCALL] = "endcall",
    [FY_W_ENDFILTER] = "endfilter",
    [FY_W_ENDFOR] = "endfor",
    [FY_W_ENDGENERATION] = "endgeneration",
    [FY_W_ENDIF] = "endif",
    [FY_W_ENDMACRO] = "endmacro",
    [FY_W_ENDSET] = "endset",
    [FY_W_ENDWITH] = "endwith",
    [FY_W_EXTENDS] = "extends",
    [FY_W_FALSE] = "false",
    [FY_W_FILTER] = "filter",
    [FY_W_FOR] = "for",
    [FY_W_FROM] = "from",
    [FY_W_GENERATION] = "generation",
    [FY_W_IF] = "if",
    [FY_W_IMPORT] = "import",
    [FY_W_IN] = "in",
    [FY_W_INCLUDE] = "include",
    [FY_W_IS] = "is",
    [FY_W_MACRO] = "macro",
    [FY_W_NONE_LOWER] = "none",
    [FY_W_NOT] = "not",
    [FY_W_OR] = "or",
    [FY_W_PRINT] = "print",
    [FY_W_RECURSIVE] = "recursive",
    [FY_W_SET] = "set",
    [FY_W_TRANS] = "trans",
    [FY_W_TRUE] = "true",
    [FY_W_WITH] = "with",
};

const char *fy_tok_kind_text(fy_tok_kind kind)
{
    return kind_text[kind];
}

const char *fy_tok_text(const fy_tok *tok, char out[FY_TOK_TEXT])
{
    return tok->kind == FY_TOK_NAME ? fy_quote(out, FY_TOK_TEXT, tok->text) : kind_text[tok->kind];
}

const char *fy_tword_text(fy_tword word)
{
    return word_text[word];
}

static fy_tword word_of(fy_span name)
{
    int low = FY_W_NONE + 1, high = FY_W_COUNT - 1;
    while (low <= high) {
        int mid = (low + high) / 2;
        size_t len = strlen(word_text[mid]);
        int order = memcmp(name.ptr, word_text[mid], name.len < len ? name.len : len);
        if (order == 0 && name.len == len)
            return (fy_tword)mid;
        if (order < 0 || (order == 0 && name.len < len))
            high = mid - 1;
        else
            low = mid + 1;
    }
    return FY_W_NONE;
}

int fy_tlex_fail(fy_err *e, fy_code code, uint32_t line, uint32_t column, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fy_fail(e, code, "line %u, column %u: %s", line, column, text);
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

/* --- places ----------------------------------------------------------------------------------- */

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

static int lex_fail(fy_tlex *lex, size_t at, const char *text)
{
    move_to(lex, at);
    return fy_tlex_fail(lex->e, FY_EFORMAT, lex->line, lex->column, "%s", text);
}

/* A token of text[begin, end). */
static void make(fy_tlex *lex, fy_tok *tok, fy_tok_kind kind, size_t begin, size_t end)
{
    move_to(lex, begin);
    *tok = (fy_tok){.kind = kind,
                    .line = lex->line,
                    .column = lex->column,
                    .text = {lex->text.ptr + begin, end - begin}};
    lex->last_line = tok->line;
    lex->last_column = tok->column;
}

static int make_end(fy_tlex *lex, fy_tok *tok)
{
    *tok = (fy_tok){.kind = FY_TOK_EOF, .line = lex->last_line, .column = lex->last_column};
    return 0;
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

static uint32_t code_point_at(const fy_tlex *lex, size_t at, int *len)
{
    uint32_t cp = 0;
    *len = fy_utf8_next(lex->text.ptr + at, lex->text.len - at, &cp);
    return cp;
}

static size_t skip_space(const fy_tlex *lex, size_t at)
{
    int len;
    while (at < lex->text.len && fy_tu_is_space(code_point_at(lex, at, &len)))
        at += (size_t)len;
    return at;
}

/* --- outside of tags -------------------------------------------------------------------------- */

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

static size_t find(const fy_tlex *lex, size_t at, const char *z)
{
    if (at >= lex->text.len)
        return lex->text.len;
    const char *p = memmem(lex->text.ptr + at, lex->text.len - at, z, strlen(z));
    return p != NULL ? (size_t)(p - lex->text.ptr) : lex->text.len;
}

/* The '-' or '+' of a tag that opens at `at`, else 0. */
static char sign_of(const fy_tlex *lex, size_t at)
{
    char c = char_at(lex, at + 2);
    return c == '-' || c == '+' ? c : '\0';
}

static fy_span without_trailing_space(fy_span text)
{
    const char *end = text.ptr + text.len;
    while (end > text.ptr) {
        const char *before = end;
        if (!fy_tu_is_space(fy_tu_prev(text.ptr, &before)))
            break;
        end = before;
    }
    return (fy_span){text.ptr, (size_t)(end - text.ptr)};
}

/* What the tag behind text[begin, end) leaves of it: '-' takes all white space; a statement or
 * comment that is the first on its line takes the blanks before it, unless '+' forbids. */
static fy_span text_before_tag(const fy_tlex *lex, size_t begin, size_t end, char sign,
                               bool is_variable)
{
    fy_span text = {lex->text.ptr + begin, end - begin};
    if (sign == '-')
        return without_trailing_space(text);
    if (sign == '+' || is_variable)
        return text;
    size_t line = text.len;
    while (line > 0 && text.ptr[line - 1] != '\n')
        line--;
    if (line == 0 && !lex->line_starting)
        return text;
    size_t stop = skip_space(lex, begin + line);
    if (stop >= end)
        text.len = line;
    return text;
}

/* Behind the end of a tag that stands at `at` ("%}", "-%}", "+%}" ...); 0 when none stands there.
 * A statement's end takes one line end, '-' all white space. */
static size_t match_end(const fy_tlex *lex, size_t at, const char *end, bool is_variable)
{
    if (has_at(lex, at, end)) {
        at += 2;
        return !is_variable && char_at(lex, at) == '\n' ? at + 1 : at;
    }
    char c = char_at(lex, at);
    if ((c == '-' || (c == '+' && !is_variable)) && has_at(lex, at + 1, end))
        return c == '-' ? skip_space(lex, at + 3) : at + 3;
    return 0;
}

static void leave_tag(fy_tlex *lex, size_t end)
{
    lex->pos = end;
    lex->line_starting = lex->text.ptr[end - 1] == '\n';
}

/* A comment that opens at `at`. One that opens at the very end of the text is none. */
static int skip_comment(fy_tlex *lex, size_t at)
{
    size_t begin = at + (sign_of(lex, at) != '\0' ? 3 : 2);
    size_t end = find(lex, begin, "#}");
    if (end == lex->text.len && begin < end)
        return lex_fail(lex, at, "Missing end of comment tag");
    if (begin >= lex->text.len) {
        lex->pos = lex->text.len;
        return 0;
    }
    char before = end > begin ? lex->text.ptr[end - 1] : '\0';
    leave_tag(lex, match_end(lex, before == '-' || before == '+' ? end - 1 : end, "#}", false));
    return 0;
}

/* Behind "{% name %}" that opens at `at`; 0 when something else stands there. */
static size_t match_raw(const fy_tlex *lex, size_t at, const char *name)
{
    at = skip_space(lex, at + (sign_of(lex, at) != '\0' ? 3 : 2));
    if (!has_at(lex, at, name))
        return 0;
    return skip_space(lex, at + strlen(name));
}

/* "{% raw %}" takes no line end, unlike other statements. */
static size_t match_raw_begin(const fy_tlex *lex, size_t at)
{
    size_t end = match_raw(lex, at, "raw");
    if (end == 0)
        return 0;
    if (has_at(lex, end, "-%}"))
        return skip_space(lex, end + 3);
    return has_at(lex, end, "%}") ? end + 2 : 0;
}

/* The text between the end of "{% raw %}" and its endraw. 1: a token was made; 0: it was empty. */
static int lex_raw(fy_tlex *lex, fy_tok *tok, size_t begin)
{
    lex->line_starting = lex->text.ptr[begin - 1] == '\n';
    size_t tag = find(lex, begin, "{%"), end = 0;
    for (; tag < lex->text.len; tag = find(lex, tag + 2, "{%")) {
        end = match_raw(lex, tag, "endraw");
        end = end > 0 ? match_end(lex, end, "%}", false) : 0;
        if (end > 0)
            break;
    }
    if (end == 0 && begin < lex->text.len)
        return lex_fail(lex, begin, "Missing end of raw directive");
    if (end == 0) {
        lex->pos = lex->text.len;
        return 0;
    }
    fy_span text = text_before_tag(lex, begin, tag, sign_of(lex, tag), false);
    leave_tag(lex, end);
    if (text.len == 0)
        return 0;
    make(lex, tok, FY_TOK_DATA, begin, begin + text.len);
    return 1;
}

/* 1: a token was made; 0: what stood there leaves none. */
static int lex_root(fy_tlex *lex, fy_tok *tok)
{
    size_t begin = lex->pos, tag = find_tag(lex);
    if (tag == lex->text.len) {
        make(lex, tok, FY_TOK_DATA, begin, tag);
        lex->pos = tag;
        return 1;
    }
    char kind = lex->text.ptr[tag + 1], sign = sign_of(lex, tag);
    fy_span text = text_before_tag(lex, begin, tag, sign, kind == '{');
    lex->pos = tag;
    if (text.len > 0) {
        make(lex, tok, FY_TOK_DATA, begin, begin + text.len);
        return 1;
    }
    if (kind == '#')
        return skip_comment(lex, tag);
    size_t raw = kind == '%' ? match_raw_begin(lex, tag) : 0;
    if (raw > 0)
        return lex_raw(lex, tok, raw);
    lex->pos = tag + (sign != '\0' ? 3 : 2);
    lex->state = kind == '{' ? FY_TLEX_VARIABLE : FY_TLEX_BLOCK;
    make(lex, tok, kind == '{' ? FY_TOK_VAR_BEGIN : FY_TOK_BLOCK_BEGIN, tag, lex->pos);
    return 1;
}

/* --- inside of tags --------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Behind digits at `at` that may be parted by single underscores. */
static size_t skip_digits(const fy_tlex *lex, size_t at)
{
    while (is_digit(char_at(lex, at)) ||
           (char_at(lex, at) == '_' && is_digit(char_at(lex, at + 1))))
        at++;
    return at;
}

/* Behind the float at `at`, a digit; 0 when it is none. A number after a dot is an index: a.1.5 */
static size_t match_float(const fy_tlex *lex, size_t at)
{
    if (lex->text.ptr[at - 1] == '.')
        return 0;
    size_t whole = skip_digits(lex, at), end = whole;
    if (char_at(lex, end) == '.' && is_digit(char_at(lex, end + 1)))
        end = skip_digits(lex, end + 1);
    char c = char_at(lex, end);
    if (c == 'e' || c == 'E') {
        size_t power = end + 1;
        if (char_at(lex, power) == '+' || char_at(lex, power) == '-')
            power++;
        if (is_digit(char_at(lex, power)))
            return skip_digits(lex, power);
    }
    return end > whole ? end : 0;
}

/* Behind an integer at `at`, a digit. What is left of a malformed one becomes the next token. */
static size_t match_integer(const fy_tlex *lex, size_t at)
{
    char letter = char_at(lex, at + 1);
    int base = letter == 'b' || letter == 'B'   ? 2
               : letter == 'o' || letter == 'O' ? 8
               : letter == 'x' || letter == 'X' ? 16
                                                : 0;
    size_t end = at + 1;
    if (lex->text.ptr[at] != '0') {
        end = skip_digits(lex, at);
    } else if (base == 0) {
        while (char_at(lex, end) == '0' ||
               (char_at(lex, end) == '_' && char_at(lex, end + 1) == '0'))
            end++;
    } else {
        for (size_t i = at + 2;; i++) {
            int d = fy_hex_digit(char_at(lex, i + (char_at(lex, i) == '_')));
            if (d < 0 || d >= base)
                break;
            i += char_at(lex, i) == '_';
            end = i + 1;
        }
    }
    return end;
}

static int lex_number(fy_tlex *lex, fy_tok *tok)
{
    size_t end = match_float(lex, lex->pos);
    bool is_float = end > 0;
    if (!is_float)
        end = match_integer(lex, lex->pos);
    make(lex, tok, is_float ? FY_TOK_FLOAT : FY_TOK_INTEGER, lex->pos, end);
    lex->pos = end;
    return is_float ? fy_tlex_float(lex, tok) : fy_tlex_integer(lex, tok);
}

static bool is_among(uint32_t cp, const uint32_t *ranges, size_t n)
{
    for (size_t i = 0; i < n; i += 2) {
        if (cp >= ranges[i] && cp <= ranges[i + 1])
            return true;
    }
    return false;
}

static bool has_category(uint32_t cp, uint32_t categories)
{
    return categories >> utf8proc_category((utf8proc_int32_t)cp) & 1;
}

/* XID_Start and XID_Continue of UAX 31, which are Python's identifiers: categories, and the
 * characters that make an exception to them. */
static bool is_identifier_start(uint32_t cp)
{
    static const uint32_t more[] = {0x1885, 0x1886, 0x2118, 0x2118, 0x212E, 0x212E};
    static const uint32_t less[] = {0x37A,  0x37A,  0xE33,  0xE33,  0xEB3,  0xEB3,  0x2E2F, 0x2E2F,
                                    0xFC5E, 0xFC63, 0xFDFA, 0xFDFB, 0xFE70, 0xFE70, 0xFE72, 0xFE72,
                                    0xFE74, 0xFE74, 0xFE76, 0xFE76, 0xFE78, 0xFE78, 0xFE7A, 0xFE7A,
                                    0xFE7C, 0xFE7C, 0xFE7E, 0xFE7E, 0xFF9E, 0xFF9F};
    const uint32_t letters = 1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL |
                             1u << UTF8PROC_CATEGORY_LT | 1u << UTF8PROC_CATEGORY_LM |
                             1u << UTF8PROC_CATEGORY_LO | 1u << UTF8PROC_CATEGORY_NL;
    if (cp < 0x80)
        return cp == '_' || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    return is_among(cp, more, sizeof more / sizeof *more) ||
           (has_category(cp, letters) && !is_among(cp, less, sizeof less / sizeof *less));
}

static bool is_identifier_part(uint32_t cp)
{
    static const uint32_t more[] = {0xB7,  0xB7,   0x387,  0x387,  0xE33,  0xE33,  0xEB3,
                                    0xEB3, 0x1369, 0x1371, 0x19DA, 0x19DA, 0xFF9E, 0xFF9F};
    const uint32_t marks = 1u << UTF8PROC_CATEGORY_MN | 1u << UTF8PROC_CATEGORY_MC |
                           1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_PC;
    if (cp < 0x80)
        return is_identifier_start(cp) || is_digit((char)cp);
    return has_category(cp, marks) || is_among(cp, more, sizeof more / sizeof *more) ||
           is_identifier_start(cp);
}

/* A name at pos; 0: none stands there. */
static int lex_name(fy_tlex *lex, fy_tok *tok)
{
    size_t end = lex->pos;
    bool valid = true;
    int len;
    for (; end < lex->text.len; end += (size_t)len) {
        uint32_t cp = code_point_at(lex, end, &len);
        bool part = is_identifier_part(cp);
        if (!part && !fy_tu_is_alnum(cp) && cp != '_')
            break;
        valid = valid && part && (end > lex->pos || is_identifier_start(cp));
    }
    if (end == lex->pos)
        return 0;
    if (!valid)
        return lex_fail(lex, lex->pos, "Invalid character in identifier");
    make(lex, tok, FY_TOK_NAME, lex->pos, end);
    tok->word = word_of(tok->text);
    lex->pos = end;
    return 1;
}

static int lex_string(fy_tlex *lex, fy_tok *tok)
{
    char quote = lex->text.ptr[lex->pos];
    for (size_t i = lex->pos + 1; i < lex->text.len; i++) {
        if (lex->text.ptr[i] == '\\') {
            i++;
        } else if (lex->text.ptr[i] == quote) {
            make(lex, tok, FY_TOK_STRING, lex->pos, i + 1);
            lex->pos = i + 1;
            return fy_tlex_string(lex, tok) == 0 ? 1 : -1;
        }
    }
    return 0;
}

static int check_bracket(fy_tlex *lex, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    char text[40];
    const char *found = strchr(open, c);
    if (found != NULL) {
        if (lex->n_open == sizeof lex->open)
            return lex_fail(lex, lex->pos, "brackets are nested too deeply");
        lex->open[lex->n_open++] = close[found - open];
    } else if (strchr(close, c) != NULL) {
        if (lex->n_open == 0)
            snprintf(text, sizeof text, "unexpected '%c'", c);
        else if (lex->open[lex->n_open - 1] != c)
            snprintf(text, sizeof text, "unexpected '%c', expected '%c'", c,
                     lex->open[lex->n_open - 1]);
        else {
            lex->n_open--;
            return 0;
        }
        return lex_fail(lex, lex->pos, text);
    }
    return 0;
}

static int lex_operator(fy_tlex *lex, fy_tok *tok)
{
    char c = lex->text.ptr[lex->pos];
    for (size_t n = 2; n > 0; n--) { /* the longer ones first */
        for (int k = FY_TOK_ADD; k <= FY_TOK_RBRACE; k++) {
            if (kind_text[k][0] != c || strlen(kind_text[k]) != n ||
                !has_at(lex, lex->pos, kind_text[k]))
                continue;
            if (n == 1 && check_bracket(lex, c) != 0)
                return -1;
            make(lex, tok, (fy_tok_kind)k, lex->pos, lex->pos + n);
            lex->pos += n;
            return 1;
        }
    }
    return 0;
}

/* With Python's repr of the character, and its index. */
static int fail_unexpected(fy_tlex *lex)
{
    char shown[16];
    int len;
    uint32_t cp = code_point_at(lex, lex->pos, &len);
    if (fy_tu_is_printable(cp))
        snprintf(shown, sizeof shown, "%s%.*s", cp == '\\' ? "\\" : "", len,
                 lex->text.ptr + lex->pos);
    else
        snprintf(shown, sizeof shown,
                 cp < 0x100     ? "\\x%02x"
                 : cp < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                 (unsigned)cp);
    size_t index = 0;
    for (size_t i = 0; i < lex->pos; i++)
        index += (lex->text.ptr[i] & 0xC0) != 0x80;
    char quote = cp == '\'' ? '"' : '\'';
    move_to(lex, lex->pos);
    return fy_tlex_fail(lex->e, FY_EFORMAT, lex->line, lex->column, "unexpected char %c%s%c at %zu",
                        quote, shown, quote, index);
}

static int lex_tag(fy_tlex *lex, fy_tok *tok)
{
    lex->pos = skip_space(lex, lex->pos);
    bool is_variable = lex->state == FY_TLEX_VARIABLE;
    size_t end =
        lex->n_open > 0 ? 0 : match_end(lex, lex->pos, is_variable ? "}}" : "%}", is_variable);
    if (end > 0) {
        make(lex, tok, is_variable ? FY_TOK_VAR_END : FY_TOK_BLOCK_END, lex->pos, end);
        leave_tag(lex, end);
        lex->state = FY_TLEX_ROOT;
        return 0;
    }
    if (lex->pos >= lex->text.len)
        return make_end(lex, tok);
    char c = lex->text.ptr[lex->pos];
    if (is_digit(c))
        return lex_number(lex, tok);
    int rc = c == '\'' || c == '"' ? lex_string(lex, tok) : lex_name(lex, tok);
    if (rc == 0)
        rc = lex_operator(lex, tok);
    if (rc == 0)
        return fail_unexpected(lex);
    return rc > 0 ? 0 : -1;
}

int fy_tlex_next(fy_tlex *lex, fy_tok *tok)
{
    if (lex->state != FY_TLEX_ROOT)
        return lex_tag(lex, tok);
    while (lex->pos < lex->text.len) {
        int rc = lex_root(lex, tok);
        if (rc != 0)
            return rc > 0 ? 0 : -1;
    }
    return make_end(lex, tok);
}
