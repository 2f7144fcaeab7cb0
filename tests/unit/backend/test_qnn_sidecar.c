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
#include "tests/unit/alloc_fail.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define OTHER "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MASK  "\"mask\": {\"type\": \"u16\", \"depth\": 131.07}, "
#define SECOND                                                                            \
    "{\"name\": \"batch_1\", \"batch\": 1, \"tensors\": [{\"name\": \"out\", \"id\": 1, " \
    "\"direction\": \"out\", \"type\": \"f32\", \"dims\": [1, 64], \"scale\": 0, \"offset\": 0}]}"

static const char good[] =
    "{\"version\": 1, \"model\": \"" OTHER "\", \"key\": \"" HASH
    "\", \"binary\": {\"bytes\": 4096, \"sha256\": \"" HASH
    "\"}, \"library\": {\"build_id\": \"v2.51.0\", \"core\": \"2.40.0\", \"sha256\": \"" HASH
    "\"}, \"soc\": {\"name\": \"SM8650\", \"id\": 57, \"arch\": 75, \"vtcm_mb\": 8}, "
    "\"recipe\": \"16a8w\", \"rope_nodes\": true, \"shared\": true, " MASK
    "\"graphs\": [{\"name\": \"batch_8\", \"batch\": 8, \"tensors\": [{\"name\": \"x\", \"id\": 1, "
    "\"direction\": \"in\", \"type\": \"f32\", \"dims\": [8, 64], \"scale\": 0, \"offset\": 0}, "
    "{\"name\": \"attn_bias\", \"id\": 2, \"direction\": \"in\", \"type\": \"u16\", "
    "\"dims\": [8, 32], \"scale\": 0.002, \"offset\": -65535}, "
    "{\"name\": \"layer_0_key_t_cache_0\", \"id\": 3, \"direction\": \"in\", \"type\": \"u8\", "
    "\"dims\": [16, 24], \"scale\": 0.0123, \"offset\": -128}, "
    "{\"name\": \"layer_0_key_0\", \"id\": 9, \"direction\": \"out\", \"type\": \"u8\", "
    "\"dims\": [8, 16], \"scale\": 0.0123, \"offset\": -128}]}, " SECOND "]}";

/* With the first `from` after the name of tensor `after` replaced. */
static void change(fy_str *out, const char *after, const char *from, const char *to)
{
    const char *tail = strstr(good, after);
    const char *at = tail != NULL ? strstr(tail, from) : NULL;
    if (at == NULL)
        fail_msg("no '%s' after '%s'", from, after);
    fy_str_add(out, good, (size_t)(at - good));
    fy_str_puts(out, to);
    fy_str_puts(out, at + strlen(from));
}

static void check_good(const fy_qnn_sidecar *s)
{
    assert_string_equal(s->model, OTHER);
    assert_string_equal(s->key, HASH);
    assert_int_equal(s->bytes, 4096);
    assert_string_equal(s->build_id, "v2.51.0");
    assert_string_equal(s->core, "2.40.0");
    assert_string_equal(s->soc, "SM8650");
    assert_int_equal(s->soc_id, 57);
    assert_int_equal(s->arch, 75);
    assert_int_equal(s->vtcm_mb, 8);
    assert_string_equal(s->recipe, "16a8w");
    assert_true(s->rope_nodes && s->shared);
    assert_int_equal(s->mask_type, FY_QNN_UFIXED_16);
    assert_true(s->mask_depth == 131.07);
    assert_int_equal(s->n_graphs, 2);
    assert_int_equal(s->graphs[0].n_batch, 8);
    assert_int_equal(s->graphs[0].n_tensors, 4);
    const fy_qnn_sidecar_tensor *t = &s->graphs[0].tensors[3];
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
    fy_qnn_sidecar_release(&s);
    unlink(path);
}

