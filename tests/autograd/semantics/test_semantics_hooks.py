"""Sentences 48 to 59: hooks on tensors, nodes and modules."""

import pytest
from semantics_lib import leaf, raises, warns


def test_048_order_of_tensor_hooks(lib):
    seen = []
    x = leaf(lib, [1.0])
    y = x * 2
    y.register_hook(lambda g: (seen.append(("a", g.item())), g * 10)[1])
    y.register_hook(lambda g: seen.append(("b", g.item())))
    y.register_hook(lambda g: (seen.append(("c", g.item())), g + 1)[1])
    y.sum().backward()
    assert seen == [("a", 1), ("b", 10), ("c", 10)]
    assert x.grad.item() == 22


def test_049_once_on_the_summed_gradient(lib):
    seen = []
    x = leaf(lib, [1.0])
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: seen.append(("leaf", g.item())))
    (y * 3 + y * 4 + x).sum().backward()
    assert seen == [7, ("leaf", 15)]


def test_050_retained_grad_is_after_all_hooks(lib):
    x = leaf(lib, [1.0])
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert y.grad.item() == 11


def test_051_order_at_a_leaf(lib):
    seen = []
    x = leaf(lib, [1.0])
    node = lib.autograd.graph.get_gradient_edge(x).node
    node.register_hook(lambda gi, go: seen.append(("post", gi, x.grad.item())))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("accumulated", p is x)))
    node.register_prehook(lambda go: seen.append(("pre", go[0].item(), x.grad)))
    x.register_hook(lambda g: (seen.append(("tensor", g.item())), g * 2)[1])
    (x * 3).sum().backward()
    assert seen == [("tensor", 3), ("pre", 6, None), ("accumulated", True), ("post", (), 6)]


def test_052_post_accumulate_hooks(lib):
    seen = []
    x = leaf(lib, [1.0])
    y = x * 2
    text = "post accumulate grad hooks cannot be registered on non-leaf tensors"
    with raises(RuntimeError, text):
        y.register_post_accumulate_grad_hook(lambda p: None)
    x.register_post_accumulate_grad_hook(lambda p: seen.append("post"))
    x.register_hook(lambda g: (seen.append("tensor"), g * 5)[1])
    assert lib.autograd.grad(y.sum(), x, retain_graph=True)[0].item() == 10
    assert seen == ["tensor"] and x.grad is None
    y.sum().backward()
    assert seen == ["tensor", "tensor", "post"] and x.grad.item() == 10


def test_053_order_at_a_node(lib):
    seen = []
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    y = x * w

    def post(grad_inputs, grad_outputs):
        seen.append(("post", [g.item() for g in grad_inputs], grad_outputs[0].item()))
        return tuple(g * 100 for g in grad_inputs)

    y.grad_fn.register_hook(post)
    y.grad_fn.register_prehook(lambda g: (seen.append(("pre", g[0].item())), (g[0] * 2,))[1])
    y.register_hook(lambda g: seen.append(("tensor", g.item())))
    y.sum().backward()
    assert seen == [("tensor", 1), ("pre", 1), ("post", [6, 4], 2)]
    assert (x.grad.item(), w.grad.item()) == (600, 400)
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    with raises(RuntimeError, "incorrect number of values"):
        y.sum().backward()


@pytest.mark.parametrize("kind", ["size", "type", "object"])
def test_054_bad_results_of_hooks(lib, kind):
    x = leaf(lib, [1.0, 2.0])
    y = x * 2
    if kind == "size":
        y.register_hook(lambda g: lib.ones(3))
        error = raises(RuntimeError, "has changed the size of value")
    elif kind == "type":
        y.register_hook(lambda g: g.double())
        error = raises(RuntimeError, "has changed the type of value")
    else:
        y.register_hook(lambda g: 3)
        error = raises(TypeError)
    with error:
        y.sum().backward()
    assert x.grad is None


