"""Trees of values: what is taken apart is not held afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from weft.utils import _pytree as pytree


class _Leaf:
    pass


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "use",
    [
        pytree.tree_flatten,
        pytree.tree_leaves,
        lambda tree: pytree.tree_map(lambda leaf: leaf, tree),
        lambda tree: pytree.tree_map_only(_Leaf, lambda leaf: leaf, tree),
        lambda tree: pytree.tree_unflatten(*pytree.tree_flatten(tree)),
    ],
)
def test_leaves_are_freed_without_the_collector(
    no_collector: None, use: Callable[[Any], object]
) -> None:
    leaf = _Leaf()
    seen = weakref.ref(leaf)
    use({"a": [leaf, (1, {"b": leaf})]})
    del leaf
    assert seen() is None
