/* What the operations share: values as doubles, rounding, shapes. */
#ifndef FY_QNNREF_REF_OPS_H
#define FY_QNNREF_REF_OPS_H

#include "qnnref/ref_impl.h"

/* What becomes of half a step, and of what is between two steps. FERRY_REF_ROUND=away|up|trunc puts
 * one for all of them. */
typedef enum { REF_EVEN, REF_AWAY, REF_UP, REF_DOWN, REF_TRUNC } ref_rounding;

double ref_round(double v, ref_rounding how);

/* Elements first .. first + n - 1 as real values. f32 goes through f16 when `half`: the NPU
 * computes float tensors so. */
void ref_load(double *to, const ref_tensor *t, const void *p, uint64_t first, uint64_t n,
              bool half);
void ref_store(void *p, const ref_tensor *t, uint64_t first, const double *from, uint64_t n,
               ref_rounding how, bool half);
/* Codes of a quantized or integer tensor, offset added for quantized ones. */
void ref_load_codes(int32_t *to, const ref_tensor *t, const void *p, uint64_t first, uint64_t n);
/* real / scale, rounded, less the offset, within the type. */
int32_t ref_quantize(const ref_tensor *t, double real, ref_rounding how);

/* The binary places, 15 at most, with which factors up to `most` fit 16 bits. */
int ref_multiplier_bits(double most);

bool ref_is_float(uint32_t data_type);
bool ref_same_shape(const ref_tensor *a, const ref_tensor *b);
/* ABI_GRAPH_OP with the node's name in the log. */
abi_error ref_bad_node(const ref_node *n, const char *why);

abi_error ref_check_linear(const ref_node *n);
abi_error ref_check_matmul(const ref_node *n);
abi_error ref_check_unary(const ref_node *n);
abi_error ref_check_neuron(const ref_node *n);
abi_error ref_check_binary(const ref_node *n);
abi_error ref_check_select(const ref_node *n);
abi_error ref_check_norm(const ref_node *n);
abi_error ref_check_softmax(const ref_node *n);
abi_error ref_check_reduce(const ref_node *n);
abi_error ref_check_rope(const ref_node *n);
abi_error ref_check_same(const ref_node *n); /* one input, same shape */
abi_error ref_check_reshape(const ref_node *n);
abi_error ref_check_transpose(const ref_node *n);
abi_error ref_check_concat(const ref_node *n);
abi_error ref_check_split(const ref_node *n);
abi_error ref_check_slice(const ref_node *n);
abi_error ref_check_tile(const ref_node *n);
abi_error ref_check_gather(const ref_node *n);

abi_error ref_run_linear(ref_run *r, const ref_node *n);
abi_error ref_run_matmul(ref_run *r, const ref_node *n);
abi_error ref_run_unary(ref_run *r, const ref_node *n);
abi_error ref_run_binary(ref_run *r, const ref_node *n);
abi_error ref_run_select(ref_run *r, const ref_node *n);
abi_error ref_run_norm(ref_run *r, const ref_node *n);
abi_error ref_run_softmax(ref_run *r, const ref_node *n);
abi_error ref_run_reduce(ref_run *r, const ref_node *n);
abi_error ref_run_rope(ref_run *r, const ref_node *n);
abi_error ref_run_convert(ref_run *r, const ref_node *n);
abi_error ref_run_copy(ref_run *r, const ref_node *n);
abi_error ref_run_transpose(ref_run *r, const ref_node *n);
abi_error ref_run_concat(ref_run *r, const ref_node *n);
abi_error ref_run_split(ref_run *r, const ref_node *n);
abi_error ref_run_slice(ref_run *r, const ref_node *n);
abi_error ref_run_tile(ref_run *r, const ref_node *n);
abi_error ref_run_gather(ref_run *r, const ref_node *n);

/* Variants of the functions above. */
enum { REF_CONV, REF_FC };
enum {
    REF_SIGMOID,
    REF_TANH,
    REF_GELU,
    REF_RELU,
    REF_EXP,
    REF_RSQRT,
    REF_HARDSWISH,
    REF_NEG,
    REF_SIN,
    REF_COS,
    REF_SQRT,
    REF_NEURON
};
enum { REF_ADD, REF_SUB, REF_MUL, REF_DIV, REF_MAX, REF_MIN, REF_GREATER };
enum { REF_RMS, REF_LAYER, REF_L2 };
enum { REF_MEAN, REF_LEAST };
enum { REF_CONVERT, REF_QUANTIZE, REF_DEQUANTIZE, REF_CAST };

#endif
