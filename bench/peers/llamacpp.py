#!/usr/bin/env python3
"""Decode attention of llama.cpp on the CPU: ggml_flash_attn_ext from libggml, called
through ctypes, one query, keys and values head-major (each head's keys together, which
it reads five times faster than its own caches' order).

As a peer, it is measured in the same rounds as flashdec, a request a line on stdin:

    flashdec bench --suite peers --json --peer "python3 bench/peers/llamacpp.py LIB"

Alone, it prints rows in the form of `flashdec bench --json`:

    python3 bench/peers/llamacpp.py LIB --rows [--len 65536] [--rounds 9]

LIB is the folder of libggml*.so; bench/peers/build_llamacpp.sh makes one.
"""

import argparse
import array
import ctypes
import json
import math
import os
import random
import statistics
import sys
import time

# flashdec's type: (ggml's name, its number in ggml.h)
TYPES = {"f32": ("f32", 0), "f16": ("f16", 1), "bf16": ("bf16", 30), "int8": ("q8_0", 8)}


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class GGML:
    """The functions used here, with their types."""

    def __init__(self, folder):
        try:
            self.base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"), ctypes.RTLD_GLOBAL)
            self.cpu = ctypes.CDLL(os.path.join(folder, "libggml-cpu.so"), ctypes.RTLD_GLOBAL)
        except OSError as missing:
            raise SystemExit(f"{__file__}: {missing}; bench/peers/build_llamacpp.sh makes LIB") from None
        ptr, i64, f32, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_size_t
        for lib, name, result, args in [
            (self.base, "ggml_init", ptr, [InitParams]),
            (self.base, "ggml_free", None, [ptr]),
            (self.base, "ggml_new_tensor_3d", ptr, [ptr, ctypes.c_int, i64, i64, i64]),
            (self.base, "ggml_get_data", ptr, [ptr]),
            (self.base, "ggml_nbytes", size, [ptr]),
            (self.base, "ggml_row_size", size, [ctypes.c_int, i64]),
            (self.base, "ggml_quantize_chunk", size, [ctypes.c_int, ptr, ptr, i64, i64, i64, ptr]),
            (self.base, "ggml_flash_attn_ext", ptr, [ptr, ptr, ptr, ptr, ptr, f32, f32, f32]),
            (self.base, "ggml_new_graph", ptr, [ptr]),
            (self.base, "ggml_build_forward_expand", None, [ptr, ptr]),
            (self.base, "ggml_backend_graph_compute", ctypes.c_int, [ptr, ptr]),
            (self.cpu, "ggml_backend_cpu_init", ptr, []),
            (self.cpu, "ggml_backend_cpu_set_n_threads", None, [ptr, ctypes.c_int]),
        ]:
            function = getattr(lib, name)
            function.restype, function.argtypes = result, args
            setattr(self, name, function)
        self.backend = self.ggml_backend_cpu_init()

    def features(self):
        names = "avx2", "fma", "f16c", "avx512", "avx512_vnni", "avx512_bf16"
        return [n for n in names if getattr(self.cpu, "ggml_cpu_has_" + n)()]


class Case:
    """One decode step with its memory, which is filled, and so touched, here."""

    def __init__(self, ggml, dtype, q_heads, kv_heads, keys, dim):
        self.ggml = ggml
        self.type = TYPES[dtype][1]
        self.kv_bytes = 2 * kv_heads * keys * ggml.ggml_row_size(self.type, dim)
        room = self.kv_bytes + (q_heads * dim * 8) + (64 << 20)
        self.ctx = ggml.ggml_init(InitParams(room, None, False))
        self.q = ggml.ggml_new_tensor_3d(self.ctx, 0, dim, 1, q_heads)
        self.k = ggml.ggml_new_tensor_3d(self.ctx, self.type, dim, keys, kv_heads)
        self.v = ggml.ggml_new_tensor_3d(self.ctx, self.type, dim, keys, kv_heads)
        for seed, tensor, kind in (1, self.q, 0), (2, self.k, self.type), (3, self.v, self.type):
            self.fill(tensor, kind, dim, seed)
        self.out = ggml.ggml_flash_attn_ext(self.ctx, self.q, self.k, self.v, None, dim**-0.5, 0.0, 0.0)
        self.graph = ggml.ggml_new_graph(self.ctx)
        ggml.ggml_build_forward_expand(self.graph, self.out)

    def fill(self, tensor, kind, dim, seed):
        """A block of an odd number of random rows, again and again."""
        rng, rows = random.Random(seed), 509
        numbers = array.array("f", (rng.gauss(0, 1) for _ in range(rows * dim)))
        block = ctypes.create_string_buffer(rows * self.ggml.ggml_row_size(kind, dim))
        self.ggml.ggml_quantize_chunk(kind, numbers.buffer_info()[0], block, 0, rows, dim, None)
        size, data = self.ggml.ggml_nbytes(tensor), self.ggml.ggml_get_data(tensor)
        for at in range(0, size, len(block)):
            ctypes.memmove(data + at, block, min(len(block), size - at))

    def seconds(self, threads):
        self.ggml.ggml_backend_cpu_set_n_threads(self.ggml.backend, threads)
        start = time.perf_counter()
        status = self.ggml.ggml_backend_graph_compute(self.ggml.backend, self.graph)
        end = time.perf_counter()
        if status != 0:
            raise RuntimeError(f"ggml_backend_graph_compute returned {status}")
        return end - start

    def floats(self, tensor):
        n = self.ggml.ggml_nbytes(tensor) // 4
        return list(ctypes.cast(self.ggml.ggml_get_data(tensor), ctypes.POINTER(ctypes.c_float))[:n])

    def close(self):
        self.ggml.ggml_free(self.ctx)


