/* Profiles: the last calls that named one, each with how long it took. */
#include "qnnref/ref_impl.h"

#include <stdlib.h>

enum { MAX_EVENTS = 64 };

typedef struct {
    ref_object object;
    uint32_t level, n;
    uint64_t ids[MAX_EVENTS];
    abi_event_data events[MAX_EVENTS];
} ref_profile;

static abi_error create(abi_handle backend, uint32_t level, abi_handle *out)
{
    ref_backend *b = ref_find(backend, REF_BACKEND);
    if (b == NULL)
        return ABI_BACKEND_HANDLE;
    if (out == NULL || level < 1 || level > 2)
        return ref_fail(ABI_PROFILE_ARGUMENT, "profileCreate: level %u", level);
    ref_profile *p = calloc(1, sizeof *p);
    if (p == NULL || ref_publish(&p->object, REF_PROFILE, &b->object) != 0) {
        free(p);
        return ABI_MEM_ALLOC;
    }
    p->level = level;
    *out = p->object.handle;
    return 0;
}

abi_error ref_profile_create(abi_handle backend, uint32_t level, abi_handle *out)
{
    ref_call c;
    ref_begin(&c, "profileCreate", NULL, REF_ANY);
    return ref_end(&c, c.code != 0 ? c.code : create(backend, level, out));
}

abi_error ref_profile_check(abi_handle h, abi_error code)
{
    return h == NULL || ref_find(h, REF_PROFILE) != NULL ? 0
                                                         : ref_fail(code, "this is not a profile");
}

/* The number of an event is its address: only numbers of profileGetEvents may be asked for. */
void ref_profile_note(abi_handle h, uint32_t type, uint64_t microseconds)
{
    ref_profile *p = h == NULL ? NULL : ref_find(h, REF_PROFILE);
    if (p == NULL)
        return;
    if (p->n == MAX_EVENTS)
        p->n = 0;
    p->events[p->n] = (abi_event_data){type, 1, microseconds, "reference"};
    p->ids[p->n] = (uintptr_t)&p->events[p->n];
    p->n++;
}

abi_error ref_profile_events(abi_handle h, const uint64_t **ids, uint32_t *n)
{
    ref_call c;
    ref_profile *p = ref_begin(&c, "profileGetEvents", h, REF_PROFILE);
    if (p != NULL && (ids == NULL || n == NULL)) {
        c.code = ABI_PROFILE_ARGUMENT;
    } else if (p != NULL) {
        *ids = p->ids;
        *n = p->n;
    }
    return ref_end(&c, c.code);
}

abi_error ref_profile_sub_events(uint64_t id, const uint64_t **ids, uint32_t *n)
{
    if (id == 0 || ids == NULL || n == NULL)
        return ABI_PROFILE_ARGUMENT;
    *ids = NULL;
    *n = 0;
    return 0;
}

abi_error ref_profile_data(uint64_t id, abi_event_data *out)
{
    if (id == 0 || out == NULL)
        return ABI_PROFILE_ARGUMENT;
    *out = *(const abi_event_data *)(uintptr_t)id;
    return 0;
}

abi_error ref_profile_free(abi_handle h)
{
    ref_call c;
    ref_profile *p = ref_begin(&c, "profileFree", h, REF_PROFILE);
    if (p == NULL)
        return ref_end(&c, c.code);
    ref_end(&c, 0);
    ref_retire(&p->object);
    free(p);
    return 0;
}
