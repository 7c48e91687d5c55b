"""`weft.debug.stepper`: a cursor over a recorded graph, which goes from operation to operation, forwards and backwards.

It takes a capsule, the path of one, or a tensor whose graph is pending. Values are computed when they are asked for,
each from what it needs, and stay for the next question.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weft.autograd.anomaly.nonfinite_origin import OperandStatistics, in_numbers
from weft.debug.capsules.capsule import Capsule, CapsuleReplay, load_capsule
from weft.debug.capsules.capture import recorded_of
from weft.debug.capsules.records import VALUE, CapsuleRecord
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, class_name

if TYPE_CHECKING:
    from weft._typing import Array

Target = Capsule | Tensor | str | os.PathLike[str]


def as_capsule(target: Target) -> Capsule:
    """A capsule: itself, the one in a file, or what a tensor was recorded from."""
    if isinstance(target, Capsule):
        return target
    if isinstance(target, str | os.PathLike):
        return load_capsule(target)
    if isinstance(target, Tensor):
        return recorded_of(target)
    raise ArgumentTypeError(
        f"stepper: expected a capsule, got {class_name(target)}",
        expected="a capsule, the path of one, or a tensor",
        got=f"{target!r:.80}",
        fix='weft.debug.stepper("bug.weft")',
    )


class stepper:  # noqa: N801 - called as a function
    """A cursor over the operations of a graph, at its last one at first.

    Args:
        target: a tensor that has not run yet, or a capsule.

    Example:
        >>> import weft
        >>> at = weft.debug.stepper((weft.tensor([1.0, 4.0]).sqrt() * 3).sum())
        >>> print(at.prev().record.op, at.value().tolist())
        mul [3.0, 6.0]
        >>> print(at.up().record.op, at.down().record.op)
        sqrt mul
    """

    def __init__(self, target: Target) -> None:
        self.capsule = as_capsule(target)
        self._run = CapsuleReplay(self.capsule)
        self.number = len(self.capsule.records) - 1
        if self.number < 0:
            raise ArgumentError(
                "stepper: nothing was recorded",
                expected="at least one operation",
                got="an empty graph",
                fix="capture a block that computes something which is held",
            )

    @property
    def record(self) -> CapsuleRecord:
        """The operation that it stands at."""
        return self.capsule.records[self.number]

    def goto(self, number: int) -> stepper:
        """Go to a record by its number (`%7` is 7).

        Args:
            number: the number of a record.

        Raises:
            IndexError where there is none.
        """
        if not 0 <= number < len(self.capsule.records):
            raise IndexError(f"no record {number} among {len(self.capsule.records)}")
        self.number = number
        return self

    def next(self) -> stepper:
        """Go to the operation that was recorded next; stay at the last one."""
        later = range(self.number + 1, len(self.capsule.records))
        return self.goto(next((n for n in later if self._is_operation(n)), self.number))

    def prev(self) -> stepper:
        """Go to the operation that was recorded before; stay at the first one."""
        earlier = reversed(range(self.number))
        return self.goto(next((n for n in earlier if self._is_operation(n)), self.number))

    def up(self, operand: int = 0) -> stepper:
        """Go to the record that made an operand, counted from 0 among those that are no numbers.

        Args:
            operand: which operand. Default: 0.
        """
        sources = list(self.record.sources())
        return self.goto(sources[operand] if operand < len(sources) else self.number)

    def down(self, reader: int = 0) -> stepper:
        """Go to an operation that reads this value, counted from 0.

        Args:
            reader: which of the operations that read it. Default: 0.
        """
        found = [
            n for n, record in enumerate(self.capsule.records) if self.number in record.sources()
        ]
        return self.goto(found[reader] if reader < len(found) else self.number)

    def value(self, number: int | None = None) -> Tensor:
        """The value of this record, or of another one.

        Args:
            number: the number of a record; None: this one.
        """
        return self._run.tensor(self.number if number is None else number)

    def where(self) -> str:
        """The user's line, and its text."""
        return f"{self.record.line}: {self.record.source}".strip(": ")

    def numbers(self, number: int | None = None) -> OperandStatistics:
        """A value in numbers: extremes, mean, how many elements are not finite.

        Args:
            number: the number of a record; None: this one.
        """
        number = self.number if number is None else number
        record = self.capsule.records[number]
        return in_numbers(self.array(number), f"%{number}", record.dtype, record.shape)

    def array(self, number: int) -> Array:
        """A value as an array of numbers.

        Args:
            number: the number of a record.
        """
        tensor = self.value(number)
        array: Array = (tensor.float() if tensor.dtype.name == "bfloat16" else tensor).numpy()
        return array

    def __str__(self) -> str:
        lines = [self.record.text(self.number), f"  at      {self.where()}"]
        lines += [f"  input   {self.numbers(source)}" for source in self.record.sources()]
        return "\n".join([*lines, f"  value   {self.numbers()}"])

    __repr__ = __str__

    def _is_operation(self, number: int) -> bool:
        return self.capsule.records[number].op != VALUE
