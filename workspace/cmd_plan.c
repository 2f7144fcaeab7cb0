#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/quote.h"
#include "cli/verb.h"
#include "workspace/plan_show.h"

typedef struct {
    const char *soc, *soc_table, *batch, *recipe, *what_if;
    int64_t htp_arch, vtcm, memory, n_ctx, n_chunks, n_layers;
    int kv_bits;
    bool list_socs, list_recipes, json, quiet, verbose;
} options;

#define SYNOPSIS "MODEL.gguf|DIR"

enum { N_CTX = 2048 };

static const fy_opt opts[] = {
    {.group = "Chip",
     .name = "soc",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, soc),
     .help = "The chip: its name, one of its other names, or the number in it; --list-socs has "
             "them all.",
     .set = "chip"},
    {.group = "Chip",
     .name = "htp-arch",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, htp_arch),
     .min = 1,
     .max = 999,
     .help = "Instead of --soc, for a chip that ferry does not know: the version of its NPU, such "
             "as 75; limits are then the smallest that chips of this version have.",
     .set = "chip"},
    {.group = "Chip",
     .name = "vtcm",
     .kind = FY_OPT_INT,
     .arg = "MB",
     .offset = offsetof(options, vtcm),
     .min = 1,
     .max = 64,
     .help = "With --htp-arch: its fast memory in MiB; without it the least that chips of this "
             "version have."},
    {.group = "Chip",
     .name = "memory",
     .kind = FY_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(options, memory),
     .min = 1,
     .max = 1e15,
     .help = "Memory of the device; without it what devices with that chip commonly have."},
    {.group = "Chip",
     .name = "soc-table",
     .kind = FY_OPT_STR,
     .arg = "FILE.json",
     .offset = offsetof(options, soc_table),
     .help = "Take the chips from this file instead of those that ferry knows.",
     .file = FY_FILE_IN},
    {.group = "Graphs",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_ctx),
     .min = 1,
     .max = INT32_MAX,
     .help = "Columns of the attention: cached positions and those of the largest batch; without "
             "it 2048, or what the model has learned if that is less."},
    {.group = "Graphs",
     .name = "batch",
     .kind = FY_OPT_STR,
     .arg = "N,...",
     .offset = offsetof(options, batch),
     .def = "128,1",
     .help = "Tokens of a call, one graph for each of these numbers."},
    {.group = "Graphs",
     .name = "recipe",
     .kind = FY_OPT_STR,
     .arg = "NAME|FILE.json",
     .offset = offsetof(options, recipe),
     .help = "Which weight gets which type; --list-recipes has those that ferry knows. Without it "
             "lpbq-32 where the chip can do that, else 16a4w.",
     .file = FY_FILE_OR_WORD},
    {.group = "Graphs",
     .name = "kv-bits",
     .kind = FY_OPT_CHOICE,
     .arg = "8|16",
     .offset = offsetof(options, kv_bits),
     .help = "Bits of a number in the KV cache; without it the recipe's."},
    {.group = "Graphs",
     .name = "chunks",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_chunks),
     .def = "0",
     .max = FY_NPU_CHUNKS,
     .help = "Cut the layers into so many pieces; 0: as few as fit."},
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
     .help = "Write one JSON object, all sizes in bytes; docs/npu.md has its members."},
    {.group = "Output",
     .name = "what-if",
     .kind = FY_OPT_STR,
     .arg = "SOC,...",
     .offset = offsetof(options, what_if),
     .bare = "",
     .line_only = true,
     .help = "A table instead: chunks and sessions on these chips, or on one of each version of "
             "the NPU, in contexts of 512 to 32768 (or -c alone)."},
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

/* --- options ---------------------------------------------------------------------------------- */

