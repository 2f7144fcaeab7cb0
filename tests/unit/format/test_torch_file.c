#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/math.h"
#include "format/torch_file.h"
#include "tests/unit/format/torch_made.h"

/* --- what is read ----------------------------------------------------------------------------- */

static void names_types_and_shapes_are_those_of_the_dict(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    put_tensor(&s, "b", (pk_tensor_args){F32_ARGS, SHAPE(2, 4, 6), STRIDE(6, 1)});
    put_tensor(&s, "a", (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1), .offset = 6});
    put_tensor(&s, "scalar", (pk_tensor_args){F32_ARGS, .offset = 23});
    put_tensor(&s, "empty", (pk_tensor_args){.type = "HalfStorage", .key = "1", SHAPE(2, 0, 5),
                                             STRIDE(5, 1), .offset = 99});
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    assert_string_equal(fy_torch_container(t), "zip");
    assert_string_equal(fy_torch_path(t), "t.pt");
    assert_null(fy_torch_map(t));
    assert_int_equal(fy_torch_n_tensors(t), 4);
    assert_int_equal(fy_torch_n_values(t), 0);

    const fy_torch_tensor *b = fy_torch_tensor_at(t, 0), *a = find(t, "a");
    assert_ptr_equal(b, find(t, "b"));
    assert_int_equal(b->dtype, FY_DT_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0] * 10 + b->shape[1], 46);
    assert_int_equal(b->stride[0] * 10 + b->stride[1], 61);
    assert_int_equal(b->bytes, 96);
    assert_true(b->contiguous);
    assert_true(fy_lef32(b->data + 92) == 23.0f);
    assert_int_equal(a->storage, b->storage);
    assert_ptr_equal(a->data, b->data + 24);

    const fy_torch_tensor *scalar = find(t, "scalar"), *empty = find(t, "empty");
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(scalar->bytes, 4);
    assert_true(fy_lef32(scalar->data) == 23.0f);
    assert_int_equal(empty->bytes, 0);
    assert_non_null(empty->data);
    assert_true(empty->contiguous);
    assert_int_not_equal(empty->storage, scalar->storage);
    assert_null(fy_torch_find(t, FY_SPAN("c")));
    fy_torch_close(t);
    free(copy);
}

