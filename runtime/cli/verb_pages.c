/* The manual pages (mdoc) and the completion for bash, zsh and fish, made from the table of verbs:
 * options, choices, and names of the right kind. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/call.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

/* --- manual pages --- */

/* Escapes text: a dot at the start of a line and every backslash would be markup, and mdoc would turn
 * some characters into typographic ones, which could not be pasted into a shell. */
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
    {"FERRY_CONFIG", "The configuration file, instead of the one below. "
                     "/dev/null: no configuration file."},
    {"XDG_CONFIG_HOME", "Where ferry/config is looked for; ~/.config when not set."},
    {"NO_COLOR", "Set and not empty: no colour on a terminal."},
    {"TERM", "When it is dumb or not set, the cursor is not moved and nothing is coloured."},
    {"FY_CPU_MASK", "A bit mask of the CPU features to use; 0 forces the scalar "
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
             "lines that are for one verb only. An unknown line is an error.");
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
                ".El\n.Pp\nData goes to standard output, messages and progress to standard error.\n"
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

/* --- completion --- */

/* What may be completed in one place. */
typedef struct {
    const char *choices; /* "a|b|c"; NULL: none */
    unsigned names;      /* fy_arg_names */
    char ext[FY_EXT_BYTES];
} offer;

static offer offer_of_option(const fy_opt *o)
{
    offer f = {0};
    if (o->kind == FY_OPT_CHOICE)
        f.choices = o->arg;
    else if (o->kind == FY_OPT_STR)
        f.names = fy_arg_names(o->arg, strlen(o->arg), f.ext);
    return f;
}

/* One positional argument: the word of the synopsis, and what it may be. */
typedef struct {
    const char *word; /* view of the synopsis; NULL: there is none */
    size_t len;
    int nth; /* from 1 */
    bool repeats;
    offer may_be;
} arg_slot;

static bool next_arg(const fy_verb *v, arg_slot *a)
{
    const char *p = a->word == NULL ? v->synopsis : a->word + a->len;
    p += strspn(p, " ");
    if (*p == '\0')
        return false;
    *a = (arg_slot){.word = p, .len = strcspn(p, " "), .nth = a->nth + 1};
    a->repeats = a->len > 3 && memmem(p, a->len, "...", 3) != NULL;
    const char *c = v->arg_choices;
    if (c != NULL && strcspn(c, "=") == a->len && memcmp(c, p, a->len) == 0)
        a->may_be.choices = c + a->len + 1;
    else
        a->may_be.names = fy_arg_names(p, a->len, a->may_be.ext);
    return true;
}

static void put_choices(fy_str *out, const char *choices)
{
    for (const char *p = choices; *p != '\0'; p++)
        fy_str_putc(out, *p == '|' ? ' ' : *p);
}

static void put_verbs(fy_str *out)
{
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        fy_str_printf(out, "%s%s", v == fy_program_now()->verbs ? "" : " ", (*v)->name);
}

/* Is the next word its value? */
static bool takes_value(const fy_opt *o)
{
    return o->kind != FY_OPT_FLAG && o->bare == NULL;
}

/* What the argument of a word may be, separated by spaces. */
static void put_word_args(fy_str *out, const fy_word *w)
{
    if (strcmp(w->arg, "[VERB]") == 0) {
        put_verbs(out);
        return;
    }
    for (const char *p = w->arg; *p != '\0'; p++) {
        if (strchr("[]", *p) == NULL)
            fy_str_putc(out, *p == '|' ? ' ' : *p);
    }
}

/* --- completion: bash --- */

static void bash_offer(fy_str *out, const offer *f)
{
    if (f->choices != NULL) {
        fy_str_puts(out, "words=\"");
        put_choices(out, f->choices);
        fy_str_putc(out, '"');
    } else if (f->names & FY_NAMES_ANY) {
        fy_str_puts(out, "files=any");
    } else if (f->names & FY_NAMES_EXT) {
        fy_str_printf(out, "files=.%s", f->ext);
    } else if (f->names & FY_NAMES_DIR) {
        fy_str_puts(out, "files=dir");
    }
    fy_str_puts(out, " ;;\n");
}

