"""Writes small.gguf, a llama of two layers that loads, for the fuzzer to begin with, by the gguf package of PyPI:

    pip install gguf==0.19.0
    python small.py
"""

try:
    import numpy as np
    from gguf import GGMLQuantizationType as T, GGUFWriter, quants
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

HIDDEN, MLP, HEADS, KV_HEADS, VOCAB, LAYERS = 32, 32, 2, 1, 8, 2
rng = np.random.default_rng(4)
w = GGUFWriter("small.gguf", "llama")
w.add_block_count(LAYERS)
w.add_context_length(64)
w.add_embedding_length(HIDDEN)
w.add_feed_forward_length(MLP)
w.add_head_count(HEADS)
w.add_head_count_kv(KV_HEADS)
w.add_layer_norm_rms_eps(1e-5)
w.add_rope_freq_base(10000.0)
w.add_eos_token_id(2)


def add(name, *shape):
    x = rng.standard_normal(shape).astype(np.float32)
    if len(shape) == 1:
        w.add_tensor(name, x)
    else:
        w.add_tensor(name, quants.quantize(x, T.Q4_0), raw_dtype=T.Q4_0)


add("token_embd.weight", VOCAB, HIDDEN)
add("output_norm.weight", HIDDEN)
for i in range(LAYERS):
    for name, *shape in (
        ("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q", HIDDEN, HIDDEN), ("attn_k", HIDDEN // 2, HIDDEN),
        ("attn_v", HIDDEN // 2, HIDDEN), ("attn_output", HIDDEN, HIDDEN), ("ffn_gate", MLP, HIDDEN), ("ffn_up", MLP, HIDDEN),
        ("ffn_down", HIDDEN, MLP),
    ):
        add(f"blk.{i}.{name}.weight", *shape)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
