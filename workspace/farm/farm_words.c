/* The words of a job: the verb whose work is cut, its options, and the command of each part. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/job_part.h"
#include "base/path.h"
#include "cli/call.h"
#include "workspace/farm/farm.h"

/* Has the verb an option of this name? */
static bool has_option(const fy_verb *v, const char *name)
{
    for (size_t i = 0; i < v->n_opts; i++) {
        if (strcmp(v->opts[i].name, name) == 0)
            return true;
    }
    return false;
}

bool fy_farm_has_parts(const fy_verb *v)
{
    return has_option(v, "part") && has_option(v, "finish");
}

/* The first word that is this option of the verb, or NULL. */
static const char *find_word(const fy_farm_job *job, const char *option)
{
    for (size_t i = 0; i < job->n_words && strcmp(job->words[i], "--") != 0; i++) {
        bool next;
        const fy_opt *o = fy_opts_find(job->verb->opts, job->verb->n_opts, job->words[i], &next);
        if (o != NULL && strcmp(o->name, option) == 0)
            return job->words[i];
        i += next;
    }
    return NULL;
}

bool fy_farm_may_add(const fy_farm_job *job, const char *option)
{
    return has_option(job->verb, option) && find_word(job, option) == NULL;
}

static void put_names(fy_str *out)
{
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        if (fy_farm_has_parts(*v))
            fy_str_printf(out, "%s%s", out->len > 0 ? ", " : "", (*v)->name);
    }
}

static int find_verb(fy_farm_job *job, const char *name, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    job->verb = fy_verb_find(name);
    if (job->verb != NULL && fy_farm_has_parts(job->verb))
        return 0;
    fy_str names = {0};
    put_names(&names);
    fy_fail(e, FY_EARG, "'%s' is not a verb whose work can be cut into parts; expected one of %s",
            fy_quote(shown, sizeof shown, fy_span_of(name)), fy_str_z(&names));
    fy_str_release(&names);
    return -1;
}

/* As the verb reads its words; its message comes now instead of from each part. */
static int check_words(const fy_farm_job *job, fy_err *e)
{
    static const char *const ours[] = {"part", "finish", "dry-run"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        const char *word = find_word(job, ours[i]);
        if (word != NULL && i < 2)
            return fy_fail(e, FY_EARG,
                           "--%s is for farm to give; expected the words of the whole work",
                           ours[i]);
        if (word != NULL)
            return fy_fail(e, FY_EARG,
                           "--dry-run: ask the verb itself: ferry %s ... --dry-run --part 1/%u",
                           job->verb->name, job->n);
    }
    fy_call c;
    char **argv = calloc(job->n_words + 1, sizeof *argv);
    bool oom = argv == NULL;
    for (size_t i = 0; !oom && i < job->n_words; i++)
        oom = (argv[i] = strdup(job->words[i])) == NULL;
    char **given = calloc(job->n_words + 1, sizeof *given); /* the call reorders them */
    int rc = -1;
    if (oom || given == NULL) {
        fy_nomem(e);
    } else {
        for (size_t i = 0; i < job->n_words; i++)
            given[i] = argv[i];
        rc = fy_call_open(&c, job->verb, (int)job->n_words, given, e);
        if (rc == 0 && c.help)
            rc =
                fy_fail(e, FY_EARG, "--help: ferry %s --help, or ferry farm --help before the verb",
                        job->verb->name);
        fy_call_close(&c);
        if (rc != 0)
            fy_ctx(e, "%s", job->verb->name);
    }
    for (size_t i = 0; argv != NULL && i < job->n_words; i++)
        free(argv[i]);
    free(argv);
    free(given);
    return rc;
}

/* Nodes start this program by its path, which they have to see as well. */
static int find_program(fy_farm_job *job, fy_err *e)
{
    job->exe = realpath("/proc/self/exe", NULL);
    if (job->exe == NULL)
        return fy_fail_errno(e, "this program is no longer where it was started");
    return 0;
}

int fy_farm_job_init(fy_farm_job *job, const char *verb, const fy_opt_list *words, int64_t n,
                     int64_t retries, fy_err *e)
{
    *job = (fy_farm_job){.words = words->items, .n_words = words->n, .retries = (uint32_t)retries};
    if (n == FY_OPT_UNSET_INT)
        return fy_fail(e, FY_EARG, "-j N is missing: into how many parts the work is cut");
    job->n = (uint32_t)n;
    return find_verb(job, verb, e) != 0 || check_words(job, e) != 0 || find_program(job, e) != 0
               ? -1
               : 0;
}

void fy_farm_job_release(fy_farm_job *job)
{
    free(job->exe);
}

/* The option stands before the words: after a "--" among them it would be an argument. */
const char **fy_farm_argv(const fy_farm_job *job, const char *option, const char *value,
                          const char *more)
{
    const char **argv = calloc(job->n_words + 6, sizeof *argv);
    size_t n = 0;
    if (argv == NULL)
        return NULL;
    argv[n++] = job->exe;
    argv[n++] = job->verb->name;
    argv[n++] = option;
    argv[n++] = value;
    if (more != NULL)
        argv[n++] = more;
    for (size_t i = 0; i < job->n_words; i++)
        argv[n++] = job->words[i];
    return argv;
}

/* --- how it went --- */

static const struct {
    int status;
    fy_code code;
    bool final;
} endings[] = {{2, FY_EARG, true},     {3, FY_EFIT, true},     {4, FY_EVERIFY, true},
               {5, FY_EDEVICE, false}, {6, FY_ENOSPACE, true}, {130, FY_EINTR, false}};

fy_code fy_farm_code(int status)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (endings[i].status == status)
            return endings[i].code;
    }
    return FY_EIO;
}

bool fy_farm_is_final(int status)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (endings[i].status == status)
            return endings[i].final;
    }
    return false;
}

fy_span fy_farm_last_line(fy_span text)
{
    while (text.len > 0 && strchr("\n\r \t", text.ptr[text.len - 1]) != NULL &&
           text.ptr[text.len - 1] != '\0')
        text.len--;
    size_t at = text.len;
    while (at > 0 && text.ptr[at - 1] != '\n' && text.ptr[at - 1] != '\r')
        at--;
    return (fy_span){text.ptr + at, text.len - at};
}
