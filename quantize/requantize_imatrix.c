#include "quantize/requantize_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

/* Names for a message: the first few, and how many there are. */
typedef struct {
    fy_str text;
    size_t n;
} names;

enum { SHOWN = 5 };

static void add_name(names *l, fy_span name)
{
    if (l->n < SHOWN) {
        fy_str_puts(&l->text, l->n > 0 ? ", " : "");
        fy_str_put_quoted(&l->text, name, FY_GGUF_MAX_NAME);
    } else if (l->n == SHOWN) {
        fy_str_puts(&l->text, ", ...");
    }
    l->n++;
}

/* q8_0 leaves no choice, what is in no blocks either. */
static bool asks(const fy_requant_tensor *t)
{
    return t->to != t->from->type && fy_requant_is_quantized(t->to) && t->to != FY_Q8_0;
}

/* Embedding and output are usually not in the files: llama.cpp collects none for them. */
static bool may_be_without(fy_span name)
{
    return fy_llama_is_embedding(name) || fy_llama_is_output(name);
}

static int find_one(const fy_requant *q, fy_requant_tensor *t, names *missing, names *without,
                    fy_err *e)
{
    fy_err why = {0};
    t->importance =
        fy_imatrix_find(q->imatrix, t->from->name, t->from->ne[0], t->from->ne[2], &why);
    if (t->importance != NULL)
        return 0;
    /* Of another shape, an embedding is another thing: llama-quantize leaves it, too. */
    if (why.code != FY_OK && !(why.code == FY_EFORMAT && fy_llama_is_embedding(t->from->name)))
        return fy_fail(e, why.code, "%s", why.msg);
    add_name(may_be_without(t->from->name) ? without : missing, t->from->name);
    return 0;
}

/* Entries for no tensor of the model: in part they may be of another version of it, all of them
 * they are of another model. */
static int check_unused(const fy_requant *q, fy_err *e)
{
    names unknown = {0};
    const size_t n = fy_imatrix_n(q->imatrix);
    for (size_t i = 0; i < n; i++) {
        char name[FY_GGUF_MAX_NAME + 1];
        const fy_span s = fy_imatrix_name(q->imatrix, i);
        memcpy(name, s.ptr, s.len <= FY_GGUF_MAX_NAME ? s.len : 0);
        name[s.len <= FY_GGUF_MAX_NAME ? s.len : 0] = '\0';
        if (fy_gguf_tensor_find(q->in, name) == NULL)
            add_name(&unknown, s);
    }
    int rc = 0;
    if (unknown.n == n)
        rc = fy_fail(e, FY_EFORMAT, "%s: none of its %zu entries is of a matrix of %s: %s",
                     q->p.imatrix, n, fy_gguf_path(q->in), fy_str_z(&unknown.text));
    else if (unknown.n > 0)
        fy_log(FY_LOG_INFO, "%s: %zu of %zu entries are of no matrix of the model: %s",
               q->p.imatrix, unknown.n, n, fy_str_z(&unknown.text));
    fy_str_release(&unknown.text);
    return rc;
}

int fy_requant_find_importance(fy_requant *q, fy_err *e)
{
    names missing = {0}, without = {0};
    size_t asked = 0;
    int rc = check_unused(q, e);
    for (size_t i = 0; rc == 0 && i < q->stats.n_tensors; i++) {
        if (!asks(&q->tensors[i]))
            continue;
        asked++;
        rc = find_one(q, &q->tensors[i], &missing, &without, e);
    }
    if (rc == 0 && missing.n > 0)
        rc = fy_fail(e, FY_EFORMAT,
                     "%s: has nothing for %zu of the %zu matrices that ask for it: %s; collect it "
                     "with the model itself, or name a type for them with --tensor-type REGEX=q8_0",
                     q->p.imatrix, missing.n, asked, fy_str_z(&missing.text));
    if (rc == 0 && without.n > 0)
        fy_log(FY_LOG_INFO, "%s: has nothing for %s, quantized without", q->p.imatrix,
               fy_str_z(&without.text));
    if (rc == 0 && asked == 0)
        fy_log(FY_LOG_WARN, "--imatrix: no matrix gets a type that asks for it");
    fy_str_release(&missing.text);
    fy_str_release(&without.text);
    return rc;
}
