/* ferry inspect: opens what the path names, counts its tensors by type, hashes them when asked, and
 * passes the listing on to be printed (inspect_show.c, inspect_chain.c). A single tensor is the
 * matter of inspect_tensor.c, a context binary that of inspect_binary.c. */
#include "convert/look/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "bundle/bundle.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

/* --- one listing of every format -------------------------------------------------------------- */

fy_span fy_inspect_key(const fy_listing *l, size_t k)
{
    if (l->keys != NULL)
        return fy_gguf_kv_at(l->keys, k)->key;
    if (l->pt != NULL)
        return fy_torch_value_at(l->pt, k)->name;
    fy_span key, value;
    fy_st_meta_at(l->st, k, &key, &value);
    return key;
}

/* --- opening --------------------------------------------------------------------------------- */

/* Of a checkpoint whose weights are not there, its configuration is shown, if that can be read;
 * weights that are damaged are an error. */
static int open_listing(fy_listing *l, fy_err *e)
{
    bool is_dir = fy_file_is_dir(l->path);
    l->source = fy_source_open(l->path, &l->no_weights);
    if (l->source == NULL && (!is_dir || l->no_weights.code != FY_EIO))
        return fy_fail(e, l->no_weights.code, "%s", l->no_weights.msg);
    if (is_dir) {
        l->plan = fy_planned_gguf_open(l->path, l->source != NULL ? 1 : 0, &l->no_plan);
        if (l->no_plan.code == FY_ENOMEM)
            return fy_nomem(e);
        if (l->source == NULL && l->plan == NULL)
            return fy_fail(e, l->no_weights.code, "%s", l->no_weights.msg);
    } else {
        l->g = l->source->keys;
        l->st = l->source->st;
        l->pt = l->source->torch;
    }
    l->keys = l->plan != NULL ? fy_planned_gguf_file(l->plan) : l->g;
    return 0;
}

/* --- counting --------------------------------------------------------------------------------- */

static int add_to_type(fy_listing *l, size_t *cap, const fy_source_tensor *t, fy_err *e)
{
    const fy_listing_type none = {.type = t->type};
    size_t i = 0;
    while (i < l->n_types && strcmp(l->types[i].type, t->type) != 0)
        i++;
    if (i == l->n_types && fy_append(&l->types, &l->n_types, cap, &none, sizeof none, e) != 0)
        return -1;
    l->types[i].n_tensors++;
    l->types[i].elems += t->n_elems;
    l->types[i].bytes += t->bytes;
    return 0;
}

static int by_bytes(const void *x, const void *y)
{
    const fy_listing_type *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->type, b->type);
}

static int count(fy_listing *l, fy_err *e)
{
    size_t cap = 0;
    l->n_keys = l->keys != NULL ? fy_gguf_n_kv(l->keys)
                : l->st != NULL ? fy_st_n_meta(l->st)
                : l->pt != NULL ? fy_torch_n_values(l->pt)
                                : 0;
    l->n_tensors = l->source != NULL ? l->source->n_tensors : 0;
    for (size_t i = 0; i < l->n_tensors; i++) {
        const fy_source_tensor *t = &l->source->tensors[i];
        l->elems += t->n_elems;
        l->bytes += t->bytes;
        if (add_to_type(l, &cap, t, e) != 0)
            return -1;
    }
    if (l->n_types > 1)
        qsort(l->types, l->n_types, sizeof *l->types, by_bytes);
    return 0;
}

/* --- hashes ---------------------------------------------------------------------------------- */

enum { HASH_ELEMS = 1 << 20, GATHER_BYTES = 64 << 10 };

static int hash_strided(fy_sha256 *h, const fy_torch_tensor *t, fy_err *e)
{
    uint8_t values[GATHER_BYTES];
    uint64_t unit = fy_dtype_bits(t->dtype) / 8, n = t->bytes / unit, most = GATHER_BYTES / unit;
    for (uint64_t i = 0, now; i < n; i += now) {
        now = n - i < most ? n - i : most;
        fy_torch_gather(t, i, now, values);
        if (fy_sha256_add(h, values, (size_t)(now * unit), e) != 0)
            return -1;
    }
    return 0;
}

