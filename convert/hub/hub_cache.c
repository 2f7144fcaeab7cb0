/* The cache (hub_cache.h): names and paths, the search for a snapshot, and the writing of blobs,
 * links and refs. */
#include "hub/hub_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"

#define ENTRY         "models--"
#define REF_BYTES_MAX 200 /* of a file below refs: a commit has 40 */

/* --- names ------------------------------------------------------------------------------------ */

int fy_hub_check_revision(const char *revision, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    size_t n = strlen(revision);
    bool good = n > 0 && n < FY_HUB_REVISION_BYTES;
    for (const char *p = revision; good && *p != '\0';) {
        size_t part = strcspn(p, "/");
        good =
            part > 0 && !(part == 1 && p[0] == '.') && !(part == 2 && p[0] == '.' && p[1] == '.');
        for (size_t i = 0; i < part; i++)
            good &= (unsigned char)p[i] > ' ' && p[i] != '\\' && p[i] != ':' && p[i] != 127;
        p += part;
        if (*p == '/')
            good &= *++p != '\0';
    }
    if (good)
        return 0;
    return fy_fail(e, FY_EARG, "'%s' is not a revision; expected a branch, a tag or a commit",
                   fy_quote(q, sizeof q, fy_span_of(revision)));
}

/* ":TYPE": *text becomes what follows. */
static int read_type(const char **text, fy_hub_ref *r, fy_err *e)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    char q[FY_QUOTE_BYTES];
    const char *type = *text + 1;
    const size_t n = strspn(type, allowed);
    if (n == 0 || n >= sizeof r->type || (type[n] != '\0' && type[n] != '@'))
        return fy_fail(e, FY_EARG, "':%s' is not a type; expected ORG/NAME:TYPE, such as :Q4_K_M",
                       fy_quote(q, sizeof q, fy_span_of(type)));
    memcpy(r->type, type, n);
    *text = type + n;
    return 0;
}

int fy_hub_ref_read(const char *text, fy_hub_ref *out, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    fy_hub_ref r = {0};
    size_t n = fy_hub_id_bytes(text);
    if (n == 0)
        return fy_fail(e, FY_EARG,
                       "'%s' is not the name of a repository; expected ORG/NAME, as in the address "
                       "of its page",
                       fy_quote(q, sizeof q, fy_span_of(text)));
    snprintf(r.id, sizeof r.id, "%.*s", (int)n, text); /* two parts of 96 fit */
    const char *rest = text + n;
    if (*rest == ':' && read_type(&rest, &r, e) != 0)
        return -1;
    if (*rest == '@') {
        if (fy_hub_check_revision(rest + 1, e) != 0)
            return -1;
        snprintf(r.revision, sizeof r.revision, "%s", rest + 1);
    }
    *out = r;
    return 0;
}

/* The variable's value with "~/" resolved, and what follows it. False: it is not set. */
static bool from_variable(const char *variable, const char *below, const char *name, char **out,
                          fy_err *e)
{
    const char *v = getenv(variable), *home = getenv("HOME");
    if (v == NULL || *v == '\0')
        return false;
    bool at_home = v[0] == '~' && v[1] == '/' && home != NULL;
    *out = fy_path_format(e, "%s%s%s%s", at_home ? home : "", v + at_home, below, name);
    return true;
}

char *fy_hub_home(const char *name, fy_err *e)
{
    char *path;
    if (from_variable("HF_HOME", "/", name, &path, e) ||
        from_variable("XDG_CACHE_HOME", "/huggingface/", name, &path, e) ||
        from_variable("HOME", "/.cache/huggingface/", name, &path, e))
        return path;
    fy_fail(e, FY_EARG, "neither HF_HUB_CACHE nor HF_HOME nor HOME is set: where is the cache?");
    return NULL;
}

char *fy_hub_cache_dir(fy_err *e)
{
    char *path;
    return from_variable("HF_HUB_CACHE", "", "", &path, e) ||
                   from_variable("HUGGINGFACE_HUB_CACHE", "", "", &path, e)
               ? path
               : fy_hub_home("hub", e);
}

