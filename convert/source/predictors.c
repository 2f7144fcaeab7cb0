/* Finds PowerInfer's predictors in files of their own or among the weights. */
#include "convert/source/predictors.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/source/checkpoint_impl.h"
#include "convert/source/config_value.h"

static const char *const names[2] = {"fc1.weight", "fc2.weight"};

/* As many files as layers: another number is a predictor of another model. */
static int check_count(const char *dir, uint32_t n_layer, fy_err *e)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    if (d == NULL)
        return fy_fail_errno(e, "%s", dir);
    for (struct dirent *en; (en = readdir(d)) != NULL;)
        n += fy_span_ends(fy_span_of(en->d_name), ".pt");
    closedir(d);
    if (n == n_layer)
        return 0;
    return fy_fail(e, FY_EFORMAT,
                   "%s: has %zu predictors (*.pt), expected one for each of the model's %u layers",
                   dir, n, n_layer);
}

static int bad_shape(const fy_ckpt_tensor *t, const char *expected, fy_err *e)
{
    fy_str shape = {0};
    for (uint32_t i = 0; i < t->rank; i++)
        fy_str_printf(&shape, "%s%llu", i > 0 ? ", " : "", (unsigned long long)t->shape[i]);
    fy_fail(e, FY_EFORMAT, "'%.*s' has shape [%s], expected %s", (int)t->name.len, t->name.ptr,
            fy_str_z(&shape), expected);
    fy_str_release(&shape);
    return -1;
}

/* t: fc1 and fc2 of a layer. */
static int check_shapes(const fy_ckpt_tensor *const t[2], uint32_t n_embd, uint32_t n_ff, fy_err *e)
{
    char expected[80];
    snprintf(expected, sizeof expected, "[rank, %u], the width of the model", n_embd);
    if (t[0]->rank != 2 || t[0]->shape[0] == 0 || t[0]->shape[1] != n_embd)
        return bad_shape(t[0], expected, e);
    snprintf(expected, sizeof expected, "[%u, %llu], the neurons of the layer and fc1's rows", n_ff,
             (unsigned long long)t[0]->shape[0]);
    if (t[1]->rank != 2 || t[1]->shape[0] != n_ff || t[1]->shape[1] != t[0]->shape[0])
        return bad_shape(t[1], expected, e);
    for (int i = 0; i < 2; i++) {
        if (!fy_ckpt_can_read(t[i]))
            return fy_fail(e, FY_EUNSUPPORTED, "'%s' is of type %s, which ferry does not convert",
                           names[i], fy_dtype_name(t[i]->dtype));
    }
    return 0;
}

/* Its name in a GGUF file; ptr NULL: out of memory. */
static fy_span name_of(fy_ckpt *c, uint32_t layer, int i)
{
    char name[40];
    const size_t n = (size_t)snprintf(name, sizeof name, "blk.%u.%s", layer, names[i]);
    return (fy_span){fy_arena_strndup(&c->arena, name, n), n};
}

static int is_there(fy_span name, fy_err *e)
{
    return fy_fail(e, FY_EFORMAT, "the checkpoint has '%s' already", name.ptr);
}

/* --- in files of their own -------------------------------------------------------------------- */

static int add(fy_ckpt *c, const fy_ckpt_tensor *from, uint32_t layer, int i, fy_err *e)
{
    fy_ckpt_tensor t = *from;
    t.name = name_of(c, layer, i);
    if (t.name.ptr == NULL)
        return fy_nomem(e);
    const int rc = fy_ckpt_add_tensor(c, &t, e);
    return rc > 0 ? is_there(t.name, e) : rc;
}

