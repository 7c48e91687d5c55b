"""What a tracer records, beside PyTorch: the same nodes of the same programs, the same values, the same refusals."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from traced_programs import PROGRAMS, asks_for_length, asserts, filled, numbers

import weft
from oracle import both, submodule, torch
from weft import fx


def shown(graph: Any) -> list[tuple[Any, ...]]:
    """The nodes as text: functions by their names, types of elements without the library's."""

    def plain(value: Any) -> str:
        text = str(value)
        for name in ("torch.", "weft."):
            text = text.replace(name, "")
        return text

    return [
        (
            node.op,
            node.name,
            node.target if isinstance(node.target, str) else node.target.__name__,
            plain(node.args),
            plain({key: item for key, item in node.kwargs.items() if key != "_stacklevel"}),
            sorted(user.name for user in node.users),
        )
        for node in graph.nodes
    ]


def assert_equal(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert torch.allclose(torch.tensor(ours.tolist()).double(), theirs.double(), atol=1e-6)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_equal(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        for one, other in zip(ours, theirs, strict=True):
            assert_equal(one, other)
    elif isinstance(theirs, torch.dtype):
        assert str(ours).partition(".")[2] == str(theirs).partition(".")[2]
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_record_the_same(name: str) -> None:
    ours, theirs = (
        submodule(f"{lib.__name__}.fx").symbolic_trace(PROGRAMS[name](lib)[0])
        for lib in (weft, torch)
    )
    assert shown(ours.graph) == shown(theirs.graph)
    ours.graph.lint()


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "variable_arguments"])
def test_what_is_traced_runs_as_before(name: str) -> None:
    program, inputs = PROGRAMS[name](weft)
    traced = fx.symbolic_trace(program)
    theirs, given = PROGRAMS[name](torch)
    assert_equal(program(*inputs), theirs(*given))
    assert_equal(traced(*inputs), theirs(*given))
    assert_equal(fx.Interpreter(traced).run(*inputs), theirs(*given))
    assert_equal(fx.Transformer(traced).transform()(*inputs), theirs(*given))


