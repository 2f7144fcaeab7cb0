/* Vocabularies and texts made to take long: what they cost stays in proportion to their size, and
 * the user can interrupt all of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/unit/vocab/small_unigram.h"

enum { LONGEST = 1024 }; /* bytes of a token that is looked for in a text */

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- merge rules ------------------------------------------------------------------------------ */

enum { N_PARTS = 4096, N_RULES = 50000, N_SLOTS = 131072 };

static void part_text(uint32_t i, char out[3])
{
    static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    out[0] = digit[i / 36 / 36 % 36];
    out[1] = digit[i / 36 % 36];
    out[2] = digit[i % 36];
}

/* Where the table put the rule before its hash had a secret. */
static bool meets_others(uint32_t left, uint32_t right)
{
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return ((key ^ key >> 32) & (N_SLOTS - 1)) < N_RULES / 100;
}

static double seconds_to_load(bool hostile)
{
    small_vocab b = {0};
    fy_str rules = {0};
    char joined[6];
    uint32_t n = 0;
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_array(&b, "tokenizer.ggml.tokens", FY_KV_STRING, N_PARTS + N_RULES);
    for (uint32_t i = 0; i < N_PARTS; i++) {
        part_text(i, joined);
        small_span(&b.keys, (fy_span){joined, 3});
    }
    for (uint32_t k = 0; n < N_RULES; k++) {
        uint32_t left = k / N_PARTS, right = k % N_PARTS;
        assert_true(left < N_PARTS);
        if (hostile ? !meets_others(left, right) : k % 97 != 0)
            continue;
        part_text(left, joined);
        part_text(right, joined + 3);
        small_span(&b.keys, (fy_span){joined, 6});
        small_u64(&rules, 7);
        fy_str_printf(&rules, "%.3s %.3s", joined, joined + 3);
        n++;
    }
    small_array(&b, "tokenizer.ggml.merges", FY_KV_STRING, N_RULES);
    small_put(&b.keys, rules.ptr, rules.len);
    fy_str_release(&rules);
    fy_err e = {0};
    double begin = now(CLOCK_PROCESS_CPUTIME_ID);
    fy_vocab *v = small_vocab_load(&b, &e);
    double took = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
    if (v == NULL)
        fail_msg("%s", e.msg);
    fy_vocab_free(v);
    return took;
}

static void merge_rules_cannot_be_made_to_meet_in_one_slot(void **state)
{
    (void)state;
    double ordinary = seconds_to_load(false), hostile = seconds_to_load(true);
    if (hostile > 10 * ordinary)
        fail_msg("%.3f s, and %.3f s for as many others", hostile, ordinary);
}

/* --- long tokens ------------------------------------------------------------------------------ */

typedef enum { UNIGRAM, RWKV, SPECIAL, SPM, BYTE_LEVEL, KINDS } kind;

/* A token of len - 1 times 'a', and a 'b', and the single letters. */
static fy_vocab *with_long_token(kind k, size_t len, fy_err *e)
{
    static const char *const model[] = {"t5", "rwkv", "gpt2", "llama", "gpt2"};
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'a', len - 1);
    text[len - 1] = 'b';
    const fy_span tokens[] = {FY_SPAN("<unk>"), FY_SPAN("a"), FY_SPAN("b"), {text, len}};
    const int32_t types[] = {k == RWKV ? 1 : 2, 1, 1, k == SPECIAL ? 4 : 1};
    const float scores[] = {0, -1, -2, -3};
    small_vocab b = {0};
    small_str(&b, "tokenizer.ggml.model", model[k]);
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_bool(&b, "tokenizer.ggml.add_space_prefix", false);
    small_strings(&b, "tokenizer.ggml.tokens", tokens, 4);
    small_types(&b, types, 4);
    small_array(&b, "tokenizer.ggml.scores", FY_KV_F32, 4);
    small_put(&b.keys, scores, sizeof scores);
    small_array(&b, "tokenizer.ggml.merges", FY_KV_STRING, 0);
    fy_vocab *v = small_vocab_load(&b, e);
    free(text);
    return v;
}

