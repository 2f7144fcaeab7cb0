/* The options of generation that run and chat share. Where each value of sampling comes from: the
 * flag (or its FERRY_* variable or configuration file line), else the workspace's hparams.json,
 * else the model's generation_config (general.sampling.* keys of the GGUF), else the default. */
#ifndef FY_CLI_GEN_OPTIONS_H
#define FY_CLI_GEN_OPTIONS_H

#include "base/err.h"
#include "base/opts.h"
#include "bundle/bundle.h"
#include "format/gguf.h"
#include "model/sample.h"
#include "model/stop.h"

/* A verb embeds this as the field `gen` of its `options`, and FY_ROW_STOP and FY_ROWS_SAMPLING in
 * its rows. */
typedef struct {
    double temp, top_p, min_p, typical, repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last_n;
    const char *seed; /* text: a u64, or -1 for a new one each time */
    const char *samplers;
    fy_opt_list logit_bias; /* "ID+BIAS", "ID-BIAS", "ID=-inf" */
    fy_opt_list stop;       /* texts that end the answer */
} fy_gen_options;

/* The result; holds the memory that the params point into. */
typedef struct {
    fy_sampler_params params;
    fy_logit_bias *bias; /* owned */
} fy_gen_params;

/* bundle: NULL without a workspace. model: NULL when there is none to ask. greedy: what to do when
 * neither an option nor hparams.json asks for sampling (run: true, the model's values are not used;
 * chat: false, the model's values and the defaults are used). A workspace does not ask for it with
 * top_k 1, which PowerServe writes instead of temperature 0, or with a copy of its model's values.
 * Logs every value and its source at FY_LOG_DEBUG, and a seed that was drawn at FY_LOG_INFO.
 * n_vocab bounds the ids of --logit-bias. On failure *out is empty. */
int fy_gen_params_of(const fy_gen_options *o, const fy_bundle *bundle, const fy_gguf *model,
                     bool greedy, uint32_t n_vocab, fy_gen_params *out, fy_err *e);
void fy_gen_params_release(fy_gen_params *p);

/* *out: NULL without --stop and turn (fy_vocab_turn_text, or empty); else free it. */
int fy_gen_stops_of(const fy_gen_options *o, fy_span turn, fy_stops **out, fy_err *e);

#define FY_ROW_STOP(group_)                                                                     \
    {                                                                                           \
        .group = group_, .name = "stop", .kind = FY_OPT_STR, .arg = "TEXT",                     \
        .offset = offsetof(options, gen.stop), .many = true,                                    \
        .help =                                                                                 \
            "End the answer before this text, wherever tokens divide it. May be repeated; the " \
            "first that appears counts."                                                        \
    }
#define FY_GEN_GROUP "Sampling"
#define FY_GEN_ROW(field, ...)                                                     \
    {                                                                              \
        .group = FY_GEN_GROUP, .offset = offsetof(options, gen.field), __VA_ARGS__ \
    }
/* FY_ROWS_SAMPLING: the rows, comma separated, to stand in a table of fy_opt. None has a default
 * here: it is what the workspace or the model says. */
#define FY_ROWS_SAMPLING                                                                           \
    FY_GEN_ROW(temp, .name = "temp", .kind = FY_OPT_FLOAT, .arg = "T", .max = 100,                 \
               .help = "Temperature; 0 takes the likeliest token. Usually 0.8."),                  \
        FY_GEN_ROW(top_k, .name = "top-k", .kind = FY_OPT_INT, .arg = "K", .max = INT32_MAX,       \
                   .help = "Choose among the K likeliest tokens; 0: all. Usually 40."),            \
        FY_GEN_ROW(top_p, .name = "top-p", .kind = FY_OPT_FLOAT, .arg = "P", .max = 1,             \
                   .help = "Choose among the likeliest tokens that together have probability P; "  \
                           "1: all. Usually 0.95."),                                               \
        FY_GEN_ROW(min_p, .name = "min-p", .kind = FY_OPT_FLOAT, .arg = "P", .max = 1,             \
                   .help = "Leave out tokens less likely than P times the likeliest; 0: none. "    \
                           "Usually 0.05."),                                                       \
        FY_GEN_ROW(                                                                                \
            typical, .name = "typical", .kind = FY_OPT_FLOAT, .arg = "P", .max = 1,                \
            .help = "Choose among the tokens nearest to the expected surprise that together have " \
                    "probability P; 1: all. Usually 1."),                                          \
        FY_GEN_ROW(repeat_penalty, .name = "repeat-penalty", .kind = FY_OPT_FLOAT, .arg = "F",     \
                   .min = 0.01, .max = 100,                                                        \
                   .help =                                                                         \
                       "Divide positive logits of recent tokens by F, multiply negative ones; "    \
                       "1: off. Usually 1."),                                                      \
        FY_GEN_ROW(repeat_last_n, .name = "repeat-last-n", .kind = FY_OPT_INT, .arg = "N",         \
                   .min = -1, .max = FY_SAMPLE_WINDOW_MAX,                                         \
                   .help = "Tokens that count as recent; 0: none, -1: all. Usually 64."),          \
        FY_GEN_ROW(presence_penalty, .name = "presence-penalty", .kind = FY_OPT_FLOAT, .arg = "F", \
                   .min = -100, .max = 100,                                                        \
                   .help = "Subtract F from the logit of every recent token. Usually 0."),         \
        FY_GEN_ROW(frequency_penalty, .name = "frequency-penalty", .kind = FY_OPT_FLOAT,           \
                   .arg = "F", .min = -100, .max = 100,                                            \
                   .help = "Subtract F from the logit of a recent token as often as it occurs. "   \
                           "Usually 0."),                                                          \
        FY_GEN_ROW(logit_bias, .name = "logit-bias", .kind = FY_OPT_STR, .arg = "ID+BIAS",         \
                   .many = true,                                                                   \
                   .help = "Add BIAS to the logit of token ID: 15+2.5, 15-1, or 15=-inf to never " \
                           "choose it. May be repeated."),                                         \
        FY_GEN_ROW(samplers, .name = "samplers", .kind = FY_OPT_STR, .arg = "ORDER",               \
                   .help = "Steps in their order, names or letters: "                              \
                           "penalties;top_k;typ_p;top_p;min_p;temperature is ekypmt, the usual "   \
                           "order. A step left out is off."),                                      \
        FY_GEN_ROW(seed, .name = "seed", .kind = FY_OPT_STR, .arg = "N",                           \
                   .help = "Seed of the draws, up to 18446744073709551615: the same seed gives "   \
                           "the same text. -1, or no seed: a new one is taken and shown.")

#endif