static void views_with_strides_are_gathered_in_row_major_order(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    put_tensor(&s, "transposed", (pk_tensor_args){F32_ARGS, SHAPE(2, 6, 4), STRIDE(1, 6)});
    put_tensor(&s, "column", (pk_tensor_args){F32_ARGS, SHAPE(1, 4), STRIDE(6), .offset = 5});
    put_tensor(&s, "spread", (pk_tensor_args){F32_ARGS, SHAPE(2, 3, 2), STRIDE(0, 1)});
    put_tensor(&s, "cube", (pk_tensor_args){F32_ARGS, SHAPE(3, 2, 3, 4), STRIDE(4, 8, 1)});
    put_tensor(&s, "ones", (pk_tensor_args){F32_ARGS, SHAPE(3, 1, 6, 1), STRIDE(9999, 1, 77)});
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    static const struct {
        const char *name;
        int n;
        float elems[ELEMS];
    } cases[] = {
        {"transposed", 24, {0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22,
                            5, 11, 17, 23}},
        {"column", 4, {5, 11, 17, 23}},
        {"spread", 6, {0, 1, 0, 1, 0, 1}},
        {"cube", 24, {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21,
                      22, 23}},
        {"ones", 6, {0, 1, 2, 3, 4, 5}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const fy_torch_tensor *x = find(t, cases[c].name);
        assert_int_equal(x->contiguous, c == 4);
        assert_int_equal(x->bytes, 4 * cases[c].n);
        for (int from = 0; from <= cases[c].n; from++) {
            int n = cases[c].n - from;
            float *got = malloc(n > 0 ? 4 * (size_t)n : 1);
            fy_torch_gather(x, (uint64_t)from, (uint64_t)n, got);
            if (n > 0)
                assert_memory_equal(got, cases[c].elems + from, 4 * (size_t)n);
            free(got);
        }
    }
    fy_torch_close(t);
    free(copy);
}

static void nested_keys_are_joined_and_values_kept(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    pk_text(&s, "model");
    fy_str_puts(&s, "}");
    put_tensor(&s, "w", (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1)});
    fy_str_puts(&s, "s");
    pk_text(&s, "state");
    fy_str_puts(&s, "}");
    pk_int(&s, -3);
    pk_tensor(&s, &(pk_tensor_args){F32_ARGS, SHAPE(1, 2), STRIDE(1)});
    fy_str_puts(&s, "s");
    pk_text(&s, "args");
    fy_str_puts(&s, "](K\x07\x88NG\x3F\xF8");
    put_le(&s, 0, 6);
    pk_text(&s, "text");
    fy_str_puts(&s, "K\x01K\x02\x86" "e");
    fy_str_puts(&s, "K\x01\x85"); /* a tuple as a key: what it leads to has no name */
    pk_tensor(&s, &(pk_tensor_args){F32_ARGS});
    pk_text(&s, "bytes");
    fy_str_puts(&s, "C\x01" "a");
    pk_text(&s, "none");
    fy_str_puts(&s, "N");
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    assert_int_equal(fy_torch_n_tensors(t), 2);
    assert_int_equal(find(t, "model.w")->shape[0], 3);
    assert_int_equal(find(t, "state.-3")->shape[0], 2);
    assert_int_equal(fy_torch_n_values(t), 6);
    assert_int_equal(fy_torch_n_opaque(t), 0);
    const fy_torch_value *v = fy_torch_find_value(t, "args.0");
    assert_true(v->kind == FY_TORCH_INT && v->i == 7);
    assert_ptr_equal(v, fy_torch_value_at(t, 0));
    v = fy_torch_find_value(t, "args.1");
    assert_true(v->kind == FY_TORCH_BOOL && v->i == 1);
    assert_null(fy_torch_find_value(t, "args.2"));
    v = fy_torch_find_value(t, "args.3");
    assert_true(v->kind == FY_TORCH_FLOAT && v->f == 1.5);
    v = fy_torch_find_value(t, "args.4");
    assert_true(v->kind == FY_TORCH_TEXT && fy_span_is(v->text, "text"));
    assert_int_equal(fy_torch_find_value(t, "args.5.1")->i, 2);
    fy_torch_close(t);
    free(copy);
}

static void every_type_of_storage_has_its_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        fy_dtype dtype;
        uint32_t bytes;
    } cases[] = {
        {"DoubleStorage", FY_DT_F64, 8},  {"FloatStorage", FY_DT_F32, 4},
        {"HalfStorage", FY_DT_F16, 2},    {"BFloat16Storage", FY_DT_BF16, 2},
        {"LongStorage", FY_DT_I64, 8},    {"IntStorage", FY_DT_I32, 4},
        {"ShortStorage", FY_DT_I16, 2},   {"CharStorage", FY_DT_I8, 1},
        {"ByteStorage", FY_DT_U8, 1},     {"BoolStorage", FY_DT_BOOL, 1},
        {"ComplexFloatStorage", FY_DT_C64, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        char *copy;
        begin(&s);
        put_tensor(&s, "x", (pk_tensor_args){.type = cases[i].type, .key = "0",
                                             .elems = 96 / cases[i].bytes, SHAPE(1, 2), STRIDE(1),
                                             .offset = 1});
        end(&s);
        fy_torch *t = must_open(&s, &copy);
        assert_int_equal(find(t, "x")->dtype, cases[i].dtype);
        assert_int_equal(find(t, "x")->bytes, 2 * cases[i].bytes);
        fy_torch_close(t);
        free(copy);
    }
}

/* _rebuild_tensor_v3(storage, 2, (3,), (1,), False, {}, torch.DTYPE) */
static void put_v3(fy_str *s, const char *storage, int64_t elems, const char *dtype)
{
    pk_global(s, "torch._utils", "_rebuild_tensor_v3");
    fy_str_putc(s, '(');
    pk_storage(s, storage, "0", elems);
    pk_int(s, 2);
    fy_str_puts(s, "K\x03\x85K\x01\x85\x89}");
    pk_global(s, "torch", dtype);
    fy_str_puts(s, "tR");
}

