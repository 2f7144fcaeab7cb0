/* Rendering: what jinja2 3.1.6 prints in the environment of transformers, scopes and loops first.
 * The expected texts are jinja2's; the messages are ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/template/template.h"
#include "tests/unit/alloc_fail.h"

typedef struct {
    const char *text;
    const char *expected; /* NULL: an error */
    const char *error;    /* its message */
} render_case;

static const render_case loops[] = {
    {"{% for x in l %}{{ loop.nope }}|{{ loop }}{% endfor %}", "|<loop>|<loop>|<loop>", NULL},
    {"{% for a, b in [[1,2],[3,4]] if a > 1 %}{{ a }}{{ loop.length }}{{ loop.last }}{% endfor %}",
     "31True", NULL},
    {"{% set ns = namespace(k=0) %}{% for i in l if i > ns.k %}{{ i }}{% set ns.k = 2 %}{% endfor "
     "%}",
     "123", NULL}, /* the condition is asked before the first round */
    {"{% for i in l %}{{ a }}{% set a = i %}{{ a }}{% endfor %}{{ a }}", "5152535", NULL},
    {"{% for i in l %}{% if i == 2 %}{% set a = i %}{% endif %}{{ a }}{% endfor %}{{ a }}", "5255",
     NULL},
    {"{% for i in l %}{% endfor %}{{ i }}", "", NULL},
    {"{% for i in l %}{{ loop.index }}{% else %}{{ loop }}{% endfor %}{{ loop }}", "123", NULL},
    {"{% for i in e %}{{ loop.index }}{% else %}{{ loop }}E{% endfor %}", "E", NULL},
    {"{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
     "123112321233", NULL},
    {"{% for i in l %}{% for j in e %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}", "123",
     NULL},
    {"{% for i in l %}{% continue %}{% else %}E{% endfor %}", "E", NULL},
    {"{% for i in l %}{% break %}{% else %}E{% endfor %}", "E", NULL},
    {"{% for i in l %}{% if i==2 %}{% break %}{% endif %}x{% else %}E{% endfor %}", "x", NULL},
    {"{% for i in l %}{% if i==1 %}{% continue %}{% endif %}x{% else %}E{% endfor %}", "xx", NULL},
    {"{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ loop.previtem "
     "}}{{ loop.nextitem }}{% endfor %}",
     "1/2False32/2True2", NULL},
    {"{% for i in l if loop %}{{ i }}{% endfor %}", "", NULL},
    {"{% for i in l %}{% for j in l if loop.first %}{{ j }}{{loop.index}}{% endfor %}{% endfor %}",
     "112233", NULL},
    {"{% set ns = namespace(k=0) %}{% for i in l if i > ns.k %}{{ i }}{{ loop.last }}{% set ns.k = "
     "2 %}{% endfor %}",
     "1False2False3True", NULL},
    {"{% set ns = namespace(k=0) %}{% for i in l if i > ns.k %}{{ i }}{{ loop.length }}{% set ns.k "
     "= 2 %}{% endfor %}",
     "132333", NULL},
    {"{% for x in nest recursive %}{{ x.v }}{{ loop.depth }}{{ loop.depth0 }}{% if x.c %}({{ "
     "loop(x.c) }}){% endif %}{% endfor %}",
     "110(221321(432))510", NULL},
    {"{% for x in nest recursive %}{{ x.v }}({{ loop(x.c) }}){% else %}-{% endfor %}",
     "1(2(-)3(4(-)))5(-)", NULL},
    {"{% for x in nest recursive if x.v != 3 %}{{ x.v }}({{ loop(x.c) }}){{ loop.length }}{% else "
     "%}-{% endfor %}",
     NULL, "line 1, column 28: expected token 'end of statement block', got 'if'"},
    {"{% for x in l %}{{ loop(x) }}{% endfor %}", NULL,
     "line 1: The loop must have the 'recursive' marker to be called recursively."},
    {"{% for x in l %}{{ loop.cycle('a','b') }}{{ loop.changed(x // 2) }}{{ loop.revindex }}{{ "
     "loop.revindex0 }}{% endfor %}",
     "aTrue32bTrue21aFalse10", NULL},
    {"{% for x in l %}{{ loop.cycle() }}{% endfor %}", NULL, "line 1: no items for cycling given"},
    {"{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }}{% endfor %}{{ a }}", "12345", NULL},
    {"{% for a, b in [(1,2,3)] %}{{ a }}{{ b }}{% endfor %}", NULL,
     "line 1: too many values to unpack (expected 2)"},
    {"{% for a, b in [1] %}{{ a }}{{ b }}{% endfor %}", NULL,
     "line 1: cannot unpack non-iterable int object"},
    {"{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "xy", NULL},
    {"{% for a, (b, c) in [(1,(2,3))] if b %}{{ a }}{{ b }}{{ c }}{{ loop.previtem }}{% endfor %}",
     "123", NULL},
    {"{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}", "x1items2", NULL},
    {"{% for i in l %}{% generation %}{{ loop.index }}{{ i }}{% endgeneration %}{% endfor %}",
     "112233", NULL},
    {"{% for x in [1,2] %}{% set y = x %}{% for z in [3] %}{{ y }}{% set y = z %}{{ y }}{% endfor "
     "%}{{ y }}{% endfor %}",
     "131232", NULL},
    {"{% for x in [1,2] %}{{ y }}{% set y = x %}{% endfor %}", "", NULL},
    {"{% if t %}{% set q = 1 %}{% endif %}{% for x in [1] %}{{ q }}{% if x %}{% set q = 2 %}{% "
     "endif %}{{ q }}{% endfor %}{{ q }}",
     "121", NULL},
    {"{% for range in [1] %}{{ range }}{% endfor %}{{ range(2)|list }}", "1[0, 1]", NULL},
    {"{% set g = [1,2,3]|map('string') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x "
     "}}{% endfor %}{{ g|list }}",
     "123[]", NULL},
    {"{% for x in l|map('string') %}{{ loop.length }}{{ loop.last }}{% endfor %}",
     "3False3False3True", NULL},
    {"{% for x in s %}{{ x }}{{ loop.length }}{% endfor %}", "h5é5l5l5o5", NULL},
    {"{% for x in range(5) %}{{ x }}{{ loop.revindex }}{% endfor %}{{ range(10)[2:8:2] }}{{ "
     "range(10)[-1] }}",
     "0514233241[2, 4, 6]9", NULL},
    {"{% for x in namespace(a=1) %}{% endfor %}", NULL,
     "line 1: 'Namespace' object is not iterable"},
    {"{% for x in 5 %}{% endfor %}", NULL, "line 1: 'int' object is not iterable"},
    {"{% for x in n %}{% endfor %}", NULL, "line 1: 'NoneType' object is not iterable"},
    {"{% for x in nope %}{% else %}E{% endfor %}", "E", NULL},
    {"{% for i in l %}{% set a %}{{ a }}!{% endset %}{{ a }}{% endfor %}{{ a }}", "5!5!5!5", NULL},
    {"{% for i in l %}{% set b %}x{% if i == 2 %}{% break %}{% endif %}{% endset %}{{ b }}{% "
     "endfor %}",
     "x", NULL},
    {"{% for i in l %}{% filter upper %}x{% if i == 2 %}{% continue %}{% endif %}{% endfilter %}{% "
     "endfor %}",
     "XX", NULL},
    {"{{ loop }}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}", "1", NULL},
    {"{% set loop = 3 %}{{ loop }}{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop }}", "313",
     NULL},
    {"{% for x in l %}{% set outer = loop %}{% for y in [1,2] %}{{ outer.index }}{{ loop.index "
     "}}{% endfor %}{% endfor %}",
     "111221223132", NULL},
    {"{% for x in l recursive %}{{ x }}{% if x == 1 %}{{ loop([9]) }}{% endif %}{% endfor %}",
     "1923", NULL},
    {"{% for x in l recursive %}{{ loop(x) }}{% endfor %}", NULL,
     "line 1: 'int' object is not iterable"},
    {"{% for x in l recursive %}{{ loop() }}{% endfor %}", NULL,
     "line 1: loop() takes one argument: the items"},
    {"{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
     "FalseTrueTrueTrueTrueFalse", NULL},
    {"{% for x in l %}{{ loop.previtem + 1 }}{% endfor %}", NULL,
     "line 1: there is no previous item"},
    {"{% for x in [] recursive %}{% else %}{{ a }}{% set a = 1 %}{{ a }}{% endfor %}{{ a }}", "515",
     NULL},
    {"{% for x in l %}{{ loop.changed() }}{{ loop.changed(1,2) }}{% endfor %}",
     "TrueTrueTrueTrueTrueTrue", NULL},
    {"{% for x in l %}{{ x }}{% if loop.last %}{% set last = x %}{% endif %}{% endfor %}{{ last }}",
     "123", NULL},
    {"{% for i in range(3) if i != 1 %}{{ i }}{{ loop.nextitem }}{% endfor %}", "022", NULL},
    {"{% if true %}{% for i in l %}{% if i == 3 %}{% set found = i %}{% endif %}{% endfor %}{% "
     "endif %}{{ found is defined }}",
     "False", NULL},
    {"{% for x in l %}{{ caller is defined }}{% endfor %}", "FalseFalseFalse", NULL},
    {"{% for m in ms %}{{ m.role }}{{ m['content'] | trim }}{{ m.tool.n }}{% endfor %}", NULL,
     "line 1: 'dict object' has no attribute 'tool'"},
};

static const render_case macros_and_callers[] = {
    {"{% macro m(x) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,q=4) }}{{ m.name }}",
     "(2, 3){'q': 4}m", NULL},
    {"{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}hi{% endcall %}", "hi", NULL},
    {"{% macro m() %}{% macro n() %}{{ x }}{% endmacro %}{{ n() }}{% set x = 2 %}{{ n() }}"
     "{% endmacro %}{% set x = 1 %}{{ m() }}",
     "12", NULL},
    {"{% macro m() %}{{ a }}{{ z }}{% endmacro %}{{ m() }}{% set z = 3 %}{{ m() }}", "553", NULL},
    {"{% with a = 2 %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endwith %}{{ m }}", "2",
     NULL},
    {"{% macro m(x, y=2, z=x) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ m(1) }}{{ m(1, z=3) }}{{ m() "
     "}}{{ m(y=1, x=3) }}",
     "1211232313", NULL},
    {"{% macro m(x) %}{{ x }}{{ x is defined }}{% endmacro %}{{ m() }}{{ m(nope) }}", "FalseFalse",
     NULL},
    {"{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m() }}", NULL,
     "line 1: parameter 'x' was not provided"},
    {"{% macro m(x, y=x) %}{{ y + 1 }}{% endmacro %}{{ m() }}", NULL,
     "line 1: parameter 'x' was not provided"},
    {"{% macro m(b=a, a=1) %}{{ b }}{{ a }}{% endmacro %}{{ m() }}{{ m(a=3) }}", "133", NULL},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1,2) }}", NULL,
     "line 1: macro 'm' takes fewer positional arguments"},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1,y=2) }}", NULL,
     "line 1: macro 'm' takes no keyword argument y"},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1,x=2) }}", NULL,
     "line 1: macro 'm' takes no keyword argument x"},
    {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m }}{{ m.nope }}{{ [m] }}", "<macro>[<macro>]", NULL},
    {"{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}hi{{ a }}{% endcall %}", "hi5",
     NULL},
    {"{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(x, y=5) m() %}hi{{ x }}{{ y }}{% "
     "endcall %}",
     "hi12", NULL},
    {"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", NULL, "line 1: No caller defined"},
    {"{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}", "False", NULL},
    {"{% macro m() %}x{% endmacro %}{% call m() %}hi{% endcall %}", NULL,
     "line 1: macro 'm' takes no keyword argument caller"},
    {"{% macro m() %}{{ kwargs }}{% endmacro %}{% call m() %}hi{% endcall %}",
     "{'caller': <macro>}", NULL},
    {"{% macro m(caller=none) %}{{ caller }}{{ caller and caller() }}{% endmacro %}{{ m() }}{% "
     "call m() %}hi{% endcall %}",
     "NoneNone<macro>hi", NULL},
    {"{% call range(3) %}hi{% endcall %}", NULL, "line 1: range() takes no keyword arguments"},
    {"{% macro o() %}{% macro i() %}[{{ caller() }}]{% endmacro %}{% call i() %}in{{ caller() }}{% "
     "endcall %}{% endmacro %}{% call o() %}out{% endcall %}",
     NULL, "line 1: No caller defined"},
    {"{% macro o() %}{% call i() %}in{% endcall %}{{ caller() }}{% endmacro %}{% macro i() %}<{{ "
     "caller() }}>{% endmacro %}{% call o() %}out{% endcall %}",
     "<in>out", NULL},
    {"{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * fact(n-1)|int }}{% endif %}{% endmacro "
     "%}{{ fact(10) }}",
     "3628800", NULL},
    {"{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m }}", "123",
     NULL},
    {"{% set ns = namespace() %}{% for i in l %}{% macro m() %}{{ i }}{{ a }}{% endmacro %}{% if i "
     "== 1 %}{% set ns.m = m %}{% endif %}{{ ns.m() }}{% endfor %}",
     "152535", NULL},
    {"{% set caller = 1 %}{% macro m() %}{{ caller }}{% endmacro %}{{ m() }}", "", NULL},
    {"{% macro m() %}{% set caller = 3 %}{{ caller }}{% endmacro %}{{ m() }}", "3", NULL},
    {"{% macro m() %}{{ caller }}{% set caller = 3 %}{{ caller }}{% endmacro %}{{ m() }}", "3",
     NULL},
    {"{% macro m() %}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() "
     "%}y{% endcall %}",
     "y", NULL},
    {"{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(2) }}", "2", NULL},
    {"{% macro m(varargs=1) %}{{ varargs }}{% endmacro %}{{ m() }}{{ m(3) }}", "13", NULL},
    {"{% macro m() %}{% for x in [1] %}{{ q }}{% endfor %}{% set q = 3 %}{{ q }}{% endmacro %}{% "
     "set q = 8 %}{{ m() }}",
     "83", NULL},
    {"{% macro m() %}{{ q }}{% if t %}{% set q = 3 %}{% endif %}{{ q }}{% endmacro %}{% set q = 8 "
     "%}{{ m() }}",
     "83", NULL},
    {"{% if t %}{% macro m() %}M{% endmacro %}{% endif %}{{ m() }}", "M", NULL},
    {"{% if not t %}{% macro m() %}M{% endmacro %}{% endif %}{{ m }}{{ m() }}", NULL,
     "line 1: 'm' is undefined"},
    {"{% macro m() %}{{ loop.index }}{% endmacro %}{% for x in l %}{{ m() }}{% endfor %}", NULL,
     "line 1: 'loop' is undefined"},
    {"{% for x in l %}{% macro m() %}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}", "123",
     NULL},
    {"{% for x in l %}{% for y in [1] %}{% macro m() %}{{ loop.index }}{{ x }}{% endmacro %}{{ m() "
     "}}{% endfor %}{% endfor %}",
     "111213", NULL},
    {"{% set x = namespace(v=1) %}{% macro m() %}{% set x.v = x.v + 1 %}{% endmacro %}{{ m() }}{{ "
     "m() }}{{ x.v }}",
     "3", NULL},
    {"{% macro m(n) %}{{ n }}{{ m(n - 1) if n }}{% endmacro %}{{ m(20) }}",
     "20191817161514131211109876543210", NULL},
    {"{% macro outer() %}{% set v = 1 %}{% macro inner() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ "
     "inner() }}{% endmacro %}{{ outer() }}",
     "2", NULL},
    {"{% macro mk() %}{% endmacro %}{% set z = mk %}{{ z() }}{{ z.name }}", "mk", NULL},
    {"{% set m = 3 %}{% macro m() %}q{% endmacro %}{{ m() }}", "q", NULL},
    {"{% macro m() %}q{% endmacro %}{% set m = 3 %}{{ m }}", "3", NULL},
    {"{{ m() }}{% macro m() %}q{% endmacro %}", NULL, "line 1: 'm' is undefined"},
    {"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[7]) }}{{ m(**{'a': 8}) }}{{ m(*'x') }}", "78x",
     NULL},
    {"{% macro m() %}{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }}{% endfor %}{{ a "
     "}}{% endmacro %}{{ m() }}{{ a }}",
     "23415", NULL},
};

