#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char dir[256];

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ferry-file-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void assert_content(const char *name, const char *want)
{
    fy_map m;
    fy_err e = {0};
    assert_int_equal(fy_map_open(&m, path_of(name), &e), 0);
    assert_int_equal(m.size, strlen(want));
    assert_memory_equal(m.data, want, m.size);
    fy_map_close(&m);
}

static void a_written_file_maps_with_the_same_bytes(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_file_write(path_of("a"), "hello", 5, &e), 0);
    assert_content("a", "hello");
    assert_false(fy_file_exists(path_of("a.part")));
    assert_int_equal(fy_file_write(path_of("a"), "hi", 2, &e), 0);
    assert_content("a", "hi");
}

static void an_empty_file_maps_to_a_valid_pointer(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_map m;
    assert_int_equal(fy_file_write(path_of("empty"), "", 0, &e), 0);
    assert_int_equal(fy_map_open(&m, path_of("empty"), &e), 0);
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    fy_map_drop(&m, 0, 10);
    fy_map_close(&m);
    fy_map_close(&m);
}

static void what_is_not_a_file_is_refused_by_name(void **state)
{
    (void)state;
    fy_map m;
    static const char *const words[] = {"No such file", "is a directory", "not a regular file"};
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    static const char *const names[] = {"absent", ".", "pipe"};
    for (size_t i = 0; i < 3; i++) {
        fy_err e = {0};
        assert_int_equal(fy_map_open(&m, path_of(names[i]), &e), -1);
        assert_int_equal(e.code, FY_EIO);
        assert_non_null(strstr(e.msg, words[i]));
        assert_non_null(strstr(e.msg, path_of(names[i])));
    }
}

/* More than one step, and no whole number of pages. */
enum { LARGE = (9 << 20) + 12345 };

static uint8_t large_byte(size_t i)
{
    return (uint8_t)(i * 7 + i / 4099);
}

static void make_large(void)
{
    fy_err e = {0};
    uint8_t *p = malloc(LARGE);
    assert_non_null(p);
    for (size_t i = 0; i < LARGE; i++)
        p[i] = large_byte(i);
    assert_int_equal(fy_file_write(path_of("large"), p, LARGE, &e), 0);
    free(p);
}

static void assert_large(const fy_map *m)
{
    assert_int_equal(m->size, LARGE);
    size_t wrong = 0;
    for (size_t i = 0; i < LARGE; i++)
        wrong += m->data[i] != large_byte(i);
    assert_int_equal(wrong, 0);
}

static void every_way_into_memory_gives_the_same_bytes(void **state)
{
    (void)state;
    make_large();
    for (int i = 0; i < 8; i++) {
        fy_map m;
        fy_err e = {0};
        fy_progress progress = {0};
        const fy_map_options how = {
            .read = i & 1, .lock = i & 2, .huge = i & 4, .progress = &progress};
        assert_int_equal(fy_map_open_as(&m, path_of("large"), &how, &e), 0);
        assert_large(&m);
        assert_int_equal(progress.total_bytes, LARGE);
        if (how.read) /* what can be locked depends on the machine's limits */
            assert_int_equal(progress.done_bytes, LARGE);
        fy_map_close(&m);
        assert_null(m.base);
    }
}

static void a_copy_does_not_follow_its_file(void **state)
{
    (void)state;
    make_large();
    fy_map m;
    fy_err e = {0};
    const fy_map_options how = {.read = true};
    assert_int_equal(fy_map_open_as(&m, path_of("large"), &how, &e), 0);
    assert_int_equal(truncate(path_of("large"), 100), 0);
    fy_map_drop(&m, 0, LARGE); /* there is not a file after it to read it from again */
    assert_large(&m);
    fy_map_close(&m);
}

static void an_empty_file_is_an_empty_copy(void **state)
{
    (void)state;
    fy_map m;
    fy_err e = {0};
    const fy_map_options how = {.read = true, .lock = true};
    assert_int_equal(fy_file_write(path_of("empty"), "", 0, &e), 0);
    assert_int_equal(fy_map_open_as(&m, path_of("empty"), &how, &e), 0);
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    fy_map_close(&m);
}

static void reading_and_locking_can_be_interrupted(void **state)
{
    (void)state;
    make_large();
    fy_interrupted = 1;
    for (int i = 0; i < 2; i++) {
        fy_map m;
        fy_err e = {0};
        const fy_map_options how = {.read = i == 0, .lock = i == 1};
        assert_int_equal(fy_map_open_as(&m, path_of("large"), &how, &e), -1);
        assert_int_equal(e.code, FY_EINTR);
        assert_null(m.base);
    }
    fy_interrupted = 0;
}

