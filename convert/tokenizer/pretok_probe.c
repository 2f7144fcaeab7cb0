/* Helps with an unknown pre_tokenizer: cuts a probe text with its steps and with every known type,
 * and reports the nearest types and the first difference; without steps, the types that the
 * vocabulary could have been trained with. The expressions come from a file, so they
 * run with bounds on their size and their work (fy_pretok_of_file). */
#include "convert/tokenizer/pretok_match.h"

#include <string.h>

#include "base/str.h"
#include "model/vocab/pretok.h"
#include "model/vocab/vocab.h"

/* What distinguishes the known types comes first, because the first difference is shown. */
static const char probe[] =
    "it's 12345 don't WE'LL Hello  world camelCase HTTPServer x=y+1; a.b #tag, !!\n\n\tif (x):\r\n"
    "    return 3.14 \xC2\xBD\xC2\xB2 \xC3\xA9t\xC3\xA9s e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD\xE3"
    "\x81\x82 \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x98\x80\xE2\x80\xA6 "
    "\xC2\xA0x  ";
enum { PROBE_BYTES = sizeof probe - 1 };

typedef struct {
    uint16_t begin, end; /* in probe */
    bool blank_before;   /* a space that the text does not have */
} word;

typedef struct {
    word v[PROBE_BYTES];
    size_t n;
} words;

static void add_word(words *w, size_t begin, size_t end)
{
    if (end > begin)
        w->v[w->n++] = (word){(uint16_t)begin, (uint16_t)end, false};
}

/* --- the unknown steps --- */

typedef enum { ISOLATED, REMOVED, CONTIGUOUS, WITH_PREVIOUS, WITH_NEXT } behavior;

/* Cuts one word at the matches of a pattern, as the tokenizers library does it. */
typedef struct {
    const fy_pretok_code *code; /* view */
    behavior how;
    bool invert; /* the texts between the matches count as matches */
    words *out;
    size_t open;     /* where a word began that may continue; SIZE_MAX: none */
    bool open_match; /* CONTIGUOUS: of what kind it is */
} cutter;

static void close_word(cutter *c, size_t at)
{
    if (c->open != SIZE_MAX)
        add_word(c->out, c->open, at);
    c->open = SIZE_MAX;
}

static void take_range(cutter *c, size_t begin, size_t end, bool match)
{
    match = match != c->invert;
    switch (c->how) {
    case ISOLATED:
        add_word(c->out, begin, end);
        return;
    case REMOVED:
        if (!match)
            add_word(c->out, begin, end);
        return;
    case CONTIGUOUS:
        if (begin == end)
            return;
        if (c->open != SIZE_MAX && c->open_match != match)
            close_word(c, begin);
        if (c->open == SIZE_MAX)
            c->open = begin;
        c->open_match = match;
        return;
    case WITH_PREVIOUS: /* a match ends a word */
        if (c->open == SIZE_MAX)
            c->open = begin;
        if (match)
            close_word(c, end);
        return;
    case WITH_NEXT: /* a match begins one */
        if (match)
            close_word(c, begin);
        if (c->open == SIZE_MAX)
            c->open = begin;
        return;
    }
}

static int cut_word(cutter *c, word w, fy_err *e)
{
    fy_span text = {probe + w.begin, (size_t)(w.end - w.begin)};
    size_t pos = 0, last = 0, begin, end, first = c->out->n;
    int rc;
    c->open = SIZE_MAX;
    while (pos <= text.len && (rc = fy_pretok_next(c->code, text, pos, &begin, &end, e)) != 0) {
        if (rc < 0)
            return -1;
        if (begin > last)
            take_range(c, w.begin + last, w.begin + begin, false);
        take_range(c, w.begin + begin, w.begin + end, true);
        last = pos = end;
        uint32_t cp;
        if (end == begin) /* an empty match: continue after the next character */
            pos += pos < text.len ? (size_t)fy_utf8_next(text.ptr + pos, text.len - pos, &cp) : 1;
    }
    if (last < text.len)
        take_range(c, w.begin + last, w.begin + text.len, false);
    close_word(c, w.end);
    if (c->out->n > first)
        c->out->v[first].blank_before = w.blank_before;
    return 0;
}

