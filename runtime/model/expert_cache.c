/* An LRU of experts: a list of those that are held, the last used one first, and how many bytes
 * their pages have. A page that two of them share counts for both. */
#include "model/expert_cache.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "model/weights.h"

enum { N_PARTS = 3 };
static const fy_slot parts[N_PARTS] = {FY_T_FFN_GATE_EXPS, FY_T_FFN_UP_EXPS, FY_T_FFN_DOWN_EXPS};

/* Of the ring of those that are held. */
typedef struct {
    uint32_t next, prev;
    bool held;
} place;

/* A matrix of all experts of a layer. */
typedef struct {
    size_t file;
    uint64_t offset;
} origin;

struct fy_expert_cache {
    const fy_model *m; /* view */
    pthread_mutex_t lock;
    uint64_t room, used; /* bytes; room: there is as much more as a token needs in one layer */
    fy_expert_counts counts;
    place *places;   /* owned: [1 + layer * n_expert + expert]; 0 is where the ring begins */
    origin *origins; /* owned: [layer][N_PARTS] */
    int *fds;        /* owned: [fy_gguf_n_files] */
};

/* --- pages ----------------------------------------------------------------------------------- */

static bool has_experts(const fy_model *m, uint32_t layer)
{
    return fy_bound(&m->layers[layer], FY_T_FFN_GATE_EXPS);
}

static size_t matrix_bytes(const fy_matrix *w)
{
    return (size_t)w->n_rows * w->row_bytes;
}

static fy_mapped part_of(const fy_model *m, uint32_t id, int part)
{
    const uint32_t n = m->hp.n_expert;
    const fy_matrix w = fy_expert_of(&m->layers[(id - 1) / n].w[parts[part]], (id - 1) % n, n);
    return (fy_mapped){.p = w.data, .n = matrix_bytes(&w), .fd = -1};
}

static uint64_t expert_bytes(const fy_model *m, uint32_t id)
{
    uint64_t bytes = 0;
    for (int i = 0; i < N_PARTS; i++) {
        const fy_mapped part = part_of(m, id, i);
        bytes += fy_mapped_page_bytes(&part);
    }
    return bytes;
}

static bool is_held(const fy_expert_cache *c, uint32_t id)
{
    return c->places[id].held;
}

/* Pages that it shares stay while somebody needs them: the expert next to it, or what is not an
 * expert. */
static void give_back(const fy_expert_cache *c, uint32_t id)
{
    const uint32_t n = c->m->hp.n_expert, layer = (id - 1) / n, expert = (id - 1) % n;
    const bool first = expert > 0 && !is_held(c, id - 1),
               last = expert + 1 < n && !is_held(c, id + 1);
    for (int i = 0; i < N_PARTS; i++) {
        const origin *o = &c->origins[layer * N_PARTS + (uint32_t)i];
        fy_mapped part = part_of(c->m, id, i);
        part.fd = c->fds[o->file];
        part.offset = o->offset + (uint64_t)expert * part.n;
        fy_mapped_drop(&part, first ? part.n : 0, last ? part.n : 0);
    }
}

/* --- the list -------------------------------------------------------------------------------- */

static void take_out(fy_expert_cache *c, uint32_t id)
{
    place *p = &c->places[id];
    c->places[p->prev].next = p->next;
    c->places[p->next].prev = p->prev;
    p->held = false;
}

static void put_first(fy_expert_cache *c, uint32_t id)
{
    const uint32_t next = c->places[0].next;
    c->places[id] = (place){.next = next, .held = true};
    c->places[next].prev = id;
    c->places[0].next = id;
}

static void drop_last(fy_expert_cache *c)
{
    const uint32_t id = c->places[0].prev;
    assert(id != 0);
    take_out(c, id);
    c->used -= expert_bytes(c->m, id);
    give_back(c, id);
}

static void read_in(fy_expert_cache *c, uint32_t id)
{
    const uint64_t bytes = expert_bytes(c->m, id);
    for (int i = 0; i < N_PARTS; i++) {
        const fy_mapped part = part_of(c->m, id, i);
        fy_mapped_ask(&part);
    }
    put_first(c, id);
    c->used += bytes;
    c->counts.n_read++;
    c->counts.bytes_read += bytes;
}

/* First those that are held, so that none of them makes room for another. Others are dropped while
 * the storage reads. */
void fy_expert_cache_want(fy_expert_cache *c, uint32_t layer, const int32_t *experts, uint32_t n)
{
    const uint32_t first = 1 + layer * c->m->hp.n_expert;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = first + (uint32_t)experts[i];
        if (!is_held(c, id))
            continue;
        take_out(c, id);
        put_first(c, id);
        c->counts.n_held++;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = first + (uint32_t)experts[i];
        if (!is_held(c, id))
            read_in(c, id);
    }
    while (c->used > c->room)
        drop_last(c);
    pthread_mutex_unlock(&c->lock);
}

bool fy_expert_cache_holds(const fy_expert_cache *c, uint32_t layer, uint32_t expert)
{
    return is_held(c, 1 + layer * c->m->hp.n_expert + expert);
}

/* --- the limit ------------------------------------------------------------------------------- */

typedef struct {
    uint64_t total;  /* bytes of all weights */
    uint64_t always; /* of them, what is not experts, and the pages at either end of those */
    uint64_t least;  /* of the experts that a token uses, in the layer where they are largest */
    uint32_t n_experts;
} sizes;

