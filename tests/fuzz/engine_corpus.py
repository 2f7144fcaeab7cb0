#!/usr/bin/env python3
"""Makes tests/fuzz/corpus/engine: models as small as their types allow, with sensible weights and with the worst ones.

Needs the PyPI packages gguf and numpy. Usage: tests/fuzz/engine_corpus.py OUT_DIR"""
import os
import sys

import gguf
import numpy as np

VOCAB, LAYERS, HEAD = 8, 2, 8
rng = np.random.default_rng(1)


def keys(w, arch, width, ff, **more):
    for name, value in dict(vocab_size=VOCAB, context_length=64, embedding_length=width, block_count=LAYERS,
                            feed_forward_length=ff, attention__head_count=2, attention__head_count_kv=1,
                            attention__key_length=HEAD, attention__value_length=HEAD, rope__dimension_count=HEAD,
                            **more).items():
        name = f"{arch}.{name.replace('__', '.')}"
        if isinstance(value, bool):
            w.add_bool(name, value)
        elif isinstance(value, int):
            w.add_uint32(name, value)
        else:
            w.add_float32(name, value)


def shapes(width, ff, experts, extra, rank):
    yield "token_embd", (VOCAB, width)
    for i in range(LAYERS):
        block = dict(attn_norm=(width,), attn_q=(2 * HEAD, width), attn_k=(HEAD, width), attn_v=(HEAD, width),
                     attn_output=(width, 2 * HEAD), ffn_norm=(width,), **{name: (n or width,) for name, n in extra})
        if experts:
            block |= dict(ffn_gate_inp=(experts, width), ffn_gate_exps=(experts, ff, width),
                          ffn_up_exps=(experts, ff, width), ffn_down_exps=(experts, width, ff))
        else:
            block |= dict(ffn_gate=(ff, width), ffn_up=(ff, width))
            block |= dict(ffn_down_t=(ff, width), fc1=(rank, width), fc2=(ff, rank)) if rank else dict(ffn_down=(width, ff))
        for name, shape in block.items():
            yield f"blk.{i}.{name}", shape
    yield "output_norm", (width,)


def bytes_of(kind, shape):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    return (*shape[:-1], shape[-1] // block * size)


def model(out, name, arch, kind="F32", width=16, ff=16, experts=0, extra=(), worst=None, rank=0, **more):
    w = gguf.GGUFWriter(os.path.join(out, name), arch)
    keys(w, arch, width, ff, attention__layer_norm_rms_epsilon=1e-5, **{"rope__freq_base": 1e4, **more})
    kind = gguf.GGMLQuantizationType[kind]
    for tensor, shape in shapes(width, ff, experts, extra, rank):
        x = rng.normal(0, 0.3, shape).astype(np.float32) + (len(shape) == 1)
        if worst is not None and tensor in ("token_embd", "blk.0.attn_norm", "blk.1.attn_v", "blk.0.fc2"):
            x.flat[:: 3] = worst
        own = len(shape) > 1 and shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 and "_inp" not in tensor
        if not own or kind == gguf.GGMLQuantizationType.F32:
            w.add_tensor(tensor + ".weight", x)
        elif kind == gguf.GGMLQuantizationType.F16:
            w.add_tensor(tensor + ".weight", x.astype(np.float16))
        else:   # bytes of any meaning: scales that are huge, infinite or no number, every quant
            w.add_tensor(tensor + ".weight", rng.integers(0, 256, bytes_of(kind, shape), np.uint8), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if rank:   # one of PowerInfer's files
        with open(os.path.join(out, name), "r+b") as f:
            f.write(b"PWRI")


out = sys.argv[1]
os.makedirs(out, exist_ok=True)
np.seterr(over="ignore")
model(out, "llama_f32", "llama")
model(out, "llama_f16", "llama", "F16")
for name, value in dict(nan=np.nan, inf=np.inf, huge=3e38, tiny=1e-45).items():
    model(out, f"llama_{name}", "llama", worst=value)
model(out, "llama_fast_rope", "llama", rope__freq_base=1e-38)
model(out, "llama_slow_rope", "llama", rope__freq_base=3e38)
model(out, "llama_wide_logits", "llama", logit_scale=1e-38, embedding_scale=3e38, residual_scale=3e38)
for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
    model(out, "llama_" + kind.lower(), "llama", kind, width=32, ff=32)
for kind in ("Q4_K", "Q5_K", "Q6_K"):
    model(out, "llama_" + kind.lower(), "llama", kind, width=256, ff=8)
POST = (("post_attention_norm", 0), ("post_ffw_norm", 0))
CAPS = dict(attention__sliding_window=2, attn_logit_softcapping=5.0, final_logit_softcapping=12.0)
model(out, "gemma2", "gemma2", extra=POST, **CAPS)
model(out, "gemma2_inf", "gemma2", extra=POST, worst=np.inf, **CAPS)
NORMS = (("attn_q_norm", HEAD), ("attn_k_norm", HEAD))
MOE = dict(expert_count=4, expert_used_count=2, expert_feed_forward_length=16, expert_weights_norm=True)
model(out, "qwen3moe", "qwen3moe", experts=4, extra=NORMS, **MOE)
model(out, "qwen3moe_nan", "qwen3moe", experts=4, extra=NORMS, worst=np.nan, **MOE)
for name, value in dict(powerinfer=None, powerinfer_nan=np.nan, powerinfer_inf=np.inf).items():
    model(out, name, "llama", ff=32, rank=4, worst=value)
model(out, "powerinfer_q4_0", "llama", "Q4_0", width=32, ff=32, rank=32)
