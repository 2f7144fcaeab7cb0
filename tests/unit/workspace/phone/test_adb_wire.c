#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "workspace/phone/adb_wire.h"

typedef struct {
    fy_adb_source source;
    const char *p;
    size_t left;
} memory;

static int memory_read(fy_adb_source *s, void *p, size_t n, fy_err *e)
{
    memory *m = (memory *)(void *)s;
    if (n > m->left)
        return fy_fail(e, FY_EDEVICE, "connection lost");
    memcpy(p, m->p, n);
    m->p += n;
    m->left -= n;
    return 0;
}

#define MEMORY(literal) ((memory){{memory_read}, literal, sizeof(literal) - 1})

static void assert_says(const fy_err *e, const char *text)
{
    if (strstr(e->msg, text) == NULL)
        fail_msg("'%s' does not say '%s'", e->msg, text);
    assert_int_equal(e->code, FY_EDEVICE);
}

static void the_list_of_devices_is_taken_apart(void **state)
{
    (void)state;
    static const char text[] =
        "R58M123A               device usb:1-1 product:pxx model:M_1 device:dxx transport_id:1\n"
        "127.0.0.1:5555         unauthorized transport_id:2\n"
        "\n"
        "(no serial number)     no permissions (user in plugdev group; are your udev rules "
        "wrong?); "
        "see [http://developer.android.com/tools/device.html] usb:1-2 transport_id:3\n"
        "0123456789abcdef0123456789 device product: model:X\n"
        "last\trecovery";
    static const char *const want[][5] = {
        {"R58M123A", "device", "pxx", "M_1", "dxx"},
        {"127.0.0.1:5555", "unauthorized", "", "", ""},
        {"(no serial number)",
         "no permissions (user in plugdev group; are your udev rules wrong?); see "
         "[http://developer.android.com/tools/device.html]",
         "", "", ""},
        {"0123456789abcdef0123456789", "device", "", "X", ""},
        {"last", "recovery", "", "", ""},
    };
    fy_adb_device *d = NULL;
    size_t n = 0;
    assert_int_equal(fy_adb_parse_devices(FY_SPAN(text), &d, &n, NULL), 0);
    assert_int_equal(n, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(d[i].serial, want[i][0]);
        assert_string_equal(d[i].state, want[i][1]);
        assert_string_equal(d[i].product, want[i][2]);
        assert_string_equal(d[i].model, want[i][3]);
        assert_string_equal(d[i].device, want[i][4]);
    }
    fy_adb_devices_free(d, n);
    assert_int_equal(fy_adb_parse_devices((fy_span){"", 0}, &d, &n, NULL), 0);
    assert_int_equal(n, 0);
    fy_adb_devices_free(d, n);
}

static void an_answer_is_okay_or_a_refusal_or_neither(void **state)
{
    (void)state;
    fy_str why = {0};
    fy_err e = {0};
    assert_int_equal(fy_adb_read_status(&MEMORY("OKAY").source, &why, &e), 1);
    assert_int_equal(fy_adb_read_status(&MEMORY("FAIL0003abc").source, &why, &e), 0);
    assert_string_equal(fy_str_z(&why), "abc");
    assert_int_equal(fy_adb_read_status(&MEMORY("HTTP/1.1 400").source, &why, &e), -1);
    assert_says(&e, "the answer is 'HTTP', expected OKAY or FAIL");
    e = (fy_err){0};
    assert_int_equal(fy_adb_read_status(&MEMORY("FAIL-001abc").source, &why, &e), -1);
    assert_says(&e, "expected four hex digits");
    e = (fy_err){0};
    assert_int_equal(fy_adb_read_status(&MEMORY("FAILffffabc").source, &why, &e), -1);
    assert_says(&e, "connection lost");
    fy_str_release(&why);
}

/* Collects what comes until the exit status; -1: none. */
static int packets(const char *p, size_t n, size_t part, fy_str *out, fy_str *err, fy_err *e)
{
    fy_adb_packets d = {0};
    fy_adb_piece piece;
    for (size_t at = 0, now; at < n; at += now) {
        int rc;
        now = n - at < part ? n - at : part;
        const unsigned char *bytes = (const unsigned char *)p + at;
        for (size_t used = 0; (rc = fy_adb_next_piece(&d, bytes, now, &used, &piece, e)) > 0;) {
            if (piece.id == FY_ADB_EXIT)
                return piece.p[0];
            fy_str_add(piece.id == FY_ADB_STDOUT ? out : err, piece.p, piece.n);
        }
        if (rc < 0)
            return -1;
    }
    return -1;
}

