/* Objects and arrays. Members stand in the order of the schema, so what may follow depends on two
 * numbers: how many properties of the schema lie behind, and how many members are written. Trees
 * are made for those pairs that can be reached, from the last property to the first. */
#include "base/json.h"
#include "grammar/schema_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX      65536
#define NAME_CHARS_MAX 200

static fy_node member(fy_schema *s, fy_node name, fy_node value)
{
    const fy_node parts[] = {name, fy_schema_colon(s), value};
    return name != 0 && value != 0 ? fy_rules_seq(s->r, parts, 3) : 0;
}

/* --- names that are not the schema's ---------------------------------------------------------- */

typedef struct {
    const char *at; /* what is left of a name */
} rest_of_name;

/* What no character of a name is, where names are written without escapes. */
static const fy_cp_range *not_in_names(const fy_schema *s, size_t *n)
{
    static const fy_cp_range json[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    *n = s->quote != NULL ? FY_NOT_IN_NAMES : sizeof json / sizeof json[0];
    return s->quote != NULL ? fy_schema_not_in_names : json;
}

static bool is_in_names(const fy_schema *s, uint32_t cp)
{
    size_t n;
    const fy_cp_range *no = not_in_names(s, &n);
    for (size_t i = 0; i < n; i++) {
        if (cp >= no[i].lo && cp <= no[i].hi)
            return false;
    }
    return true;
}

static fy_node plain_but(fy_schema *s, const fy_cp_range *but, size_t n)
{
    size_t n_no;
    const fy_cp_range *no = not_in_names(s, &n_no);
    fy_cp_range *all = calloc(n + n_no, sizeof *all);
    if (all == NULL) {
        fy_nomem(s->e);
        return 0;
    }
    memcpy(all, but, n * sizeof *all);
    memcpy(all + n, no, n_no * sizeof *all);
    const fy_node made = fy_rules_class(s->r, all, n + n_no, true);
    free(all);
    return made;
}

/* Names, at least one character long when `some`, that differ from all of these. The schema's names
 * are sorted, so those with the same next character stand together. As deep as the longest. */
static fy_node other_names(fy_schema *s, rest_of_name *names, size_t n, bool some, int depth)
{
    fy_cp_range *next = calloc(n + 1, sizeof *next);
    fy_node all = 0;
    size_t n_next = 0;
    bool taken = false;
    if (next == NULL) {
        fy_nomem(s->e);
        return 0;
    }
    for (size_t i = 0, j; i < n; i = j) {
        uint32_t cp = 0, other;
        const int bytes = fy_utf8_next(names[i].at, strlen(names[i].at) + 1, &cp);
        for (j = i + 1;
             j < n && fy_utf8_next(names[j].at, strlen(names[j].at) + 1, &other) > 0 && other == cp;
             j++)
            ;
        if (cp == 0) {
            taken = true;
            continue;
        }
        next[n_next++] = (fy_cp_range){cp, cp};
        if (!is_in_names(s, cp) || depth >= NAME_CHARS_MAX)
            continue;
        const fy_node first = fy_rules_class(s->r, &next[n_next - 1], 1, false);
        for (size_t k = i; k < j; k++)
            names[k].at += bytes;
        all = fy_schema_alt(
            s, all, fy_schema_seq(s, first, other_names(s, names + i, j - i, false, depth + 1)));
    }
    const fy_node free_text = fy_rules_repeat(s->r, plain_but(s, next, 0), 0, FY_MANY);
    all = fy_schema_alt(s, all, fy_schema_seq(s, plain_but(s, next, n_next), free_text));
    free(next);
    return taken || some ? all : fy_schema_optional(s, all);
}

/* --- what an object has ----------------------------------------------------------------------- */

typedef struct {
    const char *name; /* view */
    const json_t *schema;
    bool required;
    fy_node member; /* 0: no value is valid */
} property;

typedef struct {
    fy_schema *s;
    const fy_place *place;
    property *list; /* owned */
    size_t n;
    fy_node other; /* a member that the schema does not name; 0: none */
    uint32_t min, max;
} object;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const rest_of_name *)a)->at, ((const rest_of_name *)b)->at);
}

static property *find_property(object *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++) {
        if (strcmp(o->list[i].name, name) == 0)
            return &o->list[i];
    }
    return NULL;
}

/* A required property that "properties" does not name is one of the others. */
static int add_required(object *o, const json_t *schema, const json_t *others)
{
    const json_t *list = json_object_get(schema, "required");
    if (list != NULL && !json_is_array(list))
        return fy_schema_fail(o->s, o->place, FY_EFORMAT, "'required' is not a list of names");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL)
            return fy_schema_fail(o->s, o->place, FY_EFORMAT, "'required' is not a list of names");
        property *p = find_property(o, name);
        if (p == NULL) {
            p = &o->list[o->n++];
            *p = (property){.name = name, .schema = others};
        }
        p->required = true;
    }
    return 0;
}

