/* What calls in a pickle make tensors: storages, dtypes, shapes and strides as torch's rebuild
 * functions take them, checked against the bytes that are there; and reading elements by strides.
 */
#include <inttypes.h>
#include <string.h>

#include "base/math.h"
#include "base/str.h"
#include "format/torch_impl.h"

typedef fy_pickle_node node;

enum { MAX_WRAPS = 8 }; /* a parameter of a parameter of ... */

/* --- names ------------------------------------------------------------------------------------ */

#define NO_DTYPE FY_DT_COUNT

static const struct {
    const char *name;   /* torch.<name>Storage; NULL: torch has no such storage */
    const char *symbol; /* torch.<symbol> */
    fy_dtype dtype;
} dtypes[] = {
    {"Double", "float64", FY_DT_F64},
    {"Float", "float32", FY_DT_F32},
    {"Half", "float16", FY_DT_F16},
    {"BFloat16", "bfloat16", FY_DT_BF16},
    {"Long", "int64", FY_DT_I64},
    {"Int", "int32", FY_DT_I32},
    {"Short", "int16", FY_DT_I16},
    {"Char", "int8", FY_DT_I8},
    {"Byte", "uint8", FY_DT_U8},
    {"Bool", "bool", FY_DT_BOOL},
    {"ComplexFloat", "complex64", FY_DT_C64},
    {NULL, "uint16", FY_DT_U16},
    {NULL, "uint32", FY_DT_U32},
    {NULL, "uint64", FY_DT_U64},
    {NULL, "float8_e4m3fn", FY_DT_F8_E4M3},
    {NULL, "float8_e5m2", FY_DT_F8_E5M2},
    {NULL, "float8_e8m0fnu", FY_DT_F8_E8M0},
    {NULL, "float8_e4m3fnuz", FY_DT_F8_E4M3FNUZ},
    {NULL, "float8_e5m2fnuz", FY_DT_F8_E5M2FNUZ},
};

/* ('storage', class, ...) and, in legacy files, ('module', class, source file, source) */
static const node *class_of_id(const node *v)
{
    const node *id = v->id;
    return id->kind == FY_PICKLE_TUPLE && id->items.n > 1 ? id->items.at[1] : v;
}

void fy_torch_put_global(fy_str *out, const node *v)
{
    while (v->kind == FY_PICKLE_CALL) {
        const node *args = v->call.args, *callee = v->call.callee;
        /* what stands for "an object of this class" */
        bool makes = callee->kind == FY_PICKLE_GLOBAL &&
                     (fy_span_is(callee->global.name, "_reconstructor") ||
                      fy_span_is(callee->global.name, "__newobj__")) &&
                     args->kind == FY_PICKLE_TUPLE && args->items.n > 0 &&
                     (args->items.at[0]->kind == FY_PICKLE_GLOBAL ||
                      args->items.at[0]->kind == FY_PICKLE_ID);
        v = makes ? args->items.at[0] : callee;
    }
    if (v->kind == FY_PICKLE_ID)
        v = class_of_id(v);
    if (v->kind != FY_PICKLE_GLOBAL) {
        fy_str_puts(out, "an unnamed function");
        return;
    }
    fy_str_add(out, v->global.module.ptr, v->global.module.len);
    fy_str_putc(out, '.');
    fy_str_add(out, v->global.name.ptr, v->global.name.len);
}

static int refuse_global(const node *v, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_str name = {0};
    fy_torch_put_global(&name, v);
    if (name.oom)
        fy_nomem(e);
    else
        fy_fail(e, FY_EUNSUPPORTED, "its pickle asks for %s, which ferry never runs",
                fy_quote(shown, sizeof shown, (fy_span){fy_str_z(&name), name.len}));
    fy_str_release(&name);
    return -1;
}

/* What a value is in a message that expected something else: opaque values are named. */
static int refuse(const node *v, const char *what, fy_err *e)
{
    if (v->kind == FY_PICKLE_CALL || v->kind == FY_PICKLE_GLOBAL)
        return refuse_global(v, e);
    return fy_fail(e, FY_EFORMAT, "its %s is not what PyTorch writes", what);
}

