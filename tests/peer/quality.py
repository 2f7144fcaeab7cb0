#!/usr/bin/env python3
"""What `ferry eval --choices` and `--last-word` have to say of a checkpoint: the rules of lm-evaluation-harness with
transformers as the model.

    pip install torch transformers
    python tests/peer/quality.py tests/data/tales tests/data/quality --ferry build/ferry

Reads choices.jsonl and last_word.jsonl of the second directory. Log-likelihoods are of EleutherAI/lm-evaluation-harness:
context and continuation are encoded as one text with the tokenizer's own beginning (TemplateLM._encode_pair), the empty
context is the beginning token; hellaswag's texts are cleaned as its task does (lm_eval/tasks/hellaswag/utils.py), acc_norm
divides by the length of a choice in characters, the space before it left out; lambada_openai's target is the last word
with the space before it. With --write the results go to expected.json there, which tests/e2e/eval_quality.sh compares
with; with --ferry the checkpoint is converted to f32 and measured now: every log-likelihood within --tolerance, every
answer equal, else exit status 1. ./scripts/test does not run this."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def clean(text):
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


class Model:
    def __init__(self, directory):
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        # the encoding of an empty text is what the tokenizer puts before every text
        self.before = self.tokenizer("").input_ids

    def encode(self, text):
        return self.tokenizer(text).input_ids

    def likelihood(self, context, continuation):
        """-> (ln p, would greedy decoding say it)"""
        blanks = len(context) - len(context.rstrip())
        if blanks > 0:
            continuation = context[-blanks:] + continuation
            context = context[:-blanks]
        if context == "":
            head = [self.tokenizer.bos_token_id]
            tail = self.tokenizer(continuation, add_special_tokens=False).input_ids
        else:
            head = self.encode(context)
            tail = self.encode(context + continuation)[len(head):]
        ids = torch.tensor([head + tail])
        with torch.no_grad():
            logits = self.model(ids[:, :-1]).logits[0, -len(tail):]
        logprobs = torch.log_softmax(logits.double(), -1)
        return (float(logprobs[range(len(tail)), tail].sum()),
                bool((logits.argmax(-1) == torch.tensor(tail)).all()))


def choice_item(o):
    if all(name in o for name in ("activity_label", "ctx_a", "ctx_b")):
        query = clean(o["activity_label"] + ": " + o["ctx_a"] + " " + o["ctx_b"].capitalize())
        return query, [clean(x) for x in o["endings"]], int(o["label"])
    first = lambda *names: next(o[n] for n in names if n in o)
    return first("query", "ctx", "context"), first("choices", "endings"), int(first("gold", "label"))


def choices(model, path):
    results = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line:
            query, endings, label = choice_item(json.loads(line))
            sums = [model.likelihood(query, " " + x)[0] for x in endings]
            ratios = [s / len(x) for s, x in zip(sums, endings)]
            results.append({"logprobs": sums, "label": label, "best": sums.index(max(sums)),
                            "best_norm": ratios.index(max(ratios))})
    share = lambda key: sum(r[key] == r["label"] for r in results) / len(results)
    return {"acc": share("best"), "acc_norm": share("best_norm"), "results": results}


def last_word(model, path):
    results = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line:
            words = json.loads(line)["text"].split(" ")
            logprob, greedy = model.likelihood(" ".join(words[:-1]), " " + words[-1])
            results.append({"logprob": logprob, "greedy": greedy})
    mean = sum(r["logprob"] for r in results) / len(results)
    return {"acc": sum(r["greedy"] for r in results) / len(results),
            "perplexity": float(torch.exp(torch.tensor(-mean, dtype=torch.float64))), "results": results}


def same(name, want, got, tolerance):
    """Prints the largest difference of a log-likelihood; false when an answer differs."""
    flat = lambda r: r.get("logprobs", [r.get("logprob")])
    worst = max(abs(a - b) for w, g in zip(want["results"], got["results"]) for a, b in zip(flat(w), flat(g)))
    keys = ("best", "best_norm", "greedy")
    equal = [[r[k] for k in keys if k in r] for r in want["results"]] == \
        [[r[k] for k in keys if k in r] for r in got["results"]]
    print(f"{name}: {len(want['results'])} items, largest difference {worst:.1e}, answers "
          f"{'equal' if equal else 'DIFFER'}, acc {want['acc']:.4f} / {got['acc']:.4f}")
    return equal and worst <= tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--ferry")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    model = Model(args.checkpoint)
    want = {"choices": choices(model, args.data / "choices.jsonl"),
            "last_word": last_word(model, args.data / "last_word.jsonl")}
    if args.write:
        rounded = json.loads(json.dumps(want), parse_float=lambda x: round(float(x), 6))
        (args.data / "expected.json").write_text(json.dumps(rounded, separators=(",", ":")) + "\n")
    if not args.ferry:
        return 0
    good = True
    with tempfile.TemporaryDirectory() as tmp:
        gguf = f"{tmp}/m.gguf"
        subprocess.run([args.ferry, "convert", args.checkpoint, "--outtype", "f32", "-o", gguf, "-q"], check=True)
        for name in want:
            got = json.loads(subprocess.run([args.ferry, "eval", "-m", gguf, "--" + name.replace("_", "-"),
                                             args.data / f"{name}.jsonl", "--json", "-q"],
                                            check=True, stdout=subprocess.PIPE).stdout)
            good &= same(name, want[name], got, args.tolerance)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