static int collect(object *o, const json_t *schema)
{
    const json_t *props = json_object_get(schema, "properties");
    json_t *others = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *v;
    if (props != NULL && !json_is_object(props))
        return fy_schema_fail(o->s, o->place, FY_EFORMAT, "'properties' is not an object");
    o->list =
        calloc(json_object_size(props) + json_array_size(json_object_get(schema, "required")) + 1,
               sizeof *o->list);
    if (o->list == NULL)
        return fy_nomem(o->s->e);
    json_object_foreach((json_t *)(uintptr_t)props, name, v) o->list[o->n++] =
        (property){.name = name, .schema = v};
    if (others == NULL) {
        others = json_true();
        if (json_array_append(o->s->made, others) != 0)
            return fy_nomem(o->s->e);
    }
    return add_required(o, schema, others);
}

static int compile_members(object *o)
{
    const fy_place at = {o->place, "properties"};
    for (size_t i = 0; i < o->n; i++) {
        property *p = &o->list[i];
        const fy_place here = {&at, p->name};
        fy_node value = 0;
        if (fy_schema_compile(o->s, p->schema, &here, &value) != 0)
            return -1;
        p->member = member(o->s, fy_schema_name(o->s, p->name), value);
    }
    return 0;
}

/* --- the others ------------------------------------------------------------------------------- */

static int add_additional(object *o, const json_t *schema)
{
    const fy_place here = {o->place, "additionalProperties"};
    fy_node value = 0;
    if (fy_schema_compile(o->s, schema, &here, &value) != 0)
        return -1;
    rest_of_name *names = calloc(o->n + 1, sizeof *names);
    if (names == NULL)
        return fy_nomem(o->s->e);
    for (size_t i = 0; i < o->n; i++)
        names[i].at = o->list[i].name;
    qsort(names, o->n, sizeof *names, by_name);
    const fy_node name = other_names(o->s, names, o->n, true, 0);
    free(names);
    o->other = member(o->s, o->s->quote == NULL ? fy_schema_quoted(o->s, name) : name, value);
    return 0;
}

/* Does the pattern match one of the schema's names? -1: it cannot be compiled. */
static int names_match(object *o, const char *pattern, const fy_place *place)
{
    fy_grammar *g = fy_schema_regex_alone(o->s, pattern, place);
    fy_matcher *m = g != NULL ? fy_matcher_new(g, NULL, o->s->e) : NULL;
    int found = -1;
    for (size_t i = 0; m != NULL && i < o->n && found <= 0; i++) {
        fy_str text = {0};
        fy_json_put_string(&text, fy_span_of(o->list[i].name));
        fy_matcher_reset(m);
        found = text.len > 2 &&
                fy_matcher_accept_text(m, (fy_span){text.ptr + 1, text.len - 2}, NULL) == 0 &&
                fy_matcher_may_end(m);
        fy_str_release(&text);
    }
    found = m != NULL && found < 0 ? 0 : found;
    fy_matcher_free(m);
    fy_grammar_free(g);
    return found;
}

static int add_patterns(object *o, const json_t *patterns, const json_t *additional)
{
    const fy_place here = {o->place, "patternProperties"};
    uint32_t min, max;
    fy_node name = 0, value = 0;
    if (!json_is_object(patterns) || json_object_size(patterns) != 1)
        return fy_schema_fail(o->s, o->place, FY_EUNSUPPORTED,
                              "'patternProperties' is supported with one pattern");
    if (additional != NULL && !json_is_false(additional))
        return fy_schema_fail(o->s, o->place, FY_EUNSUPPORTED,
                              "'patternProperties' next to 'additionalProperties' other than false "
                              "is not supported");
    void *it = json_object_iter((json_t *)(uintptr_t)patterns);
    const char *pattern = json_object_iter_key(it);
    const int found = o->n > 0 ? names_match(o, pattern, &here) : 0;
    if (found > 0)
        return fy_schema_fail(o->s, &here, FY_EUNSUPPORTED,
                              "a pattern that matches one of 'properties' or 'required' is not "
                              "supported");
    if (found < 0 || fy_schema_regex_check(o->s, pattern, &here) != 0 ||
        fy_schema_regex(o->s, pattern, &here, &name, &min, &max) != 0 ||
        fy_schema_compile(o->s, json_object_iter_value(it), &here, &value) != 0)
        return -1;
    o->other = member(o->s, fy_schema_quoted(o->s, name), value);
    return 0;
}

