/* What the server tells of itself: /health, /models, /props, /slots, /metrics. Network thread: nothing
 * here waits for the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/process.h"
#include "server/api.h"
#include "server/page.h"
#include "server/reply_text.h"

void fy_handle_health(fy_exchange *x)
{
    switch ((fy_server_state)atomic_load(&x->server->state)) {
    case FY_SERVER_READY: {
        const fy_span ok = FY_SPAN("{\"status\":\"ok\"}");
        fy_reply(x, 200, "application/json; charset=utf-8", ok);
        return;
    }
    case FY_SERVER_LOADING:
        fy_reply_error(x, &(fy_api_refusal){.status = 503, .retry_after_s = 1}, "Loading model");
        return;
    case FY_SERVER_STOPPING:
    case FY_SERVER_FAILED:
    default:
        fy_reply_error(x, &(fy_api_refusal){.status = 503}, "the server is shutting down");
    }
}

static void put_model(const fy_server *s, fy_str *out)
{
    const fy_served *v = &s->served;
    const fy_hparams *hp = fy_model_hparams(v->model);
    fy_str_putc(out, '{');
    fy_put_span(out, "id", fy_span_of(v->name));
    fy_str_printf(out,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"ferry\",\"meta\":{"
                  "\"n_vocab\":%u,\"n_ctx\":%u,\"n_ctx_train\":%u,\"n_embd\":%u,\"n_params\":%llu,"
                  "\"size\":%llu}}",
                  (long long)s->start_time, hp->n_vocab, fy_session_n_ctx(v->session),
                  hp->n_ctx_train, hp->n_embd, (unsigned long long)v->n_params,
                  (unsigned long long)v->size_bytes);
}

void fy_handle_models(fy_exchange *x)
{
    fy_str out = {0};
    fy_str_puts(&out, "{\"object\":\"list\",\"data\":[");
    put_model(x->server, &out);
    fy_str_puts(&out, "]}");
    fy_reply_json(x, 200, &out);
}

void fy_handle_model(fy_exchange *x)
{
    const fy_span path = x->head.path;
    const char *id = memmem(path.ptr, path.len, "models/", 7);
    char name[FY_HTTP_TARGET_MAX];
    fy_str out = {0};
    const fy_span given = {id + 7, path.len - (size_t)(id + 7 - path.ptr)};
    const ptrdiff_t n = fy_http_unescape(given, name);
    if (n < 0 || !fy_span_is((fy_span){name, (size_t)n}, x->server->served.name)) {
        fy_reply_error(x, &(fy_api_refusal){.status = 404, .param = "model"},
                       "there is no such model; GET /v1/models lists the one that is served");
        return;
    }
    put_model(x->server, &out);
    fy_reply_json(x, 200, &out);
}

void fy_handle_props(fy_exchange *x)
{
    const fy_served *v = &x->server->served;
    const fy_sampler_params *p = &v->sampler;
    const fy_span text =
        v->chat != NULL ? fy_chat_template_text(v->chat, false) : (fy_span){"", 0};
    fy_str out = {0}, order = {0};
    fy_sampler_order_text(p, &order);
    fy_str_printf(&out,
                  "{\"default_generation_settings\":{\"n_ctx\":%u,\"params\":{\"seed\":%lld,"
                  "\"temperature\":%.9g,"
                  "\"top_k\":%d,\"top_p\":%.9g,\"min_p\":%.9g,\"typical_p\":%.9g,"
                  "\"repeat_last_n\":%d,\"repeat_penalty\":%.9g,\"presence_penalty\":%.9g,"
                  "\"frequency_penalty\":%.9g,\"n_predict\":%lld,",
                  fy_session_n_ctx(v->session), v->has_seed ? (long long)p->seed : -1LL,
                  (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p,
                  (double)p->typical_p, p->repeat_last_n, (double)p->repeat_penalty,
                  (double)p->presence_penalty, (double)p->frequency_penalty,
                  (long long)v->n_predict);
    fy_put_span(&out, "samplers", (fy_span){order.ptr, order.len});
    fy_str_printf(&out, "}},\"total_slots\":%u,\"slot_ctx\":%u,\"kv_cache_bytes\":%llu,",
                  fy_session_n_seq(v->session), fy_session_n_ctx(v->session),
                  (unsigned long long)v->kv_bytes);
    fy_put_span(&out, "model_alias", fy_span_of(v->name));
    fy_str_putc(&out, ',');
    fy_put_span(&out, "chat_template", text);
    fy_str_puts(&out, ",\"modalities\":{\"vision\":false,\"audio\":false},");
    fy_put_span(&out, "build_info", fy_span_of("ferry " FERRY_VERSION));
    fy_str_putc(&out, '}');
    fy_str_release(&order);
    fy_reply_json(x, 200, &out);
}

void fy_handle_props_post(fy_exchange *x)
{
    fy_reply_error(x, &(fy_api_refusal){.status = 501}, "properties are set when the server starts");
}

void fy_handle_page(fy_exchange *x)
{
    if (x->server->o->no_ui)
        fy_reply_error(x, &(fy_api_refusal){.status = 404}, "switched off by --no-ui");
    else
        fy_reply(x, 200, "text/html; charset=utf-8",
                 (fy_span){(const char *)fy_server_page.html, fy_server_page.n_bytes});
}

void fy_handle_unsupported(fy_exchange *x)
{
    fy_reply_error(x, &(fy_api_refusal){.status = 501}, "ferry does not offer this");
}

void fy_handle_slots(fy_exchange *x)
{
    fy_slot_state states[FY_SEQ_MAX];
    fy_schedule *sched = x->server->schedule;
    const uint32_t n = fy_schedule_n_slots(sched);
    const bool must_be_free = fy_http_query(x->head.query, "fail_on_no_slot").ptr != NULL;
    fy_str out = {0};
    uint32_t n_free = 0;
    if (x->server->o->no_slots) {
        fy_reply_error(x, &(fy_api_refusal){.status = 501}, "switched off by --no-slots");
        return;
    }
    fy_schedule_slots(sched, states);
    fy_str_putc(&out, '[');
    for (uint32_t i = 0; i < n; i++) {
        const fy_slot_state *s = &states[i];
        n_free += !s->busy;
        fy_str_printf(&out,
                      "%s{\"id\":%u,\"n_ctx\":%u,\"is_processing\":%s,\"id_task\":%lld,"
                      "\"n_prompt_tokens\":%u,\"n_past\":%u,\"n_decoded\":%u,"
                      "\"n_cached_tokens\":%u}",
                      i > 0 ? "," : "", s->id, s->n_ctx, s->busy ? "true" : "false",
                      s->task > 0 ? (long long)s->task : -1, s->n_prompt, s->n_past, s->n_decoded,
                      s->n_cached_ids);
    }
    fy_str_putc(&out, ']');
    if (must_be_free && n_free == 0) {
        fy_str_release(&out);
        fy_reply_error(x, &(fy_api_refusal){.status = 503}, "no slot is free");
        return;
    }
    fy_reply_json(x, 200, &out);
}

void fy_handle_metrics(fy_exchange *x)
{
    fy_str out = {0};
    char started[64];
    if (x->server->o->no_metrics) {
        fy_reply_error(x, &(fy_api_refusal){.status = 501}, "switched off by --no-metrics");
        return;
    }
    if (fy_asks_compat(x)) {
        snprintf(started, sizeof started, "Process-Start-Time-Unix: %lld\r\n",
                 (long long)x->server->start_time);
        x->headers = started;
        fy_metrics_put_llama(x->server, &out);
    } else {
        fy_metrics_put(x->server, &out);
    }
    fy_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8",
             (fy_span){fy_str_z(&out), out.len});
    fy_str_release(&out);
}
