/* The result of a comparison as tables and as JSON. */
#include "convert/look/compare.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/str.h"
#include "convert/look/model_source.h"

static const fy_source_tensor *either(const fy_tensor_pair *p)
{
    return p->a != NULL ? p->a : p->b;
}

static bool has_numbers(const fy_tensor_pair *p)
{
    return p->state == FY_PAIR_EQUAL || p->state == FY_PAIR_WITHIN || p->state == FY_PAIR_BEYOND;
}

static void put_side(fy_str *out, const char *name, const fy_source *s)
{
    fy_str_printf(out, "%s: ", name);
    fy_str_put_quoted(out, fy_span_of(s->path), SIZE_MAX);
    fy_str_printf(out, " (%s, %zu tensors)\n", fy_source_what(s), s->n_tensors);
}

static void put_numbers(fy_str *out, const fy_tensor_pair *p, double tolerance)
{
    const fy_tensor_diff *d = &p->diff;
    uint64_t at[FY_MAX_RANK];
    char types[40];
    snprintf(types, sizeof types, "%s %s", p->a->type, p->b->type);
    fy_str_printf(out, "%-11s  %9.2e  %9.2e  %9.2e  %11.8f", types, d->max_diff,
                  fy_tensor_diff_relative(d), fy_tensor_diff_rmse(d), fy_tensor_diff_cosine(d));
    if (d->n_different == 0) {
        fy_str_puts(out, "  equal\n");
        return;
    }
    fy_str_printf(out, "  %" PRIu64 " of %" PRIu64 ", first ", d->n_different, d->n);
    fy_source_index(p->a, d->first, at);
    fy_put_shape(out, p->a->rank, at);
    fy_str_puts(out, ": ");
    fy_put_float(out, (double)d->first_a, true);
    fy_str_puts(out, " | ");
    fy_put_float(out, (double)d->first_b, true);
    if (d->n_wild > 0)
        fy_str_printf(out, "; %" PRIu64 " not finite", d->n_wild);
    fy_str_puts(out, tolerance > 0 && p->state == FY_PAIR_WITHIN ? "; within\n" : "\n");
}

static size_t name_width(const fy_comparison *c, bool all)
{
    size_t width = 6;
    for (size_t i = 0; i < c->n_pairs; i++) {
        if (all || c->pairs[i].state != FY_PAIR_EQUAL)
            width = fy_name_column(width, either(&c->pairs[i])->name);
    }
    return width;
}

/* Tensors that have no numbers: they stand first. */
static void put_unequal_tensors(fy_str *out, const fy_comparison *c)
{
    bool any = false;
    for (size_t i = 0; i < c->n_pairs; i++) {
        const fy_tensor_pair *p = &c->pairs[i];
        if (has_numbers(p))
            continue;
        fy_str_puts(out, any ? "  " : "\ntensors that cannot be compared\n  ");
        any = true;
        fy_str_put_quoted(out, either(p)->name, SIZE_MAX);
        if (p->state == FY_PAIR_SHAPE) {
            fy_str_puts(out, ": shape ");
            fy_put_shape(out, p->a->rank, p->a->shape);
            fy_str_puts(out, " | ");
            fy_put_shape(out, p->b->rank, p->b->shape);
        } else if (p->state == FY_PAIR_UNREAD) {
            fy_str_printf(out, ": %s", p->why);
        } else {
            fy_str_printf(out, ": only in %s (%s ", p->a != NULL ? "A" : "B", either(p)->type);
            fy_put_shape(out, either(p)->rank, either(p)->shape);
            fy_str_putc(out, ')');
        }
        fy_str_putc(out, '\n');
    }
}

