"""What a board records of a run: graphs, numbers, memory; and that the program is left as it is."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from runs import Recurrent, faulty_run, recorded, recurrent_run, tree_run

import weft
from weft import nn
from weft.autograd.backward import before_walk
from weft.board import graph as graphs
from weft.optim import stepping


def part(board: Any, name: str) -> Any:
    """A part of a run."""
    return json.loads(board.run.get(name))


def test_a_graph_has_modules_operations_lines_stacks_and_values() -> None:
    board = recurrent_run()
    graph = part(board, "graph/1")
    nodes = graph["nodes"]
    names = [graph["operations"][op] for op in nodes["op"]]
    assert {"cell.new.weight", "linear_bias", "tanh"} <= set(names)
    tanh = names.index("tanh")
    scope = graph["scopes"][nodes["scope"][tanh]]
    assert (scope["name"], scope["class"]) == ("cell", "Cell")
    assert graph["scopes"][scope["parent"]]["class"] == "Recurrent"
    file, _, function = graph["lines"][nodes["line"][tanh]]
    assert part(board, "sources")["files"][file]["name"].endswith("runs.py")
    assert function == "forward"
    assert graph["types"][nodes["type"][tanh]] == "float32[4]"
    assert nodes["stack"][tanh] >= 0
    row = graph["values"]["node"].index(tanh)
    assert -1 <= graph["values"]["low"][row] <= graph["values"]["high"][row] <= 1


def test_steps_have_losses_norms_and_activations() -> None:
    board = recurrent_run(steps=4)
    steps = part(board, "steps")
    assert steps["step"] == [0, 1, 2, 3]
    columns = steps["columns"]
    assert all(isinstance(loss, float) for loss in columns["scalars"]["loss"])
    assert (
        set(columns["gradient"])
        == set(columns["weight"])
        == set(dict(Recurrent().named_parameters()))
    )
    assert columns["activation"]["cell"][-1] > 0


def test_planted_faults_are_found() -> None:
    board = faulty_run()
    steps, memory = part(board, "steps"), part(board, "memory")
    assert steps["columns"]["dead"]["0.weight"][-2] == 1
    assert steps["columns"]["scalars"]["loss"][-1] == "nan"
    (leak,) = memory["leaks"]
    assert leak["line"].startswith("runs.py:") and leak["holders"] == [
        "a list of 14, kept in faulty_run"
    ]
    graph = part(board, "graph/13")
    bad = [
        graph["operations"][graph["nodes"]["op"][node]]
        for node, count in zip(graph["values"]["node"], graph["values"]["bad"], strict=True)
        if count
    ]
    assert bad[0] == "log"


def test_watching_changes_no_bit() -> None:
    def losses(watched: bool) -> list[float]:
        weft.manual_seed(0)
        model, found = Recurrent(), []
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        board = weft.board.start(model, serve=False, share=1) if watched else None
        for _ in range(3):
            optimizer.zero_grad()
            loss = weft.stack([model([weft.randn(4)] * n) for n in (2, 3, 3)]).square().sum()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        if board is not None:
            board.close()
        return found + [number for p in model.parameters() for number in p.flatten().tolist()]

    assert losses(True) == losses(False)


def _trees(model: nn.Module, inputs: list[weft.Tensor], outputs: list[weft.Tensor]) -> weft.Tensor:
    """A loss of sequences of several lengths, which batch; what the cells give is put into a list."""

    def sequence(length: int) -> weft.Tensor:
        h = weft.zeros(4)
        for x in inputs[:length]:
            h = model.cell(x, h)
            outputs.append(h)
        return model.out(h)

    return weft.stack([sequence(n) for n in (2, 3, 3, 5, 1)]).square().mean()


def test_the_size_of_the_gradient_stands_at_each_operation() -> None:
    """In a walk of batches, and in one of single operations."""
    inputs = [weft.randn(4) for _ in range(5)]
    for batch in (True, False):
        weft.config.config.batch = batch
        try:
            model = Recurrent()
            outputs: list[weft.Tensor] = []
            wanted = weft.autograd.grad(_trees(model, inputs, outputs), outputs)
            board = recorded(model, lambda step, m=model: _trees(m, inputs, []), 1)
        finally:
            weft.config.config.batch = True
        graph = part(board, "graph/0")
        operations, values = graph["operations"], graph["values"]
        norms = [
            norm
            for node, norm in zip(values["node"], values["gradient"], strict=True)
            if operations[graph["nodes"]["op"][node]] == "tanh"
        ]
        assert len(norms) == len(outputs)
        assert norms == pytest.approx([gradient.norm().item() for gradient in wanted], rel=1e-4)


def test_arrays_are_described_together_as_alone() -> None:
    from weft.board import statistics

    arrays = [np.random.default_rng(n).normal(size=7).astype(np.float32) for n in range(5)]
    arrays[1][2], arrays[3][:] = np.nan, np.inf
    arrays += [np.arange(7), np.arange(7) * 0, np.zeros(0, np.float32), np.ones(9000, np.float32)]
    for array, row in zip(arrays, statistics.describe_all(arrays), strict=True):
        for mine, wanted in zip(row, statistics.describe(array), strict=True):
            assert mine == wanted if wanted is None else mine == pytest.approx(wanted, rel=1e-5)


def test_a_board_that_has_stopped_leaves_nothing_behind() -> None:
    before = len(before_walk), len(stepping.after_step)
    recurrent_run(steps=1)
    assert (len(before_walk), len(stepping.after_step)) == before
    assert nn.Module._hooks is None


def test_models_that_are_called_are_found() -> None:
    model = Recurrent()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    with weft.board(serve=False, share=1) as board:
        model([weft.ones(4)]).sum().backward()
        optimizer.step()
    assert board.models == [model]
    assert part(board, "steps")["columns"]["gradient"]["out.bias"] == [1.0]
    assert part(board, "steps")["columns"]["scalars"]["loss"][0] is not None


def test_a_graph_that_is_too_large_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_RECORDS", 20)
    board = recurrent_run(steps=1)
    graph = part(board, "graph/0")
    assert graph["counted"] and graph["records"] > 20
    sizes = dict(
        zip(
            (graph["operations"][op] for op in graph["nodes"]["op"]),
            graph["nodes"]["size"],
            strict=True,
        )
    )
    assert sizes["tanh"] == 2 + 3 + 4 + 2 + 3


def test_values_that_a_full_recorder_has_run_past_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where so much is recorded that it runs before the backward, what nobody wanted has no value to show: reading it
    would run the step again, value by value."""
    from weft.engine.frontend.recorder import set_budget
    from weft.engine.frontend.resolve import value_of

    states: list[int] = []
    read = graphs.ObservedStep._values

    def values(look: graphs.ObservedStep) -> Any:
        states.extend(value_of(tensor).state for tensor in look.held.values())
        return read(look)

    monkeypatch.setattr(graphs.ObservedStep, "_values", values)
    before = set_budget(1000, 1 << 40)
    try:
        board = tree_run(steps=1)
    finally:
        set_budget(*before)
    assert part(board, "graph/0")["records"] > 2000
    assert set(states) == {graphs.DONE}


