/* Prompt formats by name, for models that carry no template and for those who want another one.
 * Written from the formats' descriptions; plain conversations only (no tools). A missing bos_token
 * or eos_token prints nothing. */
#include <string.h>

#include "model/template/chat_template.h"

/* One turn of ChatML, and the words before an answer. */
#define CHATML_TURNS                                        \
    "{% for m in messages %}"                               \
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" \
    "{% endfor %}"                                          \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
/* ChatML whose conversations always begin with a system message. */
#define CHATML_SYSTEM(text)                                 \
    "{% if not messages or messages[0].role != 'system' %}" \
    "<|im_start|>system\n" text "<|im_end|>\n"              \
    "{% endif %}" CHATML_TURNS

/* Sets `system` (none: there is none) and `turns`, the messages after it. */
#define TAKE_SYSTEM                                                        \
    "{% set system = none %}{% set turns = messages %}"                    \
    "{% if messages and messages[0].role == 'system' %}"                   \
    "{% set system = messages[0].content %}{% set turns = messages[1:] %}" \
    "{% endif %}"
/* At the head of `for m in turns`: user and assistant in turn, nobody else. */
#define ALTERNATE                                                                                  \
    "{% if m.role != ('user' if loop.index0 % 2 == 0 else 'assistant') %}"                         \
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}" \
    "{% endif %}"

#define LLAMA2                                                                       \
    TAKE_SYSTEM "{% for m in turns %}" ALTERNATE "{% if m.role == 'user' %}"         \
                "{{ bos_token }}[INST] "                                             \
                "{% if loop.first and system is not none %}"                         \
                "{{ '<<SYS>>\n' }}{{ system }}{{ '\n<</SYS>>\n\n' }}{{ m.content }}" \
                "{% else %}{{ m.content | trim }}{% endif %}"                        \
                " [/INST]"                                                           \
                "{% else %} {{ m.content | trim }} {{ eos_token }}{% endif %}{% endfor %}"

#define LLAMA3                                                       \
    "{{ bos_token }}{% for m in messages %}"                         \
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}" \
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"                   \
    "{% if add_generation_prompt %}"                                 \
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"

/* The system message stands before the words of the `where` user turn. */
#define MISTRAL(where, open, close, before_answer)                                               \
    TAKE_SYSTEM "{{ bos_token }}{% for m in turns %}" ALTERNATE "{% if m.role == 'user' %}" open \
                "{% if loop." where                                                              \
                " and system is not none %}{{ system }}{{ '\n\n' }}{% endif %}"                  \
                "{{ m.content }}" close "{% else %}" before_answer                               \
                "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"

#define PHI3                                                                   \
    "{% for m in messages %}"                                                  \
    "{{ '<|' + m.role + '|>\n' }}{{ m.content }}{{ '<|end|>\n' }}{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"

#define PHI4                                                                  \
    "{% for m in messages %}"                                                 \
    "<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}" \
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"

#define GEMMA                                                                              \
    TAKE_SYSTEM                                                                            \
    "{{ bos_token }}{% for m in turns %}" ALTERNATE                                        \
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"      \
    "{% if loop.first and system is not none %}{{ system | trim }}{{ '\n\n' }}{% endif %}" \
    "{{ m.content | trim }}{{ '<end_of_turn>\n' }}{% endfor %}"                            \
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"

#define ZEPHYR                                                                         \
    "{% for m in messages %}"                                                          \
    "{{ '<|' + m.role + '|>\n' }}{{ m.content }}{{ eos_token }}{{ '\n' }}{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"

#define VICUNA                                                                          \
    TAKE_SYSTEM                                                                         \
    "{{ bos_token }}"                                                                   \
    "{{ 'A chat between a curious user and an artificial intelligence assistant. The "  \
    "assistant gives helpful, detailed, and polite answers to the user\\'s questions.'" \
    " if system is none else system }} "                                                \
    "{% for m in turns %}" ALTERNATE "{% if m.role == 'user' %}USER: {{ m.content }} "  \
    "{% else %}ASSISTANT: {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"        \
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"

#define ALPACA                                                                       \
    TAKE_SYSTEM                                                                      \
    "{{ bos_token }}"                                                                \
    "{{ 'Below is an instruction that describes a task. Write a response that "      \
    "appropriately completes the request.' if system is none else system }}"         \
    "{{ '\n\n' }}{% for m in turns %}" ALTERNATE                                     \
    "{% if m.role == 'user' %}{{ '### Instruction:\n' }}{{ m.content }}{{ '\n\n' }}" \
    "{% else %}{{ '### Response:\n' }}{{ m.content }}{{ eos_token }}{{ '\n\n' }}"    \
    "{% endif %}{% endfor %}"                                                        \
    "{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}"

