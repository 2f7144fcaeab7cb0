#include "api/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/process.h"

const char *ferry_version(void)
{
    return FERRY_VERSION;
}

ferry_status fy_api_end(int rc, const fy_err *e, ferry_error *out)
{
    ferry_status status = rc == 0 ? FERRY_OK : fy_exit_status(e->code);
    if (out != NULL) {
        out->status = status;
        snprintf(out->message, sizeof out->message, "%s", rc == 0 ? "" : e->msg);
    }
    return status;
}

int fy_api_need(const void *p, const char *name, fy_err *e)
{
    return p != NULL ? 0 : fy_fail(e, FY_EARG, "%s is NULL", name);
}

/* Both structs begin with their size, which the caller may have made of anything. */
int fy_api_params(const void *given, void *known, size_t least, const char *name, fy_err *e)
{
    uint32_t given_size, known_size;
    if (given == NULL)
        return 0;
    memcpy(&given_size, given, sizeof given_size);
    memcpy(&known_size, known, sizeof known_size);
    if (given_size < least || given_size > 4096)
        return fy_fail(e, FY_EARG, "%s.struct_size is %u, expected %zu or more: call %s_init", name,
                       given_size, least, name);
    const unsigned char *bytes = given;
    for (uint32_t i = known_size; i < given_size; i++) {
        if (bytes[i] != 0)
            return fy_fail(e, FY_EARG,
                           "%s: byte %u is set, but ferry %s knows %u: the program was made for a "
                           "later version",
                           name, i, FERRY_VERSION, known_size);
    }
    memcpy(known, given, given_size < known_size ? given_size : known_size);
    memcpy(known, &known_size, sizeof known_size);
    return 0;
}

void fy_api_params_init(void *p, size_t struct_size, const void *defaults, size_t size)
{
    const uint32_t n = (uint32_t)struct_size;
    if (p == NULL || struct_size < sizeof n)
        return;
    memset(p, 0, struct_size);
    memcpy(p, defaults, struct_size < size ? struct_size : size);
    memcpy(p, &n, sizeof n);
}

int fy_api_flags(uint32_t flags, uint32_t known, fy_err *e)
{
    if ((flags & ~known) == 0)
        return 0;
    return fy_fail(e, FY_EARG, "flags %#x, expected none but %#x", flags, known);
}

int fy_api_put_text(const fy_str *s, char *text, size_t capacity, size_t *n_bytes, fy_err *e)
{
    if (s->oom)
        return fy_nomem(e);
    *n_bytes = s->len;
    if (text == NULL)
        return 0;
    if (capacity <= s->len)
        return fy_fail(e, FY_EFIT, "a text of %zu bytes and a NUL, the buffer holds %zu", s->len,
                       capacity);
    memcpy(text, fy_str_z(s), s->len + 1);
    return 0;
}
