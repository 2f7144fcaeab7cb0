/* One call of a verb: parses its options, adds those of settings and environment, and runs it here
 * or on the phone. Options that belong to another verb are collected for it. */
#include "cli/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/terminal.h"
#include "cli/verb.h"

static int check_arg_count(const fy_verb *v, int n, fy_err *e)
{
    if (n < v->min_args)
        return fy_fail(e, FY_EARG, "too few arguments; usage: ferry %s [options] %s", v->name,
                       v->synopsis);
    if (v->max_args >= 0 && n > v->max_args)
        return fy_fail(e, FY_EARG, "too many arguments; usage: ferry %s [options] %s", v->name,
                       v->synopsis);
    return 0;
}

/* --- options of other verbs ------------------------------------------------------------------- */

static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; p != NULL && *p != '\0'; p += *p == '|') {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, name, n) == 0)
            return true;
        p += len;
    }
    return false;
}

/* Whom the option goes to; NULL: the verb itself, who says so when it does not know it either. */
static const fy_borrow *lender_of(const fy_verb *v, const char *word, bool *next)
{
    if (fy_opts_find(v->opts, v->n_opts, word, next) != NULL)
        return NULL;
    for (const fy_borrow *b = v->borrow; b->verb != NULL; b++) {
        const fy_verb *lender = fy_verb_find(b->verb);
        const fy_opt *o =
            lender != NULL ? fy_opts_find(lender->opts, lender->n_opts, word, next) : NULL;
        if (o != NULL && !is_listed(b->except, o->name))
            return b;
    }
    *next = false;
    return NULL;
}

static int push_word(fy_opt_list *l, const char *word, fy_err *e)
{
    const char **items = realloc(l->items, (l->n + 1) * sizeof *items);
    if (items == NULL)
        return fy_nomem(e);
    l->items = items;
    l->items[l->n++] = word;
    return 0;
}

/* Takes what other verbs are to get out of argv. */
static int lend(fy_call *c, int *argc, char **argv, fy_err *e)
{
    int kept = 0, i = 0;
    while (i < *argc && strcmp(argv[i], "--") != 0) {
        bool next;
        const fy_borrow *b = lender_of(c->v, argv[i], &next);
        int n = next && i + 1 < *argc ? 2 : 1;
        for (int k = 0; k < n; k++) {
            char *word = argv[i + k];
            if (b == NULL)
                argv[kept++] = word;
            else if (push_word((fy_opt_list *)(void *)((char *)c->o + b->offset), word, e) != 0)
                return -1;
        }
        i += n;
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    *argc = kept;
    return 0;
}

static int parse(fy_call *c, int argc, char **argv, fy_err *e)
{
    const fy_verb *v = c->v;
    if (fy_opts_parse_from(v->opts, v->n_opts, c->o, argc, argv, &c->n_args, &c->help, c->from,
                           e) != 0)
        return -1;
    c->args = argv;
    if (c->help)
        return 0;
    if (check_arg_count(v, c->n_args, e) != 0 || fy_settings_read(&c->settings, v, e) != 0)
        return -1;
    return fy_opts_fill(v->opts, v->n_opts, c->o, c->settings.given, c->settings.n, c->from, e);
}

/* --- the call --------------------------------------------------------------------------------- */

int fy_call_open(fy_call *c, const fy_verb *v, int argc, char **argv, fy_err *e)
{
    *c = (fy_call){.v = v,
                   .o = calloc(1, v->opts_bytes > 0 ? v->opts_bytes : 1),
                   .from = calloc(v->n_opts + 1, sizeof *c->from)};
    if (c->o == NULL || c->from == NULL)
        return fy_nomem(e);
    if (v->borrow != NULL && lend(c, &argc, argv, e) != 0)
        return -1;
    return parse(c, argc, argv, e);
}

void fy_call_close(fy_call *c)
{
    if (c->o != NULL) {
        fy_opts_release(c->v->opts, c->v->n_opts, c->o);
        for (const fy_borrow *b = c->v->borrow; b != NULL && b->verb != NULL; b++)
            fy_opt_list_release((fy_opt_list *)(void *)((char *)c->o + b->offset));
    }
    fy_settings_release(&c->settings);
    free(c->from);
    free(c->o);
    *c = (fy_call){0};
}

static const void *field_of(const fy_call *c, fy_opt_kind kind, const char *name)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        if (o->kind == kind && strcmp(o->name, name) == 0)
            return (const char *)c->o + o->offset;
    }
    return NULL;
}

static bool flag_is_set(const fy_call *c, const char *name)
{
    const bool *field = field_of(c, FY_OPT_FLAG, name);
    return field != NULL && *field;
}

bool fy_call_is_remote(const fy_call *c, const char **serial)
{
    const char *const *a = c->v->on_phone ? field_of(c, FY_OPT_STR, "device") : NULL;
    const char *const *b = c->v->on_phone ? field_of(c, FY_OPT_STR, "serial") : NULL;
    const char *device = a != NULL ? *a : NULL, *other = b != NULL ? *b : NULL;
    bool both = device != NULL && *device != '\0' && other != NULL;
    *serial = both && strcmp(device, other) != 0 ? NULL : other != NULL ? other : device;
    return device != NULL || other != NULL;
}

/* What -v says before the verb begins. */
static void report_settings(const fy_call *c)
{
    const fy_settings *s = &c->settings;
    fy_str text = {0};
    fy_version_text(&text);
    fy_log(FY_LOG_DEBUG, "%s%s%s", fy_str_z(&text), s->path != NULL ? ", settings of " : "",
           s->path != NULL ? s->path : "");
    fy_str_release(&text);
    for (size_t i = 0; i < s->n; i++) {
        if (c->from[s->given[i].row] == s->given[i].source)
            fy_log(FY_LOG_DEBUG, "--%s is '%s', from %s", c->v->opts[s->given[i].row].name,
                   s->given[i].value, s->given[i].source);
    }
}

int fy_call_run(fy_call *c, int *status, fy_err *e)
{
    const char *serial;
    bool remote = fy_call_is_remote(c, &serial);
    fy_log_level before = fy_log_show(flag_is_set(c, "quiet")     ? FY_LOG_WARN
                                      : flag_is_set(c, "verbose") ? FY_LOG_DEBUG
                                                                  : FY_LOG_INFO);
    int rc = 0;
    *status = 0;
    report_settings(c);
    fy_settings_source outer = fy_settings_publish((fy_settings_source){c->v, c->o, c->from});
    rc = remote ? fy_program_now()->run_on_phone(c, serial, status, e)
                : c->v->run(c->o, c->n_args, c->args, e);
    fy_settings_publish(outer);
    fy_log_show(before);
    return rc;
}
