"""Capsules: files of recorded operations and values, read, run again and compared.

`load_capsule` checks everything in a file before anything of it runs (`checks`); nothing in it is code. `CapsuleReplay`
records the operations once more, on values of the file, and the engine runs them as it runs any program.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft.debug.capsules import checks
from weft.debug.capsules.records import (
    VALUE,
    CapsuleRecord,
    ScalarOperand,
    digest_of,
    from_json,
    to_json,
)
from weft.engine.devices.api import default_device
from weft.engine.frontend.node_factory import make_node, make_scalar, make_value
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import contiguous_strides
from weft.engine.ir.tape import intact, last_sequence, leave_alone
from weft.engine.pipeline import driver
from weft.engine.pipeline.segment_index import listed_segment_index
from weft.errors import CheckpointError
from weft.io.saving import File, load, save

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.node import Node

VERSION = 1
KEYS = ("capsule", "weft", "records", "values", "random", "error")
_REALS = {"complex64": np.float32, "complex128": np.float64}


@dataclass
class Capsule:
    """Records by number, and the values from outside among them. `error` is what the program raised."""

    records: list[CapsuleRecord]
    arrays: dict[int, Array]
    random_state: Tensor | None = None
    error: str = ""
    written_by: str = field(default_factory=lambda: weft.__version__)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, as a whole or not at all."""
        text = json.dumps([to_json(record) for record in self.records], separators=(",", ":"))
        values = {str(number): _compact(array) for number, array in self.arrays.items()}
        content = {
            "capsule": VERSION,
            "weft": weft.__version__,
            "records": np.frombuffer(text.encode(), np.uint8),
            "values": values,
            "random": self.random_state,
            "error": self.error,
        }
        save(content, Path(path))

    def held(self) -> list[int]:
        """The numbers of the results that somebody held, or that failed: those that a replay compares."""
        return [n for n, record in enumerate(self.records) if record.digest or record.error]

    def replay(self) -> Report:
        """Run everything once more, and compare what was held by its digests."""
        run = CapsuleReplay(self)
        held = self.held()
        failures = run.run(held)
        outcomes = [
            Outcome(
                number,
                self.records[number],
                "" if number in failures else digest_of(run.array(number)),
                failures.get(number),
            )
            for number in held
        ]
        return Report(outcomes, self.error)

    def text(self) -> str:
        """A line for each record."""
        return "\n".join(record.text(number) for number, record in enumerate(self.records))

    def _repr_html_(self) -> str:
        from weft.debug.capsules.html import table

        return table(repr(self), self.records)

    def __repr__(self) -> str:
        operations = sum(record.op != VALUE for record in self.records)
        nbytes = sum(array.nbytes for array in self.arrays.values())
        raised = f", raised {self.error.splitlines()[0]}" if self.error else ""
        return (
            f"<capsule: {operations} operations, {len(self.arrays)} values from outside of "
            f"{nbytes} bytes, {len(self.held())} results{raised}>"
        )


@dataclass(frozen=True)
class Outcome:
    """The digest of a held result in a replay, empty where it has failed, and the error that it has failed with."""

    number: int
    record: CapsuleRecord
    digest: str
    error: BaseException | None = None

    @property
    def same(self) -> bool:
        """True if the value has the same bits as when it was captured, or fails as it did."""
        error = "" if self.error is None else type(self.error).__name__
        return self.digest == self.record.digest and error == self.record.error

    def __str__(self) -> str:
        state = "the same bits" if self.same else "other bits" if self.digest else "did not fail"
        if self.error is not None:
            state = f"failed: {str(self.error).splitlines()[0]}"
        return f"{self.record.text(self.number)}: {state}"


@dataclass(frozen=True)
class Report:
    """A replay: which results have the same bits, or fail in the same way; and what the program raised."""

    outcomes: list[Outcome]
    raised: str = ""

    @property
    def same(self) -> bool:
        """True if all results have the same bits, and those that failed fail again."""
        return all(outcome.same for outcome in self.outcomes)

    def __str__(self) -> str:
        same = [outcome for outcome in self.outcomes if outcome.same]
        values = sum(outcome.error is None for outcome in same)
        count = sum(not outcome.record.error for outcome in self.outcomes)
        lines = [f"{values} of {count} values have the same bits as when they were captured"]
        lines += [f"  {outcome}" for outcome in same if outcome.error is not None]
        lines += [f"  {outcome}" for outcome in self.outcomes if not outcome.same]
        if self.raised:
            lines.append(f"the program raised {self.raised.splitlines()[0]}")
        return "\n".join(lines)


