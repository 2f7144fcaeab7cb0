#!/usr/bin/env python3
"""Makes TYPE.gguf: cuts of tests/data/tales, quantized by ggml's own encoders; in mixed.gguf each matrix in another type.

The oracle is the shared object of the PyPI package xllamacpp; the files are written by the PyPI package gguf.
Usage: ferry convert tests/data/tales --outtype f32 -o F32.gguf; make.py PATH_OF_XLLAMACPP_SO F32.gguf OUT_DIR
       make.py PATH_OF_XLLAMACPP_SO F32.gguf OUT_DIR whole   the whole model, its vocabulary included: its q4_K and q6_K
                                                             are tales-q4_K.gguf and tales-q6_K.gguf
"""
import ctypes
import os
import sys

import gguf
import numpy as np

ggml = ctypes.CDLL(sys.argv[1])
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
ggml.ggml_quantize_requires_imatrix.restype = ctypes.c_bool
source = gguf.GGUFReader(sys.argv[2])
TENSORS = {t.name: t.data.reshape(t.shape[::-1]).astype(np.float32) for t in source.tensors}
SMALL = dict(width=96, heads=3, layers=2)  # rows of three blocks of 32
LARGE = dict(width=256, heads=8, layers=1)  # rows of a super-block
MIXED = dict(width=256, heads=8, layers=2)
TYPES = {"q4_1": SMALL, "q5_0": SMALL, "q5_1": SMALL, "q4_K": LARGE, "q5_K": LARGE, "q6_K": LARGE, "mixed": MIXED}
# of the matrices of mixed.gguf, in turn
KINDS = ["iq4_nl", "q2_K", "iq3_s", "nvfp4", "mxfp4", "q3_K", "iq4_xs", "iq2_s", "iq3_xxs", "iq2_xs", "iq1_m", "tq1_0", "iq2_xxs",
         "iq1_s", "q1_0", "tq2_0"]
VOCAB, HEAD = 32, 32


def encode(kind, x):
    x = np.ascontiguousarray(x, np.float32)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros((x.shape[0], x.shape[1] // block * size), np.uint8)
    ones = np.ones(x.shape[1], np.float32)  # some types ask for importance
    asks = ggml.ggml_quantize_requires_imatrix(ctypes.c_int(kind))
    ggml.ggml_quantize_chunk(ctypes.c_int(kind), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data),
                             ctypes.c_int64(0), ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]),
                             ctypes.c_void_p(ones.ctypes.data) if asks else None)
    return out


def cut(name, x, width):
    """The first rows and columns: the vocabulary, one head for k and v, the width everywhere else."""
    rows = VOCAB if name in ("token_embd.weight", "output.weight") else HEAD if "attn_k." in name or "attn_v." in name else width
    return x[:rows, :width] if x.ndim == 2 else x[:width]


def keep_keys(writer):
    for field in source.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if len(field.types) > 1 else None)


def own_keys(writer, shape):
    writer.add_context_length(256)
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["width"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)


for name, shape in TYPES.items():
    whole = len(sys.argv) > 4
    kinds = [gguf.GGMLQuantizationType[k.upper()] for k in (KINDS if name == "mixed" else [name])]
    turn = 0
    writer = gguf.GGUFWriter(os.path.join(sys.argv[3], name + ".gguf"), "llama")
    keep_keys(writer) if whole else own_keys(writer, shape)
    tensors = dict(TENSORS, **({"output.weight": TENSORS["token_embd.weight"]} if name == "mixed" and not whole else {}))
    for tensor, x in tensors.items():
        if not whole and tensor.startswith("blk.") and int(tensor.split(".")[1]) >= shape["layers"]:
            continue
        x = x if whole else cut(tensor, x, shape["width"])
        if x.ndim == 2:
            kind = kinds[turn % len(kinds)]
            turn += 1
            writer.add_tensor(tensor, encode(kind, x), raw_dtype=kind)
        else:
            writer.add_tensor(tensor, np.ascontiguousarray(x))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
