#include "format/gguf_write.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/math.h"
#include "base/names.h"
#include "base/quote.h"

#define PIECE_BYTES      (1u << 20)  /* output that one thread fills at a time */
#define BUFFERS_BYTES    (24u << 20) /* of all threads together, unless a single row is larger */
#define BUFFER_ALIGNMENT 64
#define PART_BYTES       (256u << 10)
#define MAX_KEY_BYTES    65535 /* GGUF spec */

/* Encoded keys, in parts that never move: no copy and no second buffer for a large vocabulary. */
typedef struct part {
    struct part *next; /* owned */
    size_t used;
    uint8_t data[PART_BYTES];
} part;

struct fy_gguf_writer {
    part *first, *last; /* owned; freed once they are written */
    uint64_t kv_bytes, n_kv;
    uint8_t *string_count; /* view of a part: the count of the open string array; NULL: none */
    uint64_t n_strings;
    uint64_t alignment;
    fy_names keys, names;
    fy_arena arena;          /* names and tensors */
    fy_gguf_tensor **tensor; /* owned; the tensors live in the arena */
    size_t n_tensors, tensor_cap;
    uint64_t info_bytes, data_bytes; /* data_bytes: padded */
    bool broken;                     /* an allocation failed half way through a key */
    bool written;
};

fy_gguf_writer *fy_gguf_writer_new(fy_err *e)
{
    fy_gguf_writer *w = calloc(1, sizeof *w);
    if (w == NULL) {
        fy_nomem(e);
        return NULL;
    }
    w->alignment = FY_GGUF_ALIGNMENT;
    return w;
}

static void free_parts(fy_gguf_writer *w)
{
    while (w->first != NULL) {
        part *next = w->first->next;
        free(w->first);
        w->first = next;
    }
    w->last = NULL;
}

void fy_gguf_writer_free(fy_gguf_writer *w)
{
    if (w == NULL)
        return;
    free_parts(w);
    fy_names_release(&w->keys);
    fy_names_release(&w->names);
    fy_arena_release(&w->arena);
    free(w->tensor);
    free(w);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* n bytes in one piece (n <= PART_BYTES), or NULL. */
static uint8_t *reserve(fy_gguf_writer *w, size_t n)
{
    if (w->last == NULL || PART_BYTES - w->last->used < n) {
        part *p = malloc(sizeof *p);
        if (p == NULL) {
            w->broken = true;
            return NULL;
        }
        p->next = NULL;
        p->used = 0;
        if (w->last != NULL)
            w->last->next = p;
        else
            w->first = p;
        w->last = p;
    }
    uint8_t *at = w->last->data + w->last->used;
    w->last->used += n;
    w->kv_bytes += n;
    return at;
}

static void put(fy_gguf_writer *w, const void *bytes, uint64_t n)
{
    const uint8_t *from = bytes;
    while (n > 0 && !w->broken) {
        size_t space = w->last != NULL ? PART_BYTES - w->last->used : 0;
        size_t step = space > 0 ? space : PART_BYTES;
        if (step > n)
            step = (size_t)n;
        uint8_t *to = reserve(w, step);
        if (to == NULL)
            return;
        memcpy(to, from, step);
        from += step;
        n -= step;
    }
}

static void put_u32(fy_gguf_writer *w, uint32_t v)
{
    put(w, &v, sizeof v);
}

static void put_string(fy_gguf_writer *w, fy_span s)
{
    uint64_t n = s.len;
    put(w, &n, sizeof n);
    put(w, s.ptr, n);
}

static int check_open(const fy_gguf_writer *w, const char *what, fy_err *e)
{
    if (w->broken)
        return fy_nomem(e);
    if (w->written)
        return fy_fail(e, FY_EARG, "%s: the file is already written", what);
    if (w->string_count != NULL)
        return fy_fail(e, FY_EARG, "%s: a string array is still open", what);
    return 0;
}

/* Key and value type. */
static int begin_key(fy_gguf_writer *w, fy_span key, fy_kv_type type, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, key);
    if (check_open(w, shown, e) != 0)
        return -1;
    if (key.len == 0 || key.len > MAX_KEY_BYTES)
        return fy_fail(e, FY_EARG, "key '%s' has %zu bytes, expected 1 to %d", shown, key.len,
                       MAX_KEY_BYTES);
    char *copy = fy_arena_strndup(&w->arena, key.ptr, key.len);
    int rc =
        copy != NULL ? fy_names_add(&w->keys, (fy_span){copy, key.len}, (uint32_t)w->n_kv) : -1;
    if (rc < 0)
        return fy_nomem(e);
    if (rc > 0)
        return fy_fail(e, FY_EARG, "key '%s' is added twice", shown);
    w->n_kv++;
    put_string(w, key);
    put_u32(w, type);
    return 0;
}

