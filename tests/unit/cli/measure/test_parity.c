#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "cli/call.h"
#include "cli/measure/parity.h"
#include "cli/verb.h"
#include "program/program.h"

static char dir[] = "/tmp/ferry-parity-XXXXXX", path[64];
static fy_model *model;
static fy_str good; /* the model's parity.json */

static int make_model(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    char from[] = "tests/data/tales", o[] = "-o", type[] = "--outtype", q4[] = "q4_0";
    char *words[] = {from, o, path, type, q4};
    fy_call c;
    fy_err e = {0};
    int status = 0;
    int rc = fy_call_open(&c, fy_verb_find("convert"), 5, words, &e);
    if (rc == 0)
        rc = fy_call_run(&c, &status, &e);
    fy_call_close(&c);
    model = rc == 0 ? fy_model_open(path, &e) : NULL;
    fy_parity_params p = fy_parity_defaults();
    fy_parity_made made;
    if (model != NULL && fy_parity_make(model, &p, &good, &made, &e) == 0 && made.n_ids > 0)
        return 0;
    fprintf(stderr, "%s\n", e.msg);
    return -1;
}

static int remove_model(void **state)
{
    (void)state;
    fy_model_close(model);
    fy_str_release(&good);
    unlink(path);
    return rmdir(dir);
}

/* The text with one change, given as JSON: the member at the keys becomes the value; "" removes
 * it. Keys that are numbers are indices. */
static char *changed(const char *const *keys, const char *value)
{
    json_t *root = fy_json_data((fy_span){good.ptr, good.len}, NULL), *at = root;
    for (; keys[1] != NULL; keys++)
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(keys[0]))
                               : json_object_get(at, keys[0]);
    json_t *v = fy_json_data(fy_span_of(value), NULL);
    if (value[0] == '\0')
        assert_int_equal(json_object_del(at, keys[0]), 0);
    else if (json_is_array(at))
        assert_int_equal(json_array_set_new(at, (size_t)atoi(keys[0]), v), 0);
    else
        assert_int_equal(json_object_set_new(at, keys[0], v), 0);
    char *text = json_dumps(root, 0);
    json_decref(root);
    return text;
}

static void a_model_agrees_with_itself(void **state)
{
    (void)state;
    fy_parity_report r;
    fy_err e = {0};
    for (int threads = 1; threads <= 2; threads++) {
        assert_int_equal(fy_parity_check(model, good.ptr, good.len, threads, false, &r, &e), 0);
        for (int i = 0; i < FY_PARITY_PARTS; i++) {
            assert_true(r.part[i].n > 0);
            assert_int_equal(r.part[i].n_bad, 0);
        }
    }
    assert_true(r.part[FY_PARITY_TEXTS].n >= 80);
}

static void making_it_again_gives_the_same_bytes(void **state)
{
    (void)state;
    fy_parity_params p = fy_parity_defaults();
    fy_parity_made made;
    fy_str again = {0};
    p.n_threads = 2;
    assert_int_equal(fy_parity_make(model, &p, &again, &made, NULL), 0);
    assert_string_equal(fy_str_z(&again), fy_str_z(&good));
    assert_false(made.cut);
    fy_str_release(&again);
}

static void every_answer_has_a_lead(void **state)
{
    (void)state;
    json_t *root = fy_json_data((fy_span){good.ptr, good.len}, NULL);
    const json_t *list = json_object_get(root, "greedy");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *prompt = json_object_get(item, "prompt_ids"),
                     *ids = json_object_get(item, "ids");
        fy_session *s = fy_parity_session(model, 512, 1, NULL);
        const float *logits;
        for (size_t k = 0; k < json_array_size(prompt); k++) {
            int32_t id = (int32_t)json_integer_value(json_array_get(prompt, k));
            assert_int_equal(fy_session_eval(s, &id, 1, NULL, &logits, NULL), 0);
        }
        for (size_t k = 0; k < json_array_size(ids); k++) {
            double lead;
            int32_t id = (int32_t)json_integer_value(json_array_get(ids, k));
            assert_int_equal(fy_parity_best(logits, fy_model_hparams(model)->n_vocab, &lead), id);
            assert_true(lead >= FY_PARITY_LEAD);
            assert_int_equal(fy_session_eval(s, &id, 1, NULL, &logits, NULL), 0);
        }
        fy_session_free(s);
    }
    json_decref(root);
}

static void a_time_limit_leaves_answers_out(void **state)
{
    (void)state;
    fy_parity_params p = fy_parity_defaults();
    fy_parity_made made;
    fy_parity_report r;
    fy_str text = {0};
    p.max_s = 0;
    assert_int_equal(fy_parity_make(model, &p, &text, &made, NULL), 0);
    assert_true(made.cut);
    assert_true(made.n_ids <= 1);
    assert_int_equal(fy_parity_check(model, text.ptr, text.len, 1, false, &r, NULL), 0);
    assert_int_equal(r.part[FY_PARITY_GREEDY].n_bad, 0);
    fy_str_release(&text);
}

