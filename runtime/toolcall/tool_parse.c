/* The calls in the text of an answer, told while it streams. What may still become a call, or the
 * white space before one, is held back; everything else goes out at once. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "toolcall/toolcall_impl.h"

typedef enum {
    AT_START,   /* of the answer: a bare call may begin here */
    IN_TEXT,    /* outside of calls */
    AFTER_MARK, /* a call has to begin */
    IN_JSON,
    IN_PAIRS, /* of FY_TOOL_XML, after its name */
    AFTER_CALL,
} place;

/* What stands next at the top level of the object of a call. */
typedef enum { WANT_KEY, WANT_COLON, WANT_VALUE, WANT_COMMA } want;

struct fy_tool_parser {
    const fy_tool_format *f; /* view */
    const fy_tools *tools;   /* view */
    fy_tool_sink *sink;
    void *user;

    fy_str text; /* of the answer, what is at hand of it */
    size_t head; /* before it all was reported */
    size_t at;   /* before it all was looked at */
    place place;
    bool final;   /* no more text will come */
    bool any;     /* a call came */
    bool in_list; /* of calls, between [ and ] */
    bool begun;   /* FY_TOOL_BEGIN of this call was reported */
    fy_str name;  /* of this call; empty: not known yet */
    size_t n_pairs;

    /* IN_JSON */
    bool streamed;        /* the arguments went out as they came */
    bool arguments_alone; /* after NAME: the object is that of the arguments */
    bool in_string, escaped, is_arguments;
    uint32_t depth; /* of open brackets; 1: the members of the call */
    want want;
    fy_str key;           /* decoded */
    size_t token;         /* where the key or value began */
    size_t value, beyond; /* the arguments, when they came before the name; 0, 0: none */
};

/* --- reporting --- */

static int report(fy_tool_parser *p, fy_tool_event what, size_t end, fy_err *e)
{
    fy_span s = {fy_str_z(&p->text) + p->head, end - p->head};
    p->head = end;
    return s.len == 0 ? 0 : p->sink(p->user, what, s, e);
}

static int report_text(fy_tool_parser *p, fy_tool_event what, fy_span s, fy_err *e)
{
    return p->sink(p->user, what, s, e);
}

/* What was taken for a call is none: it is content up to p->at. */
static int not_a_call(fy_tool_parser *p, fy_err *e)
{
    p->place = IN_TEXT;
    p->in_list = false;
    return report(p, FY_TOOL_CONTENT, p->at, e);
}

static int begin_call(fy_tool_parser *p, size_t head, fy_err *e)
{
    p->begun = true;
    p->any = true;
    p->head = head;
    return report_text(p, FY_TOOL_BEGIN, (fy_span){p->name.ptr, p->name.len}, e);
}

static int end_call(fy_tool_parser *p, fy_err *e)
{
    p->head = p->at;
    p->place = AFTER_CALL;
    return report_text(p, FY_TOOL_END, (fy_span){"", 0}, e);
}

/* --- looking ahead --- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Moves over white space. False: the text ends there. */
static bool skip_space(fy_tool_parser *p)
{
    while (p->at < p->text.len && is_space(p->text.ptr[p->at]))
        p->at++;
    return p->at < p->text.len;
}

/* 1: the mark stands at p->at; 0: something else; -1: its beginning, and the text ends. */
static int mark_here(const fy_tool_parser *p, const char *mark)
{
    size_t n = strlen(mark), rest = p->text.len - p->at;
    size_t same = n < rest ? n : rest;
    if (memcmp(fy_str_z(&p->text) + p->at, mark, same) != 0)
        return 0;
    return same == n ? 1 : p->final ? 0 : -1;
}

/* Is what is left of the text the beginning of the mark? */
static bool is_cut(const fy_tool_parser *p, const char *mark)
{
    const size_t rest = p->text.len - p->at;
    return rest < strlen(mark) && memcmp(fy_str_z(&p->text) + p->at, mark, rest) == 0;
}