static void bash_values(fy_str *out)
{
    fy_str_puts(out, "# VERB OPTION: what its value may be; fails when it takes none.\n"
                     "_ferry_value()\n{\n    case $1:$2 in\n");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        for (size_t i = 0; i < (*v)->n_opts; i++) {
            const fy_opt *o = &(*v)->opts[i];
            offer f = offer_of_option(o);
            if (!takes_value(o))
                continue;
            fy_str_printf(out, "    %s:--%s", (*v)->name, o->name);
            if (o->alias != NULL)
                fy_str_printf(out, " | %s:-%s", (*v)->name, o->alias);
            fy_str_puts(out, ") ");
            bash_offer(out, &f);
        }
    }
    fy_str_puts(out, "    *) return 1 ;;\n    esac\n}\n");
}

static void bash_args(fy_str *out)
{
    fy_str_puts(out, "# VERB N: what its Nth argument may be.\n"
                     "_ferry_arg()\n{\n    case $1:$2 in\n");
    for (const fy_word *w = fy_words; w->name != NULL; w++) {
        fy_str_printf(out, "    %s:1) words=\"", w->name);
        put_word_args(out, w);
        fy_str_puts(out, "\" ;;\n");
    }
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        for (arg_slot a = {0}; next_arg(*v, &a);) {
            if (a.repeats)
                fy_str_printf(out, "    %s:*) ", (*v)->name);
            else
                fy_str_printf(out, "    %s:%d) ", (*v)->name, a.nth);
            bash_offer(out, &a.may_be);
        }
    }
    fy_str_puts(out, "    esac\n}\n");
}

static void bash_options(fy_str *out)
{
    fy_str_puts(out, "_ferry_options()\n{\n    case $1 in\n");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        fy_str_printf(out, "    %s) words=\"--help", (*v)->name);
        for (size_t i = 0; i < (*v)->n_opts; i++)
            fy_str_printf(out, " --%s", (*v)->opts[i].name);
        fy_str_puts(out, "\" ;;\n");
    }
    fy_str_puts(out, "    version) words=--json ;;\n    esac\n}\n");
}

static void bash(fy_str *out)
{
    fy_str_puts(out, "# bash completion for ferry\n");
    bash_values(out);
    bash_args(out);
    bash_options(out);
    fy_str_puts(out,
                "# WORD: the names of files that begin with it; $files says which.\n"
                "_ferry_files()\n{\n"
                "    compopt -o filenames 2>/dev/null\n"
                "    case $files in\n"
                "    any) compgen -f -- \"$1\" ;;\n"
                "    dir) compgen -d -- \"$1\" ;;\n"
                "    *) compgen -f -X \"!*$files\" -- \"$1\"; compgen -d -- \"$1\" ;;\n"
                "    esac\n}\n"
                "_ferry()\n{\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words='' files=''\n"
                "    local prev=${COMP_WORDS[COMP_CWORD - 1]} i n=1\n"
                "    # bash takes the = of --name=value for a word\n"
                "    if [ \"$cur\" = = ]; then\n        cur=''\n"
                "    elif [ \"$prev\" = = ]; then\n        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
                "    fi\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    put_verbs(out);
    for (const fy_word *w = fy_words; w->name != NULL; w++)
        fy_str_printf(out, " %s", w->name);
    fy_str_puts(out,
                " --help --version\"\n"
                "    elif [ \"$COMP_CWORD\" -gt 2 ] && _ferry_value \"$verb\" \"$prev\"; then\n"
                "        :\n"
                "    elif [[ $cur == -* ]]; then\n        _ferry_options \"$verb\"\n"
                "    else\n"
                "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
                "            if [[ ${COMP_WORDS[i]} != -* ]]; then\n                ((n++))\n"
                "            elif _ferry_value \"$verb\" \"${COMP_WORDS[i]}\"; then\n"
                "                [ \"${COMP_WORDS[i + 1]}\" != = ] || ((i++))\n"
                "                ((i++))\n            fi\n        done\n"
                "        words='' files=''\n        _ferry_arg \"$verb\" \"$n\"\n    fi\n"
                "    COMPREPLY=()\n"
                "    if [ -n \"$files\" ]; then\n"
                "        mapfile -t COMPREPLY < <(_ferry_files \"$cur\")\n"
                "    elif [ -n \"$words\" ]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                "    fi\n}\n"
                "complete -F _ferry ferry\n");
}

/* --- completion: zsh --- */

/* Text inside single quotes and _arguments brackets. */
static void zsh_text(fy_str *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            fy_str_puts(out, "'\\''");
        else if (strchr("[]:\\", *p) != NULL)
            fy_str_printf(out, "\\%c", *p);
        else
            fy_str_putc(out, *p);
    }
}

