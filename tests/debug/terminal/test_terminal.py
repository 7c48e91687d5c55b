"""Views for the terminal: a model as a table, a tensor as a picture, what Weft runs on."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.demo import cli


def test_summary_of_a_model() -> None:
    net = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.Linear(4, 2))
    made = weft.summary(net, weft.ones(5, 3))
    top, first, relu, last = made.rows
    assert (top.parameters, first.parameters, relu.parameters) == (26, 16, 0)
    assert first.flops == 2 * 5 * 3 * 4 and top.flops == first.flops + last.flops
    assert (first.shapes, last.nbytes) == ("float32[5, 4]", 40)
    assert top.seconds >= first.seconds + last.seconds > 0
    text = str(made).splitlines()
    assert text[0].split() == ["module", "results", "parameters", "flops", "bytes", "ms"]
    assert text[2].startswith("  0 Linear")
    assert not net._forward_hooks and not net[0]._forward_pre_hooks
    with pytest.raises(TypeError, match="expected a module"):
        weft.summary(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "picture"),
    [
        (weft.arange(8.0), "▁▂▃▄▅▆▇█"),
        (weft.tensor([0.0, float("nan"), 1.0]), "▁!█"),
        (weft.tensor([[0.0, 1.0], [2.0, 3.0]]), "░▒\n▓█"),
        (weft.tensor([True, False]), "█▁"),
        (weft.ones(2, dtype=weft.bfloat16), "▁▁"),
        (weft.ones(0), ""),
    ],
)
def test_plot(value: Any, picture: str) -> None:
    head, _, rest = str(weft.plot(value)).partition("\n")
    assert head.startswith(f"tensor {value.dtype.name}")
    assert rest == picture


def test_plot_of_much() -> None:
    lines = str(weft.plot(weft.randn(500, 500))).splitlines()
    assert len(lines) == 17 and {len(line) for line in lines[1:]} == {64}
    assert len(str(weft.plot(weft.randn(10, 10, 10))).splitlines()) == 2
    with pytest.raises(TypeError, match="expected a tensor"):
        weft.plot([1.0])  # type: ignore[arg-type]


def test_of_ten_gigabytes_a_sample_is_plotted() -> None:
    """Values that are repeated without memory of their own are not copied out."""
    for shape in ((50_000, 50_000), (2_500_000_000,), (50, 1000, 50_000)):
        head = str(weft.plot(weft.ones(1).expand(shape))).splitlines()[0]
        assert "min 1, max 1" in head and "a sample of 2,500,000,000" in head


def test_figure() -> None:
    pytest.importorskip("matplotlib")
    assert len(weft.plot(weft.randn(3, 4), figure=True).axes) == 2  # type: ignore[attr-defined]


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    for name in ("processor", "threads", "devices", "kernel cache", "shipped kernels", "numpy"):
        assert name in said
    assert "slow" in said
