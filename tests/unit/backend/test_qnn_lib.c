/* The log, the search and the messages of qnn_lib.c, without a library. It is compiled in here: the
 * function that takes log lines is its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/stat.h>

#include "backend/qnn/qnn_lib.c"

/* --- the log ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(uint32_t level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    keep_line(fmt, level, 0, args);
    va_end(args);
}

static void the_last_two_hundred_lines_are_kept_oldest_first(void **state)
{
    (void)state;
    fy_str s = {0};
    for (int i = 0; i < 450; i++)
        say(FY_QNN_LOG_WARN, "line %d\n", i);
    fy_qnn_log_lines(&s);
    const char *p = fy_str_z(&s);
    for (int i = 250; i < 450; i++) {
        char expected[40];
        const int n = snprintf(expected, sizeof expected, "warning line %d\n", i);
        assert_memory_equal(p, expected, n);
        p += n;
    }
    assert_int_equal(*p, '\0');
    fy_str_release(&s);
}

static void the_last_error_since_the_mark_is_given(void **state)
{
    (void)state;
    char line[64];
    say(FY_QNN_LOG_ERROR, "before");
    fy_qnn_log_mark();
    fy_qnn_log_last(line, sizeof line);
    assert_string_equal(line, "");
    say(FY_QNN_LOG_ERROR, "first");
    say(FY_QNN_LOG_ERROR, "second");
    say(FY_QNN_LOG_WARN, "a warning");
    fy_qnn_log_last(line, sizeof line);
    assert_string_equal(line, "second");
    fy_qnn_log_last(line, 4);
    assert_string_equal(line, "sec");
    for (int i = 0; i < FY_QNN_LOG_LINES; i++)
        say(FY_QNN_LOG_INFO, "fills the ring");
    fy_qnn_log_last(line, sizeof line);
    assert_string_equal(line, "");
}

static void lines_are_fit_for_a_terminal(void **state)
{
    (void)state;
    char line[FY_QNN_LOG_LINE_BYTES], long_text[2000];
    fy_qnn_log_mark();
    say(FY_QNN_LOG_ERROR, "red \033[31m, bell \a, byte \377\n \n");
    fy_qnn_log_last(line, sizeof line);
    for (const char *p = line; *p != '\0'; p++)
        assert_in_range((unsigned char)*p, 0x20, 0x7e);
    assert_memory_equal(line, "red ", 4);
    memset(long_text, '\033', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    say(FY_QNN_LOG_ERROR, "%s", long_text);
    fy_qnn_log_last(line, sizeof line);
    assert_true(strlen(line) > 0 && strlen(line) < sizeof line);
}

static void unknown_levels_are_shown_as_such(void **state)
{
    (void)state;
    fy_str s = {0};
    say(99, "odd");
    fy_qnn_log_lines(&s);
    assert_non_null(strstr(fy_str_z(&s), "? odd\n"));
    fy_str_release(&s);
}

enum { THREADS = 4, SAID = 500 };

static void *talk(void *user)
{
    char line[64];
    for (int i = 0; i < SAID; i++) {
        say(FY_QNN_LOG_ERROR, "thread %d", *(const int *)user);
        fy_qnn_log_last(line, sizeof line);
        if (i % 50 == 0)
            fy_qnn_log_mark();
    }
    return NULL;
}

static void lines_of_several_threads_stay_whole(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int numbers[THREADS], n_lines = 0;
    fy_str s = {0};
    const uint64_t before = kept.n;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(kept.n - before, THREADS * SAID);
    fy_qnn_log_lines(&s);
    for (char *p = strtok(s.ptr, "\n"); p != NULL; p = strtok(NULL, "\n")) {
        assert_memory_equal(p, "error thread ", 13);
        assert_int_equal(strlen(p), 14);
        n_lines++;
    }
    assert_int_equal(n_lines, FY_QNN_LOG_LINES);
    fy_str_release(&s);
}

/* --- where it lies ---------------------------------------------------------------------------- */

static char dir[] = "/tmp/ferry-qnn-lib-XXXXXX";

static void put_file(const char *name)
{
    char command[400];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\" && : > %s/%s", dir, name, dir,
             name);
    assert_int_equal(system(command), 0);
}