static int read_behavior(const json_t *step, behavior *out, fy_err *e)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(fy_step_text(step, "behavior"), names[i]) == 0) {
            *out = (behavior)i;
            return 0;
        }
    }
    return fy_fail(e, FY_EUNSUPPORTED, "a behavior of an unknown name");
}

/* The pattern of a Split: an expression, or a text as it stands. */
static int read_pattern(const json_t *step, fy_str *out, fy_err *e)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"),
                 *text = json_object_get(pattern, "String");
    fy_str_add(out, json_string_value(regex), json_string_length(regex));
    for (size_t i = 0; regex == NULL && i < json_string_length(text); i++) {
        if (strchr("\\^$.|?*+()[]{}", json_string_value(text)[i]) != NULL)
            fy_str_putc(out, '\\');
        fy_str_putc(out, json_string_value(text)[i]);
    }
    return json_is_string(regex) || json_is_string(text)
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED, "a Split without a pattern");
}

/* What a step cuts by. */
static int read_step(const json_t *step, fy_str *pattern, cutter *c, fy_err *e)
{
    const char *type = fy_step_text(step, "type");
    c->how = ISOLATED;
    c->invert = false;
    if (strcmp(type, "Split") == 0) {
        c->invert = fy_step_flag(step, "invert", false);
        return read_behavior(step, &c->how, e) != 0 ? -1 : read_pattern(step, pattern, e);
    }
    if (strcmp(type, "Punctuation") == 0) {
        fy_str_puts(pattern, fy_pretok_mark);
        return json_object_get(step, "behavior") != NULL ? read_behavior(step, &c->how, e) : 0;
    }
    if (strcmp(type, "Digits") == 0) {
        fy_str_puts(pattern, fy_step_flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
        return 0;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        fy_str_puts(pattern, fy_step_flag(step, "use_regex", true) ? fy_pretok_gpt2 : "");
        return 0;
    }
    if (strcmp(type, "WhitespaceSplit") == 0 || strcmp(type, "Whitespace") == 0) {
        c->how = REMOVED;
        c->invert = type[10] == '\0';
        fy_str_puts(pattern, c->invert ? "\\w+|[^\\w\\s]+" : "\\s+");
        return 0;
    }
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EUNSUPPORTED, "a step %s", fy_quote(q, sizeof q, fy_span_of(type)));
}

static int apply_step(const json_t *step, const words *in, words *out, fy_err *e)
{
    fy_str pattern = {0};
    cutter c = {.out = out};
    fy_pretok_code *code = NULL;
    int rc = read_step(step, &pattern, &c, e);
    if (rc == 0 && pattern.oom)
        rc = fy_nomem(e);
    out->n = 0;
    if (rc == 0 && pattern.len > 0) {
        code = fy_pretok_of_file((fy_span){pattern.ptr, pattern.len}, e);
        rc = code != NULL ? 0 : -1;
    }
    c.code = code;
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        if (code != NULL)
            rc = cut_word(&c, in->v[i], e);
        else
            out->v[out->n++] = in->v[i];
    }
    fy_pretok_free(code);
    fy_str_release(&pattern);
    return rc;
}

static int apply_all(const fy_steps *pre, words *result, fy_err *e)
{
    words other;
    result->n = 0;
    add_word(result, 0, PROBE_BYTES);
    for (size_t i = 0; i < pre->n; i++) {
        bool bytes = strcmp(fy_step_text(pre->v[i], "type"), "ByteLevel") == 0;
        if (bytes && i + 1 < pre->n)
            return fy_fail(e, FY_EUNSUPPORTED, "a step after ByteLevel");
        for (size_t k = 0;
             bytes && fy_step_flag(pre->v[i], "add_prefix_space", true) && k < result->n; k++)
            result->v[k].blank_before = probe[result->v[k].begin] != ' ';
        other = *result;
        if (apply_step(pre->v[i], &other, result, e) != 0)
            return -1;
    }
    if (!fy_steps_have(pre, "ByteLevel"))
        return fy_fail(e, FY_EUNSUPPORTED, "no ByteLevel, which spells words as bytes");
    return 0;
}