/* --- storages --------------------------------------------------------------------------------- */

static int read_count(const node *v, uint64_t *out, const char *what, fy_err *e)
{
    if (v->kind != FY_PICKLE_INT)
        return refuse(v, what, e);
    if (v->i < 0)
        return fy_fail(e, FY_EFORMAT, "its %s is negative: %" PRId64, what, v->i);
    *out = (uint64_t)v->i;
    return 0;
}

static int read_storage_type(const node *type, fy_torch_ref *out, fy_err *e)
{
    static const fy_span end = {"Storage", 7};
    char shown[FY_QUOTE_BYTES];
    if (type->kind != FY_PICKLE_GLOBAL)
        return refuse(type, "type of storage", e);
    fy_span module = type->global.module, name = type->global.name;
    if (!fy_span_is(module, "torch") && !fy_span_is(module, "torch.storage") &&
        !fy_span_is(module, "torch.cuda"))
        return refuse_global(type, e);
    out->untyped = fy_span_is(name, "UntypedStorage") || fy_span_is(name, "_UntypedStorage");
    out->dtype = NO_DTYPE;
    if (out->untyped)
        return 0;
    if (name.len < end.len || !fy_span_eq((fy_span){name.ptr + name.len - end.len, end.len}, end))
        return refuse_global(type, e);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (dtypes[i].name != NULL &&
            fy_span_is((fy_span){name.ptr, name.len - end.len}, dtypes[i].name)) {
            out->dtype = dtypes[i].dtype;
            return 0;
        }
    }
    return fy_fail(e, FY_EUNSUPPORTED,
                   "a storage of type '%s' is not read, expected one of float, int or bool",
                   fy_quote(shown, sizeof shown, name));
}

/* (key, offset, size): the part of a storage that older versions wrote as one of its own. */
static int read_view(const node *view, fy_torch_ref *out, fy_err *e)
{
    uint64_t end;
    if (view->kind == FY_PICKLE_NONE)
        return 0;
    if (view->kind != FY_PICKLE_TUPLE || view->items.n != 3)
        return refuse(view, "view of a storage", e);
    if (read_count(view->items.at[1], &out->offset, "offset of a view", e) != 0 ||
        read_count(view->items.at[2], &out->count, "size of a view", e) != 0)
        return -1;
    if (!fy_add_u64(out->offset, out->count, &end) || end > out->elems)
        return fy_fail(e, FY_EFORMAT,
                       "a view of %" PRIu64 " elements from %" PRIu64
                       " on does not fit into its storage of %" PRIu64,
                       out->count, out->offset, out->elems);
    return 0;
}

int fy_torch_read_ref(const node *id, fy_torch_ref *out, fy_err *e)
{
    if (id->kind != FY_PICKLE_TUPLE || (id->items.n != 5 && id->items.n != 6) ||
        id->items.at[0]->kind != FY_PICKLE_TEXT || !fy_span_is(id->items.at[0]->text, "storage") ||
        id->items.at[2]->kind != FY_PICKLE_TEXT)
        return refuse(id, "persistent id", e);
    *out = (fy_torch_ref){.key = id->items.at[2]->text};
    if (read_storage_type(id->items.at[1], out, e) != 0 ||
        read_count(id->items.at[4], &out->elems, "size of a storage", e) != 0)
        return -1;
    out->count = out->elems;
    return id->items.n == 6 ? read_view(id->items.at[5], out, e) : 0;
}

uint64_t fy_torch_ref_elem_bytes(const fy_torch_ref *ref)
{
    return ref->untyped ? 1 : fy_dtype_bits(ref->dtype) / 8;
}

