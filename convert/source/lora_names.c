#include "convert/source/lora_names.h"

#include <stdbool.h>
#include <string.h>

static fy_span behind(fy_span s, size_t n)
{
    return (fy_span){s.ptr + n, s.len - n};
}

/* Where the last `word` begins; s.len: nowhere. */
static size_t last(fy_span s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = s.len >= n ? s.len - n + 1 : 0; i-- > 0;) {
        if (memcmp(s.ptr + i, word, n) == 0)
            return i;
    }
    return s.len;
}

/* "weight" or "default.weight", of any name of an adapter. */
static bool is_param(fy_span s, const char *param)
{
    size_t dot = last(s, ".");
    if (dot < s.len && last((fy_span){s.ptr, dot}, ".") < dot)
        return false;
    return fy_span_is(dot < s.len ? behind(s, dot + 1) : s, param);
}

/* "lora_A.weight" */
static fy_lora_part part_of(fy_span s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != '.')
        n++;
    fy_span word = {s.ptr, n}, rest = n < s.len ? behind(s, n + 1) : (fy_span){s.ptr + n, 0};
    if (fy_span_is(word, "lora_magnitude_vector"))
        return FY_LORA_DORA;
    if (fy_span_is(word, "lora_A") && is_param(rest, "weight"))
        return FY_LORA_A;
    if (fy_span_is(word, "lora_B") && is_param(rest, "weight"))
        return FY_LORA_B;
    if (fy_span_is(word, "lora_B") && is_param(rest, "bias"))
        return FY_LORA_BIAS;
    bool one = last(rest, ".") == rest.len; /* nothing, or the name of an adapter */
    if (fy_span_is(word, "lora_embedding_A") && one)
        return FY_LORA_EMBEDDING_A;
    if (fy_span_is(word, "lora_embedding_B") && one)
        return FY_LORA_EMBEDDING_B;
    return FY_LORA_UNKNOWN;
}

/* Module and parameter around a word that PEFT puts between them. */
static bool split(fy_span name, const char *word, fy_lora_name *out)
{
    size_t at = last(name, word), n = strlen(word);
    if (at == 0 || at == name.len)
        return false;
    out->module = (fy_span){name.ptr, at};
    out->rest = behind(name, at + n - 1); /* with the dot that ends the word */
    if (fy_span_begins(out->rest, ".default."))
        out->rest = behind(out->rest, strlen(".default"));
    return true;
}

fy_lora_name fy_lora_name_of(fy_span name)
{
    fy_lora_name out = {.part = FY_LORA_INSTEAD};
    if (fy_span_begins(name, "base_model.model."))
        name = behind(name, strlen("base_model.model."));
    size_t at = last(name, ".lora_");
    if (at < name.len && at > 0) {
        out.module = (fy_span){name.ptr, at};
        out.part = part_of(behind(name, at + 1));
        return out;
    }
    if (split(name, ".modules_to_save.", &out) || split(name, ".base_layer.", &out))
        return out;
    at = last(name, ".");
    out.module = (fy_span){name.ptr, at};
    out.rest = behind(name, at);
    return out;
}

fy_span fy_lora_tail(fy_span name)
{
    static const char *const words[] = {"model.", "language_model.", "transformer.", "gpt_neox."};
    for (size_t i = 0; i < sizeof words / sizeof words[0];) {
        if (fy_span_begins(name, words[i])) {
            name = behind(name, strlen(words[i]));
            i = 0;
        } else {
            i++;
        }
    }
    return name;
}
