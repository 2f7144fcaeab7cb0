/* The filter wordwrap: Python's textwrap.wrap of each line, without expanding tabs. */
#include "model/template/template_builtin.h"

typedef struct {
    uint32_t cp;
    uint32_t at; /* byte of the line */
} glyph;

typedef struct {
    fy_tm *m;
    fy_tbuf *out;
    fy_span line, separator;
    const glyph *t;
    size_t n, width;
    bool break_words, break_hyphens, split_hyphens;
    bool first; /* nothing of this line was written yet */
} wrapping;

/* --- chunks: white space, words, parts of words behind a hyphen, dashes --------------------------
 */

static bool is_blank(uint32_t cp)
{
    return cp == ' ' || (cp >= '\t' && cp <= '\r');
}

static bool is_letter(uint32_t cp)
{
    return fy_tu_is_word(cp) && !fy_tu_is_decimal(cp);
}

static bool is_wordlike(uint32_t cp)
{
    return fy_tu_is_word(cp) || cp == '!' || cp == '"' || cp == '\'' || cp == '&' || cp == '.' ||
           cp == ',' || cp == '?';
}

/* The end of a dash between words, two hyphens or more, at i; 0 when there is none. */
static size_t dash_end(const wrapping *w, size_t i)
{
    size_t j = i;
    if (i == 0 || !is_wordlike(w->t[i - 1].cp))
        return 0;
    while (j < w->n && w->t[j].cp == '-')
        j++;
    return j >= i + 2 && j < w->n && fy_tu_is_word(w->t[j].cp) ? j : 0;
}

/* Is the hyphen at i one to break a word behind: letters around it, not only one before? */
static bool is_break(const wrapping *w, size_t i)
{
    const glyph *t = w->t;
    if (t[i].cp != '-' || i < 2 || !is_letter(t[i - 1].cp))
        return false;
    bool before =
        is_letter(t[i - 2].cp) || (t[i - 2].cp == '-' && i >= 3 && is_letter(t[i - 3].cp));
    if (!before || i + 2 >= w->n || !is_letter(t[i + 1].cp))
        return false;
    return is_letter(t[i + 2].cp) || (t[i + 2].cp == '-' && i + 3 < w->n && is_letter(t[i + 3].cp));
}

static size_t chunk_end(const wrapping *w, size_t i)
{
    size_t j = i + 1, dash;
    if (is_blank(w->t[i].cp)) {
        while (j < w->n && is_blank(w->t[j].cp))
            j++;
        return j;
    }
    if (w->split_hyphens && (dash = dash_end(w, i)))
        return dash;
    for (; j < w->n && !is_blank(w->t[j].cp); j++) {
        if (w->split_hyphens && is_break(w, j))
            return j + 1;
        if (w->split_hyphens && dash_end(w, j))
            return j;
    }
    return j;
}

/* --- lines --------------------------------------------------------------------------------------
 */

static bool all_space(const wrapping *w, size_t from, size_t to)
{
    while (from < to && fy_tu_is_space(w->t[from].cp))
        from++;
    return from == to;
}

/* Where to cut the chunk that begins at i, with `left` columns for it. */
static size_t cut_of(const wrapping *w, size_t i, size_t end, size_t left)
{
    if (!w->break_hyphens || end - i <= left)
        return i + left;
    size_t hyphen = i + left, other = i;
    while (hyphen > i && w->t[hyphen - 1].cp != '-')
        hyphen--;
    if (hyphen <= i + 1) /* none, or the first character */
        return i + left;
    while (other < hyphen - 1 && w->t[other].cp == '-')
        other++;
    return other < hyphen - 1 ? hyphen : i + left;
}

static int put_line(wrapping *w, size_t from, size_t to)
{
    size_t begin = w->t[from].at, end = to < w->n ? w->t[to].at : w->line.len;
    if (!w->first && fy_tbuf_span(w->m, w->out, w->separator))
        return -1;
    w->first = false;
    return fy_tbuf_add(w->m, w->out, w->line.ptr + begin, end - begin);
}