/* The keys we name ourselves; those copied from other files may look as they like. */
static int begin_own_key(fy_gguf_writer *w, const char *key, fy_kv_type type, fy_err *e)
{
    for (const char *p = key; *p != '\0'; p++) {
        if (*p <= 0x20 || *p >= 0x7f) {
            char shown[FY_QUOTE_BYTES];
            return fy_fail(e, FY_EARG,
                           "key '%s' is malformed, expected printable ASCII without blanks",
                           fy_quote(shown, sizeof shown, fy_span_of(key)));
        }
    }
    return begin_key(w, fy_span_of(key), type, e);
}

static int end_key(const fy_gguf_writer *w, fy_err *e)
{
    return w->broken ? fy_nomem(e) : 0;
}

/* Called for every key before it is added: general.alignment is the one that this writer obeys
 * itself. */
static int obey(fy_gguf_writer *w, fy_span key, fy_kv_type type, const void *v, fy_err *e)
{
    if (!fy_span_is(key, FY_KEY_ALIGNMENT))
        return 0;
    if (type != FY_KV_U32)
        return fy_fail(e, FY_EARG, "key 'general.alignment': type %s, expected u32",
                       fy_kv_type_name(type));
    uint32_t alignment = fy_le32(v);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return fy_fail(e, FY_EARG, "general.alignment is %" PRIu32 ", expected a power of two",
                       alignment);
    if (w->n_tensors > 0)
        return fy_fail(e, FY_EARG, "general.alignment must be set before the first tensor");
    w->alignment = alignment;
    return 0;
}

static int add_scalar(fy_gguf_writer *w, const char *key, fy_kv_type type, const void *v, fy_err *e)
{
    if (obey(w, fy_span_of(key), type, v, e) != 0 || begin_own_key(w, key, type, e) != 0)
        return -1;
    put(w, v, fy_kv_type_bytes(type));
    return end_key(w, e);
}

int fy_gguf_add_u32(fy_gguf_writer *w, const char *key, uint32_t v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_U32, &v, e);
}

int fy_gguf_add_i32(fy_gguf_writer *w, const char *key, int32_t v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_I32, &v, e);
}

int fy_gguf_add_f32(fy_gguf_writer *w, const char *key, float v, fy_err *e)
{
    return add_scalar(w, key, FY_KV_F32, &v, e);
}

int fy_gguf_add_bool(fy_gguf_writer *w, const char *key, bool v, fy_err *e)
{
    uint8_t byte = v;
    return add_scalar(w, key, FY_KV_BOOL, &byte, e);
}

int fy_gguf_add_str(fy_gguf_writer *w, const char *key, fy_span v, fy_err *e)
{
    if (begin_own_key(w, key, FY_KV_STRING, e) != 0)
        return -1;
    put_string(w, v);
    return end_key(w, e);
}

int fy_gguf_add_array(fy_gguf_writer *w, const char *key, fy_kv_type elem, const void *p,
                      uint64_t n, fy_err *e)
{
    uint64_t bytes;
    if (fy_kv_type_bytes(elem) == 0 || !fy_mul_u64(n, fy_kv_type_bytes(elem), &bytes))
        return fy_fail(e, FY_EARG, "key '%s': array of %" PRIu64 " elements of type %s", key, n,
                       fy_kv_type_name(elem));
    if (begin_own_key(w, key, FY_KV_ARRAY, e) != 0)
        return -1;
    put_u32(w, elem);
    put(w, &n, sizeof n);
    put(w, p, bytes);
    return end_key(w, e);
}

