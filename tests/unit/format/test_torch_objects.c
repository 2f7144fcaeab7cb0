/* Tensors and objects of PyTorch files whose pickles say more than a list of elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/format/torch_made.h"

/* z.conj().imag: the values in the file have the other sign. */
static void views_that_are_negated_when_they_are_read_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *metadata, *words; /* NULL: read */
    } cases[] = {
        {"}U\x03neg\x88s", "tensor 'w': is a view that is negated when it is read: save "
                           "tensor.resolve_neg()"},
        {"}U\x04"
         "conj\x88s",
         "conjugated when it is read: save tensor.resolve_conj()"},
        {"}(U\x04"
         "conj\x89U\x03neg\x88u",
         "negated"},
        {"}U\x03neg\x89s", NULL},
        {"}U\x05other\x88s", NULL},
        {"}", NULL},
        {"N", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        begin(&s);
        put_tensor(
            &s, "w",
            (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1), .metadata = cases[i].metadata});
        end(&s);
        if (cases[i].words != NULL) {
            expect_words(&s, cases[i].words);
            continue;
        }
        char *copy;
        fy_torch *t = must_open(&s, &copy);
        assert_int_equal(find(t, "w")->bytes, 12);
        fy_torch_close(t);
        free(copy);
    }
}

static const char *opaque_at(const fy_torch *t, size_t i)
{
    return fy_torch_opaque_at(t, i)->global.ptr;
}

/* Legacy files name the class of a module by a persistent id with its source. */
static void objects_of_persistent_classes_are_named(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    put_tensor(&s, "w", (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1)});
    pk_text(&s, "net");
    fy_str_puts(&s, "(U\x06modulec__main__\nNet\nU\x04n.pyU\x06"
                    "class tQ)\x81}b");
    pk_text(&s, "bytes");
    pk_storage(&s, "UntypedStorage", "0", 4 * ELEMS);
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    assert_int_equal(fy_torch_n_tensors(t), 1);
    assert_int_equal(fy_torch_n_opaque(t), 2);
    assert_string_equal(opaque_at(t, 0), "__main__.Net");
    assert_string_equal(opaque_at(t, 1), "torch.storage.UntypedStorage");
    fy_torch_close(t);
    free(copy);
}

/* State of an optimizer, as torch kept it up to 1.x. */
static void a_defaultdict_is_a_dict(void **state)
{
    (void)state;
    fy_str s = {0};
    char *copy;
    begin(&s);
    pk_text(&s, "state");
    pk_global(&s, "collections", "defaultdict");
    fy_str_puts(&s, "c__builtin__\ndict\n\x85R(");
    put_tensor(&s, "w", (pk_tensor_args){F32_ARGS, SHAPE(1, 3), STRIDE(1)});
    fy_str_puts(&s, "u");
    end(&s);
    fy_torch *t = must_open(&s, &copy);
    assert_int_equal(fy_torch_n_opaque(t), 0);
    assert_int_equal(find(t, "state.w")->bytes, 12);
    fy_torch_close(t);
    free(copy);
}

/* torch.jit.save compresses the program in the archive, and nothing else. */
static void a_program_is_called_one_though_its_code_is_compressed(void **state)
{
    (void)state;
    fy_err e = {0};
    zip_maker z = {.zip64 = true};
    zip_add(&z, "m/data.pkl", "}.", 2);
    zip_add(&z, "m/constants.pkl", ").", 2);
    z.method = 8;
    zip_add(&z, "m/code/__torch__.py", "abc", 3);
    zip_end(&z);
    char *copy = exact_copy(z.bytes.ptr, z.bytes.len);
    assert_null(fy_torch_parse(copy, z.bytes.len, "t.pt", &e));
    if (strstr(e.msg, "is a TorchScript archive") == NULL)
        fail_msg("%s", e.msg);
    zip_release(&z);
    free(copy);
}

/* Only what is read must be stored. */
static void compressed_data_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"m/data.pkl", "m/data/0", "m/byteorder", "m/other"};
    for (size_t i = 0; i < 4; i++) {
        fy_err e = {0};
        zip_maker z = {.zip64 = true};
        for (size_t k = 0; k < 4; k++) {
            z.method = k == i ? 8 : 0;
            zip_add(&z, names[k], k == 2 ? "little" : "}.", k == 2 ? 6 : 2);
        }
        zip_end(&z);
        char *copy = exact_copy(z.bytes.ptr, z.bytes.len);
        fy_torch *t = fy_torch_parse(copy, z.bytes.len, "t.pt", &e);
        assert_int_equal(t != NULL, i == 3);
        if (i < 3 && (strstr(e.msg, names[i]) == NULL || strstr(e.msg, "is compressed") == NULL))
            fail_msg("%s", e.msg);
        fy_torch_close(t);
        zip_release(&z);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_that_are_negated_when_they_are_read_are_refused),
        cmocka_unit_test(objects_of_persistent_classes_are_named),
        cmocka_unit_test(a_defaultdict_is_a_dict),
        cmocka_unit_test(a_program_is_called_one_though_its_code_is_compressed),
        cmocka_unit_test(compressed_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
