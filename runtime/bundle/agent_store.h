/* Where workspaces are on the phone, and how much of a new one is there already.
 *
 *     BASE/NAME                        a link to the version in use
 *     BASE/.versions/NAME-<sha12>      a whole version; sha12: of its manifest.json
 *     BASE/.versions/NAME-<sha12>.part one that is being pushed, or whose push broke off
 *     BASE/.models                     another BASE: models without a workspace
 *
 * Every manifest.json below .versions lists by hash what might be there. It is only a hint: what is
 * used is hashed again. One store per BASE at a time: .versions is locked while it is open. */
#ifndef FY_BUNDLE_AGENT_STORE_H
#define FY_BUNDLE_AGENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bundle/agent_proto.h"
#include "bundle/manifest_read.h"

#define FY_STORE_VERSIONS ".versions"
#define FY_STORE_PART     ".part"
#define FY_STORE_DAMAGED  ".damaged" /* a version that no longer is what its manifest lists */
#define FY_STORE_MODELS   ".models"
#define FY_STORE_ID_HEX   12 /* digits of the hash in a version's name */

typedef struct {
    char *dir; /* owned; of the version */
    fy_manifest m;
} fy_store_version;

/* A unit that may be found in a file of a version. */
typedef struct {
    const uint8_t *hash; /* view */
    uint32_t version, file, unit;
} fy_store_source;

typedef struct {
    char *base, *name, *versions; /* owned */
    char *final, *part;           /* owned; directories of this version */
    int lock;
    fy_store_version *version; /* owned */
    size_t n_versions, cap_versions;
    fy_store_source *source; /* owned; sorted by hash */
    size_t n_sources;
} fy_store;

/* Makes the directories and locks them. path: as fy_agent_push. id: SHA-256 of the manifest. */
int fy_store_open(fy_store *s, const char *path, const uint8_t id[FY_SHA256_BYTES], fy_err *e);
void fy_store_close(fy_store *s);

/* Absolute, of plain names in printable ASCII, the last one not hidden and short enough; else
 * FY_EARG. Both ends check it. */
int fy_store_check_path(const char *path, fy_err *e);

/* Is this version there under its final name, with this manifest? */
bool fy_store_has_final(const fy_store *s, const void *manifest, size_t n);

/* Reads the manifests of all versions, and of those of BASE/.models, or of BASE for that; again
 * after some were removed. self: this program's path, which is the source of its own copy; NULL:
 * none. */
int fy_store_index(fy_store *s, const char *self, const uint8_t self_hash[FY_SHA256_BYTES],
                   fy_err *e);
/* The sources of a unit: *n of them, at most FY_STORE_TRIES. */
#define FY_STORE_TRIES 8
const fy_store_source *fy_store_find(const fy_store *s, const uint8_t hash[FY_SHA256_BYTES],
                                     size_t *n);
/* A file of an older version that is listed as the very same; NULL: none. */
const fy_manifest_entry *fy_store_same_file(const fy_store *s, const fy_manifest_entry *m,
                                            const char **dir);

/* The finished .part gets its final name, and the link of the name is switched. A damaged version
 * under that name is moved away first. */
int fy_store_commit(fy_store *s, fy_err *e);
/* The link alone. */
int fy_store_switch(fy_store *s, fy_err *e);

/* Other versions of this name. What broken pushes left is removed; the others are removed with
 * `prune`, and counted in *d. The version that the name leads to stays. */
int fy_store_clean(fy_store *s, bool prune, fy_agent_done *d, fy_err *e);

/* Removes a file or a whole directory. */
int fy_store_remove(const char *path, fy_err *e);

#endif