/* The bytes that a reference means. */
static int find_storage(const fy_torch_reader *r, const fy_torch_ref *ref, uint32_t *number,
                        const uint8_t **data, uint64_t *bytes, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    uint64_t unit = fy_torch_ref_elem_bytes(ref), want;
    if (!fy_names_find(&r->by_key, ref->key, number))
        return fy_fail(e, FY_EFORMAT, "its storage '%s' is not in the file",
                       fy_quote(shown, sizeof shown, ref->key));
    const fy_torch_storage *s = &r->storages[*number];
    if (!fy_mul_u64(ref->elems, unit, &want) || want > s->bytes)
        return fy_fail(e, FY_EFORMAT,
                       "its storage '%s' should have %" PRIu64 " elements of %" PRIu64
                       " bytes, but has %" PRIu64 " bytes",
                       fy_quote(shown, sizeof shown, ref->key), ref->elems, unit, s->bytes);
    *data = s->data + ref->offset * unit; /* offset + count <= elems */
    *bytes = ref->count * unit;
    return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

typedef struct {
    const char *module, *name;
    enum { PLAIN, TYPED, WRAPPED, FROM_TYPE } form;
    uint32_t n_args; /* at least */
} rebuilder;

static const rebuilder rebuilders[] = {
    {"torch._utils", "_rebuild_tensor", PLAIN, 4},
    {"torch._utils", "_rebuild_tensor_v2", PLAIN, 4},
    {"torch._utils", "_rebuild_tensor_v3", TYPED, 7},
    {"torch._utils", "_rebuild_parameter", WRAPPED, 1},
    {"torch._utils", "_rebuild_parameter_with_state", WRAPPED, 1},
    {"torch._tensor", "_rebuild_from_type_v2", FROM_TYPE, 3},
};

static const rebuilder *find_rebuilder(const node *callee)
{
    for (size_t i = 0; i < sizeof rebuilders / sizeof rebuilders[0]; i++) {
        if (fy_pickle_is_global(callee, rebuilders[i].module, rebuilders[i].name))
            return &rebuilders[i];
    }
    return NULL;
}

/* Other ways to make a tensor (quantized, sparse, of subclasses) have names that begin so. */
static bool makes_tensor(const node *callee)
{
    static const char prefix[] = "_rebuild_";
    return callee->kind == FY_PICKLE_GLOBAL &&
           (fy_span_is(callee->global.module, "torch._utils") ||
            fy_span_is(callee->global.module, "torch._tensor")) &&
           callee->global.name.len >= sizeof prefix - 1 &&
           memcmp(callee->global.name.ptr, prefix, sizeof prefix - 1) == 0;
}

fy_torch_call fy_torch_call_kind(const node *call)
{
    const node *args = call->call.args;
    if (fy_pickle_is_global(call->call.callee, "torch", "Size") && args->kind == FY_PICKLE_TUPLE &&
        args->items.n == 1)
        return FY_TORCH_CALL_SIZE;
    if (makes_tensor(call->call.callee))
        return FY_TORCH_CALL_TENSOR;
    /* what an unknown function makes of a tensor would be one */
    for (uint32_t i = 0; args->kind == FY_PICKLE_TUPLE && i < args->items.n; i++) {
        const node *arg = args->items.at[i];
        if (arg->kind == FY_PICKLE_ID ||
            (arg->kind == FY_PICKLE_CALL && makes_tensor(arg->call.callee)))
            return FY_TORCH_CALL_TENSOR;
    }
    return FY_TORCH_CALL_OTHER;
}

static int read_dtype(const node *v, fy_dtype *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (v->kind != FY_PICKLE_GLOBAL || !fy_span_is(v->global.module, "torch"))
        return refuse(v, "dtype", e);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (fy_span_is(v->global.name, dtypes[i].symbol)) {
            *out = dtypes[i].dtype;
            return 0;
        }
    }
    return fy_fail(e, FY_EUNSUPPORTED, "its dtype torch.%s is not read",
                   fy_quote(shown, sizeof shown, v->global.name));
}

