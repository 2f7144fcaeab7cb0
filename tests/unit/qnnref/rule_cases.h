/* One graph for each row of the rule table, made from the row's own text: the same on the reference
 * and on the vendor's library. */
#ifndef FY_TEST_QNNREF_RULE_CASES_H
#define FY_TEST_QNNREF_RULE_CASES_H

#include "compose.h"
#include "kernels/kernels.h"

enum { CASE_DEPTH = 256, CASE_COLS = 128, CASE_MAX = 1 << 20 };

typedef struct {
    client *c;
    char op[32], type[8], in[4][48], out[48];
    uint32_t n_in, arch, sdk, rows;
    bool present[4];
    abi_tensor *t[4], *y[2];
    uint32_t n_y;
    void *data[4], *result[2];
    uint32_t seed;
} rule_case;

static inline uint32_t case_random(rule_case *k)
{
    k->seed = k->seed * 1664525u + 1013904223u;
    return k->seed >> 8;
}

static inline uint32_t type_named(const char *name)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"u16", ABI_U16},   {"u8", ABI_U8},    {"s16", ABI_S16}, {"s8", ABI_S8},
                 {"s32", ABI_S32},   {"f16", ABI_F16},  {"f32", ABI_F32}, {"i32", ABI_I32},
                 {"bool", ABI_BOOL}, {"ui32", ABI_UI32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    }
    return 0;
}

/* "op a b c? -> d, T u16, V73, SDK 2.36 (note)" */
static inline void parse_rule(rule_case *k, const char *text)
{
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    copy[strcspn(copy, "(")] = '\0';
    *k = (rule_case){.c = k->c, .seed = 1};
    char *rest = strchr(copy, ',');
    if (rest != NULL)
        *rest++ = '\0';
    char *word = strtok_r(copy, " ", &save);
    snprintf(k->op, sizeof k->op, "%s", word);
    bool out = false;
    while ((word = strtok_r(NULL, " ", &save)) != NULL) {
        if (strcmp(word, "->") == 0)
            out = true;
        else if (out)
            snprintf(k->out, sizeof k->out, "%s", word);
        else
            snprintf(k->in[k->n_in++], sizeof k->in[0], "%s", word);
    }
    char *at = rest != NULL ? strstr(rest, "T ") : NULL;
    if (at != NULL)
        sscanf(at, "T %7[a-z0-9]", k->type);
    at = rest != NULL ? strstr(rest, " V") : NULL;
    if (at != NULL)
        k->arch = (uint32_t)strtoul(at + 2, NULL, 10);
    at = rest != NULL ? strstr(rest, "SDK 2.") : NULL;
    if (at != NULL)
        k->sdk = (uint32_t)strtoul(at + 6, NULL, 10);
}

/* Picks alternative `variant` of each operand; an optional one is absent in one variant of its own.
 * False: there are no more variants. */
static inline bool pick_variant(rule_case *k, uint32_t variant)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i <= k->n_in; i++) {
        char *word = i < k->n_in ? k->in[i] : k->out;
        bool optional = strchr(word, '?') != NULL;
        word[strcspn(word, "?*")] = '\0';
        uint32_t n = 1;
        for (const char *p = word; (p = strchr(p, '|')) != NULL; p++)
            n++;
        uint32_t all = n + optional, pick = variant % all;
        most = all > most ? all : most;
        if (i < k->n_in)
            k->present[i] = pick < n;
        char *from = word;
        for (uint32_t s = 0; s < pick && pick < n; s++)
            from = strchr(from, '|') + 1;
        memmove(word, from, strlen(from) + 1);
        word[strcspn(word, "|")] = '\0';
    }
    return variant < most;
}

static inline bool op_is(const rule_case *k, const char *list)
{
    char padded[40];
    snprintf(padded, sizeof padded, " %s ", k->op);
    return strstr(list, padded) != NULL;
}

