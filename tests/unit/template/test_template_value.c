/* Values as Python has them: dicts, equality, order, membership, slices; JSON; the machine's
 * budget.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/template/template_eval.h"
#include "model/template/template_value.h"

typedef struct {
    fy_tm m;
    fy_err e;
} machine;

static void start(machine *s)
{
    *s = (machine){.m = {.bytes_left = 64 << 20, .steps_left = 100000000, .line = 7}};
    s->m.e = &s->e;
}

static void stop(machine *s)
{
    fy_arena_release(&s->m.arena);
}

/* A value from JSON, in which a list that begins with "tuple" is a tuple of the rest. */
static fy_tv value(machine *s, const char *json)
{
    fy_tv v = fy_tv_from_json(&s->m, fy_span_of(json));
    if (!fy_tm_ok(&s->m))
        fail_msg("%s: %s", json, s->e.msg);
    if (v.kind == FY_TV_LIST && v.list->n > 0 && v.list->item[0].kind == FY_TV_STR &&
        fy_span_is(v.list->item[0].str, "tuple")) {
        v.kind = FY_TV_TUPLE;
        v.list->item++;
        v.list->n--;
    }
    return v;
}

static const char *shown(machine *s, const fy_tv *v)
{
    fy_tbuf b = {.m = &s->m};
    fy_tbuf_repr(&b, v);
    fy_tbuf_add(&b, "", 1);
    assert_true(fy_tm_ok(&s->m));
    return b.ptr;
}

static void json_becomes_the_types_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *json, *repr;
    } cases[] = {
        {"null", "None"},
        {" [true, false] ", "[True, False]"},
        {"[0, -0, -1, 9223372036854775807, -9223372036854775808]",
         "[0, 0, -1, 9223372036854775807, -9223372036854775808]"},
        {"[9223372036854775808, -9223372036854775809]",
         "[9223372036854775808, -9223372036854775809]"},
        {"[1.0, 1e3, -2.5E-1, 1e16, -0.0]", "[1.0, 1000.0, -0.25, 1e+16, -0.0]"},
        {"{\"b\": 1, \"a\": {\"\\u00e9\\n\": []}}", "{'b': 1, 'a': {'é\\n': []}}"},
        {"\"\"", "''"},
        {"{}", "{}"},
        {"[[], [[]]]", "[[], [[]]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine s;
        start(&s);
        fy_tv v = value(&s, cases[i].json);
        assert_string_equal(shown(&s, &v), cases[i].repr);
        stop(&s);
    }
}

static void json_that_is_none_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",       "{",
        "[1,]",   "{\"a\":1,}",
        "nul",    "01",
        "1.",     "[1] 2",
        "{1: 2}", "1e999",
        "\"a",    "-",
        "+1",     "1-2",
        "[1e]",   "\"\\ud800\"",
        "NaN",    "{\"a\": 1, \"a\": 2}", /* a key twice: the last one does not win */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine s;
        start(&s);
        fy_tv_from_json(&s.m, fy_span_of(cases[i]));
        assert_int_equal(s.e.code, FY_EFORMAT);
        assert_non_null(strstr(s.e.msg, "line 1, column "));
        stop(&s);
    }
}

static void a_dict_keeps_its_order_and_finds_every_key(void **state)
{
    (void)state;
    machine s;
    char name[32];
    start(&s);
    fy_tv d = fy_tv_dict(&s.m, FY_TV_DICT, 0);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "key %d", i * 7919 % 5000);
        fy_tdict_set(&s.m, d.dict, fy_tv_copy(&s.m, fy_span_of(name)), fy_tv_int(i));
        assert_int_equal(d.dict->n, i + 1);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "key %d", i * 7919 % 5000);
        assert_true(fy_span_is(d.dict->items[i].key.str, name));
        assert_int_equal(d.dict->items[i].value.i, i);
        fy_tv key = fy_tv_view(fy_span_of(name));
        assert_int_equal(fy_tdict_get(&s.m, d.dict, &key)->i, i);
    }
    fy_tv absent = fy_tv_view(FY_SPAN("key")), empty = fy_tv_view(FY_SPAN(""));
    assert_null(fy_tdict_get(&s.m, d.dict, &absent));
    assert_null(fy_tdict_get(&s.m, d.dict, &empty));
    assert_true(fy_tm_ok(&s.m));
    stop(&s);
}

