/* Composed graphs on the reference library: accepted node by node in every recipe, two batch sizes
 * with one set of weights, results that are those of the graph in floats, and refusals that are
 * listed.
 *
 *   test_qemit [SDK]    the same, as far as it goes, on the vendor's library */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/unit/model/chain_fixture.h"
#include "tests/unit/qnnref/compose.h"
#include "workspace/compile/qemit.h"
#include "workspace/compile/qfloat.h"
#include "workspace/compile/qstatic.h"

enum { CACHE = 24, LARGE = 8 };

static const fy_npu_recipe recipes[] = {
    {.name = (char[]){"fp16"}, .type = FY_NPU_FP16, .kv_bits = 16, .float_core = true},
    {.name = (char[]){"fp16a8w"}, .type = FY_NPU_FP16A8W, .kv_bits = 16, .float_core = true},
    {.name = (char[]){"fp16a4w"}, .type = FY_NPU_FP16A4W, .kv_bits = 16, .float_core = true},
    {.name = (char[]){"16a8w"}, .type = FY_NPU_16A8W, .kv_bits = 8},
    {.name = (char[]){"16a4w, s16"}, .type = FY_NPU_16A4W, .kv_bits = 16},
    {.name = (char[]){"lpbq-16"}, .type = FY_NPU_LPBQ_16, .kv_bits = 8, .rotate_keys = true},
    {.name = (char[]){"8a4w"}, .type = FY_NPU_8A4W, .kv_bits = 8},
    {.name = (char[]){"powerserve"}, .type = FY_NPU_16A4W, .kv_bits = 16, .float_core = true},
};
enum { N_RECIPES = sizeof recipes / sizeof recipes[0] };

static const fy_qnn_chip chip = {57, 75, 8}, others[] = {{69, 79, 8}, {36, 69, 8}};
static const char *sdk; /* NULL: the reference */
static fy_qnn_lib *lib;
static fy_qnn_handle device;
static fy_pool *pool;
static char faults[64];

/* --- graphs ----------------------------------------------------------------------------------- */

typedef struct {
    fy_model *model;
    fy_q_ranges *ranges;
    fy_qgraph g[2];
    fy_q_encodings c[2];
    fy_q_emit_graph graphs[2];
} composed;

/* Ranges that nothing was measured for: wide enough for every class. */
static void make_up_ranges(composed *x)
{
    fy_err e = {0};
    x->ranges = fy_q_ranges_new(fy_model_chunk_info(x->model)->model, &e);
    for (size_t i = 0; i < x->g[0].n_ranges; i++)
        *fy_q_ranges_add(x->ranges, x->g[0].ranges[i].name, &e) = (fy_q_range){-8, 8, -8, 8};
    assert_int_equal(e.code, FY_OK);
}

static void compose(composed *x, const char *file, const fy_npu_recipe *r, bool rope_nodes)
{
    static const char *const names[] = {"batch_8", "batch_1"};
    fy_err e = {0};
    *x = (composed){.model = fy_model_open_chunk(chain_at(file), &chain_how, &e)};
    if (x->model == NULL)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < 2; i++) {
        const fy_qgraph_of of = {.family = fy_model_family(x->model),
                                 .hp = fy_model_hparams(x->model),
                                 .chunk = fy_model_chunk_info(x->model),
                                 .recipe = r,
                                 .has = fy_qgraph_model_has,
                                 .user = x->model,
                                 .n_batch = i == 0 ? LARGE : 1,
                                 .n_cache = CACHE,
                                 .n_ctx = CACHE + LARGE,
                                 .rope_nodes = rope_nodes};
        if (fy_qgraph_compose(&x->g[i], &of, &e) != 0)
            fail_msg("%s", e.msg);
    }
    make_up_ranges(x);
    for (size_t i = 0; i < 2; i++) {
        if (fy_q_encode(&x->g[i], x->ranges, &x->c[i], &e) != 0)
            fail_msg("%s", e.msg);
        x->graphs[i] = (fy_q_emit_graph){names[i], &x->g[i], &x->c[i]};
    }
}

static void release(composed *x)
{
    for (size_t i = 0; i < 2; i++) {
        fy_q_encodings_release(&x->c[i]);
        fy_qgraph_release(&x->g[i]);
    }
    fy_q_ranges_free(x->ranges);
    fy_model_close(x->model);
}

