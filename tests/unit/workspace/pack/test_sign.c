#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/log.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/pack/sign.h"

/* A workspace, a key pair tmp/me.*, and a list of trusted keys that is empty. */
static int set_up(void **state)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (tmp_make(state) != 0)
        return -1;
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    ws_make("ws", &(tiny_model){.name = "tiny"});
    return fy_keygen(at("me"), fingerprint, &e);
}

static void sign_as(const char *key)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (fy_sign(at("ws"), key, NULL, NULL, fingerprint, &e) != 0)
        fail_msg("%s", e.msg);
}

static void signing_fails(const char *key, fy_ask_passphrase *ask, const char *says)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    assert_int_equal(fy_sign(at("ws"), key, ask, NULL, fingerprint, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_says(&e, says);
    assert_false(fy_file_exists(at("ws/manifest.sig")));
}

static void copy(const char *from, const char *to)
{
    size_t n;
    char *p = get_file(from, &n);
    put_file(to, p, n);
    free(p);
}

static void trust(const char *key, const char *name)
{
    char path[64];
    fy_err e = {0};
    assert_int_equal(fy_mkdirs(at("config/ferry/trusted"), &e), 0);
    snprintf(path, sizeof path, "config/ferry/trusted/%s", name);
    copy(key, at(path));
}

static void state_is(const char *key, fy_sig_state state, const char *says)
{
    fy_err e = {0};
    fy_signature s;
    fy_str words = {0};
    if (fy_signature_read(at("ws"), key, &s, &e) != 0)
        fail_msg("%s", e.msg);
    fy_signature_text(&s, "ws", &words);
    if (s.state != state || strstr(fy_str_z(&words), says) == NULL)
        fail_msg("expected %s: %s; got %s: %s", fy_sig_state_name(state), says,
                 fy_sig_state_name(s.state), fy_str_z(&words));
    fy_str_release(&words);
    fy_signature_release(&s);
}

static void a_new_key_is_its_owners_alone_and_never_replaces_one(void **state)
{
    (void)state;
    struct stat st;
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    size_t n;
    assert_int_equal(stat(at("me.pem"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    char *before = get_file(at("me.pem"), &n);
    assert_int_equal(fy_keygen(at("me"), fingerprint, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_says(&e, "me.pem: exists; a key is never written over another");
    char *after = get_file(at("me.pem"), &n);
    assert_string_equal(before, after);
    free(before);
    free(after);
    e = (fy_err){0};
    put_text(at("you.pub.pem"), "x");
    assert_int_equal(fy_keygen(at("you"), fingerprint, &e), -1);
    assert_says(&e, "you.pub.pem: exists");
    assert_false(fy_file_exists(at("you.pem")));
    e = (fy_err){0};
    put_text(at("left.pem.part"), "of a killed run");
    assert_int_equal(fy_keygen(at("left"), fingerprint, &e), 0);
    assert_false(fy_file_exists(at("left.pem.part")));
    assert_int_equal(fy_keygen(at("no/such/key"), fingerprint, &e), -1);
    assert_int_equal(e.code, FY_EIO);
}

static void a_signature_is_64_bytes_that_fit_the_manifest_and_nothing_else(void **state)
{
    (void)state;
    size_t n, n_text;
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    fy_err e = {0};
    state_is(NULL, FY_SIG_NONE, "not signed");
    sign_as(at("me.pem"));
    char *sig = get_file(at("ws/manifest.sig"), &n);
    char *text = get_file(at("ws/manifest.json"), &n_text);
    assert_int_equal(n, 64);
    assert_int_equal(fy_keys_read_public(at("me.pub.pem"), key, &e), 0);
    bool fits = false;
    fy_span all = {text, n_text};
    assert_int_equal(fy_public_key_verify(key, all, (uint8_t *)sig, &fits, &e), 0);
    assert_true(fits);
    for (size_t i = 0; i < n_text; i += 13) {
        text[i] ^= 4;
        assert_int_equal(fy_public_key_verify(key, all, (uint8_t *)sig, &fits, &e), 0);
        assert_false(fits);
        text[i] ^= 4;
    }
    free(sig);
    free(text);
}

static void the_state_of_a_signature_is_one_of_four(void **state)
{
    (void)state;
    fy_err e = {0};
    char other[FY_FINGERPRINT_BYTES];
    sign_as(at("me.pem"));
    state_is(NULL, FY_SIG_UNKNOWN, "signed by an unknown key (SHA256:");
    state_is(NULL, FY_SIG_UNKNOWN, "config/ferry/trusted/NAME.pem");
    state_is(at("me.pub.pem"), FY_SIG_TRUSTED, "me.pub.pem");
    assert_int_equal(fy_keygen(at("other"), other, &e), 0);
    state_is(at("other.pub.pem"), FY_SIG_WRONG, "is not the signature of this manifest.json by");
    trust(at("other.pub.pem"), "other.pem");
    state_is(NULL, FY_SIG_UNKNOWN, "unknown");
    trust(at("me.pub.pem"), "build server.pub.pem");
    state_is(NULL, FY_SIG_TRUSTED, "signed by a trusted key, build server (SHA256:");
    sign_as(at("other.pem")); /* replaces it */
    state_is(NULL, FY_SIG_TRUSTED, "trusted key, other (SHA256:");
}

static void a_signature_without_its_key_needs_a_trusted_one(void **state)
{
    (void)state;
    sign_as(at("me.pem"));
    assert_int_equal(unlink(at("ws/manifest.pub.pem")), 0);
    state_is(NULL, FY_SIG_WRONG, "fits no trusted key, and manifest.pub.pem");
    trust(at("me.pub.pem"), "me.pem");
    state_is(NULL, FY_SIG_TRUSTED, "trusted key, me");
    put_text(at("config/ferry/trusted/broken.pem"), "no key"); /* a warning, and left out */
    put_text(at("config/ferry/trusted/notes.txt"), "no key");
    assert_int_equal(mkdir(at("config/ferry/trusted/dir.pem"), 0755), 0);
    state_is(NULL, FY_SIG_TRUSTED, "trusted key, me");
}

static void every_changed_bit_is_a_wrong_signature(void **state)
{
    (void)state;
    static const char *const files[] = {"ws/manifest.sig", "ws/manifest.pub.pem"};
    sign_as(at("me.pem"));
    trust(at("me.pub.pem"), "me.pem");
    for (size_t f = 0; f < 2; f++) {
        size_t n;
        char *text = get_file(at(files[f]), &n);
        for (size_t bit = 0; bit < 8 * n; bit += f == 0 ? 5 : 1) {
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
            put_file(at(files[f]), text, n);
            state_is(NULL, FY_SIG_WRONG, "WRONG signature: manifest.");
            text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        }
        put_file(at(files[f]), text, n - 1);
        state_is(NULL, FY_SIG_WRONG, "manifest.");
        put_file(at(files[f]), "", 0);
        state_is(NULL, FY_SIG_WRONG, "manifest.");
        put_file(at(files[f]), text, n + 1); /* the NUL after it */
        state_is(NULL, FY_SIG_WRONG, "manifest.");
        put_file(at(files[f]), text, n);
        free(text);
    }
    state_is(NULL, FY_SIG_TRUSTED, "me");
    assert_int_equal(unlink(at("ws/manifest.sig")), 0);
    state_is(NULL, FY_SIG_WRONG, "manifest.pub.pem is there without manifest.sig");
}

static void put_pem(const char *path, EVP_PKEY *pkey, const char *passphrase)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fchmod(fileno(f), 0600);
    assert_int_equal(PEM_write_PKCS8PrivateKey(
                         f, pkey, passphrase != NULL ? EVP_aes_128_cbc() : NULL, passphrase,
                         passphrase != NULL ? (int)strlen(passphrase) : 0, NULL, NULL),
                     1);
    fclose(f);
}

static int say_secret(void *user, const char *path, char *out, int size)
{
    (void)user, (void)path;
    assert_true(size >= 6);
    memcpy(out, "secret", 6);
    return 6;
}

static int say_nonsense(void *user, const char *path, char *out, int size)
{
    (void)user, (void)path, (void)size;
    memcpy(out, "nonsense", 8);
    return 8;
}

static void a_passphrase_is_asked_for_or_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    put_pem(at("locked.pem"), pkey, "secret");
    EVP_PKEY_free(pkey);
    signing_fails(at("locked.pem"), NULL, "asked for on a terminal only");
    signing_fails(at("locked.pem"), say_nonsense, "the passphrase does not open it");
    assert_int_equal(fy_sign(at("ws"), at("locked.pem"), say_secret, NULL, fingerprint, &e), 0);
    state_is(NULL, FY_SIG_UNKNOWN, fingerprint);
}

static void what_is_no_ed25519_key_is_called_by_its_name(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_signature s;
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    put_pem(at("p256.pem"), pkey, NULL);
    EVP_PKEY_free(pkey);
    signing_fails(at("p256.pem"), NULL, "is a key for EC, expected an Ed25519 key");
    signing_fails(at("me.pub.pem"), NULL, "is a public key");
    put_text(at("text.pem"), "hello");
    signing_fails(at("text.pem"), NULL, "holds no private key in PEM form");
    signing_fails(tmp, NULL, "is a directory");
    sign_as(at("me.pem"));
    assert_int_equal(fy_signature_read(at("ws"), at("me.pem"), &s, &e), -1);
    assert_says(&e, "is a private key, expected the public one");
    e = (fy_err){0};
    assert_int_equal(fy_signature_read(at("ws"), at("text.pem"), &s, &e), -1);
    assert_says(&e, "holds no public key in PEM form");
    e = (fy_err){0};
    assert_int_equal(fy_signature_read(at("ws"), at("none.pem"), &s, &e), -1);
    assert_int_equal(e.code, FY_EIO);
}

static char heard[256];

static void hear(void *user, fy_log_level level, const char *text)
{
    (void)user, (void)level;
    snprintf(heard, sizeof heard, "%s", text);
}

static void a_private_key_that_others_may_read_is_warned_of(void **state)
{
    (void)state;
    assert_int_equal(chmod(at("me.pem"), 0640), 0);
    fy_log_set(hear, NULL);
    sign_as(at("me.pem"));
    fy_log_set(NULL, NULL);
    assert_non_null(strstr(heard, "others may read this private key (mode 0640)"));
}

static void verify_reports_the_signature(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_verify_report r;
    assert_int_equal(fy_verify(at("ws"), &(fy_trust){.require = true}, 1, NULL, &r, &e), 0);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.finding[0].path, "manifest.sig");
    assert_string_equal(r.finding[0].text, "not signed; a signature by a trusted key is required");
    fy_verify_report_release(&r);
    sign_as(at("me.pem"));
    assert_int_equal(
        fy_verify(at("ws"), &(fy_trust){.key_path = at("me.pub.pem")}, 1, NULL, &r, &e), 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.signature.state, FY_SIG_TRUSTED);
    fy_verify_report_release(&r);
    flip_byte(at("ws/manifest.sig"), 5);
    assert_int_equal(fy_verify(at("ws"), NULL, 1, NULL, &r, &e), 0);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.finding[0].path, "manifest.sig");
    assert_non_null(strstr(r.finding[0].text, "WRONG signature"));
    fy_verify_report_release(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tmp_remove)
static void unpacking_can_ask_for_a_trusted_signature(void **state)
{
    (void)state;
    char key[256], other[256]; /* at() forgets early ones */
    snprintf(key, sizeof key, "%s", at("me.pub.pem"));
    snprintf(other, sizeof other, "%s", at("other.pub.pem"));
    const struct {
        bool sign, listed;
        fy_trust trust;
        const char *says; /* NULL: it is unpacked */
    } cases[] = {
        {false, false, {0}, NULL},
        {false, true, {.require = true}, "not signed; expected a signature by a trusted key"},
        {false, true, {.key_path = key}, "not signed"},
        {true, false, {0}, NULL},
        {true, false, {.require = true}, "signed by an unknown key (SHA256:"},
        {true, false, {.key_path = key}, NULL},
        {true, true, {.require = true}, NULL},
        {true, true, {.key_path = other}, "is not the signature of this manifest.json by the key"},
    };
    char fingerprint[FY_FINGERPRINT_BYTES];
    fy_err e = {0};
    assert_int_equal(fy_keygen(at("other"), fingerprint, &e), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char dir[16];
        snprintf(dir, sizeof dir, "out%zu", i);
        e = (fy_err){0};
        if (cases[i].sign)
            sign_as(at("me.pem"));
        if (cases[i].listed)
            trust(key, "me.pem");
        assert_int_equal(fy_pack(at("ws"), at("a.tar"), &(fy_pack_params){0}, NULL, &e), 0);
        int rc = fy_unpack(at("a.tar"), at(dir), &cases[i].trust, NULL, NULL, &e);
        assert_int_equal(rc, cases[i].says == NULL ? 0 : -1);
        assert_int_equal(fy_file_exists(at(dir)), rc == 0);
        if (rc != 0) {
            assert_int_equal(e.code, FY_EVERIFY);
            assert_says(&e, cases[i].says);
        }
        unlink(at("config/ferry/trusted/me.pem"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_key_is_its_owners_alone_and_never_replaces_one),
        TEST(a_signature_is_64_bytes_that_fit_the_manifest_and_nothing_else),
        TEST(the_state_of_a_signature_is_one_of_four),
        TEST(a_signature_without_its_key_needs_a_trusted_one),
        TEST(every_changed_bit_is_a_wrong_signature),
        TEST(a_passphrase_is_asked_for_or_refused),
        TEST(what_is_no_ed25519_key_is_called_by_its_name),
        TEST(a_private_key_that_others_may_read_is_warned_of),
        TEST(verify_reports_the_signature),
        TEST(unpacking_can_ask_for_a_trusted_signature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
