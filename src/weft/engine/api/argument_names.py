"""Other spellings of a call that PyTorch takes: NumPy's argument names, names of PyTorch's own parser, deprecated
positions of scalars.

It takes a public function and the arguments of a call that failed with a TypeError, and returns the arguments under
the function's own names, or None if they are no other spelling. This runs after such a failure only, so calls by the
functions' own names pay nothing for it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from weft.engine.api.deprecation import user_level
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

Call = tuple[list[Any], dict[str, Any]]

# The functions that PyTorch parses in C++ stand in these modules.
_PARSED = (
    "weft.functional.",
    "weft.tensor.",
    "weft.random",
    "weft.special",
    "weft.nn.functional",
    "weft.compat.aten.native",
    "weft.compat.aten.modes_by_number",
    "weft.compat.aten.positional",
)

# What else a parameter is called: by the parameter, where a function has one of that name ...
_NAMES: dict[str, tuple[str, ...]] = {
    "axis": ("dim",),
    "keepdims": ("keepdim",),
    "x2": ("other", "src"),
    "other": ("src", "tensor2"),
    **dict.fromkeys(("self", "x", "a", "x1"), ("input",)),
    "from": ("from_",),
    "tensor": ("other", "tensor1"),
    "scalar1": ("tensor1",),
    **dict.fromkeys(("scalar", "scalar2"), ("tensor2",)),
    "num": ("threads",),
    "test_element": ("test_elements",),
    **dict.fromkeys(("split_size", "split_sizes"), ("split_size_or_sections",)),
    **dict.fromkeys(
        ("sections", "indices", "tensor_indices_or_sections"), ("indices_or_sections",)
    ),
}
# ... and by its place.
_PLACES = {
    **dict.fromkeys(("input", "self", "x", "a", "x1", "element"), 0),
    "input2": 1,
    "input3": 2,
}
# What makes tensors (it has a `device`) takes these, which change nothing here but for layouts that it does not have.
_IDLE = frozenset({"pin_memory", "layout"})
# Parameters that take integers one by one, or one sequence of them.
_SEQUENCES = frozenset({"size", "sizes", "dims", "shape", "repeats"})

# Scalars that may stand before the tensors that they multiply, and in which order of numbers (n) and tensors (t).
_ALPHA, _VALUE, _BETA = ("alpha",), ("value",), ("beta", "alpha")
_FACTOR, _SUM = {"tnt"}, {"ntntt", "nttt", "tnntt", "tntt"}
_SCALARS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    **dict.fromkeys(("add", "sub"), (_ALPHA, _FACTOR)),
    **dict.fromkeys(("addcmul", "addcdiv"), (_VALUE, {"tntt"})),
    **dict.fromkeys(("addmm", "sspaddmm", "addmv", "addr", "addbmm", "baddbmm"), (_BETA, _SUM)),
}
_warned: list[str] = []  # the function whose call was warned about: one warning, as PyTorch gives


def respelled(
    function: Callable[..., object], values: list[object], keywords: dict[str, object]
) -> Call | None:
    """The arguments of a call under the names of the function's parameters, or None where nothing is to be changed."""
    if not str(function.__module__).startswith(_PARSED):
        return None
    return _scalars_behind(function, values, keywords) or _renamed(function, values, keywords)


@cache
def _parameters(function: Callable[..., object]) -> tuple[list[str], str, frozenset[str], bool]:
    """The names by place, that of a `*parameter`, all names, and whether any other name is taken. `out` is always one:
    it may be taken by what is wrapped around the function."""
    found = inspect.signature(getattr(function, "explained_as", function)).parameters.values()
    placed = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
    several = next((p.name for p in found if p.kind is p.VAR_POSITIONAL), "")
    others = any(p.kind is p.VAR_KEYWORD for p in found)
    names = frozenset(("out", *(p.name for p in found))) - {several}
    return placed, several, names, others


def need_dense(name: str, layout: object) -> None:
    """Errors: NotImplementedError where a function is asked for a sparse tensor, whose elements it would all fill."""
    if getattr(layout, "name", "")[:7] == "sparse_":
        raise NotDefinedError(
            f"{name}: not implemented for the layout {layout!r}",
            expected="layout=weft.strided",
            got=f"layout={layout!r}",
            fix=f"use weft.zeros(size, layout={layout!r}), or .to_sparse() of a dense tensor",
        )


def _renamed(
    function: Callable[..., object], values: list[object], keywords: dict[str, object]
) -> Call | None:
    placed, several, names, others = _parameters(function)
    made: dict[str, Any] = {}
    spread: Any = None
    for keyword, value in keywords.items():
        if keyword in _IDLE and keyword not in names and "device" in names:
            need_dense(function.__name__, value if keyword == "layout" else None)
            continue
        name = keyword if keyword in names else _own_name(keyword, placed, names)
        if name is None and several in _SEQUENCES and _is_sequence(keyword, value):
            spread = value
        elif name is None and others:
            made[keyword] = value
        elif name is None or name in made or (name != keyword and name in placed[: len(values)]):
            return None
        else:
            made[name] = value
    if spread is not None:
        return _spread(placed, values, made, spread)
    return (values, made) if made.keys() != keywords.keys() else None


def _own_name(keyword: str, placed: list[str], names: Iterable[str]) -> str | None:
    """The function's own name of the parameter that `keyword` means; None if it has none."""
    for name in _NAMES.get(keyword, ()):
        if name in names:
            return name
    place = _PLACES.get(keyword, len(placed))
    return placed[place] if place < len(placed) else None


def _is_sequence(keyword: str, value: object) -> bool:
    return keyword in _SEQUENCES and isinstance(value, (tuple, list))


def _spread(
    placed: list[str], values: list[object], keywords: dict[str, object], sequence: object
) -> Call | None:
    """A call whose `*parameter` was named: what stands before it goes to its place."""
    before = placed[len(values) :]
    if len(values) > len(placed) or any(name not in keywords for name in before):
        return None
    return [*values, *(keywords.pop(name) for name in before), sequence], keywords


# -- scalars that stand before tensors -----------------------------------------------------------------------------


def _scalars_behind(
    function: Callable[..., object], values: list[object], keywords: dict[str, object]
) -> Call | None:
    """The call of a deprecated form: its numbers by name."""
    name = function.__name__
    scalars, forms = _SCALARS.get(name.removesuffix("_"), ((), ()))
    if not scalars or keywords.keys() - {"other", "out"}:
        return None
    given = [*values, *([keywords["other"]] if "other" in keywords else [])]
    kinds = _kinds(given)
    if kinds not in forms:
        return None
    tensors = [value for value, kind in zip(given, kinds, strict=True) if kind == "t"]
    numbers = [value for value, kind in zip(given, kinds, strict=True) if kind == "n"]
    _warn(name, scalars)
    rest = {key: value for key, value in keywords.items() if key == "out"}
    return tensors, {**dict(zip(scalars, numbers, strict=False)), **rest}


def _kinds(values: list[object]) -> str:
    """A letter for each value: t for a tensor, n for a number; a tensor of no dimensions is a number unless it is
    first or last."""
    last = len(values) - 1
    return "".join(
        "t" if isinstance(value, Tensor) and (value._shape or place in (0, last)) else "n"
        for place, value in enumerate(values)
    )


def _warn(name: str, scalars: tuple[str, ...]) -> None:
    if _warned:
        return
    _warned.append(name)
    named = ", ".join(f"{scalar}=..." for scalar in scalars)
    warnings.warn(
        f"This overload of {name} is deprecated: scalars before tensors. Pass the tensors first, and {named} by name.",
        UserWarning,
        stacklevel=user_level(),
    )
