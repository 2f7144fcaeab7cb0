/* Reads the table of one-operation graphs and runs them on a QNN library. */
#include "workspace/npu/qnn_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "kernels/kernels.h"
#include "workspace/data/data_files.h"

enum {
    MAX_RANK = 5,
    MAX_OPERANDS = 4,
    MAX_CHANNELS = 4096,
    MAX_ROUNDS = 40,
    MAX_ELEMENTS = 1 << 26
};

struct fy_qnn_cases {
    json_t *tree;           /* owned */
    json_t *params, *cases; /* views */
};

/* --- the table -------------------------------------------------------------------------------- */

fy_qnn_cases *fy_qnn_cases_parse(const char *text, size_t n, fy_err *e)
{
    fy_qnn_cases *c = calloc(1, sizeof *c);
    if (c == NULL)
        return fy_nomem(e), NULL;
    c->tree = fy_json_data((fy_span){text, n}, e);
    c->params = json_object_get(c->tree, "params");
    c->cases = json_object_get(c->tree, "cases");
    if (c->tree != NULL && json_is_object(c->params) && json_is_array(c->cases))
        return c;
    fy_fail(e, FY_EFORMAT, "expected an object with \"params\" and a list \"cases\"");
    fy_qnn_cases_free(c);
    return NULL;
}

fy_qnn_cases *fy_qnn_cases_open(fy_err *e)
{
    const fy_data_file *f = fy_data_find("qnn_cases.json");
    return f != NULL ? fy_qnn_cases_parse((const char *)f->data, f->size, e)
                     : (fy_fail(e, FY_EIO, "the table of cases is not part of this build"), NULL);
}

void fy_qnn_cases_free(fy_qnn_cases *c)
{
    if (c != NULL)
        json_decref(c->tree);
    free(c);
}

size_t fy_qnn_cases_n(const fy_qnn_cases *c)
{
    return json_array_size(c->cases);
}

const char *fy_qnn_case_name(const fy_qnn_cases *c, size_t i)
{
    const char *name = json_string_value(json_object_get(json_array_get(c->cases, i), "name"));
    return name != NULL ? name : "?";
}

/* --- an operand ------------------------------------------------------------------------------- */

typedef struct {
    uint32_t type;
    double min, max; /* of the codes of a fixed type; 0, 0: not one */
} type_row;

static const type_row types[] = {
    {FY_QNN_UFIXED_8, 0, 255},         {FY_QNN_UFIXED_16, 0, 65535},  {FY_QNN_SFIXED_8, -128, 127},
    {FY_QNN_SFIXED_16, -32768, 32767}, {FY_QNN_SFIXED_32, -2e9, 2e9}, {FY_QNN_FLOAT_16, 0, 0},
    {FY_QNN_FLOAT_32, 0, 0},           {FY_QNN_INT_32, 0, 0},         {FY_QNN_BOOL_8, 0, 0},
};

typedef enum { RANGE, SYM, SCALE, AXIS, LPBQ, BIAS, BELOW, PLAIN } form;

typedef struct {
    bool constant;
    const type_row *type;
    uint32_t rank, dims[MAX_RANK];
    uint64_t n; /* elements */
    form form;
    double lo, hi, from;             /* RANGE; SYM: hi; BELOW: hi */
    fy_qnn_scale_offset so;          /* SCALE, and what RANGE and SYM give */
    uint32_t axis, bits, block;      /* AXIS, LPBQ */
    bool masked, zero, ends, tensor; /* words */
} operand;

static bool take_word(const char **p, const char *word)
{
    const size_t n = strlen(word);
    while (**p == ' ')
        ++*p;
    if (strncmp(*p, word, n) != 0 || ((*p)[n] != ' ' && (*p)[n] != '\0'))
        return false;
    *p += n;
    return true;
}

static bool take_real(const char **p, double *out)
{
    char *end;
    *out = strtod(*p, &end);
    if (end == *p)
        return false;
    *p = end;
    if (**p == '/') {
        const double below = strtod(*p + 1, &end);
        if (end == *p + 1)
            return false;
        *out /= below;
        *p = end;
    }
    return isfinite(*out);
}

