/* Loading a model for run and chat, reusing the cache between prompts, and the numbers shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "cli/engine.h"
#include "cli/verb.h"
#include "program/program.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/model/tiny_model.h"

/* "Once upon a time" for the tales model, and how its golden.json goes on. */
static const int32_t once[] = {763, 408, 409, 258, 410};
static const int32_t tale[] = {11,  331, 278, 258, 739, 500, 499, 293, 64,  84,
                               351, 279, 330, 552, 13,  364, 411, 370, 260, 588};
enum { N_ONCE = 5, N_TALE = 20 };

static char dir[64], path[96];
static fy_engine_options options; /* f32 caches, one thread */

/* The verb runs as main would run it. */
static int convert_tales(void)
{
    const fy_verb *convert = fy_verb_find("convert");
    char source[] = "tests/data/tales", type[] = "--outtype=f32", quiet[] = "-q", out[] = "-o";
    char *args[] = {source, type, quiet, out, path};
    int n_args;
    bool help;
    fy_err e = {0};
    void *o = calloc(1, convert->opts_bytes);
    int rc = o == NULL
                 ? -1
                 : fy_opts_parse(convert->opts, convert->n_opts, o, 5, args, &n_args, &help, &e);
    if (rc == 0)
        rc = convert->run(o, n_args, args, &e);
    free(o);
    return rc;
}

static int make_model(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-engine-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/tales.gguf", dir);
    options = (fy_engine_options){.model = path, .n_threads = 1};
    return convert_tales();
}

static int remove_model(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static int lower_flag(void **state)
{
    (void)state;
    fy_interrupted = 0;
    return 0;
}

/* --- a generation and what it gave --- */

typedef struct {
    fy_engine g;
    fy_sampler *s;
    fy_ids out;
    size_t stop_after, interrupt_after, fail_after; /* tokens; 0: never */
    fy_timing t;
    fy_stop why;
    fy_err e;
} talk;

static void begin(talk *t, const fy_engine_options *o)
{
    *t = (talk){0};
    if (fy_engine_open(&t->g, o, true, &t->e) != 0)
        fail_msg("%s", t->e.msg);
    fy_sampler_params p = fy_sampler_defaults();
    p.temperature = 0;
    t->s = fy_sampler_new(&p, fy_model_hparams(t->g.model)->n_vocab, t->g.vocab, &t->e);
    assert_non_null(t->s);
}

static void end(talk *t)
{
    fy_sampler_free(t->s);
    fy_engine_close(&t->g);
    fy_ids_release(&t->out);
}

static int take(void *user, int32_t id, const float *logits, fy_err *e)
{
    talk *t = user;
    assert_non_null(logits);
    assert_int_equal(fy_ids_push(&t->out, id, e), 0);
    if (t->out.n == t->interrupt_after)
        fy_interrupted = 1;
    if (t->out.n == t->fail_after)
        return fy_fail(e, FY_EIO, "nobody listens");
    return t->out.n == t->stop_after;
}

static int generate_with(talk *t, fy_ids prompt, fy_generate_params p)
{
    t->out.n = 0;
    t->e = (fy_err){0};
    p.token = take;
    p.user = t;
    int rc = fy_engine_generate(&t->g, t->s, &prompt, &p, &t->t, &t->why, &t->e);
    assert_int_equal(t->g.cached.n, fy_session_n_past(t->g.session));
    return rc;
}

static int generate(talk *t, const int32_t *ids, size_t n, int64_t n_new)
{
    int32_t copy[512];
    assert_true(n <= 512);
    memcpy(copy, ids, n * sizeof *ids);
    return generate_with(t, (fy_ids){copy, n, 0}, (fy_generate_params){.n = n_new});
}

static void gave(const talk *t, const int32_t *want, size_t n)
{
    assert_int_equal(t->out.n, n);
    assert_int_equal(t->t.n_generated, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(t->out.id[i], want[i]);
}

static void cache_holds(const talk *t, const int32_t *want, size_t n)
{
    assert_int_equal(t->g.cached.n, n);
    assert_memory_equal(t->g.cached.id, want, n * sizeof *want);
}

/* --- tests --- */

static void an_answer_is_the_reference_s(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    assert_int_equal(generate(&t, once, N_ONCE, N_TALE), 0);
    gave(&t, tale, N_TALE);
    assert_int_equal(t.why, FY_STOP_LENGTH);
    assert_int_equal(t.t.n_prompt, N_ONCE);
    assert_int_equal(t.t.n_reused, 0);
    assert_int_equal(t.t.n_evals, N_TALE - 1);
    assert_true(t.t.first_s >= t.t.prompt_s && t.t.prompt_s > 0 && t.t.load_s > 0);
    end(&t);
}

/* The second turn of a conversation: the first one's tokens, its answer, and something new. */
static size_t second_turn(int32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < N_ONCE; i++)
        out[n++] = once[i];
    for (size_t i = 0; i < N_TALE; i++)
        out[n++] = tale[i];
    for (size_t i = 0; i < 3; i++)
        out[n++] = once[i + 1];
    return n;
}

static void a_longer_prompt_computes_only_its_new_tokens(void **state)
{
    (void)state;
    int32_t longer[64];
    size_t n = second_turn(longer);
    talk kept, fresh;
    begin(&kept, &options);
    begin(&fresh, &options);
    assert_int_equal(generate(&kept, once, N_ONCE, N_TALE), 0);
    cache_holds(&kept, longer, N_ONCE + N_TALE - 1); /* the last token was never computed */
    assert_int_equal(generate(&kept, longer, n, 30), 0);
    assert_int_equal(kept.t.n_prompt, n);
    assert_int_equal(kept.t.n_reused, N_ONCE + N_TALE - 1);
    assert_int_equal(generate(&fresh, longer, n, 30), 0);
    assert_int_equal(fresh.t.n_reused, 0);
    gave(&kept, fresh.out.id, fresh.out.n);
    end(&kept);
    end(&fresh);
}

static void the_same_prompt_computes_its_last_token_again(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(generate(&t, once, N_ONCE, N_TALE), 0);
        assert_int_equal(t.t.n_reused, i > 0 ? N_ONCE - 1 : 0);
        gave(&t, tale, N_TALE);
    }
    end(&t);
}

