/* Merging LoRA adapters into a checkpoint: reads each adapter's tensors, collects what it changes
 * per tensor of the base, checks shapes and ranks, unties the output matrix where an adapter needs
 * it, and appends the deltas (lora_delta.c) or replaces whole tensors. */
#include "convert/source/lora.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/str.h"
#include "convert/source/checkpoint_impl.h"
#include "convert/source/checkpoint.h"
#include "convert/source/family_match.h"

#define SAFETENSORS "adapter_model.safetensors"
#define TORCH       "adapter_model.bin"

/* What an adapter changes in one tensor of the base. */
typedef struct {
    fy_span target; /* name of that tensor, as the adapter has it */
    fy_span module; /* of a delta; ptr NULL: `whole` takes the tensor's place */
    const fy_ckpt_tensor *whole, *a, *b; /* views */
    bool embedding;                      /* a, b are lora_embedding_A, lora_embedding_B */
    bool bias;                           /* b is lora_B.bias, and there is no a */
    bool said;                           /* of the output: the embedding's says the same */
    fy_span first;                       /* name of the tensor of the adapter that said so */
} fy_lora_change;

typedef struct {
    char *dir;        /* owned */
    const char *file; /* view; path of the tensors */
    double scale;     /* the user's */
    fy_lora_config config;
    fy_lora_change *changes; /* owned */
    size_t n, cap;
    fy_names index; /* target -> index in changes */
} fy_lora_adapter;

static int bad_name(const fy_lora_adapter *a, fy_span name, const char *what, fy_err *e)
{
    char q[2 * FY_QUOTE_BYTES];
    return fy_fail(e, FY_EFORMAT, "%s: tensor '%s' %s", a->file, fy_quote(q, sizeof q, name), what);
}

/* --- DIR[:SCALE] ------------------------------------------------------------------------------ */

int fy_lora_parse(const char *arg, char **dir, double *scale, fy_err *e)
{
    const char *colon = strrchr(arg, ':');
    size_t n = strlen(arg);
    *scale = 1;
    if (colon != NULL && colon[1] != '\0' && !fy_file_exists(arg)) {
        char *end;
        double v = strtod(colon + 1, &end);
        if (*end == '\0' && !isfinite((float)v))
            return fy_fail(e, FY_EARG, "--lora %s: the scale is %s, expected a number", arg,
                           colon + 1);
        if (*end == '\0') {
            *scale = v;
            n = (size_t)(colon - arg);
        }
    }
    *dir = strndup(arg, n);
    if (*dir == NULL)
        return fy_nomem(e);
    if (fy_file_is_dir(*dir))
        return 0;
    return fy_file_exists(*dir)
               ? fy_fail(e, FY_EARG, "--lora %s: is a file; give the adapter's directory", *dir)
               : fy_fail(e, FY_EIO, "--lora %s: no such directory", *dir);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The change of the tensor "HEADREST"; a new one if there is none. NULL: out of memory. */
static fy_lora_change *change_of(fy_lora_adapter *a, fy_ckpt *c, fy_span head, const char *rest,
                                 size_t n_rest)
{
    uint32_t at;
    char *name = fy_arena_alloc(&c->arena, head.len + n_rest);
    fy_lora_change *grown = fy_grow(a->changes, a->n, &a->cap, sizeof *grown);
    if (grown != NULL)
        a->changes = grown;
    if (name == NULL || grown == NULL)
        return NULL;
    memcpy(name, head.ptr, head.len);
    memcpy(name + head.len, rest, n_rest);
    fy_span target = {name, head.len + n_rest};
    if (fy_names_find(&a->index, target, &at))
        return &a->changes[at];
    if (fy_names_add(&a->index, target, (uint32_t)a->n) != 0)
        return NULL;
    a->changes[a->n] = (fy_lora_change){.target = target};
    return &a->changes[a->n++];
}

static bool is_factor(fy_lora_part p)
{
    return p == FY_LORA_A || p == FY_LORA_B || p == FY_LORA_EMBEDDING_A || p == FY_LORA_EMBEDDING_B;
}

/* Puts a factor, or lora_B.bias, to the other one of its module. */
static int add_factor(fy_lora_adapter *a, fy_lora_change *g, const fy_lora_name *n,
                      const fy_ckpt_tensor *t, fy_err *e)
{
    bool embedding = n->part == FY_LORA_EMBEDDING_A || n->part == FY_LORA_EMBEDDING_B;
    bool is_a = n->part == FY_LORA_A || n->part == FY_LORA_EMBEDDING_A;
    if ((is_a ? g->a : g->b) != NULL)
        return bad_name(a, t->name, "is there twice, under the names of two adapters", e);
    if ((g->a != NULL || g->b != NULL) && g->embedding != embedding)
        return bad_name(a, t->name, "and lora_embedding of the same module exclude each other", e);
    if (!fy_ckpt_can_read(t))
        return bad_name(a, t->name, "is of a type that ferry does not convert", e);
    g->module = n->module;
    g->embedding = embedding;
    g->bias = n->part == FY_LORA_BIAS;
    if (is_a)
        g->a = t;
    else
        g->b = t;
    return 0;
}

static int add_tensor(fy_lora_adapter *a, fy_ckpt *c, const fy_ckpt_tensor *t, fy_err *e)
{
    fy_lora_name n = fy_lora_name_of(t->name);
    fy_lora_change *g;
    if (n.part == FY_LORA_DORA)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: it has lora_magnitude_vector: DoRA, which ferry does not merge",
                       a->file);
    if (n.part == FY_LORA_UNKNOWN)
        return bad_name(a, t->name,
                        "is not a tensor of LoRA that ferry knows (lora_A, lora_B, "
                        "lora_embedding_A, lora_embedding_B)",
                        e);
    if (is_factor(n.part))
        g = change_of(a, c, n.module, ".weight", strlen(".weight"));
    else if (n.part == FY_LORA_BIAS)
        g = change_of(a, c, n.module, ".bias", strlen(".bias"));
    else
        g = change_of(a, c, n.module, n.rest.ptr, n.rest.len);
    if (g == NULL)
        return fy_nomem(e);
    if (g->first.ptr == NULL)
        g->first = t->name;
    if (n.part != FY_LORA_INSTEAD)
        return add_factor(a, g, &n, t, e);
    if (g->whole != NULL)
        return bad_name(a, t->name, "is there twice, under two names", e);
    g->whole = t;
    return 0;
}

