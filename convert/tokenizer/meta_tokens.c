#include "convert/tokenizer/meta_tokens.h"

#include <stdio.h>

static const struct {
    const char *text;
    bool talks; /* stands in conversations */
} named[] = {
    {"<|begin_of_text|>", true},
    {"<|end_of_text|>", true},
    {"<|reserved_special_token_0|>", false},
    {"<|reserved_special_token_1|>", false},
    {"<|finetune_right_pad_id|>", false},
    {"<|step_id|>", false},
    {"<|start_header_id|>", true},
    {"<|end_header_id|>", true},
    {"<|eom_id|>", true},
    {"<|eot_id|>", true},
    {"<|python_tag|>", false},
    {"<|image|>", false},
};
enum { N_NAMED = sizeof named / sizeof named[0] };

static int add(fy_token_table *t, const char *text, bool copy, fy_err *e)
{
    const uint32_t id = t->n;
    if (fy_token_table_put(t, id, fy_span_of(text), copy, e) != 0)
        return -1;
    t->rows[id].type = FY_TOKEN_CONTROL;
    t->rows[id].added = true;
    return 0;
}

int fy_meta_tokens_add(fy_token_table *t, uint64_t n_rows, fy_err *e)
{
    const bool all = n_rows == 0 || n_rows >= (uint64_t)t->n + FY_META_TOKENS;
    for (uint32_t i = 0; i < N_NAMED; i++) {
        if ((all || named[i].talks) && add(t, named[i].text, false, e) != 0)
            return -1;
    }
    for (uint32_t i = N_NAMED; all && i < FY_META_TOKENS; i++) {
        char text[48];
        snprintf(text, sizeof text, "<|reserved_special_token_%u|>", (unsigned)(i - N_NAMED + 2));
        if (add(t, text, true, e) != 0)
            return -1;
    }
    return 0;
}