static const render_case blocks_and_names[] = {
    {"{% if false %}{% set a = 1 %}{% endif %}{{ a }}", "5", NULL},
    {"{% set x, y = 1, 2 %}{{ x }}{{ y }}{% set x, y = y, x %}{{ x }}{{ y }}", "1221", NULL},
    {"{% set x, y = 1 %}", NULL, "line 1: cannot unpack non-iterable int object"},
    {"{% set x, y = 'abc' %}", NULL, "line 1: too many values to unpack (expected 2)"},
    {"{% set ns = namespace(a=1) %}{% set ns.b, c = 2, 3 %}{{ ns.a }}{{ ns.b }}{{ c }}", "123",
     NULL},
    {"{% set d.x = 3 %}", NULL, "line 1: cannot assign attribute on non-namespace object"},
    {"{% set q.x = 3 %}", NULL, "line 1: cannot assign attribute on non-namespace object"},
    {"{% set ns %}abc{% endset %}{{ ns }}{% set up | upper %}abc{{ a }}{% endset %}{{ up }}",
     "abcABC5", NULL},
    {"{% set ns = namespace() %}{% set ns.t %}abc{% endset %}{{ ns.t }}", "abc", NULL},
    {"{% set x, y %}ab{% endset %}{{ x }}{{ y }}", "ab", NULL},
    {"{% filter upper %}ab{{ a }}{% set a = 3 %}{{ a }}{% endfilter %}{{ a }}", "AB535", NULL},
    {"{% filter length %}abc{% endfilter %}", NULL,
     "line 1: sequence item 0: expected str instance, int found"},
    {"{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{{ b }}", "155", NULL},
    {"{% with %}{% set a = 7 %}{{ a }}{% endwith %}{{ a }}", "75", NULL},
    {"{% generation %}{% set a = 9 %}{{ a }}{% endgeneration %}{{ a }}", "95", NULL},
    {"{% set range = 3 %}{{ range }}", "3", NULL},
    {"{% set g = l|select('odd') %}{{ 1 in g }}{{ g|list }}", "True[3]", NULL},
    {"{% set x = 'a' + 'b<' + ('c'|safe) + '<d' %}{{ x }}{{ x|length }}", "ab&lt;c&lt;d12", NULL},
    {"{% if t %}{{ 1 | nofilter }}{% endif %}", NULL, "line 1: no filter named 'nofilter'"},
    {"{% if not t %}{{ 1 | nofilter }}{% endif %}ok", "ok", NULL},
    {"{% if t %}{{ 1 is notest }}{% endif %}", NULL, "line 1: no test named 'notest'"},
    {"{% set a = a + 1 %}{{ a }}", "6", NULL},
    {"{% set zz = zz %}{{ zz }}{{ zz is defined }}", "False", NULL},
    {"{% for i in l %}{% with a=1 %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endwith %}{% "
     "endfor %}",
     "13", NULL},
    {"{% set q | default(y) %}{{ y }}{% endset %}{{ q }}", "", NULL},
};

