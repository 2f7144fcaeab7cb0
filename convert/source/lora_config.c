/* What PEFT writes about an adapter besides its weights: adapter_config.json (ranks, scales, and
 * what cannot be merged), the patterns in it that match names of modules, and the names of the
 * adapter's tensors. */
#include "convert/source/lora.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <math.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "base/str.h"
#include "convert/source/config_value.h"

/* --- names of tensors ------------------------------------------------------------------------- */

static fy_span after(fy_span s, size_t n)
{
    return (fy_span){s.ptr + n, s.len - n};
}

/* Where the last `word` begins; s.len: nowhere. */
static size_t last(fy_span s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = s.len >= n ? s.len - n + 1 : 0; i-- > 0;) {
        if (memcmp(s.ptr + i, word, n) == 0)
            return i;
    }
    return s.len;
}

/* "weight" or "default.weight", of any name of an adapter. */
static bool is_param(fy_span s, const char *param)
{
    size_t dot = last(s, ".");
    if (dot < s.len && last((fy_span){s.ptr, dot}, ".") < dot)
        return false;
    return fy_span_is(dot < s.len ? after(s, dot + 1) : s, param);
}

/* "lora_A.weight" */
static fy_lora_part part_of(fy_span s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != '.')
        n++;
    fy_span word = {s.ptr, n}, rest = n < s.len ? after(s, n + 1) : (fy_span){s.ptr + n, 0};
    if (fy_span_is(word, "lora_magnitude_vector"))
        return FY_LORA_DORA;
    if (fy_span_is(word, "lora_A") && is_param(rest, "weight"))
        return FY_LORA_A;
    if (fy_span_is(word, "lora_B") && is_param(rest, "weight"))
        return FY_LORA_B;
    if (fy_span_is(word, "lora_B") && is_param(rest, "bias"))
        return FY_LORA_BIAS;
    bool one = last(rest, ".") == rest.len; /* nothing, or the name of an adapter */
    if (fy_span_is(word, "lora_embedding_A") && one)
        return FY_LORA_EMBEDDING_A;
    if (fy_span_is(word, "lora_embedding_B") && one)
        return FY_LORA_EMBEDDING_B;
    return FY_LORA_UNKNOWN;
}

/* Module and parameter around a word that PEFT puts between them. */
static bool split(fy_span name, const char *word, fy_lora_name *out)
{
    size_t at = last(name, word), n = strlen(word);
    if (at == 0 || at == name.len)
        return false;
    out->module = (fy_span){name.ptr, at};
    out->rest = after(name, at + n - 1); /* with the dot that ends the word */
    if (fy_span_begins(out->rest, ".default."))
        out->rest = after(out->rest, strlen(".default"));
    return true;
}

fy_lora_name fy_lora_name_of(fy_span name)
{
    fy_lora_name out = {.part = FY_LORA_INSTEAD};
    if (fy_span_begins(name, "base_model.model."))
        name = after(name, strlen("base_model.model."));
    size_t at = last(name, ".lora_");
    if (at < name.len && at > 0) {
        out.module = (fy_span){name.ptr, at};
        out.part = part_of(after(name, at + 1));
        return out;
    }
    if (split(name, ".modules_to_save.", &out) || split(name, ".base_layer.", &out))
        return out;
    at = last(name, ".");
    out.module = (fy_span){name.ptr, at};
    out.rest = after(name, at);
    return out;
}

fy_span fy_lora_tail(fy_span name)
{
    static const char *const words[] = {"model.", "language_model.", "transformer.", "gpt_neox."};
    for (size_t i = 0; i < sizeof words / sizeof words[0];) {
        if (fy_span_begins(name, words[i])) {
            name = after(name, strlen(words[i]));
            i = 0;
        } else {
            i++;
        }
    }
    return name;
}

/* --- regular expressions ---------------------------------------------------------------------- */

enum { MATCH_STEPS = 100000, MATCH_KIB = 1024 };

/* Perl's syntax, which is Python's for what such patterns hold. Hostile patterns and names cost
 * bounded time and memory. */
