"""vmap: one example's record over all examples, and example by example where it reads values; against PyTorch where
that can do it, and against a loop."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import weft
from live_nodes import settled_count
from oracle import both
from weft.autograd import forward_ad
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver
from weft.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, mapping, vjp, vmap

F = weft.nn.functional


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows whenever examples run one after the other."""
    counts: list[int] = []
    others = mapping._others

    def counted(mapped: Any, chance: Any, together: bool) -> Any:
        counts.append(mapped.count)
        return others(mapped, chance, together)

    monkeypatch.setattr(mapping, "_others", counted)
    return counts


def rows(count: int = 5, size: int = 3) -> Any:
    return weft.from_numpy(np.random.default_rng(0).standard_normal((count, size)))


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-12, 1e-12)


# -- together ----------------------------------------------------------------------------------------------------------

TABLE = weft.from_numpy(np.random.default_rng(1).standard_normal((7, 3)))
WEIGHT = weft.from_numpy(np.random.default_rng(2).standard_normal((4, 3)))


def in_place(x: Any) -> Any:
    y = x.clone()
    y[1:] *= 2
    y += x
    return y


TOGETHER: dict[str, Any] = {
    "views": lambda x: x.reshape(3, 1).expand(2, 3, 4)[1, ::2].transpose(0, 1).flip(0),
    "matrix times vector": lambda x: WEIGHT @ x,
    "vector times matrix": lambda x: x @ WEIGHT.mT,
    "outer": lambda x: x.outer(x),
    "linear": lambda x: F.linear(x, WEIGHT),
    "softmax": lambda x: F.softmax(x, -1),
    "layer norm": lambda x: F.layer_norm(x, (3,)),
    "norm": lambda x: x.norm(),
    "max": lambda x: x.max(0).values,
    "cumsum": lambda x: x.cumsum(0),
    "in place": in_place,
    "cat": lambda x: weft.cat([x, x * 2, WEIGHT[0]]),
    "pad": lambda x: F.pad(x, (1, 2)),
    "conv": lambda x: F.conv1d(x.reshape(1, 1, 3), WEIGHT[:2, :2].reshape(2, 1, 2)),
    "constants": lambda x: x + weft.ones(3, dtype=weft.float64),
    "where": lambda x: weft.where(x > 0, x, WEIGHT[0]),
    "a loop": lambda x: sum(x * i for i in range(3)),
    "detach": lambda x: x.detach() * x,
    "no grad": lambda x: x * weft.no_grad()(lambda: x.sin())(),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_examples_run_together(name: str, alone: list[int]) -> None:
    function, x = TOGETHER[name], rows()
    close(vmap(function)(x), weft.stack([function(row) for row in x]))
    slope = grad(lambda row: (function(row) * 1.5).sin().sum())
    close(vmap(slope)(x), weft.stack([slope(row) for row in x]))
    curve = hessian(lambda row: (function(row) * 1.5).sin().sum())
    close(vmap(curve)(x), weft.stack([curve(row) for row in x]))
    assert alone == []


@pytest.mark.parametrize("name", TOGETHER)
def test_a_map_has_gradients(name: str, alone: list[int]) -> None:
    """By what it maps over, and by what all examples share."""
    function, x = TOGETHER[name], rows().requires_grad_()
    shared = weft.ones(3, dtype=weft.float64, requires_grad=True)
    mapped = vmap(lambda row: function(row * shared))(x).sin().sum()
    looped = weft.stack([function(row * shared) for row in x]).sin().sum()
    ours = weft.autograd.grad(mapped, (x, shared), create_graph=True)
    theirs = weft.autograd.grad(looped, (x, shared), create_graph=True)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
    second = [weft.autograd.grad((g[0] ** 2).sum(), shared)[0] for g in (ours, theirs)]
    close(*second)
    assert alone == []


def test_indices_and_tables_of_each_example(alone: list[int]) -> None:
    index = weft.tensor([[0, 6], [3, 3], [1, 2]])
    tables = weft.stack([TABLE, TABLE * 2, TABLE + 1])
    for function, args, dims in (
        (lambda t, i: t[i], (TABLE, index), (None, 0)),
        (lambda t, i: t[i], (tables, index), (0, 0)),
        (lambda t, i: t[i], (tables, index[0]), (0, None)),
        (lambda t, i: t[:, i.clamp(max=2)], (tables, index), (0, 0)),
        (lambda t, i: F.embedding(i, t).sum(0), (TABLE, index), (None, 0)),
        (lambda t, i: t.index_add(0, i, t[:2]), (TABLE, index), (None, 0)),
        (lambda t, i: t.index_copy(0, i + weft.tensor([0, 0]), t[:2]), (tables, index), (0, 0)),
        (lambda t, i: t.gather(0, i.unsqueeze(1)), (tables, index), (0, 0)),
    ):
        per = [[a[k] if d == 0 else a for a, d in zip(args, dims, strict=True)] for k in range(3)]
        close(vmap(function, dims)(*args), weft.stack([function(*p) for p in per]))

        def slope(t: Any, i: Any, function: Any = function) -> Any:
            return grad(lambda t: function(t, i).square().sum())(t)

        close(vmap(slope, dims)(*args), weft.stack([slope(*p) for p in per]))
    assert alone == []


def test_an_index_outside_its_own_example_is_refused() -> None:
    tables = weft.stack([TABLE, TABLE * 2])
    with pytest.raises(IndexError):
        vmap(lambda t, i: t.index_select(0, i))(tables, weft.tensor([[7], [0]])).tolist()


# -- one after the other ---------------------------------------------------------------------------------------------


def test_values_may_be_read_and_decide(alone: list[int]) -> None:
    def function(row: Any) -> Any:
        while row.norm() < 4:
            row = row * 1.5
        return row * row[0].item() if row.sum() > 0 else -row

    x = rows()
    close(vmap(function)(x), weft.stack([function(row) for row in x]))
    slope = grad(lambda row: function(row).sin().sum())
    close(vmap(slope)(x), weft.stack([slope(row) for row in x]))
    assert alone == [5, 5]


def test_what_reads_runs_once_per_example() -> None:
    seen: list[float] = []
    vmap(lambda row: seen.append(row.sum().item()) or row)(rows())
    assert seen == [row.sum().item() for row in rows()]


def test_a_read_costs_one_flush_for_all_but_the_first() -> None:
    def function(row: Any) -> Any:
        while row.norm() < 4:
            row = row * 1.5
        return row

    x = weft.ones(30, 4)
    weft.realize(x)
    before = driver.counters["flushes"]
    function(x[0])
    once = driver.counters["flushes"] - before
    vmap(function)(x)
    assert driver.counters["flushes"] - before == 3 * once


def test_a_failure_names_the_example() -> None:
    def function(row: Any) -> Any:
        if row.sum() > 5:
            raise LookupError("large")
        return row

    with pytest.raises(LookupError) as caught:
        vmap(function)(weft.arange(8.0).view(4, 2))
    assert caught.value.__notes__ == ["vmap: raised by example 2"]


def test_strict_refuses_a_read_at_its_line() -> None:
    for function in (
        lambda row: row if row.sum() > 0 else -row,
        lambda row: row * row[0].item(),
        lambda row: row * float(row[0]),
    ):
        with pytest.raises(
            RuntimeError, match=r"vmap: It looks like you're .*\.item\(\)"
        ) as caught:
            vmap(function, strict=True)(rows())
        assert "test_vmap.py" in str(caught.value) and "strict" in str(caught.value)
    close(vmap(weft.sin, strict=True)(rows()), rows().sin())
    assert rows().sum().item() == rows().sum().item()


def test_a_custom_function_runs_on_each_example(alone: list[int]) -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = rows().requires_grad_()
    vmap(Double.apply)(x).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 5
    assert alone == [5]


def closed_over(total: Any) -> dict[str, Any]:
    """Functions that write a value of their example into a tensor that all examples share."""

    def at_its_index(row: Any) -> None:
        total[row.argmax()] = 1.0

    def after_another_write(row: Any) -> None:
        total.add_(1)
        total.add_(row)

    return {
        "add_": lambda row: total.add_(row),
        "copy_": lambda row: total.copy_(row * 2),
        "out": lambda row: weft.add(row, 1, out=total),
        "setitem": lambda row: total.__setitem__(0, row[0]),
        "view": lambda row: total[1:].mul_(row[1:]),
        "index": at_its_index,
        "again": after_another_write,
        "gradient": lambda row: total.add_(grad(lambda one: one.sin().sum())(row)),
        "inner": lambda row: vmap(lambda number: number + total.add_(row).sum())(row.detach()),
    }


@pytest.mark.parametrize("name", list(closed_over(None)))
def test_a_value_of_one_example_is_not_written_where_all_would(name: str) -> None:
    total = weft.zeros(3, dtype=weft.float64)
    with pytest.raises(RuntimeError, match="being vmapped over but `self` not being vmapped over"):
        vmap(closed_over(total)[name])(rows())
    assert total.tolist() == [1.0 if name == "again" else 0.0] * 3
    buffer = weft.zeros(3, dtype=weft.float64)
    with pytest.raises(RuntimeError, match="fix +return the value"):
        vmap(lambda row, other: other.add_(row), in_dims=(0, None))(rows(), buffer)


def test_what_is_the_same_for_all_examples_is_written_once(alone: list[int]) -> None:
    count, x = weft.zeros(3, dtype=weft.float64), rows()

    def function(row: Any) -> Any:
        own = weft.zeros(3, dtype=weft.float64)
        own[1:] += row[1:]
        return own + count.add_(1)

    found = vmap(function)(x)
    wanted = x + 1
    wanted[:, 0] = 1
    close(found, wanted)
    assert count.tolist() == [1.0] * 3
    assert alone == []


def test_an_inner_map_writes_into_what_each_outer_example_has() -> None:
    def function(row: Any) -> Any:
        own = row * 1
        vmap(lambda number: own.add_(1))(weft.zeros(4))
        return own

    close(vmap(function)(rows()), rows() + 1)


def test_writes_into_an_argument_reach_it(alone: list[int]) -> None:
    x, wanted = rows(), rows() * 2
    found = vmap(lambda row: row.mul_(2).sum(), in_dims=1)(x)
    close(x, wanted)
    close(found, wanted.sum(0))


# -- the arguments of vmap ---------------------------------------------------------------------------------------------


def test_dimensions_in_and_out_follow_the_structure() -> None:
    x, y = rows(4, 3), rows(3, 4)

    def function(pair: Any, other: Any) -> Any:
        return {"sum": pair["a"] + pair["b"][0], "rest": (other, pair["a"].sum())}

    found = vmap(function, ({"a": 0, "b": (1,)}, None), {"sum": 1, "rest": (None, 0)})(
        {"a": x, "b": (y,)}, WEIGHT
    )
    close(found["sum"], (x + y.mT).mT)
    assert found["rest"][0] is WEIGHT or found["rest"][0].tolist() == WEIGHT.tolist()
    close(found["rest"][1], x.sum(1))
    close(vmap(lambda row: row, -1, -1)(x), x)


def test_a_result_of_each_example_needs_a_dimension() -> None:
    with pytest.raises(ValueError, match="out_dim"):
        vmap(lambda row: row, 0, None)(rows())


@pytest.mark.parametrize("size", (1, 2, 5, 9))
def test_chunks(size: int, alone: list[int]) -> None:
    x = rows()
    close(vmap(lambda row: row.sin(), chunk_size=size)(x), x.sin())
    close(vmap(lambda row: row.sin(), 1, 1, chunk_size=size)(x), x.sin())
    close(vmap(lambda row: WEIGHT[0], chunk_size=size)(x), WEIGHT[0].expand(5, 3))
    assert alone == []


def test_random_numbers() -> None:
    x = rows()
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda row: row + weft.rand(3, dtype=weft.float64))(x)
    weft.manual_seed(3)
    same = vmap(lambda row: row * 0 + weft.rand(3, dtype=weft.float64), randomness="same")(x)
    assert all(row == same[0].tolist() for row in same.tolist())
    for size in (None, 2):
        weft.manual_seed(3)
        different = vmap(lambda row: row * 0 + weft.rand(3), 0, 0, "different", chunk_size=size)(x)
        assert len({tuple(row) for row in different.tolist()}) == 5
    with pytest.raises(ValueError, match="randomness"):
        vmap(weft.sin, randomness="none")


