/* The workspace directory and its tarball: create, pack, unpack, verify. Layout and schemas:
 * docs/workspace.md.
 *
 * Output is written to "DIR.part" or "X.tar.zst.part" and renamed once it is complete; after a
 * failure or an interrupt nothing is left under either name. Memory does not depend on the size of
 * the models. Each long job takes a fy_progress (or NULL), sets its total_bytes once that is known,
 * and polls fy_interrupted. */
#ifndef FY_WORKSPACE_H
#define FY_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/sign.h"

#define FY_TARGET_ARM64 "aarch64-linux" /* what the manifest calls the device build */

/* --- create ----------------------------------------------------------------------------------- */

/* Converts a checkpoint to the GGUF file `out`; -1 with *e set. */
typedef int fy_create_convert(void *user, const char *checkpoint, const char *out, fy_err *e);

typedef struct {
    /* Each a GGUF file, the directory of a checkpoint, or one with ggml/weights.gguf (and qnn/),
     * such as `ferry chunk` makes; the first is the main model. */
    const char *const *models;
    size_t n_models;      /* >= 1 */
    const char *draft;    /* a further model, for speculation; NULL: none */
    const char *outtype;  /* of checkpoints: "q4_0"; may be NULL without `convert` */
    const char *dir;      /* to create; may exist when empty */
    const char *exe_path; /* device build: a program, or a directory with `ferry`; NULL: searched.
                             With exec: a runtime, a file or all of a directory */
    const char *exec;     /* command line that starts this runtime; NULL: ferry runs the models */
    const char *self;     /* path of the running program, where the search begins; may be NULL */
    const char *model_id; /* model.json's id of the main model; NULL: its directory name */
    const char *tool;     /* "ferry 0.1.0", for the manifest */
    const char *qnn_path; /* context binaries of the main model: a directory with config.json, or
                             with qnn/config.json; NULL: none but those that a model brings */
    const char *chunks;   /* instead: a directory that `ferry chunk` made of the main model, whose
                             chunks go next to its complete weights */
    const char *qnn_libs; /* the vendor's SDK, or a directory with its libraries; NULL:
                             $QNN_SDK_ROOT, else beside the context binaries */
    int htp;              /* architecture whose libraries are taken along: 75; 0: none */
    bool copy;            /* copy the weights even where a link would do */
    bool parity;          /* compute parity.json of each model */
    fy_create_convert *convert; /* NULL: checkpoints are refused */
    void *convert_user;
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
    int n_threads; /* of the compression; 0: 1. Never changes the bytes */
} fy_pack_params;

/* The name gives the format: .tar.zst (.tzst), .tar.gz (.tgz) or .tar. Same files, same bytes.
 * manifest.json comes first, then its signature, then the files. A signature that is wrong, like a
 * file that has changed, is FY_EVERIFY. */
int fy_pack(const char *dir, const char *archive, const fy_pack_params *p, fy_progress *progress,
            fy_err *e);

/* archive "-": standard input, in one pass, so manifest.json has to come first as `ferry pack`
 * writes it. dir NULL: the archive's top directory, below the current one, if that is a harmless
 * name of a workspace. *made (may be NULL) is set to the directory that now exists; the caller
 * frees it. An archive that `trust` does not accept leaves nothing. */
int fy_unpack(const char *archive, const char *dir, const fy_trust *trust, char **made,
              fy_progress *progress, fy_err *e);

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
    bool not_listed;         /* a workspace of PowerServe: no manifest says what its bytes are */
    fy_signature signature;  /* a wrong one is a finding too */
    fy_finding *note;        /* owned, by path; of each program and library, what it is built for */
    size_t n_notes;
} fy_verify_report;

/* Reads every file and fills the report; a signature that `trust` does not accept is a finding. -1
 * only when the check could not be made. */
int fy_verify(const char *dir, const fy_trust *trust, int n_threads, fy_progress *progress,
              fy_verify_report *out, fy_err *e);
/* The same with a manifest and a signature that were read before: the files are compared with
 * these bytes, whatever the directory's manifest.json is by now. */
int fy_verify_sealed(const char *dir, const fy_seal *seal, const fy_trust *trust, int n_threads,
                     fy_progress *progress, fy_verify_report *out, fy_err *e);
void fy_verify_report_release(fy_verify_report *r);

/* The files against each other, once the bytes of each are right: the last part of fy_verify. */
int fy_verify_content(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e);

/* --- programs --------------------------------------------------------------------------------- */

/* exe_path: the file, or a directory that holds `ferry`. NULL: searched from `self`, the
 * running program: its ../libexec/ferry/aarch64/ferry when installed, else
 * build/aarch64/release/ferry in a directory above it. Checked to be an aarch64 program; the real
 * path, for the caller to free. NULL with *e set. */
char *fy_device_exe(const char *exe_path, const char *self, fy_err *e);

/* Appends "name version\n" of each library that archives take. */
void fy_archive_libraries(fy_str *out);

#endif
