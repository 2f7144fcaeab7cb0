/* The verb `explain`: the table of workspace/data/explain.json, and the search in it for a number,
 * a name or the words of a pasted line. */
#include "workspace/phone/explain.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_rows.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/data/data_files.h"

enum { DSP_OFFSET = 0x400, DSP_LAST = 0x7ff, AEE_LAST = 0x2ff, ERRNO_LAST = 1023, NAME_BYTES = 96 };

/* --- the table -------------------------------------------------------------------------------- */

typedef struct {
    fy_explain_table table;
    size_t n_families;
    fy_explain_family_row *family; /* owned */
    fy_arena strings;
} reader;

static int take_family(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    const reader *r = t->user;
    fy_span text;
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    for (size_t i = 0; i < r->n_families; i++) {
        if (fy_span_is(text, r->family[i].name)) {
            *(fy_explain_family *)at = (fy_explain_family)i;
            return 0;
        }
    }
    return fy_fail(e, FY_EFORMAT, "unknown family");
}
#define TEXT(holder, name) FY_JSON_FIELD(TEXT, #name, holder, name, false)
#define FAMILY(holder)                                                                 \
    {                                                                                  \
        .key = "family", .type = FY_JSON_ROW_TAKE, .offset = offsetof(holder, family), \
        .take = take_family                                                            \
    }
static const fy_json_row family_rows[] = {
    TEXT(fy_explain_family_row, name),   TEXT(fy_explain_family_row, what),
    TEXT(fy_explain_family_row, ranges), TEXT(fy_explain_family_row, cause),
    TEXT(fy_explain_family_row, remedy),
};
static const fy_json_row group_rows[] = {
    FAMILY(fy_explain_group),
    FY_JSON_FIELD(I64, "first", fy_explain_group, first, true),
    FY_JSON_FIELD(I64, "last", fy_explain_group, last, true),
    TEXT(fy_explain_group, name),
    TEXT(fy_explain_group, what),
    TEXT(fy_explain_group, cause),
    TEXT(fy_explain_group, remedy),
};
static const fy_json_row row_rows[] = {
    FAMILY(fy_explain_row),        FY_JSON_FIELD(I64, "code", fy_explain_row, code, false),
    TEXT(fy_explain_row, name),    TEXT(fy_explain_row, text),
    TEXT(fy_explain_row, meaning), TEXT(fy_explain_row, cause),
    TEXT(fy_explain_row, remedy),
};

static int read_table(reader *r, fy_span text, fy_err *e)
{
    static const fy_explain_row no_code = {.code = FY_EXPLAIN_NO_CODE};
#define LIST(list, item)                                                   \
    FY_JSON_ROWS(list), .strict = true, .strings = &r->strings, .user = r, \
                        .item_bytes = sizeof(item)
    const fy_json_table families = {LIST(family_rows, fy_explain_family_row)},
                        groups = {LIST(group_rows, fy_explain_group)},
                        rows = {LIST(row_rows, fy_explain_row), .fresh = &no_code};
#define MEMBER(name, field, count, of)                                                   \
    {                                                                                    \
        .key = name, .type = FY_JSON_ROW_LIST, .required = true,                         \
        .offset = offsetof(reader, field), .n_at = offsetof(reader, count), .table = &of \
    }
    const fy_json_row lists[] = {MEMBER("families", family, n_families, families),
                                 MEMBER("groups", table.group, table.n_groups, groups),
                                 MEMBER("rows", table.row, table.n_rows, rows)};
    const fy_json_table whole = {FY_JSON_ROWS(lists), .strict = true};
    return fy_json_document_of(text, &whole, r, e);
}

static reader known;
static bool known_ok;

static void read_known(void)
{
    const fy_data_file *f = fy_data_find("explain.json");
    known_ok = f != NULL &&
               read_table(&known, (fy_span){(const char *)f->data, f->size}, NULL) == 0 &&
               known.n_families == FY_EXPLAIN_FAMILIES;
    known.table.family = known.family;
}