int fy_gguf_begin_strings(fy_gguf_writer *w, const char *key, fy_err *e)
{
    if (begin_own_key(w, key, FY_KV_ARRAY, e) != 0)
        return -1;
    put_u32(w, FY_KV_STRING);
    uint8_t *count = reserve(w, sizeof(uint64_t));
    if (w->broken)
        return fy_nomem(e);
    w->string_count = count;
    w->n_strings = 0;
    return 0;
}

int fy_gguf_add_string(fy_gguf_writer *w, fy_span v, fy_err *e)
{
    if (w->string_count == NULL)
        return fy_fail(e, FY_EARG, "a string without an open string array");
    put_string(w, v);
    w->n_strings++;
    return end_key(w, e);
}

int fy_gguf_end_strings(fy_gguf_writer *w, fy_err *e)
{
    if (w->string_count == NULL)
        return fy_fail(e, FY_EARG, "no string array is open");
    memcpy(w->string_count, &w->n_strings, sizeof w->n_strings);
    w->string_count = NULL;
    return end_key(w, e);
}

int fy_gguf_add_kv(fy_gguf_writer *w, const fy_gguf_kv *kv, fy_err *e)
{
    if (obey(w, kv->key, kv->type, kv->data, e) != 0 || begin_key(w, kv->key, kv->type, e) != 0)
        return -1;
    if (kv->type == FY_KV_ARRAY) {
        put_u32(w, kv->elem);
        put(w, &kv->count, sizeof kv->count);
    }
    put(w, kv->data, kv->bytes);
    return end_key(w, e);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int check_tensor(const fy_gguf_writer *w, fy_gguf_tensor *t, const uint64_t *ne, fy_err *e)
{
    const fy_type_info *info = fy_type_get((uint32_t)t->type);
    if (info == NULL)
        return fy_fail(e, FY_EARG, "type id %d cannot be stored", (int)t->type);
    if (t->name.len == 0 || t->name.len > FY_GGUF_MAX_NAME)
        return fy_fail(e, FY_EARG, "name of %zu bytes, expected 1 to %d", t->name.len,
                       FY_GGUF_MAX_NAME);
    if (t->n_dims > FY_GGUF_MAX_DIMS)
        return fy_fail(e, FY_EARG, "%" PRIu32 " dimensions, at most %d", t->n_dims,
                       FY_GGUF_MAX_DIMS);
    uint64_t n_elems = 1;
    for (uint32_t d = 0; d < FY_GGUF_MAX_DIMS; d++) {
        t->ne[d] = d < t->n_dims ? ne[d] : 1;
        if (t->ne[d] == 0 || !fy_mul_u64(n_elems, t->ne[d], &n_elems) || n_elems > INT64_MAX)
            return fy_fail(e, FY_EARG,
                           "dimension %" PRIu32 " is %" PRIu64
                           ", expected at least 1 and a product below 2^63",
                           d, t->ne[d]);
    }
    if (t->ne[0] % info->block != 0)
        return fy_fail(e, FY_EARG, "rows of %" PRIu64 " elements, but %s needs a multiple of %u",
                       t->ne[0], info->name, info->block);
    t->offset = w->data_bytes;
    uint64_t end, padded;
    if (!fy_mul_u64(n_elems / info->block, info->bytes, &t->bytes) ||
        !fy_add_u64(t->offset, t->bytes, &end) || !fy_align_u64(end, w->alignment, &padded) ||
        padded > INT64_MAX)
        return fy_fail(e, FY_EARG, "%" PRIu64 " elements of type %s do not fit any file", n_elems,
                       info->name);
    return 0;
}

int64_t fy_gguf_add_tensor(fy_gguf_writer *w, const char *name, fy_type type, uint32_t n_dims,
                           const uint64_t *ne, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(name));
    if (check_open(w, shown, e) != 0)
        return -1;
    fy_gguf_tensor t = {.name = fy_span_of(name), .type = type, .n_dims = n_dims};
    if (check_tensor(w, &t, ne, e) != 0)
        return fy_ctx(e, "tensor '%s'", shown);
    char *copy = fy_arena_strndup(&w->arena, name, t.name.len);
    fy_gguf_tensor *kept = fy_arena_alloc(&w->arena, sizeof *kept);
    fy_gguf_tensor **list = fy_grow(w->tensor, w->n_tensors, &w->tensor_cap, sizeof *list);
    w->tensor = list != NULL ? list : w->tensor;
    if (copy == NULL || kept == NULL || list == NULL)
        return fy_nomem(e);
    t.name.ptr = copy;
    int rc = fy_names_add(&w->names, t.name, (uint32_t)w->n_tensors);
    if (rc != 0)
        return rc < 0 ? fy_nomem(e) : fy_fail(e, FY_EARG, "tensor '%s' is added twice", shown);
    *kept = t;
    w->tensor[w->n_tensors++] = kept;
    w->info_bytes += 8 + t.name.len + 4 + 8 * (uint64_t)t.n_dims + 4 + 8;
    uint64_t end = t.offset + t.bytes;
    fy_align_u64(end, w->alignment, &w->data_bytes);
    return (int64_t)(w->n_tensors - 1);
}

