#include "base/opts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static size_t distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    size_t n = strlen(a), m = strlen(b), row[MAX + 1];
    if (n > MAX || m > MAX)
        return MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diag = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j], best = diag + (a[i - 1] != b[j - 1]);
            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diag = up;
        }
    }
    return row[m];
}

const char *fy_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_d = strlen(word) / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);
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
    int shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    end += shift != 0;
    long long r;
    if (*end != '\0' || __builtin_mul_overflow(v, 1LL << shift, &r))
        return false;
    *out = r;
    return true;
}

/* Long names match with '-' and '_' equal. */
static bool name_is(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = word[i] == '_' ? '-' : word[i];
        if (name[i] == '\0' || name[i] != c)
            return false;
    }
    return name[n] == '\0';
}

static int choice_index(const char *choices, const char *value)
{
    size_t n = strlen(value);
    int i = 0;
    for (const char *p = choices;; i++) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, value, n) == 0)
            return i;
        if (p[len] == '\0')
            return -1;
        p += len + 1;
    }
}

static int out_of_range(const fy_opt *o, const char *value, fy_err *e)
{
    return fy_fail(e, FY_EARG, "--%s: '%s' is out of range, expected %.15g to %.15g", o->name,
                   value, o->min, o->max);
}

static int store(const fy_opt *o, void *into, const char *value, fy_err *e)
{
    void *field = (char *)into + o->offset;
    bool ranged = o->min != 0 || o->max != 0;
    switch (o->kind) {
    case FY_OPT_FLAG:
        *(bool *)field = value != NULL;
        return 0;
    case FY_OPT_STR:
        if (o->many) {
            fy_opt_list *l = field;
            const char **items = realloc(l->items, (l->n + 1) * sizeof *items);
            if (items == NULL)
                return fy_nomem(e);
            items[l->n++] = value;
            l->items = items;
        } else {
            *(const char **)field = value;
        }
        return 0;
    case FY_OPT_INT:
    case FY_OPT_SIZE: {
        int64_t v;
        bool plain = o->kind == FY_OPT_SIZE || strpbrk(value, "kKmMgG") == NULL;
        if (!plain || !fy_parse_size(value, &v))
            return fy_fail(e, FY_EARG, "--%s: '%s' is not a whole number%s", o->name, value,
                           o->kind == FY_OPT_SIZE ? " (with K, M or G, or without)" : "");
        if (ranged && ((double)v < o->min || (double)v > o->max))
            return out_of_range(o, value, e);
        *(int64_t *)field = v;
        return 0;
    }
    case FY_OPT_FLOAT: {
        char *end;
        double v = strtod(value, &end);
        if (end == value || *end != '\0' || !isfinite(v))
            return fy_fail(e, FY_EARG, "--%s: '%s' is not a number", o->name, value);
        if (ranged && (v < o->min || v > o->max))
            return out_of_range(o, value, e);
        *(double *)field = v;
        return 0;
    }
    case FY_OPT_CHOICE: {
        int i = choice_index(o->arg, value);
        if (i < 0)
            return fy_fail(e, FY_EARG, "--%s: '%s' is not one of %s", o->name, value, o->arg);
        *(int *)field = i;
        return 0;
    }
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

static int unknown(const fy_opt *opts, size_t n_opts, const char *word, size_t len, fy_err *e)
{
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", (int)(len < sizeof bare ? len : sizeof bare - 1), word);
    const char *names[128];
    size_t n = 0;
    for (size_t i = 0; i < n_opts && n < 128; i++)
        names[n++] = opts[i].name;
    const char *near = fy_nearest(bare, names, n);
    return near != NULL ? fy_fail(e, FY_EARG, "unknown option '%s'; did you mean --%s?", bare, near)
                        : fy_fail(e, FY_EARG, "unknown option '%s'; --help lists them", bare);
}

static const fy_opt *find(const fy_opt *opts, size_t n_opts, bool is_long, const char *word,
                          size_t len)
{
    for (size_t i = 0; i < n_opts; i++) {
        const fy_opt *o = &opts[i];
        if (is_long
                ? name_is(o->name, word, len)
                : o->alias != NULL && strlen(o->alias) == len && memcmp(o->alias, word, len) == 0)
            return o;
    }
    return NULL;
}

int fy_opts_parse(const fy_opt *opts, size_t n_opts, void *into, int argc, char **argv, int *n_args,
                  bool *help, fy_err *e)
{
    *help = false;
    *n_args = 0;
    for (size_t i = 0; i < n_opts; i++) {
        store_unset(&opts[i], into);
        if (opts[i].def != NULL && opts[i].kind != FY_OPT_FLAG &&
            store(&opts[i], into, opts[i].def, e) != 0)
            return -1;
    }
    bool rest = false;
    for (int i = 0; i < argc; i++) {
        char *a = argv[i];
        if (rest || a[0] != '-' || a[1] == '\0') {
            argv[(*n_args)++] = a;
            continue;
        }
        if (strcmp(a, "--") == 0) {
            rest = true;
            continue;
        }
        if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0) {
            *help = true;
            return 0;
        }
        bool is_long = a[1] == '-';
        const char *word = a + 1 + is_long;
        size_t len = strcspn(word, "=");
        const fy_opt *o = find(opts, n_opts, is_long, word, len);
        if (o == NULL)
            return unknown(opts, n_opts, word, len, e);
        const char *value = word[len] == '=' ? word + len + 1 : NULL;
        if (o->kind == FY_OPT_FLAG) {
            if (value != NULL)
                return fy_fail(e, FY_EARG, "--%s takes no value", o->name);
            value = "";
        } else if (value == NULL) {
            if (i + 1 >= argc)
                return fy_fail(e, FY_EARG, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
            value = argv[++i];
        }
        if (store(o, into, value, e) != 0)
            return -1;
    }
    return 0;
}

void fy_opts_help(const fy_opt *opts, size_t n_opts, fy_str *out)
{
    enum { INDENT = 30, WIDTH = 100 };
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
            fy_str_printf(out, " %s", o->arg);
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
