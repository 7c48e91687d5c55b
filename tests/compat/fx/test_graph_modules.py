"""Modules that are written from graphs, beside PyTorch: code, parameters, copies, pickles, submodules."""

from __future__ import annotations

import copy
import importlib.util
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from traced_programs import PROGRAMS, filled, numbers

import weft
from oracle import both, submodule
from weft import fx


def tracing(lib: Any) -> Any:
    return submodule(f"{lib.__name__}.fx")


def traced_block(lib: Any) -> tuple[Any, Any]:
    program, inputs = PROGRAMS["residual_block"](lib)
    return tracing(lib).symbolic_trace(program), inputs


@both
def test_members_are_those_of_the_module(lib: Any) -> None:
    program, _ = PROGRAMS["residual_block"](lib)
    traced = tracing(lib).symbolic_trace(program)
    ours, theirs = traced.state_dict(), program.state_dict()
    assert set(ours) == set(theirs)
    assert all(
        traced.get_parameter(name) is parameter for name, parameter in program.named_parameters()
    )
    assert not traced.training and type(traced).__name__ == "Block"
    assert isinstance(traced, tracing(lib).GraphModule) and isinstance(traced, lib.nn.Module)
    traced.train()
    assert program.first.training and traced.first is program.first


@both
def test_training_goes_on(lib: Any) -> None:
    traced, inputs = traced_block(lib)
    optimizer = lib.optim.SGD(traced.parameters(), 0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = traced(*inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


@pytest.mark.parametrize("how", ["deepcopy", "copy", "pickle", "save"])
def test_copies_do_the_same(how: str) -> None:
    traced, inputs = traced_block(weft)
    traced.meta["note"] = 3
    if how == "deepcopy":
        copied = copy.deepcopy(traced)
    elif how == "copy":
        copied = copy.copy(traced)
    elif how == "pickle":
        copied = pickle.loads(pickle.dumps(traced))
    else:
        file = io.BytesIO()
        weft.save(traced, file)
        file.seek(0)
        copied = weft.load(file, weights_only=False)
    assert weft.equal(copied(*inputs), traced(*inputs))
    assert copied.code == traced.code and type(copied).__name__ == type(traced).__name__
    assert isinstance(copied, fx.GraphModule) and type(copied) is not type(traced)
    assert [node.name for node in copied.graph.nodes] == [node.name for node in traced.graph.nodes]
    if how != "copy":
        assert copied.graph.owning_module is copied and traced.graph.owning_module is traced
        assert copied.first.weight is not traced.first.weight


def test_copies_keep_the_class_and_what_it_holds() -> None:
    class Own(fx.GraphModule):
        def __init__(self, root: Any, graph: Any) -> None:
            super().__init__(root, graph)
            self.extra = 5

    program, _ = PROGRAMS["perceptron"](weft)
    made = Own(program, fx.Tracer().trace(program))
    copied = copy.deepcopy(made)
    assert isinstance(copied, Own) and copied.extra == 5
    assert [kind.__name__ for kind in type(copied).__mro__].count("GraphModuleImpl") <= 1


@both
def test_a_change_is_there_when_the_code_is_written_again(lib: Any) -> None:
    traced = tracing(lib).symbolic_trace(lambda x: x + 1)
    other = tracing(lib).symbolic_trace(lambda x: x + 1)
    for node in traced.graph.nodes:
        if node.op == "call_function":
            node.args = (node.args[0], 10)
    assert traced(1) == 2
    traced.recompile()
    assert traced(1) == 11 and other(1) == 2
    traced.graph = other.graph
    assert traced(1) == 2


@both
def test_submodules_by_path(lib: Any) -> None:
    traced, _ = traced_block(lib)
    assert traced.add_submodule("a.b.c", lib.nn.ReLU())
    assert isinstance(traced.get_submodule("a.b.c"), lib.nn.ReLU)
    assert not traced.add_submodule("scale.inner", lib.nn.ReLU())
    assert traced.delete_submodule("a.b.c") and not traced.delete_submodule("a.b.c")
    assert not traced.delete_submodule("a.x.c")
    before = {name for name, _ in traced.named_modules()}
    traced.delete_all_unused_submodules()
    assert before - {name for name, _ in traced.named_modules()} == {"a", "a.b"}
    traced.graph.lint()


@both
def test_a_dictionary_as_root(lib: Any) -> None:
    module = tracing(lib)
    graph = module.Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("layers.weight")
    graph.output(graph.call_module("layers.act", (graph.call_function(lib.mul, (x, weight)),)))
    given = {"layers.weight": lib.ones(2) * 3, "layers.act": lib.nn.ReLU()}
    made = module.GraphModule(given, graph, "Named")
    assert made(lib.tensor([1.0, -1.0])).tolist() == [3.0, 0.0]
    assert type(made).__name__ == "Named" and list(made.state_dict()) == ["layers.weight"]


def test_errors_point_to_the_written_line() -> None:
    traced = fx.symbolic_trace(lambda x: x.relu().nonexistent())
    with pytest.raises(AttributeError) as caught:
        traced(weft.ones(2))
    (note,) = caught.value.__notes__
    assert "Call using an FX-traced Module, line" in note and note.endswith(
        "relu.nonexistent();  relu = None"
    )


def test_printed_forms() -> None:
    traced = fx.symbolic_trace(weft.nn.Sequential(weft.nn.ReLU()))
    assert str(traced).startswith("Sequential(\n  (0): ReLU()\n)\n")
    assert str(traced).endswith(
        "# To see more debug info, please use `graph_module.print_readable()`"
    )
    assert traced.print_readable(print_output=False).splitlines()[:2] == [
        "class Sequential(weft.nn.Module):", "    def forward(self, input):",
    ]  # fmt: skip


def test_a_folder_of_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced, inputs = traced_block(weft)
    traced.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = importlib.util.find_spec("written")
    assert found is not None
    module = importlib.import_module("written")
    assert weft.equal(module.Written()(*inputs), traced(*inputs))
    del sys.modules["written"]


@both
def test_constants_of_functions_become_buffers(lib: Any) -> None:
    weight = numbers(lib, 3)
    traced = tracing(lib).symbolic_trace(lambda x: x * weight)
    assert list(traced.state_dict()) == ["_tensor_constant0"]
    assert lib.equal(traced._tensor_constant0, weight)


@both
def test_hooks_see_changes(lib: Any) -> None:
    traced = tracing(lib).symbolic_trace(lambda x: lib.relu(x) + 1)
    seen: list[str] = []
    traced._register_create_node_hook(lambda node: seen.append(f"made {node.name}"))
    traced._register_erase_node_hook(lambda node: seen.append(f"erased {node.name}"))
    (relu,) = traced.graph.find_nodes(op="call_function", target=lib.relu)
    with traced._set_replace_hook(
        lambda old, new, user: seen.append(f"{user} has {new} for {old}")
    ):
        with traced.graph.inserting_after(relu):
            new = traced.graph.call_function(lib.exp, relu.args)
        relu.replace_all_uses_with(new)
    traced.graph.erase_node(relu)
    assert seen == ["made exp", "add has exp for relu", "erased relu"]


@both
def test_a_graph_module_is_traced_again(lib: Any) -> None:
    module = tracing(lib)
    inner = module.symbolic_trace(filled(lib.nn.Sequential(lib.nn.Linear(2, 2)), lib))
    outer = module.symbolic_trace(lib.nn.Sequential(inner, lib.nn.ReLU()))
    assert [node.target for node in outer.graph.find_nodes(op="call_module", target="0.0")] == [
        "0.0"
    ]
    x = numbers(lib, 1, 2)
    assert lib.equal(outer(x), inner(x).relu())