#define CASE_LINEAR " Conv2d FullyConnected MatMul "
#define CASE_NORM   " RmsNorm LayerNorm L2Norm "

static inline abi_quant range_quant(uint32_t type, const char *form, double low, double high)
{
    double steps = type == ABI_U16 || type == ABI_S16 ? 65535 : 255,
           most = high > -low ? high : -low;
    if (type == ABI_S16 || type == ABI_S8)
        return scale_offset(2 * most / steps, 0);
    if (strcmp(form, "sym") == 0)
        return scale_offset(2 * most / steps, type == ABI_U16 ? -32768 : -128);
    if (strcmp(form, "tanh") == 0)
        return scale_offset(1.0 / 32768, -32768);
    if (strcmp(form, "zero") == 0)
        return scale_offset(1.0 / steps, 0);
    double scale = (high - low) / steps;
    return scale_offset(scale, (int32_t)(low / scale - 0.5));
}

static inline bool fixed(uint32_t type)
{
    return (type >> 8 == 3 || type >> 8 == 4) && type != ABI_S32;
}

/* Encodings of weights; the lists are static as one case at a time is composed. */
static inline abi_quant weight_quant(const char *form, int32_t axis, uint32_t n, uint32_t depth)
{
    static abi_scale_offset list[512];
    static float scales[512];
    static uint8_t factors[512 * 16];
    static abi_blockwise blocks;
    abi_quant q = {.definition = 1};
    for (uint32_t i = 0; i < n; i++) {
        scales[i] = 0.002f * (float)(1 + i % 5) * (form[0] == 'b' ? 16.0f : 1.0f);
        list[i] = (abi_scale_offset){scales[i], 0};
    }
    if (form[0] == 'a') {
        q.encoding = ABI_AXIS;
        q.u.axis.axis = axis;
        q.u.axis.n = n;
        q.u.axis.scales = list;
    } else if (form[0] == 'b') {
        q.encoding = ABI_BW_AXIS;
        q.u.bw_axis.bits = 4;
        q.u.bw_axis.axis = axis;
        q.u.bw_axis.n = n;
        q.u.bw_axis.scales = scales;
        static int32_t offsets[512];
        q.u.bw_axis.offsets = offsets;
    } else {
        for (uint32_t i = 0; i < n * (depth / 32); i++)
            factors[i] = (uint8_t)(1 + i * 7 % 16);
        blocks = (abi_blockwise){.axis = axis, .scales = list, .n_blocks = depth / 32, .bits = 4};
        blocks.u.block_scales8 = factors;
        q.encoding = ABI_BLOCKWISE;
        q.u.blockwise = &blocks;
    }
    return q;
}

static inline void fill(rule_case *k, void *p, uint32_t type, uint64_t n, const char *form,
                        double low, double high)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t r = case_random(k);
        double real = low + (high - low) * (r % 65536) / 65535.0;
        switch (type) {
        case ABI_U16:
            ((uint16_t *)p)[i] = (uint16_t)r;
            break;
        case ABI_S16:
            ((int16_t *)p)[i] = (int16_t)((int32_t)(r % 65024) - 32512);
            break;
        case ABI_S8:
            ((int8_t *)p)[i] = (int8_t)(form[0] == 'b' || form[0] == 'l' ? (int)(r % 16) - 8
                                                                         : (int)(r % 255) - 127);
            break;
        case ABI_U8:
            ((uint8_t *)p)[i] = (uint8_t)r;
            break;
        case ABI_BOOL:
            ((uint8_t *)p)[i] = r & 1;
            break;
        case ABI_F16:
            ((uint16_t *)p)[i] = fy_f32_to_f16((float)real);
            break;
        case ABI_F32:
            ((float *)p)[i] = (float)real;
            break;
        default:
            ((int32_t *)p)[i] = (int32_t)(high > 1000 ? r % 200 : real);
        }
    }
}