/* Where the mark is from `from` on; the end of the text when it is not there. */
static size_t find(const fy_tool_parser *p, size_t from, const char *mark)
{
    const char *text = fy_str_z(&p->text);
    const char *found = memmem(text + from, p->text.len - from, mark, strlen(mark));
    return found != NULL ? (size_t)(found - text) : p->text.len;
}

static int set_name(fy_tool_parser *p, fy_span name, fy_err *e)
{
    while (name.len > 0 && is_space(name.ptr[name.len - 1]))
        name.len--;
    fy_str_clear(&p->name);
    fy_str_add(&p->name, name.ptr, name.len);
    return p->name.oom ? fy_nomem(e) : fy_tools_has(p->tools, name);
}

static void new_call(fy_tool_parser *p)
{
    p->begun = p->in_string = p->escaped = p->is_arguments = false;
    p->arguments_alone = p->streamed = false;
    p->value = p->beyond = p->n_pairs = 0;
    p->depth = 0;
    p->want = WANT_VALUE;
    fy_str_clear(&p->name);
}

/* --- steps: 1: something was done; 0: more text is needed; -1 --- */

static int step_start(fy_tool_parser *p)
{
    if (!skip_space(p))
        return 0;
    char c = p->text.ptr[p->at];
    bool bare = p->f->bare && c == '{';
    p->place = bare ? AFTER_MARK : IN_TEXT;
    if (bare)
        new_call(p);
    else
        p->at = p->head;
    return 1;
}

/* The end of what is certainly content: not the beginning of a mark, nor white space before it. */
static size_t certain_end(const fy_tool_parser *p, size_t mark)
{
    const char *open = p->f->open, *text = fy_str_z(&p->text);
    size_t end = mark;
    for (size_t n = strlen(open) - 1; mark == p->text.len && !p->final && n > 0; n--) {
        if (n <= mark - p->head && memcmp(text + mark - n, open, n) == 0) {
            end = mark - n;
            break;
        }
    }
    if (mark < p->text.len || !p->final || p->any) {
        while (end > p->head && is_space(text[end - 1]))
            end--;
    }
    return end;
}

static int step_text(fy_tool_parser *p, fy_err *e)
{
    size_t mark = find(p, p->head, p->f->open), end = certain_end(p, mark);
    /* After a call only what is not white space alone is content, with the space before it. */
    if (report(p, FY_TOOL_CONTENT, end, e) != 0)
        return -1;
    if (mark == p->text.len) {
        p->at = p->text.len;
        return 0;
    }
    p->at = mark + strlen(p->f->open);
    p->place = AFTER_MARK;
    new_call(p);
    return 1;
}

/* NAME<after_name>{...}; what stands between the name and the mark is passed over. */
static int step_named(fy_tool_parser *p, fy_err *e)
{
    const char *name_end = p->f->named->after_name;
    const size_t n_mark = strlen(name_end), most = 4 * FY_TOOL_NAME_MAX;
    size_t end = find(p, p->at, name_end), stop = p->at;
    bool found = end < p->text.len && end + n_mark - p->at <= most;
    if (!found && !p->final && p->text.len - p->at < most)
        return 0;
    while (stop < end && p->text.ptr[stop] != name_end[0])
        stop++;
    int rc = found ? set_name(p, (fy_span){p->text.ptr + p->at, stop - p->at}, e) : 0;
    if (rc != 1)
        return rc < 0 || not_a_call(p, e) != 0 ? -1 : 1;
    p->at = end + n_mark;
    p->arguments_alone = p->is_arguments = true;
    p->token = SIZE_MAX;
    p->depth = 1;
    p->place = IN_JSON;
    return 1;
}

