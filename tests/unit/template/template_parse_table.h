/* What jinja2 3.1.6 makes of templates, in the environment of transformers: trees in the form of
 * template_dump.h, and messages with the line that jinja2 names. The columns are ours. */
#ifndef FY_TESTS_TEMPLATE_PARSE_TABLE_H
#define FY_TESTS_TEMPLATE_PARSE_TABLE_H

#include <stdint.h>

struct tree_case {
    const char *text, *tree;
};

struct error_case {
    const char *text;
    uint32_t line, column;
    const char *message;
};

/* Expressions and statements. */
static const struct tree_case forms[] = {
    {"{{ a.b[1]['c'].d.0.1 }}", "(print ([] ([] (. ([] ([] (. a b) 1) \"c\") d) 0) 1))"},
    {"{{ a[1:2] }}{{ a[:] }}{{ a[::-1] }}{{ a[1:] }}{{ a[:n:2] }}",
     "(print ([] a (slice 1 2 _))) (print ([] a (slice _ _ _))) (print ([] a (slice _ _ (neg 1)))) "
     "(print ([] a (slice 1 _ _))) (print ([] a (slice _ n 2)))"},
    {"{{ f() }}{{ f(1, a=2, *b, **c) }}{{ f(1,)(2)[3](4) }}{{ f(if=1, class=2) }}",
     "(print (call f)) (print (call f 1 a=2 *b **c)) (print (call ([] (call (call f 1) 2) 3) 4)) "
     "(print (call f if=1 class=2))"},
    {"{{ a | upper | default('x', true) | join(',') }}{{ (a, b) | list }}{{ a | join(d=',') }}",
     "(print (|join (|default (|upper a) \"x\" true) \",\")) (print (|list (tuple a b))) (print "
     "(|join a d=\",\"))"},
    {"{{ a is defined }}{{ a is not none }}{{ a is divisibleby 3 }}{{ a is divisibleby(3) }}{{ a "
     "is defined() is true }}",
     "(print (is defined a)) (print (not (is none a))) (print (is divisibleby a 3)) (print (is "
     "divisibleby a 3)) (print (is true (is defined a)))"},
    {"{{ a is in [1] }}{{ a is eq b.c[0] and d }}{{ a is string or b }}{{ a is sameas true }}",
     "(print (is in a (list 1))) (print (and (is eq a ([] (. b c) 0)) d)) (print (or (is string a) "
     "b)) (print (is sameas a true))"},
    {"{{ 1 + 2 * 3 - 4 }}{{ a + b ~ c }}{{ a ~ b ~ c + d }}{{ 7 // 2 % 3 / 4 }}",
     "(print (- (+ 1 (* 2 3)) 4)) (print (+ a (~ b c))) (print (+ (~ a b c) d)) (print (/ (% (// 7 "
     "2) 3) 4))"},
    {"{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}{{ -a | abs }}{{ - - a.b }}{{ 2 ** -b | abs }}{{ +a }}",
     "(print (** (** 2 3) 2)) (print (** (neg 2) 2)) (print (|abs (neg a))) (print (neg (neg (. a "
     "b)))) (print (** 2 (|abs (neg b)))) (print (pos a))"},
    {"{{ not a == b }}{{ not not a }}{{ a and not b or c and d }}{{ a not in b }}{{ not a in b }}",
     "(print (not (cmp a == b))) (print (not (not a))) (print (or (and a (not b)) (and c d))) "
     "(print (cmp a notin b)) (print (not (cmp a in b)))"},
    {"{{ 1 < a <= b != c }}{{ a in b in c }}{{ a == b and c }}",
     "(print (cmp 1 < a <= b != c)) (print (cmp a in b in c)) (print (and (cmp a == b) c))"},
    {"{{ a if b else c }}{{ a if b }}{{ a if b else c if d else e }}{{ a if b if c }}",
     "(print (cond a b c)) (print (cond a b _)) (print (cond a b (cond c d e))) (print (cond (cond "
     "a b _) c _))"},
    {"{{ [] }}{{ [1, 2,] }}{{ () }}{{ (1,) }}{{ (1) }}{{ 1, 2 }}{{ 1, }}{{ {} }}{{ {'a': 1, b: "
     "[2],} }}",
     "(print (list)) (print (list 1 2)) (print (tuple)) (print (tuple 1)) (print 1) (print (tuple "
     "1 2)) (print (tuple 1)) (print (dict)) (print (dict \"a\" 1 b (list 2)))"},
    {"{{ true }}{{ True }}{{ false }}{{ None }}{{ none }}{{ 'a' \"b\" 'c' }}",
     "(print true) (print true) (print false) (print none) (print none) (print \"abc\")"},
    {"{{ if }}{{ in.for }}{{ loop }}{{ not_a }}",
     "(print if) (print (. in for)) (print loop) (print not_a)"},
    {"{{ a.items() | map(attribute='x') | list }}",
     "(print (|list (|map (call (. a items)) attribute=\"x\")))"},
    {"{{ {'}}': '%}'} }}{{ '}}' }}", "(print (dict \"}}\" \"%}\")) (print \"}}\")"},
    {"{% if a %}x{% elif b %}y{% elif c %}z{% else %}w{% endif %}",
     "(if a [\"x\"] [(if b [\"y\"] [(if c [\"z\"] [\"w\"])])])"},
    {"{% if a: %}x{% else: %}y{% endif %}{% if a, b %}{% endif %}",
     "(if a [\"x\"] [\"y\"]) (if (tuple a b) [] [])"},
    {"{% for x in a %}{{ x }}{% else %}none{% endfor %}", "(for x a _ [(print x)] [\"none\"])"},
    {"{% for a, (b, c) in d if a recursive %}{{ loop(b) }}{% break %}{% continue %}{% endfor %}",
     "(for (tuple a (tuple b c)) d a recursive [(print (call loop b)) (break) (continue)] [])"},
    {"{% for (x,) in 1, 2 %}{% endfor %}", "(for (tuple x) (tuple 1 2) _ [] [])"},
    {"{% set a = 1 %}{% set a, b = 1, 2 %}{% set (a, b) = c %}{% set ns.x = 1 %}{% set ns.x, b = c "
     "%}",
     "(set a 1) (set (tuple a b) (tuple 1 2)) (set (tuple a b) c) (set (. ns x) 1) (set (tuple (. "
     "ns x) b) c)"},
    {"{% set a %}x{% endset %}{% set a | upper | join('x') %}x{% endset %}{% set ns.x %}{% endset "
     "%}",
     "(setblock a _ [\"x\"]) (setblock a (|join (|upper _) \"x\") [\"x\"]) (setblock (. ns x) _ "
     "[])"},
    {"{% macro m(a, b=1, c=a) %}{{ a }}{% endmacro %}{% macro n() %}{{ caller() }}{{ varargs }}{{ "
     "kwargs }}{% endmacro %}",
     "(macro m (a b=1 c=a) [(print a)]) (macro n () caller kwargs varargs [(print (call caller)) "
     "(print varargs) (print kwargs)])"},
    {"{% macro m(caller=none, kwargs=1) %}{{ caller() }}{{ kwargs }}{% endmacro %}",
     "(macro m (caller=none kwargs=1) caller [(print (call caller)) (print kwargs)])"},
    {"{% call m(1) %}x{% endcall %}{% call(a, b=2) m.n(1)(2) %}{{ a }}{{ varargs }}{% endcall %}",
     "(callblock (call m 1) () [\"x\"]) (callblock (call (call (. m n) 1) 2) (a b=2) varargs "
     "[(print a) (print varargs)])"},
    {"{% filter upper | replace('a', 'b') %}x{% endfilter %}",
     "(filterblock (|replace (|upper _) \"a\" \"b\") [\"x\"])"},
    {"{% with %}x{% endwith %}{% with a = 1, b = a %}{{ b }}{% endwith %}{% with a, b = c %}{% "
     "endwith %}",
     "(with [\"x\"]) (with a 1 b a [(print b)]) (with (tuple a b) c [])"},
    {"{% generation %}{{ a }}{% endgeneration %}", "(scope [(print a)])"},
    {"{% raw %}{{ x }}{% if %}{% endraw %}", "\"{{ x }}{% if %}\""},
    {"{# comment #}a{#- {{ x }} -#} b", "\"a\" \"b\""},
};

