/* Strings: lengths, patterns and formats. */
#include "grammar/schema_impl.h"

#include <string.h>

#define LENGTH_MAX 100000

/* Formats as patterns. Years from 0001 on, months with their days, leap years included. */
#define YEAR4 "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define YEAR  "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define DAYS                                                                                       \
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-" \
    "9]|2[0-8]))"
#define A_DATE "(" YEAR "-" DAYS "|" YEAR4 "-02-29)"
#define A_TIME                                                                                     \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define ATOM  "[A-Za-z0-9_+-]{1,20}"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" A_DATE "$"},
    {"time", "^" A_TIME "$"},
    {"date-time", "^" A_DATE "T" A_TIME "$"},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"email", "^" ATOM "(\\." ATOM "){0,2}@" LABEL "(\\." LABEL "){0,2}\\.[A-Za-z]{2,10}$"},
    {"ipv4", "^" OCTET "(\\." OCTET "){3}$"},
};

static const char *pattern_of_format(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i].name, name) == 0)
            return formats[i].pattern;
    }
    return NULL;
}

static int find_pattern(fy_schema *s, const json_t *schema, const fy_place *place,
                        const char **pattern)
{
    const json_t *p = json_object_get(schema, "pattern"), *f = json_object_get(schema, "format");
    *pattern = NULL;
    if (p != NULL && f != NULL)
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'pattern' next to 'format' is not supported");
    if (p != NULL && (!json_is_string(p) || strlen(json_string_value(p)) != json_string_length(p)))
        return fy_schema_fail(s, place, FY_EFORMAT, "'pattern' is not a text without NUL");
    if (f != NULL && pattern_of_format(json_string_value(f)) == NULL) {
        char shown[FY_QUOTE_BYTES];
        const char *name = json_is_string(f) ? json_string_value(f) : "";
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'format' '%s' is not supported, expected date, time, date-time, "
                              "uuid, email or ipv4",
                              fy_quote(shown, sizeof shown, fy_span_of(name)));
    }
    *pattern = p != NULL   ? json_string_value(p)
               : f != NULL ? pattern_of_format(json_string_value(f))
                           : NULL;
    return 0;
}

int fy_schema_string(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out)
{
    uint32_t min = 0, max = FY_MANY, least = 0, most = FY_MANY;
    const char *pattern;
    fy_node inside = 0;
    if (fy_schema_count(s, schema, "minLength", place, &min) != 0 ||
        fy_schema_count(s, schema, "maxLength", place, &max) != 0 ||
        find_pattern(s, schema, place, &pattern) != 0)
        return -1;
    if (pattern == NULL && min == 0 && max == FY_MANY) {
        *out = fy_schema_any(s, FY_ANY_STRING);
        return 0;
    }
    if (min > LENGTH_MAX || (max != FY_MANY && max > LENGTH_MAX))
        return fy_schema_fail(s, place, FY_EFIT, "a length above %d is not supported", LENGTH_MAX);
    if (json_object_get(schema, "pattern") != NULL &&
        fy_schema_regex_check(s, pattern, place) != 0)
        return -1;
    if (pattern != NULL && fy_schema_regex(s, pattern, place, &inside, &least, &most) != 0)
        return -1;
    if (pattern != NULL && inside != 0 && (least < min || most > max))
        return fy_schema_fail(s, place, FY_EUNSUPPORTED,
                              "'minLength' or 'maxLength' next to a pattern or format that may "
                              "match texts of other lengths is not supported; put the length into "
                              "the pattern");
    if (pattern == NULL && min <= max && s->quote != NULL)
        inside = fy_schema_text_without(s, s->quote, min, max);
    else if (pattern == NULL && min <= max)
        inside = fy_rules_repeat(s->r, fy_schema_any(s, FY_ANY_CHAR), min, max);
    *out = fy_schema_quoted(s, inside);
    return 0;
}
