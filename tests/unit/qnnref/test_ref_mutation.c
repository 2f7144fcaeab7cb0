/* Valid graphs with one field damaged: the reference refuses them, or the field is in the list of
 * harmless ones. FERRY_SOAK=1 damages 100,000 graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rule_cases.h"

typedef const char *rule_fn(uint32_t i);

static uint32_t state_of_random = 12345;

static uint32_t draw(uint32_t n)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 17;
    state_of_random ^= state_of_random << 5;
    return state_of_random % n;
}

/* What was damaged; NULL: nothing yet. */
static const char *damaged, *damaged_op;
static uint32_t tensors_left, nodes_left; /* until the one to damage */

static const char *damage_scale_offset(abi_quant *q)
{
    static const float scales[] = {0, -1, 1e38f};
    if (draw(2) == 0) {
        float old = q->u.scale_offset.scale,
              bad = draw(4) == 0 ? __builtin_nanf("") : scales[draw(3)];
        q->u.scale_offset.scale = bad == old ? -1 : bad; /* a bias has scale 0 */
        return "scale";
    }
    q->u.scale_offset.offset += draw(2) == 0 ? 100000 : -100000;
    return "offset";
}

static const char *damage_quant(abi_tensor1 *v)
{
    abi_quant *q = &v->quant;
    switch (draw(3)) {
    case 0:
        q->definition = q->definition == 1 ? (draw(2) == 0 ? 0 : ABI_UNDEFINED) : 2;
        return "definition";
    case 1:
        q->encoding = q->encoding == ABI_UNDEFINED ? draw(4) : 6 + draw(4);
        return "encoding";
    default:
        break;
    }
    if (q->definition != 1)
        return NULL;
    switch (q->encoding) {
    case ABI_SCALE_OFFSET:
        return damage_scale_offset(q);
    case ABI_AXIS:
        if (draw(2) == 0)
            q->u.axis.axis += 1 + (int32_t)draw(4);
        else
            q->u.axis.n += draw(2) == 0 ? 1 : -1;
        return "axis";
    case ABI_BW_AXIS:
        if (draw(2) == 0)
            q->u.bw_axis.bits = 1 + draw(3);
        else
            q->u.bw_axis.axis -= 1;
        return "axis";
    default:
        return NULL;
    }
}

static void damage_tensor(abi_tensor *t)
{
    static const uint32_t types[] = {ABI_U16, ABI_U8, ABI_S16, ABI_S8, ABI_F16, ABI_F32, ABI_I32};
    abi_tensor1 *v = &t->u.v1;
    const char *what = NULL;
    uint32_t other;
    while (what == NULL) {
        switch (draw(10)) {
        case 0:
            t->version = draw(2) == 0 ? 0 : 3 + draw(5);
            what = "version";
            break;
        case 1:
            what = "tensor type";
            v->type = (v->type + 1 + draw(12)) % 14;
            break;
        case 2:
            v->data_format = 1 + draw(11);
            what = "data format";
            break;
        case 3:
            other = draw(2) == 0 ? draw(0x700) : types[draw(7)];
            if (other == v->data_type)
                break;
            v->data_type = other;
            what = "data type";
            break;
        case 4:
        case 5:
            what = damage_quant(v);
            break;
        case 6:
            v->rank = draw(3) == 0 ? v->rank - 1 : draw(2) == 0 ? 0 : 6 + draw(3);
            what = "rank";
            break;
        case 7: {
            uint32_t d = draw(v->rank);
            v->dims[d] = draw(2) == 0 ? v->dims[d] + 1 : v->dims[d] - 1;
            what = "dimension";
            break;
        }
        case 8:
            v->mem_type = v->type == ABI_STATIC ? 1 + draw(4) : 2 + draw(4);
            what = "memory type";
            break;
        default:
            if (v->type == ABI_STATIC)
                v->u.buffer.size += draw(2) == 0 ? 1 : -1;
            else
                v->u.buffer.size = 4;
            what = "size";
        }
    }
    damaged = what;
}

static uint32_t too_large[] = {4097, 4097};

static void damage_param(abi_param *p)
{
    switch (draw(4)) {
    case 0:
        p->name = "unknown";
        damaged = "parameter name";
        break;
    case 1:
        p->type ^= draw(2) == 0 ? 1 : 2;
        damaged = "parameter kind";
        break;
    case 2:
        if (p->type == 0)
            p->u.scalar.data_type ^= 0x100;
        else
            p->u.tensor.u.v1.data_type ^= 0x100;
        damaged = "parameter type";
        break;
    default:
        if (p->type == 0)
            p->u.scalar.u.u32 =
                p->u.scalar.data_type == ABI_BOOL ? 2 + draw(200) : 1000 + draw(1000);
        else
            p->u.tensor.u.v1.dims = too_large;
        damaged = p->type == 0 && p->u.scalar.data_type == ABI_F32 ? "parameter float"
                                                                   : "parameter value";
    }
}

