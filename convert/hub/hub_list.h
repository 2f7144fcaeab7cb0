/* The files of a repository: read from the hub's reply about it, and which of them a conversion
 * needs.
 *
 * The reply is that of GET {endpoint}/api/models/{repo}/revision/{revision}?blobs=true:
 *     {"sha": COMMIT, "siblings": [{"rfilename": NAME, "size": N, "blobId": GIT_SHA1,
 *                                   "lfs": {"sha256": HEX, "size": N, ...}}, ...], ...}
 * A pure function of its bytes: untrusted input is checked here, so that afterwards names
 * are safe as paths below a directory, and hashes as names of files. */
#ifndef FY_HUB_HUB_LIST_H
#define FY_HUB_HUB_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/opts.h"
#include "format/gguf_name.h"

#define FY_HUB_REPLY_MAX  ((size_t)32 << 20) /* bytes; a repository of 10,000 files takes 3 MB */
#define FY_HUB_FILES_MAX  100000
#define FY_HUB_HASH_BYTES 65 /* of hexadecimal digits with the NUL */

typedef struct {
    const char *name;  /* view of the list's strings: a relative path without "." and ".." */
    const char *shown; /* view: the name for messages (base/quote.h) */
    uint64_t size;
    char hash[FY_HUB_HASH_BYTES]; /* 64 digits: SHA-256 of the contents; 40: SHA-1 of git's blob;
                                     "": the reply has none, and then the size is not valid
                                     either */
    bool wanted;
} fy_hub_file;

typedef struct {
    char commit[FY_HUB_HASH_BYTES];
    fy_hub_file *files; /* owned; sorted by name */
    size_t n, cap;
    fy_arena strings;
    /* set by fy_hub_list_choose: the GGUF model that is wanted (first NULL: none is), and how many
     * there are */
    fy_gguf_variant model;
    size_t n_models;
} fy_hub_list;

int fy_hub_list_read(const void *p, size_t n, fy_hub_list *out, fy_err *e);
void fy_hub_list_release(fy_hub_list *l);

/* 40 or 64 lower-case hexadecimal digits. */
bool fy_hub_is_hash(const char *text, size_t n);

typedef enum {
    FY_HUB_ANY,        /* a checkpoint, else a GGUF model */
    FY_HUB_CHECKPOINT, /* what convert takes */
    FY_HUB_GGUF,       /* what run takes */
} fy_hub_kind;

/* Which files are wanted. All zeros: what fetch takes. */
typedef struct {
    const char *id; /* "ORG/NAME", for messages; view */
    const fy_opt_list *include, *exclude;
    fy_hub_kind kind;
    const char *type; /* of a GGUF model; "" or NULL: not given */
    /* Several models, and no type is given: *chosen is the default and may be changed. NULL: the
     * default is taken. */
    int (*ask)(const char *id, const fy_gguf_variants *l, const fy_gguf_variant **chosen, fy_err *e);
} fy_hub_choice;

/* Sets `wanted`. With include the files that match one of its patterns; else a checkpoint: config,
 * tokenizer, templates, model card and the weights of one container: safetensors, else PyTorch's
 * .bin, else Meta's consolidated.*.pth, else an adapter; or the files of one GGUF model
 * (format/gguf_name.h). Those that match a pattern of exclude are left out. '*' in a pattern stands
 * for any characters, '/' too. Nothing of that kind: FY_EUNSUPPORTED. */
int fy_hub_list_choose(fy_hub_list *l, const fy_hub_choice *c, fy_err *e);

/* Are weights of a checkpoint in the list, or a GGUF model? */
bool fy_hub_list_has_weights(const fy_hub_list *l);
bool fy_hub_list_has_gguf(const fy_hub_list *l);
/* The GGUF models that are whole; released by fy_gguf_variants_release, before the list. */
int fy_hub_list_models(const fy_hub_list *l, fy_gguf_variants *out, fy_err *e);

#endif
