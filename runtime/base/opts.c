/* Parsing options from a table of rows, with ranges, choices, suggestions and --help text. */
#include "base/opts.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

int fy_opt_list_add(fy_opt_list *l, const char *item, fy_err *e)
{
    const char **items = realloc(l->items, (l->n + 1) * sizeof *items);
    if (items == NULL)
        return fy_nomem(e);
    items[l->n++] = item;
    l->items = items;
    return 0;
}

void fy_opt_list_release(fy_opt_list *l)
{
    free(l->items);
    *l = (fy_opt_list){0};
}

void fy_opts_release(const fy_opt *opts, size_t n_opts, void *into)
{
    for (size_t i = 0; i < n_opts; i++) {
        if (opts[i].many)
            fy_opt_list_release((fy_opt_list *)(void *)((char *)into + opts[i].offset));
    }
}

static bool has(const char *p, size_t n, const char *part)
{
    return memmem(p, n, part, strlen(part)) != NULL;
}

unsigned fy_arg_names(const char *word, size_t n, char ext[FY_EXT_BYTES])
{
    unsigned kinds = 0;
    ext[0] = '\0';
    while (n > 0 && strchr("].", word[n - 1]) != NULL)
        n--;
    for (size_t at = 0; at < n;) {
        const char *p = word + at, *bar = memchr(p, '|', n - at);
        size_t len = bar != NULL ? (size_t)(bar - p) : n - at;
        const char *dot = memrchr(p, '.', len);
        if (dot != NULL) {
            kinds |= FY_NAMES_EXT;
            snprintf(ext, FY_EXT_BYTES, "%.*s", (int)(p + len - dot - 1), dot + 1);
        } else if (has(p, len, "DIR")) {
            kinds |= FY_NAMES_DIR;
        } else if (has(p, len, "FILE") || has(p, len, "PATH")) {
            kinds |= FY_NAMES_ANY;
        }
        at += len + 1;
    }
    return kinds;
}

/* Letters added, left out, replaced, or swapped with the next. */
static size_t distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    size_t n = strlen(a), m = strlen(b), rows[3][MAX + 1];
    if (n > MAX || m > MAX)
        return MAX;
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

/* Is one the beginning of the other, and at least three letters long? */
static bool one_begins_the_other(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), shorter = n < m ? n : m;
    return shorter >= 3 && strncmp(a, b, shorter) == 0;
}

const char *fy_nearest(const char *word, const char *const *candidates, size_t n)
{
    enum { AS_NEAR_AS = 2 }; /* a slip of one letter is nearer than an abbreviation */
    const char *best = NULL;
    size_t best_d = strlen(word) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);
        if (d > AS_NEAR_AS && one_begins_the_other(word, candidates[i]))
            d = AS_NEAR_AS;
        if (d < best_d) {
            best_d = d;
            best = candidates[i];
        }
    }
    return best;
}

bool fy_parse_size(const char *s, int64_t *out)
{
    errno = 0;
    char *end;
    long long v = strtoll(s, &end, 10);
    if (end == s || errno != 0)
        return false;
    static const char units[] = "kKmMgG";
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    const int shift = unit != NULL ? 10 * (int)((unit - units) / 2 + 1) : 0;
    end += shift != 0;
    long long r;
    if (*end != '\0' || __builtin_mul_overflow(v, 1LL << shift, &r))
        return false;
    *out = r;
    return true;
}

bool fy_opt_is_named(const fy_opt *o, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = word[i] == '_' ? '-' : word[i];
        if (o->name[i] == '\0' || o->name[i] != c)
            return false;
    }
    return o->name[n] == '\0';
}

