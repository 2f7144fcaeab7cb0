/* ferry chunk: its options, and what to do with them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/verb.h"
#include "workspace/chunk.h"

enum { MAX_BATCHES = 8 };

typedef struct {
    const char *out, *batch;
    int64_t n_chunks, n_ctx, n_threads;
    bool join, quiet, verbose;
} options;

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Cut",
     .name = "chunks",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(n_chunks),
     .min = 1,
     .max = 1000,
     .help = "Cut the layers into so many chunks, as even by their bytes as layers allow."},
    {.group = "Cut",
     .name = "join",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(join),
     .line_only = true,
     .help = "The other way round: put the pieces in DIR together again."},
    {.group = "Graphs",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = FIELD(n_ctx),
     .min = 2,
     .max = 1 << 20,
     .def = "2048",
     .help = "Context of the graphs in tokens: of the cache, and of the largest batch beside it."},
    {.group = "Graphs",
     .name = "batch",
     .kind = FY_OPT_STR,
     .arg = "N,...",
     .offset = FIELD(batch),
     .def = "128,1",
     .help = "Batch sizes: each chunk gets a graph for each of them."},
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "PATH",
     .offset = FIELD(out),
     .line_only = true,
     .file = FY_FILE_OUT,
     .help = "The directory to cut into; with --join the GGUF file to write."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* "128,1" in any order. */
static int parse_batches(const char *text, uint32_t out[MAX_BATCHES], uint32_t *n, fy_err *e)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const unsigned long v = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || v == 0 || v > 1 << 20 ||
            (*end != ',' && *end != '\0') || *n == MAX_BATCHES)
            return fy_fail(e, FY_EARG,
                           "--batch '%s': expected at most %d sizes from 1 on with commas between "
                           "them, such as 128,1",
                           text, MAX_BATCHES);
        out[(*n)++] = (uint32_t)v;
        at = end;
        if (*end == '\0')
            break;
    }
    qsort(out, *n, sizeof *out, by_size);
    return 0;
}

static int cut(const char *model, const options *o, fy_pool *pool, fy_err *e)
{
    uint32_t batch[MAX_BATCHES];
    fy_chunk_stats stats;
    fy_cut c = {.n_chunks = (uint32_t)o->n_chunks,
                .n_heads = 1,
                .batch = batch,
                .n_ctx = (uint32_t)o->n_ctx,
                .soc = "",
                .recipe = ""};
    if (o->n_chunks == FY_OPT_UNSET_INT)
        return fy_fail(e, FY_EARG, "into how many chunks? Say --chunks N");
    if (parse_batches(o->batch, batch, &c.n_batches, e) != 0)
        return -1;
    const double begin = fy_now_s();
    fy_progress progress;
    fy_show_begin(&progress, "cutting", 0);
    const int rc = fy_chunk(model, o->out, &c, pool, &progress, &stats, e);
    fy_show_end(&progress);
    const double seconds = fy_now_s() - begin;
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %u files, %.1f MB, %.1f s, %.0f MB/s", o->out, stats.n_files,
               (double)stats.bytes * 1e-6, seconds,
               (double)stats.bytes * 1e-6 / (seconds > 1e-3 ? seconds : 1e-3));
    return rc;
}

static int join(const char *dir, const options *o, fy_pool *pool, fy_err *e)
{
    const double begin = fy_now_s();
    fy_progress progress;
    if (o->n_chunks != FY_OPT_UNSET_INT)
        return fy_fail(e, FY_EARG, "--join and --chunks: expected one of them");
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
    if (o->out == NULL)
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
        "which says what computes what. Weights are copied as they are. MODEL.gguf of a split "
        "model is its first file.\n\n"
        "The same model and options give the same bytes, interrupted on the way or not: the same "
        "command goes on with what is there.\n\n"
        "With --join the pieces in DIR become the file again that was cut, byte for byte where "
        "ferry "
        "or llama.cpp wrote it; pieces that are missing, of different models or changed are "
        "refused "
        "(exit status 4).",
    .examples = "ferry chunk model.gguf --chunks 4 -o model-npu\n"
                "ferry chunk --join model-npu -o model-again.gguf\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
