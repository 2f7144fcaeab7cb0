/* ferry: one executable, git-style verbs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/quote.h"
#include "base/str.h"
#include "cli/settings.h"
#include "cli/verb.h"

/* With a standard stream closed, the next file opened would get its number, and words would go into
 * that file. The stand-in refuses what the stream is for, so that using it stays an error. */
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
                 {FY_TASK_USE, "Use it"}};
    fy_str_puts(s, "usage: ferry VERB [options] [arguments]\n\n"
                   "Carry a language model from a checkpoint to a phone.\n");
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        size_t begin = s->len;
        for (const fy_verb *const *v = fy_verbs; *v != NULL; v++) {
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
                   "'ferry --version', with --json for scripts, is what to put into a report.\n");
}

static int unknown_verb(const char *name, bool or_word, fy_err *e)
{
    enum { MAX = 64 };
    const char *names[MAX];
    char shown[FY_QUOTE_BYTES];
    size_t n = 0;
    for (const fy_word *w = fy_words; or_word && w->name != NULL && n < MAX; w++)
        names[n++] = w->name;
    for (const fy_verb *const *v = fy_verbs; *v != NULL && n < MAX; v++)
        names[n++] = (*v)->name;
    const char *near = fy_nearest(name, names, n);
    fy_quote(shown, sizeof shown, fy_span_of(name));
    return near != NULL
               ? fy_fail(e, FY_EARG, "unknown verb '%s'; did you mean '%s'?", shown, near)
               : fy_fail(e, FY_EARG, "unknown verb '%s'; 'ferry --help' lists them", shown);
}

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

static bool flag_is_set(const fy_verb *v, const void *o, const char *name)
{
    for (size_t i = 0; i < v->n_opts; i++) {
        if (v->opts[i].kind == FY_OPT_FLAG && strcmp(v->opts[i].name, name) == 0)
            return *(const bool *)(const void *)((const char *)o + v->opts[i].offset);
    }
    return false;
}

/* What -v says before the verb begins. */
static void report_settings(const fy_verb *v, const fy_settings *s, const char *const *from)
{
    fy_str text = {0};
    fy_version_text(&text);
    fy_log(FY_LOG_DEBUG, "%s%s%s", fy_str_z(&text), s->path != NULL ? ", settings of " : "",
           s->path != NULL ? s->path : "");
    fy_str_release(&text);
    for (size_t i = 0; i < s->n; i++) {
        if (from[s->given[i].row] == s->given[i].source)
            fy_log(FY_LOG_DEBUG, "--%s is '%s', from %s", v->opts[s->given[i].row].name,
                   s->given[i].value, s->given[i].source);
    }
}

/* Everything one call of a verb holds. */
typedef struct {
    const fy_verb *v;
    void *o;           /* owned; the verb's options */
    const char **from; /* owned; where each has its value from */
    fy_settings settings;
} call;

static int run_call(call *c, int argc, char **argv, fy_err *e)
{
    const fy_verb *v = c->v;
    int n_args;
    bool help;
    if (fy_opts_parse_from(v->opts, v->n_opts, c->o, argc, argv, &n_args, &help, c->from, e) != 0)
        return -1;
    if (help) {
        fy_str s = {0};
        fy_verb_help(v, &s);
        return print(&s, e);
    }
    if (check_arg_count(v, n_args, e) != 0 || fy_settings_read(&c->settings, v, e) != 0 ||
        fy_opts_fill(v->opts, v->n_opts, c->o, c->settings.given, c->settings.n, c->from, e) != 0)
        return -1;
    fy_log_show(flag_is_set(v, c->o, "quiet")     ? FY_LOG_WARN
                : flag_is_set(v, c->o, "verbose") ? FY_LOG_DEBUG
                                                  : FY_LOG_INFO);
    report_settings(v, &c->settings, c->from);
    fy_settings_publish(v, c->o, c->from);
    return v->run(c->o, n_args, argv, e);
}

static int run_verb(const fy_verb *v, int argc, char **argv, fy_err *e)
{
    call c = {.v = v,
              .o = calloc(1, v->opts_bytes > 0 ? v->opts_bytes : 1),
              .from = calloc(v->n_opts + 1, sizeof *c.from)};
    int rc = -1;
    if (c.o == NULL || c.from == NULL) {
        fy_nomem(e);
    } else {
        rc = run_call(&c, argc, argv, e);
        fy_opts_release(v->opts, v->n_opts, c.o);
    }
    fy_settings_release(&c.settings);
    free(c.from);
    free(c.o);
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

/* Returns 1 when the word is none of ours. */
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
        return print(&s, e);
    fy_str_release(&s);
    return -1;
}

int main(int argc, char **argv)
{
    fy_err err = {0};
    hold_standard_streams();
    fy_log_set(fy_log_to_stderr, NULL);
    fy_signals_install();
    if (argc < 2) {
        fy_str s = {0};
        usage(&s);
        fputs(fy_str_z(&s), stderr);
        fy_str_release(&s);
        return fy_exit_status(FY_EARG);
    }
    int rc = run_word(argv[1], argc - 2, argv + 2, &err);
    const char *verb = "";
    if (rc == 1) {
        const fy_verb *v = fy_verb_find(argv[1]);
        verb = v != NULL ? v->name : "";
        rc = v != NULL ? run_verb(v, argc - 2, argv + 2, &err) : unknown_verb(argv[1], true, &err);
    }
    if (rc != 0)
        fprintf(stderr, "ferry%s%s: %s\n", *verb ? " " : "", verb, err.msg);
    return rc == 0 ? 0 : fy_exit_status(err.code);
}