const fy_explain_table *fy_explain_known(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_known);
    return known_ok ? &known.table : NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

static const fy_explain_row *row_of(fy_explain_family family, int64_t code)
{
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        if (fy_explain_known()->row[i].family == family && fy_explain_known()->row[i].code == code)
            return &fy_explain_known()->row[i];
    }
    return NULL;
}

static const fy_explain_group *group_of(fy_explain_family family, int64_t code)
{
    for (size_t i = 0; i < fy_explain_known()->n_groups; i++) {
        const fy_explain_group *g = &fy_explain_known()->group[i];
        if (g->family == family && code >= g->first && code <= g->last)
            return g;
    }
    return NULL;
}

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a != NULL ? a : b != NULL ? b : c;
}

/* ferry's own statuses have their words beside --help. */
static const char *exit_text(int64_t status)
{
    for (const fy_exit_row *r = fy_exit_rows; r->text != NULL; r++) {
        if (r->status == status)
            return r->text;
    }
    return "";
}

fy_explanation fy_explain_of(const fy_explain_row *r)
{
    const fy_explain_family_row *f = &fy_explain_known()->family[r->family];
    const fy_explain_group *g = group_of(r->family, r->code);
    return (fy_explanation){.family = r->family,
                            .code = r->code,
                            .name = r->name,
                            .meaning = r->meaning != NULL ? r->meaning : exit_text(r->code),
                            .cause = first_of(r->cause, g != NULL ? g->cause : NULL, f->cause),
                            .remedy = first_of(r->remedy, g != NULL ? g->remedy : NULL, f->remedy)};
}

typedef struct {
    fy_explanation *out;
    size_t n, max;
} answers;

static void add(answers *a, const fy_explanation *x)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->out[i].family == x->family && a->out[i].code == x->code &&
            strcmp(a->out[i].name, x->name) == 0)
            return;
    }
    if (a->n < a->max)
        a->out[a->n++] = *x;
}

static void add_row(answers *a, const fy_explain_row *r)
{
    if (r == NULL)
        return;
    fy_explanation x = fy_explain_of(r);
    add(a, &x);
}

/* The row of a code, else what is known of its group when `any` number of it is welcome. */
static void add_code(answers *a, fy_explain_family family, int64_t code, bool any)
{
    const fy_explain_row *r = row_of(family, code);
    const fy_explain_group *g = group_of(family, code);
    if (r != NULL || g == NULL || !any) {
        add_row(a, r);
        return;
    }
    const fy_explain_family_row *f = &fy_explain_known()->family[family];
    fy_explanation x = {.family = family,
                        .code = code,
                        .name = g->name,
                        .meaning = g->what,
                        .cause = first_of(g->cause, NULL, f->cause),
                        .remedy = first_of(g->remedy, NULL, f->remedy)};
    add(a, &x);
}

/* FastRPC passes on what the kernel's driver said. */
static void add_errno(answers *a, int number)
{
    const char *name = strerrorname_np(number), *what = strerrordesc_np(number);
    if (name == NULL || what == NULL)
        return;
    fy_explanation x = {.family = FY_EXPLAIN_FASTRPC,
                        .code = -number,
                        .name = name,
                        .meaning = what,
                        .cause = "the kernel's fastrpc driver refused the call with this errno",
                        .remedy = fy_explain_known()->family[FY_EXPLAIN_FASTRPC].remedy};
    add(a, &x);
}

void fy_explain_code_text(const fy_explanation *x, char decimal[24], char hex[24])
{
    decimal[0] = hex[0] = '\0';
    if (x->code == FY_EXPLAIN_NO_CODE)
        return;
    snprintf(decimal, 24, "%lld", (long long)x->code);
    uint64_t shown = (uint64_t)x->code;
    if (x->family == FY_EXPLAIN_FASTRPC)
        shown = x->code < 0 ? (uint32_t)x->code : 0x80000000u + DSP_OFFSET + shown;
    snprintf(hex, 24, "0x%llx", (unsigned long long)shown);
}

