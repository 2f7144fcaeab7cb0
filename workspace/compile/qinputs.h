/* What matrices multiply: rows sampled while calibrating, by which --seq-mse judges scales. A GGUF
 * file next to ranges.json, qnn/inputs.gguf: for each tensor that matrices read one of [rows][its
 * columns] in f32, by the name of its range ("L3.norm"), and ferry.inputs.model.
 *
 *     fy_q_sampler_init(&s, n_tokens)     rows are kept until they are written
 *     fy_q_sampler_add(&s, name, ...)     batch after batch
 *     fy_q_sampler_write(&s, model, path)
 *     fy_q_sampler_release(&s)
 *     g = fy_q_inputs_open(path, model)   fy_gguf_close */
#ifndef FY_WORKSPACE_QINPUTS_H
#define FY_WORKSPACE_QINPUTS_H

#include "base/arena.h"
#include "base/names.h"
#include "format/gguf.h"

/* What more rows gain is within the noise (docs/npu-compile.md), and their time is not. */
enum { FY_Q_INPUT_ROWS = 128 };
#define FY_Q_INPUTS_NAME "inputs.gguf"

typedef struct {
    const char *name; /* in the arena */
    float *rows;      /* in the arena, [FY_Q_INPUT_ROWS][cols] */
    uint32_t cols;
} fy_q_sample;

typedef struct {
    fy_arena arena;
    fy_names names;
    fy_q_sample *samples; /* owned */
    size_t n, cap;
    uint64_t stride; /* of every so many tokens the middle one */
    uint32_t n_rows;
} fy_q_sampler;

void fy_q_sampler_init(fy_q_sampler *s, uint64_t n_tokens);
void fy_q_sampler_release(fy_q_sampler *s);
/* Takes what is due of the rows of tokens [first, first + n). */
int fy_q_sampler_add(fy_q_sampler *s, const char *name, uint64_t first, const float *v, uint32_t n,
                     uint32_t cols, fy_err *e);
int fy_q_sampler_write(const fy_q_sampler *s, const char *model, const char *path, fy_err *e);

/* FY_EARG when the rows are of another model. NULL on failure. */
fy_gguf *fy_q_inputs_open(const char *path, const char *model, fy_err *e);
/* [*n][cols]; NULL: FY_EFORMAT, it has none of that name and width, or one is not finite. */
const float *fy_q_inputs_find(const fy_gguf *g, const char *name, uint64_t cols, uint32_t *n,
                              fy_err *e);

#endif