static const render_case values[] = {
    {"{{ 1 / 3 }}", "0.3333333333333333", NULL},
    {"{{ varargs }}{{ kwargs }}{{ caller }}", "", NULL},
    {"{{ 1 in l }}{{ 'x' in d }}{{ 'é' in s }}{{ 7 not in l }}{{ 1 in nope }}{{ nope in l }}",
     "TrueTrueTrueTrueFalseFalse", NULL},
    {"{{ 1 in s }}", NULL, "line 1: 'in <string>' requires string as left operand, not int"},
    {"{{ nope in s }}", NULL,
     "line 1: 'in <string>' requires string as left operand, not Undefined"},
    {"{{ 1 in a }}", NULL, "line 1: argument of type 'int' is not iterable"},
    {"{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 == true }}{{ 'a' < 'b' }}{{ [1,2] < [1,3] }}{{ "
     "(1,) < (1,0) }}",
     "TrueFalseTrueTrueTrueTrue", NULL},
    {"{{ 1 < 'a' }}", NULL, "line 1: '<' not supported between instances of 'int' and 'str'"},
    {"{{ nope < 1 }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ nope == nope2 }}{{ nope == 1 }}{{ nope != nope2 }}", "TrueFalseFalse", NULL},
    {"{{ nope + 1 }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ 1 + nope }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ -nope }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ nope() }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ nope.x }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ nope[0] }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ nope[1:] }}", NULL, "line 1: 'nope' is undefined"},
    {"{{ d.nope }}{{ d.nope.x }}", NULL, "line 1: 'dict object' has no attribute 'nope'"},
    {"{{ d['nope'] }}{{ l[10] }}{{ l['x'] }}{{ l[1.0] }}{{ l[true] }}{{ s[-1] }}{{ s[1] }}{{ n[0] "
     "}}{{ n.x }}",
     "2oé", NULL},
    {"{{ n[1:] }}", NULL, "line 1: 'NoneType' object is not subscriptable"},
    {"{{ d[1:] }}", NULL, "line 1: unhashable type: 'slice'"},
    {"{{ d[[1]] }}{{ d[{}] }}", "", NULL},
    {"{{ {[1]: 2} }}", NULL, "line 1: unhashable type: 'list'"},
    {"{{ {1: 'a', 1.0: 'b', true: 'c'} }}{{ {none: 1}[none] }}{{ {nope: 1} "
     "}}",
     "{1: 'c'}1{Undefined: 1}", NULL},
    {"{{ s[::-1] }}{{ s[1:3] }}{{ s[-2:] }}{{ s[::2] }}{{ s[5:1:-2] }}{{ l[::-1] }}{{ l[:-1] }}{{ "
     "l[1:1] }}{{ (1,2,3)[::-2] }}",
     "olléhéllohlool[3, 2, 1][1, 2][](3, 1)", NULL},
    {"{{ s[::0] }}", NULL, "line 1: slice step cannot be zero"},
    {"{{ s['a':] }}", NULL,
     "line 1: slice indices must be integers or None or have an __index__ method"},
    {"{{ s[nope:] }}", NULL,
     "line 1: slice indices must be integers or None or have an __index__ method"},
    {"{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % -3 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 6 / 2 }}{{ 2 ** 10 }}{{ 2 ** "
     "-1 }}{{ 7.5 // 2 }}{{ -7.5 % 2 }}{{ 2 ** 0.5 }}{{ true + true }}",
     "3-4-223.53.010240.53.00.51.41421356237309512", NULL},
    {"{{ 1 / 0 }}", NULL, "line 1: division by zero"},
    {"{{ 1 % 0 }}", NULL, "line 1: integer division or modulo by zero"},
    {"{{ 1.0 // 0 }}", NULL, "line 1: float floor division by zero"},
    {"{{ 0 ** -1 }}", NULL, "line 1: 0.0 cannot be raised to a negative power"},
    {"{{ 'a' * 3 }}{{ 3 * 'ab' }}{{ 'a' * -1 }}{{ [1] * 2 }}{{ (1,) * 2 }}{{ true * 'x' }}{{ 2 * "
     "[] }}",
     "aaaababab[1, 1](1, 1)x[]", NULL},
    {"{{ 'a' + 1 }}", NULL, "line 1: can only concatenate str (not \"int\") to str"},
    {"{{ 1 + 'a' }}", NULL, "line 1: unsupported operand type(s) for +: 'int' and 'str'"},
    {"{{ [1] + (2,) }}", NULL, "line 1: can only concatenate list (not \"tuple\") to list"},
    {"{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' + 'b' }}", "[1, 2](1, 2)ab", NULL},
    {"{{ 'a' - 'b' }}", NULL, "line 1: unsupported operand type(s) for -: 'str' and 'str'"},
    {"{{ +true }}{{ -true }}{{ +1.5 }}{{ -(-3) }}{{ not 1 }}{{ not nope }}", "1-11.53FalseTrue",
     NULL},
    {"{{ -'a' }}", NULL, "line 1: bad operand type for unary -: 'str'"},
    {"{{ u|safe + u }}{{ u + u|safe }}{{ u|safe ~ u }}{{ (u|safe) * 2 }}{{ u|e + 'x<' + 3|string "
     "}}",
     "<b>&lt;b&gt;&lt;b&gt;<b><b><b><b><b>&lt;b&gt;x&lt;3", NULL},
    {"{{ '<' + u|safe + '<' ~ 1 }}{{ 'a' + 'b<' + ('c'|safe) + '<d' }}", "&lt;<b>&lt;1ab&lt;c&lt;d",
     NULL},
    {"{{ 'a' ~ 1 ~ none ~ 1.5 ~ nope ~ [1] }}", "a1None1.5[1]", NULL},
    {"{{ 1 if t }}{{ 1 if not t }}{{ (1 if not t) is defined }}", "1False", NULL},
    {"{{ (1 if not t).x }}", NULL,
     "line 1: the inline if-expression evaluated to false and no else section was defined."},
    {"{{ 1 and 2 }}{{ 0 or 'x' }}{{ nope or 3 }}{{ nope and nope.x }}", "2x3", NULL},
    {"{{ '%s-%d-%r' % ('a', 3, 'q') }}{{ '%s' % 5 }}{{ '%%' % () }}", "a-3-'q'5%", NULL},
    {"{{ l.append(3) }}", NULL, "line 1: access to attribute 'append' of 'list' object is unsafe."},
    {"{{ l.append }}{{ d.update }}{{ l.append is defined }}", "False", NULL},
    {"{{ d.get('x') }}{{ d.get('q', 3) }}{{ d.keys() }}{{ d.values()|list }}",
     "13dict_keys(['x', 'items'])[1, 2]", NULL},
    {"{{ d.__class__ }}{{ s.__len__ }}{{ ''.__class__.__mro__ }}", NULL,
     "line 1: 'str object' has no attribute '__class__'"},
    {"{{ d(1) }}", NULL, "line 1: 'dict' object is not callable"},
    {"{{ s() }}", NULL, "line 1: 'str' object is not callable"},
    {"{{ dict(a=1, **{'b': 2}) }}{{ dict(**d) }}", "{'a': 1, 'b': 2}{'x': 1, 'items': 2}", NULL},
    {"{{ range(*[1, 3])|list }}{{ range(1, *[3])|list }}", "[1, 2][1, 2]", NULL},
    {"{{ dict(a=1, **{'a': 2}) }}", NULL, "line 1: got multiple values for keyword argument 'a'"},
    {"{{ dict(**{1: 2}) }}", NULL, "line 1: keywords must be strings"},
    {"{{ dict(**l) }}", NULL, "line 1: argument after ** must be a mapping, not list"},
    {"{{ range(*5) }}", NULL, "line 1: 'int' object is not iterable"},
    {"{{ raise_exception('boom') }}", NULL, "boom"},
    {"{{ namespace(a=1).a }}{{ namespace(a=1).b }}{{ namespace({'q': 2}).q }}{{ "
     "namespace(a=1)['a'] }}",
     "121", NULL},
    {"{{ 9223372036854775807 + 0 }}{{ 9223372036854775807 == 9223372036854775807.0 }}{{ "
     "123456789012345678901234567890 }}",
     "9223372036854775807False123456789012345678901234567890", NULL},
    {"{{ 1e300 * 1e300 }}{{ 1e16 }}{{ 1.0 }}{{ 1e-5 }}{{ 123456789.125 }}",
     "inf1e+161.01e-05123456789.125", NULL},
    {"{{ 10.0 ** 400 }}", NULL, "line 1: (34, 'Numerical result out of range')"},
    {"{{ 'x' is defined and nope is not defined and nope is undefined }}", "True", NULL},
    {"{{ [1, 2, [3]] == [1, 2, [3]] }}{{ {'a': 1} == {'a': 1.0} }}{{ (1,) == [1] }}",
     "TrueTrueFalse", NULL},
    {"{{ 'a' in ['a', 1] }}{{ [1] in [[1]] }}{{ 1 in (1.0,) }}{{ 2 in range(0, 10, 2) }}{{ 2.0 in "
     "range(3) }}{{ 'x' in range(3) }}",
     "TrueTrueTrueTrueTrueFalse", NULL},
    {"{{ ('a', 'b')[0] }}{{ 'abc'[1] }}{{ d.x }}{{ d['x'] }}{{ s.upper() }}{{ s['upper']() }}",
     "ab11HÉLLOHÉLLO", NULL},
    {"{{ l is iterable }}{{ l | sum }}{{ [[1],[2]] | sum(start=[]) }}", "True6[1, 2]", NULL},
};

