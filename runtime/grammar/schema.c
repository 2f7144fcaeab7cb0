/* JSON Schema (Draft 2020-12) as a grammar of JSON texts. What is made is always valid; where a
 * schema leaves things open, the narrower choice is made: properties in the order of the schema, no
 * properties that it does not mention, white space only as one space after ',' and ':'. A keyword
 * that is not supported is refused with its place. */
#include "grammar/schema_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_BYTES_MAX (256u << 10)
#define MEMBERS_MAX      4096
#define SCHEMAS_MAX      20000 /* compiled, those of merges included */
#define SYMBOLS_MAX      (1u << 20)
#define SHARED_FROM      6 /* symbols: a smaller tree is copied */

/* --- messages --------------------------------------------------------------------------------- */

static void put_place(fy_str *out, const fy_place *p)
{
    const fy_place *list[70];
    size_t n = 0;
    for (; p != NULL && n < 70; p = p->up)
        list[n++] = p;
    if (n == 0 || list[n - 1]->key[0] != '#') /* what a $ref names begins with # itself */
        fy_str_putc(out, '#');
    while (n-- > 0) {
        if (list[n]->key[0] != '#' || list[n]->up != NULL)
            fy_str_putc(out, '/');
        fy_str_put_quoted(out, fy_span_of(list[n]->key), 80);
    }
}

int fy_schema_fail(fy_schema *s, const fy_place *place, fy_code code, const char *fmt, ...)
{
    char what[300];
    fy_str where = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    put_place(&where, place);
    fy_fail(s->e, code, "schema, %.160s: %s", fy_str_z(&where), what);
    fy_str_release(&where);
    return -1;
}

int fy_schema_refuse(fy_schema *s, const fy_place *place, const char *keyword)
{
    char shown[FY_QUOTE_BYTES];
    return fy_schema_fail(s, place, FY_EUNSUPPORTED, "'%s' is not supported",
                          fy_quote(shown, sizeof shown, fy_span_of(keyword)));
}

/* --- trees ------------------------------------------------------------------------------------ */

fy_node fy_schema_text(fy_schema *s, const char *text)
{
    return fy_rules_text(s->r, fy_span_of(text));
}

fy_node fy_schema_seq(fy_schema *s, fy_node a, fy_node b)
{
    const fy_node both[] = {a, b};
    return a != 0 && b != 0 ? fy_rules_seq(s->r, both, 2) : 0;
}

fy_node fy_schema_alt(fy_schema *s, fy_node a, fy_node b)
{
    const fy_node both[] = {a, b};
    return a == 0 ? b : b == 0 ? a : fy_rules_alt(s->r, both, 2);
}

fy_node fy_schema_optional(fy_schema *s, fy_node a)
{
    return a != 0 ? fy_rules_repeat(s->r, a, 0, 1) : fy_schema_text(s, "");
}

static fy_node call_new(fy_schema *s, const char *name, fy_node tree)
{
    uint32_t rule;
    if (fy_rules_declare(s->r, fy_span_of(name), &rule, s->e) != 0)
        return 0;
    fy_rules_define(s->r, rule, tree);
    return fy_rules_call(s->r, rule);
}

static fy_node then_space(fy_schema *s, fy_node a)
{
    const fy_node space = fy_schema_text(s, " ");
    return s->quote != NULL ? a : fy_schema_seq(s, a, fy_schema_optional(s, space));
}

fy_node fy_schema_comma(fy_schema *s)
{
    return then_space(s, fy_schema_text(s, ","));
}

fy_node fy_schema_colon(fy_schema *s)
{
    return then_space(s, fy_schema_text(s, ":"));
}

fy_node fy_schema_quoted(fy_schema *s, fy_node inside)
{
    const fy_node quote = fy_schema_text(s, s->quote != NULL ? s->quote : "\"");
    return fy_schema_seq(s, fy_schema_seq(s, quote, inside), quote);
}

fy_node fy_schema_shared(fy_schema *s, fy_node a)
{
    return a == 0 || fy_rules_symbols(s->r, a) < SHARED_FROM ? a : call_new(s, "part", a);
}

static fy_node chars(fy_schema *s, const char *set)
{
    fy_cp_range list[32];
    size_t n = 0;
    for (; *set != '\0'; set++) {
        list[n].lo = list[n].hi = (uint8_t)*set;
        if (set[1] == '-' && set[2] != '\0') {
            list[n].hi = (uint8_t)set[2];
            set += 2;
        }
        n++;
    }
    return fy_rules_class(s->r, list, n, false);
}