const fy_gguf_tensor *fy_gguf_writer_tensor(const fy_gguf_writer *w, int64_t i)
{
    return w->tensor[i];
}

enum { HEADER_BYTES = 4 + 4 + 8 + 8 };

static uint64_t data_begin(const fy_gguf_writer *w)
{
    uint64_t n = HEADER_BYTES + w->kv_bytes + w->info_bytes;
    fy_align_u64(n, w->alignment, &n);
    return n;
}

uint64_t fy_gguf_writer_file_bytes(const fy_gguf_writer *w)
{
    return data_begin(w) + w->data_bytes;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct {
    fy_gguf_writer *w;
    fy_out *out;
    fy_gguf_fill *fill;
    void *user;
    fy_progress *progress;
    uint64_t data_begin;
    uint64_t *first_piece; /* owned: [n_tensors + 1], number of the first piece of each tensor */
    uint8_t *buffers;      /* owned: one per lane */
    size_t buffer_bytes;
    atomic_uint_fast64_t next_piece;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards err */
    fy_err err;           /* the first failure of any thread */
} job;

static uint64_t row_bytes(const fy_gguf_tensor *t)
{
    return fy_type_row_bytes(t->type, t->ne[0]);
}

static uint64_t rows_per_piece(const fy_gguf_tensor *t)
{
    uint64_t n = PIECE_BYTES / row_bytes(t);
    return n > 0 ? n : 1;
}

static uint64_t n_rows(const fy_gguf_tensor *t)
{
    return t->bytes / row_bytes(t);
}

static int write_piece(job *j, uint64_t piece, uint8_t *buffer, int thread, fy_err *e)
{
    size_t lo = 0, hi = j->w->n_tensors; /* first_piece[lo] <= piece < first_piece[hi] */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (j->first_piece[mid] <= piece)
            lo = mid;
        else
            hi = mid;
    }
    const fy_gguf_tensor *t = j->w->tensor[lo];
    uint64_t row = (piece - j->first_piece[lo]) * rows_per_piece(t);
    uint64_t n = n_rows(t) - row;
    if (n > rows_per_piece(t))
        n = rows_per_piece(t);
    uint64_t at = t->offset + row * row_bytes(t), bytes = n * row_bytes(t);
    if (j->fill(j->user, (int64_t)lo, row, n, buffer, thread, e) != 0 ||
        fy_out_pwrite(j->out, buffer, (size_t)bytes, j->data_begin + at, e) != 0)
        return -1;
    uint64_t end = lo + 1 < j->w->n_tensors ? j->w->tensor[lo + 1]->offset : j->w->data_bytes;
    /* The padding behind the last row is zero already, since fy_out_open reserved the file. */
    fy_progress_add(j->progress, row + n == n_rows(t) ? end - at : bytes);
    return 0;
}

