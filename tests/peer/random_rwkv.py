"""Tiny random checkpoints of RWKV 5.0 to 7 in BlinkDL's files and in those of Hugging Face, and what the author's package computes
of them, for random_checkpoints.py."""
import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import struct

import torch
from safetensors.torch import save_file

from random_reference import DATA, Unmade, save_golden

VOCAB, VOCAB_TOKENS = "rwkv_vocab_v20230424.txt", 341
RWKV = ("rwkv5.0", "rwkv5.1", "rwkv5.2", "rwkv6", "rwkv7")


def rwkv_weights(s, g):
    """In BlinkDL's names: decays over the whole valid range, no low-rank matrix and no share near zero."""
    width, head, v, rank = s["embd"], s["head"], s["version"], s["ranks"]
    n_heads = width // head
    noise = lambda *shape, std=1.0: std * torch.randn(*shape, generator=g)
    within = lambda low, high, *shape: low + (high - low) * torch.rand(*shape, generator=g)
    matrix = lambda out, inp, gain=1.0: noise(out, inp, std=gain / inp ** 0.5)
    row = lambda x: x.view(1, 1, width)
    w = {"emb.weight": noise(s["vocab"], width, std=0.5)}
    for i in range(s["layers"]):
        b, a, f = f"blocks.{i}.", f"blocks.{i}.att.", f"blocks.{i}.ffn."
        for ln in (["ln0"] if i == 0 else []) + ["ln1", "ln2"]:
            w[b + ln + ".weight"], w[b + ln + ".bias"] = 1 + noise(width, std=0.2), noise(width, std=0.2)
        if v[0] == "5":
            for n in "kvr" + ("" if v == "5.0" else "g"):
                w[a + "time_mix_" + n] = row(within(0.05, 0.95, width))
            shape = (n_heads, head) if v == "5.2" else (n_heads,)
            w[a + "time_decay"] = within(-6, 1, *shape)
            w[a + ("time_first" if v == "5.0" else "time_faaaa")] = within(-1, 0.7, *shape) if v == "5.0" else noise(*shape, std=0.7)
        elif v == "6":
            for n in "xwkvrg":
                w[a + "time_maa_" + n] = row(within(0.05, 0.95, width))
            w[a + "time_maa_w1"], w[a + "time_maa_w2"] = noise(width, 5 * rank["mix"], std=0.8 / width ** 0.5), noise(
                5, rank["mix"], width, std=0.5 / rank["mix"] ** 0.5)
            w[a + "time_decay"] = row(within(-6, 0.5, width))
            w[a + "time_decay_w1"], w[a + "time_decay_w2"] = noise(width, rank["decay"], std=1 / width ** 0.5), noise(
                rank["decay"], width, std=1 / rank["decay"] ** 0.5)
            w[a + "time_faaaa"] = noise(n_heads, head, std=0.7)
        else:
            for n in "rwkvag":
                w[a + "x_" + n] = row(within(0.05, 0.95, width))
            for n, low, high in (("w", -7, 4), ("a", -3, 3), ("v", -2, 2)):
                if n == "v" and i == 0 and s["layout"] != "pth":
                    continue
                w[a + n + "0"] = row(within(low, high, width))
                w[a + n + "1"], w[a + n + "2"] = noise(width, rank[n], std=1 / width ** 0.5), noise(rank[n], width, std=1 / rank[n] ** 0.5)
            w[a + "g1"], w[a + "g2"] = noise(width, rank["g"], std=2 / width ** 0.5), noise(rank["g"], width, std=2 / rank["g"] ** 0.5)
            w[a + "k_k"], w[a + "k_a"] = row(within(0.4, 1.6, width)), row(within(0.3, 1.3, width))
            w[a + "r_k"] = noise(n_heads, head, std=0.3)
        for n in ("receptance", "key", "value") + (("gate",) if v in ("5.1", "5.2", "6") else ()) + ("output",):
            w[a + n + ".weight"] = matrix(width, width, 1.3)
        w[a + "ln_x.weight"], w[a + "ln_x.bias"] = 1 + noise(width, std=0.2), noise(width, std=0.2)
        for n in {"5": ("time_mix_k", "time_mix_r"), "6": ("time_maa_k", "time_maa_r"), "7": ("x_k",)}[v[0]]:
            w[f + n] = row(within(0.05, 0.95, width))
        w[f + "key.weight"] = matrix(s["ffn"], width, 1.2)
        if v != "7":
            w[f + "receptance.weight"] = matrix(width, width, 1.5)
        w[f + "value.weight"] = matrix(width, s["ffn"], 1.2)
    w["ln_out.weight"], w["ln_out.bias"] = 1 + noise(width, std=0.2), noise(width, std=0.2)
    w["head.weight"] = matrix(s["vocab"], width, 2.0)
    return w


