/* A compiled model: its context binaries against their descriptions (backend/qnn/qnn_sidecar.h),
 * these against qnn/config.json, and the phone's libraries against both. `create` and `verify`
 * refuse what a phone would refuse, or compute wrong. Nothing here applies to packages that ferry
 * has not compiled: they pass. */
#ifndef FY_WORKSPACE_COMPILED_H
#define FY_WORKSPACE_COMPILED_H

#include "backend/qnn/qnn_lib.h"
#include "backend/qnn/qnn_sidecar.h"
#include "bundle/qnn_config.h"

/* Calls `each` once for every binary, with its name and description; qnn: the directory. Stops at
 * the first -1. Messages begin with the name of the description. */
typedef int fy_compiled_binary(void *user, const char *name, const fy_qnn_sidecar *s, fy_err *e);
int fy_compiled_each(const char *qnn, const fy_qnn_config *c, fy_compiled_binary *each, void *user,
                     fy_err *e);

/* FY_EVERIFY for a binary of another model, chip or recipe, one of another size than described, and
 * one without a graph or tensor that config.json names. Its bytes are not read. */
int fy_compiled_check(const char *qnn, const fy_qnn_config *c, fy_err *e);
/* FY_EVERIFY, without a name, unless the hash is the one that the description has. */
int fy_compiled_check_hash(const fy_qnn_sidecar *s, const char *sha256, fy_err *e);

/* --- the phone's libraries -------------------------------------------------------------------- */

#define FY_QNN_LIBRARY "qnn_libs/libQnnHtp.so" /* of a workspace */

/* The newest that compiled one of the binaries. */
int fy_compiled_release(const char *qnn, const fy_qnn_config *c, fy_qnn_release *out, fy_err *e);
/* From the build number that the library's file holds ("v2.51.0.260929"). */
int fy_qnn_release_of_file(const char *library, fy_qnn_release *out, fy_err *e);
/* FY_EVERIFY, without a name, when the library is older than what compiled the model: it cannot
 * read the binaries. */
int fy_compiled_check_library(const char *qnn, const fy_qnn_config *c, const char *library,
                              fy_err *e);

#endif
