#!/usr/bin/env python3
"""Quantizes a GGUF file with llama.cpp's own llama_model_quantize, to compare bytes and time with `ferry quantize`.

    npm i --ignore-scripts node-llama-cpp @node-llama-cpp/linux-x64        # in DIR
    python3 tests/peer/quantize.py DIR model-f16.gguf theirs.gguf q4_0 [--recipe llama] [--threads 2]

Pure unless a recipe is named. Prints the seconds of the call, flushing the file included. The layout of
llama_model_quantize_params is that of node-llama-cpp 3.22.1, checked against its defaults. ./scripts/test does not run
this; tests/bench/quantize.sh does, with FERRY_PEER=DIR."""
import argparse
import ctypes
import os
import pathlib
import sys
import time

# llama_ftype and what it means to ggml_type; q4_k and q5_k are the mixtures *_K_M
FTYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q4_k": 15, "q5_k": 17,
          "q6_k": 18, "bf16": 32}


class Params(ctypes.Structure):
    """The head of llama_model_quantize_params; the rest is left as its defaults are."""
    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("output_tensor_type", ctypes.c_int32),
                ("token_embedding_type", ctypes.c_int32), ("allow_requantize", ctypes.c_bool),
                ("quantize_output_tensor", ctypes.c_bool), ("only_copy", ctypes.c_bool), ("pure", ctypes.c_bool),
                ("rest", ctypes.c_uint8 * 256)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("source")
    parser.add_argument("out")
    parser.add_argument("type", type=str.lower, choices=FTYPES)
    parser.add_argument("--recipe", choices=["pure", "llama"], default="pure")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--allow-requantize", action="store_true")
    o = parser.parse_args()
    bins = o.peer / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    for name in ["libggml-base*.so", "libggml.*so", "libllama.*so"]:
        lib = ctypes.CDLL(str(next(bins.glob(name))), mode=ctypes.RTLD_GLOBAL)
    lib.llama_model_quantize_default_params.restype = Params
    lib.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Params)]
    lib.llama_model_quantize.restype = ctypes.c_uint32
    lib.llama_backend_init()
    p = lib.llama_model_quantize_default_params()
    found = p.output_tensor_type, p.token_embedding_type, p.allow_requantize, p.quantize_output_tensor, p.pure
    if found[2:] != (False, True, False) or found[0] != found[1]:
        sys.exit(f"error: this release lays out llama_model_quantize_params differently: {found}")
    p.nthread, p.ftype, p.pure, p.allow_requantize = o.threads, FTYPES[o.type], o.recipe == "pure", o.allow_requantize
    begin = time.perf_counter()
    if lib.llama_model_quantize(o.source.encode(), o.out.encode(), ctypes.byref(p)) != 0:
        sys.exit("error: llama.cpp refused")
    with open(o.out, "rb") as file:
        os.fsync(file.fileno())
    print(f"{time.perf_counter() - begin:.3f}")


main()
