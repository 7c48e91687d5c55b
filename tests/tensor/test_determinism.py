"""The setting of deterministic algorithms is remembered, and what new memory shows under it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request: pytest.FixtureRequest) -> Iterator[Any]:
    library = weft if request.param == "weft" else pytest.importorskip("torch")
    yield library
    library.use_deterministic_algorithms(False)
    filling(library).fill_uninitialized_memory = True


def filling(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.utils.deterministic")


def said(lib: Any) -> Any:
    return (
        lib.are_deterministic_algorithms_enabled(),
        lib.is_deterministic_algorithms_warn_only_enabled(),
        lib.get_deterministic_debug_mode(),
    )


def test_what_is_asked_for_is_remembered(lib: Any) -> None:
    assert said(lib) == (False, False, 0)
    lib.use_deterministic_algorithms(True)
    assert said(lib) == (True, False, 2)
    lib.use_deterministic_algorithms(True, warn_only=True)
    assert said(lib) == (True, True, 1)
    for mode, wanted in (
        ("default", (False, False, 0)),
        ("warn", (True, True, 1)),
        ("error", (True, False, 2)),
        (0, (False, False, 0)),
        (1, (True, True, 1)),
        (2, (True, False, 2)),
    ):
        lib.set_deterministic_debug_mode(mode)
        assert said(lib) == wanted
    for mode, kind in (("loud", RuntimeError), (3, RuntimeError), (None, TypeError)):
        with pytest.raises(kind):
            lib.set_deterministic_debug_mode(mode)


MAKERS = {
    "empty": lambda lib, dtype: lib.empty(2, dtype=dtype),
    "empty_like": lambda lib, dtype: lib.empty_like(lib.ones(2, dtype=dtype)),
    "new_empty": lambda lib, dtype: lib.ones(1, dtype=dtype).new_empty(2),
    "empty_strided": lambda lib, dtype: lib.empty_strided((2,), (1,), dtype=dtype),
    "new_empty_strided": lambda lib, dtype: lib.ones(1, dtype=dtype).new_empty_strided((2,), (1,)),
    "empty_permuted": lambda lib, dtype: lib.empty_permuted((2, 1), (1, 0), dtype=dtype),
    "resize_": lambda lib, dtype: lib.ones(1, dtype=dtype).resize_(3)[1:],
}
TYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
]


@pytest.mark.parametrize("maker", MAKERS)
def test_memory_that_nobody_has_written_stands_out(maker: str) -> None:
    torch = pytest.importorskip("torch")

    def values(lib: Any) -> list[Any]:
        lib.use_deterministic_algorithms(True)
        found = [MAKERS[maker](lib, getattr(lib, name)) for name in TYPES]
        lib.use_deterministic_algorithms(False)
        return [str(value.reshape(-1).tolist()) for value in found]

    assert values(weft) == values(torch)


def test_filling_can_be_switched_off() -> None:
    weft.use_deterministic_algorithms(True)
    filling(weft).fill_uninitialized_memory = False
    try:
        assert weft.empty(2).tolist() == [0.0, 0.0]
        assert filling(weft).fill_uninitialized_memory is False
    finally:
        filling(weft).fill_uninitialized_memory = True
        weft.use_deterministic_algorithms(False)
    assert weft.empty(2).tolist() == [0.0, 0.0]
