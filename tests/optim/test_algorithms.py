"""What every optimizer has in common: kernels, differentiable steps, state that goes through a file."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
from oracle import torch
from weft import optim
from weft.engine.pipeline import driver

NAMES = sorted(
    {*optim.__all__} - {"Optimizer", "SparseAdam", "lr_scheduler", "optimizer", "swa_utils"}
)
ELEMENTWISE = sorted({*NAMES} - {"Adafactor", "LBFGS", "Muon"})
EVERYTHING = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"amsgrad": True, "maximize": True},
    "Adagrad": {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.1},
    "RMSprop": {"centered": True, "momentum": 0.9, "weight_decay": 0.1},
    "NAdam": {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "RAdam": {"weight_decay": 0.1, "betas": (0.5, 0.9)},
    "Rprop": {},
    "ASGD": {"t0": 2, "weight_decay": 0.1},
    "Adamax": {"weight_decay": 0.1},
    "Adadelta": {"weight_decay": 0.1},
}


def parameters(count: int) -> list[weft.Tensor]:
    return [weft.randn(2 + i % 3, 4, requires_grad=True) for i in range(count)]


def events_of_a_step(name: str, count: int) -> tuple[int, int, int]:
    """How many kernels and launches the fourth step runs, and in how many programs."""
    given = parameters(count)
    optimizer = getattr(optim, name)(given, **EVERYTHING.get(name, {}))
    closure = [lambda: weft.tensor(1.0)] if name == "LBFGS" else []
    for _ in range(4):
        for parameter in given:
            parameter.grad = weft.randn(*parameter.shape)
        weft.realize()
        before = dict(driver.counters)
        optimizer.step(*closure)
    found = {key: driver.counters[key] - before[key] for key in before}
    return found["kernels"], found["launches"], found["flushes"]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("count", [4, 40, 400])
def test_a_step_is_one_kernel_for_all_parameters(name: str, count: int, known_soon: None) -> None:
    kernels, launches, flushes = events_of_a_step(name, count)
    assert (kernels, launches, flushes) == (1, 1, 1), (
        "WEFT_EXPLAIN=schedule shows what was cut where"
    )


@pytest.mark.parametrize(
    ("name", "kernels", "launches", "flushes", "counts"),
    [
        ("Adafactor", 7, 10, 1, (4, 40, 400)),
        ("Muon", 32, 33, 1, (4, 40, 400)),
        ("LBFGS", 16, 28, 5, (40, 400)),
    ],
)
def test_other_steps_have_a_bounded_number_of_kernels(
    name: str, kernels: int, launches: int, flushes: int, counts: tuple[int, ...]
) -> None:
    for count in counts:
        # Steps of one run differ, and come seldom: their kernels are compiled when that has paid.
        for _ in range(30):
            found = events_of_a_step(name, count)
        assert found <= (kernels, launches, flushes), (count, found)
        assert found[1] <= launches and found[2] == flushes


@pytest.mark.usefixtures("known_soon")
@pytest.mark.parametrize("count", [4, 40, 400])
def test_a_step_on_sparse_gradients_has_a_bounded_number_of_kernels(count: int) -> None:
    given = [weft.randn(10 + i % 3, 4, requires_grad=True) for i in range(count)]
    optimizer = optim.SparseAdam(given)
    for _ in range(4):
        for place, parameter in enumerate(given):
            rows = weft.tensor([[0, 2, 5][: 1 + place % 3]])
            values = weft.randn(rows.numel(), 4)
            parameter.grad = weft.sparse_coo_tensor(rows, values, parameter.shape)
        weft.realize(*[parameter.grad._values() for parameter in given])
        before = dict(driver.counters)
        optimizer.step()
    found = {key: driver.counters[key] - before[key] for key in before}
    assert (found["kernels"], found["launches"], found["flushes"]) == (6, 10, 1)


def test_a_direction_of_lbfgs_is_one_program() -> None:
    """The two loops over the history read nothing: one evaluation costs as many programs with 3 pairs as with 12."""
    scales, flushes = weft.arange(1.0, 41.0), []
    point = weft.ones(40, requires_grad=True)
    optimizer = optim.LBFGS([point], lr=0.5, max_iter=1, tolerance_change=0)

    def closure() -> weft.Tensor:
        point.grad = None
        loss = (scales * point.square()).sum() + point.pow(4).sum()
        loss.backward()
        return loss

    for _ in range(13):
        before = driver.counters["flushes"]
        optimizer.step(closure)
        flushes.append(driver.counters["flushes"] - before)
    assert len(optimizer.state[point]["ro"]) == 12
    assert flushes[3] == flushes[12]


def trained(optimizer: optim.Optimizer, given: list[weft.Tensor], seeds: range) -> None:
    for seed in seeds:
        random = np.random.default_rng(seed)
        for parameter in given:
            values = random.standard_normal(parameter.shape)
            parameter.grad = weft.tensor(values, dtype=parameter.dtype)
        optimizer.step(lambda: weft.tensor(1.0))


@pytest.mark.parametrize("name", NAMES)
def test_state_through_a_file_resumes_to_the_bit(name: str) -> None:
    given = parameters(3)
    make = getattr(optim, name)
    optimizer = make(given, **EVERYTHING.get(name, {}))
    trained(optimizer, given, range(4))
    file = io.BytesIO()
    weft.save({"model": [p.detach() for p in given], "optimizer": optimizer.state_dict()}, file)
    trained(optimizer, given, range(4, 8))
    file.seek(0)
    kept = weft.load(file)
    again = [p.clone().requires_grad_() for p in kept["model"]]
    second = make(again, **EVERYTHING.get(name, {}))
    second.load_state_dict(kept["optimizer"])
    trained(second, again, range(4, 8))
    for one, other in zip(given, again, strict=True):
        assert np.array_equal(one.detach().numpy(), other.detach().numpy())


def test_hooks_of_states() -> None:
    optimizer = optim.Adam(parameters(1))
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("pre"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, state: {key: state[key] for key in ("state", "param_groups")}
    )
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    first = optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    state = optimizer.state_dict()
    first.remove()
    optimizer.load_state_dict(state)
    assert state["more"] == 1
    assert seen == ["first", "pre", "loaded"]


def test_hooks_of_all_optimizers() -> None:
    seen: list[str] = []
    register = optim.optimizer
    with (
        register.register_optimizer_step_pre_hook(lambda o, a, k: seen.append("before")),
        register.register_optimizer_step_post_hook(lambda o, a, k: seen.append("after")),
    ):
        optim.SGD(parameters(1)).step()
    optim.Rprop(parameters(1)).step()
    assert seen == ["before", "after"]


def test_names_are_given_to_all_or_none() -> None:
    one, two = parameters(2)
    with pytest.raises(ValueError, match="with/without names. Some param names are missing"):
        optim.SGD([("one", one), two])
    with pytest.raises(ValueError, match="cannot add param group with names"):
        optim.SGD([{"params": [one]}, {"params": [("two", two)]}])


def test_counts_are_tensors_in_a_state_dict() -> None:
    given = parameters(1)
    optimizer = optim.NAdam(given)
    trained(optimizer, given, range(2))
    state = optimizer.state_dict()["state"][0]
    assert state["step"].item() == 2.0 and state["step"].dtype is weft.float32
    assert isinstance(state["mu_product"], weft.Tensor)
    assert optimizer.state[given[0]]["step"] == 2


def through_steps(lib: object, name: str, start: np.ndarray, options: dict) -> np.ndarray:
    """The gradient of a sum after two differentiable steps, with respect to start and the loss's scale."""
    begin = lib.tensor(start, requires_grad=True)
    scale = lib.tensor(np.array([0.5, 2.0, 1.5]), requires_grad=True)
    rated = name in ("SGD", "Adam", "AdamW")  # PyTorch's others need a number
    lr = lib.tensor(0.1, dtype=lib.float64, requires_grad=True) if rated else 0.1
    point = begin.clone()
    optimizer = getattr(lib.optim, name)([point], lr=lr, differentiable=True, **options)
    for _ in range(2):
        # Not through earlier steps' second derivatives: the gradient is a function of scale here.
        point.grad = scale * point.detach() ** 3 + 0.1
        optimizer.step()
    point.square().sum().backward()
    found = [begin.grad, scale.grad, *([lr.grad] if rated else [])]
    return np.concatenate([np.asarray(g.numpy()).reshape(-1) for g in found])


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta"])
def test_differentiable_steps_agree(name: str) -> None:
    options = {"momentum": 0.9} if name == "RMSprop" else {}  # PyTorch overwrites SGD's buffer
    start = np.array([0.7, -1.2, 0.4])
    ours = through_steps(weft, name, start, options)
    # PyTorch raises beta to the step in float32.
    tolerance = 1e-4 if name.startswith("Adam") else 1e-6
    np.testing.assert_allclose(ours, through_steps(torch, name, start, options), rtol=tolerance)
