/* Which type each matrix of an output gets: what convert and quantize share. In this order, which
 * is llama-quantize's:
 *   --token-embedding-type for the embedding, --output-tensor-type for the output matrix,
 *   the first REGEX=TYPE that matches the name,
 *   the recipe: pure gives the type asked for, llama what llama-quantize chooses (where embedding
 *   and output are one matrix, --output-tensor-type goes before it),
 *   and where a type's blocks do not divide the rows, the next one (fy_type_for_rows).
 * A file's type is named as a matrix's is, or by llama-quantize's name of a mixture. */
#ifndef FY_POLICY_TYPE_POLICY_H
#define FY_POLICY_TYPE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "format/gguf.h"

/* --- the type of a file ---------------------------------------------------------------------- */

/* LLAMA: llama-quantize's choice, of q3_K, q4_K and q5_K its Q3_K_M, Q4_K_M and Q5_K_M;
 * LLAMA_SMALL: Q3_K_S and so on; LLAMA_LARGE: Q3_K_L. */
typedef enum {
    FY_RECIPE_PURE,
    FY_RECIPE_LLAMA,
    FY_RECIPE_LLAMA_SMALL,
    FY_RECIPE_LLAMA_LARGE,
} fy_recipe;
#define FY_RECIPES "pure|llama" /* the first two */

typedef struct {
    fy_type type; /* of most matrices */
    fy_recipe recipe;
} fy_file_type;

/* Names besides those of types. q2_K and q6_K are types and mixtures: without a recipe the mixture.
 */
#define FY_MIXTURES "q4_K_M|q4_K_S|q5_K_M|q5_K_S|q3_K_M|q3_K_S|q3_K_L|mxfp4_moe"

/* What a type or mixture means. recipe: of FY_RECIPES, or below 0: not given. */
int fy_file_type_of(const char *name, int recipe, fy_file_type *out, fy_err *e);

/* "q4_K", "q4_K_M". */
const char *fy_file_type_name(const fy_file_type *t);

/* What llama-quantize makes under the name of this pure type, when it is another file; "": the
 * same. */
const char *fy_file_type_of_llama(const fy_file_type *t);

/* What to say of a name of llama-quantize's that is neither ("cannot be written yet; ..."); NULL:
 * it has no such name. For fy_opt.refuse. */
const char *fy_file_type_refusal(const char *name);

/* --- rules "REGEX=TYPE" ---------------------------------------------------------------------- */

/* POSIX extended expressions, searched for in GGUF names; the first that matches counts. One that
 * matches nothing is an error, which the caller asks for at the end. */
typedef struct fy_type_rules fy_type_rules;

/* Parses n > 0 texts, views that have to stay. option: "--keep", for messages; types: the allowed
 * ones at '|'. NULL on failure. */
fy_type_rules *fy_type_rules_new(const char *option, const char *types, const char *const *texts,
                                 size_t n, fy_err *e);
void fy_type_rules_free(fy_type_rules *r); /* NULL is fine */

/* True, and *type, when a rule finds the name. All that do are in use. */
bool fy_type_rules_find(fy_type_rules *r, fy_span name, fy_type *type);

/* Fails, naming it, when a rule found no name. */
int fy_type_rules_check_used(const fy_type_rules *r, fy_err *e);

/* --- llama-quantize's recipe (llama_types.c) ------------------------------------------------- */

/* Is this one of the weight matrices, which take the type asked for? Everything else (norms,
 * biases, routers, tables that are not multiplied with) stays as it is. */
bool fy_recipe_is_matrix(const fy_gguf_tensor *t);

/* Of a model all that the choice depends on. */
typedef struct {
    fy_span arch;               /* general.architecture; view */
    uint32_t n_layer;           /* block_count */
    uint32_t n_head, n_head_kv; /* of the first layer */
    uint32_t n_expert;
    bool imatrix; /* an importance matrix is used */
} fy_llama_model;

/* The model of a file, for fy_llama_types. Fails when a key that it needs is not there. */
int fy_recipe_model(const fy_gguf *g, fy_llama_model *m, fy_err *e);

/* Token embedding (that of gemma3n's layers, too), output matrix. */
bool fy_llama_is_embedding(fy_span name);
bool fy_llama_is_output(fy_span name);

/* general.file_type of such a file. */
int fy_recipe_ftype(fy_recipe r, fy_type target);

/* --- the choice ------------------------------------------------------------------------------ */

/* Why a tensor has its type. */
typedef enum {
    FY_TYPE_KEPT,   /* no matrix: stays as it is */
    FY_TYPE_ASKED,  /* the type asked for */
    FY_TYPE_RECIPE, /* another, by the recipe */
    FY_TYPE_OPTION, /* an option names it */
} fy_type_why;

typedef struct {
    fy_file_type file;
    const fy_type *output, *embedding; /* --output-tensor-type, --token-embedding-type; NULL: not
                                          given */
    fy_type_rules *rules;              /* NULL: none */
    fy_llama_model model;              /* for recipes of llama-quantize */
} fy_type_request;

typedef struct {
    fy_span name;  /* of the GGUF file; view */
    uint64_t ne0;  /* row length */
    bool matrix;   /* else it keeps its type */
    bool stays;    /* so does this one, unless an option names it */
    fy_type type;  /* in: the one asked for, or kept; out: chosen */
    bool fallback; /* out: another than `wanted`, because of its rows */
    fy_type wanted;
    fy_type_why why;
} fy_type_item;

/* llama_types.c: gives the items that are FY_TYPE_ASKED the type that the recipe wants for them,
 * and the reason where it is another than the file's. All n tensors of the file, in any order:
 * whether there is an output.weight, and how many matrices there are for values, decides as well.
 * Fails on experts' tensors without a layer in their name. */
int fy_llama_types(const fy_llama_model *m, const fy_file_type *file, fy_type_item *t, size_t n,
                   fy_err *e);

/* For all n tensors of the file at once. Fails when an option or rule finds no matrix. */
int fy_choose_matrix_types(const fy_type_request *r, fy_type_item *t, size_t n, fy_err *e);

/* "kept", "asked", "recipe", "option" */
const char *fy_type_why_name(fy_type_why w);

#endif
