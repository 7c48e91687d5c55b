"""Finer points of walks, on PyTorch, which proves the tests, and on Weft: what Functions get for outputs that are no
tensors, what of a walk is undone after it, edges among inputs, gradients of views whose base was changed."""

import warnings

import pytest


def test_a_function_gets_a_gradient_for_each_output_also_for_those_that_are_no_tensors(lib):
    seen = []

    class Mixed(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            doubled = x * 2
            ctx.save_for_backward(doubled)
            ctx.scale = scale
            return scale, doubled, None, x * scale, "name"

        @staticmethod
        def backward(ctx, *gradients):
            (doubled,) = ctx.saved_tensors
            seen.append([g is None for g in gradients])
            assert doubled.output_nr == 1
            return gradients[1] * 2 + gradients[3] * ctx.scale, None

    x = lib.ones(3, requires_grad=True)
    results = Mixed.apply(x, 5)
    assert results[0] == 5 and results[2] is None and results[4] == "name"
    assert (results[1].output_nr, results[3].output_nr) == (1, 3)
    results[3].sum().backward()
    assert seen == [[True, False, True, False, True]]
    assert x.grad.tolist() == [5, 5, 5]


def test_a_prehook_of_a_function_sees_a_gradient_for_each_output(lib):
    class Mixed(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 7, x * 3

        @staticmethod
        def backward(ctx, first, number, second):
            return first * 2 + second * 3

    def double(gradients):
        first, number, second = gradients
        assert number is None
        return first * 2, None, second * 2

    x = lib.ones(2, requires_grad=True)
    first, _, second = Mixed.apply(x)
    first.grad_fn.register_prehook(double)
    (first + second).sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_derivatives_of_a_function_with_an_output_that_is_no_tensor(lib):
    class Mixed(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return "word", x * x, x.sin()

        @staticmethod
        def backward(ctx, word, square, sine):
            (x,) = ctx.saved_tensors
            return square * 2 * x + sine * x.cos()

    x = lib.tensor([0.3, 0.7], dtype=lib.float64, requires_grad=True)
    assert lib.autograd.gradcheck(lambda x: Mixed.apply(x)[1:], (x,))
    assert lib.autograd.gradgradcheck(lambda x: Mixed.apply(x)[1:], (x,))


@pytest.mark.parametrize("materialized", [True, False])
def test_gradients_of_constant_outputs_are_zeros_unless_they_are_switched_off(lib, materialized):
    seen = []

    class Pair(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            one, other = x.clone(), x.clone()
            ctx.mark_non_differentiable(other)
            ctx._materialize_non_diff_grads = materialized
            return one, other

        @staticmethod
        def backward(ctx, one, other):
            seen.append(other)
            return one

    Pair.apply(lib.ones(2, requires_grad=True))[0].sum().backward()
    assert (seen[0] is not None) == materialized


def test_saved_variables_is_the_former_name_of_saved_tensors(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_variables
            return 2 * x * g

    x = lib.tensor(3.0, requires_grad=True)
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        Square.apply(x).backward()
    assert x.grad.item() == 6


def test_hooks_on_saves_that_are_entered_or_left_in_a_walk_are_as_before_it(lib):
    calls = []
    hooks = lib.autograd.graph.saved_tensors_hooks

    def leave(x):
        pair.__exit__()
        return x

    def enter(x):
        other.__enter__()
        return x

    pair = hooks(lambda x: x, leave)
    other = hooks(lambda x: calls.append("packed") or x, lambda x: x)
    entering = hooks(lambda x: x, enter)
    with pair:
        lib.ones(2, requires_grad=True).sin().sum().backward()
    with entering:
        lib.ones(2, requires_grad=True).sin().sum().backward()
    lib.ones(2, requires_grad=True).sin()
    assert calls == []


def test_an_input_of_backward_runs_with_its_hooks(lib):
    order = []
    x = lib.tensor(3.0, requires_grad=True)
    y = x * x
    y.register_hook(lambda g: order.append("tensor"))
    y.grad_fn.register_prehook(lambda given: order.append("before"))
    y.grad_fn.register_hook(lambda made, given: order.append("after"))
    (y * y).backward(inputs=[y])
    assert order == ["tensor", "before", "after"]
    assert y.grad.item() == 18 and x.grad is None
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_edges_as_inputs_of_backward(lib):
    edge = lib.autograd.graph.get_gradient_edge
    x, y = (lib.ones(2, requires_grad=True) for _ in range(2))
    middle = x * 2
    chosen = [edge(middle), edge(y)]
    (middle * y).sum().backward(inputs=chosen)
    assert x.grad is None and y.grad.tolist() == [2, 2]


def test_zeros_do_not_stand_for_an_edge(lib):
    grad, edge = lib.autograd.grad, lib.autograd.graph.get_gradient_edge
    x, y = (lib.ones(2, requires_grad=True).clone() for _ in range(2))
    out = x.clone()
    found = grad(out.sum(), (edge(x), y), allow_unused=True, materialize_grads=True)
    assert [g.tolist() for g in found] == [[1, 1], [0, 0]]
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when"):
        grad(out.sum(), (x, edge(y)), allow_unused=True, materialize_grads=True)


def test_zeros_in_place_of_a_gradient_can_be_differentiated_where_that_is_asked_for(lib):
    x, a = lib.tensor(0.5, requires_grad=True), lib.tensor(1.0, requires_grad=True)
    first = lib.autograd.grad(x * a, x, create_graph=True)
    second = lib.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    third = lib.autograd.grad(second, x, materialize_grads=True)
    assert second[0].requires_grad and not third[0].requires_grad
    assert second[0].item() == third[0].item() == 0


def test_a_view_keeps_its_gradient_after_its_base_was_changed(lib):
    base = lib.ones(4, requires_grad=True).clone()
    view = base[1:3]
    view.retain_grad()
    base.mul_(2)
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3, 3]


def test_numpy_without_gradients(lib):
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        x.numpy()
    with lib.no_grad():
        assert x.numpy().tolist() == [1, 1]


def test_grad_dtype_is_asked_of_leaves(lib):
    x = lib.ones(2, requires_grad=True)
    assert x.grad_dtype is lib.float32
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        (x * 2).grad_dtype  # noqa: B018


def test_changes_of_tensors_of_inference_mode_are_not_counted(lib):
    with lib.inference_mode():
        made = lib.ones(2)
        lib.autograd.graph.increment_version(made)
    plain = lib.ones(2)
    lib.autograd.graph.increment_version([made, plain])
    assert plain._version == 1


def test_a_decorated_class_is_made_without_gradients_and_works_with_them(lib):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @lib.no_grad()
        class Net:
            def __init__(self):
                self.made_with = lib.is_grad_enabled()

            def works_with(self):
                return lib.is_grad_enabled()

    net = Net()
    assert (net.made_with, net.works_with()) == (False, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Other:
            @lib.no_grad()
            def __init__(self):
                self.made_with = lib.is_grad_enabled()

    assert Other().made_with is False


def test_gradcheck_moves_inputs_that_require_grad(lib):
    def watched(x):
        y = x * 2
        y.register_hook(lambda g: None if g is None else g + 0.1)
        return y

    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    for fast in (False, True):
        assert not lib.autograd.gradcheck(watched, (x,), raise_exception=False, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_walks_twice(lib, fast):
    calls = []

    class Drifts(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * (1 + len(calls) * 1e-7)

    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    options = {"fast_mode": fast, "check_undefined_grad": False}
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        lib.autograd.gradcheck(Drifts.apply, (x,), **options)
    assert lib.autograd.gradcheck(Drifts.apply, (x,), nondet_tol=1e-4, **options)


@pytest.mark.parametrize(
    ("what", "change"),
    [("shape", lambda lib, x: lib.cat([x, x])), ("dtype", lambda lib, x: x.to(lib.float32))],
)
def test_gradcheck_wants_outputs_of_one_type(lib, what, change):
    x = lib.ones(1, dtype=lib.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=f"return outputs with the same {what} when inputs"):
        lib.autograd.gradcheck(lambda x: change(lib, x) if bool((x >= 1).all()) else x, (x,))


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning"
)  # PyTorch's own, of what it imports
def test_jvp_gets_the_tangents_of_before_a_forward_in_place(lib):
    forward_ad = lib.autograd.forward_ad

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

    with forward_ad.dual_level():
        x = forward_ad.make_dual(lib.ones(2), lib.tensor([1.0, 3.0]))
        y = Doubled.apply(x)
        assert y is x
        assert forward_ad.unpack_dual(y).tangent.tolist() == [2, 6]
