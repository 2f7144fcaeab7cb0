/* kcheck holds every kernel of kernel_list.h to its contract (kernels/kernels.h) and to the scalar
 * specification.
 *
 * One result is one kernel and one property, in TAP. Each property runs twice: with all buffers
 * ending at an inaccessible page, then with all buffers beginning behind one, so that touching a
 * byte outside is a fault, which is caught and reported; the open side carries a canary. All random
 * data comes from one seed (--seed N). */
#ifndef FY_TESTS_KCHECK_H
#define FY_TESTS_KCHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

typedef struct {
    const char *op, *isa;
    uint32_t needs;                 /* features */
    void (*install)(fy_kernels *k); /* puts the kernel into its member */
} kc_row;

extern const kc_row kc_rows[];
extern const int kc_n_rows;

typedef struct {
    uint64_t state;
} kc_random;

uint64_t kc_next(kc_random *r);
int kc_between(kc_random *r, int low, int high); /* both included */
float kc_uniform(kc_random *r);                  /* [-1, 1) */
float kc_normal(kc_random *r);                   /* mean 0, variance 1, nearly */

typedef struct {
    fy_kernels k;    /* the scalar table with the kernel under test in its place */
    fy_kernels spec; /* the scalar table */
    fy_type type;    /* of the weights or rows, where the operation has one */
    kc_random random;
    char why[256]; /* what failed */
} kc_case;

/* Records why and returns false. */
bool kc_fail(kc_case *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Equal bits, or both NaN. */
bool kc_same(float a, float b);
bool kc_same_all(kc_case *t, const char *what, const float *got, const float *expected, int64_t n);

typedef bool kc_check(kc_case *t);

/* --- buffers (guard.c) --- */

typedef enum {
    KC_W,
    KC_X,
    KC_Q,
    KC_D,
    KC_SUM,
    KC_Y,
    KC_K,
    KC_V,
    KC_SCORES,
    KC_SCRATCH,
    KC_N_SLOTS,
} kc_slot;

enum { KC_SLOT_BYTES = 2 << 20 };

typedef enum {
    KC_AT_END,   /* the byte behind a buffer is inaccessible */
    KC_AT_START, /* the byte before it is */
} kc_side;

void kc_slots_open(void);
void kc_slots_side(kc_side side);

/* n bytes against the inaccessible page of the slot; what the slot held before is gone. Contents
 * undefined. */
void *kc_place(kc_slot slot, size_t n_bytes);
void *kc_place_copy(kc_slot slot, const void *from, size_t n_bytes);

/* False when a canary of any placement since kc_slots_side was overwritten. */
bool kc_slots_intact(void);

/* Runs a check; a fault inside it is a failed check. */
bool kc_run_guarded(kc_check *check, kc_case *t);

/* --- checks --- */

kc_check kc_matmul_equals_spec, kc_matmul_block_near, kc_matmul_float_near, kc_matmul_any_shape;
kc_check kc_act_equals_spec, kc_act_half_step, kc_act_not_finite;
kc_check kc_encode_equals_spec, kc_encode_near, kc_encode_not_finite, kc_decode_exact;
kc_check kc_widen_exact, kc_narrow_nearest, kc_half_lengths, kc_half_equals_spec;
kc_check kc_attend_equals_spec, kc_attend_near, kc_attend_any_stride, kc_attend_keeps_nan;
kc_check kc_rms_norm_equals_spec, kc_rms_norm_near, kc_rms_norm_in_place;
kc_check kc_silu_equals_spec, kc_silu_near;

/* --bench: rates of the kernels this CPU can run whose name contains `filter` (NULL: all). */
void kc_bench(uint32_t features, const char *filter);

#endif
