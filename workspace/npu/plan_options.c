#include "workspace/npu/plan_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

static int bad_batch(const char *text, const char *what, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    return fy_fail(e, FY_EARG,
                   "--batch '%s': %s; expected up to %d different numbers from 1, such "
                   "as 128,1",
                   fy_quote(q, sizeof q, fy_span_of(text)), what, FY_NPU_BATCHES);
}

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* "128,1", in any order. */
static int read_batches(const char *text, fy_npu_params *p, fy_err *e)
{
    const char *at = text;
    for (;;) {
        uint64_t n = 0;
        size_t digits = 0;
        for (; at[digits] >= '0' && at[digits] <= '9' && n <= INT32_MAX; digits++)
            n = 10 * n + (uint64_t)(at[digits] - '0');
        if (digits == 0 || (at[digits] != ',' && at[digits] != '\0'))
            return bad_batch(text, n > INT32_MAX ? "a number is too large" : "no list of numbers",
                             e);
        if (n == 0 || n > INT32_MAX)
            return bad_batch(text, n == 0 ? "no token at a time" : "a number is too large", e);
        if (p->n_batches == FY_NPU_BATCHES)
            return bad_batch(text, "too many numbers", e);
        p->batch[p->n_batches++] = (uint32_t)n;
        if (at[digits] == '\0')
            break;
        at += digits + 1;
    }
    qsort(p->batch, p->n_batches, sizeof *p->batch, by_size);
    for (uint32_t i = 1; i < p->n_batches; i++) {
        if (p->batch[i] == p->batch[i - 1])
            return bad_batch(text, "one number is there twice", e);
    }
    return 0;
}

bool fy_plan_has_soc(const fy_plan_options *o)
{
    return o->soc != NULL || o->htp_arch != FY_OPT_UNSET_INT;
}

int fy_plan_options_check(const fy_plan_options *o, fy_err *e)
{
    const bool arch = o->htp_arch != FY_OPT_UNSET_INT;
    if (o->soc != NULL && arch)
        return fy_fail(e, FY_EARG,
                       "--soc names a chip that ferry knows, --htp-arch is for one that "
                       "it does not; give one of them");
    if (o->vtcm != FY_OPT_UNSET_INT && !arch)
        return fy_fail(e, FY_EARG,
                       "--vtcm goes with --htp-arch; the chips of --soc have their own");
    return 0;
}

int fy_plan_params_of(fy_plan_data *d, const fy_plan_options *o, fy_npu_params *p, fy_err *e)
{
    static const uint32_t bits[] = {8, 16};
    *p = (fy_npu_params){
        .n_ctx = o->n_ctx != FY_OPT_UNSET_INT ? (uint32_t)o->n_ctx : 0,
        .n_chunks = (uint32_t)o->n_chunks,
        .kv_bits = o->kv_bits >= 0 ? bits[o->kv_bits] : 0,
        .memory_bytes = o->memory != FY_OPT_UNSET_INT ? (uint64_t)o->memory : 0,
    };
    if (read_batches(o->batch, p, e) != 0)
        return -1;
    if (o->recipe != NULL && (p->recipe = fy_npu_recipes_find(d->recipes, o->recipe, e)) == NULL)
        return -1;
    return 0;
}

/* --- chips and recipes ------------------------------------------------------------------------ */

int fy_plan_data_open(fy_plan_data *d, const fy_plan_options *o, fy_err *e)
{
    *d = (fy_plan_data){.socs = fy_soc_table_open(o->soc_table, e)};
    if (d->socs != NULL)
        d->recipes = fy_npu_recipes_open(e);
    return d->recipes != NULL ? 0 : -1;
}

void fy_plan_data_release(fy_plan_data *d)
{
    fy_soc_release(&d->guessed);
    fy_npu_recipes_free(d->recipes);
    fy_soc_table_free(d->socs);
}

const fy_soc *fy_plan_find_soc(fy_plan_data *d, const fy_plan_options *o, fy_err *e)
{
    if (o->soc != NULL)
        return fy_soc_find(d->socs, o->soc, e);
    const uint32_t vtcm = o->vtcm != FY_OPT_UNSET_INT ? (uint32_t)o->vtcm : 0;
    if (fy_soc_of_arch(d->socs, (int)o->htp_arch, vtcm, &d->guessed, e) != 0)
        return NULL;
    fy_log(FY_LOG_WARN,
           "V%u with %u MiB of VTCM is a guess at a chip: %u sessions and the limits of the "
           "weakest chip of that version are taken for granted",
           d->guessed.htp_arch, d->guessed.vtcm_mb, d->guessed.n_sessions);
    return &d->guessed;
}

/* --- what does not fit ------------------------------------------------------------------------ */

int fy_plan_does_not_fit(const fy_npu_plan *p, const fy_npu_suggestion *s, const fy_npu_model *m,
                         fy_err *e)
{
    fy_str text = {0};
    if (s->found)
        fy_npu_suggestion_text(s, m, &text);
    fy_fail(e, FY_EFIT, "%s%s%s", p->why.msg,
            !s->found                          ? ""
            : s->changed[FY_NPU_CHANGE_LAYERS] ? "; "
                                               : "; try: ",
            fy_str_z(&text));
    fy_str_release(&text);
    return -1;
}
