"""Training steps of networks over time and over images: an RNN of any length, an LSTM language model, a ResNet."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

from benchmarks.libraries import fill, integers, normal
from benchmarks.limits import Work
from benchmarks.measure import Context, Job, Line, compare
from benchmarks.training import train_job, unchanged

LENGTHS = range(5, 61)
RNN, SMALL_RNN = (128, 16, LENGTHS), (16, 4, range(5, 11))  # width, batch, lengths
LSTM, SMALL_LSTM = (32, 64, 256), (4, 8, 16)  # batch, length, width
RESNET = (16, 32, (32, 32, 64, 64, 128, 128, 256, 256))  # batch, size, widths
SMALL_RESNET = (2, 8, (4, 4, 8, 8))


def any_length(context: Context) -> None:
    """An RNN over sequences whose length is another one at every step."""
    width, batch, some = context.pick(RNN, SMALL_RNN)
    lengths = shuffled_lengths(some)
    compare(
        context,
        f"RNN d {width}, batch {batch}, lengths {min(lengths)} to {max(lengths)}, AdamW step",
        partial(rnn_step, width=width, batch=batch, lengths=lengths),
        target=3.0,
        work=Work(6.0 * batch * 2 * width * width * sum(lengths) / len(lengths)),
    )
    compilations(context)


def compilations(context: Context) -> None:
    """A line with the kernels that each of the first steps compiles, in a process that has none."""
    from benchmarks.processes import child

    with tempfile.TemporaryDirectory() as cache:
        counts = child(context, "lengths", "weft", cache=cache)["compiled"]
    settled = max((number for number, count in enumerate(counts, 1) if count), default=0)
    note = f"compiled by step: {', '.join(map(str, counts[:12]))} ...; none after step {settled}"
    context.report(Line("RNN of other lengths, kernels compiled", {}, "", note))


def shuffled_lengths(lengths: range) -> list[int]:
    """Each once, in an order that is the same on every run."""
    mixed = list(lengths)
    random.Random(0).shuffle(mixed)
    return mixed


def rnn_step(lib: Any, width: int, batch: int, lengths: list[int]) -> Job:
    """One run is one round over all lengths."""
    step = rnn_one_step(lib, width, batch, lengths)

    def one_round() -> None:
        for _ in lengths:
            step.run()

    return Job(one_round, step.result, per=len(lengths), compare=step.compare)


def rnn_one_step(lib: Any, width: int, batch: int, lengths: list[int]) -> Job:
    """A cell written out, in a loop over the time steps; the lengths come round."""
    nn = lib.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        """(time, batch, width) -> (batch, 10)."""

        def __init__(self) -> None:
            super().__init__()
            self.read, self.keep = nn.Linear(width, width), nn.Linear(width, width)
            self.score = nn.Linear(width, 10)

        def forward(self, steps: Any) -> Any:
            hidden = lib.zeros(batch, width)
            for x in steps:
                hidden = (self.read(x) + self.keep(hidden)).tanh()  # (b, w)
            return self.score(hidden)

    model = fill(lib, Network())
    inputs = [normal(lib, length, batch, width, seed=length) for length in lengths]
    target, upcoming = integers(lib, 10, batch), cycle(inputs)
    cost = lib.nn.functional.cross_entropy
    return train_job(lib, model, lambda: cost(model(next(upcoming)), target))


def lstm(context: Context) -> None:
    """A language model with one LSTM layer."""
    batch, length, width = context.pick(LSTM, SMALL_LSTM)
    compare(
        context,
        f"LSTM language model, batch {batch}, T {length}, d {width}, AdamW step",
        partial(lstm_step, batch=batch, length=length, width=width),
        target=2.0,
        work=Work(6.0 * batch * length * (2 * 4 * width * width + width * 256)),
        rivals={"torch.compile": partial(lstm_step, batch=batch, length=length, width=width)},
    )


def lstm_step(lib: Any, batch: int, length: int, width: int, characters: int = 256) -> Job:
    """nn.LSTM between an embedding and scores."""
    nn = lib.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        """(batch, time) -> (batch, time, characters)."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(characters, width)
            self.read = nn.LSTM(width, width, batch_first=True)
            self.score = nn.Linear(width, characters)

        def forward(self, text: Any) -> Any:
            return self.score(self.read(self.embed(text))[0])

    model = fill(lib, Network())
    texts = cycle([integers(lib, characters, batch, length + 1, seed=n) for n in range(4)])

    def loss_of() -> Any:
        text = next(texts)
        scores = model(text[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return train_job(lib, model, loss_of)


def images(context: Context) -> None:
    """A ResNet of 8 blocks on small images."""
    batch, size, widths = context.pick(RESNET, SMALL_RESNET)
    compare(
        context,
        f"ResNet of {len(widths)} blocks, {size} x {size}, batch {batch}, AdamW step",
        partial(resnet_step, batch=batch, size=size, widths=widths),
        target=1.3,
        work=Work(resnet_operations(batch, size, widths)),
        rivals={"torch.compile": partial(resnet_step, batch=batch, size=size, widths=widths)},
    )


def resnet_operations(batch: int, size: int, widths: tuple[int, ...]) -> float:
    """Of the convolutions: forward, and of both gradients."""
    operations = batch * size * size * 27.0 * widths[0]
    for before, after in zip((widths[0], *widths), widths, strict=False):
        size = size if before == after else size // 2
        weights = 9.0 * after * (before + after) + (before * after if before != after else 0)
        operations += batch * size * size * weights
    return 6.0 * operations


def resnet_step(
    lib: Any,
    batch: int,
    size: int,
    widths: tuple[int, ...],
    prepare: Callable[[Any, Any], Any] = unchanged,
) -> Job:
    """The same images at each step; `prepare` changes the model before."""
    model = prepare(lib, fill(lib, resnet(lib, widths)))
    x, target = normal(lib, batch, 3, size, size), integers(lib, 10, batch)
    return train_job(lib, model, lambda: lib.nn.functional.cross_entropy(model(x), target))


def resnet(lib: Any, widths: tuple[int, ...]) -> Any:
    """Basic blocks (He et al. 2015); where the width changes, the first convolution has stride 2."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        """Two convolutions with batch norm, added to the input."""

        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            stride = 1 if before == after else 2
            self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
            self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
            self.skip: Any = nn.Identity()
            if stride == 2:
                self.skip = nn.Conv2d(before, after, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.norm1(self.conv1(x)).relu()
            return (self.norm2(self.conv2(y)) + self.skip(x)).relu()

    stem = [nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    blocks = [Block(*pair) for pair in zip((widths[0], *widths), widths, strict=False)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*stem, *blocks, *head)
