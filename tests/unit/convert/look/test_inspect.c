#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/unit/format/torch_bytes.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "convert/look/inspect.h"
#include "format/gguf_write.h"

static const fy_inspect_options as_text = {0}, as_json = {.json = true},
                            as_hashes = {.json = true, .hash = true};
static char dir[256];

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/ferry-inspect-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void write_safetensors(const char *name, const char *header, size_t data_bytes)
{
    fy_str s = {0};
    fy_err e = {0};
    uint64_t n = strlen(header);
    fy_str_add(&s, &n, sizeof n);
    fy_str_puts(&s, header);
    for (size_t i = 0; i < data_bytes; i++)
        fy_str_putc(&s, '\0');
    assert_int_equal(fy_file_write(path_of(name), s.ptr, s.len, &e), 0);
    fy_str_release(&s);
}

static int fill_zero(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                     fy_err *e)
{
    (void)user;
    (void)i;
    (void)row;
    (void)thread;
    (void)e;
    memset(out, 0, n_rows * 34);
    return 0;
}

static void write_gguf(const char *name)
{
    static const float eps[] = {1e-5f, 0.1f, 3.0f, 4.0f, 5.0f, 1e30f};
    static const uint64_t big[] = {UINT64_MAX}, ne[] = {32, 3};
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_f32(w, "llama.eps", 1e-5f, &e);
    fy_gguf_add_bool(w, "flag", true, &e);
    fy_gguf_add_i32(w, "minus", -3, &e);
    fy_gguf_add_str(w, "evil", FY_SPAN("\x1B[31mred\nline"), &e);
    fy_gguf_add_array(w, "floats", FY_KV_F32, eps, 6, &e);
    fy_gguf_add_array(w, "big", FY_KV_U64, big, 1, &e);
    fy_gguf_begin_strings(w, "tokens", &e);
    for (int i = 0; i < 20; i++)
        fy_gguf_add_string(w, FY_SPAN("tok"), &e);
    fy_gguf_end_strings(w, &e);
    assert_int_equal(fy_gguf_add_tensor(w, "a.weight", FY_Q8_0, 2, ne, &e), 0);
    if (fy_gguf_write(w, path_of(name), fill_zero, NULL, NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
}

static void has(const fy_str *s, const char *part)
{
    if (strstr(fy_str_z(s), part) == NULL)
        fail_msg("no '%s' in:\n%s", part, fy_str_z(s));
}

static void a_gguf_file_is_shown_with_short_values(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    write_gguf("m.gguf");
    assert_int_equal(fy_inspect(path_of("m.gguf"), &as_text, &s, &e), 0);
    has(&s, "GGUF version 3, alignment 32");
    has(&s, "keys 8, tensors 1, elements 96, tensor bytes 102");
    has(&s, "general.architecture  string  \"llama\"");
    has(&s, "f32     1e-05\n");
    has(&s, "bool    true\n");
    has(&s, "i32     -3\n");
    has(&s, "\"\\x1b[31mred\\nline\"");
    has(&s, "[6 x f32] 1e-05, 0.1, 3, 4, ...\n");
    has(&s, "[1 x u64] 18446744073709551615\n");
    has(&s, "[20 x string] \"tok\", \"tok\", \"tok\", \"tok\", ...");
    has(&s, "a.weight  q8_0      [32, 3] ");
    assert_null(strchr(fy_str_z(&s), '\x1B'));
    fy_str_release(&s);
}

static json_t *inspect_json(const char *name, const fy_inspect_options *o)
{
    fy_str s = {0};
    fy_err e = {0};
    assert_int_equal(fy_inspect(path_of(name), o, &s, &e), 0);
    json_t *j = fy_json_data((fy_span){s.ptr, s.len}, &e);
    if (j == NULL)
        fail_msg("%s", e.msg);
    fy_str_release(&s);
    return j;
}

static void the_json_of_a_gguf_file_holds_the_same(void **state)
{
    (void)state;
    write_gguf("m.gguf");
    json_t *j = inspect_json("m.gguf", &as_json);
    assert_string_equal(json_string_value(json_object_get(j, "format")), "gguf");
    json_t *meta = json_object_get(j, "metadata");
    assert_true(json_real_value(json_object_get(meta, "llama.eps")) == 1e-5);
    assert_string_equal(json_string_value(json_object_get(meta, "evil")), "\x1B[31mred\nline");
    json_t *tokens = json_object_get(meta, "tokens");
    assert_int_equal(json_integer_value(json_object_get(tokens, "count")), 20);
    assert_int_equal(json_array_size(json_object_get(tokens, "first")), 8);
    json_t *t = json_array_get(json_object_get(j, "tensors"), 0);
    assert_string_equal(json_string_value(json_object_get(t, "type")), "q8_0");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(t, "shape"), 1)), 3);
    assert_int_equal(json_integer_value(json_object_get(t, "bytes")), 102);
    json_decref(j);
}

