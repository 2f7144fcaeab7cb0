/* In which type an NPU gets each weight of a model: a default, and rules by layer and tensor, as
 * data: data/recipes/NAME.json beside this file (compiled in and installed),
 * $XDG_CONFIG_HOME/ferry/recipes.d/NAME.json, or a file that is named. Schema: docs/npu-chips.md.
 *
 * Types are written as ExecuTorch writes them: activation bits, "a", weight bits, "w". */
#ifndef FY_WORKSPACE_NPU_RECIPE_H
#define FY_WORKSPACE_NPU_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "workspace/npu/soc_table.h"

typedef enum {
    FY_NPU_16A4W,   /* 4-bit weights, a scale per output channel */
    FY_NPU_LPBQ_16, /* 4-bit weights in blocks of 16, 32 or 64 inputs (QNN's blockwise expansion) */
    FY_NPU_LPBQ_32,
    FY_NPU_LPBQ_64,
    FY_NPU_16A8W,
    FY_NPU_8A4W,
    FY_NPU_FP16,
    FY_NPU_FP16A8W, /* weights of 8 or 4 bits, a scale per output channel, times 16-bit floats: no
                       calibration */
    FY_NPU_FP16A4W,
    FY_NPU_TYPE_COUNT,
} fy_npu_type;

const char *fy_npu_type_name(fy_npu_type t); /* "16a4w", "16a4w-lpbq32", "8a4w", "fp16a8w" ... */
bool fy_npu_type_is_float(fy_npu_type t);    /* multiplies 16-bit floats */
unsigned fy_npu_type_bits(fy_npu_type t);    /* of a weight */
unsigned fy_npu_type_block(fy_npu_type t);   /* inputs that share a block scale; 0: it has none */
fy_npu_type fy_npu_type_of(fy_span name);    /* FY_NPU_TYPE_COUNT when unknown */
/* Bytes in a context binary of a matrix with n_out channels of n_in inputs: padded to the tiles of
 * HTP (32 x 32), with its scales. False when that is more than 64 bits count. */
bool fy_npu_matrix_bytes(fy_npu_type t, uint64_t n_out, uint64_t n_in, uint64_t *bytes);
/* Why rows of n_in inputs cannot have this type (LPBQ wants whole blocks); NULL: they can. */
const char *fy_npu_type_refuses(fy_npu_type t, uint64_t n_in);

typedef struct {
    uint32_t first_layer, end_layer; /* end exclusive; UINT32_MAX: to the last one */
    fy_slot *slots;                  /* owned, [n_slots] */
    size_t n_slots;                  /* 0: every matrix */
    fy_npu_type type;
} fy_npu_rule;

typedef struct {
    char *name,
        *title;       /* owned: "llama-3.2-1b", "16a4w, LPBQ 32; head and w2 of layers 0-3 8 bit" */
    char *source;     /* owned */
    fy_npu_type type; /* of every matrix that no rule names */
    fy_npu_rule *rules; /* owned, [n_rules]; the last one that fits counts */
    size_t n_rules;
    uint32_t kv_bits; /* of keys and values: 8 or 16, which a float core needs */
    bool float_core;  /* what lies between the matrices is computed in 16-bit floats, else u16 */
    bool rotate_keys; /* a Hadamard rotation of q and k after RoPE (SpinQuant's R3) */
    char **models;    /* owned, [n_models]: what it was published for: "meta-llama/Llama-3.2-1B" */
    size_t n_models;
} fy_npu_recipe;

typedef struct fy_npu_recipes fy_npu_recipes;

/* Those that are compiled in, and those of recipes.d. NULL on failure. */
fy_npu_recipes *fy_npu_recipes_open(fy_err *e);
void fy_npu_recipes_free(fy_npu_recipes *r); /* NULL is fine */
size_t fy_npu_recipes_n(const fy_npu_recipes *r);
const fy_npu_recipe *fy_npu_recipes_at(const fy_npu_recipes *r, size_t i); /* by name */
/* By name, or the path of a file (a name with '/' or ".json"), which is then one of the list; view.
 * NULL: FY_EARG with the names there are. */
const fy_npu_recipe *fy_npu_recipes_find(fy_npu_recipes *r, const char *name, fy_err *e);
/* The default: LPBQ 32 with an 8-bit head where the chip can do that, else 16a4w. Without a text to
 * calibrate with, fp16a8w where the chip computes in fp16. */
const fy_npu_recipe *fy_npu_recipes_default(const fy_npu_recipes *r, const fy_soc *soc,
                                            bool calibrated);

int fy_npu_recipe_parse(const void *p, size_t n, const char *name, fy_npu_recipe *out, fy_err *e);
void fy_npu_recipe_release(fy_npu_recipe *r);

/* The type of a matrix. FY_T_OUTPUT is the head, tied or not, and in no layer. Of fused tensors
 * each part is asked for: a rule may be for one of them. */
fy_npu_type fy_npu_recipe_type(const fy_npu_recipe *r, fy_slot slot, uint32_t layer);

/* What HTP computes from which architecture on (sources in npu_recipe.c). */
typedef enum {
    FY_HTP_LPBQ,           /* V69 */
    FY_HTP_FP16,           /* V73, but for chips with no_fp16 */
    FY_HTP_KV_16,          /* 16 x 16 bit products: V73 */
    FY_HTP_WEIGHT_SHARING, /* of the graphs of one context: V73 */
} fy_htp_feature;
bool fy_soc_has(const fy_soc *s, fy_htp_feature f);

/* FY_EFIT where the chip cannot compute the states of RWKV, whatever the recipe. */
int fy_npu_recipe_check_states(const fy_npu_recipe *r, const fy_soc *soc, fy_err *e);
/* FY_EFIT that names rule, floor and a recipe that the chip can have. kv_bits 0: the recipe's. */
int fy_npu_recipe_check(const fy_npu_recipe *r, const fy_soc *soc, uint32_t kv_bits, fy_err *e);

#endif
