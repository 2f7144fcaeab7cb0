#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <termios.h>

#include "tests/unit/workspace/fake_adb.h"

/* --- commands --------------------------------------------------------------------------------- */

static const fake_rule shell_rules[] = {
    RULE("shell,v2,raw:", "OKAY\1\4\0\0\0out\n\2\4\0\0\0err\n\1\1\0\0\0!\3\1\0\0\0\7"),
    {NULL, NULL, 0}};

static int run_shell(fy_err *e)
{
    fy_adb *a = fy_adb_open(NULL, e);
    fy_str out = {0}, err = {0};
    int status = -1;
    int rc = a == NULL ? -1 : fy_adb_shell(a, "ls", &out, &err, &status, e);
    if (rc == 0) {
        assert_int_equal(status, 7);
        assert_string_equal(fy_str_z(&out), "out\n!");
        assert_string_equal(fy_str_z(&err), "err\n");
    }
    fy_str_release(&out);
    fy_str_release(&err);
    fy_adb_close(a);
    return rc;
}

static void output_and_status_come_back_apart(void **state)
{
    (void)state;
    fy_err e = {0};
    fake_adb *f = fake(shell_rules);
    if (run_shell(&e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(f->last_service, "shell,v2,raw:ls");
    fake_stop(f);
}

/* Whatever of a conversation is missing, the call fails with a message; with all of it, it works.
 */
static void cut_everywhere(fake_adb *f, int (*run)(fy_err *e))
{
    for (long long budget = 0;; budget++) {
        fy_err e = {0};
        atomic_store(&f->budget, budget);
        int rc = run(&e);
        if (rc == 0) {
            assert_true(budget > 100);
            return;
        }
        if (e.code != FY_EDEVICE || strstr(e.msg, "connection lost") == NULL)
            fail_msg("after %lld bytes: %d '%s'", budget, e.code, e.msg);
        assert_true(budget < 5000);
    }
}

static void a_shell_is_lost_at_any_byte(void **state)
{
    (void)state;
    fake_adb *f = fake(shell_rules);
    cut_everywhere(f, run_shell);
    fake_stop(f);
}

static void packets_out_of_bounds_end_a_command(void **state)
{
    (void)state;
    static const fake_rule rules[][2] = {
        {RULE("shell", "OKAY\1\xff\xff\xff\xff"), {NULL, NULL, 0}},
        {RULE("shell", "OKAY\3\0\0\0\0"), {NULL, NULL, 0}},
    };
    for (size_t i = 0; i < 2; i++) {
        fy_err e = {0};
        fake_adb *f = fake(rules[i]);
        assert_int_equal(run_shell(&e), -1);
        says(&e, FY_EDEVICE, "which the protocol does not have");
        fake_stop(f);
    }
}

static void output_has_a_limit(void **state)
{
    (void)state;
    enum { PART = 1 << 20, N = 17 };
    static char *reply; /* kept: the fake's thread may still look at it */
    size_t n = 4;
    reply = calloc(1, 4 + (size_t)N * (PART + 5));
    memcpy(reply, "OKAY", 4);
    for (int i = 0; i < N; i++) {
        memcpy(reply + n, "\1\0\0\x10\0", 5);
        n += 5 + PART;
    }
    const fake_rule rules[] = {{"shell", reply, n}, {NULL, NULL, 0}};
    fy_err e = {0};
    fake_adb *f = fake(rules);
    assert_int_equal(run_shell(&e), -1);
    says(&e, FY_EDEVICE, "more than 16 MiB of output");
    fake_stop(f);
}

static void words_are_quoted_for_the_phone(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/data/local/tmp/x-1.gguf", "/data/local/tmp/x-1.gguf"},
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"$(rm)", "'$(rm)'"},
        {"~", "'~'"},
        {"a=b", "'a=b'"},
        {"a\nb", "'a\nb'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fy_str s = {0};
        fy_adb_quote(&s, rows[i][0]);
        assert_string_equal(s.ptr, rows[i][1]);
        fy_str_release(&s);
    }
}

static void a_command_too_long_is_an_error_of_ours(void **state)
{
    (void)state;
    int status;
    fy_err e = {0};
    fake_adb *f = fake(NULL);
    fy_adb *a = opened();
    char *cmd = malloc(70000);
    memset(cmd, 'x', 69999);
    cmd[69999] = '\0';
    assert_int_equal(fy_adb_shell(a, cmd, NULL, NULL, &status, &e), -1);
    says(&e, FY_EARG, "at most 65535");
    free(cmd);
    fy_adb_close(a);
    fake_stop(f);
}

static void exec_hands_out_a_blocking_socket(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("exec:cat", "OKAYhello"), {NULL, NULL, 0}};
    char got[8] = "";
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    int fd = fy_adb_exec(a, "cat", NULL);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(recv(fd, got, 5, MSG_WAITALL), 5);
    assert_string_equal(got, "hello");
    close(fd);
    fy_err e = {0};
    assert_int_equal(fy_adb_exec(a, "other", &e), -1);
    says(&e, FY_EDEVICE, "phone A: running 'other': connection lost");
    fy_adb_close(a);
    fake_stop(f);
}

