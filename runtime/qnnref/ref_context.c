/* Contexts: graphs and the values of their static tensors, which are kept in an unlinked file that
 * is mapped, so that the system can drop them from memory. */
#include "qnnref/ref_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_DATA = 16384 }; /* below this, memory of the heap */

/* Options of contexts; custom ones with the release that has them (fact sheet 3.2). */
enum { WEIGHT_SHARING = 1, MAX_CUSTOM = 12 };
static const uint8_t custom_since[MAX_CUSTOM + 1] = {0,  25, 25, 25, 25, 25, 25,
                                                     36, 36, 36, 36, 36, 36};

static bool zero_from(const uint8_t *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

static abi_error read_custom(ref_context *c, const abi_config *config, bool binary)
{
    const abi_context_custom *x = config->u.custom;
    char number[16];
    if (x == NULL)
        return ref_fail(ABI_CONTEXT_CONFIG, "a custom configuration without data");
    snprintf(number, sizeof number, "%u", x->option);
    if (x->option == 0 || x->option > MAX_CUSTOM ||
        custom_since[x->option] > ref_release_now()->sdk || ref_fault("config", number) != NULL)
        return ref_fail(ABI_CONTEXT_CONFIG, "custom option %u of contexts is not known", x->option);
    if (!zero_from((const uint8_t *)x, 24, 64))
        return ref_fail(ABI_CONTEXT_CONFIG, "custom option %u: reserved bytes are not 0",
                        x->option);
    if (x->option == WEIGHT_SHARING) {
        if (binary)
            return ref_fail(ABI_CONTEXT_CONFIG, "weights are shared when a context is compiled");
        if (x->u.b && c->soc.arch < 73)
            return ref_fail(ABI_UNSUPPORTED, "sharing weights needs V73, this is V%u", c->soc.arch);
        c->sharing = x->u.b;
    }
    return 0;
}

static abi_error read_enabled(ref_context *c, const abi_config *config)
{
    size_t n = 0;
    while (config->u.names != NULL && config->u.names[n] != NULL)
        n++;
    if (n == 0)
        return ref_fail(ABI_CONTEXT_CONFIG, "an empty list of graphs");
    char **names = calloc(n + 1, sizeof *names);
    if (names == NULL)
        return ABI_MEM_ALLOC;
    c->enabled = names;
    for (size_t i = 0; i < n; i++) {
        names[i] = strdup(config->u.names[i]);
        if (names[i] == NULL)
            return ABI_MEM_ALLOC;
    }
    return 0;
}

static abi_error read_config(ref_context *c, const abi_config **config, bool binary)
{
    abi_error code = 0;
    for (size_t i = 0; config != NULL && config[i] != NULL && code == 0; i++) {
        const abi_config *x = config[i];
        switch (x->option) {
        case 0:
            code = read_custom(c, x, binary);
            break;
        case 1:
            if (x->u.u32 != 0 && x->u.u32 != 100 && x->u.u32 != 150 && x->u.u32 != 200)
                code = ref_fail(ABI_CONTEXT_CONFIG, "priority %u", x->u.u32);
            break;
        case 5:
            code = binary ? read_enabled(c, x)
                          : ref_fail(ABI_CONTEXT_CONFIG, "graphs are enabled when one is loaded");
            break;
        case 6:
        case 7:
        case 8:
        case 9:
            break;
        default:
            code = ref_fail(ABI_UNSUPPORTED, "option %u of contexts is not known", x->option);
        }
    }
    return code;
}

void ref_context_release(ref_context *c)
{
    while (c->graphs != NULL) {
        ref_graph *g = c->graphs;
        c->graphs = g->next;
        ref_graph_free(g);
    }
    while (c->data != NULL) {
        ref_data *d = c->data;
        c->data = d->next;
        if (d->mapped)
            munmap(d->p, d->bytes);
        else
            free(d->p);
        free(d);
    }
    for (size_t i = 0; c->enabled != NULL && c->enabled[i] != NULL; i++)
        free(c->enabled[i]);
    free((void *)(uintptr_t)c->enabled);
    if (c->file >= 0)
        close(c->file);
}

static abi_error create(abi_handle backend, abi_handle device, const abi_config **config,
                        const void *binary, uint64_t n, abi_handle *out)
{
    ref_backend *b = ref_find(backend, REF_BACKEND);
    if (b == NULL)
        return ref_fail(ABI_CONTEXT_HANDLE, "contextCreate: this is not a backend");
    if (device != NULL && ref_find(device, REF_DEVICE) == NULL)
        return ref_fail(ABI_DEVICE_HANDLE, "contextCreate: this is not a device");
    if (out == NULL)
        return ref_fail(ABI_CONTEXT_ARGUMENT, "contextCreate: no place for the result");
    ref_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return ABI_MEM_ALLOC;
    c->file = -1;
    c->soc = *ref_soc_now();
    c->next_id = 1;
    c->from_binary = binary != NULL;
    abi_error code = read_config(c, config, binary != NULL);
    if (code == 0 && binary != NULL) {
        ref_blob_head head;
        code = ref_blob_read(c, &head, binary, n);
    }
    if (code == 0)
        code = ref_publish(&c->object, REF_CONTEXT, &b->object);
    if (code != 0) {
        ref_context_release(c);
        free(c);
        return code;
    }
    *out = c->object.handle;
    return 0;
}

abi_error ref_context_create(abi_handle backend, abi_handle device, const abi_config **config,
                             abi_handle *out)
{
    ref_call c;
    ref_begin(&c, "contextCreate", NULL, REF_ANY);
    return ref_end(&c, c.code != 0 ? c.code : create(backend, device, config, NULL, 0, out));
}

abi_error ref_context_from_binary(abi_handle backend, abi_handle device, const abi_config **config,
                                  const void *binary, uint64_t n, abi_handle *out,
                                  abi_handle profile)
{
    ref_call c;
    uint64_t start = ref_microseconds();
    ref_begin(&c, "contextCreateFromBinary", NULL, REF_ANY);
    if (c.code == 0 && (binary == NULL || ((uintptr_t)binary & 7) != 0))
        c.code = ref_fail(ABI_CONTEXT_ARGUMENT, "a binary must be there, at a multiple of 8 bytes");
    if (c.code == 0)
        c.code = ref_profile_check(profile, ABI_CONTEXT_ARGUMENT);
    if (c.code == 0)
        c.code = create(backend, device, config, binary, n, out);
    ref_profile_note(profile, 100, ref_microseconds() - start);
    return ref_end(&c, c.code);
}

static abi_error all_final(const ref_context *c)
{
    if (c->graphs == NULL)
        return ref_fail(ABI_CONTEXT_NOT_FINALIZED, "a context without graphs has no binary");
    for (const ref_graph *g = c->graphs; g != NULL; g = g->next) {
        if (!g->finalized)
            return ref_fail(ABI_CONTEXT_NOT_FINALIZED, "graph '%s' is not finalized", g->name);
    }
    return 0;
}

abi_error ref_context_binary_size(abi_handle h, uint64_t *bytes)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "contextGetBinarySize", h, REF_CONTEXT);
    if (c == NULL)
        return ref_end(&call, call.code);
    abi_error code = bytes == NULL ? ABI_CONTEXT_ARGUMENT : all_final(c);
    return ref_end(&call, code != 0 ? code : ref_blob_size(c, bytes));
}

