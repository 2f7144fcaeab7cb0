/* Renders one question with the model's chat template, and encodes it. */
#include "cli/question.h"

#include "model/template/chat_template.h"

bool fy_has_chat_template(const fy_gguf *g)
{
    return fy_gguf_find(g, FY_KEY_CHAT_TEMPLATE) != NULL;
}

static int render(const fy_chat_template *t, fy_span question, fy_str *out, fy_err *e)
{
    fy_str json = {0};
    fy_str_putc(&json, '[');
    fy_chat_put_message(&json, FY_SPAN("user"), question);
    fy_str_putc(&json, ']');
    fy_chat_input in = {.messages = {fy_str_z(&json), json.len}, .add_generation_prompt = true};
    int rc = json.oom ? fy_nomem(e) : fy_chat_template_render(t, &in, out, e);
    fy_str_release(&json);
    return rc == 0 ? 0 : fy_ctx(e, "the chat template refuses the question");
}

int fy_question_ids(const fy_gguf *g, const fy_vocab *v, fy_span question, fy_ids *out, fy_err *e)
{
    fy_chat_template *t = fy_chat_template_open(g, NULL, e);
    if (t == NULL)
        return -1;
    fy_str text = {0};
    int rc = render(t, question, &text, e);
    if (rc == 0)
        rc = fy_chat_encode_text(v, (fy_span){fy_str_z(&text), text.len}, out, e);
    fy_str_release(&text);
    fy_chat_template_free(t);
    return rc;
}

bool fy_prompt_is_templated(const fy_vocab *v, const fy_ids *prompt)
{
    for (size_t i = 1; i < prompt->n; i++) {
        if (fy_vocab_type(v, prompt->id[i]) == FY_TOKEN_CONTROL)
            return true;
    }
    return false;
}