static int check_pairs(const fy_lora_adapter *a, fy_err *e)
{
    for (size_t i = 0; i < a->n; i++) {
        const fy_lora_change *g = &a->changes[i];
        if (g->module.ptr == NULL || g->bias || (g->a != NULL && g->b != NULL))
            continue;
        return bad_name(a, g->first,
                        g->a != NULL ? "has no lora_B next to it" : "has no lora_A next to it", e);
    }
    return a->n > 0 ? 0 : fy_fail(e, FY_EFORMAT, "%s: no tensors in it", a->file);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int open_file(fy_lora_adapter *a, fy_ckpt *c, fy_err *e)
{
    bool safetensors = fy_dir_has(a->dir, SAFETENSORS);
    if (!safetensors && !fy_dir_has(a->dir, TORCH))
        return fy_fail(e, FY_EIO, "%s: neither " SAFETENSORS " nor " TORCH " is in it", a->dir);
    return fy_ckpt_add_file(c, a->dir, safetensors ? SAFETENSORS : TORCH, e);
}

static int adapter_open(fy_lora_adapter *a, fy_ckpt *c, const char *arg, fy_err *e)
{
    *a = (fy_lora_adapter){0};
    if (fy_lora_parse(arg, &a->dir, &a->scale, e) || fy_lora_config_open(&a->config, a->dir, e) ||
        open_file(a, c, e))
        return -1;
    const fy_ckpt_file *f = &c->files[c->n_files - 1];
    a->file = f->path;
    for (size_t i = 0; i < f->n_tensors; i++) {
        if (add_tensor(a, c, &f->tensors[i], e))
            return -1;
    }
    return check_pairs(a, e);
}

static void adapter_release(fy_lora_adapter *a)
{
    fy_lora_config_release(&a->config);
    fy_names_release(&a->index);
    free(a->changes);
    free(a->dir);
    *a = (fy_lora_adapter){0};
}

typedef struct {
    fy_ckpt *c;
    fy_hf_config *config;
    fy_lora_adapter *adapters; /* owned */
    size_t n;
    fy_names tails;  /* fy_lora_tail of the base's names -> index */
    bool *ambiguous; /* owned; per tensor: another one has its tail */
    bool *replaced;  /* owned; per tensor */
} merge;

/* --- messages --------------------------------------------------------------------------------- */

enum { NAME_BYTES = 2 * FY_QUOTE_BYTES, SHAPE_BYTES = 22 * FY_MAX_RANK };

static const char *shape_text(char out[SHAPE_BYTES], const fy_ckpt_tensor *t)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < t->rank; d++)
        at += (size_t)snprintf(out + at, SHAPE_BYTES - at, "%s%" PRIu64, d > 0 ? ", " : "",
                               t->shape[d]);
    return out;
}

