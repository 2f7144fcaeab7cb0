/* Holds every kernel of kernel_list.h to its contract (kernels.h) and to the scalar specification,
 * on random data with inaccessible pages around the buffers.
 *
 * A check is one property of one operation. It makes its data from a seed, puts it where `place`
 * says, runs the kernel, and compares. */
#ifndef FY_TESTS_KERNEL_CHECK_H
#define FY_TESTS_KERNEL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* --- kernels and properties ------------------------------------------------------------------- */

typedef struct {
    uint64_t state;
} fy_kc_random;

/* The buffers of a call. */
typedef enum {
    FY_KC_W,
    FY_KC_X,
    FY_KC_Q,
    FY_KC_D,
    FY_KC_SUM,
    FY_KC_Y,
    FY_KC_K,
    FY_KC_V,
    FY_KC_SCRATCH,
    FY_KC_N_SLOTS,
} fy_kc_slot;

enum { FY_KC_SLOT_BYTES = 2 << 20, FY_KC_WORK_BYTES = 3 << 20 };

/* n bytes (at most FY_KC_SLOT_BYTES less 256) for the slot, contents undefined; what it held before
 * is gone. */
typedef void *fy_kc_place_fn(fy_kc_slot slot, size_t n_bytes, void *user);

typedef struct {
    fy_kernels k;    /* the scalar table with the kernel under test in its place */
    fy_kernels spec; /* the scalar table */
    fy_type type;    /* of the weights or rows, where the operation has one */
    fy_kc_random random;
    void *work; /* view: FY_KC_WORK_BYTES for the data of the check */
    fy_kc_place_fn *place;
    void *user;
    char why[256]; /* what failed */
} fy_kc_case;

typedef bool fy_kc_check(fy_kc_case *t);

/* What is asked of an operation. Properties that compare with the specification are not asked of
 * it. */
typedef struct {
    const char *op;
    fy_type type;
    bool against_spec;
    const char *property; /* "equals the specification" */
    fy_kc_check *check;
} fy_kc_property;

extern const fy_kc_property fy_kc_properties[];
extern const int fy_kc_n_properties;
bool fy_kc_is_asked(const fy_kernel_row *row, const fy_kc_property *p);
/* Some property of the operation compares with the specification. */
bool fy_kc_has_spec_property(const char *op);

/* A case of a kernel; its `work`, `place` and `user` are the caller's to set. */
fy_kc_case fy_kc_case_of(const fy_kernel_row *row, const fy_kc_property *p, uint64_t seed);

/* --- for checks ------------------------------------------------------------------------------- */

uint64_t fy_kc_next(fy_kc_random *r);
int fy_kc_between(fy_kc_random *r, int low, int high); /* both included */
float fy_kc_uniform(fy_kc_random *r);                  /* [-1, 1) */
float fy_kc_normal(fy_kc_random *r);                   /* mean 0, variance 1, nearly */

/* Records why and returns false. */
bool fy_kc_fail(fy_kc_case *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Equal bits, or both NaN. */
bool fy_kc_same(float a, float b);
bool fy_kc_same_all(fy_kc_case *t, const char *what, const float *got, const float *expected,
                    int64_t n);

/* Random blocks of everyday size; the ends of every range; values that are hard for the type. */
typedef enum { FY_KC_USUAL, FY_KC_ENDS, FY_KC_ODD, FY_KC_N_FILLS } fy_kc_fill;
float fy_kc_usual_scale(fy_kc_random *r);
/* An element at the low or high end, by one of four patterns that a block keeps to. */
bool fy_kc_pick_high(fy_kc_random *r, int pattern, int i);
void fy_kc_fill_block(fy_kc_random *r, fy_type type, fy_kc_fill how, uint8_t *block);
/* The f16 scale and, where the type has one, minimum of a block. */
void fy_kc_set_scales(fy_type type, uint8_t *block, uint16_t d, uint16_t m);

/* An element of a row of blocks: q * scale, + min. */
typedef struct {
    int q;
    double scale, min;
    bool has_min;
} fy_kc_element;
/* By the kernels of a block type; n elements. */
void fy_kc_decode(const fy_kernels *k, fy_type type, float *y, const void *x, int64_t n);
void fy_kc_encode(const fy_kernels *k, fy_type type, void *y, const float *x, int64_t n);

fy_kc_element fy_kc_element_at(fy_type type, const uint8_t *row, int64_t index);

void *fy_kc_place(fy_kc_case *t, fy_kc_slot slot, size_t n_bytes);
void *fy_kc_place_copy(fy_kc_case *t, fy_kc_slot slot, const void *from, size_t n_bytes);

fy_kc_check fy_kc_matmul_equals_spec, fy_kc_matmul_block_near, fy_kc_matmul_float_near,
    fy_kc_matmul_any_shape;
fy_kc_check fy_kc_act_equals_spec, fy_kc_act_half_step, fy_kc_act_not_finite;
fy_kc_check fy_kc_encode_equals_spec, fy_kc_encode_near, fy_kc_encode_not_finite,
    fy_kc_decode_exact;
fy_kc_check fy_kc_fit_equals_spec, fy_kc_fit_no_worse, fy_kc_fit_not_finite,
    fy_kc_weighted_equals_spec, fy_kc_weighted_not_finite;
fy_kc_check fy_kc_widen_exact, fy_kc_narrow_nearest, fy_kc_half_lengths, fy_kc_half_equals_spec;
fy_kc_check fy_kc_dot_rows_equal_matmul, fy_kc_add_rows_equal_spec, fy_kc_add_rows_near;
fy_kc_check fy_kc_add_tile_equals_spec, fy_kc_add_tile_near;
fy_kc_check fy_kc_attend_dots_equal_spec, fy_kc_attend_dots_near, fy_kc_attend_dots_alone;
fy_kc_check fy_kc_attend_softmax_equals_spec, fy_kc_attend_softmax_near;
fy_kc_check fy_kc_attend_add_equals_spec, fy_kc_attend_add_near, fy_kc_attend_add_alone;
fy_kc_check fy_kc_rms_norm_equals_spec, fy_kc_rms_norm_near, fy_kc_rms_norm_in_place;
fy_kc_check fy_kc_silu_equals_spec, fy_kc_silu_near;
fy_kc_check fy_kc_error_equals_spec, fy_kc_error_near;
fy_kc_check fy_kc_layer_norm_equals_spec, fy_kc_layer_norm_near, fy_kc_layer_norm_in_place;
fy_kc_check fy_kc_gelu_equals_spec, fy_kc_gelu_near, fy_kc_gelu_tanh_equals_spec,
    fy_kc_gelu_tanh_near, fy_kc_relu_equals_spec, fy_kc_relu_near, fy_kc_drelu_equals_spec,
    fy_kc_drelu_near, fy_kc_swiglu_oai_equals_spec, fy_kc_swiglu_oai_near,
    fy_kc_softcap_equals_spec, fy_kc_softcap_near;

#endif
