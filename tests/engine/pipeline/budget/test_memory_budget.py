"""A memory budget: the same bits as without, a peak that stays under it, and clear words where that cannot be."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from random_programs import differences, program_steps, run
from weft.engine.devices.cpu import pool
from weft.errors import OutOfMemoryError

nn = weft.nn


def peak_of(function: Callable[[], Any]) -> tuple[Any, int]:
    """What a function returns, and the most bytes that were live meanwhile."""
    gc.collect()
    pool.reset_peak()
    return function(), pool.stats()["peak"]


def bits(values: list[Any]) -> list[bytes]:
    return [value.detach().numpy().tobytes() for value in values]


def network(seed: int, layers: int, width: int, dropout: float, kind: str) -> Any:
    """A stack of layers that store more than they need to."""
    weft.manual_seed(seed)
    blocks: list[Any] = []
    for _ in range(layers):
        if kind == "convolution":
            blocks += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        else:
            blocks += [nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)]
            blocks += [nn.LayerNorm(width)]
        if dropout:
            blocks.append(nn.Dropout(dropout))
    return nn.Sequential(*blocks)


def read_between(model: Any, values: list[float], reads: str) -> None:
    """Let a model's forward pass read values on its way, as a user who prints an activation does."""
    if reads == "activations":
        for number, layer in enumerate(model):
            if number % 3 == 1:
                layer.register_forward_hook(
                    lambda _, __, out: values.append(float(out.detach().abs().max().item()))
                )


def trained(
    seed: int,
    layers: int,
    width: int,
    dropout: float,
    kind: str,
    optimizer: str,
    reads: str = "",
    steps: int = 4,
) -> list[bytes]:
    """The bits of losses, parameters, gradients and the optimizer's state after some steps; `reads` says what is read
    before the backward pass."""
    model = network(seed, layers, width, dropout, kind)
    values: list[float] = []
    read_between(model, values, reads)
    step = getattr(weft.optim, optimizer)(model.parameters(), lr=1e-2)
    shape = (8, width, 12, 12) if kind == "convolution" else (96, width)
    x = weft.randn(*shape)
    losses = []
    for _ in range(steps):
        step.zero_grad()
        loss = model(x).square().mean()
        if reads:
            values.append(loss.item())
        loss.backward()
        step.step()
        losses.append(loss.detach())
    losses.append(weft.tensor(values))
    state = [value for one in step.state.values() for value in one.values()]
    parameters = list(model.parameters())
    return bits(
        [
            *losses,
            *parameters,
            *(p.grad for p in parameters),
            *(value for value in state if isinstance(value, weft.Tensor)),
            *model.buffers(),
        ]
    )


def budget_of(share: float, peak: int) -> int:
    """A budget between what is live now and a peak."""
    live = pool.stats()["allocated"]
    return live + int(share * (peak - live))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 99),
    layers=st.integers(2, 6),
    width=st.sampled_from([16, 32]),
    dropout=st.sampled_from([0.0, 0.25]),
    kind=st.sampled_from(["linear", "convolution"]),
    optimizer=st.sampled_from(["SGD", "AdamW"]),
    reads=st.sampled_from(["", "loss", "activations"]),
    share=st.floats(0.45, 0.95),
)
def test_training_has_the_same_bits(
    seed: int,
    layers: int,
    width: int,
    dropout: float,
    kind: str,
    optimizer: str,
    reads: str,
    share: float,
) -> None:
    """Forward, gradients, optimizer states, running statistics, dropout included; at every step, known or new."""
    arguments = (seed, layers, width, dropout, kind, optimizer, reads)
    free, peak = peak_of(lambda: trained(*arguments))
    budget = budget_of(share, peak)
    with weft.memory_budget(budget):
        try:
            bound, bounded_peak = peak_of(lambda: trained(*arguments))
        except OutOfMemoryError as error:
            assert "raise the budget to" in str(error)
            return
    assert bound == free
    assert bounded_peak <= budget


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@settings(max_examples=40, deadline=None)
@given(steps=program_steps, seed=st.integers(0, 99), share=st.floats(0.3, 1.0))
def test_random_programs_have_the_same_bits(
    steps: list[tuple[int, int, int, int]], seed: int, share: float
) -> None:
    """Views, in-place updates, held values, errors and reads on the way, under any budget."""
    free, peak = peak_of(lambda: run(steps, seed=seed, interpreter="none"))
    with weft.memory_budget(budget_of(share, peak) + (1 << 16)):
        try:
            bound = run(steps, seed=seed, interpreter="none")
        except OutOfMemoryError:
            return
    if "OutOfMemoryError" not in str(bound.errors):
        assert not differences(free, bound)


