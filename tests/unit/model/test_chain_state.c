#include "model/chain_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A graph that adds 1 to every element of the state that it reads, on memory of its own. */
typedef struct {
    fy_hparams hp;
    fy_chain_states s;
    float *memory[FY_STATE_MEMORIES];
    size_t n; /* elements of a memory */
} chain;

static chain make(void)
{
    chain c = {.hp = {.n_layer = 3, .n_embd = 8, .wkv_head = 4, .n_rank_iclr = 1}};
    c.n = fy_chain_state_bytes(&c.hp, sizeof(float)) / sizeof(float);
    assert_int_equal(c.n, 3 * (8 + 32 + 8));
    return c;
}

static void begin(chain *c)
{
    fy_err e = {0};
    assert_int_equal(fy_chain_states_init(&c->s, &c->hp, sizeof(float), &e), 0);
    for (uint32_t m = 0; m < FY_STATE_MEMORIES; m++) {
        float *at = c->memory[m] = malloc(c->n * sizeof *at);
        for (size_t i = 0; i < c->n; i++)
            at[i] = -1000;
        for (uint32_t layer = 0; layer < c->hp.n_layer; layer++) {
            for (uint32_t part = 0; part < FY_STATE_PARTS; part++) {
                *fy_chain_state_at(&c->s, m, layer, part) = at;
                at += fy_chain_state_len(&c->hp, part);
            }
        }
    }
}

static void end(chain *c)
{
    fy_chain_states_release(&c->s);
    free(c->memory[0]);
    free(c->memory[1]);
}

/* What the call makes of the state. */
static float call(chain *c, uint8_t from, uint8_t to, bool zero, bool succeeds)
{
    fy_chain_states_begin(&c->s, from, to, zero);
    const float *in = c->memory[c->s.reads];
    float *out = c->memory[c->s.reads ^ 1];
    for (size_t i = 0; i < c->n; i++) {
        assert_true(in[i] == in[0]);
        out[i] = succeeds || i < c->n / 2 ? in[i] + 1 : out[i];
    }
    if (succeeds)
        fy_chain_states_end(&c->s, to);
    return out[0];
}

static void calls_go_on_from_each_other(void **state)
{
    (void)state;
    chain c = make();
    begin(&c);
    assert_true(call(&c, 0, 1, true, true) == 1);
    assert_true(call(&c, 1, 0, false, true) == 2);
    assert_true(call(&c, 0, 1, false, true) == 3);
    assert_true(call(&c, 1, 0, true, true) == 1);
    end(&c);
}

/* A call of several steps; then back to what was before it. */
static void the_state_before_a_long_call_stays(void **state)
{
    (void)state;
    chain c = make();
    begin(&c);
    assert_true(call(&c, 0, 1, true, true) == 1);
    assert_true(call(&c, 1, 0, false, true) == 2);
    for (int i = 0; i < 5; i++)
        assert_true(call(&c, 0, 0, false, true) == (float)(3 + i));
    assert_true(call(&c, 1, 0, false, true) == 2); /* undone: on from state 1 again */
    assert_true(call(&c, 0, 0, false, true) == 3);
    assert_true(call(&c, 0, 1, false, true) == 4);
    end(&c);
}

static void a_failed_step_changes_nothing(void **state)
{
    (void)state;
    chain c = make();
    begin(&c);
    assert_true(call(&c, 0, 1, true, true) == 1);
    call(&c, 1, 0, false, false);
    assert_true(call(&c, 1, 0, false, true) == 2);
    assert_true(call(&c, 0, 0, false, true) == 3);
    call(&c, 0, 0, false, false);
    assert_true(call(&c, 1, 0, false, true) == 2); /* the whole call never was */
    end(&c);
}

static void models_without_states_have_none(void **state)
{
    (void)state;
    const fy_hparams hp = {.n_layer = 2, .n_embd = 8};
    fy_chain_states s;
    fy_err e = {0};
    assert_int_equal(fy_chain_states_init(&s, &hp, 4, &e), 0);
    assert_null(s.parts);
    assert_int_equal(fy_chain_state_bytes(&hp, 4), 0);
    fy_chain_states_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_go_on_from_each_other),
        cmocka_unit_test(the_state_before_a_long_call_stays),
        cmocka_unit_test(a_failed_step_changes_nothing),
        cmocka_unit_test(models_without_states_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
