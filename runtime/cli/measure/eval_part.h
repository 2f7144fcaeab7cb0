/* Parts of a measurement: which work it is, where its parts are kept, and their records
 * (format/part_file.h). A measurement without an output file keeps them in the current directory,
 * as "eval-KEY.I-of-N.part" with the key of the work. */
#ifndef FY_CLI_EVAL_PART_H
#define FY_CLI_EVAL_PART_H

#include "cli/part_options.h"
#include "format/part_file.h"
#include "model/model.h"

typedef struct {
    const fy_part_options *options; /* view */
    fy_str identity;                /* lines of the measurement; the common ones follow them */
    fy_str base;
    fy_part_file *file; /* owned; of a part */
} fy_eval_part;

/* The phone's program measures all of it. */
static inline bool fy_eval_in_parts(const fy_part_options *o)
{
#ifdef FERRY_DEVICE
    (void)o;
    return false;
#else
    return o->part.n > 0;
#endif
}

static inline bool fy_eval_is_part(const fy_eval_part *p)
{
#ifdef FERRY_DEVICE
    (void)p;
    return false;
#else
    return p->file != NULL;
#endif
}

/* Adds what every measurement depends on, names the parts after `out` (NULL: after the work), and
 * opens the file of a part. Release in every case; zero-initialise. */
int fy_eval_part_open(fy_eval_part *p, const fy_part_options *o, const fy_model *m,
                      const fy_session_params *s, fy_span text, const char *out, fy_err *e);
void fy_eval_part_release(fy_eval_part *p);
int fy_eval_part_read(fy_eval_part *p, fy_part_sink *sink, void *user, fy_err *e);

#endif
