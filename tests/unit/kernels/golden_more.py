#!/usr/bin/env python3
"""Makes golden_more_table.h: what ggml's dequantize_row_* makes of blocks of random bytes, a hash for each block.

The oracle is the shared object of the PyPI package xllamacpp. The bytes come from the generator that test_decode_golden.c has
too; the f16 scales of every other block are of everyday size, all others are any bits, infinity and NaN among them.
Usage: golden_more.py PATH_OF_XLLAMACPP_SO > golden_more_table.h
"""
import ctypes
import sys

import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
BLOCKS = 256
TYPES = {"q2_K": (256, 84, (80, 82)), "q3_K": (256, 110, (108,)), "iq4_nl": (32, 18, (0,)), "iq4_xs": (256, 136, (0,)),
         "mxfp4": (32, 17, ()), "nvfp4": (64, 36, ()), "q1_0": (128, 18, (0,)), "q2_0": (64, 18, (0,)), "tq1_0": (256, 54, (52,)),
         "tq2_0": (256, 66, (64,)), "iq1_s": (256, 50, (0,)), "iq1_m": (256, 56, ()), "iq2_xxs": (256, 66, (0,)),
         "iq2_xs": (256, 74, (0,)), "iq2_s": (256, 82, (0,)), "iq3_xxs": (256, 98, (0,)), "iq3_s": (256, 110, (0,))}
MASK = (1 << 64) - 1
state = 0


def next_byte():  # splitmix64
    global state
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return (z ^ z >> 31) >> 56


def hash_of(y):  # FNV-1a by words; every NaN is one
    h = 0x811C9DC5
    for w in np.where(np.isnan(y), np.uint32(0x7FC00000), y.view(np.uint32)).tolist():
        h = (h ^ w) * 0x01000193 & 0xFFFFFFFF
    return h


print("/* Made by golden_more.py from ggml's dequantizers: do not edit. A hash of the values of each block. */")
print("static const golden_more golden_mores[] = {")
for name, (n, n_bytes, halves) in TYPES.items():
    scales = ", ".join(str(at) for at in halves)
    print(f"    {{FY_{name.upper()}, {len(halves)}, {{{scales or 0}}},\n     {{", end="")
    for b in range(BLOCKS):
        block = np.array([next_byte() for _ in range(n_bytes)], np.uint8)
        for at in halves if b % 2 == 0 else ():
            block[at + 1] = block[at + 1] & 0x83 | 0x20
        y = np.zeros(n, np.float32)
        getattr(ggml, f"dequantize_row_{name}")(ctypes.c_void_p(block.ctypes.data), ctypes.c_void_p(y.ctypes.data),
                                                ctypes.c_int64(n))
        print(f"0x{hash_of(y):08x},", end="\n      " if b % 8 == 7 and b + 1 < BLOCKS else " " if b + 1 < BLOCKS else "}},\n")
print("};")
