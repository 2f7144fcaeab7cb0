/* Every test of `is`. Expectations: jinja2 3.1.6 in the environment of transformers, CPython 3.11.
 * NULL: an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/template/template_cases.h"

static void kinds_are_told_apart(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is defined) "
         "}}{% endfor %}",
         "1111111111111011"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is "
         "undefined) }}{% endfor %}",
         "0000000000000100"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is none) "
         "}}{% endfor %}",
         "1000000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is boolean) "
         "}}{% endfor %}",
         "0100000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is true) "
         "}}{% endfor %}",
         "0100000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is false) "
         "}}{% endfor %}",
         "0000000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is integer) "
         "}}{% endfor %}",
         "0010000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is float) "
         "}}{% endfor %}",
         "0001000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is number) "
         "}}{% endfor %}",
         "0111000000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is string) "
         "}}{% endfor %}",
         "0000110000000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is mapping) "
         "}}{% endfor %}",
         "0000000010000000"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is sequence) "
         "}}{% endfor %}",
         "0000111110100100"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is iterable) "
         "}}{% endfor %}",
         "0000111111100110"},
        {"{% for v in [none, true, 1, 1.5, \"a\", \"a\"|safe, [], (), {}, {}.keys(), range(2), "
         "namespace(), s.upper, x, l|map(\"string\"), joiner()] %}{{ \"%d\"|format(v is callable) "
         "}}{% endfor %}",
         "0000000000001101"},
        {"big is integer", "True"},
        {"big is number", "True"},
        {"1 is true", "False"},
        {"0 is false", "False"},
        {"x is sequence", "True"},
        {"loop is defined", "False"},
        {"1 is string(2)",
         NULL}, /* TypeError: test_string() takes 1 positional argument but 2 were given */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void numbers_are_tested(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"3 is odd", "True"},
        {"-3 is odd", "True"},
        {"4 is even", "True"},
        {"0 is even", "True"},
        {"3.0 is odd", "True"},
        {"2.5 is even", "False"},
        {"true is odd", "True"},
        {"\"a\" is odd",
         NULL}, /* TypeError: not all arguments converted during string formatting */
        {"\"%d\" is odd", "False"},
        {"none is even",
         NULL},             /* TypeError: unsupported operand type(s) for %: 'NoneType' and 'int' */
        {"x is odd", NULL}, /* UndefinedError: 'x' is undefined */
        {"42 is divisibleby(7)", "True"},
        {"42 is divisibleby 5", "False"},
        {"-6 is divisibleby(4)", "False"},
        {"6 is divisibleby(-3)", "True"},
        {"1.5 is divisibleby(0.5)", "True"},
        {"1 is divisibleby(0)", NULL}, /* ZeroDivisionError: integer modulo by zero */
        {"1 is divisibleby",
         NULL}, /* TypeError: test_divisibleby() missing 1 required positional argument:  */
        {"1 is divisibleby(num=1)", "True"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void text_is_tested(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\"abc\" is lower", "True"}, {"\"aBc\" is lower", "False"}, {"\"\" is lower", "False"},
        {"\"1\" is lower", "False"},  {"\"a1\" is lower", "True"},   {"\"ABC\" is upper", "True"},
        {"\"ǅ\" is upper", "False"},  {"\"ß\" is lower", "True"},    {"none is lower", "False"},
        {"5 is upper", "False"},      {"x is lower", "False"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void values_are_compared(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"1 is eq 1.0", "True"},
        {"1 is equalto true", "True"},
        {"\"a\" is eq(\"a\")", "True"},
        {"1 is ne 2", "True"},
        {"1 is lt 2", "True"},
        {"2 is lessthan 1", "False"},
        {"1 is le 1", "True"},
        {"2 is gt 1", "True"},
        {"1 is greaterthan 1", "False"},
        {"1 is ge 1", "True"},
        {"\"a\" is lt \"b\"", "True"},
        {"[1, 2] is lt [1, 3]", "True"},
        {"1 is lt \"a\"",
         NULL}, /* TypeError: '<' not supported between instances of 'int' and 'str' */
        {"none is lt none",
         NULL}, /* TypeError: '<' not supported between instances of 'NoneType' and 'None */
        {"x is lt 1", NULL}, /* UndefinedError: 'x' is undefined */
        {"x is eq x", "True"},
        {"(x ~ \"nan\")|float is ge 1", "False"},
        {"(x ~ \"nan\")|float is ne 1", "True"},
        {"1 is in [1, 2]", "True"},
        {"\"b\" is in \"abc\"", "True"},
        {"\"b\" is in d", "True"},
        {"4 is in(range(3))", "False"},
        {"1 is in 5", NULL},  /* TypeError: argument of type 'int' is not iterable */
        {"[] is in d", NULL}, /* TypeError: unhashable type: 'list' */
        {"1 is in(seq=[1])", "True"},
        {"none is sameas none", "True"},
        {"true is sameas 1", "False"},
        {"l is sameas l", "True"},
        {"[] is sameas []", "False"},
        {"x is sameas x", "False"},
        {"1 is eq", NULL},       /* TypeError: eq expected 2 arguments, got 1 */
        {"1 is eq(1, 2)", NULL}, /* TypeError: eq expected 2 arguments, got 3 */
        {"not 1 is eq 2", "True"},
        {"l|select(\"gt\", 1)|list", "[3, 2]"},
        {"ld|selectattr(\"x\", \"none\")|list", "[{'n': 'al', 'a': 1, 'x': None}]"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(numbers_are_tested),
        cmocka_unit_test(text_is_tested),
        cmocka_unit_test(values_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