/* Of FY_TOOL_XML: the name, and the mark before it. */
static int step_xml_name(fy_tool_parser *p, fy_err *e)
{
    int here = mark_here(p, p->f->xml.before_name);
    if (here < 0)
        return 0;
    size_t from = p->at + strlen(p->f->xml.before_name), end = p->text.len;
    const char *after = p->f->xml.after_name;
    if (here == 1 && after[0] != '\0')
        end = find(p, from, after);
    else if (here == 1)
        end = from + strcspn(fy_str_z(&p->text) + from, "\n<");
    const bool far = end - p->at > 2 * FY_TOOL_NAME_MAX; /* whatever pieces the text came in */
    if (here == 1 && end >= p->text.len && !p->final && !far)
        return 0;
    int rc = here == 0 || end >= p->text.len || far
                 ? 0
                 : set_name(p, (fy_span){p->text.ptr + from, end - from}, e);
    if (rc == 1) {
        p->at = end + strlen(after);
        p->place = IN_PAIRS;
        return begin_call(p, p->at, e) == 0 ? 1 : -1;
    }
    return rc < 0 || not_a_call(p, e) != 0 ? -1 : 1;
}

static int step_gemma(fy_tool_parser *p, fy_err *e);

static int step_mark(fy_tool_parser *p, fy_err *e)
{
    if (!skip_space(p))
        return p->final && not_a_call(p, e) != 0 ? -1 : 0;
    char c = p->text.ptr[p->at];
    if (p->f->kind == FY_TOOL_XML)
        return step_xml_name(p, e);
    if (p->f->kind == FY_TOOL_GEMMA)
        return step_gemma(p, e);
    if (c == '[' && !p->in_list) {
        p->in_list = true;
        p->at++;
    } else if (c == '{') {
        p->place = IN_JSON;
    } else if (p->f->named != NULL && !p->in_list) {
        return step_named(p, e);
    } else {
        return not_a_call(p, e) == 0 ? 1 : -1;
    }
    return 1;
}

/* --- JSON --- */

static bool is_json(fy_span s)
{
    fy_json *j = fy_json_new(s.ptr, s.len, NULL);
    bool yes = j != NULL && fy_json_skip(j, NULL) == 0 && fy_json_end(j, NULL) == 0;
    fy_json_free(j);
    return yes;
}

/* The string at p->text[from, to), quotes included, decoded. 1: done; 0: not a string; -1. */
static int decode(const fy_tool_parser *p, size_t from, size_t to, fy_str *out, fy_err *e)
{
    fy_err why = {0};
    fy_span s = {0};
    fy_json *j = fy_json_new(p->text.ptr + from, to - from, e);
    if (j == NULL)
        return -1;
    int rc = fy_json_string(j, &s, NULL, &why) == 0;
    fy_str_clear(out);
    if (rc == 1)
        fy_str_add(out, s.ptr, s.len);
    fy_json_free(j);
    return out->oom || why.code == FY_ENOMEM ? fy_nomem(e) : rc;
}

/* Arguments that were complete before the call began: an object, or a string that holds one. */
static int report_held(fy_tool_parser *p, fy_span held, fy_err *e)
{
    fy_str s = {0};
    int rc = held.ptr[0] == '"' ? decode(p, p->value, p->beyond, &s, e) : 0;
    if (rc == 1)
        held = (fy_span){fy_str_z(&s), s.len};
    if (held.len == 0 || fy_span_begins(held, "null"))
        held = FY_SPAN("{}");
    if (rc >= 0)
        rc = report_text(p, FY_TOOL_ARGUMENTS, held, e);
    fy_str_release(&s);
    return rc;
}

/* The value of a member of the call is p->text[p->token, p->at). 1: go on; 0: it is not a call. */
static int end_value(fy_tool_parser *p, fy_err *e)
{
    p->want = WANT_COMMA;
    if (p->is_arguments && p->begun)
        return report(p, FY_TOOL_ARGUMENTS, p->at, e) == 0 ? 1 : -1;
    if (p->is_arguments) {
        p->value = p->token;
        p->beyond = p->at;
    } else if (p->key.len == 4 && memcmp(p->key.ptr, "name", 4) == 0 && p->name.len == 0) {
        fy_str name = {0};
        int rc = decode(p, p->token, p->at, &name, e);
        if (rc == 1)
            rc = set_name(p, (fy_span){fy_str_z(&name), name.len}, e);
        fy_str_release(&name);
        return rc;
    }
    return 1;
}

