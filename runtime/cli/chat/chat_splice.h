/* From the text of a growing conversation to ids such that the answers keep the ids they were
 * generated with: encoding an answer's text may give others than the model chose, and everything
 * behind them in the cache would be lost. An answer keeps its ids as long as the prompt repeats all
 * up to its end byte for byte and goes on with a control token (where no token can reach across);
 * otherwise the text is encoded as any text. */
#ifndef FY_CLI_CHAT_SPLICE_H
#define FY_CLI_CHAT_SPLICE_H

#include "base/err.h"
#include "base/str.h"
#include "model/vocab/vocab.h"

typedef struct {
    size_t n_bytes, n_ids; /* up to the end of an answer */
} fy_chat_seam;

/* Zero-initialise. */
typedef struct {
    fy_str text;         /* the last prompt, and its answer once there is one */
    fy_ids ids;          /* of the same */
    fy_chat_seam *seams; /* owned */
    size_t n_seams, cap;
} fy_chat_splice;

/* s->ids becomes the ids of the rendered prompt. On failure s is empty. */
int fy_chat_splice_prompt(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e);
/* The answer that the model gave to the last prompt, without an end token. */
int fy_chat_splice_answer(fy_chat_splice *s, const fy_vocab *v, const int32_t *ids, size_t n,
                          fy_err *e);
void fy_chat_splice_release(fy_chat_splice *s); /* usable again */

#endif
