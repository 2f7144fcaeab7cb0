/* Finds and loads a QNN library, keeps its log, and turns its errors into messages. */
#include "backend/qnn/qnn_lib.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/path.h"

/* --- the log ---------------------------------------------------------------------------------- */

/* The callback has no pointer of the caller, so there is one log a process. */
static struct {
    pthread_mutex_t lock;
    uint64_t n, mark; /* lines that came; of those, before the mark */
    struct {
        uint32_t level;
        char text[FY_QNN_LOG_LINE_BYTES];
    } line[FY_QNN_LOG_LINES];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((format(printf, 1, 0))) static void keep_line(const char *fmt, uint32_t level,
                                                            uint64_t timestamp, va_list args)
{
    char text[FY_QNN_LOG_LINE_BYTES];
    (void)timestamp;
    int n = vsnprintf(text, sizeof text, fmt, args);
    n = n < 0 ? 0 : n < (int)sizeof text ? n : (int)sizeof text - 1;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    pthread_mutex_lock(&kept.lock);
    char *to = kept.line[kept.n % FY_QNN_LOG_LINES].text;
    fy_quote(to, FY_QNN_LOG_LINE_BYTES, (fy_span){text, (size_t)n});
    kept.line[kept.n % FY_QNN_LOG_LINES].level = level;
    kept.n++;
    fy_qnn_record_log(level, to);
    pthread_mutex_unlock(&kept.lock);
}

void fy_qnn_log_mark(void)
{
    pthread_mutex_lock(&kept.lock);
    kept.mark = kept.n;
    pthread_mutex_unlock(&kept.lock);
}

static uint64_t first_kept(void)
{
    return kept.n > FY_QNN_LOG_LINES ? kept.n - FY_QNN_LOG_LINES : 0;
}

void fy_qnn_log_last(char *out, size_t size)
{
    out[0] = '\0';
    pthread_mutex_lock(&kept.lock);
    const uint64_t first = kept.mark > first_kept() ? kept.mark : first_kept();
    for (uint64_t i = kept.n; i > first && out[0] == '\0'; i--) {
        if (kept.line[(i - 1) % FY_QNN_LOG_LINES].level == FY_QNN_LOG_ERROR)
            snprintf(out, size, "%s", kept.line[(i - 1) % FY_QNN_LOG_LINES].text);
    }
    pthread_mutex_unlock(&kept.lock);
}

bool fy_qnn_log_says(const char *text)
{
    bool says = false;
    pthread_mutex_lock(&kept.lock);
    const uint64_t first = kept.mark > first_kept() ? kept.mark : first_kept();
    for (uint64_t i = first; i < kept.n && !says; i++)
        says = strstr(kept.line[i % FY_QNN_LOG_LINES].text, text) != NULL;
    pthread_mutex_unlock(&kept.lock);
    return says;
}

void fy_qnn_log_lines(fy_str *out)
{
    static const char *const names[] = {"?", "error", "warning", "info", "verbose", "debug"};
    pthread_mutex_lock(&kept.lock);
    for (uint64_t i = first_kept(); i < kept.n; i++) {
        const uint32_t level = kept.line[i % FY_QNN_LOG_LINES].level;
        fy_str_printf(out, "%s %s\n", names[level < 6 ? level : 0],
                      kept.line[i % FY_QNN_LOG_LINES].text);
    }
    pthread_mutex_unlock(&kept.lock);
}

/* --- where it lies ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define SDK_LIBRARIES "lib/x86_64-linux-clang"
#elif defined(__ANDROID__)
#define SDK_LIBRARIES "lib/aarch64-android"
#else
#define SDK_LIBRARIES "lib/aarch64-oe-linux-gcc11.2"
#endif

/* Below a directory that was named. */
static const char *const places[] = {"libQnnHtp.so", SDK_LIBRARIES "/libQnnHtp.so",
                                     "onnxruntime_qnn/libQnnHtp.so", "libQnnRef.so"};
/* Where pip puts a package; "~" and "$VIRTUAL_ENV" are replaced. */
static const char *const packages[] = {
    "$VIRTUAL_ENV/lib/python3*/site-packages", "~/.local/lib/python3*/site-packages",
    "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages"};

static bool find_below(const char *dir, fy_str *path)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        fy_str_clear(path);
        fy_str_printf(path, "%s/%s", dir, places[i]);
        if (!path->oom && fy_file_exists(fy_str_z(path)))
            return true;
    }
    fy_str_clear(path);
    return false;
}

