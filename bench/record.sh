#!/bin/sh
# Measures this machine and records it as bench/results/cpu-NAME.jsonl, in some minutes of
# a machine that does nothing else:
#
#     bench/record.sh NAME [LIB]
#
# With LIB, a folder of libggml*.so from bench/peers/build_llamacpp.sh, llama.cpp is measured
# in the same rounds. Tables of what was recorded:
#
#     go run ./bench/table bench/results/cpu-NAME.jsonl
#
# Where FLASHDEC_SMOLLM is the path of SmolLM2-135M-Instruct.Q4_1.gguf, tokens a second
# against context are recorded, too, in cpu-NAME-model.jsonl; with LLAMACPP_PYTHON, a
# Python that has llama-cpp-python, beside llama.cpp.
set -eu
name=${1:?usage: $0 NAME [LIB]}
cd "$(dirname "$0")/.."
out=bench/results/cpu-$name.jsonl
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

CGO_ENABLED=0 go build -buildvcs=true -o "$bin/flashdec" ./cmd/flashdec
if [ -n "${FLASHDEC_SMOLLM:-}" ]; then
  "$bin/flashdec" bench --model "$FLASHDEC_SMOLLM" --json \
    ${LLAMACPP_PYTHON:+--peer "$LLAMACPP_PYTHON bench/peers/llamacpp_model.py"} >"bench/results/cpu-$name-model.jsonl"
fi
"$bin/flashdec" bench --suite peers --rounds 15 --json ${2:+--peer "python3 bench/peers/llamacpp.py $2"} >"$out"
"$bin/flashdec" bench --suite types,levels,lengths,ragged,pages,invariant,window,blog,decode,threads --json >>"$out"
echo "recorded $(wc -l <"$out") rows in $out" >&2
