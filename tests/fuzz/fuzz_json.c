/* The JSON reader: never reads outside its text; skipping and reading agree on what is valid; a
 * string that was decoded is UTF-8; a value that was skipped is read again from its offset with the
 * same result. */
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int read_value(fy_json *j)
{
    fy_span s;
    double d;
    uint64_t u;
    int64_t i;
    bool b;
    int rc = -1;
    switch (fy_json_peek(j)) {
    case FY_JSON_OBJECT:
        if (fy_json_object_begin(j, NULL) != 0)
            return -1;
        while ((rc = fy_json_object_next(j, &s, NULL)) == 1) {
            require(fy_utf8_valid(s.ptr, s.len));
            if (read_value(j) != 0)
                return -1;
        }
        return rc;
    case FY_JSON_ARRAY:
        if (fy_json_array_begin(j, NULL) != 0)
            return -1;
        while ((rc = fy_json_array_next(j, NULL)) == 1) {
            if (read_value(j) != 0)
                return -1;
        }
        return rc;
    case FY_JSON_STRING:
        rc = fy_json_string(j, &s, &b, NULL);
        require(rc != 0 || fy_utf8_valid(s.ptr, s.len));
        return rc;
    case FY_JSON_NUMBER: /* which reader is chosen by the place, so that all of them see all kinds
                          */
        switch (fy_json_offset(j) % 4) {
        case 0: return fy_json_u64(j, &u, NULL);
        case 1: return fy_json_i64(j, &i, NULL);
        case 2: return fy_json_double(j, &d, NULL);
        default: return fy_json_skip(j, NULL);
        }
    case FY_JSON_TRUE:
    case FY_JSON_FALSE:
        return fy_json_bool(j, &b, NULL);
    case FY_JSON_NULL:
        return fy_json_null(j, NULL);
    case FY_JSON_BAD:
        break;
    }
    return fy_json_skip(j, NULL);
}

static int skip_all(const void *data, size_t size, fy_err *e)
{
    fy_json *j = fy_json_new(data, size, e);
    if (j == NULL)
        return -1;
    int rc = fy_json_skip(j, e) == 0 && fy_json_end(j, e) == 0 ? 0 : -1;
    fy_json_free(j);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    bool valid = skip_all(data, size, &e) == 0;
    require(valid == (e.code == FY_OK));
    require(fy_utf8_valid(e.msg, sizeof e.msg)); /* the message shows pieces of the input */
    fy_json *j = fy_json_new(data, size, NULL);
    if (j == NULL)
        return 0;
    size_t at = fy_json_offset(j);
    bool read = read_value(j) == 0 && fy_json_end(j, NULL) == 0;
    fy_json_free(j);
    require(valid || !read);
    require(!valid || skip_all(data + at, size - at, NULL) == 0);
    return 0;
}
