/* What is in a GGUF, safetensors or PyTorch file, a context binary of a compiled model, a
 * checkpoint directory or a workspace, as text for people or JSON for programs. A file is
 * recognised by its first bytes, by its name only when these decide nothing, and checked as
 * strictly as by any verb. Of a checkpoint that ferry can convert the keys and the tokenizer are
 * shown as the conversion would write them.
 *
 * Every format becomes the same listing first, so that each column and each JSON member is written
 * once. */
#ifndef FY_CONVERT_INSPECT_H
#define FY_CONVERT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/json_tree.h"
#include "cli/cut_model.h"
#include "convert/look/model_source.h"
#include "convert/write/planned_gguf.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "format/torch_file.h"

/* The options of the verb. */
typedef struct {
    bool json, quiet, verbose;
    bool hash;          /* also SHA-256 of each tensor: reads the whole file */
    const char *tensor; /* instead of all that: statistics and values of this tensor; or NULL */
    int64_t n_values;   /* how many of them are shown ... */
    const char *at;     /* ... from this index on, as compare prints it: "[3, 9]"; NULL: from 0 */
} fy_inspect_options;

/* Appends the description of the file to `out`. */
int fy_inspect(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e);

/* The space that tensors of one type take. */
typedef struct {
    const char *type;
    uint64_t n_tensors, elems, bytes;
} fy_listing_type;

/* What is listed: the tensors of a source, or a plan without weights. */
typedef struct {
    const char *path;
    const char *workspace, *draft; /* views: the workspace whose main model this is; its draft */
    const char *model_dir;         /* view: with the weights and qnn/; NULL: a file was named */
    bool has_chain;
    fy_qnn_config config; /* owned; of a chain */
    fy_chunk_info chunk;  /* with a chain, or of a chunk: what g is; else all 0 */
    fy_hparams hp;        /* the same */
    fy_source *source;    /* owned; NULL: a directory without weights ... */
    fy_err no_weights;    /* ... for this reason */
    const fy_gguf *g;     /* views of source: the file that it is; all NULL: a directory */
    const fy_st *st;
    const fy_torch *pt;
    fy_planned_gguf *plan; /* owned; what a directory would become; NULL: ... */
    fy_err no_plan;        /* ... for this reason */
    const fy_gguf *keys;   /* view: g, or the plan's; NULL: there are none */
    size_t n_keys, n_tensors;
    uint64_t elems, bytes;  /* of all tensors */
    fy_listing_type *types; /* owned; those with most bytes first */
    size_t n_types;
    char (*hashes)[FY_SHA256_HEX]; /* owned; of each tensor, or NULL */
    fy_json_maker json;
} fy_listing;

/* Name of key k of the metadata; of value k in PyTorch's files. */
fy_span fy_inspect_key(const fy_listing *l, size_t k);

/* inspect_show.c */
json_t *fy_inspect_float_json(double v, bool is_f32);
void fy_inspect_put_text(fy_str *out, const fy_listing *l);
int fy_inspect_put_json(fy_str *out, fy_listing *l, fy_err *e);

/* inspect_chain.c: g as a chunk of a model that was cut, and the chain that qnn/config.json of
 * model_dir describes, if there is one. */
int fy_inspect_open_chunk(fy_listing *l, fy_err *e);
int fy_inspect_open_chain(fy_listing *l, fy_err *e);
void fy_inspect_put_chunk(fy_str *out, const fy_listing *l);
void fy_inspect_put_chain(fy_str *out, const fy_listing *l);
/* The file of a model's directory that has the tensor: the weights, else a chunk; the weights
 * also when none has it. The caller frees it; NULL: out of memory. */
char *fy_inspect_file_of(const char *model_dir, const char *tensor);
json_t *fy_inspect_chunk_json(fy_listing *l);
json_t *fy_inspect_chain_json(fy_listing *l);

/* inspect_binary.c: 1: path is a context binary with its description, which was appended; 0: it is
 * something else; -1. */
int fy_inspect_binary(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e);

/* inspect_tensor.c: o->tensor of what `path` names. */
int fy_inspect_tensor(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e);

#endif
