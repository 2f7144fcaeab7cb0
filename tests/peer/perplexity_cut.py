#!/usr/bin/env python3
"""Is `ferry eval --text TEXT --llama-cut` the perplexity that llama-perplexity prints?

    pip install xllamacpp safetensors numpy
    python tests/peer/perplexity_cut.py build/ferry tests/data/held.txt tests/data/tales tests/data/draft

Each checkpoint directory is converted to f32 and f16. llama.cpp then goes over the text as llama-perplexity does (llama.cpp,
tools/perplexity, of release 2026.10.11549): the text with its special tokens in pieces of 512, the rest left out; the first
token of a piece replaced by BOS where the vocabulary adds one; position 256 and what follows it predict the next token, 255
of them; softmax with the largest logit taken off, the sum in double. f32 KV cache, no flash attention, as `ferry eval`.

Same ids, same number of scored tokens, and the perplexities within --tolerance (1e-5 for f32 weights; llama.cpp rounds
activations to f16 where weights are f16: ten times that). Where `ferry convert` warns that other programs compute the model
wrongly, the perplexities may differ; otherwise the exit status is 1. ./scripts/test does not run this."""
import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import compare_logits as peer

N_CTX = 512
F16_FACTOR = 10


def load():
    lib = peer.load_llama()
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
    for name, result, arguments in [
            ("llama_tokenize", number, [pointer, ctypes.c_char_p, number, pointer, number, flag, flag]),
            ("llama_vocab_bos", number, [pointer]), ("llama_vocab_get_add_bos", flag, [pointer]),
            ("llama_get_memory", pointer, [pointer]), ("llama_memory_clear", None, [pointer, flag])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def tokenize(lib, vocab, text):
    ids = (ctypes.c_int32 * (len(text) + 8))()
    n = lib.llama_tokenize(vocab, text, len(text), ids, len(ids), True, False)
    if n < 0:
        sys.exit("error: llama_tokenize failed")
    return list(ids[:n])


def surprise(logits, targets):
    """Sum of -log softmax(logits)[target]; a row of logits for each target."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.log(np.exp(shifted).sum(axis=1, dtype=np.float64))
    return float((total - shifted[np.arange(len(targets)), targets]).sum())


def llama_perplexity(file, text):
    """-> (ids of the whole text, scored tokens, perplexity)"""
    lib = load()
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(str(file).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = N_CTX
    params.flash_attn_type = params.type_k = params.type_v = 0     # none; f32
    params.n_threads = params.n_threads_batch = 2
    context = lib.llama_init_from_model(model, params) if model else None
    if not context:
        sys.exit("error: not loaded")
    vocab = lib.llama_model_get_vocab(model)
    n_vocab, bos, ids = lib.llama_vocab_n_tokens(vocab), lib.llama_vocab_bos(vocab), tokenize(lib, vocab, text)
    batch, first, nll, count = lib.llama_batch_init(N_CTX, 0, 1), N_CTX // 2, 0.0, 0
    for start in range(0, len(ids) - N_CTX + 1, N_CTX):
        piece = ids[start:start + N_CTX]
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        batch.n_tokens = N_CTX
        for i, token in enumerate(piece):
            batch.token[i] = bos if i == 0 and lib.llama_vocab_get_add_bos(vocab) else token
            batch.pos[i], batch.n_seq_id[i], batch.logits[i] = i, 1, i >= first
            batch.seq_id[i][0] = 0
        if lib.llama_decode(context, batch) != 0:
            sys.exit("error: llama_decode failed")
        rows = np.ctypeslib.as_array(lib.llama_get_logits(context), (N_CTX - first, n_vocab))
        nll += surprise(rows[:-1].copy(), piece[first + 1:])
        count += N_CTX - first - 1
    return ids, count, float(np.exp(nll / count))


def ferry(*arguments):
    """-> stdout, stderr"""
    done = subprocess.run([str(a) for a in arguments], check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def check(program, text, folder, kind, tolerance, work):
    file = work / "model.gguf"
    _, said = ferry(program, "convert", folder, "--outtype", kind, "-o", file)
    theirs = json.loads(ferry(sys.executable, __file__, "--llama", file, text)[0])
    ours = json.loads(ferry(program, "eval", "-m", file, "--text", text, "--llama-cut", "-c", N_CTX, "--json", "-q")[0])
    ids = [int(i) for i in ferry(program, "tokenize", "-m", file, "--no-parse-special", "-f", text)[0].split()]
    apart = ours["perplexity"] / theirs["perplexity"] - 1
    same_ids = ids == theirs["ids"]
    same_count = same_ids and ours["tokens"] == theirs["tokens"]
    verdict = "ok" if same_count and abs(apart) <= tolerance else \
        "warned" if same_count and "other programs" in said else "DISAGREES"
    print(f"{folder.name:16} {kind:4} {verdict:9}  {len(theirs['ids'])} tokens{'' if same_ids else ' (other ids)'}, "
          f"scored {theirs['tokens']} and {ours['tokens']}, llama.cpp {theirs['perplexity']:.6f}, "
          f"ferry {ours['perplexity']:.6f}, apart {apart:+.1e}")
    return verdict != "DISAGREES"


def main():
    if sys.argv[1:2] == ["--llama"]:
        ids, count, perplexity = llama_perplexity(sys.argv[2], pathlib.Path(sys.argv[3]).read_bytes())
        print(json.dumps({"ids": ids, "tokens": count, "perplexity": perplexity}))
        return 0
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("ferry", help="the program")
    args.add_argument("text", type=pathlib.Path)
    args.add_argument("folders", nargs="+", type=pathlib.Path, help="checkpoint directories")
    args.add_argument("--tolerance", type=float, default=1e-5, help="relative, of f32 weights")
    o = args.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as work:
        for folder in o.folders:
            for kind, factor in (("f32", 1), ("f16", F16_FACTOR)):
                results.append(check(o.ferry, o.text, folder, kind, o.tolerance * factor, pathlib.Path(work)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