/* White space around tags, comments, raw blocks. */
static const struct tree_case spaces[] = {
    {"a  {{- x -}}  b", "\"a\" (print x) \"b\""},
    {"a \n\n {%- if x -%} \n\n b {%- endif -%} c", "\"a\" (if x [\"b\"] []) \"c\""},
    {"{% if x %}\nb\n{% endif %}\nc", "(if x [\"b\\n\"] []) \"c\""},
    {"{% if x +%}\nb{% endif %}", "(if x [\"\\nb\"] [])"},
    {"  {% if x %}b{% endif %}", "(if x [\"b\"] [])"},
    {"  {%+ if x %}b{% endif %}", "\"  \" (if x [\"b\"] [])"},
    {"a  {% if x %}b{% endif %}", "\"a  \" (if x [\"b\"] [])"},
    {"\n  {% if x %}\n    {% endif %}", "\"\\n\" (if x [] [])"},
    {"{{ x }}\n\ny", "(print x) \"\\n\\ny\""},
    {"  {{ x }}\n", "\"  \" (print x)"},
    {"a\n", "\"a\""},
    {"a\n\n", "\"a\\n\""},
    {"a\r\nb\rc\r\n", "\"a\\nb\\nc\""},
    {"", ""},
    {"\n", ""},
    {" {# c #} \n b", "\" \\n b\""},
    {"{# c #}\nb", "\"b\""},
    {"a\n\t {# c #}\nb", "\"a\\n\" \"b\""},
    {"{#- c -#}\n\n b", "\"b\""},
    {"{#+ c +#}\nb", "\"\\nb\""},
    {"a {#- c #} b", "\"a\" \" b\""},
    {"{#-#}\nb", "\"b\""},
    {"  {% raw %}\n {{ x }} \n  {% endraw %}\nb", "\"\\n {{ x }} \\n\" \"b\""},
    {"a {%- raw -%} \n b \n {%- endraw -%} \n c", "\"a\" \"b\" \"c\""},
    {"  {%+ raw %}x  {%+ endraw +%}\nb", "\"  \" \"x  \" \"\\nb\""},
    {"{% raw %}\n  {% endraw %}\n", "\"\\n\""},
    {"a\302\240\342\200\250{{- x -}}\343\200\200 b", "\"a\" (print x) \"b\""},
    {"\302\240{% if x %}\343\200\200{% endif %}", "(if x [\"\\xe3\\x80\\x80\"] [])"},
    {"{{ x -}}\n  {% if x %}b{% endif %}", "(print x) (if x [\"b\"] [])"},
    {"{{ x }}  {% if x %}b{% endif %}", "(print x) \"  \" (if x [\"b\"] [])"},
    {"{{ x }}\n  {% if x %}b{% endif %}", "(print x) \"\\n\" (if x [\"b\"] [])"},
    {"{{-1}}{{+1}}{{ -1 }}", "(print 1) (print 1) (print (neg 1))"},
    {"{{ {'a': {}}-}} b", "(print (dict \"a\" (dict))) \"b\""},
    {"{", "\"{\""},
    {"{ { %} }} #} {", "\"{ { %} }} #} {\""},
    {"{{ x }}{#", "(print x)"},
    {"a {{ 'b\r\nc' }}", "\"a \" (print \"b\\nc\")"},
    {"{%- set a = 1 -%}\n\n{%- set b = 2 %}\n\nx", "(set a 1) (set b 2) \"\\nx\""},
    {"x{%set a=1%}\n", "\"x\" (set a 1)"},
    {"  {#- a #}\n  {# b -#}\n  c", "\"c\""},
};

