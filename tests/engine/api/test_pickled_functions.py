"""A public function is pickled by the module and the name under which users find it, and is itself again afterwards."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import weft
from weft import nn
from weft.engine.api.api_function import Public, defined_in

SPACES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "linalg", "special", "fft", "func", "Tensor",
    "nn.Module", "optim.Optimizer", "sparse", "nested", "masked", "signal.windows", "utils.checkpoint", "amp",
    "serialization", "autograd",
)  # fmt: skip
WITHIN = ("weft.ops.", "weft.tensor.arguments")  # what these modules import themselves
NAMES = (
    "FloatTensor",
    "LongTensor",
    "BoolTensor",
    "FloatStorage",
    "LongStorage",
    "cuda.FloatTensor",
)


def found(path: str) -> Any:
    return reduce(getattr, path.split(".") if path else (), weft)


def functions() -> Iterator[tuple[str, Any]]:
    for space in SPACES:
        owner = found(space)
        for name in dir(owner):
            value = None if name.startswith("_") else getattr(owner, name, None)
            if isinstance(value, Public) and not defined_in(value).startswith(WITHIN):
                yield f"{space}.{name}" if space else name, value


FUNCTIONS = dict(functions())


def test_every_public_function_is_itself_after_pickling() -> None:
    wrong = []
    for path, function in FUNCTIONS.items():
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            try:
                same = pickle.loads(pickle.dumps(function, protocol)) is function
            except Exception as error:
                wrong.append(f"{path}: {error}")
                break
            if not same:
                wrong.append(path)
        if copy.deepcopy(function) is not function or copy.copy(function) is not function:
            wrong.append(f"{path}: copied")
    assert not wrong, "\n".join(wrong)
    assert len(FUNCTIONS) > 1500


def test_module_and_qualified_name_lead_back() -> None:
    for path, function in FUNCTIONS.items():
        owner: Any = import_module(function.__module__)
        assert isinstance(owner, ModuleType)
        assert reduce(getattr, function.__qualname__.split("."), owner) is function, path


@pytest.mark.parametrize("name", NAMES)
def test_old_constructors_too(name: str) -> None:
    assert pickle.loads(pickle.dumps(found(name))) is found(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tanh", "weft.tanh"),
        ("nn.functional.gelu", "weft.nn.functional.gelu"),
        ("nn.init.xavier_uniform_", "weft.nn.init.xavier_uniform_"),
        ("Tensor.addcmul_", "weft.Tensor.addcmul_"),
        ("linalg.svd", "weft.linalg.svd"),
    ],
)
def test_names_are_those_that_users_write(path: str, expected: str) -> None:
    function = found(path)
    assert f"{function.__module__}.{function.__qualname__}" == expected


class Chosen(nn.Module):
    """A layer that holds functions, as many programs' do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.act, self.start = weft.tanh, nn.init.xavier_uniform_
        self.table = {"relu": nn.functional.relu, "sigmoid": weft.sigmoid}

    def forward(self, x: Any) -> Any:
        return self.table["relu"](self.act(self.linear(x)))


def test_layers_that_hold_functions_are_pickled_copied_and_saved_whole(tmp_path: Path) -> None:
    layer, x = Chosen(), weft.ones(1, 2)
    weft.save(layer, tmp_path / "layer.pt")
    for again in (
        pickle.loads(pickle.dumps(layer)),
        copy.deepcopy(layer),
        weft.load(tmp_path / "layer.pt", weights_only=False),
    ):
        assert again.act is weft.tanh
        assert again.table == layer.table
        assert again(x).tolist() == layer(x).tolist()


def test_another_process_finds_them(tmp_path: Path) -> None:
    """Where nothing but pickle is imported."""
    chosen = [FUNCTIONS[path] for path in sorted(FUNCTIONS)[::40]]
    file = tmp_path / "functions.pickle"
    file.write_bytes(pickle.dumps(chosen))
    program = f"import pickle; print([f.__name__ for f in pickle.load(open({str(file)!r}, 'rb'))])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([function.__name__ for function in chosen])
