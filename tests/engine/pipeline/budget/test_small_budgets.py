"""Pending work may run after any recorded operation: values, gradients, state and errors are those of work that runs
when a value is read, whatever repeats what has been recorded, and nothing stays behind."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_programs as programs
import random_trees as forests
import weft
import weft.nn.functional as F
from properties import QUICK
from small_budgets import NODES, REGROUPED, Shown, assert_same, within
from weft import nn
from weft.engine.api.call_cache import ComposedPart
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.ir.tape import tape
from weft.engine.pipeline.driver import realize
from weft.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from weft.utils.checkpoint import checkpoint

SCENES: dict[str, Callable[[], Shown]] = {}


def scene(function: Callable[[], Shown]) -> Callable[[], Shown]:
    SCENES[function.__name__.replace("_", " ")] = function
    return function


def leaf(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return weft.tensor(values, requires_grad=True)


def gradients(*tensors: Any) -> list[Any]:
    return [tensor.grad for tensor in tensors]


# -- walks ---------------------------------------------------------------------------------------------------------


@scene
def walks_that_come_again() -> Shown:
    weight, bias = leaf(4, 4), leaf(4)
    losses = []
    for turn in range(5):
        x = leaf(3, 4, seed=turn).detach()
        for _ in range(3):
            x = (x @ weight + bias).tanh()
        losses.append(x.square().mean())
        losses[-1].backward(retain_graph=turn % 2 == 1)
        if turn % 2:
            losses[-1].backward()
    return losses, gradients(weight, bias)


@scene
def derivatives_of_derivatives() -> Shown:
    weight = leaf(4, 4)
    found = []
    for turn in range(4):
        x = leaf(4, seed=turn)
        y = (x @ weight).tanh().square().sum()
        (slope,) = weft.autograd.grad(y, x, create_graph=True)
        (curve,) = weft.autograd.grad(slope.square().sum(), x, create_graph=True)
        (curve.sum() + slope.sum()).backward()
        found += [slope, curve, x.grad]
    return [], [*found, weight.grad]


@scene
def hooks_on_everything() -> Shown:
    weight = leaf(4, 4)
    seen: list[Any] = []
    weight.register_post_accumulate_grad_hook(lambda w: seen.append(w.grad.clone()))
    for turn in range(4):
        hidden = leaf(2, 4, seed=turn).detach() @ weight
        hidden.retain_grad()
        hidden.register_hook(lambda g: g * 2 + g.sum())
        out = hidden.tanh()
        out.grad_fn.register_prehook(lambda g: (g[0] + 1,))
        out.grad_fn.register_hook(lambda below, above: seen.append(below[0] * above[0].sum()))
        out.sum().backward()
        seen.append(hidden.grad)
    return [], [*seen, weight.grad]


class Scaled(weft.autograd.Function):
    """x * y + x with a derivative by hand."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        product = x * y
        ctx.save_for_backward(x, y, product)
        return product + x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y, product = ctx.saved_tensors
        return g * y + g + 0 * product, g * x


@scene
def functions_of_users() -> Shown:
    x, y = leaf(3, 4), leaf(3, 4, seed=1)
    values = []
    for _ in range(4):
        out = Scaled.apply(x, y.tanh()).tanh() * 2
        values.append(out)
        (g,) = weft.autograd.grad(out.sum(), x, create_graph=True)
        (out.sum() + g.square().sum()).backward()
    return values, gradients(x, y)


@scene
def recomputation() -> Shown:
    weight = leaf(4, 4)
    values = []
    for turn in range(4):
        x = leaf(2, 4, seed=turn)
        for reentrant in (False, True):
            x = checkpoint(lambda x: (x @ weight).tanh() @ weight, x, use_reentrant=reentrant)
        values.append(x)
        x.square().sum().backward()
    return values, gradients(weight)


@scene
def saves_that_are_packed() -> Shown:
    weight = leaf(4, 4)
    for turn in range(4):
        with weft.autograd.graph.saved_tensors_hooks(
            lambda t: (t * 2, t.shape), lambda p: p[0] / 2
        ):
            loss = (leaf(2, 4, seed=turn).detach() @ weight).tanh().square().exp().sum()
        loss.backward()
    return [loss], gradients(weight)


@scene
def loops_over_rows() -> Shown:
    """Cotangents of rows, products and sums from all times are brought together."""
    inward, onward, bias = leaf(5, 8), leaf(8, 8), leaf(8)
    for turn in range(4):
        x = leaf(9, 3, 5, seed=turn)
        h = weft.zeros(3, 8, dtype=weft.float64)
        outs = []
        for row in x.unbind(0) if turn % 2 else [x[t] for t in range(9)]:
            h = (row @ inward + h @ onward * 0.1 + bias).tanh()
            outs.append(h)
        loss = weft.stack(outs).square().mean() + sum(h[:, :4].sum() for h in outs) * 0.1
        loss.backward()
    return [loss, *outs], gradients(inward, onward, bias, x)