def chain(layers: int = 8, width: int = 64, rows: int = 512) -> tuple[Any, Any]:
    weft.manual_seed(0)
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers))
    )
    return model, weft.randn(rows, width)


def step(model: Any, x: Any) -> float:
    for p in model.parameters():
        p.grad = None
    loss = model(x).square().mean()
    loss.backward()
    weft.realize(*(p.grad for p in model.parameters()))
    return float(loss.item())


def test_the_budget_is_kept_and_reported() -> None:
    model, x = chain()
    step(model, x)
    value, peak = peak_of(lambda: step(model, x))
    budget = budget_of(0.5, peak)
    weft.memory_report(reset=True)
    with weft.memory_budget(budget):
        for _ in range(4):  # new, known, and as often as not from the store
            bound, bounded_peak = peak_of(lambda: step(model, x))
            assert bound == value
            assert bounded_peak <= budget
        report = weft.memory_report()
    assert report.budget == budget
    assert sum(count for count, _ in report.computed_again.values()) >= 4
    assert all(ns > 0 for _, ns in report.computed_again.values())
    assert not report.spilled
    here = os.path.basename(__file__)
    assert any(here in line for line in report.peak)
    assert any(here in line for line in report.live)
    assert "computed again:" in str(report)
    assert str(report).startswith("budget ")


def test_a_known_program_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.engine.pipeline import passes

    planned = []
    real = passes.constrain.constrain
    monkeypatch.setattr(
        passes.constrain, "constrain", lambda lowering: (planned.append(1), real(lowering))
    )
    model, x = chain()
    _, peak = peak_of(lambda: step(model, x))
    with weft.memory_budget(budget_of(0.6, peak)):
        for _ in range(12):  # until its kernels are compiled and it is known
            step(model, x)
        before = len(planned)
        assert before > 0
        for _ in range(5):
            step(model, x)
        assert len(planned) == before


def test_without_room_the_least_budget_is_named() -> None:
    model, x = chain()
    value, peak = peak_of(lambda: step(model, x))
    with weft.memory_budget(budget_of(0.08, peak)):
        with pytest.raises(OutOfMemoryError) as caught:
            step(model, x)
        assert os.path.basename(__file__) in str(caught.value)
    least = least_budget(caught.value)
    assert least < peak
    for p in model.parameters():
        p.grad = None
    gc.collect()
    with weft.memory_budget(least):
        assert step(model, x) == value


# -- what was refused ---------------------------------------------------------------------------------------------


def least_budget(error: OutOfMemoryError) -> int:
    """The budget that a refusal asks for."""
    return int(str(error).split("raise the budget to ")[1].split(" bytes")[0].replace(",", ""))


def training(name: str) -> tuple[Any, Any, list[Any]]:
    """A model, its optimizer and batches, all computed."""
    model, _ = chain()
    batches = [weft.randn(512, 64) for _ in range(4)]
    optimizer = getattr(weft.optim, name)(model.parameters(), lr=1e-2)
    weft.realize()
    return model, optimizer, batches


