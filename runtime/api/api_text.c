/* ferry.h: the text of generated tokens, and the stop strings that end it. */
#include <stdlib.h>

#include "api/api_impl.h"
#include "model/text_out.h"

struct ferry_text {
    ferry_model *model; /* kept */
    fy_stops *stops;    /* owned; NULL: none */
    fy_text_out out;
    fy_str shown; /* of the last call */
    bool begun;
};

static int read_stops(const char *const *stops, size_t n, fy_stops **out, fy_err *e)
{
    fy_span texts[FY_STOPS_MAX];
    if (n == 0)
        return 0;
    if (fy_api_need(stops, "stops", e) != 0)
        return -1;
    for (size_t i = 0; i < n && i < FY_STOPS_MAX; i++) {
        if (fy_api_need(stops[i], "a text of stops", e) != 0)
            return -1;
        texts[i] = fy_span_of(stops[i]);
    }
    *out = fy_stops_new(texts, n, e);
    return *out != NULL ? 0 : -1;
}

static ferry_text *new_text(ferry_model *model, uint32_t flags, const char *const *stops, size_t n,
                            fy_err *e)
{
    const ferry_vocab *vocab = fy_api_vocab(model, e);
    ferry_text *t = vocab != NULL ? calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        if (vocab != NULL)
            fy_nomem(e);
        return NULL;
    }
    if (read_stops(stops, n, &t->stops, e) != 0) {
        free(t);
        return NULL;
    }
    t->model = model;
    t->begun = flags & FERRY_TEXT_CONTINUES;
    fy_api_model_keep(model);
    fy_text_out_begin(&t->out, vocab->v, t->stops, t->begun);
    return t;
}

ferry_status ferry_text_new(ferry_model *model, uint32_t flags, const char *const *stops,
                            size_t n_stops, ferry_text **text, ferry_error *error)
{
    fy_err e = {0};
    int rc = fy_api_need(text, "text", &e);
    if (rc == 0)
        *text = NULL;
    if (rc == 0 && fy_api_need(model, "model", &e) == 0 &&
        fy_api_flags(flags, FERRY_TEXT_CONTINUES, &e) == 0)
        *text = new_text(model, flags, stops, n_stops, &e);
    return fy_api_end(rc == 0 && *text != NULL ? 0 : -1, &e, error);
}

void ferry_text_free(ferry_text *text)
{
    if (text == NULL)
        return;
    fy_text_out_release(&text->out);
    fy_str_release(&text->shown);
    fy_stops_free(text->stops);
    fy_api_model_release(text->model);
    free(text);
}

static int give(ferry_text *t, const char **shown, size_t *n_bytes, fy_err *e)
{
    if (t->shown.oom)
        return fy_nomem(e);
    *shown = fy_str_z(&t->shown);
    *n_bytes = t->shown.len;
    return 0;
}

static int check(const ferry_text *t, const char **shown, const size_t *n_bytes, fy_err *e)
{
    return fy_api_need(t, "text", e) != 0 || fy_api_need(shown, "shown", e) != 0 ||
                   fy_api_need(n_bytes, "n_bytes", e) != 0
               ? -1
               : 0;
}

ferry_status ferry_text_add(ferry_text *text, int32_t id, const char **shown, size_t *n_bytes,
                            int32_t *stop, ferry_error *error)
{
    fy_err e = {0};
    int rc = check(text, shown, n_bytes, &e);
    if (rc == 0 && (id < 0 || (uint32_t)id >= fy_vocab_n(text->out.vocab)))
        rc = fy_fail(&e, FY_EARG, "token id %d, the vocabulary has %u", id,
                     fy_vocab_n(text->out.vocab));
    if (rc == 0) {
        fy_str_clear(&text->shown);
        if (fy_text_out_token(&text->out, id, &text->shown, &e) < 0)
            rc = -1;
    }
    if (rc == 0)
        rc = give(text, shown, n_bytes, &e);
    if (rc == 0 && stop != NULL)
        *stop = text->out.found;
    return fy_api_end(rc, &e, error);
}

ferry_status ferry_text_end(ferry_text *text, const char **shown, size_t *n_bytes,
                            ferry_error *error)
{
    fy_err e = {0};
    int rc = check(text, shown, n_bytes, &e);
    if (rc == 0) {
        const fy_vocab *vocab = text->out.vocab;
        fy_str_clear(&text->shown);
        rc = fy_text_out_end(&text->out, &text->shown, &e);
        fy_text_out_release(&text->out);
        fy_text_out_begin(&text->out, vocab, text->stops, text->begun);
    }
    if (rc == 0)
        rc = give(text, shown, n_bytes, &e);
    return fy_api_end(rc, &e, error);
}
