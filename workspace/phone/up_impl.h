/* `ferry up` in three files: up_call.c calls verbs and remembers what they made, up_npu.c compiles
 * the model for an NPU, up.c has the other steps and the verb. */
#ifndef FY_WORKSPACE_UP_IMPL_H
#define FY_WORKSPACE_UP_IMPL_H

#include "base/hash.h"
#include "cli/call.h"
#include "workspace/phone/adb.h"

enum { FY_UP_CONVERT, FY_UP_COMPILE }; /* the first of --to */

typedef struct {
    const char *device, *serial, *dir, *recipe, *soc, *sdk, *hub;
    int outtype, to;
    bool dry_run, force, fetch, quiet, verbose;
    fy_opt_list convert, chunk, compile, create, push, chat;
} fy_up_options;

typedef struct {
    const fy_up_options *o;
    const char *checkpoint;          /* a directory, or a GGUF file */
    const char *name;                /* the checkpoint's; NULL: the last part of its path */
    const char *outtype;             /* what to convert to; NULL for a GGUF file */
    char *cache;                     /* owned */
    char *source;                    /* owned; real path of the checkpoint */
    char source_hash[FY_SHA256_HEX]; /* of its contents */
    char program[FY_SHA256_HEX];     /* of the running program: another one may make other bytes */
    char *gguf;                      /* owned */
    char *compiled;                  /* owned; the directory; NULL: nothing is compiled */
    char model_key[FY_SHA256_HEX];   /* of the GGUF file, then of the directory */
    char *dir;                       /* owned; the workspace */
    bool missing;                    /* a dry run: an earlier step would have made it */
    bool there;                      /* this version is on the phone */
    fy_adb *a;                       /* owned; NULL: not asked yet */
} fy_up_job;

/* "convert: skipped: ..." to stderr; of a dry run to stdout. */
__attribute__((format(printf, 3, 4))) int fy_up_say(const fy_up_job *j, const char *step,
                                                    const char *fmt, ...);

/* --- calls of verbs --------------------------------------------------------------------------- */

typedef struct {
    char **word, **argv; /* owned: the words, and the list of them that a call reorders */
    int n;
    bool oom;
    fy_call call;
} fy_up_call;

void fy_up_put(fy_up_call *c, const char *word);
void fy_up_put_value(fy_up_call *c, const char *name, const char *value); /* "--name=value" */
void fy_up_put_list(fy_up_call *c, const fy_opt_list *l);
void fy_up_put_level(fy_up_call *c, const fy_up_job *j); /* --quiet, --verbose */
/* Reads the words; may be called again after more of them were put. */
int fy_up_open_call(fy_up_call *c, const char *name, fy_err *e);
int fy_up_run_call(fy_up_call *c, int *status, fy_err *e);
void fy_up_release_call(fy_up_call *c);
/* The option's value; NULL: not given. */
const char *fy_up_text_option(const fy_call *c, const char *name);

/* --- results ---------------------------------------------------------------------------------- */

int fy_up_hash(const fy_up_job *j, const char *path, const char *what, char hex[FY_SHA256_HEX],
               fy_err *e);
/* "CACHE/STEP-KEY/NAME"; name NULL: the last part is left out. The caller frees it. */
char *fy_up_cache_path(const fy_up_job *j, const char *step, const char *key, const char *name,
                       fy_err *e);
/* What a step made earlier of the same things: 1 and its hash; 0: nothing. */
int fy_up_recorded(const fy_up_job *j, const char *step, const char *key, const char *result,
                   char hex[FY_SHA256_HEX], fy_err *e);
int fy_up_record_made(const fy_up_job *j, const char *step, const char *key, const char *result,
                      const char *result_hash, fy_err *e);
/* 1: the file or directory is there, with the contents that it was made with. */
int fy_up_is_there(const fy_up_job *j, const char *step, const char *key, const char *result,
                   fy_err *e);

/* --- the NPU ---------------------------------------------------------------------------------- */

/* The step `compile`: cuts the GGUF file and compiles its chunks; nothing without --sdk. */
int fy_up_compile(fy_up_job *j, fy_err *e);
/* The options of create for the vendor's libraries, where the user has given none. */
int fy_up_put_libraries(const fy_up_job *j, fy_up_call *create, fy_err *e);
/* What `create` takes of that directory, for its key: an SDK has thousands of files. */
int fy_up_add_libraries(const fy_up_job *j, fy_str *key, const fy_call *create, fy_err *e);
/* Are the options for an NPU complete, and chip and library known? */
int fy_up_check_npu(const fy_up_options *o, fy_err *e);

#endif