def train_on(model: Any, optimizer: Any, x: Any) -> float:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def state_bits(model: Any, optimizer: Any) -> list[bytes]:
    """The bits of parameters and of the optimizer's state."""
    state = [value for one in optimizer.state.values() for value in one.values()]
    numbers = [np.float64(value).tobytes() for value in state if not isinstance(value, weft.Tensor)]
    tensors = [value for value in state if isinstance(value, weft.Tensor)]
    return [*bits([*model.parameters(), *tensors]), *numbers]


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adagrad"])
def test_a_refused_step_is_taken_back_and_taken_again(name: str) -> None:
    """A loop that tries a batch until its budget suffices has the bits of one that nothing disturbed, and each refusal
    names the same least budget."""
    model, optimizer, batches = training(name)
    losses = [train_on(model, optimizer, x) for x in batches]
    free = state_bits(model, optimizer)
    model, optimizer, batches = training(name)
    bound, refusals = [], []
    with weft.memory_budget(pool.stats()["allocated"] + (1 << 18)):
        for x in batches:
            while True:
                try:
                    bound.append(train_on(model, optimizer, x))
                    break
                except OutOfMemoryError as error:
                    refusals.append(least_budget(error))
                    if len(refusals) == 3:
                        weft.set_memory_budget(refusals[-1])
    assert refusals[:3] == [refusals[0]] * 3
    assert bound == losses
    assert state_bits(model, optimizer) == free


def test_a_smaller_batch_fits_after_a_refused_one() -> None:
    """Nothing of a refused step is left: half a batch trains under the same budget."""
    model, optimizer, batches = training("AdamW")
    expected = [train_on(model, optimizer, x[:16]) for x in batches]
    model, optimizer, batches = training("AdamW")
    with weft.memory_budget(pool.stats()["allocated"] + 600_000):
        for x, loss in zip(batches, expected, strict=True):
            with pytest.raises(OutOfMemoryError):
                train_on(model, optimizer, x)
            assert train_on(model, optimizer, x[:16]) == loss


def test_what_was_refused_runs_before_what_was_recorded_since() -> None:
    """Gradients that are added up: each refusal names the same least budget, which then suffices for all."""
    model, _, batches = training("SGD")

    def add_gradients(x: Any) -> None:
        model(x).square().mean().backward()
        weft.realize()

    for x in batches:
        add_gradients(x)
    free = bits(gradients_of(model))
    for p in model.parameters():
        p.grad = None
    refusals = []
    with weft.memory_budget(pool.stats()["allocated"] + (1 << 18)):
        for x in batches:
            with pytest.raises(OutOfMemoryError) as caught:
                add_gradients(x)
            refusals.append(least_budget(caught.value))
        held = sum(p.nbytes for p in model.parameters())  # the first gradients, beside the others
        weft.set_memory_budget(refusals[-1] + held + (1 << 14))
        weft.realize()
    assert refusals == [refusals[0]] * len(batches)
    assert bits(gradients_of(model)) == free


# -- values that derivatives keep from one flush to the next --------------------------------------------------------


def early(model: Any, x: Any) -> list[bytes]:
    """A step that reads its loss before the backward pass; the bits of what it computes."""
    for p in model.parameters():
        p.grad = None
    loss = model(x).square().mean()
    value = loss.item()
    loss.backward()
    return [np.float64(value).tobytes(), *bits([p.grad for p in model.parameters()])]


def test_a_loss_that_is_read_before_backward_costs_no_memory() -> None:
    """In half of what a whole step needs; without a budget more is held than by a step that is one program."""
    model, x = chain()
    free, peak = peak_of(lambda: early(model, x))
    step(model, x)
    _, whole = peak_of(lambda: step(model, x))
    assert whole < peak
    weft.memory_report(reset=True)
    budget = budget_of(0.5, whole)
    with weft.memory_budget(budget):
        for _ in range(4):
            bound, bounded_peak = peak_of(lambda: early(model, x))
            assert bound == free
            assert bounded_peak <= budget


DEEP = (16, 32, 2048)  # layers, width, rows


def deferred_count() -> int:
    """The pending nodes that stay recorded though their flush has run."""
    from weft.engine.ir.tape import tape

    return sum(node.deferred for node in tape().pending())


def graph_in_half(seed: int = 7) -> tuple[Any, Any, Any]:
    """A model, its input, and its loss, read under a budget that defers most of what is saved."""
    weft.manual_seed(seed)
    model, x = chain(*DEEP)
    loss = model(x).square().mean()
    return model, x, loss


def half() -> int:
    """Half of what a step of a deep `chain` needs."""

    def steps() -> None:
        model, x = chain(*DEEP)
        step(model, x)
        step(model, x)

    _, peak = peak_of(steps)
    gc.collect()
    return budget_of(0.5, peak)


