/* One graph on the CPU by its tensors alone: what its masks, tables and caches say is what is
 * computed, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch/graph_io.h"
#include "tests/unit/model/chain_fixture.h"
#include "model/session.h"

enum { B = 4, C = 24, X = C + B + 4, D = 64, H = 32, LAYERS = 2, HEADS = 2, PAIRS = H / 2 };

static const float HIDDEN = -50000;
static const uint32_t batches[] = {B, 0};
static const uint16_t HIDES = 0xfa1a; /* f16 of -50000 */

/* --- a graph of all layers with memory of its own --------------------------------------------- */

typedef struct {
    fy_graph_device *device;
    fy_graph_chunk *chunk;
    fy_graph *graph;
    uint32_t n;
    fy_graph_tensor tensors[64];
    void *buffers[64];
} bound;

static void write_model(uint32_t n_swa)
{
    const chain_kind kind = {"llama", FY_F32, .n_layer = LAYERS, .n_swa = n_swa};
    const chain_cut cut = {batches, 1, 1, C};
    chain_write(&kind);
    chain_write_chunks(&cut);
}

static void list_tensors(bound *b, const fy_hparams *hp, fy_type kv)
{
    const fy_chunk_info info = {.kind = FY_CHUNK_LAYERS, .end_layer = LAYERS};
    const fy_graph_shape g = {.hp = hp,
                              .chunk = &info,
                              .n_batch = B,
                              .n_cache = C,
                              .n_ctx = X,
                              .kv_bytes = kv == FY_F16 ? 2 : 4};
    b->n = fy_graph_n_io(&g);
    assert_true(b->n <= 64);
    for (uint32_t i = 0; i < b->n; i++) {
        fy_io_tensor t;
        fy_graph_io(&g, i, &t);
        b->tensors[i] = (fy_graph_tensor){.type = t.element_bytes == 2 ? FY_EL_F16 : FY_EL_F32,
                                          .output = t.role >= FY_IO_OUT,
                                          .rows = t.rows,
                                          .cols = t.cols};
        memcpy(b->tensors[i].name, t.name, sizeof t.name);
    }
}

static fy_graph_binding binding_of(const bound *b)
{
    return (fy_graph_binding){.name = "batch_4",
                              .n_batch = B,
                              .n_cache = C,
                              .n_ctx = X,
                              .mask_value = HIDDEN,
                              .tensors = b->tensors,
                              .buffers = b->buffers,
                              .n_tensors = b->n};
}

static void open_chunk(bound *b)
{
    fy_err e = {0};
    const char *path = chain_at("cut/qnn/chunk_0.gguf");
    const fy_graph_file f = {.path = path, .model = "", .end_layer = LAYERS};
    *b = (bound){.device = fy_graph_cpu_open(&chain_how, &e)};
    b->chunk = b->device->api->load(b->device, &f, &e);
    if (b->chunk == NULL)
        fail_msg("%s", e.msg);
}

/* The tensor's place; NULL: the graph has none of that name. */
static void *tensor(const bound *b, const char *name)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (strcmp(b->tensors[i].name, name) == 0)
            return b->buffers[i];
    }
    return NULL;
}

static void hide_all(bound *b)
{
    static const char *const masks[] = {"attn_bias", "attn_bias_swa"};
    for (int m = 0; m < 2; m++) {
        uint16_t *bits = tensor(b, masks[m]);
        for (int i = 0; bits != NULL && i < B * X; i++)
            bits[i] = HIDES;
    }
}

/* Row r of the mask sees columns [begin, end). */
static void see(bound *b, const char *mask, int r, int begin, int end)
{
    uint16_t *bits = tensor(b, mask);
    for (int c = begin; c < end; c++)
        bits[r * X + c] = 0;
}

/* The call's tokens see each other. */
static void see_causal(bound *b, int n_past)
{
    hide_all(b);
    for (int r = 0; r < B; r++) {
        see(b, "attn_bias", r, 0, n_past);
        see(b, "attn_bias", r, C, C + r + 1);
    }
}

