/* A model that was cut, against the same model whole: every logit is the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"

#include "tests/unit/model/chain_fixture.h"

enum { V = CHAIN_V, MOST = 320 };

static const chain_kind kinds[] = {
    {"llama", FY_F32, .n_layer = 3},
    {"llama", FY_Q4_0, .n_layer = 3, .n_swa = 5},
    {"llama", FY_Q8_0, .n_layer = 3, .n_swa = 40, .tied = true},
    {"qwen3", FY_F16, .n_layer = 3, .tied = true},
    {"olmo2", FY_F32, .n_layer = 3},
    {"gpt2", FY_F32, .n_layer = 3},
    {"granite", FY_F32, .n_layer = 3},
    {"smollm3", FY_Q8_0, .n_layer = 4},
    {"gemma2", FY_Q8_0, .n_layer = 4, .n_swa = 4},
    {"gemma3", FY_F32, .n_layer = 7, .n_swa = 7},
    {"phi2", FY_F32, .n_layer = 3, .n_rot = 8},
    {"falcon", FY_Q8_0, .n_layer = 3},
    {"falcon", FY_F32, .n_layer = 3, .two_norms = true},
    {"gptneox", FY_Q4_0, .n_layer = 3, .n_rot = 8},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const uint32_t large[] = {128, 1, 0}, one_size[] = {32, 0}, three[] = {8, 4, 1, 0},
                      ones[] = {1, 0};
static int32_t ids[MOST];

static int make(void **state)
{
    for (int i = 0; i < MOST; i++)
        ids[i] = (i * 37 + i / 7 + 11) % V;
    return chain_make_dir(state);
}

static void assert_refused(const fy_err *e, fy_code code, const char *says)
{
    if (strstr(e->msg, says) == NULL)
        fail_msg("'%s', expected '%s'", e->msg, says);
    assert_int_equal(e->code, code);
}

/* --- what the sessions give ------------------------------------------------------------------- */

typedef struct {
    float (*row)[V];
    uint32_t base, n; /* the sink counts from base on */
} rows;

static int keep(void *user, const float *logits, uint32_t first, uint32_t n, fy_err *e)
{
    (void)e;
    rows *r = user;
    memcpy(r->row[first - r->base], logits, (size_t)n * V * sizeof *logits);
    r->n += n;
    return 0;
}

static void eval_all(fy_session *s, uint32_t n, float (*out)[V])
{
    rows r = {out, 0, 0};
    fy_err e = {0};
    const fy_eval_sinks sinks = {.logits = keep, .user = &r};
    if (fy_session_eval(s, ids, n, &sinks, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(r.n, n);
}

static const float *eval(fy_session *s, uint32_t n)
{
    fy_err e = {0};
    const float *last = NULL;
    if (fy_session_eval(s, ids + fy_session_n_past(s), n, NULL, &last, &e) != 0)
        fail_msg("%s", e.msg);
    return last;
}

/* Some prompts, decoding, and going back, with every logit of both. */
static void compare(const fy_model *whole, const fy_model *cut, fy_session_params p,
                    const char *what)
{
    static const uint32_t steps[] = {1, 9, 33, 1, 1, 40, 2};
    static float want[64][V], got[64][V];
    fy_session_params own = p;
    own.n_ctx = 100;
    fy_session *a = chain_session(whole, own), *b = chain_session(cut, p);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const uint32_t first = fy_session_n_past(a);
        memset(got, 0xff, sizeof got);
        if (first == 45) { /* others than before stand there now */
            fy_session_rewind(a, 20);
            fy_session_rewind(b, 20);
        }
        const uint32_t at = fy_session_n_past(a);
        rows r = {want, at, 0};
        const fy_eval_sinks sinks = {.logits = keep, .user = &r};
        fy_err e = {0};
        if (fy_session_eval(a, ids + first, steps[i], &sinks, NULL, &e) != 0)
            fail_msg("%s", e.msg);
        r.row = got;
        if (fy_session_eval(b, ids + first, steps[i], &sinks, NULL, &e) != 0)
            fail_msg("%s: %s", what, e.msg);
        if (memcmp(want, got, (size_t)steps[i] * V * sizeof(float)) != 0)
            fail_msg("%s: step %zu of %u tokens behind %u differs", what, i, steps[i], at);
    }
    fy_session_free(a);
    fy_session_free(b);
}

static void a_chain_gives_the_bits_of_the_whole_model(void **state)
{
    (void)state;
    const chain_cut cuts[] = {{large, 1, 1, 100}, {one_size, 2, 3, 100}, {three, 3, 2, 100}};
    for (int k = 0; k < N_KINDS; k++) {
        chain_write(&kinds[k]);
        fy_model *whole = chain_open_whole();
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            char what[64];
            snprintf(what, sizeof what, "%s (%d), cut %zu", kinds[k].arch, k, c);
            chain_write_chunks(&cuts[c]);
            fy_model *cut = chain_open(&cuts[c], kinds[k].n_layer);
            assert_string_equal(fy_model_backend(cut), "chunks");
            compare(whole, cut, (fy_session_params){.type_k = FY_F16, .type_v = FY_F16}, what);
            compare(whole, cut, (fy_session_params){.n_threads = 2}, what); /* f32 */
            fy_model_close(cut);
        }
        fy_model_close(whole);
    }
}