static int bad_shapes(const fy_lora_adapter *a, const fy_lora_change *g, const fy_ckpt_tensor *base,
                      fy_err *e)
{
    char q[NAME_BYTES], one[SHAPE_BYTES], two[SHAPE_BYTES], three[SHAPE_BYTES];
    fy_quote(q, sizeof q, base->name);
    if (g->module.ptr == NULL || g->bias)
        return fy_fail(e, FY_EFORMAT, "%s: its '%s' has shape [%s], that of the checkpoint [%s]",
                       a->file, q, shape_text(one, g->bias ? g->b : g->whole),
                       shape_text(two, base));
    return fy_fail(e, FY_EFORMAT, "%s: A [%s] and B [%s] do not fit '%s' [%s] of the checkpoint",
                   a->file, shape_text(one, g->a), shape_text(two, g->b), q,
                   shape_text(three, base));
}

/* --- names ------------------------------------------------------------------------------------ */

static int index_tails(merge *m, fy_err *e)
{
    size_t n = fy_ckpt_n_tensors(m->c);
    m->ambiguous = calloc(n + 1, sizeof *m->ambiguous);
    m->replaced = calloc(n + 1, sizeof *m->replaced);
    if (m->ambiguous == NULL || m->replaced == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        fy_span tail = fy_lora_tail(m->c->tensors[i].name);
        uint32_t other;
        int rc = fy_names_add(&m->tails, tail, (uint32_t)i);
        if (rc < 0)
            return fy_nomem(e);
        if (rc == 1 && fy_names_find(&m->tails, tail, &other))
            m->ambiguous[other] = true;
    }
    return 0;
}

/* The name in the checkpoint's form of the family's first row for the slot; false: it has none. */
static bool name_of_slot(const merge *m, fy_slot slot, char out[FY_HF_NAME_BYTES])
{
    const fy_family *f = m->config->family;
    size_t n_found;
    for (size_t i = 0; i < f->n_rows; i++) {
        if (f->rows[i].slot != slot || f->rows[i].hf == NULL)
            continue;
        fy_name_in_scheme(fy_prefix_scheme_of(m->c, f, &n_found), f->rows[i].hf, out);
        return true;
    }
    return false;
}

/* The tensor that an adapter's name means; NULL: none. */
static fy_ckpt_tensor *find(const merge *m, fy_span name)
{
    char output[FY_HF_NAME_BYTES];
    uint32_t i;
    if (fy_names_find(&m->c->index, name, &i))
        return &m->c->tensors[i];
    if (fy_names_find(&m->tails, fy_lora_tail(name), &i) && !m->ambiguous[i])
        return &m->c->tensors[i];
    /* What newer versions of a class call the output matrix (GPT-NeoX: embed_out). */
    if (fy_span_is(name, "lm_head.weight") && name_of_slot(m, FY_T_OUTPUT, output) &&
        fy_names_find(&m->c->index, fy_span_of(output), &i))
        return &m->c->tensors[i];
    return NULL;
}

static int no_such_tensor(const merge *m, const fy_lora_adapter *a, const fy_lora_change *g,
                          fy_err *e)
{
    enum { CANDIDATES = 4096 };
    char q[NAME_BYTES], n[NAME_BYTES], own[NAME_BYTES];
    size_t n_base = fy_ckpt_n_tensors(m->c), n_names = n_base < CANDIDATES ? n_base : CANDIDATES;
    fy_arena arena = {0};
    const char **names = fy_arena_calloc(&arena, n_names, sizeof *names);
    const char *word = fy_arena_strndup(&arena, g->target.ptr, g->target.len), *near = NULL;
    bool good = names != NULL && word != NULL && g->target.len < FY_HF_NAME_BYTES;
    for (size_t i = 0; i < n_names && good; i++) {
        fy_span name = m->c->tensors[i].name;
        size_t len = name.len < FY_HF_NAME_BYTES ? name.len : FY_HF_NAME_BYTES;
        names[i] = fy_arena_strndup(&arena, name.ptr, len);
        good = names[i] != NULL;
    }
    if (good)
        near = fy_nearest(word, names, n_names);
    fy_quote(q, sizeof q, g->target);
    fy_quote(own, sizeof own, g->first);
    fy_fail(e, FY_EFORMAT, "%s: '%s' changes '%s', which the checkpoint does not have%s%s%s",
            a->file, own, q, near != NULL ? " (the nearest name is " : "",
            near != NULL ? fy_quote(n, sizeof n, fy_span_of(near)) : "", near != NULL ? ")" : "");
    fy_arena_release(&arena);
    return -1;
}