void fy_choice_name(const char *choices, int index, char *out, size_t size)
{
    for (int i = 0; i < index; i++)
        choices += strcspn(choices, "|") + 1;
    snprintf(out, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

int fy_choice(const char *choices, const char *value, fy_err *e)
{
    enum { MAX = 32, BYTES = 32 };
    char words[MAX][BYTES];
    const char *names[MAX];
    size_t n = 0;
    for (const char *p = choices; n < MAX; n++) {
        size_t len = strcspn(p, "|");
        snprintf(words[n], BYTES, "%.*s", (int)len, p);
        names[n] = words[n];
        if (strlen(value) == len && strncasecmp(p, value, len) == 0)
            return (int)n;
        if (p[len] == '\0') {
            n++;
            break;
        }
        p += len + 1;
    }
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(value));
    const char *near = fy_nearest(value, names, n);
    return fy_fail(e, FY_EARG, "'%s' is not one of %s%s%s%s", shown, choices,
                   near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* -1, 0, 1. Exact, though a limit may lie between two integers or beyond all of them. */
static int compare_to_limit(int64_t v, double d)
{
    if (d >= 0x1p63 || d < -0x1p63)
        return d > 0 ? -1 : 1;
    const int64_t whole = (int64_t)d; /* towards zero */
    if (v != whole)
        return v < whole ? -1 : 1;
    return (double)whole < d ? -1 : (double)whole > d;
}

/* A limit as text; for whole numbers, clamped to their range. */
static void limit_text(char out[32], const fy_opt *o, double d)
{
    if (o->kind == FY_OPT_FLOAT)
        snprintf(out, 32, "%.15g", d);
    else
        snprintf(out, 32, "%lld",
                 d >= 0x1p63   ? (long long)INT64_MAX
                 : d < -0x1p63 ? (long long)INT64_MIN
                               : (long long)d);
}

/* One value on its way into its field. */
typedef struct {
    const fy_opt *o;
    const char *value;
    const char *source; /* begins the message; NULL: the command line */
} given_value;

static int refuse(const given_value *g, fy_err *e, const char *what, const char *detail)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(g->value));
    fy_fail(e, FY_EARG, "'%s' %s%s", shown, what, detail);
    return g->source != NULL ? fy_ctx(e, "%s", g->source) : fy_ctx(e, "--%s", g->o->name);
}

static int out_of_range(const given_value *g, fy_err *e)
{
    char min[32], max[32], range[80];
    limit_text(min, g->o, g->o->min);
    limit_text(max, g->o, g->o->max);
    snprintf(range, sizeof range, "%s to %s", min, max);
    return refuse(g, e, "is out of range, expected ", range);
}

static int store_flag(const given_value *g, bool *field, fy_err *e)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(g->value, words[i]) == 0) {
            *field = i % 2 != 0;
            return 0;
        }
    }
    return refuse(g, e, "is neither yes nor no", " (1, true, yes, on; 0, false, no, off)");
}

static int store_text(const given_value *g, void *field, fy_err *e)
{
    if (g->o->many)
        return fy_opt_list_add(field, g->value, e);
    *(const char **)field = g->value;
    return 0;
}

static int store_int(const given_value *g, int64_t *field, fy_err *e)
{
    const fy_opt *o = g->o;
    int64_t v;
    bool plain = o->kind == FY_OPT_SIZE || strpbrk(g->value, "kKmMgG") == NULL;
    if (!plain || !fy_parse_size(g->value, &v))
        return refuse(g, e, "is not a whole number",
                      o->kind == FY_OPT_SIZE ? " (with K, M or G, or without)" : "");
    if ((o->min != 0 || o->max != 0) &&
        (compare_to_limit(v, o->min) < 0 || compare_to_limit(v, o->max) > 0))
        return out_of_range(g, e);
    *field = v;
    return 0;
}

static int store_float(const given_value *g, double *field, fy_err *e)
{
    const fy_opt *o = g->o;
    char *end;
    double v = strtod(g->value, &end);
    if (end == g->value || *end != '\0' || !isfinite(v))
        return refuse(g, e, "is not a number", "");
    if ((o->min != 0 || o->max != 0) && (v < o->min || v > o->max))
        return out_of_range(g, e);
    *field = v;
    return 0;
}

static int store_choice(const given_value *g, int *field, fy_err *e)
{
    const char *refusal = g->o->refuse != NULL ? g->o->refuse(g->value) : NULL;
    if (refusal != NULL)
        return refuse(g, e, refusal, "");
    int i = fy_choice(g->o->arg, g->value, e);
    if (i < 0)
        return g->source != NULL ? fy_ctx(e, "%s", g->source) : fy_ctx(e, "--%s", g->o->name);
    *field = i;
    return 0;
}

static int store(const given_value *g, void *into, fy_err *e)
{
    void *field = (char *)into + g->o->offset;
    switch (g->o->kind) {
    case FY_OPT_FLAG:
        return store_flag(g, field, e);
    case FY_OPT_STR:
        return store_text(g, field, e);
    case FY_OPT_INT:
    case FY_OPT_SIZE:
        return store_int(g, field, e);
    case FY_OPT_FLOAT:
        return store_float(g, field, e);
    case FY_OPT_CHOICE:
        return store_choice(g, field, e);
    }
    return 0;
}

static void store_unset(const fy_opt *o, void *into)
{
    void *field = (char *)into + o->offset;
    switch (o->kind) {
    case FY_OPT_FLAG:
        *(bool *)field = false;
        break;
    case FY_OPT_STR:
        if (o->many)
            *(fy_opt_list *)field = (fy_opt_list){0};
        else
            *(const char **)field = NULL;
        break;
    case FY_OPT_INT:
    case FY_OPT_SIZE:
        *(int64_t *)field = FY_OPT_UNSET_INT;
        break;
    case FY_OPT_FLOAT:
        *(double *)field = NAN;
        break;
    case FY_OPT_CHOICE:
        *(int *)field = -1;
        break;
    }
}

