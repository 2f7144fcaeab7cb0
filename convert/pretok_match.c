#include "convert/pretok_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/quote.h"
#include "base/str.h"
#include "base/utf8.h"

enum { MAX_STEPS = 15, SHOWN_BYTES = 260, PATTERN_BYTES = 320 };

#define BLANK "\xE2\x96\x81" /* U+2581, SentencePiece's blank */

/* Contractions, as the first alternative of a pattern. The alternatives begin with different
 * letters, so their order does not matter. */
#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define EXACT  "'s|'t|'re|'ve|'m|'ll|'d|"

/* Words end where a capital follows a small letter: o200k, and tekken made of it. */
#define CASED(SUFFIX, DIGITS)                                      \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" SUFFIX                        \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+" \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" SUFFIX "|" DIGITS             \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *spelling, *canonical;
} contractions[] = {
    {"'(?i:[sdmt]|ll|ve|re)|", FOLDED},
    {"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|", FOLDED},
    {"'(?:[sdmt]|ll|ve|re)|", EXACT},
    {"(?:'s|'t|'re|'ve|'m|'ll|'d)|", EXACT},
};

/* Whole patterns that leave no character unmatched. The possessive row is cl100k as tiktoken writes
 * it: what its quantifiers refuse to give back could not be matched otherwise anyway. */
static const struct {
    char symbol;
    const char *pattern;
} patterns[] = {
    {'G', EXACT " ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {'L',
     FOLDED "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
            "|\\s+(?!\\S)|\\s+"},
    {'L', FOLDED
     "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]"
     "|\\s+(?!\\S)|\\s+"},
    {'Q', FOLDED "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                 "|\\s+(?!\\S)|\\s+"},
    {'K', CASED("", "\\p{N}")},
    {'O', CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}")},
};

/* Patterns that leave characters between their matches. */
static const struct {
    char symbol;
    const char *pattern;
} gappy[] = {
    {'N', "\\p{N}"},
    {'3', "\\p{N}{1,3}"},
    {'T', "[0-9][0-9][0-9]"},
    {'C', "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"},
    {'W', "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
          "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+"
          "|\\s+(?!\\S)|\\s+"},
};

/* One letter per step: a split by the pattern of that letter, B ByteLevel without and R with its
 * own regex (which is G), P Punctuation, D Digits as runs. N is also Digits one by one. */
static const struct {
    const char *steps, *pre;
    const char *pre_ignore_merges; /* when the model takes whole words first; NULL: the same */
} known[] = {
    {"R", "gpt-2", NULL},          {"GB", "gpt-2", NULL},  {"LB", "dbrx", "llama-bpe"},
    {"QB", "qwen2", NULL},         {"NR", "smollm", NULL}, {"NGB", "smollm", NULL},
    {"PRDT", "falcon", NULL},      {"KB", "tekken", NULL}, {"OB", "gpt-4o", NULL},
    {"3CWB", "deepseek-v3", NULL},
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

static bool is_true(const json_t *o, const char *key, bool absent)
{
    const json_t *v = json_object_get(o, key);
    return v == NULL ? absent : json_is_true(v);
}

/* --- flattening --- */

typedef struct {
    const json_t *v[MAX_STEPS]; /* views */
    size_t n;
} steps;

/* `list`: the member that holds the parts of a Sequence. The depth is bounded by the JSON reader.
 */
static int flatten(const json_t *node, const char *list, steps *out, fy_err *e)
{
    if (node == NULL || json_is_null(node))
        return 0;
    if (!json_is_object(node))
        return fy_fail(e, FY_EFORMAT, "a step of '%s' is no object", list);
    if (strcmp(text_of(node, "type"), "Sequence") == 0) {
        const json_t *parts = json_object_get(node, list);
        if (!json_is_array(parts))
            return fy_fail(e, FY_EFORMAT, "a Sequence without the array '%s'", list);
        for (size_t i = 0; i < json_array_size(parts); i++) {
            if (flatten(json_array_get(parts, i), list, out, e) != 0)
                return -1;
        }
        return 0;
    }
    if (out->n == MAX_STEPS)
        return fy_fail(e, FY_EUNSUPPORTED, "'%s': more than %d steps", list, MAX_STEPS);
    out->v[out->n++] = node;
    return 0;
}

/* --- recognition --- */

/* The pattern with raw line ends escaped and contractions in one spelling; false: longer than any
 * known one. */
static bool normalise(const char *pattern, char out[PATTERN_BYTES])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof contractions / sizeof *contractions; i++) {
        size_t len = strlen(contractions[i].spelling);
        if (strncmp(pattern, contractions[i].spelling, len) == 0) {
            n = strlen(strcpy(out, contractions[i].canonical));
            pattern += len;
            break;
        }
    }
    for (; *pattern != '\0' && n + 3 < PATTERN_BYTES; pattern++) {
        bool line_end = *pattern == '\r' || *pattern == '\n';
        if (line_end)
            out[n++] = '\\';
        out[n++] = *pattern == '\r' ? 'r' : *pattern == '\n' ? 'n' : *pattern;
    }
    out[n] = '\0';
    return *pattern == '\0';
}