/* A line is a run of chunks, so two positions say what is on it. */
static int wrap_line(wrapping *w)
{
    size_t at = 0, end = w->n ? chunk_end(w, 0) : 0;
    while (at < w->n) {
        if (!w->first && all_space(w, at, end)) {
            at = end;
            if (at == w->n)
                break;
            end = chunk_end(w, at);
        }
        size_t from = at, last = at; /* `last`: where the line's last chunk begins */
        while (at < w->n && end - from <= w->width) {
            last = at;
            at = end;
            end = at < w->n ? chunk_end(w, at) : at;
        }
        if (at < w->n && end - at > w->width) {
            if (w->break_words) {
                last = at;
                at = cut_of(w, at, end, w->width - (at - from));
            } else if (at == from) {
                last = at;
                at = end;
                end = at < w->n ? chunk_end(w, at) : at;
            }
        }
        size_t to = at > from && all_space(w, last, at) ? last : at;
        if (to > from && put_line(w, from, to))
            return -1;
    }
    return 0;
}

static int wrap(wrapping *w, fy_span line)
{
    if (line.len > UINT32_MAX)
        return fy_tm_fail(w->m, "wordwrap: a line of %zu bytes", line.len);
    if (fy_tm_charge(w->m, line.len * 32))
        return -1;
    size_t n = fy_tu_length(line);
    glyph *t = fy_tm_alloc(w->m, n * sizeof *t);
    if (!t)
        return -1;
    const char *p = line.ptr;
    for (size_t i = 0; i < n; i++) {
        t[i].at = (uint32_t)(p - line.ptr);
        t[i].cp = fy_tu_next(&p, line.ptr + line.len);
    }
    w->line = line;
    w->t = t;
    w->n = n;
    w->first = true;
    return wrap_line(w);
}

int fy_tfilter_wordwrap(fy_tm *m, const fy_tv *v, const fy_targs *a, fy_tv *out)
{
    static const char *const names[] = {"width", "break_long_words", "wrapstring",
                                        "break_on_hyphens"};
    enum { WIDTH, BREAK_WORDS, WRAPSTRING, BREAK_HYPHENS, N };
    fy_tv arg[N];
    bool given[N];
    int64_t width = 79;
    fy_tbuf b = {0};
    wrapping w = {.m = m, .out = &b, .separator = FY_SPAN("\n")};
    if (fy_targs_bind(m, "wordwrap", a, names, N, 0, arg, given))
        return -1;
    if (fy_tv_is(v, FY_TV_UNDEFINED))
        return fy_tv_undefined_fail(m, v);
    if (!fy_tv_is(v, FY_TV_STR))
        return fy_tm_fail(m, "'%s' object has no attribute 'splitlines'", fy_tv_type_name(v));
    if ((given[WIDTH] && fy_tv_index(m, &arg[WIDTH], &width)) ||
        (given[WRAPSTRING] && !fy_tv_is(&arg[WRAPSTRING], FY_TV_NONE) &&
         fy_tv_text(m, "wrapstring", &arg[WRAPSTRING], &w.separator)))
        return -1;
    w.break_words = !given[BREAK_WORDS] || fy_tv_truth(&arg[BREAK_WORDS]);
    w.break_hyphens = !given[BREAK_HYPHENS] || fy_tv_truth(&arg[BREAK_HYPHENS]);
    w.split_hyphens = w.break_hyphens && fy_tv_is(&arg[BREAK_HYPHENS], FY_TV_BOOL);
    w.split_hyphens = w.split_hyphens || !given[BREAK_HYPHENS];
    fy_span s = v->str;
    if (s.len && width <= 0)
        return fy_tm_fail(m, "invalid width %lld (must be > 0)", (long long)width);
    w.width = width > 0 ? (size_t)width : 1;
    for (size_t at = 0, line = 0; line < s.len; line = at) {
        size_t gap = 0;
        while (at < s.len && !(gap = fy_tu_line_end((fy_span){s.ptr + at, s.len - at})))
            at++;
        if ((line && fy_tbuf_span(m, &b, w.separator)) ||
            wrap(&w, (fy_span){s.ptr + line, at - line}))
            return -1;
        at += gap;
    }
    *out = fy_tbuf_value(&b, false);
    return 0;
}