# -- running -------------------------------------------------------------------------------------------------------


class CapsuleReplay:
    """Records of a capsule as tensors. `given` are values for records that are not to be computed."""

    def __init__(self, capsule: Capsule, given: Mapping[int, Array] | None = None) -> None:
        self.records = capsule.records
        self.arrays: dict[int, Any] = {**capsule.arrays, **(given or {})}
        self._tensors: dict[int, Tensor] = {}

    def tensor(self, number: int) -> Tensor:
        """The value of a record, computed when it is read."""
        for each in self.needed([number]):
            self._record(each)
        return self._tensors[number]

    def array(self, number: int) -> Array:
        """The value of a record as an array; bfloat16 as its bits. Errors: what computing it raises."""
        return driver.array_of(value_of(self.tensor(number)))

    def forget(self) -> None:
        """Let go of all values."""
        self._tensors.clear()

    def run(self, numbers: list[int]) -> dict[int, BaseException]:
        """Compute some values together, as one program; the errors of those that fail."""
        with intact():
            for each in self.needed(numbers):
                self._record(each)
            kept = {number: self._tensors[number] for number in numbers}
            self._tensors = kept  # what nobody holds fuses
        failures: dict[int, BaseException] = {}
        for number in numbers:
            try:
                driver.require(value_of(kept[number]))
            except Exception as error:
                failures[number] = error
        return failures

    def needed(self, numbers: Iterable[int]) -> list[int]:
        """The numbers of records that some need and that are not there yet, in order."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in found or number in self._tensors:
                continue
            found.add(number)
            if number not in self.arrays:
                waiting.extend(self.records[number].sources())
        return sorted(found)

    def _record(self, number: int) -> None:
        record = self.records[number]
        dtype = dtypes.by_name(record.dtype)
        if number in self.arrays:
            self._tensors[number] = value_tensor(self.arrays[number], dtype)
            return
        inputs = tuple(
            make_scalar(source.value, dtypes.by_name(source.dtype))
            if isinstance(source, ScalarOperand)
            else value_of(self._tensors[source])
            for source in record.inputs
        )
        self._tensors[number] = operation(record, inputs)


def operation(record: CapsuleRecord, inputs: tuple[Node, ...]) -> Tensor:
    """Record an operation once more, on nodes. Errors: checks.Unfit where they are not what it can be run on."""
    op = checks.check(record, [(node.dtype.name, tuple(node.shape)) for node in inputs])
    if op.name == "cross_entropy":  # its kernels trust the function, which has looked
        classes = driver.array_of(inputs[1])
        size = inputs[0].shape[record.params[0]]
        checks.need(((classes >= 0) & (classes < size)).all(), "classes out of range")
    before = last_sequence()
    node = make_node(op, inputs, record.params, record.shape, dtypes.by_name(record.dtype))
    if record.terms is not None:
        node.info = listed_segment_index(*record.terms)
    leave_alone(before)
    made: Tensor = wrap_node(node)
    return made


def value_tensor(array: Array, dtype: DType) -> Tensor:
    """A tensor of an array's elements; bfloat16 comes as its bits."""
    shape = array.shape
    small = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    content = np.ascontiguousarray(small).tobytes()
    memory = default_device().memory
    buffer = memory.allocate(len(content))
    memory.upload(buffer, content)
    node = make_value(dtype, shape, buffer, 0)
    if small.shape != shape and 0 not in shape:
        steps = contiguous_strides(small.shape)
        sizes = zip(steps, small.shape, shape, strict=True)
        node.strides = tuple(0 if size != whole else step for step, size, whole in sizes)
    made: Tensor = wrap_node(node)
    return made


# -- files ---------------------------------------------------------------------------------------------------------


def _compact(array: Array) -> Any:
    """An array as a file has it: what is repeated stands there once, complex numbers as pairs."""
    small = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    small = np.ascontiguousarray(small).reshape(small.shape)
    real = _REALS.get(small.dtype.name)
    return small if real is None else small.reshape(*small.shape, 1).view(real)


