/* Recognises how a tokenizer.json prepares and cuts a text. The steps are flattened and compared
 * with the structures that GGUF has a name for; an unknown structure is an error that shows it. */
#include "convert/tokenizer/pretok_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/opts.h"
#include "convert/tokenizer/vocab_files.h"
#include "model/vocab/pretok.h"

const char *fy_step_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

bool fy_step_flag(const json_t *o, const char *key, bool absent)
{
    const json_t *v = json_object_get(o, key);
    return v == NULL ? absent : json_is_true(v);
}

/* Appends the steps of `node` (NULL and JSON null: none). list: the member that holds the parts of
 * a Sequence. The depth is bounded by the JSON reader. */
static int flatten(const json_t *node, const char *list, fy_steps *out, fy_err *e)
{
    if (node == NULL || json_is_null(node))
        return 0;
    if (!json_is_object(node))
        return fy_fail(e, FY_EFORMAT, "a step of '%s' is not an object", list);
    if (strcmp(fy_step_text(node, "type"), "Sequence") == 0) {
        const json_t *parts = json_object_get(node, list);
        if (!json_is_array(parts))
            return fy_fail(e, FY_EFORMAT, "a Sequence without the array '%s'", list);
        for (size_t i = 0; i < json_array_size(parts); i++) {
            if (flatten(json_array_get(parts, i), list, out, e) != 0)
                return -1;
        }
        return 0;
    }
    if (out->n == FY_STEPS_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "'%s': more than %d steps", list, FY_STEPS_MAX);
    out->v[out->n++] = node;
    return 0;
}

bool fy_steps_have(const fy_steps *s, const char *type)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(fy_step_text(s->v[i], "type"), type) == 0)
            return true;
    }
    return false;
}

/* A setting of a step. A pattern is an object with one text: {"Regex": "..."}. */
static void show_value(const json_t *v, fy_str *out)
{
    const json_t *regex = json_object_get(v, "Regex");
    const json_t *text = regex != NULL ? regex : v;
    if (json_is_string(text)) {
        fy_str_putc(out, '"');
        fy_str_put_quoted(out, fy_span_of(json_string_value(text)), 120);
        fy_str_putc(out, '"');
        return;
    }
    char *dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    fy_str_put_quoted(out, fy_span_of(dump != NULL ? dump : "?"), 120);
    free(dump);
}

static void show_step(const json_t *step, fy_str *out)
{
    const char *key;
    json_t *v;
    char sep = '(';
    fy_str_put_quoted(out, fy_span_of(fy_step_text(step, "type")), 40);
    json_object_foreach((json_t *)(uintptr_t)step, key, v)
    { /* the iterator takes no const pointer */
        if (strcmp(key, "type") == 0 || strcmp(key, "trim_offsets") == 0 || json_is_null(v))
            continue;
        fy_str_putc(out, sep);
        fy_str_put_quoted(out, fy_span_of(key), 40);
        fy_str_putc(out, '=');
        show_value(v, out);
        sep = ',';
    }
    if (sep == ',')
        fy_str_putc(out, ')');
}

/* "what Type(key=value,...) + Type(...)", escaped, long values cut. */
static void show_steps(const char *what, const fy_steps *s, fy_str *out)
{
    fy_str_puts(out, what);
    for (size_t i = 0; i < s->n; i++) {
        fy_str_puts(out, i == 0 ? " " : " + ");
        show_step(s->v[i], out);
    }
    if (s->n == 0)
        fy_str_puts(out, " none");
}

enum { SHOWN_BYTES = 200, DIFFERENCE_BYTES = 150 }; /* a fy_err has 512 */

#define BLANK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

