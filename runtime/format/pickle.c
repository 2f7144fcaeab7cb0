/* The stack machine of pickles: a table of operations, each of which builds inert nodes. */
#include "format/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"

enum {
    MAX_OPS = 16 << 20,
    MAX_NODES = 4 << 20,
    MAX_TEXT = 16 << 20,
    MAX_LINE = 4096, /* of the text operations of protocol 0 */
    MAX_PROTOCOL = 5,
};

typedef fy_pickle_node node;

typedef struct operation operation;

typedef struct {
    fy_pickle *k;
    const uint8_t *p;
    size_t n, at;
    size_t op_at; /* where the operation that runs now begins */
    const operation *op;
    node **stack; /* owned */
    size_t n_stack, cap_stack;
    node **memo; /* owned; NULL: not set */
    size_t n_memo, cap_memo;
    uint32_t memo_used; /* entries that are set */
    fy_err *e;
} machine;

struct operation {
    int (*run)(machine *m);
    uint8_t a;
    fy_pickle_kind kind;
};

static node mark; /* on the stack where a MARK was; only its address counts */

static int bad(const machine *m, const char *what)
{
    return fy_fail(m->e, FY_EFORMAT, "pickle byte %zu: %s", m->op_at, what);
}

/* --- stack and memo --------------------------------------------------------------------------- */

static int push(machine *m, node *v)
{
    return fy_append(&m->stack, &m->n_stack, &m->cap_stack, &v, sizeof v, m->e);
}

/* The node `depth` below the top; NULL with the error recorded if there is none. */
static node *peek(machine *m, size_t depth)
{
    if (m->n_stack > depth && m->stack[m->n_stack - 1 - depth] != &mark)
        return m->stack[m->n_stack - 1 - depth];
    bad(m, "takes from an empty stack");
    return NULL;
}

static node *pop(machine *m)
{
    node *v = peek(m, 0);
    if (v != NULL)
        m->n_stack--;
    return v;
}

/* Pops what is above the topmost mark, and the mark: *items is valid until the next push. */
static int pop_to_mark(machine *m, node ***items, size_t *n)
{
    size_t at = m->n_stack;
    while (at > 0 && m->stack[at - 1] != &mark)
        at--;
    if (at == 0)
        return bad(m, "looks for a mark that is not there");
    *items = m->stack + at;
    *n = m->n_stack - at;
    m->n_stack = at - 1;
    return 0;
}

static node *new_node(machine *m, fy_pickle_kind kind)
{
    if (m->k->n_nodes == MAX_NODES) {
        fy_fail(m->e, FY_EUNSUPPORTED, "the pickle makes more than %d values", MAX_NODES);
        return NULL;
    }
    node *v = fy_arena_calloc(&m->k->nodes, 1, sizeof *v);
    if (v == NULL) {
        fy_nomem(m->e);
        return NULL;
    }
    m->k->n_nodes++;
    v->kind = kind;
    return v;
}

static int push_new(machine *m, fy_pickle_kind kind, node **out)
{
    node *v = new_node(m, kind);
    *out = v;
    return v == NULL ? -1 : push(m, v);
}

/* Appends items to a container. */
static int extend(machine *m, node *v, node **items, size_t n)
{
    size_t need = v->items.n + n;
    if (need > UINT32_MAX / 2)
        return bad(m, "makes too large a container");
    if (need > v->items.cap) {
        size_t cap = v->items.n == 0 ? need : 2 * need;
        node **at = fy_arena_alloc(&m->k->nodes, cap * sizeof(node *));
        if (at == NULL)
            return fy_nomem(m->e);
        if (v->items.n > 0)
            memcpy(at, v->items.at, v->items.n * sizeof(node *));
        v->items.at = at;
        v->items.cap = (uint32_t)cap;
    }
    if (n > 0)
        memcpy(v->items.at + v->items.n, items, n * sizeof(node *));
    v->items.n = (uint32_t)need;
    return 0;
}

