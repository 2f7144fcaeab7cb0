#include "convert/convert_identity.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/math.h"
#include "base/version.h"

static int add_file(fy_str *out, const char *what, const char *path, fy_err *e)
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

/* Whatever the container, it is among the files of its directory; outputs are not of it. */
static int is_source(const struct dirent *en)
{
    return en->d_name[0] != '.' && !fy_span_ends(fy_span_of(en->d_name), ".gguf") &&
           !fy_span_ends(fy_span_of(en->d_name), ".part");
}

/* In the order of their names. */
static int add_directory(fy_str *out, const char *dir, fy_err *e)
{
    struct dirent **list;
    const int n = scandir(dir, &list, is_source, alphasort);
    if (n < 0)
        return fy_fail_errno(e, "%s", dir);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        char *path = fy_path_join(dir, list[i]->d_name);
        struct stat st;
        if (rc == 0 && path == NULL)
            rc = fy_nomem(e);
        if (rc == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            rc = add_file(out, "source", path, e);
        free(path);
        free(list[i]);
    }
    free(list);
    return rc;
}

int fy_convert_identity(const char *checkpoint, fy_str *out, fy_err *e)
{
    fy_str_puts(out, "ferry " FERRY_VERSION "\n");
    if (add_file(out, "program", "/proc/self/exe", e) != 0)
        return -1;
    return fy_file_is_dir(checkpoint) ? add_directory(out, checkpoint, e)
                                      : add_file(out, "source", checkpoint, e);
}

int fy_split_size(const char *text, uint64_t *bytes, fy_err *e)
{
    *bytes = 0;
    if (text == NULL)
        return 0;
    char *end = NULL;
    const bool digit = isdigit((unsigned char)text[0]);
    const uint64_t n = digit ? strtoull(text, &end, 10) : 0;
    const uint64_t unit = !digit                       ? 0
                          : *end == 'K' || *end == 'k' ? 1000
                          : *end == 'M' || *end == 'm' ? 1000000
                          : *end == 'G' || *end == 'g' ? 1000000000
                          : *end == '\0'               ? 1
                                                       : 0;
    if (unit == 0 || (unit > 1 && end[1] != '\0') || n == 0 || !fy_mul_u64(n, unit, bytes) ||
        *bytes > INT64_MAX)
        return fy_fail(e, FY_EARG,
                       "--split-max-size %s: expected a size such as 400M or 2G (decimal)", text);
    return 0;
}
