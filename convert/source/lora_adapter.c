#include "convert/source/lora_adapter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "convert/source/checkpoint_read.h"

#define SAFETENSORS "adapter_model.safetensors"
#define TORCH       "adapter_model.bin"

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

/* Tensor i of the adapter's file, kept as long as the checkpoint. */
static const fy_ckpt_tensor *keep(fy_ckpt *c, const fy_ckpt_file *f, size_t i)
{
    fy_ckpt_tensor *t = fy_arena_alloc(&c->arena, sizeof *t);
    fy_ckpt_part *part = fy_arena_alloc(&c->arena, sizeof *part);
    if (t == NULL || part == NULL)
        return NULL;
    fy_ckpt_file_tensor(f, i, t, part);
    return t;
}

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
                        "is no part of LoRA that ferry knows (lora_A, lora_B, "
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
                        g->a != NULL ? "has no lora_B beside it" : "has no lora_A beside it", e);
    }
    return a->n > 0 ? 0 : fy_fail(e, FY_EFORMAT, "%s: no tensors in it", a->file);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int open_file(fy_lora_adapter *a, fy_ckpt *c, fy_err *e)
{
    int rc = fy_ckpt_has(a->dir, SAFETENSORS, e);
    if (rc < 0)
        return -1;
    if (rc == 1)
        return fy_ckpt_add_file(c, a->dir, SAFETENSORS, e);
    rc = fy_ckpt_has(a->dir, TORCH, e);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return fy_fail(e, FY_EIO, "%s: neither " SAFETENSORS " nor " TORCH " is in it", a->dir);
    return fy_ckpt_add_file(c, a->dir, TORCH, e);
}

int fy_lora_adapter_open(fy_lora_adapter *a, fy_ckpt *c, const char *arg, fy_err *e)
{
    *a = (fy_lora_adapter){0};
    if (fy_lora_parse(arg, &a->dir, &a->scale, e) || fy_lora_config_open(&a->config, a->dir, e) ||
        open_file(a, c, e))
        return -1;
    const fy_ckpt_file *f = &c->files[c->n_files - 1];
    a->file = fy_ckpt_file_path(f);
    for (size_t i = 0; i < fy_ckpt_file_n_tensors(f); i++) {
        const fy_ckpt_tensor *t = keep(c, f, i);
        if (t == NULL)
            return fy_nomem(e);
        if (add_tensor(a, c, t, e))
            return -1;
    }
    return check_pairs(a, e);
}

void fy_lora_adapter_release(fy_lora_adapter *a)
{
    fy_lora_config_release(&a->config);
    fy_names_release(&a->index);
    free(a->changes);
    free(a->dir);
    *a = (fy_lora_adapter){0};
}
