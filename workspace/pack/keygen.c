/* A new Ed25519 key pair. The private key is never readable by others and never written over
 * another one. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "workspace/pack/sign.h"

static char *name_with(const char *name, const char *suffix, fy_err *e)
{
    fy_str s = {0};
    fy_str_printf(&s, "%s%s", name, suffix);
    if (s.oom) {
        fy_str_release(&s);
        fy_nomem(e);
        return NULL;
    }
    return s.ptr;
}

static int must_be_free(const char *path, fy_err *e)
{
    struct stat st;
    return lstat(path, &st) != 0 && errno == ENOENT
               ? 0
               : fy_fail(e, FY_EARG,
                         "%s: exists; a key is never written over another (choose a name with -o)",
                         path);
}

/* link() fails where rename() would replace what another process has put there meanwhile. */
static int take_name(const char *part, const char *path, fy_err *e)
{
    if (link(part, path) == 0) {
        unlink(part);
        return 0;
    }
    if (errno == EEXIST)
        return must_be_free(path, e);
    return rename(part, path) == 0 ? 0 : fy_fail_errno(e, "%s: cannot rename to %s", part, path);
}

static int write_new(const char *path, mode_t mode, const void *p, size_t n, fy_err *e)
{
    char *part = name_with(path, ".part", e);
    if (part == NULL)
        return -1;
    unlink(part); /* what a killed run left */
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode), rc = 0;
    if (fd < 0) {
        rc = fy_fail_errno(e, "%s: cannot create", part);
    } else {
        rc = fy_write_all(fd, p, n, part, e);
        if (rc == 0 && fsync(fd) != 0)
            rc = fy_fail_errno(e, "%s: cannot flush to disk", part);
        if (close(fd) != 0 && rc == 0)
            rc = fy_fail_errno(e, "%s: cannot close", part);
        if (rc == 0)
            rc = take_name(part, path, e);
        if (rc != 0)
            unlink(part);
        else
            fy_sync_dir_of(path);
    }
    free(part);
    return rc;
}

static int private_text(EVP_PKEY *pkey, BIO **out, fy_err *e)
{
    /* secure memory is wiped when it is freed */
    *out = BIO_new(BIO_s_secmem());
    return *out != NULL && PEM_write_bio_PKCS8PrivateKey(*out, pkey, NULL, NULL, 0, NULL, NULL) == 1
               ? 0
               : fy_fail(e, FY_EIO, "OpenSSL cannot write the key");
}

static int write_pair(EVP_PKEY *pkey, const char *private_path, const char *public_path,
                      char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e)
{
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    char text[FY_PUBLIC_KEY_TEXT_BYTES + 1], *pem = NULL;
    size_t n = sizeof key;
    BIO *bio = NULL;
    if (EVP_PKEY_get_raw_public_key(pkey, key, &n) != 1 || n != sizeof key)
        return fy_fail(e, FY_EIO, "OpenSSL cannot tell the public key");
    fy_public_key_text(key, text);
    int rc = private_text(pkey, &bio, e);
    long pem_bytes = rc == 0 ? BIO_get_mem_data(bio, &pem) : 0;
    if (rc == 0)
        rc = write_new(private_path, 0600, pem, (size_t)pem_bytes, e);
    if (rc == 0 && (rc = write_new(public_path, 0644, text, FY_PUBLIC_KEY_TEXT_BYTES, e)) != 0)
        unlink(private_path); /* made a moment ago, known to nobody */
    BIO_free(bio);
    return rc == 0 ? fy_public_key_fingerprint(key, fingerprint, e) : rc;
}

int fy_keygen(const char *name, char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e)
{
    char *private_path = name_with(name, ".pem", e);
    char *public_path = private_path != NULL ? name_with(name, ".pub.pem", e) : NULL;
    EVP_PKEY *pkey = NULL;
    int rc = public_path != NULL ? 0 : -1;
    if (rc == 0 && (must_be_free(private_path, e) != 0 || must_be_free(public_path, e) != 0))
        rc = -1;
    if (rc == 0 && (pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")) == NULL)
        rc = fy_fail(e, FY_EIO, "OpenSSL cannot make a key (no random numbers?)");
    if (rc == 0)
        rc = write_pair(pkey, private_path, public_path, fingerprint, e);
    EVP_PKEY_free(pkey);
    free(private_path);
    free(public_path);
    return rc;
}
