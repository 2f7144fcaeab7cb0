#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/log.h"
#include "base/str.h"
#include "format/pickle.h"
#include "tests/unit/format/torch_bytes.h"

/* --- a node as text, as Python would print it ------------------------------------------------- */

static void print(fy_str *out, const fy_pickle_node *v, int depth);

static void print_items(fy_str *out, const fy_pickle_node *v, int depth)
{
    for (uint32_t i = 0; i < v->items.n; i++) {
        fy_str_puts(out, i == 0 ? "" : v->kind == FY_PICKLE_DICT && i % 2 == 1 ? ":" : ",");
        print(out, v->items.at[i], depth + 1);
    }
}

static void print_call(fy_str *out, const fy_pickle_node *v, int depth)
{
    print(out, v->call.callee, depth + 1);
    fy_str_putc(out, '*');
    print(out, v->call.args, depth + 1);
    if (v->call.state != NULL) {
        fy_str_putc(out, '!');
        print(out, v->call.state, depth + 1);
    }
}

static void print_scalar(fy_str *out, const fy_pickle_node *v)
{
    switch ((int)v->kind) {
    case FY_PICKLE_NONE:
        fy_str_puts(out, "None");
        return;
    case FY_PICKLE_BOOL:
        fy_str_puts(out, v->i != 0 ? "True" : "False");
        return;
    case FY_PICKLE_INT:
        fy_str_printf(out, "%lld", (long long)v->i);
        return;
    case FY_PICKLE_FLOAT:
        fy_str_printf(out, "%.17g", v->f);
        return;
    case FY_PICKLE_BIG:
        fy_str_printf(out, "big%zu", v->text.len);
        return;
    case FY_PICKLE_GLOBAL:
        fy_str_printf(out, "%.*s.%.*s", (int)v->global.module.len, v->global.module.ptr,
                      (int)v->global.name.len, v->global.name.ptr);
        return;
    default:
        fy_str_puts(out, v->kind == FY_PICKLE_BYTES ? "b'" : "'");
        fy_str_put_quoted(out, v->text, SIZE_MAX);
        fy_str_putc(out, '\'');
    }
}

static void print(fy_str *out, const fy_pickle_node *v, int depth)
{
    if (depth > 6) {
        fy_str_puts(out, "...");
        return;
    }
    if (v->kind == FY_PICKLE_TUPLE || v->kind == FY_PICKLE_LIST || v->kind == FY_PICKLE_DICT) {
        bool dict = v->kind == FY_PICKLE_DICT;
        const char *ends = dict ? "{}" : v->kind == FY_PICKLE_LIST ? "[]" : "()";
        fy_str_putc(out, ends[0]);
        print_items(out, v, depth);
        fy_str_putc(out, ends[1]);
    } else if (v->kind == FY_PICKLE_CALL) {
        print_call(out, v, depth);
    } else if (v->kind == FY_PICKLE_ID) {
        fy_str_putc(out, '@');
        print(out, v->id, depth + 1);
    } else if (v->kind == FY_PICKLE_SET) {
        fy_str_puts(out, "set");
    } else {
        print_scalar(out, v);
    }
}

/* The text of its root, or the error's words. */
static int read_text(const char *p, size_t n, fy_str *out, size_t *used, fy_err *e)
{
    fy_pickle k = {0};
    char *copy = exact_copy(p, n);
    const fy_pickle_node *root = fy_pickle_read(&k, copy, n, used, e);
    fy_str_clear(out);
    if (root != NULL)
        print(out, root, 0);
    assert_int_equal(root == NULL, e->code != FY_OK);
    fy_pickle_release(&k);
    free(copy);
    return root != NULL ? 0 : -1;
}

typedef struct {
    const char *bytes;
    size_t n;
    const char *text;
} pickle_case;

#define P(bytes, text) {bytes, sizeof(bytes) - 1, text}

static void expect_texts(const pickle_case *cases, size_t n, bool good)
{
    fy_str got = {0};
    for (size_t i = 0; i < n; i++) {
        size_t used = 0;
        fy_err e = {0};
        int rc = read_text(cases[i].bytes, cases[i].n, &got, &used, &e);
        if (rc != (good ? 0 : -1))
            fail_msg("case %zu: %s", i, rc == 0 ? fy_str_z(&got) : e.msg);
        if (good && strcmp(fy_str_z(&got), cases[i].text) != 0)
            fail_msg("case %zu: %s, expected %s", i, fy_str_z(&got), cases[i].text);
        if (good && used != cases[i].n)
            fail_msg("case %zu: %zu bytes used of %zu", i, used, cases[i].n);
        if (!good && strstr(e.msg, cases[i].text) == NULL)
            fail_msg("case %zu: '%s' is not in: %s", i, cases[i].text, e.msg);
    }
    fy_str_release(&got);
}

