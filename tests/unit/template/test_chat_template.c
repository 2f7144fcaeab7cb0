/* The chat format layer: which template is taken, what it sees, the ids of a prompt, and the text
 * of every built-in format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "model/template/chat_template.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/vocab/small_vocab.h"

#define USER(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define SYSTEM(text)    "{\"role\":\"system\",\"content\":\"" text "\"}"

/* A file with the shared vocabulary (BOS "<s>" 14, EOS "<e>" 15) and these keys besides. */
typedef struct {
    fy_str bytes;
    fy_gguf *g;
} model;

static model model_of(small_vocab *b)
{
    model m = {{0}, NULL};
    fy_err e = {0};
    small_file(b, &m.bytes);
    m.g = fy_gguf_parse(m.bytes.ptr, m.bytes.len, "m.gguf", false, &e);
    if (m.g == NULL)
        fail_msg("%s", e.msg);
    fy_str_release(&b->keys);
    return m;
}

static void model_release(model *m)
{
    fy_gguf_close(m->g);
    fy_str_release(&m->bytes);
}

static fy_chat_template *new_of(const char *text)
{
    fy_err e = {0};
    fy_chat_template *t = fy_chat_template_new(fy_span_of(text), "T", &e);
    if (t == NULL)
        fail_msg("%s", e.msg);
    return t;
}

static void renders(const fy_chat_template *t, const fy_chat_input *in, const char *want)
{
    fy_str out = {0};
    fy_err e = {0};
    if (fy_chat_template_render(t, in, &out, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(fy_str_z(&out), want);
    fy_str_release(&out);
}

static void fails(const fy_chat_template *t, const fy_chat_input *in, fy_code code,
                  const char *want)
{
    fy_str out = {0};
    fy_err e = {0};
    fy_str_puts(&out, "before");
    assert_int_equal(fy_chat_template_render(t, in, &out, &e), -1);
    assert_int_equal(e.code, code);
    if (strstr(e.msg, want) == NULL)
        fail_msg("'%s' has no '%s'", e.msg, want);
    assert_string_equal(fy_str_z(&out), "before");
    fy_str_release(&out);
}

/* --- which template --- */

static void the_models_template_and_tokens_are_taken(void **state)
{
    (void)state;
    small_vocab b = {0};
    fy_err e = {0};
    small_bpe(&b, "gpt-2");
    small_id(&b, "tokenizer.ggml.padding_token_id", 16);
    small_str(&b, "tokenizer.chat_template",
              "{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token is defined }}");
    model m = model_of(&b);
    fy_chat_template *t = fy_chat_template_open(m.g, NULL, &e);
    model_release(&m);
    assert_non_null(t);
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]")}, "<s><e><u>False");
    assert_int_equal(fy_chat_template_set_token(t, "bos_token", (fy_span){0}, &e), 0);
    assert_int_equal(fy_chat_template_set_token(t, "eos_token", FY_SPAN("</s>"), &e), 0);
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]")}, "</s><u>False");
    assert_null(fy_chat_template_token(t, "bos_token").ptr);
    assert_true(fy_span_is(fy_chat_template_token(t, "eos_token"), "</s>"));
    assert_int_equal(fy_chat_template_set_token(t, "nose_token", FY_SPAN("x"), &e), -1);
    fy_chat_template_free(t);
}

