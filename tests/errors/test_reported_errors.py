"""Errors that once came bare, or named the wrong thing: each says what was expected, what came and how to fix it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft


def _assign(x: Any) -> None:
    x[0] = [1, [2]]


def _delete(x: Any) -> None:
    del x[0]


def _pending(*positions: int) -> Any:
    return weft.tensor(positions) + 0


def _scatter(reduce: str) -> Callable[[Any], Any]:
    return lambda x: weft.zeros(2, 3).scatter_reduce(0, _pending(0, 7, 1)[None], x, reduce).tolist()


def _pool(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(weft.nn.functional, name)(x.reshape(1, 1, 2, 3) * 1j, 2)


CASES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "lists of different lengths": (_assign, TypeError, r"can't assign a list.*got +\[1, \[2\]\]"),
    "deleting": (_delete, TypeError, r"does not support deleting items.*got +del tensor\[0\]"),
    "amax": (_scatter("amax"), IndexError, r"scatter_reduce: index out of range: index 7 .*size 2"),
    "amin": (_scatter("amin"), IndexError, r"scatter_reduce.*got +7 at position \[0, 1\]"),
    "prod": (_scatter("prod"), IndexError, r"scatter_reduce.*got +7 at position \[0, 1\]"),
    "second index": (
        lambda x: x[_pending(0, 1), _pending(0, 9)].tolist(),
        IndexError,
        r"index 9 is out of bounds for dimension 1 with size 3.*position \[1\] of an index \[2\]",
    ),
    "first index": (
        lambda x: x[_pending(-3, 1), _pending(0, 2)].tolist(),
        IndexError,
        r"index -3 is out of bounds for dimension 0 with size 2.*position \[0\] of an index \[2\]",
    ),
    "too many": (
        lambda x: x[:, None][:, :, _pending(1, 0)[:, None], _pending(0)].tolist(),
        IndexError,
        "too many indices",
    ),
    "max_pool2d": (_pool("max_pool2d"), RuntimeError, "max_pool2d.*not implemented for 'Compl"),
    "adaptive": (_pool("adaptive_max_pool2d"), RuntimeError, "adaptive_max_pool2d.*got +input com"),
    "a function": (lambda x: weft.save({"a": {"b": abs, "c": _pool("x")}}, io.BytesIO()), TypeError,
        r"save: a.b is a builtin_function.*Can't (?:pickle|get local).*fix +save a state_dict\(\)"),
    "no file": (lambda x: weft.save("model.safetensors", x), TypeError, "expected a file, got Tensor"),
}  # fmt: skip


def _saved(x: Any) -> io.BytesIO:
    file = io.BytesIO()
    weft.save({"a": x}, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("name", CASES)
def test_errors_say_what_was_expected(name: str) -> None:
    call, kind, text = CASES[name]
    x = weft.arange(6.0).reshape(2, 3)
    with pytest.raises(kind, match=f"(?s){text}") as caught:
        call(x)
    assert all(f"\n  {part} " in str(caught.value) for part in ("expected", "got", "fix"))
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_closed_files_and_files_of_the_other_direction(tmp_path: Path) -> None:
    x = weft.ones(2)
    with open(tmp_path / "file", "wb") as file:
        weft.save(x, file)
        with pytest.raises(OSError, match="(?s)load: the file is not readable.*fix +open it"):
            weft.load(file)
    with pytest.raises(ValueError, match="(?s)save: I/O operation on closed file.*fix +open it"):
        weft.save(x, file)
    with (
        open(tmp_path / "file", "rb") as file,
        pytest.raises(OSError, match="(?s)save: the file is not writable"),
    ):
        weft.save(x, file)


def test_map_location_as_pytorch_has_it() -> None:
    x = weft.arange(3.0)
    for place in ("cpu", weft.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}):
        assert weft.load(_saved(x), map_location=place)["a"].tolist() == x.tolist()
    loaded = weft.load(_saved(x), map_location=lambda storage, place: storage)
    assert loaded["a"].tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="(?s)no device 'cuda:1'.*fix"):
        weft.load(_saved(x), map_location={"cpu": "cuda:1"})


def test_pending_indices_are_right_where_they_are_in_range() -> None:
    x = weft.arange(24.0).reshape(2, 3, 4)
    rows, columns = _pending(1, -2, 0), _pending(-1, 2, 0)
    assert x[rows, columns].tolist() == x[[1, -2, 0], [-1, 2, 0]].tolist()
    assert x[:, _pending(2, 0), columns[:2]].tolist() == x[:, [2, 0], [-1, 2]].tolist()
    assert x[_pending(0, 1), :, _pending(3, -1)].tolist() == x[[0, 1], :, [3, -1]].tolist()
    y = x.clone()
    y[_pending(1, 0), columns[:2]] = 7.0
    assert y[1, 2].tolist() == y[0, 2].tolist() == [7.0] * 4


def test_vmap_is_there_as_in_pytorch() -> None:
    assert weft.vmap is weft.func.vmap
    assert weft.vmap(lambda x: x.sum())(weft.ones(2, 3)).tolist() == [3.0, 3.0]
