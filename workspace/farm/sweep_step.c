/* Runs one step of a sweep, or finds that it is done. */
#include "workspace/farm/sweep_step.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "format/write_journal.h"
#include "workspace/farm/farm.h"

#define RECORD "record.json"

int fy_sweep_steps_init(fy_sweep_steps *all, const fy_opt_list *farm, fy_err *e)
{
    *all = (fy_sweep_steps){.exe = realpath("/proc/self/exe", NULL), .farm = farm};
    if (all->exe == NULL)
        return fy_fail_errno(e, "this program is no longer where it was started");
    return fy_identity_program(&all->program, FY_IDENTITY_ANYWHERE, e);
}

void fy_sweep_steps_release(fy_sweep_steps *all)
{
    free(all->exe);
    fy_str_release(&all->program);
}

/* --- words and key ---------------------------------------------------------------------------- */

void fy_sweep_step_init(fy_sweep_step *s, const fy_sweep_steps *all, const char *verb,
                        const char *dir, const char *name)
{
    *s = (fy_sweep_step){.verb = verb};
    s->dir = fy_path_format(&s->err, "%s/%s", dir, name);
    fy_str_add(&s->key, all->program.ptr, all->program.len);
    fy_str_printf(&s->key, "verb %s\n", verb);
}

void fy_sweep_step_release(fy_sweep_step *s)
{
    free(s->dir);
    fy_str_release(&s->words);
    fy_str_release(&s->key);
}

void fy_sweep_step_path(fy_sweep_step *s, const char *path)
{
    fy_str_add(&s->words, path, strlen(path) + 1);
}

void fy_sweep_step_word(fy_sweep_step *s, const char *word)
{
    fy_str_printf(&s->key, "word %zu %s\n", strlen(word), word);
    fy_sweep_step_path(s, word);
}

void fy_sweep_step_after(fy_sweep_step *s, const char key[FY_SHA256_HEX])
{
    fy_str_printf(&s->key, "after %s\n", key);
}

/* All bytes of a file up to 64 MiB, samples of a larger one. */
static int add_file(fy_sweep_step *s, const char *path, fy_err *e)
{
    enum { WHOLE = 64 << 20 };
    struct stat st;
    char hex[FY_SHA256_HEX];
    if (stat(path, &st) != 0)
        return fy_fail_errno(e, "%s", path);
    if (st.st_size > WHOLE)
        return fy_identity_file(&s->key, FY_IDENTITY_ANYWHERE, "input", path, e);
    if (fy_file_sha256(path, hex, e) != 0)
        return -1;
    const fy_span base = fy_path_base(path);
    fy_str_printf(&s->key, "input %zu %.*s %s\n", base.len, (int)base.len, base.ptr, hex);
    return 0;
}