def in_budget(budget: int, function: Callable[[Any, Any, Any], Any]) -> tuple[list[bytes], int]:
    """What a function of model, input and loss computes, the loss being read before; how many values were deferred."""
    with weft.memory_budget(budget) if budget else nullcontext():
        model, x, loss = graph_in_half()
        loss.item()
        count = deferred_count()
        return bits(function(model, x, loss)), count


def gradients_of(model: Any) -> list[Any]:
    return [p.grad for p in model.parameters()]


def backward_twice(model: Any, x: Any, loss: Any) -> list[Any]:
    loss.backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    weft.realize(*first)
    loss.backward()
    return [*first, *gradients_of(model)]


def backward_in_parts(model: Any, x: Any, loss: Any) -> list[Any]:
    parameters = list(model.parameters())
    return [
        gradient
        for p in parameters[::5]
        for gradient in weft.autograd.grad(loss, [p], retain_graph=True)
        if gradient.sum().item() is not None
    ]


def writes_between(model: Any, x: Any, loss: Any) -> list[Any]:
    """What a saved value was computed of is written over: the derivative is that of what was there."""
    with weft.no_grad():
        for p in model.parameters():
            if p.ndim == 1:  # biases: nothing has saved them
                p.mul_(0.5)
        x.zero_()
    weft.realize(*model.parameters(), x)
    x.sum().item()
    loss.backward()
    return gradients_of(model)


def reads_between(model: Any, x: Any, loss: Any) -> list[Any]:
    again = model(x)
    seen = [float(again.abs().max().item()), float(loss.item()), float(again.mean().item())]
    del again
    loss.backward()
    return [*gradients_of(model), weft.tensor(seen)]


def other_random_numbers(model: Any, x: Any, loss: Any) -> list[Any]:
    noise = weft.rand(100)
    noise.sum().item()
    loss.backward()
    return [*gradients_of(model), noise, weft.rand(3)]


@pytest.mark.parametrize(
    "function",
    [backward_twice, backward_in_parts, writes_between, reads_between, other_random_numbers],
)
def test_deferred_values_are_computed_as_they_were(function: Any) -> None:
    budget = half()
    free, none = in_budget(0, function)
    bound, some = in_budget(budget, function)
    assert none == 0
    assert some > 0
    assert bound == free


def test_a_budget_that_is_lifted_leaves_deferred_values_readable() -> None:
    budget = half()
    with weft.memory_budget(budget):
        model, x, loss = graph_in_half()
        loss.item()
        assert deferred_count() > 0
    y = weft.ones(3).sum().item()
    assert y == 3
    loss.backward()
    bound = bits(gradients_of(model))
    model, x, loss = graph_in_half()
    loss.backward()
    assert bits(gradients_of(model)) == bound


def test_deferred_values_go_with_their_graph() -> None:
    budget = half()
    with weft.memory_budget(budget):
        model, x, loss = graph_in_half()
        weft.realize(*model.parameters(), x)
        before = pool.stats()["allocated"]
        loss.item()
        assert deferred_count() > 0
        del loss
        gc.collect()
        assert deferred_count() == 0
        assert pool.stats()["allocated"] <= before + (1 << 16)


def test_what_is_pending_stays_pending() -> None:
    """A failure for want of memory loses nothing: with a larger budget the same values come out."""
    x = weft.randn(256, 256)
    y = x
    for _ in range(6):
        y = (y @ x).tanh()
    live = pool.stats()["allocated"]
    with weft.memory_budget(live + 100_000), pytest.raises(OutOfMemoryError):
        y.sum().item()
    z = x
    for _ in range(6):
        z = (z @ x).tanh()
    assert weft.equal(y, z)


@pytest.mark.parametrize(
    "budget", ["2 GBs", "-1", "", "GB", "1e9", "2 GB 3", "0 MB", -1, 0, "1 << 30"]
)
def test_what_is_no_amount_is_refused(budget: Any) -> None:
    with pytest.raises(ValueError, match="memory budget"):
        weft.set_memory_budget(budget)
    assert weft.memory_report().budget is None


