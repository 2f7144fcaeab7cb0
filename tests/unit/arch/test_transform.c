/* Every choice of rows against the reshape and permute that the model's own code does: a matrix is
 * the list of its rows' numbers, so that a reordered one says where each row came from. */
#include "arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_ROWS = 4096 };

/* n rows of the GGUF tensor as fy_transform_row has them, against `expected`. */
static void compare(const fy_hparams *hp, fy_transform x, const uint64_t *expected, size_t n)
{
    fy_tensor_row row = {.transform = x, .dims = {FY_D_Q, FY_D_EMBD}};
    for (size_t r = 0; r < n; r++)
        assert_int_equal(fy_transform_row(hp, &row, r), expected[r]);
}

static fy_hparams grouped(void)
{
    return (fy_hparams){
        .n_embd = 24, .n_head = 6, .n_head_kv = 2, .head_dim = 8, .head_dim_v = 8, .n_rot = 8};
}

/* .reshape(heads, 2, head_dim / 2).swapaxes(1, 2): halves become neighbours. */
static size_t permuted(const uint64_t *src, uint32_t heads, uint32_t head_dim, uint64_t *out)
{
    size_t n = 0;
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t j = 0; j < head_dim / 2; j++) {
            for (uint32_t half = 0; half < 2; half++)
                out[n++] = src[h * head_dim + half * (head_dim / 2) + j];
        }
    }
    return n;
}

static void count(uint64_t *rows, size_t n, uint64_t first)
{
    for (size_t i = 0; i < n; i++)
        rows[i] = first + i;
}

static void halves_become_neighbours_in_each_head(void **state)
{
    (void)state;
    fy_hparams hp = grouped();
    uint64_t src[MAX_ROWS], expected[MAX_ROWS];
    count(src, MAX_ROWS, 0);
    size_t n = permuted(src, hp.n_head, hp.head_dim, expected);
    assert_int_equal(n, 48);
    compare(&hp, FY_X_PERMUTE_Q, expected, n);
    n = permuted(src, hp.n_head_kv, hp.head_dim, expected);
    compare(&hp, FY_X_PERMUTE_K, expected, n);
}

static void a_packed_matrix_is_cut_in_three(void **state)
{
    (void)state;
    fy_hparams hp = grouped();
    hp.n_head_kv = hp.n_head;
    uint64_t src[MAX_ROWS], expected[MAX_ROWS];
    const fy_transform parts[] = {FY_X_PACK_Q, FY_X_PACK_K, FY_X_PACK_V};
    for (uint64_t i = 0; i < 3; i++) {
        count(src, 48, 48 * i);
        size_t n = permuted(src, hp.n_head, hp.head_dim, expected);
        compare(&hp, parts[i], i < 2 ? expected : src, n);
    }
}

/* .reshape(n_head_kv, n_head / n_head_kv + 2, head_dim): the q heads, the k head, the v head. */
static void take_groups_apart(const fy_hparams *hp, uint64_t *q, uint64_t *k, uint64_t *v)
{
    uint64_t r = 0;
    uint32_t per_group = hp->n_head / hp->n_head_kv;
    for (uint32_t g = 0; g < hp->n_head_kv; g++) {
        for (uint32_t slot = 0; slot < per_group + 2; slot++) {
            for (uint32_t i = 0; i < hp->head_dim; i++, r++) {
                if (slot < per_group)
                    q[(g * per_group + slot) * hp->head_dim + i] = r;
                else
                    (slot == per_group ? k : v)[g * hp->head_dim + i] = r;
            }
        }
    }
}

static void groups_are_taken_apart(void **state)
{
    (void)state;
    static const uint32_t heads[][2] = {{6, 2}, {4, 4}, {5, 1}, {8, 4}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        fy_hparams hp = grouped();
        hp.n_head = heads[i][0];
        hp.n_head_kv = heads[i][1];
        uint64_t q[MAX_ROWS], k[MAX_ROWS], v[MAX_ROWS], expected[MAX_ROWS];
        size_t n_q = hp.n_head * hp.head_dim, n_k = hp.n_head_kv * hp.head_dim;
        take_groups_apart(&hp, q, k, v);
        permuted(q, hp.n_head, hp.head_dim, expected);
        compare(&hp, FY_X_GROUP_Q, expected, n_q);
        permuted(k, hp.n_head_kv, hp.head_dim, expected);
        compare(&hp, FY_X_GROUP_K, expected, n_k);
        compare(&hp, FY_X_GROUP_V, v, n_k);
        memcpy(expected, q, n_q * sizeof *q);
        memcpy(expected + n_q, k, n_k * sizeof *k);
        memcpy(expected + n_q + n_k, v, n_k * sizeof *v);
        compare(&hp, FY_X_GROUP_QKV, expected, n_q + 2 * n_k);
    }
}