static void put_tensors(fy_str *out, const fy_comparison *c, bool all)
{
    size_t width = name_width(c, all), n = c->n_of[FY_PAIR_WITHIN] + c->n_of[FY_PAIR_BEYOND];
    if (n == 0 && !(all && c->n_of[FY_PAIR_EQUAL] > 0))
        return;
    fy_str_printf(out, "\n%s, worst first (relative: to the largest value of A)\n  %-*s  ",
                  all ? "tensors" : "tensors that differ", (int)width, "tensor");
    fy_str_printf(out, "%-11s  %9s  %9s  %9s  %11s  %s\n", "types", "max diff", "relative", "rmse",
                  "cosine", "different: A | B");
    for (size_t i = 0; i < c->n_pairs; i++) {
        const fy_tensor_pair *p = &c->pairs[i];
        if (!has_numbers(p) || (p->state == FY_PAIR_EQUAL && !all))
            continue;
        fy_str_puts(out, "  ");
        fy_put_name(out, p->a->name, width);
        put_numbers(out, p, c->tolerance);
    }
}

static void put_keys(fy_str *out, const fy_comparison *c)
{
    if (c->n_keys > 0)
        fy_str_puts(out, "\nkeys that differ\n");
    for (size_t i = 0; i < c->n_keys; i++) {
        const fy_key_pair *k = &c->keys[i];
        fy_str_printf(out, "  %s: %s | %s%s\n", fy_str_z(&k->key),
                      k->has_a ? fy_str_z(&k->a) : "none", k->has_b ? fy_str_z(&k->b) : "none",
                      k->is_provenance ? "  (does not count)" : "");
    }
    if (c->no_keys.code != FY_OK)
        fy_str_printf(out, "\nkeys were not compared: %s\n", c->no_keys.msg);
    if (c->no_tokenizer.code != FY_OK)
        fy_str_printf(out, "\nthe tokenizer was not compared: %s\n", c->no_tokenizer.msg);
}

static void put_vocab(fy_str *out, const fy_comparison *c)
{
    if (c->n_vocab > 0)
        fy_str_puts(out, "\nvocabulary\n");
    for (size_t i = 0; i < c->n_vocab; i++) {
        const fy_vocab_pair *v = &c->vocab[i];
        fy_str_printf(out, "  %s: %" PRIu64 " | %" PRIu64 ", %" PRIu64 " differ\n", v->what, v->n_a,
                      v->n_b, v->n_different);
        for (uint64_t k = 0; k < v->n_different && k < FY_VOCAB_SHOWN; k++)
            fy_str_printf(out, "    %" PRIu64 ": %s | %s\n", v->first[k], fy_str_z(&v->a[k]),
                          fy_str_z(&v->b[k]));
    }
}

static void put_summary(fy_str *out, const fy_comparison *c)
{
    const size_t *n = c->n_of;
    size_t differ = n[FY_PAIR_WITHIN] + n[FY_PAIR_BEYOND];
    fy_str_printf(out, "\n%zu tensor%s: %zu equal, %zu differ", c->n_pairs,
                  c->n_pairs == 1 ? "" : "s", n[FY_PAIR_EQUAL], differ);
    if (c->tolerance > 0 && differ > 0)
        fy_str_printf(out, " (%zu within %g)", n[FY_PAIR_WITHIN], c->tolerance);
    for (fy_pair_state i = FY_PAIR_SHAPE; i <= FY_PAIR_ONLY_B; i++) {
        static const char *const what[] = {[FY_PAIR_SHAPE] = "of another shape",
                                           [FY_PAIR_UNREAD] = "not readable",
                                           [FY_PAIR_ONLY_A] = "only in A",
                                           [FY_PAIR_ONLY_B] = "only in B"};
        if (n[i] > 0)
            fy_str_printf(out, ", %zu %s", n[i], what[i]);
    }
    if (c->keys_a != NULL)
        fy_str_printf(out, "; keys: %zu differ", c->n_counting_keys);
    if (c->n_keys > c->n_counting_keys)
        fy_str_printf(out, ", and %zu that do not count", c->n_keys - c->n_counting_keys);
    if (c->has_vocab)
        fy_str_puts(out, c->n_vocab > 0 ? "; the vocabularies differ" : "; one vocabulary");
    fy_str_putc(out, '\n');
}