/* Every length is split otherwise: for graphs of 128 and 1 all of them, for others those that
 * differ.
 */
static void prompts_of_1_to_300_tokens(void **state)
{
    (void)state;
    static float want[301][V];
    const chain_kind kind = {"llama", FY_F32, .n_layer = 2, .n_swa = 90};
    const uint32_t *const batches[] = {large, one_size, three};
    chain_write(&kind);
    fy_model *whole = chain_open_whole();
    fy_session *a = chain_session(whole, (fy_session_params){.n_ctx = 301});
    eval_all(a, 301, want);
    for (size_t c = 0; c < 3; c++) {
        const chain_cut cut = {batches[c], 2, 2, 301};
        chain_write_chunks(&cut);
        fy_model *m = chain_open(&cut, kind.n_layer);
        fy_session *b = chain_session(m, (fy_session_params){0});
        for (uint32_t n = 1; n <= 300; n += c > 0 && n >= 34 ? 19 : 1) {
            fy_session_rewind(b, 0);
            assert_memory_equal(eval(b, n), want[n - 1], sizeof want[0]);
            if (n % 50 == 0) /* and on from there */
                assert_memory_equal(eval(b, 1), want[n], sizeof want[0]);
        }
        fy_session_free(b);
        fy_model_close(m);
    }
    fy_session_free(a);
    fy_model_close(whole);
}

static void a_whole_model_may_stand_where_the_embedding_does(void **state)
{
    (void)state;
    const chain_cut cut = {three, 2, 1, 100};
    chain_list l;
    fy_err e = {0};
    chain_write(&kinds[2]);
    chain_write_chunks(&cut);
    chain_list_of(&cut, kinds[2].n_layer, &l);
    fy_model *whole = chain_open_whole(), *m = chain_open_whole();
    assert_int_equal(fy_model_chain(m, fy_graph_cpu_open(&chain_how, &e), &l.spec, &e), 0);
    compare(whole, m, (fy_session_params){0}, "whole");
    fy_model_close(m);
    fy_model_close(whole);
}

/* --- limits ----------------------------------------------------------------------------------- */

static fy_model *open_first(const uint32_t *batch, uint32_t n_cache)
{
    const chain_cut cut = {batch, 2, 1, n_cache};
    chain_write(&kinds[0]);
    chain_write_chunks(&cut);
    return chain_open(&cut, kinds[0].n_layer);
}

static void the_context_ends_where_the_graphs_say(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_model *m = open_first(three, 30);
    fy_session *s = chain_session(m, (fy_session_params){0});
    assert_int_equal(fy_session_n_ctx(s), 30);
    eval(s, 29);
    const int32_t two[] = {1, 2};
    assert_int_equal(fy_session_eval(s, two, 2, NULL, NULL, &e), -1);
    assert_refused(
        &e, FY_EFIT,
        "the context is full: 30 positions, 29 in use, 2 more asked for; the graphs have "
        "no more (cache_size 30, context_size 38): chunk the model again with a larger "
        "-c");
    assert_int_equal(fy_session_n_past(s), 29);
    eval(s, 1); /* the last one */
    fy_session_free(s);

    e = (fy_err){0};
    fy_session_params p = {.n_ctx = 31, .n_threads = 1};
    assert_null(fy_session_new(m, &p, &e));
    assert_refused(&e, FY_EFIT,
                   "context of 31 positions, but the graphs have 30 (cache_size; context_size is "
                   "38); use -c 30 or less, or chunk");
    s = chain_session(m, (fy_session_params){.n_ctx = 8});
    eval(s, 8);
    e = (fy_err){0};
    assert_int_equal(fy_session_eval(s, two, 1, NULL, NULL, &e), -1);
    assert_refused(&e, FY_EFIT, "8 positions, 8 in use, 1 more asked for; use a larger -c");
    fy_session_free(s);
    fy_model_close(m);
}

