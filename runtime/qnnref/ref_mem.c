/* Memory that caller and device share: a file descriptor, mapped once for each registration. */
#include "qnnref/ref_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ION = 1, CUSTOM, ALIGNMENT = 256 };

static abi_error describe(ref_mem *m, const abi_mem_descriptor *d)
{
    uint32_t bytes = ref_type_bytes(d->data_type);
    if (bytes == 0 || d->shape.rank < 1 || d->shape.rank > REF_MAX_RANK || d->shape.dims == NULL)
        return ref_fail(ABI_MEM_ARGUMENT, "memRegister: data type 0x%x, rank %u", d->data_type,
                        d->shape.rank);
    uint64_t n = bytes;
    for (uint32_t i = 0; i < d->shape.rank; i++) {
        m->dims[i] = d->shape.dims[i];
        if (m->dims[i] == 0 || n > UINT32_MAX / m->dims[i])
            return ref_fail(ABI_MEM_SHAPE, "memRegister: dimension %u is %u", i, m->dims[i]);
        n *= m->dims[i];
    }
    m->rank = d->shape.rank;
    m->data_type = d->data_type;
    m->bytes = n;
    if (d->mem_type == ION) {
        m->fd = d->u.fd;
        m->map_bytes = n;
        return 0;
    }
    const abi_shared_buffer *b = d->mem_type == CUSTOM ? d->u.custom : NULL;
    if (b == NULL || b->type != 1)
        return ref_fail(ABI_MEM_TYPE, "memRegister: memory type %u", d->mem_type);
    m->fd = b->u.shared.fd;
    m->offset = b->u.shared.offset;
    m->map_bytes = b->size;
    return 0;
}

static abi_error check_room(const ref_context *c, const ref_mem *m)
{
    struct stat st;
    if (m->fd < 0 || fstat(m->fd, &st) != 0)
        return ref_fail(ABI_MEM_MAP, "memRegister: descriptor %d: %s", m->fd, strerror(errno));
    if (m->map_bytes > (uint64_t)st.st_size || m->bytes > m->map_bytes ||
        m->offset > m->map_bytes - m->bytes)
        return ref_fail(ABI_MEM_MAP, "memRegister: %llu bytes at %llu of a buffer of %llu",
                        (unsigned long long)m->bytes, (unsigned long long)m->offset,
                        (unsigned long long)st.st_size);
    if (m->offset % ALIGNMENT != 0)
        return ref_fail(ABI_MEM_SHAPE, "memRegister: offset %llu is not a multiple of 256",
                        (unsigned long long)m->offset);
    ref_limits limits = ref_fault_limits();
    uint64_t all = m->map_bytes;
    for (const ref_mem *o = c->mems; o != NULL; o = o->next) {
        all += o->fd == m->fd ? 0 : o->map_bytes;
        if (o->fd == m->fd && o->offset == m->offset) {
            bool same = o->rank == m->rank && memcmp(o->dims, m->dims, sizeof m->dims) == 0;
            if (same || ref_fault("alias", "refuse") != NULL)
                return ref_fail(same ? ABI_MEM_REGISTERED : ABI_MEM_SHAPE,
                                "memRegister: descriptor %d at %llu is registered in this context",
                                m->fd, (unsigned long long)m->offset);
        }
    }
    if (m->map_bytes > limits.map_bytes || all > limits.maps_bytes)
        return ref_fail(ABI_MEM_MAP, "memRegister: no room to map %llu bytes",
                        (unsigned long long)m->map_bytes);
    return 0;
}

static abi_error add(ref_context *c, const abi_mem_descriptor *d, abi_handle *out)
{
    ref_mem *m = calloc(1, sizeof *m);
    if (m == NULL)
        return ABI_MEM_ALLOC;
    abi_error code = describe(m, d);
    if (code == 0)
        code = check_room(c, m);
    int shared = ref_fault("ignore_alias", NULL) != NULL ? MAP_PRIVATE : MAP_SHARED;
    if (code == 0) {
        void *p = mmap(NULL, m->map_bytes, PROT_READ | PROT_WRITE, shared, m->fd, 0);
        if (p == MAP_FAILED)
            code = ref_fail(ABI_MEM_MAP, "memRegister: %s", strerror(errno));
        else
            m->map = p;
    }
    if (code == 0)
        code = ref_publish(&m->object, REF_MEM, &c->object);
    if (code != 0) {
        if (m->map != NULL)
            munmap(m->map, m->map_bytes);
        free(m);
        return code;
    }
    m->p = m->map + m->offset;
    m->context = c;
    m->next = c->mems;
    c->mems = m;
    *out = m->object.handle;
    return 0;
}

static void drop(ref_mem *m)
{
    ref_mem **at = &m->context->mems;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    ref_retire(&m->object);
    munmap(m->map, m->map_bytes);
    free(m);
}

/* All or nothing. */
abi_error ref_mem_register(abi_handle context, const abi_mem_descriptor *list, uint32_t n,
                           abi_handle *out)
{
    ref_call call;
    ref_context *c = ref_begin(&call, "memRegister", context, REF_CONTEXT);
    if (c == NULL)
        return ref_end(&call, call.code);
    if (list == NULL || n == 0 || out == NULL)
        return ref_end(&call, ABI_MEM_ARGUMENT);
    if (c->lost)
        return ref_end(&call, ref_fail(ABI_GRAPH_CONTEXT, "memRegister: the context is lost"));
    abi_error code = 0;
    uint32_t done = 0;
    while (done < n && code == 0) {
        code = add(c, &list[done], &out[done]);
        done += code == 0;
    }
    while (code != 0 && done > 0)
        drop(ref_find(out[--done], REF_MEM));
    return ref_end(&call, code);
}

abi_error ref_mem_deregister(const abi_handle *list, uint32_t n)
{
    ref_call call;
    if (list == NULL || n == 0)
        return ABI_MEM_ARGUMENT;
    ref_mem *first = ref_begin(&call, "memDeRegister", list[0], REF_MEM);
    abi_error code = first == NULL ? call.code : 0;
    for (uint32_t i = 0; i < n && code == 0; i++) {
        ref_mem *m = ref_find(list[i], REF_MEM);
        if (m == NULL)
            code = ref_fail(ABI_MEM_HANDLE, "memDeRegister: handle %u is not a memory", i);
        else
            drop(m);
    }
    return ref_end(&call, code);
}
