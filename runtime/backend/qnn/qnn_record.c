/* Writes the calls of a QNN library as lines of JSON. The functions of the table have no pointer of
 * the caller, so there is one recorder a process. */
#include "backend/qnn/qnn_record.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/process.h"
#include "base/str.h"

enum { SHORT_BYTES = 256 }; /* written into the line: parameters of nodes, scales */

/* Handles of different kinds can be equal. */
typedef struct {
    const char *kind; /* "graph"; a literal */
    fy_qnn_handle handle;
    uint32_t id;
} object;

static struct {
    pthread_mutex_t lock; /* of `log`, which comes from the library's threads */
    const fy_qnn_table *real;
    fy_qnn_table table;
    FILE *lines, *data;
    uint64_t data_bytes;
    object *objects; /* owned, [n]; a handle that is used again has a newer entry */
    size_t n, cap;
    uint32_t last_id;
    fy_str line, log;
    double since;
    bool failed;
} rec = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- values ----------------------------------------------------------------------------------- */

static void key(const char *name)
{
    fy_str_printf(&rec.line, "%s\"%s\": ", rec.line.len > 1 ? ", " : "", name);
}

static void put_u64(const char *name, uint64_t v)
{
    key(name);
    fy_str_printf(&rec.line, "%llu", (unsigned long long)v);
}

static void put_text(const char *name, const char *text)
{
    key(name);
    fy_json_put_string(&rec.line, fy_span_of(text != NULL ? text : ""));
}

static void put_handle(const char *kind, fy_qnn_handle h)
{
    uint32_t id = 0; /* of NULL, and of what was not made through us */
    for (size_t i = rec.n; i > 0 && id == 0; i--) {
        if (rec.objects[i - 1].handle == h && strcmp(rec.objects[i - 1].kind, kind) == 0)
            id = rec.objects[i - 1].id;
    }
    put_u64(kind, id);
}

static void put_new(const char *kind, fy_qnn_handle h)
{
    object *o = fy_grow(rec.objects, rec.n, &rec.cap, sizeof *o);
    if (o == NULL) {
        rec.failed = true;
        return;
    }
    rec.objects = o;
    o[rec.n++] = (object){kind, h, ++rec.last_id};
    put_handle(kind, h);
}

static void put_hex(const char *name, const void *p, size_t n)
{
    key(name);
    fy_str_putc(&rec.line, '"');
    for (size_t i = 0; i < n; i++)
        fy_str_printf(&rec.line, "%02x", ((const uint8_t *)p)[i]);
    fy_str_putc(&rec.line, '"');
}

static void put_bytes(const char *name, const void *p, uint64_t n)
{
    uint8_t sha256[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX] = "";
    if (p != NULL && fy_sha256_of(p, (size_t)n, sha256, NULL) == 0)
        fy_sha256_to_hex(sha256, hex);
    key(name);
    fy_str_printf(&rec.line, "{\"bytes\": %llu, \"sha256\": \"%s\"", (unsigned long long)n, hex);
    if (n <= SHORT_BYTES && p != NULL)
        put_hex("hex", p, (size_t)n);
    else if (rec.data != NULL && p != NULL) {
        fy_str_printf(&rec.line, ", \"at\": %llu", (unsigned long long)rec.data_bytes);
        rec.failed |= fwrite(p, 1, (size_t)n, rec.data) != n;
        rec.data_bytes += n;
    }
    fy_str_putc(&rec.line, '}');
}

/* --- structs ---------------------------------------------------------------------------------- */

static void put_platform(const fy_qnn_platform *p)
{
    const fy_qnn_htp_chip *c = p->n_devices > 0 ? p->devices[0].chip : NULL;
    if (c == NULL)
        return;
    put_u64("soc", c->soc);
    put_u64("arch", c->arch);
    put_u64("vtcm_mb", c->vtcm_mb);
}

