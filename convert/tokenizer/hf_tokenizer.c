/* Opens the tokenizer of a checkpoint: finds the container, reads the vocabulary, checks the
 * merges, gives SentencePiece-like vocabularies their scores and types, and applies the added
 * tokens. hf_tokenizer_write.c writes the result. */
#include "convert/tokenizer/hf_tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "convert/tokenizer/vocab_files.h"
#include "convert/tokenizer/pretok_match.h"

#define BLANK    "\xE2\x96\x81"
#define NO_SCORE 1.0f /* scores made from ranks are never positive */

/* --- files --- */

/* Maps one of the directory's files, or the one file if it stands for it. 1: not there. */
static int map_file(const fy_hf_tokenizer *t, const char *name, fy_map *m, fy_err *e)
{
    if (t->one == NULL)
        return fy_tokenizer_config_map(t->dir, name, m, e);
    return strcmp(t->one, name) == 0 ? fy_tokenizer_config_map_path(t->dir, m, e) : 1;
}

/* Puts the file's path before a message; -1. */
static int in_file(const fy_hf_tokenizer *t, const char *name, fy_err *e)
{
    return t->one != NULL ? fy_ctx(e, "%s", t->dir) : fy_ctx(e, "%s/%s", t->dir, name);
}

/* --- SentencePiece-like tokenizer.json --- */

/* Merges that are looked up together. */
enum { BATCH = 64 };
typedef struct {
    fy_str texts; /* the parts in a row, so that they spell the result */
    size_t begin[BATCH + 1], middle[BATCH];
    size_t n;
    uint64_t first; /* number of the first one */
} merge_batch;

static int fail_merge(const merge_batch *b, size_t i, const char *what, fy_err *e)
{
    char l[FY_QUOTE_BYTES], r[FY_QUOTE_BYTES];
    fy_span left = {b->texts.ptr + b->begin[i], b->middle[i] - b->begin[i]};
    fy_span right = {b->texts.ptr + b->middle[i], b->begin[i + 1] - b->middle[i]};
    return fy_fail(e, FY_EFORMAT, "merges[%llu]: '%s' '%s': %s is not a token of the vocabulary",
                   (unsigned long long)(b->first + i), fy_quote(l, sizeof l, left),
                   fy_quote(r, sizeof r, right), what);
}

static int check_batch(fy_token_table *t, const merge_batch *b, bool scores, fy_err *e)
{
    static const char *const what[] = {"the left part", "the right part", "the result"};
    fy_span text[3 * BATCH];
    uint32_t id[3 * BATCH];
    for (size_t i = 0; i < b->n; i++) {
        const char *p = b->texts.ptr + b->begin[i];
        size_t left = b->middle[i] - b->begin[i], all = b->begin[i + 1] - b->begin[i];
        text[3 * i] = (fy_span){p, left};
        text[3 * i + 1] = (fy_span){p + left, all - left};
        text[3 * i + 2] = (fy_span){p, all};
    }
    fy_token_table_find_many(t, text, id, 3 * b->n);
    for (size_t i = 0; i < 3 * b->n; i++) {
        if (id[i] == FY_NAMES_ABSENT)
            return fail_merge(b, i / 3, what[i % 3], e);
    }
    for (size_t i = 0; i < b->n && scores; i++) {
        fy_token_row *r = &t->rows[id[3 * i + 2]];
        if (r->score == NO_SCORE)
            r->score = 1.0f - (float)(b->first + i + 1);
        r->merged = true;
    }
    return 0;
}

static int next_batch(fy_merges *m, merge_batch *b, fy_err *e)
{
    int rc = 1;
    fy_str_clear(&b->texts);
    b->first = m->n;
    for (b->n = 0; b->n < BATCH && (rc = fy_merges_next(m, e)) == 1; b->n++) {
        fy_str_add(&b->texts, m->left.ptr, m->left.len);
        b->middle[b->n] = b->texts.len;
        fy_str_add(&b->texts, m->right.ptr, m->right.len);
        b->begin[b->n + 1] = b->texts.len;
    }
    return b->texts.oom ? fy_nomem(e) : rc;
}

