#include "convert/tokenizer/generation_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "convert/tokenizer/tokenizer_config.h"

#define NAME "generation_config.json"

/* --- reading ---------------------------------------------------------------------------------- */

/* How long a word at p is that Python writes for a number and JSON does not know; 0: none is. */
static size_t no_number(const char *p, size_t n)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    for (int i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if (n >= len && memcmp(p, words[i], len) == 0)
            return len;
    }
    return 0;
}

/* The text with null for such words outside of texts. */
static void put_plain(const char *p, size_t n, fy_str *out)
{
    bool in_text = false;
    for (size_t i = 0; i < n;) {
        size_t word = in_text ? 0 : no_number(p + i, n - i);
        size_t len = word > 0 ? word : in_text && p[i] == '\\' && i + 1 < n ? 2 : 1;
        if (word > 0)
            fy_str_puts(out, "null");
        else
            fy_str_add(out, p + i, len);
        in_text ^= len == 1 && p[i] == '"';
        i += len;
    }
}

/* A text that is wrong in other ways, too, is reported as it was written. */
static json_t *read_tree(const fy_map *m, const char *dir, fy_err *e)
{
    fy_err strict = {0}, again = {0};
    fy_str plain = {0};
    json_t *tree = fy_json_tree(m->data, m->size, &strict);
    if (tree != NULL)
        return tree;
    if (strict.code == FY_EFORMAT && m->size <= FY_JSON_TREE_MAX) {
        put_plain((const char *)m->data, m->size, &plain);
        if (plain.oom)
            fy_nomem(&again);
        else
            tree = fy_json_tree(fy_str_z(&plain), plain.len, &again);
        fy_str_release(&plain);
    }
    if (tree != NULL)
        fy_log(FY_LOG_WARN, "%s/" NAME ": has NaN or Infinity, read as null", dir);
    else if (again.code == FY_ENOMEM)
        fy_nomem(e);
    else
        fy_fail(e, strict.code, "%s", strict.msg);
    return tree;
}

int fy_generation_config_read(const char *dir, json_t **out, fy_err *e)
{
    fy_map m = {0};
    *out = NULL;
    int rc = fy_tokenizer_config_map(dir, NAME, &m, e);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    json_t *tree = read_tree(&m, dir, e);
    if (tree == NULL)
        rc = fy_ctx(e, "%s/" NAME, dir);
    else if (!json_is_object(tree))
        rc = fy_fail(e, FY_EFORMAT, "%s/" NAME ": no JSON object", dir);
    if (rc == 0)
        *out = tree;
    else
        json_decref(tree);
    fy_map_close(&m);
    return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* NAN: the file has no such value, or one that cannot be used. */
static double value_of(const json_t *config, const fy_hint_row *r)
{
    const json_t *v = json_object_get(config, r->config);
    if (v == NULL || json_is_null(v))
        return NAN;
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (x >= r->min && x <= r->max && (!r->whole || x == floor(x)))
        return x;
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT), shown[FY_QUOTE_BYTES];
    fy_log(FY_LOG_WARN, NAME ": %s is %s, expected %s from %g to %g; left out", r->config,
           fy_quote(shown, sizeof shown, fy_span_of(text != NULL ? text : "?")),
           r->whole ? "an integer" : "a number", r->min, r->max);
    free(text);
    return NAN;
}

int fy_generation_config_write(const json_t *config, fy_gguf_writer *w, fy_err *e)
{
    bool greedy = json_is_false(json_object_get(config, "do_sample"));
    for (int h = 0; h < FY_HINTS; h++) {
        const fy_hint_row *r = &fy_hints[h];
        if (r->config == NULL)
            continue;
        double x = greedy && h == FY_HINT_TEMP ? 0 : value_of(config, r);
        if (isnan(x))
            continue;
        int rc = r->whole ? fy_gguf_add_i32(w, r->gguf, (int32_t)x, e)
                          : fy_gguf_add_f32(w, r->gguf, (float)x, e);
        if (rc != 0)
            return -1;
    }
    return 0;
}
