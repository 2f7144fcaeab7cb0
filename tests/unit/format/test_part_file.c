/* Results of parts: they are read in order whatever the order of their making, a part goes on after
 * any cut, and what is missing, damaged or of other work is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "format/part_file.h"
#include "tests/unit/alloc_fail.h"

enum { STEPS = 10, PARTS = 3 };
static const fy_span WORK = {"ferry\nsource: x\n", 16};

static char dir[64], base[96];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-parts-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(base, sizeof base, "%s/work", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fy_tree_remove(dir);
}

static uint64_t first_of(uint32_t i)
{
    return fy_job_part_begin(STEPS, i, PARTS);
}

/* Step s has s + 1 bytes of data and then its own number twice. -1 with *e. */
static int add_step(fy_part_file *f, uint64_t s, fy_err *e)
{
    const uint64_t twice[] = {s, s};
    if (fy_part_file_add(f, FY_PART_DATA, s, (fy_span){"0123456789", s + 1}, e) != 0)
        return -1;
    return fy_part_file_add(f, FY_PART_STEP, s, (fy_span){(const char *)twice, sizeof twice}, e);
}

/* Part i, or its first `most` steps that are not there yet. */
static int make_part(uint32_t i, uint64_t most, fy_err *e)
{
    fy_part_file *f = fy_part_file_open(base, (fy_job_part){i, PARTS}, WORK, e);
    if (f == NULL)
        return -1;
    uint64_t s = first_of(i);
    int rc = 0;
    if (fy_part_file_next(f) > s)
        s = fy_part_file_next(f);
    for (; rc == 0 && s < first_of(i + 1) && most > 0; s++, most--)
        rc = add_step(f, s, e);
    if (rc == 0 && s == first_of(i + 1) && !fy_part_file_is_done(f))
        rc = fy_part_file_end(f, first_of(i), s, STEPS, e);
    fy_part_file_close(f);
    return rc;
}

typedef struct {
    uint64_t steps, bytes;
} sums;

static int add_up(void *user, const fy_part_record *r, fy_err *e)
{
    sums *s = user;
    if (r->kind == FY_PART_DATA) {
        s->bytes += r->bytes.len;
        return r->bytes.len == r->step + 1 && memcmp(r->bytes.ptr, "0123456789", r->bytes.len) == 0
                   ? 0
                   : fy_fail(e, FY_EFORMAT, "other bytes");
    }
    uint64_t twice[2];
    assert_int_equal(r->bytes.len, sizeof twice);
    memcpy(twice, r->bytes.ptr, sizeof twice);
    assert_true(twice[0] == s->steps && twice[1] == s->steps && r->step == s->steps);
    s->steps++;
    return 0;
}

static int read_all(fy_err *e)
{
    sums s = {0};
    const int rc = fy_part_files_read(base, PARTS, WORK, "ferry x", add_up, &s, e);
    assert_true(rc != 0 || (s.steps == STEPS && s.bytes == STEPS * (STEPS + 1) / 2));
    return rc;
}

static void make_all(void)
{
    static const uint32_t order[] = {3, 1, 2, 1};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        assert_int_equal(make_part(order[i], UINT64_MAX, NULL), 0);
}

static void name_of(char out[128], uint32_t i)
{
    snprintf(out, 128, "%s.%u-of-%u.part", base, i, PARTS);
}

static void parts_are_read_in_order(void **state)
{
    (void)state;
    fy_err e = {0};
    make_all();
    assert_int_equal(read_all(&e), 0);
    assert_int_equal(read_all(&e), 0); /* they stay */
    fy_part_files_remove(base, PARTS);
    assert_int_equal(read_all(&e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "3 of 3 parts are missing; part 1 is not there: make it with "
                                  "'ferry x --part 1/3'"));
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(make_part(1, UINT64_MAX, NULL), 0);
    assert_int_equal(make_part(3, UINT64_MAX, NULL), 0);
    assert_int_equal(read_all(&e), -1);
    assert_non_null(strstr(e.msg, "1 of 3 parts are missing; part 2 is not there"));
    e = (fy_err){0};
    assert_int_equal(make_part(2, 1, NULL), 0);
    assert_int_equal(read_all(&e), -1);
    assert_non_null(strstr(e.msg, "part 2 is not done: make it with 'ferry x --part 2/3'"));
    assert_int_equal(make_part(2, UINT64_MAX, NULL), 0);
    assert_int_equal(read_all(NULL), 0);
    fy_part_files_remove(base, PARTS);
}

static void other_work_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    sums s = {0};
    make_all();
    assert_null(
        fy_part_file_open(base, (fy_job_part){1, PARTS}, FY_SPAN("ferry\nsource: y\n"), &e));
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "is of other work: 'source: y', it was 'source: x'"));
    e = (fy_err){0};
    assert_int_equal(fy_part_files_read(base, PARTS, FY_SPAN("z\n"), "f", add_up, &s, &e), -1);
    assert_non_null(strstr(e.msg, "part 1 is of other work"));
    fy_part_files_remove(base, PARTS);
}

static size_t read_file(const char *name, uint8_t *to, size_t size)
{
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    const size_t n = fread(to, 1, size, f);
    fclose(f);
    assert_true(n < size);
    return n;
}

static void write_bytes(const char *name, const uint8_t *p, size_t n)
{
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void a_part_goes_on_after_any_cut(void **state)
{
    (void)state;
    static uint8_t whole[4096], now[4096];
    char name[128];
    make_all();
    name_of(name, 2);
    const size_t n = read_file(name, whole, sizeof whole);
    for (size_t cut = 0; cut <= n; cut++) {
        write_bytes(name, whole, cut);
        assert_int_equal(make_part(2, UINT64_MAX, NULL), 0);
        assert_int_equal(read_file(name, now, sizeof now), n);
        assert_memory_equal(now, whole, n);
    }
    memcpy(now, whole, n); /* more than there should be */
    memset(now + n, 'x', 100);
    write_bytes(name, now, n + 100);
    assert_int_equal(make_part(2, UINT64_MAX, NULL), 0);
    assert_int_equal(read_file(name, now, sizeof now), n);
    fy_part_files_remove(base, PARTS);
}

static void every_flipped_byte_is_found(void **state)
{
    (void)state;
    static uint8_t whole[4096];
    char name[128];
    make_all();
    name_of(name, 3);
    const size_t n = read_file(name, whole, sizeof whole);
    for (size_t i = 0; i < n; i++) {
        fy_err e = {0};
        whole[i] ^= 0x20;
        write_bytes(name, whole, n);
        assert_int_equal(read_all(&e), -1);
        assert_true(e.code == FY_EVERIFY || e.code == FY_EFORMAT);
        assert_non_null(strstr(e.msg, "3"));
        whole[i] ^= 0x20;
    }
    write_bytes(name, whole, n - 1);
    assert_int_equal(read_all(NULL), -1);
    fy_part_files_remove(base, PARTS);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = make_part(1, UINT64_MAX, &e);
        failed = alloc_fail_end();
        assert_true(failed || rc == 0);
        assert_true(rc == 0 || e.code != FY_OK);
    }
    make_all();
    failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = read_all(&e);
        failed = alloc_fail_end();
        assert_true(failed || rc == 0);
        assert_true(rc == 0 || e.code != FY_OK);
    }
    fy_part_files_remove(base, PARTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_read_in_order),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(other_work_is_refused),
        cmocka_unit_test(a_part_goes_on_after_any_cut),
        cmocka_unit_test(every_flipped_byte_is_found),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
