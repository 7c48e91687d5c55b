"""Where does the heat come from? A solver of SciPy inside a model, as a custom Function.

A rod is heated at unknown places. From noisy temperatures along it, gradient descent finds the sources: forward solves
a sparse linear system with SciPy, backward solves the transposed one.

Run: pip install scipy, then python examples/heat.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import weft
import weft.nn.functional as F
from weft import nn
from weft.autograd.function import once_differentiable

POINTS = 60


class Solve(weft.autograd.Function):
    """x with matrix @ x = b, for a matrix that SciPy has factorised."""

    @staticmethod
    def forward(b: weft.Tensor, factors: Any) -> weft.Tensor:
        return weft.from_numpy(factors.solve(b.detach().numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: weft.Tensor) -> None:
        _, ctx.factors = inputs

    @staticmethod
    @once_differentiable  # what NumPy computes has no graph
    def backward(ctx: Any, gradient: weft.Tensor) -> tuple[weft.Tensor, None]:
        return weft.from_numpy(ctx.factors.solve(gradient.numpy(), trans="T")), None


def rod(conduction: float = 40.0) -> Any:
    """The factors of the matrix that takes temperatures to the heat that keeps them: each point gives some to its
    neighbours and some to the air."""
    neighbours = scipy.sparse.diags_array(
        [-conduction, 1 + 2 * conduction, -conduction], offsets=[-1, 0, 1], shape=(POINTS, POINTS)
    )
    return scipy.sparse.linalg.splu(neighbours.tocsc())


class Sources(nn.Module):
    """Heat at each point, never below zero."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(weft.full((POINTS,), -3.0, dtype=weft.float64))

    def forward(self, factors: Any) -> weft.Tensor:
        return Solve.apply(self.heat(), factors)

    def heat(self) -> weft.Tensor:
        return F.softplus(self.raw)


def main(arguments: list[str] | None = None) -> list[int]:
    """Find the sources; returns where they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args(arguments)

    factors, random = rod(), np.random.default_rng(0)
    true = np.zeros(POINTS)
    true[[14, 41]] = 50.0, 80.0
    measured = weft.tensor(factors.solve(true) + random.normal(0, 0.02, POINTS))

    b = weft.rand(POINTS, dtype=weft.float64, requires_grad=True)
    print("gradcheck:", weft.autograd.gradcheck(lambda b: Solve.apply(b, factors), (b,)))

    model = Sources()
    optimizer = weft.optim.Adam(model.parameters(), lr=0.3)
    for step in range(options.steps):
        loss = F.mse_loss(model(factors), measured) + 1e-4 * model.heat().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == options.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.5f}")

    heat = model.heat().detach()
    inner = heat[1:-1]
    peaks = (inner > heat[:-2]) & (inner > heat[2:]) & (inner > 1)
    places = [point + 1 for point in peaks.nonzero().flatten().tolist()]
    print("heated at 14 and 41; found", " and ".join(map(str, places)))
    return places


if __name__ == "__main__":
    main()
