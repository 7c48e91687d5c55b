"""Cycles through what users attach to the graph: whatever PyTorch's collector frees, ours does.

Each case is a tensor of some origin, a way to attach a Python object to it or to its record, and what that object
holds: the tensor, the record, an edge, what stands before or after it.
"""

from __future__ import annotations

import ast
import gc
import importlib
import itertools
import subprocess
import sys
import weakref
from typing import Any

import pytest

import weft


class Thing:
    """What has to go."""


def origins(lib: Any) -> dict[str, Any]:
    """Tensors of every kind of record."""

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class SavesItsOutput(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    def leaf() -> Any:
        return lib.ones(2, requires_grad=True)

    def written() -> Any:
        return (leaf() * 2).mul_(3)

    return {
        "leaf": leaf,
        "nothing saved": lambda: leaf().clone(),
        "result saved": lambda: leaf().exp(),
        "function": lambda: Twice.apply(leaf()),
        "function with its output": lambda: SavesItsOutput.apply(leaf()),
        "piece": lambda: (leaf() * 2).unbind()[0],
        "view": lambda: (leaf() * 2)[:1],
        "written": written,
        "composite": lambda: lib.nn.functional.softmax(leaf() * 2, 0),
    }


def record_of(lib: Any, tensor: Any) -> Any:
    return lib.autograd.graph.get_gradient_edge(tensor).node


def holder(*held: Any) -> Any:
    def hook(*arguments: Any) -> None:
        assert held

    return hook


def raw_saved(lib: Any, tensor: Any) -> Any:
    record = record_of(lib, tensor)
    return getattr(record, next(name for name in dir(record) if name.startswith("_raw_saved")))


ATTACHED = {
    "tensor hook": lambda lib, t, held: t.register_hook(holder(held)),
    "record hook": lambda lib, t, held: record_of(lib, t).register_hook(holder(held)),
    "record prehook": lambda lib, t, held: record_of(lib, t).register_prehook(holder(held)),
    "metadata": lambda lib, t, held: record_of(lib, t).metadata.update(a=held),
    "post accumulate hook": lambda lib, t, held: t.register_post_accumulate_grad_hook(holder(held)),
    "attribute": lambda lib, t, held: setattr(t, "attached", held),
    "attribute of the record": lambda lib, t, held: setattr(record_of(lib, t), "attached", held),
    "hooks of a save": lambda lib, t, held: raw_saved(lib, t).register_hooks(
        holder(held), holder(held)
    ),
}
HELD = {
    "nothing": lambda lib, t: None,
    "tensor": lambda lib, t: t,
    "record": record_of,
    "tensor and record": lambda lib, t: (t, record_of(lib, t)),
    "detached": lambda lib, t: t.detach(),
    "records before": lambda lib, t: record_of(lib, t).next_functions,
    "edge": lambda lib, t: lib.autograd.graph.get_gradient_edge(t),
    "result": lambda lib, t: t * 2,
    "record of a result": lambda lib, t: (t * 2).grad_fn,
}
CASES = list(itertools.product(origins(weft), ATTACHED, HELD))


def make(lib: Any, origin: str, attached: str, held: str) -> Any:
    """A weak reference to what hangs on a case; None where there is no such case."""
    thing = Thing()
    tensor = origins(lib)[origin]()
    try:
        ATTACHED[attached](lib, tensor, (thing, HELD[held](lib, tensor)))
    except (AttributeError, RuntimeError, StopIteration, TypeError):
        return None
    return weakref.ref(thing)


def freed(lib: Any) -> dict[Any, bool]:
    """For every case that there is: whether the collector frees it."""
    references = {case: make(lib, *case) for case in CASES}
    gc.collect()
    return {case: ref() is None for case, ref in references.items() if ref is not None}


def freed_in_another_process(library: str) -> dict[Any, bool]:
    """`freed`, where what stays is no matter of the tests after it."""
    command = [sys.executable, "-W", "ignore", __file__, library]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)  # type: ignore[no-any-return]


# An edge of one output of several holds the inner record of that output, which the collector does not see.
NOT_SEEN = {("piece", attached, "edge") for attached in ATTACHED}


def test_what_goes_in_pytorch_goes() -> None:
    pytest.importorskip("torch")
    ours, theirs = freed_in_another_process("weft"), freed_in_another_process("torch")
    assert len(theirs) > 400
    stays = {case for case in theirs if theirs[case] and not ours.get(case, True)}
    assert stays <= NOT_SEEN


def test_a_record_that_was_collected_leaves_values_in_order() -> None:
    """What it has saved is counted down once, also where hooks had taken it over."""
    for attached in ATTACHED:
        x = weft.ones(3, requires_grad=True)
        y = x.exp()
        thing = Thing()
        try:
            ATTACHED[attached](weft, y, (thing, record_of(weft, y), thing))
        except (AttributeError, RuntimeError):
            continue
        kept = y.detach()
        del y, thing
        gc.collect()
        assert kept.tolist() == pytest.approx([2.718281828] * 3)


def test_records_that_were_seen_serve_again() -> None:
    """They are made as records of classes, die, and are used for other operations."""
    for _ in range(3):
        records = [(weft.ones(2, requires_grad=True) * i).grad_fn for i in range(2000)]
        assert {type(record).__name__ for record in records} == {"MulBackward0"}
        assert all(gc.is_tracked(record) for record in records)
        del records
    assert type((weft.ones(1, requires_grad=True) + 1).grad_fn).__name__ == "AddBackward0"


if __name__ == "__main__":
    print(freed(importlib.import_module(sys.argv[1])))
