#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>

#include "tests/unit/workspace/fake_adb.h"

/* --- choosing a phone ------------------------------------------------------------------------- */

static void the_only_phone_is_taken(void **state)
{
    (void)state;
    fake_adb *f = fake(NULL);
    fy_adb *a = opened();
    assert_string_equal(fy_adb_serial(a), "A");
    assert_true(fy_adb_has(a, "cmd"));
    assert_false(fy_adb_has(a, "ls_v2"));
    fy_adb_close(a);
    fake_stop(f);
}

static void refuses(const char *devices, const char *serial, const char *text)
{
    char reply[2048];
    snprintf(reply, sizeof reply, "OKAY%04zx%s", strlen(devices), devices);
    const fake_rule rules[] = {{"host:devices-l", reply, strlen(reply)}, {NULL, NULL, 0}};
    fy_err e = {0};
    fake_adb *f = fake(rules);
    assert_null(fy_adb_open(serial, &e));
    says(&e, FY_EDEVICE, text);
    fake_stop(f);
}

static void each_state_has_its_remedy(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"A unauthorized transport_id:1\n", "accept 'Allow USB debugging?'"},
        {"A offline transport_id:1\n", "plug it in again, or 'adb reconnect offline'"},
        {"A recovery product:x\n", "in recovery, not in Android; choose 'Reboot system now'"},
        {"A rescue\n", "'adb reboot'"},
        {"A sideload\n", "in sideload mode"},
        {"A bootloader\n", "'fastboot reboot'"},
        {"A detached\n", "'adb attach'"},
        {"A no permissions (user in plugdev group; are your udev rules wrong?); see "
         "[http://developer.android.com/tools/device.html] usb:1-2\n",
         "install udev rules"},
        {"A something\x1b[1m new\n",
         "phone A: adb says 'something\\x1b[1m new', expected 'device'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refuses(rows[i][0], NULL, rows[i][1]);
}

static void several_phones_are_listed(void **state)
{
    (void)state;
    refuses("", NULL, "no phone is connected: switch on USB debugging");
    refuses("A device model:Pixel_8\nB offline\n", NULL,
            "2 phones are connected: A (Pixel_8), B (offline); choose one with -s SERIAL or "
            "ANDROID_SERIAL");
    refuses("A device model:Pixel_8\nB offline\n", "C",
            "no phone has the serial C; connected: A (Pixel_8), B (offline)");
    refuses("A device\nB offline\n", "B", "phone B: offline");
    setenv("ANDROID_SERIAL", "D", 1);
    refuses("A device\n", NULL, "ANDROID_SERIAL: no phone has the serial D");
    refuses("A device\n", "C", "no phone has the serial C");
    unsetenv("ANDROID_SERIAL");
    char many[2000] = "";
    for (size_t i = 0; i < 60; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "phone-%zu device\n", i);
    refuses(many, NULL, "more; choose one with -s SERIAL");
}

static void a_phone_without_shell_v2_is_refused(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("host-serial:A:features", "OKAY0003cmd"),
                                      {NULL, NULL, 0}};
    fy_err e = {0};
    fake_adb *f = fake(rules);
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EDEVICE, "phone A: no shell v2: its adb daemon would lose the exit status");
    fake_stop(f);
}

static void a_phone_that_leaves_is_named(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("host:transport:A", "FAIL0014device 'A' not found"),
                                      {NULL, NULL, 0}};
    fy_err e = {0};
    int status;
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    assert_int_equal(fy_adb_shell(a, "ls", NULL, NULL, &status, &e), -1);
    says(&e, FY_EDEVICE, "phone A: running 'ls': not connected; 'adb devices' lists");
    fy_adb_close(a);
    fake_stop(f);
}

/* --- the server ------------------------------------------------------------------------------- */

static void without_adb_the_message_says_how_to_get_it(void **state)
{
    (void)state;
    fy_err e = {0};
    setenv("ANDROID_ADB_SERVER_PORT", "1", 1); /* nobody listens there */
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EDEVICE, "no adb: nothing listens on 127.0.0.1:1");
    says(&e, FY_EDEVICE, "apt install adb");
}

/* A directory with an `adb` that is this script. */
static void script(char dir[64], const char *sub, const char *text)
{
    char path[160];
    strcpy(dir, "/tmp/fake_adb_XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s%s", dir, sub);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s%s/adb", dir, sub);
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\n%s\n", text);
    fclose(f);
    chmod(path, 0755);
}

static void forget(const char *dir, const char *sub)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s/adb", dir, sub);
    unlink(path);
    snprintf(path, sizeof path, "%s%s", dir, sub);
    rmdir(path);
    rmdir(dir);
}

static void an_adb_that_cannot_start_its_server_is_quoted(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"echo '* daemon not running'; echo cannot bind >&2; exit 1",
         "/platform-tools/adb start-server': it failed: cannot bind; run it by hand"},
        {"[ \"$1\" = start-server ]", "ended well, but nothing listens on 127.0.0.1:1"},
    };
    char path[128];
    setenv("ANDROID_ADB_SERVER_PORT", "1", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char home[64];
        fy_err e = {0};
        script(home, "/platform-tools", rows[i][0]);
        setenv("ANDROID_HOME", home, 1);
        assert_null(fy_adb_open(NULL, &e));
        says(&e, FY_EDEVICE, rows[i][1]);
        forget(home, "/platform-tools");
    }
    char dir[64];
    fy_err e = {0};
    script(dir, "/bin", "exec /bin/sleep 60");
    snprintf(path, sizeof path, "/nowhere:%s/bin:", dir);
    setenv("PATH", path, 1);
    setenv("FERRY_ADB_TIMEOUT", "0.3", 1);
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EDEVICE, "start-server': it did not end within 0.3 s");
    forget(dir, "/bin");
}

