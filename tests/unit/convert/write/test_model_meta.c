#include "convert/write/model_meta.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "convert/source/model_card.h"
#include "convert/write/model_id.h"
#include "format/gguf.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/convert/model_meta_cases.h"

#define N_OF(a) (sizeof(a) / sizeof *(a))

static void release(fy_str parts[FY_ID_PARTS])
{
    for (int i = 0; i < FY_ID_PARTS; i++)
        fy_str_release(&parts[i]);
}

static void names_are_taken_apart_as_gguf_py_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(id_cases); i++) {
        fy_str got[FY_ID_PARTS];
        fy_str title = {0};
        fy_model_id_parse(fy_span_of(id_cases[i].id), id_cases[i].n_params, got);
        fy_model_id_title((fy_span){fy_str_z(&got[FY_ID_NAME]), got[FY_ID_NAME].len}, &title);
        assert_string_equal(fy_str_z(&got[FY_ID_NAME]), id_cases[i].name);
        assert_string_equal(fy_str_z(&got[FY_ID_ORG]), id_cases[i].org);
        assert_string_equal(fy_str_z(&got[FY_ID_BASENAME]), id_cases[i].basename);
        assert_string_equal(fy_str_z(&got[FY_ID_FINETUNE]), id_cases[i].finetune);
        assert_string_equal(fy_str_z(&got[FY_ID_VERSION]), id_cases[i].version);
        assert_string_equal(fy_str_z(&got[FY_ID_SIZE_LABEL]), id_cases[i].size_label);
        assert_string_equal(fy_str_z(&title), id_cases[i].title);
        fy_str_release(&title);
        release(got);
    }
}

static void names_that_follow_no_rule_stay_names(void **state)
{
    (void)state;
    char id[4096] = "a-7B";
    for (size_t at = 4; at + 3 < sizeof id; at += 2)
        strcpy(id + at, "-b");
    fy_str got[FY_ID_PARTS];
    fy_model_id_parse(fy_span_of(id), 0, got);
    assert_string_equal(fy_str_z(&got[FY_ID_NAME]), id);
    assert_int_equal(got[FY_ID_BASENAME].len + got[FY_ID_FINETUNE].len + got[FY_ID_SIZE_LABEL].len, 0);
    release(got);
    memset(id + 2, 'x', sizeof id - 3);
    id[sizeof id - 1] = '\0';
    fy_model_id_parse(fy_span_of(id), 0, got);
    assert_string_equal(fy_str_z(&got[FY_ID_NAME]), id);
    assert_int_equal(got[FY_ID_BASENAME].len, 0);
    release(got);
}

static void sizes_have_two_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *label;
    } cases[] = {{0, "0.00K"},         {260032, "260K"},        {1000000, "1000K"},
                 {2427136, "2.4M"},    {9999999, "10M"},      {135000000, "135M"},
                 {494032768, "494M"},  {1235814400, "1.2B"},    {7241732096, "7.2B"},
                 {70553706496, "71B"}, {1000000000001, "1.0T"}, {UINT64_MAX, "18446744T"}};
    for (size_t i = 0; i < N_OF(cases); i++) {
        char got[FY_SIZE_LABEL_BYTES];
        fy_size_label(0, cases[i].n, got);
        assert_string_equal(got, cases[i].label);
    }
    char got[FY_SIZE_LABEL_BYTES];
    fy_size_label(8, 7241732096, got);
    assert_string_equal(got, "8x7.2B");
    fy_size_label(0, 7241732096, got);
    assert_string_equal(got, "7.2B");
}

/* --- whole checkpoints ---------------------------------------------------------------------- */

static int load(const char *dir, const char *card, const char *config, const char *name,
                uint64_t n_params, json_t **m, fy_err *e)
{
    json_t *c = NULL, *root = NULL;
    int rc = fy_model_card_parse(card, strlen(card), &c, e);
    if (rc == 0 && config != NULL && (root = fy_json_tree(config, strlen(config), e)) == NULL)
        rc = -1;
    fy_model_source s = {.card = c, .config = root, .id = dir, .name = name, .n_params = n_params};
    if (rc == 0)
        rc = (*m = fy_model_meta_new(&s, e)) != NULL ? 0 : -1;
    json_decref(root);
    json_decref(c);
    return rc;
}