/* Checks every merge against the vocabulary. scores: also gives each token minus the rank of the
 * first merge that makes it, so that merging by score does what merging by rank does. */
static int walk_merges(fy_hf_tokenizer *tokenizer, bool scores, fy_err *e)
{
    fy_merges m;
    merge_batch b = {.n = 0};
    if (fy_merges_open(&m, &tokenizer->merges, e) != 0)
        return -1;
    int rc = 1;
    while (rc == 1) {
        fy_err why = {0};
        rc = next_batch(&m, &b, &why);
        /* A wrong merge before a malformed one is reported first. */
        if (why.code != FY_ENOMEM && check_batch(&tokenizer->tokens, &b, scores, e) != 0)
            rc = -1;
        else if (rc < 0)
            fy_fail(e, why.code, "%s", why.msg);
    }
    tokenizer->n_merges = m.n;
    fy_merges_close(&m);
    fy_str_release(&b.texts);
    return rc;
}

/* `<0x00>` ... `<0xFF>`. A converter of transformers replaces the byte token of a character that
 * the vocabulary lacks by the character itself ("\t" in gemma); it is put back, or byte fallback
 * would have a hole. */
static int restore_byte_tokens(fy_token_table *t, fy_err *e)
{
    uint32_t first, id;
    bool has_first = fy_token_table_find(t, FY_SPAN("<0x00>"), &first);
    for (unsigned b = 0; b < 256; b++) {
        char name[8], byte = (char)b;
        int len = snprintf(name, sizeof name, "<0x%02X>", b);
        if (!fy_token_table_find(t, (fy_span){name, (size_t)len}, &id)) {
            if (!has_first || !fy_token_table_find(t, (fy_span){&byte, 1}, &id) || id != first + b)
                continue;
            fy_span text = fy_token_table_dup(t, (fy_span){name, (size_t)len});
            if (text.ptr == NULL || fy_token_table_rename(t, id, text, e) != 0)
                return fy_nomem(e);
        }
        t->rows[id].type = FY_TOKEN_BYTE;
        t->rows[id].score = 0;
    }
    return fy_token_table_reindex(t, e);
}

/* Scores and types as a tokenizer.model would have them. */
static int finish_spm_json(fy_hf_tokenizer *t, fy_err *e)
{
    fy_token_table *tokens = &t->tokens;
    uint32_t unk;
    for (uint32_t i = 0; i < tokens->n; i++)
        tokens->rows[i].score = NO_SCORE;
    if (walk_merges(t, true, e) != 0)
        return -1;
    for (uint32_t i = 0; i < tokens->n; i++) {
        if (tokens->rows[i].score ==
            NO_SCORE) /* no merge makes it: a single character, below all merges */
            tokens->rows[i].score = -(float)t->n_merges - 1;
    }
    if (restore_byte_tokens(tokens, e) != 0)
        return -1;
    if (t->json.unk_token.ptr != NULL && fy_token_table_find(tokens, t->json.unk_token, &unk))
        tokens->rows[unk].type = FY_TOKEN_UNKNOWN;
    return 0;
}

/* Types as a SentencePiece model would have them. */
static int finish_unigram_json(fy_hf_tokenizer *t, fy_err *e)
{
    const uint64_t unk = t->json.unk_id;
    if (unk != UINT64_MAX && unk >= t->tokens.n)
        return fy_fail(e, FY_EFORMAT, "model: unk_id %llu, but the vocabulary has %u",
                       (unsigned long long)unk, (unsigned)t->tokens.n);
    if (unk != UINT64_MAX)
        t->tokens.rows[unk].type = FY_TOKEN_UNKNOWN;
    return t->json.byte_fallback ? restore_byte_tokens(&t->tokens, e) : 0;
}

/* Word by word merging is what "llama" does only if no token reaches over the beginning of a word.
 */