/* Custom options are ours: 64 bytes, zero after what they use. */
static void put_configs(fy_qnn_options list, bool device)
{
    key("configs");
    fy_str_putc(&rec.line, '[');
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        fy_str_puts(&rec.line, i > 0 ? ", " : "");
        fy_str_printf(&rec.line, "{\"option\": %u", list[i]->option);
        if (device && list[i]->option == FY_QNN_DEVICE_PLATFORM)
            put_platform(list[i]->u.custom);
        else if (list[i]->option == FY_QNN_CUSTOM)
            put_hex("custom", list[i]->u.custom, sizeof(fy_qnn_htp_config));
        else
            put_u64("value", list[i]->u.u64);
        fy_str_putc(&rec.line, '}');
    }
    fy_str_putc(&rec.line, ']');
}

static void put_numbers(const char *name, const uint32_t *v, uint64_t n)
{
    key(name);
    fy_str_putc(&rec.line, '[');
    for (uint64_t i = 0; i < n; i++)
        fy_str_printf(&rec.line, i > 0 ? ", %u" : "%u", v[i]);
    fy_str_putc(&rec.line, ']');
}

static void put_scales(const fy_qnn_scale_offset *so, const float *scales, const int32_t *offsets,
                       uint64_t n)
{
    key("scales");
    for (uint64_t i = 0; i < n; i++)
        fy_str_printf(&rec.line, "%s[%.9g, %d]", i > 0 ? ", " : "[",
                      (double)(so != NULL ? so[i].scale : scales[i]),
                      so != NULL ? so[i].offset : offsets[i]);
    fy_str_puts(&rec.line, n > 0 ? "]" : "[]");
}

static void put_quant(const fy_qnn_tensor_v1 *t)
{
    const fy_qnn_quant *q = &t->quant;
    put_u64("encoding", q->definition == 1 ? q->encoding : FY_QNN_UNDEFINED);
    if (q->definition != 1)
        return;
    switch (q->encoding) {
    case FY_QNN_SCALE_OFFSET:
        put_scales(&q->u.scale_offset, NULL, NULL, 1);
        return;
    case FY_QNN_AXIS:
        put_u64("axis", (uint64_t)q->u.axis.axis);
        put_scales(q->u.axis.channel, NULL, NULL, q->u.axis.n);
        return;
    case FY_QNN_BW_AXIS:
        put_u64("axis", (uint64_t)q->u.bw_axis.axis);
        put_u64("bits", q->u.bw_axis.bits);
        put_scales(NULL, q->u.bw_axis.scales, q->u.bw_axis.offsets, q->u.bw_axis.n);
        return;
    case FY_QNN_BLOCKWISE: {
        const fy_qnn_blockwise *b = q->u.blockwise;
        const uint32_t n = b->axis >= 0 && (uint32_t)b->axis < t->rank ? t->dims[b->axis] : 0;
        put_u64("axis", (uint64_t)b->axis);
        put_u64("bits", b->scale_bits);
        put_scales(b->channel, NULL, NULL, n);
        put_u64("blocks", b->n_blocks);
        put_hex("block_scales", b->block_scales, (size_t)n * b->n_blocks);
        return;
    }
    default:
        return;
    }
}

static void put_tensor(const fy_qnn_tensor *t, bool with_data)
{
    const fy_qnn_tensor_v1 *v = &t->u.v1;
    fy_str_printf(&rec.line, "{\"id\": %u", v->id);
    put_text("name", v->name);
    put_u64("kind", v->kind);
    put_u64("type", v->type);
    put_u64("memory", v->memory);
    put_numbers("dims", v->dims, v->rank);
    put_quant(v);
    if (with_data && v->memory == FY_QNN_RAW && v->u.buffer.bytes > 0)
        put_bytes("data", v->u.buffer.data, v->u.buffer.bytes);
    fy_str_putc(&rec.line, '}');
}

static void put_tensors(const char *name, const fy_qnn_tensor *t, uint32_t n, bool with_data)
{
    key(name);
    fy_str_putc(&rec.line, '[');
    for (uint32_t i = 0; i < n; i++) {
        fy_str_puts(&rec.line, i > 0 ? ", " : "");
        put_tensor(&t[i], with_data);
    }
    fy_str_putc(&rec.line, ']');
}