void fy_compare_put_text(const fy_comparison *c, bool all, fy_str *out)
{
    put_side(out, "A", c->a);
    put_side(out, "B", c->b);
    put_unequal_tensors(out, c);
    put_tensors(out, c, all);
    put_keys(out, c);
    put_vocab(out, c);
    put_summary(out, c);
    fy_str_puts(out, c->equal ? "equal\n" : c->within ? "within the tolerance\n" : "different\n");
}

/* --- JSON ------------------------------------------------------------------------------------ */

static const char *const states[] = {
    [FY_PAIR_EQUAL] = "equal",     [FY_PAIR_WITHIN] = "within",     [FY_PAIR_BEYOND] = "beyond",
    [FY_PAIR_SHAPE] = "shape",     [FY_PAIR_UNREAD] = "unreadable", [FY_PAIR_ONLY_A] = "only in A",
    [FY_PAIR_ONLY_B] = "only in B"};

static json_t *side_json(const fy_source *s)
{
    return json_pack("{s:o, s:s, s:o}", "path", fy_make_text(fy_span_of(s->path)), "is",
                     fy_source_what(s), "tensors", fy_make_u64(s->n_tensors));
}

static json_t *tensor_json(fy_json_maker *m, const fy_source_tensor *t)
{
    return json_pack("{s:s, s:o}", "type", t->type, "shape", fy_shape_json(m, t->rank, t->shape));
}

static json_t *first_json(fy_json_maker *m, const fy_tensor_pair *p)
{
    uint64_t at[FY_MAX_RANK];
    fy_source_index(p->a, p->diff.first, at);
    return json_pack("{s:o, s:o, s:o}", "index", fy_shape_json(m, p->a->rank, at), "a",
                     fy_make_number((double)p->diff.first_a), "b",
                     fy_make_number((double)p->diff.first_b));
}

static json_t *pair_json(fy_json_maker *m, const fy_tensor_pair *p)
{
    const fy_tensor_diff *d = &p->diff;
    json_t *o = json_object();
    fy_make_set(m, o, "name", fy_make_text(p->a != NULL ? p->a->name : p->b->name));
    fy_make_set(m, o, "result", json_string(states[p->state]));
    if (p->a != NULL)
        fy_make_set(m, o, "a", tensor_json(m, p->a));
    if (p->b != NULL)
        fy_make_set(m, o, "b", tensor_json(m, p->b));
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
        fy_make_append(m, list,
                       json_pack("{s:s, s:s?, s:s?, s:b}", "key", fy_str_z(&k->key), "a",
                                 k->has_a ? fy_str_z(&k->a) : NULL, "b",
                                 k->has_b ? fy_str_z(&k->b) : NULL, "counts", !k->is_provenance));
    }
    return list;
}

static json_t *vocab_json(fy_json_maker *m, const fy_comparison *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_vocab; i++) {
        const fy_vocab_pair *v = &c->vocab[i];
        json_t *first = json_array();
        for (uint64_t k = 0; k < v->n_different && k < FY_VOCAB_SHOWN; k++)
            fy_make_append(m, first,
                           json_pack("{s:o, s:s, s:s}", "index", fy_make_u64(v->first[k]), "a",
                                     fy_str_z(&v->a[k]), "b", fy_str_z(&v->b[k])));
        fy_make_append(m, list,
                       json_pack("{s:s, s:o, s:o, s:o, s:o}", "what", v->what, "entries_a",
                                 fy_make_u64(v->n_a), "entries_b", fy_make_u64(v->n_b), "different",
                                 fy_make_u64(v->n_different), "first", first));
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
    fy_make_set(&m, top, "a", side_json(c->a));
    fy_make_set(&m, top, "b", side_json(c->b));
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