static void turn_row(bound *b, int r, int pos)
{
    double rate[PAIRS];
    float angles[H], *cos = tensor(b, "rope_embed_cos"), *sin = tensor(b, "rope_embed_sin");
    const fy_hparams hp = {.n_rot = H, .rope_theta = 10000, .rope_attn_factor = 1};
    fy_rope rope;
    fy_rope_init(&rope, &hp, NULL, rate);
    fy_rope_angles(&rope, (uint32_t)pos, angles);
    for (int i = 0; i < PAIRS; i++) {
        cos[r * PAIRS + i] = angles[2 * i];
        sin[r * PAIRS + i] = angles[2 * i + 1];
    }
}

static void turn(bound *b, int first)
{
    for (int r = 0; r < B; r++)
        turn_row(b, r, first + r);
}

static void put_x(bound *b, int row, int token)
{
    float *x = tensor(b, "x");
    for (int i = 0; i < D; i++)
        x[row * D + i] = tiny_value("x", (uint64_t)(token * D + i));
}

static void bind_all(bound *b, const fy_hparams *hp, fy_type kv)
{
    fy_err e = {0};
    list_tensors(b, hp, kv);
    for (uint32_t i = 0; i < b->n; i++) {
        const fy_graph_tensor *t = &b->tensors[i];
        const uint64_t bytes = t->rows * t->cols * fy_element_bytes(t->type);
        b->buffers[i] = fy_graph_take(b->device, bytes, &e);
        assert_non_null(b->buffers[i]);
    }
    const fy_graph_binding binding = binding_of(b);
    b->graph = b->device->api->bind(b->chunk, &binding, &e);
    if (b->graph == NULL || b->device->api->begin(b->device, 1, &e) != 0)
        fail_msg("%s", e.msg);
}

static bound open_bound(uint32_t n_swa, fy_type kv)
{
    bound b;
    write_model(n_swa);
    open_chunk(&b);
    fy_model *whole = chain_open_whole();
    bind_all(&b, fy_model_hparams(whole), kv);
    fy_model_close(whole);
    return b;
}

static void close_bound(bound *b)
{
    const fy_graph_backend *api = b->device->api;
    api->end(b->device);
    api->unbind(b->graph);
    for (uint32_t i = 0; i < b->n; i++)
        fy_graph_give(b->device, b->buffers[i]);
    api->unload(b->chunk);
    api->close(b->device);
}

static void run(bound *b)
{
    fy_err e = {0};
    if (b->device->api->run(b->graph, &e) != 0)
        fail_msg("%s", e.msg);
}

/* Row i of what a call left goes to slot `slot` of each cache: elements of 4 bytes. */
static void keep(bound *b, int row, int slot)
{
    char name[64];
    for (int l = 0; l < LAYERS; l++) {
        for (int h = 0; h < HEADS; h++) {
            snprintf(name, sizeof name, "layer_%d_key_t_cache_%d", l, h);
            float *to = tensor(b, name);
            snprintf(name, sizeof name, "layer_%d_key_%d", l, h);
            const float *from = tensor(b, name);
            for (int e = 0; e < H; e++)
                to[e * C + slot] = from[row * H + e];
            snprintf(name, sizeof name, "layer_%d_value_cache_%d", l, h);
            to = tensor(b, name);
            snprintf(name, sizeof name, "layer_%d_value_%d", l, h);
            memcpy(to + slot * H, (const float *)tensor(b, name) + row * H, H * sizeof(float));
        }
    }
}

/* Tokens 0 to 3 in slots 0 to 3, then tokens 4 to 7 are what is asked for. */
static void begin_with_four(bound *b)
{
    for (int r = 0; r < B; r++)
        put_x(b, r, r);
    see_causal(b, 0);
    turn(b, 0);
    run(b);
    for (int r = 0; r < B; r++)
        keep(b, r, r);
    for (int r = 0; r < B; r++)
        put_x(b, r, 4 + r);
    see_causal(b, 4);
    turn(b, 4);
}

