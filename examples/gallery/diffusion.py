"""
A diffusion model of digits
===========================

Images of digits are made noisy step by step; a network learns to guess the noise (Ho, Jain and Abbeel, 2020). Run
backwards from pure noise, it draws digits that nobody has written. Data: the 8 x 8 digits that come with scikit-learn.

Run: ``python examples/gallery/diffusion.py [steps]``
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
weft.manual_seed(0)

# %%
# Noise
# -----

LEVELS = 60
BETAS = weft.linspace(1e-3, 0.12, LEVELS)
KEPT = (1 - BETAS).cumprod(0)  # how much of the image is left at each level

images = weft.from_numpy(load_digits().data).float() / 8 - 1  # (1797, 64), from -1 to 1


def with_noise(x: weft.Tensor, level: weft.Tensor, noise: weft.Tensor) -> weft.Tensor:
    """Images (n, 64) at levels (n)."""
    kept = KEPT[level][:, None]
    return kept.sqrt() * x + (1 - kept).sqrt() * noise


# %%
# The network sees an image and its level, and guesses the noise in it.


class Denoiser(nn.Module):
    """Residual layers, each told the level."""

    def __init__(self, width: int = 256, depth: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.levels = nn.ModuleList([nn.Embedding(LEVELS, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])

    def forward(self, x: weft.Tensor, level: weft.Tensor) -> weft.Tensor:
        """(n, 64), (n) -> (n, 64)"""
        x = self.first(x)
        for layer, embed, norm in zip(self.layers, self.levels, self.norms, strict=True):
            x = x + nn.functional.silu(layer(norm(x + embed(level))))
        return self.last(x)


model = Denoiser()
optimizer = weft.optim.AdamW(model.parameters(), lr=2e-3)
schedule = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
losses = []
for _step in range(STEPS):
    rows, level = weft.randint(0, len(images), (128,)), weft.randint(0, LEVELS, (128,))
    noise = weft.randn(128, 64)
    loss = (model(with_noise(images[rows], level, noise), level) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.detach())
losses = weft.stack(losses).tolist()
print(
    f"squared error of the noise: {losses[0]:.2f} at first, {sum(losses[-50:]) / len(losses[-50:]):.2f} at the end"
)

# %%
# From noise to digits
# --------------------

with weft.no_grad():
    x = weft.randn(40, 64)
    shown = [x]
    for n in reversed(range(LEVELS)):
        guess = model(x, weft.full((40,), n))
        x = (x - BETAS[n] / (1 - KEPT[n]).sqrt() * guess) / (1 - BETAS[n]).sqrt()
        if n > 0:
            x = x + BETAS[n].sqrt() * weft.randn(40, 64)
        if n % 15 == 0:
            shown.append(x)

strips = weft.stack(shown)[:, :20].clamp(-1, 1).reshape(-1, 20, 8, 8)
strips = nn.functional.pad(strips, (1, 1, 1, 1), value=-1)  # a margin around each image
figure, axes = plt.subplots(figsize=(9, 2.8), layout="constrained")
axes.imshow(strips.permute(0, 2, 1, 3).reshape(-1, 200).numpy(), cmap="gray_r")
axes.set_title("from noise (top) to digits (bottom)")
axes.axis("off")
plt.show()
