/* Which of the families a model of an unknown class is most like, and the list of all. */
#ifndef FY_CONVERT_FAMILY_MATCH_H
#define FY_CONVERT_FAMILY_MATCH_H

#include "arch/arch.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "convert/source/hf_config.h"

/* For a config without a family: the family nearest by name, else by the tensors of `dir` (NULL:
 * not at hand), and in which keys and tensor names the checkpoint differs from it. Lines of text;
 * nothing when no family is near. */
void fy_family_explain(const fy_hf_config *c, const fy_ckpt *dir, fy_str *out);

/* Every family: its classes, general.architecture, name. */
void fy_family_list(bool json, fy_str *out);

/* Names of a checkpoint's tensors besides those that a family's table has: the same model is saved
 * as it is, below the name of a wrapper, or without the name of its head. */
#define FY_HF_NAME_BYTES (FY_ROW_NAME_BYTES + 32)

typedef enum {
    FY_SCHEME_PLAIN,  /* model.layers.0.x */
    FY_SCHEME_BEFORE, /* language_model.model.layers.0.x */
    FY_SCHEME_INSIDE, /* model.language_model.layers.0.x */
    FY_SCHEME_BARE,   /* layers.0.x: saved without its head */
    FY_SCHEME_MODEL,  /* model.decoder.x where the table says decoder.x */
    FY_SCHEME_COUNT,
} fy_prefix_scheme;

/* The name of a table's row in that scheme. */
void fy_name_in_scheme(fy_prefix_scheme scheme, const char *name, char out[FY_HF_NAME_BYTES]);

/* The scheme in which most of the family's rows are there, the first of those that are equal;
 * *n_found: how many. */
fy_prefix_scheme fy_prefix_scheme_of(const fy_ckpt *dir, const fy_family *f, size_t *n_found);

#endif
