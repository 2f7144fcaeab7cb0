#include "convert/hf_config.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quote.h"
#include "convert/json_tree.h"
#include "format/sniff.h"

/* A JSON object of the config and the words for it in messages: "" or "rope_scaling.". */
typedef struct {
    const json_t *obj;
    const char *prefix;
} scope;

/* --- values
 * ----------------------------------------------------------------------------------------------------
 */

static int bad_value(const scope *s, const char *key, const json_t *v, const char *expected,
                     fy_err *e)
{
    char number[32], q[FY_QUOTE_BYTES];
    char *text = json_is_number(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL)
        snprintf(number, sizeof number, "%.15g", json_number_value(v));
    fy_fail(e, FY_EFORMAT, "%s%s is %s; expected %s", s->prefix, key,
            fy_quote(q, sizeof q, fy_span_of(text != NULL ? text : number)), expected);
    free(text);
    return -1;
}

/* NULL when absent or null. */
static const json_t *value_of(const scope *s, const char *key)
{
    const json_t *v = json_object_get(s->obj, key);
    return json_is_null(v) ? NULL : v;
}

/* The getters return 0 and set *out, 1 when the key is absent or null, -1. */
static int get_u32(const scope *s, const char *key, uint32_t *out, fy_err *e)
{
    const json_t *v = value_of(s, key);
    if (v == NULL)
        return 1;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= 0 && d <= INT32_MAX) || d != floor(d))
        return bad_value(s, key, v, "an integer from 0 to 2147483647", e);
    *out = (uint32_t)d;
    return 0;
}

static int get_double(const scope *s, const char *key, double *out, fy_err *e)
{
    const json_t *v = value_of(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return bad_value(s, key, v, "a number", e);
    *out = json_number_value(v);
    return 0;
}

static int get_bool(const scope *s, const char *key, bool *out, fy_err *e)
{
    const json_t *v = value_of(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_boolean(v))
        return bad_value(s, key, v, "true or false", e);
    *out = json_is_true(v);
    return 0;
}

static int get_string(const scope *s, const char *key, const char **out, fy_err *e)
{
    const json_t *v = value_of(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_string(v))
        return bad_value(s, key, v, "a string", e);
    *out = json_string_value(v);
    return 0;
}

static int get_object(const scope *s, const char *key, const json_t **out, fy_err *e)
{
    const json_t *v = value_of(s, key);
    if (v == NULL)
        return 1;
    if (!json_is_object(v))
        return bad_value(s, key, v, "an object", e);
    *out = v;
    return 0;
}

/* --- family
 * ----------------------------------------------------------------------------------------------------
 */

static int unknown_family(const char *what, const char *name, fy_err *e)
{
    char known[256] = "";
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n > 0 ? ", " : "", (*f)->hf_archs[0]);
    }
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EUNSUPPORTED, "%s '%s' is no family that ferry knows; it knows %s", what,
                   fy_quote(q, sizeof q, fy_span_of(name)), known);
}

/* architectures[0]; a config without it is known by its model_type, which is the name of a family.
 */
static int find_family(const scope *root, const fy_family **out, fy_err *e)
{
    const json_t *list = value_of(root, "architectures");
    if (list != NULL && !json_is_array(list))
        return bad_value(root, "architectures", list, "a list of class names", e);
    const json_t *first = json_array_get(list, 0);
    if (first != NULL) {
        if (!json_is_string(first))
            return bad_value(root, "architectures", list, "a list of class names", e);
        const char *name = json_string_value(first);
        *out = fy_family_of_hf(fy_span_of(name));
        return *out != NULL ? 0 : unknown_family("architecture", name, e);
    }
    const char *type;
    int rc = get_string(root, "model_type", &type, e);
    if (rc == 1)
        return fy_fail(e, FY_EFORMAT,
                       "neither architectures nor model_type says what model this is");
    if (rc < 0)
        return -1;
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        if (strcmp((*f)->name, type) == 0) {
            *out = *f;
            return 0;
        }
    }
    return unknown_family("model_type", type, e);
}

