/* The parts of an answer of a conversation: thinking, content, calls of tools. Text goes in as it
 * comes out of the model; parts go out as soon as they are certain. Engine thread. */
#ifndef FY_SERVER_ANSWER_PARTS_H
#define FY_SERVER_ANSWER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "model/think.h"
#include "server/generate.h"

typedef enum {
    FY_PART_THINKING,
    FY_PART_CONTENT,
    FY_PART_CALL,      /* a call begins; the text is the tool's name */
    FY_PART_ARGUMENTS, /* a piece of its arguments */
    FY_PART_CALL_END,
} fy_part;

enum { FY_CALL_ID = 9 }; /* letters and digits: what Mistral's templates ask for */

typedef struct {
    fy_str name, arguments; /* owned */
    char id[FY_CALL_ID + 1];
    bool whole; /* not cut by the limit */
} fy_answer_call;

/* `call`: the index of the call, of the last three. */
typedef void fy_part_sink(void *user, fy_part what, size_t call, fy_span text);

typedef struct {
    bool thinks;  /* thinking is split from content */
    bool answers; /* content has begun, or nothing was thought */
    fy_think think;
    fy_str raw; /* with thinking in the content: what may be thinking */
    fy_tool_parser *parser; /* owned; NULL: calls are content */
    uint64_t id_seed;
    fy_str thinking, content; /* so far */
    fy_answer_call *calls;    /* owned, [n_calls] */
    size_t n_calls, cap_calls;
    fy_part_sink *sink;
    void *user;
} fy_parts;

/* prompt_end: of the prompt's text, at least its last line: it may open a section of thinking.
 * The tools must outlive the parts. */
int fy_parts_begin(fy_parts *p, bool thinks, fy_span prompt_end, const fy_ask_tools *tools,
                   uint64_t id_seed, fy_err *e);
/* The sink is called for what is certain; it may be NULL. */
int fy_parts_add(fy_parts *p, fy_span text, fy_part_sink *sink, void *user, fy_err *e);
int fy_parts_end(fy_parts *p, fy_part_sink *sink, void *user, fy_err *e);
bool fy_parts_have_call(const fy_parts *p); /* a whole one */
void fy_parts_release(fy_parts *p);

#endif