static void what_graphs_do_not_have_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        fy_session_params p;
        const char *says;
    } cases[] = {
        {{.n_seq = 2}, "2 sequences, but graphs of fixed shape hold one"},
        {{.type_k = FY_Q8_0, .type_v = FY_Q8_0}, "KV cache of types q8_0 and q8_0"},
        {{.type_k = FY_F16}, "KV cache of types f16 and f32"},
    };
    fy_model *m = open_first(three, 30);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        fy_session_plan plan;
        assert_null(fy_session_new(m, &cases[i].p, &e));
        assert_refused(&e, FY_EARG, cases[i].says);
        assert_int_equal(fy_session_plan_of(m, &cases[i].p, &plan, NULL), -1);
    }
    fy_model_close(m);
}

typedef struct {
    uint32_t n, layer[64], first[64], rows[64];
} borders;

static int see_border(void *user, uint32_t layer, const float *x, uint32_t first, uint32_t n,
                      fy_err *e)
{
    (void)x, (void)e;
    borders *b = user;
    b->layer[b->n] = layer;
    b->first[b->n] = first;
    b->rows[b->n++] = n;
    return b->n < 6 ? 0 : fy_fail(e, FY_EINTR, "enough");
}

static void what_is_between_the_chunks_is_shown(void **state)
{
    (void)state;
    fy_err e = {0};
    borders b = {0};
    fy_model *m = open_first(three, 30);
    fy_session *s = chain_session(m, (fy_session_params){0});
    const fy_eval_sinks sinks = {.hidden = see_border, .user = &b};
    assert_int_equal(fy_session_eval(s, ids, 1, NULL, NULL, &e), 0);
    assert_int_equal(fy_session_eval(s, ids, 1, &sinks, NULL, &e), 0);
    assert_int_equal(b.n, fy_model_n_chunks(m));
    for (uint32_t i = 0; i < b.n; i++) {
        assert_true(b.first[i] == 1 && b.rows[i] == 1);
        assert_true(i == 0 ? b.layer[i] == 0 : b.layer[i] > b.layer[i - 1]);
    }
    assert_int_equal(b.layer[b.n - 1], fy_model_hparams(m)->n_layer);
    assert_int_equal(fy_session_eval(s, ids, 1, &sinks, NULL, &e), -1);
    assert_refused(&e, FY_EINTR, "enough");
    fy_session_free(s);
    fy_model_close(m);
}

static void one_session_at_a_time(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_model *m = open_first(ones, 30);
    const fy_session_params p = {.n_threads = 1};
    fy_session *s = chain_session(m, p);
    assert_null(fy_session_new(m, &p, &e));
    assert_refused(&e, FY_EARG, "one session at a time");
    fy_session_free(s);
    s = chain_session(m, p);
    eval(s, 5);
    fy_session_free(s);
    fy_model_close(m);
}

static void a_sequence_is_copied_to_itself_and_rewound(void **state)
{
    (void)state;
    float want[V];
    fy_model *m = open_first(three, 30);
    fy_session *s = chain_session(m, (fy_session_params){0});
    memcpy(want, eval(s, 12), sizeof want);
    eval(s, 10);
    assert_int_equal(fy_session_seq_copy(s, 0, 0, 9, NULL), 0);
    assert_int_equal(fy_session_n_past(s), 9);
    assert_memory_equal(eval(s, 3), want, sizeof want);
    assert_int_equal(fy_session_seq_copy(s, 0, 1, 3, NULL), -1);
    fy_session_free(s);
    fy_model_close(m);
}

static void the_plan_counts_every_tensor(void **state)
{
    (void)state;
    fy_session_plan plan;
    fy_model *m = open_first(large, 64);
    const fy_hparams *hp = fy_model_hparams(m);
    const fy_session_params p = {.type_k = FY_F16, .type_v = FY_F16};
    assert_int_equal(fy_session_plan_of(m, &p, &plan, NULL), 0);
    assert_int_equal(plan.kv_bytes, hp->n_layer * hp->n_head_kv * 64 * hp->head_dim * 2 * 2);
    assert_true(plan.scratch_bytes > 2 * 128 * hp->n_embd * 4 + 128 * V * 4);
    assert_int_equal(plan.params.n_ctx, 64);
    assert_int_equal(plan.params.n_batch, 64); /* no more than there are positions */
    fy_model_close(m);
}

