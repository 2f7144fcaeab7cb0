"""Tiny random checkpoints of what transformers has, saved by it, and what it computes of them, for random_checkpoints.py."""
import copy
import json
import re
import shutil

import torch
from safetensors.torch import load_file, save_file

from random_families import FAMILIES, F, S, WRAPPERS
from random_reference import DATA, Unmade, save_golden


def weight(name, p, g, transposed):
    """Large random values, so that every trait shows."""
    noise, leaf = torch.randn(p.shape, generator=g), name.rpartition(".")[2]
    if leaf == "A_log":
        return torch.log(0.3 + 3.0 * torch.rand(p.shape, generator=g))
    if leaf == "dt_bias":
        return 0.7 * noise - 0.5
    if leaf == "D":
        return 1.0 + 0.5 * noise
    if leaf == "layer_scalar":
        return 0.8 + 0.1 * noise
    if leaf == "sinks" or "conv" in name and leaf == "weight" and p.ndim == 3:
        return 0.7 * noise
    if leaf.endswith("bias"):
        return 0.2 * noise
    if p.ndim <= 1:
        first = float(p.flatten()[0])
        return 0.2 * noise + (first if first in (0.0, 1.0) else 1.0)
    if "correction_coefs" in name or "prediction_coefs" in name:
        return 0.3 * noise
    if "modality_router" in name:
        return 1.5 * noise * p.shape[-1] ** 0.5
    if re.search(r"embed|wte|wpe", name) and "proj" not in name:
        return 0.5 * noise
    return 1.3 * noise / p.shape[-2 if transposed and p.ndim == 3 else -1] ** 0.5


E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def to_mxfp4(w):
    """[..., n] -> blocks [..., n / 32, 16] (low nibble first, neighbours in one byte), scales [..., n / 32], and what they mean."""
    blocks = w.float().reshape(*w.shape[:-1], -1, 32)
    exponent = torch.floor(torch.log2(blocks.abs().amax(-1).clamp(min=1e-30))) - 2
    scale = torch.exp2(exponent)[..., None]
    code = ((blocks / scale)[..., None] - E2M1).abs().argmin(-1)
    return ((code[..., 0::2] | (code[..., 1::2] << 4)).to(torch.uint8), (exponent + 127).to(torch.uint8),
            (E2M1[code] * scale).reshape(w.shape))


def is_expert(name):
    return name.endswith(("experts.gate_up_proj", "experts.down_proj"))


