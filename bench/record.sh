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
# against context, and of prompts, are recorded, too, in cpu-NAME-model.jsonl; with LLAMACPP_PYTHON, a
# Python that has llama-cpp-python, beside llama.cpp.
set -eu

fail() {
  echo "bench/record.sh: $1" >&2
  exit 2
}

[ $# -ge 1 ] && [ $# -le 2 ] || fail "usage: bench/record.sh NAME [LIB]"
name=$1
lib=${2:-}
case $name in
'' | -* | *[!A-Za-z0-9._-]*) fail "NAME is '$name', want letters, digits, . _ and -, such as epyc-2-cores" ;;
esac
if [ $# -eq 2 ]; then
  [ -e "$lib/libggml-cpu.so" ] || fail "LIB is '$lib', which has no libggml-cpu.so: bench/peers/build_llamacpp.sh makes it"
  lib=$(cd "$lib" && pwd)
fi
if [ -n "${FLASHDEC_SMOLLM:-}" ]; then
  [ -f "$FLASHDEC_SMOLLM" ] || fail "FLASHDEC_SMOLLM is '$FLASHDEC_SMOLLM', which is no file"
  model=$(cd "$(dirname "$FLASHDEC_SMOLLM")" && pwd)/$(basename "$FLASHDEC_SMOLLM")
fi
if [ -n "${LLAMACPP_PYTHON:-}" ]; then
  "$LLAMACPP_PYTHON" -c 'import llama_cpp' 2>/dev/null || fail "LLAMACPP_PYTHON is '$LLAMACPP_PYTHON', which does not import llama_cpp"
fi
command -v go >/dev/null || fail "no go in PATH"

cd "$(dirname "$0")/.."
out=bench/results/cpu-$name.jsonl
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

CGO_ENABLED=0 go build -buildvcs=true -o "$bin/flashdec" ./cmd/flashdec
if [ -n "${model:-}" ]; then
  # What memory has of the file is dropped: read anew, it lies in huge pages (docs/calibration.md).
  dd if="$model" iflag=nocache count=0 2>/dev/null || :
  "$bin/flashdec" bench --model "$model" --json \
    ${LLAMACPP_PYTHON:+--peer "$LLAMACPP_PYTHON bench/peers/llamacpp_model.py"} >"bench/results/cpu-$name-model.jsonl"
fi
"$bin/flashdec" bench --suite peers --rounds 15 --json ${lib:+--peer "python3 bench/peers/llamacpp.py $lib"} >"$out"
"$bin/flashdec" bench --suite types,levels,lengths,ragged,pages,invariant,window,blog,decode,threads --json >>"$out"
echo "recorded $(wc -l <"$out") rows in $out" >&2
