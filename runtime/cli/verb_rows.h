/* Option rows that several verbs share. A verb puts them into its table of fy_opt; each row fills
 * the field of this name in the verb's own `options` struct, and a row ..._OF(field) the field
 * given. */
#ifndef FY_CLI_VERB_ROWS_H
#define FY_CLI_VERB_ROWS_H

#include <stddef.h>

#include "base/opts.h"
#include "base/thread.h"
#include "base/types.h"

extern const fy_type fy_cache_types[]; /* the choices of --cache-type-k and -v, in order */

/* The type that a FY_OPT_CHOICE of types holds, in *into; NULL when it was not given. */
const fy_type *fy_chosen_type(const char *choices, int choice, fy_type *into);

/* Where a verb with `on_phone` runs: fields `device` and `serial`, both const char *, and int64_t
 * `cache_size` of its `options`. The rows end with their comma; the phone's own build has none of
 * them. */
#ifndef FERRY_DEVICE
#define FY_ROW_DEVICE                                                                          \
    {                                                                                          \
        .group = "Place", .name = "device", .kind = FY_OPT_STR, .arg = "SERIAL",               \
        .offset = offsetof(options, device), .bare = "", .line_only = true, .host_only = true, \
        .help = "Run on the phone with this serial number, through adb; without a number on "  \
                "ANDROID_SERIAL's, or on the only one there is. A workspace that is named is " \
                "then one that was pushed; a model file is sent, and kept there."              \
    }
#define FY_ROW_SERIAL                                                                          \
    {                                                                                          \
        .group = "Place", .name = "serial", .alias = "s", .kind = FY_OPT_STR, .arg = "SERIAL", \
        .offset = offsetof(options, serial), .line_only = true, .host_only = true,             \
        .help = "The same as --device=SERIAL."                                                 \
    }
#define FY_ROW_CACHE_SIZE                                                                      \
    {                                                                                          \
        .group = "Place", .name = "cache-size", .kind = FY_OPT_SIZE, .arg = "N(M|G)",          \
        .offset = offsetof(options, cache_size), .def = "16G", .max = 1e18, .host_only = true, \
        .help = "Most bytes that model files may take on the phone; those that were used "     \
                "longest ago are removed first. 0: none stays there."                          \
    }
#define FY_ROWS_DEVICE FY_ROW_DEVICE, FY_ROW_SERIAL, FY_ROW_CACHE_SIZE,
#else
#define FY_ROWS_DEVICE
#endif

/* A model of the hub: fields for -hf (const char *) and --fetch (bool). The rows end with their
 * comma; the phone's own build has none of them. */
#ifndef FERRY_DEVICE
#define FY_ROW_HUB_OF(field)                                                                       \
    {                                                                                              \
        .group = "Model", .name = "hf-repo", .alias = "hf", .kind = FY_OPT_STR,                    \
        .arg = "ORG/NAME[:TYPE]", .offset = offsetof(options, field), .set = "model",              \
        .host_only = true,                                                                         \
        .help = "A repository of the Hugging Face hub, as 'ferry fetch' takes it; its GGUF model " \
                "of that type."                                                                    \
    }
#define FY_ROW_FETCH_OF(field, what)                                                           \
    {                                                                                          \
        .group = "Model", .name = "fetch", .kind = FY_OPT_FLAG,                                \
        .offset = offsetof(options, field), .line_only = true, .host_only = true, .help = what \
    }
#define FY_ROWS_HUB_OF(hub, fetch)                                           \
    FY_ROW_HUB_OF(hub),                                                      \
        FY_ROW_FETCH_OF(fetch, "Download a model of the hub that is not in " \
                               "the cache; a terminal is asked otherwise."),
#else
#define FY_ROWS_HUB_OF(hub, fetch)
#endif

/* The phone of a verb that always needs one: field `serial` of its `options`. */
#define FY_ROW_PHONE                                                                           \
    {                                                                                          \
        .group = "Phone", .name = "serial", .alias = "s", .kind = FY_OPT_STR, .arg = "SERIAL", \
        .offset = offsetof(options, serial), .line_only = true,                                \
        .help = "The phone; without it ANDROID_SERIAL's, or the only one that is connected."   \
    }

/* For the manual page of a verb that needs a phone; those with `on_phone` have it anyway. */
#define FY_ADB_ENVIRONMENT                                                                        \
    "ANDROID_SERIAL The phone, when -s is not given.\n"                                           \
    "ADB_SERVER_SOCKET Where the adb server listens: tcp:PORT or tcp:HOST:PORT.\n"                \
    "ANDROID_ADB_SERVER_ADDRESS Its machine, when ADB_SERVER_SOCKET is not set; 127.0.0.1.\n"     \
    "ANDROID_ADB_SERVER_PORT Its port, when ADB_SERVER_SOCKET is not set; 5037.\n"                \
    "FERRY_ADB_TIMEOUT Seconds of silence after which a phone or its server is given up; 30 for " \
    "an answer, 120 for a transfer.\n"                                                            \
    "ANDROID_HOME The Android SDK, whose adb is started when PATH holds none; or "                \
    "ANDROID_SDK_ROOT.\n"

