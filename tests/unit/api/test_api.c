#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "tests/unit/model/tiny_model.h"
#include "tests/unit/api/api_model.h"
#include "base/process.h"

/* BOS and "Once upon a time" for the tales model, and how its golden.json goes on. */
static const int32_t once[] = {763, 408, 409, 258, 410};
static const int32_t tale[] = {11,  331, 278, 258, 739, 500, 499, 293, 64,  84,
                               351, 279, 330, 552, 13,  364, 411, 370, 260, 588};
enum { N_VOCAB = 768, N_ONCE = 5, N_TALE = 20, TINY_VOCAB = 96 };

/* --- what it says of itself ----------------------------------------------------------------- */

static void the_version_is_the_programs(void **state)
{
    (void)state;
    assert_string_equal(ferry_version(), FERRY_VERSION);
}

static void statuses_are_the_exit_statuses_of_the_program(void **state)
{
    (void)state;
    assert_int_equal(FERRY_OK, fy_exit_status(FY_OK));
    assert_int_equal(FERRY_EFAILED, fy_exit_status(FY_EIO));
    assert_int_equal(FERRY_EUSAGE, fy_exit_status(FY_EARG));
    assert_int_equal(FERRY_EFIT, fy_exit_status(FY_EFIT));
    assert_int_equal(FERRY_EVERIFY, fy_exit_status(FY_EVERIFY));
    assert_int_equal(FERRY_EDEVICE, fy_exit_status(FY_EDEVICE));
    assert_int_equal(FERRY_ENOSPACE, fy_exit_status(FY_ENOSPACE));
    assert_int_equal(FERRY_EINTR, fy_exit_status(FY_EINTR));
}

/* A change here breaks every program that was compiled before: it needs another soname. */
static void structs_lie_in_memory_as_programs_know_them(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip();
    assert_int_equal(sizeof(ferry_error), 516);
    assert_int_equal(offsetof(ferry_error, message), 4);
    assert_int_equal(offsetof(ferry_model_params, log), 8);
    assert_int_equal(offsetof(ferry_model_params, log_user), 16);
    assert_int_equal(offsetof(ferry_session_params, n_threads), 12);
    assert_int_equal(offsetof(ferry_session_params, type_v), 20);
    assert_int_equal(offsetof(ferry_session_params, n_seq), 24);
    assert_int_equal(sizeof(ferry_logit_bias), 8);
    assert_int_equal(offsetof(ferry_sampler_params, seed), 8);
    assert_int_equal(offsetof(ferry_sampler_params, temperature), 16);
    assert_int_equal(offsetof(ferry_sampler_params, n_bias), 52);
    assert_int_equal(offsetof(ferry_sampler_params, order), 64);
    assert_int_equal(offsetof(ferry_chat_params, variables), 16);
}

static void a_model_says_what_it_is(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    assert_string_equal(ferry_model_family(model), "llama");
    assert_int_equal(ferry_model_n_vocab(model), N_VOCAB);
    assert_true(ferry_model_n_ctx_train(model) >= 512);
    assert_true(ferry_model_n_embd(model) > 0 && ferry_model_n_layer(model) > 0);
    ferry_model_free(model);
}

/* --- text and ids --------------------------------------------------------------------------- */

static void a_text_becomes_ids_and_text_again(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    const ferry_vocab *vocab = api_vocab(model);
    const char *text = "Once upon a time";
    int32_t ids[16];
    size_t n;
    char out[64];
    assert_ok(ferry_tokenize(vocab, text, strlen(text), FERRY_ADD_SPECIAL, ids, 16, &n, &error));
    assert_int_equal(n, N_ONCE);
    assert_memory_equal(ids, once, sizeof once);
    assert_ok(ferry_detokenize(vocab, ids, n, 0, out, sizeof out, &n, &error));
    assert_int_equal(n, strlen(text));
    assert_string_equal(out, text);
    assert_ok(ferry_token_text(vocab, ids[1], 0, out, sizeof out, &n, &error));
    assert_int_equal(n, strlen(out));
    assert_non_null(strstr(text, out));
    assert_int_equal(ferry_vocab_size(vocab), ferry_model_n_vocab(model));
    assert_false(ferry_vocab_is_end(vocab, ids[0]));
    assert_false(ferry_vocab_is_end(vocab, -1));
    ferry_model_free(model);
}