/* --- chunks that do not belong together ------------------------------------------------------- */

static void a_piece_is_no_model(void **state)
{
    (void)state;
    static const struct {
        const char *file, *says;
    } cases[] = {
        {"cut/ggml/weights.gguf", "weights.gguf: is a chunk of a model that was cut: embedding; "
                                  "run the directory (-m DIR) or the workspace (-d WORKSPACE)"},
        {"cut/qnn/chunk_1.gguf", "chunk_1.gguf: is a chunk of a model that was cut: layers 1-2"},
        {"cut/qnn/lm_head.gguf", "lm_head.gguf: is a chunk of a model that was cut: lm_head"},
    };
    fy_model_close(open_first(three, 30));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(fy_model_open(chain_at(cases[i].file), &e));
        assert_refused(&e, FY_EARG, cases[i].says);
    }
}

typedef void change(chain_list *l);
#define CHANGE(name, statement)     \
    static void name(chain_list *l) \
    {                               \
        statement;                  \
    }
/* Of each batch size: chunk 0 (layer 0), chunk 1 (layers 1 and 2), the head. */
CHANGE(no_graphs, l->spec.n_graphs = 0)
CHANGE(no_head, l->spec.n_graphs = 2)
CHANGE(no_layers, l->spec.graphs += 2; l->spec.n_graphs = 1)
CHANGE(fewer_of_one_size, l->spec.n_graphs = 7)
CHANGE(twice, l->graphs[1] = l->graphs[0])
CHANGE(overlap, l->graphs[1].first_layer = 0)
CHANGE(gap, l->graphs[0].end_layer = 0)
CHANGE(too_far, l->graphs[1].end_layer = 9)
CHANGE(fewer_tokens, l->graphs[2].end_token = 95)
CHANGE(more_tokens, l->graphs[2].end_token = 97)
CHANGE(no_batch, l->graphs[0].n_batch = 0)
CHANGE(narrow, l->spec.n_ctx = 31)
CHANGE(no_cache, l->spec.n_cache = 0)
CHANGE(huge, l->spec.n_ctx = UINT32_MAX)
CHANGE(does_not_hide, l->spec.mask_value = -1)
CHANGE(no_number, l->spec.mask_value = NAN)
CHANGE(no_file, strcat(l->paths[1], ".x"))
CHANGE(
    other_piece, for (int i = 0; i < 9; i += 3) {
        l->graphs[i].path = l->paths[1];
        l->graphs[i + 1].path = l->paths[0];
    })
CHANGE(two_ranges, l->graphs[4].path = l->paths[0])
CHANGE(head_twice, l->graphs[5] = l->graphs[2])
CHANGE(
    head_as_layers, for (int i = 0; i < 9; i += 3) {
        l->graphs[i].path = l->paths[2];
        l->graphs[i + 2].path = l->paths[0];
    })
