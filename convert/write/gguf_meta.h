/* The keys of the output file: what it is, its hyperparameters, its tokenizer. */
#ifndef FY_CONVERT_GGUF_META_H
#define FY_CONVERT_GGUF_META_H

#include "base/err.h"
#include "convert/source/hf_config.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "convert/write/convert_plan.h"
#include "convert/write/model_meta.h"
#include "format/gguf_write.h"

typedef struct {
    const fy_hf_config *config; /* NULL (vocabulary only): the architecture is written as "llama" */
    const fy_convert_plan *plan;      /* NULL: vocabulary only */
    const fy_hf_tokenizer *tokenizer; /* NULL: none of its keys */
    const json_t *model;
    const char *source_sha256; /* fy_source_hash; NULL: no such key */
} fy_gguf_meta;

/* What the model in `dir` says of itself. id: its name, or "ORG/NAME"; name: that the user gives,
 * NULL: none; plan, config: NULL without. As fy_model_meta_new. */
json_t *fy_gguf_meta_model(const char *dir, const char *id, const char *name,
                           const fy_hf_config *config, const fy_convert_plan *plan, fy_err *e);

/* The tensors of a plan, in its order. */
int fy_gguf_add_planned(fy_gguf_writer *w, const fy_convert_plan *plan, fy_err *e);

int fy_gguf_meta_write(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e);

/* What a converted file says that other programs overlook: they load it and compute something else.
 */

/* One warning for each, to the log. */
void fy_warn_other_readers(const fy_hf_config *c);

#endif
