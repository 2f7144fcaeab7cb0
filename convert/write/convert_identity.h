/* What a conversion was made from, as one number: `ferry.source_sha256`. It names a source, it does
 * not prove one: hashing all weights would cost as much as converting them.
 *
 * SHA-256 over lines of text and samples of bytes, in this order:
 *   "ferry source 1\n"
 *   for each of the configuration and tokenizer files below that is there: "file NAME SIZE\n" and
 *     its samples;
 *   for each tensor, sorted by name: "tensor NAME DTYPE [A, B]\n" (DTYPE as safetensors spells it);
 *     of every tensor (of more than 128: every k-th, so that there are at most as many) the 16
 *     elements in its middle as f32, unless its elements are not numbers.
 * The samples of a file are all of it up to 64 KiB, else 16 times 4 KiB, the first at its
 * beginning, the last at its end. How tensors are spread over files, names of files and times do
 * not matter. */
#ifndef FY_CONVERT_CONVERT_IDENTITY_H
#define FY_CONVERT_CONVERT_IDENTITY_H

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "format/write_journal.h"

/* dir: where configuration and tokenizer are; c may be NULL (vocabulary only). */
int fy_source_hash(const char *dir, const fy_ckpt *c, char out[FY_SHA256_HEX], fy_err *e);

/* What the tensors of a conversion depend on besides its plan, for files that another process may
 * resume (fy_gguf_write_resumed): the program and the files of the checkpoint. */

/* A line for the program and each file of the checkpoint, a directory or one file. */
int fy_convert_identity(const char *checkpoint, fy_identity_kind kind, fy_str *out, fy_err *e);

#endif