static void clear_environment(void)
{
    unsetenv("FERRY_QNN_SDK");
    unsetenv("QNN_SDK_ROOT");
    unsetenv("QAIRT_SDK_ROOT");
    unsetenv("VIRTUAL_ENV");
    setenv("HOME", dir, 1);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-qnn-lib-XXXXXX");
    clear_environment();
    return mkdtemp(dir) != NULL ? (setenv("HOME", dir, 1), 0) : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void assert_found(const char *named, const char *expected)
{
    fy_str path = {0};
    fy_err e = {0};
    char whole[400];
    if (fy_qnn_find(named, &path, &e) != 0)
        fail_msg("%s", e.msg);
    snprintf(whole, sizeof whole, "%s/%s", dir, expected);
    assert_string_equal(fy_str_z(&path), whole);
    fy_str_release(&path);
}

static void every_layout_of_a_directory_is_found(void **state)
{
    (void)state;
    static const char *const files[] = {"libQnnRef.so", "onnxruntime_qnn/libQnnHtp.so",
                                        SDK_LIBRARIES "/libQnnHtp.so", "libQnnHtp.so"};
    for (size_t i = 0; i < 4; i++) { /* the later ones come first */
        put_file(files[i]);
        assert_found(dir, files[i]);
    }
}

static void the_environment_names_a_directory_in_its_order(void **state)
{
    (void)state;
    char path[200];
    put_file("a/libQnnHtp.so");
    put_file("b/libQnnHtp.so");
    put_file("c/libQnnHtp.so");
    snprintf(path, sizeof path, "%s/c", dir);
    setenv("QAIRT_SDK_ROOT", path, 1);
    assert_found(NULL, "c/libQnnHtp.so");
    snprintf(path, sizeof path, "%s/b", dir);
    setenv("QNN_SDK_ROOT", path, 1);
    assert_found(NULL, "b/libQnnHtp.so");
    setenv("FERRY_QNN_SDK", "", 1); /* as if it were not set */
    assert_found(NULL, "b/libQnnHtp.so");
    snprintf(path, sizeof path, "%s/a", dir);
    setenv("FERRY_QNN_SDK", path, 1);
    assert_found(NULL, "a/libQnnHtp.so");
    snprintf(path, sizeof path, "%s/c", dir);
    assert_found(path, "c/libQnnHtp.so");
}

static void a_python_package_is_found(void **state)
{
    (void)state;
    put_file(".local/lib/python3.11/site-packages/onnxruntime_qnn/libQnnHtp.so");
    assert_found(NULL, ".local/lib/python3.11/site-packages/onnxruntime_qnn/libQnnHtp.so");
    char path[200];
    snprintf(path, sizeof path, "%s/venv", dir);
    setenv("VIRTUAL_ENV", path, 1);
    put_file("venv/lib/python3.12/site-packages/onnxruntime_qnn/libQnnHtp.so");
    assert_found(NULL, "venv/lib/python3.12/site-packages/onnxruntime_qnn/libQnnHtp.so");
}

static void a_directory_without_a_library_is_named(void **state)
{
    (void)state;
    fy_str path = {0};
    fy_err e = {0};
    assert_int_equal(fy_qnn_find(dir, &path, &e), -1);
    assert_int_equal(e.code, FY_EDEVICE);
    assert_non_null(strstr(e.msg, dir));
    assert_non_null(strstr(e.msg, "no QNN library: expected libQnnHtp.so"));
    e = (fy_err){0};
    assert_int_equal(fy_qnn_find("reference", &path, &e), -1);
    assert_non_null(strstr(e.msg, "is not beside the program"));
    fy_str_release(&path);
}

/* --- messages --------------------------------------------------------------------------------- */

static const char *text = "no\nroom";

static fy_qnn_error give_text(fy_qnn_error code, const char **out)
{
    (void)code;
    *out = text;
    return 0;
}

static fy_qnn_error give_none(fy_qnn_error code, const char **out)
{
    (void)code;
    *out = "not to be shown";
    return 1;
}

static void a_message_names_call_code_text_and_log(void **state)
{
    (void)state;
    static const fy_qnn_table with = {.error_message = give_text}, without = {0},
                              failing = {.error_message = give_none};
    fy_qnn_lib lib = {.call = &with};
    fy_err e = {0};
    fy_qnn_log_mark();
    say(FY_QNN_LOG_ERROR, "the graph is too large");
    assert_int_equal(fy_qnn_fail(&lib, "graphFinalize", 0x12340000 | 6022, &e), -1);
    assert_int_equal(e.code, FY_EDEVICE);
    assert_string_equal(e.msg, "graphFinalize: QNN error 6022 (0x1786), no\\nroom: the graph is "
                               "too large; see 'ferry explain 6022'");
    const fy_qnn_table *const silent[] = {&without, &failing};
    for (size_t i = 0; i < 2; i++) {
        e = (fy_err){0};
        lib.call = silent[i];
        fy_qnn_log_mark();
        fy_qnn_fail(&lib, "graphExecute", 6000, &e);
        assert_string_equal(e.msg,
                            "graphExecute: QNN error 6000 (0x1770); see 'ferry explain 6000'");
    }
}

static void codes_are_those_of_ferry(void **state)
{
    (void)state;
    static const struct {
        uint32_t qnn;
        fy_code code;
        const char *line; /* of the log */
    } rows[] = {{FY_QNN_EMEMORY, FY_EFIT, NULL},
                {FY_QNN_ENOT_SUPPORTED, FY_EUNSUPPORTED, NULL},
                {FY_QNN_EVALIDATE, FY_EUNSUPPORTED, NULL},
                {FY_QNN_EBINARY_VERSION, FY_EUNSUPPORTED, NULL},
                {FY_QNN_ERESTARTED, FY_ELOST, NULL},
                {FY_QNN_ELOST, FY_ELOST, NULL},
                {FY_QNN_EGRAPH_CONTEXT, FY_ELOST, NULL},
                {FY_QNN_ESYSTEM, FY_EDEVICE, "no such file"},
                {FY_QNN_ESYSTEM, FY_ELOST, "SSR detected"},
                {FY_QNN_ESYSTEM, FY_ELOST, "err 0x8000040e"},
                {FY_QNN_ESYSTEM, FY_EDEVICE, NULL},
                {1, FY_EDEVICE, "SSR detected"}};
    static const fy_qnn_table none = {0};
    const fy_qnn_lib lib = {.call = &none};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_err e = {0};
        fy_qnn_log_mark();
        if (rows[i].line != NULL)
            say(FY_QNN_LOG_WARN, "%s", rows[i].line);
        fy_qnn_fail(&lib, "call", rows[i].qnn, &e);
        assert_int_equal(e.code, rows[i].code);
    }
}

