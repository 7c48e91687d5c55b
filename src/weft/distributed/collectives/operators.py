"""Collectives as PyTorch's operators: what `torch.ops.c10d_functional` and its like have, to be called, and to name
what `CommDebugMode` counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.distributed import _functional_collectives as functional
from weft.distributed.collectives.counting import NAMES
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError


class CollectiveOperator:
    """An operator of PyTorch's, by its namespace and name.

    Args:
        name: both, with a dot between.
        function: what it does; None: it only names what is counted.
    """

    def __init__(self, name: str, function: Callable[..., object] | None = None) -> None:
        self._name, self._function = name, function
        self.__name__ = name.partition(".")[2]

    @property
    def default(self) -> CollectiveOperator:
        """The operator itself, which has one form."""
        return self

    def __call__(self, *args: object) -> Any:
        """The operator's result. Errors: NotImplementedError for one that only names."""
        if self._function is None:
            raise NotDefinedError(
                f"torch.ops.{self._name} cannot be called",
                expected="torch.ops._c10d_functional, or a function of weft.distributed",
                got=self._name,
                fix="call weft.distributed, or _functional_collectives",
            )
        return self._function(*args)

    def __repr__(self) -> str:
        return self._name


def _all_reduce(x: Tensor, op: str, group: str) -> Any:
    return functional.all_reduce(x, op, group)


def _all_gather(x: Tensor, size: int, group: str) -> Any:
    return functional.all_gather_tensor(x, 0, group)


def _reduce_scatter(x: Tensor, op: str, size: int, group: str) -> Any:
    return functional.reduce_scatter_tensor(x, op, 0, group)


def _all_to_all(x: Tensor, received: Sequence[int], sent: Sequence[int], group: str) -> Any:
    return functional.all_to_all_single(x, received, sent, group)


def _broadcast(x: Tensor, root: int, group: str) -> Any:
    return functional.broadcast(x, root, group)


_CALLABLE: dict[str, Callable[..., object]] = {
    "all_gather_into_tensor": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all_single": _all_to_all,
    "broadcast": _broadcast,
    "reduce_scatter_tensor": _reduce_scatter,
    "wait_tensor": functional.wait_tensor,
}
_operators = {name: CollectiveOperator(name) for name in NAMES}
for _name, _function in _CALLABLE.items():
    for _space in ("_c10d_functional", "_c10d_functional_autograd"):
        _full = f"{_space}.{_name}"
        _operators[_full] = CollectiveOperator(_full, _function)
for _name in (
    "all_gather_into_tensor_coalesced",
    "all_reduce_coalesced",
    "broadcast",
    "wait_tensor",
):
    _operators[f"c10d_functional.{_name}"] = CollectiveOperator(f"c10d_functional.{_name}")


def operator(name: str) -> CollectiveOperator | None:
    """The operator of a name, with its namespace; None if there is none."""
    return _operators.get(name)
