/* The header of the model at a path, whatever it is: a GGUF file's own, or the one that a
 * checkpoint would be converted to. For tools that plan from headers alone. */
#ifndef FY_CLI_MODEL_HEADER_H
#define FY_CLI_MODEL_HEADER_H

#include "base/err.h"
#include "base/str.h"

/* Appends the GGUF header (keys and tensors, no data) that a conversion of the checkpoint to f16
 * would begin with, without the tokenizer's keys: for fy_gguf_parse with header_only. path: a
 * directory with weights or with config.json alone, or a config.json. convert/ has it; builds for
 * the device have none. */
#ifndef FERRY_DEVICE
int fy_checkpoint_header(const char *path, fy_str *out, fy_err *e);
#endif

#endif