typedef struct {
    pcre2_code *code;            /* owned */
    pcre2_match_context *limits; /* owned */
    char shown[FY_QUOTE_BYTES];
} name_regex;

static void regex_free(name_regex *r)
{
    if (r == NULL)
        return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    free(r);
}

/* NULL on failure, with the position and the reason. */
static name_regex *regex_new(const char *pattern, fy_err *e)
{
    int why = 0;
    PCRE2_SIZE at = 0;
    name_regex *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fy_nomem(e);
        return NULL;
    }
    fy_quote(r->shown, sizeof r->shown, fy_span_of(pattern));
    r->limits = pcre2_match_context_create(NULL);
    r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &why,
                            &at, NULL);
    if (r->code != NULL && r->limits != NULL) {
        pcre2_set_match_limit(r->limits, MATCH_STEPS);
        pcre2_set_depth_limit(r->limits, MATCH_STEPS);
        pcre2_set_heap_limit(r->limits, MATCH_KIB);
        return r;
    }
    if (r->code != NULL || r->limits == NULL || why == PCRE2_ERROR_HEAP_FAILED) {
        fy_nomem(e);
    } else {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(why, text, sizeof text);
        fy_fail(e, FY_EFORMAT, "'%s' is not a regular expression: %s, at byte %zu", r->shown,
                (const char *)text, (size_t)at);
    }
    regex_free(r);
    return NULL;
}

/* Does it match somewhere in the name? 1, 0, -1. */
static int regex_in(const name_regex *r, fy_span name, fy_err *e)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (data == NULL)
        return fy_nomem(e);
    int rc = pcre2_match(r->code, (PCRE2_SPTR)name.ptr, name.len, 0, 0, data, r->limits);
    pcre2_match_data_free(data);
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fy_nomem(e);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        return fy_fail(e, FY_EFORMAT,
                       "the regular expression '%s' takes too many steps; write it "
                       "without repetitions inside repetitions",
                       r->shown);
    return 0; /* no match, or a name that is not UTF-8 */
}

/* --- the configuration ------------------------------------------------------------------------ */

/* A key of rank_pattern or alpha_pattern. */
typedef struct fy_lora_pattern {
    const char *key;   /* view */
    name_regex *regex; /* owned; NULL: letters and dots, compared without it */
    double value;
} pattern;

/* --- patterns --------------------------------------------------------------------------------- */

static bool is_simple(const char *key)
{
    for (; *key != '\0'; key++) {
        if (!isalnum((unsigned char)*key) && strchr("._-", *key) == NULL)
            return false;
    }
    return true;
}

/* Key is the module's name or the end of it after a dot; a dot of the key is any character. */
static bool ends_name(const char *key, fy_span module)
{
    size_t n = strlen(key);
    if (n > module.len)
        return false;
    const char *end = module.ptr + (module.len - n);
    for (size_t i = n; i-- > 0;) {
        if (key[i] != '.' && key[i] != end[i])
            return false;
    }
    return n == module.len || end[-1] == '.';
}

static int compile(pattern *p, fy_err *e)
{
    if (is_simple(p->key))
        return 0;
    fy_str text = {0};
    fy_str_printf(&text, "^(.*\\.)?(%s)$", p->key);
    if (text.oom)
        fy_nomem(e);
    else
        p->regex = regex_new(fy_str_z(&text), e);
    fy_str_release(&text);
    return p->regex != NULL ? 0 : -1;
}

/* *value becomes that of the first pattern that matches, if there is one. */
static int look_up(const fy_lora_patterns *ps, fy_span module, double *value, fy_err *e)
{
    for (size_t i = 0; i < ps->n; i++) {
        const pattern *p = &ps->list[i];
        int rc = p->regex == NULL ? ends_name(p->key, module) : regex_in(p->regex, module, e);
        if (rc < 0)
            return -1;
        if (rc == 1) {
            *value = p->value;
            return 0;
        }
    }
    return 0;
}

