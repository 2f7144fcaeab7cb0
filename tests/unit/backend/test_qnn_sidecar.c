/* The description of a context binary: what is written is read, and what is wrong is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/qnn/qnn_abi.h"
#include "backend/qnn/qnn_sidecar.h"
#include "base/file.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char good[] =
    "{\"version\": 1, \"key\": \"" HASH "\", \"binary\": {\"bytes\": 4096, \"sha256\": \"" HASH
    "\"}, \"library\": {\"build_id\": \"v2.51.0\", \"core\": \"2.40.0\", \"sha256\": \"" HASH
    "\"}, \"soc\": {\"name\": \"SM8650\", \"id\": 57, \"arch\": 75, \"vtcm_mb\": 8}, "
    "\"recipe\": \"16a8w\", \"rope_nodes\": true, \"mask\": {\"type\": \"u16\", \"depth\": 80.5}, "
    "\"graphs\": [{\"name\": \"batch_8\", \"batch\": 8, \"tensors\": [{\"name\": \"x\", \"id\": 1, "
    "\"direction\": \"in\", \"type\": \"f32\", \"dims\": [8, 64], \"scale\": 0, \"offset\": 0}, "
    "{\"name\": \"layer_0_key_0\", \"id\": 9, \"direction\": \"out\", \"type\": \"u8\", "
    "\"dims\": [8, 16], \"scale\": 0.0123, \"offset\": -128}]}]}";

static void check_good(const fy_qnn_sidecar *s)
{
    assert_string_equal(s->key, HASH);
    assert_int_equal(s->bytes, 4096);
    assert_string_equal(s->build_id, "v2.51.0");
    assert_string_equal(s->core, "2.40.0");
    assert_string_equal(s->soc, "SM8650");
    assert_int_equal(s->soc_id, 57);
    assert_int_equal(s->arch, 75);
    assert_int_equal(s->vtcm_mb, 8);
    assert_string_equal(s->recipe, "16a8w");
    assert_true(s->rope_nodes);
    assert_int_equal(s->mask_type, FY_QNN_UFIXED_16);
    assert_true(s->mask_depth == 80.5);
    assert_int_equal(s->n_graphs, 1);
    assert_int_equal(s->graphs[0].n_batch, 8);
    assert_int_equal(s->graphs[0].n_tensors, 2);
    const fy_qnn_sidecar_tensor *t = &s->graphs[0].tensors[1];
    assert_string_equal(t->name, "layer_0_key_0");
    assert_int_equal(t->id, 9);
    assert_true(t->output && !s->graphs[0].tensors[0].output);
    assert_int_equal(t->type, FY_QNN_UFIXED_8);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[1], 16);
    assert_true(t->scale == 0.0123 && t->offset == -128);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    char path[] = "/tmp/ferry-sidecar-XXXXXX";
    fy_qnn_sidecar s, again;
    fy_err e = {0};
    close(mkstemp(path));
    if (fy_qnn_sidecar_parse(good, sizeof good - 1, &s, &e) != 0)
        fail_msg("%s", e.msg);
    check_good(&s);
    if (fy_qnn_sidecar_write(&s, path, &e) != 0 || fy_qnn_sidecar_read(path, &again, &e) != 0)
        fail_msg("%s", e.msg);
    check_good(&again);
    fy_qnn_sidecar_release(&again);
    s.mask_type = 0;
    if (fy_qnn_sidecar_write(&s, path, &e) != 0 || fy_qnn_sidecar_read(path, &again, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(again.mask_type, 0);
    fy_qnn_sidecar_release(&again);
    fy_qnn_sidecar_release(&s);
    unlink(path);
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } wrong[] = {
        {"\"version\": 1", "\"version\": 2", "version"},
        {"\"bytes\": 4096", "\"bytes\": -1", "bytes"},
        {"\"type\": \"f32\"", "\"type\": \"f64\"", "type 'f64', expected f32"},
        {"\"direction\": \"in\"", "\"direction\": \"up\"", "direction 'up'"},
        {"[8, 64]", "[8, 64, 1, 1, 1]", "dims: more than 4"},
        {"[8, 64]", "[0, 64]", "dims"},
        {"[8, 64]", "[]", "its dims are not those of a tensor"},
        {"[8, 64]", "[16000000, 16000000]", "its dims are not those of a tensor"},
        {"\"scale\": 0.0123", "\"scale\": -1", "layer_0_key_0: scale -1"},
        {"\"offset\": -128", "\"offset\": -3000000000", "offset"},
        {"\"batch\": 8, ", "", "batch"},
        {"\"arch\": 75, ", "", "arch"},
        {"\"id\": 9, ", "\"id\": \"9\", ", "id"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fy_str text = {0};
        fy_qnn_sidecar s;
        fy_err e = {0};
        const char *at = strstr(good, wrong[i].from);
        assert_non_null(at);
        fy_str_add(&text, good, (size_t)(at - good));
        fy_str_puts(&text, wrong[i].to);
        fy_str_puts(&text, at + strlen(wrong[i].from));
        if (fy_qnn_sidecar_parse(text.ptr, text.len, &s, &e) == 0)
            fail_msg("%s is taken", wrong[i].to);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, wrong[i].message) == NULL)
            fail_msg("'%s', expected '%s'", e.msg, wrong[i].message);
        assert_null(s.graphs);
        fy_str_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests_name("qnn_sidecar", tests, NULL, NULL);
}