@pytest.mark.parametrize("budget", [2.5, True, b"2 GB", ["2 GB"]])
def test_what_is_neither_text_nor_integer_is_refused(budget: Any) -> None:
    with pytest.raises(TypeError, match="memory budget"):
        weft.set_memory_budget(budget)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("2 GB", 2 * 10**9),
        ("512MiB", 512 << 20),
        ("1.5 gb", 1_500_000_000),
        ("4000000000", 4 * 10**9),
    ],
)
def test_amounts(text: str, nbytes: int) -> None:
    with weft.memory_budget(text):
        assert weft.memory_report().budget == nbytes
    assert weft.memory_report().budget is None


def test_a_budget_below_what_is_live_is_refused() -> None:
    kept = weft.ones(1 << 20) * 2
    kept.sum().item()
    with pytest.raises(OutOfMemoryError, match="smaller than what is in use") as caught:
        weft.set_memory_budget(1 << 20)
    assert "float32[1048576]" in str(caught.value)
    assert weft.memory_report().budget is None
    assert kept[0].item() == 2


def test_budgets_nest() -> None:
    with weft.memory_budget("3 GB"):
        with weft.memory_budget("2 GB"):
            assert weft.memory_report().budget == 2 * 10**9
        assert weft.memory_report().budget == 3 * 10**9
        with weft.memory_budget(None):
            assert weft.memory_report().budget is None
    assert weft.memory_report().budget is None


def test_the_environment_sets_it() -> None:
    program = "import weft; print(weft.memory_report().budget)"
    environment = {**os.environ, "WEFT_MEMORY_BUDGET": "3 GB"}
    out = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == str(3 * 10**9)
    environment["WEFT_MEMORY_BUDGET"] = "3 GBs"
    out = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "None"
    assert "WEFT_MEMORY_BUDGET='3 GBs' ignored" in out.stderr


def test_explain_says_what_runs_again(capfd: pytest.CaptureFixture[str]) -> None:
    model, x = chain()
    _, peak = peak_of(lambda: step(model, x))
    with weft.memory_budget(budget_of(0.6, peak)), weft.explaining("memory"):
        step(model, x)
    text = capfd.readouterr().err
    assert "more time by estimate" in text
    assert " again" in text


def test_values_that_hooks_and_functions_hold() -> None:
    """Hooks see, and custom Functions get, the same values."""
    seen: list[bytes] = []

    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    def run_once() -> list[bytes]:
        seen.clear()
        weft.manual_seed(3)
        w = weft.randn(128, 128, requires_grad=True)
        x = weft.randn(256, 128)
        held = []
        for number in range(6):
            x = Cube.apply((x @ w).sin())
            if number % 2:
                x.register_hook(lambda g: seen.append(g.numpy().tobytes()))
            held.append(x[:2])
        parts = x.split(32, dim=1)
        sum(p.mean() * n for n, p in enumerate(parts)).backward()
        return [*bits([w.grad, *held]), *seen]

    free, peak = peak_of(run_once)
    with weft.memory_budget(peak):
        assert run_once() == free


def test_two_walks_over_one_graph() -> None:
    """What a first walk retains is there for the second."""

    def gradients() -> list[bytes]:
        weft.manual_seed(5)
        w = weft.randn(128, 128, requires_grad=True)
        x = weft.randn(256, 128)
        for _ in range(5):
            x = (x @ w).tanh()
        loss = x.square().sum()
        (first,) = weft.autograd.grad(loss, w, create_graph=True)
        first.sum().backward()
        return bits([first, w.grad])

    free, peak = peak_of(gradients)
    with weft.memory_budget(peak):
        assert gradients() == free


def test_numpy_sees_what_is_computed() -> None:
    x = weft.randn(300, 300)
    with weft.memory_budget(pool.stats()["allocated"] + 4_000_000):
        y = x
        for _ in range(12):
            y = (y @ x).sigmoid()
        assert np.isfinite(y.numpy()).all()


# -- spilling ------------------------------------------------------------------------------------------------------


