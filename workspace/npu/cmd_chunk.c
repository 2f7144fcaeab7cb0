/* ferry chunk: its options, and what to do with them. */
#include <stdlib.h>
#include <string.h>

#include "arch/chunk_info.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/plan_options.h"

typedef struct {
    fy_plan_options plan;
    const char *out;
    int64_t n_threads;
    bool join, quiet, verbose;
} options;

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    FY_PLAN_ROWS(plan),
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "PATH",
     .offset = FIELD(out),
     .line_only = true,
     .file = FY_FILE_OUT,
     .help = "The directory to cut into; with --join the GGUF file to write."},
    {.group = "Output",
     .name = "join",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(join),
     .line_only = true,
     .help = "The other way round: put the pieces in DIR together again."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* On the command line, not by a setting that is there for every call. */
static bool is_given(const void *field)
{
    const char *source = fy_option_source(field);
    return source != NULL && strcmp(source, "command line") == 0;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* A cut, and what it points to. */
typedef struct {
    fy_npu_model model; /* owned */
    fy_plan_data data;  /* owned */
    fy_npu_params params;
    fy_npu_plan plan; /* owned */
    uint32_t end_layer[FY_NPU_CHUNKS], end_token[FY_NPU_HEADS];
    fy_cut cut;
} job;

static void release(job *j)
{
    fy_npu_plan_release(&j->plan);
    fy_plan_data_release(&j->data);
    fy_npu_model_release(&j->model);
}

static int read_model(job *j, const char *path, fy_err *e)
{
    if (fy_file_is_dir(path))
        return fy_fail(e, FY_EARG,
                       "%s: is a directory, expected a GGUF file; 'ferry convert' makes one of a "
                       "checkpoint",
                       path);
    fy_gguf *g = fy_gguf_open(path, e);
    if (g == NULL)
        return -1;
    const int rc = fy_is_chunk(g)
                       ? fy_fail(e, FY_EARG,
                                 "is a piece of a model that was cut, expected a whole one; 'ferry "
                                 "chunk --join' makes one of the pieces")
                       : fy_npu_model_of(&j->model, g, e);
    fy_gguf_close(g);
    return rc == 0 ? 0 : fy_ctx(e, "%s", path);
}

/* As the plan for the chip says. */
static int cut_by_plan(job *j, const options *o, fy_err *e)
{
    j->params.soc = fy_plan_find_soc(&j->data, &o->plan, e);
    if (j->params.soc == NULL)
        return -1;
    if (j->params.recipe == NULL)
        j->params.recipe = fy_npu_recipes_default(j->data.recipes, j->params.soc);
    if (fy_npu_plan_make(&j->model, &j->params, &j->plan, e) != 0)
        return -1;
    if (!j->plan.fits) {
        fy_npu_suggestion s;
        return fy_npu_suggest(&j->model, &j->params, j->data.recipes, &s, e) != 0
                   ? -1
                   : fy_plan_does_not_fit(&j->plan, &s, &j->model, e);
    }
    j->cut.n_chunks = j->plan.n_chunks;
    for (uint32_t i = 0; i < j->plan.n_chunks; i++)
        j->end_layer[i] = j->plan.chunks[i].end_layer;
    j->cut.n_heads = j->plan.n_heads;
    for (uint32_t i = 0; i < j->plan.n_heads; i++)
        j->end_token[i] = j->plan.heads[i].end_token;
    j->cut.end_layer = j->end_layer;
    j->cut.end_token = j->end_token;
    j->cut.soc = j->params.soc->name;
    j->cut.recipe = j->params.recipe->name;
    j->cut.kv_bits = j->plan.params.kv_bits;
    return 0;
}

/* Without a chip: into so many chunks. */
static int cut_evenly(job *j, const options *o, fy_err *e)
{
    if (o->plan.n_chunks == 0)
        return fy_fail(e, FY_EARG,
                       "for which chip? --soc NAME ('ferry plan --list-socs' has the names); or "
                       "into how many chunks? --chunks N");
    if (is_given(&o->plan.recipe) || is_given(&o->plan.kv_bits) || is_given(&o->plan.memory))
        return fy_fail(e, FY_EARG,
                       "--recipe, --kv-bits and --memory are for a plan: they go with --soc");
    j->cut.n_chunks = j->params.n_chunks;
    j->cut.n_heads = 1;
    return 0;
}

static int decide(job *j, const char *model, const options *o, fy_err *e)
{
    if (fy_plan_options_check(&o->plan, e) != 0 || read_model(j, model, e) != 0 ||
        fy_plan_data_open(&j->data, &o->plan, e) != 0 ||
        fy_plan_params_of(&j->data, &o->plan, &j->params, e) != 0)
        return -1;
    if (j->params.n_ctx == 0)
        j->params.n_ctx = fy_npu_default_ctx(&j->model.hp);
    j->cut = (fy_cut){.batch = j->params.batch,
                      .n_batches = j->params.n_batches,
                      .n_ctx = j->params.n_ctx,
                      .soc = "",
                      .recipe = ""};
    return fy_plan_has_soc(&o->plan) ? cut_by_plan(j, o, e) : cut_evenly(j, o, e);
}

static int cut(const char *model, const options *o, fy_pool *pool, fy_err *e)
{
    job j = {0};
    fy_chunk_stats stats;
    fy_progress progress;
    int rc = decide(&j, model, o, e);
    if (rc == 0) {
        const double begin = fy_now_s();
        fy_show_begin(&progress, "cutting", 0);
        rc = fy_chunk(model, o->out, &j.cut, pool, &progress, &stats, e);
        fy_show_end(&progress);
        const double seconds = fy_now_s() - begin;
        if (rc == 0)
            fy_log(FY_LOG_INFO, "%s: %u files, %.1f MB, %.1f s, %.0f MB/s", o->out, stats.n_files,
                   (double)stats.bytes * 1e-6, seconds,
                   (double)stats.bytes * 1e-6 / (seconds > 1e-3 ? seconds : 1e-3));
    }
    release(&j);
    return rc;
}

/* --- joining ---------------------------------------------------------------------------------- */

static int join(const char *dir, const options *o, fy_pool *pool, fy_err *e)
{
    const double begin = fy_now_s();
    fy_progress progress;
    if (is_given(&o->plan.soc) || is_given(&o->plan.htp_arch) || is_given(&o->plan.n_chunks))
        return fy_fail(e, FY_EARG,
                       "--join takes the pieces as they are: neither --soc nor --chunks");
    fy_show_begin(&progress, "joining", 0);
    const int rc = fy_chunk_join(dir, o->out, pool, &progress, e);
    fy_show_end(&progress);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %.1f MB, %.1f s", o->out, (double)progress.total_bytes * 1e-6,
               fy_now_s() - begin);
    return rc;
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    const options *o = opt;
    if (o->out == NULL || o->out[0] == '\0')
        return fy_fail(e, FY_EARG, "where to? Say -o %s", o->join ? "OUT.gguf" : "DIR");
    fy_pool *pool =
        fy_pool_new(o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)o->n_threads, e);
    if (pool == NULL)
        return -1;
    const int rc = o->join ? join(args[0], o, pool, e) : cut(args[0], o, pool, e);
    fy_pool_free(pool);
    return rc;
}