@pytest.mark.parametrize("kind", ["error", "same", "different"])
def test_random_numbers_of_every_origin(kind: str) -> None:
    """Generators of their own, inner maps and columns of Jacobians follow the same rule, at the line that draws."""
    own = weft.Generator()
    ways: list[Any] = [
        lambda: vmap(lambda row: row * 0 + weft.rand(3, generator=own), randomness=kind)(rows()),
        lambda: vmap(vmap(lambda one: one * 0 + weft.rand(()), randomness="different"), 0, 0, kind)(
            rows()
        ),
        lambda: jacfwd(lambda row: row.sum() * weft.rand(4), randomness=kind)(weft.ones(3)).T,
    ]
    for way in ways:
        own.manual_seed(1)
        if kind == "error":
            state = weft.get_rng_state().tolist()
            with pytest.raises(RuntimeError, match="random operation.*test_vmap.py"):
                way()
            assert weft.get_rng_state().tolist() == state
            continue
        found = way().tolist()
        assert len({tuple(row) for row in found}) == (1 if kind == "same" else len(found))


def test_randomness_refused_inside_may_be_caught() -> None:
    def function(row: Any) -> Any:
        try:
            return row * weft.rand(3)
        except RuntimeError:
            return row * 2

    assert vmap(function)(weft.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match="randomness error mode"):
        weft.func.hessian(lambda x: (x * weft.rand(2)).square().sum())(weft.ones(2))
    with pytest.raises(ValueError, match="randomness"):
        jacfwd(weft.sin, randomness="none")


