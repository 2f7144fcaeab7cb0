#include "convert/source/name_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/str.h"

enum { MATCH_STEPS = 100000, MATCH_KIB = 1024 };

struct fy_name_regex {
    pcre2_code *code;            /* owned */
    pcre2_match_context *limits; /* owned */
    char shown[FY_QUOTE_BYTES];
};

fy_name_regex *fy_name_regex_new(const char *pattern, fy_err *e)
{
    int why = 0;
    PCRE2_SIZE at = 0;
    fy_name_regex *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fy_nomem(e);
        return NULL;
    }
    fy_quote(r->shown, sizeof r->shown, fy_span_of(pattern));
    r->limits = pcre2_match_context_create(NULL);
    r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &why,
                            &at, NULL);
    if (r->code != NULL && r->limits != NULL) {
        pcre2_set_match_limit(r->limits, MATCH_STEPS);
        pcre2_set_depth_limit(r->limits, MATCH_STEPS);
        pcre2_set_heap_limit(r->limits, MATCH_KIB);
        return r;
    }
    if (r->code != NULL || r->limits == NULL || why == PCRE2_ERROR_HEAP_FAILED) {
        fy_nomem(e);
    } else {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(why, text, sizeof text);
        fy_fail(e, FY_EFORMAT, "'%s' is no regular expression: %s, at byte %zu", r->shown,
                (const char *)text, (size_t)at);
    }
    fy_name_regex_free(r);
    return NULL;
}

void fy_name_regex_free(fy_name_regex *r)
{
    if (r == NULL)
        return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    free(r);
}

int fy_name_regex_in(const fy_name_regex *r, fy_span name, fy_err *e)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (data == NULL)
        return fy_nomem(e);
    int rc = pcre2_match(r->code, (PCRE2_SPTR)name.ptr, name.len, 0, 0, data, r->limits);
    pcre2_match_data_free(data);
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fy_nomem(e);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        return fy_fail(e, FY_EFORMAT,
                       "the regular expression '%s' takes too many steps; write it "
                       "without repetitions inside repetitions",
                       r->shown);
    return 0; /* no match, or a name that is not UTF-8 */
}
