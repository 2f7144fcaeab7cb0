/* ferry tokenize: encodes text as ids and decodes ids to text; answers JSON lines (--jsonl), and
 * compares with the answers of a reference tokenizer (--verify). */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "cli/engine.h"

typedef struct {
    const char *model, *file, *verify, *device, *serial;
    int64_t cache_size;
    bool ids, show_pieces, count, json, jsonl, no_bos, no_parse_special, quiet, verbose;
} options;

/* --- input --- */

/* The text of the arguments, a file or standard input. */
static int read_input(const options *o, int n_args, char **args, fy_str *out, fy_err *e)
{
    if (o->file != NULL)
        return fy_text_in_read(o->file, out, e);
    if (n_args == 0 || (n_args == 1 && strcmp(args[0], "-") == 0))
        return fy_text_in_read("-", out, e);
    for (int i = 0; i < n_args; i++) {
        if (i > 0)
            fy_str_putc(out, ' ');
        fy_str_puts(out, args[i]);
    }
    return out->oom ? fy_nomem(e) : 0;
}

/* Reads the number at s, of at most n bytes, and returns its length, 0 without one. INT64_MAX stands
 * for any number that is too large. */
static size_t read_number(const char *s, size_t n, int64_t *out)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
        v = v > INT32_MAX ? INT64_MAX : v * 10 + (s[i] - '0');
    *out = v;
    return i;
}

static size_t skip_spaces(fy_span s, size_t i)
{
    while (i < s.len && strchr(" \t\r\n", s.ptr[i]) != NULL && s.ptr[i] != '\0')
        i++;
    return i;
}

static int bad_id(const fy_vocab *v, const fy_ids *before, fy_span rest, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span word = {rest.ptr, rest.len < 24 ? rest.len : 24};
    return fy_fail(e, FY_EARG,
                   "id %zu: found %s%s%s, expected a number from 0 to %u; ids are separated by "
                   "spaces or commas",
                   before->n + 1, word.len > 0 ? "'" : "the end",
                   fy_quote(shown, sizeof shown, word), word.len > 0 ? "'" : "", fy_vocab_n(v) - 1);
}

static int parse_ids(const fy_vocab *v, fy_span s, fy_ids *out, fy_err *e)
{
    bool comma = false; /* the last one read was a comma: an id must follow */
    for (size_t i = skip_spaces(s, 0); (i < s.len || comma) && !fy_interrupted;) {
        int64_t id;
        size_t n = read_number(s.ptr + i, s.len - i, &id);
        bool ends = i + n == s.len || s.ptr[i + n] == ',' || skip_spaces(s, i + n) > i + n;
        if (n == 0 || !ends)
            return bad_id(v, out, (fy_span){s.ptr + i, s.len - i}, e);
        if (id >= fy_vocab_n(v))
            return fy_fail(e, FY_EARG,
                           "id %zu is %.*s, but the vocabulary has %u tokens (0 to %u); is it of "
                           "another model?",
                           out->n + 1, (int)(n < 24 ? n : 24), s.ptr + i, fy_vocab_n(v),
                           fy_vocab_n(v) - 1);
        if (fy_ids_push(out, (int32_t)id, e) != 0)
            return -1;
        i = skip_spaces(s, i + n);
        comma = i < s.len && s.ptr[i] == ',';
        i = skip_spaces(s, i + comma);
    }
    return fy_check_interrupt(e);
}

/* --- output --- */

/* Stops at an interrupt: the caller checks it before it prints. */
static void put_ids(const fy_ids *ids, char separator, fy_str *out)
{
    for (size_t i = 0; i < ids->n && !fy_interrupted; i++) {
        if (i > 0)
            fy_str_putc(out, separator);
        fy_str_printf(out, "%d", (int)ids->id[i]);
    }
}

