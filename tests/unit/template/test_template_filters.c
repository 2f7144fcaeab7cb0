/* Every filter. Expectations: jinja2 3.1.6 in the environment of transformers, CPython 3.11. NULL:
 * an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/template/template_cases.h"

static void sorting_ignores_case_unless_told(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"ls|sort", "['A', 'a', 'b', 'B', 'c']"},
        {"ls|sort(true)", "['c', 'b', 'B', 'A', 'a']"},
        {"ls|sort(case_sensitive=true)", "['A', 'B', 'a', 'b', 'c']"},
        {"ls|sort(reverse=true, case_sensitive=true)", "['c', 'b', 'a', 'B', 'A']"},
        {"ld|sort(attribute=\"n\")|map(attribute=\"n\")|list", "['Al', 'al', 'bob', 'bOB']"},
        {"ld|sort(attribute=\"k.v\")",
         NULL}, /* UndefinedError: 'dict object' has no attribute 'k' */
        {"ld[:2]|sort(attribute=\"k.v\", reverse=true)|map(attribute=\"a\")|list", "[1, 3]"},
        {"[none, none]|sort", "[None, None]"},
        {"[1, \"a\"]|sort",
         NULL}, /* TypeError: '<' not supported between instances of 'str' and 'int' */
        {"[none, 1]|sort",
         NULL}, /* TypeError: '<' not supported between instances of 'int' and 'NoneType' */
        {"d|sort", "['a', 'b', 'C']"},
        {"\"cab\"|sort", "['a', 'b', 'c']"},
        {"x|sort", "[]"},
        {"5|sort", NULL}, /* TypeError: 'int' object is not iterable */
        {"[[2, 1], [1, 9], [1, 2]]|sort", "[[1, 2], [1, 9], [2, 1]]"},
        {"[(2, \"a\"), (1, \"b\")]|sort(attribute=0)", "[(1, 'b'), (2, 'a')]"},
        {"[(2, \"a\"), (1, \"b\")]|sort(attribute=\"1\")", "[(2, 'a'), (1, 'b')]"},
        {"[true, 0.5, 0]|sort", "[0, 0.5, True]"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void dictsort_takes_keys_or_values(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"d|dictsort", "[('a', 2), ('b', 1), ('C', 3)]"},
        {"d|dictsort(true)", "[('C', 3), ('a', 2), ('b', 1)]"},
        {"d|dictsort(false, \"value\")", "[('b', 1), ('a', 2), ('C', 3)]"},
        {"d|dictsort(by=\"value\", reverse=true)", "[('C', 3), ('a', 2), ('b', 1)]"},
        {"d|dictsort(by=\"x\")",
         NULL}, /* FilterArgumentError: You can only sort by either "key" or "value" */
        {"l|dictsort", NULL}, /* AttributeError: 'list' object has no attribute 'items' */
        {"x|dictsort", NULL}, /* UndefinedError: 'x' is undefined */
        {"{1: 2, \"a\": 3}|dictsort",
         NULL}, /* TypeError: '<' not supported between instances of 'str' and 'int' */
        {"{none: 1}|dictsort", "[(None, 1)]"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void unique_min_and_max_compare_without_case(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"ls|unique|list", "['b', 'A', 'c']"},
        {"ls|unique(true)|list", "['b', 'A', 'c', 'a', 'B']"},
        {"ld|unique(attribute=\"n\")|map(attribute=\"a\")|list", "[3, 1]"},
        {"[1, true, 1.0, none, none]|unique|list", "[1, None]"},
        {"[[1]]|unique|list", NULL}, /* TypeError: unhashable type: 'list' */
        {"ls|min", "A"},
        {"ls|max", "c"},
        {"ls|min(case_sensitive=true)", "A"},
        {"ld|max(attribute=\"a\")", "{'n': 'bob', 'a': 3, 'k': {'v': 1}}"},
        {"[]|min", ""},
        {"x|max", ""},
        {"[1, \"a\"]|min",
         NULL}, /* TypeError: '<' not supported between instances of 'str' and 'int' */
        {"[none]|min", "None"},
        {"(1, 2).grouper", ""},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void sequences_are_cut_and_turned(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"l|batch(2)|list", "[[3, 1], [2]]"},
        {"l|batch(2, \"-\")|list", "[[3, 1], [2, '-']]"},
        {"l|slice(2)|list", "[[3, 1], [2]]"},
        {"l|slice(2, \"-\")|list", "[[3, 1], [2, '-']]"},
        {"l|slice(5)|list", "[[3], [1], [2], [], []]"},
        {"l|slice(0)|list", NULL}, /* ZeroDivisionError: integer division or modulo by zero */
        {"l|first", "3"},
        {"l|last", "2"},
        {"u|first", "S"},
        {"u|last", "😀"},
        {"[]|first", ""},
        {"x|last", ""},
        {"d|first", "b"},
        {"d|last", "C"},
        {"range(4)|last", "3"},
        {"(l|map(\"string\"))|last", NULL}, /* TypeError: 'generator' object is not reversible */
        {"5|first", NULL},                  /* TypeError: 'int' object is not iterable */
        {"none|last", NULL},                /* TypeError: 'NoneType' object is not reversible */
        {"l|reverse|list", "[2, 1, 3]"},
        {"u|reverse", "😀日ΣΑ eßartS"},
        {"(l|map(\"string\"))|reverse", "['2', '1', '3']"},
        {"d|reverse|list", "['C', 'a', 'b']"},
        {"none|reverse", NULL}, /* FilterArgumentError: argument must be iterable */
        {"d|items|list", "[('b', 1), ('a', 2), ('C', 3)]"},
        {"x|items|list", "[]"},
        {"l|items|list", NULL}, /* TypeError: Can only get item pairs from a mapping. */
        {"x|list", "[]"},
        {"none|list", NULL}, /* TypeError: 'NoneType' object is not iterable */
        {"\"añ\"|list", "['a', 'ñ']"},
        {"d.items()|list", "[('b', 1), ('a', 2), ('C', 3)]"},
        {"range(3)|list", "[0, 1, 2]"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void join_and_sum_take_attributes(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"l|join", "312"},
        {"l|join(\", \")", "3, 1, 2"},
        {"ls|join(1)", "b1A1c1a1B"},
        {"ld|join(\"+\", attribute=\"n\")", "bob+Al+bOB+al"},
        {"ld|join(\"+\", \"k.v\")", NULL}, /* UndefinedError: 'dict object' has no attribute 'k' */
        {"u|join(\"-\")", "S-t-r-a-ß-e- -Α-Σ-日-😀"},
        {"x|join(\"-\")", ""},
        {"none|join", NULL}, /* TypeError: 'NoneType' object is not iterable */
        {"[1, none, x, \"a\"]|join(\"|\")", "1|None||a"},
        {"l|join(x)", "312"},
        {"[\"<\"|safe, \"<\"]|join(\"&\")", "<&<"},
        {"l|sum", "6"},
        {"l|sum(start=10)", "16"},
        {"ld|sum(\"a\")", "7"},
        {"ld|sum(attribute=\"a\", start=0.5)", "7.5"},
        {"[]|sum", "0"},
        {"[\"a\"]|sum", NULL}, /* TypeError: unsupported operand type(s) for +: 'int' and 'str' */
        {"[\"a\"]|sum(start=\"\")",
         NULL}, /* TypeError: sum() can't sum strings [use ''.join(seq) instead] */
        {"[[1], [2]]|sum(start=[])", "[1, 2]"},
        {"[x]|sum", NULL}, /* UndefinedError: 'x' is undefined */
        {"[true, 1.5]|sum", "2.5"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void map_select_and_reject_look_up_by_name(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"ls|map(\"upper\")|list", "['B', 'A', 'C', 'A', 'B']"},
        {"l|map(\"string\")|join", "312"},
        {"ld|map(attribute=\"n\")|list", "['bob', 'Al', 'bOB', 'al']"},
        {"ld|map(attribute=\"k.v\", default=\"-\")|list", "[1, 2, '-', '-']"},
        {"ld|map(attribute=\"zz\")|list", "[Undefined, Undefined, Undefined, Undefined]"},
        {"ld|map(attribute=\"zz.y\")|list",
         NULL}, /* UndefinedError: 'dict object' has no attribute 'zz' */
        {"[[1, 2], [3]]|map(attribute=0)|list", "[1, 3]"},
        {"ls|map(\"replace\", \"a\", \"x\")|list", "['b', 'A', 'c', 'x', 'B']"},
        {"l|map|list", NULL},           /* FilterArgumentError: map requires a filter argument */
        {"l|map(\"nope\")|list", NULL}, /* TemplateRuntimeError: No filter named 'nope'. */
        {"l|map(attribute=\"a\", b=1)|list",
         NULL}, /* FilterArgumentError: Unexpected keyword argument 'b' */
        {"[]|map(\"nope\")|list", "[]"},
        {"none|map(\"upper\")|list", "[]"},
        {"x|map(\"upper\")|list", "[]"},
        {"5|map(\"upper\")|list", NULL}, /* TypeError: 'int' object is not iterable */
        {"[0, 1, \"\", \"a\", none]|select|list", "[1, 'a']"},
        {"[0, 1, \"\", \"a\", none]|reject|list", "[0, '', None]"},
        {"l|select(\"odd\")|list", "[3, 1]"},
        {"l|reject(\"gt\", 1)|list", "[1]"},
        {"l|select(\"nope\")|list", NULL}, /* TemplateRuntimeError: No test named 'nope'. */
        {"ld|selectattr(\"k\")|list|length", "2"},
        {"ld|selectattr(\"a\", \"eq\", 1)|map(attribute=\"n\")|list", "['Al', 'al']"},
        {"ld|rejectattr(\"x\", \"undefined\")|list|length", "1"},
        {"ld|rejectattr(\"a\", \"in\", [1, 2])|map(attribute=\"n\")|list", "['bob']"},
        {"l|selectattr|list", NULL}, /* FilterArgumentError: Missing parameter for attribute name */
        {"{% set g = l|map(\"string\") %}{{ g|list }}{{ g|list }}", "['3', '1', '2'][]"},
        {"{% set g = l|select %}{{ g|first }}{{ g|list }}", "3[1, 2]"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void default_and_length(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"x|default(\"a\")", "a"},
        {"x|d", ""},
        {"no|default(\"a\")", "None"},
        {"no|default(\"a\", true)", "a"},
        {"\"\"|default(\"a\", boolean=true)", "a"},
        {"0|d(\"z\", true)", "z"},
        {"s|length", "25"},
        {"u|length", "11"},
        {"d|count", "3"},
        {"x|length", "0"},
        {"5|length", NULL}, /* TypeError: object of type 'int' has no len() */
        {"(l|map(\"string\"))|length",
         NULL},                /* TypeError: object of type 'generator' has no len() */
        {"l|length(1)", NULL}, /* TypeError: len() takes exactly one argument (2 given) */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void numbers_are_read_and_rounded(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\"42\"|int", "42"},
        {"\" -1_000 \"|int", "-1000"},
        {"\"1__0\"|int", "0"},
        {"\"x\"|int", "0"},
        {"\"x\"|int(7)", "7"},
        {"\"0x1f\"|int(base=16)", "31"},
        {"\"0o17\"|int(base=8)", "15"},
        {"\"ff\"|int(base=16)", "255"},
        {"\"z\"|int(0, 36)", "35"},
        {"\"12\"|int(5, 1)", "12"},
        {"\"3.99\"|int", "3"},
        {"\"1e3\"|int", "1000"},
        {"\"inf\"|int(4)", "4"},
        {"3.99|int", "3"},
        {"-3.99|int", "-3"},
        {"(x ~ \"inf\")|float|int",
         NULL}, /* OverflowError: cannot convert float infinity to integer */
        {"(x ~ \"nan\")|float|int", "0"},
        {"true|int", "1"},
        {"none|int", "0"},
        {"[]|int", "0"},
        {"x|int", NULL}, /* UndefinedError: 'x' is undefined */
        {"\"²\"|int", "0"},
        {"\"010\"|int", "10"},
        {"\"1.5\"|float", "1.5"},
        {"\" 1_0.5e1 \"|float", "105.0"},
        {"\".5\"|float", "0.5"},
        {"\"5.\"|float", "5.0"},
        {"\".\"|float", "0.0"},
        {"\"1e\"|float", "0.0"},
        {"\"Infinity\"|float", "inf"},
        {"\"-nan\"|float", "nan"},
        {"\"0x10\"|float(9)", "9"},
        {"\"x\"|float(none)", "None"},
        {"none|float", "0.0"},
        {"x|float", NULL}, /* UndefinedError: 'x' is undefined */
        {"-5|abs", "5"},
        {"-0.0|abs", "0.0"},
        {"true|abs", "1"},
        {"\"a\"|abs", NULL}, /* TypeError: bad operand type for abs(): 'str' */
        {"2.5|round", "2.0"},
        {"3.5|round", "4.0"},
        {"-2.5|round", "-2.0"},
        {"2.675|round(2)", "2.67"},
        {"0.125|round(2)", "0.12"},
        {"1e300|round(5)", "1e+300"},
        {"12345.678|round(-2)", "12300.0"},
        {"150.0|round(-2)", "200.0"},
        {"250.0|round(-2)", "200.0"},
        {"4.0|round(-1)", "0.0"},
        {"6.0|round(-1)", "10.0"},
        {"12345|round(-2)", "12300"},
        {"12350|round(-2)", "12400"},
        {"12250|round(-2)", "12200"},
        {"-15|round(-1)", "-20"},
        {"-25|round(-1)", "-20"},
        {"5|round(-1)", "0"},
        {"42|round(3)", "42"},
        {"true|round", "1"},
        {"2.3|round(0, \"ceil\")", "3.0"},
        {"-2.3|round(0, \"ceil\")", "-2.0"},
        {"-0.5|round(0, \"ceil\")", "0.0"},
        {"2.55|round(1, \"floor\")", "2.5"},
        {"7|round(2, \"floor\")", "7.0"},
        {"2.5|round(0, \"up\")",
         NULL},                /* FilterArgumentError: method must be common, ceil or floor */
        {"\"2\"|round", NULL}, /* TypeError: type str doesn't define __round__ method */
        {"x|round", NULL},     /* TypeError: type Undefined doesn't define __round__ method */
        {"none|round", NULL},  /* TypeError: type NoneType doesn't define __round__ method */
        {"1.5|round(\"1\")",
         NULL}, /* TypeError: 'str' object cannot be interpreted as an integer */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void text_changes_case_by_full_mappings(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"u|upper", "STRASSE ΑΣ日😀"},
        {"u|lower", "straße ας日😀"},
        {"\"ŉ ﬁ ǆ ß\"|upper", "ʼN FI Ǆ SS"},
        {"\"İ\"|lower|length", "2"},
        {"\"ßa ǆb ﬁc\"|capitalize", "Ssa ǆb ﬁc"},
        {"s|title", "Hello, World! Foo-Bar Baz"},
        {"\"it's o-k (x) {y} [z] <w> ǆ ßs\"|title", "It's O-K (X) {Y} [Z] <W> Ǆ SSs"},
        {"none|upper", "NONE"},
        {"x|title", ""},
        {"true|lower", "true"},
        {"[\"a\"]|upper", "['A']"},
        {"(\"<b>\"|safe)|upper", "<B>"},
        {"\"x\"|upper(1)",
         NULL}, /* TypeError: do_upper() takes 1 positional argument but 2 were given */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void text_is_trimmed_cut_and_filled(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\" \\t\\x1c\\u00a0a b\\u2003\\n\"|trim", "a b"},
        {"\"xxaxx\"|trim(\"x\")", "a"},
        {"\"éaé\"|trim(\"é\")", "a"},
        {"\"xyaxy\"|trim(chars=\"yx\")", "a"},
        {"5|trim", "5"},
        {"x|trim", ""},
        {"s|trim(5)", NULL}, /* TypeError: strip arg must be None or str */
        {"s|trim(none)", "Hello, World! foo-bar baz"},
        {"s|replace(\"o\", \"0\")", "Hell0, W0rld! f00-bar baz"},
        {"s|replace(\"o\", \"0\", 1)", "Hell0, World! foo-bar baz"},
        {"5|replace(5, 6)", "6"},
        {"s|replace(\"o\")",
         NULL}, /* TypeError: do_replace() missing 1 required positional argument: 'new' */
        {"s|replace(\"o\", \"0\", count=none)", "Hell0, W0rld! f00-bar baz"},
        {"ml|indent", "a b\n      c\n\n    \td\n    e\n"},
        {"ml|indent(2, true)", "  a b\n    c\n\n  \td\n  e\n"},
        {"ml|indent(\"> \", blank=true)", "a b\n>   c\n> \n> \td\n> e\n> "},
        {"\"a\\r\"|indent", "a"},
        {"\"\"|indent(first=true)", "    "},
        {"\"a\"|indent(-1)", "a"},
        {"5|indent", NULL}, /* TypeError: unsupported operand type(s) for +=: 'int' and 'str' */
        {"x|indent", NULL}, /* UndefinedError: 'x' is undefined */
        {"s|indent(1.5)", NULL}, /* TypeError: can't multiply sequence by non-int of type 'float' */
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void html_is_escaped_once(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"html|e", "&lt;a href=&#34;x&#34;&gt;T &amp; &#39;q&#39;&lt;/a&gt; &lt;!-- c --&gt; "
                   "&amp;amp; &amp;#39;&amp;#x41;"},
        {"html|escape|escape", "&lt;a href=&#34;x&#34;&gt;T &amp; &#39;q&#39;&lt;/a&gt; &lt;!-- c "
                               "--&gt; &amp;amp; &amp;#39;&amp;#x41;"},
        {"html|forceescape", "&lt;a href=&#34;x&#34;&gt;T &amp; &#39;q&#39;&lt;/a&gt; &lt;!-- c "
                             "--&gt; &amp;amp; &amp;#39;&amp;#x41;"},
        {"(html|e)|forceescape", "&amp;lt;a href=&amp;#34;x&amp;#34;&amp;gt;T &amp;amp; "
                                 "&amp;#39;q&amp;#39;&amp;lt;/a&amp;gt; &amp;lt;!-- c --&amp;gt; "
                                 "&amp;amp;amp; &amp;amp;#39;&amp;amp;#x41;"},
        {"html|safe", "<a href=\"x\">T & 'q'</a> <!-- c --> &amp; &#39;&#x41;"},
        {"(\"<\"|safe) ~ \"<\"", "<<"},
        {"(\"<\"|safe) + \"<\"", "<&lt;"},
        {"\"<\" + (\"<\"|safe)", "&lt;<"},
        {"none|e", "None"},
        {"x|e", ""},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void format_filter_writes_as_percent_does(void **state)
{
    (void)state;
    static const template_case cases[] = {
        {"\"%d %d %d\"|format(1.9, true, -3)", "1 1 -3"},
        {"\"%5d|%-5d|%05d|%+d|% d\"|format(42, 42, 42, 42, 42)", "   42|42   |00042|+42| 42"},
        {"\"%.3d|%8.3d\"|format(5, -5)", "005|    -005"},
        {"\"%f %.2f %8.3f %-8.1f| %+.0f\"|format(f, f, f, f, f)",
         "3.141590 3.14    3.142 3.1     | +3"},
        {"\"%5s|%-5s|%.2s|%5.1s\"|format(\"abc\", \"abc\", \"abc\", \"日本\")",
         "  abc|abc  |ab|    日"},
        {"\"%%\"|format", "%"},
        {"\"%s\"|format", NULL},       /* TypeError: not enough arguments for format string */
        {"\"%s\"|format(1, 2)",
         NULL}, /* TypeError: not all arguments converted during string formatting */
        {"\"%s\"|format(1, a=2)",
         NULL}, /* FilterArgumentError: can't handle positional and keyword arguments at  */
        {"\"%d\"|format(\"1\")",
         NULL},                       /* TypeError: %d format: a real number is required, not str */
        {"\"%q\"|format(1)",
         NULL}, /* ValueError: unsupported format character 'q' (0x71) at index 1 */
        {"\"%\"|format(1)", NULL}, /* ValueError: incomplete format */
        {"\"%s|%r\"|format(\"é\", \"é\")", "é|'é'"},
        {"\"%s %s\" % (1, 2)", "1 2"},
        {"\"%s\" % l", "[3, 1, 2]"},
        {"\"x\" % {}", "x"},
        {"\"x\" % 1", NULL}, /* TypeError: not all arguments converted during string formatting */
        {"\"%05f|%5f|%-7f|\"|format((x ~ \"nan\")|float, (x ~ \"inf\")|float, (x ~ "
         "\"-inf\")|float)",
         "00nan|  inf|-inf   |"},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void what_is_left_out_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{{ 'a'|urlize }}", "line 1, column 8: filter 'urlize' is not supported"},
        {"{{ {}|xmlattr }}", "line 1, column 7: filter 'xmlattr' is not supported"},
        {"{{ 'a'|striptags }}", "line 1, column 8: filter 'striptags' is not supported"},
        {"{{ 'a'|wordwrap(3) }}", "line 1, column 8: filter 'wordwrap' is not supported"},
        {"{{ 1|filesizeformat }}", "line 1, column 6: filter 'filesizeformat' is not supported"},
        {"{{ l|groupby('a') }}", "line 1, column 6: filter 'groupby' is not supported"},
        {"{{ l|random }}", "line 1, column 6: filter 'random' is not supported"},
        {"{{ 'a' is filter }}", "line 1, column 8: test 'filter' is not supported"},
        {"{% if l %}{{ 'a'|urlize }}{% endif %}", "line 1: filter 'urlize' is not supported"},
        {"{{ ['a']|map('urlize')|list }}", "line 1: filter 'urlize' is not supported"},
        {"{{ cycler('a') }}", "line 1: the function 'cycler' is not supported"},
        {"{{ 'a'.zfill(3) }}", "line 1: the method 'zfill' is not supported"},
        {"{{ l.index(1) }}", "line 1: the method 'index' is not supported"},
        {"{{ s.index('o') }}", "line 1: the method 'index' is not supported"},
        {"{{ s.isalnum() }}", "line 1: the method 'isalnum' is not supported"},
        {"{{ s.isalpha() }}", "line 1: the method 'isalpha' is not supported"},
        {"{{ s.islower() }}", "line 1: the method 'islower' is not supported"},
        {"{{ s.isspace() }}", "line 1: the method 'isspace' is not supported"},
        {"{{ s.isupper() }}", "line 1: the method 'isupper' is not supported"},
        {"{{ s.rpartition('o') }}", "line 1: the method 'rpartition' is not supported"},
        {"{{ l.copy() }}", "line 1: the method 'copy' is not supported"},
        {"{{ '{:>5}'.format(1) }}",
         "line 1: format: the field '{:>5}' is not supported, only {}, {0} and {name} are"},
        {"{{ [{}]|sort(attribute='a,b') }}", "line 1: sort: several attributes are not supported"},
        {"{{ 'a'|replace('', 'b') }}", "line 1: replacing an empty text is not supported"},
        {"{{ dict([(1, 2)]) }}", "line 1: dict() of a 'list' is not supported"},
        {"{{ {(1, 2): 3} }}", "line 1: a tuple as a key of a dict is not supported"},
        {"{{ '%x' % 255 }}", "line 1: %x is not supported: only %s, %r, %d and %f are"},
        {"{{ '%(a)s' % {'a': 1} }}", "line 1: %( is not supported: only %s, %r, %d and %f are"},
        {"{{ '%s' | format(a=1) }}", "line 1: format: keyword arguments are not supported"},
        {"{{ 'a'.find('a', 1) }}", "line 1: find() takes 1 positional argument but 2 were given"},
        {"{{ '%*d' % (5, 1) }}", "line 1: %* is not supported: only %s, %r, %d and %f are"},
        {"{{ '10'|int(0, 0) }}", "line 1: int: base 0 is not supported"},
        {"{{ 1e20|int }}", "line 1: an integer of more than 64 bits is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = render_error(cases[i].text);
        if (strcmp(e.msg, cases[i].message) != 0)
            fail_msg("%s: %s", cases[i].text, e.msg);
    }
    assert_int_equal(render_code("{{ 'a'|urlize }}"), FY_EUNSUPPORTED);
}

static void sizes_are_checked_before_anything_is_made(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "{{ 'x\\ny'|indent(10**9) }}",
        "{{ [1]|batch(10**15, 'x')|list }}",
        "{{ [1]|slice(10**15)|list }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '%.1000000000f'|format(1.5) }}",
        "{{ [[1]]|tojson(indent=10**9) }}",
        "{{ range(100000)|join('x' * 10000) }}",
        "{{ ('ab' * 100000)|replace('a', 'x' * 100000) }}",
        "{{ ('ab' * 50)|map('indent', 1000000, true)|list }}",
        "{{ ('a' * 500000)|trim('b' * 100000 ~ 'a') }}",
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        if (render_code(hostile[i]) != FY_EFIT)
            fail_msg("%s is not stopped", hostile[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting_ignores_case_unless_told),
        cmocka_unit_test(dictsort_takes_keys_or_values),
        cmocka_unit_test(unique_min_and_max_compare_without_case),
        cmocka_unit_test(sequences_are_cut_and_turned),
        cmocka_unit_test(join_and_sum_take_attributes),
        cmocka_unit_test(map_select_and_reject_look_up_by_name),
        cmocka_unit_test(default_and_length),
        cmocka_unit_test(numbers_are_read_and_rounded),
        cmocka_unit_test(text_changes_case_by_full_mappings),
        cmocka_unit_test(text_is_trimmed_cut_and_filled),
        cmocka_unit_test(html_is_escaped_once),
        cmocka_unit_test(format_filter_writes_as_percent_does),
        cmocka_unit_test(what_is_left_out_is_refused_by_name),
        cmocka_unit_test(sizes_are_checked_before_anything_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
