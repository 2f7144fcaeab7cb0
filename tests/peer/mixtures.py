#!/usr/bin/env python3
"""Compares `ferry quantize` with llama.cpp's llama_model_quantize on small random models of many shapes: types and bytes
of every tensor, pure and with its mixtures, by random options, requantized, and with an importance matrix.

    npm i --ignore-scripts node-llama-cpp @node-llama-cpp/linux-x64        # in DIR
    pip install gguf numpy
    python3 tests/peer/mixtures.py DIR build/ferry [MODEL...]        # the names are in MODELS below

Prints what differs; exit status 1 when something does. The layout of llama_model_quantize_params is that of node-llama-cpp
3.22.1, checked against its defaults. No test runs this: it needs the network once."""
import ctypes as c
import pathlib
import random
import subprocess
import sys
import tempfile

import gguf
import numpy as np

FTYPES = {"q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q4_K": 15, "q5_K": 17, "q6_K": 18, "q2_K": 10, "q3_K": 12, "iq4_nl": 25}
MIXTURES = {"Q4_K_M": 15, "Q4_K_S": 14, "Q5_K_M": 17, "Q5_K_S": 16, "Q6_K": 18, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
            "Q3_K_L": 13, "MXFP4_MOE": 38}  # by llama-quantize's own names
TYPES = {"f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_K": 12, "q5_K": 13, "q6_K": 14, "q2_K": 10,
         "q3_K": 11, "iq4_nl": 20, "mxfp4": 39}
# name: architecture, layers, heads of keys, experts, tied, attn_qkv in one, row length, that of ffn_down
MODELS = {
    "llama": ("llama", 19, 1, 0, False, False, 256, 256), "llama, 7 layers": ("llama", 7, 1, 0, False, False, 256, 256),
    "llama 70B": ("llama", 80, 1, 0, False, False, 256, 256), "llama 65B": ("llama", 80, 8, 0, False, False, 256, 256),
    "qwen2": ("qwen2", 24, 1, 0, True, False, 256, 256), "qwen2 72B": ("qwen2", 80, 8, 0, False, False, 256, 256),
    "olmo": ("olmo", 80, 8, 0, False, False, 256, 256), "falcon": ("falcon", 32, 1, 0, False, True, 256, 256),
    "falcon, tied": ("falcon", 16, 1, 0, True, True, 256, 256), "gemma": ("gemma", 18, 1, 0, True, False, 256, 256),
    "gemma2": ("gemma2", 26, 1, 0, True, False, 256, 256), "phi3": ("phi3", 32, 1, 0, False, True, 256, 256),
    "mixtral": ("llama", 16, 1, 8, False, False, 256, 256), "4 experts": ("llama", 17, 1, 4, False, False, 256, 256),
    "qwen3moe": ("qwen3moe", 12, 1, 16, False, False, 256, 256), "narrow down": ("llama", 16, 1, 0, False, False, 256, 96),
    "narrow": ("llama", 16, 1, 0, False, False, 96, 96), "long rows": ("llama", 1, 1, 3, False, False, 9216, 20480),
}


