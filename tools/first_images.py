"""What programs over images, signals and volumes begin with: steps of the usual convolutional networks.

`run()` runs them, each on few values and on so many that fusing pays the first time. `ship_kernels.py` notes which
kernels they ask for, as those of `first_programs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import weft
from weft import nn

CLASSES = 10
STEPS = 4  # of a network: its fused kernels are compiled when they come again


class Residual(nn.Module):
    """A block of a residual network: two layers, or three of which the middle one is narrow."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, narrow: bool, relu: Callable[[], Any]
    ) -> None:
        super().__init__()
        if narrow:
            inner = outputs // 4
            body = [conv(inputs, inner, 1), relu(), conv(inner, inner, 3, stride)]
            body += [relu(), conv(inner, outputs, 1)]
        else:
            body = [conv(inputs, outputs, 3, stride), relu(), conv(outputs, outputs, 3)]
        self.body = nn.Sequential(*body)
        kept = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if kept else conv(inputs, outputs, 1, stride)
        self.last = relu()

    def forward(self, x: Any) -> Any:
        return self.last(self.body(x) + self.shortcut(x))


def conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution without a bias, and its batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


def residual(width: int, narrow: bool, inplace: bool) -> Any:
    """A residual network: (B, 3, H, W) -> (B, CLASSES)."""
    relu = partial(nn.ReLU, inplace)
    block = partial(Residual, narrow=narrow, relu=relu)
    return nn.Sequential(
        conv(3, width, 7, 2), relu(), nn.MaxPool2d(3, 2, 1), block(width, width, 1),
        block(width, width, 1), block(width, 2 * width, 2), block(2 * width, 2 * width, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, CLASSES),
    )  # fmt: skip


