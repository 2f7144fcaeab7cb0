/* Reads requests for text out of JSON trees: tables of members, stop strings, biases, prompts. */
#include "server/ask_read.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/log.h"

int fy_bad(fy_bad_ask *b, const char *param, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (b->e.code == FY_OK)
        snprintf(b->param, sizeof b->param, "%s", param);
    return fy_fail(&b->e, FY_EARG, "'%s': %s", param, text);
}

void fy_ask_refuse(fy_exchange *x, fy_ask *k, const fy_bad_ask *b)
{
    fy_reply_failure(x, b->param[0] != '\0' ? b->param : NULL, &b->e);
    fy_ask_free(k);
}

void fy_ask_handle(fy_exchange *x, const fy_reply_form *form, const char *id_prefix,
                   int (*read)(fy_ask *k, const json_t *o, fy_bad_ask *b))
{
    json_t *o = fy_body_read(x);
    if (o != NULL)
        fy_ask_handle_body(x, o, form, id_prefix, read);
}

void fy_ask_handle_body(fy_exchange *x, json_t *o, const fy_reply_form *form, const char *id_prefix,
                        int (*read)(fy_ask *k, const json_t *o, fy_bad_ask *b))
{
    fy_bad_ask b = {0};
    fy_ask *k = fy_ask_new(x, form, id_prefix);
    const int rc = k != NULL ? read(k, o, &b) : fy_nomem(&b.e);
    json_decref(o);
    if (rc != 0)
        fy_ask_refuse(x, k, &b);
    else
        fy_ask_submit(k);
}

const char *fy_member_word(const json_t *o, const char *key)
{
    const char *word = json_string_value(json_object_get(o, key));
    return word != NULL ? word : "";
}

const char *fy_json_type_name(const json_t *v)
{
    if (v == NULL)
        return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a truth value";
    case JSON_NULL:
    default: return "null";
    }
}

json_t *fy_body_read(fy_exchange *x)
{
    fy_err e = {0};
    if (x->body.len == 0) {
        fy_fail(&e, FY_EFORMAT, "the body is empty, expected a JSON object");
        fy_reply_failure(x, NULL, &e);
        return NULL;
    }
    json_t *o = fy_json_data((fy_span){x->body.ptr, x->body.len}, &e);
    if (o != NULL && !json_is_object(o)) {
        fy_fail(&e, FY_EFORMAT, "the body is %s, expected a JSON object", fy_json_type_name(o));
        json_decref(o);
        o = NULL;
    }
    if (o == NULL)
        fy_reply_failure(x, NULL, &e);
    return o;
}

/* --- members ---------------------------------------------------------------------------------- */

static bool is_whole(const fy_member *m)
{
    return m->kind == FY_MEMBER_I32 || m->kind == FY_MEMBER_U32 || m->kind == FY_MEMBER_I64;
}

static void store(const fy_member *m, double v, int64_t i, void *into)
{
    void *at = (char *)into + m->offset;
    switch (m->kind) {
    case FY_MEMBER_F32: *(float *)at = (float)v; break;
    case FY_MEMBER_F64: *(double *)at = v; break;
    case FY_MEMBER_I32: *(int32_t *)at = (int32_t)i; break;
    case FY_MEMBER_U32: *(uint32_t *)at = (uint32_t)i; break;
    case FY_MEMBER_I64: *(int64_t *)at = i; break;
    case FY_MEMBER_BOOL: *(bool *)at = i != 0; break;
    case FY_MEMBER_NOT: *(bool *)at = i == 0; break;
    case FY_MEMBER_NEUTRAL:
    default: break;
    }
}

static int read_member(const json_t *v, const fy_member *m, void *into, fy_bad_ask *b)
{
    if (m->kind == FY_MEMBER_BOOL || m->kind == FY_MEMBER_NOT) {
        if (!json_is_boolean(v))
            return fy_bad(b, m->name, "found %s, expected true or false", fy_json_type_name(v));
        store(m, 0, json_is_true(v), into);
        return 0;
    }
    if (!json_is_number(v))
        return fy_bad(b, m->name, "found %s, expected a number", fy_json_type_name(v));
    const double d = json_number_value(v);
    if (m->kind == FY_MEMBER_NEUTRAL)
        return d == m->min ? 0
                           : fy_bad(b, m->name, "ferry has no such sampler: leave it out, or set it "
                                                "to %g",
                                    m->min);
    if (is_whole(m) && d != floor(d))
        return fy_bad(b, m->name, "found %g, expected a whole number", d);
    if (!(d >= m->min && d <= m->max))
        return fy_bad(b, m->name, "found %.10g, expected %.10g to %.10g", d, m->min, m->max);
    store(m, d, json_is_integer(v) ? (int64_t)json_integer_value(v) : (int64_t)d, into);
    return 0;
}