static void another_prompt_forgets_what_differs(void **state)
{
    (void)state;
    int32_t other[64];
    size_t n = second_turn(other);
    other[7] = 42;
    talk kept, fresh;
    begin(&kept, &options);
    begin(&fresh, &options);
    assert_int_equal(generate(&kept, once, N_ONCE, N_TALE), 0);
    assert_int_equal(generate(&kept, other, n, 10), 0);
    assert_int_equal(kept.t.n_reused, 7);
    assert_int_equal(generate(&fresh, other, n, 10), 0);
    gave(&kept, fresh.out.id, fresh.out.n);
    const int32_t foreign[] = {5, 6};
    assert_int_equal(generate(&kept, foreign, 2, 1), 0);
    assert_int_equal(kept.t.n_reused, 0);
    end(&kept);
    end(&fresh);
}

static void no_tokens_asked_for_computes_the_prompt(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    assert_int_equal(generate(&t, once, N_ONCE, 0), 0);
    assert_int_equal(t.why, FY_STOP_LENGTH);
    assert_int_equal(t.out.n, 0);
    cache_holds(&t, once, N_ONCE);
    end(&t);
}

static void the_model_ends_its_text_unless_forbidden(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    assert_int_equal(generate(&t, once, N_ONCE, -1), 0);
    assert_int_equal(t.why, FY_STOP_EOG);
    size_t n = t.out.n;
    assert_true(n > N_TALE && n < 400);
    for (size_t i = 0; i < n; i++)
        assert_false(fy_vocab_is_eog(t.g.vocab, t.out.id[i]));
    int32_t copy[N_ONCE];
    memcpy(copy, once, sizeof once);
    assert_int_equal(generate_with(&t, (fy_ids){copy, N_ONCE, 0},
                                   (fy_generate_params){.n = (int64_t)n + 5, .ignore_eos = true}),
                     0);
    assert_int_equal(t.why, FY_STOP_LENGTH);
    assert_int_equal(t.out.n, n + 5);
    end(&t);
}

