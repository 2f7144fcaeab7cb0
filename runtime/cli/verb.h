/* A verb of `ferry`: its options, words and function. One table (verbs.c) lists them all; --help,
 * the man pages and shell completion are made from it, so nothing about a verb is written twice. */
#ifndef FY_CLI_VERB_H
#define FY_CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/types.h"
#include "base/version.h"

#define FERRY_DATE    "November 21, 2026" /* of this version, on its man pages */

/* What verbs are for: the headings of `ferry --help`. */
typedef enum { FY_TASK_USE, FY_TASK_MAKE, FY_TASK_PACKAGE, FY_TASK_PHONE, FY_TASK_INSIDE } fy_task;

/* Options of another verb that a verb takes as well, to pass them on. */
typedef struct {
    const char *verb;   /* that verb */
    const char *except; /* "model|work-folder": its options that are not taken; NULL: all are */
    size_t offset;      /* of the fy_opt_list field that gets the words, as they were given */
} fy_borrow;

typedef struct {
    const char *name;
    const char *summary;    /* one line: "turn a checkpoint into a GGUF file" */
    const char *synopsis;   /* positional arguments: "DIR", "IN.gguf OUT.gguf TYPE" */
    int min_args, max_args; /* positional; max -1: any number */
    const fy_opt *opts;
    size_t n_opts;
    size_t opts_bytes;       /* size of the struct that the rows' offsets point into */
    const char *description; /* paragraphs separated by blank lines, plain words */
    const char *examples;    /* "command\n" lines; a line that starts with '#' explains the next */
    /* o: the filled struct. Returns 0, or -1 with *e set; main prints "ferry VERB: <msg>" and exits
     * with fy_exit_status(e->code). Data goes to stdout, words to stderr (fy_log). */
    int (*run)(void *o, int n_args, char **args, fy_err *e);
    /* The rest may be left out. */
    fy_task task;
    const char *arg_choices;        /* what a positional argument may be: "TYPE=f32|f16|q8_0" */
    const char *environment;        /* "NAME meaning\n": variables that only this verb obeys */
    void (*libraries)(fy_str *out); /* appends "name version\n" of each that comes with this verb */
    bool on_phone; /* has FY_ROWS_DEVICE: a call with --device runs on the phone instead */
    /* Does such a call read standard input, besides options whose value is "-"? NULL: no. */
    bool (*reads_input)(const void *o, int n_args, char **args);
    const fy_borrow *borrow; /* up to a verb NULL; the first that has an option gets it */
} fy_verb;

extern const fy_verb *const fy_verbs[]; /* NULL-terminated, in the order of --help */
const fy_verb *fy_verb_find(const char *name);

void fy_verb_help(const fy_verb *v, fy_str *out);             /* --help */
void fy_verb_man(const fy_verb *v, fy_str *out);              /* ferry-VERB.1, mdoc */
void fy_verbs_man(fy_str *out);                               /* ferry.1 */
int fy_completion(const char *shell, fy_str *out, fy_err *e); /* bash, zsh, fish */

/* Words that stand in a verb's place and ask about the program itself. */
typedef struct {
    const char *name;
    const char
        *arg; /* its one argument: "[VERB]", "bash|zsh|fish"; one in brackets may be absent */
    const char *summary;
} fy_word;
extern const fy_word fy_words[]; /* up to a name NULL */

/* What the pages share. */
void fy_put_session(fy_str *out, const char *indent); /* a first session, line by line */
size_t fy_paragraph(const char *text, fy_str *out);   /* appends the first one; where the next is */
typedef struct {
    int status;
    const char *text;
} fy_exit_row;
extern const fy_exit_row fy_exit_rows[]; /* up to a text NULL */

/* Main shows these, and takes the level of words from a verb's --quiet and --verbose. */
extern const fy_type fy_cache_types[]; /* the choices of --cache-type-k and -v, in order */

void fy_version_text(fy_str *out); /* one line */
void fy_version_json(fy_str *out);

/* Where the running verb's option with this field has its value from: "command line",
 * "FERRY_TEMP", "DIR/ferry/config:3: temp"; NULL: the default. */
const char *fy_option_source(const void *field);

/* Where a verb with `on_phone` runs: fields `device` and `serial`, both const char *, of its
 * `options`. The rows end with their comma; the phone's own build has none of them. */
#ifndef FERRY_DEVICE
#define FY_ROW_DEVICE                                                                            \
    {                                                                                            \
        .group = "Place", .name = "device", .kind = FY_OPT_STR, .arg = "SERIAL",                 \
        .offset = offsetof(options, device), .bare = "", .line_only = true, .host_only = true,   \
        .help = "Run on the phone with this serial number, through adb; without a number on "    \
                "ANDROID_SERIAL's, or on the only one there is. A workspace that is named is "   \
                "then one that was pushed."                                                      \
    }
#define FY_ROW_SERIAL                                                                          \
    {                                                                                          \
        .group = "Place", .name = "serial", .alias = "s", .kind = FY_OPT_STR, .arg = "SERIAL", \
        .offset = offsetof(options, serial), .line_only = true, .host_only = true,             \
        .help = "The same as --device=SERIAL."                                                 \
    }
