#include "convert/source/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/convert/checkpoint.h"
#include "tests/unit/format/torch_made.h"

#define INDEX "model.safetensors.index.json"

static const made_tensor in_a[] = {{"one", 2, 3}, {"two", 4, 0}};
static const made_tensor in_b[] = {{"three", 1, 0}};

static void put_shards(void)
{
    put_safetensors("a.safetensors", in_a, 2);
    put_safetensors("b.safetensors", in_b, 1);
}

/* Opening must fail with all the words in the message. */
static void refuse(fy_code code, const char *word, const char *other)
{
    fy_err e = {0};
    assert_null(fy_ckpt_open(made_dir, &e));
    if (e.code != code || strstr(e.msg, word) == NULL || strstr(e.msg, other) == NULL)
        fail_msg("code %d, %s", e.code, e.msg);
}

static void a_single_file_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    put_safetensors("model.safetensors", in_a, 2);
    fy_ckpt *d = fy_ckpt_open(made_dir, &e);
    assert_non_null(d);
    assert_int_equal(fy_ckpt_n_tensors(d), 2);
    assert_int_equal(fy_ckpt_bytes(d), 40);
    const fy_ckpt_tensor *t = fy_ckpt_find(d, FY_SPAN("two"));
    assert_non_null(t);
    assert_ptr_equal(t, fy_ckpt_at(d, 1));
    assert_int_equal(t->shape[0], 4);
    assert_null(fy_ckpt_find(d, FY_SPAN("tw")));
    fy_ckpt_close(d);
}

/* The names of two tensors, and those they have in the checkpoint. */
static void what_wraps_all_names_is_left_out(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"module.a", "module.b.c", "a", "b.c"},
        {"state_dict._orig_mod.module.a", "state_dict._orig_mod.module.b", "a", "b"},
        {"module.a", "b", "module.a", "b"},
        {"module.a", "modules.b", "module.a", "modules.b"},
        {"module.a", "module.", "module.a", "module."},
        {"model.a", "model.b", "model.a", "model.b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        put_safetensors("model.safetensors",
                        (made_tensor[]){{cases[i][0], 2, 3}, {cases[i][1], 4, 0}}, 2);
        fy_ckpt *c = fy_ckpt_open(made_dir, &e);
        if (c == NULL)
            fail_msg("%s", e.msg);
        for (size_t k = 0; k < 2; k++) {
            const fy_ckpt_tensor *t = fy_ckpt_find(c, fy_span_of(cases[i][2 + k]));
            if (t == NULL)
                fail_msg("no '%s'", cases[i][2 + k]);
            assert_int_equal(t->shape[0], k == 0 ? 2 : 4);
        }
        fy_ckpt_close(c);
    }
}

static void shards_are_read_through_their_index(void **state)
{
    (void)state;
    fy_err e = {0};
    put_shards();
    put_text(INDEX,
             "{\"metadata\": {\"total_size\": 7}, \"weight_map\": {\"one\": \"a.safetensors\", "
             "\"two\": \"a.safetensors\", \"three\": \"b.safetensors\"}}");
    fy_ckpt *d = fy_ckpt_open(made_dir, &e);
    if (d == NULL)
        fail_msg("%s", e.msg);
    assert_int_equal(fy_ckpt_n_tensors(d), 3);
    assert_non_null(fy_ckpt_find(d, FY_SPAN("three")));
    fy_ckpt_close(d);
}

static void a_tensor_outside_the_map_is_an_error(void **state)
{
    (void)state;
    put_shards();
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"three\": \"b.safetensors\"}}");
    refuse(FY_EFORMAT, "'two'", "not in weight_map");
}

static void a_tensor_of_the_map_that_is_nowhere_is_an_error(void **state)
{
    (void)state;
    put_shards();
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"two\": \"a.safetensors\", "
                    "\"three\": \"b.safetensors\", \"four\": \"b.safetensors\"}}");
    refuse(FY_EFORMAT, "'four'", "is not in b.safetensors");
}

static void a_tensor_in_another_shard_than_the_map_says_is_an_error(void **state)
{
    (void)state;
    put_shards();
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"two\": \"b.safetensors\", "
                    "\"three\": \"b.safetensors\"}}");
    refuse(FY_EFORMAT, "'two'", "weight_map says b.safetensors");
}

