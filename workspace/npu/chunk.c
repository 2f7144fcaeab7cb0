/* The verb `chunk`, and the cut itself: which layers and tokens go into which chunk, and the
 * writing of the files. */
#include "workspace/npu/chunk.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/graph_io.h"
#include "base/process.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "format/write_journal.h"
#include "workspace/npu/chunk_impl.h"
#include "workspace/npu/plan_options.h"

typedef struct {
    const char *dir;
    fy_cut cut;      /* borders as given, or even */
    fy_model *model; /* owned */
    fy_chunk_source source;
    uint32_t *borders;  /* owned: end_layer, then end_token */
    fy_chunk_out *outs; /* owned, [n_outs]: embedding, chunks, heads */
    size_t n_outs;
    fy_str config;
    bool had_config;
    fy_chunk_stats stats;
} job;

/* --- where to cut ----------------------------------------------------------------------------- */

/* Ends of n runs whose sums are about even; weight: of each of count items, NULL: all 1. */
static void even_borders(const uint64_t *weight, uint32_t count, uint32_t n, uint32_t *ends)
{
    uint64_t total = 0, sum = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++)
        total += weight != NULL ? weight[i] : 1;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t most = count - (n - 1 - k); /* one is left for each of the others */
        const double want = (double)total * (k + 1) / n;
        do {
            sum += weight != NULL ? weight[at] : 1;
            at++;
        } while (
            at < most &&
            (k + 1 == n || (double)sum + (double)(weight != NULL ? weight[at] : 1) / 2 <= want));
        ends[k] = at;
    }
}

static int even_layers(job *j, uint32_t *ends, fy_err *e)
{
    const fy_chunk_source *s = &j->source;
    uint64_t *bytes = calloc(s->hp->n_layer, sizeof *bytes);
    if (bytes == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < fy_gguf_n_tensors(s->gguf); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(s->gguf, i);
        uint32_t layer;
        const fy_tensor_row *row = fy_row_of_gguf(s->family, t->name, &layer);
        if (row != NULL && fy_row_is_layer(row))
            bytes[layer] += t->bytes;
    }
    even_borders(bytes, s->hp->n_layer, j->cut.n_chunks, ends);
    free(bytes);
    return 0;
}

static int check_borders(const char *what, const uint32_t *ends, uint32_t n, uint32_t last,
                         fy_err *e)
{
    if (n == 0 || n > last)
        return fy_fail(e, FY_EARG, "%u chunks of %u %s, expected 1 to %u", n, last, what, last);
    for (uint32_t i = 0; ends != NULL && i < n; i++) {
        if (ends[i] <= (i > 0 ? ends[i - 1] : 0) || ends[i] > last ||
            (i + 1 == n && ends[i] != last))
            return fy_fail(e, FY_EARG,
                           "chunk %u ends at %u of %u %s, expected ascending ends up to all", i,
                           ends[i], last, what);
    }
    return 0;
}

static int check_graphs(const fy_cut *cut, const fy_hparams *hp, fy_err *e)
{
    if (cut->n_batches == 0)
        return fy_fail(e, FY_EARG, "no batch sizes, expected at least one");
    for (uint32_t i = 0; i < cut->n_batches; i++) {
        if (cut->batch[i] == 0 || (i > 0 && cut->batch[i] >= cut->batch[i - 1]))
            return fy_fail(e, FY_EARG,
                           "batch size %u, expected sizes of at least 1, each once, largest first",
                           cut->batch[i]);
    }
    if (fy_graph_has_states(hp) && cut->batch[0] > FY_STATE_BATCH_MAX)
        return fy_fail(e, FY_EARG,
                       "batch size %u, but a graph of a model with states has %d tokens at most",
                       cut->batch[0], FY_STATE_BATCH_MAX);
    return cut->n_ctx > cut->batch[0]
               ? 0
               : fy_fail(e, FY_EARG,
                         "a context of %u with a batch size of %u leaves no room for a cache, "
                         "expected more than the largest batch size",
                         cut->n_ctx, cut->batch[0]);
}