static void a_safetensors_file_is_shown_whatever_its_name(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    write_safetensors(
        "weights.gguf",
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\\u001b\\u0000\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
        "\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[12,13]}}",
        13);
    assert_int_equal(fy_inspect(path_of("weights.gguf"), &as_text, &s, &e), 0);
    has(&s, ": safetensors, data at byte ");
    has(&s, "keys 1, tensors 2, elements 7, tensor bytes 13");
    has(&s, "format  \"pt\"");
    has(&s, "a\\x1b\\x00  BF16      [2, 3] ");
    has(&s, "U8        [] ");
    fy_str_release(&s);
    json_t *j = inspect_json("weights.gguf", &as_json);
    json_t *t = json_array_get(json_object_get(j, "tensors"), 0);
    assert_string_equal(json_string_value(json_object_get(t, "name")), "a\\x1b\\x00");
    t = json_array_get(json_object_get(j, "tensors"), 1);
    assert_int_equal(json_array_size(json_object_get(t, "shape")), 0);
    assert_int_equal(json_integer_value(json_object_get(t, "offset")), 12);
    json_decref(j);
}

/* A tensor of 2 x 3 halves stored by columns, one of 4 bytes, and other values. */
static void write_torch(const char *name)
{
    fy_str s = {0};
    fy_err e = {0};
    zip_maker z = {0};
    fy_str_puts(&s, "\x80\x02}(");
    pk_text(&s, "t");
    pk_tensor(&s, &(pk_tensor_args){.type = "HalfStorage", .key = "0", .elems = 6, .rank = 2,
                                    .n_strides = 2, .shape = {2, 3}, .stride = {1, 2}});
    pk_text(&s, "b");
    pk_tensor(&s, &(pk_tensor_args){.type = "ByteStorage", .key = "1", .elems = 4, .rank = 1,
                                    .n_strides = 1, .shape = {4}, .stride = {1}});
    pk_text(&s, "args");
    fy_str_puts(&s, "}(");
    pk_text(&s, "dim");
    fy_str_puts(&s, "K\x40");
    pk_text(&s, "loss");
    fy_str_puts(&s, "G\x7F\xF0");
    put_le(&s, 0, 6);
    pk_text(&s, "name");
    pk_text(&s, "\x1B[31m");
    pk_text(&s, "flag");
    fy_str_puts(&s, "\x89u");
    pk_text(&s, "model");
    fy_str_puts(&s, "c__main__\nNet\n)\x81u.");
    zip_add(&z, "m/data.pkl", s.ptr, s.len);
    zip_add(&z, "m/data/0", "\1\1\2\2\3\3\4\4\5\5\6\6", 12);
    zip_add(&z, "m/data/1", "\0\0\0\0", 4);
    zip_end(&z);
    assert_int_equal(fy_file_write(path_of(name), z.bytes.ptr, z.bytes.len, &e), 0);
    fy_str_release(&s);
    zip_release(&z);
}

static void a_pytorch_file_is_shown_whatever_its_name(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    write_torch("weights.gguf");
    assert_int_equal(fy_inspect(path_of("weights.gguf"), &as_text, &s, &e), 0);
    has(&s, "weights.gguf: PyTorch, zip archive\nvalues 4, tensors 2, elements 10, "
            "tensor bytes 16\n");
    has(&s, "values\n  args.dim   64\n  args.loss  inf\n  args.name  \"\\x1b[31m\"\n"
            "  args.flag  false\n");
    has(&s, "  t     F16       [2, 3] ");
    has(&s, "not read (only a program could make them)\n  model  __main__.Net\n");
    assert_null(strstr(fy_str_z(&s), "sha256"));
    fy_str_release(&s);

    json_t *j = inspect_json("weights.gguf", &as_json);
    assert_string_equal(json_string_value(json_object_get(j, "format")), "torch");
    assert_string_equal(json_string_value(json_object_get(j, "container")), "zip");
    json_t *values = json_object_get(j, "values"), *tensors = json_object_get(j, "tensors");
    assert_int_equal(json_object_size(values), 4);
    assert_int_equal(json_integer_value(json_object_get(values, "args.dim")), 64);
    assert_string_equal(json_string_value(json_object_get(values, "args.loss")), "inf");
    assert_string_equal(json_string_value(json_object_get(json_object_get(j, "opaque"), "model")),
                        "__main__.Net");
    assert_true(json_is_false(json_object_get(json_array_get(tensors, 0), "contiguous")));
    assert_true(json_is_true(json_object_get(json_array_get(tensors, 1), "contiguous")));
    assert_null(json_object_get(json_array_get(tensors, 0), "sha256"));
    json_decref(j);
}