/* The keys go in one after the other, into a dict that is searched and one that is hashed. */
static void keys_are_equal_across_types(void **state)
{
    (void)state;
    static const int fillers[] = {0, 100};
    for (size_t f = 0; f < 2; f++) {
        machine s;
        start(&s);
        fy_tv d = fy_tv_dict(&s.m, FY_TV_DICT, 0);
        for (int i = 0; i < fillers[f]; i++)
            fy_tdict_set(&s.m, d.dict, fy_tv_int(1000 + i), fy_tv_none());
        const fy_tv keys[] = {
            fy_tv_int(1),
            fy_tv_float(1.0),
            fy_tv_bool(true),
            fy_tv_float(0.5),
            fy_tv_none(),
            fy_tv_undefined(FY_SPAN("x")),
            fy_tv_undefined(FY_SPAN("y")),
            value(&s, "[\"tuple\", 1, [\"a\"]]"),
            fy_tv_view(FY_SPAN("1")),
            value(&s, "12345678901234567890"),
            fy_tv_float(1e300),
            fy_tv_int(INT64_MIN),
            fy_tv_float(-0x1p63),
        };
        size_t n = 0;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            fy_tdict_set(&s.m, d.dict, keys[i], fy_tv_int((int)i));
            if (i == 7) { /* tuples are left out */
                assert_string_equal(s.e.msg, "line 7: a tuple as a key of a dict is not supported");
                s.e = (fy_err){0};
                continue;
            }
            assert_true(fy_tm_ok(&s.m));
            bool again = i == 1 || i == 2 || i == 6 || i == 12;
            n += !again;
            assert_int_equal(d.dict->n, n + fillers[f]);
        }
        const fy_tpair *pair = &d.dict->items[fillers[f]]; /* the first key, the last value */
        assert_int_equal(pair->value.i, 2);
        assert_int_equal(pair->key.kind, FY_TV_INT);
        fy_tdict_set(&s.m, d.dict, fy_tv_list(&s.m, FY_TV_LIST, 0), fy_tv_none());
        assert_string_equal(s.e.msg, "line 7: unhashable type: 'list'");
        stop(&s);
    }
}

static void equality_and_order_are_those_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        char relation; /* '<', '=', '!': not equal and without order */
    } cases[] = {
        {"1", "1.0", '='},
        {"true", "1", '='},
        {"9007199254740993", "9007199254740992.0", '!'},
        {"9223372036854775807", "9223372036854775808.0", '<'},
        {"-9223372036854775808", "-9223372036854775808.0", '='},
        {"1", "1.5", '<'},
        {"-1.5", "-1", '<'},
        {"12345678901234567890", "12345678901234567890", '='},
        {"\"a\"", "\"b\"", '<'},
        {"\"\"", "\"a\"", '<'},
        {"\"a\"", "\"aa\"", '<'},
        {"\"z\"", "\"\u00e9\"", '<'},
        {"[1, 2]", "[1, 3]", '<'},
        {"[1]", "[1, 0]", '<'},
        {"[1, \"a\"]", "[1.0, \"a\"]", '='},
        {"[\"tuple\", 1]", "[1]", '!'},
        {"{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1.0}", '='},
        {"{\"a\": 1}", "{\"a\": 2}", '!'},
        {"null", "false", '!'},
        {"\"1\"", "1", '!'},
        {"[1, \"a\"]", "[1, 2]", '!'},
        {"null", "null", '='},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine s;
        start(&s);
        fy_tv a = value(&s, cases[i].a), b = value(&s, cases[i].b);
        bool equal = fy_tv_equal(&s.m, &a, &b);
        assert_true(equal == fy_tv_equal(&s.m, &b, &a));
        if (equal != (cases[i].relation == '='))
            fail_msg("%s == %s is %d", cases[i].a, cases[i].b, equal);
        if (cases[i].relation == '<') {
            assert_true(fy_tv_compare(&s.m, &a, &b) < 0);
            assert_true(fy_tv_compare(&s.m, &b, &a) > 0);
        }
        assert_true(fy_tm_ok(&s.m));
        stop(&s);
    }
}

static void values_without_an_order_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *message;
    } cases[] = {
        {"1", "\"a\"", "line 7: '<' not supported between instances of 'int' and 'str'"},
        {"{}", "{}", "line 7: '<' not supported between instances of 'dict' and 'dict'"},
        {"null", "1", "line 7: '<' not supported between instances of 'NoneType' and 'int'"},
        {"[1, null]", "[1, 2]",
         "line 7: '<' not supported between instances of 'NoneType' and 'int'"},
        {"[\"tuple\", 1]", "[1]",
         "line 7: '<' not supported between instances of 'tuple' and 'list'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine s;
        start(&s);
        fy_tv a = value(&s, cases[i].a), b = value(&s, cases[i].b);
        fy_tv_compare(&s.m, &a, &b);
        assert_string_equal(s.e.msg, cases[i].message);
        stop(&s);
    }
}

static fy_tv range_of(machine *s, int64_t start_at, int64_t step, size_t n)
{
    fy_trange *r = fy_tm_alloc(&s->m, sizeof *r);
    assert_non_null(r);
    *r = (fy_trange){.start = start_at, .step = step, .n = n};
    return (fy_tv){.kind = FY_TV_RANGE, .range = r};
}

