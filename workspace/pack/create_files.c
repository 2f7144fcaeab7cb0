#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/log.h"
#include "bundle/bundle_check.h"
#include "workspace/pack/create_impl.h"
#include "workspace/pack/digest.h"

/* --- lists of files --------------------------------------------------------------------------- */

int fy_pieces_add(fy_pieces *l, const char *from, const char *rel, uint32_t mode, fy_err *e)
{
    struct stat st;
    char *real = realpath(from, NULL);
    if (real == NULL)
        return fy_fail_errno(e, "%s: cannot open", from);
    fy_piece *grown = fy_grow(l->item, l->n, &l->cap, sizeof *grown);
    fy_piece one = {.from = real, .rel = strdup(rel), .mode = mode};
    int rc = 0;
    if (grown == NULL || one.rel == NULL)
        rc = fy_nomem(e);
    else if (stat(real, &st) != 0)
        rc = fy_fail_errno(e, "%s: cannot read its size", from);
    else if (!S_ISREG(st.st_mode))
        rc = fy_fail(e, FY_EARG, "%s: is not a regular file", from);
    else if (!fy_manifest_path_ok(rel))
        rc = fy_fail(e, FY_EARG,
                     "%s: a workspace has no file of this name; expected printable ASCII without "
                     "spaces",
                     from);
    if (grown != NULL)
        l->item = grown;
    if (rc != 0) {
        free(one.from);
        free(one.rel);
        return rc;
    }
    one.bytes = (uint64_t)st.st_size;
    one.dev = st.st_dev;
    l->item[l->n++] = one;
    return 0;
}

const fy_piece *fy_pieces_find(const fy_pieces *l, const char *rel)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->item[i].rel, rel) == 0)
            return &l->item[i];
    }
    return NULL;
}

uint64_t fy_pieces_bytes(const fy_pieces *l)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->item[i].bytes;
    return n;
}

uint64_t fy_pieces_bytes_off(const fy_pieces *l, dev_t dev)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->item[i].dev != dev ? l->item[i].bytes : 0;
    return n;
}

void fy_pieces_release(fy_pieces *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i].from);
        free(l->item[i].rel);
    }
    free(l->item);
    *l = (fy_pieces){0};
}

/* --- into the staging directory --------------------------------------------------------------- */

int fy_maker_copy(fy_maker *k, const char *from, const char *rel, uint32_t mode, fy_err *e)
{
    fy_digest d;
    int fd = fy_staging_create(k->st, rel, mode, e);
    if (fd < 0)
        return -1;
    int rc = fy_digest_file(from, fd, rel, k->progress, &d, e);
    if (close(fd) != 0 && rc == 0) {
        rc = fy_fail_errno(e, "%s: cannot close", rel);
        fy_digest_release(&d);
    }
    return rc == 0 ? fy_manifest_add(&k->manifest, rel, mode, &d, e) : rc;
}

typedef enum { COPIED, CLONED, LINKED } placed;

/* Shares the source's blocks, or its inode; COPIED (and no file) when neither can be done here. */
static placed share_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    bool cloned = out >= 0 && ioctl(out, FICLONE, in) == 0;
    if (out >= 0) {
        cloned = cloned && fchmod(out, 0644) == 0;
        close(out);
    }
    if (in >= 0)
        close(in);
    if (cloned)
        return CLONED;
    if (out >= 0)
        unlink(to);
    struct stat st; /* a linked file keeps its mode */
    bool fit = stat(from, &st) == 0 && (st.st_mode & FY_MODE_REFUSED) == 0;
    return fit && link(from, to) == 0 ? LINKED : COPIED;
}

static int add_digest(fy_maker *k, const char *path, const char *rel, fy_err *e)
{
    fy_digest d;
    int rc = fy_digest_file(path, -1, NULL, k->progress, &d, e);
    return rc == 0 ? fy_manifest_add(&k->manifest, rel, 0644, &d, e) : rc;
}

int fy_maker_share(fy_maker *k, const char *from, uint64_t bytes, const char *rel, fy_err *e)
{
    static const char *const word[] = {
        [COPIED] = "copied", [CLONED] = "cloned (shared blocks)", [LINKED] = "linked"};
    char *to = fy_staging_path(k->st, rel, e);
    if (to == NULL || fy_staging_mkdirs(k->st, rel, e) != 0) {
        free(to);
        return -1;
    }
    placed how = k->p->copy ? COPIED : share_file(from, to);
    int rc;
    if (how == COPIED) {
        rc = fy_staging_need(k->st, bytes, e);
        if (rc == 0)
            rc = fy_maker_copy(k, from, rel, 0644, e);
    } else {
        rc = add_digest(k, to, rel, e);
    }
    if (rc == 0)
        fy_log(FY_LOG_DEBUG, "%s: %s", rel, word[how]);
    free(to);
    return rc;
}

int fy_maker_take(fy_maker *k, const char *rel, fy_err *e)
{
    char *path = fy_staging_path(k->st, rel, e);
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && chmod(path, 0644) != 0)
        rc = fy_fail_errno(e, "%s: cannot set its mode", path);
    if (rc == 0)
        rc = add_digest(k, path, rel, e);
    free(path);
    return rc;
}

int fy_maker_text(fy_maker *k, const char *rel, int rc, fy_str *text, fy_err *e)
{
    if (rc == 0)
        rc = fy_staging_write(k->st, rel, 0644, text->ptr, text->len, e);
    fy_digest d = {.bytes = text->len}; /* these texts stay far below the size that has blocks */
    if (rc == 0)
        rc = fy_sha256_of(text->ptr, text->len, d.sha256, e);
    if (rc == 0)
        rc = fy_manifest_add(&k->manifest, rel, 0644, &d, e);
    fy_str_release(text);
    return rc;
}

int fy_maker_manifest(fy_maker *k, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_manifest_text(&k->manifest, &text, e);
    if (rc == 0)
        rc = fy_staging_write(k->st, FY_MANIFEST_NAME, 0644, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}
