/* Reading manifest.json: its own hash, its schema, safe paths in ascending order. */
#include "bundle/manifest_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json_rows.h"
#include "base/log.h"
#include "base/str.h"

static void entry_release(fy_manifest_entry *m)
{
    free(m->path);
    free(m->blocks);
    *m = (fy_manifest_entry){0};
}

void fy_manifest_release(fy_manifest *m)
{
    for (size_t i = 0; i < m->n; i++)
        entry_release(&m->entry[i]);
    free(m->entry);
    free(m->tool);
    free(m->target);
    *m = (fy_manifest){0};
}

bool fy_manifest_path_ok(const char *path)
{
    if (strlen(path) > FY_MANIFEST_MAX_PATH)
        return false;
    for (const char *p = path; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || *p == '\\' || *p == '"')
            return false;
    }
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (!fy_path_is_plain((fy_span){p, n}))
            return false;
        if (p[n] == '\0')
            return true;
        p += n + 1;
    }
}

bool fy_manifest_is_unlisted(const char *rel)
{
    return strcmp(rel, FY_MANIFEST_NAME) == 0 || strcmp(rel, FY_MANIFEST_SIG) == 0 ||
           strcmp(rel, FY_MANIFEST_KEY) == 0;
}

static int by_path(const void *path, const void *entry)
{
    return strcmp(path, ((const fy_manifest_entry *)entry)->path);
}

const fy_manifest_entry *fy_manifest_find(const fy_manifest *m, const char *path)
{
    return m->n > 0 ? bsearch(path, m->entry, m->n, sizeof *m->entry, by_path) : NULL;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Printable ASCII that needs no escape, so that a manifest has one way to be written. */
static bool is_simple(const char *text)
{
    const char *p = text;
    while (*p >= ' ' && *p <= '~' && *p != '"' && *p != '\\')
        p++;
    return *p == '\0' && p > text && p - text <= FY_MANIFEST_MAX_PATH;
}

static int take_hash(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *out = at;
    fy_span s;
    (void)t;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    bool ok = s.len == 2 * FY_SHA256_BYTES;
    for (size_t i = 0; ok && i < FY_SHA256_BYTES; i++) {
        const char *hi = memchr(digits, s.ptr[2 * i], 16);
        const char *lo = memchr(digits, s.ptr[2 * i + 1], 16);
        ok = hi != NULL && lo != NULL;
        out[i] = (uint8_t)(ok ? (hi - digits) << 4 | (lo - digits) : 0);
    }
    char shown[FY_QUOTE_BYTES];
    return ok ? 0
              : fy_fail(e, FY_EFORMAT, "'%s', expected 64 digits 0-9 a-f",
                        fy_quote(shown, sizeof shown, s));
}

static int take_mode(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    uint32_t *mode = at;
    fy_span s;
    (void)t;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    *mode = fy_span_is(s, "0644") ? 0644 : fy_span_is(s, "0755") ? 0755 : 0;
    return *mode != 0 ? 0
                      : fy_fail(e, FY_EFORMAT, "'%s', expected 0644 or 0755",
                                fy_quote(shown, sizeof shown, s));
}

static int take_blocks(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    uint8_t **out = at;
    size_t *n = t->user, cap = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        uint8_t *grown = fy_grow(*out, *n, &cap, FY_SHA256_BYTES);
        if (grown == NULL)
            return fy_nomem(e);
        *out = grown;
        rc = take_hash(j, t, grown + (*n)++ * FY_SHA256_BYTES, e);
    }
    return rc;
}

/* --- entries ---------------------------------------------------------------------------------- */

#define TAKE(name, holder, field, must, how)                                      \
    {                                                                             \
        .key = name, .type = FY_JSON_ROW_TAKE, .offset = offsetof(holder, field), \
        .required = must, .take = how                                             \
    }
static const fy_json_row file_rows[] = {
    {.key = "path",
     .type = FY_JSON_ROW_TEXT,
     .required = true,
     .offset = offsetof(fy_manifest_entry, path),
     .fits = fy_manifest_path_ok,
     .expected = "a safe path: relative, of plain names in printable ASCII, no spaces"},
    FY_JSON_FIELD(U64, "size", fy_manifest_entry, bytes, true),
    TAKE("mode", fy_manifest_entry, mode, true, take_mode),
    TAKE("sha256", fy_manifest_entry, sha256, true, take_hash),
    TAKE("blocks", fy_manifest_entry, blocks, false, take_blocks),
};

static int check_file(void *user, void *items, size_t i, fy_err *e)
{
    const fy_manifest_entry *m = (const fy_manifest_entry *)items + i;
    size_t *n_blocks = user;
    uint64_t expected = fy_manifest_n_blocks(m->bytes);
    if (fy_manifest_is_unlisted(m->path))
        return fy_fail(e, FY_EFORMAT, "%s",
                       strcmp(m->path, FY_MANIFEST_NAME) == 0 ? "lists itself"
                                                              : "is listed, and made after it");
    if (m->bytes > INT64_MAX)
        return fy_fail(e, FY_EFORMAT, "size %llu is more than a file can hold",
                       (unsigned long long)m->bytes);
    if (*n_blocks != expected)
        return fy_fail(e, FY_EFORMAT, "%zu block hashes, expected %llu for %llu bytes", *n_blocks,
                       (unsigned long long)expected, (unsigned long long)m->bytes);
    if (i > 0 && strcmp(m[-1].path, m->path) >= 0)
        return fy_fail(e, FY_EFORMAT, "after '%s', expected ascending order without repetition",
                       m[-1].path);
    *n_blocks = 0;
    return fy_check_interrupt(e);
}

