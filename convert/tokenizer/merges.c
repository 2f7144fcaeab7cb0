#include "convert/tokenizer/merges.h"

#include <string.h>

#include "base/log.h"
#include "base/str.h"

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

/* "left right": exactly one blank, inside. */
static int split_merge(fy_merges *m, fy_span s, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const char *blank = s.len == 0 ? NULL : memchr(s.ptr, ' ', s.len);
    size_t left = blank == NULL ? 0 : (size_t)(blank - s.ptr);
    if (left == 0 || left + 1 == s.len || memchr(blank + 1, ' ', s.len - left - 1) != NULL)
        return fy_fail(e, FY_EFORMAT, "'%s', expected two texts with one blank between",
                       fy_quote(q, sizeof q, s));
    m->left = (fy_span){s.ptr, left};
    m->right = (fy_span){s.ptr + left + 1, s.len - left - 1};
    return 0;
}

/* --- tokenizer.json --- */

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

/* --- merges.txt --- */

static fy_span next_line(fy_merges *m)
{
    const char *end = memchr(m->rest.ptr, '\n', m->rest.len);
    size_t n = end != NULL ? (size_t)(end - m->rest.ptr) : m->rest.len;
    fy_span line = {m->rest.ptr, n};
    n += end != NULL;
    m->rest = (fy_span){m->rest.ptr + n, m->rest.len - n};
    m->line++;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
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
        fy_span line = next_line(m);
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
