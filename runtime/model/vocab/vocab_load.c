/* The tokenizer.* keys of a GGUF file -> fy_vocab: everything is checked and copied here. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/str.h"
#include "model/vocab/vocab_impl.h"

#define KEY "tokenizer.ggml."

void fy_vocab_free(fy_vocab *v)
{
    if (v == NULL)
        return;
    fy_pretok_free(v->pretok);
    fy_arena_release(&v->arena);
    free(v);
}

/* An optional array that must have one element per token; *kv stays NULL when the key is absent. */
static int per_token_array(const fy_vocab *v, const fy_gguf *g, const char *key, fy_kv_type elem,
                           const fy_gguf_kv **kv, fy_err *e)
{
    *kv = NULL;
    if (fy_gguf_get_array(g, key, elem, kv, e) < 0)
        return -1;
    if (*kv != NULL && (*kv)->count != v->pieces.n)
        return fy_fail(e, FY_EFORMAT,
                       "%s: key '%s' has %llu entries, expected one for each of the %u tokens",
                       fy_gguf_path(g), key, (unsigned long long)(*kv)->count, v->pieces.n);
    return 0;
}

static int unsupported(const fy_gguf *g, const char *key, fy_span found, const char *supported,
                       fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EUNSUPPORTED, "%s: key '%s': '%s' is not supported; supported: %s",
                   fy_gguf_path(g), key, fy_quote(shown, sizeof shown, found), supported);
}

/* The value of a key that is one of `names` ("a, b, c"): which. 0; 1: the key is absent; -1. */
static int load_choice(const fy_gguf *g, const char *key, const char *names, int *which, fy_err *e)
{
    fy_span found;
    const int rc = fy_gguf_get_str(g, key, &found, e);
    if (rc != 0)
        return rc;
    *which = 0;
    for (const char *name = names; *name != '\0'; ++*which) {
        const size_t n = strcspn(name, ",");
        if (fy_span_eq(found, (fy_span){name, n}))
            return 0;
        name += n + strspn(name + n, ", ");
    }
    return unsupported(g, key, found, names, e);
}

static int load_kind(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    int kind = 0;
    const int rc = load_choice(g, KEY "model", "gpt2, llama, t5, rwkv, gemma4", &kind, e);
    v->by_rank = kind == FY_VOCAB_RWKV + 1;
    v->kind = v->by_rank ? FY_VOCAB_SPM : (fy_vocab_kind)kind;
    return rc <= 0 ? rc
                   : fy_fail(e, FY_EFORMAT,
                             "%s: no tokenizer in this file (key '" KEY "model' is missing)",
                             fy_gguf_path(g));
}

static int load_pieces(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *tokens = NULL;
    if (fy_gguf_get_array(g, FY_KEY_TOKENS, FY_KV_STRING, &tokens, e) < 0)
        return -1;
    if (tokens == NULL || tokens->count == 0)
        return fy_fail(e, FY_EFORMAT, "%s: key '" FY_KEY_TOKENS "' is %s", fy_gguf_path(g),
                       tokens == NULL ? "missing" : "empty");
    if (fy_inputs_load(&v->pieces, &v->arena, tokens, e) != 0)
        return fy_ctx(e, "%s", fy_gguf_path(g));
    return 0;
}

static bool has_byte_tokens(const fy_vocab *v)
{
    return v->kind == FY_VOCAB_SPM || v->kind == FY_VOCAB_UNIGRAM;
}

/* Ordinary tokens of byte-level BPE are not looked for in a text. */
static int check_length(const fy_vocab *v, const fy_gguf *g, uint32_t id, fy_err *e)
{
    const size_t len = fy_vocab_piece(v, (int32_t)id).len;
    if (len <= FY_SEARCHED_BYTES_MAX || (v->kind == FY_VOCAB_BPE && v->type[id] == FY_TOKEN_NORMAL))
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED, "%s: token %u is %zu bytes long, expected at most %d",
                   fy_gguf_path(g), id, len, FY_SEARCHED_BYTES_MAX);
}

