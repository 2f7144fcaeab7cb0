/* manifest.json: every other file of a workspace with its size, mode and hashes
 * (docs/workspace.md). Reads only; workspace/pack/manifest.h writes it.
 *
 * A path that went through fy_manifest_parse is safe to join to a directory: relative,
 * '/'-separated, every segment plain, printable ASCII without space, quote and backslash, and never
 * a file in one place and a directory in another. */
#ifndef FY_BUNDLE_MANIFEST_READ_H
#define FY_BUNDLE_MANIFEST_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"

/* What a manifest never lists: itself, and the signature over it with the signer's public key
 * (docs/workspace.md). */
#define FY_MANIFEST_NAME      "manifest.json"
#define FY_MANIFEST_SIG       "manifest.sig"     /* optional; FY_MANIFEST_SIG_BYTES raw bytes */
#define FY_MANIFEST_KEY       "manifest.pub.pem" /* optional; the claimed signer's key */
#define FY_MANIFEST_SIG_BYTES 64
#define FY_MANIFEST_KEY_MAX   4096u
#define FY_MANIFEST_VERSION   1
#define FY_MANIFEST_BLOCK     (4u << 20)  /* larger files carry a hash per block of this size */
#define FY_MANIFEST_MAX_BYTES (64u << 20) /* of manifest.json */
#define FY_MANIFEST_MAX_PATH  1024

/* One file of manifest.json. */
typedef struct {
    char *path; /* owned */
    uint64_t bytes;
    uint32_t mode; /* permission bits: 0644 or 0755 */
    uint8_t sha256[FY_SHA256_BYTES];
    uint8_t *blocks; /* owned; fy_manifest_n_blocks(bytes) hashes; NULL when there are none */
} fy_manifest_entry;

typedef struct {
    char *tool, *target;      /* owned: "ferry 0.1.0", "aarch64-linux" */
    fy_manifest_entry *entry; /* owned, sorted by path (bytewise) */
    size_t n, cap;            /* cap: while one is made */
    bool not_hashed;          /* fy_manifest_of has listed the files itself */
} fy_manifest;

/* Block hashes that a file of this size carries. */
static inline uint64_t fy_manifest_n_blocks(uint64_t bytes)
{
    return bytes <= FY_MANIFEST_BLOCK ? 0 : (bytes - 1) / FY_MANIFEST_BLOCK + 1;
}

/* Checks the text of a manifest: its own hash, schema, safe paths, sorted, unique. */
int fy_manifest_parse(const void *p, size_t n, fy_manifest *out, fy_err *e);
/* The same for DIR/manifest.json. */
int fy_manifest_read(const char *dir, fy_manifest *out, fy_err *e);
/* The same, or for a workspace of PowerServe, which has no manifest.json, the files that are there
 * (manifest_tree.c). */
int fy_manifest_of(const char *dir, fy_manifest *out, fy_err *e);
/* Is it such a workspace? Ours have a format_version in workspace.json. */
bool fy_manifest_is_foreign(const char *dir);
/* The bytes of DIR/manifest.json, in memory of their own: what happens to the file afterwards does
 * not change them. */
int fy_manifest_load(const char *dir, fy_map *out, fy_err *e);
int fy_manifest_ctx(const char *dir, fy_err *e); /* puts the file's path in front of a message */
void fy_manifest_release(fy_manifest *m);
const fy_manifest_entry *fy_manifest_find(const fy_manifest *m, const char *path);
/* Is rel one of the three files that no manifest lists? */
bool fy_manifest_is_unlisted(const char *rel);
/* The rule for paths, for code that writes a manifest. */
bool fy_manifest_path_ok(const char *path);

#endif