/* --- tied embeddings -------------------------------------------------------------------------- */

static fy_lora_change *find_change(const fy_lora_adapter *a, const char *name)
{
    fy_span tail = fy_lora_tail(fy_span_of(name));
    for (size_t i = 0; i < a->n; i++) {
        if (fy_span_eq(fy_lora_tail(a->changes[i].target), tail))
            return &a->changes[i];
    }
    return NULL;
}

/* Is x [m, n] y [n, m] turned? */
static bool are_turned(const fy_ckpt_tensor *x, const fy_ckpt_tensor *y)
{
    fy_kernels k = fy_kernels_for(0);
    if (x->rank != 2 || y->rank != 2 || x->shape[0] != y->shape[1] || x->shape[1] != y->shape[0])
        return false;
    for (uint64_t i = 0; i < fy_ckpt_n_elements(x); i++) {
        float one, two;
        fy_ckpt_read(&k, x, i, 1, &one);
        fy_ckpt_read(&k, y, i % x->shape[1] * x->shape[0] + i / x->shape[1], 1, &two);
        if (one != two)
            return false;
    }
    return true;
}

/* Do both make the same of the one matrix? */
static bool are_alike(const fy_lora_config *c, const fy_lora_change *embedding,
                      const fy_lora_change *output)
{
    double one = 0, two = 0;
    if ((embedding->whole == NULL) != (output->whole == NULL) ||
        (embedding->a == NULL) != (output->a == NULL))
        return false;
    if (embedding->whole != NULL && !fy_ckpt_same(embedding->whole, output->whole))
        return false;
    return embedding->a == NULL ||
           (embedding->embedding && !output->embedding &&
            fy_lora_config_scale(c, embedding->module, 1, &one, NULL) == 0 &&
            fy_lora_config_scale(c, output->module, 1, &two, NULL) == 0 && one == two &&
            are_turned(embedding->a, output->b) && are_turned(embedding->b, output->a));
}

/* The output matrix, so far the embedding, becomes a tensor of its own. */
static int untie(merge *m, const char *embedding, const char *output, fy_err *e)
{
    fy_ckpt *c = m->c;
    uint32_t from, to;
    if (!fy_names_find(&c->index, fy_span_of(embedding), &from))
        return 0; /* the plan says what is missing */
    fy_ckpt_tensor t = c->tensors[from];
    t.name = (fy_span){fy_arena_strndup(&c->arena, output, strlen(output)), strlen(output)};
    if (t.name.ptr == NULL)
        return fy_nomem(e);
    if (fy_names_find(&c->index, t.name, &to))
        c->tensors[to] = t;
    else if (fy_ckpt_add_tensor(c, &t, e))
        return -1;
    m->config->tied = false;
    fy_log(FY_LOG_INFO,
           "an adapter changes the embedding or the output matrix, which were one: %s is stored",
           output);
    return 0;
}

