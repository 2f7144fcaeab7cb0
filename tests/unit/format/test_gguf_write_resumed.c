#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/file.h"
#include "format/gguf_write.h"

/* --- a slow disk: these stand in for the C library's -------------------------------------------
 * What is written costs nothing; what is waited for costs its bytes. */

static _Atomic uint64_t disk_rate; /* bytes per second; 0: the disk of this machine */
static _Atomic uint64_t disk_dirty;
static _Atomic uint64_t disk_late; /* bytes waited for after an interrupt */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wait_for_disk(uint64_t most)
{
    const uint64_t dirty = disk_dirty, n = dirty < most ? dirty : most;
    const double end = now_s() + (double)n / (double)disk_rate;
    bool counted = false;
    for (double left; (left = end - now_s()) > 0; usleep(1000)) {
        if (fy_interrupted && !counted)
            atomic_fetch_add(&disk_late, (uint64_t)(left * (double)disk_rate));
        counted = fy_interrupted;
    }
    atomic_fetch_sub(&disk_dirty, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t off)
{
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "pwrite");
    if (disk_rate > 0)
        atomic_fetch_add(&disk_dirty, n);
    return next(fd, p, n, off);
}

int sync_file_range(int fd, off_t off, off_t n, unsigned flags)
{
    (void)fd, (void)off;
    if (disk_rate > 0 && (flags & SYNC_FILE_RANGE_WAIT_AFTER))
        wait_for_disk((uint64_t)n);
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    if (disk_rate > 0)
        wait_for_disk(UINT64_MAX);
    return 0;
}

int fsync(int fd)
{
    return fdatasync(fd);
}

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-resumed-XXXXXX");
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

/* Random-looking values that depend on the place alone. */
typedef struct {
    fy_gguf_writer *w;
    atomic_int calls;
    int stop_at; /* this call raises fy_interrupted; 0: none */
    int fail_at;
} source;

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)thread;
    source *s = user;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(s->w, i);
    const int call = atomic_fetch_add(&s->calls, 1) + 1;
    if (call == s->stop_at)
        fy_interrupted = 1;
    if (call == s->fail_at)
        return fy_fail(e, FY_EFORMAT, "bad value");
    uint32_t *y = out;
    for (uint64_t k = 0; k < n_rows * t->ne[0]; k++)
        y[k] = (uint32_t)((row * t->ne[0] + k) * 2654435761u + (uint64_t)i * 40503u);
    return 0;
}

