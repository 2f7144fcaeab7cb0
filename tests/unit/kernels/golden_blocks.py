#!/usr/bin/env python3
"""Makes golden_blocks_table.h: blocks of 32 values and the bytes of ggml's quantize_row_*_ref; and rows of
256 values, eight of those blocks each, with their bytes in the K types.

The oracle is the shared object of the PyPI package xllamacpp, a build of ggml for plain x86-64 whose encoders
have no fused multiply-add. Usage: golden_blocks.py PATH_OF_XLLAMACPP_SO > golden_blocks_table.h
"""
import ctypes
import sys

import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
rng = np.random.default_rng(20260101)


def encode(kind, x, n_bytes):
    out = np.zeros(n_bytes, np.uint8)
    function = getattr(ggml, f"quantize_row_{kind}_ref")
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(x.size))
    return out


def to_bf16(x):
    u = x.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)


def normal(scale=0.02):
    return (rng.standard_normal(32) * scale).astype(np.float32)


def fused_differs(x):
    """True when one rounding instead of two in x * id + 8.5 gives other q4_0 bytes."""
    m = x[np.argmax(np.abs(x))]
    inverse = np.float32(1) / (m / np.float32(-8))
    twice = (x * inverse + np.float32(8.5)).astype(np.int32)
    once = (x.astype(np.float64) * np.float64(inverse) + 8.5).astype(np.float32).astype(np.int32)
    return (np.minimum(twice, 15) != np.minimum(once, 15)).any()


def spike(at, value):
    x = np.zeros(32, np.float32)
    x[at] = value
    return x


def opposite(first, second, value):
    x = normal()
    x[first], x[second] = value, -value
    return x


def cases():
    for i in range(4):
        yield f"normal values {i}", normal()
    for i in range(4):
        yield f"normal values rounded to bf16 {i}", to_bf16(normal())
    found = 0
    while found < 4:
        x = to_bf16(normal())
        if fused_differs(x):
            found += 1
            yield f"a fused multiply-add would differ {found}", x
    yield "ties of q8_0", np.array([127] + [i + 0.5 for i in range(-16, 15)], np.float32)
    yield "ties of q4_0", np.array([-8] + [i / 2 for i in range(-15, 16)], np.float32)
    below = np.nextafter(np.float32(0.5), np.float32(0))
    yield "just below and above a half", np.array([127, below, -below, 0.5, -0.5] + [0] * 27, np.float32)
    yield "zeros", np.zeros(32, np.float32)
    yield "negative zeros", -np.zeros(32, np.float32)
    yield "all equal", np.full(32, 0.75, np.float32)
    for at, value in ((0, 1.0), (15, -1.0), (16, 1.0), (31, -1.0)):
        yield f"one value {value} at {at}", spike(at, value)
    yield "opposite signs, positive first", opposite(3, 20, 0.5)
    yield "opposite signs, negative first", opposite(3, 20, -0.5)
    yield "opposite signs in the other half", opposite(25, 4, 0.5)
    yield "scale subnormal in f16", normal(2e-6)
    yield "scale zero in f16", normal(1e-9)
    yield "reciprocal of the q8_0 scale overflows", normal(1e-38)
    yield "reciprocal of both scales overflows", normal(1e-39)
    yield "subnormal values", normal(1e-42)
    yield "smallest subnormal", spike(7, np.float32(1e-45))
    yield "largest scale of q4_0", np.clip(normal(2e5), -524000, 524000).astype(np.float32)
    yield "scale infinite in f16", normal(1e9)
    yield "largest values", np.where(np.arange(32) % 3, 1, -1).astype(np.float32) * np.finfo(np.float32).max


def super_blocks(blocks):
    """Names and eight indices of blocks each."""
    index = {name: i for i, (name, _) in enumerate(blocks)}
    usual = [i for i, (_, x) in enumerate(blocks) if 1e-6 < np.abs(x).max() < 1e4]
    tiny = [i for i, (_, x) in enumerate(blocks) if np.abs(x).max() <= 1e-6]
    yield "normal", usual[:8]
    yield "rounded to bf16", usual[4:12]
    for i in range(3):
        yield f"of all kinds {i}", list(rng.choice(usual, 8))
    yield "tiny", list(rng.choice(tiny, 8))
    yield "a usual one among tiny ones", [*rng.choice(tiny, 7), usual[1]]
    yield "zeros", [index["zeros"], index["negative zeros"]] * 4
    yield "one spike", [index["zeros"]] * 5 + [index["one value 1.0 at 16"]] + [index["zeros"]] * 2
    yield "all equal", [index["all equal"]] * 8
    yield "large among usual ones", [index["largest scale of q4_0"], *usual[:7]]


def put(values, form, per_line):
    lines = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    print("     {" + ",\n      ".join(", ".join(form % v for v in line) for line in lines) + "},")


print("/* Made by golden_blocks.py from ggml's reference encoders: do not edit. Values are the bits of f32. */")
print("static const golden_block golden_blocks[] = {")
blocks = [(name, np.ascontiguousarray(x, np.float32)) for name, x in cases()]
for name, x in blocks:
    print(f'    {{"{name}",')
    put(x.view(np.uint32), "0x%08x", 8)
    for kind, n_bytes in (("q8_0", 34), ("q4_0", 18), ("q4_1", 20), ("q5_0", 22), ("q5_1", 24)):
        put(encode(kind, x, n_bytes), "0x%02x", 17)
    print("    },")
print("};\n\nstatic const golden_super golden_supers[] = {")
for name, parts in super_blocks(blocks):
    print(f'    {{"{name}",')
    put(parts, "%d", 8)
    x = np.concatenate([blocks[i][1] for i in parts])
    for kind, n_bytes in (("q4_K", 144), ("q5_K", 176), ("q6_K", 210)):
        put(encode(kind, x, n_bytes), "0x%02x", 17)
    print("    },")
print("};")
