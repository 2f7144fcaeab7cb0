/* Tool calls in both directions: the tools of a request, the formats in which models write calls,
 * and the calls in the text of an answer.
 *
 *     fy_tools *t = fy_tools_new(json, e);                   the request's list, checked
 *     const fy_tool_format *f = fy_tool_format_of(template); told by the template's text
 *     fy_tool_parser *p = fy_tool_parser_new(f, t, sink, user, e);
 *     fy_tool_parser_add(p, text, e) ... fy_tool_parser_end(p, e)
 *
 * Parsing never fails a request: what is not a call of one of the tools is content. The events of
 * an answer do not depend on where its text was cut into pieces.
 *
 * Sources of the formats: the published chat templates (Hermes 2 Pro, Qwen 2.5 and 3, Qwen3-Coder,
 * Llama 3.1, Mistral Nemo and Small 3.2, Phi-4-mini, Granite 3.1, GLM-4.5, Gemma 4, LFM2). */
#ifndef FY_TOOLCALL_H
#define FY_TOOLCALL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

/* --- the tools of a request (tool_list.c) --- */

enum {
    FY_TOOLS_MAX = 128,
    FY_TOOL_NAME_MAX = 64, /* letters, digits, '_', '-' and '.' */
};

typedef struct fy_tools fy_tools;

/* `list`: OpenAI's form, [{"type": "function", "function": {"name", "description", "parameters"}}].
 * A description or parameters that are missing or null are fine; the type of parameters is object.
 * NULL on failure: FY_EARG, the message names the member ("tools[2].function.name: ..."). The list
 * is not needed afterwards. */
fy_tools *fy_tools_new(const json_t *list, fy_err *e);
void fy_tools_free(fy_tools *t); /* NULL is fine */

size_t fy_tools_count(const fy_tools *t);
const char *fy_tools_name(const fy_tools *t, size_t i);
const json_t *fy_tools_parameters(const fy_tools *t, size_t i); /* a JSON schema, an object */
bool fy_tools_has(const fy_tools *t, fy_span name);
/* The same list with every member that templates read: the template's variable "tools". */
const json_t *fy_tools_json(const fy_tools *t);

/* Makes a conversation fit for templates, in place: arguments of earlier calls, which clients send
 * as a string, become the object they hold (a string that holds none stays); content that is null
 * becomes "". */
int fy_tool_messages_fix(json_t *messages, fy_err *e);

/* --- formats (tool_formats.c) --- */

typedef struct fy_tool_format fy_tool_format;

/* Never NULL: a template that shows no tools has the generic format. */
const fy_tool_format *fy_tool_format_of(fy_span template_text);
const char *fy_tool_format_name(const fy_tool_format *f); /* "hermes", "llama3", ..., "generic" */
/* False for the generic format: fy_tool_messages_explain has to show them. */
bool fy_tool_format_shows_tools(const fy_tool_format *f);
/* What an answer of nothing but calls looks like: first CALL (between CALL)* last, each CALL a JSON
 * text of the schema. A format without such a form has the generic one's: *f becomes it. */
typedef struct {
    const char *first, *between, *last; /* static */
    bool single;                        /* one call at most */
    fy_str schema;                      /* owned */
} fy_tool_frame;
/* Of a format that writes pairs of key and value: the texts of a call after the mark. */
typedef struct {
    const char *first, *before_name, *after_name, *key, *after_key, *value, *after_value, *end,
        *last;
    const char *mark; /* ends a value; part of after_value */
} fy_tool_pairs;
const fy_tool_pairs *fy_tool_format_pairs(const fy_tool_format *f); /* NULL: it writes none */
/* Of a format that writes a name and one object: the texts of a call after the mark. */
typedef struct {
    const char *before_name;
    const char *id; /* may stand after the name, with nine letters or digits; NULL: nothing does */
    const char *after_name;
    const char *quote; /* around strings; NULL: the object is JSON */
    const char *last;
} fy_tool_named;
const fy_tool_named *fy_tool_format_named(const fy_tool_format *f); /* NULL: it does not */
/* only: the index of the tool that is called; -1: any. */
int fy_tool_frame_make(const fy_tool_format **f, const fy_tools *t, int only, fy_tool_frame *out,
                       fy_err *e);
/* The mark that opens a call where calls may stand anywhere in an answer. */
const char *fy_tool_format_mark(const fy_tool_format *f);
/* Is an answer that begins with '{' a call as well? */
bool fy_tool_format_is_bare(const fy_tool_format *f);
/* Of a frame of that format: what comes after the mark, up to the end of its calls. */
void fy_tool_frame_after_mark(const fy_tool_format *f, fy_tool_frame *frame);
/* Is the text of a control token one of the marks? It must then reach the parser as text. */
bool fy_tool_format_has_mark(const fy_tool_format *f, fy_span token);

/* For a template that shows no tools: puts a system text that explains them in front (or after the
 * system message that is there), and writes calls and results of `messages` as plain texts. t NULL:
 * there are no tools. */
int fy_tool_messages_explain(json_t *messages, const fy_tools *t, fy_err *e);

/* --- calls in an answer (tool_parse.c) --- */

typedef enum {
    FY_TOOL_CONTENT,   /* text outside of calls */
    FY_TOOL_BEGIN,     /* a call; the text is the tool's name */
    FY_TOOL_ARGUMENTS, /* a piece of its arguments, JSON text */
    FY_TOOL_END,       /* the call is complete; no text */
} fy_tool_event;

/* Returns 0 or -1; -1 ends parsing. */
typedef int fy_tool_sink(void *user, fy_tool_event what, fy_span text, fy_err *e);

typedef struct fy_tool_parser fy_tool_parser;

/* `f` and `t` must outlive the parser. */
fy_tool_parser *fy_tool_parser_new(const fy_tool_format *f, const fy_tools *t, fy_tool_sink *sink,
                                   void *user, fy_err *e);
void fy_tool_parser_free(fy_tool_parser *p); /* NULL is fine */
int fy_tool_parser_add(fy_tool_parser *p, fy_span text, fy_err *e);
/* The answer ends here. A call that is cut short has FY_TOOL_BEGIN and the arguments as far as they
 * came, but no FY_TOOL_END. */
int fy_tool_parser_end(fy_tool_parser *p, fy_err *e);

#endif