/* JSON has its own escapes. */
static void names_of_values_are_kept_in_json(void **state)
{
    (void)state;
    static const char pickle[] = "\x80\x02}(X\x06\0\0\0a\\b\"\ncK\x07X\x02\0\0\0\0zK\x08u.";
    fy_err e = {0};
    zip_maker z = {0};
    zip_add(&z, "m/data.pkl", pickle, sizeof pickle - 1);
    zip_end(&z);
    assert_int_equal(fy_file_write(path_of("names.pt"), z.bytes.ptr, z.bytes.len, &e), 0);
    zip_release(&z);
    json_t *j = inspect_json("names.pt", &as_json);
    json_t *values = json_object_get(j, "values");
    assert_int_equal(json_object_size(values), 2);
    assert_int_equal(json_integer_value(json_object_get(values, "a\\b\"\nc")), 7);
    assert_int_equal(json_integer_value(json_object_get(values, "\\x00z")), 8);
    json_decref(j);
}

static void the_hash_is_that_of_the_elements_in_a_row(void **state)
{
    (void)state;
    /* by sha256sum; of zeros but for the halves, which are those of the rows */
    static const struct {
        const char *file;
        size_t i;
        const char *hash;
    } cases[] = {
        {"h.gguf", 0, "c419a92c7dce5225606f604f79d0d07009ebd882b5d5d41d234b71617b691774"},
        {"h.safetensors", 0, "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb"},
        {"h.pt", 0, "9b04451bc25b7e31de582b41f4005bf704021011dc296ab7a12fc0696d769c7c"},
        {"h.pt", 1, "df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119"},
    };
    write_gguf("h.gguf");
    write_safetensors("h.safetensors",
                      "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16);
    write_torch("h.pt");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *j = inspect_json(cases[i].file, &as_hashes);
        json_t *t = json_array_get(json_object_get(j, "tensors"), cases[i].i);
        assert_string_equal(json_string_value(json_object_get(t, "sha256")), cases[i].hash);
        json_decref(j);
    }
    fy_str s = {0};
    fy_err e = {0};
    const fy_inspect_options o = {.hash = true};
    assert_int_equal(fy_inspect(path_of("h.pt"), &o, &s, &e), 0);
    has(&s, "offset  sha256\n");
    has(&s, cases[2].hash);
    fy_str_release(&s);
}

static void what_cannot_be_shown_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *content, *words;
    } files[] = {
        {"lfs.safetensors", "version https://git-lfs.github.com/spec/v1\n",
         "is not a safetensors file but a Git LFS pointer"},
        {"lfs.bin", "version https://git-lfs.github.com/spec/v1\n",
         "is not a PyTorch checkpoint but a Git LFS"},
        {"cut.bin", "PK\3\4", "the zip archive has no directory at its end"},
        {"config.json", "{\"a\": 1}",
         "neither a GGUF, a safetensors nor a PyTorch file but a JSON text"},
        {"x", "what?", "is neither a GGUF, a safetensors nor a PyTorch file"},
        {"bad.gguf", "FUGG\3\0\0", "bad.gguf: "},
        {"empty.gguf", "", "empty.gguf: "},
        {"shards/model.safetensors.index.json", "{}", NULL},
    };
    fy_err made = {0};
    assert_int_equal(fy_mkdirs(path_of("shards"), &made), 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        fy_err e = {0};
        fy_str s = {0};
        assert_int_equal(fy_file_write(path_of(files[i].name), files[i].content,
                                       strlen(files[i].content), &made),
                         0);
        if (files[i].words == NULL)
            continue;
        assert_int_equal(fy_inspect(path_of(files[i].name), &as_text, &s, &e), -1);
        if (strstr(e.msg, files[i].words) == NULL)
            fail_msg("%s", e.msg);
        assert_int_equal(fy_exit_status(e.code), 1);
        assert_int_equal(s.len, 0);
        fy_str_release(&s);
    }
    assert_int_equal(fy_mkdirs(path_of("empty"), &made), 0);
    static const char *const more[][2] = {{"absent", "cannot open"},
                                          {"empty", "neither model.safetensors nor"},
                                          {"shards", "model.safetensors.index.json: "}};
    for (size_t i = 0; i < 3; i++) {
        fy_err e = {0};
        fy_str s = {0};
        assert_int_equal(fy_inspect(path_of(more[i][0]), &as_text, &s, &e), -1);
        assert_non_null(strstr(e.msg, more[i][1]));
        assert_int_equal(fy_exit_status(e.code), 1);
    }
}