/* Appends the text of ids, special tokens as their text, as valid UTF-8. */
static int decode_lossy(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    /* After the first text a token's bytes do not depend on the others, so that the interrupt can be
     * heard between them. */
    const size_t first = ids->n < 4096 ? ids->n : 4096;
    fy_str raw = {0};
    int rc = fy_vocab_decode(v, ids->id, first, true, &raw, e);
    if (rc == 0 && raw.len == 0)
        rc = fy_vocab_decode(v, ids->id, ids->n, true, &raw, e);
    else
        for (size_t i = first; i < ids->n && rc == 0 && (rc = fy_check_interrupt(e)) == 0; i++)
            rc = fy_vocab_decode_one(v, ids->id[i], true, &raw, e);
    if (rc == 0) {
        fy_put_lossy(out, (fy_span){raw.ptr, raw.len});
        rc = out->oom ? fy_nomem(e) : 0;
    }
    fy_str_release(&raw);
    return rc;
}

static int put_pieces(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    static const char *const types[] = {"undefined",    "normal", "unknown", "control",
                                        "user-defined", "unused", "byte"};
    fy_str piece = {0};
    int rc = 0;
    for (size_t i = 0; i < ids->n && rc == 0 && !fy_interrupted; i++) {
        fy_str_clear(&piece);
        rc = fy_vocab_decode_one(v, ids->id[i], true, &piece, e);
        fy_str_printf(out, "%d\t'", ids->id[i]);
        fy_str_put_quoted(out, (fy_span){piece.ptr, piece.len}, SIZE_MAX);
        fy_str_printf(out, "'\t%s\n", types[fy_vocab_type(v, ids->id[i])]);
    }
    fy_str_release(&piece);
    return rc;
}

static void put_json_bytes(fy_str *out, fy_span s)
{
    fy_str_putc(out, '[');
    for (size_t i = 0; i < s.len; i++)
        fy_str_printf(out, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)s.ptr[i]);
    fy_str_putc(out, ']');
}

static int put_json(const options *o, const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    fy_str piece = {0};
    int rc = 0;
    fy_str_putc(out, '{');
    if (o->ids) {
        rc = decode_lossy(v, ids, &piece, e);
        fy_str_puts(out, "\"text\":");
        fy_json_put_string(out, (fy_span){piece.ptr, piece.len});
        fy_str_putc(out, ',');
    }
    fy_str_puts(out, "\"ids\":[");
    put_ids(ids, ',', out);
    fy_str_puts(out, "],\"pieces\":[");
    for (size_t i = 0; i < ids->n && rc == 0 && !fy_interrupted; i++) {
        fy_str_clear(&piece);
        rc = fy_vocab_decode_one(v, ids->id[i], true, &piece, e);
        if (i > 0)
            fy_str_putc(out, ',');
        fy_span s = {piece.ptr, piece.len};
        if (fy_utf8_valid(s.ptr, s.len))
            fy_json_put_string(out, s);
        else
            put_json_bytes(out, s);
    }
    fy_str_printf(out, "],\"count\":%zu}\n", ids->n);
    fy_str_release(&piece);
    return rc;
}

