#include "cli/verb.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const fy_verb *fy_verb_find(const char *name)
{
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        if (strcmp((*v)->name, name) == 0)
            return *v;
    }
    return NULL;
}

static const char exit_status_text[] =
    "0 ok, 1 failed, 2 usage, 3 does not fit, 4 verification or comparison failed, "
    "5 device, 6 no space, 130 interrupted";

/* Appends the first paragraph of text; returns where the next one begins. */
static size_t paragraph(const char *text, fy_str *out)
{
    const char *end = strstr(text, "\n\n");
    size_t n = end != NULL ? (size_t)(end - text) : strlen(text);
    for (size_t i = 0; i < n; i++)
        fy_str_putc(out, text[i] == '\n' ? ' ' : text[i]);
    return n + (end != NULL ? 2 : 0);
}

void fy_verb_help(const fy_verb *v, fy_str *out)
{
    enum { WIDTH = 100 };
    fy_str_printf(out, "usage: ferry %s [options]%s%s\n", v->name, v->synopsis[0] ? " " : "",
                  v->synopsis);
    for (const char *p = v->description; *p != '\0';) {
        fy_str text = {0};
        p += paragraph(p, &text);
        fy_str_putc(out, '\n');
        fy_str_wrap(out, fy_str_z(&text), 0, WIDTH);
        fy_str_release(&text);
    }
    fy_opts_help(v->opts, v->n_opts, out);
    fy_str_printf(out, "\nExamples:\n");
    for (const char *p = v->examples; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        fy_str_printf(out, "  %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
    fy_str_printf(out, "\nExit status: %s.\n", exit_status_text);
}

/* --- man pages (mdoc)
 * -------------------------------------------------------------------------------------- */

/* Text of a paragraph: a dot or quote at the start of a line and every backslash would be markup.
 */
static void roff_text(fy_str *out, const char *text, size_t n)
{
    bool line_start = true;
    for (size_t i = 0; i < n; i++) {
        if (line_start && (text[i] == '.' || text[i] == '\''))
            fy_str_puts(out, "\\&");
        if (text[i] == '\\')
            fy_str_puts(out, "\\e");
        else if (text[i] == '-')
            fy_str_puts(out, "\\-");
        else
            fy_str_putc(out, text[i]);
        line_start = text[i] == '\n';
    }
}

/* Sentences on lines of their own, as mdoc asks. */
static void roff_sentences(fy_str *out, const char *text, size_t n)
{
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        bool end = i + 1 == n || (strchr(".?!", text[i]) != NULL && text[i + 1] == ' ');
        if (!end)
            continue;
        roff_text(out, text + begin, i + 1 - begin);
        fy_str_putc(out, '\n');
        begin = i + 2;
    }
}

static void man_head(fy_str *out, const char *suffix, const char *summary)
{
    fy_str_puts(out, ".Dd $Mdocdate$\n.Dt FERRY");
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
    if (o->kind != FY_OPT_FLAG)
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
    fy_str_printf(out, ".Sh EXIT STATUS\n%s.\n", exit_status_text);
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
        p += paragraph(p, &text);
        roff_sentences(out, fy_str_z(&text), text.len);
        fy_str_release(&text);
    }
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
    man_exit_status(out);
    man_examples(out, v->examples);
    fy_str_puts(out, ".Sh SEE ALSO\n.Xr ferry 1\n");
}

void fy_verbs_man(fy_str *out)
{
    man_head(out, "", "carry a language model from a checkpoint to a phone");
    fy_str_puts(out,
                ".Nm\n.Ar verb\n.Op Ar options\n.Op Ar arguments\n.Sh DESCRIPTION\n"
                "Every verb stands alone and has a page of its own.\n.Bl -tag -width tokenize\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++)
        fy_str_printf(out, ".It Xr ferry-%s 1\n%s\n", (*v)->name, (*v)->summary);
    fy_str_puts(
        out, ".El\n.Pp\nData goes to standard output, words and progress to standard error.\n"
             ".Sh ENVIRONMENT\n.Bl -tag -width FY_CPU_MASK\n.It Ev FY_CPU_MASK\n"
             "A number that is and-ed with the CPU features found; 0 forces the scalar kernels.\n"
             ".It Ev NO_COLOR\nSet to anything: no colour on a terminal.\n.El\n");
    man_exit_status(out);
    man_examples(out, "ferry convert ~/models/Llama-3.2-1B-Instruct --outtype q4_0 -o m.gguf\n"
                      "ferry run -m m.gguf -p 'Once upon a time'\n");
}
