#!/usr/bin/env python3
"""Does PowerInfer load the files that we write for it, and compute what we compute?

    git clone https://github.com/SJTU-IPADS/PowerInfer
    cmake -S PowerInfer -B PowerInfer/build -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Release
    cmake --build PowerInfer/build --target llama
    pip install numpy
    python tests/peer/powerinfer.py build/ferry PowerInfer/build/libllama.so

Models with predictors are converted and read by both: the trained ReLU demo in f16 and q4_0, and the same weights as
a Bamboo model whose predictors are among them; Falcon's file of the fixtures is read as it is. Each one with the
threshold that the file has, and with none, which computes all neurons. PowerInfer takes a prompt in one batch and then
the likeliest token again and again, one by one. ferry gets the same tokens, one by one: at each place it must find the
same one likeliest, so that its own greedy ids are those, and its logits must be within --tolerance of the largest.
Where a score is next to the threshold, rounding decides about the neuron: predicted logits are farther apart.
PowerInfer computes on one thread, since on several its sums are a race, and with keys and values in f32.

Split files of `ferry plan --hot` are read by PowerInfer's reader. With --source PowerInfer (and torch and cvxopt
installed) its own solver writes them, too: `ferry quantize --hot` must take them, and the hot neurons must be ours.

Tried with PowerInfer d3ebd7c. OPT is left out: PowerInfer loads none but those of 2050 positions. ./scripts/test does
not run this."""
import argparse
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

DATA = pathlib.Path(__file__).parent.parent / "data"
COUNTS, PREDICTORS = DATA / "sparse/relu/activation", DATA / "sparse/relu/predictor"


# --- PowerInfer ------------------------------------------------------------------------------------------------------

class ModelParams(ctypes.Structure):
    _fields_ = [("n_gpu_layers", ctypes.c_int32), ("main_gpu", ctypes.c_int32), ("vram_budget_gb", ctypes.c_float),
                ("tensor_split", ctypes.c_void_p), ("progress_callback", ctypes.c_void_p), ("user", ctypes.c_void_p),
                ("flags", ctypes.c_bool * 5)]


class ContextParams(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint32), ("n_ctx", ctypes.c_uint32), ("n_batch", ctypes.c_uint32),
                ("n_threads", ctypes.c_uint32), ("n_threads_batch", ctypes.c_uint32),
                ("rope_scaling_type", ctypes.c_int8), ("rope", ctypes.c_float * 6), ("yarn_orig_ctx", ctypes.c_uint32),
                ("mul_mat_q", ctypes.c_bool), ("f16_kv", ctypes.c_bool), ("logits_all", ctypes.c_bool),
                ("embedding", ctypes.c_bool)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
                ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
                ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8)),
                ("all_pos_0", ctypes.c_int32), ("all_pos_1", ctypes.c_int32), ("all_seq_id", ctypes.c_int32)]