def test_of_a_large_tensor_a_sample_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.board import statistics

    monkeypatch.setattr(statistics, "MOST_ELEMENTS", 10)
    assert statistics.array_of(weft.arange(95.0)).tolist() == [float(10 * n) for n in range(10)]


def test_a_failure_of_the_board_does_not_stop_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("weft.board.recording.layer_numbers", fail)
    model = nn.Linear(2, 1)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        recorded(model, lambda step: model(weft.ones(2)).sum(), 2)
    words = [str(warning.message) for warning in met]
    assert words == ["weft.board stopped watching: ZeroDivisionError: planted"]


def test_wrong_arguments_are_refused() -> None:
    for options in ({"every": 0}, {"share": 2}, {"model": 3}):
        with pytest.raises(ValueError, match="weft.board"):
            weft.board(serve=False, **options)
    with weft.board(serve=False) as board:
        with pytest.raises(ValueError, match="loss is not one number"):
            board.step(loss=weft.ones(2))
        with pytest.raises(RuntimeError, match="watching already"):
            weft.board.start(serve=False)
        board.step(loss=1)
    assert part(board, "steps")["columns"]["scalars"]["loss"][-1] == 1.0


def test_ten_gigabytes_are_not_copied_to_be_looked_at() -> None:
    """An expanded tensor of 10 GB has statistics of a sample."""
    import resource

    from weft.board import statistics

    huge = weft.rand(50_000, 1).expand(50_000, 50_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = statistics.array_of(huge)
    assert 1000 < found.size <= statistics.MOST_ELEMENTS
    assert 0 <= found.min() < 0.01 and 0.99 < found.max() < 1
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20
    )  # kB: a tenth of it
    x = weft.rand(8, requires_grad=True)
    board = weft.board.start(serve=False, share=1)
    (x.sum() * huge[:1, :1].sum()).backward()
    board.step()
    board.close()
    assert part(board, "run")["graphs"]


@pytest.mark.slow
def test_a_graph_of_very_many_records_is_counted_where_it_is_read() -> None:
    x = weft.rand(2, requires_grad=True)
    with weft.board(serve=False, share=1) as board:
        y = x
        for _ in range(300_000):
            y = y * 1.0
        y.sum().backward()
        board.step(loss=0.0)
    graph = part(board, "graph/0")
    assert graph["counted"] and graph["records"] > 300_000 and len(graph["nodes"]["op"]) < 10


def test_a_step_is_timed_by_thread_kernel_and_line() -> None:
    board = recurrent_run(steps=3)
    times = part(board, "run")["times"]
    assert [entry["step"] for entry in times] == [0, 1, 2]
    document = part(board, f"time/{times[-1]['id']}")
    events = document["events"]
    kinds = [document["kinds"][kind] for kind in events["kind"]]
    assert {"module", "flush", "walk", "operation"} <= set(kinds)
    names = [document["names"][name] for name in events["name"]]
    lines = {events["line"][number] for number, name in enumerate(names) if name == "aten::tanh"}
    places = {
        (part(board, "sources")["files"][file]["name"].rpartition("/")[2], function)
        for file, _, function in (document["lines"][line] for line in lines)
    }
    assert ("runs.py", "Cell.forward") in places
    assert "nn.Module: cell.new" in names
    for number, parent in enumerate(events["parent"]):
        if parent >= 0:
            assert events["begin"][parent] <= events["begin"][number]
            assert events["end"][number] <= events["end"][parent]


def test_of_too_many_events_the_shortest_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.board import timing

    monkeypatch.setattr(timing, "MOST_EVENTS", 40)
    board = recurrent_run(steps=1)
    document = part(board, "time/0")
    count = len(document["events"]["name"])
    assert document["left_out"] > 0 and count >= 40
    assert all(-1 <= parent < number for number, parent in enumerate(document["events"]["parent"]))


def test_a_profile_of_the_programs_own_is_shown() -> None:
    board = recurrent_run(steps=1)
    with weft.profiler.profile() as watched:
        weft.rand(3).exp().sum().item()
    board.add_profile(watched, "mine")
    entry = part(board, "run")["times"][-1]
    assert entry["title"] == "mine"
    assert "aten::exp" in part(board, f"time/{entry['id']}")["names"]