/* Four hexadecimal digits that are neither NUL, which C strings cannot hold, nor a surrogate. */
static fy_node usual_digits(fy_schema *s, fy_node hex)
{
    fy_rules *r = s->r;
    const fy_node some = chars(s, "1-9A-Fa-f"), zero = fy_schema_text(s, "0");
    fy_node low = fy_schema_seq(s, zero, some);
    low = fy_schema_alt(s, fy_schema_seq(s, some, hex), low);
    low = fy_schema_alt(s, fy_schema_seq(s, some, fy_rules_repeat(r, hex, 2, 2)),
                        fy_schema_seq(s, zero, low));
    return fy_schema_alt(s,
                         fy_schema_seq(s, chars(s, "1-9A-CEFa-cef"), fy_rules_repeat(r, hex, 3, 3)),
                         fy_schema_seq(s, zero, low));
}

/* After a backslash. Surrogates come in pairs. */
static fy_node escape(fy_schema *s)
{
    fy_rules *r = s->r;
    const fy_node hex = chars(s, "0-9A-Fa-f"), d = chars(s, "Dd"), u = fy_schema_text(s, "u");
    const fy_node two = fy_rules_repeat(r, hex, 2, 2);
    const fy_node from_d[] = {u, d, chars(s, "0-7"), two};
    const fy_node pair[] = {
        u, d, chars(s, "89ABab"), two, fy_schema_text(s, "\\u"), d, chars(s, "C-Fc-f"), two};
    const fy_node any[] = {chars(s, "\"\\/bfnrt"), fy_schema_seq(s, u, usual_digits(s, hex)),
                           fy_rules_seq(r, from_d, 4), fy_rules_seq(r, pair, 8)};
    return fy_rules_alt(r, any, 4);
}

static fy_node any_char(fy_schema *s)
{
    if (s->quote != NULL)
        return fy_schema_plain_char(s);
    static const fy_cp_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, 0x10FFFF}};
    return fy_schema_alt(s, fy_rules_class(s->r, plain, 4, false),
                         fy_schema_seq(s, fy_schema_text(s, "\\"), escape(s)));
}

static fy_node any_string(fy_schema *s)
{
    return fy_schema_quoted(
        s, s->quote != NULL ? fy_schema_text_without(s, s->quote, 0, FY_MANY)
                            : fy_rules_repeat(s->r, fy_schema_any(s, FY_ANY_CHAR), 0, FY_MANY));
}

static fy_node any_name(fy_schema *s)
{
    if (s->quote == NULL)
        return fy_schema_any(s, FY_ANY_STRING);
    return fy_rules_repeat(
        s->r, fy_rules_class(s->r, fy_schema_not_in_names, FY_NOT_IN_NAMES, true), 1, FY_MANY);
}

static fy_node any_number(fy_schema *s)
{
    fy_rules *r = s->r;
    const fy_node digit = chars(s, "0-9");
    const fy_node large[] = {chars(s, "1-9"), fy_rules_repeat(r, digit, 0, 14)};
    const fy_node fraction[] = {fy_schema_text(s, "."), fy_rules_repeat(r, digit, 1, 16)};
    const fy_node exponent[] = {chars(s, "Ee"), fy_schema_optional(s, chars(s, "+-")),
                                fy_rules_repeat(r, digit, 1, 2)};
    const fy_node all[] = {fy_schema_optional(s, fy_schema_text(s, "-")),
                           fy_schema_alt(s, fy_schema_text(s, "0"), fy_rules_seq(r, large, 2)),
                           fy_schema_optional(s, fy_rules_seq(r, fraction, 2)),
                           fy_schema_optional(s, fy_rules_seq(r, exponent, 3))};
    return fy_rules_seq(r, all, 4);
}

/* open item (", " item)* shut, or nothing between them. */
static fy_node list_of(fy_schema *s, const char *open, fy_node item, const char *shut)
{
    fy_rules *r = s->r;
    const fy_node next = fy_schema_seq(s, fy_schema_comma(s), item);
    const fy_node some[] = {item, fy_rules_repeat(r, next, 0, FY_MANY)};
    const fy_node all[] = {fy_schema_text(s, open), fy_schema_optional(s, fy_rules_seq(r, some, 2)),
                           fy_schema_text(s, shut)};
    return fy_rules_seq(r, all, 3);
}