CHANGE(layers_as_head, for (int i = 2; i < 9; i += 3) l->graphs[i].path = l->paths[1])
CHANGE(of_another,
       l->spec.model = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")

static const struct {
    change *change;
    fy_code code;
    const char *says;
} wrong[] = {
    {no_graphs, FY_EFORMAT, "0 graphs, expected 1 to"},
    {no_head, FY_EUNSUPPORTED, "no graph computes the lm_head"},
    {no_layers, FY_EFORMAT, "no graph computes layers"},
    {fewer_of_one_size, FY_EFORMAT, "batch size 1 do not cover the model's 3 layers"},
    {twice, FY_EFORMAT, "batch size 8 do not cover the model's 3 layers, each once"},
    {overlap, FY_EFORMAT, "batch size 8 do not cover the model's 3 layers"},
    {gap, FY_EFORMAT, "batch size 8 do not cover the model's"},
    {too_far, FY_EFORMAT, "batch size 8 do not cover the model's 3 layers"},
    {fewer_tokens, FY_EFORMAT, "batch size 8 do not cover the model's 96 tokens"},
    {more_tokens, FY_EFORMAT, "batch size 8 do not cover the model's 96 tokens"},
    {no_batch, FY_EFORMAT, "batch size 8 do not cover the model's 3 layers"},
    {narrow, FY_EFORMAT, "cache_size 30 and batch size 8, expected both to fit context_size 31"},
    {no_cache, FY_EFORMAT, "cache_size 0"},
    {huge, FY_EFORMAT, "context_size 4294967295"},
    {does_not_hide, FY_EFORMAT, "attention_mask_value is -1, expected at most -1000"},
    {no_number, FY_EFORMAT, "attention_mask_value is nan"},
    {no_file, FY_EIO, "chunk_1.gguf.x"},
    {other_piece, FY_EFORMAT, "chunk_1.gguf: holds layers 1-2, expected layers 0-0"},
    {head_twice, FY_EFORMAT, "batch size 8 do not cover the model's 96 tokens"},
    {two_ranges, FY_EFORMAT, "chunk_0.gguf: its graphs are of different layers or tokens"},
    {head_as_layers, FY_EFORMAT, "chunk_0.gguf: holds layers 0-0, expected lm_head"},
    {layers_as_head, FY_EFORMAT, "chunk_1.gguf: its graphs are of different layers"},
    {of_another, FY_EFORMAT, "chunks of two cuts"},
};

static void graphs_that_do_not_make_a_model_are_refused(void **state)
{
    (void)state;
    const chain_cut cut = {three, 2, 1, 30};
    fy_model_close(open_first(three, 30));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        chain_list l;
        fy_err e = {0};
        chain_list_of(&cut, kinds[0].n_layer, &l);
        wrong[i].change(&l);
        if (chain_open_list(&l, &e) != NULL)
            fail_msg("case %zu is accepted, expected '%s'", i, wrong[i].says);
        assert_refused(&e, wrong[i].code, wrong[i].says);
    }
}

static void a_piece_of_another_model_is_refused(void **state)
{
    (void)state;
    const chain_cut cut = {three, 2, 1, 30};
    const chain_kind other = {"llama", FY_Q8_0, .n_layer = 3};
    char command[400];
    chain_list l;
    fy_err e = {0};
    fy_model_close(open_first(three, 30));
    snprintf(command, sizeof command, "mv %s %s", chain_at("cut/qnn/chunk_1.gguf"),
             chain_at("kept.gguf"));
    assert_int_equal(system(command), 0);
    chain_write(&other);
    chain_write_chunks(&cut);
    snprintf(command, sizeof command, "mv %s %s", chain_at("kept.gguf"),
             chain_at("cut/qnn/chunk_1.gguf"));
    assert_int_equal(system(command), 0);
    chain_list_of(&cut, other.n_layer, &l);
    assert_null(chain_open_list(&l, &e));
    assert_refused(&e, FY_EFORMAT, "chunk_1.gguf: is a chunk of model ");
}

/* --- what a device is asked for --------------------------------------------------------------- */

/* The CPU's device with its calls written down, one of which may fail. */
static struct {
    const fy_graph_backend *cpu;
    fy_graph_backend api;
    struct {
        fy_graph *graph;
        uint32_t batch;
        bool head;
    } known[16];
    size_t n_known;
    char calls[256];
    int fails_in; /* calls from now; 0: none */
} spy;

static fy_graph *spy_bind(fy_graph_chunk *p, const fy_graph_binding *b, fy_err *e)
{
    fy_graph *g = spy.cpu->bind(p, b, e);
    spy.known[spy.n_known].graph = g;
    spy.known[spy.n_known].batch = b->n_batch;
    spy.known[spy.n_known++].head = strcmp(b->tensors[b->n_tensors - 1].name, "logits") == 0;
    return g;
}

static int spy_run(fy_graph *g, fy_err *e)
{
    size_t i = 0;
    while (spy.known[i].graph != g)
        i++;
    const size_t at = strlen(spy.calls);
    snprintf(spy.calls + at, sizeof spy.calls - at, "%s%u ", spy.known[i].head ? "h" : "",
             spy.known[i].batch);
    if (spy.fails_in > 0 && --spy.fails_in == 0)
        return fy_fail(e, FY_EDEVICE, "the device is gone");
    return spy.cpu->run(g, e);
}

