/* The options that `plan` and `chunk` share: for which chip, with which graphs, by which recipe.
 *
 *     fy_npu_options_check(&o, e)          what goes together
 *     fy_plan_data_open(&d, &o, e)          chips and recipes
 *     fy_plan_params_of(&d, &o, &p, e)      what a plan is made from
 *     fy_plan_data_release(&d) */
#ifndef FY_WORKSPACE_PLAN_OPTIONS_H
#define FY_WORKSPACE_PLAN_OPTIONS_H

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "format/gguf.h"
#include "workspace/npu/npu_plan.h"

typedef struct {
    const char *soc, *soc_table, *batch, *recipe;
    int64_t htp_arch, vtcm, memory, n_ctx, n_chunks;
    int kv_bits;
} fy_npu_options;

/* Rows for a field of that type in the verb's `options`. */
#define FY_PLAN_ROWS(field)                                                                        \
    {.group = "Chip",                                                                              \
     .name = "soc",                                                                                \
     .kind = FY_OPT_STR,                                                                           \
     .arg = "NAME",                                                                                \
     .offset = offsetof(options, field.soc),                                                       \
     .help = "The chip: its name, one of its other names, or the number in it; 'ferry plan "       \
             "--list-socs' has them all.",                                                         \
     .set = "chip"},                                                                               \
        {.group = "Chip",                                                                          \
         .name = "htp-arch",                                                                       \
         .kind = FY_OPT_INT,                                                                       \
         .arg = "N",                                                                               \
         .offset = offsetof(options, field.htp_arch),                                              \
         .min = 1,                                                                                 \
         .max = 999,                                                                               \
         .help = "Instead of --soc, for a chip that ferry does not know: the version of its NPU, " \
                 "such as 75; limits are then the smallest that chips of this version have.",      \
         .set = "chip"},                                                                           \
        {.group = "Chip",                                                                          \
         .name = "vtcm",                                                                           \
         .kind = FY_OPT_INT,                                                                       \
         .arg = "MB",                                                                              \
         .offset = offsetof(options, field.vtcm),                                                  \
         .min = 1,                                                                                 \
         .max = 64,                                                                                \
         .help = "With --htp-arch: its fast memory in MiB; without it the least that chips of "    \
                 "this version have."},                                                            \
        {.group = "Chip",                                                                          \
         .name = "memory",                                                                         \
         .kind = FY_OPT_SIZE,                                                                      \
         .arg = "SIZE",                                                                            \
         .offset = offsetof(options, field.memory),                                                \
         .min = 1,                                                                                 \
         .max = 1e15,                                                                              \
         .help = "Memory of the device; without it what devices with that chip commonly have."},   \
        {.group = "Chip",                                                                          \
         .name = "soc-table",                                                                      \
         .kind = FY_OPT_STR,                                                                       \
         .arg = "FILE.json",                                                                       \
         .offset = offsetof(options, field.soc_table),                                             \
         .help = "Take the chips from this file instead of those that ferry knows.",               \
         .file = FY_FILE_IN},                                                                      \
        {.group = "Graphs",                                                                        \
         .name = "ctx-size",                                                                       \
         .alias = "c",                                                                             \
         .kind = FY_OPT_INT,                                                                       \
         .arg = "N",                                                                               \
         .offset = offsetof(options, field.n_ctx),                                                 \
         .min = 1,                                                                                 \
         .max = INT32_MAX,                                                                         \
         .help = "Columns of the attention: cached positions and those of the largest batch; "     \
                 "without it 2048, or the model's trained context if that is less. It means "      \
                 "nothing to a model with states."},                                               \
        {.group = "Graphs",                                                                        \
         .name = "batch",                                                                          \
         .kind = FY_OPT_STR,                                                                       \
         .arg = "N,...",                                                                           \
         .offset = offsetof(options, field.batch),                                                 \
         .def = "128,1",                                                                           \
         .help =                                                                                   \
             "Tokens of a call, one graph for each of these numbers; a model with states (RWKV) "  \
             "has 16 at most, and without it 16,1."},                                              \
        {.group = "Graphs",                                                                        \
         .name = "recipe",                                                                         \
         .kind = FY_OPT_STR,                                                                       \
         .arg = "NAME|FILE.json",                                                                  \
         .offset = offsetof(options, field.recipe),                                                \
         .help = "Which weight gets which type; 'ferry plan --list-recipes' has those that ferry " \
                 "knows. Without it lpbq-32 where the chip can do that, else 16a4w.",              \
         .file = FY_FILE_OR_WORD},                                                                 \
        {.group = "Graphs",                                                                        \
         .name = "kv-bits",                                                                        \
         .kind = FY_OPT_CHOICE,                                                                    \
         .arg = "8|16",                                                                            \
         .offset = offsetof(options, field.kv_bits),                                               \
         .help = "Bits of a number in the KV cache; without it the recipe's."},                    \
    {                                                                                              \
        .group = "Graphs", .name = "chunks", .kind = FY_OPT_INT, .arg = "N",                       \
        .offset = offsetof(options, field.n_chunks), .def = "0", .max = FY_NPU_CHUNKS,             \
        .help = "Cut the layers into N chunks; 0: as few as fit."                                  \
    }

