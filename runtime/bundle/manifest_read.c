/* Reading manifest.json: its own hash, its schema, safe paths in ascending order. */
#include "bundle/manifest_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
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

const fy_manifest_entry *fy_manifest_find(const fy_manifest *m, const char *path)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(m->entry[mid].path, path);
        if (c == 0)
            return &m->entry[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Printable ASCII that needs no escape, so that a manifest has one way to be written. */
static bool is_simple(fy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < ' ' || s.ptr[i] > '~' || s.ptr[i] == '"' || s.ptr[i] == '\\')
            return false;
    }
    return s.len > 0 && s.len <= FY_MANIFEST_MAX_PATH;
}

static int take_text(fy_json *j, const char *what, char **out, fy_err *e)
{
    fy_span s;
    char shown[FY_QUOTE_BYTES];
    if (fy_json_string(j, &s, NULL, e) != 0)
        return fy_ctx(e, "%s", what);
    if (!is_simple(s))
        return fy_fail(e, FY_EFORMAT,
                       "%s '%s', expected 1 to %d characters of printable ASCII without \" and \\",
                       what, fy_quote(shown, sizeof shown, s), FY_MANIFEST_MAX_PATH);
    *out = strndup(s.ptr, s.len);
    return *out != NULL ? 0 : fy_nomem(e);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_hash(fy_json *j, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    bool ok = s.len == 2 * FY_SHA256_BYTES;
    for (size_t i = 0; ok && i < FY_SHA256_BYTES; i++) {
        int hi = hex_digit(s.ptr[2 * i]), lo = hex_digit(s.ptr[2 * i + 1]);
        ok = hi >= 0 && lo >= 0;
        out[i] = (uint8_t)(ok ? hi << 4 | lo : 0);
    }
    char shown[FY_QUOTE_BYTES];
    return ok ? 0
              : fy_fail(e, FY_EFORMAT, "SHA-256 '%s', expected 64 digits 0-9 a-f",
                        fy_quote(shown, sizeof shown, s));
}

static int take_mode(fy_json *j, uint32_t *out, fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return fy_ctx(e, "mode");
    char shown[FY_QUOTE_BYTES];
    if (!fy_span_is(s, "0644") && !fy_span_is(s, "0755"))
        return fy_fail(e, FY_EFORMAT, "mode '%s', expected 0644 or 0755",
                       fy_quote(shown, sizeof shown, s));
    *out = fy_span_is(s, "0755") ? 0755 : 0644;
    return 0;
}

static int take_path(fy_json *j, char **out, fy_err *e)
{
    char *path = NULL, shown[FY_QUOTE_BYTES];
    if (take_text(j, "path", &path, e) != 0)
        return -1;
    int rc = 0;
    if (!fy_manifest_path_ok(path))
        rc = fy_fail(e, FY_EFORMAT,
                     "path '%s' is not safe: expected a relative path of plain names in printable "
                     "ASCII, no spaces",
                     fy_quote(shown, sizeof shown, fy_span_of(path)));
    else if (fy_manifest_is_unlisted(path))
        rc = fy_fail(e, FY_EFORMAT, "lists %s%s", path,
                     strcmp(path, FY_MANIFEST_NAME) == 0 ? " itself" : ", which is made after it");
    if (rc == 0)
        *out = path;
    else
        free(path);
    return rc;
}

static int take_blocks(fy_json *j, uint8_t **out, uint64_t *n_out, fy_err *e)
{
    uint8_t *p = NULL;
    size_t n = 0, cap = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        uint8_t *grown = fy_grow(p, n, &cap, FY_SHA256_BYTES);
        if (grown == NULL) {
            rc = fy_nomem(e);
            break;
        }
        p = grown;
        rc = take_hash(j, p + n * FY_SHA256_BYTES, e);
        n++;
    }
    if (rc != 0) {
        free(p);
        return fy_ctx(e, "blocks");
    }
    *out = p;
    *n_out = n;
    return 0;
}

/* --- entries ---------------------------------------------------------------------------------- */

enum { F_PATH = 1, F_SIZE = 2, F_MODE = 4, F_SHA256 = 8, F_ALL = 15 };

static int check_entry(const fy_manifest_entry *m, unsigned seen, uint64_t n_blocks, fy_err *e)
{
    if (seen != F_ALL)
        return fy_fail(e, FY_EFORMAT, "lacks '%s'",
                       !(seen & F_PATH)   ? "path"
                       : !(seen & F_SIZE) ? "size"
                       : !(seen & F_MODE) ? "mode"
                                          : "sha256");
    if (m->bytes > INT64_MAX)
        return fy_fail(e, FY_EFORMAT, "size %llu is more than a file can hold",
                       (unsigned long long)m->bytes);
    if (n_blocks != fy_manifest_n_blocks(m->bytes))
        return fy_fail(e, FY_EFORMAT, "%llu block hashes, expected %llu for %llu bytes",
                       (unsigned long long)n_blocks,
                       (unsigned long long)fy_manifest_n_blocks(m->bytes),
                       (unsigned long long)m->bytes);
    return 0;
}

