/* Compiled models: what a description says against the binary, config.json, and libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "tests/unit/workspace/ws_fixture.h"

#include "backend/qnn/qnn_abi.h"
#include "tests/unit/bundle/qnn_text.h"
#include "workspace/npu/compiled.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* --- a model ---------------------------------------------------------------------------------- */

static fy_qnn_sidecar_tensor tensor(const char *name, uint32_t type, bool output, uint32_t id,
                                    uint32_t rows)
{
    fy_qnn_sidecar_tensor t = {.name = (char *)(uintptr_t)name,
                               .id = id,
                               .type = type,
                               .rank = 2,
                               .dims = {rows, 16},
                               .output = output};
    if (type == FY_QNN_UFIXED_16)
        t.scale = 0.002, t.offset = -65535;
    if (type == FY_QNN_UFIXED_8)
        t.scale = 0.1, t.offset = -128;
    return t;
}

/* Two graphs, with what the tests change of them. */
typedef struct {
    fy_qnn_sidecar s;
    fy_qnn_sidecar_graph graph[2];
    fy_qnn_sidecar_tensor tensors[2][4];
} described;

static void describe(described *d, bool head)
{
    static const uint32_t batch[2] = {128, 1};
    static char *const names[2] = {(char *)(uintptr_t) "batch_128", (char *)(uintptr_t) "batch_1"};
    *d = (described){.s = {.model = QNN_CUT_MODEL,
                           .key = HASH,
                           .bytes = 6,
                           .sha256 = HASH,
                           .build_id = "v2.51.0.260929181845",
                           .core = "2.40.0",
                           .library_sha256 = HASH,
                           .soc = "SM8650",
                           .soc_id = 57,
                           .arch = 75,
                           .vtcm_mb = 8,
                           .recipe = "16a8w",
                           .graphs = d->graph,
                           .n_graphs = 2}};
    if (!head) {
        d->s.mask_type = FY_QNN_UFIXED_16;
        d->s.mask_depth = 131.07;
    }
    for (int g = 0; g < 2; g++) {
        fy_qnn_sidecar_tensor *t = d->tensors[g];
        t[0] = tensor("x", FY_QNN_FLOAT_32, false, 1, batch[g]);
        t[1] = tensor(head ? "logits" : "out", FY_QNN_FLOAT_32, true, 2, batch[g]);
        t[2] = tensor("attn_bias", FY_QNN_UFIXED_16, false, 3, batch[g]);
        t[3] = tensor("layer_0_key_0", FY_QNN_UFIXED_8, true, 4, batch[g]);
        d->graph[g] = (fy_qnn_sidecar_graph){
            .name = names[g], .n_batch = batch[g], .tensors = t, .n_tensors = head ? 2 : 4};
    }
}

static void put(const char *name, const fy_qnn_sidecar *s)
{
    char path[64];
    fy_err e = {0};
    snprintf(path, sizeof path, "%s.json", name);
    if (fy_qnn_sidecar_write(s, at(path), &e) != 0)
        fail_msg("%s", e.msg);
    snprintf(path, sizeof path, "%s.bin", name);
    put_text(at(path), "binary");
}

#define COMPILED                                                                                \
    ", \"ferry\": {\"version\": 1, \"model\": \"" QNN_CUT_MODEL                                 \
    "\", \"compiled\": {\"soc\": \"SM8650\", \"arch\": 75, \"vtcm_mb\": 8, "                    \
    "\"build_id\": \"v2.51.0.260929181845\", \"recipe\": \"16a8w\", \"kv\": \"u8\", \"mask\": " \
    "\"u16\"}}}"

static fy_qnn_config config(void)
{
    fy_qnn_config c;
    fy_err e = {0};
    fy_str text = {0};
    fy_str_add(&text, QNN_CONFIG, strlen(QNN_CONFIG) - 1);
    fy_str_puts(&text, COMPILED);
    if (fy_qnn_config_parse(text.ptr, text.len, &c, &e) != 0)
        fail_msg("%s", e.msg);
    fy_str_release(&text);
    return c;
}

