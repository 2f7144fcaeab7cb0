/* Every row of the rule table: its graph validates, finalizes and executes on the reference; and on
 * the vendor's library, when $FERRY_QNN_SDK names a directory with libQnnHtp.so (docs/npu-real.md),
 * with results within a step of ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>

#include "rule_cases.h"

typedef const char *rule_fn(uint32_t i);

static rule_fn *rule_texts(const client *c)
{
    rule_fn *f;
    *(void **)&f = dlsym(c->library, "FerryRef_rule");
    assert_non_null(f);
    return f;
}

/* FNV-1a over the results of all rows: the same on every machine. It changes with the arithmetic.
 */
#define RESULTS_HASH UINT64_C(0xd9297e54917816b7)

static void add_to_hash(uint64_t *hash, const rule_case *k)
{
    for (uint32_t i = 0; i < k->n_y; i++) {
        const uint8_t *p = k->result[i];
        uint64_t n = elements(k->y[i]) * type_bytes(k->y[i]->u.v1.data_type);
        for (uint64_t b = 0; b < n; b++)
            *hash = (*hash ^ p[b]) * UINT64_C(0x100000001b3);
    }
}

/* All rows that the release has; returns the hash of their results. */
static uint64_t run_rows(void)
{
    client c;
    rule_case k = {.c = &c};
    assert_int_equal(client_open(&c, reference_path("libQnnRef.so")), 0);
    assert_int_equal(client_device(&c, 69, 79, 8), 0);
    rule_fn *rule = rule_texts(&c);
    uint32_t n = 0;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; rule(i) != NULL; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", rule(i));
        parse_rule(&k, text);
        if (k.sdk > c.provider->backend.minor)
            continue;
        for (uint32_t variant = 0;; variant++) {
            assert_int_equal(client_context(&c, false), 0);
            assert_int_equal(client_graph(&c, "g"), 0);
            c.message[0] = '\0';
            bool made = compose_case(&k, text, variant, 8);
            /* RmsNorm without beta came with SDK 2.49. */
            bool without_beta = strcmp(k.op, "RmsNorm") == 0 && !k.present[2];
            if (made && !(without_beta && c.provider->backend.minor < 49)) {
                bool good = c.tensor_error == 0 && c.validate_error == 0 && c.add_error == 0 &&
                            client_finalize(&c) == 0 && execute_case(&k) == 0;
                if (!good)
                    fail_msg("%s, variant %u: tensor %d validate %d add %d: %s", text, variant,
                             (int)c.tensor_error, (int)c.validate_error, (int)c.add_error,
                             c.message);
                add_to_hash(&hash, &k);
                n++;
            }
            client_drop_context(&c);
            free_case(&k);
            if (!made)
                break;
        }
    }
    print_message("# %u graphs, results 0x%016llx\n", n, (unsigned long long)hash);
    client_close(&c, true);
    return hash;
}

static void every_row_is_accepted_and_executes(void **state)
{
    (void)state;
    const char *minor = getenv("FERRY_REF_MINOR");
    char kept[16];
    snprintf(kept, sizeof kept, "%s", minor != NULL ? minor : "");
    setenv("FERRY_REF_MINOR", "24", 1);
    run_rows();
    unsetenv("FERRY_REF_MINOR");
    uint64_t hash = run_rows();
    if (minor != NULL)
        setenv("FERRY_REF_MINOR", kept, 1);
    assert_true(hash == RESULTS_HASH);
}

/* --- the vendor's library --- */

static bool preload(const char *pattern)
{
    glob_t g;
    bool any = glob(pattern, 0, NULL, &g) == 0;
    for (size_t i = 0; any && i < g.gl_pathc; i++)
        dlopen(g.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
    globfree(&g);
    return any;
}

static const char *vendor_library(void)
{
    static const char *const places[] = {"libQnnHtp.so", "onnxruntime_qnn/libQnnHtp.so",
                                         "lib/x86_64-linux-clang/libQnnHtp.so"};
    static char path[1024];
    const char *dir = getenv("FERRY_QNN_SDK");
    for (size_t i = 0; dir != NULL && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, places[i]);
        if (access(path, R_OK) != 0)
            continue;
        char *slash = strrchr(path, '/'), libs[1100];
        static const char *const names[] = {"libunwind", "libc++abi", "libc++"};
        for (int k = 0; k < 3; k++) {
            snprintf(libs, sizeof libs, "%.*s.libs/%s-*", (int)(slash - path), path, names[k]);
            preload(libs);
        }
        return path;
    }
    return NULL;
}

typedef struct {
    double most, mean;
} difference;