/* --- streams ---------------------------------------------------------------------------------- */

static const char *heard(fake_adb *f)
{
    static char text[4096];
    pthread_mutex_lock(&f->lock);
    size_t n = f->heard.len < sizeof text - 1 ? f->heard.len : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = f->heard.ptr[i] != '\0' ? f->heard.ptr[i] : '.';
    text[n] = '\0';
    pthread_mutex_unlock(&f->lock);
    return text;
}

/* The fake hears on its own thread. */
static void hears(fake_adb *f, const char *text)
{
    for (int i = 0; i < 2000 && strstr(heard(f), text) == NULL; i++)
        usleep(5000);
    if (strstr(heard(f), text) == NULL)
        fail_msg("it heard '%s', not '%s'", heard(f), text);
}

static void raise_interrupt(int sig)
{
    (void)sig;
    fy_interrupted = 1;
}

static void interrupt_soon(void)
{
    signal(SIGALRM, raise_interrupt);
    alarm(1);
}

static void read_back(int fd, const char *want)
{
    char text[256] = "";
    lseek(fd, 0, SEEK_SET);
    assert_true(read(fd, text, sizeof text - 1) >= 0);
    assert_string_equal(text, want);
    close(fd);
}

static int memory_file(const char *text)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void a_stream_carries_input_output_and_status(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        size_t n;
        const char *err;
    } rows[] = {
#define ROW(literal, err) {literal, sizeof(literal) - 1, err}
        ROW("OKAY\2\x0f\0\0\0ferry-pid 1234\n\1\3\0\0\0out\2\3\0\0\0err\3\1\0\0\0\5", "err"),
        ROW("OKAY\2\4\0\0\0ferr\2\x0e\0\0\0y-pid 1234\nerr\1\3\0\0\0out\3\1\0\0\0\5", "err"),
        ROW("OKAY\1\3\0\0\0out\2\5\0\0\0other\3\1\0\0\0\5", "other"),
        ROW("OKAY\1\3\0\0\0out\2\x0c\0\0\0ferry-pid xy\3\1\0\0\0\5", "ferry-pid xy"),
        ROW("OKAY\2\1\0\0\0f\1\3\0\0\0out\3\1\0\0\0\5", "f"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const fake_rule rules[] = {{"shell", rows[i].reply, rows[i].n}, {NULL, NULL, 0}};
        fake_adb *f = fake(rules);
        fy_adb *a = opened();
        fy_adb_streams s = {
            .in_fd = memory_file("words"), .out_fd = memory_file(""), .err_fd = memory_file("")};
        int status = -1;
        fy_err e = {0};
        if (fy_adb_shell_stream(a, "cat", &s, &status, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(status, 5);
        read_back(s.out_fd, "out");
        read_back(s.err_fd, rows[i].err);
        close(s.in_fd);
        assert_string_equal(f->last_service, "shell,v2,raw:echo \"ferry-pid $$\" >&2; cat");
        fy_adb_close(a);
        fake_stop(f);
    }
}

static int run_stream(fy_err *e)
{
    fy_adb *a = fy_adb_open(NULL, e);
    int status = -1, out = memory_file("");
    fy_adb_streams s = {.in_fd = -1, .out_fd = out, .err_fd = -1};
    int rc = a == NULL ? -1 : fy_adb_shell_stream(a, "ls", &s, &status, e);
    if (rc == 0) {
        assert_int_equal(status, 7);
        read_back(out, "out\n!");
    } else {
        close(out);
    }
    fy_adb_close(a);
    return rc;
}

static void a_stream_is_lost_at_any_byte(void **state)
{
    (void)state;
    fake_adb *f = fake(shell_rules);
    cut_everywhere(f, run_stream);
    fake_stop(f);
}

static void input_ends_with_a_packet_of_its_own(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("shell", "OKAY"), {NULL, NULL, 0}};
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    fy_adb_streams s = {.in_fd = memory_file("words"), .out_fd = -1, .err_fd = -1};
    fy_err e = {0};
    int status;
    s.grace_s = 0.2; /* the fake never says a pid: there is only the cut */
    interrupt_soon();
    assert_int_equal(fy_adb_shell_stream(a, "cat", &s, &status, &e), -1);
    says(&e, FY_EINTR, "did not end within 0.2 s: the connection was cut");
    assert_string_equal(heard(f), ".\5...words\4....");
    close(s.in_fd);
    fy_adb_close(a);
    fake_stop(f);
}

static void an_interrupt_is_sent_to_the_commands_group(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("shell,v2,raw:echo", "OKAY\2\x0f\0\0\0ferry-pid 1234\n"),
                                      RULE("shell,v2,raw:g=", "OKAY"),
                                      {NULL, NULL, 0}};
    fake_adb *f = fake(rules);
    fy_adb *a = opened();
    fy_adb_streams s = {.in_fd = -1, .out_fd = -1, .err_fd = -1, .grace_s = 0.5};
    fy_err e = {0};
    int status;
    interrupt_soon();
    assert_int_equal(fy_adb_shell_stream(a, "sleep 1000", &s, &status, &e), -1);
    says(&e, FY_EINTR, "phone A: running a command: interrupted");
    assert_int_equal(f->n_services, 2);
    assert_non_null(strstr(f->last_service, "/proc/1234/stat"));
    assert_non_null(strstr(f->last_service, "kill -INT -"));
    fy_adb_close(a);
    fake_stop(f);
}