static int bad_batch(const char *text, const char *what, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG,
                   "--batch '%s': %s; expected up to %d different numbers from 1, such "
                   "as 128,1",
                   fy_quote(q, sizeof q, fy_span_of(text)), what, FY_NPU_BATCHES);
}

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* "128,1", in any order. */
static int read_batches(const char *text, fy_npu_params *p, fy_err *e)
{
    const char *at = text;
    for (;;) {
        uint64_t n = 0;
        size_t digits = 0;
        for (; at[digits] >= '0' && at[digits] <= '9' && n <= INT32_MAX; digits++)
            n = 10 * n + (uint64_t)(at[digits] - '0');
        if (digits == 0 || (at[digits] != ',' && at[digits] != '\0'))
            return bad_batch(text, n > INT32_MAX ? "a number is too large" : "no list of numbers",
                             e);
        if (n == 0 || n > INT32_MAX)
            return bad_batch(text, n == 0 ? "no token at a time" : "a number is too large", e);
        if (p->n_batches == FY_NPU_BATCHES)
            return bad_batch(text, "too many numbers", e);
        p->batch[p->n_batches++] = (uint32_t)n;
        if (at[digits] == '\0')
            break;
        at += digits + 1;
    }
    qsort(p->batch, p->n_batches, sizeof *p->batch, by_size);
    for (uint32_t i = 1; i < p->n_batches; i++) {
        if (p->batch[i] == p->batch[i - 1])
            return bad_batch(text, "one number is there twice", e);
    }
    return 0;
}

static int check_options(const options *o, fy_err *e)
{
    const bool arch = o->htp_arch != FY_OPT_UNSET_INT;
    if (o->soc != NULL && arch)
        return fy_fail(e, FY_EARG,
                       "--soc names a chip that ferry knows, --htp-arch is for one that "
                       "it does not; give one of them");
    if (o->vtcm != FY_OPT_UNSET_INT && !arch)
        return fy_fail(e, FY_EARG,
                       "--vtcm goes with --htp-arch; the chips of --soc have their own");
    if (o->soc == NULL && !arch && o->what_if == NULL)
        return fy_fail(e, FY_EARG,
                       "for which chip? --soc NAME (--list-socs has the names), or "
                       "--htp-arch N --vtcm MB");
    return 0;
}

/* What chips and model do not say. */
static int read_params(const options *o, const fy_hparams *hp, fy_npu_params *p, fy_err *e)
{
    static const uint32_t bits[] = {8, 16};
    *p = (fy_npu_params){
        .n_ctx = o->n_ctx != FY_OPT_UNSET_INT ? (uint32_t)o->n_ctx
                 : hp->n_ctx_train < N_CTX    ? hp->n_ctx_train
                                              : N_CTX,
        .n_chunks = (uint32_t)o->n_chunks,
        .n_layers = (uint32_t)o->n_layers,
        .kv_bits = o->kv_bits >= 0 ? bits[o->kv_bits] : 0,
        .memory_bytes = o->memory != FY_OPT_UNSET_INT ? (uint64_t)o->memory : 0,
    };
    return read_batches(o->batch, p, e);
}

/* --- the data --------------------------------------------------------------------------------- */

typedef struct {
    fy_soc_table *socs;      /* owned */
    fy_npu_recipes *recipes; /* owned */
    fy_soc guessed;          /* owned; of --htp-arch */
    fy_plan_model model;
} world;

static void release(world *w)
{
    fy_plan_model_release(&w->model);
    fy_soc_release(&w->guessed);
    fy_npu_recipes_free(w->recipes);
    fy_soc_table_free(w->socs);
}

static const fy_soc *find_soc(world *w, const options *o, fy_err *e)
{
    if (o->soc != NULL)
        return fy_soc_find(w->socs, o->soc, e);
    const uint32_t vtcm = o->vtcm != FY_OPT_UNSET_INT ? (uint32_t)o->vtcm : 0;
    if (fy_soc_of_arch(w->socs, (int)o->htp_arch, vtcm, &w->guessed, e) != 0)
        return NULL;
    fy_log(FY_LOG_WARN,
           "V%u with %u MiB of VTCM is a guess at a chip: %u sessions and the limits of the "
           "weakest chip of that version are taken for granted",
           w->guessed.htp_arch, w->guessed.vtcm_mb, w->guessed.n_sessions);
    return &w->guessed;
}