static int check_words(const fy_hf_tokenizer *t, fy_err *e)
{
    for (uint32_t i = 0; t->pretok.splits_words && i < t->tokens.n; i++) {
        fy_span s = t->tokens.rows[i].text;
        if (s.len > 3 && memmem(s.ptr + 1, s.len - 1, BLANK, 3) != NULL) {
            char q[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EUNSUPPORTED,
                           "pre_tokenizer: Metaspace splits words, but token %u '%s' has a space "
                           "inside; supported is split = false",
                           (unsigned)i, fy_quote(q, sizeof q, s));
        }
    }
    return 0;
}

/* --- tokenizer.model --- */

static int check_spm(const fy_spm_info *s, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (s->model_type != FY_SPM_BPE && s->model_type != FY_SPM_UNIGRAM)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "a SentencePiece model of type %s; supported are BPE and Unigram",
                       fy_spm_type_name(s->model_type));
    if (s->suffix_whitespace || !s->escape_whitespaces)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "a SentencePiece model with %s; supported are spaces as U+2581 before words",
                       s->suffix_whitespace ? "treat_whitespace_as_suffix"
                                            : "escape_whitespaces = false");
    if (s->model_type == FY_SPM_UNIGRAM) /* what follows is part of it in GGUF */
        return 0;
    if (s->charsmap.len > 0)
        fy_log(FY_LOG_WARN,
               "tokenizer.model: its Unicode normalisation '%s' is not carried over: other ids for "
               "text "
               "that is not in that form",
               fy_quote(q, sizeof q, s->normalizer));
    if (s->remove_extra_whitespaces)
        fy_log(FY_LOG_WARN, "tokenizer.model: it drops extra spaces, which readers of GGUF do not: "
                            "other ids for such "
                            "text");
    return 0;
}

/* Does the vocabulary of tokenizer.json (in t->tokens) go beyond `model` or differ from it, added
 * tokens aside? */
static bool vocabularies_differ(fy_hf_tokenizer *t, const fy_token_table *model)
{
    fy_token_table *own = &t->tokens;
    for (size_t i = 0; i < t->added.n; i++) {
        if (t->added.v[i].id < own->n)
            own->rows[t->added.v[i].id].added = true;
    }
    for (uint32_t i = 0; i < own->n; i++) {
        const fy_token_row *r = &own->rows[i];
        bool ordinary = i >= model->n || model->rows[i].type == FY_TOKEN_NORMAL;
        if (r->type != FY_TOKEN_UNDEFINED && !r->added && ordinary &&
            (i >= model->n || !fy_span_eq(r->text, model->rows[i].text)))
            return true;
    }
    return t->json.unigram != (t->spm.model_type == FY_SPM_UNIGRAM);
}

/* Reads tokenizer.model, which T5 calls spiece.model, into `table`. 1: there is none. */
static int read_model(fy_hf_tokenizer *t, fy_token_table *table, fy_err *e)
{
    const char *name = "tokenizer.model";
    int rc = map_file(t, name, &t->model_map, e);
    if (rc == 1)
        rc = map_file(t, name = "spiece.model", &t->model_map, e);
    if (rc != 0)
        return rc;
    if (fy_spm_parse(t->model_map.data, t->model_map.size, table, &t->spm, e) == 0 &&
        check_spm(&t->spm, e) == 0)
        return 0;
    return in_file(t, name, e);
}

static const char *string_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Without tokenizer.json: transformers builds one, by these two settings. InternLM2's own class
 * strips a leading space from what it decodes. */
static void spm_prefix_of_config(fy_hf_tokenizer *t)
{
    const json_t *c = t->config.tokenizer;
    const bool unigram = t->spm.model_type == FY_SPM_UNIGRAM;
    t->pretok = (fy_pretok){.kind = unigram ? FY_TOKENIZER_UNIGRAM : FY_TOKENIZER_SPM,
                            .pre = "default",
                            .space_prefix = t->spm.add_dummy_prefix};
    if (json_is_false(json_object_get(c, "add_prefix_space")))
        t->pretok.space_prefix = false;
    if (t->pretok.space_prefix && json_is_false(json_object_get(c, "legacy")))
        t->pretok.space_mode = "metaspace-first";
    const char *class = string_of(c, "tokenizer_class");
    t->pretok.strips_space =
        !t->pretok.space_prefix && class != NULL && strcmp(class, "InternLM2Tokenizer") == 0;
}

