"""The recorded graph as text and as a drawing: what stands in it, for values, views, leaves, functions."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import debug
from weft.debug.layout import lay_out

SVG = "{http://www.w3.org/2000/svg}"


def program() -> tuple[weft.Tensor, dict[str, weft.Tensor]]:
    x = weft.tensor([[1.0, 2.0, 3.0]])
    weight = weft.ones(3, 2, requires_grad=True)
    hidden = (x @ weight).tanh()
    return hidden[:, 1:].sum() * 0.5, {"weight": weight}


def test_one_line_per_record_with_values_gradients_and_lines() -> None:
    result, names = program()
    lines = debug.graph_text(result, names).splitlines()
    texts = [re.sub(r"  +", " | ", line) for line in lines]
    assert texts == [
        "%0 = value | : float32[1, 3]",
        "%1 = weight | : float32[3, 2] | accumulates",
        "%2 = matmul(%0, %1) | : float32[1, 2] pending | MmBackward0 | test_graph.py:23 in program",
        "%3 = tanh(%2) | : float32[1, 2] pending | TanhBackward0 | test_graph.py:23 in program",
        "%4 = slice(%3) (1, 1, 1, 1) | : float32[1, 1] pending | SliceBackward0 | test_graph.py:24 in program",
        "%5 = sum(%4) ((0, 1), False) | : float32[] pending | SumBackward0 | test_graph.py:24 in program",
        "%6 = mul(%5, 0.5) | : float32[] pending | MulBackward0 | test_graph.py:24 in program",
    ]


def test_what_has_run_keeps_its_gradient_relation() -> None:
    result, names = program()
    before = debug.collect_graph(result, names)
    result.item()
    after = debug.collect_graph(result, names)
    assert [entry.operation for entry in after] == [entry.operation for entry in before]
    assert not any(entry.state for entry in after)


def test_a_composite_names_the_value_that_it_stands_for() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    text = debug.graph_text(weft.softmax(x * 1, 1))
    line = next(line for line in text.splitlines() if "SoftmaxBackward0" in line)
    number = re.search(r"softmax\(%\d+\) \(1,\) = %(\d+)", line)
    assert number is not None
    assert f"%{number[1]} = div(" in text


def test_an_in_place_write_shows_both_relations() -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    y[0] = 5.0
    lines = debug.graph_text(y.sum()).splitlines()
    record = next(line for line in lines if "CopySlices" in line)
    assert "put(" in record
    assert re.search(r"sum\(%\d+\).*SumBackward0 -> %\d+", lines[-1])


def test_a_custom_function_is_one_record() -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: weft.Tensor) -> weft.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: weft.Tensor) -> weft.Tensor:
            return gradient * 2

    x = weft.ones(2, requires_grad=True)
    assert "DoubleBackward(%" in debug.graph_text(Double.apply(x).sum())


def test_a_graph_thirty_thousand_deep_is_collected() -> None:
    x = weft.ones((), requires_grad=True)
    for _ in range(30_000):
        x = x * 1.0
    assert len(debug.collect_graph(x)) == 30_001


def test_leaves_and_plain_tensors_are_graphs_too() -> None:
    assert debug.graph_text(weft.ones(2, requires_grad=True)).split() == [
        "%0",
        "=",
        "leaf",
        ":",
        "float32[2]",
        "accumulates",
    ]
    assert debug.graph_text(weft.tensor([1, 2])).split() == ["%0", "=", "value", ":", "int64[2]"]


def boxes(root: ElementTree.Element) -> list[ElementTree.Element]:
    """The boxes of records: what is neither the background nor in the legend."""
    return [part for part in root.iter(f"{SVG}rect") if part.get("height") == "46"]


def test_a_drawing_has_a_box_per_record_and_an_arrow_per_relation(tmp_path: Path) -> None:
    result, names = program()
    path = debug.draw(result, tmp_path / "graph.svg", names)
    root = ElementTree.parse(path).getroot()
    entries = debug.collect_graph(result, names)
    assert len(boxes(root)) == len(entries)
    arrows = [part for part in root.iter(f"{SVG}path") if part.get("class")]
    assert len(arrows) == sum(len(entry.sources()) for entry in entries)
    texts = {part.text for part in root.iter(f"{SVG}text")}
    assert {"weight", "matmul", "mul (0.5)", "float32[3, 2]"} <= texts


def test_a_large_graph_is_cut_and_says_so(tmp_path: Path) -> None:
    x = weft.ones(2, requires_grad=True)
    for _ in range(50):
        x = x + 1
    path = Path(debug.draw(x, tmp_path / "graph.svg", limit=10))
    assert "the newest 10 of 51 records (draw(..., limit=51) draws all)" in path.read_text()
    assert len(boxes(ElementTree.parse(path).getroot())) == 10
    with pytest.raises(ValueError, match="(?s)limit >= 1.*fix +leave limit out"):
        debug.draw(x, tmp_path / "graph.svg", limit=0)


@st.composite
def drawings(draw: st.DrawFn) -> tuple[list[float], list[tuple[int, int]]]:
    count = draw(st.integers(1, 25))
    widths = draw(st.lists(st.floats(20, 200), min_size=count, max_size=count))
    places = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(places, places), max_size=50))
    return widths, [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]


@given(drawings())
def test_boxes_never_overlap_and_arrows_go_down(
    drawing: tuple[list[float], list[tuple[int, int]]],
) -> None:
    widths, arrows = drawing
    layout = lay_out(widths, arrows)
    assert layout == lay_out(widths, arrows)
    for start, end in arrows:
        assert layout.rows[start] < layout.rows[end]
        rows = [row for _, row in layout.paths[start, end]]
        assert rows == list(range(layout.rows[start], layout.rows[end] + 1))
    for row in set(layout.rows):
        members = sorted(
            (layout.centers[box], widths[box])
            for box in range(len(widths))
            if layout.rows[box] == row
        )
        for (left, left_width), (right, right_width) in zip(members, members[1:], strict=False):
            assert right - left >= (left_width + right_width) / 2 - 1e-6


def test_a_stage_names_the_output_of_a_function_that_an_edge_leads_to() -> None:
    class Two(weft.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: object, a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
            return a

    x = weft.ones(2, requires_grad=True)
    text = debug.stages(lambda: (Two.apply(x)[1] * 4).sum())["record"]
    assert "| TwoBackward.1, -" in text


def test_a_graph_that_is_too_large_is_refused_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each way to take a graph apart, instead of a wait without an end."""
    from weft.debug import graph

    monkeypatch.setattr(graph, "MOST_RECORDS", 20)
    for ask in (debug.collect_graph, debug.graph_text, debug.draw, debug.why, debug.stepper):
        x = weft.ones(2, requires_grad=True)
        for _ in range(30):
            x = x * 2 + 1
        words = r"too large(.|\n)*at most 20 records(.|\n)*weft.board"
        with pytest.raises(RuntimeError, match=words):
            ask(x)
        assert x.tolist() == [2.0**31] * 2  # rounded


def test_a_value_that_is_too_large_is_refused_with_a_word() -> None:
    """Before anything is computed; what looks at a sample answers."""
    x = weft.zeros(1).expand(1 << 20, 1 << 20)
    for ask in (debug.why, debug.stepper, debug.to_python):
        with pytest.raises(RuntimeError, match="too large to be computed once more") as told:
            ask(x)
        assert told.value.got == "4,398,046,511,104 bytes"
    assert "0., " in repr(x)
    assert str(weft.plot(x)).startswith("tensor float32[1048576, 1048576]: min 0, max 0")
    assert "strided" in debug.graph_text(x)
