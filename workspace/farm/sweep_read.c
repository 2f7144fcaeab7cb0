/* Reads and checks the file of a sweep. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_rows.h"
#include "base/path.h"
#include "cli/verb.h"
#include "workspace/farm/sweep.h"
#include "workspace/npu/npu_recipe.h"
#include "workspace/npu/soc_table.h"

enum { MOST_BYTES = 1 << 20, MOST_ITEMS = 10000 };

const char *const fy_sweep_verbs[FY_SWEEP_VERBS] = {
    [FY_SWEEP_CONVERT] = "convert", [FY_SWEEP_QUANTIZE] = "quantize", [FY_SWEEP_EVAL] = "eval",
    [FY_SWEEP_PLAN] = "plan",       [FY_SWEEP_COMPILE] = "compile",   [FY_SWEEP_CREATE] = "create",
};

/* --- the text --------------------------------------------------------------------------------- */

/* A list of texts. */
static int take_list(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_opt_list *list = at;
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        fy_span s;
        if (fy_json_string(j, &s, NULL, e) != 0)
            return -1;
        if (s.len == 0 || memchr(s.ptr, '\0', s.len) != NULL)
            return fy_fail(e, FY_EFORMAT, "expected texts that are not empty and have no NUL");
        if (list->n == MOST_ITEMS)
            return fy_fail(e, FY_EFORMAT, "more than %d entries", MOST_ITEMS);
        char *copy = fy_arena_strndup(t->strings, s.ptr, s.len);
        if (copy == NULL)
            return fy_nomem(e);
        if (fy_opt_list_add(list, copy, e) != 0)
            return -1;
    }
    return more;
}

static int take_words(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    static const fy_json_row rows[FY_SWEEP_VERBS] = {
        {"convert", FY_JSON_ROW_TAKE, FY_SWEEP_CONVERT * sizeof(fy_opt_list), .take = take_list},
        {"quantize", FY_JSON_ROW_TAKE, FY_SWEEP_QUANTIZE * sizeof(fy_opt_list), .take = take_list},
        {"eval", FY_JSON_ROW_TAKE, FY_SWEEP_EVAL * sizeof(fy_opt_list), .take = take_list},
        {"plan", FY_JSON_ROW_TAKE, FY_SWEEP_PLAN * sizeof(fy_opt_list), .take = take_list},
        {"compile", FY_JSON_ROW_TAKE, FY_SWEEP_COMPILE * sizeof(fy_opt_list), .take = take_list},
        {"create", FY_JSON_ROW_TAKE, FY_SWEEP_CREATE * sizeof(fy_opt_list), .take = take_list},
    };
    const fy_json_table words = {FY_JSON_ROWS(rows), .strict = true, .strings = t->strings};
    return fy_json_object_of(j, &words, at, e);
}

static int take_workspaces(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    bool wanted;
    (void)t;
    if (fy_json_bool(j, &wanted, e) != 0)
        return -1;
    *(bool *)at = !wanted;
    return 0;
}

#define LIST(name, field, must)                                                     \
    {                                                                               \
        .key = name, .type = FY_JSON_ROW_TAKE, .offset = offsetof(fy_sweep, field), \
        .required = must, .take = take_list                                         \
    }