/* --- the model that a verb plans for ---------------------------------------------------------- */

/* Its header alone is read:
 *
 *   a GGUF file (of a split model the first), or a workspace: its main model;
 *   a checkpoint: a directory with weights or with config.json alone, a file config.json, or
 *   [ORG/]NAME of the hub's cache; as a conversion to f16 makes it. */
typedef struct {
    const char *path; /* view: as the user gave it */
    fy_str header;    /* owned; empty: the bytes are a file's */
    fy_gguf *gguf;    /* owned; may be a view of header */
    bool checkpoint;
    fy_npu_model npu;
} fy_plan_model;

/* FY_EUNSUPPORTED for what cannot be cut, and for a chunk of a model that was. */
int fy_plan_model_open(fy_plan_model *m, const char *path, fy_err *e);
void fy_plan_model_release(fy_plan_model *m);

/* general.name, else that of file or directory; no more than n bytes with its NUL, quoted. */
void fy_plan_model_name(const fy_plan_model *m, char *out, size_t n);
/* Learned parameters. */
uint64_t fy_plan_model_params(const fy_plan_model *m);

/* --- the chip and the rest -------------------------------------------------------------------- */

/* Is a chip named? */
bool fy_plan_has_soc(const fy_npu_options *o);
int fy_npu_options_check(const fy_npu_options *o, fy_err *e);

typedef struct {
    fy_soc_table *socs;      /* owned */
    fy_npu_recipes *recipes; /* owned */
    fy_soc guessed;          /* owned; of --htp-arch */
} fy_plan_data;

int fy_plan_data_open(fy_plan_data *d, const fy_npu_options *o, fy_err *e);
void fy_plan_data_release(fy_plan_data *d);
/* The chip that the options name; view of d. NULL on failure. */
const fy_soc *fy_plan_find_soc(fy_plan_data *d, const fy_npu_options *o, fy_err *e);

/* Batch sizes, context and the rest as far as the options say, for a model of hp; no soc. recipe
 * NULL: the chip's default. */
int fy_plan_params_of(fy_plan_data *d, const fy_npu_options *o, const fy_hparams *hp,
                      fy_npu_params *p, fy_err *e);
/* On the command line, not by a setting that is there for every call? field: of a verb's options.
 */
bool fy_plan_is_given(const void *field);

/* FY_EFIT: why the plan does not fit, and what would. Always -1. */
int fy_plan_does_not_fit(const fy_npu_plan *p, const fy_npu_suggestion *s, const fy_npu_model *m,
                         fy_err *e);

#endif
