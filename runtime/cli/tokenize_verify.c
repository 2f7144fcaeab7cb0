#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_tree.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/tokenize_jobs.h"

enum { MAX_SHOWN = 20 };

typedef struct {
    const fy_vocab *v;
    fy_str report;
    unsigned n_compared, n_different;
} comparison;

/* The lists of parity.json and golden.json, and how their ids were made. */
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
    fy_put_ids(&part, ' ', out);
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

/* Begins a report line; false once enough lines are there. */
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
        rc = fy_decode_lossy(c->v, &expected, &text, e);
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

/* Ids in decimal with blanks between. */
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
            fy_fail(e, FY_EFORMAT, "a line with something that is no token id");
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

/* llama.cpp's form: texts that each end with a line of their own, and a line of ids for each. */
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

/* FILE.inp holds the texts, FILE.out beside it the ids. */
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

int fy_tokenize_verify(const fy_vocab *v, const char *path, fy_err *e)
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