static void a_full_context_is_an_answer(void **state)
{
    (void)state;
    fy_engine_options o = options;
    o.n_ctx = N_ONCE + 4;
    talk t;
    begin(&t, &o);
    assert_int_equal(generate(&t, once, N_ONCE, 100), 0);
    assert_int_equal(t.why, FY_STOP_CONTEXT);
    gave(&t, tale, 5); /* four have a place, and the fifth needs none */
    assert_int_equal(generate(&t, once, N_ONCE, 5), 0);
    assert_int_equal(t.why, FY_STOP_LENGTH);
    end(&t);
}

static void a_prompt_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    int32_t longer[64];
    size_t n = second_turn(longer);
    fy_engine_options o = options;
    o.n_ctx = 16;
    talk t;
    begin(&t, &o);
    assert_int_equal(generate(&t, once, N_ONCE, 3), 0);
    assert_int_equal(generate(&t, longer, n, 3), -1);
    assert_int_equal(t.e.code, FY_EFIT);
    assert_non_null(strstr(t.e.msg, "use a larger -c"));
    assert_int_equal(generate(&t, once, N_ONCE, 3), 0);
    gave(&t, tale, 3);
    assert_int_equal(generate(&t, once, 0, 3), -1);
    assert_non_null(strstr(t.e.msg, "empty"));
    end(&t);
}

static void the_sink_may_end_the_text_or_fail(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    t.stop_after = 4;
    assert_int_equal(generate(&t, once, N_ONCE, 100), 0);
    assert_int_equal(t.why, FY_STOP_STRING);
    gave(&t, tale, 4);
    t.stop_after = 0;
    t.fail_after = 2;
    assert_int_equal(generate(&t, once, N_ONCE, 100), -1);
    assert_int_equal(t.e.code, FY_EIO);
    end(&t);
}

static void an_interrupt_ends_the_answer_and_not_the_engine(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    t.interrupt_after = 3;
    assert_int_equal(generate(&t, once, N_ONCE, 100), 0);
    assert_int_equal(t.why, FY_STOP_INTERRUPT);
    gave(&t, tale, 3);
    fy_interrupted = 0;
    t.interrupt_after = 0;
    assert_int_equal(generate(&t, once, N_ONCE, N_TALE), 0);
    gave(&t, tale, N_TALE);
    end(&t);
}

static void an_interrupt_before_the_first_token_is_an_error(void **state)
{
    (void)state;
    talk t;
    begin(&t, &options);
    fy_interrupted = 1;
    assert_int_equal(generate(&t, once, N_ONCE, 100), -1);
    assert_int_equal(t.e.code, FY_EINTR);
    assert_int_equal(t.g.cached.n, 0);
    end(&t);
}

typedef struct {
    uint32_t n_calls, n_rows;
    bool interrupt;
} watch;

static int see_rows(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    watch *w = user;
    (void)logits;
    (void)pos;
    (void)e;
    w->n_calls++;
    w->n_rows += n;
    if (w->interrupt)
        fy_interrupted = 1;
    return 0;
}

static void an_interrupt_ends_a_long_prompt_within_a_batch(void **state)
{
    (void)state;
    fy_engine_options o = options;
    o.n_batch = 4;
    int32_t longer[64];
    size_t n = second_turn(longer);
    talk t;
    begin(&t, &o);
    watch w = {.interrupt = true};
    fy_eval_sinks sinks = {.logits = see_rows, .user = &w};
    fy_generate_params p = {.n = 5, .eval = &sinks};
    assert_int_equal(generate_with(&t, (fy_ids){longer, n, 0}, p), -1);
    assert_int_equal(t.e.code, FY_EINTR);
    assert_int_equal(w.n_calls, 1);
    end(&t);
}

