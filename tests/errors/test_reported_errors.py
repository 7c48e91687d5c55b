"""Errors that once came bare, or named the wrong thing: each says what was expected, what came and how to fix it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import both
from weft.engine.api.argument_errors import explain
from weft.functional.elementwise import binary


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
    "amax": (_scatter("amax"), IndexError, r"index 7 .*size 2.*\(scatter_reduce\)"),
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
    with pytest.raises(
        RuntimeError, match="(?s)^Attempting to deserialize object on a CUDA device.*'cuda:1'.*fix"
    ):
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


UNSUPPORTED = {
    "softmax of integers": lambda lib, F: F.softmax(lib.ones(3, dtype=lib.int64), 0),
    "abs of booleans": lambda lib, F: lib.abs(lib.ones(3, dtype=lib.bool)),
    "atan2 of complex numbers": lambda lib, F: lib.atan2(*[lib.ones(3, dtype=lib.complex64)] * 2),
    "gelu of integers": lambda lib, F: F.gelu(lib.ones(3, dtype=lib.int64)),
    "booleans multiplied": lambda lib, F: lib.ones(2, 2, dtype=lib.bool) @ lib.ones(2, 2).bool(),
    "bits of floats": lambda lib, F: lib.ones(3) << lib.ones(3),
    "max_pool2d of complex numbers": lambda lib, F: F.max_pool2d(
        lib.ones(1, 2, 2, dtype=lib.complex64), 2
    ),
    "bilinear, integers": lambda lib, F: F.interpolate(
        lib.ones(1, 1, 2, 2, dtype=lib.int64), scale_factor=2, mode="bilinear"
    ),
    "the median of booleans": lambda lib, F: lib.median(lib.ones(3, dtype=lib.bool)),
    "a permutation of booleans": lambda lib, F: lib.randperm(3, dtype=lib.bool),
    "random integers": lambda lib, F: lib.rand(3, dtype=lib.int64),
    "a range of booleans": lambda lib, F: lib.arange(3, dtype=lib.bool),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
@both
def test_a_type_that_has_no_kernel_is_not_implemented(lib: Any, case: str) -> None:
    with pytest.raises(NotImplementedError, match=r'^".*" not implemented for '):
        UNSUPPORTED[case](lib, lib.nn.functional)


WRONG_CALLS = {
    "too few": (
        lambda lib: lib.cosh(),
        r'^cosh\(\) missing 1 required positional arguments: "input"',
    ),
    "too many": (
        lambda lib: lib.cosh(lib.ones(1), 1),
        r"^cosh\(\) takes 1 positional argument but 2 were given",
    ),
    "too many of some": (
        lambda lib: lib.chunk(lib.ones(4), 2, 0, 1),
        r"^chunk\(\) takes from 2 to 3 positional arguments but 4 were given",
    ),
    "an unknown keyword": (
        lambda lib: lib.cosh(lib.ones(1), nope=1),
        r"^cosh\(\) got an unexpected keyword argument 'nope'",
    ),
    "twice": (
        lambda lib: lib.isclose(lib.ones(1), lib.ones(1), 0.1, rtol=0.1),
        r"^isclose\(\) got multiple values for argument 'rtol'",
    ),
    "several forms": (
        lambda lib: lib.clamp_max(lib.ones(1)),
        r"^clamp_max\(\) received an invalid combination of arguments - got \(Tensor\)",
    ),
    "an array": (
        lambda lib: lib.cosh(np.ones(1)),
        r"^cosh\(\): argument 'input' \(position 1\) must be Tensor, not numpy\.ndarray",
    ),
    "a keyword has no position": (
        lambda lib: lib.add(lib.ones(1), lib.ones(1), alpha=None),
        r"^add\(\): argument 'alpha' must be Number, not NoneType",
    ),
    "a dimension": (
        lambda lib: lib.cumsum(lib.ones(1), "x"),
        r"^cumsum\(\): argument 'dim' \(position 2\) must be int, not str",
    ),
    "a function within": (
        lambda lib: lib.addmv(lib.ones(2), 3, lib.ones(2)),
        r"^addmv\(\): argument 'mat' \(position 2\) must be Tensor, not int",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
@both
def test_wrong_calls_are_told_in_the_words_of_pytorch(lib: Any, case: str) -> None:
    call, words = WRONG_CALLS[case]
    with pytest.raises(TypeError, match=words):
        call(lib)


def test_positions_leave_self_out() -> None:
    with pytest.raises(TypeError, match=r"^to_sparse\(\): argument 'sparse_dim' \(position 1\)"):
        weft.ones(2).to_sparse("a")
    with pytest.raises(TypeError, match=r"^ZeroPad2d\(\): argument 'padding' \(position 1\)"):
        weft.nn.ZeroPad2d(1.5)
    with pytest.raises(
        TypeError, match=r"^LayerNorm\(\): argument 'normalized_shape' \(position 1\)"
    ):
        weft.nn.LayerNorm(weft.tensor(8.0))


def test_a_function_without_a_signature_is_explained_by_nothing() -> None:
    wrong = TypeError("not in the signature")
    for function in (max, type):  # inspect.signature refuses both
        assert explain(function, [1, 2], {}, wrong) is None


@pytest.mark.parametrize(
    ("base", "exponent", "blamed"),
    [(2, "a", "exponent"), ("a", 2, "input"), ("a", "b", "input"), (2, 2, "input")],
)
def test_powers_blame_the_operand_that_is_no_number(
    base: object, exponent: object, blamed: str
) -> None:
    with pytest.raises(TypeError, match=rf"argument '{blamed}' \(position \d\) must be Tensor"):
        weft.pow(base, exponent)


def test_two_tensors_that_nobody_computes_with_are_refused() -> None:
    """A function never returns NotImplemented, which only operators may."""
    with pytest.raises(
        TypeError, match=r"unsupported operand type\(s\) for add\(\): Tensor and Parameter"
    ):
        binary._answered("add", NotImplemented, weft.ones(1), weft.nn.Parameter(weft.ones(1)))
