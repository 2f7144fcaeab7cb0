/* What `plan` and `chunk` are given: the model, the chip, the recipe, and the parameters of the
 * plan that follow from them. */
#include "workspace/npu/plan_options.h"

#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/verb.h"
#include "hub/hub_model.h"

/* --- the model -------------------------------------------------------------------------------- */

static bool is_workspace(const char *path)
{
    char *mark = fy_path_join(path, FY_BUNDLE_WORKSPACE_JSON);
    const bool yes = mark != NULL && fy_file_exists(mark);
    free(mark);
    return yes;
}

static int open_workspace(fy_plan_model *m, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(m->path, &b, e) != 0)
        return -1;
    m->gguf = fy_gguf_open(b.weights, e);
    fy_bundle_release(&b);
    return m->gguf != NULL ? 0 : -1;
}

static int open_checkpoint(fy_plan_model *m, fy_err *e)
{
    m->checkpoint = true;
    if (fy_program_now()->checkpoint_header(m->path, &m->header, e) != 0)
        return -1;
    m->gguf = fy_gguf_parse(m->header.ptr, m->header.len, m->path, true, e);
    return m->gguf != NULL ? 0 : -1;
}

/* By its name: of anything else the reader of GGUF says best what it is. */
static bool is_checkpoint_file(const char *path)
{
    const fy_span s = fy_span_of(path);
    return fy_span_ends(s, ".json") || fy_span_ends(s, ".pt") || fy_span_ends(s, ".pth");
}

static int open_file(fy_plan_model *m, const char *path, fy_err *e)
{
    m->gguf = fy_gguf_open(path, e);
    return m->gguf != NULL ? 0 : -1;
}

static int open_any(fy_plan_model *m, fy_err *e)
{
    const bool is_dir = fy_file_is_dir(m->path);
    if (is_dir && is_workspace(m->path))
        return open_workspace(m, e);
    if (!is_dir && !fy_hub_id_is_meant(m->path))
        return is_checkpoint_file(m->path) ? open_checkpoint(m, e) : open_file(m, m->path, e);
    fy_hub_place place;
    if (fy_hub_find(m->path, FY_HUB_ANY, &place, e) != 0)
        return -1;
    const int rc = fy_file_is_dir(place.path) ? open_checkpoint(m, e) : open_file(m, place.path, e);
    fy_hub_place_release(&place);
    return rc;
}

int fy_plan_model_open(fy_plan_model *m, const char *path, fy_err *e)
{
    *m = (fy_plan_model){.path = path};
    int rc = open_any(m, e);
    if (rc == 0 && fy_npu_model_of(&m->npu, m->gguf, e) != 0)
        rc = fy_ctx(e, "%s", path);
    if (rc != 0)
        fy_plan_model_release(m);
    return rc;
}

void fy_plan_model_release(fy_plan_model *m)
{
    fy_npu_model_release(&m->npu);
    fy_gguf_close(m->gguf);
    fy_str_release(&m->header);
    *m = (fy_plan_model){0};
}

void fy_plan_model_name(const fy_plan_model *m, char *out, size_t n)
{
    fy_span name = fy_path_base(m->path);
    fy_gguf_get_str(m->gguf, FY_KEY_NAME, &name, NULL);
    fy_quote(out, n, name);
}

uint64_t fy_plan_model_params(const fy_plan_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->npu.n_tensors; i++) {
        const fy_npu_tensor *t = &m->npu.tensors[i];
        const bool computed = t->slot >= FY_T_ROPE_FREQS && t->slot <= FY_T_ROPE_SHORT;
        n += computed ? 0 : t->n_out * t->n_in; /* the reader has found all of it countable */
    }
    return n;
}

/* --- the chip and the rest -------------------------------------------------------------------- */

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

bool fy_plan_has_soc(const fy_npu_options *o)
{
    return o->soc != NULL || o->htp_arch != FY_OPT_UNSET_INT;
}

int fy_npu_options_check(const fy_npu_options *o, fy_err *e)
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

bool fy_plan_is_given(const void *field)
{
    const char *source = fy_option_source(field);
    return source != NULL && strcmp(source, "command line") == 0;
}

/* Each token of a graph with states is a copy of the recurrence: 128 that nobody asked for are 8.
 */
static int fit_batches(const fy_npu_options *o, const fy_hparams *hp, fy_npu_params *p, fy_err *e)
{
    uint32_t n = 0;
    if (!fy_graph_has_states(hp))
        return 0;
    if (p->batch[0] > FY_STATE_BATCH_MAX && fy_plan_is_given(&o->batch))
        return fy_fail(
            e, FY_EARG,
            "--batch '%s': %u tokens, but a graph of a model with states (RWKV) has %d at "
            "most: --batch 8,1",
            o->batch, p->batch[0], FY_STATE_BATCH_MAX);
    const uint32_t most = p->batch[0] > FY_STATE_BATCH_MAX ? FY_STATE_BATCH : FY_STATE_BATCH_MAX;
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const uint32_t size = p->batch[i] < most ? p->batch[i] : most;
        if (n == 0 || size < p->batch[n - 1])
            p->batch[n++] = size;
    }
    p->n_batches = n;
    return 0;
}

int fy_plan_params_of(fy_plan_data *d, const fy_npu_options *o, const fy_hparams *hp,
                      fy_npu_params *p, fy_err *e)
{
    static const uint32_t bits[] = {8, 16};
    *p = (fy_npu_params){
        .n_ctx = o->n_ctx != FY_OPT_UNSET_INT ? (uint32_t)o->n_ctx : 0,
        .n_chunks = (uint32_t)o->n_chunks,
        .kv_bits = o->kv_bits >= 0 ? bits[o->kv_bits] : 0,
        .memory_bytes = o->memory != FY_OPT_UNSET_INT ? (uint64_t)o->memory : 0,
    };
    if (read_batches(o->batch, p, e) != 0 || fit_batches(o, hp, p, e) != 0)
        return -1;
    if (o->recipe != NULL && (p->recipe = fy_npu_recipes_find(d->recipes, o->recipe, e)) == NULL)
        return -1;
    return 0;
}

/* --- chips and recipes ------------------------------------------------------------------------ */

int fy_plan_data_open(fy_plan_data *d, const fy_npu_options *o, fy_err *e)
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

const fy_soc *fy_plan_find_soc(fy_plan_data *d, const fy_npu_options *o, fy_err *e)
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
