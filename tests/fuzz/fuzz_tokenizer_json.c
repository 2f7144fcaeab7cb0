/* tokenizer.json: whatever the bytes are, it refuses them, or all of it can be used: the vocabulary
 * looked up, the merges walked, the structure matched, the added tokens applied. The same bytes are
 * read as a vocab.json and a merges.txt. */
#include <stdint.h>
#include <stdlib.h>

#include "convert/tokenizer/pretok_match.h"
#include "convert/tokenizer/tokenizer_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_explain(const fy_err *e)
{
    if (e->code == FY_OK || e->msg[0] == '\0')
        abort();
}

static void check_table(const fy_token_table *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t id;
        if (t->rows[i].type != FY_TOKEN_UNDEFINED &&
            (!fy_token_table_find(t, t->rows[i].text, &id) || id != i || t->rows[i].text.len == 0))
            abort();
    }
}

static void walk_merges(const fy_merge_source *source, const fy_token_table *t)
{
    fy_err e = {0};
    fy_merges m;
    int rc;
    if (fy_merges_open(&m, source, &e) != 0)
        abort();
    while ((rc = fy_merges_next(&m, &e)) == 1) {
        uint32_t id;
        if (m.left.len == 0 || m.right.len == 0)
            abort();
        (void)fy_token_table_find(t, m.left, &id);
        (void)fy_token_table_find(t, m.right, &id);
    }
    if (rc < 0)
        must_explain(&e);
    fy_merges_close(&m);
}

static void read_vocab_files(const char *data, size_t size)
{
    const fy_merge_source lines = {.data = data, .size = size, .lines = true};
    fy_token_table t = {0};
    fy_err e = {0};
    if (fy_vocab_json_parse(data, size, &t, &e) != 0)
        must_explain(&e);
    else
        check_table(&t);
    walk_merges(&lines, &t);
    fy_token_table_release(&t);
}

static void match_unigram(const fy_tokenizer_json *tj)
{
    fy_unigram_steps steps;
    fy_err e = {0};
    if (fy_unigram_match(tj->normalizer, tj->pre_tokenizer, &steps, &e) != 0)
        must_explain(&e);
    fy_str_release(&steps.charsmap);
}

static void match_bpe(const fy_tokenizer_json *tj, const fy_token_table *t)
{
    const fy_pretok_input in = {.normalizer = tj->normalizer,
                                .pre_tokenizer = tj->pre_tokenizer,
                                .decoder = tj->decoder,
                                .byte_fallback = tj->byte_fallback,
                                .ignore_merges = tj->ignore_merges};
    fy_pretok pretok;
    fy_err e = {0};
    walk_merges(&tj->merges, t);
    if (fy_pretok_match(&in, NULL, &pretok, &e) != 0)
        must_explain(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_token_table t = {0};
    fy_added_tokens added = {0};
    fy_tokenizer_json tj;
    fy_err e = {0}, e2 = {0};
    if (fy_tokenizer_json_parse(data, size, &tj, &t, &added, &e) != 0) {
        must_explain(&e);
    } else {
        check_table(&t);
        if (tj.unigram)
            match_unigram(&tj);
        else
            match_bpe(&tj, &t);
        if (fy_added_tokens_apply(&added, !tj.unigram, &t, &e2) != 0)
            must_explain(&e2);
        else
            check_table(&t);
    }
    fy_tokenizer_json_release(&tj);
    fy_token_table_release(&t);
    fy_added_tokens_release(&added);
    read_vocab_files((const char *)data, size);
    return 0;
}