/* Falcon 7B: one head of k and of v below all heads of q, which is the order already. */
static void one_group_is_in_order(void **state)
{
    (void)state;
    fy_hparams hp = grouped();
    hp.n_head_kv = 1;
    uint64_t src[MAX_ROWS];
    count(src, (6 + 2) * 8, 0);
    compare(&hp, FY_X_GROUP_QKV, src, (6 + 2) * 8);
}

/* As CodeGen's attention does it: .reshape(groups, 3 * rows of a matrix in a group), split in q, v,
 * k, heads of all groups side by side. */
static void ungroup(const fy_hparams *hp, uint64_t *part[3])
{
    uint64_t local = (uint64_t)hp->n_head * hp->head_dim / hp->n_qkv_groups, r = 0;
    for (uint32_t g = 0; g < hp->n_qkv_groups; g++) {
        for (int p = 0; p < 3; p++) {
            for (uint64_t i = 0; i < local; i++)
                part[p][g * local + i] = r++;
        }
    }
}

/* The first n_rot rows of each head: pair (2i, 2i + 1) -> (i, i + n_rot/2). */
static void to_halves(const fy_hparams *hp, const uint64_t *src, uint64_t *out)
{
    for (uint32_t h = 0; h < hp->n_head; h++) {
        const uint64_t *from = src + h * hp->head_dim;
        uint64_t *to = out + h * hp->head_dim;
        memcpy(to, from, hp->head_dim * sizeof *to);
        for (uint32_t i = 0; i < hp->n_rot / 2; i++) {
            to[i] = from[2 * i];
            to[hp->n_rot / 2 + i] = from[2 * i + 1];
        }
    }
}

static void codegen_is_taken_apart_with_four_and_with_eight_groups(void **state)
{
    (void)state;
    static const uint32_t groups[] = {4, 8}, rotated[] = {4, 8};
    for (size_t i = 0; i < 4; i++) {
        fy_hparams hp = grouped();
        hp.n_head = hp.n_head_kv = 16;
        hp.n_qkv_groups = groups[i % 2];
        hp.n_rot = rotated[i / 2];
        uint64_t q[MAX_ROWS], k[MAX_ROWS], v[MAX_ROWS], expected[MAX_ROWS];
        uint64_t *parts[3] = {q, v, k};
        size_t n = 16 * hp.head_dim;
        ungroup(&hp, parts);
        to_halves(&hp, q, expected);
        compare(&hp, FY_X_CODEGEN_Q, expected, n);
        to_halves(&hp, k, expected);
        compare(&hp, FY_X_CODEGEN_K, expected, n);
        compare(&hp, FY_X_CODEGEN_V, v, n);
    }
}

static void halves_are_cut_from_each_expert(void **state)
{
    (void)state;
    const fy_hparams hp = {.n_embd = 8, .n_expert = 3, .n_ff_exp = 4, .n_ff_shexp = 5};
    const fy_tensor_row experts = {.dims = {FY_D_EXPERT, FY_D_FF_EXP, FY_D_EMBD}},
                        shared = {.dims = {FY_D_FF_SHEXP, FY_D_EMBD}};
    for (uint64_t half = 0; half < 2; half++) {
        fy_tensor_row a = experts, b = shared;
        a.transform = b.transform = half == 0 ? FY_X_FIRST_HALF : FY_X_SECOND_HALF;
        for (uint64_t e = 0; e < 3; e++) {
            for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(fy_transform_row(&hp, &a, e * 4 + i), e * 8 + half * 4 + i);
        }
        for (uint64_t i = 0; i < 5; i++)
            assert_int_equal(fy_transform_row(&hp, &b, i), half * 5 + i);
    }
}