static double value_at(const void *p, uint32_t type, uint64_t i)
{
    switch (type) {
    case ABI_U16:
        return ((const uint16_t *)p)[i];
    case ABI_S16:
        return ((const int16_t *)p)[i];
    case ABI_S8:
        return ((const int8_t *)p)[i];
    case ABI_U8:
    case ABI_BOOL:
        return ((const uint8_t *)p)[i];
    case ABI_F16:
        return (double)fy_f16_to_f32(((const uint16_t *)p)[i]);
    case ABI_F32:
        return (double)((const float *)p)[i];
    default:
        return ((const int32_t *)p)[i];
    }
}

/* The distance of f16 numbers near v, at least that near a 64th of the largest result: what is left
 * of a sum that cancels has the error of its terms. */
static double float_step(double v, double largest)
{
    double z = v < 0 ? -v : v, step = 1.0 / 16777216;
    z = z < largest / 64 ? largest / 64 : z;
    while (step * 2048 <= z)
        step *= 2;
    return step;
}

/* In steps: of the codes, or of f16. */
static difference compare(const rule_case *a, const rule_case *b)
{
    difference d = {0};
    uint64_t n = elements(a->y[0]);
    uint32_t type = a->y[0]->u.v1.data_type;
    bool floats = type == ABI_F16 || type == ABI_F32;
    double largest = 0;
    for (uint64_t i = 0; floats && i < n; i++) {
        double v = value_at(b->result[0], type, i);
        v = v < 0 ? -v : v;
        largest = v > largest ? v : largest;
    }
    for (uint64_t i = 0; i < n; i++) {
        double v = value_at(b->result[0], type, i), e = value_at(a->result[0], type, i) - v;
        e = (e < 0 ? -e : e) / (floats ? float_step(v, largest) : 1.0);
        if (!(e < 1e9)) /* quotients by 0 */
            continue;
        d.most = e > d.most ? e : d.most;
        d.mean += e / (double)n;
    }
    return d;
}

/* Operations with more than a step, or 0.05 on average, and why. */
static const struct {
    const char *op, *type;
    double most, mean;
} worse[] = {
    /* Functions of 16 bit codes and of f16: the library's are approximations of its own, coarser
     * than a step; ours are right. Their tables are not copied. */
    {"Sigmoid", "u16", 5, 1.3},
    {"Tanh", "u16", 4, 0.8},
    {"Gelu", "u16", 30, 12},
    {"ElementWiseNeuron", "u16", 30, 12},
    {"HardSwish", "u16", 4, 0.6},
    {"ElementWiseExp", "u16", 8, 0.8},
    {"ElementWiseSquareRoot", "u16", 90, 20},
    {"ElementWiseSin", "u16", 8, 2},
    {"ElementWiseCos", "u16", 8, 2},
    {"Sigmoid", "T f", 50, 3},
    {"Tanh", "T f", 2, 0.2},
    {"Gelu", "T f", 32, 4},
    {"ElementWiseNeuron", "T f", 32, 4},
    {"HardSwish", "T f", 40, 2},
    {"ElementWiseExp", "T f", 4, 0.2},
    {"ElementWiseRsqrt", "T f", 10000, 0.2}, /* of 0, which has no result */
    {"ElementWiseRsqrt", "u", 65535, 1},
    {"ElementWiseSin", "T f", 400, 5},
    {"ElementWiseCos", "T f", 200, 3},
    {"ElementWiseSquareRoot", "T f", 3, 0.5},
    /* A quotient is a product with a reciprocal, whose error grows with it. */
    {"ElementWiseDivide", "T", 70000, 20},
    {"L2Norm", "T", 1, 0.6},
    {"Softmax", "T f", 16, 3},
    {"Softmax", "u16", 4, 0.4},
    /* Rounded twice, by a constant that depends on both encodings. */
    {"Convert", "u16", 1, 0.2},
    {"ElementWiseMultiply", "u16", 1, 0.1},
    {"ElementWiseMultiply", "T s16", 1, 0.1}, /* exact in 2.47 and 2.51, not between them */
    {"RotaryEmbedding", "u16", 1, 0.1},
    {"ReduceMean", "u", 1, 1},
    {"LayerNorm", "u", 1, 0.3}, /* with a beta, which is rounded by itself */
    /* The unit of a bias with 4 bit weights. */
    {"Conv2d", "u16 s8/bw4", 2, 0.5},
    {"FullyConnected", "u16 s8/bw4", 2, 0.5},
    /* An offset of the second operand other than -128. */
    {"MatMul", "u16 u8 ", 200, 30},
    {"MatMul", "u8 u8 ", 1, 0.1},
    {"ElementWiseSubtract", "T f", 1.01, 0.2},
    /* Codes times scales as f16: a few of them are the neighbour of ours. */
    {"Conv2d", "f16 s8", 32, 0.25},
    {"FullyConnected", "f16 s8", 32, 0.25},
    {"MatMul", "f16 s8", 32, 0.25},
    {"LayerNorm", "T f32", 10, 0.5},
    {"RotaryEmbedding", "T f", 20, 0.15},
    {"Dequantize", "f16", 1, 0.1},
    /* Large f32 tensors become f16 on the way, small ones do not. */
    {"Transpose", "T f32", 1, 0.3},
    {"Reshape", "T f32", 1, 0.3},
    {"StridedSlice", "T f32", 1, 0.3},
    {"Split", "T f32", 1, 0.3},
    {"Tile", "T f32", 1, 0.3},
    {"Gather", "T f32", 1, 0.3},
    {"MatMul", "T f32", 3, 0.05},
};