const fy_verb fy_verb_chunk = {
    .name = "chunk",
    .summary = "cut a model into pieces for an NPU",
    .synopsis = "MODEL.gguf|DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Cuts MODEL.gguf along its layers into the pieces that an NPU gets one by one, each a GGUF "
        "file of its own: ggml/weights.gguf with the embedding and all metadata, qnn/chunk_0.gguf "
        "and so on with the layers, qnn/lm_head.gguf with the output matrix, and qnn/config.json, "
        "which says what computes what. Weights are copied as they are: the types of the recipe "
        "are "
        "for whoever compiles the pieces. MODEL.gguf of a split model is its first file.\n\n"
        "Where to cut is what 'ferry plan' says for the chip with the same options; what does not "
        "fit is not cut (exit status 3). Without a chip --chunks cuts the layers as evenly by "
        "their "
        "bytes as they allow.\n\n"
        "The same model and options give the same bytes, interrupted on the way or not: the same "
        "command goes on with what is there.\n\n"
        "With --join the pieces in DIR become the file again that was cut, byte for byte where "
        "ferry "
        "or llama.cpp wrote it; pieces that are missing, of different models or changed are "
        "refused "
        "(exit status 4).",
    .examples = "ferry chunk model.gguf --soc SM8650 -c 2048 --batch 128,1 -o model-npu\n"
                "# into so many pieces, for whatever chip\n"
                "ferry chunk model.gguf --chunks 4 -o model-cut\n"
                "# and back"
                "\n"
                "ferry chunk --join model-cut -o model-again.gguf\n",
    .task = FY_TASK_PACKAGE,
    .environment =
        "XDG_CONFIG_HOME Where ferry/soc.d and ferry/recipes.d are looked for; ~/.config when not "
        "set.\n",
    .run = run,
};