/* Contractions, as the first alternative of a pattern. The alternatives begin with different
 * letters, so their order does not matter. */
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define EXACT  "'s|'t|'re|'ve|'m|'ll|'d|"
static const struct {
    const char *spelling, *canonical;
} contractions[] = {
    {"'(?i:[sdmt]|ll|ve|re)|", FOLDED},
    {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|", FOLDED},
    {"'(?:[sdmt]|ll|ve|re)|", EXACT},
    {"(?:'s|'t|'re|'ve|'m|'ll|'d)|", EXACT},
};

/* Other spellings of patterns of fy_pretok_rules, after the contractions. Possessive: cl100k as
 * tiktoken writes it; what its quantifiers refuse to give back could not be matched otherwise
 * anyway. */
#define POSSESSIVE(DIGITS)                                                             \
    FOLDED "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|" DIGITS "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*" \
           "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* Kimi's, whose classes are differences of two. */
#define KIMI_LARGE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_END   "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
static const struct {
    const char *spelling, *pre;
} spellings[] = {
    {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_LARGE "*" KIMI_SMALL "+" KIMI_END
     "[^\\r\\n\\p{L}\\p{N}]?" KIMI_LARGE "+" KIMI_SMALL "*" KIMI_END
     "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "kimi-k2"},
    {POSSESSIVE("\\p{N}{1,3}"), "dbrx"},
    {POSSESSIVE("\\p{N}"), "qwen2"},
    {" ?[^(\\s|[.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C])]"
     "+",
     "bloom"},
};

/* --- recognition --- */

/* The pattern with raw line ends escaped and contractions in one spelling. */
static void normalise(const char *pattern, fy_str *out)
{
    fy_str_clear(out);
    for (size_t i = 0; i < sizeof contractions / sizeof *contractions; i++) {
        size_t len = strlen(contractions[i].spelling);
        if (strncmp(pattern, contractions[i].spelling, len) == 0) {
            fy_str_puts(out, contractions[i].canonical);
            pattern += len;
            break;
        }
    }
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '\r' || *pattern == '\n')
            fy_str_puts(out, *pattern == '\r' ? "\\r" : "\\n");
        else
            fy_str_putc(out, *pattern);
    }
}

/* The pattern of fy_pretok_rules that means the same, NULL when there is none. whole: it must
 * match every character. */
static const char *known_pattern(const char *pattern, bool whole, fy_str *scratch)
{
    normalise(pattern, scratch);
    const char *plain = fy_str_z(scratch);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (strcmp(plain, spellings[i].spelling) == 0)
            plain = fy_pretok_find_rule(fy_span_of(spellings[i].pre))->pattern[0];
    }
    for (size_t i = 0; i < fy_pretok_n_rules; i++) {
        const fy_pretok_rule *r = &fy_pretok_rules[i];
        for (int k = 0; k < FY_PRETOK_PATTERNS && r->pattern[k] != NULL; k++) {
            bool last = k + 1 == FY_PRETOK_PATTERNS || r->pattern[k + 1] == NULL;
            if (strcmp(plain, r->pattern[k]) == 0 && (!whole || (last && r->whole)))
                return r->pattern[k];
        }
    }
    return NULL;
}

static const char *split_pattern(const json_t *step, fy_str *scratch)
{
    const json_t *regex = json_object_get(json_object_get(step, "pattern"), "Regex");
    const char *pattern = json_string_value(regex), *behavior = fy_step_text(step, "behavior");
    bool invert = fy_step_flag(step, "invert", false);
    if (pattern == NULL || strlen(pattern) != json_string_length(regex))
        return NULL;
    if (strcmp(behavior, "Isolated") == 0)
        return known_pattern(pattern, false, scratch);
    /* Keeping the matches and removing what lies between: the same when nothing lies between. */
    if (strcmp(behavior, "Removed") == 0 && invert)
        return known_pattern(pattern, true, scratch);
    return NULL;
}

/* What the step cuts by; NULL: nothing that is known. */
static const char *step_pattern(const json_t *step, fy_str *scratch)
{
    const char *type = fy_step_text(step, "type");
    if (strcmp(type, "Split") == 0)
        return split_pattern(step, scratch);
    if (strcmp(type, "Digits") == 0 && fy_step_flag(step, "individual_digits", false))
        return "\\p{N}";
    /* GGUF has no key for a space that is added before the text. */
    if (strcmp(type, "ByteLevel") == 0 && !fy_step_flag(step, "add_prefix_space", true))
        return fy_step_flag(step, "use_regex", true) ? fy_pretok_gpt2 : "";
    return NULL;
}

