/* parity.json: made by `create`, checked by `selftest`. */
#include "cli/measure/parity.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/cut_model.h"
#include "model/sample.h"
#include "model/template/chat_template.h"

enum { MOST_IDS = 24, FEWEST_IDS = 4, CONTROL_TEXTS = 6, CLOCK = 1721995200 };

/* --- test cases ------------------------------------------------------------------------------- */

#define TEXT(literal)               \
    {                               \
        literal, sizeof literal - 1 \
    }

/* Each stands for a way in which tokenizers have been wrong. */
static const fy_span texts[] = {
    TEXT(""),
    TEXT(" "),
    TEXT("   "),
    TEXT("\n"),
    TEXT("\n\n \n"),
    TEXT("\t\tx\t y"),
    TEXT("Hello, world!"),
    TEXT("  two blanks before and after  "),
    TEXT("Hello\r\nWorld\r\n"),
    TEXT("CamelCase snake_case UPPER lower"),
    TEXT("don't I'LL we've It's o'clock 'tis"),
    TEXT("3.14159 1,000,000 2026-11-21 0x1F 12345678901234567890"),
    TEXT("1 12 123 1234 12345"),
    TEXT("a=b+c; if (x != 0) { y <<= 2; } // done"),
    TEXT("def f(x):\n    return x ** 2\n"),
    TEXT("{\"key\": [1, 2.5, null], \"s\": \"\\n\"}"),
    TEXT("https://example.org/a/b?c=d&e=%20#f user@example.org"),
    TEXT("!!! ??? ... --- *** ___ ~~~"),
    TEXT("\"quoted\" 'single' `code` \xE2\x80\x9C"
         "curly\xE2\x80\x9D"),
    TEXT("Stra\xC3\x9F"
         "e, na\xC3\xAFve, \xC5\x81\xC3\xB3"
         "d\xC5\xBA, fa\xC3\xA7"
         "ade"),
    TEXT("e\xCC\x81 and \xC3\xA9, A\xCC\x8A and \xE2\x84\xAB"), /* composed and not */
    TEXT("\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82, \xD0\xBC\xD0\xB8\xD1\x80!"),
    TEXT("\xCE\x9A\xCE\xB1\xCE\xBB\xCE\xB7\xCE\xBC\xCE\xAD\xCF\x81\xCE\xB1"),
    TEXT("\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xD7\xA2\xD7\x95\xD7\x9C\xD7\x9D"),
    TEXT("\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xD9\xA1\xD9\xA2\xD9\xA3"),
    TEXT("\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87"),
    TEXT("\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA\xE0\xB8\x94\xE0\xB8\xB5"),
    TEXT("\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82"),
    TEXT("\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF \xE3\x82\xAB\xE3\x83\x8A"),
    TEXT("\xEC\x95\x88\xEB\x85\x95\xED\x95\x98\xEC\x84\xB8\xEC\x9A\x94"),
    TEXT("\xF0\x9F\x98\x80 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x94\xAC "
         "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA \xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD"),
    TEXT("\xC2\xA0non\xC2\xA0"
         "breaking\xE3\x80\x80wide\xE2\x80\x89thin"),
    TEXT("zero\xE2\x80\x8Bwidth \xEF\xBB\xBF"
         "bom"),
    TEXT("\xE2\x96\x81lower\xE2\x96\x81one"), /* SentencePiece's space as text */
    TEXT("x\xC2\xB2 + \xC2\xBD \xE2\x85\xA3 \xE2\x82\xAC \xE2\x88\x9E \xE2\x89\xA0"),
    TEXT("\xF0\x9D\x94\x98\xF0\x9D\x94\xAB\xF0\x9D\x94\xA6 \xF0\x93\x80\x80"),
    TEXT("a\0b"),
    TEXT("\x01\x7F\xC2\x85"),
    TEXT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    TEXT("<s> </s> <unk> <pad> [INST] <|im_start|> <|eot_id|>"),
};

#define MSG(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"

static const struct {
    const char *name, *messages;
    bool prompt; /* add_generation_prompt */
} conversations[] = {
    {"one question", "[" MSG("user", "Tell me a short story.") "]", true},
    {"a system message", "[" MSG("system", "Answer in one word.") "," MSG("user", "Yes or no?") "]",
     true},
    {"three turns",
     "[" MSG("user", "Hi") "," MSG("assistant", "Hello! What can I do?") "," MSG("user",
                                                                                 "Count.") "]",
     true},
    {"ended by an answer", "[" MSG("user", "Hi") "," MSG("assistant", "Hello!") "]", false},
    {"blanks and lines",
     "[" MSG("system", "  Be brief.\\n") "," MSG("user", " two\\n\\nparagraphs  ") "]", true},
    {"scripts and marks",
     "[" MSG("user",
             "\xE4\xBD\xA0\xE5\xA5\xBD <b>&amp;</b> {{ x }} \xF0\x9F\x98\x80 \\\"q\\\"") "]",
     true},
};

