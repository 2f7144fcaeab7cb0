/* Reads tokenizer.json and vocab.json in one streaming pass, and the merges of either container on
 * demand. Only the small members become jansson trees. */
#include "convert/tokenizer/tokenizer_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/log.h"

/* === merges === */

/* --- merges --- */

int fy_merges_open(fy_merges *m, const fy_merge_source *source, fy_err *e)
{
    *m = (fy_merges){0};
    if (source->lines) {
        m->rest = (fy_span){source->data, source->size};
        return 0;
    }
    m->j = fy_json_new(source->data, source->size, e);
    if (m->j == NULL || fy_json_array_begin(m->j, e) != 0) {
        fy_merges_close(m);
        return -1;
    }
    return 0;
}

/* "left right": exactly one space, inside. */
static int split_merge(fy_merges *m, fy_span s, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const char *space = s.len == 0 ? NULL : memchr(s.ptr, ' ', s.len);
    size_t left = space == NULL ? 0 : (size_t)(space - s.ptr);
    if (left == 0 || left + 1 == s.len || memchr(space + 1, ' ', s.len - left - 1) != NULL)
        return fy_fail(e, FY_EFORMAT, "'%s', expected two texts with one space between",
                       fy_quote(q, sizeof q, s));
    m->left = (fy_span){s.ptr, left};
    m->right = (fy_span){s.ptr + left + 1, s.len - left - 1};
    return 0;
}

/* One text of a pair, appended to m->pair: a view of the reader would not survive the next call. */
static int pair_text(fy_merges *m, size_t *len, fy_err *e)
{
    fy_span s = {NULL, 0};
    int rc = fy_json_array_next(m->j, e);
    if (rc == 1 && fy_json_string(m->j, &s, NULL, e) == 0) {
        fy_str_add(&m->pair, s.ptr, s.len);
        *len = s.len;
        rc = m->pair.oom ? fy_nomem(e) : 0;
    }
    if (rc == 0 && s.len > 0)
        return 0;
    return fy_fail(e, FY_EFORMAT, "expected an array of two texts");
}

/* ["left", "right"] */
static int pair_merge(fy_merges *m, fy_err *e)
{
    size_t left = 0, right = 0;
    fy_str_clear(&m->pair);
    if (fy_json_array_begin(m->j, e) != 0 || pair_text(m, &left, e) != 0 ||
        pair_text(m, &right, e) != 0)
        return -1;
    int rc = fy_json_array_next(m->j, e);
    if (rc != 0)
        return rc < 0 ? -1 : fy_fail(e, FY_EFORMAT, "expected an array of two texts");
    m->left = (fy_span){m->pair.ptr, left};
    m->right = (fy_span){m->pair.ptr + left, right};
    return 0;
}

static int next_of_array(fy_merges *m, fy_err *e)
{
    fy_span s;
    int rc = fy_json_array_next(m->j, e);
    if (rc != 1)
        return rc;
    if (fy_json_peek(m->j) == FY_JSON_ARRAY)
        rc = pair_merge(m, e);
    else if ((rc = fy_json_string(m->j, &s, NULL, e)) == 0)
        rc = split_merge(m, s, e);
    return rc == 0 ? 1 : fy_ctx(e, "merges[%llu]", (unsigned long long)m->n);
}

static bool is_version(fy_span line)
{
    const char mark[] = "#version";
    return line.len >= sizeof mark - 1 && memcmp(line.ptr, mark, sizeof mark - 1) == 0;
}

/* The first line names the version of the format. */
static int next_of_lines(fy_merges *m, fy_err *e)
{
    while (m->rest.len > 0) {
        fy_span line = fy_span_cut_line(&m->rest);
        m->line++;
        if (line.len == 0 || (m->line == 1 && is_version(line)))
            continue;
        return split_merge(m, line, e) == 0 ? 1
                                            : fy_ctx(e, "line %llu", (unsigned long long)m->line);
    }
    return 0;
}

int fy_merges_next(fy_merges *m, fy_err *e)
{
    if (m->n % 4096 == 0 && fy_check_interrupt(e) != 0)
        return -1;
    int rc = m->j != NULL ? next_of_array(m, e) : next_of_lines(m, e);
    if (rc == 1)
        m->n++;
    return rc;
}