class Squeezed(nn.Module):
    """Weights of channels by all of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Any) -> Any:
        inner = nn.functional.relu(self.narrow(nn.functional.adaptive_avg_pool2d(x, 1)))
        return x * self.wide(inner).sigmoid()


def mobile(width: int, activation: Callable[[], Any], squeezed: bool = False) -> Any:
    """A network of convolutions by channel: (B, 3, H, W) -> (B, CLASSES)."""

    def block(inputs: int, outputs: int, stride: int) -> Any:
        inner = [conv(inputs, inputs, 3, stride, inputs), activation()]
        inner += [Squeezed(inputs)] if squeezed else []
        return nn.Sequential(*inner, conv(inputs, outputs, 1), activation())

    return nn.Sequential(
        conv(3, width, 3, 2), activation(), block(width, width, 1), block(width, 2 * width, 2),
        block(2 * width, 2 * width, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(2 * width, CLASSES),
    )  # fmt: skip


def plain(width: int) -> Any:
    """A network as the first ones were, with biases: (B, 3, H, W) -> (B, CLASSES)."""
    wide = 2 * width
    return nn.Sequential(
        nn.Conv2d(3, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, wide, 3),
        nn.ReLU(), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(9 * wide, 128), nn.ReLU(), nn.Linear(128, CLASSES),
    )  # fmt: skip


class UNet(nn.Module):
    """Halves images and makes them whole again: (B, 3, H, W) -> (B, 3, H, W)."""

    def __init__(self, width: int, grouped: bool) -> None:
        super().__init__()
        self.grouped, wide = grouped, 2 * width
        self.first, self.inner = self.block(3, width), self.block(width, wide)
        self.down = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2) if grouped else nn.ConvTranspose2d(wide, wide, 2, 2)
        self.second, self.last = self.block(width + wide, width), nn.Conv2d(width, 3, 1)

    def block(self, inputs: int, outputs: int) -> Any:
        """Two convolutions with norms."""
        layers: list[Any] = []
        for given in (inputs, outputs):
            layers.append(nn.Conv2d(given, outputs, 3, padding=1))
            layers.append(nn.GroupNorm(4, outputs) if self.grouped else nn.BatchNorm2d(outputs))
            layers.append(nn.SiLU() if self.grouped else nn.ReLU(inplace=True))
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        found = self.first(x)
        deep = self.up(self.inner(self.down(found)))
        return self.last(self.second(weft.cat([found, deep], 1)))


class Drawing(nn.Module):
    """Images out of noise, and whether they look like those given: (B, 3, H, W) -> (B,)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        up, down = nn.ConvTranspose2d, nn.Conv2d
        self.draw = nn.Sequential(
            up(16, 2 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            up(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            up(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip
        self.judge = nn.Sequential(
            down(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            down(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2, inplace=True), down(2 * width, 1, 4, 1, 0, bias=False),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        drawn = self.judge(self.draw(weft.randn(x.shape[0], 16, 1, 1))).flatten()
        seen = self.judge(nn.functional.interpolate(x, (16, 16))).flatten()
        cost = nn.functional.binary_cross_entropy_with_logits
        return cost(seen, weft.ones_like(seen)) + cost(drawn, weft.zeros_like(drawn))


class Compressing(nn.Module):
    """A variational autoencoder of images by convolutions: its loss."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.side, self.wide = height // 4, 2 * width
        size = self.wide * self.side**2
        self.read = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, self.wide, 4, 2, 1),
            nn.ReLU(), nn.Flatten(), nn.Linear(size, 32),
        )  # fmt: skip
        self.start = nn.Linear(16, size)
        self.draw = nn.Sequential(
            nn.ConvTranspose2d(self.wide, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        mean, log_variance = self.read(x).chunk(2, 1)
        drawn = mean + weft.randn_like(mean) * weft.exp(0.5 * log_variance)
        shown = self.draw(self.start(drawn).view(-1, self.wide, self.side, self.side))
        apart = -0.5 * weft.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return nn.functional.binary_cross_entropy(shown, x, reduction="sum") + apart


class Patches(nn.Module):
    """A transformer over parts of an image: (B, 3, H, W) -> (B, CLASSES)."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(weft.zeros(1, 1, width))
        self.places = nn.Parameter(weft.randn(1, (height // 4) ** 2 + 1, width) * 0.02)
        layer = partial(nn.TransformerEncoderLayer, width, 4, 4 * width, 0.0, "gelu")
        self.layers = nn.Sequential(*[layer(batch_first=True, norm_first=True) for _ in range(2)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        parts = self.cut(x).flatten(2).transpose(1, 2)
        x = weft.cat([self.first.expand(len(parts), -1, -1), parts], 1) + self.places
        return self.head(self.last(self.layers(x)[:, 0]))


class ByChannel(nn.Module):
    """A block of wide convolutions by channel, a norm over channels, and two linear layers: (B, C, H, W) alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.across = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(1e-6 * weft.ones(width))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        inner = self.norm(self.across(x).permute(0, 2, 3, 1))
        inner = self.scale * self.narrow(nn.functional.gelu(self.wide(inner)))
        return x + inner.permute(0, 3, 1, 2)


def by_channel(width: int) -> Any:
    """A network of such blocks: (B, 3, H, W) -> (B, CLASSES)."""
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]
    return nn.Sequential(nn.Conv2d(3, width, 4, 4), ByChannel(width), ByChannel(width), *pool)


def signals(width: int, height: int) -> Any:
    """Rows of images as signals, by dilated convolutions: (B, 3, H, W) -> (B, CLASSES)."""
    layers = []
    for step in (1, 2, 4):
        layer = nn.Conv1d(width, width, 3, padding=step, dilation=step)
        layers += [layer, nn.BatchNorm1d(width), nn.ReLU()]
    begin = [nn.Flatten(1, 2), nn.Conv1d(3 * height, width, 5, padding=2), nn.ReLU()]
    end = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, CLASSES)]
    return nn.Sequential(*begin, *layers, nn.MaxPool1d(2), *end)


def volumes(width: int) -> Any:
    """Colours as depth: (B, 3, H, W) -> (B, CLASSES)."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.Conv3d(1, width, 3, padding=1), nn.BatchNorm3d(width),
        nn.ReLU(), nn.MaxPool3d((1, 2, 2)), nn.Conv3d(width, width, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(width, CLASSES),
    )  # fmt: skip


class Recurrent(nn.Module):
    """Rows of images as times: (B, 3, H, W) -> (B, CLASSES)."""

    def __init__(self, kind: Any, width: int, height: int) -> None:
        super().__init__()
        self.read = kind(3 * height, width, 2, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        found, _ = self.read(x.permute(0, 3, 1, 2).flatten(2))
        return self.head(found[:, -1])


def networks(width: int, height: int) -> list[Any]:
    """All of them, for images of this height."""
    return [
        residual(width, False, False), residual(width, False, True), residual(width, True, True),
        plain(width),
        mobile(width, nn.ReLU6), mobile(width, nn.SiLU, True), mobile(width, nn.Hardswish, True),
        UNet(width, True), UNet(width, False), Drawing(width), Compressing(width, height),
        Patches(4 * width, height), by_channel(width), signals(width, height), volumes(width),
        *(Recurrent(kind, 4 * width, height) for kind in (nn.GRU, nn.RNN, nn.LSTM)),
    ]  # fmt: skip


def optimizers() -> list[Callable[[Any], Any]]:
    """The usual ones."""
    optim = weft.optim
    momentum = partial(optim.SGD, lr=0.01, momentum=0.9)
    decayed = partial(momentum, weight_decay=1e-4)
    return [momentum, decayed, partial(optim.Adam, lr=1e-3), optim.AdamW]


def loss_of(model: Any, images: Any, labels: Any) -> Any:
    """The loss of a model: of classes, of images or its own."""
    found = model(images)
    if found.dim() == 0:
        return found
    if found.shape == images.shape:
        return nn.functional.mse_loss(found, images)
    return nn.functional.cross_entropy(found, labels)


def train(model: Any, optimizer: Callable[[Any], Any], batch: int, height: int) -> None:
    """Some steps, and what the model finds afterwards."""
    updates = optimizer(model.parameters())
    for _ in range(STEPS):
        images = weft.rand(batch, 3, height, height)
        labels = weft.randint(0, CLASSES, (batch,))
        updates.zero_grad()
        loss = loss_of(model, images, labels)
        loss.backward()
        updates.step()
        loss.item()
    model.eval()
    with weft.no_grad():
        for _ in range(2):
            loss_of(model, images, labels).item()


def run_large_parameters() -> None:
    """Initial values of many numbers, and updates of them."""
    for optimizer in optimizers():
        for bias in (True, False):
            model = nn.Sequential(
                nn.Linear(1024, 2048, bias), nn.ReLU(), nn.Linear(2048, 1024, bias), nn.Tanh()
            )
            updates = optimizer(model.parameters())
            for _ in range(STEPS):
                updates.zero_grad()
                model(weft.randn(128, 1024)).pow(2).mean().backward()
                updates.step()
    table = nn.EmbeddingBag(100_000, 32, mode="mean")
    updates = weft.optim.SGD(table.parameters(), lr=0.1)
    for _ in range(STEPS):
        updates.zero_grad()
        words = weft.randint(0, 100_000, (640,))
        table(words, weft.arange(0, 640, 20)).pow(2).mean().backward()
        updates.step()


def run() -> None:
    """All of it."""
    few, some, many = (4, 8, 32), (8, 32, 64), (40, 32, 64)  # many: cheap values are computed again
    for number, optimizer in enumerate(optimizers()):
        for size in (few, some, many):
            batch, width, height = size
            for place, model in enumerate(networks(width, height)):
                if size == few or place % len(optimizers()) == number:
                    train(model, optimizer, batch, height)
    run_large_parameters()
