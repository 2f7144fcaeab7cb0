/* Settles the model of a call (model_arg.h): the first argument, names of the hub, directories. */
#include "cli/model_arg.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/terminal.h"
#include "cli/verb.h"

static const char **text_field(const fy_call *c, size_t offset)
{
    return (const char **)(void *)((char *)c->o + offset);
}

static const char *text_of(const fy_call *c, size_t offset)
{
    return offset > 0 ? *text_field(c, offset) : NULL;
}

/* --- the first argument ----------------------------------------------------------------------- */

static size_t row_at(const fy_verb *v, size_t offset)
{
    size_t i = 0;
    while (i < v->n_opts && (v->opts[i].kind != FY_OPT_STR || v->opts[i].offset != offset))
        i++;
    return i;
}

static bool is_on_line(const fy_call *c)
{
    for (size_t i = 0; i < c->v->n_opts; i++) {
        const char *set = c->v->opts[i].set;
        if (set != NULL && strcmp(set, "model") == 0 && c->from[i] != NULL)
            return true;
    }
    return false;
}

int fy_model_arg_take(fy_call *c, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const fy_verb *v = c->v;
    if (v->model == NULL || !v->model->first_arg || c->n_args == 0)
        return 0;
    if (is_on_line(c))
        return c->n_args < v->max_args
                   ? 0
                   : fy_fail(e, FY_EARG, "too many arguments: an option names the model already; "
                                         "usage: ferry %s [options] %s",
                             v->name, v->synopsis);
    if (v->max_args > 1 && c->n_args == 1 && strpbrk(c->args[0], " \t\n?") != NULL &&
        !fy_file_exists(c->args[0]))
        return fy_fail(e, FY_EARG,
                       "'%s' is not a model; the question comes after it: ferry %s MODEL 'QUESTION'",
                       fy_quote(q, sizeof q, fy_span_of(c->args[0])), v->name);
    *text_field(c, v->model->model) = c->args[0];
    c->from[row_at(v, v->model->model)] = "command line";
    c->args++;
    c->n_args--;
    return 0;
}

/* --- names of the hub ------------------------------------------------------------------------- */

static bool is_workspace(const char *dir)
{
    return fy_dir_has(dir, FY_BUNDLE_WORKSPACE_JSON);
}

/* A cut model, or the directory that a workspace has of a model. */
static bool is_model_dir(const char *dir)
{
    return fy_dir_has(dir, FY_BUNDLE_WEIGHTS);
}

static int ask_hub(fy_call *c, const char *text, bool is_name, bool remote, fy_err *e)
{
    const fy_model_slots *s = c->v->model;
    const bool fetch = s->fetch > 0 && *(const bool *)(const void *)((char *)c->o + s->fetch);
    const bool maybe_there = remote && !is_name && !fetch; /* a workspace on the phone */
    const fy_hub_want_model want = {.text = text,
                                    .is_name = is_name,
                                    .gguf_only = !s->checkpoint,
                                    .fetch = fetch,
                                    .may_ask = s->fetch > 0 && !maybe_there && fy_may_ask()};
    fy_err why = {0};
    if (fy_program_now()->hub_model(&want, &c->model_path, &why) == 0)
        return 0;
    if (maybe_there && why.code == FY_EIO)
        return 0;
    return fy_fail(e, why.code, "%s", why.msg);
}

static int check_name(const char *text, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const size_t n = fy_hub_id_bytes(text);
    if (n > 0 && memchr(text, '/', n) != NULL)
        return 0;
    return fy_fail(e, FY_EARG, "-hf '%s': expected ORG/NAME[:TYPE], a repository of the hub",
                   fy_quote(q, sizeof q, fy_span_of(text)));
}

/* --- what is there ---------------------------------------------------------------------------- */

/* Settings alone are not one: a cut model has a config.json, too. */
static bool is_checkpoint(const char *dir)
{
    static const char *const marks[] = {"params.json", "model.safetensors", "tokenizer.json",
                                        "model.safetensors.index.json", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (fy_dir_has(dir, marks[i]))
            return true;
    }
    return false;
}

/* Puts the path where the verb looks for it. given: what the user wrote. */
static int put_path(fy_call *c, const char *given, const char *path, fy_err *e)
{
    const fy_model_slots *s = c->v->model;
    const bool is_dir = fy_file_is_dir(path);
    *text_field(c, s->model) = path;
    if (is_dir && is_workspace(path)) {
        if (s->workspace > 0) {
            *text_field(c, s->workspace) = path;
            *text_field(c, s->model) = NULL;
        }
        return 0;
    }
    if (!is_dir || is_model_dir(path) || s->checkpoint || !is_checkpoint(path))
        return 0;
    return fy_fail(e, FY_EARG,
                   "%s: is a checkpoint, and %s takes a GGUF file; 'ferry convert %s --outtype "
                   "q8_0' makes one",
                   given, c->v->name, given);
}

int fy_model_arg_settle(fy_call *c, bool remote, fy_err *e)
{
    const fy_model_slots *s = c->v->model;
    char q[FY_QUOTE_BYTES];
    if (s == NULL)
        return 0;
    const char *model = *text_field(c, s->model), *dir = text_of(c, s->workspace),
               *name = text_of(c, s->hub), *text = name != NULL ? name : model;
    if ((model != NULL) + (dir != NULL) + (name != NULL) > 1)
        return fy_fail(e, FY_EARG, "two models: give one of -m%s and -hf",
                       s->workspace > 0 ? ", -d" : "");
    if (text == NULL)
        return 0;
    if (name != NULL && check_name(name, e) != 0)
        return -1;
    const bool is_dir = fy_file_is_dir(text) && !is_workspace(text) && !is_model_dir(text);
    if (fy_program_now()->hub_model != NULL &&
        (name != NULL || is_dir || fy_hub_id_is_meant(text)) &&
        ask_hub(c, text, name != NULL, remote, e) != 0)
        return -1;
    if (fy_program_now()->hub_model != NULL && !remote && c->model_path == NULL &&
        strchr(text, '/') == NULL && !fy_span_ends(fy_span_of(text), ".gguf") &&
        !fy_file_exists(text) && !fy_file_is_dir(text)) /* a name as ollama has it */
        return fy_fail(e, FY_EIO,
                       "%s: no such file or directory; 'ferry list' shows the models that are "
                       "here, 'ferry fetch ORG/NAME[:TYPE]' downloads one from the hub",
                       fy_quote(q, sizeof q, fy_span_of(text)));
    return put_path(c, text, c->model_path != NULL ? c->model_path : text, e);
}