/* A whole number from 0 to 4096. */
static bool take_small(const char **p, uint32_t *out)
{
    double v;
    if (!take_real(p, &v) || v < 0 || v > 4096 || v != floor(v))
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool take_dims(const char **p, operand *o)
{
    if (**p != '[')
        return false;
    ++*p;
    for (o->n = 1; o->rank < MAX_RANK; ++*p) {
        char *end;
        const unsigned long v = strtoul(*p, &end, 10);
        if (v == 0 || v > MAX_ELEMENTS || o->n * v > MAX_ELEMENTS)
            return false;
        o->dims[o->rank++] = (uint32_t)v;
        o->n *= v;
        *p = end;
        if (**p != ',')
            break;
    }
    if (**p != ']')
        return false;
    ++*p;
    return true;
}

static bool take_encoding(const char **p, operand *o)
{
    double v;
    if (take_word(p, "axis")) {
        o->form = AXIS;
        o->bits = 8;
        if (!take_small(p, &o->axis))
            return false;
        if (take_word(p, "bits")) {
            if (!take_small(p, &o->bits))
                return false;
            o->masked = !take_word(p, "signed");
        } else if (take_word(p, "lpbq")) {
            o->form = LPBQ;
            if (!take_small(p, &o->block))
                return false;
            o->bits = 4;
            o->masked = take_word(p, "masked");
        }
    } else if (take_word(p, "sym")) {
        o->form = SYM;
        return take_real(p, &o->hi);
    } else if (take_word(p, "scale")) {
        double offset;
        o->form = SCALE;
        if (!take_real(p, &v) || !take_real(p, &offset))
            return false;
        o->so = (fy_qnn_scale_offset){(float)v, (int32_t)offset};
        o->zero = take_word(p, "zero");
        o->ends = take_word(p, "ends");
        if (take_word(p, "bias"))
            o->form = BIAS;
    } else if (take_word(p, "bias")) {
        o->form = BIAS;
        o->so.scale = 1;
        o->tensor = take_word(p, "tensor");
        o->zero = take_word(p, "zero");
    } else if (take_word(p, "below")) {
        o->form = BELOW;
        return take_real(p, &o->hi);
    } else if (**p != '\0') {
        o->form = RANGE;
        if (!take_real(p, &o->lo) || !take_word(p, "to") || !take_real(p, &o->hi))
            return false;
        o->from = o->lo;
        if (take_word(p, "from") && !take_real(p, &o->from))
            return false;
        o->zero = take_word(p, "zero");
    } else {
        o->form = PLAIN;
    }
    return true;
}

static int parse_operand(const char *text, operand *o, fy_err *e)
{
    const char *p = text;
    *o = (operand){.constant = take_word(&p, "const")};
    while (*p == ' ')
        p++;
    const size_t n = strcspn(p, "[");
    const uint32_t type = fy_qnn_type_of((fy_span){p, n});
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].type == type)
            o->type = &types[i];
    }
    p += n;
    const bool ok = o->type != NULL && take_dims(&p, o) && take_encoding(&p, o);
    if (!ok || *p != '\0')
        return fy_fail(e, FY_EFORMAT, "operand '%s': not understood from '%s' on", text, p);
    return 0;
}

/* --- values ----------------------------------------------------------------------------------- */