static fy_node any_value(fy_schema *s)
{
    const fy_node value = fy_schema_any(s, FY_ANY_VALUE), text = fy_schema_any(s, FY_ANY_STRING);
    const fy_node member[] = {fy_schema_any(s, FY_ANY_NAME), fy_schema_colon(s), value};
    const fy_node pair = call_new(s, "any member", fy_rules_seq(s->r, member, 3));
    const fy_node all[] = {
        list_of(s, "{", pair, "}"),      list_of(s, "[", value, "]"), text,
        fy_schema_any(s, FY_ANY_NUMBER), fy_schema_text(s, "true"),   fy_schema_text(s, "false"),
        fy_schema_text(s, "null")};
    return fy_rules_alt(s->r, all, 7);
}

fy_node fy_schema_any(fy_schema *s, int kind)
{
    static const char *const names[] = {"any value", "any string", "any character", "any number",
                                        "any name"};
    static fy_node (*const make[])(fy_schema *) = {any_value, any_string, any_char, any_number,
                                                   any_name};
    if (s->any[kind] == 0) {
        uint32_t rule;
        if (fy_rules_declare(s->r, fy_span_of(names[kind]), &rule, s->e) != 0)
            return 0;
        s->any[kind] = rule + 1;
        fy_rules_define(s->r, rule, make[kind](s));
    }
    return fy_rules_call(s->r, s->any[kind] - 1);
}

/* --- enum and const --------------------------------------------------------------------------- */

static fy_node number_literal(fy_schema *s, const json_t *v)
{
    char text[64];
    if (json_is_integer(v)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        return fy_schema_text(s, text);
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, json_real_value(v));
        if (strtod(text, NULL) == json_real_value(v))
            break;
    }
    return fy_schema_text(s, text);
}

static fy_node string_literal(fy_schema *s, const char *text, size_t n)
{
    char *dump = NULL;
    if (s->quote != NULL)
        return fy_schema_plain_literal(s, text, n);
    json_t *v = json_stringn(text, n);
    dump = v != NULL ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    const fy_node made = dump != NULL ? fy_schema_text(s, dump) : 0;
    if (dump == NULL)
        fy_nomem(s->e);
    free(dump);
    json_decref(v);
    return made;
}

fy_node fy_schema_name(fy_schema *s, const char *name)
{
    return s->quote != NULL && fy_schema_is_plain_name(name)
               ? fy_schema_text(s, name)
               : string_literal(s, name, strlen(name));
}

/* Parts of a list, with what separates them. */
static int put_item(fy_schema *s, fy_node **list, size_t *n, size_t *cap, fy_node item)
{
    const fy_node comma = fy_schema_comma(s);
    if (*n > 1 && fy_append(list, n, cap, &comma, sizeof comma, s->e) != 0)
        return -1;
    return fy_append(list, n, cap, &item, sizeof item, s->e);
}

static fy_node structure_literal(fy_schema *s, const json_t *v)
{
    json_t *open = (json_t *)(uintptr_t)v;
    fy_node *list = NULL; /* owned */
    size_t n = 0, cap = 0;
    const fy_node begin = fy_schema_text(s, json_is_object(v) ? "{" : "[");
    const fy_node end = fy_schema_text(s, json_is_object(v) ? "}" : "]");
    int rc = fy_append(&list, &n, &cap, &begin, sizeof begin, s->e);
    for (size_t i = 0; rc == 0 && json_is_array(v) && i < json_array_size(v); i++)
        rc = put_item(s, &list, &n, &cap, fy_schema_literal(s, json_array_get(v, i)));
    for (void *it = json_object_iter(open); rc == 0 && it != NULL;
         it = json_object_iter_next(open, it)) {
        const fy_node member[] = {fy_schema_name(s, json_object_iter_key(it)), fy_schema_colon(s),
                                  fy_schema_literal(s, json_object_iter_value(it))};
        rc = put_item(s, &list, &n, &cap, fy_rules_seq(s->r, member, 3));
    }
    rc = rc == 0 ? fy_append(&list, &n, &cap, &end, sizeof end, s->e) : rc;
    const fy_node made = rc == 0 ? fy_rules_seq(s->r, list, n) : 0;
    free(list);
    return made;
}