@scene
def walks_that_are_watched() -> Shown:
    weight = leaf(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(3):
            with weft.autograd.detect_anomaly():
                (leaf(2, 4, seed=turn).detach() @ weight).tanh().square().sum().backward()
    return [], gradients(weight)


@scene
def gradients_of_tables() -> Shown:
    table = nn.Embedding(9, 4, sparse=True, dtype=weft.float64)
    with weft.no_grad():
        table.weight.copy_(leaf(9, 4))
    optimizer = weft.optim.SparseAdam(table.parameters(), lr=0.1)
    for turn in range(4):
        optimizer.zero_grad()
        table(weft.tensor([turn, 3, 3, 8])).square().sum().backward()
        table(weft.tensor([turn, 5])).sum().backward()
        optimizer.step()
    return [], [table.weight, table.weight.grad.to_dense()]


@scene
def recursion() -> Shown:
    shape = [((0, 1), (2, (3, 4))), (1, 1, 1), 2, ((0,), (1, (2, 3)))]
    forest = forests.Forest(weft)
    losses = forest.losses(shape)
    sum(losses[1:], losses[0]).backward()
    return losses, gradients(*forest.parameters)


# -- writes --------------------------------------------------------------------------------------------------------


@scene
def writes_through_views() -> Shown:
    x = leaf(4, 4)
    base = x * 1.5
    row, turned = base[1], base.t()
    for turn in range(4):
        row.mul_(2)
        turned[2:].add_(row[:2, None])
        base[turn] = base[turn].tanh() + 1
        with weft.no_grad():
            base.diagonal().mul_(0.5)
    loss = (base * base).sum() + row.sum()
    loss.backward()
    return [base, row, turned, loss], gradients(x)


# -- layers --------------------------------------------------------------------------------------------------------


def trained(layer: Any, inputs: list[Any]) -> Shown:
    """Outputs, buffers, parameters and gradients of a layer in training."""
    optimizer = weft.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
    values = []
    for arguments in inputs:
        optimizer.zero_grad()
        out = layer(*arguments)
        out = out[0] if isinstance(out, tuple) else out
        out.square().mean().backward()
        values.append(out)
        optimizer.step()
    return values[:1], [*values, *layer.buffers(), *layer.parameters()]


def filled(layer: Any) -> Any:
    with weft.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(leaf(*parameter.shape, seed=number) * 0.3)
    return layer.double()


@scene
def recurrent_layers() -> Shown:
    layer = filled(nn.LSTM(3, 4, num_layers=2, bidirectional=True))
    return trained(layer, [(leaf(5, 2, 3, seed=n).detach(),) for n in range(4)])


@scene
def attention() -> Shown:
    layer = filled(nn.MultiheadAttention(8, 2, batch_first=True))
    x = leaf(2, 5, 8).detach()
    return trained(layer, [(x, x, x)] * 4)


@scene
def images() -> Shown:
    layer = filled(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(36, 3), nn.LogSoftmax(-1),
        )
    )  # fmt: skip
    return trained(layer, [(leaf(3 + n % 2, 2, 6, 6, seed=n).detach(),) for n in range(4)])


# -- function transforms -------------------------------------------------------------------------------------------


@scene
def maps() -> Shown:
    weight, x = leaf(4, 4), leaf(5, 4)
    values = []
    for _ in range(3):
        values.append(vmap(lambda row: (row @ weight).softmax(-1).cumsum(-1))(x))
        values.append(vmap(vmap(lambda a, b: a * b + a.sin(), (None, 0)), (0, None))(x, weight))
        values.append(vmap(lambda row: row if row.sum() > 0 else row * 2)(x))
    sum(value.sum() for value in values).backward()
    return values, gradients(weight, x)


@scene
def derivatives_of_functions() -> Shown:
    weight, x = leaf(3, 3), leaf(3, seed=1).detach()

    def loss(w: Any, x: Any) -> Any:
        return (x @ w).tanh().square().sum()

    found = []
    for _ in range(3):
        found.append(grad(loss)(weight, x))
        found.append(vmap(grad(loss, argnums=1), (None, 0))(weight, weight))
        found += [hessian(loss, argnums=1)(weight, x), jacrev(grad(loss, argnums=1), 1)(weight, x)]
        found.append(jacfwd(lambda x: (x @ weight).exp())(x))
        found += jvp(lambda x: (x @ weight).sin(), (x,), (x + 1,))
        out, vjp_fn = vjp(loss, weight, x)
        found += [out, *vjp_fn(out)]
    return [], found