/* xorshift64: the same numbers for every library. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 16;
}

static double uniform(uint64_t *state)
{
    return (double)(next(state) & 0xffffffff) / 4294967296.0;
}

static bool is_fixed(const operand *o)
{
    return o->type->max > 0;
}

static void put(const operand *o, void *data, uint64_t i, double v)
{
    const float f = (float)v;
    const int64_t q = (int64_t)v;
    switch (fy_qnn_type_bytes(o->type->type)) {
    case 1:
        ((uint8_t *)data)[i] = (uint8_t)q;
        return;
    case 2:
        if (o->type->type == FY_QNN_FLOAT_16)
            ((uint16_t *)data)[i] = fy_f32_to_f16(f);
        else
            ((uint16_t *)data)[i] = (uint16_t)q;
        return;
    default:
        if (o->type->type == FY_QNN_FLOAT_32)
            ((float *)data)[i] = f;
        else
            ((int32_t *)data)[i] = (int32_t)q;
    }
}

/* The scale and offset of a range, as quantizers choose them: the ends are codes. */
static void choose_scale(operand *o)
{
    const type_row *t = o->type;
    if (!is_fixed(o) || (o->form != RANGE && o->form != SYM))
        return;
    const double half = (t->max - t->min + 1) / 2;
    if (o->form == SYM || t->min < 0) {
        const double most = o->form == SYM ? o->hi : fmax(-o->lo, o->hi);
        o->so.scale = (float)(most / (o->form == SYM ? half : half - 1));
        o->so.offset = t->min < 0 ? 0 : (int32_t)-half;
    } else {
        o->so.scale = (float)((o->hi - o->lo) / t->max);
        o->so.offset = (int32_t)rint(o->lo / (double)o->so.scale);
    }
}

/* A value of a dynamic tensor: the first rows of the first round are edges. */
static double real_value(const operand *o, uint64_t i, uint32_t round, uint64_t *state)
{
    const uint64_t row = i / o->dims[o->rank - 1], column = i % o->dims[o->rank - 1];
    const double lo = o->form == SYM ? -o->hi : o->from, hi = o->hi, u = uniform(state);
    if (round == 0 && o->n > o->dims[o->rank - 1]) {
        if (row < 2)
            return row == 0 ? lo : hi;
        if (row == 2)
            return lo <= 0 ? 0 : lo;
        if (row == 3)
            return column == 7 ? hi : lo;
    }
    return lo + (hi - lo) * u;
}

static double value(const operand *o, uint64_t i, uint32_t round, uint64_t *state)
{
    const type_row *t = o->type;
    if (o->zero)
        return o->form == SCALE || o->form == RANGE ? -(double)o->so.offset : 0;
    if (t->type == FY_QNN_BOOL_8)
        return (double)(next(state) & 1);
    if (o->form == BELOW)
        return floor(uniform(state) * o->hi);
    if (!is_fixed(o))
        return real_value(o, i, round, state);
    if (o->form == SCALE && o->ends)
        return next(state) & 1 ? t->max : t->min;
    if (o->form == SCALE && o->constant) { /* weights: symmetric codes */
        const double half = (t->max - t->min - 1) / 2;
        return (t->min < 0 ? 0 : half + 1) + rint((uniform(state) * 2 - 1) * (half * 0.99));
    }
    if (o->form == SCALE)
        return floor(t->min + uniform(state) * (t->max - t->min + 1));
    const double q =
        rint(real_value(o, i, round, state) / (double)o->so.scale) - (double)o->so.offset;
    return q < t->min ? t->min : q > t->max ? t->max : q;
}

/* --- composing -------------------------------------------------------------------------------- */

typedef struct {
    fy_qnn_graph graph;
    operand in[MAX_OPERANDS], out[2];
    fy_qnn_tensor *tensor[MAX_OPERANDS], *result[2];
    void *data[MAX_OPERANDS], *output[2];
    uint32_t n_in, n_out;
    uint64_t random;
} trial;

/* Per-channel scales differ, so that a library that takes one for all is seen. */
static float channel_scale(const operand *o, uint32_t channel)
{
    return 0.002f * (float)(1 + channel % 5) * (o->form == AXIS && o->bits == 4 ? 16 : 1);
}

