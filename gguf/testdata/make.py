"""Writes quantised.gguf (two rows of random blocks of every type, and metadata of every type) and
quantised.safetensors (the same rows as float32), both by the gguf package of PyPI, 0.19.0:

    pip install gguf==0.19.0 safetensors==0.8.0
    python make.py
"""

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, GGUFWriter, quants
    from safetensors.numpy import save_file
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

HALVES = {  # where a block has binary16 numbers
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}

rng = np.random.default_rng(23)
w = GGUFWriter("quantised.gguf", "test")
w.add_uint8("u8", 200)
w.add_int8("i8", -100)
w.add_uint16("u16", 60000)
w.add_int16("i16", -30000)
w.add_uint32("u32", 4000000000)
w.add_int32("i32", -2000000000)
w.add_uint64("u64", 1 << 63)
w.add_int64("i64", -(1 << 62))
w.add_float32("f32", 0.1)
w.add_float64("f64", 0.1)
w.add_bool("yes", True)
w.add_string("text", "ünï\u0000cöde")
w.add_array("strings", ["a", "", "çé"])
w.add_array("ints", [1, -2, 3])
w.add_array("floats", [0.5, -1.5])
want = {}
for t, halves in HALVES.items():
    _, size = GGML_QUANT_SIZES[t]
    rows = rng.integers(0, 256, (2, 3 * size), dtype=np.uint8)
    for at in halves:
        for block in range(3):
            x = rng.standard_normal(2).astype(np.float16) * np.float16(2.0 ** rng.integers(-12, 4))
            rows[:, block * size + at : block * size + at + 2] = x.view(np.uint8).reshape(2, 2)
    w.add_tensor(t.name, rows, raw_dtype=t)
    want[t.name] = quants.dequantize(rows, t)
for t, dtype in (T.F32, np.float32), (T.F16, np.float16):
    x = rng.standard_normal((2, 5)).astype(dtype)
    w.add_tensor(t.name, x)
    want[t.name] = x.astype(np.float32)
x = quants.quantize(rng.standard_normal((2, 6)).astype(np.float32), T.BF16)
w.add_tensor("BF16", x, raw_dtype=T.BF16)
want["BF16"] = quants.dequantize(x, T.BF16)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
save_file(want, "quantised.safetensors")