static void put_op(const fy_qnn_op *op)
{
    put_text("name", op->name);
    put_text("package", op->package);
    put_text("op", op->op);
    key("params");
    fy_str_putc(&rec.line, '[');
    for (uint32_t i = 0; i < op->n_params; i++) {
        const fy_qnn_param *p = &op->params[i];
        fy_str_puts(&rec.line, i > 0 ? ", {\"param\": " : "{\"param\": ");
        fy_json_put_string(&rec.line, fy_span_of(p->name));
        if (p->kind == FY_QNN_PARAM_SCALAR) {
            put_u64("type", p->u.scalar.type);
            put_u64("bits", p->u.scalar.u.u64);
        } else {
            key("tensor");
            put_tensor(&p->u.tensor, true);
        }
        fy_str_putc(&rec.line, '}');
    }
    fy_str_putc(&rec.line, ']');
    put_tensors("inputs", op->inputs, op->n_inputs, false);
    put_tensors("outputs", op->outputs, op->n_outputs, false);
}

/* --- a line ----------------------------------------------------------------------------------- */

static void flush(void)
{
    rec.failed |= rec.line.oom;
    if (rec.line.len > 0)
        rec.failed |= fwrite(rec.line.ptr, 1, rec.line.len, rec.lines) != rec.line.len;
    rec.failed |= fflush(rec.lines) != 0;
}

static void begin(const char *call)
{
    fy_str_clear(&rec.line);
    fy_str_puts(&rec.line, "{\"call\": ");
    fy_json_put_string(&rec.line, fy_span_of(call));
}

/* The arguments are on the disk before the library sees them. */
static void arguments_end(void)
{
    flush();
    rec.since = fy_now_s();
}

static void answer(fy_qnn_error err)
{
    const double us = (fy_now_s() - rec.since) * 1e6;
    fy_str_clear(&rec.line);
    fy_str_printf(&rec.line, ", \"result\": %llu, \"us\": %.0f", (unsigned long long)err, us);
}

static fy_qnn_error end(fy_qnn_error err)
{
    fy_str_puts(&rec.line, "}\n");
    pthread_mutex_lock(&rec.lock);
    fy_str_add(&rec.line, rec.log.ptr, rec.log.len);
    fy_str_clear(&rec.log);
    pthread_mutex_unlock(&rec.lock);
    flush();
    return err;
}

void fy_qnn_record_log(uint32_t level, const char *text)
{
    pthread_mutex_lock(&rec.lock);
    if (rec.lines != NULL) {
        fy_str_puts(&rec.log, "{\"log\": ");
        fy_json_put_string(&rec.log, fy_span_of(text));
        fy_str_printf(&rec.log, ", \"level\": %u}\n", level);
    }
    pthread_mutex_unlock(&rec.lock);
}

/* --- the functions ---------------------------------------------------------------------------- */

static fy_qnn_error backend_create(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out)
{
    begin("backendCreate");
    put_configs(c, false);
    arguments_end();
    const fy_qnn_error err = rec.real->backend_create(log, c, out);
    answer(err);
    if (err == 0)
        put_new("backend", *out);
    return end(err);
}

static fy_qnn_error device_create(fy_qnn_handle log, fy_qnn_options c, fy_qnn_handle *out)
{
    begin("deviceCreate");
    put_configs(c, true);
    arguments_end();
    const fy_qnn_error err = rec.real->device_create(log, c, out);
    answer(err);
    if (err == 0)
        put_new("device", *out);
    return end(err);
}

static fy_qnn_error context_create(fy_qnn_handle b, fy_qnn_handle device, fy_qnn_options c,
                                   fy_qnn_handle *out)
{
    begin("contextCreate");
    put_handle("device", device);
    put_configs(c, false);
    arguments_end();
    const fy_qnn_error err = rec.real->context_create(b, device, c, out);
    answer(err);
    if (err == 0)
        put_new("context", *out);
    return end(err);
}

