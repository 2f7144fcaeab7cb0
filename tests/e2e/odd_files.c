/* A file system that behaves oddly, for tests/e2e/odd_files.sh: LD_PRELOAD it. Only files in a
 * directory called "odd" are touched.
 *
 *   ODD_SHORT=1               reads and writes move one part of what was asked for, and every third
 *                             fails with EINTR first
 *   ODD_FAIL=CALL:ERRNO:K     the Kth call of that name fails, once; then $ODD_HIT is made */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic int n_calls, n_moved;

#define NEXT(name)                 \
    static __typeof__(name) *next; \
    if (next == NULL)              \
    *(void **)&next = dlsym(RTLD_NEXT, #name)

static int is_odd_path(const char *path)
{
    return strstr(path, "odd/") != NULL;
}

static int is_odd(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return is_odd_path(path);
}

static void hit(void)
{
    const char *path = getenv("ODD_HIT");
    FILE *f = path != NULL ? fopen(path, "w") : NULL;
    if (f != NULL)
        fclose(f);
}

/* Does this call of an odd file fail? Then errno is set. */
static int fails(const char *call)
{
    const char *spec = getenv("ODD_FAIL");
    const size_t n = strlen(call);
    if (spec == NULL || strncmp(spec, call, n) != 0 || spec[n] != ':')
        return 0;
    const int code = atoi(spec + n + 1), k = atoi(strchr(spec + n + 1, ':') + 1);
    if (atomic_fetch_add(&n_calls, 1) + 1 != k)
        return 0;
    hit();
    errno = code;
    return 1;
}

/* How much of n bytes moves; 0: EINTR. */
static size_t moves(size_t n)
{
    if (getenv("ODD_SHORT") == NULL)
        return n;
    const int i = atomic_fetch_add(&n_moved, 1);
    if (i % 3 == 2) {
        errno = EINTR;
        return 0;
    }
    return n > 1 ? n - n / (size_t)(2 + i % 5) : n;
}

#define AT(name)                                             \
    ssize_t name(int fd, ODD_BUFFER p, size_t n, off_t off); \
    ssize_t name(int fd, ODD_BUFFER p, size_t n, off_t off)  \
    {                                                        \
        NEXT(name);                                          \
        if (n == 0 || !is_odd(fd))                           \
            return next(fd, p, n, off);                      \
        if (fails(ODD_CALL))                                 \
            return -1;                                       \
        const size_t some = moves(n);                        \
        return some > 0 ? next(fd, p, some, off) : -1;       \
    }
#define ODD_BUFFER const void *
#define ODD_CALL   "pwrite"
AT(pwrite)
AT(pwrite64)
#undef ODD_BUFFER
#undef ODD_CALL
#define ODD_BUFFER void *
#define ODD_CALL   "pread"
AT(pread)
AT(pread64)

ssize_t write(int fd, const void *p, size_t n)
{
    NEXT(write);
    if (n == 0 || !is_odd(fd))
        return next(fd, p, n);
    if (fails("write"))
        return -1;
    const size_t some = moves(n);
    return some > 0 ? next(fd, p, some) : -1;
}

#define OF_FD(name)                                        \
    int name(int fd)                                       \
    {                                                      \
        NEXT(name);                                        \
        return is_odd(fd) && fails(#name) ? -1 : next(fd); \
    }
OF_FD(fsync)
OF_FD(fdatasync)

int ftruncate(int fd, off_t size)
{
    NEXT(ftruncate);
    return is_odd(fd) && fails("ftruncate") ? -1 : next(fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    NEXT(fallocate);
    return is_odd(fd) && fails("fallocate") ? -1 : next(fd, mode, at, size);
}

int fstat(int fd, struct stat *st)
{
    NEXT(fstat);
    return is_odd(fd) && fails("fstat") ? -1 : next(fd, st);
}

#define OF_NAMES(name)                                                \
    int name(const char *from, const char *to)                        \
    {                                                                 \
        NEXT(name);                                                   \
        return is_odd_path(to) && fails(#name) ? -1 : next(from, to); \
    }
OF_NAMES(rename)
OF_NAMES(link)

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...)                                    \
    {                                                                             \
        NEXT(name);                                                               \
        va_list ap;                                                               \
        va_start(ap, flags);                                                      \
        const mode_t mode = (flags & O_CREAT) ? va_arg(ap, mode_t) : 0;           \
        va_end(ap);                                                               \
        return is_odd_path(path) && fails("open") ? -1 : next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