static inline void case_range(const rule_case *k, uint32_t i, double *low, double *high)
{
    *low = -4;
    *high = 4.5;
    if (op_is(k, " ElementWiseRsqrt ElementWiseSquareRoot ") ||
        (i == 1 && op_is(k, " ElementWiseDivide ")))
        *low = 0.0;
    if (op_is(k, " ElementWiseExp "))
        *low = -8, *high = 2;
    if (op_is(k, " RotaryEmbedding ") && i > 0)
        *low = -1, *high = 1;
    if (i > 0 && op_is(k, CASE_NORM))
        *low = i == 1 ? -0.1 : -1, *high = i == 1 ? 1.9 : 1;
    if (i > 0 && op_is(k, CASE_LINEAR))
        *low = -0.5, *high = 0.5;
}

/* The range of a result: wide enough, and as narrow as calibration would make it. */
static inline void case_out_range(const rule_case *k, double *low, double *high)
{
    static const struct {
        const char *ops;
        double low, high;
    } ranges[] = {
        {CASE_LINEAR, -200, 200},
        {" RmsNorm LayerNorm ", -5, 5},
        {" L2Norm ", -0.3, 0.3},
        {" Sigmoid ", 0, 0.99998},
        {" Tanh ", -1, 1},
        {" Gelu HardSwish ElementWiseNeuron ", -0.4, 4.5},
        {" Relu ", 0, 4.5},
        {" ElementWiseExp ", 0, 7.5},
        {" ElementWiseRsqrt ", 0, 20},
        {" ElementWiseSquareRoot ", 0, 2.2},
        {" ElementWiseSin ElementWiseCos ", -1, 1},
        {" ElementWiseAdd ElementWiseSubtract ", -9, 9},
        {" ElementWiseMultiply ", -20, 20.5},
        {" ElementWiseDivide ", -16, 16},
        {" RotaryEmbedding ", -6, 6},
    };
    *low = -4;
    *high = 4.6;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (op_is(k, ranges[i].ops)) {
            *low = ranges[i].low;
            *high = ranges[i].high;
        }
    }
}

static inline const uint32_t *case_dims(const rule_case *k, uint32_t i)
{
    static uint32_t d[6];
    uint32_t rows = k->rows;
    memset(d, 0, sizeof d);
    d[0] = d[1] = 1;
    d[2] = rows;
    d[3] = CASE_DEPTH;
    if (op_is(k, " Conv2d MatMul ") && i > 0)
        d[2] = CASE_DEPTH, d[3] = CASE_COLS;
    if (op_is(k, " FullyConnected "))
        d[0] = i == 0 ? rows : CASE_COLS, d[1] = CASE_DEPTH, d[2] = 0;
    if (op_is(k, CASE_NORM) && i > 0)
        d[0] = CASE_DEPTH, d[1] = 0;
    if (op_is(k, " Conv2d FullyConnected ") && i == 2)
        d[0] = CASE_COLS, d[1] = 0;
    if (op_is(k, " RotaryEmbedding ")) {
        d[1] = i == 0 ? 4 : rows / 4;
        d[2] = i == 0 ? rows / 4 : CASE_DEPTH / 2;
        d[3] = i == 0 ? CASE_DEPTH : 0;
    }
    if (op_is(k, " Gather "))
        d[0] = i == 0 ? 200 : rows, d[1] = i == 0 ? CASE_DEPTH : 0, d[2] = 0;
    return d;
}

static inline const uint32_t *case_out_dims(const rule_case *k)
{
    static uint32_t d[6];
    memcpy(d, case_dims(k, 0), sizeof d);
    if (op_is(k, " Conv2d MatMul "))
        d[3] = CASE_COLS;
    if (op_is(k, " FullyConnected "))
        d[1] = CASE_COLS;
    if (op_is(k, " ReduceMean ReduceMin "))
        d[3] = 1;
    if (op_is(k, " Transpose "))
        d[1] = k->rows, d[2] = 1;
    if (op_is(k, " Reshape "))
        d[1] = 4, d[2] = k->rows / 4;
    if (op_is(k, " StridedSlice Split "))
        d[3] = CASE_DEPTH / 2;
    if (op_is(k, " Tile "))
        d[2] = 2 * k->rows;
    if (op_is(k, " Concat "))
        d[3] = CASE_DEPTH * (k->present[1] ? 2 : 1);
    if (op_is(k, " Gather "))
        d[0] = k->rows;
    return d;
}

