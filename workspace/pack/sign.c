/* Signatures of workspaces: whose one is, whether it is accepted, and making one. */
#include "workspace/pack/sign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "bundle/manifest_read.h"

const char *fy_sig_state_name(fy_sig_state s)
{
    static const char *const names[] = {"none", "trusted", "unknown", "wrong"};
    return names[s];
}

void fy_signature_release(fy_signature *s)
{
    free(s->name);
    free(s->why);
    *s = (fy_signature){0};
}

bool fy_trust_accepts(const fy_trust *t, const fy_signature *s)
{
    bool required = t != NULL && (t->require || t->key_path != NULL);
    return s->state == FY_SIG_TRUSTED || (s->state != FY_SIG_WRONG && !required);
}

/* --- checking --------------------------------------------------------------------------------- */

static int wrong(fy_signature *out, const char *what, const char *by, fy_err *e)
{
    out->state = FY_SIG_WRONG;
    out->why = fy_path_format(e, "%s%s", what, by);
    return out->why != NULL ? 0 : -1;
}

/* The name of the trusted key that made the signature, NULL when none did; with `carried` only
 * that key is looked for. */
static int find_trusted(const fy_seal *s, const uint8_t *carried, char **name,
                        uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    fy_trusted_keys t;
    if (fy_trusted_keys_read(&t, e) != 0)
        return -1;
    int rc = 0;
    *name = NULL;
    for (size_t i = 0; rc == 0 && *name == NULL && i < t.n; i++) {
        bool fits = false;
        if (carried != NULL)
            fits = memcmp(t.key[i].key, carried, FY_PUBLIC_KEY_BYTES) == 0;
        else
            rc = fy_public_key_verify(t.key[i].key, s->manifest, (const uint8_t *)s->sig.ptr, &fits,
                                      e);
        if (rc == 0 && fits) {
            memcpy(key, t.key[i].key, FY_PUBLIC_KEY_BYTES);
            *name = t.key[i].name;
            t.key[i].name = NULL;
        }
    }
    fy_trusted_keys_release(&t);
    return rc;
}

/* Only one key counts; one that came with the signature must be it. */
static int check_by(const fy_seal *s, const char *key_path,
                    const uint8_t carried[FY_PUBLIC_KEY_BYTES], fy_signature *out, fy_err *e)
{
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    bool fits;
    if (fy_keys_read_public(key_path, key, e) != 0 ||
        fy_public_key_verify(key, s->manifest, (const uint8_t *)s->sig.ptr, &fits, e) != 0)
        return -1;
    if (!fits)
        return wrong(
            out, FY_MANIFEST_SIG " is not the signature of this " FY_MANIFEST_NAME " by the key ",
            key_path, e);
    if (s->has_key && memcmp(carried, key, sizeof key) != 0)
        return wrong(out, FY_MANIFEST_KEY " is another key than ", key_path, e);
    out->state = FY_SIG_TRUSTED;
    out->name = strdup(key_path);
    return out->name != NULL ? fy_public_key_fingerprint(key, out->fingerprint, e) : fy_nomem(e);
}

static int check_listed(const fy_seal *s, const uint8_t carried[FY_PUBLIC_KEY_BYTES],
                        fy_signature *out, fy_err *e)
{
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    bool fits = true;
    if (s->has_key) {
        memcpy(key, carried, sizeof key);
        if (fy_public_key_verify(key, s->manifest, (const uint8_t *)s->sig.ptr, &fits, e) != 0)
            return -1;
    }
    if (!fits) {
        fy_err what = {0};
        fy_seal_does_not_fit(&what);
        return wrong(out, what.msg, "", e);
    }
    if (find_trusted(s, s->has_key ? carried : NULL, &out->name, key, e) != 0)
        return -1;
    if (out->name == NULL && !s->has_key)
        return wrong(out,
                     FY_MANIFEST_SIG " fits no trusted key, and " FY_MANIFEST_KEY
                                     ", which would name its key, is missing",
                     "", e);
    out->state = out->name != NULL ? FY_SIG_TRUSTED : FY_SIG_UNKNOWN;
    return fy_public_key_fingerprint(key, out->fingerprint, e);
}

int fy_signature_check(const fy_seal *s, const char *key_path, fy_signature *out, fy_err *e)
{
    fy_signature made = {0};
    fy_err what = {0};
    uint8_t carried[FY_PUBLIC_KEY_BYTES];
    int rc = 0;
    if (fy_seal_check_form(s, carried, &what) != 0)
        rc = wrong(&made, what.msg, "", e);
    else if (s->has_sig)
        rc = key_path != NULL ? check_by(s, key_path, carried, &made, e)
                              : check_listed(s, carried, &made, e);
    if (rc == 0)
        *out = made;
    else
        fy_signature_release(&made);
    return rc;
}

