/* Values of the template language and the machine that renders: a budgeted heap, a step counter and
 * the first error. Values behave as Python's (str, int, float, list, tuple, dict, ...), immutable
 * except namespaces. They live in the heap of a rendering, or of the variables it reads, and are
 * never freed one by one.
 *
 * Errors are sticky: the first one stays in the machine. After it functions do nothing and return
 * what harms nobody: an undefined value, an empty list, 0, false, NULL for memory. Who loops over
 * data asks fy_tm_charge or fy_tm_ok in each round, so that an error ends the rendering at once;
 * who started the machine asks at its end. The text of Python's error is kept where it is short.
 * Work that grows with its data charges the machine (fy_tm_charge), so that no builtin runs for
 * free. */
#ifndef FY_TEMPLATE_VALUE_H
#define FY_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_TV_UNDEFINED = 0, /* str: the name, for the error's text; may be empty; see `view` */
    FY_TV_NONE,
    FY_TV_BOOL,      /* b */
    FY_TV_INT,       /* i; what does not fit 64 bits is FY_TV_BIGINT */
    FY_TV_BIGINT,    /* str: decimal digits with sign; can be printed and compared for equality, no
                        more */
    FY_TV_FLOAT,     /* f */
    FY_TV_STR,       /* str, UTF-8; markup: made by safe/escape, + escapes what is joined to it */
    FY_TV_LIST,      /* list */
    FY_TV_TUPLE,     /* list */
    FY_TV_ITER,      /* list: a generator's items (map, select, batch ...): prints as an object, no
                        index, no length */
    FY_TV_DICT,      /* dict */
    FY_TV_VIEW,      /* list, name in `view`: dict_keys, dict_values or dict_items */
    FY_TV_RANGE,     /* range */
    FY_TV_NAMESPACE, /* dict, and the only value that changes */
    FY_TV_CALLABLE,  /* call: macro, method, global function, loop, ... */
    FY_TV_OBJECT,    /* call: a callable with attributes (loop, cycler, joiner, macro) */
} fy_tv_kind;

typedef struct fy_tv fy_tv;
typedef struct fy_tm fy_tm;

typedef struct {
    fy_tv *item; /* [cap] */
    size_t n, cap;
} fy_tlist;

typedef struct fy_tdict fy_tdict;

typedef struct {
    int64_t start, step;
    size_t n;
    int64_t stop; /* as given, for its text only */
} fy_trange;

/* Arguments as a callee sees them. */
typedef struct {
    const fy_tv *arg;
    size_t n;
    const fy_span *name; /* [n_named] */
    const fy_tv *named;
    size_t n_named;
} fy_targs;

/* Something that can be called or has attributes of its own. The evaluator's and the builtins'
 * kinds embed it as their first member. */
typedef struct fy_tcall fy_tcall;
struct fy_tcall {
    const char *type; /* for messages and printing: "macro", "method", "loop" */
    fy_tv (*call)(fy_tm *m, fy_tcall *self, const fy_targs *a); /* NULL: not callable */
    /* False: no such attribute. NULL: none at all */
    bool (*attr)(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out);
};

struct fy_tv {
    uint8_t kind; /* fy_tv_kind */
    bool markup;
    uint8_t view; /* FY_TV_VIEW: 'k', 'v' or 'i'. FY_TV_UNDEFINED: what str is: 0 a variable's name,
                     'a' an attribute's name, 'e' an element's repr, 'p' a parameter's name, 'h'
                     the whole message of the error */
    uint8_t of;   /* FY_TV_UNDEFINED 'a' and 'e': kind of the value that lacks it */
    union {
        bool b;
        int64_t i;
        double f;
        fy_span str;
        fy_tlist *list;
        fy_tdict *dict;
        fy_trange *range;
        fy_tcall *call;
    };
};

/* In order of insertion. Small dicts are searched from the front; larger ones have a table. */
typedef struct {
    fy_tv key, value; /* keys: str, int, float, bool, none */
} fy_tpair;

typedef struct {
    uint32_t hash;
    uint32_t at; /* index of the item + 1; 0: free */
} fy_tplace;

struct fy_tdict {
    fy_tpair *items;
    size_t n, cap;
    fy_tplace *table;
    size_t table_cap; /* a power of two, or 0 */
};

/* --- the machine (template_value.c) --- */