/* --- plain keys
 * ------------------------------------------------------------------------------------------------
 */

static int read_field(const scope *root, const fy_hparam_row *row, void *field, fy_err *e)
{
    for (const char *const *key = row->hf; *key != NULL; key++) {
        const json_t *raw = json_object_get(root->obj, *key);
        if (raw == NULL)
            continue;
        if (json_is_null(raw) && (row->flags & FY_HP_NULL_DERIVES) != 0) {
            memset(field, 0, sizeof(uint32_t));
            return 0;
        }
        double d = 0;
        int rc =
            row->kind == FY_HP_F32 ? get_double(root, *key, &d, e) : get_u32(root, *key, field, e);
        if (rc == 0 && row->kind == FY_HP_F32)
            *(float *)field = (float)d;
        else if (rc == 0 && *(const uint32_t *)field == 0)
            return bad_value(root, *key, raw, "a positive integer", e);
        if (rc <= 0)
            return rc;
    }
    return 0;
}

static int read_plain(fy_hf_config *c, const scope *root, fy_err *e)
{
    c->hp = c->family->defaults;
    for (size_t i = 0; i < fy_n_hparam_rows; i++) {
        const fy_hparam_row *row = &fy_hparam_rows[i];
        if (row->hf != NULL && read_field(root, row, (char *)&c->hp + row->offset, e))
            return -1;
    }
    c->tied = c->family->tied_default;
    return get_bool(root, "tie_word_embeddings", &c->tied, e) < 0 ? -1 : 0;
}

static int check_activation(const scope *root, fy_err *e)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *act;
        char q[FY_QUOTE_BYTES];
        int rc = get_string(root, keys[i], &act, e);
        if (rc < 0)
            return -1;
        if (rc == 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
            return fy_fail(e, FY_EUNSUPPORTED, "%s is '%s'; ferry computes silu", keys[i],
                           fy_quote(q, sizeof q, fy_span_of(act)));
    }
    return 0;
}

/* Checkpoints whose tensors are not plain weights. */
static int check_quantized(const scope *root, fy_err *e)
{
    static const char *const keys[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *q;
        int rc = get_object(root, keys[i], &q, e);
        if (rc < 0)
            return -1;
        if (rc == 1 || json_object_size(q) == 0)
            continue;
        const char *method = json_string_value(json_object_get(q, "quant_method"));
        char text[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the checkpoint is quantized already (%s: %s); ferry converts the "
                       "original f32, f16 or bf16 checkpoint",
                       keys[i],
                       fy_quote(text, sizeof text, fy_span_of(method != NULL ? method : "?")));
    }
    return 0;
}

static int check_row_flags(const fy_hf_config *c, const scope *root, fy_err *e)
{
    for (size_t i = 0; i < c->family->n_rows; i++) {
        bool flag;
        const char *key = c->family->rows[i].required_by;
        if (key != NULL && get_bool(root, key, &flag, e) < 0)
            return -1;
    }
    return 0;
}

/* --- sliding window
 * -------------------------------------------------------------------------------------------- */

/* How many of the layers have the window; -1 on failure. */
static int64_t count_windowed(const scope *root, const fy_family *f, uint32_t n_layer, fy_err *e)
{
    const json_t *types = value_of(root, "layer_types");
    if (types == NULL) {
        /* Classes that switch the window by a flag keep it off the first max_window_layers layers
         * (default 28). */
        uint32_t full = f->window_flag != NULL ? 28 : 0;
        if (f->window_flag != NULL && get_u32(root, "max_window_layers", &full, e) < 0)
            return -1;
        return full < n_layer ? n_layer - full : 0;
    }
    if (!json_is_array(types) || json_array_size(types) != n_layer)
        return bad_value(root, "layer_types", types, "a list with one entry per layer", e);
    int64_t n = 0;
    for (size_t i = 0; i < n_layer; i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (t == NULL || (strcmp(t, "sliding_attention") != 0 && strcmp(t, "full_attention") != 0))
            return bad_value(root, "layer_types", json_array_get(types, i),
                             "sliding_attention or full_attention", e);
        n += t[0] == 's';
    }
    return n;
}

