"""Graphs and their nodes beside PyTorch: inserted, erased, copied, checked, printed."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import pytest

import weft
from oracle import both, submodule, torch
from weft import fx


def tracing(lib: Any) -> Any:
    return submodule(f"{lib.__name__}.fx")


def small(lib: Any) -> Any:
    """relu(x) + y."""
    return tracing(lib).symbolic_trace(lambda x, y: lib.relu(x) + y)


def names(graph: Any) -> list[str]:
    return [node.name for node in graph.nodes]


def message(call: Any) -> tuple[list[type], str]:
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011 - what it is, PyTorch says
        call()
    standard = [kind for kind in type(caught.value).__mro__ if kind.__module__ == "builtins"]
    return standard, str(caught.value)


REFUSED = {
    "erasing what is used": lambda lib, g: g.graph.erase_node(list(g.graph.nodes)[2]),
    "an unknown kind": lambda lib, g: g.graph.create_node("foo", "x"),
    "a method as a function": lambda lib, g: g.graph.call_function("relu"),
    "arguments in a list": lambda lib, g: g.graph.create_node("call_method", "relu", [1]),
    "a module that is not there": lambda lib, g: g.graph.call_module("nope"),
    "a node of another graph": lambda lib, g: g.graph.inserting_before(
        list(small(lib).graph.nodes)[0]
    ),
    "behind a node of another graph": lambda lib, g: g.graph.inserting_after(
        list(small(lib).graph.nodes)[0]
    ),
    "moving to another graph": lambda lib, g: list(g.graph.nodes)[0].prepend(
        list(small(lib).graph.nodes)[0]
    ),
    "an argument at no place": lambda lib, g: list(g.graph.nodes)[3].insert_arg(5, 1),
    "a graph that is none": lambda lib, g: setattr(g, "graph", 3),
    "a root that is none": lambda lib, g: tracing(lib).GraphModule(1, g.graph),
    "functions without a target": lambda lib, g: g.graph.find_nodes(op="call_function"),
    "no output": lambda lib, g: tracing(lib).Graph().output_node(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_pytorchs(name: str) -> None:
    kinds, said = message(lambda: REFUSED[name](weft, small(weft)))
    theirs, text = message(lambda: REFUSED[name](torch, small(torch)))
    assert theirs[0] in kinds
    assert said.startswith(text.replace("torch.relu", "weft.relu"))


@both
def test_lint_names_what_is_wrong(lib: Any) -> None:
    module = tracing(lib)
    ours, other = module.Graph(), module.Graph()
    a = ours.placeholder("a")
    ours.call_function(operator.add, (a, other.placeholder("x")))
    with pytest.raises(
        RuntimeError, match="Argument 'x' of Node 'add' does not belong to this Graph"
    ):
        ours.lint()
    turned = module.Graph()
    a = turned.placeholder("a")
    turned.call_function(operator.add, (a, a)).append(a)
    with pytest.raises(
        RuntimeError, match="Argument 'a' of Node 'add' was used before it has been defined!"
    ):
        turned.lint()
    traced = small(lib)
    with pytest.warns(UserWarning, match="no underlying reference in the owning GraphModule"):
        traced.graph.get_attr("nope")
    with pytest.raises(
        RuntimeError, match="Node nope target nope references nonexistent attribute nope of"
    ):
        traced.graph.lint()
    with pytest.raises(RuntimeError, match="that target was not provided in ``root``!"):
        module.GraphModule({}, traced.graph)


@both
def test_nodes_are_inserted_where_it_is_said(lib: Any) -> None:
    traced = small(lib)
    x, y, relu, add, out = traced.graph.nodes
    with traced.graph.inserting_after(relu):
        one = traced.graph.call_function(lib.neg, (relu,))
        traced.graph.call_method("abs", (one,))
    with traced.graph.inserting_before():
        traced.graph.placeholder("first")
    with traced.graph.inserting_before(relu):
        inner = traced.graph.inserting_after(x)
        with inner:
            traced.graph.call_function(lib.exp, (x,), name="inner")
        traced.graph.call_function(lib.exp, (x,))
    traced.graph.call_function(lib.exp, (x,))
    assert names(traced.graph) == [
        "first", "x", "inner", "y", "exp", "relu", "abs_1", "neg", "add", "output", "exp_1",
    ]  # fmt: skip
    assert x < relu < out and out > add and min([add, relu]) is relu and relu.next is not add


@both
def test_the_order_behind_one_place(lib: Any) -> None:
    """Each node that is inserted behind a place goes directly behind it."""
    graph = tracing(lib).Graph()
    x = graph.placeholder("x")
    with graph.inserting_after(x):
        graph.call_function(lib.exp, (x,), name="a")
        graph.call_function(lib.exp, (x,), name="b")
    assert names(graph) == ["x", "b", "a"]


@both
def test_uses_are_replaced(lib: Any) -> None:
    traced = small(lib)
    x, y, relu, add, out = traced.graph.nodes
    with traced.graph.inserting_after(relu):
        gelu = traced.graph.call_function(lib.nn.functional.gelu, (x,))
    assert relu.replace_all_uses_with(gelu, delete_user_cb=lambda user: False) == []
    assert relu.replace_all_uses_with(gelu) == [add]
    assert list(relu.users) == [] and list(gelu.users) == [add] and add.args == (gelu, y)
    traced.graph.erase_node(relu)
    assert list(x.users) == [gelu] and len(traced.graph.nodes) == 5
    with pytest.warns(UserWarning, match="already erased"):
        traced.graph.erase_node(relu)
    traced.recompile()
    value = traced(lib.ones(1), lib.ones(1))
    assert value.item() == pytest.approx(1.8413, abs=1e-4)
    add.replace_input_with(y, x)
    assert add.args == (gelu, x) and list(y.users) == [] and add.all_input_nodes == [gelu, x]


@both
def test_arguments_are_replaced_as_a_whole(lib: Any) -> None:
    graph = tracing(lib).Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    cat = graph.call_function(lib.cat, ([x, {"k": y}, slice(x, None)],), {"dim": 0})
    assert list(cat.args[0])[0] is x and cat.all_input_nodes == [x, y]
    for change in (
        lambda: cat.args[0].append(x), lambda: cat.kwargs.update(dim=1), lambda: cat.args[0].__setitem__(0, y),
        lambda: cat.args[0][1].pop("k"), lambda: cat.kwargs.clear(),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="object does not support mutation"):
            change()
    cat.update_kwarg("dim", 1)
    cat.insert_arg(0, y)
    cat.update_arg(1, [y])
    assert cat.args == (y, [y]) and cat.kwargs == {"dim": 1} and list(x.users) == []
    assert hash(cat.args[1]) == hash(cat.args[1])
    cat.args = ()
    assert list(y.users) == []


@both
def test_dead_code_is_erased(lib: Any) -> None:
    module = tracing(lib)

    def run(x: Any) -> Any:
        lib.exp(x + 1)
        return x.relu()

    traced = module.symbolic_trace(run)
    with traced.graph.inserting_before(traced.graph.output_node()):
        traced.graph.call_function(lib._assert, (True, "kept"))
    assert traced.graph.eliminate_dead_code()
    assert names(traced.graph) == ["x", "relu", "_assert", "output"]
    assert not traced.graph.eliminate_dead_code()
    assert traced.graph.eliminate_dead_code(is_impure_node=lambda node: node.op != "call_function")


def test_names_are_given_once() -> None:
    targets = (
        ("sum", None), ("sum", None), ("for", None), ("BatchNorm", None), ("a.b", None), ("0", None), ("x_1", None),
        ("x_1", None), ("x", None), ("x", None), ("x_7", None), ("x_7", None), ("x", "x_7"), ("__add__", None),
        ("torch", None), ("self", None), ("é", None), ("convReLU2d", None),
    )  # fmt: skip
    found = []
    for module in (fx, submodule("torch.fx")):
        graph = module.Graph()
        made = [graph.create_node("call_method", target, name=name) for target, name in targets]
        found.append([node.name for node in made])
    assert found[0] == found[1]


@both
def test_graphs_are_copied(lib: Any) -> None:
    module, traced = tracing(lib), small(lib)
    copied = copy.deepcopy(traced.graph)
    assert str(copied) == str(traced.graph) and copied.owning_module is None
    assert not set(copied.nodes) & set(traced.graph.nodes)
    joined = module.Graph()
    inputs: dict[Any, Any] = {
        node: joined.placeholder(node.name) for node in traced.graph.find_nodes(op="placeholder")
    }
    result = joined.graph_copy(traced.graph, inputs)
    joined.output((result, result))
    joined.lint()
    assert module.GraphModule({}, joined)(lib.ones(1), lib.ones(1)) == (2, 2)


def test_graphs_are_pickled_however_long_they_are() -> None:
    graph = fx.Graph()
    node = graph.placeholder("x")
    for _ in range(5000):
        node = graph.call_function(operator.add, (node, 1))
    graph.output(({"last": node}, [slice(None, node)]))
    found = pickle.loads(pickle.dumps(graph))
    assert str(found) == str(graph) and len(found.nodes) == len(graph.nodes)
    found.lint()


@both
def test_going_through_nodes_bears_changes(lib: Any) -> None:
    traced = small(lib)
    for node in traced.graph.nodes:
        if node.op == "call_function":
            with traced.graph.inserting_after(node):
                twin = traced.graph.node_copy(node)
            node.replace_all_uses_with(twin)
            traced.graph.erase_node(node)
            break
    assert [node.op for node in reversed(traced.graph.nodes)][0] == "output"
    traced.graph.lint()


def test_graphs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    traced = small(weft)
    assert str(traced.graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y]\n"
        "    %relu : [num_users=1] = call_function[target=weft.relu](args = (%x,), kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %y), kwargs = {})\n"
        "    return add"
    )
    traced.graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"] and len(lines) == 7
    assert lines[1].replace("-", "").strip() == ""


@both
def test_code_passes_transformers(lib: Any) -> None:
    traced = small(lib)

    def make(before: Any) -> Any:
        return lambda body: ["seen = True\n", *(before(body) if before else body)]

    with traced.graph.on_generate_code(make):
        assert "seen = True" in traced.graph.python_code("self").src
    assert "seen" not in traced.graph.python_code("self").src


@both
def test_code_is_what_a_code_generator_writes(lib: Any) -> None:
    module = tracing(lib)

    class Listed(module.graph.CodeGen):  # type: ignore[misc, name-defined]
        def gen_fn_def(self, free_vars: list[str], annotation: str, **options: Any) -> str:
            return f"def forward(self, given):\n    {', '.join(free_vars)}, = given"

        def process_inputs(self, *args: Any) -> Any:
            return args[0]

        def additional_globals(self) -> Any:
            return [("List", list)]

    traced = small(lib)
    traced.graph.set_codegen(Listed())
    traced.recompile()
    assert traced([lib.ones(1), lib.ones(1)]).item() == 2
    assert module.Interpreter(traced).run([lib.ones(1), lib.ones(1)]).item() == 2
