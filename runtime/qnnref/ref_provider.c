/* The provider: a table as long as the release of FERRY_REF_MINOR has it, with the functions that
 * ferry uses and NULL between them. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void function(void);

static const struct {
    uint32_t slot;
    function *function;
} functions[] = {
#define ROW(slot, name, fn) {slot, (function *)fn},
    REF_FUNCTIONS(ROW)
#undef ROW
};

static abi_provider *make(uint32_t backend_id)
{
    const ref_release *r = ref_release_now();
    /* Exactly as long as the table, so that sanitizers see an access beyond it. */
    abi_provider *p = calloc(1, sizeof *p + r->n_slots * sizeof p->slots[0]);
    if (p == NULL)
        return NULL;
    p->backend_id = backend_id;
    p->core = r->core;
    p->backend = r->backend;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].slot < r->n_slots)
            p->slots[functions[i].slot] = functions[i].function;
    }
    return p;
}

static abi_provider *providers[2];
static const abi_provider *list[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define PUBLIC __attribute__((visibility("default")))

PUBLIC abi_error QnnInterface_getProviders(const abi_provider ***out, uint32_t *n);
abi_error QnnInterface_getProviders(const abi_provider ***out, uint32_t *n)
{
    if (out == NULL || n == NULL)
        return ABI_ARGUMENT;
    ref_call c;
    ref_begin(&c, "getProviders", NULL, REF_ANY);
    if (c.code != 0)
        return ref_end(&c, c.code);
    const char *fault = ref_fault("providers", NULL);
    uint32_t want = fault != NULL && strcmp(fault, "0") == 0   ? 0
                    : fault != NULL && strcmp(fault, "2") == 0 ? 2
                                                               : 1;
    uint32_t id = fault != NULL && strcmp(fault, "wrong") == 0 ? 3 : 6; /* a CPU's, or the NPU's */
    pthread_mutex_lock(&mutex);
    for (uint32_t i = 0; i < want && c.code == 0; i++) {
        if (providers[i] == NULL)
            providers[i] = make(want == 2 && i == 0 ? 3 : id);
        list[i] = providers[i];
        if (providers[i] == NULL)
            c.code = ABI_MEM_ALLOC;
        else
            providers[i]->name =
                ref_fault("reload", NULL) != NULL ? "FERRY_AS_ON_A_PC" : "FERRY_REFERENCE";
    }
    pthread_mutex_unlock(&mutex);
    *out = list;
    *n = want;
    return ref_end(&c, c.code);
}

__attribute__((destructor)) static void free_providers(void)
{
    free(providers[0]);
    free(providers[1]);
}

/* Row i of the rule table as a line of text, NULL after the last: for `ferry doctor --qnn --rules`.
 */
PUBLIC const char *FerryRef_rule(uint32_t i);
const char *FerryRef_rule(uint32_t i)
{
    return ref_rules_text(i);
}