static void a_copy_that_no_memory_holds_is_refused(void **state)
{
    (void)state;
    fy_map m;
    fy_err e = {0};
    const fy_map_options how = {.read = true};
    FILE *f = fopen(path_of("vast"), "w");
    assert_non_null(f);
    const int sparse = ftruncate(fileno(f), (off_t)1 << 43); /* 8 TiB without a block */
    fclose(f);
    if (sparse != 0)
        skip();
    assert_int_equal(fy_map_open_as(&m, path_of("vast"), &how, &e), -1);
    unlink(path_of("vast"));
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "no memory for a copy of its 8388608 MB"));
    assert_null(m.base);
}

static void the_final_name_appears_only_on_commit(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_file_write(path_of("out"), "old", 3, &e), 0);
    fy_out *o = fy_out_open(path_of("out"), 10, &e);
    assert_non_null(o);
    assert_int_equal(fy_out_pwrite(o, "56789", 5, 5, &e), 0);
    assert_int_equal(fy_out_pwrite(o, "01234", 5, 0, &e), 0);
    assert_content("out", "old");
    assert_true(fy_file_exists(path_of("out.part")));
    assert_int_equal(fy_out_commit(o, &e), 0);
    assert_content("out", "0123456789");
    assert_false(fy_file_exists(path_of("out.part")));
}

static void an_aborted_output_leaves_the_old_file(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_file_write(path_of("kept"), "old", 3, &e), 0);
    fy_out *o = fy_out_open(path_of("kept"), 0, &e);
    assert_int_equal(fy_out_pwrite(o, "new", 3, 0, &e), 0);
    fy_out_abort(o);
    fy_out_abort(NULL);
    assert_content("kept", "old");
    assert_false(fy_file_exists(path_of("kept.part")));
}

static void an_impossible_output_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_out_open(path_of("absent/x"), 0, &e));
    assert_int_equal(e.code, FY_EIO);
    e = (fy_err){0};
    assert_null(fy_out_open(dir, 0, &e));
    assert_int_equal(e.code, FY_EARG);
    e = (fy_err){0};
    assert_null(fy_out_open(path_of("huge"), UINT64_MAX, &e));
    assert_int_equal(e.code, FY_ENOSPACE);
    assert_false(fy_file_exists(path_of("huge.part")));
}

static void one_name_has_one_writer(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_out *first = fy_out_open(path_of("one"), 0, &e);
    assert_non_null(first);
    assert_null(fy_out_open(path_of("one"), 0, &e));
    assert_non_null(strstr(e.msg, "another ferry is writing it"));
    e = (fy_err){0};
    assert_int_equal(fy_out_pwrite(first, "1", 1, 0, &e), 0);
    assert_int_equal(fy_out_commit(first, &e), 0);
    assert_content("one", "1");
    fy_out *next = fy_out_open(path_of("one"), 0, &e); /* the lock went with the first writer */
    assert_non_null(next);
    fy_out_abort(next);
}

static void a_dying_process_can_remove_what_it_has_begun(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_out *a = fy_out_open(path_of("begun"), 0, &e), *b = fy_out_open(path_of("done"), 0, &e);
    assert_int_equal(fy_out_commit(b, &e), 0);
    fy_out_unlink_all();
    assert_false(fy_file_exists(path_of("begun.part")));
    assert_true(fy_file_exists(path_of("done")));
    fy_out_abort(a);
}

static void an_output_that_is_left_is_found_again(void **state)
{
    (void)state;
    fy_err e = {0};
    char got[8] = "";
    uint64_t size = 0;
    assert_int_equal(fy_out_held(path_of("left")), 0);
    fy_out *o = fy_out_open_kept(path_of("left"), &e);
    assert_non_null(o);
    assert_int_equal(fy_out_resize(o, 100000, &e), 0);
    assert_int_equal(fy_out_pwrite(o, "there", 5, 1000, &e), 0);
    assert_int_equal(fy_out_sync(o, 0, &e), 0);
    fy_out_unlink_all(); /* not this one */
    fy_out_leave(o);
    fy_out_leave(NULL);
    assert_false(fy_file_exists(path_of("left")));
    assert_true(fy_out_held(path_of("left")) >= 4096);

    o = fy_out_open_kept(path_of("left"), &e);
    assert_non_null(o);
    assert_non_null(strstr(fy_out_part(o), "left.part"));
    assert_null(fy_out_open_kept(path_of("left"), NULL)); /* one at a time */
    assert_int_equal(fy_out_size(o, &size, &e), 0);
    assert_int_equal(size, 100000);
    assert_int_equal(fy_out_pread(o, got, 5, 1000, &e), 0);
    assert_string_equal(got, "there");
    assert_int_equal(fy_out_pread(o, got, 5, 99996, &e), -1);
    assert_non_null(strstr(e.msg, "ends at 100000"));
    e = (fy_err){0};
    assert_int_equal(fy_out_resize(o, UINT64_MAX, &e), -1);
    assert_int_equal(e.code, FY_ENOSPACE);
    e = (fy_err){0};
    assert_int_equal(fy_out_resize(o, 3, &e), 0);
    assert_int_equal(fy_out_pwrite(o, "end", 3, 0, &e), 0);
    assert_int_equal(fy_out_commit(o, &e), 0);
    assert_content("left", "end");
    assert_int_equal(fy_out_held(path_of("left")), 0);
}

