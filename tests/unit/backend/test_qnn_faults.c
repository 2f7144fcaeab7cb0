/* Every call that a session makes of the QNN library fails, takes its time, or is when the NPU
 * restarts: what comes out is right, or an error. Each case is a process of its own, so that calls
 * count from its beginning and what is left at its end shows. Without FERRY_SOAK=1 of each function
 * only the first two calls and the last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/unit/backend/compiled_fixture.h"

enum { MOST_CALLS = 64, LEFT_OVER = 99 /* FERRY_REF_STRICT */, HUNG_S = 300 };

/* Of the process of a case; logits of a session that ended well. */
typedef struct {
    float logits[N_TOKENS * CHAIN_V];
    fy_err e;
} outcome;

static outcome *shared;
static float want[N_TOKENS * CHAIN_V];
static struct {
    char name[48];
    unsigned long n;
} calls[MOST_CALLS];
static size_t n_calls;

/* --- a case ----------------------------------------------------------------------------------- */

static int evaluate_all(fy_session *s, fy_err *e)
{
    int32_t ids[N_TOKENS];
    const fy_eval_sinks sinks = {.logits = keep, .user = shared->logits};
    for (int32_t i = 0; i < N_TOKENS; i++)
        ids[i] = i * 7 % CHAIN_V;
    int rc = fy_session_eval(s, ids, N_TOKENS - 2, &sinks, NULL, e);
    for (uint32_t i = N_TOKENS - 2; i < N_TOKENS && rc == 0; i++)
        rc = fy_session_eval(s, ids + i, 1, &sinks, NULL, e);
    return rc;
}

static int session(fy_err *e)
{
    const fy_session_params p = {.n_threads = 1, .type_k = FY_F16, .type_v = FY_F16};
    fy_model *m = open_compiled(e);
    fy_session *s = m != NULL ? fy_session_new(m, &p, e) : NULL;
    const int rc = s != NULL ? evaluate_all(s, e) : -1;
    fy_session_free(s);
    fy_model_close(m);
    return rc;
}

/* 0: the logits of all tokens are there; 1: there is an error. frees: objects may be left, since
 * freeing them fails. */
static int child(const char *fault, bool frees)
{
    ask_for_faults(fault);
    fflush(NULL);
    memset(shared, 0, sizeof *shared);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(HUNG_S);
        assert_non_null(dlopen(reference_path("libcdsprpc.so"), RTLD_NOW));
        const int rc = session(&shared->e);
        if (frees)
            _exit(rc != 0);
        exit(rc != 0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("'%s': signal %d", fault, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* --- all calls -------------------------------------------------------------------------------- */

/* How often a session calls each function, as the reference library counts. */
static void count_calls(void)
{
    char line[256], path[128];
    snprintf(path, sizeof path, "%s/coverage", chain_dir);
    setenv("FERRY_REF_COVERAGE", path, 1);
    assert_int_equal(child("", false), 0);
    unsetenv("FERRY_REF_COVERAGE");
    memcpy(want, shared->logits, sizeof want);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL && n_calls < MOST_CALLS) {
        if (sscanf(line, "call %lu %47s", &calls[n_calls].n, calls[n_calls].name) == 2)
            n_calls++;
    }
    fclose(f);
}

static bool frees(const char *function)
{
    return strstr(function, "Free") != NULL || strstr(function, "DeRegister") != NULL;
}

/* A restart in these is survived. */
static bool is_recovered(const char *function)
{
    static const char *const names[] = {"deviceCreate", "contextCreateFromBinary", "graphRetrieve",
                                        "memRegister", "graphExecute"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(function, names[i]) == 0)
            return true;
    }
    return false;
}

static void must_be_right_or_fail(const char *fault, const char *function, bool right)
{
    const int status = child(fault, frees(function));
    if (status == 0 && memcmp(want, shared->logits, sizeof want) != 0)
        fail_msg("'%s': other logits", fault);
    else if (status != 0 && right)
        fail_msg("'%s': %s", fault, shared->e.msg);
    else if (status == 1 && (shared->e.code == FY_OK || shared->e.code == FY_EFORMAT))
        fail_msg("'%s': code %d, '%s'", fault, shared->e.code, shared->e.msg);
    else if (status > 1)
        fail_msg("'%s': status %d", fault, status);
}

static void a_call_that_fails_is_an_error_or_nothing(void **state)
{
    static const struct {
        const char *effect;
        bool right;     /* of any call */
        bool recovered; /* where a restart is */
    } effects[] = {{"code 1100", false, false}, {"code 1002", false, false},
                   {"ssr", false, true},        {"ssr fatal", false, true},
                   {"ssr 1003", false, true},   {"sleep 20", true, true}};
    const char *all = getenv("FERRY_SOAK");
    const bool soak = all != NULL && strcmp(all, "1") == 0;
    unsigned long n_cases = 0;
    (void)state;
    for (size_t i = 0; i < n_calls; i++) {
        const bool recovers = is_recovered(calls[i].name);
        for (unsigned long n = 1; n <= calls[i].n; n++) {
            n = !soak && n == 3 ? calls[i].n : n;
            for (size_t k = 0; k < sizeof effects / sizeof effects[0]; k++, n_cases++) {
                char fault[128];
                snprintf(fault, sizeof fault, "%s %lu %s\n", calls[i].name, n, effects[k].effect);
                must_be_right_or_fail(fault, calls[i].name,
                                      effects[k].right || (recovers && effects[k].recovered));
            }
        }
    }
    assert_true(n_calls >= 12 && n_cases >= (soak ? 600 : 150));
    print_message("%lu cases of %zu functions\n", n_cases, n_calls);
}

/* --- restarts --------------------------------------------------------------------------------- */

static void must_fail(const char *fault, int exit_status, const char *says)
{
    if (child(fault, false) != 1 || strstr(shared->e.msg, says) == NULL)
        fail_msg("'%s': '%s', expected '%s'", fault, shared->e.msg, says);
    assert_int_equal(fy_exit_status(shared->e.code), exit_status);
}

static void a_restart_is_not_tried_for_ever(void **state)
{
    (void)state;
    must_fail("graphExecute ssr\n", 5,
              "the NPU is lost twice at the same place: it is the graph, not the phone: ");
    must_fail("graphExecute 3 ssr\ngraphExecute 4 ssr fatal\n", 5, "lost twice at the same place");
    must_fail("graphExecute 2 ssr\ngraphExecute 5 ssr\n", 5, "and once a minute is tried");
    must_fail("graphExecute 2 ssr\ncontextCreateFromBinary 4 code 1002\n", 3,
              "contextCreateFromBinary: QNN error 1002");
    must_fail("graphExecute 2 ssr\nbackendCreate 2 ssr\n", 5, "backendCreate: QNN error 1007");
}

static int begin(void **state)
{
    const int rc = compiled_set_up(state);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rc != 0 || shared == MAP_FAILED)
        return -1;
    compile_all(&fixed8);
    count_calls();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_fails_is_an_error_or_nothing),
        cmocka_unit_test(a_restart_is_not_tried_for_ever),
    };
    return cmocka_run_group_tests(tests, begin, chain_remove_dir);
}
