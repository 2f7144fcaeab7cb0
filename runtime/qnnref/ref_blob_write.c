/* Writes a context as a container (ref_blob.h). One pass with a sink that may only count gives the
 * size. */
#include "qnnref/ref_blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "qnnref/ref_impl.h"

typedef struct {
    uint8_t *to; /* NULL: count */
    uint64_t at, cap;
} sink;

static void put(sink *s, const void *p, uint64_t n)
{
    if (s->to != NULL && s->at <= s->cap && n <= s->cap - s->at)
        memcpy(s->to + s->at, p, n);
    s->at += n;
}

static void put32(sink *s, uint32_t v)
{
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    put(s, b, sizeof b);
}

static void put64(sink *s, uint64_t v)
{
    put32(s, (uint32_t)v);
    put32(s, (uint32_t)(v >> 32));
}

static void put_text(sink *s, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    put32(s, n);
    put(s, text, n);
}

static void align(sink *s)
{
    static const uint8_t zeros[64];
    put(s, zeros, (64 - s->at % 64) % 64);
}

static void put_floats(sink *s, const float *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        put32(s, bits);
    }
}

/* Factors of blocks: 1 to 16 in four bits each, or 16 bits. */
static void put_factors(sink *s, const uint16_t *v, uint64_t n)
{
    bool small = true;
    for (uint64_t i = 0; i < n; i++)
        small = small && v[i] >= 1 && v[i] <= 16;
    put32(s, small);
    for (uint64_t i = 0; i < n; i += small ? 2 : 1) {
        uint8_t b[2] = {(uint8_t)v[i], (uint8_t)(v[i] >> 8)};
        if (small)
            b[0] = (uint8_t)((v[i] - 1) | (i + 1 < n ? v[i + 1] - 1 : 0) << 4);
        put(s, b, small ? 1 : 2);
    }
}

static void put_quant(sink *s, const ref_quant *q)
{
    put32(s, q->definition);
    put32(s, q->encoding);
    put_floats(s, &q->one.scale, 1);
    put32(s, (uint32_t)q->one.offset);
    put32(s, (uint32_t)q->axis);
    put32(s, q->bits);
    put32(s, q->scales != NULL ? q->n : 0);
    put32(s, q->n_blocks);
    put32(s, q->offsets != NULL);
    for (int i = 0; i < REF_MAX_RANK; i++)
        put32(s, q->block[i]);
    if (q->scales == NULL)
        return;
    put_floats(s, q->scales, q->n);
    for (uint32_t i = 0; q->offsets != NULL && i < q->n; i++)
        put32(s, (uint32_t)q->offsets[i]);
    if (q->block_scales != NULL)
        put_factors(s, q->block_scales, (uint64_t)q->n * q->n_blocks);
}

static const ref_tensor *user_of(const ref_context *c, const ref_data *d)
{
    for (const ref_graph *g = c->graphs; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < g->n_tensors; i++) {
            if (g->tensors[i]->data == d)
                return g->tensors[i];
        }
    }
    return NULL;
}

/* Tensors that share values share their encoding, which stands with the values. */
static void put_tensor(sink *s, const ref_tensor *t)
{
    put_text(s, t->name);
    put32(s, t->id);
    put32(s, t->type);
    put32(s, t->data_type);
    put32(s, t->mem_type);
    put32(s, t->rank);
    for (uint32_t i = 0; i < t->rank; i++)
        put32(s, t->dims[i]);
    put32(s, t->data != NULL ? t->data->number : (uint32_t)REF_NONE32);
    if (t->data == NULL)
        put_quant(s, &t->quant);
}

static void put_node(sink *s, const ref_node *n)
{
    put_text(s, n->name);
    put_text(s, n->op->name);
    put32(s, n->n_in);
    put32(s, n->n_out);
    for (uint32_t i = 0; i < n->n_in; i++)
        put32(s, n->in[i] != NULL ? n->in[i]->id : 0);
    for (uint32_t i = 0; i < n->n_out; i++)
        put32(s, n->out[i]->id);
    for (uint32_t i = 0; i < REF_MAX_PARAMS && n->op->params[i].name != NULL; i++) {
        const ref_param *p = &n->params[i];
        put32(s, p->given ? p->n : 0);
        put32(s, p->dims[0]);
        put32(s, p->dims[1]);
        for (uint32_t k = 0; p->given && k < p->n; k++)
            put32(s, p->words[k]);
    }
}