static void tools_choose_the_template_for_tools(void **state)
{
    (void)state;
    const fy_span names[] = {FY_SPAN("tool_use"), FY_SPAN("rag")};
    small_vocab b = {0};
    fy_err e = {0};
    small_bpe(&b, "gpt-2");
    small_str(&b, "tokenizer.chat_template", "plain {{ tools is none }}");
    small_str(&b, "tokenizer.chat_template.tool_use", "tools {{ tools | length }}");
    small_str(&b, "tokenizer.chat_template.rag", "rag");
    small_strings(&b, "tokenizer.chat_templates", names, 2);
    model m = model_of(&b);
    fy_chat_template *t = fy_chat_template_open(m.g, NULL, &e);
    assert_non_null(t);
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]")}, "plain True");
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .tools = FY_SPAN(" null\n")},
            "plain True");
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .tools = FY_SPAN("[]")}, "tools 0");
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .tools = FY_SPAN("[{}, {}]")},
            "tools 2");
    assert_true(fy_span_is(fy_chat_template_text(t, true), "tools {{ tools | length }}"));
    fy_chat_template_free(t);
    t = fy_chat_template_open(m.g, "rag", &e);
    assert_non_null(t);
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .tools = FY_SPAN("[]")}, "rag");
    fy_chat_template_free(t);
    t = fy_chat_template_open(m.g, "chatml", &e);
    assert_non_null(t);
    assert_string_equal(fy_chat_template_name(t), "chatml");
    fy_chat_template_free(t);
    model_release(&m);
}

static void a_model_without_a_default_says_what_it_has(void **state)
{
    (void)state;
    const fy_span names[] = {FY_SPAN("rag"), FY_SPAN("other")};
    small_vocab b = {0};
    fy_err e = {0};
    small_bpe(&b, "gpt-2");
    model m = model_of(&b);
    assert_null(fy_chat_template_open(m.g, NULL, &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(
        strstr(e.msg, "m.gguf: has no chat template; name its format with --chat-template"));
    model_release(&m);
    b = (small_vocab){0};
    small_bpe(&b, "gpt-2");
    small_str(&b, "tokenizer.chat_template.rag", "x");
    small_strings(&b, "tokenizer.chat_templates", names, 2);
    m = model_of(&b);
    e = (fy_err){0};
    assert_null(fy_chat_template_open(m.g, NULL, &e));
    assert_non_null(strstr(e.msg, "only: rag, other;"));
    model_release(&m);
    b = (small_vocab){0};
    small_bpe(&b, "gpt-2");
    small_str(&b, "tokenizer.chat_template.tool_use", "tools");
    m = model_of(&b);
    e = (fy_err){0};
    fy_chat_template *t = fy_chat_template_open(m.g, NULL, &e);
    assert_non_null(t);
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[]")}, FY_EUNSUPPORTED, "for tools only");
    fy_chat_template_free(t);
    model_release(&m);
}

static void a_bad_template_is_refused_with_its_name(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_chat_template_new(FY_SPAN("a\n{% if %}"), "T", &e));
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(strstr(e.msg, "T: line 2, column "));
    e = (fy_err){0};
    assert_null(fy_chat_template_open(NULL, "lama3", &e));
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "(nearest: llama3)"));
    small_vocab b = {0};
    small_bpe(&b, "gpt-2");
    small_str(&b, "tokenizer.chat_template", "{% include 'x' %}");
    model m = model_of(&b);
    e = (fy_err){0};
    assert_null(fy_chat_template_open(m.g, NULL, &e));
    assert_non_null(strstr(e.msg, "m.gguf: tokenizer.chat_template: line 1, column "));
    model_release(&m);
}

static void a_template_comes_from_a_file(void **state)
{
    (void)state;
    char dir[] = "/tmp/ferry-chat-XXXXXX", path[64];
    fy_err e = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/chatml", dir);
    assert_int_equal(fy_file_write(path, "<{{ a }}>\n", 10, &e), 0);
    fy_chat_template *t = fy_chat_template_open(NULL, path, &e);
    assert_non_null(t);
    renders(t, &(fy_chat_input){.extra = FY_SPAN("{\"a\": 1}")}, "<1>");
    fy_chat_template_free(t);
    assert_int_equal(fy_file_write(path, "\xFF", 1, &e), 0);
    assert_null(fy_chat_template_open_file(NULL, path, &e));
    assert_non_null(strstr(e.msg, "not UTF-8 text"));
    unlink(path);
    rmdir(dir);
}

/* --- what it sees --- */