def check(ggml):
    """What is timed is attention: a small case against the direct softmax."""
    heads, kv_heads, keys, dim = 4, 2, 24, 64
    case = Case(ggml, "f32", heads, kv_heads, keys, dim)
    case.seconds(1)
    q, k, v, out = (case.floats(t) for t in (case.q, case.k, case.v, case.out))
    case.close()
    for h in range(heads):
        rows = [(h // (heads // kv_heads) * keys + j) * dim for j in range(keys)]
        scores = [sum(q[h * dim + d] * k[r + d] for d in range(dim)) / math.sqrt(dim) for r in rows]
        weights = [math.exp(s - max(scores)) for s in scores]
        for d in range(dim):
            want = sum(w * v[r + d] for w, r in zip(weights, rows)) / sum(weights)
            if not abs(out[h * dim + d] - want) < 1e-3:
                raise SystemExit(f"ggml_flash_attn_ext: head {h}, element {d} is {out[h * dim + d]}, want {want}")


def serve(ggml):
    kernel = "ggml " + " ".join(ggml.features())
    case = key = None
    for line in sys.stdin:
        r = json.loads(line)
        if r["kv_dtype"] not in TYPES:
            print(json.dumps({"missing": "no such type"}), flush=True)
            continue
        if key != (key := (r["kv_dtype"], r["q_heads"], r["kv_heads"], r["len"], r["dim"])):
            if case:
                case.close()
            case = Case(ggml, *key)
        answer = dict(impl="llama.cpp", kv_dtype=TYPES[r["kv_dtype"]][0], kv_bytes=case.kv_bytes, seconds=case.seconds(r["threads"]), kernel=kernel)
        print(json.dumps(answer), flush=True)


def rows(ggml, keys, rounds):
    for dtype, (name, _) in TYPES.items():
        case = Case(ggml, dtype, 32, 8, keys, 128)
        for threads in sorted({1, os.cpu_count()}):
            case.seconds(threads)
            times = [case.seconds(threads) for _ in range(rounds)]
            median = statistics.median(times)
            print(json.dumps(dict(
                suite="peers", case=f"{dtype}, 32/8 heads, {keys} keys, dim 128", backend="cpu", kernel="ggml " + " ".join(ggml.features()), impl="llama.cpp",
                batch=1, q_heads=32, kv_heads=8, key_dim=128, value_dim=128, len=keys, q_len=1, kv_dtype=name, page_size=0, threads=threads,
                splits=0, seconds=median, seconds_min=min(times), kv_bytes=case.kv_bytes, bytes_per_second=case.kv_bytes / median, gpus=0,
                command="python3 bench/peers/llamacpp.py LIB --rows",
            )), flush=True)
        case.close()


def main():
    args = argparse.ArgumentParser()
    args.add_argument("lib")
    args.add_argument("--rows", action="store_true")
    args.add_argument("--len", type=int, default=65536)
    args.add_argument("--rounds", type=int, default=9)
    args = args.parse_args()
    ggml = GGML(args.lib)
    check(ggml)
    if args.rows:
        rows(ggml, args.len, args.rounds)
    else:
        serve(ggml)


if __name__ == "__main__":
    main()