/* --- numbers ---------------------------------------------------------------------------------- */

typedef struct {
    bool negative, hex;
    uint64_t magnitude;
} number;

/* What the number may be, in all families. any: also numbers of groups that have no row. */
static void explain_number(answers *a, number v, bool any)
{
    uint64_t m = v.magnitude, bits = v.negative ? 0 - m : m;
    uint32_t low = (uint32_t)bits;
    bool of_32 = v.negative ? m <= 0x80000000u : bits >> 32 == 0 || bits >> 32 == 0xffffffffu;
    if (!v.negative && m < 256) {
        add_code(a, FY_EXPLAIN_FERRY, (int64_t)m, any);
        add_code(a, FY_EXPLAIN_PROGRAM, (int64_t)m, any);
    }
    if (of_32 && low >= 0x80000000u + DSP_OFFSET && low <= 0x80000000u + DSP_LAST)
        add_code(a, FY_EXPLAIN_FASTRPC, (int64_t)(low - 0x80000000u - DSP_OFFSET), any);
    else if (of_32 && (int32_t)low < 0 && (int32_t)low >= -ERRNO_LAST)
        add_errno(a, -(int32_t)low);
    else if (!v.negative && m <= 0xffff)
        add_code(a, FY_EXPLAIN_QNN, (int64_t)m, any);
    else if (!v.negative && v.hex)
        add_code(a, FY_EXPLAIN_QNN, (int64_t)(m & 0xffff), false);
    if (!v.negative && m <= AEE_LAST)
        add_code(a, FY_EXPLAIN_FASTRPC, (int64_t)m, any);
}

/* A number at p: its length, 0 when there is none. */
static size_t scan_number(const char *p, number *out)
{
    const char *digits = p + (*p == '-');
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    digits += hex ? 2 : 0;
    if (!(hex ? isxdigit((unsigned char)*digits) : isdigit((unsigned char)*digits)))
        return 0;
    char *end;
    errno = 0;
    unsigned long long m = strtoull(digits, &end, hex ? 16 : 10);
    *out = (number){.negative = *p == '-', .hex = hex, .magnitude = m};
    return errno == 0 ? (size_t)(end - p) : 0;
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const fy_explain_row *row_named(const char *name, size_t n)
{
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        const char *have = fy_explain_known()->row[i].name;
        if (strlen(have) == n && strncasecmp(have, name, n) == 0)
            return &fy_explain_known()->row[i];
    }
    return NULL;
}

/* The end of a name, after a '_', that only one row has: "EUNABLETOLOAD". */
static const fy_explain_row *row_ending(const char *name)
{
    const fy_explain_row *found = NULL;
    size_t n = strlen(name);
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        const char *have = fy_explain_known()->row[i].name;
        size_t len = strlen(have);
        if (len <= n || have[len - n - 1] != '_' || strcasecmp(have + len - n, name) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = &fy_explain_known()->row[i];
    }
    return found;
}

static const char *nearest_name(const char *word)
{
    enum { MAX = 512 };
    const char *names[MAX], *near = NULL;
    char folded[NAME_BYTES];
    size_t n = 0, len = strlen(word);
    for (; n < fy_explain_known()->n_rows && n < MAX; n++)
        names[n] = fy_explain_known()->row[n].name;
    for (int lower = 0; lower < 2 && near == NULL && len < sizeof folded; lower++) {
        for (size_t i = 0; i <= len; i++)
            folded[i] =
                (char)(lower ? tolower((unsigned char)word[i]) : toupper((unsigned char)word[i]));
        near = fy_nearest(folded, names, n);
    }
    return near;
}

/* --- lines of text ---------------------------------------------------------------------------- */

