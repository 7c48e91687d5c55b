"""Names that older programs for PyTorch use: they load, and say the same where PyTorch is installed."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

import weft
import weft.autograd.function
import weft.utils.hooks


def doubled(lib: Any, base: Any) -> Any:
    class Doubled(base):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    return Doubled


def test_every_tensor_is_a_variable(lib: Any) -> None:
    x = lib.autograd.Variable(lib.ones(2), requires_grad=True)
    assert isinstance(x, lib.autograd.Variable) and x.requires_grad and x.is_leaf
    assert isinstance(lib.ones(2), lib.autograd.Variable)
    assert not isinstance(3.0, lib.autograd.Variable)


def test_kinds_of_functions(lib: Any) -> None:
    functions = lib.autograd.function
    kind = doubled(lib, functions.InplaceFunction)
    x = lib.ones(2, requires_grad=True)
    y = kind.apply(x)
    assert isinstance(kind, functions.FunctionMeta)
    assert isinstance(y.grad_fn, functions.BackwardCFunction)
    assert type(y.grad_fn).__name__ == "DoubledBackward"
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert kind(True).inplace is True and kind().inplace is False
    assert issubclass(lib.autograd.NestedIOFunction, functions.Function)
    with pytest.warns(DeprecationWarning), pytest.raises((RuntimeError, AttributeError)):
        lib.autograd.NestedIOFunction()(x)


@pytest.mark.parametrize("name", ["mark_dirty", "mark_non_differentiable"])
@pytest.mark.parametrize("value", [3, None, "x"])
def test_only_tensors_are_marked(lib: Any, name: str, value: Any) -> None:
    class Marked(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            getattr(ctx, name)(value)
            return x.clone()

    with pytest.raises(RuntimeError, match=f"{name} (can )?only accepts? variable"):
        Marked.apply(lib.ones(2, requires_grad=True))


def test_hooks_that_files_do_without(lib: Any) -> None:
    hooks = lib.utils.hooks
    x = lib.ones(2, requires_grad=True)
    handle = x.register_hook(hooks.unserializable_hook(lambda g: g))
    assert isinstance(handle, hooks.RemovableHandle)
    assert isinstance(lib.nn.ReLU().register_forward_hook(print), hooks.RemovableHandle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hooks.warn_if_has_hooks(x)
        pickle.dumps(x)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        hooks.warn_if_has_hooks(x)


def test_there_are_no_streams_to_warn_of() -> None:
    graph = weft.autograd.graph
    x = weft.ones(2, requires_grad=True)
    graph.set_warn_on_accumulate_grad_stream_mismatch(True)
    graph.set_override_stale_capture_stream(True)
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]
