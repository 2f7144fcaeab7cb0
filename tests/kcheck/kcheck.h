/* kcheck runs the checks of kernel_check.h with guards around every buffer.
 *
 * One result is one kernel and one property, in TAP. Each property runs twice: with all buffers
 * ending at an inaccessible page, then with all buffers beginning after one, so that touching a
 * byte outside is a fault, which is caught and reported; the open side carries a canary. All random
 * data comes from one seed (--seed N). */
#ifndef FY_TESTS_KCHECK_H
#define FY_TESTS_KCHECK_H

#include "tests/kcheck/kernel_check.h"

/* Kernels over an emulation of instructions that this CPU may lack (emulated.c). */
extern const fy_kernel_row kc_emulated_rows[];
extern const int kc_n_emulated_rows;

/* --- buffers (guard.c) --- */

typedef enum {
    KC_AT_END,   /* the byte after a buffer is inaccessible */
    KC_AT_START, /* the byte before it is */
} kc_side;

void kc_slots_open(void);
void kc_slots_side(kc_side side);

/* n bytes against the inaccessible page of the slot. */
fy_kc_place_fn kc_place_guarded;

/* False when a canary of any placement since kc_slots_side was overwritten. */
bool kc_slots_intact(void);

/* Runs a check; a fault inside it is a failed check. */
bool kc_run_guarded(fy_kc_check *check, fy_kc_case *t);

/* --bench: rates of the kernels this CPU can run whose name contains `filter` (NULL: all). */
void kc_bench(uint32_t features, const char *filter);

#endif