static bool find_in_packages(fy_str *path)
{
    bool found = false;
    for (size_t i = 0; i < sizeof packages / sizeof packages[0] && !found; i++) {
        const char *rest = strchr(packages[i], '/'), *home = NULL;
        glob_t g;
        if (packages[i][0] == '~' || packages[i][0] == '$') {
            home = getenv(packages[i][0] == '~' ? "HOME" : "VIRTUAL_ENV");
            if (home == NULL)
                continue;
        } else {
            home = "";
        }
        fy_str pattern = {0};
        fy_str_printf(&pattern, "%s%s/onnxruntime_qnn", home, rest);
        if (!pattern.oom && glob(fy_str_z(&pattern), 0, NULL, &g) == 0) {
            for (size_t k = 0; k < g.gl_pathc && !found; k++)
                found = find_below(g.gl_pathv[k], path);
            globfree(&g);
        }
        fy_str_release(&pattern);
    }
    return found;
}

/* Ours is installed as LIBDIR/ferry, and built beside the program. */
static bool find_reference(fy_str *path)
{
    static const char *const beside[] = {"qnn/libQnnRef.so", "host/release/qnn/libQnnRef.so",
                                         "../lib/ferry/libQnnRef.so"};
    char exe[4096];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        fy_str_clear(path);
        fy_str_printf(path, "%s/%s", exe, beside[i]);
        if (!path->oom && fy_file_exists(fy_str_z(path)))
            return true;
    }
    return false;
}

int fy_qnn_find(const char *dir, fy_str *path, fy_err *e)
{
    static const char *const variables[] = {"FERRY_QNN_SDK", "QNN_SDK_ROOT", "QAIRT_SDK_ROOT"};
    char shown[FY_QUOTE_BYTES];
    if (dir != NULL && strcmp(dir, "reference") == 0)
        return find_reference(path)
                   ? 0
                   : fy_fail(e, FY_EDEVICE,
                             "libQnnRef.so, ferry's own reference library, is not beside the "
                             "program; 'make' builds it");
    for (size_t i = 0; i < 3 && dir == NULL; i++) {
        dir = getenv(variables[i]);
        dir = dir != NULL && *dir != '\0' ? dir : NULL;
    }
    if (dir != NULL)
        return find_below(dir, path)
                   ? 0
                   : fy_fail(e, FY_EDEVICE,
                             "%s: no QNN library: expected libQnnHtp.so there, in " SDK_LIBRARIES
                             " or in onnxruntime_qnn",
                             fy_quote(shown, sizeof shown, fy_span_of(dir)));
    return find_in_packages(path)
               ? 0
               : fy_fail(e, FY_EDEVICE,
                         "no QNN library found; name an SDK, or get the Python package: 'pip "
                         "download --no-deps onnxruntime-qnn', unpack it, and give its directory");
}

/* --- loading ---------------------------------------------------------------------------------- */

/* Where a phone's DSP looks for its half of the library (libQnnHtpV75Skel.so): the directory of the
 * processor's half, then what the environment has, or the vendor's directories. Their separator is
 * ';'. */
static void set_dsp_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *old = getenv("ADSP_LIBRARY_PATH");
    fy_str dir = {0}, list = {0};
    if (FY_QNN_ON_PC || slash == NULL)
        return;
    fy_str_printf(&dir, "%.*s", (int)(slash - path), path);
    char *own = dir.oom ? NULL : realpath(fy_str_z(&dir), NULL);
    const size_t n = own != NULL ? strlen(own) : 0;
    if (old == NULL || old[0] == '\0')
        old = "/vendor/dsp/cdsp;/vendor/lib/rfsa/adsp;/system/lib/rfsa/adsp;/dsp";
    if (own != NULL && (strncmp(old, own, n) != 0 || (old[n] != ';' && old[n] != '\0')))
        fy_str_printf(&list, "%s;%s", own, old);
    if (list.len > 0 && !list.oom)
        (void)setenv("ADSP_LIBRARY_PATH", fy_str_z(&list), 1);
    fy_str_release(&list);
    fy_str_release(&dir);
    free(own);
}

/* Libraries that the vendor's loads by name, from where the loader does not look: loaded first,
 * they are found. A phone's half that calls the DSP lies beside it; the Python package keeps its
 * C++ library beside itself, which an SDK leaves to the system. */
