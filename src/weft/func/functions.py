"""Custom Functions inside a map: their own `vmap`, called with all examples.

It takes a Function at the first example, whose arguments are lifted, and returns slices of what its `vmap` returns, in
place of the Function's own outputs. The gradient record of the example is the Function's own, for the transforms
inside the map; those outside differentiate the operations of `vmap`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft._typing import Shape
from weft.autograd.function import Function
from weft.engine.frontend.recorder import record
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.pipeline import driver
from weft.errors import GradientError
from weft.func.lifting import Lifting, Unliftable
from weft.func.tree import leaves, rebuild
from weft.ops import OPS


class VmapInfo(NamedTuple):
    """The arguments of a `vmap` staticmethod: the number of examples, and the setting of random numbers."""

    batch_size: int
    randomness: str


class Outputs(NamedTuple):
    """The results of a Function at the first example, and what stands for each over all examples."""

    lifting: Any
    first: Any
    wholes: list[Any]

    def connect(self, outputs: Tensor | tuple[Tensor, ...]) -> None:
        """Let the gradients of all examples stand for that of the first one."""
        for one, whole in zip(leaves(outputs), self.wholes, strict=True):
            if whole is not None:
                self.lifting.connect(one, whole)


class FunctionMap:
    """The map around a Function that is called."""

    def __init__(self, lifting: Lifting, randomness: str, outer: object) -> None:
        self.lifting, self.randomness, self.outer = lifting, randomness, outer
        self.flushes = 0  # made by `vmap` staticmethods, which may read all examples

    def call(self, function: Any, arguments: tuple[Tensor | int, ...]) -> Outputs | None:
        """The results of a Function by its own `vmap`; None where it has none or no argument is mapped over.

        Errors: RuntimeError where it does not say what its outputs depend on, or results do not have the structure.
        """
        if function.vmap is Function.vmap:
            return None
        found = self._lifted(arguments)
        if found is None:
            return None
        _check_contract(function)
        dims = [None if whole is None else 0 for whole in found]
        given = [
            leaf if whole is None else whole
            for leaf, whole in zip(leaves(arguments), found, strict=True)
        ]
        with self._outside():
            info = VmapInfo(self.lifting.count, self.randomness)
            result = function.vmap(
                info, rebuild(arguments, iter(dims)), *rebuild(arguments, iter(given))
            )
        outputs, out_dims = _pair(result)
        return self._first(outputs, _spread(out_dims, outputs))

    def _lifted(self, arguments: tuple[Tensor | int, ...]) -> list[Any] | None:
        """The arguments over all examples, None for what is no tensor or the same for all; None where all are."""
        given = leaves(arguments)
        tensors = [leaf for leaf in given if isinstance(leaf, weft.Tensor)]
        try:
            with weft.enable_grad():
                lifted = iter(self.lifting.lift(tensors))
                found = [next(lifted) if isinstance(leaf, weft.Tensor) else None for leaf in given]
                if any(whole is not None for whole in found):
                    self.lifting.lift_pending()  # `vmap` may read, after which there is no record of them
        except Unliftable:
            return None
        return None if all(whole is None for whole in found) else found

    def _outside(self) -> _Outside:
        return _Outside(self)

    def _first(self, outputs: Tensor | tuple[Tensor, ...], dims: list[int]) -> Outputs:
        """The first example of each output."""
        ones: list[Any] = []
        wholes: list[Any] = []
        for leaf, dim in zip(leaves(outputs), dims, strict=True):
            if dim is None or not isinstance(leaf, weft.Tensor):
                ones.append(leaf)
                wholes.append(None)
                continue
            whole = leaf if dim == 0 else leaf.movedim(dim, 0)
            with weft.no_grad():
                one = record(OPS["select"], (whole,), (0, 0), tuple(whole.shape)[1:], whole.dtype)
            self.lifting.connect(one, whole)
            ones.append(one)
            wholes.append(whole)
        return Outputs(self.lifting, rebuild(outputs, iter(ones)), wholes)


class _Outside:
    """The context around a `vmap` staticmethod, which belongs to the code outside the map."""

    def __init__(self, mapping: FunctionMap) -> None:
        self.mapping = mapping

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        self.previous, mode.contexts = mode.contexts, self.mapping.outer
        self.flushes = driver.counters["flushes"]

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.contexts = self.previous
        self.mapping.flushes += driver.counters["flushes"] - self.flushes


def _check_contract(function: Any) -> None:
    """Errors: RuntimeError."""
    if function.generate_vmap_rule:
        raise GradientError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity.",
            expected="one of the two",
            got="both",
            fix="delete one of them",
        )
    if getattr(function, "setup_context", None) is None:
        raise GradientError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            "override the setup_context staticmethod.",
            expected=f"{function.__name__}.setup_context(ctx, inputs, output) beside its vmap",
            got="a forward that takes ctx",
            fix="move what forward does with ctx into setup_context, or delete vmap: forward then runs once per "
            "example",
        )


def _pair(result: object) -> tuple[Any, Any]:
    """(outputs, out_dims). Errors: RuntimeError."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    got = type(result).__name__
    raise GradientError(
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        f"with the output. Got a {got} "
        + (f"with {len(result)} returns " if isinstance(result, tuple) else "")
        + "instead",
        expected="(outputs, out_dims)",
        got=got,
        fix="return the number of the dimension of the examples beside each output, or None",
    )


def _spread(
    dims: int | Shape | tuple[object, ...], outputs: Tensor | tuple[Tensor, ...]
) -> list[Any]:
    """A dimension (or None) for each output. Errors: RuntimeError where the structures differ."""
    count = len(leaves(outputs))
    if dims is None or isinstance(dims, int):
        return [dims] * count
    found = leaves(dims)
    fits = isinstance(dims, (tuple, list)) and isinstance(outputs, (tuple, list))
    if not fits or len(found) != count or len(dims) != len(outputs):
        raise GradientError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={dims} to be compatible with the structure of `output`.",
            expected=f"an integer or None, or {count} of them",
            got=repr(dims),
            fix="return one per output",
        )
    return found


__all__ = ["FunctionMap", "Outputs", "VmapInfo"]