static int resolve_borders(job *j, fy_err *e)
{
    const fy_hparams *hp = j->source.hp;
    fy_cut *cut = &j->cut;
    if (check_graphs(cut, hp, e) != 0 ||
        check_borders("layers", cut->end_layer, cut->n_chunks, hp->n_layer, e) != 0 ||
        check_borders("tokens", cut->end_token, cut->n_heads, hp->n_vocab, e) != 0)
        return -1;
    j->borders = calloc((size_t)cut->n_chunks + cut->n_heads, sizeof *j->borders);
    if (j->borders == NULL)
        return fy_nomem(e);
    if (cut->end_layer == NULL) {
        if (even_layers(j, j->borders, e) != 0)
            return -1;
        cut->end_layer = j->borders;
    }
    if (cut->end_token == NULL) {
        even_borders(NULL, hp->n_vocab, cut->n_heads, j->borders + cut->n_chunks);
        cut->end_token = j->borders + cut->n_chunks;
    }
    return 0;
}

/* --- the plan --------------------------------------------------------------------------------- */

static int identify(const fy_chunk_source *s, char out[FY_CHUNK_MODEL_BYTES], fy_err *e)
{
    fy_chunk_id id;
    int rc = fy_chunk_id_begin(&id, s->gguf, e);
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_tensors(s->gguf); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(s->gguf, i);
        rc = fy_chunk_id_add(&id, t, t->data, e);
        fy_gguf_drop(s->gguf, t, 0, t->bytes); /* more than was asked for came into memory */
    }
    return fy_chunk_id_end(&id, rc == 0 ? out : NULL, e) != 0 ? -1 : rc;
}

static int plan_chunks(job *j, fy_err *e)
{
    const fy_cut *cut = &j->cut;
    fy_chunk_info p = {.kind = FY_CHUNK_EMBEDDING, .count = 1};
    j->n_outs = 1 + (size_t)cut->n_chunks + cut->n_heads;
    j->outs = calloc(j->n_outs, sizeof *j->outs);
    if (j->outs == NULL)
        return fy_nomem(e);
    if (identify(&j->source, p.model, e) != 0)
        return -1;
    fy_chunk_out *out = j->outs;
    *out++ = (fy_chunk_out){.source = &j->source, .info = p};
    p.kind = FY_CHUNK_LAYERS;
    p.count = cut->n_chunks;
    for (p.index = 0; p.index < p.count; p.index++) {
        p.first_layer = p.index > 0 ? cut->end_layer[p.index - 1] : 0;
        p.end_layer = cut->end_layer[p.index];
        *out++ = (fy_chunk_out){.source = &j->source, .info = p};
    }
    p.kind = FY_CHUNK_HEAD;
    p.count = cut->n_heads;
    p.first_layer = p.end_layer = 0;
    p.tied = j->source.tied != NULL;
    for (p.index = 0; p.index < p.count; p.index++) {
        p.first_token = p.index > 0 ? cut->end_token[p.index - 1] : 0;
        p.end_token = cut->end_token[p.index];
        *out++ = (fy_chunk_out){.source = &j->source, .info = p};
    }
    return fy_chunk_config(&j->source, cut, j->outs, j->n_outs, &j->config, e);
}

static int open_model(job *j, const char *path, fy_err *e)
{
    const fy_map_options mapped = {0};
    j->model = fy_model_open_as(path, &mapped, e);
    if (j->model == NULL)
        return -1;
    const fy_gguf *g = fy_model_gguf(j->model);
    const fy_hparams *hp = fy_model_hparams(j->model);
    const char *refusal = fy_cut_refusal(hp);
    if (refusal != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: cannot be cut for an NPU: %s", path, refusal);
    j->source = (fy_chunk_source){.gguf = g, .family = fy_model_family(j->model), .hp = hp};
    if (fy_gguf_tensor_find(g, "output.weight") == NULL)
        j->source.tied = fy_gguf_tensor_find(g, "token_embd.weight");
    return 0;
}

/* --- what is there ---------------------------------------------------------------------------- */

static int refuse(const job *j, const char *rel, const char *what, fy_err *e)
{
    return fy_fail(e, FY_EARG, "%s/%s: %s; remove the directory, or choose another one", j->dir,
                   rel, what);
}

/* Is it of this cut, finished or begun, by its name? */
static int check_name(const job *j, const char *rel, fy_err *e)
{
    char file[FY_CHUNK_FILE_BYTES];
    fy_span name = fy_span_of(rel);
    if (fy_span_ends(name, ".part"))
        name.len -= strlen(".part");
    bool known = fy_span_is(name, "ggml") || fy_span_is(name, FY_QNN_DIR) ||
                 fy_span_is(name, FY_CHUNK_CONFIG);
    for (size_t i = 0; i < j->n_outs && !known; i++)
        known = fy_span_is(name, fy_chunk_file_name(&j->outs[i].info, file));
    return known ? 0 : refuse(j, rel, "is not of this cut", e);
}

/* below: "", or a directory of the cut with a slash; one that is not there is empty. */
static int check_names(const job *j, const char *below, fy_err *e)
{
    char *path = fy_path_join(j->dir, below);
    if (path == NULL)
        return fy_nomem(e);
    DIR *d = opendir(path);
    int rc = d != NULL || errno == ENOENT ? 0 : fy_fail_errno(e, "%s: cannot list", path);
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        fy_str rel = {0};
        if (strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0)
            continue;
        fy_str_printf(&rel, "%s%s", below, en->d_name);
        rc = rel.oom ? fy_nomem(e) : check_name(j, rel.ptr, e);
        fy_str_release(&rel);
    }
    if (d != NULL)
        closedir(d);
    free(path);
    return rc;
}

