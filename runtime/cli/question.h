/* A question as the prompt that the model's own chat template makes of it: what every verb uses
 * that answers one question without a conversation. */
#ifndef FY_CLI_QUESTION_H
#define FY_CLI_QUESTION_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"
#include "model/vocab/vocab.h"

bool fy_has_chat_template(const fy_gguf *g);

/* Appends the ids of a conversation of this one message of a user, and of the text that begins an
 * answer. FY_EUNSUPPORTED: the model has no template. */
int fy_question_ids(const fy_gguf *g, const fy_vocab *v, fy_span question, fy_ids *out, fy_err *e);

/* Does a prompt hold control tokens after the first? Then somebody has applied a template. */
bool fy_prompt_is_templated(const fy_vocab *v, const fy_ids *prompt);

#endif