static void variables_keep_their_types(void **state)
{
    (void)state;
    static const char *const args[] = {"a=1",     "b=1.0",  "c=true",
                                       "d=False", "e=None", "f=text, really",
                                       "g=\"1\"", "h=",     "i=[1, 2.0]"};
    fy_chat_template *t = new_of("{{ [a, b, c, d, e, f, g, h, i] }}");
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .args = args, .n_args = 9},
            "[1, 1.0, True, False, None, 'text, really', '1', '', [1, 2.0]]");
    fy_chat_template_free(t);
    t = new_of("{{ a }} {{ b }} {{ c }}");
    renders(t,
            &(fy_chat_input){.args = args,
                             .n_args = 2,
                             .extra = FY_SPAN("{\"c\": 12345678901234567890123, \"a\": 0.10}")},
            "0.1 1.0 12345678901234567890123");
    fy_chat_template_free(t);
}

static void the_standard_variables_are_those_of_transformers(void **state)
{
    (void)state;
    fy_chat_template *t =
        new_of("{{ messages | length }} {{ tools }} {{ documents }} {{ add_generation_prompt }} "
               "{{ bos_token is defined }} {{ eos_token is defined }}");
    renders(t, &(fy_chat_input){.messages = FY_SPAN("[" USER("x") "]")},
            "1 None None False False False");
    renders(t,
            &(fy_chat_input){.messages = FY_SPAN("[]"),
                             .add_generation_prompt = true,
                             .extra = FY_SPAN("{\"documents\": [1], \"eos_token\": \"e\"}")},
            "0 None [1] True False True");
    fy_chat_template_free(t);
    t = new_of("{{ messages is defined }} {{ tools is defined }} {{ documents is defined }}");
    renders(t, &(fy_chat_input){.extra = FY_SPAN("{}")}, "False False False");
    fy_chat_template_free(t);
}

static void bad_input_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[] = {"1a=2"};
    fy_chat_template *t =
        new_of("{% if x %}{{ raise_exception('no: ' + x) }}{% endif %}\n{{ y.z }}");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[{]")}, FY_EFORMAT, "messages: ");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .tools = FY_SPAN("[")}, FY_EFORMAT,
          "tools: ");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .extra = FY_SPAN("[1]")}, FY_EFORMAT,
          "object");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[]"), .args = bad, .n_args = 1}, FY_EARG,
          "'1a=2': expected KEY=VALUE");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[]")}, FY_EFORMAT, "T: line 2: ");
    fy_err e = {0};
    fy_str out = {0};
    fy_chat_input in = {.messages = FY_SPAN("[]"), .extra = FY_SPAN("{\"x\": \"50 %s\"}")};
    assert_int_equal(fy_chat_template_render(t, &in, &out, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, "no: 50 %s");
    fy_str_release(&out);
    fy_chat_template_free(t);
}

static void a_message_is_valid_json_whatever_its_bytes(void **state)
{
    (void)state;
    fy_str json = {0};
    fy_chat_put_message(&json, FY_SPAN("user"), FY_SPAN("a\"\\\n\x01\xC3\xA9\xFF\x00z"));
    assert_string_equal(fy_str_z(&json), "{\"role\":\"user\",\"content\":\"a\\\"\\\\\\n\\u0001"
                                         "\xC3\xA9\xEF\xBF\xBD\\u0000z\"}");
    fy_str_release(&json);
}

/* --- ids --- */

