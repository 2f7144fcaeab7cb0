/* An archive of unknown origin becomes a workspace, or nothing.
 *
 * An entry is taken only when the manifest lists it, with exactly the listed size and hash, so no
 * entry can decide where it goes or how much it writes. Archives of ours begin with the manifest
 * and are read once, from a pipe too; others are read up to their manifest, wherever that is, and
 * then again. */
#include "workspace/pack/workspace.h"

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/math.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/archive_in.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/staging.h"

#define MAX_DIRS (1u << 20) /* entries of directories, which nothing lists */

typedef struct {
    fy_archive_in in;
    bool stream;    /* can be read only once */
    fy_staging *st; /* owned; NULL: check only */
    char *top;      /* owned; the one directory everything is in */
    fy_str text;    /* of the manifest */
    fy_str sig, key;
    bool has_sig, has_key;
    const fy_trust *trust; /* view; NULL: anybody */
    fy_manifest manifest;
    bool *seen; /* owned; per entry of the manifest */
    bool seen_manifest;
    uint32_t n_dirs;
    fy_progress *progress;
} unpacker;

/* --- names ------------------------------------------------------------------------------------ */

static int bad_name(const unpacker *u, const char *path, const char *why, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT, "%s: entry '%s' %s; nothing was unpacked", u->in.name,
                   fy_quote(shown, sizeof shown, fy_span_of(path)), why);
}

static const char *refused_type(struct archive_entry *en)
{
    if (archive_entry_hardlink(en) != NULL)
        return "is a hard link; expected only files and directories";
    if (archive_entry_sparse_count(en) > 0)
        return "is a sparse file, which a workspace never has"; /* a few bytes could stand for any
                                                                   size */
    switch (archive_entry_filetype(en)) {
    case AE_IFREG:
        return NULL;
    case AE_IFDIR: /* a header can give one a size, and the library would skip so many bytes */
        return archive_entry_size_is_set(en) && archive_entry_size(en) != 0
                   ? "is a directory with contents of its own"
                   : NULL;
    case AE_IFLNK:
        return "is a symbolic link; expected only files and directories";
    default:
        return "is a device, pipe or socket; expected only files and directories";
    }
}

/* Every segment must be plain; "./" before and '/' after the path, which tar writes, are removed.
 * The result is in out. */
static const char *refused_path(const char *path, char *out, size_t size)
{
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    size_t n = strlen(path);
    if (path[0] == '/')
        return "has an absolute path";
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= size)
        return "has a path that is too long";
    memcpy(out, path, n);
    out[n] = '\0';
    for (const char *p = out; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return "has control characters in its path";
    }
    for (const char *p = out; n > 0;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && memcmp(p, "..", 2) == 0)
            return "has '..' in its path";
        if (!fy_path_is_plain((fy_span){p, len}))
            return "has a path that is not plain";
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    return NULL;
}

/* Checks type and path, and that the entry is in the one top directory. *rel: its path below that
 * (a view of out); "" for the directory itself. */
