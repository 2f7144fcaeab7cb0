/* What structured output costs, one thread: making the trie of a vocabulary, compiling a schema
 * with the first mask, and the masks of random answers under the schemas of tests/data/schemas,
 * each answer with a matcher of its own as in a server. Usage: grammar_bench [VOCAB.gguf]; without
 * it a vocabulary of 128,000 made-up tokens. Every mask is timed in several rounds with the same
 * answers, and its shortest time counts: other programs only make it longer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "format/gguf.h"
#include "grammar/grammar.h"
#include "model/vocab/vocab.h"

enum { N_MADE_UP = 128000, N_ANSWERS = 5, N_ROUNDS = 5, MASKS_MAX = 1 << 20, SCHEMAS_MAX = 400 };

typedef struct {
    fy_trie_token *tokens; /* owned */
    char *bytes;           /* owned: of made-up ones */
    uint32_t n;
    fy_trie *trie;
    int32_t closer[8]; /* tokens that end things, -1: there is none */
    uint64_t dice;
} bench;

typedef struct {
    double *s; /* owned: seconds of each */
    size_t n;
} times;

/* Seconds of this thread: what others take of the machine does not count. */
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t dice(bench *b, uint32_t n)
{
    b->dice = b->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->dice >> 33) % n;
}

/* --- the vocabulary --------------------------------------------------------------------------- */

/* Bytes, and words of one to three syllables with what JSON puts around them. */
static int make_up(bench *b)
{
    static const char *const parts[] = {"ka",  "te", "li", "mor",      "en",       "st",
                                        "ing", "a",  "o",  "ver",      "th",       "ion",
                                        "es",  "1",  "20", "\xC3\xA9", "\xE6\xBC", "-"};
    static const char *const heads[] = {" ", "", "", " ", "\"", "_", "\n", "{\""};
    static const char *const tails[] = {"", "", "", "", "", "", "\"", "\":", "\",", "}", ".", ","};
    b->n = N_MADE_UP;
    b->tokens = calloc(b->n, sizeof *b->tokens);
    b->bytes = calloc(b->n, 40);
    if (b->tokens == NULL || b->bytes == NULL)
        return -1;
    for (uint32_t i = 0; i < b->n; i++) {
        char *text = b->bytes + (size_t)i * 40;
        size_t n = 1;
        text[0] = (char)i;
        if (i >= 256) {
            n = (size_t)sprintf(text, "%s", heads[dice(b, 8)]);
            for (uint32_t k = dice(b, 4) + 1; k > 0; k--)
                n += (size_t)sprintf(text + n, "%s", parts[dice(b, 18)]);
            n += (size_t)sprintf(text + n, "%s", tails[dice(b, 12)]);
        }
        b->tokens[i] = (fy_trie_token){{text, n}, i == b->n - 1};
    }
    return 0;
}

static int read_vocabulary(bench *b, const char *path, fy_err *e)
{
    fy_gguf *g = fy_gguf_open(path, e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, e) : NULL;
    fy_gguf_close(g);
    if (v == NULL)
        return -1;
    b->n = fy_vocab_n(v);
    b->tokens = calloc(b->n, sizeof *b->tokens);
    for (uint32_t i = 0; b->tokens != NULL && i < b->n; i++) {
        fy_str s = {0}; /* kept until the end of the program */
        if (fy_vocab_is_samplable(v, (int32_t)i))
            fy_vocab_decode_one(v, (int32_t)i, false, &s, e);
        b->tokens[i] = (fy_trie_token){{s.ptr, s.len}, fy_vocab_is_eog(v, (int32_t)i)};
    }
    fy_vocab_free(v);
    return b->tokens != NULL ? 0 : fy_nomem(e);
}

static void find_closers(bench *b)
{
    static const char closers[] = "\"}],0";
    for (int c = 0; c < 8; c++)
        b->closer[c] = -1;
    for (uint32_t i = 0; i < b->n; i++) {
        const char *at =
            b->tokens[i].bytes.len == 1 ? strchr(closers, b->tokens[i].bytes.ptr[0]) : NULL;
        if (at != NULL && *at != '\0')
            b->closer[at - closers] = (int32_t)i;
        if (b->tokens[i].is_end)
            b->closer[7] = (int32_t)i;
    }
}

