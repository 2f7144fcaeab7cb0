/* What the files of schemas share. A schema is compiled by descent: each function makes the tree of
 * rules (grammar/rules.h) of one schema. 0 in place of a tree: no value is valid. */
#ifndef FY_GRAMMAR_SCHEMA_IMPL_H
#define FY_GRAMMAR_SCHEMA_IMPL_H

#include "base/json_tree.h"
#include "grammar/rules.h"

/* Where a schema stands, for messages: #/properties/a/items. */
typedef struct fy_place {
    const struct fy_place *up; /* view; NULL: the root */
    const char *key;           /* view */
} fy_place;

typedef struct {
    const json_t *schema; /* view */
    const char *ref;      /* view: how it was first referred to */
    uint32_t rule;
} fy_schema_ref;

enum { FY_ANY_VALUE, FY_ANY_STRING, FY_ANY_CHAR, FY_ANY_NUMBER, FY_ANY_NAME, FY_ANY_KINDS };

typedef struct {
    fy_rules *r;
    const json_t *root;  /* view */
    const char *quote;   /* view: stands around strings that are not JSON; NULL: they are */
    json_t *made;        /* owned: an array of schemas that were merged */
    fy_schema_ref *refs; /* owned: schemas that are rules */
    size_t n_refs, cap_refs;
    uint32_t any[FY_ANY_KINDS]; /* rules, plus 1; 0: not made yet */
    uint32_t n_schemas;         /* compiled so far */
    fy_err *e;
} fy_schema;

int fy_schema_fail(fy_schema *s, const fy_place *place, fy_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* "'multipleOf' is not supported" */
int fy_schema_refuse(fy_schema *s, const fy_place *place, const char *keyword);

/* --- trees --- */

fy_node fy_schema_text(fy_schema *s, const char *text);
fy_node fy_schema_seq(fy_schema *s, fy_node a, fy_node b); /* 0 when one of them is */
fy_node fy_schema_alt(fy_schema *s, fy_node a, fy_node b); /* the other when one of them is 0 */
fy_node fy_schema_optional(fy_schema *s, fy_node a);       /* empty text when a is 0 */
/* For a tree that is used more than once: a call of a rule of its own when it is large. */
fy_node fy_schema_shared(fy_schema *s, fy_node a);
fy_node fy_schema_any(fy_schema *s, int kind); /* FY_ANY_... */
fy_node fy_schema_literal(fy_schema *s, const json_t *v);
fy_node fy_schema_comma(fy_schema *s); /* between two members or items */
fy_node fy_schema_colon(fy_schema *s);
fy_node fy_schema_name(fy_schema *s, const char *name); /* of a member */
fy_node fy_schema_quoted(fy_schema *s, fy_node inside);

/* --- schema_plain.c: strings as they stand, without escapes --- */

/* A text of min to max characters (FY_MANY: any number) without the mark, which is ASCII, at most
 * 32 bytes. */
fy_node fy_schema_text_without(fy_schema *s, const char *mark, uint32_t min, uint32_t max);
fy_node fy_schema_plain_char(fy_schema *s); /* any but that with which the quote begins */
fy_node fy_schema_plain_literal(fy_schema *s, const char *text, size_t n);
/* May the name of a member stand without quotes? */
bool fy_schema_is_plain_name(const char *name);
/* What no character of such a name is. */
enum { FY_NOT_IN_NAMES = 9 };
extern const fy_cp_range fy_schema_not_in_names[FY_NOT_IN_NAMES];

/* --- schema_merge.c: one schema of several --- */

/* The schema without $ref and allOf, every keyword once; json_false: nothing is valid. View, owned
 * by s. NULL on failure. */
const json_t *fy_schema_flat(fy_schema *s, const json_t *schema, const fy_place *place);
/* Valid for both. */
const json_t *fy_schema_both(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place);
/* A copy without these keywords ("a b"); view, owned by s. */
const json_t *fy_schema_without(fy_schema *s, const json_t *schema, const char *keywords);
/* What a $ref names. */
const json_t *fy_schema_target(fy_schema *s, const char *ref, const fy_place *place);
bool fy_schema_is_annotation(const char *keyword);
/* No value is valid for both, as far as can be proven. */
bool fy_schema_disjoint(fy_schema *s, const json_t *a, const json_t *b, const fy_place *place);
/* Bits of fy_type_bit that a flat schema allows; -1: an unknown name. */
enum {
    FY_IS_NULL = 1,
    FY_IS_BOOLEAN = 2,
    FY_IS_STRING = 4,
    FY_IS_INTEGER = 8, /* whole numbers */
    FY_IS_NUMBER = 16, /* the others */
    FY_IS_ARRAY = 32,
    FY_IS_OBJECT = 64,
    FY_IS_ANY = 127,
};
int fy_schema_types(const json_t *flat);
int fy_schema_type_of(const json_t *value);

/* --- schema_pairs.c: calls that are not JSON --- */

int fy_schema_pairs(fy_schema *s, const fy_pairs_frame *f, fy_node *out);
int fy_schema_named(fy_schema *s, const fy_named_frame *f, fy_node *out);

/* --- schema_number.c, schema_regex.c, schema_object.c --- */

int fy_schema_number(fy_schema *s, const json_t *schema, bool whole, const fy_place *place,
                     fy_node *out);
int fy_schema_string(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out);
/* The text inside quotes that matches the pattern, and how many characters it has. */
int fy_schema_regex(fy_schema *s, const char *pattern, const fy_place *place, fy_node *out,
                    uint32_t *min, uint32_t *max);
/* The same alone, as a grammar. NULL on failure. */
fy_grammar *fy_schema_regex_alone(fy_schema *s, const char *pattern, const fy_place *place);
/* Refuses a pattern whose masks would take too long. */
int fy_schema_regex_check(fy_schema *s, const char *pattern, const fy_place *place);
int fy_schema_object(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out);
int fy_schema_array(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out);
int fy_schema_compile(fy_schema *s, const json_t *schema, const fy_place *place, fy_node *out);
/* A keyword that counts: *out stays where it is absent. */
int fy_schema_count(fy_schema *s, const json_t *schema, const char *key, const fy_place *place,
                    uint32_t *out);

#endif