def code_of(lib: Any, traced: Any) -> str:
    text: str = traced.code
    for ours, name in (
        ("torch._C._nn.", "torch.nn.functional."),
        ("torch.functional.", "torch."),
        ("weft", "torch"),
    ):
        text = text.replace(ours, name)
    return text.replace(", _stacklevel = 3", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_code_is_pytorchs(name: str) -> None:
    ours, theirs = (
        submodule(f"{lib.__name__}.fx").symbolic_trace(PROGRAMS[name](lib)[0])
        for lib in (weft, torch)
    )
    assert code_of(weft, ours) == code_of(torch, theirs)


def test_gradients_are_those_of_the_program() -> None:
    program, inputs = PROGRAMS["attention"](weft)
    traced = fx.symbolic_trace(program)
    traced(*inputs).square().sum().backward()
    found = {name: parameter.grad.clone() for name, parameter in program.named_parameters()}
    program.zero_grad()
    program(*inputs).square().sum().backward()
    for name, parameter in program.named_parameters():
        assert weft.equal(parameter.grad, found[name]), name


# -- what has no answer yet -----------------------------------------------------------------------------------------


def _branches(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _loops(x: Any) -> Any:
    return sum(row for row in x)


def _converts(x: Any) -> Any:
    return x * int(x[0])


def _looks_inside(x: Any) -> Any:
    return 3 in x


def _uses_as_a_key(x: Any) -> Any:
    return {x: 1}


def _returns_an_object(x: Any) -> Any:
    return object()


@pytest.mark.parametrize(
    "refused",
    [
        _branches,
        _loops,
        asks_for_length,
        _converts,
        asserts,
        _looks_inside,
        _uses_as_a_key,
        _returns_an_object,
    ],
)
def test_refusals_are_pytorchs(refused: Any) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: B017, PT011 - what it is, PyTorch says
        submodule("torch.fx").symbolic_trace(refused)
    standard = next(kind for kind in type(theirs.value).__mro__ if kind.__module__ == "builtins")
    with pytest.raises(standard) as ours:
        fx.symbolic_trace(refused)
    said = str(theirs.value).replace("object at 0x", "")
    assert str(ours.value).startswith(said)
    if isinstance(theirs.value, submodule("torch.fx.proxy").TraceError):
        assert isinstance(ours.value, fx.proxy.TraceError)
        assert "fix  " in str(ours.value) and f"in {refused.__name__}" in str(ours.value)


def test_asserts_are_recorded_where_the_tracer_says_so() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    graph = Asserting().trace(asserts)
    targets = [getattr(node.target, "__name__", node.target) for node in graph.nodes]
    assert targets == ["x", "getattr", "getitem", "eq", "_assert", "output"]


# -- arguments ------------------------------------------------------------------------------------------------------


@both
def test_fixed_arguments(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")

    def run(x: Any, y: int, flag: bool = True) -> Any:
        return x + y if flag else -x

    traced = module.symbolic_trace(run, concrete_args={"y": 3, "flag": True})
    assert traced(1, 3, True) == 4
    with pytest.raises(
        AssertionError, match="y has been specialized to have value 3 but got another value"
    ):
        traced(1, 2, True)


@both
def test_structures_as_arguments(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")

    def run(given: Any) -> Any:
        return {"sum": given["a"] + given["b"][0], "first": given["a"]}

    traced = module.symbolic_trace(run, concrete_args={"given": {"a": module.PH, "b": [module.PH]}})
    assert traced({"a": 1, "b": [2]}) == {"sum": 3, "first": 1}
    assert [node.op for node in traced.graph.nodes].count("placeholder") == 2
    assert module.Interpreter(traced).run({"a": 1, "b": [2]}) == {"sum": 3, "first": 1}


# -- what is one node -----------------------------------------------------------------------------------------------


@both
def test_a_tracer_says_what_is_a_leaf(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")

    class Opening(module.Tracer):  # type: ignore[misc, name-defined]
        def is_leaf_module(self, m: Any, path: str) -> bool:
            return isinstance(m, lib.nn.Sequential) and path != ""

    class Outer(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = lib.nn.Sequential(lib.nn.ReLU())
            self.linear = lib.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.linear(self.inner(x))

    graph = Opening().trace(Outer())
    assert [(node.op, node.name) for node in graph.nodes] == [
        ("placeholder", "x"), ("call_module", "inner"), ("get_attr", "linear_weight"), ("get_attr", "linear_bias"),
        ("call_function", "linear"), ("output", "output"),
    ]  # fmt: skip
    stack = next(node for node in graph.nodes if node.name == "linear").meta["nn_module_stack"]
    assert list(stack) == ["linear"] and stack["linear"][1] is lib.nn.Linear


@both
def test_buffers_are_nodes_where_the_tracer_says_so(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")

    class Reading(module.Tracer):  # type: ignore[misc, name-defined]
        proxy_buffer_attributes = True

    class Holding(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", lib.ones(2))

        def forward(self, x: Any) -> Any:
            return self.b + self.b.sum() * x

    names = [node.name for node in Reading().trace(Holding()).nodes]
    assert names == ["x", "b", "sum_1", "mul", "add", "output"]


@both
def test_shapes_of_parameters_are_numbers_where_the_tracer_says_so(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")

    class Asking(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(3, 2))

        def forward(self, x: Any) -> Any:
            return x @ self.w if self.w.shape[0] == 3 and self.w.dim() == 2 else x

    graph = module.Tracer(param_shapes_constant=True).trace(Asking())
    assert [node.name for node in graph.nodes] == ["x", "w", "matmul", "output"]


def helper(x: Any, y: Any) -> Any:
    return x if y > 0 else -x


fx.wrap("helper")
fx.wrap("len")
sqrt = math.sqrt


def test_marked_functions_are_recorded_as_they_are() -> None:
    traced = fx.symbolic_trace(lambda x: helper(x, 2) + len(x) + sqrt(x.shape[0]))
    names = [node.name for node in traced.graph.nodes if node.op == "call_function"]
    assert names == ["helper", "len_1", "add", "getattr_1", "getitem", "sqrt", "add_1"]
    assert traced(weft.ones(4)).tolist() == [7.0] * 4
    assert helper(1, 2) == 1 and len([1]) == 1 and helper.__module__ == __name__
    again = fx.symbolic_trace(traced)  # the marks go with the code
    assert again.code.count("wrap(") == traced.code.count("wrap(")
    assert again(weft.ones(4)).tolist() == [7.0] * 4


def test_marks_are_set_where_a_module_begins() -> None:
    with pytest.raises(
        NotImplementedError, match="wrap must be called at the top level of a module"
    ):
        fx.wrap("helper")
    with pytest.raises(RuntimeError, match="Unsupported type for global function!"):
        fx.wrap(3)


# -- nothing is left behind -----------------------------------------------------------------------------------------


def test_modules_are_as_before_when_a_trace_has_ended() -> None:
    before = {
        name: vars(weft.nn.Module).get(name)
        for name in ("__call__", "__getattr__", "__getattribute__")
    }
    fx.symbolic_trace(weft.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="control flow"):
        fx.symbolic_trace(_branches)
    assert {name: vars(weft.nn.Module).get(name) for name in before} == before
    assert not fx._symbolic_trace.is_fx_tracing()


def test_another_thread_is_not_traced() -> None:
    layer, found = filled(weft.nn.Linear(2, 2), weft), []

    def other() -> None:
        found.append(layer(numbers(weft, 1, 2)))

    class Tracer(fx.Tracer):
        def call_module(self, *given: Any) -> Any:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return super().call_module(*given)

    Tracer().trace(weft.nn.Sequential(layer))
    assert isinstance(found[0], weft.Tensor)


def test_a_trace_within_a_trace_is_its_own() -> None:
    def run(x: Any) -> Any:
        inner = fx.symbolic_trace(filled(weft.nn.Sequential(weft.nn.Linear(2, 2)), weft))
        return x * len(inner.graph.nodes)

    traced = fx.symbolic_trace(run)
    assert [node.name for node in traced.graph.nodes] == ["x", "mul", "output"] and traced(2) == 6


def test_lines_of_the_user_are_noted_where_the_tracer_says_so() -> None:
    class Noting(fx.Tracer):
        record_stack_traces = True

    program = PROGRAMS["perceptron"](weft)[0]
    module = fx.GraphModule(program, Noting().trace(lambda x: x + 1))
    assert (
        "test_traces.py"
        in module.graph.find_nodes(op="call_function", target=__import__("operator").add)[
            0
        ].stack_trace
    )
    assert "# File: " in module.print_readable(print_output=False)


@both
def test_proxies_of_two_tracers_do_not_meet(lib: Any) -> None:
    module = submodule(f"{lib.__name__}.fx")
    proxies = []
    for _ in range(2):
        graph = module.Graph()
        proxies.append(
            module.Proxy(graph.placeholder("x"), module.proxy.GraphAppendingTracer(graph))
        )
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        lib.add(*proxies)