/* 0 where weights have a scale a channel, else that of input times weights. */
static inline double bias_scale(const rule_case *k)
{
    const abi_quant *w = &k->t[1]->u.v1.quant;
    return w->encoding != ABI_SCALE_OFFSET
               ? 0
               : (double)k->t[0]->u.v1.quant.u.scale_offset.scale * (double)w->u.scale_offset.scale;
}

static inline abi_tensor *case_operand(rule_case *k, uint32_t i)
{
    char name[8], type_text[16], *form;
    snprintf(name, sizeof name, "x%u", i);
    snprintf(type_text, sizeof type_text, "%.15s", k->in[i]);
    form = strchr(type_text, '/');
    if (form != NULL)
        *form++ = '\0';
    else
        form = type_text + strlen(type_text);
    uint32_t type = type_named(strcmp(type_text, "T") == 0 ? k->type : type_text);
    double low, high;
    case_range(k, i, &low, &high);
    const uint32_t *dims = case_dims(k, i);
    bool weight =
        strcmp(form, "axis") == 0 || strcmp(form, "bw4") == 0 || strcmp(form, "lpbq") == 0;
    bool linear = op_is(k, CASE_LINEAR);
    /* Small operands are weights, as they are in models. */
    bool is_static = weight || (i > 0 && op_is(k, " Conv2d FullyConnected RmsNorm LayerNorm ")) ||
                     (i == 2 && linear);
    abi_quant q = no_quant();
    if (weight)
        q = weight_quant(form, op_is(k, " FullyConnected ") ? 0 : 3, CASE_COLS, CASE_DEPTH);
    else if (type == ABI_S32)
        q = scale_offset(linear ? bias_scale(k) : 1e-6, 0);
    else if (fixed(type))
        q = range_quant(type, form, low, high);
    uint64_t n = 1;
    for (uint32_t d = 0; dims[d] != 0; d++)
        n *= dims[d];
    k->data[i] = calloc(2 * n, 4); /* a test may make the tensor larger */
    fill(k, k->data[i], type, n, form, low, high);
    for (uint64_t e = 0; e < n && type == ABI_S32; e++)
        ((int32_t *)k->data[i])[e] = linear ? (int32_t)(case_random(k) % 200000) - 100000 : 0;
    for (uint64_t e = 0; e < n && i == 1 && op_is(k, " Gather "); e++)
        ((int32_t *)k->data[i])[e] = (int32_t)(case_random(k) % 200);
    return tensor(k->c, name, is_static ? ABI_STATIC : ABI_APP_WRITE, type, q, k->data[i], dims);
}

