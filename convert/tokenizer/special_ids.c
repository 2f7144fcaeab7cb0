/* Finds the special ids (begin, end, padding, ends of turns) and whether a text gets a begin and an
 * end, from all the files that name them. */
#include "convert/tokenizer/hf_tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

/* The names in Hugging Face's files and in GGUF ("seperator" is how GGUF spells it). */
static const struct {
    const char *hf, *key;
    size_t spm; /* where tokenizer.model's is in fy_spm_info; 0: it has none */
} names[FY_SPECIAL_COUNT] = {
    [FY_SPECIAL_BOS] = {"bos_token", "tokenizer.ggml.bos_token_id", offsetof(fy_spm_info, bos_id)},
    [FY_SPECIAL_EOS] = {"eos_token", "tokenizer.ggml.eos_token_id", offsetof(fy_spm_info, eos_id)},
    [FY_SPECIAL_UNK] = {"unk_token", "tokenizer.ggml.unknown_token_id",
                        offsetof(fy_spm_info, unk_id)},
    [FY_SPECIAL_SEP] = {"sep_token", "tokenizer.ggml.seperator_token_id", 0},
    [FY_SPECIAL_PAD] = {"pad_token", "tokenizer.ggml.padding_token_id",
                        offsetof(fy_spm_info, pad_id)},
    [FY_SPECIAL_CLS] = {"cls_token", "tokenizer.ggml.cls_token_id", 0},
    [FY_SPECIAL_MASK] = {"mask_token", "tokenizer.ggml.mask_token_id", 0},
    [FY_SPECIAL_EOT] = {NULL, "tokenizer.ggml.eot_token_id", 0},
    [FY_SPECIAL_EOM] = {NULL, "tokenizer.ggml.eom_token_id", 0},
};

/* Ends of a turn by their text, first match wins: llama.cpp's list. Written down because some
 * readers pick any of them when there are several. */
static const char *const eot_texts[] = {
    "<|eot_id|>",
    "<|eot|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
    "<end_of_utterance>",
};

const char *fy_special_key(fy_special which)
{
    return names[which].key;
}

/* A turn of GLM ends where the next one begins, or the answer of a tool. */
#define GLM_MARK "[gMASK]"
#define GLM_EOT  "<|user|>"
#define GLM_EOM  "<|observation|>"

static int64_t id_of_text(const fy_token_table *t, fy_span text)
{
    uint32_t id;
    return fy_token_table_find(t, text, &id) && t->rows[id].type != FY_TOKEN_UNUSED ? (int64_t)id
                                                                                    : -1;
}

static int64_t id_of_number(const fy_token_table *t, const json_t *v)
{
    uint32_t id;
    return fy_tokenizer_config_id(v, &id) && id < t->n && t->rows[id].type != FY_TOKEN_UNDEFINED
               ? (int64_t)id
               : -1;
}

/* "<s>" or {"content": "<s>"}; -1 when it is neither, or not a token. */
static int64_t id_of_token(const fy_token_table *t, const char *name, const json_t *v)
{
    const json_t *s = json_is_object(v) ? json_object_get(v, "content") : v;
    if (json_string_length(s) == 0)
        return -1;
    fy_span text = {json_string_value(s), json_string_length(s)};
    int64_t id = id_of_text(t, text);
    char q[FY_QUOTE_BYTES];
    if (id < 0)
        fy_log(FY_LOG_WARN, "%s '%s' is not a token of the vocabulary: ignored", name,
               fy_quote(q, sizeof q, text));
    return id;
}

static fy_span unk_text(const fy_hf_tokenizer *t)
{
    if (t->json.unigram && t->json.unk_id < t->tokens.n)
        return t->tokens.rows[t->json.unk_id].text;
    return t->json.unk_token;
}

/* The first source that knows wins. An explicit null in tokenizer_config.json means that there is
 * none; the search for the end of text continues all the same, because a model without it never
 * stops. */