static void only_regular_files_are_replaced(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_out_open("", 0, &e));
    assert_int_equal(e.code, FY_EARG);
    e = (fy_err){0};
    assert_null(fy_out_open("/dev/null", 0, &e));
    assert_int_equal(e.code, FY_EARG);
    assert_false(fy_file_exists("/dev/null.part"));
    e = (fy_err){0};
    assert_int_equal(symlink("target", path_of("link.part")), 0);
    assert_null(fy_out_open(path_of("link"), 0, &e));
    assert_int_equal(e.code, FY_EIO);
    assert_false(fy_file_exists(path_of("target")));
    assert_int_equal(unlink(path_of("link.part")), 0);
}

static void a_part_with_a_second_name_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_file_write(path_of("precious"), "mine", 4, &e), 0);
    char *other = fy_path_join(dir, "linked.part");
    assert_int_equal(link(path_of("precious"), other), 0);
    assert_null(fy_out_open(path_of("linked"), 0, &e));
    assert_int_equal(e.code, FY_EIO);
    assert_non_null(strstr(e.msg, "linked.part: has 2 names"));
    assert_content("precious", "mine");
    unlink(other);
    free(other);
}

static void a_part_of_another_user_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    if (geteuid() != 0)
        skip(); /* nobody else can give a file away */
    assert_int_equal(close(open(path_of("theirs.part"), O_CREAT | O_WRONLY, 0666)), 0);
    assert_int_equal(chown(path_of("theirs.part"), 65534, 65534), 0);
    assert_null(fy_out_open(path_of("theirs"), 0, &e));
    assert_int_equal(e.code, FY_EIO);
    assert_non_null(strstr(e.msg, "theirs.part: belongs to another user (uid 65534)"));
    assert_null(fy_out_open_kept(path_of("theirs"), NULL));
    assert_true(fy_file_exists(path_of("theirs.part"))); /* it is not ours to remove */

    /* whose directory it is could replace what we write anyway */
    assert_int_equal(chown(dir, 65534, 65534), 0);
    fy_out *o = fy_out_open(path_of("theirs"), 0, NULL);
    assert_int_equal(chown(dir, 0, 0), 0);
    assert_non_null(o);
    fy_out_abort(o);
}

/* A file of more than one step; what is flushed at once cannot be interrupted. */
static void flushing_can_be_interrupted_between_steps(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        fy_err e = {0};
        fy_out *o = fy_out_open(path_of("flushed"), 0, &e);
        assert_int_equal(fy_out_pwrite(o, "x", 1, large ? (uint64_t)200 << 20 : 0, &e), 0);
        fy_interrupted = 1;
        assert_int_equal(fy_out_sync(o, 0, &e), large ? -1 : 0);
        assert_int_equal(e.code, large ? FY_EINTR : FY_OK);
        assert_int_equal(fy_out_sync(o, 60000, NULL), 0); /* the time that is given is taken */
        assert_int_equal(fy_out_commit(o, NULL), large ? -1 : 0);
        assert_int_equal(fy_file_exists(path_of("flushed.part")), false);
        fy_interrupted = 0;
    }
    assert_content("flushed", "x");
    fy_out *o = fy_out_open(path_of("flushed"), (uint64_t)200 << 20, NULL);
    fy_interrupted = 1;
    assert_int_equal(fy_out_finish(o, NULL), 0);
    fy_interrupted = 0;
}

