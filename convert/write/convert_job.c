/* One conversion from the request to the closed file: finds the checkpoint, its name and the
 * output's, reads configuration and tokenizer, plans, writes, and estimates the time from a sample.
 */
#include "convert/write/convert_job.h"

#include <dirent.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/types.h"
#include "cli/terminal.h"
#include "cli/verb_rows.h"
#include "convert/source/family_match.h"
#include "convert/source/lora.h"
#include "convert/source/predictors.h"
#include "convert/write/convert_identity.h"
#include "convert/write/gguf_meta.h"
#include "convert/write/model_id.h"
#include "format/gguf.h"
#include "hub/hub_cache.h"
#include "kernels/row.h"

void fy_convert_job_release(fy_convert_job *j)
{
    fy_convert_stream_free(j->stream);
    fy_gguf_writer_free(j->writer);
    fy_hf_tokenizer_free(j->tokenizer);
    json_decref(j->meta);
    fy_convert_plan_free(j->plan);
    fy_type_rules_free(j->rules);
    fy_ckpt_close(j->source);
    fy_hf_config_release(&j->config);
    fy_str_release(&j->out_path);
    fy_part_options_release(&j->parts);
    free(j->id);
    free(j->dir);
}

/* --- where it is ---------------------------------------------------------------------------- */

/* A snapshot in the hub's cache is the model that it is of; other directories have the last part of
 * their path. */
static int find_id(fy_convert_job *j, const char *real, fy_err *e)
{
    if (fy_hub_id_of_snapshot(real, &j->id, e))
        return -1;
    const char *base = strrchr(real, '/');
    if (j->id == NULL)
        j->id = strdup(base != NULL && base[1] != '\0' ? base + 1 : "model");
    return j->id != NULL ? 0 : fy_nomem(e);
}

/* A tokenizer file is named without its extension; the file of a checkpoint has the name of the
 * directory it lies in, where its tokenizer is, too. */
static void place_of_file(fy_convert_job *j, char *real)
{
    char *slash = strrchr(real, '/'), *dot = strrchr(slash, '.');
    if (j->o->vocab_only) {
        j->dir = strdup(j->path);
        if (dot != NULL && dot > slash + 1)
            *dot = '\0';
    } else {
        j->dir = strndup(real, slash > real ? (size_t)(slash - real) : 1);
        *(slash > real ? slash : real + 1) = '\0';
    }
}

/* Links and "." are followed, so that every directory has a name. */
static int find_place(fy_convert_job *j, fy_err *e)
{
    char *real = realpath(j->path, NULL);
    if (real == NULL)
        return fy_fail_errno(e, "%s", j->path);
    if (fy_file_is_dir(real))
        j->dir = strdup(j->path);
    else
        place_of_file(j, real);
    int rc = j->dir != NULL ? find_id(j, real, e) : fy_nomem(e);
    free(real);
    return rc;
}

/* --- the plan ------------------------------------------------------------------------------- */

/* Vocabulary only: config.json gives hyperparameters when it is there and describes a family we
 * know. */
static int read_optional_config(fy_convert_job *j, fy_err *e)
{
    fy_err why = {0};
    char *path = fy_path_join(j->dir, "config.json");
    if (path == NULL)
        return fy_nomem(e);
    bool there = fy_file_exists(path);
    free(path);
    if (!there) {
        fy_log(FY_LOG_INFO,
               "no config.json: the file says architecture \"llama\" and no hyperparameters");
        return 0;
    }
    if (fy_hf_config_open(&j->config, j->dir, &why) == 0) {
        j->has_config = true;
        return 0;
    }
    if (why.code != FY_EUNSUPPORTED)
        return fy_fail(e, why.code, "%s", why.msg);
    fy_log(FY_LOG_WARN, "%s; the file says architecture \"llama\" and no hyperparameters", why.msg);
    return 0;
}

/* How a checkpoint of an unknown class differs from the nearest family, as far as it can be read.
 */
static void explain_unknown(const fy_convert_job *j)
{
    fy_err none = {0};
    fy_str text = {0};
    fy_ckpt *source = fy_ckpt_open(j->path, &none);
    fy_family_explain(&j->config, source, &text);
    fy_log_lines(FY_LOG_INFO, fy_str_z(&text));
    fy_str_release(&text);
    fy_ckpt_close(source);
}

