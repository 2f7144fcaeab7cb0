/* The options of structured output that run and chat share. */
#ifndef FY_CLI_GRAMMAR_OPTIONS_H
#define FY_CLI_GRAMMAR_OPTIONS_H

#include "base/opts.h"
#include "grammar/grammar.h"
#include "model/vocab/vocab.h"

/* A verb embeds this as the field `structured` of its `options`, and FY_ROWS_GRAMMAR in its rows.
 */
typedef struct {
    const char *grammar, *grammar_file, *json_schema, *json_schema_file;
} fy_grammar_options;

/* Empty when no option asks for it. */
typedef struct {
    fy_grammar *grammar; /* owned */
    fy_trie *trie;       /* owned */
    fy_matcher *matcher; /* owned; NULL: text is free */
} fy_structured;

bool fy_structured_is_asked(const fy_grammar_options *o);
/* Reads and compiles the grammar; before the model is loaded, so that a mistake costs no time. */
int fy_structured_read(fy_structured *s, const fy_grammar_options *o, fy_err *e);
/* Makes the matcher of what was read; does nothing when nothing was. */
int fy_structured_begin(fy_structured *s, const fy_vocab *vocab, uint32_t n_vocab, fy_err *e);
void fy_structured_release(fy_structured *s);

#define FY_GRAMMAR_ROW(field, ...)                                                   \
    {                                                                                \
        .group = "Structured output", .offset = offsetof(options, structured.field), \
        .kind = FY_OPT_STR, .set = "grammar", __VA_ARGS__                            \
    }
/* Rows, comma separated, to stand in a table of fy_opt. */
#define FY_ROWS_GRAMMAR                                                                            \
    FY_GRAMMAR_ROW(grammar, .name = "grammar", .arg = "TEXT",                                      \
                   .help = "The text follows this grammar, in llama.cpp's GBNF: 'root ::= "        \
                           "\"yes\" | \"no\"'."),                                                  \
        FY_GRAMMAR_ROW(grammar_file, .name = "grammar-file", .arg = "FILE", .file = FY_FILE_IN,    \
                       .help = "The same from a file."),                                           \
        FY_GRAMMAR_ROW(json_schema, .name = "json-schema", .alias = "j", .arg = "SCHEMA",          \
                       .help = "The text is JSON that is valid under this JSON Schema; '{}' is "   \
                               "any JSON."),                                                       \
        FY_GRAMMAR_ROW(json_schema_file, .name = "json-schema-file", .alias = "jf", .arg = "FILE", \
                       .file = FY_FILE_IN, .help = "The same from a file.")

#endif
