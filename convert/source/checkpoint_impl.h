/* The inside of a checkpoint, shared by the files that read its containers. */
#ifndef FY_CONVERT_CHECKPOINT_IMPL_H
#define FY_CONVERT_CHECKPOINT_IMPL_H

#include "base/arena.h"
#include "base/names.h"
#include "convert/source/checkpoint.h"
#include "convert/source/lora_delta.h"
#include "format/safetensors.h"
#include "format/torch_file.h"

/* One open file; either `st` or `torch`. */
typedef struct {
    fy_st *st;
    fy_torch *torch;
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

const char *fy_ckpt_file_path(const fy_ckpt_file *f);
size_t fy_ckpt_file_n_tensors(const fy_ckpt_file *f);
/* Tensor i of a file; its one part goes to *part, to which t->parts points. */
void fy_ckpt_file_tensor(const fy_ckpt_file *f, size_t i, fy_ckpt_tensor *t, fy_ckpt_part *part);
/* The same by name, O(1); false: there is none. */
bool fy_ckpt_file_find(const fy_ckpt_file *f, fy_span name, fy_ckpt_tensor *t, fy_ckpt_part *part);

/* Appends t, whose parts are copied. 1: a tensor of its name is there already. */
int fy_ckpt_add_tensor(fy_ckpt *c, const fy_ckpt_tensor *t, fy_err *e);

/* Is DIR/NAME there? 1, 0, -1. */
int fy_ckpt_has(const char *dir, const char *name, fy_err *e);

/* meta_checkpoint.c: consolidated.00.pth ... with params.json; are they there? 1, 0, -1. */
int fy_meta_is_there(const char *dir, fy_err *e);
int fy_ckpt_open_meta(fy_ckpt *c, const char *dir, fy_err *e);
/* A file with model_args. */
int fy_ckpt_open_llama2c(fy_ckpt *c, const char *path, fy_err *e);

#endif