#define DEEPSEEK                                                                \
    "{{ bos_token }}{% for m in messages %}"                                    \
    "{% if m.role == 'user' %}User: {{ m.content }}{{ '\n\n' }}"                \
    "{% elif m.role == 'assistant' %}Assistant: {{ m.content }}{{ eos_token }}" \
    "{% else %}{{ m.content }}{{ '\n\n' }}{% endif %}{% endfor %}"              \
    "{% if add_generation_prompt %}Assistant:{% endif %}"

/* U+FF5C around the roles; what was thought before an answer is not repeated. */
#define BAR "\xEF\xBD\x9C"
#define DEEPSEEK3                                                                 \
    "{{ bos_token }}{{ messages | selectattr('role', 'equalto', 'system') "       \
    "| map(attribute='content') | join('\n\n') }}{% for m in messages %}"         \
    "{% if m.role == 'user' %}<" BAR "User" BAR ">{{ m.content }}"                \
    "{% elif m.role == 'assistant' %}<" BAR "Assistant" BAR ">"                   \
    "{{ m.content.split('</think>')[-1] }}{{ eos_token }}{% endif %}{% endfor %}" \
    "{% if add_generation_prompt %}<" BAR "Assistant" BAR ">{% endif %}"

#define CHATGLM(head, gap)                                           \
    "{% for m in messages %}{% if loop.first %}" head "{% endif %}"  \
    "{{ '<|' + m.role + '|>\n" gap "' }}{{ m.content }}{% endfor %}" \
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"

#define COMMAND_R                                                   \
    "{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|>" \
    "{{ {'user': '<|USER_TOKEN|>', 'system': '<|SYSTEM_TOKEN|>'}"   \
    ".get(m.role, '<|CHATBOT_TOKEN|>') }}"                          \
    "{{ m.content | trim }}<|END_OF_TURN_TOKEN|>{% endfor %}"       \
    "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"

#define GRANITE                                                           \
    "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>" \
    "{{ m.content }}{{ '<|end_of_text|>\n' }}{% endfor %}"                \
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"

#define OPENCHAT                                                                \
    "{{ bos_token }}{% for m in messages %}"                                    \
    "{% if m.role != 'system' %}GPT4 Correct {{ m.role | title }}: {% endif %}" \
    "{{ m.content }}<|end_of_turn|>{% endfor %}"                                \
    "{% if add_generation_prompt %}GPT4 Correct Assistant:{% endif %}"

static const fy_chat_builtin builtins[] = {
    {"alpaca", "### Instruction / ### Response", ALPACA},
    {"chatglm3", "ChatGLM3", CHATGLM("[gMASK]sop", " ")},
    {"chatml", "ChatML, as it is", CHATML_TURNS},
    {"command-r", "Cohere Command R and R+", COMMAND_R},
    {"deepseek", "DeepSeek LLM, Coder and V2: User: / Assistant:", DEEPSEEK},
    {"deepseek3", "DeepSeek V2.5, V3 and R1", DEEPSEEK3},
    {"gemma", "Gemma 1 to 3; a system message goes before the first user's words", GEMMA},
    {"glm4", "GLM-4", CHATGLM("[gMASK]<sop>", "")},
    {"granite", "Granite 3", GRANITE},
    {"internlm2", "InternLM2: ChatML after BOS", "{{ bos_token }}" CHATML_TURNS},
    {"llama2", "Llama 2 chat: [INST] and <<SYS>>", LLAMA2},
    {"llama3", "Llama 3, 3.1, 3.2 and 3.3", LLAMA3},
    {"mistral", "Mistral 7B v0.2, Mixtral: [INST] with blanks",
     MISTRAL("first", " [INST] ", " [/INST]", " ")},
    {"mistral-nemo", "Mistral NeMo and later with Tekken: [INST] without blanks",
     MISTRAL("last", "[INST]", "[/INST]", "")},
    {"mistral-v3", "Mistral 7B v0.3", MISTRAL("last", "[INST] ", "[/INST]", " ")},
    {"openchat", "OpenChat 3.5, Starling", OPENCHAT},
    {"phi3", "Phi-3 and Phi-3.5", PHI3},
    {"phi4", "Phi-4", PHI4},
    {"qwen", "Qwen 1.5 and 2: ChatML with a system message",
     CHATML_SYSTEM("You are a helpful assistant.")},
    {"qwen2.5", "Qwen 2.5",
     CHATML_SYSTEM("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
    {"smollm", "SmolLM2",
     CHATML_SYSTEM("You are a helpful AI assistant named SmolLM, trained by Hugging Face")},
    {"vicuna", "Vicuna 1.1 and 1.5: USER: / ASSISTANT:", VICUNA},
    {"zephyr", "Zephyr, TinyLlama chat, StableLM: <|user|>", ZEPHYR},
};

const fy_chat_builtin *fy_chat_builtin_at(size_t i)
{
    return i < sizeof builtins / sizeof builtins[0] ? &builtins[i] : NULL;
}

const fy_chat_builtin *fy_chat_builtin_find(const char *name)
{
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        if (strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    }
    return NULL;
}