/* ":what:how to complete it" */
static void zsh_offer(fy_str *out, const char *word, size_t len, const offer *f)
{
    fy_str_putc(out, ':');
    fy_str_add(out, word, strcspn(word, " ") < len ? strcspn(word, " ") : len);
    fy_str_putc(out, ':');
    if (f->choices != NULL) {
        fy_str_putc(out, '(');
        put_choices(out, f->choices);
        fy_str_putc(out, ')');
    } else if (f->names & FY_NAMES_ANY) {
        fy_str_puts(out, "_files");
    } else if (f->names & FY_NAMES_EXT) {
        fy_str_printf(out, "_files -g \"*.%s\"", f->ext);
    } else if (f->names & FY_NAMES_DIR) {
        fy_str_puts(out, "_files -/");
    } else {
        fy_str_putc(out, ' ');
    }
}

/* The names that exclude this one: its own, unless it may be repeated, and those of
 * its set. */
static void zsh_exclusions(fy_str *out, const fy_verb *v, const fy_opt *o)
{
    fy_str list = {0};
    for (size_t i = 0; i < v->n_opts; i++) {
        const fy_opt *p = &v->opts[i];
        bool same_set = p->set != NULL && o->set != NULL && strcmp(p->set, o->set) == 0;
        if (p == o ? o->many : !same_set)
            continue;
        if (p->alias != NULL)
            fy_str_printf(&list, "%s-%s", list.len > 0 ? " " : "", p->alias);
        fy_str_printf(&list, "%s--%s", list.len > 0 ? " " : "", p->name);
    }
    if (list.len > 0)
        fy_str_printf(out, "(%s)", fy_str_z(&list));
    out->oom |= list.oom;
    fy_str_release(&list);
}

static void zsh_option(fy_str *out, const fy_verb *v, const fy_opt *o)
{
    offer f = offer_of_option(o);
    for (int is_long = o->alias == NULL; is_long <= 1; is_long++) {
        fy_str_puts(out, " \\\n        '");
        zsh_exclusions(out, v, o);
        fy_str_printf(out, "%s%s%s%s[", o->many ? "*" : "", is_long ? "--" : "-",
                      is_long ? o->name : o->alias,
                      o->bare != NULL             ? "=-"
                      : is_long && takes_value(o) ? "="
                                                  : "");
        zsh_text(out, o->help);
        fy_str_puts(out, o->bare != NULL ? "]:" : "]"); /* "::" is a value that may be left out */
        if (takes_value(o) || o->bare != NULL)
            zsh_offer(out, o->kind == FY_OPT_CHOICE ? "value" : o->arg, SIZE_MAX, &f);
        fy_str_putc(out, '\'');
    }
}

static void zsh_verb(fy_str *out, const fy_verb *v)
{
    fy_str_printf(out, "    %s) _arguments '(- *)'{-h,--help}'[explain the verb]'", v->name);
    for (size_t i = 0; i < v->n_opts; i++)
        zsh_option(out, v, &v->opts[i]);
    for (arg_slot a = {0}; next_arg(v, &a);) {
        if (a.repeats)
            fy_str_puts(out, " \\\n        '*");
        else
            fy_str_printf(out, " \\\n        '%d", a.nth);
        zsh_offer(out, a.word, a.len, &a.may_be);
        fy_str_putc(out, '\'');
    }
    fy_str_puts(out, " ;;\n");
}

static void zsh_description(fy_str *out, const char *name, const char *summary)
{
    fy_str_printf(out, "            '%s:", name);
    zsh_text(out, summary);
    fy_str_puts(out, "'\n");
}

static void zsh(fy_str *out)
{
    fy_str_puts(out, "#compdef ferry\n_ferry() {\n    if (( CURRENT == 2 )); then\n"
                     "        local -a verbs=(\n");
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        zsh_description(out, (*v)->name, (*v)->summary);
    for (const fy_word *w = fy_words; w->name != NULL; w++)
        zsh_description(out, w->name, w->summary);
    fy_str_puts(out, "        )\n        _describe verb verbs\n        return\n    fi\n"
                     "    local verb=$words[2]\n"
                     "    shift words; (( CURRENT-- ))\n    case $verb in\n");
    for (const fy_word *w = fy_words; w->name != NULL; w++) {
        fy_str_printf(out, "    %s) _arguments '1:word:(", w->name);
        put_word_args(out, w);
        fy_str_puts(out, ")' ;;\n");
    }
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        zsh_verb(out, *v);
    fy_str_puts(out, "    esac\n}\nif [ \"$funcstack[1]\" = _ferry ]; then _ferry \"$@\"; else "
                     "compdef _ferry ferry; fi\n");
}

