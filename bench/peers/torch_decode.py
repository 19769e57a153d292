#!/usr/bin/env python3
"""Decode attention of PyTorch (cuDNN and FlashAttention-2) and, where the package
fa3-fwd is installed, FlashAttention-3 (bf16 alone, as it is built), timed as internal/cuda's
TestMeasure times ours: replay of a CUDA graph with many calls over rotating inputs
that together exceed the L2 cache, the median of the replays divided by the calls.

    python3 bench/peers/torch_decode.py --out bench/results/gpu-torch.jsonl

One JSON object a line, in the form of `flashdec bench --json`. Wants PyTorch with CUDA:

    pip install torch
"""

import argparse
import json
import statistics
import sys

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

DECODE = [
    (1, 32, 8, 1024, 128), (1, 32, 8, 4096, 128), (1, 32, 8, 16384, 128), (1, 32, 8, 65536, 128),
    (1, 32, 8, 131072, 128), (1, 32, 8, 524288, 128), (1, 32, 8, 1048576, 128),
    (1, 64, 8, 16384, 128), (1, 32, 32, 4096, 128), (16, 32, 8, 4096, 128), (64, 32, 8, 4096, 128),
    (128, 32, 8, 1024, 128), (16, 64, 8, 16384, 128), (1, 9, 3, 8192, 64), (8, 16, 2, 32768, 256),
]
BLOG = [(256, 256), (128, 512), (64, 1024), (32, 2048), (16, 4096), (8, 8192), (4, 16384), (2, 32768), (1, 65536), (1, 131072)]
BACKENDS = {"torch-cudnn": SDPBackend.CUDNN_ATTENTION, "torch-fa2": SDPBackend.FLASH_ATTENTION}

try:
    from fa3_fwd_interface import flash_attn_with_kvcache
except (ImportError, OSError) as e:
    print("no FlashAttention-3:", e, file=sys.stderr)
    flash_attn_with_kvcache = None
BEYOND_L2 = 400 << 20


def cases():
    for c in DECODE:
        yield ("decode", "[" + " ".join(map(str, c)) + "]", torch.bfloat16, *c)
    for b, n in BLOG:
        yield ("blog", f"{b}x{n}", torch.float16, b, 16, 2, n, 128)


def inputs(b, hq, hkv, n, d, dtype):
    """As many sets as exceed L2, at least two."""
    size = 2 * b * hkv * n * d * 2
    sets = max(2, -(-BEYOND_L2 // size))
    return size, [
        (
            torch.randn(b, hq, 1, d, device="cuda", dtype=dtype),
            torch.randn(b, hkv, n, d, device="cuda", dtype=dtype),
            torch.randn(b, hkv, n, d, device="cuda", dtype=dtype),
        )
        for _ in range(sets)
    ]


def scaled_dot_product(backend):
    def call(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return call


def flash_attention_3(q, k, v):
    return flash_attn_with_kvcache(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def implementations(dtype):
    for name, backend in BACKENDS.items():
        yield name, scaled_dot_product(backend)
    if flash_attn_with_kvcache and dtype == torch.bfloat16:
        yield "fa3", flash_attention_3


def seconds(call, sets, size):
    launches = max(4, min(200, int(2e-3 * 4e12) // size))
    launches = -(-launches // len(sets)) * len(sets)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in sets[:2]:
            call(*s)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(launches):
            call(*sets[i % len(sets)])
    times, total = [], 0.0
    while len(times) < 5 or (total < 30 and len(times) < 60):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        ms = start.elapsed_time(end)
        total += ms
        times.append(ms / 1e3 / launches)
    times = times[1:]  # the first warms up
    return statistics.median(times), min(times)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--out", required=True)
    args.add_argument("--commit", default="")
    args = args.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit(f"{__file__}: no GPU that torch {torch.__version__} can compute on")
    device = torch.cuda.get_device_name()
    with open(args.out, "w") as out:
        for suite, name, dtype, b, hq, hkv, n, d in cases():
            size, sets = inputs(b, hq, hkv, n, d, dtype)
            for impl, call in implementations(dtype):
                try:
                    median, least = seconds(call, sets, size)
                except RuntimeError as e:
                    print(f"{suite} {name} {impl}: {str(e).splitlines()[0]}", file=sys.stderr)
                    continue
                row = dict(
                    suite=suite, case=name, backend="torch " + torch.__version__, impl=impl, batch=b, q_heads=hq, kv_heads=hkv,
                    key_dim=d, value_dim=d, len=n, q_len=1, kv_dtype={torch.bfloat16: "bf16", torch.float16: "f16"}[dtype],
                    seconds=median, seconds_min=least, kv_bytes=size, bytes_per_second=size / median, gpus=1, device=device,
                    commit=args.commit, command=" ".join(sys.argv),
                )
                print(json.dumps(row), file=out, flush=True)
                print(f"{suite:8} {name:26} {impl:12} {median * 1e6:9.2f} us  {size / median / 1e12:.2f} TB/s", flush=True)
            del sets
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
