/* The checks of `ferry selftest`: each adds its verdicts to a list. A failed check is not an error;
 * -1 only if the run must end (an interrupt, no memory). */
#ifndef FY_CLI_SELFTEST_H
#define FY_CLI_SELFTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "model/model.h"

typedef enum { FY_SELF_OK, FY_SELF_FAILED, FY_SELF_SKIPPED } fy_self_verdict;

typedef struct {
    char *name, *detail; /* owned; detail: what was compared, or how it failed */
    fy_self_verdict verdict;
    double seconds;
} fy_self_check;

/* Zero-initialise. */
typedef struct {
    fy_self_check *item; /* owned */
    size_t n, cap;
} fy_self_checks;

int fy_self_add(fy_self_checks *l, const char *name, fy_self_verdict verdict, double seconds,
                fy_err *e, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* A failed check, unless `why` ends the run. */
int fy_self_add_error(fy_self_checks *l, const char *name, double seconds, const fy_err *why,
                      fy_err *e);
void fy_self_release(fy_self_checks *l);

/* Every kernel of this build that the CPU can run, on fixed vectors. */
int fy_self_kernels(fy_self_checks *l, fy_err *e);

/* The NPU's library in a directory, as fy_qnn_find takes it: its files, versions, memory that it
 * shares, its device, one operation. */
int fy_self_npu(fy_self_checks *l, const char *dir, fy_err *e);

/* The hash of every file of a workspace. */
int fy_self_files(fy_self_checks *l, const char *dir, int n_threads, fy_err *e);
/* parity.json of the directory that holds the model's; quick: only the first prompt. */
int fy_self_parity(fy_self_checks *l, const char *model_dir, fy_model *m, int n_threads, bool quick,
                   fy_err *e);
/* The same logits with 1 and n threads, whole and in pieces. */
int fy_self_threads(fy_self_checks *l, const fy_model *m, int n_threads, fy_err *e);

typedef struct {
    double read_bytes_per_s;            /* of memory, all threads */
    double prefill_per_s, decode_per_s; /* tokens; 0: not measured */
    uint32_t n_prefill, n_decode;
    int n_threads;
    uint64_t kv_bytes, scratch_bytes; /* of the session that was measured */
    uint64_t anonymous_bytes, peak_bytes;
} fy_self_reading;

/* Bytes per second that so many threads read from a buffer of `megabytes`, more than the caches
 * hold: what bounds the decoding of one token. The best round of those that fit into the time, at
 * least one. */
int fy_read_speed(int n_threads, unsigned megabytes, double seconds, double *rate, fy_err *e);

/* m may be NULL: only the memory is read. seconds: about so long in all. Adds the check that the
 * process took no more memory than announced. */
int fy_self_measure(fy_self_checks *l, const fy_model *m, int n_threads, double seconds,
                    fy_self_reading *out, fy_err *e);

/* The machine, without anything that would identify it. */
void fy_self_system_json(fy_str *out);
void fy_self_system_text(fy_str *out);
void fy_self_cpu_text(fy_str *out); /* names of the kinds of cores: "AMD EPYC 9B45" */

#endif
