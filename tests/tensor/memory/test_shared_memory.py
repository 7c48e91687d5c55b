"""Shared memory: what one process writes to a tensor, all that share it see, by fork, as arguments, through queues."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import multiprocessing as mp
from weft import nn

METHODS = ["fork", "spawn"]
WRITES: dict[str, Callable[[weft.Tensor], Any]] = {
    "add_": lambda x: x.add_(1),
    "+=": lambda x: x.__iadd__(1),
    "an element": lambda x: x.__setitem__((0, 1), 5.0),
    "a view": lambda x: x[1].mul_(2),
    "transposed": lambda x: x.t()[0].fill_(7),
    "copy_": lambda x: x.copy_(weft.ones(2, 3)),
    "zero_": lambda x: x.zero_(),
    "out=": lambda x: weft.mul(x, 2, out=x),
    "data": lambda x: x.data.sub_(1),
    "detached": lambda x: x.detach().sub_(1),
    "index_add_": lambda x: x.index_add_(0, weft.tensor([0, 0]), weft.ones(2, 3)),
    "masked_fill_": lambda x: x.masked_fill_(x > 2, 0),
    "numpy": lambda x: x.numpy().fill(3),
    "storage": lambda x: x.untyped_storage().fill_(0),
}


def _in_child(function: Callable[..., Any], *arguments: Any, method: str = "fork") -> None:
    process = mp.get_context(method).Process(target=function, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("name", WRITES)
def test_a_forked_child_s_writes_are_seen(name: str) -> None:
    x, alone = weft.arange(6.0).reshape(2, 3), weft.arange(6.0).reshape(2, 3)
    view = x[0]
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared() and view.is_shared()
    address, before = x.data_ptr(), x * 1
    _in_child(WRITES[name], x)
    WRITES[name](alone)
    assert x.tolist() == alone.tolist() and view.tolist() == alone[0].tolist()
    assert before.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.data_ptr() == address


def _write_to(tensors: Any) -> None:
    for tensor in tensors:
        tensor.mul_(2)


@pytest.mark.parametrize("method", METHODS)
def test_shared_arguments_of_a_process_stay_shared(method: str) -> None:
    whole = weft.arange(4.0).share_memory_()
    half = weft.ones(2, dtype=weft.bfloat16).share_memory_()
    none, number = weft.zeros(0).share_memory_(), weft.tensor(3).share_memory_()
    with multiprocessing.get_context(method).Pool(1) as pool:  # the standard library's
        pool.apply(_write_to, ([whole, whole[2:], half, none, number],))
    assert whole.tolist() == [0, 2, 8, 12] and half.tolist() == [2, 2]
    assert none.tolist() == [] and number.item() == 6


def _answer(asked: Any, answers: Any) -> None:
    x = asked.get()
    x.mul_(2)
    answers.put((x.sum(), {"part": x[1:], "parameter": nn.Parameter(x)}))
    asked.get()


@pytest.mark.parametrize("method", METHODS)
def test_queues_send_memory(method: str) -> None:
    context = mp.get_context(method)
    asked, answers = context.Queue(), context.Queue()
    process = context.Process(target=_answer, args=(asked, answers))
    process.start()
    x = weft.arange(3.0)
    asked.put(x)
    total, others = answers.get(timeout=60)
    assert x.is_shared() and x.tolist() == [0, 2, 4] and total.item() == 6
    others["part"].fill_(1)
    assert x.tolist() == [0, 1, 1] and others["parameter"].tolist() == [0, 1, 1]
    assert isinstance(others["parameter"], nn.Parameter) and others["parameter"].requires_grad
    asked.put(None)
    process.join(60)


def _train(model: Any, seed: int) -> None:
    weft.manual_seed(seed)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(150):
        x = weft.randn(16, 3)
        optimizer.zero_grad()
        (model(x) - x @ weft.tensor([[1.0], [2.0], [3.0]])).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("method", METHODS)
def test_hogwild(method: str) -> None:
    """Two processes train one model."""
    model = nn.Sequential(nn.Linear(3, 1))
    assert model.share_memory() is model and all(p.is_shared() for p in model.parameters())
    processes = [
        mp.get_context(method).Process(target=_train, args=(model, seed)) for seed in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert weft.allclose(model[0].weight, weft.tensor([[1.0, 2.0, 3.0]]), atol=1e-2)
    assert all(p.is_leaf and p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "Adagrad", "RMSprop", "AdamW"])
def test_steps_reach_shared_memory(optimizer: str) -> None:
    """Every optimizer's, and those of a model that was trained before."""
    weft.manual_seed(0)
    model, alone = nn.Linear(3, 2), nn.Linear(3, 2)
    alone.load_state_dict(model.state_dict())

    def step(module: Any, known: Any) -> None:
        module(weft.ones(4, 3)).square().sum().backward()
        known.step()

    optimizers = [getattr(weft.optim, optimizer)(m.parameters(), lr=0.1) for m in (model, alone)]
    for module, known in zip((model, alone), optimizers, strict=True):
        step(module, known)
    model.share_memory()
    assert all(p.grad.is_shared() for p in model.parameters())
    _in_child(step, model, optimizers[0])
    step(alone, optimizers[1])
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert weft.equal(one, other)


def test_shared_memory_that_is_pickled_or_copied_is_not_shared() -> None:
    x = weft.ones(2).share_memory_()
    assert not pickle.loads(pickle.dumps(x)).is_shared() and not x.clone().is_shared()
    assert x.untyped_storage().is_shared() and x.storage().is_shared()
    assert weft.ones(2).storage().share_memory_().is_shared()
    assert weft.ones(2).untyped_storage().share_memory_().is_shared()


def test_the_sums_of_adagrad_are_shared() -> None:
    parameter = nn.Parameter(weft.zeros(2))
    optimizer = weft.optim.Adagrad([parameter])
    optimizer.share_memory()
    assert optimizer.state[parameter]["sum"].is_shared()


def test_the_end_of_a_process_may_be_the_end_of_shared_memory() -> None:
    """Names of modules are gone by then."""
    program = "import weft.random as last; last.held = last.rand(3).share_memory_()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
