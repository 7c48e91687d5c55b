"""What an error says about names of PyTorch that are not here: what there is instead."""

from __future__ import annotations

_SPARSE = "sparse tensors are by coordinates or by rows: sparse_coo_tensor, sparse_csr_tensor"
_EIGHT = "numbers of 8 bits are int8 and uint8; the smallest floats are float16 and bfloat16"
_QUANTIZED = "there are no quantized tensors; float16 and bfloat16 are the small floats"
_INSTEAD = {
    "sparse_csc_tensor": f"{_SPARSE} (of the transposed matrix)",
    "sparse_bsr_tensor": _SPARSE,
    "sparse_bsc_tensor": _SPARSE,
    "sparse_compressed_tensor": _SPARSE,
    "float8_e4m3fn": _EIGHT,
    "float8_e5m2": _EIGHT,
    "float8_e4m3fnuz": _EIGHT,
    "float8_e5m2fnuz": _EIGHT,
    "float8_e8m0fnu": _EIGHT,
    "quantize_per_tensor": _QUANTIZED,
    "quantize_per_channel": _QUANTIZED,
    "quantization": _QUANTIZED,
    "complex32": "complex numbers are complex64 and complex128",
    "chalf": "complex numbers are complex64 and complex128",
    "onnx": "models are not exported to other formats; weft.save writes their weights as safetensors",
    "export": "models are not exported to other formats; weft.save writes their weights as safetensors",
    "multiprocessing": "multiprocessing of the standard library takes tensors too",
}


def explained(error: AttributeError, name: str) -> AttributeError:
    """The error about a missing name of the package, with what there is instead where that is known."""
    if name not in _INSTEAD:
        return error
    return AttributeError(f"{error}: {_INSTEAD[name]}", name=name, obj=error.obj)