static void put_sound(described *d)
{
    describe(d, true);
    put("lm_head", &d->s);
    describe(d, false);
    put("m_1", &d->s);
    put("m_0", &d->s);
}

static void says(const fy_qnn_config *c, const char *text)
{
    fy_err e = {0};
    const int rc = fy_compiled_check(tmp, c, &e);
    if (text == NULL) {
        if (rc != 0)
            fail_msg("%s", e.msg);
        return;
    }
    assert_int_equal(rc, -1);
    assert_says(&e, text);
}

/* --- binaries --------------------------------------------------------------------------------- */

static void a_compiled_model_is_whole_or_says_what_is_wrong(void **state)
{
    (void)state;
    described d;
    fy_qnn_config c = config();
    put_sound(&d);
    says(&c, NULL);

#define WRONG(change, text)  \
    do {                     \
        describe(&d, false); \
        change;              \
        put("m_1", &d.s);    \
        says(&c, text);      \
    } while (0)
    WRONG(d.s.model[0] = 'f', "m_1.bin: is of model f01122334455..., expected 001122334455...");
    WRONG(strcpy(d.s.soc, "SM8750"), "m_1.bin: is compiled for SM8750 (V75, 8 MB of VTCM)");
    WRONG(d.s.arch = 79, "m_1.bin: is compiled for SM8650 (V79, 8 MB of VTCM) with recipe 16a8w, "
                         "config.json says SM8650 (V75, 8 MB), 16a8w; 'ferry compile' makes it");
    WRONG(d.s.vtcm_mb = 2, "(V75, 2 MB of VTCM)");
    WRONG(strcpy(d.s.recipe, "16a4w"), "with recipe 16a4w");
    WRONG(d.s.bytes = 7, "m_1.bin: 6 bytes, but its description says 7; 'ferry compile'");
    WRONG(d.s.n_graphs = 1, "m_1.bin: graph 'batch_1': has no graph of this name and batch 1");
    WRONG((d.graph[1].n_batch = 2, d.tensors[1][0].dims[0] = 2, d.tensors[1][1].dims[0] = 2,
           d.tensors[1][2].dims[0] = 2, d.tensors[1][3].dims[0] = 2),
          "graph 'batch_1': has no graph of this name and batch 1");
    WRONG(d.tensors[1][0].name = (char *)(uintptr_t) "y", "'batch_1': has no input 'x'");
    WRONG(d.tensors[0][1].name = (char *)(uintptr_t) "y", "'batch_128': has no output 'out'");
    WRONG(d.tensors[0][0].output = true, "has no input 'x'");
    WRONG((d.tensors[1][3].type = FY_QNN_SFIXED_16),
          "graph 'batch_1': 'layer_0_key_0' is s16, config.json says u8; 'ferry compile'");
    WRONG((d.s.mask_type = FY_QNN_FLOAT_16, d.s.mask_depth = 0,
           d.tensors[0][2] = tensor("attn_bias", FY_QNN_FLOAT_16, false, 3, 128),
           d.tensors[1][2] = tensor("attn_bias", FY_QNN_FLOAT_16, false, 3, 1)),
          "'attn_bias' is f16, config.json says u16");
    WRONG(d.s.model[0] = 'g', "m_1.json: model: 'g0112");

    put_sound(&d);
    unlink(at("m_1.json"));
    says(&c, "m_1.json");
    put_sound(&d);
    put_text(at("lm_head.json"), "{\"version\": 2}");
    says(&c, "lm_head.json: version: 2, expected 1 to 1");
    c.own.compiled.arch = 0; /* of others: there is nothing to compare */
    says(&c, NULL);
    fy_qnn_config_release(&c);
}

