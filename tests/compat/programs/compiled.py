"""Compiled modules and functions of a library: `compiled.py LIBRARY modules|functions`."""

from __future__ import annotations

import copy
import sys
from importlib import import_module
from typing import Any


def modules(lib: Any) -> None:
    """A compiled module is the module under a name."""
    model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Dropout(1.0))
    compiled = lib.compile(model, backend="eager")
    kind = import_module(f"{lib.__name__}._dynamo").OptimizedModule

    assert isinstance(compiled, kind) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [name for name, _ in compiled.named_children()] == ["_orig_mod"]
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    assert len(compiled) == 2 and compiled.add_module is not None
    compiled.eval()
    assert not model.training and not compiled.training
    compiled.note = "kept"
    assert model.note == "kept" and {"note", "forward"} <= set(dir(compiled))
    x = lib.ones(1, 2)
    assert lib.equal(compiled(x), model(x))
    seen: list[str] = []
    compiled.register_forward_hook(lambda module, *rest: seen.append(type(module).__name__))
    compiled(x)
    assert seen == ["OptimizedModule"]
    compiled.load_state_dict(compiled.state_dict())
    assert list(copy.deepcopy(compiled).state_dict()) == list(compiled.state_dict())
    try:
        _ = compiled.missing
    except AttributeError as error:
        assert "'Sequential' object has no attribute 'missing'" in str(error)
    else:
        raise AssertionError("an attribute that is not there was found")
    del compiled.note
    assert not hasattr(model, "note")


def functions(lib: Any) -> None:
    """A compiled function, and a decorator."""

    @lib.compile(backend="eager")  # type: ignore[untyped-decorator]
    def add(x: Any) -> Any:
        return x + 1

    assert add(lib.ones(1)).tolist() == [2.0]
    assert isinstance(lib.compile(backend="eager")(lib.nn.Linear(1, 1)), lib.nn.Module)


if __name__ == "__main__":
    {"modules": modules, "functions": functions}[sys.argv[2]](import_module(sys.argv[1]))