def test_055_removing_hooks(lib):
    seen = []
    x = leaf(lib, [1.0])
    y = x * 2
    handle = y.register_hook(lambda g: seen.append("removed"))
    y.register_hook(lambda g: seen.append("kept"))
    handle.remove()
    handle.remove()
    node = y.grad_fn.register_hook(lambda *a: seen.append("node"))
    node.remove()
    with x.register_hook(lambda g: seen.append("block")):
        pass
    y.sum().backward()
    assert seen == ["kept"]
    text = "cannot register a hook on a tensor that doesn't require gradient"
    with raises(RuntimeError, text):
        lib.ones(1).register_hook(lambda g: None)


def test_056_multi_grad_hooks(lib):
    seen = []
    a, b, unused = leaf(lib, [1.0]), leaf(lib, [2.0]), leaf(lib, [3.0])
    c = a * b
    register = lib.autograd.graph.register_multi_grad_hook
    handle = register(
        (a, b, c, unused),
        lambda grads: seen.append([None if g is None else g.item() for g in grads]),
    )
    (c * 2).sum().backward()
    assert seen == [[4, 2, 2, None]]
    handle.remove()
    seen.clear()
    handle = register((a, b), lambda g: seen.append(g.item()), mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    assert len(seen) == 2
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 2
    with raises(ValueError, "'all', 'any'"):
        register((a,), print, mode="some")


def test_057_grad_mode_in_backward(lib):
    seen = []

    class Looks(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(lib.is_grad_enabled())
            return g

    x = leaf(lib, [1.0])
    y = Looks.apply(x)
    y.register_hook(lambda g: seen.append(lib.is_grad_enabled()))
    y.sum().backward(retain_graph=True)
    with lib.no_grad():
        lib.autograd.grad(
            y.sum() if y.sum().requires_grad else y, x, lib.ones(1), create_graph=True
        )
        assert not lib.is_grad_enabled()
    assert seen == [False, False, True, True] and lib.is_grad_enabled()


def test_058_order_of_module_hooks(lib):
    seen = []

    class Twice(lib.nn.Module):
        def forward(self, x, scale=2):
            seen.append("run")
            return x * scale

    module = Twice()
    module.register_forward_hook(lambda m, a, out: seen.append("forward"))
    module.register_forward_pre_hook(lambda m, a: seen.append("pre"))
    module.register_forward_pre_hook(lambda m, a: seen.append("pre first"), prepend=True)
    module.register_full_backward_hook(lambda m, gi, go: seen.append("backward"))
    module.register_full_backward_pre_hook(lambda m, go: seen.append("backward pre"))
    x = leaf(lib, [1.0])
    module(x).sum().backward()
    assert seen == ["pre first", "pre", "run", "forward", "backward pre", "backward"]
    assert x.grad.item() == 2
    other = Twice()
    other.register_forward_pre_hook(
        lambda m, a, k: (a, {"scale": k["scale"] * 10}), with_kwargs=True
    )
    other.register_forward_hook(lambda m, a, k, out: out + k["scale"], with_kwargs=True)
    assert other(x, scale=1).item() == 20

    class Fails(lib.nn.Module):
        def forward(self, x):
            raise ValueError("inside")

    failing = Fails()
    failing.register_forward_hook(lambda m, a, out: seen.append("always"), always_call=True)
    failing.register_forward_hook(lambda m, a, out: seen.append("never"))
    with raises(ValueError, "inside"):
        failing(x)
    assert seen[-1] == "always"


def test_059_full_backward_hooks(lib):
    seen = []

    class InPlace(lib.nn.Module):
        def forward(self, x):
            return x.mul_(2)

    module = InPlace()
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    with raises(RuntimeError, "is a view and is being modified inplace"):
        module(leaf(lib, [1.0]) * 1).sum().backward()
    linear = lib.nn.Linear(2, 1)
    linear.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    with warns("Full backward hook is firing when gradients are computed with respect to module"):
        linear(lib.ones(1, 2)).sum().backward()
    assert seen == [(None,)]