# -- transforms in one another ----------------------------------------------------------------------------------------


def test_nested_maps(alone: list[int]) -> None:
    x, y = rows(4, 3), rows(5, 3)
    pairs = vmap(vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, y)
    close(pairs, x @ y.mT)
    inner = vmap(lambda a: vmap(grad(lambda b: (a * b).sin().sum()))(y))(x)
    close(inner[2, 3], x[2] * (x[2] * y[3]).cos())
    assert alone == []


def test_jacobians(alone: list[int]) -> None:
    def function(x: Any) -> Any:
        return (WEIGHT @ x).sin() * x.sum()

    x = rows()[0]
    reverse, forward = jacrev(function)(x), jacfwd(function)(x)
    close(reverse, forward)
    for size in (1, 2, 3):
        close(jacrev(function, chunk_size=size)(x), reverse)
    close(vmap(jacrev(function))(rows())[0], reverse)
    close(jacrev(vmap(function))(rows())[0, :, 0], reverse)
    curve = hessian(lambda v: function(v).square().sum())
    close(curve(x), jacrev(jacrev(lambda v: function(v).square().sum()))(x))
    close(curve(x), curve(x).mT)
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(function, chunk_size=0)
    assert alone == []


def test_gradients_of_gradients_by_what_is_shared(alone: list[int]) -> None:
    x, weight = rows(), WEIGHT.clone().requires_grad_()

    def slope(row: Any) -> Any:
        return grad(lambda r: (weight @ r).sin().sum())(row)

    def reading(row: Any) -> Any:
        return slope(row) if row.sum() > -100 else row

    for function in (slope, reading):
        mapped, looped = vmap(function)(x), weft.stack([slope(row) for row in x])
        ours, theirs = (weft.autograd.grad(g.square().sum(), weight)[0] for g in (mapped, looped))
        close(ours, theirs)
    assert alone == [5]