/* The pickles are those of CPython 3.11 and 2.7 unless they are shorter than these would be. */
static void values_of_every_protocol_are_read(void **state)
{
    (void)state;
    static const pickle_case cases[] = {
        P("N.", "None"),
        P("\x80\x02\x88.", "True"),
        P("\x89.", "False"),
        P("K\xFF.", "255"),
        P("M\xFF\xFF.", "65535"),
        P("J\xFF\xFF\xFF\xFF.", "-1"),
        P("\x8a\x00.", "0"),
        P("\x8a\x01\xFF.", "-1"),
        P("\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F.", "9223372036854775807"),
        P("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.", "big9"),
        P("\x8b\x02\x00\x00\x00\x39\x30.", "12345"),
        P("I-7\n.", "-7"),
        P("I01\n.", "True"),
        P("L12L\n.", "12"),
        P("F1.5\n.", "1.5"),
        P("G\x3F\xF8\x00\x00\x00\x00\x00\x00.", "1.5"),
        P("G\x7F\xF0\x00\x00\x00\x00\x00\x00.", "inf"),
        P("S'ab'\np0\n.", "'ab'"),
        P("Vab\n.", "'ab'"),
        P("U\x02" "ab.", "'ab'"),
        P("T\x02\x00\x00\x00" "ab.", "'ab'"),
        P("X\x03\x00\x00\x00\xE2\x82\xAC.", "'\xE2\x82\xAC'"),
        P("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01" "a\x94.", "'a'"),
        P("\x8d\x01\x00\x00\x00\x00\x00\x00\x00" "a.", "'a'"),
        P("C\x01" "a.", "b'a'"),
        P("B\x01\x00\x00\x00" "a.", "b'a'"),
        P("\x8e\x01\x00\x00\x00\x00\x00\x00\x00" "a.", "b'a'"),
        P(").", "()"),
        P("(K\x01K\x02t.", "(1,2)"),
        P("K\x01\x85.", "(1)"),
        P("K\x01K\x02\x86.", "(1,2)"),
        P("K\x01K\x02K\x03\x87.", "(1,2,3)"),
        P("].", "[]"),
        P("(K\x01l.", "[1]"),
        P("]K\x01" "a.", "[1]"),
        P("](K\x01K\x02" "eK\x03" "a.", "[1,2,3]"),
        P("}.", "{}"),
        P("(K\x01K\x02" "d.", "{1:2}"),
        P("}K\x01K\x02s(K\x03K\x04K\x05K\x06u.", "{1:2,3:4,5:6}"),
        P("\x8f(K\x01\x90.", "set"),
        P("(K\x01\x91.", "set"),
        P("K\x01K\x02" "0.", "1"),
        P("(K\x01" "1N.", "None"),
        P("K\x01" "2\x86.", "(1,1)"),
        P("K\x07q\x00" "0h\x00.", "7"),
        P("K\x07r\x00\x00\x00\x00" "0j\x00\x00\x00\x00.", "7"),
        P("K\x07p0\n0g0\n.", "7"),
        P("K\x07\x94" "0K\x08\x94" "0h\x00h\x01\x86.", "(7,8)"),
        P("]q\x00h\x00" "a.", "[[[[[[[...]]]]]]]"), /* a list in itself */
    };
    expect_texts(cases, sizeof cases / sizeof cases[0], true);
}

static void globals_and_calls_are_inert(void **state)
{
    (void)state;
    static const pickle_case cases[] = {
        P("cposix\nsystem\n.", "posix.system"),
        P("cposix\nsystem\nU\x02id\x85R.", "posix.system*('id')"),
        P("\x8c\x05posix\x8c\x06system\x93U\x02id\x85R.", "posix.system*('id')"),
        P("(U\x02id" "iposix\nsystem\n.", "posix.system*('id')"),
        P("(cposix\nsystem\nU\x02ido.", "posix.system*('id')"),
        P("ca\nB\n)\x81}b.", "a.B*()!{}"),
        P("ca\nB\n)}\x92.", "a.B*()"),
        P("ca\nB\n)R(K\x01K\x02u.", "a.B*()"), /* items of what is never made are not kept */
        P("ca\nB\n)RK\x01" "a.", "a.B*()"),
        P("K\x05K\x06\x86Q.", "@(5,6)"),
        P("ccollections\nOrderedDict\n)R.", "{}"),
        P("ccollections\nOrderedDict\n)RK\x01K\x02s.", "{1:2}"),
        P("ccollections\nOrderedDict\n](K\x01K\x02\x86" "](K\x03K\x04" "ee\x85R.", "{1:2,3:4}"),
        P("ccollections\nOrderedDict\n)R}K\x01K\x02sb.", "{}"), /* its state is not its content */
        P("ccollections\nOrderedDict2\n)R.", "collections.OrderedDict2*()"),
    };
    expect_texts(cases, sizeof cases / sizeof cases[0], true);
}