static void plan(source *s, uint64_t split, uint64_t rows)
{
    fy_err e = {0};
    s->w = fy_gguf_writer_new(&e);
    assert_non_null(s->w);
    assert_int_equal(fy_gguf_add_u32(s->w, "a.key", 7, &e), 0);
    assert_int_equal(fy_gguf_writer_split(s->w, split, &e), 0);
    const uint64_t shapes[][2] = {{1, 1}, {1024, rows}, {333, 3001}, {1024, 256}, {7, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%zu", i);
        assert_true(fy_gguf_add_tensor(s->w, name, FY_F32, 2, shapes[i], &e) >= 0);
    }
}

enum { N_CALLS = 1 + 3 + 4 + 1 + 1, ROWS = 600 }; /* pieces of the plan */

typedef struct {
    const char *identity;
    uint64_t split, rows; /* rows 0: ROWS */
    int threads, stop_at, fail_at;
} how;

/* Calls of fill; *code as it ended. */
static int write_model(const char *name, how h, fy_err *e)
{
    source s = {.stop_at = h.stop_at, .fail_at = h.fail_at};
    plan(&s, h.split, h.rows > 0 ? h.rows : ROWS);
    fy_pool *pool = h.threads > 1 ? fy_pool_new(h.threads, e) : NULL;
    fy_progress p = {.total_bytes = fy_gguf_writer_file_bytes(s.w)};
    *e = (fy_err){0};
    int rc =
        fy_gguf_write_resumed(s.w, in_dir(name), fy_span_of(h.identity), fill, &s, pool, &p, e);
    assert_int_equal(rc, e->code == FY_OK ? 0 : -1);
    if (rc == 0)
        assert_int_equal(p.done_bytes, p.total_bytes);
    fy_interrupted = 0;
    fy_pool_free(pool);
    fy_gguf_writer_free(s.w);
    return atomic_load(&s.calls);
}

static void assert_same(const char *a, const char *b)
{
    fy_err e = {0};
    fy_map x, y;
    assert_int_equal(fy_map_open(&x, in_dir(a), &e), 0);
    assert_int_equal(fy_map_open(&y, in_dir(b), &e), 0);
    assert_int_equal(x.size, y.size);
    assert_true(memcmp(x.data, y.data, x.size) == 0);
    fy_map_close(&x);
    fy_map_close(&y);
}

static void remove_all(const char *const *names)
{
    for (; *names != NULL; names++)
        unlink(in_dir(*names));
}

static void an_interrupted_file_is_gone_on_with(void **state)
{
    (void)state;
    fy_err e;
    const how whole = {.identity = "x\n"};
    assert_int_equal(write_model("whole", whole, &e), N_CALLS);
    assert_false(fy_file_exists(in_dir("whole.part")));
    for (int threads = 1; threads <= 3; threads += 2) {
        for (int stop = 1; stop <= N_CALLS; stop++) {
            how h = {.identity = "x\n", .threads = threads, .stop_at = stop};
            int before = write_model("m", h, &e);
            assert_int_equal(e.code, FY_EINTR);
            assert_non_null(strstr(e.msg, "m.part keeps the "));
            assert_non_null(strstr(e.msg, "the same command resumes"));
            assert_false(fy_file_exists(in_dir("m")));
            h.stop_at = 0;
            int after = write_model("m", h, &e);
            assert_int_equal(e.code, FY_OK);
            assert_int_equal(before + after, N_CALLS); /* nothing is done twice */
            assert_same("whole", "m");
            assert_false(fy_file_exists(in_dir("m.part")));
            unlink(in_dir("m"));
        }
    }
    /* one piece at a time */
    int rounds = 0;
    do {
        how h = {.identity = "x\n", .stop_at = 1};
        write_model("m", h, &e);
        rounds++;
    } while (e.code == FY_EINTR);
    assert_int_equal(rounds, N_CALLS + 1);
    assert_same("whole", "m");
    remove_all((const char *[]){"m", "whole", NULL});
}

static void what_was_begun_otherwise_is_begun_again(void **state)
{
    (void)state;
    fy_err e;
    static const how others[] = {
        {.identity = "y\n"},              /* another source */
        {.identity = "x\n", .rows = 601}, /* another plan, another size */
    };
    write_model("whole", (how){.identity = "x\n"}, &e);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        how begun = others[i];
        begun.stop_at = 5;
        assert_int_equal(write_model("m", begun, &e), 5);
        assert_int_equal(e.code, FY_EINTR);
        assert_int_equal(write_model("m", (how){.identity = "x\n"}, &e), N_CALLS);
        assert_int_equal(e.code, FY_OK);
        assert_same("whole", "m");
        unlink(in_dir("m"));
    }
    /* neither a file of zeros nor a cut one is taken up */
    for (int cut = 0; cut < 2; cut++) {
        write_model("m", (how){.identity = "x\n", .stop_at = 5}, &e);
        FILE *f = fopen(in_dir("m.part"), "r+");
        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        long size = ftell(f);
        assert_int_equal(ftruncate(fileno(f), cut ? size - 1 : 0), 0);
        assert_int_equal(ftruncate(fileno(f), size), 0);
        fclose(f);
        assert_int_equal(write_model("m", (how){.identity = "x\n"}, &e), N_CALLS);
        assert_same("whole", "m");
        unlink(in_dir("m"));
    }
    unlink(in_dir("whole"));
}

static void an_error_leaves_nothing(void **state)
{
    (void)state;
    fy_err e;
    write_model("m", (how){.identity = "x\n", .stop_at = 4}, &e);
    assert_true(fy_file_exists(in_dir("m.part")));
    write_model("m", (how){.identity = "x\n", .fail_at = 2}, &e);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_string_equal(e.msg, "bad value");
    assert_false(fy_file_exists(in_dir("m.part")));
    assert_false(fy_file_exists(in_dir("m")));
    /* an interrupt before the first piece has nothing to keep */
    fy_interrupted = 1;
    write_model("m", (how){.identity = "x\n"}, &e);
    assert_int_equal(e.code, FY_EINTR);
    assert_string_equal(e.msg, "interrupted");
    assert_false(fy_file_exists(in_dir("m.part")));
}

