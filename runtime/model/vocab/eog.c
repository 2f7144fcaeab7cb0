/* Which tokens end generation, and which are never sampled. Files name one EOS, sometimes EOT and
 * EOM; chat models end with several more that only their texts tell. Source: llama.cpp
 * llama-vocab.cpp, special_eog_ids. */
#include "model/vocab/vocab_impl.h"

/* clang-format off */
static const char *const id_keys[] = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};

static const char *const texts[] = {
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "</s>", "<eos>", "<|return|>",
    "<|call|>", "<end_of_utterance>",
    "<\xEF\xBD\x9C" "end" FY_BLANK "of" FY_BLANK "sentence\xEF\xBD\x9C>",
    /* fill-in-the-middle: padding, repository and file borders */
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>",
};
/* clang-format on */

static int out_of_range(const fy_vocab *v, const fy_gguf *g, const char *key, int64_t id, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "%s: key '%s': token %lld, but the vocabulary has %u",
                   fy_gguf_path(g), key, (long long)id, v->pieces.n);
}

static int mark_array(fy_vocab *v, const fy_gguf *g, const char *key, uint8_t mark, fy_err *e)
{
    const fy_gguf_kv *kv;
    int rc = fy_gguf_get_array(g, key, FY_KV_I32, &kv, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        int64_t id = fy_gguf_int_at(kv, i);
        if (id < 0 || id >= v->pieces.n)
            return out_of_range(v, g, key, id, e);
        v->mark[id] |= mark;
    }
    return 0;
}

static int mark_keys(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    for (size_t i = 0; i < sizeof id_keys / sizeof id_keys[0]; i++) {
        uint32_t id;
        int rc = fy_gguf_get_u32(g, id_keys[i], &id, e);
        if (rc < 0)
            return -1;
        if (rc == 0 && id >= v->pieces.n)
            return out_of_range(v, g, id_keys[i], id, e);
        if (rc == 0)
            v->mark[id] |= FY_MARK_EOG;
    }
    return 0;
}

int fy_vocab_mark(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    if (v->eos >= 0)
        v->mark[v->eos] |= FY_MARK_EOG;
    if (mark_keys(v, g, e) != 0 || mark_array(v, g, FY_KEY_EOS_IDS, FY_MARK_EOG, e) != 0 ||
        mark_array(v, g, "tokenizer.ggml.suppress_tokens", FY_MARK_SUPPRESSED, e) != 0)
        return -1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int32_t id = fy_vocab_find(v, fy_span_of(texts[i]));
        /* An ordinary entry with such a text is HTML or prose ("</s>" strikes text through). */
        if (id >= 0 && (v->type[id] == FY_TOKEN_CONTROL || v->type[id] == FY_TOKEN_USER))
            v->mark[id] |= FY_MARK_EOG;
    }
    return 0;
}