static void put_graph(sink *s, const ref_graph *g)
{
    put_text(s, g->name);
    put32(s, g->vtcm_bytes);
    put32(s, g->optimization);
    put32(s, g->precision);
    put32(s, g->dlbc);
    put64(s, g->hvx_threads);
    put64(s, g->spill_bytes);
    put32(s, g->n_tensors);
    put32(s, g->n_nodes);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        put_tensor(s, g->tensors[i]);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        put_node(s, &g->nodes[i]);
}

static void put_meta(sink *s, ref_context *c, const uint64_t *at)
{
    uint32_t n = 0, n_graphs = 0;
    for (const ref_data *d = c->data; d != NULL; d = d->next)
        n++;
    for (const ref_graph *g = c->graphs; g != NULL; g = g->next)
        n_graphs++;
    put32(s, n);
    put32(s, n_graphs);
    put32(s, c->next_id);
    for (const ref_data *d = c->data; d != NULL; d = d->next) {
        const ref_tensor *t = user_of(c, d);
        static const ref_quant none = {.definition = ABI_UNDEFINED, .encoding = ABI_UNDEFINED};
        put64(s, at != NULL ? at[d->number] : 0);
        put64(s, d->bytes);
        put32(s, d->packed);
        put_quant(s, t != NULL ? &t->quant : &none);
    }
    for (const ref_graph *g = c->graphs; g != NULL; g = g->next)
        put_graph(s, g);
}

static void copy_version(uint32_t to[3], abi_version v)
{
    to[0] = v.major;
    to[1] = v.minor;
    to[2] = v.patch;
}

static void put_header(sink *s, const ref_context *c, uint64_t meta_at, uint64_t bytes)
{
    const ref_release *r = ref_release_now();
    ref_blob_header h = {.text = REF_BLOB_TEXT,
                         .version = REF_BLOB_VERSION,
                         .flags = c->sharing ? REF_BLOB_SHARED : 0,
                         .soc = c->soc.id,
                         .arch = c->soc.arch,
                         .vtcm_mb = c->soc.vtcm_mb,
                         .bytes = bytes,
                         .meta_at = meta_at};
    copy_version(h.core, r->core);
    copy_version(h.backend, r->backend);
    copy_version(h.blob, r->blob);
    memcpy(h.build_id, r->build_id, sizeof h.build_id);
    if (ref_fault("blob", "newer") != NULL)
        h.backend[1] = 99;
    put(s, &h, sizeof h);
}

/* Numbers the values; their places go to at[], if there is one. */
static void put_values(sink *s, ref_context *c, uint64_t *at)
{
    uint32_t n = 0;
    for (ref_data *d = c->data; d != NULL; d = d->next) {
        align(s);
        d->number = n++;
        if (at != NULL)
            at[d->number] = s->at;
        put(s, d->p, d->bytes);
    }
    align(s);
}

static uint64_t count(ref_context *c)
{
    sink s = {0};
    put_header(&s, c, 0, 0);
    put_values(&s, c, NULL);
    put_meta(&s, c, NULL);
    return s.at;
}

abi_error ref_blob_size(ref_context *c, uint64_t *bytes)
{
    *bytes = count(c);
    return 0;
}

abi_error ref_blob_write(ref_context *c, uint8_t *to, uint64_t cap, uint64_t *written)
{
    uint64_t bytes = count(c);
    if (cap < bytes)
        return ref_fail(ABI_CONTEXT_SIZE, "a buffer of %llu bytes, the binary has %llu",
                        (unsigned long long)cap, (unsigned long long)bytes);
    uint32_t n = 0;
    for (const ref_data *d = c->data; d != NULL; d = d->next)
        n++;
    uint64_t *at = calloc(n + 1, sizeof *at);
    if (at == NULL)
        return ABI_MEM_ALLOC;
    sink s = {.to = to, .cap = cap};
    put_header(&s, c, 0, bytes);
    put_values(&s, c, at);
    uint64_t meta_at = s.at;
    put_meta(&s, c, at);
    sink again = {.to = to, .cap = cap};
    put_header(&again, c, meta_at, bytes);
    free(at);
    uint8_t hash[32];
    if (fy_sha256_of(to, bytes, hash, NULL) != 0)
        return ABI_MEM_ALLOC;
    memcpy(to + offsetof(ref_blob_header, hash), hash, sizeof hash);
    *written = bytes;
    return 0;
}
