/* The restricted unpickler: texts are inside the pickle, nodes are whole, memory follows the bytes.
 */
#include <stdlib.h>

#include "format/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *data;
    size_t size;
    unsigned left; /* nodes still to be visited: the graph may be cyclic */
} visit;

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void require_inside(const visit *v, fy_span s)
{
    const char *begin = (const char *)v->data;
    require(s.len == 0 || (s.ptr >= begin && s.len <= v->size &&
                           (size_t)(s.ptr - begin) <= v->size - s.len));
}

static void walk(visit *v, const fy_pickle_node *n, int depth)
{
    require(n != NULL && n->kind <= FY_PICKLE_ID);
    if (depth > 40 || v->left == 0)
        return;
    v->left--;
    switch ((int)n->kind) {
    case FY_PICKLE_BIG:
        require(n->text.len > 8);
        require_inside(v, n->text);
        break;
    case FY_PICKLE_BYTES:
    case FY_PICKLE_TEXT:
        require_inside(v, n->text);
        break;
    case FY_PICKLE_DICT:
    case FY_PICKLE_TUPLE:
    case FY_PICKLE_LIST:
        require(n->items.n <= n->items.cap && (n->kind != FY_PICKLE_DICT || n->items.n % 2 == 0));
        for (uint32_t i = 0; i < n->items.n; i++)
            walk(v, n->items.at[i], depth + 1);
        break;
    case FY_PICKLE_GLOBAL:
        require_inside(v, n->global.module);
        require_inside(v, n->global.name);
        break;
    case FY_PICKLE_CALL:
        walk(v, n->call.callee, depth + 1);
        walk(v, n->call.args, depth + 1);
        break;
    case FY_PICKLE_ID:
        walk(v, n->id, depth + 1);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_pickle k = {0};
    fy_err e = {0};
    size_t used = 0;
    const fy_pickle_node *root = fy_pickle_read(&k, data, size, &used, &e);
    require((root == NULL) == (e.code != FY_OK) && used <= size && k.n_nodes <= 2 * size);
    require(k.nodes.total <= (1u << 18) + 1000 * size);
    if (root != NULL) {
        visit v = {data, size, 10000};
        walk(&v, root, 0);
    }
    for (size_t i = 0; i < k.n_ids; i++)
        require(k.ids[i]->kind == FY_PICKLE_ID);
    fy_pickle_release(&k);
    return 0;
}