static int finish_json(fy_tool_parser *p, fy_err *e)
{
    fy_span held = p->streamed ? (fy_span){0} : FY_SPAN("{}"); /* arguments to report */
    if (p->beyond > 0)
        held = (fy_span){p->text.ptr + p->value, p->beyond - p->value};
    if (p->name.len == 0 || (p->beyond > 0 && !is_json(held)))
        return not_a_call(p, e);
    if (!p->begun && begin_call(p, p->at, e) != 0)
        return -1;
    if (held.len > 0 && report_held(p, held, e) != 0)
        return -1;
    return end_call(p, e);
}

/* One character outside of strings at the top level of the call. 1: go on; 0: it is not a call. */
static int member_char(fy_tool_parser *p, char c, fy_err *e)
{
    bool begins = p->want == WANT_VALUE && p->token == SIZE_MAX;
    if (is_space(c))
        return 1;
    switch (p->want) {
    case WANT_KEY:
        p->token = p->at;
        return c == '"';
    case WANT_COLON:
        p->want = WANT_VALUE;
        p->token = SIZE_MAX;
        return c == ':';
    case WANT_VALUE:
        if (begins)
            p->token = p->at;
        if (begins && p->is_arguments && c == '{' && p->name.len > 0 && !p->begun) {
            p->streamed = true;
            return begin_call(p, p->at, e) == 0 ? 1 : -1;
        }
        return !begins || memchr(":,]}", c, 4) == NULL;
    case WANT_COMMA:
        p->want = WANT_KEY;
        return c == ',';
    }
    return 0;
}

/* A scalar ends before a comma or bracket at the top level. */
static bool ends_scalar(const fy_tool_parser *p, char c)
{
    return p->depth == 1 && p->want == WANT_VALUE && p->token != SIZE_MAX &&
           (c == ',' || c == '}' || c == ']');
}

/* A string ends after p->at: a key, or a value. */
static int end_string(fy_tool_parser *p, fy_err *e)
{
    if (p->depth != 1 || p->want == WANT_COMMA)
        return 1;
    if (p->want == WANT_VALUE)
        return end_value(p, e);
    int rc = decode(p, p->token, p->at, &p->key, e);
    fy_span key = {fy_str_z(&p->key), p->key.len};
    p->is_arguments = !p->begun && p->beyond == 0 &&
                      (fy_span_is(key, "arguments") || fy_span_is(key, "parameters"));
    p->want = WANT_COLON;
    return rc;
}

/* The next character of the call, at p->at. 1: go on; 0: it is not a call; 2: the call ends. */
static int json_char(fy_tool_parser *p, fy_err *e)
{
    char c = p->text.ptr[p->at];
    if (p->in_string) {
        bool ends = c == '"' && !p->escaped;
        p->escaped = c == '\\' && !p->escaped;
        p->in_string = !ends;
        p->at++;
        return ends ? end_string(p, e) : 1;
    }
    if (ends_scalar(p, c)) {
        int rc = end_value(p, e);
        if (rc != 1)
            return rc;
    }
    if (p->depth == 1 && c != '}') {
        int rc = member_char(p, c, e);
        if (rc != 1)
            return rc == 0 && p->begun ? 2 : rc;
    }
    p->at++;
    if (c == '"') {
        p->in_string = true;
    } else if (c == '{' || c == '[') {
        if (p->depth++ == 0)
            p->want = WANT_KEY;
    } else if (c == '}' || c == ']') {
        p->depth--;
        if (p->depth == 0)
            return 2;
        if (p->depth == 1) {
            int rc = end_value(p, e);
            return rc == 1 && p->arguments_alone ? 2 : rc;
        }
    }
    return 1;
}

static int step_json(fy_tool_parser *p, fy_err *e)
{
    int rc = 1;
    while (rc == 1 && p->at < p->text.len)
        rc = json_char(p, e);
    if (rc == 2)
        return finish_json(p, e) == 0 ? 1 : -1;
    if (rc == 0)
        return not_a_call(p, e) == 0 ? 1 : -1;
    bool streams = rc == 1 && p->begun && p->is_arguments && p->want == WANT_VALUE;
    if (rc < 0 || (streams && report(p, FY_TOOL_ARGUMENTS, p->at, e) != 0))
        return -1;
    if (p->final && !p->begun && not_a_call(p, e) != 0)
        return -1;
    return 0;
}