static void rows_that_take_turns_are_told_apart(void **state)
{
    (void)state;
    const fy_hparams hp = {.n_embd = 8, .n_expert = 3, .n_ff_exp = 4};
    for (uint64_t odd = 0; odd < 2; odd++) {
        const fy_tensor_row row = {.dims = {FY_D_EXPERT, FY_D_FF_EXP, FY_D_EMBD},
                                   .transform = odd ? FY_X_ODD : FY_X_EVEN};
        for (uint64_t e = 0; e < 3; e++) {
            for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(fy_transform_row(&hp, &row, e * 4 + i), e * 8 + 2 * i + odd);
        }
    }
}

static void the_rest_keeps_its_rows(void **state)
{
    (void)state;
    const fy_hparams hp = grouped();
    uint64_t src[MAX_ROWS];
    count(src, 48, 0);
    compare(&hp, FY_X_COPY, src, 48);
    compare(&hp, FY_X_ADD_ONE, src, 48);
    count(src, 48, 2);
    compare(&hp, FY_X_SKIP_2, src, 48);
}

static void a_transform_computes_transposes_or_chooses_rows(void **state)
{
    (void)state;
    for (int x = FY_X_COPY; x <= FY_X_CODEGEN_V; x++) {
        bool computed = x == FY_X_LLAMA3_FREQS || x == FY_X_LONG_FACTORS ||
                        x == FY_X_SHORT_FACTORS || x == FY_X_PART_FREQS || x == FY_X_ZEROS;
        bool transpose = x == FY_X_TRANSPOSE || x == FY_X_TRANSPOSE_FIRST_HALF ||
                         x == FY_X_TRANSPOSE_SECOND_HALF || x == FY_X_TRANSPOSE_EVEN ||
                         x == FY_X_TRANSPOSE_ODD;
        assert_int_equal(fy_transform_is_computed((fy_transform)x), computed);
        assert_int_equal(fy_transform_is_transpose((fy_transform)x), transpose);
    }
}

/* Value heads by key head [k][r] become [r][k]. */
static void heads_of_values_are_dealt_to_the_heads_of_keys(void **state)
{
    (void)state;
    const fy_hparams hp = {
        .ssm_heads = 6, .ssm_groups = 2, .ssm_state = 4, .ssm_inner = 30, .n_embd = 8};
    static const uint64_t order[] = {0, 3, 1, 4, 2, 5}; /* .reshape(2, 3).T */
    const fy_tensor_row a = {.transform = FY_X_VALUE_NEG_EXP, .dims = {FY_D_SSM_HEADS}},
                        z = {.transform = FY_X_VALUE_ROWS, .dims = {FY_D_SSM_INNER, FY_D_EMBD}},
                        qkv = {.transform = FY_X_VALUE_QKV, .dims = {FY_D_SSM_CHANNELS, FY_D_EMBD}};
    for (uint64_t h = 0; h < 6; h++)
        assert_int_equal(fy_transform_row(&hp, &a, h), order[h]);
    for (uint64_t r = 0; r < 30; r++) {
        const uint64_t from = order[r / 5] * 5 + r % 5;
        assert_int_equal(fy_transform_row(&hp, &z, r), from);
        assert_int_equal(fy_value_column(&hp, r), from);
        assert_int_equal(fy_transform_row(&hp, &qkv, 16 + r), 16 + from);
    }
    for (uint64_t r = 0; r < 16; r++)
        assert_int_equal(fy_transform_row(&hp, &qkv, r), r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_become_neighbours_in_each_head),
        cmocka_unit_test(a_packed_matrix_is_cut_in_three),
        cmocka_unit_test(groups_are_taken_apart),
        cmocka_unit_test(one_group_is_in_order),
        cmocka_unit_test(codegen_is_taken_apart_with_four_and_with_eight_groups),
        cmocka_unit_test(halves_are_cut_from_each_expert),
        cmocka_unit_test(rows_that_take_turns_are_told_apart),
        cmocka_unit_test(the_rest_keeps_its_rows),
        cmocka_unit_test(a_transform_computes_transposes_or_chooses_rows),
        cmocka_unit_test(heads_of_values_are_dealt_to_the_heads_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