/* A lane is a buffer and whoever works with it: there may be fewer lanes than threads when rows are
 * long. */
static void run_lanes(void *ctx, int64_t begin, int64_t end, int thread)
{
    job *j = ctx;
    for (int64_t lane = begin; lane < end; lane++) {
        uint64_t piece, n_pieces = j->first_piece[j->w->n_tensors];
        while (!atomic_load(&j->stop) && (piece = atomic_fetch_add(&j->next_piece, 1)) < n_pieces) {
            fy_err e = {0};
            if (fy_check_interrupt(&e) == 0 &&
                write_piece(j, piece, j->buffers + (size_t)lane * j->buffer_bytes, thread, &e) == 0)
                continue;
            if (e.code == FY_OK)
                fy_fail(&e, FY_EIO, "writing the tensors failed");
            pthread_mutex_lock(&j->lock);
            if (j->err.code == FY_OK)
                j->err = e;
            pthread_mutex_unlock(&j->lock);
            atomic_store(&j->stop, true);
        }
    }
}

/* Cuts the tensors into pieces and allocates the buffers; *n_lanes is how many there are. */
static int plan_pieces(job *j, int n_threads, int *n_lanes, fy_err *e)
{
    const fy_gguf_writer *w = j->w;
    j->first_piece = malloc((w->n_tensors + 1) * sizeof *j->first_piece);
    if (j->first_piece == NULL)
        return fy_nomem(e);
    uint64_t n = 0, largest = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const fy_gguf_tensor *t = w->tensor[i];
        j->first_piece[i] = n;
        n += (n_rows(t) - 1) / rows_per_piece(t) + 1;
        uint64_t bytes =
            rows_per_piece(t) < n_rows(t) ? rows_per_piece(t) * row_bytes(t) : t->bytes;
        if (bytes > largest)
            largest = bytes;
    }
    j->first_piece[w->n_tensors] = n;
    uint64_t lanes = largest > 0 ? BUFFERS_BYTES / largest : 0;
    if (lanes > (uint64_t)n_threads)
        lanes = (uint64_t)n_threads;
    *n_lanes = lanes > 0 ? (int)lanes : 1;
    uint64_t bytes, total;
    if (!fy_align_u64(largest, BUFFER_ALIGNMENT, &bytes) ||
        !fy_mul_u64(bytes, (uint64_t)*n_lanes, &total) || total > SIZE_MAX / 2)
        return fy_nomem(e);
    j->buffer_bytes = (size_t)bytes;
    j->buffers = aligned_alloc(BUFFER_ALIGNMENT, total > 0 ? (size_t)total : BUFFER_ALIGNMENT);
    return j->buffers != NULL ? 0 : fy_nomem(e);
}

static int write_tensors(fy_gguf_writer *w, fy_out *out, fy_gguf_fill *fill, void *user,
                         fy_pool *pool, fy_progress *progress, fy_err *e)
{
    job j = {.w = w,
             .out = out,
             .fill = fill,
             .user = user,
             .progress = progress,
             .data_begin = data_begin(w),
             .lock = PTHREAD_MUTEX_INITIALIZER};
    int n_lanes = 1;
    int rc = plan_pieces(&j, pool != NULL ? fy_pool_threads(pool) : 1, &n_lanes, e);
    if (rc == 0) {
        if (pool != NULL)
            fy_pool_run(pool, n_lanes, 1, run_lanes, &j);
        else
            run_lanes(&j, 0, 1, 0);
        if (j.err.code != FY_OK)
            rc = fy_fail(e, j.err.code, "%s", j.err.msg);
    }
    free(j.first_piece);
    free(j.buffers);
    pthread_mutex_destroy(&j.lock);
    return rc;
}

