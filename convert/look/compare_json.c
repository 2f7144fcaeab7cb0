#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/json_tree.h"
#include "convert/look/compare_impl.h"

enum { SHOWN = 5 };

static const char *const states[] = {
    [FY_PAIR_EQUAL] = "equal",     [FY_PAIR_WITHIN] = "within",     [FY_PAIR_BEYOND] = "beyond",
    [FY_PAIR_SHAPE] = "shape",     [FY_PAIR_UNREAD] = "unreadable", [FY_PAIR_ONLY_A] = "only in A",
    [FY_PAIR_ONLY_B] = "only in B"};

static json_t *side_json(fy_json_maker *m, const fy_source *s)
{
    json_t *o = json_object();
    fy_make_set(m, o, "path", fy_make_text(fy_span_of(fy_source_path(s))));
    fy_make_set(m, o, "is", json_string(fy_source_what(s)));
    fy_make_set(m, o, "tensors", fy_make_u64(fy_source_n_tensors(s)));
    return o;
}

static json_t *shape_json(fy_json_maker *m, const fy_source_tensor *t)
{
    json_t *shape = json_array();
    for (uint32_t d = 0; d < t->rank; d++)
        fy_make_append(m, shape, fy_make_u64(t->shape[d]));
    return shape;
}

static void set_tensor(fy_json_maker *m, json_t *o, const char *which, const fy_source_tensor *t)
{
    json_t *side = json_object();
    fy_make_set(m, side, "type", json_string(t->type));
    fy_make_set(m, side, "shape", shape_json(m, t));
    fy_make_set(m, o, which, side);
}

static json_t *first_json(fy_json_maker *m, const fy_tensor_pair *p)
{
    json_t *first = json_object(), *index = json_array();
    uint64_t i = p->diff.first, at[FY_MAX_RANK];
    for (uint32_t d = p->a->rank; d-- > 0; i /= p->a->shape[d])
        at[d] = i % p->a->shape[d];
    for (uint32_t d = 0; d < p->a->rank; d++)
        fy_make_append(m, index, fy_make_u64(at[d]));
    fy_make_set(m, first, "index", index);
    fy_make_set(m, first, "a", fy_make_number((double)p->diff.first_a));
    fy_make_set(m, first, "b", fy_make_number((double)p->diff.first_b));
    return first;
}

static json_t *pair_json(fy_json_maker *m, const fy_tensor_pair *p)
{
    const fy_tensor_diff *d = &p->diff;
    json_t *o = json_object();
    fy_make_set(m, o, "name", fy_make_text(p->a != NULL ? p->a->name : p->b->name));
    fy_make_set(m, o, "result", json_string(states[p->state]));
    if (p->a != NULL)
        set_tensor(m, o, "a", p->a);
    if (p->b != NULL)
        set_tensor(m, o, "b", p->b);
    if (p->why != NULL)
        fy_make_set(m, o, "why", fy_make_text(fy_span_of(p->why)));
    if (p->state > FY_PAIR_BEYOND)
        return o;
    fy_make_set(m, o, "elements", fy_make_u64(d->n));
    fy_make_set(m, o, "different", fy_make_u64(d->n_different));
    fy_make_set(m, o, "not_finite", fy_make_u64(d->n_wild));
    fy_make_set(m, o, "max_diff", fy_make_number(d->max_diff));
    fy_make_set(m, o, "relative", fy_make_number(fy_tensor_diff_relative(d)));
    fy_make_set(m, o, "rmse", fy_make_number(fy_tensor_diff_rmse(d)));
    fy_make_set(m, o, "cosine", fy_make_number(fy_tensor_diff_cosine(d)));
    if (d->n_different > 0)
        fy_make_set(m, o, "first", first_json(m, p));
    return o;
}

static json_t *keys_json(fy_json_maker *m, const fy_comparison *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_keys; i++) {
        const fy_key_pair *k = &c->keys[i];
        json_t *o = json_object();
        fy_make_set(m, o, "key", json_string(fy_str_z(&k->key)));
        fy_make_set(m, o, "a", k->has_a ? json_string(fy_str_z(&k->a)) : json_null());
        fy_make_set(m, o, "b", k->has_b ? json_string(fy_str_z(&k->b)) : json_null());
        fy_make_set(m, o, "counts", json_boolean(!k->is_provenance));
        fy_make_append(m, list, o);
    }
    return list;
}

static json_t *vocab_json(fy_json_maker *m, const fy_comparison *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_vocab; i++) {
        const fy_vocab_pair *v = &c->vocab[i];
        json_t *o = json_object(), *first = json_array();
        for (uint64_t k = 0; k < v->n_different && k < SHOWN; k++) {
            json_t *entry = json_object();
            fy_make_set(m, entry, "index", fy_make_u64(v->first[k]));
            fy_make_set(m, entry, "a", json_string(fy_str_z(&v->a[k])));
            fy_make_set(m, entry, "b", json_string(fy_str_z(&v->b[k])));
            fy_make_append(m, first, entry);
        }
        fy_make_set(m, o, "what", json_string(v->what));
        fy_make_set(m, o, "entries_a", fy_make_u64(v->n_a));
        fy_make_set(m, o, "entries_b", fy_make_u64(v->n_b));
        fy_make_set(m, o, "different", fy_make_u64(v->n_different));
        fy_make_set(m, o, "first", first);
        fy_make_append(m, list, o);
    }
    return list;
}

static json_t *counts_json(fy_json_maker *m, const fy_comparison *c)
{
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        fy_make_set(m, o, states[i], fy_make_u64(c->n_of[i]));
    return o;
}

int fy_compare_put_json(const fy_comparison *c, bool all, fy_str *out, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *top = json_object(), *tensors = json_array();
    for (size_t i = 0; i < c->n_pairs; i++) {
        if (all || c->pairs[i].state != FY_PAIR_EQUAL)
            fy_make_append(&m, tensors, pair_json(&m, &c->pairs[i]));
    }
    fy_make_set(&m, top, "a", side_json(&m, c->a));
    fy_make_set(&m, top, "b", side_json(&m, c->b));
    fy_make_set(&m, top, "tolerance", fy_make_number(c->tolerance));
    fy_make_set(&m, top, "equal", json_boolean(c->equal));
    fy_make_set(&m, top, "within", json_boolean(c->within));
    fy_make_set(&m, top, "counts", counts_json(&m, c));
    fy_make_set(&m, top, "tensors", tensors);
    if (c->keys_a != NULL)
        fy_make_set(&m, top, "keys", keys_json(&m, c));
    if (c->has_vocab)
        fy_make_set(&m, top, "vocabulary", vocab_json(&m, c));
    if (c->no_keys.code != FY_OK)
        fy_make_set(&m, top, "no_keys", fy_make_text(fy_span_of(c->no_keys.msg)));
    if (c->no_tokenizer.code != FY_OK)
        fy_make_set(&m, top, "no_tokenizer", fy_make_text(fy_span_of(c->no_tokenizer.msg)));
    return fy_make_end(&m, top, out, e);
}
