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
set -eu
name=${1:?usage: $0 NAME [LIB]}
cd "$(dirname "$0")/.."
out=bench/results/cpu-$name.jsonl
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

CGO_ENABLED=0 go build -buildvcs=true -o "$bin/flashdec" ./cmd/flashdec
"$bin/flashdec" bench --suite peers --rounds 15 --json ${2:+--peer "python3 bench/peers/llamacpp.py $2"} >"$out"
"$bin/flashdec" bench --suite types,levels,lengths,ragged,pages,invariant,window,blog,decode,threads --json >>"$out"
echo "recorded $(wc -l <"$out") rows in $out" >&2
