/* Restricted reader of Python pickles: a pickle is a program for a stack machine, and this one runs
 * only the part of it that builds data. The result is a graph of inert nodes. A global is its name,
 * a call the callee and its arguments; nothing is looked up, imported or called. The globals with a
 * meaning here are OrderedDict and defaultdict of collections, which are dicts.
 *
 * Nodes live in the fy_pickle they were read into, until fy_pickle_release. Texts are views of the
 * pickle's bytes. The graph may have shared parts and cycles (as the memo allows): code that
 * walks it must limit depth and number of visits. The numbers of operations, nodes and memo
 * entries, and the length of a text, are limited, so that memory is a small multiple of the file.
 *
 * Protocols 0 to 5; without text escapes of protocol 0, extension codes and out-of-band buffers.
 * Source: CPython's Lib/pickletools.py. */
#ifndef FY_FORMAT_PICKLE_H
#define FY_FORMAT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

typedef enum {
    FY_PICKLE_NONE,
    FY_PICKLE_BOOL,  /* i */
    FY_PICKLE_INT,   /* i */
    FY_PICKLE_BIG,   /* text: the bytes of an integer of more than 64 bits, two's complement */
    FY_PICKLE_FLOAT, /* f */
    FY_PICKLE_TEXT,
    FY_PICKLE_BYTES, /* text */
    FY_PICKLE_TUPLE,
    FY_PICKLE_LIST,
    FY_PICKLE_DICT,   /* items: key, value, key, value, ... */
    FY_PICKLE_SET,    /* its items are not kept */
    FY_PICKLE_GLOBAL, /* a class or function, by name */
    FY_PICKLE_CALL,   /* what a global would make of the arguments */
    FY_PICKLE_ID,     /* persistent id: an object outside the pickle */
} fy_pickle_kind;

typedef struct fy_pickle_node fy_pickle_node;
struct fy_pickle_node {
    fy_pickle_kind kind;
    union {
        int64_t i;
        double f;
        fy_span text;
        struct {
            fy_pickle_node **at;
            uint32_t n, cap;
        } items; /* of tuples, lists and dicts */
        struct {
            fy_span module, name;
        } global;
        struct {
            const fy_pickle_node *callee, *args;
            const fy_pickle_node *state; /* set on the object after it was made; or NULL */
        } call;
        const fy_pickle_node *id;
    };
};

typedef struct {
    fy_arena nodes;
    const fy_pickle_node **ids; /* owned; every FY_PICKLE_ID, in the order of the file */
    size_t n_ids, cap_ids;
    uint32_t n_nodes, n_ops; /* values made and operations run so far */
} fy_pickle;

/* Reads the pickle that begins at p[0]; *used is its length, with the STOP that ends it. More than
 * one may be read into a zeroed fy_pickle. NULL on failure. */
const fy_pickle_node *fy_pickle_read(fy_pickle *k, const void *p, size_t n, size_t *used,
                                     fy_err *e);
void fy_pickle_release(fy_pickle *k);

/* A global with these names? False for every other kind. */
bool fy_pickle_is_global(const fy_pickle_node *v, const char *module, const char *name);

#endif