int fy_sweep_parse(fy_span text, fy_sweep *out, fy_err *e)
{
    static const fy_json_row rows[] = {
        LIST("models", models, true),
        LIST("types", types, true),
        LIST("chips", chips, false),
        LIST("recipes", recipes, false),
        FY_JSON_WITHIN(TEXT, "out", fy_sweep, out, true, 1, 4000),
        FY_JSON_WITHIN(TEXT, "text", fy_sweep, text, false, 1, 4000),
        FY_JSON_WITHIN(TEXT, "sdk", fy_sweep, sdk, false, 1, 4000),
        {"workspaces", FY_JSON_ROW_TAKE, offsetof(fy_sweep, no_workspaces),
         .take = take_workspaces},
        {"options", FY_JSON_ROW_TAKE, offsetof(fy_sweep, options), .take = take_words},
    };
    *out = (fy_sweep){0};
    const fy_json_table table = {FY_JSON_ROWS(rows), .strict = true, .strings = &out->strings};
    if (text.len > MOST_BYTES)
        return fy_fail(e, FY_EFORMAT, "has %zu bytes, expected at most %d", text.len, MOST_BYTES);
    if (fy_json_document_of(text, &table, out, e) != 0)
        return -1;
    if (out->models.n == 0 || out->types.n == 0)
        return fy_fail(e, FY_EFORMAT, "%s: expected at least one",
                       out->models.n == 0 ? "models" : "types");
    if ((out->recipes.n > 0 || out->sdk != NULL) && out->chips.n == 0)
        return fy_fail(e, FY_EFORMAT, "%s: is for chips, expected \"chips\", too",
                       out->sdk != NULL ? "sdk" : "recipes");
    return 0;
}

void fy_sweep_release(fy_sweep *s)
{
    fy_opt_list_release(&s->models);
    fy_opt_list_release(&s->types);
    fy_opt_list_release(&s->chips);
    fy_opt_list_release(&s->recipes);
    fy_opt_list_release(&s->model_names);
    fy_opt_list_release(&s->recipe_names);
    for (int v = 0; v < FY_SWEEP_VERBS; v++)
        fy_opt_list_release(&s->options[v]);
    fy_arena_release(&s->strings);
    *s = (fy_sweep){0};
}

/* --- what it means ---------------------------------------------------------------------------- */

/* A name that becomes one of a directory. */
static int keep_name(fy_sweep *s, const char **name, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (!fy_path_is_plain(fy_span_of(*name)))
        return fy_fail(e, FY_EARG, "'%s' cannot be the name of a directory",
                       fy_quote(shown, sizeof shown, fy_span_of(*name)));
    *name = fy_arena_strndup(&s->strings, *name, strlen(*name));
    return *name != NULL ? 0 : fy_nomem(e);
}

static int check_twice(const fy_opt_list *list, const char *what, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < list->n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(list->items[i], list->items[k]) == 0)
                return fy_fail(e, FY_EARG, "%s: '%s' is there twice", what,
                               fy_quote(shown, sizeof shown, fy_span_of(list->items[i])));
        }
    }
    return 0;
}

/* A model is called as its directory, or as its file without ".gguf". */
static int check_models(fy_sweep *s, fy_err *e)
{
    for (size_t i = 0; i < s->models.n; i++) {
        fy_span base = fy_path_base(s->models.items[i]);
        char shown[FY_QUOTE_BYTES];
        if (!fy_file_exists(s->models.items[i]))
            return fy_fail(e, FY_EIO,
                           "models: there is no '%s', expected a checkpoint or a GGUF file",
                           fy_quote(shown, sizeof shown, fy_span_of(s->models.items[i])));
        if (fy_span_ends(base, ".gguf"))
            base.len -= 5;
        const char *name = fy_arena_strndup(&s->strings, base.ptr, base.len);
        if (name == NULL)
            return fy_nomem(e);
        if (keep_name(s, &name, e) != 0 || fy_opt_list_add(&s->model_names, name, e) != 0)
            return fy_ctx(e, "models");
    }
    return check_twice(&s->model_names, "models", e);
}

static int check_types(fy_sweep *s, fy_err *e)
{
    const fy_verb *quantize = fy_verb_find("quantize");
    const char *choices = strchr(quantize->arg_choices, '=') + 1;
    for (size_t i = 0; i < s->types.n; i++) {
        char name[32];
        const int at = fy_choice(choices, s->types.items[i], e);
        if (at < 0)
            return fy_ctx(e, "types");
        fy_choice_name(choices, at, name, sizeof name);
        s->types.items[i] = name;
        if (keep_name(s, &s->types.items[i], e) != 0)
            return fy_ctx(e, "types");
    }
    return check_twice(&s->types, "types", e);
}

