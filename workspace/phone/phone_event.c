/* Events of `ferry chat --json` on the phone. Nothing in them is trusted: numbers have ranges, texts
 * go to the terminal as a model's do. */
#include "workspace/phone/phone_chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_rows.h"

typedef struct {
    char event[16], stop[16], backend[64];
    char *text, *message, *content, *summary;
    int64_t id, status;
    bool thinking;
    uint32_t n_used, n_ctx, n_hidden, n_prompt, n_reused, n_generated;
    double load_ms, prompt_ms, first_ms, generate_ms;
} members;

/* "thinking" is true in a token, and a text in an answer, which is its tokens once more. */
static int take_thinking(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    (void)t;
    return fy_json_peek(j) == FY_JSON_STRING ? fy_json_skip(j, e) : fy_json_bool(j, at, e);
}

#define MEMBER(kind, name, field) FY_JSON_FIELD(kind, name, members, field, false)
#define WORD(name, field) FY_JSON_WITHIN(CHARS, name, members, field, false, 0, \
                                         sizeof((members *)NULL)->field - 1)

static const fy_json_row timing_rows[] = {
    WORD("backend", backend),
    MEMBER(REAL, "load_ms", load_ms),
    MEMBER(U32, "prompt_tokens", n_prompt),
    MEMBER(U32, "cached_tokens", n_reused),
    MEMBER(REAL, "prompt_ms", prompt_ms),
    MEMBER(REAL, "first_token_ms", first_ms),
    MEMBER(U32, "generated_tokens", n_generated),
    MEMBER(REAL, "generate_ms", generate_ms),
};
static const fy_json_table timing_table = {FY_JSON_ROWS(timing_rows)};

static const fy_json_row rows[] = {
    FY_JSON_WITHIN(CHARS, "event", members, event, true, 1, 15),
    MEMBER(TEXT, "text", text),
    MEMBER(TEXT, "content", content),
    MEMBER(TEXT, "message", message),
    MEMBER(TEXT, "summary", summary),
    MEMBER(U32, "messages", n_hidden),
    FY_JSON_WITHIN(I64, "id", members, id, false, 0, INT32_MAX),
    {.key = "thinking",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(members, thinking),
     .take = take_thinking},
    WORD("stop", stop),
    MEMBER(U32, "context_used", n_used),
    MEMBER(U32, "context_size", n_ctx),
    FY_JSON_WITHIN(I64, "status", members, status, false, 0, 255),
    {.key = "timing", .type = FY_JSON_ROW_OBJECT, .offset = 0, .table = &timing_table},
};
static const fy_json_table table = {FY_JSON_ROWS(rows)};

static fy_phone_event_kind kind_of(const char *name)
{
    static const char *const names[] = {
        [FY_PHONE_EVENT_OTHER] = "",        [FY_PHONE_EVENT_READY] = "ready",
        [FY_PHONE_EVENT_PROMPT] = "prompt", [FY_PHONE_EVENT_TOKEN] = "token",
        [FY_PHONE_EVENT_HIDDEN] = "hidden",
        [FY_PHONE_EVENT_ANSWER] = "answer", [FY_PHONE_EVENT_COMMAND] = "command",
        [FY_PHONE_EVENT_ERROR] = "error"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return (fy_phone_event_kind)i;
    }
    return FY_PHONE_EVENT_OTHER;
}

static fy_stop stop_of(const char *name)
{
    for (fy_stop s = FY_STOP_EOG; s <= FY_STOP_STRING; s++) {
        if (strcmp(fy_stop_name(s), name) == 0)
            return s;
    }
    return FY_STOP_EOG;
}

void fy_phone_event_release(fy_phone_event *v)
{
    free(v->text);
    free(v->content);
    free(v->summary);
    *v = (fy_phone_event){0};
}

static void take_timing(const members *m, fy_phone_event *v)
{
    memcpy(v->backend, m->backend, sizeof v->backend);
    v->timing = (fy_timing){.backend = v->backend,
                            .load_s = m->load_ms * 1e-3,
                            .prompt_s = m->prompt_ms * 1e-3,
                            .generate_s = m->generate_ms * 1e-3,
                            .first_s = m->first_ms * 1e-3,
                            .n_prompt = m->n_prompt,
                            .n_reused = m->n_reused < m->n_prompt ? m->n_reused : m->n_prompt,
                            .n_generated = m->n_generated,
                            .n_evals = m->n_generated};
}

int fy_phone_event_parse(fy_span line, fy_phone_event *out, fy_err *e)
{
    members m = {.id = -1};
    fy_err why = {0};
    char shown[96];
    int rc = fy_json_document_of(line, &table, &m, &why);
    bool is_error = strcmp(m.event, "error") == 0;
    *out = (fy_phone_event){.kind = kind_of(m.event),
                            .text = is_error ? m.message : m.text,
                            .content = m.content,
                            .summary = m.summary,
                            .n_hidden = m.n_hidden,
                            .id = m.id,
                            .thinking = m.thinking,
                            .why = stop_of(m.stop),
                            .n_used = m.n_used,
                            .n_ctx = m.n_ctx,
                            .status = m.status};
    free(is_error ? m.text : m.message);
    if (rc == 0 && out->text == NULL && (out->text = strdup("")) == NULL)
        rc = fy_nomem(&why);
    if (rc == 0) {
        take_timing(&m, out);
        return 0;
    }
    fy_phone_event_release(out);
    if (why.code == FY_ENOMEM)
        return fy_nomem(e);
    return fy_fail(e, FY_EDEVICE, "the phone's program sent '%s', expected an event: %s",
                   fy_quote(shown, sizeof shown, line), why.msg);
}