/* Without the key: byte tokens are known by their text, all others are normal. */
static int load_types(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *kv;
    if (per_token_array(v, g, KEY "token_type", FY_KV_I32, &kv, e) != 0)
        return -1;
    v->type = fy_arena_alloc(&v->arena, v->pieces.n);
    v->mark = fy_arena_calloc(&v->arena, v->pieces.n, 1);
    if (v->type == NULL || v->mark == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < v->pieces.n; i++) {
        bool is_byte =
            has_byte_tokens(v) && fy_byte_piece_value(fy_vocab_piece(v, (int32_t)i)) >= 0;
        int64_t t = kv != NULL ? fy_gguf_int_at(kv, i) : is_byte ? FY_TOKEN_BYTE : FY_TOKEN_NORMAL;
        if (t < FY_TOKEN_UNDEFINED || t > FY_TOKEN_BYTE)
            return fy_fail(e, FY_EFORMAT,
                           "%s: key '" KEY "token_type': token %u has type %lld, expected 0 to %d",
                           fy_gguf_path(g), i, (long long)t, FY_TOKEN_BYTE);
        v->type[i] = (uint8_t)t;
        if (fy_vocab_poll(i, e) != 0 || check_length(v, g, i, e) != 0)
            return -1;
    }
    return 0;
}

static int out_of_range(const fy_vocab *v, const fy_gguf *g, const char *key, int64_t id, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "%s: key '%s': token %lld, but the vocabulary has %u",
                   fy_gguf_path(g), key, (long long)id, v->pieces.n);
}

/* A file that lacks the key means the id its kind has always had, if there is such a token. */
static int load_id(const fy_vocab *v, const fy_gguf *g, const char *key, int32_t usual,
                   int32_t *out, fy_err *e)
{
    uint32_t id;
    int rc = fy_gguf_get_u32(g, key, &id, e);
    if (rc < 0)
        return -1;
    if (rc == 0 && id >= v->pieces.n)
        return out_of_range(v, g, key, id, e);
    *out = rc == 0 ? (int32_t)id : fy_vocab_has(v, usual) ? usual : -1;
    return 0;
}

static int load_special_ids(fy_vocab *v, const fy_gguf *g, bool adds_bos, fy_err *e)
{
    static const struct {
        int32_t bos, eos, unk;
    } usual[] = {[FY_VOCAB_BPE] = {-1, -1, -1},
                 [FY_VOCAB_SPM] = {1, 2, 0},
                 [FY_VOCAB_UNIGRAM] = {-1, 1, 2},
                 [FY_VOCAB_RWKV] = {-1, -1, -1}};
    const fy_vocab_kind kind = v->by_rank ? FY_VOCAB_BPE : v->kind;
    v->add_bos = adds_bos;
    v->add_eos = v->kind == FY_VOCAB_UNIGRAM;
    if (load_id(v, g, KEY "bos_token_id", usual[kind].bos, &v->bos, e) != 0 ||
        load_id(v, g, KEY "eos_token_id", usual[kind].eos, &v->eos, e) != 0 ||
        load_id(v, g, KEY "unknown_token_id", usual[kind].unk, &v->unk, e) != 0 ||
        fy_gguf_get_bool(g, KEY "add_bos_token", &v->add_bos, e) < 0 ||
        fy_gguf_get_bool(g, KEY "add_eos_token", &v->add_eos, e) < 0)
        return -1;
    return 0;
}

/* Files from before the key existed: of these architectures there is only one way to cut. */
static const fy_pretok_rule *rule_of_architecture(const fy_gguf *g)
{
    static const struct {
        const char *architecture, *pre;
    } rows[] = {{"gpt2", "gpt-2"},          {"gptneox", "gpt-2"}, {"mpt", "mpt"},
                {"falcon", "falcon"},       {"bloom", "bloom"},   {"starcoder", "starcoder"},
                {"codeshell", "codeshell"}, {"refact", "refact"}, {"phi2", "phi-2"}};
    fy_span arch;
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, NULL) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!fy_span_is(arch, rows[i].architecture))
            continue;
        fy_log(FY_LOG_WARN, "%s: key '" KEY "pre' is missing; '%s' is taken, as %s models have it",
               fy_gguf_path(g), rows[i].pre, rows[i].architecture);
        return fy_pretok_find_rule(fy_span_of(rows[i].pre));
    }
    return NULL;
}

static int unsupported_pre(const fy_gguf *g, bool missing, fy_span pre, fy_err *e)
{
    fy_str known = {0};
    fy_pretok_list(&known);
    if (missing)
        fy_fail(e, FY_EUNSUPPORTED,
                "%s: key '" KEY "pre' is missing, and how to cut words cannot be guessed; convert "
                "the model again. Supported: %s",
                fy_gguf_path(g), fy_str_z(&known));
    else
        unsupported(g, KEY "pre", pre, fy_str_z(&known), e);
    fy_str_release(&known);
    return -1;
}

