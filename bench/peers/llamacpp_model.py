#!/usr/bin/env python3
"""Decode steps of llama.cpp on the CPU, and prompts that it reads, through llama-cpp-python, measured in the
same rounds as flashdec's, a request a line on stdin:

    pip install llama-cpp-python==0.3.36
    flashdec bench --model MODEL.gguf --json --peer "python3 bench/peers/llamacpp_model.py"

The cache is filled by reading made-up text once, as far as the longest context; steps are taken at its end,
and taken back.
"""

import ctypes
import json
import os
import sys
import time

try:
    import llama_cpp as lib
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

STEPS = 4  # a request, as flashdec takes in a round
TYPES = {"f32": 0, "f16": 1}
LARGEST = int(os.environ.get("LLAMACPP_CONTEXT", "8192"))


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def silent(level, text, data):
    pass


class Decoder:
    """A model and one sequence."""

    def __init__(self, path, kv_dtype):
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot open {path}")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch = LARGEST + STEPS, 512
        params.type_k = params.type_v = TYPES[kv_dtype]
        self.context = lib.llama_init_from_model(self.model, params)
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.memory = lib.llama_get_memory(self.context)
        config = lib.llama_model_n_layer(self.model), lib.llama_model_n_head_kv(self.model), lib.llama_model_n_embd(self.model) // lib.llama_model_n_head(self.model)
        self.token_bytes = 2 * config[0] * config[1] * config[2] * {0: 4, 1: 2}[TYPES[kv_dtype]]
        self.tokens = 0

    def decode(self, ids):
        array = (lib.llama_token * len(ids))(*ids)
        if lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(ids))) != 0:
            raise SystemExit("llama.cpp cannot decode")
        lib.llama_synchronize(self.context)
        self.tokens += len(ids)

    def fill(self, tokens):
        """Reads text until the sequence has that many tokens, or takes tokens back."""
        if tokens < self.tokens:
            lib.llama_memory_seq_rm(self.memory, 0, tokens, -1)
            self.tokens = tokens
        every = os.cpu_count()
        lib.llama_set_n_threads(self.context, every, every)
        self.read(tokens)

    def prompt(self, tokens, threads):
        """Reads a prompt from nothing on, with the logits of its last token."""
        lib.llama_memory_clear(self.memory, True)
        self.tokens = 0
        lib.llama_set_n_threads(self.context, threads, threads)
        start = time.perf_counter()
        self.read(tokens)
        return time.perf_counter() - start

    def read(self, tokens):
        """Reads text until the sequence has that many tokens."""
        while self.tokens < tokens:
            n = min(512, tokens - self.tokens)
            self.decode([(self.tokens + i) * 31 % self.vocabulary for i in range(n)])

    def steps(self, tokens, threads):
        self.fill(tokens - 1)
        lib.llama_set_n_threads(self.context, threads, threads)
        start = time.perf_counter()
        for _ in range(STEPS):
            self.decode([0])
        seconds = (time.perf_counter() - start) / STEPS
        self.fill(tokens - 1)
        return seconds


def main():
    lib.llama_log_set(silent, None)
    system = lib.llama_print_system_info().decode()
    kernel = "avx512" if "AVX512 = 1" in system else "avx2" if "AVX2 = 1" in system else "other"
    decoders = {}
    for line in sys.stdin:
        ask = json.loads(line)
        tokens = ask.get("prompt", ask.get("context", 0))
        if "model" not in ask or ask["kv_dtype"] not in TYPES or tokens > LARGEST or not os.path.isfile(ask["model"]):
            print(json.dumps({"missing": "it computes GGUF models with f32 or f16 caches, up to LLAMACPP_CONTEXT tokens"}), flush=True)
            continue
        key = ask["model"], ask["kv_dtype"]
        if key not in decoders:
            decoders[key] = Decoder(*key)
        measure = decoders[key].prompt if "prompt" in ask else decoders[key].steps
        seconds = measure(tokens, ask["threads"])
        print(json.dumps({"impl": "llama.cpp", "kernel": kernel, "kv_dtype": ask["kv_dtype"], "kv_bytes": decoders[key].token_bytes * tokens, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