static void a_tensor_in_two_shards_is_an_error(void **state)
{
    (void)state;
    static const made_tensor again[] = {{"one", 2, 3}};
    put_safetensors("a.safetensors", in_a, 2);
    put_safetensors("b.safetensors", again, 1);
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"two\": \"a.safetensors\", "
                    "\"three\": \"b.safetensors\"}}");
    refuse(FY_EFORMAT, "'one'", "another shard");
}

static void all_absent_shards_are_named(void **state)
{
    (void)state;
    put_safetensors("a.safetensors", in_a, 2);
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"two\": \"y.safetensors\", "
                    "\"three\": \"z.safetensors\"}}");
    refuse(FY_EIO, "2 of 3 shards are absent", "download y.safetensors, z.safetensors");
}

static void a_shard_must_be_a_plain_file_name(void **state)
{
    (void)state;
    static const char *const names[] = {"../a.safetensors", "/a.safetensors", "sub/a.safetensors",
                                        "..", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"weight_map\": {\"one\": \"%s\"}}", names[i]);
        put_text(INDEX, text);
        refuse(FY_EFORMAT, "not a plain file name", names[i]);
    }
}

static void an_index_that_is_none_is_named_for_what_it_is(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"},
        {"<!DOCTYPE html><html></html>", "HTML"},
        {"{}", "no weight_map"},
        {"{\"weight_map\": {}}", "no weight_map"},
        {"{\"weight_map\": []}", "no weight_map"},
        {"{\"weight_map\": {\"a\": 1}}", "else than names"},
        {"{\"weight_map\": {\"a\": \"b\", \"a\": \"c\"}}", "line 1"},
        {"{\"weight_map\": {\"a\": \"b\"}}\n=======\n{}", "line 2"},
        {"", INDEX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_text(INDEX, cases[i].text);
        refuse(FY_EFORMAT, cases[i].words, INDEX);
    }
}

static void a_shard_that_is_a_git_lfs_pointer_is_named(void **state)
{
    (void)state;
    put_text("model.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    refuse(FY_EFORMAT, "model.safetensors", "Git LFS pointer");
}

static void other_containers_are_named(void **state)
{
    (void)state;
    refuse(FY_EIO, "neither model.safetensors nor", made_dir);
    put_text("pytorch_model.bin", "x");
    refuse(FY_EFORMAT, "pytorch_model.bin", made_dir);
}

/* One file of zeros under the header's tensors. */
static void put_zeros(const char *header, size_t data_bytes)
{
    fy_str file = {0};
    uint64_t len = strlen(header);
    fy_str_add(&file, &len, sizeof len);
    fy_str_puts(&file, header);
    for (size_t i = 0; i < data_bytes; i++)
        fy_str_putc(&file, '\0');
    put_file("model.safetensors", file.ptr, file.len);
    fy_str_release(&file);
}

/* A matrix [3, 5] of FP8 with the scales that the header has beside it, in blocks of 2 x 2. */
static int pair(const char *scale, size_t scale_bytes, fy_err *e)
{
    char header[400];
    fy_hf_config config = {.fp8 = true, .fp8_block = {2, 2}};
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[3,5],\"data_offsets\":[0,15]}%s}", scale);
    put_zeros(header, 15 + scale_bytes);
    fy_ckpt *c = fy_ckpt_open(made_dir, e);
    if (c == NULL)
        return -1;
    int rc = fy_ckpt_pair_scales(c, &config, e);
    if (rc == 0)
        assert_ptr_equal(fy_ckpt_find(c, FY_SPAN("w"))->scale,
                         fy_ckpt_find(c, FY_SPAN("w_scale_inv")));
    fy_ckpt_close(c);
    return rc;
}

