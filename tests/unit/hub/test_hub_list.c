#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "hub/hub_list.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA1   "abcdef0123456789abcdef0123456789abcdef01"
#define SHA256 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void refused(const char *text, const char *words)
{
    fy_err e = {0};
    fy_hub_list l = {0};
    if (fy_hub_list_read(text, strlen(text), &l, &e) == 0)
        fail_msg("%s: accepted", text);
    if (strstr(e.msg, words) == NULL || e.code != FY_EFORMAT)
        fail_msg("%s: '%s' (%d), wanted '%s'", text, e.msg, (int)e.code, words);
    assert_null(l.files);
}

static void test_reply(void **state)
{
    static const char text[] =
        "{\"id\": \"a/b\", \"sha\": \"" COMMIT
        "\", \"cardData\": {\"x\": [1, null, {}]}, \"siblings\": ["
        "{\"rfilename\": \"model.safetensors\", \"size\": 12, \"blobId\": \"" SHA1
        "\", \"lfs\": {\"sha256\": \"" SHA256 "\", \"size\": 12, \"pointerSize\": 134}},"
        "{\"rfilename\": \"config.json\", \"size\": 3, \"blobId\": \"" SHA1 "\", \"lfs\": null},"
        "{\"rfilename\": \"README.md\"}, {\"rfilename\": \"z\", \"size\": 3, \"blobId\": null}]}";
    fy_err e = {0};
    fy_hub_list l;
    (void)state;
    if (fy_hub_list_read(text, strlen(text), &l, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(l.commit, COMMIT);
    assert_int_equal(l.n, 4);
    assert_string_equal(l.files[0].name, "README.md"); /* sorted */
    assert_string_equal(l.files[0].hash, "");
    assert_string_equal(l.files[1].name, "config.json");
    assert_string_equal(l.files[1].hash, SHA1);
    assert_int_equal(l.files[1].size, 3);
    assert_string_equal(l.files[2].hash, SHA256);
    assert_int_equal(l.files[2].size, 12);
    assert_string_equal(l.files[3].hash, "");
    fy_hub_list_release(&l);
}

static void test_broken_replies(void **state)
{
    (void)state;
#define SIBLING(members) "{\"sha\": \"" COMMIT "\", \"siblings\": [{" members "}]}"
    static const char *const cases[][2] = {
        {"", "expected"},
        {"<html>", "expected"},
        {"[]", "expected"},
        {"{}", "no \"siblings\""},
        {"{\"siblings\": []}", "no \"sha\""},
        {"{\"sha\": \"main\", \"siblings\": []}", "not a commit"},
        {"{\"sha\": \"0123456789ABCDEF0123456789abcdef01234567\", \"siblings\": []}", "not a commit"},
        {"{\"sha\": 7, \"siblings\": []}", "expected"},
        {"{\"sha\": \"" COMMIT "\", \"siblings\": {}}", "expected"},
        {"{\"sha\": \"" COMMIT "\", \"siblings\": [], \"siblings\": []}", "siblings"},
        {"{\"sha\": \"" COMMIT "\", \"siblings\": []} x", "expected"},
        {SIBLING("\"size\": 3"), "without rfilename"},
        {SIBLING("\"rfilename\": \"../x\""), "below the repository"},
        {SIBLING("\"rfilename\": \"..\""), "below the repository"},
        {SIBLING("\"rfilename\": \".\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a/./b\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a/../../b\""), "below the repository"},
        {SIBLING("\"rfilename\": \"/etc/passwd\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a//b\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a/\""), "below the repository"},
        {SIBLING("\"rfilename\": \"\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a\\u0000b\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a\\nb\""), "below the repository"},
        {SIBLING("\"rfilename\": \"..\\\\x\""), "below the repository"},
        {SIBLING("\"rfilename\": \"a\", \"size\": -1"), "expected"},
        {SIBLING("\"rfilename\": \"a\", \"size\": 1e3"), "expected"},
        {SIBLING("\"rfilename\": \"a\", \"size\": 99999999999999999999"), "expected"},
        {SIBLING("\"rfilename\": \"a\", \"blobId\": \"../x\""), "40 hexadecimal digits"},
        {SIBLING("\"rfilename\": \"a\", \"blobId\": \"" SHA256 "\""), "40 hexadecimal digits"},
        {SIBLING("\"rfilename\": \"a\", \"lfs\": {\"sha256\": \"" SHA1 "\"}"),
         "64 hexadecimal digits"},
        {SIBLING("\"rfilename\": \"a\", \"size\": 1, \"lfs\": {\"size\": 2}"), "two sizes"},
        {SIBLING("\"rfilename\": \"a\"}, {\"rfilename\": \"a\""), "two files named 'a'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
}

/* Names separated by blanks -> those that are wanted, "!" and the words when it is refused. */
static void chooses_of(const char *names, const char *include, const char *exclude,
                       fy_hub_kind kind, const char *type, const char *want)
{
    fy_str s = {0}, got = {0};
    fy_err e = {0};
    fy_hub_list l;
    const char *in[1] = {include}, *out[1] = {exclude};
    fy_opt_list includes = {in, include != NULL}, excludes = {out, exclude != NULL};
    fy_str_puts(&s, "{\"sha\": \"" COMMIT "\", \"siblings\": [");
    for (const char *p = names; *p != '\0';) {
        size_t n = strcspn(p, " ");
        fy_str_printf(&s, "%s{\"rfilename\": \"%.*s\"}", p > names ? "," : "", (int)n, p);
        p += n + (p[n] == ' ');
    }
    fy_str_puts(&s, "]}");
    if (fy_hub_list_read(s.ptr, s.len, &l, &e) != 0)
        fail_msg("%s", e.msg);
    const fy_hub_choice c = {
        .id = "o/n", .include = &includes, .exclude = &excludes, .kind = kind, .type = type};
    if (fy_hub_list_choose(&l, &c, &e) != 0)
        fy_str_printf(&got, "!%s", e.msg);
    for (size_t i = 0; got.len == 0 || got.ptr[0] != '!'; i++) {
        if (i == l.n)
            break;
        if (l.files[i].wanted)
            fy_str_printf(&got, "%s%s", got.len > 0 ? " " : "", l.files[i].name);
    }
    if (want[0] == '!' ? strstr(fy_str_z(&got), want + 1) == NULL
                       : strcmp(fy_str_z(&got), want) != 0)
        fail_msg("%s: chose '%s', wanted '%s'", names, fy_str_z(&got), want);
    fy_hub_list_release(&l);
    fy_str_release(&s);
    fy_str_release(&got);
}

static void chooses(const char *names, const char *include, const char *exclude, const char *want)
{
    chooses_of(names, include, exclude, FY_HUB_ANY, "", want);
}

static void test_gguf(void **state)
{
    static const char usual[] = "README.md config.json m-Q4_K_M.gguf m-Q8_0.gguf mmproj-F16.gguf";
    static const char split[] = "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf "
                                "m-Q8_0.gguf";
    static const char both[] = "config.json model.safetensors m-Q4_K_M.gguf m-Q8_0.gguf";
    (void)state;
    chooses(usual, NULL, NULL, "m-Q4_K_M.gguf");
    chooses(usual, NULL, "*Q4_K_M*", "m-Q8_0.gguf");
    chooses(usual, "*mmproj*", NULL, "mmproj-F16.gguf");
    chooses_of(usual, NULL, NULL, FY_HUB_ANY, "q8_0", "m-Q8_0.gguf");
    chooses_of(usual, NULL, NULL, FY_HUB_ANY, "F16", "!no model of type 'F16'");
    chooses_of(split, NULL, NULL, FY_HUB_GGUF, "bf16",
               "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf");
    chooses_of("m-Q8_0-00001-of-00002.gguf", NULL, NULL, FY_HUB_ANY, "", "!no GGUF file in it is a whole model");
    chooses(both, NULL, NULL, "config.json model.safetensors");
    chooses_of(both, NULL, NULL, FY_HUB_GGUF, "", "m-Q4_K_M.gguf");
    chooses_of(both, NULL, NULL, FY_HUB_ANY, "Q8_0", "m-Q8_0.gguf");
    chooses_of(both, NULL, NULL, FY_HUB_CHECKPOINT, "", "config.json model.safetensors");
    chooses_of(usual, NULL, NULL, FY_HUB_CHECKPOINT, "", "!'ferry fetch o/n' brings one");
    chooses_of("model.safetensors", NULL, NULL, FY_HUB_GGUF, "",
               "!holds a checkpoint and no GGUF file; 'ferry convert o/n --fetch' makes one");
    chooses_of("mmproj.gguf", NULL, NULL, FY_HUB_ANY, "", "!none of its 1 files holds weights");
}

static void test_choice(void **state)
{
    (void)state;
    chooses("config.json model.safetensors pytorch_model.bin tf_model.h5 onnx/model.onnx", NULL,
            NULL, "config.json model.safetensors");
    chooses("model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
            "consolidated.safetensors "
            "model.safetensors.index.json model.fp16-00001-of-00001.safetensors params.json "
            "original/model-00001-of-00002.safetensors",
            NULL, NULL,
            "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
            "model.safetensors.index.json");
    chooses(
        "pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin training_args.bin README.md",
        NULL, NULL, "README.md pytorch_model-00001-of-00001.bin pytorch_model.bin.index.json");
    chooses("pytorch_model.bin config.json", NULL, NULL, "config.json pytorch_model.bin");
    chooses("consolidated.00.pth consolidated.01.pth params.json tokenizer.model checklist.chk",
            NULL, NULL, "consolidated.00.pth consolidated.01.pth params.json tokenizer.model");
    chooses("adapter_config.json adapter_model.safetensors README.md", NULL, NULL,
            "README.md adapter_config.json adapter_model.safetensors");
    chooses("tokenizer.json tokenizer_config.json vocab.json merges.txt qwen.tiktoken "
            "special_tokens_map.json "
            "added_tokens.json chat_template.jinja chat_template.json "
            "additional_chat_templates/a.jinja "
            "additional_chat_templates/a/b.jinja rwkv_vocab_v20230424.txt generation_config.json "
            "vocab.txt "
            "model.safetensors",
            NULL, NULL,
            "added_tokens.json additional_chat_templates/a.jinja chat_template.jinja "
            "chat_template.json "
            "generation_config.json merges.txt model.safetensors qwen.tiktoken "
            "rwkv_vocab_v20230424.txt "
            "special_tokens_map.json tokenizer.json tokenizer_config.json vocab.json");
    chooses("model.safetensors a/b.bin c.bin", "*.bin", NULL, "a/b.bin c.bin");
    chooses("model.safetensors README.md", NULL, "README*", "model.safetensors");
    chooses("config.json model.gguf", NULL, NULL, "model.gguf");
    chooses("config.json model.onnx", NULL, NULL, "!none of its 2 files holds weights");
    chooses("model.safetensors", "*.bin", NULL, "!none of its 1 files is wanted");
    chooses("", NULL, NULL, "!none of its 0 files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply),
        cmocka_unit_test(test_broken_replies),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_gguf),
    };
    return cmocka_run_group_tests_name("hub_list", tests, NULL, NULL);
}