static const struct {
    const char *name, *json;
} variables[] = {
    {"a", "5"},
    {"l", "[1, 2, 3]"},
    {"s", "\"h\u00e9llo\""},
    {"d", "{\"x\": 1, \"items\": 2}"},
    {"n", "null"},
    {"e", "[]"},
    {"f", "1.5"},
    {"t", "true"},
    {"u", "\"<b>\""},
    {"nest",
     "[{\"v\": 1, \"c\": [{\"v\": 2, \"c\": []}, {\"v\": 3, \"c\": [{\"v\": 4, \"c\": []}]}]}, "
     "{\"v\": 5, \"c\": []}]"},
    {"ms", "[{\"role\": \"user\", \"content\": \" hi \"}, "
           "{\"role\": \"assistant\", \"content\": null, \"tool\": {\"n\": 1.0}}]"},
};

static fy_template_vars *all_variables(fy_err *e)
{
    fy_template_vars *v = fy_template_vars_new(e);
    for (size_t i = 0; v != NULL && i < sizeof variables / sizeof *variables; i++) {
        if (fy_template_set_json(v, variables[i].name, fy_span_of(variables[i].json), e) != 0) {
            fy_template_vars_free(v);
            return NULL;
        }
    }
    return v;
}

/* Behind "before" in *out. */
static int render(const char *text, const fy_template_vars *v, fy_str *out, fy_err *e)
{
    fy_template *t = fy_template_parse(fy_span_of(text), e);
    int rc = t == NULL ? -1 : fy_template_render(t, v, out, e);
    fy_template_free(t);
    return rc;
}

