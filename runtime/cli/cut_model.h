/* The files of a model that was cut for an NPU, open: the weights for the CPU (the embedding, or a
 * complete model next to its chunks), qnn/config.json, and the chunks that it names, each
 * once and in its order, layers before the lm_head. Only headers are read.
 *
 * Opening checks each file in itself: that it is a whole GGUF file of a family that ferry computes,
 * and a chunk. Whether they fit together is checked by workspace/npu/chunk.h. Context binaries
 * (*.bin) have no header and are not counted as chunks here. */
#ifndef FY_CLI_CUT_MODEL_H
#define FY_CLI_CUT_MODEL_H

#include "arch/chunk_info.h"
#include "base/file.h"
#include "bundle/qnn_config.h"
#include "model/chain.h"
#include "model/model.h"

typedef struct {
    const char *path; /* view of the configuration: relative to qnn/ */
    fy_gguf *gguf;    /* owned */
    fy_hparams hp;
    fy_chunk_info info;
} fy_cut_chunk;

typedef struct {
    fy_gguf *weights;        /* owned */
    const fy_family *family; /* view of a static table */
    fy_hparams hp;
    fy_chunk_info info; /* of the weights: FY_CHUNK_EMBEDDING or FY_CHUNK_WHOLE */
    fy_qnn_config config;
    fy_cut_chunk *chunk; /* owned */
    size_t n_chunks;
} fy_cut_model;

/* weights: the GGUF file; qnn: the directory with config.json. Messages begin with the path of the
 * file that they are about. */
int fy_cut_model_open(const char *weights, const char *qnn, fy_cut_model *out, fy_err *e);
void fy_cut_model_close(fy_cut_model *m);

/* qnn/config.json alone. */
int fy_cut_config_read(const char *qnn, fy_qnn_config *out, fy_err *e);
/* Family, hyperparameters and chunk of an open GGUF file. FY_EUNSUPPORTED for an unknown family. */
int fy_cut_header(const fy_gguf *g, const fy_family **family, fy_hparams *hp, fy_chunk_info *info,
                  fy_err *e);

/* What to do with a preset prompt (kv_size of config.json). */
typedef enum {
    FY_PRESET_AUTO,  /* use its keys and values; of unknown tokens: every text follows it */
    FY_PRESET_NEVER, /* leave it out */
} fy_preset_mode;

/* Gives m, whose embedding is open, the graphs of qnn/config.json on a device (model/chain.h),
 * which becomes the model's, or is closed on failure. m: the weights next to the directory qnn.
 * What a file of graphs is, GGUF or compiled, is the device's matter. */
int fy_model_add_graphs(fy_model *m, const char *qnn, fy_graph_device *device,
                        fy_preset_mode preset, fy_err *e);
/* The same on the CPU. */
int fy_model_add_chunks(fy_model *m, const char *qnn, const fy_map_options *how, fy_err *e);

/* Calls `each` for every GGUF file of m: its own, and the chunks of a cut model. */
typedef void fy_model_file(void *user, const fy_gguf *g);
int fy_model_each_file(const fy_model *m, fy_model_file *each, void *user, fy_err *e);

#endif