/* Without a word about others there are none where the schema names some of its own. */
static int add_others(object *o, const json_t *schema)
{
    const json_t *patterns = json_object_get(schema, "patternProperties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    if (patterns != NULL)
        return add_patterns(o, patterns, additional);
    if (additional != NULL)
        return json_is_false(additional) ? 0 : add_additional(o, additional);
    if (o->n == 0)
        o->other =
            member(o->s, fy_schema_any(o->s, FY_ANY_NAME), fy_schema_any(o->s, FY_ANY_VALUE));
    return 0;
}

/* --- the order -------------------------------------------------------------------------------- */

/* The rest of an object after all properties, when c members are written. Two of the others may
 * have one name, so only one counts towards the least number. */
static fy_node after_properties(object *o, uint32_t c)
{
    fy_schema *s = o->s;
    const uint32_t need = o->min > c ? o->min - c : 0;
    const uint32_t room = o->max == FY_MANY ? FY_MANY : o->max > c ? o->max - c : 0;
    if (o->other == 0 || room == 0)
        return need == 0 ? fy_schema_text(s, "") : 0;
    if (need > 1)
        return 0;
    const fy_node next = fy_schema_seq(s, fy_schema_comma(s), o->other);
    if (c > 0)
        return fy_rules_repeat(s->r, next, need, room);
    const fy_node some = fy_schema_seq(
        s, o->other, fy_rules_repeat(s->r, next, 0, room == FY_MANY ? FY_MANY : room - 1));
    return need > 0 ? some : fy_schema_optional(s, some);
}

/* The pair that follows when the property is written; false: there is no room for it. */
static bool written(const object *o, uint32_t c, uint32_t last, uint32_t *next)
{
    if (o->max != FY_MANY && c >= o->max)
        return false;
    *next = c < last ? c + 1 : last;
    return true;
}

/* How often each pair is referred to. */
static void count_uses(const object *o, uint32_t last, uint32_t *uses)
{
    const size_t width = (size_t)last + 1;
    uses[0] = 1;
    for (size_t k = 0; k < o->n; k++) {
        const property *p = &o->list[k];
        for (uint32_t c = 0; c <= last; c++) {
            uint32_t next;
            if (uses[k * width + c] == 0)
                continue;
            if (p->member != 0 && written(o, c, last, &next))
                uses[(k + 1) * width + next]++;
            if (!p->required)
                uses[(k + 1) * width + c]++;
        }
    }
}

static fy_node at_pair(object *o, size_t k, uint32_t c, uint32_t last, const fy_node *after)
{
    fy_schema *s = o->s;
    const property *p = &o->list[k];
    uint32_t next = 0;
    fy_node with = 0;
    if (p->member != 0 && written(o, c, last, &next))
        with = c > 0 ? fy_schema_seq(s, fy_schema_comma(s), p->member) : p->member;
    if (with != 0 && next == c && !p->required)
        return fy_schema_seq(s, fy_schema_optional(s, with), after[c]);
    with = fy_schema_seq(s, with, after[next]);
    return p->required ? with : fy_schema_alt(s, with, after[c]);
}

/* Long objects are cut into rules, so that no tree is deep. */
#define DEEP 16

static int put_in_order(object *o, uint32_t last, fy_node *out)
{
    const size_t width = (size_t)last + 1;
    uint32_t *uses = calloc((o->n + 1) * width, sizeof *uses);
    fy_node *after = calloc(width * 2, sizeof *after), *here = after + width;
    if (uses == NULL || after == NULL) {
        free(uses);
        free(after);
        return fy_nomem(o->s->e);
    }
    count_uses(o, last, uses);
    o->other = fy_schema_shared(o->s, o->other);
    for (size_t k = o->n + 1; k-- > 0;) {
        uint32_t n_here = 0;
        for (uint32_t c = 0; k < o->n && c <= last; c++)
            n_here += uses[k * width + c] > 0;
        if (n_here > 1)
            o->list[k].member = fy_schema_shared(o->s, o->list[k].member);
        for (uint32_t c = 0; c <= last; c++) {
            const uint32_t n_uses = uses[k * width + c];
            fy_node tree = 0;
            if (n_uses > 0)
                tree = k == o->n ? after_properties(o, c) : at_pair(o, k, c, last, after);
            here[c] = n_uses > 1 || k % DEEP == DEEP - 1 ? fy_schema_shared(o->s, tree) : tree;
        }
        memcpy(after, here, width * sizeof *after);
    }
    *out = after[0];
    free(uses);
    free(after);
    return 0;
}

static int compile_object(object *o, const json_t *schema, fy_node *out)
{
    o->max = FY_MANY;
    if (fy_schema_count(o->s, schema, "minProperties", o->place, &o->min) != 0 ||
        fy_schema_count(o->s, schema, "maxProperties", o->place, &o->max) != 0 ||
        collect(o, schema) != 0 || compile_members(o) != 0 || add_others(o, schema) != 0)
        return -1;
    if (o->other != 0 && o->min > o->n + 1)
        return fy_schema_fail(o->s, o->place, FY_EUNSUPPORTED,
                              "'minProperties' of more than the named properties and one is not "
                              "supported: two others might have the same name");
    if (o->other == 0 && o->min > o->n)
        return 0; /* nothing is valid */
    if (o->max != FY_MANY && o->other == 0 && o->max >= o->n)
        o->max = FY_MANY;
    const uint32_t least = o->min > 1 ? o->min : 1;
    const uint32_t last = o->max == FY_MANY ? least : o->max > 0 ? o->max : 1;
    if ((uint64_t)(o->n + 1) * ((uint64_t)last + 1) > PAIRS_MAX)
        return fy_schema_fail(o->s, o->place, FY_EFIT,
                              "'minProperties' or 'maxProperties' is too large here");
    fy_node inside = 0;
    if (put_in_order(o, last, &inside) != 0)
        return -1;
    *out = fy_schema_seq(o->s, fy_schema_seq(o->s, fy_schema_text(o->s, "{"), inside),
                         fy_schema_text(o->s, "}"));
    return 0;
}

int fy_schema_object(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    object o = {.s = s, .place = place};
    *out = 0;
    const int rc = compile_object(&o, schema, out);
    free(o.list);
    return rc;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Items after the n of prefixItems. */
static fy_node more_items(fy_schema *s, fy_node item, size_t n, uint32_t min, uint32_t max)
{
    const uint32_t lo = min > n ? min - (uint32_t)n : 0;
    const uint32_t hi = max == FY_MANY ? FY_MANY : max > n ? max - (uint32_t)n : 0;
    if (item == 0 || hi == 0)
        return lo == 0 ? fy_schema_text(s, "") : 0;
    if (lo > hi)
        return 0;
    item = fy_schema_shared(s, item);
    const fy_node next = fy_schema_seq(s, fy_schema_comma(s), item);
    if (n > 0)
        return fy_rules_repeat(s->r, next, lo, hi);
    const fy_node some = fy_schema_seq(
        s, item,
        fy_rules_repeat(s->r, next, lo > 0 ? lo - 1 : 0, hi == FY_MANY ? FY_MANY : hi - 1));
    return lo > 0 ? some : fy_schema_optional(s, some);
}

static int compile_items(fy_schema *s, const json_t *schema, size_t n_prefix, uint32_t min,
                         const fy_place *place, fy_node *out)
{
    const json_t *items = json_object_get(schema, "items");
    const fy_place here = {place, "items"};
    *out = 0;
    if (json_is_array(items))
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'items' as a list is not supported; use 'prefixItems'");
    if (items != NULL)
        return fy_schema_compile(s, items, &here, out);
    if (n_prefix == 0 || min > n_prefix)
        *out = fy_schema_any(s, FY_ANY_VALUE);
    return 0;
}

int fy_schema_array(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const size_t n = json_array_size(prefix);
    const fy_place at = {place, "prefixItems"};
    uint32_t min = 0, max = FY_MANY;
    fy_node item = 0;
    *out = 0;
    if (prefix != NULL && !json_is_array(prefix))
        return fy_schema_fail(s, place, FY_EFORMAT, "'prefixItems' is not a list of schemas");
    if (fy_schema_count(s, schema, "minItems", place, &min) != 0 ||
        fy_schema_count(s, schema, "maxItems", place, &max) != 0 ||
        compile_items(s, schema, n, min, place, &item) != 0)
        return -1;
    if (min > max)
        return 0;
    fy_node rest = more_items(s, item, n, min, max);
    for (size_t i = n; i-- > 0;) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        const fy_place here = {&at, index};
        fy_node value = 0;
        if (fy_schema_compile(s, json_array_get(prefix, i), &here, &value) != 0)
            return -1;
        value = i < max ? fy_schema_seq(s, value, rest) : 0;
        if (i > 0)
            value = fy_schema_seq(s, fy_schema_comma(s), value);
        rest = i < min ? value : fy_schema_optional(s, value);
        rest = i % DEEP == DEEP - 1 ? fy_schema_shared(s, rest) : rest;
    }
    *out = fy_schema_seq(s, fy_schema_seq(s, fy_schema_text(s, "["), rest), fy_schema_text(s, "]"));
    return 0;
}
