"""Passes over traced programs, as programs write them, beside PyTorch."""

from __future__ import annotations

import operator
import time
from typing import Any

import pytest
from traced_programs import PROGRAMS, filled, numbers

import weft
from oracle import both, submodule, torch
from weft import fx


def tracing(lib: Any) -> Any:
    return submodule(f"{lib.__name__}.fx")


def convolutions(lib: Any) -> Any:
    nn = lib.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5)
            )
            self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

        def forward(self, x: Any) -> Any:
            x = self.body(x)
            y = self.conv(x)
            return self.norm(y) + y

    return filled(Network(), lib)


@both
def test_norms_are_fused_into_convolutions(lib: Any) -> None:
    optimization = submodule(f"{lib.__name__}.fx.experimental.optimization")
    model, x = convolutions(lib), numbers(lib, 1, 1, 5, 5)
    fused = optimization.fuse(model)
    kinds = [type(module).__name__ for module in fused.modules()]
    assert kinds.count("BatchNorm2d") == 1  # the other one's input is used beside it
    assert lib.allclose(fused(x), model(x))
    quick = (
        optimization.optimize_for_inference(model, {"conv_bn_fuse": False}) if lib is weft else None
    )
    if quick is not None:
        assert "Dropout" not in [type(module).__name__ for module in quick.modules()]
        assert lib.allclose(quick(x), model(x))


@both
def test_a_layer_is_swapped(lib: Any) -> None:
    traced = tracing(lib).symbolic_trace(
        filled(lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU()), lib)
    )
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), lib.nn.ReLU):
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(lib.nn.functional.gelu, node.args, node.kwargs)
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    x = numbers(lib, 3, 2)
    assert lib.allclose(traced(x), lib.nn.functional.gelu(getattr(traced, "0")(x)))
    assert [name for name, _ in traced.named_children()] == ["0"]


@both
def test_an_interpreter_measures_each_node(lib: Any) -> None:
    class Profiler(tracing(lib).Interpreter):  # type: ignore[misc, name-defined]
        def __init__(self, module: Any) -> None:
            super().__init__(module)
            self.seconds: dict[str, list[float]] = {}

        def run_node(self, n: Any) -> Any:
            began = time.perf_counter()
            value = super().run_node(n)
            self.seconds.setdefault(n.name, []).append(time.perf_counter() - began)
            return value

    program, inputs = PROGRAMS["attention"](lib)
    traced = tracing(lib).symbolic_trace(program)
    profiler = Profiler(traced)
    assert lib.equal(profiler.run(*inputs), program(*inputs))
    profiler.run(*inputs)
    assert list(profiler.seconds) == [node.name for node in traced.graph.nodes]
    assert all(len(measured) == 2 for measured in profiler.seconds.values())
    assert list(profiler.env) == [traced.graph.output_node()]


@both
def test_an_interpreter_says_where_it_failed(lib: Any) -> None:
    module = tracing(lib)
    traced = module.symbolic_trace(lambda x, y: lib.relu(x) + y)
    with pytest.raises(
        RuntimeError,
        match="Expected positional argument for parameter y, but one was not passed in!",
    ):
        module.Interpreter(traced).run(lib.ones(1))
    with pytest.raises(
        RuntimeError,
        match="(?s)While executing %add : .num_users=1. = call_function.*Original traceback",
    ):
        module.Interpreter(traced).run(lib.ones(2), lib.ones(3)).tolist()
    module_of = module.symbolic_trace(lambda d: d["missing"])
    with pytest.raises(RuntimeError, match="While executing %getitem"):
        module.Interpreter(module_of).run({})
    with pytest.raises(RuntimeError, match="Node referenced nonexistent target scale"):
        module.Interpreter(traced).fetch_attr("scale.nothing")
    known = {node: lib.ones(1) for node in traced.graph.nodes if node.op == "placeholder"}
    assert module.Interpreter(traced).run(initial_env=known).item() == 2
    given = [lib.ones(1), lib.ones(1)]
    assert module.Interpreter(traced).boxed_run(given).item() == 2 and given == []