static void wrong_pickles_are_refused_in_words(void **state)
{
    (void)state;
    static const pickle_case cases[] = {
        P("", "pickle byte 0: is cut off"),
        P("N", "pickle byte 1: is cut off"),
        P(".", "pickle byte 0: takes from an empty stack"),
        P("0.", "takes from an empty stack"),
        P("K\x01\x86.", "takes from an empty stack"),
        P("K\x01(\x86.", "takes from an empty stack"),
        P("(.", "takes from an empty stack"),
        P("N(q\x00.", "takes from an empty stack"),
        P("t.", "looks for a mark that is not there"),
        P("(K\x01"
          "d.",
          "a dict of a key without a value"),
        P("}(K\x01u.", "sets a key without a value"),
        P("K\x01K\x02K\x03s.", "adds items to what cannot have them"),
        P("}K\x01"
          "a.",
          "adds items to what cannot have them"),
        P("](K\x01K\x02u.", "adds items to what cannot have them"),
        P("](K\x01\x90.", "adds items to what cannot have them"),
        P("h\x00.", "gets a memo entry that was never set"),
        P("Nr\xFF\xFF\xFF\xFF.", "sets a memo entry that is out of range"),
        P("Nq\x01h\x00.", "gets a memo entry that was never set"),
        P("N\x80\x06.", "pickle protocol 6, expected at most 5"),
        P("\x95\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFN.", "a frame that is cut off"),
        P("X\xFF\xFF\xFF\xFFN.", "is cut off"),
        P("\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFN.", "is cut off"),
        P("\x8b\xFF\xFF\xFF\xFFN.", "is cut off"),
        P("cposix\nsystem", "has a line without an end"),
        P("I9223372036854775808\n.", "not a decimal number of at most 63 bits"),
        P("I\n.", "not a decimal number"),
        P("F1,5\n.", "is not a number"),
        P("F\n.", "is not a number"),
        P("Sab\n.", "a text without quotes"),
        P("Va\\u0041\n.", "a text with escapes"),
        P("Np-1\n.", "is not a memo index"),
        P("K\x01K\x02\x93.", "names a global by something else than texts"),
        P("(o.", "makes an object of no class"),
        P("Pabc\n.", "operation 0x50 is not one that data needs"),
        P("\x82\x01.", "operation 0x82"),
        P("\x97.", "operation 0x97"),
        P("\xFF", "operation 0xff"),
        P("ccollections\nOrderedDict\nK\x01\x85R.", "OrderedDict of something else than pairs"),
        P("ccollections\nOrderedDict\n]K\x01"
          "a\x85R.",
          "OrderedDict of something else than pairs"),
    };
    expect_texts(cases, sizeof cases / sizeof cases[0], false);
}

static void several_pickles_are_read_one_after_the_other(void **state)
{
    (void)state;
    static const char bytes[] = "K\x01q\x00.K\x02.h\x00.";
    fy_pickle k = {0};
    fy_err e = {0};
    size_t used, at = 0;
    const fy_pickle_node *a = fy_pickle_read(&k, bytes, sizeof bytes - 1, &used, &e);
    at += used;
    const fy_pickle_node *b = fy_pickle_read(&k, bytes + at, sizeof bytes - 1 - at, &used, &e);
    at += used;
    assert_int_equal(a->i, 1);
    assert_int_equal(b->i, 2);
    /* each has a memo of its own */
    assert_null(fy_pickle_read(&k, bytes + at, sizeof bytes - 1 - at, &used, &e));
    fy_pickle_release(&k);
}