/* A directory with another config.json but chunks like these is accepted. */
static int check_config(job *j, fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(j->dir, FY_CHUNK_CONFIG);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    if (fy_file_exists(path) && (rc = fy_map_open(&map, path, e)) == 0) {
        j->had_config = true;
        if (map.size != j->config.len || memcmp(map.data, j->config.ptr, map.size) != 0)
            rc = refuse(j, FY_CHUNK_CONFIG, "is of another cut", e);
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

/* One chunk: its size, and whether it is there. */
static int look(job *j, fy_chunk_out *p, uint64_t *missing, fy_err *e)
{
    char rel[FY_CHUNK_FILE_BYTES];
    int rc = fy_chunk_out_plan(p, j->dir, e);
    if (rc != 0)
        return -1;
    const uint64_t bytes = fy_gguf_writer_file_bytes(p->w);
    j->stats.bytes += bytes;
    if (fy_file_exists(p->path)) {
        rc = fy_chunk_out_is_there(p, e);
        p->there = rc == 0;
    } else {
        const uint64_t held = fy_out_held(p->path);
        *missing += bytes > held ? bytes - held : 0;
        j->stats.written += bytes;
    }
    return rc <= 0 ? rc
                   : refuse(j, fy_chunk_file_name(&p->info, rel), "is of another cut or model", e);
}

static int look_at_all(job *j, fy_err *e)
{
    uint64_t missing = j->config.len, available;
    if (check_names(j, "", e) != 0 || check_names(j, "ggml/", e) != 0 ||
        check_names(j, FY_QNN_DIR "/", e) != 0 || check_config(j, e) != 0)
        return -1;
    for (size_t i = 0; i < j->n_outs; i++) {
        if (look(j, &j->outs[i], &missing, e) != 0)
            return -1;
    }
    if (fy_file_space(j->dir, &available, e) != 0)
        return -1;
    return missing <= available
               ? 0
               : fy_fail(e, FY_ENOSPACE,
                         "%s: needs %" PRIu64 " bytes, the file system has %" PRIu64
                         " free; free some space or choose another place",
                         j->dir, missing, available);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* A chunk that is there has the right header; its bytes are compared as well, since two models may
 * have that in common. */
static int compare_there(const job *j, fy_progress *progress, fy_err *e)
{
    char rel[FY_CHUNK_FILE_BYTES];
    for (size_t i = 0; i < j->n_outs; i++) {
        const fy_chunk_out *p = &j->outs[i];
        const int rc = p->there ? fy_chunk_out_compare(p, progress, e) : 0;
        if (rc != 0)
            return rc < 0 ? -1
                          : refuse(j, fy_chunk_file_name(&p->info, rel), "has other weights", e);
    }
    return 0;
}

/* The writer of a file that was interrupted in its middle reports how much of it is kept; otherwise
 * whole files are. */
static int interrupted(const job *j, fy_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n_outs; i++)
        n += j->outs[i].there;
    if (e->code != FY_EINTR || n == 0 || strstr(e->msg, " keeps the ") != NULL)
        return -1;
    *e = (fy_err){0};
    return fy_fail(e, FY_EINTR,
                   "interrupted: %s keeps the %zu of %zu files that are done; the same command "
                   "resumes",
                   j->dir, n, j->n_outs);
}

static int write_chunk(const job *j, fy_chunk_out *p, fy_span identity, fy_pool *pool,
                       fy_progress *progress, fy_err *e)
{
    char rel[FY_CHUNK_FILE_BYTES], text[FY_CHUNK_TEXT_BYTES];
    if (fy_gguf_write_resumed(p->w, p->path, identity, fy_chunk_out_fill, p, pool, progress, e) !=
        0)
        return -1;
    p->there = true;
    fy_log(FY_LOG_DEBUG, "%s: %s, %.1f MB", fy_chunk_file_name(&p->info, rel),
           fy_chunk_text(&p->info, j->source.hp, text),
           (double)fy_gguf_writer_file_bytes(p->w) * 1e-6);
    return 0;
}

/* What is below the directory. */
static const char *const below[] = {"ggml", FY_QNN_DIR};

static int make_dirs(const job *j, fy_err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof below / sizeof below[0]; i++) {
        char *path = fy_path_join(j->dir, below[i]);
        rc = path == NULL ? fy_nomem(e) : fy_mkdirs(path, e);
        free(path);
    }
    return rc;
}

/* Those that this run made and put nothing into. */
static void remove_empty_dirs(const job *j, bool had_dir)
{
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        char *path = fy_path_join(j->dir, below[i]);
        if (path != NULL)
            rmdir(path);
        free(path);
    }
    if (!had_dir)
        rmdir(j->dir);
}

