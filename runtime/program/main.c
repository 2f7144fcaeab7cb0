/* ferry: one executable with verbs, as git has. Finds the verb or word (help, man, version,
 * completion), runs it, and turns an error into a message and an exit status. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/call.h"
#include "cli/foreign.h"
#include "cli/man_page.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "program/program.h"

/* If a standard stream is closed, the next file opened would get its number, and messages would go
 * into that file. /dev/null takes its place, opened for the wrong direction, so that using the stream
 * is still an error. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

static int print(fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e) : fy_stdout(s->ptr, s->len, e);
    fy_str_release(s);
    return rc;
}

static void usage(fy_str *s)
{
    static const struct {
        fy_task task;
        const char *heading;
    } tasks[] = {{FY_TASK_MAKE, "Make a model"},
                 {FY_TASK_PACKAGE, "Package it for the phone"},
                 {FY_TASK_PHONE, "Bring it to the phone"},
                 {FY_TASK_USE, "Use it"},
                 {FY_TASK_INSIDE, "Called by ferry itself"}};
    fy_str_puts(s, "usage: ferry VERB [options] [arguments]\n\n"
                   "Carry a language model from a checkpoint to a phone.\n");
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        size_t begin = s->len;
        for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
            if ((*v)->task != tasks[i].task)
                continue;
            if (s->len == begin)
                fy_str_printf(s, "\n%s:\n", tasks[i].heading);
            fy_str_printf(s, "  %-10s  %s\n", (*v)->name, (*v)->summary);
        }
    }
    fy_str_puts(s, "\nA first session:\n");
    fy_put_session(s, "  ");
    fy_str_puts(s, "\n'ferry VERB --help' explains a verb, 'ferry man VERB' is its manual page;\n"
                   "'ferry completion bash|zsh|fish' completes words in a shell;\n"
                   "'ferry --version', with --json for scripts, belongs into a bug report.\n");
}

static int unknown_verb(const char *name, bool or_word, fy_err *e)
{
    enum { MAX = 64 };
    const char *names[MAX];
    char shown[FY_QUOTE_BYTES];
    size_t n = 0;
    for (const fy_word *w = fy_words; or_word && w->name != NULL && n < MAX; w++)
        names[n++] = w->name;
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL && n < MAX; v++)
        names[n++] = (*v)->name;
    fy_quote(shown, sizeof shown, fy_span_of(name));
    if (name[0] == '-')
        return fy_fail(e, FY_EARG,
                       "'%s' stands before the verb: 'ferry run' continues a text, 'ferry chat' "
                       "talks, 'ferry --help' lists the others",
                       shown);
    const char *foreign = or_word ? fy_foreign_verb(name) : NULL;
    if (foreign != NULL)
        return fy_fail(e, FY_EARG, "no verb '%s': %s", shown, foreign);
    const char *near = fy_nearest(name, names, n);
    return near != NULL
               ? fy_fail(e, FY_EARG, "unknown verb '%s'; did you mean '%s'?", shown, near)
               : fy_fail(e, FY_EARG, "unknown verb '%s'; 'ferry --help' lists them", shown);
}

static int run_verb(const fy_verb *v, int argc, char **argv, int *status, fy_err *e)
{
    fy_call c;
    int rc = fy_call_open(&c, v, argc, argv, e);
    if (rc == 0 && c.help) {
        fy_str s = {0};
        fy_verb_help(v, &s);
        rc = print(&s, e);
    } else if (rc == 0) {
        rc = fy_call_run(&c, status, e);
    }
    fy_call_close(&c);
    return rc;
}

/* A page for one verb, or for all of them. */
static int write_page(int argc, char **argv, void (*of_verb)(const fy_verb *, fy_str *),
                      void (*of_all)(fy_str *), fy_str *s, fy_err *e)
{
    const fy_verb *v = argc > 0 ? fy_verb_find(argv[0]) : NULL;
    if (argc > 0 && v == NULL)
        return unknown_verb(argv[0], false, e);
    if (v != NULL)
        of_verb(v, s);
    else
        of_all(s);
    return 0;
}