static void ranges_are_lazy(void **state)
{
    (void)state;
    machine s;
    fy_tv v;
    start(&s);
    fy_tv r = range_of(&s, INT64_MIN, 3, (size_t)1 << 62);
    assert_int_equal(fy_tv_length(&s.m, &r), (size_t)1 << 62);
    fy_tv in = fy_tv_int(INT64_MIN + 300);
    assert_true(fy_tv_contains(&s.m, &in, &r));
    fy_titer it = fy_titer_begin(&s.m, &r);
    assert_true(fy_titer_next(&it, &v) && fy_titer_next(&it, &v));
    assert_int_equal(v.i, INT64_MIN + 3);
    assert_true(fy_tm_ok(&s.m));
    assert_int_equal(fy_tv_items(&s.m, &r).n, 0);
    assert_int_equal(s.e.code, FY_EFIT);
    assert_true(s.m.arena.total < 1 << 20);
    stop(&s);
}

static void a_generator_is_used_up(void **state)
{
    (void)state;
    machine s;
    start(&s);
    fy_tv g = value(&s, "[1, 2, 3, 4]"), two = fy_tv_int(2);
    g.kind = FY_TV_ITER;
    assert_true(fy_tv_contains(&s.m, &two, &g));
    fy_tlist items = fy_tv_items(&s.m, &g);
    assert_int_equal(items.n, 2);
    assert_int_equal(items.item[0].i, 3);
    assert_int_equal(fy_tv_items(&s.m, &g).n, 0);
    assert_true(fy_tm_ok(&s.m));
    stop(&s);
}

static void slices_follow_the_indices_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *start, *stop, *step, *text, *list;
    } cases[] = {
        {"1", "3", "null", "él", "[1, 2]"},
        {"null", "-1", "null", "hél", "[0, 1, 2]"},
        {"-2", "null", "null", "lo", "[2, 3]"},
        {"null", "null", "-1", "oléh", "[3, 2, 1, 0]"},
        {"null", "null", "2", "hl", "[0, 2]"},
        {"3", "0", "-2", "oé", "[3, 1]"},
        {"9", "99", "null", "", "[]"},
        {"-99", "2", "null", "hé", "[0, 1]"},
        {"2", "1", "null", "", "[]"},
        {"-9223372036854775808", "9223372036854775807", "9223372036854775807", "h", "[0]"},
        {"9223372036854775807", "-9223372036854775808", "-9223372036854775808", "o", "[3]"},
        {"true", "3", "null", "él", "[1, 2]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine s;
        start(&s);
        fy_tv text = fy_tv_view(FY_SPAN("hélo")), list = value(&s, "[0, 1, 2, 3]");
        const fy_tv bound[] = {value(&s, cases[i].start), value(&s, cases[i].stop),
                               value(&s, cases[i].step)};
        assert_true(fy_span_is(fy_tv_slice(&s.m, &text, bound).str, cases[i].text));
        fy_tv out = fy_tv_slice(&s.m, &list, bound);
        assert_string_equal(shown(&s, &out), cases[i].list);
        stop(&s);
    }
}

static void what_is_absent_is_undefined_and_says_what_it_is(void **state)
{
    (void)state;
    machine s;
    start(&s);
    fy_tv d = value(&s, "{\"a\": 1, \"items\": 2}"), l = value(&s, "[1]"), five = fy_tv_int(5);
    fy_tv out = fy_tv_getattr(&s.m, &d, FY_SPAN("items"));
    assert_int_equal(out.kind, FY_TV_CALLABLE); /* the method comes first */
    fy_tv key = fy_tv_view(FY_SPAN("items"));
    assert_int_equal(fy_tv_getitem(&s.m, &d, &key).i, 2); /* the item comes first */
    out = fy_tv_getitem(&s.m, &l, &five);
    assert_int_equal(out.kind, FY_TV_UNDEFINED);
    assert_true(fy_tm_ok(&s.m));
    fy_tv_getattr(&s.m, &out, FY_SPAN("x"));
    assert_string_equal(s.e.msg, "line 7: list object has no element 5");
    s.e = (fy_err){0};
    out = fy_tv_getattr(&s.m, &d, FY_SPAN("b"));
    fy_tv_call(&s.m, &out, &(fy_targs){0});
    assert_string_equal(s.e.msg, "line 7: 'dict object' has no attribute 'b'");
    s.e = (fy_err){0};
    assert_int_equal(fy_tv_getitem(&s.m, &d, &l).kind, FY_TV_UNDEFINED); /* unhashable: absent */
    assert_true(fy_tm_ok(&s.m));
    stop(&s);
}

