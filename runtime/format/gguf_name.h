/* What the names of GGUF files say, as those who publish them write them, and which of several
 * models in one place is taken.
 *
 *     model-Q4_K_M.gguf  Model.q4_0.gguf  Model.i1-Q4_K_S.gguf  Model-UD-Q4_K_XL.gguf
 *     BF16/Model-BF16-00001-of-00003.gguf      a split model: the first file stands for all
 *     mmproj-F16.gguf  imatrix.gguf            no models
 *
 * Sources: llama.cpp (common/download.cpp), huggingface.js (tasks/src/gguf.ts), the repositories of
 * ggml-org, bartowski, unsloth, mradermacher and TheBloke. */
#ifndef FY_FORMAT_GGUF_NAME_H
#define FY_FORMAT_GGUF_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"

#define FY_GGUF_LABEL_BYTES 32

typedef struct {
    fy_span model; /* view: the path without "-00001-of-00003.gguf", the same for all its files */
    char label[FY_GGUF_LABEL_BYTES]; /* the type, in capitals: "Q4_K_M"; "": the name has none */
    unsigned bits;                   /* of that type; 0: unknown */
    uint32_t no, count;              /* of a split model, no from 1; 1 of 1 else */
} fy_gguf_name;

/* False: by its name `path` is not a model, or not a GGUF file. */
bool fy_gguf_name_read(const char *path, fy_gguf_name *out);

/* The type of most of its tensors: q4_K of "UD-Q4_K_XL". False: base/types.h does not know it. */
bool fy_gguf_label_type(const char *label, fy_type *out);

/* --- several models --- */

typedef struct {
    const char *first; /* view: the name of its first file */
    fy_gguf_name name;
    uint64_t bytes; /* of all its files */
    bool runs;      /* this program computes its type, as far as the label says */
} fy_gguf_variant;

typedef struct {
    fy_gguf_variant *v; /* owned; the smallest first */
    size_t n;
} fy_gguf_variants;

/* The models among n names, sorted by bytes, and sizes[i] their sizes. One whose files are not all
 * there is left out. `runs`: which types the program computes. */
int fy_gguf_variants_of(const char *const *names, const uint64_t *sizes, size_t n,
                        bool (*runs)(fy_type t), fy_gguf_variants *out, fy_err *e);
void fy_gguf_variants_release(fy_gguf_variants *l);

/* The one of this label, in any case; one with a mark in front of it ("UD-", "I1-") if there is no
 * other. label "": the only one, else Q4_K_M, else Q4_0, else the smallest of 4 bits or more, of
 * those that run. NULL: none, or two of the same type; *e says which there are. */
const fy_gguf_variant *fy_gguf_variants_choose(const fy_gguf_variants *l, const char *label,
                                               fy_err *e);

#endif
