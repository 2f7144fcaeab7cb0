#include "convert/type_choice.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/quote.h"
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
        return fy_fail(e, FY_EARG, "--keep %s: the type is none of f32, f16, bf16, q8_0, q4_0", q);
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

/* llama-quantize's choice for q4_0, without an importance matrix (llama_tensor_get_type). In files
 * of the other types that ferry writes every matrix has the same. */
static fy_type llama_q4_0(const fy_convert_plan *p, const fy_plan_tensor *t, bool output_there)
{
    const fy_hf_config *c = p->config;
    int slot = (int)t->row->slot;
    if (slot == FY_T_OUTPUT || (slot == FY_T_TOKEN_EMBD && !output_there))
        return strcmp(c->family->gguf_arch, "falcon") == 0 || t->ne[0] % FY_QK_K != 0 ? FY_Q8_0
                                                                                      : FY_Q6_K;
    if (c->hp.n_expert == 8 && (slot == FY_T_ATTN_V || slot == FY_T_ATTN_K))
        return FY_Q8_0;
    return FY_Q4_0;
}

static int cannot_encode(const fy_plan_tensor *t, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    fy_plan_name(t, name);
    return fy_fail(e, FY_EUNSUPPORTED,
                   "--recipe llama has '%s' in %s, which ferry does not encode; leave the recipe "
                   "out, or keep this matrix in another type (--keep '^%s$=q8_0')",
                   name, fy_type_name(t->type), name);
}

int fy_choose_types(fy_convert_plan *p, const fy_plan_options *o, fy_err *e)
{
    bool output_there = has_output(p), llama = o->llama_recipe && o->outtype == FY_Q4_0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        fy_plan_tensor *t = &p->tensors[i];
        t->type = FY_F32;
        if (!is_matrix(t))
            continue;
        t->type = llama ? llama_q4_0(p, t, output_there) : pure(t, o->outtype);
        if (o->keep != NULL)
            keep_type(o->keep, t);
        if (!fy_row_can_encode(t->type))
            return cannot_encode(t, e);
        if (t->ne[0] % fy_type_get(t->type)->block != 0) {
            t->type = FY_F16;
            t->fallback = true;
        }
    }
    return o->keep != NULL ? check_used(o->keep, e) : 0;
}