char *fy_hub_storage(const fy_hub_ref *ref, fy_err *e)
{
    char *cache = fy_hub_cache_dir(e);
    const size_t n = strcspn(ref->id, "/"); /* ORG, or all of it */
    if (cache == NULL)
        return NULL;
    char *path = fy_path_format(e, "%s/" ENTRY "%.*s%s%s", cache, (int)n, ref->id,
                                ref->id[n] == '/' ? "--" : "", ref->id + n + (ref->id[n] == '/'));
    free(cache);
    return path;
}

/* --- entries ---------------------------------------------------------------------------------- */

/* 1 and *dir: the snapshot is there; 0: it is not. */
static int snapshot_of(const char *storage, const char *commit, char **dir, fy_err *e)
{
    char *path = fy_path_format(e, "%s/snapshots/%s", storage, commit);
    if (path == NULL)
        return -1;
    if (!fy_file_is_dir(path)) {
        free(path);
        return 0;
    }
    *dir = path;
    return 1;
}

/* What refs/REVISION says: 1; 0: no such file. */
static int read_ref(const char *storage, const char *revision, char commit[REF_BYTES_MAX + 1],
                    fy_err *e)
{
    fy_map m;
    char *path = fy_path_format(e, "%s/refs/%s", storage, revision);
    if (path == NULL)
        return -1;
    int rc = fy_file_exists(path) && !fy_file_is_dir(path);
    if (rc == 1 && fy_map_open(&m, path, e) != 0)
        rc = -1;
    if (rc == 1) {
        size_t n = m.size < REF_BYTES_MAX ? m.size : REF_BYTES_MAX;
        memcpy(commit, m.data, n);
        commit[n] = '\0';
        commit[strcspn(commit, " \t\r\n")] = '\0';
        fy_map_close(&m);
        if (strchr(commit, '/') != NULL || fy_hub_check_revision(commit, NULL) != 0)
            rc = fy_fail(e, FY_EFORMAT, "%s: holds no commit", path);
    }
    free(path);
    return rc;
}

/* The only snapshot; *n is how many there are. */
static int only_snapshot(const char *storage, char **dir, size_t *n, fy_err *e)
{
    char *path = fy_path_join(storage, "snapshots");
    DIR *d = path != NULL ? opendir(path) : NULL;
    int rc = path != NULL ? 0 : fy_nomem(e);
    char *found = NULL;
    *n = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        char *sub = en->d_name[0] != '.' ? fy_path_join(path, en->d_name) : NULL;
        if (sub != NULL && fy_file_is_dir(sub)) {
            *n += 1;
            free(found);
            found = sub;
        } else {
            free(sub);
        }
    }
    if (d != NULL)
        closedir(d);
    free(path);
    if (rc == 0 && *n == 1) {
        *dir = found;
        return 0;
    }
    free(found);
    return rc;
}

int fy_hub_find_snapshot(const char *storage, const char *revision, char **dir, fy_err *e)
{
    char commit[REF_BYTES_MAX + 1], q[FY_QUOTE_BYTES];
    const char *name = *revision != '\0' ? revision : "main";
    size_t n;
    int rc = read_ref(storage, name, commit, e);
    if (rc == 1) {
        rc = snapshot_of(storage, commit, dir, e);
        if (rc == 0)
            return fy_fail(
                e, FY_EIO,
                "%s: refs/%s names the snapshot %s, which is missing; 'ferry fetch' repairs that",
                storage, name, fy_quote(q, sizeof q, fy_span_of(commit)));
    } else if (rc == 0 && *revision != '\0') {
        rc = strchr(revision, '/') == NULL ? snapshot_of(storage, revision, dir, e) : 0;
        if (rc == 0)
            return fy_fail(e, FY_EIO,
                           "%s: neither refs/%s nor snapshots/%s is there; 'ferry fetch' with "
                           "--revision=%s brings it",
                           storage, revision, revision, revision);
    } else if (rc == 0) {
        rc = only_snapshot(storage, dir, &n, e);
        if (rc == 0 && n != 1)
            return fy_fail(e, FY_EIO,
                           n == 0 ? "%s: no snapshot is in it; 'ferry fetch' downloads one"
                                  : "%s: no refs/main, and several snapshots; give the path of one "
                                    "below snapshots",
                           storage);
    }
    return rc < 0 ? -1 : 0;
}