static int check_rank(const fy_cfg *s, const char *key, const json_t *v, fy_err *e)
{
    double r = json_number_value(v);
    if (json_is_number(v) && r >= 1 && r <= FY_LORA_MAX_RANK && r == floor(r))
        return 0;
    return fy_cfg_bad(s, key, v, "a rank from 1 to 2048", e);
}

static int check_alpha(const fy_cfg *s, const char *key, const json_t *v, fy_err *e)
{
    if (json_is_number(v) && isfinite((float)json_number_value(v)))
        return 0;
    return fy_cfg_bad(s, key, v, "a number", e);
}

typedef int check(const fy_cfg *s, const char *key, const json_t *v, fy_err *e);

static int read_patterns(fy_lora_patterns *ps, const fy_cfg *s, const char *key, check *is_good,
                         fy_err *e)
{
    const json_t *obj = NULL;
    if (fy_cfg_object(s, key, &obj, e) < 0)
        return -1;
    size_t n = json_object_size(obj);
    fy_cfg below = fy_cfg_below(s, key, obj);
    if (n == 0)
        return 0;
    ps->list = calloc(n, sizeof *ps->list);
    if (ps->list == NULL)
        return fy_nomem(e);
    /* Iterators of jansson are not const, although they change nothing. */
    json_t *open = json_object_get(s->obj, key);
    for (void *it = json_object_iter(open); it != NULL; it = json_object_iter_next(open, it)) {
        pattern *p = &ps->list[ps->n++];
        const json_t *v = json_object_iter_value(it);
        p->key = json_object_iter_key(it);
        p->value = json_number_value(v);
        if (is_good(&below, p->key, v, e))
            return -1;
        if (compile(p, e))
            return fy_ctx(e, "%s", key);
    }
    return 0;
}

static void release_patterns(fy_lora_patterns *ps)
{
    for (size_t i = 0; i < ps->n; i++)
        regex_free(ps->list[i].regex);
    free(ps->list);
    *ps = (fy_lora_patterns){0};
}

/* --- what is refused -------------------------------------------------------------------------- */

/* Keys that are absent, null, false or empty in an adapter that is B A and no more. */
static const struct {
    const char *key, *what;
} refused[] = {
    {"use_dora", "DoRA scales the merged rows again"},
    {"use_qalora", "QALoRA pools the inputs of a quantized base"},
    {"use_bdlora", "BD-LoRA's matrices are diagonals of blocks"},
    {"target_parameters", "it adapts parameters, as fused experts are, instead of modules"},
    {"trainable_token_indices", "it trains single rows of the embedding"},
    {"layer_replication", "it repeats layers of its base"},
    {"alora_invocation_tokens", "an activated LoRA changes some of the tokens only"},
    {"arrow_config", "Arrow chooses between adapters for each token"},
    {"monteclora_config", "MonteCLoRA samples its weights"},
    {"kasa_config", "KaSA changes the weights of its base"},
    {"velora_config", "VeLoRA keeps more than A and B"},
};

static bool is_set(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && json_array_size(v) == 0) &&
           !(json_is_object(v) && json_object_size(v) == 0);
}

/* Some ways to begin a training take a part out of the base's weights, which the adapter then
 * holds: it does not fit the weights that the checkpoint has. */
static int check_init(const fy_cfg *s, fy_err *e)
{
    static const char *const kept[] = {"gaussian", "eva", "orthogonal", "mica"};
    const json_t *v = fy_cfg_value(s, "init_lora_weights");
    char q[FY_QUOTE_BYTES];
    if (v == NULL || json_is_boolean(v))
        return 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0] && json_is_string(v); i++) {
        if (strcmp(json_string_value(v), kept[i]) == 0)
            return 0;
    }
    if (!json_is_string(v))
        return fy_cfg_bad(s, "init_lora_weights", v, "true, false or a word", e);
    return fy_fail(e, FY_EUNSUPPORTED,
                   "init_lora_weights is \"%s\", which changes the weights of the base that the "
                   "adapter is trained on; save the adapter for the unchanged base "
                   "(save_pretrained with path_initial_model_for_weight_conversion)",
                   fy_quote(q, sizeof q, fy_span_of(json_string_value(v))));
}