/* Runs of U+2581 merge in the order of tokenizer.json, if it is there. */
static int rank_blank_runs(fy_hf_tokenizer *t, fy_err *e)
{
    fy_token_table *tokens = &t->tokens;
    const float top = (float)tokens->n;
    fy_merges m;
    fy_str text = {0};
    uint32_t n = 0, id;
    int rc = fy_added_tokens_unescape(tokens, e);
    for (uint32_t i = 0; i < tokens->n; i++)
        n += tokens->rows[i].merged;
    if (rc != 0 || n == 0 || !t->has_json)
        return rc;
    if (fy_merges_open(&m, &t->merges, e) != 0)
        return -1;
    for (uint32_t found = 0; found < n && (rc = fy_merges_next(&m, e)) == 1;) {
        if (!fy_span_begins(m.left, BLANK) || !fy_span_begins(m.right, BLANK))
            continue;
        fy_str_clear(&text);
        fy_str_add(&text, m.left.ptr, m.left.len);
        fy_str_add(&text, m.right.ptr, m.right.len);
        if (!fy_token_table_find(tokens, (fy_span){text.ptr, text.len}, &id) ||
            !tokens->rows[id].merged || tokens->rows[id].score > top)
            continue;
        tokens->rows[id].score = top + (float)(n - found++);
    }
    fy_merges_close(&m);
    rc = text.oom ? fy_nomem(e) : rc < 0 ? -1 : 0;
    fy_str_release(&text);
    return rc;
}

/* tokenizer.model has the real scores and types: it is preferred to what can be
 * reconstructed from tokenizer.json. */
static int prefer_model(fy_hf_tokenizer *t, fy_err *e)
{
    fy_token_table table = {0};
    fy_err why = {0};
    int rc = read_model(t, &table, &why);
    if (rc == 0 && (!t->has_json || !vocabularies_differ(t, &table))) {
        t->json_texts = t->tokens.arena; /* texts of added tokens live there */
        t->tokens.arena = (fy_arena){0};
        fy_token_table_release(&t->tokens);
        t->tokens = table;
        t->has_model = true;
        if (!t->has_json)
            spm_prefix_of_config(t);
        t->charsmap = t->spm.charsmap;
        t->trims = t->spm.remove_extra_whitespaces;
        /* A Unigram finds its own user-defined pieces, as they are written. */
        return t->pretok.kind == FY_TOKENIZER_UNIGRAM ? 0 : rank_blank_runs(t, e);
    }
    fy_token_table_release(&table);
    if (rc == 0)
        fy_log(FY_LOG_WARN,
               "%s: tokenizer.model and tokenizer.json hold different vocabularies; "
               "tokenizer.json is used",
               t->dir);
    else if (rc < 0 && t->has_json && why.code != FY_ENOMEM)
        fy_log(FY_LOG_WARN, "%s; tokenizer.json is used", why.msg);
    else if (rc < 0)
        return fy_fail(e, why.code, "%s", why.msg);
    return 0;
}

/* --- all together --- */

static int read_unigram_steps(fy_hf_tokenizer *t, fy_err *e)
{
    fy_unigram_steps s;
    int rc = fy_unigram_match(t->json.normalizer, t->json.pre_tokenizer, &s, e);
    t->pretok = s.pretok;
    t->trims = s.trims;
    t->rules = s.rules;
    t->json_charsmap = s.charsmap;
    t->charsmap = (fy_span){s.charsmap.ptr, s.charsmap.len};
    return rc;
}

static int match_json(fy_hf_tokenizer *t, fy_err *e)
{
    const fy_tokenizer_json *j = &t->json;
    if (j->unigram)
        return read_unigram_steps(t, e);
    const fy_pretok_input in = {
        .normalizer = j->normalizer,
        .pre_tokenizer = j->pre_tokenizer,
        .decoder = j->decoder,
        .byte_fallback = j->byte_fallback,
        .ignore_merges = j->ignore_merges,
    };
    return fy_pretok_match(&in, t->force_pre, &t->pretok, e);
}

