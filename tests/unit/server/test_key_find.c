/* API keys are compared in constant time: whatever digest comes, the processor takes the same path.
 * It is walked one instruction at a time in a child, and where it went is compared; no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <elf.h>

#include "server/routes.h"
#include "server/server.h"

enum { KEYS = 5, STEPS_MAX = 1000000 };

static fy_api_key keys[KEYS];

static void make_keys(void)
{
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t j = 0; j < FY_SHA256_BYTES; j++)
            keys[i].digest[j] = (uint8_t)(i * 37 + j * 11);
    }
}

static void the_key_with_the_digest_is_found(void **state)
{
    (void)state;
    make_keys();
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(fy_key_find(keys, KEYS, keys[i].digest), i);
    for (size_t j = 0; j < FY_SHA256_BYTES; j++) {
        for (int bit = 0; bit < 8; bit++) {
            fy_api_key k = keys[2];
            k.digest[j] ^= (uint8_t)(1 << bit);
            assert_int_equal(fy_key_find(keys, KEYS, k.digest), -1);
        }
    }
    assert_int_equal(fy_key_find(keys, 0, keys[0].digest), -1);
}

/* --- the path of a call ----------------------------------------------------------------------- */

typedef int find_fn(const fy_api_key *k, size_t n, const uint8_t *digest);

typedef struct {
    uint32_t n_steps;
    uint64_t where; /* a hash of all addresses in their order */
} path;

/* 0: the registers cannot be read. */
static uint64_t address_of(pid_t pid)
{
    struct user_regs_struct r;
    struct iovec v = {&r, sizeof r};
    if (ptrace(PTRACE_GETREGSET, pid, (void *)(uintptr_t)NT_PRSTATUS, &v) != 0)
        return 0;
#if defined(__x86_64__)
    return r.rip;
#elif defined(__aarch64__)
    return r.pc;
#else
    return 0;
#endif
}

/* Stops before the call and after it. */
static void child(find_fn *find, const uint8_t *digest)
{
    volatile int found = find(keys, KEYS, digest); /* what is bound late is bound now */
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(1);
    raise(SIGSTOP);
    found = find(keys, KEYS, digest);
    (void)found;
    raise(SIGUSR1);
    _exit(0);
}

/* False: processes cannot be walked here. */
static bool walk(find_fn *find, const uint8_t *digest, path *out)
{
    int status;
    bool walked = false;
    *out = (path){0};
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(find, digest);
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return false;
    while (out->n_steps < STEPS_MAX && ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 &&
           waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        const uint64_t at = address_of(pid);
        walked = WSTOPSIG(status) == SIGUSR1;
        if (walked || WSTOPSIG(status) != SIGTRAP || at == 0)
            break;
        out->n_steps++;
        out->where = (out->where ^ at) * 0x100000001B3u;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return walked;
}

/* --- what comes ------------------------------------------------------------------------------- */

enum { DIGESTS = 8 };

static void make_digests(fy_api_key *d)
{
    for (int i = 0; i < 3; i++)
        d[i] = keys[2 * i]; /* the first, the middle, the last */
    memset(d[3].digest, 0xFF, sizeof d[3].digest);
    memset(d[4].digest, 0, sizeof d[4].digest);
    d[5] = d[6] = d[7] = keys[0];
    d[5].digest[0] ^= 1;
    d[6].digest[15] ^= 0x80;
    d[7].digest[FY_SHA256_BYTES - 1] ^= 1;
}

static bool same_path(find_fn *find, bool *known)
{
    fy_api_key d[DIGESTS];
    path first, one;
    bool same = true;
    make_digests(d);
    *known = walk(find, d[0].digest, &first);
    for (int i = 1; i < DIGESTS && *known; i++) {
        *known = walk(find, d[i].digest, &one);
        same &= one.n_steps == first.n_steps && one.where == first.where;
    }
    return same;
}

/* Ends at the first byte that differs. */
static int find_early(const fy_api_key *k, size_t n, const uint8_t *digest)
{
    for (size_t i = 0; i < n; i++) {
        const volatile uint8_t *a = k[i].digest;
        size_t j = 0;
        while (j < FY_SHA256_BYTES && a[j] == digest[j])
            j++;
        if (j == FY_SHA256_BYTES)
            return (int)i;
    }
    return -1;
}

/* Compares all, and branches on the result. */
static int find_branching(const fy_api_key *k, size_t n, const uint8_t *digest)
{
    volatile int found = -1;
    for (size_t i = 0; i < n; i++) {
        volatile uint8_t differs = 0;
        for (size_t j = 0; j < FY_SHA256_BYTES; j++)
            differs |= digest[j] ^ k[i].digest[j];
        if (differs == 0)
            found = (int)i;
    }
    return found;
}

static void every_digest_takes_the_same_path(void **state)
{
    (void)state;
    bool known;
#ifdef __SANITIZE_THREAD__
    skip(); /* what the sanitizer does at an access depends on those before it */
#endif
    make_keys();
    const bool ours = same_path(fy_key_find, &known);
    if (!known)
        skip(); /* an emulator or a container without ptrace */
    assert_true(ours);
    assert_false(same_path(find_early, &known)); /* the test sees what it looks for */
    assert_true(known);
    assert_false(same_path(find_branching, &known));
    assert_true(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_with_the_digest_is_found),
        cmocka_unit_test(every_digest_takes_the_same_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
