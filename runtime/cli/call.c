/* One call of a verb. Parses its options, adds values from FERRY_* variables and the configuration
 * file, remembers where each value came from, and runs the verb here or on the phone. Options that
 * belong to another verb are collected for it. */
#include "cli/call.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/foreign.h"
#include "cli/model_arg.h"
#include "cli/terminal.h"
#include "cli/verb.h"

enum { RANK_FILE = 1, RANK_SECTION, RANK_VARIABLE };

/* The device build has only some of the verbs: what it does not know may be another build's. */
#ifdef FERRY_DEVICE
static const bool all_verbs_here = false;
#else
static const bool all_verbs_here = true;
#endif

void fy_settings_release(fy_settings *s)
{
    free(s->given);
    fy_arena_release(&s->strings);
    *s = (fy_settings){0};
}

static int add(fy_settings *s, size_t row, int rank, const char *value, const char *source,
               fy_err *e)
{
    const fy_opt_given one = {.row = row, .rank = rank, .value = value, .source = source};
    if (value == NULL || source == NULL)
        return fy_nomem(e);
    return fy_append(&s->given, &s->n, &s->cap, &one, sizeof one, e);
}

/* --- variables --- */

void fy_settings_variable(const char *name, char *out, size_t size)
{
    snprintf(out, size, "FERRY_%s", name);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static int read_variables(fy_settings *s, const fy_verb *v, fy_err *e)
{
    for (size_t i = 0; i < v->n_opts; i++) {
        char name[64];
        fy_settings_variable(v->opts[i].name, name, sizeof name);
        const char *value = getenv(name);
        if (v->opts[i].line_only || value == NULL || *value == '\0')
            continue;
        if (add(s, i, RANK_VARIABLE, value, fy_arena_strndup(&s->strings, name, strlen(name)), e) !=
            0)
            return -1;
    }
    return 0;
}

/* --- the file --- */

typedef struct {
    fy_settings *s;
    const fy_verb *v; /* whose options are wanted */
    const char *path;
    unsigned line;
    const fy_verb *section; /* NULL: above the first section */
    bool skipped;           /* a section of a verb that this build lacks */
    unsigned *seen[2];      /* [row of v] in which line, above and in v's section */
} reader;

static fy_span trim(fy_span t)
{
    while (t.len > 0 && strchr(" \t\r", t.ptr[0]) != NULL)
        t = (fy_span){t.ptr + 1, t.len - 1};
    while (t.len > 0 && strchr(" \t\r", t.ptr[t.len - 1]) != NULL)
        t.len--;
    return t;
}

/* "PATH:LINE: <what> 'word'<more>", and the nearest of the names when there is one. */
static int refuse(const reader *r, fy_span word, const char *what, const char *more,
                  const char *near, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, word);
    return fy_fail(e, FY_EARG, "%s:%u: %s'%s'%s%s%s%s", r->path, r->line, what, shown, more,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

/* A word as a string for fy_nearest; what is cut off is far from every name anyway. */
static const char *short_word(fy_span word, char out[FY_QUOTE_BYTES])
{
    snprintf(out, FY_QUOTE_BYTES, "%.*s", (int)word.len, word.ptr);
    return out;
}

static const char *nearest_verb(fy_span word)
{
    enum { MAX = 64 };
    const char *names[MAX];
    char text[FY_QUOTE_BYTES];
    size_t n = 0;
    for (; n < MAX && fy_program_now()->verbs[n] != NULL; n++)
        names[n] = fy_program_now()->verbs[n]->name;
    return fy_nearest(short_word(word, text), names, n);
}

/* Among the options of one verb, or of all when v is NULL. */
static const char *nearest_name(const fy_verb *v, fy_span word)
{
    enum { MAX = 256 };
    const char *names[MAX];
    char text[FY_QUOTE_BYTES];
    size_t n = 0;
    for (const fy_verb *const *p = fy_program_now()->verbs; *p != NULL; p++) {
        for (size_t i = 0; (v == NULL || v == *p) && i < (*p)->n_opts && n < MAX; i++) {
            if (!(*p)->opts[i].line_only)
                names[n++] = (*p)->opts[i].name;
        }
    }
    return fy_nearest(short_word(word, text), names, n);
}

static const fy_opt *find_option(const fy_verb *v, fy_span name)
{
    for (size_t i = 0; i < v->n_opts; i++) {
        if (fy_opt_is_named(&v->opts[i], name.ptr, name.len))
            return &v->opts[i];
    }
    return NULL;
}

static int read_section(reader *r, fy_span line, fy_err *e)
{
    if (line.ptr[line.len - 1] != ']')
        return refuse(r, line, "", " has no ']' at its end", NULL, e);
    fy_span name = trim((fy_span){line.ptr + 1, line.len - 2});
    r->section = NULL;
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        if (fy_span_is(name, (*v)->name))
            r->section = *v;
    }
    r->skipped = r->section == NULL && !all_verbs_here;
    if (r->section == NULL && !r->skipped)
        return refuse(r, name, "unknown verb ", "", nearest_verb(name), e);
    return 0;
}

/* A name above the first section must be an option of some verb, in a section of its verb. */
static int check_name(const reader *r, fy_span name, fy_err *e)
{
    const fy_opt *line_only = NULL;
    for (const fy_verb *const *v = fy_program_now()->verbs; *v != NULL; v++) {
        const fy_opt *o = r->section == NULL || r->section == *v ? find_option(*v, name) : NULL;
        if (o != NULL && !o->line_only)
            return 0;
        line_only = o != NULL ? o : line_only;
    }
    if (line_only != NULL)
        return refuse(r, name, "", " is taken from the command line only", NULL, e);
    if (!all_verbs_here && r->section == NULL)
        return 0;
    if (r->section == NULL)
        return refuse(r, name, "unknown name ", "", nearest_name(NULL, name), e);
    char more[64];
    snprintf(more, sizeof more, " is not an option of %s", r->section->name);
    return refuse(r, name, "", more, nearest_name(r->section, name), e);
}

/* Text in double quotes keeps its spaces; "~/" before a file's name is the home directory. */
static const char *make_value(reader *r, const fy_opt *o, fy_span text)
{
    char ext[FY_EXT_BYTES];
    const char *home = getenv("HOME");
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = (fy_span){text.ptr + 1, text.len - 2};
    bool at_home = o->kind == FY_OPT_STR && text.len >= 2 && memcmp(text.ptr, "~/", 2) == 0 &&
                   home != NULL && fy_arg_names(o->arg, strlen(o->arg), ext) != 0;
    if (!at_home)
        return fy_arena_strndup(&r->s->strings, text.ptr, text.len);
    fy_str path = {0};
    fy_str_puts(&path, home);
    fy_str_add(&path, text.ptr + 1, text.len - 1);
    const char *value =
        path.oom ? NULL : fy_arena_strndup(&r->s->strings, fy_str_z(&path), path.len);
    fy_str_release(&path);
    return value;
}

static int take(reader *r, const fy_opt *o, fy_span text, fy_err *e)
{
    size_t row = (size_t)(o - r->v->opts);
    unsigned *seen = &r->seen[r->section != NULL][row];
    if (*seen != 0 && !o->many)
        return fy_fail(e, FY_EARG, "%s:%u: '%s' is given in line %u already", r->path, r->line,
                       o->name, *seen);
    *seen = r->line;
    fy_str source = {0};
    fy_str_printf(&source, "%s:%u: %s", r->path, r->line, o->name);
    int rc =
        add(r->s, row, r->section != NULL ? RANK_SECTION : RANK_FILE, make_value(r, o, text),
            source.oom ? NULL : fy_arena_strndup(&r->s->strings, fy_str_z(&source), source.len), e);
    fy_str_release(&source);
    return rc;
}

static int read_line(reader *r, fy_span line, fy_err *e)
{
    line = trim(line);
    if (line.len == 0 || line.ptr[0] == '#')
        return 0;
    if (line.ptr[0] == '[')
        return read_section(r, line, e);
    if (r->skipped)
        return 0;
    const char *equals = memchr(line.ptr, '=', line.len);
    if (equals == NULL)
        return refuse(r, line, "expected 'name = value', '[verb]' or '# comment', found ", "", NULL,
                      e);
    fy_span name = trim((fy_span){line.ptr, (size_t)(equals - line.ptr)});
    fy_span value = trim((fy_span){equals + 1, line.len - (size_t)(equals + 1 - line.ptr)});
    if (check_name(r, name, e) != 0)
        return -1;
    const fy_opt *o = r->section == NULL || r->section == r->v ? find_option(r->v, name) : NULL;
    return o == NULL || o->line_only ? 0 : take(r, o, value, e);
}

int fy_settings_parse(fy_settings *s, const fy_verb *v, fy_span text, const char *path, fy_err *e)
{
    reader r = {.s = s, .v = v, .path = path};
    for (int i = 0; i < 2; i++) {
        r.seen[i] = fy_arena_calloc(&s->strings, v->n_opts + 1, sizeof(unsigned));
        if (r.seen[i] == NULL)
            return fy_nomem(e);
    }
    if (text.len > FY_SETTINGS_MAX_BYTES)
        return fy_fail(e, FY_EARG, "%s: larger than %d bytes: not a configuration file", path,
                       FY_SETTINGS_MAX_BYTES);
    if (text.len >= 3 && memcmp(text.ptr, "\xEF\xBB\xBF", 3) == 0)
        text = (fy_span){text.ptr + 3, text.len - 3};
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        fy_span line = {text.ptr, end != NULL ? (size_t)(end - text.ptr) : text.len};
        r.line++;
        if (memchr(line.ptr, '\0', line.len) != NULL)
            return fy_fail(e, FY_EARG, "%s:%u: a NUL byte: not a configuration file", path, r.line);
        if (read_line(&r, line, e) != 0)
            return -1;
        size_t used = line.len + (end != NULL);
        text = (fy_span){text.ptr + used, text.len - used};
    }
    return 0;
}

