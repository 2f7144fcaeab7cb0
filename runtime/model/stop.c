/* Stop strings: builds the automaton over all of them, and takes it along a text byte by byte. */
#include "model/stop.h"

#include <stdlib.h>
#include <string.h>

/* A node stands for a beginning of a stop string: the longest one that the text read so far ends
 * in. Node 0 is the empty one. Most nodes have one child. The root, its children, where nearly all
 * of a text is spent, and those with more children, at most one less than there are stop strings,
 * have a row: where each of the 256 bytes leads. */
typedef struct {
    uint16_t child;  /* after `byte`; 0: none */
    uint16_t fail;   /* the longest proper suffix that is a node too */
    uint16_t depth;  /* its length in bytes */
    int8_t stop;     /* the longest stop string that ends here; -1: none */
    uint8_t byte;    /* what leads to `child` */
    uint8_t row;     /* of `rows`, and 1 more; 0: none */
    uint8_t is_stop; /* it is a whole stop string itself */
} node;

enum { MAX_NODES = FY_STOPS_MAX * FY_STOP_MAX_BYTES + 1 };
_Static_assert(MAX_NODES <= UINT16_MAX, "nodes have 16-bit numbers");

struct fy_stops {
    node *nodes; /* owned */
    uint32_t n_nodes;
    uint16_t (*rows)[256]; /* owned */
    uint32_t n_rows;
    char *texts; /* owned: all of them */
    fy_span text[FY_STOPS_MAX];
    size_t n;
};

static uint16_t child_of(const fy_stops *s, const node *at, uint8_t byte)
{
    if (at->row != 0)
        return s->rows[at->row - 1][byte];
    return at->byte == byte ? at->child : 0;
}

/* --- building --------------------------------------------------------------------------------- */

static void add_child(fy_stops *s, node *at, uint8_t byte, uint16_t child)
{
    if (at->child != 0 && at->row == 0) {
        at->row = (uint8_t)++s->n_rows;
        s->rows[at->row - 1][at->byte] = at->child;
    }
    at->child = child;
    at->byte = byte;
    if (at->row != 0)
        s->rows[at->row - 1][byte] = child;
}

static void add_text(fy_stops *s, size_t index)
{
    fy_span text = s->text[index];
    uint16_t at = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.ptr[i];
        uint16_t next = child_of(s, &s->nodes[at], byte);
        if (next == 0) {
            next = (uint16_t)s->n_nodes++;
            s->nodes[next] = (node){.depth = (uint16_t)(i + 1), .stop = -1};
            if (i == 0)
                s->nodes[next].row = (uint8_t)++s->n_rows;
            add_child(s, &s->nodes[at], byte, next);
        }
        at = next;
    }
    if (!s->nodes[at].is_stop) { /* of two equal ones the first counts */
        s->nodes[at].is_stop = 1;
        s->nodes[at].stop = (int8_t)index;
    }
}

/* Where a byte leads; the row of `at` must be complete. */
static uint16_t step(const fy_stops *s, uint16_t at, uint8_t byte)
{
    for (;;) {
        const node *n = &s->nodes[at];
        if (n->row != 0)
            return s->rows[n->row - 1][byte];
        if (n->byte == byte && n->child != 0)
            return n->child;
        at = n->fail;
    }
}

/* What is no child leads where it leads from the suffix. */
static void complete_row(fy_stops *s, uint16_t at)
{
    const node *n = &s->nodes[at];
    uint16_t *row = s->rows[n->row - 1];
    for (unsigned b = 0; b < 256 && at != 0; b++) {
        if (row[b] == 0)
            row[b] = step(s, n->fail, (uint8_t)b);
    }
}

static void link_child(fy_stops *s, uint16_t parent, uint8_t byte, uint16_t child)
{
    node *c = &s->nodes[child];
    c->fail = parent != 0 ? step(s, s->nodes[parent].fail, byte) : 0;
    if (!c->is_stop)
        c->stop = s->nodes[c->fail].stop;
}

/* Breadth first: the suffixes of a node are shorter, and done before it. */
static int link_all(fy_stops *s, fy_err *e)
{
    uint16_t *queue = calloc(s->n_nodes, sizeof *queue);
    if (queue == NULL)
        return fy_nomem(e);
    uint32_t n = 1; /* the root */
    for (uint32_t i = 0; i < n; i++) {
        const node *at = &s->nodes[queue[i]];
        for (unsigned b = at->row != 0 ? 0 : at->byte; b < 256; b++) {
            uint16_t child = child_of(s, at, (uint8_t)b);
            if (child != 0) {
                link_child(s, queue[i], (uint8_t)b, child);
                queue[n++] = child;
            }
            if (at->row == 0)
                break;
        }
        if (at->row != 0)
            complete_row(s, queue[i]);
    }
    free(queue);
    return 0;
}

static int check_texts(const fy_span *texts, size_t n, size_t *n_bytes, fy_err *e)
{
    if (n > FY_STOPS_MAX)
        return fy_fail(e, FY_EARG, "%zu stop strings, at most %d", n, FY_STOPS_MAX);
    *n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (texts[i].len == 0)
            return fy_fail(e, FY_EARG, "stop string %zu is empty", i + 1);
        if (texts[i].len > FY_STOP_MAX_BYTES)
            return fy_fail(e, FY_EARG, "stop string %zu has %zu bytes, at most %d", i + 1,
                           texts[i].len, FY_STOP_MAX_BYTES);
        *n_bytes += texts[i].len;
    }
    return 0;
}

fy_stops *fy_stops_new(const fy_span *texts, size_t n, fy_err *e)
{
    size_t n_bytes = 0;
    if (check_texts(texts, n, &n_bytes, e) != 0)
        return NULL;
    fy_stops *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->nodes = calloc(n_bytes + 1, sizeof *s->nodes);
    s->rows = calloc(2 * n + 1, sizeof *s->rows);
    s->texts = malloc(n_bytes + 1);
    if (s->nodes == NULL || s->rows == NULL || s->texts == NULL) {
        fy_nomem(e);
        fy_stops_free(s);
        return NULL;
    }
    s->nodes[0] = (node){.stop = -1, .row = 1};
    s->n_nodes = s->n_rows = 1;
    for (char *p = s->texts; s->n < n; s->n++) {
        s->text[s->n] = (fy_span){p, texts[s->n].len};
        memcpy(p, texts[s->n].ptr, texts[s->n].len);
        p += texts[s->n].len;
        add_text(s, s->n);
    }
    if (link_all(s, e) != 0) {
        fy_stops_free(s);
        return NULL;
    }
    return s;
}

void fy_stops_free(fy_stops *s)
{
    if (s == NULL)
        return;
    free(s->nodes);
    free(s->rows);
    free(s->texts);
    free(s);
}

/* --- searching -------------------------------------------------------------------------------- */

fy_span fy_stops_text(const fy_stops *s, int index)
{
    return s->text[index];
}

int fy_stop_next(const fy_stops *s, fy_stop_search *at, const char *bytes, size_t n,
                 size_t *n_taken)
{
    int found = -1;
    size_t i = 0;
    while (i < n && found < 0) {
        at->node = step(s, at->node, (uint8_t)bytes[i++]);
        found = s->nodes[at->node].stop;
    }
    at->n_held = s->nodes[at->node].depth;
    *n_taken = i;
    return found;
}