static int unknown(const fy_opt *opts, size_t n_opts, const char *arg, const char *word, size_t len,
                   fy_err *e)
{
    char bare[FY_QUOTE_BYTES], shown[FY_QUOTE_BYTES];
    fy_quote(bare, sizeof bare, (fy_span){word, len});
    fy_quote(shown, sizeof shown, (fy_span){arg, (size_t)(word - arg) + len});
    const char *names[128];
    size_t n = 0;
    for (size_t i = 0; i < n_opts && n < 128; i++)
        names[n++] = opts[i].name;
    const char *near = fy_nearest(bare, names, n);
    return near != NULL
               ? fy_fail(e, FY_EARG, "unknown option '%s'; did you mean --%s?", shown, near)
               : fy_fail(e, FY_EARG, "unknown option '%s'; --help lists them", shown);
}

static const fy_opt *find(const fy_opt *opts, size_t n_opts, bool is_long, const char *word,
                          size_t len)
{
    for (size_t i = 0; i < n_opts; i++) {
        const fy_opt *o = &opts[i];
        if (is_long
                ? fy_opt_is_named(o, word, len)
                : o->alias != NULL && strlen(o->alias) == len && memcmp(o->alias, word, len) == 0)
            return o;
    }
    return NULL;
}

const fy_opt *fy_opts_find(const fy_opt *opts, size_t n_opts, const char *word, bool *next)
{
    *next = false;
    if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0)
        return NULL;
    bool is_long = word[1] == '-';
    size_t len = strcspn(word + 1 + is_long, "=");
    const fy_opt *o = find(opts, n_opts, is_long, word + 1 + is_long, len);
    *next =
        o != NULL && word[1 + is_long + len] == '\0' && o->kind != FY_OPT_FLAG && o->bare == NULL;
    return o;
}

static int store_defaults(const fy_opt *opts, size_t n_opts, void *into, fy_err *e)
{
    int rc = 0;
    for (size_t i = 0; i < n_opts; i++)
        store_unset(&opts[i], into);
    for (size_t i = 0; i < n_opts && rc == 0; i++) {
        given_value g = {.o = &opts[i], .value = opts[i].def};
        if (g.value != NULL)
            rc = store(&g, into, e);
    }
    return rc;
}

/* The option that argv[*at] begins: stores its value, from the next argument perhaps. */
static int take_option(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv,
                       int *at, const fy_opt **taken, fy_err *e)
{
    bool is_long = argv[*at][1] == '-';
    const char *word = argv[*at] + 1 + is_long;
    size_t len = strcspn(word, "=");
    const fy_opt *o = *taken = find(opts, n_opts, is_long, word, len);
    if (o == NULL)
        return unknown(opts, n_opts, argv[*at], word, len, e);
    given_value g = {.o = o, .value = word[len] == '=' ? word + len + 1 : NULL};
    if (g.value == NULL)
        g.value = o->kind == FY_OPT_FLAG ? "yes" : o->bare;
    if (g.value == NULL) {
        if (*at + 1 >= argc)
            return fy_fail(e, FY_EARG, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
        g.value = argv[++*at];
    }
    return store(&g, into, e);
}

int fy_opts_parse_from(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv,
                       int *n_args, bool *help, const char **from, fy_err *e)
{
    *help = false;
    *n_args = 0;
    for (size_t i = 0; from != NULL && i < n_opts; i++)
        from[i] = NULL;
    if (store_defaults(opts, n_opts, into, e) != 0)
        return -1;
    bool rest = false;
    for (int i = 0; i < argc; i++) {
        char *a = argv[i];
        const fy_opt *o;
        bool number = a[0] == '-' && a[1] >= '0' && a[1] <= '9'; /* no alias begins with a digit */
        if (rest || a[0] != '-' || a[1] == '\0' || number) {
            argv[(*n_args)++] = a;
        } else if (strcmp(a, "--") == 0) {
            rest = true;
        } else if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0) {
            *help = true;
            return 0;
        } else if (take_option(opts, n_opts, into, argc, argv, &i, &o, e) != 0) {
            return -1;
        } else if (from != NULL) {
            from[o - opts] = "command line";
        }
    }
    return 0;
}

int fy_opts_parse(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv, int *n_args,
                  bool *help, fy_err *e)
{
    return fy_opts_parse_from(opts, n_opts, into, argc, argv, n_args, help, NULL, e);
}

/* The highest rank among the values given for one option. */
static int rank_of(const fy_opt_given *given, size_t n_given, size_t row)
{
    int rank = INT_MIN;
    for (size_t i = 0; i < n_given; i++) {
        if (given[i].row == row && given[i].rank > rank)
            rank = given[i].rank;
    }
    return rank;
}

