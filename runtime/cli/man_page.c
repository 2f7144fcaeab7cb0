/* The manual pages in mdoc, from the verb table. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/settings.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

/* Text as it stands: a dot at the start of a line and every backslash would be markup, and some
 * characters would become typographic ones, which nobody could paste into a shell. */
static void roff_text(fy_str *out, const char *text, size_t n)
{
    static const struct {
        char c;
        const char *roff;
    } escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                   {'`', "\\(ga"}, {'~', "\\(ti"}, {'^', "\\(ha"}};
    enum { N = sizeof escapes / sizeof escapes[0] };
    bool line_start = true;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < N && escapes[k].c != text[i])
            k++;
        if (line_start && text[i] == '.')
            fy_str_puts(out, "\\&");
        if (k < N)
            fy_str_puts(out, escapes[k].roff);
        else
            fy_str_putc(out, text[i]);
        line_start = text[i] == '\n';
    }
}

/* Sentences on lines of their own, as mdoc asks, and lines that stay short when escaped. */
static void roff_sentences(fy_str *out, const char *text, size_t n)
{
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        bool end = i + 1 == n || (strchr(".?!", text[i]) != NULL && text[i + 1] == ' ');
        if (!end)
            continue;
        char *sentence = strndup(text + begin, i + 1 - begin);
        fy_str lines = {0};
        if (sentence != NULL)
            fy_str_wrap(&lines, sentence, 0, 64);
        roff_text(out, fy_str_z(&lines), lines.len);
        out->oom |= sentence == NULL || lines.oom;
        free(sentence);
        fy_str_release(&lines);
        begin = i + 2;
    }
}

static void man_head(fy_str *out, const char *suffix, const char *summary)
{
    fy_str_puts(out, ".Dd " FERRY_DATE "\n.Dt FERRY");
    for (const char *p = suffix; *p != '\0'; p++)
        fy_str_putc(out, (char)toupper((unsigned char)*p));
    fy_str_printf(out, " 1\n.Os\n.Sh NAME\n.Nm ferry%s\n.Nd %s\n.Sh SYNOPSIS\n", suffix, summary);
}

static void man_option(fy_str *out, const fy_opt *o)
{
    fy_str_puts(out, ".It ");
    if (o->alias != NULL)
        fy_str_printf(out, "Fl %s , ", o->alias);
    fy_str_printf(out, "Fl \\-%s", o->name);
    if (o->bare != NULL)
        fy_str_printf(out, " Ns Op = Ns Ar %s", o->arg);
    else if (o->kind != FY_OPT_FLAG)
        fy_str_printf(out, " Ar %s", o->arg);
    fy_str_putc(out, '\n');
    roff_sentences(out, o->help, strlen(o->help));
    if (o->def != NULL)
        fy_str_printf(out, "The default is\n.Li %s .\n", o->def);
}

static void man_examples(fy_str *out, const char *examples)
{
    fy_str_puts(out, ".Sh EXAMPLES\n.Bd -literal -offset indent\n");
    for (const char *p = examples; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        roff_text(out, p, n);
        fy_str_putc(out, '\n');
        p += n + (p[n] == '\n');
    }
    fy_str_puts(out, ".Ed\n");
}

static void man_exit_status(fy_str *out)
{
    fy_str_puts(out, ".Sh EXIT STATUS\n.Bl -tag -width 130 -compact\n");
    for (const fy_exit_row *r = fy_exit_rows; r->text != NULL; r++)
        fy_str_printf(out, ".It %d\n%s\n", r->status, r->text);
    fy_str_puts(out, ".El\n");
}

/* Variables and files that every verb obeys. */
static const struct {
    const char *name, *text;
} common[] = {
    {"FERRY_CONFIG", "The configuration file, in place of the one below. "
                     "/dev/null: no configuration file."},
    {"XDG_CONFIG_HOME", "Where ferry/config is looked for; ~/.config when not set."},
    {"NO_COLOR", "Set and not empty: no colour on a terminal."},
    {"TERM", "Where it is dumb or not set, the cursor is not moved and nothing is coloured."},
    {"FY_CPU_MASK", "A number that is and-ed with the CPU features found; 0 forces the scalar "
                    "kernels."},
};

static void man_item(fy_str *out, const char *macro, const char *name, const char *text)
{
    fy_str_printf(out, ".It %s %s\n", macro, name);
    roff_sentences(out, text, strlen(text));
}

/* "NAME meaning\n" lines. */
static void own_environment(fy_str *out, const char *lines)
{
    for (const char *p = lines; *p != '\0';) {
        size_t name = strcspn(p, " "), n = strcspn(p, "\n");
        fy_str_printf(out, ".It Ev %.*s\n", (int)name, p);
        roff_sentences(out, p + name + 1, n - name - 1);
        p += n + 1;
    }
}

/* The variables of v's options as one item. */
static void mirrors(const fy_verb *v, fy_str *out)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_opts; i++) {
        char name[64];
        if (v->opts[i].line_only)
            continue;
        fy_settings_variable(v->opts[i].name, name, sizeof name);
        fy_str_printf(out, "%s%s", n++ == 0 ? ".It Ev " : " , Ev ", name);
    }
    if (n > 0)
        fy_str_puts(out, "\nEach is the option of the same name, when the command line does not "
                         "give it.\nA flag is 1, true, yes or on, or 0, false, no or off.\n"
                         "An empty variable counts as not set.\n");
}