static const struct tree_case literals[] = {
    {"{{ 1 }}", "(print 1)"},
    {"{{ 0 }}", "(print 0)"},
    {"{{ 00 }}", "(print 0)"},
    {"{{ 1_000 }}", "(print 1000)"},
    {"{{ 0x1F }}", "(print 31)"},
    {"{{ 0XaB_c }}", "(print 2748)"},
    {"{{ 0b1_01 }}", "(print 5)"},
    {"{{ 0o17 }}", "(print 15)"},
    {"{{ 9223372036854775807 }}", "(print 9223372036854775807)"},
    {"{{ 9223372036854775808 }}", "(print big:9223372036854775808)"},
    {"{{ 123456789012345678901234567890_1 }}", "(print big:1234567890123456789012345678901)"},
    {"{{ 1.5 }}", "(print 1.5f)"},
    {"{{ 1e5 }}", "(print 100000f)"},
    {"{{ 1_0.5_0e+1_0 }}", "(print 105000000000f)"},
    {"{{ 1E-3 }}", "(print 0.001f)"},
    {"{{ 1.0 }}", "(print 1f)"},
    {"{{ 00.5 }}", "(print 0.5f)"},
    {"{{ 1e400 }}", "(print inff)"},
    {"{{ 5e-324 }}", "(print 4.9406564584124654e-324f)"},
    {"{{ 0.1 }}", "(print 0.10000000000000001f)"},
    {"{{ d.1.5 }}", "(print ([] ([] d 1) 5))"},
    {"{{ 1.real }}", "(print (. 1 real))"},
    {"{{ 'a' }}", "(print \"a\")"},
    {"{{ \"it's\" }}", "(print \"it's\")"},
    {"{{ 'it\\'s' }}", "(print \"it's\")"},
    {"{{ '\\n\\t\\\\\\a\\b\\f\\r\\v\\0' }}",
     "(print \"\\n\\x09\\x5c\\x07\\x08\\x0c\\x0d\\x0b\\x00\")"},
    {"{{ '\\x41\\u00e9\\U0001f600' }}", "(print \"A\\xc3\\xa9\\xf0\\x9f\\x98\\x80\")"},
    {"{{ '\\101\\7\\777' }}", "(print \"A\\x07\\xc7\\xbf\")"},
    {"{{ 'a\\\nb' }}", "(print \"ab\")"},
    {"{{ 'a\nb' }}", "(print \"a\\nb\")"},
    {"{{ '\303\251' }}", "(print \"\\xc3\\xa9\")"},
    {"{{ '' '' }}", "(print \"\")"},
    {"{{ '\\\"' }}", "(print \"\\x22\")"},
};