static void ids_are(const fy_vocab *v, const char *text, const int32_t *want, size_t n)
{
    fy_ids ids = {0};
    fy_err e = {0};
    assert_int_equal(fy_ids_push(&ids, 7, &e), 0);
    if (fy_chat_encode_text(v, fy_span_of(text), &ids, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(ids.n, n + 1);
    assert_int_equal(ids.id[0], 7);
    assert_memory_equal(ids.id + 1, want, n * sizeof *want);
    fy_ids_release(&ids);
}

static void a_prompt_has_one_bos_and_no_eos(void **state)
{
    (void)state;
    for (int adds = 0; adds < 2; adds++) {
        small_vocab b = {0};
        fy_err e = {0};
        small_bpe(&b, "gpt-2");
        small_bool(&b, "tokenizer.ggml.add_bos_token", adds);
        small_bool(&b, "tokenizer.ggml.add_eos_token", true);
        fy_vocab *v = small_vocab_load(&b, &e);
        assert_non_null(v);
        assert_int_equal(fy_vocab_bos(v), 14);
        ids_are(v, "<s>ab<e>c", (const int32_t[]){14, 7, 15, 2}, 4);
        ids_are(v, "<s><s>", (const int32_t[]){14, 14}, 2);
        if (adds) {
            ids_are(v, "ab", (const int32_t[]){14, 7}, 2);
            ids_are(v, "", (const int32_t[]){14}, 1);
        } else {
            ids_are(v, "ab", (const int32_t[]){7}, 1);
            ids_are(v, "", NULL, 0);
        }
        fy_vocab_free(v);
    }
}

static void a_rendered_prompt_becomes_ids(void **state)
{
    (void)state;
    small_vocab b = {0};
    fy_err e = {0};
    small_bpe(&b, "gpt-2");
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    fy_chat_template *t = new_of("{% for m in messages %}{{ m.content }}{% endfor %}<e>");
    fy_chat_input in = {.messages = FY_SPAN("[" USER("abc") "," USER("d") "]")};
    fy_ids ids = {0};
    fy_str text = {0};
    fy_str_puts(&text, "before ");
    assert_int_equal(fy_chat_template_render(t, &in, &text, &e), 0);
    assert_string_equal(fy_str_z(&text), "before abcd<e>");
    fy_span prompt = {fy_str_z(&text) + 7, text.len - 7};
    assert_int_equal(fy_chat_encode_text(v, prompt, &ids, &e), 0);
    assert_int_equal(ids.n, 3);
    assert_int_equal(fy_chat_encode_text(v, prompt, &ids, &e), 0);
    assert_int_equal(ids.n, 6);
    assert_int_equal(ids.id[5], 15);
    fy_ids_release(&ids);
    fy_str_release(&text);
    fy_chat_template_free(t);
    fy_vocab_free(v);
}

/* --- built-in formats --- */

#define LONG_VICUNA                                                                \
    "A chat between a curious user and an artificial intelligence assistant. The " \
    "assistant gives helpful, detailed, and polite answers to the user's questions."
#define LONG_ALPACA                                                         \
    "Below is an instruction that describes a task. Write a response that " \
    "appropriately completes the request."
#define BAR "\xEF\xBD\x9C"

/* With a system message "S", two questions and an answer between them; and a lone question. */
static const struct {
    const char *name, *talk, *lone;
} formats[] = {
    {"alpaca",
     "<s>S\n\n### Instruction:\nU1\n\n### Response:\nA1</s>\n\n### Instruction:\nU2\n\n### "
     "Response:\n",
     "<s>" LONG_ALPACA "\n\n### Instruction:\nU\n\n### Response:\n"},
    {"chatglm3",
     "[gMASK]sop<|system|>\n S<|user|>\n U1<|assistant|>\n A1<|user|>\n U2<|assistant|>",
     "[gMASK]sop<|user|>\n U<|assistant|>"},
    {"chatml",
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1"
     "<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"},
    {"command-r",
     "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
     "<|USER_TOKEN|>U1<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>A1"
     "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>U2<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     "<s><|START_OF_TURN_TOKEN|><|USER_TOKEN|>U<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
     "<|CHATBOT_TOKEN|>"},
    {"deepseek",
     "<s>S\n\nUser: U1\n\nAssistant: A1</s>User: U2\n\nAssistant:", "<s>User: U\n\nAssistant:"},
    {"deepseek3",
     "<s>S<" BAR "User" BAR ">U1<" BAR "Assistant" BAR ">A1</s><" BAR "User" BAR ">U2<" BAR
     "Assistant" BAR ">",
     "<s><" BAR "User" BAR ">U<" BAR "Assistant" BAR ">"},
    {"gemma",
     "<s><start_of_turn>user\nS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
     "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n",
     "<s><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\n"},
    {"glm4", "[gMASK]<sop><|system|>\nS<|user|>\nU1<|assistant|>\nA1<|user|>\nU2<|assistant|>",
     "[gMASK]<sop><|user|>\nU<|assistant|>"},
    {"granite",
     "<|start_of_role|>system<|end_of_role|>S<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>"
     "U1<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>A1<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>U2<|end_of_text|>\n<|start_of_role|>assistant"
     "<|end_of_role|>",
     "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant"
     "<|end_of_role|>"},
    {"internlm2",
     "<s><|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1"
     "<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n",
     "<s><|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"},
    {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 </s><s>[INST] U2 [/INST]",
     "<s>[INST] U [/INST]"},
    {"llama3",
     "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user"
     "<|end_header_id|>\n\nU1<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|"
     ">"
     "<|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\n",
     "<s><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\n"},
    {"mistral", "<s> [INST] S\n\nU1 [/INST] A1</s> [INST] U2 [/INST]", "<s> [INST] U [/INST]"},
    {"mistral-nemo", "<s>[INST]U1[/INST]A1</s>[INST]S\n\nU2[/INST]", "<s>[INST]U[/INST]"},
    {"mistral-v3", "<s>[INST] U1[/INST] A1</s>[INST] S\n\nU2[/INST]", "<s>[INST] U[/INST]"},
    {"openchat",
     "<s>S<|end_of_turn|>GPT4 Correct User: U1<|end_of_turn|>GPT4 Correct Assistant: A1"
     "<|end_of_turn|>GPT4 Correct User: U2<|end_of_turn|>GPT4 Correct Assistant:",
     "<s>GPT4 Correct User: U<|end_of_turn|>GPT4 Correct Assistant:"},
    {"phi3",
     "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\nU2<|end|>\n"
     "<|assistant|>\n",
     "<|user|>\nU<|end|>\n<|assistant|>\n"},
    {"phi4",
     "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U1<|im_end|><|im_start|>"
     "assistant<|im_sep|>A1<|im_end|><|im_start|>user<|im_sep|>U2<|im_end|><|im_start|>assistant"
     "<|im_sep|>",
     "<|im_start|>user<|im_sep|>U<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"qwen", NULL,
     "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"qwen2.5", NULL,
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
     "<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"},
    {"rwkv-world",
     "<s>System: S\n\nUser: U1\n\nAssistant: A1\n\nUser: U2\n\nAssistant:",
     "<s>User: U\n\nAssistant:"},
    {"smollm", NULL,
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
     "<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"},
    {"vicuna",
     "<s>S USER: U1 ASSISTANT: A1</s>USER: U2 ASSISTANT:", "<s>" LONG_VICUNA " USER: U ASSISTANT:"},
    {"zephyr",
     "<|system|>\nS</s>\n<|user|>\nU1</s>\n<|assistant|>\nA1</s>\n<|user|>\nU2</"
     "s>\n<|assistant|>\n",
     "<|user|>\nU</s>\n<|assistant|>\n"},
};

static fy_chat_template *builtin(const char *name)
{
    fy_err e = {0};
    fy_chat_template *t = fy_chat_template_open(NULL, name, &e);
    if (t == NULL)
        fail_msg("%s: %s", name, e.msg);
    assert_int_equal(fy_chat_template_set_token(t, "bos_token", FY_SPAN("<s>"), &e), 0);
    assert_int_equal(fy_chat_template_set_token(t, "eos_token", FY_SPAN("</s>"), &e), 0);
    return t;
}

static void built_in_formats_are_written_as_their_models_know_them(void **state)
{
    (void)state;
    size_t n = 0;
    while (fy_chat_builtins[n].name != NULL)
        n++;
    assert_int_equal(n, sizeof formats / sizeof formats[0]);
    for (size_t i = 0; i < n; i++) {
        fy_chat_template *t = builtin(formats[i].name);
        fy_chat_input talk = {.messages = FY_SPAN("[" SYSTEM("S") "," USER("U1") "," ASSISTANT(
                                  "A1") "," USER("U2") "]"),
                              .add_generation_prompt = true};
        const char *want = formats[i].talk;
        renders(t, &talk, want != NULL ? want : formats[2].talk);
        fy_chat_input lone = {.messages = FY_SPAN("[" USER("U") "]"),
                              .add_generation_prompt = true};
        renders(t, &lone, formats[i].lone);
        fy_chat_template_free(t);
    }
}

static void built_in_formats_take_a_finished_and_an_empty_conversation(void **state)
{
    (void)state;
    for (const fy_chat_builtin *b = fy_chat_builtins; b->name != NULL; b++) {
        fy_str out = {0};
        fy_err e = {0};
        fy_chat_template *t = builtin(b->name);
        fy_chat_input in = {.messages = FY_SPAN("[]")};
        assert_int_equal(fy_chat_template_render(t, &in, &out, &e), 0);
        in.messages = FY_SPAN("[" USER("U") "," ASSISTANT("A.") "]");
        fy_str_clear(&out);
        assert_int_equal(fy_chat_template_render(t, &in, &out, &e), 0);
        assert_non_null(strstr(fy_str_z(&out), "A."));
        assert_null(strstr(strstr(fy_str_z(&out), "A."), "ssistant"));
        fy_str_release(&out);
        fy_chat_template_free(t);
    }
}

static void formats_that_alternate_refuse_what_does_not(void **state)
{
    (void)state;
    fy_chat_template *t = builtin("llama2");
    fails(t, &(fy_chat_input){.messages = FY_SPAN("[" USER("a") "," USER("b") "]")}, FY_EARG,
          "must alternate");
    fy_chat_template_free(t);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    small_vocab b = {0};
    static const char *const args[] = {"k=[1]"};
    small_bpe(&b, "gpt-2");
    small_str(&b, "tokenizer.chat_template",
              "{{ bos_token }}{% for m in messages %}{{ m.content }}"
              "{% endfor %}{{ x | tojson }}{{ k }}");
    model m = model_of(&b);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        fy_str out = {0};
        alloc_fail_after(n);
        fy_chat_template *t = fy_chat_template_open(m.g, NULL, &e);
        fy_chat_input in = {.messages = FY_SPAN("[" USER("\\u00e9") "]"),
                            .args = args,
                            .n_args = 1,
                            .extra = FY_SPAN("{\"x\": {\"y\": 1}}")};
        int rc = t != NULL ? fy_chat_template_render(t, &in, &out, &e) : -1;
        fy_chat_template_free(t);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        if (!failed)
            assert_string_equal(fy_str_z(&out), "<s>\xC3\xA9{\"y\": 1}[1]");
        fy_str_release(&out);
    }
    model_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_models_template_and_tokens_are_taken),
        cmocka_unit_test(tools_choose_the_template_for_tools),
        cmocka_unit_test(a_model_without_a_default_says_what_it_has),
        cmocka_unit_test(a_bad_template_is_refused_with_its_name),
        cmocka_unit_test(a_template_comes_from_a_file),
        cmocka_unit_test(variables_keep_their_types),
        cmocka_unit_test(the_standard_variables_are_those_of_transformers),
        cmocka_unit_test(bad_input_is_refused_by_name),
        cmocka_unit_test(a_message_is_valid_json_whatever_its_bytes),
        cmocka_unit_test(a_prompt_has_one_bos_and_no_eos),
        cmocka_unit_test(a_rendered_prompt_becomes_ids),
        cmocka_unit_test(built_in_formats_are_written_as_their_models_know_them),
        cmocka_unit_test(built_in_formats_take_a_finished_and_an_empty_conversation),
        cmocka_unit_test(formats_that_alternate_refuse_what_does_not),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
