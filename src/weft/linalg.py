"""`weft.linalg`: linear algebra, by the names of PyTorch's `torch.linalg`.

The functions are written in `weft.functional`.
"""

from __future__ import annotations

from weft.engine.api.api_function import all_public as _all_public
from weft.errors import LinAlgError
from weft.functional import LINALG
from weft.functional.linalg import (
    decompositions,
    householder,
    least_squares,
    lu_factors,
    matrix_functions,
    solve,
)

_OWN = {"lu": "linalg_lu", "cholesky": "linalg_cholesky", "lu_solve": "lu_solve_factored"}
_MODULES = {
    solve: "inv inv_ex solve solve_ex solve_triangular slogdet det cholesky cholesky_ex",
    lu_factors: "lu lu_factor lu_factor_ex lu_solve",
    decompositions: "eigh eigvalsh eig eigvals svd svdvals qr matrix_rank pinv cond",
    householder: "householder_product",
    least_squares: "lstsq",
    matrix_functions: "matrix_power matrix_exp multi_dot tensorinv tensorsolve vander diagonal ldl_factor "
    "ldl_factor_ex ldl_solve",
}
_OWN |= {"vander": "linalg_vander", "diagonal": "linalg_diagonal"}
_FOUND = {
    name: getattr(module, _OWN.get(name, name))
    for module, names in _MODULES.items()
    for name in names.split()
}
globals().update(_all_public({**LINALG, **_FOUND}))
__all__ = ["LinAlgError", *LINALG, *_FOUND]  # noqa: PLE0605 - the names are those of the table