static int read_json(fy_hf_tokenizer *t, fy_err *e)
{
    int rc = map_file(t, "tokenizer.json", &t->json_map, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    fy_tokenizer_json *j = &t->json;
    if (fy_tokenizer_json_parse(t->json_map.data, t->json_map.size, j, &t->tokens, &t->added, e) !=
            0 ||
        match_json(t, e) != 0)
        return in_file(t, "tokenizer.json", e);
    t->merges = j->merges;
    t->has_json = true;
    return 0;
}

/* The rest of a byte-level tokenizer whose files hold tokens and merges only. */
static int byte_level_of_class(fy_hf_tokenizer *t, fy_merge_source merges, fy_err *e)
{
    const json_t *c = t->config.tokenizer;
    if (json_is_true(json_object_get(c, "add_prefix_space")))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: tokenizer_config.json: add_prefix_space is true, which GGUF has no "
                       "key for in a byte-level BPE",
                       t->dir);
    if (fy_pretok_of_class(string_of(c, "tokenizer_class"),
                           string_of(t->config.model, "model_type"), t->force_pre, &t->tokens,
                           &t->pretok, e) != 0)
        return fy_ctx(e, "%s", t->dir);
    t->merges = merges;
    return fy_tokenizer_config_added_named(&t->config, &t->tokens, &t->added, e);
}

/* vocab.json and merges.txt alone, as GPT-2's own code reads them. 1: they are not both there. */
static int read_vocab_files(fy_hf_tokenizer *t, fy_err *e)
{
    int rc = map_file(t, "merges.txt", &t->merges_map, e);
    if (rc == 0)
        rc = map_file(t, "vocab.json", &t->json_map, e);
    if (rc != 0)
        return rc;
    if (fy_vocab_json_parse(t->json_map.data, t->json_map.size, &t->tokens, e) != 0)
        return fy_ctx(e, "%s/vocab.json", t->dir);
    const fy_merge_source lines = {
        .data = (const char *)t->merges_map.data, .size = t->merges_map.size, .lines = true};
    return byte_level_of_class(t, lines, e);
}

static bool is_forced(const fy_hf_tokenizer *t, const char *pre)
{
    return t->force_pre != NULL && strcmp(t->force_pre, pre) == 0;
}

/* Ranks alone do not define how words are cut. They are those of Llama 3 or 4 if Meta's params.json
 * is next to them or --pre names Llama's rules. */
static bool is_meta(const fy_hf_tokenizer *t)
{
    return t->config.tokenizer == NULL &&
           (t->config.params != NULL || is_forced(t, "llama-bpe") || is_forced(t, "llama4"));
}

/* Of the two, Llama 4 has the larger vocabulary, and experts. */
static bool is_meta_llama4(const fy_hf_tokenizer *t)
{
    enum { LLAMA4_RANKS = 200000 };
    return t->force_pre != NULL
               ? is_forced(t, "llama4")
               : t->tokens.n >= LLAMA4_RANKS || json_object_get(t->config.params, "moe_args");
}

static int read_meta(fy_hf_tokenizer *t, fy_merge_source merges, fy_err *e)
{
    const double n_rows = json_number_value(json_object_get(t->config.params, "vocab_size"));
    const uint64_t rows = n_rows > 0 && n_rows < FY_TOKENS_MAX ? (uint64_t)n_rows : 0;
    const bool llama4 = is_meta_llama4(t);
    t->pretok = (fy_pretok){.kind = FY_TOKENIZER_BPE,
                            .pre = t->force_pre != NULL ? t->force_pre
                                   : llama4             ? "llama4"
                                                        : "llama-bpe"};
    t->merges = merges;
    t->is_meta = true;
    if (llama4 ? fy_llama4_tokens_add(&t->tokens, e) != 0
               : fy_meta_tokens_add(&t->tokens, rows, e) != 0)
        return in_file(t, "tokenizer.model", e);
    return 0;
}