static int entry_rel(unpacker *u, struct archive_entry *en, char *out, size_t size,
                     const char **rel, fy_err *e)
{
    const char *path = archive_entry_pathname(en);
    if (path == NULL)
        path = archive_entry_pathname_utf8(en);
    if (path == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: an entry's name cannot be read", u->in.name);
    bool is_dir = archive_entry_filetype(en) == AE_IFDIR;
    const char *why = refused_type(en);
    if (why == NULL)
        why = refused_path(path, out, size);
    size_t n = why == NULL ? strcspn(out, "/") : 0;
    *rel = out + n;
    if (why == NULL && out[n] == '\0' && !is_dir)
        why = "is outside the archive's top directory";
    if (why != NULL)
        return bad_name(u, path, why, e);
    if (n == 0) /* "./" itself */
        return 0;
    if (u->top == NULL && (u->top = strndup(out, n)) == NULL)
        return fy_nomem(e);
    if (strlen(u->top) != n || memcmp(u->top, out, n) != 0)
        return bad_name(u, path, "is in another top directory than the first one", e);
    *rel = out + n + (out[n] == '/');
    return 0;
}

/* --- entries ---------------------------------------------------------------------------------- */

/* The next file: 1, with its path below the top directory in *rel (a view of path); 0: the archive
 * has ended. Directories are made when a file needs them. */
static int next_file(unpacker *u, struct archive_entry **en, char *path, size_t size,
                     const char **rel, fy_err *e)
{
    int rc;
    while ((rc = fy_archive_in_next(&u->in, en, e)) == 1) {
        if (entry_rel(u, *en, path, size, rel, e) != 0)
            return -1;
        if (archive_entry_filetype(*en) != AE_IFDIR)
            return 1;
        if (++u->n_dirs > MAX_DIRS)
            return fy_fail(e, FY_EFORMAT, "%s: more than %u directories", u->in.name, MAX_DIRS);
    }
    return rc;
}

/* A small file whole. */
static int read_small(unpacker *u, const char *name, size_t max, fy_str *out, fy_err *e)
{
    const void *p;
    size_t n;
    int rc;
    fy_str_clear(out);
    while ((rc = fy_archive_in_read(&u->in, &p, &n, e)) == 1) {
        if (n > max - out->len)
            return fy_fail(e, FY_EFORMAT, "%s: its %s has more than %zu bytes", u->in.name, name,
                           max);
        fy_str_add(out, p, n);
        if (out->oom)
            return fy_nomem(e);
    }
    return rc;
}

/* Disk space of all files, each rounded up to a block. */
static uint64_t disk_need(const fy_manifest *m)
{
    uint64_t sum = 0, rounded;
    for (size_t i = 0; i < m->n; i++) {
        if (!fy_align_u64(m->entry[i].bytes, 4096, &rounded) || !fy_add_u64(sum, rounded, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static int parse_manifest(unpacker *u, fy_err *e)
{
    if (read_small(u, FY_MANIFEST_NAME, FY_MANIFEST_MAX_BYTES, &u->text, e) != 0)
        return -1;
    if (fy_manifest_parse(fy_str_z(&u->text), u->text.len, &u->manifest, e) != 0)
        return fy_ctx(e, "%s: " FY_MANIFEST_NAME, u->in.name);
    u->in.expected = disk_need(&u->manifest);
    u->seen = calloc(u->manifest.n + 1, sizeof *u->seen);
    return u->seen != NULL ? 0 : fy_nomem(e);
}

static int no_manifest(const unpacker *u, fy_err *e)
{
    if (u->in.ended && u->in.entry[0] == '\0')
        return fy_fail(e, FY_EFORMAT,
                       "%s: has no " FY_MANIFEST_NAME ": it is empty, or cut off after %llu bytes",
                       u->in.name, (unsigned long long)u->in.read_bytes);
    return fy_fail(e, FY_EFORMAT,
                   "%s: has no " FY_MANIFEST_NAME
                   "; expected a complete archive made by 'ferry pack'",
                   u->in.name);
}

/* Reads up to the manifest. *first: nothing came before it, so the files can be taken from here. */
static int find_manifest(unpacker *u, bool *first, fy_err *e)
{
    struct archive_entry *en;
    char path[FY_MANIFEST_MAX_PATH + 256];
    const char *rel;
    int rc;
    if (fy_archive_in_open(&u->in, e) != 0)
        return -1;
    *first = true;
    while ((rc = next_file(u, &en, path, sizeof path, &rel, e)) == 1) {
        if (strcmp(rel, FY_MANIFEST_NAME) == 0)
            return parse_manifest(u, e);
        *first = false;
        if (u->stream)
            return fy_fail(e, FY_EFORMAT,
                           "%s: begins with %s; a stream has to begin with " FY_MANIFEST_NAME
                           ", as 'ferry pack' writes it: save this one to a file first",
                           u->in.name, u->in.entry);
        if (fy_archive_in_skip(&u->in, e) != 0)
            return -1;
    }
    return rc == 0 ? no_manifest(u, e) : rc;
}

/* --- files ------------------------------------------------------------------------------------ */

static int take_manifest(unpacker *u, fy_err *e)
{
    const void *p;
    size_t n, at = 0;
    int rc;
    while ((rc = fy_archive_in_read(&u->in, &p, &n, e)) == 1) {
        if (n > u->text.len - at || memcmp(u->text.ptr + at, p, n) != 0)
            break;
        at += n;
    }
    if (rc == 1 || (rc == 0 && (at != u->text.len || u->seen_manifest)))
        return fy_fail(e, FY_EFORMAT,
                       "%s: holds " FY_MANIFEST_NAME " twice, or changes while it is read",
                       u->in.name);
    u->seen_manifest = true;
    return rc;
}

static int take_seal(unpacker *u, const char *rel, fy_err *e)
{
    bool is_sig = strcmp(rel, FY_MANIFEST_SIG) == 0;
    bool *has = is_sig ? &u->has_sig : &u->has_key;
    if (*has)
        return bad_name(u, rel, "is there twice", e);
    *has = true;
    return is_sig ? read_small(u, rel, FY_MANIFEST_SIG_BYTES, &u->sig, e)
                  : read_small(u, rel, FY_MANIFEST_KEY_MAX, &u->key, e);
}

/* Writes the entry to fd (>= 0); it must be the listed file. */
static int take_bytes(unpacker *u, const fy_manifest_entry *m, int fd, fy_err *e)
{
    fy_digester *d = fy_digester_new(e);
    fy_digest found;
    const void *p;
    size_t n;
    uint64_t at = 0;
    if (d == NULL)
        return -1;
    int rc;
    while ((rc = fy_archive_in_read(&u->in, &p, &n, e)) == 1) {
        if (n > m->bytes - at) {
            rc = fy_fail(e, FY_EVERIFY, "more than the %llu bytes that the manifest lists",
                         (unsigned long long)m->bytes);
            break;
        }
        if ((fd >= 0 && fy_write_all(fd, p, n, "unpacked file", e) != 0) ||
            fy_digester_add(d, p, n, e) != 0) {
            rc = -1;
            break;
        }
        if (fd >= 0)
            fy_flush_behind(fd, at, n);
        at += n;
        fy_progress_add(u->progress, n);
    }
    int ended = fy_digester_end(d, rc == 0 ? &found : NULL, e);
    if (rc != 0 || ended != 0)
        return -1;
    rc = fy_digest_compare(&found, m, e);
    fy_digest_release(&found);
    return rc;
}

/* A message about the archive names the entry itself. */
static int with_name(const unpacker *u, const char *rel, fy_err *e)
{
    return e == NULL || strncmp(e->msg, u->in.name, strlen(u->in.name)) == 0
               ? -1
               : fy_ctx(e, "%s: %s", u->in.name, rel);
}

static int take_file(unpacker *u, struct archive_entry *en, const char *rel, fy_err *e)
{
    const fy_manifest_entry *m = fy_manifest_find(&u->manifest, rel);
    if (m == NULL)
        return bad_name(u, archive_entry_pathname(en) != NULL ? archive_entry_pathname(en) : rel,
                        "is not listed in " FY_MANIFEST_NAME, e);
    size_t i = (size_t)(m - u->manifest.entry);
    if (u->seen[i])
        return bad_name(u, rel, "is there twice", e);
    u->seen[i] = true;
    int rc = 0;
    if (archive_entry_size_is_set(en) && (uint64_t)archive_entry_size(en) != m->bytes)
        rc = fy_fail(e, FY_EVERIFY, "%lld bytes, the manifest lists %llu",
                     (long long)archive_entry_size(en), (unsigned long long)m->bytes);
    int fd = rc == 0 && u->st != NULL ? fy_staging_create(u->st, rel, m->mode, e) : -1;
    if (rc == 0 && u->st != NULL && fd < 0)
        rc = -1;
    if (rc == 0)
        rc = take_bytes(u, m, fd, e);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = fy_fail_errno(e, "cannot close");
    return rc == 0 ? 0 : with_name(u, rel, e);
}

/* At the end of the archive: what is missing. */
static int check_complete(const unpacker *u, fy_err *e)
{
    char where[160];
    for (size_t i = 0; i < u->manifest.n; i++) {
        if (!u->seen[i]) {
            fy_archive_in_where(&u->in, where);
            return fy_fail(e, FY_EVERIFY, "%s: ends without %s, which its manifest lists (%s)",
                           u->in.name, u->manifest.entry[i].path, where);
        }
    }
    return 0;
}

static int refused_signature(const unpacker *u, const fy_signature *s, fy_err *e)
{
    if (s->state == FY_SIG_WRONG)
        return fy_fail(e, FY_EVERIFY, "%s: WRONG signature: %s; nothing was unpacked", u->in.name,
                       s->why);
    if (s->state == FY_SIG_NONE)
        return fy_fail(
            e, FY_EVERIFY,
            "%s: not signed; expected a signature by a trusted key; nothing was unpacked",
            u->in.name);
    return fy_fail(
        e, FY_EVERIFY,
        "%s: signed by an unknown key (%s), expected a trusted one: compare this with "
        "what its owner publishes, and give the owner's public key with --key; nothing was "
        "unpacked",
        u->in.name, s->fingerprint);
}

static int check_seal(const unpacker *u, fy_err *e)
{
    fy_seal seal = {.manifest = {fy_str_z(&u->text), u->text.len},
                    .sig = {fy_str_z(&u->sig), u->sig.len},
                    .key = {fy_str_z(&u->key), u->key.len},
                    .has_sig = u->has_sig,
                    .has_key = u->has_key};
    fy_signature s;
    if (fy_signature_check(&seal, u->trust != NULL ? u->trust->key_path : NULL, &s, e) != 0)
        return -1;
    int rc = fy_trust_accepts(u->trust, &s) ? 0 : refused_signature(u, &s, e);
    fy_signature_release(&s);
    return rc;
}

/* first: the manifest was the first entry and has been read. */
static int take_entries(unpacker *u, bool first, fy_err *e)
{
    struct archive_entry *en;
    char path[FY_MANIFEST_MAX_PATH + 256];
    const char *rel;
    int rc;
    u->seen_manifest = first;
    u->n_dirs = 0;
    if (!first && fy_archive_in_open(&u->in, e) != 0)
        return -1;
    while ((rc = next_file(u, &en, path, sizeof path, &rel, e)) == 1) {
        if (strcmp(rel, FY_MANIFEST_NAME) == 0)
            rc = take_manifest(u, e);
        else if (fy_manifest_is_unlisted(rel))
            rc = take_seal(u, rel, e);
        else
            rc = take_file(u, en, rel, e);
        if (rc != 0)
            return -1;
    }
    if (rc == 0)
        rc = check_complete(u, e);
    return rc == 0 ? check_seal(u, e) : rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

static void end(unpacker *u)
{
    fy_archive_in_close(&u->in);
    fy_manifest_release(&u->manifest);
    fy_str_release(&u->text);
    fy_str_release(&u->sig);
    fy_str_release(&u->key);
    free(u->top);
    free(u->seen);
}

int fy_unpack_check(const void *p, size_t n, const char *name, fy_err *e)
{
    unpacker u = {.in = {.name = name, .bytes = p, .n = n}};
    bool first;
    int rc = find_manifest(&u, &first, e);
    if (rc == 0)
        rc = take_entries(&u, first, e);
    end(&u);
    return rc;
}

static int write_unlisted(unpacker *u, fy_err *e)
{
    const struct {
        const char *name;
        const fy_str *text;
        bool there;
    } files[] = {{FY_MANIFEST_NAME, &u->text, true},
                 {FY_MANIFEST_SIG, &u->sig, u->has_sig},
                 {FY_MANIFEST_KEY, &u->key, u->has_key}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (files[i].there && fy_staging_write(u->st, files[i].name, 0644, files[i].text->ptr,
                                               files[i].text->len, e) != 0)
            return -1;
    }
    return 0;
}

static int unpack_into(unpacker *u, const char *dir, bool first, fy_err *e)
{
    u->st = fy_staging_open(dir, e);
    if (u->st == NULL)
        return -1;
    if (fy_staging_need(u->st, disk_need(&u->manifest), e) == 0 && take_entries(u, first, e) == 0 &&
        write_unlisted(u, e) == 0)
        return fy_staging_commit(u->st, e);
    fy_staging_abort(u->st);
    return -1;
}

/* O_NONBLOCK: a named pipe without a writer must not block us before it is refused. */
static int open_source(const char *path, bool *stream, fy_err *e)
{
    struct stat st;
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fy_fail_errno(e, "%s: cannot open", path);
        return -1;
    }
    bool known = fstat(fd, &st) == 0;
    *stream = known && !S_ISREG(st.st_mode);
    if (known && !S_ISDIR(st.st_mode) && (standard || S_ISREG(st.st_mode)))
        return fd;
    fy_fail(e, FY_EARG, "%s: %s, expected an archive file", path,
            known && S_ISDIR(st.st_mode) ? "is a directory"
                                         : "is not a regular file ('-' reads standard input)");
    close(fd);
    return -1;
}

/* The name that the archive gives itself. It is taken only for what is a workspace, and only if it
 * is harmless here: a name such as ".git" or "-rf" means something to other programs. */
static int check_own_name(const unpacker *u, fy_err *e)
{
    fy_str shown = {0};
    fy_str_put_quoted(&shown, fy_span_of(u->top), SIZE_MAX);
    int rc = shown.oom ? fy_nomem(e) : 0;
    if (rc == 0 && (u->top[0] == '.' || u->top[0] == '-' || strcmp(shown.ptr, u->top) != 0))
        rc = fy_fail(e, FY_EARG,
                     "%s: its directory is named '%.64s', which is not taken as a name here: give "
                     "-o DIR",
                     u->in.name, shown.ptr);
    else if (rc == 0 && fy_manifest_find(&u->manifest, FY_BUNDLE_WORKSPACE_JSON) == NULL)
        rc = fy_fail(e, FY_EARG,
                     "%s: its manifest lists no " FY_BUNDLE_WORKSPACE_JSON
                     ", which every workspace has: to unpack it all the same, give -o DIR",
                     u->in.name);
    fy_str_release(&shown);
    return rc;
}

int fy_unpack(const char *archive, const char *dir, const fy_trust *trust, char **made,
              fy_progress *progress, fy_err *e)
{
    unpacker u = {.trust = trust, .progress = progress};
    bool standard = strcmp(archive, "-") == 0, first;
    u.in.name = standard ? "standard input" : archive;
    u.in.fd = open_source(archive, &u.stream, e);
    if (u.in.fd < 0)
        return -1;
    u.stream |= standard; /* a file there may not be at its beginning */
    char *name = NULL;
    int rc = find_manifest(&u, &first, e);
    if (rc == 0 && dir == NULL)
        rc = check_own_name(&u, e);
    for (size_t i = 0; rc == 0 && progress != NULL && i < u.manifest.n; i++)
        progress->total_bytes += u.manifest.entry[i].bytes;
    if (rc == 0)
        rc = unpack_into(&u, dir != NULL ? dir : u.top, first, e);
    if (rc == 0 && u.stream)
        fy_archive_in_drain(&u.in);
    if (rc == 0 && made != NULL && (name = strdup(dir != NULL ? dir : u.top)) == NULL)
        rc = fy_nomem(e);
    if (rc == 0 && made != NULL)
        *made = name;
    close(u.in.fd);
    end(&u);
    return rc;
}
