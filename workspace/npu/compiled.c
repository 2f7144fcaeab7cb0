/* Compiled models against their descriptions. */
#include "workspace/npu/compiled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/qnn/qnn_graph.h"
#include "base/file.h"
#include "base/names.h"

/* --- descriptions ----------------------------------------------------------------------------- */

static const fy_qnn_config_graph *graph_at(const fy_qnn_config *c, size_t i)
{
    return i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
}

static int read_one(const char *qnn, const char *name, fy_compiled_binary *each, void *user,
                    fy_err *e)
{
    fy_qnn_sidecar s;
    fy_map map;
    fy_str rel = {0};
    fy_qnn_sidecar_path(name, &rel);
    int rc = rel.oom ? fy_nomem(e) : fy_map_open_in(&map, qnn, rel.ptr, e);
    if (rc == 0) {
        rc = fy_qnn_sidecar_parse(map.data, map.size, &s, e);
        fy_map_close(&map);
        if (rc != 0)
            fy_ctx(e, "%s", rel.ptr);
    }
    if (rc == 0) {
        rc = each(user, name, &s, e);
        fy_qnn_sidecar_release(&s);
    }
    fy_str_release(&rel);
    return rc;
}

int fy_compiled_each(const char *qnn, const fy_qnn_config *c, fy_compiled_binary *each, void *user,
                     fy_err *e)
{
    fy_names seen = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && c->own.compiled.arch > 0 && i < c->n_graphs + c->n_embeddings;
         i++) {
        const char *name = graph_at(c, i)->model_path;
        const int added = fy_names_add(&seen, fy_span_of(name), 0);
        if (added < 0)
            rc = fy_nomem(e);
        else if (added == 0)
            rc = read_one(qnn, name, each, user, e);
        if (rc == 0)
            rc = fy_check_interrupt(e);
    }
    fy_names_release(&seen);
    return rc;
}

/* --- a binary --------------------------------------------------------------------------------- */

#define AGAIN "; 'ferry compile' makes it again"

typedef struct {
    const char *qnn;
    const fy_qnn_config *c;
} checked;

static int check_origin(const fy_qnn_own *own, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    const fy_qnn_compiled *to = &own->compiled;
    char soc[FY_QUOTE_BYTES], recipe[FY_QUOTE_BYTES];
    if (strcmp(s->model, own->model) != 0)
        return fy_fail(
            e, FY_EVERIFY,
            "%s: is of model %.12s..., expected %.12s... (ferry.model of " FY_QNN_CONFIG_NAME
            ")" AGAIN,
            name, s->model, own->model);
    if (strcmp(s->soc, to->soc) == 0 && s->arch == to->arch && s->vtcm_mb == to->vtcm_mb &&
        strcmp(s->recipe, to->recipe) == 0)
        return 0;
    return fy_fail(e, FY_EVERIFY,
                   "%s: is compiled for %s (V%u, %u MB of VTCM) with recipe %s, " FY_QNN_CONFIG_NAME
                   " says %s (V%u, %u MB), %s" AGAIN,
                   name, fy_quote(soc, sizeof soc, fy_span_of(s->soc)), s->arch, s->vtcm_mb,
                   fy_quote(recipe, sizeof recipe, fy_span_of(s->recipe)), to->soc, to->arch,
                   to->vtcm_mb, to->recipe);
}

static int check_size(const char *qnn, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    struct stat st;
    char *path = fy_path_join(qnn, name);
    const int rc =
        path == NULL           ? fy_nomem(e)
        : stat(path, &st) != 0 ? fy_fail_errno(e, "%s: cannot read its size", name)
        : (uint64_t)st.st_size != s->bytes
            ? fy_fail(e, FY_EVERIFY, "%s: %llu bytes, but its description says %llu" AGAIN, name,
                      (unsigned long long)st.st_size, (unsigned long long)s->bytes)
            : 0;
    free(path);
    return rc;
}

static const fy_qnn_sidecar_tensor *find_tensor(const fy_qnn_sidecar_graph *g, const char *name,
                                                bool output)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].output == output && strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    }
    return NULL;
}

/* Caches and masks have the types that config.json gives. */
static int check_types(const fy_qnn_compiled *to, const fy_qnn_sidecar_graph *g, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_qnn_sidecar_tensor *t = &g->tensors[i];
        const fy_span name = fy_span_of(t->name);
        const char *expected = fy_span_begins(name, "layer_")      ? to->kv
                               : fy_span_begins(name, "attn_bias") ? to->mask
                                                                   : NULL;
        if (expected != NULL && strcmp(fy_qnn_type_name(t->type), expected) != 0)
            return fy_fail(e, FY_EVERIFY, "'%s' is %s, " FY_QNN_CONFIG_NAME " says %s" AGAIN,
                           fy_quote(shown, sizeof shown, name), fy_qnn_type_name(t->type),
                           expected);
    }
    return 0;
}

