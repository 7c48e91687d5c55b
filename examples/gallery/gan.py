"""
Two networks against each other
===============================

A generator turns noise into points; a critic learns to tell them from true ones, and the generator to deceive it
(Goodfellow et al., 2014). The data are eight clusters on a ring. The critic's slope is kept near one by a penalty on
its gradient, so the loss contains a derivative, and training differentiates it once more.

Run: ``python examples/gallery/gan.py [steps]``
"""

import math
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
BATCH = 128
weft.manual_seed(0)


def true_points(count: int) -> weft.Tensor:
    """(count, 2), around eight centres."""
    angle = weft.randint(0, 8, (count,)) * (math.pi / 4)
    centres = weft.stack([angle.cos(), angle.sin()], dim=1)
    return 2 * centres + 0.1 * weft.randn(count, 2)


def perceptron(inputs: int, outputs: int, width: int = 128) -> nn.Module:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, outputs),
    )


# %%
# The penalty
# -----------
# Wasserstein GAN with gradient penalty (Gulrajani et al., 2017): the slope of the critic at points between true and
# made ones.


def penalty(critic: nn.Module, true: weft.Tensor, made: weft.Tensor) -> weft.Tensor:
    """How far the critic's slope is from one."""
    share = weft.rand(len(true), 1)
    between = (share * true + (1 - share) * made).requires_grad_()
    (slope,) = weft.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


generator, critic = perceptron(2, 2), perceptron(2, 1)
for_generator = weft.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
for_critic = weft.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
distances, snapshots = [], []
for step in range(STEPS):
    for _ in range(3):
        true, made = true_points(BATCH), generator(weft.randn(BATCH, 2)).detach()
        distance = critic(true).mean() - critic(made).mean()
        for_critic.zero_grad()
        (0.1 * penalty(critic, true, made) - distance).backward()
        for_critic.step()
    for_generator.zero_grad()
    (-critic(generator(weft.randn(BATCH, 2))).mean()).backward()
    for_generator.step()
    distances.append(distance.detach())
    if step in (0, max(1, STEPS // 10), STEPS - 1):
        with weft.no_grad():
            snapshots.append((step + 1, generator(weft.randn(500, 2)).numpy()))
print(f"distance by the critic: {weft.stack(distances)[-20:].mean().item():.2f} at the end")

# %%
figure, axes = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
axes[0].plot(weft.stack(distances).numpy(), linewidth=0.8)
axes[0].set(title="distance by the critic", xlabel="step", ylim=(0, 4))
grey = true_points(500).numpy()
for axis, (step, points) in zip(axes[1:], snapshots, strict=True):
    axis.scatter(*grey.T, s=4, color="lightgrey")
    axis.scatter(*points.T, s=4)
    axis.set(
        title=f"after {step} step{'s' * (step != 1)}", xlim=(-3, 3), ylim=(-3, 3), aspect="equal"
    )
plt.show()
