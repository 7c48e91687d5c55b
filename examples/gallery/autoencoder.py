"""
A variational autoencoder
=========================

An encoder turns an image into a normal distribution over two numbers, a decoder turns two numbers into an image (Kingma
and Welling, 2014). What has been learned is a map of digits: each place of it is an image.

Run: ``python examples/gallery/autoencoder.py [steps]``
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import weft
from weft import nn
from weft.distributions import Normal, kl_divergence

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
weft.manual_seed(0)

data = load_digits()
images = weft.from_numpy(data.data).float() / 16  # (1797, 64), from 0 to 1
prior = Normal(weft.zeros(2), weft.ones(2))

# %%
# The model
# ---------
# ``rsample`` draws such that gradients go through the draw.


class Autoencoder(nn.Module):
    """An image -> a distribution over the plane -> an image."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )
        self.decode = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64)
        )

    def place(self, x: weft.Tensor) -> Normal:
        """Where on the map an image may be."""
        mean, spread = self.encode(x).chunk(2, dim=-1)
        return Normal(mean, nn.functional.softplus(spread) + 1e-4)

    def loss(self, x: weft.Tensor) -> weft.Tensor:
        """What is lost of the images, and how far their places are from the prior."""
        place = self.place(x)
        drawn = self.decode(place.rsample())
        lost = nn.functional.binary_cross_entropy_with_logits(drawn, x, reduction="none").sum(-1)
        return (lost + kl_divergence(place, prior).sum(-1)).mean()


model = Autoencoder()
optimizer = weft.optim.Adam(model.parameters(), lr=2e-3)
losses = []
for _step in range(STEPS):
    loss = model.loss(images[weft.randint(0, len(images), (128,))])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
losses = weft.stack(losses).tolist()
print(f"loss {losses[0]:.1f} at first, {losses[-1]:.1f} at the end")

# %%
# The map
# -------

with weft.no_grad():
    places = model.place(images).mean
    at = weft.linspace(-2, 2, 15)
    grid = weft.stack(weft.meshgrid(at, at.flip(0), indexing="xy"), dim=-1)  # (15, 15, 2)
    drawn = model.decode(grid).sigmoid().reshape(15, 15, 8, 8).permute(0, 2, 1, 3).reshape(120, 120)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
shown = left.scatter(*places.T.numpy(), c=data.target, cmap="tab10", s=6)
left.set(title="where images are", aspect="equal")
figure.colorbar(shown, ax=left, ticks=range(10), shrink=0.8)
right.imshow(drawn.numpy(), cmap="gray_r", extent=(-2, 2, -2, 2))
right.set(title="what is drawn at each place")
plt.show()