static int check_kind(const fy_cfg *s, fy_err *e)
{
    const char *type = NULL;
    char q[FY_QUOTE_BYTES];
    int rc = fy_cfg_string(s, "peft_type", &type, e);
    if (rc < 0)
        return -1;
    if (rc == 1)
        return fy_fail(e, FY_EFORMAT,
                       "peft_type is missing; is it the configuration of an adapter?");
    if (strcmp(type, "LORA") != 0)
        return fy_fail(e, FY_EUNSUPPORTED, "peft_type is %s; ferry merges adapters of type LORA",
                       fy_quote(q, sizeof q, fy_span_of(type)));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (is_set(json_object_get(s->obj, refused[i].key)))
            return fy_fail(e, FY_EUNSUPPORTED, "%s is set: %s, which ferry does not merge",
                           refused[i].key, refused[i].what);
    }
    return check_init(s, e);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int read_all(fy_lora_config *c, const fy_cfg *s, fy_err *e)
{
    const json_t *r = fy_cfg_value(s, "r"), *alpha = fy_cfg_value(s, "lora_alpha");
    if (check_kind(s, e) || (r != NULL && check_rank(s, "r", r, e)) ||
        (alpha != NULL && check_alpha(s, "lora_alpha", alpha, e)) ||
        fy_cfg_bool(s, "use_rslora", &c->rslora, e) < 0 ||
        fy_cfg_bool(s, "ensure_weight_tying", &c->keeps_tied, e) < 0 ||
        fy_cfg_string(s, "base_model_name_or_path", &c->base, e) < 0 ||
        read_patterns(&c->ranks, s, "rank_pattern", check_rank, e) ||
        read_patterns(&c->alphas, s, "alpha_pattern", check_alpha, e))
        return -1;
    c->rank = r != NULL ? (uint32_t)json_number_value(r) : 8; /* PEFT's defaults */
    c->alpha = alpha != NULL ? json_number_value(alpha) : 8;
    return 0;
}

int fy_lora_config_parse(fy_lora_config *c, const void *p, size_t n, fy_err *e)
{
    *c = (fy_lora_config){.root = fy_json_tree(p, n, e)};
    if (c->root == NULL)
        return -1;
    if (!json_is_object(c->root))
        return fy_fail(e, FY_EFORMAT, "no JSON object");
    fy_cfg s = fy_cfg_of(c->root);
    return read_all(c, &s, e);
}

int fy_lora_config_open(fy_lora_config *c, const char *dir, fy_err *e)
{
    *c = (fy_lora_config){0};
    char *path = fy_path_join(dir, FY_LORA_CONFIG);
    fy_map m = {0};
    int rc = -1;
    if (path == NULL) {
        fy_nomem(e);
    } else if (!fy_file_exists(path)) {
        fy_fail(e, FY_EIO, "%s: no " FY_LORA_CONFIG " in it, so it is not an adapter of PEFT", dir);
    } else if (fy_map_open(&m, path, e) == 0) {
        rc = fy_lora_config_parse(c, m.data, m.size, e);
        if (rc)
            fy_ctx(e, "%s", path);
        fy_map_close(&m);
    }
    free(path);
    return rc;
}

void fy_lora_config_release(fy_lora_config *c)
{
    release_patterns(&c->ranks);
    release_patterns(&c->alphas);
    json_decref(c->root);
    *c = (fy_lora_config){0};
}

int fy_lora_config_rank(const fy_lora_config *c, fy_span module, uint32_t *rank, fy_err *e)
{
    double r = c->rank;
    if (look_up(&c->ranks, module, &r, e))
        return -1;
    *rank = (uint32_t)r;
    return 0;
}

int fy_lora_config_scale(const fy_lora_config *c, fy_span module, uint32_t rank, double *scale,
                         fy_err *e)
{
    double alpha = c->alpha;
    if (look_up(&c->alphas, module, &alpha, e))
        return -1;
    *scale = c->rslora ? alpha / sqrt(rank) : alpha / rank;
    return 0;
}
