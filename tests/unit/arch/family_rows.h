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

#endif