static void check_case(const render_case *c, const fy_template_vars *v)
{
    fy_err e = {0};
    fy_str out = {0};
    fy_str_puts(&out, "before");
    int rc = render(c->text, v, &out, &e);
    if (rc == 0 && c->expected == NULL)
        fail_msg("%s\n  renders: %s\n  expected an error", c->text, fy_str_z(&out));
    if (rc != 0 && c->expected != NULL)
        fail_msg("%s\n  fails: %s", c->text, e.msg);
    if (rc == 0 && strcmp(fy_str_z(&out) + 6, c->expected) != 0)
        fail_msg("%s\n  renders:  %s\n  expected: %s", c->text, fy_str_z(&out) + 6, c->expected);
    if (rc != 0 && strcmp(e.msg, c->error) != 0)
        fail_msg("%s\n  fails:    %s\n  expected: %s", c->text, e.msg, c->error);
    if (rc != 0)
        assert_string_equal(fy_str_z(&out), "before");
    fy_str_release(&out);
}

static void check_cases(const render_case *cases, size_t n)
{
    fy_err e = {0};
    fy_template_vars *v = all_variables(&e);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        check_case(&cases[i], v);
    fy_template_vars_free(v);
}

#define CHECK(table) check_cases(table, sizeof table / sizeof *table)

