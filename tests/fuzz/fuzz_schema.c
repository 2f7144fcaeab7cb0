/* Schemas: refused with a message, or a grammar whose random text is JSON. Masks are the most of a
 * run: few tokens make them cheap, and a text that does not end soon is left. */
#include <stdint.h>

#include "base/json.h"
#define ANSWER_TOKENS 320
#define ANSWER_STEPS  200
#include "tests/unit/grammar/random_answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* What comes out is JSON; the reader's depth and its rule against equal names are its own. */
static void check_text(const fy_str *text)
{
    fy_err e = {0};
    fy_json *j = fy_json_new(text->ptr, text->len, &e);
    const bool read = j != NULL && fy_json_skip(j, &e) == 0 && fy_json_end(j, &e) == 0;
    require(read || strstr(e.msg, "a second key") != NULL ||
            strstr(e.msg, "deeper nesting") != NULL);
    fy_json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static answer_maker maker;
    fy_err e = {0};
    if (maker.trie == NULL)
        answers_begin(&maker, 5);
    maker.state = size;
    fy_grammar *g = fy_grammar_schema((fy_span){(const char *)data, size}, &e);
    require((g == NULL) == (e.code != FY_OK));
    require(fy_utf8_valid(e.msg, strlen(e.msg)));
    fy_matcher *m = g != NULL ? fy_matcher_new(g, maker.trie, &e) : NULL;
    if (m != NULL) {
        fy_str text = {0};
        if (answer_make(&maker, m, &text, &e) == 0)
            check_text(&text);
        else
            require(e.code == FY_EFIT);
        fy_str_release(&text);
    }
    fy_matcher_free(m);
    fy_grammar_free(g);
    return 0;
}
