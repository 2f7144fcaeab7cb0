/* RWKV of every version, in floats and in blocks: the same bits however a text is cut, and the
 * states of the reference. The goldens' logits are the business of tests/golden/rwkv.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/verb.h"
#include "format/safetensors.h"
#include "model/session.h"
#include "program/program.h"

enum { T = 40, V = 384 };

static const char *const versions[] = {"v5",    "v5.1", "v5.2",  "v6",
                                       "v6-hf", "v7",   "v7-hf", "v7-hf-xx"};
enum { N_VERSIONS = sizeof versions / sizeof versions[0] };

static char path[64];
static fy_model *model;
static fy_st *golden;
static const int32_t *ids;
static float whole[T][V];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-rwkv-XXXXXX");
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* The verb runs as main would run it. */
static void convert(const char *version, const char *type)
{
    const fy_verb *verb = fy_verb_find("convert");
    char source[64], outtype[32], quiet[] = "-q", out[] = "-o";
    char *args[] = {source, outtype, quiet, out, path};
    int n_args;
    bool help;
    fy_err e = {0};
    snprintf(source, sizeof source, "tests/data/rwkv/%s", version);
    snprintf(outtype, sizeof outtype, "--outtype=%s", type);
    void *o = calloc(1, verb->opts_bytes);
    assert_non_null(o);
    if (fy_opts_parse(verb->opts, verb->n_opts, o, 5, args, &n_args, &help, &e) != 0 ||
        verb->run(o, n_args, args, &e) != 0)
        fail_msg("%s: %s", version, e.msg);
    free(o);
}

static const fy_st_tensor *tensor(const char *name)
{
    const fy_st_tensor *t = fy_st_find(golden, fy_span_of(name));
    assert_non_null(t);
    return t;
}

static void open_version(const char *version, const char *type)
{
    char name[96];
    fy_err e = {0};
    convert(version, type);
    model = fy_model_open(path, &e);
    if (model == NULL)
        fail_msg("%s: %s", version, e.msg);
    snprintf(name, sizeof name, "tests/data/rwkv/%s/golden.safetensors", version);
    golden = fy_st_open(name, &e);
    assert_non_null(golden);
    assert_int_equal(tensor("input_ids")->shape[0], T);
    ids = (const int32_t *)(const void *)tensor("input_ids")->data;
}

static void close_version(void)
{
    fy_model_close(model);
    fy_st_close(golden);
}

static fy_session *new_session(uint32_t n_batch, int n_threads)
{
    fy_err e = {0};
    const fy_session_params p = {
        .n_batch = n_batch, .n_threads = n_threads, .n_seq = 2, .type_k = FY_F32, .type_v = FY_F32};
    fy_session *s = fy_session_new(model, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    return s;
}

static int take_rows(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    float(*into)[V] = user;
    (void)e;
    memcpy(into[first], logits, n * sizeof into[0]);
    return 0;
}

static void eval(fy_session *s, uint32_t from, uint32_t n, float into[T][V])
{
    fy_err e = {0};
    const fy_eval_sinks sinks = {.logits = take_rows, .user = into};
    if (fy_session_eval(s, ids + from, n, &sinks, NULL, &e) != 0)
        fail_msg("%s", e.msg);
}

static void a_text_may_be_cut_anywhere(void **state)
{
    static const char *const types[] = {"f32", "f16", "q8_0", "q4_0"};
    static const uint32_t cuts[] = {1, 16, 17, 39};
    static float parts[T][V];
    (void)state;
    for (int i = 0; i < N_VERSIONS; i++) {
        for (int type = 0; type < 4; type++) {
            open_version(versions[i], types[type]);
            fy_session *s = new_session(64, 1);
            eval(s, 0, T, whole);
            fy_session_free(s);
            for (int c = 0; c < 4; c++) {
                s = new_session(c % 2 == 0 ? 64 : 5, 2);
                eval(s, 0, cuts[c], parts);
                eval(s, cuts[c], T - cuts[c], parts);
                assert_memory_equal(parts, whole, sizeof whole);
                fy_session_free(s);
            }
            s = new_session(1, 2);
            for (uint32_t t = 0; t < T; t++)
                eval(s, t, 1, parts);
            assert_memory_equal(parts, whole, sizeof whole);
            fy_session_free(s);
            close_version();
        }
    }
}

/* Largest difference of a part of the state from a tensor of the golden, relative to its largest.
 * turned: the golden has [value][key] of each head. */
static double distance(const float *ours, const char *name, bool turned)
{
    const fy_st_tensor *t = tensor(name);
    const uint64_t n = t->bytes / sizeof(float), dim = turned ? t->shape[2] : 1;
    double most = 0, largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, t->data + i * sizeof v, sizeof v);
        const uint64_t at = i / (dim * dim) * dim * dim + i % dim * dim + i / dim % dim;
        most = fmax(most, fabs((double)v - (double)ours[turned ? at : i]));
        largest = fmax(largest, fabs((double)v));
    }
    return most / largest;
}

static void the_states_are_those_of_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < N_VERSIONS; i++) {
        open_version(versions[i], "f32");
        const fy_hparams *hp = fy_model_hparams(model);
        fy_session *s = new_session(7, 2);
        eval(s, 0, T, whole);
        for (uint32_t l = 0; l < hp->n_layer; l++) {
            const fy_state_view view = fy_states_at(&s->states, l);
            const float *ours = view.memory + view.from[0] * view.half_len;
            char name[3][48];
            snprintf(name[0], 48, "state.%u.att_shift", l);
            snprintf(name[1], 48, "state.%u.ffn_shift", l);
            snprintf(name[2], 48, "state.%u.wkv", l);
            assert_true(distance(ours, name[0], false) < 1e-4);
            assert_true(distance(ours + hp->n_embd, name[1], false) < 1e-4);
            assert_true(distance(ours + 2 * hp->n_embd, name[2], versions[i][1] == '7') < 1e-4);
        }
        fy_session_free(s);
        close_version();
    }
}

static void a_context_has_no_size(void **state)
{
    fy_err e = {0};
    fy_session_plan small, large;
    (void)state;
    open_version("v7", "f32");
    const fy_session_params p = {.n_ctx = 8, .n_batch = 16, .type_k = FY_F32, .type_v = FY_F32};
    fy_session_params more = p;
    more.n_ctx = 1 << 20;
    assert_int_equal(fy_session_plan_of(model, &p, &small, &e), 0);
    assert_int_equal(fy_session_plan_of(model, &more, &large, &e), 0);
    assert_int_equal(small.kv_bytes, large.kv_bytes);
    assert_int_equal(small.params.n_ctx, large.params.n_ctx);
    assert_true(small.kv_bytes > 0); /* the states */
    fy_session *s = fy_session_new(model, &p, &e);
    assert_non_null(s);
    eval(s, 0, T, whole); /* beyond -c */
    assert_int_equal(fy_session_n_past(s), T);
    fy_session_free(s);
    close_version();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_may_be_cut_anywhere),
        cmocka_unit_test(the_states_are_those_of_the_reference),
        cmocka_unit_test(a_context_has_no_size),
    };
    fy_program_set(&fy_ferry);
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
