/* Which type each matrix of the output gets: the type asked for, or the one of a recipe, unless a
 * pattern of the user's names another. What is no matrix stays f32.
 *
 * pure: every matrix has the type asked for. llama: the choice of llama-quantize without options,
 * which gives some matrices of a block type a better one (format/llama_types.h). Where a type's
 * blocks do not divide the rows, the next one takes its place (fy_type_for_rows). */
#ifndef FY_CONVERT_TYPE_CHOICE_H
#define FY_CONVERT_TYPE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "convert/convert_plan.h"

/* One "REGEX=TYPE". */
typedef struct fy_keep fy_keep;

/* Parses n of them: POSIX extended expressions, searched for in GGUF names. NULL on failure; n > 0.
 */
fy_keep *fy_keep_new(const char *const *texts, size_t n, fy_err *e);
void fy_keep_free(fy_keep *k); /* NULL is fine */

/* Gives every tensor of the plan its type. Fails when a pattern finds no matrix, and when the
 * recipe is not known for the type. */
int fy_choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e);

#endif
