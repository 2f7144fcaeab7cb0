#!/usr/bin/env python3
"""Makes golden_encode_more_table.h: what ggml_quantize_chunk makes of blocks of numbers, a hash for each block.

The oracle is the shared object of the PyPI package xllamacpp. The numbers come from the generator that test_encode_more.c has
too: in turn ordinary ones, ones rounded to bf16, ties, and single ones among zeros.
Usage: golden_encode_more.py PATH_OF_XLLAMACPP_SO > golden_encode_more_table.h
"""
import ctypes
import sys

import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
BLOCKS = 256
TYPES = {"q2_K": (10, 256, 84), "q3_K": (11, 256, 110), "iq4_nl": (20, 32, 18), "mxfp4": (39, 32, 17)}
MASK = (1 << 64) - 1
state = 0


def next_word():  # splitmix64
    global state
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return (z ^ z >> 31) >> 32


def number(kind):
    w = next_word()
    v = np.float32(((w >> 8) - (1 << 23)) * 2.0**-26)
    if kind == 1:
        v = np.uint32(v.view(np.uint32) & 0xFFFF0000).view(np.float32)
    if kind == 2:
        v = np.float32((w % 31 - 15) * 0.5)
    if kind == 3 and w % 16 != 0:
        v = np.float32(0)
    return v


def hash_of(data):  # FNV-1a
    h = 0x811C9DC5
    for b in data.tolist():
        h = (h ^ b) * 0x01000193 & 0xFFFFFFFF
    return h


print("/* Made by golden_encode_more.py from ggml's encoders: do not edit. A hash of the bytes of each block. */")
print("static const golden_encode_more golden_encodes[] = {")
for name, (kind, n, n_bytes) in TYPES.items():
    for weighted in (0, 1):
        print(f"    {{FY_{name.upper()}, {'true' if weighted else 'false'},\n     {{", end="")
        for b in range(BLOCKS):
            x = np.array([number(b % 4) for _ in range(n)], np.float32)
            w = np.array([(next_word() >> 8) * 2.0**-24 if b % 3 else float(next_word() % 2) for _ in range(n)], np.float32)
            out = np.zeros(n_bytes, np.uint8)
            ggml.ggml_quantize_chunk(ctypes.c_int(kind), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data),
                                     ctypes.c_int64(0), ctypes.c_int64(1), ctypes.c_int64(n),
                                     ctypes.c_void_p(w.ctypes.data) if weighted else None)
            print(f"0x{hash_of(out):08x},", end="\n      " if b % 8 == 7 and b + 1 < BLOCKS else " " if b + 1 < BLOCKS else "}},\n")
print("};")
