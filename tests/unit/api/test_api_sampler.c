#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/api/api_model.h"

enum { N_VOCAB = 768, CHOSEN = 100, SECOND = 101, THIRD = 102, DRAWS = 32 };

static ferry_model *model;
static float logits[N_VOCAB]; /* CHOSEN is the likeliest, then SECOND, then THIRD */
static ferry_sampler_params params;

static int make_all(void **state)
{
    if (api_make_model(state) != 0)
        return -1;
    return ferry_model_open(api_path, NULL, &model, NULL);
}

static int drop_all(void **state)
{
    ferry_model_free(model);
    return api_remove_model(state);
}

static int fresh(void **state)
{
    (void)state;
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = -10;
    logits[CHOSEN] = 3;
    logits[SECOND] = 2.5f;
    logits[THIRD] = 2;
    memset(&params, 0xEE, sizeof params);
    ferry_sampler_params_init(&params, sizeof params);
    return 0;
}

/* What a new sampler chooses first, after it accepted `seen` when that is an id. */
static int32_t choice_after(int32_t seen)
{
    ferry_sampler *s = api_sampler(model, &params);
    int32_t id = -1;
    if (seen >= 0)
        assert_ok(ferry_sampler_accept(s, seen, &error));
    assert_ok(ferry_sampler_sample(s, logits, &id, &error));
    ferry_sampler_free(s);
    return id;
}

static void the_likeliest_token_is_chosen_unless_draws_are_asked_for(void **state)
{
    (void)state;
    assert_int_equal(choice_after(-1), CHOSEN);
    ferry_sampler *s = api_sampler(model, NULL);
    int32_t id = -1;
    assert_ok(ferry_sampler_sample(s, logits, &id, &error));
    assert_int_equal(id, CHOSEN);
    ferry_sampler_free(s);
}

static void a_bias_and_penalties_change_the_choice(void **state)
{
    (void)state;
    ferry_logit_bias bias[] = {{CHOSEN, -INFINITY}, {THIRD, 5}};
    params.bias = bias;
    params.n_bias = 2;
    ferry_sampler *s = api_sampler(model, &params);
    int32_t id = -1;
    bias[1].id = SECOND; /* it was copied */
    assert_ok(ferry_sampler_sample(s, logits, &id, &error));
    assert_int_equal(id, THIRD);
    ferry_sampler_free(s);
    fresh(state);
    params.presence_penalty = 2;
    assert_int_equal(choice_after(CHOSEN), SECOND);
    assert_int_equal(choice_after(THIRD), CHOSEN);
    params.order = "top_k;temperature";
    assert_int_equal(choice_after(CHOSEN), CHOSEN);
}

static void an_end_can_be_ruled_out(void **state)
{
    (void)state;
    const ferry_vocab *vocab = api_vocab(model);
    int32_t end = 0;
    while (end < N_VOCAB && !ferry_vocab_is_end(vocab, end))
        end++;
    assert_true(end < N_VOCAB);
    logits[end] = 9;
    assert_int_equal(choice_after(-1), end);
    params.flags = FERRY_IGNORE_END;
    assert_int_equal(choice_after(-1), CHOSEN);
}

static void draw(ferry_sampler *s, int32_t out[DRAWS])
{
    for (int i = 0; i < DRAWS; i++)
        assert_ok(ferry_sampler_sample(s, logits, &out[i], &error));
}

static void a_seed_decides_the_draws(void **state)
{
    (void)state;
    int32_t a[DRAWS], b[DRAWS], c[DRAWS];
    params.temperature = 1;
    params.seed = 7;
    ferry_sampler *s = api_sampler(model, &params);
    draw(s, a);
    draw(s, b);
    assert_memory_not_equal(a, b, sizeof a);
    ferry_sampler_reset(s, 7);
    draw(s, b);
    assert_memory_equal(a, b, sizeof a);
    ferry_sampler_reset(s, 8);
    draw(s, c);
    assert_memory_not_equal(a, c, sizeof a);
    ferry_sampler_free(s);
}