static void write_model(const char *arch)
{
    static const uint32_t batch[] = {LARGE, 1, 0};
    chain_write(&(chain_kind){.arch = arch, .type = FY_F16, .n_layer = 2, .n_swa = 0});
    chain_write_chunks(&(chain_cut){.batch = batch, .n_chunks = 1, .n_heads = 1, .n_cache = CACHE});
}

static void accept_all(const composed *x, const char *what)
{
    for (size_t i = 0; i < 2; i++) {
        fy_q_refusals r = {0};
        fy_err e = {0};
        if (fy_q_validate(lib, &x->g[i], &x->c[i], &r, &e) != 0)
            fail_msg("%s: %s", what, e.msg);
        if (r.n != 0)
            fail_msg("%s: %u nodes are refused:\n%s", what, r.n, fy_str_z(&r.text));
        fy_q_refusals_release(&r);
    }
}

/* The bytes of a context with the first n graphs. */
static uint64_t compile(const composed *x, size_t n)
{
    fy_q_emitted out[2];
    fy_q_emit_params p = {
        .lib = lib, .chip = &chip, .model = x->model, .ranges = x->ranges, .pool = pool};
    uint8_t *binary = NULL;
    uint64_t bytes = 0;
    fy_err e = {0};
    if (fy_qnn_context_new(lib, device, n > 1, &p.context, &e) != 0 ||
        fy_q_emit(&p, x->graphs, n, out, &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fy_qnn_graph_finalize(&out[i].graph), 0);
    if (fy_qnn_context_binary(lib, p.context, &binary, &bytes, &e) != 0)
        fail_msg("%s", e.msg);
    free(binary);
    fy_qnn_context_free(lib, p.context);
    fy_q_emitted_release(out, n);
    return bytes;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void every_node_of_every_recipe_is_accepted(void **state)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gpt2", "gemma2", "phi2"};
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        write_model(archs[i]);
        for (size_t k = 0; k < 2 * N_RECIPES; k++) {
            composed x;
            char what[64];
            snprintf(what, sizeof what, "%s in %s", archs[i], recipes[k / 2].name);
            compose(&x, k % 2 ? "cut/qnn/lm_head.gguf" : "cut/qnn/chunk_0.gguf", &recipes[k / 2],
                    i % 2 == 0);
            accept_all(&x, what);
            release(&x);
        }
    }
}

/* V69 has neither floats nor caches of 16 bits. */
static bool can(const fy_qnn_chip *on, const fy_npu_recipe *r)
{
    return on->arch >= 73 || (r->kv_bits == 8 && !fy_npu_type_is_float(r->type));
}

static void other_chips_accept_what_they_can(void **state)
{
    (void)state;
    write_model("qwen2");
    fy_qnn_device_free(lib, device); /* the reference has one at a time */
    device = NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        fy_qnn_handle other = NULL;
        fy_err e = {0};
        assert_int_equal(fy_qnn_device_new(lib, &others[i], &other, &e), 0);
        for (size_t k = 0; k < N_RECIPES; k++) {
            composed x;
            if (!can(&others[i], &recipes[k]))
                continue;
            compose(&x, "cut/qnn/chunk_0.gguf", &recipes[k], false);
            accept_all(&x, recipes[k].name);
            release(&x);
        }
        fy_qnn_device_free(lib, other);
    }
}

static void two_graphs_have_their_weights_once(void **state)
{
    (void)state;
    if (sdk != NULL)
        skip(); /* so small a model is mostly code */
    write_model("qwen2");
    for (size_t k = 0; k < N_RECIPES; k++) {
        composed x;
        compose(&x, "cut/qnn/chunk_0.gguf", &recipes[k], false);
        const uint64_t one = compile(&x, 1), two = compile(&x, 2);
        uint64_t weights = 0;
        for (size_t i = 0; i < x.g[0].n_tensors; i++) {
            const fy_q_tensor *t = &x.g[0].tensors[i];
            if (t->class == FY_QC_WEIGHT)
                weights += (uint64_t)t->dims[2] * t->dims[3] * fy_npu_type_bits(t->from.type) / 8;
        }
        if (one < weights || two >= one + weights)
            fail_msg("%s: %llu and %llu bytes, weights %llu", recipes[k].name,
                     (unsigned long long)one, (unsigned long long)two, (unsigned long long)weights);
        release(&x);
    }
}

