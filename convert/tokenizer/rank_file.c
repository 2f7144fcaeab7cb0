#include "convert/tokenizer/rank_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "convert/tokenizer/base64.h"

/* Longer than any token in use (Llama 3 has one of 128 blanks): the cuts of a token take quadratic
 * time. */
enum { TOKEN_BYTES_MAX = 512 };

/* --- lines --- */

/* Appends the bytes in the byte alphabet. False: no base64, no byte, or too many. */
static bool spell_base64(fy_span s, fy_str *out)
{
    fy_str bytes = {0};
    /* Four digits are three bytes. */
    bool ok = s.len <= TOKEN_BYTES_MAX / 3 * 4 + 4 && fy_base64_decode(s, &bytes) &&
              (bytes.oom || (bytes.len > 0 && bytes.len <= TOKEN_BYTES_MAX));
    for (size_t i = 0; ok && i < bytes.len; i++) {
        char c[3];
        size_t len;
        fy_bpe_spell_byte((uint8_t)bytes.ptr[i], c, &len);
        fy_str_add(out, c, len);
    }
    out->oom = out->oom || bytes.oom;
    fy_str_release(&bytes);
    return ok;
}

/* "base64 rank": the text is appended. */
static bool read_line(fy_span line, fy_str *text, uint64_t *rank)
{
    const char *blank = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    if (blank == NULL)
        return false;
    size_t head = (size_t)(blank - line.ptr), i = head + 1;
    *rank = 0;
    for (; i < line.len && i < head + 12 && line.ptr[i] >= '0' && line.ptr[i] <= '9'; i++)
        *rank = *rank * 10 + (uint64_t)(line.ptr[i] - '0');
    return i > head + 1 && i == line.len && spell_base64((fy_span){line.ptr, head}, text);
}

bool fy_rank_file_is(const void *p, size_t n)
{
    fy_span rest = {p, n};
    fy_str text = {0};
    uint64_t rank;
    bool is = n > 0 && read_line(fy_span_cut_line(&rest), &text, &rank);
    fy_str_release(&text);
    return is;
}

static int read_tokens(fy_span rest, fy_token_table *t, fy_err *e)
{
    fy_str text = {0};
    int rc = 0;
    for (uint64_t number = 1; rc == 0 && rest.len > 0; number++) {
        fy_span line = fy_span_cut_line(&rest);
        uint64_t rank;
        char q[FY_QUOTE_BYTES];
        if (line.len == 0)
            continue;
        fy_str_clear(&text);
        if (!read_line(line, &text, &rank))
            rc =
                fy_fail(e, FY_EFORMAT,
                        "line %llu: '%s', expected the base64 of 1 to %d bytes, a blank and a rank",
                        (unsigned long long)number, fy_quote(q, sizeof q, line), TOKEN_BYTES_MAX);
        else if (text.oom)
            rc = fy_nomem(e);
        else if (fy_token_table_put(t, rank, (fy_span){text.ptr, text.len}, true, e) != 0)
            rc = fy_ctx(e, "line %llu", (unsigned long long)number);
    }
    fy_str_release(&text);
    return rc;
}

/* --- merges --- */

typedef struct {
    uint32_t left, right; /* ids */
} cut;

static int by_ranks(const void *pa, const void *pb)
{
    const cut *a = pa, *b = pb;
    if (a->left != b->left)
        return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* Every way to cut `text` in two tokens, in order. */
static size_t find_cuts(const fy_token_table *t, fy_span text, cut cuts[TOKEN_BYTES_MAX])
{
    size_t n = 0;
    uint32_t cp;
    for (size_t i = (size_t)fy_utf8_next(text.ptr, text.len, &cp); i < text.len;
         i += (size_t)fy_utf8_next(text.ptr + i, text.len - i, &cp)) {
        cut c;
        if (fy_token_table_find(t, (fy_span){text.ptr, i}, &c.left) &&
            fy_token_table_find(t, (fy_span){text.ptr + i, text.len - i}, &c.right))
            cuts[n++] = c;
    }
    qsort(cuts, n, sizeof *cuts, by_ranks);
    return n;
}

static int put_merges(const fy_token_table *t, fy_str *merges, fy_err *e)
{
    cut cuts[TOKEN_BYTES_MAX];
    for (uint32_t id = 0; id < t->n; id++) {
        if (id % 4096 == 0 && fy_check_interrupt(e) != 0)
            return -1;
        size_t n =
            t->rows[id].type != FY_TOKEN_UNDEFINED ? find_cuts(t, t->rows[id].text, cuts) : 0;
        for (size_t i = 0; i < n; i++) {
            fy_span l = t->rows[cuts[i].left].text, r = t->rows[cuts[i].right].text;
            fy_str_add(merges, l.ptr, l.len);
            fy_str_putc(merges, ' ');
            fy_str_add(merges, r.ptr, r.len);
            fy_str_putc(merges, '\n');
        }
    }
    return merges->oom ? fy_nomem(e) : 0;
}

int fy_rank_file_parse(const void *p, size_t n, fy_token_table *t, fy_str *merges, fy_err *e)
{
    if (read_tokens((fy_span){p, n}, t, e) != 0)
        return -1;
    if (t->n == 0)
        return fy_fail(e, FY_EFORMAT, "the rank file is empty");
    return put_merges(t, merges, e);
}
