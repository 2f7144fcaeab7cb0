#include "cli/measure/parity.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "model/template/chat_template.h"

enum { MOST_POSITIONS = 4096, EXCERPT = 48 };

typedef struct {
    fy_model *m;
    const fy_vocab *v;
    const json_t *root;
    fy_parity_report *out;
    int n_threads;
    bool only_first;
} checker;

static fy_span span_of(const json_t *string)
{
    return (fy_span){json_string_value(string), json_string_length(string)};
}

/* Appends about EXCERPT bytes of text as a JSON string, whole characters. */
static void put_excerpt(fy_span text, fy_str *out)
{
    size_t n = text.len < EXCERPT ? text.len : fy_utf8_complete(text.ptr, EXCERPT);
    fy_json_put_string(out, (fy_span){text.ptr, n});
    fy_str_puts(out, n < text.len ? "..." : "");
}

/* Counts a difference; the first of a part is kept. Frees `what`. */
static void differs(fy_parity_part *p, fy_str *what)
{
    if (p->n_bad++ == 0) {
        size_t room = sizeof p->first - 1, n = what->len;
        if (n > room)
            n = fy_utf8_complete(fy_str_z(what), room);
        memcpy(p->first, fy_str_z(what), n);
        p->first[n] = '\0';
    }
    fy_str_release(what);
}

static int read_ids(const json_t *item, const char *key, uint32_t n_vocab, fy_ids *out, fy_err *e)
{
    const json_t *list = json_object_get(item, key);
    if (!json_is_array(list))
        return fy_fail(e, FY_EFORMAT, "has no list \"%s\"", key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i);
        if (!json_is_integer(j) || json_integer_value(j) < 0 || json_integer_value(j) >= n_vocab)
            return fy_fail(e, FY_EFORMAT, "%s[%zu] is no id below %u", key, i, n_vocab);
        if (fy_ids_push(out, (int32_t)json_integer_value(j), e) != 0)
            return -1;
    }
    return 0;
}

static void put_id(const fy_ids *ids, size_t i, fy_str *out)
{
    if (i < ids->n)
        fy_str_printf(out, "%d", ids->id[i]);
    else
        fy_str_puts(out, "the end");
}

/* --- texts ------------------------------------------------------------------------------------ */

static int compare_text(checker *c, const json_t *item, const char *key, bool special, fy_err *e)
{
    fy_parity_part *p = &c->out->part[FY_PARITY_TEXTS];
    fy_span text = span_of(json_object_get(item, "text"));
    fy_ids want = {0}, found = {0};
    int rc = read_ids(item, key, fy_model_hparams(c->m)->n_vocab, &want, e);
    if (rc == 0)
        rc = fy_vocab_encode(c->v, text, special, true, &found, e);
    size_t at = 0;
    while (at < want.n && at < found.n && want.id[at] == found.id[at])
        at++;
    p->n += rc == 0;
    if (rc == 0 && (at < want.n || at < found.n)) {
        fy_str what = {0};
        put_excerpt(text, &what);
        fy_str_printf(&what, ": %s[%zu] is ", key, at);
        put_id(&found, at, &what);
        fy_str_puts(&what, ", expected ");
        put_id(&want, at, &what);
        differs(p, &what);
    }
    fy_ids_release(&want);
    fy_ids_release(&found);
    return rc;
}

static int check_text(checker *c, const json_t *item, fy_err *e)
{
    if (!json_is_string(json_object_get(item, "text")))
        return fy_fail(e, FY_EFORMAT, "has no string \"text\"");
    if (compare_text(c, item, "ids", false, e) != 0)
        return -1;
    return compare_text(c, item, "ids_with_special", true, e);
}

/* --- conversations ---------------------------------------------------------------------------- */

static void compare_rendered(fy_parity_part *p, const json_t *item, int rc, const fy_str *text,
                             const fy_err *why)
{
    const json_t *want = json_object_get(item, "expected"), *error = json_object_get(item, "error");
    fy_span found = rc == 0 ? (fy_span){fy_str_z(text), text->len} : fy_span_of(why->msg);
    fy_str what = {0};
    p->n++;
    if ((rc == 0) == (want != NULL) && fy_span_eq(found, span_of(want != NULL ? want : error)))
        return;
    put_excerpt(span_of(json_object_get(item, "name")), &what);
    fy_str_puts(&what, rc == 0 ? " became " : " fails with ");
    put_excerpt(found, &what);
    fy_str_puts(&what, want != NULL ? ", expected " : ", expected the error ");
    put_excerpt(span_of(want != NULL ? want : error), &what);
    differs(p, &what);
}

static int check_conversation(checker *c, const fy_chat_template *t, int64_t clock,
                              const json_t *item, fy_err *e)
{
    const json_t *messages = json_object_get(item, "messages"),
                 *want = json_object_get(item, "expected"), *error = json_object_get(item, "error");
    if (!json_is_string(json_object_get(item, "name")) || !json_is_array(messages) ||
        !(json_is_string(want) || (want == NULL && json_is_string(error))))
        return fy_fail(e, FY_EFORMAT,
                       "lacks a name, its messages, or the text or error that they make");
    char *json = json_dumps(messages, JSON_COMPACT);
    if (json == NULL)
        return fy_nomem(e);
    fy_chat_input in = {.messages = fy_span_of(json),
                        .add_generation_prompt =
                            json_is_true(json_object_get(item, "add_generation_prompt")),
                        .has_clock = true,
                        .clock = clock};
    fy_str text = {0};
    fy_err why = {0};
    int rc = fy_chat_template_render(t, &in, &text, &why);
    if (rc != 0 && (why.code == FY_ENOMEM || why.code == FY_EINTR))
        fy_fail(e, why.code, "%s", why.msg);
    else
        compare_rendered(&c->out->part[FY_PARITY_CONVERSATIONS], item, rc, &text, &why);
    fy_str_release(&text);
    free(json);
    return rc != 0 && (why.code == FY_ENOMEM || why.code == FY_EINTR) ? -1 : 0;
}

