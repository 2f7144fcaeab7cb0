/* The provider: a table as long as the release of FERRY_REF_MINOR has it, with the functions that
 * ferry uses and NULL between them. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Core minor version, SDK minor version, entries of the table, system API minor, context blob. From
 * the fact sheet, 1.3 and 1.4. */
static const struct {
    uint32_t core, sdk, n_slots, system;
    abi_version blob;
} releases[] = {
    {18, 25, 62, 2, {3, 1, 0}},  {20, 27, 62, 3, {3, 1, 0}},  {22, 29, 64, 4, {3, 2, 0}},
    {24, 31, 64, 4, {3, 2, 0}},  {26, 35, 67, 5, {3, 3, 0}},  {27, 36, 68, 5, {3, 3, 0}},
    {28, 38, 69, 6, {3, 3, 0}},  {29, 39, 69, 6, {3, 3, 0}},  {32, 43, 71, 8, {3, 3, 2}},
    {35, 46, 71, 10, {3, 3, 3}}, {36, 47, 72, 11, {3, 3, 4}}, {38, 49, 75, 13, {4, 0, 0}},
    {39, 50, 75, 14, {4, 0, 3}}, {40, 51, 75, 15, {4, 0, 6}},
};
enum { N_RELEASES = sizeof releases / sizeof *releases };

static ref_release now;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    const char *minor = getenv("FERRY_REF_MINOR");
    uint32_t want =
        minor != NULL ? (uint32_t)strtoul(minor, NULL, 10) : releases[N_RELEASES - 1].core;
    size_t i = N_RELEASES - 1;
    while (i > 0 && releases[i].core > want)
        i--;
    now.core = (abi_version){2, releases[i].core, 0};
    now.backend = (abi_version){5, releases[i].sdk, 0};
    now.system = (abi_version){1, releases[i].system, 0};
    now.blob = releases[i].blob;
    now.sdk = releases[i].sdk;
    now.n_slots = releases[i].n_slots;
    const char *build = ref_fault("build", NULL);
    if (build != NULL)
        snprintf(now.build_id, sizeof now.build_id, "%s", build);
    else
        snprintf(now.build_id, sizeof now.build_id, "v2.%u.0.reference", releases[i].sdk);
    const char *core = ref_fault("core", NULL);
    if (core != NULL)
        sscanf(core, "%u.%u.%u", &now.core.major, &now.core.minor, &now.core.patch);
}

const ref_release *ref_release_now(void)
{
    pthread_once(&once, choose);
    return &now;
}

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
    p->name = "FERRY_REFERENCE";
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