static int write_help(int argc, char **argv, fy_str *s, fy_err *e)
{
    return write_page(argc, argv, fy_verb_help, usage, s, e);
}

static int write_man(int argc, char **argv, fy_str *s, fy_err *e)
{
    return write_page(argc, argv, fy_verb_man, fy_verbs_man, s, e);
}

static int write_completion(int argc, char **argv, fy_str *s, fy_err *e)
{
    (void)argc;
    return fy_completion(argv[0], s, e);
}

static int write_version(int argc, char **argv, fy_str *s, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (argc > 0 && strcmp(argv[0], "--json") != 0)
        return fy_fail(e, FY_EARG, "unknown option '%s'; only --json may follow",
                       fy_quote(shown, sizeof shown, fy_span_of(argv[0])));
    if (argc > 0)
        fy_version_json(s);
    else
        fy_version_text(s);
    fy_str_putc(s, '\n');
    return 0;
}

static const struct {
    const char *name;
    int (*write)(int argc, char **argv, fy_str *s, fy_err *e);
} writers[] = {{"help", write_help},
               {"man", write_man},
               {"version", write_version},
               {"completion", write_completion}};

static int write_word(const fy_word *w, int argc, char **argv, fy_str *s, fy_err *e)
{
    int min = w->arg[0] != '[';
    if (argc < min || argc > 1)
        return fy_fail(e, FY_EARG, "too %s arguments; usage: ferry %s %s",
                       argc < min ? "few" : "many", w->name, w->arg);
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        if (strcmp(writers[i].name, w->name) == 0)
            return writers[i].write(argc, argv, s, e);
    }
    return fy_fail(e, FY_EUNSUPPORTED, "'%s' has no text", w->name);
}

/* A pipe or a file gets the page as it is. */
static int print_page(fy_str *s, fy_err *e)
{
    if (s->oom || !isatty(STDOUT_FILENO))
        return print(s, e);
    const int rc = fy_man_show(fy_str_z(s), e);
    fy_str_release(s);
    return rc;
}

/* Returns 1 when the word is not in fy_words. */
static int run_word(const char *word, int argc, char **argv, fy_err *e)
{
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        word = "help";
    else if (strcmp(word, "--version") == 0)
        word = "version";
    const fy_word *w = fy_words;
    while (w->name != NULL && strcmp(w->name, word) != 0)
        w++;
    if (w->name == NULL)
        return 1;
    fy_str s = {0};
    if (write_word(w, argc, argv, &s, e) == 0)
        return strcmp(w->name, "man") == 0 ? print_page(&s, e) : print(&s, e);
    fy_str_release(&s);
    return -1;
}

int main(int argc, char **argv)
{
    fy_err err = {0};
    hold_standard_streams();
    fy_program_set(&fy_ferry);
    fy_log_set(fy_log_to_stderr, NULL);
    fy_signals_install();
    if (argc < 2) {
        fy_str s = {0};
        usage(&s);
        fy_stderr(fy_str_z(&s), s.len, NULL);
        fy_str_release(&s);
        return fy_exit_status(FY_EARG);
    }
    int status = 0, rc = run_word(argv[1], argc - 2, argv + 2, &err);
    const char *verb = "";
    if (rc == 1) {
        const fy_verb *v = fy_verb_find(argv[1]);
        verb = v != NULL ? v->name : "";
        rc = v != NULL ? run_verb(v, argc - 2, argv + 2, &status, &err)
                       : unknown_verb(argv[1], true, &err);
    }
    if (rc != 0) {
        char line[sizeof err.msg + 64];
        snprintf(line, sizeof line, "ferry%s%s: %s\n", *verb ? " " : "", verb, err.msg);
        fy_stderr(line, strlen(line), NULL);
    }
    return rc == 0 ? status : fy_exit_status(err.code);
}