static int read_window(fy_hf_config *c, const scope *root, fy_err *e)
{
    const fy_family *f = c->family;
    bool on = f->window_flag == NULL;
    if (f->window_flag != NULL && get_bool(root, f->window_flag, &on, e) < 0)
        return -1;
    if (f->defaults.n_swa == 0)
        on = false;
    if (json_is_null(json_object_get(root->obj, "sliding_window")))
        c->hp.n_swa = 0;
    else if (get_u32(root, "sliding_window", &c->hp.n_swa, e) < 0)
        return -1;
    int64_t n = count_windowed(root, f, c->hp.n_layer, e);
    if (n < 0)
        return -1;
    if (!on || n == 0)
        c->hp.n_swa = 0;
    else if (c->hp.n_swa == 0 && value_of(root, "sliding_window") != NULL)
        return fy_fail(e, FY_EFORMAT, "sliding_window is 0; expected a positive integer or null");
    if (c->hp.n_swa != 0 && n != c->hp.n_layer)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "sliding_window %u applies to %d of %u layers (layer_types, "
                       "max_window_layers); ferry computes one window for all layers or none",
                       c->hp.n_swa, (int)n, c->hp.n_layer);
    return 0;
}

/* --- rope
 * ------------------------------------------------------------------------------------------------------
 */

/* Every key that may stand in rope_scaling or rope_parameters. One that belongs to another type is
 * ignored, as transformers does; one that is not here may change the arithmetic and is refused. */
static int check_rope_keys(const scope *s, fy_err *e)
{
    static const char *const known[] = {
        "type",
        "rope_type",
        "rope_theta",
        "partial_rotary_factor",
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "finetuned",
        "low_freq_factor",
        "high_freq_factor",
    };
    const char *key;
    char q[FY_QUOTE_BYTES];
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)s->obj, key, v)
    {
        bool found = json_is_null(v);
        for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found && json_is_object(v))
            return fy_fail(e, FY_EUNSUPPORTED,
                           "%s%s: ferry does not compute another rotation for each layer type",
                           s->prefix, fy_quote(q, sizeof q, fy_span_of(key)));
        if (!found)
            return fy_fail(e, FY_EUNSUPPORTED, "%s%s: ferry does not know this key", s->prefix,
                           fy_quote(q, sizeof q, fy_span_of(key)));
    }
    return 0;
}

static int read_theta(fy_hf_config *c, const scope *root, const scope *rope, fy_err *e)
{
    c->rope_theta = (double)c->hp.rope_theta;
    int rc = rope != NULL ? get_double(rope, "rope_theta", &c->rope_theta, e) : 1;
    if (rc == 1)
        rc = get_double(root, "rope_theta", &c->rope_theta, e);
    if (rc < 0)
        return -1;
    c->hp.rope_theta = (float)c->rope_theta;
    if (!(c->hp.rope_theta >= 1) || !isfinite(c->hp.rope_theta))
        return fy_fail(e, FY_EFORMAT, "rope_theta is %g; expected a number from 1 to 3e38",
                       c->rope_theta);

    double part = 1;
    rc = rope != NULL ? get_double(rope, "partial_rotary_factor", &part, e) : 1;
    if (rc == 1)
        rc = get_double(root, "partial_rotary_factor", &part, e);
    if (rc < 0)
        return -1;
    if (part != 1)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "partial_rotary_factor is %g; a %s model rotates whole heads", part,
                       c->family->name);
    return 0;
}

/* original_max_position_embeddings: beside the scaling or at the top (which of the two wins depends
 * on the version of transformers), else max_position_embeddings. */
