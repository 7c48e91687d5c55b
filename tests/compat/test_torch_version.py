"""`torch.__version__` under `as_torch` is ordered as PyTorch's."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
from weft.torch_version import TorchVersion

torch_version = pytest.importorskip("torch.torch_version")

TEXTS = [
    "2", "2.0", "2.0.0", "2.13.0", "2.9.1", "1.10", "v2.1", "2.1.0+cpu", "2.1.0+cu118", "2.1.0+2", "2.1.0+git1.a",
    "2.1.0a0", "2.1.0a0+git12ab", "2.1.0b2", "2.1.0rc1", "2.1.0.dev20240101", "2.1.0.post1", "parrot", "2.x", "",
]  # fmt: skip
OTHERS: list[Any] = [*TEXTS, (2,), (2, 1), (2, 13, 0), [1, 9], (2, "1", "0a0"), ("a", "parrot")]
RELATIONS = [operator.lt, operator.le, operator.eq, operator.gt, operator.ge]


def outcome(relation: Any, left: Any, right: Any) -> Any:
    try:
        return relation(left, right)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("text", TEXTS)
def test_versions_are_ordered_as_pytorchs(text: str) -> None:
    mine, theirs = TorchVersion(text), torch_version.TorchVersion(text)
    for relation, other in itertools.product(RELATIONS, OTHERS):
        assert outcome(relation, mine, other) == outcome(relation, theirs, other), (relation, other)
        assert (mine != other) is not (mine == other)  # PyTorch's != compares the texts


@pytest.mark.parametrize("other", [2, 2.1, None])
def test_what_is_no_version_is_not_ordered(other: Any) -> None:
    for relation in RELATIONS:
        expected = outcome(relation, torch_version.TorchVersion("2.1"), other)
        assert outcome(relation, TorchVersion("2.1"), other) == expected


def test_a_version_stays_a_string() -> None:
    version = TorchVersion("2.13.0")
    assert isinstance(version, str) and hash(version) == hash("2.13.0")
    assert version.split(".")[:2] == ["2", "13"] and {"2.13.0": 1}[version] == 1