/* Picklers number the memo from 0 on, so that an index is never above the number of values. */
static int memo_put(machine *m, uint64_t i)
{
    node *v = peek(m, 0);
    if (v == NULL)
        return -1;
    if (i > m->k->n_nodes)
        return bad(m, "sets a memo entry that is out of range");
    while (m->n_memo <= i) {
        static node *const unset = NULL;
        if (fy_append(&m->memo, &m->n_memo, &m->cap_memo, &unset, sizeof unset, m->e) != 0)
            return -1;
    }
    m->memo_used += m->memo[i] == NULL;
    m->memo[i] = v;
    return 0;
}

static int memo_get(machine *m, uint64_t i)
{
    if (i >= m->n_memo || m->memo[i] == NULL)
        return bad(m, "gets a memo entry that was never set");
    return push(m, m->memo[i]);
}

/* --- arguments in the stream ------------------------------------------------------------------ */

static int take(machine *m, uint64_t n, const uint8_t **out)
{
    if (n > m->n - m->at)
        return fy_fail(m->e, FY_EFORMAT, "pickle byte %zu: is cut off: the file is incomplete",
                       m->op_at);
    *out = m->p + m->at;
    m->at += (size_t)n;
    return 0;
}

static int take_uint(machine *m, unsigned bytes, uint64_t *out)
{
    const uint8_t *p = NULL;
    if (take(m, bytes, &p) != 0)
        return -1;
    *out = 0;
    for (unsigned i = 0; i < bytes; i++)
        *out |= (uint64_t)p[i] << (8 * i);
    return 0;
}

/* The rest of a line, without its newline. */
static int take_line(machine *m, fy_span *out)
{
    size_t left = m->n - m->at, most = left < MAX_LINE ? left : MAX_LINE;
    const char *p = (const char *)m->p + m->at;
    const char *end = most > 0 ? memchr(p, '\n', most) : NULL;
    if (end == NULL)
        return bad(m, "has a line without an end");
    *out = (fy_span){p, (size_t)(end - p)};
    m->at += out->len + 1;
    return 0;
}

static int64_t int_of(const uint8_t *p, size_t n) /* two's complement, n <= 8 */
{
    uint64_t v = n > 0 && p[n - 1] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = n; i-- > 0;)
        v = v << 8 | p[i];
    return (int64_t)v;
}

/* Decimal, as protocol 0 writes numbers. False: not one, or more than 63 bits. */
static bool parse_decimal(fy_span s, int64_t *out)
{
    bool minus = s.len > 0 && s.ptr[0] == '-';
    size_t i = minus ? 1 : 0;
    int64_t v = 0;
    if (i == s.len)
        return false;
    for (; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, s.ptr[i] - '0', &v))
            return false;
    }
    *out = minus ? -v : v;
    return true;
}

/* --- operations: scalars ---------------------------------------------------------------------- */