/* 1: there is none. */
static int read_rwkv(fy_hf_tokenizer *t, fy_err *e)
{
    fy_map m = {0};
    int rc = map_file(t, FY_RWKV_VOCAB_NAME, &m, e);
    if (rc != 0)
        return rc;
    t->pretok = (fy_pretok){.kind = FY_TOKENIZER_RWKV};
    rc = fy_rwkv_vocab_parse(m.data, m.size, &t->tokens, e);
    if (rc != 0)
        in_file(t, FY_RWKV_VOCAB_NAME, e);
    fy_map_close(&m);
    return rc;
}

/* 1: there is none: tokenizer.model may be something else. */
static int read_rank_file(fy_hf_tokenizer *t, fy_err *e)
{
    fy_map m = {0};
    const char *name = "tokenizer.model";
    int rc = map_file(t, name, &m, e);
    if (rc == 1)
        rc = map_file(t, name = "tiktoken.model", &m, e);
    if (rc != 0)
        return rc;
    rc = 1;
    if (fy_rank_file_is(m.data, m.size)) {
        rc = fy_rank_file_parse(m.data, m.size, &t->tokens, &t->merge_lines, e);
        if (rc != 0)
            in_file(t, name, e);
    }
    fy_map_close(&m);
    if (rc != 0)
        return rc;
    const fy_merge_source lines = {
        .data = t->merge_lines.ptr, .size = t->merge_lines.len, .lines = true};
    return is_meta(t) ? read_meta(t, lines, e) : byte_level_of_class(t, lines, e);
}

static int fail_absent(const fy_hf_tokenizer *t, fy_err *e)
{
    static const struct {
        const char *file, *what;
    } others[] = {{"vocab.json", "a vocab.json without merges.txt"},
                  {"tekken.json", "a tekken.json without tokenizer.json"},
                  {"qwen.tiktoken", "a tiktoken vocabulary without tokenizer.json"},
                  {"vocab.txt", "a WordPiece vocabulary (vocab.txt)"},
                  {"sentencepiece.bpe.model", "a SentencePiece model in fairseq's order"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path = fy_path_join(t->dir, others[i].file);
        if (path == NULL)
            return fy_nomem(e);
        bool there = fy_file_exists(path);
        free(path);
        if (there)
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s: only %s; supported are tokenizer.json (BPE, Unigram), "
                           "tokenizer.model (SentencePiece), ranks of tiktoken (tokenizer.model, "
                           "tiktoken.model), vocab.json with merges.txt and " FY_RWKV_VOCAB_NAME,
                           t->dir, others[i].what);
    }
    return fy_fail(
        e, FY_EIO,
        "%s: no tokenizer.json and no tokenizer.model; download them to where config.json is (a "
        "model of RWKV in one .pth file wants " FY_RWKV_VOCAB_NAME " next to it)",
        t->dir);
}

/* From the first of the containers that is there. */
static int read_vocabulary(fy_hf_tokenizer *t, fy_err *e)
{
    if (read_json(t, e) != 0)
        return -1;
    int rc = t->has_json ? 1 : read_rank_file(t, e);
    if (rc <= 0)
        return rc;
    if ((!t->has_json || t->pretok.kind == FY_TOKENIZER_SPM) && prefer_model(t, e) != 0)
        return -1;
    if (t->has_json || t->has_model)
        return 0;
    rc = read_vocab_files(t, e);
    if (rc > 0)
        rc = read_rwkv(t, e);
    return rc > 0 ? fail_absent(t, e) : rc;
}

/* Tokens after the vocabulary that only the code of ChatGLM's class lists, for ids that no file
 * fills. Its code finds none of them in a text: "people" holds no "eop". */