class GgufParams(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


def load_library(path):
    lib = ctypes.CDLL(path)
    pointer, number, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p
    for name, result, arguments in [
            ("llama_backend_init", None, [ctypes.c_bool]), ("llama_model_default_params", ModelParams, []),
            ("llama_context_default_params", ContextParams, []), ("llama_batch_init", Batch, [number] * 3),
            ("llama_load_model_from_file", pointer, [text, ModelParams]), ("llama_n_vocab", number, [pointer]),
            ("llama_use_sparse_inference", ctypes.c_bool, [pointer]),
            ("llama_new_context_with_model", pointer, [pointer, ContextParams]),
            ("llama_decode", number, [pointer, Batch]),
            ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [pointer]),
            ("gguf_init_from_file", pointer, [text, GgufParams]), ("gguf_get_n_tensors", number, [pointer]),
            ("gguf_find_key", number, [pointer, text]), ("gguf_get_val_u64", ctypes.c_uint64, [pointer, number]),
            ("gguf_get_val_u32", ctypes.c_uint32, [pointer, number]), ("gguf_get_val_str", text, [pointer, number]),
            ("gguf_get_tensor_name", text, [pointer, number]), ("gguf_get_data_offset", ctypes.c_size_t, [pointer]),
            ("gguf_get_tensor_offset", ctypes.c_size_t, [pointer, number])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def powerinfer(library, file, ids, n):
    """-> logits of the prompt and of the n - 1 likeliest ids after it, and n such ids"""
    lib = load_library(library)
    lib.llama_backend_init(False)
    params = lib.llama_context_default_params()
    found = params.n_ctx, params.n_batch, params.n_threads, params.mul_mat_q, params.f16_kv, params.logits_all
    if found != (512, 512, 4, True, True, False):
        sys.exit(f"error: this version lays out llama_context_params differently: {found}")
    model = lib.llama_load_model_from_file(file.encode(), lib.llama_model_default_params())
    if not model:
        sys.exit("error: not loaded")
    if not lib.llama_use_sparse_inference(model):
        sys.exit("error: not read as a sparse model")
    params.n_ctx = params.n_batch = len(ids) + n
    params.n_threads = params.n_threads_batch = 1
    params.f16_kv, params.logits_all = False, True
    context = lib.llama_new_context_with_model(model, params)
    n_vocab, position, logits, out = lib.llama_n_vocab(model), 0, [], []
    batch = lib.llama_batch_init(len(ids), 0, 1)
    tokens = ids
    while len(out) < n:
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position + i, 1, 1
            batch.seq_id[i][0] = 0
        if lib.llama_decode(context, batch) != 0:
            sys.exit("error: llama_decode failed")
        rows = np.ctypeslib.as_array(lib.llama_get_logits(context), (len(tokens), n_vocab)).copy()
        logits.append(rows)
        position += len(tokens)
        tokens = [int(rows[-1].argmax())]
        out += tokens
    return np.concatenate(logits), out


def read_split(lib, file):
    """-> capacity, and the hot neurons of each layer, where PowerInfer's reader finds them"""
    g = lib.gguf_init_from_file(str(file).encode(), GgufParams(True, None))
    if not g:
        raise RuntimeError(f"PowerInfer does not read {file}")
    key = lambda name: lib.gguf_find_key(g, name.encode())
    if lib.gguf_get_val_str(g, key("general.architecture")) != b"generic.gpu_index":
        raise RuntimeError(f"{file}: another architecture")
    n_layer = lib.gguf_get_val_u32(g, key("generic.gpu_index.block_count"))
    n = lib.gguf_get_n_tensors(g)
    names = [lib.gguf_get_tensor_name(g, i).decode() for i in range(n)]
    if names != [f"blk.{i}.{what}" for i in range(n_layer) for what in ("gpu_idx", "gpu_bucket")]:
        raise RuntimeError(f"{file}: tensors {names}, which PowerInfer takes by their places")
    start = [lib.gguf_get_data_offset(g) + lib.gguf_get_tensor_offset(g, i) for i in range(n)]
    data, layers = file.read_bytes(), []
    for i in range(n_layer):
        marks = np.frombuffer(data[start[2 * i]:start[2 * i + 1]], "<i4")
        layers.append(np.frombuffer(data, "<i4", marks.sum(), start[2 * i + 1]))
        if (np.flatnonzero(marks == 1) != layers[-1]).any():
            raise RuntimeError(f"{file}: marks and list of layer {i} differ")
    return lib.gguf_get_val_u64(g, key("split.vram_capacity")), layers


# --- ferry -----------------------------------------------------------------------------------------------------------

def ferry(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ferry {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def ours(program, file, ids, sparse, work):
    ferry(program, "run", "-m", file, "--prompt-ids", ",".join(map(str, ids)), "-ctk", "f32", "-ctv", "f32", "-b", 1,
          "--sparse", sparse, "-c", len(ids), "-n", 0, "--logits-out", work / "ours.f32", "-q")
    return np.fromfile(work / "ours.f32", "<f4").reshape(len(ids), -1)


# --- models ----------------------------------------------------------------------------------------------------------

def read_safetensors(file):
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in head.items()}


def write_safetensors(file, tensors):
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def golden_ids(file):
    return np.frombuffer(read_safetensors(file)["input_ids"][2], "<i4").tolist()


def bamboo(work):
    """The demo's weights in another class, its predictors among them as TurboSparse has them."""
    source, folder = DATA / "relu", work / "bamboo"
    folder.mkdir()
    for name in "tokenizer.json", "tokenizer_config.json":
        (folder / name).write_bytes((source / name).read_bytes())
    config = json.loads((source / "config.json").read_text())
    config |= {"architectures": ["BambooForCausalLM"], "model_type": "bamboo", "sparse_threshold": -1.0}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = read_safetensors(source / "model.safetensors")
    for layer in range(config["num_hidden_layers"]):
        with zipfile.ZipFile(PREDICTORS / f"model_{layer}.pt") as file:
            parts = sorted((file.read(name) for name in file.namelist() if "/data/" in name), key=len)
        rank = len(parts[0]) // 2 // config["hidden_size"]
        for i, shape, data in ((1, [rank, config["hidden_size"]], parts[0]),
                               (2, [config["intermediate_size"], rank], parts[1])):
            tensors[f"model.layers.{layer}.mlp.predictor.fc{i}.weight"] = "F16", shape, data
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def models(program, work):
    """-> name, file, ids of a prompt"""
    relu = golden_ids(DATA / "sparse/relu/predicted.safetensors")
    for kind in "f16", "q4_0":
        file = work / f"relu-{kind}.powerinfer.gguf"
        ferry(program, "convert", DATA / "relu", "--outtype", kind, "--predictors", PREDICTORS, "-o", file)
        yield f"relu {kind}", file, relu
    folder, file = bamboo(work), work / "bamboo.powerinfer.gguf"
    ferry(program, "convert", folder, "--outtype", "f16", "--predictors", folder, "-o", file)
    yield "bamboo f16", file, relu
    falcon = DATA / "sparse/falcon"
    yield "falcon f16", falcon / "model.powerinfer.gguf", golden_ids(falcon / "golden.safetensors")


# --- the comparison --------------------------------------------------------------------------------------------------

def compare(args, name, file, ids, threshold, work):
    """In a process of its own: PowerInfer keeps its threshold in the process, and aborts on what it does not expect."""
    command = [sys.executable, __file__, "--theirs", args.library, str(file), ",".join(map(str, ids)), str(args.n),
               str(work / "theirs.npy")]
    env = os.environ | ({} if threshold is None else {"LLAMA_SPARSE_PRED_THRESHOLD": threshold})
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "rror" in line or "ASSERT" in line]
        print(f"{name}: REFUSED by PowerInfer: {lines[0] if lines else done.returncode}")
        return False
    theirs, found = np.load(work / "theirs.npy"), json.loads(done.stdout.splitlines()[-1])
    logits = ours(args.ferry, file, ids + found[:-1], "predict" if threshold is None else "off", work)
    n = min(theirs.shape[1], logits.shape[1])
    difference = np.abs(theirs[:, :n] - logits[:, :n]).max() / np.abs(logits).max()
    same = (logits[len(ids) - 1:].argmax(1) == found).sum()
    good = same == args.n and difference <= args.tolerance
    print(f"{name:12} {'predicted' if threshold is None else 'all':10} {'ok' if good else 'DISAGREES':10} "
          f"{len(logits)} positions, largest difference {difference:.1e}, {same} of {args.n} ids equal", flush=True)
    return good


def check_split(args, lib, plain, n_hot, work):
    """-> hot neurons of each layer, by our plan and by PowerInfer's solver; the latter None without --source"""
    file, theirs = work / "ours.gpuidx", work / "theirs.gpuidx"
    ferry(args.ferry, "plan", plain, "--hot", n_hot, "--activations", COUNTS, "-o", file)
    capacity, layers = read_split(lib, file)
    if args.source is None:
        return layers, None
    path = os.pathsep.join(str(args.source / part) for part in ("powerinfer-py", "gguf-py"))
    subprocess.run([sys.executable, "-m", "powerinfer", "--activation", COUNTS, "--neuron", "1024", "--capacity",
                    str(n_hot), "--layer", "4", "--vram-capacity", str(capacity), "--output", theirs],
                   check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path})
    ferry(args.ferry, "quantize", plain, work / "hot.gguf", "f16", "--transpose-down", "--hot", theirs)
    return layers, read_split(lib, theirs)[1]