static void a_reset_forgets_the_accepted_tokens(void **state)
{
    (void)state;
    params.presence_penalty = 2;
    ferry_sampler *s = api_sampler(model, &params);
    int32_t id = -1;
    assert_ok(ferry_sampler_accept(s, CHOSEN, &error));
    ferry_sampler_reset(s, 0);
    assert_ok(ferry_sampler_sample(s, logits, &id, &error));
    assert_int_equal(id, CHOSEN);
    ferry_sampler_free(s);
}

static void logits_without_a_number_are_an_error(void **state)
{
    (void)state;
    ferry_sampler *s = api_sampler(model, NULL);
    int32_t id = -5;
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = NAN;
    assert_int_not_equal(ferry_sampler_sample(s, logits, &id, NULL), FERRY_OK);
    assert_int_equal(id, -5);
    ferry_sampler_free(s);
}

static void impossible_samplers_are_refused(void **state)
{
    (void)state;
    static const ferry_logit_bias nobody = {N_VOCAB, 1};
    ferry_sampler *s;
    params.temperature = -1;
    assert_fails(FERRY_EUSAGE, "temperature", ferry_sampler_new(model, &params, &s, &error));
    assert_null(s);
    fresh(state);
    params.top_p = NAN;
    assert_fails(FERRY_EUSAGE, "top-p", ferry_sampler_new(model, &params, &s, &error));
    fresh(state);
    params.order = "top_k;top_k";
    assert_fails(FERRY_EUSAGE, "twice", ferry_sampler_new(model, &params, &s, &error));
    fresh(state);
    params.bias = &nobody;
    params.n_bias = 1;
    assert_fails(FERRY_EUSAGE, "768", ferry_sampler_new(model, &params, &s, &error));
    params.bias = NULL;
    assert_fails(FERRY_EUSAGE, "bias", ferry_sampler_new(model, &params, &s, &error));
    fresh(state);
    params.flags = 2;
    assert_fails(FERRY_EUSAGE, "0x2", ferry_sampler_new(model, &params, &s, &error));
    fresh(state);
    params.struct_size = 8;
    assert_fails(FERRY_EUSAGE, "ferry_sampler_params_init",
                 ferry_sampler_new(model, &params, &s, &error));
}

/* --- chat ----------------------------------------------------------------------------------- */

#define ONE "[{\"role\": \"user\", \"content\": \"Hi\"}]"

static ferry_chat_template *open_chat(const char *which)
{
    ferry_chat_template *chat;
    ferry_error e;
    if (ferry_chat_template_open(model, which, &chat, &e) != FERRY_OK)
        fail_msg("%s", e.message);
    return chat;
}

static void a_conversation_becomes_a_prompt_and_its_ids(void **state)
{
    (void)state;
    ferry_chat_template *chat = open_chat(NULL);
    const ferry_vocab *vocab = api_vocab(model);
    char with[512], without[512];
    int32_t ids[256];
    size_t n, len;
    ferry_chat_params p;
    assert_ok(ferry_chat_template_render(chat, ONE, NULL, with, sizeof with, &len, &error));
    assert_int_equal(len, strlen(with));
    assert_ok(ferry_tokenize(vocab, with, len, FERRY_RENDERED_CHAT, ids, 256, &n, &error));
    assert_int_equal(ids[0], ferry_vocab_bos(vocab));
    assert_int_not_equal(ids[1], ferry_vocab_bos(vocab));
    ferry_chat_params_init(&p, sizeof p);
    assert_int_equal(p.flags, FERRY_CHAT_ANSWER);
    p.flags = 0;
    assert_ok(ferry_chat_template_render(chat, ONE, &p, without, sizeof without, &n, &error));
    assert_true(n < len);
    assert_memory_equal(with, without, n);
    assert_non_null(strstr(without, "Hi"));
    ferry_chat_template_free(chat);
}