static int take_files(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_manifest *m = at;
    size_t n_blocks = 0;
    const fy_json_table table = {FY_JSON_ROWS(file_rows), .user = &n_blocks,
                                 .item_bytes = sizeof *m->entry, .named = true,
                                 .check = check_file};
    (void)t;
    return fy_json_list_of(j, &table, &m->entry, &m->n, e);
}

/* "a" must not be a file when "a/b" is one. */
static int check_no_file_is_a_directory(const fy_manifest *m, fy_err *e)
{
    char parent[FY_MANIFEST_MAX_PATH + 1];
    for (size_t i = 0; i < m->n; i++) {
        const char *path = m->entry[i].path;
        for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
            size_t n = (size_t)(slash - path);
            memcpy(parent, path, n);
            parent[n] = '\0';
            if (fy_manifest_find(m, parent) != NULL || fy_manifest_is_unlisted(parent))
                return fy_fail(e, FY_EFORMAT, "files: '%s' needs a directory where '%s' is a file",
                               path, parent);
        }
    }
    return 0;
}

/* --- the document ----------------------------------------------------------------------------- */

static int take_version(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    uint64_t v = 0;
    (void)t, (void)at;
    if (fy_json_u64(j, &v, e) != 0)
        return -1;
    return v == FY_MANIFEST_VERSION
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "%llu, this ferry reads %d: use the ferry that made it",
                         (unsigned long long)v, FY_MANIFEST_VERSION);
}

/* The manifest's own hash covers the text in front of the comma before this key. */
static int take_own_hash(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    uint8_t listed[FY_SHA256_BYTES], found[FY_SHA256_BYTES];
    const char *text = t->user, *comma = memrchr(text, ',', fy_json_offset(j));
    size_t n = comma != NULL ? (size_t)(comma - text) : 0;
    (void)at;
    if (take_hash(j, t, listed, e) != 0 || fy_sha256_of(text, n, found, e) != 0)
        return -1;
    return memcmp(listed, found, sizeof found) == 0
               ? 0
               : fy_fail(e, FY_EVERIFY, "changed since ferry wrote it: its own SHA-256 differs");
}

#define SIMPLE(name)                                                                   \
    {                                                                                  \
        .key = #name, .type = FY_JSON_ROW_TEXT, .offset = offsetof(fy_manifest, name), \
        .required = true, .fits = is_simple,                                           \
        .expected = "1 to 1024 characters of printable ASCII without \" and \\"        \
    }
static const fy_json_row rows[] = {
    {.key = "format_version", .type = FY_JSON_ROW_TAKE, .required = true, .take = take_version},
    SIMPLE(tool),
    SIMPLE(target),
    {.key = "files", .type = FY_JSON_ROW_TAKE, .required = true, .take = take_files},
    {.key = "sha256", .type = FY_JSON_ROW_TAKE, .required = true, .take = take_own_hash},
};

static int too_large(size_t n, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", n, FY_MANIFEST_MAX_BYTES);
}

int fy_manifest_parse(const void *p, size_t n, fy_manifest *out, fy_err *e)
{
    if (n > FY_MANIFEST_MAX_BYTES)
        return too_large(n, e);
    const fy_json_table table = {FY_JSON_ROWS(rows), .user = (void *)(uintptr_t)p};
    fy_manifest m = {0};
    int rc = fy_json_document_of((fy_span){p, n}, &table, &m, e);
    if (rc == 0)
        rc = check_no_file_is_a_directory(&m, e);
    if (rc == 0)
        *out = m;
    else
        fy_manifest_release(&m);
    return rc;
}

int fy_manifest_load(const char *dir, fy_map *out, fy_err *e)
{
    if (!fy_file_is_dir(dir))
        return fy_fail(e, FY_EARG, "%s: %s, expected a workspace directory", dir,
                       fy_file_exists(dir) ? "is not a directory" : "does not exist");
    char *path = fy_path_join(dir, FY_MANIFEST_NAME);
    if (path == NULL)
        return fy_nomem(e);
    fy_map now;
    int rc;
    if (!fy_file_exists(path)) {
        rc = fy_fail(e, FY_EFORMAT,
                     "%s: has no " FY_MANIFEST_NAME
                     "; expected a workspace made by 'ferry create' or 'ferry unpack'%s",
                     dir,
                     fy_manifest_is_foreign(dir)
                         ? ", which 'ferry create' makes of this one of PowerServe"
                         : "");
    } else if ((rc = fy_map_open(&now, path, e)) == 0) {
        size_t size = now.size;
        fy_map_close(&now);
        rc = size > FY_MANIFEST_MAX_BYTES
                 ? (too_large(size, e), fy_ctx(e, "%s", path))
                 : fy_map_open_as(out, path, &(fy_map_options){.read = true}, e);
    }
    free(path);
    return rc;
}

int fy_manifest_read(const char *dir, fy_manifest *out, fy_err *e)
{
    fy_map map;
    if (fy_manifest_load(dir, &map, e) != 0)
        return -1;
    int rc = fy_manifest_parse(map.data, map.size, out, e);
    fy_map_close(&map);
    return rc == 0 ? 0 : fy_manifest_ctx(dir, e);
}

int fy_manifest_ctx(const char *dir, fy_err *e)
{
    char *path = fy_path_join(dir, FY_MANIFEST_NAME);
    int rc = fy_ctx(e, "%s", path != NULL ? path : FY_MANIFEST_NAME);
    free(path);
    return rc;
}
