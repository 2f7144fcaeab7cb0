#!/usr/bin/env python3
"""Writes template_case_table.c: what Python's str knows of Unicode beyond categories and simple case
mappings (those come from utf8proc). Run with CPython: python3 template_case_table.py > template_case_table.c
"""
import unicodedata


def ranges(test):
    found = []
    for cp in range(0x110000):
        if 0xD800 <= cp < 0xE000 or not test(chr(cp), unicodedata.category(chr(cp))):
            continue
        if found and found[-1][1] + 1 == cp:
            found[-1][1] = cp
        else:
            found.append([cp, cp])
    return found


def put_ranges(name, test):
    rows = ["{0x%04X, 0x%04X}" % tuple(r) for r in ranges(test)]
    print("\nconst fy_tu_range fy_tu_%s[] = {" % name)
    for i in range(0, len(rows), 5):
        print("    " + ", ".join(rows[i:i + 5]) + ",")
    print("};\nconst size_t fy_tu_%s_n = sizeof fy_tu_%s / sizeof *fy_tu_%s;" % (name, name, name))


def units(s):
    return "{" + ", ".join("0x%04X" % ord(c) for c in s) + "}"


print("""/* Made by template_case_table.py with Unicode %s; do not edit. */
#include "model/template/template_case_table.h"

/* clang-format off */""" % unicodedata.unidata_version)
put_ranges("other_lower", lambda c, cat: c.islower() and cat != "Ll")
put_ranges("other_upper", lambda c, cat: c.isupper() and cat != "Lu")
put_ranges("other_digit", lambda c, cat: c.isdigit() and cat != "Nd")
put_ranges("other_numeric", lambda c, cat: c.isnumeric() and cat[0] != "N")
print("\nconst fy_tu_special fy_tu_specials[] = {")
for cp in range(0x110000):
    c = chr(cp)
    if len(c.upper()) > 1 or len(c.title()) > 1:
        print("    {0x%04X, %s, %s}," % (cp, units(c.upper()), units(c.title())))
print("};\nconst size_t fy_tu_specials_n = sizeof fy_tu_specials / sizeof *fy_tu_specials;")