fy_node fy_schema_literal(fy_schema *s, const json_t *v)
{
    if (json_is_string(v))
        return string_literal(s, json_string_value(v), json_string_length(v));
    if (json_is_number(v))
        return number_literal(s, v);
    if (json_is_object(v) || json_is_array(v))
        return structure_literal(s, v);
    return fy_schema_text(s, json_is_null(v) ? "null" : json_is_true(v) ? "true" : "false");
}

static bool is_member_of(const char *key, const char *list)
{
    return fy_list_has(list, ' ', key);
}

static int compile_enum(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    const int types = fy_schema_types(schema);
    const char *key;
    json_t *v;
    *out = 0;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (!is_member_of(key, "enum const type nullable") && !fy_schema_is_annotation(key))
            return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                                  "'%s' next to 'enum' or 'const' is not supported", key);
    }
    if (list != NULL && !json_is_array(list))
        return fy_schema_fail(s, place, FY_EFORMAT, "'enum' is not a list");
    const size_t n = list != NULL ? json_array_size(list) : 1;
    fy_node *items = calloc(n + 1, sizeof *items);
    size_t kept = 0;
    if (items == NULL)
        return fy_nomem(s->e);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = list != NULL ? json_array_get(list, i) : one;
        if ((fy_schema_type_of(x) & types) == 0 || (one != NULL && !json_equal(one, x)))
            continue;
        items[kept++] = fy_schema_literal(s, x);
    }
    if (kept > 0)
        *out = fy_rules_alt(s->r, items, kept);
    free(items);
    return 0;
}

/* --- schemas ---------------------------------------------------------------------------------- */

static int check_keywords(fy_schema *s, const json_t *schema, const fy_place *place)
{
    static const char known[] =
        "type enum const properties required additionalProperties patternProperties minProperties "
        "maxProperties items prefixItems minItems maxItems minLength maxLength pattern format "
        "minimum maximum exclusiveMinimum exclusiveMaximum anyOf oneOf allOf $ref nullable";
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (!is_member_of(key, known) && !fy_schema_is_annotation(key))
            return fy_schema_refuse(s, place, key);
    }
    return 0;
}

int fy_schema_count(fy_schema *s, const json_t *schema, const char *key, const fy_place *place,
                    uint32_t *out)
{
    const json_t *v = json_object_get(schema, key);
    if (v == NULL)
        return 0;
    const double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= 0) || x != floor(x))
        return fy_schema_fail(s, place, FY_EFORMAT, "'%s' is not a whole number from 0 on", key);
    *out = x < 1e9 ? (uint32_t)x : 1000000000u;
    return 0;
}

/* Has it a keyword besides these and annotations? */
static bool has_others(const json_t *schema, const char *list)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (!is_member_of(key, list) && !fy_schema_is_annotation(key))
            return true;
    }
    return false;
}

static int compile_ref(fy_schema *s, const char *ref, const fy_place *place, fy_node *out)
{
    const json_t *target = fy_schema_target(s, ref, place);
    if (target == NULL)
        return -1;
    for (size_t i = 0; i < s->n_refs; i++) {
        if (s->refs[i].schema == target) {
            *out = fy_rules_call(s->r, s->refs[i].rule);
            return 0;
        }
    }
    fy_schema_ref made = {.schema = target, .ref = ref};
    if (fy_rules_declare(s->r, fy_span_of(ref), &made.rule, s->e) != 0 ||
        fy_append(&s->refs, &s->n_refs, &s->cap_refs, &made, sizeof made, s->e) != 0)
        return -1;
    *out = fy_rules_call(s->r, made.rule);
    return 0;
}

/* Compiles what was referred to; that refers to more. */
static int compile_refs(fy_schema *s)
{
    for (size_t i = 0; i < s->n_refs; i++) {
        const fy_schema_ref x = s->refs[i];
        const fy_place place = {NULL, x.ref};
        fy_node tree = 0;
        if (fy_schema_compile(s, x.schema, &place, &tree) != 0)
            return -1;
        if (tree == 0 && !fy_rules_lacks_memory(s->r))
            return fy_schema_fail(s, &place, FY_EFORMAT, "no value is valid");
        fy_rules_define(s->r, x.rule, tree);
    }
    return 0;
}