/* --- the known types --- */

static int collect(void *ctx, fy_span s, fy_err *e)
{
    (void)e;
    add_word(ctx, (size_t)(s.ptr - probe), (size_t)(s.ptr - probe) + s.len);
    return 0;
}

static int apply_rule(const fy_pretok_rule *rule, words *out, fy_err *e)
{
    out->n = 0;
    fy_pretok_code *code = fy_pretok_new(rule, e);
    int rc = code == NULL ? -1 : fy_pretok_split(code, FY_SPAN(probe), collect, out, e);
    fy_pretok_free(code);
    return rc;
}

/* --- comparison --- */

enum { BEGIN = 1, KEPT = 2, BLANK_BEFORE = 4 };

static void mark_words(const words *w, uint8_t mark[PROBE_BYTES])
{
    memset(mark, 0, PROBE_BYTES);
    for (size_t i = 0; i < w->n; i++) {
        memset(mark + w->v[i].begin, KEPT, (size_t)(w->v[i].end - w->v[i].begin));
        mark[w->v[i].begin] |= w->v[i].blank_before ? BEGIN | BLANK_BEFORE : BEGIN;
    }
}

static size_t count_differences(const uint8_t *a, const uint8_t *b)
{
    size_t n = 0;
    for (size_t i = 0; i < PROBE_BYTES; i++)
        n += a[i] != b[i];
    return n;
}

static void put_quoted(fy_str *out, fy_span s, bool blank_before)
{
    fy_str_puts(out, blank_before ? "\" " : "\"");
    fy_str_put_quoted(out, s, 60);
    fy_str_putc(out, '"');
}

static void put_words(const words *w, size_t begin, size_t end, fy_str *out)
{
    bool any = false;
    for (size_t i = 0; i < w->n; i++) {
        if (w->v[i].begin < begin || w->v[i].begin >= end)
            continue;
        if (any)
            fy_str_putc(out, ' ');
        put_quoted(out, (fy_span){probe + w->v[i].begin, (size_t)(w->v[i].end - w->v[i].begin)},
                   w->v[i].blank_before);
        any = true;
    }
    if (!any)
        fy_str_puts(out, "nothing");
}

/* " x" -> "x" where the two first differ. */
static void put_difference(const words *mine, const uint8_t *a, const words *known,
                           const uint8_t *b, fy_str *out)
{
    size_t at = 0;
    while (at < PROBE_BYTES && a[at] == b[at])
        at++;
    if (at == PROBE_BYTES) {
        fy_str_puts(out, ", which cuts the probe text alike, but has other steps");
        return;
    }
    /* From the last place before it where both begin a word to the first such place after it. */
    size_t begin = at, end = at + 1;
    while (begin > 0 && !(a[begin] & b[begin] & BEGIN))
        begin--;
    while (end < PROBE_BYTES && !(a[end] & b[end] & BEGIN))
        end++;
    fy_str_puts(out, ": ");
    put_quoted(out, (fy_span){probe + begin, end - begin}, false);
    fy_str_puts(out, " -> ");
    put_words(mine, begin, end, out);
    fy_str_puts(out, " instead of ");
    put_words(known, begin, end, out);
}

/* A known type and how far it is from what is looked for. */
typedef struct {
    const fy_pretok_rule *rule; /* NULL: none yet */
    size_t far;
    words cuts;
    uint8_t mark[PROBE_BYTES];
} candidate;

/* Keeps the two nearest that cut the probe text differently; of equally near ones the first, or the
 * one that cuts it in more words. */
