"""Training and measuring the demo's model, one tree at a time.

It takes a data set and settings, and returns a trained model, and for each epoch its loss and accuracies. Every number
depends on the seed alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import weft
from weft import Tensor, nn
from weft.demo.model import TreeLSTM
from weft.demo.syntax_trees import Dataset, Function
from weft.nn import functional as F
from weft.optim import AdamW
from weft.optim.lr_scheduler import CosineAnnealingLR


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    epochs: int = 3
    width: int = 64
    trees_per_step: int = 32
    lr: float = 5e-3
    weight_decay: float = 0.5
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """The results of one epoch."""

    number: int
    loss: float
    accuracy: float
    held_out: float
    seconds: float


def progress_bar(total: int, description: str):  # type: ignore[no-untyped-def]
    """tqdm's bar; an extra of the demo."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise SystemExit("the demo shows its progress with tqdm: pip install weft[demo]") from error
    return tqdm(total=total, desc=description, unit="tree", dynamic_ncols=True)


def batches(functions: list[Function], size: int) -> Iterator[list[Function]]:
    """Consecutive lists of `size` functions."""
    return (functions[i : i + size] for i in range(0, len(functions), size))


class Trainer:
    """A model, its optimizer and the numbers of the classes."""

    def __init__(self, data: Dataset, settings: Settings) -> None:
        weft.manual_seed(settings.seed)
        self.data, self.settings = data, settings
        self.random = random.Random(settings.seed)
        self.target = {name: weft.tensor(i) for i, name in enumerate(data.packages)}
        self.model = TreeLSTM(data.vocabulary(), len(data.packages), settings.width)
        self.optimizer = AdamW(
            self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
        )
        steps = settings.epochs * -(-len(data.train) // settings.trees_per_step)
        self.schedule = CosineAnnealingLR(self.optimizer, steps)

    def run(self) -> Iterator[Epoch]:
        """Train; one report after each epoch."""
        weft.manual_seed(self.settings.seed)
        for number in range(1, self.settings.epochs + 1):
            started = time.perf_counter()
            loss, accuracy = self.train_epoch(number)
            held_out = measure(self.model, self.data)
            yield Epoch(number, loss, accuracy, held_out, time.perf_counter() - started)

    def train_epoch(self, number: int) -> tuple[float, float]:
        """Visit every training function once, in random order: mean loss and accuracy."""
        functions = list(self.data.train)
        self.random.shuffle(functions)
        self.model.train()
        total, right, seen = 0.0, 0, 0
        with progress_bar(len(functions), f"epoch {number}/{self.settings.epochs}") as bar:
            for batch in batches(functions, self.settings.trees_per_step):
                loss, correct = self.step(batch)
                total, right, seen = total + loss * len(batch), right + correct, seen + len(batch)
                bar.update(len(batch))
                bar.set_postfix(loss=f"{total / seen:.3f}", accuracy=f"{right / seen:.3f}")
        return total / seen, right / seen

    def step(self, batch: list[Function]) -> tuple[float, int]:
        """One update: the mean loss and the number of right answers."""
        self.optimizer.zero_grad()
        losses, guesses = [], []
        for function in batch:
            scores = self.model(function.tree)
            losses.append(F.cross_entropy(scores, self.target[function.package]))
            guesses.append(scores.argmax())
        loss = weft.stack(losses).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss.item(), count_right(guesses, batch, self.data.packages)


def count_right(guesses: list[Tensor], batch: list[Function], packages: tuple[str, ...]) -> int:
    """The number of guesses that name the function's package."""
    numbers = weft.stack(guesses).tolist()
    return sum(packages[n] == f.package for n, f in zip(numbers, batch, strict=True))


def measure(model: TreeLSTM, data: Dataset) -> float:
    """The accuracy on the held-out functions."""
    model.eval()
    right = 0
    with weft.no_grad():
        for batch in batches(list(data.held_out), 128):
            guesses = [model(function.tree).argmax() for function in batch]
            right += count_right(guesses, batch, data.packages)
    return right / len(data.held_out)