static bool is_rule(const fy_pretok_rule *r, const char *const *pattern, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (r->pattern[i] == NULL || strcmp(r->pattern[i], pattern[i]) != 0)
            return false;
    }
    return n == FY_PRETOK_PATTERNS || r->pattern[n] == NULL;
}

/* The steps of Falcon: those after ByteLevel see its alphabet and not the text. */
static bool is_falcon(const fy_steps *s, fy_str *scratch)
{
    if (s->n != 4 || strcmp(fy_step_text(s->v[0], "type"), "Punctuation") != 0 ||
        strcmp(fy_step_text(s->v[0], "behavior"), "Contiguous") != 0 ||
        strcmp(fy_step_text(s->v[2], "type"), "Digits") != 0 ||
        fy_step_flag(s->v[2], "individual_digits", false))
        return false;
    const char *words = step_pattern(s->v[1], scratch), *three = step_pattern(s->v[3], scratch);
    return words == fy_pretok_gpt2 && three != NULL && strcmp(three, "[0-9][0-9][0-9]") == 0;
}

static const fy_pretok_rule *known_rule(const fy_steps *s, bool ignore_merges, fy_str *scratch)
{
    const char *pattern[FY_PRETOK_PATTERNS];
    size_t n = 0;
    if (is_falcon(s, scratch))
        return fy_pretok_find_rule(FY_SPAN("falcon"));
    if (s->n == 0 || strcmp(fy_step_text(s->v[s->n - 1], "type"), "ByteLevel") != 0)
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        const char *p = step_pattern(s->v[i], scratch);
        bool bytes = strcmp(fy_step_text(s->v[i], "type"), "ByteLevel") == 0;
        if (p == NULL || bytes != (i + 1 == s->n))
            return NULL;
        if (*p == '\0')
            continue;
        if (n == FY_PRETOK_PATTERNS)
            return NULL;
        pattern[n++] = p;
    }
    const fy_pretok_rule *found = NULL;
    for (size_t i = 0; n > 0 && i < fy_pretok_n_rules; i++) {
        const fy_pretok_rule *r = &fy_pretok_rules[i];
        if (is_rule(r, pattern, n) && (found == NULL || r->ignore_merges == ignore_merges)) {
            found = r;
            if (r->ignore_merges == ignore_merges)
                break;
        }
    }
    return found;
}

/* Byte-level BPE allows no normalizer besides NFC. */
static bool normalizers_are_nfc(const fy_steps *norm)
{
    for (size_t i = 0; i < norm->n; i++) {
        if (strcmp(fy_step_text(norm->v[i], "type"), "NFC") != 0)
            return false;
    }
    return true;
}

static bool pattern_is_space(const json_t *step)
{
    const json_t *p = json_object_get(step, "pattern");
    return strcmp(fy_step_text(p, "String"), " ") == 0 ||
           strcmp(fy_step_text(p, "Regex"), " ") == 0;
}

/* Normalizers of SentencePiece-like tokenizers: Replace " " by U+2581, perhaps Prepend U+2581. */
static bool match_spm_normalizers(const fy_steps *norm, bool *replaces, bool *prepends)
{
    for (size_t i = 0; i < norm->n; i++) {
        const json_t *s = norm->v[i];
        const char *type = fy_step_text(s, "type");
        if (strcmp(type, "Prepend") == 0 && strcmp(fy_step_text(s, "prepend"), BLANK) == 0 &&
            !*prepends)
            *prepends = true;
        else if (strcmp(type, "Replace") == 0 && pattern_is_space(s) &&
                 strcmp(fy_step_text(s, "content"), BLANK) == 0)
            *replaces = true;
        else
            return false;
    }
    return true;
}