static void logits_of_the_prompt_are_all_computed(void **state)
{
    (void)state;
    int32_t longer[64];
    size_t n = second_turn(longer);
    talk t;
    begin(&t, &options);
    assert_int_equal(generate(&t, longer, n, 1), 0);
    watch w = {0};
    fy_eval_sinks sinks = {.logits = see_rows, .user = &w};
    fy_generate_params p = {.n = 1, .eval = &sinks};
    assert_int_equal(generate_with(&t, (fy_ids){longer, n, 0}, p), 0);
    assert_int_equal(w.n_rows, n);
    assert_int_equal(t.t.n_reused, 0);
    end(&t);
}

static void one_model_must_be_named(void **state)
{
    (void)state;
    fy_engine g;
    fy_err e = {0};
    fy_engine_options o = {0};
    assert_int_equal(fy_engine_open(&g, &o, true, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "no model"));
    o = (fy_engine_options){.model = path, .dir = dir};
    e = (fy_err){0};
    assert_int_equal(fy_engine_open(&g, &o, true, &e), -1);
    assert_non_null(strstr(e.msg, "two models"));
    o = (fy_engine_options){.dir = dir};
    e = (fy_err){0};
    assert_int_equal(fy_engine_open(&g, &o, true, &e), -1);
    assert_non_null(strstr(e.msg, "manifest.json"));
}

static void a_model_without_tokenizer_serves_ids(void **state)
{
    (void)state;
    char tiny[96];
    snprintf(tiny, sizeof tiny, "%s/tiny.gguf", dir);
    tiny_model m = tiny_default();
    fy_engine g;
    fy_err e = {0};
    assert_int_equal(tiny_write(&m, tiny, &e), 0);
    fy_engine_options o = options;
    o.model = tiny;
    assert_int_equal(fy_engine_open(&g, &o, true, &e), -1);
    assert_int_equal(fy_engine_open(&g, &o, false, &e), 0);
    assert_null(g.vocab);
    assert_string_equal(fy_engine_model_path(&g), tiny);
    fy_sampler_params p = fy_sampler_defaults();
    p.temperature = 0;
    fy_sampler *s = fy_sampler_new(&p, 96, NULL, &e);
    int32_t ids[] = {1, 2, 3};
    fy_timing t;
    fy_stop why;
    assert_int_equal(fy_engine_generate(&g, s, &(fy_ids){ids, 3, 0}, &(fy_generate_params){.n = 10},
                                        &t, &why, &e),
                     0);
    assert_int_equal(t.n_generated, 10);
    fy_sampler_free(s);
    fy_engine_close(&g);
    unlink(tiny);
}

static void running_out_of_memory_leaves_the_engine_usable(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 0; !done; n++) {
        talk t;
        begin(&t, &options);
        t.out.id = calloc(64, sizeof *t.out.id);
        t.out.cap = 64;
        alloc_fail_after(n);
        int rc = generate(&t, once, N_ONCE, N_TALE);
        done = !alloc_fail_end();
        assert_true(done ? rc == 0 : rc == -1 && t.e.code == FY_ENOMEM);
        assert_int_equal(generate(&t, once, N_ONCE, N_TALE), 0);
        gave(&t, tale, N_TALE);
        end(&t);
    }
}

static void opening_without_memory_is_an_error(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_engine g;
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_engine_open(&g, &options, true, &e);
        done = !alloc_fail_end();
        if (rc == 0)
            fy_engine_close(&g);
        else
            assert_true(!done && e.msg[0] != '\0');
    }
}

