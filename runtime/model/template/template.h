/* Chat templates: the Jinja language as Hugging Face renders it (jinja2 3.1 with trim_blocks,
 * lstrip_blocks, loop controls, the generation tag and its own tojson; undefined values print as
 * nothing). A template is untrusted input: parsing and rendering have budgets of depth, steps and
 * memory, and what exceeds one is an error like any other.
 *
 * A fy_template is immutable and may be shared; a fy_template_vars belongs to one thread.
 *
 *     fy_template *t = fy_template_parse(text, e);
 *     fy_template_vars *v = fy_template_vars_new(e);
 *     fy_template_set_json(v, "messages", json, e) ... fy_template_set_bool(v, ...)
 *     fy_template_render(t, v, &out, e);
 */
#ifndef FY_TEMPLATE_H
#define FY_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct fy_template fy_template;
typedef struct fy_template_vars fy_template_vars;

#define FY_TEMPLATE_MAX_BYTES (1u << 20) /* of a template's text */

/* NULL on failure: FY_EFORMAT for what the language refuses, FY_EUNSUPPORTED for constructs outside
 * ferry's subset (include, import, extends, block, autoescape, ...). The message begins with
 * "line L, column C: " and names the construct. The text is copied. */
fy_template *fy_template_parse(fy_span text, fy_err *e);
void fy_template_free(fy_template *t); /* NULL is fine */

/* Variables of a rendering. Setting a name again replaces its value. Names and texts are copied. */
fy_template_vars *fy_template_vars_new(fy_err *e);
void fy_template_vars_free(fy_template_vars *v); /* NULL is fine */
int fy_template_set_json(fy_template_vars *v, const char *name, fy_span json, fy_err *e);
int fy_template_set_string(fy_template_vars *v, const char *name, fy_span text, fy_err *e);
/* What strftime_now shows: seconds since the epoch, shown in UTC (`utc`) or local time. Without
 * this call: SOURCE_DATE_EPOCH in UTC when the environment has it, else the current local time. */
void fy_template_set_clock(fy_template_vars *v, int64_t seconds, bool utc);

/* Appends the rendered text. On failure `out` is as before, and:
 *   FY_EARG     raise_exception(text): the message is exactly that text
 *   FY_EFORMAT  any other error of the language at run time: "line L: <what>"
 *   FY_EFIT     a budget ran out: "line L: ..." */
int fy_template_render(const fy_template *t, const fy_template_vars *v, fy_str *out, fy_err *e);

/* What Python's str does, for texts outside templates. */
void fy_text_capitalize(fy_span s, fy_str *out); /* appends s.capitalize() */
fy_span fy_text_strip(fy_span s);                /* s.strip() */

#endif
