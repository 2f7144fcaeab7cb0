/* Methods of str that change its form or say what it is made of. Of markup they give markup. */
#include "model/template/template_builtin.h"

#define METHOD(name) static int name(fy_tm *m, const fy_tv *self, const fy_targs *a, fy_tv *out)

/* --- case ---------------------------------------------------------------------------------------
 */

static int in_case(fy_tm *m, const fy_tv *self, fy_tu_case how, fy_tv *out)
{
    fy_tbuf b = {0};
    if (fy_tu_put_case(m, &b, self->str, how))
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

#define CASE_METHOD(name, how)             \
    METHOD(name)                           \
    {                                      \
        (void)a;                           \
        return in_case(m, self, how, out); \
    }

CASE_METHOD(str_upper, FY_TU_UPPER)
CASE_METHOD(str_lower, FY_TU_LOWER)
CASE_METHOD(str_casefold, FY_TU_FOLD)
CASE_METHOD(str_capitalize, FY_TU_CAPITALIZE)
CASE_METHOD(str_title, FY_TU_TITLE)
CASE_METHOD(str_swapcase, FY_TU_SWAP)

/* --- questions ----------------------------------------------------------------------------------
 */

static bool is_alnum(uint32_t cp)
{
    return fy_tu_is_alpha(cp) || fy_tu_is_digit(cp) || fy_tu_is_numeric(cp);
}

static bool is_ascii(uint32_t cp)
{
    return cp < 0x80;
}

static int all_are(fy_tm *m, const fy_tv *self, bool (*is)(uint32_t), bool of_empty, fy_tv *out)
{
    bool yes = self->str.len > 0 || of_empty;
    if (fy_tm_charge(m, self->str.len))
        return -1;
    for (const char *p = self->str.ptr, *end = p + self->str.len; yes && p < end;)
        yes = is(fy_tu_next(&p, end));
    *out = fy_tv_bool(yes);
    return 0;
}

#define IS_METHOD(name, is, of_empty)               \
    METHOD(name)                                    \
    {                                               \
        (void)a;                                    \
        return all_are(m, self, is, of_empty, out); \
    }

IS_METHOD(str_isalnum, is_alnum, false)
IS_METHOD(str_isalpha, fy_tu_is_alpha, false)
IS_METHOD(str_isascii, is_ascii, true)
IS_METHOD(str_isdecimal, fy_tu_is_decimal, false)
IS_METHOD(str_isdigit, fy_tu_is_digit, false)
IS_METHOD(str_isnumeric, fy_tu_is_numeric, false)
IS_METHOD(str_isprintable, fy_tu_is_printable, true)
IS_METHOD(str_isspace, fy_tu_is_space, false)

METHOD(str_islower)
{
    (void)a;
    *out = fy_tv_bool(fy_tu_all_cased(self->str, false));
    return fy_tm_charge(m, self->str.len);
}

METHOD(str_isupper)
{
    (void)a;
    *out = fy_tv_bool(fy_tu_all_cased(self->str, true));
    return fy_tm_charge(m, self->str.len);
}

METHOD(str_istitle)
{
    (void)a;
    bool after_cased = false, cased = false, yes = true;
    for (const char *p = self->str.ptr, *end = p + self->str.len; yes && p < end;) {
        uint32_t cp = fy_tu_next(&p, end);
        bool upper = fy_tu_is_upper(cp) || fy_tu_is_title(cp), lower = fy_tu_is_lower(cp);
        yes = !(upper && after_cased) && !(!upper && lower && !after_cased);
        after_cased = upper || lower;
        cased = cased || after_cased;
    }
    *out = fy_tv_bool(yes && cased);
    return fy_tm_charge(m, self->str.len);
}

/* --- padding ------------------------------------------------------------------------------------
 */

/* The arguments of center, ljust and rjust: a width and one character, in markup escaped first. */
static int pad_arguments(fy_tm *m, const fy_tv *self, const fy_targs *a, int64_t *width,
                         fy_span *fill)
{
    fy_tbuf b = {0};
    *fill = FY_SPAN(" ");
    if (fy_tv_index(m, &a->arg[0], width))
        return -1;
    if (a->n == 1)
        return 0;
    if (!fy_tv_is(&a->arg[1], FY_TV_STR))
        return fy_tm_fail(m, "The fill character must be a unicode character, not %s",
                          fy_tv_type_name(&a->arg[1]));
    *fill = a->arg[1].str;
    if (self->markup && !a->arg[1].markup) {
        if (fy_tu_put_escaped(m, &b, *fill))
            return -1;
        *fill = fy_tbuf_value(&b, false).str;
    }
    if (fy_tu_length(*fill) != 1)
        return fy_tm_fail(m, "The fill character must be exactly one character long");
    return 0;
}

METHOD(str_center)
{
    int64_t width;
    fy_span fill;
    fy_tbuf b = {0};
    if (pad_arguments(m, self, a, &width, &fill) || fy_tu_center(m, &b, self->str, width, fill))
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

static int justify(fy_tm *m, const fy_tv *self, const fy_targs *a, bool right, fy_tv *out)
{
    int64_t width;
    fy_span fill;
    fy_tbuf b = {0};
    if (pad_arguments(m, self, a, &width, &fill) || fy_tm_charge(m, self->str.len))
        return -1;
    int64_t n = (int64_t)fy_tu_length(self->str);
    uint64_t pad = width > n ? (uint64_t)(width - n) : 0;
    if (fy_tu_pad(m, &b, self->str, right ? pad : 0, right ? 0 : pad, fill))
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

METHOD(str_ljust)
{
    return justify(m, self, a, false, out);
}

METHOD(str_rjust)
{
    return justify(m, self, a, true, out);
}

METHOD(str_zfill)
{
    int64_t width;
    fy_tbuf b = {0};
    fy_span s = self->str;
    if (fy_tv_index(m, &a->arg[0], &width) || fy_tm_charge(m, s.len))
        return -1;
    int64_t n = (int64_t)fy_tu_length(s);
    uint64_t pad = width > n ? (uint64_t)(width - n) : 0;
    size_t sign = s.len && (s.ptr[0] == '-' || s.ptr[0] == '+');
    if (fy_tbuf_add(m, &b, s.ptr, sign) || fy_tu_repeat(m, &b, FY_SPAN("0"), pad) ||
        fy_tbuf_add(m, &b, s.ptr + sign, s.len - sign))
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

METHOD(str_expandtabs)
{
    static const char *const names[] = {"tabsize"};
    fy_tv arg;
    bool given;
    int64_t size = 8, column = 0;
    fy_tbuf b = {0};
    if (fy_targs_bind(m, "expandtabs", a, names, 1, 0, &arg, &given) ||
        (given && fy_tv_index(m, &arg, &size)) || fy_tm_charge(m, self->str.len))
        return -1;
    for (const char *p = self->str.ptr, *end = p + self->str.len; p < end;) {
        const char *at = p;
        uint32_t cp = fy_tu_next(&p, end);
        if (cp != '\t') {
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            if (fy_tbuf_add(m, &b, at, (size_t)(p - at)))
                return -1;
            continue;
        }
        uint64_t blanks = size > 0 ? (uint64_t)(size - column % size) : 0;
        if (fy_tu_repeat(m, &b, FY_SPAN(" "), blanks))
            return -1;
        column += (int64_t)blanks;
    }
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

/* --- ends ---------------------------------------------------------------------------------------
 */

static int strip(fy_tm *m, const fy_tv *self, const fy_targs *a, int ends, fy_tv *out)
{
    fy_span chars, inner;
    bool given = a->n && !fy_tv_is(&a->arg[0], FY_TV_NONE);
    if ((given && fy_tv_text(m, "strip", &a->arg[0], &chars)) ||
        fy_tu_strip(m, self->str, given ? &chars : NULL, ends, &inner))
        return -1;
    *out = fy_tv_view(inner);
    out->markup = self->markup;
    return 0;
}

METHOD(str_strip)
{
    return strip(m, self, a, FY_TU_STRIP_LEFT | FY_TU_STRIP_RIGHT, out);
}

METHOD(str_lstrip)
{
    return strip(m, self, a, FY_TU_STRIP_LEFT, out);
}

METHOD(str_rstrip)
{
    return strip(m, self, a, FY_TU_STRIP_RIGHT, out);
}

static bool begins_with(fy_span s, fy_span t)
{
    return t.len <= s.len && fy_span_eq((fy_span){s.ptr, t.len}, t);
}

static bool ends_with(fy_span s, fy_span t)
{
    return t.len <= s.len && fy_span_eq((fy_span){s.ptr + s.len - t.len, t.len}, t);
}

METHOD(str_removeprefix)
{
    fy_span s;
    if (fy_tv_text(m, "removeprefix()", &a->arg[0], &s) || fy_tm_charge(m, s.len))
        return -1;
    *out = *self;
    if (begins_with(self->str, s))
        out->str = (fy_span){self->str.ptr + s.len, self->str.len - s.len};
    return 0;
}

METHOD(str_removesuffix)
{
    fy_span s;
    if (fy_tv_text(m, "removesuffix()", &a->arg[0], &s) || fy_tm_charge(m, s.len))
        return -1;
    *out = *self;
    if (ends_with(self->str, s))
        out->str.len -= s.len;
    return 0;
}

METHOD(str_replace)
{
    fy_span old, with;
    int64_t max = -1;
    fy_tbuf b = {0}, escaped = {0};
    if (fy_tv_text(m, "replace()", &a->arg[0], &old) ||
        (a->n == 3 && fy_tv_index(m, &a->arg[2], &max)))
        return -1;
    fy_tv to = a->arg[1];
    if (self->markup &&
        (fy_tv_soft_str(m, &to, &to) || (!to.markup && fy_tu_put_escaped(m, &escaped, to.str))))
        return -1;
    if (self->markup && !to.markup)
        to = fy_tbuf_value(&escaped, true);
    if (fy_tv_text(m, "replace()", &to, &with) || fy_tu_replace(m, &b, self->str, old, with, max))
        return -1;
    *out = fy_tbuf_value(&b, self->markup);
    return 0;
}

METHOD(str_format)
{
    return fy_tv_format(m, self, a, out);
}

/* Of markup only. */
METHOD(str_striptags)
{
    (void)a;
    return fy_tv_striptags(m, self->str, out);
}

const fy_tmethod fy_tmethods_form[] = {
    {"upper", 0, 0, str_upper},
    {"lower", 0, 0, str_lower},
    {"casefold", 0, 0, str_casefold},
    {"capitalize", 0, 0, str_capitalize},
    {"title", 0, 0, str_title},
    {"swapcase", 0, 0, str_swapcase},
    {"isalnum", 0, 0, str_isalnum},
    {"isalpha", 0, 0, str_isalpha},
    {"isascii", 0, 0, str_isascii},
    {"isdecimal", 0, 0, str_isdecimal},
    {"isdigit", 0, 0, str_isdigit},
    {"isnumeric", 0, 0, str_isnumeric},
    {"isprintable", 0, 0, str_isprintable},
    {"isspace", 0, 0, str_isspace},
    {"islower", 0, 0, str_islower},
    {"isupper", 0, 0, str_isupper},
    {"istitle", 0, 0, str_istitle},
    {"center", 1, 2, str_center},
    {"ljust", 1, 2, str_ljust},
    {"rjust", 1, 2, str_rjust},
    {"zfill", 1, 1, str_zfill},
    {"expandtabs", FY_TMETHOD_OWN, 0, str_expandtabs},
    {"strip", 0, 1, str_strip},
    {"lstrip", 0, 1, str_lstrip},
    {"rstrip", 0, 1, str_rstrip},
    {"removeprefix", 1, 1, str_removeprefix},
    {"removesuffix", 1, 1, str_removesuffix},
    {"replace", 2, 3, str_replace},
    {"format", FY_TMETHOD_OWN, 0, str_format},
    {"striptags", 0, 0, str_striptags},
    {NULL, 0, 0, NULL},
};