static void loops_have_their_object_and_their_scope(void **state)
{
    (void)state;
    CHECK(loops);
}

static void macros_bind_arguments_and_see_their_definition_scope(void **state)
{
    (void)state;
    CHECK(macros_and_callers);
}

static void names_belong_to_the_scope_that_sets_them(void **state)
{
    (void)state;
    CHECK(blocks_and_names);
}

static void expressions_are_those_of_python(void **state)
{
    (void)state;
    CHECK(values);
}

static fy_code code_of(const char *text, fy_err *e)
{
    fy_str out = {0};
    fy_template_vars *v = all_variables(e);
    assert_non_null(v);
    int rc = render(text, v, &out, e);
    fy_template_vars_free(v);
    fy_str_release(&out);
    return rc == 0 ? FY_OK : e->code;
}

static void errors_have_a_code_and_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fy_code code;
        const char *message;
    } cases[] = {
        {"a\n{{ raise_exception('no ' ~ 1) }}", FY_EARG, "no 1"},
        {"a\n\n{{ nope.x }}", FY_EFORMAT, "line 3: 'nope' is undefined"},
        {"{% macro m() %}\n{{ d.q.r }}{% endmacro %}\n{{ m() }}", FY_EFORMAT,
         "line 2: 'dict object' has no attribute 'q'"},
        {"{% for i in l %}\n{{ loop.previtem.x }}{% endfor %}", FY_EFORMAT,
         "line 2: there is no previous item"},
        {"{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", FY_EFIT,
         "line 1: more than 128 calls of macros and loops in each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = {0};
        assert_int_equal(code_of(cases[i].text, &e), cases[i].code);
        assert_string_equal(e.msg, cases[i].message);
    }
}

