/* Writes the tokenizer.* keys of a GGUF file from an open tokenizer: token texts, scores, types and
 * flags, merges, special ids, the rules for spaces, and the chat templates. */
#include "convert/tokenizer/hf_tokenizer_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "convert/tokenizer/tokenizer_config.h"
#include "convert/tokenizer/vocab_files.h"
#include "model/vocab/pretok.h"

#define PAD_SCORE (-10000.0f) /* what llama.cpp's converter gives to padding */

/* Rows of the token array: header comment of fy_hf_tokenizer_write. */
static int count_rows(const fy_hf_tokenizer *t, uint32_t n_rows, uint32_t *out, fy_err *e)
{
    const fy_token_table *tokens = &t->tokens;
    uint64_t vocab_size = fy_tokenizer_config_vocab_size(&t->config);
    if (n_rows == 0) {
        if (vocab_size > FY_TOKENS_MAX)
            return fy_fail(e, FY_EFORMAT, "config.json: vocab_size %llu, expected at most %u",
                           (unsigned long long)vocab_size, FY_TOKENS_MAX);
        n_rows = vocab_size > tokens->n ? (uint32_t)vocab_size : tokens->n;
        if (t->pretok.kind == FY_TOKENIZER_RWKV && n_rows < FY_RWKV_VOCAB_ROWS)
            n_rows = FY_RWKV_VOCAB_ROWS;
    }
    uint32_t dropped = 0;
    for (uint32_t i = n_rows; i < tokens->n; i++) {
        const fy_token_row *r = &tokens->rows[i];
        if (r->type != FY_TOKEN_UNDEFINED && !r->added)
            return fy_fail(
                e, FY_EFORMAT,
                "the tokenizer has %u entries, but the embedding only %u rows: token %u is "
                "not an added token, which could be dropped; is this the tokenizer of this model?",
                (unsigned)tokens->n, (unsigned)n_rows, (unsigned)i);
        dropped += r->type != FY_TOKEN_UNDEFINED;
    }
    if (dropped > 0)
        fy_log(FY_LOG_WARN, "%u added tokens from id %u on have no row in the embedding: dropped",
               (unsigned)dropped, (unsigned)n_rows);
    *out = n_rows;
    return 0;
}

/* NULL: the id has no token and becomes padding. */
static const fy_token_row *row_at(const fy_hf_tokenizer *t, uint32_t i)
{
    return i < t->tokens.n && t->tokens.rows[i].type != FY_TOKEN_UNDEFINED ? &t->tokens.rows[i]
                                                                           : NULL;
}

/* --- arrays --- */

/* "[PAD<i>]", with '_' appended until no token has that text. */
static fy_span pad_text(const fy_hf_tokenizer *t, uint32_t i, fy_str *s)
{
    uint32_t other;
    fy_str_clear(s);
    fy_str_printf(s, "[PAD%u]", (unsigned)i);
    while (!s->oom && fy_token_table_find(&t->tokens, (fy_span){s->ptr, s->len}, &other))
        fy_str_putc(s, '_');
    return (fy_span){fy_str_z(s), s->len};
}

/* The rule of fy_vocab_load, which refuses a file that breaks it. */
static int check_length(const fy_hf_tokenizer *t, uint32_t id, const fy_token_row *r, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (r->text.len <= FY_SEARCHED_BYTES_MAX ||
        (t->pretok.kind == FY_TOKENIZER_BPE && r->type == FY_TOKEN_NORMAL))
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "token %u '%s' is %zu bytes long, expected at most %d bytes in a token that is "
                   "searched for in texts",
                   (unsigned)id, fy_quote(q, sizeof q, r->text), r->text.len,
                   FY_SEARCHED_BYTES_MAX);
}

static int write_texts(const fy_hf_tokenizer *t, uint32_t n, fy_gguf_writer *w, fy_err *e)
{
    fy_str pad = {0};
    int rc = fy_gguf_begin_strings(w, FY_KEY_TOKENS, e);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        const fy_token_row *r = row_at(t, i);
        rc = r != NULL ? check_length(t, i, r, e) : 0;
        if (rc == 0)
            rc = fy_gguf_add_string(w, r != NULL ? r->text : pad_text(t, i, &pad), e);
    }
    if (rc == 0)
        rc = pad.oom ? fy_nomem(e) : fy_gguf_end_strings(w, e);
    fy_str_release(&pad);
    return rc;
}