static int check_disjoint(fy_schema *s, const json_t *list, const fy_place *place)
{
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            if (!fy_schema_disjoint(s, json_array_get(list, i), json_array_get(list, k), place))
                return s->e != NULL && s->e->code != FY_OK
                           ? -1
                           : fy_schema_fail(s, place, FY_EUNSUPPORTED,
                                            "'oneOf' whose alternatives %zu and %zu may both be "
                                            "valid is not supported; use 'anyOf'",
                                            i, k);
        }
    }
    return 0;
}

/* base, NULL: none: what holds besides each of them. */
static int compile_alternatives(fy_schema *s, const json_t *list, const json_t *base,
                                const fy_place *at, fy_node *out)
{
    fy_node *trees = calloc(json_array_size(list) + 1, sizeof *trees);
    size_t n = 0;
    int rc = trees != NULL ? 0 : fy_nomem(s->e);
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        const fy_place here = {at, index};
        const json_t *x = json_array_get(list, i);
        if (base != NULL)
            x = fy_schema_both(s, base, x, &here);
        rc = x != NULL ? fy_schema_compile(s, x, &here, &trees[n]) : -1;
        n += trees[n] != 0;
    }
    *out = rc == 0 && n > 0 ? fy_rules_alt(s->r, trees, n) : 0;
    free(trees);
    return rc;
}

static int compile_choice(fy_schema *s, const json_t *schema, const char *keyword,
                          const fy_place *place, fy_node *out)
{
    const json_t *list = json_object_get(schema, keyword);
    const fy_place at = {place, keyword};
    if (!json_is_array(list) || json_array_size(list) == 0)
        return fy_schema_fail(s, place, FY_EFORMAT, "'%s' is not a list of schemas", keyword);
    if (strcmp(keyword, "oneOf") == 0 && check_disjoint(s, list, &at) != 0)
        return -1;
    const json_t *base = has_others(schema, keyword) ? fy_schema_without(s, schema, keyword) : NULL;
    if (base == NULL && has_others(schema, keyword))
        return -1;
    return compile_alternatives(s, list, base, &at, out);
}

static int compile_types(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    const int types = fy_schema_types(schema);
    fy_node tree[5] = {0};
    if (types < 0)
        return fy_schema_fail(s, place, FY_EFORMAT,
                              "'type' is not one of null, boolean, string, integer, number, array "
                              "and object, or a list of them");
    if (types & FY_IS_STRING && fy_schema_string(s, schema, place, &tree[0]) != 0)
        return -1;
    if (types & (FY_IS_INTEGER | FY_IS_NUMBER) &&
        fy_schema_number(s, schema, !(types & FY_IS_NUMBER), place, &tree[1]) != 0)
        return -1;
    if (types & FY_IS_ARRAY && fy_schema_array(s, schema, place, &tree[2]) != 0)
        return -1;
    if (types & FY_IS_OBJECT && fy_schema_object(s, schema, place, &tree[3]) != 0)
        return -1;
    if (types & FY_IS_BOOLEAN)
        tree[4] = fy_schema_alt(s, fy_schema_text(s, "true"), fy_schema_text(s, "false"));
    *out = types & FY_IS_NULL ? fy_schema_text(s, "null") : 0;
    for (int i = 4; i >= 0; i--)
        *out = fy_schema_alt(s, tree[i], *out);
    return 0;
}

int fy_schema_compile(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    *out = 0;
    if (++s->n_schemas > SCHEMAS_MAX)
        return fy_schema_fail(s, place, FY_EFIT, "more than %d schemas with merges", SCHEMAS_MAX);
    if (json_is_false(schema))
        return 0;
    if (!json_is_true(schema) && !json_is_object(schema))
        return fy_schema_fail(s, place, FY_EFORMAT, "is not a schema: expected an object or true");
    if (json_is_object(schema) && check_keywords(s, schema, place) != 0)
        return -1;
    if (json_is_true(schema) || !has_others(schema, "")) {
        *out = fy_schema_any(s, FY_ANY_VALUE);
        return 0;
    }
    const json_t *ref = json_object_get(schema, "$ref");
    if (json_is_string(ref) && !has_others(schema, "$ref"))
        return compile_ref(s, json_string_value(ref), place, out);
    if (ref != NULL || json_object_get(schema, "allOf") != NULL) {
        schema = fy_schema_flat(s, schema, place);
        return schema != NULL ? fy_schema_compile(s, schema, place, out) : -1;
    }
    if (json_object_get(schema, "anyOf") != NULL)
        return compile_choice(s, schema, "anyOf", place, out);
    if (json_object_get(schema, "oneOf") != NULL)
        return compile_choice(s, schema, "oneOf", place, out);
    if (json_object_get(schema, "enum") != NULL || json_object_get(schema, "const") != NULL)
        return compile_enum(s, schema, place, out);
    return compile_types(s, schema, place, out);
}

