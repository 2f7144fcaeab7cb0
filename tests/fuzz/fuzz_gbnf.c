/* GBNF and masks: the input is a grammar, a NUL, and bytes that choose tokens. A grammar is refused
 * with a message or compiled; then along a text every mask is what brute force over a small
 * vocabulary says. */
#include <stdint.h>

#include "tests/unit/grammar/mask_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define T(s)                      \
    {                             \
        {s, sizeof(s) - 1}, false \
    }
static const fy_trie_token tokens[] = {
    T("a"),
    T("b"),
    T("ab"),
    T("\""),
    T("\",\""),
    T("{"),
    T("}"),
    T("[1"),
    T("0"),
    T("12"),
    T(" "),
    T("\n"),
    T("\xC3"),
    T("\xA9"),
    T("\xC3\xA9"),
    T("\xE3\x81"),
    T("\\"),
    T("abababababababab"),
    T("the quick"),
    T("\x7F"),
    T("\xF0\x9F\x98\x80"),
    T("("),
    T(")"),
    T("-"),
    {{NULL, 0}, true},
    {{NULL, 0}, false},
};
enum { N = sizeof tokens / sizeof tokens[0] };

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void follow(fy_grammar *g, const fy_trie *t, const uint8_t *choices, size_t n)
{
    fy_str text = {0};
    fy_err e = {0};
    fy_matcher *m = fy_matcher_new(g, t, &e);
    require(m != NULL || e.code == FY_EFIT);
    for (size_t i = 0; m != NULL && i < n && i < 12 && !fy_matcher_ended(m); i++) {
        fy_mask mask;
        if (fy_matcher_mask(m, &mask, &e) != 0) {
            require(e.code == FY_EFIT ||
                    (e.code == FY_EFORMAT &&
                     first_wrong(g, tokens, N, (fy_span){text.ptr, text.len}, NULL) < 0));
            break;
        }
        require(first_wrong(g, tokens, N, (fy_span){text.ptr, text.len}, &mask) < 0);
        const int32_t id = choices[i] % N;
        const bool allowed = mask.bits[0] >> id & 1;
        require((fy_matcher_accept(m, id, NULL) == 0) == allowed);
        if (allowed)
            fy_str_add(&text, tokens[id].bytes.ptr, tokens[id].bytes.len);
    }
    fy_matcher_free(m);
    fy_str_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fy_trie *trie;
    fy_err e = {0};
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t n = nul != NULL ? (size_t)(nul - data) : size;
    if (trie == NULL)
        trie = fy_trie_new(tokens, N, NULL);
    fy_grammar *g = fy_grammar_gbnf((fy_span){(const char *)data, n}, &e);
    require(g != NULL || e.msg[0] != '\0');
    require(fy_utf8_valid(e.msg, strlen(e.msg)));
    if (g != NULL && nul != NULL)
        follow(g, trie, nul + 1, size - n - 1);
    fy_grammar_free(g);
    return 0;
}