def check_splits(args, work):
    lib, plain, good = load_library(args.library), work / "plain.gguf", True
    ferry(args.ferry, "convert", DATA / "relu", "--outtype", "f16", "-o", plain)
    for n_hot in 2048, 256:     # in all layers, and in one
        layers, solved = check_split(args, lib, plain, n_hot, work)
        same = solved is None or [list(x) for x in solved] == [list(x) for x in layers]
        print(f"split file   {n_hot:10} {'ok' if same else 'DISAGREES':10} hot by layer {[len(x) for x in layers]}"
              f"{'' if solved is None else f', by the solver {[len(x) for x in solved]}'}")
        good &= same
    return good


def main():
    if sys.argv[1:2] == ["--theirs"]:
        library, file, ids, n, out = sys.argv[2:]
        logits, following = powerinfer(library, file, [int(i) for i in ids.split(",")], int(n))
        np.save(out, logits)
        print(json.dumps(following))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ferry", help="the program")
    parser.add_argument("library", help="PowerInfer's libllama.so")
    parser.add_argument("--source", type=pathlib.Path, help="PowerInfer's repository, for its solver")
    parser.add_argument("-n", type=int, default=100, help="ids after each prompt [100]")
    parser.add_argument("--tolerance", type=float, default=3e-2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        good = [compare(args, name, file, ids, threshold, work) for name, file, ids in models(args.ferry, work)
                for threshold in (None, "-inf")]
        good.append(check_splits(args, work))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