static int axis_quant(trial *t, operand *o, fy_qnn_quant *q, fy_err *e)
{
    float scales[MAX_CHANNELS];
    if (o->axis >= o->rank)
        return fy_fail(e, FY_EFORMAT, "axis %u of rank %u", o->axis, o->rank);
    const uint32_t n = o->dims[o->axis];
    if (n > MAX_CHANNELS)
        return fy_fail(e, FY_EFORMAT, "%u channels, at most %d", n, MAX_CHANNELS);
    if (o->form == LPBQ && (o->block == 0 || o->n / n % o->block != 0))
        return fy_fail(e, FY_EFORMAT, "blocks of %u in channels of %llu", o->block,
                       (unsigned long long)(o->n / n));
    const uint32_t n_blocks = o->form == LPBQ ? (uint32_t)(o->n / n / o->block) : 0;
    uint8_t *block_scales = fy_arena_calloc(&t->graph.arena, (size_t)n_blocks * n, 1);
    if (block_scales == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < n; i++)
        scales[i] = channel_scale(o, i);
    for (uint32_t i = 0; i < n * n_blocks; i++)
        block_scales[i] = (uint8_t)(1 + next(&t->random) % 16);
    return fy_qnn_quant_channels(&t->graph, o->axis, n, scales, o->bits, n_blocks, block_scales, q,
                                 e);
}

/* The scale of a bias is that of the input times that of the weights, a channel each. */
static int bias_quant(trial *t, operand *o, fy_qnn_quant *q, fy_err *e)
{
    const operand *x = &t->in[0], *w = &t->in[1];
    const bool by_axis = !o->tensor && o->so.scale != 0;
    *q = fy_qnn_quant_scale(o->so.scale != 0 ? x->so.scale * w->so.scale : 0, 0);
    if (!by_axis)
        return 0;
    float scales[MAX_CHANNELS] = {0};
    if (o->n > MAX_CHANNELS)
        return fy_fail(e, FY_EFORMAT, "%llu channels, at most %d", (unsigned long long)o->n,
                       MAX_CHANNELS);
    for (uint32_t i = 0; i < o->n && !o->zero; i++)
        scales[i] = x->so.scale * channel_scale(w, i);
    return fy_qnn_quant_channels(&t->graph, 0, (uint32_t)o->n, scales, 8, 0, NULL, q, e);
}

static int quant_of(trial *t, operand *o, fy_qnn_quant *q, fy_err *e)
{
    choose_scale(o);
    if (o->form == AXIS || o->form == LPBQ)
        return axis_quant(t, o, q, e);
    if (o->form == BIAS)
        return bias_quant(t, o, q, e);
    *q = is_fixed(o) ? fy_qnn_quant_scale(o->so.scale, o->so.offset) : fy_qnn_no_quant();
    return 0;
}

static void fill(const operand *o, void *data, uint32_t round, uint64_t *state)
{
    for (uint64_t i = 0; i < o->n; i++) {
        double v;
        if (o->form == AXIS || o->form == LPBQ) {
            const int half = o->bits == 4 ? 8 : 128;
            v = (double)(next(state) % (uint64_t)(2 * half - (half == 128))) - half + (half == 128);
            v = o->masked ? (double)((int)v & 15) : v;
        } else if (o->form == BIAS) {
            v = rint((uniform(state) * 2 - 1) * 60000);
        } else {
            v = value(o, i, round, state);
        }
        put(o, data, i, v);
    }
}

/* One tensor and, of constants, its bytes; others get theirs round by round. */
static int add_tensor(trial *t, const char *text, const char *name, uint32_t kind, operand *o,
                      fy_qnn_tensor **out, void **data, uint32_t *code, fy_err *e)
{
    fy_qnn_quant q;
    if (parse_operand(text, o, e) != 0 || quant_of(t, o, &q, e) != 0)
        return -1;
    *data = calloc(o->n, fy_qnn_type_bytes(o->type->type));
    if (*data == NULL)
        return fy_nomem(e);
    if (o->constant)
        fill(o, *data, 1, &t->random);
    const fy_qnn_error err = fy_qnn_tensor_new(&t->graph, name, o->constant ? FY_QNN_STATIC : kind,
                                               o->type->type, &q, o->rank, o->dims, *data, out);
    if (*out == NULL)
        return fy_nomem(e);
    if (err != 0 && *code == 0)
        *code = fy_qnn_code(err);
    return 0;
}

