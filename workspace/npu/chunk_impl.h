/* Shared by cutting and joining: the files of the chunks, what each holds, and the id of the model
 * that was cut. */
#ifndef FY_WORKSPACE_CHUNK_IMPL_H
#define FY_WORKSPACE_CHUNK_IMPL_H

#include "arch/chunk_info.h"
#include "base/hash.h"
#include "base/str.h"
#include "cli/cut_model.h"
#include "model/model.h"
#include "workspace/npu/chunk.h"

/* --- files ------------------------------------------------------------------------------------ */

#define FY_CHUNK_FILE_BYTES 64
/* "ggml/weights.gguf", "qnn/chunk_3.gguf", "qnn/lm_head.gguf", "qnn/lm_head_0.gguf" */
const char *fy_chunk_file_name(const fy_chunk_info *p, char out[FY_CHUNK_FILE_BYTES]);

/* Calls `each` for everything in dir, dir/ggml and dir/qnn, named from dir on. A directory that is
 * not there is empty. Stops at the first -1. */
typedef int fy_chunk_file(void *user, const char *rel, fy_err *e);
int fy_chunk_files(const char *dir, fy_chunk_file *each, void *user, fy_err *e);

/* --- which model ------------------------------------------------------------------------------ */

/* ferry.chunk.model is the SHA-256, in lower-case hex digits, of
 *
 *   - every key in the file's order, but for split.* and ferry.chunk.*, as GGUF v3 encodes it:
 * name, type, value;
 *   - every tensor in the file's order: its name, number of dimensions, dimensions and type, as
 * GGUF v3 encodes them, then the first 4 KiB of its data, or all of it.
 *
 * Cheap, and enough to tell one fine-tune of a model from another. */
enum { FY_CHUNK_ID_BYTES = 4096 };
typedef struct {
    fy_sha256 *hash;
} fy_chunk_id;
bool fy_chunk_is_own_key(fy_span key); /* ferry.chunk.* or split.* */
int fy_chunk_id_begin(fy_chunk_id *id, const fy_gguf *keys, fy_err *e);
/* data: the first FY_CHUNK_ID_BYTES, or t->bytes when that is less. */
int fy_chunk_id_add(fy_chunk_id *id, const fy_gguf_tensor *t, const void *data, fy_err *e);
/* Frees what it holds, also when out is NULL. */
int fy_chunk_id_end(fy_chunk_id *id, char out[FY_CHUNK_MODEL_BYTES], fy_err *e);

/* --- one chunk -------------------------------------------------------------------------------- */

/* What a cut is of, the same for all its chunks. */
typedef struct {
    const fy_gguf *gguf;
    const fy_family *family;
    const fy_hparams *hp;
    const fy_gguf_tensor *tied; /* what an output matrix is copied from; NULL: it has its own */
} fy_chunk_source;

typedef struct {
    const fy_gguf_tensor *from;
    uint64_t at;    /* of the first byte, in the data of `from` */
    uint32_t place; /* number of `from` in the model */
} fy_chunk_out_tensor;

typedef struct {
    const fy_chunk_source *source;
    fy_chunk_info info;
    fy_gguf_writer *w;            /* owned */
    fy_chunk_out_tensor *tensors; /* owned, as many as the writer has */
    size_t n_tensors;
} fy_chunk_out;

int fy_chunk_out_init(fy_chunk_out *p, const fy_chunk_source *s, const fy_chunk_info *info,
                      fy_err *e);
void fy_chunk_out_release(fy_chunk_out *p);
fy_gguf_fill fy_chunk_out_fill; /* user: the fy_chunk_out */
/* Is the file at path this chunk? 0: yes; 1: no; -1. The header and the size alone, or all its
 * bytes as well, which progress counts. */
int fy_chunk_out_is_at(const fy_chunk_out *p, const char *path, fy_err *e);
int fy_chunk_out_compare(const fy_chunk_out *p, const char *path, fy_progress *progress, fy_err *e);

/* Does a row of the output matrix belong to each token (its bias: an element)? */
bool fy_row_is_sliced(const fy_tensor_row *row);

/* --- qnn/config.json -------------------------------------------------------------------------- */

/* parts: all chunks, in order. FY_EARG for what no reader accepts. */
int fy_chunk_config(const fy_chunk_source *s, const fy_cut *cut, const fy_chunk_info *infos,
                    size_t n, fy_str *out, fy_err *e);

/* --- what must be in the chunks (chunk_check.c) ----------------------------------------------- */

/* The tensors that each chunk has to hold and no other, in the shapes that the hyperparameters
 * give, and all chunks together every tensor of the model once. */

/* Messages name the tensor and not the file. */
int fy_chunk_check_tensors(const fy_cut_model *m, const fy_gguf *g, const fy_chunk_info *info,
                           fy_err *e);
/* Are all of these graphs chunks? */
bool fy_chunk_none_compiled(const fy_qnn_graph *g, size_t n);
/* By ferry.chunk.places. The copies of several slices of the lm_head have to be equal, and the id
 * of all tensors that of ferry.chunk.model: of each the first 4 KiB are read. */
int fy_chunk_check_places(const fy_cut_model *m, fy_err *e);

#endif
