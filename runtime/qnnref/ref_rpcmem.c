/* The tests' libcdsprpc.so: shared memory of a phone as anonymous files. FERRY_REF_FAULTS may say
 * "rpcmem null", "rpcmem fd" (no descriptors) or "rpcmem limit BYTES". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC void *rpcmem_alloc(int heap, unsigned flags, int size);
PUBLIC void *rpcmem_alloc2(int heap, unsigned flags, size_t size);
PUBLIC void rpcmem_free(void *p);
PUBLIC int rpcmem_to_fd(void *p);

typedef struct {
    void *p;
    size_t size;
    int fd;
} buffer;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static buffer buffers[1024];

/* The argument of the line "rpcmem WORD ARGUMENT": -1 for no such line. */
static long long fault(const char *word)
{
    const char *path = getenv("FERRY_REF_FAULTS");
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    char text[256], name[32], unit;
    long long found = -1;
    while (f != NULL && found < 0 && fgets(text, sizeof text, f) != NULL) {
        long long v = 0;
        unit = ' ';
        int n = sscanf(text, "rpcmem %31s %lld%c", name, &v, &unit);
        if (n >= 1 && strcmp(name, word) == 0)
            found = unit == 'M' ? v << 20 : unit == 'K' ? v << 10 : v;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static buffer *find(const void *p)
{
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        if (buffers[i].p == p)
            return &buffers[i];
    }
    return NULL;
}

void *rpcmem_alloc2(int heap, unsigned flags, size_t size)
{
    long long limit = fault("limit");
    (void)flags;
    if (heap != 25 || size == 0 || fault("null") >= 0 ||
        (limit >= 0 && size > (unsigned long long)limit))
        return NULL;
    int fd = (int)syscall(SYS_memfd_create, "rpcmem", 1u /* MFD_CLOEXEC */); /* bionic: API 30 */
    void *p = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutex_lock(&mutex);
    buffer *b = p != MAP_FAILED ? find(NULL) : NULL;
    if (b != NULL)
        *b = (buffer){p, size, fd};
    pthread_mutex_unlock(&mutex);
    if (b != NULL)
        return p;
    if (p != MAP_FAILED)
        munmap(p, size);
    if (fd >= 0)
        close(fd);
    return NULL;
}

void *rpcmem_alloc(int heap, unsigned flags, int size)
{
    return size > 0 ? rpcmem_alloc2(heap, flags, (size_t)size) : NULL;
}

void rpcmem_free(void *p)
{
    pthread_mutex_lock(&mutex);
    buffer *b = p != NULL ? find(p) : NULL;
    if (b != NULL) {
        munmap(b->p, b->size);
        close(b->fd);
        *b = (buffer){0};
    } else if (p != NULL) {
        fprintf(stderr, "QnnRef: rpcmem_free of memory that is not there\n");
    }
    pthread_mutex_unlock(&mutex);
}

int rpcmem_to_fd(void *p)
{
    pthread_mutex_lock(&mutex);
    buffer *b = p != NULL ? find(p) : NULL;
    int fd = b != NULL && fault("fd") < 0 ? b->fd : -1;
    pthread_mutex_unlock(&mutex);
    return fd;
}