static void special_tokens_are_asked_for(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    const ferry_vocab *vocab = api_vocab(model);
    const char *text = "<|begin_of_text|>";
    const int32_t bos = ferry_vocab_bos(vocab);
    int32_t ids[64];
    size_t n, len = strlen(text);
    char out[64];
    assert_true(bos >= 0);
    assert_ok(ferry_tokenize(vocab, text, len, FERRY_PARSE_SPECIAL, ids, 64, &n, &error));
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], bos);
    assert_ok(ferry_tokenize(vocab, text, len, 0, ids, 64, &n, &error));
    assert_true(n > 1);
    assert_ok(ferry_tokenize(vocab, text, len, FERRY_RENDERED_CHAT, ids, 64, &n, &error));
    assert_int_equal(n, 1);
    assert_ok(ferry_detokenize(vocab, &bos, 1, 0, out, sizeof out, &n, &error));
    assert_int_equal(n, 0);
    assert_string_equal(out, "");
    assert_ok(ferry_token_text(vocab, bos, FERRY_SHOW_SPECIAL, out, sizeof out, &n, &error));
    assert_string_equal(out, text);
    ferry_model_free(model);
}

static void a_small_buffer_gets_nothing_but_the_size_it_needs(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    const ferry_vocab *vocab = api_vocab(model);
    int32_t ids[N_ONCE] = {-7, -7, -7, -7, -7};
    char text[17] = "#";
    size_t n = 0;
    assert_ok(
        ferry_tokenize(vocab, "Once upon a time", 16, FERRY_ADD_SPECIAL, NULL, 0, &n, &error));
    assert_int_equal(n, N_ONCE);
    n = 0;
    assert_fails(
        FERRY_EFIT, "5 tokens",
        ferry_tokenize(vocab, "Once upon a time", 16, FERRY_ADD_SPECIAL, ids, 4, &n, &error));
    assert_int_equal(n, N_ONCE);
    assert_int_equal(ids[0], -7);
    assert_ok(ferry_detokenize(vocab, once, N_ONCE, 0, NULL, 0, &n, &error));
    assert_int_equal(n, 16);
    n = 0;
    assert_fails(FERRY_EFIT, "16 bytes and a NUL",
                 ferry_detokenize(vocab, once, N_ONCE, 0, text, 16, &n, &error));
    assert_int_equal(n, 16);
    assert_string_equal(text, "#");
    assert_ok(ferry_detokenize(vocab, once, N_ONCE, 0, text, 17, &n, &error));
    assert_ok(ferry_tokenize(vocab, "", 0, 0, ids, 0, &n, &error));
    assert_int_equal(n, 0);
    assert_ok(ferry_detokenize(vocab, NULL, 0, 0, text, 1, &n, &error));
    assert_int_equal(n, 0);
    ferry_model_free(model);
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    const ferry_vocab *vocab = api_vocab(model);
    ferry_session *s = api_session(model, 0);
    ferry_sampler *sampler = api_sampler(model, NULL);
    const int32_t bad[] = {-1, N_VOCAB, INT32_MAX, INT32_MIN};
    char text[8];
    size_t n;
    for (int i = 0; i < 4; i++) {
        const int32_t ids[] = {once[0], bad[i]};
        assert_fails(FERRY_EUSAGE, "768", ferry_detokenize(vocab, ids, 2, 0, text, 8, &n, &error));
        assert_fails(FERRY_EUSAGE, "768", ferry_token_text(vocab, bad[i], 0, text, 8, &n, &error));
        assert_fails(FERRY_EUSAGE, "expected 0 to 767",
                     ferry_session_eval(s, ids, 2, NULL, &error));
        assert_fails(FERRY_EUSAGE, "768", ferry_sampler_accept(sampler, bad[i], &error));
    }
    assert_int_equal(ferry_session_n_past(s), 0);
    ferry_sampler_free(sampler);
    ferry_session_free(s);
    ferry_model_free(model);
}

/* --- computing ------------------------------------------------------------------------------ */

