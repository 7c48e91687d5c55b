"""The examples run and learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import weft

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parser() -> ModuleType:
    return load("parser")


def test_statements_are_trees_over_their_tokens(parser: ModuleType) -> None:
    (one,) = parser.statements_of("if x:\n    total = f(a, 2) + 1  # text\n")
    assert one.tokens == ["total", "=", "f", "(", "a", ",", "NUMBER", ")", "+", "NUMBER"]
    assert one.labels == [
        "Name", "Assign", "Name", "Call", "Name", "-", "Constant", "-", "BinOp", "Constant",
    ]  # fmt: skip
    assert one.heads == [1, 10, 3, 8, 3, 3, 3, 3, 1, 8]


def test_the_best_transitions_build_the_tree(parser: ModuleType) -> None:
    for statement in parser.load_statements(300):
        state = parser.State(len(statement.tokens))
        while not state.done():
            kind = state.best(statement.heads)[-1]
            assert state.cost(kind, statement.heads) == 0
            state.step(kind, statement.labels[state.stack[-1]] if state.stack else "")
        assert (state.heads, state.labels) == (statement.heads, statement.labels)


def test_the_parser_learns_and_gives_the_same_on_every_run(
    parser: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = [parser.main(["--epochs", "3", "--statements", "320"]) for _ in range(2)]
    first, second = capsys.readouterr().out.split("280 statements")[1:]
    assert first == second
    assert reached[0] == reached[1] > 0.5  # after 27 steps
    assert "held out" in first and "\n  " in first


def test_statements_parsed_together_are_parsed_as_alone(parser: ModuleType) -> None:
    weft.manual_seed(1)
    statements = parser.load_statements(40)
    labels = sorted({label for statement in statements for label in statement.labels})
    model = parser.Parser(["=", "("], labels)
    trees = weft.map(lambda statement: model(statement)[0], statements)
    for statement, tree in zip(statements, trees, strict=True):
        alone, _ = model(statement)
        assert (alone.heads, alone.labels) == (tree.heads, tree.labels)


def test_the_model_of_lines_learns_from_ragged_batches(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("ragged").main(["--steps", "12"]) < 5.0  # 8 bits at the start
    assert "held out" in capsys.readouterr().out


def test_a_model_with_a_solver_of_scipy_finds_the_heat(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("heat").main([]) == [14, 41]
    assert "gradcheck: True" in capsys.readouterr().out
