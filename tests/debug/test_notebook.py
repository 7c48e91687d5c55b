"""What notebooks show: tensors, modules and graphs as HTML, with no more work than `repr` does."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.pipeline.driver import counters
from weft.nn import Linear, Module, ReLU, Sequential
from weft.nn.module.html import MOST_CHILDREN
from weft.tensor.reading.html import MOST_ELEMENTS, looked_at, png

EVIL = '<script>alert("x")</script>&'


class _Page(HTMLParser):
    """The tags of a page, which must close as they open, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_tensor_shows_its_picture_and_its_statistics() -> None:
    page = _Page(weft.tensor([[1.0, -2.0, 0.0], [3.0, 4.0, 5.0]], requires_grad=True)._repr_html_())
    assert "Tensor float32[2, 3], requires grad" in page.text
    assert "min -2, mean 1.833, max 5, std 2.409, 1 zeros" in page.text
    assert "img" in page.tags
    assert "[ 3.,  4.,  5.]" in page.text


def test_places_that_are_not_finite_are_named() -> None:
    x = weft.zeros(4, 5)
    x[1, 2], x[3, 0] = float("nan"), float("inf")
    page = _Page(x._repr_html_())
    assert "1 nan, 1 inf, 18 zeros" in page.text
    assert "not finite at [1, 2], [3, 0]" in page.text
    many = _Page(weft.full((3, 4), float("nan"))._repr_html_())
    assert "and 7 more" in many.text


@pytest.mark.parametrize(
    "value",
    [
        weft.zeros(0, 3),
        weft.tensor(3),
        weft.tensor([True, False]),
        weft.arange(6, dtype=weft.bfloat16),
        weft.ones(3, dtype=weft.complex64) * 1j,
        weft.ones(2, 3, 4, 5),
        weft.ones(3, device="meta"),
        weft.eye(3).to_sparse(),
        weft.nn.Parameter(weft.ones(2)),
        weft.randint(0, 255, (300, 400), dtype=weft.uint8),
    ],
    ids=lambda value: f"{value.dtype.name}{list(value.shape)}",
)
def test_every_kind_of_tensor_has_a_page(value: Any) -> None:
    page = _Page(value._repr_html_())
    assert repr(value).partition("(")[0] in page.text


def test_large_tensors_are_sampled() -> None:
    large = weft.ones(3_000_000).expand(4, 3_000_000)
    array, is_sample = looked_at(large)
    assert is_sample and array.size <= MOST_ELEMENTS
    page = large._repr_html_()
    assert f"of a sample of {array.size} of 12000000 elements" in page
    assert len(page) < 100_000


def test_no_more_is_computed_than_repr_computes() -> None:
    shown, other = weft.ones(3) + 1, weft.ones(3) * 2
    assert shown._repr_html_()
    before = counters["flushes"]
    assert shown._repr_html_() and other.requires_grad is False
    assert counters["flushes"] == before
    model = Linear(3, 4)
    pending = model.weight * 2
    weft.debug.draw(pending.sum())
    model._repr_html_()
    assert counters["flushes"] == before


def test_a_picture_is_a_png_of_the_values() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    data = png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert (height, width) == (2, 4)
    at = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[at - 4 : at])
    rows = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + length]), np.uint8).reshape(2, 13)
    assert (rows[:, 1:].reshape(2, 4, 3) == pixels).all()
    html = weft.tensor([[1.0, -1.0], [0.0, float("nan")]])._repr_html_()
    found = re.search(r"base64,([^\"]+)", html)
    assert found and b"IHDR" in base64.b64decode(found[1])


def test_a_module_is_a_tree() -> None:
    inner = Sequential(Linear(3, 4), ReLU())
    model = Sequential(inner, inner, Linear(4, 2, bias=False))
    page = _Page(model._repr_html_())
    assert "Sequential() 24 parameters" in page.text
    assert page.text.count("in_features=3, out_features=4, bias=True") == 2
    assert "weight float32[2, 4]" in page.text
    assert page.tags.count("details") == 6

    deep: Module = Linear(1, 1)
    for _ in range(200):
        deep = Sequential(deep)
    assert _Page(deep._repr_html_()).tags.count("details") == 201
    wide = _Page(Sequential(*[ReLU() for _ in range(250)])._repr_html_())
    assert wide.text.count("ReLU") == MOST_CHILDREN and "and 50 more modules" in wide.text


def test_text_of_the_program_is_escaped(tmp_path: Path) -> None:
    class Evil(Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weft.nn.Parameter(weft.ones(2))

        def extra_repr(self) -> str:
            return EVIL

    Evil.__name__ = EVIL
    page = Evil()._repr_html_()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 2

    path = tmp_path / "step.weft"
    x = weft.ones(2)
    with weft.debug.capture(path, {EVIL: x}):
        y = x + 1
    capsule = weft.debug.load_capsule(path)
    table = capsule._repr_html_()
    _Page(table)
    assert "<script>" not in table and "add" in table
    assert y.tolist() == [2.0, 2.0]


def test_a_drawing_without_a_path_is_shown() -> None:
    x = weft.ones(2, requires_grad=True)
    drawing: Any = weft.debug.draw((x * 2).sum())
    assert drawing._repr_svg_().startswith("<svg") and "mul" in drawing


def test_a_tensor_is_written_as_python() -> None:
    x = weft.tensor([1.0, -2.0, 3.0])
    y = (x * 2).relu().sum()
    text = weft.debug.to_python(y)
    assert "import weft" in text and "weft.relu" in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    namespace["test_same_bits"]()
    assert [value.item() for value in namespace["program"]().values()] == [8.0]
    with pytest.raises(TypeError, match="a capsule or a tensor"):
        weft.debug.to_python(3)  # type: ignore[arg-type]


def test_a_summary_is_a_table_of_what_it_prints() -> None:
    model = Sequential(Linear(3, 4), ReLU())
    model.add_module(EVIL.replace(".", ""), Linear(4, 2))
    found = weft.summary(model, weft.ones(5, 3))
    page = _Page(found._repr_html_())
    assert page.tags.count("tr") == len(str(found).splitlines()) == 5
    assert "script" not in page.tags
    assert EVIL in page.text
    assert page.text.replace(" ", "") == "".join(str(found).split())