static fy_qnn_error context_create_from_binary(fy_qnn_handle b, fy_qnn_handle device,
                                               fy_qnn_options c, const void *p, uint64_t bytes,
                                               fy_qnn_handle *out, fy_qnn_handle profile)
{
    begin("contextCreateFromBinary");
    put_handle("device", device);
    put_configs(c, false);
    put_bytes("binary", p, bytes);
    arguments_end();
    const fy_qnn_error err =
        rec.real->context_create_from_binary(b, device, c, p, bytes, out, profile);
    answer(err);
    if (err == 0)
        put_new("context", *out);
    return end(err);
}

static fy_qnn_error context_binary_size(fy_qnn_handle c, uint64_t *bytes)
{
    begin("contextGetBinarySize");
    put_handle("context", c);
    arguments_end();
    const fy_qnn_error err = rec.real->context_binary_size(c, bytes);
    answer(err);
    if (err == 0)
        put_u64("size", *bytes);
    return end(err);
}

static fy_qnn_error context_binary(fy_qnn_handle c, void *p, uint64_t bytes, uint64_t *written)
{
    begin("contextGetBinary");
    put_handle("context", c);
    put_u64("capacity", bytes);
    arguments_end();
    const fy_qnn_error err = rec.real->context_binary(c, p, bytes, written);
    answer(err);
    if (err == 0 && *written <= bytes)
        put_bytes("binary", p, *written);
    return end(err);
}

static fy_qnn_error graph_create(fy_qnn_handle c, const char *name, fy_qnn_options configs,
                                 fy_qnn_handle *out)
{
    begin("graphCreate");
    put_handle("context", c);
    put_text("name", name);
    put_configs(configs, false);
    arguments_end();
    const fy_qnn_error err = rec.real->graph_create(c, name, configs, out);
    answer(err);
    if (err == 0)
        put_new("graph", *out);
    return end(err);
}

static fy_qnn_error graph_retrieve(fy_qnn_handle c, const char *name, fy_qnn_handle *out)
{
    begin("graphRetrieve");
    put_handle("context", c);
    put_text("name", name);
    arguments_end();
    const fy_qnn_error err = rec.real->graph_retrieve(c, name, out);
    answer(err);
    if (err == 0)
        put_new("graph", *out);
    return end(err);
}

static fy_qnn_error tensor_create(fy_qnn_handle g, fy_qnn_tensor *t)
{
    begin("tensorCreateGraphTensor");
    put_handle("graph", g);
    key("tensor");
    put_tensor(t, true);
    arguments_end();
    const fy_qnn_error err = rec.real->tensor_create(g, t);
    answer(err);
    put_u64("id", t->u.v1.id);
    return end(err);
}

static fy_qnn_error backend_validate(fy_qnn_handle b, fy_qnn_op op)
{
    begin("backendValidateOpConfig");
    put_op(&op);
    arguments_end();
    const fy_qnn_error err = rec.real->backend_validate(b, op);
    answer(err);
    return end(err);
}

static fy_qnn_error graph_add_node(fy_qnn_handle g, fy_qnn_op op)
{
    begin("graphAddNode");
    put_handle("graph", g);
    put_op(&op);
    arguments_end();
    const fy_qnn_error err = rec.real->graph_add_node(g, op);
    answer(err);
    return end(err);
}

static fy_qnn_error graph_finalize(fy_qnn_handle g, fy_qnn_handle profile, fy_qnn_handle signal)
{
    begin("graphFinalize");
    put_handle("graph", g);
    arguments_end();
    const fy_qnn_error err = rec.real->graph_finalize(g, profile, signal);
    answer(err);
    return end(err);
}

static fy_qnn_error graph_execute(fy_qnn_handle g, const fy_qnn_tensor *in, uint32_t n_in,
                                  fy_qnn_tensor *out, uint32_t n_out, fy_qnn_handle profile,
                                  fy_qnn_handle signal)
{
    begin("graphExecute");
    put_handle("graph", g);
    put_tensors("inputs", in, n_in, true);
    arguments_end();
    const fy_qnn_error err = rec.real->graph_execute(g, in, n_in, out, n_out, profile, signal);
    answer(err);
    put_tensors("outputs", out, n_out, err == 0);
    return end(err);
}

