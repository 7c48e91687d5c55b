"""What reverse walks refuse, and what Functions may do to views that they are given."""

from collections import OrderedDict

import pytest

import weft
from oracle import both, submodule


def point(lib):
    return lib.ones(2, requires_grad=True)


def total(lib):
    return point(lib).sum()


def twice(lib, *counts):
    """The gradients of as many outputs, with several rows of cotangents each."""
    x = point(lib)
    outputs = [x * (2 + index) for index in range(len(counts))]
    return lib.autograd.grad(outputs, x, [lib.ones(*c) for c in counts], is_grads_batched=True)


def edge(lib, value):
    return lib.autograd.graph.get_gradient_edge(value)


def checkpointed(lib, **options):
    name = f"{lib.__name__}.utils.checkpoint"
    return submodule(name).checkpoint(lib.sin, point(lib), **options)


def together(lib, tensors, **options):
    return lib.autograd.graph.register_multi_grad_hook(tensors, print, **options)


OUTPUT = "Expected output to be a torch.Tensor"
INPUT = "all inputs have to be Tensors or GradientEdges"
UNUSED = "appears to not have been used in the graph"
REFUSED = {
    "no input": (lambda lib: lib.autograd.grad(total(lib), []), RuntimeError, "`inputs` argument"),
    "no output": (lambda lib: lib.autograd.grad([], [point(lib)]), RuntimeError, UNUSED),
    "a text": (lambda lib: lib.autograd.grad("loss", [point(lib)]), AssertionError, OUTPUT),
    "nothing among outputs": (
        lambda lib: lib.autograd.grad([None], point(lib)),
        AssertionError,
        OUTPUT,
    ),
    "nothing": (lambda lib: lib.autograd.grad(None, point(lib)), TypeError, "is not iterable"),
    "a dict": (
        lambda lib: lib.autograd.grad({"a": total(lib)}, point(lib)),
        AssertionError,
        OUTPUT,
    ),
    "a number as input": (
        lambda lib: lib.autograd.grad(total(lib), 3),
        TypeError,
        "'int' object is not",
    ),
    "a number in inputs": (lambda lib: lib.autograd.grad(total(lib), [3]), RuntimeError, INPUT),
    "inputs None": (
        lambda lib: lib.autograd.grad(total(lib), None),
        TypeError,
        "'NoneType' object is not",
    ),
    "another mapping": (
        lambda lib: lib.autograd.grad(total(lib), OrderedDict(a=point(lib))),
        TypeError,
        "`inputs` argument to `grad\\(\\)` must be a dict, not OrderedDict",
    ),
    "a number as cotangent": (
        lambda lib: lib.autograd.grad(total(lib), point(lib), 3.0),
        TypeError,
        "'float' object is not iterable",
    ),
    "a number among cotangents": (
        lambda lib: lib.autograd.grad(total(lib), point(lib), [3.0]),
        TypeError,
        "gradients can be either Tensors or None, but got float",
    ),
    "backward of nothing": (lambda lib: lib.autograd.backward(None), TypeError, "is not iterable"),
    "backward of numbers": (lambda lib: lib.autograd.backward([1.0]), AssertionError, OUTPUT),
    "backward by nothing": (
        lambda lib: lib.autograd.backward(total(lib), inputs=[None]),
        RuntimeError,
        INPUT,
    ),
    "backward by a number": (
        lambda lib: total(lib).backward(inputs=3),
        TypeError,
        "'int' object is not iterable",
    ),
    "edge of a text": (lambda lib: edge(lib, "x"), AttributeError, "no attribute 'requires_grad'"),
    "hook on a number": (
        lambda lib: together(lib, [3]),
        AttributeError,
        "attribute 'requires_grad'",
    ),
    "hook without a graph": (
        lambda lib: together(lib, [lib.ones(2)]),
        AssertionError,
        "Expected gradient function to be set",
    ),
    "version of a number": (
        lambda lib: lib.autograd.graph.increment_version(3),
        RuntimeError,
        "expect a Iterable",
    ),
    "version of numbers": (
        lambda lib: lib.autograd.graph.increment_version([3]),
        RuntimeError,
        "expects each element of the iterable to be a tensor",
    ),
    "rows of another shape": (
        lambda lib: twice(lib, (3,)),
        RuntimeError,
        "interpret the first dim",
    ),
    "checked function gives a number": (
        lambda lib: lib.autograd.gradcheck(
            lambda x: 3, (point(lib).detach().double().requires_grad_(),)
        ),
        AttributeError,
        "'int' object has no attribute 'requires_grad'",
    ),
    "a share of memory that is none": (
        lambda lib: lib.autograd.graph.region_activation_memory_budget(3),
        ValueError,
        "must be in \\[0, 1\\], got 3",
    ),
    "a share of memory in no compiled region": (
        lambda lib: lib.autograd.graph.region_activation_memory_budget(0.5),
        RuntimeError,
        "can only be used inside a",
    ),
    "threads: a number": (
        lambda lib: lib.autograd.set_multithreading_enabled(3),
        TypeError,
        "argument 'enabled' \\(position 1\\) must be bool, not int",
    ),
    "checkpoint: contexts that are none": (
        lambda lib: checkpointed(lib, use_reentrant=False, context_fn=lambda: 3),
        TypeError,
        "context_fn must return two context managers|cannot unpack non-iterable int",
    ),
    "checkpoint: debug of the reentrant variant": (
        lambda lib: checkpointed(lib, use_reentrant=True, debug=True),
        ValueError,
        "Passing `context_fn` or `debug` is only supported when use_reentrant=False",
    ),
    "backward in a transform": (
        lambda lib: lib.func.vmap(lambda x: (x * x).sum().backward())(lib.ones(2, 2)),
        RuntimeError,
        "backward\\(\\) called inside a functorch transform. This is not supported",
    ),
}


