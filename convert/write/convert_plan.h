/* The plan of a conversion: every tensor of the output file with its type, shape and source, made
 * from headers alone. Every tensor of the checkpoint is accounted for: it has a place in the
 * output, or it is dropped for a stated reason, or the plan fails and names it together with all
 * others that are missing, misshapen or unknown.
 *
 * Borrows the directory and the config; both must outlive it. */
#ifndef FY_CONVERT_CONVERT_PLAN_H
#define FY_CONVERT_CONVERT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "convert/source/hf_config.h"
#include "convert/source/checkpoint.h"
#include "policy/type_policy.h"

/* Instead of a type: matrices keep the type they have, f32 and f64 become f16. */
#define FY_OUTTYPE_AUTO FY_TYPE_COUNT

typedef struct {
    const fy_tensor_row *row;
    fy_transform transform; /* the row's, less what the checkpoint has done already */
    uint32_t layer;
    fy_type type;
    bool fallback; /* another type, because the rows do not divide into the blocks of the chosen one
                    */
    uint32_t n_dims;
    uint64_t ne[FY_GGUF_MAX_DIMS];
    const fy_ckpt_tensor *src;      /* view; the first when several are stacked; NULL: computed */
    const fy_ckpt_tensor **stacked; /* owned; [n_stacked]; NULL: one source has all rows */
    uint32_t n_stacked;
} fy_plan_tensor;

typedef struct {
    const fy_ckpt_tensor *src; /* view */
    const char *reason;
} fy_plan_drop;

typedef struct {
    fy_type outtype;  /* one that fy_row_encode writes, or FY_OUTTYPE_AUTO */
    fy_recipe recipe; /* policy/type_policy.h, with the next three */
    const fy_type *output_type, *embedding_type; /* NULL: not given */
    fy_type_rules *rules;                        /* NULL: none */
    bool transpose_down; /* ffn_down becomes ffn_down_t: a row for each neuron */
    bool predictors;     /* the same, and the directory has predictors (predictors.h): the tensors
                            are those that PowerInfer reads */
    bool embedding_only; /* token_embd alone; FY_OUTTYPE_AUTO is then f32 */
    bool allow_unmapped; /* an unknown tensor is dropped */
} fy_plan_options;

typedef struct {
    const fy_hf_config *config; /* view */
    fy_plan_tensor *tensors;    /* owned; in the order of the output file */
    size_t n_tensors;
    fy_plan_drop *drops; /* owned */
    size_t n_drops;
    fy_file_type file;        /* type of the matrices, or of most of them; how they got it */
    uint64_t n_params;        /* elements that the whole model has from the checkpoint ... */
    uint64_t n_expert_params; /* ... and those of its experts, which are n_expert times as many as
                                 one of them has */
} fy_convert_plan;

/* NULL on failure. */
fy_convert_plan *fy_convert_plan_new(const fy_ckpt *dir, const fy_hf_config *config,
                                     const fy_plan_options *o, fy_err *e);
void fy_convert_plan_free(fy_convert_plan *p); /* NULL is fine */

/* The GGUF name of tensor t. */
void fy_plan_name(const fy_plan_tensor *t, char out[FY_ROW_NAME_BYTES]);

/* Is there anything to compute for this row? */
bool fy_plan_row_is_computed(const fy_hf_config *c, const fy_tensor_row *row);
/* Must the checkpoint have this row? */
bool fy_plan_row_is_required(const fy_hf_config *c, const fy_tensor_row *row);

#endif