/* Scores, types and flags, one after the other in the same memory. */
static int write_columns(const fy_hf_tokenizer *t, uint32_t n, fy_gguf_writer *w, fy_err *e)
{
    const fy_tokenizer_kind kind = t->pretok.kind;
    /* Whether a token is searched in the normalised text matters only where it is normalised. */
    const unsigned kept =
        t->pretok.nfc || kind == FY_TOKENIZER_SPM ? UINT_MAX : ~(unsigned)FY_ADDED_NORMALIZED;
    void *buf = calloc(n, sizeof(int32_t));
    float *scores = buf;
    int32_t *types = buf;
    uint8_t *flags = buf;
    bool any = false;
    if (buf == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++)
        scores[i] = row_at(t, i) != NULL ? row_at(t, i)->score : PAD_SCORE;
    int rc = kind == FY_TOKENIZER_SPM || kind == FY_TOKENIZER_UNIGRAM
                 ? fy_gguf_add_array(w, "tokenizer.ggml.scores", FY_KV_F32, scores, n, e)
                 : 0;
    for (uint32_t i = 0; i < n; i++)
        types[i] = row_at(t, i) != NULL ? row_at(t, i)->type : FY_TOKEN_UNUSED;
    if (rc == 0)
        rc = fy_gguf_add_array(w, "tokenizer.ggml.token_type", FY_KV_I32, types, n, e);
    for (uint32_t i = 0; i < n; i++) {
        flags[i] = row_at(t, i) != NULL ? (uint8_t)(row_at(t, i)->flags & kept) : 0;
        any = any || flags[i] != 0;
    }
    if (rc == 0 && any)
        rc = fy_gguf_add_array(w, FY_KEY_ADDED_FLAGS, FY_KV_U8, flags, n, e);
    free(buf);
    return rc;
}

/* One merge is "left right": a space inside a part is written in the byte alphabet. */
static void add_part(fy_str *s, fy_span part)
{
    for (size_t i = 0; i < part.len; i++) {
        if (part.ptr[i] == ' ')
            fy_str_put_utf8(s, 0x120);
        else
            fy_str_putc(s, part.ptr[i]);
    }
}

static int write_merges(const fy_hf_tokenizer *t, fy_gguf_writer *w, fy_err *e)
{
    fy_merges m;
    fy_str line = {0};
    if (fy_merges_open(&m, &t->merges, e) != 0)
        return -1;
    int rc = fy_gguf_begin_strings(w, "tokenizer.ggml.merges", e);
    while (rc == 0 && (rc = fy_merges_next(&m, e)) == 1) {
        fy_str_clear(&line);
        add_part(&line, m.left);
        fy_str_putc(&line, ' ');
        add_part(&line, m.right);
        rc = line.oom ? fy_nomem(e) : fy_gguf_add_string(w, (fy_span){line.ptr, line.len}, e);
        if (rc != 0)
            break;
    }
    if (rc == 0)
        rc = fy_gguf_end_strings(w, e);
    fy_merges_close(&m);
    fy_str_release(&line);
    return rc;
}

static int write_vocabulary(const fy_hf_tokenizer *t, uint32_t n, fy_gguf_writer *w, fy_err *e)
{
    static const char *const models[] = {[FY_TOKENIZER_BPE] = "gpt2",
                                         [FY_TOKENIZER_SPM] = "llama",
                                         [FY_TOKENIZER_UNIGRAM] = "t5",
                                         [FY_TOKENIZER_RWKV] = "rwkv"};
    const fy_tokenizer_kind kind = t->pretok.kind;
    const char *model = t->pretok.by_rank ? "gemma4" : models[kind];
    if (fy_gguf_add_str(w, "tokenizer.ggml.model", fy_span_of(model), e) != 0 ||
        (t->pretok.pre != NULL &&
         fy_gguf_add_str(w, "tokenizer.ggml.pre", fy_span_of(t->pretok.pre), e) != 0) ||
        write_texts(t, n, w, e) != 0 || write_columns(t, n, w, e) != 0)
        return -1;
    return kind == FY_TOKENIZER_BPE || t->pretok.by_rank ? write_merges(t, w, e) : 0;
}

/* --- the rest --- */