static bool match_metaspace(const json_t *step, fy_pretok *out)
{
    const char *replacement = fy_step_text(step, "replacement");
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (strcmp(replacement, BLANK) != 0)
        return false;
    if (scheme == NULL) /* before tokenizers 0.19 */
        scheme = fy_step_flag(step, "add_prefix_space", true) ? "always" : "never";
    out->splits_words = fy_step_flag(step, "split", true);
    out->space_prefix = strcmp(scheme, "never") != 0;
    if (strcmp(scheme, "always") == 0)
        out->space_mode = "metaspace";
    else if (strcmp(scheme, "first") == 0)
        out->space_mode = "metaspace-first";
    else if (out->space_prefix)
        return false;
    return true;
}

/* A Strip of one space at the beginning. */
static bool strips_space(const fy_steps *decoder)
{
    for (size_t i = 0; i < decoder->n; i++) {
        const json_t *s = decoder->v[i];
        if (strcmp(fy_step_text(s, "type"), "Strip") == 0 &&
            strcmp(fy_step_text(s, "content"), " ") == 0 &&
            json_number_value(json_object_get(s, "start")) == 1)
            return true;
    }
    return false;
}

static bool match_spm(const fy_steps *norm, const fy_steps *pre, fy_pretok *out)
{
    bool replaces = false, prepends = false;
    fy_pretok r = {.kind = FY_TOKENIZER_SPM, .pre = "default"};
    if (!match_spm_normalizers(norm, &replaces, &prepends) || pre->n > 1)
        return false;
    if (pre->n == 1 && strcmp(fy_step_text(pre->v[0], "type"), "Metaspace") == 0) {
        if (norm->n > 0 || !match_metaspace(pre->v[0], &r))
            return false;
    } else {
        /* After Replace no space is left: a split at spaces finds nothing. */
        bool idle = pre->n == 0 || (strcmp(fy_step_text(pre->v[0], "type"), "Split") == 0 &&
                                    pattern_is_space(pre->v[0]));
        if (!replaces || !idle)
            return false;
        r.space_prefix = prepends;
    }
    *out = r;
    return true;
}

/* --- messages --- */

static void cut(fy_str *s, size_t at)
{
    if (s->len <= at)
        return;
    s->len = fy_utf8_complete(s->ptr, at);
    s->ptr[s->len] = '\0';
    fy_str_puts(s, "...");
}

static int fail_unknown(const fy_steps *norm, const fy_steps *pre, bool byte_fallback, fy_err *e)
{
    fy_str shown = {0}, what = {0};
    const char *nearest = NULL;
    show_steps("normalizer:", norm, &shown);
    show_steps("; pre_tokenizer:", pre, &shown);
    if (byte_fallback)
        fy_str_puts(&shown, "; byte_fallback");
    cut(&shown, SHOWN_BYTES);
    if (!normalizers_are_nfc(norm))
        fy_str_puts(&what, "known normalizers are none, NFC and, with byte_fallback, "
                           "SentencePiece's");
    else
        nearest = fy_pretok_probe(pre, &what);
    cut(&what, DIFFERENCE_BYTES);
    fy_fail(e, FY_EUNSUPPORTED, "unknown tokenizer structure (%s); %s; --pre %s forces %s",
            fy_str_z(&shown), fy_str_z(&what), nearest != NULL ? nearest : "NAME",
            nearest != NULL ? "it" : "one");
    fy_str_release(&shown);
    fy_str_release(&what);
    return -1;
}

static void warn_unknown(const char *force)
{
    const char *names[64];
    size_t n = 0;
    if (force == NULL || fy_pretok_find_rule(fy_span_of(force)) != NULL)
        return;
    for (; n < fy_pretok_n_rules && n < sizeof names / sizeof *names; n++)
        names[n] = fy_pretok_rules[n].name;
    const char *near = fy_nearest(force, names, n);
    fy_log(FY_LOG_WARN,
           "ferry does not know the pre-tokenizer '%s' and will not read this file%s%s", force,
           near != NULL ? "; the nearest name is " : "", near != NULL ? near : "");
}

