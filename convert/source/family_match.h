/* Which of the families a model of an unknown class is most like, and the list of all. */
#ifndef FY_CONVERT_FAMILY_MATCH_H
#define FY_CONVERT_FAMILY_MATCH_H

#include "arch/arch.h"
#include "base/str.h"
#include "convert/source/hf_config.h"
#include "convert/source/checkpoint.h"

/* The family whose class or model_type is spelled most like the name; NULL when none is near. */
const fy_family *fy_family_near(const char *name);

/* For a config without a family: the family nearest by name, else by the tensors of `dir` (NULL:
 * not at hand), and in which keys and tensor names the checkpoint differs from it. Lines of text;
 * nothing when no family is near. */
void fy_family_explain(const fy_hf_config *c, const fy_ckpt *dir, fy_str *out);

/* Every family: its classes, general.architecture, name. */
void fy_family_list(bool json, fy_str *out);

#endif