/* A tuple of sizes, also as torch.Size. */
static int read_dims(const node *v, uint64_t out[FY_MAX_RANK], uint32_t *rank, const char *what,
                     fy_err *e)
{
    if (v->kind == FY_PICKLE_CALL && fy_torch_call_kind(v) == FY_TORCH_CALL_SIZE)
        v = v->call.args->items.at[0];
    if (v->kind != FY_PICKLE_TUPLE && v->kind != FY_PICKLE_LIST)
        return refuse(v, what, e);
    if (v->items.n > FY_MAX_RANK)
        return fy_fail(e, FY_EUNSUPPORTED, "its %s has %" PRIu32 " dimensions, at most %d are read",
                       what, v->items.n, FY_MAX_RANK);
    for (uint32_t d = 0; d < v->items.n; d++) {
        if (read_count(v->items.at[d], &out[d], what, e) != 0)
            return -1;
    }
    *rank = v->items.n;
    return 0;
}

/* Its last element is inside the storage; then every one is. */
static int check_extent(fy_torch_tensor *t, uint64_t offset, const uint8_t *data, uint64_t bytes,
                        fy_err *e)
{
    uint64_t unit = fy_dtype_bits(t->dtype) / 8, elems = 1, last = offset, step, run = 1;
    bool fits = true, empty = false;
    t->contiguous = true;
    for (uint32_t d = t->rank; d-- > 0;) {
        empty |= t->shape[d] == 0;
        fits = fits && fy_mul_u64(elems, t->shape[d] > 0 ? t->shape[d] : 1, &elems);
        fits = fits && (t->shape[d] < 2 || (fy_mul_u64(t->shape[d] - 1, t->stride[d], &step) &&
                                            fy_add_u64(last, step, &last)));
        t->contiguous = t->contiguous && (t->shape[d] < 2 || t->stride[d] == run);
        run = elems;
    }
    if (!fits || !fy_mul_u64(elems, unit, &t->bytes) || t->bytes > INT64_MAX)
        return fy_fail(e, FY_EFORMAT, "its shape and strides make more than 2^63 bytes");
    t->data = data;
    if (empty) {
        t->bytes = 0;
        t->contiguous = true;
        return 0;
    }
    if (last >= bytes / unit)
        return fy_fail(e, FY_EFORMAT, "reaches element %" PRIu64 " of a storage that has %" PRIu64,
                       last, bytes / unit);
    t->data = data + offset * unit;
    return 0;
}

/* A view that is negated or conjugated when it is read: torch keeps that as a mark next to the
 * unchanged values (`z.conj().imag`). */
static int refuse_lazy(const node *metadata, fy_err *e)
{
    for (uint32_t i = 0; metadata->kind == FY_PICKLE_DICT && i < metadata->items.n; i += 2) {
        const node *key = metadata->items.at[i], *value = metadata->items.at[i + 1];
        if (key->kind == FY_PICKLE_TEXT && value->kind == FY_PICKLE_BOOL && value->i != 0 &&
            (fy_span_is(key->text, "neg") || fy_span_is(key->text, "conj")))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "is a view that is %s when it is read: save tensor.resolve_%.*s()",
                           fy_span_is(key->text, "neg") ? "negated" : "conjugated",
                           (int)key->text.len, key->text.ptr);
    }
    return 0;
}

