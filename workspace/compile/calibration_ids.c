/* The tokens of a calibration. */
#include "workspace/compile/calibration_ids.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cut_model.h"
#include "model/chain.h"
#include "model/sample.h"
#include "model/template/chat_template.h"

/* --- a text ----------------------------------------------------------------------------------- */

static int text_ids(const fy_calibration_source *s, const fy_vocab *v, fy_span text, fy_ids *out,
                    fy_err *e)
{
    /* A token is seldom longer than 16 bytes: more text than that is not looked at. */
    const size_t most = (size_t)s->max_tokens * 16;
    text.len = text.len < most ? text.len : most;
    return fy_vocab_encode(v, text, s->preset->n == 0, false, out, e);
}

/* --- prompts ---------------------------------------------------------------------------------- */

typedef struct {
    fy_str text;      /* owned */
    fy_span messages; /* view of the line */
    bool has_text;
} prompt;

static int read_prompt(fy_span line, prompt *p, fy_err *e)
{
    fy_span key, value;
    fy_json *j = fy_json_new(line.ptr, line.len, e);
    int rc = j != NULL ? fy_json_object_begin(j, e) : -1;
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        const bool is_text = fy_span_is(key, "text") || fy_span_is(key, "prompt");
        const bool is_messages = fy_span_is(key, "messages");
        const bool second = (is_text || is_messages) && (p->has_text || p->messages.ptr != NULL);
        fy_json_peek(j); /* over the white space before the value */
        const size_t begin = fy_json_offset(j);
        rc = second
                 ? fy_fail(e, FY_EFORMAT, "expected one of \"text\", \"prompt\" and \"messages\"")
             : is_text ? fy_json_string(j, &value, NULL, e)
                       : fy_json_skip(j, e);
        if (rc == 0 && is_text) {
            fy_str_add(&p->text, value.ptr, value.len);
            p->has_text = true;
        }
        if (rc == 0 && is_messages)
            p->messages = (fy_span){line.ptr + begin, fy_json_offset(j) - begin};
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    if (rc == 0 && !p->has_text && p->messages.ptr == NULL)
        rc = fy_fail(e, FY_EFORMAT, "has none of \"text\", \"prompt\" and \"messages\"");
    fy_json_free(j);
    return rc == 0 && p->text.oom ? fy_nomem(e) : rc;
}

/* *t: the model's chat template, from the first line that needs it on. */
static int prompt_ids(const fy_calibration_source *s, const fy_model *m, const fy_vocab *v,
                      const prompt *p, fy_chat_template **t, fy_ids *out, fy_err *e)
{
    fy_str text = {0};
    const fy_chat_input in = {.messages = p->messages};
    if (p->has_text)
        return text_ids(s, v, (fy_span){fy_str_z(&p->text), p->text.len}, out, e);
    if (*t == NULL && (*t = fy_chat_template_open(fy_model_gguf(m), NULL, e)) == NULL)
        return -1;
    int rc = fy_chat_template_render(*t, &in, &text, e);
    if (rc == 0)
        rc = fy_chat_encode_text(v, (fy_span){fy_str_z(&text), text.len}, out, e);
    fy_str_release(&text);
    return rc;
}

static int lines_ids(const fy_calibration_source *s, const fy_model *m, const fy_vocab *v,
                     fy_span text, fy_ids *out, fy_err *e)
{
    fy_chat_template *t = NULL;
    int rc = 0;
    for (size_t line = 1; rc == 0 && text.len > 0 && out->n < s->max_tokens; line++) {
        const fy_span one = fy_span_cut_line(&text);
        fy_span rest = one;
        prompt p = {0};
        if (fy_span_cut_word(&rest).len == 0)
            continue;
        rc = fy_check_interrupt(e) != 0 ? -1 : read_prompt(one, &p, e);
        if (rc == 0)
            rc = prompt_ids(s, m, v, &p, &t, out, e);
        if (rc != 0)
            fy_ctx(e, "line %zu", line);
        fy_str_release(&p.text);
    }
    fy_chat_template_free(t);
    return rc;
}

