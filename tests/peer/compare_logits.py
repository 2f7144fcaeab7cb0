#!/usr/bin/env python3
"""Does llama.cpp load our files and compute what we compute?

    pip install xllamacpp safetensors numpy
    python tests/peer/compare_logits.py build/ferry tests/data/families/*/

Each checkpoint directory with a golden.safetensors is converted to f16 and the golden's input_ids run through ferry and
through llama.cpp (f32 KV cache, no flash attention). Two rules, at every position: where llama.cpp's likeliest token
leads by more than 2 % of the largest logit there, it is ours too; where its 5th and 6th are that far apart, the same
five tokens are ours. One line per directory. A rule may be broken only where `ferry convert` warned that other programs
compute this model wrongly; otherwise, or when llama.cpp refuses a file of an architecture that it knows, the exit
status is 1. Where they disagree, the golden says who is right.

Needs the Python package xllamacpp, whose extension module exports the C API of llama.cpp; ./scripts/test does not run
this. The layouts below are those of its release 2026.10.11549 and are checked against the defaults they must hold."""
import argparse
import ctypes
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

MARGIN = 0.02
TOP = 5
SHOWN = 4   # positions, of a directory that disagrees


# --- llama.cpp -------------------------------------------------------------------------------------------------------

class ModelParams(ctypes.Structure):
    """llama_model_params: used as its defaults are, so only the size matters; passed by value, more than enough."""
    _fields_ = [("bytes", ctypes.c_uint8 * 512)]


