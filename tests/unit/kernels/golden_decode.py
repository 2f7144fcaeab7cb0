#!/usr/bin/env python3
"""Makes golden_decode_table.h: stored blocks and the bits of ggml's dequantize_row_*.

The oracle is the shared object of the PyPI package xllamacpp. Blocks are random bytes with the scales named.
Usage: golden_decode.py PATH_OF_XLLAMACPP_SO > golden_decode_table.h
"""
import ctypes
import sys

import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
rng = np.random.default_rng(20260102)

TYPES = {"q4_1": (32, 20, (0, 2)), "q5_0": (32, 22, (0,)), "q5_1": (32, 24, (0, 2)),
         "q4_K": (256, 144, (0, 2)), "q5_K": (256, 176, (0, 2)), "q6_K": (256, 210, (208,))}
SCALES = [("ordinary scales", 0x1e3d, 0x2a11), ("negative scales", 0x9e3d, 0xaa11),
          ("the largest scales", 0x7bff, 0xfbff)]
MORE = [("subnormal scales", 0x0001, 0x83ff), ("zero scales", 0x0000, 0x8000), ("an infinite scale", 0x7c00, 0x3c00)]


def put(values, form, per_line, indent):
    for i, v in enumerate(values):
        end = "" if i + 1 == len(values) else "\n" + indent if i % per_line == per_line - 1 else " "
        print(form.format(v) + ",", end=end)


print("/* Made by golden_decode.py from ggml's dequantizers: do not edit. Values are the bits of f32. */")
for n_elems in (32, 256):
    print(f"static const golden_decode_{n_elems} golden_decodes_{n_elems}[] = {{")
    for name, (n, n_bytes, at) in TYPES.items():
        for what, d, m in SCALES + MORE if n == 32 and n_elems == n else SCALES if n_elems == n else []:
            block = rng.integers(0, 256, n_bytes, dtype=np.uint8)
            for offset, half in zip(at, (d, m)):
                block[offset:offset + 2] = (half & 255, half >> 8)
            y = np.zeros(n, np.float32)
            getattr(ggml, f"dequantize_row_{name}")(ctypes.c_void_p(block.ctypes.data),
                                                    ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(n))
            print(f'    {{"{name}, {what}",\n     FY_{name.upper()},\n     {{', end="")
            put(block, "0x{:02x}", 15, "      ")
            print("},\n     {", end="")
            put(y.view(np.uint32), "0x{:08x}", 8, "      ")
            print("}},")
    print("};")
