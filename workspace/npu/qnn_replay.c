/* Reads a record of QNN calls and makes them again. A record may come from anywhere: every struct
 * is built from checked numbers, in memory of our own. */
#include "workspace/npu/qnn_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/math.h"

enum { MAX_OBJECTS = 1 << 20, MAX_LIST = 4096, MAX_RANK = 8 };
#define MAX_TENSOR_BYTES (UINT64_C(1) << 31)

typedef struct {
    const fy_qnn_table *call;
    fy_span data;          /* the bytes that were kept */
    fy_qnn_handle *object; /* owned, by number */
    size_t n_objects;
    fy_qnn_handle backend;
    fy_arena arena;      /* what was passed: a library may look at it as long as a context lives */
    uint64_t most_bytes; /* of it */
    size_t n_contexts;   /* that live */
    struct {
        uint32_t recorded, now;
    } * id; /* owned: tensors of the graph that is composed, [n_ids] */
    size_t n_ids, cap_ids;
    const json_t *line; /* of the call */
    fy_qnn_replayed *out;
    fy_err *e;
    bool bad; /* the record, or memory */
} replay;

static void bad(replay *r, const char *what)
{
    if (!r->bad)
        fy_fail(r->e, FY_EFORMAT, "%s: not as a record has it", what);
    r->bad = true;
}

static void *take(replay *r, size_t n, size_t bytes)
{
    uint64_t all;
    if (!fy_mul_u64(n, bytes, &all) || all > r->most_bytes - r->arena.total) {
        if (!r->bad)
            fy_fail(r->e, FY_EFIT, "its objects take more than %llu bytes",
                    (unsigned long long)r->most_bytes);
        r->bad = true;
        return NULL;
    }
    void *p = fy_arena_calloc(&r->arena, n, bytes);
    if (p == NULL && !r->bad) {
        fy_nomem(r->e);
        r->bad = true;
    }
    return p;
}

/* --- members ---------------------------------------------------------------------------------- */

static uint64_t number(replay *r, const json_t *o, const char *key, uint64_t max)
{
    const json_t *v = json_object_get(o, key);
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > max) {
        bad(r, key);
        return 0;
    }
    return (uint64_t)n;
}

static const char *text(replay *r, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    if (s == NULL)
        bad(r, key);
    else if ((s = fy_arena_strndup(&r->arena, s, strlen(s))) == NULL && !r->bad)
        r->bad = fy_nomem(r->e) != 0;
    return s != NULL ? s : "";
}

static size_t list(replay *r, const json_t *o, const char *key, size_t max, const json_t **out)
{
    *out = json_object_get(o, key);
    const size_t n = json_array_size(*out);
    if (!json_is_array(*out) || n > max)
        bad(r, key);
    return r->bad ? 0 : n;
}

/* Hexadecimal text of exactly n bytes, or of any number (*n) up to `max`. */
static uint8_t *hex(replay *r, const json_t *o, const char *key, size_t *n, size_t max)
{
    const char *s = text(r, o, key);
    *n = strlen(s) / 2;
    if (*n > max)
        bad(r, key);
    uint8_t *p = r->bad ? NULL : take(r, *n + 1, 1);
    for (size_t i = 0; p != NULL && i < *n; i++) {
        const int hi = fy_hex_digit(s[2 * i]), lo = fy_hex_digit(s[2 * i + 1]);
        if (hi < 0 || lo < 0)
            bad(r, key);
        else
            p[i] = (uint8_t)(hi << 4 | lo);
    }
    return p;
}

static fy_qnn_handle handle(replay *r, const char *key)
{
    const uint64_t id = number(r, r->line, key, MAX_OBJECTS - 1);
    return id < r->n_objects ? r->object[id] : NULL;
}

/* The same, of an object that is ended. */
static fy_qnn_handle take_handle(replay *r, const char *key)
{
    const uint64_t id = number(r, r->line, key, MAX_OBJECTS - 1);
    fy_qnn_handle h = handle(r, key);
    if (h != NULL)
        r->object[id] = NULL;
    return h;
}

