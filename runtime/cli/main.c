/* ferry: one executable, git-style verbs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/str.h"
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
    fy_str_puts(s, "usage: ferry VERB [options] [arguments]\n\n"
                   "Carry a language model from a checkpoint to a phone.\n\n");
    for (const fy_verb *const *v = fy_verbs; *v != NULL; v++)
        fy_str_printf(s, "  %-10s %s\n", (*v)->name, (*v)->summary);
    fy_str_puts(s, "\n'ferry VERB --help' explains a verb; 'ferry --version' shows the version.\n");
}

static int unknown_verb(const char *name, fy_err *e)
{
    const char *names[64];
    size_t n = 0;
    for (const fy_verb *const *v = fy_verbs; *v != NULL && n < 64; v++)
        names[n++] = (*v)->name;
    const char *near = fy_nearest(name, names, n);
    return near != NULL ? fy_fail(e, FY_EARG, "unknown verb '%s'; did you mean '%s'?", name, near)
                        : fy_fail(e, FY_EARG, "unknown verb '%s'; 'ferry --help' lists them", name);
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

static int run_verb(const fy_verb *v, int argc, char **argv, fy_err *e)
{
    void *o = calloc(1, v->opts_bytes > 0 ? v->opts_bytes : 1);
    if (o == NULL)
        return fy_nomem(e);
    int n_args;
    bool help;
    int rc = fy_opts_parse(v->opts, v->n_opts, o, argc, argv, &n_args, &help, e);
    if (rc == 0 && help) {
        fy_str s = {0};
        fy_verb_help(v, &s);
        rc = print(&s, e);
    } else if (rc == 0) {
        rc = check_arg_count(v, n_args, e);
        if (rc == 0)
            rc = v->run(o, n_args, argv, e);
    }
    fy_opts_release(v->opts, v->n_opts, o);
    free(o);
    return rc;
}

/* What is no verb: the program's own questions. Returns 1 when the word is none of them. */
static int run_word(const char *word, int argc, char **argv, fy_err *e)
{
    fy_str s = {0};
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        fy_str_printf(&s, "ferry %s (%s)\n", FERRY_VERSION, fy_cpu_describe(fy_cpu_features()));
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
               strcmp(word, "help") == 0) {
        const fy_verb *v = argc > 0 ? fy_verb_find(argv[0]) : NULL;
        if (argc > 0 && v == NULL)
            return unknown_verb(argv[0], e);
        if (v != NULL)
            fy_verb_help(v, &s);
        else
            usage(&s);
    } else if (strcmp(word, "completion") == 0) {
        if (argc != 1)
            return fy_fail(e, FY_EARG, "completion needs a shell: bash, zsh or fish");
        if (fy_completion(argv[0], &s, e) != 0)
            return -1;
    } else if (strcmp(word, "man") == 0) {
        const fy_verb *v = argc > 0 ? fy_verb_find(argv[0]) : NULL;
        if (argc > 0 && v == NULL)
            return unknown_verb(argv[0], e);
        if (v != NULL)
            fy_verb_man(v, &s);
        else
            fy_verbs_man(&s);
    } else {
        return 1;
    }
    return print(&s, e);
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
        rc = v != NULL ? run_verb(v, argc - 2, argv + 2, &err) : unknown_verb(argv[1], &err);
    }
    if (rc != 0)
        fprintf(stderr, "ferry%s%s: %s\n", *verb ? " " : "", verb, err.msg);
    return rc == 0 ? 0 : fy_exit_status(err.code);
}
