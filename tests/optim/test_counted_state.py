"""Counts of optimizers' states: tensors to programs, as in PyTorch, whatever algorithms compute with."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import weft
from oracle import torch

COUNTS = {
    "Adam": ["step"],
    "AdamW": ["step"],
    "NAdam": ["step", "mu_product"],
    "RAdam": ["step"],
    "ASGD": ["step", "eta", "mu"],
    "Adagrad": ["step"],
    "Adadelta": ["step"],
    "Adamax": ["step"],
    "RMSprop": ["step"],
    "Rprop": ["step"],
    "Adafactor": ["step"],
}
BOTH = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
ALL = pytest.mark.parametrize("name", COUNTS)


class Training:
    """Three parameters of one optimizer, whose gradients are their values."""

    def __init__(self, lib: Any, name: str) -> None:
        self.parameters = [lib.nn.Parameter(lib.arange(4.0) + i) for i in range(3)]
        self.optimizer = getattr(lib.optim, name)(self.parameters, lr=0.1)

    def step(self) -> None:
        for parameter in self.parameters:
            parameter.grad = parameter.detach() * 0.3 + 0.1
        self.optimizer.step()

    @property
    def state(self) -> Any:
        return self.optimizer.state[self.parameters[1]]

    def counts(self, name: str) -> list[float]:
        return [float(self.state[count]) for count in COUNTS[name]]


@BOTH
@ALL
def test_a_count_is_a_tensor_wherever_it_is_read(lib: Any, name: str) -> None:
    training = Training(lib, name)
    training.step()
    state = training.state
    for count in COUNTS[name]:
        for found in (
            state[count],
            state.get(count),
            dict(state)[count],
            {**state}[count],
            dict(state.items())[count],
            state.copy()[count],
            copy.deepcopy(state)[count],
            pickle.loads(pickle.dumps(state))[count],
            state.setdefault(count, None),
        ):
            assert isinstance(found, lib.Tensor)
            assert found.shape == () and found.dtype is lib.float32
            assert found.item() == state[count].item()
    assert list(state)[0] == "step" and len(state) == len(dict(state))
    assert state.pop("step").item() == 1.0 and "step" not in state


@ALL
def test_what_is_written_counts_as_in_pytorch(name: str) -> None:
    """In place, by another tensor, by `+=`; a tensor that the program holds follows."""
    seen: list[list[float]] = []
    for lib in (weft, torch):
        training, values = Training(lib, name), []
        training.step()
        held = training.state["step"]
        training.step()
        values += [held.item(), *training.counts(name)]
        held.zero_()
        training.step()
        values += [held.item(), *training.counts(name)]
        training.state["step"] += 5
        training.step()
        values += [held.item(), *training.counts(name)]
        training.state["step"] = lib.tensor(2.0)
        training.step()
        values += [held.item(), *training.counts(name)]
        training.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
        training.step()
        values += [*training.counts(name), *training.parameters[1].tolist()]
        seen.append(values)
    assert seen[0] == pytest.approx(seen[1], rel=2e-4, abs=1e-5)


@ALL
def test_reading_counts_changes_no_bit(name: str) -> None:
    plain, read = Training(weft, name), Training(weft, name)
    for _ in range(4):
        plain.step()
        read.step()
        read.counts(name)
    for a, b in zip(plain.parameters, read.parameters, strict=True):
        assert weft.equal(a, b)


@BOTH
def test_states_of_programs_own_stay_as_they_are(lib: Any) -> None:
    class Own(lib.optim.Optimizer):  # type: ignore[misc,name-defined]
        def step(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1

    optimizer = Own([lib.nn.Parameter(lib.ones(2))], {})
    optimizer.step()
    assert [state["step"] for state in optimizer.state.values()] == [1]