static int stop_at_once(void *user, const char *what, uint32_t done, uint32_t total, fy_err *e)
{
    uint32_t *n = user;
    assert_true(what != NULL && done <= total);
    return ++*n == 3 ? fy_fail(e, FY_EINTR, "interrupted") : 0;
}

static void a_step_can_stop_the_work(void **state)
{
    (void)state;
    composed x;
    uint32_t n = 0;
    fy_q_emitted out[2];
    fy_err e = {0};
    write_model("llama");
    compose(&x, "cut/qnn/chunk_0.gguf", &recipes[1], false);
    fy_q_emit_params p = {.lib = lib,
                          .chip = &chip,
                          .model = x.model,
                          .pool = pool,
                          .step = stop_at_once,
                          .user = &n};
    assert_int_equal(fy_qnn_context_new(lib, device, true, &p.context, &e), 0);
    assert_int_equal(fy_q_emit(&p, x.graphs, 2, out, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
    fy_qnn_context_free(lib, p.context);
    fy_q_emitted_release(out, 2);
    release(&x);
}

static void graphs_of_two_chunks_are_not_one_context(void **state)
{
    (void)state;
    composed x, y;
    fy_q_emitted out[2];
    fy_err e = {0};
    write_model("llama");
    compose(&x, "cut/qnn/chunk_0.gguf", &recipes[1], false);
    compose(&y, "cut/qnn/lm_head.gguf", &recipes[1], false);
    fy_q_emit_params p = {.lib = lib, .chip = &chip, .model = x.model, .pool = pool};
    x.graphs[1] = y.graphs[1];
    assert_int_equal(fy_qnn_context_new(lib, device, true, &p.context, &e), 0);
    assert_int_equal(fy_q_emit(&p, x.graphs, 2, out, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_non_null(strstr(e.msg, "do not have the same weights"));
    fy_qnn_context_free(lib, p.context);
    fy_q_emitted_release(out, 2);
    release(&x);
    release(&y);
}

static void with_fault(const char *line)
{
    FILE *f = fopen(faults, "w");
    assert_non_null(f);
    fputs(line, f);
    fclose(f);
}

static void refusals_are_listed_together(void **state)
{
    (void)state;
    if (sdk != NULL)
        skip(); /* it cannot be told to refuse */
    composed x;
    fy_q_refusals r = {0};
    fy_err e = {0};
    write_model("llama");
    compose(&x, "cut/qnn/chunk_0.gguf", &recipes[3], false);
    with_fault("validate Softmax refuse\nvalidate RotaryEmbedding refuse\n");
    assert_int_equal(fy_q_validate(lib, &x.g[0], &x.c[0], &r, &e), 0);
    with_fault("");
    uint32_t n = 0;
    for (size_t i = 0; i < x.g[0].n_nodes; i++)
        n += x.g[0].nodes[i].op == FY_Q_SOFTMAX || x.g[0].nodes[i].op == FY_Q_ROPE;
    assert_int_equal(r.n, n);
    assert_true(r.rope);
    assert_int_equal(r.n_kinds, 2);
    assert_non_null(strstr(r.text.ptr, "RotaryEmbedding u16[1,1,8,"));
    assert_non_null(strstr(r.text.ptr, "Softmax u16[1,1,8,32] -> u16[1,1,8,32]: QNN error 3110"));
    fy_q_refusals_release(&r);
    release(&x);
}

/* --- numbers ---------------------------------------------------------------------------------- */

enum { BORDERS = 64 };

/* The values of a border tensor: as the float interpreter has them, and as the library does. */
typedef struct {
    float *f32;
    uint16_t *f16; /* masks of the interpreter */
    void *codes;
    size_t n;
} border;

static size_t n_borders(const fy_qgraph *g)
{
    const size_t n = fy_qgraph_n_border(g);
    assert_true(n <= BORDERS);
    return n;
}

static float random_value(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return (float)(*x >> 8) / (1 << 23) - 1;
}

/* Some columns of the mask are hidden; tables are of an angle each; keys carry 1 / softcap. */
static void make_up(const composed *x, size_t i, border *b, uint32_t *seed)
{
    const fy_q_tensor *t = &x->g[0].tensors[i];
    const float softcap = fy_model_hparams(x->model)->attn_softcap;
    const bool capped_keys = softcap != 0 && strstr(t->name, "key_t_cache") != NULL;
    b->n = (size_t)fy_q_rows(t) * fy_q_cols(t);
    b->f32 = calloc(b->n, sizeof(float));
    b->f16 = calloc(b->n, sizeof(uint16_t));
    b->codes = calloc(b->n, sizeof(float));
    for (size_t k = 0; t->kind == FY_Q_IN && k < b->n; k++) {
        const float v = random_value(seed);
        if (t->class == FY_QC_MASK)
            b->f32[k] = k % fy_q_cols(t) % 5 == 1 ? -50000 : 0;
        else if (strncmp(t->name, "rope_embed_", 11) == 0)
            b->f32[k] = strstr(t->name, "cos") != NULL ? cosf((float)k) : sinf((float)k);
        else
            b->f32[k] = v * (i == 0 ? 2 : capped_keys ? 0.5f / softcap : 0.5f);
        b->f16[k] = fy_f32_to_f16(b->f32[k]);
    }
}

static void to_codes(const fy_q_tensor *t, const fy_q_encoding *c, border *b)
{
    for (size_t k = 0; k < b->n; k++) {
        const float v = b->f32[k];
        const double q = c->scale > 0 ? rint((double)v / c->scale) - c->offset : 0;
        if (t->type == FY_Q_F32)
            ((float *)b->codes)[k] = v;
        else if (t->type == FY_Q_F16)
            ((uint16_t *)b->codes)[k] = fy_f32_to_f16(v);
        else if (t->type == FY_Q_U16)
            ((uint16_t *)b->codes)[k] = (uint16_t)fmax(0, fmin(65535, q));
        else if (t->type == FY_Q_S16)
            ((int16_t *)b->codes)[k] = (int16_t)fmax(-32768, fmin(32767, q));
        else
            ((uint8_t *)b->codes)[k] = (uint8_t)fmax(0, fmin(255, q));
    }
}

/* Takes the ranges of all tensors; a masked score shares that of the score. */
static int watch(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e)
{
    composed *x = user;
    const fy_qgraph *g = fy_qfloat_graph(f);
    for (uint32_t i = 0; i <= n->n_in; i++) {
        const uint32_t at = i < n->n_in ? n->in[i] : n->out;
        const fy_q_tensor *t = &g->tensors[at];
        if (t->kind == FY_Q_STATIC || t->class == FY_QC_MASKED || t->range == FY_Q_NONE)
            continue;
        const float *v = fy_qfloat_values(f, at);
        fy_q_range *r = fy_q_ranges_add(x->ranges, g->ranges[t->range].name, e);
        for (size_t k = 0; k < (size_t)fy_q_rows(t) * fy_q_cols(t); k++) {
            r->min = r->rest_min = fminf(r->min, v[k]);
            r->max = r->rest_max = fmaxf(r->max, v[k]);
        }
    }
    return 0;
}

/* Fills in the outputs, and gives every tensor the encoding of what it holds. */
static void compute_floats(composed *x, border *b)
{
    fy_err e = {0};
    void *buffers[BORDERS];
    fy_backend *cpu = fy_backend_new(&(fy_backend_params){.n_threads = 1, .n_tokens = LARGE}, &e);
    for (size_t i = 0; i < n_borders(&x->g[0]); i++)
        buffers[i] = x->g[0].tensors[i].class == FY_QC_MASK ? (void *)b[i].f16 : b[i].f32;
    fy_q_ranges_free(x->ranges);
    x->ranges = fy_q_ranges_new(fy_model_chunk_info(x->model)->model, &e);
    fy_qfloat *f = fy_qfloat_new(&x->g[0], x->model, cpu, pool, buffers, &e);
    fy_q_encodings_release(&x->c[0]);
    if (f == NULL || fy_qfloat_run(f, NULL, watch, x, &e) != 0 ||
        fy_q_encode(&x->g[0], x->ranges, &x->c[0], &e) != 0)
        fail_msg("%s", e.msg);
    fy_qfloat_free(f);
    fy_backend_free(cpu);
}

static void compute_codes(composed *x, border *b)
{
    fy_q_emitted out;
    fy_q_emit_params p = {
        .lib = lib, .chip = &chip, .model = x->model, .ranges = x->ranges, .pool = pool};
    fy_qnn_tensor *in[BORDERS], *results[BORDERS];
    void *in_data[BORDERS], *result_data[BORDERS];
    uint32_t n_in = 0, n_out = 0;
    fy_err e = {0};
    if (fy_qnn_context_new(lib, device, false, &p.context, &e) != 0 ||
        fy_q_emit(&p, x->graphs, 1, &out, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_qnn_graph_finalize(&out.graph), 0);
    for (size_t i = 0; i < n_borders(&x->g[0]); i++) {
        const fy_q_tensor *t = &x->g[0].tensors[i];
        if (t->kind == FY_Q_IN) {
            to_codes(t, &x->c[0].of[i], &b[i]);
            in[n_in] = out.tensor[i];
            in_data[n_in++] = b[i].codes;
        } else {
            results[n_out] = out.tensor[i];
            result_data[n_out++] = b[i].codes;
        }
    }
    assert_int_equal(fy_qnn_graph_run(&out.graph, in, in_data, n_in, results, result_data, n_out),
                     0);
    fy_qnn_context_free(lib, p.context);
    fy_q_emitted_release(&out, 1);
}

/* Of the first output, `out` or `logits`: the signal over what differs, in dB. */
static double compare(composed *x, border *b)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < n_borders(&x->g[0]); i++) {
        const fy_q_tensor *t = &x->g[0].tensors[i];
        for (size_t k = 0; t->kind == FY_Q_OUT && t->class == FY_QC_PLAIN && k < b[i].n; k++) {
            const double d = (double)b[i].f32[k] - (double)((float *)b[i].codes)[k];
            error += d * d;
            power += (double)b[i].f32[k] * b[i].f32[k];
        }
    }
    return 10 * log10(power / error);
}

static void the_library_computes_what_the_graph_means(void **state)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gpt2", "gemma2", "phi2"};
    /* In dB. The vendor's products of 16-bit floats are less exact (gemma2's scores, times 50). */
    static const double reference[N_RECIPES] = {52, 38, 14, 29, 14, 14, 14, 14},
                        vendor[N_RECIPES] = {29, 29, 14, 29, 14, 14, 14, 14};
    const double *bars = sdk != NULL ? vendor : reference;
    const bool old = lib->sdk_minor < 48; /* does not finalize RotaryEmbedding of floats */
    (void)state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        write_model(archs[i]);
        for (size_t k = 0; k < 2 * N_RECIPES; k++) {
            composed x;
            border b[BORDERS] = {0};
            uint32_t seed = 7;
            compose(&x, k % 2 ? "cut/qnn/lm_head.gguf" : "cut/qnn/chunk_0.gguf", &recipes[k / 2],
                    old || k % 4 == 0);
            for (size_t t = 0; t < n_borders(&x.g[0]); t++)
                make_up(&x, t, &b[t], &seed);
            compute_floats(&x, b);
            compute_codes(&x, b);
            const double db = compare(&x, b);
            if (!(db >= bars[k / 2]))
                fail_msg("%s in %s, %s: %.1f dB, expected %.1f", archs[i], recipes[k / 2].name,
                         k % 2 ? "lm_head" : "layers", db, bars[k / 2]);
            for (size_t t = 0; t < BORDERS; t++) {
                free(b[t].f32);
                free(b[t].f16);
                free(b[t].codes);
            }
            release(&x);
        }
    }
}

/* --- vectors ---------------------------------------------------------------------------------- */

static void vectors_are_coded_as_they_are_described(void **state)
{
    (void)state;
    const float values[] = {0, 1, -2, 0.5f};
    const fy_q_tensor gamma = {
        .kind = FY_Q_STATIC, .class = FY_QC_GAMMA, .type = FY_Q_U16, .rank = 1, .dims = {4}};
    fy_q_tensor t[] = {gamma, gamma, gamma};
    t[1].class = FY_QC_CONST;
    t[1].from = (fy_q_static){.value = -50, .scale = 1};
    t[2].type = FY_Q_F16;
    for (size_t i = 0; i < 3; i++)
        t[i].range = FY_Q_NONE;
    const fy_qgraph g = {.tensors = t, .n_tensors = 3};
    const fy_q_encodings c = {0};
    fy_qnn_graph to = {0};
    fy_qnn_quant q;
    fy_err e = {0};
    assert_int_equal(fy_q_quant(&to, &g, &c, 0, NULL, (fy_q_content){.values = values}, &q, &e), 0);
    assert_int_equal(q.u.scale_offset.offset, -32768); /* another is refused */
    uint16_t *codes = fy_q_vector_codes(&t[0], &q, values);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabsf(((float)codes[i] - 32768) * q.u.scale_offset.scale - values[i]) <=
                    q.u.scale_offset.scale / 2);
    free(codes);
    assert_int_equal(fy_q_quant(&to, &g, &c, 1, NULL, (fy_q_content){0}, &q, &e), 0);
    assert_int_equal(q.u.scale_offset.offset, -65535); /* 0 is in every range */
    const float number = -50;
    t[1].dims[0] = 1;
    codes = fy_q_vector_codes(&t[1], &q, &number);
    assert_int_equal(codes[0], 0);
    free(codes);
    assert_int_equal(fy_q_quant(&to, &g, &c, 2, NULL, (fy_q_content){0}, &q, &e), 0);
    assert_int_equal(q.definition, FY_QNN_UNDEFINED);
    codes = fy_q_vector_codes(&t[2], &q, values);
    assert_true(fy_f16_to_f32(codes[2]) == -2);
    free(codes);
}

