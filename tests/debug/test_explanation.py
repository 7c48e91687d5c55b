"""`weft.explain`: batches, copies and reasons are those of the program; it is off when it is off."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import weft
from weft import nn
from weft.debug.explanation import GATHERED, IN_PLACE, SHARED, BatchSearch, Explanation
from weft.engine.pipeline.batching import batch


def rows(count: int, size: int) -> list[weft.Tensor]:
    """Values that are computed already, each in memory of its own."""
    made = [weft.full((size,), float(number + 1)) + 0.5 for number in range(count)]
    for tensor in made:
        tensor.tolist()
    return made


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A layer whose weights are computed already."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    weft.realize(*layer.parameters())
    return layer


def test_a_chain_of_batches_has_levels_sizes_and_packings() -> None:
    inputs, layer = rows(5, 8), linear(8, 4)
    with weft.no_grad(), weft.explain() as report:
        outputs = [layer(row).tanh() for row in inputs]
        weft.realize(*outputs)
    (run,) = report.runs
    product, tanh = run.batches
    assert [made.facts.operation for made in run.batches] == ["linear_bias", "tanh"]
    assert [made.size for made in run.batches] == [5, 5]
    assert [made.level for made in run.batches] == [1, 2]
    assert [operand.packing for operand in product.operands] == [GATHERED, SHARED, SHARED]
    assert product.operands[0].sources == 5
    assert product.nbytes == 5 * 8 * 4
    assert tanh.operands[0].packing == IN_PLACE
    assert tanh.nbytes == 0
    assert tanh.sources == (product.number,)
    assert not run.alone
    assert report.counts()["bytes"] == 5 * 8 * 4
    assert report.counts()["gathers"] == 1


def test_rows_that_lie_in_order_are_used_in_place() -> None:
    table = weft.arange(24.0).reshape(8, 3) + 1
    table.tolist()
    with weft.explain() as report:
        weft.stack([weft.dot(row, row) for row in table]).tolist()
    first = report.runs[0].batches[0]
    assert first.size == 8
    assert all(operand.packing == IN_PLACE for operand in first.operands)
    assert report.counts()["bytes"] == 0


def the_reasons(run: BatchSearch, operation: str) -> list[list[str]]:
    """Why pairs of an operation are apart."""
    return [reasons for one, _, _, _, reasons in run.apart() if one.operation == operation]


def test_another_shape_is_a_reason() -> None:
    layer, other = linear(8, 4, bias=False), linear(6, 4, bias=False)
    short, long = rows(8, 6), rows(8, 8)
    with weft.no_grad(), weft.explain() as report:
        weft.realize(*[layer(row) for row in long], *[other(row) for row in short])
    (reasons,) = the_reasons(report.runs[0], "linear")
    assert "operand 1 has another shape or type" in reasons
    assert [made.size for made in report.runs[0].batches] == [8, 8]


def test_another_weight_is_a_reason() -> None:
    layers = [linear(8, 4, bias=False) for _ in range(2)]
    inputs = rows(3, 8)
    with weft.no_grad(), weft.explain() as report:
        weft.realize(*[layer(row) for layer in layers for row in inputs])
    assert the_reasons(report.runs[0], "linear") == [["operand 2 is another weight"]]
    assert "linear [4] x 3 and linear [4] x 3: operand 2 is another weight" in str(report)


def test_a_dependency_is_a_reason() -> None:
    layer = linear(4, 4, bias=False)
    states = rows(3, 4)
    with weft.no_grad(), weft.explain() as report:
        for _ in range(4):
            states = [layer(state).tanh() for state in states]
        weft.realize(*states)
    waited = {facts.operation: sizes for facts, sizes in report.runs[0].waited()}
    assert waited == {"linear": [3] * 4, "tanh": [3] * 4}
    assert "linear [4], test_explanation.py:" in str(report)
    assert ": 3 + 3 + 3 + 3" in str(report)


def test_a_value_that_is_read_is_a_reason() -> None:
    layer = linear(4, 4, bias=False)
    with weft.no_grad(), weft.explain() as report:
        states = rows(8, 4)
        for _ in range(4):
            states = [layer(state) for state in states]
            sum(state.sum() for state in states).item()
    cut = {facts.operation: count for facts, count in report.interrupted()}
    assert cut["linear"] == 4
    assert "a value was read in between" in str(report)


def test_too_few_are_alone() -> None:
    layer = linear(4, 4, bias=False)
    inputs = rows(8, 4)
    with weft.no_grad(), weft.explain() as report:
        weft.realize(*[layer(row) for row in inputs], inputs[0].exp(), inputs[1].exp())
    (lot,) = report.runs[0].alone
    assert (lot.facts.operation, lot.count) == ("exp", 2)
    assert lot.least > 2
    assert report.counts()["alone"] == 2


def test_the_last_step_where_it_is_left_on() -> None:
    layer = linear(4, 4)
    optimizer = weft.optim.SGD(layer.parameters(), lr=0.1)

    def step(count: int) -> None:
        loss = weft.stack([layer(row).square().sum() for row in rows(count, 4)]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    weft.explain(on=True)
    try:
        step(8)
        step(12)
        sizes = {made.size for run in weft.explain().runs for made in run.batches}
        assert 12 in sizes
        assert 8 not in sizes
    finally:
        weft.explain(on=False)
    assert not weft.explain().runs
    assert "weft.explain(on=True)" in str(weft.explain())


@pytest.mark.parametrize("on", [1, "yes", weft.float32, weft.ones(1)])
def test_only_a_flag_turns_it_on(on: object) -> None:
    with pytest.raises(TypeError, match="'on' must be bool"):
        weft.explain(on=on)  # type: ignore[arg-type]
    assert batch.watch(None) is None


def test_nobody_listens_when_it_is_off() -> None:
    with weft.explain(), weft.explain() as inner:
        pass
    assert batch.watch(None) is None
    assert isinstance(inner, Explanation)
    inputs, layer = rows(4, 4), linear(4, 4)
    weft.realize(*[layer(row) for row in inputs])
    assert not inner.runs


def test_values_are_the_same_and_nothing_is_kept() -> None:
    layer = linear(4, 4)
    inputs = rows(4, 4)
    plain = [layer(row).tanh().tolist() for row in inputs]
    with weft.explain() as report:
        outputs = [layer(row).tanh() for row in inputs]
        weft.realize(*outputs)
    assert [row.tolist() for row in outputs] == plain
    assert not any(
        isinstance(value, weft.Tensor)
        for run in report.runs
        for made in run.batches
        for value in vars(made).values()
    )


def test_the_drawing_has_a_box_for_each_batch(tmp_path: Path) -> None:
    inputs, layer = rows(5, 8), linear(8, 4)
    with weft.no_grad(), weft.explain() as report:
        weft.realize(*[layer(row).tanh() for row in inputs])
    path = report.draw(tmp_path / "run.svg")
    tree = ET.parse(path)
    space = {"svg": "http://www.w3.org/2000/svg"}
    texts = [element.text or "" for element in tree.iterfind(".//svg:text", space)]
    for words in ("linear_bias x 5", "tanh x 5"):
        assert words in texts
    assert any("gathered from 5 (160 B)" in text for text in texts)
    assert len(tree.findall(".//svg:path[@class='value']", space)) == 1


def test_a_run_that_is_not_there_cannot_be_drawn(tmp_path: Path) -> None:
    with weft.explain() as report:
        pass
    with pytest.raises(ValueError, match="run a step within the block"):
        report.draw(tmp_path / "run.svg")


def test_equal_programs_print_equal_text() -> None:
    layer, inputs = linear(4, 4), rows(4, 4)
    texts = []
    for _ in range(2):
        with weft.explain() as report:
            weft.stack([layer(row).sum() for row in inputs]).mean().backward()
            weft.realize(*layer.parameters())
        texts.append(str(report).split("\n", 1)[1])  # the first line counts known programs
    assert texts[0] == texts[1]