static int open_world(world *w, const options *o, const char *path, fy_err *e)
{
    *w = (world){.socs = fy_soc_table_open(o->soc_table, e)};
    if (w->socs != NULL)
        w->recipes = fy_npu_recipes_open(e);
    return w->recipes != NULL ? fy_plan_model_open(&w->model, path, e) : -1;
}

/* --- one chip --------------------------------------------------------------------------------- */

/* Why it does not fit, and what would. */
static int does_not_fit(const fy_npu_plan *p, const fy_npu_suggestion *s, const fy_npu_model *m,
                        fy_err *e)
{
    fy_str text = {0};
    if (s->found)
        fy_npu_suggestion_text(s, m, &text);
    fy_fail(e, FY_EFIT, "%s%s%s", p->why.msg,
            !s->found                          ? ""
            : s->changed[FY_NPU_CHANGE_LAYERS] ? "; "
                                               : "; try: ",
            fy_str_z(&text));
    fy_str_release(&text);
    return -1;
}

static int show(const world *w, const fy_npu_params *asked, const fy_npu_plan *p, const options *o,
                fy_err *e)
{
    fy_npu_suggestion s = {0};
    if (!p->fits && fy_npu_suggest(&w->model.npu, asked, w->recipes, &s, e) != 0)
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
    return rc == 0 && !p->fits ? does_not_fit(p, &s, &w->model.npu, e) : rc;
}

static int find_recipe(world *w, const options *o, const fy_npu_recipe **out, fy_err *e)
{
    *out = NULL;
    if (o->recipe != NULL && (*out = fy_npu_recipes_find(w->recipes, o->recipe, e)) == NULL)
        return -1;
    return 0;
}

static int plan_one(world *w, fy_npu_params *p, const options *o, fy_err *e)
{
    fy_npu_plan plan;
    p->soc = find_soc(w, o, e);
    if (p->soc == NULL)
        return -1;
    if (p->recipe == NULL)
        p->recipe = fy_npu_recipes_default(w->recipes, p->soc);
    if (fy_npu_plan_make(&w->model.npu, p, &plan, e) != 0)
        return -1;
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
    const bool one = o->n_ctx != FY_OPT_UNSET_INT;
    const size_t most = strlen(o->what_if) + fy_soc_table_n(w->socs) + 2;
    const fy_soc **socs = calloc(most, sizeof *socs);
    char *names = strdup(o->what_if);
    fy_str out = {0};
    size_t n = 0;
    int rc = socs != NULL && names != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && *names != '\0')
        rc = named_socs(w->socs, names, socs, &n, e);
    else if (rc == 0 && (o->soc != NULL || o->htp_arch != FY_OPT_UNSET_INT))
        rc = (socs[n++] = find_soc(w, o, e)) != NULL ? 0 : -1;
    else if (rc == 0)
        n = representatives(w->socs, socs);
    fy_plan_question q = {.model = &w->model,
                          .socs = socs,
                          .n_socs = n,
                          .contexts = one ? &p->n_ctx : contexts,
                          .n_contexts = one ? 1 : sizeof contexts / sizeof contexts[0],
                          .recipes = w->recipes,
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
    if (o->list_socs && (socs = fy_soc_table_open(o->soc_table, e)) != NULL)
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
    if (check_options(o, e) != 0)
        return -1;
    world w;
    fy_npu_params p;
    int rc = open_world(&w, o, args[0], e);
    if (rc == 0)
        rc = read_params(o, &w.model.npu.hp, &p, e);
    if (rc == 0)
        rc = find_recipe(&w, o, &p.recipe, e);
    if (rc == 0)
        rc = o->what_if != NULL ? what_if(&w, &p, o, e) : plan_one(&w, &p, o, e);
    release(&w);
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
        "configuration directory add to those that come with ferry. docs/npu.md has their "
        "schemas, what is counted how, and what is estimated.",
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
