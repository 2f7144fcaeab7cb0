/* What a push does before anything leaves this machine: a workspace that it refuses reaches no
 * service of the phone, neither exec nor shell nor sync. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>

#include "base/err.h"
#include "base/process.h"
#include "base/str.h"
#include "tests/unit/workspace/fake_adb.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/phone/push.h"

/* A workspace, the key pairs tmp/me.* and tmp/other.*, and a list of trusted keys that is empty. */
static int set_up(void **state)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (tmp_make(state) != 0 || fresh(state) != 0)
        return -1;
    setenv("PATH", "/usr/bin:/bin", 1); /* tmp_remove runs commands */
    setenv("XDG_CONFIG_HOME", at("config"), 1);
    ws_make("ws", &(tiny_model){.type = FY_F16});
    return fy_keygen(at("me"), fingerprint, &e) == 0 ? fy_keygen(at("other"), fingerprint, &e) : -1;
}

static void sign_as(const char *key)
{
    fy_err e = {0};
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (fy_sign(at("ws"), at(key), NULL, NULL, fingerprint, &e) != 0)
        fail_msg("%s", e.msg);
}

static int push(const char *key, bool require, bool no_helper, fy_err *e)
{
    fy_push_result r;
    fy_push_params p = {.dir = at("ws"),
                        .trust = {key != NULL ? at(key) : NULL, require},
                        .no_helper = no_helper,
                        .n_threads = 1};
    return fy_push(&p, NULL, &r, e);
}

/* Refused, whichever way it would go, before a service of the phone was asked for. */
static void refused(const char *key, bool require, const char *because)
{
    for (int no_helper = 0; no_helper < 2; no_helper++) {
        fake_adb *f = fake(NULL);
        fy_err e = {0};
        assert_int_equal(push(key, require, no_helper, &e), -1);
        says(&e, FY_EVERIFY, because);
        fake_stop(f);
        if (f->n_services != 0)
            fail_msg("'%s' was asked for", f->last_service);
        assert_int_equal(f->heard.len, 0);
    }
}

static void what_is_not_signed_is_not_sent(void **state)
{
    (void)state;
    refused(NULL, true, "manifest.sig: not signed");
    refused("me.pub.pem", false, "manifest.sig: not signed");
}

static void another_signer_sends_nothing(void **state)
{
    (void)state;
    sign_as("me.pem");
    refused("other.pub.pem", false, "manifest.sig: WRONG signature");
    refused(NULL, true, "manifest.sig: signed by an unknown key");
}

static void a_wrong_signature_sends_nothing_whatever_the_options(void **state)
{
    (void)state;
    sign_as("me.pem");
    flip_byte(at("ws/" FY_MANIFEST_SIG), 5);
    refused(NULL, false, "manifest.sig: WRONG signature");
    refused("me.pub.pem", false, "manifest.sig: WRONG signature");
    unlink(at("ws/" FY_MANIFEST_SIG));
    refused(NULL, false, "is there without manifest.sig");
}

static void a_helper_that_is_not_the_listed_one_is_not_sent(void **state)
{
    (void)state;
    sign_as("me.pem");
    flip_byte(at("ws/bin/ferry"), -1);
    refused("me.pub.pem", true, "bin/ferry: changed");
    assert_int_equal(truncate(at("ws/bin/ferry"), 20), 0);
    refused(NULL, false, "bin/ferry");
}

static void a_helper_for_another_machine_is_not_sent(void **state)
{
    (void)state;
    elf_write(at("x86"), 62);
    ws_replace_with("ws", "bin/ferry", at("x86"));
    sign_as("me.pem");
    refused("me.pub.pem", true, "bin/ferry: is built for x86-64");
    ws_replace("ws", "bin/ferry", "#!/system/bin/sh\nid\n", 20);
    sign_as("me.pem");
    refused("me.pub.pem", true, "bin/ferry: ");
}

