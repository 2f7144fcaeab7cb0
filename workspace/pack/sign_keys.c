/* Ed25519 keys through OpenSSL: key files, signing, the user's list of trusted keys, and a new
 * pair, whose private key is never readable by others and never written over another one. */
#include "workspace/pack/sign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"

#define KEY_FILE_MAX 65536 /* a PEM file with text around the key */
#define TRUSTED_MAX  4096  /* keys of the list */

/* OpenSSL's reason, and its queue emptied. */
static const char *openssl_reason(void)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return why != NULL ? why : "no reason given";
}

/* --- key files -------------------------------------------------------------------------------- */

/* The text of a key file, which may be a pipe (`--key <(...)`). *mode: of a regular file, else 0.
 */
static int read_key_file(const char *path, fy_str *out, mode_t *mode, fy_err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    if (fstat(fd, &st) != 0)
        rc = fy_fail_errno(e, "%s: cannot read", path);
    else if (S_ISDIR(st.st_mode))
        rc = fy_fail(e, FY_EARG, "%s: is a directory, expected a key file (PEM)", path);
    *mode = rc == 0 && S_ISREG(st.st_mode) ? st.st_mode & 07777 : 0;
    char buf[4096];
    ssize_t n = 1;
    while (rc == 0 && n != 0) {
        n = read(fd, buf, sizeof buf);
        if (n < 0 && errno != EINTR)
            rc = fy_fail_errno(e, "%s: cannot read", path);
        else if (n > 0 && out->len + (size_t)n > KEY_FILE_MAX)
            rc = fy_fail(e, FY_EARG, "%s: has more than %d bytes, expected a key file (PEM)", path,
                         KEY_FILE_MAX);
        else if (n > 0)
            fy_str_add(out, buf, (size_t)n);
        if (rc == 0 && out->oom)
            rc = fy_nomem(e);
    }
    OPENSSL_cleanse(buf, sizeof buf);
    close(fd);
    return rc;
}

static void wipe(fy_str *s)
{
    if (s->ptr != NULL)
        OPENSSL_cleanse(s->ptr, s->cap);
    fy_str_release(s);
}

static int raw_public(EVP_PKEY *pkey, const char *path, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    size_t n = FY_PUBLIC_KEY_BYTES;
    if (EVP_PKEY_get_base_id(pkey) != EVP_PKEY_ED25519) {
        const char *type = EVP_PKEY_get0_type_name(pkey);
        return fy_fail(e, FY_EARG,
                       "%s: is a key for %s, expected an Ed25519 key ('ferry keygen' makes one)",
                       path, type != NULL ? type : "something else");
    }
    return EVP_PKEY_get_raw_public_key(pkey, key, &n) == 1 && n == FY_PUBLIC_KEY_BYTES
               ? 0
               : fy_fail(e, FY_EIO, "%s: OpenSSL cannot use the key: %s", path, openssl_reason());
}

int fy_keys_read_public(const char *path, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    fy_str text = {0};
    mode_t mode;
    EVP_PKEY *pkey = NULL;
    int rc = read_key_file(path, &text, &mode, e);
    BIO *bio = rc == 0 ? BIO_new_mem_buf(fy_str_z(&text), (int)text.len) : NULL;
    if (rc == 0 && bio == NULL)
        rc = fy_nomem(e);
    if (rc == 0 && (pkey = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL)) == NULL) {
        bool is_private = memmem(fy_str_z(&text), text.len, "PRIVATE KEY-----", 16) != NULL;
        ERR_clear_error();
        rc = fy_fail(e, FY_EARG, "%s: %s", path,
                     is_private ? "is a private key, expected the public one (NAME.pub.pem)"
                                : "holds no public key in PEM form, expected NAME.pub.pem as "
                                  "'ferry keygen' writes it");
    }
    if (rc == 0)
        rc = raw_public(pkey, path, key, e);
    EVP_PKEY_free(pkey);
    BIO_free(bio);
    wipe(&text);
    return rc;
}

/* --- signing ---------------------------------------------------------------------------------- */

typedef struct {
    const char *path;
    fy_ask_passphrase *ask;
    void *user;
    bool wanted, asked;
} passphrase;

static int on_passphrase(char *out, int size, int writing, void *opaque)
{
    passphrase *p = opaque;
    (void)writing;
    p->wanted = true;
    int n = p->ask != NULL ? p->ask(p->user, p->path, out, size) : -1;
    p->asked = n >= 0;
    return n;
}

static EVP_PKEY *read_private(const char *path, fy_ask_passphrase *ask, void *user, fy_err *e)
{
    fy_str text = {0};
    mode_t mode;
    if (read_key_file(path, &text, &mode, e) != 0) {
        wipe(&text);
        return NULL;
    }
    if ((mode & 077) != 0)
        fy_log(FY_LOG_WARN, "%s: others may read this private key (mode %04o); chmod 600 it", path,
               (unsigned)mode);
    passphrase pass = {.path = path, .ask = ask, .user = user};
    BIO *bio = BIO_new_mem_buf(fy_str_z(&text), (int)text.len);
    EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, &pass) : NULL;
    if (bio == NULL)
        fy_nomem(e);
    else if (pkey == NULL && pass.wanted && !pass.asked)
        fy_fail(e, FY_EARG,
                "%s: is encrypted, and its passphrase is asked for on a terminal only; there is "
                "none",
                path);
    else if (pkey == NULL && pass.wanted)
        fy_fail(e, FY_EARG, "%s: the passphrase does not open it", path);
    else if (pkey == NULL && memmem(fy_str_z(&text), text.len, "PUBLIC KEY-----", 15) != NULL)
        fy_fail(e, FY_EARG, "%s: is a public key; a signature needs the private one (NAME.pem)",
                path);
    else if (pkey == NULL)
        fy_fail(e, FY_EARG, "%s: holds no private key in PEM form ('ferry keygen' makes one)",
                path);
    ERR_clear_error();
    BIO_free(bio);
    wipe(&text);
    return pkey;
}

