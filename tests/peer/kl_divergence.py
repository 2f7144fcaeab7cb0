#!/usr/bin/env python3
"""Are the divergences of `ferry eval --kl-base` those of the full-precision logits?

    pip install torch transformers numpy
    python tests/peer/kl_divergence.py build/ferry tests/data/held.txt tests/data/tales tests/data/draft tests/data/relu

Each checkpoint after the first is compared with the first: transformers computes every logit of both on the text, in
pieces as `ferry eval --text` cuts it (511 tokens behind BOS, the rest left out), and numpy takes the divergence, its
percentiles and the other measures of them in double. ferry converts to f32, saves the first one's distributions and
compares. Every measure within --tolerance, relative to the larger one, else exit status 1; a checkpoint compared with
itself has a mean divergence below 1e-8: that is what the file's 16 bits cost. --json writes what numpy found.
./scripts/test does not run this."""
import argparse
import json
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PIECE = 511


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def logprobs(directory, text):
    """-> (ids that are scored, ln p of every token before each)"""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    ids = tokenizer(text, add_special_tokens=False).input_ids
    pieces = [ids[i:i + PIECE] for i in range(0, len(ids) - PIECE + 1, PIECE)]
    rows = []
    with torch.no_grad():
        for piece in pieces:
            rows.append(model(torch.tensor([[tokenizer.bos_token_id] + piece])).logits[0, :-1].double().numpy())
    return np.concatenate(pieces), log_softmax(np.concatenate(rows))


def measures(ids, p, q):
    at = np.arange(len(ids)), ids
    error = lambda x: float(x.std(ddof=1) / len(x) ** 0.5)
    kld = (np.exp(p) * (p - q)).sum(1)
    delta, ratio = np.exp(q[at]) - np.exp(p[at]), p[at] - q[at]
    found = dict(zip(("median", "p90", "p95", "p99", "p99_9", "max"), np.percentile(kld, [50, 90, 95, 99, 99.9, 100])))
    found |= {"mean": kld.mean(), "error": error(kld), "same_top": (p.argmax(1) == q.argmax(1)).mean(),
              "delta_p": delta.mean(), "delta_p_error": error(delta), "delta_p_rms": (delta ** 2).mean() ** 0.5,
              "ln_ratio": ratio.mean(), "ln_ratio_error": error(ratio), "base_perplexity": np.exp(-p[at].mean())}
    return {k: float(v) for k, v in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ferry")
    parser.add_argument("text")
    parser.add_argument("checkpoints", nargs="+")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    ids, base = logprobs(args.checkpoints[0], open(args.text, encoding="utf-8").read())
    good = True

    with tempfile.TemporaryDirectory() as tmp:
        def ferry(directory, *options):
            gguf = f"{tmp}/m.gguf"
            subprocess.run([args.ferry, "convert", directory, "--outtype", "f32", "-o", gguf, "-q"], check=True)
            out = subprocess.run([args.ferry, "eval", "-m", gguf, "--text", args.text, "--json", "-q", *options],
                                 check=True, stdout=subprocess.PIPE).stdout
            return json.loads(out)

        ferry(args.checkpoints[0], "--kl-save", f"{tmp}/base.klb")
        for directory in args.checkpoints:
            found = ferry(directory, "--kl-base", f"{tmp}/base.klb")
            found |= {k: v for k, v in found["kl_divergence"].items()}
            if directory == args.checkpoints[0]:
                print(f"{directory} and itself: mean divergence {found['mean']:.1e}, largest {found['max']:.1e}")
                good &= found["mean"] < 1e-8
                continue
            want = measures(ids, base, logprobs(directory, open(args.text, encoding="utf-8").read())[1])
            worst = max(want, key=lambda k: abs(found[k] - want[k]) / abs(want[k]))
            difference = abs(found[worst] - want[worst]) / abs(want[worst])
            print(f"{directory}: {len(ids)} positions, mean divergence {want['mean']:.6f} / {found['mean']:.6f}; "
                  f"farthest apart: {worst}, by {difference:.1e}")
            if args.json:
                print(json.dumps({k: round(v, 9) for k, v in want.items()}))
            good &= difference <= args.tolerance
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