/* Option rows that several verbs have, for fields of these names in the verb's `options`; those
 * with a parameter take the field. */
#define FY_ROW_THREADS FY_ROW_THREADS_OF(n_threads)
#define FY_ROW_THREADS_OF(field)                                                                 \
    {                                                                                            \
        .group = "Machine", .name = "threads", .alias = "t", .kind = FY_OPT_INT, .arg = "N",     \
        .offset = offsetof(options, field), .min = 1, .max = FY_THREADS_MAX,                     \
        .help = "Threads; as many as fast CPUs when not given, at most 16. The result does not " \
                "depend on it."                                                                  \
    }
#define FY_ROW_BATCH_OF(field)                                                                    \
    {                                                                                             \
        .group = "Machine", .name = "batch-size", .alias = "b", .kind = FY_OPT_INT, .arg = "N",   \
        .offset = offsetof(options, field), .min = 1, .max = 1 << 20,                             \
        .help = "Prompt tokens computed at once; 512 when not given. The result does not depend " \
                "on it."                                                                          \
    }
/* Fields are numbers in fy_cache_types. */
#define FY_ROW_CACHE_OF(field, type, letter, what)                                             \
    {                                                                                          \
        .group = "Machine", .name = "cache-type-" letter, .alias = "ct" letter,                \
        .kind = FY_OPT_CHOICE, .arg = "f32|f16|q8_0|q4_0", .offset = offsetof(options, field), \
        .def = type,                                                                           \
        .help = "Type of the " what                                                            \
                " in the cache; q8_0 and q4_0 need head sizes that are multiples of 32."       \
    }
#define FY_ROW_CACHE_K_OF(field, type) FY_ROW_CACHE_OF(field, type, "k", "keys")
#define FY_ROW_CACHE_V_OF(field, type) FY_ROW_CACHE_OF(field, type, "v", "values")
/* A text for fy_sparse_parse (engine.h). */
#define FY_ROW_SPARSE_OF(field)                                                                 \
    {                                                                                           \
        .group = "Machine", .name = "sparse", .kind = FY_OPT_STR,                               \
        .arg = "auto|exact|off|predict[:T]", .offset = offsetof(options, field), .def = "auto", \
        .help = "Of models with a ReLU activation, leave out the neurons that are 0 while "     \
                "decoding, with the same results: where it pays (auto), always (exact) or "     \
                "never (off). predict computes only those that the file's predictors score "    \
                "at least T (what the file says, or 0): faster, with other results."            \
    }
#define FY_ROW_QUIET                                                                   \
    {                                                                                  \
        .group = "Messages", .name = "quiet", .alias = "q", .kind = FY_OPT_FLAG,       \
        .offset = offsetof(options, quiet), .help = "Print only warnings and errors.", \
        .set = "words"                                                                 \
    }
#define FY_ROW_VERBOSE                                                                           \
    {                                                                                            \
        .group = "Messages", .name = "verbose", .alias = "v", .kind = FY_OPT_FLAG,               \
        .offset = offsetof(options, verbose),                                                    \
        .help = "Print more: what was found and chosen, and the source of each option's value.", \
        .set = "words"                                                                           \
    }

/* A verb's own rows, of options that the command line alone has: a flag, a text, a list of texts, a
 * choice. The value goes to `field` of its `options`. */
#define FY_LINE_FLAG(in, option, field, text)                                                 \
    {                                                                                         \
        .group = in, .name = option, .kind = FY_OPT_FLAG, .offset = offsetof(options, field), \
        .line_only = true, .help = text                                                       \
    }
#define FY_LINE_STR(in, option, value, field, text)                         \
    {                                                                       \
        .group = in, .name = option, .kind = FY_OPT_STR, .arg = value,      \
        .offset = offsetof(options, field), .line_only = true, .help = text \
    }
#define FY_LINE_LIST(in, option, value, field, text)                                      \
    {                                                                                     \
        .group = in, .name = option, .kind = FY_OPT_STR, .arg = value,                    \
        .offset = offsetof(options, field), .many = true, .line_only = true, .help = text \
    }
#define FY_LINE_CHOICE(in, option, choices, field, text)                    \
    {                                                                       \
        .group = in, .name = option, .kind = FY_OPT_CHOICE, .arg = choices, \
        .offset = offsetof(options, field), .line_only = true, .help = text \
    }
#define FY_LINE_STR_AS(in, option, short, value, field, text)                          \
    {                                                                                  \
        .group = in, .name = option, .alias = short, .kind = FY_OPT_STR, .arg = value, \
        .offset = offsetof(options, field), .line_only = true, .help = text            \
    }
/* Of options that a variable or the configuration file may set too. */
#define FY_ANY_FLAG(in, option, field, text)                                                  \
    {                                                                                         \
        .group = in, .name = option, .kind = FY_OPT_FLAG, .offset = offsetof(options, field), \
        .help = text                                                                          \
    }
#define FY_ANY_STR(in, option, value, field, text)                     \
    {                                                                  \
        .group = in, .name = option, .kind = FY_OPT_STR, .arg = value, \
        .offset = offsetof(options, field), .help = text               \
    }

#endif
