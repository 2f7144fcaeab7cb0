/* What PEFT writes about an adapter besides its weights: adapter_config.json (ranks, scales, and
 * what cannot be merged), the patterns in it that match names of modules, and the names of the
 * adapter's tensors. */
#include "convert/source/lora.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <limits.h>
#include <math.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
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

/* --- patterns --------------------------------------------------------------------------------- */

enum { MATCH_STEPS = 100000, MATCH_KIB = 1024 };

/* A key of rank_pattern or alpha_pattern. Perl's syntax, which is Python's for what such patterns
 * hold. */
typedef struct fy_lora_pattern {
    pcre2_code *code; /* owned */
    char shown[FY_QUOTE_BYTES];
    double value;
} pattern;

static int compile(pattern *p, const char *key, fy_err *e)
{
    int why = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR reason[128];
    fy_str text = {0};
    fy_str_printf(&text, "^(.*\\.)?(%s)$", key);
    fy_quote(p->shown, sizeof p->shown, fy_span_of(fy_str_z(&text)));
    if (!text.oom)
        p->code = pcre2_compile((PCRE2_SPTR)text.ptr, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                &why, &at, NULL);
    fy_str_release(&text);
    if (p->code != NULL)
        return 0;
    if (why == 0 || why == PCRE2_ERROR_HEAP_FAILED)
        return fy_nomem(e);
    pcre2_get_error_message(why, reason, sizeof reason);
    return fy_fail(e, FY_EFORMAT, "'%s' is not a regular expression: %s, at byte %zu", p->shown,
                   (const char *)reason, (size_t)at);
}

/* Is it the module's name, or the end of it after a dot? 1, 0, -1. */
static int matches(const pattern *p, fy_span module, pcre2_match_data *data,
                   pcre2_match_context *limits, fy_err *e)
{
    const int rc = pcre2_match(p->code, (PCRE2_SPTR)module.ptr, module.len, 0, 0, data, limits);
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fy_nomem(e);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        return fy_fail(e, FY_EFORMAT,
                       "the regular expression '%s' takes too many steps; write it "
                       "without repetitions inside repetitions",
                       p->shown);
    return rc >= 0; /* else no match, or a name that is not UTF-8 */
}

/* *value becomes that of the first pattern that matches, if there is one. Hostile patterns and
 * names cost bounded time and memory. */
static int look_up(const fy_lora_patterns *ps, fy_span module, double *value, fy_err *e)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    int rc = data != NULL && limits != NULL ? 0 : fy_nomem(e);
    if (rc == 0) {
        pcre2_set_match_limit(limits, MATCH_STEPS);
        pcre2_set_depth_limit(limits, MATCH_STEPS);
        pcre2_set_heap_limit(limits, MATCH_KIB);
    }
    for (size_t i = 0; i < ps->n && rc == 0; i++) {
        rc = matches(&ps->list[i], module, data, limits, e);
        if (rc == 1)
            *value = ps->list[i].value;
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    return rc < 0 ? -1 : 0;
}

/* --- the configuration ------------------------------------------------------------------------ */

static bool is_rank(const json_t *v)
{
    double r = json_number_value(v);
    return json_is_number(v) && r >= 1 && r <= FY_LORA_MAX_RANK && r == floor(r);
}

static bool is_alpha(const json_t *v)
{
    return json_is_number(v) && isfinite((float)json_number_value(v));
}

/* The two settings that patterns of names change. */
typedef struct {
    const char *key, *patterns, *expected;
    bool (*is_good)(const json_t *v);
} setting;

static const setting rank_keys = {"r", "rank_pattern", "a rank from 1 to 2048", is_rank},
                     alpha_keys = {"lora_alpha", "alpha_pattern", "a number", is_alpha};

/* The value for all modules, and of the patterns. */
static double read_setting(const fy_cfg *s, const setting *of, fy_lora_patterns *ps)
{
    const json_t *v = fy_cfg_value(s, of->key), *each;
    const char *key;
    fy_cfg below = fy_cfg_below(s, of->patterns);
    if (v != NULL && !of->is_good(v))
        fy_cfg_bad(s, of->key, v, of->expected);
    ps->list = calloc(json_object_size(below.obj) + 1, sizeof *ps->list);
    if (ps->list == NULL) {
        fy_nomem(s->e);
        return 0;
    }
    json_object_foreach((json_t *)(uintptr_t)below.obj, key, each)
    {
        pattern *p = &ps->list[ps->n];
        p->value = json_number_value(each);
        if (!of->is_good(each))
            fy_cfg_bad(&below, key, each, of->expected);
        else if (s->e->code == FY_OK && compile(p, key, s->e) != 0)
            fy_ctx(s->e, "%s", of->patterns);
        ps->n += p->code != NULL;
    }
    return v != NULL ? json_number_value(v) : 8; /* PEFT's defaults */
}