static void add_info(fy_str *s, const fy_gguf_tensor *t)
{
    uint64_t len = t->name.len;
    uint32_t type = (uint32_t)t->type;
    fy_str_add(s, &len, sizeof len);
    fy_str_add(s, t->name.ptr, t->name.len);
    fy_str_add(s, &t->n_dims, sizeof t->n_dims);
    fy_str_add(s, t->ne, t->n_dims * sizeof t->ne[0]);
    fy_str_add(s, &type, sizeof type);
    fy_str_add(s, &t->offset, sizeof t->offset);
}

static void begin_header(const fy_gguf_writer *w, uint8_t head[HEADER_BYTES])
{
    uint64_t n_tensors = w->n_tensors;
    memcpy(head, "GGUF", 4);
    memcpy(head + 4, &(uint32_t){3}, 4);
    memcpy(head + 8, &n_tensors, 8);
    memcpy(head + 16, &w->n_kv, 8);
}

int fy_gguf_writer_header(const fy_gguf_writer *w, fy_str *out, fy_err *e)
{
    uint8_t head[HEADER_BYTES];
    if (check_open(w, "header", e) != 0)
        return -1;
    begin_header(w, head);
    fy_str_add(out, head, sizeof head);
    for (const part *p = w->first; p != NULL; p = p->next)
        fy_str_add(out, p->data, p->used);
    for (size_t i = 0; i < w->n_tensors; i++)
        add_info(out, w->tensor[i]);
    return out->oom ? fy_nomem(e) : 0;
}

/* Frees the keys on the way: the header is the largest thing in memory during a conversion. */
static int write_header(fy_gguf_writer *w, fy_out *out, fy_err *e)
{
    uint8_t head[HEADER_BYTES];
    uint64_t at = sizeof head;
    begin_header(w, head);
    if (fy_out_pwrite(out, head, sizeof head, 0, e) != 0)
        return -1;
    for (const part *p = w->first; p != NULL; p = p->next) {
        if (fy_out_pwrite(out, p->data, p->used, at, e) != 0)
            return -1;
        at += p->used;
    }
    free_parts(w);
    fy_str infos = {0};
    for (size_t i = 0; i < w->n_tensors; i++)
        add_info(&infos, w->tensor[i]);
    int rc = infos.oom       ? fy_nomem(e)
             : infos.len > 0 ? fy_out_pwrite(out, infos.ptr, infos.len, at, e)
                             : 0;
    fy_str_release(&infos);
    return rc;
}

static int check_space(const char *path, uint64_t need, fy_err *e)
{
    uint64_t available;
    if (fy_file_space(path, &available, e) != 0)
        return -1;
    if (need > available)
        return fy_fail(e, FY_ENOSPACE,
                       "%s: needs %" PRIu64 " bytes, the file system has %" PRIu64
                       " free; free some space or choose another place",
                       path, need, available);
    return 0;
}

int fy_gguf_write(fy_gguf_writer *w, const char *path, fy_gguf_fill *fill, void *user,
                  fy_pool *pool, fy_progress *progress, fy_err *e)
{
    if (check_open(w, path, e) != 0)
        return -1;
    if (fill == NULL && w->n_tensors > 0)
        return fy_fail(e, FY_EARG, "%s: %zu tensors, but nothing to fill them with", path,
                       w->n_tensors);
    uint64_t bytes = fy_gguf_writer_file_bytes(w);
    if (check_space(path, bytes, e) != 0)
        return -1;
    fy_out *out = fy_out_open(path, bytes, e);
    if (out == NULL)
        return -1;
    w->written = true;
    if (write_header(w, out, e) != 0)
        goto fail;
    fy_progress_add(progress, data_begin(w));
    if (w->n_tensors > 0 && write_tensors(w, out, fill, user, pool, progress, e) != 0)
        goto fail;
    if (fy_check_interrupt(e) != 0)
        goto fail;
    return fy_out_commit(out, e);
fail:
    fy_out_abort(out);
    return -1;
}
