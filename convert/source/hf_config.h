/* config.json of a Hugging Face checkpoint: which family it is, its hyperparameters, and what else
 * convert must know. Reads the layouts of transformers 4 and 5; in a multi-modal checkpoint, the
 * text part. A key that is absent (or null) has the default of the family's config class; a key of
 * the wrong type, or one whose meaning ferry does not compute with, is refused by name. */
#ifndef FY_CONVERT_HF_CONFIG_H
#define FY_CONVERT_HF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"

/* rope_scaling of type llama3: what the tensor rope_freqs is computed from. */
typedef struct {
    bool used;
    double factor, low_freq_factor, high_freq_factor;
    uint32_t orig_ctx;
} fy_llama3_scaling;

typedef struct {
    const fy_family *family; /* NULL after a failure: no family of that name */
    fy_hparams hp;           /* derived and checked */
    double rope_theta;       /* before it was rounded to f32 */
    bool tied;
    bool fp8;              /* matrices may be FP8 E4M3 with scales ... */
    uint32_t fp8_block[2]; /* ... of blocks of so many rows and columns */
    bool mxfp4;            /* experts may be MXFP4: blocks and their scales */
    bool nested;           /* the text part of a checkpoint that has others */
    fy_llama3_scaling llama3;
    uint32_t turned_pairs; /* of rope type proportional: the first pairs of a head, the others do not
                              turn; 0: there is none */
    float *long_factors, *short_factors; /* owned; of longrope, n_rot / 2 each; else NULL */
    bool folds;                          /* weights are multiplied as they are converted: */
    float fold[FY_T_COUNT];              /* by this; 0: not */
    float ssm_fold[5];         /* and rows of SSM_IN before that, those of z, x, B, C and dt */
    struct json_t *root;       /* owned */
    const struct json_t *text; /* view of root: the object with the keys of the text model */
} fy_hf_config;

/* Reads p[0..n); `name` is used in messages. fy_hf_config_release in either case. */
int fy_hf_config_parse(fy_hf_config *c, const void *p, size_t n, const char *name, fy_err *e);
/* The config.json of a directory, or that file. FY_EUNSUPPORTED when it is valid but describes
 * something ferry has no family for. */
int fy_hf_config_open(fy_hf_config *c, const char *path, fy_err *e);
void fy_hf_config_release(fy_hf_config *c);

/* A flag of config.json ("attention_bias"); absent, it is true when the family's flags_on name it.
 * Its type was checked by parse for the flags that the family's rows name. */
bool fy_hf_config_flag(const fy_hf_config *c, const char *key);

/* architectures[0], else model_type; "" when neither is there. */
const char *fy_hf_config_class(const fy_hf_config *c);

/* Multiplies n elements of a row of the checkpoint's tensor by what the configuration says, in f32,
 * one factor after the other. */
void fy_hf_fold(const fy_hf_config *c, fy_slot slot, uint64_t row, float *x, uint64_t n);

/* Entry i of the tensor rope_freqs (i < n_rot / 2). */
float fy_llama3_freq(const fy_hf_config *c, uint32_t i);

/* The family whose class or model_type is spelled most like the name; NULL when none is near. */
const fy_family *fy_family_near(const char *name);

#endif
