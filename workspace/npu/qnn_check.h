/* qnn/config.json of a model against the rest of it: model.json, and the files that it names. */
#ifndef FY_WORKSPACE_QNN_CHECK_H
#define FY_WORKSPACE_QNN_CHECK_H

#include "bundle/qnn_config.h"
#include "workspace/data/model_json.h"

/* FY_EVERIFY where the graphs contradict model.json. */
int fy_qnn_config_compare(const fy_qnn_config *c, const fy_model_json *m, fy_err *e);

/* Calls `each` once for every file that the configuration needs, relative to its own directory.
 * Stops at the first -1. */
#define FY_QNN_ANY_BYTES UINT64_MAX /* of any size but 0 */
typedef int fy_qnn_file(void *user, const char *rel, uint64_t bytes, fy_err *e);
int fy_qnn_config_files(const fy_qnn_config *c, const fy_model_json *m, fy_qnn_file *each,
                        void *user, fy_err *e);

/* All of it for a directory with config.json in it: read, compared with model.json, every file
 * there as a regular file of its size, binaries of ferry as they are described (compiled.h). out
 * may be NULL. Messages begin with the file's path below
 * dir. FY_EFORMAT or FY_EVERIFY. */
int fy_qnn_check_dir(const char *dir, const fy_model_json *m, fy_qnn_config *out, fy_err *e);

#endif