/* At an interrupt the loops over millions of ids end early, and their output is dropped. */
static int show(const options *o, const fy_vocab *v, const fy_ids *ids, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = put_json(o, v, ids, &out, e);
    else if (o->show_pieces)
        rc = put_pieces(v, ids, &out, e);
    else if (o->count)
        fy_str_printf(&out, "%zu\n", ids->n);
    else if (o->ids)
        rc = decode_lossy(v, ids, &out, e);
    else
        put_ids(ids, ' ', &out);
    if (!o->json && !o->show_pieces && !o->count)
        fy_str_putc(&out, '\n');
    if (rc == 0)
        rc = fy_check_interrupt(e);
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

static int run_text(const options *o, const fy_vocab *v, int n_args, char **args, fy_err *e)
{
    fy_str text = {0};
    fy_ids ids = {0};
    int rc = read_input(o, n_args, args, &text, e);
    fy_span s = {text.ptr, text.len};
    if (rc == 0)
        rc = o->ids ? parse_ids(v, s, &ids, e)
                    : fy_vocab_encode(v, s, !o->no_bos, !o->no_parse_special, &ids, e);
    fy_str_release(&text);
    if (rc == 0)
        rc = show(o, v, &ids, e);
    fy_ids_release(&ids);
    return rc;
}

/* --- --jsonl: one request and one answer per line --- */

static int get_flag(const json_t *request, const char *key, bool *out, fy_err *e)
{
    const json_t *j = json_object_get(request, key);
    if (j != NULL && !json_is_boolean(j))
        return fy_fail(e, FY_EFORMAT, "\"%s\" is not true or false", key);
    if (j != NULL)
        *out = json_is_true(j);
    return 0;
}

static int answer(const fy_vocab *v, const json_t *request, fy_err *e)
{
    const json_t *text = json_object_get(request, "text");
    bool add_special = true, parse_special = true;
    if (!json_is_string(text))
        return fy_fail(e, FY_EFORMAT, "expected an object with a string \"text\"");
    if (get_flag(request, "add_special", &add_special, e) != 0 ||
        get_flag(request, "parse_special", &parse_special, e) != 0)
        return -1;
    fy_ids ids = {0};
    fy_str decoded = {0}, out = {0};
    fy_span s = {json_string_value(text), json_string_length(text)};
    int rc = fy_vocab_encode(v, s, add_special, parse_special, &ids, e);
    if (rc == 0)
        rc = decode_lossy(v, &ids, &decoded, e);
    if (rc == 0) {
        fy_str_puts(&out, "{\"ids\":[");
        put_ids(&ids, ',', &out);
        fy_str_puts(&out, "],\"decoded\":");
        fy_json_put_string(&out, (fy_span){decoded.ptr, decoded.len});
        fy_str_puts(&out, "}\n");
        rc = fy_check_interrupt(e);
    }
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_ids_release(&ids);
    fy_str_release(&decoded);
    fy_str_release(&out);
    return rc;
}

static int answer_line(const fy_vocab *v, const char *line, size_t n, fy_err *e)
{
    if (strspn(line, " \t\r\n") == n)
        return 0;
    json_t *request = fy_json_data_line((fy_span){line, n}, e);
    if (request == NULL)
        return -1;
    int rc = answer(v, request, e);
    json_decref(request);
    return rc;
}

static int run_jsonl(const fy_vocab *v, fy_err *e)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    for (unsigned long long number = 1; rc == 0; number++) {
        errno = 0;
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) {
            rc = feof(stdin) ? 0 : fy_fail_errno(e, "cannot read standard input");
            break;
        }
        rc = answer_line(v, line, (size_t)n, e);
        if (rc != 0)
            fy_ctx(e, "line %llu", number);
    }
    free(line);
    return rc;
}

/* --- --verify: the answers of a reference --- */

enum { MAX_SHOWN = 20 };

typedef struct {
    const fy_vocab *v;
    fy_str report;
    unsigned n_compared, n_different;
} comparison;

/* The lists of parity.json and golden.json, and the options their ids were made with. */
static const struct {
    const char *list, *key;
    bool add_special, parse_special;
} id_checks[] = {
    {"cases", "ids", false, true},
    {"cases", "ids_special", true, true},
    {"specials_parsed", "ids", false, true},
    {"specials_parsed", "ids_special", true, true},
    {"specials_parsed", "ids_plain", false, false},
    {"tokenizer_cases", "ids", false, true},
    {"tokenizer_cases", "ids_with_special", true, true},
};

static void put_some_ids(const fy_ids *ids, size_t from, fy_str *out)
{
    enum { WINDOW = 8 };
    fy_ids part = {ids->id + from, ids->n - from < WINDOW ? ids->n - from : WINDOW, 0};
    put_ids(&part, ' ', out);
    fy_str_puts(out, part.n == 0 ? "the end" : from + part.n < ids->n ? " ..." : "");
}

static void report_ids(comparison *c, const fy_ids *expected, const fy_ids *found)
{
    size_t at = 0;
    while (at < expected->n && at < found->n && expected->id[at] == found->id[at])
        at++;
    fy_str_printf(&c->report, "position %zu: expected ", at);
    put_some_ids(expected, at, &c->report);
    fy_str_puts(&c->report, ", found ");
    put_some_ids(found, at, &c->report);
}

