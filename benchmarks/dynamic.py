"""Programs that read values while they run: a transition parser, a network with early exit per example.

Both libraries get one text, written for one example. Weft runs it on all examples of a batch by
`weft.map`, PyTorch in a loop.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.libraries import fill, normal
from benchmarks.measure import Context, Job, compare
from benchmarks.training import train_job

BATCHES = (32, 1)


def each(lib: Any, function: Callable[[Any], Any], examples: Iterable[Any]) -> list[Any]:
    """The function on each example, as a user of the library would have it run."""
    if lib.__name__ == "weft":
        return list(lib.map(function, examples))
    return [function(example) for example in examples]


# -- a transition parser -----------------------------------------------------------------------------


def parsing(context: Context) -> None:
    """A step of a stack-LSTM parser (Dyer et al. 2015) on the library's statements."""
    width, count = context.pick(128, 32), context.pick(1024, 128)
    example = load_example("parser")
    statements = example.load_statements(count)
    for batch in BATCHES:
        compare(
            context,
            f"stack-LSTM parser d {width}, batch {batch}, values read, AdamW step",
            lambda lib, batch=batch: parser_step(lib, example, statements, width, batch),
        )


def load_example(name: str) -> ModuleType:
    """A program from examples/, which is no package."""
    path = Path(__file__).resolve().parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parser_step(lib: Any, example: Any, statements: list[Any], width: int, batch: int) -> Job:
    """Other statements at each step; they come round."""
    words = sorted({word for statement in statements for word in statement.tokens})
    numbers = {word: lib.tensor(n) for n, word in enumerate(words)}
    model = fill(lib, stack_parser(lib, example, len(words), width))
    examples = [([numbers[word] for word in s.tokens], s.heads) for s in statements]
    starts = cycle(range(0, len(examples) - batch, batch))

    def loss_of() -> Any:
        start = next(starts)
        losses = each(lib, model, examples[start : start + batch])
        return lib.stack([loss for way in losses for loss in way]).mean()

    return train_job(lib, model, loss_of)


def stack_parser(lib: Any, example: Any, words: int, width: int) -> Any:
    """Decides by LSTMs over the stack and over what is to come; follows its own decisions."""
    nn = lib.nn

    class Parser(nn.Module):  # type: ignore[misc,name-defined]
        """One statement -> the loss of each transition."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.coming, self.stack = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
            self.compose = nn.Linear(2 * width, width)
            self.hidden, self.score = nn.Linear(2 * width, width), nn.Linear(width, 3)

        def read(self, vectors: list[Any]) -> list[Any]:
            """What comes from each place on, the end included."""
            zero = lib.zeros(width)
            states = [(zero, zero)]
            for vector in reversed(vectors):
                states.append(self.coming(vector, states[-1]))
            return [hidden for hidden, _ in reversed(states)]

        def forward(self, statement: Any) -> list[Any]:
            tokens, heads = statement
            vectors = [*(self.embed(token) for token in tokens), lib.zeros(width)]
            coming, zero = self.read(vectors[:-1]), lib.zeros(width)
            state, stack, losses = example.State(len(tokens)), [(zero, zero)], []
            while not state.done():
                seen = lib.cat([stack[-1][0], coming[state.next]])  # (2 w)
                scores = self.score(self.hidden(seen).tanh())  # (2 w) -> (3)
                gold = state.best(heads)[0]
                losses.append(scores.logsumexp(0) - scores[gold])
                values = scores.tolist()
                kind = max(state.allowed(), key=values.__getitem__)
                self.apply_transition(kind, state, stack, vectors)
                state.step(kind, "")
            return losses

        def apply_transition(self, kind: int, state: Any, stack: Any, vectors: Any) -> None:
            """Keep the LSTM over the stack and the vectors of partial trees with the state."""
            if kind == example.SHIFT:
                stack.append(self.stack(vectors[state.next], stack[-1]))
                return
            stack.pop()
            top = state.stack[-1]
            head = state.next if kind == example.LEFT else state.stack[-2]
            vectors[head] = self.compose(lib.cat([vectors[head], vectors[top]])).tanh()
            if kind == example.RIGHT:
                stack.pop()
                stack.append(self.stack(vectors[head], stack[-1]))

    return Parser()


# -- early exit --------------------------------------------------------------------------------------


def exiting(context: Context) -> None:
    """A step of a GRU that stops reading where it is sure (after Graves 2016)."""
    width, count = context.pick(128, 32), context.pick(512, 64)
    for batch in BATCHES:
        compare(
            context,
            f"GRU with early exit d {width}, batch {batch}, values read, AdamW step",
            lambda lib, batch=batch: exit_step(lib, width, count, batch),
        )


def exit_step(lib: Any, width: int, count: int, batch: int) -> Job:
    """Sequences of 20 to 60 steps, of which each is read until its own halting sum is full."""
    model = fill(lib, exiting_network(lib, width))
    sequences = [list(normal(lib, 20 + 7 * n % 41, width, seed=n)) for n in range(count)]
    examples = [(sequence, lib.tensor(n % 10)) for n, sequence in enumerate(sequences)]
    starts = cycle(range(0, count - batch, batch))

    def loss_of() -> Any:
        start = next(starts)
        return lib.stack(each(lib, model, examples[start : start + batch])).mean()

    return train_job(lib, model, loss_of)


def exiting_network(lib: Any, width: int) -> Any:
    """A GRU cell, a halting unit, a classifier."""
    nn = lib.nn

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        """One sequence and its class -> loss."""

        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(width, width)
            self.halt, self.classify = nn.Linear(width, 1), nn.Linear(width, 10)

        def forward(self, example: Any) -> Any:
            sequence, target = example
            hidden, sure = lib.zeros(width), 0.0
            for step in sequence:
                hidden = self.cell(step, hidden)  # (w), (w) -> (w)
                sure += self.halt(hidden).sigmoid().item()
                if sure > 8:
                    break
            return nn.functional.cross_entropy(self.classify(hidden), target)

    return Network()