static int add_chatglm_tokens(fy_hf_tokenizer *t, uint32_t first, fy_err *e)
{
    static const char *const texts[] = {"[MASK]",   "[gMASK]",       "[sMASK]",
                                        "sop",      "eop",           "<|system|>",
                                        "<|user|>", "<|assistant|>", "<|observation|>"};
    const char *class = string_of(t->config.tokenizer, "tokenizer_class");
    if (t->pretok.kind != FY_TOKENIZER_SPM || class == NULL ||
        strcmp(class, "ChatGLMTokenizer") != 0)
        return 0;
    fy_added_tokens missing = {0};
    int rc = 0;
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts && rc == 0; i++) {
        uint32_t id = first + i, other;
        fy_span text = fy_span_of(texts[i]);
        const uint8_t flags = texts[i][0] >= 'a' ? FY_ADDED_SINGLE_WORD : 0;
        bool hole = id >= t->tokens.n || t->tokens.rows[id].type == FY_TOKEN_UNDEFINED;
        if (hole && !fy_token_table_find(&t->tokens, text, &other))
            rc = fy_added_tokens_push(&missing, id, text, true, flags, e);
    }
    if (rc == 0)
        rc = fy_added_tokens_apply(&missing, true, &t->tokens, e);
    fy_added_tokens_release(&missing);
    return rc;
}

/* Kimi's class has 256 special tokens after the ranks; tokenizer_config.json names some. */
static int add_kimi_tokens(fy_hf_tokenizer *t, uint32_t first, fy_err *e)
{
    const char *class = string_of(t->config.tokenizer, "tokenizer_class");
    if (t->merge_lines.len == 0 || class == NULL || strcmp(class, "TikTokenTokenizer") != 0)
        return 0;
    for (uint32_t id = first; id < first + FY_META_TOKENS; id++) {
        char text[40];
        if (id < t->tokens.n && t->tokens.rows[id].type != FY_TOKEN_UNDEFINED) {
            t->tokens.rows[id].type = FY_TOKEN_CONTROL;
            continue;
        }
        snprintf(text, sizeof text, "<|reserved_token_%u|>", (unsigned)id);
        if (fy_token_table_put(&t->tokens, id, fy_span_of(text), true, e) != 0)
            return -1;
        t->tokens.rows[id].type = FY_TOKEN_CONTROL;
        t->tokens.rows[id].added = true;
    }
    return 0;
}

/* By this name, readers of GGUF add no BOS to a GLM. Words are cut as in dbrx. */
static void name_glm(fy_hf_tokenizer *t)
{
    uint32_t id;
    if (t->force_pre == NULL && t->pretok.pre != NULL && strcmp(t->pretok.pre, "dbrx") == 0 &&
        fy_token_table_find(&t->tokens, FY_SPAN("[gMASK]"), &id))
        t->pretok.pre = "chatglm-bpe";
}

/* Readers know Gemma 4's vocabulary by a name of its own, with its merges. */
static void name_gemma4(fy_hf_tokenizer *t)
{
    const char *type = string_of(t->config.model, "model_type");
    if (t->pretok.kind != FY_TOKENIZER_SPM || t->has_model || type == NULL ||
        !fy_span_begins(fy_span_of(type), "gemma4"))
        return;
    t->pretok.by_rank = true;
    t->pretok.pre = NULL;
}