static int read_orig_ctx(const scope *root, const scope *rope, uint32_t n_ctx, uint32_t *out,
                         fy_err *e)
{
    static const char key[] = "original_max_position_embeddings";
    uint32_t top = 0, beside = 0;
    int at_top = get_u32(root, key, &top, e);
    int is_beside = at_top < 0 ? -1 : get_u32(rope, key, &beside, e);
    if (is_beside < 0)
        return -1;
    if (at_top == 0 && is_beside == 0 && top != beside)
        return fy_fail(e, FY_EFORMAT, "%s is %u, but %u in %.*s; remove one of them", key, top,
                       beside, (int)strlen(rope->prefix) - 1, rope->prefix);
    *out = is_beside == 0 ? beside : at_top == 0 ? top : n_ctx;
    return *out > 0 ? 0 : fy_fail(e, FY_EFORMAT, "%s is 0; expected a positive integer", key);
}

/* *io holds the default; 0: the key is required. */
static int get_positive(const scope *s, const char *key, double *io, fy_err *e)
{
    int rc = get_double(s, key, io, e);
    if (rc < 0)
        return -1;
    if (rc == 1 && *io == 0)
        return fy_fail(e, FY_EFORMAT, "%s%s is missing", s->prefix, key);
    if (!(*io > 0) || (double)(float)*io == 0 || !isfinite((float)*io))
        return fy_fail(e, FY_EFORMAT, "%s%s is %g; expected a positive number", s->prefix, key,
                       *io);
    return 0;
}

static int read_linear(fy_hf_config *c, const scope *rope, fy_err *e)
{
    double factor = 0;
    if (get_positive(rope, "factor", &factor, e))
        return -1;
    if (factor < 1)
        return fy_fail(e, FY_EFORMAT, "%sfactor is %g; linear needs at least 1", rope->prefix,
                       factor);
    c->hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    c->hp.rope_factor = (float)factor;
    return 0;
}

static int read_llama3(fy_hf_config *c, const scope *root, const scope *rope, fy_err *e)
{
    bool has_row = false;
    for (size_t i = 0; i < c->family->n_rows; i++)
        has_row |= c->family->rows[i].transform == FY_X_LLAMA3_FREQS;
    if (!has_row)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%srope_type is llama3, which a %s model in GGUF form "
                       "has no place for",
                       rope->prefix, c->family->name);
    fy_llama3_scaling s = {.used = true};
    if (get_positive(rope, "factor", &s.factor, e) ||
        get_positive(rope, "low_freq_factor", &s.low_freq_factor, e) ||
        get_positive(rope, "high_freq_factor", &s.high_freq_factor, e) ||
        read_orig_ctx(root, rope, c->hp.n_ctx_train, &s.orig_ctx, e))
        return -1;
    if (s.factor < 1)
        return fy_fail(e, FY_EFORMAT, "%sfactor is %g; llama3 needs at least 1", rope->prefix,
                       s.factor);
    if (!((float)s.high_freq_factor > (float)s.low_freq_factor))
        return fy_fail(e, FY_EFORMAT, "%shigh_freq_factor %g is not above low_freq_factor %g",
                       rope->prefix, s.high_freq_factor, s.low_freq_factor);
    c->llama3 = s;
    return 0;
}

static double yarn_mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* The whole factor on cos and sin: given, or from the two mscale values (DeepSeek), or yarn's own.
 */
static int read_yarn_attention(const scope *rope, double factor, double *total, fy_err *e)
{
    double m = 0, m_all = 0;
    *total = yarn_mscale(factor, 1);
    if (get_double(rope, "mscale", &m, e) < 0 || get_double(rope, "mscale_all_dim", &m_all, e) < 0)
        return -1;
    if (m != 0 && m_all != 0)
        *total = yarn_mscale(factor, m) / yarn_mscale(factor, m_all);
    return get_positive(rope, "attention_factor", total, e);
}

static int read_yarn(fy_hf_config *c, const scope *root, const scope *rope, fy_err *e)
{
    uint32_t orig;
    if (read_orig_ctx(root, rope, c->hp.n_ctx_train, &orig, e))
        return -1;
    double factor = (double)c->hp.n_ctx_train / orig, total, fast = 32, slow = 1;
    bool truncate = true;
    if (get_positive(rope, "factor", &factor, e) || read_yarn_attention(rope, factor, &total, e) ||
        get_positive(rope, "beta_fast", &fast, e) || get_positive(rope, "beta_slow", &slow, e) ||
        get_bool(rope, "truncate", &truncate, e) < 0)
        return -1;
    if (!truncate)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%struncate is false; ferry computes yarn with whole "
                       "ramp borders",
                       rope->prefix);
    c->hp.rope_scaling = FY_ROPE_SCALING_YARN;
    c->hp.rope_factor = (float)factor;
    c->hp.rope_orig_ctx = orig;
    c->hp.rope_attn_factor = (float)(total / yarn_mscale(factor, 1));
    c->hp.yarn_beta_fast = (float)fast;
    c->hp.yarn_beta_slow = (float)slow;
    return 0;
}

/* transformers 5 keeps everything about rotation in rope_parameters, 4 the scaling in rope_scaling.
 * With both, the scaling takes the place of the parameters, rope_theta included: then it has to be
 * given once more. */
static int find_rope(const scope *root, scope *rope, fy_err *e)
{
    const json_t *params = NULL;
    *rope = (scope){NULL, "rope_scaling."};
    if (get_object(root, "rope_parameters", &params, e) < 0 ||
        get_object(root, "rope_scaling", &rope->obj, e) < 0)
        return -1;
    if (json_object_size(rope->obj) == 0)
        *rope = (scope){params, "rope_parameters."};
    else if (json_object_get(params, "rope_theta") != NULL &&
             value_of(rope, "rope_theta") == NULL && value_of(root, "rope_theta") == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "rope_scaling takes the place of rope_parameters, but "
                       "rope_theta is in rope_parameters only; put everything into one of them");
    return 0;
}

static int read_rope(fy_hf_config *c, const scope *root, fy_err *e)
{
    scope rope;
    if (find_rope(root, &rope, e) || (rope.obj != NULL && check_rope_keys(&rope, e)) ||
        read_theta(c, root, rope.obj != NULL ? &rope : NULL, e))
        return -1;
    if (rope.obj == NULL)
        return 0;
    const char *type = "default";
    char q[FY_QUOTE_BYTES];
    int rc = get_string(&rope, "rope_type", &type, e);
    if (rc == 1)
        rc = get_string(&rope, "type", &type, e);
    if (rc < 0)
        return -1;
    if (rc == 1 && json_object_get(rope.obj, "rope_type") != NULL)
        return bad_value(&rope, "rope_type", json_null(), "a string", e);
    if (strcmp(type, "default") == 0)
        return 0;
    if (strcmp(type, "linear") == 0)
        return read_linear(c, &rope, e);
    if (strcmp(type, "llama3") == 0)
        return read_llama3(c, root, &rope, e);
    if (strcmp(type, "yarn") == 0)
        return read_yarn(c, root, &rope, e);
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%srope_type is '%s'; ferry knows default, linear, llama3 and yarn", rope.prefix,
                   fy_quote(q, sizeof q, fy_span_of(type)));
}

/* A ramp that ends before it begins means one thing to transformers and another in GGUF form. */
static int check_yarn_ramp(const fy_hparams *hp, fy_err *e)
{
    if (hp->rope_scaling != FY_ROPE_SCALING_YARN)
        return 0;
    double slope = hp->n_rot / (2 * log((double)hp->rope_theta)),
           circle = 2 * 3.14159265358979323846;
    double low = slope * log(hp->rope_orig_ctx / ((double)hp->yarn_beta_fast * circle));
    double high = slope * log(hp->rope_orig_ctx / ((double)hp->yarn_beta_slow * circle));
    low = fmax(floor(low), 0);
    high = fmin(ceil(high), (double)hp->n_rot - 1);
    if (low <= high)
        return 0;
    return fy_fail(e, FY_EUNSUPPORTED,
                   "yarn with original_max_position_embeddings %u, beta_fast %g, beta_slow %g and "
                   "rope_theta %g has a ramp from pair %g to pair %g; ferry needs one that rises",
                   hp->rope_orig_ctx, (double)hp->yarn_beta_fast, (double)hp->yarn_beta_slow,
                   (double)hp->rope_theta, low, high);
}

/* λ in f64; the ramp in f32, one operation at a time, with λ rounded to f32: this way the values
 * equal, bit for bit, those in published Llama 3.1 files. */
float fy_llama3_freq(const fy_hf_config *c, uint32_t i)
{
    const fy_llama3_scaling *s = &c->llama3;
    double lambda = 2 * 3.14159265358979323846 * pow(c->rope_theta, 2.0 * i / c->hp.n_rot);
    float low = (float)s->low_freq_factor, high = (float)s->high_freq_factor;
    float factor = (float)s->factor;
    if (lambda < s->orig_ctx / s->high_freq_factor)
        return 1;
    if (lambda > s->orig_ctx / s->low_freq_factor)
        return factor;
    float ratio = (float)s->orig_ctx / (float)lambda;
    float ramp = fminf(fmaxf((ratio - low) / (high - low), 0),
                       1); /* rounding may leave the range by a bit */
    float slow_part = (1.0F - ramp) / factor;
    return 1.0F / (slow_part + ramp);
}

/* --- the file
 * --------------------------------------------------------------------------------------------------
 */

static int load(fy_hf_config *c, const void *p, size_t n, fy_err *e)
{
    const char *text = p;
    size_t i = 0;
    while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    const char *other = i < n && text[i] != '{' && text[i] != '[' ? fy_sniff(p, n) : NULL;
    if (other != NULL)
        return fy_fail(e, FY_EFORMAT, "this is %s", other);
    c->root = fy_json_tree(p, n, e);
    if (c->root == NULL)
        return -1;
    if (!json_is_object(c->root))
        return fy_fail(e, FY_EFORMAT, "not a JSON object");
    return 0;
}

static int parse(fy_hf_config *c, const void *p, size_t n, fy_err *e)
{
    if (load(c, p, n, e))
        return -1;
    scope root = {c->root, ""};
    if (find_family(&root, &c->family, e) || check_quantized(&root, e) ||
        check_activation(&root, e) || read_plain(c, &root, e) || check_row_flags(c, &root, e) ||
        read_window(c, &root, e) || read_rope(c, &root, e))
        return -1;
    if (c->hp.head_dim == 0 && c->hp.n_head != 0 && c->hp.n_embd % c->hp.n_head != 0)
        return fy_fail(e, FY_EFORMAT,
                       "hidden_size %u is not a multiple of num_attention_heads %u, and head_dim "
                       "is not given",
                       c->hp.n_embd, c->hp.n_head);
    fy_hparams_derive(&c->hp);
    return fy_hparams_check(&c->hp, e) || check_yarn_ramp(&c->hp, e) ? -1 : 0;
}

int fy_hf_config_parse(fy_hf_config *c, const void *p, size_t n, const char *name, fy_err *e)
{
    *c = (fy_hf_config){0};
    return parse(c, p, n, e) ? fy_ctx(e, "%s", name) : 0;
}

int fy_hf_config_open(fy_hf_config *c, const char *dir, fy_err *e)
{
    *c = (fy_hf_config){0};
    char *path = fy_path_join(dir, "config.json");
    if (path == NULL)
        return fy_nomem(e);
    fy_map m;
    int rc = -1;
    if (!fy_file_exists(path)) {
        fy_fail(e, FY_EIO,
                "%s: no config.json in it, so it is no Hugging Face checkpoint or not all of one",
                dir);
    } else if (fy_map_open(&m, path, e) == 0) {
        rc = fy_hf_config_parse(c, m.data, m.size, path, e);
        fy_map_close(&m);
    }
    free(path);
    return rc;
}

void fy_hf_config_release(fy_hf_config *c)
{
    json_decref(c->root);
    *c = (fy_hf_config){0};
}

bool fy_hf_config_flag(const fy_hf_config *c, const char *key)
{
    return json_is_true(json_object_get(c->root, key));
}