def _pushed(function: Any) -> Any:
    return lambda row: jvp(function, (row,), (weft.ones_like(row),))[1]


@pytest.mark.parametrize(
    "transform",
    (
        hessian,
        lambda f: jacrev(jacrev(f)),
        lambda f: jacrev(jacfwd(f)),
        lambda f: _pushed(_pushed(f)),
        lambda f: _pushed(grad(f)),
        lambda f: grad(lambda row: grad(f)(row).sum()),
        lambda f: grad(lambda row: hessian(f)(row).sum()),
    ),
)
def test_transforms_around_transforms_of_what_needs_gradients_run_together(
    transform: Any, alone: list[int]
) -> None:
    """As losses of equations are written: derivatives of a network by its input, then by its parameters."""
    x, weight = rows(), WEIGHT.clone().requires_grad_()
    derived = transform(lambda row: (weight @ row).tanh().sum() * row.sum())
    mapped, looped = vmap(derived)(x), weft.stack([derived(row) for row in x])
    close(mapped, looped)
    ours, theirs = (
        weft.autograd.grad(found.square().sum(), weight, create_graph=True)[0]
        for found in (mapped, looped)
    )
    close(ours, theirs)
    close(*(weft.autograd.grad(g.square().sum(), weight)[0] for g in (ours, theirs)))
    assert alone == []


