/* The NPU's part of `ferry selftest`: what libraries there are, and do they work one call after the
 * other. The calls are made in a child process, so that one that crashes or hangs is a verdict. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/measure/selftest.h"

#ifdef FERRY_STATIC
int fy_self_npu(fy_self_checks *l, const char *dir, fy_err *e)
{
    (void)dir;
    return fy_self_add(l, "npu library", FY_SELF_SKIPPED, 0, e,
                       "a static program cannot load it: use the one built with TARGET=android");
}
#else
#include "backend/qnn/qnn_areas.h"
#include "backend/qnn/qnn_child.h"
#include "backend/qnn/qnn_product.h"

enum { TIMEOUT_S = 60, AREA_BYTES = 1 << 20 };
/* Chips from V73 on are within one step; V68 and V69 scale by a factor of 11 bits, and so move the
 * largest code by up to 16. */
#define MAX_STEPS 17.0

/* --- files ------------------------------------------------------------------------------------ */

static bool is_part(const char *name)
{
    const size_t n = strlen(name);
    return strncmp(name, "libQnn", 6) == 0 && n > 3 && strcmp(name + n - 3, ".so") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the libraries in the directory of `path`, in order. */
static int list_files(fy_self_checks *l, const char *path, fy_err *e)
{
    char *name[64], shown[FY_QUOTE_BYTES];
    size_t n = 0;
    fy_str dir = {0}, out = {0};
    fy_str_printf(&dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *d = dir.oom ? NULL : opendir(fy_str_z(&dir));
    for (struct dirent *entry; d != NULL && n < 64 && (entry = readdir(d)) != NULL;) {
        if (is_part(entry->d_name) && (name[n] = strdup(entry->d_name)) != NULL)
            n++;
    }
    if (d != NULL)
        closedir(d);
    qsort(name, n, sizeof *name, by_name);
    for (size_t i = 0; i < n; i++) {
        fy_str_printf(&out, "%s%s", i > 0 ? ", " : "",
                      fy_quote(shown, sizeof shown, fy_span_of(name[i])));
        free(name[i]);
    }
    const int rc = dir.oom || out.oom
                       ? fy_nomem(e)
                       : fy_self_add(l, "npu files", FY_SELF_OK, 0, e, "%s", fy_str_z(&out));
    fy_str_release(&dir);
    fy_str_release(&out);
    return rc;
}

/* --- in the child: a message for each check --------------------------------------------------- */

typedef struct {
    uint32_t verdict;
    double seconds;
    char name[24], detail[sizeof(((fy_err *)0)->msg)];
} message;

typedef struct {
    fy_qnn_lib *lib;
    fy_qnn_pipe *to;
    double begin; /* of the check that is under way */
} child;

static int tell(child *c, const char *name, fy_self_verdict v, const char *detail, fy_err *e)
{
    message m = {.verdict = v, .seconds = fy_now_s() - c->begin};
    snprintf(m.name, sizeof m.name, "%s", name);
    snprintf(m.detail, sizeof m.detail, "%s", detail);
    c->begin = fy_now_s();
    return fy_qnn_send(c->to, &m, sizeof m, e);
}

static int tell_library(child *c, fy_err *e)
{
    const fy_qnn_lib *lib = c->lib;
    const char *id = lib->build_id[0] != '\0' ? lib->build_id : "no build number";
    const char *dsp = FY_QNN_ON_PC ? NULL : getenv("ADSP_LIBRARY_PATH");
    char text[512], shown[384];
    snprintf(text, sizeof text, "SDK 2.%d (%s), core interface %u.%u%s%s", lib->sdk_minor, id,
             lib->core.major, lib->core.minor, dsp != NULL ? "; the DSP looks in " : "",
             dsp != NULL ? fy_quote(shown, sizeof shown, fy_span_of(dsp)) : "");
    return tell(c, "npu library", FY_SELF_OK, text, e);
}

static int tell_metadata(child *c, fy_err *e)
{
    fy_qnn_system s;
    fy_err why = {0};
    char text[64];
    if (fy_qnn_system_open(c->lib->path, &s, &why) != 0)
        return tell(c, "npu metadata", FY_SELF_FAILED, why.msg, e);
    snprintf(text, sizeof text, "interface %u.%u", s.version.major, s.version.minor);
    return tell(c, "npu metadata", FY_SELF_OK, text, e);
}

/* Without shared memory the NPU works, at the cost of copies. */
static int tell_memory(child *c, fy_err *e)
{
    fy_qnn_areas areas;
    fy_err why = {0};
    fy_qnn_areas_init(&areas, c->lib);
    void *p = fy_qnn_area_take(&areas, AREA_BYTES, &why);
    const bool shared = p != NULL && areas.all[0].fd >= 0;
    const int rc = tell(c, "npu memory", shared ? FY_SELF_OK : FY_SELF_SKIPPED,
                        shared      ? "1 MB is shared with the NPU"
                        : p != NULL ? areas.why
                                    : why.msg,
                        e);
    if (p != NULL)
        fy_qnn_area_give(&areas, p);
    fy_qnn_areas_release(&areas);
    return rc;
}

static int tell_device(child *c, fy_qnn_handle *device, fy_qnn_handle *context, fy_err *e)
{
    static const fy_qnn_chip none = {0};
    fy_qnn_chip own;
    fy_err why = {0};
    char text[96] = "made; the library does not tell of which chip";
    const bool known = fy_qnn_own_chip(c->lib, &own);
    if (fy_qnn_device_new(c->lib, &none, device, &why) != 0 ||
        fy_qnn_context_new(c->lib, *device, false, context, &why) != 0)
        return tell(c, "npu device", FY_SELF_FAILED, why.msg, e);
    if (known)
        snprintf(text, sizeof text, "chip %u, V%u, %u MB of VTCM", own.soc, own.arch, own.vtcm_mb);
    return tell(c, "npu device", FY_SELF_OK, text, e);
}

static bool can_compose(const char *path)
{
    fy_str prepare = {0};
    fy_str_printf(&prepare, "%.*s/libQnnHtpPrepare.so", (int)(strrchr(path, '/') - path), path);
    const bool there = !prepare.oom && fy_file_exists(fy_str_z(&prepare));
    fy_str_release(&prepare);
    return FY_QNN_ON_PC || there;
}

static int tell_operation(child *c, fy_qnn_handle context, fy_err *e)
{
    static const fy_qnn_chip none = {0};
    fy_qnn_product g = {0};
    fy_err why = {0};
    char text[96];
    int8_t *weights = malloc((size_t)FY_QNN_PRODUCT_IN * FY_QNN_PRODUCT_OUT);
    uint16_t *out = calloc((size_t)FY_QNN_PRODUCT_TOKENS * FY_QNN_PRODUCT_OUT, sizeof *out);
    int rc = weights != NULL && out != NULL ? 0 : fy_nomem(e);
    if (rc == 0) {
        fy_qnn_product_weights(weights);
        const bool ran = fy_qnn_product_new(c->lib, context, &none, FY_QNN_PRODUCT_TOKENS, weights,
                                            &g, &why) == 0 &&
                         fy_qnn_product_run(&g, out, &why) == 0;
        const double steps = ran ? fy_qnn_product_error(weights, out) : 0;
        snprintf(text, sizeof text, "a product differs by %.1f steps, expected at most %.0f", steps,
                 MAX_STEPS);
        rc = tell(c, "npu operation",
                  ran && steps <= MAX_STEPS          ? FY_SELF_OK
                  : ran || can_compose(c->lib->path) ? FY_SELF_FAILED
                                                     : FY_SELF_SKIPPED,
                  ran ? text
                  : can_compose(c->lib->path)
                      ? why.msg
                      : "libQnnHtpPrepare.so, which composes graphs, is not here",
                  e);
    }
    fy_qnn_graph_release(&g.graph);
    free(weights);
    free(out);
    return rc;
}

static int check_calls(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    child c = {lib, to, fy_now_s()};
    fy_qnn_handle device = NULL, context = NULL;
    (void)user;
    int rc = tell_library(&c, e) != 0 || tell_metadata(&c, e) != 0 || tell_memory(&c, e) != 0 ||
                     tell_device(&c, &device, &context, e) != 0
                 ? -1
                 : 0;
    if (rc == 0 && context != NULL)
        rc = tell_operation(&c, context, e);
    fy_qnn_context_free(lib, context);
    fy_qnn_device_free(lib, device);
    return rc;
}

/* --- in the parent ---------------------------------------------------------------------------- */

static int take_check(void *user, const void *p, size_t n, fy_err *e)
{
    message m;
    if (n != sizeof m)
        return fy_fail(e, FY_EDEVICE, "%zu bytes about a check of the NPU", n);
    memcpy(&m, p, n);
    m.name[sizeof m.name - 1] = m.detail[sizeof m.detail - 1] = '\0';
    return m.verdict <= FY_SELF_SKIPPED
               ? fy_self_add(user, m.name, (fy_self_verdict)m.verdict, m.seconds, e, "%s", m.detail)
               : fy_fail(e, FY_EDEVICE, "verdict %u", m.verdict);
}

int fy_self_npu(fy_self_checks *l, const char *dir, fy_err *e)
{
    fy_str path = {0};
    fy_err why = {0};
    fy_qnn_end end = FY_QNN_DONE;
    if (fy_qnn_find(dir, &path, &why) != 0) {
        fy_str_release(&path);
        return fy_self_add_error(l, "npu files", 0, &why, e);
    }
    int rc = list_files(l, fy_str_z(&path), e);
    if (rc == 0 &&
        fy_qnn_child(fy_str_z(&path), NULL, check_calls, take_check, l, TIMEOUT_S, &end, &why) != 0)
        rc = fy_self_add_error(l, "npu library", 0, &why, e);
    if (rc == 0 && end != FY_QNN_DONE)
        rc = fy_self_add(l, "npu library", FY_SELF_FAILED, 0, e, "it %s after '%s'",
                         end == FY_QNN_HUNG ? "hung" : "crashed", l->item[l->n - 1].name);
    fy_str_release(&path);
    return rc;
}
#endif
