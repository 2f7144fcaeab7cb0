/* Graphs of one operation each, to ask a QNN library what it accepts and what it computes. The
 * table is workspace/data/qnn_cases.json; its header comment is here, since JSON has none. A case
 * is
 *
 *     {"name": "conv u16 x s8", "op": "Conv2d", "in": [OPERAND...], "out": [OPERAND...]}
 *
 * An operand is "[const ]TYPE[DIMS] ENCODING". TYPE: u8 u16 s8 s16 s32 f16 f32 i32 bool. ENCODING:
 *
 * "LO to HI": the whole range of the type; with "from X" values begin at X. Of floats: their
 * values.
 *
 * "sym A": symmetric, -A to A.
 *
 * "scale S OFFSET": as it is; S may be a fraction. With "zero" the values are 0, with "ends" the
 * two ends of the type alone.
 *
 * "axis N [bits 4 [signed]]", "axis N lpbq BLOCK [masked]": a scale a channel, of constants.
 *
 * "bias [tensor|zero]", "scale 0 0 bias": of the input and the weights before it.
 *
 * "below N": integers.
 *
 * `params` replaces those of the operation in the table's "params". A whole number is a UINT_32, or
 * INT_32 where its key ends with ":i32"; a real is a FLOAT_32, a list a constant tensor. */
#ifndef FY_WORKSPACE_QNN_CASE_H
#define FY_WORKSPACE_QNN_CASE_H

#include "backend/qnn/qnn_graph.h"

typedef struct fy_qnn_cases fy_qnn_cases;

fy_qnn_cases *fy_qnn_cases_open(fy_err *e); /* the table that is compiled in; NULL on failure */
fy_qnn_cases *fy_qnn_cases_parse(const char *text, size_t n, fy_err *e);
void fy_qnn_cases_free(fy_qnn_cases *c); /* NULL is fine */
size_t fy_qnn_cases_n(const fy_qnn_cases *c);
const char *fy_qnn_case_name(const fy_qnn_cases *c, size_t i);

/* The steps that a case takes, in their order. */
enum {
    FY_QNN_STEP_TENSOR,
    FY_QNN_STEP_VALIDATE,
    FY_QNN_STEP_ADD,
    FY_QNN_STEP_FINALIZE,
    FY_QNN_STEP_EXECUTE,
    FY_QNN_STEPS
};
#define FY_QNN_UNTRIED UINT32_MAX

typedef struct {
    uint32_t code[FY_QNN_STEPS]; /* of the library, its low 16 bits; FY_QNN_UNTRIED */
    bool fixed;                  /* the values are steps of the encoding, else numbers */
    uint32_t n;
    float *values; /* owned, [n]; of the first output, of all rounds; NULL: it was not executed */
} fy_qnn_answer;

/* Composes, checks and runs a case on its own context; a refusal to validate does not end it, since
 * libraries run some of what they refuse. It is executed until there are n_elements results, but at
 * most 40 times, each on other values, the same for every library. Fails only when the case cannot
 * be tried at all. */
int fy_qnn_case_run(const fy_qnn_cases *c, size_t i, const fy_qnn_lib *lib, fy_qnn_handle device,
                    const fy_qnn_chip *chip, uint64_t n_elements, fy_qnn_answer *out, fy_err *e);
void fy_qnn_answer_release(fy_qnn_answer *a);

#endif