int fy_members_read(const json_t *o, const fy_member *rows, void *into, fy_bad_ask *b)
{
    for (const fy_member *m = rows; m->name != NULL; m++) {
        const json_t *v = json_object_get(o, m->name);
        if (v != NULL && !json_is_null(v) && read_member(v, m, into, b) != 0)
            return -1;
    }
    return 0;
}

static bool is_given(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && json_array_size(v) == 0) &&
           !(json_is_string(v) && json_string_length(v) == 0);
}

/* --- ids -------------------------------------------------------------------------------------- */

static int add_id(const fy_served *v, const json_t *id, const char *param, fy_ids *out,
                  fy_bad_ask *b)
{
    const uint32_t n_vocab = v->n_vocab;
    const json_int_t i = json_integer_value(id);
    if (i < 0 || i >= (json_int_t)n_vocab)
        return fy_bad(b, param, "found the id %lld, expected 0 to %u", (long long)i, n_vocab - 1);
    return fy_ids_push(out, (int32_t)i, &b->e);
}

static fy_span text_of(const json_t *s)
{
    return (fy_span){json_string_value(s), json_string_length(s)};
}

/* {"content": [{"type": "text", "text": "..."}, ...]}: the texts joined. */
static int join_parts(const json_t *parts, const char *param, fy_str *out, fy_bad_ask *b)
{
    const json_t *part;
    size_t i;
    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text))
            return fy_bad(b, param, "part %zu of the content is not a text, which is all that the "
                                    "model reads",
                          i);
        fy_str_add(out, json_string_value(text), json_string_length(text));
    }
    return 0;
}

/* llama-server's objects, which may hold images there: the text of one. */
static int read_object(const json_t *prompt, const char *param, fy_str *out, fy_bad_ask *b)
{
    const json_t *text = json_object_get(prompt, "prompt_string");
    const json_t *content = json_object_get(prompt, "content");
    if (is_given(json_object_get(prompt, "multimodal_data")))
        return fy_bad(b, param, "has multimodal_data, but the model reads text only");
    if (json_is_array(content))
        return join_parts(content, param, out, b);
    if (!json_is_string(text))
        return fy_bad(b, param, "is an object without a prompt_string or a list of content");
    fy_str_add(out, json_string_value(text), json_string_length(text));
    return 0;
}