#define FY_ROWS_DEVICE FY_ROW_DEVICE, FY_ROW_SERIAL,
#else
#define FY_ROWS_DEVICE
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
    "ANDROID_SERIAL The phone, when -s does not say.\n"                                           \
    "ADB_SERVER_SOCKET Where the adb server listens: tcp:PORT or tcp:HOST:PORT.\n"                \
    "ANDROID_ADB_SERVER_ADDRESS Its machine, when ADB_SERVER_SOCKET is not set; 127.0.0.1.\n"     \
    "ANDROID_ADB_SERVER_PORT Its port, when ADB_SERVER_SOCKET is not set; 5037.\n"                \
    "FERRY_ADB_TIMEOUT Seconds of silence after which a phone or its server is given up; 30 for " \
    "an answer, 120 for a transfer.\n"                                                            \
    "ANDROID_HOME The Android SDK, whose adb is started when PATH holds none; or "                \
    "ANDROID_SDK_ROOT.\n"

/* Option rows that several verbs have, for fields of these names in the verb's `options`; those
 * with a parameter are told the field. */
#define FY_ROW_THREADS FY_ROW_THREADS_OF(n_threads)
#define FY_ROW_THREADS_OF(field)                                                                   \
    {                                                                                              \
        .group = "Machine", .name = "threads", .alias = "t", .kind = FY_OPT_INT, .arg = "N",       \
        .offset = offsetof(options, field), .min = 1, .max = FY_THREADS_MAX,                       \
        .help = "Threads; as many as fast CPUs when not given, at most 16. The result does not "   \
                "depend on it."                                                                    \
    }
#define FY_ROW_BATCH_OF(field)                                                                    \
    {                                                                                             \
        .group = "Machine", .name = "batch-size", .alias = "b", .kind = FY_OPT_INT, .arg = "N",   \
        .offset = offsetof(options, field), .min = 1, .max = 1 << 20,                             \
        .help = "Prompt tokens computed at once; 512 when not given. The result does not depend " \
                "on it."                                                                          \
    }
/* Fields are numbers in fy_cache_types. */
#define FY_ROW_CACHE_K_OF(field, type)                                                     \
    {                                                                                      \
        .group = "Machine", .name = "cache-type-k", .alias = "ctk", .kind = FY_OPT_CHOICE, \
        .arg = "f32|f16|q8_0", .offset = offsetof(options, field), .def = type,            \
        .help = "Type of the keys in the cache; q8_0 takes heads of a multiple of 32."     \
    }
#define FY_ROW_CACHE_V_OF(field, type)                                                     \
    {                                                                                      \
        .group = "Machine", .name = "cache-type-v", .alias = "ctv", .kind = FY_OPT_CHOICE, \
        .arg = "f32|f16|q8_0", .offset = offsetof(options, field), .def = type,            \
        .help = "Type of the values in the cache; q8_0 takes heads of a multiple of 32."   \
    }
#define FY_ROW_QUIET                                                                        \
    {                                                                                       \
        .group = "Messages", .name = "quiet", .alias = "q", .kind = FY_OPT_FLAG,            \
        .offset = offsetof(options, quiet), .help = "Say nothing but warnings and errors.", \
        .set = "words"                                                                      \
    }
#define FY_ROW_VERBOSE                                                                            \
    {                                                                                             \
        .group = "Messages", .name = "verbose", .alias = "v", .kind = FY_OPT_FLAG,                \
        .offset = offsetof(options, verbose),                                                     \
        .help = "Say more: what was found and chosen, and where options have their values from.", \
        .set = "words"                                                                            \
    }

/* The program's log sink: words on stderr up to the level set by fy_log_show (FY_LOG_INFO at the
 * start; a verb's -q sets FY_LOG_WARN, its -v FY_LOG_DEBUG), which returns the level before. */
void fy_log_to_stderr(void *user, fy_log_level level, const char *text);
fy_log_level fy_log_show(fy_log_level most);

/* Is it a terminal whose cursor can be moved (TERM is not "dumb"), and may it be given colours
 * (NO_COLOR is not set)? */
bool fy_terminal(int fd);
bool fy_colour(int fd);
int fy_terminal_columns(int fd, int otherwise); /* otherwise: where it is none, or does not say */

/* A progress display on stderr: a bar with rate and ETA on a terminal, a line every 10 s otherwise,
 * nothing below FY_LOG_INFO. fy_show_end clears the bar. One at a time. */
void fy_show_begin(fy_progress *p, const char *what, uint64_t total_bytes);
void fy_show_end(fy_progress *p);

/* The type that a FY_OPT_CHOICE of types holds, in *into; NULL when it was not given. */
const fy_type *fy_chosen_type(const char *choices, int choice, fy_type *into);

double fy_now_s(void); /* of a clock that only runs forward */

/* Resident memory of this process in bytes from /proc/self/status; 0 when unknown. */
uint64_t fy_rss_anon_bytes(void);
uint64_t fy_rss_peak_bytes(void);
/* A line of /proc/meminfo in bytes ("MemAvailable"); 0 when unknown. */
uint64_t fy_meminfo_bytes(const char *key);

/* SIGINT, SIGTERM and SIGHUP raise fy_interrupted; a mapped file that cannot be read any more ends
 * the program with a message. */
void fy_signals_install(void);

/* Writes to stdout; a failed or short write is FY_EIO (a closed pipe too). */
int fy_stdout(const void *p, size_t n, fy_err *e);

#endif
