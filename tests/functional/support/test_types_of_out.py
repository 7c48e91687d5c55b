"""`out=` of every type: what PyTorch takes is taken and has its values, what it refuses is refused in its words. Over
the operators of PyTorch's database that write to one tensor."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import weft
from oracle import conformance, torch
from weft.functional.support.out_dtypes import _RULES

TYPES = ("float32", "float64", "int64", "uint8", "bool", "complex64")
# What PyTorch takes or refuses by another rule than the rest of the function, or of its kind, on one path only.
APART = {
    "diff": "of no differences PyTorch wants the type of the input",
    "cholesky": "one function here, of which linalg's wants the type of the result",
    "linalg.cholesky": "one function here, of which the older one casts",
    "linalg.matrix_power": "a power of 0 or 1 is cast, others not",
    "std": "into complex numbers along a dimension there is none",
    "var": "into complex numbers along a dimension there is none",
    "nansum": "there is none of complex numbers",
    "nanmean": "there is none of complex numbers",
    "fft.ifft": "complex types are cast for some inputs only",
    "fft.ihfft": "complex types are cast for some inputs only",
    "cumsum": "into truth values there is none",
    "cumprod": "into truth values there is none",
    "bernoulli": "into complex numbers there is none",
    "logsumexp": "of complex numbers the imaginary part is lost",
    "mean": "of complex numbers the imaginary part is lost",
    "sparse.sampled_addmm": "out is sparse",
    "hash_tensor": "is not there",
}
# Words are compared but for those of types that an operation has no kernel for, and of slips.
OTHER_WORDS = {
    *("ldexp", "heaviside", "normal", "norm/nuc", "narrow_copy", "logsumexp", "_chunk_cat"),
    *("max/reduction_no_dim", "min/reduction_no_dim", "mvlgamma/mvlgamma_p_1"),
    *("mvlgamma/mvlgamma_p_3", "mvlgamma/mvlgamma_p_5", "searchsorted", "bucketize"),
    *("index_reduce/mean", "inner", "where", "nonzero", "matmul", "diag"),
}


def _names() -> list[str]:
    """Those with a rule of their own, and every eighth of the others."""
    all_names = sorted(
        name for name, info in conformance("operators").entries().items() if info.supports_out
    )
    ruled = [name for name in all_names if name.split("/")[0].split(".")[-1] in _RULES]
    others = [name for name in all_names if name not in ruled and not name.startswith("torch.")]
    return [*ruled, *others[::8]]


def _told(run: Any, out: Any) -> Any:
    try:
        run(out=out)
    except (RuntimeError, TypeError) as error:
        return str(error).split("\n")[0].split(", called at")[0]
    return out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(_names()) - APART.keys()))
def test_out_is_taken_or_refused_as_in_pytorch(name: str) -> None:
    tools, convert = conformance("operators"), conformance("convert")
    info = tools.entries()[name]
    ours = convert.function(info.op, info.name)
    call = next(iter(tools.calls(info, ours, tools.dtypes_of(info)[0], 1)), None)
    if call is not None and isinstance(call.theirs(), torch.Tensor):
        _compare(call, name)


def _compare(call: Any, name: str) -> None:
    compare, random = conformance("compare"), conformance("operators").is_random
    drawn = random(call, call.theirs())
    for kind in TYPES:
        theirs = _told(partial(call.theirs), torch.empty(0, dtype=getattr(torch, kind)))
        mine = _told(partial(call.mine), weft.empty(0, dtype=getattr(weft, kind)))
        assert isinstance(mine, str) == isinstance(theirs, str), (kind, mine, theirs)
        if isinstance(theirs, str):
            assert mine == theirs or name in OTHER_WORDS, kind
        elif not drawn:
            wider = compare.values(mine.to(weft.float32), theirs.to(torch.float32), 64.0)
            assert kind.startswith("complex") or not wider, (kind, wider)


@pytest.mark.parametrize("asked", ["float32", "float64", "int64"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean", "nansum"])
def test_out_and_dtype_have_to_agree(name: str, kind: str, asked: str) -> None:
    def told(T: Any) -> Any:
        x, out = T.tensor([1.0, 2.0, 4.0]), T.empty(0, dtype=getattr(T, kind))
        found = _told(partial(getattr(T, name), x, 0, dtype=getattr(T, asked)), out)
        return isinstance(found, str) or found.tolist()

    assert told(weft) == told(torch)


def test_factories_name_both_types() -> None:
    for T in (weft, torch):
        for make in (partial(T.zeros, 2), partial(T.arange, 2), partial(T.linspace, 0, 1, 2)):
            with pytest.raises(RuntimeError, match=r"dtype Float does not match .* \(Double\)"):
                make(dtype=T.float32, out=T.empty(2, dtype=T.float64))
