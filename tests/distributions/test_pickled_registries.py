"""The registries of constraints can be pickled and copied; the copies make the same transforms."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from weft.distributions import biject_to, constraints, transform_to

CONSTRAINTS = [
    constraints.real,
    constraints.positive,
    constraints.unit_interval,
    constraints.simplex,
    constraints.lower_cholesky,
    constraints.greater_than(2.0),
    constraints.independent(constraints.positive, 1),
]


@pytest.mark.parametrize("copied", [lambda r: pickle.loads(pickle.dumps(r)), copy.deepcopy])
@pytest.mark.parametrize("registry", [biject_to, transform_to])
def test_a_copy_makes_the_same_transforms(registry: Any, copied: Any) -> None:
    other = copied(registry)
    assert other is not registry
    for constraint in CONSTRAINTS:
        assert repr(other(constraint)) == repr(registry(constraint))
    other.register(constraints.real, lambda constraint: "another")
    assert registry(constraints.real) != "another"
