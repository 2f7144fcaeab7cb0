#!/usr/bin/env python3
"""Makes model_meta_cases.h: what gguf-py's Metadata says of model names and of checkpoints.

    pip install gguf pyyaml && python tests/unit/convert/model_meta_cases.py > tests/unit/convert/model_meta_cases.h
"""
import json
import logging
import pathlib
import tempfile

import gguf
from gguf.metadata import Metadata

logging.disable(logging.CRITICAL)

IDS = [
    ("Mistral-7B-Instruct-v0.2", 7241732096), ("mistralai/Mixtral-8x7B-Instruct-v0.1", 0),
    ("Meta-Llama-3-8B", 8030261248), ("meta-llama/Llama-3.2-1B-Instruct", 1235814400),
    ("Qwen/Qwen2.5-0.5B-Instruct", 494032768), ("Qwen3-30B-A3B", 30532122624),
    ("bigscience/bloom-7b1-petals", 0), ("NousResearch/Yarn-Llama-2-7b-128k", 6738415616),
    ("microsoft/Phi-3-mini-4k-instruct", 3821079552), ("tiiuae/falcon-40b-instruct", 0),
    ("stories260K-hf-f32", 260032), ("SmolLM2-135M", 134515008), ("gpt2-xl", 0), ("tales", 2427136),
    ("Not so standard name", 0), ("./models/foo", 0), ("org/", 0), ("a--b---7B-", 0),
    ("TinyLlama-1.1B-Chat-v1.0", 1100048384), ("unsloth/DeepSeek-R1-Distill-Qwen-1_5B-q4_k_m", 0),
    ("internlm2_5-7b-chat-1m", 7737708544), ("phi-2", 2779683840), ("gemma-3-1b-it", 999885952),
    ("v2-7B", 0), ("Bamboo-base-v0_1", 0), ("iter3-llama-large-7B-LoRA-fp16", 0), ("7B", 0),
    ("xl-model-XXL", 0), ("Mistral-Large-Instruct-2407", 0), ("7B-base-chat-v1.2.3", 0),
    ("glm-4-9b-chat-1m", 9399951392), ("model-7B-7b-8x7B", 0), ("m-bf16-bfp32-q8_0-iq4_x", 0),
    ("x-100M", 800000000), ("x-100M", 799999999), ("x-15M", 8000000), ("x-16M", 8000000),
]

# directory, card, config, parameters, --model-name
CHECKPOINTS = [
    ("tales", None, None, 2427136, None),
    ("Llama-3.2-1B-Instruct", """---
language:
- en
- de
library_name: transformers
tags:
- facebook
- meta
pipeline_tag: text-generation
license: llama3.2
base_model: meta-llama/Llama-3.2-1B
extra_gated_prompt: >-
  ### LLAMA 3.2 COMMUNITY LICENSE AGREEMENT


  Llama 3.2 Version Release Date: September 25, 2024
---
# Model
""", {"_name_or_path": "meta-llama/Llama-3.2-1B-Instruct"}, 1235814400, None),
    ("snapshot", """---
license: other
license_name: qwen-research
license_link: https://huggingface.co/Qwen/Qwen2.5-3B/blob/main/LICENSE
base_model:
- Qwen/Qwen2.5-3B
- https://huggingface.co/org/Other-7B-v0.3
- https://example.com/models/x
datasets: [HuggingFaceFW/fineweb, "https://huggingface.co/datasets/a/b"]
language: [en]
tags: []
---
""", None, 3085938688, None),
    ("dir", """---\r
name: Zephyr 7B Beta\r
author: 'HF'\r
version: "1.10"\r
organization: "Hugging\\tFace"\r
basename: zephyr\r
finetune: beta\r
size_label: 7B\r
description: |\r
  Two\r
  lines\r
url: https://example.com\r
doi: 10.1/2\r
repo_url: https://example.com/git\r
license: [mit, apache-2.0]\r
---\r
""", {"_name_or_path": "HuggingFaceH4/zephyr-7b-beta"}, 7241732096, None),
    ("x", """---
model_name: Card Name
model_creator: Someone
model_type: mistral
base_model_sources: mistralai/Mistral-7B-v0.1
---
""", {"_name_or_path": "/data/models/x"}, 0, "Given Name"),
    ("Norway-7B", "---\nlanguage:\n- no\n- nb\ntags: one\n---\n", {"_name_or_path": "a/b/c"}, 0, None),
    ("merge", """---
base_models:
  - name: Base One
    organization: Org
    repo_url: https://example.com/1
  - org/Two-3B-v2
---
""", None, 0, None),
    ("anchors", "---\ntags: &t [a, b]\nlicense: mit\n? complex\n: value\nmodel-index:\n- results:\n  - {a: [1, {b: c}]}\n---\n", None, 0, None),
    ("no-front-matter", "# Title\n---\nlicense: mit\n---\n", None, 0, None),
    ("tabs-1B", "---\nlicense:\tmit\nlanguage:\n\t- en\n---\n", None, 0, None),
]


def c(s):
    return json.dumps(s, ensure_ascii=True) if s is not None else "NULL"


def keys(name, card, config, params, model_name):
    with tempfile.TemporaryDirectory() as tmp:
        d = pathlib.Path(tmp) / name
        d.mkdir()
        if card is not None:
            (d / "README.md").write_bytes(card.encode())
        if config is not None:
            (d / "config.json").write_text(json.dumps(config))
        m = Metadata.load(None, d, model_name, params)
        w = gguf.GGUFWriter(None, "llama")
        m.set_gguf_meta_model(w)
    out = ""
    for k, v in w.kv_data[0].items():
        if k == "general.architecture":
            continue
        value = v.value
        out += f"{k}={'|'.join(value) if isinstance(value, list) else value}\n"
    size = m.size_label
    name = gguf.naming_convention(m.name, m.basename, m.finetune, m.version, size, "q4_0")
    return out, name, gguf.naming_convention(m.name, m.basename, m.finetune, m.version, None, None, "vocab")


print("/* Made by model_meta_cases.py with gguf-py. */")
print("#ifndef FY_TESTS_MODEL_META_CASES_H\n#define FY_TESTS_MODEL_META_CASES_H\n")
print("static const struct {\n    const char *id;\n    unsigned long long n_params;")
print("    const char *name, *org, *basename, *finetune, *version, *size_label, *title;\n} id_cases[] = {")
for i, n in IDS:
    full, org, base, ft, ver, size = Metadata.get_model_id_components(i, n)
    texts = [full, org, base, ft, ver, size, Metadata.id_to_title(full)]
    print(f"    {{{c(i)}, {n}ULL, " + ", ".join(c(t or "") for t in texts) + "},")
print("};\n\nstatic const struct {\n    const char *dir, *card, *config, *model_name;")
print("    unsigned long long n_params;\n    const char *file, *vocab_file, *keys;\n} checkpoint_cases[] = {")
for name, card, config, params, model_name in CHECKPOINTS:
    conf = json.dumps(config) if config is not None else None
    print(f"    {{{c(name)}, {c(card)}, {c(conf)}, {c(model_name)}, {params}ULL,")
    text, file, vocab_file = keys(name, card, config, params, model_name)
    print(f"     {c(file)}, {c(vocab_file)},")
    for line in text.splitlines(keepends=True):
        print(f"     {c(line)}")
    print("    },")
print("};\n\n#endif")
