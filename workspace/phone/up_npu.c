/* The step of `ferry up` that makes context binaries of a model: it is cut for the chip, and the
 * chunks are compiled. The cut is as large as the model and goes once it is compiled. */
#include "workspace/phone/up_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_lib.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "workspace/npu/npu_recipe.h"
#include "workspace/phone/up_cache.h"

#define STEP "compile"

/* --- the calls -------------------------------------------------------------------------------- */

/* The recipe for a model that nothing calibrates; `out` is left empty where something does, or the
 * user chooses. */
static int choose_recipe(const fy_up_job *j, const fy_call *chunk, const fy_call *compile,
                         fy_str *out, fy_err *e)
{
    if (fy_up_text_option(chunk, "recipe") != NULL ||
        fy_up_text_option(compile, "calibration") != NULL ||
        fy_up_text_option(compile, "ranges") != NULL)
        return 0;
    fy_soc_table *socs = fy_soc_table_open(NULL, e);
    const fy_soc *soc = socs != NULL ? fy_soc_find(socs, j->o->soc, e) : NULL;
    fy_npu_recipes *recipes = soc != NULL ? fy_npu_recipes_open(e) : NULL;
    if (recipes != NULL)
        fy_str_puts(out, fy_npu_recipes_default(recipes, soc, false)->name);
    const int rc = recipes == NULL ? -1 : out->oom ? fy_nomem(e) : 0;
    fy_npu_recipes_free(recipes);
    fy_soc_table_free(socs);
    return rc;
}

/* The largest of "128,1", which chunk checks. */
static unsigned long largest_batch(const char *text)
{
    unsigned long most = 0;
    for (char *end; text != NULL && *text != '\0'; text = *end == ',' ? end + 1 : "") {
        const unsigned long n = strtoul(text, &end, 10);
        most = n > most ? n : most;
    }
    return most;
}

/* A chat of N positions needs columns for a call after the cache. */
static int put_context(const fy_up_job *j, fy_up_call *chunk, fy_err *e)
{
    fy_up_call chat = {0};
    char text[32];
    fy_up_put_list(&chat, &j->o->chat);
    int rc = fy_up_open_call(&chat, "chat", e);
    for (size_t i = 0; rc == 0 && i < chat.call.v->n_opts; i++) {
        const fy_opt *o = &chat.call.v->opts[i];
        if (strcmp(o->name, "ctx-size") != 0 || chat.call.from[i] == NULL)
            continue;
        const int64_t n = *(const int64_t *)((const char *)chat.call.o + o->offset);
        snprintf(text, sizeof text, "%llu",
                 (unsigned long long)n + largest_batch(fy_up_text_option(&chunk->call, "batch")));
        fy_up_put_value(chunk, "ctx-size", text);
    }
    fy_up_release_call(&chat);
    return rc;
}

typedef struct {
    fy_up_call chunk, compile;
} calls;

static void release_calls(calls *c)
{
    fy_up_release_call(&c->chunk);
    fy_up_release_call(&c->compile);
}

/* cut, out NULL: to look at the options only. */
static int open_calls(const fy_up_job *j, const char *cut, const char *out, calls *c, fy_err *e)
{
    fy_str recipe = {0};
    *c = (calls){0};
    fy_up_put_level(&c->compile, j);
    fy_up_put_list(&c->compile, &j->o->compile);
    fy_up_put_value(&c->compile, "sdk", j->o->sdk);
    if (out != NULL)
        fy_up_put_value(&c->compile, "output", out);
    fy_up_put(&c->compile, "--");
    fy_up_put(&c->compile, cut != NULL ? cut : "cut");
    int rc = fy_up_open_call(&c->compile, "compile", e);

    fy_up_put(&c->chunk, j->gguf); /* a path from the root: not an option */
    fy_up_put_level(&c->chunk, j);
    fy_up_put_list(&c->chunk, &j->o->chunk);
    fy_up_put_value(&c->chunk, "soc", j->o->soc);
    if (j->o->recipe != NULL)
        fy_up_put_value(&c->chunk, "recipe", j->o->recipe);
    if (rc == 0)
        rc = fy_up_open_call(&c->chunk, "chunk", e); /* its batches and recipe */
    if (rc == 0)
        rc = choose_recipe(j, &c->chunk.call, &c->compile.call, &recipe, e);
    if (rc == 0)
        rc = put_context(j, &c->chunk, e);
    if (recipe.len > 0)
        fy_up_put_value(&c->chunk, "recipe", recipe.ptr);
    if (cut != NULL)
        fy_up_put_value(&c->chunk, "output", cut);
    if (rc == 0)
        rc = fy_up_open_call(&c->chunk, "chunk", e);
    fy_str_release(&recipe);
    return rc;
}

/* --- the step --------------------------------------------------------------------------------- */

/* Of the model, both calls, and the library. */
static int make_key(const fy_up_job *j, char hex[FY_SHA256_HEX], fy_err *e)
{
    calls c;
    fy_str key = {0}, library = {0};
    fy_up_key_add(&key, "step", STEP);
    fy_up_key_add(&key, "program", j->program);
    fy_up_key_add(&key, "model", j->model_key);
    int rc = open_calls(j, NULL, NULL, &c, e);
    if (rc == 0)
        rc = fy_qnn_find(j->o->sdk, &library, e);
    if (rc == 0)
        rc = fy_up_key_add_file(&key, j->cache, "library", library.ptr, e);
    if (rc == 0)
        rc = fy_up_key_add_call(&key, j->cache, &c.chunk.call, "threads|quiet|verbose", e);
    if (rc == 0)
        rc = fy_up_key_add_call(&key, j->cache, &c.compile.call, "sdk|memory|quiet|verbose", e);
    if (rc == 0)
        rc = fy_up_key_end(&key, hex, e);
    fy_str_release(&library);
    fy_str_release(&key);
    release_calls(&c);
    return rc;
}