static void differences_are_counted_and_the_first_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *keys[5], *value;
        fy_parity_kind part;
        const char *says;
    } cases[] = {
        {{"tokenizer_cases", "6", "ids", "0"},
         "1",
         FY_PARITY_TEXTS,
         "\"Hello, world!\": ids[0] is"},
        {{"tokenizer_cases", "6", "ids"}, "[]", FY_PARITY_TEXTS, "expected the end"},
        {{"tokenizer_cases", "6", "text"}, "\"x\"", FY_PARITY_TEXTS, "\"x\": ids[0] is"},
        {{"cases", "0", "expected"}, "\"x\"", FY_PARITY_CONVERSATIONS, "\"one question\" became"},
        {{"greedy", "0", "ids", "0"}, "1", FY_PARITY_GREEDY, "id 0 is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_parity_report r;
        fy_err e = {0};
        char *text = changed(cases[i].keys, cases[i].value);
        if (fy_parity_check(model, text, strlen(text), 1, false, &r, &e) != 0)
            fail_msg("%s", e.msg);
        for (int k = 0; k < FY_PARITY_PARTS; k++)
            assert_int_equal(r.part[k].n_bad > 0, k == (int)cases[i].part);
        if (strstr(r.part[cases[i].part].first, cases[i].says) == NULL)
            fail_msg("expected '%s' in '%s'", cases[i].says, r.part[cases[i].part].first);
        free(text);
    }
}

static void an_error_that_does_not_come_is_a_difference(void **state)
{
    (void)state;
    fy_parity_report r;
    char *text =
        changed((const char *const[]){"cases", "0", NULL},
                "{\"name\": \"n\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}],"
                " \"error\": \"no\"}");
    assert_int_equal(fy_parity_check(model, text, strlen(text), 1, false, &r, NULL), 0);
    assert_int_equal(r.part[FY_PARITY_CONVERSATIONS].n_bad, 1);
    assert_non_null(strstr(r.part[FY_PARITY_CONVERSATIONS].first, "expected the error \"no\""));
    free(text);
}

static void what_is_no_parity_json_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys[5], *value, *says;
    } cases[] = {
        {{"tokenizer_cases", "6", "ids", "0"}, "768", "ids[0] is not an id below 768"},
        {{"tokenizer_cases", "6", "ids", "0"}, "-1", "tokenizer_cases[6]: ids[0]"},
        {{"tokenizer_cases", "6", "ids", "0"}, "1e99", "is not an id"},
        {{"tokenizer_cases", "6", "ids"}, "", "has no list \"ids\""},
        {{"tokenizer_cases", "6", "text"}, "5", "has no string \"text\""},
        {{"tokenizer_cases", "6"}, "null", "has no string \"text\""},
        {{"tokenizer_cases"}, "", "lacks \"tokenizer_cases\""},
        {{"tokenizer_cases"}, "{}", "lacks \"tokenizer_cases\""},
        {{"cases"}, "5", "lacks"},
        {{"cases", "0", "messages"}, "3", "cases[0]: lacks"},
        {{"cases", "0", "name"}, "", "cases[0]: lacks"},
        {{"cases", "0", "expected"}, "", "cases[0]: lacks"},
        {{"cases", "0"}, "[]", "cases[0]: lacks"},
        {{"greedy", "0", "prompt_ids", "0"}, "1.5", "greedy[0]: prompt_ids[0]"},
        {{"greedy", "0", "prompt_ids"}, "[]", "greedy[0]: 0 and"},
        {{"greedy", "0", "prompt"}, "", "has no string \"prompt\""},
        {{"greedy"}, "", "lacks"},
        {{"format_version"}, "2", "format_version is 2, expected 1"},
        {{"format_version"}, "", "format_version is 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_parity_report r;
        fy_err e = {0};
        char *text = changed(cases[i].keys, cases[i].value);
        if (fy_parity_check(model, text, strlen(text), 1, false, &r, &e) != -1)
            fail_msg("accepted: case %zu", i);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("expected '%s' in '%s'", cases[i].says, e.msg);
        free(text);
    }
    static const char *const texts[] = {"", "[", "[]", "5", "{\"a\": 1, \"a\": 2}", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fy_parity_report r;
        fy_err e = {0};
        assert_int_equal(fy_parity_check(model, texts[i], strlen(texts[i]), 1, false, &r, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
    }
}

static void long_prompts_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    fy_str list = {0};
    fy_str_putc(&list, '[');
    for (int i = 0; i < 5000; i++)
        fy_str_puts(&list, i > 0 ? ",1" : "1");
    fy_str_putc(&list, ']');
    char *text = changed((const char *const[]){"greedy", "0", "prompt_ids", NULL}, fy_str_z(&list));
    fy_parity_report r;
    fy_err e = {0};
    assert_int_equal(fy_parity_check(model, text, strlen(text), 1, false, &r, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    free(text);
    fy_str_release(&list);
}

static void an_interrupt_ends_it(void **state)
{
    (void)state;
    fy_parity_report r;
    fy_err e = {0};
    fy_interrupted = 1;
    assert_int_equal(fy_parity_check(model, good.ptr, good.len, 1, false, &r, &e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
}

int main(void)
{
    fy_program_set(&fy_ferry);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_agrees_with_itself),
        cmocka_unit_test(making_it_again_gives_the_same_bytes),
        cmocka_unit_test(every_answer_has_a_lead),
        cmocka_unit_test(a_time_limit_leaves_answers_out),
        cmocka_unit_test(differences_are_counted_and_the_first_is_told),
        cmocka_unit_test(an_error_that_does_not_come_is_a_difference),
        cmocka_unit_test(what_is_no_parity_json_is_refused),
        cmocka_unit_test(long_prompts_are_refused_before_memory_is_taken),
        cmocka_unit_test(an_interrupt_ends_it),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