int fy_pretok_match(const fy_pretok_input *in, const char *force, fy_pretok *out, fy_err *e)
{
    fy_steps norm = {.n = 0}, pre = {.n = 0}, decoder = {.n = 0};
    if (flatten(in->normalizer, "normalizers", &norm, e) != 0 ||
        flatten(in->pre_tokenizer, "pretokenizers", &pre, e) != 0 ||
        flatten(in->decoder, "decoders", &decoder, e) != 0)
        return -1;
    if (!fy_steps_have(&pre, "ByteLevel") && in->byte_fallback && match_spm(&norm, &pre, out)) {
        if (force != NULL)
            return fy_fail(
                e, FY_EARG,
                "--pre %s: this is a SentencePiece tokenizer, which has no pre-tokenizer to "
                "choose; leave the option out",
                force);
        out->strips_space = !out->space_prefix && strips_space(&decoder);
        return 0;
    }
    fy_pretok r = {.kind = FY_TOKENIZER_BPE, .nfc = fy_steps_have(&norm, "NFC")};
    if (normalizers_are_nfc(&norm)) {
        fy_str scratch = {0};
        const fy_pretok_rule *rule = known_rule(&pre, in->ignore_merges, &scratch);
        bool oom = scratch.oom;
        fy_str_release(&scratch);
        if (oom)
            return fy_nomem(e);
        r.pre = rule != NULL ? rule->name : NULL;
    }
    if (r.pre == NULL && force == NULL)
        return fail_unknown(&norm, &pre, in->byte_fallback, e);
    if (force != NULL && r.pre != NULL && strcmp(force, r.pre) != 0)
        fy_log(FY_LOG_WARN, "the pre-tokenizer looks like %s; %s is written as asked", r.pre,
               force);
    if (force != NULL)
        r.pre = force;
    warn_unknown(force);
    *out = r;
    return 0;
}

/* --- without tokenizer.json --- */

int fy_pretok_of_class(const char *tokenizer_class, const char *model_type, const char *force,
                       const fy_token_table *tokens, fy_pretok *out, fy_err *e)
{
    static const struct {
        const char *name, *pre; /* a class, which may also end in "Fast", or a model_type */
    } rows[] = {
        {"GPT2Tokenizer", "gpt-2"},
        {"CodeGenTokenizer", "gpt-2"},
        {"Qwen2Tokenizer", "qwen2"},
        {"ChatGLM4Tokenizer", "chatglm-bpe"},
        {"gpt2", "gpt-2"},
        {"opt", "gpt-2"},
        {"codegen", "gpt-2"},
        {"phi", "gpt-2"},
        {"gpt_neo", "gpt-2"},
        {"gptj", "gpt-2"},
        {"qwen2", "qwen2"},
        {"qwen2_moe", "qwen2"},
        {"qwen3", "qwen2"},
        {"qwen3_moe", "qwen2"},
        {"TikTokenTokenizer", "kimi-k2"},
        {"llama4", "llama4"},
    };
    /* These say nothing. */
    if (tokenizer_class != NULL && (strcmp(tokenizer_class, "PreTrainedTokenizerFast") == 0 ||
                                    strcmp(tokenizer_class, "TokenizersBackend") == 0))
        tokenizer_class = NULL;
    fy_span name = fy_span_of(tokenizer_class != NULL ? tokenizer_class
                              : model_type != NULL    ? model_type
                                                      : "");
    fy_span plain = name;
    if (tokenizer_class != NULL && fy_span_ends(name, "Fast"))
        plain.len -= strlen("Fast");
    *out = (fy_pretok){.kind = FY_TOKENIZER_BPE};
    for (size_t i = 0; i < sizeof rows / sizeof *rows && out->pre == NULL; i++) {
        if (fy_span_is(plain, rows[i].name))
            out->pre = rows[i].pre;
    }
    out->nfc = out->pre != NULL && strcmp(out->pre, "qwen2") == 0;
    if (force != NULL)
        out->pre = force;
    warn_unknown(force);
    if (out->pre != NULL)
        return 0;
    char q[FY_QUOTE_BYTES];
    fy_str fit = {0};
    if (tokens != NULL)
        fy_pretok_fit(tokens, &fit);
    fy_fail(e, FY_EUNSUPPORTED,
            "a vocabulary without tokenizer.json does not define how words are cut, and %s "
            "'%s' is not one of GPT2Tokenizer, CodeGenTokenizer, Qwen2Tokenizer, "
            "ChatGLM4Tokenizer, TikTokenTokenizer; download tokenizer.json, or --pre NAME "
            "forces one%s",
            tokenizer_class != NULL ? "tokenizer_class" : "model_type", fy_quote(q, sizeof q, name),
            fy_str_z(&fit));
    fy_str_release(&fit);
    return -1;
}