/* --- pairs of key and value --- */

static fy_span without_newlines(fy_span s)
{
    if (s.len > 0 && s.ptr[0] == '\n')
        s = (fy_span){s.ptr + 1, s.len - 1};
    s.len -= s.len > 0 && s.ptr[s.len - 1] == '\n';
    return s;
}

static int report_pair(fy_tool_parser *p, fy_span key, fy_span value, fy_err *e)
{
    fy_str s = {0};
    fy_span name = {p->name.ptr, p->name.len};
    int string = fy_tools_takes_string(p->tools, name, key);
    fy_str_puts(&s, p->n_pairs++ == 0 ? "{" : ", ");
    fy_json_put_string(&s, key);
    fy_str_puts(&s, ": ");
    if (string != 1 && is_json(value))
        fy_str_add(&s, value.ptr, value.len);
    else
        fy_json_put_string(&s, value);
    int rc = s.oom ? fy_nomem(e) : report_text(p, FY_TOOL_ARGUMENTS, (fy_span){s.ptr, s.len}, e);
    fy_str_release(&s);
    return rc;
}

static int end_pairs(fy_tool_parser *p, fy_err *e)
{
    fy_span rest = p->n_pairs == 0 ? FY_SPAN("{}") : FY_SPAN("}");
    return report_text(p, FY_TOOL_ARGUMENTS, rest, e) == 0 && end_call(p, e) == 0 ? 1 : -1;
}

/* A mark inside a string of JSON does not end the value: the first end that makes it JSON. `end`:
 * the first of all, which stays when no text comes that would help. */
static size_t end_of_json(const fy_tool_parser *p, fy_span key, size_t value, size_t end)
{
    const char *text = fy_str_z(&p->text);
    const fy_span name = {p->name.ptr, p->name.len};
    const fy_span begin = without_newlines((fy_span){text + value, end - value});
    size_t at = end;
    if (begin.len == 0 || strchr("{[\"", begin.ptr[0]) == NULL ||
        fy_tools_takes_string(p->tools, name, key) == 1)
        return end;
    while (at < p->text.len && !is_json(without_newlines((fy_span){text + value, at - value})))
        at = find(p, at + 1, p->f->xml.after_value);
    return at < p->text.len || !p->final ? at : end;
}

static int step_pairs(fy_tool_parser *p, fy_err *e)
{
    const char *text = fy_str_z(&p->text);
    if (!skip_space(p))
        return 0;
    p->head = p->at;
    int ends = mark_here(p, p->f->xml.end), pair = mark_here(p, p->f->xml.key);
    if (ends == 1) {
        p->at += strlen(p->f->xml.end);
        return end_pairs(p, e);
    }
    if (ends < 0 || pair < 0 ||
        (p->final && (is_cut(p, p->f->xml.end) || is_cut(p, p->f->xml.key))))
        return 0;
    if (pair == 0)
        return end_pairs(p, e);
    size_t key = p->at + strlen(p->f->xml.key), key_end = find(p, key, p->f->xml.after_key);
    size_t value = key_end < p->text.len ? find(p, key_end, p->f->xml.value) : p->text.len;
    if (value >= p->text.len)
        return 0;
    value += p->f->xml.value[0] != '\0' ? strlen(p->f->xml.value) : strlen(p->f->xml.after_key);
    size_t value_end = value < p->text.len ? find(p, value, p->f->xml.after_value) : p->text.len;
    if (value_end < p->text.len)
        value_end = end_of_json(p, (fy_span){text + key, key_end - key}, value, value_end);
    if (value_end >= p->text.len)
        return 0;
    p->at = value_end + strlen(p->f->xml.after_value);
    p->head = p->at;
    return report_pair(p, (fy_span){text + key, key_end - key},
                       without_newlines((fy_span){text + value, value_end - value}), e) == 0
               ? 1
               : -1;
}

/* --- call:NAME{key:value,...} --- */

enum { MAX_DEPTH = 64 };