static int op_constant(machine *m)
{
    node *v;
    if (push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->i = m->op->a;
    return 0;
}

/* BININT (4 bytes) is signed, the shorter ones are not. */
static int op_int(machine *m)
{
    const unsigned bytes = m->op->a;
    uint64_t raw;
    node *v;
    if (take_uint(m, bytes, &raw) != 0 || push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->i = bytes == 4 ? (int32_t)(uint32_t)raw : (int64_t)raw;
    return 0;
}

static int op_long(machine *m)
{
    uint64_t n;
    const uint8_t *p = NULL;
    node *v;
    if (take_uint(m, m->op->a, &n) != 0 || take(m, n, &p) != 0 ||
        push_new(m, n <= 8 ? FY_PICKLE_INT : FY_PICKLE_BIG, &v) != 0)
        return -1;
    if (n <= 8)
        v->i = int_of(p, (size_t)n);
    else
        v->text = (fy_span){(const char *)p, (size_t)n};
    return 0;
}

/* INT ("7", and "00" and "01" for the truth values) and LONG ("7L"). */
static int op_int_line(machine *m)
{
    fy_span s;
    int64_t i = 0;
    node *v;
    if (take_line(m, &s) != 0)
        return -1;
    bool is_bool = fy_span_is(s, "00") || fy_span_is(s, "01");
    if (s.len > 0 && s.ptr[s.len - 1] == 'L')
        s.len--;
    if (!parse_decimal(s, &i))
        return bad(m, "is not a decimal number of at most 63 bits");
    if (push_new(m, is_bool ? FY_PICKLE_BOOL : m->op->kind, &v) != 0)
        return -1;
    v->i = i;
    return 0;
}

static int op_float(machine *m)
{
    const uint8_t *p = NULL;
    uint64_t raw = 0;
    node *v;
    if (take(m, 8, &p) != 0 || push_new(m, m->op->kind, &v) != 0)
        return -1;
    for (int i = 0; i < 8; i++)
        raw = raw << 8 | p[i];
    memcpy(&v->f, &raw, sizeof raw);
    return 0;
}

static int op_float_line(machine *m)
{
    fy_span s;
    char text[64], *end;
    node *v;
    if (take_line(m, &s) != 0)
        return -1;
    if (s.len == 0 || s.len >= sizeof text)
        return bad(m, "is not a number");
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    double f = strtod(text, &end);
    if (end != text + s.len)
        return bad(m, "is not a number");
    if (push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->f = f;
    return 0;
}

static int push_text(machine *m, fy_pickle_kind kind, fy_span s)
{
    node *v;
    if (kind == FY_PICKLE_TEXT && s.len > MAX_TEXT)
        return bad(m, "is a text of more than 16 MiB");
    if (push_new(m, kind, &v) != 0)
        return -1;
    v->text = s;
    return 0;
}

static int op_text(machine *m)
{
    uint64_t n;
    const uint8_t *p = NULL;
    if (take_uint(m, m->op->a, &n) != 0 || take(m, n, &p) != 0)
        return -1;
    return push_text(m, m->op->kind, (fy_span){(const char *)p, (size_t)n});
}

/* STRING (in quotes) and UNICODE. */
static int op_text_line(machine *m)
{
    fy_span s;
    if (take_line(m, &s) != 0)
        return -1;
    if (memchr(s.ptr, '\\', s.len) != NULL)
        return fy_fail(m->e, FY_EUNSUPPORTED,
                       "pickle byte %zu: has a text with escapes, as protocol 0 writes them; save "
                       "the checkpoint with a newer protocol",
                       m->op_at);
    if (m->op->a) {
        if (s.len < 2 || s.ptr[0] != s.ptr[s.len - 1] || (s.ptr[0] != '\'' && s.ptr[0] != '"'))
            return bad(m, "is a text without quotes");
        s = (fy_span){s.ptr + 1, s.len - 2};
    }
    return push_text(m, m->op->kind, s);
}

/* --- operations: containers ------------------------------------------------------------------- */

static int op_mark(machine *m)
{
    return push(m, &mark);
}

/* An empty container, or one of the items above the mark. */
static int op_make(machine *m)
{
    const fy_pickle_kind kind = m->op->kind;
    node **items = NULL, *v = new_node(m, kind);
    size_t n = 0;
    if (v == NULL || (m->op->a && pop_to_mark(m, &items, &n) != 0))
        return -1;
    if (kind == FY_PICKLE_DICT && n % 2 != 0)
        return bad(m, "makes a dict of a key without a value");
    if (kind != FY_PICKLE_SET && extend(m, v, items, n) != 0)
        return -1;
    return push(m, v);
}

static int op_tuple_of(machine *m)
{
    const unsigned n = m->op->a;
    node *v = new_node(m, m->op->kind);
    if (v == NULL || peek(m, n - 1) == NULL)
        return -1;
    for (unsigned i = 0; i < n; i++) {
        if (peek(m, i) == NULL)
            return -1;
    }
    if (extend(m, v, m->stack + m->n_stack - n, n) != 0)
        return -1;
    m->n_stack -= n;
    return push(m, v);
}

/* Puts n items into the container on top of the stack. The content of an object that is never made
 * is not kept. */
static int add_items(machine *m, node **items, size_t n, fy_pickle_kind kind)
{
    node *v = peek(m, 0);
    if (v == NULL)
        return -1;
    if (kind == FY_PICKLE_DICT && n % 2 != 0)
        return bad(m, "sets a key without a value");
    if (v->kind == FY_PICKLE_CALL || (v->kind == FY_PICKLE_SET && kind == FY_PICKLE_SET))
        return 0;
    if (v->kind != kind)
        return bad(m, "adds items to what cannot have them");
    return extend(m, v, items, n);
}

/* SETITEM and APPEND: a is the number of items on the stack; 0: those above the mark. */
static int op_add(machine *m)
{
    const unsigned a = m->op->a;
    const fy_pickle_kind kind = m->op->kind;
    node **items, *some[2];
    size_t n = a;
    if (a == 0) {
        if (pop_to_mark(m, &items, &n) != 0)
            return -1;
        return add_items(m, items, n, kind);
    }
    for (size_t i = n; i-- > 0;) {
        some[i] = pop(m);
        if (some[i] == NULL)
            return -1;
    }
    return add_items(m, some, n, kind);
}

/* --- operations: globals and objects ---------------------------------------------------------- */

bool fy_pickle_is_global(const fy_pickle_node *v, const char *module, const char *name)
{
    return v->kind == FY_PICKLE_GLOBAL && fy_span_is(v->global.module, module) &&
           fy_span_is(v->global.name, name);
}

static int op_global(machine *m)
{
    fy_span module, name;
    node *v;
    if (take_line(m, &module) != 0 || take_line(m, &name) != 0 || push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->global.module = module;
    v->global.name = name;
    return 0;
}

static int op_stack_global(machine *m)
{
    const node *name = pop(m), *module = name != NULL ? pop(m) : NULL;
    node *v;
    if (module == NULL)
        return -1;
    if (name->kind != FY_PICKLE_TEXT || module->kind != FY_PICKLE_TEXT)
        return bad(m, "names a global by something else than texts");
    if (push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->global.module = module->text;
    v->global.name = name->text;
    return 0;
}

/* OrderedDict() and OrderedDict([(key, value), ...]), as Python 2 wrote it. */
static int fill_ordered_dict(machine *m, node *dict, const node *args)
{
    if (args->kind != FY_PICKLE_TUPLE || args->items.n == 0)
        return 0;
    const node *pairs = args->items.at[0];
    if (pairs->kind != FY_PICKLE_LIST && pairs->kind != FY_PICKLE_TUPLE)
        return bad(m, "makes an OrderedDict of something else than pairs");
    for (uint32_t i = 0; i < pairs->items.n; i++) {
        const node *pair = pairs->items.at[i];
        if ((pair->kind != FY_PICKLE_LIST && pair->kind != FY_PICKLE_TUPLE) || pair->items.n != 2)
            return bad(m, "makes an OrderedDict of something else than pairs");
        if (extend(m, dict, pair->items.at, 2) != 0)
            return -1;
    }
    return 0;
}

static int push_call(machine *m, const node *callee, const node *args)
{
    node *v;
    if (fy_pickle_is_global(callee, "collections", "OrderedDict"))
        return push_new(m, FY_PICKLE_DICT, &v) != 0 ? -1 : fill_ordered_dict(m, v, args);
    if (fy_pickle_is_global(callee, "collections", "defaultdict")) /* its argument is a function */
        return push_new(m, FY_PICKLE_DICT, &v);
    if (push_new(m, FY_PICKLE_CALL, &v) != 0)
        return -1;
    v->call.callee = callee;
    v->call.args = args;
    return 0;
}

/* REDUCE and NEWOBJ: callee and arguments; NEWOBJ_EX (a = 1): keyword arguments, too. */
static int op_call(machine *m)
{
    if (m->op->a == 1 && pop(m) == NULL)
        return -1;
    const node *args = pop(m), *callee = args != NULL ? pop(m) : NULL;
    return callee == NULL ? -1 : push_call(m, callee, args);
}

/* INST names the class in the stream, OBJ (a = 1) has it as the first item above the mark. */
static int op_instance(machine *m)
{
    const unsigned a = m->op->a;
    node **items, *callee = new_node(m, FY_PICKLE_GLOBAL), *args = new_node(m, m->op->kind);
    size_t n;
    if (callee == NULL || args == NULL)
        return -1;
    if (a == 0 &&
        (take_line(m, &callee->global.module) != 0 || take_line(m, &callee->global.name) != 0))
        return -1;
    if (pop_to_mark(m, &items, &n) != 0)
        return -1;
    if (a == 1 && n == 0)
        return bad(m, "makes an object of no class");
    if (a == 1)
        callee = items[0];
    if (extend(m, args, items + a, n - a) != 0)
        return -1;
    return push_call(m, callee, args);
}

/* The state of a dict (the versions of its modules) is not part of its items. */
static int op_build(machine *m)
{
    const node *state = pop(m);
    node *v = state != NULL ? peek(m, 0) : NULL;
    if (v == NULL)
        return -1;
    if (v->kind == FY_PICKLE_CALL)
        v->call.state = state;
    return 0;
}

static int op_id(machine *m)
{
    const node *id = pop(m);
    node *v;
    if (id == NULL || push_new(m, m->op->kind, &v) != 0)
        return -1;
    v->id = id;
    return fy_append(&m->k->ids, &m->k->n_ids, &m->k->cap_ids, &v, sizeof v, m->e);
}

/* --- operations: stack, memo, framing --------------------------------------------------------- */

static int op_pop(machine *m)
{
    if (m->n_stack == 0)
        return bad(m, "takes from an empty stack");
    m->n_stack--;
    return 0;
}

static int op_pop_mark(machine *m)
{
    node **items;
    size_t n;
    return pop_to_mark(m, &items, &n);
}

static int op_dup(machine *m)
{
    node *v = peek(m, 0);
    return v == NULL ? -1 : push(m, v);
}

static int take_index(machine *m, unsigned width, uint64_t *out)
{
    fy_span s;
    int64_t i;
    if (width > 0)
        return take_uint(m, width, out);
    if (take_line(m, &s) != 0)
        return -1;
    if (!parse_decimal(s, &i) || i < 0)
        return bad(m, "is not a memo index");
    *out = (uint64_t)i;
    return 0;
}

static int op_put(machine *m)
{
    uint64_t i;
    return take_index(m, m->op->a, &i) != 0 ? -1 : memo_put(m, i);
}

static int op_get(machine *m)
{
    uint64_t i;
    return take_index(m, m->op->a, &i) != 0 ? -1 : memo_get(m, i);
}

static int op_memoize(machine *m)
{
    return memo_put(m, m->memo_used);
}

static int op_proto(machine *m)
{
    uint64_t v;
    if (take_uint(m, m->op->a, &v) != 0)
        return -1;
    if (v > MAX_PROTOCOL)
        return fy_fail(m->e, FY_EUNSUPPORTED, "pickle protocol %" PRIu64 ", expected at most %d", v,
                       MAX_PROTOCOL);
    return 0;
}

/* A frame gives how much to read at once, which is of no use here. */
static int op_frame(machine *m)
{
    uint64_t n;
    if (take_uint(m, m->op->a, &n) != 0)
        return -1;
    return n > m->n - m->at ? bad(m, "begins a frame that is cut off: the file is incomplete") : 0;
}

/* clang-format off */
static const operation operations[256] = {
    ['('] = {op_mark, 0, FY_PICKLE_NONE},        ['0'] = {op_pop, 0, FY_PICKLE_NONE},
    ['1'] = {op_pop_mark, 0, FY_PICKLE_NONE},    ['2'] = {op_dup, 0, FY_PICKLE_NONE},
    ['N'] = {op_constant, 0, FY_PICKLE_NONE},    [0x88] = {op_constant, 1, FY_PICKLE_BOOL},
    [0x89] = {op_constant, 0, FY_PICKLE_BOOL},   ['I'] = {op_int_line, 0, FY_PICKLE_INT},
    ['L'] = {op_int_line, 0, FY_PICKLE_INT},     ['J'] = {op_int, 4, FY_PICKLE_INT},
    ['K'] = {op_int, 1, FY_PICKLE_INT},          ['M'] = {op_int, 2, FY_PICKLE_INT},
    [0x8a] = {op_long, 1, FY_PICKLE_INT},        [0x8b] = {op_long, 4, FY_PICKLE_INT},
    ['F'] = {op_float_line, 0, FY_PICKLE_FLOAT}, ['G'] = {op_float, 0, FY_PICKLE_FLOAT},
    ['S'] = {op_text_line, 1, FY_PICKLE_TEXT},   ['V'] = {op_text_line, 0, FY_PICKLE_TEXT},
    ['T'] = {op_text, 4, FY_PICKLE_TEXT},        ['U'] = {op_text, 1, FY_PICKLE_TEXT},
    ['X'] = {op_text, 4, FY_PICKLE_TEXT},        [0x8c] = {op_text, 1, FY_PICKLE_TEXT},
    [0x8d] = {op_text, 8, FY_PICKLE_TEXT},       ['B'] = {op_text, 4, FY_PICKLE_BYTES},
    ['C'] = {op_text, 1, FY_PICKLE_BYTES},       [0x8e] = {op_text, 8, FY_PICKLE_BYTES},
    [0x96] = {op_text, 8, FY_PICKLE_BYTES},      [')'] = {op_make, 0, FY_PICKLE_TUPLE},
    ['t'] = {op_make, 1, FY_PICKLE_TUPLE},       [0x85] = {op_tuple_of, 1, FY_PICKLE_TUPLE},
    [0x86] = {op_tuple_of, 2, FY_PICKLE_TUPLE},  [0x87] = {op_tuple_of, 3, FY_PICKLE_TUPLE},
    [']'] = {op_make, 0, FY_PICKLE_LIST},        ['l'] = {op_make, 1, FY_PICKLE_LIST},
    ['}'] = {op_make, 0, FY_PICKLE_DICT},        ['d'] = {op_make, 1, FY_PICKLE_DICT},
    [0x8f] = {op_make, 0, FY_PICKLE_SET},        [0x91] = {op_make, 1, FY_PICKLE_SET},
    [0x90] = {op_add, 0, FY_PICKLE_SET},         ['a'] = {op_add, 1, FY_PICKLE_LIST},
    ['e'] = {op_add, 0, FY_PICKLE_LIST},         ['s'] = {op_add, 2, FY_PICKLE_DICT},
    ['u'] = {op_add, 0, FY_PICKLE_DICT},         ['c'] = {op_global, 0, FY_PICKLE_GLOBAL},
    [0x93] = {op_stack_global, 0, FY_PICKLE_GLOBAL},
    ['i'] = {op_instance, 0, FY_PICKLE_TUPLE},   ['o'] = {op_instance, 1, FY_PICKLE_TUPLE},
    ['R'] = {op_call, 0, FY_PICKLE_CALL},        [0x81] = {op_call, 0, FY_PICKLE_CALL},
    [0x92] = {op_call, 1, FY_PICKLE_CALL},       ['b'] = {op_build, 0, FY_PICKLE_NONE},
    ['Q'] = {op_id, 0, FY_PICKLE_ID},            ['p'] = {op_put, 0, FY_PICKLE_NONE},
    ['q'] = {op_put, 1, FY_PICKLE_NONE},         ['r'] = {op_put, 4, FY_PICKLE_NONE},
    ['g'] = {op_get, 0, FY_PICKLE_NONE},         ['h'] = {op_get, 1, FY_PICKLE_NONE},
    ['j'] = {op_get, 4, FY_PICKLE_NONE},         [0x94] = {op_memoize, 0, FY_PICKLE_NONE},
    [0x80] = {op_proto, 1, FY_PICKLE_NONE},      [0x95] = {op_frame, 8, FY_PICKLE_NONE},
};
/* clang-format on */

/* --- the machine ------------------------------------------------------------------------------ */

static node *run(machine *m)
{
    for (; m->k->n_ops < MAX_OPS; m->k->n_ops++) {
        const uint8_t *byte = NULL;
        m->op_at = m->at;
        if (fy_check_interrupt(m->e) != 0 || take(m, 1, &byte) != 0)
            return NULL;
        if (*byte == '.')
            return pop(m);
        m->op = &operations[*byte];
        if (m->op->run == NULL) {
            fy_fail(m->e, FY_EUNSUPPORTED,
                    "pickle byte %zu: operation 0x%02x is not one that data needs", m->op_at,
                    *byte);
            return NULL;
        }
        if (m->op->run(m) != 0)
            return NULL;
    }
    fy_fail(m->e, FY_EUNSUPPORTED, "the pickle has more than %d operations", MAX_OPS);
    return NULL;
}

const fy_pickle_node *fy_pickle_read(fy_pickle *k, const void *p, size_t n, size_t *used, fy_err *e)
{
    machine m = {.k = k, .p = p, .n = n, .e = e};
    const node *root = run(&m);
    *used = m.at;
    free(m.stack);
    free(m.memo);
    return root;
}

void fy_pickle_release(fy_pickle *k)
{
    fy_arena_release(&k->nodes);
    free(k->ids);
    *k = (fy_pickle){0};
}
