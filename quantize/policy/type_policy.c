/* Which type each matrix of an output gets: options, then rules "REGEX=TYPE", then the recipe
 * (type_policy.h). */
#include "policy/type_policy.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/str.h"

/* --- rules ----------------------------------------------------------------------------------- */

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

/* --- choice ---------------------------------------------------------------------------------- */

const char *fy_type_why_name(fy_type_why w)
{
    static const char *const names[] = {"kept", "asked", "recipe", "option"};
    return names[w];
}

typedef struct {
    const fy_type_request *r;
    bool tied;                        /* the embedding is the output, too */
    bool output_used, embedding_used; /* options */
} state;

/* Does an option name the tensor's type? */
static bool by_option(state *s, fy_type_item *t)
{
    const fy_type_request *r = s->r;
    const bool ruled = r->rules != NULL && fy_type_rules_find(r->rules, t->name, &t->wanted);
    if (r->embedding != NULL && fy_llama_is_embedding(t->name)) {
        t->wanted = *r->embedding;
        return s->embedding_used = true;
    }
    if (r->output != NULL && fy_llama_is_output(t->name)) {
        t->wanted = *r->output;
        return s->output_used = true;
    }
    if (ruled)
        return true;
    if (r->output != NULL && r->file.recipe != FY_RECIPE_PURE && s->tied &&
        fy_llama_is_embedding(t->name)) {
        t->wanted = *r->output;
        return s->output_used = true;
    }
    return false;
}

static int check_used(const state *s, fy_err *e)
{
    if (s->r->embedding != NULL && !s->embedding_used)
        return fy_fail(e, FY_EARG, "--token-embedding-type: the model has no token_embd.weight");
    if (s->r->output != NULL && !s->output_used)
        return fy_fail(e, FY_EARG,
                       "--output-tensor-type: the model has no output.weight: its embedding is the "
                       "output, too; name its type with --token-embedding-type");
    return s->r->rules != NULL ? fy_type_rules_check_used(s->r->rules, e) : 0;
}

int fy_choose_matrix_types(const fy_type_request *r, fy_type_item *t, size_t n, fy_err *e)
{
    state s = {.r = r, .tied = true};
    for (size_t i = 0; i < n; i++)
        s.tied = s.tied && !fy_llama_is_output(t[i].name);
    for (size_t i = 0; i < n; i++) {
        t[i].wanted = t[i].type;
        t[i].why = !t[i].matrix           ? FY_TYPE_KEPT
                   : by_option(&s, &t[i]) ? FY_TYPE_OPTION
                   : t[i].stays           ? FY_TYPE_KEPT
                                          : FY_TYPE_ASKED;
    }
    if (check_used(&s, e) != 0 ||
        (r->file.recipe != FY_RECIPE_PURE && fy_llama_types(&r->model, &r->file, t, n, e) != 0))
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (t[i].matrix)
            t[i].type = fy_type_for_rows(t[i].wanted, t[i].ne0);
        t[i].fallback = t[i].type != t[i].wanted;
    }
    return 0;
}
