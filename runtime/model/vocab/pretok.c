/* Pre-tokenizers: the regular expressions of each model family as its tokenizer.json has them, run
 * by PCRE2. A list of patterns is applied in sequence: each cuts every piece of the one before into
 * matches and gaps. Compiled patterns are immutable and shared; match data belongs to one call.
 *
 * \s is spelled out as Unicode's White_Space: PCRE2's own also takes U+180E. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "model/vocab/vocab_impl.h"

/* clang-format off */
#define WS "\\t-\\r\\x{85}\\p{Z}"
#define S "[" WS "]"
#define BLANKS S "+(?![^" WS "])|" S "+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" BLANKS
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LLAMA3(DIGITS)                                                         \
    FOLDED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" DIGITS                            \
    "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" S "*[\\r\\n]+|" BLANKS
/* Words end where a capital follows a small letter. */
#define CASED(SUFFIX, DIGITS)                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"                              \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" SUFFIX                                                    \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"                             \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" SUFFIX                                                    \
    "|" DIGITS "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" S "*[\\r\\n]+|" BLANKS
#define DEEPSEEK3                                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                                    \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"                  \
    "|" S "*[\\r\\n]+|" BLANKS
/* clang-format on */

enum { MAX_PATTERNS = 3 };

typedef struct {
    const char *pattern[MAX_PATTERNS];
    bool ignore_merges, adds_bos;
    const char *names; /* values of tokenizer.ggml.pre, the usual one first */
} pretok_rule;

/* clang-format off */
static const pretok_rule rules[] = {
    {{GPT2}, false, false,
     "gpt-2 phi-2 mpt olmo jais jina-es jina-de roberta-bpe exaone4 modern-bert gigachat "
     "a.x-4.0 trillion"},
    {{LLAMA3("\\p{N}{1,3}")}, true, true,
     "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2"},
    {{LLAMA3("\\p{N}{1,3}")}, false, false,
     "dbrx smaug-bpe glm4 chatglm-bpe"},
    {{LLAMA3("\\p{N}")}, false, false,
     "qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan kormo grok-2 solar-open"},
    {{"\\p{N}", GPT2}, false, false,
     "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2"},
    /* tokenizer.json also cuts the blank off a number, which no merge joins to it anyway */
    {{"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false,
     "falcon"},
    {{CASED("", "\\p{N}")}, true, true,
     "tekken"},
    {{CASED(FOLDED "?", "\\p{N}{1,3}")}, false, false,
     "gpt-4o llama4 kanana2"},
    {{"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+", DEEPSEEK3}, false, false,
     "deepseek-v3 hunyuan-dense joyai-llm"},
};
/* clang-format on */
enum { N_RULES = sizeof rules / sizeof rules[0] };

struct fy_pretok {
    pcre2_code *code[MAX_PATTERNS]; /* owned */
    int n_codes;
    pcre2_match_context *limits; /* owned */
};

static bool has_word(const char *words, fy_span word)
{
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (fy_span_eq((fy_span){p, n}, word))
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

static const pretok_rule *find_rule(fy_span pre)
{
    for (int i = 0; i < N_RULES; i++) {
        if (has_word(rules[i].names, pre))
            return &rules[i];
    }
    return NULL;
}

bool fy_pretok_known(fy_span pre, bool *ignore_merges, bool *adds_bos)
{
    const pretok_rule *r = find_rule(pre);
    if (r == NULL)
        return false;
    *ignore_merges = r->ignore_merges;
    *adds_bos = r->adds_bos;
    return true;
}

void fy_pretok_list(fy_str *out)
{
    for (int i = 0; i < N_RULES; i++) {
        fy_str_add(out, rules[i].names, strcspn(rules[i].names, " "));
        fy_str_puts(out, i + 1 < N_RULES ? ", " : " and their aliases");
    }
}

void fy_pretok_free(fy_pretok *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_codes; i++)
        pcre2_code_free(p->code[i]);
    pcre2_match_context_free(p->limits);
    free(p);
}

static int compile(fy_pretok *p, const char *pattern, fy_err *e)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                  &code, &at, NULL);
    if (c == NULL && code == PCRE2_ERROR_HEAP_FAILED)
        return fy_nomem(e);
    if (c == NULL) { /* a PCRE2 built without Unicode */
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return fy_fail(e, FY_EUNSUPPORTED, "PCRE2 cannot compile the pre-tokenizer's pattern: %s",
                       (const char *)why);
    }
    p->code[p->n_codes++] = c;
    /* Where the system forbids it the interpreter matches the same, more slowly. */
    pcre2_jit_compile(c, PCRE2_JIT_COMPLETE);
    return 0;
}

fy_pretok *fy_pretok_new(fy_span pre, fy_err *e)
{
    const pretok_rule *r = find_rule(pre);
    fy_pretok *p = calloc(1, sizeof *p);
    if (r == NULL || p == NULL) {
        if (r == NULL)
            fy_fail(e, FY_EUNSUPPORTED, "unknown pre-tokenizer");
        else
            fy_nomem(e);
        goto fail;
    }
    p->limits = pcre2_match_context_create(NULL);
    if (p->limits == NULL) {
        fy_nomem(e);
        goto fail;
    }
    /* A run of a million blanks is a legal text, beyond the default limit on backtracking. */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    for (int i = 0; i < MAX_PATTERNS && r->pattern[i] != NULL; i++) {
        if (compile(p, r->pattern[i], e) != 0)
            goto fail;
    }
    return p;
fail:
    fy_pretok_free(p);
    return NULL;
}

typedef struct {
    const fy_pretok *p;
    pcre2_match_data *match; /* owned */
    fy_word_fn *emit;
    void *ctx;
} splitter;

/* 1 and the match at or behind `pos`, 0 when there is none, -1. */
static int next_match(const splitter *s, int level, fy_span text, size_t pos, size_t *begin,
                      size_t *end, fy_err *e)
{
    const pcre2_code *code = s->p->code[level];
    int rc = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, pos, PCRE2_NO_UTF_CHECK, s->match,
                         s->p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, pos,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->p->limits);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT)
        return fy_nomem(e);
    if (rc < 0)
        return fy_fail(e, FY_EUNSUPPORTED, "PCRE2 gave up on the text with error %d", rc);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match);
    *begin = range[0];
    *end = range[1];
    return *end > *begin; /* no pattern here matches nothing */
}

/* At most MAX_PATTERNS deep. */
static int split(const splitter *s, int level, fy_span text, fy_err *e)
{
    if (level == s->p->n_codes)
        return s->emit(s->ctx, text, e);
    size_t pos = 0, begin = 0, end = 0;
    int rc;
    while (pos < text.len && (rc = next_match(s, level, text, pos, &begin, &end, e)) != 0) {
        if (rc < 0 ||
            (begin > pos && split(s, level + 1, (fy_span){text.ptr + pos, begin - pos}, e) != 0) ||
            split(s, level + 1, (fy_span){text.ptr + begin, end - begin}, e) != 0)
            return -1;
        pos = end;
    }
    return pos < text.len ? split(s, level + 1, (fy_span){text.ptr + pos, text.len - pos}, e) : 0;
}

int fy_pretok_split(const fy_pretok *p, fy_span text, fy_word_fn *emit, void *ctx, fy_err *e)
{
    splitter s = {p, pcre2_match_data_create(1, NULL), emit, ctx};
    if (s.match == NULL)
        return fy_nomem(e);
    int rc = split(&s, 0, text, e);
    pcre2_match_data_free(s.match);
    return rc;
}