/* ESC, a C1 control split between two packets, a right-to-left override; a pipe gets them raw. */
static void what_a_phone_writes_cannot_steer_a_terminal(void **state)
{
    (void)state;
    static const fake_rule rules[] = {
        RULE("shell,v2,", "OKAY\1\5\0\0\0a\033[2\302\1\5\0\0\0\233\342\200\256z"
                          "\2\2\0\0\0\033\n\3\1\0\0\0\0"),
        {NULL, NULL, 0}};
    for (int terminal = 0; terminal < 2; terminal++) {
        char text[256] = "";
        int outer = -1, inner = -1, status = -1;
        fy_err e = {0};
        fake_adb *f = fake(rules);
        fy_adb *a = opened();
        assert_int_equal(openpty(&outer, &inner, NULL, NULL, NULL), 0);
        int out = terminal ? inner : memory_file("");
        fy_adb_streams s = {.in_fd = -1, .out_fd = out, .err_fd = inner};
        if (fy_adb_shell_stream(a, "x", &s, &status, &e) != 0)
            fail_msg("%s", e.msg);
        ssize_t n = read(outer, text, sizeof text - 1);
        assert_true(n > 0);
        for (ssize_t more; strchr(text, '\n') == NULL && n < 200; n += more)
            more = read(outer, text + n, sizeof text - 1 - (size_t)n);
        assert_non_null(strstr(text, "\\x1b\r\n"));
        assert_null(strchr(text, '\033'));
        if (!terminal)
            read_back(out, "a\033[2\302\233\342\200\256z");
        else if (strstr(text, "a\\x1b[2\\u{9b}\\u{202e}z") == NULL)
            fail_msg("%s", text);
        close(outer);
        close(inner);
        fy_adb_close(a);
        fake_stop(f);
    }
}

