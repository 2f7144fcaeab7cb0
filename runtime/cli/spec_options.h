/* The options of speculation (model/speculate.h), and the speculator that they ask for. Names are
 * PowerServe's for the draft model and its tree, ExecuTorch's for lookahead, and llama.cpp's for
 * chains. */
#ifndef FY_CLI_SPEC_OPTIONS_H
#define FY_CLI_SPEC_OPTIONS_H

#include "base/err.h"
#include "base/opts.h"
#include "model/speculate.h"

typedef enum {
    FY_SPEC_NONE,
    FY_SPEC_AUTO,
    FY_SPEC_LOOKUP,
    FY_SPEC_DRAFT,
    FY_SPEC_TREE,
    FY_SPEC_LOOKAHEAD,
} fy_spec_method;

/* Part of fy_engine_options; FY_ROWS_SPEC, followed by a comma, are the rows. */
typedef struct {
    int method; /* fy_spec_method; -1: not given */
    const char *draft_model;
    bool use_spec;
    int64_t draft_max, n_nodes, top_k, fan_out;
    double p_min, temperature, p_base, min_prob;
    bool early_stop;
    int64_t ngram, window, gcap; /* FY_OPT_UNSET_INT: not given */
} fy_spec_options;

#define FY_SPEC_METHODS "none|auto|lookup|draft|tree|lookahead"
#define FY_SPEC_ROW(field, ...)                                                             \
    {                                                                                       \
        .group = "Speculation", .offset = offsetof(options, engine.spec.field), __VA_ARGS__ \
    }
#define FY_ROW_DRAFT_MODEL(text)                                                       \
    FY_SPEC_ROW(draft_model, .name = "draft-model", .alias = "md", .kind = FY_OPT_STR, \
                .arg = "FILE.gguf",                                                    \
                .help = text " Without it: the draft model that the "                  \
                             "workspace names.",                                       \
                .file = FY_FILE_OR_WORD)
#define FY_ROWS_SPEC                                                                               \
    FY_SPEC_ROW(method, .name = "spec", .kind = FY_OPT_CHOICE, .arg = FY_SPEC_METHODS,             \
                .help =                                                                            \
                    "Compute guesses of the next tokens in the same step; the text is the same. "  \
                    "lookup: what followed the same words before; draft: a chain of the draft "    \
                    "model; tree: PowerServe's tree of it; lookahead: the model's own guesses "    \
                    "for later positions; auto: lookup, then the draft model, as far as it is "    \
                    "measured to pay."),                                                           \
        FY_ROW_DRAFT_MODEL("A small model of the same vocabulary that guesses: a file, or a "      \
                           "model of the workspace; alone it means --spec draft."),                \
        FY_SPEC_ROW(use_spec, .name = "use-spec", .kind = FY_OPT_FLAG,                             \
                    .help = "PowerServe's word for --spec tree."),                                 \
        FY_SPEC_ROW(draft_max, .name = "draft-max", .kind = FY_OPT_INT, .arg = "N", .min = 1,      \
                    .max = FY_PROPOSAL_MAX,                                                        \
                    .help = "Guesses of a step, at most; 8 when not given, 15 of auto."),          \
        FY_SPEC_ROW(p_min, .name = "draft-p-min", .kind = FY_OPT_FLOAT, .arg = "P", .def = "0.4",  \
                    .max = 1,                                                                      \
                    .help = "A chain of the draft model ends before a token less likely than "     \
                            "this."),                                                              \
        FY_SPEC_ROW(n_nodes, .name = "draft-batch-size", .kind = FY_OPT_INT, .arg = "N",           \
                    .def = "12", .min = 2, .max = FY_PROPOSAL_MAX + 1,                             \
                    .help = "Tokens of a step with a tree, the text's last one included."),        \
        FY_SPEC_ROW(top_k, .name = "draft-sampler-top-k", .kind = FY_OPT_INT, .arg = "K",          \
                    .def = "15", .min = 1, .max = 64,                                              \
                    .help = "Of a tree: as many tokens may follow another."),                      \
        FY_SPEC_ROW(temperature, .name = "draft-sampler-temperature", .kind = FY_OPT_FLOAT,        \
                    .arg = "T", .def = "1.5", .min = 0.01, .max = 100,                             \
                    .help = "Of a tree: temperature of their probabilities."),                     \
        FY_SPEC_ROW(p_base, .name = "draft-sampler-p-base", .kind = FY_OPT_FLOAT, .arg = "P",      \
                    .def = "0.9", .max = 1,                                                        \
                    .help = "Of a tree: a token is followed when it is as likely as P times the "  \
                            "likeliest."),                                                         \
        FY_SPEC_ROW(fan_out, .name = "token-tree-max-fan-out", .kind = FY_OPT_INT, .arg = "N",     \
                    .def = "3", .min = 1, .max = 64,                                               \
                    .help = "Of a tree: so many of them are followed, at most."),                  \
        FY_SPEC_ROW(min_prob, .name = "token-tree-min-prob", .kind = FY_OPT_FLOAT, .arg = "P",     \
                    .def = "0.2", .max = 1,                                                        \
                    .help = "Of a tree: a branch less likely than this is not followed."),         \
        FY_SPEC_ROW(early_stop, .name = "token-tree-early-stop", .kind = FY_OPT_FLAG,              \
                    .def = "yes",                                                                  \
                    .help = "Of a tree: follow nothing that could not become part of it."),        \
        FY_SPEC_ROW(ngram, .name = "ngram", .kind = FY_OPT_INT, .arg = "N", .min = 2, .max = 64,   \
                    .help = "Of lookahead: length of its n-grams; 5 when not given."),             \
        FY_SPEC_ROW(window, .name = "window", .kind = FY_OPT_INT, .arg = "W", .min = 1, .max = 64, \
                    .help = "Of lookahead: positions ahead; 8 when not given."),                   \
        FY_SPEC_ROW(gcap, .name = "gcap", .kind = FY_OPT_INT, .arg = "G", .min = 1, .max = 64,     \
                    .help = "Of lookahead: n-grams proposed at once; 8 when not given.")

/* None, with every setting at its default. */
fy_spec_options fy_spec_defaults(void);
bool fy_spec_uses_draft(fy_spec_method m);
/* What was asked for, completed: *method, and the draft's file (owned by the caller; NULL: none).
 * workspace: its directory, and the name of its draft model; NULL: none. */
int fy_spec_plan(const fy_spec_options *o, const char *workspace, const char *its_draft,
                 fy_spec_method *method, char **draft, fy_err *e);
/* Tokens of a step, at most: what the model's session needs logits of. */
uint32_t fy_spec_step_tokens(const fy_spec_options *o, fy_spec_method m);
/* draft: a session of the draft model, taken; NULL: there is none. session: of the model. */
fy_speculator *fy_spec_make(const fy_spec_options *o, fy_spec_method m, fy_session *draft,
                            const fy_session *session, uint32_t n_vocab, fy_err *e);

/* "lookup: 12 of 30 guesses right in 20 steps, 61.0 tok/s | none: 40 steps, 31.2 tok/s" */
void fy_spec_line(const fy_speculator *s, fy_str *out);
/* "speculation":[{"method":"lookup",...},...] without a comma; the last one, "none", is of steps
 * without a guess. */
void fy_spec_json(const fy_speculator *s, fy_str *out);

#endif