static int load_merges(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *kv = NULL;
    if (fy_gguf_get_array(g, KEY "merges", FY_KV_STRING, &kv, e) < 0)
        return -1;
    if (kv == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: key '" KEY "merges' is missing, a %s tokenizer needs it",
                       fy_gguf_path(g), v->by_rank ? "gemma4" : "gpt2");
    uint64_t unusable;
    if (fy_merge_table_load(&v->merges, &v->arena, kv, &v->pieces, &unusable, e) != 0)
        return fy_ctx(e, "%s: key '" KEY "merges'", fy_gguf_path(g));
    if (unusable > 0)
        fy_log(FY_LOG_WARN,
               "%s: %llu of %llu merge rules name texts that are no tokens and never apply",
               fy_gguf_path(g), (unsigned long long)unusable, (unsigned long long)kv->count);
    return 0;
}

static int load_normalizer(fy_vocab *v, const fy_gguf *g, fy_span pre, fy_err *e)
{
    /* Files of other converters cannot say it, but every Qwen tokenizer composes its text. */
    int none = !fy_span_is(pre, "qwen2");
    const int rc = load_choice(g, FY_KEY_NORMALIZER, "nfc, none", &none, e);
    v->nfc = none == 0;
    return rc < 0 ? -1 : 0;
}

static int load_bpe(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    fy_span pre = {"", 0};
    int rc = fy_gguf_get_str(g, KEY "pre", &pre, e);
    if (rc < 0)
        return -1;
    const fy_pretok_rule *rule = rc == 1 ? rule_of_architecture(g) : fy_pretok_find_rule(pre);
    if (rule == NULL)
        return unsupported_pre(g, rc == 1, pre, e);
    v->ignore_merges = rule->ignore_merges;
    v->pretok = fy_pretok_new(rule, e);
    if (v->pretok == NULL || fy_gguf_get_bool(g, FY_KEY_IGNORE_MERGES, &v->ignore_merges, e) < 0 ||
        load_merges(v, g, e) != 0 || load_normalizer(v, g, pre, e) != 0 ||
        load_special_ids(v, g, rule->adds_bos, e) != 0)
        return -1;
    for (int b = 0; b < 256; b++) {
        char c[3];
        size_t len;
        fy_bpe_spell_byte((uint8_t)b, c, &len);
        v->byte_id[b] = fy_vocab_find(v, (fy_span){c, len});
    }
    return 0;
}

static int load_space_prefix(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    bool add = !v->by_rank;
    int mode = 0;
    if (fy_gguf_get_bool(g, KEY "add_space_prefix", &add, e) < 0 ||
        load_choice(g, FY_KEY_SPACE_PREFIX, "prepend, metaspace, metaspace-first", &mode, e) < 0)
        return -1;
    v->space_prefix = add ? (fy_space_prefix)(FY_PREFIX_ALL + mode) : FY_PREFIX_NONE;
    v->strips_space = add;
    return fy_gguf_get_bool(g, FY_KEY_STRIPS_SPACE, &v->strips_space, e) < 0 ? -1 : 0;
}

/* Scores, and which token stands for which byte. */
static int load_scores(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *scores;
    if (per_token_array(v, g, KEY "scores", FY_KV_F32, &scores, e) != 0)
        return -1;
    if (scores == NULL && !v->by_rank)
        return fy_fail(e, FY_EFORMAT, "%s: key '" KEY "scores' is missing, a %s tokenizer needs it",
                       fy_gguf_path(g), v->kind == FY_VOCAB_SPM ? "llama" : "t5");
    v->score = fy_arena_alloc(&v->arena, v->pieces.n * sizeof *v->score);
    if (v->score == NULL)
        return fy_nomem(e);
    memset(v->byte_id, 0xff, sizeof v->byte_id);
    /* Downwards: of two tokens for a byte the first one counts. */
    for (uint32_t i = v->pieces.n; i-- > 0;) {
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        v->score[i] = scores != NULL ? (float)fy_gguf_float_at(scores, i) : 0;
        int b =
            v->type[i] == FY_TOKEN_BYTE ? fy_byte_piece_value(fy_vocab_piece(v, (int32_t)i)) : -1;
        if (b >= 0)
            v->byte_id[b] = (int32_t)i;
    }
    return 0;
}

