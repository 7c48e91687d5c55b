"""A capsule as a Python file: Weft calls that stand alone, and a test that they give the same bits.

Operations that a public function records are written as a call of it; others, such as derivatives, as
`weft.debug.primitive`. Each line has the type of its value and the user's line behind it.
"""

from __future__ import annotations

import base64
import keyword
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import weft
from weft.debug.capsules.capsule import Capsule, operation
from weft.debug.capsules.capture import recorded_of
from weft.debug.capsules.records import VALUE, CapsuleRecord, ScalarOperand
from weft.engine.frontend.node_factory import make_scalar
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, ArgumentTypeError, class_name

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.ir.dtype import DType

MOST_BYTES = 16 << 20  # of values in a file
MOST_LISTED = 16  # elements that are written as numbers

_SAME_NAME = frozenset("""
    add sub mul div floor_divide remainder fmod neg abs sign sgn reciprocal square pow maximum minimum atan2 exp exp2
    expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf
    erfc relu floor ceil trunc round eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_xor
    logical_not bitwise_and bitwise_or bitwise_xor bitwise_not where matmul erfinv lgamma digamma
""".split())  # fmt: skip  # noqa: SIM905
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@"}


def primitive(
    name: str,
    operands: list[Tensor | bool | int | float | complex],
    params: object = None,
    *,
    shape: tuple[int, ...],
    dtype: DType,
    numbers: DType | None = None,
    terms: object = None,
) -> Tensor:
    """The result of one operation of the op table, recorded on tensors and Python numbers without gradients.

    For Python files that are written from capsules.

    Args:
        name: the operation's name in the op table.
        operands: tensors and Python numbers.
        params: the parameters that the operation has besides its operands; None: none.
        shape: the shape of the result.
        dtype: the dtype of the result.
        numbers: the dtype of numbers; None: that of the first tensor.
        terms: the terms of rows that a batch has gathered; None: they are no such rows.

    Errors: ValueError where the operation cannot have such operands, parameters or a result of this shape.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    kind = numbers or (tensors[0].dtype if tensors else dtype)
    nodes = tuple(
        value_of(operand) if isinstance(operand, Tensor) else make_scalar(operand, kind)
        for operand in operands
    )
    record = CapsuleRecord(name, (), params, dtype.name, tuple(shape), terms=terms)
    try:
        return operation(record, nodes)
    except ValueError as error:
        raise ArgumentError(
            f"primitive: {name} cannot be recorded so",
            expected="operands, params, shape and dtype that the op table allows",
            got=str(error).splitlines()[0],
            fix="write the file again from its capsule",
        ) from None


def to_python(capsule: Capsule | Tensor) -> str:
    """The text of a Python file of Weft calls: `program()` returns the held results, `test_same_bits()` compares their
    digests. Of a tensor, the file has all that it was recorded from, as far as that is pending; it is computed.

    Args:
        capsule: what `load_capsule` gave, or a tensor.

    Returns: the text. It needs Weft and NumPy, and nothing of the program.

    Raises: ValueError where the values take more than 16 MiB: reduce the capsule first; TypeError for anything else.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0, 2.0])
        >>> text = weft.debug.to_python((x * 2).relu())
        >>> namespace = {}
        >>> exec(text, namespace)
        >>> list(namespace["program"]().values())
        [tensor([2., 4.])]
    """
    if isinstance(capsule, Tensor):
        capsule = recorded_of(capsule)
    if not isinstance(capsule, Capsule):
        raise ArgumentTypeError(
            f"to_python: expected a capsule or a tensor, got {class_name(capsule)}",
            expected="a capsule of weft.debug.load_capsule, or a tensor",
            got=f"{capsule!r:.60}",
            fix='weft.debug.to_python(weft.debug.load_capsule("bug.weft"))',
        )
    nbytes = sum(array.nbytes for array in capsule.arrays.values())
    if nbytes > MOST_BYTES:
        raise ArgumentError(
            "to_python: the values are too large for a text",
            expected=f"at most {MOST_BYTES} bytes of values",
            got=f"{nbytes} bytes",
            fix="reduce the capsule first (weft replay --reduce)",
        )
    return _File(capsule).text()


class _File:
    """Names and lines of a file."""

    def __init__(self, capsule: Capsule) -> None:
        self.capsule = capsule
        self.names = _names(capsule.records)

    def text(self) -> str:
        held = self.capsule.held()
        lines = [self.line(number) for number in range(len(self.capsule.records))]
        results = ", ".join(f'"{self.names[n]}": {self.names[n]}' for n in held)
        records = self.capsule.records
        wanted = {self.names[n]: records[n].digest or records[n].error for n in held}
        digests = [f'    "{name}": "{each}",' for name, each in wanted.items()]
        raised = (
            f"\n\nWhat was captured raised {self.capsule.error!r:.300}."
            if self.capsule.error
            else ""
        )
        return "\n".join(
            [
                f'"""A recorded graph, written by weft {weft.__version__} from a capsule.{raised}"""',
                "",
                *("import base64", "import hashlib", "", "import numpy as np", "", "import weft"),
                *("import weft.debug", "", "nan, inf = float('nan'), float('inf')", "", ""),
                *_HELPERS.strip().splitlines(),
                *("", "", "def program():", '    """The results, by name."""'),
                *(f"    {line}" for line in lines),
                f"    return {{{results}}}",
                *("", "", "DIGESTS = {", *digests, "}", "", ""),
                *_TEST.strip().splitlines(),
                "",
            ]
        )

    def line(self, number: int) -> str:
        record = self.capsule.records[number]
        call = (
            _value(self.capsule.arrays[number], record) if record.op == VALUE else self.call(record)
        )
        note = f"  # {record.type}  {record.line}".rstrip()
        if record.source:
            note += f": {record.source}"
        return f"{self.names[number]} = {call}{note}"

    def call(self, record: CapsuleRecord) -> str:
        operands = [self.operand(source) for source in record.inputs]
        spelled = self.spelled(record, operands)
        if spelled is not None:
            return spelled
        kinds = {source.dtype for source in record.inputs if isinstance(source, ScalarOperand)}
        more = "" if record.params is None else f", {_literal(record.params)}"
        more += f", shape={record.shape!r}, dtype=weft.{record.dtype}"
        more += f", numbers=weft.{kinds.pop()}" if len(kinds) == 1 else ""
        more += "" if record.terms is None else f", terms={record.terms!r}"
        return f'weft.debug.primitive("{record.op}", [{", ".join(operands)}]{more})'

    def operand(self, source: int | ScalarOperand) -> str:
        return _literal(source.value) if isinstance(source, ScalarOperand) else self.names[source]

    def spelled(self, record: CapsuleRecord, operands: list[str]) -> str | None:
        """A call of a public function that records the same; None where there is none."""
        kinds = {
            source.dtype
            if isinstance(source, ScalarOperand)
            else self.capsule.records[source].dtype
            for source in record.inputs
        }
        wide = record.op == "where" or len(kinds) == 1
        if all(isinstance(source, ScalarOperand) for source in record.inputs) or not wide:
            return None
        if record.dtype == "float16" and any(isinstance(s, ScalarOperand) for s in record.inputs):
            return None  # a number out of its range would be computed in float32
        if record.op in _SIGNS and len(operands) == 2:
            return f"{operands[0]} {_SIGNS[record.op]} {operands[1]}"
        if record.op in _SAME_NAME and not any(
            isinstance(s, ScalarOperand) for s in record.inputs[:1]
        ):
            return f"weft.{record.op}({', '.join(operands)})"
        spelling = _SPELLINGS.get(record.op)
        return None if spelling is None else spelling(record, operands)


def _reduction(record: CapsuleRecord, operands: list[str]) -> str | None:
    """Sums over all operands that come as the dtype of the result."""
    axes, keep = record.params
    if record.op in ("argmax", "argmin", "prod", "any", "all"):
        return None
    ends = ", keepdim=True" if keep else ""
    kind = f", dtype=weft.{record.dtype}" if record.op == "sum" else ""
    return f"weft.{record.op}({operands[0]}, dim={axes!r}{ends}{kind})" if axes else None


def _slice(record: CapsuleRecord, operands: list[str]) -> str:
    axis, start, length, step = record.params
    steps = f":{step}" if step != 1 else ""
    return f"{operands[0]}[{':, ' * axis}{start}:{start + length * step}{steps}]"


_SPELLINGS: dict[str, Callable[[CapsuleRecord, list[str]], str | None]] = {
    "view": lambda r, x: f"{x[0]}.reshape({r.shape!r})",
    "permute": lambda r, x: f"{x[0]}.permute({r.params!r})",
    "expand": lambda r, x: f"{x[0]}.expand({r.params!r})",
    "slice": lambda r, x: _slice(r, x) if r.params[3] > 0 else None,
    "select": lambda r, x: f"{x[0]}.select({r.params[0]}, {r.params[1]})",
    "flip": lambda r, x: f"{x[0]}.flip({r.params!r})" if r.params else None,
    "cast": lambda r, x: f"{x[0]}.to(weft.{r.dtype})",
    "cat": lambda r, x: f"weft.cat([{', '.join(x)}], {r.params[0]})",
    "stack": lambda r, x: f"weft.stack([{', '.join(x)}], {r.params[0]})",
    "sum": _reduction,
    "amax": _reduction,
    "amin": _reduction,
    "linear": lambda r, x: f"weft.nn.functional.linear({', '.join(x)})",
    "linear_bias": lambda r, x: f"weft.nn.functional.linear({', '.join(x)})",
}


def _names(records: list[CapsuleRecord]) -> list[str]:
    """A name for each record: that of a parameter, or one of its number."""
    found: list[str] = []
    for number, record in enumerate(records):
        name = record.name.replace(".", "_")
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in _TAKEN
        found.append(name if usable and name not in found else f"v{number}")
    return found


_TAKEN = {"weft", "np", "nan", "inf", "base64", "hashlib", "value", "program", "DIGESTS"}


def _value(array: Array, record: CapsuleRecord) -> str:
    """A value from outside as a call."""
    dtype = dtypes.by_name(record.dtype)
    if array.size <= MOST_LISTED and dtype.numpy is not None and _is_listed(array):
        return (
            f"weft.tensor({array.tolist()!r}, dtype=weft.{record.dtype}).reshape({record.shape!r})"
        )
    small = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    text = base64.b64encode(np.ascontiguousarray(small).tobytes()).decode()
    return f'value("{text}", {small.shape!r}, {record.shape!r}, weft.{record.dtype})'


def _is_listed(array: Array) -> bool:
    """True if elements are finite: then their text has all of their bits."""
    return array.dtype.kind in "biu" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))


def _literal(value: object) -> str:
    """Params as Python text; dtypes as `weft.float32`."""
    if isinstance(value, dtypes.DType):
        return f"weft.{value.name}"
    if isinstance(value, tuple):
        items = ", ".join(map(_literal, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, complex):
        return f"complex({_literal(value.real)}, {_literal(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"({value})"
    return repr(value) if not isinstance(value, float | int) or value >= 0 else f"({value!r})"


_HELPERS = '''
def value(text, kept, shape, dtype):
    """A tensor of the bytes in a text; what is repeated stands there once."""
    if not text:
        return weft.zeros(shape, dtype=dtype)
    kind = weft.int16 if dtype is weft.bfloat16 else dtype
    bits = weft.frombuffer(bytearray(base64.b64decode(text)), dtype=kind)
    return bits.view(dtype).reshape(kept).expand(shape)


def digest(tensor):
    """The digest of a value's bytes, or the class of what computing it raises."""
    if tensor.dtype is weft.bfloat16:
        tensor = tensor.view(weft.int16)
    try:
        content = np.ascontiguousarray(tensor.numpy(force=True)).tobytes()
    except Exception as error:
        return type(error).__name__
    return hashlib.blake2b(content, digest_size=16).hexdigest()
'''
_TEST = """
def test_same_bits():
    found = {name: digest(result) for name, result in program().items()}
    assert found == DIGESTS


if __name__ == "__main__":
    test_same_bits()
"""