static int check_graph(const fy_qnn_compiled *to, const fy_qnn_config_graph *g,
                       const fy_qnn_sidecar *s, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const fy_qnn_sidecar_graph *found = NULL;
    for (size_t i = 0; i < s->n_graphs; i++) {
        if (strcmp(s->graphs[i].name, g->graph_name) == 0)
            found = &s->graphs[i];
    }
    if (found == NULL || found->n_batch != g->batch_size)
        return fy_fail(e, FY_EVERIFY,
                       "has no graph of this name and batch %u, which " FY_QNN_CONFIG_NAME
                       " names" AGAIN,
                       g->batch_size);
    if (find_tensor(found, g->x_name, false) == NULL)
        return fy_fail(e, FY_EVERIFY, "has no input '%s', which " FY_QNN_CONFIG_NAME " names" AGAIN,
                       fy_quote(shown, sizeof shown, fy_span_of(g->x_name)));
    if (find_tensor(found, g->out_name, true) == NULL)
        return fy_fail(e, FY_EVERIFY,
                       "has no output '%s', which " FY_QNN_CONFIG_NAME " names" AGAIN,
                       fy_quote(shown, sizeof shown, fy_span_of(g->out_name)));
    return check_types(to, found, e);
}

static int check_binary(void *user, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    const checked *k = user;
    char shown[FY_QUOTE_BYTES];
    if (check_origin(&k->c->own, name, s, e) != 0 || check_size(k->qnn, name, s, e) != 0)
        return -1;
    for (size_t i = 0; i < k->c->n_graphs + k->c->n_embeddings; i++) {
        const fy_qnn_config_graph *g = graph_at(k->c, i);
        if (strcmp(g->model_path, name) == 0 && check_graph(&k->c->own.compiled, g, s, e) != 0)
            return fy_ctx(e, "%s: graph '%s'", name,
                          fy_quote(shown, sizeof shown, fy_span_of(g->graph_name)));
    }
    return 0;
}

int fy_compiled_check(const char *qnn, const fy_qnn_config *c, fy_err *e)
{
    checked k = {qnn, c};
    return fy_compiled_each(qnn, c, check_binary, &k, e);
}

int fy_compiled_check_hash(const fy_qnn_sidecar *s, const char *sha256, fy_err *e)
{
    return strcmp(s->sha256, sha256) == 0
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         "has the SHA-256 %.12s..., but its description says %.12s...: it was "
                         "changed" AGAIN,
                         sha256, s->sha256);
}

/* --- releases --------------------------------------------------------------------------------- */

enum { DATE_DIGITS = 6 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int keep_newest(void *user, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    fy_qnn_release *newest = user, r;
    fy_span text = fy_span_of(s->build_id);
    (void)name;
    (void)e;
    if (fy_qnn_release_take(&text, &r) && fy_qnn_is_newer(&r, newest))
        *newest = r;
    return 0;
}

int fy_compiled_release(const char *qnn, const fy_qnn_config *c, fy_qnn_release *out, fy_err *e)
{
    *out = (fy_qnn_release){0};
    return fy_compiled_each(qnn, c, keep_newest, out, e);
}

/* Is it a build number with its date? */
static bool is_build_number(fy_span s, fy_qnn_release *out)
{
    fy_qnn_release r;
    size_t n = 0;
    if (!fy_qnn_release_take(&s, &r))
        return false;
    while (n < s.len && is_digit(s.ptr[n]))
        n++;
    if (n < DATE_DIGITS)
        return false;
    *out = r;
    return true;
}

int fy_qnn_release_of_file(const char *library, fy_qnn_release *out, fy_err *e)
{
    fy_map map;
    *out = (fy_qnn_release){0};
    if (fy_map_open(&map, library, e) != 0)
        return -1;
    const char *p = (const char *)map.data, *end = p + map.size;
    /* a text of its own begins after a NUL */
    while (p != NULL && end - p > 1 && (p = memchr(p + 1, 'v', (size_t)(end - p) - 1)) != NULL) {
        if (p[-1] == '\0' && is_build_number((fy_span){p, (size_t)(end - p)}, out))
            break;
    }
    fy_map_close(&map);
    return 0;
}

int fy_compiled_check_library(const char *qnn, const fy_qnn_config *c, const char *library,
                              fy_err *e)
{
    fy_qnn_release made, has;
    if (fy_compiled_release(qnn, c, &made, e) != 0 || fy_qnn_release_of_file(library, &has, e) != 0)
        return -1;
    if (has.major == 0 || !fy_qnn_is_newer(&made, &has))
        return 0;
    return fy_fail(e, FY_EVERIFY,
                   "is of SDK %u.%u, but the model was compiled with %u.%u, whose binaries older "
                   "libraries do not read; take the libraries of SDK %u.%u or newer, or compile "
                   "the model with %u.%u",
                   has.major, has.minor, made.major, made.minor, made.major, made.minor, has.major,
                   has.minor);
}
