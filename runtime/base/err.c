/* Recording the first error, its context on the way up, and the exit status it gives. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fy_fail(fy_err *e, fy_code code, const char *fmt, ...)
{
    if (e == NULL || e->code != FY_OK)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->code = code;
    return -1;
}

int fy_fail_errno(fy_err *e, const char *fmt, ...)
{
    int err = errno;
    if (e == NULL || e->code != FY_OK)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(err));
    e->code = err == ENOMEM                                    ? FY_ENOMEM
              : err == ENOSPC || err == EDQUOT || err == EFBIG ? FY_ENOSPACE
              : err == EINTR                                   ? FY_EINTR
                                                               : FY_EIO;
    return -1;
}

int fy_ctx(fy_err *e, const char *fmt, ...)
{
    if (e == NULL || e->code == FY_OK)
        return -1;
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->msg);
    snprintf(e->msg + n, sizeof e->msg - n, ": %s", old);
    return -1;
}

int fy_nomem(fy_err *e)
{
    return fy_fail(e, FY_ENOMEM, "out of memory");
}

int fy_exit_status(fy_code code)
{
    static const unsigned char status[] = {
        [FY_OK] = 0,           [FY_ENOMEM] = 1,   [FY_EIO] = 1,     [FY_EFORMAT] = 1,
        [FY_EUNSUPPORTED] = 1, [FY_EARG] = 2,     [FY_EFIT] = 3,    [FY_EVERIFY] = 4,
        [FY_EDEVICE] = 5,      [FY_ENOSPACE] = 6, [FY_EINTR] = 130, [FY_ELOST] = 5,
    };
    return (size_t)code < sizeof status ? status[code] : 1;
}