static void a_bias_has_the_scale_of_its_product(void **state)
{
    (void)state;
    float scales[] = {0.5f, 2};
    const float values[] = {3, -8};
    const fy_q_matrix w = {.scales = scales};
    const uint32_t in[] = {0, 1, 2};
    const fy_q_node product = {.op = FY_Q_CONV, .in = in, .n_in = 3};
    fy_q_encoding of[3] = {{0.25f, -7}};
    const fy_q_encodings c = {.of = of};
    fy_q_tensor t[3] = {{.type = FY_Q_U16}, {.type = FY_Q_PACKED}};
    t[2] = (fy_q_tensor){
        .kind = FY_Q_STATIC, .class = FY_QC_BIAS, .type = FY_Q_S32, .rank = 1, .dims = {2}};
    const fy_qgraph g = {.tensors = t, .n_tensors = 3};
    fy_qnn_graph to = {0};
    fy_qnn_quant q;
    fy_err e = {0};
    assert_int_equal(fy_q_quant(&to, &g, &c, 2, &product, (fy_q_content){&w, values}, &q, &e), 0);
    assert_int_equal(q.encoding, FY_QNN_AXIS);
    int32_t *codes = fy_q_vector_codes(&t[2], &q, values);
    assert_int_equal(codes[0], 24);
    assert_int_equal(codes[1], -16);
    free(codes);
    fy_arena_release(&to.arena);
}

