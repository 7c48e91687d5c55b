# cython: language_level=3
"""The types of results of several tensors: PyTorch's `return_types`, tuples with named members ("struct sequences").

Each is called with one sequence, as `time.struct_time` is; its members cannot be set. `weft.return_types` shows them.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.weft.functional.support.return_types import (
    PyStructSequence_Desc,
    PyStructSequence_Field,
    PyStructSequence_NewType,
)

from weft._build.compiled import require
from weft.errors import rooted

require(__name__, cython.compiled)

MEMBERS = {
    "_lu_with_info": "LU pivots info",
    "aminmax": "min max",
    "cummax": "values indices",
    "cummin": "values indices",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "kthvalue": "values indices",
    "linalg_cholesky_ex": "L info",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "lu_unpack": "P L U",
    "max": "values indices",
    "median": "values indices",
    "min": "values indices",
    "mode": "values indices",
    "nanmedian": "values indices",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "sort": "values indices",
    "svd": "U S V",
    "topk": "values indices",
    "triangular_solve": "solution cloned_coefficient",
}
WITHOUT_OUT = ("_lu_with_info", "histogramdd")
_MOST = 5  # members of a type, with the entry that ends their list
_texts: list[bytes] = []  # Python keeps pointers to names


@cython.cfunc
def _kept(text: str) -> cython.p_char:
    """A text in memory that stays."""
    made: bytes = text.encode()
    _texts.append(made)
    return made


def _words(name: str, members: list[str]) -> str:
    """The docstring of a type."""
    function, out, _ = name.partition("_out")
    function = function.replace("linalg_", "linalg.")
    given = " where it is given `out=`" if out else ""
    return (
        f"The result of `weft.{function}`{given}: a tuple ({', '.join(members)}) whose members have these names.\n\n"
        "Args:\n"
        "    iterable: the members, in this order.\n"
    )


@cython.cfunc
def _struct_sequence(name: str, members: list[str]) -> Any:
    """A tuple type with named members."""
    entries = cython.declare(PyStructSequence_Field[5])
    description = cython.declare(PyStructSequence_Desc)
    index: cython.int
    if len(members) >= _MOST:
        raise AssertionError(name)
    for index in range(len(members)):
        entries[index].name = _kept(members[index])
        entries[index].doc = cython.NULL
    entries[len(members)].name = entries[len(members)].doc = cython.NULL
    description.name = _kept(f"weft.return_types.{name}")
    description.doc = _kept(_words(name, members))
    description.fields = entries
    description.n_in_sequence = len(members)
    return PyStructSequence_NewType(cython.address(description))


def _new_type(name: str, members: list[str]) -> Any:
    """A type, printed as PyTorch prints it: a member a line."""
    made = _struct_sequence(name, members)

    def shown(self: Any) -> str:
        parts = ",\n".join(f"{k}={v!r}" for k, v in zip(members, self, strict=True))
        return rooted(f"weft.return_types.{name}") + f"(\n{parts})"

    made.__repr__ = shown
    return made


TYPES: dict[str, Any] = {name: _new_type(name, words.split()) for name, words in MEMBERS.items()}
_OUT_TYPES: dict[Any, Any] = {
    TYPES[name]: _new_type(f"{name}_out", words.split())
    for name, words in MEMBERS.items()
    if name not in WITHOUT_OUT
}
TYPES |= {made.__name__: made for made in _OUT_TYPES.values()}


def result_type(name: str) -> Any:
    """The type of what a function returns, called with a sequence of its members."""
    return TYPES[name]


def type_with_out(made: type) -> Any:
    """The type that a function returns where it was given `out=`, by the one that it returns without."""
    return _OUT_TYPES.get(made, made)