static void put_value(const fy_gguf_kv *kv, fy_str *out)
{
    const uint8_t *p = kv->data;
    if (kv->type == FY_KV_U32) {
        uint32_t v;
        memcpy(&v, p, sizeof v);
        fy_str_printf(out, "%u", v);
        return;
    }
    for (uint64_t i = 0; i < kv->count; i++) {
        uint64_t n;
        memcpy(&n, p, sizeof n);
        fy_str_puts(out, i > 0 ? "|" : "");
        fy_str_add(out, p + 8, (size_t)n);
        p += 8 + n;
    }
}

/* "key=value" lines of a file with these keys alone. */
static void written(const json_t *m, fy_str *out)
{
    fy_err e = {0};
    char path[] = "/tmp/ferry-meta-XXXXXX";
    close(mkstemp(path));
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    if (fy_model_meta_write(m, w, &e) || fy_gguf_write(w, path, NULL, NULL, NULL, NULL, &e))
        fail_msg("%s", e.msg);
    fy_gguf_writer_free(w);
    fy_gguf *g = fy_gguf_open(path, &e);
    unlink(path);
    assert_non_null(g);
    fy_str_clear(out);
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, i);
        fy_str_add(out, kv->key.ptr, kv->key.len);
        fy_str_putc(out, '=');
        put_value(kv, out);
        fy_str_putc(out, '\n');
    }
    fy_gguf_close(g);
}

static void checkpoints_get_the_keys_and_names_of_gguf_py(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(checkpoint_cases); i++) {
        fy_err e = {0};
        json_t *m;
        fy_str got = {0};
        const char *card = checkpoint_cases[i].card;
        if (load(checkpoint_cases[i].dir, card != NULL ? card : "", checkpoint_cases[i].config,
                 checkpoint_cases[i].model_name, checkpoint_cases[i].n_params, &m, &e) != 0)
            fail_msg("%s: %s", checkpoint_cases[i].dir, e.msg);
        written(m, &got);
        assert_string_equal(fy_str_z(&got), checkpoint_cases[i].keys);
        fy_model_meta_file_name(m, "q4_0", NULL, &got);
        assert_string_equal(fy_str_z(&got), checkpoint_cases[i].file);
        fy_model_meta_file_name(m, NULL, "vocab", &got);
        assert_string_equal(fy_str_z(&got), checkpoint_cases[i].vocab_file);
        fy_str_release(&got);
        json_decref(m);
    }
}

/* Where gguf-py fails, or writes what makes no sense. */
static void what_says_nothing_gives_no_key(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *card, *config, *keys;
    } cases[] = {
        {"d", "---\nname:\nlicense: ~\nbase_model: null\ndatasets: []\ntags: [null, '']\n---\n",
         NULL, "general.name=D\n"},
        {"d", "---\nversion: 1.10\nlanguage: no\nname: [a]\n---\n", NULL,
         "general.name=a\ngeneral.version=1.10\ngeneral.languages=no\n"},
        {"d", "---\n- a\n- b\n---\n", NULL, "general.name=D\n"},
        {"d", "---\nname: {a: b}\nbase_model: [[x], {z: 1}]\n---\n", NULL, "general.name=D\n"},
        {"d", "---\nname: \"a\\0b\"\n---\n", NULL, "general.name=D\n"},
        {"d", "---\nname: x\nname: y\n---\n", NULL, "general.name=y\n"},
        {"d", "---\nname: x\n", NULL, "general.name=D\n"},
        {"d", "\xef\xbb\xbf---\nname: x\n---", NULL, "general.name=x\n"},
        {"d", "", "{\"_name_or_path\": \"\"}", "general.name=D\n"},
        {"d", "", "{\"_name_or_path\": \"/x\"}", "general.name=D\n"},
        {"d", "", "{\"_name_or_path\": 7}", "general.name=D\n"},
        {"\xff\xfe", "", NULL, "general.name=model\n"},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        fy_err e = {0};
        json_t *m;
        fy_str got = {0};
        if (load(cases[i].dir, cases[i].card, cases[i].config, NULL, 0, &m, &e) != 0)
            fail_msg("%zu: %s", i, e.msg);
        written(m, &got);
        assert_string_equal(fy_str_z(&got), cases[i].keys);
        fy_str_release(&got);
        json_decref(m);
    }
}