/* Is the pattern, n bytes, in the text as words of its own? */
static bool has_words(const char *text, const char *pattern, size_t n)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (strncasecmp(p, pattern, n) == 0 &&
            !(p > text && is_word_char(p[-1]) && is_word_char(pattern[0])) &&
            !(is_word_char(p[n]) && is_word_char(pattern[n - 1])))
            return true;
    }
    return false;
}

/* One plain word ("closed") means something only in a line of adb's. */
static bool row_fits(const fy_explain_row *r, const char *text, bool of_adb)
{
    for (const char *p = r->text; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, "|");
        bool plain = memchr(p, ' ', n) == NULL && r->family == FY_EXPLAIN_ADB;
        if ((of_adb || !plain) && has_words(text, p, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

const fy_explain_row *fy_explain_text(fy_explain_family family, const char *text)
{
    if (fy_explain_known() == NULL)
        return NULL;
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        const fy_explain_row *r = &fy_explain_known()->row[i];
        if (r->family == family && row_fits(r, text, true))
            return r;
    }
    return NULL;
}

/* Is the number at `at` said to be an error? "err 5", "error: 5", "status=5", "exit code 5" */
static bool is_labelled(const char *line, const char *at)
{
    static const char *const labels[] = {"err",    "error", "errno", "code",     "status",
                                         "result", "rc",    "ret",   "returned", "exit"};
    while (at > line && strchr(" \t:=([#'\"", at[-1]) != NULL)
        at--;
    const char *begin = at;
    while (begin > line && isalpha((unsigned char)begin[-1]))
        begin--;
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        size_t n = strlen(labels[i]);
        if (n <= (size_t)(at - begin) && strncasecmp(at - n, labels[i], n) == 0)
            return true;
    }
    return false;
}

/* Names and numbers of a line. A bare decimal number counts when it is labelled or, from 1000 on,
 * has a row: lines are full of other numbers. */
static void explain_tokens(answers *a, const char *line)
{
    for (const char *p = line; *p != '\0';) {
        const char *end = p;
        number v;
        size_t n = scan_number(p, &v);
        while (is_word_char(*end))
            end++;
        if (n > 0 && !is_word_char(p[n]) && !(p[n] == '.' && isdigit((unsigned char)p[n + 1]))) {
            bool labelled = is_labelled(line, p);
            if (labelled || v.hex || v.magnitude >= 1000)
                explain_number(a, v, labelled);
            p += n;
        } else if (end > p) {
            add_row(a, row_named(p, (size_t)(end - p)));
            p = end;
            while (*p == '.' &&
                   isdigit((unsigned char)p[1])) /* of a version: no number of its own */
                p += 1 + strspn(p + 1, "0123456789");
        } else {
            p++;
        }
    }
}

static void explain_line(answers *a, const char *line)
{
    size_t words = 0;
    for (const char *p = line; *p != '\0'; words++) {
        p += strspn(p, " \t");
        p += strcspn(p, " \t");
    }
    bool of_adb = words <= 3 || has_words(line, "adb", 3) || has_words(line, "device", 6) ||
                  has_words(line, "phone", 5);
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        if (row_fits(&fy_explain_known()->row[i], line, of_adb))
            add_row(a, &fy_explain_known()->row[i]);
    }
    explain_tokens(a, line);
}

/* "ferry 3", "QNN 0x3e8": the family of the number at *rest; FY_EXPLAIN_FAMILIES: none is named. */
static int family_named(const char *line, const char **rest)
{
    for (int f = 0; f < FY_EXPLAIN_FAMILIES; f++) {
        const char *name = fy_explain_known()->family[f].name;
        const size_t n = strlen(name);
        if (strncasecmp(line, name, n) == 0 && line[n] == ' ') {
            *rest = line + n + strspn(line + n, " ");
            return f;
        }
    }
    return FY_EXPLAIN_FAMILIES;
}