static void hashes_are_compared(void **state)
{
    (void)state;
    described d;
    fy_err e = {0};
    describe(&d, false);
    assert_int_equal(fy_compiled_check_hash(&d.s, HASH, &e), 0);
    assert_int_equal(fy_compiled_check_hash(&d.s, QNN_CUT_MODEL, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_says(&e, "has the SHA-256 001122334455..., but its description says 0123456789ab...");
}

/* --- libraries -------------------------------------------------------------------------------- */

static void library_is(const char *text, size_t n, uint32_t major, uint32_t minor)
{
    fy_qnn_release r;
    fy_err e = {0};
    put_file(at("lib.so"), text, n);
    assert_int_equal(fy_qnn_release_of_file(at("lib.so"), &r, &e), 0);
    assert_int_equal(r.major, major);
    assert_int_equal(r.minor, minor);
}

static void a_release_is_read_from_a_library(void **state)
{
    (void)state;
#define LIBRARY(text, major, minor) library_is(text, sizeof(text) - 1, major, minor)
    LIBRARY("\x7f"
            "ELF\0v\0vx\0v1.2.3\0v2.51.0.260929181845\0",
            2, 51);
    LIBRARY("\0hexnn_ver_v2.47.0.260601114230\0v2.47.0.260601114230_100-auto\0", 2, 47);
    LIBRARY("\0v2.9.0.260929", 2, 9);
    LIBRARY("\0v2.9.0.26092", 0, 0);
    LIBRARY("\0v2.51.0.reference\0", 0, 0);
    LIBRARY("v2.51.0.260929181845", 0, 0); /* no text of its own */
    LIBRARY("\0v2.12345.0.260929181845\0", 0, 0);
    LIBRARY("\0v2.\0v", 0, 0);
    LIBRARY("v", 0, 0);
    fy_qnn_release r;
    fy_err e = {0};
    assert_int_equal(fy_qnn_release_of_file(at("none.so"), &r, &e), -1);
    assert_int_equal(e.code, FY_EIO);
}

static void checked_with(const fy_qnn_config *c, const char *library, const char *text)
{
    fy_err e = {0};
    put_file(at("lib.so"), library, 32);
    const int rc = fy_compiled_check_library(tmp, c, at("lib.so"), &e);
    assert_int_equal(rc, text == NULL ? 0 : -1);
    if (text != NULL) {
        assert_int_equal(e.code, FY_EVERIFY);
        assert_says(&e, text);
    }
}

static void libraries_older_than_the_compiler_are_refused(void **state)
{
    (void)state;
    described d;
    fy_qnn_config c = config();
    fy_qnn_release r;
    fy_err e = {0};
    put_sound(&d);
    strcpy(d.s.build_id, "v2.49.1.260101010101");
    put("m_0", &d.s);
    assert_int_equal(fy_compiled_release(tmp, &c, &r, &e), 0);
    assert_true(r.major == 2 && r.minor == 51); /* the newest of the three */
    checked_with(&c, "\0v2.51.0.260929181845\0\0\0\0\0\0\0\0\0\0\0", NULL);
    checked_with(&c, "\0v2.52.0.270929181845\0\0\0\0\0\0\0\0\0\0\0", NULL);
    checked_with(&c, "\0v3.0.0.270929181845\0\0\0\0\0\0\0\0\0\0\0\0", NULL);
    checked_with(&c, "\0v2.50.9.260929181845\0\0\0\0\0\0\0\0\0\0\0",
                 "is of SDK 2.50, but the model was compiled with 2.51, whose binaries older "
                 "libraries do not read; take the libraries of SDK 2.51 or newer, or compile the "
                 "model with 2.50");
    checked_with(&c, "no number in this one, at all 32", NULL);
    fy_qnn_config_release(&c);
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    described d;
    fy_qnn_config c = config();
    bool failed = true;
    put_sound(&d);
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_compiled_check(tmp, &c, &e);
        failed = alloc_fail_end();
        assert_true(rc == 0 || failed); /* opening a file does without one of its own */
        assert_int_equal(e.code, rc != 0 ? FY_ENOMEM : FY_OK);
    }
    fy_qnn_config_release(&c);
}

#define IN_TMP(test) cmocka_unit_test_setup_teardown(test, tmp_make, tmp_remove)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TMP(a_compiled_model_is_whole_or_says_what_is_wrong),
        cmocka_unit_test(hashes_are_compared),
        IN_TMP(a_release_is_read_from_a_library),
        IN_TMP(libraries_older_than_the_compiler_are_refused),
        IN_TMP(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("compiled", tests, NULL, NULL);
}
