"""Sentences 25 to 31: the graph as objects, and how long it lives."""

import gc
import weakref

import pytest
from semantics_lib import is_weft, leaf, raises, unread

FREED = "Trying to backward through the graph a second time (or directly access saved tensors"


def test_025_graph_objects(lib):
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    y = x * w
    node = y.grad_fn
    assert node.name() == "MulBackward0" and "MulBackward0" in repr(node)
    assert y.grad_fn is node
    (first, number), (second, _) = node.next_functions
    assert number == 0 and first.variable is x and second.variable is w
    assert node.next_functions[0][0] is first
    assert first.name() == "torch::autograd::AccumulateGrad" and first.next_functions == ()
    assert (y + x).grad_fn.next_functions[0][0] is node
    assert (y * 2).grad_fn.next_functions[1][0] is None
    assert node.metadata == {}
    node.metadata["mine"] = 1
    assert y.grad_fn.metadata == {"mine": 1}


def test_025_several_outputs_of_one_node(lib):
    parts = lib.ones(4, requires_grad=True).mul(1).split(2)
    assert [p.grad_fn.name() for p in parts] == ["SplitBackward0"] * 2
    assert parts[1].output_nr == 1 and parts[0].grad_fn is parts[1].grad_fn
    assert (parts[0] + parts[1]).grad_fn.next_functions[1] == (parts[1].grad_fn, 1)


NAMES = {
    "AddBackward0": lambda x: x + x,
    "SubBackward0": lambda x: x - 1,
    "RsubBackward1": lambda x: 1 - x,
    "MulBackward0": lambda x: x * 2,
    "DivBackward0": lambda x: x / 2,
    "PowBackward0": lambda x: x**3,
    "NegBackward0": lambda x: -x,
    "ExpBackward0": lambda x: x.exp(),
    "LogBackward0": lambda x: x.log(),
    "SqrtBackward0": lambda x: x.sqrt(),
    "SinBackward0": lambda x: x.sin(),
    "TanhBackward0": lambda x: x.tanh(),
    "SigmoidBackward0": lambda x: x.sigmoid(),
    "ReluBackward0": lambda x: x.relu(),
    "AbsBackward0": lambda x: x.abs(),
    "ClampBackward1": lambda x: x.clamp(0, 1),
    "SumBackward0": lambda x: x.sum(),
    "SumBackward1": lambda x: x.sum(0),
    "MeanBackward0": lambda x: x.mean(),
    "MeanBackward1": lambda x: x.mean(1),
    "ProdBackward0": lambda x: x.prod(),
    "MaxBackward1": lambda x: x.max(),
    "AmaxBackward0": lambda x: x.amax(0),
    "CumsumBackward0": lambda x: x.cumsum(0),
    "TBackward0": lambda x: x.t(),
    "TransposeBackward0": lambda x: x.transpose(0, 1),
    "PermuteBackward0": lambda x: x.permute(1, 0),
    "ViewBackward0": lambda x: x.view(4),
    "ExpandBackward0": lambda x: x.expand(3, 2, 2),
    "SqueezeBackward0": lambda x: x.squeeze(),
    "UnsqueezeBackward0": lambda x: x.unsqueeze(0),
    "SelectBackward0": lambda x: x[0],
    "SliceBackward0": lambda x: x[1:],
    "UnbindBackward0": lambda x: x.unbind()[0],
    "MmBackward0": lambda x: x @ x,
    "CloneBackward0": lambda x: x.clone(),
    "ToCopyBackward0": lambda x: x.double(),
    "SoftmaxBackward0": lambda x: x.softmax(0),
    "LogSoftmaxBackward0": lambda x: x.log_softmax(0),
    "WhereBackward0": lambda x: x.where(x > 1, x * 2),
    "IndexBackward0": lambda x: x[[0, 1]],
}


@pytest.mark.parametrize("name", NAMES)
def test_025_names_of_nodes(lib, name):
    assert NAMES[name](lib.ones(2, 2, requires_grad=True)).grad_fn.name() == name


def test_026_saved_values(lib):
    x, w = leaf(lib, [2.0]), leaf(lib, [3.0])
    node = (x * w).grad_fn
    assert node._saved_self is x and node._saved_other is w
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert y.grad_fn._raw_saved_result is not None
    y.sum().backward()
    with raises(RuntimeError, FREED):
        y.grad_fn._saved_result  # noqa: B018
    z = x.pow(2.5)
    assert z.grad_fn._saved_exponent == 2.5
    assert z.grad_fn._saved_self is x
    with raises(AttributeError):
        z.grad_fn._saved_nothing  # noqa: B018


def test_027_graph_dies_by_reference_count(lib):
    class Token:
        """Something that can be seen to die."""

    class Mine(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    gc.collect()
    gc.disable()
    try:
        x = leaf(lib, [2.0])
        y = (Mine.apply(x.exp() * 2).sin() + x).sum()
        token = Token()
        y.grad_fn.metadata["token"] = token
        gone = weakref.ref(token)
        del token
        assert gone() is not None
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_028_intermediates_die_after_backward(lib):
    def build():
        x = leaf(lib, [2.0])
        middle = x.exp()
        gone = weakref.ref(middle)
        return x, gone, (middle * middle).sum()

    gc.collect()
    gc.disable()
    try:
        x, gone, y = build()
        assert y.grad_fn.next_functions[0][0]._saved_self.tolist() == x.exp().tolist()
        y.backward(retain_graph=True)
        assert y.grad_fn.next_functions[0][0]._saved_self.tolist() == x.exp().tolist()
        y.backward()
        with raises(RuntimeError, FREED):
            y.grad_fn.next_functions[0][0]._saved_self  # noqa: B018
        z = x.exp()
        dead = weakref.ref(z)
        del z, y
        assert dead() is None and gone() is None
    finally:
        gc.enable()


def test_029_depth_is_bounded_by_memory(lib):
    class Step(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x) + 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(lib, [0.0])
    y = x
    with unread(lib):
        for _ in range(1_000_000 if is_weft(lib) else 200_000):
            y = y + 1
        y.backward(lib.ones(1))
        del y
    assert x.grad.tolist() == [1]
    y, x.grad = x, None
    for _ in range(20_000 if is_weft(lib) else 5_000):
        y = Step.apply(y)
    y.backward(lib.ones(1))
    del y
    assert x.grad.tolist() == [1]


def test_029_reentrant_backward(lib):
    class Nested(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with lib.enable_grad():
                    inner = lib.ones(1, requires_grad=True)
                    Nested.apply(inner, ctx.depth - 1).sum().backward()
                return inner.grad * g, None
            return g, None

    x = leaf(lib, [1.0])
    Nested.apply(x, 100).sum().backward()
    assert x.grad.tolist() == [1]


def test_030_latest_created_first(lib):
    order = []
    x = leaf(lib, [1.0])
    parts = [x * (i + 1) for i in range(5)]
    for i, part in enumerate(parts):
        part.register_hook(lambda g, i=i: order.append(i))
    total = parts[3] + parts[0] + parts[4] + parts[1] + parts[2]
    total.sum().backward()
    assert order == [4, 3, 2, 1, 0]


def test_031_exceptions_keep_their_type(lib):
    class MyError(Exception):
        pass

    def fail(g):
        raise MyError("mine")

    x = leaf(lib, [2.0])
    middle = x * x
    y = (middle * middle).exp().sum()
    middle.register_hook(fail)
    with raises(MyError, "mine"):
        y.backward()
    with raises(RuntimeError, FREED):
        y.backward()
