#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/quote.h"
#include "cli/verb.h"
#include "workspace/phone/explain.h"

typedef struct {
    bool list, json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "list",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, list),
     .line_only = true,
     .help = "Print everything that is known: family, number, name and meaning."},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object: \"query\" (not with --list) and \"matches\", each with "
             "\"family\", \"code\", \"hex\" (null where it has no number), \"name\", \"meaning\", "
             "\"cause\", \"remedy\"."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static void put_member(fy_str *s, const char *key, const char *text)
{
    fy_str_printf(s, ", \"%s\": ", key);
    fy_json_put_string(s, fy_span_of(text));
}

static void put_json(fy_str *s, const fy_explanation *x, bool first)
{
    char decimal[24], hex[24];
    fy_explain_code_text(x, decimal, hex);
    fy_str_puts(s, first ? "\n  {\"family\": " : ",\n  {\"family\": ");
    fy_json_put_string(s, fy_span_of(fy_explain_families[x->family].name));
    if (decimal[0] != '\0')
        fy_str_printf(s, ", \"code\": %s, \"hex\": \"%s\"", decimal, hex);
    else
        fy_str_puts(s, ", \"code\": null, \"hex\": null");
    put_member(s, "name", x->name);
    put_member(s, "meaning", x->meaning);
    put_member(s, "cause", x->cause);
    put_member(s, "remedy", x->remedy);
    fy_str_putc(s, '}');
}

static void put_words(fy_str *s, const fy_explanation *x)
{
    static const char *const titles[] = {"meaning", "cause", "remedy"};
    const char *const texts[] = {x->meaning, x->cause, x->remedy};
    enum { INDENT = 11, WIDTH = 100 };
    char decimal[24], hex[24];
    fy_explain_code_text(x, decimal, hex);
    fy_str_printf(s, "%s ", fy_explain_families[x->family].name);
    if (decimal[0] != '\0')
        fy_str_printf(s, "%s (%s) ", decimal, hex);
    fy_str_printf(s, "%s\n", x->name);
    for (size_t i = 0; i < 3; i++) {
        fy_str_printf(s, "  %-*s", INDENT - 2, titles[i]);
        fy_str_wrap(s, texts[i], INDENT, WIDTH);
    }
}

static int write_out(fy_str *s, fy_err *e)
{
    int rc = s->oom ? fy_nomem(e) : fy_stdout(s->ptr, s->len, e);
    fy_str_release(s);
    return rc;
}

static int list_all(const options *o, fy_err *e)
{
    fy_str s = {0};
    char decimal[24], hex[24];
    if (o->json)
        fy_str_puts(&s, "{\"matches\": [");
    for (size_t i = 0; i < fy_explain_n_rows; i++) {
        fy_explanation x = fy_explain_of(&fy_explain_rows[i]);
        fy_explain_code_text(&x, decimal, hex);
        if (o->json)
            put_json(&s, &x, i == 0);
        else
            fy_str_printf(&s, "%-8s %6s %-11s %-47s %s\n", fy_explain_families[x.family].name,
                          decimal, hex, x.name, x.meaning);
    }
    if (o->json)
        fy_str_puts(&s, "\n]}\n");
    return write_out(&s, e);
}

static int unknown(const char *query, const char *near, fy_err *e)
{
    fy_str known = {0};
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(query));
    if (near != NULL)
        return fy_fail(e, FY_EARG, "'%s' is not known; did you mean %s?", shown, near);
    for (int i = 0; i < FY_EXPLAIN_FAMILIES; i++)
        fy_str_printf(&known, "%s%s %s", i > 0 ? "; " : "", fy_explain_families[i].name,
                      fy_explain_families[i].ranges);
    fy_fail(e, FY_EUNSUPPORTED, "'%s' is not known. Known are %s. --list shows them", shown,
            fy_str_z(&known));
    fy_str_release(&known);
    return -1;
}

static int explain(const options *o, const char *query, fy_err *e)
{
    enum { MAX = 8 };
    fy_explanation found[MAX];
    const char *near;
    size_t n = fy_explain(query, found, MAX, &near);
    if (n == 0)
        return unknown(query, near, e);
    fy_str s = {0};
    if (o->json) {
        fy_str_puts(&s, "{\"query\": ");
        fy_json_put_string(&s, fy_span_of(query));
        fy_str_puts(&s, ", \"matches\": [");
    }
    for (size_t i = 0; i < n; i++) {
        if (o->json)
            put_json(&s, &found[i], i == 0);
        else
            put_words(&s, &found[i]);
    }
    if (o->json)
        fy_str_puts(&s, "\n]}\n");
    return write_out(&s, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    if (o->list && n_args > 0)
        return fy_fail(e, FY_EARG, "--list shows everything: leave '%.40s' out", args[0]);
    if (o->list)
        return list_all(o, e);
    if (n_args == 0)
        return fy_fail(e, FY_EARG, "give a number, a name or a line of text, or --list");
    fy_str query = {0};
    for (int i = 0; i < n_args; i++)
        fy_str_printf(&query, "%s%s", i > 0 ? " " : "", args[i]);
    int rc = query.oom ? fy_nomem(e) : explain(o, fy_str_z(&query), e);
    fy_str_release(&query);
    return rc;
}

const fy_verb fy_verb_explain = {
    .name = "explain",
    .summary = "what an error of the phone, adb, QNN or FastRPC means, and what to do",
    .synopsis = "CODE...",
    .min_args = 0,
    .max_args = -1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "CODE is a number as a log shows it (decimal, hexadecimal, negative), a name, or a line of "
        "text that holds one; quotes around a line are needed where the shell would read it "
        "otherwise. A number that several families use is explained for each.\n\n"
        "Known are the exit statuses of ferry and of programs on the phone, the states and "
        "messages of adb, and the errors of QNN (Qualcomm's NPU) and of FastRPC (the way to it).",
    .examples = "ferry explain 30002\n"
                "ferry explain 0x80000406\n"
                "# a line of a log\n"
                "ferry explain 'contextCreate failed, err 1002'\n"
                "ferry explain error: device unauthorized\n"
                "ferry explain --list\n",
    .task = FY_TASK_PHONE,
    .run = run,
};