static void a_server_that_never_answers_is_given_up(void **state)
{
    (void)state;
    fy_err e = {0};
    fake_adb *f = fake(NULL);
    f->silent = true;
    setenv("FERRY_ADB_TIMEOUT", "0.3", 1);
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EDEVICE, "no answer for 0.3 s");
    fake_stop(f);
}

static void what_is_no_adb_server_is_told(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("host:devices-l", "HTTP/1.1 400 Bad Request\r\n"),
                                      {NULL, NULL, 0}};
    fy_err e = {0};
    fake_adb *f = fake(rules);
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EDEVICE, "the answer is 'HTTP', expected OKAY or FAIL");
    fake_stop(f);
}

static void the_environment_says_where_the_server_is(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *says;
    } rows[] = {
        {"ADB_SERVER_SOCKET", "localabstract:x", "expected tcp:PORT or tcp:HOST:PORT"},
        {"ADB_SERVER_SOCKET", "tcp:", "which holds no port"},
        {"ADB_SERVER_SOCKET", "tcp:127.0.0.1:70000", "which holds no port"},
        {"ANDROID_ADB_SERVER_PORT", "99999", "which holds no port: 1 to 65535"},
        {"ANDROID_ADB_SERVER_PORT", "5037x", "ANDROID_ADB_SERVER_PORT is '5037x'"},
        {"FERRY_ADB_TIMEOUT", "soon", "expected seconds"},
        {"FERRY_ADB_TIMEOUT", "-1", "expected seconds"},
    };
    fy_adb_device *d;
    size_t n;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_err e = {0};
        setenv(rows[i].variable, rows[i].value, 1);
        assert_int_equal(fy_adb_devices(&d, &n, &e), -1);
        says(&e, FY_EARG, rows[i].says);
        fresh(NULL);
        unsetenv("ANDROID_ADB_SERVER_PORT");
    }
    static const char *const hosts[] = {"", "localhost:", "127.0.0.1:"};
    fake_adb *f = fake(NULL);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char spec[64];
        fy_err e = {0};
        snprintf(spec, sizeof spec, "tcp:%s%s", hosts[i], getenv("ANDROID_ADB_SERVER_PORT"));
        setenv("ADB_SERVER_SOCKET", spec, 1);
        if (fy_adb_devices(&d, &n, &e) != 0)
            fail_msg("%s: %s", spec, e.msg);
        fy_adb_devices_free(d, n);
    }
    unsetenv("ADB_SERVER_SOCKET");
    setenv("ANDROID_ADB_SERVER_ADDRESS", "localhost", 1);
    assert_int_equal(fy_adb_devices(&d, &n, NULL), 0);
    fy_adb_devices_free(d, n);
    fake_stop(f);
}

static void an_interrupt_ends_every_wait(void **state)
{
    (void)state;
    fy_err e = {0};
    fake_adb *f = fake(NULL);
    f->silent = true;
    fy_interrupted = 1;
    assert_null(fy_adb_open(NULL, &e));
    says(&e, FY_EINTR, "interrupted");
    fake_stop(f);
}

/* --- ports ------------------------------------------------------------------------------------ */

static void ports_are_forwarded(void **state)
{
    (void)state;
    static const fake_rule rules[] = {
        RULE("host-serial:A:forward:tcp:0;tcp:80", "OKAYOKAY000545678"),
        RULE("host-serial:A:forward:tcp:8080;tcp:80", "OKAYOKAY"),
        RULE("host-serial:A:forward:tcp:0;tcp:81", "OKAYOKAY0006456789"),
        RULE("host-serial:A:forward:tcp:82;tcp:1", "FAIL0013cannot bind to port"),
        RULE("host-serial:A:killforward:tcp:8080", "OKAYOKAY"),
        RULE("host-serial:A:killforward:tcp:1", "FAIL001alistener 'tcp:1' not found"),
        {NULL, NULL, 0}};
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    uint16_t bound = 0;
    fy_err e = {0};
    assert_int_equal(fy_adb_forward(a, 0, 80, &bound, NULL), 0);
    assert_int_equal(bound, 45678);
    assert_int_equal(fy_adb_forward(a, 8080, 80, &bound, NULL), 0);
    assert_int_equal(bound, 8080);
    assert_int_equal(fy_adb_forward(a, 0, 81, &bound, &e), -1);
    says(&e, FY_EDEVICE, "names no port");
    e = (fy_err){0};
    assert_int_equal(fy_adb_forward(a, 82, 1, &bound, &e), -1);
    says(&e, FY_EDEVICE, "forwarding port 82 of this machine to port 1 of the phone");
    says(&e, FY_EDEVICE, "cannot bind to port");
    assert_int_equal(fy_adb_forward_remove(a, 8080, NULL), 0);
    e = (fy_err){0};
    assert_int_equal(fy_adb_forward_remove(a, 1, &e), -1);
    says(&e, FY_EDEVICE, "forwarded port 1: the adb server says 'listener 'tcp:1' not found'");
    fy_adb_close(a);
    fake_stop(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define TEST(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        TEST(the_only_phone_is_taken),
        TEST(each_state_has_its_remedy),
        TEST(several_phones_are_listed),
        TEST(a_phone_without_shell_v2_is_refused),
        TEST(a_phone_that_leaves_is_named),
        TEST(without_adb_the_message_says_how_to_get_it),
        TEST(an_adb_that_cannot_start_its_server_is_quoted),
        TEST(a_server_that_never_answers_is_given_up),
        TEST(what_is_no_adb_server_is_told),
        TEST(the_environment_says_where_the_server_is),
        TEST(an_interrupt_ends_every_wait),
        TEST(ports_are_forwarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
