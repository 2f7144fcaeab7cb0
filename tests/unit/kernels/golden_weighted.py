#!/usr/bin/env python3
"""Makes golden_weighted_table.h: the bytes that ggml's encoders give the blocks of golden_blocks_table.h under an
importance matrix, each block a row of its own.

The oracle is the shared object of the PyPI package xllamacpp, a build of ggml for plain x86-64 whose encoders
have no fused multiply-add. Usage: golden_weighted.py PATH_OF_XLLAMACPP_SO > golden_weighted_table.h
"""
import ctypes
import pathlib
import re
import sys

import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
rng = np.random.default_rng(20260102)
table = pathlib.Path(__file__).with_name("golden_blocks_table.h").read_text()
words = re.findall(r"0x([0-9a-f]{8})\b", table)
blocks = np.array([int(w, 16) for w in words], np.uint32).view(np.float32).reshape(-1, 32)
supers = re.findall(r"\{(\d+(?:,\s*\d+){7})\}", table)
supers = [[int(i) for i in s.split(",")] for s in supers]
TYPES = {"q4_0": (2, 18), "q4_1": (3, 20), "q5_0": (6, 22), "q5_1": (7, 24),
         "q4_k": (12, 144), "q5_k": (13, 176), "q6_k": (14, 210)}

# of one size, of many sizes, and with zeros
importance = np.concatenate([rng.random(96) + 0.5, 10.0 ** rng.uniform(-6, 4, 96), rng.random(64)]).astype(np.float32)
importance[-64::2] = 0


def encode(name, x, weights):
    kind, n_bytes = TYPES[name]
    out = np.zeros(n_bytes, np.uint8)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, out, weights)]
    ggml.ggml_quantize_chunk(kind, pointers[0], pointers[1], ctypes.c_int64(0), ctypes.c_int64(1),
                             ctypes.c_int64(x.size), pointers[2])
    return out


def put(values, form, per_line):
    lines = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    return "{" + ",\n      ".join(", ".join(form % v for v in line) for line in lines) + "},"


print("/* Made by golden_weighted.py from ggml's encoders: do not edit. Values are the bits of f32. */")
print("static const uint32_t golden_importance[256] = {")
print("    " + put(importance.view(np.uint32), "0x%08x", 8)[1:-2] + "};")
print("\nstatic const golden_weighted golden_weighted_blocks[] = {")
for b, x in enumerate(blocks):
    if np.abs(x).max() > 6e4:
        continue  # a minimum that f16 does not have
    weights = np.ascontiguousarray(importance[b % 8 * 32:b % 8 * 32 + 32])
    print(f"    {{{b},")
    for name in ("q4_0", "q4_1", "q5_0", "q5_1"):
        print("     " + put(encode(name, np.ascontiguousarray(x), weights), "0x%02x", 17))
    print("    },")
print("};\n\nstatic const golden_weighted_super golden_weighted_supers[] = {")
for s, parts in enumerate(supers):
    x = np.ascontiguousarray(np.concatenate([blocks[i] for i in parts]))
    print(f"    {{{s},")
    for name in ("q4_k", "q5_k", "q6_k"):
        print("     " + put(encode(name, x, importance), "0x%02x", 17))
    print("    },")
print("};")