static int take_layer(fy_ckpt *c, uint32_t layer, uint32_t n_embd, uint32_t n_ff, fy_err *e)
{
    const fy_ckpt_file *f = &c->files[c->n_files - 1];
    const fy_ckpt_tensor *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = fy_ckpt_file_find(f, fy_span_of(names[i]));
        if (t[i] == NULL)
            return fy_fail(e, FY_EFORMAT, "no '%s' in it: not a predictor", names[i]);
    }
    if (f->n_tensors != 2)
        return fy_fail(e, FY_EFORMAT, "has %zu tensors, expected fc1.weight and fc2.weight",
                       f->n_tensors);
    return check_shapes(t, n_embd, n_ff, e) != 0 || add(c, t[0], layer, 0, e) != 0 ||
                   add(c, t[1], layer, 1, e) != 0
               ? -1
               : 0;
}

int fy_ckpt_add_predictors(fy_ckpt *c, const char *dir, const fy_hparams *hp, fy_err *e)
{
    if (check_count(dir, hp->n_layer, e) != 0)
        return -1;
    for (size_t i = 0; i < c->n_tensors; i++) { /* the list moves as it grows */
        if (c->tensors[i].scale != NULL)
            return fy_fail(e, FY_EUNSUPPORTED, "a checkpoint of FP8 or MXFP4 takes no predictors");
    }
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        char name[32];
        snprintf(name, sizeof name, "model_%u.pt", i);
        if (fy_ckpt_add_file(c, dir, name, e) != 0)
            return -1;
        if (take_layer(c, i, hp->n_embd, fy_layer_shape_of(hp, i).n_ff, e) != 0)
            return fy_ctx(e, "%s/%s", dir, name);
    }
    return 0;
}

/* --- among the weights ------------------------------------------------------------------------ */

static int rename_tensor(fy_ckpt *c, const fy_ckpt_tensor *t, uint32_t layer, int i, fy_err *e)
{
    const size_t at = (size_t)(t - c->tensors);
    const fy_span name = name_of(c, layer, i);
    if (name.ptr == NULL)
        return fy_nomem(e);
    const int rc = fy_names_add(&c->index, name, (uint32_t)at);
    if (rc != 0)
        return rc < 0 ? fy_nomem(e) : is_there(name, e);
    c->tensors[at].name = name;
    return 0;
}

int fy_ckpt_own_predictors(fy_ckpt *c, const fy_hparams *hp, fy_err *e)
{
    for (uint32_t layer = 0; layer < hp->n_layer; layer++) {
        const fy_ckpt_tensor *t[2];
        for (int i = 0; i < 2; i++) {
            char name[64];
            snprintf(name, sizeof name, "model.layers.%u.mlp.predictor.%s", layer, names[i]);
            t[i] = fy_ckpt_find(c, fy_span_of(name));
            if (t[i] == NULL)
                return fy_fail(e, FY_EFORMAT,
                               "no '%s' among the weights: the model's own directory has no "
                               "predictors",
                               name);
        }
        if (check_shapes(t, hp->n_embd, fy_layer_shape_of(hp, layer).n_ff, e) != 0 ||
            rename_tensor(c, t[0], layer, 0, e) != 0 || rename_tensor(c, t[1], layer, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* --- the threshold ---------------------------------------------------------------------------- */

int fy_predictor_threshold(const char *dir, float *out, fy_err *e)
{
    char *path = fy_path_join(dir, "config.json");
    json_t *root = path != NULL && fy_file_exists(path) ? fy_cfg_tree_of(path, e) : NULL;
    fy_err bad = {0};
    double v = 0;
    int rc = path == NULL ? fy_nomem(e) : root != NULL ? 0 : fy_file_exists(path) ? -1 : 1;
    if (rc == 0) {
        const fy_cfg s = fy_cfg_of(root, &bad);
        rc = fy_cfg_double(&s, "sparse_threshold", &v) ? 0 : 1;
        if (bad.code != FY_OK)
            rc = fy_fail(e, bad.code, "%s: %s", path, bad.msg);
    }
    if (rc == 0)
        *out = (float)v;
    json_decref(root);
    free(path);
    return rc;
}