/* What --outtype and --recipe mean. A part of a model has no mixture. */
static int chosen_type(const fy_convert_options *o, fy_file_type *out, fy_err *e)
{
    char name[16];
    *out = (fy_file_type){FY_OUTTYPE_AUTO, FY_RECIPE_PURE};
    fy_choice_name(FY_CONVERT_OUTTYPES, o->outtype, name, sizeof name);
    if (strcmp(name, "auto") == 0) {
        out->recipe = o->recipe < 0 ? FY_RECIPE_PURE : (fy_recipe)o->recipe;
        return 0;
    }
    if (fy_file_type_of(name, o->recipe, out, e) != 0)
        return fy_ctx(e, "--outtype");
    if (o->embedding_only && (out->type == FY_Q6_K || out->type == FY_Q2_K))
        out->recipe = FY_RECIPE_PURE;
    return o->embedding_only && out->recipe != FY_RECIPE_PURE
               ? fy_fail(e, FY_EARG,
                         "--outtype %s is a mixture for a whole model, not for --embedding-only",
                         fy_file_type_name(out))
               : 0;
}

static int find_predictors(fy_convert_job *j, fy_err *e)
{
    const char *dir = j->o->predictors;
    return fy_file_is_same(dir, j->dir) ? fy_ckpt_own_predictors(j->source, &j->config.hp, e)
                                        : fy_ckpt_add_predictors(j->source, dir, &j->config.hp, e);
}

static int plan_tensors(fy_convert_job *j, fy_err *e)
{
    if (j->o->keep.n > 0) {
        j->rules = fy_type_rules_new("--keep", FY_ROW_TYPES, j->o->keep.items, j->o->keep.n, e);
        if (j->rules == NULL)
            return -1;
    }
    j->source = fy_ckpt_open_model(j->path, &j->config, e);
    if (j->source == NULL) {
        if (e->code == FY_EUNSUPPORTED && j->config.root != NULL && j->config.family == NULL)
            explain_unknown(j);
        return -1;
    }
    j->has_config = true;
    if (fy_ckpt_merge_loras(j->source, &j->config, j->path, j->o->lora.items, j->o->lora.n, e))
        return -1;
    if (j->o->predictors != NULL && find_predictors(j, e) != 0)
        return fy_ctx(e, "--predictors");
    fy_type output, embedding;
    fy_file_type file;
    if (chosen_type(j->o, &file, e) != 0)
        return -1;
    const fy_plan_options o = {
        .outtype = file.type,
        .recipe = file.recipe,
        .output_type = fy_chosen_type(FY_ROW_TYPES, j->o->output_type, &output),
        .embedding_type = fy_chosen_type(FY_ROW_TYPES, j->o->embedding_type, &embedding),
        .rules = j->rules,
        .transpose_down = j->o->transpose_down,
        .predictors = j->o->predictors != NULL,
        .embedding_only = j->o->embedding_only,
        .allow_unmapped = j->o->allow_unmapped,
    };
    j->plan = fy_convert_plan_new(j->source, &j->config, &o, e);
    return j->plan != NULL ? 0 : fy_ctx(e, "%s", j->path);
}

/* --- the header ----------------------------------------------------------------------------- */

static int add_tensors(fy_convert_job *j, fy_err *e)
{
    uint64_t split = 0;
    if (fy_split_size(j->o->split_max_size, &split, e) || fy_gguf_writer_split(j->writer, split, e))
        return -1;
    return j->plan != NULL ? fy_gguf_add_planned(j->writer, j->plan, e) : 0;
}

/* As PowerInfer reads it. */
static int add_powerinfer(fy_convert_job *j, fy_err *e)
{
    float threshold;
    if (j->o->predictors == NULL)
        return 0;
    fy_gguf_writer_powerinfer(j->writer);
    const int rc = fy_predictor_threshold(j->o->predictors, &threshold, e);
    return rc == 0  ? fy_gguf_add_f32(j->writer, FY_KEY_SPARSE_THRESHOLD, threshold, e)
           : rc < 0 ? -1
                    : 0;
}