int fy_read_ids(const fy_served *v, const json_t *prompt, bool add_special, bool parse_special,
                const char *param, fy_ids *out, fy_bad_ask *b)
{
    const json_t *item;
    size_t i;
    if (json_is_string(prompt))
        return fy_vocab_encode(v->vocab, text_of(prompt), add_special, parse_special, out, &b->e);
    if (json_is_object(prompt)) {
        fy_str text = {0};
        int rc = read_object(prompt, param, &text, b);
        if (rc == 0)
            rc = fy_vocab_encode(v->vocab, (fy_span){fy_str_z(&text), text.len}, add_special,
                                 parse_special, out, &b->e);
        fy_str_release(&text);
        return rc;
    }
    if (!json_is_array(prompt))
        return fy_bad(b, param, "found %s, expected a string or a list of ids and strings",
                      fy_json_type_name(prompt));
    json_array_foreach(prompt, i, item)
    {
        int rc = 0;
        if (json_is_integer(item))
            rc = add_id(v, item, param, out, b);
        else if (json_is_string(item))
            rc = fy_vocab_encode(v->vocab, text_of(item), add_special && i == 0, parse_special, out,
                                 &b->e);
        else
            rc = fy_bad(b, param, "item %zu is %s, expected an id or a string", i,
                        fy_json_type_name(item));
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int add_prompt(fy_ask *k, const json_t *prompt, const char *param, fy_bad_ask *b)
{
    fy_ids ids = {0};
    if (fy_read_ids(k->served, prompt, true, true, param, &ids, b) != 0) {
        fy_ids_release(&ids);
        return -1;
    }
    snprintf(b->param, sizeof b->param, "%s", param);
    return fy_ask_add_prompt(k, &ids, &b->e);
}

int fy_ask_read_prompts(fy_ask *k, const json_t *prompt, const char *param, fy_bad_ask *b)
{
    bool strings = true, ids = false;
    const json_t *item;
    size_t i;
    if (prompt == NULL || json_is_null(prompt))
        return fy_bad(b, param, "is missing, expected a string or a list of ids");
    if (!json_is_array(prompt) || json_array_size(prompt) == 0)
        return add_prompt(k, prompt, param, b);
    json_array_foreach(prompt, i, item)
    {
        strings &= json_is_string(item) || json_is_array(item) || json_is_object(item);
        ids |= json_is_integer(item);
    }
    if (!strings || ids) /* one prompt, of ids, perhaps with strings among them */
        return add_prompt(k, prompt, param, b);
    json_array_foreach(prompt, i, item)
    {
        if (add_prompt(k, item, param, b) != 0)
            return -1;
    }
    return 0;
}

/* --- stop strings and biases ------------------------------------------------------------------ */

/* turn: what ends an answer of a conversation, too. */
static int read_stop(fy_ask *k, const json_t *stop, fy_span turn, fy_bad_ask *b)
{
    fy_span texts[FY_STOPS_MAX];
    size_t n = 0, i;
    const json_t *item;
    if (stop == NULL || json_is_null(stop)) {
        /* none of its own */
    } else if (json_is_string(stop)) {
        texts[n++] = text_of(stop);
    } else if (json_is_array(stop)) {
        json_array_foreach(stop, i, item)
        {
            if (!json_is_string(item))
                return fy_bad(b, "stop", "item %zu is %s, expected a string", i,
                              fy_json_type_name(item));
            if (n == FY_STOPS_MAX)
                return fy_bad(b, "stop", "more than %d strings", FY_STOPS_MAX);
            texts[n++] = text_of(item);
        }
    } else {
        return fy_bad(b, "stop", "found %s, expected a string or a list of strings",
                      fy_json_type_name(stop));
    }
    for (i = 0; i < n; i++) {
        if (texts[i].len == 0)
            return fy_bad(b, "stop", "an empty string would stop every answer");
    }
    if (turn.len > 0 && n < FY_STOPS_MAX)
        texts[n++] = turn;
    if (n == 0)
        return 0;
    snprintf(b->param, sizeof b->param, "stop");
    k->stops = fy_stops_new(texts, n, &b->e);
    return k->stops != NULL ? 0 : -1;
}

enum { BIASES_MAX = 1024 };

static int add_bias(fy_ask *k, const json_t *key, fy_span name, const json_t *value, fy_bad_ask *b)
{
    const uint32_t n_vocab = k->served->n_vocab;
    fy_ids ids = {0};
    const double bias = json_is_false(value) ? -INFINITY : json_number_value(value);
    char *end = NULL;
    int rc = 0;
    if (!json_is_false(value) && !json_is_number(value))
        return fy_bad(b, "logit_bias", "a bias is %s, expected a number or false",
                      fy_json_type_name(value));
    if (!(fabs(bias) <= 1e6) && !json_is_false(value))
        return fy_bad(b, "logit_bias", "a bias is %g, expected -1e6 to 1e6", bias);
    const long long id = key != NULL && json_is_integer(key) ? (long long)json_integer_value(key)
                         : name.len > 0                      ? strtoll(name.ptr, &end, 10)
                                                             : -1;
    const bool is_id = (key != NULL && json_is_integer(key)) ||
                       (name.len > 0 && end == name.ptr + name.len);
    if (is_id && (id < 0 || id >= n_vocab))
        return fy_bad(b, "logit_bias", "found the id %lld, expected 0 to %u", id, n_vocab - 1);
    if (is_id)
        rc = fy_ids_push(&ids, (int32_t)id, &b->e);
    else
        rc = fy_vocab_encode(k->served->vocab, name, false, true, &ids, &b->e);
    if (rc == 0 && k->sampler.n_bias + ids.n > BIASES_MAX)
        rc = fy_bad(b, "logit_bias", "more than %d tokens", BIASES_MAX);
    for (size_t i = 0; rc == 0 && i < ids.n; i++)
        k->bias[k->sampler.n_bias++] = (fy_logit_bias){ids.id[i], (float)bias};
    fy_ids_release(&ids);
    return rc;
}

static int read_bias(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *list = json_object_get(o, "logit_bias"), *value, *item;
    const char *name;
    size_t i;
    if (list == NULL || json_is_null(list) || json_is_false(list))
        return 0;
    k->bias = calloc(BIASES_MAX, sizeof *k->bias);
    if (k->bias == NULL)
        return fy_nomem(&b->e);
    for (i = 0; i < k->served->sampler.n_bias && i < BIASES_MAX; i++) /* the server's own */
        k->bias[i] = k->served->sampler.bias[i];
    k->sampler.n_bias = i;
    k->sampler.bias = k->bias;
    if (json_is_object(list)) {
        json_object_foreach((json_t *)(uintptr_t)list, name, value)
        {
            if (add_bias(k, NULL, fy_span_of(name), value, b) != 0)
                return -1;
        }
        return 0;
    }
    if (!json_is_array(list))
        return fy_bad(b, "logit_bias", "found %s, expected an object or a list of pairs",
                      fy_json_type_name(list));
    json_array_foreach(list, i, item)
    {
        const json_t *key = json_array_get(item, 0);
        if (json_array_size(item) != 2 || (!json_is_integer(key) && !json_is_string(key)))
            return fy_bad(b, "logit_bias", "item %zu is not a pair of a token and a number", i);
        if (add_bias(k, key, json_is_string(key) ? text_of(key) : (fy_span){0},
                     json_array_get(item, 1), b) != 0)
            return -1;
    }
    return 0;
}

/* --- samplers --------------------------------------------------------------------------------- */

/* Steps of llama-server that ferry does not have: neutral, or refused by their own members. */
static bool is_foreign_step(const char *name)
{
    static const char *const names[] = {"dry", "top_n_sigma", "xtc", "infill", "adaptive_p"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static int read_order(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *list = json_object_get(o, "samplers"), *item;
    fy_str text = {0};
    size_t i;
    if (list == NULL || json_is_null(list))
        return 0;
    if (json_is_string(list)) {
        fy_str_puts(&text, json_string_value(list));
    } else {
        json_array_foreach(list, i, item)
        {
            if (json_is_string(item) && !is_foreign_step(json_string_value(item)))
                fy_str_printf(&text, "%s%s", text.len > 0 ? ";" : "", json_string_value(item));
        }
    }
    snprintf(b->param, sizeof b->param, "samplers");
    int rc = !json_is_string(list) && !json_is_array(list)
                 ? fy_bad(b, "samplers", "found %s, expected a list of names", fy_json_type_name(list))
             : text.oom ? fy_nomem(&b->e)
                        : 0;
    if (rc == 0 && text.len == 0)
        k->sampler.n_order = 0;
    else if (rc == 0)
        rc = fy_sampler_parse_order(fy_str_z(&text), &k->sampler, &b->e);
    fy_str_release(&text);
    return rc;
}

static int read_seed(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *v = json_object_get(o, "seed");
    if (v == NULL || json_is_null(v))
        return 0;
    if (!json_is_number(v))
        return fy_bad(b, "seed", "found %s, expected a whole number", fy_json_type_name(v));
    const double d = json_number_value(v);
    if (d != floor(d) || d >= 18446744073709551616.0)
        return fy_bad(b, "seed", "found %.17g, expected a whole number below 2^64", d);
    /* llama-server's "random" is -1, or the same of 32 bits */
    k->has_seed = d >= 0 && d != 4294967295.0;
    k->sampler.seed = json_is_integer(v) ? (uint64_t)json_integer_value(v) : (uint64_t)fmax(d, 0);
    return 0;
}

#define IN_ASK(field) offsetof(fy_ask, field)
static const fy_member common_members[] = {
    {"temperature", FY_MEMBER_F32, IN_ASK(sampler.temperature), 0, 100},
    {"top_k", FY_MEMBER_I32, IN_ASK(sampler.top_k), -1, INT32_MAX},
    {"top_p", FY_MEMBER_F32, IN_ASK(sampler.top_p), 0, 1},
    {"min_p", FY_MEMBER_F32, IN_ASK(sampler.min_p), 0, 1},
    {"typical_p", FY_MEMBER_F32, IN_ASK(sampler.typical_p), 0, 1},
    {"repeat_penalty", FY_MEMBER_F32, IN_ASK(sampler.repeat_penalty), 0.01, 100},
    {"repeat_last_n", FY_MEMBER_I32, IN_ASK(sampler.repeat_last_n), -1, FY_SAMPLE_WINDOW_MAX},
    {"presence_penalty", FY_MEMBER_F32, IN_ASK(sampler.presence_penalty), -100, 100},
    {"frequency_penalty", FY_MEMBER_F32, IN_ASK(sampler.frequency_penalty), -100, 100},
    {"n_predict", FY_MEMBER_I64, IN_ASK(n_predict), -1, INT32_MAX},
    {"max_tokens", FY_MEMBER_I64, IN_ASK(n_predict), -1, INT32_MAX},
    {"max_completion_tokens", FY_MEMBER_I64, IN_ASK(n_predict), -1, INT32_MAX},
    {"n", FY_MEMBER_U32, IN_ASK(n_choices), 1, FY_ASK_ANSWERS_MAX},
    {"stream", FY_MEMBER_BOOL, IN_ASK(stream), 0, 0},
    {"ignore_eos", FY_MEMBER_BOOL, IN_ASK(ignore_eos), 0, 0},
    {"cache_prompt", FY_MEMBER_NOT, IN_ASK(no_cache), 0, 0},
    {"id_slot", FY_MEMBER_I32, IN_ASK(slot), -1, FY_SEQ_MAX - 1},
    {"return_tokens", FY_MEMBER_BOOL, IN_ASK(return_tokens), 0, 0},
    {"timings_per_token", FY_MEMBER_BOOL, IN_ASK(timings_per_token), 0, 0},
    {"return_progress", FY_MEMBER_BOOL, IN_ASK(return_progress), 0, 0},
    {"post_sampling_probs", FY_MEMBER_BOOL, IN_ASK(post_probs), 0, 0},
    {"verbose", FY_MEMBER_BOOL, IN_ASK(verbose), 0, 0},
    {"t_max_predict_ms", FY_MEMBER_F64, IN_ASK(max_ms), -1, 1e12},
    {"mirostat", FY_MEMBER_NEUTRAL, 0, 0, 0},
    {"dry_multiplier", FY_MEMBER_NEUTRAL, 0, 0, 0},
    {"xtc_probability", FY_MEMBER_NEUTRAL, 0, 0, 0},
    {"dynatemp_range", FY_MEMBER_NEUTRAL, 0, 0, 0},
    {"min_keep", FY_MEMBER_NEUTRAL, 0, 0, 0},
    {.name = NULL},
};

/* No answer without what was asked for. */
static int refuse_unsupported(const json_t *o, fy_bad_ask *b)
{
    static const char *const names[] = {"functions", "lora", "audio", "input_prefix",
                                        "grammar_lazy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_given(json_object_get(o, names[i])))
            return fy_bad(b, names[i], "ferry does not support this member yet");
    }
    return 0;
}

/* PowerServe's "main+draft": with --spec the draft guesses for every request. */
static void note_draft(const fy_ask *k, const json_t *o)
{
    static atomic_bool noted;
    const char *model = json_string_value(json_object_get(o, "model"));
    if (model != NULL && strchr(model, '+') != NULL && k->served->speculators == NULL &&
        !atomic_exchange(&noted, true))
        fy_log(FY_LOG_WARN, "a request names a model and a draft: without --spec the model alone "
                            "answers");
}

int fy_ask_read_common(fy_ask *k, const json_t *o, fy_bad_ask *b)
{
    const json_t *options = json_object_get(o, "stream_options");
    const json_t *usage = json_object_get(options, "include_usage");
    const fy_span turn = json_object_get(o, "messages") != NULL
                             ? fy_vocab_turn_text(k->served->vocab)
                             : (fy_span){0};
    if (fy_members_read(o, common_members, k, b) != 0 || refuse_unsupported(o, b) != 0)
        return -1;
    note_draft(k, o);
    k->include_usage = json_is_true(usage);
    if (k->sampler.top_k < 0)
        k->sampler.top_k = 0;
    if (k->slot >= (int32_t)k->served->n_slots)
        return fy_bad(b, "id_slot", "found %d, the server has %u slots (--parallel)", k->slot,
                      k->served->n_slots);
    return read_seed(k, o, b) != 0 || read_order(k, o, b) != 0 || read_bias(k, o, b) != 0 ||
                   fy_ask_read_structure(k, o, b) != 0 ||
                   read_stop(k, json_object_get(o, "stop"), turn, b) != 0
               ? -1
               : 0;
}
