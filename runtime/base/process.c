/* Time and memory as the kernel reports them: clock_gettime and the text files of /proc. */
#include "base/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double fy_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The number of the line "KEY: 123 kB". */
static uint64_t bytes_in(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    char line[256];
    unsigned long long kb = 0;
    size_t n = strlen(key);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            kb = strtoull(line + n + 1, NULL, 10);
            break;
        }
    }
    fclose(f);
    return (uint64_t)kb << 10;
}

uint64_t fy_rss_anon_bytes(void)
{
    return bytes_in("/proc/self/status", "RssAnon");
}

uint64_t fy_rss_anon_most(_Atomic uint64_t *seen)
{
    const uint64_t now = fy_rss_anon_bytes();
    uint64_t most = atomic_load(seen);
    while (now > most && !atomic_compare_exchange_weak(seen, &most, now))
        continue;
    return now > most ? now : most;
}

uint64_t fy_rss_peak_bytes(void)
{
    return bytes_in("/proc/self/status", "VmHWM");
}

uint64_t fy_meminfo_bytes(const char *key)
{
    return bytes_in("/proc/meminfo", key);
}