static int64_t find_one(const fy_hf_tokenizer *t, fy_special which)
{
    const fy_tokenizer_config *c = &t->config;
    const fy_span unk = unk_text(t);
    char number[32];
    const char *name = names[which].hf;
    snprintf(number, sizeof number, "%s_id", name);
    const json_t *v = json_object_get(c->tokenizer, name);
    int64_t id = id_of_token(&t->tokens, name, v);
    if (id >= 0 || (json_is_null(v) && which != FY_SPECIAL_EOS))
        return id;
    if ((id = id_of_token(&t->tokens, name, json_object_get(c->special_map, name))) >= 0 ||
        (id = id_of_number(&t->tokens, fy_tokenizer_config_model(c, number))) >= 0 ||
        (id = id_of_number(&t->tokens, json_object_get(c->generation, number))) >= 0)
        return id;
    if (which == FY_SPECIAL_UNK && unk.ptr != NULL && (id = id_of_text(&t->tokens, unk)) >= 0)
        return id;
    if (t->is_meta && (which == FY_SPECIAL_BOS || which == FY_SPECIAL_EOS))
        return id_of_text(&t->tokens, which == FY_SPECIAL_BOS ? FY_SPAN("<|begin_of_text|>")
                                                              : FY_SPAN("<|end_of_text|>"));
    if (!t->has_model || names[which].spm == 0)
        return -1;
    const void *proto = (const char *)&t->spm + names[which].spm;
    id = *(const int64_t *)proto;
    return id >= 0 && id < t->tokens.n ? id : -1;
}

static void push_eos(fy_special_ids *out, int64_t id)
{
    if (id < 0 || out->n_eos == FY_EOS_IDS_MAX)
        return;
    for (size_t i = 0; i < out->n_eos; i++) {
        if (out->eos[i] == id)
            return;
    }
    out->eos[out->n_eos++] = (int32_t)id;
}

static void push_eos_list(const fy_hf_tokenizer *t, const json_t *v, fy_special_ids *out)
{
    if (!json_is_array(v))
        push_eos(out, id_of_number(&t->tokens, v));
    for (size_t i = 0; i < json_array_size(v); i++)
        push_eos(out, id_of_number(&t->tokens, json_array_get(v, i)));
}

/* --- what the post-processor adds --- */

enum { ADDS_MAX = 8 };

typedef struct {
    bool known; /* there is a step that may add tokens */
    int64_t before[ADDS_MAX], after[ADDS_MAX];
    size_t n_before, n_after;
} additions;

static void read_template(const fy_token_table *t, const json_t *single, additions *a)
{
    bool is_after = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *id = json_object_get(json_object_get(piece, "SpecialToken"), "id");
        if (json_object_get(piece, "Sequence") != NULL)
            is_after = true;
        if (!json_is_string(id) || (is_after ? a->n_after : a->n_before) == ADDS_MAX)
            continue;
        int64_t token = id_of_text(t, (fy_span){json_string_value(id), json_string_length(id)});
        if (is_after)
            a->after[a->n_after++] = token;
        else
            a->before[a->n_before++] = token;
    }
}

/* The nesting is bounded by the JSON reader. */
static void read_processor(const fy_token_table *t, const json_t *p, additions *a)
{
    const char *type = fy_step_text(p, "type");
    if (strcmp(type, "Sequence") == 0) {
        const json_t *parts = json_object_get(p, "processors");
        for (size_t i = 0; i < json_array_size(parts); i++)
            read_processor(t, json_array_get(parts, i), a);
    } else if (strcmp(type, "TemplateProcessing") == 0) {
        a->known = true;
        read_template(t, json_object_get(p, "single"), a);
    } else if (strcmp(type, "ByteLevel") != 0 && type[0] != '\0') {
        char q[FY_QUOTE_BYTES];
        fy_log(FY_LOG_WARN, "post-processor %s: what it adds to a text is not carried over",
               fy_quote(q, sizeof q, fy_span_of(type)));
    }
}

/* Classes of transformers by how their names begin. ChatGLM's own begin a text with [gMASK] and
 * sop, which its template writes out; T5's own ends a text with </s>. */
static const char *const bos_classes[] = {"Llama", "CodeLlama", "Gemma", NULL};
static const char *const chatglm_classes[] = {"ChatGLM", NULL};
static const char *const t5_classes[] = {"T5", "MT5", NULL};

static bool is_class(const fy_tokenizer_config *c, const char *const *begins)
{
    const char *name = json_string_value(json_object_get(c->tokenizer, "tokenizer_class"));
    for (; name != NULL && *begins != NULL; begins++) {
        if (fy_span_begins(fy_span_of(name), *begins))
            return true;
    }
    return false;
}

static bool only(const int64_t *ids, size_t n, int64_t id)
{
    return n == 1 && id >= 0 && ids[0] == id;
}

