/* What differs from layer to layer, and files that say it wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/graph_io.h"
#include "base/str.h"
#include "format/gguf_write.h"
#include "tests/unit/arch/family_rows.h"

/* Layers w w f w w f w f: the last three share. */
static fy_hparams eight(void)
{
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_hparams hp = f->defaults;
    hp.n_layer = 8;
    hp.n_swa = 16;
    hp.n_head_kv = 2;
    hp.head_dim = 64;
    hp.head_dim_swa = 32;
    hp.n_head_kv_swa = 4;
    hp.n_kv_shared = 3;
    fy_layer_put(&hp.full_layers, 2, true);
    fy_layer_put(&hp.full_layers, 5, true);
    fy_layer_put(&hp.full_layers, 7, true);
    fy_hparams_derive(&hp, f);
    return hp;
}

static void sizes_follow_the_window(void **state)
{
    (void)state;
    const fy_hparams hp = eight();
    const fy_layer_shape w = fy_layer_shape_of(&hp, 0), full = fy_layer_shape_of(&hp, 2);
    assert_int_equal(w.head_dim, 32);
    assert_int_equal(w.head_dim_v, 32);
    assert_int_equal(w.n_rot, 32);
    assert_int_equal(w.n_head_kv, 4);
    assert_int_equal(full.head_dim, 64);
    assert_int_equal(full.head_dim_v, 64);
    assert_int_equal(full.n_rot, 64);
    assert_int_equal(full.n_head_kv, 2);
    const fy_layer_shape most = fy_layer_shape_max(&hp);
    assert_int_equal(most.head_dim, 64);
    assert_int_equal(most.n_head_kv, 4);
    assert_false(fy_layers_alike(&hp));
    const fy_hparams like = fy_hparams_of_layer(&hp, 0);
    assert_int_equal(fy_dim_of(&like, FY_D_K), 4 * 32);
    assert_int_equal(fy_dim_of(&hp, FY_D_K), 2 * 64);
}

static void without_a_window_all_layers_are_alike(void **state)
{
    (void)state;
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_hparams hp = eight();
    hp.n_swa = hp.n_kv_shared = 0;
    fy_hparams_derive(&hp, f);
    assert_true(fy_layers_alike(&hp));
    assert_int_equal(fy_layer_shape_of(&hp, 0).head_dim, 64);
}

static void a_shared_layer_reads_the_last_of_its_kind_before(void **state)
{
    (void)state;
    const fy_hparams hp = eight();
    static const uint32_t owners[] = {0, 1, 2, 3, 4, 2, 4, 2};
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(fy_kv_owner(&hp, i), owners[i]);
    const fy_tensor_row *k =
        row_of(family_of("Gemma4ForCausalLM", "gemma4"), "blk.0.attn_k.weight");
    assert_false(fy_row_is_unused(&hp, k, 4));
    assert_true(fy_row_is_unused(&hp, k, 5));
}

static void widths_are_few_and_each_layer_has_one(void **state)
{
    (void)state;
    fy_hparams hp = eight();
    for (uint32_t i = 0; i < 8; i++)
        assert_true(fy_put_width(&hp, i, i < 4 ? 10 : i));
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(fy_layer_shape_of(&hp, i).n_ff, i < 4 ? 10 : i);
    assert_false(fy_put_width(&hp, 3, 99));
    assert_true(fy_put_width(&hp, 3, 7));
}

/* --- files --- */