static int load_spm(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    bool trims = false;
    if (load_scores(v, g, e) != 0 ||
        fy_gguf_get_bool(g, KEY "remove_extra_whitespaces", &trims, e) < 0)
        return -1;
    if (trims) /* other engines ignore the key, so a file that has it may still be of use */
        fy_log(FY_LOG_WARN,
               "%s: asks to drop repeated spaces, which ferry keeps: such texts get other ids",
               fy_gguf_path(g));
    if (load_space_prefix(v, g, e) != 0 || (v->by_rank && load_merges(v, g, e) != 0))
        return -1;
    return load_special_ids(v, g, true, e);
}

static int load_charsmap(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *kv = fy_gguf_find(g, FY_KEY_CHARSMAP);
    if (kv == NULL)
        return 0;
    if (kv->type != FY_KV_ARRAY || kv->elem != FY_KV_I8) { /* some writers have no u8 */
        if (fy_gguf_get_array(g, FY_KEY_CHARSMAP, FY_KV_U8, &kv, e) < 0)
            return -1;
    }
    char *copy = fy_arena_alloc(&v->arena, (size_t)kv->bytes);
    if (copy == NULL)
        return fy_nomem(e);
    memcpy(copy, kv->data, (size_t)kv->bytes);
    if (fy_charsmap_parse(&v->unigram.map, copy, (size_t)kv->bytes, e) != 0)
        return fy_ctx(e, "%s: key '" FY_KEY_CHARSMAP "'", fy_gguf_path(g));
    return 0;
}

static int load_rules(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    int rules = 0;
    if (load_choice(g, FY_KEY_UNIGRAM, "sentencepiece, tokenizers, tokenizers-words", &rules, e) <
        0)
        return -1;
    v->unigram.by_words = rules > 0;
    v->unigram.splits_blanks = rules > 1;
    return 0;
}

static int load_unigram(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    fy_unigram *u = &v->unigram;
    if (load_scores(v, g, e) != 0 || load_charsmap(v, g, e) != 0 ||
        fy_gguf_get_bool(g, KEY "remove_extra_whitespaces", &u->trims, e) < 0 ||
        load_space_prefix(v, g, e) != 0 || load_special_ids(v, g, false, e) != 0 ||
        load_rules(v, g, e) != 0)
        return -1;
    v->strips_space = v->strips_space || (u->trims && !u->by_words);
    u->byte_fallback = true;
    for (int b = 0; b < 256; b++)
        u->byte_fallback = u->byte_fallback && v->byte_id[b] >= 0;
    return fy_unigram_prepare(v, e);
}

static int load_rwkv(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    return load_special_ids(v, g, false, e) != 0 ? -1 : fy_rwkv_prepare(v, e);
}

/* What the vocabularies of each kind have of their own. */
static int (*const loaders[])(fy_vocab *v, const fy_gguf *g, fy_err *e) = {
    [FY_VOCAB_BPE] = load_bpe,
    [FY_VOCAB_SPM] = load_spm,
    [FY_VOCAB_UNIGRAM] = load_unigram,
    [FY_VOCAB_RWKV] = load_rwkv,
};

static bool contains_nocase(fy_span s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++) {
        if (strncasecmp(s.ptr + i, word, n) == 0)
            return true;
    }
    return false;
}

/* Phi-3's chat tokens take the spaces after them. Files of other converters have no key for it;
 * llama.cpp goes by the model's name, and so must we for these files. */
static bool is_phi3(const fy_gguf *g)
{
    fy_span name;
    return fy_gguf_get_str(g, FY_KEY_NAME, &name, NULL) == 0 &&
           (contains_nocase(name, "phi-3") || contains_nocase(name, "phi3"));
}

static uint8_t phi3_flags(const fy_vocab *v, int32_t id)
{
    fy_span p = fy_vocab_piece(v, id);
    bool keeps = fy_span_is(p, "<unk>") || fy_span_is(p, "<s>") || fy_span_is(p, "<|endoftext|>");
    bool eats = v->type[id] == FY_TOKEN_CONTROL || fy_span_is(p, "</s>");
    return eats && !keeps ? FY_ADDED_RSTRIP : 0;
}