static void load_beside(const char *path)
{
    static const char *const patterns[] = {
        "libQnnHtpV*Stub.so", "../onnxruntime_qnn.libs/libunwind*.so*",
        "../onnxruntime_qnn.libs/libc++abi*.so*", "../onnxruntime_qnn.libs/libc++[-.]*so*"};
    const char *slash = strrchr(path, '/');
    for (size_t i = FY_QNN_ON_PC; i < sizeof patterns / sizeof patterns[0] && slash != NULL; i++) {
        fy_str pattern = {0};
        glob_t g;
        fy_str_printf(&pattern, "%.*s/%s", (int)(slash - path), path, patterns[i]);
        if (!pattern.oom && glob(fy_str_z(&pattern), 0, NULL, &g) == 0) {
            for (size_t k = 0; k < g.gl_pathc; k++)
                (void)dlopen(g.gl_pathv[k], RTLD_NOW | RTLD_LOCAL);
            globfree(&g);
        }
        fy_str_release(&pattern);
    }
}

/* A symbol of a library by its path; NULL on failure. */
static void *load_symbol(const char *path, const char *name, fy_err *e)
{
    set_dsp_path(path);
    load_beside(path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;
    if (symbol == NULL) {
        char why[256];
        const char *text = dlerror();
        fy_quote(why, sizeof why, fy_span_of(text != NULL ? text : "no reason given"));
        fy_fail(e, FY_EDEVICE,
                "cannot load the QNN library: %s; expected one for this machine with "
                "the libraries that it needs",
                why);
    }
    return symbol;
}

static int choose_provider(fy_qnn_lib *lib, const fy_qnn_provider **list, uint32_t n, fy_err *e)
{
    const fy_qnn_provider *best = NULL;
    fy_str offered = {0};
    for (uint32_t i = 0; i < n; i++) {
        const fy_qnn_provider *p = list[i];
        fy_str_printf(&offered, "%sbackend %u with core %u.%u", i > 0 ? ", " : "", p->backend,
                      p->core.major, p->core.minor);
        if (p->backend == FY_QNN_BACKEND_HTP && p->core.major == FY_QNN_CORE_MAJOR &&
            p->core.minor >= FY_QNN_CORE_MINOR_FIRST &&
            (best == NULL || p->core.minor > best->core.minor))
            best = p;
    }
    if (best == NULL)
        fy_fail(e, FY_EUNSUPPORTED,
                "the QNN library offers %.200s; expected backend %d with core interface %d.%d (SDK "
                "2.25) or newer of major %d",
                n == 0 ? "nothing" : fy_str_z(&offered), FY_QNN_BACKEND_HTP, FY_QNN_CORE_MAJOR,
                FY_QNN_CORE_MINOR_FIRST, FY_QNN_CORE_MAJOR);
    fy_str_release(&offered);
    if (best == NULL)
        return -1;
    lib->table = best->table;
    lib->call = &lib->table;
    lib->core = best->core;
    lib->api = best->backend_api;
    lib->sdk_minor = (int)best->backend_api.minor;
    lib->no_sharing =
        FY_QNN_ON_PC && (best->name == NULL || strcmp(best->name, FY_QNN_REFERENCE_NAME) != 0);
    if (best->core.minor > FY_QNN_CORE_MINOR_KNOWN)
        fy_log(FY_LOG_WARN,
               "the QNN library has core interface %u.%u; the newest one that was "
               "tried is %d.%d",
               best->core.major, best->core.minor, FY_QNN_CORE_MAJOR, FY_QNN_CORE_MINOR_KNOWN);
    return 0;
}

/* The functions that every use needs. Others are looked at where they are called. */
static int check_table(const fy_qnn_table *t, fy_err *e)
{
    const struct {
        const char *name;
        bool there;
    } rows[] = {
        {"backendCreate", t->backend_create != NULL},
        {"backendValidateOpConfig", t->backend_validate != NULL},
        {"backendFree", t->backend_free != NULL},
        {"contextCreate", t->context_create != NULL},
        {"contextGetBinarySize", t->context_binary_size != NULL},
        {"contextGetBinary", t->context_binary != NULL},
        {"contextCreateFromBinary", t->context_create_from_binary != NULL},
        {"contextFree", t->context_free != NULL},
        {"graphCreate", t->graph_create != NULL},
        {"graphAddNode", t->graph_add_node != NULL},
        {"graphFinalize", t->graph_finalize != NULL},
        {"graphRetrieve", t->graph_retrieve != NULL},
        {"graphExecute", t->graph_execute != NULL},
        {"tensorCreateGraphTensor", t->tensor_create != NULL},
        {"deviceCreate", t->device_create != NULL},
        {"deviceFree", t->device_free != NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].there)
            return fy_fail(e, FY_EUNSUPPORTED, "the QNN library has no function %s", rows[i].name);
    }
    return 0;
}