static int check_chips(fy_sweep *s, fy_err *e)
{
    fy_soc_table *t = s->chips.n > 0 ? fy_soc_table_open(NULL, e) : NULL;
    int rc = s->chips.n > 0 && t == NULL ? -1 : 0;
    for (size_t i = 0; rc == 0 && i < s->chips.n; i++) {
        const fy_soc *soc = fy_soc_find(t, s->chips.items[i], e);
        s->chips.items[i] = soc != NULL ? soc->name : NULL;
        if (soc == NULL || keep_name(s, &s->chips.items[i], e) != 0)
            rc = fy_ctx(e, "chips");
    }
    fy_soc_table_free(t);
    return rc == 0 ? check_twice(&s->chips, "chips", e) : rc;
}

/* A recipe is found by a word that may be a path, and called by its own name. */
static int check_recipes(fy_sweep *s, fy_err *e)
{
    fy_npu_recipes *r = s->recipes.n > 0 ? fy_npu_recipes_open(e) : NULL;
    int rc = s->recipes.n > 0 && r == NULL ? -1 : 0;
    for (size_t i = 0; rc == 0 && i < s->recipes.n; i++) {
        const fy_npu_recipe *one = fy_npu_recipes_find(r, s->recipes.items[i], e);
        const char *name = one != NULL ? one->name : NULL;
        if (one == NULL || keep_name(s, &name, e) != 0 ||
            fy_opt_list_add(&s->recipe_names, name, e) != 0)
            rc = fy_ctx(e, "recipes");
    }
    fy_npu_recipes_free(r);
    return rc == 0 ? check_twice(&s->recipe_names, "recipes", e) : rc;
}

/* Options alone, and none that the sweep gives itself. */
static int check_words(const fy_verb *v, const fy_opt_list *words, fy_err *e)
{
    static const char ours[] = "part|finish|dry-run|json|report|output|outfile|out-path|model|text|"
                               "kl-save|kl-base|soc|recipe|sdk|chunks|qnn-path|device|serial";
    int n_args = 0, rc = -1;
    bool help = false;
    void *into = calloc(1, v->opts_bytes);
    char **argv = calloc(words->n + 1, sizeof *argv);
    if (into == NULL || argv == NULL) {
        fy_nomem(e);
    } else {
        for (size_t i = 0; i < words->n; i++)
            memcpy(&argv[i], &words->items[i], sizeof *argv); /* parsing moves them alone */
        rc = fy_opts_parse(v->opts, v->n_opts, into, (int)words->n, argv, &n_args, &help, e);
        if (rc == 0 && (n_args > 0 || help))
            rc = fy_fail(e, FY_EARG, "%s: expected options alone", help ? "--help" : argv[0]);
        fy_opts_release(v->opts, v->n_opts, into);
    }
    for (size_t i = 0; rc == 0 && i < words->n; i++) {
        bool next;
        const fy_opt *o = fy_opts_find(v->opts, v->n_opts, words->items[i], &next);
        if (o != NULL && fy_list_has(ours, '|', o->name))
            rc = fy_fail(e, FY_EARG, "--%s is for the sweep to give", o->name);
        i += next;
    }
    free(argv);
    free(into);
    return rc;
}

static int check(fy_sweep *s, fy_err *e)
{
    if (check_types(s, e) != 0 || check_chips(s, e) != 0 || check_recipes(s, e) != 0)
        return -1;
    for (int v = 0; v < FY_SWEEP_VERBS; v++) {
        if (check_words(fy_verb_find(fy_sweep_verbs[v]), &s->options[v], e) != 0)
            return fy_ctx(e, "options: %s", fy_sweep_verbs[v]);
    }
    if (s->text != NULL && !fy_file_exists(s->text))
        return fy_fail(e, FY_EIO, "text: there is no '%s'", s->text);
    return check_models(s, e);
}

int fy_sweep_open(const char *path, fy_sweep *out, fy_err *e)
{
    fy_map m;
    *out = (fy_sweep){0};
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    int rc = fy_sweep_parse((fy_span){(const char *)m.data, m.size}, out, e);
    fy_map_close(&m);
    return rc == 0 && check(out, e) == 0 ? 0 : fy_ctx(e, "%s", path);
}