static void untyped_storages_take_the_type_that_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        fy_dtype dtype;
    } cases[] = {{"uint16", FY_DT_U16},
                 {"uint32", FY_DT_U32},
                 {"uint64", FY_DT_U64},
                 {"float8_e4m3fn", FY_DT_F8_E4M3},
                 {"float8_e5m2", FY_DT_F8_E5M2},
                 {"bfloat16", FY_DT_BF16}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        char *copy;
        begin(&s);
        pk_text(&s, "x");
        put_v3(&s, "UntypedStorage", 96, cases[i].name);
        end(&s);
        fy_torch *t = must_open(&s, &copy);
        const fy_torch_tensor *x = find(t, "x");
        assert_int_equal(x->dtype, cases[i].dtype);
        assert_int_equal(x->bytes, 3 * fy_dtype_bits(x->dtype) / 8);
        fy_torch_close(t);
        free(copy);
    }
}

static void parameters_and_sizes_are_what_they_wrap(void **state)
{
    (void)state;
    const pk_tensor_args args = {F32_ARGS, SHAPE(1, 3), STRIDE(1), .offset = 2};
    fy_str s = {0};
    char *copy;
    begin(&s);
    pk_text(&s, "p");
    pk_global(&s, "torch._utils", "_rebuild_parameter");
    pk_tensor(&s, &args);
    fy_str_puts(&s, "\x88}\x87R");
    pk_text(&s, "q");
    pk_global(&s, "torch._utils", "_rebuild_parameter_with_state");
    fy_str_putc(&s, '(');
    pk_tensor(&s, &args);
    fy_str_puts(&s, "\x88}}tR");
    pk_text(&s, "r");
    pk_global(&s, "torch._tensor", "_rebuild_from_type_v2");
    fy_str_putc(&s, '(');
    pk_global(&s, "torch._utils", "_rebuild_parameter");
    pk_global(&s, "torch.nn.parameter", "Parameter");
    pk_tensor(&s, &args);
    fy_str_puts(&s, "\x88}\x87}tR");
    pk_text(&s, "size");
    pk_global(&s, "torch", "Size");
    fy_str_puts(&s, "K\x08K\x09\x86\x85R");
    pk_text(&s, "old");
    pk_global(&s, "torch._utils", "_rebuild_tensor");
    fy_str_putc(&s, '(');
    pk_storage(&s, "FloatStorage", "0", ELEMS);
    pk_int(&s, 2);
    pk_global(&s, "torch", "Size");
    fy_str_puts(&s, "K\x03\x85\x85RK\x01\x85tR");
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    static const char *const names[] = {"p", "q", "r", "old"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(find(t, names[i])->shape[0], 3);
        assert_true(fy_lef32(find(t, names[i])->data) == 2.0f);
    }
    assert_int_equal(fy_torch_find_value(t, "size.1")->i, 9);
    fy_torch_close(t);
    free(copy);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void tensors_that_leave_their_storage_are_refused(void **state)
{
    (void)state;
    static const struct {
        pk_tensor_args args;
        const char *words;
    } cases[] = {
        {{F32_ARGS, SHAPE(2, 4, 7), STRIDE(6, 1)}, "reaches element 24 of a storage that has 24"},
        {{F32_ARGS, SHAPE(2, 4, 6), STRIDE(6, 1), .offset = 1}, "reaches element 24 of"},
        {{F32_ARGS, SHAPE(2, 2, 2), STRIDE(1, 23)}, "reaches element 24 of"},
        {{F32_ARGS, .offset = 24}, "reaches element 24 of"},
        {{F32_ARGS, .offset = INT64_MAX, SHAPE(1, 3), STRIDE(INT64_MAX)}, "more than 2^63 bytes"},
        {{F32_ARGS, SHAPE(2, 1LL << 32, 1LL << 32), STRIDE(0, 0)}, "more than 2^63 bytes"},
        {{F32_ARGS, SHAPE(1, 1LL << 62), STRIDE(0)}, "more than 2^63 bytes"},
        {{F32_ARGS, SHAPE(1, 3), STRIDE(-1), .offset = 5}, "its stride is negative: -1"},
        {{F32_ARGS, SHAPE(1, -3), STRIDE(1)}, "its shape is negative: -3"},
        {{F32_ARGS, .offset = -1}, "its offset is negative: -1"},
        {{F32_ARGS, .rank = 2, .n_strides = 1, .shape = {1, 1}, .stride = {1}},
         "has 2 dimensions and 1 strides"},
        {{F32_ARGS, SHAPE(9, 1, 1, 1, 1, 1, 1, 1, 1, 1), STRIDE(1, 1, 1, 1, 1, 1, 1, 1, 1)},
         "its shape has 9 dimensions, at most 8 are read"},
        {{.type = "FloatStorage", .key = "0", .elems = 25}, "has 96 bytes"},
        {{.type = "FloatStorage", .key = "0", .elems = 1LL << 62}, "has 96 bytes"},
        {{.type = "FloatStorage", .key = "0", .elems = -1}, "its size of a storage is negative"},
        {{.type = "FloatStorage", .key = "7", .elems = 1}, "its storage '7' is not in the file"},
        {{.type = "QInt8Storage", .key = "0", .elems = 1},
         "a storage of type 'QInt8Storage' is not read"},
        {{.type = "ComplexDoubleStorage", .key = "0", .elems = 1}, "'ComplexDoubleStorage'"},
        {{.type = "UntypedStorage", .key = "0", .elems = 96}, "has bytes, not elements of a type"},
        {{.type = "load", .key = "0", .elems = 1}, "asks for torch.load, which ferry never runs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        begin(&s);
        put_tensor(&s, "layer.w", cases[i].args);
        end(&s);
        expect_words(&s, cases[i].words);
        begin(&s);
        put_tensor(&s, "layer.w", cases[i].args);
        end(&s);
        expect_words(&s, "tensor 'layer.w': ");
    }
}

/* A tensor in which `call` stands where a part of it should be; 0: made by another function. */
static void put_with_global_at(fy_str *s, int where, const char *call)
{
    pk_global(s, "torch._utils", where == 0 ? "_rebuild_qtensor" : "_rebuild_tensor_v2");
    fy_str_putc(s, '(');
    if (where == 1)
        fy_str_puts(s, call);
    else
        pk_storage(s, "FloatStorage", "0", ELEMS);
    fy_str_puts(s, where == 2 ? call : "K\x02");
    fy_str_puts(s, where == 3 ? call : "K\x03\x85");
    fy_str_puts(s, where == 4 ? call : "K\x01\x85");
    fy_str_puts(s, "\x89}tR");
}

static void a_tensor_that_needs_a_program_names_it(void **state)
{
    (void)state;
    for (int where = 0; where <= 4; where++) {
        fy_str s = {0};
        begin(&s);
        pk_text(&s, "w");
        put_with_global_at(&s, where, "cposix\nsystem\nU\x02id\x85R");
        end(&s);
        expect_words(&s, where == 0
                             ? "t.pt: tensor 'w': its pickle asks for torch._utils._rebuild_qtensor"
                               ", which ferry never runs"
                             : "t.pt: tensor 'w': its pickle asks for posix.system, which ferry "
                               "never runs");
    }
    fy_str s = {0}; /* what it would make of a tensor */
    begin(&s);
    pk_text(&s, "w");
    pk_global(&s, "my.module", "wrap");
    pk_tensor(&s, &(pk_tensor_args){F32_ARGS});
    fy_str_puts(&s, "\x85R");
    end(&s);
    expect_words(&s, "tensor 'w': its pickle asks for my.module.wrap");

    begin(&s);
    pk_text(&s, "w");
    put_v3(&s, "UntypedStorage", 96, "bits16");
    end(&s);
    expect_words(&s, "its dtype torch.bits16 is not read");

    begin(&s); /* whose content changes after it was made */
    put_tensor(&s, "w", (pk_tensor_args){F32_ARGS});
    fy_str_puts(&s, "K\x01\x85" "b");
    end(&s);
    expect_words(&s, "its state is set after it was made");
}

static void other_objects_are_listed_and_not_made(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    put_tensor(&s, "w", (pk_tensor_args){F32_ARGS});
    pk_text(&s, "args");
    fy_str_puts(&s, "ccopyreg\n_reconstructor\n(cargparse\nNamespace\nc__builtin__\nobject\nNtR}");
    pk_text(&s, "lr");
    fy_str_puts(&s, "K\x01sb");
    pk_text(&s, "evil");
    fy_str_puts(&s, "cposix\nsystem\nU\x02id\x85R");
    pk_text(&s, "type");
    pk_global(&s, "torch", "float16");
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    static const char *const wanted[][2] = {
        {"args", "argparse.Namespace"}, {"evil", "posix.system"}, {"type", "torch.float16"}};
    assert_int_equal(fy_torch_n_tensors(t), 1);
    assert_int_equal(fy_torch_n_values(t), 0);
    assert_int_equal(fy_torch_n_opaque(t), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(fy_span_is(fy_torch_opaque_at(t, i)->name, wanted[i][0]));
        assert_true(fy_span_is(fy_torch_opaque_at(t, i)->global, wanted[i][1]));
    }
    fy_torch_close(t);
    free(copy);

    fy_str_puts(&s, "c__main__\nNet\n)\x81}b."); /* torch.save(model) */
    expect_words(&s, "the pickle asks for __main__.Net, which ferry never runs: expected tensors "
                     "by name, as torch.save(model.state_dict(), FILE) writes them");
    begin(&s);
    pk_text(&s, "epoch");
    fy_str_puts(&s, "K\x01");
    pk_text(&s, "model");
    fy_str_puts(&s, "c__main__\nNet\n)\x81}b");
    end(&s);
    expect_words(&s, "there are no tensors, and for 'model' the pickle asks for __main__.Net");
}

static void names_must_be_clear(void **state)
{
    (void)state;
    fy_str s = {0};
    begin(&s);
    put_tensor(&s, "a.b", (pk_tensor_args){F32_ARGS});
    pk_text(&s, "a");
    fy_str_puts(&s, "}");
    put_tensor(&s, "b", (pk_tensor_args){F32_ARGS});
    fy_str_puts(&s, "s");
    end(&s);
    expect_words(&s, "two tensors are called 'a.b'");
    begin(&s);
    pk_text(&s, "1");
    fy_str_puts(&s, "K\x01K\x01K\x02");
    end(&s);
    expect_words(&s, "two values are called '1'");
    char name[4098];
    memset(name, 'x', 4097);
    name[4097] = '\0';
    begin(&s);
    put_tensor(&s, name, (pk_tensor_args){F32_ARGS});
    end(&s);
    expect_words(&s, "has more than 4096 bytes");
}

static void nesting_is_limited(void **state)
{
    (void)state;
    for (int depth = 64; depth <= 65; depth++) {
        fy_str s = {0};
        for (int i = 0; i < depth; i++)
            fy_str_puts(&s, "](");
        fy_str_puts(&s, "K\x01");
        for (int i = 0; i < depth; i++)
            fy_str_putc(&s, 'e');
        fy_str_putc(&s, '.');
        char *copy;
        if (depth == 64) {
            fy_torch *t = must_open(&s, &copy);
            assert_int_equal(fy_torch_n_values(t), 1);
            fy_torch_close(t);
            free(copy);
        } else {
            expect_words(&s, "is nested deeper than 64 levels");
        }
    }
    fy_str s = {0}; /* in itself */
    fy_str_puts(&s, "]q");
    fy_str_add(&s, "\0h\0a.", 5);
    expect_words(&s, "is nested deeper than 64 levels");
}

static void shared_parts_do_not_multiply_without_end(void **state)
{
    (void)state;
    char *copy;
    for (int levels = 3; levels <= 20; levels += 17) { /* lists of ten lists of ten lists ... */
        fy_str s = {0};
        fy_str_puts(&s, "K\x01q");
        fy_str_putc(&s, '\0');
        for (int level = 0; level < levels; level++) {
            fy_str_puts(&s, "](");
            for (int i = 0; i < 10; i++) {
                fy_str_putc(&s, 'h');
                fy_str_putc(&s, (char)level);
            }
            fy_str_puts(&s, "eq");
            fy_str_putc(&s, (char)(level + 1));
        }
        fy_str_putc(&s, '.');
        if (levels == 3) {
            fy_torch *t = must_open(&s, &copy);
            assert_int_equal(fy_torch_n_values(t), 1000);
            fy_torch_close(t);
            free(copy);
        } else {
            expect_words(&s, "are parts of each other too many times over");
        }
    }
}

/* A list of one text, many times: the pickle has it once. */
static void a_long_list_of_one_value_is_read(void **state)
{
    (void)state;
    enum { N = 300000 };
    fy_str s = {0};
    char *copy;
    fy_str_puts(&s, "](");
    pk_text(&s, "same");
    fy_str_puts(&s, "q");
    fy_str_putc(&s, '\0');
    for (int i = 1; i < N; i++)
        fy_str_add(&s, "h\0", 2);
    fy_str_puts(&s, "e.");
    fy_torch *t = must_open(&s, &copy);
    assert_int_equal(fy_torch_n_values(t), N);
    assert_true(fy_span_is(fy_torch_find_value(t, "299999")->text, "same"));
    fy_torch_close(t);
    free(copy);
}

/* A name of 4000 bytes for each of 20000 values would take more memory than they are worth. */
static void the_bytes_of_all_names_are_limited(void **state)
{
    (void)state;
    fy_str s = {0};
    char name[4001];
    memset(name, 'x', 4000);
    name[4000] = '\0';
    begin(&s);
    pk_text(&s, name);
    fy_str_puts(&s, "](");
    for (int i = 0; i < 20000; i++)
        fy_str_puts(&s, "K\x01");
    fy_str_puts(&s, "e");
    end(&s);
    expect_words(&s, "the names in it take more than 67108864 bytes");
}

static void archives_that_are_no_checkpoint_say_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *names[4];
        const char *data;
        const char *words; /* NULL: accepted */
    } cases[] = {
        {{"a/data.pkl"}, "}.", NULL},
        {{"data.pkl"}, "}.", NULL},
        {{"any/thing at all/data.pkl"}, "}.", NULL},
        {{"a/data.pkl", "a/constants.pkl"}, "}.", NULL},
        {{"a/data.pkl", "a/constants.pkl", "a/code/x.py"}, "}.", "is a TorchScript archive"},
        {{"a/archive_format", "a/models/model.json"}, "}.", "is an archive of torch.export"},
        {{"word/document.xml"}, "", "is a zip archive without data.pkl"},
        {{"a/olddata.pkl"}, "}.", "is a zip archive without data.pkl"},
        {{"a/data.pkl", "b/data.pkl"}, "}.", "more than one data.pkl"},
        {{"a/byteorder", "a/data.pkl"}, "big", "is big-endian"},
        {{"a/byteorder", "a/data.pkl"}, "middle", "neither 'little' nor 'big'"},
        {{"a/data.pkl"}, "}", "data.pkl: pickle byte 1: is cut off"},
        {{"a/data.pkl"}, "", "data.pkl: pickle byte 0: is cut off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zip_maker z = {0};
        fy_err e = {0};
        char *copy;
        for (int k = 0; k < 4 && cases[i].names[k] != NULL; k++)
            zip_add(&z, cases[i].names[k], cases[i].data, strlen(cases[i].data));
        zip_end(&z);
        fy_torch *t = parse_copy(z.bytes.ptr, z.bytes.len, &copy, &e);
        assert_int_equal(t != NULL, cases[i].words == NULL);
        if (t == NULL && strstr(e.msg, cases[i].words) == NULL)
            fail_msg("'%s' is not in: %s", cases[i].words, e.msg);
        fy_torch_close(t);
        free(copy);
        zip_release(&z);
    }
}

static void other_files_say_what_they_are(void **state)
{
    (void)state;
    char tar[512] = {0};
    memcpy(tar + 257, "ustar", 5);
    static const struct {
        const char *bytes;
        const char *words;
    } cases[] = {
        {"abc", "is not a PyTorch checkpoint: it begins neither as a zip archive nor as a pickle"},
        {"version https://git-lfs.github.com/spec/v1\n", "but a Git LFS pointer"},
        {"", "but an empty file"},
        {"\x80\x04K\x01.", "is a Python pickle, but not a checkpoint of PyTorch"},
        {"PK\3\4", "the zip archive has no directory at its end"},
    };
    for (size_t i = 0; i <= sizeof cases / sizeof cases[0]; i++) {
        bool is_tar = i == sizeof cases / sizeof cases[0];
        fy_err e = {0};
        assert_null(fy_torch_parse(is_tar ? tar : cases[i].bytes,
                                   is_tar ? sizeof tar : strlen(cases[i].bytes), "t.pt", &e));
        const char *words = is_tar ? "but a tar archive (PyTorch before" : cases[i].words;
        if (strstr(e.msg, words) == NULL)
            fail_msg("'%s' is not in: %s", words, e.msg);
    }
    assert_true(fy_torch_looks_like("PK\3\4", 4));
    assert_true(fy_torch_looks_like("\x80\x02", 2));
    assert_false(fy_torch_looks_like("PK\3", 3));
    assert_false(fy_torch_looks_like("\x80\x7F", 2));
    assert_false(fy_torch_looks_like("", 0));
}

/* --- whole files ------------------------------------------------------------------------------ */

static void make_sample(fy_str *s)
{
    begin(s);
    put_tensor(s, "w", (pk_tensor_args){F32_ARGS, SHAPE(2, 4, 6), STRIDE(6, 1)});
    put_tensor(s, "v", (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1)});
    pk_text(s, "dim");
    fy_str_puts(s, "K\x40");
    pk_text(s, "args");
    fy_str_puts(s, "cargparse\nNamespace\n)\x81");
    end(s);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    fy_str pickle = {0};
    zip_maker z = {.zip64 = true, .descriptor = true};
    make_sample(&pickle);
    zip_file(&z, &pickle);
    for (size_t n = 0; n <= z.bytes.len; n++) {
        fy_err e = {0};
        char *copy;
        fy_torch *t = parse_copy(z.bytes.ptr, n, &copy, &e);
        assert_int_equal(t != NULL, n == z.bytes.len);
        assert_int_equal(e.code != FY_OK, n < z.bytes.len);
        fy_torch_close(t);
        free(copy);
    }
    fy_str_release(&pickle);
    zip_release(&z);
}

