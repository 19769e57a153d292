#!/usr/bin/env python3
"""Writes a GGUF file with all its matrices in another type, so that one model can be measured in each.

    pip install gguf
    python3 bench/peers/gguf_as.py IN.gguf OUT.gguf TYPE

TYPE is F32, F16, BF16 or Q8_0. Vectors become F32. Metadata and tokenizer stay.
"""

import sys

try:
    import gguf
except (ImportError, OSError) as missing:
    raise SystemExit(f"{__file__}: {missing}; what to install stands at its head") from None

TYPES = ("F32", "F16", "BF16", "Q8_0")


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[3] not in TYPES:
        sys.exit(f"usage: gguf_as.py IN.gguf OUT.gguf {'|'.join(TYPES)}")
    source, target, name = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue  # the writer's own
        element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=element)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        kind = gguf.GGMLQuantizationType[name if values.ndim > 1 else "F32"]
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
