/* Words that users of other programs type: ollama, llama.cpp, MLC, ExecuTorch, PowerServe, adb.
 * Each has one sentence with what does it here. A word that ferry has itself is never looked up. */
#ifndef FY_CLI_FOREIGN_H
#define FY_CLI_FOREIGN_H

/* What to say of an unknown verb ("show"); NULL: the word is not known. */
const char *fy_foreign_verb(const char *word);

/* What to say of an option ("-ngl", "--n_gpu_layers=9") that `verb` does not have; NULL: it is not
 * known. */
const char *fy_foreign_option(const char *verb, const char *word);

/* Row i of the tables, for tests; words NULL: there are no more. */
typedef struct {
    const char *words; /* at '|', without dashes */
    const char *verbs; /* at '|'; NULL: all. For verbs themselves NULL */
    const char *text;
} fy_foreign;
extern const fy_foreign fy_foreign_verbs[], fy_foreign_options[];

#endif