static void find_additions(const fy_hf_tokenizer *t, fy_special_ids *out)
{
    additions a = {.known = false};
    read_processor(&t->tokens, t->json.post_processor, &a);
    const json_t *v = json_object_get(t->config.tokenizer, "add_bos_token");
    bool bos_is_null = json_is_null(json_object_get(t->config.tokenizer, "bos_token"));
    if (out->id[FY_SPECIAL_BOS] < 0 && !bos_is_null && a.n_before == 1)
        out->id[FY_SPECIAL_BOS] = a.before[0];
    if (json_is_boolean(v))
        out->add_bos = json_is_true(v);
    else if (is_class(&t->config, chatglm_classes))
        out->add_bos = false;
    else if (a.known && !is_class(&t->config, bos_classes))
        out->add_bos = only(a.before, a.n_before, out->id[FY_SPECIAL_BOS]);
    else
        out->add_bos = t->pretok.kind == FY_TOKENIZER_SPM || t->is_meta ||
                       only(a.before, a.n_before, out->id[FY_SPECIAL_BOS]);
    v = json_object_get(t->config.tokenizer, "add_eos_token");
    out->add_eos = json_is_boolean(v) ? json_is_true(v)
                   : a.known          ? only(a.after, a.n_after, out->id[FY_SPECIAL_EOS])
                                      : is_class(&t->config, t5_classes);
    /* Without the id, readers of GGUF would add their own default. */
    out->add_bos = out->add_bos && out->id[FY_SPECIAL_BOS] >= 0;
    out->add_eos = out->add_eos && out->id[FY_SPECIAL_EOS] >= 0;
    if (a.n_before > (out->add_bos ? 1 : 0) || a.n_after > (out->add_eos ? 1 : 0))
        fy_log(FY_LOG_WARN,
               "tokenizer.json adds %zu tokens before and %zu after a text; the GGUF file has "
               "bos %s, eos %s",
               a.n_before, a.n_after, out->add_bos ? "yes" : "no", out->add_eos ? "yes" : "no");
}

/* Id 0 has no text: it ends one, and stands before one. In a conversation an empty line ends a
 * turn. */
static void find_rwkv(const fy_hf_tokenizer *t, fy_special_ids *out)
{
    for (int i = 0; i < FY_SPECIAL_COUNT; i++)
        out->id[i] = -1;
    out->id[FY_SPECIAL_BOS] = out->id[FY_SPECIAL_EOS] = 0;
    out->id[FY_SPECIAL_EOT] = id_of_text(&t->tokens, FY_SPAN("\\n\\n"));
    push_eos(out, 0);
}

void fy_special_ids_find(const fy_hf_tokenizer *t, fy_special_ids *out)
{
    *out = (fy_special_ids){.n_eos = 0};
    if (t->pretok.kind == FY_TOKENIZER_RWKV) {
        find_rwkv(t, out);
        return;
    }
    for (int i = 0; i < FY_SPECIAL_COUNT; i++)
        out->id[i] = names[i].hf != NULL ? find_one(t, (fy_special)i) : -1;
    bool glm = id_of_text(&t->tokens, FY_SPAN(GLM_MARK)) >= 0;
    if (glm)
        out->id[FY_SPECIAL_EOT] = id_of_text(&t->tokens, FY_SPAN(GLM_EOT));
    for (size_t i = 0; i < sizeof eot_texts / sizeof *eot_texts && out->id[FY_SPECIAL_EOT] < 0; i++)
        out->id[FY_SPECIAL_EOT] = id_of_text(&t->tokens, fy_span_of(eot_texts[i]));
    out->id[FY_SPECIAL_EOM] =
        id_of_text(&t->tokens, glm ? FY_SPAN(GLM_EOM) : FY_SPAN("<|eom_id|>"));
    if (t->is_meta && out->id[FY_SPECIAL_EOM] < 0)
        out->id[FY_SPECIAL_EOM] = id_of_text(&t->tokens, FY_SPAN("<|eom|>"));
    find_additions(t, out);
    push_eos(out, out->id[FY_SPECIAL_EOS]);
    if (t->is_meta) { /* stop_tokens of its code */
        push_eos(out, out->id[FY_SPECIAL_EOM]);
        push_eos(out, out->id[FY_SPECIAL_EOT]);
    }
    push_eos_list(t, json_object_get(t->config.generation, "eos_token_id"), out);
    push_eos_list(t, fy_tokenizer_config_model(&t->config, "eos_token_id"), out);
}
