/* Structured output on the command line: where the grammar comes from. */
#include "cli/grammar_options.h"

#include "cli/text_io.h"

bool fy_structured_is_asked(const fy_grammar_options *o)
{
    return o->grammar != NULL || o->grammar_file != NULL;
}

static int read_file(fy_structured *s, const char *path, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_text_in_read(path, &text, e);
    if (rc == 0) {
        s->grammar = fy_grammar_gbnf((fy_span){fy_str_z(&text), text.len}, e);
        rc = s->grammar != NULL ? 0 : fy_ctx(e, "%s", path);
    }
    fy_str_release(&text);
    return rc;
}

int fy_structured_read(fy_structured *s, const fy_grammar_options *o, fy_err *e)
{
    *s = (fy_structured){0};
    if (o->grammar != NULL && o->grammar_file != NULL)
        return fy_fail(e, FY_EARG, "--grammar and --grammar-file exclude each other");
    if (o->grammar_file != NULL)
        return read_file(s, o->grammar_file, e);
    if (o->grammar == NULL)
        return 0;
    fy_err why = {0};
    s->grammar = fy_grammar_gbnf(fy_span_of(o->grammar), &why);
    return s->grammar != NULL ? 0 : fy_fail(e, FY_EARG, "--grammar: %s", why.msg);
}

int fy_structured_begin(fy_structured *s, const fy_vocab *vocab, uint32_t n_vocab, fy_err *e)
{
    if (s->grammar == NULL)
        return 0;
    s->trie = fy_vocab_trie(vocab, n_vocab, e);
    s->matcher = s->trie != NULL ? fy_matcher_new(s->grammar, s->trie, e) : NULL;
    return s->matcher != NULL ? 0 : -1;
}

void fy_structured_release(fy_structured *s)
{
    fy_matcher_free(s->matcher);
    fy_trie_free(s->trie);
    fy_grammar_free(s->grammar);
    *s = (fy_structured){0};
}