def test_maps_leave_nothing_behind() -> None:
    x, weight = rows(), WEIGHT.clone().requires_grad_()

    def step() -> None:
        vmap(grad(lambda row: (weight @ row).sin().sum()))(x).sum().backward()
        vmap(hessian(lambda row: row.sin().prod()))(x).tolist()
        vmap(hessian(lambda row: (weight @ row).sin().prod()))(x).sum().backward()
        vmap(lambda row: row if row.sum() > 0 else -row)(x).tolist()
        weight.grad = None

    for _ in range(3):
        step()
    settled_count()
    for _ in range(3):
        step()
    gc.collect()
    gc.disable()
    try:
        before = count_live_nodes()
        for _ in range(20):
            step()
        assert count_live_nodes() == before and not tape().pending()
    finally:
        gc.enable()


def test_forward_mode_around_and_inside_a_map(alone: list[int]) -> None:
    x, v = rows(), rows() + 1

    def function(row: Any) -> Any:
        return (row.sin() * 2).softmax(0)

    def inside(row: Any, move: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(row, move))).tangent

    wanted = weft.stack([jvp(function, (a,), (b,))[1] for a, b in zip(x, v, strict=True)])
    close(vmap(inside)(x, v), wanted)
    with forward_ad.dual_level():
        mapped = vmap(function)(forward_ad.make_dual(x, v))
        close(forward_ad.unpack_dual(mapped).tangent, wanted)
    assert alone == []


def test_hooks_on_what_a_map_saves() -> None:
    """They see the saves of each example."""
    x, packed = rows().requires_grad_(), []

    def pack(tensor: Any) -> Any:
        packed.append(tuple(tensor.shape))
        return tensor.numpy()

    with weft.autograd.graph.saved_tensors_hooks(pack, weft.from_numpy):
        y = vmap(lambda row: (row.sin() * row).exp())(x)
    y.sum().backward()
    (wanted,) = weft.autograd.grad((x.sin() * x).exp().sum(), x)
    close(x.grad, wanted)
    assert set(packed) == {(3,)}


def test_products(alone: list[int]) -> None:
    x, v = rows(), rows() + 1

    def function(row: Any) -> Any:
        return row.sin() * row.sum()

    pushed = vmap(lambda a, b: jvp(function, (a,), (b,))[1])(x, v)
    pulled = vmap(lambda a, b: vjp(function, a)[1](b)[0])(x, v)
    for k in range(5):
        slope = jacrev(function)(x[k])
        close(pushed[k], slope @ v[k])
        close(pulled[k], slope.mT @ v[k])
    assert alone == []


