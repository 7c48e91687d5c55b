"""
A neural differential equation
==============================

A network is the right-hand side of a differential equation, and learns it from points along a few curves. The solver
chooses its own steps: it tries one, estimates the error, and halves the step where it is too large. How many steps a
forward pass has depends on the values in it, and the gradient goes through exactly the steps that were taken.

Run: ``python examples/gallery/neural_ode.py [steps]``
"""

import sys
from collections.abc import Callable

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
weft.manual_seed(0)

# %%
# A solver with steps of its own choice
# -------------------------------------
# Heun's method beside Euler's: their difference says how wrong a step may be.

Field = Callable[[weft.Tensor], weft.Tensor]


def solve(field: Field, x: weft.Tensor, until: float, tolerance: float) -> weft.Tensor:
    """Where points x (n, 2) are carried in a time."""
    time, step = 0.0, 0.2
    while time < until - 1e-9:
        step = min(step, until - time)
        slope = field(x)
        euler = x + step * slope
        heun = x + step / 2 * (slope + field(euler))
        if (heun - euler).abs().max().item() > tolerance and step > 0.02:
            step /= 2
            continue
        time, x = time + step, heun
        step *= 1.5
    return x


def spiral(x: weft.Tensor) -> weft.Tensor:
    """What is to be learned: turning inwards, faster in the middle."""
    turn = weft.stack([-x[:, 1], x[:, 0]], dim=1)
    return 1.5 * turn / (0.5 + x.square().sum(1, keepdim=True)) - 0.15 * x


# %%
# Data: where points come from, and where they are half a second later
# ---------------------------------------------------------------------

with weft.no_grad():
    starts = weft.randn(256, 2) * 1.2
    ends = solve(spiral, starts, 0.5, 1e-4)

model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = weft.optim.Adam(model.parameters(), lr=0.005)
losses = []
for _step in range(STEPS):
    rows = weft.randint(0, 256, (64,))
    loss = (solve(model, starts[rows], 0.5, 0.02) - ends[rows]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"squared error {losses[0]:.4f} at first, {losses[-1]:.6f} at the end")

# %%
# Curves that are ten times as long as what it has seen
# ------------------------------------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.semilogy(losses)
left.set(xlabel="step", ylabel="squared error", title="training")
with weft.no_grad():
    for field, style in ((spiral, "grey"), (model, "C0")):
        x = weft.tensor([[2.0, 0.0], [-0.5, 1.5], [0.3, -1.0]])
        path = [x]
        for _ in range(100):
            x = solve(field, x, 0.05, 0.02)
            path.append(x)
        curves = weft.stack(path).numpy()  # (times, curves, 2)
        for n in range(curves.shape[1]):
            right.plot(
                curves[:, n, 0],
                curves[:, n, 1],
                color=style,
                linewidth=3 if style == "grey" else 1.2,
            )
right.set(title="true (grey), learned (blue)", aspect="equal")
plt.show()
