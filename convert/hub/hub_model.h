/* Models that the user names: a path, or a repository of the hub that is in the cache or is fetched
 * into it. */
#ifndef FY_HUB_HUB_MODEL_H
#define FY_HUB_HUB_MODEL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/verb.h"
#include "hub/hub_list.h"

/* A checkpoint or a model on this machine. */
typedef struct {
    char *path; /* owned; a directory or a file, of a split GGUF model the first */
    char *name; /* owned; NAME of a cache entry, whose directory is named by a commit; NULL: that of
                   path */
} fy_hub_place;

void fy_hub_place_release(fy_hub_place *p);

/* Where it is: a path, of a cache entry too, or "[ORG/]NAME[:TYPE][@REVISION]" where no such path
 * exists and the cache holds it. Of a cache entry: the snapshot of the revision, "main" when none is
 * given, or the only snapshot; of a snapshot with GGUF models the one that is chosen from it
 * (fy_hub_list_choose), and so of any other directory that holds nothing else. Nothing is
 * downloaded. */
int fy_hub_find(const char *text, fy_hub_kind kind, fy_hub_place *out, fy_err *e);

/* The same, and with `fetch` set a repository is downloaded first, or what of it is not there. */
int fy_hub_get(const char *text, fy_hub_kind kind, bool fetch, fy_hub_place *out, fy_err *e);

/* Appends what a snapshot holds, unless it is in the text: "checkpoint", and the types of its GGUF
 * models, with ", " between them. */
int fy_hub_put_models(const char *dir, fy_str *out, fy_err *e);

/* fy_program's hub_model (cli/verb.h). What the cache has is taken as it is. */
int fy_hub_model_path(const fy_hub_want_model *want, char **path, fy_err *e);

#endif