static void packets_come_in_pieces_of_any_size(void **state)
{
    (void)state;
    static const char p[] = "\1\4\0\0\0out\n\2\3\0\0\0err\1\0\0\0\0\1\2\0\0\0!\n\3\1\0\0\0\7";
    for (size_t part = 1; part < sizeof p; part++) {
        fy_str out = {0}, err = {0};
        assert_int_equal(packets(p, sizeof p - 1, part, &out, &err, NULL), 7);
        assert_string_equal(fy_str_z(&out), "out\n!\n");
        assert_string_equal(fy_str_z(&err), "err");
        fy_str_release(&out);
        fy_str_release(&err);
    }
}

static void packets_of_gigabytes_are_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(packets("\1\xff\xff\xff\xff", 5, 5, NULL, NULL, &e), -1);
    assert_says(&e, "a packet 1 of 4294967295 bytes");
    e = (fy_err){0};
    assert_int_equal(packets("\3\2\0\0\0ab", 7, 7, NULL, NULL, &e), -1);
    assert_says(&e, "a packet 3 of 2 bytes");
}

static void file_facts_have_32_or_64_bits(void **state)
{
    (void)state;
    fy_adb_stat st;
    assert_int_equal(
        fy_adb_read_stat(&MEMORY("STAT\xa4\x81\0\0\5\0\0\0\7\0\0\0").source, false, &st, NULL), 0);
    assert_int_equal(st.mode, S_IFREG | 0644);
    assert_int_equal(st.size, 5);
    assert_int_equal(st.mtime, 7);
    assert_int_equal(fy_adb_read_stat(&MEMORY("STA2\0\0\0\0"
                                              "aaaaaaaabbbbbbbb"
                                              "\xa4\x81\0\0"
                                              "nnnnuuuugggg"
                                              "\5\0\0\0\1\0\0\0"
                                              "aaaaaaaa"
                                              "\7\0\0\0\0\0\0\0"
                                              "cccccccc")
                                           .source,
                                      true, &st, NULL),
                     0);
    assert_int_equal(st.mode, S_IFREG | 0644);
    assert_int_equal(st.size, 0x100000005);
    assert_int_equal(st.mtime, 7);
}

/* STA2 with an error number and nothing else. */
static int stat_error(uint32_t number, fy_adb_stat *st, fy_err *e)
{
    char p[72] = "STA2";
    memcpy(p + 4, &number, 4);
    memset(p + 24, 0xff, 48);
    memory m = {{memory_read}, p, sizeof p};
    return fy_adb_read_stat(&m.source, true, st, e);
}

static void what_is_not_there_has_no_mode(void **state)
{
    (void)state;
    fy_adb_stat st;
    fy_err e = {0};
    assert_int_equal(stat_error(2, &st, &e), 0);
    assert_int_equal(st.mode, 0);
    assert_int_equal(stat_error(13, &st, &e), -1);
    assert_says(&e, "the phone says: Permission denied");
    e = (fy_err){0};
    assert_int_equal(stat_error(0xffffffff, &st, &e), -1);
    assert_says(&e, "an error without a name");
}

typedef struct {
    fy_str names;
    size_t bytes;
} seen;

static int each(void *user, const char *name, const fy_adb_stat *st, fy_err *e)
{
    seen *s = user;
    if (strcmp(name, "stop") == 0)
        return fy_fail(e, FY_EDEVICE, "stopped");
    fy_str_printf(&s->names, "%s:%llu ", name, (unsigned long long)st->size);
    return 0;
}

#define ENTRY(n) "DENT\xa4\x81\0\0\5\0\0\0\7\0\0\0" n "\0\0\0"
#define END      "DONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