static void a_terminal_gets_size_and_ctrl_c(void **state)
{
    (void)state;
    static const fake_rule rules[] = {RULE("shell,v2,", "OKAY"), {NULL, NULL, 0}};
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct termios before, after;
    int outer, inner;
    assert_int_equal(openpty(&outer, &inner, NULL, NULL, &size), 0);
    fake_adb *f = fake(rules);
    setenv("TERM", "xterm-256color", 1);
    fy_adb *a = opened();
    fy_adb_streams s = {.in_fd = inner, .out_fd = -1, .err_fd = -1, .tty = true, .grace_s = 0.3};
    fy_err e = {0};
    int status;
    tcgetattr(inner, &before);
    assert_int_equal(write(outer, "hi\3", 3), 3);
    interrupt_soon();
    assert_int_equal(fy_adb_shell_stream(a, "sh", &s, &status, &e), -1);
    says(&e, FY_EINTR, "interrupted");
    assert_string_equal(f->last_service, "shell,v2,TERM=xterm-256color,pty:sh");
    hears(f, "\5\x0a...24x80,0x0.");
    hears(f, ".\1...\3"); /* the signal */
    tcgetattr(inner, &after);
    assert_int_equal(before.c_lflag, after.c_lflag);
    close(outer);
    close(inner);
    fy_adb_close(a);
    fake_stop(f);
}

/* --- files ------------------------------------------------------------------------------------ */

static fake_adb *fake_files(const char *reply, size_t n)
{
    fake_adb *f = fake(NULL);
    f->sync = reply;
    f->n_sync = n;
    return f;
}
#define FILES(literal) fake_files(literal, sizeof(literal) - 1)

static int collect(void *user, const void *p, size_t n, fy_err *e)
{
    (void)e;
    fy_str_add(user, p, n);
    return 0;
}

static void a_file_is_sent_with_mode_and_time(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    fake_adb *f = FILES("OKAY\0\0\0\0");
    fy_adb *a = opened();
    fy_adb_sync *s = fy_adb_sync_open(a, NULL);
    assert_non_null(s);
    char *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 7 + i / 251);
    int fd = memfd_create("data", MFD_CLOEXEC);
    assert_int_equal(write(fd, data, SIZE), SIZE);
    lseek(fd, 0, SEEK_SET);
    fy_err e = {0};
    if (fy_adb_sync_send(s, "/tmp/a,b", 0755, 1700000000, fy_adb_fill_fd, &fd, &e) != 0)
        fail_msg("%s", e.msg);
    fy_adb_sync_close(s);
    static const char head[] = "SEND/tmp/a,b,33261"; /* 0100755 */
    pthread_mutex_lock(&f->lock);
    assert_memory_equal(f->heard.ptr, head, sizeof head - 1);
    assert_memory_equal(f->heard.ptr + sizeof head - 1, data, SIZE);
    pthread_mutex_unlock(&f->lock);
    free(data);
    close(fd);
    fy_adb_close(a);
    fake_stop(f);
}