static void a_template_sees_tools_and_variables(void **state)
{
    (void)state;
    char name[] = "/tmp/ferry-api-jinja-XXXXXX", text[64];
    const char source[] = "{{ messages | length }} {{ tools | length }} {{ mood }} {{ half }}";
    int fd = mkstemp(name);
    size_t n;
    ferry_chat_params p;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, source, strlen(source)), strlen(source));
    close(fd);
    ferry_chat_template *chat = open_chat(name);
    unlink(name);
    ferry_chat_params_init(&p, sizeof p);
    p.tools = "[{}, {}]";
    p.variables = "{\"mood\": \"glad\", \"half\": 0.5}";
    assert_ok(ferry_chat_template_render(chat, ONE, &p, text, sizeof text, &n, &error));
    assert_string_equal(text, "1 2 glad 0.5");
    ferry_chat_template_free(chat);
}

static void chat_errors_are_values(void **state)
{
    (void)state;
    ferry_chat_template *chat = open_chat("chatml"), *none;
    char text[8] = "#";
    size_t n = 0;
    ferry_chat_params p;
    assert_ok(ferry_chat_template_render(chat, ONE, NULL, NULL, 0, &n, &error));
    assert_true(n > 8);
    assert_fails(FERRY_EFIT, "NUL",
                 ferry_chat_template_render(chat, ONE, NULL, text, 8, &n, &error));
    assert_string_equal(text, "#");
    assert_fails(FERRY_EFAILED, "messages",
                 ferry_chat_template_render(chat, "[{", NULL, text, 8, &n, &error));
    ferry_chat_params_init(&p, sizeof p);
    p.tools = "nonsense";
    assert_fails(FERRY_EFAILED, "tools",
                 ferry_chat_template_render(chat, ONE, &p, text, 8, &n, &error));
    ferry_chat_params_init(&p, sizeof p);
    p.flags = 2;
    assert_fails(FERRY_EUSAGE, "0x2",
                 ferry_chat_template_render(chat, ONE, &p, text, 8, &n, &error));
    p.struct_size = 4;
    assert_fails(FERRY_EUSAGE, "ferry_chat_params_init",
                 ferry_chat_template_render(chat, ONE, &p, text, 8, &n, &error));
    assert_fails(FERRY_EUSAGE, "chat",
                 ferry_chat_template_render(NULL, ONE, NULL, text, 8, &n, &error));
    assert_fails(FERRY_EUSAGE, "messages",
                 ferry_chat_template_render(chat, NULL, NULL, text, 8, &n, &error));
    assert_fails(FERRY_EUSAGE, "n_bytes",
                 ferry_chat_template_render(chat, ONE, NULL, text, 8, NULL, &error));
    assert_fails(FERRY_EUSAGE, "chatml", ferry_chat_template_open(model, "chatmlx", &none, &error));
    assert_null(none);
    assert_fails(FERRY_EUSAGE, "model", ferry_chat_template_open(NULL, NULL, &none, &error));
    assert_fails(FERRY_EUSAGE, "chat", ferry_chat_template_open(model, NULL, NULL, &error));
    ferry_chat_template_free(chat);
}

static ferry_grammar *grammar_of(const char *text)
{
    ferry_grammar *g;
    assert_ok(ferry_grammar_new(model, FERRY_GRAMMAR_GBNF, text, strlen(text), &g, &error));
    return g;
}

/* The text that a sampler makes of logits that never change. */
static void text_of(ferry_sampler *s, char *out, size_t size)
{
    const ferry_vocab *vocab = api_vocab(model);
    size_t used = 0, n;
    for (int i = 0; i < 40 && !ferry_sampler_is_complete(s); i++) {
        int32_t id;
        assert_ok(ferry_sampler_sample(s, logits, &id, &error));
        assert_ok(ferry_sampler_accept(s, id, &error));
        if (ferry_vocab_is_end(vocab, id))
            break;
        assert_ok(ferry_token_text(vocab, id, 0, out + used, size - used, &n, &error));
        used += n;
    }
}

