/* Several schemas as one: $ref and allOf, and the alternatives of a schema with what stands beside
 * them. Keywords that cannot be joined are refused. Also which schemas exclude each other. */
#include "grammar/schema_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32 /* of references inside allOf, and of proofs */

bool fy_schema_is_annotation(const char *keyword)
{
    return fy_list_has("title description default examples deprecated readOnly writeOnly $comment "
                       "$schema $id $defs definitions",
                       ' ', keyword);
}

static json_t *hold(fy_schema *s, json_t *v)
{
    if (v == NULL || json_array_append_new(s->made, v) != 0) {
        fy_nomem(s->e);
        return NULL;
    }
    return v;
}

/* (json_copy does not report a member that it lost.) */
const json_t *fy_schema_without(fy_schema *s, const json_t *schema, const char *keywords)
{
    json_t *copy = hold(s, json_object()), *v;
    const char *key;
    int rc = copy != NULL ? 0 : -1;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (rc == 0 && !fy_list_has(keywords, ' ', key))
            rc = json_object_set(copy, key, v) == 0 ? 0 : fy_nomem(s->e);
    }
    return rc == 0 ? copy : NULL;
}

/* --- references ------------------------------------------------------------------------------- */

/* One step of a JSON pointer, ~0 and ~1 undone; moves *at after it. False: too long. */
static bool read_step(const char **at, char out[256])
{
    size_t n = 0;
    const char *p = *at;
    for (; *p != '\0' && *p != '/'; p++) {
        if (n >= 255)
            return false;
        out[n] = *p;
        if (*p == '~' && (p[1] == '0' || p[1] == '1'))
            out[n] = *++p == '0' ? '~' : '/';
        n++;
    }
    out[n] = '\0';
    *at = p;
    return true;
}

const json_t *fy_schema_target(fy_schema *s, const char *ref, const fy_place *place)
{
    const json_t *v = s->root;
    char step[256], shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(ref));
    if (ref[0] != '#' || (ref[1] != '\0' && ref[1] != '/')) {
        fy_schema_fail(s, place, FY_EUNSUPPORTED,
                       "$ref '%s' is not supported, expected '#' or one that begins with '#/'",
                       shown);
        return NULL;
    }
    for (const char *at = ref + 1; v != NULL && *at == '/';) {
        at++;
        if (!read_step(&at, step))
            v = NULL;
        else if (json_is_array(v))
            v = json_array_get(v, (size_t)strtoul(step, NULL, 10));
        else
            v = json_object_get(v, step);
    }
    if (v == NULL)
        fy_schema_fail(s, place, FY_EFORMAT, "$ref '%s' names nothing in this schema", shown);
    return v;
}

/* --- types ------------------------------------------------------------------------------------ */

int fy_schema_type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return FY_IS_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return FY_IS_BOOLEAN;
    case JSON_STRING:
        return FY_IS_STRING;
    case JSON_INTEGER:
        return FY_IS_INTEGER;
    case JSON_REAL:
        return json_real_value(value) == floor(json_real_value(value)) ? FY_IS_INTEGER
                                                                       : FY_IS_NUMBER;
    case JSON_ARRAY:
        return FY_IS_ARRAY;
    case JSON_OBJECT:
        break;
    }
    return FY_IS_OBJECT;
}

static int bit_of(const char *name)
{
    static const struct {
        const char *name;
        int bit;
    } types[] = {{"null", FY_IS_NULL},
                 {"boolean", FY_IS_BOOLEAN},
                 {"string", FY_IS_STRING},
                 {"integer", FY_IS_INTEGER},
                 {"array", FY_IS_ARRAY},
                 {"object", FY_IS_OBJECT},
                 {"number", FY_IS_INTEGER | FY_IS_NUMBER}};
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0)
            return types[i].bit;
    }
    return -1;
}

/* Without "type", keywords of one type or some mean these types. */
static int implied_types(const json_t *flat)
{
    static const struct {
        const char *keywords;
        int bits;
    } rows[] = {
        {"properties required additionalProperties patternProperties minProperties maxProperties",
         FY_IS_OBJECT},
        {"items prefixItems minItems maxItems", FY_IS_ARRAY},
        {"minLength maxLength pattern format", FY_IS_STRING},
        {"minimum maximum exclusiveMinimum exclusiveMaximum", FY_IS_INTEGER | FY_IS_NUMBER}};
    int bits = 0;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)flat, key, v)
    {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            bits |= fy_list_has(rows[i].keywords, ' ', key) ? rows[i].bits : 0;
    }
    return bits != 0 ? bits : FY_IS_ANY;
}

