/* strftime as Python's datetime.now().strftime() gives it with glibc in the C locale: flags, widths
 * and all; a time without a zone, so %z and %Z are empty, and whole seconds. Its own code, because
 * the C library's follows whatever locale the program has set. */
#include "model/template/template_builtin.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

typedef struct {
    fy_tm *m;
    fy_tbuf *out;
    struct tm t;
} clock_text;

/* One conversion: %[flags][width][EO]letter. */
typedef struct {
    char pad;         /* '-', '_', '0', 0: the letter's own */
    bool upper, swap; /* '^', '#' */
    int64_t width;
    char modifier; /* 'E', 'O' or 0 */
    char letter;
    bool plain; /* nothing stands between '%' and the letter */
} directive;

static int put_padded(clock_text *c, const directive *d, fy_span s, char pad, int64_t width)
{
    if (d->pad == '-')
        width = 0;
    if (d->width > width) {
        width = d->width;
        pad = pad ? pad : ' ';
    }
    if (d->pad)
        pad = d->pad == '0' ? '0' : ' ';
    fy_span fill = {&pad, 1};
    if (pad && width > (int64_t)s.len && fy_tu_repeat(c->m, c->out, fill, (uint64_t)width - s.len))
        return -1;
    return fy_tbuf_span(c->m, c->out, s);
}

static int put_text(clock_text *c, const directive *d, const char *text, size_t len)
{
    char copy[64];
    bool lower = d->letter == 'P' || (d->swap && d->letter == 'p');
    bool upper = d->upper || d->swap;
    if (len > sizeof copy)
        return put_padded(c, d, (fy_span){text, len}, ' ', 0);
    for (size_t i = 0; i < len; i++) {
        unsigned char u = (unsigned char)text[i];
        copy[i] = (char)(lower ? tolower(u) : upper ? toupper(u) : u);
    }
    return put_padded(c, d, (fy_span){copy, len}, ' ', 0);
}

static int put_number(clock_text *c, const directive *d, int64_t n, int width, char pad)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    return put_padded(c, d, fy_span_of(text), pad, width);
}

