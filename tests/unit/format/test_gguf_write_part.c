#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "format/gguf_write.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-parts-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void remove_names(const char *first, ...)
{
    va_list names;
    va_start(names, first);
    for (const char *n = first; n != NULL; n = va_arg(names, const char *))
        unlink(in_dir(n));
    va_end(names);
}

/* --- models of 10 pieces ------------------------------------------------------------------------
 */

enum { N_TENSORS = 5 };
static const uint64_t shapes[N_TENSORS][2] = {
    {1, 1}, {1024, 600}, {333, 3001}, {1024, 256}, {7, 9}};

typedef struct {
    fy_gguf_writer *w;
    int calls, stop_at, fail_at;
} source;

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)thread;
    source *s = user;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(s->w, i);
    uint32_t *y = out;
    if (++s->calls == s->stop_at)
        fy_interrupted = 1;
    if (s->calls == s->fail_at)
        return fy_fail(e, FY_EFORMAT, "bad value");
    for (uint64_t k = 0; k < n_rows * t->ne[0]; k++)
        y[k] = (uint32_t)((row * t->ne[0] + k) * 2654435761u + (uint64_t)i * 40503u);
    return 0;
}

static void plan(source *s, uint64_t split)
{
    fy_err e = {0};
    s->w = fy_gguf_writer_new(&e);
    assert_non_null(s->w);
    assert_int_equal(fy_gguf_add_u32(s->w, "a.key", 7, &e), 0);
    assert_int_equal(fy_gguf_writer_split(s->w, split, &e), 0);
    for (size_t i = 0; i < N_TENSORS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%zu", i);
        assert_true(fy_gguf_add_tensor(s->w, name, FY_F32, 2, shapes[i], &e) >= 0);
    }
}

typedef struct {
    uint32_t i, n; /* i 0: the end of all parts */
    uint64_t split;
    const char *identity; /* NULL: "x\n" */
    int stop_at, fail_at;
} how;

/* Returns how many pieces were filled. */
static int write_part(const char *name, how h, fy_err *e)
{
    source s = {.stop_at = h.stop_at, .fail_at = h.fail_at};
    const fy_gguf_parts p = {.part = {h.i > 0 ? h.i : 1, h.n},
                             .identity = fy_span_of(h.identity != NULL ? h.identity : "x\n"),
                             .command = "make it"};
    *e = (fy_err){0};
    plan(&s, h.split);
    const int rc = h.i > 0 ? fy_gguf_write_part(s.w, in_dir(name), &p, fill, &s, NULL, NULL, e)
                           : fy_gguf_write_finish(s.w, in_dir(name), &p, e);
    assert_int_equal(rc, e->code == FY_OK ? 0 : -1);
    fy_interrupted = 0;
    fy_gguf_writer_free(s.w);
    return s.calls;
}

static void write_whole(const char *name, uint64_t split)
{
    fy_err e = {0};
    source s = {0};
    plan(&s, split);
    assert_int_equal(fy_gguf_write(s.w, in_dir(name), fill, &s, NULL, NULL, &e), 0);
    fy_gguf_writer_free(s.w);
}

static void assert_same(const char *a, const char *b)
{
    fy_err e = {0};
    fy_map x, y;
    assert_int_equal(fy_map_open(&x, in_dir(a), &e), 0);
    assert_int_equal(fy_map_open(&y, in_dir(b), &e), 0);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    fy_map_close(&x);
    fy_map_close(&y);
}

/* --- what is right ------------------------------------------------------------------------------
 */

static void parts_in_any_order_make_the_file_of_one(void **state)
{
    (void)state;
    static const uint32_t ns[] = {1, 2, 3, 7, 64};
    fy_err e;
    write_whole("whole", 0);
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        int pieces = 0;
        for (uint32_t i = ns[k]; i > 0; i--) {
            pieces += write_part("m", (how){.i = i, .n = ns[k]}, &e);
            assert_int_equal(e.code, FY_OK);
        }
        assert_int_equal(pieces, 10);
        assert_int_equal(write_part("m", (how){.i = 1, .n = ns[k]}, &e), 0); /* done already */
        assert_int_equal(e.code, FY_OK);
        assert_false(fy_file_exists(in_dir("m")));
        write_part("m", (how){.i = 0, .n = ns[k]}, &e);
        assert_int_equal(e.code, FY_OK);
        assert_same("m", "whole");
        assert_false(fy_file_exists(in_dir("m.part")));
        assert_false(fy_file_exists(in_dir("m.1-of-1.part")));
        write_part("m", (how){.i = 0, .n = ns[k]}, &e); /* the end was reached before */
        assert_int_equal(e.code, FY_OK);
        unlink(in_dir("m"));
    }
    unlink(in_dir("whole"));
}

static void files_of_a_split_model_too(void **state)
{
    (void)state;
    fy_err e;
    write_whole("whole", 3000000);
    for (uint32_t i = 1; i <= 3; i++)
        write_part("m", (how){.i = i, .n = 3, .split = 3000000}, &e);
    write_part("m", (how){.i = 0, .n = 3, .split = 3000000}, &e);
    assert_int_equal(e.code, FY_OK);
    for (int f = 1; f <= 3; f++) {
        char a[32], b[32];
        snprintf(a, sizeof a, "m-%05d-of-00003.gguf", f);
        snprintf(b, sizeof b, "whole-%05d-of-00003.gguf", f);
        assert_same(a, b);
        remove_names(a, b, NULL);
    }
}