/* (storage, offset, size, stride, requires_grad, hooks, dtype of v3, metadata of v2 and v3) */
static int read_args(const fy_torch_reader *r, const node *args, bool typed, fy_torch_tensor *out,
                     fy_err *e)
{
    fy_torch_ref ref;
    const uint8_t *data = NULL;
    uint64_t bytes = 0, offset = 0;
    uint32_t n_strides = 0, n_plain = typed ? 7 : 6;
    node *const *at = args->items.at;
    if (args->items.n > n_plain && refuse_lazy(at[n_plain], e) != 0)
        return -1;
    if (at[0]->kind != FY_PICKLE_ID)
        return refuse(at[0], "storage", e);
    if (fy_torch_read_ref(at[0]->id, &ref, e) != 0 ||
        (typed && read_dtype(at[6], &out->dtype, e) != 0))
        return -1;
    if (!typed && ref.untyped)
        return fy_fail(e, FY_EFORMAT, "its storage has bytes, not elements of a type");
    if (!typed)
        out->dtype = ref.dtype;
    if (find_storage(r, &ref, &out->storage, &data, &bytes, e) != 0 ||
        read_count(at[1], &offset, "offset", e) != 0 ||
        read_dims(at[2], out->shape, &out->rank, "shape", e) != 0 ||
        read_dims(at[3], out->stride, &n_strides, "stride", e) != 0)
        return -1;
    if (n_strides != out->rank)
        return fy_fail(e, FY_EFORMAT, "has %" PRIu32 " dimensions and %" PRIu32 " strides",
                       out->rank, n_strides);
    return check_extent(out, offset, data, bytes, e);
}

static int check_args(const rebuilder *maker, const node *args, fy_err *e)
{
    return args->kind == FY_PICKLE_TUPLE && args->items.n >= maker->n_args
               ? 0
               : fy_fail(e, FY_EFORMAT, "%s.%s is called with too few arguments", maker->module,
                         maker->name);
}

int fy_torch_read_tensor(const fy_torch_reader *r, const node *v, fy_torch_tensor *out, fy_err *e)
{
    for (int i = 0; i < MAX_WRAPS; i++) {
        const rebuilder *maker = v->kind == FY_PICKLE_CALL ? find_rebuilder(v->call.callee) : NULL;
        if (maker == NULL)
            return refuse(v, "data", e);
        const node *args = v->call.args;
        const node *state = v->call.state;
        if (check_args(maker, args, e) != 0)
            return -1;
        if (state != NULL && state->kind != FY_PICKLE_DICT && state->kind != FY_PICKLE_NONE)
            return fy_fail(e, FY_EUNSUPPORTED, "its state is set after it was made");
        if (maker->form == PLAIN || maker->form == TYPED)
            return read_args(r, args, maker->form == TYPED, out, e);
        if (maker->form == WRAPPED) {
            v = args->items.at[0];
            continue;
        }
        /* (function, class, its arguments, attributes) */
        const node *class = args->items.at[1];
        maker = find_rebuilder(args->items.at[0]);
        if (maker == NULL || maker->form == FROM_TYPE)
            return refuse(args->items.at[0], "function", e);
        if (!fy_pickle_is_global(class, "torch", "Tensor") &&
            !fy_pickle_is_global(class, "torch.nn.parameter", "Parameter"))
            return refuse(class, "class", e);
        args = args->items.at[2];
        if (check_args(maker, args, e) != 0)
            return -1;
        if (maker->form != WRAPPED)
            return read_args(r, args, maker->form == TYPED, out, e);
        v = args->items.at[0];
    }
    return fy_fail(e, FY_EUNSUPPORTED, "is wrapped more than %d times", MAX_WRAPS);
}

/* --- elements --------------------------------------------------------------------------------- */

void fy_torch_gather(const fy_torch_tensor *t, uint64_t first, uint64_t n, void *out)
{
    uint64_t unit = fy_dtype_bits(t->dtype) / 8, at[FY_MAX_RANK] = {0}, src = 0, rest = first;
    uint8_t *to = out;
    if (t->contiguous) {
        if (n > 0)
            memcpy(out, t->data + first * unit, (size_t)(n * unit));
        return;
    }
    for (uint32_t d = t->rank; d-- > 0;) {
        at[d] = rest % t->shape[d];
        rest /= t->shape[d];
        src += at[d] * t->stride[d];
    }
    for (uint64_t i = 0; i < n; i++) {
        memcpy(to, t->data + src * unit, (size_t)unit);
        to += unit;
        for (uint32_t d = t->rank; d-- > 0;) {
            src += t->stride[d];
            if (++at[d] < t->shape[d])
                break;
            src -= at[d] * t->stride[d];
            at[d] = 0;
        }
    }
}