void fy_merges_close(fy_merges *m)
{
    fy_json_free(m->j);
    fy_str_release(&m->pair);
    *m = (fy_merges){0};
}

typedef struct {
    fy_json *j;
    fy_tokenizer_json *out;
    fy_token_table *t;
    fy_added_tokens *added;
    fy_span type; /* of the model, in the table's arena; ptr NULL: not stated */
    bool has_model, has_merges, vocab_is_list;
    const char *prefixed; /* a model setting that changes token texts and is set */
} reader;

/* --- scalars --- */

/* A string that outlives the reader: a view of the input or a copy in the table's arena. */
static int kept_string(reader *r, fy_span *out, fy_err *e)
{
    bool in_input;
    if (fy_json_string(r->j, out, &in_input, e) != 0)
        return -1;
    if (!in_input && (*out = fy_token_table_dup(r->t, *out)).ptr == NULL)
        return fy_nomem(e);
    return 0;
}

/* A string or null (out->ptr stays NULL). */
static int optional_string(reader *r, fy_span *out, fy_err *e)
{
    if (fy_json_peek(r->j) == FY_JSON_NULL)
        return fy_json_null(r->j, e);
    return kept_string(r, out, e);
}

static int optional_bool(reader *r, bool *out, fy_err *e)
{
    if (fy_json_peek(r->j) == FY_JSON_NULL)
        return fy_json_null(r->j, e);
    return fy_json_bool(r->j, out, e);
}

/* A small value as a jansson tree. */
static int read_tree(reader *r, const char *what, json_t **out, fy_err *e)
{
    size_t begin = fy_json_offset(r->j);
    if (fy_json_skip(r->j, e) != 0)
        return fy_ctx(e, "%s", what);
    *out = fy_json_tree(r->out->data + begin, fy_json_offset(r->j) - begin, e);
    return *out != NULL ? 0 : fy_ctx(e, "%s", what);
}

/* --- added_tokens --- */

static int added_member(reader *r, fy_span key, uint64_t *id, fy_added_token *a, fy_err *e)
{
    uint8_t flag = fy_added_token_flag(key);
    bool on = false;
    if (fy_span_is(key, "id"))
        return fy_json_u64(r->j, id, e);
    if (fy_span_is(key, "content"))
        return kept_string(r, &a->text, e);
    if (fy_span_is(key, "special"))
        return optional_bool(r, &a->special, e);
    if (flag == 0)
        return fy_json_skip(r->j, e);
    if (optional_bool(r, &on, e) != 0)
        return -1;
    if (on)
        a->flags |= flag;
    return 0;
}

static int read_added_one(reader *r, fy_err *e)
{
    uint64_t id = UINT64_MAX;
    fy_added_token a = {.text = {NULL, 0}};
    fy_span key;
    int rc;
    if (fy_json_object_begin(r->j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(r->j, &key, e)) == 1) {
        if (added_member(r, key, &id, &a, e) != 0)
            return -1;
    }
    if (rc < 0)
        return -1;
    if (id == UINT64_MAX || a.text.ptr == NULL)
        return fy_fail(e, FY_EFORMAT, "no '%s'", id == UINT64_MAX ? "id" : "content");
    return fy_added_tokens_push(r->added, id, a.text, a.special, a.flags, e);
}

static int read_added(reader *r, fy_err *e)
{
    if (fy_json_peek(r->j) == FY_JSON_NULL)
        return fy_json_null(r->j, e);
    int rc = fy_json_array_begin(r->j, e);
    for (size_t i = 0; rc == 0 && (rc = fy_json_array_next(r->j, e)) == 1; i++) {
        if ((rc = read_added_one(r, e)) != 0)
            return fy_ctx(e, "added_tokens[%zu]", i);
    }
    return rc;
}

/* --- model --- */

/* ["piece", score] */
static int read_scored_one(reader *r, uint32_t id, fy_err *e)
{
    fy_span text = {NULL, 0};
    double score = NAN;
    int rc = fy_json_array_begin(r->j, e), n = 0;
    for (; rc == 0 && (rc = fy_json_array_next(r->j, e)) == 1; n++)
        rc = n == 0 ? kept_string(r, &text, e) : n == 1 ? fy_json_double(r->j, &score, e) : -1;
    if (rc != 0 || n != 2 || !isfinite((float)score))
        return fy_fail(e, FY_EFORMAT, "expected a pair of a text and a score");
    if (fy_token_table_put(r->t, id, text, false, e) != 0)
        return -1;
    r->t->rows[id].score = (float)score;
    return 0;
}