static void the_timing_line_shows_what_was_measured(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_timing t = {.backend = "chunks",
                   .load_s = 0.0021,
                   .prompt_s = 0.001,
                   .first_s = 0.0012,
                   .generate_s = 0.5,
                   .n_prompt = 6,
                   .n_generated = 44,
                   .n_evals = 43};
    fy_timing_line(&t, &s);
    const char *want = "load 2 ms | prompt 6 tokens 6000.0 tok/s | first token 1 ms | generated 44 "
                       "tokens 86.0 tok/s | peak memory ";
    assert_memory_equal(s.ptr, want, strlen(want));
    assert_non_null(strstr(s.ptr, " MB (rss anon "));
    assert_string_equal(s.ptr + s.len - strlen(" MB) | chunks"), " MB) | chunks");
    fy_str_clear(&s);
    t.n_reused = 4;
    fy_timing_line(&t, &s);
    assert_non_null(strstr(s.ptr, "| prompt 6 tokens (4 from the cache) 2000.0 tok/s |"));
    fy_str_clear(&s);
    fy_timing_line(&(fy_timing){.backend = "cpu", .n_prompt = 3, .prompt_s = 1}, &s);
    assert_non_null(strstr(s.ptr, "| prompt 3 tokens 3.0 tok/s | generated 0 tokens | peak"));
    fy_str_release(&s);
}

static void the_timing_is_json(void **state)
{
    (void)state;
    const fy_timing timings[] = {
        {.backend = "cpu"},
        {.backend = "chunks",
         .load_s = 1,
         .prompt_s = 2,
         .first_s = 3,
         .generate_s = 4,
         .n_prompt = 8,
         .n_reused = 4},
    };
    for (size_t i = 0; i < 2; i++) {
        fy_str s = {0};
        fy_str_putc(&s, '{');
        fy_timing_json(&timings[i], &s);
        fy_str_putc(&s, '}');
        json_t *j = fy_json_data((fy_span){s.ptr, s.len}, NULL);
        assert_non_null(j);
        assert_int_equal(json_integer_value(json_object_get(j, "prompt_tokens")),
                         timings[i].n_prompt);
        assert_int_equal(json_integer_value(json_object_get(j, "cached_tokens")),
                         timings[i].n_reused);
        assert_string_equal(json_string_value(json_object_get(j, "backend")), timings[i].backend);
        assert_true(json_real_value(json_object_get(j, "load_ms")) == timings[i].load_s * 1000);
        assert_true(json_integer_value(json_object_get(j, "peak_memory_bytes")) > 0);
        json_decref(j);
        fy_str_release(&s);
    }
}

static void reasons_have_names(void **state)
{
    (void)state;
    assert_string_equal(fy_stop_name(FY_STOP_EOG), "stop");
    assert_string_equal(fy_stop_name(FY_STOP_LENGTH), "length");
    assert_string_equal(fy_stop_name(FY_STOP_CONTEXT), "context");
    assert_string_equal(fy_stop_name(FY_STOP_INTERRUPT), "interrupted");
    assert_string_equal(fy_stop_name(FY_STOP_STRING), "string");
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_the_reference_s),
        cmocka_unit_test(a_longer_prompt_computes_only_its_new_tokens),
        cmocka_unit_test(the_same_prompt_computes_its_last_token_again),
        cmocka_unit_test(another_prompt_forgets_what_differs),
        cmocka_unit_test(no_tokens_asked_for_computes_the_prompt),
        cmocka_unit_test(the_model_ends_its_text_unless_forbidden),
        cmocka_unit_test(a_full_context_is_an_answer),
        cmocka_unit_test(a_prompt_that_does_not_fit_is_an_error),
        cmocka_unit_test(the_sink_may_end_the_text_or_fail),
        cmocka_unit_test_teardown(an_interrupt_ends_the_answer_and_not_the_engine, lower_flag),
        cmocka_unit_test_teardown(an_interrupt_before_the_first_token_is_an_error, lower_flag),
        cmocka_unit_test_teardown(an_interrupt_ends_a_long_prompt_within_a_batch, lower_flag),
        cmocka_unit_test(logits_of_the_prompt_are_all_computed),
        cmocka_unit_test(one_model_must_be_named),
        cmocka_unit_test(a_model_without_tokenizer_serves_ids),
        cmocka_unit_test(running_out_of_memory_leaves_the_engine_usable),
        cmocka_unit_test(opening_without_memory_is_an_error),
        cmocka_unit_test(the_timing_line_shows_what_was_measured),
        cmocka_unit_test(the_timing_is_json),
        cmocka_unit_test(reasons_have_names),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
