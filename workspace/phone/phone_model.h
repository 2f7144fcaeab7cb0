/* A model file on the phone, for calls with --device: it is sent once, and stays in a cache there.
 *
 * A model is kept as a version of a store of its own (bundle/agent_store.h), so that the helper of
 * push brings it: only blocks that the phone does not have travel, each is hashed at both ends, a
 * broken transfer is resumed, and a model that is there is hashed again before it is used. */
#ifndef FY_WORKSPACE_PHONE_MODEL_H
#define FY_WORKSPACE_PHONE_MODEL_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/push.h"

/* A GGUF file, with the other files of a split model, as what a push sends. Hashes of earlier calls
 * are used while the files have the same size, times and inode. The entries are called model.gguf,
 * or model-00001-of-00002.gguf, so that the same contents are the same version. */
int fy_phone_model_source(fy_push_source *s, const char *file, fy_progress *progress, fy_err *e);

/* Brings it to the phone; helper: the program that receives it there. most: bytes that models may
 * take there; a larger one stays for this call only. *path: where its first file is; the caller
 * frees it. *bytes: of its files. */
int fy_phone_model_put(const fy_adb *a, const fy_push_helper *helper, const char *file,
                       uint64_t most, char **path, uint64_t *bytes, fy_err *e);
/* After the call: a model of so many bytes that is larger than the cache may be is removed. Failures
 * do not matter; works after an interrupt, too. */
void fy_phone_model_end(const fy_adb *a, uint64_t bytes, uint64_t most);

#endif
