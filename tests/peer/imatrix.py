#!/usr/bin/env python3
"""Does `ferry eval --imatrix-out` collect what llama-imatrix collects?

    pip install xllamacpp safetensors numpy gguf
    python tests/peer/imatrix.py build/ferry tests/data/held.txt tests/data/tales tests/data/families/{mixtral,qwen2moe}

Each checkpoint directory is converted to f32 and f16. llama.cpp then goes over the text as llama-imatrix does (llama.cpp,
tools/imatrix, with xllamacpp's release 2026.10.11549): the text with its special tokens in pieces of 512, the rest left out,
the first token of a piece replaced by BOS where the vocabulary adds one; of every product with a tensor called blk.*, the
second operand's squares are added up by column, for experts by the expert that each token chose. f32 KV cache, no flash
attention, as `ferry eval`. ferry's file is read with the gguf package.

Same tensors, same shapes, same counts, and every sum within --tolerance (1e-3 for f32 weights, because llama.cpp looks GELU
up in a table of f16; it rounds activations to f16 where weights are f16: thirty times that), relative, or to a thousandth of
the matrix's mean where it is smaller. Experts' counts may differ by 0.1 % with f16. Where `ferry convert` warns that other
programs compute the model wrongly, or llama.cpp does not know the architecture, there may be differences; otherwise the exit
status is 1. --show NAME:COLUMN prints what llama.cpp found, for tests/e2e/imatrix.sh. ./scripts/test does not run this."""
import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

import perplexity_cut as cut

F16_FACTOR = 30
F16_COUNTS = 1e-3
SHOWN = 4           # tensors that are apart
DOES_NOT_FIT = 3    # exit status: pieces are longer than the context


class Tensor(ctypes.Structure):
    """The head of ggml_tensor, and its name."""


Tensor._fields_ = [
    ("type", ctypes.c_int32), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int32), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64)]
Watch = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Tensor), ctypes.c_bool, ctypes.c_void_p)


