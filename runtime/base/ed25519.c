#include "base/ed25519.h"

#include <string.h>

#include "base/math.h"

/* --- SHA-512 (FIPS 180-4) --------------------------------------------------------------------- */

typedef struct {
    uint64_t h[8];
    uint8_t block[128];
    size_t fill;
    uint64_t bytes;
} sha512;

static const uint64_t sha512_k[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

static uint64_t ror(uint64_t x, int n)
{
    return x >> n | x << (64 - n);
}

static void sha512_block(sha512 *s, const uint8_t *p)
{
    uint64_t w[80], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = __builtin_bswap64(fy_le64(p + 8 * i));
    for (int i = 16; i < 80; i++) {
        uint64_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (ror(a, 1) ^ ror(a, 8) ^ a >> 7) + w[i - 7] +
               (ror(b, 19) ^ ror(b, 61) ^ b >> 6);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 80; i++) {
        uint64_t t = v[7] + (ror(v[4], 14) ^ ror(v[4], 18) ^ ror(v[4], 41)) +
                     ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha512_k[i] + w[i];
        uint64_t u = (ror(v[0], 28) ^ ror(v[0], 34) ^ ror(v[0], 39)) +
                     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        s->h[i] += v[i];
}

static void sha512_add(sha512 *s, const void *p, size_t n)
{
    const uint8_t *b = p;
    s->bytes += n;
    while (n > 0) {
        size_t room = sizeof s->block - s->fill, now = n < room ? n : room;
        memcpy(s->block + s->fill, b, now);
        s->fill += now;
        b += now;
        n -= now;
        if (s->fill == sizeof s->block) {
            sha512_block(s, s->block);
            s->fill = 0;
        }
    }
}

static void sha512_end(sha512 *s, uint8_t out[64])
{
    static const uint8_t pad[128] = {0x80};
    uint64_t bits = __builtin_bswap64(s->bytes * 8); /* less than 2^61 bytes */
    size_t zeros = (s->fill < 112 ? 112 : 240) - s->fill;
    uint8_t length[16] = {0};
    memcpy(length + 8, &bits, 8);
    sha512_add(s, pad, zeros);
    sha512_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++) {
        uint64_t v = __builtin_bswap64(s->h[i]);
        memcpy(out + 8 * i, &v, 8);
    }
}

static const sha512 sha512_begin = {
    .h = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
          0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179}};

/* --- the field of 2^255 - 19 ------------------------------------------------------------------ */

/* Five limbs of 51 bits, little end first, each below 2^52 between operations. */
typedef struct {
    uint64_t v[5];
} fe;

#define MASK51 ((UINT64_C(1) << 51) - 1)

static fe fe_of(uint64_t small)
{
    return (fe){{small}};
}

static fe fe_carry(fe a)
{
    for (int i = 0; i < 4; i++) {
        a.v[i + 1] += a.v[i] >> 51;
        a.v[i] &= MASK51;
    }
    a.v[0] += 19 * (a.v[4] >> 51);
    a.v[4] &= MASK51;
    return a;
}

static fe fe_add(fe a, fe b)
{
    for (int i = 0; i < 5; i++)
        a.v[i] += b.v[i];
    return fe_carry(a);
}

/* 4p is added first, so that no limb goes below zero. */
static fe fe_sub(fe a, fe b)
{
    a.v[0] += 4 * (MASK51 - 18) - b.v[0];
    for (int i = 1; i < 5; i++)
        a.v[i] += 4 * MASK51 - b.v[i];
    return fe_carry(a);
}

__extension__ typedef unsigned __int128 u128;

static fe fe_mul(fe a, fe b)
{
    u128 t[5] = {0};
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 5; k++)
            t[(i + k) % 5] += (u128)a.v[i] * (b.v[k] * (i + k >= 5 ? 19 : 1));
    }
    fe out;
    u128 carry = 0;
    for (int i = 0; i < 5; i++) {
        t[i] += carry;
        out.v[i] = (uint64_t)t[i] & MASK51;
        carry = t[i] >> 51;
    }
    /* what is left over the top (below 2^64) goes into the lowest limb and the next */
    carry = carry * 19 + out.v[0];
    out.v[0] = (uint64_t)carry & MASK51;
    out.v[1] += (uint64_t)(carry >> 51);
    return fe_carry(out);
}