/* What ends an object. */
static fy_qnn_error ended(const char *call, const char *kind, fy_qnn_handle h,
                          fy_qnn_error (*f)(fy_qnn_handle))
{
    begin(call);
    put_handle(kind, h);
    arguments_end();
    const fy_qnn_error err = f(h);
    answer(err);
    return end(err);
}

static fy_qnn_error backend_free(fy_qnn_handle b)
{
    return ended("backendFree", "backend", b, rec.real->backend_free);
}

static fy_qnn_error device_free(fy_qnn_handle d)
{
    return ended("deviceFree", "device", d, rec.real->device_free);
}

static fy_qnn_error context_free_plain(fy_qnn_handle c)
{
    return rec.real->context_free(c, NULL);
}

static fy_qnn_error context_free(fy_qnn_handle c, fy_qnn_handle profile)
{
    (void)profile; /* ferry profiles no context */
    return ended("contextFree", "context", c, context_free_plain);
}

/* --- begin and end ---------------------------------------------------------------------------- */

int fy_qnn_record_begin(const fy_qnn_record *r, const fy_qnn_table *table, fy_qnn_version core,
                        const char *build_id, const fy_qnn_table **call, fy_err *e)
{
    *call = table;
    if (r->path == NULL)
        return 0;
    fy_str name = {0};
    fy_str_printf(&name, "%s.data", r->path);
    rec.failed = false;
    rec.lines = fopen(r->path, "a+e");
    rec.data = r->data && !name.oom ? fopen(fy_str_z(&name), "ae") : NULL;
    fy_str_release(&name);
    if (rec.lines == NULL || (r->data && rec.data == NULL)) {
        fy_fail_errno(e, "%s: cannot write the record", r->path);
        fy_qnn_record_end(NULL);
        return -1;
    }
    rec.data_bytes = rec.data != NULL ? (uint64_t)ftell(rec.data) : 0;
    rec.real = table;
    rec.table = *table;
    rec.table.backend_create = backend_create;
    rec.table.device_create = device_create;
    rec.table.context_create = context_create;
    rec.table.context_create_from_binary = context_create_from_binary;
    rec.table.context_binary_size = context_binary_size;
    rec.table.context_binary = context_binary;
    rec.table.graph_create = graph_create;
    rec.table.graph_retrieve = graph_retrieve;
    rec.table.tensor_create = tensor_create;
    rec.table.backend_validate = backend_validate;
    rec.table.graph_add_node = graph_add_node;
    rec.table.graph_finalize = graph_finalize;
    rec.table.graph_execute = graph_execute;
    rec.table.backend_free = backend_free;
    rec.table.device_free = device_free;
    rec.table.context_free = context_free;
    fy_str_clear(&rec.line);
    /* An earlier process may have died in the middle of a line. */
    const bool broken_off = fseek(rec.lines, -1, SEEK_END) == 0 && fgetc(rec.lines) != '\n';
    fseek(rec.lines, 0, SEEK_END); /* between reading and writing */
    fy_str_printf(&rec.line, "%s{\"ferry\": \"" FERRY_VERSION "\", \"core\": [%u, %u, %u]",
                  broken_off ? "\n" : "", core.major, core.minor, core.patch);
    put_text("build_id", build_id);
    fy_str_puts(&rec.line, "}\n");
    flush();
    *call = &rec.table;
    return 0;
}

int fy_qnn_record_end(fy_err *e)
{
    pthread_mutex_lock(&rec.lock); /* threads of the library may still log */
    bool failed = rec.failed;
    if (rec.lines != NULL)
        failed |= fclose(rec.lines) != 0;
    if (rec.data != NULL)
        failed |= fclose(rec.data) != 0;
    free(rec.objects);
    fy_str_release(&rec.line);
    fy_str_release(&rec.log);
    rec.lines = rec.data = NULL;
    rec.objects = NULL;
    rec.n = rec.cap = 0;
    rec.last_id = 0;
    rec.failed = false;
    pthread_mutex_unlock(&rec.lock);
    return failed ? fy_fail(e, FY_EIO, "the record of the calls could not be written whole") : 0;
}
