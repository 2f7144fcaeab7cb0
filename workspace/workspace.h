/* The workspace directory and its tarball: create, pack, unpack, verify. Layout and schemas:
 * docs/workspace.md.
 *
 * Everything that writes works beside the final name ("DIR.part", "X.tar.zst.part") and renames
 * once it is whole; after a failure or an interrupt nothing is left under either name. Memory does
 * not depend on the size of the models. Each long job takes a fy_progress (or NULL), sets its
 * total_bytes once that is known, and polls fy_interrupted. */
#ifndef FY_WORKSPACE_H
#define FY_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"
#include "base/str.h"

#define FY_TARGET_ARM64 "aarch64-linux" /* what the manifest calls the device build */

/* --- create ----------------------------------------------------------------------------------- */

typedef struct {
    const char *const *models; /* GGUF files; the first is the main model */
    size_t n_models;           /* >= 1 */
    const char *dir;           /* to create; may exist when empty */
    const char *exe_path; /* device build: a program, or a directory with `ferry`; NULL: searched */
    const char *self;     /* path of the running program, where the search begins; may be NULL */
    const char *model_id; /* model.json's id of the main model; NULL: its directory name */
    const char *tool;     /* "ferry 0.1.0", for the manifest */
    bool copy;            /* copy the weights even where a link would do */
} fy_create_params;

int fy_create(const fy_create_params *p, fy_progress *progress, fy_err *e);

#define FY_MODEL_NAME_BYTES 65
/* A directory name for a model from any text: letters, digits, '.', '_' and '-'; never empty, never
 * a name that the layout itself uses. */
void fy_model_dir_name(const char *text, size_t n, char out[FY_MODEL_NAME_BYTES]);

/* --- pack, unpack ----------------------------------------------------------------------------- */

typedef struct {
    int level;     /* of the compression; 0: the default of the format */
    int64_t mtime; /* of every entry, seconds since 1970 */
} fy_pack_params;

/* The name says the format: .tar.zst (.tzst), .tar.gz (.tgz) or .tar. Same files, same bytes. */
int fy_pack(const char *dir, const char *archive, const fy_pack_params *p, fy_progress *progress,
            fy_err *e);

/* dir NULL: the archive's top directory, below the current one. *made (may be NULL) is set to the
 * directory that now exists; the caller frees it. */
int fy_unpack(const char *archive, const char *dir, char **made, fy_progress *progress, fy_err *e);

/* The same checks on an archive in memory, writing nothing. */
int fy_unpack_check(const void *p, size_t n, const char *name, fy_err *e);

/* --- verify ----------------------------------------------------------------------------------- */

typedef struct {
    char *path; /* owned; relative to the workspace */
    char *text; /* owned; what is wrong */
} fy_finding;

typedef struct {
    fy_finding *finding; /* owned, by path */
    size_t n;
    uint64_t n_files, bytes; /* that were read */
} fy_verify_report;

/* Reads every file and fills the report; -1 only when the check could not be made. */
int fy_verify(const char *dir, int n_threads, fy_progress *progress, fy_verify_report *out,
              fy_err *e);
void fy_verify_report_release(fy_verify_report *r);

/* Appends "name version\n" of each library that archives take. */
void fy_archive_libraries(fy_str *out);

#endif
