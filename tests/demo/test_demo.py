"""The main job: real input, a model that learns from it, a command that shows what happened."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from oracle import torch
from weft.demo import cli
from weft.demo.model import TreeLSTM
from weft.demo.syntax_trees import (
    LARGEST,
    SMALLEST,
    UNKNOWN,
    Dataset,
    Tree,
    find_function,
    functions_in,
    labels_of,
    load_functions,
    make_tree,
    split_by_file,
)
from weft.demo.train import Settings, Trainer, measure

SOURCE = """
class Greeter:
    def hello(self, name="you"):
        return 1 + len(name)

async def outer():
    def inner(x): pass
"""


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_functions()


def test_functions_are_found_with_their_qualified_names() -> None:
    found = dict(functions_in(ast.parse(SOURCE)))
    assert list(found) == ["Greeter.hello", "outer", "outer.inner"]
    tree = found["Greeter.hello"]
    assert tree.label == "FunctionDef"
    labels = list(labels_of(tree))
    assert {"arg:self", "arg:name", "Constant:str", "Constant:int", "Name:len"} <= set(labels)
    assert len(labels) == tree.size()
    assert not any(label.startswith(("Load", "Store")) for label in labels)


def test_deep_trees_are_cut() -> None:
    deep = ast.parse("-" * 90 + "1").body[0]
    tree, depth = make_tree(deep), 0
    while tree.children:
        tree, depth = tree.children[0], depth + 1
    assert depth < 60


def test_the_data_set_is_the_same_every_time_and_split_by_file(data: Dataset) -> None:
    assert load_functions() == data
    assert len(data.packages) == 10
    for functions in (data.train, data.held_out):
        assert {f.package for f in functions} == set(data.packages)
        assert all(SMALLEST <= f.tree.size() <= LARGEST for f in functions)
    assert not {f.file for f in data.train} & {f.file for f in data.held_out}
    assert not {f.tree for f in data.train} & {f.tree for f in data.held_out}
    assert len(data.train) > 2000 and len(data.held_out) > 500
    assert 0.1 < data.majority_baseline() < 0.3


def test_whole_files_are_held_out(data: Dataset) -> None:
    train, held_out = split_by_file(data.train)
    assert 0.1 * len(data.train) < len(held_out) <= 0.25 * len(data.train)
    assert len(train) + len(held_out) == len(data.train)


def test_a_library_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="install the full standard library"):
        load_functions(tmp_path)


def test_a_function_is_named_by_file_and_name(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(SOURCE)
    assert find_function(f"{file}:hello").name == "Greeter.hello"
    assert find_function(f"{file}:outer.inner").tree.label == "FunctionDef"
    with pytest.raises(ValueError, match="no function 'absent'.*it has: Greeter.hello, outer"):
        find_function(f"{file}:absent")
    with pytest.raises(ValueError, match="expected file.py:function"):
        find_function("outer")
    with pytest.raises(FileNotFoundError):
        find_function(f"{tmp_path / 'none.py'}:f")
    file.write_text("def broken(:")
    with pytest.raises(ValueError, match="is not Python source"):
        find_function(f"{file}:f")


def test_unknown_labels_count_as_their_kind() -> None:
    model = TreeLSTM([UNKNOWN, "Name", "Name:x"], 2, width=4).eval()
    known, unknown = model(Tree("Name")), model(Tree("Name:never"))
    assert weft.equal(known, unknown)
    assert not weft.equal(known, model(Tree("Name:x")))
    assert weft.equal(model(Tree("Strange")), model(Tree(UNKNOWN)))


def test_the_model_agrees_with_the_same_recursion_in_pytorch(data: Dataset) -> None:
    weft.manual_seed(0)
    model = TreeLSTM(data.vocabulary(), 10, width=8).eval()
    weights = {
        name: torch.tensor(value.numpy(), requires_grad=True)
        for name, value in model.state_dict().items()
    }
    numbers = {label: i for i, label in enumerate(data.vocabulary())}

    def encode(tree: Tree):
        label = tree.label if tree.label in numbers else tree.label.partition(":")[0]
        i, o, u, f = weights["gates_of_label.weight"][numbers[label]].split(8)
        cell = 0
        for child in tree.children:
            hidden, child_cell = encode(child)
            told = weights["gates_of_child.weight"] @ hidden + weights["gates_of_child.bias"]
            i, o, u = i + told[:8], o + told[8:16], u + told[16:24]
            cell = cell + torch.sigmoid(f + told[24:]) * child_cell
        cell = cell + torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    functions = data.train[::300]
    total, expected = weft.zeros(()), torch.zeros(())
    for function in functions:
        scores = model(function.tree)
        reference = weights["classify.weight"] @ encode(function.tree)[0] + weights["classify.bias"]
        np.testing.assert_allclose(
            scores.detach().numpy(), reference.detach().numpy(), rtol=1e-4, atol=1e-5
        )
        total, expected = total + scores.square().sum(), expected + reference.square().sum()
    total.backward()
    expected.backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), weights[name].grad.numpy(), rtol=1e-3, atol=1e-4
        )


def small(data: Dataset, each: int) -> Dataset:
    """The smallest functions of each package, on both sides."""
    picked = []
    for package in data.packages:
        members = [f for f in data.train if f.package == package]
        picked += sorted(members, key=lambda f: f.tree.size())[:each]
    return Dataset(data.packages, tuple(picked), tuple(picked))


def test_a_small_set_is_learnt_and_every_run_gives_the_same_numbers(data: Dataset) -> None:
    few = small(data, 5)
    settings = Settings(epochs=10, width=32, trees_per_step=10, lr=2e-2, weight_decay=0.0)
    reports = []
    for _ in range(2):
        trainer = Trainer(few, settings)
        reports.append([(e.loss, e.accuracy, e.held_out) for e in trainer.run()])
    assert reports[0] == reports[1]
    assert reports[0][-1][0] < 0.9 * reports[0][0][0]
    assert measure(trainer.model, few) > few.majority_baseline()


def test_a_saved_model_gives_the_same_scores(data: Dataset, tmp_path: Path) -> None:
    few = small(data, 3)
    model = TreeLSTM(few.vocabulary(), 10, width=8).eval()
    cli.save_model(model, few, tmp_path / "model.safetensors")
    loaded, packages = cli.load_model(tmp_path / "model.safetensors")
    assert packages == list(few.packages)
    for function in few.train[:5]:
        assert weft.equal(model(function.tree), loaded(function.tree))


@pytest.mark.slow
def test_the_command_from_end_to_end(tmp_path: Path) -> None:
    source = tmp_path / "some.py"
    source.write_text(SOURCE)
    command = [
        sys.executable, "-m", "weft", "demo", "--short", "--epochs", "1", "--width", "16",
        "--out", str(tmp_path), "--file", f"{source}:hello",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    for expected in ("majority baseline", "held-out accuracy", "Greeter.hello", "looks like"):
        assert expected in result.stdout
    assert "Sigmoid" in result.stdout or "sigmoid" in result.stdout  # the recorded graph
    drawing = (tmp_path / cli.DRAWING_FILE).read_text()
    assert drawing.lstrip().startswith(("<svg", "<?xml"))
    again = subprocess.run(
        [*command[:4], "--model", str(tmp_path / cli.MODEL_FILE), "--file", f"{source}:hello"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert again.stdout.splitlines()[-3:] == result.stdout.splitlines()[-3:]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--file", "absent.py:f"], "No such file"),
        (["--file", "nothing"], "expected file.py:function"),
        (["--model", "absent.safetensors"], "No such file"),
    ],
)
def test_wrong_arguments_end_with_a_message(arguments: list[str], text: str, capsys) -> None:
    assert cli.main(["demo", *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_said_before_training(tmp_path: Path, capsys) -> None:
    (tmp_path / "taken").write_text("")
    assert cli.main(["demo", "--short", "--out", str(tmp_path / "taken" / "out")]) == 1
    said = capsys.readouterr()
    assert "taken" in said.err
    assert not said.out


def test_a_damaged_model_ends_with_a_message(tmp_path: Path, capsys) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"not a model at all")
    assert cli.main(["demo", "--model", str(file)]) == 1
    assert "fix" in capsys.readouterr().err
