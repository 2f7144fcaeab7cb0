#include <stdlib.h>
#include <string.h>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/npu/plan_options.h"
#include "workspace/npu/plan_show.h"

typedef struct {
    fy_plan_options plan;
    const char *what_if;
    int64_t n_layers;
    bool list_socs, list_recipes, json, quiet, verbose;
} options;

#define SYNOPSIS "MODEL.gguf|DIR"

static const fy_opt opts[] = {
    FY_PLAN_ROWS(plan),
    {.group = "Graphs",
     .name = "layers",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_layers),
     .def = "0",
     .max = FY_N_LAYER_MAX,
     .help = "Plan for the first N layers alone; 0: all of them.",
     .line_only = true},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object, all sizes in bytes; docs/plan.md has its members."},
    {.group = "Output",
     .name = "what-if",
     .kind = FY_OPT_STR,
     .arg = "SOC,...",
     .offset = offsetof(options, what_if),
     .bare = "",
     .line_only = true,
     .help = "A table instead: chunks and sessions on these chips, on that of --soc, or on one of "
             "each version of the NPU, in contexts of 512 to 32768 (or in -c alone)."},
    {.group = "Output",
     .name = "list-socs",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, list_socs),
     .line_only = true,
     .help = "Print the chips that ferry knows."},
    {.group = "Output",
     .name = "list-recipes",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, list_recipes),
     .line_only = true,
     .help = "Print the recipes that ferry knows."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

typedef struct {
    fy_plan_data data;
    fy_plan_model model;
} world;

/* --- one chip --------------------------------------------------------------------------------- */

static int show(const world *w, const fy_npu_params *asked, const fy_npu_plan *p, const options *o,
                fy_err *e)
{
    fy_npu_suggestion s = {0};
    if (!p->fits && fy_npu_suggest(&w->model.npu, asked, w->data.recipes, &s, e) != 0)
        return -1;
    const fy_plan_view v = {.model = &w->model, .plan = p, .suggestion = p->fits ? NULL : &s};
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = fy_plan_put_json(&out, &v, e);
    else
        fy_plan_put_text(&out, &v, fy_terminal_columns(1, 100), o->verbose);
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    return rc == 0 && !p->fits ? fy_plan_does_not_fit(p, &s, &w->model.npu, e) : rc;
}

static int plan_one(world *w, fy_npu_params *p, const options *o, fy_err *e)
{
    fy_npu_plan plan;
    p->soc = fy_plan_find_soc(&w->data, &o->plan, e);
    if (p->soc == NULL)
        return -1;
    if (p->recipe == NULL)
        p->recipe = fy_npu_recipes_default(w->data.recipes, p->soc);
    if (fy_npu_plan_make(&w->model.npu, p, &plan, e) != 0)
        return -1;
    if (plan.params.n_ctx > w->model.npu.hp.n_ctx_train)
        fy_log(FY_LOG_WARN, "a context of %u positions, but the model was trained with %u",
               plan.params.n_ctx, w->model.npu.hp.n_ctx_train);
    const int rc = show(w, p, &plan, o, e);
    fy_npu_plan_release(&plan);
    return rc;
}

/* --- many chips ------------------------------------------------------------------------------- */

/* Of chips with the same NPU the one that most is known of, then that with most of it. */
static bool stands_for(const fy_soc *a, const fy_soc *b)
{
    if ((a->memory_bytes > 0) != (b->memory_bytes > 0))
        return a->memory_bytes > 0;
    if (a->n_sessions != b->n_sessions)
        return a->n_sessions > b->n_sessions;
    return a->vtcm_mb > b->vtcm_mb;
}

/* By version; at most as many as the table has rows. */
static size_t representatives(const fy_soc_table *t, const fy_soc **out)
{
    size_t n = 0;
    for (size_t i = 0; i < fy_soc_table_n(t); i++) {
        const fy_soc *s = fy_soc_table_at(t, i);
        size_t k = 0;
        while (k < n && out[k]->htp_arch < s->htp_arch)
            k++;
        if (k < n && out[k]->htp_arch == s->htp_arch) {
            out[k] = stands_for(s, out[k]) ? s : out[k];
            continue;
        }
        memmove(&out[k + 1], &out[k], (n++ - k) * sizeof *out);
        out[k] = s;
    }
    return n;
}

/* names: "SM8650,SM8750", changed. */
static int named_socs(const fy_soc_table *t, char *names, const fy_soc **out, size_t *n, fy_err *e)
{
    *n = 0;
    for (char *next, *at = names; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        const fy_soc *s = fy_soc_find(t, at, e);
        if (s == NULL)
            return fy_ctx(e, "--what-if");
        out[(*n)++] = s;
    }
    return 0;
}

