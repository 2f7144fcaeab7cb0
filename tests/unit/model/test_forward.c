/* The graph against a computation of the same model in double, token by token and head by head,
 * written without any of the engine's parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "tiny_model.h"

enum { T = 20, MAX_DIM = 256, MAX_LAYERS = 4 };

static char path[64];
static const int32_t ids[T] = {1,  5, 9,  33, 7, 7,  80, 95, 0,  12,
                               44, 3, 61, 18, 2, 90, 27, 5,  71, 8};

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-forward-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* --- by hand -------------------------------------------------------------------------------- */

typedef struct {
    const tiny_model *m;
    bool neox, qk_norm;
    double k[MAX_LAYERS][T][MAX_DIM], v[MAX_LAYERS][T][MAX_DIM];
    double hidden[MAX_LAYERS + 1][T][MAX_DIM];
    double logits[T][MAX_DIM];
} by_hand;

static void linear(const tiny_model *m, double *y, const double *x, const char *name,
                   uint32_t layer, uint32_t rows, uint32_t cols)
{
    char w[64], b[64];
    float row[MAX_DIM], bias[MAX_DIM] = {0};
    snprintf(w, sizeof w, "blk.%u.%s.weight", layer, name);
    snprintf(b, sizeof b, "blk.%u.%s.bias", layer, name);
    if (m->biases)
        tiny_fill(b, false, 0, rows, bias);
    for (uint32_t r = 0; r < rows; r++) {
        tiny_fill(w, true, r, cols, row);
        y[r] = (double)bias[r];
        for (uint32_t c = 0; c < cols; c++)
            y[r] += (double)row[c] * x[c];
    }
}

static void rms(const tiny_model *m, double *y, const double *x, const char *name, uint32_t layer,
                uint32_t n)
{
    char w[64];
    float weight[MAX_DIM];
    double sum = 0;
    snprintf(w, sizeof w, "blk.%u.%s.weight", layer, name);
    tiny_fill(strcmp(name, "output_norm") == 0 ? "output_norm.weight" : w, false, 0, n, weight);
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + (double)m->hp.norm_rms_eps) * (double)weight[i];
}

static void rotate(const by_hand *h, double *x, uint32_t pos)
{
    const uint32_t n = h->m->hp.n_rot;
    for (uint32_t i = 0; i < n / 2; i++) {
        double a = pos * pow((double)h->m->hp.rope_theta, -2.0 * i / n);
        double *p = h->neox ? &x[i] : &x[2 * i], *q = h->neox ? &x[i + n / 2] : &x[2 * i + 1];
        double c = *p * cos(a) - *q * sin(a), s = *p * sin(a) + *q * cos(a);
        *p = c;
        *q = s;
    }
}

static void attention(by_hand *h, double *out, const double *q, uint32_t layer, uint32_t head,
                      uint32_t pos)
{
    const fy_hparams *hp = &h->m->hp;
    const uint32_t kv = head / (hp->n_head / hp->n_head_kv);
    double score[T], largest = -1e300, total = 0;
    memset(out, 0, hp->head_dim_v * sizeof *out);
    for (uint32_t j = 0; j <= pos; j++) {
        score[j] = 0;
        for (uint32_t i = 0; i < hp->head_dim; i++)
            score[j] += q[i] * h->k[layer][j][kv * hp->head_dim + i] / sqrt(hp->head_dim);
        if (hp->n_swa > 0 && pos - j >= hp->n_swa)
            score[j] = -1e300;
        largest = fmax(largest, score[j]);
    }
    for (uint32_t j = 0; j <= pos; j++)
        total += score[j] = exp(score[j] - largest);
    for (uint32_t j = 0; j <= pos; j++) {
        for (uint32_t i = 0; i < hp->head_dim_v; i++)
            out[i] += score[j] / total * h->v[layer][j][kv * hp->head_dim_v + i];
    }
}

static void attention_block(by_hand *h, double *x, uint32_t layer, uint32_t pos)
{
    const tiny_model *m = h->m;
    const fy_hparams *hp = &m->hp;
    double n[MAX_DIM], q[MAX_DIM], att[MAX_DIM], y[MAX_DIM], *k = h->k[layer][pos];
    rms(m, n, x, "attn_norm", layer, hp->n_embd);
    linear(m, q, n, "attn_q", layer, hp->n_head * hp->head_dim, hp->n_embd);
    linear(m, k, n, "attn_k", layer, hp->n_head_kv * hp->head_dim, hp->n_embd);
    linear(m, h->v[layer][pos], n, "attn_v", layer, hp->n_head_kv * hp->head_dim_v, hp->n_embd);
    for (uint32_t i = 0; i < hp->n_head + hp->n_head_kv; i++) {
        bool is_q = i < hp->n_head;
        double *head = is_q ? q + i * hp->head_dim : k + (i - hp->n_head) * hp->head_dim;
        if (h->qk_norm)
            rms(m, head, head, is_q ? "attn_q_norm" : "attn_k_norm", layer, hp->head_dim);
        rotate(h, head, pos);
    }
    for (uint32_t i = 0; i < hp->n_head; i++)
        attention(h, att + i * hp->head_dim_v, q + i * hp->head_dim, layer, i, pos);
    linear(m, y, att, "attn_output", layer, hp->n_embd, hp->n_head * hp->head_dim_v);
    for (uint32_t i = 0; i < hp->n_embd; i++)
        x[i] += y[i];
}