abi_error ref_context_binary(abi_handle h, void *to, uint64_t cap, uint64_t *written)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "contextGetBinary", h, REF_CONTEXT);
    if (c == NULL)
        return ref_end(&call, call.code);
    abi_error code = to == NULL || written == NULL ? ABI_CONTEXT_ARGUMENT : all_final(c);
    return ref_end(&call, code != 0 ? code : ref_blob_write(c, to, cap, written));
}

abi_error ref_context_free(abi_handle h, abi_handle profile)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "contextFree", h, REF_CONTEXT);
    if (c == NULL)
        return ref_end(&call, call.code);
    abi_error code = ref_profile_check(profile, ABI_CONTEXT_ARGUMENT);
    if (code == 0 && c->mems != NULL)
        code = ref_fail(ABI_NOT_PERMITTED, "contextFree: memory is still registered");
    ref_end(&call, 0);
    if (code != 0)
        return code;
    for (ref_graph *g = c->graphs; g != NULL; g = g->next) {
        if (g->published)
            ref_retire(&g->object);
        g->published = false;
    }
    ref_retire(&c->object);
    ref_context_release(c);
    free(c);
    return 0;
}

/* --- static values --- */

/* A file that disappears with the process. */
static abi_error open_file(ref_context *c)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    if (c->file >= 0)
        return 0;
    snprintf(path, sizeof path, "%s/ferry-ref-XXXXXX",
             dir != NULL && dir[0] != '\0' ? dir : "/tmp");
    c->file = mkstemp(path);
    if (c->file < 0)
        return ref_fail(ABI_MEM_ALLOC, "no temporary file %s: %s", path, strerror(errno));
    unlink(path);
    return 0;
}

