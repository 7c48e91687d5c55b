"""
Attention over sets of any size
===============================

A set has no order and no fixed size. A small Set Transformer (Lee et al., 2019) learns how wide a set is: the distance
between the two points that lie farthest apart. It is written for one set; 32 sets of 2 to 20 points run together
without padding or masks.

Run: ``python examples/gallery/set_transformer.py [steps]``
"""

import random
import sys

import matplotlib.pyplot as plt

import weft
from weft import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
random.seed(0)
weft.manual_seed(0)


def widest(points: weft.Tensor) -> weft.Tensor:
    """The largest distance between two points of a set (n, 2)."""
    return (points[:, None] - points).square().sum(-1).max().sqrt()


# %%
# The model
# ---------


class Block(nn.Module):
    """Attention and a perceptron, each with a residual and a norm."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.after, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.rows = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, queries: weft.Tensor, keys: weft.Tensor) -> weft.Tensor:
        """(m, width), (n, width) -> (m, width)"""
        found, _ = self.attention(queries, keys, keys, need_weights=False)
        x = self.after(queries + found)
        return self.last(x + self.rows(x))


class SetTransformer(nn.Module):
    """Points attend to points; one learned query collects what they found."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.read = nn.Linear(2, width), nn.Linear(width, 1)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.query, self.collect = nn.Parameter(weft.randn(1, width)), Block(width)

    def forward(self, points: weft.Tensor) -> weft.Tensor:
        """(n, 2) -> a number"""
        x = self.embed(points)
        for block in self.blocks:
            x = block(x, x)
        return self.read(self.collect(self.query, x))[0, 0]


# %%
# Training
# --------

model = SetTransformer()
optimizer = weft.optim.Adam(model.parameters(), lr=0.001)
losses = []
for _step in range(STEPS):
    sets = [weft.rand(random.randint(2, 20), 2) for _ in range(32)]
    loss = weft.stack([(model(s) - widest(s)).square() for s in sets]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())

with weft.no_grad():
    tests = [weft.rand(random.randint(2, 20), 2) for _ in range(200)]
    found = weft.stack([model(s) for s in tests])
    true = weft.stack([widest(s) for s in tests])
print(f"off by {(found - true).abs().mean().item():.3f} on average, of {true.mean().item():.3f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.semilogy([loss.item() for loss in losses])
left.set(xlabel="step", ylabel="squared error", title="training")
sizes = [len(s) for s in tests]
shown = right.scatter(true.numpy(), found.numpy(), c=sizes, s=10)
right.plot([0, 1.4], [0, 1.4], color="grey", linewidth=0.8)
right.set(xlabel="largest distance", ylabel="predicted", title="sets that it has not seen")
figure.colorbar(shown, label="points in the set")
plt.show()