class Imatrix(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", c.c_void_p), ("size", c.c_size_t)]


class Override(c.Structure):
    _fields_ = [("pattern", c.c_char_p), ("type", c.c_int)]


class Params(c.Structure):
    _fields_ = [(n, c.c_int32) for n in ("nthread", "ftype", "output", "embedding")] + [
        (n, c.c_bool) for n in ("allow", "quantize_output", "only_copy", "pure", "keep_split", "dry_run")] + [
        (n, c.c_void_p) for n in ("imatrix", "kv", "overrides", "prune")] + [("rest", c.c_uint8 * 256)]


def shapes(model):
    _, n_layer, _, n_expert, tied, qkv, row, down = MODELS[model]
    t = {"token_embd.weight": (48, row), "output_norm.weight": (row,)}
    if not tied:
        t["output.weight"] = (48, row)
    for b in (f"blk.{i}." for i in range(n_layer)):
        t[b + "attn_norm.weight"] = (row,)
        for k in ["qkv"] if qkv else "qkv":
            t[b + f"attn_{k}.weight"] = (4, row)
        t[b + "attn_output.weight"] = (4, row)
        if n_expert:
            t[b + "ffn_gate_inp.weight"] = (n_expert, row)
        for k, width in ("gate", row), ("up", row), ("down", down):
            t[b + f"ffn_{k}{'_exps' if n_expert else ''}.weight"] = (n_expert, 2, width) if n_expert else (2, width)
    return t


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make(path, model, rng):
    arch, n_layer, n_kv, n_expert = MODELS[model][:4]
    w = gguf.GGUFWriter(path, arch)
    numbers = {"block_count": n_layer, "context_length": 128, "embedding_length": 256, "feed_forward_length": 256,
               "attention.head_count": 8, "attention.head_count_kv": n_kv, "rope.dimension_count": 32, "vocab_size": 48,
               "attention.sliding_window": 64, "expert_feed_forward_length": 256}
    if n_expert:
        numbers.update({"expert_count": n_expert, "expert_used_count": 2})
    for key, n in numbers.items():
        w.add_uint32(f"{arch}.{key}", n)
    w.add_layer_norm_eps(1e-5)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("llama")
    w.add_token_list(["a"] * 48)
    w.add_token_scores([0.0] * 48)
    w.add_token_types([1] * 48)
    for name, shape in shapes(model).items():
        w.add_tensor(name, rng.standard_normal(shape).astype(np.float16 if len(shape) > 1 else np.float32))
    finish(w)


def make_imatrix(path, model, rng):
    """Writes one and returns its means; one of the experts was never chosen."""
    w = gguf.GGUFWriter(path, "none")
    w.kv_data[0].clear()
    w.add_string("general.type", "imatrix")
    w.add_array("imatrix.datasets", ["tales.txt"])
    w.add_uint32("imatrix.chunk_count", 7)
    w.add_uint32("imatrix.chunk_size", 512)
    means = {}
    for name, shape in shapes(model).items():
        if len(shape) < 2 or not name.startswith("blk.") or "ffn_gate_inp" in name:
            continue
        n = shape[0] if len(shape) == 3 else 1
        sums = (rng.random((n, shape[-1])) ** 3 * 100).astype(np.float32)
        counts = rng.integers(1, 100, (n, 1)).astype(np.float32)
        if n > 1:
            counts[n // 2] = 0
        w.add_tensor(name + ".in_sum2", sums)
        w.add_tensor(name + ".counts", counts)
        means[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.float32(1)).astype(np.float32)
    finish(w)
    return means


class Peer:
    def __init__(self, place):
        bins = place / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
        for name in ["libggml-base*.so", "libggml.*so", "libllama.*so"]:
            self.lib = c.CDLL(str(next(bins.glob(name))), mode=c.RTLD_GLOBAL)
        self.lib.llama_model_quantize_default_params.restype = Params
        self.lib.llama_model_quantize.argtypes = [c.c_char_p, c.c_char_p, c.POINTER(Params)]
        p = self.lib.llama_model_quantize_default_params()
        if (p.allow, p.quantize_output, p.pure, p.imatrix, p.prune) != (False, True, False, None, None):
            sys.exit("error: this release lays out llama_model_quantize_params differently")
        self.silent = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)(lambda *_: None)
        self.lib.llama_log_set(self.silent, None)
        self.lib.llama_backend_init()

    def quantize(self, source, out, kind, o, means):
        p = self.lib.llama_model_quantize_default_params()
        p.nthread, p.ftype, p.pure, p.allow = 2, {**FTYPES, **MIXTURES}[kind], o.get("recipe") == "pure", "allow" in o
        if "output" in o:
            p.output = TYPES[o["output"]]
        if "embedding" in o:
            p.embedding = TYPES[o["embedding"]]
        rules = (Override * (len(o.get("rules", [])) + 1))(*[(r.encode(), TYPES[t]) for r, t in o.get("rules", [])])
        p.overrides = c.cast(rules, c.c_void_p) if o.get("rules") else None
        if means:
            entries = (Imatrix * (len(means) + 1))(*[(n.encode(), m.ctypes.data, m.size) for n, m in means.items()])
            p.imatrix = c.cast(entries, c.c_void_p)
        return self.lib.llama_model_quantize(str(source).encode(), str(out).encode(), c.byref(p)) == 0


def tensors(path):
    return {t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(path).tensors}


def words(o):
    out = (["--recipe", o["recipe"]] if "recipe" in o else []) + (["--allow-requantize"] if "allow" in o else [])
    out += ["--output-tensor-type", o["output"]] if "output" in o else []
    out += ["--token-embedding-type", o["embedding"]] if "embedding" in o else []
    return out + [w for r, t in o.get("rules", []) for w in ("--tensor-type", f"{r}={t}")]


def random_options():
    patterns = ["attn_v", "ffn_down", r"blk\.[0-3]\.", r"attn_[qk]\.", "ffn_(up|gate)", "output", "blk.1[0-9].attn_v"]
    o = {"recipe": random.choice(["llama", "llama", "pure"]),
         "rules": [(random.choice(patterns), random.choice(list(TYPES))) for _ in range(random.randint(0, 2))]}
    for key in "output", "embedding":
        if random.random() < 0.6:
            o[key] = random.choice(list(TYPES))
    return o


def main():
    place, ferry = pathlib.Path(sys.argv[1]), sys.argv[2]
    peer, rng, count = Peer(place), np.random.default_rng(1), [0, 0, 0]
    random.seed(1)

    def compare(model, source, kind, o, imatrix=None, means=None):
        ours, theirs = source.parent / "ours.gguf", source.parent / "theirs.gguf"
        extra = ["--imatrix", imatrix] if imatrix else []
        run = subprocess.run([ferry, "quantize", source, ours, kind, "-q", *words(o), *extra], capture_output=True, text=True)
        if run.returncode == 2 and len(o) > 1:
            count[2] += 1  # an option without effect, which ferry refuses
            return
        if run.returncode or not peer.quantize(source, theirs, kind, o, means):
            print(f"{model}, {kind}, {words(o)}: refused: {run.stderr}")
            count[1] += 1
            return
        a, b = tensors(ours), tensors(theirs)
        different = [n for n in b if a[n] != b[n]]
        count[0] += len(b)
        count[1] += len(different)
        if different:
            print(f"{model}, {kind}, {words(o)}{', imatrix' if imatrix else ''}: {len(different)} differ, the first "
                  f"{different[0]}: {a[different[0]][0]}, theirs {b[different[0]][0]}")

    with tempfile.TemporaryDirectory() as tmp:
        source, imatrix, again = (pathlib.Path(tmp) / n for n in ("source.gguf", "imatrix.gguf", "q8_0.gguf"))
        for model in sys.argv[3:] or MODELS:
            make(source, model, rng)
            means = make_imatrix(imatrix, model, rng)
            for kind in FTYPES:
                for recipe in "pure", "llama":
                    compare(model, source, kind, {"recipe": recipe})
                    compare(model, source, kind, {"recipe": recipe}, imatrix, means)
            for kind in MIXTURES:
                compare(model, source, kind, {})
                compare(model, source, kind, {}, imatrix, means)
            # llama.cpp aborts where an option's type does not divide the rows; ferry takes the next type
            for _ in range(8 if "narrow" not in model else 0):
                compare(model, source, random.choice(list(FTYPES)), random_options())
            subprocess.run([ferry, "quantize", source, again, "q8_0", "-q"], check=True)
            compare(model, again, "q4_K", {"recipe": "llama", "allow": True})
    print(f"{count[0]} tensors, {count[1]} differ; {count[2]} option sets refused as without effect")
    sys.exit(count[1] > 0)


main()