static void a_token_that_is_searched_for_has_a_limit(void **state)
{
    (void)state;
    for (kind k = UNIGRAM; k < KINDS; k++) {
        fy_err e = {0};
        fy_vocab *v = with_long_token(k, LONGEST, &e);
        if (v == NULL)
            fail_msg("kind %d: %s", (int)k, e.msg);
        fy_vocab_free(v);
        v = with_long_token(k, LONGEST + 1, &e);
        assert_int_equal(v != NULL, k == BYTE_LEVEL); /* whose tokens are merged, not looked for */
        if (v == NULL)
            assert_string_equal(e.msg,
                                "small.gguf: token 3 is 1025 bytes long, expected at most 1024");
        fy_vocab_free(v);
    }
}

/* Letters at each of which the longest token nearly fits. */
static void a_long_text_takes_linear_time(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    for (kind k = UNIGRAM; k < KINDS; k++) {
        fy_err e = {0};
        fy_ids ids = {0};
        fy_vocab *v = with_long_token(k, LONGEST, &e);
        assert_non_null(v);
        double begin = now(CLOCK_PROCESS_CPUTIME_ID);
        assert_int_equal(fy_vocab_encode(v, (fy_span){text, N}, false, true, &ids, &e), 0);
        assert_int_equal(ids.n, N);
        double took = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
        if (took > 20) /* a sanitizer needs some; 0.3 s without */
            fail_msg("kind %d: %.1f s", (int)k, took);
        fy_ids_release(&ids);
        fy_vocab_free(v);
    }
    free(text);
}

