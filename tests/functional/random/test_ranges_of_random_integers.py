"""Random integers that a dtype does not hold, sizes that are none: PyTorch's errors, not other values."""

from typing import Any

import pytest

import weft
from oracle import torch
from weft.debug import stages


@pytest.mark.parametrize(
    "draw",
    [
        lambda m: m.randint(1, 5, (-3,)),
        lambda m: m.randint(0, 300, (3,), dtype=m.uint8),
        lambda m: m.randint(-1, 3, (3,), dtype=m.uint8),
        lambda m: m.randint_like(m.zeros(2, dtype=m.int8), 128 + 1),
        lambda m: m.empty(3, dtype=m.int8).random_(0, 200),
        lambda m: m.empty(3).random_(0),
        lambda m: m.randperm(300, dtype=m.uint8),
        lambda m: m.randperm(2050, dtype=m.float16),
        lambda m: m.randperm(3, dtype=m.bool),
        lambda m: m.randperm(3, dtype=m.complex64),
        lambda m: m.randperm(-1),
        lambda m: m.multinomial(m.ones(3, 0), 1),
    ],
)
def test_what_no_dtype_holds_is_refused(draw: Any) -> None:
    for module in (torch, weft):
        with pytest.raises(RuntimeError):
            draw(module)


def test_the_last_number_that_fits() -> None:
    for name, count in {"uint8": 256, "int8": 128, "float16": 2049, "bfloat16": 257}.items():
        drawn = weft.randperm(count, dtype=getattr(weft, name))
        assert sorted(drawn.tolist()) == list(range(count)), name
        torch.randperm(count, dtype=getattr(torch, name))
    assert weft.randint(255, 256, (2,), dtype=weft.uint8).tolist() == [255, 255]
    assert weft.randint(-(2**63), 2**63 - 1, (4,)).dtype is weft.int64
    assert set(weft.randint(0, 2, (50,), dtype=weft.bool).tolist()) == {False, True}


def test_a_number_of_draws_is_an_integer() -> None:
    with pytest.raises(TypeError):
        weft.multinomial(weft.ones(3), 1.5)


@pytest.mark.parametrize("name", ["int64", "int32", "float32"])
def test_randperm_writes_to_out(name: str) -> None:
    weft.manual_seed(3)
    wanted = weft.randperm(5).tolist()
    weft.manual_seed(3)
    out = weft.empty(0, dtype=getattr(weft, name))
    assert weft.randperm(5, out=out) is out
    assert out.tolist() == wanted
    assert weft.randperm(5, out=weft.empty(5, device="meta")).is_meta


def test_nanmedian_of_what_has_no_nan() -> None:
    for values in (torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool)):
        for dim in (None, 0, -1):
            given = () if dim is None else (dim,)
            try:
                wanted = torch.nanmedian(values, *given)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    weft.nanmedian(weft.tensor(values.tolist()), *given)
                continue
            got = weft.nanmedian(weft.tensor(values.tolist()), *given)
            first = (lambda x: x) if dim is None else (lambda x: x[0])
            assert first(got).tolist() == first(wanted).tolist()
    for module in (torch, weft):
        with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
            module.nanmedian(module.empty(3, 0), 1)


def test_drawn_positions_are_known_to_be_in_range() -> None:
    """What may fail keeps all that it is computed from: a large buffer would be copied by each write."""
    buffer = weft.zeros(64, 4)

    def step() -> weft.Tensor:
        buffer[3] = 1.0
        return buffer[weft.randint(2, 64, (8,))].sum()

    assert "may fail" not in stages(step)["collect"]
    with pytest.raises(IndexError):
        buffer[weft.randint(64, 66, (8,))].sum().item()