/* a to the power of 2^255 - 21 (its inverse, e = 0) or 2^252 - 3 (for roots, e = 1): all bits are
 * ones but for the last few. */
static fe fe_power(fe a, int e)
{
    fe out = a;
    int top = e == 0 ? 254 : 251;
    for (int i = top - 1; i >= 0; i--) {
        out = fe_mul(out, out);
        bool zero = e == 0 ? i == 2 || i == 4 : i == 1;
        if (!zero)
            out = fe_mul(out, a);
    }
    return out;
}

static void fe_to_bytes(fe a, uint8_t out[32])
{
    a = fe_carry(fe_carry(a));
    /* now below 2^255 + small: take p off when it is at least p */
    uint64_t q = (a.v[0] + 19) >> 51;
    for (int i = 1; i < 5; i++)
        q = (a.v[i] + q) >> 51;
    a.v[0] += 19 * q;
    for (int i = 0; i < 4; i++) {
        a.v[i + 1] += a.v[i] >> 51;
        a.v[i] &= MASK51;
    }
    a.v[4] &= MASK51;
    uint64_t w[4] = {a.v[0] | a.v[1] << 51, a.v[1] >> 13 | a.v[2] << 38,
                     a.v[2] >> 26 | a.v[3] << 25, a.v[3] >> 39 | a.v[4] << 12};
    memcpy(out, w, 32);
}

static fe fe_of_bytes(const uint8_t p[32])
{
    uint64_t a = fy_le64(p), b = fy_le64(p + 8), c = fy_le64(p + 16), d = fy_le64(p + 24);
    return (fe){{a & MASK51, (a >> 51 | b << 13) & MASK51, (b >> 38 | c << 26) & MASK51,
                 (c >> 25 | d << 39) & MASK51, d >> 12 & MASK51}};
}

static bool fe_same(fe a, fe b)
{
    uint8_t x[32], y[32];
    fe_to_bytes(a, x);
    fe_to_bytes(b, y);
    return memcmp(x, y, 32) == 0;
}

static bool fe_is_odd(fe a)
{
    uint8_t x[32];
    fe_to_bytes(a, x);
    return x[0] & 1;
}

/* --- the curve -x^2 + y^2 = 1 + d x^2 y^2 ----------------------------------------------------- */

/* x = X/Z, y = Y/Z, T = XY/Z */
typedef struct {
    fe x, y, z, t;
} point;

/* little-endian */
static const uint8_t curve_d[32] = {
    0xa3, 0x78, 0x59, 0x13, 0xca, 0x4d, 0xeb, 0x75, 0xab, 0xd8, 0x41, 0x41, 0x4d, 0x0a, 0x70, 0x00,
    0x98, 0xe8, 0x79, 0x77, 0x79, 0x40, 0xc7, 0x8c, 0x73, 0xfe, 0x6f, 0x2b, 0xee, 0x6c, 0x03, 0x52};
static const uint8_t root_of_minus_1[32] = {
    0xb0, 0xa0, 0x0e, 0x4a, 0x27, 0x1b, 0xee, 0xc4, 0x78, 0xe4, 0x2f, 0xad, 0x06, 0x18, 0x43, 0x2f,
    0xa7, 0xd7, 0xfb, 0x3d, 0x99, 0x00, 0x4d, 0x2b, 0x0b, 0xdf, 0xc1, 0x4f, 0x80, 0x24, 0x83, 0x2b};
static const uint8_t base_point[32] = {
    0x58, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
    0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66};
/* its order, 2^252 + 27742317777372353535851937790883648493 */
static const uint64_t order[4] = {0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000};

/* Complete: right for every two points (RFC 8032, section 5.1.4). */
static point point_add(point p, point q)
{
    fe a = fe_mul(fe_sub(p.y, p.x), fe_sub(q.y, q.x)),
       b = fe_mul(fe_add(p.y, p.x), fe_add(q.y, q.x));
    fe c = fe_mul(fe_mul(p.t, q.t), fe_of_bytes(curve_d)), d = fe_mul(p.z, q.z);
    c = fe_add(c, c);
    d = fe_add(d, d);
    fe e = fe_sub(b, a), f = fe_sub(d, c), g = fe_add(d, c), h = fe_add(b, a);
    return (point){fe_mul(e, f), fe_mul(g, h), fe_mul(f, g), fe_mul(e, h)};
}