/* Tells n tokens of the tale on a session of its own; true when they are the golden ones. */
static bool tells_the_tale(ferry_model *model, size_t n)
{
    ferry_session *s = api_session(model, 64);
    ferry_sampler *greedy = api_sampler(model, NULL);
    const float *logits;
    bool right = ferry_session_eval(s, once, N_ONCE, &logits, NULL) == FERRY_OK;
    for (size_t i = 0; right && i < n; i++) {
        int32_t id;
        right = ferry_sampler_sample(greedy, logits, &id, NULL) == FERRY_OK && id == tale[i] &&
                ferry_sampler_accept(greedy, id, NULL) == FERRY_OK &&
                ferry_session_eval(s, &id, 1, &logits, NULL) == FERRY_OK;
    }
    right = right && ferry_session_n_past(s) == N_ONCE + n;
    ferry_sampler_free(greedy);
    ferry_session_free(s);
    return right;
}

static void a_tale_is_told_as_the_reference_tells_it(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    assert_true(tells_the_tale(model, N_TALE));
    ferry_model_free(model);
}

static void *tell(void *model)
{
    bool right = true;
    for (int i = 0; i < 3; i++)
        right = tells_the_tale(model, 8) && right;
    return right ? model : NULL;
}

static void two_threads_share_a_model(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    pthread_t a, b;
    void *right_a, *right_b;
    assert_int_equal(pthread_create(&a, NULL, tell, model), 0);
    assert_int_equal(pthread_create(&b, NULL, tell, model), 0);
    pthread_join(a, &right_a);
    pthread_join(b, &right_b);
    assert_non_null(right_a);
    assert_non_null(right_b);
    ferry_model_free(model);
}

static void a_session_outlives_the_models_handle(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session *a = api_session(model, 16), *b = api_session(model, 16);
    ferry_model_free(model);
    ferry_session_free(a);
    assert_ok(ferry_session_eval(b, once, N_ONCE, NULL, &error));
    ferry_session_free(b);
}

static void a_full_context_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session *s = api_session(model, 8);
    assert_int_equal(ferry_session_n_ctx(s), 8);
    assert_ok(ferry_session_eval(s, once, N_ONCE, NULL, &error));
    assert_fails(FERRY_EFIT, "8 positions, 5 in use",
                 ferry_session_eval(s, once, N_ONCE, NULL, &error));
    assert_int_equal(ferry_session_n_past(s), N_ONCE);
    assert_fails(FERRY_EFIT, "positions",
                 ferry_session_eval(s, once, (size_t)UINT32_MAX + 2, NULL, &error));
    assert_fails(FERRY_EUSAGE, "empty", ferry_session_eval(s, once, 0, NULL, &error));
    ferry_session_free(s);
    ferry_model_free(model);
}

static void rewinding_forgets_what_came_after(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session *s = api_session(model, 16);
    const size_t bytes = ferry_model_n_vocab(model) * sizeof(float);
    const float *logits;
    float *want = malloc(bytes);
    assert_ok(ferry_session_eval(s, once, N_ONCE, &logits, &error));
    memcpy(want, logits, bytes);
    ferry_session_rewind(s, 2);
    assert_int_equal(ferry_session_n_past(s), 2);
    assert_ok(ferry_session_eval(s, once + 2, N_ONCE - 2, &logits, &error));
    assert_memory_equal(logits, want, bytes);
    free(want);
    ferry_session_free(s);
    ferry_model_free(model);
}

static void a_cancelled_evaluation_leaves_the_session_as_it_was(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session *s = api_session(model, 16);
    assert_ok(ferry_session_eval(s, once, 2, NULL, &error));
    ferry_session_cancel(s);
    assert_fails(FERRY_EINTR, "cancelled", ferry_session_eval(s, once + 2, 3, NULL, &error));
    assert_int_equal(ferry_session_n_past(s), 2);
    assert_ok(ferry_session_eval(s, once + 2, 3, NULL, &error));
    ferry_session_free(s);
    ferry_model_free(model);
}

static void *cancel(void *session)
{
    ferry_session_cancel(session);
    return NULL;
}

static void another_thread_may_cancel(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session *s = api_session(model, 16);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, cancel, s), 0);
    ferry_status first = ferry_session_eval(s, once, N_ONCE, NULL, NULL);
    pthread_join(other, NULL);
    ferry_session_rewind(s, 0);
    ferry_status next = ferry_session_eval(s, once, N_ONCE, NULL, NULL);
    assert_int_equal(first + next, FERRY_EINTR); /* one of them, the other is well */
    ferry_session_free(s);
    ferry_model_free(model);
}