static void release_patterns(fy_lora_patterns *ps)
{
    for (size_t i = 0; i < ps->n; i++)
        pcre2_code_free(ps->list[i].code);
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
static void check_init(const fy_cfg *s)
{
    static const char *const kept[] = {"gaussian", "eva", "orthogonal", "mica"};
    const json_t *v = fy_cfg_value(s, "init_lora_weights");
    char q[FY_QUOTE_BYTES];
    if (v == NULL || json_is_boolean(v))
        return;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0] && json_is_string(v); i++) {
        if (strcmp(json_string_value(v), kept[i]) == 0)
            return;
    }
    if (!json_is_string(v))
        fy_cfg_bad(s, "init_lora_weights", v, "true, false or a word");
    else
        fy_fail(s->e, FY_EUNSUPPORTED,
                "init_lora_weights is \"%s\", which changes the weights of the base that the "
                "adapter is trained on; save the adapter for the unchanged base "
                "(save_pretrained with path_initial_model_for_weight_conversion)",
                fy_quote(q, sizeof q, fy_span_of(json_string_value(v))));
}

static void check_kind(const fy_cfg *s)
{
    const char *type = "LORA";
    char q[FY_QUOTE_BYTES];
    if (!fy_cfg_string(s, "peft_type", &type))
        fy_fail(s->e, FY_EFORMAT, "peft_type is missing; is it the configuration of an adapter?");
    if (strcmp(type, "LORA") != 0)
        fy_fail(s->e, FY_EUNSUPPORTED, "peft_type is %s; ferry merges adapters of type LORA",
                fy_quote(q, sizeof q, fy_span_of(type)));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (is_set(json_object_get(s->obj, refused[i].key)))
            fy_fail(s->e, FY_EUNSUPPORTED, "%s is set: %s, which ferry does not merge",
                    refused[i].key, refused[i].what);
    }
    check_init(s);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Takes the tree; NULL: the text was none, which is recorded. `where` is for messages. */
static int read_tree(fy_lora_config *c, json_t *root, const char *where, fy_err *e)
{
    fy_err own = {0};
    fy_cfg s = fy_cfg_of(root, &own);
    *c = (fy_lora_config){.root = root};
    if (root == NULL)
        return -1;
    check_kind(&s);
    fy_cfg_bool(&s, "use_rslora", &c->rslora);
    fy_cfg_bool(&s, "ensure_weight_tying", &c->keeps_tied);
    fy_cfg_string(&s, "base_model_name_or_path", &c->base);
    double rank = read_setting(&s, &rank_keys, &c->ranks);
    c->alpha = read_setting(&s, &alpha_keys, &c->alphas);
    if (own.code != FY_OK)
        return fy_fail(e, own.code, "%s%s", where, own.msg);
    c->rank = (uint32_t)rank;
    return 0;
}

int fy_lora_config_parse(fy_lora_config *c, const void *p, size_t n, fy_err *e)
{
    return read_tree(c, fy_cfg_tree(p, n, NULL, e), "", e);
}

int fy_lora_config_open(fy_lora_config *c, const char *dir, fy_err *e)
{
    char where[PATH_MAX + 2];
    char *path = fy_path_join(dir, FY_LORA_CONFIG);
    *c = (fy_lora_config){0};
    int rc = path == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && !fy_file_exists(path))
        rc = fy_fail(e, FY_EIO, "%s: no " FY_LORA_CONFIG " in it, so it is not an adapter of PEFT",
                     dir);
    fy_map m;
    if (rc == 0)
        rc = fy_map_open(&m, path, e);
    if (rc == 0) {
        snprintf(where, sizeof where, "%s: ", path);
        json_t *root = fy_cfg_tree(m.data, m.size, NULL, e);
        rc = root != NULL ? read_tree(c, root, where, e) : fy_ctx(e, "%s", path);
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