static char split_symbol(const json_t *step)
{
    const char *pattern =
        json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = text_of(step, "behavior");
    bool isolated = strcmp(behavior, "Isolated") == 0;
    /* Keeping the matches and removing what lies between them: the same when nothing lies between.
     */
    bool keeps_matches = strcmp(behavior, "Removed") == 0 && is_true(step, "invert", false);
    char plain[PATTERN_BYTES];
    if (pattern == NULL || !normalise(pattern, plain))
        return '?';
    for (size_t i = 0; i < sizeof gappy / sizeof *gappy; i++) {
        if (strcmp(plain, gappy[i].pattern) == 0)
            return isolated ? gappy[i].symbol : '?';
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(plain, patterns[i].pattern) == 0)
            return isolated || keeps_matches ? patterns[i].symbol : '?';
    }
    return '?';
}

static char symbol_of(const json_t *step)
{
    const char *type = text_of(step, "type");
    if (strcmp(type, "Split") == 0)
        return split_symbol(step);
    if (strcmp(type, "Digits") == 0)
        return is_true(step, "individual_digits", false) ? 'N' : 'D';
    if (strcmp(type, "Punctuation") == 0)
        return strcmp(text_of(step, "behavior"), "Contiguous") == 0 ? 'P' : '?';
    if (strcmp(type, "ByteLevel") == 0) {
        if (is_true(step, "add_prefix_space", true)) /* no key of GGUF can say that */
            return '?';
        return is_true(step, "use_regex", true) ? 'R' : 'B';
    }
    return '?';
}

static bool has_type(const steps *s, const char *type)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(text_of(s->v[i], "type"), type) == 0)
            return true;
    }
    return false;
}

static const char *known_pre(const steps *pre, bool ignore_merges)
{
    char word[MAX_STEPS + 1] = "";
    for (size_t i = 0; i < pre->n; i++)
        word[i] = symbol_of(pre->v[i]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word, known[i].steps) == 0)
            return ignore_merges && known[i].pre_ignore_merges ? known[i].pre_ignore_merges
                                                               : known[i].pre;
    }
    return NULL;
}

/* Byte-level BPE allows no normalizer besides NFC. */
static bool normalizers_are_nfc(const steps *norm)
{
    for (size_t i = 0; i < norm->n; i++) {
        if (strcmp(text_of(norm->v[i], "type"), "NFC") != 0)
            return false;
    }
    return true;
}

static bool pattern_is_blank(const json_t *step)
{
    const json_t *p = json_object_get(step, "pattern");
    return strcmp(text_of(p, "String"), " ") == 0 || strcmp(text_of(p, "Regex"), " ") == 0;
}