int fy_signature_read(const char *dir, const char *key_path, fy_signature *out, fy_err *e)
{
    fy_seal s;
    if (fy_seal_open(dir, &s, e) != 0)
        return -1;
    int rc = fy_signature_check(&s, key_path, out, e);
    fy_seal_close(&s);
    return rc;
}

void fy_signature_text(const fy_signature *s, const char *dir, fy_str *out)
{
    switch (s->state) {
    case FY_SIG_NONE:
        fy_str_puts(out, "not signed");
        return;
    case FY_SIG_TRUSTED:
        fy_str_puts(out, "signed by a trusted key, ");
        fy_str_put_quoted(out, fy_span_of(s->name), SIZE_MAX);
        fy_str_printf(out, " (%s)", s->fingerprint);
        return;
    case FY_SIG_UNKNOWN:
        fy_str_printf(
            out,
            "signed by an unknown key (%s); to trust it, compare this with what its owner "
            "publishes and copy %s/" FY_MANIFEST_KEY " to ",
            s->fingerprint, dir);
        if (!fy_trusted_dir(out))
            fy_str_puts(out, "~/.config/ferry/trusted");
        fy_str_puts(out, "/NAME.pem");
        return;
    case FY_SIG_WRONG:
        fy_str_printf(out, "WRONG signature: %s", s->why);
        return;
    }
}

int fy_trust_check(const fy_trust *t, const fy_seal *s, const char *dir, fy_signature *out,
                   fy_str *refused, fy_err *e)
{
    if (fy_signature_check(s, t != NULL ? t->key_path : NULL, out, e) != 0)
        return -1;
    if (fy_trust_accepts(t, out))
        return 0;
    fy_signature_text(out, dir, refused);
    if (out->state != FY_SIG_WRONG)
        fy_str_puts(refused, "; a signature by a trusted key is required");
    if (!refused->oom)
        return 0;
    fy_signature_release(out);
    return fy_nomem(e);
}

/* --- signing ---------------------------------------------------------------------------------- */

static int remove_file(const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_format(e, "%s/%s", dir, name);
    int rc = path == NULL ? -1
             : unlink(path) == 0 || errno == ENOENT
                 ? 0
                 : fy_fail_errno(e, "%s: cannot remove the old one", path);
    free(path);
    return rc;
}

static int write_file(const char *dir, const char *name, const void *p, size_t n, fy_err *e)
{
    char *path = fy_path_format(e, "%s/%s", dir, name);
    int rc = path != NULL ? fy_file_write(path, p, n, e) : -1;
    free(path);
    return rc;
}

/* Both old files are removed first: if we are stopped, the workspace is not signed, but its
 * signature is never wrong. */
static int write_signature(const char *dir, const uint8_t sig[FY_MANIFEST_SIG_BYTES],
                           const uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e)
{
    char text[FY_PUBLIC_KEY_TEXT_BYTES + 1];
    fy_public_key_text(key, text);
    if (remove_file(dir, FY_MANIFEST_KEY, e) != 0 || remove_file(dir, FY_MANIFEST_SIG, e) != 0 ||
        write_file(dir, FY_MANIFEST_SIG, sig, FY_MANIFEST_SIG_BYTES, e) != 0)
        return -1;
    if (write_file(dir, FY_MANIFEST_KEY, text, FY_PUBLIC_KEY_TEXT_BYTES, e) != 0) {
        remove_file(dir, FY_MANIFEST_SIG, NULL);
        return -1;
    }
    return 0;
}

int fy_sign(const char *dir, const char *key_path, fy_ask_passphrase *ask, void *user,
            char fingerprint[FY_FINGERPRINT_BYTES], fy_err *e)
{
    fy_manifest m;
    fy_map text;
    uint8_t sig[FY_MANIFEST_SIG_BYTES], key[FY_PUBLIC_KEY_BYTES];
    if (fy_manifest_read(dir, &m, e) != 0)
        return -1;
    fy_manifest_release(&m);
    if (fy_map_open_in(&text, dir, FY_MANIFEST_NAME, e) != 0)
        return -1;
    int rc = fy_keys_sign(key_path, ask, user, text.data, text.size, sig, key, e);
    fy_map_close(&text);
    if (rc == 0)
        rc = write_signature(dir, sig, key, e);
    return rc == 0 ? fy_public_key_fingerprint(key, fingerprint, e) : rc;
}