static int begin(fy_qnn_lib *lib, const fy_qnn_record *record, fy_err *e)
{
    const char *id = NULL;
    if (lib->call->backend_build_id != NULL && lib->call->backend_build_id(&id) == 0 && id != NULL)
        fy_quote(lib->build_id, sizeof lib->build_id, fy_span_of(id));
    if (record != NULL &&
        fy_qnn_record_begin(record, &lib->table, lib->core, lib->build_id, &lib->call, e) != 0)
        return -1;
    fy_qnn_log_mark();
    if (lib->call->log_create == NULL ||
        lib->call->log_create(keep_line, FY_QNN_LOG_WARN, &lib->log) != 0)
        lib->log = NULL; /* without a log everything still works */
    const fy_qnn_error err = lib->call->backend_create(lib->log, NULL, &lib->backend);
    return err == 0 ? 0 : fy_qnn_fail(lib, "backendCreate", err, e);
}

fy_qnn_lib *fy_qnn_open(const char *path, const fy_qnn_record *record, fy_err *e)
{
    const fy_qnn_provider **list = NULL;
    fy_qnn_get_providers providers;
    uint32_t n = 0;
    void *symbol = load_symbol(path, "QnnInterface_getProviders", e);
    fy_qnn_lib *lib = symbol != NULL ? calloc(1, sizeof *lib) : NULL;
    if (lib == NULL)
        return symbol != NULL ? (fy_nomem(e), NULL) : NULL;
    memcpy(&providers, &symbol, sizeof providers);
    lib->path = strdup(path);
    if (lib->path == NULL) {
        fy_nomem(e);
    } else if (providers(&list, &n) != 0 || (list == NULL && n > 0)) {
        fy_fail(e, FY_EDEVICE, "the QNN library names no provider of its interface");
    } else if (choose_provider(lib, list, n, e) == 0 && check_table(&lib->table, e) == 0 &&
               begin(lib, record, e) == 0) {
        return lib;
    }
    fy_qnn_close(lib);
    return NULL;
}

int fy_qnn_restart(fy_qnn_lib *lib, fy_err *e)
{
    fy_qnn_log_mark();
    (void)lib->call->backend_free(lib->backend);
    lib->backend = NULL;
    const fy_qnn_error err = lib->call->backend_create(lib->log, NULL, &lib->backend);
    return err == 0 ? 0 : fy_qnn_fail(lib, "backendCreate", err, e);
}

void fy_qnn_close(fy_qnn_lib *lib)
{
    if (lib == NULL)
        return;
    if (lib->backend != NULL)
        lib->call->backend_free(lib->backend);
    if (lib->log != NULL && lib->call->log_free != NULL)
        lib->call->log_free(lib->log);
    (void)fy_qnn_record_end(NULL);
    free(lib->path);
    free(lib);
}

int fy_qnn_system_open(const char *path, fy_qnn_system *out, fy_err *e)
{
    const fy_qnn_system_provider **list = NULL;
    fy_qnn_system_get_providers providers;
    uint32_t n = 0;
    fy_str name = {0};
    const char *slash = strrchr(path, '/');
    const bool ours = slash != NULL && strcmp(slash, "/libQnnRef.so") == 0;
    fy_str_printf(&name, "%.*s/%s", slash != NULL ? (int)(slash - path) : 1,
                  slash != NULL ? path : ".", ours ? "libQnnRefSystem.so" : "libQnnSystem.so");
    void *symbol = name.oom ? (fy_nomem(e), NULL)
                            : load_symbol(fy_str_z(&name), "QnnSystemInterface_getProviders", e);
    fy_str_release(&name);
    if (symbol == NULL)
        return -1;
    memcpy(&providers, &symbol, sizeof providers);
    if (providers(&list, &n) != 0 || n == 0 || list == NULL)
        return fy_fail(e, FY_EDEVICE, "the QNN system library names no provider");
    out->table = list[0]->table;
    out->version = list[0]->version;
    if (out->table.create == NULL || out->table.free == NULL ||
        (out->table.metadata == NULL && out->table.binary_info == NULL))
        return fy_fail(e, FY_EUNSUPPORTED, "the QNN system library lacks functions for metadata");
    return 0;
}

