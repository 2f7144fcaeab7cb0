#include <string.h>

#include "api/api_impl.h"
#include "model/template/chat_template.h"

const ferry_vocab *fy_api_vocab(ferry_model *model, fy_err *e)
{
    const fy_api_scope scope = fy_api_enter(model);
    pthread_mutex_lock(&model->lock);
    if (model->vocab.v == NULL)
        model->vocab.v = fy_model_vocab(model->m, e);
    const bool there = model->vocab.v != NULL;
    pthread_mutex_unlock(&model->lock);
    fy_api_leave(&scope);
    return there ? &model->vocab : NULL;
}

ferry_status ferry_model_vocab(ferry_model *model, const ferry_vocab **vocab, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(vocab, "vocab", &e);
    if (rc == 0)
        *vocab = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0)
        *vocab = fy_api_vocab(model, &e);
    return fy_api_end(rc == 0 && *vocab != NULL ? 0 : -1, &e, error);
}

/* --- tokens --------------------------------------------------------------------------------- */

uint32_t ferry_vocab_size(const ferry_vocab *vocab)
{
    return vocab != NULL ? fy_vocab_n(vocab->v) : 0;
}

int32_t ferry_vocab_bos(const ferry_vocab *vocab)
{
    return vocab != NULL ? fy_vocab_bos(vocab->v) : -1;
}

int ferry_vocab_is_end(const ferry_vocab *vocab, int32_t id)
{
    return vocab != NULL && fy_vocab_is_eog(vocab->v, id);
}

/* --- text to ids ---------------------------------------------------------------------------- */

static int encode(const fy_vocab *v, fy_span text, uint32_t flags, fy_ids *out, fy_err *e)
{
    if (flags & FERRY_RENDERED_CHAT)
        return flags == FERRY_RENDERED_CHAT
                   ? fy_chat_encode_text(v, text, out, e)
                   : fy_fail(e, FY_EARG, "flags %#x, expected FERRY_RENDERED_CHAT alone", flags);
    return fy_vocab_encode(v, text, flags & FERRY_ADD_SPECIAL, flags & FERRY_PARSE_SPECIAL, out, e);
}

static int put_ids(const fy_ids *made, int32_t *ids, size_t capacity, size_t *n_ids, fy_err *e)
{
    *n_ids = made->n;
    if (ids == NULL || made->n == 0)
        return 0;
    if (made->n > capacity)
        return fy_fail(e, FY_EFIT, "a text of %zu tokens, the buffer holds %zu", made->n, capacity);
    memcpy(ids, made->id, made->n * sizeof *ids);
    return 0;
}

ferry_status ferry_tokenize(const ferry_vocab *vocab, const char *text, size_t n_bytes,
                            uint32_t flags, int32_t *ids, size_t capacity, size_t *n_ids,
                            ferry_error *error)
{
    fy_err e = {0};
    fy_ids made = {0};
    int rc = -1;
    if (fy_api_need(vocab, "vocab", &e) == 0 && fy_api_need(text, "text", &e) == 0 &&
        fy_api_need(n_ids, "n_ids", &e) == 0 &&
        fy_api_flags(flags, FERRY_ADD_SPECIAL | FERRY_PARSE_SPECIAL | FERRY_RENDERED_CHAT, &e) == 0)
        rc = encode(vocab->v, (fy_span){text, n_bytes}, flags, &made, &e);
    if (rc == 0)
        rc = put_ids(&made, ids, capacity, n_ids, &e);
    fy_ids_release(&made);
    return fy_api_end(rc, &e, error);
}

/* --- ids to text ---------------------------------------------------------------------------- */

static int check_ids(const fy_vocab *v, const int32_t *ids, size_t n, fy_err *e)
{
    const uint32_t n_vocab = fy_vocab_n(v);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return fy_fail(e, FY_EARG, "token id %d, the vocabulary has %u", ids[i], n_vocab);
    }
    return 0;
}

/* What both ways from ids to text ask of their arguments. */
static int check_decode(const ferry_vocab *vocab, const int32_t *ids, size_t n, uint32_t flags,
                        const size_t *n_bytes, fy_err *e)
{
    if (fy_api_need(vocab, "vocab", e) != 0 || fy_api_need(n_bytes, "n_bytes", e) != 0 ||
        fy_api_flags(flags, FERRY_SHOW_SPECIAL, e) != 0 ||
        (n > 0 && fy_api_need(ids, "ids", e) != 0))
        return -1;
    return check_ids(vocab->v, ids, n, e);
}

ferry_status ferry_detokenize(const ferry_vocab *vocab, const int32_t *ids, size_t n_ids,
                              uint32_t flags, char *text, size_t capacity, size_t *n_bytes,
                              ferry_error *error)
{
    fy_err e = {0};
    fy_str made = {0};
    int rc = check_decode(vocab, ids, n_ids, flags, n_bytes, &e);
    if (rc == 0)
        rc = fy_vocab_decode(vocab->v, ids, n_ids, flags & FERRY_SHOW_SPECIAL, &made, &e);
    if (rc == 0)
        rc = fy_api_put_text(&made, text, capacity, n_bytes, &e);
    fy_str_release(&made);
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_token_text(const ferry_vocab *vocab, int32_t id, uint32_t flags, char *text,
                              size_t capacity, size_t *n_bytes, ferry_error *error)
{
    fy_err e = {0};
    fy_str made = {0};
    int rc = check_decode(vocab, &id, 1, flags, n_bytes, &e);
    if (rc == 0)
        rc = fy_vocab_decode_one(vocab->v, id, flags & FERRY_SHOW_SPECIAL, &made, &e);
    if (rc == 0)
        rc = fy_api_put_text(&made, text, capacity, n_bytes, &e);
    fy_str_release(&made);
    return fy_api_end(rc, &e, error);
}