/* In words, ChatGLM's own code finds neither of these. */
static uint8_t chatglm_flags(const fy_vocab *v, int32_t id)
{
    fy_span p = fy_vocab_piece(v, id);
    return fy_span_is(p, "sop") || fy_span_is(p, "eop") ? FY_ADDED_SINGLE_WORD : 0;
}

/* Unigram's user-defined pieces take part in its own search, and RWKV knows no text that is not
 * plain. */
static bool is_special(const fy_vocab *v, uint32_t id)
{
    if (v->kind == FY_VOCAB_RWKV ||
        (v->kind == FY_VOCAB_UNIGRAM && v->type[id] == FY_TOKEN_USER && !v->unigram.by_words))
        return false;
    return (v->type[id] == FY_TOKEN_CONTROL || v->type[id] == FY_TOKEN_USER ||
            v->type[id] == FY_TOKEN_UNKNOWN) &&
           fy_vocab_piece(v, (int32_t)id).len > 0;
}

static int load_specials(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    const fy_gguf_kv *flags;
    if (per_token_array(v, g, FY_KEY_ADDED_FLAGS, FY_KV_U8, &flags, e) != 0)
        return -1;
    fy_span arch = {"", 0};
    fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, NULL);
    const bool foreign = flags == NULL && v->kind == FY_VOCAB_SPM;
    const bool phi3 = foreign && is_phi3(g), chatglm = foreign && fy_span_is(arch, "chatglm");
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->pieces.n; i++)
        n += is_special(v, i);
    v->raw.item = fy_arena_calloc(&v->arena, n, sizeof *v->raw.item);
    v->normalized.item = fy_arena_calloc(&v->arena, n, sizeof *v->normalized.item);
    if (v->raw.item == NULL || v->normalized.item == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < v->pieces.n; i++) {
        if (fy_vocab_poll(i, e) != 0)
            return -1;
        if (!is_special(v, i))
            continue;
        fy_special s = {.text = fy_vocab_piece(v, (int32_t)i),
                        .id = (int32_t)i,
                        .always = v->type[i] == FY_TOKEN_USER};
        s.flags = flags != NULL ? (uint8_t)fy_gguf_int_at(flags, i)
                  : phi3        ? phi3_flags(v, s.id)
                  : chatglm     ? chatglm_flags(v, s.id)
                                : 0;
        if (s.flags & FY_ADDED_MERGED)
            v->mark[i] |= FY_MARK_MERGED;
        /* SentencePiece's normaliser only spells spaces, and tokens are compared before that. */
        fy_specials *set =
            v->kind == FY_VOCAB_BPE && (s.flags & FY_ADDED_NORMALIZED) ? &v->normalized : &v->raw;
        set->item[set->n++] = s;
    }
    return fy_specials_prepare(&v->raw, &v->arena, e) != 0
               ? -1
               : fy_specials_prepare(&v->normalized, &v->arena, e);
}

/* --- which tokens end generation, and which are never sampled. Files name one EOS, sometimes EOT
 * and EOM; chat models end with several more that only their texts tell. Source: llama.cpp
 * llama-vocab.cpp, special_eog_ids --- */

/* clang-format off */
static const char *const eog_keys[] = {
    "tokenizer.ggml.eos_token_id" /* or the usual one */, "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
};

static const char *const eog_texts[] = {
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>",
    "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "</s>", "<eos>", "<|return|>",
    "<|call|>", "<end_of_utterance>",
    "<\xEF\xBD\x9C" "end" FY_BLANK "of" FY_BLANK "sentence\xEF\xBD\x9C>",
    /* fill-in-the-middle: padding, repository and file borders */
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>",
};
/* clang-format on */

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

/* gpt-oss ends an answer with <|return|> or <|call|>, and a message within it with <|end|>. Source:
 * llama.cpp llama-vocab.cpp. */
static void unmark_end_of_message(fy_vocab *v)
{
    const int32_t last = fy_vocab_find(v, FY_SPAN("<|return|>")),
                  call = fy_vocab_find(v, FY_SPAN("<|call|>")),
                  end = fy_vocab_find(v, FY_SPAN("<|end|>"));
    if (last >= 0 && call >= 0 && end >= 0 && end != v->eos)
        v->mark[end] &= (uint8_t)~FY_MARK_EOG;
}

