/* The tensors of a Hugging Face checkpoint directory: model.safetensors, or the shards that
 * model.safetensors.index.json names. Opening reads headers only; data is mapped, never copied.
 *
 * Checked before open returns: shard names are plain file names, every shard is there (all absent
 * ones are named), each tensor of weight_map is in the shard it names, no tensor is in two shards
 * or in none of the map. */
#ifndef FY_CONVERT_HF_DIR_H
#define FY_CONVERT_HF_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "format/safetensors.h"

#define FY_HF_SINGLE "model.safetensors"
#define FY_HF_INDEX  "model.safetensors.index.json"

typedef struct {
    const fy_st_tensor *t; /* view of the file */
    const fy_st *file;     /* view of the directory */
} fy_hf_tensor;

typedef struct fy_hf_dir fy_hf_dir;

fy_hf_dir *fy_hf_dir_open(const char *path, fy_err *e); /* NULL on failure */
void fy_hf_dir_close(fy_hf_dir *d);                     /* NULL is fine */

size_t fy_hf_dir_n_tensors(const fy_hf_dir *d);
const fy_hf_tensor *fy_hf_dir_at(const fy_hf_dir *d, size_t i);       /* by file, then by offset */
const fy_hf_tensor *fy_hf_dir_find(const fy_hf_dir *d, fy_span name); /* NULL when absent; O(1) */
uint64_t fy_hf_dir_bytes(const fy_hf_dir *d);                         /* of all tensors */

#endif