/* Without config.json the directory is not whole: it goes first and comes last. */
static int write_config(const job *j, bool away, fy_err *e)
{
    char *path = fy_path_join(j->dir, FY_CHUNK_CONFIG);
    int rc = 0;
    if (path == NULL)
        rc = fy_nomem(e);
    else if (!away)
        rc = fy_file_write(path, j->config.ptr, j->config.len, e);
    else if (unlink(path) != 0)
        rc = fy_fail_errno(e, "%s: cannot remove", path);
    free(path);
    return rc;
}

static int write_all(job *j, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    fy_str identity = {0};
    if (j->stats.written > 0 && j->had_config && write_config(j, true, e) != 0)
        return -1;
    int rc = make_dirs(j, e);
    if (rc == 0)
        rc = fy_identity_program(&identity, FY_IDENTITY_HERE, e);
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_files(j->source.gguf); i++)
        rc = fy_identity_file(&identity, FY_IDENTITY_HERE, "source",
                              fy_gguf_file_path(j->source.gguf, i), e);
    const fy_span same = {identity.ptr, identity.len};
    for (size_t i = 0; rc == 0 && i < j->n_outs; i++) {
        if (!j->outs[i].there)
            rc = write_chunk(j, &j->outs[i], same, pool, progress, e);
    }
    fy_str_release(&identity);
    return rc == 0 && (j->stats.written > 0 || !j->had_config) ? write_config(j, false, e) : rc;
}

static int run(job *j, const char *model, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    if (open_model(j, model, e) != 0 || resolve_borders(j, e) != 0)
        return -1;
    if (plan_chunks(j, e) != 0 || look_at_all(j, e) != 0)
        return -1;
    if (progress != NULL)
        progress->total_bytes = j->stats.bytes;
    const bool had_dir = fy_file_exists(j->dir);
    if (compare_there(j, progress, e) == 0 && write_all(j, pool, progress, e) == 0)
        return 0;
    remove_empty_dirs(j, had_dir);
    return interrupted(j, e);
}

int fy_chunk(const char *model, const char *dir, const fy_cut *cut, fy_pool *pool,
             fy_progress *progress, fy_chunk_stats *stats, fy_err *e)
{
    fy_err local = {0};
    job j = {.dir = dir, .cut = *cut};
    const int rc = run(&j, model, pool, progress, &local);
    j.stats.n_files = (uint32_t)j.n_outs;
    if (rc == 0 && stats != NULL)
        *stats = j.stats;
    for (size_t i = 0; j.outs != NULL && i < j.n_outs; i++)
        fy_chunk_out_release(&j.outs[i]);
    fy_model_close(j.model);
    fy_str_release(&j.config);
    free(j.borders);
    free(j.outs);
    return rc == 0 ? 0 : fy_fail(e, local.code, "%s", local.msg);
}

/* --- the verb --------------------------------------------------------------------------------- */

typedef struct {
    fy_npu_options plan;
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
     .help = "The other way round: put the chunks in DIR together again."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* --- cutting ---------------------------------------------------------------------------------- */

/* A cut, and what it points to. */
typedef struct {
    fy_npu_model model; /* owned */
    fy_plan_data data;  /* owned */
    fy_npu_params params;
    fy_npu_plan plan; /* owned */
    uint32_t end_layer[FY_NPU_CHUNKS], end_token[FY_NPU_HEADS];
    fy_cut cut;
} chunk_job;

static void release(chunk_job *j)
{
    fy_npu_plan_release(&j->plan);
    fy_plan_data_release(&j->data);
    fy_npu_model_release(&j->model);
}

static int read_model(chunk_job *j, const char *path, fy_err *e)
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
                                 "is a chunk of a model that was cut, expected a whole one; 'ferry "
                                 "chunk --join' makes one of the chunks")
                       : fy_npu_model_of(&j->model, g, e);
    fy_gguf_close(g);
    return rc == 0 ? 0 : fy_ctx(e, "%s", path);
}