static inline void case_params(rule_case *k)
{
    static uint32_t axes[1] = {3}, perm[4] = {0, 2, 1, 3}, multiples[4] = {1, 1, 2, 1};
    static uint32_t halves[1] = {CASE_DEPTH / 2}, ones[2] = {1, 1}, zeros[4];
    static int32_t ranges[12] = {0, 1, 1, 0, 1, 1, 0, 0, 1, 3, 3 + CASE_DEPTH / 2, 1};
    client *c = k->c;
    if (op_is(k, " Conv2d ")) {
        param_tensor(c, "stride", ABI_UI32, ones, DIMS(2));
        param_tensor(c, "pad_amount", ABI_UI32, zeros, DIMS(2, 2));
        param_tensor(c, "dilation", ABI_UI32, ones, DIMS(2));
        param_scalar(c, "group", ABI_UI32, 1);
    }
    if (op_is(k, " MatMul ")) {
        param_scalar(c, "transpose_in0", ABI_BOOL, 0);
        param_scalar(c, "transpose_in1", ABI_BOOL, 0);
    }
    if (op_is(k, CASE_NORM " ReduceMean ReduceMin "))
        param_tensor(c, "axes", ABI_UI32, axes, DIMS(1));
    if (op_is(k, CASE_NORM))
        param_float(c, "epsilon", 1e-5f);
    if (op_is(k, " ReduceMean ReduceMin "))
        param_scalar(c, "keep_dims", ABI_BOOL, 1);
    if (op_is(k, " Softmax Concat Split "))
        param_scalar(c, "axis", ABI_UI32, 3);
    if (op_is(k, " Softmax "))
        param_float(c, "beta", 1.0f);
    if (op_is(k, " Split "))
        param_tensor(c, "split_index", ABI_UI32, halves, DIMS(1));
    if (op_is(k, " Transpose "))
        param_tensor(c, "perm", ABI_UI32, perm, DIMS(4));
    if (op_is(k, " Tile "))
        param_tensor(c, "multiples", ABI_UI32, multiples, DIMS(4));
    if (op_is(k, " Gather "))
        param_scalar(c, "axis", ABI_I32, 0);
    if (op_is(k, " RotaryEmbedding "))
        param_scalar(c, "interleaved", ABI_BOOL, 0);
    if (op_is(k, " ElementWiseNeuron "))
        param_scalar(c, "operation", ABI_UI32, 1);
    ranges[7] = (int32_t)k->rows;
    if (op_is(k, " StridedSlice "))
        param_tensor(c, "ranges", ABI_I32, ranges, DIMS(4, 3));
}

/* Composes row `text`, variant `variant`, in a new graph; false: no such variant. */
static inline bool compose_case(rule_case *k, const char *text, uint32_t variant, uint32_t rows)
{
    parse_rule(k, text);
    k->rows = rows;
    if (!pick_variant(k, variant))
        return false;
    abi_tensor *in[4];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_in; i++) {
        if (k->present[i])
            in[n++] = k->t[i] = case_operand(k, i);
    }
    char type_text[16], *form = strchr(k->out, '/');
    snprintf(type_text, sizeof type_text, "%.*s", (int)strcspn(k->out, "/"), k->out);
    uint32_t type = type_named(strcmp(type_text, "T") == 0 ? k->type : type_text);
    double low, high;
    case_out_range(k, &low, &high);
    abi_quant q =
        fixed(type) ? range_quant(type, form != NULL ? form + 1 : "", low, high) : no_quant();
    if (fixed(type) && ((form != NULL && strcmp(form, "/same") == 0) ||
                        op_is(k, " Concat ReduceMin ReduceMean ElementWiseSelect ")))
        q = in[n > 1 && op_is(k, " ElementWiseSelect ") ? 1 : 0]->u.v1.quant;
    k->n_y = op_is(k, " Split ") ? 2 : 1;
    for (uint32_t i = 0; i < k->n_y; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%u", i);
        k->y[i] = tensor(k->c, name, ABI_APP_READ, type, q, NULL, case_out_dims(k));
        k->result[i] = calloc(elements(k->y[i]), 4);
    }
    case_params(k);
    node_of(k->c, k->op, k->n_y, k->y, n, in);
    return true;
}

static inline abi_error execute_case(rule_case *k)
{
    abi_tensor *in[4];
    void *from[4];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_in; i++) {
        if (k->present[i] && k->t[i]->u.v1.type == ABI_APP_WRITE) {
            in[n] = k->t[i];
            from[n++] = k->data[i];
        }
    }
    return client_execute(k->c, n, in, from, k->n_y, k->y, k->result);
}

static inline void free_case(rule_case *k)
{
    for (int i = 0; i < 4; i++)
        free(k->data[i]);
    for (int i = 0; i < 2; i++)
        free(k->result[i]);
}

#endif