static void a_variable_can_be_set_again_and_of_every_kind(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str out = {0};
    fy_template_vars *v = fy_template_vars_new(&e);
    assert_non_null(v);
    assert_int_equal(fy_template_set_string(v, "a", FY_SPAN("<one>"), &e), 0);
    assert_int_equal(fy_template_set_json(v, "b", FY_SPAN("true"), &e), 0);
    assert_int_equal(fy_template_set_json(v, "c", FY_SPAN("null"), &e), 0);
    assert_int_equal(render("{{ a }}{{ b }}{{ c }}{{ range is string }}", v, &out, &e), 0);
    assert_string_equal(fy_str_z(&out), "<one>TrueNoneFalse");
    fy_str_clear(&out);
    assert_int_equal(fy_template_set_json(v, "a", FY_SPAN("[1.0, 1e3, 12345678901234567890]"), &e),
                     0);
    assert_int_equal(fy_template_set_string(v, "range", FY_SPAN("mine"), &e), 0);
    assert_int_equal(render("{{ a }}{{ range }}", v, &out, &e), 0);
    assert_string_equal(fy_str_z(&out), "[1.0, 1000.0, 12345678901234567890]mine");
    assert_int_equal(fy_template_set_json(v, "a", FY_SPAN("{\"x\": }"), &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(strstr(e.msg, "a: line 1, column 7"));
    fy_str_clear(&out);
    assert_int_equal(render("{{ a[1] }}", v, &out, &e), 0); /* the old value stays */
    assert_string_equal(fy_str_z(&out), "1000.0");
    fy_str_release(&out);
    fy_template_vars_free(v);
}

static void the_clock_is_the_callers_or_the_environments(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str out = {0};
    fy_template_vars *v = fy_template_vars_new(&e);
    assert_non_null(v);
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "0", 1), 0);
    assert_int_equal(render("{{ strftime_now('%Y-%m-%d') }}", v, &out, &e), 0);
    fy_template_set_clock(v, 1721995200, true);
    assert_int_equal(render(" {{ strftime_now('%d %b %Y, %H:%M') }}", v, &out, &e), 0);
    assert_string_equal(fy_str_z(&out), "1970-01-01 26 Jul 2024, 12:00");
    unsetenv("SOURCE_DATE_EPOCH");
    fy_str_release(&out);
    fy_template_vars_free(v);
}