/* Of the answers to a number those of the family alone. */
static void explain_of_family(answers *a, int family, number v)
{
    size_t kept = 0;
    explain_number(a, v, true);
    for (size_t i = 0; i < a->n; i++) {
        if ((int)a->out[i].family == family)
            a->out[kept++] = a->out[i];
    }
    a->n = kept;
}

size_t fy_explain(const char *query, fy_explanation *out, size_t max, const char **near)
{
    answers a = {.out = out, .max = max};
    number v;
    const char *begin = query + strspn(query, " \t\r\n");
    size_t n = strlen(begin);
    while (n > 0 && strchr(" \t\r\n", begin[n - 1]) != NULL)
        n--;
    char *line = strndup(begin, n);
    const char *found = NULL, *rest = "";
    const int family = line != NULL ? family_named(line, &rest) : FY_EXPLAIN_FAMILIES;
    if (line == NULL || n == 0) {
        ; /* nothing was asked */
    } else if (scan_number(line, &v) == n) {
        explain_number(&a, v, true);
    } else if (family < FY_EXPLAIN_FAMILIES && *rest != '\0' &&
               scan_number(rest, &v) == strlen(rest)) {
        explain_of_family(&a, family, v);
    } else {
        const fy_explain_row *r = row_named(line, n);
        add_row(&a, r != NULL ? r : row_ending(line));
        if (a.n == 0)
            explain_line(&a, line);
        if (a.n == 0)
            found = nearest_name(line);
    }
    if (near != NULL)
        *near = found;
    free(line);
    return a.n;
}

/* --- the verb --------------------------------------------------------------------------------- */

typedef struct {
    bool list, json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_LINE_FLAG("Output", "list", list,
                 "Print everything that is known: family, number, name and meaning."),
    FY_ANY_FLAG(
        "Output", "json", json,
        "Write one JSON object: \"query\" (not with --list) and \"matches\", each with "
        "\"family\", \"code\", \"hex\" (null where it has no number), \"name\", \"meaning\", "
        "\"cause\", \"remedy\"."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static void put_member(fy_str *s, const char *key, const char *text)
{
    fy_str_printf(s, ", \"%s\": ", key);
    fy_json_put_string(s, fy_span_of(text));
}

static void put_json(fy_str *s, const fy_explanation *x, bool first)
{
    char decimal[24], hex[24];
    fy_explain_code_text(x, decimal, hex);
    fy_str_puts(s, first ? "\n  {\"family\": " : ",\n  {\"family\": ");
    fy_json_put_string(s, fy_span_of(fy_explain_known()->family[x->family].name));
    if (decimal[0] != '\0')
        fy_str_printf(s, ", \"code\": %s, \"hex\": \"%s\"", decimal, hex);
    else
        fy_str_puts(s, ", \"code\": null, \"hex\": null");
    put_member(s, "name", x->name);
    put_member(s, "meaning", x->meaning);
    put_member(s, "cause", x->cause);
    put_member(s, "remedy", x->remedy);
    fy_str_putc(s, '}');
}

static void put_words(fy_str *s, const fy_explanation *x)
{
    static const char *const titles[] = {"meaning", "cause", "remedy"};
    const char *const texts[] = {x->meaning, x->cause, x->remedy};
    enum { INDENT = 11, WIDTH = 100 };
    char decimal[24], hex[24];
    fy_explain_code_text(x, decimal, hex);
    fy_str_printf(s, "%s ", fy_explain_known()->family[x->family].name);
    if (decimal[0] != '\0')
        fy_str_printf(s, "%s (%s) ", decimal, hex);
    fy_str_printf(s, "%s\n", x->name);
    for (size_t i = 0; i < 3; i++) {
        fy_str_printf(s, "  %-*s", INDENT - 2, titles[i]);
        fy_str_wrap(s, texts[i], INDENT, WIDTH);
    }
}

static int write_out(fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e) : fy_stdout(s->ptr, s->len, e);
    fy_str_release(s);
    return rc;
}

static int list_all(const options *o, fy_err *e)
{
    fy_str s = {0};
    char decimal[24], hex[24];
    if (o->json)
        fy_str_puts(&s, "{\"matches\": [");
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        fy_explanation x = fy_explain_of(&fy_explain_known()->row[i]);
        fy_explain_code_text(&x, decimal, hex);
        if (o->json)
            put_json(&s, &x, i == 0);
        else
            fy_str_printf(&s, "%-8s %6s %-11s %-47s %s\n",
                          fy_explain_known()->family[x.family].name, decimal, hex, x.name,
                          x.meaning);
    }
    if (o->json)
        fy_str_puts(&s, "\n]}\n");
    return write_out(&s, e);
}

