"""What a board records of a run: graphs, numbers, memory; and that the program is left as it is."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from runs import Recurrent, faulty_run, recorded, recurrent_run

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
        return found

    assert losses(True) == losses(False)


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