def rwkv_to_hf(w, version):
    """RWKV/rwkv-5-world-*, rwkv-6-world-*: other names, same shapes."""
    words = {"k": "key", "v": "value", "r": "receptance", "g": "gate"}
    out = {}
    for k, x in w.items():
        k = k.replace("emb.weight", "rwkv.embeddings.weight").replace("ln_out.", "rwkv.ln_out.").replace("blocks.", "rwkv.blocks.")
        k = k.replace(".ln0.", ".pre_ln.").replace(".att.", ".attention.").replace(".ffn.", ".feed_forward.")
        if version[0] == "5":
            k = re.sub(r"time_mix_(\w)$", lambda m: "time_mix_" + words[m[1]], k)
        out[k] = x
    return out


def rwkv_to_fla(w, joined):
    """fla-hub/rwkv7-*: low-rank matrices transposed to [out, in], offsets as biases; joined: the older x_x."""
    top = {"emb.weight": "model.embeddings.weight", "ln_out.weight": "model.norm.weight", "ln_out.bias": "model.norm.bias",
           "head.weight": "lm_head.weight"}
    att = {"receptance": "r_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj", "ln_x": "g_norm"}
    out = {}
    for k, x in w.items():
        if k in top:
            out[top[k]] = x
            continue
        _, i, part, *rest = k.split(".")
        base = f"model.layers.{i}."
        if part.startswith("ln"):
            out[base + {"ln0": "pre_norm", "ln1": "attn_norm", "ln2": "ffn_norm"}[part] + "." + rest[0]] = x
        elif part == "ffn":
            out[base + ".".join(["ffn"] + rest)] = x.reshape(-1) if rest == ["x_k"] else x
        elif len(rest) == 2:
            out[base + f"attn.{att[rest[0]]}.{rest[1]}"] = x
        elif len(rest[0]) == 2 and rest[0][1] in "012":
            n, what = rest[0]
            out[base + f"attn.{n}_lora.lora." + {"0": "2.bias", "1": "0.weight", "2": "2.weight"}[what]] = x.reshape(-1) if what == "0" else x.T
        else:
            out[base + "attn." + rest[0]] = x if rest[0].startswith("x_") or rest[0] == "r_k" else x.reshape(-1)
    for i in range(1 + max(int(k.split(".")[2]) for k in out if k.startswith("model.layers."))) if joined else ():
        base = f"model.layers.{i}.attn."
        out[base + "x_x"] = torch.stack([out.pop(base + "x_" + n).reshape(-1) for n in "rwkvag"])
    return out


def rwkv_config(s):
    if s["layout"] == "hf":
        return {"architectures": [f"Rwkv{s['version'][0]}ForCausalLM"], "attention_hidden_size": s["embd"], "head_size": s["head"],
                "head_size_divisor": 8, "hidden_size": s["embd"], "intermediate_size": s["ffn"], "layer_norm_epsilon": 1e-5,
                "model_type": f"rwkv{s['version'][0]}", "num_attention_heads": s["head"], "num_hidden_layers": s["layers"],
                "rescale_every": s["rescale"], "tie_word_embeddings": False, "vocab_size": s["vocab"], "bos_token_id": 0, "eos_token_id": 0}
    r = s["ranks"]
    return {"architectures": ["RWKV7ForCausalLM"], "attn": None, "attn_mode": "chunk", "decay_low_rank_dim": r["w"], "a_low_rank_dim": r["a"],
            "gate_low_rank_dim": r["g"], "v_low_rank_dim": r["v"], "head_dim": s["head"], "hidden_act": "sqrelu", "hidden_size": s["embd"],
            "intermediate_size": s["ffn"], "model_type": "rwkv7", "norm_bias": True, "norm_eps": 1e-5, "norm_first": True,
            "num_heads": s["embd"] // s["head"], "num_hidden_layers": s["layers"], "tie_word_embeddings": False, "vocab_size": s["vocab"],
            "bos_token_id": 0, "eos_token_id": 0}


_rwkv = {}


