/* The GGUF file that a conversion of a checkpoint to f32 would write, without writing it: its keys
 * and its tensors' names and shapes as an open fy_gguf, and the tensors' values row by row. For the
 * verbs that look at a checkpoint as the model that it becomes (inspect, compare). */
#ifndef FY_CONVERT_PLANNED_GGUF_H
#define FY_CONVERT_PLANNED_GGUF_H

#include "base/err.h"
#include "convert/write/convert_plan.h"
#include "convert/write/convert_stream.h"
#include "format/gguf.h"

typedef struct fy_planned_gguf fy_planned_gguf;

/* `path` as of fy_ckpt_open; n_threads may read values at once. 0, for a checkpoint whose weights
 * are not there: the keys that config.json and the tokenizer's files of a directory give, and the
 * tensors that such a model has to have, without plan and stream. NULL on failure. */
fy_planned_gguf *fy_planned_gguf_open(const char *path, int n_threads, fy_err *e);
void fy_planned_gguf_close(fy_planned_gguf *p); /* NULL is fine */

/* Tensor i is tensor i of the plan, f32; it has no data. */
const fy_gguf *fy_planned_gguf_file(const fy_planned_gguf *p);
fy_convert_stream *fy_planned_gguf_stream(fy_planned_gguf *p); /* for fy_convert_fill */

/* Why the tokenizer's keys are not there; NULL: they are. */
const char *fy_planned_gguf_no_tokenizer(const fy_planned_gguf *p);

/* Appends the header alone, of a conversion to `matrices` and without the tokenizer's keys. path:
 * as above, a directory whose weights are not there, or a file config.json. name: what it is
 * called; NULL: as its directory. */
int fy_planned_header(const char *path, const char *name, fy_type matrices, fy_str *out, fy_err *e);
/* The same of a configuration that was read; dir: where its model card may be. */
int fy_config_header(const fy_hf_config *c, const char *dir, fy_type matrices, fy_str *out,
                     fy_err *e);

/* fy_program's checkpoint_header (cli/verb.h): f16, and a name on the hub is found in its cache. */
int fy_checkpoint_header(const char *path, fy_str *out, fy_err *e);

#endif