static void fp8_needs_a_scale_for_each_block_or_one_for_all(void **state)
{
    (void)state;
    static const struct {
        const char *scale;
        size_t bytes;
        fy_code code; /* FY_OK: accepted */
        const char *words;
    } cases[] = {
        {"", 0, FY_EFORMAT, "'w' is FP8, but there is no 'w_scale_inv'"},
        {",\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[15,39]}", 24,
         FY_OK, NULL},
        {",\"w_scale_inv\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[15,27]}", 12,
         FY_OK, NULL},
        {",\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[15,19]}", 4, FY_OK,
         NULL},
        {",\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[15,39]}", 24,
         FY_EFORMAT, "not one for each block of 2 x 2"},
        {",\"w_scale_inv\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[15,39]}", 24,
         FY_EFORMAT, "not one for each block of 2 x 2"},
        {",\"w_scale_inv\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[15,16]}", 1,
         FY_EUNSUPPORTED, "a scale of type F8_E4M3"},
        {",\"w_scale_inv\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[15,19]}", 4,
         FY_EUNSUPPORTED, "a scale of type I32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        int rc = pair(cases[i].scale, cases[i].bytes, &e);
        if (e.code != cases[i].code || (rc == 0) != (e.code == FY_OK) ||
            (rc != 0 && strstr(e.msg, cases[i].words) == NULL))
            fail_msg("case %zu: code %d, %s", i, e.code, e.msg);
    }
}

/* x_blocks [2, 2, 16] with what the header has beside it; byte i of all data is i. */
static int pair_blocks(const char *blocks, const char *scales, size_t bytes, fy_err *e)
{
    fy_str file = {0};
    fy_hf_config config = {.mxfp4 = true};
    char header[400];
    const uint64_t len = (uint64_t)snprintf(header, sizeof header, "{\"x_blocks\":{%s}%s}", blocks,
                                            scales);
    fy_str_add(&file, &len, sizeof len);
    fy_str_puts(&file, header);
    for (size_t i = 0; i < bytes; i++)
        fy_str_putc(&file, (char)i);
    put_file("model.safetensors", file.ptr, file.len);
    fy_str_release(&file);
    fy_ckpt *c = fy_ckpt_open(made_dir, e);
    if (c == NULL)
        return -1;
    int rc = fy_ckpt_pair_scales(c, &config, e);
    /* a second time, as after a merge */
    if (rc == 0 && fy_ckpt_pair_scales(c, &config, e) == 0) {
        const fy_ckpt_tensor *t = fy_ckpt_find(c, FY_SPAN("x_blocks"));
        fy_kernels k = fy_kernels_for(0);
        fy_block_mxfp4 block;
        float x[70];
        assert_int_equal(t->rank, 2);
        assert_true(t->shape[0] == 2 && t->shape[1] == 64 && t->dtype == FY_DT_F4);
        assert_int_equal(fy_ckpt_n_elements(t), 128);
        /* byte 33 is 0x21, in block 2, whose scale is byte 66 */
        fy_ckpt_read(&k, t, 58, 70, x);
        assert_true(x[64 + 2 - 58] == 0.5f * 0x1p-61f && x[64 + 3 - 58] == 1.0f * 0x1p-61f);
        fy_ckpt_read_mxfp4(t, 64, 32, &block);
        assert_int_equal(block.e, 66);
        assert_int_equal(block.qs[2], 1 | 9 << 4); /* bytes 33 and 41, 0x29 */
        assert_int_equal(block.qs[3], 2 | 2 << 4);
    }
    fy_ckpt_close(c);
    return rc;
}

static void mxfp4_blocks_need_a_scale_each(void **state)
{
    (void)state;
#define BLOCKS "\"dtype\":\"U8\",\"shape\":[2,2,16],\"data_offsets\":[0,64]"
#define SCALES(type, shape, end) \
    ",\"x_scales\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[64," end "]}"
    static const struct {
        const char *blocks, *scales;
        size_t bytes;
        const char *words; /* NULL: accepted */
    } cases[] = {
        {BLOCKS, SCALES("U8", "[2,2]", "68"), 68, NULL},
        {BLOCKS, "", 64, "there are no scales"},
        {BLOCKS, SCALES("U8", "[2,3]", "70"), 70, "a U8 scale for each block"},
        {BLOCKS, SCALES("U8", "[4]", "68"), 68, "a U8 scale for each block"},
        {BLOCKS, SCALES("F16", "[2,2]", "72"), 72, "a U8 scale for each block"},
        {"\"dtype\":\"U8\",\"shape\":[2,4,8],\"data_offsets\":[0,64]", SCALES("U8", "[2,4]", "72"),
         72, "a U8 scale for each block"},
        {"\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]", SCALES("U8", "[]", "65"), 65,
         "a U8 scale for each block"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        int rc = pair_blocks(cases[i].blocks, cases[i].scales, cases[i].bytes, &e);
        if ((rc == 0) != (cases[i].words == NULL) ||
            (rc != 0 && strstr(e.msg, cases[i].words) == NULL))
            fail_msg("case %zu: code %d, %s", i, e.code, e.msg);
    }
}

/* A part in Meta's form: norm.weight, and one more tensor when it has a name. */
static void put_part(const char *name, const char *more)
{
    fy_str s = {0};
    zip_maker z = {0};
    begin(&s);
    put_tensor(&s, "norm.weight", (pk_tensor_args){F32_ARGS, SHAPE(1, 4), STRIDE(1)});
    if (more != NULL)
        put_tensor(&s, more, (pk_tensor_args){F32_ARGS, SHAPE(1, 2), STRIDE(1)});
    end(&s);
    zip_file(&z, &s);
    put_file(name, z.bytes.ptr, z.bytes.len);
    zip_release(&z);
    fy_str_release(&s);
}

static void parts_of_meta_have_the_same_names(void **state)
{
    (void)state;
    put_text("params.json", "{\"dim\": 4, \"n_layers\": 1, \"n_heads\": 2}");
    put_part("consolidated.00.pth", "extra");
    put_part("consolidated.01.pth", NULL);
    refuse(FY_EFORMAT, "consolidated.01.pth: no tensor 'extra', which", "consolidated.00.pth has");
    put_part("consolidated.00.pth", NULL);
    put_part("consolidated.01.pth", "extra");
    refuse(FY_EFORMAT, "consolidated.00.pth: no tensor 'extra', which", "consolidated.01.pth has");
    remove_file("consolidated.00.pth");
    remove_file("consolidated.01.pth");
    remove_file("params.json");
}

static void a_file_or_nothing_is_no_directory(void **state)
{
    (void)state;
    fy_err e = {0}, f = {0};
    put_text("out", "x");
    char path[128];
    snprintf(path, sizeof path, "%s/out", made_dir);
    assert_null(fy_ckpt_open(path, &e));
    assert_int_equal(e.code, FY_EARG);
    snprintf(path, sizeof path, "%s/nothing", made_dir);
    assert_null(fy_ckpt_open(path, &f));
    assert_int_equal(f.code, FY_EIO);
}

static void each_failing_allocation_is_out_of_memory(void **state)
{
    (void)state;
    put_shards();
    put_text(INDEX, "{\"weight_map\": {\"one\": \"a.safetensors\", \"two\": \"a.safetensors\", "
                    "\"three\": \"b.safetensors\"}}");
    for (long n = 0;; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_ckpt *d = fy_ckpt_open(made_dir, &e);
        bool failed = alloc_fail_end();
        if (!failed) {
            assert_non_null(d);
            fy_ckpt_close(d);
            return;
        }
        assert_null(d);
        assert_int_equal(e.code, FY_ENOMEM);
    }
}

static void indexes_of_partial_downloads_name_their_absent_shards(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"devstral", "shards are absent; download model-00001-of-"},
        {"granite-old", "shards are absent; download model-00001-of-"},
        {"bloom-176b", "model.safetensors.index.json: "}, /* holds a merge conflict */
    };
    const char *root = getenv("FERRY_REAL");
    if (root == NULL)
        root = "../shared/real";
    char path[512];
    snprintf(path, sizeof path, "%s/hf-meta", root);
    if (!fy_file_is_dir(path))
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        snprintf(path, sizeof path, "%s/hf-meta/%s", root, cases[i].name);
        assert_null(fy_ckpt_open(path, &e));
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("%s", e.msg);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, checkpoint_setup, checkpoint_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_single_file_is_read),
        TEST(what_wraps_all_names_is_left_out),
        TEST(shards_are_read_through_their_index),
        TEST(a_tensor_outside_the_map_is_an_error),
        TEST(a_tensor_of_the_map_that_is_nowhere_is_an_error),
        TEST(a_tensor_in_another_shard_than_the_map_says_is_an_error),
        TEST(a_tensor_in_two_shards_is_an_error),
        TEST(all_absent_shards_are_named),
        TEST(a_shard_must_be_a_plain_file_name),
        TEST(an_index_that_is_none_is_named_for_what_it_is),
        TEST(a_shard_that_is_a_git_lfs_pointer_is_named),
        TEST(other_containers_are_named),
        TEST(fp8_needs_a_scale_for_each_block_or_one_for_all),
        TEST(mxfp4_blocks_need_a_scale_each),
        TEST(parts_of_meta_have_the_same_names),
        TEST(a_file_or_nothing_is_no_directory),
        TEST(each_failing_allocation_is_out_of_memory),
        TEST(indexes_of_partial_downloads_name_their_absent_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
