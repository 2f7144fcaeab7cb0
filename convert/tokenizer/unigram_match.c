#include "convert/tokenizer/unigram_match.h"

#include <string.h>

#include "base/str.h"
#include "convert/tokenizer/base64.h"

#define BLANK "\xE2\x96\x81"

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

/* What has been seen of the steps, which may be nested in Sequences; the depth is bounded by the
 * JSON reader. */
typedef struct {
    fy_unigram_steps *out;
    bool strips, joins, splits, spaced, unknown;
    fy_str shown; /* names of the steps, for a message */
} walk;

/* Metaspace puts a blank before a text: always, only at its very beginning, or never. */
static void read_metaspace(walk *w, const json_t *step)
{
    const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
    fy_pretok *p = &w->out->pretok;
    if (scheme == NULL) /* before tokenizers 0.19 */
        scheme = json_is_false(json_object_get(step, "add_prefix_space")) ? "never" : "always";
    p->space_prefix = strcmp(scheme, "never") != 0;
    p->space_mode = strcmp(scheme, "first") == 0 ? "metaspace-first" : "metaspace";
    if (!p->space_prefix)
        p->space_mode = NULL;
    w->spaced = strcmp(text_of(step, "replacement"), BLANK) == 0;
    w->unknown = w->unknown || !w->spaced;
}

static void read_charsmap(walk *w, const json_t *step)
{
    const json_t *v = json_object_get(step, "precompiled_charsmap");
    fy_span s = {json_string_value(v), json_string_length(v)};
    if (w->out->charsmap.len > 0 || (!json_is_string(v) && !json_is_null(v)) ||
        !fy_base64_decode(s, &w->out->charsmap))
        w->unknown = true;
}

static bool joins_blanks(const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const char *by = text_of(step, "content");
    return strcmp(text_of(pattern, "Regex"), " {2,}") == 0 &&
           (strcmp(by, " ") == 0 || strcmp(by, BLANK) == 0);
}

static void read_step(walk *w, const json_t *step)
{
    const char *type = text_of(step, "type");
    const json_t *parts = json_object_get(step, "normalizers");
    if (parts == NULL)
        parts = json_object_get(step, "pretokenizers");
    if (step == NULL || json_is_null(step))
        return;
    if (strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(parts); i++)
            read_step(w, json_array_get(parts, i));
        return;
    }
    if (w->shown.len > 0)
        fy_str_puts(&w->shown, " + ");
    fy_str_put_quoted(&w->shown, fy_span_of(type), 40);
    if (strcmp(type, "Precompiled") == 0)
        read_charsmap(w, step);
    else if (strcmp(type, "Strip") == 0 && json_is_true(json_object_get(step, "strip_right")))
        w->strips = true;
    else if (strcmp(type, "Replace") == 0 && joins_blanks(step))
        w->joins = true;
    else if (strcmp(type, "WhitespaceSplit") == 0)
        w->splits = true;
    else if (strcmp(type, "Metaspace") == 0)
        read_metaspace(w, step);
    else
        w->unknown = true;
}

int fy_unigram_match(const json_t *normalizer, const json_t *pre_tokenizer, fy_unigram_steps *out,
                     fy_err *e)
{
    *out = (fy_unigram_steps){.pretok = {.kind = FY_TOKENIZER_UNIGRAM, .pre = "default"}};
    walk w = {.out = out};
    read_step(&w, normalizer);
    read_step(&w, pre_tokenizer);
    out->trims = w.splits || (w.strips && w.joins);
    out->rules = w.splits ? "tokenizers-words" : "tokenizers";
    const fy_pretok *p = &out->pretok;
    bool oom = w.shown.oom || out->charsmap.oom;
    int rc = 0;
    if (oom)
        rc = fy_nomem(e);
    else if (w.unknown || !w.spaced || w.strips != w.joins ||
             (w.splits && (p->space_mode == NULL || strcmp(p->space_mode, "metaspace") != 0)))
        rc = fy_fail(e, FY_EUNSUPPORTED,
                     "unknown structure of a Unigram tokenizer (%.200s); known: Precompiled, "
                     "perhaps Strip and Replace of repeated blanks, then Metaspace, perhaps behind "
                     "WhitespaceSplit",
                     w.shown.len > 0 ? fy_str_z(&w.shown) : "no steps");
    fy_str_release(&w.shown);
    return rc;
}
