# ruff: noqa: N803, N806 - PyTorch's names
"""Some eigenpairs at one end of the spectrum of a symmetric matrix, dense or sparse: `lobpcg` (Knyazev 2001).

It takes a matrix, the number of pairs, and optionally a second matrix and a preconditioner, and returns the pairs.
Each round looks for the best vectors in the space of the present ones, their preconditioned residuals and the last
directions. Values are read in each round; derivatives are those of `eigh` if a dense matrix requires grad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, class_name
from weft.functional.linalg.decompositions import eigh
from weft.functional.shape.concat import cat
from weft.random import randn
from weft.tensor.arguments import (
    need_floating,
    need_integer,
    need_rank,
    need_tensor,
    untracked,
)

_ROUNDS = 1000


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., object] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues of A, or of A x = l B x, and their vectors, in columns.

    Shapes: (..., m, m) -> (..., k), (..., m, k). Errors: ValueError unless m >= 3 n, where n is the number of vectors
    that are improved together (k unless given).
    """
    for name, given in (("A", A), ("B", B), ("X", X), ("iK", iK)):
        if given is not None or name == "A":
            need_rank("lobpcg", need_floats(given, name), 2, name)
    for name, number in (("k", k), ("n", n), ("niter", niter)):
        if number is not None:
            need_integer("lobpcg", number, name, 1 if name != "niter" else -(2**63))
    if tol is not None and not isinstance(tol, (int, float)):
        raise ArgumentTypeError(
            f"lobpcg(): argument 'tol' must be float, not {class_name(tol)}",
            expected="a number",
            got=f"{tol!r:.60}",
            fix="leave it out",
        )
    count = (1 if X is None else X.shape[-1]) if k is None else k
    width = (count if X is None else X.shape[-1]) if n is None else n
    high = True if largest is None else largest
    if A.shape[-1] < 3 * width:
        raise ArgumentError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is smaller than 3 x the "
            f"number of requested eigenpairs (={width})",
            expected=f"a matrix of at least {3 * width} rows",
            got=f"A {list(A.shape)}",
            fix="use linalg.eigh",
        )
    if A.requires_grad and not A.is_sparse and B is None:
        values, vectors = eigh((A + A.mH) / 2)  # eigh reads one triangle, the iterations both
        return _end(values, vectors, count, high)
    with untracked():
        if A.dim() > 2:
            return _batch(A, count, B, X, width, iK, niter, tol, high)
        start = randn(A.shape[-1], width, dtype=A.dtype) if X is None else X
        values, vectors = _iterate(A, start, B, iK, niter, tol, high)
    return values[:count], vectors[:, :count]


def need_floats(given: Any, name: str) -> Tensor:
    """A tensor of real numbers. Errors: ArgumentTypeError, DTypeError."""
    need_floating("lobpcg", need_tensor("lobpcg", given, name))
    return given


def _end(values: Tensor, vectors: Tensor, count: int, high: bool) -> tuple[Tensor, Tensor]:
    """The first `count` pairs at one end of an ascending spectrum, the outermost first."""
    if high:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :count], vectors[..., :count]


def _batch(
    A: Tensor,
    count: int,
    B: Tensor | None,
    X: Tensor | None,
    width: int,
    iK: Tensor | None,
    niter: int | None,
    tol: float | None,
    high: bool,
) -> tuple[Tensor, Tensor]:
    """Matrix by matrix."""
    lead, size = A.shape[:-2], A.shape[-1]
    pairs = [
        lobpcg(
            a,
            count,
            None if B is None else B.reshape(-1, size, size)[place],
            None if X is None else X.reshape(-1, size, X.shape[-1])[place],
            width,
            None if iK is None else iK.reshape(-1, size, size)[place],
            niter,
            tol,
            high,
        )
        for place, a in enumerate(A.reshape(-1, size, size))
    ]
    values = cat([one[0].reshape(1, -1) for one in pairs]).reshape(*lead, count)
    return values, cat([one[1].reshape(1, size, count) for one in pairs]).reshape(
        *lead, size, count
    )


def _iterate(
    A: Tensor,
    X: Tensor,
    B: Tensor | None,
    iK: Tensor | None,
    niter: int | None,
    tol: float | None,
    high: bool,
) -> tuple[Tensor, Tensor]:
    """Iterate until the residuals are small compared with the values."""
    width = X.shape[-1]
    limit = {"float32": 1e-5}.get(A.dtype.name, 1e-11) if tol is None else tol
    values, X = _best(A, B, X, width, high)
    step: Any = None
    for _ in range(_ROUNDS if niter is None or niter < 0 else niter):
        image = X if B is None else B @ X
        residual = A @ X - image * values
        scale = values.abs().amax() * image.norm(dim=0).amax()
        if bool((residual.norm(dim=0).amax() <= limit * scale).item()):
            break
        ahead = residual if iK is None else iK @ residual
        space = cat([X, ahead, *([] if step is None else [step])], 1)
        values, found = _best(A, B, space, width, high)
        step = found - X @ (X.mH @ (found if B is None else B @ found))
        X = found
    return values, X


def _best(
    A: Tensor, B: Tensor | None, space: Tensor, width: int, high: bool
) -> tuple[Tensor, Tensor]:
    """Rayleigh and Ritz: the best pairs within a space. Directions that are in others already are left out."""
    space = space / space.norm(dim=0, keepdim=True).clamp_min(1e-300)
    sizes, turns = eigh(space.mH @ (space if B is None else B @ space))
    few = 1e-5 if A.dtype.name == "float32" else 1e-12
    kept = max(int((sizes > few * sizes[-1]).sum().item()), width)
    basis = space @ (turns[:, -kept:] / sizes[-kept:].clamp_min(few * few).sqrt())
    values, vectors = eigh(basis.mH @ (A @ basis))
    values, vectors = _end(values, vectors, width, high)
    return values, basis @ vectors