/* Everything that allocates: lists, dicts, macros, loops, text. */
static const char busy[] = "{% macro m(x, y=[1]) %}{{ x }}{{ y }}{{ kwargs }}{% endmacro %}"
                           "{% for i in l recursive %}{{ loop.index }}{{ m(i, z={'a': i}) }}"
                           "{% endfor %}{% set q %}{{ s * 5000 }}{% endset %}{{ q | length }}";

static bool busy_renders(fy_err *e)
{
    fy_str out = {0};
    fy_template_vars *v = all_variables(e);
    int rc = v == NULL ? -1 : render(busy, v, &out, e);
    if (rc == 0)
        assert_string_equal(fy_str_z(&out),
                            "11[1]{'z': {'a': 1}}22[1]{'z': {'a': 2}}33[1]{'z': {'a': 3}}25000");
    fy_template_vars_free(v);
    fy_str_release(&out);
    return rc == 0;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        bool ok = busy_renders(&e);
        bool failed = alloc_fail_end();
        done = ok && !failed;
        if (!ok)
            assert_int_equal(e.code, FY_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_have_their_object_and_their_scope),
        cmocka_unit_test(macros_bind_arguments_and_see_their_definition_scope),
        cmocka_unit_test(names_belong_to_the_scope_that_sets_them),
        cmocka_unit_test(expressions_are_those_of_python),
        cmocka_unit_test(errors_have_a_code_and_a_line),
        cmocka_unit_test(a_variable_can_be_set_again_and_of_every_kind),
        cmocka_unit_test(the_clock_is_the_callers_or_the_environments),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
