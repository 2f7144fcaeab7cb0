/* The keys of the output file: what it is, its hyperparameters, its tokenizer. */
#ifndef FY_CONVERT_GGUF_META_H
#define FY_CONVERT_GGUF_META_H

#include "base/err.h"
#include "base/str.h"
#include "convert/convert_plan.h"
#include "convert/hf_config.h"
#include "convert/hf_tokenizer.h"
#include "format/gguf_write.h"

typedef struct {
    const fy_hf_config *config; /* NULL (vocabulary only): the architecture is written as "llama" */
    const fy_convert_plan *plan; /* NULL: vocabulary only */
    const fy_hf_tokenizer *tokenizer; /* NULL: none of its keys */
    fy_span name; /* general.name */
} fy_gguf_meta;

int fy_gguf_meta_write(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e);

#endif