def patched() -> float:
    """Values that are written in parts: what they were before is overwritten, so that they cannot be computed again."""
    weft.manual_seed(0)
    w, x = weft.randn(64, 64) / 8, weft.randn(1024, 64)
    parts = []
    for number in range(8):
        part = (x @ w) * number
        part[:4] = x[:4] + number
        parts.append(part)
        x = (x @ w).tanh()
    del part
    while parts:
        x = x @ w + parts.pop()
    return float(x.sum().item())


def test_what_cannot_be_recomputed_is_spilled(tmp_path: Any) -> None:
    from weft.engine.pipeline.budget import spill_file

    value, peak = peak_of(patched)
    spill_file._said = False
    weft.memory_report(reset=True)
    with weft.memory_budget(budget_of(0.6, peak)), pytest.raises(OutOfMemoryError, match="spill"):
        patched()
    gc.collect()
    with weft.memory_budget(budget_of(0.6, peak), spill=tmp_path):
        with pytest.warns(RuntimeWarning, match="spilling"):
            assert patched() == value
        for _ in range(4):  # said once; known programs spill too
            bound, bounded_peak = peak_of(patched)
            assert bound == value
            assert bounded_peak <= weft.memory_report().budget
        report = weft.memory_report()
    assert sum(count for count, _ in report.spilled.values()) > 0
    assert "spilled:" in str(report)
    assert not os.listdir(tmp_path)


def test_a_spill_folder_has_to_exist(tmp_path: Any) -> None:
    with pytest.raises(OSError, match="a folder that exists"):
        weft.set_memory_budget("1 GB", spill=tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="a folder"):
        weft.set_memory_budget("1 GB", spill=tmp_path / "file")
    assert weft.memory_report().budget is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_spill_folder_has_to_be_writable(tmp_path: Any) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="spill folder"):
        weft.set_memory_budget("1 GB", spill=tmp_path / "locked")


def spilling() -> tuple[float, int]:
    """What `patched` returns, and a budget that makes it spill."""
    value, peak = peak_of(patched)
    return value, budget_of(0.6, peak)


@pytest.mark.filterwarnings("ignore:the memory budget is kept by spilling")
def test_a_full_disk_loses_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from weft.engine.devices.cpu import spill

    value, budget = spilling()

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    spill.close()
    with weft.memory_budget(budget, spill=tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            for _ in range(2):
                with pytest.raises(weft.errors.SpillError, match="No space left"):
                    patched()
        gc.collect()
        assert patched() == value


@pytest.mark.filterwarnings("ignore:the memory budget is kept by spilling")
def test_a_folder_that_vanishes_does_no_harm(tmp_path: Any) -> None:
    """The file has no name, and is there as long as it is open; without a folder for a new one, an error says so."""
    from weft.engine.devices.cpu import spill

    value, budget = spilling()
    folder = tmp_path / "here"
    folder.mkdir()
    with weft.memory_budget(budget, spill=folder):
        assert patched() == value
        folder.rmdir()
        assert patched() == value
        spill.close()
        with pytest.raises(weft.errors.SpillError, match="No such file"):
            patched()
        folder.mkdir()
        gc.collect()
        assert patched() == value


@pytest.mark.filterwarnings("ignore:the memory budget is kept by spilling")
def test_a_failing_transfer_stops_the_program(tmp_path: Any) -> None:
    """A read beyond the end of the file: what is pending stays pending, and runs when the file is whole again."""
    from weft.engine.devices.cpu import spill

    value, budget = spilling()
    with weft.memory_budget(budget, spill=tmp_path):
        assert patched() == value
        spill.break_for_tests()
        with pytest.raises(weft.errors.SpillError, match="still pending"):
            patched()
        spill.close()
        gc.collect()
        assert patched() == value


@pytest.mark.filterwarnings("ignore:the memory budget is kept by spilling")
def test_an_interrupt_while_spilling_loses_nothing(tmp_path: Any) -> None:
    import signal

    value, budget = spilling()
    with weft.memory_budget(budget, spill=tmp_path):
        for delay in (0.0005, 0.002, 0.005):
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, delay)
            try:
                assert patched() == value
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            gc.collect()
            assert patched() == value
    assert not os.listdir(tmp_path)


def interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt
