/* A node against the rule table (ref_rules.h says how rows are written). */
#include "qnnref/ref_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qnnref/ref_impl.h"

enum { MAX_EXPANDED = 512 };

/* A row for one of its operations and one type. */
typedef struct {
    const ref_rule *row;
    char op[32], type[8];
} expanded;

static expanded all[MAX_EXPANDED];
static unsigned long hits[MAX_EXPANDED];
static uint32_t n_all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The next word of *text into word; false at the end. */
static bool next_word(const char **text, char *word, size_t cap)
{
    *text += strspn(*text, " ");
    size_t n = strcspn(*text, " ");
    if (n == 0)
        return false;
    snprintf(word, cap, "%.*s", (int)n, *text);
    *text += n;
    return true;
}

static void expand(void)
{
    for (uint32_t i = 0; i < ref_n_rules; i++) {
        const char *ops = ref_rules[i].ops;
        char op[32];
        while (next_word(&ops, op, sizeof op)) {
            const char *types = ref_rules[i].types != NULL ? ref_rules[i].types : "-";
            char type[8];
            while (next_word(&types, type, sizeof type) && n_all < MAX_EXPANDED) {
                expanded *e = &all[n_all++];
                e->row = &ref_rules[i];
                snprintf(e->op, sizeof e->op, "%s", op);
                snprintf(e->type, sizeof e->type, "%s", type);
            }
        }
    }
}

/* --- encodings --- */

static bool no_offsets(const ref_quant *q)
{
    return q->offsets == NULL;
}

static bool good_scale(float s)
{
    return s > 0 && s < 1e30f;
}

static bool good_scales(const ref_quant *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        if (!good_scale(q->scales[i]))
            return false;
    }
    return no_offsets(q);
}

static int32_t middle(uint32_t type)
{
    return type == ABI_U16 ? -32768 : type == ABI_U8 ? -128 : 0;
}

static bool one_scale(const ref_tensor *t)
{
    const ref_quant *q = &t->quant;
    double low, high;
    ref_type_limits(t->data_type, &low, &high);
    return q->definition == ABI_DEFINED && q->encoding == ABI_SCALE_OFFSET &&
           good_scale(q->one.scale) && low + q->one.offset <= 0 && high + q->one.offset >= 0;
}

static bool is_bias(const ref_node *n, const ref_tensor *t)
{
    const ref_quant *q = &t->quant;
    if (n->in[1] == NULL || t->data_type != ABI_S32 || q->definition != ABI_DEFINED ||
        !no_offsets(q) || t->type != ABI_STATIC)
        return false;
    const ref_quant *w = &n->in[1]->quant;
    if (q->encoding == ABI_SCALE_OFFSET) /* scale 0 only with a scale a channel: else garbage */
        return q->one.offset == 0 && (q->one.scale > 0 || w->scales != NULL) && q->one.scale >= 0 &&
               q->one.scale < 1e30f;
    if (q->encoding != ABI_AXIS)
        return false;
    for (uint32_t i = 0; i < q->n; i++) {
        float sw = w->scales != NULL ? (i < w->n ? w->scales[i] : 0) : w->one.scale;
        double unit = (double)n->in[0]->quant.one.scale * (double)sw;
        double d = (double)q->scales[i] - unit;
        if (q->scales[i] != 0 && !(d <= 1e-6 * unit && d >= -1e-6 * unit))
            return false;
    }
    return true;
}

/* Channels of weights: the last dimension, of FullyConnected the first; MatMul checks its own. */
static bool channel_axis(const ref_node *n, const ref_tensor *t)
{
    if (strcmp(n->op->name, "MatMul") == 0)
        return true;
    return (uint32_t)t->quant.axis ==
           (strcmp(n->op->name, "FullyConnected") == 0 ? 0 : t->rank - 1);
}

static bool is_lpbq(const ref_node *n, const ref_tensor *t)
{
    const ref_quant *q = &t->quant;
    if (q->encoding != ABI_BLOCKWISE || q->bits != 4 || !good_scales(q) ||
        ref_param_word(n, "transpose_in1", 0) != 0)
        return false;
    for (size_t i = 0; i < (size_t)q->n * q->n_blocks; i++) {
        if (q->block_scales[i] < 1 || q->block_scales[i] > 16)
            return false;
    }
    return true;
}

static bool has_form(const ref_node *n, const ref_tensor *t, const char *form)
{
    const ref_quant *q = &t->quant;
    if (strcmp(form, "bias") == 0)
        return t->data_type != ABI_S32 ? one_scale(t) : is_bias(n, t);
    if (!ref_is_fixed(t->data_type))
        return q->definition == ABI_UNDEFINED;
    if (strcmp(form, "axis") == 0 || strcmp(form, "bw4") == 0 || strcmp(form, "lpbq") == 0) {
        if (t->type != ABI_STATIC || q->definition != ABI_DEFINED || !channel_axis(n, t))
            return false;
        if (form[0] == 'l')
            return is_lpbq(n, t);
        if (form[0] == 'a')
            return q->encoding == ABI_AXIS && good_scales(q);
        return q->encoding == ABI_BW_AXIS && q->bits == 4 && good_scales(q);
    }
    if (!one_scale(t))
        return false;
    if (strcmp(form, "sym") == 0)
        return q->one.offset == middle(t->data_type);
    if (strcmp(form, "zero") == 0)
        return q->one.offset == 0;
    if (strcmp(form, "tanh") == 0)
        return q->one.scale == 1.0f / 32768 && q->one.offset == -32768;
    if (strcmp(form, "same") == 0)
        return ref_quant_equal(q, &n->in[0]->quant);
    return true;
}

