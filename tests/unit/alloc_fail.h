/* Makes the n-th allocation of a test program fail. Include it in the one file of the program,
 * after cmocka.h:
 *
 *     for (long n = 0; !done; n++) {
 *         alloc_fail_after(n);        // the next n allocations succeed, the one after them fails
 *         r = call_under_test(&e);
 *         bool failed = alloc_fail_end();   // false: the call made no more than n allocations
 *         ...
 *     }
 *
 * malloc, calloc and realloc are defined here and hand over to the next ones in link order (the C
 * library's, or a sanitizer's), so no linker flag is needed. */
#ifndef FY_TESTS_ALLOC_FAIL_H
#define FY_TESTS_ALLOC_FAIL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

static long alloc_left = -1; /* -1: allocations succeed */
static bool alloc_has_failed;

static void alloc_fail_after(long n)
{
    alloc_has_failed = false;
    alloc_left = n;
}

static bool alloc_fail_end(void)
{
    alloc_left = -1;
    return alloc_has_failed;
}

static bool alloc_must_fail(void)
{
    if (alloc_left < 0)
        return false;
    if (alloc_left-- > 0)
        return false;
    alloc_has_failed = true;
    return true;
}

#define ALLOC_WRAP(name, params, args)                                                             \
    void *name params                                                                              \
    {                                                                                              \
        static void *(*next)params;                                                                \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return alloc_must_fail() ? NULL : next args;                                               \
    }
ALLOC_WRAP(malloc, (size_t n), (n))
ALLOC_WRAP(calloc, (size_t n, size_t size), (n, size))
ALLOC_WRAP(realloc, (void *p, size_t n), (p, n))
#undef ALLOC_WRAP

#endif
