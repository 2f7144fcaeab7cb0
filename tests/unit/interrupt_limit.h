/* How late a test may find that an interrupt was heard. The promise is 0.3 s; a sanitizer on a busy
 * machine takes longer, and code that does not poll takes several seconds in these tests. */
#ifndef FY_TESTS_INTERRUPT_LIMIT_H
#define FY_TESTS_INTERRUPT_LIMIT_H

#define INTERRUPT_LIMIT_S 1.5

#endif
