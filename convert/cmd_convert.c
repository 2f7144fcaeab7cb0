/* ferry convert: a Hugging Face checkpoint becomes a GGUF file. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/thread.h"
#include "cli/verb.h"
#include "convert/convert_identity.h"
#include "convert/convert_plan.h"
#include "convert/convert_stream.h"
#include "convert/family_match.h"
#include "convert/foreign_reader.h"
#include "convert/gguf_meta.h"
#include "convert/hf_config.h"
#include "convert/checkpoint.h"
#include "convert/hf_tokenizer.h"
#include "format/gguf_write.h"
#include "hub/hub_fetch.h"

#define SYNOPSIS "DIR|ORG/NAME | --list-archs"

typedef struct {
    const char *outfile, *model_name, *pre, *chat_template;
    int outtype;
    bool vocab_only, dry_run, fetch, list_archs, json, resume, quiet, verbose;
    int64_t n_threads;
    const char *split_max_size;
} options;

static const fy_type outtypes[] = {FY_OUTTYPE_AUTO, FY_F32, FY_F16, FY_BF16, FY_Q8_0, FY_Q4_0};

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Output",
     .name = "outfile",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = FIELD(outfile),
     .line_only = true,
     .help = "Write to this file instead of NAME-TYPE.gguf in the current directory, NAME being "
             "the last part "
             "of DIR."},
    {.group = "Output",
     .name = "outtype",
     .kind = FY_OPT_CHOICE,
     .arg = "auto|f32|f16|bf16|q8_0|q4_0",
     .offset = FIELD(outtype),
     .def = "auto",
     .help = "Type of the matrices. auto keeps the type they have, f32 becoming f16. Norms and "
             "biases are always "
             "f32; a matrix whose rows do not divide into blocks of 32 becomes f16 instead of q8_0 "
             "or q4_0."},
    {.group = "Output",
     .name = "model-name",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = FIELD(model_name),
     .line_only = true,
     .help = "The name inside the file (general.name); the last part of DIR if not given."},
    {.group = "Output",
     .name = "split-max-size",
     .kind = FY_OPT_STR,
     .arg = "N(M|G)",
     .offset = FIELD(split_max_size),
     .line_only = true,
     .help = "Split the model over files NAME-00001-of-0000N.gguf, each with at most so many bytes "
             "of tensors (M: million, G: a thousand million; a larger tensor has a file alone). "
             "Readers are given the first one."},
    {.group = "Work",
     .name = "resume",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(resume),
     .def = "yes",
     .line_only = true,
     .help = "Go on with what an interrupted conversion has left, if the checkpoint, the options "
             "and the program are the same; =no begins again, and leaves nothing when it is "
             "interrupted."},
    {.group = "Work",
     .name = "vocab-only",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(vocab_only),
     .line_only = true,
     .help = "Write keys and tokenizer, no tensors. Needs the tokenizer's files only; DIR may be "
             "one of them: tokenizer.json, a SentencePiece model, ranks of tiktoken, or the "
             "vocabulary of RWKV World."},
    {.group = "Work",
     .name = "dry-run",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(dry_run),
     .line_only = true,
     .help = "Print the plan, tensor by tensor, and write nothing."},
    FY_ROW_FETCH,
    {.group = "Work",
     .name = "list-archs",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(list_archs),
     .line_only = true,
     .help = "List the classes of models that can be converted, the architecture that each has in "
             "a GGUF file, and its family."},
    {.group = "Work",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(json),
     .line_only = true,
     .help = "Print that list as JSON."},
    {.group = "Work",
     .name = "pre",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = FIELD(pre),
     .help = "The pre-tokenizer (tokenizer.ggml.pre) for a tokenizer.json whose structure is not "
             "recognised; the message that asks for it names the nearest one."},
    {.group = "Work",
     .name = "chat-template",
     .kind = FY_OPT_STR,
     .arg = "none|NAME|FILE.jinja",
     .offset = FIELD(chat_template),
     .line_only = true,
     .help = "Leave the checkpoint's chat templates out, or put a built-in one ('ferry template "
             "--list') or a Jinja file in their place."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* Everything one conversion holds. */