static void bar_of(const char *text, const rule_case *k, double *most, double *mean)
{
    *most = strstr(text, "T f") != NULL ? 1.01 : 1; /* f32 results are between the steps */
    *mean = 0.05;
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++) {
        if (strcmp(k->op, worse[i].op) == 0 && strstr(text, worse[i].type) != NULL) {
            *most = worse[i].most;
            *mean = worse[i].mean;
            return;
        }
    }
}

typedef struct {
    uint32_t tried, refused, differ;
} totals;

/* A row on both libraries. */
static void try_both(client *ours, client *theirs, const char *text, uint32_t variant, totals *all)
{
    rule_case a = {.c = ours}, b = {.c = theirs};
    client *both[] = {ours, theirs};
    abi_error code[2] = {0};
    for (int i = 0; i < 2; i++) {
        rule_case *k = i == 0 ? &a : &b;
        client *c = both[i];
        assert_int_equal(client_context(c, false), 0);
        assert_int_equal(client_graph(c, "g"), 0);
        compose_case(k, text, variant, 400);
        code[i] = c->tensor_error != 0     ? c->tensor_error
                  : c->validate_error != 0 ? c->validate_error
                                           : c->add_error;
        if (code[i] == 0)
            code[i] = client_finalize(c);
        if (code[i] == 0)
            code[i] = execute_case(k);
    }
    all->tried++;
    if (code[0] == 0 && code[1] != 0) {
        all->refused++;
        print_message("# REFUSED %s, variant %u: %u\n", text, variant,
                      (unsigned)(code[1] & 0xffff));
    } else if (code[0] == 0) {
        double most, mean;
        difference d = compare(&a, &b);
        bar_of(text, &a, &most, &mean);
        bool good = d.most <= most && d.mean <= mean;
        all->differ += !good;
        print_message("# %s %s, variant %u: max %.0f mean %.4f\n", good ? "ok" : "DIFFERS", text,
                      variant, d.most, d.mean);
    }
    client_drop_context(ours);
    client_drop_context(theirs);
    free_case(&a);
    free_case(&b);
}

static void every_row_is_accepted_by_the_vendors_library(void **state)
{
    (void)state;
    const char *path = vendor_library();
    client ours, theirs;
    if (path == NULL) {
        print_message(
            "# SKIP the vendor's library: $FERRY_QNN_SDK names no directory with libQnnHtp.so\n");
        skip();
    }
    char vendor[1024];
    snprintf(vendor, sizeof vendor, "%s", path);
    assert_int_equal(client_open(&ours, reference_path("libQnnRef.so")), 0);
    assert_int_equal(client_open(&theirs, vendor), 0);
    assert_int_equal(client_device(&ours, 57, 75, 8), 0);
    assert_int_equal(client_device(&theirs, 57, 75, 8), 0);
    rule_fn *rule = rule_texts(&ours);
    totals all = {0};
    for (uint32_t i = 0; rule(i) != NULL; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", rule(i));
        rule_case k;
        for (uint32_t variant = 0;; variant++) {
            parse_rule(&k, text);
            if (!pick_variant(&k, variant))
                break;
            if (k.arch <= 75)
                try_both(&ours, &theirs, text, variant, &all);
        }
    }
    print_message("# %u graphs, %u refused, %u differ\n", all.tried, all.refused, all.differ);
    client_close(&ours, true);
    client_close(&theirs, false);
    assert_int_equal(all.refused, 0);
    assert_int_equal(all.differ, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_accepted_and_executes),
        cmocka_unit_test(every_row_is_accepted_by_the_vendors_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