/* --- providers -------------------------------------------------------------------------------- */

static void the_newest_provider_of_the_known_major_version_is_taken(void **state)
{
    (void)state;
    static const fy_qnn_provider rows[] = {
        {.backend = FY_QNN_BACKEND_HTP, .core = {2, 17, 0}},
        {.backend = FY_QNN_BACKEND_HTP, .core = {2, 20, 0}, .backend_api = {5, 27, 0}},
        {.backend = FY_QNN_BACKEND_HTP, .core = {2, 25, 0}, .backend_api = {5, 33, 0}},
        {.backend = FY_QNN_BACKEND_HTP, .core = {3, 30, 0}},
        {.backend = FY_QNN_BACKEND_HTP + 1, .core = {2, 30, 0}}};
    const fy_qnn_provider *list[] = {&rows[0], &rows[1], &rows[2], &rows[3], &rows[4]};
    fy_qnn_lib lib = {0};
    fy_err e = {0};
    assert_int_equal(choose_provider(&lib, list, 5, &e), 0);
    assert_int_equal(lib.core.minor, 25);
    assert_int_equal(lib.sdk_minor, 33);
    list[1] = &rows[3];
    assert_int_equal(choose_provider(&lib, list, 2, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "core 2.17, backend 6 with core 3.30; expected backend 6"));
    e = (fy_err){0};
    assert_int_equal(choose_provider(&lib, list, 0, &e), -1);
    assert_non_null(strstr(e.msg, "offers nothing"));
}

static void a_function_that_is_missing_is_named(void **state)
{
    (void)state;
    const fy_qnn_table none = {0};
    fy_err e = {0};
    assert_int_equal(check_table(&none, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_string_equal(e.msg, "the QNN library has no function backendCreate");
}

static void what_is_no_library_is_not_loaded(void **state)
{
    (void)state;
    char path[200];
    fy_err e = {0};
    put_file("libQnnHtp.so");
    snprintf(path, sizeof path, "%s/libQnnHtp.so", dir);
    assert_null(fy_qnn_open(path, NULL, &e));
    assert_int_equal(e.code, FY_EDEVICE);
    assert_non_null(strstr(e.msg, "cannot load the QNN library: "));
    fy_qnn_close(NULL);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_two_hundred_lines_are_kept_oldest_first),
        cmocka_unit_test(the_last_error_since_the_mark_is_given),
        cmocka_unit_test(lines_are_fit_for_a_terminal),
        cmocka_unit_test(unknown_levels_are_shown_as_such),
        cmocka_unit_test(lines_of_several_threads_stay_whole),
        IN_DIR(every_layout_of_a_directory_is_found),
        IN_DIR(the_environment_names_a_directory_in_its_order),
        IN_DIR(a_python_package_is_found),
        IN_DIR(a_directory_without_a_library_is_named),
        cmocka_unit_test(a_message_names_call_code_text_and_log),
        cmocka_unit_test(codes_are_those_of_ferry),
        cmocka_unit_test(the_newest_provider_of_the_known_major_version_is_taken),
        cmocka_unit_test(a_function_that_is_missing_is_named),
        IN_DIR(what_is_no_library_is_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
