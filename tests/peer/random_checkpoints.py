#!/usr/bin/env python3
"""Does ferry compute what transformers computes, whatever config.json says? And what RWKV's own package computes?

    pip install torch transformers rwkv numpy safetensors
    python tests/peer/random_checkpoints.py build/ferry
    python tests/peer/random_checkpoints.py build/ferry --only gemma4 qwen3_5 --seeds 0:100
    python tests/peer/random_checkpoints.py build/ferry --only gemma4 --seeds 17 --keep /tmp/gemma4

A family and a seed make a tiny checkpoint: a random configuration (shapes, heads, windows, layers, rotation, experts,
biases, activations; now and then something that ferry refuses) and random weights, saved by transformers in f32, bf16
or f16, in one file or several. Then config.json is spelled in another way as far as transformers reads the same from
it: keys that are their defaults are left out, rotation is written as transformers 4 did, the text model is put into the
checkpoint of a multi-modal one. ferry converts it to f32 and evaluates logits and greedy ids of a random prompt, in
batches of a random size.

Verdicts: agrees (every logit within 1e-4 of the largest, greedy ids equal; of RWKV the states at the
end within 1e-4 of their largest element, too), refused (convert says why), rounding (it is
not further from what transformers computes in f64 than twice as far as transformers in f32), DISAGREES, FAILS (convert went
through, but the file cannot be evaluated). The last two make the exit status 1. RWKV's bound is 1e-3 in absolute terms. ./scripts/test does not run this."""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

from random_families import FAMILIES, Draw
from random_reference import Unmade
from random_rwkv import RWKV, RwkvCheckpoint
from random_transformers import Checkpoint

TOLERANCE, RWKV_TOLERANCE = 1e-4, 1e-3
GOOD = ("agrees", "refused", "rounding")


def ferry(*arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True)


def last_line(done):
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def check(program, made, folder, d):
    """-> verdict, difference, text"""
    file = folder / "model.gguf"
    done = ferry(program, "convert", folder, "--outtype", "f32", "-o", file, "-q")
    if done.returncode != 0:
        if done.returncode < 0:
            return "FAILS", None, f"convert ended by signal {-done.returncode}"
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("warning:")]
        return "refused", None, " / ".join(lines).replace(str(folder), "DIR")
    if made.mxfp4:
        done = ferry(program, "quantize", file, folder / "wide.gguf", "f32", "--allow-requantize", "-q")
        if done.returncode != 0:
            return "FAILS", None, last_line(done)
        file = folder / "wide.gguf"
    bound = RWKV_TOLERANCE / float(made.want.abs().max()) if isinstance(made, RwkvCheckpoint) else TOLERANCE
    batch = d.one(1, 3, 16, 512)
    done, off = evaluate(program, file, folder / "golden.safetensors", bound, batch)
    if off is None:
        return "FAILS", None, last_line(done).replace(str(folder), "DIR")
    if done.returncode == 0 and isinstance(made, RwkvCheckpoint):
        cache = folder / "states.cache"
        done = ferry(program, "run", "-m", file, "--prompt-ids", ",".join(map(str, made.ids)), "-n", 0, "--prompt-cache", cache, "-b", batch)
        if done.returncode != 0:
            return "FAILS", None, last_line(done)
        state_off = made.state_off(cache)
        return "agrees" if state_off <= TOLERANCE else "DISAGREES", off, f"states {state_off:.1e}"
    if done.returncode == 0:
        return "agrees", off, ""
    said = last_line(done).rpartition("safetensors: ")[2]
    wide = made.wide()
    if wide is None:
        return "DISAGREES", off, said
    own = float((wide - made.want).abs().max() / wide.abs().max())
    save_file({"input_ids": torch.tensor(made.ids, dtype=torch.int32), "logits": wide.contiguous()}, folder / "f64.safetensors")
    done, ours = evaluate(program, file, folder / "f64.safetensors", max(2 * own, 1e-30), batch)
    return "rounding" if done.returncode == 0 else "DISAGREES", off, f"{said}; off f64: the reference {own:.1e}, ferry {ours:.1e}"


def evaluate(program, file, golden, bound, batch):
    """-> the process, the largest difference or None"""
    done = ferry(program, "eval", "-m", file, "--golden", golden, "--json", "--tolerance", bound, "-b", batch)
    return done, json.loads(done.stdout)["logits"]["max_ratio"] if done.returncode in (0, 4) else None


def generic(text):
    """A refusal without its numbers, to count by."""
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", re.sub(r"\[[^\]]*\]", "[..]", text))[:200]


def run_one(program, family, seed, work, transformers, report):
    """A configuration that transformers does not take is drawn again."""
    for attempt in range(40):
        d = Draw(f"{family} {seed} {attempt}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            made = RwkvCheckpoint(family, d, work) if family in RWKV else Checkpoint(family, d, work, transformers)
        except Unmade as e:
            report["unmade"][generic(str(e))] += 1
            continue
        return check(program, made, work, d) + (made,)
    return "UNMADE", None, "transformers takes none of 40 configurations", None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ferry", help="the program")
    parser.add_argument("--only", nargs="+", default=[*FAMILIES, *RWKV], metavar="FAMILY", help="of " + ", ".join([*FAMILIES, *RWKV]))
    parser.add_argument("--seeds", default="0:20", help="one, or FROM:TO [0:20]")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the last checkpoint in this folder, which is replaced")
    parser.add_argument("--verbose", action="store_true", help="a line for each checkpoint, not only for those that are wrong")
    args = parser.parse_args()
    low, _, high = args.seeds.partition(":")
    seeds = range(int(low), int(high) if high else int(low) + 1)
    torch.set_num_threads(1)
    transformers = None
    if any(f in FAMILIES for f in args.only):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers
        transformers.logging.set_verbosity(transformers.logging.CRITICAL)
        transformers.logging.disable_progress_bar()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        work = args.keep or pathlib.Path(scratch) / "checkpoint"
        for family in args.only:
            report = {"refused": collections.Counter(), "unmade": collections.Counter()}
            counts, largest = collections.Counter(), 0.0
            for seed in seeds:
                verdict, off, text, made = run_one(args.ferry, family, seed, work, transformers, report)
                counts[verdict] += 1
                largest = max(largest, off) if verdict == "agrees" else largest
                if verdict == "refused":
                    report["refused"][generic(text)] += 1
                if verdict not in ("agrees", "refused") or args.verbose:
                    shown = "" if off is None else f" {off:.1e}"
                    print(f"  {family} {seed}: {verdict}{shown}  {text}", flush=True)
                    if verdict in ("DISAGREES", "FAILS"):
                        print(f"    {json.dumps(made.args)}", flush=True)
            bad += sum(n for verdict, n in counts.items() if verdict not in GOOD)
            print(f"{family:18} {counts['agrees']:4} agree, largest difference {largest:.1e}; {counts['refused']:3} refused; "
                  f"{counts['rounding']} rounding; "
                  f"{sum(n for verdict, n in counts.items() if verdict not in GOOD):3} wrong", flush=True)
            for kind in ("refused", "unmade") if args.verbose else ("refused",):
                for text, n in report[kind].most_common():
                    print(f"    {n:3} {kind}: {text}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