int fy_hub_entry_id(fy_span base, char **id, fy_err *e)
{
    size_t skip = strlen(ENTRY);
    if (base.len <= skip || !fy_span_begins(base, ENTRY))
        return 0;
    *id = strndup(base.ptr + skip, base.len - skip);
    if (*id == NULL)
        return fy_nomem(e);
    char *cut = strstr(*id, "--");
    if (cut != NULL && cut[2] != '\0') {
        *cut = '/';
        memmove(cut + 1, cut + 2, strlen(cut + 2) + 1);
    }
    return 0;
}

int fy_hub_id_of_snapshot(const char *dir, char **id, fy_err *e)
{
    char *real = realpath(dir, NULL);
    char *commit = real != NULL ? strrchr(real, '/') : NULL;
    int rc = 0;
    *id = NULL;
    if (commit != NULL) {
        *commit = '\0';
        if (fy_span_is(fy_path_base(real), "snapshots")) {
            *strrchr(real, '/') = '\0';
            rc = fy_hub_entry_id(fy_path_base(real), id, e);
        }
    }
    free(real);
    return rc;
}

bool fy_hub_is_entry(const char *dir)
{
    return fy_dir_has(dir, "snapshots/.") && !fy_dir_has(dir, "config.json");
}

/* --- hashes ---------------------------------------------------------------------------------- */

/* The two hashes by which the hub knows contents: SHA-256 of a file that it keeps in LFS, and git's
 * name of any other one, the SHA-1 of "blob SIZE\0" and the contents (git-hash-object). */
typedef EVP_MD_CTX hasher;

static int hash_add(hasher *h, const void *p, size_t n, fy_err *e)
{
    return EVP_DigestUpdate(h, p, n) == 1
               ? 0
               : fy_fail(e, FY_EIO, "OpenSSL failed to hash %zu bytes", n);
}

/* Of a file of `size` bytes; digits 64: SHA-256, 40: git's. NULL on failure. */
static hasher *hash_new(size_t digits, uint64_t size, fy_err *e)
{
    char head[32];
    hasher *h = EVP_MD_CTX_new();
    int rc = 0;
    if (h == NULL || EVP_DigestInit_ex(h, digits == 64 ? EVP_sha256() : EVP_sha1(), NULL) != 1)
        rc = fy_nomem(e);
    else if (digits != 64)
        rc = hash_add(h, head, (size_t)snprintf(head, sizeof head, "blob %" PRIu64, size) + 1, e);
    if (rc == 0)
        return h;
    EVP_MD_CTX_free(h);
    return NULL;
}

/* Ends the hash and frees `h`; hex has room for 65. */
static int hash_end(hasher *h, char *hex, fy_err *e)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int rc = EVP_DigestFinal_ex(h, raw, &n) == 1
                 ? 0
                 : fy_fail(e, FY_EIO, "OpenSSL failed to end a hash");
    for (unsigned i = 0; rc == 0 && i < n; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", raw[i]);
    EVP_MD_CTX_free(h);
    return rc;
}

/* --- blobs ----------------------------------------------------------------------------------- */

#define READ_BYTES ((size_t)1 << 20)

struct fy_hub_blob {
    char *path, *partial; /* owned; of the blob, and of what has been downloaded */
    char hash[65];
    uint64_t size, bytes;
    int fd, lock;    /* -1: none */
    hasher *running; /* owned; of the bytes that are there */
};

/* "A/B/C" -> the directory "A/B" is there. */
static int make_parent(const char *path, fy_err *e)
{
    char *dir = strdup(path);
    if (dir == NULL)
        return fy_nomem(e);
    *strrchr(dir, '/') = '\0';
    int rc = fy_mkdirs(dir, e);
    free(dir);
    return rc;
}

/* --- the lock --------------------------------------------------------------------------------- */