static const struct error_case errors[] = {
    {"{{ 1 | nosuch }}", 1, 8, "No filter named 'nosuch'."},
    {"{{ 1 is nosuch }}", 1, 6, "No test named 'nosuch'."},
    {"{% if t %}x", 1, 11,
     "Unexpected end of template. Jinja was looking for the following tags: 'elif' or 'else' or "
     "'endif'. The innermost block that needs to be closed is 'if'."},
    {"{{ 1 + }}", 1, 8, "unexpected 'end of print statement'"},
    {"{% frob %}", 1, 4, "Encountered unknown tag 'frob'."},
    {"a {# b", 1, 3, "Missing end of comment tag"},
    {"{{ 'abc }}", 1, 4, "unexpected char \"'\" at 3"},
    {"x{% endfor %}", 1, 5, "Encountered unknown tag 'endfor'."},
    {"\n\n{{ }}", 3, 4, "Expected an expression, got 'end of print statement'"},
    {"{{ a", 1, 4, "unexpected end of template, expected 'end of print statement'."},
    {"{{ a b }}", 1, 6, "expected token 'end of print statement', got 'b'"},
    {"{{ a }", 1, 6, "unexpected '}'"},
    {"{% %}", 1, 4, "tag name expected"},
    {"{% 'x' %}", 1, 4, "tag name expected"},
    {"{{ (1] }}", 1, 6, "unexpected ']', expected ')'"},
    {"{{ ) }}", 1, 4, "unexpected ')'"},
    {"{{ a ! b }}", 1, 6, "unexpected char '!' at 5"},
    {"{{ a\n  @ }}", 2, 3, "unexpected char '@' at 7"},
    {"{{ [1, 2 }}", 1, 10, "unexpected '}', expected ']'"},
    {"{{ [, ] }}", 1, 5, "unexpected ','"},
    {"{{ {1} }}", 1, 6, "expected token ':', got '}'"},
    {"{{ {1: } }}", 1, 8, "unexpected '}'"},
    {"{{ a. }}", 1, 7, "expected name or number"},
    {"{{ a.'b' }}", 1, 6, "expected name or number"},
    {"{{ a.1.5.x. }}", 1, 13, "expected name or number"},
    {"{{ 1__0 }}", 1, 5, "expected token 'end of print statement', got '__0'"},
    {"{{ 0b2 }}", 1, 5, "expected token 'end of print statement', got 'b2'"},
    {"{{ 1e }}", 1, 5, "expected token 'end of print statement', got 'e'"},
    {"{{ '\\x4' }}", 1, 4, "truncated \\xXX escape"},
    {"{{ '\\u12' }}", 1, 4, "truncated \\uXXXX escape"},
    {"{{ '\\U00110000' }}", 1, 4, "illegal Unicode character"},
    {"{{ f(a=1, 2) }}", 1, 5, "invalid syntax for function call expression"},
    {"{{ f(**a, *b) }}", 1, 5, "invalid syntax for function call expression"},
    {"{{ f(*a, b) }}", 1, 5, "invalid syntax for function call expression"},
    {"{{ f(*a, *b) }}", 1, 5, "invalid syntax for function call expression"},
    {"{{ f(a=1 }}", 1, 10, "unexpected '}', expected ')'"},
    {"{{ f(,) }}", 1, 6, "unexpected ','"},
    {"{{ a is defined is none }}", 1, 17, "You cannot chain multiple tests with is"},
    {"{{ a is }}", 1, 9, "expected token 'name', got 'end of print statement'"},
    {"{{ a is 1 }}", 1, 9, "expected token 'name', got 'integer'"},
    {"{{ a | }}", 1, 8, "expected token 'name', got 'end of print statement'"},
    {"{{ a | 1 }}", 1, 8, "expected token 'name', got 'integer'"},
    {"{{ a[1 2] }}", 1, 8, "expected token ']', got 'integer'"},
    {"{{ a[1, 2] }}", 1, 7, "expected token ']', got ','"},
    {"{{ not }}", 1, 8, "unexpected 'end of print statement'"},
    {"{{ a not b }}", 1, 6, "expected token 'end of print statement', got 'not'"},
    {"{{ a if }}", 1, 9, "unexpected 'end of print statement'"},
    {"{{ a if b else }}", 1, 16, "unexpected 'end of print statement'"},
    {"{{ a = 1 }}", 1, 6, "expected token 'end of print statement', got '='"},
    {"{{ a ; b }}", 1, 6, "expected token 'end of print statement', got ';'"},
    {"{% if %}{% endif %}", 1, 7, "Expected an expression, got 'end of statement block'"},
    {"{% if a %}{% endfor %}", 1, 14,
     "Encountered unknown tag 'endfor'. Jinja was looking for the following tags: 'elif' or 'else' "
     "or 'endif'. The innermost block that needs to be closed is 'if'."},
    {"{% if a %}{% else %}{% elif b %}{% endif %}", 1, 24,
     "Encountered unknown tag 'elif'. Jinja was looking for the following tags: 'endif'. The "
     "innermost block that needs to be closed is 'if'."},
    {"{% for x in a %}{% endif %}{% endfor %}", 1, 20,
     "Encountered unknown tag 'endif'. Jinja was looking for the following tags: 'endfor' or "
     "'else'. The innermost block that needs to be closed is 'for'."},
    {"{% if a %}{% for x in y %}{% endif %}{% endfor %}", 1, 30,
     "Encountered unknown tag 'endif'. Jinja was looking for the following tags: 'endfor' or "
     "'else'. "
     "The innermost block that needs to be closed is 'for'."},
    {"{% for x %}{% endfor %}", 1, 10, "expected token 'in', got 'end of statement block'"},
    {"{% for x in %}{% endfor %}", 1, 13, "Expected an expression, got 'end of statement block'"},
    {"{% for 1 in a %}{% endfor %}", 1, 8,
     "can't assign to this: expected a name, or several with commas between"},
    {"{% for x.y in a %}{% endfor %}", 1, 9, "expected token 'in', got '.'"},
    {"{% for loop in a %}{% endfor %}", 1, 8,
     "Can't assign to special loop variable in for-loop target"},
    {"{% for x in a if b else c %}{% endfor %}", 1, 20,
     "expected token 'end of statement block', got 'else'"},
    {"{% for x in a if b %}", 1, 20,
     "Unexpected end of template. Jinja was looking for the following tags: 'endfor' or 'else'. "
     "The innermost block that needs to be closed is 'for'."},
    {"{% break %}", 1, 4, "'break' outside loop"},
    {"{% for x in a %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", 1, 35,
     "'continue' not properly in loop"},
    {"{% for x in a %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", 1, 36,
     "'break' outside loop"},
    {"{% for x in a %}{% else %}{% break %}{% endfor %}", 1, 30, "'break' outside loop"},
    {"{% set %}", 1, 8, "Expected an expression, got 'end of statement block'"},
    {"{% set a = %}", 1, 12, "Expected an expression, got 'end of statement block'"},
    {"{% set true = 1 %}", 1, 8,
     "can't assign to this: expected a name, or several with commas between"},
    {"{% set a.b.c = 1 %}", 1, 11, "expected token 'end of statement block', got '.'"},
    {"{% set a[1] = 1 %}", 1, 9, "expected token 'end of statement block', got '['"},
    {"{% set 'a' = 1 %}", 1, 8,
     "can't assign to this: expected a name, or several with commas between"},
    {"{% set a", 1, 8, "unexpected end of template, expected 'end of statement block'."},
    {"{% set a %}x", 1, 12,
     "Unexpected end of template. Jinja was looking for the following tags: 'endset'. The "
     "innermost block that needs to be closed is 'set'."},
    {"{% set a = 1 %}{% endset %}", 1, 19, "Encountered unknown tag 'endset'."},
    {"{% macro %}{% endmacro %}", 1, 10, "expected token 'name', got 'end of statement block'"},
    {"{% macro m %}{% endmacro %}", 1, 12, "expected token '(', got 'end of statement block'"},
    {"{% macro true() %}{% endmacro %}", 1, 10, "can't assign to 'name'"},
    {"{% macro m(a=1, b) %}{% endmacro %}", 1, 18, "non-default argument follows default argument"},
    {"{% macro m(1) %}{% endmacro %}", 1, 12, "expected token 'name', got 'integer'"},
    {"{% macro m( %}", 1, 13, "expected token 'name', got '%'"},
    {"{% call m %}{% endcall %}", 1, 4, "expected call"},
    {"{% call(a=1, b) m() %}{% endcall %}", 1, 15, "non-default argument follows default argument"},
    {"{% filter %}{% endfilter %}", 1, 11, "expected token 'name', got 'end of statement block'"},
    {"{% filter nosuch %}{% endfilter %}", 1, 11, "No filter named 'nosuch'."},
    {"{% with a %}{% endwith %}", 1, 11, "expected token '=', got 'end of statement block'"},
    {"{% with 1 = a %}{% endwith %}", 1, 9,
     "can't assign to this: expected a name, or several with commas between"},
    {"{% with a = 1 b = 2 %}{% endwith %}", 1, 15, "expected token ',', got 'b'"},
    {"{% generation %}", 1, 15,
     "Unexpected end of template. Jinja was looking for the following tags: 'endgeneration'. The "
     "innermost block that needs to be closed is 'generation'."},
    {"{% do x %}", 1, 4, "Encountered unknown tag 'do'."},
    {"{% else %}", 1, 4, "Encountered unknown tag 'else'."},
    {"{% raw %}x", 1, 10, "Missing end of raw directive"},
    {"{% raw %}\nx{% endraw", 1, 10, "Missing end of raw directive"},
    {"{% endraw %}", 1, 4, "Encountered unknown tag 'endraw'."},
    {"{% if a %}{% frob %}{% endif %}", 1, 14,
     "Encountered unknown tag 'frob'. Jinja was looking for the following tags: 'elif' or 'else' "
     "or 'endif'. The innermost block that needs to be closed is 'if'."},
    {"{% set x | nosuch %}{% endset %}", 1, 12, "No filter named 'nosuch'."},
    {"{% macro m(a=1|nosuch) %}{% endmacro %}", 1, 16, "No filter named 'nosuch'."},
    {"{{ a }}\n{{ x | nosuch }}\n{% frob %}", 3, 4, "Encountered unknown tag 'frob'."},
    {"{% endif", 1, 4, "Encountered unknown tag 'endif'."},
    {"{%- if a -%}\n\n{{ a", 3, 4,
     "unexpected end of template, expected 'end of print statement'."},
};

/* Filters and tests that do not exist, where that is an error only when they are reached. */
static const char *const soft[] = {
    "{% if a %}{{ a | nosuch }}{% endif %}",
    "{{ a | nosuch if b else c }}",
    "{{ a if b is nosuch else c }}",
    "{% if a is nosuch %}{% elif a | nosuch %}{% endif %}",
    "{% if a %}{% for x in y | nosuch %}{% endfor %}{% endif %}",
    "{% if a %}{% for x in b %}{{ x | nosuch }}{% endfor %}{% endif %}",
    "{% if a %}{% set b %}{{ x is nosuch }}{% endset %}{% endif %}",
};

#endif