@both
def test_a_transformer_makes_another_program(lib: Any) -> None:
    module = tracing(lib)

    class Swapped(module.Transformer):  # type: ignore[misc, name-defined]
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is lib.sigmoid:
                return super().call_function(lib.neg, args, kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_method("relu" if target == "neg" else target, args, kwargs)

    traced = module.symbolic_trace(lambda x: lib.sigmoid(x).neg() * 2)
    made = Swapped(traced).transform()
    assert made(lib.tensor([1.0, -3.0])).tolist() == [0.0, 6.0]
    assert [node.name for node in made.graph.nodes] == ["x", "neg", "relu", "mul", "output"]


# -- replace_pattern ------------------------------------------------------------------------------------------------


def chained(lib: Any) -> Any:
    return lambda x, w: lib.cat([lib.relu(x * w) + 1, lib.relu(w * x) + 1]).sum() + lib.relu(x * w)


def shown(graph: Any) -> list[Any]:
    named = [getattr(node.target, "__name__", node.target) for node in graph.nodes]
    return list(zip(named, [str(node.args) for node in graph.nodes], strict=True))


PATTERNS: dict[str, Any] = {
    "a chain": lambda lib: (lambda a, b: lib.relu(a * b) + 1, lambda a, b: lib.sigmoid(a - b)),
    "one node": lambda lib: (lambda a: lib.relu(a), lambda a: lib.exp(a) * a),
    "nothing": lambda lib: (lambda a: lib.tanh(a), lambda a: a),
    "another constant": lambda lib: (lambda a: lib.relu(a) + 2, lambda a: a),
    "by another input": lambda lib: (lambda a: a + 1, lambda a: a),
    "a list": lambda lib: (lambda a, b: lib.cat([a, b]), lambda a, b: lib.stack([a, b])),
    "two results": lambda lib: (lambda a, b: (lib.relu(a), b.sum()), lambda a, b: (a.abs(), b.mean())),
    "a square": lambda lib: (lambda a: a * a, lambda a: a**2),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_replaced(name: str) -> None:
    graphs, counts = [], []
    for lib in (weft, torch):
        module = tracing(lib)
        traced = module.symbolic_trace(chained(lib))
        matches = module.replace_pattern(traced, *PATTERNS[name](lib))
        traced.graph.lint()
        graphs.append(shown(traced.graph))
        counts.append([(str(match.anchor), len(match.nodes_map)) for match in matches])
    assert graphs[0] == graphs[1] and counts[0] == counts[1]


@both
def test_what_is_used_outside_is_no_occurrence(lib: Any) -> None:
    module = tracing(lib)

    def run(x: Any) -> Any:
        y = lib.relu(x)
        return lib.neg(y) + y

    traced = module.symbolic_trace(run)
    assert module.replace_pattern(traced, lambda a: lib.neg(lib.relu(a)), lambda a: a) == []
    assert lib.equal(traced(lib.ones(2)), lib.zeros(2))


@both
def test_replacements_bring_their_modules(lib: Any) -> None:
    module = tracing(lib)

    class Scaled(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.scale = lib.nn.Parameter(lib.ones(1) * 3)
            self.act = lib.nn.Tanh()

        def forward(self, a: Any) -> Any:
            return self.act(a) * self.scale

    traced = module.symbolic_trace(lambda x: lib.relu(x) + 1)
    module.replace_pattern(traced, lambda a: lib.relu(a), module.symbolic_trace(Scaled()))
    x = numbers(lib, 3)
    assert lib.allclose(traced(x), x.tanh() * 3 + 1)
    assert list(traced.state_dict()) == ["scale"]


@both
def test_occurrences_are_filtered(lib: Any) -> None:
    module = tracing(lib)
    rewriter = submodule(f"{lib.__name__}.fx.subgraph_rewriter")
    traced = module.symbolic_trace(lambda x: lib.relu(x + 1) + lib.relu(x * 7))

    def of_products(match: Any, original: Any, pattern: Any) -> bool:
        return match.placeholder_nodes[0].target is operator.mul

    replaced = rewriter.replace_pattern_with_filters(
        traced, lambda a: lib.relu(a), lambda a: a.abs(), [of_products]
    )
    assert len(replaced) == 1 and [node.name for node in replaced[0].replacements] == ["abs_1"]
    replaced = rewriter.replace_pattern_with_filters(
        traced, lambda a: a * 3, lambda a: a - 1, ignore_literals=True
    )
    assert len(replaced) == 1 and traced(lib.zeros(1)).item() == 2.0


# -- what nodes are noted -------------------------------------------------------------------------------------------


@both
def test_shapes_are_noted(lib: Any) -> None:
    passes = submodule(f"{lib.__name__}.fx.passes.shape_prop")
    program, inputs = PROGRAMS["residual_block"](lib)
    traced = tracing(lib).symbolic_trace(program)
    result = passes.ShapeProp(traced).propagate(*inputs)
    assert lib.equal(result, program(*inputs))
    notes = {node.name: node.meta["tensor_meta"] for node in traced.graph.nodes}
    assert tuple(notes["first"].shape) == (2, 2, 4, 4) and notes["output"].stride == (8, 1)
    assert (
        notes["x"].dtype is lib.float64
        and not notes["x"].requires_grad
        and notes["relu"].requires_grad
    )
    assert notes["first"].memory_format is lib.contiguous_format
    assert all(issubclass(node.meta["type"], lib.Tensor) for node in traced.graph.nodes)


@both
def test_passes_run_in_an_order_that_their_rules_allow(lib: Any) -> None:
    manager = submodule(f"{lib.__name__}.fx.passes.infra.pass_manager")
    base = submodule(f"{lib.__name__}.fx.passes.infra.pass_base")
    ran: list[str] = []

    def first(module: Any) -> Any:
        ran.append("first")
        return base.PassResult(module, False)

    class Second(base.PassBase):  # type: ignore[misc, name-defined]
        def requires(self, module: Any) -> None:
            ran.append("checked")

        def call(self, module: Any) -> Any:
            ran.append("second")
            return base.PassResult(module, len(ran) < 5)

    second = Second()
    traced = tracing(lib).symbolic_trace(lambda x: x + 1)
    order = manager.this_before_that_pass_constraint(first, second)
    passes = manager.PassManager([second, first], [order], steps=3)
    assert passes(traced).modified
    assert ran == ["first", "checked", "second"] * 2
    circle = manager.PassManager(
        [second, first], [order, manager.this_before_that_pass_constraint(second, first)]
    )
    with pytest.raises(RuntimeError, match="Circular dependency detected"):
        circle(traced)


@both
def test_arguments_by_name(lib: Any) -> None:
    schemas = submodule(f"{lib.__name__}.fx.operator_schemas")
    x = numbers(lib, 2, 2)
    found = schemas.normalize_function(
        lib.nn.functional.dropout, (x, 0.25), {"training": False}, normalize_to_only_use_kwargs=True
    )
    assert found.args == () and found.kwargs["p"] == 0.25 and found.kwargs["inplace"] is False
    model = lib.nn.Sequential(lib.nn.Linear(2, 2))
    found = schemas.normalize_module(model, "0", (x,), normalize_to_only_use_kwargs=True)
    assert list(found.kwargs) == ["input"]


@both
def test_notes_are_kept_by_transformers(lib: Any) -> None:
    module = tracing(lib)
    traced = module.symbolic_trace(filled(lib.nn.Sequential(lib.nn.Linear(2, 2)), lib))
    made = module.Transformer(traced).transform()
    (node,) = made.graph.find_nodes(op="call_module", target="0")
    assert list(node.meta["nn_module_stack"]) == ["0"]


def test_proxies_write_nodes_behind_a_graph() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = weft.relu(x * 2).sum(0)
    graph.output(y.node)
    assert fx.GraphModule({}, graph)(weft.tensor([1.0, -1.0])).item() == 2.0


@both
def test_nodes_are_sorted_as_they_can_run(lib: Any) -> None:
    common = submodule(f"{lib.__name__}.fx.passes.tools_common")
    traced = tracing(lib).symbolic_trace(lambda x: lib.relu(x) + 1)
    x, relu, add, out = traced.graph.nodes
    out.append(relu)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        traced.graph.lint()
    made = common.legalize_graph(traced)
    made.graph.lint()
    assert [node.name for node in made.graph.nodes] == ["x", "relu", "add", "output"]
    assert common.get_node_target({}, list(made.graph.nodes)[2]).endswith("operator.add")