class Net(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = weft.nn.Conv2d(1, 2, 3, padding=1)
        self.norm = weft.nn.LayerNorm(8)
        self.head = weft.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        hidden = F.max_pool2d(self.conv(x).relu(), 2).flatten(1)
        return self.head(F.gelu(self.norm(hidden)))


def test_gradients_of_each_sample(alone: list[int]) -> None:
    weft.manual_seed(0)
    net = Net().double()
    state = {name: p.detach() for name, p in net.named_parameters()}
    x, y = rows(6, 16).reshape(6, 1, 4, 4), weft.tensor([0, 1, 2, 2, 1, 0])

    def loss(state: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(functional_call(net, state, (x[None],)), y[None])

    found = vmap(grad(loss), (None, 0, 0))(state, x, y)
    for k in range(6):
        one = grad(loss)(state, x[k], y[k])
        for name, gradient in one.items():
            close(found[name][k], gradient)
    whole = weft.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
    for gradient, name in zip(whole, state, strict=True):
        close(found[name].mean(0), gradient)
    assert alone == []


def test_an_ensemble_of_modules(alone: list[int]) -> None:
    nets = [weft.nn.Linear(3, 2).double() for _ in range(4)]
    state, buffers = weft.func.stack_module_state(nets)
    x = rows()

    def call(state: Any, x: Any) -> Any:
        return functional_call(nets[0], (state, buffers), (x,))

    close(vmap(call, (0, None))(state, x), weft.stack([net(x) for net in nets]))
    slopes = vmap(grad(lambda s, x: call(s, x).square().sum()), (0, None))(state, x)
    for k, net in enumerate(nets):
        for name, p in net.named_parameters():
            close(slopes[name][k], weft.autograd.grad(net(x).square().sum(), p)[0])
    assert alone == []


def test_a_sum_over_one_element_keeps_its_bits() -> None:
    x = weft.tensor([[-0.0, 1.0], [0.0, -2.0]])

    def summed(row: Any) -> Any:
        return row.unsqueeze(0).sum(0), (row > 0).unsqueeze(0).sum(0)

    values, counts = weft.func.vmap(summed)(x)
    assert [[str(v) for v in row] for row in values.tolist()] == [["0.0", "1.0"], ["0.0", "-2.0"]]
    assert counts.dtype is weft.int64 and counts.tolist() == [[0, 1], [0, 0]]
    grads = weft.func.vmap(weft.func.grad(lambda row: summed(row * row)[0].sum()))(x)
    assert grads.tolist() == [[0, 2], [0, -4]]


@both
def test_results_that_are_no_tensors_pass_where_no_dimension_is_wanted(lib: Any) -> None:
    x = lib.ones(3)
    assert lib.func.vmap(lambda one: 3, out_dims=None)(x) == 3
    value, number = lib.func.vmap(lambda one: (one * 2, "two"), out_dims=(0, None))(x)
    assert value.tolist() == [2, 2, 2] and number == "two"
    assert lib.func.vmap(lambda one: one * 2, out_dims=(0,))(x).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'int'>"):
        lib.func.vmap(lambda one: 3)(x)
    with pytest.raises(ValueError, match="can not return a BatchedTensor when out_dim is None"):
        lib.func.vmap(lambda one: one, out_dims=None)(x)


def test_a_transform_inside_of_another_takes_a_transposed_argument() -> None:
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])

    def inner(y: Any) -> Any:
        return weft.func.grad(lambda z: (z * z * z).sum())(y.T).sum()

    assert weft.func.grad(inner)(x).tolist() == (6 * x).tolist()


@both
def test_named_arguments_are_the_same_for_all_examples(lib: Any) -> None:
    found = lib.func.vmap(lambda x, y: x * y)(lib.ones(2), y=lib.tensor([1.0, 2.0, 3.0]))
    assert found.tolist() == [[1, 2, 3], [1, 2, 3]]


@both
@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_a_linear_function_has_no_hessian_in_strict_mode(lib: Any, name: str) -> None:
    product = getattr(lib.autograd.functional, name)
    x, v = lib.ones(2), lib.ones(2)
    with pytest.raises(RuntimeError, match="with respect to input 0 is independent of the input"):
        product(lambda x: x.sum(), x, v, strict=True)
    assert product(lambda x: (x * x).sum(), x, v, strict=True)[1].tolist() == [2, 2]
    with pytest.raises(AssertionError, match="Expected strategy to be either"):
        lib.autograd.functional.jacobian(lambda x: x * 2, x, strategy="sideways")
