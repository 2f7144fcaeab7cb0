/* The tables of template_case_table.c, all sorted. */
#ifndef FY_TEMPLATE_CASE_TABLE_H
#define FY_TEMPLATE_CASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t first, last;
} fy_tu_range;

/* Full mappings of more than one code point; 0 ends a shorter one. */
typedef struct {
    uint16_t cp, upper[3], title[3];
} fy_tu_special;

extern const fy_tu_range fy_tu_other_lower[];   /* lower case, and not of category Ll */
extern const fy_tu_range fy_tu_other_upper[];   /* upper case, and not Lu */
extern const fy_tu_range fy_tu_other_digit[];   /* digits that are not Nd */
extern const fy_tu_range fy_tu_other_numeric[]; /* numbers that are not Nd, Nl, No */
extern const size_t fy_tu_other_lower_n, fy_tu_other_upper_n, fy_tu_other_digit_n,
    fy_tu_other_numeric_n;
extern const fy_tu_special fy_tu_specials[];
extern const size_t fy_tu_specials_n;

#endif
