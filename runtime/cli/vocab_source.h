/* Where a tokenizer or a chat template comes from when a verb needs nothing else of a model: a GGUF
 * file, a workspace, or (on the host) a checkpoint directory or one tokenizer file of it, converted
 * on the fly. */
#ifndef FY_CLI_VOCAB_SOURCE_H
#define FY_CLI_VOCAB_SOURCE_H

#include "base/err.h"
#include "format/gguf.h"

/* An open GGUF with the tokenizer.* keys of what `path` names: the file itself; the vocabulary of a
 * workspace's main model, or of a model's directory with ggml/weights.gguf; or what `ferry convert
 * --vocab-only` makes of a checkpoint, in a temporary file that is gone when this returns (the
 * mapping stays). A conversion's warnings are shown, its other words with --verbose only. NULL on
 * failure. */
fy_gguf *fy_vocab_source_open(const char *path, fy_err *e);

#endif
