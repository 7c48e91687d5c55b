"""A random program for every number, and how it runs: `tools/random_programs.py` compares a million of them.

A case is a program of one of three kinds. Programs of indices and of aliases show the same bits as on PyTorch; programs
of arithmetic those that they show on Weft where every value is read as soon as it is recorded. Most run node by node,
so that no time goes into kernels of their own. Those of the other tiers come as relatives: eight programs of the same
steps on other values and other sizes run the same kernels and, from the third on, known programs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import aliasing_programs
import random_index_programs
import random_programs
import weft
from oracle import torch
from small_budgets import NODES, REGROUPED, within
from weft.config import config

RELATIVES = 8
KINDS = {"indices": 29, "aliases": 2, "arithmetic": 1}  # how often each comes
TIERS = {"every": 28, "novel": 3, "none": 1}  # which programs run node by node, as in `config`


@contextmanager
def tier(name: str) -> Iterator[None]:
    """Which programs run node by node inside."""
    before, config.interpreter = config.interpreter, name
    try:
        yield
    finally:
        config.interpreter = before


@dataclass(frozen=True)
class Case:
    """A program that can be made shorter, and what shows that it goes wrong."""

    name: str
    steps: list[Any]
    compare: Callable[[list[Any]], list[str]]

    def differences(self) -> list[str]:
        """What differs; empty if nothing does."""
        return self.compare(self.steps)

    def shortened(self) -> Case:
        """The same without the steps without which something differs as well, left out one by one."""
        steps = self.steps
        for place in reversed(range(len(steps))):
            shorter = [*steps[:place], *steps[place + 1 :]]
            if self.compare(shorter):
                steps = shorter
        return Case(self.name, steps, self.compare)


def drawn(draw: random.Random, chances: dict[str, int]) -> str:
    """One of some names."""
    return draw.choices(list(chances), list(chances.values()))[0]


def case_of(number: int) -> Case:
    """The case of a number."""
    family, relative = divmod(number, RELATIVES)
    draw = random.Random(family)
    kind, tier_name = drawn(draw, KINDS), drawn(draw, TIERS)
    if tier_name == "every":
        draw, family, relative = random.Random(number), number, 0
    steps, way, compare = MAKERS[kind](family, relative, draw)

    def differences(steps: list[Any]) -> list[str]:
        with tier(tier_name):
            return compare(steps, **way)

    return Case(f"{kind}, {tier_name}, {way}", steps, differences)


Made = tuple[list[Any], dict[str, Any], Callable[..., list[str]]]


def of_indices(family: int, relative: int, draw: random.Random) -> Made:
    """With or without writes, for one example or several, looked at or not, with more or less pending."""
    examples = draw.choice([1, 1, 1, 3])
    way = {
        "seed": family,
        "writing": draw.random() < 0.67,
        "look": draw.random() < 0.2,
        "examples": examples,
        "first": relative * examples,
        "growth": relative // 4,
        "nodes": draw.choice([*NODES, *[None] * 20]),
    }
    return random_index_programs.program_of(family), way, compare_indices


def compare_indices(steps: list[Any], seed: int, **way: Any) -> list[str]:
    return random_index_programs.compare(steps, seed, torch, way)


def of_aliases(family: int, relative: int, draw: random.Random) -> Made:
    """Looked at after every step, after some, or at the end. Relatives are other programs."""
    way = {"seed": family + relative, "every": draw.choice([1, 4, 25]), "nodes": None}
    way["nodes"] = draw.choice([*NODES, *[None] * 10])
    return list(range(aliasing_programs.STEPS)), way, compare_aliases


def compare_aliases(steps: list[int], seed: int, every: int, nodes: int | None) -> list[str]:
    with nullcontext() if nodes is None else within(nodes):
        return aliasing_programs.differences(torch, seed, steps, every)


def of_arithmetic(family: int, relative: int, draw: random.Random) -> Made:
    """Within a budget of nodes; a value is read as soon as it is recorded, or not."""
    way = {"seed": family + relative, "nodes": draw.choice(NODES)}
    return random_index_programs.program_of(family), way, compare_arithmetic


def compare_arithmetic(steps: list[Any], seed: int, nodes: int) -> list[str]:
    late = random_programs.Machine(weft, "float64", seed).run(steps, losses=3)
    with within(nodes):
        early = random_programs.Machine(weft, "float64", seed).run(steps, losses=3)
    looked = random_programs.Machine(weft, "float64", seed, look=True).run(steps, losses=3)
    return [
        text
        for other in (early, looked)
        for text in random_programs.differences(late, other, 0.0, REGROUPED)
    ]


MAKERS: dict[str, Callable[[int, int, random.Random], Made]] = {
    "indices": of_indices,
    "aliases": of_aliases,
    "arithmetic": of_arithmetic,
}
