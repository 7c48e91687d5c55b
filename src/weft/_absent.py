"""What an error says about names of PyTorch that are not here: what there is instead.

Types of 8 bits have a name, since libraries name them in tables; no tensor has one.
"""

from __future__ import annotations

_SPARSE = "sparse tensors are by coordinates or by rows: sparse_coo_tensor, sparse_csr_tensor"
_EIGHT = "numbers of 8 bits are int8 and uint8; the smallest floats are float16 and bfloat16"
_QUANTIZED = "there are no quantized tensors; float16 and bfloat16 are the small floats"
_INSTEAD = {
    "sparse_csc_tensor": f"{_SPARSE} (of the transposed matrix)",
    "sparse_bsr_tensor": _SPARSE,
    "sparse_bsc_tensor": _SPARSE,
    "sparse_compressed_tensor": _SPARSE,
    "quantize_per_tensor": _QUANTIZED,
    "quantize_per_channel": _QUANTIZED,
    "quantization": _QUANTIZED,
    "complex32": "complex numbers are complex64 and complex128",
    "chalf": "complex numbers are complex64 and complex128",
    "export": "models are not exported to other formats; weft.save writes their weights as safetensors",
    "multiprocessing": "multiprocessing of the standard library takes tensors too",
}


class AbsentType:
    """A number type of PyTorch's that no tensor here has: it can be named, compared and asked for its limits.

    Errors: TypeError when a tensor is to have it.
    """

    itemsize, is_floating_point, is_complex, is_signed = 1, True, False, True
    fix = _EIGHT

    def __init__(self, name: str, eps: float, largest: float, tiny: float) -> None:
        self.name = name
        self.eps, self.max, self.tiny = eps, largest, tiny

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __reduce__(self) -> str:
        return self.name


TYPES = {
    made.name: made
    for made in (
        AbsentType("float8_e4m3fn", 2.0**-3, 448.0, 2.0**-6),
        AbsentType("float8_e4m3fnuz", 2.0**-3, 240.0, 2.0**-7),
        AbsentType("float8_e5m2", 2.0**-2, 57344.0, 2.0**-14),
        AbsentType("float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15),
        AbsentType("float8_e8m0fnu", 1.0, 2.0**127, 2.0**-127),
    )
}
globals().update(TYPES)


def explained(error: AttributeError, name: str) -> AttributeError:
    """The error about a missing name of the package, with what there is instead where that is known."""
    if name not in _INSTEAD:
        return error
    return AttributeError(f"{error}: {_INSTEAD[name]}", name=name, obj=error.obj)