/* A walk over the text of a call. */
typedef struct {
    fy_span s; /* what is left */
    fy_span quote;
    fy_str *out;
} gemma;

static bool take(gemma *g, const char *what)
{
    size_t n = strlen(what);
    if (g->s.len < n || memcmp(g->s.ptr, what, n) != 0)
        return false;
    g->s = (fy_span){g->s.ptr + n, g->s.len - n};
    return true;
}

static fy_span take_until(gemma *g, const char *stops)
{
    size_t n = 0;
    while (n < g->s.len && strchr(stops, g->s.ptr[n]) == NULL)
        n++;
    fy_span taken = {g->s.ptr, n};
    g->s = (fy_span){g->s.ptr + n, g->s.len - n};
    return taken;
}

static bool put_quoted(gemma *g)
{
    const char *end = memmem(g->s.ptr, g->s.len, g->quote.ptr, g->quote.len);
    if (end == NULL)
        return false;
    fy_json_put_string(g->out, (fy_span){g->s.ptr, (size_t)(end - g->s.ptr)});
    g->s.len -= (size_t)(end - g->s.ptr) + g->quote.len;
    g->s.ptr = end + g->quote.len;
    return true;
}

static bool put_value(gemma *g, int depth);

static bool put_key(gemma *g)
{
    if (take(g, g->quote.ptr))
        return put_quoted(g) && take(g, ":");
    fy_span key = take_until(g, ":,{}[]");
    fy_json_put_string(g->out, key);
    return key.len > 0 && take(g, ":");
}

/* The members of an object or the items of a list, after its bracket. */
static bool put_members(gemma *g, bool object, int depth)
{
    const char *close = object ? "}" : "]";
    fy_str_puts(g->out, object ? "{" : "[");
    for (bool first = true; !take(g, close); first = false) {
        if (!first && !take(g, ","))
            return false;
        fy_str_puts(g->out, first ? "" : ", ");
        if (object && !put_key(g))
            return false;
        fy_str_puts(g->out, object ? ": " : "");
        if (!put_value(g, depth))
            return false;
    }
    fy_str_puts(g->out, close);
    return true;
}

static bool put_value(gemma *g, int depth)
{
    if (depth >= MAX_DEPTH)
        return false;
    if (take(g, g->quote.ptr))
        return put_quoted(g);
    if (take(g, "{"))
        return put_members(g, true, depth + 1);
    if (take(g, "["))
        return put_members(g, false, depth + 1);
    fy_span word = take_until(g, ",{}[]");
    if (is_json(word))
        fy_str_add(g->out, word.ptr, word.len);
    else
        fy_json_put_string(g->out, word);
    return word.len > 0;
}

/* Where the mark that ends a call is; the end of the text when it is not there. One inside a string
 * does not end it, unless no end comes after the string. */
static size_t end_of_gemma(const fy_tool_parser *p)
{
    const char *quote = p->f->named->quote;
    const size_t n_quote = strlen(quote), n = p->text.len;
    size_t at = p->at;
    for (;;) {
        const size_t end = find(p, at, p->f->close), open = find(p, at, quote);
        if (open >= end && end < n)
            return end;
        const size_t shut = open < n ? find(p, open + n_quote, quote) : n;
        if (shut == n)
            return p->final ? find(p, p->at, p->f->close) : n;
        at = shut + n_quote;
    }
}

static int step_gemma(fy_tool_parser *p, fy_err *e)
{
    size_t end = end_of_gemma(p);
    if (end == p->text.len && !p->final)
        return 0;
    fy_str out = {0};
    gemma g = {{p->text.ptr + p->at, end - p->at}, fy_span_of(p->f->named->quote), &out};
    bool call = take(&g, "call:");
    fy_span name = take_until(&g, "{");
    int rc = call ? set_name(p, name, e) : 0;
    bool whole =
        rc == 1 && end < p->text.len && take(&g, "{") && put_members(&g, true, 0) && g.s.len == 0;
    p->at = end < p->text.len ? end + strlen(p->f->close) : end;
    if (rc == 1 && out.oom)
        rc = fy_nomem(e);
    else if (rc == 1 && (whole || end == p->text.len))
        rc = begin_call(p, p->at, e) == 0 ? 1 : -1;
    else if (rc >= 0)
        rc = not_a_call(p, e) == 0 ? 0 : -1;
    if (rc == 1 && whole)
        rc = report_text(p, FY_TOOL_ARGUMENTS, (fy_span){out.ptr, out.len}, e) == 0 &&
                     end_call(p, e) == 0
                 ? 1
                 : -1;
    else if (rc == 1)
        p->place = IN_TEXT;
    fy_str_release(&out);
    return rc < 0 ? -1 : 1;
}