/* Drops what was hashed from resident memory. */
static int hash_tensor(fy_sha256 *h, fy_listing *l, const fy_source_tensor *t, fy_err *e)
{
    if (t->raw == NULL && l->pt != NULL)
        return hash_strided(h, fy_torch_tensor_at(l->pt, t->index), e);
    const uint64_t step = HASH_ELEMS / t->unit * t->unit;
    for (uint64_t at = 0, now; at < t->n_elems; at += now) {
        now = t->n_elems - at < step ? t->n_elems - at : step;
        if (fy_sha256_add(h, t->raw + fy_source_bytes_of(t, at), fy_source_bytes_of(t, now), e) !=
            0)
            return -1;
        fy_source_drop(l->source, t, at, now);
    }
    return 0;
}

/* Fills l->hashes: SHA-256 of the elements of every tensor, row-major and little-endian. */
static int hash_all(fy_listing *l, fy_err *e)
{
    uint8_t sum[FY_SHA256_BYTES];
    l->hashes = calloc(l->n_tensors + 1, sizeof *l->hashes);
    if (l->hashes == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < l->n_tensors; i++) {
        fy_sha256 *h = fy_sha256_new(e);
        if (h == NULL)
            return -1;
        if (hash_tensor(h, l, &l->source->tensors[i], e) != 0) {
            fy_sha256_end(h, NULL, NULL);
            return -1;
        }
        if (fy_sha256_end(h, sum, e) != 0)
            return -1;
        fy_sha256_to_hex(sum, l->hashes[i]);
    }
    return 0;
}

/* --- all -------------------------------------------------------------------------------------- */

static int show(fy_listing *l, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    if (o->hash && fy_file_is_dir(l->path))
        return fy_fail(e, FY_EARG, "%s: --hash takes a file, give one of the checkpoint's",
                       l->path);
    if (count(l, e) != 0)
        return -1;
    if (o->hash && hash_all(l, e) != 0)
        return fy_ctx(e, "%s", l->path);
    if (o->json)
        return fy_inspect_put_json(out, l, e);
    fy_inspect_put_text(out, l);
    return out->oom ? fy_nomem(e) : 0;
}

static int inspect(fy_listing *l, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    int rc = open_listing(l, e) || fy_inspect_open_chunk(l, e) ||
                     (l->model_dir != NULL && fy_inspect_open_chain(l, e)) || show(l, o, out, e)
                 ? -1
                 : 0;
    fy_qnn_config_release(&l->config);
    free(l->hashes);
    free(l->types);
    fy_source_close(l->source);
    fy_planned_gguf_close(l->plan);
    return rc;
}

/* workspace: whose main model it is, or NULL; draft: its draft model, or NULL. */
static int inspect_model_dir(const char *dir, const char *workspace, const char *draft,
                             const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    char *file = o->tensor != NULL ? fy_inspect_file_of(dir, o->tensor)
                                   : fy_path_join(dir, FY_BUNDLE_WEIGHTS);
    fy_listing l = {.path = file, .workspace = workspace, .draft = draft, .model_dir = dir};
    const int rc = file == NULL        ? fy_nomem(e)
                   : o->tensor != NULL ? fy_inspect_tensor(file, o, out, e)
                                       : inspect(&l, o, out, e);
    free(file);
    return rc;
}

static int inspect_workspace(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(path, &b, e) != 0)
        return -1;
    char *dir = fy_path_join(path, b.model_main);
    const int rc =
        dir != NULL ? inspect_model_dir(dir, path, b.model_draft, o, out, e) : fy_nomem(e);
    free(dir);
    fy_bundle_release(&b);
    return rc;
}

