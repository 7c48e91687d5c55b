"""Results of several tensors have PyTorch's types: their names, members, text, and what takes them apart."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import weft
from weft.utils import _pytree

torch = pytest.importorskip("torch")


def room(lib: Any, *types: str) -> tuple[Any, ...]:
    return tuple(lib.empty(0, dtype=getattr(lib, name)) for name in types)


FLOATS = ("float32", "float32")
PLACES = ("float32", "int64")
CALLS: dict[str, Any] = {
    "max": lambda t, x, s: x.max(1),
    "max of a number": lambda t, x, s: t.tensor(2.0).max(0),
    "min": lambda t, x, s: x.min(1),
    "sort": lambda t, x, s: x.sort(),
    "sort of a number": lambda t, x, s: t.tensor(2.0).sort(),
    "topk": lambda t, x, s: x.topk(2),
    "mode": lambda t, x, s: x.mode(),
    "median": lambda t, x, s: x.median(1),
    "nanmedian": lambda t, x, s: x.nanmedian(1),
    "nanmedian of integers": lambda t, x, s: t.tensor([2, 1]).nanmedian(0),
    "kthvalue": lambda t, x, s: x.kthvalue(2),
    "cummax": lambda t, x, s: x.cummax(0),
    "cummin": lambda t, x, s: t.cummin(x, 0),
    "aminmax": lambda t, x, s: x.aminmax(),
    "frexp": lambda t, x, s: x.frexp(),
    "svd": lambda t, x, s: t.svd(x),
    "linalg.svd": lambda t, x, s: t.linalg.svd(x),
    "slogdet": lambda t, x, s: x.slogdet(),
    "linalg.slogdet": lambda t, x, s: t.linalg.slogdet(x),
    "qr": lambda t, x, s: t.qr(x),
    "linalg.qr": lambda t, x, s: t.linalg.qr(x),
    "linalg.eigh": lambda t, x, s: t.linalg.eigh(s),
    "linalg.eig": lambda t, x, s: t.linalg.eig(s),
    "linalg.lu": lambda t, x, s: t.linalg.lu(x),
    "linalg.lu_factor": lambda t, x, s: t.linalg.lu_factor(x),
    "linalg.lu_factor_ex": lambda t, x, s: t.linalg.lu_factor_ex(x),
    "lu_unpack": lambda t, x, s: t.lu_unpack(*t.linalg.lu_factor(x)),
    "lu": lambda t, x, s: t.lu(x),
    "lu with infos": lambda t, x, s: t.lu(x, get_infos=True),
    "lu of a method": lambda t, x, s: x.lu(get_infos=True),
    "histogram": lambda t, x, s: t.histogram(x, 3),
    "histogramdd": lambda t, x, s: t.histogramdd(x, [2, 2, 2]),
    "geqrf": lambda t, x, s: t.geqrf(x),
    "linalg.lstsq": lambda t, x, s: t.linalg.lstsq(x, s),
    "linalg.inv_ex": lambda t, x, s: t.linalg.inv_ex(x),
    "linalg.solve_ex": lambda t, x, s: t.linalg.solve_ex(x, s),
    "linalg.cholesky_ex": lambda t, x, s: t.linalg.cholesky_ex(s),
    "linalg.ldl_factor": lambda t, x, s: t.linalg.ldl_factor(s),
    "linalg.ldl_factor_ex": lambda t, x, s: t.linalg.ldl_factor_ex(s),
    "triangular_solve": lambda t, x, s: t.triangular_solve(x, s),
    "max out": lambda t, x, s: t.max(x, 0, out=room(t, *PLACES)),
    "topk out": lambda t, x, s: t.topk(x, 2, out=room(t, *PLACES)),
    "sort out": lambda t, x, s: t.sort(x, out=room(t, *PLACES)),
    "mode out": lambda t, x, s: t.mode(x, out=room(t, *PLACES)),
    "cummax out": lambda t, x, s: t.cummax(x, 0, out=room(t, *PLACES)),
    "nanmedian out": lambda t, x, s: t.nanmedian(x, 0, out=room(t, *PLACES)),
    "frexp out": lambda t, x, s: t.frexp(x, out=room(t, "float32", "int32")),
    "slogdet out": lambda t, x, s: t.slogdet(x, out=room(t, *FLOATS)),
    "aminmax out": lambda t, x, s: t.aminmax(x, out=room(t, *FLOATS)),
    "linalg.lu out": lambda t, x, s: t.linalg.lu(x, out=room(t, *FLOATS, "float32")),
    "through vmap": lambda t, x, s: t.func.vmap(lambda row: row.max(0))(x),
}  # fmt: skip
NUMBERS = [[3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [7.0, 9.0, 8.5]]


def called(lib: Any, name: str) -> Any:
    x = lib.tensor(NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CALLS[name](lib, x, x @ x.T)


@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_the_type_that_pytorch_gives_it(name):
    mine, theirs = (type(called(lib, name)) for lib in (weft, torch))
    assert mine.__name__ == theirs.__name__
    assert mine.__module__ == theirs.__module__.replace("torch", "weft")
    if theirs is not tuple:
        assert getattr(weft.return_types, mine.__name__) is mine


@pytest.mark.parametrize("name", CALLS)
def test_a_result_is_copied_and_taken_apart_as_what_it_is(name):
    result = called(weft, name)
    for made in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert type(made) is type(result) and repr(made) == repr(result)
    leaves, spec = _pytree.tree_flatten(result)
    assert repr(_pytree.tree_unflatten(leaves, spec)) == repr(result)


def test_the_types_are_pytorchs():
    wanted = [kind.__name__ for kind in torch.return_types.all_return_types]
    assert [kind.__name__ for kind in weft.return_types.all_return_types] == wanted


@pytest.mark.parametrize("theirs", torch.return_types.all_return_types, ids=lambda t: t.__name__)
def test_a_type_is_made_and_read_as_pytorchs_is(theirs):
    mine = getattr(weft.return_types, theirs.__name__)
    count = theirs.n_fields
    assert (mine.n_fields, mine.n_sequence_fields) == (count, theirs.n_sequence_fields)
    assert not hasattr(mine, "_fields")
    assert repr(mine(range(count))) == repr(theirs(range(count))).replace("torch.", "weft.")
    for wrong in ((range(count + 1),), (), tuple(range(count))):
        for kind in (mine, theirs):
            with pytest.raises(TypeError):
                kind(*wrong)


def test_a_member_cannot_be_set():
    result = weft.tensor([1.0, 2.0]).max(0)
    with pytest.raises(AttributeError, match="readonly"):
        result.values = result.indices
