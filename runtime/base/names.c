/* A hash set with open addressing. Names come from files of unknown origin, so the hash is SipHash
 * keyed with a secret of the process: nobody can make names that collide. */
#include "base/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/math.h"

enum { MIN_CAP = 16, KEEP_CAP = 256 };

static uint64_t g_secret[2];
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

/* Falls back to the address space layout and the clock if there are no random bytes. */
static void make_secret(void)
{
    if (getrandom(g_secret, sizeof g_secret, GRND_NONBLOCK) == (ssize_t)sizeof g_secret)
        return;
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    g_secret[0] = (uint64_t)(uintptr_t)&now * 0x9E3779B97F4A7C15u;
    g_secret[1] = (uint64_t)(uintptr_t)g_secret ^ (uint64_t)now.tv_nsec << 24;
}

static uint64_t rotl(uint64_t x, int b)
{
    return x << b | x >> (64 - b);
}

/* Inlined, so that its state stays in registers: most names take five rounds. */
static inline __attribute__((always_inline)) void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

void fy_names_secret(uint64_t out[2])
{
    pthread_once(&g_once, make_secret);
    memcpy(out, g_secret, sizeof g_secret);
}

/* Up to seven bytes as a number, the first one lowest. */
static inline uint64_t tail_bytes(const char *p, size_t n)
{
    if (n >= 4) /* two reads that may overlap: the same bytes meet in the same place */
        return fy_le32(p) | (uint64_t)fy_le32(p + n - 4) << (8 * (n - 4));
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

/* SipHash-1-3 (Aumasson, Bernstein): a file cannot be made to collide without knowing the secret.
 */
uint32_t fy_names_hash(fy_span s)
{
    pthread_once(&g_once, make_secret);
    uint64_t v[4] = {g_secret[0] ^ 0x736f6d6570736575u, g_secret[1] ^ 0x646f72616e646f6du,
                     g_secret[0] ^ 0x6c7967656e657261u, g_secret[1] ^ 0x7465646279746573u};
    const char *p = s.ptr;
    size_t n = s.len;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t m = fy_le64(p);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)s.len << 56 | tail_bytes(p, n);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

/* The slot that holds the name, or the free one where it belongs. */
static fy_names_slot *slot_of(const fy_names *t, fy_span name, uint32_t hash)
{
    for (size_t i = hash & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        fy_names_slot *s = &t->slots[i];
        if (s->name.ptr == NULL || (s->hash == hash && fy_span_eq(s->name, name)))
            return s;
    }
}

static bool has_room(size_t cap, size_t n)
{
    return n <= cap - cap / 4;
}

int fy_names_reserve(fy_names *t, size_t n)
{
    fy_names bigger = {.cap = t->cap == 0 ? MIN_CAP : t->cap, .n = t->n};
    while (!has_room(bigger.cap, n)) {
        if (bigger.cap > SIZE_MAX / 2 / sizeof *bigger.slots)
            return -1;
        bigger.cap *= 2;
    }
    if (bigger.cap == t->cap)
        return 0;
    /* Not calloc, whose pages would be faulted in twice: read as zeros, then written. */
    bigger.slots = malloc(bigger.cap * sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return -1;
    memset(bigger.slots, 0, bigger.cap * sizeof *bigger.slots);
    for (size_t i = 0; i < t->cap; i++) {
        if (t->slots[i].name.ptr != NULL)
            *slot_of(&bigger, t->slots[i].name, t->slots[i].hash) = t->slots[i];
    }
    free(t->slots);
    *t = bigger;
    return 0;
}

int fy_names_add(fy_names *t, fy_span name, uint32_t value)
{
    if (name.ptr == NULL)
        name.ptr = "";
    if (!has_room(t->cap, t->n + 1) && fy_names_reserve(t, t->n + 1) != 0)
        return -1;
    uint32_t hash = fy_names_hash(name);
    fy_names_slot *s = slot_of(t, name, hash);
    if (s->name.ptr != NULL)
        return 1;
    *s = (fy_names_slot){name, hash, value};
    t->n++;
    return 0;
}

bool fy_names_find(const fy_names *t, fy_span name, uint32_t *value)
{
    if (t->n == 0)
        return false;
    const fy_names_slot *s = slot_of(t, name, fy_names_hash(name));
    if (s->name.ptr == NULL)
        return false;
    if (value != NULL)
        *value = s->value;
    return true;
}

void fy_names_expect(const fy_names *t, fy_span name)
{
    if (t->cap > 0)
        __builtin_prefetch(&t->slots[fy_names_hash(name) & (t->cap - 1)]);
}

void fy_names_find_many(const fy_names *t, const fy_span *name, uint32_t *value, size_t n)
{
    enum { BATCH = 64 };
    uint32_t hash[BATCH];
    for (size_t first = 0; first < n; first += BATCH) {
        size_t batch = n - first < BATCH ? n - first : BATCH;
        for (size_t i = 0; i < batch; i++) {
            hash[i] = fy_names_hash(name[first + i]);
            if (t->cap > 0)
                __builtin_prefetch(&t->slots[hash[i] & (t->cap - 1)]);
        }
        for (size_t i = 0; i < batch && t->cap > 0; i++)
            __builtin_prefetch(t->slots[hash[i] & (t->cap - 1)].name.ptr);
        for (size_t i = 0; i < batch; i++) {
            const fy_names_slot *s =
                t->cap > 0 ? slot_of(t, name[first + i], hash[i]) : &(fy_names_slot){0};
            value[first + i] = s->name.ptr != NULL ? s->value : FY_NAMES_ABSENT;
        }
    }
}

void fy_names_clear(fy_names *t)
{
    if (t->cap > KEEP_CAP) {
        fy_names_release(t);
        return;
    }
    if (t->n > 0)
        memset(t->slots, 0, t->cap * sizeof *t->slots);
    t->n = 0;
}

void fy_names_release(fy_names *t)
{
    free(t->slots);
    *t = (fy_names){0};
}