def rwkv_package(seven, path):
    """The author's class. It reads its switches when imported, so version 7 and the rest are two imports."""
    if seven not in _rwkv:
        os.environ.update(RWKV_JIT_ON="0", RWKV_CUDA_ON="0", RWKV_V7_ON="1" if seven else "0")
        spec = importlib.util.spec_from_file_location(f"rwkv_{seven}", importlib.util.find_spec("rwkv.model").origin)
        _rwkv[seven] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(_rwkv[seven])
    with contextlib.redirect_stdout(io.StringIO()):
        return _rwkv[seven].RWKV(model=str(path).removesuffix(".pth"), strategy="cpu fp32")


class RwkvCheckpoint:
    mxfp4 = False

    def __init__(self, family, d, folder):
        version = family.removeprefix("rwkv")
        layout = "pth" if version in ("5.0", "5.1") else d.one("pth", "hf") if version in ("5.2", "6") else d.one("pth", "fla", "fla-xx")
        head = 64 if layout.startswith("fla") else d.one(4, 8, 16, 20, 32, 64)     # the norm's epsilon follows the head elsewhere
        width = head * d.randint(1, 4)
        names = {"6": ("mix", "decay"), "7": "wavg"}.get(version, ())
        self.args = s = {"version": version, "layout": layout, "embd": width, "head": head, "ffn": d.one(32, 50, 96, 224), "layers": d.randint(1, 5),
                         "vocab": VOCAB_TOKENS + d.one(0, 3, 43), "ranks": {n: d.one(1, 2, 5, 8, 12, 20, 32) for n in names}, "rescale": d.one(0, 2, 6)}
        dtype = d.one(torch.float32, torch.bfloat16, torch.float16)
        g = torch.Generator().manual_seed(d.getrandbits(32))
        w = {k: x.to(dtype).float() for k, x in rwkv_weights(s, g).items()}
        shutil.copy(DATA / "rwkv" / "v7" / VOCAB, folder)
        ids = [d.randrange(s["vocab"]) for _ in range(d.one(2, 5, 17, 40, 70))]
        reference = folder / "reference"
        reference.mkdir()
        try:
            torch.save(w, reference / "model.pth")
            model = rwkv_package(version == "7", reference / "model.pth")
            with torch.no_grad():
                self.compute(model, ids, folder)
        except Exception as e:
            raise Unmade(f"{type(e).__name__}: {e}") from e
        finally:
            shutil.rmtree(reference)
        if layout == "pth":
            torch.save({k: x.to(dtype) for k, x in w.items()}, folder / "rwkv.pth")
            return
        for file in sorted((DATA / "rwkv" / "v7-hf").glob("*.json")):
            if file.name.startswith(("tokenizer", "special", "generation")):
                shutil.copy(file, folder)
        renamed = rwkv_to_hf(w, version) if layout == "hf" else rwkv_to_fla(w, layout == "fla-xx")
        save_file({k: x.to(dtype).contiguous() for k, x in renamed.items()}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(rwkv_config(s), indent=1))

    def state_off(self, file):
        """The largest difference of a part of the states in a prompt cache, over the part's largest element. A layer has the last
        input of both halves and a matrix [keys][values] for each head; version 7 of the package has it the other way."""
        data = file.read_bytes()
        n, n_blocks = struct.unpack_from("<II", data, 80)
        at, off, width = 96 + (4 * n + 7) // 8 * 8, 0.0, self.args["embd"]
        for _ in range(n_blocks):
            kind, layer, _, end, size = struct.unpack_from("<IIIIQ", data, at)
            if kind == 3 and end == n:
                got = torch.frombuffer(bytearray(data[at + 32:at + 32 + size]), dtype=torch.float32)
                time, matrix, channel = self.states[3 * layer:3 * layer + 3]
                matrix = matrix.transpose(-1, -2) if self.args["version"] == "7" else matrix
                for part, want in ((got[:width], time), (got[width:2 * width], channel), (got[2 * width:], matrix)):
                    off = max(off, float((part - want.reshape(-1)).abs().max() / want.abs().max()))
            at += 32 + (size + 7) // 8 * 8
        return off

    def compute(self, model, ids, folder):
        """One by one: all at once, the package's version 5.2 is up to 2e-4 of the largest logit off what f64 gives."""
        state, rows = None, []
        for token in ids:
            row, state = model.forward([token], state)
            rows.append(row.clone().reshape(-1))
        self.want = torch.stack(rows).float()
        self.ids, self.states = ids, [x.clone().float() for x in state]

        def step(token):
            nonlocal state
            row, state = model.forward([token], state)
            return row.reshape(-1)
        save_golden(folder, ids, self.want, step)

    def wide(self):
        return None
