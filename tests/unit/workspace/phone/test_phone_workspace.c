/* Files of a phone that lists one size and sends another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/unit/workspace/fake_adb.h"
#include "workspace/phone/phone_workspace.h"

#define FILES(answer) \
    (fake_adb_of(answer, sizeof(answer) - 1))

static fake_adb *fake_adb_of(const char *answer, size_t n)
{
    fake_adb *f = fake(NULL);
    f->sync = answer;
    f->n_sync = n;
    return f;
}

static char out_path[] = "/tmp/ferry-fetch-XXXXXX";

static int set_up(void **state)
{
    strcpy(out_path + sizeof out_path - 7, "XXXXXX");
    int fd = mkstemp(out_path);
    close(fd);
    unlink(out_path);
    return fresh(state);
}

static int fetch(uint64_t listed, uint64_t *bytes, fy_err *e)
{
    fy_adb *a = opened();
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    fy_out *out = fy_out_open(out_path, 0, e);
    fy_adb_stat st = {.mode = S_IFREG | 0644, .size = listed};
    int rc = fy_phone_fetch(s, "/x", &st, out, NULL, bytes, e);
    fy_out_abort(out);
    fy_adb_sync_close(s);
    fy_adb_close(a);
    return rc;
}

static void a_file_may_grow_a_little(void **state)
{
    (void)state;
    fake_adb *f = FILES("DATA\3\0\0\0abcDONE\0\0\0\0");
    uint64_t bytes = 0;
    fy_err e = {0};
    assert_int_equal(fetch(0, &bytes, &e), 0);
    assert_int_equal(bytes, 3);
    fake_stop(f);
}

static void a_phone_that_never_ends_a_file_is_stopped(void **state)
{
    (void)state;
    enum { PART = 64 * 1024, PARTS = FY_PHONE_GROWTH / PART + 1 };
    size_t n = (size_t)PARTS * (8 + PART);
    char *all = calloc(n, 1);
    for (size_t i = 0; i < PARTS; i++)
        memcpy(all + i * (8 + PART), "DATA\0\0\1\0", 8);
    fake_adb *f = fake_adb_of(all, n);
    uint64_t bytes = 0;
    fy_err e = {0};
    assert_int_equal(fetch(5, &bytes, &e), -1);
    says(&e, FY_EDEVICE, "reading /x: the phone sends more bytes than it listed");
    fake_stop(f);
    free(all);
}

static void what_the_disk_has_no_room_for_is_not_begun(void **state)
{
    (void)state;
    fake_adb *f = FILES("DATA\3\0\0\0abcDONE\0\0\0\0");
    fy_err e = {0};
    assert_int_equal(fetch(UINT64_MAX, NULL, &e), -1);
    says(&e, FY_ENOSPACE, "the disk has");
    fake_stop(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        T(a_file_may_grow_a_little),
        T(a_phone_that_never_ends_a_file_is_stopped),
        T(what_the_disk_has_no_room_for_is_not_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