static void a_full_disk_is_an_error_of_its_own(void **state)
{
    (void)state;
    fy_err e = {0};
    uint64_t free_bytes = 0;
    assert_int_equal(fy_file_space(path_of("not/yet/there"), &free_bytes, &e), 0);
    assert_true(free_bytes > 0);
    assert_null(fy_out_open(path_of("full"), free_bytes + ((uint64_t)1 << 50), &e));
    assert_true(e.code == FY_ENOSPACE || e.code == FY_EIO); /* EFBIG where files are limited */
    assert_false(fy_file_exists(path_of("full.part")));
}

static void directories_are_made_with_their_parents(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_mkdirs(path_of("d/e//f"), &e), 0);
    assert_int_equal(fy_mkdirs(path_of("d/e/f/"), &e), 0);
    assert_true(fy_file_is_dir(path_of("d/e/f")));
    assert_int_equal(fy_file_write(path_of("plain"), "x", 1, &e), 0);
    assert_int_equal(fy_mkdirs(path_of("plain"), &e), -1);
    e = (fy_err){0};
    assert_int_equal(fy_mkdirs(path_of("plain/x"), &e), -1);
    e = (fy_err){0};
    assert_int_equal(fy_mkdirs("", &e), -1);
}

static void a_directory_has_what_is_in_it(void **state)
{
    (void)state;
    char *long_name = calloc(1, 5000);
    memset(long_name, 'a', 4999);
    assert_true(fy_dir_has("/", "dev"));
    assert_true(fy_dir_has("/dev/", "null"));
    assert_false(fy_dir_has("/dev", "no such file"));
    assert_false(fy_dir_has("/dev/null", "x"));
    assert_false(fy_dir_has("/dev", long_name));
    free(long_name);
    char *path = fy_path_format(NULL, "%s/%d", "a", 7);
    assert_string_equal(path, "a/7");
    free(path);
}

static void paths_join_and_split(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *name, *want;
    } joins[] = {{"a", "b", "a/b"},
                 {"a/", "b", "a/b"},
                 {"a//", "b", "a/b"},
                 {"/", "b", "/b"},
                 {"", "b", "b"}};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        char *p = fy_path_join(joins[i].dir, joins[i].name);
        assert_string_equal(p, joins[i].want);
        free(p);
    }
    assert_true(fy_span_is(fy_path_base("a/b/c.gguf"), "c.gguf"));
    assert_true(fy_span_is(fy_path_base("a/b//"), "b"));
    assert_true(fy_span_is(fy_path_base("c"), "c"));
    assert_true(fy_span_is(fy_path_base(""), ""));
}

static void only_plain_names_pass_as_plain(void **state)
{
    (void)state;
    assert_true(fy_path_is_plain(FY_SPAN("model-00001-of-00002.safetensors")));
    assert_true(fy_path_is_plain(FY_SPAN("...")));
    static const char *const bad[] = {"", ".", "..", "a/b", "/a", "a/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(fy_path_is_plain(fy_span_of(bad[i])));
    assert_false(fy_path_is_plain(FY_SPAN("a\0b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_file_maps_with_the_same_bytes),
        cmocka_unit_test(an_empty_file_maps_to_a_valid_pointer),
        cmocka_unit_test(what_is_not_a_file_is_refused_by_name),
        cmocka_unit_test(every_way_into_memory_gives_the_same_bytes),
        cmocka_unit_test(a_copy_does_not_follow_its_file),
        cmocka_unit_test(an_empty_file_is_an_empty_copy),
        cmocka_unit_test(reading_and_locking_can_be_interrupted),
        cmocka_unit_test(a_copy_that_no_memory_holds_is_refused),
        cmocka_unit_test(the_final_name_appears_only_on_commit),
        cmocka_unit_test(an_aborted_output_leaves_the_old_file),
        cmocka_unit_test(an_impossible_output_is_refused),
        cmocka_unit_test(one_name_has_one_writer),
        cmocka_unit_test(a_dying_process_can_remove_what_it_has_begun),
        cmocka_unit_test(an_output_that_is_left_is_found_again),
        cmocka_unit_test(only_regular_files_are_replaced),
        cmocka_unit_test(a_part_with_a_second_name_is_refused),
        cmocka_unit_test(a_part_of_another_user_is_refused),
        cmocka_unit_test(flushing_can_be_interrupted_between_steps),
        cmocka_unit_test(a_full_disk_is_an_error_of_its_own),
        cmocka_unit_test(directories_are_made_with_their_parents),
        cmocka_unit_test(paths_join_and_split),
        cmocka_unit_test(a_directory_has_what_is_in_it),
        cmocka_unit_test(only_plain_names_pass_as_plain),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
