/* What the tests of families with experts ask of their rows. Include it after cmocka.h. */
#ifndef FY_TESTS_EXPERT_ROWS_H
#define FY_TESTS_EXPERT_ROWS_H

#include <string.h>

#include "tests/unit/arch/family_rows.h"

/* A form of a row: its source's name in layer 3 (of expert 5), its transform and its shape. */
typedef struct {
    const char *hf;
    fy_transform transform;
    uint64_t dims[3]; /* of one source, 0 behind the last */
} form_case;

/* The forms of blk.3.NAME, in the order in which they are tried: one row and its alternatives. */
static inline void expect_forms(const fy_family *f, const fy_hparams *hp, const char *gguf,
                                const form_case *cases, size_t n)
{
    const fy_tensor_row *row = row_of(f, gguf);
    for (size_t i = 0; i < n; i++, row++) {
        char hf[FY_ROW_NAME_BYTES];
        uint64_t dims[FY_GGUF_MAX_DIMS];
        assert_true(row < f->rows + f->n_rows);
        assert_string_equal(row->gguf, row_of(f, gguf)->gguf);
        assert_int_equal((row->flags & FY_ROW_ALT) != 0, i > 0);
        fy_row_expert_name(row->hf, 3, 5, hf);
        assert_string_equal(hf, cases[i].hf);
        assert_int_equal(row->transform, cases[i].transform);
        uint32_t n_dims = fy_row_source_shape(hp, row, dims);
        assert_int_equal(n_dims, cases[i].dims[2] == 0 ? 2 : 3);
        assert_memory_equal(dims, cases[i].dims, n_dims * sizeof *dims);
    }
    assert_true(row == f->rows + f->n_rows || !(row->flags & FY_ROW_ALT));
}

#define EXPECT_FORMS(f, hp, gguf, ...)                          \
    expect_forms(f, hp, gguf, (const form_case[]){__VA_ARGS__}, \
                 sizeof((const form_case[]){__VA_ARGS__}) / sizeof(form_case))

/* The stacked tensors in GGUF order. */
static inline void expect_stacks(const fy_family *f, const fy_hparams *hp)
{
    const struct {
        const char *gguf;
        uint64_t ne0, ne1;
    } stacks[] = {{"blk.3.ffn_gate_exps.weight", hp->n_embd, hp->n_ff_exp},
                  {"blk.3.ffn_up_exps.weight", hp->n_embd, hp->n_ff_exp},
                  {"blk.3.ffn_down_exps.weight", hp->n_ff_exp, hp->n_embd}};
    uint64_t ne[FY_GGUF_MAX_DIMS];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(fy_row_shape(hp, row_of(f, stacks[i].gguf), ne), 3);
        assert_int_equal(ne[0], stacks[i].ne0);
        assert_int_equal(ne[1], stacks[i].ne1);
        assert_int_equal(ne[2], hp->n_expert);
    }
    const fy_tensor_row *router = row_of(f, "blk.3.ffn_gate_inp.weight");
    assert_int_equal(fy_row_shape(hp, router, ne), 2);
    assert_true(ne[0] == hp->n_embd && ne[1] == hp->n_expert);
    assert_int_equal(router->flags, 0); /* f32 */
}

/* A file with these values, and without keys for them, means the same to its reader. */
static inline void expect_routing(const fy_family *f, fy_gating gating, bool norm)
{
    const fy_family *reader = fy_family_of_gguf(fy_span_of(f->gguf_arch), true);
    assert_true(f->moe);
    assert_int_equal(reader->defaults.gating, gating);
    assert_int_equal(reader->defaults.expert_norm, norm);
    assert_int_equal(f->defaults.gating, gating);
}

#endif