/* Normalizers of SentencePiece-like tokenizers: Replace " " by U+2581, perhaps Prepend U+2581. */
static bool match_spm_normalizers(const steps *norm, bool *replaces, bool *prepends)
{
    for (size_t i = 0; i < norm->n; i++) {
        const json_t *s = norm->v[i];
        const char *type = text_of(s, "type");
        if (strcmp(type, "Prepend") == 0 && strcmp(text_of(s, "prepend"), BLANK) == 0 && !*prepends)
            *prepends = true;
        else if (strcmp(type, "Replace") == 0 && pattern_is_blank(s) &&
                 strcmp(text_of(s, "content"), BLANK) == 0)
            *replaces = true;
        else
            return false;
    }
    return true;
}

static bool match_metaspace(const json_t *step, fy_pretok *out)
{
    const char *replacement = text_of(step, "replacement");
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    if (strcmp(replacement, BLANK) != 0)
        return false;
    if (scheme == NULL) /* before tokenizers 0.19 */
        scheme = is_true(step, "add_prefix_space", true) ? "always" : "never";
    out->splits_words = is_true(step, "split", true);
    out->space_prefix = strcmp(scheme, "never") != 0;
    if (strcmp(scheme, "always") == 0)
        out->space_mode = "metaspace";
    else if (strcmp(scheme, "first") == 0)
        out->space_mode = "metaspace-first";
    else if (out->space_prefix)
        return false;
    return true;
}

/* A Strip of one blank at the beginning. */
static bool strips_space(const steps *decoder)
{
    for (size_t i = 0; i < decoder->n; i++) {
        const json_t *s = decoder->v[i];
        if (strcmp(text_of(s, "type"), "Strip") == 0 && strcmp(text_of(s, "content"), " ") == 0 &&
            json_number_value(json_object_get(s, "start")) == 1)
            return true;
    }
    return false;
}

static bool match_spm(const steps *norm, const steps *pre, fy_pretok *out)
{
    bool replaces = false, prepends = false;
    fy_pretok r = {.kind = FY_TOKENIZER_SPM, .pre = "default"};
    if (!match_spm_normalizers(norm, &replaces, &prepends) || pre->n > 1)
        return false;
    if (pre->n == 1 && strcmp(text_of(pre->v[0], "type"), "Metaspace") == 0) {
        if (norm->n > 0 || !match_metaspace(pre->v[0], &r))
            return false;
    } else {
        /* After Replace no blank is left: a split at blanks finds nothing. */
        bool idle = pre->n == 0 || (strcmp(text_of(pre->v[0], "type"), "Split") == 0 &&
                                    pattern_is_blank(pre->v[0]));
        if (!replaces || !idle)
            return false;
        r.space_prefix = prepends;
    }
    *out = r;
    return true;
}

/* --- messages --- */

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
    fy_str_put_quoted(out, fy_span_of(text_of(step, "type")), 40);
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

static void show_steps(const char *what, const steps *s, fy_str *out)
{
    fy_str_puts(out, what);
    for (size_t i = 0; i < s->n; i++) {
        fy_str_puts(out, i == 0 ? " " : " + ");
        show_step(s->v[i], out);
    }
    if (s->n == 0)
        fy_str_puts(out, " none");
}

static int fail_unknown(const steps *norm, const steps *pre, bool byte_fallback, fy_err *e)
{
    fy_str s = {0}, shown = {0};
    show_steps("normalizer:", norm, &s);
    show_steps("; pre_tokenizer:", pre, &s);
    fy_str_add(&shown, s.ptr, s.len);
    if (shown.len > SHOWN_BYTES) {
        fy_str_clear(&shown);
        fy_str_add(&shown, s.ptr, SHOWN_BYTES);
        shown.len = fy_utf8_complete(shown.ptr, shown.len);
        shown.ptr[shown.len] = '\0';
        fy_str_puts(&shown, "...");
    }
    fy_fail(e, FY_EUNSUPPORTED,
            "unknown tokenizer structure (%s; byte_fallback %s); known: byte-level BPE like gpt-2, "
            "llama-bpe, dbrx, qwen2, smollm, falcon, tekken, gpt-4o or deepseek-v3, and "
            "SentencePiece BPE; --pre NAME forces one",
            fy_str_z(&shown), byte_fallback ? "true" : "false");
    fy_str_release(&s);
    fy_str_release(&shown);
    return -1;
}