/* --- the whole -------------------------------------------------------------------------------- */

static size_t count_members(const json_t *v)
{
    size_t n = 0;
    const char *key;
    json_t *x;
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++)
        n += count_members(json_array_get(v, i));
    if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, x) n += 1 + count_members(x);
    }
    return n;
}

/* The texts of the tree `json` in their frame. */
static fy_node frame_tree(fy_schema *s, const fy_schema_frame *f, fy_node json)
{
    json = fy_schema_shared(s, json);
    const fy_node more = fy_schema_seq(s, fy_schema_text(s, f->between), json);
    const fy_node items[] = {fy_schema_text(s, f->first), json,
                             f->single ? fy_schema_text(s, "")
                                       : fy_rules_repeat(s->r, more, 0, FY_MANY),
                             fy_schema_text(s, f->last)};
    return fy_rules_seq(s->r, items, 4);
}

static fy_grammar *compile_all(fy_schema *s, const fy_schema_frame *frame, fy_err *e)
{
    uint32_t root, bad = 0;
    fy_node tree = 0;
    int rc = fy_rules_declare(s->r, FY_SPAN("the schema"), &root, e);
    if (rc == 0)
        rc = frame != NULL && frame->pairs != NULL   ? fy_schema_pairs(s, frame->pairs, &tree)
             : frame != NULL && frame->named != NULL ? fy_schema_named(s, frame->named, &tree)
                                                     : fy_schema_compile(s, s->root, NULL, &tree);
    if (rc != 0 || compile_refs(s) != 0)
        return NULL;
    if (tree == 0 && !fy_rules_lacks_memory(s->r)) {
        fy_schema_fail(s, NULL, FY_EFORMAT, "no value is valid");
        return NULL;
    }
    fy_rules_define(s->r, root, frame != NULL ? frame_tree(s, frame, tree) : tree);
    fy_err why = {0};
    if (e->code != FY_OK)
        return NULL;
    fy_grammar *g = fy_rules_compile(s->r, root, SYMBOLS_MAX, &bad, &why);
    char name[FY_QUOTE_BYTES];
    if (g == NULL && why.code == FY_EFORMAT)
        fy_fail(e, FY_EFORMAT, "schema: '%s' refers to itself without end",
                fy_quote(name, sizeof name, fy_rules_name(s->r, bad)));
    else if (g == NULL)
        fy_fail(e, why.code, "schema: %s", why.msg);
    return g;
}

fy_grammar *fy_grammar_schema(fy_span json, fy_err *e)
{
    return fy_grammar_schema_framed(json, NULL, e);
}

fy_grammar *fy_grammar_schema_framed(fy_span json, const fy_schema_frame *frame, fy_err *e)
{
    fy_grammar *g = NULL;
    if (json.len > SCHEMA_BYTES_MAX) {
        fy_fail(e, FY_EFIT, "a schema of %zu bytes, at most %u", json.len, SCHEMA_BYTES_MAX);
        return NULL;
    }
    fy_err own = {0};
    json_t *root = fy_json_data(json, &own);
    fy_schema s = {.root = root, .e = &own};
    if (root == NULL) {
        fy_fail(e, own.code, "schema: %s", own.msg);
        return NULL;
    }
    s.r = fy_rules_new(&own);
    s.made = json_array();
    if (s.made == NULL)
        fy_nomem(&own);
    else if (count_members(root) > MEMBERS_MAX)
        fy_fail(&own, FY_EFIT, "a schema with more than %d members", MEMBERS_MAX);
    else if (s.r != NULL)
        g = compile_all(&s, frame, &own);
    if (g == NULL && own.code == FY_OK)
        fy_nomem(&own);
    if (own.code != FY_OK) { /* a tree that could not be made looks like one that matches nothing */
        fy_grammar_free(g);
        g = NULL;
        fy_fail(e, own.code, "%s", own.msg);
    }
    fy_rules_free(s.r);
    free(s.refs);
    json_decref(s.made);
    json_decref(root);
    return g;
}