/* --- the library ------------------------------------------------------------------------------ */

static int begin(void **state)
{
    fy_err e = {0};
    if (chain_make_dir(state) != 0)
        return -1;
    snprintf(faults, sizeof faults, "%s", chain_at("faults"));
    with_fault("");
    setenv("FERRY_REF_FAULTS", faults, 1);
    fy_str path = {0};
    if (sdk != NULL)
        assert_int_equal(fy_qnn_find(sdk, &path, &e), 0);
    else
        fy_str_puts(&path, reference_path("libQnnRef.so"));
    lib = fy_qnn_open(path.ptr, NULL, &e);
    fy_str_release(&path);
    pool = fy_pool_new(2, &e);
    if (pool == NULL || lib == NULL || fy_qnn_device_new(lib, &chip, &device, &e) != 0) {
        print_message("%s\n", e.msg);
        return -1;
    }
    return 0;
}

static int end(void **state)
{
    fy_qnn_device_free(lib, device);
    fy_qnn_close(lib);
    fy_pool_free(pool);
    return chain_remove_dir(state);
}

int main(int argc, char **argv)
{
    sdk = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_of_every_recipe_is_accepted),
        cmocka_unit_test(two_graphs_have_their_weights_once),
        cmocka_unit_test(a_step_can_stop_the_work),
        cmocka_unit_test(graphs_of_two_chunks_are_not_one_context),
        cmocka_unit_test(refusals_are_listed_together),
        cmocka_unit_test(the_library_computes_what_the_graph_means),
        cmocka_unit_test(vectors_are_coded_as_they_are_described),
        cmocka_unit_test(a_bias_has_the_scale_of_its_product),
        cmocka_unit_test(other_chips_accept_what_they_can),
    };
    return cmocka_run_group_tests_name("qemit", tests, begin, end);
}
