/* Shell completion from the verb table: verbs, long options, choices, and file names elsewhere. */
#include <string.h>

#include "cli/verb.h"

static void words_of_choice(fy_str *out, const char *choices)
{
    for (const char *p = choices; *p != '\0'; p++)
        fy_str_putc(out, *p == '|' ? ' ' : *p);
}

static void bash(fy_str *out)
{
    fy_str_puts(out,
                "# bash completion for ferry\n_ferry()\n{\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++)
        fy_str_printf(out, "%s ", (*v)->name);
    fy_str_puts(out,
                "help completion --version\"\n    else\n        case ${COMP_WORDS[1]}:$prev in\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        for (size_t i = 0; i < (*v)->n_opts; i++) {
            const fy_opt *o = &(*v)->opts[i];
            if (o->kind != FY_OPT_CHOICE)
                continue;
            fy_str_printf(out, "        %s:--%s", (*v)->name, o->name);
            if (o->alias != NULL)
                fy_str_printf(out, "|%s:-%s", (*v)->name, o->alias);
            fy_str_puts(out, ") words=\"");
            words_of_choice(out, o->arg);
            fy_str_puts(out, "\" ;;\n");
        }
    }
    fy_str_puts(out, "        *) case ${COMP_WORDS[1]}:$cur in\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        fy_str_printf(out, "            %s:-*) words=\"--help", (*v)->name);
        for (size_t i = 0; i < (*v)->n_opts; i++)
            fy_str_printf(out, " --%s", (*v)->opts[i].name);
        fy_str_puts(out, "\" ;;\n");
    }
    fy_str_puts(out,
                "            esac ;;\n        esac\n    fi\n"
                "    if [ -n \"$words\" ]; then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                "    else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\n"
                "complete -o filenames -F _ferry ferry\n");
}

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

static void zsh(fy_str *out)
{
    fy_str_puts(
        out,
        "#compdef ferry\n_ferry() {\n    if (( CURRENT == 2 )); then\n        local -a verbs=(\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        fy_str_printf(out, "            '%s:", (*v)->name);
        zsh_text(out, (*v)->summary);
        fy_str_puts(out, "'\n");
    }
    fy_str_puts(out, "        )\n        _describe verb verbs\n        return\n    fi\n    local "
                     "verb=$words[2]\n"
                     "    shift words; (( CURRENT-- ))\n    case $verb in\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        fy_str_printf(out, "    %s) _arguments '--help[explain the verb]'", (*v)->name);
        for (size_t i = 0; i < (*v)->n_opts; i++) {
            const fy_opt *o = &(*v)->opts[i];
            fy_str_printf(out, " \\\n        '%s--%s[", o->many ? "*" : "", o->name);
            zsh_text(out, o->help);
            fy_str_puts(out, "]");
            if (o->kind == FY_OPT_CHOICE) {
                fy_str_puts(out, ":value:(");
                words_of_choice(out, o->arg);
                fy_str_puts(out, ")");
            } else if (o->kind != FY_OPT_FLAG) {
                fy_str_printf(out, ":%s:_files", o->arg);
            }
            fy_str_puts(out, "'");
        }
        fy_str_puts(out, " '*:file:_files' ;;\n");
    }
    fy_str_puts(out, "    esac\n}\nif [ \"$funcstack[1]\" = _ferry ]; then _ferry \"$@\"; else "
                     "compdef _ferry ferry; fi\n");
}

static void fish_text(fy_str *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'' || *p == '\\')
            fy_str_putc(out, '\\');
        fy_str_putc(out, *p);
    }
}

static void fish(fy_str *out)
{
    fy_str_puts(out, "# fish completion for ferry\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
        fy_str_printf(out, "complete -c ferry -n __fish_use_subcommand -f -a %s -d '", (*v)->name);
        fish_text(out, (*v)->summary);
        fy_str_puts(out, "'\n");
        for (size_t i = 0; i < (*v)->n_opts; i++) {
            const fy_opt *o = &(*v)->opts[i];
            fy_str_printf(out, "complete -c ferry -n '__fish_seen_subcommand_from %s' -l %s",
                          (*v)->name, o->name);
            if (o->alias != NULL)
                fy_str_printf(out, " -%c %s", strlen(o->alias) == 1 ? 's' : 'o', o->alias);
            if (o->kind == FY_OPT_CHOICE) {
                fy_str_puts(out, " -x -a '");
                words_of_choice(out, o->arg);
                fy_str_puts(out, "'");
            } else if (o->kind != FY_OPT_FLAG) {
                fy_str_puts(out, " -r");
            }
            fy_str_puts(out, " -d '");
            fish_text(out, o->help);
            fy_str_puts(out, "'\n");
        }
    }
}

int fy_completion(const char *shell, fy_str *out, fy_err *e)
{
    static const struct {
        const char *name;
        void (*make)(fy_str *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].make(out);
            return 0;
        }
    }
    return fy_fail(e, FY_EARG, "no completion for '%s'; expected bash, zsh or fish", shell);
}