/* Starts a line of the report; false once MAX_SHOWN lines are there. */
static bool begin_difference(comparison *c, const char *list, size_t i, const char *key,
                             const json_t *text)
{
    if (++c->n_different > MAX_SHOWN)
        return false;
    char *z = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    size_t n = z != NULL ? strlen(z) : 0;
    fy_str_printf(&c->report, "%s[%zu].%s of %.*s%s: ", list, i, key, (int)(n < 80 ? n : 80),
                  z != NULL ? z : "", n > 80 ? "..." : "");
    free(z);
    return true;
}

static int read_ids(const json_t *array, fy_ids *out, fy_err *e)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *j = json_array_get(array, i);
        json_int_t id = json_integer_value(j);
        if (!json_is_integer(j) || id < 0 || id > INT32_MAX)
            return fy_fail(e, FY_EFORMAT, "ids[%zu] is not a token id", i);
        if (fy_ids_push(out, (int32_t)id, e) != 0)
            return -1;
    }
    return 0;
}

static int compare_ids(comparison *c, const char *list, size_t i, size_t check, const json_t *item,
                       fy_err *e)
{
    const json_t *text = json_object_get(item, "text"),
                 *ids = json_object_get(item, id_checks[check].key);
    if (ids == NULL || json_is_null(ids))
        return 0;
    if (!json_is_array(ids))
        return fy_fail(e, FY_EFORMAT, "\"%s\" is not a list of ids", id_checks[check].key);
    fy_ids expected = {0}, found = {0};
    fy_span s = {json_string_value(text), json_string_length(text)};
    int rc = read_ids(ids, &expected, e);
    if (rc == 0)
        rc = fy_vocab_encode(c->v, s, id_checks[check].add_special, id_checks[check].parse_special,
                             &found, e);
    c->n_compared += rc == 0;
    if (rc == 0 &&
        (expected.n != found.n ||
         (found.n > 0 && memcmp(expected.id, found.id, found.n * sizeof *found.id) != 0)) &&
        begin_difference(c, list, i, id_checks[check].key, text)) {
        report_ids(c, &expected, &found);
        fy_str_putc(&c->report, '\n');
    }
    fy_ids_release(&expected);
    fy_ids_release(&found);
    return rc;
}

static int compare_decoded(comparison *c, const char *list, size_t i, const json_t *item, fy_err *e)
{
    const json_t *ids = json_object_get(item, "ids"), *want = json_object_get(item, "decoded");
    if (!json_is_array(ids) || !json_is_string(want))
        return 0;
    fy_ids expected = {0};
    fy_str text = {0};
    int rc = read_ids(ids, &expected, e);
    if (rc == 0)
        rc = decode_lossy(c->v, &expected, &text, e);
    c->n_compared += rc == 0;
    if (rc == 0 &&
        !fy_span_eq((fy_span){text.ptr, text.len},
                    (fy_span){json_string_value(want), json_string_length(want)}) &&
        begin_difference(c, list, i, "decoded", want)) {
        fy_str_puts(&c->report, "found ");
        fy_json_put_string(&c->report, (fy_span){text.ptr, text.len});
        fy_str_putc(&c->report, '\n');
    }
    fy_ids_release(&expected);
    fy_str_release(&text);
    return rc;
}

static int compare_item(comparison *c, const char *list, size_t i, const json_t *item, fy_err *e)
{
    if (!json_is_string(json_object_get(item, "text")))
        return fy_fail(e, FY_EFORMAT, "%s[%zu] has no string \"text\"", list, i);
    for (size_t k = 0; k < sizeof id_checks / sizeof id_checks[0]; k++) {
        if (strcmp(list, id_checks[k].list) == 0 && compare_ids(c, list, i, k, item, e) != 0)
            return fy_ctx(e, "%s[%zu]", list, i);
    }
    return compare_decoded(c, list, i, item, e);
}

static int compare_all(comparison *c, const json_t *root, fy_err *e)
{
    static const char *const lists[] = {"cases", "specials_parsed", "tokenizer_cases"};
    bool any = false;
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        const json_t *list = json_object_get(root, lists[l]);
        any = any || json_is_array(list);
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (compare_item(c, lists[l], i, json_array_get(list, i), e) != 0)
                return -1;
        }
    }
    if (!any)
        return fy_fail(e, FY_EFORMAT,
                       "has neither \"cases\" (parity.json) nor \"tokenizer_cases\" (golden.json)");
    return 0;
}

