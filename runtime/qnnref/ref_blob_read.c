/* Reads a container (ref_blob.h) of anybody: every count is held against the bytes that are left,
 * and every node is checked as if it were added, so that what is read can be executed. */
#include "qnnref/ref_blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "qnnref/ref_impl.h"

typedef struct {
    const uint8_t *p, *file;
    uint64_t at, n, file_bytes;
    bool bad;      /* sticky: reads give 0 from then on */
    bool describe; /* values are not copied */
    ref_data **data;
    ref_quant *quants; /* of the values */
    uint32_t n_data;
} source;

static const uint8_t *take(source *s, uint64_t n)
{
    if (s->bad || n > s->n - s->at) {
        s->bad = true;
        return NULL;
    }
    s->at += n;
    return s->p + s->at - n;
}

static uint32_t get32(source *s)
{
    const uint8_t *b = take(s, 4);
    return b == NULL
               ? 0
               : (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t get64(source *s)
{
    uint64_t low = get32(s);
    return low | (uint64_t)get32(s) << 32;
}

/* A count of things that take at least `each` bytes. */
static uint32_t get_count(source *s, uint64_t each)
{
    uint32_t n = get32(s);
    if (!s->bad && n > (s->n - s->at) / each)
        s->bad = true;
    return s->bad ? 0 : n;
}

/* A text of its own, NULL when bad. */
static char *get_text(source *s)
{
    uint32_t n = get_count(s, 1);
    const uint8_t *b = take(s, n);
    if (b == NULL || n == 0 || n > 4096 || memchr(b, '\0', n) != NULL) {
        s->bad = true;
        return NULL;
    }
    char *text = strndup((const char *)b, n);
    s->bad = text == NULL;
    return text;
}

static float get_float(source *s)
{
    uint32_t bits = get32(s);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void get_factors(source *s, ref_quant *q)
{
    uint64_t n = (uint64_t)q->n * q->n_blocks;
    bool small = get32(s) != 0;
    uint64_t bytes = small ? (n + 1) / 2 : 2 * n;
    const uint8_t *b = take(s, bytes);
    q->block_scales = b != NULL ? malloc(n * sizeof *q->block_scales) : NULL;
    s->bad = s->bad || q->block_scales == NULL;
    for (uint64_t i = 0; !s->bad && i < n; i++) {
        unsigned v = small ? 1u + ((unsigned)b[i / 2] >> (i % 2 * 4) & 15u)
                           : b[2 * i] | (unsigned)b[2 * i + 1] << 8;
        q->block_scales[i] = (uint16_t)v;
    }
}

static void get_quant(source *s, ref_quant *q)
{
    *q = (ref_quant){.definition = get32(s), .encoding = get32(s)};
    q->one.scale = get_float(s);
    q->one.offset = (int32_t)get32(s);
    q->axis = (int32_t)get32(s);
    q->bits = get32(s);
    q->n = get_count(s, 4);
    q->n_blocks = get32(s);
    bool offsets = get32(s) != 0;
    for (int i = 0; i < REF_MAX_RANK; i++)
        q->block[i] = get32(s);
    if (q->n == 0 || s->bad)
        return;
    q->scales = malloc(q->n * sizeof *q->scales);
    q->offsets = offsets ? malloc(q->n * sizeof *q->offsets) : NULL;
    s->bad = q->scales == NULL || (offsets && q->offsets == NULL);
    for (uint32_t i = 0; !s->bad && i < q->n; i++)
        q->scales[i] = get_float(s);
    for (uint32_t i = 0; !s->bad && offsets && i < q->n; i++)
        q->offsets[i] = (int32_t)get32(s);
    if (q->n_blocks > 0 && !s->bad)
        get_factors(s, q);
}

static void *copy_of(const void *p, size_t n, bool *bad)
{
    void *c = p != NULL ? malloc(n) : NULL;
    if (c != NULL)
        memcpy(c, p, n);
    *bad = *bad || (p != NULL && c == NULL);
    return c;
}

static void dup_quant(source *s, ref_quant *to, const ref_quant *q)
{
    *to = *q;
    to->scales = copy_of(q->scales, q->n * sizeof *q->scales, &s->bad);
    to->offsets = copy_of(q->offsets, q->n * sizeof *q->offsets, &s->bad);
    to->block_scales =
        copy_of(q->block_scales, (size_t)q->n * q->n_blocks * sizeof *q->block_scales, &s->bad);
}

/* The encoding fits the tensor, as ref_tensor_read demands. */
static bool good_quant(const ref_tensor *t)
{
    const ref_quant *q = &t->quant;
    uint64_t n = 1;
    if (q->definition == ABI_UNDEFINED)
        return q->encoding == ABI_UNDEFINED && q->scales == NULL && !ref_is_fixed(t->data_type);
    if (q->definition != ABI_DEFINED)
        return false;
    switch (q->encoding) {
    case ABI_SCALE_OFFSET:
    case ABI_BW:
        return q->scales == NULL && q->n_blocks == 0;
    case ABI_AXIS:
    case ABI_BW_AXIS:
        return q->axis >= 0 && (uint32_t)q->axis < t->rank && q->scales != NULL &&
               q->n == t->dims[q->axis] && q->n_blocks == 0;
    case ABI_BLOCKWISE: {
        if (q->axis < 0 || (uint32_t)q->axis >= t->rank || t->rank < 2 || q->scales == NULL ||
            q->n != t->dims[q->axis] || q->block_scales == NULL)
            return false;
        uint32_t depth = q->axis == 0 ? t->dims[t->rank - 1] : t->dims[q->axis - 1];
        return depth % q->n_blocks == 0;
    }
    case ABI_BLOCK:
        for (uint32_t i = 0; i < t->rank; i++) {
            if (q->block[i] == 0 || t->dims[i] % q->block[i] != 0)
                return false;
            n *= t->dims[i] / q->block[i];
        }
        return q->scales != NULL && q->n == n && q->n_blocks == 0;
    default:
        return false;
    }
}

static bool get_shape(source *s, ref_tensor *t)
{
    uint32_t bytes = ref_type_bytes(t->data_type);
    t->rank = get32(s);
    if (bytes == 0 || t->rank < 1 || t->rank > REF_MAX_RANK)
        return false;
    t->n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        t->dims[i] = get32(s);
        if (t->dims[i] == 0 || t->n > UINT32_MAX / bytes / t->dims[i])
            return false;
        t->n *= t->dims[i];
    }
    t->bytes = t->n * bytes;
    return true;
}

static void get_tensor(source *s, ref_graph *g)
{
    ref_tensor *t = calloc(1, sizeof *t);
    if (t == NULL || ref_graph_tensor(g, t) != 0) {
        free(t);
        s->bad = true;
        return;
    }
    t->name = get_text(s);
    t->id = get32(s);
    t->type = get32(s);
    t->data_type = get32(s);
    t->mem_type = get32(s);
    bool ordered = g->n_tensors < 2 || g->tensors[g->n_tensors - 2]->id < t->id;
    s->bad = s->bad || !get_shape(s, t) || !ordered || t->id == 0 || t->type > ABI_STATIC ||
             t->type == ABI_APP_READWRITE || t->mem_type > ABI_MEMHANDLE;
    uint32_t number = get32(s);
    if (s->bad)
        return;
    if (number == (uint32_t)REF_NONE32) {
        get_quant(s, &t->quant);
    } else if (number < s->n_data) {
        t->data = s->data[number];
        t->data->users++;
        dup_quant(s, &t->quant, &s->quants[number]);
    } else {
        s->bad = true;
    }
    bool packed = t->data != NULL && t->data->packed;
    uint64_t bytes = packed ? (t->n + 1) / 2 : t->bytes;
    s->bad = s->bad || !good_quant(t) || (t->type == ABI_STATIC) != (t->data != NULL) ||
             (t->data != NULL && t->data->bytes != bytes) ||
             (packed && (t->data_type != ABI_S8 || t->quant.bits != 4));
}

/* --- nodes --- */

static void get_params(source *s, ref_node *n)
{
    for (uint32_t i = 0; i < REF_MAX_PARAMS && n->op->params[i].name != NULL; i++) {
        const ref_param_spec *spec = &n->op->params[i];
        ref_param *p = &n->params[i];
        p->n = get_count(s, 4);
        p->dims[0] = get32(s);
        p->dims[1] = get32(s);
        p->given = p->n > 0;
        uint64_t want = spec->rank == 0   ? 1
                        : spec->rank == 1 ? p->dims[0]
                                          : (uint64_t)p->dims[0] * p->dims[1];
        if ((spec->required && !p->given) || (p->given && p->n != want))
            s->bad = true;
        p->words = p->given && !s->bad ? malloc(p->n * sizeof *p->words) : NULL;
        s->bad = s->bad || (p->given && p->words == NULL);
        for (uint32_t k = 0; !s->bad && k < p->n; k++)
            p->words[k] = get32(s);
    }
}

/* Inputs were written before, outputs never. */
static void get_places(source *s, ref_graph *g, ref_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t id = get32(s);
        ref_tensor *t = ref_graph_find(g, id);
        bool absent = id == 0 && ref_may_be_absent(n->op, i);
        bool ready = t != NULL && (t->type == ABI_APP_WRITE || t->type == ABI_STATIC || t->written);
        s->bad = s->bad || (!absent && !ready);
        n->in[i] = t;
        if (t != NULL)
            t->used = true;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        ref_tensor *t = ref_graph_find(g, get32(s));
        s->bad =
            s->bad || t == NULL || t->written || (t->type != ABI_NATIVE && t->type != ABI_APP_READ);
        n->out[i] = t;
        if (t != NULL)
            t->written = true;
    }
}

static void get_node(source *s, ref_graph *g, const ref_blob_head *head)
{
    ref_node *n = &g->nodes[g->n_nodes++];
    *n = (ref_node){.arch = head->arch, .sdk = ref_release_now()->sdk};
    n->name = get_text(s);
    char *op = get_text(s);
    n->op = op != NULL ? ref_op_find(op) : NULL;
    free(op);
    n->n_in = get_count(s, 4);
    n->n_out = get_count(s, 4);
    s->bad = s->bad || n->op == NULL || n->n_in < n->op->min_inputs ||
             n->n_in > n->op->max_inputs || n->n_out < 1 || n->n_out > n->op->max_outputs;
    if (s->bad)
        return;
    n->in = calloc(n->n_in + 1, sizeof(ref_tensor *));
    n->out = calloc(n->n_out, sizeof(ref_tensor *));
    s->bad = n->in == NULL || n->out == NULL;
    if (!s->bad)
        get_places(s, g, n);
    if (!s->bad)
        get_params(s, n);
    s->bad = s->bad || n->op->check(n) != 0 || ref_rules_check(n) != 0;
}

static void get_graph(source *s, ref_context *c, const ref_blob_head *head)
{
    char *name = get_text(s);
    ref_graph *g = name != NULL ? ref_graph_new(c, name) : NULL;
    free(name);
    if (g == NULL) {
        s->bad = true;
        return;
    }
    g->from_binary = true;
    g->vtcm_bytes = get32(s);
    g->optimization = get32(s);
    g->precision = get32(s);
    g->dlbc = get32(s) != 0;
    g->hvx_threads = get64(s);
    g->spill_bytes = get64(s);
    uint32_t n_tensors = get_count(s, 24), n_nodes = get_count(s, 16);
    for (uint32_t i = 0; i < n_tensors && !s->bad; i++)
        get_tensor(s, g);
    g->nodes = s->bad || n_nodes == 0 ? NULL : calloc(n_nodes, sizeof *g->nodes);
    s->bad = s->bad || g->nodes == NULL;
    for (uint32_t i = 0; i < n_nodes && !s->bad; i++)
        get_node(s, g, head);
    for (uint32_t i = 0; i < g->n_tensors && !s->bad; i++)
        s->bad = g->tensors[i]->type == ABI_APP_READ && !g->tensors[i]->written;
    if (!s->bad)
        ref_graph_ready(g);
}

/* --- values --- */

static void get_data(source *s, ref_context *c, uint32_t i)
{
    uint64_t at = get64(s), bytes = get64(s);
    ref_data *d = calloc(1, sizeof *d);
    if (d == NULL) {
        s->bad = true;
        return;
    }
    d->bytes = bytes;
    d->packed = get32(s) != 0;
    d->next = c->data;
    c->data = d;
    s->data[i] = d;
    get_quant(s, &s->quants[i]);
    if (s->bad || bytes == 0 || at % 64 != 0 || at < sizeof(ref_blob_header) ||
        at > s->file_bytes || bytes > s->file_bytes - at)
        s->bad = true;
    else if (s->describe)
        d->p = NULL;
    else if (ref_context_room(c, d) != 0)
        s->bad = true;
    else
        memcpy(d->p, s->file + at, bytes);
}

static abi_error get_all(source *s, ref_context *c, const ref_blob_head *head)
{
    s->n_data = get_count(s, 36);
    uint32_t n_graphs = get_count(s, 32);
    c->next_id = get32(s);
    s->data = calloc(s->n_data + 1, sizeof(ref_data *));
    s->quants = calloc(s->n_data + 1, sizeof *s->quants);
    s->bad = s->bad || s->data == NULL || s->quants == NULL || n_graphs == 0;
    for (uint32_t i = 0; i < s->n_data && !s->bad; i++)
        get_data(s, c, i);
    for (uint32_t i = 0; i < n_graphs && !s->bad; i++)
        get_graph(s, c, head);
    bool bad = s->bad || s->at != s->n;
    for (uint32_t i = 0; s->quants != NULL && i < s->n_data; i++)
        ref_quant_release(&s->quants[i]);
    free(s->data);
    free(s->quants);
    return bad ? ref_fail(ABI_SYSTEM_MALFORMED, "the binary is malformed") : 0;
}

/* --- header --- */

static abi_error check_hash(const ref_blob_header *h, const uint8_t *p, uint64_t n)
{
    static const uint8_t zeros[32];
    uint8_t hash[32];
    size_t at = offsetof(ref_blob_header, hash);
    fy_sha256 *x = fy_sha256_new(NULL);
    if (x == NULL)
        return ABI_MEM_ALLOC;
    bool ok = fy_sha256_add(x, p, at, NULL) == 0 &&
              fy_sha256_add(x, zeros, sizeof zeros, NULL) == 0 &&
              fy_sha256_add(x, p + at + 32, n - at - 32, NULL) == 0;
    if (fy_sha256_end(x, hash, NULL) != 0 || !ok)
        return ABI_MEM_ALLOC;
    return memcmp(hash, h->hash, sizeof hash) == 0
               ? 0
               : ref_fail(ABI_SYSTEM_MALFORMED, "the binary is damaged: its hash differs");
}

static abi_error read_header(ref_blob_head *head, ref_blob_header *h, const uint8_t *p, uint64_t n)
{
    if (n < sizeof *h)
        return ref_fail(ABI_SYSTEM_MALFORMED, "a binary of %llu bytes", (unsigned long long)n);
    memcpy(h, p, sizeof *h);
    if (memcmp(h->text, REF_BLOB_TEXT, sizeof REF_BLOB_TEXT) != 0 || h->version != REF_BLOB_VERSION)
        return ref_fail(ABI_SYSTEM_HANDLE,
                        "not a binary of the reference library, or another version");
    if (h->bytes != n || h->meta_at < sizeof *h || h->meta_at >= n ||
        h->build_id[sizeof h->build_id - 1] != '\0')
        return ref_fail(ABI_SYSTEM_MALFORMED, "the binary has %llu bytes, its header says %llu",
                        (unsigned long long)n, (unsigned long long)h->bytes);
    *head = (ref_blob_head){.core = {h->core[0], h->core[1], h->core[2]},
                            .backend = {h->backend[0], h->backend[1], h->backend[2]},
                            .blob = {h->blob[0], h->blob[1], h->blob[2]},
                            .soc = h->soc,
                            .arch = h->arch,
                            .vtcm_mb = h->vtcm_mb,
                            .flags = h->flags};
    memcpy(head->build_id, h->build_id, sizeof head->build_id);
    return check_hash(h, p, n);
}

/* c->soc is the device's, or has id 0 for the system library, which takes all. */
static abi_error check_device(const ref_context *c, const ref_blob_head *head)
{
    const ref_release *r = ref_release_now();
    if (head->backend.minor > r->backend.minor || head->blob.major > r->blob.major)
        return ref_fail(ABI_CONTEXT_ARGUMENT, "the binary is of SDK 2.%u, this library of 2.%u",
                        head->backend.minor, r->backend.minor);
    if (c->soc.id == 0)
        return 0;
    if (head->arch != c->soc.arch || head->vtcm_mb > c->soc.vtcm_mb)
        return ref_fail(ABI_CONTEXT_CREATE,
                        "the binary is for V%u with %u MB of VTCM, this is V%u, %u MB", head->arch,
                        head->vtcm_mb, c->soc.arch, c->soc.vtcm_mb);
    if ((head->flags & REF_BLOB_SHARED) != 0 && ref_fault("reload", "refuse") != NULL)
        return ref_fail(ABI_UNSUPPORTED, "shared weights cannot be loaded here");
    return 0;
}

abi_error ref_blob_read(ref_context *c, ref_blob_head *head, const uint8_t *p, uint64_t n)
{
    ref_blob_header h;
    abi_error code = read_header(head, &h, p, n);
    if (code == 0)
        code = check_device(c, head);
    if (code != 0)
        return code;
    source s = {.describe = c->soc.id == 0,
                .p = p + h.meta_at,
                .n = n - h.meta_at,
                .file = p,
                .file_bytes = h.meta_at};
    c->sharing = (head->flags & REF_BLOB_SHARED) != 0;
    return get_all(&s, c, head);
}
