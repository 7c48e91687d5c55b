"""Handwritten digits: a multilayer perceptron, then a small convolutional network.

Run: pip install scikit-learn, then python examples/digits.py
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

import weft
import weft.nn.functional as F
from weft import nn
from weft.data import DataLoader, TensorDataset


class ConvNet(nn.Module):
    """Two convolutions, two pools, one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)  # (n, 1, 8, 8) -> (n, 16, 4, 4)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)  # (n, 16, 4, 4) -> (n, 32, 2, 2)
        return self.out(x.flatten(1))  # (n, 32, 2, 2) -> (n, 10)


def make_perceptron() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """1,797 images of 8 x 8 pixels; every fifth is for measuring."""
    images, labels = load_digits(return_X_y=True)
    x = weft.tensor((images / 16.0).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = weft.tensor(labels)
    held_out = np.arange(len(labels)) % 5 == 0
    train, test = weft.tensor(~held_out), weft.tensor(held_out)
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """The share of right answers."""
    x, y = data.tensors
    model.eval()
    with weft.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def train(name: str, model: nn.Module, epochs: int) -> float:
    """Train a model and report; its accuracy on held-out images."""
    data, held_out = load_data()
    optimizer = weft.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        reached = accuracy(model, held_out)
        print(f"{name}  epoch {epoch}  loss {total / len(data):.4f}  held out {reached:.4f}")
    return reached


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train both networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args(arguments).epochs
    weft.manual_seed(0)
    return {
        "mlp": train("mlp", make_perceptron(), epochs),
        "cnn": train("cnn", ConvNet(), epochs),
    }


if __name__ == "__main__":
    main()
