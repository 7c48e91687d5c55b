"""Programs over examples of any structure: trees, sentences, molecules, a transition parser, an early exit.

Both libraries get one text, written for one example. PyTorch runs it in a loop. So does Weft, where no value is read
on the way; where one is, `weft.map` runs it on all examples of a batch. On sentences Weft's per-example program is
also measured beside PyTorch's batched by hand, with packing.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.libraries import fill, normal
from benchmarks.measure import Context, Job, compare
from benchmarks.models import tree_lstm
from benchmarks.rivals import dynet_seconds
from benchmarks.sequences import (
    bond_network,
    encoder,
    molecule_network,
    packed_tagger,
    padded_encoder,
    tagger,
)
from benchmarks.training import numbered, shuffled, train_job

BATCHES = (1, 8, 32, 128)


def over_batches(
    context: Context,
    title: str,
    make: Callable[..., Job],
    by_hand: Any = None,
    batches: tuple[int, ...] = BATCHES,
    plain: Callable[[], tuple[str, Any, list[Any]]] | None = None,
    hand: str = "packed",
    target: float | None = None,
) -> None:
    """Lines for all batch sizes; `by_hand` makes PyTorch's job for a whole batch at once, `plain` gives what DyNet
    needs: the kind of model, one with the weights, examples without tensors; `target` is the ratio wanted of 32."""
    short = replace(context, budget_seconds=min(context.budget_seconds, 3.0), repeats=7)
    for batch in context.pick(batches, batches[:2]):
        job = partial(make, batch=batch)
        note = None
        if plain and context.dynet and "pytorch" in context.libraries:
            loss = job(context.libraries["pytorch"]).run()
            words = f"DyNet {dynet_seconds(context.dynet, *plain(), batch, loss) * 1e3:.3g} ms"
            note = partial(_said, words)
        wanted = target if batch == 32 else None
        compare(short, f"{title}, batch {batch}", job, note, target=wanted)
    for batch in context.pick(batches[1:], batches[1:2]) if by_hand else ():
        job = partial(_of_either, make=make, by_hand=by_hand, batch=batch)
        compare(short, f"{title}, batch {batch}, PyTorch {hand} by hand", job)


def _said(words: str, figures: dict[str, float]) -> str:
    """A note that does not depend on the figures."""
    return words


def _of_either(lib: Any, make: Callable[..., Job], by_hand: Any, batch: int) -> Job:
    """Weft's job for one example at a time, the other library's by hand."""
    job: Job = (make if lib.__name__ == "weft" else by_hand)(lib, batch)
    return job


def batches_of(examples: list[Any], batch: int) -> Callable[[], list[Any]]:
    """Other examples at each call; they come round."""
    starts = cycle(range(0, len(examples) - batch + 1, batch))

    def upcoming() -> list[Any]:
        start = next(starts)
        return examples[start : start + batch]

    return upcoming


def mean_loss_job(lib: Any, model: Any, examples: list[Any], batch: int) -> Job:
    """Steps on the mean loss of examples that run one by one."""
    upcoming = batches_of(examples, batch)
    return train_job(
        lib, model, lambda: lib.stack([model(example) for example in upcoming()]).mean()
    )


# -- trees, sentences, molecules ---------------------------------------------------------------------


def syntax_trees(context: Context) -> None:
    """A step of the Tree-LSTM on the standard library's functions."""
    from weft.demo.syntax_trees import load_functions

    data, width = load_functions(limit=context.pick(None, 320)), context.pick(128, 32)

    def make(lib: Any, batch: int) -> Job:
        numbers = {label: lib.tensor(n) for n, label in enumerate(data.vocabulary())}
        classes = {package: lib.tensor(n) for n, package in enumerate(data.packages)}
        network = fill(lib, tree_lstm(lib, len(numbers), len(classes), width))
        examples = [(numbered(f.tree, numbers), classes[f.package]) for f in shuffled(data.train)]
        cost = lib.nn.functional.cross_entropy
        upcoming = batches_of(examples, batch)
        return train_job(
            lib,
            network,
            lambda: lib.stack([cost(network(tree), target) for tree, target in upcoming()]).mean(),
        )

    def plain() -> tuple[str, Any, list[Any]]:
        lib = context.libraries["pytorch"]
        numbers = {label: n for n, label in enumerate(data.vocabulary())}
        classes = {package: n for n, package in enumerate(data.packages)}
        model = fill(lib, tree_lstm(lib, len(numbers), len(classes), width))
        return (
            "trees",
            model,
            [(numbered(f.tree, numbers), classes[f.package]) for f in shuffled(data.train)],
        )

    over_batches(context, f"Tree-LSTM d {width}", make, plain=plain, target=10.0)