static void take_out(const bound *b, float out[B * D])
{
    memcpy(out, tensor(b, "out"), B * D * sizeof *out);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void rows_that_nobody_sees_do_not_matter(void **state)
{
    (void)state;
    float want[B * D], got[B * D];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    run(&b);
    take_out(&b, want);
    const float garbage[] = {NAN, INFINITY, 1e30f};
    for (int g = 0; g < 3; g++) {
        float *x = tensor(&b, "x"), *cos = tensor(&b, "rope_embed_cos");
        for (int i = 2 * D; i < B * D; i++)
            x[i] = garbage[g];
        for (int i = 2 * PAIRS; i < B * PAIRS; i++)
            cos[i] = garbage[g];
        run(&b);
        take_out(&b, got);
        assert_memory_equal(got, want, 2 * D * sizeof *got);
    }
    close_bound(&b);
}

/* Slots that the mask hides may hold anything. */
static void hidden_slots_are_not_read(void **state)
{
    (void)state;
    float want[B * D], got[B * D];
    char name[64];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    run(&b);
    take_out(&b, want);
    for (int l = 0; l < LAYERS; l++) {
        for (int slot = 4; slot < C; slot++) {
            snprintf(name, sizeof name, "layer_%d_key_t_cache_1", l);
            float *keys = tensor(&b, name);
            for (int e = 0; e < H; e++)
                keys[e * C + slot] = NAN;
        }
    }
    run(&b);
    take_out(&b, got);
    assert_memory_equal(got, want, sizeof got);
    close_bound(&b);
}

static void the_mask_says_what_a_token_sees(void **state)
{
    (void)state;
    float all[B * D], without[B * D], got[B * D];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    run(&b);
    take_out(&b, all);
    /* without token 3: as if it had never been */
    hide_all(&b);
    for (int r = 0; r < B; r++) {
        see(&b, "attn_bias", r, 0, 3);
        see(&b, "attn_bias", r, C, C + r + 1);
    }
    run(&b);
    take_out(&b, without);
    assert_memory_not_equal(without, all, sizeof all);
    for (int l = 0; l < LAYERS; l++) { /* what is in its slot is the same to them */
        char name[64];
        snprintf(name, sizeof name, "layer_%d_value_cache_0", l);
        float *values = tensor(&b, name);
        for (int e = 0; e < H; e++)
            values[3 * H + e] = 1e9f;
    }
    run(&b);
    take_out(&b, got);
    assert_memory_equal(got, without, sizeof got);
    close_bound(&b);
}

/* Tokens 0, 2, 3 in slots 0, 2, 3 with slot 1 hidden, against the same in slots 0, 1, 2. */
static void a_hidden_slot_between_others_is_no_token(void **state)
{
    (void)state;
    float want[B * D], got[B * D];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    hide_all(&b);
    for (int r = 0; r < B; r++) {
        see(&b, "attn_bias", r, 0, 1);
        see(&b, "attn_bias", r, 2, 4);
        see(&b, "attn_bias", r, C, C + r + 1);
    }
    run(&b);
    take_out(&b, got);
    for (int l = 0; l < LAYERS; l++) {
        for (int h = 0; h < HEADS; h++) {
            char name[64];
            snprintf(name, sizeof name, "layer_%d_key_t_cache_%d", l, h);
            float *keys = tensor(&b, name);
            for (int e = 0; e < H; e++)
                memmove(keys + e * C + 1, keys + e * C + 2, 2 * sizeof *keys);
            snprintf(name, sizeof name, "layer_%d_value_cache_%d", l, h);
            float *values = tensor(&b, name);
            memmove(values + H, values + 2 * H, 2 * H * sizeof *values);
        }
    }
    see_causal(&b, 3);
    run(&b);
    take_out(&b, want);
    assert_memory_equal(got, want, sizeof got);
    close_bound(&b);
}

static void the_tables_say_how_tokens_are_turned(void **state)
{
    (void)state;
    float want[B * D], got[B * D];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    run(&b);
    take_out(&b, want);
    turn(&b, 5);
    run(&b);
    take_out(&b, got);
    assert_memory_not_equal(got, want, sizeof got);
    close_bound(&b);
}

/* Each row may see another run: here a window of two, which the layer's own says nothing about. */
static void a_window_is_what_its_mask_shows(void **state)
{
    (void)state;
    float narrow[B * D], wide[B * D];
    bound b = open_bound(6, FY_F32);
    assert_null(tensor(&b, "attn_bias"));
    for (int r = 0; r < B; r++)
        put_x(&b, r, r);
    turn(&b, 0);
    for (int window = 2; window <= B; window += 2) {
        hide_all(&b);
        for (int r = 0; r < B; r++)
            see(&b, "attn_bias_swa", r, C + (r < window ? 0 : r - window + 1), C + r + 1);
        run(&b);
        take_out(&b, window == 2 ? narrow : wide);
    }
    assert_memory_equal(narrow, wide, 2 * D * sizeof *wide);
    assert_memory_not_equal(narrow + 2 * D, wide + 2 * D, 2 * D * sizeof *wide);
    close_bound(&b);
}

/* Rows 0 - 1 and 0 - 2 - 3: each row gets what it gets where its path is all there is. */
static void a_path_of_a_tree_is_what_its_mask_shows(void **state)
{
    (void)state;
    static const int parent[B] = {-1, 0, 0, 2}, depth[B] = {0, 1, 1, 2};
    float tree[B * D], got[B * D];
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    hide_all(&b);
    for (int r = 0; r < B; r++) {
        turn_row(&b, r, 4 + depth[r]);
        see(&b, "attn_bias", r, 0, 4);
        for (int i = r; i >= 0; i = parent[i])
            see(&b, "attn_bias", r, C + i, C + i + 1);
    }
    run(&b);
    take_out(&b, tree);
    see_causal(&b, 4);
    turn(&b, 4);
    run(&b);
    take_out(&b, got);
    assert_memory_equal(got, tree, 2 * D * sizeof *got); /* 0 - 1 */
    assert_memory_not_equal(got + 2 * D, tree + 2 * D, D * sizeof *got);
    put_x(&b, 1, 6);
    put_x(&b, 2, 7);
    run(&b);
    take_out(&b, got);
    assert_memory_equal(got + D, tree + 2 * D, 2 * D * sizeof *got); /* 0 - 2 - 3 */
    keep(&b, 0, 4); /* node 0 in a slot: rows follow it, or what it follows */
    for (int r = 0; r < B; r++) {
        put_x(&b, r, 5 + r);
        turn_row(&b, r, r == 3 ? 4 : 5);
    }
    hide_all(&b);
    for (int r = 0; r < B; r++) {
        see(&b, "attn_bias", r, 0, r == 3 ? 4 : 5);
        see(&b, "attn_bias", r, C + r, C + r + 1);
    }
    put_x(&b, 3, 4); /* node 0 again, which does not see itself in slot 4 */
    run(&b);
    take_out(&b, got);
    assert_memory_equal(got, tree + D, 2 * D * sizeof *got);
    assert_memory_equal(got + 3 * D, tree, D * sizeof *got);
    close_bound(&b);
}

static void change_mask(bound *b, int which)
{
    uint16_t *bits = tensor(b, "attn_bias");
    see_causal(b, 4);
    switch (which) {
    case 0:
        bits[2 * X + C + 2] = HIDES;
        break; /* not itself */
    case 1:
        bits[2 * X + 2] = HIDES;
        break; /* a hole that others do not have */
    case 2:
        bits[2 * X + C] = HIDES;
        break; /* a hole in the call */
    case 3:
        bits[1 * X + C + 2] = 0;
        break; /* a token after it */
    case 4:
        bits[3 * X + X - 1] = 0;
        break; /* padding */
    case 5:
        bits[0 * X + 1] = 0x3c00;
        break; /* 1.0 */
    case 6:
        bits[0 * X + X - 1] = 0x7e00;
        break; /* not a number */
    case 7:
        bits[3 * X + 1] = 0xfbff;
        break; /* another value that hides */
    case 8:
        memset(bits + X, 0xff, X * 2);
        break;
    case 9:
        bits[3 * X + C + 1] = HIDES;
        break; /* row 2 follows row 1, but here row 0 */
    default:
        memset(bits, 0, B * X * 2);
    }
}

static void masks_that_are_no_runs_and_no_trees_are_refused(void **state)
{
    (void)state;
    static const char *const says[] = {
        "row 2: the columns that it shows are not one run that ends with its own token (column 26)",
        "row 2: the columns",
        "row 2: the columns",
        "row 1: the columns",
        "row 3: the columns",
        "attn_bias, row 0: expected 0 or the value that hides",
        "row 0: expected 0",
        "row 3: expected 0",
        "row 1: expected 0",
        "row 3: the columns",
        "attn_bias, row 0: the columns",
    };
    bound b = open_bound(0, FY_F32);
    begin_with_four(&b);
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        fy_err e = {0};
        change_mask(&b, (int)i);
        if (b.device->api->run(b.graph, &e) != -1 || strstr(e.msg, says[i]) == NULL)
            fail_msg("mask %zu: '%s', expected '%s'", i, e.msg, says[i]);
        assert_int_equal(e.code, FY_EUNSUPPORTED);
    }
    see_causal(&b, 4);
    ((uint16_t *)tensor(&b, "attn_bias"))[0] = 0x8000; /* -0 shows */
    run(&b);
    close_bound(&b);
}