struct fy_tm {
    fy_arena arena;      /* the heap of this rendering */
    size_t bytes_left;   /* heap and output together */
    uint64_t steps_left; /* a node evaluated or up to 16 bytes touched is one step */
    uint32_t depth;      /* of C recursion through values: repr, tojson, equality */
    uint32_t line;       /* of the node under way */
    int64_t clock_s;
    bool clock_utc;
    struct {
        char *ptr;
        size_t len, cap;
    } sum;     /* the string that a + made last: it grows in place */
    fy_err *e; /* view, never NULL; the first error is kept */
};

enum { FY_TV_MAX_DEPTH = 128 }; /* nesting of values that is followed */

static inline bool fy_tm_ok(const fy_tm *m)
{
    return m->e->code == FY_OK;
}
void *fy_tm_alloc(fy_tm *m, size_t bytes);   /* NULL: error */
bool fy_tm_take(fy_tm *m, size_t bytes);     /* bytes of the budget that lie elsewhere */
bool fy_tm_charge(fy_tm *m, uint64_t bytes); /* work on so many bytes (or 16 per item) */
fy_tv fy_tm_fail(fy_tm *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The array of n items, moved if it has no room for `more` of them. NULL: error. */
void *fy_tm_grow(fy_tm *m, void *items, size_t n, size_t *cap, size_t more, size_t item_bytes);

/* A string under construction on the heap of `m`, within its budget. */
typedef struct {
    fy_tm *m;
    char *ptr;
    size_t len, cap;
} fy_tbuf;
void fy_tbuf_add(fy_tbuf *b, const char *p, size_t n);
void fy_tbuf_span(fy_tbuf *b, fy_span s);
void fy_tbuf_z(fy_tbuf *b, const char *z);
void fy_tbuf_printf(fy_tbuf *b, const char *fmt, ...) /* at most 400 bytes */
    __attribute__((format(printf, 2, 3)));
fy_tv fy_tbuf_value(const fy_tbuf *b, bool markup); /* what was built, as a string */

/* --- making values (template_value.c) --- */

#define fy_tv_undefined(name) ((fy_tv){.kind = FY_TV_UNDEFINED, .str = (name)})
#define fy_tv_none()          ((fy_tv){.kind = FY_TV_NONE})
#define fy_tv_bool(value)     ((fy_tv){.kind = FY_TV_BOOL, .b = (value)})
#define fy_tv_int(value)      ((fy_tv){.kind = FY_TV_INT, .i = (value)})
#define fy_tv_float(value)    ((fy_tv){.kind = FY_TV_FLOAT, .f = (value)})
fy_tv fy_tv_view(fy_span s); /* a string that lives as long as the heap; not copied */
fy_tv fy_tv_part(const fy_tv *v, fy_span s); /* of the string v: markup if v is */
fy_tv fy_tv_copy(fy_tm *m, fy_span s);       /* a string, copied */
/* An undefined value; using it fails with `text`, which outlives the machine. */
fy_tv fy_tv_hint(fy_span text);
/* An empty LIST, TUPLE or ITER with room for so many items; after an error it stays empty. */
fy_tv fy_tv_list(fy_tm *m, fy_tv_kind kind, size_t room);
void fy_tlist_add(fy_tm *m, fy_tlist *l, fy_tv v);
fy_tv fy_tv_pair(fy_tm *m, fy_tv a, fy_tv b);             /* the tuple (a, b) */
fy_tv fy_tv_dict(fy_tm *m, fy_tv_kind kind, size_t room); /* DICT or NAMESPACE */
/* d[key], charged; NULL: absent, or an error (of a key that is unhashable, too). */
const fy_tv *fy_tdict_get(fy_tm *m, const fy_tdict *d, const fy_tv *key);
/* Adds or replaces; unhashable: error. */
void fy_tdict_set(fy_tm *m, fy_tdict *d, fy_tv key, fy_tv value);

/* Builds a value from JSON text: numbers become int (bigint) or float as Python's json reads them;
 * what base/json.h refuses (a key twice, a float that no double can hold) is refused. */
fy_tv fy_tv_from_json(fy_tm *m, fy_span json); /* template_vars.c */

/* --- properties and iteration (template_value.c) --- */

/* "str", "int", "dict", "NoneType" ..., as in Python's messages. */
const char *fy_tv_type_name(const fy_tv *v);
bool fy_tv_truth(const fy_tv *v);
static inline bool fy_tv_is_int(const fy_tv *v) /* int or bool that fits 64 bits */
{
    return v->kind == FY_TV_INT || v->kind == FY_TV_BOOL;
}
static inline int64_t fy_tv_as_int(const fy_tv *v)
{
    return v->kind == FY_TV_BOOL ? v->b : v->i;
}
bool fy_tv_as_float(const fy_tv *v, double *out); /* int, bool or float */
static inline bool fy_tv_is_list(const fy_tv *v)  /* or a tuple */
{
    return v->kind == FY_TV_LIST || v->kind == FY_TV_TUPLE;
}
bool fy_tv_is_iterable(const fy_tv *v);
/* len(v): code points, items. 0 for undefined; an error for what has none. */
size_t fy_tv_length(fy_tm *m, const fy_tv *v);
/* The items a for loop would see, as a list that must not be changed: characters of a string, keys
 * of a dict, nothing of undefined; an error for what cannot be iterated. */
fy_tlist fy_tv_items(fy_tm *m, const fy_tv *v);
/* The same one by one, without a list: for ranges of any length. A generator is used up. */
typedef struct {
    fy_tv of;
    size_t at;
} fy_titer;
fy_titer fy_titer_begin(fy_tm *m, const fy_tv *v);
bool fy_titer_next(fy_titer *it, fy_tv *out);
fy_tv fy_trange_at(const fy_trange *r, size_t i); /* i < r->n */

fy_tv fy_tv_call(fy_tm *m, const fy_tv *f, const fy_targs *a);
/* The error of using an undefined value: "'x' is undefined", ... */
fy_tv fy_tv_undefined_fail(fy_tm *m, const fy_tv *v);

/* --- what Python's operators do (template_ops.c) --- */

bool fy_tv_equal(fy_tm *m, const fy_tv *a, const fy_tv *b);
/* a < b: -1, 0, 1; an error between types that have no order. */
int fy_tv_compare(fy_tm *m, const fy_tv *a, const fy_tv *b);
bool fy_tv_contains(fy_tm *m, const fy_tv *item, const fy_tv *container);
/* v.name and v['name'] as jinja2 looks them up (attribute first, or item first); undefined when
 * there is none; an error on undefined. Attributes include the methods of str, dict and list. */
fy_tv fy_tv_getattr(fy_tm *m, const fy_tv *v, fy_span name);
fy_tv fy_tv_getitem(fy_tm *m, const fy_tv *v, const fy_tv *key);
/* v[bound[0]:bound[1]:bound[2]] */
fy_tv fy_tv_slice(fy_tm *m, const fy_tv *v, const fy_tv bound[3]);

/* --- text of values (template_text.c) --- */

fy_tv fy_tv_str(fy_tm *m, const fy_tv *v);      /* str(v), without markup */
fy_tv fy_tv_soft_str(fy_tm *m, const fy_tv *v); /* v itself if it is a string, else str(v) */
void fy_tbuf_str(fy_tbuf *b, const fy_tv *v);   /* appends str(v) */
void fy_tbuf_repr(fy_tbuf *b, const fy_tv *v);  /* appends repr(v) */
void fy_float_repr(double f, char out[32]);     /* Python's shortest repr */

/* --- builtins --- */

/* A filter, test, method or function. Its value or object is `v`; `a` are its arguments, bound to
 * its parameters. A test returns a bool. */
typedef struct fy_tbuiltin fy_tbuiltin;
struct fy_tbuiltin {
    const char *name;
    /* Names, optional ones with '?': "old new ?count". A '/' before them: by position only, with
     * the messages of Python's functions in C. NULL: any arguments, as they come. */
    const char *params;
    fy_tv (*run)(fy_tm *m, const fy_tbuiltin *f, const fy_tv *v, const fy_targs *a);
    uint32_t variant; /* what distinguishes builtins of one function */
};
fy_tv fy_tbuiltin_run(fy_tm *m, const fy_tbuiltin *f, const fy_tv *v, const fy_targs *a);
const fy_tbuiltin *fy_tfilter_find(fy_span name); /* NULL: no such filter */
const fy_tbuiltin *fy_ttest_find(fy_span name);
/* Known to jinja2 and refused here: "urlize". */
bool fy_tfilter_is_refused(fy_span name);
bool fy_ttest_is_refused(fy_span name);
/* A method of str, list, dict, ...: *out is a callable bound to v; false: no such one. Methods
 * that would change the value are refused as jinja2's sandbox does. */
bool fy_tmethod_find(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out);
/* raise_exception, strftime_now, range, namespace, dict, joiner. */
bool fy_tglobal_find(fy_tm *m, fy_span name, fy_tv *out);

/* --- strings (template_unicode.c) --- */

/* The code point at *p (< end), which moves after it; an invalid byte is 0x7fffff00 + byte. */
uint32_t fy_tu_next(const char **p, const char *end);
/* The code point that ends at *p (> begin), which moves before it. */
uint32_t fy_tu_prev(const char *begin, const char **p);
size_t fy_tu_put(char out[4], uint32_t cp); /* bytes written; takes what fy_tu_next gives */
size_t fy_tu_length(fy_span s);             /* code points */
fy_span fy_tu_slice(fy_span s, size_t start, size_t stop); /* in code points, clamped to s */

bool fy_tu_is_space(uint32_t cp);
bool fy_tu_is_digit(uint32_t cp);
bool fy_tu_is_printable(uint32_t cp);
/* Has letters with case, and all of them in one case. */
bool fy_tu_all_cased(fy_span s, bool upper);
/* Bytes of the line end that s begins with (str.splitlines' set), else 0. */
size_t fy_tu_line_end(fy_span s);

typedef enum { FY_TU_UPPER, FY_TU_LOWER, FY_TU_CAPITALIZE, FY_TU_TITLE } fy_tu_case;
void fy_tu_put_case(fy_tbuf *b, fy_span s, fy_tu_case to); /* appends */

enum { FY_TU_STRIP_LEFT = 1, FY_TU_STRIP_RIGHT = 2, FY_TU_STRIP_BOTH = 3 };
/* Without the code points of `chars` (NULL: white space) at its ends. */
fy_span fy_tu_strip(fy_tm *m, fy_span s, const fy_span *chars, uint32_t ends);
/* Byte where `needle` begins in s, -1 when it does not occur. */
ptrdiff_t fy_tu_find(fy_span s, fy_span needle);
/* Appends s with the first `max` (< 0: all) occurrences of `old` replaced. */
void fy_tu_replace(fy_tbuf *b, fy_span s, fy_span old, fy_span with, int64_t max);
/* Appends `pattern` n times; the size is checked before. */
void fy_tu_repeat(fy_tbuf *b, fy_span pattern, uint64_t n);
/* Appends s with the characters of HTML replaced, as markupsafe does. */
void fy_tu_put_escaped(fy_tbuf *b, fy_span s);

/* --- arguments (template_functions.c) --- */

#define FY_UNUSED __attribute__((unused))
#define FY_BUILTIN(name)                                                                     \
    fy_tv name(fy_tm *m FY_UNUSED, const fy_tbuiltin *f FY_UNUSED, const fy_tv *v FY_UNUSED, \
               const fy_targs *a FY_UNUSED)

bool fy_targ_absent(const fy_tv *v); /* of a parameter: it was not given */
bool fy_targ_given(const fy_tv *v);  /* false for none, too */
/* An int where Python takes one as an index or count; error for other types. */
int64_t fy_tv_index(fy_tm *m, const fy_tv *v);
/* A string argument of `what`; error for other types. */
fy_span fy_tv_text(fy_tm *m, const char *what, const fy_tv *v);
/* The keyword argument of that name, or NULL. */
const fy_tv *fy_targs_named(const fy_targs *a, fy_span name);
/* A callable of that type: the builtin on `v`. */
fy_tv fy_tbuiltin_bind(fy_tm *m, const char *type, const fy_tbuiltin *f, fy_tv v);
/* "<what> '<name>' is not supported", as fy_tv_hint. */
fy_tv fy_tv_unsupported(fy_tm *m, const char *what, fy_span name);

/* The row of that name in a table that ends with a NULL name; NULL: none. */
const fy_tbuiltin *fy_tbuiltin_find(const fy_tbuiltin *table, fy_span name);
/* Is the name one of the words, which have one space between them? */
bool fy_tword_is_in(fy_span name, const char *words);

/* A name inside a message: "%.*s". */
#define FY_TSHOWN(s) (int)((s).len < 100 ? (s).len : 100), (s).ptr

/* --- formatting (template_format.c) --- */

/* format % args: args is a tuple or a single value. */
fy_tv fy_tv_percent(fy_tm *m, const fy_tv *format, const fy_tv *args);
FY_BUILTIN(fy_tstr_format); /* v.format(args): "{}", "{0}", "{name}" */

/* --- filters --- */

FY_BUILTIN(fy_tstr_case);  /* str(v) in the case of f->variant */
FY_BUILTIN(fy_tstr_strip); /* str(v) without the characters of a->arg[0] at its ends */

FY_BUILTIN(fy_tfilter_tojson);

/* The positions 0 .. keys->n - 1 in the stable order of their keys. NULL: error. */
typedef int fy_tcompare(fy_tm *m, const fy_tv *a, const fy_tv *b);
size_t *fy_tlist_order(fy_tm *m, const fy_tlist *keys, bool reverse, fy_tcompare *compare);

#endif
