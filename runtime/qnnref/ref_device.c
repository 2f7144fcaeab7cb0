/* Devices: the chip that a graph is for. Without one, the rules are those of V68. Also the votes
 * for clocks, which change nothing here but are checked. */
#include "qnnref/ref_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The vendor's numbers of chips, their architecture and memory in MB (fact sheet 3.6). */
static const ref_soc socs[] = {
    {30, 68, 4, "SM8350"},   {32, 68, 4, "SM7350"},   {35, 68, 2, "SM7325"},
    {36, 69, 8, "SM8450"},   {37, 68, 4, "SC8280X"},  {39, 68, 8, "SA8295"},
    {41, 69, 4, "SM7450"},   {42, 69, 8, "SM8475"},   {43, 73, 8, "SM8550"},
    {46, 73, 2, "SSG2115P"}, {52, 73, 8, "SA8255"},   {53, 69, 8, "SXR2230P"},
    {54, 69, 4, "SM7475"},   {57, 75, 8, "SM8650"},   {58, 73, 2, "SSG2125P"},
    {60, 73, 8, "SC8380"},   {68, 73, 8, "SM8635"},   {69, 79, 8, "SM8750"},
    {70, 73, 4, "SM7675"},   {72, 81, 16, "SA8797"},  {73, 73, 4, "SM7635"},
    {75, 79, 8, "SXR2330P"}, {77, 73, 8, "QCS9100"},  {85, 73, 8, "SM8735"},
    {87, 81, 8, "SM8850"},   {88, 81, 8, "SC8480XP"}, {97, 81, 8, "SM8845"},
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const ref_device *newest;
#ifdef __aarch64__ /* of the tests' emulated phone */
static const ref_soc host = {57, 75, 8, "SM8650"};
#else
static const ref_soc host = {30, 68, 4, "SM8350"};
#endif

const ref_soc *ref_soc_find(uint32_t id)
{
    for (size_t i = 0; i < sizeof socs / sizeof *socs; i++) {
        if (socs[i].id == id)
            return &socs[i];
    }
    return NULL;
}

/* The chip that the faults name, with the memory that they name; OTHERWISE where they do not. */
static ref_soc chip_of_faults(ref_soc otherwise)
{
    const char *soc = ref_fault("soc", NULL), *vtcm = ref_fault("vtcm", NULL);
    const ref_soc *known = soc != NULL ? ref_soc_find((uint32_t)strtoul(soc, NULL, 10)) : NULL;
    if (known != NULL)
        otherwise = *known;
    if (vtcm != NULL)
        otherwise.vtcm_mb = (uint32_t)strtoul(vtcm, NULL, 10);
    return otherwise;
}

const ref_soc *ref_soc_now(void)
{
    static __thread ref_soc now;
    pthread_mutex_lock(&mutex);
    now = newest != NULL ? newest->soc : host;
    pthread_mutex_unlock(&mutex);
    now = chip_of_faults(now);
    const char *arch = ref_fault("arch", NULL);
    if (arch != NULL)
        now.arch = (uint32_t)strtoul(arch + (arch[0] == 'v' || arch[0] == 'V'), NULL, 10);
    return &now;
}

static void describe(ref_device *d, const ref_soc *soc)
{
    d->extension = (abi_device_extension){
        .vtcm_mb = soc->vtcm_mb, .soc = soc->id, .dlbc = true, .arch = soc->arch};
    d->core = (abi_core_info){.version = 1};
    d->hardware = (abi_hardware_info){
        .version = 1, .v1 = {.n_cores = 1, .cores = &d->core, .extension = &d->extension}};
    d->info = (abi_platform_info){.version = 1, .v1 = {.n = 1, .devices = &d->hardware}};
}

abi_error ref_device_platform(abi_handle log, const abi_platform_info **out)
{
    (void)log;
    ref_call c;
    ref_begin(&c, "deviceGetPlatformInfo", NULL, REF_ANY);
    if (c.code != 0)
        return ref_end(&c, c.code);
    if (out == NULL)
        return ref_end(&c, ABI_ARGUMENT);
    ref_device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return ref_end(&c, ABI_MEM_ALLOC);
    const ref_soc soc = chip_of_faults(host);
    describe(d, &soc);
    *out = &d->info;
    return ref_end(&c, 0);
}

abi_error ref_device_platform_free(abi_handle log, const abi_platform_info *info)
{
    (void)log;
    if (info == NULL)
        return ABI_ARGUMENT;
    free((char *)(uintptr_t)info - offsetof(ref_device, info));
    return 0;
}

/* Custom option 0 is the number of the chip. Until SDK 2.47 it is at byte 4, from 2.48 on at byte
 * 8; callers write both places. */
static abi_error read_custom(const abi_config *config, ref_soc *soc)
{
    const uint32_t *custom = config->u.custom;
    if (custom == NULL)
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: custom configuration without data");
    if (custom[0] != 0)
        return ref_fail(ABI_UNSUPPORTED, "deviceCreate: custom option %u is not known", custom[0]);
    uint32_t id = custom[ref_release_now()->sdk >= 48 ? 2 : 1];
    const ref_soc *found = ref_soc_find(id);
    if (found == NULL)
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: chip %u is not known", id);
    *soc = *found;
    return 0;
}

static abi_error read_platform(const abi_config *config, ref_soc *soc)
{
    const abi_platform_info *p = config->u.custom;
    if (p == NULL || p->version != 1 || p->v1.n != 1 || p->v1.devices == NULL)
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: platform info without one device");
    const abi_hardware_info *h = p->v1.devices;
    if (h->version != 1 || h->v1.n_cores < 1 || h->v1.cores == NULL || h->v1.cores->version != 1 ||
        h->v1.extension == NULL || h->v1.extension->type != 0)
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: platform info: device or core");
    const abi_device_extension *x = h->v1.extension;
    if (x->vtcm_mb == 0 || x->vtcm_mb > 64 || x->arch < 68 || x->arch > 89)
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: platform info: VTCM %zu MB, V%u",
                        x->vtcm_mb, x->arch);
    *soc = (ref_soc){x->soc, x->arch, (uint32_t)x->vtcm_mb, ""};
    return 0;
}