int fy_opts_fill(const fy_opt *opts, size_t n_opts, void *into, const fy_opt_given *given,
                 size_t n_given, const char **from, fy_err *e)
{
    static const int on_line = INT_MAX;
    int *rank = calloc(n_opts + 1, sizeof *rank), rc = 0;
    if (rank == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n_opts; i++)
        rank[i] = from[i] != NULL ? on_line : rank_of(given, n_given, i);
    for (size_t i = 0; i < n_given && rc == 0; i++) {
        size_t row = given[i].row;
        bool counts = given[i].rank == rank[row];
        for (size_t j = 0; counts && opts[row].set != NULL && j < n_opts; j++)
            counts = rank[j] <= rank[row] || opts[j].set == NULL ||
                     strcmp(opts[j].set, opts[row].set) != 0;
        if (!counts)
            continue;
        given_value g = {&opts[row], given[i].value, given[i].source};
        rc = store(&g, into, e);
        from[row] = given[i].source;
    }
    free(rank);
    return rc;
}

static void put_choice(const char *choices, int nth, fy_str *out)
{
    for (; nth > 0; nth--)
        choices += strcspn(choices, "|") + 1;
    fy_str_add(out, choices, strcspn(choices, "|"));
}

static bool put_text(const fy_opt *o, const void *field, size_t nth, fy_str *out)
{
    const fy_opt_list *list = o->many ? field : NULL;
    const char *text = NULL;
    if (list != NULL)
        text = nth < list->n ? list->items[nth] : NULL;
    else if (nth == 0)
        text = *(const char *const *)field;
    if (text != NULL)
        fy_str_puts(out, text);
    return text != NULL;
}

bool fy_opt_value(const fy_opt *o, const void *into, size_t nth, fy_str *out)
{
    const void *field = (const char *)into + o->offset;
    if (o->kind == FY_OPT_STR)
        return put_text(o, field, nth, out);
    bool there = nth == 0;
    if (o->kind == FY_OPT_FLAG && there) {
        fy_str_puts(out, *(const bool *)field ? "yes" : "no");
    } else if (o->kind == FY_OPT_CHOICE) {
        there = there && *(const int *)field >= 0;
        if (there)
            put_choice(o->arg, *(const int *)field, out);
    } else if (o->kind == FY_OPT_FLOAT) {
        there = there && !isnan(*(const double *)field);
        if (there)
            fy_str_printf(out, "%.17g", *(const double *)field);
    } else if (o->kind != FY_OPT_FLAG) {
        there = there && *(const int64_t *)field != FY_OPT_UNSET_INT;
        if (there)
            fy_str_printf(out, "%lld", (long long)*(const int64_t *)field);
    }
    return there;
}

enum { INDENT = 30, WIDTH = 100, MORE_INDENT = 6 }; /* columns */

/* What a value is; many choices take several lines. *begin: where the line begins. */
static void put_arg(const fy_opt *o, size_t *begin, fy_str *out)
{
    fy_str_puts(out, o->bare != NULL ? "[=" : " ");
    for (const char *p = o->arg; *p != '\0';) {
        size_t n = strcspn(p, "|");
        n += p[n] == '|';
        if (o->kind == FY_OPT_CHOICE && out->len - *begin + n > WIDTH) {
            *begin = out->len + 1;
            fy_str_printf(out, "\n%*s", MORE_INDENT, "");
        }
        fy_str_add(out, p, n);
        p += n;
    }
    if (o->bare != NULL)
        fy_str_puts(out, "]");
}

void fy_opts_help(const fy_opt *opts, size_t n_opts, fy_str *out)
{
    const char *group = NULL;
    for (size_t i = 0; i < n_opts; i++) {
        const fy_opt *o = &opts[i];
        if (group == NULL || strcmp(group, o->group) != 0)
            fy_str_printf(out, "\n%s:\n", o->group);
        group = o->group;
        size_t begin = out->len;
        fy_str_puts(out, "  ");
        if (o->alias != NULL)
            fy_str_printf(out, "-%s, ", o->alias);
        fy_str_printf(out, "--%s", o->name);
        if (o->kind != FY_OPT_FLAG)
            put_arg(o, &begin, out);
        size_t col = out->len - begin;
        if (col + 2 > INDENT) {
            fy_str_printf(out, "\n%*s", INDENT, "");
        } else {
            fy_str_printf(out, "%*s", (int)(INDENT - col), "");
        }
        fy_str text = {0};
        fy_str_puts(&text, o->help);
        if (o->def != NULL)
            fy_str_printf(&text, " [%s]", o->def);
        fy_str_wrap(out, fy_str_z(&text), INDENT, WIDTH);
        fy_str_release(&text);
    }
}
