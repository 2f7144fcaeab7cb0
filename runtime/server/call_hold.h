/* An answer that may call tools (tool_choice "auto"): its text is free until the format's mark
 * opens a call; from there to the end of the call a grammar of the tools' schemas holds it; then it
 * is free again. Thinking is free: a mark inside it opens nothing.
 *
 *     free: sample a token, fy_call_hold_accept(h, text of the token); 0: sample among
 * fy_call_hold_mask held: sample among fy_call_hold_mask, fy_call_hold_accept
 *
 * A mark may be a token of its own or spread over tokens, and end inside one. The token that
 * completes it must go on as the grammar does: one that does not is refused, and the answer chooses
 * again among the tokens that are not. Where no further call may come, the mark cannot be
 * completed. A held token never goes beyond the end of its call. Engine thread. */
#ifndef FY_SERVER_CALL_HOLD_H
#define FY_SERVER_CALL_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "grammar/grammar.h"
#include "model/think.h"

/* What holds the calls of a request. */
typedef struct {
    fy_grammar *grammar; /* owned; of what comes after the mark; NULL: nothing is held */
    const char *mark;    /* static */
    bool bare;           /* also an answer that begins with '{' is a call */
    bool one;            /* one call at most */
    bool ends;           /* with a call the answer ends */
} fy_call_rules;

typedef struct fy_call_hold fy_call_hold;

/* rules, trie: views; the trie gives control tokens that are marks their text. opened: the marks of
 * a section of thinking that the prompt has opened; NULL: none. */
fy_call_hold *fy_call_hold_new(const fy_call_rules *rules, const fy_trie *trie,
                               const fy_think_marks *opened, fy_err *e);
void fy_call_hold_free(fy_call_hold *h); /* NULL is fine */

bool fy_call_hold_holds(const fy_call_hold *h); /* inside a call */
bool fy_call_hold_ended(const fy_call_hold *h); /* nothing may come after what came */
/* The answer goes on by this token. 1: it does; 0: it may not (nothing has changed); -1. */
int fy_call_hold_accept(fy_call_hold *h, int32_t id, fy_err *e);
/* The tokens that may come. Valid until the next call on h. */
int fy_call_hold_mask(fy_call_hold *h, fy_mask *out, fy_err *e);

#endif
