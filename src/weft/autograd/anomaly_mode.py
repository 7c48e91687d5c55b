"""Anomaly mode: a backward whose outputs or gradients are not finite raises, and names the operation at fault.

While it is on, a backward runs at its end what it has recorded and looks at the results; only where one of them is
not finite is the program run once more, value by value (`nonfinite_origin`).
"""

from __future__ import annotations

from typing import Any

from weft.autograd.anomaly.nonfinite_origin import Anomaly, records_below
from weft.autograd.anomaly.watch import Watch, not_finite
from weft.autograd.backward import grad
from weft.engine.api.api_function import all_public
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.mode import Contexts
from weft.errors import AnomalyError, ArgumentTypeError, class_name
from weft.ops.primitives import elementwise


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Check the outputs and gradients of every backward within a block.

    Errors: AnomalyError (a RuntimeError) naming the first operation that made a nan or an infinity, forward or
    backward, and the user's line that recorded it; its notes are the operands in numbers and the way to the loss.
    Cost: each backward runs what is pending; one more pass over the gradients.

    Args:
        check_nan: False: values are not looked at; records keep the user's line only.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0], requires_grad=True)
        >>> with weft.autograd.detect_anomaly():
        ...     (x * 2).sum().backward()
        >>> x.grad
        tensor([2.])
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.enabled, self.check_nan = True, check_nan

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        self.previous = (mode.anomaly, mode.contexts)
        mode.anomaly = self.enabled and self.check_nan
        mode.contexts = Contexts(mode.contexts, anomaly=self.enabled)

    def __exit__(self, *exc: object) -> None:
        mode = tapes.tape().mode
        mode.anomaly, mode.contexts = self.previous


class set_detect_anomaly(detect_anomaly):  # noqa: N801 - PyTorch's name
    """Switch anomaly mode on or off, for good or within a `with` block.

    Args:
        mode: True switches it on, False off.
        check_nan: False: values are not looked at.

    Example:
        >>> import weft
        >>> with weft.autograd.set_detect_anomaly(False):
        ...     weft.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        if not isinstance(mode, bool):
            raise ArgumentTypeError(
                f"set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not {class_name(mode)}",
                expected="True or False",
                got=repr(mode),
                fix="pass True or False",
            )
        self.enabled = mode
        super().__enter__()

    def __enter__(self) -> None:
        """Already in force."""


def is_anomaly_enabled() -> bool:
    """True if anomaly mode is on.

    Example:
        >>> import weft
        >>> with weft.autograd.detect_anomaly():
        ...     print(weft.autograd.is_anomaly_enabled())
        True
        >>> weft.autograd.is_anomaly_enabled()
        False
    """
    contexts = tapes.tape().mode.contexts
    return contexts is not None and bool(contexts.anomaly)


def is_anomaly_check_nan_enabled() -> bool:
    """True if anomaly mode is on and looks for nan."""
    return bool(tapes.tape().mode.anomaly)


def find_anomaly(loss: Any) -> Anomaly | None:
    """The first operation that made a nan or an infinity on the way to `loss`, or on the way back to the leaves; None
    where all values and gradients are finite. Works on a graph that is already built, and leaves `.grad` alone.

    What has run is known as far as it was saved: operands that were not are left out. Hooks are called.
    Errors: RuntimeError where the graph has been freed by a backward without retain_graph=True.
    """
    with detect_anomaly():
        try:
            watch = Watch((loss,))
            watch._raise_for(not_finite([value_of(loss)]))
            leaves = [
                r.variable for r in records_below(watch.roots) if isinstance(r, AccumulateGrad)
            ]
            if leaves:
                start = elementwise("add", wrap_node(value_of(loss)) * 0, 1)
                grad(loss, leaves, start, retain_graph=True, allow_unused=True)
        except AnomalyError as error:
            found = error.anomaly
            assert isinstance(found, Anomaly)
            return found
    return None


globals().update(all_public({"find_anomaly": find_anomaly}))