static int resolve_ties(merge *m, fy_err *e)
{
    char embedding[FY_HF_NAME_BYTES], output[FY_HF_NAME_BYTES];
    const fy_lora_adapter *apart = NULL, *together = NULL;
    bool has_output = name_of_slot(m, FY_T_OUTPUT, output);
    if (!m->config->tied || !name_of_slot(m, FY_T_TOKEN_EMBD, embedding))
        return 0;
    if (!has_output)
        snprintf(output, sizeof output, "lm_head.weight");
    for (size_t i = 0; i < m->n; i++) {
        const fy_lora_adapter *a = &m->adapters[i];
        fy_lora_change *of_output = find_change(a, output),
                       *of_embedding = find_change(a, embedding);
        bool one = a->config.keeps_tied && of_embedding != NULL &&
                   (of_output == NULL || are_alike(&a->config, of_embedding, of_output));
        if (one && of_output != NULL)
            of_output->said = true;
        if (one)
            together = a;
        else if (of_output != NULL || of_embedding != NULL)
            apart = a;
    }
    if (apart == NULL)
        return 0;
    if (!has_output)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: it changes the embedding or the output matrix, which are one in every "
                       "%s model, and without ensure_weight_tying they would become two",
                       apart->file, m->config->family->name);
    if (together != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s keeps embedding and output matrix one (ensure_weight_tying), %s makes "
                       "them two; merge one of them",
                       together->dir, apart->dir);
    return untie(m, embedding, output, e);
}

/* --- changes ---------------------------------------------------------------------------------- */

/* Is it a Conv1D, whose matrix is [in, out]? Then PEFT takes B A turned, whatever fan_in_fan_out
 * says. */