static int write_ids(const fy_special_ids *s, uint32_t n, fy_gguf_writer *w, fy_err *e)
{
    int32_t eos[FY_EOS_IDS_MAX];
    size_t n_eos = 0;
    for (int i = 0; i < FY_SPECIAL_COUNT; i++) {
        if (s->id[i] >= n)
            fy_log(FY_LOG_WARN, "%s %lld has no row in the embedding: not written",
                   fy_special_key((fy_special)i), (long long)s->id[i]);
        else if (s->id[i] >= 0 &&
                 fy_gguf_add_u32(w, fy_special_key((fy_special)i), (uint32_t)s->id[i], e) != 0)
            return -1;
    }
    for (size_t i = 0; i < s->n_eos; i++) {
        if ((uint32_t)s->eos[i] < n)
            eos[n_eos++] = s->eos[i];
    }
    bool bos = s->add_bos && s->id[FY_SPECIAL_BOS] < n,
         end = s->add_eos && s->id[FY_SPECIAL_EOS] < n;
    if (fy_gguf_add_bool(w, "tokenizer.ggml.add_bos_token", bos, e) != 0 ||
        fy_gguf_add_bool(w, "tokenizer.ggml.add_eos_token", end, e) != 0)
        return -1;
    return n_eos > 0 ? fy_gguf_add_array(w, FY_KEY_EOS_IDS, FY_KV_I32, eos, n_eos, e) : 0;
}

static int write_text_rules(const fy_hf_tokenizer *t, fy_gguf_writer *w, fy_err *e)
{
    const fy_pretok *p = &t->pretok;
    if (fy_gguf_add_bool(w, "tokenizer.ggml.add_space_prefix", p->space_prefix, e) != 0)
        return -1;
    const bool unigram = p->kind == FY_TOKENIZER_UNIGRAM;
    if ((t->has_model || unigram) &&
        fy_gguf_add_bool(w, "tokenizer.ggml.remove_extra_whitespaces", t->trims, e) != 0)
        return -1;
    if (unigram && t->charsmap.len > 0 &&
        fy_gguf_add_array(w, FY_KEY_CHARSMAP, FY_KV_U8, t->charsmap.ptr, t->charsmap.len, e) != 0)
        return -1;
    if (unigram && t->rules != NULL &&
        fy_gguf_add_str(w, FY_KEY_UNIGRAM, fy_span_of(t->rules), e) != 0)
        return -1;
    /* Without the key, readers of GGUF apply NFC to a qwen2 vocabulary, as Qwen does. */
    if ((p->nfc || (p->pre != NULL && strcmp(p->pre, "qwen2") == 0)) &&
        fy_gguf_add_str(w, FY_KEY_NORMALIZER, p->nfc ? FY_SPAN("nfc") : FY_SPAN("none"), e) != 0)
        return -1;
    /* tiktoken merges no word that is a token. */
    const bool ranks = t->merge_lines.len > 0, whole = ranks || t->json.ignore_merges;
    const fy_pretok_rule *rule = (t->has_json || ranks) && p->kind == FY_TOKENIZER_BPE
                                     ? fy_pretok_find_rule(fy_span_of(p->pre))
                                     : NULL;
    if (rule != NULL && rule->ignore_merges != whole &&
        fy_gguf_add_bool(w, FY_KEY_IGNORE_MERGES, whole, e) != 0)
        return -1;
    if (p->strips_space && fy_gguf_add_bool(w, FY_KEY_STRIPS_SPACE, true, e) != 0)
        return -1;
    if (p->space_mode != NULL &&
        fy_gguf_add_str(w, FY_KEY_SPACE_PREFIX, fy_span_of(p->space_mode), e) != 0)
        return -1;
    return 0;
}

int fy_hf_tokenizer_write_sampling(const fy_hf_tokenizer *t, fy_gguf_writer *w, fy_err *e)
{
    return fy_generation_config_write(t->config.generation, w, e);
}

int fy_hf_tokenizer_write(const fy_hf_tokenizer *t, uint32_t n_rows, fy_gguf_writer *w, fy_err *e)
{
    uint32_t n = 0;
    if (count_rows(t, n_rows, &n, e) != 0 || write_vocabulary(t, n, w, e) != 0 ||
        write_ids(&t->special, n, w, e) != 0 || write_text_rules(t, w, e) != 0 ||
        fy_hf_templates_write(t->templates, w, e) != 0)
        return fy_ctx(e, "%s: tokenizer", t->dir);
    return 0;
}
