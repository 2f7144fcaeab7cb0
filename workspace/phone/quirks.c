#include "workspace/phone/quirks.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_dir.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/opts.h"
#include "base/quote.h"

/* --- reading ---------------------------------------------------------------------------------- */

static int take_text(fy_quirks *q, fy_json *j, const char **out, fy_err *e)
{
    fy_span text;
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    *out = fy_arena_strndup(&q->strings, text.ptr, text.len);
    return *out != NULL ? 0 : fy_nomem(e);
}

static int take_list(fy_quirks *q, fy_json *j, fy_quirk_list *out, fy_err *e)
{
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (out->n == FY_QUIRK_PATTERNS)
            return fy_fail(e, FY_EFORMAT, "more than %d patterns", FY_QUIRK_PATTERNS);
        if (take_text(q, j, &out->pattern[out->n++], e) != 0)
            return -1;
    }
    return more;
}

static int take_verdict(fy_json *j, fy_verdict *out, fy_err *e)
{
    fy_span text;
    char shown[FY_QUOTE_BYTES];
    if (fy_json_string(j, &text, NULL, e) != 0)
        return -1;
    for (fy_verdict v = FY_CHECK_NOTE; v <= FY_CHECK_FAIL; v++) {
        if (fy_span_is(text, fy_verdict_names[v])) {
            *out = v;
            return 0;
        }
    }
    return fy_fail(e, FY_EFORMAT, "verdict '%s', expected note, warning or fail",
                   fy_quote(shown, sizeof shown, text));
}

static int take_member(fy_quirks *q, fy_json *j, fy_span key, fy_quirk *r, fy_err *e)
{
    const struct {
        const char *name;
        const char **text;
        fy_quirk_list *list;
        int64_t *number;
    } rows[] = {{"id", &r->id, NULL, NULL},
                {"found", &r->found, NULL, NULL},
                {"remedy", &r->remedy, NULL, NULL},
                {"source", &r->source, NULL, NULL},
                {"manufacturer", NULL, &r->manufacturer, NULL},
                {"model", NULL, &r->model, NULL},
                {"soc", NULL, &r->soc, NULL},
                {"platform", NULL, &r->platform, NULL},
                {"package", NULL, &r->package, NULL},
                {"android_from", NULL, NULL, &r->android_from},
                {"android_below", NULL, NULL, &r->android_below},
                {"htp_below", NULL, NULL, &r->htp_below}};
    enum { N = sizeof rows / sizeof rows[0] };
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < N; i++) {
        if (!fy_span_is(key, rows[i].name))
            continue;
        return rows[i].text != NULL   ? take_text(q, j, rows[i].text, e)
               : rows[i].list != NULL ? take_list(q, j, rows[i].list, e)
                                      : fy_json_i64(j, rows[i].number, e);
    }
    if (fy_span_is(key, "verdict"))
        return take_verdict(j, &r->verdict, e);
    if (fy_span_is(key, "npu"))
        return fy_json_bool(j, &r->npu, e);
    if (fy_span_is(key, "parameters_above"))
        return fy_json_double(j, &r->parameters_above, e);
    return fy_fail(e, FY_EFORMAT, "unknown key '%s'", fy_quote(shown, sizeof shown, key));
}

static int take_row(fy_quirks *q, fy_json *j, fy_err *e)
{
    fy_quirk r = {.remedy = "",
                  .source = "",
                  .verdict = FY_CHECK_OK,
                  .android_from = -1,
                  .android_below = -1,
                  .htp_below = -1};
    fy_span key;
    int more;
    if (fy_json_object_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_object_next(j, &key, e)) == 1) {
        if (take_member(q, j, key, &r, e) != 0)
            return -1;
    }
    if (more < 0)
        return -1;
    if (r.id == NULL || r.found == NULL || r.verdict == FY_CHECK_OK)
        return fy_fail(e, FY_EFORMAT, "a row needs \"id\", \"found\" and \"verdict\"");
    for (size_t i = 0; i < q->n; i++) {
        if (strcmp(q->row[i].id, r.id) == 0) {
            q->row[i] = r;
            return 0;
        }
    }
    fy_quirk *grown = fy_grow(q->row, q->n, &q->cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    q->row = grown;
    q->row[q->n++] = r;
    return 0;
}

int fy_quirks_parse(fy_quirks *q, const char *text, size_t n, const char *name, fy_err *e)
{
    fy_json *j = fy_json_new(text, n, e);
    int rc = j != NULL ? fy_json_array_begin(j, e) : -1, more = 0;
    while (rc == 0 && (more = fy_json_array_next(j, e)) == 1)
        rc = take_row(q, j, e);
    if (rc == 0)
        rc = more == 0 ? fy_json_end(j, e) : -1;
    fy_json_free(j);
    return rc == 0 ? 0 : fy_ctx(e, "%s", name);
}

int fy_quirks_read(fy_quirks *q, fy_err *e)
{
    fy_str path = {0};
    fy_map map;
    *q = (fy_quirks){0};
    fy_config_path("quirks.json", &path);
    int rc = path.oom ? fy_nomem(e)
                      : fy_quirks_parse(q, fy_quirks_table, strlen(fy_quirks_table),
                                        "the table of quirks", e);
    if (rc == 0 && path.len > 0 && fy_file_exists(path.ptr)) {
        rc = fy_map_open(&map, path.ptr, e);
        if (rc == 0) {
            rc = map.size <= FY_QUIRKS_MAX_BYTES
                     ? fy_quirks_parse(q, (const char *)map.data, map.size, path.ptr, e)
                     : fy_fail(e, FY_EFORMAT, "%s: %zu bytes, expected at most %u", path.ptr,
                               map.size, FY_QUIRKS_MAX_BYTES);
            fy_map_close(&map);
        }
    }
    fy_str_release(&path);
    return rc;
}

void fy_quirks_release(fy_quirks *q)
{
    free(q->row);
    fy_arena_release(&q->strings);
    *q = (fy_quirks){0};
}

/* --- matching --------------------------------------------------------------------------------- */

static bool matches(const fy_quirk_list *l, const char *text)
{
    for (size_t i = 0; i < l->n; i++) {
        if (fnmatch(l->pattern[i], text, FNM_CASEFOLD) == 0)
            return true;
    }
    return l->n == 0;
}

static bool has_package(const fy_quirk_list *l, const fy_facts *f)
{
    for (size_t i = 0; i < f->n_packages; i++) {
        if (matches(l, f->package[i]))
            return true;
    }
    return l->n == 0;
}

bool fy_quirk_fits(const fy_quirk *q, const fy_facts *f, const fy_need *need)
{
    int64_t android =
        f->android[0] >= '0' && f->android[0] <= '9' ? strtoll(f->android, NULL, 10) : -1;
    int arch = f->htp;
    bool phone = matches(&q->manufacturer, f->manufacturer) && matches(&q->model, f->model) &&
                 matches(&q->soc, f->soc) && matches(&q->platform, f->platform) &&
                 has_package(&q->package, f) &&
                 (q->android_from < 0 || android >= q->android_from) &&
                 (q->android_below < 0 || (android >= 0 && android < q->android_below)) &&
                 (q->htp_below < 0 || (arch > 0 && arch < q->htp_below));
    if (need->dir == NULL)
        return phone;
    return phone && (!q->npu || need->npu) && (double)need->parameters >= q->parameters_above;
}
