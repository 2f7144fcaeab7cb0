/* Shared by cutting and joining: the files of the chunks, what each holds, and the id of the model
 * that was cut. */
#ifndef FY_WORKSPACE_CHUNK_IMPL_H
#define FY_WORKSPACE_CHUNK_IMPL_H

#include "arch/chunk_info.h"
#include "base/hash.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/qnn_config.h"
#include "cli/cut_model.h"
#include "model/model.h"
#include "workspace/npu/chunk.h"

/* --- files ------------------------------------------------------------------------------------ */

#define FY_CHUNK_FILE_BYTES 64
/* "ggml/weights.gguf", "qnn/chunk_3.gguf", "qnn/lm_head.gguf", "qnn/lm_head_0.gguf" */
const char *fy_chunk_file_name(const fy_chunk_info *p, char out[FY_CHUNK_FILE_BYTES]);

#define FY_CHUNK_CONFIG FY_QNN_DIR "/" FY_QNN_CONFIG_NAME

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
    char *path;                   /* owned: of its file */
    fy_gguf_writer *w;            /* owned */
    fy_chunk_out_tensor *tensors; /* owned, as many as the writer has */
    size_t n_tensors;
    bool there; /* the file is whole */
} fy_chunk_out;

/* From source and info, for a file below dir. */
int fy_chunk_out_plan(fy_chunk_out *p, const char *dir, fy_err *e);
void fy_chunk_out_release(fy_chunk_out *p);
fy_gguf_fill fy_chunk_out_fill; /* user: the fy_chunk_out */
/* Is the file that exists this chunk? 0: yes; 1: no; -1. The header and the size alone, or all its
 * bytes as well, which progress counts. */
int fy_chunk_out_is_there(const fy_chunk_out *p, fy_err *e);
int fy_chunk_out_compare(const fy_chunk_out *p, fy_progress *progress, fy_err *e);

/* Does a row of the output matrix belong to each token (its bias: an element)? */
bool fy_row_is_sliced(const fy_tensor_row *row);

/* --- qnn/config.json -------------------------------------------------------------------------- */

/* outs: all chunks, in order, of which only the info counts. FY_EARG for what no reader accepts. */
int fy_chunk_config(const fy_chunk_source *s, const fy_cut *cut, const fy_chunk_out *outs, size_t n,
                    fy_str *out, fy_err *e);

/* The numbers of its tensors in the model that was cut, one for each. Messages do not name the file
 * (chunk_check.c). */
int fy_chunk_places(const fy_gguf *g, const fy_gguf_kv **places, fy_err *e);

#endif