static void memory_is_known_before_it_is_taken(void **state)
{
    (void)state;
    ferry_model *model = api_open();
    ferry_session_params p;
    uint64_t f16, f32, scratch;
    ferry_session_params_init(&p, sizeof p);
    p.n_ctx = 100;
    assert_ok(ferry_session_bytes(model, &p, &f16, &scratch, &error));
    p.type_k = p.type_v = FERRY_KV_F32;
    assert_ok(ferry_session_bytes(model, &p, &f32, &scratch, &error));
    assert_int_equal(f32, 2 * f16);
    assert_true(scratch > 0);
    ferry_model_free(model);
}

/* --- errors --------------------------------------------------------------------------------- */

static void a_file_that_is_no_model_is_an_error_with_its_name(void **state)
{
    (void)state;
    ferry_model *model = (ferry_model *)&state;
    char name[] = "/tmp/ferry-api-none-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "GGUF but no more than that", 26), 26);
    close(fd);
    assert_fails(FERRY_EFAILED, name, ferry_model_open(name, NULL, &model, &error));
    assert_null(model);
    unlink(name);
    model = (ferry_model *)&state;
    assert_fails(FERRY_EFAILED, name, ferry_model_open(name, NULL, &model, &error));
    assert_null(model);
    assert_int_equal(ferry_model_open(name, NULL, &model, NULL), FERRY_EFAILED);
}

