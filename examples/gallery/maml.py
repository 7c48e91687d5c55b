"""
Learning to learn
=================

Each task is a sine of its own height and phase, shown by ten points. The network looks for weights from which **one**
step of gradient descent on those ten points is enough (MAML: Finn, Abbeel and Levine, 2017). The outer gradient goes
through the inner step, so it contains second derivatives. ``weft.func`` writes both as functions.

Run: ``python examples/gallery/maml.py [steps]``
"""

import math
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn
from weft.func import functional_call, grad

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
weft.manual_seed(0)

model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
Weights = dict[str, weft.Tensor]

# %%
# A task, and what one step makes of it
# -------------------------------------


def draw_task() -> tuple[weft.Tensor, weft.Tensor]:
    """The height and the phase of a sine."""
    return weft.rand(()) * 4 + 0.5, weft.rand(()) * math.pi


def points(task: tuple[weft.Tensor, weft.Tensor], count: int) -> tuple[weft.Tensor, weft.Tensor]:
    """Places and values (count, 1)."""
    x = weft.rand(count, 1) * 10 - 5
    return x, task[0] * (x + task[1]).sin()


def error(weights: Weights, x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
    """The squared error of the network with these weights."""
    return (functional_call(model, weights, (x,)) - y).square().mean()


def adapted(weights: Weights, x: weft.Tensor, y: weft.Tensor, rate: float = 0.02) -> Weights:
    """The weights after one step."""
    slopes = grad(error)(weights, x, y)
    return {name: weight - rate * slopes[name] for name, weight in weights.items()}


# %%
# The outer loop: eight tasks a step, written one by one
# ------------------------------------------------------

weights = dict(model.named_parameters())
optimizer = weft.optim.Adam(model.parameters(), lr=2e-3)
before, after = [], []
for _step in range(STEPS):
    tasks = [draw_task() for _ in range(8)]
    shown = [points(task, 10) for task in tasks]
    fits = [adapted(weights, *few) for few in shown]
    losses = weft.stack([error(w, *points(task, 10)) for w, task in zip(fits, tasks, strict=True)])
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    after.append(losses.mean().detach())
after = weft.stack(after).tolist()
last = after[-50:]
print(
    f"error after one step on ten points: {after[0]:.2f} at first, {sum(last) / len(last):.2f} at the end"
)

# %%
# A sine that it has not seen
# ---------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.semilogy(after, linewidth=0.6)
left.set(xlabel="step", ylabel="error after one inner step", title="learning to learn")
task = weft.tensor(3.0), weft.tensor(1.0)
x, y = points(task, 10)
line = weft.linspace(-5, 5, 200)[:, None]
fit = {name: weight.detach() for name, weight in weights.items()}
right.plot(
    line.numpy(),
    (task[0] * (line + task[1]).sin()).numpy(),
    color="lightgrey",
    linewidth=4,
    label="true",
)
for count in range(3):
    with weft.no_grad():
        shape = functional_call(model, fit, (line,))
    right.plot(line.numpy(), shape.numpy(), label=f"{count} steps")
    fit = {name: weight.detach() for name, weight in adapted(fit, x, y).items()}
right.plot(x.numpy(), y.numpy(), "k.", label="the ten points")
right.legend(fontsize=8)
right.set(title="a new task")
plt.show()