/* --- between calls --- */

static int step_after(fy_tool_parser *p)
{
    const char *close = p->f->close;
    if (!skip_space(p))
        return 0;
    char c = p->text.ptr[p->at];
    int closes =
        close == NULL || p->in_list || p->f->kind == FY_TOOL_GEMMA ? 0 : mark_here(p, close);
    if (closes < 0)
        return 0;
    if (closes == 1) {
        p->head = p->at += strlen(close);
        p->place = IN_TEXT;
    } else if (p->in_list && (c == ',' || c == ']')) {
        p->head = ++p->at;
        p->in_list = c == ',';
        p->place = p->in_list ? AFTER_MARK : AFTER_CALL;
        if (p->in_list)
            new_call(p);
    } else if (p->f->bare && !p->in_list && (c == ';' || c == '{')) {
        p->head = p->at += c == ';';
        p->place = c == '{' ? AFTER_MARK : AFTER_CALL;
        if (c == '{')
            new_call(p);
    } else {
        p->at = p->head;
        p->in_list = false;
        p->place = IN_TEXT;
    }
    return 1;
}

static int step(fy_tool_parser *p, fy_err *e)
{
    switch (p->place) {
    case AT_START:
        return step_start(p);
    case IN_TEXT:
        return step_text(p, e);
    case AFTER_MARK:
        return step_mark(p, e);
    case IN_JSON:
        return step_json(p, e);
    case IN_PAIRS:
        return step_pairs(p, e);
    case AFTER_CALL:
        return step_after(p);
    }
    return -1;
}

/* --- the parser --- */

fy_tool_parser *fy_tool_parser_new(const fy_tool_format *f, const fy_tools *t, fy_tool_sink *sink,
                                   void *user, fy_err *e)
{
    fy_tool_parser *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *p = (fy_tool_parser){.f = f, .tools = t, .sink = sink, .user = user};
    return p;
}

void fy_tool_parser_free(fy_tool_parser *p)
{
    if (p == NULL)
        return;
    fy_str_release(&p->text);
    fy_str_release(&p->name);
    fy_str_release(&p->key);
    free(p);
}

static size_t moved(size_t at, size_t by)
{
    return at == SIZE_MAX ? at : at > by ? at - by : 0;
}

/* Forgets what was reported. */
static void forget(fy_tool_parser *p)
{
    size_t by = p->head;
    if (by == 0)
        return;
    memmove(p->text.ptr, p->text.ptr + by, p->text.len - by);
    p->text.len -= by;
    p->head = 0;
    p->at -= by;
    p->token = moved(p->token, by);
    p->value = moved(p->value, by);
    p->beyond = moved(p->beyond, by);
}

static int run(fy_tool_parser *p, fy_err *e)
{
    int rc;
    while ((rc = step(p, e)) == 1)
        ;
    return rc;
}

int fy_tool_parser_add(fy_tool_parser *p, fy_span text, fy_err *e)
{
    forget(p);
    fy_str_add(&p->text, text.ptr, text.len);
    return p->text.oom ? fy_nomem(e) : run(p, e);
}

int fy_tool_parser_end(fy_tool_parser *p, fy_err *e)
{
    p->final = true;
    if (run(p, e) != 0)
        return -1;
    /* White space at the very beginning, or after the last call. */
    bool rest = p->head < p->text.len && !p->any && !p->begun;
    return rest ? report(p, FY_TOOL_CONTENT, p->text.len, e) : 0;
}
