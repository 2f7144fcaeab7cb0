/* The host's side of a push: against a real agent at the other end of a socket, and against phones
 * that say wrong things. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "bundle/agent_job.h"
#include "tests/unit/workspace/ws_fixture.h"
#include "workspace/phone/push.h"

typedef struct {
    int fd;
    pthread_t thread;
    const char *says; /* instead of an agent */
    size_t n_says;
    bool interrupt; /* once the workspace is open */
} phone;

static void *agent(void *arg)
{
    phone *p = arg;
    fy_err e = {0};
    if (p->says != NULL) {
        char drop[4096];
        fy_write_all(p->fd, p->says, p->n_says, "", NULL);
        shutdown(p->fd, SHUT_WR);
        while (read(p->fd, drop, sizeof drop) > 0)
            ;
    } else {
        fy_agent_params params = {
            .in_fd = p->fd, .out_fd = p->fd, .version = "test", .below = tmp, .n_threads = 2};
        fy_agent_serve(&params, &e);
    }
    close(p->fd);
    return NULL;
}

static int phone_begin(phone *p)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    p->fd = pair[1];
    assert_int_equal(pthread_create(&p->thread, NULL, agent, p), 0);
    return pair[0];
}

typedef struct {
    int reached, rc;
    fy_agent_done done;
    uint64_t sent_bytes;
    fy_err why, err;
} result;

static result push_to(phone *p, const char *dir, const char *to, fy_push_gate *gate)
{
    result r = {.rc = -1};
    fy_push_source s;
    fy_push_link l;
    fy_agent_hello hello;
    int fd = phone_begin(p);
    if (fy_push_source_open(&s, dir, &r.err) != 0)
        fail_msg("%s", r.err.msg);
    fy_interrupted = p->interrupt;
    r.reached = fy_push_greet(&l, fd, &hello, &r.why, &r.err);
    if (r.reached == 1)
        r.rc = fy_push_talk(&l, &s, to, false, gate, NULL, NULL, &r.done, &r.err);
    r.sent_bytes = l.sent_bytes;
    close(fd);
    fy_push_link_release(&l);
    pthread_join(p->thread, NULL);
    fy_push_source_release(&s);
    return r;
}

static result push(const char *dir, const char *to)
{
    phone p = {0};
    return push_to(&p, dir, to, NULL);
}

/* --- against an agent ------------------------------------------------------------------------- */

static void a_workspace_arrives_whole(void **state)
{
    (void)state;
    fy_verify_report report;
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    result r = push(at("ws"), at("phone/ws"));
    assert_int_equal(r.err.code, FY_OK);
    assert_int_equal(r.done.reused_bytes, 0);
    assert_int_equal(fy_verify(at("phone/ws"), NULL, 1, NULL, &report, NULL), 0);
    assert_int_equal(report.n, 0);
    fy_verify_report_release(&report);
}

static void the_same_again_sends_the_manifest_only(void **state)
{
    (void)state;
    size_t n;
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    push(at("ws"), at("phone/ws"));
    result r = push(at("ws"), at("phone/ws"));
    free(get_file(at("ws/" FY_MANIFEST_NAME), &n));
    assert_true(r.done.up_to_date);
    assert_true(r.sent_bytes < n + 200 + strlen(at("phone/ws")));
}

static void signature_and_key_travel_along(void **state)
{
    (void)state;
    size_t n;
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    char sig[FY_MANIFEST_SIG_BYTES];
    memset(sig, 7, sizeof sig);
    put_file(at("ws/" FY_MANIFEST_SIG), sig, sizeof sig);
    put_text(at("ws/" FY_MANIFEST_KEY), "a key");
    for (int i = 0; i < 2; i++) {
        result r = push(at("ws"), at("phone/ws"));
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.done.up_to_date, i == 1);
        char *got = get_file(at("phone/ws/" FY_MANIFEST_SIG), &n);
        assert_int_equal(n, sizeof sig);
        assert_memory_equal(got, sig, n);
        free(got);
        got = get_file(at("phone/ws/" FY_MANIFEST_KEY), &n);
        assert_string_equal(got, "a key");
        free(got);
        if (i == 0) { /* another signature of the same manifest */
            memset(sig, 8, sizeof sig);
            put_file(at("ws/" FY_MANIFEST_SIG), sig, sizeof sig);
        }
    }
    unlink(at("ws/" FY_MANIFEST_SIG));
    unlink(at("ws/" FY_MANIFEST_KEY));
    result r = push(at("ws"), at("phone/ws"));
    assert_true(r.done.up_to_date);
    assert_false(fy_file_exists(at("phone/ws/" FY_MANIFEST_SIG)));
}