/* --- what the model writes -------------------------------------------------------------------- */

/* Of the beginning of a text: the model's own token, else one that ends texts. */
static int32_t first_id(const fy_vocab *v)
{
    int32_t id = fy_vocab_bos(v);
    if (id >= 0)
        return id;
    for (id = 0; id < (int32_t)fy_vocab_n(v); id++) {
        if (fy_vocab_is_eog(v, id))
            return id;
    }
    return 0;
}

static int write_ids(const fy_calibration_source *s, fy_session *session, fy_sampler *sampler,
                     const fy_vocab *v, fy_ids *out, fy_err *e)
{
    const uint32_t n_preset = (uint32_t)s->preset->n;
    const int32_t begin = first_id(v);
    int32_t id = begin;
    const float *logits = NULL;
    if (n_preset > 0 && fy_session_eval(session, s->preset->id, n_preset, NULL, NULL, e) != 0)
        return -1;
    while (out->n < s->max_tokens) {
        if (fy_session_n_past(session) == fy_session_n_ctx(session))
            fy_session_rewind(session, n_preset);
        if (fy_ids_push(out, id, e) != 0 || fy_session_eval(session, &id, 1, NULL, &logits, e) != 0)
            return -1;
        id = fy_sampler_next(sampler, logits, false, e);
        if (id < 0)
            return -1;
        if (fy_vocab_is_eog(v, id)) {
            fy_session_rewind(session, n_preset);
            id = begin;
        }
    }
    return 0;
}

static int self_ids(const fy_calibration_source *s, fy_model *m, const fy_vocab *v, fy_ids *out,
                    fy_err *e)
{
    const fy_map_options map = {0};
    const fy_sampler_params sampling = {
        .temperature = 1, .order = {FY_SAMPLE_TEMPERATURE}, .n_order = 1};
    fy_graph_device *device = fy_graph_cpu_open(&map, e);
    if (device == NULL || fy_model_add_graphs(m, s->qnn, device, FY_PRESET_AUTO, e) != 0)
        return -1;
    const fy_session_params p = {.n_ctx = fy_model_max_ctx(m),
                                 .n_threads = s->n_threads,
                                 .type_k = FY_F16,
                                 .type_v = FY_F16};
    fy_session *session = fy_session_new(m, &p, e);
    fy_sampler *sampler = session != NULL ? fy_sampler_new(&sampling, fy_vocab_n(v), v, e) : NULL;
    fy_log(FY_LOG_INFO, "the model writes %u tokens to calibrate with", s->max_tokens);
    const int rc = sampler != NULL ? write_ids(s, session, sampler, v, out, e) : -1;
    fy_sampler_free(sampler);
    fy_session_free(session);
    return rc;
}

/* --- one of them ------------------------------------------------------------------------------ */

static int file_ids(const fy_calibration_source *s, const fy_model *m, const fy_vocab *v,
                    fy_ids *out, fy_err *e)
{
    const size_t len = strlen(s->from), end = strlen(".jsonl");
    fy_map map;
    if (fy_map_open(&map, s->from, e) != 0)
        return -1;
    const fy_span text = {(const char *)map.data, map.size};
    const int rc = len > end && strcmp(s->from + len - end, ".jsonl") == 0
                       ? lines_ids(s, m, v, text, out, e)
                       : text_ids(s, v, text, out, e);
    fy_map_close(&map);
    return rc != 0 ? fy_ctx(e, "%s", s->from) : 0;
}

int fy_calibration_ids(const fy_calibration_source *s, fy_ids *out, fy_err *e)
{
    const fy_map_options map = {0};
    fy_model *m = fy_model_open_chunk(s->weights, &map, e);
    const fy_vocab *v = m != NULL ? fy_model_vocab(m, e) : NULL;
    int rc = -1;
    if (v != NULL)
        rc = strcmp(s->from, "self") == 0 ? self_ids(s, m, v, out, e) : file_ids(s, m, v, out, e);
    if (out->n > s->max_tokens)
        out->n = s->max_tokens;
    fy_model_close(m);
    return rc;
}