static void keep_nearest(candidate best[2], const candidate *c, bool more_words)
{
    for (int i = 0; i < 2; i++) {
        const bool nearer = best[i].rule == NULL || c->far < best[i].far ||
                            (more_words && c->far == best[i].far && c->cuts.n > best[i].cuts.n);
        if (!nearer && memcmp(best[i].mark, c->mark, sizeof c->mark) == 0)
            return;
        if (!nearer)
            continue;
        if (i == 0 && best[0].rule != NULL && memcmp(best[0].mark, c->mark, sizeof c->mark) != 0)
            best[1] = best[0];
        best[i] = *c;
        return;
    }
}

const char *fy_pretok_probe(const fy_steps *pre, fy_str *out)
{
    words mine;
    uint8_t a[PROBE_BYTES];
    candidate c, best[2] = {{.rule = NULL}, {.rule = NULL}};
    fy_err e = {0};
    int rc = apply_all(pre, &mine, &e);
    if (rc == 0)
        mark_words(&mine, a);
    for (size_t i = 0; rc == 0 && i < fy_pretok_n_rules; i++) {
        c.rule = &fy_pretok_rules[i];
        if ((rc = apply_rule(c.rule, &c.cuts, &e)) != 0)
            break;
        mark_words(&c.cuts, c.mark);
        c.far = count_differences(a, c.mark);
        keep_nearest(best, &c, false);
    }
    if (rc == 0) {
        fy_str_printf(out, "nearest is %s, then %s", best[0].rule->name, best[1].rule->name);
        put_difference(&mine, a, &best[0].cuts, best[0].mark, out);
        return best[0].rule->name;
    }
    fy_str_printf(out, "it cannot be tried (%s); known: ", e.msg);
    fy_pretok_list(out);
    return NULL;
}

/* --- by the vocabulary --- */

/* The bytes that a token of a byte-level vocabulary spells. False: not text. */
static bool unspell(fy_span token, fy_str *out)
{
    fy_str_clear(out);
    for (size_t i = 0; i < token.len;) {
        char c[3];
        size_t len = 0, b = 0;
        for (; b < 256; b++) {
            fy_bpe_spell_byte((uint8_t)b, c, &len);
            if (fy_span_begins((fy_span){token.ptr + i, token.len - i}, c))
                break;
        }
        if (b == 256)
            return false;
        fy_str_putc(out, (char)b);
        i += len;
    }
    return !out->oom && fy_utf8_valid(out->ptr, out->len);
}

static int count_word(void *ctx, fy_span s, fy_err *e)
{
    (void)s;
    (void)e;
    ++*(size_t *)ctx;
    return 0;
}

enum { TRIED = 4096 }; /* tokens */

/* Tokens that the rule cuts, which training with it would not have made. */
static int count_cut_tokens(const fy_pretok_rule *rule, const fy_token_table *t, size_t *n,
                            fy_err *e)
{
    fy_str text = {0};
    fy_pretok_code *code = fy_pretok_new(rule, e);
    int rc = code == NULL ? -1 : 0;
    *n = 0;
    for (uint32_t i = 0; rc == 0 && i < t->n; i += t->n / TRIED + 1) {
        size_t pieces = 0;
        if (t->rows[i].type != FY_TOKEN_NORMAL || !unspell(t->rows[i].text, &text))
            continue;
        rc = fy_pretok_split(code, (fy_span){text.ptr, text.len}, count_word, &pieces, e);
        *n += pieces > 1;
    }
    fy_pretok_free(code);
    fy_str_release(&text);
    return rc;
}

void fy_pretok_fit(const fy_token_table *t, fy_str *out)
{
    candidate c, best[2] = {{.rule = NULL}, {.rule = NULL}};
    for (size_t i = 0; i < fy_pretok_n_rules; i++) {
        c.rule = &fy_pretok_rules[i];
        if (apply_rule(c.rule, &c.cuts, NULL) != 0 ||
            count_cut_tokens(c.rule, t, &c.far, NULL) != 0)
            return;
        mark_words(&c.cuts, c.mark);
        keep_nearest(best, &c, true);
    }
    fy_str_printf(out, "; the tokens fit %s best, then %s", best[0].rule->name, best[1].rule->name);
}