/* --- references --- */

/* The next line of *rest without its end. */
static fy_span take_line(fy_span *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    fy_span line = {rest->ptr, end != NULL ? (size_t)(end - rest->ptr) : rest->len};
    size_t n = line.len + (end != NULL);
    *rest = (fy_span){rest->ptr + n, rest->len - n};
    return line;
}

/* Ids in decimal, separated by spaces. */
static json_t *ids_of_line(fy_span line, fy_err *e)
{
    json_t *ids = json_array();
    for (size_t i = 0; ids != NULL && i < line.len;) {
        if (line.ptr[i] == ' ' || line.ptr[i] == '\r') {
            i++;
            continue;
        }
        int64_t id = 0;
        size_t begin = i;
        for (; i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9' && id <= INT32_MAX; i++)
            id = id * 10 + (line.ptr[i] - '0');
        if (i == begin || id > INT32_MAX) {
            fy_fail(e, FY_EFORMAT, "a line with something that is not a token id");
            json_decref(ids);
            return NULL;
        }
        if (json_array_append_new(ids, json_integer(id)) != 0)
            break;
    }
    if (ids == NULL)
        fy_nomem(e);
    return ids;
}

/* llama.cpp's files: each text ends with a marker line, and has one line of ids. */
static json_t *cases_of_texts(fy_span texts, fy_span lines, fy_err *e)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    json_t *list = json_array();
    size_t n = 0;
    for (; list != NULL && texts.len > 0; n++) {
        const char *end = memmem(texts.ptr, texts.len, mark, sizeof mark - 1);
        size_t len = end != NULL ? (size_t)(end - texts.ptr) : texts.len;
        size_t step = len + (end != NULL ? sizeof mark - 1 : 0);
        json_t *text = json_stringn(texts.ptr, len);
        if (lines.len == 0 || text == NULL) {
            fy_fail(e, FY_EFORMAT, "text %zu %s", n,
                    text == NULL ? "is not UTF-8" : "has no line of ids");
            json_decref(text);
            break;
        }
        json_t *ids = ids_of_line(take_line(&lines), e);
        if (ids == NULL ||
            json_array_append_new(list, json_pack("{s:o, s:o}", "text", text, "ids", ids)) != 0)
            break;
        texts = (fy_span){texts.ptr + step, texts.len - step};
    }
    if (list != NULL && texts.len == 0 && lines.len == 0)
        return list;
    json_decref(list);
    if (texts.len == 0)
        fy_fail(e, FY_EFORMAT, "%zu texts, but more lines of ids", n);
    return NULL;
}

/* FILE.inp holds the texts, FILE.out next to it the ids. */
static json_t *read_pair(const char *path, fy_err *e)
{
    char *answers = strdup(path);
    if (answers == NULL) {
        fy_nomem(e);
        return NULL;
    }
    strcpy(answers + strlen(answers) - 4, ".out");
    fy_map texts = {0}, ids = {0};
    json_t *root = NULL;
    if (fy_map_open(&texts, path, e) == 0 && fy_map_open(&ids, answers, e) == 0) {
        json_t *cases = cases_of_texts((fy_span){(const char *)texts.data, texts.size},
                                       (fy_span){(const char *)ids.data, ids.size}, e);
        root = cases != NULL ? json_pack("{s:o}", "cases", cases) : NULL;
        if (root == NULL)
            fy_ctx(e, "%s", path);
    }
    fy_map_close(&texts);
    fy_map_close(&ids);
    free(answers);
    return root;
}

