/* Calls in an answer: cut into pieces anywhere, a text gives the events of the whole, and content
 * and calls are split by the same rules. The first byte chooses the format, the second the
 * pieces. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/json_tree.h"
#include "toolcall/toolcall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const templates[] = {"tools <tool_call>",
                                        "tools <|python_tag|>",
                                        "tools [TOOL_CALLS]",
                                        "tools <|/tool_call|>",
                                        "tools <|tool_call|>",
                                        "tools <arg_key>",
                                        "tools <function=",
                                        "tools <|tool_call>call:",
                                        "",
                                        "tools <start_function_call>",
                                        "tools [ARGS]"};

static int append(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    (void)e;
    fy_str *out = user;
    assert(what != FY_TOOL_CONTENT || text.len > 0);
    if (what == FY_TOOL_BEGIN || what == FY_TOOL_END)
        fy_str_putc(out, what == FY_TOOL_BEGIN ? 1 : 2);
    fy_str_add(out, text.ptr, text.len);
    return 0;
}

static void parse(const fy_tool_format *f, const fy_tools *t, fy_span text, size_t piece,
                  fy_str *out)
{
    fy_err e = {0};
    fy_tool_parser *p = fy_tool_parser_new(f, t, append, out, &e);
    int rc = p == NULL ? -1 : 0;
    for (size_t i = 0; i < text.len && rc == 0; i += piece) {
        size_t n = text.len - i < piece ? text.len - i : piece;
        rc = fy_tool_parser_add(p, (fy_span){text.ptr + i, n}, &e);
    }
    assert(rc == 0 && fy_tool_parser_end(p, &e) == 0);
    fy_tool_parser_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fy_tools *tools;
    if (tools == NULL) {
        json_t *list = fy_json_data(FY_SPAN("[{\"function\":{\"name\":\"f\",\"parameters\":"
                                            "{\"properties\":{\"s\":{\"type\":\"string\"}}}}}]"),
                                    NULL);
        tools = fy_tools_new(list, NULL);
        json_decref(list);
    }
    if (size < 2 || size > 1 << 14)
        return 0;
    const char *chosen = templates[data[0] % (sizeof templates / sizeof *templates)];
    const fy_tool_format *f = fy_tool_format_of(fy_span_of(chosen));
    fy_span text = {(const char *)data + 2, size - 2};
    fy_str whole = {0}, pieces = {0};
    parse(f, tools, text, size, &whole);
    parse(f, tools, text, 1 + data[1] % 16, &pieces);
    assert(whole.len == pieces.len && memcmp(fy_str_z(&whole), fy_str_z(&pieces), whole.len) == 0);
    fy_str_release(&whole);
    fy_str_release(&pieces);
    return 0;
}
