#include "arch/chunk_info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static fy_hparams small(void)
{
    return (fy_hparams){.n_vocab = 352,
                        .n_embd = 64,
                        .n_layer = 8,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .head_dim = 16,
                        .head_dim_v = 16,
                        .n_rot = 16};
}

/* A header with the keys that `add` puts there; the caller frees *text after the file. */
static fy_gguf *header(fy_str *text, int (*add)(fy_gguf_writer *w, const void *), const void *arg)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    assert_int_equal(add(w, arg), 0);
    assert_int_equal(fy_gguf_writer_header(w, text, &e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_parse(text->ptr, text->len, "test", true, &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static int add_part(fy_gguf_writer *w, const void *p)
{
    const fy_hparams hp = small();
    return fy_chunk_info_to_gguf(w, &hp, p, NULL);
}

static int add_nothing(fy_gguf_writer *w, const void *p)
{
    (void)p;
    return fy_gguf_add_u32(w, "general.alignment", 32, NULL);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    const fy_hparams hp = small();
    const fy_chunk_info parts[] = {
        {.kind = FY_CHUNK_EMBEDDING, .count = 1, .model = MODEL},
        {.kind = FY_CHUNK_LAYERS,
         .index = 1,
         .count = 3,
         .first_layer = 3,
         .end_layer = 6,
         .model = MODEL},
        {.kind = FY_CHUNK_HEAD,
         .index = 1,
         .count = 2,
         .first_token = 176,
         .end_token = 352,
         .tied = true,
         .model = MODEL},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        fy_str text = {0};
        fy_chunk_info p;
        fy_err e = {0};
        fy_gguf *g = header(&text, add_part, &parts[i]);
        if (fy_chunk_info_from_gguf(g, &hp, &p, &e) != 0)
            fail_msg("%s", e.msg);
        assert_memory_equal(&p, &parts[i], sizeof p);
        fy_gguf_close(g);
        fy_str_release(&text);
    }
}

static void a_model_that_was_not_cut_is_whole(void **state)
{
    (void)state;
    const fy_hparams hp = small();
    fy_str text = {0};
    fy_chunk_info p;
    fy_gguf *g = header(&text, add_nothing, NULL);
    assert_int_equal(fy_chunk_info_from_gguf(g, &hp, &p, NULL), 0);
    assert_int_equal(p.kind, FY_CHUNK_WHOLE);
    assert_int_equal(p.end_layer, 8);
    assert_int_equal(p.end_token, 352);
    fy_gguf_close(g);
    fy_str_release(&text);
}

static void the_seams_of_a_chunk_are_named(void **state)
{
    (void)state;
    const fy_chunk_info part = {
        .kind = FY_CHUNK_LAYERS, .count = 1, .first_layer = 0, .end_layer = 8, .model = MODEL};
    const char *const inputs[] = {"x", "attn_bias", "rope_embed_cos", "rope_embed_sin"};
    const fy_gguf_kv *kv;
    fy_str text = {0};
    fy_gguf *g = header(&text, add_part, &part);
    assert_int_equal(fy_gguf_get_array(g, FY_CHUNK_KEYS "inputs", FY_KV_STRING, &kv, NULL), 0);
    assert_int_equal(kv->count, 4);
    uint64_t pos = 0;
    for (size_t i = 0; i < 4; i++)
        assert_true(fy_span_is(fy_gguf_next_string(kv, &pos), inputs[i]));
    assert_int_equal(fy_gguf_get_array(g, FY_CHUNK_KEYS "outputs", FY_KV_STRING, &kv, NULL), 0);
    assert_int_equal(kv->count, 1);
    pos = 0;
    assert_true(fy_span_is(fy_gguf_next_string(kv, &pos), "out"));
    fy_gguf_close(g);
    fy_str_release(&text);
}

static void a_range_outside_the_model_is_refused(void **state)
{
    (void)state;
    const fy_hparams hp = small();
    const struct {
        fy_chunk_info part;
        const char *says;
    } cases[] = {
        {{.kind = FY_CHUNK_LAYERS, .count = 1, .first_layer = 3, .end_layer = 3, .model = MODEL},
         "first_layer 3"},
        {{.kind = FY_CHUNK_LAYERS, .count = 1, .first_layer = 3, .end_layer = 9, .model = MODEL},
         "end_layer 9"},
        {{.kind = FY_CHUNK_HEAD, .count = 1, .first_token = 0, .end_token = 353, .model = MODEL},
         "end_token 353"},
        {{.kind = FY_CHUNK_LAYERS, .index = 2, .count = 2, .end_layer = 8, .model = MODEL},
         "index 2"},
        {{.kind = FY_CHUNK_EMBEDDING, .count = 0, .model = MODEL}, "count 0"},
        {{.kind = FY_CHUNK_EMBEDDING, .count = 1001, .model = MODEL}, "count 1001"},
        {{.kind = FY_CHUNK_EMBEDDING, .count = 1, .model = "12"}, "2 characters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str text = {0};
        fy_chunk_info p;
        fy_err e = {0};
        fy_gguf *g = header(&text, add_part, &cases[i].part);
        assert_int_equal(fy_chunk_info_from_gguf(g, &hp, &p, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, cases[i].says);
        fy_gguf_close(g);
        fy_str_release(&text);
    }
}

typedef struct {
    const char *kind, *model;
    bool index;
} keys;

static int add_keys(fy_gguf_writer *w, const void *p)
{
    const keys *k = p;
    return fy_gguf_add_str(w, FY_CHUNK_KEYS "kind", fy_span_of(k->kind), NULL) != 0 ||
                   fy_gguf_add_u32(w, FY_CHUNK_KEYS "count", 1, NULL) != 0 ||
                   (k->index && fy_gguf_add_u32(w, FY_CHUNK_KEYS "index", 0, NULL) != 0) ||
                   (k->model != NULL &&
                    fy_gguf_add_str(w, FY_CHUNK_KEYS "model", fy_span_of(k->model), NULL) != 0)
               ? -1
               : 0;
}

static void a_key_that_a_chunk_needs_is_asked_for(void **state)
{
    (void)state;
    const fy_hparams hp = small();
    const struct {
        keys keys;
        const char *says;
    } cases[] = {
        {{"attention", MODEL, true}, "is 'attention', expected embedding, layers or head"},
        {{"embedding", NULL, true}, "ferry.chunk.model is missing"},
        {{"embedding", MODEL, false}, "ferry.chunk.index is missing"},
        {{"layers", MODEL, true}, "ferry.chunk.first_layer is missing"},
        {{"head", MODEL, true}, "ferry.chunk.first_token is missing"},
        {{"embedding", "0011223344556677889900AABBCCDDEEff112233445566778899aabbccddeeff", true},
         "lower-case"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str text = {0};
        fy_chunk_info p;
        fy_err e = {0};
        fy_gguf *g = header(&text, add_keys, &cases[i].keys);
        assert_int_equal(fy_chunk_info_from_gguf(g, &hp, &p, &e), -1);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", e.msg, cases[i].says);
        fy_gguf_close(g);
        fy_str_release(&text);
    }
}

/* Of every family, each tensor is in one kind of chunk, and in one chunk of its kind. */
static void every_tensor_has_one_chunk(void **state)
{
    (void)state;
    const fy_chunk_info parts[] = {
        {.kind = FY_CHUNK_EMBEDDING},
        {.kind = FY_CHUNK_LAYERS, .first_layer = 0, .end_layer = 3},
        {.kind = FY_CHUNK_LAYERS, .first_layer = 3, .end_layer = 8},
        {.kind = FY_CHUNK_HEAD},
    };
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        for (size_t r = 0; r < (*f)->n_rows; r++) {
            const fy_tensor_row *row = &(*f)->rows[r];
            for (uint32_t layer = 0; layer < (fy_row_is_layer(row) ? 8U : 1U); layer++) {
                size_t n = 0;
                for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
                    n += fy_chunk_holds(&parts[i], row, layer);
                assert_int_equal(n, 1);
            }
        }
    }
}

static void a_mixture_of_experts_cannot_be_cut(void **state)
{
    (void)state;
    fy_hparams hp = small();
    assert_null(fy_cut_refusal(&hp));
    hp.n_expert = 8;
    assert_non_null(strstr(fy_cut_refusal(&hp), "mixture of experts"));
}

static void chunks_are_called_by_what_they_hold(void **state)
{
    (void)state;
    const fy_hparams hp = small();
    const struct {
        fy_chunk_info part;
        const char *text;
    } cases[] = {
        {{.kind = FY_CHUNK_WHOLE}, "the whole model"},
        {{.kind = FY_CHUNK_EMBEDDING}, "embedding"},
        {{.kind = FY_CHUNK_LAYERS, .first_layer = 3, .end_layer = 8}, "layers 3-7"},
        {{.kind = FY_CHUNK_HEAD, .end_token = 352}, "lm_head"},
        {{.kind = FY_CHUNK_HEAD, .first_token = 100, .end_token = 352}, "lm_head, tokens 100-351"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[FY_CHUNK_TEXT_BYTES];
        assert_string_equal(fy_chunk_text(&cases[i].part, &hp, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_model_that_was_not_cut_is_whole),
        cmocka_unit_test(the_seams_of_a_chunk_are_named),
        cmocka_unit_test(a_range_outside_the_model_is_refused),
        cmocka_unit_test(a_key_that_a_chunk_needs_is_asked_for),
        cmocka_unit_test(every_tensor_has_one_chunk),
        cmocka_unit_test(a_mixture_of_experts_cannot_be_cut),
        cmocka_unit_test(chunks_are_called_by_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
