"""Numbers that a type cannot hold are refused where PyTorch refuses them, and held where it holds them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import weft
from oracle import torch

INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "bool")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (
    0, -1, -255, -256, 127, 128, 255, 256, 300, 70000, 2**40, 10**6, -0.5, 1.5, 255.5, 2**31 - 0.5, 1e10, 1e39, 1e300,
    float("inf"), -float("inf"), float("nan"),
)  # fmt: skip
CALLS: dict[str, Any] = {
    "full": lambda lib, number, dtype: lib.full((2,), number, dtype=dtype),
    "full_like": lambda lib, number, dtype: lib.full_like(lib.ones(2, dtype=dtype), number),
    "new_full": lambda lib, number, dtype: lib.ones(1, dtype=dtype).new_full((2,), number),
    "fill_": lambda lib, number, dtype: lib.ones(2, dtype=dtype).fill_(number),
    "masked_fill": lambda lib, number, dtype: lib.ones(2, dtype=dtype).masked_fill(
        lib.tensor([True, False]), number
    ),
    "index_fill": lambda lib, number, dtype: lib.ones(2, dtype=dtype).index_fill(
        0, lib.tensor([1]), number
    ),
    "tensor": lambda lib, number, dtype: lib.tensor(number, dtype=dtype),
    "tensor of a list": lambda lib, number, dtype: lib.tensor([number, number], dtype=dtype),
}


def _outcome(call: Any, lib: Any, number: Any, name: str) -> Any:
    try:
        made = call(lib, number, getattr(lib, name))
    except RuntimeError as error:
        return "without overflow" in str(error)
    return [str(value) for value in made.reshape(-1).tolist()]


@pytest.mark.parametrize("name", (*INTEGERS, *FLOATS))
@pytest.mark.parametrize("call", CALLS)
def test_as_in_pytorch(call: str, name: str) -> None:
    for number in NUMBERS:
        expected = _outcome(CALLS[call], torch, number, name)
        assert _outcome(CALLS[call], weft, number, name) == expected, number


@pytest.mark.parametrize("dtype", ("float32", "complex64"))
def test_floats_are_not_inverted_by_operator(dtype: str) -> None:
    for lib in (torch, weft):
        with pytest.raises(TypeError, match="only implemented on integer and Boolean-type"):
            ~lib.ones(2, dtype=getattr(lib, dtype))
    assert (~weft.tensor([1, -3])).tolist() == (~torch.tensor([1, -3])).tolist()
    assert (~weft.tensor([True, False])).tolist() == [False, True]


def test_topk_takes_no_bool_for_a_number() -> None:
    for lib in (torch, weft):
        values = lib.tensor([1.0, 3.0, 2.0])
        for call in (lib.topk, lib.Tensor.topk):
            with pytest.raises(TypeError, match="must be int, not bool"):
                call(values, True)
        assert lib.topk(values, 2)[1].tolist() == [1, 2]


@pytest.mark.parametrize("mode", ("reflect", "replicate", "circular"))
def test_padding_without_a_meaning_is_refused(mode: str) -> None:
    for rank in range(1, 7):
        for pairs in range(1, rank + 1):
            outcomes: list[Any] = []
            for lib in (torch, weft):
                try:
                    padded = lib.nn.functional.pad(lib.ones((3,) * rank), (1, 1) * pairs, mode=mode)
                    outcomes.append(tuple(padded.shape))
                except NotImplementedError as error:
                    outcomes.append(str(error).partition("\n")[0])
            assert outcomes[0] == outcomes[1], (rank, pairs)


@pytest.mark.parametrize(
    "data",
    [-1, [-1], [[1], [-2]], [2**63, -1], range(-1, 2), 1.5, [2.0], [2**63, 1.5], [1j], [1 + 0j], 2**64, [-(2**64)],
     [2**64 - 1], [True], [], [[]], [2**63, 1]],
)  # fmt: skip
def test_uint64_takes_no_negative_numbers_and_no_floats(data: Any) -> None:
    """Alone of all integer types it wraps no numbers of lists, and cuts no fractions."""

    def outcome(lib: Any) -> Any:
        try:
            return lib.tensor(data, dtype=lib.uint64).tolist()
        except (OverflowError, TypeError) as error:
            return isinstance(error, OverflowError), str(error).split(", called at")[0]

    assert outcome(weft) == outcome(torch)


@pytest.mark.parametrize("name", ("uint64", "int64", "uint8"))
@pytest.mark.parametrize("number", (2**64, -(2**64), 2**100))
def test_integers_beyond_64_bits_overflow(name: str, number: int) -> None:
    for lib in (torch, weft):
        dtype = getattr(lib, name)
        for make in (partial(lib.full, (1,)), lib.scalar_tensor):
            with pytest.raises(OverflowError):
                make(number, dtype=dtype)
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            lib.tensor([number], dtype=lib.int64)
