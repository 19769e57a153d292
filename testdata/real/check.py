#!/usr/bin/env python3
"""Is capture.py's model the model? Ask llama.cpp, which shares no code with it.

    venv/bin/pip install llama-cpp-python==0.3.36    # in capture.py's environment; builds from source: minutes
    venv/bin/python check.py

compares, over the whole prose, the token ids and the logits at every position: with the GGUF as shipped, where
llama.cpp also rounds activations to 8 bits, and with a copy whose weights are raised to float32 (0.65 GB in a
temporary folder), where only rounding is left to differ. Exit status 1 if that second comparison fails.
"""

import sys
import tempfile
from pathlib import Path

try:
    import llama_cpp
    import numpy as np
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

from capture import Model, log_softmax, prose, weights

LIMIT = 1e-3  # of logits up to about 30: float32 through 30 layers, in llama.cpp's order and ours


def raise_to_float32(source, target):
    reader, writer = GGUFReader(source), GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)
    for t in reader.tensors:
        writer.add_tensor(t.name, dequantize(t.data, t.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp_logits(path, text):
    """Token ids, and logits [T, vocab] of every position, with the KV cache in float32."""
    llama = llama_cpp.Llama(
        str(path), n_ctx=2048, n_batch=2048, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False,
        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, n_gpu_layers=0,
    )  # fmt: skip
    ids = llama.tokenize(text.encode(), add_bos=False, special=False)
    llama.eval(ids)
    return ids, np.array(llama.scores[: len(ids)], np.float64)


def compare(title, ours, theirs, ids):
    off = np.abs(ours - theirs)
    nats = lambda x: -log_softmax(x[:-1])[np.arange(len(ids) - 1), ids[1:]].mean()
    same = (ours.argmax(-1) == theirs.argmax(-1)).mean()
    print(
        f"{title}: logits differ by at most {off.max():.2g}, by {off.mean():.2g} on average; the most likely token "
        f"is the same at {same:.2%} of {len(ids)} positions; cross-entropy {nats(ours):.4f} and {nats(theirs):.4f}"
    )
    return off.max()


def main():
    model, text = Model(weights()), prose()
    ids = model.tokenizer.encode(text)
    ours = model.logits(model.forward(ids))

    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / "float32.gguf"
        raise_to_float32(weights(), wide)
        for title, path in (("weights as shipped", weights()), ("weights in float32", wide)):
            their_ids, theirs = llama_cpp_logits(path, text)
            if their_ids != ids:
                sys.exit("FAIL: llama.cpp's tokenizer gives other ids")
            off = compare(title, ours, theirs, ids)
    if not off <= LIMIT:
        sys.exit(f"FAIL: logits differ by {off}, limit {LIMIT}")
    print("ok: same token ids, same logits")


if __name__ == "__main__":
    main()