static int add_list(trial *t, fy_qnn_node *n, const char *key, uint32_t type, const json_t *list,
                    uint32_t *code, fy_err *e)
{
    uint32_t dims[2] = {(uint32_t)json_array_size(list), 1}, rank = 1, used = 0;
    int32_t values[64] = {0};
    for (size_t i = 0; i < dims[0]; i++) {
        const json_t *v = json_array_get(list, i);
        const bool row = json_is_array(v);
        if (row) {
            rank = 2;
            dims[1] = (uint32_t)json_array_size(v);
        }
        for (size_t k = 0; k < (row ? dims[1] : 1) && used < 64; k++)
            values[used++] = (int32_t)json_integer_value(row ? json_array_get(v, k) : v);
    }
    if (used == 0 || used != (uint64_t)dims[0] * dims[1])
        return fy_fail(e, FY_EFORMAT, "parameter '%s': expected 1 to 64 numbers, or rows of them",
                       key);
    const fy_qnn_error err = fy_qnn_node_array(&t->graph, n, key, type, rank, dims, values);
    if (err != 0 && *code == 0)
        *code = fy_qnn_code(err);
    return 0;
}

static int add_params(trial *t, fy_qnn_node *n, json_t *params, uint32_t *code, fy_err *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(params, key, v)
    {
        const size_t len = strcspn(key, ":");
        const bool i32 = strcmp(key + len, ":i32") == 0;
        const char *name = fy_arena_strndup(&t->graph.arena, key, len);
        if (name == NULL)
            return fy_nomem(e);
        if (json_is_array(v)) {
            if (add_list(t, n, name, i32 ? FY_QNN_INT_32 : FY_QNN_UINT_32, v, code, e) != 0)
                return -1;
        } else if (json_is_boolean(v))
            fy_qnn_node_bool(n, name, json_is_true(v));
        else if (json_is_real(v))
            fy_qnn_node_f32(n, name, (float)json_real_value(v));
        else if (i32)
            fy_qnn_node_i32(n, name, (int32_t)json_integer_value(v));
        else
            fy_qnn_node_u32(n, name, (uint32_t)json_integer_value(v));
    }
    return 0;
}

static int compose(const fy_qnn_cases *c, const json_t *row, trial *t, uint32_t *code, fy_err *e)
{
    static const char *const in_names[MAX_OPERANDS] = {"in0", "in1", "in2", "in3"};
    static const char *const out_names[2] = {"out0", "out1"};
    const char *op = json_string_value(json_object_get(row, "op"));
    const json_t *in = json_object_get(row, "in"), *out = json_object_get(row, "out");
    json_t *params = json_object_get(row, "params");
    t->n_in = (uint32_t)json_array_size(in);
    t->n_out = (uint32_t)json_array_size(out);
    if (op == NULL || t->n_in == 0 || t->n_in > MAX_OPERANDS || t->n_out == 0 || t->n_out > 2)
        return fy_fail(e, FY_EFORMAT, "expected \"op\", 1 to 4 \"in\" and 1 or 2 \"out\"");
    code[FY_QNN_STEP_TENSOR] = 0;
    for (uint32_t i = 0; i < t->n_in + t->n_out; i++) {
        const bool output = i >= t->n_in;
        const uint32_t k = output ? i - t->n_in : i;
        const char *text = json_string_value(json_array_get(output ? out : in, k));
        if (add_tensor(t, text != NULL ? text : "", output ? out_names[k] : in_names[k],
                       output ? FY_QNN_APP_READ : FY_QNN_APP_WRITE, output ? &t->out[k] : &t->in[k],
                       output ? &t->result[k] : &t->tensor[k], output ? &t->output[k] : &t->data[k],
                       &code[FY_QNN_STEP_TENSOR], e) != 0)
            return -1;
    }
    fy_qnn_node *node = malloc(sizeof *node);
    if (node == NULL)
        return fy_nomem(e);
    fy_qnn_node_begin(node, "node", op);
    int rc = add_params(t, node, params != NULL ? params : json_object_get(c->params, op),
                        &code[FY_QNN_STEP_TENSOR], e);
    for (uint32_t i = 0; rc == 0 && i < t->n_in; i++)
        fy_qnn_node_input(node, t->tensor[i]);
    for (uint32_t i = 0; rc == 0 && i < t->n_out; i++)
        fy_qnn_node_output(node, t->result[i]);
    if (rc == 0 && code[FY_QNN_STEP_TENSOR] == 0) {
        code[FY_QNN_STEP_VALIDATE] = fy_qnn_code(fy_qnn_node_validate(&t->graph, node));
        code[FY_QNN_STEP_ADD] = fy_qnn_code(fy_qnn_node_add(&t->graph, node));
        if (code[FY_QNN_STEP_ADD] == 0)
            code[FY_QNN_STEP_FINALIZE] = fy_qnn_code(fy_qnn_graph_finalize(&t->graph));
    }
    free(node);
    return rc;
}