@scene
def models_as_functions() -> Shown:
    layer = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    state = {name: parameter.detach() for name, parameter in layer.named_parameters()}

    def loss(state: Any, x: Any) -> Any:
        return functional_call(layer, state, (x,)).square().sum()

    each = [vmap(grad(loss), (None, 0))(state, leaf(5, 3, seed=n).detach()) for n in range(3)]
    return [], [part for found in each for part in found.values()]


@scene
def examples_in_fibers() -> Shown:
    weight = leaf(4, 4)

    def descend(x: Any) -> Any:
        x = x @ weight
        while x.norm() > 0.5:
            x = x.tanh() * 0.7
        x.square().sum().backward()
        return x

    values = [weft.map(descend, list(leaf(6, 4, seed=n).detach())) for n in range(3)]
    return [x for found in values for x in found], gradients(weight)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", SCENES)
def test_nothing_shows_when_work_runs(name: str, nodes: int) -> None:
    assert_same(SCENES[name], nodes)


@pytest.mark.parametrize("name", SCENES)
def test_nothing_stays_behind(name: str) -> None:
    """No more nodes than before; what is remembered of repeated calls and walks has been by the third."""

    def left() -> tuple[int, int]:
        gc.collect()
        realize()  # how many nodes wait for the next run depends on how many were recorded before
        return count_live_nodes(), tape().count

    with within(2):
        for _ in range(3):
            SCENES[name]()
        before = left()
        for _ in range(3):
            SCENES[name]()
        assert left() <= before


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", NODES)
def test_a_value_of_one_example_is_not_written_where_all_would(nodes: int) -> None:
    shared = weft.zeros(4)
    with within(nodes), pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda row: shared.add_((row * 2).sin() + 1))(weft.ones(3, 4))
    assert shared.tolist() == [0] * 4


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("strict", [False, True])
def test_a_mapped_function_that_reads_nothing_is_called_once(nodes: int, strict: bool) -> None:
    calls = []

    def function(row: Any) -> Any:
        calls.append(row)
        return (row * 2).sin().cos() + row.square().sum()

    with within(nodes):
        vmap(function, strict=strict)(weft.ones(5, 3))
    assert len(calls) == 1


@pytest.mark.parametrize("nodes", [0, 3])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_has_failed_half_way_is_not_repeated(nodes: int, failing: int) -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(x)
        y = (x * 2).tanh()
        if len(calls) == failing:
            raise KeyboardInterrupt
        return y + x.square()

    # A part is of a public function: its operations are recorded at the line that calls it, not at lines of its own.
    function.__code__ = function.__code__.replace(co_filename=weft.__file__)
    part = ComposedPart(function)
    with within(nodes):
        for turn in range(6):
            x = weft.full((3,), float(turn))
            try:
                found = part(x)
            except KeyboardInterrupt:
                continue
            assert found.tolist() == ((x * 2).tanh() + x.square()).tolist()


# -- any program ---------------------------------------------------------------------------------------------------


@settings(QUICK, max_examples=25)
@given(
    steps=programs.program_steps, seed=st.integers(0, 1000), nodes=st.sampled_from([*NODES, 10, 16])
)
def test_any_program_shows_the_same(steps: list[Any], seed: int, nodes: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = programs.run(steps, seed=seed)
        with within(nodes):
            found = programs.run(steps, seed=seed)
        assert programs.differences(found, expected, 0.0, REGROUPED) == []


@pytest.mark.parametrize("order", ["together", "one by one", "in parts", "read first"])
@settings(QUICK, max_examples=8)
@given(
    steps=programs.program_steps, seed=st.integers(0, 1000), nodes=st.sampled_from([*NODES, 10, 16])
)
def test_examples_of_any_program_show_the_same(
    order: str, steps: list[Any], seed: int, nodes: int
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = programs.run_examples(steps, seed, order, count=3)
        with within(nodes):
            found = programs.run_examples(steps, seed, order, count=3)
        for one, other in zip(found, expected, strict=True):
            assert programs.differences(one, other, 0.0, REGROUPED) == []


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("nodes", NODES)
def test_layers_in_inference_and_no_grad(nodes: int) -> None:
    layer = filled(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.GELU()))

    def show() -> Shown:
        x = leaf(3, 4)
        with weft.inference_mode():
            values = [layer(x) for _ in range(3)]
        with weft.no_grad():
            values += [F.normalize(layer.eval()(x)) for _ in range(3)]
        layer.train()
        return values, []

    show()
    layer[1].reset_running_stats()
    state = {name: value.clone() for name, value in layer.state_dict().items()}

    def from_the_start() -> Shown:
        layer.load_state_dict(state)
        return show()

    assert_same(from_the_start, nodes)