static point point_mul(point p, const uint8_t scalar[32])
{
    point out = {fe_of(0), fe_of(1), fe_of(1), fe_of(0)};
    for (int i = 255; i >= 0; i--) {
        out = point_add(out, out);
        if (scalar[i / 8] >> (i % 8) & 1)
            out = point_add(out, p);
    }
    return out;
}

/* RFC 8032, section 5.1.3: x^2 = (y^2 - 1) / (d y^2 + 1). */
static bool point_of_bytes(const uint8_t p[32], point *out)
{
    fe y = fe_of_bytes(p), yy = fe_mul(y, y);
    fe u = fe_sub(yy, fe_of(1)), v = fe_add(fe_mul(yy, fe_of_bytes(curve_d)), fe_of(1));
    fe vv = fe_mul(v, v), uv3 = fe_mul(u, fe_mul(vv, v)), uv7 = fe_mul(uv3, fe_mul(vv, vv));
    fe x = fe_mul(uv3, fe_power(uv7, 1)); /* the candidate root (u/v)^((p+3)/8) */
    fe vxx = fe_mul(v, fe_mul(x, x));
    if (!fe_same(vxx, u)) {
        if (!fe_same(vxx, fe_sub(fe_of(0), u)))
            return false;
        x = fe_mul(x, fe_of_bytes(root_of_minus_1));
    }
    bool sign = p[31] >> 7;
    if (fe_is_odd(x) != sign) /* like OpenSSL, -0 is taken for 0 */
        x = fe_sub(fe_of(0), x);
    *out = (point){x, y, fe_of(1), fe_mul(x, y)};
    return true;
}

static void point_to_bytes(point p, uint8_t out[32])
{
    fe inverse = fe_power(p.z, 0), x = fe_mul(p.x, inverse);
    fe_to_bytes(fe_mul(p.y, inverse), out);
    out[31] |= (uint8_t)(fe_is_odd(x) << 7);
}

/* --- scalars ---------------------------------------------------------------------------------- */

static bool below_order(const uint64_t a[4])
{
    for (int i = 3; i >= 0; i--) {
        if (a[i] != order[i])
            return a[i] < order[i];
    }
    return false;
}

/* 512 bits modulo the order, bit by bit from the top: slow and plain. */
static void reduce(const uint8_t wide[64], uint8_t out[32])
{
    uint64_t r[4] = {0};
    for (int i = 511; i >= 0; i--) {
        for (int k = 3; k > 0; k--)
            r[k] = r[k] << 1 | r[k - 1] >> 63;
        r[0] = r[0] << 1 | (wide[i / 8] >> (i % 8) & 1);
        if (!below_order(r)) {
            uint64_t borrow = 0;
            for (int k = 0; k < 4; k++) {
                u128 d = (u128)r[k] - order[k] - borrow;
                r[k] = (uint64_t)d;
                borrow = (uint64_t)(d >> 64) & 1;
            }
        }
    }
    memcpy(out, r, 32);
}

/* --- the check: R = [S]B - [H(R, A, M)]A ------------------------------------------------------ */

bool fy_ed25519_fits(const uint8_t key[FY_ED25519_KEY_BYTES], const void *text, size_t n,
                     const uint8_t sig[FY_ED25519_SIG_BYTES])
{
    point a, b;
    uint64_t s[4];
    memcpy(s, sig + 32, sizeof s);
    if (!below_order(s) || !point_of_bytes(key, &a) || !point_of_bytes(base_point, &b))
        return false;
    sha512 h = sha512_begin;
    uint8_t hash[64], k[32], found[32];
    sha512_add(&h, sig, 32);
    sha512_add(&h, key, 32);
    sha512_add(&h, text, n);
    sha512_end(&h, hash);
    reduce(hash, k);
    a.x = fe_sub(fe_of(0), a.x);
    a.t = fe_sub(fe_of(0), a.t);
    point_to_bytes(point_add(point_mul(b, sig + 32), point_mul(a, k)), found);
    return memcmp(found, sig, 32) == 0;
}