static bool is_conv1d(const merge *m, const fy_ckpt_tensor *t)
{
    const fy_family *f = m->config->family;
    fy_span name = fy_lora_tail(t->name);
    for (size_t i = 0; i < f->n_rows; i++) {
        const fy_tensor_row *row = &f->rows[i];
        if (row->hf == NULL || row->transform != FY_X_TRANSPOSE || row->dims[2] != FY_D_END)
            continue;
        fy_span hf = fy_lora_tail(fy_span_of(row->hf));
        size_t k = 0, at = 0;
        while (k < hf.len && at < name.len) {
            if (hf.ptr[k] == '%') {
                while (at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9')
                    at++;
                k += 2;
            } else if (hf.ptr[k++] != name.ptr[at++]) {
                break;
            }
        }
        if (k == hf.len && at == name.len)
            return true;
    }
    return false;
}

/* A [rank, in], B [out, rank] */
static int check_factors(const fy_lora_adapter *a, const fy_lora_change *g,
                         const fy_ckpt_tensor *base, bool turned, fy_err *e)
{
    uint32_t rank;
    char q[NAME_BYTES], one[SHAPE_BYTES], two[SHAPE_BYTES];
    if (g->a->rank != 2 || g->b->rank != 2 || base->rank != 2 || g->a->shape[0] == 0 ||
        g->a->shape[0] != g->b->shape[1] || base->shape[turned ? 1 : 0] != g->b->shape[0] ||
        base->shape[turned ? 0 : 1] != g->a->shape[1])
        return bad_shapes(a, g, base, e);
    if (fy_lora_config_rank(&a->config, g->module, &rank, e))
        return fy_ctx(e, "%s/" FY_LORA_CONFIG, a->dir);
    if (g->a->shape[0] != rank)
        return fy_fail(e, FY_EFORMAT,
                       "%s: A [%s] and B [%s] of '%s' are of another rank than " FY_LORA_CONFIG
                       " says, which is %" PRIu32,
                       a->file, shape_text(one, g->a), shape_text(two, g->b),
                       fy_quote(q, sizeof q, g->module), rank);
    return 0;
}

static void append(fy_ckpt_tensor *t, fy_lora_delta *d)
{
    const fy_lora_delta **to = &t->delta;
    while (*to != NULL)
        to = (const fy_lora_delta **)(uintptr_t) & (*to)->next;
    *to = d;
    t->plain = false;
}

static int add_delta(const merge *m, const fy_lora_adapter *a, const fy_lora_change *g,
                     fy_ckpt_tensor *base, fy_err *e)
{
    bool turned = g->embedding || (!g->bias && is_conv1d(m, base));
    uint32_t rank;
    double scale;
    fy_lora_delta *d = fy_arena_calloc(&m->c->arena, 1, sizeof *d);
    if (d == NULL)
        return fy_nomem(e);
    if (g->bias && (g->b->rank != 1 || base->rank != 1 || base->shape[0] != g->b->shape[0]))
        return bad_shapes(a, g, base, e);
    if (!g->bias && check_factors(a, g, base, turned, e))
        return -1;
    if (fy_lora_config_rank(&a->config, g->module, &rank, e) ||
        fy_lora_config_scale(&a->config, g->module, rank, &scale, e))
        return fy_ctx(e, "%s/" FY_LORA_CONFIG, a->dir);
    *d = (fy_lora_delta){
        .left = g->bias  ? NULL
                : turned ? g->a
                         : g->b,
        .right = g->bias || turned ? g->b : g->a,
        .left_turned = turned,
        .right_turned = turned,
        .rank = g->bias ? 1 : rank,
        .width = base->shape[base->rank - 1],
        .scale = (float)(scale * a->scale),
        .cache = m->c->lora,
    };
    append(base, d);
    return 0;
}

static int replace(const merge *m, const fy_lora_adapter *a, const fy_lora_change *g,
                   fy_ckpt_tensor *base, fy_err *e)
{
    size_t i = (size_t)(base - m->c->tensors);
    char q[NAME_BYTES];
    fy_ckpt_tensor now = *g->whole;
    if (now.rank != base->rank || memcmp(now.shape, base->shape, now.rank * sizeof *now.shape) != 0)
        return bad_shapes(a, g, base, e);
    if (m->replaced[i]) {
        now.delta = NULL;
        fy_ckpt_tensor before = *base;
        before.plain = now.plain; /* what is added to it does not count */
        if (!fy_ckpt_same(&before, &now))
            return fy_fail(e, FY_EFORMAT,
                           "%s: it replaces '%s', which an adapter before it replaces by something "
                           "else",
                           a->file, fy_quote(q, sizeof q, base->name));
    }
    m->replaced[i] = true;
    now.name = base->name;
    now.delta = base->delta;
    now.plain = now.plain && base->delta == NULL;
    *base = now;
    return 0;
}

static int apply(const merge *m, const fy_lora_adapter *a, fy_err *e)
{
    size_t n_deltas = 0;
    for (size_t i = 0; i < a->n; i++) {
        const fy_lora_change *g = &a->changes[i];
        if (g->said)
            continue;
        fy_ckpt_tensor *base = find(m, g->target);
        if (base == NULL)
            return no_such_tensor(m, a, g, e);
        if (g->whole != NULL && replace(m, a, g, base, e))
            return -1;
        if (g->module.ptr != NULL && add_delta(m, a, g, base, e))
            return -1;
        n_deltas += g->module.ptr != NULL;
    }
    fy_log(FY_LOG_INFO, "merging %s: %zu matrices, rank %" PRIu32 ", times %g%s", a->dir, n_deltas,
           a->config.rank, a->scale,
           a->n > n_deltas ? "; what it has whole replaces the base's" : "");
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void compare_base(const fy_lora_adapter *a, const char *path)
{
    char q[NAME_BYTES];
    const char *base = a->config.base;
    if (base != NULL && *base != '\0' && !fy_span_eq(fy_path_base(base), fy_path_base(path)))
        fy_log(FY_LOG_INFO, "%s was trained on '%s'", a->dir,
               fy_quote(q, sizeof q, fy_span_of(base)));
}

static int run(merge *m, const char *path, const char *const *args, fy_err *e)
{
    if (fy_ckpt_rotates_neighbours(m->c))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "--lora: an adapter of PEFT does not fit the order of rows in a checkpoint "
                       "of Meta's form; give the Hugging Face form of the base");
    m->c->lora = fy_lora_cache_new(e);
    if (m->c->lora == NULL)
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        if (adapter_open(&m->adapters[i], m->c, args[i], e))
            return -1;
        compare_base(&m->adapters[i], path);
    }
    if (resolve_ties(m, e) || index_tails(m, e))
        return -1;
    for (size_t i = 0; i < m->n; i++) {
        if (apply(m, &m->adapters[i], e))
            return -1;
    }
    /* Tensors may have moved, and with them the scales. */
    return m->config->fp8 || m->config->mxfp4 ? fy_ckpt_pair_scales(m->c, m->config, e) : 0;
}

int fy_ckpt_merge_loras(fy_ckpt *c, fy_hf_config *config, const char *path, const char *const *args,
                        size_t n, fy_err *e)
{
    if (n == 0)
        return 0;
    merge m = {.c = c, .config = config, .n = n};
    m.adapters = calloc(n, sizeof *m.adapters);
    int rc = m.adapters != NULL ? run(&m, path, args, e) : fy_nomem(e);
    for (size_t i = 0; i < n && m.adapters != NULL; i++)
        adapter_release(&m.adapters[i]);
    fy_names_release(&m.tails);
    free(m.ambiguous);
    free(m.replaced);
    free(m.adapters);
    return rc;
}
