/* Handles: a generation and an index, so that one that was freed is never found again. Calls on
 * related objects from two threads at once stop the process, as the interface forbids them. */
#include "qnnref/ref_impl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ref_object *object;
    uint32_t generation;
} slot;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static slot *slots; /* 0 is never used */
static uint32_t n_slots, cap_slots;
static unsigned long bad_handles;

static const struct {
    const char *name;
    abi_error bad_handle;
} kinds[] = {
    [REF_ANY] = {"object", ABI_ARGUMENT},
    [REF_BACKEND] = {"backend", ABI_BACKEND_HANDLE},
    [REF_DEVICE] = {"device", ABI_DEVICE_HANDLE},
    [REF_CONTEXT] = {"context", ABI_CONTEXT_HANDLE},
    [REF_GRAPH] = {"graph", ABI_GRAPH_HANDLE},
    [REF_MEM] = {"memory", ABI_MEM_HANDLE},
    [REF_LOG] = {"log", ABI_LOG_HANDLE},
    [REF_PROFILE] = {"profile", ABI_PROFILE_HANDLE},
    [REF_POWER] = {"power configuration", ABI_PERF_ARGUMENT},
};

abi_error ref_publish(ref_object *o, ref_kind kind, ref_object *parent)
{
    abi_error code = 0;
    pthread_mutex_lock(&mutex);
    uint32_t i = 1;
    while (i < n_slots && slots[i].object != NULL)
        i++;
    if (i >= cap_slots) {
        uint32_t cap = cap_slots == 0 ? 64 : cap_slots * 2;
        slot *more = realloc(slots, cap * sizeof *more);
        if (more != NULL) {
            memset(more + cap_slots, 0, (cap - cap_slots) * sizeof *more);
            slots = more;
            cap_slots = cap;
        } else {
            code = ABI_MEM_ALLOC;
        }
    }
    if (code == 0) {
        if (i >= n_slots)
            n_slots = i + 1;
        slots[i].generation++;
        slots[i].object = o;
        o->kind = kind;
        o->handle = (abi_handle)(((uintptr_t)slots[i].generation << 32) | (i << 4) | kind);
        o->parent = parent;
        if (parent != NULL)
            parent->n_children++;
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

void ref_retire(ref_object *o)
{
    pthread_mutex_lock(&mutex);
    uint32_t i = ((uint32_t)(uintptr_t)o->handle) >> 4;
    slots[i].object = NULL;
    if (o->parent != NULL)
        o->parent->n_children--;
    pthread_mutex_unlock(&mutex);
}

static ref_object *find(abi_handle h, ref_kind kind)
{
    uint64_t v = (uintptr_t)h;
    uint32_t i = (uint32_t)v >> 4;
    if (h == NULL || (v & 15) != kind || i >= n_slots || slots[i].object == NULL ||
        slots[i].generation != (uint32_t)(v >> 32))
        return NULL;
    return slots[i].object;
}

void *ref_find(abi_handle h, ref_kind kind)
{
    pthread_mutex_lock(&mutex);
    ref_object *o = find(h, kind);
    pthread_mutex_unlock(&mutex);
    return o;
}

/* The object that stands for its relatives: of a graph or a memory the context. */
static ref_object *root_of(ref_object *o)
{
    return o->kind == REF_GRAPH || o->kind == REF_MEM ? o->parent : o;
}

typedef struct {
    const char *name;
    unsigned long n;
} counter;
static counter counters[64];

static unsigned long count_call(const char *name)
{
    size_t i = 0;
    while (i < 63 && counters[i].name != NULL && strcmp(counters[i].name, name) != 0)
        i++;
    counters[i].name = name;
    return ++counters[i].n;
}

static void leave(ref_call *call)
{
    if (call->root == NULL)
        return;
    pthread_mutex_lock(&mutex);
    call->root->busy = NULL;
    pthread_mutex_unlock(&mutex);
    call->root = NULL;
}

/* Marks the root object as busy; the name of the call that another thread is inside, if any. */
static const char *enter(ref_call *call, ref_object *o)
{
    ref_object *root = root_of(o);
    if (root->busy != NULL)
        return pthread_equal(root->thread, pthread_self()) ? NULL : root->busy;
    root->busy = call->name;
    root->thread = pthread_self();
    call->root = root;
    return NULL;
}

void *ref_begin(ref_call *call, const char *name, abi_handle h, ref_kind kind)
{
    *call = (ref_call){.name = name};
    pthread_mutex_lock(&mutex);
    call->count = count_call(name);
    ref_object *o = kind != REF_ANY ? find(h, kind) : NULL;
    const char *other = o != NULL ? enter(call, o) : NULL;
    bad_handles += o == NULL && kind != REF_ANY;
    pthread_mutex_unlock(&mutex);
    if (other != NULL) {
        fprintf(stderr, "QnnRef: %s while another thread is inside %s on a related handle\n", name,
                other);
        raise(SIGABRT);
    }
    call->code = ref_fault_call(name, call->count);
    if (call->code == 0 && o == NULL && kind != REF_ANY)
        call->code = ref_fail(kinds[kind].bad_handle, "%s: this is not a handle of a %s", name,
                              kinds[kind].name);
    call->object = o;
    if (call->code == 0)
        return o;
    leave(call);
    return NULL;
}

abi_error ref_end(ref_call *call, abi_error code)
{
    leave(call);
    return code;
}

void ref_lose_contexts(void)
{
    pthread_mutex_lock(&mutex);
    for (uint32_t i = 1; i < n_slots; i++) {
        if (slots[i].object != NULL && slots[i].object->kind == REF_CONTEXT)
            ((ref_context *)(void *)slots[i].object)->lost = true;
    }
    pthread_mutex_unlock(&mutex);
}

/* FERRY_REF_COVERAGE collects how often each function was called. */
static void report_calls(void)
{
    const char *path = getenv("FERRY_REF_COVERAGE");
    FILE *f = path != NULL ? fopen(path, "ae") : NULL;
    if (f == NULL)
        return;
    for (size_t i = 0; i < sizeof counters / sizeof *counters && counters[i].name != NULL; i++)
        fprintf(f, "call %lu %s\n", counters[i].n, counters[i].name);
    fclose(f);
}

/* At exit: objects that nobody freed. FERRY_REF_STRICT=1 makes the process fail for it. */
__attribute__((destructor)) static void report_left(void)
{
    ref_rules_report();
    report_calls();
    bool any = false;
    for (uint32_t i = 1; i < n_slots; i++) {
        if (slots[i].object != NULL && slots[i].object->kind != REF_POWER) {
            fprintf(stderr, "QnnRef: at exit a %s is left\n", kinds[slots[i].object->kind].name);
            any = true;
        }
    }
    free(slots);
    const char *strict = getenv("FERRY_REF_STRICT");
    if (strict == NULL || strcmp(strict, "1") != 0)
        return;
    if (bad_handles > 0)
        fprintf(stderr, "QnnRef: %lu calls with handles that were none\n", bad_handles);
    if (any || bad_handles > 0)
        _exit(99);
}