int fy_schema_types(const json_t *flat)
{
    const json_t *type = json_object_get(flat, "type");
    int bits = 0;
    if (type == NULL)
        bits = implied_types(flat);
    else if (json_is_string(type))
        bits = bit_of(json_string_value(type));
    else if (!json_is_array(type))
        return -1;
    for (size_t i = 0; json_is_array(type) && i < json_array_size(type); i++) {
        const int bit = bit_of(json_string_value(json_array_get(type, i)));
        if (bit < 0)
            return -1;
        bits |= bit;
    }
    if (bits >= 0 && json_is_true(json_object_get(flat, "nullable")))
        bits |= FY_IS_NULL;
    return bits;
}

/* --- joining ---------------------------------------------------------------------------------- */

static int set(fy_schema *s, json_t *into, const char *key, json_t *v) /* takes v */
{
    return json_object_set_new(into, key, v) == 0 ? 0 : fy_nomem(s->e);
}

static int add(fy_schema *s, json_t *list, json_t *v) /* takes v */
{
    return json_array_append_new(list, v) == 0 ? 0 : fy_nomem(s->e);
}

static int join_types(fy_schema *s, json_t *into, const json_t *a, const json_t *b,
                      const fy_place *place)
{
    static const char *const names[] = {"null",   "boolean", "string", "integer",
                                        "number", "array",   "object"};
    const int x = json_object_get(a, "type") != NULL ? fy_schema_types(a) : FY_IS_ANY;
    const int y = json_object_get(b, "type") != NULL ? fy_schema_types(b) : FY_IS_ANY;
    if (x < 0 || y < 0)
        return fy_schema_fail(s, place, FY_EFORMAT, "'type' has an unknown value");
    json_t *list = json_array();
    int rc = set(s, into, "type", list);
    for (int i = 0; rc == 0 && i < 7; i++) {
        const bool whole = i == 3 && (x & y & FY_IS_NUMBER); /* number says it */
        if ((x & y) >> i & 1 && !whole)
            rc = add(s, list, json_string(names[i]));
    }
    return rc;
}

static json_t *both_of(const json_t *a, const json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

/* The schema of a property that only `other` names, under one whose additionalProperties it is. */
static int join_property(fy_schema *s, json_t *into, const char *key, json_t *v,
                         const json_t *closed)
{
    const json_t *rest = json_object_get(closed, "additionalProperties");
    if (json_object_get(json_object_get(closed, "properties"), key) != NULL || rest == NULL ||
        json_is_true(rest))
        return json_object_set(into, key, v) == 0 ? 0 : fy_nomem(s->e);
    return set(s, into, key, json_is_false(rest) ? json_false() : both_of(v, rest));
}

static int join_properties(fy_schema *s, json_t *into, const json_t *a, const json_t *b)
{
    json_t *pa = json_object_get(a, "properties"), *pb = json_object_get(b, "properties"), *v;
    json_t *made = json_object();
    const char *key;
    int rc = made != NULL ? set(s, into, "properties", made) : fy_nomem(s->e);
    json_object_foreach(pa, key, v)
    {
        const json_t *other = json_object_get(pb, key);
        if (rc == 0 && other != NULL)
            rc = set(s, made, key, both_of(v, other));
        else if (rc == 0)
            rc = join_property(s, made, key, v, b);
    }
    json_object_foreach(pb, key, v)
    {
        if (rc == 0 && json_object_get(pa, key) == NULL)
            rc = join_property(s, made, key, v, a);
    }
    return rc;
}

static int join_required(fy_schema *s, json_t *into, const json_t *a, const json_t *b)
{
    json_t *all = json_array();
    int rc = set(s, into, "required", all);
    for (size_t i = 0; rc == 0 && i < json_array_size(a); i++)
        rc = add(s, all, json_incref(json_array_get(a, i)));
    for (size_t i = 0; rc == 0 && i < json_array_size(b); i++)
        rc = add(s, all, json_incref(json_array_get(b, i)));
    return rc;
}

static int join_enum(fy_schema *s, json_t *into, const json_t *a, const json_t *b)
{
    json_t *left = json_array();
    int rc = set(s, into, "enum", left);
    for (size_t i = 0; rc == 0 && i < json_array_size(a); i++) {
        size_t k = 0;
        while (k < json_array_size(b) && !json_equal(json_array_get(a, i), json_array_get(b, k)))
            k++;
        if (k < json_array_size(b))
            rc = add(s, left, json_incref(json_array_get(a, i)));
    }
    return rc;
}

/* Every alternative of one with every one of the other. */
static int join_choices(fy_schema *s, json_t *into, const char *key, const json_t *a,
                        const json_t *b, const fy_place *place)
{
    json_t *all = json_array();
    int rc = set(s, into, key, all);
    if (rc == 0 && json_array_size(a) * json_array_size(b) > 64)
        return fy_schema_fail(s, place, FY_EFIT, "two '%s' with more than 64 combinations", key);
    for (size_t i = 0; i < json_array_size(a); i++) {
        for (size_t k = 0; rc == 0 && k < json_array_size(b); k++)
            rc = add(s, all, both_of(json_array_get(a, i), json_array_get(b, k)));
    }
    return rc;
}

static int join_keyword(fy_schema *s, json_t *into, const char *key, json_t *a, json_t *b,
                        const fy_place *place)
{
    static const char least[] = "minimum exclusiveMinimum minLength minItems minProperties";
    static const char most[] = "maximum exclusiveMaximum maxLength maxItems maxProperties";
    if (json_equal(a, b) && strcmp(key, "anyOf") != 0)
        return json_object_set(into, key, a) == 0 ? 0 : fy_nomem(s->e);
    const bool is_least = fy_list_has(least, ' ', key);
    if ((is_least || fy_list_has(most, ' ', key)) && json_is_number(a) && json_is_number(b)) {
        const bool first = (json_number_value(a) > json_number_value(b)) == is_least;
        return json_object_set(into, key, first ? a : b) == 0 ? 0 : fy_nomem(s->e);
    }
    if (strcmp(key, "required") == 0 && json_is_array(a) && json_is_array(b))
        return join_required(s, into, a, b);
    if (strcmp(key, "enum") == 0 && json_is_array(a) && json_is_array(b))
        return join_enum(s, into, a, b);
    if (strcmp(key, "const") == 0) /* two that differ */
        return set(s, into, "enum", json_array());
    if ((strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) && json_is_array(a) &&
        json_is_array(b))
        return join_choices(s, into, key, a, b, place);
    if (strcmp(key, "items") == 0)
        return set(s, into, key, both_of(a, b));
    if (strcmp(key, "additionalProperties") == 0) {
        if (json_is_false(a) || json_is_false(b))
            return set(s, into, key, json_false());
        return set(s, into, key, both_of(a, b));
    }
    return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                          "'%s' in several parts of a schema that all hold is not supported", key);
}

