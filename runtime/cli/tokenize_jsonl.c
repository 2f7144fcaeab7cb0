/* `tokenize --jsonl`: one request and one answer per line; and the printing of ids and texts that
 * all forms of tokenize share. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_tree.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/tokenize_jobs.h"

void fy_put_ids(const fy_ids *ids, char separator, fy_str *out)
{
    for (size_t i = 0; i < ids->n && !fy_interrupted; i++) {
        if (i > 0)
            fy_str_putc(out, separator);
        fy_str_printf(out, "%d", (int)ids->id[i]);
    }
}

int fy_decode_lossy(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
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
        rc = fy_decode_lossy(v, &ids, &decoded, e);
    if (rc == 0) {
        fy_str_puts(&out, "{\"ids\":[");
        fy_put_ids(&ids, ',', &out);
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

int fy_tokenize_jsonl(const fy_vocab *v, fy_err *e)
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