static int unknown(const char *query, const char *near, fy_err *e)
{
    fy_str ranges = {0};
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(query));
    if (near != NULL)
        return fy_fail(e, FY_EARG, "'%s' is not known; did you mean %s?", shown, near);
    for (int i = 0; i < FY_EXPLAIN_FAMILIES; i++)
        fy_str_printf(&ranges, "%s%s %s", i > 0 ? "; " : "", fy_explain_known()->family[i].name,
                      fy_explain_known()->family[i].ranges);
    fy_fail(e, FY_EUNSUPPORTED, "'%s' is not known. Known are %s. --list shows them", shown,
            fy_str_z(&ranges));
    fy_str_release(&ranges);
    return -1;
}

static int explain_query(const options *o, const char *query, fy_err *e)
{
    enum { MAX = 8 };
    fy_explanation found[MAX];
    const char *near;
    size_t n = fy_explain(query, found, MAX, &near);
    if (n == 0)
        return unknown(query, near, e);
    fy_str s = {0};
    if (o->json) {
        fy_str_puts(&s, "{\"query\": ");
        fy_json_put_string(&s, fy_span_of(query));
        fy_str_puts(&s, ", \"matches\": [");
    }
    for (size_t i = 0; i < n; i++) {
        if (o->json)
            put_json(&s, &found[i], i == 0);
        else
            put_words(&s, &found[i]);
    }
    if (o->json)
        fy_str_puts(&s, "\n]}\n");
    return write_out(&s, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    if (fy_explain_known() == NULL)
        return fy_nomem(e);
    if (o->list && n_args > 0)
        return fy_fail(e, FY_EARG, "--list shows everything: leave '%.40s' out", args[0]);
    if (o->list)
        return list_all(o, e);
    if (n_args == 0)
        return fy_fail(e, FY_EARG, "give a number, a name or a line of text, or --list");
    fy_str query = {0};
    for (int i = 0; i < n_args; i++)
        fy_str_printf(&query, "%s%s", i > 0 ? " " : "", args[i]);
    int rc = query.oom ? fy_nomem(e) : explain_query(o, fy_str_z(&query), e);
    fy_str_release(&query);
    return rc;
}

const fy_verb fy_verb_explain = {
    .name = "explain",
    .summary = "what an error of the phone, adb, QNN or FastRPC means, and what to do",
    .synopsis = "CODE...",
    .min_args = 0,
    .max_args = -1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "CODE is a number as a log shows it (decimal, hexadecimal, negative), a name, or a line of "
        "text that holds one; quotes around a line are needed where the shell would read it "
        "otherwise. A number that several families use is explained for each.\n\n"
        "Known are the exit statuses of ferry and of programs on the phone, the states and "
        "messages of adb, and the errors of QNN (Qualcomm's NPU) and of FastRPC (the way to it).",
    .examples = "ferry explain 30002\n"
                "ferry explain 0x80000406\n"
                "# a line of a log\n"
                "ferry explain 'contextCreate failed, err 1002'\n"
                "ferry explain error: device unauthorized\n"
                "ferry explain --list\n",
    .task = FY_TASK_PHONE,
    .run = run,
};