static int run_verify(const fy_vocab *v, const char *path, fy_err *e)
{
    size_t len = strlen(path);
    bool pair = len > 4 && strcmp(path + len - 4, ".inp") == 0;
    json_t *root = pair ? read_pair(path, e) : fy_json_data_file(path, e);
    if (root == NULL)
        return -1;
    comparison c = {.v = v};
    int rc = compare_all(&c, root, e);
    if (rc == 0 && c.n_compared == 0)
        rc = fy_fail(e, FY_EFORMAT, "has nothing to compare: no case with ids");
    if (rc != 0) {
        fy_ctx(e, "%s", path);
    } else {
        if (c.n_different > MAX_SHOWN)
            fy_str_printf(&c.report, "... and %u more\n", c.n_different - MAX_SHOWN);
        fy_str_printf(&c.report, "%u comparisons, %u differ\n", c.n_compared, c.n_different);
        rc = c.report.oom ? fy_nomem(e) : fy_stdout(c.report.ptr, c.report.len, e);
    }
    if (rc == 0 && c.n_different > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %u of %u comparisons differ", path, c.n_different,
                     c.n_compared);
    fy_str_release(&c.report);
    json_decref(root);
    return rc;
}

/* --- the verb --- */

static bool reads_input(const void *opaque, int n_args, char **args)
{
    const options *o = opaque;
    bool text_given = o->file != NULL || n_args > 1 || (n_args == 1 && strcmp(args[0], "-") != 0);
    return o->jsonl || (o->verify == NULL && !text_given);
}

static int check_options(const options *o, int n_args, char **args, fy_err *e)
{
    const struct {
        const char *name;
        bool given;
    } forms[] = {{"show-pieces", o->show_pieces},
                 {"count", o->count},
                 {"json", o->json},
                 {"jsonl", o->jsonl},
                 {"verify", o->verify != NULL}};
    const char *form = NULL;
    if (o->model == NULL)
        return fy_fail(e, FY_EARG, "which tokenizer? give -m FILE.gguf or -m DIR");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].given && form != NULL)
            return fy_fail(e, FY_EARG, "--%s and --%s exclude each other", form, forms[i].name);
        form = forms[i].given ? forms[i].name : form;
    }
    if (o->jsonl || o->verify != NULL) {
        if (n_args > 0 || o->file != NULL)
            return fy_fail(e, FY_EARG, "--%s takes no text argument and no --file", form);
        if (o->ids || o->no_bos || o->no_parse_special)
            return fy_fail(e, FY_EARG,
                           "--%s and --%s exclude each other: each line or case "
                           "has its own",
                           form,
                           o->ids      ? "ids"
                           : o->no_bos ? "no-bos"
                                       : "no-parse-special");
    }
    if (o->file != NULL && n_args > 0)
        return fy_fail(e, FY_EARG, "two texts, '%.40s' and --file %s: give one", args[0], o->file);
    if (o->ids && (o->no_bos || o->no_parse_special))
        return fy_fail(e, FY_EARG, "--%s is about text, and --ids reads ids: leave one out",
                       o->no_bos ? "no-bos" : "no-parse-special");
    if (n_args > 1 && !o->ids)
        return fy_fail(e, FY_EARG, "%d texts: put quotes around a text with spaces", n_args);
    return 0;
}

static int run(void *opts, int n_args, char **args, fy_err *e)
{
    const options *o = opts;
    if (check_options(o, n_args, args, e) != 0)
        return -1;
    fy_gguf *g = fy_vocab_source_open(o->model, e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, e) : NULL;
    fy_gguf_close(g);
    if (v == NULL)
        return -1;
    int rc = o->verify != NULL ? run_verify(v, o->verify, e)
             : o->jsonl        ? run_jsonl(v, e)
                               : run_text(o, v, n_args, args, e);
    fy_vocab_free(v);
    return rc;
}