static char *lock_path(const char *storage, const char *hash, fy_err *e)
{
    fy_span base = fy_path_base(storage);
    return fy_path_format(e, "%.*s.locks/%.*s/%s.lock", (int)(base.ptr - storage), storage,
                          (int)base.len, base.ptr, hash);
}

/* Whoever holds a lock may remove its file: then another one must be locked. */
static int take_lock(fy_hub_blob *b, const char *path, fy_err *e)
{
    for (;;) {
        struct stat held, named;
        b->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (b->lock < 0)
            return fy_fail_errno(e, "%s", path);
        if (flock(b->lock, LOCK_EX | LOCK_NB) != 0)
            return errno != EWOULDBLOCK
                       ? fy_fail_errno(e, "%s", path)
                       : fy_fail(e, FY_EIO,
                                 "%s: another program downloads it now; run this again "
                                 "when it has ended",
                                 b->path);
        if (fstat(b->lock, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino)
            return 0;
        close(b->lock);
    }
}

/* --- contents --------------------------------------------------------------------------------- */

static int hash_what_is_there(fy_hub_blob *b, fy_err *e)
{
    char *buf = malloc(READ_BYTES);
    int rc = buf != NULL ? 0 : fy_nomem(e);
    for (uint64_t at = 0; rc == 0 && at < b->bytes;) {
        uint64_t left = b->bytes - at;
        ssize_t n = pread(b->fd, buf, left < READ_BYTES ? (size_t)left : READ_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            rc = fy_fail_errno(e, "%s", b->partial);
        if (rc == 0 && n > 0)
            rc = hash_add(b->running, buf, (size_t)n, e);
        if (rc == 0)
            rc = fy_check_interrupt(e);
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(buf);
    return rc;
}

int fy_hub_blob_restart(fy_hub_blob *b, fy_err *e)
{
    EVP_MD_CTX_free(b->running);
    b->bytes = 0;
    b->running = hash_new(strlen(b->hash), b->size, e);
    if (b->running == NULL)
        return -1;
    return ftruncate(b->fd, 0) == 0 ? 0 : fy_fail_errno(e, "%s", b->partial);
}

static int open_partial(fy_hub_blob *b, fy_err *e)
{
    struct stat st;
    b->fd = fy_open_own(b->partial, e);
    if (b->fd < 0)
        return -1;
    if (fstat(b->fd, &st) != 0)
        return fy_fail_errno(e, "%s", b->partial);
    if ((uint64_t)st.st_size > b->size)
        return fy_hub_blob_restart(b, e);
    b->bytes = (uint64_t)st.st_size;
    b->running = hash_new(strlen(b->hash), b->size, e);
    return b->running != NULL ? hash_what_is_there(b, e) : -1;
}

fy_hub_blob *fy_hub_blob_open(const char *storage, const char *hash, uint64_t size, fy_err *e)
{
    fy_hub_blob *b = calloc(1, sizeof *b);
    char *lock = lock_path(storage, hash, e);
    if (b == NULL || lock == NULL) {
        free(b);
        free(lock);
        fy_nomem(e);
        return NULL;
    }
    *b = (fy_hub_blob){.path = fy_path_format(e, "%s/blobs/%s", storage, hash),
                       .partial = fy_path_format(e, "%s/blobs/%s.incomplete", storage, hash),
                       .size = size,
                       .fd = -1,
                       .lock = -1};
    snprintf(b->hash, sizeof b->hash, "%s", hash);
    if (b->path == NULL || b->partial == NULL || make_parent(lock, e) != 0 ||
        make_parent(b->path, e) != 0 || take_lock(b, lock, e) != 0 || open_partial(b, e) != 0) {
        fy_hub_blob_close(b);
        b = NULL;
    }
    free(lock);
    return b;
}

uint64_t fy_hub_blob_bytes(const fy_hub_blob *b)
{
    return b->bytes;
}

int fy_hub_blob_add(fy_hub_blob *b, const void *p, size_t n, fy_err *e)
{
    if (n > b->size - b->bytes)
        return fy_fail(e, FY_EFORMAT,
                       "more bytes came than the %llu that the hub announced; none of them is used",
                       (unsigned long long)b->size);
    for (size_t at = 0; at < n;) {
        ssize_t w = pwrite(b->fd, (const char *)p + at, n - at, (off_t)(b->bytes + at));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return fy_fail_errno(e, "%s", b->partial);
        at += (size_t)w;
    }
    b->bytes += n;
    return hash_add(b->running, p, n, e);
}

int fy_hub_blob_end(fy_hub_blob *b, char *hex, fy_err *e)
{
    int rc = hash_end(b->running, hex, e);
    b->running = NULL;
    if (rc != 0)
        return -1;
    if (strcmp(hex, b->hash) != 0)
        return fy_hub_blob_restart(b, e) == 0 ? 1 : -1;
    if (fy_sync_fd(b->fd, b->partial, e) != 0)
        return -1;
    if (rename(b->partial, b->path) != 0)
        return fy_fail_errno(e, "%s", b->path);
    fy_sync_dir_of(b->path);
    close(b->fd);
    b->fd = -1;
    return 0;
}

void fy_hub_blob_close(fy_hub_blob *b)
{
    if (b == NULL)
        return;
    if (b->fd >= 0) {
        if (b->bytes == 0)
            unlink(b->partial);
        close(b->fd);
    }
    if (b->lock >= 0)
        close(b->lock);
    EVP_MD_CTX_free(b->running);
    free(b->path);
    free(b->partial);
    free(b);
}

static bool size_of(const char *storage, const char *hash, const char *end, uint64_t *size)
{
    struct stat st;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/blobs/%s%s", storage, hash, end);
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *size = (uint64_t)st.st_size;
    return true;
}

bool fy_hub_blob_is_there(const char *storage, const char *hash, uint64_t size)
{
    uint64_t is;
    return size_of(storage, hash, "", &is) && is == size;
}

uint64_t fy_hub_blob_partial(const char *storage, const char *hash)
{
    uint64_t is;
    return size_of(storage, hash, ".incomplete", &is) ? is : 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A link to something else is replaced, as is the copy that huggingface_hub leaves where it cannot
 * make links. */
static int place_link(const char *target, const char *path, fy_err *e)
{
    char now[PATH_MAX];
    ssize_t n = readlink(path, now, sizeof now - 1);
    now[n > 0 ? n : 0] = '\0';
    if (strcmp(now, target) == 0)
        return 0;
    if (unlink(path) != 0 && errno != ENOENT)
        return fy_fail_errno(e, "%s", path);
    return symlink(target, path) == 0 ? 0
                                      : fy_fail_errno(e, "%s: cannot make a symbolic link", path);
}

int fy_hub_link(const char *storage, const char *commit, const char *name, const char *hash,
                fy_err *e)
{
    fy_err own = {0};
    char shown[sizeof own.msg];
    fy_str target = {0};
    char *path = fy_path_format(&own, "%s/snapshots/%s/%s", storage, commit, name);
    fy_str_puts(&target, "../../");
    for (const char *p = name; *p != '\0'; p++)
        fy_str_puts(&target, *p == '/' ? "../" : "");
    fy_str_printf(&target, "blobs/%s", hash);
    if (target.oom)
        fy_nomem(&own);
    if (own.code == FY_OK && make_parent(path, &own) == 0)
        place_link(target.ptr, path, &own);
    fy_str_release(&target);
    free(path);
    return own.code == FY_OK
               ? 0
               : fy_fail(e, own.code, "%s", fy_quote(shown, sizeof shown, fy_span_of(own.msg)));
}

int fy_hub_write_ref(const char *storage, const char *revision, const char *commit, fy_err *e)
{
    if (strcmp(revision, commit) == 0)
        return 0;
    char *path = fy_path_format(e, "%s/refs/%s", storage, revision);
    int rc = path == NULL || make_parent(path, e) != 0 ||
                     fy_file_write(path, commit, strlen(commit), e) != 0
                 ? -1
                 : 0;
    free(path);
    return rc;
}