/* The vocabulary of a Unigram: its ids are the places in the list. */
static int read_scored(reader *r, fy_err *e)
{
    int rc = fy_json_array_begin(r->j, e);
    for (uint32_t i = 0; rc == 0 && (rc = fy_json_array_next(r->j, e)) == 1; i++) {
        if ((rc = read_scored_one(r, i, e)) != 0)
            return fy_ctx(e, "vocab[%u]", (unsigned)i);
    }
    return rc;
}

static int read_vocab(reader *r, fy_err *e)
{
    if (fy_json_peek(r->j) == FY_JSON_ARRAY) {
        r->vocab_is_list = true;
        return read_scored(r, e);
    }
    const uintptr_t begin = (uintptr_t)r->out->data, end = begin + r->out->size;
    fy_span key;
    uint64_t id;
    bool has_empty = false;
    int rc;
    /* The table refuses a second equal text, but it renames empty ones: they are checked here. */
    r->t->unindexed = true;
    if (fy_json_object_begin_unchecked(r->j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(r->j, &key, e)) == 1) {
        if (key.len == 0 && has_empty)
            return fy_fail(e, FY_EFORMAT, "vocab: two empty tokens, expected unique texts");
        has_empty = has_empty || key.len == 0;
        bool in_input = (uintptr_t)key.ptr >= begin && (uintptr_t)key.ptr < end;
        if (!in_input && (key = fy_token_table_dup(r->t, key)).ptr == NULL)
            return fy_nomem(e);
        if (fy_json_u64(r->j, &id, e) != 0) {
            char q[FY_QUOTE_BYTES];
            return fy_ctx(e, "id of token '%s'", fy_quote(q, sizeof q, key));
        }
        if (fy_token_table_put(r->t, id, key, false, e) != 0)
            return -1;
    }
    return rc == 0 ? fy_token_table_reindex(r->t, e) : rc;
}

static int read_merges_place(reader *r, fy_err *e)
{
    if (fy_json_peek(r->j) == FY_JSON_ARRAY) {
        size_t at = fy_json_offset(r->j);
        r->out->merges = (fy_merge_source){.data = r->out->data + at, .size = r->out->size - at};
        r->has_merges = true;
    }
    return fy_json_skip(r->j, e);
}

/* A prefix or suffix that marks parts of words; null and "" are the same. */
static int read_affix(reader *r, const char *name, fy_err *e)
{
    fy_span s = {NULL, 0};
    if (optional_string(r, &s, e) != 0)
        return -1;
    if (s.len > 0)
        r->prefixed = name;
    return 0;
}

static int model_member(reader *r, fy_span key, fy_err *e)
{
    if (fy_span_is(key, "type"))
        return kept_string(r, &r->type, e);
    if (fy_span_is(key, "vocab"))
        return read_vocab(r, e);
    if (fy_span_is(key, "merges"))
        return read_merges_place(r, e);
    if (fy_span_is(key, "unk_id") && fy_json_peek(r->j) == FY_JSON_NUMBER)
        return fy_json_u64(r->j, &r->out->unk_id, e);
    if (fy_span_is(key, "unk_token"))
        return optional_string(r, &r->out->unk_token, e);
    if (fy_span_is(key, "byte_fallback"))
        return optional_bool(r, &r->out->byte_fallback, e);
    if (fy_span_is(key, "ignore_merges"))
        return optional_bool(r, &r->out->ignore_merges, e);
    if (fy_span_is(key, "continuing_subword_prefix"))
        return read_affix(r, "continuing_subword_prefix", e);
    if (fy_span_is(key, "end_of_word_suffix"))
        return read_affix(r, "end_of_word_suffix", e);
    return fy_json_skip(r->j, e);
}

static int read_model(reader *r, fy_err *e)
{
    fy_span key;
    int rc;
    r->has_model = true;
    if (fy_json_object_begin(r->j, e) != 0)
        return -1;
    while ((rc = fy_json_object_next(r->j, &key, e)) == 1) {
        if (model_member(r, key, e) != 0)
            return -1;
    }
    return rc;
}