/* The file that hp makes. */
static int read_back(const fy_hparams *hp, fy_hparams *out, fy_err *e)
{
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    char path[] = "/tmp/ferry-test-layers-XXXXXX";
    int fd = mkstemp(path);
    assert_non_null(w);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(fy_hparams_to_gguf(w, f, hp, e), 0);
    assert_int_equal(fy_gguf_write(w, path, NULL, NULL, NULL, NULL, e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_open(path, e);
    assert_non_null(g);
    int rc = fy_hparams_from_gguf(g, f, out, e);
    fy_gguf_close(g);
    unlink(path);
    return rc;
}

/* A file of one key more: lists that others write. */
static int read_list(const char *key, const int32_t *values, uint32_t n, fy_hparams *out, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    const fy_family *f = family_of("Gemma4ForCausalLM", "gemma4");
    fy_hparams hp = eight();
    fy_str header = {0};
    assert_non_null(w);
    assert_int_equal(fy_gguf_add_array(w, key, FY_KV_I32, values, n, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.block_count", hp.n_layer, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.context_length", 64, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.embedding_length", 64, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.attention.head_count", 8, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.attention.sliding_window", 16, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.attention.sliding_window_pattern", 4, e), 0);
    assert_int_equal(fy_gguf_add_f32(w, "gemma4.attention.layer_norm_rms_epsilon", 1e-6F, e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "gemma4.vocab_size", 64, e), 0);
    if (strstr(key, "feed") == NULL)
        assert_int_equal(fy_gguf_add_u32(w, "gemma4.feed_forward_length", 96, e), 0);
    assert_int_equal(fy_gguf_writer_header(w, &header, e), 0);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_parse(header.ptr, header.len, "lists.gguf", true, e);
    assert_non_null(g);
    int rc = fy_hparams_from_gguf(g, f, out, e);
    fy_gguf_close(g);
    fy_str_release(&header);
    return rc;
}

static void what_differs_comes_back_from_a_file(void **state)
{
    (void)state;
    fy_hparams hp = eight(), back;
    fy_err e = {0};
    for (uint32_t i = 5; i < 8; i++)
        assert_true(fy_put_width(&hp, i, 2 * hp.n_ff));
    if (read_back(&hp, &back, &e) != 0)
        fail_msg("%s", e.msg);
    for (uint32_t i = 0; i < 8; i++) {
        const fy_layer_shape a = fy_layer_shape_of(&hp, i), b = fy_layer_shape_of(&back, i);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(fy_kv_owner(&hp, i), fy_kv_owner(&back, i));
    }
    assert_int_equal(back.n_embd_pl, 256);
    assert_false(back.k_is_v); /* such a file has no tensors at all */
}

static void wrong_values_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_shared, n_head_kv_swa, n_rot_swa;
        const char *says;
    } cases[] = {
        {8, 4, 0, "attention.shared_kv_layers is 8, of 8 layers"},
        {7, 4, 0, "layer 2 would read the keys of an earlier layer without the window"},
        {0, 3, 0, "attention.head_count 8 is not a multiple of attention.head_count_kv 3"},
        {0, 4, 34, "rope.dimension_count_swa is 34"},
        {0, 4, 31, "rope.dimension_count_swa is 31"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hparams hp = eight(), back;
        fy_err e = {0};
        hp.n_kv_shared = cases[i].n_shared;
        hp.n_head_kv_swa = cases[i].n_head_kv_swa;
        if (cases[i].n_rot_swa != 0)
            hp.n_rot_swa = cases[i].n_rot_swa;
        assert_int_equal(read_back(&hp, &back, &e), -1);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s", e.msg);
    }
}

static void lists_have_an_entry_for_each_layer(void **state)
{
    (void)state;
    static const char ff[] = "gemma4.feed_forward_length", kv[] = "gemma4.attention.head_count_kv";
    static const struct {
        const char *key;
        int32_t values[8];
        uint32_t n;
        const char *says; /* NULL: it is read */
    } cases[] = {
        {ff, {5, 5, 5, 5, 6, 6, 6, 7}, 8, NULL},
        {ff, {5, 5, 5, 5, 6, 6, 6}, 7, "expected a list of 8 values"},
        {ff, {5, 5, 5, 5, 6, 6, 6, 0}, 8, "has 0 for layer 7"},
        {ff, {5, 5, -5, 5, 6, 6, 6, 6}, 8, "has -5 for layer 2"},
        {ff, {1, 2, 3, 4, 5, 6, 7, 8}, 8, "more than 5 different widths"},
        {kv, {4, 4, 4, 2, 4, 4, 4, 2}, 8, NULL},
        {kv, {4, 4, 4, 2, 4, 4, 2, 2}, 8, "has 2 for layer 6"},
        {kv, {4, 4, 4, 0, 4, 4, 4, 2}, 8, "has 0 for layer 3"},
        {kv, {4, 4, 4}, 3, "expected a list of 8 values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_hparams hp;
        fy_err e = {0};
        const int rc = read_list(cases[i].key, cases[i].values, cases[i].n, &hp, &e);
        if (cases[i].says != NULL) {
            assert_int_equal(rc, -1);
            if (strstr(e.msg, cases[i].says) == NULL)
                fail_msg("%s", e.msg);
            continue;
        }
        if (rc != 0)
            fail_msg("%s", e.msg);
        for (uint32_t l = 0; l < 8; l++) {
            const fy_layer_shape s = fy_layer_shape_of(&hp, l);
            assert_int_equal(cases[i].key == ff ? s.n_ff : s.n_head_kv, cases[i].values[l]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_window),
        cmocka_unit_test(without_a_window_all_layers_are_alike),
        cmocka_unit_test(a_shared_layer_reads_the_last_of_its_kind_before),
        cmocka_unit_test(widths_are_few_and_each_layer_has_one),
        cmocka_unit_test(what_differs_comes_back_from_a_file),
        cmocka_unit_test(lists_have_an_entry_for_each_layer),
        cmocka_unit_test(wrong_values_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
