/* The inside of a checkpoint, shared by the files that read its containers. */
#ifndef FY_CONVERT_CHECKPOINT_IMPL_H
#define FY_CONVERT_CHECKPOINT_IMPL_H

#include "base/arena.h"
#include "base/names.h"
#include "convert/source/checkpoint.h"
#include "convert/source/lora_delta.h"

/* One open file, and its tensors under the names that it has. */
typedef struct {
    fy_st *st; /* owned; or ... */
    fy_torch *torch;
    const char *path;              /* view */
    const fy_ckpt_tensor *tensors; /* view of the arena; each of one part */
    size_t n_tensors;
} fy_ckpt_file;

struct fy_ckpt {
    fy_ckpt_file *files; /* owned */
    size_t n_files, cap_files;
    fy_ckpt_tensor *tensors; /* owned */
    size_t n_tensors, cap_tensors;
    fy_names index; /* name -> index in tensors */
    uint64_t bytes;
    bool rotates_neighbours;
    fy_str config;       /* made from other settings; empty: the directory has a config.json */
    fy_lora_cache *lora; /* owned; NULL: no adapters */
    fy_arena arena;      /* parts and changed names */
};

/* Opens DIR/NAME as what it is and appends it to c->files. */
int fy_ckpt_add_file(fy_ckpt *c, const char *dir, const char *name, fy_err *e);

/* NULL when absent; O(1). */
const fy_ckpt_tensor *fy_ckpt_file_find(const fy_ckpt_file *f, fy_span name);

/* Appends t, whose parts live in the arena. 1: a tensor of its name is there already. */
int fy_ckpt_add_tensor(fy_ckpt *c, const fy_ckpt_tensor *t, fy_err *e);

/* meta_checkpoint.c: are consolidated.00.pth ... with params.json there? */
bool fy_meta_is_there(const char *dir);
int fy_ckpt_open_meta(fy_ckpt *c, const char *dir, fy_err *e);
/* A file with model_args, or one of RWKV. */
int fy_ckpt_open_llama2c(fy_ckpt *c, const char *path, fy_err *e);

/* rwkv_checkpoint.c: are the tensors those of a model of RWKV? Then the opened file becomes the
 * checkpoint. */
bool fy_rwkv_is(const fy_torch *t);
int fy_ckpt_take_rwkv(fy_ckpt *c, fy_err *e);
/* Low ranks and the width of the channel mix are what the tensors have: config.json may say nothing
 * about them, or what they would be by a formula. */
void fy_rwkv_measure(const fy_ckpt *c, const fy_family *f, fy_hparams *hp);

#endif
