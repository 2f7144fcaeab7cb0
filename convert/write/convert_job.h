/* One conversion: a plan made from headers, then one pass over the data.
 *
 * fy_convert_job_plan (everything is known then, nothing is written) -> fy_convert_job_write ->
 * fy_convert_job_release, which is due after a failure, too. */
#ifndef FY_CONVERT_CONVERT_JOB_H
#define FY_CONVERT_CONVERT_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/part_options.h"
#include "convert/source/checkpoint.h"
#include "convert/source/hf_config.h"
#include "convert/tokenizer/hf_tokenizer.h"
#include "convert/write/convert_plan.h"
#include "convert/write/convert_stream.h"
#include "convert/write/model_meta.h"
#include "format/gguf_write.h"
#include "kernels/row.h"

#define FY_CONVERT_OUTTYPES "auto|" FY_ROW_TYPES "|" FY_MIXTURES

/* The options of `ferry convert`, as they are parsed. Texts are NULL, and types below 0, when they
 * are not given. */
typedef struct {
    const char *outfile, *model_name, *pre, *chat_template, *split_max_size, *predictors;
    fy_opt_list keep, lora; /* "REGEX=TYPE", "DIR[:SCALE]" */
    int outtype, recipe, output_type, embedding_type;
    bool vocab_only, embedding_only, dry_run, fetch, list_archs, json, resume, quiet, verbose;
    bool allow_unmapped, allow_nonfinite, fit, transpose_down;
    int64_t n_threads, finish;
    const char *part;
} fy_convert_options;

typedef struct {
    const fy_convert_options *o; /* view */
    const char *path; /* view; of the checkpoint: a directory, or the one file of llama2.c; for the
                         vocabulary only, a tokenizer file, too */
    fy_part_options parts;
    int n_threads;
    char *dir; /* owned; where configuration and tokenizer are, or the one tokenizer file */
    char *id;  /* owned; NAME of the directory, or ORG/NAME of one in the hub's cache */
    fy_str out_path;
    fy_hf_config config;
    bool has_config;
    fy_ckpt *source; /* owned; NULL for vocabulary only */
    fy_type_rules *rules;
    fy_convert_plan *plan; /* owned; NULL for vocabulary only */
    json_t *meta;          /* owned; fy_model_meta_new */
    fy_hf_tokenizer *tokenizer;
    fy_gguf_writer *writer;
    fy_convert_stream *stream;
    _Atomic uint64_t peak_anon; /* bytes; the most that was seen */
} fy_convert_job;

int fy_convert_job_plan(fy_convert_job *j, const char *path, const fy_convert_options *o,
                        fy_err *e);
int fy_convert_job_write(fy_convert_job *j, fy_err *e);
/* What each part of the work reads and writes: [parts.part.n] bytes. */
int fy_convert_job_shares(fy_convert_job *j, uint64_t *work, fy_err *e);
void fy_convert_job_release(fy_convert_job *j);

/* Seconds that the work takes while the files are in memory: some rows of the largest tensor are
 * converted (twice, the first time to have them there) and the time is scaled up. False when there
 * is nothing to convert, or it cannot be. */
bool fy_convert_job_estimate(const fy_convert_job *j, double *seconds);

/* What `ferry convert` prints: the plan as a table or as JSON on standard output, messages about it
 * and about the end on standard error. */

/* The table of a dry run, with free space and time: every tensor of the output, and those
 * of the checkpoint that are left out. FY_ENOSPACE, after it, when the output would not fit. */
int fy_convert_print_plan(fy_convert_job *j, fy_err *e);

/* The same as one JSON object. seconds: that the conversion took; below 0: it was a dry run. */
int fy_convert_print_json(fy_convert_job *j, double seconds, fy_err *e);

void fy_convert_say_plan(const fy_convert_job *j);
void fy_convert_say_end(fy_convert_job *j, double seconds);

#endif