bool fy_qnn_rpcmem_open(fy_qnn_rpcmem *out, char *why, size_t size)
{
    void *library = dlopen("libcdsprpc.so", RTLD_NOW | RTLD_LOCAL);
    const char *text = library == NULL ? dlerror() : NULL;
    fy_quote(why, size, fy_span_of(text != NULL ? text : "libcdsprpc.so has no rpcmem_alloc"));
    if (library == NULL)
        library = dlopen("/vendor/lib64/libcdsprpc.so", RTLD_NOW | RTLD_LOCAL);
    void *alloc = library != NULL ? dlsym(library, "rpcmem_alloc") : NULL;
    void *release = library != NULL ? dlsym(library, "rpcmem_free") : NULL;
    void *to_fd = library != NULL ? dlsym(library, "rpcmem_to_fd") : NULL;
    if (alloc == NULL || release == NULL || to_fd == NULL)
        return false;
    memcpy(&out->alloc, &alloc, sizeof alloc);
    memcpy(&out->free, &release, sizeof release);
    memcpy(&out->to_fd, &to_fd, sizeof to_fd);
    why[0] = '\0';
    return true;
}

/* --- releases --------------------------------------------------------------------------------- */

bool fy_qnn_is_newer(const fy_qnn_release *a, const fy_qnn_release *b)
{
    return a->major > b->major || (a->major == b->major && a->minor > b->minor);
}

/* A number and the dot after it. */
static bool take_number(fy_span *s, uint32_t *out)
{
    size_t n = 0;
    *out = 0;
    for (; n < s->len && n < 4 && s->ptr[n] >= '0' && s->ptr[n] <= '9'; n++)
        *out = *out * 10 + (uint32_t)(s->ptr[n] - '0');
    if (n == 0 || n == s->len || s->ptr[n] != '.')
        return false;
    *s = (fy_span){s->ptr + n + 1, s->len - n - 1};
    return true;
}

bool fy_qnn_release_take(fy_span *s, fy_qnn_release *out)
{
    uint32_t patch;
    if (s->len == 0 || s->ptr[0] != 'v')
        return false;
    *s = (fy_span){s->ptr + 1, s->len - 1};
    return take_number(s, &out->major) && take_number(s, &out->minor) && take_number(s, &patch);
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Of some restarts only the log tells, whose lines may arrive a little later: "SSR", or the numbers
 * of the way to the DSP. */
static bool log_tells_restart(void)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    for (int i = 0; i < 10; i++) {
        if (fy_qnn_log_says("SSR") || fy_qnn_log_says("0x8000040e") ||
            fy_qnn_log_says("0x8000042e"))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static fy_code code_of(uint32_t code)
{
    switch (code) {
    case FY_QNN_ERESTARTED:
    case FY_QNN_ELOST:
    case FY_QNN_EGRAPH_CONTEXT:
        return FY_ELOST;
    case FY_QNN_ESYSTEM:
        return log_tells_restart() ? FY_ELOST : FY_EDEVICE;
    case FY_QNN_EMEMORY:
        return FY_EFIT;
    case FY_QNN_ENOT_SUPPORTED:
    case FY_QNN_EVALIDATE:
    case FY_QNN_EBINARY_VERSION:
        return FY_EUNSUPPORTED;
    default:
        return FY_EDEVICE;
    }
}

int fy_qnn_fail(const fy_qnn_lib *lib, const char *call, fy_qnn_error err, fy_err *e)
{
    const uint32_t code = fy_qnn_code(err);
    const char *text = NULL;
    char message[160] = "", line[240];
    if (lib->call->error_message != NULL && lib->call->error_message(err, &text) == 0 &&
        text != NULL)
        fy_quote(message, sizeof message, fy_span_of(text));
    fy_qnn_log_last(line, sizeof line);
    return fy_fail(e, code_of(code), "%s: QNN error %u (0x%x)%s%s%s%s; see 'ferry explain %u'",
                   call, code, code, *message != '\0' ? ", " : "", message,
                   *line != '\0' ? ": " : "", line, code);
}
