"""What a custom Function is given, and what it may declare: defaults, keywords, dirty inputs, jvp."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest

import weft

# What PyTorch says when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning")


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    return weft if request.param == "weft" else pytest.importorskip("torch")


def two_styles(lib: Any) -> tuple[Any, Any]:
    class WithContext(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any = 3, z: Any = 1) -> Any:
            ctx.given = (y, z)
            return (x if isinstance(x, lib.Tensor) else lib.ones(1)) * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return (g,) * len(ctx.needs_input_grad)

    class WithSetup(lib.autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any = 3, z: Any = 1) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, *ctx.given = inputs

        backward = WithContext.backward

    return WithContext, WithSetup


CALLS = [
    (("x",), {}),
    (("x", 2), {}),
    (("x", 2, 5), {}),
    (("x",), {"y": 2}),
    (("x",), {"y": "x"}),
    (("x", 2), {"z": 5}),
    ((), {"x": "x"}),
    ((), {"y": 2, "x": "x"}),
]


@pytest.mark.parametrize("style", [0, 1])
@pytest.mark.parametrize("call", range(len(CALLS)))
def test_arguments_by_name_have_gradients_and_defaults_are_inputs(
    lib: Any, style: int, call: int
) -> None:
    def described(library: Any) -> Any:
        x = library.ones(1, requires_grad=True)
        arguments, keywords = CALLS[call]
        found = two_styles(library)[style].apply(
            *(x if a == "x" else a for a in arguments),
            **{name: x if a == "x" else a for name, a in keywords.items()},
        )
        given = ["x" if value is x else value for value in found.grad_fn.given]
        return found.grad_fn.needs_input_grad, given

    torch = pytest.importorskip("torch")
    assert described(lib) == described(torch)


@pytest.mark.parametrize("style", [0, 1])
@pytest.mark.parametrize("call", [((1, 2, 3, 4, 5), {}), ((), {"q": 1}), ((1,), {"x": 1})])
def test_arguments_that_do_not_fit(lib: Any, style: int, call: Any) -> None:
    with pytest.raises(TypeError):
        two_styles(lib)[style].apply(*call[0], **call[1])


def test_a_power_with_its_usual_exponent(lib: Any) -> None:
    class Power(lib.autograd.Function):
        @staticmethod
        def forward(x: Any, exponent: int = 3) -> Any:
            return x**exponent

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.exponent = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * ctx.exponent * x ** (ctx.exponent - 1), None

    x = lib.tensor(2.0, requires_grad=True)
    Power.apply(x).backward()
    assert x.grad.item() == 12
    Power.apply(exponent=2, x=x).backward()
    assert x.grad.item() == 16


def test_marking_what_is_no_input_warns(lib: Any) -> None:
    class Marks(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            c = 3 * a
            ctx.mark_dirty(c)
            return c

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.warns(UserWarning, match=r"mark_dirty\(\) received a tensor that was not an input"):
        Marks.apply(lib.ones(1, requires_grad=True))


# -- jvp ---------------------------------------------------------------------------------------------------------------


def pushed(lib: Any, forward: Any, jvp: Any) -> Any:
    """The tangents of the results of a Function for a tangent of ones."""

    class Given(lib.autograd.Function):
        pass

    Given.forward, Given.jvp = staticmethod(forward), staticmethod(jvp)
    ad = lib.autograd.forward_ad
    with ad.dual_level():
        x = ad.make_dual(lib.ones(2), lib.ones(2)) * 1
        results = Given.apply(x)
        results = results if isinstance(results, tuple) else (results,)
        tangents = [ad.unpack_dual(result).tangent for result in results]
    return [None if tangent is None else tangent.tolist() for tangent in tangents]


def doubled(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


def with_a_constant(ctx: Any, x: Any) -> Any:
    y, z = x * 2, x * 3
    ctx.mark_non_differentiable(z)
    return y, z


NOT_A_VIEW = "returning a view .or an input as-is. but the jvp is not returning a view"
NO_TANGENT = "Function's jvp returned a gradient at position 1"
COUNT = "Function's jvp returned an invalid number of forward gradients .expected {} but got {}."
REFUSED = [
    (lambda ctx, x: x, lambda ctx, t: t, NOT_A_VIEW),
    (lambda ctx, x: x, lambda ctx, t: t * 2, NOT_A_VIEW),
    (lambda ctx, x: x.view_as(x), lambda ctx, t: t, NOT_A_VIEW),
    (lambda ctx, x: x[:1], lambda ctx, t: t[:1].clone(), NOT_A_VIEW),
    (lambda ctx, x: x.view_as(x), lambda ctx, t: t.clone()[:], "is not returning a view"),
    (doubled, lambda ctx, t: t * 2, "An inplace custom Function is not modifying the forward"),
    (with_a_constant, lambda ctx, t: (t * 2, t * 3), NO_TANGENT),
    (lambda ctx, x: x * 2, lambda ctx, t: (t, t), COUNT.format(1, 2)),
    (lambda ctx, x: (x * 2, x * 3), lambda ctx, t: t, COUNT.format(2, 1)),
    (lambda ctx, x: x * 2, lambda ctx, t: "t", "expected Variable or None .got str. for grad"),
    (lambda ctx, x: x * 2, lambda ctx, t: t[:1], "has a different size than that of the original"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_tangents_that_do_not_fit_the_results(lib: Any, number: int) -> None:
    forward, jvp, text = REFUSED[number]
    with pytest.raises(RuntimeError, match=text):
        pushed(lib, forward, jvp)


TAKEN = [
    (lambda ctx, x: x, lambda ctx, t: t.view_as(t), [[1.0, 1.0]]),
    (lambda ctx, x: x[:1], lambda ctx, t: t[:1], [[1.0]]),
    (doubled, lambda ctx, t: t.mul_(2), [[2.0, 2.0]]),
    (with_a_constant, lambda ctx, t: (t * 2, None), [[2.0, 2.0], None]),
]


@pytest.mark.parametrize("number", range(len(TAKEN)))
def test_tangents_that_fit(lib: Any, number: int) -> None:
    forward, jvp, tangents = TAKEN[number]
    assert pushed(lib, forward, jvp) == tangents


def test_jvp_gets_what_was_saved_for_it(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x, x)
        ctx.save_for_forward(x * 4)
        return x * 2

    assert pushed(lib, forward, lambda ctx, t: t * ctx.saved_tensors[0]) == [[4.0, 4.0]]


def test_no_warning_where_an_input_is_marked(lib: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pushed(lib, doubled, lambda ctx, t: t.mul_(2)) == [[2.0, 2.0]]


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_what_is_marked_dirty_goes_with_its_name(lib: Any, view: bool, saved: bool) -> None:
    """Its record does not hold it by the mark, which would be a cycle that nobody can look into."""

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            if saved:
                ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    def call() -> Any:
        x = lib.ones(2, requires_grad=True).clone()
        x = x.view_as(x) if view else x
        Doubled.apply(x)
        return weakref.ref(x)

    reference = call()
    gc.collect()
    assert reference() is None


def reader(lib: Any, backward: Any) -> Any:
    class Reader(lib.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clone()

    Reader.backward = staticmethod(backward)
    return Reader


def test_backward_may_own_what_was_saved(lib: Any) -> None:
    alive = []

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        reference = weakref.ref(x)
        del x
        alive.append(reference() is not None)
        return g

    reader(lib, backward).apply(lib.ones(2, requires_grad=True).clone()).sum().backward()
    assert alive == [False]


def test_what_backward_owns_is_read_once(lib: Any) -> None:
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    result = reader(lib, backward).apply(lib.ones(2, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        result.backward()


def test_a_tangent_that_is_returned_unchanged_where_the_input_is_changed(lib: Any) -> None:
    with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
        pushed(lib, doubled, lambda ctx, t: t)


@pytest.mark.parametrize(
    "based, words", [(False, "a view of the given grad input"), (True, "a view of the same base")]
)
def test_a_tangent_that_is_a_view_of_something_else(lib: Any, based: bool, words: str) -> None:
    function = type(
        "Function",
        (lib.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: x.narrow(0, 0, 1)),
            "jvp": staticmethod(lambda ctx, t: t.narrow(0, 0, 1).clone().view(1)),
        },
    )
    x = lib.ones(2)
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, lib.ones(2))
        with pytest.raises(RuntimeError, match=words):
            function.apply(dual.view_as(dual) if based else dual)


def marked(ctx: Any, x: Any) -> Any:
    made = x.clone().view_as(x)
    ctx.mark_dirty(made)
    return made


def test_marking_a_view_that_is_no_input(lib: Any) -> None:
    function = type("Function", (lib.autograd.Function,), {"forward": staticmethod(marked)})
    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        function.apply(lib.ones(2, requires_grad=True).clone())


@pytest.mark.parametrize("write", [lambda v, g: v.add_(g), lambda v, g: v.copy_(g)])
def test_a_view_of_an_argument_without_gradient_takes_none(lib: Any, write: Any) -> None:
    function = type(
        "Function",
        (lib.autograd.Function,),
        {"forward": staticmethod(lambda ctx, x: x.view_as(x))},
    )
    with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
        write(function.apply(lib.ones(1, 2)), lib.ones(1, requires_grad=True))


def test_behind_a_record_stand_its_tensors(lib: Any) -> None:
    function = type(
        "Function",
        (lib.autograd.Function,),
        {"forward": staticmethod(lambda ctx, n, x, word, y: x * y * n)},
    )
    x, y = lib.ones(2, requires_grad=True) * 2, lib.ones(2)
    record = function.apply(3, x, "word", y).grad_fn
    assert [target for target, _ in record.next_functions] == [x.grad_fn, None]


def doubled_in_float64(lib: Any) -> Any:
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.to(lib.float64) * 2

    return Doubled


@pytest.mark.parametrize("wanted", ["unset", None, "float16", "float32"])
def test_a_gradient_has_the_type_that_its_leaf_asks_for(lib: Any, wanted: str | None) -> None:
    x = lib.ones(2, requires_grad=True)
    if wanted != "unset":
        x.grad_dtype = wanted and getattr(lib, wanted)
    y = doubled_in_float64(lib).apply(x).sum()
    (g,) = lib.autograd.grad(y, x, retain_graph=True)
    y.backward()
    expected = {"unset": "float32", None: "float64"}.get(wanted, wanted)
    assert g.dtype is x.grad.dtype is getattr(lib, str(expected))
    assert x.grad.tolist() == [2.0, 2.0]


def as_it_is(lib: Any) -> Any:
    class AsItIs(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    return AsItIs


@pytest.mark.parametrize("tracked", [True, False])
def test_an_argument_that_is_returned_has_its_own_class(lib: Any, tracked: bool) -> None:
    class Named(lib.Tensor):  # type: ignore[misc]
        pass

    source = lib.arange(3.0).requires_grad_(tracked)
    x = source.as_subclass(Named)
    y = as_it_is(lib).apply(x)
    assert type(y) is Named and y is not x and y.tolist() == x.tolist()
    assert type(as_it_is(lib).apply(lib.nn.Parameter(lib.ones(2)))) is lib.Tensor
    if tracked:
        y.sum().backward()
        assert source.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_class_that_wraps_sees_the_view(lib: Any) -> None:
    class Wrapper(lib.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls: type, inner: Any) -> Any:
            made = lib.Tensor._make_subclass(cls, inner.detach())
            made.inner = inner
            return made

        @classmethod
        def __torch_function__(
            cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            inner = tuple(a.inner if isinstance(a, cls) else a for a in args)
            result = function(*inner, **(kwargs or {}))
            return cls(result) if isinstance(result, lib.Tensor) else result

    y = as_it_is(lib).apply(Wrapper(lib.ones(2)))
    assert type(y) is Wrapper and y.inner.tolist() == [1.0, 1.0]
