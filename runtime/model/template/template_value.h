/* Values of the template language and the machine that renders: a budgeted heap, a step counter and
 * the first error. Values behave as Python's (str, int, float, list, tuple, dict, ...), immutable
 * except namespaces. They live in the heap of a rendering, or of the variables it reads, and are
 * never freed one by one.
 *
 * Every function that takes a fy_tm returns 0, or -1 after recording the error in the machine; the
 * text of Python's error is kept where it is short. Work that grows with its data charges the
 * machine (fy_tm_charge), so that no builtin runs for free. */
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
    fy_tv *item; /* [n] */
    size_t n;
} fy_tlist;

typedef struct fy_tdict
    fy_tdict; /* in order of insertion; keys: str, int, float, bool, none, tuple */

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
    int (*call)(fy_tm *m, fy_tcall *self, const fy_targs *a, fy_tv *out); /* NULL: not callable */
    /* 1: *out is set; 0: no such attribute; NULL: none at all */
    int (*attr)(fy_tm *m, fy_tcall *self, fy_span name, fy_tv *out);
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
    } sum;     /* the string that fy_tv_add made last: it grows in place */
    fy_err *e; /* view, never NULL; the first error is kept */
};

enum { FY_TV_MAX_DEPTH = 128 }; /* nesting of values that is followed */

void *fy_tm_alloc(fy_tm *m, size_t bytes);  /* NULL: budget or memory is gone, error recorded */
int fy_tm_take(fy_tm *m, size_t bytes);     /* bytes of the budget that lie elsewhere */
int fy_tm_charge(fy_tm *m, uint64_t bytes); /* work on so many bytes (or 16 per item) */
int fy_tm_fail(fy_tm *m, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* -1 */

/* A string under construction on the machine's heap, within its budget. Zero-initialise. */
typedef struct {
    char *ptr;
    size_t len, cap;
} fy_tbuf;
int fy_tbuf_add(fy_tm *m, fy_tbuf *b, const char *p, size_t n);
int fy_tbuf_span(fy_tm *m, fy_tbuf *b, fy_span s);

/* --- making values (template_value.c) --- */

fy_tv fy_tv_undefined(fy_span name);
fy_tv fy_tv_none(void);
fy_tv fy_tv_bool(bool b);
fy_tv fy_tv_int(int64_t i);
fy_tv fy_tv_float(double f);
fy_tv fy_tv_view(fy_span s); /* a string that lives as long as the heap; not copied */
int fy_tv_copy(fy_tm *m, fy_span s, fy_tv *out); /* a string, copied */
/* A LIST, TUPLE or ITER with room for n items, each none; fill out->list->item. */
int fy_tv_list(fy_tm *m, fy_tv_kind kind, size_t n, fy_tv *out);
int fy_tv_dict(fy_tm *m, fy_tv_kind kind, size_t room, fy_tv *out); /* DICT or NAMESPACE */

size_t fy_tdict_n(const fy_tdict *d);
const fy_tv *fy_tdict_key(const fy_tdict *d, size_t i); /* in order of insertion */
const fy_tv *fy_tdict_at(const fy_tdict *d, size_t i);
/* d[key] for keys of any size, charged: 1 and *out, 0 when absent, -1 also when unhashable. */
int fy_tdict_lookup(fy_tm *m, const fy_tdict *d, const fy_tv *key, fy_tv *out);
const fy_tv *fy_tdict_find(const fy_tdict *d, fy_span key);
int fy_tdict_set(fy_tm *m, fy_tdict *d, fy_tv key,
                 fy_tv value); /* adds or replaces; unhashable: error */

/* Builds a value from JSON text: numbers become int (bigint) or float as Python's json reads them;
 * what base/json.h refuses (a key twice, a float that no double can hold) is refused. */
int fy_tv_from_json(fy_tm *m, fy_span json, fy_tv *out); /* template_json.c */

/* --- what Python's operators do (template_value.c) --- */

/* "str", "int", "dict", "NoneType" ..., as in Python's messages. */
const char *fy_tv_type_name(const fy_tv *v);
bool fy_tv_truth(const fy_tv *v);
bool fy_tv_is_iterable(const fy_tv *v);
bool fy_tv_equal(fy_tm *m, const fy_tv *a, const fy_tv *b);
/* a < b: -1, 0, 1 in *order; an error between types that have no order. */
int fy_tv_compare(fy_tm *m, const fy_tv *a, const fy_tv *b, int *order);
int fy_tv_contains(fy_tm *m, const fy_tv *item, const fy_tv *container, bool *out);
/* len(v): code points, items. 0 for undefined; an error for what has none. */
int fy_tv_length(fy_tm *m, const fy_tv *v, size_t *out);
/* The items a for loop would see, as a list that must not be changed: characters of a string, keys
 * of a dict, nothing of undefined; an error for what cannot be iterated. */
int fy_tv_items(fy_tm *m, const fy_tv *v, fy_tlist *out);
/* The same one by one, without a list: for ranges of any length. A generator is used up. */
typedef struct {
    fy_tv of;
    size_t at;
} fy_titer;
int fy_titer_begin(fy_tm *m, fy_titer *it, const fy_tv *v);
bool fy_titer_next(fy_titer *it, fy_tv *out);
int64_t fy_trange_at(const fy_trange *r, size_t i); /* i < r->n */
/* v.name and v['name'] as jinja2 looks them up (attribute first, or item first); undefined when
 * there is none; an error on undefined. Attributes include the methods of str, dict and list. */
int fy_tv_getattr(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out);
int fy_tv_getitem(fy_tm *m, const fy_tv *v, const fy_tv *key, fy_tv *out);
int fy_tv_slice(fy_tm *m, const fy_tv *v, const fy_tv *start, const fy_tv *stop, const fy_tv *step,
                fy_tv *out);
int fy_tv_call(fy_tm *m, const fy_tv *f, const fy_targs *a, fy_tv *out);
/* The error of using an undefined value: "'x' is undefined", ...; -1. */
int fy_tv_undefined_fail(fy_tm *m, const fy_tv *v);

/* a + b for all kinds that Python adds (template_arith.c). */
int fy_tv_add(fy_tm *m, const fy_tv *a, const fy_tv *b, fy_tv *out);

/* --- text of values (template_text.c) --- */

int fy_tv_str(fy_tm *m, const fy_tv *v, fy_tv *out);      /* str(v): a FY_TV_STR */
int fy_tv_put_str(fy_tm *m, fy_tbuf *b, const fy_tv *v);  /* appends str(v) */
int fy_tv_put_repr(fy_tm *m, fy_tbuf *b, const fy_tv *v); /* appends repr(v) */
void fy_float_repr(double f, char out[32]);               /* Python's shortest repr */

/* --- builtins (template_filters*.c, template_tests.c, template_methods.c, template_functions.c)
 * --- */

typedef struct fy_tfilter fy_tfilter;
struct fy_tfilter {
    const char *name;
    int (*run)(fy_tm *m, const fy_tfilter *f, const fy_tv *v, const fy_targs *a, fy_tv *out);
    int variant; /* what distinguishes filters of one function */
};
struct fy_ttest {
    const char *name;
    int (*run)(fy_tm *m, const fy_tv *v, const fy_targs *a, bool *out);
};
typedef struct fy_ttest fy_ttest;
const fy_tfilter *fy_tfilter_find(fy_span name); /* NULL: no such filter */
const fy_ttest *fy_ttest_find(fy_span name);
/* A method of str, list, dict, ...: 1 and *out a callable bound to v; 0: no such one; -1. Methods
 * that would change the value are refused as jinja2's sandbox does. */
int fy_tmethod_find(fy_tm *m, const fy_tv *v, fy_span name, fy_tv *out);
/* raise_exception, strftime_now, range, namespace, dict, joiner. 1, 0 or -1. */
int fy_tglobal_find(fy_tm *m, fy_span name, fy_tv *out);

#endif