@both
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_tensor_is_refused_as_in_pytorch(case, lib):
    call, kind, text = REFUSED[case]
    with pytest.raises(kind, match=text) as caught:
        call(lib)
    if lib is weft:
        assert "test_misuse_of_walks.py" in str(caught.value) and "fix" in str(caught.value)


@both
def test_what_stands_for_nothing_or_has_another_name_is_taken(lib):
    lib.autograd.backward([])
    assert lib.autograd.grad([], point(lib), allow_unused=True) == (None,)
    assert together(lib, [lib.ones(2)], mode="any") is not None
    x = point(lib)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        lib.autograd.backward(x * 2, grad_variables=lib.ones(2), inputs={"x": x})
    assert x.grad.tolist() == [2, 2]
    with (
        pytest.warns(FutureWarning, match="`grad_variables` is deprecated"),
        pytest.raises(RuntimeError, match="both passed to `backward"),
    ):
        lib.autograd.backward(x * 2, lib.ones(2), grad_variables=lib.ones(2))
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        lib.autograd.grad(x.sum(), x, only_inputs=False)


def test_rows_of_cotangents_that_make_no_sense():
    x = point(weft)
    with pytest.raises(RuntimeError, match="we interpret the first dimension"):
        weft.autograd.grad(x * 2, x, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="same size in their first dimension"):
        twice(weft, (3, 2), (2, 2))


def doubled(several):
    """A Function that doubles its argument in place, and says so with a wrong gradient."""

    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            ctx.mark_dirty(y)
            y.mul_(2)
            return (y, y * 1) if several else y

        @staticmethod
        def backward(ctx, g, *more):
            return g * 3

    return Doubled.apply


def test_a_dirty_view_carries_its_base_along():
    leaf = weft.ones(3, requires_grad=True)
    base = leaf.clone()
    part, other = base[:2], base[1:]
    assert doubled(False)(part) is part
    assert base.tolist() == [2, 2, 1] and other.tolist() == [2, 1]
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (slope,) = weft.autograd.grad((base * base).sum() + other.sum(), leaf)
    assert slope.tolist() == [12, 15, 3]
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        doubled(True)(leaf.clone()[:2])
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        doubled(False)(leaf[:2])


def hooked(lib, attach):
    x = point(lib)
    y = x * 2
    attach(x, y)
    y.sum().backward()


@both
def test_a_hook_after_accumulating_may_return_the_leaf(lib):
    x = point(lib)
    before = x.tolist()
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.add_(leaf.grad, alpha=-0.5))
    x.sum().backward()
    assert x.tolist() == [each - 0.5 for each in before]


RETURNED = {
    "a number after accumulating": (
        lambda lib, x, y: x.register_post_accumulate_grad_hook(lambda leaf: 3),
        TypeError,
        "expected Variable, but hook returned 'int'",
    ),
    "a tensor after accumulating": (
        lambda lib, x, y: x.register_post_accumulate_grad_hook(lambda leaf: lib.ones(2)),
        RuntimeError,
        "post accumulate grad hooks should return None",
    ),
    "no tuple from a record": (
        lambda lib, x, y: y.grad_fn.register_hook(lambda gi, go: lib.ones(2)),
        TypeError,
        "expected tuple, but hook returned 'Tensor'",
    ),
    "no tuple before a record": (
        lambda lib, x, y: y.grad_fn.register_prehook(lambda go: [lib.ones(2)]),
        TypeError,
        "expected tuple, but hook returned 'list'",
    ),
}