class ContextParams(ctypes.Structure):
    """The head of llama_context_params; the rest is left as its defaults are."""
    _fields_ = [(name, ctypes.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max")] + \
        [("_1", ctypes.c_uint32 * 3), ("n_threads", ctypes.c_int32), ("n_threads_batch", ctypes.c_int32),
         ("_2", ctypes.c_int32 * 4), ("flash_attn_type", ctypes.c_int32), ("_3", ctypes.c_uint32 * 12),
         ("type_k", ctypes.c_int32), ("type_v", ctypes.c_int32), ("rest", ctypes.c_uint8 * 400)]
    DEFAULTS = {"n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_threads": 4, "n_threads_batch": 4,
                "flash_attn_type": -1, "type_k": 1, "type_v": 1}


class Batch(ctypes.Structure):
    """llama_batch"""
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def load_llama():
    package = pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent
    lib = ctypes.CDLL(str(next(package.glob("xllamacpp*.so"))))
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in [
            ("llama_backend_init", None, []), ("llama_model_default_params", ModelParams, []),
            ("llama_context_default_params", ContextParams, []), ("llama_batch_init", Batch, [number] * 3),
            ("llama_model_load_from_file", pointer, [ctypes.c_char_p, ModelParams]),
            ("llama_init_from_model", pointer, [pointer, ContextParams]), ("llama_decode", number, [pointer, Batch]),
            ("llama_model_get_vocab", pointer, [pointer]), ("llama_vocab_n_tokens", number, [pointer]),
            ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [pointer])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def llama_logits(file, ids):
    """[tokens][vocabulary]; ends the process when llama.cpp refuses the file, and says why on stderr."""
    lib = load_llama()
    lib.llama_backend_init()
    params = lib.llama_context_default_params()
    found = {name: getattr(params, name) for name in ContextParams.DEFAULTS}
    if found != ContextParams.DEFAULTS:
        sys.exit(f"error: this release lays out llama_context_params differently: {found}")
    model = lib.llama_model_load_from_file(str(file).encode(), lib.llama_model_default_params())
    if not model:
        sys.exit("error: not loaded")
    params.n_ctx = params.n_batch = params.n_ubatch = len(ids)
    params.flash_attn_type = params.type_k = params.type_v = 0     # none; f32
    context = lib.llama_init_from_model(model, params)
    if not context:
        sys.exit("error: no context")
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if lib.llama_decode(context, batch) != 0:
        sys.exit("error: llama_decode failed")
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    return np.ctypeslib.as_array(lib.llama_get_logits(context), (len(ids), n_vocab)).copy()


class Refused(Exception):
    pass


def their_logits(file, ids, work):
    """In a process of its own: llama.cpp aborts on what it does not expect."""
    out = work / "theirs.npy"
    command = [sys.executable, __file__, "--llama", str(file), str(out), ",".join(map(str, ids))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return np.load(out)
    lines = [line.strip() for line in done.stderr.splitlines()]
    telling = [line for line in lines if "error" in line or "ASSERT" in line]
    raise Refused((telling or lines or [f"exit status {done.returncode}"])[0])


# --- ferry -----------------------------------------------------------------------------------------------------------

def ferry(*arguments):
    """-> the lines of stderr"""
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 0:
        raise RuntimeError(lines[-1] if lines else f"exit status {done.returncode}")
    return lines


def our_logits(program, file, ids, work):
    out = work / "ours.f32"
    ferry(program, "run", "-m", file, "--prompt-ids", ",".join(map(str, ids)), "-n", 0, "-c", len(ids), "-ctk", "f32",
          "-ctv", "f32", "--logits-out", out)
    return np.fromfile(out, dtype="<f4").reshape(len(ids), -1)


# --- the comparison --------------------------------------------------------------------------------------------------

def compare(ours, theirs, golden):
    """-> the line's text, whether both rules hold, and a line for each position where one does not."""
    n = min(ours.shape[1], theirs.shape[1])
    ours, theirs = ours[:, :n], theirs[:, :n]
    if not np.isfinite(theirs).all() or not np.isfinite(ours).all():
        return "logits that are not finite", False, []
    difference = np.abs(ours - theirs).max() / np.abs(ours).max()
    first, first_same, five, five_same, wrong = 0, 0, 0, 0, []
    for pos, (a, b) in enumerate(zip(ours, theirs)):
        order_a, order_b, margin = np.argsort(-a), np.argsort(-b), MARGIN * np.abs(b).max()
        told = "" if golden is None else f", golden {np.argsort(-golden[pos, :n])[:TOP].tolist()}"
        if b[order_b[0]] - b[order_b[1]] > margin:
            first += 1
            same = order_a[0] == order_b[0]
            first_same += same
            if not same:
                wrong.append(f"  position {pos}: llama.cpp {order_b[0]}, ferry {order_a[0]}{told}")
        if b[order_b[TOP - 1]] - b[order_b[TOP]] > margin:
            five += 1
            same = set(order_a[:TOP]) == set(order_b[:TOP])
            five_same += same
            if not same:
                wrong.append(f"  position {pos}: llama.cpp {order_b[:TOP].tolist()}, "
                             f"ferry {order_a[:TOP].tolist()}{told}")
    text = (f"{len(ours):4} positions  first {first_same:3} of {first:3}  top {TOP} {five_same:3} of {five:3}  "
            f"largest difference {difference:.1e}")
    return text, not wrong, wrong


def check(program, folder, kind, work):
    """-> (verdict, text, lines below it)"""
    golden = load_file(folder / "golden.safetensors")
    ids, file = golden["input_ids"].tolist(), work / "model.gguf"
    try:
        said = ferry(program, "convert", folder, "--outtype", kind, "-o", file)
        warnings = [f"  {line}" for line in said if line.startswith("warning: ") and "other programs" in line]
        ours = our_logits(program, file, ids, work)
    except RuntimeError as e:
        return "NOT OURS", str(e), []
    try:
        theirs = their_logits(file, ids, work)
    except Refused as e:
        if "unknown model architecture" in str(e):
            return "ok", "not known to llama.cpp", []
        return "REFUSED", f"llama.cpp: {e}", []
    text, same, lines = compare(ours, theirs, golden.get("logits"))
    if same or warnings:
        return "ok" if same else "warned", text, [] if same else warnings
    lines = lines[:SHOWN]
    if kind != "f32":
        verdict, text_f32, _ = check(program, folder, "f32", work)
        lines.append(f"  with f32 weights: {verdict}  {text_f32.strip()}")
    return "DISAGREES", text, lines


def main():
    if sys.argv[1:2] == ["--llama"]:
        np.save(sys.argv[3], llama_logits(sys.argv[2], [int(i) for i in sys.argv[4].split(",")]))
        return 0
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("ferry", help="the program")
    args.add_argument("folders", type=pathlib.Path, nargs="+")
    args.add_argument("--outtype", default="f16", help="type of the weights; f32 shows what is not rounding [f16]")
    args = args.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for folder in args.folders:
            if not (folder / "golden.safetensors").exists():
                continue
            verdict, text, lines = check(args.ferry, folder, args.outtype, pathlib.Path(work))
            bad += verdict not in ("ok", "warned")
            print(f"{folder.name:18} {verdict:9}  {text}", *lines, sep="\n", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
