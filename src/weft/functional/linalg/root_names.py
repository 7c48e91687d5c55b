"""Functions of matrices under the names that they have in `weft` itself and on tensors."""

from __future__ import annotations

from weft.functional.linalg.decompositions import legacy_qr as qr
from weft.functional.linalg.decompositions import legacy_svd as svd
from weft.functional.linalg.decompositions import pca_lowrank, pinverse, svd_lowrank
from weft.functional.linalg.householder import geqrf, householder_product, ormqr
from weft.functional.linalg.lu_factors import legacy_lu as lu
from weft.functional.linalg.lu_factors import lu_solve, lu_unpack
from weft.functional.linalg.matrix_functions import matrix_exp, matrix_power, vander
from weft.functional.linalg.solve import (
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    det,
    inverse,
    logdet,
    triangular_solve,
)
from weft.functional.linalg.solve import legacy_slogdet as slogdet

orgqr = householder_product

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve",
    "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "ormqr", "pca_lowrank", "pinverse", "qr", "slogdet", "svd",
    "svd_lowrank", "triangular_solve", "vander",
]  # fmt: skip
