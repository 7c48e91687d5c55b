"""Records that stand for no gradient or for an error, and what the levels of forward mode say, in both libraries."""

from __future__ import annotations

from typing import Any

import pytest

from oracle import both, submodule


def parts(lib: Any) -> tuple[Any, Any]:
    """(the private functions, forward mode)."""
    private = submodule(f"{lib.__name__}._C")
    return private._functions, submodule(f"{lib.__name__}.autograd.forward_ad")


@both
def test_an_undefined_gradient_is_none_unless_materialised(lib: Any) -> None:
    undefined = parts(lib)[0].UndefinedGrad()
    seen: list[Any] = []

    class Watch(lib.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, fill: bool) -> Any:
            ctx.set_materialize_grads(fill)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(grad)
            return grad, None

    for fill in (False, True):
        x = lib.ones(1, requires_grad=True)
        undefined(Watch.apply(x, fill)).backward()
    assert seen[0] is None and seen[1].tolist() == [0.0]


@both
def test_a_delayed_error_comes_with_the_gradient(lib: Any) -> None:
    functions = parts(lib)[0]
    x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    first, second = functions.DelayedError("Boom!", 2)(x, y * 3)
    assert first.tolist() == [1.0, 1.0] and second.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="Boom!"):
        (first + second).sum().backward()
    with pytest.raises(TypeError, match="expected 2 arguments, got 1 instead"):
        functions.DelayedError("Boom!", 2)(x)


@both
def test_levels_count_from_zero(lib: Any) -> None:
    forward = parts(lib)[1]
    assert forward._current_level == -1
    with forward.dual_level():
        assert forward._current_level == 0
    assert forward._current_level == -1
    with pytest.raises(AttributeError, match="missing"):
        _ = forward.missing


@both
def test_whether_hooks_on_saves_are_allowed(lib: Any) -> None:
    private = submodule(f"{lib.__name__}._C")._autograd
    assert private._saved_tensors_hooks_is_enabled()
    with lib.autograd.graph.disable_saved_tensors_hooks("not here"):
        assert not private._saved_tensors_hooks_is_enabled()
    x = lib.ones(1, requires_grad=True)
    assert isinstance(x.exp().grad_fn._raw_saved_result, private.SavedTensor)


@both
@pytest.mark.parametrize("transform", ["hessian", "hvp", "vhp"])
def test_a_tuple_is_no_single_tensor(lib: Any, transform: str) -> None:
    x = lib.ones(3)
    given = (x,) if transform == "hessian" else (x, x)
    call = getattr(submodule(f"{lib.__name__}.autograd.functional"), transform)
    with pytest.raises(
        RuntimeError, match=f"The function given to {transform} should return a single"
    ):
        call(lambda t: (t.sum(),), *given)
    with pytest.raises(RuntimeError, match=f"given to {transform} should contain a single element"):
        call(lambda t: t, *given)