static void a_file_that_changes_meanwhile_is_not_installed(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    flip_byte(at("ws/tiny/ggml/weights.gguf"), -10);
    result r = push(at("ws"), at("phone/ws"));
    assert_int_equal(r.err.code, FY_EVERIFY);
    assert_non_null(strstr(r.err.msg, "tiny/ggml/weights.gguf: changed"));
    assert_false(fy_file_exists(at("phone/ws")));
    assert_int_equal(truncate(at("ws/tiny/ggml/weights.gguf"), 100), 0);
    r = push(at("ws"), at("phone/ws"));
    assert_int_equal(r.err.code, FY_EVERIFY);
    assert_non_null(strstr(r.err.msg, "became shorter"));
}

static int not_yet_then_no(void *user, fy_err *e)
{
    static int calls;
    (void)user;
    return calls++ < 3 ? 0 : fy_fail(e, FY_EVERIFY, "found wrong here");
}

static void nothing_counts_before_the_gate_opens(void **state)
{
    (void)state;
    phone p = {0};
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    result r = push_to(&p, at("ws"), at("phone/ws"), not_yet_then_no);
    assert_int_equal(r.err.code, FY_EVERIFY);
    assert_string_equal(r.err.msg, "found wrong here");
    assert_false(fy_file_exists(at("phone/ws")));
    assert_int_equal(push(at("ws"), at("phone/ws")).rc, 0);
}

static void an_interrupt_ends_it(void **state)
{
    (void)state;
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    phone p = {.interrupt = true};
    result r = push_to(&p, at("ws"), at("phone/ws"), NULL);
    fy_interrupted = 0;
    assert_int_equal(r.err.code, FY_EINTR);
}

/* --- against others --------------------------------------------------------------------------- */

static result push_at(const char *says, size_t n)
{
    phone p = {.says = says, .n_says = n};
    return push_to(&p, at("ws"), "/x/ws", NULL);
}

static void what_is_no_agent_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *says, *why;
    } cases[] = {
        {"", "ended without a word"},
        {"sh", "it said 'sh'"},
        {"/system/bin/sh: ferry: not executable: 32-bit ELF file\n", "sent '/system/bin/sh: ferry"},
        {"\001\0\0\0E", "it said"},
    };
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        result r = push_at(cases[i].says, i == 3 ? 5 : strlen(cases[i].says));
        assert_int_equal(r.reached, 0);
        assert_int_equal(r.err.code, FY_OK);
        if (strstr(r.why.msg, cases[i].why) == NULL)
            fail_msg("%s", r.why.msg);
    }
}

static void a_phone_that_says_wrong_things_is_an_error(void **state)
{
    (void)state;
    fy_agent_hello hello = {.version = "x"};
    fy_agent_done done = {.reused_bytes = 1};
    fy_str cases[9] = {{0}};
    static const char *const words[9] = {"lost",
                                         "which the manifest does not list",
                                         "which the manifest does not list",
                                         "asked twice",
                                         "more than there is",
                                         "is done with 1 bytes",
                                         "unknown frame",
                                         "want frame of 3 bytes",
                                         "the disk \\x1b is full"};
    ws_make("ws", &(tiny_model){.type = FY_F16, .n_vocab = 48});
    for (size_t i = 0; i < 9; i++)
        fy_agent_put_hello(&cases[i], &hello);
    fy_agent_put_want(&cases[1], 1000, 0);
    fy_agent_put_want(&cases[2], 0, 1000);
    fy_agent_put_want(&cases[3], 0, 0);
    fy_agent_put_want(&cases[3], 0, 0);
    fy_agent_put_u64s(&cases[4], FY_AGENT_REUSED, UINT64_MAX, NULL);
    fy_agent_put_done(&cases[5], &done);
    fy_agent_put(&cases[6], (fy_agent_type)'?', "", 0);
    fy_agent_put(&cases[7], FY_AGENT_WANT, "abc", 3);
    fy_agent_put_fail(&cases[8], &(fy_err){FY_ENOSPACE, "the disk \033 is full"});
    for (size_t i = 0; i < 9; i++) {
        result r = push_at(cases[i].ptr, cases[i].len);
        assert_int_equal(r.reached, 1);
        assert_int_equal(r.rc, -1);
        assert_int_equal(r.err.code, i == 8 ? FY_ENOSPACE : FY_EDEVICE);
        if (strstr(r.err.msg, words[i]) == NULL)
            fail_msg("%zu: %s", i, r.err.msg);
        fy_str_release(&cases[i]);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
#define T(f) cmocka_unit_test_setup_teardown(f, tmp_make, tmp_remove)
    const struct CMUnitTest tests[] = {
        T(a_workspace_arrives_whole),
        T(the_same_again_sends_the_manifest_only),
        T(signature_and_key_travel_along),
        T(a_file_that_changes_meanwhile_is_not_installed),
        T(nothing_counts_before_the_gate_opens),
        T(an_interrupt_ends_it),
        T(what_is_no_agent_is_told_apart),
        T(a_phone_that_says_wrong_things_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