static void cards_that_are_no_yaml_are_refused(void **state)
{
    (void)state;
    static const char *const cards[] = {
        "---\na: [1, 2\n---\n", "---\na: b: c\n---\n", "---\n%YAML 9.9\n--- x\n---\n",
        "---\nname: \"x\n---\n", "---\n\x01: 2\n---\n", "---\nname: \xff\xfe\n---\n",
    };
    for (size_t i = 0; i < N_OF(cards); i++) {
        fy_err e = {0};
        json_t *card;
        assert_int_equal(fy_model_card_parse(cards[i], strlen(cards[i]), &card, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_null(card);
    }
    char deep[256] = "---\nname: ";
    memset(deep + strlen(deep), '[', 100);
    strcat(deep, "\n---\n");
    fy_err e = {0};
    json_t *card;
    assert_int_equal(fy_model_card_parse(deep, strlen(deep), &card, &e), -1);
    assert_non_null(strstr(e.msg, "nested"));
}

static void what_is_kept_of_a_card_is_bounded(void **state)
{
    (void)state;
    fy_str text = {0};
    fy_err e = {0};
    json_t *card;
    fy_str_puts(&text, "---\ntags:\n");
    for (int i = 0; i < 5000; i++)
        fy_str_printf(&text, "- t%d\n", i);
    fy_str_puts(&text, "name: ");
    for (int i = 0; i < 5000; i++)
        fy_str_putc(&text, 'x');
    fy_str_puts(&text, "\nlicense: mit\n---\n");
    assert_int_equal(fy_model_card_parse(text.ptr, text.len, &card, &e), 0);
    assert_int_equal(json_array_size(json_object_get(card, "tags")), 256);
    assert_null(json_object_get(card, "name"));
    assert_string_equal(json_string_value(json_object_get(card, "license")), "mit");
    json_decref(card);
    fy_str_release(&text);
}

static void running_out_of_memory_is_told(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        json_t *m = NULL;
        alloc_fail_after(n);
        int rc = load(checkpoint_cases[2].dir, checkpoint_cases[2].card, "{\"a\": 1}", NULL, 0, &m,
                      &e);
        done = !alloc_fail_end();
        if (rc == 0 && !done)
            fail_msg("allocation %ld fails and nothing reports it", n);
        if (rc != 0)
            assert_int_equal(e.code, FY_ENOMEM);
        json_decref(m);
    }
}

/* --- names of files ------------------------------------------------------------------------- */

static void files_are_named_by_the_convention(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *card, *encoding, *kind, *want;
    } cases[] = {
        {"Llama-3.2-1B-Instruct", "", "q4_0", NULL, "Llama-3.2-1B-Instruct-Q4_0"},
        {"Mistral-7B-Instruct-v0.2", "", "bf16", NULL, "Mistral-7B-Instruct-v0.2-BF16"},
        {"Mistral-7B-Instruct-v0.2", "", NULL, "vocab", "Mistral-Instruct-v0.2-vocab"},
        {"tales", "", "f16", "embedding", "Tales-F16-embedding"},
        {"d", "---\nname: ../../etc/x\n---\n", "f16", NULL, "etc-x-F16"},
        {"d", "---\nname: \"a\\tb\\x01\\\\c d \"\n---\n", "f16", NULL, "a-b--c-d-F16"},
        {"d", "---\nname: x"
              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9-"
              "\n---\n",
         NULL, "vocab",
         "x"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9-vocab"},
    };
    for (size_t i = 0; i < N_OF(cases); i++) {
        fy_err e = {0};
        json_t *m;
        fy_str got = {0};
        if (load(cases[i].dir, cases[i].card, NULL, NULL, 0, &m, &e) != 0)
            fail_msg("%s", e.msg);
        fy_model_meta_file_name(m, cases[i].encoding, cases[i].kind, &got);
        assert_string_equal(fy_str_z(&got), cases[i].want);
        fy_str_release(&got);
        json_decref(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_apart_as_gguf_py_does),
        cmocka_unit_test(names_that_follow_no_rule_stay_names),
        cmocka_unit_test(sizes_have_two_digits),
        cmocka_unit_test(checkpoints_get_the_keys_and_names_of_gguf_py),
        cmocka_unit_test(what_says_nothing_gives_no_key),
        cmocka_unit_test(cards_that_are_no_yaml_are_refused),
        cmocka_unit_test(what_is_kept_of_a_card_is_bounded),
        cmocka_unit_test(running_out_of_memory_is_told),
        cmocka_unit_test(files_are_named_by_the_convention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