static int join_into(fy_schema *s, json_t *into, const json_t *a, const json_t *b,
                     const fy_place *place)
{
    const char *key;
    json_t *v;
    int rc = 0;
    json_object_foreach((json_t *)(uintptr_t)a, key, v)
    {
        json_t *other = json_object_get(b, key);
        if (rc != 0 || fy_schema_is_annotation(key) ||
            fy_list_has("type properties nullable", ' ', key))
            continue;
        rc = other != NULL ? join_keyword(s, into, key, v, other, place)
                           : (json_object_set(into, key, v) == 0 ? 0 : fy_nomem(s->e));
    }
    json_object_foreach((json_t *)(uintptr_t)b, key, v)
    {
        if (rc != 0 || fy_schema_is_annotation(key) ||
            fy_list_has("type properties nullable", ' ', key) || json_object_get(a, key) != NULL)
            continue;
        rc = json_object_set(into, key, v) == 0 ? 0 : fy_nomem(s->e);
    }
    const bool patterns = json_object_get(a, "patternProperties") != NULL ||
                          json_object_get(b, "patternProperties") != NULL;
    const bool properties =
        json_object_get(a, "properties") != NULL || json_object_get(b, "properties") != NULL;
    const bool closed = json_object_get(a, "additionalProperties") != NULL ||
                        json_object_get(b, "additionalProperties") != NULL;
    if (rc == 0 && patterns && (properties || closed))
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'patternProperties' in a schema that is joined with others is not "
                              "supported");
    if (rc == 0 && properties)
        rc = join_properties(s, into, a, b);
    const bool typed = json_object_get(a, "type") != NULL || json_object_get(b, "type") != NULL;
    return rc == 0 && typed ? join_types(s, into, a, b, place) : rc;
}

static const json_t *flat(fy_schema *s, const json_t *schema, const fy_place *place, int depth);

/* Both are flat. */
static const json_t *join(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place)
{
    if (a == NULL || b == NULL)
        return NULL;
    if (json_is_false(a) || json_is_true(b))
        return a;
    if (json_is_false(b) || json_is_true(a))
        return b;
    json_t *made = hold(s, json_object());
    return made != NULL && join_into(s, made, a, b, place) == 0 ? made : NULL;
}

