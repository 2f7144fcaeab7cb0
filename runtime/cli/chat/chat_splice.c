#include "cli/chat/chat_splice.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/template/chat_template.h"

void fy_chat_splice_release(fy_chat_splice *s)
{
    fy_str_release(&s->text);
    fy_ids_release(&s->ids);
    free(s->seams);
    *s = (fy_chat_splice){0};
}

static bool begins_with_control(const fy_vocab *v, fy_span text, int32_t first)
{
    fy_span piece = fy_vocab_piece(v, first);
    return fy_vocab_type(v, first) == FY_TOKEN_CONTROL && piece.len > 0 && piece.len <= text.len &&
           memcmp(piece.ptr, text.ptr, piece.len) == 0;
}

static int append(fy_ids *to, const int32_t *ids, size_t n, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (fy_ids_push(to, ids[i], e) != 0)
            return -1;
    }
    return 0;
}

/* Keeps what lies before the seam and encodes the rest. 0: done; 1: the rest does not begin with a
 * control token. */
static int go_on_from(fy_chat_splice *s, size_t seam, const fy_vocab *v, fy_span prompt, fy_err *e)
{
    fy_chat_seam at = s->seams[seam];
    fy_span rest = {prompt.ptr + at.n_bytes, prompt.len - at.n_bytes};
    fy_ids ids = {0};
    int rc = fy_vocab_encode(v, rest, false, true, &ids, e);
    if (rc == 0 && (ids.n == 0 || !begins_with_control(v, rest, ids.id[0])))
        rc = 1;
    if (rc == 0) {
        s->ids.n = at.n_ids;
        s->n_seams = seam + 1;
        rc = append(&s->ids, ids.id, ids.n, e);
    }
    fy_ids_release(&ids);
    return rc;
}

static size_t n_common(const fy_str *a, fy_span b)
{
    size_t n = 0, most = a->len < b.len ? a->len : b.len;
    while (n < most && a->ptr[n] == b.ptr[n])
        n++;
    return n;
}

static int make_ids(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e)
{
    size_t common = n_common(&s->text, prompt);
    for (size_t i = s->n_seams; i-- > 0;) {
        if (s->seams[i].n_bytes > common)
            continue;
        int rc = go_on_from(s, i, v, prompt, e);
        if (rc <= 0)
            return rc;
    }
    s->ids.n = 0;
    s->n_seams = 0;
    return fy_chat_encode_text(v, prompt, &s->ids, e);
}

int fy_chat_splice_prompt(fy_chat_splice *s, const fy_vocab *v, fy_span prompt, fy_err *e)
{
    int rc = make_ids(s, v, prompt, e);
    fy_str_clear(&s->text);
    fy_str_add(&s->text, prompt.ptr, prompt.len);
    if (rc == 0 && s->text.oom)
        rc = fy_nomem(e);
    if (rc != 0)
        fy_chat_splice_release(s);
    return rc;
}

int fy_chat_splice_answer(fy_chat_splice *s, const fy_vocab *v, const int32_t *ids, size_t n,
                          fy_err *e)
{
    size_t n_bytes = s->text.len, n_ids = s->ids.n;
    fy_chat_seam *seams = fy_grow(s->seams, s->n_seams, &s->cap, sizeof *seams);
    if (seams == NULL)
        return fy_nomem(e);
    s->seams = seams;
    int rc = append(&s->ids, ids, n, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = fy_vocab_decode_one(v, ids[i], true, &s->text, e);
    if (rc == 0 && s->text.oom)
        rc = fy_nomem(e);
    if (rc != 0) { /* the prompt is still known */
        s->ids.n = n_ids;
        s->text.len = n_bytes;
        return -1;
    }
    seams[s->n_seams++] = (fy_chat_seam){s->text.len, s->ids.n};
    return 0;
}
