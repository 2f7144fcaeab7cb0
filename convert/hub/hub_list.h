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
} fy_hub_list;

int fy_hub_list_read(const void *p, size_t n, fy_hub_list *out, fy_err *e);
void fy_hub_list_release(fy_hub_list *l);

/* 40 or 64 lower-case hexadecimal digits. */
bool fy_hub_is_hash(const char *text, size_t n);

/* Sets `wanted`. With include the files that match one of its patterns; else config, tokenizer,
 * templates, model card and the weights of one container: safetensors, else PyTorch's .bin, else
 * Meta's consolidated.*.pth, else an adapter. Those that match a pattern of exclude are left out.
 * '*' in a pattern stands for any characters, '/' too. No file at all, or no weights by that rule:
 * FY_EUNSUPPORTED. */
int fy_hub_list_choose(fy_hub_list *l, const fy_opt_list *include, const fy_opt_list *exclude,
                       fy_err *e);

#endif
