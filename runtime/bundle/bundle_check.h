/* The rules of a valid workspace. Each is written down once, and everything that checks uses it:
 *
 * - the manifest, its text and its paths: manifest_read.h (everyone)
 * - its signature: seal.h (verify, push, unpack, pack, run --verify)
 * - kind, size and mode of a listed file: fy_listed_fits (verify, push, pack, every run)
 * - its bytes: fy_bundle_hash_all (verify, push, run --verify)
 * - the names in workspace.json and hparams.json: bundle.h (verify, push, create, every run)
 * - the files against each other: fy_verify_content (verify, push, create)
 *
 * The last one is the host's (workspace/pack/verify.c); for the NPU it asks workspace/npu. unpack
 * writes only what the manifest lists, with the bytes that it lists.
 *
 * Files that carry block hashes are read block by block on all threads, the others whole. Memory: a
 * buffer per thread. */
#ifndef FY_BUNDLE_BUNDLE_CHECK_H
#define FY_BUNDLE_BUNDLE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "bundle/manifest_read.h"
#include "bundle/seal.h"

/* A file of a workspace never runs with its owner's rights, and only its owner may change it. */
#define FY_MODE_REFUSED (S_ISUID | S_ISGID | S_ISVTX | S_IWOTH)

/* FY_EVERIFY, without the file's name, unless st is a regular file of the listed size; strict: and
 * its mode is right too: programs can be started, and no bit of FY_MODE_REFUSED is set. */
int fy_listed_fits(const struct stat *st, const fy_manifest_entry *m, bool strict, fy_err *e);
/* The same of DIR and the listed path, links not followed. */
int fy_listed_check(const char *dir, const fy_manifest_entry *m, bool strict, fy_err *e);

/* Called for every listed file that is not as listed, in the manifest's order; `what` does not name
 * the file. -1 ends the check. */
typedef int fy_bundle_bad(void *user, const fy_manifest_entry *m, const fy_err *what, fy_err *e);

/* Reads every listed file. strict: modes too, and the hash of the whole file where it has block
 * hashes (which cover every byte already). -1 only when the check itself could not be made. */
int fy_bundle_hash_all(const char *dir, const fy_manifest *m, bool strict, int n_threads,
                       fy_progress *progress, fy_bundle_bad *bad, void *user, fy_err *e);

typedef struct {
    size_t n_files;
    uint64_t bytes;
    bool is_signed;                         /* there is a signature, and it is right */
    char fingerprint[FY_FINGERPRINT_BYTES]; /* of the key it carries; "" when it carries none */
} fy_bundle_checked;

/* The manifest, its signature against the key that came with it, and every hash; FY_EVERIFY names
 * the first file that is wrong and counts the rest. */
int fy_bundle_check(const char *dir, int n_threads, fy_progress *progress, fy_bundle_checked *out,
                    fy_err *e);

/* FY_EVERIFY "changed: ..." about block `block` of a file with blocks, or the whole of another. */
int fy_manifest_changed(const fy_manifest_entry *m, uint64_t block, fy_err *e);

#endif