typedef struct {
    const options *o;
    const char *dir; /* view */
    char *name;      /* owned; last part of the directory's path, or the repository's */
    char *out_path;  /* owned */
    fy_hf_config config;
    bool has_config;
    fy_ckpt *source; /* owned; NULL for vocabulary only */
    fy_convert_plan *plan;
    fy_hf_tokenizer *tokenizer;
    fy_gguf_writer *writer;
    fy_convert_stream *stream;
    _Atomic uint64_t peak_anon;
} job;

static void job_release(job *j)
{
    fy_convert_stream_free(j->stream);
    fy_gguf_writer_free(j->writer);
    fy_hf_tokenizer_free(j->tokenizer);
    fy_convert_plan_free(j->plan);
    fy_ckpt_close(j->source);
    fy_hf_config_release(&j->config);
    free(j->out_path);
    free(j->name);
}

static void sample_memory(job *j)
{
    uint64_t now = fy_rss_anon_bytes(), peak = atomic_load(&j->peak_anon);
    while (now > peak && !atomic_compare_exchange_weak(&j->peak_anon, &peak, now))
        continue;
}

/* --- pass 1
 * ----------------------------------------------------------------------------------------------------
 */

/* The last part of DIR's real path, so that "." has a name too. */
static int find_name(job *j, fy_err *e)
{
    if (j->name != NULL)
        return 0;
    char *real = realpath(j->dir, NULL);
    if (real == NULL)
        return fy_fail_errno(e, "%s", j->dir);
    fy_span base = fy_path_base(real);
    if (!fy_file_is_dir(j->dir)) { /* one tokenizer file: without its extension */
        const char *dot = memrchr(base.ptr, '.', base.len);
        base.len = dot != NULL && dot > base.ptr ? (size_t)(dot - base.ptr) : base.len;
    }
    j->name = base.len > 0 ? strndup(base.ptr, base.len) : strdup("model");
    free(real);
    return j->name != NULL ? 0 : fy_nomem(e);
}

/* Vocabulary only: config.json gives hyperparameters when it is there and describes a family we
 * know. */