/* clang-format off */
static const fy_opt opts_table[] = {
    {.group = "Input", .name = "model", .alias = "m", .kind = FY_OPT_STR, .arg = "FILE.gguf|DIR",
     .offset = offsetof(options, model), .set = "model", .file = FY_FILE_WORKSPACE,
     .help = "A GGUF file, a workspace, or a directory with a checkpoint's tokenizer files, or one "
             "of them: .json, .model, .txt, .tiktoken (converted on the fly)."},
    {.group = "Input", .name = "file", .alias = "f", .kind = FY_OPT_STR, .arg = "FILE",
     .offset = offsetof(options, file), .line_only = true, .file = FY_FILE_IN,
     .help = "Read the text from FILE, all of it, its last newline included; '-' is standard input."},
    {.group = "Input", .name = "ids", .kind = FY_OPT_FLAG, .offset = offsetof(options, ids),
     .line_only = true,
     .help = "The arguments (or FILE, or standard input) are token ids separated by spaces or "
             "commas: print their text."},
    {.group = "Output", .name = "show-pieces", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, show_pieces),
     .help = "One line per token: id, its text in quotes, type, separated by tabs."},
    {.group = "Output", .name = "count", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, count), .help = "Print only the number of tokens."},
    {.group = "Output", .name = "json", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, json),
     .help = "One JSON object: \"ids\", \"pieces\", \"count\", and with --ids \"text\"."},
    {.group = "Special tokens", .name = "no-bos", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_bos), .line_only = true,
     .help = "Add nothing at the beginning or end of the text."},
    {.group = "Special tokens", .name = "no-parse-special", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_parse_special), .line_only = true,
     .help = "Take control tokens in the text as plain text."},
    {.group = "Many texts", .name = "jsonl", .kind = FY_OPT_FLAG, .set = "form", .line_only = true,
     .offset = offsetof(options, jsonl),
     .help = "Read lines {\"text\", \"add_special\", \"parse_special\"} from standard input, write "
             "lines {\"ids\", \"decoded\"}; both flags are true when absent."},
    {.group = "Many texts", .name = "verify", .kind = FY_OPT_STR, .arg = "FILE", .set = "form",
     .line_only = true, .offset = offsetof(options, verify), .file = FY_FILE_IN,
     .help = "Compare with the answers of a reference, a .json or llama.cpp's .inp with its .out; exit "
             "4 if any differs."},
    FY_ROWS_DEVICE
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static const fy_model_slots slots = {.model = offsetof(options, model), .checkpoint = true};

const fy_verb fy_verb_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids, and back",
    .synopsis = "[TEXT|ID...]",
    .min_args = 0,
    .max_args = -1,
    .opts = opts_table,
    .n_opts = sizeof opts_table / sizeof opts_table[0],
    .opts_bytes = sizeof(options),
    .description =
        "Prints the ids of TEXT on one line; without TEXT, or with '-', the text is all of standard "
        "input, its last newline included. BOS and EOS are added as the model asks, control tokens "
        "in the text are recognised. The text may be any bytes: what is not UTF-8 is encoded byte "
        "by byte.\n\n"
        "--ids goes the other way: the text of the ids, special tokens as they are written, and a "
        "newline. Bytes that are not UTF-8 become U+FFFD.\n\n"
        "--show-pieces shows control characters, backslashes and bytes that are not UTF-8 as "
        "\\n, \\t, \\r, \\\\, \\xNN or \\u{NNNN}; types are normal, control, user-defined, byte, "
        "unknown, unused and undefined. In \"pieces\" of --json a token whose bytes are not "
        "UTF-8 on their own (part of a character) is a list of numbers.\n\n"
        "--verify reads the answers of a reference implementation: \"cases\" and \"specials_parsed\" "
        "of a parity.json, or \"tokenizer_cases\" of a golden.json. Each case has a text and its "
        "ids, with and without special tokens, and may have the text that the ids decode to. "
        "For llama.cpp's pairs FILE.inp (texts) and FILE.out (lines of ids), give the first. "
        "Differences are counted, and the first twenty are shown.",
    .examples = "ferry tokenize -m model.gguf 'Once upon a time'\n"
                "# which token is which\n"
                "ferry tokenize -m model.gguf --show-pieces 'Once upon a time'\n"
                "# the length of a file in tokens\n"
                "ferry tokenize -m model.gguf --count -f prompt.txt\n"
                "ferry tokenize -m model.gguf --ids 763 408 409 258 410\n"
                "# what the checkpoint's own tokenizer gives, without converting the weights\n"
                "ferry tokenize -m checkpoint 'Once upon a time'\n"
                "ferry tokenize -m model.gguf --verify parity.json\n",
    .model = &slots,
    .run = run,
    .on_phone = true,
    .reads_input = reads_input,
};
/* clang-format on */