def sentences(context: Context) -> None:
    """The tagger on 32 sentences alone."""
    tagging(context, batches=(32,))


def tagging(context: Context, spelled: bool = False, batches: tuple[int, ...] = BATCHES) -> None:
    """A step of a BiLSTM tagger on the library's statements: the kind of node at each token."""
    width, count = context.pick(128, 32), context.pick(1024, 64)
    statements = load_example("parser").load_statements(count)
    vocabulary = Vocabulary(statements)

    def make(lib: Any, batch: int, at_once: bool = False) -> Job:
        examples = [vocabulary.example(lib, statement, at_once) for statement in statements]
        letters = len(vocabulary.letters) if spelled else 0
        text = packed_tagger if at_once else tagger
        model = fill(lib, text(lib, len(vocabulary.words), len(vocabulary.tags), width, letters))
        if not at_once:
            return mean_loss_job(lib, model, examples, batch)
        upcoming = batches_of(examples, batch)
        return train_job(lib, model, lambda: model(upcoming()))

    def plain() -> tuple[str, Any, list[Any]]:
        lib = context.libraries["pytorch"]
        letters = len(vocabulary.letters) if spelled else 0
        words, tags = len(vocabulary.words), len(vocabulary.tags)
        model = fill(lib, tagger(lib, words, tags, width, letters))
        return "tagger", model, [vocabulary.numbers(statement) for statement in statements]

    over_batches(
        context,
        f"BiLSTM tagger d {width}" + (" with characters" if spelled else ""),
        make,
        lambda lib, batch: make(lib, batch, at_once=True),
        batches,
        plain,
        target=10.0,
    )


def spelling(context: Context) -> None:
    """The same with a BiLSTM over the characters of each word."""
    tagging(context, spelled=True)


class Vocabulary:
    """The numbers of words, characters and tags."""

    def __init__(self, statements: list[Any]) -> None:
        words = sorted({word for statement in statements for word in statement.tokens})
        self.words = {word: n for n, word in enumerate(words)}
        self.letters = {letter: n for n, letter in enumerate(sorted(set("".join(words))))}
        tags = sorted({tag for statement in statements for tag in statement.labels})
        self.tags = {tag: n for n, tag in enumerate(tags)}

    def numbers(self, statement: Any) -> tuple[list[int], list[list[int]], list[int]]:
        """(words, characters of each, tags) by their numbers."""
        return (
            [self.words[word] for word in statement.tokens],
            [[self.letters[x] for x in word] for word in statement.tokens],
            [self.tags[tag] for tag in statement.labels],
        )

    def example(self, lib: Any, statement: Any, as_tensors: bool) -> Any:
        """`numbers` with each sequence as a tensor, or as a list of single numbers as tensors."""

        def row(numbers: list[int]) -> Any:
            return lib.tensor(numbers) if as_tensors else [lib.tensor(n) for n in numbers]

        words, spellings, tags = self.numbers(statement)
        return row(words), [row(spelling) for spelling in spellings], row(tags)


