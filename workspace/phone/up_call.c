/* What the steps of `ferry up` share: messages, calls of verbs, and results that are remembered. */
#include "workspace/phone/up_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "workspace/phone/up_cache.h"

/* --- messages --------------------------------------------------------------------------------- */

int fy_up_say(const fy_up_job *j, const char *step, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!j->o->dry_run) {
        fy_log(FY_LOG_INFO, "%s: %s", step, text);
        return 0;
    }
    char *line = fy_path_format(NULL, "%s: %s\n", step, text);
    int rc = line != NULL ? fy_stdout(line, strlen(line), NULL) : -1;
    free(line);
    return rc;
}

/* --- calls of verbs --------------------------------------------------------------------------- */

void fy_up_put(fy_up_call *c, const char *word)
{
    char **grown = realloc(c->word, ((size_t)c->n + 1) * sizeof *grown);
    char *copy = strdup(word);
    c->word = grown != NULL ? grown : c->word;
    if (grown == NULL || copy == NULL) {
        c->oom = true;
        free(copy);
        return;
    }
    grown[c->n++] = copy;
}

void fy_up_put_value(fy_up_call *c, const char *name, const char *value)
{
    char *word = fy_path_format(NULL, "--%s=%s", name, value);
    fy_up_put(c, word != NULL ? word : "");
    c->oom |= word == NULL;
    free(word);
}

void fy_up_put_list(fy_up_call *c, const fy_opt_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        fy_up_put(c, l->items[i]);
}

void fy_up_put_level(fy_up_call *c, const fy_up_job *j)
{
    if (j->o->quiet || j->o->verbose)
        fy_up_put(c, j->o->quiet ? "--quiet" : "--verbose");
}

int fy_up_open_call(fy_up_call *c, const char *name, fy_err *e)
{
    const fy_verb *v = fy_verb_find(name);
    if (v == NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "this build has no verb '%s'", name);
    if (c->call.v != NULL)
        fy_call_close(&c->call);
    free(c->argv);
    c->argv = calloc((size_t)c->n + 1, sizeof *c->argv);
    if (c->oom || c->argv == NULL)
        return fy_nomem(e);
    for (int i = 0; i < c->n; i++)
        c->argv[i] = c->word[i];
    return fy_call_open(&c->call, v, c->n, c->argv, e) == 0 ? 0 : fy_ctx(e, "%s", name);
}

int fy_up_run_call(fy_up_call *c, int *status, fy_err *e)
{
    return fy_call_run(&c->call, status, e) == 0 ? 0 : fy_ctx(e, "%s", c->call.v->name);
}

void fy_up_release_call(fy_up_call *c)
{
    if (c->call.v != NULL)
        fy_call_close(&c->call);
    for (int i = 0; i < c->n; i++)
        free(c->word[i]);
    free(c->word);
    free(c->argv);
}

const char *fy_up_text_option(const fy_call *c, const char *name)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const fy_opt *o = &c->v->opts[i];
        const void *field = (const char *)c->o + o->offset;
        if (o->kind == FY_OPT_STR && !o->many && strcmp(o->name, name) == 0)
            return *(const char *const *)field;
    }
    return NULL;
}

/* --- results ---------------------------------------------------------------------------------- */

int fy_up_hash(const fy_up_job *j, const char *path, const char *what, char hex[FY_SHA256_HEX],
               fy_err *e)
{
    fy_progress progress;
    size_t n_read;
    fy_show_begin(&progress, what, 0);
    const bool checkpoint = strcmp(path, j->checkpoint) == 0;
    int rc = fy_up_source(j->cache, path, checkpoint, &progress, hex, &n_read, e);
    fy_show_end(&progress);
    if (rc == 0 && n_read > 0)
        fy_log(FY_LOG_DEBUG, "%s: read to know its contents", path);
    return rc;
}

char *fy_up_cache_path(const fy_up_job *j, const char *step, const char *key, const char *name,
                       fy_err *e)
{
    return fy_path_format(e, "%s/%s-%.16s%s%s", j->cache, step, key, name != NULL ? "/" : "",
                          name != NULL ? name : "");
}

int fy_up_recorded(const fy_up_job *j, const char *step, const char *key, const char *result,
                   char hex[FY_SHA256_HEX], fy_err *e)
{
    char *name = fy_up_cache_path(j, step, key, NULL, e);
    fy_up_record r;
    int rc = name != NULL ? fy_up_record_read(j->cache, name + strlen(j->cache) + 1, &r, e) : -1;
    if (rc == 1) {
        rc = strcmp(r.result, result) == 0;
        memcpy(hex, r.result_hash, FY_SHA256_HEX);
        fy_up_record_release(&r);
    }
    free(name);
    return rc;
}

int fy_up_record_made(const fy_up_job *j, const char *step, const char *key, const char *result,
                      const char *result_hash, fy_err *e)
{
    char *name = fy_up_cache_path(j, step, key, NULL, e);
    fy_up_record r = {.source = strdup(j->source), .result = strdup(result)};
    int rc = -1;
    memcpy(r.source_hash, j->source_hash, FY_SHA256_HEX);
    memcpy(r.result_hash, result_hash, FY_SHA256_HEX);
    if (name == NULL || r.source == NULL || r.result == NULL)
        fy_nomem(e);
    else
        rc = fy_up_record_write(j->cache, name + strlen(j->cache) + 1, &r, e);
    fy_up_record_release(&r);
    free(name);
    return rc;
}

int fy_up_is_there(const fy_up_job *j, const char *step, const char *key, const char *result,
                   fy_err *e)
{
    char was[FY_SHA256_HEX], is[FY_SHA256_HEX];
    int rc = fy_up_recorded(j, step, key, result, was, e);
    if (rc != 1 || !fy_file_exists(result))
        return rc < 0 ? -1 : 0;
    if (fy_up_hash(j, result, "reading", is, e) != 0)
        return -1;
    if (strcmp(was, is) != 0)
        fy_log(FY_LOG_WARN, "%s: was changed since it was made; made again", result);
    return strcmp(was, is) == 0;
}