static int make(const fy_up_job *j, const char *key, const char *cut, fy_err *e)
{
    calls c;
    char hex[FY_SHA256_HEX];
    int status, rc = open_calls(j, cut, j->compiled, &c, e);
    if (rc == 0)
        rc = fy_up_run_call(&c.chunk, &status, e);
    if (rc == 0)
        rc = fy_up_run_call(&c.compile, &status, e);
    release_calls(&c);
    if (rc == 0)
        rc = fy_up_hash(j, j->compiled, "reading", hex, e);
    if (rc == 0)
        rc = fy_up_record_made(j, STEP, key, j->compiled, hex, e);
    if (rc == 0)
        fy_tree_remove(cut);
    return rc;
}

/* Unfinished work is resumed, a result that was changed is made from the beginning. */
static int make_again(const fy_up_job *j, const char *key, fy_err *e)
{
    char was[FY_SHA256_HEX];
    char *dir = fy_up_cache_path(j, STEP, key, NULL, e);
    char *cut = dir != NULL ? fy_path_join(dir, "cut") : NULL;
    int rc = dir == NULL ? -1 : cut == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && (rc = fy_up_recorded(j, STEP, key, j->compiled, was, e)) == 1)
        rc = fy_file_exists(dir) ? fy_tree_remove(dir) : 0;
    if (rc == 0)
        rc = fy_mkdirs(dir, e);
    if (rc == 0)
        rc = make(j, key, cut, e);
    free(cut);
    free(dir);
    return rc;
}

int fy_up_compile(fy_up_job *j, fy_err *e)
{
    char key[FY_SHA256_HEX];
    if (j->o->sdk == NULL)
        return 0;
    if (make_key(j, key, e) != 0)
        return -1;
    j->compiled = fy_up_cache_path(j, STEP, key, "compiled", e);
    const int there = j->compiled != NULL ? fy_up_is_there(j, STEP, key, j->compiled, e) : -1;
    if (there < 0)
        return -1;
    memcpy(j->model_key, key, sizeof key);
    if (there)
        return fy_up_say(j, STEP, "skipped: %s was made of this model with these options",
                         j->compiled);
    j->missing |= j->o->dry_run;
    if (j->o->dry_run)
        return fy_up_say(j, STEP, "cuts %s for %s, and makes %s", j->gguf, j->o->soc, j->compiled);
    return make_again(j, key, e);
}

static int check_chip(const fy_up_options *o, fy_err *e)
{
    fy_str library = {0};
    if (o->soc == NULL)
        return fy_fail(e, FY_EARG,
                       "--sdk: for which chip? Name it with --soc ('ferry plan --list-socs' has "
                       "the names)");
    fy_soc_table *t = fy_soc_table_open(NULL, e);
    int rc = t != NULL && fy_soc_find(t, o->soc, e) != NULL ? fy_qnn_find(o->sdk, &library, e) : -1;
    fy_str_release(&library);
    fy_soc_table_free(t);
    return rc;
}

int fy_up_check_npu(const fy_up_options *o, fy_err *e)
{
    const fy_opt_list *lists[] = {&o->compile, &o->chunk};
    if (o->sdk != NULL)
        return check_chip(o, e);
    if (o->to == FY_UP_COMPILE)
        return fy_fail(e, FY_EARG, "--to compile: with what? --sdk DIR names the QNN library");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (lists[i]->n > 0)
            return fy_fail(e, FY_EARG,
                           "%s: is for a model that is compiled; --sdk DIR names the QNN library "
                           "that does it",
                           lists[i]->items[0]);
    }
    return 0;
}

/* --- libraries for the phone ------------------------------------------------------------------ */

#define LIBRARY "libQnnHtp.so"

/* An SDK has them, packages for PCs have not. */
static int has_libraries(const char *sdk, bool *has, fy_err *e)
{
    char *path = fy_path_join(sdk, "lib/aarch64-android/" LIBRARY);
    *has = path != NULL && fy_file_exists(path);
    free(path);
    return path != NULL ? 0 : fy_nomem(e);
}

int fy_up_put_libraries(const fy_up_job *j, fy_up_call *create, fy_err *e)
{
    const char *root = getenv("QNN_SDK_ROOT");
    bool has;
    if (fy_up_open_call(create, "create", e) != 0 || has_libraries(j->o->sdk, &has, e) != 0)
        return -1;
    if (fy_up_text_option(&create->call, "qnn-libs") != NULL)
        return 0;
    if (has)
        fy_up_put_value(create, "qnn-libs", j->o->sdk);
    else if (root != NULL && root[0] != '\0')
        fy_up_put_value(create, "soc", j->o->soc);
    return 0;
}

int fy_up_add_libraries(const fy_up_job *j, fy_str *key, const fy_call *create, fy_err *e)
{
    static const char *const places[] = {"lib/aarch64-android/" LIBRARY, LIBRARY};
    const char *dir = fy_up_text_option(create, "qnn-libs");
    int rc = 0;
    if (dir == NULL)
        return 0;
    fy_up_key_add(key, "qnn-libs", dir);
    for (size_t i = 0; rc == 0 && i < sizeof places / sizeof places[0]; i++) {
        fy_str path = {0};
        fy_str_printf(&path, "%s/%s", dir, places[i]);
        rc = path.oom                   ? fy_nomem(e)
             : fy_file_exists(path.ptr) ? fy_up_key_add_file(key, j->cache, "library", path.ptr, e)
                                        : 0;
        fy_str_release(&path);
    }
    return rc;
}