int fy_inspect(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    if (fy_dir_has(path, FY_BUNDLE_WORKSPACE_JSON))
        return inspect_workspace(path, o, out, e);
    if (fy_dir_has(path, FY_BUNDLE_WEIGHTS)) /* of PowerServe, or cut by chunk */
        return inspect_model_dir(path, NULL, NULL, o, out, e);
    const int binary = fy_inspect_binary(path, o, out, e);
    if (binary != 0)
        return binary == 1 ? 0 : -1;
    if (o->tensor != NULL)
        return fy_inspect_tensor(path, o, out, e);
    fy_listing l = {.path = path};
    return inspect(&l, o, out, e);
}

/* --- the verb -------------------------------------------------------------------------------- */

typedef fy_inspect_options options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object instead of tables."},
    {.group = "Output",
     .name = "hash",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, hash),
     .help = "Read the data, too, and show the SHA-256 of each tensor: of its elements in "
             "row-major order, little-endian, without gaps."},
    {.group = "One tensor",
     .name = "tensor",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, tensor),
     .line_only = true,
     .help = "Instead of all that: read the tensor of this name, and show its smallest and largest "
             "value, mean and standard deviation, how many values are zero, NaN or infinite, and "
             "the first of them."},
    {.group = "One tensor",
     .name = "values",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_values),
     .def = "8",
     .min = 0,
     .max = 1 << 20,
     .line_only = true,
     .help = "How many values to show."},
    {.group = "One tensor",
     .name = "at",
     .kind = FY_OPT_STR,
     .arg = "I,J",
     .offset = offsetof(options, at),
     .line_only = true,
     .help = "Begin at this element, row first, as 'ferry compare' prints it."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    if (o->at != NULL && o->tensor == NULL)
        return fy_fail(e, FY_EARG, "--at goes with --tensor");
    if (o->hash && o->tensor != NULL)
        return fy_fail(e, FY_EARG, "--hash and --tensor exclude each other: give one of them");
    fy_str out = {0};
    int rc = fy_inspect(args[0], o, &out, e);
    if (rc == 0)
        rc = fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

const fy_verb fy_verb_inspect = {
    .name = "inspect",
    .summary = "show what is in a model file, a checkpoint or a workspace",
    .synopsis = "PATH",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks the header of a file by every rule of its format and prints what the model does, "
        "its tokenizer and chat templates, the space of each type, its keys, and its tensors: "
        "name, "
        "type, shape, bytes and offset in the data section. Values are shown short and safe for a "
        "terminal. The format is recognised by the first bytes, not by the name.\n\n"
        "PATH may be a GGUF, safetensors or PyTorch file; a context binary that 'ferry compile' "
        "made, whose description next to it is shown; the directory of a checkpoint, whose "
        "keys and tokenizer are shown as a conversion would write them; a workspace, whose main "
        "model is shown; or a model's directory with ggml/weights.gguf, such as 'ferry chunk' "
        "and 'ferry compile' make. "
        "Of a model that was cut the chain is drawn: which chunk computes what, and what it passes "
        "to the next.\n\n"
        "A file that breaks a rule is refused, and the message names the rule. A Git LFS pointer, "
        "an "
        "HTML page and other things found where weights should be are recognised. The tensor data "
        "itself is not "
        "read without --hash.\n\n"
        "PyTorch files (.bin, .pt, .pth) are zip archives or, before version 1.6, streams of "
        "pickles. The pickle is read as data and never run: of a nested checkpoint the keys are "
        "joined with dots, numbers and texts are shown as values, and of an object of any class "
        "but PyTorch's tensors only the name is shown. offset counts from the start of the file.",
    .examples = "ferry inspect model.gguf\n"
                "# the type of every tensor, for a script\n"
                "ferry inspect --json model.gguf | jq -r '.tensors[] | .name + \" \" + .type'\n"
                "# what a conversion of this directory would be\n"
                "ferry inspect checkpoint\n"
                "# ten values of a tensor, from row 3, element 9 on\n"
                "ferry inspect model.gguf --tensor token_embd.weight --at 3,9 --values 10\n"
                "# what was cut for an NPU\n"
                "ferry inspect cut\n"
                "# the same weights have the same hashes, whatever holds them\n"
                "ferry inspect --hash checkpoint/model.safetensors\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