static sizes sizes_of(const fy_model *m)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    sizes s = {0};
    uint64_t experts = 0, largest = 0;
    for (size_t i = 0; i < fy_gguf_n_tensors(m->gguf); i++)
        s.total += fy_gguf_tensor_at(m->gguf, i)->bytes;
    for (uint32_t layer = 0; layer < m->hp.n_layer && m->hp.n_expert > 0; layer++) {
        if (!has_experts(m, layer))
            continue;
        s.always += 2 * N_PARTS * page;
        s.n_experts += m->hp.n_expert;
        for (int i = 0; i < N_PARTS; i++)
            experts += matrix_bytes(&m->layers[layer].w[parts[i]]);
        for (uint32_t e = 0; e < m->hp.n_expert; e++) {
            const uint64_t bytes = expert_bytes(m, 1 + layer * m->hp.n_expert + e);
            largest = bytes > largest ? bytes : largest;
        }
    }
    s.always += s.total - experts;
    s.least = largest * m->hp.n_expert_used;
    return s;
}

static double megabytes(uint64_t bytes)
{
    return (double)bytes * 1e-6;
}

static int check(const fy_model *m, uint64_t bytes, const sizes *s, fy_err *e)
{
    const char *path = fy_gguf_path(m->gguf);
    if (s->n_experts == 0)
        return fy_fail(
            e, FY_EFIT,
            "%s: its weights take %.1f MB, more than the %.1f MB of --memory, and it has "
            "no experts, which could be read when they are needed",
            path, megabytes(s->total), megabytes(bytes));
    const uint64_t sum = s->always + 2 * s->least, needed = sum < s->total ? sum : s->total;
    if (bytes >= needed)
        return 0;
    return fy_fail(
        e, FY_EFIT,
        "%s: --memory allows %.1f MB, but the weights that are always needed take %.1f "
        "MB and the %u experts of a token in one layer %.1f MB, twice: use --memory %lluK "
        "or more",
        path, megabytes(bytes), megabytes(s->always), m->hp.n_expert_used, megabytes(s->least),
        (unsigned long long)((needed + 1023) >> 10));
}

static void read_alone(const fy_model *m)
{
    for (uint32_t layer = 0; layer < m->hp.n_layer; layer++) {
        for (int i = 0; i < N_PARTS && has_experts(m, layer); i++) {
            const fy_matrix *w = &m->layers[layer].w[parts[i]];
            fy_mapped_alone(&(fy_mapped){.p = w->data, .n = matrix_bytes(w), .fd = -1});
        }
    }
}

/* A file that cannot be opened once more keeps its pages in the system's cache. */
static void find_origins(fy_expert_cache *c)
{
    const fy_gguf *g = c->m->gguf;
    for (size_t i = 0; i < fy_gguf_n_files(g); i++)
        c->fds[i] = open(fy_gguf_file_path(g, i), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    for (uint32_t layer = 0; layer < c->m->hp.n_layer; layer++) {
        for (int part = 0; part < N_PARTS; part++) {
            const void *data = c->m->layers[layer].w[parts[part]].data;
            size_t i = 0;
            while (i < fy_gguf_n_tensors(g) && fy_gguf_tensor_at(g, i)->data != data)
                i++;
            if (i == fy_gguf_n_tensors(g))
                continue;
            const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
            c->origins[layer * N_PARTS + (uint32_t)part] =
                (origin){t->file, fy_gguf_tensor_at_byte(g, t)};
        }
    }
}

static fy_expert_cache *new_cache(const fy_model *m, uint64_t room, fy_err *e)
{
    const size_t n_layer = m->hp.n_layer;
    fy_expert_cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *c = (fy_expert_cache){.m = m,
                           .room = room,
                           .places = calloc(n_layer * m->hp.n_expert + 1, sizeof *c->places),
                           .origins = calloc(n_layer * N_PARTS, sizeof *c->origins),
                           .fds = calloc(fy_gguf_n_files(m->gguf), sizeof *c->fds)};
    pthread_mutex_init(&c->lock, NULL);
    if (c->places != NULL && c->origins != NULL && c->fds != NULL) {
        find_origins(c);
        return c;
    }
    free(c->fds);
    c->fds = NULL;
    fy_expert_cache_free(c);
    fy_nomem(e);
    return NULL;
}

int fy_model_limit_memory(fy_model *m, uint64_t bytes, fy_err *e)
{
    if (m->chain != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: --memory is for whole models, and this one was cut",
                       fy_gguf_path(m->gguf));
    const sizes s = sizes_of(m);
    if (bytes >= s.total)
        return 0;
    if (check(m, bytes, &s, e) != 0)
        return -1;
    m->experts = new_cache(m, bytes - s.always - s.least, e);
    if (m->experts == NULL)
        return -1;
    read_alone(m);
    fy_log(FY_LOG_INFO, "%.1f MB are always needed, %.1f MB hold experts, of %.1f MB",
           megabytes(s.always), megabytes(bytes - s.always), megabytes(s.total - s.always));
    return 0;
}

void fy_expert_cache_free(fy_expert_cache *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; c->fds != NULL && i < fy_gguf_n_files(c->m->gguf); i++) {
        if (c->fds[i] >= 0)
            close(c->fds[i]);
    }
    free(c->fds);
    free(c->origins);
    free(c->places);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

fy_expert_counts fy_model_expert_counts(const fy_model *m)
{
    fy_expert_cache *c = m->experts;
    if (c == NULL)
        return (fy_expert_counts){0};
    pthread_mutex_lock(&c->lock);
    const fy_expert_counts counts = c->counts;
    pthread_mutex_unlock(&c->lock);
    return counts;
}
