/* Structured output on the command line: where the grammar comes from. */
#include "cli/grammar_options.h"

#include "cli/text_io.h"

/* One of the options. */
typedef struct {
    const char *option, *value, *file;
    fy_grammar *(*compile)(fy_span text, fy_err *e);
} source;

enum { N_SOURCES = 4 };

static void list_sources(const fy_grammar_options *o, source out[N_SOURCES])
{
    out[0] = (source){"--grammar", o->grammar, NULL, fy_grammar_gbnf};
    out[1] = (source){"--grammar-file", NULL, o->grammar_file, fy_grammar_gbnf};
    out[2] = (source){"--json-schema", o->json_schema, NULL, fy_grammar_schema};
    out[3] = (source){"--json-schema-file", NULL, o->json_schema_file, fy_grammar_schema};
}

bool fy_structured_is_asked(const fy_grammar_options *o)
{
    return o->grammar != NULL || o->grammar_file != NULL || o->json_schema != NULL ||
           o->json_schema_file != NULL;
}

static fy_grammar *read_file(const source *from, fy_err *e)
{
    fy_str text = {0};
    fy_grammar *g = NULL;
    if (fy_text_in_read(from->file, &text, e) == 0) {
        g = from->compile((fy_span){fy_str_z(&text), text.len}, e);
        if (g == NULL)
            fy_ctx(e, "%s", from->file);
    }
    fy_str_release(&text);
    return g;
}

int fy_structured_read(fy_structured *s, const fy_grammar_options *o, fy_err *e)
{
    source all[N_SOURCES];
    const source *from = NULL;
    *s = (fy_structured){0};
    list_sources(o, all);
    for (int i = 0; i < N_SOURCES; i++) {
        if (all[i].value == NULL && all[i].file == NULL)
            continue;
        if (from != NULL)
            return fy_fail(e, FY_EARG, "%s and %s exclude each other", from->option, all[i].option);
        from = &all[i];
    }
    if (from == NULL)
        return 0;
    if (from->file != NULL) {
        s->grammar = read_file(from, e);
        return s->grammar != NULL ? 0 : -1;
    }
    fy_err why = {0};
    s->grammar = from->compile(fy_span_of(from->value), &why);
    return s->grammar != NULL ? 0 : fy_fail(e, FY_EARG, "%s: %s", from->option, why.msg);
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