static void the_machine_stops_at_its_limits(void **state)
{
    (void)state;
    machine s;
    start(&s);
    fy_tbuf b = {.m = &s.m};
    s.m.bytes_left = 1000;
    assert_non_null(fy_tm_alloc(&s.m, 500));
    assert_null(fy_tm_alloc(&s.m, 500)); /* rounded up, it is more than what is left */
    assert_int_equal(s.e.code, FY_EFIT);
    s.e = (fy_err){0};
    assert_null(fy_tm_alloc(&s.m, SIZE_MAX));
    s.e = (fy_err){0};
    size_t n = 0;
    for (; fy_tm_ok(&s.m); n++) {
        assert_int_equal(b.len, 10 * n);
        fy_tbuf_add(&b, "0123456789", 10);
        assert_true(n < 99);
    }
    assert_int_equal(b.len, 10 * (n - 1));
    assert_int_equal(s.e.code, FY_EFIT);
    s.e = (fy_err){0};
    s.m.steps_left = 10;
    assert_true(fy_tm_charge(&s.m, 16 * 8 + 1));
    assert_int_equal(s.m.steps_left, 1);
    assert_false(fy_tm_charge(&s.m, 1));
    assert_int_equal(s.e.code, FY_EFIT);
    assert_int_equal(strncmp(s.e.msg, "line 7: ", 8), 0);
    stop(&s);
}

/* After an error everything that can be asked for answers at once, and changes nothing. */
static void nothing_happens_after_an_error(void **state)
{
    (void)state;
    machine s;
    start(&s);
    fy_tv l = value(&s, "[1, [2], \"a\"]"), d = value(&s, "{\"a\": 1}"), one = fy_tv_int(1), v;
    fy_tv text = fy_tv_view(FY_SPAN("a")), undefined = fy_tv_undefined(FY_SPAN("x"));
    fy_tbuf b = {.m = &s.m};
    assert_int_equal(fy_tm_fail(&s.m, "the first of %d", 2).kind, FY_TV_UNDEFINED);
    uint64_t steps = s.m.steps_left;
    size_t bytes = s.m.bytes_left;
    fy_tv none = fy_tv_list(&s.m, FY_TV_LIST, 5), empty = fy_tv_dict(&s.m, FY_TV_DICT, 5);
    fy_tlist_add(&s.m, none.list, one);
    fy_tdict_set(&s.m, empty.dict, text, one);
    fy_tdict_set(&s.m, d.dict, one, one);
    assert_int_equal(none.list->n + empty.dict->n, 0);
    assert_int_equal(d.dict->n, 1);
    assert_null(fy_tdict_get(&s.m, d.dict, &text));
    assert_null(fy_tm_alloc(&s.m, 1));
    assert_false(fy_tm_charge(&s.m, 0) || fy_tm_take(&s.m, 0));
    assert_int_equal(fy_tv_items(&s.m, &l).n, 0);
    fy_titer it = fy_titer_begin(&s.m, &l);
    assert_false(fy_titer_next(&it, &v));
    assert_false(fy_tv_equal(&s.m, &l, &l) || fy_tv_contains(&s.m, &one, &l));
    assert_int_equal(fy_tv_copy(&s.m, FY_SPAN("abc")).str.len, 0);
    fy_tv_getattr(&s.m, &undefined, FY_SPAN("y"));
    fy_tv_binary(&s.m, FY_OP_ADD, &l, &one);
    fy_tv_call(&s.m, &one, &(fy_targs){0});
    fy_tv_slice(&s.m, &text, (fy_tv[]){fy_tv_none(), fy_tv_none(), fy_tv_int(0)});
    fy_tbuf_repr(&b, &l);
    fy_tbuf_z(&b, "abc");
    assert_int_equal(b.len, 0);
    assert_int_equal(s.m.steps_left, steps);
    assert_int_equal(s.m.bytes_left, bytes);
    assert_string_equal(s.e.msg, "line 7: the first of 2");
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_becomes_the_types_of_python),
        cmocka_unit_test(json_that_is_none_is_refused_with_its_place),
        cmocka_unit_test(a_dict_keeps_its_order_and_finds_every_key),
        cmocka_unit_test(keys_are_equal_across_types),
        cmocka_unit_test(equality_and_order_are_those_of_python),
        cmocka_unit_test(values_without_an_order_say_so),
        cmocka_unit_test(ranges_are_lazy),
        cmocka_unit_test(a_generator_is_used_up),
        cmocka_unit_test(slices_follow_the_indices_of_python),
        cmocka_unit_test(what_is_absent_is_undefined_and_says_what_it_is),
        cmocka_unit_test(the_machine_stops_at_its_limits),
        cmocka_unit_test(nothing_happens_after_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
