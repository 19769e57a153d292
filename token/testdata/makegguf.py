"""Makes spm.json: a SentencePiece vocabulary, and llama.cpp's ids with it.

    pip install gguf==0.19.0 llama-cpp-python==0.3.36
    python makegguf.py

The tokens are those of llama2.tokenizer.json; a token's score is minus the rank
of the merge that makes it. texts is the part of texts.json that holds no added
token, which this vocabulary does not have.
"""
import json
import pathlib
import tempfile

try:
    import gguf
    from llama_cpp import Llama
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

HERE = pathlib.Path(__file__).parent
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def main():
    data = json.loads((HERE / "llama2.tokenizer.json").read_text())
    model = data["model"]
    tokens = [t for t, _ in sorted(model["vocab"].items(), key=lambda x: x[1])]
    ranks = {"".join(m): i for i, m in enumerate(model["merges"])}
    scores = [-float(ranks.get(t, len(ranks) + i)) for i, t in enumerate(tokens)]
    types = [{"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}.get(t, BYTE if t.startswith("<0x") else NORMAL) for t in tokens]
    texts = [t for t in json.loads((HERE / "texts.json").read_text())
             if not any(a in t for a in ["<|im_", "think>", "<mask>", "word", "\x00"])]
    with tempfile.TemporaryDirectory() as d:
        path = d + "/vocab.gguf"
        w = gguf.GGUFWriter(path, "llama")
        w.add_tokenizer_model("llama")
        w.add_token_list(tokens)
        w.add_token_scores(scores)
        w.add_token_types(types)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_unk_token_id(0)
        w.add_context_length(512)
        w.add_embedding_length(64)
        w.add_block_count(1)
        w.add_head_count(1)
        w.add_feed_forward_length(64)
        w.add_layer_norm_rms_eps(1e-5)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()
        llama = Llama(path, vocab_only=True, verbose=False)
        plain = [llama.tokenize(t.encode(), add_bos=False, special=False) for t in texts]
        special = [llama.tokenize(t.encode(), add_bos=False, special=True) for t in texts]
    out = {"tokens": tokens, "scores": scores, "types": types, "texts": texts, "plain": plain, "special": special}
    lines = ",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in out.items())
    (HERE / "spm.json").write_text("{\n" + lines + "\n}\n")


main()
