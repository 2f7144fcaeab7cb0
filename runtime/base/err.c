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
    switch (code) {
    case FY_OK:
        return 0;
    case FY_EARG:
        return 2;
    case FY_EFIT:
        return 3;
    case FY_EVERIFY:
        return 4;
    case FY_EDEVICE:
        return 5;
    case FY_ENOSPACE:
        return 6;
    case FY_EINTR:
        return 130;
    case FY_ENOMEM:
    case FY_EIO:
    case FY_EFORMAT:
    case FY_EUNSUPPORTED:
        return 1;
    }
    return 1;
}