/* *path NULL: no file is looked for. *named: the user named the file, so it must exist. */
static int find_file(fy_settings *s, const char **path, bool *named, fy_err *e)
{
    const char *asked = getenv("FERRY_CONFIG");
    fy_str text = {0};
    *named = asked != NULL && *asked != '\0';
    *path = NULL;
    if (*named)
        fy_str_puts(&text, asked);
    else if (!fy_config_path("config", &text))
        return 0;
    *path = text.oom ? NULL : fy_arena_strndup(&s->strings, fy_str_z(&text), text.len);
    fy_str_release(&text);
    return *path != NULL ? 0 : fy_nomem(e);
}

/* At most one byte more than a configuration file may have. */
static int read_fd(int fd, const char *path, char *to, size_t *n, fy_err *e)
{
    *n = 0;
    while (*n <= FY_SETTINGS_MAX_BYTES) {
        ssize_t got = read(fd, to + *n, FY_SETTINGS_MAX_BYTES + 1 - *n);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return fy_fail_errno(e, "%s: cannot read", path);
        *n += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* O_NONBLOCK: a pipe without a writer must not hold the program before it is refused. */
static int read_file(fy_settings *s, const fy_verb *v, fy_err *e)
{
    bool named;
    const char *path;
    if (find_file(s, &path, &named, e) != 0)
        return -1;
    if (path == NULL)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;
    if (fd < 0 && !named) {
        if (errno != ENOENT && errno != ENOTDIR)
            fy_log(FY_LOG_WARN, "%s: not read: %s", path, strerror(errno));
        return 0;
    }
    if (fd < 0)
        return fy_fail_errno(e, "FERRY_CONFIG: %s: cannot open", path);
    struct stat st;
    size_t n;
    char *text = malloc(FY_SETTINGS_MAX_BYTES + 1);
    if (text == NULL)
        fy_nomem(e);
    else if (fstat(fd, &st) != 0)
        fy_fail_errno(e, "%s: cannot open", path);
    else if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
        fy_fail(e, FY_EARG, "%s: is not a regular file", path);
    else if (read_fd(fd, path, text, &n, e) == 0)
        rc = fy_settings_parse(s, v, (fy_span){text, n}, path, e);
    s->path = rc == 0 ? path : NULL;
    free(text);
    close(fd);
    return rc;
}

int fy_settings_read(fy_settings *s, const fy_verb *v, fy_err *e)
{
    *s = (fy_settings){0};
    return read_file(s, v, e) != 0 ? -1 : read_variables(s, v, e);
}

/* --- where a value came from --- */

static fy_settings_source g_sources; /* of the verb that runs */

fy_settings_source fy_settings_publish(fy_settings_source s)
{
    fy_settings_source before = g_sources;
    g_sources = s;
    return before;
}

const char *fy_option_source(const void *field)
{
    for (size_t i = 0; g_sources.v != NULL && i < g_sources.v->n_opts; i++) {
        if (g_sources.into + g_sources.v->opts[i].offset == field)
            return g_sources.from[i];
    }
    return NULL;
}

/* --- the words of the command line --- */

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

/* --- options of other verbs --- */

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

/* The verb that owns the option; NULL: this verb (which reports unknown options). */
static const fy_borrow *owner_of(const fy_verb *v, const char *word, bool *next)
{
    if (fy_opts_find(v->opts, v->n_opts, word, next) != NULL)
        return NULL;
    for (const fy_borrow *b = v->borrow; b->verb != NULL; b++) {
        const fy_verb *other = fy_verb_find(b->verb);
        const fy_opt *o =
            other != NULL ? fy_opts_find(other->opts, other->n_opts, word, next) : NULL;
        if (o != NULL && !is_listed(b->except, o->name))
            return b;
    }
    *next = false;
    return NULL;
}

/* Moves the options of other verbs out of argv. */
static int take_borrowed(fy_call *c, int *argc, char **argv, fy_err *e)
{
    int kept = 0, i = 0;
    while (i < *argc && strcmp(argv[i], "--") != 0) {
        bool next;
        const fy_borrow *b = owner_of(c->v, argv[i], &next);
        int n = next && i + 1 < *argc ? 2 : 1;
        for (int k = 0; k < n; k++) {
            char *word = argv[i + k];
            if (b == NULL)
                argv[kept++] = word;
            else if (fy_opt_list_add((void *)((char *)c->o + b->offset), word, e) != 0)
                return -1;
        }
        i += n;
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    *argc = kept;
    return 0;
}

#ifndef FERRY_DEVICE
/* Moves what stands after the first argument out of argv, but for this verb's own options. */
static int take_words(fy_call *c, int *argc, char **argv, fy_err *e)
{
    const fy_verb *inner = NULL;
    bool begun = false, rest = false;
    int kept = 0, i = 0;
    while (i < *argc) {
        bool next = false, inner_next = false;
        const char *word = argv[i];
        const fy_opt *own = rest ? NULL : fy_opts_find(c->v->opts, c->v->n_opts, word, &next);
        const fy_opt *its = rest || inner == NULL ? NULL
                                                  : fy_opts_find(inner->opts, inner->n_opts, word,
                                                                 &inner_next);
        const bool is_own = !begun || (own != NULL && its == NULL);
        if (!begun && own == NULL && word[0] != '-') {
            begun = true;
            inner = fy_verb_find(word);
        } else {
            rest = rest || (begun && strcmp(word, "--") == 0);
        }
        for (int n = 1 + (is_own ? next : inner_next); n > 0 && i < *argc; n--, i++) {
            if (is_own)
                argv[kept++] = argv[i];
            else if (fy_opt_list_add((void *)((char *)c->o + c->v->words), argv[i], e) != 0)
                return -1;
        }
    }
    *argc = kept;
    return 0;
}
#endif

/* Says what to type in place of an option of another program. */
static int check_foreign(const fy_verb *v, int argc, char **argv, fy_err *e)
{
    for (int i = 0; i < argc; i++) {
        bool next;
        if (strcmp(argv[i], "--") == 0 || strcmp(argv[i], "-h") == 0 ||
            strcmp(argv[i], "--help") == 0)
            break;
        const bool ours = fy_opts_find(v->opts, v->n_opts, argv[i], &next) != NULL;
        const char *text = ours ? NULL : fy_foreign_option(v->name, argv[i]);
        if (text != NULL)
            return fy_fail(e, FY_EARG, "%.*s: %s", (int)strcspn(argv[i], "="), argv[i], text);
        i += next;
    }
    return 0;
}

static int parse(fy_call *c, int argc, char **argv, fy_err *e)
{
    const fy_verb *v = c->v;
    if (check_foreign(v, argc, argv, e) != 0 ||
        fy_opts_parse_from(v->opts, v->n_opts, c->o, argc, argv, &c->n_args, &c->help, c->from,
                           e) != 0)
        return -1;
    c->args = argv;
    if (c->help)
        return 0;
    if (check_arg_count(v, c->n_args, e) != 0 || fy_model_arg_take(c, e) != 0 ||
        fy_settings_read(&c->settings, v, e) != 0)
        return -1;
    return fy_opts_fill(v->opts, v->n_opts, c->o, c->settings.given, c->settings.n, c->from, e);
}

/* --- the call --- */

int fy_call_open(fy_call *c, const fy_verb *v, int argc, char **argv, fy_err *e)
{
    *c = (fy_call){.v = v,
                   .o = calloc(1, v->opts_bytes > 0 ? v->opts_bytes : 1),
                   .from = calloc(v->n_opts + 1, sizeof *c->from)};
    if (c->o == NULL || c->from == NULL)
        return fy_nomem(e);
    if (v->borrow != NULL && take_borrowed(c, &argc, argv, e) != 0)
        return -1;
#ifndef FERRY_DEVICE
    if (v->words > 0 && take_words(c, &argc, argv, e) != 0)
        return -1;
#endif
    return parse(c, argc, argv, e);
}

void fy_call_close(fy_call *c)
{
    if (c->o != NULL) {
        fy_opts_release(c->v->opts, c->v->n_opts, c->o);
        for (const fy_borrow *b = c->v->borrow; b != NULL && b->verb != NULL; b++)
            fy_opt_list_release((fy_opt_list *)(void *)((char *)c->o + b->offset));
        if (c->v->words > 0)
            fy_opt_list_release((fy_opt_list *)(void *)((char *)c->o + c->v->words));
    }
    fy_settings_release(&c->settings);
    free(c->model_path);
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

/* What -v prints before the verb starts. */
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

/* llama.cpp's seed is -s; here it names a phone. */
static void name_seed(const fy_call *c, const char *serial, fy_err *e)
{
    if (serial != NULL && *serial != '\0' && strspn(serial, "0123456789") == strlen(serial) &&
        field_of(c, FY_OPT_STR, "seed") != NULL)
        fy_ctx(e, "-s %s is a phone's serial number (the seed is --seed %s)", serial, serial);
}

static int g_depth; /* of calls that run */

void fy_say_next(fy_str *command)
{
    if (g_depth == 1 && !command->oom && fy_terminal(STDERR_FILENO))
        fy_log(FY_LOG_INFO, "next: %s", fy_str_z(command));
    fy_str_release(command);
}

int fy_call_run(fy_call *c, int *status, fy_err *e)
{
    const char *serial;
    bool remote = fy_call_is_remote(c, &serial);
    fy_log_level before = fy_log_show(flag_is_set(c, "quiet")     ? FY_LOG_WARN
                                      : flag_is_set(c, "verbose") ? FY_LOG_DEBUG
                                                                  : FY_LOG_INFO);
    *status = 0;
    report_settings(c);
    fy_settings_source outer = fy_settings_publish((fy_settings_source){c->v, c->o, c->from});
    g_depth++;
    int rc = fy_model_arg_settle(c, remote, e) != 0 ? -1
             : remote ? fy_program_now()->run_on_phone(c, serial, status, e)
                      : c->v->run(c->o, c->n_args, c->args, e);
    if (rc != 0 && remote)
        name_seed(c, serial, e);
    g_depth--;
    fy_settings_publish(outer);
    fy_log_show(before);
    return rc;
}