/* v NULL: what holds for all verbs. */
static void man_environment(const fy_verb *v, fy_str *out)
{
    fy_str_puts(out, ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n");
    if (v != NULL)
        mirrors(v, out);
    else
        man_item(out, "Ev", "FERRY_NAME",
                 "The option --name of any verb, in capitals and with _ for -: FERRY_CTX_SIZE=512 "
                 "is --ctx-size 512. The command line counts before the variable, the variable "
                 "before the configuration file. Options that name an output, or the job of one "
                 "call, are taken from the command line only; the page of each verb lists its "
                 "variables.");
    if (v != NULL && v->environment != NULL)
        own_environment(out, v->environment);
#ifndef FERRY_DEVICE
    if (v != NULL && v->on_phone)
        own_environment(out, FY_ADB_ENVIRONMENT);
#endif
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        man_item(out, "Ev", common[i].name, common[i].text);
    fy_str_puts(out, ".El\n.Sh FILES\n.Bl -tag -width Ds\n");
    man_item(out, "Pa", "\\(ti/.config/ferry/config",
             "Lines 'name = value' with long names of options, '# comment', and '[verb]' before "
             "lines that are for one verb only. What is unknown in it is an error.");
    fy_str_puts(out, ".El\n");
}

static int by_name(const void *a, const void *b)
{
    const fy_verb *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The pages of other verbs for the same task; of all when v is NULL. */
static void man_see_also(const fy_verb *v, fy_str *out)
{
    enum { MAX = 64 };
    const fy_verb *list[MAX];
    size_t n = 0;
    for (const fy_verb *const *p = fy_program_now()->verbs; *p != NULL && n < MAX; p++) {
        if (*p != v && (v == NULL || (*p)->task == v->task))
            list[n++] = *p;
    }
    qsort(list, n, sizeof(const fy_verb *), by_name);
    fy_str_printf(out, ".Sh SEE ALSO\n%s", v != NULL ? ".Xr ferry 1" : "");
    for (size_t i = 0; i < n; i++)
        fy_str_printf(out, "%s.Xr ferry-%s 1", v != NULL || i > 0 ? " ,\n" : "", list[i]->name);
    fy_str_putc(out, '\n');
}

static void man_options(const fy_verb *v, fy_str *out)
{
    const char *group = NULL;
    for (size_t i = 0; i < v->n_opts; i++) {
        const fy_opt *o = &v->opts[i];
        if (group == NULL || strcmp(group, o->group) != 0) {
            fy_str_puts(out, group == NULL ? "" : ".El\n");
            fy_str_printf(out, ".Ss %s\n.Bl -tag -width Ds\n", o->group);
        }
        group = o->group;
        man_option(out, o);
    }
    fy_str_puts(out, group == NULL ? "" : ".El\n");
}

void fy_verb_man(const fy_verb *v, fy_str *out)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "-%s", v->name);
    man_head(out, suffix, v->summary);
    fy_str_printf(out, ".Nm ferry %s\n.Op Ar options\n", v->name);
    if (v->synopsis[0] != '\0') {
        fy_str_puts(out, ".Ar ");
        roff_text(out, v->synopsis, strlen(v->synopsis));
        fy_str_putc(out, '\n');
    }
    fy_str_puts(out, ".Sh DESCRIPTION\n");
    for (const char *p = v->description; *p != '\0';) {
        fy_str text = {0};
        if (p != v->description)
            fy_str_puts(out, ".Pp\n");
        p += fy_paragraph(p, &text);
        roff_sentences(out, fy_str_z(&text), text.len);
        fy_str_release(&text);
    }
    man_options(v, out);
    man_environment(v, out);
    man_exit_status(out);
    man_examples(out, v->examples);
    man_see_also(v, out);
}

void fy_verbs_man(fy_str *out)
{
    man_head(out, "", "carry a language model from a checkpoint to a phone");
    fy_str_puts(out,
                ".Nm\n.Ar verb\n.Op Ar options\n.Op Ar arguments\n"
                ".Nm\n.Cm help | man\n.Op Ar verb\n"
                ".Nm\n.Cm version\n.Op Fl \\-json\n"
                ".Nm\n.Cm completion\n.Cm bash | zsh | fish\n"
                ".Sh DESCRIPTION\n"
                "Every verb stands alone and has a page of its own.\n.Bl -tag -width tokenize\n");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        fy_str_printf(out, ".It Xr ferry-%s 1\n%s\n", (*v)->name, (*v)->summary);
    fy_str_puts(out,
                ".El\n.Pp\nData goes to standard output, words and progress to standard error.\n"
                "In long names of options - and _ are the same,\n"
                ".Fl \\-name Ns = Ns Ar value\nand\n.Fl \\-name Ar value\nboth work, and\n"
                ".Fl \\-name Ns = Ns Cm no\nswitches a flag off.\n");
    man_environment(NULL, out);
    man_exit_status(out);
    fy_str examples = {0};
    fy_put_session(&examples, "");
    man_examples(out, fy_str_z(&examples));
    out->oom |= examples.oom;
    fy_str_release(&examples);
    man_see_also(NULL, out);
}