/* As the plan for the chip says. */
static int cut_by_plan(chunk_job *j, const options *o, fy_err *e)
{
    j->params.soc = fy_plan_find_soc(&j->data, &o->plan, e);
    if (j->params.soc == NULL)
        return -1;
    if (j->params.recipe == NULL)
        j->params.recipe = fy_npu_recipes_default(j->data.recipes, j->params.soc, true);
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
static int cut_evenly(chunk_job *j, const options *o, fy_err *e)
{
    if (o->plan.n_chunks == 0)
        return fy_fail(e, FY_EARG,
                       "for which chip? --soc NAME ('ferry plan --list-socs' has the names); or "
                       "into how many chunks? --chunks N");
    if (fy_plan_is_given(&o->plan.recipe) || fy_plan_is_given(&o->plan.kv_bits) ||
        fy_plan_is_given(&o->plan.memory))
        return fy_fail(e, FY_EARG,
                       "--recipe, --kv-bits and --memory are for a plan: they go with --soc");
    j->cut.n_chunks = j->params.n_chunks;
    j->cut.n_heads = 1;
    return 0;
}

static int decide(chunk_job *j, const char *model, const options *o, fy_err *e)
{
    if (fy_npu_options_check(&o->plan, e) != 0 || read_model(j, model, e) != 0 ||
        fy_plan_data_open(&j->data, &o->plan, e) != 0 ||
        fy_plan_params_of(&j->data, &o->plan, &j->model.hp, &j->params, e) != 0)
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
    chunk_job j = {0};
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
    if (fy_plan_is_given(&o->plan.soc) || fy_plan_is_given(&o->plan.htp_arch) ||
        fy_plan_is_given(&o->plan.n_chunks))
        return fy_fail(e, FY_EARG,
                       "--join takes the chunks as they are: neither --soc nor --chunks");
    fy_show_begin(&progress, "joining", 0);
    const int rc = fy_chunk_join(dir, o->out, pool, &progress, e);
    fy_show_end(&progress);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %.1f MB, %.1f s", o->out, (double)progress.total_bytes * 1e-6,
               fy_now_s() - begin);
    return rc;
}

static int run_verb(void *opt, int n_args, char **args, fy_err *e)
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
    .summary = "cut a model into chunks for an NPU",
    .synopsis = "MODEL.gguf|DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Cuts MODEL.gguf along its layers into the chunks that an NPU gets one by one, each a GGUF "
        "file of its own: ggml/weights.gguf with the embedding and all metadata, qnn/chunk_0.gguf "
        "and so on with the layers, qnn/lm_head.gguf with the output matrix, and qnn/config.json, "
        "which says what computes what. Weights are copied as they are: the types of the recipe "
        "are "
        "for whoever compiles the chunks. MODEL.gguf of a split model is its first file.\n\n"
        "Where to cut is what 'ferry plan' says for the chip with the same options; what does not "
        "fit is not cut (exit status 3). Without a chip --chunks cuts the layers as evenly by "
        "their "
        "bytes as they allow.\n\n"
        "The same model and options give the same bytes, interrupted on the way or not: the same "
        "command resumes.\n\n"
        "With --join the chunks in DIR become the file again that was cut, byte for byte where "
        "ferry "
        "or llama.cpp wrote it; chunks that are missing, of different models or changed are "
        "refused "
        "(exit status 4).",
    .examples = "ferry chunk model.gguf --soc SM8650 -c 2048 --batch 128,1 -o model-npu\n"
                "# into so many chunks, for whatever chip\n"
                "ferry chunk model.gguf --chunks 4 -o model-cut\n"
                "# and back"
                "\n"
                "ferry chunk --join model-cut -o model-again.gguf\n",
    .task = FY_TASK_PACKAGE,
    .environment =
        "XDG_CONFIG_HOME Where ferry/soc.d and ferry/recipes.d are looked for; ~/.config when not "
        "set.\n",
    .run = run_verb,
};
