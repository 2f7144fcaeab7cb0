/* What the tests of family tables ask of their rows. Include it after cmocka.h. */
#ifndef FY_TESTS_FAMILY_ROWS_H
#define FY_TESTS_FAMILY_ROWS_H

#include <string.h>

#include "arch/arch.h"

/* The family that reads the files of an architecture, found by a class that is written in it. */
static inline const fy_family *family_of(const char *hf_class, const char *gguf_arch)
{
    const fy_family *f = fy_family_of_hf(fy_span_of(hf_class));
    assert_non_null(f);
    assert_string_equal(f->gguf_arch, gguf_arch);
    assert_non_null(fy_family_of_gguf(fy_span_of(gguf_arch), f->moe));
    return f;
}

/* The defaults of the class, complete. */
static inline fy_hparams whole_model(const fy_family *f)
{
    fy_hparams hp = f->defaults;
    fy_err e = {0};
    uint32_t head_dim = hp.head_dim != 0 ? hp.head_dim : hp.n_embd / hp.n_head;
    if (hp.n_rot == 0 && f->rot_part != 0)
        hp.n_rot = (uint32_t)((float)head_dim * f->rot_part);
    fy_hparams_derive(&hp, f);
    assert_int_equal(fy_hparams_check(&hp, f, &e), 0);
    return hp;
}

typedef struct {
    const char *gguf, *hf;
    uint64_t ne0, ne1; /* ne1 1: a vector */
} row_case;

/* Each tensor is a row with that source and that shape in GGUF order. */
static inline void expect_rows(const fy_family *f, const fy_hparams *hp, const row_case *cases,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t ne[FY_GGUF_MAX_DIMS];
        uint32_t layer;
        char hf[FY_ROW_NAME_BYTES] = "";
        const fy_tensor_row *row = fy_row_of_gguf(f, fy_span_of(cases[i].gguf), &layer);
        if (row == NULL)
            fail_msg("no row for %s", cases[i].gguf);
        if (row->hf != NULL)
            fy_row_name(row->hf, layer, hf);
        assert_string_equal(hf, cases[i].hf);
        assert_int_equal(fy_row_shape(hp, row, ne), cases[i].ne1 == 1 ? 1 : 2);
        assert_int_equal(ne[0], cases[i].ne0);
        assert_int_equal(ne[1], cases[i].ne1);
    }
}

static inline const fy_tensor_row *row_of(const fy_family *f, const char *gguf)
{
    uint32_t layer;
    const fy_tensor_row *row = fy_row_of_gguf(f, fy_span_of(gguf), &layer);
    assert_non_null(row);
    return row;
}

/* The family refuses every other value of the key. */
static inline void expect_rule(const fy_family *f, const char *key, const char *must)
{
    for (size_t i = 0; i < f->n_rules; i++) {
        if (strcmp(f->rules[i].key, key) == 0) {
            assert_string_equal(f->rules[i].must, must);
            return;
        }
    }
    fail_msg("no rule about %s", key);
}

#define EXPECT_ROWS(f, hp, cases) expect_rows(f, hp, cases, sizeof(cases) / sizeof((cases)[0]))

/* --- families with experts --- */

/* A form of a row: its source's name in layer 3 (of expert 5), its transform and its shape. */
typedef struct {
    const char *hf;
    fy_transform transform;
    uint64_t dims[3]; /* of one source, 0 after the last */
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