static void damage_node(abi_op *op)
{
    abi_tensor1 *in = &op->v1.inputs[draw(op->v1.n_inputs)].u.v1;
    abi_tensor1 *out = &op->v1.outputs[draw(op->v1.n_outputs)].u.v1;
    switch (draw(9)) {
    case 0:
        op->version = draw(2) == 0 ? 0 : 2;
        damaged = "node version";
        break;
    case 1:
        op->v1.package = draw(2) == 0 ? NULL : "other";
        damaged = "package";
        break;
    case 2:
        op->v1.type = draw(2) == 0 ? "NoSuchOperation" : NULL;
        damaged = "operation";
        break;
    case 3:
        op->v1.n_inputs = draw(2) == 0 ? 0 : 200 + draw(1000000);
        damaged = "number of inputs";
        break;
    case 4:
        op->v1.n_outputs = draw(2) == 0 ? 0 : 65 + draw(1000000);
        damaged = "number of outputs";
        break;
    case 5:
        (draw(2) == 0 ? in : out)->id = draw(2) == 0 ? 0 : 100000 + draw(1000);
        damaged = "id";
        break;
    case 6:
        (draw(2) == 0 ? in : out)->data_type ^= 0x1;
        damaged = "data type of a node's tensor";
        break;
    case 7:
        out->id = in->id;
        damaged = "output that is an input";
        break;
    default:
        if (op->v1.n_params > 0)
            damage_param(&op->v1.params[draw(op->v1.n_params)]);
        else
            op->v1.n_params = 100;
        damaged = damaged == NULL ? "number of parameters" : damaged;
    }
}

static void (*real_slots[80])(void);

static abi_error damaging_tensor(abi_handle graph, abi_tensor *t)
{
    if (damaged == NULL && tensors_left-- == 0)
        damage_tensor(t);
    return ((tensor_fn *)real_slots[24])(graph, t);
}

static abi_error damaging_add(abi_handle graph, abi_op op)
{
    if (damaged == NULL && nodes_left-- == 0)
        damage_node(&op);
    return ((validate_fn *)real_slots[18])(graph, op);
}

/* Fields that may be anything, and why. */
static const struct {
    const char *field, *op;
} harmless[] = {
    {"parameter float", NULL},     /* epsilon, and beta of Softmax, which is refused */
    {"dimension", "ReduceMean"},   /* more columns to reduce */
    {"dimension", "ReduceMin"},    /* more columns to reduce */
    {"dimension", "Gather"},       /* more rows in the table */
    {"dimension", "StridedSlice"}, /* more to slice from */
    {"data type", "Convert"},      /* another row */
    {"data type", "Quantize"},     /* another row */
    {"data type", "Dequantize"},   /* another row */
    {"data type", "Gather"},       /* the index as ui32 */
    {"data type", "Softmax"},      /* u16 -> f32 */
    {"data type", "Cast"},         /* another row */
    {"data type", "RmsNorm"},      /* beta of another type */
    {"data type", "LayerNorm"},    /* beta of another type */
    {"data type", "MatMul"},       /* another row: u16 x s16 for u16 x u16 */
};

static bool is_harmless(void)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (strcmp(harmless[i].field, damaged) == 0 &&
            (harmless[i].op == NULL || strcmp(harmless[i].op, damaged_op) == 0))
            return true;
    }
    return false;
}

/* True when every call succeeded. */
static bool accepted(client *c, rule_case *k, const char *text, uint32_t variant)
{
    if (client_graph(c, "g") != 0 || !compose_case(k, text, variant, 4))
        return false;
    return c->tensor_error == 0 && c->add_error == 0 && client_finalize(c) == 0 &&
           execute_case(k) == 0;
}

static void a_damaged_field_is_refused_or_harmless(void **state)
{
    (void)state;
    client c;
    assert_int_equal(client_open(&c, reference_path("libQnnRef.so")), 0);
    assert_int_equal(client_device(&c, 69, 79, 8), 0);
    rule_fn *rule;
    *(void **)&rule = dlsym(c.library, "FerryRef_rule");
    uint32_t n_rules = 0;
    while (rule(n_rules) != NULL)
        n_rules++;
    for (int i = 0; i < 80; i++)
        real_slots[i] = i <= 50 ? c.provider->slots[i] : NULL;
    c.provider->slots[24] = (void (*)(void))damaging_tensor;
    c.provider->slots[18] = (void (*)(void))damaging_add;
    const char *soak = getenv("FERRY_SOAK");
    uint32_t rounds = soak != NULL && strcmp(soak, "1") == 0 ? 100000 : 3000, kept = 0;
    print_message("# %u rounds\n", rounds);
    for (uint32_t i = 0; i < rounds; i++) {
        rule_case k = {.c = &c};
        char text[256];
        snprintf(text, sizeof text, "%s", rule(draw(n_rules)));
        uint32_t variant = draw(2);
        parse_rule(&k, text);
        if (!pick_variant(&k, variant))
            variant = 0;
        damaged = NULL;
        bool in_node = draw(2) == 0;
        tensors_left = in_node ? UINT32_MAX : draw(k.n_in + 1);
        nodes_left = in_node ? 0 : UINT32_MAX;
        assert_int_equal(client_context(&c, false), 0);
        bool ok = accepted(&c, &k, text, variant);
        damaged_op = k.op;
        if (ok && damaged != NULL && !is_harmless())
            fail_msg("%s, variant %u: accepted with another %s", text, variant, damaged);
        kept += ok;
        client_drop_context(&c);
        free_case(&k);
    }
    print_message("# %u accepted, all harmless\n", kept);
    client_close(&c, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_damaged_field_is_refused_or_harmless)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
