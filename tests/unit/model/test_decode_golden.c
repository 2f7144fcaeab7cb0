/* Families against their references while other sequences share every step: the golden's tokens in
 * one sequence in parts, in another one by one and later, and other tokens in a third. */
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
#include "model/golden.h"
#include "program/program.h"

enum { T_MAX = 80, N_SEQ = 3, LATER = 4, PART = 5 };

static const char *const families[] = {
    "llama",   "gemma3", "gemma2",  "mixtral", "qwen2moe",        "gpt2", "opt",    "gemma4",
    "falcon7", "phi3",   "chatglm", "granite", "smallthinker-4b", "lfm2", "lfm2moe",
    "../rwkv/v5", "../rwkv/v6", "../rwkv/v7",
    "granite4", "falcon-h1", "nemotron-h", "qwen35", "lfm3", "gemma3n"};

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-families-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* The verb runs as main would run it. */
static void convert_family(const char *family)
{
    const fy_verb *convert = fy_verb_find("convert");
    char source[64], type[] = "--outtype=f32", quiet[] = "-q", out[] = "-o";
    char *args[] = {source, type, quiet, out, path};
    int n_args;
    bool help;
    fy_err e = {0};
    snprintf(source, sizeof source, "tests/data/families/%s", family);
    void *o = calloc(1, convert->opts_bytes);
    assert_non_null(o);
    if (fy_opts_parse(convert->opts, convert->n_opts, o, 5, args, &n_args, &help, &e) != 0 ||
        convert->run(o, n_args, args, &e) != 0)
        fail_msg("%s: %s", family, e.msg);
    free(o);
}

typedef struct {
    fy_model *m;
    fy_st *file;
    const int32_t *ids;    /* [n] */
    const float *expected; /* [n][n_vocab] */
    uint32_t n, n_ctx, n_vocab;
} golden;

static golden open_golden(const char *family)
{
    fy_err e = {0};
    char name[96];
    golden g = {.m = fy_model_open(path, &e)};
    snprintf(name, sizeof name, "tests/data/families/%s/golden.safetensors", family);
    g.file = g.m != NULL ? fy_st_open(name, &e) : NULL;
    if (g.file == NULL)
        fail_msg("%s: %s", family, e.msg);
    fy_golden *checked = fy_golden_open(name, fy_model_hparams(g.m), &e);
    const fy_st_tensor *ids = fy_st_find(g.file, fy_span_of("input_ids"));
    const fy_st_tensor *logits = fy_st_find(g.file, fy_span_of("logits"));
    if (checked == NULL || logits == NULL || ids->dtype != FY_DT_I32 || ids->shape[0] > T_MAX)
        fail_msg("%s: no golden for this test %s", family, e.msg);
    g.ids = (const int32_t *)(const void *)ids->data;
    g.expected = (const float *)(const void *)logits->data;
    g.n = (uint32_t)ids->shape[0];
    g.n_ctx = fy_golden_n_ctx(checked);
    g.n_vocab = (uint32_t)logits->shape[1];
    fy_golden_close(checked);
    return g;
}

/* --- one call after the other --------------------------------------------------------------- */

typedef struct {
    int32_t ids[2 * PART];
    uint32_t seqs[2 * PART], pos[2 * PART], n;
    uint32_t n_vocab;
    float *logits[N_SEQ]; /* [n_ctx][n_vocab] */
} call;

static void add(call *c, const fy_session *s, const golden *g, uint32_t seq)
{
    uint32_t pos = fy_session_seq_n_past(s, seq);
    for (uint32_t i = 0; i < c->n; i++)
        pos += c->seqs[i] == seq;
    if (pos >= g->n)
        return;
    c->ids[c->n] = seq < 2 ? g->ids[pos] : g->ids[g->n - 1 - pos];
    c->pos[c->n] = pos;
    c->seqs[c->n++] = seq;
}

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    const call *c = user;
    const size_t row = c->n_vocab;
    for (uint32_t i = first; i < first + n; i++)
        memcpy(c->logits[c->seqs[i]] + c->pos[i] * row, logits + (i - first) * row,
               row * sizeof(float));
    return 0;
}

static void run_calls(fy_session *s, const golden *g, call *c)
{
    const uint8_t wants[2 * PART] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const fy_eval_sinks sinks = {.logits = keep, .user = c};
    for (uint32_t i = 0; fy_session_seq_n_past(s, 1) < g->n; i++) {
        c->n = 0;
        for (uint32_t k = 0; k < PART; k++) {
            if (k % 2 == 0)
                add(c, s, g, 2);
            add(c, s, g, 0);
            if (k == 1 && i >= LATER)
                add(c, s, g, 1);
        }
        fy_err e = {0};
        const fy_batch b = {.ids = c->ids, .seqs = c->seqs, .wants = wants, .n = c->n};
        if (fy_session_decode(s, &b, &sinks, NULL, &e) != 0)
            fail_msg("%s", e.msg);
    }
}

static double largest_difference(const float *a, const float *b, size_t n, double *largest)
{
    double d = 0;
    for (size_t i = 0; i < n; i++) {
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
        *largest = fmax(*largest, fabs((double)b[i]));
    }
    return d;
}

static void families_agree_with_their_references_in_company(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        convert_family(families[f]);
        golden g = open_golden(families[f]);
        const size_t n = (size_t)g.n * g.n_vocab;
        const fy_session_params p = {
            .n_ctx = g.n_ctx, .n_seq = N_SEQ, .n_batch = 7, .n_threads = 2};
        fy_err e = {0};
        call c = {.n_vocab = g.n_vocab};
        for (int i = 0; i < N_SEQ; i++)
            assert_non_null(c.logits[i] = calloc(n, sizeof(float)));
        fy_session *s = fy_session_new(g.m, &p, &e);
        assert_non_null(s);
        run_calls(s, &g, &c);
        double largest = 0, d = largest_difference(c.logits[0], g.expected, n, &largest);
        if (!(d <= 1e-4 * largest))
            fail_msg("%s: differs by %g of %g", families[f], d, largest);
        assert_memory_equal(c.logits[0], c.logits[1], n * sizeof(float));
        assert_int_equal(fy_session_seq_n_past(s, 2), g.n);
        fy_session_free(s);
        for (int i = 0; i < N_SEQ; i++)
            free(c.logits[i]);
        fy_st_close(g.file);
        fy_model_close(g.m);
    }
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_agree_with_their_references_in_company),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
