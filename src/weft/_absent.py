"""What an error says about names of PyTorch that are not here: what there is instead.

Types of 8 bits, and complex ones of 32, have a name, since libraries name them in tables; no tensor has one.
"""

from __future__ import annotations

_SPARSE = "sparse tensors are by coordinates or by rows: sparse_coo_tensor, sparse_csr_tensor"
_EIGHT = "numbers of 8 bits are int8 and uint8; the smallest floats are float16 and bfloat16"
_COMPLEX = "complex numbers are complex64 and complex128"
_QUANTIZED = "there are no quantized tensors; float16 and bfloat16 are the small floats"
_INSTEAD = {
    "sparse_csc_tensor": f"{_SPARSE} (of the transposed matrix)",
    "sparse_bsr_tensor": _SPARSE,
    "sparse_bsc_tensor": _SPARSE,
    "sparse_compressed_tensor": _SPARSE,
    "quantize_per_tensor": _QUANTIZED,
    "quantize_per_channel": _QUANTIZED,
    "quantization": _QUANTIZED,
    "export": "models are not exported to other formats; weft.save writes their weights as safetensors",
}


class AbsentType:
    """A number type of PyTorch's that no tensor here has: it can be named, compared and asked for its limits.

    Errors: TypeError when a tensor is to have it.
    """

    def __init__(
        self, name: str, eps: float, largest: float, tiny: float, is_complex: bool = False
    ) -> None:
        self.name = name
        self.is_complex, self.is_floating_point = is_complex, not is_complex
        self.is_signed = name != "float8_e8m0fnu"
        self.itemsize, self.fix = (4, _COMPLEX) if is_complex else (1, _EIGHT)
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
        AbsentType("complex32", 2.0**-10, 65504.0, 2.0**-14, is_complex=True),
    )
}
globals().update(TYPES, chalf=TYPES["complex32"])


def explained(error: AttributeError, name: str) -> AttributeError:
    """The error about a missing name of the package, with what there is instead where that is known."""
    if name not in _INSTEAD:
        return error
    return AttributeError(f"{error}: {_INSTEAD[name]}", name=name, obj=error.obj)