static void a_grammar_decides_what_may_be_chosen(void **state)
{
    (void)state;
    char text[200] = "";
    ferry_logit_bias bias[] = {{CHOSEN, -INFINITY}};
    params.bias = bias;
    params.n_bias = 1;
    ferry_sampler *s = api_sampler(model, &params);
    ferry_grammar *g = grammar_of("root ::= \"{\\\"a\\\": \" (\"true\" | \"null\") \"}\"");
    assert_false(ferry_sampler_is_complete(s));
    assert_ok(ferry_sampler_accept(s, SECOND, &error)); /* of the prompt */
    assert_ok(ferry_sampler_set_grammar(s, g, &error));
    ferry_grammar_free(g);
    assert_fails(FERRY_EUSAGE, "grammar", ferry_sampler_accept(s, CHOSEN, &error));
    text_of(s, text, sizeof text);
    assert_true(strcmp(text, "{\"a\": true}") == 0 || strcmp(text, "{\"a\": null}") == 0);
    assert_true(ferry_sampler_is_complete(s));
    ferry_sampler_reset(s, 0); /* no grammar any more */
    assert_ok(ferry_sampler_accept(s, CHOSEN, &error));
    assert_false(ferry_sampler_is_complete(s));
    g = grammar_of("root ::= \"x\"");
    assert_ok(ferry_sampler_set_grammar(s, g, &error));
    assert_ok(ferry_sampler_set_grammar(s, NULL, &error));
    assert_ok(ferry_sampler_accept(s, CHOSEN, &error));
    ferry_grammar_free(g);
    ferry_sampler_free(s);
}

static void bad_grammars_are_errors(void **state)
{
    (void)state;
    ferry_grammar *g;
    assert_fails(FERRY_EFAILED, "line 1, column 10: found '*'",
                 ferry_grammar_new(model, FERRY_GRAMMAR_GBNF, "root ::= *", 10, &g, &error));
    assert_null(g);
    assert_fails(FERRY_EUSAGE, "kind of grammar 9", ferry_grammar_new(model, 9, "", 0, &g, &error));
    assert_fails(FERRY_EUSAGE, "model", ferry_grammar_new(NULL, 0, "", 0, &g, &error));
    assert_fails(FERRY_EUSAGE, "text", ferry_grammar_new(model, 0, NULL, 0, &g, &error));
    assert_fails(FERRY_EUSAGE, "grammar", ferry_grammar_new(model, 0, "", 0, NULL, &error));
    assert_fails(FERRY_EUSAGE, "sampler", ferry_sampler_set_grammar(NULL, NULL, &error));
    assert_fails(FERRY_EFAILED, "'not' is not supported",
                 ferry_grammar_new(model, FERRY_GRAMMAR_JSON_SCHEMA, "{\"not\":{}}", 10, &g, &error));
    assert_ok(ferry_grammar_new(model, FERRY_GRAMMAR_JSON_SCHEMA, "{}", 2, &g, &error));
    ferry_grammar_free(g);
    ferry_grammar_free(NULL);
    assert_int_equal(ferry_sampler_is_complete(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_likeliest_token_is_chosen_unless_draws_are_asked_for, fresh),
        cmocka_unit_test_setup(a_bias_and_penalties_change_the_choice, fresh),
        cmocka_unit_test_setup(an_end_can_be_ruled_out, fresh),
        cmocka_unit_test_setup(a_seed_decides_the_draws, fresh),
        cmocka_unit_test_setup(a_reset_forgets_the_accepted_tokens, fresh),
        cmocka_unit_test_setup(logits_without_a_number_are_an_error, fresh),
        cmocka_unit_test_setup(impossible_samplers_are_refused, fresh),
        cmocka_unit_test_setup(a_grammar_decides_what_may_be_chosen, fresh),
        cmocka_unit_test_setup(bad_grammars_are_errors, fresh),
        cmocka_unit_test(a_conversation_becomes_a_prompt_and_its_ids),
        cmocka_unit_test(a_template_sees_tools_and_variables),
        cmocka_unit_test(chat_errors_are_values),
    };
    return cmocka_run_group_tests(tests, make_all, drop_all);
}