/* The pickle alone, cut at every byte in a whole archive. */
static void every_truncation_of_the_pickle_is_refused(void **state)
{
    (void)state;
    fy_str pickle = {0};
    make_sample(&pickle);
    for (size_t n = 0; n < pickle.len; n++) {
        fy_str cut = {0};
        fy_str_add(&cut, pickle.ptr, n);
        expect_words(&cut, "data.pkl: pickle byte ");
    }
    fy_str_release(&pickle);
}

static void a_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    fy_str pickle = {0};
    zip_maker z = {0};
    make_sample(&pickle);
    zip_file(&z, &pickle);
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_torch *t = fy_torch_parse(z.bytes.ptr, z.bytes.len, "t.pt", &e);
        done = !alloc_fail_end();
        assert_int_equal(t != NULL, done);
        assert_int_equal(e.code, done ? FY_OK : FY_ENOMEM);
        fy_torch_close(t);
    }
    fy_str_release(&pickle);
    zip_release(&z);
}

static void files_of_torch_are_mapped(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_torch *t = fy_torch_open("tests/data/containers/llama2c/ckpt.pt", &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    const fy_map *m = fy_torch_map(t);
    assert_non_null(m);
    assert_int_equal(fy_torch_find_value(t, "model_args.dim")->i, 64);
    for (size_t i = 0; i < fy_torch_n_tensors(t); i++) {
        const fy_torch_tensor *x = fy_torch_tensor_at(t, i);
        assert_true(x->data >= m->data && x->data + x->bytes <= m->data + m->size);
        assert_ptr_equal(fy_torch_find(t, x->name), x);
    }
    fy_torch_close(t);
    assert_null(fy_torch_open("tests/data/containers/absent.pt", &e));
    assert_non_null(strstr(e.msg, "absent.pt"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_types_and_shapes_are_those_of_the_dict),
        cmocka_unit_test(views_with_strides_are_gathered_in_row_major_order),
        cmocka_unit_test(nested_keys_are_joined_and_values_kept),
        cmocka_unit_test(every_type_of_storage_has_its_dtype),
        cmocka_unit_test(untyped_storages_take_the_type_that_is_named),
        cmocka_unit_test(parameters_and_sizes_are_what_they_wrap),
        cmocka_unit_test(tensors_that_leave_their_storage_are_refused),
        cmocka_unit_test(a_tensor_that_needs_a_program_names_it),
        cmocka_unit_test(other_objects_are_listed_and_not_made),
        cmocka_unit_test(names_must_be_clear),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(shared_parts_do_not_multiply_without_end),
        cmocka_unit_test(a_long_list_of_one_value_is_read),
        cmocka_unit_test(the_bytes_of_all_names_are_limited),
        cmocka_unit_test(archives_that_are_no_checkpoint_say_what_they_are),
        cmocka_unit_test(other_files_say_what_they_are),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_truncation_of_the_pickle_is_refused),
        cmocka_unit_test(a_failing_allocation_leaves_nothing_behind),
        cmocka_unit_test(files_of_torch_are_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
