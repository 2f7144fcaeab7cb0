/* A QNN library: found, loaded, its version checked, its log kept, its errors turned into messages.
 *
 * Life: open -> devices, contexts, graphs (qnn_graph.h) -> close, in reverse order. One library per
 * process, opened once: two copies in one process give errors 1008 and 1009. The library is never
 * unloaded, since its threads may still run. Code of a vendor may crash or hang: who must survive
 * that opens it in a child process. One thread at a time. */
#ifndef FY_BACKEND_QNN_QNN_LIB_H
#define FY_BACKEND_QNN_QNN_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/qnn/qnn_abi.h"
#include "backend/qnn/qnn_record.h"
#include "base/err.h"
#include "base/str.h"

/* Core interface 2.18 (SDK 2.25) to 2.40 (SDK 2.51) were looked at; older ones have other structs.
 */
enum { FY_QNN_CORE_MAJOR = 2, FY_QNN_CORE_MINOR_FIRST = 18, FY_QNN_CORE_MINOR_KNOWN = 40 };

/* A library for PCs computes in memory and for any chip. */
#ifdef __x86_64__
enum { FY_QNN_ON_PC = true };
#else
enum { FY_QNN_ON_PC = false };
#endif

/* Of the SDK: 2.51. A library reads binaries of its own release and of older ones. */
typedef struct {
    uint32_t major, minor; /* 0, 0: unknown */
} fy_qnn_release;

/* Of a build number, "v2.51.0.260929": takes all but its date off *s. False: is not one. */
bool fy_qnn_release_take(fy_span *s, fy_qnn_release *out);
bool fy_qnn_is_newer(const fy_qnn_release *a, const fy_qnn_release *b);

#define FY_QNN_ENVIRONMENT                                                                     \
    "FERRY_QNN_SDK Where a QNN library is looked for: an SDK, or the unpacked Python package " \
    "onnxruntime_qnn.\n"                                                                       \
    "QNN_SDK_ROOT The same, where FERRY_QNN_SDK is not set.\n"                                 \
    "QAIRT_SDK_ROOT The same, where neither is.\n"

typedef struct {
    const fy_qnn_table
        *call; /* what to call: the library's functions, or a recorder's around them */
    fy_qnn_table table;
    fy_qnn_version core, api;
    char build_id[64]; /* "v2.51.0...", printable; "": it gave none */
    int sdk_minor;     /* 51 of 2.51 */
    bool no_sharing;   /* graphs that share weights do not load: the vendor's library for PCs */
    char *path;        /* owned; of the library */
    fy_qnn_handle log, backend;
} fy_qnn_lib;

/* Where a library lies: `dir`, else the environment (FY_QNN_ENVIRONMENT), else an installed Python
 * package. A directory may be a SDK, a package, or hold the libraries themselves; "reference" is
 * ferry's own (docs/npu-real.md), beside the program or in LIBDIR/ferry. *path becomes that of the
 * library; 0, or -1 with FY_EDEVICE: nothing there. */
int fy_qnn_find(const char *dir, fy_str *path, fy_err *e);

/* record NULL: nothing is recorded. NULL on failure: FY_EDEVICE when it cannot be loaded,
 * FY_EUNSUPPORTED for its version. */
fy_qnn_lib *fy_qnn_open(const char *path, const fy_qnn_record *record, fy_err *e);
/* After the NPU was lost, with all that was made on it freed or given up: a new backend. */
int fy_qnn_restart(fy_qnn_lib *lib, fy_err *e);
/* Frees backend and log, ends the record; NULL is fine. */
void fy_qnn_close(fy_qnn_lib *lib);

/* "CALL: QNN error 6022 (0x1786), its message: the last line of the log; see 'ferry explain 6022'".
 * FY_ELOST when the NPU restarted, FY_EFIT for memory, FY_EUNSUPPORTED for what a library refuses,
 * else FY_EDEVICE. Returns -1. */
int fy_qnn_fail(const fy_qnn_lib *lib, const char *call, fy_qnn_error code, fy_err *e);
/* The code in the low 16 bits. */
static inline uint32_t fy_qnn_code(fy_qnn_error e)
{
    return (uint32_t)(e & 0xffff);
}

/* --- the log: the last lines of the library, from all of its threads -------------------------- */

enum { FY_QNN_LOG_LINES = 200, FY_QNN_LOG_LINE_BYTES = 320 };

/* Lines before this moment are not part of later errors. */
void fy_qnn_log_mark(void);
/* The last line of level ERROR since the mark, fit for a terminal; "" when there is none. */
void fy_qnn_log_last(char *out, size_t size);
/* Is the text in a line of the log since the mark? */
bool fy_qnn_log_says(const char *text);
/* Appends the kept lines, oldest first, as "LEVEL text\n". */
void fy_qnn_log_lines(fy_str *out);

/* --- the phone's library of memory that processor and NPU share (libcdsprpc.so) --------------- */

typedef struct {
    void *(*alloc)(int heap, uint32_t flags, int bytes);
    void (*free)(void *p);
    int (*to_fd)(void *p);
} fy_qnn_rpcmem;

/* False: `why` says that there is none. */
bool fy_qnn_rpcmem_open(fy_qnn_rpcmem *out, char *why, size_t size);

/* --- the library of metadata (libQnnSystem.so, beside the backend's)
 * ------------------------------ */

typedef struct {
    fy_qnn_system_table table;
    fy_qnn_version version;
} fy_qnn_system;

/* `path`: of the backend's library. */
int fy_qnn_system_open(const char *path, fy_qnn_system *out, fy_err *e);

#endif
