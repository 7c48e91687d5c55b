"""What is remembered of kernels has bounds: with small ones everything works as with large ones, and what is forgotten
is freed."""

from __future__ import annotations

import gc
import random
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.engine.capi.lru_table import LruTable
from weft.engine.devices.cpu import jit
from weft.engine.devices.cpu.linking import Image
from weft.engine.pipeline.lowering import spec_table
from weft.engine.runtime import executable_cache

UNARY = ("relu", "tanh", "abs", "square", "neg", "exp", "sin")
BINARY = ("add", "sub", "mul", "maximum")
ROOM = 12  # kernels: those of a small program, whole and taken apart

# -- the table -------------------------------------------------------------------------------------------------------


@given(
    most=st.integers(1, 5),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=60),
)
def test_the_least_recently_used_entries_go(most: int, steps: list[tuple[bool, int]]) -> None:
    table, model = LruTable(most), []  # the model: keys, the last one used last
    for number, (writes, key) in enumerate(steps):
        if writes:
            table.put(key, (key, number))
            model = [other for other in model if other != key] + [key]
            model = model[-most:]
        else:
            value = table.get(key)
            assert (value is not None) == (key in model) and (value is None or value[0] == key)
            if key in model:
                model = [other for other in model if other != key] + [key]
        assert len(table) == len(model) and all(key in table for key in model)
    table.clear()
    assert len(table) == 0


# -- kernels ---------------------------------------------------------------------------------------------------------


def unseen(seed: int) -> Any:
    """An expression that hardly any other seed gives."""
    choose = random.Random(seed)
    values = [weft.tensor([[0.5, 0.25], [1.0, -0.5]]), weft.tensor([0.5, 2.0])]
    for _ in range(7):
        one, other = choose.choice(values), choose.choice(values)
        values.append(getattr(weft, choose.choice(BINARY))(one, other.clamp(-2, 2)))
        values.append(getattr(values[-1].clamp(-1, 1), choose.choice(UNARY))())
    return values[-1].sum(choose.choice((0, -1)))


def known(x: Any) -> list[float]:
    """A program that runs as a known one from its third time on."""
    return list((x * 2 + 1).tanh().sum(0).tolist())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a few kernels, of which two are in memory as code unless somebody holds them."""
    weft.realize(weft.ones(1))
    compiler = jit.compiler()
    compiler.forget()
    spec_table.by_words.clear()
    executable_cache.clear()
    monkeypatch.setattr(spec_table.by_words, "most", ROOM)
    monkeypatch.setattr(compiler._libraries, "most", 2)


def held() -> tuple[int, int]:
    """Specs and blocks of machine code that are alive."""
    gc.collect()
    return len(spec_table.kernel_specs()), sum(isinstance(o, Image) for o in gc.get_objects())


def test_values_are_those_with_room_for_all(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    few = [unseen(seed).tolist() for seed in range(40)]
    monkeypatch.undo()
    assert [unseen(seed).tolist() for seed in range(40)] == few


def test_what_is_forgotten_is_freed(small: None) -> None:
    for seed in range(100, 110):
        unseen(seed).tolist()
    before = held()
    for seed in range(110, 190):
        unseen(seed).tolist()
    after = held()
    assert len(spec_table.by_words) <= ROOM and len(jit.compiler()) <= 2
    assert after[0] <= before[0] + ROOM and after[1] <= before[1] + ROOM


def test_a_known_program_keeps_its_code(small: None, known_soon: None) -> None:
    """Its kernels are forgotten by their words, and their libraries by the compiler; it runs on."""
    x = weft.tensor([[0.5, -1.0], [2.0, 0.25]])
    first = [known(x) for _ in range(4)]
    for seed in range(200, 230):
        unseen(seed).tolist()
    links = jit.compiler().counters.links
    hits = executable_cache.counters["hits"]
    assert [known(x) for _ in range(4)] == first
    assert jit.compiler().counters.links == links
    assert executable_cache.counters["hits"] == hits + 4


def test_one_name_is_one_spec(small: None) -> None:
    """A kernel that a known program holds is found by its name when its words come as new."""
    x = weft.tensor([[0.5, -1.0], [2.0, 0.25]])
    for _ in range(4):
        known(x)
    specs = dict(spec_table.kernel_specs())
    spec_table.by_words.clear()
    (x * 2 + 1).tanh().sum(0).tolist()
    again = spec_table.kernel_specs()
    assert all(again[name] is spec for name, spec in specs.items() if name in again)


def test_the_page_says_the_bounds() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "performance.md"
    rows = re.findall(r"\(`(weft[\w.]+)\.(\w+)`\) \| ([\d,]+) \|", page.read_text())
    assert len(rows) == 8
    for module, name, bound in rows:
        assert getattr(import_module(module), name) == int(bound.replace(",", "")), name