/* --- binding ---------------------------------------------------------------------------------- */

static void change_tensors(bound *b, int which)
{
    switch (which) {
    case 0:
        b->n--;
        break;
    case 1:
        b->tensors[0].cols++;
        break;
    case 2:
        strcpy(b->tensors[0].name, "y");
        break;
    case 3:
        b->tensors[1].type = FY_EL_F32;
        break;
    case 4:
        b->tensors[0].output = true;
        break;
    default:
        b->tensors[b->n - 1].rows++;
    }
}

static void a_graph_of_other_tensors_is_refused(void **state)
{
    (void)state;
    static const char *const says[] = {
        "tensors, expected ",
        "graph 'batch_4': tensor 0 is 'x' [4, 65] of f32, expected 'x' [4, 64] of f32",
        "tensor 0 is 'y'",
        "tensor 1 is 'attn_bias' [4, 32] of f32, expected 'attn_bias' [4, 32] of f16",
        "tensor 0 is 'x'",
        "'layer_1_value_1' [5, 32]",
    };
    bound b;
    write_model(0);
    open_chunk(&b);
    fy_model *whole = chain_open_whole();
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        fy_err e = {0};
        list_tensors(&b, fy_model_hparams(whole), FY_F16);
        change_tensors(&b, (int)i);
        const fy_graph_binding binding = binding_of(&b);
        assert_null(b.device->api->bind(b.chunk, &binding, &e));
        if (strstr(e.msg, says[i]) == NULL ||
            strstr(e.msg, "chunk_0.gguf: ") != e.msg + strlen(chain_at("cut/qnn/")))
            fail_msg("'%s', expected '%s'", e.msg, says[i]);
        assert_int_equal(e.code, FY_EFORMAT);
    }
    fy_model_close(whole);
    b.device->api->unload(b.chunk);
    b.device->api->close(b.device);
}

static void what_ends_a_thing_takes_null(void **state)
{
    (void)state;
    fy_graph_device *d = fy_graph_cpu_open(&chain_how, NULL);
    const fy_graph_backend *api = d->api;
    api->unload(NULL);
    api->unbind(NULL);
    fy_graph_give(d, NULL);
    api->close(d);
    api->close(NULL);
    assert_string_equal(api->name, "chunks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_nobody_sees_do_not_matter),
        cmocka_unit_test(hidden_slots_are_not_read),
        cmocka_unit_test(the_mask_says_what_a_token_sees),
        cmocka_unit_test(a_hidden_slot_between_others_is_no_token),
        cmocka_unit_test(the_tables_say_how_tokens_are_turned),
        cmocka_unit_test(a_window_is_what_its_mask_shows),
        cmocka_unit_test(a_path_of_a_tree_is_what_its_mask_shows),
        cmocka_unit_test(masks_that_are_no_runs_and_no_trees_are_refused),
        cmocka_unit_test(a_graph_of_other_tensors_is_refused),
        cmocka_unit_test(what_ends_a_thing_takes_null),
    };
    return cmocka_run_group_tests(tests, chain_make_dir, chain_remove_dir);
}