static void a_refusal_during_a_transfer_ends_it(void **state)
{
    (void)state;
    fake_adb *f = FILES("FAIL\x25\0\0\0write failed: No space left on device");
    f->sync_early = true;
    fy_adb *a = opened();
    fy_adb_sync *s = fy_adb_sync_open(a, NULL);
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC); /* it would never end by itself */
    fy_err e = {0};
    assert_int_equal(fy_adb_sync_send(s, "/data/x", 0644, 0, fy_adb_fill_fd, &fd, &e), -1);
    says(&e, FY_ENOSPACE, "phone A: writing /data/x: the phone says: write failed: No space left");
    close(fd);
    /* The next operation connects anew. */
    e = (fy_err){0};
    fy_adb_stat st;
    assert_int_equal(fy_adb_sync_stat(s, "/data/x", &st, &e), -1);
    says(&e, FY_ENOSPACE, "phone A: looking at /data/x: the phone says: write failed");
    assert_int_equal(f->n_services, 2);
    fy_adb_sync_close(s);
    fy_adb_close(a);
    fake_stop(f);
}

static int run_recv(fy_err *e)
{
    fy_adb *a = fy_adb_open(NULL, e);
    fy_adb_sync *s = a != NULL ? fy_adb_sync_open(a, e) : NULL;
    fy_str got = {0};
    int rc = s != NULL ? fy_adb_sync_recv(s, "/x", collect, &got, e) : -1;
    if (rc == 0)
        assert_string_equal(fy_str_z(&got), "abc");
    fy_str_release(&got);
    fy_adb_sync_close(s);
    fy_adb_close(a);
    return rc;
}

static int run_send(fy_err *e)
{
    fy_adb *a = fy_adb_open(NULL, e);
    fy_adb_sync *s = a != NULL ? fy_adb_sync_open(a, e) : NULL;
    int fd = memory_file("words");
    int rc = s != NULL ? fy_adb_sync_send(s, "/x", 0644, 0, fy_adb_fill_fd, &fd, e) : -1;
    close(fd);
    fy_adb_sync_close(s);
    fy_adb_close(a);
    return rc;
}

static void transfers_are_lost_at_any_byte(void **state)
{
    (void)state;
    fake_adb *f = FILES("DATA\3\0\0\0abcDONE\0\0\0\0");
    cut_everywhere(f, run_recv);
    fake_stop(f);
    f = FILES("OKAY\0\0\0\0");
    cut_everywhere(f, run_send);
    fake_stop(f);
}

static void paths_have_a_limit(void **state)
{
    (void)state;
    char path[1200];
    fake_adb *f = FILES("");
    fy_adb *a = opened();
    fy_adb_sync *s = fy_adb_sync_open(a, NULL);
    fy_adb_stat st;
    fy_err e = {0};
    memset(path, 'x', sizeof path);
    path[1100] = '\0';
    assert_int_equal(fy_adb_sync_stat(s, path, &st, &e), -1);
    says(&e, FY_EARG, "a path of 1100 bytes, expected 1 to 1024");
    fy_adb_sync_close(s);
    fy_adb_close(a);
    fake_stop(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define TEST(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        TEST(output_and_status_come_back_apart),
        TEST(a_shell_is_lost_at_any_byte),
        TEST(packets_out_of_bounds_end_a_command),
        TEST(output_has_a_limit),
        TEST(words_are_quoted_for_the_phone),
        TEST(a_command_too_long_is_an_error_of_ours),
        TEST(exec_hands_out_a_blocking_socket),
        TEST(a_stream_carries_input_output_and_status),
        TEST(what_a_phone_writes_cannot_steer_a_terminal),
        TEST(a_stream_is_lost_at_any_byte),
        TEST(input_ends_with_a_packet_of_its_own),
        TEST(an_interrupt_is_sent_to_the_commands_group),
        TEST(a_terminal_gets_size_and_ctrl_c),
        TEST(a_file_is_sent_with_mode_and_time),
        TEST(a_refusal_during_a_transfer_ends_it),
        TEST(transfers_are_lost_at_any_byte),
        TEST(paths_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