static int execute(trial *t, uint64_t n_elements, fy_qnn_answer *a, fy_err *e)
{
    fy_qnn_tensor *in[MAX_OPERANDS];
    void *data[MAX_OPERANDS];
    uint32_t n = 0;
    const operand *y = &t->out[0];
    const uint64_t wanted = (n_elements + y->n - 1) / y->n;
    const uint32_t rounds = wanted < MAX_ROUNDS ? (uint32_t)wanted : MAX_ROUNDS;
    for (uint32_t i = 0; i < t->n_in; i++) {
        if (t->in[i].constant)
            continue;
        in[n] = t->tensor[i];
        data[n++] = t->data[i];
    }
    a->fixed = is_fixed(y);
    a->values = calloc((size_t)y->n * rounds, sizeof *a->values);
    if (a->values == NULL)
        return fy_nomem(e);
    a->code[FY_QNN_STEP_EXECUTE] = 0;
    for (uint32_t r = 0; r < rounds && a->code[FY_QNN_STEP_EXECUTE] == 0; r++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        for (uint32_t i = 0; i < t->n_in; i++) {
            if (!t->in[i].constant)
                fill(&t->in[i], t->data[i], r, &t->random);
        }
        a->code[FY_QNN_STEP_EXECUTE] =
            fy_qnn_code(fy_qnn_graph_run(&t->graph, in, data, n, t->result, t->output, t->n_out));
        for (uint64_t i = 0; i < y->n; i++)
            a->values[r * y->n + i] = fy_qnn_element(t->output[0], y->type->type, i);
    }
    a->n = (uint32_t)(y->n * rounds);
    return 0;
}

int fy_qnn_case_run(const fy_qnn_cases *c, size_t i, const fy_qnn_lib *lib, fy_qnn_handle device,
                    const fy_qnn_chip *chip, uint64_t n_elements, fy_qnn_answer *out, fy_err *e)
{
    trial *t = calloc(1, sizeof *t);
    fy_qnn_handle context = NULL;
    *out = (fy_qnn_answer){0};
    for (size_t k = 0; k < FY_QNN_STEPS; k++)
        out->code[k] = FY_QNN_UNTRIED;
    if (t == NULL)
        return fy_nomem(e);
    t->random = 88172645463325252u + i;
    int rc = fy_qnn_context_new(lib, device, false, &context, e);
    if (rc == 0)
        rc = fy_qnn_graph_new(lib, context, "case", chip, &t->graph, e);
    if (rc == 0)
        rc = compose(c, json_array_get(c->cases, i), t, out->code, e);
    if (rc == 0 && out->code[FY_QNN_STEP_FINALIZE] == 0)
        rc = execute(t, n_elements, out, e);
    fy_qnn_context_free(lib, context);
    fy_qnn_graph_release(&t->graph);
    for (size_t k = 0; k < MAX_OPERANDS; k++)
        free(t->data[k]);
    free(t->output[0]);
    free(t->output[1]);
    free(t);
    if (rc != 0) {
        fy_qnn_answer_release(out);
        fy_ctx(e, "case '%s'", fy_qnn_case_name(c, i));
    }
    return rc;
}

void fy_qnn_answer_release(fy_qnn_answer *a)
{
    free(a->values);
    *a = (fy_qnn_answer){0};
}