static const char *const prompts[] = {"Once upon a time", "The capital of France is",
                                      "def add(a, b):\n    return"};

#define N_OF(a) (sizeof(a) / sizeof(a)[0])

fy_parity_params fy_parity_defaults(void)
{
    return (fy_parity_params){.tool = "ferry " FERRY_VERSION, .max_s = 60, .max_read = 64ull << 30};
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Appends , "KEY": [1, 2]. */
static void put_ids(const char *key, const int32_t *id, size_t n, fy_str *out)
{
    fy_str_printf(out, ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        fy_str_printf(out, "%s%d", i > 0 ? ", " : "", id[i]);
    fy_str_putc(out, ']');
}

static int put_encoded(const fy_vocab *v, fy_span text, bool specials, const char *key, fy_str *out,
                       fy_err *e)
{
    fy_ids ids = {0};
    int rc = fy_vocab_encode(v, text, specials, true, &ids, e);
    if (rc == 0)
        put_ids(key, ids.id, ids.n, out);
    fy_ids_release(&ids);
    return rc;
}

static int put_text(const fy_vocab *v, fy_span text, fy_parity_made *made, fy_str *out, fy_err *e)
{
    fy_str_puts(out, made->n_texts++ > 0 ? ",\n  {\"text\": " : "\n  {\"text\": ");
    fy_json_put_string(out, text);
    if (put_encoded(v, text, false, "ids", out, e) != 0 ||
        put_encoded(v, text, true, "ids_with_special", out, e) != 0)
        return -1;
    fy_str_putc(out, '}');
    return 0;
}

/* The fixed texts, and control tokens of this vocabulary in the middle of one. */
static int put_texts(const fy_vocab *v, fy_parity_made *made, fy_str *out, fy_err *e)
{
    int rc = 0;
    uint32_t n_control = 0;
    fy_str_puts(out, ",\n \"tokenizer_cases\": [");
    for (size_t i = 0; rc == 0 && i < N_OF(texts); i++)
        rc = put_text(v, texts[i], made, out, e);
    for (uint32_t id = 0; rc == 0 && id < fy_vocab_n(v) && n_control < CONTROL_TEXTS; id++) {
        fy_span piece = fy_vocab_piece(v, (int32_t)id);
        if (fy_vocab_type(v, (int32_t)id) != FY_TOKEN_CONTROL || piece.len == 0)
            continue;
        fy_str s = {0};
        fy_str_puts(&s, "Hi ");
        fy_str_add(&s, piece.ptr, piece.len);
        fy_str_puts(&s, "you");
        rc = s.oom ? fy_nomem(e) : put_text(v, (fy_span){fy_str_z(&s), s.len}, made, out, e);
        fy_str_release(&s);
        n_control++;
    }
    fy_str_puts(out, "]");
    return rc;
}

/* --- conversations ---------------------------------------------------------------------------- */

/* FY_EARG is the template's own error: it must be the same elsewhere too. */
static int put_conversation(const fy_chat_template *t, const fy_vocab *v, size_t i, fy_str *prompt,
                            fy_str *out, fy_err *e)
{
    fy_chat_input in = {.messages = fy_span_of(conversations[i].messages),
                        .add_generation_prompt = conversations[i].prompt,
                        .has_clock = true,
                        .clock = CLOCK};
    fy_err why = {0};
    fy_str_clear(prompt);
    int rc = fy_chat_template_render(t, &in, prompt, &why);
    if (rc != 0 && why.code != FY_EARG)
        return fy_fail(e, why.code, "%s", why.msg);
    fy_str_printf(out,
                  "%s\n  {\"name\": \"%s\", \"messages\": %s, \"add_generation_prompt\": %s,\n"
                  "   \"%s\": ",
                  i > 0 ? "," : "", conversations[i].name, conversations[i].messages,
                  conversations[i].prompt ? "true" : "false", rc == 0 ? "expected" : "error");
    fy_span text = {fy_str_z(prompt), prompt->len};
    fy_json_put_string(out, rc == 0 ? text : fy_span_of(why.msg));
    fy_str_puts(out, ",\n   \"text\": ");
    fy_json_put_string(out, rc == 0 ? text : (fy_span){"", 0});
    if (rc == 0 && put_encoded(v, text, false, "ids", out, e) != 0)
        return -1;
    fy_str_putc(out, '}');
    return prompt->oom ? fy_nomem(e) : 0;
}

/* *first becomes the prompt of the first conversation; it stays empty for a model without a
 * template, or with one that ferry cannot read (chat reports it). */
static int put_conversations(const fy_gguf *g, const fy_vocab *v, fy_str *first,
                             fy_parity_made *made, fy_str *out, fy_err *e)
{
    fy_err why = {0};
    fy_chat_template *t = fy_chat_template_open(g, NULL, &why);
    if (t == NULL)
        return why.code == FY_ENOMEM ? fy_nomem(e) : 0;
    fy_str prompt = {0}, list = {0};
    int rc = 0;
    size_t n = 0;
    while (rc == 0 && n < N_OF(conversations)) {
        rc = put_conversation(t, v, n, n == 0 ? first : &prompt, &list, &why);
        n++;
    }
    /* a template that fails with any other error would fail on the phone too */
    if (rc != 0 && (why.code == FY_ENOMEM || why.code == FY_EINTR)) {
        fy_fail(e, why.code, "%s", why.msg);
    } else if (rc != 0) {
        fy_log(FY_LOG_WARN, "parity: without conversations: %s", why.msg);
        fy_str_clear(first);
        rc = 0;
    } else {
        fy_str_puts(out, ",\n \"cases\": [");
        fy_str_add(out, list.ptr, list.len);
        fy_str_putc(out, ']');
        out->oom |= list.oom;
        made->n_conversations = (unsigned)n;
    }
    fy_str_release(&prompt);
    fy_str_release(&list);
    fy_chat_template_free(t);
    return rc;
}

/* --- greedy ----------------------------------------------------------------------------------- */

int32_t fy_parity_best(const float *logits, uint32_t n_vocab, double *lead)
{
    fy_candidate best[2];
    uint32_t n = fy_logits_best(logits, n_vocab, 2, best);
    *lead = n == 0 ? 0
            : n == 1
                ? INFINITY
                : ((double)best[0].logit - (double)best[1].logit) / fabs((double)best[0].logit);
    return n == 0 ? -1 : best[0].id;
}

fy_session *fy_parity_session(const fy_model *m, uint32_t n_ctx, int n_threads, fy_err *e)
{
    const uint32_t most = fy_model_max_ctx(m);
    fy_session_params p = {.n_ctx = n_ctx < most ? n_ctx : most,
                           .n_batch = 64,
                           .n_threads = n_threads,
                           .type_k = FY_F32,
                           .type_v = FY_F32};
    return fy_session_new(m, &p, e);
}

typedef struct {
    const fy_vocab *v;
    fy_session *s;
    uint32_t n_vocab;
    size_t most; /* ids of a prompt */
    double end_s;
    fy_parity_made *made;
} greedy;

/* Appends the generated ids to the prompt in `ids`. */
static int continue_ids(greedy *g, fy_ids *ids, fy_err *e)
{
    const float *logits;
    size_t n_prompt = ids->n;
    fy_session_rewind(g->s, 0);
    if (fy_session_eval(g->s, ids->id, (uint32_t)ids->n, NULL, &logits, e) != 0)
        return -1;
    for (;;) {
        double lead;
        int32_t id = fy_parity_best(logits, g->n_vocab, &lead);
        if (!(lead >= FY_PARITY_LEAD) || !fy_vocab_is_samplable(g->v, id))
            return 0;
        if (fy_ids_push(ids, id, e) != 0)
            return -1;
        if (fy_vocab_is_eog(g->v, id) || ids->n - n_prompt == g->most)
            return 0;
        if (fy_now_s() > g->end_s) {
            g->made->cut = true;
            return 0;
        }
        if (fy_session_eval(g->s, &id, 1, NULL, &logits, e) != 0)
            return -1;
    }
}

static int put_prompt(greedy *g, fy_span text, bool special, fy_str *out, fy_err *e)
{
    fy_ids ids = {0};
    int rc = special ? fy_vocab_encode(g->v, text, true, true, &ids, e)
                     : fy_chat_encode_text(g->v, text, &ids, e);
    size_t n = ids.n;
    /* skip a text without tokens, or a template's long system prompt */
    bool fits = n > 0 && n + MOST_IDS <= fy_session_n_ctx(g->s);
    if (rc == 0 && fits)
        rc = continue_ids(g, &ids, e);
    if (rc == 0 && fits) {
        fy_str_puts(out, g->made->n_prompts++ > 0 ? ",\n  {\"prompt\": " : "\n  {\"prompt\": ");
        fy_json_put_string(out, text);
        put_ids("prompt_ids", ids.id, n, out);
        put_ids("ids", ids.id + n, ids.n - n, out);
        fy_str_putc(out, '}');
        g->made->n_ids += (unsigned)(ids.n - n);
    }
    fy_ids_release(&ids);
    return rc;
}

static void add_bytes(void *user, const fy_gguf *g)
{
    uint64_t *bytes = user;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++)
        *bytes += fy_gguf_tensor_at(g, i)->bytes;
}

static int ids_per_prompt(const fy_model *m, uint64_t max_read, size_t n_prompts, size_t *out,
                          fy_err *e)
{
    uint64_t bytes = 1;
    if (fy_model_each_file(m, add_bytes, &bytes, e) != 0)
        return -1;
    const uint64_t n = max_read / bytes / n_prompts;
    *out = n < FEWEST_IDS ? FEWEST_IDS : n > MOST_IDS ? MOST_IDS : (size_t)n;
    return 0;
}

static int put_greedy(const fy_model *m, const fy_vocab *v, const fy_parity_params *p,
                      const fy_str *chat, double begin, fy_parity_made *made, fy_str *out,
                      fy_err *e)
{
    enum { N_CTX = 512 };
    size_t n = N_OF(prompts) + (chat->len > 0);
    greedy g = {.v = v,
                .s = fy_parity_session(m, N_CTX, p->n_threads, e),
                .n_vocab = fy_model_hparams(m)->n_vocab,
                .end_s = begin + p->max_s,
                .made = made};
    int rc = g.s != NULL ? ids_per_prompt(m, p->max_read, n, &g.most, e) : -1;
    fy_str_puts(out, ",\n \"greedy\": [");
    for (size_t i = 0; rc == 0 && i < n && !made->cut; i++) {
        bool plain = i < N_OF(prompts);
        fy_span text = plain ? fy_span_of(prompts[i]) : (fy_span){fy_str_z(chat), chat->len};
        rc = put_prompt(&g, text, plain, out, e);
        made->cut |= i + 1 < n && fy_now_s() > g.end_s;
    }
    fy_str_putc(out, ']');
    fy_session_free(g.s);
    return rc;
}

/* --- the file --------------------------------------------------------------------------------- */

int fy_parity_make(fy_model *m, const fy_parity_params *p, fy_str *out, fy_parity_made *made,
                   fy_err *e)
{
    fy_err why = {0};
    double begin = fy_now_s();
    fy_str chat = {0};
    *made = (fy_parity_made){0};
    const fy_vocab *v = fy_model_vocab(m, &why);
    if (v == NULL)
        return fy_fail(e, why.code == FY_ENOMEM ? FY_ENOMEM : FY_EUNSUPPORTED, "%s", why.msg);
    fy_str_printf(out,
                  "{\n \"format_version\": %d,\n \"tool\": \"%s\",\n \"n_vocab\": %u,\n"
                  " \"clock\": %d",
                  FY_PARITY_VERSION, p->tool, fy_model_hparams(m)->n_vocab, CLOCK);
    int rc = put_texts(v, made, out, e);
    if (rc == 0)
        rc = put_conversations(fy_model_gguf(m), v, &chat, made, out, e);
    if (rc == 0)
        rc = put_greedy(m, v, p, &chat, begin, made, out, e);
    fy_str_puts(out, "\n}\n");
    fy_str_release(&chat);
    made->seconds = fy_now_s() - begin;
    return rc == 0 && out->oom ? fy_nomem(e) : rc;
}

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
            return fy_fail(e, FY_EFORMAT, "%s[%zu] is not an id below %u", key, i, n_vocab);
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
            return 0; /* ids after a different one cannot be compared */
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
    const json_t *text_list = json_object_get(c->root, "tokenizer_cases"),
                 *cases = json_object_get(c->root, "cases"),
                 *greedy_list = json_object_get(c->root, "greedy");
    json_int_t version = json_integer_value(json_object_get(c->root, "format_version"));
    if (version != FY_PARITY_VERSION)
        return fy_fail(e, FY_EFORMAT, "format_version is %lld, expected %d", (long long)version,
                       FY_PARITY_VERSION);
    if (!json_is_array(text_list) || !json_is_array(greedy_list) ||
        (cases != NULL && !json_is_array(cases)))
        return fy_fail(e, FY_EFORMAT, "lacks \"tokenizer_cases\" or \"greedy\"");
    fy_parity_part *p = c->out->part;
    double begin = fy_now_s(), then;
    if (check_list(c, text_list, "tokenizer_cases", check_text, e) != 0)
        return -1;
    p[FY_PARITY_TEXTS].seconds = (then = fy_now_s()) - begin;
    if (cases != NULL && check_conversations(c, cases, e) != 0)
        return -1;
    p[FY_PARITY_CONVERSATIONS].seconds = (begin = fy_now_s()) - then;
    if (check_list(c, greedy_list, "greedy", check_prompt, e) != 0)
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
