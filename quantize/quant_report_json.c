#include <jansson.h>
#include <math.h>

#include "base/json_tree.h"
#include "quantize/quant_report.h"

static void set_number(fy_json_maker *m, json_t *o, const char *key, double v)
{
    fy_make_set(m, o, key, isfinite(v) ? json_real(v) : json_null());
}

static void set_numbers(fy_json_maker *m, json_t *o, const fy_error_sums *s)
{
    const fy_quant_numbers v = fy_quant_numbers_of(s);
    fy_make_set(m, o, "measured", fy_make_u64((uint64_t)s->n));
    set_number(m, o, "rmse", v.rmse);
    set_number(m, o, "relative", v.relative);
    set_number(m, o, "max_error", v.max_error);
    set_number(m, o, "cosine", v.cosine);
    set_number(m, o, "sqnr_db", v.sqnr_db);
    set_number(m, o, "saturated", v.saturated);
}

static json_t *tensor_json(fy_json_maker *m, const fy_quant_tensor *t)
{
    json_t *o = json_object(), *shape = json_array();
    for (uint32_t d = 0; d < t->from->n_dims; d++)
        fy_make_append(m, shape, fy_make_u64(t->from->ne[d]));
    fy_make_set(m, o, "name", fy_make_text(t->from->name));
    fy_make_set(m, o, "shape", shape);
    fy_make_set(m, o, "from", json_string(fy_type_name(t->from->type)));
    fy_make_set(m, o, "to", json_string(fy_type_name(t->to->type)));
    fy_make_set(m, o, "bytes", fy_make_u64(t->to->bytes));
    set_numbers(m, o, &t->sums);
    return o;
}

int fy_quant_put_json(const fy_quant_report *r, const char *in, const char *out, fy_type type,
                      fy_str *text, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *top = json_object(), *tensors = json_array(), *total = json_object();
    uint64_t kept = 0;
    for (size_t i = 0; i < fy_quant_report_n(r); i++) {
        const fy_quant_tensor *t = fy_quant_report_tensor(r, i);
        if (fy_quant_is_lossy(t->from->type, t->to->type))
            fy_make_append(&m, tensors, tensor_json(&m, t));
        else
            kept++;
    }
    set_numbers(&m, total, fy_quant_report_total(r));
    fy_make_set(&m, top, "in", fy_make_text(fy_span_of(in)));
    fy_make_set(&m, top, "out", fy_make_text(fy_span_of(out)));
    fy_make_set(&m, top, "type", json_string(fy_type_name(type)));
    set_number(&m, top, "covered", fy_quant_report_covered(r));
    fy_make_set(&m, top, "kept", fy_make_u64(kept));
    fy_make_set(&m, top, "total", total);
    fy_make_set(&m, top, "tensors", tensors);
    return fy_make_end(&m, top, text, e);
}