static void types_are_summed_up(void **state)
{
    (void)state;
    write_safetensors("types.safetensors",
                      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                      "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[16,20]},"
                      "\"c\":{\"dtype\":\"F16\",\"shape\":[10],\"data_offsets\":[20,40]}}",
                      40);
    json_t *j = inspect_json("types.safetensors", &as_json);
    json_t *types = json_object_get(j, "types"), *t = json_array_get(types, 0);
    assert_int_equal(json_array_size(types), 2);
    assert_string_equal(json_string_value(json_object_get(t, "type")), "F16");
    assert_int_equal(json_integer_value(json_object_get(t, "tensors")), 2);
    assert_int_equal(json_integer_value(json_object_get(t, "elements")), 12);
    assert_int_equal(json_integer_value(json_object_get(t, "bytes")), 24);
    assert_true(json_real_value(json_object_get(t, "share")) == 0.6);
    json_decref(j);
    fy_str s = {0};
    fy_err e = {0};
    assert_int_equal(fy_inspect(path_of("types.safetensors"), &as_text, &s, &e), 0);
    has(&s, "  F32              1               4              16   40.0 %\n");
    fy_str_release(&s);
}

/* Keys of a vocabulary, some of the wrong kind. */
static void a_tokenizer_is_summed_up(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    static const char *const tokens[] = {"<s>", "a", "\x1B[0m"};
    fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e);
    fy_gguf_add_str(w, "tokenizer.ggml.model", FY_SPAN("llama"), &e);
    fy_gguf_add_u32(w, "tokenizer.ggml.pre", 7, &e);
    fy_gguf_begin_strings(w, "tokenizer.ggml.tokens", &e);
    for (size_t i = 0; i < 3; i++)
        fy_gguf_add_string(w, fy_span_of(tokens[i]), &e);
    fy_gguf_end_strings(w, &e);
    fy_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", true, &e);
    fy_gguf_add_u32(w, "tokenizer.ggml.bos_token_id", 0, &e);
    fy_gguf_add_u32(w, "tokenizer.ggml.eos_token_id", 2, &e);
    fy_gguf_add_i32(w, "tokenizer.ggml.unknown_token_id", -5, &e);
    fy_gguf_add_u32(w, "tokenizer.ggml.padding_token_id", 99, &e);
    fy_gguf_add_str(w, "tokenizer.ggml.cls_token_id", FY_SPAN("zero"), &e);
    fy_gguf_add_str(w, "tokenizer.chat_template", FY_SPAN("{{ x }}"), &e);
    fy_gguf_add_str(w, "tokenizer.chat_template.tool_use", FY_SPAN("{{ tool }}"), &e);
    assert_int_equal(fy_gguf_write(w, path_of("v.gguf"), NULL, NULL, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    fy_str s = {0};
    assert_int_equal(fy_inspect(path_of("v.gguf"), &as_text, &s, &e), 0);
    has(&s, "\ntokenizer\n  \"llama\": 3 tokens, 0 merges, a text begins with bos\n"
            "  bos 0 \"<s>\"\n  eos 2 \"\\x1b[0m\"\n  unknown -5 \"\"\n  padding 99 \"\"\n"
            "  chat template of 7 bytes\n  chat template \"tool_use\" of 10 bytes\n");
    fy_str_release(&s);
    json_t *j = inspect_json("v.gguf", &as_json), *t = json_object_get(j, "tokenizer");
    assert_int_equal(json_integer_value(json_object_get(t, "tokens")), 3);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(t, "chat_templates"), 1), "name")),
                        "tool_use");
    json_decref(j);
}