def _restored(array: object, record: CapsuleRecord) -> Any:
    """The array that `_compact` has been given. Errors: ValueError."""
    dtype = dtypes.by_name(record.dtype)
    kind = dtype.numpy or np.dtype(np.uint16)
    checks.need(isinstance(array, np.ndarray), "a value that is no array")
    assert isinstance(array, np.ndarray)
    real = _REALS.get(record.dtype)
    if real is not None:
        checks.need(array.dtype == real and array.shape[-1:] == (2,), "a value of another dtype")
        array = np.ascontiguousarray(array).view(kind).reshape(array.shape[:-1])
    checks.need(array.dtype == kind, "a value of another dtype")
    checks.need(math.prod(record.shape) < 1 << 48, "elements")
    return np.broadcast_to(array, record.shape)


def load_capsule(path: File) -> Capsule:
    """The capsule in a file, or in one that is open, every record of which is checked; nothing of it has run.

    Args:
        path: the file, or one that is open for bytes.

    Errors: FileNotFoundError; CheckpointError (a RuntimeError) for what is no capsule, is damaged, comes from a
    version that this one does not know, or asks for what no recorded program does.
    """
    content = load(path)
    name = str(path) if isinstance(path, str | os.PathLike) else getattr(path, "name", "the file")
    if not isinstance(content, dict) or "capsule" not in content:
        raise _refused(name, "a file without a capsule", "write it with weft.debug.capture")
    if content["capsule"] != VERSION:
        raise _refused(
            name,
            f"a capsule of version {content['capsule']!r:.20}, written by weft {content.get('weft')!r:.30}",
            f"read it with that version of weft; this is {weft.__version__}",
        )
    try:
        return _read(content)
    except RecursionError:
        raise _refused(name, "nesting without end", "capture it again") from None
    except (TypeError, ValueError, KeyError, LookupError, AttributeError, ArithmeticError) as error:
        raise _refused(
            name, f"{type(error).__name__}: {error}"[:200], "capture it again"
        ) from error
    except RuntimeError as error:
        raise _refused(name, str(error).splitlines()[0][:200], "capture it again") from error


def _refused(name: str, got: str, fix: str) -> CheckpointError:
    return CheckpointError(
        f"load_capsule {name}", expected="a complete file of weft.debug.capture", got=got, fix=fix
    )


def _read(content: dict[str, Any]) -> Capsule:
    checks.need(set(content) == set(KEYS), "other entries than a capsule has")
    text = content["records"]
    checks.need(isinstance(text, np.ndarray) and text.dtype == np.uint8, "records that are no text")
    entries = json.loads(text.tobytes().decode())
    checks.need(isinstance(entries, list), "records that are no list")
    records = [from_json(entry) for entry in entries]
    values = content["values"]
    checks.need(isinstance(values, dict) and isinstance(content["error"], str), "entries")
    checks.need(content["random"] is None or isinstance(content["random"], weft.Tensor), "state")
    arrays = {}
    for number, record in enumerate(records):
        try:
            if record.op == VALUE:
                checks.need(not record.inputs, "a value with operands")
                arrays[number] = _restored(values.get(str(number)), record)
            else:
                _check_operation(number, record, records)
        except Exception as error:
            raise checks.Unfit(f"record {number}, {record.op[:40]}: {error}") from error
    checks.need(len(values) == len(arrays), "values without records")
    return Capsule(records, arrays, content["random"], content["error"], str(content["weft"]))


def _check_operation(number: int, record: CapsuleRecord, records: list[CapsuleRecord]) -> None:
    """Operands come before, edges lead to records that there are, and the operation may run."""
    checks.need(all(source < number for source in record.sources()), "operands that come later")
    checks.need(all(e is None or e < len(records) for e in record.edges or ()), "edges")
    types = [
        (source.dtype, ()) if isinstance(source, ScalarOperand) else _type_of(records[source])
        for source in record.inputs
    ]
    for source in record.inputs:
        if isinstance(source, ScalarOperand):
            dtypes.by_name(source.dtype)
    dtypes.by_name(record.dtype)
    checks.check(record, types)


def _type_of(record: CapsuleRecord) -> tuple[str, tuple[int, ...]]:
    return record.dtype, record.shape
