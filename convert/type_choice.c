#include "convert/type_choice.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/quote.h"
#include "format/llama_types.h"
#include "kernels/row.h"

/* --- patterns ------------------------------------------------------------------------------- */

typedef struct {
    const char *text; /* view: the whole option */
    regex_t regex;    /* owned once `compiled` */
    bool compiled, used;
    fy_type type;
} pattern;

struct fy_keep {
    pattern *patterns; /* owned */
    size_t n;
};

static int parse(pattern *p, const char *text, fy_err *e)
{
    char q[FY_QUOTE_BYTES], why[128];
    const char *sign = strrchr(text, '=');
    fy_quote(q, sizeof q, fy_span_of(text));
    if (sign == NULL || sign == text)
        return fy_fail(e, FY_EARG, "--keep %s: expected REGEX=TYPE, as in output\\.weight=q8_0", q);
    if (!fy_type_parse(sign + 1, &p->type) || !fy_row_can_encode(p->type))
        return fy_fail(e, FY_EARG, "--keep %s: the type is none of %s", q, FY_ROW_TYPES);
    char *regex = strndup(text, (size_t)(sign - text));
    if (regex == NULL)
        return fy_nomem(e);
    int rc = regcomp(&p->regex, regex, REG_EXTENDED | REG_NOSUB);
    free(regex);
    if (rc == REG_ESPACE)
        return fy_nomem(e);
    if (rc != 0) {
        regerror(rc, &p->regex, why, sizeof why);
        return fy_fail(e, FY_EARG, "--keep %s: the regular expression is wrong: %s", q, why);
    }
    p->text = text;
    p->compiled = true;
    return 0;
}

fy_keep *fy_keep_new(const char *const *texts, size_t n, fy_err *e)
{
    fy_keep *k = calloc(1, sizeof *k);
    if (k != NULL)
        k->patterns = calloc(n, sizeof *k->patterns);
    if (k == NULL || k->patterns == NULL) {
        fy_keep_free(k);
        fy_nomem(e);
        return NULL;
    }
    for (; k->n < n; k->n++) {
        if (parse(&k->patterns[k->n], texts[k->n], e) != 0) {
            fy_keep_free(k);
            return NULL;
        }
    }
    return k;
}

void fy_keep_free(fy_keep *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; k->patterns != NULL && i < k->n; i++) {
        if (k->patterns[i].compiled)
            regfree(&k->patterns[i].regex);
    }
    free(k->patterns);
    free(k);
}

/* The first that matches counts; all that do are in use. */
static void keep_type(fy_keep *k, fy_plan_tensor *t)
{
    char name[FY_ROW_NAME_BYTES];
    bool found = false;
    fy_plan_name(t, name);
    for (size_t i = 0; i < k->n; i++) {
        pattern *p = &k->patterns[i];
        if (regexec(&p->regex, name, 0, NULL, 0) != 0)
            continue;
        p->used = true;
        if (!found)
            t->type = p->type;
        found = true;
    }
}

static int check_used(const fy_keep *k, fy_err *e)
{
    for (size_t i = 0; i < k->n; i++) {
        char q[FY_QUOTE_BYTES];
        if (!k->patterns[i].used)
            return fy_fail(e, FY_EARG,
                           "--keep %s: no matrix of the model has such a name (--dry-run lists "
                           "them; norms and biases are f32 always)",
                           fy_quote(q, sizeof q, fy_span_of(k->patterns[i].text)));
    }
    return 0;
}

/* --- recipes -------------------------------------------------------------------------------- */

static bool is_matrix(const fy_plan_tensor *t)
{
    return (t->row->flags & FY_ROW_MATRIX) != 0 && t->n_dims > 1;
}

/* The type of a matrix when all are `outtype`. */
static fy_type pure(const fy_plan_tensor *t, fy_type outtype)
{
    if (outtype != FY_OUTTYPE_AUTO)
        return outtype;
    fy_dtype d = t->src != NULL ? t->src->dtype : FY_DT_F16;
    return d == FY_DT_BF16 || d == FY_DT_F8_E4M3 ? FY_BF16 : FY_F16;
}

static bool has_output(const fy_convert_plan *p)
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        if (p->tensors[i].row->slot == FY_T_OUTPUT)
            return true;
    }
    return false;
}

static fy_type chosen(const fy_llama_model *m, const fy_plan_tensor *t, const fy_plan_options *o)
{
    char name[FY_ROW_NAME_BYTES];
    if (!o->llama_recipe || o->outtype == FY_OUTTYPE_AUTO)
        return pure(t, o->outtype);
    fy_plan_name(t, name);
    return fy_llama_type(m, fy_span_of(name), o->outtype);
}

int fy_choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e)
{
    if (o->llama_recipe && !fy_llama_types_has(o->outtype))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--recipe llama: of %s llama-quantize makes mixtures by layer, which ferry "
                       "does not; leave the recipe out (--keep 'REGEX=q6_K' names better matrices)",
                       fy_type_name(o->outtype));
    const fy_llama_model m = {.arch = fy_span_of(p->config->family->gguf_arch),
                              .n_expert = p->config->hp.n_expert,
                              .has_output = has_output(p)};
    for (size_t i = 0; i < p->n_tensors; i++) {
        fy_plan_tensor *t = &p->tensors[i];
        t->type = FY_F32;
        if (!is_matrix(t))
            continue;
        t->type = chosen(&m, t, o);
        if (o->keep != NULL)
            keep_type(o->keep, t);
        const fy_type possible = fy_type_for_rows(t->type, t->ne[0]);
        t->fallback = possible != t->type;
        t->type = possible;
    }
    return o->keep != NULL ? check_used(o->keep, e) : 0;
}