static void an_interrupted_part_is_resumed(void **state)
{
    (void)state;
    fy_err e;
    write_whole("whole", 0);
    for (int stop = 1; stop <= 5; stop++) {
        const int before = write_part("m", (how){.i = 1, .n = 2, .stop_at = stop}, &e);
        assert_int_equal(e.code, FY_EINTR);
        const int after = write_part("m", (how){.i = 1, .n = 2}, &e);
        assert_int_equal(e.code, FY_OK);
        assert_in_range(before + after, 4, 6);
        write_part("m", (how){.i = 2, .n = 2, .fail_at = 1}, &e);
        assert_int_equal(e.code, FY_EFORMAT);
        write_part("m", (how){.i = 0, .n = 2}, &e);
        assert_int_equal(e.code, FY_EVERIFY);
        assert_non_null(strstr(e.msg, "1 of 2 parts are missing; part 2 has 0 % of its bytes: make it "
                                      "with 'make it --part 2/2'"));
        write_part("m", (how){.i = 2, .n = 2}, &e);
        write_part("m", (how){.i = 0, .n = 2}, &e);
        assert_int_equal(e.code, FY_OK);
        assert_same("m", "whole");
        unlink(in_dir("m"));
    }
    unlink(in_dir("whole"));
}

static void an_end_that_was_killed_is_reached_again(void **state)
{
    (void)state;
    fy_err e;
    fy_map whole;
    write_whole("whole", 0);
    assert_int_equal(fy_map_open(&whole, in_dir("whole"), &e), 0);
    write_part("m", (how){.i = 1, .n = 1}, &e);
    assert_int_equal(truncate(in_dir("m.part"), (off_t)whole.size),
                     0); /* and killed before the name */
    fy_map_close(&whole);
    write_part("m", (how){.i = 1, .n = 1}, &e);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "--finish gives it its name"));
    write_part("m", (how){.i = 0, .n = 1}, &e);
    assert_int_equal(e.code, FY_OK);
    assert_same("m", "whole");
    remove_names("m", "whole", NULL);
}

/* --- what is not --------------------------------------------------------------------------------
 */

static void missing_and_foreign_parts_are_named(void **state)
{
    (void)state;
    fy_err e;
    write_part("m", (how){.i = 0, .n = 3}, &e);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "make it --part 1/3"));
    write_part("m", (how){.i = 2, .n = 3}, &e);
    write_part("m", (how){.i = 0, .n = 3}, &e);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "2 of 3 parts are missing; part 1 is not there"));
    write_part("m", (how){.i = 1, .n = 3, .identity = "other\n"}, &e);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "m.part: is of other work"));
    write_part("m", (how){.i = 0, .n = 3, .identity = "other\n"}, &e);
    assert_int_equal(e.code, FY_EARG);

    /* the file was lost and started over: what part 2 wrote is not in it */
    unlink(in_dir("m.part"));
    write_part("m", (how){.i = 1, .n = 3}, &e);
    write_part("m", (how){.i = 3, .n = 3}, &e);
    write_part("m", (how){.i = 0, .n = 3}, &e);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "part 2 is of other work"));
    write_part("m", (how){.i = 2, .n = 3}, &e);
    assert_int_equal(e.code, FY_OK);
    write_part("m", (how){.i = 0, .n = 3}, &e);
    assert_int_equal(e.code, FY_OK);
    unlink(in_dir("m"));
}

static void what_stands_in_the_way_is_left_alone(void **state)
{
    (void)state;
    fy_err e;
    FILE *f = fopen(in_dir("m.part"), "w");
    assert_non_null(f);
    fputs("somebody's", f);
    fclose(f);
    write_part("m", (how){.i = 1, .n = 2}, &e);
    assert_int_equal(e.code, FY_EARG);
    unlink(in_dir("m.part"));
    assert_int_equal(symlink("elsewhere", in_dir("m.part")), 0);
    write_part("m", (how){.i = 1, .n = 2}, &e);
    assert_int_equal(e.code, FY_EIO);
    assert_false(fy_file_exists(in_dir("elsewhere")));
    unlink(in_dir("m.part"));
}

static void parts_do_the_same_work(void **state)
{
    (void)state;
    fy_err e = {0};
    source s = {0};
    uint64_t work[4], read[N_TENSORS], sum = 0;
    plan(&s, 0);
    for (size_t i = 0; i < N_TENSORS; i++)
        read[i] = 2 * shapes[i][0] * shapes[i][1];
    const fy_gguf_parts p = {.part = {1, 4}, .read_bytes = read};
    assert_int_equal(fy_gguf_parts_work(s.w, &p, work, &e), 0);
    for (int i = 0; i < 4; i++) {
        sum += work[i];
        assert_in_range(work[i], 0, 4u << 20); /* a quarter of 11.5 MB, and a piece */
    }
    uint64_t all = 0;
    for (size_t i = 0; i < N_TENSORS; i++)
        all += 6 * shapes[i][0] * shapes[i][1];
    assert_int_equal(sum, all);
    fy_gguf_writer_free(s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_in_any_order_make_the_file_of_one),
        cmocka_unit_test(files_of_a_split_model_too),
        cmocka_unit_test(an_interrupted_part_is_resumed),
        cmocka_unit_test(an_end_that_was_killed_is_reached_again),
        cmocka_unit_test(missing_and_foreign_parts_are_named),
        cmocka_unit_test(what_stands_in_the_way_is_left_alone),
        cmocka_unit_test(parts_do_the_same_work),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
