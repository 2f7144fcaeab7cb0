/* Which release the library is: that of FERRY_REF_MINOR, the core API's minor version. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>

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