/* Which of a directory's files one file stands for. */
static int find_role(fy_hf_tokenizer *t, fy_err *e)
{
    fy_map m = {0};
    if (fy_tokenizer_config_map_path(t->dir, &m, e) != 0)
        return -1;
    const char *p = (const char *)m.data;
    size_t i = 0;
    while (i < m.size && (p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n'))
        i++;
    bool ranks = fy_rank_file_is(p, m.size);
    if (i < m.size && p[i] == '{')
        t->one = "tokenizer.json";
    else
        t->one = !ranks && fy_rwkv_vocab_is(p, m.size) ? FY_RWKV_VOCAB_NAME : "tokenizer.model";
    fy_map_close(&m);
    return 0;
}

/* Scores, types and checks that a vocabulary needs before added tokens come on top. */
static int finish_vocabulary(fy_hf_tokenizer *t, fy_err *e)
{
    switch (t->pretok.kind) {
    case FY_TOKENIZER_BPE:
        return walk_merges(t, false, e);
    case FY_TOKENIZER_SPM:
        return !t->has_model && finish_spm_json(t, e) != 0 ? -1 : check_words(t, e);
    case FY_TOKENIZER_UNIGRAM:
        return t->has_model ? 0 : finish_unigram_json(t, e);
    case FY_TOKENIZER_RWKV:
        break;
    }
    return 0;
}

/* RWKV's files have no template; one format is common to all of World. */
static int add_usual_template(fy_hf_tokenizer *t, fy_err *e)
{
    if (t->pretok.kind != FY_TOKENIZER_RWKV || t->templates == NULL ||
        json_object_size(t->templates) > 0)
        return 0;
    return fy_hf_tokenizer_use_template(t, "rwkv-world", e);
}

static int read_all(fy_hf_tokenizer *t, fy_err *e)
{
    if (!fy_file_is_dir(t->dir)
            ? find_role(t, e) != 0
            : fy_tokenizer_config_read(t->dir, &t->config, e) != 0 ||
                  (t->templates = fy_hf_templates_read(t->dir, t->config.tokenizer, e)) == NULL)
        return -1;
    if (fy_tokenizer_config_added_old(&t->config, &t->added, e) != 0)
        return fy_ctx(e, "%s", t->dir);
    if (read_vocabulary(t, e) != 0 || add_usual_template(t, e) != 0)
        return -1;
    if (t->force_pre != NULL && t->pretok.kind != FY_TOKENIZER_BPE)
        return fy_fail(e, FY_EARG,
                       "--pre %s: %s holds %s, which has no pre-tokenizer to choose; leave the "
                       "option out",
                       t->force_pre, t->dir,
                       t->pretok.kind == FY_TOKENIZER_RWKV ? "an RWKV vocabulary"
                                                           : "a SentencePiece tokenizer");
    bool spm = t->pretok.kind == FY_TOKENIZER_SPM;
    if (finish_vocabulary(t, e) != 0)
        return in_file(t, t->merges.lines ? "merges.txt" : "tokenizer.json", e);
    uint32_t n_own = t->tokens.n;
    if (fy_tokenizer_config_added(&t->config, &t->added, e) != 0 ||
        fy_added_tokens_apply(&t->added, spm, &t->tokens, e) != 0 ||
        add_chatglm_tokens(t, n_own, e) != 0 || add_kimi_tokens(t, n_own, e) != 0)
        return fy_ctx(e, "%s", t->dir);
    name_glm(t);
    name_gemma4(t);
    fy_special_ids_find(t, &t->special);
    return 0;
}

fy_hf_tokenizer *fy_hf_tokenizer_open(const char *path, const char *force_pre, fy_err *e)
{
    fy_hf_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL || (t->dir = strdup(path)) == NULL ||
        (force_pre != NULL && (t->force_pre = strdup(force_pre)) == NULL)) {
        fy_nomem(e);
    } else if (read_all(t, e) == 0) {
        return t;
    }
    fy_hf_tokenizer_free(t);
    return NULL;
}

int fy_hf_tokenizer_use_template(fy_hf_tokenizer *t, const char *which, fy_err *e)
{
    json_decref(t->templates);
    t->templates = fy_hf_templates_of(which, e);
    return t->templates != NULL ? 0 : -1;
}

void fy_hf_tokenizer_free(fy_hf_tokenizer *t)
{
    if (t == NULL)
        return;
    fy_tokenizer_json_release(&t->json);
    json_decref(t->templates);
    fy_tokenizer_config_release(&t->config);
    fy_added_tokens_release(&t->added);
    fy_token_table_release(&t->tokens);
    fy_arena_release(&t->json_texts);
    fy_map_close(&t->json_map);
    fy_map_close(&t->model_map);
    fy_map_close(&t->merges_map);
    fy_str_release(&t->merge_lines);
    fy_str_release(&t->json_charsmap);
    free(t->dir);
    free(t->force_pre);
    free(t);
}

uint32_t fy_hf_tokenizer_n_tokens(const fy_hf_tokenizer *t)
{
    return t->tokens.n;
}