static int time_trie(bench *b, fy_err *e)
{
    double best = 1e9;
    for (int i = 0; i < 9; i++) {
        fy_trie_free(b->trie);
        const double begin = cpu_s();
        b->trie = fy_trie_new(b->tokens, b->n, e);
        const double took = cpu_s() - begin;
        best = took < best ? took : best;
        if (b->trie == NULL)
            return -1;
    }
    printf("trie of %u tokens: %.1f ms, %.1f MB\n", b->n, best * 1e3,
           (double)fy_trie_memory(b->trie) * 1e-6);
    return 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool allows(const fy_mask *m, int32_t id)
{
    return id >= 0 && (m->bits[id / 64] >> id % 64 & 1);
}

/* Any allowed token; the longer the text, the rather one that ends something. */
static int32_t choose(bench *b, const fy_mask *mask, uint32_t step)
{
    if (dice(b, 40) < step && dice(b, 4) > 0) {
        for (int c = 7; c >= 0; c = c == 7 ? 0 : c < 4 ? c + 1 : -1) {
            if (allows(mask, b->closer[c]))
                return b->closer[c];
        }
    }
    uint32_t k = dice(b, mask->n_allowed);
    for (uint32_t w = 0; w < mask->n_words; w++) {
        uint64_t bits = mask->bits[w];
        const uint32_t n = (uint32_t)__builtin_popcountll(bits);
        if (k >= n) {
            k -= n;
            continue;
        }
        for (; k > 0; k--)
            bits &= bits - 1;
        return (int32_t)(w * 64) + __builtin_ctzll(bits);
    }
    return -1;
}

static void note(times *t, size_t at, bool first_round, double s)
{
    if (first_round || s < t->s[at])
        t->s[at] = s;
    t->n = at + 1 > t->n ? at + 1 : t->n;
}

static int one_answer(bench *b, fy_span schema, bool first_round, times *first, size_t at_first,
                      times *masks, size_t *at, fy_err *e)
{
    double begin = cpu_s();
    fy_grammar *g = fy_grammar_schema(schema, e);
    fy_matcher *m = g != NULL ? fy_matcher_new(g, b->trie, e) : NULL;
    fy_mask mask;
    int rc = m != NULL ? 0 : -1;
    for (uint32_t step = 0; rc == 0 && step < 400 && *at < MASKS_MAX; step++) {
        if (fy_matcher_is_complete(m))
            break;
        if (step > 0)
            begin = cpu_s();
        rc = fy_matcher_mask(m, &mask, e);
        const double took = cpu_s() - begin;
        if (rc == 0 && step == 0)
            note(first, at_first, first_round, took);
        else if (rc == 0)
            note(masks, (*at)++, first_round, took);
        const int32_t id = rc == 0 ? choose(b, &mask, step) : -1;
        if (id >= 0 && b->tokens[id].is_end)
            break;
        rc = rc == 0 ? fy_matcher_accept(m, id, e) : rc;
    }
    fy_matcher_free(m);
    fy_grammar_free(g);
    return rc;
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void show(const char *what, times *t, const char *bars)
{
    double sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += t->s[i];
    qsort(t->s, t->n, sizeof *t->s, by_time);
    printf("%s, %zu: average %.1f us, median %.1f, p99 %.1f, longest %.1f%s\n", what, t->n,
           sum / (double)t->n * 1e6, t->s[t->n / 2] * 1e6, t->s[t->n * 99 / 100] * 1e6,
           t->s[t->n - 1] * 1e6, bars);
}

static int run(bench *b, fy_span all, fy_err *e)
{
    times first = {calloc(SCHEMAS_MAX * N_ANSWERS, sizeof(double)), 0};
    times masks = {calloc(MASKS_MAX, sizeof(double)), 0};
    int rc = first.s != NULL && masks.s != NULL ? 0 : fy_nomem(e);
    for (int round = 0; rc == 0 && round < N_ROUNDS; round++) {
        fy_span rest = all;
        size_t at = 0, n = 0;
        b->dice = 99;
        while (rc == 0 && rest.len > 0 && n < SCHEMAS_MAX * N_ANSWERS) {
            const fy_span schema = fy_span_cut_line(&rest);
            for (int i = 0; rc == 0 && i < N_ANSWERS; i++)
                rc = one_answer(b, schema, round == 0, &first, n++, &masks, &at, e);
        }
    }
    if (rc == 0) {
        show("schema compiled and its first mask", &first, " (bars: median 2000, p99 50000)");
        show("masks after it", &masks, " (bars: average 100, p99 1000)");
    }
    free(first.s);
    free(masks.s);
    return rc;
}

int main(int argc, char **argv)
{
    static bench b = {.dice = 7};
    fy_err e = {0};
    fy_map file;
    int rc = argc > 1 ? read_vocabulary(&b, argv[1], &e) : make_up(&b);
    if (rc == 0) {
        find_closers(&b);
        rc = time_trie(&b, &e);
    }
    if (rc == 0 && (rc = fy_map_open(&file, "tests/data/schemas/schemas.jsonl", &e)) == 0) {
        rc = run(&b, (fy_span){(const char *)file.data, file.size}, &e);
        fy_map_close(&file);
    }
    if (rc != 0)
        fprintf(stderr, "grammar_bench: %s\n", e.msg);
    fy_trie_free(b.trie);
    return rc != 0;
}
