"""The names that Weft and PyTorch both have take the same parameters: names, order, defaults, and what may be passed by
position. Functions that PyTorch writes in C++ have no signature to compare; the others are all here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from oracle import torch

pytestmark = pytest.mark.filterwarnings("ignore")

SPACES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nested", "optim", "optim.lr_scheduler",
    "linalg", "special", "autograd",
    "autograd.graph", "autograd.forward_ad", "autograd.functional", "func", "Tensor", "nn.Module", "nn.Sequential",
    "nn.ModuleList", "nn.ModuleDict", "optim.Optimizer", "optim.lr_scheduler.LRScheduler", "data",
)  # fmt: skip
ARGS = "PyTorch's signature says only *args"
POOL = "PyTorch chooses between two functions of this signature by return_indices"
WEIGHTS = "files hold no pickled code"
NAME = "one base class for all containers"
# Where the two differ, and why.
ALLOWED = {
    "nn.functional.adaptive_max_pool1d": POOL,
    "nn.functional.adaptive_max_pool2d": POOL,
    "nn.functional.adaptive_max_pool3d": POOL,
    "nn.functional.max_pool1d": POOL,
    "nn.functional.max_pool2d": POOL,
    "nn.functional.max_pool3d": POOL,
    "nn.functional.softmax": "weft.softmax itself: dtype is the third, as in torch.softmax",
    "nn.functional.log_softmax": "weft.log_softmax itself: dtype is the third, as in torch.log_softmax",
    "nn.Buffer": "a buffer may ask for a gradient",
    "nn.Container": ARGS,
    "nn.GRU": ARGS,
    "nn.NLLLoss2d": ARGS,
    "nn.functional.fractional_max_pool2d": POOL,
    "nn.functional.fractional_max_pool3d": POOL,
    "nn.LSTM": ARGS,
    "nn.RNN": ARGS,
    "data.random_split": "None is the default generator",
    "Size": "a tuple, whose parameter is positional",
    "compile": "options choose among compilers; there is one",
    "einsum": ARGS,
    "save": WEIGHTS,
    "memory_format": "an enumeration in PyTorch",
    "meshgrid": "None warns and means 'ij'",
    "split": "torch.split calls its tensor `tensor`, Tensor.split `self`: one function here",
    "nested.narrow": "the default is a layout, of another class",
    "lu": ARGS,
    "unique": ARGS,
    "unique_consecutive": ARGS,
    "Tensor.split": ARGS,
    "Tensor.norm": "one function for torch.norm and Tensor.norm",
    "nn.Module.forward": "every subclass defines it",
    "nn.ModuleList.forward": "every subclass defines it",
    "nn.ModuleDict.forward": "every subclass defines it",
    "nn.Sequential.extend": NAME,
    "nn.Sequential.pop": NAME,
    "nn.ModuleList.pop": NAME,
    "nn.ModuleDict.update": NAME,
}


def owner(library: Any, space: str) -> Any:
    for part in space.split(".") if space else ():
        library = getattr(library, part)
    return library


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Every public name that both have, with both."""
    for space in SPACES:
        ours = owner(weft, space)
        theirs = torch.utils.data if space == "data" else owner(torch, space)
        for name in dir(ours):
            ours_is = getattr(ours, name)
            of_weft = str(getattr(ours_is, "__module__", "")).startswith("weft")
            if not name.startswith("_") and of_weft and callable(getattr(theirs, name, None)):
                yield f"{space}.{name}" if space else name, ours_is, getattr(theirs, name)


def parameters(function: Any) -> list[tuple[str, str, bool]] | None:
    """Names with defaults, and whether each may be passed by position; None where there is no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        (
            "self" if number == 0 and p.name in ("self", "input") else p.name,
            shown(p.default),
            p.kind is not p.KEYWORD_ONLY,
        )
        for number, p in enumerate(found)
        if p.kind is not p.VAR_KEYWORD
    ]


def shown(default: Any) -> str:
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        return str(float(default))
    plain = (bool, str, tuple, list, type(None))
    return repr(default) if isinstance(default, plain) else type(default).__name__


COMPARED = [
    (name, ours, theirs)
    for name, ours, theirs in pairs()
    if parameters(ours) is not None and parameters(theirs) is not None
]


def differs(ours: Any, theirs: Any) -> bool:
    """Our own further parameters may follow, by keyword."""
    have, want = parameters(ours) or [], parameters(theirs) or []
    known = {name for name, _, _ in want}
    positional = [name for name, _, place in want if place]
    ours_by_place = [name for name, _, place in have if place]
    more = [part for part in have if part[0] not in known]
    return (
        {name: default for name, default, _ in have if name in known}
        != {name: default for name, default, _ in want}
        or ours_by_place[: len(positional)] != positional
        or any(place or default == "type" for _, default, place in more)
    )


@pytest.mark.parametrize(
    ("name", "ours", "theirs"), COMPARED, ids=[name for name, _, _ in COMPARED]
)
def test_signatures_agree(name: str, ours: Any, theirs: Any) -> None:
    if name in ALLOWED:
        assert differs(ours, theirs), f"{name} agrees: take it out of ALLOWED"
    else:
        assert not differs(ours, theirs), (parameters(ours), parameters(theirs))


def test_many_are_compared() -> None:
    assert len(COMPARED) > 350
    assert {name for name, _, _ in COMPARED} >= set(ALLOWED)