/* The number that the record gave to an object that now is `h`. */
static void keep(replay *r, const char *key, fy_qnn_handle h)
{
    if (json_object_get(r->line, key) == NULL)
        return; /* the call failed when it was recorded */
    const uint64_t id = number(r, r->line, key, MAX_OBJECTS - 1);
    if (id >= r->n_objects) {
        const size_t n = (size_t)id + 64;
        fy_qnn_handle *grown = realloc(r->object, n * sizeof *grown);
        if (grown == NULL) {
            fy_nomem(r->e);
            r->bad = true;
            return;
        }
        memset(grown + r->n_objects, 0, (n - r->n_objects) * sizeof *grown);
        r->object = grown;
        r->n_objects = n;
    }
    r->object[id] = h;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Bytes of an object {"bytes", "sha256", "at"}: those that were kept, else others of that number.
 */
static uint8_t *bytes(replay *r, const json_t *o, uint64_t expected, uint64_t *n, bool *kept)
{
    *n = number(r, o, "bytes", MAX_TENSOR_BYTES);
    *kept = false;
    if (r->bad || (expected > 0 && *n != expected)) {
        bad(r, "bytes");
        return NULL;
    }
    uint8_t *p = take(r, (size_t)*n + 1, 1);
    if (p != NULL && json_object_get(o, "hex") != NULL) {
        size_t given = 0;
        p = hex(r, o, "hex", &given, (size_t)*n);
        if (given != *n)
            bad(r, "hex");
        *kept = true;
    } else if (p != NULL && r->data.len > 0 && json_object_get(o, "at") != NULL) {
        const uint64_t at = number(r, o, "at", r->data.len);
        if (r->bad || *n > r->data.len - at) {
            bad(r, "at");
            return NULL;
        }
        memcpy(p, r->data.ptr + at, (size_t)*n);
        *kept = true;
    } else if (p != NULL) {
        /* Small codes: as floats of 16 and 32 bits they are small numbers as well. */
        uint32_t x = (uint32_t)*n * 2654435761u + 1;
        for (uint64_t i = 0; i < *n; i++) {
            x = x * 1664525u + 1013904223u;
            p[i] = (uint8_t)(x >> 24 & 0x3f);
        }
    }
    return p;
}

/* --- structs ---------------------------------------------------------------------------------- */

static fy_qnn_options configs(replay *r)
{
    const json_t *l;
    const size_t n = list(r, r->line, "configs", 16, &l);
    const fy_qnn_option **out = take(r, n + 1, sizeof *out);
    fy_qnn_option *c = take(r, n + 1, sizeof *c);
    for (size_t i = 0; i < n && !r->bad; i++) {
        const json_t *o = json_array_get(l, i);
        size_t used;
        out[i] = &c[i];
        c[i].option = (uint32_t)number(r, o, "option", UINT32_MAX);
        if (json_object_get(o, "custom") != NULL) {
            uint8_t *raw = hex(r, o, "custom", &used, sizeof(fy_qnn_htp_config));
            fy_qnn_htp_config *custom = take(r, 1, sizeof *custom);
            if (raw != NULL && custom != NULL)
                memcpy(custom, raw, used);
            c[i].u.custom = custom;
        } else if (json_object_get(o, "soc") != NULL) {
            fy_qnn_htp_chip *chip = take(r, 1, sizeof *chip);
            fy_qnn_core *core = take(r, 1, sizeof *core);
            fy_qnn_hardware *hw = take(r, 1, sizeof *hw);
            fy_qnn_platform *p = take(r, 1, sizeof *p);
            if (r->bad)
                break;
            *chip = (fy_qnn_htp_chip){.vtcm_mb = number(r, o, "vtcm_mb", 1024),
                                      .soc = (uint32_t)number(r, o, "soc", UINT32_MAX),
                                      .dlbc = true,
                                      .arch = (uint32_t)number(r, o, "arch", 1024)};
            *core = (fy_qnn_core){.version = 1};
            *hw = (fy_qnn_hardware){.version = 1, .n_cores = 1, .cores = core, .chip = chip};
            *p = (fy_qnn_platform){.version = 1, .n_devices = 1, .devices = hw};
            c[i].u.custom = p;
        } else {
            c[i].u.u64 = number(r, o, "value", INT64_MAX);
        }
    }
    return n > 0 ? (fy_qnn_options)out : NULL;
}

/* [[scale, offset], ...]: n of them, whose number other members have to agree with. */
static fy_qnn_scale_offset *scales(replay *r, const json_t *o, size_t *n)
{
    const json_t *l;
    *n = list(r, o, "scales", 1 << 20, &l);
    fy_qnn_scale_offset *so = take(r, *n + 1, sizeof *so);
    for (size_t i = 0; so != NULL && i < *n; i++) {
        const json_t *pair = json_array_get(l, i);
        const json_int_t offset = json_integer_value(json_array_get(pair, 1));
        if (offset < INT32_MIN || offset > INT32_MAX)
            bad(r, "scales");
        so[i] = (fy_qnn_scale_offset){(float)json_number_value(json_array_get(pair, 0)),
                                      (int32_t)offset};
    }
    return so;
}

static fy_qnn_quant quant(replay *r, const json_t *o, const fy_qnn_tensor_v1 *t)
{
    const uint32_t encoding = (uint32_t)number(r, o, "encoding", FY_QNN_UNDEFINED);
    fy_qnn_quant q = {.definition = 1, .encoding = encoding};
    size_t n = 0, n_bytes = 0;
    if (encoding == FY_QNN_UNDEFINED || r->bad)
        return fy_qnn_no_quant();
    fy_qnn_scale_offset *so = scales(r, o, &n);
    if (encoding == FY_QNN_SCALE_OFFSET) {
        if (n != 1)
            bad(r, "scales");
        else
            q.u.scale_offset = so[0];
        return q;
    }
    const uint32_t axis = (uint32_t)number(r, o, "axis", MAX_RANK - 1);
    if (r->bad || so == NULL || axis >= t->rank || n != t->dims[axis]) {
        bad(r, "axis");
    } else if (encoding == FY_QNN_AXIS) {
        q.u.axis = (fy_qnn_axis){(int32_t)axis, (uint32_t)n, so};
    } else if (encoding == FY_QNN_BW_AXIS) {
        float *s = take(r, n, sizeof *s);
        int32_t *offset = take(r, n, sizeof *offset);
        for (size_t i = 0; !r->bad && i < n; i++) {
            s[i] = so[i].scale;
            offset[i] = so[i].offset;
        }
        q.u.bw_axis = (fy_qnn_bw_axis){(uint32_t)number(r, o, "bits", 32), (int32_t)axis,
                                       (uint32_t)n, s, offset};
    } else if (encoding == FY_QNN_BLOCKWISE) {
        const uint64_t blocks = number(r, o, "blocks", 1 << 16);
        uint8_t *b = hex(r, o, "block_scales", &n_bytes, (size_t)64 << 20);
        fy_qnn_blockwise *w = take(r, 1, sizeof *w);
        if (r->bad || n_bytes != n * blocks) {
            bad(r, "block_scales");
            return q;
        }
        *w = (fy_qnn_blockwise){
            (int32_t)axis, so, (uint32_t)blocks, (uint32_t)number(r, o, "bits", 32), 0, b};
        q.u.blockwise = w;
    } else {
        bad(r, "encoding");
    }
    return q;
}

/* The id that the library gives now for one that was recorded. */
static uint32_t id_now(const replay *r, uint32_t recorded)
{
    for (size_t i = r->n_ids; i > 0; i--) {
        if (r->id[i - 1].recorded == recorded)
            return r->id[i - 1].now;
    }
    return recorded;
}

static void keep_id(replay *r, uint32_t recorded, uint32_t now)
{
    void *grown = fy_grow(r->id, r->n_ids, &r->cap_ids, sizeof *r->id);
    if (grown == NULL) {
        fy_nomem(r->e);
        r->bad = true;
        return;
    }
    r->id = grown;
    r->id[r->n_ids].recorded = recorded;
    r->id[r->n_ids++].now = now;
}

/* with_data: its bytes, too. */
static void tensor(replay *r, const json_t *o, fy_qnn_tensor *t, bool with_data, bool *kept)
{
    const json_t *dims;
    fy_qnn_tensor_v1 *v = &t->u.v1;
    const size_t rank = list(r, o, "dims", MAX_RANK, &dims);
    uint64_t size = fy_qnn_type_bytes((uint32_t)number(r, o, "type", UINT32_MAX)), n = 0;
    *t = (fy_qnn_tensor){.version = 1};
    *kept = false;
    v->name = text(r, o, "name");
    v->id = id_now(r, (uint32_t)number(r, o, "id", UINT32_MAX));
    v->kind = (uint32_t)number(r, o, "kind", UINT32_MAX);
    v->type = (uint32_t)number(r, o, "type", UINT32_MAX);
    v->rank = (uint32_t)rank;
    v->dims = take(r, rank + 1, sizeof *v->dims);
    for (size_t i = 0; !r->bad && i < rank; i++) {
        const json_int_t d = json_integer_value(json_array_get(dims, i));
        if (d < 1 || d > INT32_MAX || !fy_mul_u64(size, (uint64_t)d, &size) ||
            size > MAX_TENSOR_BYTES)
            bad(r, "dims");
        else
            v->dims[i] = (uint32_t)d;
    }
    if (r->bad)
        return;
    v->quant = quant(r, o, v);
    const json_t *data = json_object_get(o, "data");
    if (!with_data || r->bad)
        return;
    if (data != NULL) {
        v->u.buffer.data = bytes(r, data, 0, &n, kept);
        if (n != size)
            bad(r, "data");
        v->u.buffer.bytes = (uint32_t)n;
    }
}

static fy_qnn_tensor *tensors(replay *r, const char *key, uint32_t *n, bool with_data, bool *kept)
{
    const json_t *l;
    const size_t count = list(r, r->line, key, MAX_LIST, &l);
    fy_qnn_tensor *t = take(r, count + 1, sizeof *t);
    bool all = true;
    for (size_t i = 0; i < count && !r->bad; i++) {
        bool one;
        tensor(r, json_array_get(l, i), &t[i], with_data, &one);
        all = all && one;
    }
    if (kept != NULL)
        *kept = all;
    *n = (uint32_t)count;
    return t;
}

static fy_qnn_op op(replay *r)
{
    const json_t *l;
    fy_qnn_op o = {.version = 1,
                   .name = text(r, r->line, "name"),
                   .package = text(r, r->line, "package"),
                   .op = text(r, r->line, "op")};
    o.inputs = tensors(r, "inputs", &o.n_inputs, false, NULL);
    o.outputs = tensors(r, "outputs", &o.n_outputs, false, NULL);
    const size_t n = list(r, r->line, "params", 64, &l);
    o.params = take(r, n + 1, sizeof *o.params);
    o.n_params = (uint32_t)n;
    for (size_t i = 0; i < n && !r->bad; i++) {
        const json_t *p = json_array_get(l, i), *t = json_object_get(p, "tensor");
        bool kept;
        o.params[i].name = text(r, p, "param");
        o.params[i].kind = t != NULL ? FY_QNN_PARAM_TENSOR : FY_QNN_PARAM_SCALAR;
        if (t != NULL) {
            tensor(r, t, &o.params[i].u.tensor, true, &kept);
        } else {
            o.params[i].u.scalar.type = (uint32_t)number(r, p, "type", UINT32_MAX);
            o.params[i].u.scalar.u.u64 = number(r, p, "bits", INT64_MAX);
        }
    }
    return o;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Answers are equal when their codes are: the high bits are the library's own. */
static bool same(replay *r, fy_qnn_error now)
{
    const uint64_t then = number(r, r->line, "result", INT64_MAX);
    if (fy_qnn_code(now) == fy_qnn_code(then))
        return true;
    snprintf(r->out->difference, sizeof r->out->difference, "answered %u, recorded %u",
             fy_qnn_code(now), fy_qnn_code(then));
    return false;
}

/* The library has its backend already. */
static bool backend_create(replay *r)
{
    keep(r, "backend", r->backend);
    return same(r, 0);
}

static bool device_create(replay *r)
{
    fy_qnn_handle h = NULL;
    fy_qnn_options c = configs(r);
    const fy_qnn_error err = r->bad ? 0 : r->call->device_create(NULL, c, &h);
    keep(r, "device", h);
    return same(r, err);
}

static bool context_create(replay *r)
{
    fy_qnn_handle h = NULL, device = handle(r, "device");
    fy_qnn_options c = configs(r);
    const fy_qnn_error err = r->bad ? 0 : r->call->context_create(r->backend, device, c, &h);
    keep(r, "context", h);
    r->n_contexts += h != NULL;
    return same(r, err);
}

static bool context_create_from_binary(replay *r)
{
    fy_qnn_handle h = NULL, device = handle(r, "device");
    bool kept;
    uint64_t n = 0;
    fy_qnn_options c = configs(r);
    const uint8_t *p = bytes(r, json_object_get(r->line, "binary"), 0, &n, &kept);
    if (!kept || r->bad)
        return true; /* nothing to load: what depends on it is skipped, since its handles are NULL
                      */
    const fy_qnn_error err =
        r->call->context_create_from_binary(r->backend, device, c, p, n, &h, NULL);
    keep(r, "context", h);
    r->n_contexts += h != NULL;
    return same(r, err);
}

static bool context_binary_size(replay *r)
{
    uint64_t n = 0;
    fy_qnn_handle c = handle(r, "context");
    return r->bad || same(r, r->call->context_binary_size(c, &n));
}

static bool context_binary(replay *r)
{
    uint64_t size = 0, written = 0;
    fy_qnn_handle c = handle(r, "context");
    if (r->bad || r->call->context_binary_size(c, &size) != 0 || size > MAX_TENSOR_BYTES)
        return true;
    void *p = malloc((size_t)size + 1);
    const fy_qnn_error err = p != NULL ? r->call->context_binary(c, p, size, &written) : 0;
    free(p);
    return same(r, err);
}

static bool graph_create(replay *r)
{
    fy_qnn_handle h = NULL, c = handle(r, "context");
    fy_qnn_options list = configs(r);
    const char *name = text(r, r->line, "name");
    const fy_qnn_error err = r->bad ? 0 : r->call->graph_create(c, name, list, &h);
    keep(r, "graph", h);
    return same(r, err);
}

static bool graph_retrieve(replay *r)
{
    fy_qnn_handle h = NULL, c = handle(r, "context");
    const char *name = text(r, r->line, "name");
    const fy_qnn_error err = r->bad ? 0 : r->call->graph_retrieve(c, name, &h);
    keep(r, "graph", h);
    return same(r, err);
}

static bool tensor_create(replay *r)
{
    fy_qnn_tensor t;
    bool kept;
    fy_qnn_handle g = handle(r, "graph");
    tensor(r, json_object_get(r->line, "tensor"), &t, true, &kept);
    if (r->bad)
        return true;
    if (t.u.v1.kind != FY_QNN_STATIC)
        t.u.v1.u.buffer = (fy_qnn_buffer){0};
    t.u.v1.id = 0;
    const fy_qnn_error err = r->call->tensor_create(g, &t);
    keep_id(r, (uint32_t)number(r, r->line, "id", UINT32_MAX), t.u.v1.id);
    return same(r, err);
}

static bool backend_validate(replay *r)
{
    const fy_qnn_op o = op(r);
    return r->bad || same(r, r->call->backend_validate(r->backend, o));
}

static bool graph_add_node(replay *r)
{
    fy_qnn_handle g = handle(r, "graph");
    const fy_qnn_op o = op(r);
    return r->bad || same(r, r->call->graph_add_node(g, o));
}

static bool graph_finalize(replay *r)
{
    fy_qnn_handle g = handle(r, "graph");
    return r->bad || same(r, r->call->graph_finalize(g, NULL, NULL));
}

/* Elements that differ. The vendor's library computes some operations another way when memory is
 * aligned otherwise, so one step of an encoding is counted apart. */
static uint64_t count_off(replay *r, const fy_qnn_tensor_v1 *v, const void *now, const void *then)
{
    const uint32_t size = fy_qnn_type_bytes(v->type);
    const bool fixed = (v->type == FY_QNN_UFIXED_8 || v->type == FY_QNN_SFIXED_8 ||
                        v->type == FY_QNN_UFIXED_16 || v->type == FY_QNN_SFIXED_16);
    uint64_t n = 0;
    for (uint64_t i = 0; i < v->u.buffer.bytes / size; i++) {
        if (memcmp((const char *)now + i * size, (const char *)then + i * size, size) == 0)
            continue;
        const float d = fy_qnn_element(now, v->type, i) - fy_qnn_element(then, v->type, i);
        if (fixed && (d == 1 || d == -1))
            r->out->n_rounded++;
        else
            n++;
    }
    return n;
}

/* Outputs: memory of our own, compared with what was kept. */
static bool graph_execute(replay *r)
{
    uint32_t n_in, n_out;
    bool kept_in, kept_out;
    fy_qnn_handle g = handle(r, "graph");
    fy_qnn_tensor *in = tensors(r, "inputs", &n_in, true, &kept_in);
    fy_qnn_tensor *out = tensors(r, "outputs", &n_out, true, &kept_out);
    if (r->bad)
        return true;
    void **expected = take(r, n_out + 1, sizeof *expected);
    for (uint32_t i = 0; i < n_out && !r->bad; i++) {
        fy_qnn_tensor_v1 *v = &out[i].u.v1;
        const uint64_t n = fy_qnn_n_elements(&out[i]) * fy_qnn_type_bytes(v->type);
        expected[i] = v->u.buffer.data;
        v->u.buffer = (fy_qnn_buffer){take(r, (size_t)n + 1, 1), (uint32_t)n};
    }
    if (r->bad)
        return true;
    const fy_qnn_error err = r->call->graph_execute(g, in, n_in, out, n_out, NULL, NULL);
    if (!same(r, err))
        return false;
    if (err != 0 || !kept_in || !kept_out)
        return true;
    r->out->n_executed++;
    for (uint32_t i = 0; i < n_out; i++) {
        const fy_qnn_tensor_v1 *v = &out[i].u.v1;
        const uint64_t n = count_off(r, v, v->u.buffer.data, expected[i]);
        if (n == 0)
            continue;
        snprintf(r->out->difference, sizeof r->out->difference,
                 "%llu elements of output %u differ by more than a step", (unsigned long long)n, i);
        return false;
    }
    return true;
}

static bool context_free(replay *r)
{
    r->n_contexts -= r->n_contexts > 0;
    return same(r, r->call->context_free(take_handle(r, "context"), NULL));
}

static bool device_free(replay *r)
{
    return same(r, r->call->device_free(take_handle(r, "device")));
}

/* Calls on an object that was not made again are skipped: `needs` names the member. */
static const struct {
    const char *name, *needs;
    bool (*f)(replay *);
} calls[] = {
    {"backendCreate", NULL, backend_create},
    {"deviceCreate", NULL, device_create},
    {"contextCreate", NULL, context_create},
    {"contextCreateFromBinary", NULL, context_create_from_binary},
    {"contextGetBinarySize", "context", context_binary_size},
    {"contextGetBinary", "context", context_binary},
    {"graphCreate", "context", graph_create},
    {"graphRetrieve", "context", graph_retrieve},
    {"tensorCreateGraphTensor", "graph", tensor_create},
    {"backendValidateOpConfig", NULL, backend_validate},
    {"graphAddNode", "graph", graph_add_node},
    {"graphFinalize", "graph", graph_finalize},
    {"graphExecute", "graph", graph_execute},
    {"contextFree", "context", context_free},
    {"deviceFree", "device", device_free},
    {"backendFree", NULL, backend_create}, /* it stays */
};

/* False: it differs. */
static bool do_line(replay *r)
{
    const char *name = json_string_value(json_object_get(r->line, "call"));
    if (name == NULL || json_object_get(r->line, "result") == NULL)
        return true; /* a line of the log, the first line, or a call that never came back */
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        if (calls[i].needs != NULL && handle(r, calls[i].needs) == NULL)
            return true;
        snprintf(r->out->call, sizeof r->out->call, "%s", name);
        r->out->n_calls++;
        return calls[i].f(r);
    }
    bad(r, "call");
    return true;
}

/* A line whose call never came back ends in the middle. */
static bool is_broken_off(fy_span line)
{
    return line.len == 0 || (fy_span_begins(line, "{\"call\": ") && line.ptr[line.len - 1] != '}');
}

int fy_qnn_replay(const fy_qnn_lib *lib, fy_span text, fy_span data, uint64_t most_bytes,
                  fy_qnn_replayed *out, fy_err *e)
{
    replay r = {.call = lib->call,
                .backend = lib->backend,
                .data = data,
                .most_bytes = most_bytes,
                .out = out,
                .e = e};
    fy_span rest = text;
    uint64_t line = 0;
    *out = (fy_qnn_replayed){0};
    while (rest.len > 0 && !r.bad && out->line == 0) {
        const fy_span one = fy_span_cut_line(&rest);
        line++;
        if (is_broken_off(one))
            continue;
        if (fy_check_interrupt(e) != 0)
            r.bad = true;
        json_t *tree = r.bad ? NULL : fy_json_data_line(one, e);
        if (tree == NULL) {
            fy_ctx(e, "line %llu", (unsigned long long)line);
            r.bad = true;
        }
        r.line = tree;
        if (tree != NULL && !do_line(&r))
            out->line = line;
        if (tree != NULL && r.bad)
            fy_ctx(e, "line %llu", (unsigned long long)line);
        json_decref(tree);
        if (r.n_contexts == 0)
            fy_arena_release(&r.arena);
    }
    fy_arena_release(&r.arena);
    free(r.object);
    free(r.id);
    return r.bad ? -1 : 0;
}