static int make_header(fy_convert_job *j, fy_err *e)
{
    char hash[FY_SHA256_HEX];
    j->tokenizer = fy_hf_tokenizer_open(j->dir, j->o->pre, e);
    if (j->tokenizer == NULL)
        return -1;
    if (j->o->chat_template != NULL &&
        fy_hf_tokenizer_use_template(j->tokenizer, j->o->chat_template, e) != 0)
        return -1;
    fy_rss_anon_most(&j->peak_anon);
    j->writer = fy_gguf_writer_new(e);
    if (j->writer == NULL || fy_source_hash(j->dir, j->source, hash, e))
        return -1;
    fy_gguf_meta meta = {
        .config = j->has_config ? &j->config : NULL,
        .plan = j->plan,
        .tokenizer = j->tokenizer,
        .model = j->meta,
        .source_sha256 = hash,
    };
    if (fy_gguf_meta_write(j->writer, &meta, e) || add_powerinfer(j, e) || add_tensors(j, e))
        return -1;
    fy_rss_anon_most(&j->peak_anon);
    fy_hf_tokenizer_free(j->tokenizer);
    j->tokenizer = NULL;
    return 0;
}

static int choose_path(fy_convert_job *j, fy_err *e)
{
    fy_str standard = {0};
    const char *type = j->plan != NULL ? fy_file_type_name(&j->plan->file) : "vocab";
    fy_model_meta_file_name(j->meta, j->plan != NULL ? type : NULL,
                            j->plan == NULL        ? "vocab"
                            : j->o->embedding_only ? "embedding"
                                                   : NULL,
                            &standard);
    fy_str_puts(&standard, ".gguf");
    int rc = standard.oom ? fy_nomem(e)
                          : fy_out_name(j->o->outfile, fy_str_z(&standard), type, &j->out_path, e);
    fy_str_release(&standard);
    return rc;
}

int fy_convert_job_plan(fy_convert_job *j, const char *path, const fy_convert_options *o, fy_err *e)
{
    *j = (fy_convert_job){.path = path, .o = o};
    j->n_threads = o->n_threads != FY_OPT_UNSET_INT ? (int)o->n_threads : fy_default_threads();
    if (fy_part_options_read(o->part, o->finish, &j->parts, e) || find_place(j, e) ||
        (o->vocab_only ? read_optional_config(j, e) : plan_tensors(j, e)))
        return -1;
    j->meta = fy_gguf_meta_model(j->dir, j->id, o->model_name, j->has_config ? &j->config : NULL,
                                 j->plan, e);
    return j->meta == NULL || make_header(j, e) || choose_path(j, e) ? -1 : 0;
}

/* --- the data ------------------------------------------------------------------------------- */

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    fy_convert_job *j = user;
    if (row == 0)
        fy_rss_anon_most(&j->peak_anon);
    return fy_convert_fill(j->stream, i, row, n_rows, out, thread, e);
}

