/* Schemas of tools, in every format of calls: refused with a message, or a grammar whose random
 * text, after the format's mark, is read back as a call of the tool with arguments that are JSON.
 * The first byte chooses the format, the second the dice; the rest is the schema of the parameters.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "server/generate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const templates[] = {
    "tools <|tool_call>call:",     /* gemma4 */
    "tools <start_function_call>", /* functiongemma */
    "tools [TOOL_CALLS][ARGS]",    /* mistral-args */
    "tools <function=<parameter=", /* qwen3-coder */
    "tools <arg_key>",             /* glm */
    "tools [TOOL_CALLS]",          /* mistral */
    "tools <tool_call>",           /* hermes */
    "tools <|python_tag|>",        /* llama3 */
    "",                            /* generic */
};

/* --- a vocabulary: all bytes, what ends something, and words ---------------------------------- */

static const char *const words[] = {
    "<|\"|>",
    "<escape>",
    "\n</parameter>\n",
    "</arg_value>\n",
    "</function>",
    "</tool_call>",
    "\n</tool_call>",
    "<tool_call|>",
    "<end_function_call>",
    "\"}",
    "}}",
    "]",
    "</arg_value",
    "<|\"",
    "<esc",
    "{",
    "\"",
    "true",
    "null",
    "12",
    "\": ",
    "a",
    "\xC3\xA9",
    "call:f{",
    "[CALL_ID]abcdefghi",
};
enum {
    N_ENDS = 12,
    N_WORDS = sizeof words / sizeof *words,
    N_TOKENS = 256 + N_WORDS + 1,
    MOST = 300
};

static fy_trie *vocabulary(fy_trie_token *tokens)
{
    static char bytes[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i].bytes = (fy_span){&bytes[i], 1};
    }
    for (size_t i = 0; i < N_WORDS; i++)
        tokens[256 + i].bytes = fy_span_of(words[i]);
    tokens[N_TOKENS - 1].is_end = true;
    return fy_trie_new(tokens, N_TOKENS, NULL);
}

static uint32_t dice(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

static bool allows(const fy_mask *m, uint32_t id)
{
    return m->bits[id / 64] >> id % 64 & 1;
}

/* What ends something is liked more and more. */
static uint32_t choose(const fy_mask *m, uint64_t *state, uint32_t step)
{
    static const char closers[] = "\"}],0";
    if (dice(state, 20) < step && dice(state, 4) > 0) {
        if (allows(m, N_TOKENS - 1))
            return N_TOKENS - 1;
        for (uint32_t i = 256; i < 256 + N_ENDS; i++) {
            if (allows(m, i))
                return i;
        }
        for (const char *c = closers; *c != '\0'; c++) {
            if (allows(m, (uint8_t)*c) && (*c != ',' || step < 40))
                return (uint8_t)*c;
        }
    }
    uint32_t id, k = dice(state, m->n_allowed);
    for (id = 0; !allows(m, id) || k-- > 0; id++)
        ;
    return id;
}

/* False: the text does not come to an end, or is refused as too much. */
static bool make_text(fy_grammar *g, const fy_trie *t, const fy_trie_token *tokens, uint64_t seed,
                      fy_str *out)
{
    fy_err e = {0};
    bool whole = false;
    fy_matcher *m = fy_matcher_new(g, t, &e);
    assert(m != NULL || e.code == FY_EFIT);
    for (uint32_t step = 0; m != NULL && step < MOST; step++) {
        fy_mask mask;
        if (fy_matcher_is_complete(m) || fy_matcher_ended(m)) {
            whole = true;
            break;
        }
        if (fy_matcher_mask(m, &mask, &e) != 0) {
            assert(e.code == FY_EFIT); /* with all bytes there is always one that goes on */
            break;
        }
        const uint32_t id = choose(&mask, &seed, step);
        const int rc = fy_matcher_accept(m, (int32_t)id, &e);
        assert(rc == 0);
        if (id < N_TOKENS - 1)
            fy_str_add(out, tokens[id].bytes.ptr, tokens[id].bytes.len);
    }
    fy_matcher_free(m);
    return whole;
}

/* --- reading back ----------------------------------------------------------------------------- */

typedef struct {
    fy_str arguments;
    uint32_t n_begun, n_ended;
} calls;

static int on_event(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    calls *c = user;
    (void)e;
    if (what == FY_TOOL_BEGIN) {
        assert(fy_span_is(text, "f"));
        fy_str_clear(&c->arguments);
        c->n_begun++;
    } else if (what == FY_TOOL_ARGUMENTS) {
        fy_str_add(&c->arguments, text.ptr, text.len);
    } else if (what == FY_TOOL_END) {
        fy_err why = {0};
        c->n_ended++;
        json_t *v = fy_json_data((fy_span){fy_str_z(&c->arguments), c->arguments.len}, &why);
        if (v == NULL && strstr(why.msg, "a second key") == NULL &&
            strstr(why.msg, "deeper") == NULL) {
            fprintf(stderr, "%s in %s\n", why.msg, fy_str_z(&c->arguments));
            abort();
        }
        json_decref(v);
    }
    return 0;
}

static void read_back(const fy_ask_tools *t, const fy_str *text)
{
    fy_err e = {0};
    calls c = {0};
    fy_tool_parser *p = fy_tool_parser_new(t->format, t->tools, on_event, &c, &e);
    assert(p != NULL && fy_tool_parser_add(p, (fy_span){fy_str_z(text), text->len}, &e) == 0 &&
           fy_tool_parser_end(p, &e) == 0);
    if (c.n_begun == 0 || c.n_ended != c.n_begun) {
        fprintf(stderr, "%u calls begin and %u end in %s\n", c.n_begun, c.n_ended, fy_str_z(text));
        abort();
    }
    fy_tool_parser_free(p);
    fy_str_release(&c.arguments);
}

/* --- tools ------------------------------------------------------------------------------------ */

/* Arguments are an object, whatever the schema says: a string would be taken for JSON. */
static fy_tools *tools_of(fy_span parameters, fy_err *e)
{
    json_t *schema = fy_json_data(parameters, e);
    if (json_is_object(schema))
        json_object_set_new(schema, "type", json_string("object"));
    json_t *list = schema != NULL ? json_pack("[{s:{s:s, s:o}}]", "function", "name", "f",
                                              "parameters", schema)
                                  : NULL;
    fy_tools *t = list != NULL ? fy_tools_new(list, e) : NULL;
    json_decref(list);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fy_trie_token tokens[N_TOKENS];
    static fy_trie *trie;
    fy_err e = {0};
    if (size < 3 || size > 1 << 14)
        return 0;
    if (trie == NULL)
        trie = vocabulary(tokens);
    const char *template = templates[data[0] % (sizeof templates / sizeof *templates)];
    const fy_tool_format *format = fy_tool_format_of(fy_span_of(template));
    fy_ask_tools t = {.tools = tools_of((fy_span){(const char *)data + 2, size - 2}, &e),
                      .format = format,
                      .marks = format,
                      .only = -1,
                      .one = data[1] & 1};
    if (t.tools != NULL && fy_ask_tools_hold(&t, &e) == 0) {
        fy_str text = {0};
        fy_str_puts(&text, t.calls.mark);
        if (make_text(t.calls.grammar, trie, tokens, data[1], &text))
            read_back(&t, &text);
        fy_str_release(&text);
    } else {
        assert(e.code != FY_OK && e.msg[0] != '\0' && fy_utf8_valid(e.msg, strlen(e.msg)));
    }
    fy_ask_tools_release(&t);
    return 0;
}