@both
@pytest.mark.parametrize("case", RETURNED)
def test_what_hooks_may_not_return(case, lib):
    attach, kind, text = RETURNED[case]
    with pytest.raises(kind, match=text):
        hooked(lib, lambda x, y: attach(lib, x, y))


@both
def test_what_backward_may_not_return(lib):
    def function(returned):
        class Returned(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return returned(g)

        return Returned.apply(point(lib)).sum()

    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got list\)"):
        function(lambda g: [g]).backward()
    with pytest.raises(RuntimeError):
        function(lambda g: g * 1j).backward()


CHECKS = {
    "neither mode": ("gradcheck", {"check_backward_ad": False}, AssertionError, "at least one of"),
    "batches of what is not checked": (
        "gradcheck",
        {"check_batched_forward_grad": True},
        AssertionError,
        "check_batched_forward_grad=True requires check_forward_ad",
    ),
    "no second derivative": (
        "gradgradcheck",
        {"check_rev_over_rev": False},
        AssertionError,
        "at least one of check_fwd_over_rev or check_rev_over_rev",
    ),
    "nothing to be undefined": (
        "gradgradcheck",
        {"check_rev_over_rev": False, "check_fwd_over_rev": True},
        AssertionError,
        "check_undefined_grad=True requires check_rev_over_rev",
    ),
}


@both
@pytest.mark.parametrize("case", CHECKS)
def test_options_of_checks_that_make_no_sense(case, lib):
    name, options, kind, text = CHECKS[case]
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    with pytest.raises(kind, match=text):
        getattr(lib.autograd, name)(lambda x: x.sin(), (x,), **options)


def tripled(lib):
    """A Function that doubles, and says that it triples."""

    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    return Wrong


OF_TORCH = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, of torch.jit


@OF_TORCH
@both
def test_how_a_failed_check_is_called(lib):
    Wrong = tripled(lib)
    check = lib.autograd.gradcheck
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    for fast in (False, True):
        with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to"):
            check(Wrong.apply, (x,), fast_mode=fast)
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0"):
        check(Wrong.apply, (x,), check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        check(lambda x: x.detach(), (x,))


PARTS = {
    "imaginary part of complex outputs": lambda lib, x, wrong: lib.complex(x, wrong(x)),
    "real part of complex outputs": lambda lib, x, wrong: lib.complex(wrong(x), x),
}


@OF_TORCH
@both
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_the_part_of_complex_numbers_that_differs_is_named(part, fast, lib):
    wrong, check = tripled(lib).apply, lib.autograd.gradcheck
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    text = f"While considering the {part} only, Jacobian mismatch for output 0"
    with pytest.raises(RuntimeError, match=text):
        check(lambda x: PARTS[part](lib, x, wrong), (x,), fast_mode=fast)
    z = lib.ones(2, dtype=lib.complex128, requires_grad=True)
    forward = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast}
    text = "the imaginary part of complex inputs only, Jacobian computed with forward mode mismatch"
    with pytest.raises(RuntimeError, match=text):
        check(wrong, (z,), **forward)
    assert check(lambda z: z * z.conj() * (1 + 2j), (z,), check_forward_ad=True, fast_mode=fast)
    assert check(lambda x: lib.complex(x.sin(), x.exp()), (x,), fast_mode=fast)


@both
def test_saving_a_number_is_refused_where_a_gradient_is_needed(lib):
    class Saves(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, forward=False):
            (ctx.save_for_forward if forward else ctx.save_for_backward)(3)
            return x * 2

    assert Saves.apply(lib.ones(2)).tolist() == [2, 2]
    with lib.no_grad():
        assert Saves.apply(point(lib)).tolist() == [2, 2]
    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Saves.apply(point(lib))
    with pytest.raises(AssertionError, match="save_for_forward expects all arguments to be tensor"):
        Saves.apply(lib.ones(2), True)


@both
def test_a_level_that_is_not_open_is_not_closed(lib):
    forward_ad = lib.autograd.forward_ad
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        forward_ad.exit_dual_level()
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="not the last one"):
        forward_ad.exit_dual_level(level=5)