/* Is the output one of the files that it is made from? */
static int check_other(const char *dir, const char *out, fy_err *e)
{
    DIR *d = fy_file_exists(out) ? opendir(dir) : NULL;
    int rc = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        const char *end = strrchr(en->d_name, '.');
        if (end != NULL && strcmp(end, ".gguf") == 0)
            continue; /* an earlier output */
        char *path = fy_path_join(dir, en->d_name);
        if (path == NULL)
            rc = fy_nomem(e);
        else if (!fy_file_is_dir(path) && fy_file_is_same(path, out))
            rc = fy_fail(e, FY_EARG,
                         "%s: is a file of the checkpoint, expected another name for the output",
                         out);
        free(path);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

/* The output may stand next to the checkpoint's files, but not take the place of one. */
static int check_distinct(const fy_convert_job *j, fy_err *e)
{
    const char *out = fy_str_z(&j->out_path);
    if (!fy_file_is_dir(j->path) && fy_file_exists(out) && fy_file_is_same(j->path, out))
        return fy_fail(e, FY_EARG, "%s: is the input, expected another name for the output", out);
    if (check_other(j->dir, out, e))
        return -1;
    return j->o->predictors != NULL ? check_other(j->o->predictors, out, e) : 0;
}

/* A name that nobody gave may come from the model card: it replaces no file but an earlier result
 * of this conversion, which has the same header. */
static int check_not_taken(const fy_convert_job *j, fy_err *e)
{
    const uint32_t n_files = fy_gguf_writer_n_files(j->writer);
    fy_str header = {0};
    int rc = fy_gguf_writer_header(j->writer, &header, e);
    for (uint32_t i = 0; rc == 0 && i < n_files; i++) {
        fy_map m;
        struct stat st;
        char *path = fy_gguf_split_name(fy_str_z(&j->out_path), i, n_files);
        if (path == NULL) {
            rc = fy_nomem(e);
            break;
        }
        const bool there = lstat(path, &st) == 0;
        bool same = false;
        if (there && i == 0 && fy_map_open(&m, path, NULL) == 0) {
            same = m.size >= header.len && memcmp(m.data, header.ptr, header.len) == 0;
            fy_map_close(&m);
        }
        if (there && !same)
            rc = fy_fail(e, FY_EARG,
                         "%s: exists, and is not an earlier result of this conversion; give the "
                         "name of the output with -o FILE",
                         path);
        free(path);
        if (same)
            break;
    }
    fy_str_release(&header);
    return rc;
}

/* What the values depend on besides header and checkpoint. */
static int identify(const fy_convert_job *j, fy_identity_kind kind, fy_str *sources, fy_err *e)
{
    if (fy_convert_identity(j->dir, kind, sources, e))
        return -1;
    for (size_t i = 0; i < j->o->lora.n; i++) {
        char *dir = NULL;
        double scale;
        int rc = fy_lora_parse(j->o->lora.items[i], &dir, &scale, e);
        if (rc == 0)
            rc = fy_convert_identity(dir, kind, sources, e);
        free(dir);
        if (rc)
            return -1;
        fy_str_printf(sources, "--lora with scale %.17g\n", scale);
    }
    if (j->o->predictors != NULL && fy_convert_identity(j->o->predictors, kind, sources, e))
        return -1;
    if (j->o->allow_nonfinite)
        fy_str_puts(sources, "--allow-nonfinite\n");
    if (j->o->fit)
        fy_str_puts(sources, "--fit\n");
    return sources->oom ? fy_nomem(e) : 0;
}

/* Bytes of the checkpoint that each tensor is made from; the caller frees them. */
static uint64_t *read_bytes(const fy_convert_job *j, fy_err *e)
{
    const size_t n = j->plan->n_tensors;
    uint64_t *bytes = calloc(n > 0 ? n : 1, sizeof *bytes);
    if (bytes == NULL)
        fy_nomem(e);
    for (size_t i = 0; bytes != NULL && i < n; i++) {
        const fy_plan_tensor *t = &j->plan->tensors[i];
        const uint64_t sources = t->stacked != NULL ? t->n_stacked : 1;
        bytes[i] = t->src != NULL ? sources * t->src->bytes : 0;
    }
    return bytes;
}

int fy_convert_job_shares(fy_convert_job *j, uint64_t *work, fy_err *e)
{
    uint64_t *bytes = read_bytes(j, e);
    const fy_gguf_parts parts = {.part = j->parts.part, .read_bytes = bytes};
    const int rc = bytes != NULL ? fy_gguf_parts_work(j->writer, &parts, work, e) : -1;
    free(bytes);
    return rc;
}

static int write_part(fy_convert_job *j, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    const char *out = fy_str_z(&j->out_path);
    fy_str sources = {0};
    uint64_t *bytes = read_bytes(j, e);
    int rc = bytes != NULL ? identify(j, FY_IDENTITY_ANYWHERE, &sources, e) : -1;
    const fy_gguf_parts parts = {.part = j->parts.part,
                                 .identity = {sources.ptr, sources.len},
                                 .read_bytes = bytes,
                                 .command = fy_str_z(&j->parts.command)};
    if (rc == 0)
        rc = j->parts.finishes
                 ? fy_gguf_write_finish(j->writer, out, &parts, e)
                 : fy_gguf_write_part(j->writer, out, &parts, fill, j, pool, progress, e);
    fy_str_release(&sources);
    free(bytes);
    return rc;
}

static int write_file(fy_convert_job *j, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    const char *out = fy_str_z(&j->out_path);
    fy_str sources = {0};
    if (j->parts.part.n > 0)
        return write_part(j, pool, progress, e);
    if (j->plan == NULL || !j->o->resume)
        return fy_gguf_write(j->writer, out, j->plan != NULL ? fill : NULL, j, pool, progress, e);
    int rc = identify(j, FY_IDENTITY_HERE, &sources, e);
    if (rc == 0)
        rc = fy_gguf_write_resumed(j->writer, out, (fy_span){sources.ptr, sources.len}, fill, j,
                                   pool, progress, e);
    fy_str_release(&sources);
    return rc;
}

static fy_convert_stream *open_stream(const fy_convert_job *j, fy_err *e)
{
    fy_convert_stream *s = fy_convert_stream_new(j->plan, j->n_threads, e);
    if (s != NULL) {
        s->allow_nonfinite = j->o->allow_nonfinite;
        s->how.fit = j->o->fit;
    }
    return s;
}

int fy_convert_job_write(fy_convert_job *j, fy_err *e)
{
    const bool named = j->o->outfile != NULL && !fy_file_is_dir(j->o->outfile);
    if (check_distinct(j, e) || (!named && check_not_taken(j, e)))
        return -1;
    if (j->plan != NULL && (j->stream = open_stream(j, e)) == NULL)
        return -1;
    fy_pool *pool = fy_pool_new(j->n_threads, e);
    if (pool == NULL)
        return -1;
    fy_progress progress;
    fy_show_begin(&progress, "converting", fy_gguf_writer_file_bytes(j->writer));
    int rc = write_file(j, pool, &progress, e);
    fy_show_end(&progress);
    fy_pool_free(pool);
    return rc;
}

/* --- estimate of the time --------------------------------------------------------------------- */

enum {
    SAMPLE_BYTES = 16 << 20, /* of the source */
    OUT_BYTES = 256 << 10,   /* per thread and step */
};

typedef struct {
    fy_convert_stream *stream;
    int64_t index;
    uint64_t n_rows, rows_per_item;
    uint8_t *out; /* OUT_BYTES per thread, at least one row */
    uint64_t out_bytes;
    _Atomic int failed;
} sample;

static uint64_t rows_of(const fy_plan_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

/* The matrix with the most elements, -1: there is none. */
static int64_t largest(const fy_convert_plan *p)
{
    int64_t best = -1;
    uint64_t most = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        uint64_t n = t->ne[0] * rows_of(t); /* the plan has checked that they can be counted */
        if (t->src != NULL && t->n_dims > 1 && n > most) {
            most = n;
            best = (int64_t)i;
        }
    }
    return best;
}

static void convert_some(void *ctx, int64_t begin, int64_t end, int thread)
{
    sample *s = ctx;
    fy_err e = {0};
    for (int64_t i = begin; i < end && !s->failed; i++) {
        uint64_t row = (uint64_t)i * s->rows_per_item, n = s->n_rows - row;
        n = n < s->rows_per_item ? n : s->rows_per_item;
        if (fy_convert_fill(s->stream, s->index, row, n, s->out + (size_t)thread * s->out_bytes,
                            thread, &e) != 0)
            s->failed = 1;
    }
}

/* Seconds for the sample; 0: it cannot be converted. */
static double measure(sample *s, fy_pool *pool)
{
    int64_t n_items = (int64_t)((s->n_rows + s->rows_per_item - 1) / s->rows_per_item);
    fy_pool_run(pool, n_items, 1, convert_some, s); /* brings the pages */
    double begin = fy_now_s();
    fy_pool_run(pool, n_items, 1, convert_some, s);
    return s->failed ? 0 : fy_now_s() - begin;
}

bool fy_convert_job_estimate(const fy_convert_job *j, double *seconds)
{
    int64_t index = j->plan != NULL ? largest(j->plan) : -1;
    if (index < 0)
        return false;
    const fy_plan_tensor *t = &j->plan->tensors[index];
    fy_err none = {0};
    uint64_t in_row = t->ne[0] * fy_dtype_bits(t->src->dtype) / 8 + 1;
    uint64_t out_row = fy_type_row_bytes(t->type, t->ne[0]);
    sample s = {.index = index, .n_rows = SAMPLE_BYTES / in_row + 1};
    s.n_rows = s.n_rows < rows_of(t) ? s.n_rows : rows_of(t);
    s.rows_per_item = OUT_BYTES / out_row + 1;
    s.out_bytes = (s.rows_per_item * out_row + 63) / 64 * 64;
    s.stream = open_stream(j, &none);
    s.out = aligned_alloc(64, (size_t)s.out_bytes * (size_t)j->n_threads);
    fy_pool *pool = fy_pool_new(j->n_threads, &none);
    double took = s.stream != NULL && s.out != NULL && pool != NULL ? measure(&s, pool) : 0;
    uint64_t all = 0;
    for (size_t i = 0; i < j->plan->n_tensors; i++)
        all += j->plan->tensors[i].ne[0] * rows_of(&j->plan->tensors[i]);
    *seconds = took * (double)all / (double)(s.n_rows * t->ne[0]);
    fy_pool_free(pool);
    free(s.out);
    fy_convert_stream_free(s.stream);
    return took > 0;
}