static void what_is_not_needed_may_be_absent(void **state)
{
    (void)state;
    fy_qnn_sidecar s;
    fy_err e = {0};
    fy_str text = {0};
    change(&text, "key", HASH, ""); /* of a binary that was made in another way */
    assert_int_equal(fy_qnn_sidecar_parse(text.ptr, text.len, &s, &e), 0);
    assert_string_equal(s.key, "");
    fy_qnn_sidecar_release(&s);
    fy_str_clear(&text);
    change(&text, "rope_nodes", MASK, ""); /* of a lm_head */
    const char *named = strstr(text.ptr, "attn_bias");
    memcpy((char *)(uintptr_t)named, "attn_bait", strlen("attn_bait"));
    if (fy_qnn_sidecar_parse(text.ptr, text.len, &s, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(s.mask_type, 0);
    fy_qnn_sidecar_release(&s);
    fy_str_release(&text);
}

static const struct {
    const char *after, *from, *to, *message;
} wrong[] = {
    {"", "\"version\": 1", "\"version\": 2", "version: 2, expected 1 to 1"},
    {"model", OTHER, "F" OTHER, "model: 65 bytes of text"},
    {"model", "\"f1", "\"F1", "model: 'F123456789abcdef0123456789abcdef"},
    {"model", OTHER, "", "model: '', expected 64 hex digits, in lower case"},
    {"", "\"model\"", "\"of\"", "lacks 'model'"},
    {"key", "f\"", "g\"", "key: '0123"},
    {"key", "f\"", "\"", "expected 64 hex digits"},
    {"binary", "cdef\"", "cdeg\"", "binary: sha256: '0123"},
    {"binary", "\"bytes\": 4096", "\"bytes\": 0", "bytes: 0, expected 1 to"},
    {"library", "cdef\"", "cdeF\"", "library: sha256: '0123"},
    {"library", "\"2.40.0\"", "\"\"", "library: core: 0 bytes of text"},
    {"soc", "\"arch\": 75, ", "", "soc: lacks 'arch'"},
    {"soc", "\"arch\": 75", "\"arch\": 1000", "arch: 1000, expected 1 to 999"},
    {"soc", "\"vtcm_mb\": 8", "\"vtcm_mb\": 0", "vtcm_mb: 0, expected 1 to 1024"},
    {"recipe", "true", "1", "rope_nodes"},
    {"recipe", "\"shared\": true, ", "", "lacks 'shared'"},
    {"mask", "u16", "f32", "mask: type f32 and depth 131.07, expected u16 and a float above 0"},
    {"mask", "u16", "s16", "mask: type s16"},
    {"mask", "u16", "u8", "mask: type u8"},
    {"mask", "u16", "f16", "mask: type f16 and depth 131.07"},
    {"mask", "131.07", "0", "mask: type u16 and depth 0"},
    {"mask", "131.07", "-1", "mask: type u16 and depth -1"},
    {"mask", "131.07", "1e39", "mask: type u16 and depth 1e+39"},
    {"mask", "131.07", "1e-50", "mask: type u16 and depth 1e-50"},
    {"mask", "131.07", "131",
     "graph 'batch_8': mask: depth 131, but the lowest code of attn_bias is 131.07 below 0"},
    {"mask", "\"u16\", \"depth\": 131.07", "\"f16\", \"depth\": 0",
     "graph 'batch_8': mask: type f16, but attn_bias has u16"},
    {"rope_nodes", MASK, "", "graph 'batch_8': lacks 'mask', which attn_bias needs"},
    {"graphs", "attn_bias", "attn_bait", "mask: no graph has one (attn_bias)"},
    {"graphs", "\"in\"", "\"up\"", "direction: direction 'up', expected in or out"},
    {"graphs", "\"f32\"", "\"f64\"", "type 'f64', expected f32, f16, u16, s16 or u8"},
    {"graphs", "\"f32\"", "\"s8\"", "type 's8', expected f32"},
    {"graphs", "[8, 64]", "[8, 64, 1, 1, 1]", "dims: dims: more than 4"},
    {"graphs", "[8, 64]", "[8, 0]", "dims: 0, expected 1 to"},
    {"graphs", "[8, 64]", "[]", "batch_8: tensors: x: its dims are not those of a tensor"},
    {"graphs", "[8, 64]", "[16000000, 16000000]", "its dims are not those of a tensor"},
    {"graphs", "[8, 64]", "[4, 64]", "batch_8: 'x' has 4 rows, expected 8, the batch"},
    {"graphs", "[8, 32]", "[1, 32]", "batch_8: 'attn_bias' has 1 rows"},
    {"layer_0_key_0", "[8, 16]", "[16, 8]", "batch_8: 'layer_0_key_0' has 16 rows"},
    {"graphs", "\"scale\": 0,", "\"scale\": 1,", "x: scale 1, offset 0 of floats"},
    {"graphs", "\"offset\": 0", "\"offset\": 3", "x: scale 0, offset 3 of floats, expected 0"},
    {"layer_0_key_0", "0.0123", "0", "layer_0_key_0: scale 0 of a fixed type, expected a float"},
    {"layer_0_key_0", "0.0123", "-0.1", "layer_0_key_0: scale -0.1 of a fixed type"},
    {"layer_0_key_0", "0.0123", "1e-50", "layer_0_key_0: scale 1e-50 of a fixed type"},
    {"layer_0_key_0", "0.0123", "3.5e38", "layer_0_key_0: scale 3.5e+38 of a fixed type"},
    {"layer_0_key_0", "-128", "-3000000000", "offset: -3000000000, expected -2147483648 to"},
    {"layer_0_key_0", "\"id\": 9", "\"id\": \"9\"", "id"},
    {"layer_0_key_0", "\"id\": 9", "\"id\": 2", "batch_8: two tensors have the id 2"},
    {"layer_0_key_t", "layer_0_key_t_cache_0", "layer_0_key_0",
     "batch_8: tensor 'layer_0_key_0' is there twice"},
    {"graphs", "\"batch\": 8, ", "", "batch_8: lacks 'batch'"},
    {"batch_1", "\"batch\": 1, ", "\"batch\": 8, ", "batch_1: a second graph of batch 8"},
    {"layer_0_key_0", "batch_1", "batch_8", "batch_8: a second graph of this name"},
    {"graphs", SECOND, "{\"name\": \"b\", \"batch\": 2, \"tensors\": []}", "tensors: 0 entries"},
};

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fy_str text = {0};
        fy_qnn_sidecar s;
        fy_err e = {0};
        change(&text, wrong[i].after, wrong[i].from, wrong[i].to);
        if (fy_qnn_sidecar_parse(text.ptr, text.len, &s, &e) == 0)
            fail_msg("%s is taken", wrong[i].to);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, wrong[i].message) == NULL)
            fail_msg("'%s', expected '%s'", e.msg, wrong[i].message);
        assert_null(s.graphs);
        fy_str_release(&text);
    }
}

static void no_file_and_no_json(void **state)
{
    (void)state;
    fy_qnn_sidecar s;
    fy_err e = {0};
    assert_int_equal(fy_qnn_sidecar_read("/nowhere/chunk_0.json", &s, &e), -1);
    assert_int_equal(e.code, FY_EIO);
    for (size_t n = 0; n < sizeof good - 1; n += 7) {
        assert_int_equal(fy_qnn_sidecar_parse(good, n, &s, NULL), -1);
        assert_null(s.graphs);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[] = "/tmp/ferry-sidecar-XXXXXX";
    fy_qnn_sidecar s;
    bool failed = true;
    close(mkstemp(path));
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_qnn_sidecar_parse(good, sizeof good - 1, &s, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        if (failed)
            assert_null(s.graphs);
    }
    failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_qnn_sidecar_write(&s, path, &e);
        failed = alloc_fail_end();
        assert_true(rc == 0 || failed); /* the directory need not be synchronized */
        assert_int_equal(e.code, rc != 0 ? FY_ENOMEM : FY_OK);
    }
    fy_qnn_sidecar_release(&s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_not_needed_may_be_absent),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(no_file_and_no_json),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("qnn_sidecar", tests, NULL, NULL);
}
