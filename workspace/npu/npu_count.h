/* What the chunks of a plan take, in bytes: the formulas of docs/npu.md, each in one place. Sums
 * that 64 bits cannot count are UINT64_MAX (FY_NPU_TOO_MANY), which fits nowhere.
 *
 * A counter is made once for a plan; after that the bytes of any range of layers take no more than
 * a few additions, because cutting asks for thousands of ranges. */
#ifndef FY_WORKSPACE_NPU_COUNT_H
#define FY_WORKSPACE_NPU_COUNT_H

#include "workspace/npu/npu_plan.h"

#define FY_NPU_TOO_MANY UINT64_MAX

enum { FY_NPU_LAYER_KINDS = 4 }; /* window or not, rotating or not */

typedef struct {
    const fy_npu_model *model;   /* view */
    const fy_npu_params *params; /* view: complete */
    uint32_t n_cache;
    uint32_t copies;   /* of the weights: 1 when the graphs share them */
    uint64_t *weights; /* owned, [n_layers + 1]: of the layers before, once */
    uint64_t *ops;     /* owned, the same: code and tables, of all graphs */
    uint32_t *kinds; /* owned, [n_layers + 1][FY_NPU_LAYER_KINDS]: how many before are of a kind */
    uint64_t layer_io, layer_kv; /* what each layer adds to the buffers */
    uint64_t
        once_io[1 << FY_NPU_LAYER_KINDS]; /* of layers of these kinds; TOO_MANY: not yet known */
    uint64_t scratch;                     /* of a range of layers */
    uint64_t head_vectors;                /* norm of the lm_head, in every slice */
    uint64_t head_width;                  /* inputs of the output matrix */
    bool head_bias;
    uint64_t head_ops, head_ops_more; /* of 32 tokens of the lm_head; of each 32 more */
    fy_err refused;                   /* why a graph cannot be composed; code FY_OK: it can */
} fy_npu_counter;

/* model, params and what they point to have to outlive the counter. */
int fy_npu_counter_init(fy_npu_counter *c, const fy_npu_model *model, const fy_npu_params *params,
                        fy_err *e);
void fy_npu_counter_release(fy_npu_counter *c);

/* Layers [first, end), tokens [first, end) of the lm_head. Everything but the session. */
void fy_npu_count_layers(fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_chunk *out);
void fy_npu_count_head(const fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_chunk *out);

/* All matrices of the model as a recipe has them, once: what recipes are ordered by. */
uint64_t fy_npu_recipe_weights(const fy_npu_model *m, const fy_npu_recipe *r);
/* Elements of the lm_head and the first n_layers. */
uint64_t fy_npu_n_weights(const fy_npu_model *m, uint32_t n_layers);
/* Of what stays on the CPU, in the file's type. */
uint64_t fy_npu_embedding_bytes(const fy_npu_model *m);
/* Memory of the phone when the CPU runs the first n_layers of the model. */
uint64_t fy_npu_cpu_peak(const fy_npu_model *m, uint32_t n_layers, uint32_t n_ctx);
/* The longest row that an operation reads at once, in elements. */
uint64_t fy_npu_widest_row(const fy_npu_model *m, uint32_t n_ctx);

uint64_t fy_npu_add(uint64_t a, uint64_t b);
uint64_t fy_npu_mul(uint64_t a, uint64_t b);

#endif
