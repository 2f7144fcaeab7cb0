/* `ferry compile` between its files: cmd_compile.c chooses what is compiled and does it,
 * compile_ranges.c finds or makes the ranges that fixed numbers need. */
#ifndef FY_WORKSPACE_COMPILE_IMPL_H
#define FY_WORKSPACE_COMPILE_IMPL_H

#include "base/thread.h"
#include "cli/cut_model.h"
#include "cli/part_options.h"
#include "workspace/compile/compile_chunk.h"
#include "workspace/compile/compile_output.h"

#define FY_RANGES_NAME "ranges.json"

typedef struct {
    const char *out, *sdk, *soc, *recipe, *ranges, *calibration, *only, *report, *system_file,
        *part;
    bool preset_bos, no_sharing;
    int64_t memory, n_threads, seq_mse, finish;
    bool dry_run, quiet, verbose;
} fy_compile_options;

typedef struct {
    fy_compile_job job;
    fy_compile_count count;
    fy_compiled result;
    char name[64]; /* "chunk_0" */
    bool chosen;
} fy_compile_piece;

typedef struct {
    const fy_compile_options *o;
    fy_part_options parts;
    char *qnn;     /* owned: CUT/qnn */
    char *weights; /* owned: CUT/ggml/weights.gguf */
    fy_cut_model cut;
    fy_soc_table *socs;      /* owned */
    fy_npu_recipes *recipes; /* owned */
    const fy_soc *soc;
    const fy_npu_recipe *recipe;
    fy_q_ranges *ranges; /* owned; NULL: none are needed */
    fy_ids preset;       /* owned */
    fy_gguf *inputs;     /* owned; NULL: no scales are tried */
    char inputs_sha256[FY_SHA256_HEX];
    fy_str library;
    char library_sha256[FY_SHA256_HEX];
    fy_compile_piece *chunks; /* owned, [cut.n_chunks] */
    uint32_t *of;             /* owned: the part of each; NULL: the work is whole */
    bool needs_ranges;
    fy_compile_stamp stamp;
} fy_compile_run;

static inline int fy_compile_threads(const fy_compile_run *c)
{
    return c->o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)c->o->n_threads;
}

static inline bool fy_compile_tries_scales(const fy_compile_run *c)
{
    return c->o->seq_mse != FY_OPT_UNSET_INT;
}

static inline bool fy_compile_is_part(const fy_compile_run *c)
{
    return c->parts.part.n > 0 && !c->parts.finishes;
}

/* The tokens that every text begins with. */
int fy_compile_find_preset(fy_compile_run *c, fy_err *e);
/* Ranges, and the inputs that scales are tried on. */
int fy_compile_get_ranges(fy_compile_run *c, fy_err *e);
/* Where part i calibrates: no two of them write the same file. */
void fy_compile_put_part_dir(const fy_compile_run *c, uint32_t i, fy_str *out);
/* n chunks are not there, one of them of part i. Returns -1. */
int fy_compile_fail_missing(const fy_compile_run *c, uint32_t i, const char *why, size_t n,
                            fy_err *e);

#endif
