/* Rendering: a template, a NUL and the JSON object of its variables. Whatever they are, it ends
 * within its budget; a failure leaves the text as it was; the same input gives the same answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "model/template/template_eval.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS = 100000, BYTES = 1 << 20 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* Sets each member of the object; what is not an object sets nothing. */
static void set_variables(fy_template_vars *v, fy_span json)
{
    fy_span key;
    fy_json *j = fy_json_new(json.ptr, json.len, NULL);
    require(j != NULL);
    if (fy_json_peek(j) == FY_JSON_OBJECT && fy_json_object_begin(j, NULL) == 0) {
        while (fy_json_object_next(j, &key, NULL) == 1) {
            char name[64] = {0};
            memcpy(name, key.ptr, key.len < sizeof name - 1 ? key.len : sizeof name - 1);
            size_t begin = fy_json_offset(j);
            if (fy_json_skip(j, NULL) != 0)
                break;
            fy_span value = {json.ptr + begin, fy_json_offset(j) - begin};
            fy_template_set_json(v, name, value, NULL); /* a number may be too large */
        }
    }
    fy_json_free(j);
}

static int render(const fy_template *t, const fy_template_vars *v, fy_str *out, fy_err *e)
{
    fy_template_budget b = {.steps = STEPS, .bytes = BYTES};
    fy_str_puts(out, "before");
    int rc = fy_template_render_within(t, v, out, &b, e);
    require((rc == 0) == (e->code == FY_OK));
    require(out->len >= 6 && memcmp(out->ptr, "before", 6) == 0 && out->ptr[out->len] == '\0');
    require(rc == 0 || out->len == 6);
    require(b.steps_used <= STEPS && b.bytes_used <= BYTES && out->len <= BYTES + 6);
    require(fy_utf8_valid(e->msg, strlen(e->msg)));
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e[2] = {{0}};
    fy_str out[2] = {{0}};
    const char *text = size > 0 ? (const char *)data : "";
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    size_t n = nul == NULL ? size : (size_t)(nul - text);
    fy_template *t = fy_template_parse((fy_span){text, n}, NULL);
    if (t == NULL)
        return 0;
    fy_template_vars *v = fy_template_vars_new(NULL);
    require(v != NULL);
    fy_template_set_clock(v, 1721995200, true);
    if (nul != NULL)
        set_variables(v, (fy_span){nul + 1, size - n - 1});
    int rc = render(t, v, &out[0], &e[0]);
    if (size == 0 || memmem(data, size, "random", 6) == NULL) /* the filter */
        require(render(t, v, &out[1], &e[1]) == rc && out[0].len == out[1].len &&
                memcmp(out[0].ptr, out[1].ptr, out[0].len) == 0 && strcmp(e[0].msg, e[1].msg) == 0);
    fy_str_release(&out[0]);
    fy_str_release(&out[1]);
    fy_template_vars_free(v);
    fy_template_free(t);
    return 0;
}
