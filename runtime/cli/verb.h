/* A verb of `ferry`: its options, texts and function. One table (program/verbs.c) lists them all;
 * --help, the man pages and shell completion are made from it, so nothing is written twice. */
#ifndef FY_CLI_VERB_H
#define FY_CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "format/gguf.h"

#define FERRY_DATE    "November 21, 2026" /* of this version, on its man pages */

/* The tasks of verbs: the headings of `ferry --help`. */
typedef enum { FY_TASK_USE, FY_TASK_MAKE, FY_TASK_PACKAGE, FY_TASK_PHONE, FY_TASK_INSIDE } fy_task;

/* Options of another verb that a verb takes as well, to pass them on. */
typedef struct {
    const char *verb;   /* that verb */
    const char *except; /* "model|work-folder": its options that are not taken; NULL: all are */
    size_t offset;      /* of the fy_opt_list field that gets the words as given */
} fy_borrow;

/* Where a verb has the model that it is given (cli/model_arg.h): offsets into its options. */
typedef struct {
    size_t model;      /* const char *: -m, a path when the verb runs */
    size_t workspace;  /* -d; 0: -m takes workspaces */
    size_t hub, fetch; /* const char *: -hf; bool: --fetch; 0: the verb has them not */
    bool first_arg;    /* the first argument may be the model */
    bool checkpoint;   /* it may be a checkpoint */
} fy_model_slots;

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
     * with fy_exit_status(e->code). Data goes to stdout, messages to stderr (fy_log). */
    int (*run)(void *o, int n_args, char **args, fy_err *e);
    /* The rest may be left out. */
    fy_task task;
    const char *arg_choices;        /* what a positional argument may be: "TYPE=f32|f16|q8_0" */
    const char *environment;        /* "NAME meaning\n": variables that only this verb obeys */
    void (*libraries)(fy_str *out); /* appends "name version\n" of each that comes with this verb */
    bool on_phone; /* has FY_ROWS_DEVICE: a call with --device runs on the phone instead */
    /* Does such a call read standard input, besides options whose value is "-"? NULL: no. */
    bool (*reads_input)(const void *o, int n_args, char **args);
    /* Of the verb that converts: the keys that the tokenizer of a checkpoint gives, or NULL. */
    fy_gguf *(*vocabulary)(const char *checkpoint, fy_err *e);
    const fy_borrow *borrow; /* up to a verb NULL; the first that has an option gets it */
    const fy_model_slots *model; /* NULL: it takes no model, or looks for it itself */
    /* The fy_opt_list field that gets what stands after the first argument, which names a verb: its
     * words, without the options that this verb has and that one has not. 0: none. */
    size_t words;
} fy_verb;

/* A model that may be on the hub. */
typedef struct {
    const char *text;
    bool is_name;   /* of a repository, whatever paths there are */
    bool gguf_only; /* no checkpoint */
    bool fetch;     /* download what is not in the cache */
    bool may_ask;   /* or ask the user whether to */
} fy_hub_want_model;

/* What this build is made of. cli/ is below the tools: it reaches what they define through this
 * table, which runtime/program fills. */
typedef struct fy_call fy_call;
typedef struct {
    const fy_verb *const *verbs; /* NULL-terminated, in the order of --help */
    /* The rest is NULL in builds for the device. */
    /* Appends the GGUF header (keys and tensors, no data) that a conversion of the checkpoint to f16
     * would begin with, without the tokenizer's keys: for fy_gguf_parse with header_only. path: a
     * directory with weights or with config.json alone, a config.json, or ORG/NAME. */
    int (*checkpoint_header)(const char *path, fy_str *out, fy_err *e);
    /* *path, which the caller frees: what the text means on this machine. FY_EIO: it is not there. */
    int (*hub_model)(const fy_hub_want_model *want, char **path, fy_err *e);
    /* Makes the call on the phone; as fy_call_run. */
    int (*run_on_phone)(const fy_call *c, const char *serial, int *status, fy_err *e);
    /* Asks a phone ("": the only one) for ro.soc.model and the bytes of its memory, 0 when it does
     * not say. */
    int (*phone_chip)(const char *serial, char soc[FY_QUOTE_BYTES], uint64_t *memory, fy_err *e);
} fy_program;

void fy_program_set(const fy_program *p); /* once, before anything else; p has to last */
const fy_program *fy_program_now(void);   /* before that: one without verbs */
const fy_verb *fy_verb_find(const char *name);

void fy_verb_help(const fy_verb *v, fy_str *out);             /* --help */
void fy_verb_man(const fy_verb *v, fy_str *out);              /* ferry-VERB.1, mdoc */
void fy_verbs_man(fy_str *out);                               /* ferry.1 */
int fy_completion(const char *shell, fy_str *out, fy_err *e); /* bash, zsh, fish */

/* Words instead of a verb that ask about the program itself. */
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

void fy_version_text(fy_str *out); /* one line */
void fy_version_json(fy_str *out);

/* The source of the value of the running verb's option with this field: "command line",
 * "FERRY_TEMP", "DIR/ferry/config:3: temp"; NULL: the default. */
const char *fy_option_source(const void *field);

#endif