/* Weeks of the year, counted from the first `first` (0: Sunday). */
static int week(const struct tm *t, int first)
{
    return (t->tm_yday + 7 - (t->tm_wday - first + 7) % 7) / 7;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* ISO 8601: week 1 has the year's first Thursday. */
static int iso_week(const struct tm *t, int64_t *year)
{
    int weekday = (t->tm_wday + 6) % 7; /* Monday 0 */
    int n = (t->tm_yday - weekday + 10) / 7;
    *year = t->tm_year + 1900LL;
    if (n < 1) { /* the last week of the year before */
        *year -= 1;
        int yday = t->tm_yday + 365 + is_leap(*year);
        return (yday - weekday + 10) / 7;
    }
    int length = 365 + is_leap(*year);
    if (n == 53 && t->tm_yday - weekday + 3 >= length) {
        *year += 1;
        return 1;
    }
    return n;
}

static int expand(clock_text *c, fy_span format);

/* A conversion that stands for others. */
static int put_composed(clock_text *c, const directive *d, const char *format)
{
    fy_tbuf text = {0};
    clock_text inner = {c->m, &text, c->t};
    if (expand(&inner, fy_span_of(format)))
        return -1;
    directive plain = *d;
    plain.swap = false;
    return put_text(c, &plain, text.ptr, text.len);
}

static int put_name(clock_text *c, const directive *d, const char *name, bool brief)
{
    return put_text(c, d, name, brief ? 3 : strlen(name));
}

/* 1: not a letter of strftime. */
static int put_directive(clock_text *c, const directive *d)
{
    const struct tm *t = &c->t;
    int64_t year = t->tm_year + 1900LL, iso_year;
    int week_of = iso_week(t, &iso_year), hour12 = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    switch (d->letter) {
    case 'a':
        return put_name(c, d, days[t->tm_wday], true);
    case 'A':
        return put_name(c, d, days[t->tm_wday], false);
    case 'b':
    case 'h':
        return put_name(c, d, months[t->tm_mon], true);
    case 'B':
        return put_name(c, d, months[t->tm_mon], false);
    case 'p':
    case 'P':
        return put_name(c, d, t->tm_hour < 12 ? "AM" : "PM", false);
    case 'c':
        return put_composed(c, d, "%a %b %e %H:%M:%S %Y");
    case 'x':
    case 'D':
        return put_composed(c, d, "%m/%d/%y");
    case 'F':
        return put_composed(c, d, "%Y-%m-%d");
    case 'r':
        return put_composed(c, d, "%I:%M:%S %p");
    case 'R':
        return put_composed(c, d, "%H:%M");
    case 'X':
    case 'T':
        return put_composed(c, d, "%H:%M:%S");
    case 'C':
        return put_number(c, d, year / 100, 2, '0');
    case 'd':
        return put_number(c, d, t->tm_mday, 2, '0');
    case 'e':
        return put_number(c, d, t->tm_mday, 2, ' ');
    case 'g':
        return put_number(c, d, iso_year % 100, 2, '0');
    case 'G':
        return put_number(c, d, iso_year, 4, '0');
    case 'H':
        return put_number(c, d, t->tm_hour, 2, '0');
    case 'I':
        return put_number(c, d, hour12, 2, '0');
    case 'j':
        return put_number(c, d, t->tm_yday + 1, 3, '0');
    case 'k':
        return put_number(c, d, t->tm_hour, 2, ' ');
    case 'l':
        return put_number(c, d, hour12, 2, ' ');
    case 'm':
        return put_number(c, d, t->tm_mon + 1, 2, '0');
    case 'M':
        return put_number(c, d, t->tm_min, 2, '0');
    case 's':
        return put_number(c, d, c->m->clock_s, 1, ' ');
    case 'S':
        return put_number(c, d, t->tm_sec, 2, '0');
    case 'u':
        return put_number(c, d, t->tm_wday ? t->tm_wday : 7, 1, '0');
    case 'U':
        return put_number(c, d, week(t, 0), 2, '0');
    case 'V':
        return put_number(c, d, week_of, 2, '0');
    case 'w':
        return put_number(c, d, t->tm_wday, 1, '0');
    case 'W':
        return put_number(c, d, week(t, 1), 2, '0');
    case 'y':
        return put_number(c, d, year % 100, 2, '0');
    case 'Y':
        return put_number(c, d, year, 4, '0');
    case 'f':
        return put_text(c, d, "000000", 6);
    case 'z':
        return 0;
    case 'Z':
        return put_text(c, d, "", 0);
    case 'n':
        return put_text(c, d, "\n", 1);
    case 't':
        return put_text(c, d, "\t", 1);
    case '%':
        return put_text(c, d, "%", 1);
    default:
        return 1;
    }
}

/* Reads what follows a '%'; false when the format ends first. */
static bool read_directive(const char **p, const char *end, directive *d)
{
    const char *start = *p;
    *d = (directive){0};
    for (; *p < end && **p && strchr("-_0^#+", **p); ++*p) {
        if (**p == '^')
            d->upper = true;
        else if (**p == '#')
            d->swap = true;
        else if (**p != '+')
            d->pad = **p;
    }
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
        d->width = d->width < INT32_MAX ? d->width * 10 + (**p - '0') : d->width;
    if (*p < end && (**p == 'E' || **p == 'O'))
        d->modifier = *(*p)++;
    if (*p == end)
        return false;
    d->letter = *(*p)++;
    d->plain = *p - start == 1;
    return true;
}

/* Modifiers do not go with some letters; %f is Python's own, which takes no flags. */
static bool is_known(const directive *d)
{
    const char *without = d->modifier == 'E' ? "aAbhBDdeFgGVjklSUWwHImM" : "aAcDFxXY";
    if (d->modifier && d->letter && strchr(without, d->letter))
        return false;
    return d->letter != 'f' || d->plain;
}

/* What is no conversion stays as it stands, but at its width. */
static int put_unknown(clock_text *c, const directive *d, fy_span text)
{
    directive as_is = *d;
    as_is.swap = false;
    as_is.letter = 0;
    return put_text(c, &as_is, text.ptr, text.len);
}

static int expand(clock_text *c, fy_span format)
{
    for (const char *p = format.ptr, *end = p + format.len; p < end;) {
        const char *start = p++;
        directive d;
        if (*start != '%' || !read_directive(&p, end, &d)) {
            if (fy_tbuf_add(c->m, c->out, start, (size_t)(p - start)))
                return -1;
            continue;
        }
        int other = is_known(&d) ? put_directive(c, &d) : 1;
        if (other < 0 || (other && put_unknown(c, &d, (fy_span){start, (size_t)(p - start)})))
            return -1;
    }
    return 0;
}

int fy_tv_put_time(fy_tm *m, fy_tbuf *b, fy_span format)
{
    clock_text c = {.m = m, .out = b};
    time_t now = (time_t)m->clock_s;
    if (!(m->clock_utc ? gmtime_r(&now, &c.t) : localtime_r(&now, &c.t)))
        return fy_tm_fail(m, "strftime_now: the clock is beyond the calendar");
    if (format.len && memchr(format.ptr, 0, format.len))
        return fy_tm_fail(m, "embedded null character");
    return fy_tm_charge(m, format.len * 16) ? -1 : expand(&c, format);
}