static void ffn_block(by_hand *h, double *x, uint32_t layer)
{
    const tiny_model *m = h->m;
    const fy_hparams *hp = &m->hp;
    double n[MAX_DIM], gate[MAX_DIM], up[MAX_DIM], y[MAX_DIM];
    rms(m, n, x, "ffn_norm", layer, hp->n_embd);
    linear(m, gate, n, "ffn_gate", layer, hp->n_ff, hp->n_embd);
    linear(m, up, n, "ffn_up", layer, hp->n_ff, hp->n_embd);
    for (uint32_t i = 0; i < hp->n_ff; i++)
        gate[i] *= up[i] / (1 + exp(-gate[i]));
    linear(m, y, gate, "ffn_down", layer, hp->n_embd, hp->n_ff);
    for (uint32_t i = 0; i < hp->n_embd; i++)
        x[i] += y[i];
}

static void compute(by_hand *h)
{
    const fy_hparams *hp = &h->m->hp;
    for (uint32_t pos = 0; pos < T; pos++) {
        float row[MAX_DIM];
        double x[MAX_DIM], n[MAX_DIM];
        tiny_fill("token_embd.weight", true, (uint64_t)ids[pos], hp->n_embd, row);
        for (uint32_t i = 0; i < hp->n_embd; i++)
            x[i] = h->hidden[0][pos][i] = (double)row[i];
        for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
            attention_block(h, x, layer, pos);
            ffn_block(h, x, layer);
            memcpy(h->hidden[layer + 1][pos], x, sizeof x);
        }
        rms(h->m, n, x, "output_norm", 0, hp->n_embd);
        for (uint32_t id = 0; id < hp->n_vocab; id++) {
            tiny_fill(h->m->tied ? "token_embd.weight" : "output.weight", true, id, hp->n_embd,
                      row);
            h->logits[pos][id] = 0;
            for (uint32_t i = 0; i < hp->n_embd; i++)
                h->logits[pos][id] += (double)row[i] * n[i];
        }
    }
}

/* --- comparison ----------------------------------------------------------------------------- */

static double worst;

static void compare(const float *ours, const double *expected, uint32_t n)
{
    double largest = 0, diff = 0;
    for (uint32_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(expected[i]));
        diff = fmax(diff, fabs((double)ours[i] - expected[i]));
    }
    worst = fmax(worst, diff / largest);
}

static int see_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    const by_hand *h = user;
    for (uint32_t i = 0; i < n; i++)
        compare(logits + i * h->m->hp.n_vocab, h->logits[pos + i], h->m->hp.n_vocab);
    return 0;
}

static int see_hidden(void *user, uint32_t layer, const float *x, uint32_t pos, uint32_t n,
                      fy_err *e)
{
    (void)e;
    const by_hand *h = user;
    for (uint32_t i = 0; i < n; i++)
        compare(x + i * h->m->hp.n_embd, h->hidden[layer][pos + i], h->m->hp.n_embd);
    return 0;
}

static void check_model(tiny_model t)
{
    fy_err e = {0};
    assert_int_equal(tiny_write(&t, path, &e), 0);
    by_hand *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->m = &t;
    h->neox = h->qk_norm = strcmp(t.arch, "qwen3") == 0;
    compute(h);
    fy_model *m = fy_model_open(path, &e);
    assert_non_null(m);
    fy_session *s = fy_session_new(m, &(fy_session_params){.n_batch = 7, .n_threads = 2}, &e);
    assert_non_null(s);
    fy_eval_sinks sinks = {see_logits, see_hidden, h};
    const float *last;
    worst = 0;
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, &last, &e), 0);
    compare(last, h->logits[T - 1], t.hp.n_vocab);
    assert_true(worst < 5e-6);
    fy_session_free(s);
    fy_model_close(m);
    free(h);
}

static void a_plain_llama_is_computed_as_by_hand(void **state)
{
    (void)state;
    check_model(tiny_default());
}

static void tied_output_and_biases_are_used(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.tied = t.biases = true;
    check_model(t);
}

static void every_query_head_finds_its_key_head(void **state)
{
    (void)state;
    const uint32_t kv[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        tiny_model t = tiny_default();
        t.hp.n_head_kv = kv[i];
        check_model(t);
    }
}

static void a_window_hides_the_keys_that_are_too_old(void **state)
{
    (void)state;
    const uint32_t windows[] = {1, 4, 19, 20, 64};
    for (int i = 0; i < 5; i++) {
        tiny_model t = tiny_default();
        t.hp.n_swa = windows[i];
        check_model(t);
    }
}

static void heads_wider_than_the_model_divides_are_fine(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.hp.n_embd = 48;
    t.hp.n_head = 3;
    t.hp.n_head_kv = 1;
    t.hp.head_dim = t.hp.head_dim_v = t.hp.n_rot = 40;
    check_model(t);
}

static void query_and_key_norms_and_half_split_rotation_are_applied(void **state)
{
    (void)state;
    tiny_model t = tiny_default();
    t.arch = "qwen3";
    check_model(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_llama_is_computed_as_by_hand),
        cmocka_unit_test(tied_output_and_biases_are_used),
        cmocka_unit_test(every_query_head_finds_its_key_head),
        cmocka_unit_test(a_window_hides_the_keys_that_are_too_old),
        cmocka_unit_test(heads_wider_than_the_model_divides_are_fine),
        cmocka_unit_test(query_and_key_norms_and_half_split_rotation_are_applied),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