static int what_if(world *w, const fy_npu_params *p, const options *o, fy_err *e)
{
    static const uint32_t contexts[] = {512, 1024, 2048, 4096, 8192, 16384, 32768};
    const bool one = o->plan.n_ctx != FY_OPT_UNSET_INT;
    const size_t most = strlen(o->what_if) + fy_soc_table_n(w->data.socs) + 2;
    const fy_soc **socs = calloc(most, sizeof *socs);
    char *names = strdup(o->what_if);
    fy_str out = {0};
    size_t n = 0;
    int rc = socs != NULL && names != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && *names != '\0')
        rc = named_socs(w->data.socs, names, socs, &n, e);
    else if (rc == 0 && fy_plan_has_soc(&o->plan))
        rc = (socs[n++] = fy_plan_find_soc(&w->data, &o->plan, e)) != NULL ? 0 : -1;
    else if (rc == 0)
        n = representatives(w->data.socs, socs);
    fy_plan_question q = {.model = &w->model,
                          .socs = socs,
                          .n_socs = n,
                          .contexts = one ? &p->n_ctx : contexts,
                          .n_contexts = one ? 1 : sizeof contexts / sizeof contexts[0],
                          .recipes = w->data.recipes,
                          .params = *p};
    if (rc == 0)
        rc = fy_plan_put_what_if(&out, &q, o->json, e);
    if (rc == 0)
        rc = fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    free(names);
    free(socs);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int list(const options *o, fy_err *e)
{
    fy_soc_table *socs = NULL;
    fy_npu_recipes *recipes = NULL;
    fy_str out = {0};
    int rc = -1;
    if (o->list_socs && (socs = fy_soc_table_open(o->plan.soc_table, e)) != NULL)
        rc = fy_plan_put_socs(&out, socs, o->json, e);
    else if (!o->list_socs && (recipes = fy_npu_recipes_open(e)) != NULL)
        rc = fy_plan_put_recipes(&out, recipes, o->json, e);
    if (rc == 0)
        rc = fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    fy_soc_table_free(socs);
    fy_npu_recipes_free(recipes);
    return rc;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    if (o->list_socs && o->list_recipes)
        return fy_fail(e, FY_EARG,
                       "--list-socs and --list-recipes are two lists; give one of them");
    if (o->list_socs || o->list_recipes)
        return n_args == 0 ? list(o, e)
                           : fy_fail(e, FY_EARG, "--list-%s takes no model",
                                     o->list_socs ? "socs" : "recipes");
    if (n_args == 0)
        return fy_fail(e, FY_EARG, "too few arguments; usage: ferry plan [options] %s", SYNOPSIS);
    if (fy_plan_options_check(&o->plan, e) != 0)
        return -1;
    if (!fy_plan_has_soc(&o->plan) && o->what_if == NULL)
        return fy_fail(e, FY_EARG,
                       "for which chip? --soc NAME (--list-socs has the names), or "
                       "--htp-arch N --vtcm MB");
    world w = {0};
    fy_npu_params p;
    int rc = fy_plan_data_open(&w.data, &o->plan, e);
    if (rc == 0)
        rc = fy_plan_model_open(&w.model, args[0], e);
    if (rc == 0)
        rc = fy_plan_params_of(&w.data, &o->plan, &p, e);
    if (rc == 0) {
        p.n_layers = (uint32_t)o->n_layers;
        rc = o->what_if != NULL ? what_if(&w, &p, o, e) : plan_one(&w, &p, o, e);
    }
    fy_plan_model_release(&w.model);
    fy_plan_data_release(&w.data);
    return rc;
}

const fy_verb fy_verb_plan = {
    .name = "plan",
    .summary = "say what of a model fits the NPU, before any work",
    .synopsis = SYNOPSIS,
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Counts what a model takes on a phone's NPU: into how many pieces its layers have to be "
        "cut so that each is within the limits of a context, what each has in weights, KV cache, "
        "inputs and outputs, which of them share a session, and what memory the phone needs for "
        "that, and when the CPU runs the model instead. Headers alone are read.\n\n"
        "MODEL is a GGUF file, a workspace, or a checkpoint: a directory with weights or with "
        "config.json alone, the config.json itself, or [ORG/]NAME in the cache of Hugging Face's "
        "tools.\n\n"
        "What does not fit ends with status 3, the first limit that it breaks, and the cheapest "
        "change with which it fits, found by trying. -v shows the matrices of the layers with "
        "their types.\n\n"
        "Chips and recipes are data: ferry/soc.d/NAME.json and ferry/recipes.d/NAME.json in the "
        "configuration directory add to those that come with ferry. docs/plan.md reads a plan line "
        "by line; docs/npu.md says what is counted how and what is estimated.",
    .examples = "ferry plan model.gguf --soc SM8650\n"
                "# a model that is not there yet, for a chip that ferry does not know\n"
                "ferry plan checkpoint/config.json --htp-arch 75 --vtcm 8\n"
                "# how far would it go?\n"
                "ferry plan model.gguf --what-if\n"
                "ferry plan --list-socs\n",
    .task = FY_TASK_PACKAGE,
    .environment =
        "XDG_CONFIG_HOME Where ferry/soc.d and ferry/recipes.d are looked for; ~/.config when not "
        "set.\n",
    .run = run,
};
