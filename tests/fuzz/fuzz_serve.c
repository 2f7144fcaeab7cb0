/* Requests to every route that answers with text or ids, from the body's bytes to the answer's:
 * they are read, computed by an engine that makes logits of the text's hash, and written in the
 * API's form. Each is answered exactly once, with JSON, and never with 500. The first byte chooses
 * the route, the second the template; the rest is the body. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "server/routes.h"
#include "server/server.h"
#include "tests/unit/vocab/small_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQS = 3, CTX = 64, BATCH = 24, VOCAB_MAX = 512 };

static const char *const paths[] = {"/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    "/infill",
                                    "/completion",
                                    "/v1/completions",
                                    "/v1/chat/completions",
                                    "/v1/chat/completions/input_tokens",
                                    "/v1/messages",
                                    "/v1/messages/count_tokens",
                                    "/v1/responses",
                                    "/v1/responses/input_tokens",
                                    "/api/chat",
                                    "/api/generate"};

#define TURNS "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}"
static const char *const templates[] = {
    TURNS,
    TURNS
    "{% if tools %}{% for t in tools %}{{ t.function.name }}{% endfor %}<tool_call>{% endif %}",
    TURNS "{% if tools %}<|tool_call>call:{% endif %}",
    TURNS "{% if tools %}<tool_call><function=x><parameter=y>{% endif %}<think>"};
enum { N_SERVERS = sizeof templates / sizeof *templates };

static fy_server servers[N_SERVERS];

/* --- the engine ------------------------------------------------------------------------------- */

static struct {
    uint32_t hash[SEQS][CTX + 1]; /* of the first n ids */
    uint32_t n_past[SEQS], n_vocab;
} g;

static uint32_t mixed(uint32_t h, uint32_t v)
{
    h = (h ^ v) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static int decode(void *user, const fy_batch *b, const fy_eval_sinks *sinks, fy_err *e)
{
    float row[VOCAB_MAX];
    uint32_t n_past[SEQS];
    (void)user;
    memcpy(n_past, g.n_past, sizeof n_past);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t s = b->seqs[i], n = g.n_past[s]++;
        assert(n < CTX && b->ids[i] >= 0 && (uint32_t)b->ids[i] < g.n_vocab);
        g.hash[s][n + 1] = mixed(g.hash[s][n], (uint32_t)b->ids[i]);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t h = g.hash[b->seqs[i]][++n_past[b->seqs[i]]];
        if (!b->wants[i])
            continue;
        for (uint32_t k = 0; k < g.n_vocab; k++) {
            h = mixed(h, k);
            row[k] = (float)(h % 4096) / 512;
        }
        if (sinks->logits(sinks->user, row, i, 1, e) != 0)
            return -1;
    }
    return 0;
}

static uint32_t rewind_seq(void *user, uint32_t seq, uint32_t n_past)
{
    (void)user;
    assert(n_past <= g.n_past[seq]);
    return g.n_past[seq] = n_past;
}

static int copy_seq(void *user, uint32_t from, uint32_t to, uint32_t n, fy_err *e)
{
    (void)user;
    (void)e;
    memcpy(g.hash[to], g.hash[from], (n + 1) * sizeof g.hash[0][0]);
    g.n_past[to] = n;
    return 0;
}

static double now(void *user)
{
    (void)user;
    return 1;
}

/* --- the server ------------------------------------------------------------------------------- */

static void begin(void)
{
    static const fy_server_options options;
    small_vocab b = {0};
    small_spm(&b, true);
    fy_vocab *vocab = small_vocab_load(&b, NULL);
    assert(vocab != NULL && fy_vocab_n(vocab) <= VOCAB_MAX);
    g.n_vocab = fy_vocab_n(vocab);
    for (int i = 0; i < N_SERVERS; i++) {
        fy_server *s = &servers[i];
        fy_served *v = &s->served;
        s->o = &options;
        v->vocab = vocab;
        v->chat = fy_chat_template_new(fy_span_of(templates[i]), "fuzz", NULL);
        v->n_slots = SEQS;
        v->n_ctx = CTX;
        v->n_embd = 1;
        v->n_vocab = g.n_vocab;
        v->sampler = fy_sampler_defaults();
        v->sampler.seed = 1;
        v->has_seed = true;
        v->n_predict = 24;
        v->name = "fuzz";
        pthread_mutex_init(&s->lock, NULL);
        pthread_mutex_init(&s->trie_lock, NULL);
        pthread_cond_init(&s->work, NULL);
        atomic_store(&s->state, FY_SERVER_READY);
        assert(v->chat != NULL);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* But for rules of our reader's own. */
static void check_json(const char *text, size_t n)
{
    static const char *const own[] = {"a second key", "deeper", "a key with a NUL"};
    fy_err e = {0};
    json_t *o = fy_json_data((fy_span){text, n}, &e);
    bool fine = o != NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        fine |= strstr(e.msg, own[i]) != NULL;
    if (!fine) {
        fprintf(stderr, "%s in the answer: %.*s\n", e.msg, (int)n, text);
        abort();
    }
    json_decref(o);
}

/* Of a stream every event, and every line of Ollama's. */
static void check_answer(const fy_exchange *x)
{
    static const char data[] = "data: ";
    const char *head_end = memmem(x->out.ptr, x->out.len, "\r\n\r\n", 4),
               *end = x->out.ptr + x->out.len;
    assert(x->ended && !x->out.oom && head_end != NULL && x->status != 0 && x->status != 500);
    const char *body = head_end + 4;
    const size_t n_head = (size_t)(head_end - x->out.ptr);
    if (memmem(x->out.ptr, n_head, "Content-Length:", 15) != NULL) {
        check_json(body, (size_t)(end - body));
        return;
    }
    for (const char *next; body < end; body = next + 1) {
        next = memchr(body, '\n', (size_t)(end - body));
        assert(next != NULL);
        if ((size_t)(next - body) > sizeof data - 1 && memcmp(body, data, sizeof data - 1) == 0)
            body += sizeof data - 1;
        if (*body == '{')
            check_json(body, (size_t)(next - body));
    }
}

static void answer(fy_server *s, const char *path, fy_span body)
{
    const fy_compute c = {.n_seq = SEQS,
                          .n_ctx = CTX,
                          .n_batch = BATCH,
                          .n_layer = 1,
                          .n_vocab = g.n_vocab,
                          .n_embd = 1,
                          .decode = decode,
                          .rewind = rewind_seq,
                          .copy = copy_seq,
                          .now = now};
    memset(g.n_past, 0, sizeof g.n_past);
    s->schedule = fy_schedule_new(&c, 64, NULL, NULL);
    s->woken = true; /* nobody is to be woken */
    fy_exchange *x = fy_exchange_new(s);
    assert(s->schedule != NULL && x != NULL);
    fy_str_add(&x->body, body.ptr, body.len);
    x->head.method = FY_HTTP_POST;
    x->route = fy_route_find(fy_span_of(path));
    fy_exchange_hold(x);
    x->route->handle(x);
    while (fy_schedule_step(s->schedule))
        atomic_store(&x->unsent, 0); /* as if the client had read it */
    check_answer(x);
    fy_exchange_release(x);
    for (fy_exchange *r; (r = fy_server_take_ready(s)) != NULL;)
        fy_exchange_release(r);
    fy_schedule_free(s->schedule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1 << 14)
        return 0;
    if (g.n_vocab == 0)
        begin();
    answer(&servers[data[1] % N_SERVERS], paths[data[0] % (sizeof paths / sizeof *paths)],
           (fy_span){(const char *)data + 2, size - 2});
    return 0;
}