static void many_tokens_with_one_text_are_tried_once(void **state)
{
    (void)state;
    enum { N = 20000 };
    small_vocab b = {0};
    fy_err e = {0};
    fy_ids ids = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_array(&b, "tokenizer.ggml.tokens", FY_KV_STRING, N);
    for (int i = 0; i < N; i++)
        small_span(&b.keys, FY_SPAN("a"));
    small_array(&b, "tokenizer.ggml.token_type", FY_KV_I32, N);
    for (int i = 0; i < N; i++)
        small_u32(&b.keys, i == N - 1 ? FY_TOKEN_USER : FY_TOKEN_CONTROL);
    small_array(&b, "tokenizer.ggml.merges", FY_KV_STRING, 0);
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    char *text = malloc(2 * N);
    assert_non_null(text);
    memset(text, 'a', 2 * N);
    double begin = now(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(fy_vocab_encode(v, (fy_span){text, 2 * N}, false, false, &ids, &e), 0);
    double took = now(CLOCK_PROCESS_CPUTIME_ID) - begin;
    assert_int_equal(ids.n, 2 * N);
    assert_int_equal(ids.id[0], N - 1); /* the only one that counts in plain text */
    if (took > 0.3)
        fail_msg("%.2f s", took);
    ids.n = 0;
    assert_int_equal(fy_vocab_encode(v, FY_SPAN("a"), false, true, &ids, &e), 0);
    assert_int_equal(ids.id[0], 0);
    free(text);
    fy_ids_release(&ids);
    fy_vocab_free(v);
}

/* --- the normaliser's map --------------------------------------------------------------------- */

/* Spaces that are dropped are work, too: 'x' becomes 100,000 of them. */
static void a_map_may_not_make_spaces_without_end(void **state)
{
    (void)state;
    enum { SPACES = 100000, N = 20000 };
    char *spaces = malloc(SPACES + 1), *text = malloc(N);
    assert_true(spaces != NULL && text != NULL);
    memset(spaces, ' ', SPACES);
    spaces[SPACES] = '\0';
    memset(text, 'x', N);
    const small_rule rule = {"x", spaces};
    const float scores[] = {0, -1};
    const fy_span tokens[] = {FY_SPAN("<unk>"), FY_SPAN("a")};
    fy_str map = {0};
    fy_ids ids = {0};
    fy_err e = {0};
    small_vocab b = {0};
    small_charsmap(&rule, 1, &map);
    small_str(&b, "tokenizer.ggml.model", "t5");
    small_strings(&b, "tokenizer.ggml.tokens", tokens, 2);
    small_array(&b, "tokenizer.ggml.scores", FY_KV_F32, 2);
    small_put(&b.keys, scores, sizeof scores);
    small_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", true);
    small_array(&b, FY_KEY_CHARSMAP, FY_KV_U8, map.len);
    small_put(&b.keys, map.ptr, map.len);
    fy_vocab *v = small_vocab_load(&b, &e);
    assert_non_null(v);
    assert_int_equal(fy_vocab_encode(v, (fy_span){text, N}, false, false, &ids, &e), -1);
    assert_non_null(strstr(e.msg, "64 times as long"));
    free(spaces);
    free(text);
    fy_ids_release(&ids);
    fy_str_release(&map);
    fy_vocab_free(v);
}

/* --- interrupts ------------------------------------------------------------------------------- */

static void on_alarm(int sig)
{
    (void)sig;
    fy_interrupted = 1;
}

static double g_began;

/* By the time it has had the processor: on a busy machine others have it meanwhile. */
static void interrupt_after_10_ms(void)
{
    const struct itimerval t = {.it_value = {.tv_usec = 10000}};
    signal(SIGPROF, on_alarm);
    g_began = now(CLOCK_PROCESS_CPUTIME_ID);
    setitimer(ITIMER_PROF, &t, NULL);
}

static void assert_was_heard(int rc, const fy_err *e)
{
    double took = now(CLOCK_PROCESS_CPUTIME_ID) - g_began;
    fy_interrupted = 0;
    assert_int_equal(rc, -1);
    assert_int_equal(e->code, FY_EINTR);
    if (took > 1.5) /* the promise is 0.3 s, a sanitizer takes longer; what does not poll, several seconds */
        fail_msg("heard after %.2f s", took);
}

/* Control tokens have to be sorted: the longest step of a load. */
static void a_load_can_be_interrupted(void **state)
{
    (void)state;
    enum { N = 1000000 };
    small_vocab b = {0};
    fy_str file = {0};
    fy_err e = {0};
    small_str(&b, "tokenizer.ggml.model", "gpt2");
    small_str(&b, "tokenizer.ggml.pre", "gpt-2");
    small_array(&b, "tokenizer.ggml.tokens", FY_KV_STRING, N);
    for (uint32_t i = 0; i < N; i++) {
        small_u64(&b.keys, 24);
        fy_str_printf(&b.keys, "<|reserved_token%08x", i * 2654435761u);
    }
    small_array(&b, "tokenizer.ggml.token_type", FY_KV_I32, N);
    for (uint32_t i = 0; i < N; i++)
        small_u32(&b.keys, FY_TOKEN_CONTROL);
    small_array(&b, "tokenizer.ggml.merges", FY_KV_STRING, 0);
    small_file(&b, &file);
    fy_str_release(&b.keys);
    fy_gguf *g = fy_gguf_parse(file.ptr, file.len, "small.gguf", false, &e);
    assert_non_null(g);
    interrupt_after_10_ms();
    fy_vocab *v = fy_vocab_load(g, &e);
    assert_was_heard(v == NULL ? -1 : 0, &e);
    fy_vocab_free(v);
    fy_gguf_close(g);
    fy_str_release(&file);
}

static void a_walk_along_a_text_can_be_interrupted(void **state)
{
    (void)state;
    enum { N = 20000000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    for (kind k = UNIGRAM; k < BYTE_LEVEL; k++) {
        fy_err e = {0};
        fy_ids ids = {0};
        fy_vocab *v = with_long_token(k, LONGEST, &e);
        assert_non_null(v);
        interrupt_after_10_ms();
        int rc = fy_vocab_encode(v, (fy_span){text, N}, false, true, &ids, &e);
        assert_was_heard(rc, &e);
        fy_ids_release(&ids);
        fy_vocab_free(v);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_rules_cannot_be_made_to_meet_in_one_slot),
        cmocka_unit_test(a_token_that_is_searched_for_has_a_limit),
        cmocka_unit_test(a_long_text_takes_linear_time),
        cmocka_unit_test(many_tokens_with_one_text_are_tried_once),
        cmocka_unit_test(a_map_may_not_make_spaces_without_end),
        cmocka_unit_test(a_load_can_be_interrupted),
        cmocka_unit_test(a_walk_along_a_text_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