/* Fills *m, which the caller releases also after a failure. Unknown fields are left to newer
 * readers. */
static int take_entry(fy_json *j, fy_manifest_entry *m, fy_err *e)
{
    unsigned seen = 0;
    uint64_t n_blocks = 0;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "path")) {
            seen |= F_PATH;
            rc = take_path(j, &m->path, e);
        } else if (fy_span_is(key, "size")) {
            seen |= F_SIZE;
            rc = fy_json_u64(j, &m->bytes, e);
        } else if (fy_span_is(key, "mode")) {
            seen |= F_MODE;
            rc = take_mode(j, &m->mode, e);
        } else if (fy_span_is(key, "sha256")) {
            seen |= F_SHA256;
            rc = take_hash(j, m->sha256, e);
        } else if (fy_span_is(key, "blocks")) {
            rc = take_blocks(j, &m->blocks, &n_blocks, e);
        } else {
            rc = fy_json_skip(j, e);
        }
    }
    if (rc == 0)
        rc = check_entry(m, seen, n_blocks, e);
    return rc == 0 ? 0 : m->path != NULL ? fy_ctx(e, "%s", m->path) : -1;
}

static int take_files(fy_json *j, fy_manifest *m, fy_err *e)
{
    size_t cap = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        fy_manifest_entry *grown = fy_grow(m->entry, m->n, &cap, sizeof *grown);
        if (grown == NULL)
            return fy_nomem(e);
        if (fy_check_interrupt(e) != 0)
            return -1;
        m->entry = grown;
        fy_manifest_entry *en = &m->entry[m->n++];
        *en = (fy_manifest_entry){0};
        rc = take_entry(j, en, e);
        if (rc == 0 && m->n > 1 && strcmp(en[-1].path, en->path) >= 0)
            rc = fy_fail(e, FY_EFORMAT,
                         "files: '%s' after '%s', expected ascending order without repetition",
                         en->path, en[-1].path);
    }
    return rc;
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

/* The manifest's own hash covers the text in front of the comma before this key. */
static int take_own_hash(fy_json *j, const char *text, fy_err *e)
{
    uint8_t listed[FY_SHA256_BYTES], found[FY_SHA256_BYTES];
    const char *comma = memrchr(text, ',', fy_json_offset(j));
    size_t n = comma != NULL ? (size_t)(comma - text) : 0;
    if (take_hash(j, listed, e) != 0 || fy_sha256_of(text, n, found, e) != 0)
        return -1;
    return memcmp(listed, found, sizeof found) == 0
               ? 0
               : fy_fail(e, FY_EVERIFY, "changed since ferry wrote it: its own SHA-256 differs");
}

static int take_document(fy_json *j, const char *text, fy_manifest *m, fy_err *e)
{
    bool have_version = false, have_files = false, have_hash = false;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        if (fy_span_is(key, "format_version")) {
            uint64_t v = 0;
            have_version = true;
            rc = fy_json_u64(j, &v, e);
            if (rc == 0 && v != FY_MANIFEST_VERSION)
                rc = fy_fail(e, FY_EUNSUPPORTED,
                             "format_version %llu, this ferry reads %d: use the ferry that made it",
                             (unsigned long long)v, FY_MANIFEST_VERSION);
        } else if (fy_span_is(key, "tool")) {
            rc = take_text(j, "tool", &m->tool, e);
        } else if (fy_span_is(key, "target")) {
            rc = take_text(j, "target", &m->target, e);
        } else if (fy_span_is(key, "files")) {
            have_files = true;
            rc = take_files(j, m, e);
        } else if (fy_span_is(key, "sha256")) {
            have_hash = true;
            rc = take_own_hash(j, text, e);
        } else {
            rc = fy_json_skip(j, e);
        }
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    const char *missing = !have_version       ? "format_version"
                          : m->tool == NULL   ? "tool"
                          : m->target == NULL ? "target"
                          : !have_files       ? "files"
                          : !have_hash        ? "sha256"
                                              : NULL;
    if (rc == 0 && missing != NULL)
        rc = fy_fail(e, FY_EFORMAT, "lacks '%s'", missing);
    return rc;
}

static int too_large(size_t n, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", n, FY_MANIFEST_MAX_BYTES);
}

int fy_manifest_parse(const void *p, size_t n, fy_manifest *out, fy_err *e)
{
    if (n > FY_MANIFEST_MAX_BYTES)
        return too_large(n, e);
    fy_json *j = fy_json_new(p, n, e);
    if (j == NULL)
        return -1;
    fy_manifest m = {0};
    int rc = take_document(j, p, &m, e);
    fy_json_free(j);
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
                     "; expected a workspace made by 'ferry create' or 'ferry unpack'",
                     dir);
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
