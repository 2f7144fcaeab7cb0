"""llama-server out of the package xllamacpp (pip install xllamacpp), with the options that tests/bench/server.sh gives.

usage: PYTHON llama_server.py -m FILE --port N -np SLOTS -c POSITIONS_OF_ALL_SLOTS -t THREADS | --version
"""
import argparse
import signal
import sys

import xllamacpp

if sys.argv[1:] == ["--version"]:
    build = xllamacpp.BUILD_INFO
    print("llama.cpp", build() if callable(build) else build, "(xllamacpp " + xllamacpp.__version__ + ")")
    system = xllamacpp.get_system_info
    print((system() if callable(system) else system).strip())
    sys.exit(0)
args = argparse.ArgumentParser()
args.add_argument("-m", required=True)
args.add_argument("--port", type=int, required=True)
args.add_argument("-np", type=int, required=True)
args.add_argument("-c", type=int, required=True)
args.add_argument("-t", type=int, required=True)
o = args.parse_args()

params = xllamacpp.CommonParams()
params.model.path = o.m
params.port = o.port
params.n_parallel = o.np
params.n_ctx = o.c
params.cpuparams.n_threads = o.t
params.cpuparams_batch.n_threads = o.t
params.warmup = True
params.kv_unified = False
server = xllamacpp.Server(params)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