static int read_optional_config(job *j, fy_err *e)
{
    char *path = fy_path_join(j->dir, "config.json");
    if (path == NULL)
        return fy_nomem(e);
    bool there = fy_file_exists(path);
    free(path);
    fy_err why = {0};
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
static void explain_unknown(const job *j)
{
    fy_err none = {0};
    fy_str text = {0};
    fy_ckpt *dir = fy_ckpt_open(j->dir, &none);
    fy_family_explain(&j->config, dir, &text);
    for (char *line = text.oom ? NULL : text.ptr; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        fy_log(FY_LOG_INFO, "%s", line);
        line = end != NULL ? end + 1 : NULL;
    }
    fy_str_release(&text);
    fy_ckpt_close(dir);
}

static int make_plan(job *j, fy_err *e)
{
    if (j->o->vocab_only)
        return read_optional_config(j, e);
    j->source = fy_ckpt_open_model(j->dir, &j->config, e);
    if (j->source == NULL) {
        if (e->code == FY_EUNSUPPORTED && j->config.root != NULL && j->config.family == NULL)
            explain_unknown(j);
        return -1;
    }
    j->has_config = true;
    j->plan = fy_convert_plan_new(j->source, &j->config, outtypes[j->o->outtype], e);
    return j->plan != NULL ? 0 : fy_ctx(e, "%s", j->dir);
}

static int add_tensors(job *j, fy_err *e)
{
    uint64_t split = 0;
    if (fy_split_size(j->o->split_max_size, &split, e) != 0 ||
        fy_gguf_writer_split(j->writer, split, e) != 0)
        return -1;
    for (size_t i = 0; i < j->plan->n_tensors; i++) {
        const fy_plan_tensor *t = &j->plan->tensors[i];
        char name[FY_ROW_NAME_BYTES];
        fy_plan_name(t, name);
        if (fy_gguf_add_tensor(j->writer, name, t->type, t->n_dims, t->ne, e) < 0)
            return -1;
    }
    return 0;
}

static int make_header(job *j, fy_err *e)
{
    j->tokenizer = fy_hf_tokenizer_open(j->dir, j->o->pre, e);
    if (j->tokenizer == NULL)
        return -1;
    if (j->o->chat_template != NULL &&
        fy_hf_tokenizer_use_template(j->tokenizer, j->o->chat_template, e) != 0)
        return -1;
    sample_memory(j);
    j->writer = fy_gguf_writer_new(e);
    if (j->writer == NULL)
        return -1;
    fy_gguf_meta meta = {
        .config = j->has_config ? &j->config : NULL,
        .plan = j->plan,
        .tokenizer = j->tokenizer,
        .name = fy_span_of(j->o->model_name != NULL ? j->o->model_name : j->name),
    };
    if (fy_gguf_meta_write(j->writer, &meta, e) || (j->plan != NULL && add_tensors(j, e)))
        return -1;
    sample_memory(j);
    fy_hf_tokenizer_free(j->tokenizer);
    j->tokenizer = NULL;
    return 0;
}

static int choose_path(job *j, fy_err *e)
{
    fy_str s = {0};
    if (j->o->outfile != NULL)
        fy_str_puts(&s, j->o->outfile);
    else
        fy_str_printf(&s, "%s-%s.gguf", j->name,
                      j->plan != NULL ? fy_type_name(j->plan->type) : "vocab");
    if (s.oom) {
        fy_str_release(&s);
        return fy_nomem(e);
    }
    if (s.len == 0)
        return fy_fail(e, FY_EARG, "-o has an empty name, expected the name of a file to write");
    j->out_path = s.ptr;
    return 0;
}

/* The output may stand beside the checkpoint's files, but not in the place of one. */
static int check_distinct(const job *j, fy_err *e)
{
    if (!fy_file_is_dir(j->dir) && fy_file_exists(j->out_path) &&
        fy_file_is_same(j->dir, j->out_path))
        return fy_fail(e, FY_EARG, "%s: is the input, expected another name for the output",
                       j->out_path);
    DIR *d = fy_file_exists(j->out_path) ? opendir(j->dir) : NULL;
    int rc = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        const char *end = strrchr(en->d_name, '.');
        if (end != NULL && strcmp(end, ".gguf") == 0)
            continue; /* an earlier output */
        char *path = fy_path_join(j->dir, en->d_name);
        if (path == NULL)
            rc = fy_nomem(e);
        else if (!fy_file_is_dir(path) && fy_file_is_same(path, j->out_path))
            rc = fy_fail(e, FY_EARG,
                         "%s: is a file of the checkpoint, expected another name for the output",
                         j->out_path);
        free(path);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

/* --- words
 * -----------------------------------------------------------------------------------------------------
 */

/* What happens to the source on its way. */
static const char *transform_text(fy_transform x)
{
    static const struct {
        fy_transform x;
        const char *text;
    } texts[] = {
        {FY_X_COPY, ""},
        {FY_X_LLAMA3_FREQS, "computed from rope_scaling"},
        {FY_X_LONG_FACTORS, "long_factor of rope_scaling"},
        {FY_X_SHORT_FACTORS, "short_factor of rope_scaling"},
        {FY_X_ZEROS, "zeros"},
        {FY_X_ADD_ONE, ", plus one"},
        {FY_X_TRANSPOSE, ", transposed"},
        {FY_X_TRANSPOSE_FIRST_HALF, ", first half transposed"},
        {FY_X_TRANSPOSE_SECOND_HALF, ", second half transposed"},
        {FY_X_PERMUTE_Q, ", rows permuted"},
        {FY_X_PERMUTE_K, ", rows permuted"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].x == x)
            return texts[i].text;
    }
    return ", some of its rows";
}

static void print_tensor(fy_str *s, const fy_plan_tensor *t, uint64_t bytes)
{
    char name[FY_ROW_NAME_BYTES], shape[96];
    size_t at = 0;
    fy_plan_name(t, name);
    for (uint32_t d = 0; d < t->n_dims; d++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, d > 0 ? " x " : "",
                               t->ne[d]);
    fy_str_printf(s, "%-26s %-5s %-15s %13" PRIu64 "  ", name, fy_type_name(t->type), shape, bytes);
    if (t->src != NULL) {
        fy_str_put_quoted(s, t->src->name, FY_ROW_NAME_BYTES);
        if (t->experts != NULL)
            fy_str_puts(s, " and those of the other experts");
        fy_str_printf(s, " (%s)", fy_dtype_name(t->src->dtype));
    }
    fy_str_printf(s, "%s%s\n", transform_text(t->transform),
                  t->fallback ? ", rows do not divide into blocks of 32" : "");
}

static int print_plan(const job *j, fy_err *e)
{
    fy_str s = {0};
    uint64_t bytes = 0;
    size_t n = j->plan != NULL ? j->plan->n_tensors : 0,
           n_drops = j->plan != NULL ? j->plan->n_drops : 0;
    fy_str_printf(&s, "%-26s %-5s %-15s %13s  %s\n", "tensor", "type", "shape", "bytes", "source");
    for (size_t i = 0; i < n; i++) {
        const fy_gguf_tensor *t = fy_gguf_writer_tensor(j->writer, (int64_t)i);
        print_tensor(&s, &j->plan->tensors[i], t->bytes);
        bytes += t->bytes;
    }
    for (size_t i = 0; i < n_drops; i++) {
        fy_str_puts(&s, "dropped: ");
        fy_str_put_quoted(&s, j->plan->drops[i].src->name, 120);
        fy_str_printf(&s, " (%s)\n", j->plan->drops[i].reason);
    }
    fy_str_printf(&s,
                  "%zu tensors, %" PRIu64 " bytes of tensors, %" PRIu64 " bytes in all, to %s\n", n,
                  bytes, fy_gguf_writer_file_bytes(j->writer), j->out_path);
    if (fy_gguf_writer_n_files(j->writer) > 1)
        fy_str_printf(&s, "split into %" PRIu32 " files\n", fy_gguf_writer_n_files(j->writer));
    int rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

static void say_plan(const job *j)
{
    size_t fallbacks = 0;
    for (size_t i = 0; j->plan != NULL && i < j->plan->n_tensors; i++)
        fallbacks += j->plan->tensors[i].fallback;
    if (j->plan == NULL)
        fy_log(FY_LOG_INFO, "writing %s: vocabulary only", j->out_path);
    else
        fy_log(FY_LOG_INFO, "writing %s: %s, %s, %zu tensors", j->out_path, j->config.family->name,
               fy_type_name(j->plan->type), j->plan->n_tensors);
    if (fy_gguf_writer_n_files(j->writer) > 1)
        fy_log(FY_LOG_INFO, "split into %" PRIu32 " files", fy_gguf_writer_n_files(j->writer));
    if (j->has_config && j->config.nested)
        fy_log(FY_LOG_INFO, "only the text model of the checkpoint is converted");
    if (fallbacks > 0)
        fy_log(FY_LOG_INFO, "%zu matrices become f16: their rows do not divide into blocks of 32",
               fallbacks);
    for (size_t i = 0; j->plan != NULL && i < j->plan->n_drops; i++) {
        char q[FY_QUOTE_BYTES];
        fy_log(FY_LOG_DEBUG, "dropped %s: %s",
               fy_quote(q, sizeof q, j->plan->drops[i].src->name), j->plan->drops[i].reason);
    }
}

static void say_end(job *j, double seconds)
{
    double in = j->source != NULL ? (double)fy_ckpt_bytes(j->source) : 0;
    sample_memory(j);
    fy_log(FY_LOG_INFO, "read %.1f MB, wrote %.1f MB in %.2f s, %.0f MB/s, peak RssAnon %.1f MB",
           in * 1e-6, (double)fy_gguf_writer_file_bytes(j->writer) * 1e-6, seconds,
           in * 1e-6 / (seconds > 0 ? seconds : 1), (double)atomic_load(&j->peak_anon) * 1e-6);
}

/* --- pass 2
 * ----------------------------------------------------------------------------------------------------
 */

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    job *j = user;
    if (row == 0)
        sample_memory(j);
    return fy_convert_fill(j->stream, i, row, n_rows, out, thread, e);
}

static int write_file(job *j, fy_err *e)
{
    int n = j->o->n_threads != FY_OPT_UNSET_INT ? (int)j->o->n_threads : fy_default_threads();
    if (j->plan != NULL) {
        j->stream = fy_convert_stream_new(j->plan, n, e);
        if (j->stream == NULL)
            return -1;
    }
    fy_pool *pool = fy_pool_new(n, e);
    if (pool == NULL)
        return -1;
    fy_progress progress;
    fy_str sources = {0};
    int rc = 0;
    fy_show_begin(&progress, "converting", fy_gguf_writer_file_bytes(j->writer));
    if (j->plan == NULL || !j->o->resume)
        rc = fy_gguf_write(j->writer, j->out_path, j->plan != NULL ? fill : NULL, j, pool,
                           &progress, e);
    else if ((rc = fy_convert_identity(j->dir, &sources, e)) == 0)
        rc = fy_gguf_write_resumed(j->writer, j->out_path, (fy_span){sources.ptr, sources.len},
                                   fill, j, pool, &progress, e);
    fy_show_end(&progress);
    fy_str_release(&sources);
    fy_pool_free(pool);
    return rc;
}

static int convert(job *j, fy_err *e)
{
    double begin = fy_now_s();
    if (find_name(j, e) || make_plan(j, e) || make_header(j, e) || choose_path(j, e))
        return -1;
    if (j->plan != NULL)
        fy_warn_foreign_readers(&j->config);
    if (j->o->dry_run)
        return print_plan(j, e);
    if (check_distinct(j, e))
        return -1;
    say_plan(j);
    if (write_file(j, e))
        return -1;
    say_end(j, fy_now_s() - begin);
    return 0;
}

static int list_archs(bool json, fy_err *e)
{
    fy_str s = {0};
    fy_family_list(json, &s);
    int rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

static int run(void *o, int n_args, char **args, fy_err *e)
{
    const options *opt = o;
    if (opt->list_archs && n_args > 0)
        return fy_fail(e, FY_EARG, "--list-archs takes no directory");
    if (opt->list_archs)
        return list_archs(opt->json, e);
    if (opt->json)
        return fy_fail(e, FY_EARG, "--json goes with --list-archs");
    if (n_args == 0)
        return fy_fail(e, FY_EARG, "too few arguments; usage: ferry convert [options] %s",
                       SYNOPSIS);
    fy_hub_place place;
    if (fy_hub_checkpoint(args[0], opt->fetch, &place, e) != 0)
        return -1;
    job j = {.o = opt, .dir = place.dir, .name = place.name};
    place.name = NULL; /* the job's now */
    int rc = fy_file_is_dir(j.dir) || opt->vocab_only
                 ? convert(&j, e)
                 : fy_fail(e, FY_EARG,
                           "%s is a file; give the checkpoint's directory, or --vocab-only with a "
                           "tokenizer file",
                           args[0]);
    job_release(&j);
    fy_hub_place_release(&place);
    return rc;
}

const fy_verb fy_verb_convert = {
    .name = "convert",
    .summary = "turn a checkpoint into a GGUF file",
    .synopsis = SYNOPSIS,
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Converts a Hugging Face checkpoint directory (config.json, model.safetensors or shards "
        "with their index, "
        "tokenizer files) into one GGUF file, quantizing on the way if asked. Memory use does not "
        "grow with the "
        "model. Of a multi-modal checkpoint, the text model is converted.\n\n"
        "Every tensor of the checkpoint is accounted for before the first byte is written: one "
        "that is missing, "
        "misshapen or unknown is an error that names it. The file has its final name only when it "
        "is whole. The "
        "same checkpoint and options give the same bytes, whatever the number of threads, "
        "interrupted on the way or not.\n\n"
        "A checkpoint in the cache of Hugging Face's tools may be given by its directory there or "
        "as ORG/NAME (ferry fetch).\n\n"
        "q8_0 and q4_0 are pure: every matrix takes the type, the embedding and the output "
        "included.",
    .examples = "# keep the checkpoint's type\n"
                "ferry convert checkpoint\n"
                "# quantize to 4 bits on the way\n"
                "ferry convert checkpoint --outtype q4_0 -o model.gguf\n"
                "# what would be written\n"
                "ferry convert checkpoint --outtype q8_0 --dry-run\n"
                "# in files of at most 2 GB\n"
                "ferry convert checkpoint --split-max-size 2G\n"
                "# what can be converted\n"
                "ferry convert --list-archs\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
