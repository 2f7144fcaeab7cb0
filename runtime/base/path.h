/* Paths and names: joining and splitting, directories, the user's own files, and names of
 * repositories on the Hugging Face hub. */
#ifndef FY_BASE_PATH_H
#define FY_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* "<dir>/<name>" into a new string that the caller frees; NULL when out of memory. */
char *fy_path_join(const char *dir, const char *name);

/* A path as printf makes it; NULL: out of memory, which is recorded. */
char *fy_path_format(fy_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The part after the last '/' (trailing slashes ignored). View of `path`. */
fy_span fy_path_base(const char *path);

/* True for a plain file name: not empty, no '/', no NUL, not "." or "..". */
bool fy_path_is_plain(fy_span name);

/* mkdir -p with mode 0777 & ~umask. */
int fy_mkdirs(const char *path, fy_err *e);
/* "<dir>/<rel>", which the caller frees, with the directories above it made. NULL on failure. */
char *fy_path_make(const char *dir, const char *rel, fy_err *e);

/* The user's own files: appends the path of ferry/NAME below $XDG_CONFIG_HOME, else below
 * ~/.config. A relative directory there would mean another one wherever the program runs: it counts
 * as not set. False: neither variable is set. */
bool fy_config_path(const char *name, fy_str *out);
/* The same of what ferry remembers: below $XDG_STATE_HOME, else ~/.local/state. */
bool fy_state_path(const char *name, fy_str *out);

/* ferry/NAME below $XDG_CACHE_HOME, else below ~/.cache, made when it is not there; the caller frees
 * it. Everything in it may be removed at any time. */
char *fy_cache_dir(const char *name, fy_err *e);

/* --- names of hub repositories as a command line has them: [ORG/]NAME[:TYPE][@REVISION] --- */

/* Bytes of the [ORG/]NAME at the beginning; 0 if the text is not such a name. The hub's own rule
 * (validate_repo_id of huggingface_hub): parts of 1 to 96 of A-Z a-z 0-9 _ . -, which begin and end
 * with a letter, a digit or _; no "--" and no ".."; not "*.git". A type is there when text[n] is
 * ':', a revision when it is '@'; neither is checked. */
size_t fy_hub_id_bytes(const char *text);

/* ORG/NAME, with or without type and revision, where no file or directory has this name,
 * and which is not the name of a file such as DIR/NAME.gguf. */
bool fy_hub_id_is_meant(const char *text);

#endif
