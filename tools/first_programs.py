"""What programs begin with: every elementwise row and reduction by type and layout, and steps of small networks.

`run()` runs them. `ship_kernels.py` notes which kernels they ask for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import weft
from weft import nn
from weft.demo.model import TreeLSTM
from weft.demo.syntax_trees import Tree
from weft.engine.ir.primitive import ELEMENTWISE
from weft.errors import WeftError
from weft.ops import OPS
from weft.ops.primitives import elementwise as call

TYPES = ("float32", "float64", "int64")
COMMON = "float32"  # in all layouts, or the first of TYPES; of other types those of one shape
CLASSES = 50
STEPS = 4  # of a network: its fused kernels are compiled when they come again


def operands(count: int, dtype: str, common: str = COMMON) -> Iterator[list[Any]]:
    """Operands of a row in usual layouts: all of one shape, all without axes, all (or all but a cotangent) one tensor,
    one element repeated; one of them a number, a row or a column; one of them no number, and the others one."""
    whole = weft.tensor(np.linspace(0.1, 0.9, 24).reshape(4, 6).astype(dtype))
    yield [whole * 1 for _ in range(count)]
    yield [whole[number % 4, number % 6] * 1 for number in range(count)]
    if dtype != common:
        return
    yield [whole * 1] * count
    yield [whole * 1] + [whole * 2] * (count - 1)
    yield [(whole[number % 4, number % 6] * 1).expand(4, 6) for number in range(count)]
    for place in range(count if count > 1 else 0):
        for other in (2, whole[0], whole[:, :1]):
            yield [other if number == place else whole * 1 for number in range(count)]
    for place in range(count if count > 2 else 0):
        yield [whole * 1 if number == place else 2 for number in range(count)]


def run_table() -> None:
    """Every elementwise row."""
    for row in list(OPS.values()):
        if row.kind != ELEMENTWISE or row.name in ("cast",):
            continue
        types = [dtype for dtype in TYPES if dtype in row.dtypes]
        for dtype in types:
            for given in operands(len(row.operands), dtype, types[0]):
                with contextlib.suppress(WeftError, TypeError, ValueError):
                    call(row.name, *given).numpy()


def run_reductions() -> None:
    """Reductions along, across and over all axes; copies and conversions."""
    functions: tuple[Callable[..., Any], ...] = (
        weft.sum, weft.mean, weft.amax, weft.amin, weft.argmax, weft.argmin, weft.prod, weft.logsumexp, weft.std,
    )  # fmt: skip
    sizes = ((20,), (5, 20), (3, 4, 20), (20_000,), (500, 40))
    for x in (*(weft.rand(*size) for size in sizes), weft.rand(5, 20).double()):
        for function in functions:
            for axis in range(x.dim()):
                with contextlib.suppress(WeftError, TypeError, ValueError):
                    function(x, axis).numpy()
            with contextlib.suppress(WeftError, TypeError, ValueError):
                function(x).numpy()
        for axis in range(x.dim()):
            x.softmax(axis).numpy()
            x.log_softmax(axis).numpy()
            weft.cat([x, x], axis).numpy()
            weft.stack([x, x], axis).numpy()
            x.transpose(0, axis).contiguous().numpy()
            x.narrow(axis, 0, 1).expand_as(x).contiguous().numpy()
        for dtype in (weft.float32, weft.float64, weft.int64, weft.bool):
            x.to(dtype).numpy()


def run_families() -> None:
    """What is no loop over independent elements: indexing, scatters, scans, sorts; random numbers."""
    rows, columns = weft.tensor([0, 2, 1, 2]), weft.randint(0, 4, (4, 6))
    for dtype in (weft.float32, weft.float64, weft.int64):
        x = (weft.rand(4, 6) * 9).to(dtype)
        for function in (
            lambda x: x[rows], lambda x: x[:, rows], lambda x: x[rows, rows], lambda x: x.index_select(0, rows),
            lambda x: x.gather(1, columns % 4), lambda x: x.gather(0, columns), lambda x: x.cumsum(0),
            lambda x: x.scatter_add(0, columns, x), lambda x: x.index_add(0, rows, x), lambda x: x.cumsum(1),
            lambda x: x.sort(1)[0], lambda x: x.argsort(1), lambda x: x.topk(2)[1], lambda x: x[x > 3],
            lambda x: x.tril(), lambda x: x.triu(), lambda x: x.flip(1), lambda x: x[:, ::2] * 2,
        ):  # fmt: skip
            function(x).numpy()  # type: ignore[no-untyped-call]
        one, other, column = x[0, 0].expand(24), x[0, 1].expand(24), x[:, :1].expand(-1, 6)
        for wide in (one + other, one - other, one * other, one / other, weft.cat([column, x], 1)):
            wide.numpy()
        for reduced in (one.sum(), one.amax(), one.amin(), one.prod()):
            reduced.numpy()
        for part in (x, column, x[0], 2):
            whole = weft.zeros(4, 12, dtype=dtype)
            whole[:, :6] = part
            whole.numpy()
        weft.arange(9, dtype=dtype).numpy()
        nn.functional.one_hot(rows, 4).to(dtype).numpy()
    own = weft.Generator().manual_seed(0)
    choices: tuple[dict[str, Any], ...] = ({}, {"generator": own})
    for given in choices:
        for random in (weft.rand, weft.randn, partial(weft.randint, 0, 9)):
            for shape in ((1,), (5, 6)):
                (random(shape, **given) * 2 + 1).numpy()
                random(shape, **given).numpy()
        weft.randperm(9, **given).numpy()
        weft.bernoulli(weft.rand(5, 6), **given).numpy()
        weft.multinomial(weft.rand(5, 6), 2, **given).numpy()
    for fill in (
        nn.init.uniform_,
        nn.init.normal_,
        nn.init.xavier_uniform_,
        nn.init.kaiming_uniform_,
    ):
        fill(weft.empty(6, 5)).numpy()


# -- networks --------------------------------------------------------------------------------------------------------


class Attending(nn.Module):
    """A small transformer over characters."""

    def __init__(self, width: int = 32, approximate: str = "none", dropped: float = 0.0) -> None:
        super().__init__()
        self.approximate, self.drop = approximate, nn.Dropout(dropped)
        self.embed, self.places = nn.Embedding(CLASSES, width), nn.Embedding(128, width)
        self.layers = nn.ModuleList([self.layer(width) for _ in range(2)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES, bias=False)

    def layer(self, width: int) -> nn.ModuleDict:
        """The parameters of a layer."""
        norms = {"first": nn.LayerNorm(width), "second": nn.LayerNorm(width)}
        heads = {"to_heads": nn.Linear(width, 3 * width), "back": nn.Linear(width, width)}
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        return nn.ModuleDict({**norms, **heads, "wide": wide, "narrow": narrow})

    def forward(self, words: Any) -> Any:
        places = self.places(weft.arange(words.shape[1]))
        x = self.drop(self.embed(words) + places)  # (B, T, C)
        for layer in self.layers:
            x = x + self.drop(self.attend(layer, layer["first"](x)))
            wide = layer["wide"](layer["second"](x))
            narrow = layer["narrow"](nn.functional.gelu(wide, approximate=self.approximate))
            x = x + self.drop(narrow)
        return self.head(self.last(x))

    def attend(self, layer: Any, x: Any) -> Any:
        """Causal attention of 4 heads: (B, T, C) -> (B, T, C)."""
        batch, length, width = x.shape
        q, k, v = [
            part.view(batch, length, 4, -1).transpose(1, 2)
            for part in layer["to_heads"](x).split(width, -1)
        ]
        seen = nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.drop.p if self.training else 0.0
        )
        return layer["back"](seen.transpose(1, 2).reshape(batch, length, -1))


class Reading(nn.Module):
    """A transformer that reads whole lines, (B, T), some places of which are masked: each sum is normalized behind."""

    def __init__(self, width: int = 32, activation: str = "gelu") -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(CLASSES, width), nn.Embedding(128, width)
        self.first, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = partial(nn.TransformerEncoderLayer, width, 4, 4 * width, 0.1, activation)
        self.layers = nn.ModuleList([layer(batch_first=True) for _ in range(2)])
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, CLASSES)

    def forward(self, words: Any) -> Any:
        x = self.drop(self.first(self.embed(words) + self.places(weft.arange(words.shape[1]))))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=words == 0)
        return self.head(self.drop(self.pool(x[:, 0]).tanh()))


class Encoding(nn.Module):
    """An encoder as published ones are written: three tables are added up, queries, keys and values have weights of
    their own, sums are normalized behind, and a mask is added to scores."""

    def __init__(self, width: int = 32, activation: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.activation = activation or nn.functional.gelu
        self.words = nn.Embedding(CLASSES, width, padding_idx=0)
        self.places, self.kinds = nn.Embedding(128, width), nn.Embedding(2, width)
        self.first, self.drop = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.layers = nn.ModuleList([self.layer(width) for _ in range(2)])
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def layer(self, width: int) -> nn.ModuleDict:
        """The parameters of a layer."""
        square = {name: nn.Linear(width, width) for name in ("query", "key", "value", "back")}
        wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        norms = {name: nn.LayerNorm(width, eps=1e-12) for name in ("behind", "last")}
        return nn.ModuleDict({**square, "wide": wide, "narrow": narrow, **norms})

    def forward(self, words: Any) -> Any:
        places, kinds = weft.arange(words.shape[1])[None], weft.zeros_like(words)
        x = self.words(words) + self.kinds(kinds) + self.places(places)
        x = self.drop(self.first(x))
        seen = self.seen((words != 0).long().bool())
        for layer in self.layers:
            x = layer["behind"](self.drop(layer["back"](self.attend(layer, x, seen))) + x)
            wide = self.activation(layer["wide"](x))
            x = layer["last"](self.drop(layer["narrow"](wide)) + x)
        return self.head(self.drop(self.pool(x[:, 0]).tanh()))

    def seen(self, mask: Any) -> Any:
        """Which words each word sees, of those that a mask has: (B, T) -> (B, 1, T, T)."""
        lines = weft.arange(mask.shape[0])[:, None, None, None]
        rows = weft.arange(mask.shape[1])[None, None, :, None]
        found = rows.new_ones((), dtype=weft.bool) & (rows >= 0)
        found = found & mask[lines, rows.transpose(2, 3)]
        return found.expand(-1, -1, mask.shape[1], -1)

    def attend(self, layer: Any, x: Any, seen: Any) -> Any:
        """Attention of 4 heads to what is seen: (B, T, C) -> (B, T, C)."""
        q, k, v = [
            layer[name](x).view(*x.shape[:2], 4, -1).transpose(1, 2)
            for name in ("query", "key", "value")
        ]
        dropped = self.drop.p if self.training else 0.0
        found = nn.functional.scaled_dot_product_attention(q, k, v, seen, dropped)
        return found.transpose(1, 2).contiguous().view(x.shape)


class Writing(nn.Module):
    """A language model as published ones are written: products with weights the other way round, GELU by its powers,
    one table for words that are read and words that are scored, and the loss of all words but the first."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(CLASSES, width), nn.Embedding(128, width)
        self.drop, self.last = nn.Dropout(0.1), nn.LayerNorm(width)
        self.layers = nn.ModuleList([self.layer(width) for _ in range(2)])

    def layer(self, width: int) -> nn.ModuleDict:
        """The parameters of a layer."""
        norms = {"first": nn.LayerNorm(width), "second": nn.LayerNorm(width)}
        heads = {"heads": Product(width, 3 * width), "back": Product(width, width)}
        wide, narrow = Product(width, 4 * width), Product(4 * width, width)
        return nn.ModuleDict({**norms, **heads, "wide": wide, "narrow": narrow})

    def forward(self, words: Any) -> Any:
        x = self.drop(self.words(words) + self.places(weft.arange(words.shape[1])[None]))
        for layer in self.layers:
            x = self.drop(layer["back"](self.attend(layer["heads"](layer["first"](x))))) + x
            wide = layer["wide"](layer["second"](x))
            inner = 0.7978845608028654 * (wide + 0.044715 * weft.pow(wide, 3.0))
            x = x + self.drop(layer["narrow"](0.5 * wide * (1.0 + weft.tanh(inner))))
        scores = nn.functional.linear(self.last(x), self.words.weight).float()
        wanted = nn.functional.pad(words, (0, 1), value=-100)[..., 1:].contiguous().view(-1)
        return nn.functional.cross_entropy(scores.view(-1, CLASSES), wanted, ignore_index=-100)

    def attend(self, heads: Any) -> Any:
        """Causal attention of 4 heads: (B, T, 3 C) -> (B, T, C)."""
        batch, length, width = heads.shape
        q, k, v = [
            part.view(batch, length, 4, -1).transpose(1, 2) for part in heads.split(width // 3, 2)
        ]
        dropped = self.drop.p if self.training else 0.0
        found = nn.functional.scaled_dot_product_attention(q, k, v, None, dropped, is_causal=True)
        return found.transpose(1, 2).reshape(batch, length, -1).contiguous()


class Product(nn.Module):
    """A linear layer that keeps its weight as it is multiplied by: (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.empty(inputs, outputs))
        self.bias = nn.Parameter(weft.zeros(outputs))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Any) -> Any:
        found = weft.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)
        return found.view(*x.shape[:-1], self.bias.shape[0])


class Tagging(nn.Module):
    """A tagger of sentences, (B, T): by the module for LSTMs."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, 16)
        self.lstm = nn.LSTM(16, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, words: Any) -> Any:
        return self.head(self.lstm(self.embed(words))[0])


class Stepping(nn.Module):
    """The same of one sentence, (T): by cells, word after word."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, width)
        self.onward, self.back = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, words: Any) -> Any:
        vectors = [self.embed(word) for word in words]
        onward, back = self.walk(self.onward, vectors), self.walk(self.back, vectors[::-1])
        both = [weft.cat(pair) for pair in zip(onward, back[::-1], strict=True)]
        return self.head(weft.stack(both))

    def walk(self, cell: Any, vectors: list[Any]) -> list[Any]:
        """The hidden state after each word."""
        states, state = [], None
        for vector in vectors:
            state = cell(vector, state)
            states.append(state[0])
        return states


class Seeing(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32, CLASSES),
            nn.Dropout(0.1),
        )

    def forward(self, words: Any) -> Any:
        return self.layers(words.float().view(-1, 1, 4, 4))


class Growing(nn.Module):
    """Trees of words, one node at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.join = nn.Embedding(CLASSES, 16), nn.Linear(32, 16)
        self.gates, self.head = nn.Linear(32, 48), nn.Linear(16, CLASSES)

    def tree(self, words: list[Any]) -> Any:
        if len(words) == 1:
            return self.embed(words[0])
        middle = len(words) // 2
        both = weft.cat([self.tree(words[:middle]), self.tree(words[middle:])])
        i, f, o = self.gates(both).chunk(3)
        return o.sigmoid() * (i.sigmoid() * self.join(both).tanh() + f.sigmoid()).tanh()

    def forward(self, words: Any) -> Any:
        return weft.stack(
            [self.head(self.tree(list(line[: 3 + n]))) for n, line in enumerate(words)]
        )


class Demo(TreeLSTM):
    """The Tree-LSTM of the demo, on trees that are made of words."""

    def __init__(self) -> None:
        super().__init__([str(number) for number in range(CLASSES)], CLASSES)

    def grown(self, words: list[int]) -> Tree:
        """A tree with a word at each node: up to 3 children, which share the rest."""
        count = words[0] % 3 + 1
        parts = [words[1 + n :: count] for n in range(count)]
        return Tree(str(words[0]), tuple(self.grown(part) for part in parts if part))

    def forward(self, words: Any) -> Any:
        trees = [self.grown(line[n % 9 :]) for n, line in enumerate(words.tolist())]
        return weft.stack([super(Demo, self).forward(tree) for tree in trees])


class Mixing(nn.Module):
    """The logarithms of densities of a mixture of normal distributions, at one of the words, given all."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.Tanh())
        self.weights, self.means, self.scales = [nn.Linear(64, 5) for _ in range(3)]

    def forward(self, words: Any) -> Any:
        hidden = self.body(words)
        scale = nn.functional.softplus(self.scales(hidden)) + 0.001
        density = weft.distributions.Normal(self.means(hidden), scale).log_prob(words[:, :1])
        return self.weights(hidden).log_softmax(-1) + density


def perceptron(layer: Callable[[], Any]) -> Any:
    """Two layers with a nonlinearity between them, of the words as numbers."""
    return nn.Sequential(nn.Linear(16, 64), layer(), nn.Linear(64, CLASSES))


def run_networks() -> None:
    """First steps and some later ones, with the usual optimizers, with clipped gradients and without."""
    optim = weft.optim
    for clipped in (False, True):
        for approximate in ("none", "tanh"):
            train(Attending(approximate=approximate), optim.AdamW, clipped)
            train(Attending(approximate=approximate, dropped=0.1), optim.AdamW, clipped)
        for activation in ("relu", "gelu"):
            train(Reading(activation=activation), optim.AdamW, clipped)
        for published in (Encoding, Writing):
            train(published(), optim.AdamW, clipped)
            train(published(128), optim.AdamW, clipped, STEPS, (8, 32))
        train(Tagging(), partial(optim.SGD, lr=0.1, momentum=0.9), clipped)
        train(Tagging(), optim.AdamW, clipped)
        train(Seeing(), partial(optim.SGD, lr=0.1), clipped)
        train(Growing(), optim.Adam, clipped)
        train(Mixing(), optim.Adam, clipped)
        for optimizer in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad):
            train(perceptron(nn.ReLU), optimizer, clipped)
    for layer in (nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.LeakyReLU, nn.ELU, nn.Softplus):
        train(perceptron(layer), optim.AdamW, False)
    train(perceptron(nn.ReLU), partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1), False)
    for model in (Demo(), Stepping()):
        train(model, optim.AdamW, False, 2 * STEPS, (32, 16))
    train(Reading(256), optim.AdamW, False, 3, (8, 128))
    for approximate in ("none", "tanh"):  # so large that fusing pays the first time
        train(Attending(256, approximate), optim.AdamW, False, 3, (8, 128))
        train(as_loaded(Attending(256, approximate)), optim.AdamW, False, 3, (8, 128))
    for model in (Demo(), Stepping()):
        train(as_loaded(model), optim.AdamW, False, STEPS, (32, 16))


def as_loaded(model: Any) -> Any:
    """With numbers in its parameters, as those from a file: initial ones may be known without being in memory."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1).detach().numpy()
    return model


def train(
    model: Any,
    optimizer: Callable[[Any], Any],
    clipped: bool,
    steps: int = STEPS,
    shape: tuple[int, int] = (4, 16),
) -> None:
    """Some steps, on words that change: of sentences and trees, the sizes too."""
    updates = optimizer(model.parameters())
    for step in range(steps):
        words = weft.randint(0, CLASSES, shape)
        loss = loss_of(model, words[:, step % 4 :])
        updates.zero_grad()
        loss.backward()
        if clipped:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        updates.step()
        loss.item()


def loss_of(model: Any, words: Any) -> Any:
    """The loss of a model that scores words, or lines of them."""
    cost = nn.functional.cross_entropy
    if isinstance(model, Stepping):
        return weft.stack(
            [cost(model(line[n % 9 :]), line[n % 9 :]) for n, line in enumerate(words)]
        ).mean()
    if isinstance(model, nn.Sequential | Seeing | Mixing):
        words = nn.functional.pad(words, (0, 16 - words.shape[1]))
        if isinstance(model, Mixing):
            return -model(words.float()).logsumexp(-1).mean()
        return cost(model(words.float()), words[:, 0])
    if isinstance(model, Attending | Tagging):
        return cost(model(words).reshape(-1, CLASSES), words.reshape(-1))
    if isinstance(model, Writing):
        return model(words)
    wanted, scores = words[:, 0], model(words)
    if isinstance(model, Encoding):
        return cost(scores.view(-1, 2), (wanted % 2).view(-1))
    if isinstance(model, Reading):
        return cost(scores, wanted)
    return weft.stack([cost(*pair) for pair in zip(scores, wanted, strict=True)]).mean()


def run() -> None:
    """All of it."""
    run_table()
    run_reductions()
    run_families()
    run_networks()