static void put_values(const char *name, const char *dtype, const char *shape, const void *p,
                       size_t n)
{
    fy_str header = {0}, s = {0};
    fy_err e = {0};
    fy_str_printf(&header, "{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
                  dtype, shape, n);
    uint64_t len = header.len;
    fy_str_add(&s, &len, sizeof len);
    fy_str_add(&s, header.ptr, header.len);
    fy_str_add(&s, p, n);
    assert_int_equal(fy_file_write(path_of(name), s.ptr, s.len, &e), 0);
    fy_str_release(&header);
    fy_str_release(&s);
}

static void one_tensor_is_read(void **state)
{
    (void)state;
    static const float values[] = {1, 2, 0, -4, NAN, INFINITY, 3, -0.0f, 4, 0.5f, -2, 1.5f};
    put_values("t.safetensors", "F32", "[2,3,2]", values, sizeof values);
    fy_inspect_options o = {.tensor = "t", .n_values = 3, .at = "[1, 0, 1]"};
    fy_str s = {0};
    fy_err e = {0};
    assert_int_equal(fy_inspect(path_of("t.safetensors"), &o, &s, &e), 0);
    assert_string_equal(s.ptr,
                        "t: F32 [2, 3, 2] (row length last), elements 12, bytes 48\n"
                        "min -4, max 4, mean 0.6, standard deviation 2.21133\n"
                        "zeros 2, NaN 1, infinite 1\n"
                        "[1, 0, 1]: -0 4 0.5\n");
    fy_str_release(&s);
    o = (fy_inspect_options){.tensor = "t", .n_values = 100, .at = "1,2,0", .json = true};
    json_t *j = inspect_json("t.safetensors", &o);
    assert_int_equal(json_array_size(json_object_get(j, "values")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "first")), 10);
    assert_true(json_real_value(json_object_get(j, "min")) == -4);
    json_decref(j);
    put_values("i.safetensors", "I64", "[1]", "\1\0\0\0\0\0\0", 8);
    o = (fy_inspect_options){.tensor = "t", .n_values = 8};
    assert_int_equal(fy_inspect(path_of("i.safetensors"), &o, &s, &e), 0);
    has(&s, "values of type I64 are not decoded\n");
    fy_str_release(&s);
    put_values("e.safetensors", "F32", "[0,7]", "", 0);
    assert_int_equal(fy_inspect(path_of("e.safetensors"), &o, &s, &e), 0);
    has(&s, "t: F32 [0, 7] (row length last), elements 0, bytes 0\nzeros 0, NaN 0, infinite 0\n");
    fy_str_release(&s);
}

static void a_tensor_that_is_not_there_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *tensor, *at, *words;
    } cases[] = {{"tt", NULL, "no tensor is called 'tt'; the nearest name is 't'"},
                 {"nothing", NULL, "no tensor is called 'nothing'"},
                 {"t", "1", "--at 1 is not an index"},
                 {"t", "1,2", "--at 1,2 is not an index"},
                 {"t", "2,0,0", "is not an index"},
                 {"t", "-1,0,0", "is not an index"},
                 {"t", "0,0,0,0", "expected 3 numbers"},
                 {"t", "99999999999999999999999,0,0", "is not an index"},
                 {"t", "x", "is not an index"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fy_inspect_options o = {.tensor = cases[i].tensor, .at = cases[i].at, .n_values = 8};
        fy_err e = {0};
        fy_str s = {0};
        assert_int_equal(fy_inspect(path_of("t.safetensors"), &o, &s, &e), -1);
        if (strstr(e.msg, cases[i].words) == NULL || fy_exit_status(e.code) != 2)
            fail_msg("%s", e.msg);
        fy_str_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gguf_file_is_shown_with_short_values),
        cmocka_unit_test(the_json_of_a_gguf_file_holds_the_same),
        cmocka_unit_test(a_safetensors_file_is_shown_whatever_its_name),
        cmocka_unit_test(a_pytorch_file_is_shown_whatever_its_name),
        cmocka_unit_test(names_of_values_are_kept_in_json),
        cmocka_unit_test(the_hash_is_that_of_the_elements_in_a_row),
        cmocka_unit_test(what_cannot_be_shown_is_named),
        cmocka_unit_test(types_are_summed_up),
        cmocka_unit_test(a_tokenizer_is_summed_up),
        cmocka_unit_test(one_tensor_is_read),
        cmocka_unit_test(a_tensor_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