static void a_directory_has_plain_names(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
        const char *says;
    } bad[] = {
#define CASE(literal, says) {literal, sizeof(literal) - 1, says}
        CASE(ENTRY("\4") "a/bc" END, "'a/bc' is not a file's name"),
        CASE(ENTRY("\4") "a\0bc" END, "is not a file's name"),
        CASE(ENTRY("\0") END, "a name of 0 bytes"),
        CASE("DENT\xa4\x81\0\0\5\0\0\0\7\0\0\0\xff\xff\xff\xff", "a name of 4294967295 bytes"),
        CASE(ENTRY("\4") "stop" END, "stopped"),
        CASE("DNT2", "connection lost"),
        CASE("DNT2\0\0\0\0", "the answer is 'DNT2', expected DENT or DONE"),
        CASE("FAIL\3\0\0\0no!", "the phone says: no!"),
#undef CASE
    };
    seen s = {0};
    assert_int_equal(
        fy_adb_read_entries(
            &MEMORY(ENTRY("\1") "." ENTRY("\2") ".." ENTRY("\3") "abc" ENTRY("\1") "d" END).source,
            false, each, &s, NULL),
        0);
    assert_string_equal(fy_str_z(&s.names), "abc:5 d:5 ");
    fy_str_release(&s.names);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memory m = {{memory_read}, bad[i].p, bad[i].n};
        fy_err e = {0};
        assert_int_equal(fy_adb_read_entries(&m.source, false, each, &s, &e), -1);
        assert_says(&e, bad[i].says);
    }
    fy_str_release(&s.names);
}

static int sink(void *user, const void *p, size_t n, fy_err *e)
{
    seen *s = user;
    s->bytes += n;
    fy_str_add(&s->names, p, n);
    return s->bytes > 100 ? fy_fail(e, FY_EDEVICE, "enough") : 0;
}

static void a_file_ends_with_done(void **state)
{
    (void)state;
    static const struct {
        const char *p;
        size_t n;
        const char *says;
    } bad[] = {
#define CASE(literal, says) {literal, sizeof(literal) - 1, says}
        CASE("DATA\3\0\0\0abc", "connection lost"),
        CASE("DATA\0\0\0\0DONE\0\0\0\0", "a part of 0 bytes"),
        CASE("DATA\xff\xff\xff\xff", "a part of 4294967295 bytes, expected 1 to 65536"),
        CASE("DATA\1\0\1\0", "a part of 65537 bytes"),
        CASE("OKAY\0\0\0\0", "the answer is 'OKAY', expected DATA, DONE or FAIL"),
        CASE("FAIL\xff\xff\xff\xff", "connection lost"),
        CASE("FAIL\6\0\0\0\x1b[31mx", "the phone says: \\x1b[31mx"),
#undef CASE
    };
    seen s = {0};
    fy_err e = {0};
    assert_int_equal(
        fy_adb_read_file(&MEMORY("DATA\3\0\0\0abcDATA\1\0\0\0dDONE\0\0\0\0").source, sink, &s, &e),
        0);
    assert_string_equal(fy_str_z(&s.names), "abcd");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memory m = {{memory_read}, bad[i].p, bad[i].n};
        e = (fy_err){0};
        assert_int_equal(fy_adb_read_file(&m.source, sink, &s, &e), -1);
        assert_says(&e, bad[i].says);
    }
    fy_str_release(&s.names);
}

static void a_full_phone_is_told_apart(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_adb_read_sent(&MEMORY("OKAY\0\0\0\0").source, &e), 0);
    assert_int_equal(
        fy_adb_read_sent(&MEMORY("FAIL\x25\0\0\0write failed: No space left on device").source, &e),
        -1);
    assert_int_equal(e.code, FY_ENOSPACE);
    assert_non_null(strstr(e.msg, "No space left on device"));
    e = (fy_err){0};
    assert_int_equal(fy_adb_read_sent(&MEMORY("FAIL\x05\0\0\0no wa").source, &e), -1);
    assert_says(&e, "the phone says: no wa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_devices_is_taken_apart),
        cmocka_unit_test(an_answer_is_okay_or_a_refusal_or_neither),
        cmocka_unit_test(packets_come_in_pieces_of_any_size),
        cmocka_unit_test(packets_of_gigabytes_are_refused),
        cmocka_unit_test(file_facts_have_32_or_64_bits),
        cmocka_unit_test(what_is_not_there_has_no_mode),
        cmocka_unit_test(a_directory_has_plain_names),
        cmocka_unit_test(a_file_ends_with_done),
        cmocka_unit_test(a_full_phone_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