/* Is there such a file in one of the directories where a DSP looks? */
static bool on_dsp_path(const char *name)
{
    const char *p = getenv("ADSP_LIBRARY_PATH");
    while (p != NULL && *p != '\0') {
        char path[512];
        const int n = (int)strcspn(p, ";");
        if (snprintf(path, sizeof path, "%.*s/%s", n, p, name) < (int)sizeof path &&
            access(path, R_OK) == 0)
            return true;
        p += n + (p[n] == ';');
    }
    return false;
}

static abi_error create(abi_handle log, const abi_config **config, abi_handle *out)
{
    ref_object *l = log == NULL ? NULL : ref_find(log, REF_LOG);
    if (out == NULL || (log != NULL && l == NULL))
        return ref_fail(ABI_ARGUMENT, "deviceCreate: no place for the result, or not a log");
    const char *skel = ref_fault("skel", NULL);
    if (skel != NULL && !on_dsp_path(skel))
        return ref_fail(ABI_DEVICE_CONFIG, "deviceCreate: no %s in ADSP_LIBRARY_PATH", skel);
    ref_soc soc = host, described = host;
    bool has_soc = false, has_platform = false;
    abi_error code = 0;
    for (size_t i = 0; config != NULL && config[i] != NULL && code == 0; i++) {
        if (config[i]->option == 0) {
            code = read_custom(config[i], &soc);
            has_soc = true;
        } else if (config[i]->option == 1) {
            code = read_platform(config[i], &described);
            has_platform = true;
        } else {
            code = ref_fail(ABI_UNSUPPORTED, "deviceCreate: option %u is not known",
                            config[i]->option);
        }
    }
    if (code != 0)
        return code;
    if (has_soc && has_platform && described.arch != soc.arch)
        ref_log(REF_WARN, "deviceCreate: chip %u is V%u, the platform info says V%u", soc.id,
                soc.arch, described.arch);
    ref_device *d = calloc(1, sizeof *d);
    if (d == NULL || ref_publish(&d->object, REF_DEVICE, l) != 0) {
        free(d);
        return ABI_MEM_ALLOC;
    }
    d->soc = has_soc ? soc : described;
    if (config == NULL && ref_fault("soc", NULL) != NULL)
        d->soc = *ref_soc_now();
    /* The vendor's library reports the host's chip unless a platform info came (seen on 2.51). */
    describe(d, has_platform ? &described : config == NULL ? &d->soc : &host);
    pthread_mutex_lock(&mutex);
    newest = d;
    pthread_mutex_unlock(&mutex);
    *out = d->object.handle;
    return 0;
}

abi_error ref_device_create(abi_handle log, const abi_config **config, abi_handle *out)
{
    ref_call c;
    ref_begin(&c, "deviceCreate", NULL, REF_ANY);
    return ref_end(&c, c.code != 0 ? c.code : create(log, config, out));
}

