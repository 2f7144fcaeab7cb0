/* What the name of a model says: "org/Base-8B-Instruct-v0.2" in its parts. The rules are those of
 * gguf-py's Metadata.get_model_id_components and id_to_title, so that a file gets the keys that
 * llama.cpp's converter gives it; only ASCII has letters here. */
#ifndef FY_CONVERT_MODEL_ID_H
#define FY_CONVERT_MODEL_ID_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    FY_ID_NAME, /* what follows "org/" */
    FY_ID_ORG,
    FY_ID_BASENAME,
    FY_ID_FINETUNE,
    FY_ID_VERSION,
    FY_ID_SIZE_LABEL,
    FY_ID_PARTS,
};

/* Fills parts[0..FY_ID_PARTS), each of which the caller releases; empty: the name does not say.
 * n_params tells a size ("8B") from a context length ("128K"), 0: not known. A string has its oom
 * set when memory ran out. */
void fy_model_id_parse(fy_span id, uint64_t n_params, fy_str parts[FY_ID_PARTS]);

/* "llama-3.2-tiny" -> "Llama 3.2 Tiny": words in small letters begin with a capital. */
void fy_model_id_title(fy_span id, fy_str *out);

/* "7.2B", "494M": two significant digits, as gguf-py's model_weight_count_rounded_notation. */
#define FY_SIZE_LABEL_BYTES 40
/* "8x7B": n_expert (0: none) times what one expert and all that is shared have. */
void fy_size_label(uint32_t n_expert, uint64_t n_params, char out[FY_SIZE_LABEL_BYTES]);

/* The path of the output file: what -o says, or the standard name. */

/* `asked` NULL: `standard` in the current directory; a directory: `standard` in it; else the path,
 * in whose last part {ftype} and {outtype} become `type` in small letters, {FTYPE} and {OUTTYPE} in
 * capitals, {{ and }} a brace. */
int fy_out_name(const char *asked, const char *standard, const char *type, fy_str *out, fy_err *e);

#endif
