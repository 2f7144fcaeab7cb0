#include "policy/type_rules.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/str.h"

enum { NAME_BYTES = 128 }; /* more than any name has */

typedef struct {
    const char *text; /* view: the whole option */
    regex_t regex;    /* owned */
    bool used;
    fy_type type;
} rule;

struct fy_type_rules {
    const char *option;
    rule *rules; /* owned; n are compiled */
    size_t n;
};

static int parse(const fy_type_rules *r, const char *types, const char *text, rule *into, fy_err *e)
{
    char q[FY_QUOTE_BYTES], why[128];
    const char *sign = strrchr(text, '=');
    fy_quote(q, sizeof q, fy_span_of(text));
    if (sign == NULL || sign == text)
        return fy_fail(e, FY_EARG, "%s %s: expected REGEX=TYPE, as in output\\.weight=q8_0",
                       r->option, q);
    if (!fy_type_parse(sign + 1, &into->type) ||
        fy_choice(types, fy_type_name(into->type), NULL) < 0)
        return fy_fail(e, FY_EARG, "%s %s: the type is none of %s", r->option, q, types);
    char *regex = strndup(text, (size_t)(sign - text));
    if (regex == NULL)
        return fy_nomem(e);
    const int rc = regcomp(&into->regex, regex, REG_EXTENDED | REG_NOSUB);
    free(regex);
    if (rc == REG_ESPACE)
        return fy_nomem(e);
    if (rc != 0) {
        regerror(rc, &into->regex, why, sizeof why);
        return fy_fail(e, FY_EARG, "%s %s: the regular expression is wrong: %s", r->option, q, why);
    }
    into->text = text;
    return 0;
}

fy_type_rules *fy_type_rules_new(const char *option, const char *types, const char *const *texts,
                                 size_t n, fy_err *e)
{
    fy_type_rules *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->rules = calloc(n, sizeof *r->rules);
    if (r == NULL || r->rules == NULL) {
        fy_type_rules_free(r);
        fy_nomem(e);
        return NULL;
    }
    r->option = option;
    for (; r->n < n; r->n++) {
        if (parse(r, types, texts[r->n], &r->rules[r->n], e) != 0) {
            fy_type_rules_free(r);
            return NULL;
        }
    }
    return r;
}

void fy_type_rules_free(fy_type_rules *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; i++)
        regfree(&r->rules[i].regex);
    free(r->rules);
    free(r);
}

bool fy_type_rules_find(fy_type_rules *r, fy_span name, fy_type *type)
{
    char z[NAME_BYTES];
    bool found = false;
    if (name.len >= sizeof z)
        return false;
    memcpy(z, name.ptr, name.len);
    z[name.len] = '\0';
    for (size_t i = 0; i < r->n; i++) {
        if (regexec(&r->rules[i].regex, z, 0, NULL, 0) != 0)
            continue;
        r->rules[i].used = true;
        if (!found)
            *type = r->rules[i].type;
        found = true;
    }
    return found;
}

int fy_type_rules_check_used(const fy_type_rules *r, fy_err *e)
{
    for (size_t i = 0; i < r->n; i++) {
        char q[FY_QUOTE_BYTES];
        if (!r->rules[i].used)
            return fy_fail(e, FY_EARG,
                           "%s %s: no matrix of the model has such a name (--dry-run lists them; "
                           "norms and biases keep their type)",
                           r->option, fy_quote(q, sizeof q, fy_span_of(r->rules[i].text)));
    }
    return 0;
}