/* Otherwise the cases above would show nothing. */
static void what_is_accepted_reaches_the_phone(void **state)
{
    (void)state;
    fake_adb *f = fake(NULL);
    fy_err e = {0};
    sign_as("me.pem");
    assert_int_equal(push("me.pub.pem", true, false, &e), -1);
    assert_int_equal(e.code, FY_EDEVICE);
    fake_stop(f);
    assert_true(f->n_services > 0);
    assert_non_null(memmem(f->heard.ptr, f->heard.len, "STA2", 4));
}

/* --- between the check and the use ------------------------------------------------------------ */

static void bytes_that_change_after_the_check_do_not_leave(void **state)
{
    (void)state;
    fy_push_source s;
    fy_err e = {0};
    assert_int_equal(fy_push_source_open(&s, at("ws"), &e), 0);
    fy_push_units u = {.source = &s, .fd = -1};
    size_t file = (size_t)(fy_manifest_find(&s.m, "bin/ferry") - s.m.entry);
    assert_int_equal(fy_push_unit_read(&u, file, 0, &e), 0);
    flip_byte(at("ws/bin/ferry"), -1);
    assert_int_equal(fy_push_unit_read(&u, file, 0, &e), -1);
    says(&e, FY_EVERIFY, "bin/ferry: changed");
    fy_push_units_release(&u);
    fy_push_source_release(&s);
}

static void a_manifest_that_is_swapped_is_not_read_again(void **state)
{
    (void)state;
    fy_push_source s;
    fy_err e = {0};
    fy_signature sig;
    fy_str why = {0};
    fy_trust trust = {.key_path = at("me.pub.pem")};
    sign_as("me.pem");
    assert_int_equal(fy_push_source_open(&s, at("ws"), &e), 0);
    size_t n = s.seal.manifest.len;
    flip_byte(at("ws/" FY_MANIFEST_NAME), 3);
    assert_int_equal(truncate(at("ws/" FY_MANIFEST_SIG), 0), 0);
    assert_int_equal(fy_trust_check(&trust, &s.seal, "ws", &sig, &why, &e), 0);
    assert_int_equal(sig.state, FY_SIG_TRUSTED);
    assert_int_equal(s.text.len, n + s.seal.sig.len + s.seal.key.len);
    fy_signature_release(&sig);
    fy_str_release(&why);
    fy_push_source_release(&s);
}

/* --- Ctrl-C ----------------------------------------------------------------------------------- */

static void *interrupt_soon(void *arg)
{
    (void)arg;
    usleep(150000);
    fy_interrupted = 1;
    return NULL;
}

static void an_interrupt_is_heard_while_the_phone_is_silent(void **state)
{
    (void)state;
    static const char *const silent[] = {"host:devices-l", "sync:", NULL};
    static const fake_rule rules[2][2] = {{{"host:devices-l", "", 0}}, {{"sync:", "", 0}}};
    for (int i = 0; silent[i] != NULL; i++) {
        fake_adb *f = fake(rules[i]);
        pthread_t t;
        fy_err e = {0};
        fy_interrupted = 0;
        setenv("FERRY_ADB_TIMEOUT", "3000", 1); /* else it waits for that */
        pthread_create(&t, NULL, interrupt_soon, NULL);
        assert_int_equal(push(NULL, false, false, &e), -1);
        pthread_join(t, NULL);
        unsetenv("FERRY_ADB_TIMEOUT");
        assert_int_equal(e.code, FY_EINTR);
        fy_interrupted = 0;
        fake_stop(f);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tmp_remove)
    const struct CMUnitTest tests[] = {
        T(what_is_not_signed_is_not_sent),
        T(another_signer_sends_nothing),
        T(a_wrong_signature_sends_nothing_whatever_the_options),
        T(a_helper_that_is_not_the_listed_one_is_not_sent),
        T(a_helper_for_another_machine_is_not_sent),
        T(what_is_accepted_reaches_the_phone),
        T(bytes_that_change_after_the_check_do_not_leave),
        T(a_manifest_that_is_swapped_is_not_read_again),
        T(an_interrupt_is_heard_while_the_phone_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