static abi_error map_data(ref_context *c, ref_data *d)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    abi_error code = open_file(c);
    if (code != 0)
        return code;
    if (ftruncate(c->file, (off_t)(c->file_bytes + d->bytes)) != 0)
        return ref_fail(ABI_MEM_ALLOC, "the temporary file cannot grow: %s", strerror(errno));
    void *p =
        mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->file, (off_t)c->file_bytes);
    if (p == MAP_FAILED)
        return ref_fail(ABI_MEM_ALLOC, "the temporary file cannot be mapped: %s", strerror(errno));
    c->file_bytes += (d->bytes + page - 1) / page * page;
    d->p = p;
    d->mapped = true;
    return 0;
}

abi_error ref_context_room(ref_context *c, ref_data *d)
{
    c->heap_bytes += d->bytes;
    if (d->bytes >= SMALL_DATA)
        return map_data(c, d);
    d->p = malloc(d->bytes);
    return d->p != NULL ? 0 : ABI_MEM_ALLOC;
}

static void store(ref_data *d, const ref_tensor *t, const void *values)
{
    if (!d->packed) {
        memcpy(d->p, values, t->bytes);
        return;
    }
    const uint8_t *v = values;
    bool swap = ref_fault("weights", "nibble") != NULL;
    for (uint64_t i = 0; i < d->bytes; i++) {
        unsigned low = v[2 * i] & 15u;
        unsigned high = 2 * i + 1 < t->n ? v[2 * i + 1] & 15u : 0u;
        d->p[i] = (uint8_t)(swap ? high | low << 4 : low | high << 4);
    }
}

static bool same_values(const ref_data *d, const ref_tensor *t, const void *values)
{
    const uint8_t *v = values;
    if (!d->packed)
        return memcmp(d->p, values, t->bytes) == 0;
    for (uint64_t i = 0; i < t->n; i++) {
        if ((d->p[i / 2] >> (i % 2 * 4) & 15) != (v[i] & 15))
            return false;
    }
    return true;
}

static ref_tensor *static_named(const ref_context *c, const ref_tensor *like)
{
    for (const ref_graph *g = c->graphs; g != NULL; g = g->next) {
        for (uint32_t i = 0; i < g->n_tensors; i++) {
            ref_tensor *t = g->tensors[i];
            if (t->name_hash == like->name_hash && t->data != NULL &&
                strcmp(t->name, like->name) == 0)
                return t;
        }
    }
    return NULL;
}

static bool same_form(const ref_tensor *a, const ref_tensor *b)
{
    return a->data_type == b->data_type && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0 && ref_quant_equal(&a->quant, &b->quant);
}

/* A fault: the values of the first tensor of the same size. */
static ref_data *colliding(const ref_context *c, const ref_tensor *t, uint64_t bytes)
{
    if (ref_fault("hash_collision", t->name) == NULL)
        return NULL;
    for (ref_data *d = c->data; d != NULL; d = d->next) {
        if (d->bytes == bytes)
            return d;
    }
    return NULL;
}

abi_error ref_context_data(ref_context *c, ref_tensor *t, const void *values)
{
    bool packed = (t->quant.encoding == ABI_BW_AXIS || t->quant.encoding == ABI_BLOCKWISE) &&
                  t->quant.bits == 4 && t->data_type == ABI_S8;
    uint64_t bytes = packed ? (t->n + 1) / 2 : t->bytes;
    const ref_tensor *other = c->sharing ? static_named(c, t) : NULL;
    ref_data *d = colliding(c, t, bytes);
    if (other != NULL && same_form(other, t) && same_values(other->data, t, values))
        d = other->data;
    else if (other != NULL) {
        c->unshared++;
        ref_log(REF_WARN, "tensor '%s' is in the context already with other contents: not shared",
                t->name);
    }
    if (d == NULL) {
        d = calloc(1, sizeof *d);
        if (d == NULL)
            return ABI_MEM_ALLOC;
        d->bytes = bytes;
        d->packed = packed;
        abi_error code = ref_context_room(c, d);
        if (code != 0) {
            free(d);
            return code;
        }
        store(d, t, values);
        d->next = c->data;
        c->data = d;
    }
    d->users++;
    t->data = d;
    return 0;
}
