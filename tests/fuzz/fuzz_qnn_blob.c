/* Containers of the reference library: whatever the bytes are, they are refused, or their graphs
 * execute. The first byte chooses whether length and hash in the header are put right, so that
 * mutations get past them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "qnnref/ref_blob.h"
#include "qnnref/ref_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void put_right(uint8_t *p, size_t n)
{
    ref_blob_header h;
    memcpy(&h, p, sizeof h);
    h.bytes = n;
    memset(h.hash, 0, sizeof h.hash);
    memcpy(p, &h, sizeof h);
    require(fy_sha256_of(p, n, h.hash, NULL) == 0);
    memcpy(p, &h, sizeof h);
}

/* All inputs zero; graphs that are too large to run in a fuzzer are left out. */
static void execute(ref_graph *g)
{
    abi_tensor lists[2][64] = {{{0}}};
    uint32_t n[2] = {0};
    uint64_t bytes = 0, work = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        bytes += g->tensors[i]->bytes;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        work += g->nodes[i].out[0]->n * (1 + g->nodes[i].in[0]->dims[g->nodes[i].in[0]->rank - 1]);
    if (bytes > 1 << 20 || work > 1 << 22 ||
        ref_publish(&g->object, REF_GRAPH, &g->context->object) != 0)
        return;
    g->published = true;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const ref_tensor *t = g->tensors[i];
        int k = t->type == ABI_APP_WRITE ? 0 : t->type == ABI_APP_READ ? 1 : -1;
        if (k < 0 || n[k] == 64)
            continue;
        abi_tensor *a = &lists[k][n[k]++];
        a->version = 1;
        a->u.v1 = (abi_tensor1){.id = t->id,
                                .name = t->name,
                                .type = t->type,
                                .data_type = t->data_type,
                                .rank = t->rank,
                                .dims = (uint32_t *)(uintptr_t)t->dims};
        a->u.v1.u.buffer = (abi_buffer){calloc(1, t->bytes), (uint32_t)t->bytes};
    }
    ref_graph_execute(g->object.handle, lists[0], n[0], lists[1], n[1], NULL, NULL);
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < n[k]; i++)
            free(lists[k][i].u.v1.u.buffer.data);
    }
    ref_retire(&g->object);
    g->published = false;
}

static void read_one(const uint8_t *p, size_t n, uint32_t soc)
{
    ref_blob_head head;
    ref_context c = {.file = -1, .soc = {soc, 75, 8, ""}};
    if (ref_blob_read(&c, &head, p, n) == 0) {
        require(c.graphs != NULL);
        require(memchr(head.build_id, '\0', sizeof head.build_id) != NULL);
        if (soc != 0 && ref_publish(&c.object, REF_CONTEXT, NULL) == 0) {
            for (ref_graph *g = c.graphs; g != NULL; g = g->next)
                execute(g);
            ref_retire(&c.object);
        }
    }
    ref_context_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20)
        return 0;
    size_t n = size - 1;
    uint8_t *p = aligned_alloc(64, (n + 64) / 64 * 64);
    require(p != NULL);
    memcpy(p, data + 1, n);
    if (data[0] % 2 == 0 && n >= sizeof(ref_blob_header))
        put_right(p, n);
    read_one(p, n, 0);
    read_one(p, n, 57);
    free(p);
    return 0;
}