static int check_conversations(checker *c, const json_t *list, fy_err *e)
{
    const json_t *clock = json_object_get(c->root, "clock");
    fy_chat_template *t = fy_chat_template_open(fy_model_gguf(c->m), NULL, e);
    int rc = t != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        rc = check_conversation(c, t, json_integer_value(clock), json_array_get(list, i), e);
        if (rc != 0)
            fy_ctx(e, "cases[%zu]", i);
    }
    fy_chat_template_free(t);
    return rc;
}

/* --- greedy ----------------------------------------------------------------------------------- */

static int compare_greedy(checker *c, fy_session *s, const json_t *item, const fy_ids *prompt,
                          const fy_ids *want, fy_err *e)
{
    fy_parity_part *p = &c->out->part[FY_PARITY_GREEDY];
    uint32_t n_vocab = fy_model_hparams(c->m)->n_vocab;
    const float *logits;
    fy_session_rewind(s, 0);
    if (fy_session_eval(s, prompt->id, (uint32_t)prompt->n, NULL, &logits, e) != 0)
        return -1;
    for (size_t i = 0; i < want->n; i++) {
        double lead;
        int32_t id = fy_parity_best(logits, n_vocab, &lead);
        p->n++;
        if (id != want->id[i]) {
            fy_str what = {0};
            put_excerpt(span_of(json_object_get(item, "prompt")), &what);
            fy_str_printf(&what, ": id %zu is %d (ahead by %.2g %%), expected %d", i, id,
                          lead * 100, want->id[i]);
            differs(p, &what);
            return 0; /* what follows an id that differs says nothing */
        }
        if (i + 1 < want->n && fy_session_eval(s, &id, 1, NULL, &logits, e) != 0)
            return -1;
    }
    return 0;
}

static int check_prompt(checker *c, const json_t *item, fy_err *e)
{
    uint32_t n_vocab = fy_model_hparams(c->m)->n_vocab;
    fy_ids prompt = {0}, want = {0};
    fy_session *s = NULL;
    int rc = json_is_string(json_object_get(item, "prompt"))
                 ? read_ids(item, "prompt_ids", n_vocab, &prompt, e)
                 : fy_fail(e, FY_EFORMAT, "has no string \"prompt\"");
    if (rc == 0)
        rc = read_ids(item, "ids", n_vocab, &want, e);
    if (rc == 0 && (prompt.n == 0 || prompt.n > MOST_POSITIONS || want.n > MOST_POSITIONS))
        rc = fy_fail(e, FY_EFORMAT, "%zu and %zu ids, expected 1 to %d and at most %d", prompt.n,
                     want.n, MOST_POSITIONS, MOST_POSITIONS);
    if (rc == 0 && want.n > 0) {
        s = fy_parity_session(c->m, (uint32_t)(prompt.n + want.n), c->n_threads, e);
        rc = s != NULL ? compare_greedy(c, s, item, &prompt, &want, e) : -1;
    }
    fy_session_free(s);
    fy_ids_release(&prompt);
    fy_ids_release(&want);
    return rc;
}

/* --- the file --------------------------------------------------------------------------------- */

static int check_list(checker *c, const json_t *list, const char *name,
                      int (*check)(checker *c, const json_t *item, fy_err *e), fy_err *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (check(c, json_array_get(list, i), e) != 0)
            return fy_ctx(e, "%s[%zu]", name, i);
        if (c->only_first && check == check_prompt)
            break;
    }
    return 0;
}

static int check_all(checker *c, fy_err *e)
{
    const json_t *texts = json_object_get(c->root, "tokenizer_cases"),
                 *cases = json_object_get(c->root, "cases"),
                 *greedy = json_object_get(c->root, "greedy");
    json_int_t version = json_integer_value(json_object_get(c->root, "format_version"));
    if (version != FY_PARITY_VERSION)
        return fy_fail(e, FY_EFORMAT, "format_version is %lld, expected %d", (long long)version,
                       FY_PARITY_VERSION);
    if (!json_is_array(texts) || !json_is_array(greedy) || (cases != NULL && !json_is_array(cases)))
        return fy_fail(e, FY_EFORMAT, "lacks \"tokenizer_cases\" or \"greedy\"");
    fy_parity_part *p = c->out->part;
    double begin = fy_now_s(), then;
    if (check_list(c, texts, "tokenizer_cases", check_text, e) != 0)
        return -1;
    p[FY_PARITY_TEXTS].seconds = (then = fy_now_s()) - begin;
    if (cases != NULL && check_conversations(c, cases, e) != 0)
        return -1;
    p[FY_PARITY_CONVERSATIONS].seconds = (begin = fy_now_s()) - then;
    if (check_list(c, greedy, "greedy", check_prompt, e) != 0)
        return -1;
    p[FY_PARITY_GREEDY].seconds = fy_now_s() - begin;
    return 0;
}

int fy_parity_check(fy_model *m, const void *json, size_t n, int n_threads, bool only_first,
                    fy_parity_report *out, fy_err *e)
{
    *out = (fy_parity_report){0};
    json_t *root = fy_json_data((fy_span){json, n}, e);
    if (root == NULL)
        return -1;
    checker c = {.m = m,
                 .v = fy_model_vocab(m, e),
                 .root = root,
                 .out = out,
                 .n_threads = n_threads,
                 .only_first = only_first};
    int rc = c.v != NULL ? check_all(&c, e) : -1;
    json_decref(root);
    return rc;
}