class Checkpoint:
    """A folder, and what transformers computes of it."""

    def __init__(self, family, d, folder, transformers):
        self.t, self.d, self.folder, self.family = transformers, d, folder, family
        self.model_type, tokenizer, config = FAMILIES[family]
        source = DATA / "families" / tokenizer
        for file in sorted(source.iterdir()):
            if file.name.startswith(("tokenizer", "special_tokens", "added_tokens", "vocab", "merges", "generation")):
                shutil.copy(file, folder)
        tokens = json.loads((source / "golden.json").read_text())["tokens"]
        self.rows = tokens + d.one(0, 0, 3, 8)
        args = config(d) | {"vocab_size": self.rows, "pad_token_id": None}
        if "vocab_size_per_layer_input" in args:
            args["vocab_size_per_layer_input"] = min(args["vocab_size_per_layer_input"], self.rows)
        self.known = args.get("vocab_size_per_layer_input", self.rows)     # ferry: 0 beyond, transformers: row 0
        self.args = args
        self.mxfp4 = family == "gpt-oss" and args["hidden_size"] % 32 == 0 and args["intermediate_size"] % 32 == 0 and d.yes(0.8)
        try:
            made = transformers.AutoConfig.for_model(self.model_type, **copy.deepcopy(args))
            self.save(made)
            self.respell()
            self.model = self.load()
            self.compute()
            if family in WRAPPERS and d.yes(0.4):
                self.wrap()
            if self.mxfp4:
                self.pack()
        except Unmade:
            raise
        except Exception as e:
            raise Unmade(f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}") from e

    def save(self, config):
        model = self.t.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
        g = torch.Generator().manual_seed(self.d.getrandbits(32))
        tied = config.tie_word_embeddings
        with torch.no_grad():
            for name, p in model.state_dict().items():
                if p.is_floating_point() and not (tied and name == "lm_head.weight"):
                    p.copy_(weight(name, p, g, self.family == "gpt-oss"))
            for name, p in model.named_parameters():
                if self.mxfp4 and is_expert(name):
                    p.copy_(to_mxfp4(p.transpose(-1, -2))[2].transpose(-1, -2))
        model.generation_config = self.t.GenerationConfig()
        kept = (self.folder / "generation_config.json").read_text()
        stored = torch.float32 if self.mxfp4 else self.d.one(torch.float32, torch.float32, torch.bfloat16, torch.float16)
        model.to(stored).save_pretrained(self.folder, **({"max_shard_size": "40KB"} if self.d.yes(0.2) and not self.mxfp4 else {}))
        (self.folder / "generation_config.json").write_text(kept)

    def read(self):
        return self.t.AutoConfig.from_pretrained(self.folder).to_dict()

    def try_spelling(self, config):
        file = self.folder / "config.json"
        kept, was = file.read_text(), self.read()
        file.write_text(json.dumps(config, indent=1))
        try:
            same = self.read() == was
        except Exception:
            same = False
        if not same:
            file.write_text(kept)
        return same

    def respell(self):
        config = json.loads((self.folder / "config.json").read_text())
        for key in ("dtype", "torch_dtype", "use_cache", "initializer_range"):
            config.pop(key, None)
        (self.folder / "config.json").write_text(json.dumps(config, indent=1))
        rope = config.get("rope_parameters")
        if rope and self.d.yes():
            old = {k: v for k, v in config.items() if k != "rope_parameters"}
            local, main = rope.get(S), rope.get(F, rope) or {}
            old["rope_theta"] = main.get("rope_theta")
            scaling = {k: v for k, v in main.items() if k not in ("rope_theta", "partial_rotary_factor")}
            old["rope_scaling"] = scaling if scaling.get("rope_type") != "default" else None
            if "partial_rotary_factor" in main:
                old["partial_rotary_factor"] = main["partial_rotary_factor"]
            if local:
                old["rope_local_base_freq"] = local.get("rope_theta")
            old = {k: v for k, v in old.items() if v is not None or k not in ("rope_theta", "rope_local_base_freq")}
            if self.try_spelling(old):
                config = old
        if self.d.yes():
            for key in sorted(config):
                if key not in ("architectures", "model_type", "vocab_size") and self.d.yes(0.6):
                    less = {k: v for k, v in config.items() if k != key}
                    if self.try_spelling(less):
                        config = less

    def load(self):
        model, info = self.t.AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        wrong = {k: v for k, v in info.items() if k in ("missing_keys", "unexpected_keys", "mismatched_keys") and v}
        if wrong:
            raise Unmade(f"its own files: {wrong}")
        return model.eval()

    def logits(self, ids):
        with torch.no_grad():
            return self.model(torch.tensor([ids]), use_cache=False).logits[0].float()

    def compute(self):
        d = self.d
        self.ids = [d.randrange(self.known) for _ in range(d.one(1, 2, 5, 17, 40, 70, 100))]
        self.want, ids = self.logits(self.ids), list(self.ids)

        def step(token):
            if token >= self.known:
                return torch.zeros(2)
            ids.append(token)
            return self.logits(ids)[-1]
        save_golden(self.folder, self.ids, self.want, step)

    def wide(self):
        """The logits in f64 (rounded), or None: not every class can."""
        self.model.double()
        try:
            return self.logits(self.ids)
        except RuntimeError:
            return None

    def wrap(self):
        name, model_type, prefix, head = WRAPPERS[self.family]
        text = json.loads((self.folder / "config.json").read_text())
        top = {"architectures": [name], "model_type": model_type, "text_config": text, "vision_config": {"hidden_size": 8}}
        text.pop("architectures", None)
        if "tie_word_embeddings" in text and self.d.yes():
            top["tie_word_embeddings"] = text.pop("tie_word_embeddings")
        (self.folder / "config.json").write_text(json.dumps(top, indent=1))
        state = {}
        for file in sorted(self.folder.glob("model*.safetensors")):
            state |= load_file(file)
            file.unlink()
        (self.folder / "model.safetensors.index.json").unlink(missing_ok=True)
        new = {head + k[len("lm_head."):] if k.startswith("lm_head.") else prefix + k[len("model."):]: v for k, v in state.items()}
        save_file({k: v.contiguous() for k, v in new.items()}, self.folder / "model.safetensors", metadata={"format": "pt"})

    def pack(self):
        out = {}
        for name, w in load_file(self.folder / "model.safetensors").items():
            if is_expert(name):
                out[name + "_blocks"], out[name + "_scales"], _ = to_mxfp4(w.float().transpose(-1, -2))
            else:
                out[name] = w
        save_file({k: v.contiguous() for k, v in out.items()}, self.folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((self.folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
        (self.folder / "config.json").write_text(json.dumps(config, indent=1))