static int check_model(reader *r, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    if (!r->has_model)
        return fy_fail(e, FY_EFORMAT,
                       "no 'model': this is not a tokenizer.json of the tokenizers library");
    bool unigram = r->type.ptr != NULL ? fy_span_is(r->type, "Unigram") : r->vocab_is_list;
    if (r->type.ptr != NULL && !fy_span_is(r->type, "BPE") && !unigram)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "model: a %s tokenizer; supported are BPE and Unigram tokenizers",
                       fy_quote(q, sizeof q, r->type));
    if (r->vocab_is_list != unigram && r->t->n > 0)
        return fy_fail(e, FY_EFORMAT, "model: 'vocab' is %s, which does not fit a %s tokenizer",
                       r->vocab_is_list ? "a list" : "an object", unigram ? "Unigram" : "BPE");
    if (!r->has_merges && !unigram) /* files without 'type' are older than it: WordPiece and
                           WordLevel have no merges */
        return fy_fail(e, r->type.ptr == NULL ? FY_EUNSUPPORTED : FY_EFORMAT,
                       "model: no array 'merges', which a BPE tokenizer has");
    if (r->prefixed != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "model: '%s' is set; supported are BPE tokenizers without it", r->prefixed);
    if (r->t->n == 0)
        return fy_fail(e, FY_EFORMAT, "model: the vocabulary is empty");
    r->out->unigram = unigram;
    return 0;
}

int fy_vocab_json_parse(const void *p, size_t n, fy_token_table *t, fy_err *e)
{
    fy_tokenizer_json out = {.data = p, .size = n};
    reader r = {.out = &out, .t = t};
    r.j = fy_json_new(p, n, e);
    if (r.j == NULL)
        return -1;
    int rc = fy_json_peek(r.j) != FY_JSON_OBJECT
                 ? fy_fail(e, FY_EFORMAT, "expected an object of token texts and ids")
                 : read_vocab(&r, e);
    if (rc == 0)
        rc = fy_json_end(r.j, e);
    fy_json_free(r.j);
    if (rc == 0 && t->n == 0)
        rc = fy_fail(e, FY_EFORMAT, "the vocabulary is empty");
    return rc;
}

static int read_document(reader *r, fy_err *e)
{
    fy_tokenizer_json *o = r->out;
    fy_span key;
    int rc = fy_json_object_begin(r->j, e);
    while (rc == 0 && (rc = fy_json_object_next(r->j, &key, e)) == 1) {
        if (fy_span_is(key, "added_tokens"))
            rc = read_added(r, e);
        else if (fy_span_is(key, "model"))
            rc = read_model(r, e);
        else if (fy_span_is(key, "normalizer"))
            rc = read_tree(r, "normalizer", &o->normalizer, e);
        else if (fy_span_is(key, "pre_tokenizer"))
            rc = read_tree(r, "pre_tokenizer", &o->pre_tokenizer, e);
        else if (fy_span_is(key, "post_processor"))
            rc = read_tree(r, "post_processor", &o->post_processor, e);
        else if (fy_span_is(key, "decoder"))
            rc = read_tree(r, "decoder", &o->decoder, e);
        else
            rc = fy_json_skip(r->j, e);
    }
    return rc < 0 ? -1 : fy_json_end(r->j, e);
}

int fy_tokenizer_json_parse(const void *p, size_t n, fy_tokenizer_json *out, fy_token_table *t,
                            fy_added_tokens *added, fy_err *e)
{
    *out = (fy_tokenizer_json){.data = p, .size = n, .unk_id = UINT64_MAX};
    reader r = {.out = out, .t = t, .added = added};
    r.j = fy_json_new(p, n, e);
    if (r.j == NULL)
        return -1;
    int rc = read_document(&r, e) == 0 ? check_model(&r, e) : -1;
    fy_json_free(r.j);
    return rc;
}

void fy_tokenizer_json_release(fy_tokenizer_json *tj)
{
    json_decref(tj->normalizer);
    json_decref(tj->pre_tokenizer);
    json_decref(tj->post_processor);
    json_decref(tj->decoder);
    *tj = (fy_tokenizer_json){0};
}