/* `alternatives` is TYPE/FORM|TYPE/FORM, T meaning `type`. */
static bool operand_fits(const ref_node *n, const ref_tensor *t, const char *alternatives,
                         const char *type)
{
    char one[32];
    for (const char *at = alternatives; *at != '\0';) {
        size_t len = strcspn(at, "|");
        snprintf(one, sizeof one, "%.*s", (int)len, at);
        at += len + (at[len] == '|');
        char *form = strchr(one, '/');
        if (form != NULL)
            *form++ = '\0';
        const char *name = strcmp(one, "T") == 0 ? type : one;
        if (strcmp(name, ref_type_name(t->data_type)) == 0 &&
            has_form(n, t, form != NULL ? form : ""))
            return true;
    }
    return false;
}

/* How many operands fit; *whole when all do. */
static uint32_t match(const ref_node *n, const expanded *e, bool *whole)
{
    const char *text = e->row->in;
    char word[48];
    uint32_t i = 0, good = 0;
    bool fits = true;
    while (next_word(&text, word, sizeof word)) {
        size_t len = strcspn(word, "?*");
        bool optional = word[len] == '?', repeats = word[len] == '*';
        word[len] = '\0';
        do {
            const ref_tensor *t = i < n->n_in ? n->in[i] : NULL;
            bool ok = t != NULL ? operand_fits(n, t, word, e->type) : optional;
            fits = fits && ok;
            good += ok;
            i++;
        } while (repeats && i < n->n_in);
    }
    fits = fits && i >= n->n_in;
    for (uint32_t k = 0; k < n->n_out; k++) {
        bool ok = operand_fits(n, n->out[k], e->row->out, e->type);
        fits = fits && ok;
        good += ok;
    }
    bool arch = n->arch >= e->row->arch, sdk = n->sdk >= e->row->sdk;
    *whole = fits && arch && sdk;
    return 4 * good + arch + sdk;
}

static void describe(char *to, size_t cap, const expanded *e)
{
    const ref_rule *r = e->row;
    int n = snprintf(to, cap, "%s %s -> %s", e->op, r->in, r->out);
    if (r->types != NULL && (size_t)n < cap)
        n += snprintf(to + n, cap - (size_t)n, ", T %s", e->type);
    if (r->arch != 0 && (size_t)n < cap)
        n += snprintf(to + n, cap - (size_t)n, ", V%u", r->arch);
    if (r->sdk != 0 && (size_t)n < cap)
        n += snprintf(to + n, cap - (size_t)n, ", SDK 2.%u", r->sdk);
    if (r->note != NULL && (size_t)n < cap)
        snprintf(to + n, cap - (size_t)n, " (%s)", r->note);
}

static void warn(const ref_node *n)
{
    const ref_quant *q = n->n_in > 1 && n->in[1] != NULL ? &n->in[1]->quant : NULL;
    if (strcmp(n->op->name, "MatMul") == 0 && n->in[0]->data_type == ABI_U16 &&
        n->in[1]->data_type == ABI_U8 && q->one.offset != -128)
        ref_log(REF_WARN,
                "node '%s': offset %d of the second operand loses precision, expected -128",
                n->name, q->one.offset);
    for (uint32_t i = 0; strcmp(n->op->name, "Concat") == 0 && i < n->n_in; i++) {
        if (!ref_quant_equal(&n->in[i]->quant, &n->out[0]->quant))
            ref_log(REF_WARN, "node '%s': part %u requantizes", n->name, i);
    }
}

static void describe_node(char *to, size_t cap, const ref_node *n)
{
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < n->n_in && i < 4 && at < cap; i++)
        at += (size_t)snprintf(to + at, cap - at, "%s ",
                               n->in[i] != NULL ? ref_type_name(n->in[i]->data_type) : "-");
    if (at < cap)
        snprintf(to + at, cap - at, "-> %s", ref_type_name(n->out[0]->data_type));
}

abi_error ref_rules_check(const ref_node *n)
{
    pthread_once(&once, expand);
    const expanded *nearest = NULL;
    uint32_t best = 0;
    for (uint32_t i = 0; i < n_all; i++) {
        bool whole = false;
        if (strcmp(all[i].op, n->op->name) != 0)
            continue;
        uint32_t good = match(n, &all[i], &whole);
        if (whole) {
            __atomic_add_fetch(&hits[i], 1, __ATOMIC_RELAXED);
            warn(n);
            return 0;
        }
        if (nearest == NULL || good > best) {
            nearest = &all[i];
            best = good;
        }
    }
    char text[192] = "none", own[64];
    if (nearest != NULL)
        describe(text, sizeof text, nearest);
    describe_node(own, sizeof own, n);
    return ref_fail(ABI_OP_VALIDATION, "node '%s' (%s %s, V%u): no rule allows it; nearest: %s",
                    n->name, n->op->name, own, n->arch, text);
}

const char *ref_rules_text(uint32_t i)
{
    static __thread char text[192];
    pthread_once(&once, expand);
    if (i >= n_all)
        return NULL;
    describe(text, sizeof text, &all[i]);
    return text;
}

void ref_rules_report(void)
{
    const char *path = getenv("FERRY_REF_COVERAGE");
    FILE *f = path != NULL && n_all > 0 ? fopen(path, "ae") : NULL;
    if (f == NULL)
        return;
    for (uint32_t i = 0; i < n_all; i++)
        fprintf(f, "rule %lu %s\n", hits[i], ref_rules_text(i));
    fclose(f);
}