int fy_keys_sign(const char *path, fy_ask_passphrase *ask, void *user, const void *p, size_t n,
                 uint8_t sig[FY_MANIFEST_SIG_BYTES], uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    EVP_PKEY *pkey = read_private(path, ask, user, e);
    if (pkey == NULL)
        return -1;
    size_t len = FY_MANIFEST_SIG_BYTES;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int rc = ctx != NULL ? raw_public(pkey, path, key, e) : fy_nomem(e);
    if (rc == 0 && (EVP_DigestSignInit(ctx, NULL, NULL, NULL, pkey) != 1 ||
                    EVP_DigestSign(ctx, sig, &len, p, n) != 1 || len != FY_MANIFEST_SIG_BYTES))
        rc = fy_fail(e, FY_EIO, "%s: OpenSSL cannot sign: %s", path, openssl_reason());
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    return rc;
}

/* --- the user's list -------------------------------------------------------------------------- */

void fy_trusted_keys_release(fy_trusted_keys *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->key[i].name);
    free(t->key);
    free(t->dir);
    *t = (fy_trusted_keys){0};
}

/* Bytes of the key's name in "NAME.pem" or "NAME.pub.pem"; 0: no such file. */
static size_t name_bytes(const char *file)
{
    size_t n = strlen(file);
    if (n <= 4 || file[0] == '.' || strcmp(file + n - 4, ".pem") != 0)
        return 0;
    n -= 4;
    return n > 4 && memcmp(file + n - 4, ".pub", 4) == 0 ? n - 4 : n;
}

static int add_trusted(fy_trusted_keys *t, const char *file, fy_err *e)
{
    fy_trusted_key k;
    fy_err what = {0};
    char *path = fy_path_join(t->dir, file);
    if (path == NULL)
        return fy_nomem(e);
    struct stat st;
    int rc = 0;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        fy_log(FY_LOG_WARN, "%s: is not a file; ignored as a trusted key", path);
    } else if (fy_keys_read_public(path, k.key, &what) != 0) {
        fy_log(FY_LOG_WARN, "%s", what.msg);
    } else {
        k.name = fy_path_format(e, "%.*s", (int)name_bytes(file), file);
        rc = k.name != NULL ? fy_append(&t->key, &t->n, &t->cap, &k, sizeof k, e) : -1;
        if (rc != 0)
            free(k.name);
    }
    free(path);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const fy_trusted_key *)a)->name, ((const fy_trusted_key *)b)->name);
}

bool fy_trusted_dir(fy_str *out)
{
    return fy_config_path("trusted", out);
}

int fy_trusted_keys_read(fy_trusted_keys *out, fy_err *e)
{
    fy_trusted_keys t = {0};
    fy_str dir = {0};
    *out = t;
    if (!fy_trusted_dir(&dir))
        return 0;
    if (dir.oom) {
        fy_str_release(&dir);
        return fy_nomem(e);
    }
    t.dir = dir.ptr;
    DIR *d = opendir(t.dir);
    int rc = 0;
    if (d == NULL && errno != ENOENT && errno != ENOTDIR)
        fy_log(FY_LOG_WARN, "%s: no trusted keys: %s", t.dir, strerror(errno));
    for (struct dirent *en; d != NULL && rc == 0 && (en = readdir(d)) != NULL;) {
        if (name_bytes(en->d_name) > 0 && t.n < TRUSTED_MAX)
            rc = add_trusted(&t, en->d_name, e);
    }
    if (d != NULL)
        closedir(d);
    if (rc != 0) {
        fy_trusted_keys_release(&t);
        return rc;
    }
    if (t.n > 0)
        qsort(t.key, t.n, sizeof *t.key, by_name);
    *out = t;
    return 0;
}

/* --- a new key pair --------------------------------------------------------------------------- */

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
    char *part = fy_path_format(e, "%s.part", path);
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
        return fy_fail(e, FY_EIO, "OpenSSL cannot compute the public key");
    fy_public_key_text(key, text);
    int rc = private_text(pkey, &bio, e);
    long pem_bytes = rc == 0 ? BIO_get_mem_data(bio, &pem) : 0;
    if (rc == 0)
        rc = write_new(private_path, 0600, pem, (size_t)pem_bytes, e);
    if (rc == 0 && (rc = write_new(public_path, 0644, text, FY_PUBLIC_KEY_TEXT_BYTES, e)) != 0)
        unlink(private_path); /* made a moment ago; nobody can have used it */
    BIO_free(bio);
    return rc == 0 ? fy_public_key_fingerprint(key, fingerprint, e) : rc;
}

int fy_keygen(const char *name, char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e)
{
    char *private_path = fy_path_format(e, "%s.pem", name);
    char *public_path = private_path != NULL ? fy_path_format(e, "%s.pub.pem", name) : NULL;
    EVP_PKEY *pkey = NULL;
    int rc = public_path != NULL && must_be_free(private_path, e) == 0 &&
                     must_be_free(public_path, e) == 0
                 ? 0
                 : -1;
    if (rc == 0 && (pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")) == NULL)
        rc = fy_fail(e, FY_EIO, "OpenSSL cannot make a key (no random numbers?)");
    if (rc == 0)
        rc = write_pair(pkey, private_path, public_path, fingerprint, e);
    EVP_PKEY_free(pkey);
    free(private_path);
    free(public_path);
    return rc;
}