abi_error ref_device_info(abi_handle h, const abi_platform_info **out)
{
    ref_call c;
    ref_device *d = ref_begin(&c, "deviceGetInfo", h, REF_DEVICE);
    if (d != NULL && out == NULL)
        c.code = ABI_ARGUMENT;
    else if (d != NULL)
        *out = &d->info;
    return ref_end(&c, c.code);
}

abi_error ref_device_free(abi_handle h)
{
    ref_call c;
    ref_device *d = ref_begin(&c, "deviceFree", h, REF_DEVICE);
    if (d == NULL)
        return ref_end(&c, c.code);
    if (d->object.n_children > 0)
        return ref_end(&c, ref_fail(ABI_NOT_PERMITTED, "deviceFree: a context uses the device"));
    ref_end(&c, 0);
    pthread_mutex_lock(&mutex);
    if (newest == d)
        newest = NULL;
    pthread_mutex_unlock(&mutex);
    ref_retire(&d->object);
    free(d);
    return 0;
}

/* --- power --- */

typedef struct {
    bool used;
} vote;
static vote votes[16];

static abi_error power_create(uint32_t device, uint32_t core, uint32_t *id)
{
    ref_call c;
    ref_begin(&c, "createPowerConfigId", NULL, REF_ANY);
    if (c.code != 0)
        return ref_end(&c, c.code);
    if (device != 0 || core != 0 || id == NULL)
        return ref_end(&c, ref_fail(ABI_PERF_ARGUMENT, "createPowerConfigId: device %u, core %u",
                                    device, core));
    pthread_mutex_lock(&mutex);
    c.code = ABI_MEM_ALLOC;
    for (uint32_t i = 0; i < 16 && c.code != 0; i++) {
        if (!votes[i].used) {
            votes[i].used = true;
            *id = i + 1;
            c.code = 0;
        }
    }
    pthread_mutex_unlock(&mutex);
    return ref_end(&c, c.code);
}

static bool is_vote(uint32_t id)
{
    return id >= 1 && id <= 16 && votes[id - 1].used;
}

static abi_error power_destroy(uint32_t id)
{
    ref_call c;
    ref_begin(&c, "destroyPowerConfigId", NULL, REF_ANY);
    if (c.code != 0)
        return ref_end(&c, c.code);
    pthread_mutex_lock(&mutex);
    if (is_vote(id))
        votes[id - 1].used = false;
    else
        c.code = ABI_PERF_ARGUMENT;
    pthread_mutex_unlock(&mutex);
    return ref_end(&c, c.code);
}

static bool is_corner(uint32_t v)
{
    return v == 0 || (v >= 0x10 && v <= 0xA0);
}

static abi_error check_power(uint32_t id, const abi_power_config *p)
{
    const uint32_t *w = p->u.words;
    switch (p->option) {
    case 1:
        if (w[0] != id)
            return ref_fail(ABI_PERF_ARGUMENT, "setPowerConfig: clocks for vote %u, sent to %u",
                            w[0], id);
        for (int i = 9; i < 16; i++) {
            if (i != 12 && !is_corner(w[i]))
                return ref_fail(ABI_PERF_ARGUMENT, "setPowerConfig: 0x%x is not a corner", w[i]);
        }
        return 0;
    case 2:
    case 4:
    case 5:
    case 6:
    case 7:
        return 0;
    case 3:
        if (p->u.u32 > 9999)
            return ref_fail(ABI_PERF_ARGUMENT, "setPowerConfig: polling for %u us", p->u.u32);
        return 0;
    default:
        return ref_fail(ABI_PERF_ARGUMENT, "setPowerConfig: option %u is not known", p->option);
    }
}

static abi_error power_set(uint32_t id, const abi_power_config **list)
{
    ref_call c;
    ref_begin(&c, "setPowerConfig", NULL, REF_ANY);
    if (c.code == 0 && (!is_vote(id) || list == NULL))
        c.code = ref_fail(ABI_PERF_ARGUMENT, "setPowerConfig: vote %u", id);
    for (size_t i = 0; c.code == 0 && list[i] != NULL; i++)
        c.code = check_power(id, list[i]);
    return ref_end(&c, c.code);
}

static abi_error power_memory(uint32_t device, uint32_t core, const void **list)
{
    (void)device, (void)core, (void)list;
    return ABI_UNSUPPORTED;
}

abi_error ref_device_infrastructure(const void **out)
{
    static const abi_infrastructure perf = {0,
                                            {power_create, power_destroy, power_set, power_memory}};
    ref_call c;
    ref_begin(&c, "deviceGetInfrastructure", NULL, REF_ANY);
    if (c.code == 0 && out == NULL)
        c.code = ABI_ARGUMENT;
    if (c.code == 0)
        *out = &perf;
    return ref_end(&c, c.code);
}