def array(tensor, kind):
    """The elements, slowest dimension first; a view with the tensor's strides."""
    ne, nb = list(tensor.ne)[::-1], list(tensor.nb)[::-1]
    last = sum((n - 1) * b for n, b in zip(ne, nb)) + np.dtype(kind).itemsize
    memory = np.ctypeslib.as_array(ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_uint8)), (last,))
    return np.lib.stride_tricks.as_strided(memory[:last // 4 * 4].view(kind), ne, nb)


class Collector:
    def __init__(self, lib):
        lib.ggml_op_name.restype, lib.ggml_op_name.argtypes = ctypes.c_char_p, [ctypes.c_int]
        self.op_name, self.sums, self.counts = lib.ggml_op_name, {}, {}
        self.watch = Watch(self.see)

    def see(self, pointer, ask, _):
        t = pointer.contents
        op = self.op_name(t.op)
        if op not in (b"MUL_MAT", b"MUL_MAT_ID"):
            return False
        w, x = t.src[0].contents, t.src[1].contents
        name = w.name.decode().split("#")[-2 if w.name.count(b"#") > 1 else -1]
        if not name.startswith("blk.") or x.type != 0 or (op == b"MUL_MAT" and x.ne[1] < 16):
            return False
        if ask:
            return True
        n_mat = w.ne[2] * w.ne[3]
        sums = self.sums.setdefault(name, np.zeros((n_mat, w.ne[0])))
        counts = self.counts.setdefault(name, np.zeros(n_mat, dtype=np.int64))
        squares = array(x, "<f4").astype(np.float64) ** 2
        if op == b"MUL_MAT":
            sums[0] += squares.reshape(-1, w.ne[0]).sum(axis=0)
            counts[0] += squares.size // w.ne[0]
            return True
        squares = squares[0]                                   # [tokens][1 or chosen][columns]
        ids = array(t.src[2].contents, "<i4")[0, 0]            # [tokens][chosen]
        for expert in range(n_mat):
            token, place = np.nonzero(ids == expert)
            sums[expert] += squares[token, place % squares.shape[1]].sum(axis=0)
            counts[expert] += len(token)
        return True


class Params(ctypes.Structure):
    """llama_context_params with the callback, as compare_logits.py lays it out."""
    _fields_ = [(n, t) if n != "_3" else (n, ctypes.c_uint32 * 8) for n, t in cut.peer.ContextParams._fields_[:10]] + \
        [("watch", ctypes.c_void_p), ("watch_user", ctypes.c_void_p)] + cut.peer.ContextParams._fields_[10:]


def llama_imatrix(file, text, out):
    lib = cut.load()
    lib.llama_backend_init()
    collector = Collector(lib)
    model = lib.llama_model_load_from_file(str(file).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = cut.N_CTX
    params.flash_attn_type = params.type_k = params.type_v = 0     # none; f32
    Params.from_buffer(params).watch = ctypes.cast(collector.watch, ctypes.c_void_p).value
    context = lib.llama_init_from_model(model, params) if model else None
    if not context:
        sys.exit("error: not loaded")
    vocab = lib.llama_model_get_vocab(model)
    bos, ids = lib.llama_vocab_bos(vocab), cut.tokenize(lib, vocab, text)
    batch = lib.llama_batch_init(cut.N_CTX, 0, 1)
    for start in range(0, len(ids) - cut.N_CTX + 1, cut.N_CTX):
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        batch.n_tokens = cut.N_CTX
        for i, token in enumerate(ids[start:start + cut.N_CTX]):
            batch.token[i] = bos if i == 0 and lib.llama_vocab_get_add_bos(vocab) else token
            batch.pos[i], batch.n_seq_id[i], batch.logits[i] = i, 1, 1
            batch.seq_id[i][0] = 0
        if lib.llama_decode(context, batch) != 0:
            sys.exit("error: llama_decode failed")
    arrays = {name + ".in_sum2": sums for name, sums in collector.sums.items()}
    np.savez(out, **arrays, **{name + ".counts": counts for name, counts in collector.counts.items()})


def compare(ours, theirs, tolerance, count_tolerance):
    """-> largest distance of sums and of counts, and a line for each tensor that is apart."""
    wrong = [f"{name} is only in {which}" for which, a, b in (("ferry's", ours, theirs), ("llama.cpp's", theirs, ours))
             for name in sorted(a.keys() - b.keys())]
    worst = {".in_sum2": 0.0, ".counts": 0.0}
    for name in sorted(ours.keys() & theirs.keys()):
        a, b = ours[name], theirs[name].reshape(len(theirs[name]), -1)
        shape = b.shape if len(b) > 1 else b.shape[1:]         # ggml drops a last dimension of 1
        if a.shape != shape:
            wrong.append(f"{name}: {a.shape}, llama.cpp's {shape}")
            continue
        kind = name[name.rindex("."):]
        limit = tolerance if kind == ".in_sum2" else count_tolerance
        least = b.mean(axis=1, keepdims=True) * 1e-3 if kind == ".in_sum2" else 1
        apart = float((np.abs(a - b) / np.maximum(np.maximum(b, least), 1e-30)).max())
        worst[kind] = max(worst[kind], apart)
        if apart > limit:
            wrong.append(f"{name}: apart by {apart:.1e}")
    return worst[".in_sum2"], worst[".counts"], wrong


def check(o, folder, kind, work):
    file, mine, theirs = work / "model.gguf", work / "ours.gguf", work / "theirs.npz"
    exact = kind == "f32"
    _, said = cut.ferry(o.ferry, "convert", folder, "--outtype", kind, "-o", file)
    try:
        cut.ferry(o.ferry, "eval", "-m", file, "--text", o.text, "--llama-cut", "--imatrix-out", mine, "-q")
    except subprocess.CalledProcessError as e:
        print(f"{folder.name:16} {kind:4} {'skipped' if e.returncode == DOES_NOT_FIT else 'FAILS'}   {e.stderr.strip()}")
        return e.returncode == DOES_NOT_FIT
    done = subprocess.run([sys.executable, __file__, "--llama", file, o.text, theirs], capture_output=True, text=True)
    if done.returncode != 0:
        unknown = "unknown model architecture" in done.stderr
        print(f"{folder.name:16} {kind:4} {'unknown' if unknown else 'REFUSED':9} by llama.cpp")
        return unknown
    reader = gguf.GGUFReader(mine)
    ours = {t.name: np.asarray(t.data, dtype=np.float64) for t in reader.tensors}
    theirs = dict(np.load(theirs))
    sums, counts, wrong = compare(ours, theirs, o.tolerance * (1 if exact else F16_FACTOR), 0 if exact else F16_COUNTS)
    order = [t.name for t in reader.tensors]
    if order != [n + s for n in sorted({n.rsplit(".", 1)[0] for n in order}) for s in (".in_sum2", ".counts")]:
        wrong.append("the tensors are not in llama-imatrix's order")
    chunks = int(reader.fields["imatrix.chunk_count"].contents()) * int(reader.fields["imatrix.chunk_size"].contents())
    if chunks != max(c.max() for n, c in theirs.items() if n.endswith(".counts")):
        wrong.append(f"{chunks} tokens of chunks")
    verdict = "ok" if not wrong else "warned" if "other programs" in said else "DISAGREES"
    print(f"{folder.name:16} {kind:4} {verdict:9} {len(ours) // 2} tensors, sums apart {sums:.1e}, "
          f"counts {counts:.1e}")
    for line in wrong[:SHOWN]:
        print("   ", line)
    for place in o.show if exact else []:
        name, column = place.rsplit(":", 1)
        print(f"    {place} {json.dumps(theirs[name + '.in_sum2'][:, int(column)].tolist())} of "
              f"{theirs[name + '.counts'].tolist()}")
    return verdict != "DISAGREES"


def main():
    if sys.argv[1:2] == ["--llama"]:
        llama_imatrix(sys.argv[2], pathlib.Path(sys.argv[3]).read_bytes(), sys.argv[4])
        return 0
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("ferry", help="the program")
    args.add_argument("text", type=pathlib.Path)
    args.add_argument("folders", nargs="+", type=pathlib.Path, help="checkpoint directories")
    args.add_argument("--tolerance", type=float, default=1e-3, help="relative, of f32 weights")
    args.add_argument("--show", action="append", default=[], metavar="NAME:COLUMN")
    o = args.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as work:
        for folder in o.folders:
            for kind in ("f32", "f16"):
                results.append(check(o, folder, kind, pathlib.Path(work)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
