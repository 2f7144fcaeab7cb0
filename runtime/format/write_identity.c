#include "format/write_identity.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/version.h"

int fy_identity_file(fy_str *out, const char *what, const char *path, fy_err *e)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (real == NULL || stat(real, &st) != 0) {
        free(real);
        return fy_fail_errno(e, "%s", path);
    }
    fy_str_printf(out,
                  "%s %s: %" PRIu64 " bytes, changed at %" PRId64 ".%09ld, inode %" PRIu64 "\n",
                  what, real, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                  (uint64_t)st.st_ino);
    free(real);
    return out->oom ? fy_nomem(e) : 0;
}

int fy_identity_program(fy_str *out, fy_err *e)
{
    fy_str_puts(out, "ferry " FERRY_VERSION "\n");
    return fy_identity_file(out, "program", "/proc/self/exe", e);
}