static void a_null_is_refused_by_name(void **state)
{
    (void)state;
    ferry_model *m = api_open(), *no_model;
    ferry_session *s = api_session(m, 8), *no_session;
    ferry_sampler *sampler = api_sampler(m, NULL), *no_sampler;
    const ferry_vocab *v = api_vocab(m), *no_vocab;
    const float *logits;
    int32_t id;
    uint64_t bytes;
    size_t n;
    assert_ok(ferry_session_eval(s, once, 1, &logits, &error));
    assert_fails(FERRY_EUSAGE, "path", ferry_model_open(NULL, NULL, &no_model, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_model_open(api_path, NULL, NULL, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_model_vocab(NULL, &no_vocab, &error));
    assert_fails(FERRY_EUSAGE, "vocab", ferry_model_vocab(m, NULL, &error));
    assert_fails(FERRY_EUSAGE, "vocab", ferry_tokenize(NULL, "a", 1, 0, &id, 1, &n, &error));
    assert_fails(FERRY_EUSAGE, "text", ferry_tokenize(v, NULL, 1, 0, &id, 1, &n, &error));
    assert_fails(FERRY_EUSAGE, "n_ids", ferry_tokenize(v, "a", 1, 0, &id, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "vocab", ferry_detokenize(NULL, once, 1, 0, NULL, 0, &n, &error));
    assert_fails(FERRY_EUSAGE, "ids", ferry_detokenize(v, NULL, 1, 0, NULL, 0, &n, &error));
    assert_fails(FERRY_EUSAGE, "n_bytes", ferry_detokenize(v, once, 1, 0, NULL, 0, NULL, &error));
    assert_fails(FERRY_EUSAGE, "vocab", ferry_token_text(NULL, 1, 0, NULL, 0, &n, &error));
    assert_fails(FERRY_EUSAGE, "n_bytes", ferry_token_text(v, 1, 0, NULL, 0, NULL, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_session_bytes(NULL, NULL, &bytes, &bytes, &error));
    assert_fails(FERRY_EUSAGE, "kv_bytes", ferry_session_bytes(m, NULL, NULL, &bytes, &error));
    assert_fails(FERRY_EUSAGE, "scratch", ferry_session_bytes(m, NULL, &bytes, NULL, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_session_new(NULL, NULL, &no_session, &error));
    assert_null(no_session);
    assert_fails(FERRY_EUSAGE, "session", ferry_session_new(m, NULL, NULL, &error));
    assert_fails(FERRY_EUSAGE, "session", ferry_session_eval(NULL, once, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "ids", ferry_session_eval(s, NULL, 1, NULL, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_sampler_new(NULL, NULL, &no_sampler, &error));
    assert_fails(FERRY_EUSAGE, "sampler", ferry_sampler_new(m, NULL, NULL, &error));
    assert_fails(FERRY_EUSAGE, "sampler", ferry_sampler_sample(NULL, logits, &id, &error));
    assert_fails(FERRY_EUSAGE, "logits", ferry_sampler_sample(sampler, NULL, &id, &error));
    assert_fails(FERRY_EUSAGE, "id", ferry_sampler_sample(sampler, logits, NULL, &error));
    assert_fails(FERRY_EUSAGE, "sampler", ferry_sampler_accept(NULL, 1, &error));
    assert_int_equal(ferry_session_eval(NULL, NULL, 0, NULL, NULL), FERRY_EUSAGE);
    ferry_sampler_free(sampler);
    ferry_session_free(s);
    ferry_model_free(m);
}

static void functions_that_cannot_fail_take_null_for_nothing(void **state)
{
    (void)state;
    ferry_model_free(NULL);
    ferry_session_free(NULL);
    ferry_sampler_free(NULL);
    ferry_chat_template_free(NULL);
    ferry_session_cancel(NULL);
    ferry_session_rewind(NULL, 0);
    ferry_sampler_reset(NULL, 0);
    ferry_model_params_init(NULL, 100);
    ferry_session_params_init(NULL, 100);
    ferry_sampler_params_init(NULL, 100);
    ferry_chat_params_init(NULL, 100);
    assert_null(ferry_model_family(NULL));
    assert_int_equal(ferry_model_n_vocab(NULL), 0);
    assert_int_equal(ferry_model_n_ctx_train(NULL), 0);
    assert_int_equal(ferry_model_n_embd(NULL), 0);
    assert_int_equal(ferry_model_n_layer(NULL), 0);
    assert_int_equal(ferry_vocab_size(NULL), 0);
    assert_int_equal(ferry_vocab_bos(NULL), -1);
    assert_int_equal(ferry_vocab_is_end(NULL, 0), 0);
    assert_int_equal(ferry_session_n_ctx(NULL), 0);
    assert_int_equal(ferry_session_n_past(NULL), 0);
}

static void flags_of_a_later_version_are_refused(void **state)
{
    (void)state;
    ferry_model *m = api_open(), *none;
    const ferry_vocab *v = api_vocab(m);
    ferry_model_params p;
    size_t n;
    ferry_model_params_init(&p, sizeof p);
    p.flags = 8;
    assert_fails(FERRY_EUSAGE, "0x8", ferry_model_open(api_path, &p, &none, &error));
    assert_fails(FERRY_EUSAGE, "0x8", ferry_tokenize(v, "a", 1, 8, NULL, 0, &n, &error));
    assert_fails(
        FERRY_EUSAGE, "alone",
        ferry_tokenize(v, "a", 1, FERRY_RENDERED_CHAT | FERRY_ADD_SPECIAL, NULL, 0, &n, &error));
    assert_fails(FERRY_EUSAGE, "0x2", ferry_detokenize(v, once, 1, 2, NULL, 0, &n, &error));
    assert_fails(FERRY_EUSAGE, "0x2", ferry_token_text(v, 1, 2, NULL, 0, &n, &error));
    ferry_model_free(m);
}

static void a_model_may_be_locked_or_a_copy(void **state)
{
    (void)state;
    ferry_model *mapped = api_open();
    ferry_session *want = api_session(mapped, 0);
    const float *a, *b;
    assert_ok(ferry_session_eval(want, once, 5, &a, &error));
    for (uint32_t flags = 1; flags <= (FERRY_MODEL_MLOCK | FERRY_MODEL_NO_MMAP); flags++) {
        ferry_model_params p;
        ferry_model *m;
        ferry_model_params_init(&p, sizeof p);
        p.flags = flags;
        assert_ok(ferry_model_open(api_path, &p, &m, &error));
        ferry_session *s = api_session(m, 0);
        assert_ok(ferry_session_eval(s, once, 5, &b, &error));
        assert_memory_equal(a, b, ferry_model_n_vocab(m) * sizeof *a);
        ferry_session_free(s);
        ferry_model_free(m);
    }
    ferry_session_free(want);
    ferry_model_free(mapped);
}

static void impossible_sessions_are_refused(void **state)
{
    (void)state;
    const struct {
        ferry_session_params p;
        ferry_status status;
        const char *word;
    } cases[] = {
        {{.type_k = 4}, FERRY_EUSAGE, "type_k"},
        {{.type_v = -1}, FERRY_EUSAGE, "type_v"},
        {{.n_threads = 100000}, FERRY_EUSAGE, "threads"},
        {{.n_ctx = UINT32_MAX}, FERRY_EUSAGE, "context"},
        {{.n_ctx = INT32_MAX, .n_threads = 1}, FERRY_EFIT, "KV"},
        {{.n_seq = 257}, FERRY_EUSAGE, "257 sequences"},
    };
    ferry_model *m = api_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ferry_session_params p = cases[i].p;
        ferry_session *s;
        uint64_t bytes;
        p.struct_size = sizeof p;
        if (cases[i].status == FERRY_EUSAGE)
            assert_fails(cases[i].status, cases[i].word,
                         ferry_session_bytes(m, &p, &bytes, &bytes, &error));
        if (p.n_ctx != INT32_MAX)
            assert_fails(cases[i].status, cases[i].word, ferry_session_new(m, &p, &s, &error));
    }
    ferry_model_free(m);
}

/* --- parameter structs of other versions ---------------------------------------------------- */

typedef struct {
    ferry_session_params known;
    uint32_t later;
} later_params;

static void parameters_of_other_versions_are_told_by_their_size(void **state)
{
    (void)state;
    ferry_model *m = api_open();
    later_params p;
    uint64_t kv, scratch;
    memset(&p, 0xEE, sizeof p);
    ferry_session_params_init(&p.known, sizeof p);
    assert_int_equal(p.known.struct_size, sizeof p);
    assert_int_equal(p.later, 0);
    assert_ok(ferry_session_bytes(m, &p.known, &kv, &scratch, &error));
    p.later = 1;
    assert_fails(FERRY_EUSAGE, "later version",
                 ferry_session_bytes(m, &p.known, &kv, &scratch, &error));
    p.known.struct_size = sizeof p.known;
    assert_ok(ferry_session_bytes(m, &p.known, &kv, &scratch, &error));
    const uint32_t first = offsetof(ferry_session_params, n_seq); /* the size in version 0.1.0 */
    p.known.n_seq = 100000;
    p.known.struct_size = first;
    assert_ok(ferry_session_bytes(m, &p.known, &kv, &scratch, &error));
    const uint32_t wrong[] = {0, 1, first - 1, 4097, UINT32_MAX};
    for (int i = 0; i < 5; i++) {
        p.known.struct_size = wrong[i];
        assert_fails(FERRY_EUSAGE, "ferry_session_params_init",
                     ferry_session_bytes(m, &p.known, &kv, &scratch, &error));
    }
    ferry_model_free(m);
}

static void an_init_writes_no_more_than_the_caller_has(void **state)
{
    (void)state;
    ferry_sampler_params p;
    memset(&p, 0xEE, sizeof p);
    ferry_sampler_params_init(&p, offsetof(ferry_sampler_params, top_k));
    assert_int_equal(p.struct_size, offsetof(ferry_sampler_params, top_k));
    assert_true(p.temperature == 0);
    assert_int_equal((uint32_t)p.top_k, 0xEEEEEEEE);
    memset(&p, 0xEE, sizeof p);
    ferry_sampler_params_init(&p, 3);
    assert_int_equal(p.struct_size, 0xEEEEEEEE);
    ferry_sampler_params_init(&p, sizeof p);
    assert_int_equal(p.top_k, 40);
    assert_int_equal(p.repeat_last_n, 64);
    assert_null(p.order);
}

/* --- words ---------------------------------------------------------------------------------- */

typedef struct {
    int n;
    char last[256];
} words;

static void listen(void *user, int32_t level, const char *text)
{
    words *w = user;
    w->n += level == FERRY_LOG_DEBUG;
    snprintf(w->last, sizeof w->last, "%s", text);
}

static void words_go_to_the_callback_of_their_model(void **state)
{
    (void)state;
    words a = {0}, b = {0};
    ferry_model_params p;
    ferry_model *first, *second;
    ferry_model_params_init(&p, sizeof p);
    p.log = listen;
    p.log_user = &a;
    assert_ok(ferry_model_open(api_path, &p, &first, &error));
    p.log_user = &b;
    assert_ok(ferry_model_open(api_path, &p, &second, &error));
    ferry_session_free(api_session(second, 8));
    assert_int_equal(a.n, 0);
    assert_int_equal(b.n, 1);
    assert_non_null(strstr(b.last, "kernels"));
    ferry_model *silent = api_open();
    ferry_session_free(api_session(silent, 8));
    assert_int_equal(a.n + b.n, 1);
    ferry_model_free(silent);
    ferry_model_free(second);
    ferry_model_free(first);
}

/* --- a model without a tokenizer ------------------------------------------------------------ */

static ferry_model *tiny;
static words said_of_tiny;

static int make_tiny(void **state)
{
    (void)state;
    char name[] = "/tmp/ferry-api-tiny-XXXXXX";
    int fd = mkstemp(name);
    fy_err e = {0};
    tiny_model t = tiny_default();
    if (fd < 0 || close(fd) != 0 || tiny_write(&t, name, &e) != 0)
        return -1;
    ferry_model_params p;
    ferry_model_params_init(&p, sizeof p);
    p.log = listen;
    p.log_user = &said_of_tiny;
    ferry_status status = ferry_model_open(name, &p, &tiny, NULL);
    unlink(name);
    return status;
}

static int drop_tiny(void **state)
{
    (void)state;
    ferry_model_free(tiny);
    return 0;
}

static void a_model_without_tokenizer_works_with_ids(void **state)
{
    (void)state;
    const ferry_vocab *vocab = (const ferry_vocab *)&state;
    assert_fails(FERRY_EFAILED, "tokenizer", ferry_model_vocab(tiny, &vocab, &error));
    assert_null(vocab);
    ferry_session *s = api_session(tiny, 0);
    ferry_sampler *sampler = api_sampler(tiny, NULL);
    assert_non_null(strstr(said_of_tiny.last, "chooses from all ids"));
    const float *logits;
    int32_t id = -1;
    assert_ok(ferry_session_eval(s, (int32_t[]){1, 2, 3}, 3, &logits, &error));
    assert_ok(ferry_sampler_sample(sampler, logits, &id, &error));
    assert_in_range(id, 0, TINY_VOCAB - 1);
    ferry_sampler_free(sampler);
    ferry_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_the_programs),
        cmocka_unit_test(statuses_are_the_exit_statuses_of_the_program),
        cmocka_unit_test(structs_lie_in_memory_as_programs_know_them),
        cmocka_unit_test(a_model_says_what_it_is),
        cmocka_unit_test(a_text_becomes_ids_and_text_again),
        cmocka_unit_test(special_tokens_are_asked_for),
        cmocka_unit_test(a_small_buffer_gets_nothing_but_the_size_it_needs),
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
        cmocka_unit_test(a_tale_is_told_as_the_reference_tells_it),
        cmocka_unit_test(two_threads_share_a_model),
        cmocka_unit_test(a_session_outlives_the_models_handle),
        cmocka_unit_test(a_full_context_is_refused_and_changes_nothing),
        cmocka_unit_test(rewinding_forgets_what_came_after),
        cmocka_unit_test(a_cancelled_evaluation_leaves_the_session_as_it_was),
        cmocka_unit_test(another_thread_may_cancel),
        cmocka_unit_test(memory_is_known_before_it_is_taken),
        cmocka_unit_test(a_file_that_is_no_model_is_an_error_with_its_name),
        cmocka_unit_test(a_null_is_refused_by_name),
        cmocka_unit_test(functions_that_cannot_fail_take_null_for_nothing),
        cmocka_unit_test(flags_of_a_later_version_are_refused),
        cmocka_unit_test(a_model_may_be_locked_or_a_copy),
        cmocka_unit_test(impossible_sessions_are_refused),
        cmocka_unit_test(parameters_of_other_versions_are_told_by_their_size),
        cmocka_unit_test(an_init_writes_no_more_than_the_caller_has),
        cmocka_unit_test(words_go_to_the_callback_of_their_model),
        cmocka_unit_test_setup_teardown(a_model_without_tokenizer_works_with_ids, make_tiny,
                                        drop_tiny),
    };
    return cmocka_run_group_tests(tests, api_make_model, api_remove_model);
}
