# cython: language_level=3
"""Element types (dtypes) and PyTorch's promotion lattice.

A DType is a singleton; `promote` joins two of them, `result_dtype` joins tensors and Python scalars by PyTorch's three
ranks (dimensioned tensors, zero-dimensional tensors, scalars).
"""

import cython
import numpy

from weft._build.compiled import require
from weft.errors import ArgumentTypeError, DTypeError, rooted

require(__name__, cython.compiled)

BOOL_CATEGORY, INT_CATEGORY, FLOAT_CATEGORY, COMPLEX_CATEGORY = 0, 1, 2, 3


@cython.cclass
class DType:
    """One element type: `name`, `itemsize` in bytes, `numpy` the NumPy dtype (None for bfloat16).

    Example:
        >>> import weft
        >>> weft.float32.itemsize, weft.float32.is_floating_point, weft.int64.is_signed
        (4, True, True)
    """

    def __init__(
        self, name: str, code: cython.int, itemsize: cython.int, category: cython.int, signed: bool
    ):
        self.name = name
        self.code = code
        self.itemsize = itemsize
        self.category = category
        self.is_floating_point = category == 2
        self.is_complex = category == 3
        self.is_signed = signed
        self.numpy = None if name == "bfloat16" else numpy.dtype(name)

    def __repr__(self):
        return rooted(f"weft.{self.name}")

    def __reduce__(self):
        return (by_name, (self.name,))

    def to_complex(self):
        """The complex type with components of this type."""
        return {"float64": complex128, "complex128": complex128}.get(self.name, complex64)

    def to_real(self):
        """The type of the components of a complex type, itself otherwise."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)


bool_ = DType("bool", 0, 1, 0, False)
uint8 = DType("uint8", 1, 1, 1, False)
int8 = DType("int8", 2, 1, 1, True)
int16 = DType("int16", 3, 2, 1, True)
int32 = DType("int32", 4, 4, 1, True)
int64 = DType("int64", 5, 8, 1, True)
float16 = DType("float16", 6, 2, 2, True)
bfloat16 = DType("bfloat16", 7, 2, 2, True)
float32 = DType("float32", 8, 4, 2, True)
float64 = DType("float64", 9, 8, 2, True)
complex64 = DType("complex64", 10, 8, 3, True)
complex128 = DType("complex128", 11, 16, 3, True)
uint16 = DType("uint16", 12, 2, 1, False)
uint32 = DType("uint32", 13, 4, 1, False)
uint64 = DType("uint64", 14, 8, 1, False)

ALL = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
    uint16,
    uint32,
    uint64,
)
_BY_NUMPY: dict = {}  # NumPy dtype -> DType, filled on use
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NAME.update(
    half=float16,
    float=float32,
    double=float64,
    short=int16,
    int=int32,
    long=int64,
    cfloat=complex64,
    cdouble=complex128,
)


def by_name(name):
    """The DType of a canonical or short name (`float32`, `double`)."""
    return _BY_NAME[name]


# The signed type that holds an unsigned one of so many bytes; nothing holds uint64.
_WIDER = {1: int16, 2: int32, 4: int64, 8: None}


def _join(a, b):
    if a is b:
        return a
    low, high = (a, b) if a.category <= b.category else (b, a)
    if low.category < high.category:
        if high.category == 3 and low.name == "float64":
            return complex128
        return high
    if {a.name, b.name} == {"float16", "bfloat16"}:
        return float32
    if a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        return signed if signed.itemsize > unsigned.itemsize else _WIDER[unsigned.itemsize]
    return max((a, b), key=lambda d: d.itemsize)


TABLE = [_join(a, b) for a in ALL for b in ALL]


def promote(a: DType, b: DType) -> DType:
    """The smallest type of the lattice that holds both (PyTorch's promote_types; wide unsigned types join as in NumPy).

    Errors: DTypeError on uint64 with a signed integer.
    """
    joined = TABLE[a.code * len(ALL) + b.code]
    if joined is None:
        raise DTypeError(
            f"no integer type holds both {a.name} and {b.name}",
            expected="types that can be joined",
            got=f"{a.name} and {b.name}",
            fix="convert one of them with .to(dtype)",
        )
    return joined


_default_float = float32


def set_default(dtype):
    """Set the type of float literals; float16, bfloat16, float32 or float64."""
    global _default_float
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise ArgumentTypeError(
            f"only floating-point types are supported as the default type, got {dtype!r}",
            expected="weft.float32, weft.float64, weft.float16 or weft.bfloat16",
            got=repr(dtype),
            fix="pass a floating-point dtype",
        )
    _default_float = dtype


def get_default():
    """The type of float literals (float32 unless set)."""
    return _default_float


def of_scalar(value):
    """The default type of a Python scalar: bool, int64, the default float, or its complex type."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, float):
        return _default_float
    return _default_float.to_complex()


def from_numpy(dtype):
    """The DType of a NumPy dtype, or None."""
    if not isinstance(dtype, numpy.dtype):
        dtype = numpy.dtype(dtype)
    found = _BY_NUMPY.get(dtype)
    if found is None:
        found = _BY_NAME.get(dtype.name)
        if found is not None:
            _BY_NUMPY[dtype] = found
    return found


def result_dtype(operands):
    """PyTorch's promotion over (dtype, rank) pairs, rank 2 dimensioned, 1 zero-dimensional, 0 Python scalar."""
    best: list = [None, None, None]
    for dtype, rank in operands:
        best[rank] = dtype if best[rank] is None else promote(best[rank], dtype)
    result = best[2]
    for rank in (1, 0):
        lower = best[rank]
        if lower is None:
            continue
        if result is None:
            result = lower
        elif lower.category > result.category:
            result = _default_category(lower, result, rank)
    return result


def _default_category(lower, result, rank):
    """The dtype that an operand of a higher category and lower rank contributes: its category, at the default width
    for scalars."""
    if lower.category == 3 and result.category == 2:
        return result.to_complex()
    if rank == 0 and lower.category == 2:
        return _default_float
    return lower