static int is_shown(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static int add_dir(fy_sweep_step *s, const char *dir, fy_err *e)
{
    struct dirent **names = NULL;
    const int n = scandir(dir, &names, is_shown, alphasort);
    int rc = n < 0 ? fy_fail_errno(e, "%s", dir) : 0;
    for (int i = 0; i < n; i++) {
        char *path = rc == 0 ? fy_path_join(dir, names[i]->d_name) : NULL;
        if (rc == 0 && path == NULL)
            rc = fy_nomem(e);
        if (rc == 0 && !fy_file_is_dir(path))
            rc = add_file(s, path, e);
        free(path);
        free(names[i]);
    }
    free(names);
    return rc;
}

void fy_sweep_step_input(fy_sweep_step *s, const char *path)
{
    if (s->err.code == FY_OK && (fy_file_is_dir(path) ? add_dir : add_file)(s, path, &s->err) != 0)
        fy_str_puts(&s->key, "input that cannot be read\n");
}

void fy_sweep_step_options(fy_sweep_step *s, const fy_opt_list *words)
{
    for (size_t i = 0; i < words->n; i++) {
        const char *word = words->items[i], *equals = strchr(word, '=');
        const char *value = word[0] == '-' && equals != NULL ? equals + 1 : word;
        fy_sweep_step_word(s, word);
        if (fy_file_exists(value))
            fy_sweep_step_input(s, value);
    }
}

static int key_of(const fy_sweep_step *s, char key[FY_SHA256_HEX], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    if (s->key.oom || s->words.oom)
        return fy_nomem(e);
    if (fy_sha256_of(s->key.ptr, s->key.len, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, key);
    return 0;
}

/* --- the record ------------------------------------------------------------------------------- */

typedef enum { ABSENT, OTHER, BEGUN, DONE } record_state;

/* What a record is there shows whose the directory is. */
static int read_record(const char *path, const char *key, record_state *state, json_t **printed,
                       fy_err *e)
{
    *state = ABSENT;
    if (!fy_file_exists(path))
        return 0;
    json_t *top = fy_json_data_file(path, e);
    const char *was = json_string_value(json_object_get(top, "key"));
    if (was == NULL) {
        fy_fail(e, FY_EFORMAT, "%s: is not of a sweep, expected another \"out\"", path);
    } else {
        *state = strcmp(was, key) != 0                        ? OTHER
                 : json_is_true(json_object_get(top, "done")) ? DONE
                                                              : BEGUN;
        if (*state == DONE && printed != NULL)
            *printed = json_incref(json_object_get(top, "printed"));
    }
    const int rc = was != NULL ? 0 : -1;
    json_decref(top);
    return rc;
}

static int write_record(const char *path, const char *key, bool done, json_t *printed, fy_err *e)
{
    fy_json_maker m = {0};
    fy_str text = {0};
    json_t *top = json_object();
    fy_make_set(&m, top, "key", json_string(key));
    fy_make_set(&m, top, "done", json_boolean(done));
    fy_make_set(&m, top, "printed", printed != NULL ? json_incref(printed) : json_null());
    const int rc =
        fy_make_end(&m, top, &text, e) == 0 && fy_file_write(path, text.ptr, text.len, e) == 0 ? 0
                                                                                               : -1;
    fy_str_release(&text);
    return rc;
}

/* --- the process ------------------------------------------------------------------------------ */

static const char **argv_of(const fy_sweep_step *s, const fy_sweep_steps *all)
{
    const bool farm = all->farm->n > 0 && fy_farm_has_parts(fy_verb_find(s->verb));
    size_t n = 0, n_words = 0;
    for (size_t i = 0; i < s->words.len; i++)
        n_words += s->words.ptr[i] == '\0';
    const char **argv = calloc(n_words + all->farm->n + 6, sizeof *argv);
    if (argv == NULL)
        return NULL;
    argv[n++] = all->exe;
    if (farm) {
        argv[n++] = "farm";
        argv[n++] = "-q";
        for (size_t i = 0; i < all->farm->n; i++)
            argv[n++] = all->farm->items[i];
    }
    argv[n++] = s->verb;
    argv[n++] = "-q";
    for (const char *p = s->words.ptr; n_words > 0; n_words--, p += strlen(p) + 1)
        argv[n++] = p;
    return argv;
}

/* 0: it ended with `also` or 0. 1: it failed. */
static int run_verb(const fy_sweep_step *s, const fy_sweep_steps *all, int also, json_t **printed,
                    int *status, char **why, fy_err *e)
{
    enum { MOST = 16 << 20 };
    fy_str out = {0}, err = {0};
    const char **argv = argv_of(s, all);
    int rc =
        argv == NULL ? fy_nomem(e) : fy_child_run(argv, NULL, false, MOST, &out, &err, status, e);
    free(argv);
    if (rc == 0 && *status != 0 && *status != also) {
        const fy_span last = fy_farm_last_line((fy_span){fy_str_z(&err), err.len});
        fy_str text = {0};
        fy_str_put_quoted(&text, last, SIZE_MAX);
        if (last.len == 0)
            fy_str_printf(&text, "ferry %s ended with status %d and no message", s->verb, *status);
        if (text.oom)
            fy_str_release(&text);
        *why = text.ptr;
        rc = *why != NULL ? 1 : fy_nomem(e);
    } else if (rc == 0) {
        if (*status == 0 && err.len > 0)
            fy_stderr(err.ptr, err.len, NULL); /* warnings */
    }
    if (rc == 0 && out.len > 0) {
        *printed = fy_json_data((fy_span){out.ptr, out.len}, e);
        rc = *printed != NULL ? 0 : fy_ctx(e, "what ferry %s printed", s->verb);
    }
    fy_str_release(&out);
    fy_str_release(&err);
    return rc;
}

static int make(fy_sweep_step *s, fy_sweep_steps *all, const char *record, const char *key,
                int also, json_t **printed, int *status, char **why, fy_err *e)
{
    json_t *text = NULL;
    if (fy_mkdirs(s->dir, e) != 0 || write_record(record, key, false, NULL, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s: ferry %s", s->dir, s->verb);
    int rc = run_verb(s, all, also, &text, status, why, e);
    if (rc == 0)
        rc = write_record(record, key, true, text, e);
    if (rc == 0 && printed != NULL)
        *printed = json_incref(text);
    json_decref(text);
    all->n_made += rc == 0;
    return rc;
}

int fy_sweep_step_run(fy_sweep_step *s, fy_sweep_steps *all, const char *product, int also,
                      char key[FY_SHA256_HEX], json_t **printed, int *status, char **why, fy_err *e)
{
    if (s->err.code != FY_OK)
        return fy_fail(e, s->err.code, "%s", s->err.msg);
    char *record = fy_path_join(s->dir, RECORD);
    record_state state = ABSENT;
    int rc = record != NULL ? key_of(s, key, e) : fy_nomem(e);
    if (rc == 0)
        rc = read_record(record, key, &state, printed, e);
    if (rc == 0 && state == OTHER)
        rc = fy_tree_remove(s->dir) != 0 ? fy_fail_errno(e, "%s", s->dir) : 0;
    if (rc == 0 && state == BEGUN && product != NULL)
        rc = fy_tree_remove(product) != 0 ? fy_fail_errno(e, "%s", product) : 0;
    if (rc == 0 && state == DONE)
        all->n_there++;
    else if (rc == 0)
        rc = make(s, all, record, key, also, printed, status, why, e);
    free(record);
    return rc;
}