static void a_writer_that_keeps_nothing_replaces_what_is_left(void **state)
{
    (void)state;
    fy_err e;
    write_model("whole", (how){.identity = "x\n"}, &e);
    write_model("m", (how){.identity = "x\n", .stop_at = 4}, &e);
    source s = {0};
    plan(&s, 0, ROWS);
    e = (fy_err){0};
    assert_int_equal(fy_gguf_write(s.w, in_dir("m"), fill, &s, NULL, NULL, &e), 0);
    assert_int_equal(s.calls, N_CALLS);
    fy_gguf_writer_free(s.w);
    assert_same("whole", "m");
    assert_false(fy_file_exists(in_dir("m.part")));
    remove_all((const char *[]){"m", "whole", NULL});
}

static const char *const split_names[] = {"w-00001-of-00003.gguf", "w-00002-of-00003.gguf",
                                          "w-00003-of-00003.gguf", "m-00001-of-00003.gguf",
                                          "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};

static void split_files_are_gone_on_with(void **state)
{
    (void)state;
    fy_err e;
    const uint64_t split = 4000000; /* {1, 600} {3001} {256, 9} */
    write_model("w.gguf", (how){.identity = "x\n", .split = split}, &e);
    assert_int_equal(e.code, FY_OK);
    for (int stop = 1; stop <= N_CALLS; stop += 2) {
        how h = {.identity = "x\n", .split = split, .threads = 2, .stop_at = stop};
        int before = write_model("m.gguf", h, &e);
        assert_int_equal(e.code, FY_EINTR);
        h.stop_at = 0;
        assert_int_equal(write_model("m.gguf", h, &e), N_CALLS - before);
        for (int f = 0; f < 3; f++) {
            assert_same(split_names[f], split_names[3 + f]);
            assert_int_equal(unlink(in_dir(split_names[3 + f])), 0);
        }
    }
    /* without one of its files it is started over */
    write_model("m.gguf", (how){.identity = "x\n", .split = split, .stop_at = 8}, &e);
    assert_int_equal(unlink(in_dir("m-00002-of-00003.gguf.part")), 0);
    assert_int_equal(write_model("m.gguf", (how){.identity = "x\n", .split = split}, &e), N_CALLS);
    for (int f = 0; f < 3; f++) {
        assert_same(split_names[f], split_names[3 + f]);
        unlink(in_dir(split_names[f]));
        unlink(in_dir(split_names[3 + f]));
    }
}

static int fill_nothing(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                        fy_err *e)
{
    (void)user, (void)i, (void)row, (void)n_rows, (void)out, (void)thread, (void)e;
    return 0;
}

static void *interrupt_later(void *until_s)
{
    while (now_s() < *(const double *)until_s)
        usleep(1000);
    fy_interrupted = 1;
    return NULL;
}

/* 400 MB are made at once and the disk takes 100 MB a second: nearly all of it waits for the disk
 * when the interrupt comes. */
static void an_interrupt_does_not_wait_for_a_slow_disk(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        fy_err e = {0};
        const uint64_t ne[2] = {1024, 100 << 10};
        fy_gguf_writer *w = fy_gguf_writer_new(&e);
        assert_non_null(w);
        assert_int_equal(fy_gguf_add_tensor(w, "t", FY_F32, 2, ne, &e), 0);
        fy_pool *pool = fy_pool_new(2, &e);
        pthread_t interrupter;
        double at = now_s() + 0.6;
        assert_int_equal(pthread_create(&interrupter, NULL, interrupt_later, &at), 0);
        disk_rate = 100 << 20;
        disk_dirty = disk_late = 0;
        const int rc = kept ? fy_gguf_write_resumed(w, in_dir("slow"), FY_SPAN("x\n"), fill_nothing,
                                                    NULL, pool, NULL, &e)
                            : fy_gguf_write(w, in_dir("slow"), fill_nothing, NULL, pool, NULL, &e);
        pthread_join(interrupter, NULL);
        disk_rate = 0;
        fy_interrupted = 0;
        assert_int_equal(rc, -1);
        assert_int_equal(e.code, FY_EINTR);
        if (disk_late > (30 << 20)) /* 0.3 s */
            fail_msg("%s: waits for %llu bytes after the interrupt", kept ? "kept" : "plain",
                     (unsigned long long)disk_late);
        fy_pool_free(pool);
        fy_gguf_writer_free(w);
        remove_all((const char *[]){"slow.part", NULL});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupted_file_is_gone_on_with),
        cmocka_unit_test(what_was_begun_otherwise_is_begun_again),
        cmocka_unit_test(an_error_leaves_nothing),
        cmocka_unit_test(a_writer_that_keeps_nothing_replaces_what_is_left),
        cmocka_unit_test(split_files_are_gone_on_with),
        cmocka_unit_test(an_interrupt_does_not_wait_for_a_slow_disk),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