/* The schema without $ref and allOf; what these say is joined to it. */
static const json_t *flat(fy_schema *s, const json_t *schema, const fy_place *place, int depth)
{
    if (depth > DEPTH_MAX) {
        fy_schema_fail(s, place, FY_EUNSUPPORTED,
                       "a schema that holds together with itself is not supported");
        return NULL;
    }
    if (++s->n_schemas > 20000) {
        fy_schema_fail(s, place, FY_EFIT, "more than 20000 schemas with merges");
        return NULL;
    }
    const json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf");
    if (!json_is_object(schema) || (ref == NULL && all == NULL))
        return schema;
    const json_t *found = fy_schema_without(s, schema, "$ref allOf");
    if (found == NULL)
        return NULL;
    if (ref != NULL && !json_is_string(ref))
        fy_schema_fail(s, place, FY_EFORMAT, "'$ref' is not a text");
    if (all != NULL && !json_is_array(all))
        fy_schema_fail(s, place, FY_EFORMAT, "'allOf' is not a list of schemas");
    if ((ref != NULL && !json_is_string(ref)) || (all != NULL && !json_is_array(all)))
        return NULL;
    if (ref != NULL) {
        const json_t *target = fy_schema_target(s, json_string_value(ref), place);
        found = target != NULL ? join(s, flat(s, target, place, depth + 1), found, place) : NULL;
    }
    for (size_t i = 0; found != NULL && i < json_array_size(all); i++)
        found = join(s, found, flat(s, json_array_get(all, i), place, depth + 1), place);
    return found;
}

const json_t *fy_schema_flat(fy_schema *s, const json_t *schema, const fy_place *place)
{
    return flat(s, schema, place, 0);
}

const json_t *fy_schema_both(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place)
{
    if (!json_is_object(b) && !json_is_boolean(b)) {
        fy_schema_fail(s, place, FY_EFORMAT, "is not a schema: expected an object or true");
        return NULL;
    }
    return join(s, flat(s, a, place, 0), flat(s, b, place, 0), place);
}

/* --- what excludes each other ----------------------------------------------------------------- */

static bool disjoint(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place,
                     int depth);

/* a requires a property that b forbids, or that has other values there. */
static bool disjoint_objects(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place,
                             int depth)
{
    const json_t *list = json_object_get(a, "required"), *pb = json_object_get(b, "properties");
    const bool closed = json_is_false(json_object_get(b, "additionalProperties")) &&
                        json_object_get(b, "patternProperties") == NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *key = json_string_value(json_array_get(list, i));
        if (key == NULL)
            continue;
        const json_t *x = json_object_get(json_object_get(a, "properties"), key);
        const json_t *y = json_object_get(pb, key);
        if (y == NULL && closed)
            return true;
        if (x != NULL && y != NULL && disjoint(s, x, y, place, depth + 1))
            return true;
    }
    return false;
}

/* The values a schema lists; NULL: it lists none. View or made. */
static const json_t *listed(fy_schema *s, const json_t *schema)
{
    json_t *one = json_object_get(schema, "const");
    return one != NULL ? hold(s, json_pack("[O]", one)) : json_object_get(schema, "enum");
}

static bool excludes(const json_t *x, const json_t *values, int types)
{
    if (values == NULL)
        return (fy_schema_type_of(x) & types) == 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (json_equal(x, json_array_get(values, i)))
            return false;
        if (json_is_number(x) &&
            json_number_value(x) == json_number_value(json_array_get(values, i)))
            return false;
    }
    return true;
}

static bool above(const json_t *a, const json_t *b)
{
    const json_t *min = json_object_get(a, "minimum"), *max = json_object_get(b, "maximum");
    return json_is_number(min) && json_is_number(max) &&
           json_number_value(min) > json_number_value(max);
}

static bool disjoint(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place,
                     int depth)
{
    if (depth > 4 || (a = flat(s, a, place, 0)) == NULL || (b = flat(s, b, place, 0)) == NULL)
        return false;
    if (json_is_false(a) || json_is_false(b))
        return true;
    const int x = json_is_true(a) ? FY_IS_ANY : fy_schema_types(a);
    const int y = json_is_true(b) ? FY_IS_ANY : fy_schema_types(b);
    const json_t *va = listed(s, a), *vb = listed(s, b);
    /* keywords without "type" leave other types valid: what was implied proves nothing */
    const int given_x = va == NULL && json_object_get(a, "type") == NULL ? FY_IS_ANY : x;
    const int given_y = vb == NULL && json_object_get(b, "type") == NULL ? FY_IS_ANY : y;
    if (x < 0 || y < 0)
        return false;
    if (va != NULL || vb != NULL) {
        const json_t *list = va != NULL ? va : vb, *other = va != NULL ? vb : NULL;
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!excludes(json_array_get(list, i), other, va != NULL ? given_y : given_x))
                return false;
        }
        return true;
    }
    if ((given_x & given_y) == 0)
        return true;
    if ((given_x & given_y) == FY_IS_OBJECT)
        return disjoint_objects(s, a, b, place, depth) || disjoint_objects(s, b, a, place, depth);
    if (((given_x & given_y) & ~(FY_IS_INTEGER | FY_IS_NUMBER)) == 0)
        return above(a, b) || above(b, a);
    return false;
}

bool fy_schema_disjoint(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place)
{
    return disjoint(s, a, b, place, 0);
}