int fy_pretok_match(const fy_pretok_input *in, const char *force, fy_pretok *out, fy_err *e)
{
    steps norm = {.n = 0}, pre = {.n = 0}, decoder = {.n = 0};
    if (flatten(in->normalizer, "normalizers", &norm, e) != 0 ||
        flatten(in->pre_tokenizer, "pretokenizers", &pre, e) != 0 ||
        flatten(in->decoder, "decoders", &decoder, e) != 0)
        return -1;
    if (!has_type(&pre, "ByteLevel") && in->byte_fallback && match_spm(&norm, &pre, out)) {
        if (force != NULL)
            return fy_fail(
                e, FY_EARG,
                "--pre %s: this is a SentencePiece tokenizer, which has no pre-tokenizer to "
                "choose; leave the option out",
                force);
        out->strips_space = !out->space_prefix && strips_space(&decoder);
        return 0;
    }
    fy_pretok r = {.kind = FY_TOKENIZER_BPE, .nfc = has_type(&norm, "NFC")};
    r.pre = normalizers_are_nfc(&norm) ? known_pre(&pre, in->ignore_merges) : NULL;
    if (r.pre == NULL && force == NULL)
        return fail_unknown(&norm, &pre, in->byte_fallback, e);
    if (force != NULL && r.pre != NULL && strcmp(force, r.pre) != 0)
        fy_log(FY_LOG_WARN, "the pre-tokenizer looks like %s; %s is written as asked", r.pre,
               force);
    if (force != NULL)
        r.pre = force;
    *out = r;
    return 0;
}

/* --- without tokenizer.json --- */

static bool has_word(const char *words, const char *word, size_t len)
{
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

int fy_pretok_of_class(const char *tokenizer_class, const char *model_type, const char *force,
                       fy_pretok *out, fy_err *e)
{
    static const struct {
        const char *classes, *model_types; /* the classes may also end in "Fast" */
        fy_pretok is;
    } rows[] = {
        {"GPT2Tokenizer CodeGenTokenizer",
         "gpt2 opt codegen phi gpt_neo gptj",
         {.kind = FY_TOKENIZER_BPE, .pre = "gpt-2"}},
        {"Qwen2Tokenizer",
         "qwen2 qwen2_moe qwen3 qwen3_moe",
         {.kind = FY_TOKENIZER_BPE, .pre = "qwen2", .nfc = true}},
        {"ChatGLM4Tokenizer", "", {.kind = FY_TOKENIZER_BPE, .pre = "chatglm-bpe"}},
    };
    const char *name = tokenizer_class != NULL ? tokenizer_class : model_type;
    size_t len = name != NULL ? strlen(name) : 0;
    if (tokenizer_class != NULL && len > 4 && strcmp(name + len - 4, "Fast") == 0)
        len -= 4;
    for (size_t i = 0; name != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (!has_word(tokenizer_class != NULL ? rows[i].classes : rows[i].model_types, name, len))
            continue;
        *out = rows[i].is;
        if (force != NULL)
            out->pre = force;
        return 0;
    }
    if (force != NULL) {
        *out = (fy_pretok){.kind = FY_TOKENIZER_BPE, .pre = force};
        return 0;
    }
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EUNSUPPORTED,
                   "a vocabulary without tokenizer.json does not say how words are cut, and %s "
                   "'%s' is none of GPT2Tokenizer, CodeGenTokenizer, Qwen2Tokenizer, "
                   "ChatGLM4Tokenizer; download tokenizer.json, or --pre NAME forces one",
                   tokenizer_class != NULL ? "tokenizer_class" : "model_type",
                   fy_quote(q, sizeof q, fy_span_of(name != NULL ? name : "")));
}
