/* One error value for the whole project: the first failure wins and is ready to show.
 *
 * A function that can fail returns 0 or -1 (constructors: a pointer or NULL) and takes `fy_err *e`
 * last; `e` lives on the caller's stack, starts as {0} and may be NULL. A message gives what was
 * found, what was expected and, where known, what to do. Context is prefixed on the way up:
 *     "m.gguf: tensor 'a': rank 9, at most 4"
 * The library never prints and never exits. */
#ifndef FY_BASE_ERR_H
#define FY_BASE_ERR_H

typedef enum {
    FY_OK = 0,
    FY_ENOMEM,       /* an allocation failed */
    FY_EIO,          /* the system refused a read, write, open, ... */
    FY_EFORMAT,      /* input bytes break the rules of their format */
    FY_EUNSUPPORTED, /* well-formed, but ferry does not handle it */
    FY_EARG,         /* the user asked for something impossible (flags, values) */
    FY_EFIT,         /* does not fit the device, the context or the memory */
    FY_EVERIFY,      /* a comparison or verification failed */
    FY_EDEVICE,      /* the phone or its bridge, or the driver of an NPU or a GPU */
    FY_ENOSPACE,     /* no space left */
    FY_EINTR,        /* interrupted by the user */
    FY_ELOST,        /* the NPU restarted: what was on it is gone */
} fy_code;

typedef struct {
    fy_code code;
    char msg[512];
} fy_err;

/* Records code and message unless an error is already recorded; always returns -1. */
int fy_fail(fy_err *e, fy_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As fy_fail with ": <strerror(errno)>" appended and the code taken from errno
 * (ENOMEM -> FY_ENOMEM, ENOSPC/EDQUOT -> FY_ENOSPACE, EINTR -> FY_EINTR, else FY_EIO). */
int fy_fail_errno(fy_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prefixes "<context>: " to a recorded message; always returns -1. */
int fy_ctx(fy_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* FY_ENOMEM with "out of memory"; always returns -1. */
int fy_nomem(fy_err *e);

/* The documented exit status: 0 ok, 1 failed, 2 usage, 3 does not fit, 4 verification failed, 5
 * device, 6 no space, 130 interrupted. */
int fy_exit_status(fy_code code);

#endif
