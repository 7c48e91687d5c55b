"""What cannot be exported is said at the call, with the line of the program that it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn

pytest.importorskip("onnx")

from weft.onnx import OnnxExporterError  # noqa: E402


def _branching(x: Any) -> Any:
    if x.sum() > 0:  # the line
        return x + 1
    return x - 1


def _looping(x: Any) -> Any:
    while float(x.max()) < 10:  # the line
        x = x * 2
    return x


def _listing(x: Any) -> Any:
    return x * len(x.tolist())  # the line


@pytest.mark.parametrize("model", [_branching, _looping, _listing])
def test_control_flow_that_depends_on_values_is_reported_by_line(model: Any) -> None:
    wanted = next(
        number
        for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "# the line" in line and number > model.__code__.co_firstlineno
    )
    with pytest.raises(
        OnnxExporterError, match=f"was read.*test_refusals.py:{wanted} in {model.__name__}"
    ):
        weft.onnx.export(model, (weft.ones(3),))
    with weft.eager(), pytest.raises(OnnxExporterError, match="was read"):
        weft.onnx.export(model, (weft.ones(3),))


def test_reads_of_constants_are_no_control_flow() -> None:
    limit = weft.tensor([2.0]) * 2

    def model(x: Any) -> Any:
        return x + 1 if (limit + weft.ones(1)).item() > 4 else x

    program = weft.onnx.export(model, (weft.ones(3),))
    assert "Add" in [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize(
    "model, word",
    [
        (lambda x: x + weft.randn(3), "random numbers"),
        (lambda x: (x * 1j).real, "complex"),
        (lambda x: weft.lgamma(x), "no operator"),
    ],
)
def test_operations_without_an_operator(model: Any, word: str) -> None:
    with pytest.raises(
        OnnxExporterError, match=f"cannot be exported(.|\n)*test_refusals.py(.|\n)*{word}"
    ):
        weft.onnx.export(model, (weft.ones(3),))


def test_loops_over_a_dynamic_size() -> None:
    def model(x: Any) -> Any:
        total = x[0]
        for row in x[1:]:
            total = total * 2 + row
        return total

    weft.onnx.export(model, (weft.ones(3, 2),))
    with pytest.raises(OnnxExporterError, match="other operations"):
        weft.onnx.export(model, (weft.ones(3, 2),), dynamic_shapes=({0: "n"},))


def test_values_of_the_program_that_follow_a_size() -> None:
    def model(x: Any) -> Any:
        return x * weft.tensor([float(place) for place in range(len(x))])

    with pytest.raises(OnnxExporterError, match="no formula"):
        weft.onnx.export(model, (weft.ones(3),), dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize(
    "given",
    [
        {"dynamic_shapes": {"y": {0: "n"}}},
        {"dynamic_shapes": ({5: "n"},)},
        {"dynamic_shapes": ({0: "n", 1: "n"},)},
        {"dynamic_shapes": ({0: 1.5},)},
        {"input_names": ["a", "b"]},
        {"output_names": ["a", "a"]},
        {"opset_version": 99},
        {"custom_opsets": {"mine": 1}},
    ],
)
def test_arguments_that_do_not_fit(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="onnx.export"):
        weft.onnx.export(lambda x: x + 1, (weft.ones(3, 2),), **given)


def test_results_and_models_that_are_none() -> None:
    with pytest.raises(OnnxExporterError, match="no tensor"):
        weft.onnx.export(lambda x: 3, (weft.ones(3),))
    with pytest.raises(TypeError, match="a module or a function"):
        weft.onnx.export(3, (weft.ones(3),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path f"):
        weft.onnx.export(lambda x: x, (weft.ones(3),), dynamo=False)


def test_what_the_model_raises_comes_through_and_nothing_stays() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        weft.onnx.export(nn.Linear(3, 2), (weft.ones(2, 4),))
    assert not weft.onnx.is_in_onnx_export()
    assert (weft.ones(2) + 1).tolist() == [2.0, 2.0]