/* --- Unigram --- */

/* What has been seen of the steps. */
typedef struct {
    bool strips, joins, splits, spaced, unknown;
} seen_steps;

/* False: not as a charsmap is, or a second one. */
static bool read_charsmap(const json_t *step, fy_str *out)
{
    const json_t *v = json_object_get(step, "precompiled_charsmap");
    fy_span s = {json_string_value(v), json_string_length(v)};
    return out->len == 0 && (json_is_string(v) || json_is_null(v)) && fy_base64_decode(s, out);
}

static bool joins_spaces(const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *by = fy_step_text(step, "content");
    return strcmp(fy_step_text(pattern, "Regex"), " {2,}") == 0 &&
           (strcmp(by, " ") == 0 || strcmp(by, BLANK) == 0);
}

static void see_step(const json_t *step, seen_steps *seen, fy_unigram_steps *out)
{
    const char *type = fy_step_text(step, "type");
    if (strcmp(type, "Strip") == 0 && json_is_true(json_object_get(step, "strip_right")))
        seen->strips = true;
    else if (strcmp(type, "Replace") == 0 && joins_spaces(step))
        seen->joins = true;
    else if (strcmp(type, "WhitespaceSplit") == 0)
        seen->splits = true;
    else if (strcmp(type, "Metaspace") == 0 && match_metaspace(step, &out->pretok))
        seen->spaced = true;
    else if (strcmp(type, "Precompiled") != 0 || !read_charsmap(step, &out->charsmap))
        seen->unknown = true;
}

static int fail_unigram(const fy_steps *steps, fy_err *e)
{
    fy_str shown = {0};
    for (size_t i = 0; i < steps->n; i++) {
        fy_str_puts(&shown, i > 0 ? " + " : "");
        fy_str_put_quoted(&shown, fy_span_of(fy_step_text(steps->v[i], "type")), 40);
    }
    fy_fail(e, FY_EUNSUPPORTED,
            "unknown structure of a Unigram tokenizer (%.200s); known: Precompiled, perhaps Strip "
            "and Replace of repeated spaces, then Metaspace, perhaps after WhitespaceSplit",
            steps->n > 0 ? fy_str_z(&shown) : "no steps");
    fy_str_release(&shown);
    return -1;
}

int fy_unigram_match(const json_t *normalizer, const json_t *pre_tokenizer, fy_unigram_steps *out,
                     fy_err *e)
{
    fy_steps steps = {.n = 0};
    seen_steps seen = {.unknown = false};
    *out = (fy_unigram_steps){.pretok = {.kind = FY_TOKENIZER_UNIGRAM, .pre = "default"}};
    if (flatten(normalizer, "normalizers", &steps, e) != 0 ||
        flatten(pre_tokenizer, "pretokenizers", &steps, e) != 0)
        return -1;
    for (size_t i = 0; i < steps.n; i++)
        see_step(steps.v[i], &seen, out);
    if (out->charsmap.oom)
        return fy_nomem(e);
    out->trims = seen.splits || (seen.strips && seen.joins);
    out->rules = seen.splits ? "tokenizers-words" : "tokenizers";
    const char *mode = out->pretok.space_mode;
    if (seen.unknown || !seen.spaced || seen.strips != seen.joins ||
        (seen.splits && (mode == NULL || strcmp(mode, "metaspace") != 0)))
        return fail_unigram(&steps, e);
    return 0;
}
