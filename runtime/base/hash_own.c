/* SHA-256 for the device build, which carries no OpenSSL: FIPS 180-4 in plain C, and the ARMv8 SHA2
 * instructions where the CPU has them (a workspace of gigabytes is hashed on a phone). Both walk
 * whole blocks of 64 bytes. */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

enum { BLOCK = 64 };

typedef void compress_fn(uint32_t state[8], const uint8_t *p, size_t n_blocks);

struct fy_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    size_t n_buf;
    uint8_t buf[BLOCK];
    compress_fn *compress;
};

/* FIPS 180-4, 4.2.2 */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One round on named registers: the eight words change names, so that nothing is moved. */
#define ROUND(a, b, c, d, e, f, g, h, wk)                                                         \
    do {                                                                                          \
        uint32_t t =                                                                              \
            (h) + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) + (wk);  \
        (d) += t;                                                                                 \
        (h) = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b)))); \
    } while (0)

static void eight_rounds(uint32_t s[8], const uint32_t w[8], const uint32_t k[8])
{
    uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    ROUND(a, b, c, d, e, f, g, h, w[0] + k[0]);
    ROUND(h, a, b, c, d, e, f, g, w[1] + k[1]);
    ROUND(g, h, a, b, c, d, e, f, w[2] + k[2]);
    ROUND(f, g, h, a, b, c, d, e, w[3] + k[3]);
    ROUND(e, f, g, h, a, b, c, d, w[4] + k[4]);
    ROUND(d, e, f, g, h, a, b, c, w[5] + k[5]);
    ROUND(c, d, e, f, g, h, a, b, w[6] + k[6]);
    ROUND(b, c, d, e, f, g, h, a, w[7] + k[7]);
    s[0] = a, s[1] = b, s[2] = c, s[3] = d, s[4] = e, s[5] = f, s[6] = g, s[7] = h;
}

static void compress_portable(uint32_t state[8], const uint8_t *p, size_t n_blocks)
{
    for (; n_blocks > 0; n_blocks--, p += BLOCK) {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; i++)
            w[i] = be32(p + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr(x, 7) ^ rotr(x, 18) ^ x >> 3) +
                   (rotr(y, 17) ^ rotr(y, 19) ^ y >> 10);
        }
        memcpy(s, state, sizeof s);
        for (int i = 0; i < 64; i += 8)
            eight_rounds(s, w + i, K + i);
        for (int i = 0; i < 8; i++)
            state[i] += s[i];
    }
}

#if defined(__aarch64__)

/* The instructions by name: intrinsics would need the whole file compiled for a CPU that has them.
 */
#define SHA2(text) ".arch_extension sha2\n\t" text

static uint32x4_t sha256h(uint32x4_t abcd, uint32x4_t efgh, uint32x4_t wk)
{
    __asm__(SHA2("sha256h %q0, %q1, %2.4s") : "+w"(abcd) : "w"(efgh), "w"(wk));
    return abcd;
}

static uint32x4_t sha256h2(uint32x4_t efgh, uint32x4_t abcd, uint32x4_t wk)
{
    __asm__(SHA2("sha256h2 %q0, %q1, %2.4s") : "+w"(efgh) : "w"(abcd), "w"(wk));
    return efgh;
}

/* The next four schedule words from the sixteen in hand. */
static uint32x4_t schedule(uint32x4_t w0, uint32x4_t w1, uint32x4_t w2, uint32x4_t w3)
{
    __asm__(SHA2("sha256su0 %0.4s, %1.4s") : "+w"(w0) : "w"(w1));
    __asm__(SHA2("sha256su1 %0.4s, %1.4s, %2.4s") : "+w"(w0) : "w"(w2), "w"(w3));
    return w0;
}

/* Four rounds; the last four groups of a block need no more schedule words. */
#define FOUR(i, w0)                                            \
    do {                                                       \
        uint32x4_t wk = vaddq_u32(w0, vld1q_u32(K + 4 * (i))); \
        uint32x4_t before = abcd;                              \
        abcd = sha256h(abcd, efgh, wk);                        \
        efgh = sha256h2(efgh, before, wk);                     \
    } while (0)
#define FOUR_AND_SCHEDULE(i, w0, w1, w2, w3) \
    do {                                     \
        FOUR(i, w0);                         \
        w0 = schedule(w0, w1, w2, w3);       \
    } while (0)

/* Unrolled: the sixteen schedule words stay in registers. */
static void compress_sha2(uint32_t state[8], const uint8_t *p, size_t n_blocks)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; n_blocks > 0; n_blocks--, p += BLOCK) {
        const uint32x4_t abcd0 = abcd, efgh0 = efgh;
        uint32x4_t w0 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p)));
        uint32x4_t w1 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16)));
        uint32x4_t w2 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 32)));
        uint32x4_t w3 = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 48)));
        for (int i = 0; i < 12; i += 4) {
            FOUR_AND_SCHEDULE(i, w0, w1, w2, w3);
            FOUR_AND_SCHEDULE(i + 1, w1, w2, w3, w0);
            FOUR_AND_SCHEDULE(i + 2, w2, w3, w0, w1);
            FOUR_AND_SCHEDULE(i + 3, w3, w0, w1, w2);
        }
        FOUR(12, w0);
        FOUR(13, w1);
        FOUR(14, w2);
        FOUR(15, w3);
        abcd = vaddq_u32(abcd, abcd0);
        efgh = vaddq_u32(efgh, efgh0);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

#endif

static compress_fn *best_compress(void)
{
#if defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_SHA2)
        return compress_sha2;
#endif
    return compress_portable;
}

fy_sha256 *fy_sha256_new(fy_err *e)
{
    fy_sha256 *h = malloc(sizeof *h);
    if (h == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *h = (fy_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                  0x1f83d9ab, 0x5be0cd19},
        .compress = best_compress(),
    };
    return h;
}

static void add(fy_sha256 *h, const uint8_t *p, size_t n)
{
    h->n_bytes += n;
    if (h->n_buf > 0) {
        size_t take = BLOCK - h->n_buf < n ? BLOCK - h->n_buf : n;
        memcpy(h->buf + h->n_buf, p, take);
        h->n_buf += take;
        p += take;
        n -= take;
        if (h->n_buf < BLOCK)
            return;
        h->compress(h->state, h->buf, 1);
        h->n_buf = 0;
    }
    h->compress(h->state, p, n / BLOCK);
    h->n_buf = n % BLOCK;
    memcpy(h->buf, p + (n - h->n_buf), h->n_buf);
}

int fy_sha256_add(fy_sha256 *h, const void *p, size_t n, fy_err *e)
{
    (void)e;
    if (n > 0)
        add(h, p, n);
    return 0;
}

int fy_sha256_end(fy_sha256 *h, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    (void)e;
    if (out != NULL) {
        uint64_t bits = h->n_bytes * 8;
        uint8_t tail[BLOCK + 8] = {0x80}; /* pads to 56 bytes past a block, then the length */
        size_t pad = (h->n_buf < 56 ? 56 : 120) - h->n_buf;
        for (int i = 0; i < 8; i++)
            tail[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
        add(h, tail, pad + 8);
        for (int i = 0; i < 32; i++)
            out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
    }
    free(h);
    return 0;
}

const char *fy_hash_library(void)
{
    return NULL;
}
