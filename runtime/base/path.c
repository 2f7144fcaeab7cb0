/* Paths, directories, and the names of hub repositories. */
#include "base/path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

char *fy_path_join(const char *dir, const char *name)
{
    size_t d = strlen(dir), n = strlen(name);
    while (d > 1 && dir[d - 1] == '/')
        d--;
    bool slash = d > 0 && dir[d - 1] != '/';
    char *p = malloc(d + slash + n + 1);
    if (p == NULL)
        return NULL;
    memcpy(p, dir, d);
    if (slash)
        p[d] = '/';
    memcpy(p + d + slash, name, n + 1);
    return p;
}

char *fy_path_format(fy_err *e, const char *fmt, ...)
{
    char *path = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&path, fmt, ap) < 0) {
        fy_nomem(e);
        path = NULL;
    }
    va_end(ap);
    return path;
}

fy_span fy_path_base(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return (fy_span){path + begin, end - begin};
}

bool fy_path_is_plain(fy_span name)
{
    return name.len > 0 && memchr(name.ptr, '/', name.len) == NULL &&
           memchr(name.ptr, '\0', name.len) == NULL && !fy_span_is(name, ".") &&
           !fy_span_is(name, "..");
}

int fy_mkdirs(const char *path, fy_err *e)
{
    char *p = strdup(path);
    if (p == NULL)
        return fy_nomem(e);
    int rc = 0;
    for (char *s = p + (p[0] == '/'); rc == 0; s++) {
        if (*s != '/' && *s != '\0')
            continue;
        char c = *s;
        *s = '\0';
        if (p[0] != '\0' && mkdir(p, 0777) != 0 && errno != EEXIST)
            rc = fy_fail_errno(e, "%s: cannot create the directory", p);
        *s = c;
        if (c == '\0')
            break;
    }
    if (rc == 0 && !fy_file_is_dir(path))
        rc = fy_fail(e, FY_EIO, "%s: is not a directory", path);
    free(p);
    return rc;
}

char *fy_path_make(const char *dir, const char *rel, fy_err *e)
{
    char *path = fy_path_join(dir, rel), *slash = path != NULL ? strrchr(path, '/') : NULL;
    int rc = slash != NULL ? 0 : fy_nomem(e);
    if (rc == 0) {
        *slash = '\0';
        rc = fy_mkdirs(path, e);
        *slash = '/';
    }
    if (rc == 0)
        return path;
    free(path);
    return NULL;
}

static const char *absolute(const char *variable)
{
    const char *dir = getenv(variable);
    return dir != NULL && dir[0] == '/' ? dir : NULL;
}

static bool user_path(const char *variable, const char *at_home, const char *name, fy_str *out)
{
    const char *given = absolute(variable);
    const char *dir = given != NULL ? given : absolute("HOME");
    if (dir == NULL)
        return false;
    fy_str_printf(out, "%s%s/ferry/%s", dir, given != NULL ? "" : at_home, name);
    return true;
}

bool fy_config_path(const char *name, fy_str *out)
{
    return user_path("XDG_CONFIG_HOME", "/.config", name, out);
}

bool fy_state_path(const char *name, fy_str *out)
{
    return user_path("XDG_STATE_HOME", "/.local/state", name, out);
}

char *fy_cache_dir(const char *name, fy_err *e)
{
    const char *cache = absolute("XDG_CACHE_HOME");
    const char *dir = cache != NULL ? cache : absolute("HOME");
    if (dir == NULL) {
        fy_fail(e, FY_EARG, "neither XDG_CACHE_HOME nor HOME is a directory; set one of them");
        return NULL;
    }
    char *path = fy_path_format(e, "%s%s/ferry/%s", dir, cache != NULL ? "" : "/.cache", name);
    if (path == NULL || fy_mkdirs(path, e) == 0)
        return path;
    free(path);
    return NULL;
}

/* --- hub names -------------------------------------------------------------------------------- */

#define PART_BYTES 96

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Bytes of the part that begins here, or 0. */
static size_t part_bytes(const char *p)
{
    size_t n = 0;
    while (is_word(p[n]) || p[n] == '-' || p[n] == '.') {
        if (n > 0 && p[n] != '_' && p[n] == p[n - 1] && !is_word(p[n]))
            return 0;
        n++;
    }
    return n >= 1 && n <= PART_BYTES && is_word(p[0]) && is_word(p[n - 1]) ? n : 0;
}

size_t fy_hub_id_bytes(const char *text)
{
    size_t n = part_bytes(text);
    if (n > 0 && text[n] == '/') {
        size_t name = part_bytes(text + n + 1);
        n = name > 0 ? n + 1 + name : 0;
    }
    if (n == 0 || (text[n] != '\0' && text[n] != ':' && text[n] != '@'))
        return 0;
    return n > 4 && memcmp(text + n - 4, ".git", 4) == 0 ? 0 : n;
}

bool fy_hub_id_is_meant(const char *text)
{
    static const char *const files[] = {".gguf", ".json", ".safetensors", ".bin", ".pt", ".pth"};
    const size_t n = fy_hub_id_bytes(text);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (fy_span_ends((fy_span){text, n}, files[i]))
            return false;
    }
    return n > 0 && memchr(text, '/', n) != NULL && !fy_file_exists(text);
}