/* --- completion: fish --- */

static void fish_text(fy_str *out, const char *text)
{
    fy_str_puts(out, " -d '");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'' || *p == '\\')
            fy_str_putc(out, '\\');
        fy_str_putc(out, *p);
    }
    fy_str_puts(out, "'\n");
}

static void fish_offer(fy_str *out, const offer *f)
{
    if (f->choices != NULL) {
        fy_str_puts(out, " -a '");
        put_choices(out, f->choices);
        fy_str_putc(out, '\'');
    } else if (f->names & FY_NAMES_ANY) {
        fy_str_puts(out, " -F");
    } else if (f->names & FY_NAMES_EXT) {
        fy_str_printf(out, " -a '(__fish_complete_suffix .%s)'", f->ext);
    } else if (f->names & FY_NAMES_DIR) {
        fy_str_puts(out, " -a '(__fish_complete_directories)'");
    }
}

static void fish_verb(fy_str *out, const fy_verb *v)
{
    fy_str_printf(out, "set -g __ferry_valued_%s", v->name);
    for (size_t i = 0; i < v->n_opts; i++) {
        if (takes_value(&v->opts[i]))
            fy_str_printf(out, " --%s", v->opts[i].name);
        if (takes_value(&v->opts[i]) && v->opts[i].alias != NULL)
            fy_str_printf(out, " -%s", v->opts[i].alias);
    }
    fy_str_printf(out, "\ncomplete -c ferry -n __ferry_no_verb -a %s", v->name);
    fish_text(out, v->summary);
    for (size_t i = 0; i < v->n_opts; i++) {
        const fy_opt *o = &v->opts[i];
        offer f = offer_of_option(o);
        fy_str_printf(out, "complete -c ferry -n '__ferry_verb %s' -l %s", v->name, o->name);
        if (o->alias != NULL)
            fy_str_printf(out, " -%c %s", strlen(o->alias) == 1 ? 's' : 'o', o->alias);
        if (takes_value(o))
            fy_str_puts(out, f.names & FY_NAMES_ANY ? " -r" : " -x");
        fish_offer(out, &f);
        fish_text(out, o->help);
    }
    for (arg_slot a = {0}; next_arg(v, &a);) {
        char nth[16] = "any";
        if (!a.repeats)
            snprintf(nth, sizeof nth, "%d", a.nth);
        if (a.may_be.choices == NULL && a.may_be.names == 0)
            continue;
        fy_str_printf(out, "complete -c ferry -n '__ferry_arg %s %s'", v->name, nth);
        fish_offer(out, &a.may_be);
        fy_str_putc(out, '\n');
    }
}

static void fish(fy_str *out)
{
    fy_str_puts(out, "# fish completion for ferry\n"
                     "function __ferry_no_verb\n    test (count (commandline -opc)) -lt 2\nend\n"
                     "function __ferry_verb\n    set -l words (commandline -opc)\n"
                     "    test (count $words) -ge 2; and test $words[2] = $argv[1]\nend\n"
                     "# VERB N: is its Nth argument next? any: no matter which\n"
                     "function __ferry_arg\n"
                     "    __ferry_verb $argv[1]; or return 1\n"
                     "    set -l words (commandline -opc)\n"
                     "    set -l valued __ferry_valued_$argv[1]\n"
                     "    set -l n 1\n    set -l skip no\n"
                     "    for word in $words[3..-1]\n"
                     "        if test $skip = yes\n            set skip no\n"
                     "        else if contains -- $word $$valued\n            set skip yes\n"
                     "        else if not string match -q -- '-*' $word\n"
                     "            set n (math $n + 1)\n        end\n    end\n"
                     "    test $skip = no; and contains -- $argv[2] $n any\nend\n"
                     "complete -c ferry -f\n");
    for (const fy_word *w = fy_words; w->name != NULL; w++) {
        fy_str_printf(out, "complete -c ferry -n __ferry_no_verb -a %s", w->name);
        fish_text(out, w->summary);
        fy_str_printf(out, "complete -c ferry -n '__ferry_arg %s 1' -a '", w->name);
        put_word_args(out, w);
        fy_str_puts(out, "'\n");
    }
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++)
        fish_verb(out, *v);
}

int fy_completion(const char *shell, fy_str *out, fy_err *e)
{
    static void (*const make[])(fy_str * out) = {bash, zsh, fish};
    int i = fy_choice("bash|zsh|fish", shell, e);
    if (i < 0)
        return fy_ctx(e, "completion");
    make[i](out);
    return 0;
}
