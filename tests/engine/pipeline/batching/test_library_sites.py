"""Which operations of separate examples are likened does not depend on the library's source: not on its lines, not on
how many of its functions a call goes through, so not on which modules are compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import weft
from weft import nn
from weft.engine.pipeline.batching import batch

PROGRAM = """
import weft
from weft import nn
from weft.engine.pipeline.batching import batch
from weft.nn import functional as F

weft.manual_seed(0)
rows = [weft.randn(n, 6, requires_grad=True) for n in (2, 4, 3, 5, 4, 2)]
cell, layer, linear = nn.LSTMCell(6, 4), nn.LSTM(6, 4, bidirectional=True), nn.Linear(6, 16)

def by_hand(x):
    h = c = weft.zeros(4)
    for row in x:
        i, f, g, o = linear(row).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh() + h
    return h

def of_cells(x):
    state = weft.zeros(4), weft.zeros(4)
    for row in x:
        state = cell(row, state)
    return state[0]

def losses(x):
    return F.smooth_l1_loss(x[0], x[1]) + F.gelu(x[0]).std() + (x[0].softmax(0) * x[1].log_softmax(0)).sum()

def show(notes, quotients):
    print(sorted(f"{node.op.name} {list(node.shape)}" for node in quotients if node is not None))

batch.watch(show)
def distances(x):
    return F.triplet_margin_loss(x[:1], x[1:2], x[:1] * 2, swap=True)

for example in (by_hand, of_cells, lambda x: layer(x)[0], losses, distances):
    sum(example(x).square().sum() for x in 5 * rows).backward()
    weft.realize()
"""

# Each function of some interpreted modules begins some lines further down, and its body is another function that it
# calls, so that a frame more lies between the user's line and what it records.
MOVED = """
import ast, importlib.machinery, sys

class Mover(ast.NodeTransformer):
    def visit_FunctionDef(self, function):
        if function.name.startswith("__") or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(function)):
            return function
        own = function.args
        inner = ast.FunctionDef("moved", ast.parse("def _(): 0").body[0].args, function.body, [])
        inner.args.posonlyargs, inner.args.kwonlyargs = own.posonlyargs + own.args, own.kwonlyargs
        inner.args.kw_defaults = [None] * len(own.kwonlyargs)
        inner.args.vararg, inner.args.kwarg = own.vararg, own.kwarg
        given = [one.arg for one in own.posonlyargs + own.args]
        given += [f"*{own.vararg.arg}"] if own.vararg else []
        given += [f"{one.arg}={one.arg}" for one in own.kwonlyargs]
        given += [f"**{own.kwarg.arg}"] if own.kwarg else []
        function.body = [inner, *ast.parse(f"def _(): return moved({', '.join(given)})").body[0].body]
        return function

    def visit_ClassDef(self, cls):
        return cls

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        tree = ast.parse(self.get_data(self.path))
        if name.startswith(("weft.ops.elementwise.", "weft.nn.functional.", "weft.nn.recurrent.")):
            tree = Mover().visit(tree)
        ast.increment_lineno(ast.fix_missing_locations(tree), 1000)
        return compile(tree, self.path, "exec")

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if spec is not None and name.startswith("weft.") and spec.origin and spec.origin.endswith(".py"):
            spec.loader = Loader(name, spec.origin)
        return spec

sys.meta_path.insert(0, Finder)
"""


def groups_of(program: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_groups_do_not_depend_on_where_the_library_records() -> None:
    groups = groups_of(PROGRAM)
    assert "linear_bias [30, 16]" in groups and "lstm_memory [30, 4]" in groups
    assert groups_of(MOVED + PROGRAM) == groups


COMPILED = """
import importlib.machinery, importlib.util, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "weft.nn.functional.losses.margin":
            return importlib.util.spec_from_file_location(name, {path!r})

sys.meta_path.insert(0, Finder)
"""


def test_groups_do_not_depend_on_which_modules_are_compiled(tmp_path: Path) -> None:
    """Of a module with a function that calls another one three times."""
    compiler = pytest.importorskip("Cython.Compiler.Main")
    if shutil.which("gcc") is None:
        pytest.skip("there is no compiler")
    source = Path(weft.__file__).parent / "nn" / "functional" / "losses" / "margin.py"
    made, library = tmp_path / "margin.c", tmp_path / "margin.so"
    options = compiler.CompilationOptions(
        output_file=str(made), compiler_directives={"language_level": 3}
    )
    name = "weft.nn.functional.losses.margin"
    assert compiler.compile_single(str(source), options, full_module_name=name).num_errors == 0
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(
        ["gcc", "-O0", "-w", "-shared", "-fPIC", include, str(made), "-o", str(library)], check=True
    )
    assert groups_of(COMPILED.format(path=str(library)) + PROGRAM) == groups_of(PROGRAM)


class Residual(nn.Module):
    """A module of the user's, whose own lines tell its operations apart, inside a module of the library's."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(4, 4), 0

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        self.calls += 1
        for _ in range(1 + self.calls % 2):  # not as often for each example
            x = x + self.inner(x).tanh()
        return x


def sizes_of_groups(model: nn.Module, examples: list[weft.Tensor]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    def watch(notes: list[object], made: list[object]) -> None:
        found.extend((node.op.name, node.shape[0]) for node in made if node is not None)

    weft.realize(*model.parameters(), *examples)
    previous = batch.watch(watch)
    try:
        weft.realize(weft.stack([model(x) for x in examples]))
    finally:
        batch.watch(previous)
    return found


def test_user_code_inside_a_library_call_does_not_count() -> None:
    weft.manual_seed(0)
    model = nn.Sequential(Residual(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
    found = sizes_of_groups(model, [weft.randn(4) for _ in range(24)])
    assert ("tanh", 24) in found and ("linear_bias", 24) in found
    assert found.count(("linear_bias", 24)) == 3  # the first round of `inner`, and the two layers


def test_operations_of_one_library_call_do_not_join_each_other() -> None:
    cell = nn.GRUCell(4, 4)
    examples = [weft.randn(4) for _ in range(12)]
    one = sizes_of_groups(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), examples)
    assert [size for name, size in one if name == "linear_bias"] == [12, 12]
    assert [size for name, size in sizes_of_groups(cell, examples) if name == "gru"] == [12]
