/* What the files of runtime/toolcall share. Not for use outside. */
#ifndef FY_TOOLCALL_IMPL_H
#define FY_TOOLCALL_IMPL_H

#include "toolcall/toolcall.h"

typedef enum {
    FY_TOOL_JSON,  /* {"name": NAME, "arguments": {...}}, or a list of them */
    FY_TOOL_XML,   /* the name, then pairs of key and value between marks */
    FY_TOOL_GEMMA, /* call:NAME{key:value,...} with strings between quotes of their own */
} fy_tool_kind;

struct fy_tool_format {
    const char *name;
    const char *told_by[2]; /* a template that has one of these texts writes calls this way */
    fy_tool_kind kind;
    const char *open, *close; /* marks around a call (or a list of them); close NULL: none */
    bool bare;                /* JSON: also without a mark, when the answer begins with it */
    struct {
        const char *before_name, *after_name; /* of the call's name; "" after it: any of "\n<" */
        const char *key, *after_key, *value, *after_value;
        const char *end;
    } xml;
    const fy_tool_pairs *pairs; /* XML: static */
    const fy_tool_named *named; /* GEMMA, and JSON after a name: static */
    /* JSON: before the first call of an answer, between two, after the last. */
    const char *first, *between, *last;
    const char *arguments; /* the name of their member */
    bool single;           /* the model writes one call only */
};

/* May a parameter of the tool be a string by its schema (1), is it something else (0), or does the
 * schema not say (-1)? */
int fy_tools_takes_string(const fy_tools *t, fy_span name, fy_span key);

#endif