static int mark_tokens(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    for (size_t i = 0; i < sizeof eog_keys / sizeof eog_keys[0]; i++) {
        int32_t id;
        if (load_id(v, g, eog_keys[i], i == 0 ? v->eos : -1, &id, e) != 0)
            return -1;
        if (v->kind == FY_VOCAB_RWKV && i > 0)
            continue; /* the empty line, which stands within an answer, too */
        if (id >= 0)
            v->mark[id] |= FY_MARK_EOG;
    }
    if (mark_array(v, g, FY_KEY_EOS_IDS, FY_MARK_EOG, e) != 0 ||
        mark_array(v, g, "tokenizer.ggml.suppress_tokens", FY_MARK_SUPPRESSED, e) != 0)
        return -1;
    for (size_t i = 0; i < sizeof eog_texts / sizeof eog_texts[0]; i++) {
        int32_t id = fy_vocab_find(v, fy_span_of(eog_texts[i]));
        /* An ordinary entry with such a text is HTML or prose ("</s>" strikes text through). */
        if (id >= 0 && (v->type[id] == FY_TOKEN_CONTROL || v->type[id] == FY_TOKEN_USER))
            v->mark[id] |= FY_MARK_EOG;
    }
    unmark_end_of_message(v);
    return 0;
}

/* --- marks of filling in the middle: by their keys, older ones too, or by their texts. Source:
 * llama.cpp llama-vocab.cpp, special_fim_pre_id and on --- */

static const struct {
    const char *keys[2], *texts[8];
} fim_rows[FY_FIM_COUNT] = {
    [FY_FIM_PRE] = {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
                    {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
                     "<\xEF\xBD\x9C"
                     "fim" FY_BLANK "begin\xEF\xBD\x9C>",
                     "<PRE>", FY_BLANK "<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    [FY_FIM_SUF] = {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
                    {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
                     "<\xEF\xBD\x9C"
                     "fim" FY_BLANK "hole\xEF\xBD\x9C>",
                     "<SUF>", FY_BLANK "<SUF>", "<|code_suffix|>", "<|suffix|>"}},
    [FY_FIM_MID] = {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
                    {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
                     "<\xEF\xBD\x9C"
                     "fim" FY_BLANK "end\xEF\xBD\x9C>",
                     "<MID>", FY_BLANK "<MID>", "<|code_middle|>", "<|middle|>"}},
    [FY_FIM_REP] = {{"tokenizer.ggml.fim_rep_token_id"},
                    {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    [FY_FIM_SEP] = {{"tokenizer.ggml.fim_sep_token_id"}, {"<|file_sep|>"}},
};

/* An ordinary entry "<PRE>" is HTML; one that begins with a blank is CodeLlama's. */
static bool is_mark(const fy_vocab *v, int32_t id, const char *text)
{
    return id >= 0 &&
           (v->type[id] == FY_TOKEN_CONTROL || v->type[id] == FY_TOKEN_USER || text[0] != '<');
}

static int find_fim(fy_vocab *v, const fy_gguf *g, fy_err *e)
{
    for (int m = 0; m < FY_FIM_COUNT; m++) {
        int32_t found = -1;
        for (size_t i = 0; i < 2 && found < 0 && fim_rows[m].keys[i] != NULL; i++) {
            if (load_id(v, g, fim_rows[m].keys[i], -1, &found, e) != 0)
                return -1;
        }
        for (size_t i = 0; i < 8 && found < 0 && fim_rows[m].texts[i] != NULL; i++) {
            const int32_t id = fy_vocab_find(v, fy_span_of(fim_rows[m].texts[i]));
            found = is_mark(v, id, fim_rows[m].texts[i]) ? id : -1;
        }
        v->fim[m] = found;
    }
    return 0;
}

/* --- all of it --- */

fy_vocab *fy_vocab_load(const fy_gguf *g, fy_err *e)
{
    fy_vocab *v = calloc(1, sizeof *v);
    if (v == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (load_kind(v, g, e) != 0 || load_pieces(v, g, e) != 0 || load_types(v, g, e) != 0 ||
        loaders[v->kind](v, g, e) != 0 || load_specials(v, g, e) != 0 ||
        mark_tokens(v, g, e) != 0 || find_fim(v, g, e) != 0)
        goto fail;
    return v;
fail:
    fy_vocab_free(v);
    return NULL;
}