def encoding(context: Context) -> None:
    """A step of a transformer block on sentences of 5 to 60 tokens."""
    width, count = context.pick(128, 32), context.pick(512, 64)
    draw = random.Random(0)
    sentences = [[draw.randrange(1000) for _ in range(draw.randint(5, 60))] for _ in range(count)]

    def make(lib: Any, batch: int, at_once: bool = False) -> Job:
        examples = [(lib.tensor(words), lib.tensor(sum(words) % 10)) for words in sentences]
        text = padded_encoder if at_once else encoder
        model = fill(lib, text(lib, 1000, 10, width))
        if not at_once:
            return mean_loss_job(lib, model, examples, batch)
        upcoming = batches_of(examples, batch)
        return train_job(lib, model, lambda: model(upcoming()))

    over_batches(
        context,
        f"transformer block d {width}, sentence by sentence",
        make,
        lambda lib, batch: make(lib, batch, at_once=True),
        hand="padded",
    )


def molecules(context: Context) -> None:
    """A step of a graph network on graphs of 8 to 24 nodes."""
    width, count = context.pick(64, 16), context.pick(512, 32)
    graphs = [molecule(random.Random(n)) for n in range(count)]

    def make(lib: Any, batch: int) -> Job:
        model = fill(lib, molecule_network(lib, 10, width, rounds=4))
        examples = [tuple(lib.tensor(part) for part in graph) for graph in graphs]
        return mean_loss_job(lib, model, examples, batch)

    over_batches(context, f"graph network d {width} on molecules", make)
    listed = [along_bonds(*graph) for graph in graphs]

    def make_of_bonds(lib: Any, batch: int) -> Job:
        model = fill(lib, bond_network(lib, 10, width, rounds=4))
        examples = [tuple(lib.tensor(part) for part in graph) for graph in listed]
        return mean_loss_job(lib, model, examples, batch)

    over_batches(context, f"graph network d {width} along listed bonds", make_of_bonds)


def molecule(draw: random.Random) -> tuple[list[int], list[list[float]], float]:
    """Atoms on a tree of bonds with a few rings."""
    count = draw.randint(8, 24)
    bonds = [[0.0] * count for _ in range(count)]
    pairs = [(n, draw.randrange(n)) for n in range(1, count)]
    rings = [draw.sample(range(count), 2) for _ in range(count // 6)]
    for one, other in (*pairs, *rings):
        bonds[one][other] = bonds[other][one] = 1.0
    return [draw.randrange(10) for _ in range(count)], bonds, draw.random()


def along_bonds(
    kinds: list[int], bonds: list[list[float]], value: float
) -> tuple[list[int], list[int], list[int], float]:
    """A molecule with its bonds as lists of atoms, each bond once for either direction."""
    pairs = [(one, other) for one, row in enumerate(bonds) for other, on in enumerate(row) if on]
    return kinds, [one for one, _ in pairs], [other for _, other in pairs], value


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
    over_batches(
        context,
        f"stack-LSTM parser d {width}, values read",
        lambda lib, batch: parser_step(lib, example, statements, width, batch),
        target=5.0,
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
    upcoming = batches_of(examples, batch)

    def loss_of() -> Any:
        losses = each(lib, model, upcoming())
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
    over_batches(
        context,
        f"GRU with early exit d {width}, values read",
        lambda lib, batch: exit_step(lib, width, count, batch),
        target=5.0,
    )


def exit_step(lib: Any, width: int, count: int, batch: int) -> Job:
    """Sequences of 20 to 60 steps, of which each is read until its own halting sum is full."""
    model = fill(lib, exiting_network(lib, width))
    sequences = [list(normal(lib, 20 + 7 * n % 41, width, seed=n)) for n in range(count)]
    examples = [(sequence, lib.tensor(n % 10)) for n, sequence in enumerate(sequences)]
    upcoming = batches_of(examples, batch)
    return train_job(lib, model, lambda: lib.stack(each(lib, model, upcoming())).mean())


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
