"""Plain tensors with operands whose type answers calls: where Python asks the plain tensor first, the type is asked.

Also what ends a mode: its thread does.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch
from weft import nn
from weft.overrides import TorchFunctionMode

ARITHMETIC = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow")
BITWISE = ("iand", "ior", "ixor", "ilshift", "irshift")
BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "eq", "ne"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)


def _types(T: Any) -> tuple[Any, Any, list[Any]]:
    """A subclass of Tensor and a type that is none, which note what they are asked."""
    asked: list[Any] = []

    class Mine(T.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Other:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append((func.__name__, [type(a).__name__ for a in args]))
            return "answer"

    return Mine, Other, asked


def _in_place(T: Any, name: str, kind: str) -> Any:
    mine, other, asked = _types(T)
    dtype = T.int64 if name in BITWISE else T.float32
    plain = T.tensor([2, 3], dtype=dtype)
    operand = T.tensor([1, 2], dtype=dtype).as_subclass(mine) if kind == "mine" else other()
    asked.clear()
    made = getattr(operator, name)(plain, operand)
    noted = list(asked)
    shown = made if isinstance(made, str) else T.Tensor.tolist(made.as_subclass(T.Tensor))
    return type(made).__name__, made is plain, noted, shown, plain.tolist()


@pytest.mark.parametrize("kind", ["mine", "other"])
@pytest.mark.parametrize("name", [*ARITHMETIC, *BITWISE])
def test_operators_in_place_ask_the_operand(name: str, kind: str) -> None:
    assert _in_place(weft, name, kind) == _in_place(torch, name, kind)


@pytest.mark.parametrize("name", BINARY)
def test_operators_ask_operands_that_are_no_tensors(name: str) -> None:
    def outcome(T: Any) -> Any:
        _, other, asked = _types(T)
        plain = T.tensor([2, 3])
        results = [
            getattr(operator, name)(plain, other()),
            getattr(operator, name)(other(), plain),
        ]
        return results, [(n.replace("__rdiv__", "__rtruediv__"), kinds) for n, kinds in list(asked)]

    assert outcome(weft) == outcome(torch)


def test_products_ask_the_operand_also_after_autocast() -> None:
    with weft.autocast("cpu"):
        pass
    test_operators_ask_operands_that_are_no_tensors("matmul")
    with pytest.raises(TypeError, match="unsupported operand"):
        weft.ones(2, 2) @ "words"  # type: ignore[operator]


READS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "positions": lambda T, x, m: x[T.tensor([0, 1]).as_subclass(m)],
    "mask": lambda T, x, m: x[T.tensor([True, False, True]).as_subclass(m)],
    "number": lambda T, x, m: x[T.tensor(1).as_subclass(m)],
    "tuple": lambda T, x, m: x[(T.tensor([0]).as_subclass(m),)],
    "none of it": lambda T, x, m: x[1:],
}


@pytest.mark.parametrize("name", READS)
def test_indexing_asks_the_index(name: str) -> None:
    def outcome(T: Any) -> Any:
        mine, _, asked = _types(T)
        made = READS[name](T, T.arange(3.0), mine)
        noted = [n for n in asked if n == "__getitem__"]
        return type(made).__name__, noted, T.Tensor.tolist(made.as_subclass(T.Tensor))

    assert outcome(weft) == outcome(torch)


def test_what_is_no_tensor_is_asked_about_indexing() -> None:
    def outcome(T: Any) -> Any:
        _, other, asked = _types(T)
        x = T.arange(3.0)
        made = [x[other()], x[other(), 0], x[[other()]]]
        x[other()] = 1
        x[0] = other()
        return made, list(asked), x.tolist()

    assert outcome(weft) == outcome(torch)


def test_writes_ask_the_value() -> None:
    def outcome(T: Any) -> Any:
        mine, _, asked = _types(T)
        x = T.arange(3.0)
        x[0] = T.tensor(7.0).as_subclass(mine)
        return type(x).__name__, x.tolist(), [n for n in asked if n == "__setitem__"]

    assert outcome(weft) == outcome(torch)


def test_what_does_not_answer_is_an_error_not_a_crash() -> None:
    class Silent:
        @classmethod
        def __torch_function__(cls, *args: Any) -> Any:
            return NotImplemented

    x: Any = weft.ones(2)
    with pytest.raises(TypeError):
        x += Silent()
    with pytest.raises(TypeError):
        x += object()
    assert x.tolist() == [1.0, 1.0]


class Adding:
    """Its objects are no tensors, and add themselves to one."""

    def __radd__(self, other: Any) -> str:
        return f"added to {other.tolist()}"


class Declining:
    def __radd__(self, other: Any) -> Any:
        return NotImplemented


class Silent:
    """It is asked by `__torch_function__`, and declines."""

    @classmethod
    def __torch_function__(cls, *args: Any) -> Any:
        return NotImplemented


def _made(lib: Any, kind: str) -> Any:
    class Summing(lib.Tensor):  # type: ignore[misc, name-defined]
        """A subclass with a sum in place of its own."""

        def __iadd__(self, other: Any) -> Any:
            return super().__iadd__(other)

    class Announced:
        def __init_subclass__(cls, words: str = "", **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.words = words  # type: ignore[attr-defined]

    class Mixed(lib.Tensor, Announced, words="hello"):  # type: ignore[misc, name-defined]
        pass

    assert Mixed.words == "hello"
    x = lib.ones(2)
    if kind == "after a mode":
        with lib.overrides.BaseTorchFunctionMode():
            pass
    if kind in ("plain", "after a mode"):
        return x
    if kind in ("parameter", "parameter after a mode"):
        if kind != "parameter":
            with lib.overrides.BaseTorchFunctionMode():
                pass
        return lib.nn.Parameter(x)
    own = type("Own", (lib.Tensor,), {})
    classes = {"subclass": own, "of a subclass": type("Its", (own,), {}), "of its own": Summing}
    return x.as_subclass(classes.get(kind, Mixed))


SUMMED = ["plain", "after a mode", "parameter", "parameter after a mode", "subclass"]
SUMMED += ["of a subclass", "of its own", "of two bases"]


@pytest.mark.parametrize("kind", SUMMED)
@pytest.mark.parametrize("foreign", [object, Declining, Silent])
def test_a_sum_in_place_that_nobody_makes_is_an_error(kind: str, foreign: type) -> None:
    """Python takes `__iadd__` of subclasses, and of classes whose methods were replaced, for a concatenation, too."""
    for lib in (weft, torch) if torch is not None else (weft,):
        x = before = _made(lib, kind)
        with lib.no_grad(), pytest.raises(TypeError):
            x += foreign()
        assert x is before
        assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", SUMMED)
def test_a_sum_in_place_with_a_foreign_type_is_that_types(kind: str) -> None:
    x = _made(weft, kind)
    with weft.no_grad():
        x += Adding()
    assert x == "added to [1.0, 1.0]"
    y = before = _made(weft, kind)
    with weft.no_grad():
        y += 1
    assert y is before
    assert y.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("foreign", [object, Declining])
def test_the_error_of_a_sum_in_place_is_pythons(foreign: type) -> None:
    for x in (weft.ones(2), nn.Parameter(weft.ones(2), requires_grad=False)):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+=: .* and '"):
            x += foreign()


def test_a_mode_ends_with_its_thread() -> None:
    seen: list[str] = []

    class Noting(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    plain = weft.Tensor.__dict__["__add__"]

    def enter_and_end() -> None:
        Noting().__enter__()
        weft.ones(2).add(1)

    for _ in range(3):
        thread = threading.Thread(target=enter_and_end)
        thread.start()
        thread.join()
    assert seen == ["ones", "add"] * 3
    seen.clear()
    for _ in range(3):  # threads get the numbers of those before
        thread = threading.Thread(target=lambda: weft.ones(2) + 1)
        thread.start()
        thread.join()
    assert seen == []
    assert weft.Tensor.__dict__["__add__"] is plain
    with Noting():
        weft.ones(2) + 1
    assert seen == ["ones", "add"]


def test_records_of_medians_are_called_as_in_pytorch() -> None:
    def names(T: Any) -> Any:
        x = T.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
        made = (x.median(), x.median(1)[0], x.nanmedian(), x.nanmedian(1)[0])
        return [part.grad_fn.name() for part in made]

    assert names(weft) == names(torch)
