/* POST /tokenize, /detokenize, /apply-template and /chat/completions/input_tokens. */
#include "base/json.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

typedef struct {
    bool add_special, parse_special, with_pieces;
} token_options;

static const fy_member token_members[] = {
    {"add_special", FY_MEMBER_BOOL, offsetof(token_options, add_special), 0, 0},
    {"parse_special", FY_MEMBER_BOOL, offsetof(token_options, parse_special), 0, 0},
    {"with_pieces", FY_MEMBER_BOOL, offsetof(token_options, with_pieces), 0, 0},
    {.name = NULL}};

/* A piece that is not UTF-8 is a list of its bytes. */
static int put_piece(const fy_vocab *v, int32_t id, fy_str *out, fy_err *e)
{
    fy_str raw = {0};
    const int rc = fy_vocab_decode_one(v, id, true, &raw, e);
    const fy_span piece = {fy_str_z(&raw), raw.len};
    fy_str_printf(out, "{\"id\":%d,\"piece\":", id);
    if (fy_utf8_valid(piece.ptr, piece.len))
        fy_json_put_string(out, piece);
    else
        fy_put_bytes(out, piece);
    fy_str_putc(out, '}');
    fy_str_release(&raw);
    return rc;
}

static int tokenize(const fy_served *v, const json_t *o, fy_str *out, fy_bad_ask *b)
{
    token_options p = {.parse_special = true};
    const json_t *content = json_object_get(o, "content");
    fy_ids ids = {0};
    int rc = fy_members_read(o, token_members, &p, b);
    if (rc == 0 && content != NULL && !json_is_null(content))
        rc = fy_read_ids(v, content, p.add_special, p.parse_special, "content", &ids, b);
    fy_str_puts(out, "{\"tokens\":[");
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        fy_str_puts(out, i > 0 ? "," : "");
        if (p.with_pieces)
            rc = put_piece(v->vocab, ids.id[i], out, &b->e);
        else
            fy_str_printf(out, "%d", ids.id[i]);
    }
    fy_str_puts(out, "]}");
    fy_ids_release(&ids);
    return rc;
}

static int detokenize(const fy_served *v, const json_t *o, fy_str *out, fy_bad_ask *b)
{
    const json_t *tokens = json_object_get(o, "tokens");
    fy_ids ids = {0};
    fy_str text = {0};
    int rc = 0;
    if (tokens != NULL && !json_is_null(tokens) && !json_is_array(tokens))
        rc = fy_bad(b, "tokens", "found %s, expected a list of ids", fy_json_type_name(tokens));
    else if (tokens != NULL && !json_is_null(tokens))
        rc = fy_read_ids(v, tokens, false, true, "tokens", &ids, b);
    if (rc == 0 && ids.n > 0)
        rc = fy_vocab_decode(v->vocab, ids.id, ids.n, true, &text, &b->e);
    fy_str_putc(out, '{');
    fy_put_span(out, "content", fy_str_view(&text));
    fy_str_putc(out, '}');
    fy_str_release(&text);
    fy_ids_release(&ids);
    return rc;
}

static int apply_template(const fy_served *v, const json_t *o, fy_str *out, fy_bad_ask *b)
{
    fy_str text = {0};
    fy_ask_tools tools;
    int rc = fy_read_tools(v, o, &tools, b);
    if (rc == 0)
        rc = fy_read_messages(v, o, &tools, &text, b);
    fy_ask_tools_release(&tools);
    fy_str_putc(out, '{');
    fy_put_span(out, "prompt", fy_str_view(&text));
    fy_str_putc(out, '}');
    fy_str_release(&text);
    return rc;
}

/* How many ids the prompt of a conversation has. */
static int count_tokens(const fy_served *v, const json_t *o, fy_str *out, fy_bad_ask *b)
{
    size_t n = 0;
    const int rc = fy_count_conversation(v, o, &n, b);
    fy_str_printf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", n);
    return rc;
}

static void handle(fy_exchange *x,
                   int (*of)(const fy_served *, const json_t *, fy_str *, fy_bad_ask *))
{
    fy_bad_ask b = {0};
    fy_str out = {0};
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return;
    const int rc = of(&x->server->served, o, &out, &b);
    json_decref(o);
    if (rc != 0) {
        fy_str_release(&out);
        fy_ask_refuse(x, NULL, &b);
    } else {
        fy_reply_json(x, 200, &out);
    }
}

void fy_handle_tokenize(fy_exchange *x)
{
    handle(x, tokenize);
}

void fy_handle_detokenize(fy_exchange *x)
{
    handle(x, detokenize);
}

void fy_handle_apply_template(fy_exchange *x)
{
    handle(x, apply_template);
}

void fy_handle_input_tokens(fy_exchange *x)
{
    handle(x, count_tokens);
}
