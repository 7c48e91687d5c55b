"""What the gradient records of public functions are called: as in PyTorch, over its op database.

The entries whose names agree are listed beside this file, and stay so. The list and counts are written by
`PYTHONPATH=tests python tests/autograd/grad_fn/test_record_names.py`."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import conformance
from weft.engine.api.grad_fn_names import RECORDS
from weft.engine.ir.node import Node

ROOT = Path(__file__).resolve().parents[3]
LIST = Path(__file__).with_name("record_names.txt")
SAMPLES = 3


@pytest.fixture(scope="module")
def operators() -> Any:
    """The entries and their calls, as `tools/conformance` has them."""
    return conformance("operators")


def names(operators: Any, entry: str) -> set[tuple[str | None, str | None]]:
    """The names of the records of an entry's first results: ours and theirs."""
    compare, convert = conformance("compare"), conformance("convert")
    info = operators.entries()[entry]
    found = set()
    dtype = operators.dtypes_of(info)[0]
    function = convert.function(info.op, info.name)
    for call in operators.calls(info, function, dtype, SAMPLES, True):
        mine, theirs = compare.tensors(call.mine()), compare.tensors(call.theirs())
        for ours, other in zip(mine, theirs, strict=True):
            if other.grad_fn is not None:
                found.add((ours.grad_fn and ours.grad_fn.name(), other.grad_fn.name()))
    return found


def agrees(operators: Any, entry: str) -> bool:
    """Whether there are names, and all are PyTorch's."""
    found = names(operators, entry)
    return bool(found) and all(ours == theirs for ours, theirs in found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", LIST.read_text().split() if LIST.exists() else ())
def test_a_record_is_called_as_in_torch(operators: Any, entry: str) -> None:
    found = names(operators, entry)
    assert found
    assert [pair for pair in found if pair[0] != pair[1]] == []


def test_names_are_those_of_public_functions() -> None:
    places = (weft.nn.functional, weft, weft.linalg, weft.fft, weft.special, weft.Tensor)
    for name, record in RECORDS.items():
        found = [getattr(place, name) for place in places if hasattr(place, name)]
        # What takes modes by number calls the function that has the name; weft.cond is a branch, no operation.
        others = ("weft.compat.aten.modes_by_number", "weft.compat.root_functions")
        found = [one for one in found if one.__wrapped__.__module__ not in others]
        assert found, name
        assert [function.record for function in found] == [record] * len(found), name
    assert weft.add.record is weft.matmul.record is weft.nn.functional.linear.record is None


def test_what_was_recorded_before_keeps_its_name() -> None:
    functional = weft.nn.functional
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    z = x + 1
    assert functional.dropout(z, 0.5, False).grad_fn.name() == "AddBackward0"
    assert functional.celu(z).grad_fn.name() == "CeluBackward0" != z.grad_fn.name()
    assert functional.softplus(y).grad_fn.name() == "SoftplusBackward0"
    assert x.var().grad_fn.name() == "VarBackward0" == weft.var(x).grad_fn.name()
    assert y.grad_fn.name() == "MulBackward0"
    assert functional.softplus(weft.ones(3)).grad_fn is None


def test_names_change_nothing_else() -> None:
    """Gradients of any order go through a record that has been named."""
    x = weft.tensor([0.5, -1.0, 2.0], dtype=weft.float64, requires_grad=True)
    weft.autograd.gradcheck(weft.nn.functional.softplus, (x,))
    weft.autograd.gradgradcheck(weft.std, (x,))
    named = weft.nn.functional.layer_norm(x, (3,))
    assert named.grad_fn.name() == "NativeLayerNormBackward0"
    (slope,) = weft.autograd.grad(named.square().sum(), x, create_graph=True)
    assert slope.sum().isfinite().item()


def test_joined_and_written_values_have_the_names_of_functions() -> None:
    """Also where the schedule knows their rows: what it makes of them stays the same, bit by bit."""
    functional = weft.nn.functional
    x = weft.tensor([[0.5, -1.0], [2.0, 3.0]], dtype=weft.float64, requires_grad=True)
    calls = {
        "StackBackward0": lambda x: weft.stack([row.sin() for row in x]),
        "ConstantPadNdBackward0": lambda x: functional.pad(x, (1, 2)),
        "DiagEmbedBackward0": weft.diag_embed,
        "SelectScatterBackward0": lambda x: weft.select_scatter(x, x[0], 0, 1),
        "MaskedFillBackward0": lambda x: x.masked_fill(x > 1, 0.5),
        "UpsampleLinear1DBackward0": lambda x: functional.interpolate(x[None], 3, mode="linear"),
    }
    for name, call in calls.items():
        made = call(x)
        assert made.grad_fn.name() == name == type(made.grad_fn).__name__
        weft.autograd.gradcheck(call, (x,))
        weft.autograd.gradgradcheck(call, (x,))
        grouped = weft.autograd.grad(call(x).square().sum(), x)[0].tolist()
        with weft.eager():
            assert weft.autograd.grad(call(x).square().sum(), x)[0].tolist() == grouped
    y = x * 2
    assert functional.pad(y, (0, 0)).grad_fn.name() in ("MulBackward0", "ConstantPadNdBackward0")
    assert y.grad_fn.name() == "MulBackward0"


def _write() -> None:
    """List the entries that agree."""
    operators = conformance("operators")
    agreeing, tried = [], 0
    for entry, info in operators.entries().items():
        if not info.supports_autograd:
            continue
        try:
            tried += 1
            if agrees(operators, entry):
                agreeing.append(entry)
        except Exception as error:
            print(f"{entry}: {type(error).__name__}: {str(error)[:80]}")
    LIST.write_text("\n".join(agreeing) + "\n")
    print(f"{len(agreeing)} of {tried}")


def test_only_a_record_that_has_been_looked_at_is_the_collectors() -> None:
    """It may hold what users attach to it; all others are spared the collector's rounds."""

    def known() -> int:
        return sum(isinstance(found, Node) for found in gc.get_objects())

    gc.collect()
    before = known()
    value = weft.ones(2, requires_grad=True).exp()
    assert known() == before
    assert gc.is_tracked(value.grad_fn)
    assert known() == before + 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _write()
