"""What gradcheck asks beyond derivatives: missing gradients and tangents, batches; its tolerance in fast mode."""

from __future__ import annotations

from typing import Any

import pytest

import weft

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Backwards compatibility.*undefined gradient:UserWarning"),
]


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def point(lib: Any, *size: int) -> Any:
    return lib.rand(*size, dtype=lib.float64, requires_grad=True)


def fails_on_none(gradient: Any) -> Any:
    if gradient is None:
        raise RuntimeError("no gradient")


def watched(x: Any) -> Any:
    y = x.clone()
    y.register_hook(fails_on_none)
    return y


def test_hooks_are_asked_about_gradients_that_do_not_come(lib: Any) -> None:
    check = lib.autograd.gradcheck
    x = point(lib, 3)
    with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output"):
        check(watched, (x,))
    assert check(watched, (x,), check_undefined_grad=False)
    assert check(lambda x: x.clone(), (x,))


def needing_both(lib: Any) -> Any:
    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * 2 + h * 3

    return Both.apply


def test_each_of_several_outputs_may_have_no_gradient(lib: Any) -> None:
    """A backward that needs both fails where one of them does not come."""
    x = point(lib, 2)
    with pytest.raises((RuntimeError, TypeError)):
        lib.autograd.gradcheck(needing_both(lib), (x,))


def counting(lib: Any, inputs: int, offset: float = 0) -> tuple[Any, list[Any]]:
    """A Function with a jvp, and the tangents that it got; `offset` is what a missing one stands for."""
    seen: list[Any] = []

    class Sum(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.set_materialize_grads(False)
            return sum(x * 2 for x in xs)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            seen.append(tuple(None if t is None else t.tolist() for t in tangents))
            given = [t * 2 for t in tangents if t is not None]
            return sum(given) + offset * (len(tangents) - len(given))

    return Sum.apply, seen


def test_other_inputs_have_tangents_of_zeros(lib: Any) -> None:
    function, seen = counting(lib, 2)
    points = (point(lib, 1), point(lib, 1))
    options = {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": False}
    assert lib.autograd.gradcheck(function, points, **options)
    assert seen == [([1.0], [0.0]), ([0.0], [1.0])]


def test_missing_tangents_stand_for_zeros(lib: Any) -> None:
    options = {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": True}
    points = (point(lib, 1), point(lib, 1))
    function, seen = counting(lib, 2)
    assert lib.autograd.gradcheck(function, points, **options)
    assert any(None in tangents for tangents in seen)
    function, _ = counting(lib, 2, offset=1)
    with pytest.raises(RuntimeError):
        lib.autograd.gradcheck(function, points, **options)


def test_batches_of_tangents(lib: Any) -> None:
    options = {"check_forward_ad": True, "check_backward_ad": False}
    x = point(lib, 3)
    assert lib.autograd.gradcheck(
        lambda x: x.sin() * x, (x,), check_batched_forward_grad=True, **options
    )


def test_noise_within_the_tolerance_of_each_element_passes_in_fast_mode(lib: Any) -> None:
    """The difference along a direction adds up what each element is allowed."""
    noise = 4e-6

    class Noisy(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sum().reshape(1).expand(20).clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g.sum() * (1 + noise)).expand(20)

    x = point(lib, 20)
    for fast in (False, True):
        assert lib.autograd.gradcheck(
            Noisy.apply, (x,), fast_mode=fast, rtol=0, atol=1e-5, nondet_tol=1e-12
        )
    noise = 0.1
    for fast in (False, True):
        assert not lib.autograd.gradcheck(
            Noisy.apply, (x,), fast_mode=fast, rtol=0, atol=1e-5, raise_exception=False
        )


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_inputs(lib: Any, layout: str, masked: bool, fast_mode: bool) -> None:
    """By the entries that they have if they are masked, else by all elements."""
    dense = lib.tensor([[1.0, 4.0, 2.0], [6.0, 3.0, 0.5]], dtype=lib.float64)
    if masked:
        dense[0, 1] = dense[1, 0] = 0
    x = dense.to_sparse(layout=getattr(lib, layout)).requires_grad_()
    options = {"masked": masked, "fast_mode": fast_mode, "check_batched_grad": False}
    if not masked:
        assert lib.autograd.gradcheck(lib.sum, (x,), **options)
    assert lib.autograd.gradcheck(lambda x: x.to_dense(masked_grad=masked), (x,), **options)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_sparse_input_beside_a_dense_one(lib: Any) -> None:
    x = lib.eye(3, dtype=lib.float64).to_sparse().requires_grad_()
    options = {"masked": True, "check_batched_grad": False}
    assert lib.autograd.gradcheck(lambda x, y: x.to_dense() * y, (x, point(lib, 3, 3)), **options)
    with pytest.raises(
        RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        lib.autograd.gradcheck(lambda x: x.to_dense() + x.detach().to_dense(), (x,), **options)
    with pytest.raises(ValueError, match="Sparse output is not supported at gradcheck yet"):
        lib.autograd.gradcheck(lambda x: x * 2, (x,), **options)


def test_a_failure_on_missing_gradients_warns_of_the_check(lib: Any) -> None:
    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(RuntimeError, match="to handle undefined output grads"),
    ):
        lib.autograd.gradcheck(watched, (point(lib, 1),))