static void deep_nesting_needs_no_stack_of_the_process(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    fy_str s = {0};
    for (int i = 0; i < DEPTH; i++)
        fy_str_putc(&s, '(');
    for (int i = 0; i < DEPTH; i++)
        fy_str_putc(&s, 't');
    fy_str_putc(&s, '.');
    fy_pickle k = {0};
    fy_err e = {0};
    size_t used;
    const fy_pickle_node *v = fy_pickle_read(&k, s.ptr, s.len, &used, &e);
    assert_non_null(v);
    int depth = 1;
    for (; v->items.n == 1; v = v->items.at[0])
        depth++;
    assert_int_equal(depth, DEPTH);
    fy_pickle_release(&k);
    fy_str_release(&s);
}

static void the_numbers_of_values_and_operations_are_limited(void **state)
{
    (void)state;
    static const struct {
        char op;
        size_t n;
        const char *words;
    } cases[] = {{'N', (4 << 20) + 1, "more than 4194304 values"},
                 {'(', (16 << 20) + 1, "more than 16777216 operations"}};
    for (size_t i = 0; i < 2; i++) {
        fy_pickle k = {0};
        fy_err e = {0};
        size_t used;
        char *bytes = malloc(cases[i].n);
        memset(bytes, cases[i].op, cases[i].n);
        assert_null(fy_pickle_read(&k, bytes, cases[i].n, &used, &e));
        assert_non_null(strstr(e.msg, cases[i].words));
        assert_int_equal(e.code, FY_EUNSUPPORTED);
        fy_pickle_release(&k);
        free(bytes);
    }
}

/* A memo index, however large, takes no more memory than the values before it did. */
static void memory_follows_the_bytes_that_are_there(void **state)
{
    (void)state;
    static const char *const bombs[] = {"Nr\xFF\xFF\xFF\x7F.",
                                        "N\x8b\xFF\xFF\xFF\x7F", "B\xFF\xFF\xFF\x7F"};
    for (size_t i = 0; i < 3; i++) {
        fy_pickle k = {0};
        fy_err e = {0};
        size_t used;
        assert_null(fy_pickle_read(&k, bombs[i], strlen(bombs[i]), &used, &e));
        assert_true(k.nodes.total <= 1 << 20);
        fy_pickle_release(&k);
    }
}

static void make_sample(fy_str *s)
{
    fy_str_puts(s, "\x80\x02}q"); /* (the memo index follows) */
    fy_str_putc(s, '\0');
    fy_str_putc(s, '(');
    for (int i = 0; i < 20; i++) {
        pk_int(s, i);
        pk_tensor(s, &(pk_tensor_args){.type = "FloatStorage", .key = "0", .elems = 6, .rank = 2,
                                       .n_strides = 2, .shape = {2, 3}, .stride = {3, 1}});
    }
    fy_str_puts(s, "u.");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    fy_str s = {0}, got = {0};
    make_sample(&s);
    for (size_t n = 0; n <= s.len; n++) {
        fy_err e = {0};
        size_t used;
        assert_int_equal(read_text(s.ptr, n, &got, &used, &e), n == s.len ? 0 : -1);
    }
    fy_str_release(&s);
    fy_str_release(&got);
}

static void a_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    fy_str s = {0};
    make_sample(&s);
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_pickle k = {0};
        fy_err e = {0};
        size_t used;
        alloc_fail_after(n);
        const fy_pickle_node *v = fy_pickle_read(&k, s.ptr, s.len, &used, &e);
        done = !alloc_fail_end();
        assert_int_equal(v != NULL, done);
        assert_int_equal(e.code, done ? FY_OK : FY_ENOMEM);
        assert_int_equal(k.n_ids, done ? 20 : k.n_ids);
        fy_pickle_release(&k);
    }
    fy_str_release(&s);
}

static void an_interrupt_ends_the_machine(void **state)
{
    (void)state;
    fy_pickle k = {0};
    fy_err e = {0};
    size_t used;
    fy_interrupted = 1;
    assert_null(fy_pickle_read(&k, "N.", 2, &used, &e));
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    assert_non_null(fy_pickle_read(&k, "N.", 2, &used, NULL));
    fy_pickle_release(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_protocol_are_read),
        cmocka_unit_test(globals_and_calls_are_inert),
        cmocka_unit_test(wrong_pickles_are_refused_in_words),
        cmocka_unit_test(several_pickles_are_read_one_after_the_other),
        cmocka_unit_test(deep_nesting_needs_no_stack_of_the_process),
        cmocka_unit_test(the_numbers_of_values_and_operations_are_limited),
        cmocka_unit_test(memory_follows_the_bytes_that_are_there),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failing_allocation_leaves_nothing_behind),
        cmocka_unit_test(an_interrupt_ends_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
