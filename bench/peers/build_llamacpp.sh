#!/bin/sh
# Builds libggml for this machine's own processor (-march=native) from the sources that
# PyPI's llama-cpp-python carries, into DIR/bin:
#
#     bench/peers/build_llamacpp.sh DIR
#
# PyPI has no built wheel of it. Needs python3 with pip, cmake, ninja, gcc and g++.
set -eu
dir=${1:?usage: $0 DIR}
version=0.3.36

mkdir -p "$dir"
python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$dir" "llama-cpp-python==$version"
tar -xzf "$dir/llama_cpp_python-$version.tar.gz" -C "$dir"
cmake -S "$dir/llama_cpp_python-$version/vendor/llama.cpp" -B "$dir" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON -DGGML_OPENMP=ON \
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
ninja -C "$dir" ggml