static fy_model *open_spied(const chain_cut *cut, uint32_t n_layer)
{
    chain_list l;
    fy_err e = {0};
    chain_list_of(cut, n_layer, &l);
    fy_graph_device *d = fy_graph_cpu_open(&chain_how, &e);
    memset(&spy, 0, sizeof spy);
    spy.cpu = d->api;
    spy.api = *d->api;
    spy.api.bind = spy_bind;
    spy.api.run = spy_run;
    d->api = &spy.api;
    fy_model *m = fy_model_open_chunk(chain_at("cut/ggml/weights.gguf"), &chain_how, &e);
    if (fy_model_chain(m, d, &l.spec, &e) != 0)
        fail_msg("%s", e.msg);
    return m;
}

static void prompts_are_split_greedily(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        const char *calls; /* two chunks, and the head in two slices for one row */
    } cases[] = {
        {1, "1 1 h1 h1 "},          {2, "4 4 h1 h1 "},     {4, "4 4 h1 h1 "},
        {5, "8 8 h1 h1 "},          {9, "8 8 1 1 h1 h1 "}, {13, "8 8 8 8 h1 h1 "},
        {19, "8 8 8 8 4 4 h1 h1 "},
    };
    const chain_cut cut = {three, 2, 2, 30};
    chain_write(&kinds[0]);
    chain_write_chunks(&cut);
    fy_model *m = open_spied(&cut, kinds[0].n_layer);
    fy_session *s = chain_session(m, (fy_session_params){0});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_session_rewind(s, 0);
        spy.calls[0] = '\0';
        eval(s, cases[i].n);
        assert_string_equal(spy.calls, cases[i].calls);
    }
    fy_session_free(s);
    fy_model_close(m);
}

static void a_device_that_fails_leaves_the_sequence_as_it_was(void **state)
{
    (void)state;
    float want[V];
    const chain_cut cut = {three, 2, 2, 30};
    chain_write(&kinds[1]); /* with a window */
    chain_write_chunks(&cut);
    fy_model *m = open_spied(&cut, kinds[1].n_layer);
    fy_session *s = chain_session(m, (fy_session_params){0});
    memcpy(want, eval(s, 20), sizeof want);
    for (int fails_in = 1; fails_in <= 6; fails_in++) {
        fy_err e = {0};
        fy_session_rewind(s, 0);
        eval(s, 7);
        spy.fails_in = fails_in;
        assert_int_equal(fy_session_eval(s, ids + 7, 13, NULL, NULL, &e), -1);
        assert_refused(&e, FY_EDEVICE, "the device is gone");
        assert_int_equal(fy_session_n_past(s), 7);
        assert_memory_equal(eval(s, 13), want, sizeof want);
    }
    fy_session_free(s);
    fy_model_close(m);
}

static void without_memory_nothing_is_left_open(void **state)
{
    (void)state;
    const chain_cut cut = {three, 2, 2, 30};
    chain_list l;
    chain_write(&kinds[0]);
    chain_write_chunks(&cut);
    chain_list_of(&cut, kinds[0].n_layer, &l);
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        const fy_session_params p = {.n_threads = 1};
        alloc_fail_after(n);
        fy_model *m = chain_open_list(&l, &e);
        fy_session *s = m != NULL ? fy_session_new(m, &p, &e) : NULL;
        done = !alloc_fail_end();
        assert_true(done == (s != NULL));
        assert_true(done || e.msg[0] != '\0');
        fy_session_free(s);
        fy_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_gives_the_bits_of_the_whole_model),
        cmocka_unit_test(prompts_of_1_to_300_tokens),
        cmocka_unit_test(a_whole_model_may_stand_where_the_embedding_does),
        cmocka_unit_test(the_context_ends_where_the_graphs_say),
        cmocka_unit_test(what_graphs_do_not_have_is_refused_by_name),
        cmocka_unit_test(what_is_between_the_chunks_is_shown),
        cmocka_unit_test(one_session_at_a_time),
        cmocka_unit_test(a_sequence_is_copied_to_itself_and_rewound),
        cmocka_unit_test(the_plan_counts_every_tensor),
        cmocka_unit_test(a_piece_is_no_model),
        cmocka_unit_test(graphs_that_do_not_make_a_model_are_refused),
        cmocka_unit_test(a_piece_of_another_model_is_refused),
        cmocka_unit_test(prompts_are_split_greedily),
        cmocka_unit_test(a_device_that_fails_leaves_the_sequence_as_it_was),
        cmocka_unit_test(without_memory_nothing_is_left_open),
    };
    return cmocka_run_group_tests(tests, make, chain_remove_dir);
}
