"""DyNet's side of workloads, with its automatic batching: a script for a Python in which `import dynet` works.

`PYTHON benchmarks/dynet_jobs.py FOLDER` reads `job.json` (kind, size of batches, examples) and `weights.npz` there,
takes the steps and prints one JSON object: the loss of the first batch, and the median seconds of a step. It imports
nothing of ours and runs on Python 3.8, for which DyNet's last wheels are (`pip install dyNET38`).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

WARM, TURNS = 3, 9


class TreeLSTM:
    """The Tree-LSTM of `models.tree_lstm`: (tree, class) -> loss."""

    def __init__(self, dy: Any, model: Any, weights: Any) -> None:
        self.dy = dy
        self.labels = model.lookup_parameters_from_numpy(weights["gates_of_label.weight"])
        self.linear = {
            name: [
                model.parameters_from_numpy(weights[f"{name}.{part}"])
                for part in ("bias", "weight")
            ]
            for name in ("gates_of_sum", "forget_of_child", "classify")
        }
        self.width = weights["forget_of_child.weight"].shape[0]

    def apply(self, name: str, x: Any) -> Any:
        """One linear layer."""
        return self.dy.affine_transform([*self.linear[name], x])

    def encode(self, tree: Any) -> Any:
        """(hidden, cell) of a node."""
        dy, w = self.dy, self.width
        label, children = tree
        gates = self.labels[label]
        i, o, u, f = (dy.pickrange(gates, w * n, w * (n + 1)) for n in range(4))
        if not children:
            cell = dy.cmult(dy.logistic(i), dy.tanh(u))
            return dy.cmult(dy.logistic(o), dy.tanh(cell)), cell
        states = [self.encode(child) for child in children]
        more = self.apply("gates_of_sum", dy.esum([hidden for hidden, _ in states]))
        i2, o2, u2 = (dy.pickrange(more, w * n, w * (n + 1)) for n in range(3))
        parts = [dy.cmult(dy.logistic(i + i2), dy.tanh(u + u2))]
        for hidden, below in states:
            forget = dy.logistic(f + self.apply("forget_of_child", hidden))
            parts.append(dy.cmult(forget, below))
        cell = dy.esum(parts)
        return dy.cmult(dy.logistic(o + o2), dy.tanh(cell)), cell

    def loss(self, example: Any) -> Any:
        """Cross entropy of one example."""
        tree, target = example
        scores = self.apply("classify", self.encode(tree)[0])
        return self.dy.pickneglogsoftmax(scores, target)


class Tagger:
    """The tagger of `sequences.tagger`, with DyNet's own LSTM: (words, spellings, tags) -> mean loss."""

    def __init__(self, dy: Any, model: Any, weights: Any) -> None:
        self.dy = dy
        self.words = model.lookup_parameters_from_numpy(weights["embed.weight"])
        self.read = [lstm(dy, model, weights, f"read.{n}.") for n in (0, 1)]
        self.letters = None
        if "embed_character.weight" in weights:
            self.letters = model.lookup_parameters_from_numpy(weights["embed_character.weight"])
            self.spell = [lstm(dy, model, weights, f"spell.{n}.") for n in (0, 1)]
        self.score = [
            model.parameters_from_numpy(weights[f"score.{part}"]) for part in ("bias", "weight")
        ]

    def word(self, number: int, spelling: list[int]) -> Any:
        """A word's vector, with the last states over its letters."""
        vector = self.words[number]
        if self.letters is None:
            return vector
        letters = [self.letters[letter] for letter in spelling]
        forth, back = (layer.initial_state() for layer in self.spell)
        ends = forth.transduce(letters)[-1], back.transduce(letters[::-1])[-1]
        return self.dy.concatenate([vector, *ends])

    def loss(self, example: Any) -> Any:
        """The mean over the words of one sentence."""
        dy = self.dy
        words, spellings, tags = example
        vectors = [self.word(*pair) for pair in zip(words, spellings)]  # noqa: B905 - Python 3.8
        forth, back = (layer.initial_state() for layer in self.read)
        before, behind = forth.transduce(vectors), back.transduce(vectors[::-1])[::-1]
        losses = [
            dy.pickneglogsoftmax(
                dy.affine_transform([*self.score, dy.concatenate([one, other])]), tag
            )
            for one, other, tag in zip(before, behind, tags)  # noqa: B905 - Python 3.8
        ]
        return dy.average(losses)


def lstm(dy: Any, model: Any, weights: Any, prefix: str) -> Any:
    """DyNet's LSTM with our weights: its gates are i, f, o, g, and it adds 1 to the forget gate itself."""
    import numpy as np

    inputs, width = weights[prefix + "weight_ih"].shape[1], weights[prefix + "weight_hh"].shape[1]
    builder = dy.VanillaLSTMBuilder(1, inputs, width, model)
    order = np.r_[0 : 2 * width, 3 * width : 4 * width, 2 * width : 3 * width]
    bias = weights[prefix + "bias_ih"] + weights[prefix + "bias_hh"]
    bias[width : 2 * width] -= 1
    given = weights[prefix + "weight_ih"], weights[prefix + "weight_hh"], bias
    for parameter, values in zip(builder.get_parameters()[0], given):  # noqa: B905 - Python 3.8
        parameter.set_value(values[order])
    return builder


def main(folder: Path) -> None:
    """Take the steps of the job in a folder."""
    import dynet_config

    dynet_config.set(autobatch=1, mem="2048", random_seed=1)
    import dynet as dy
    import numpy as np

    job = json.loads((folder / "job.json").read_text())
    model = dy.ParameterCollection()
    kind: Any = {"trees": TreeLSTM, "tagger": Tagger}[job["kind"]]
    network = kind(dy, model, dict(np.load(folder / "weights.npz")))
    trainer = dy.AdamTrainer(model, alpha=1e-3)
    examples, batch = job["examples"], job["batch"]
    starts = cycle(range(0, len(examples) - batch + 1, batch))
    losses, seconds = [], []
    for _ in range(WARM + TURNS):
        start, began = next(starts), time.perf_counter()
        dy.renew_cg()
        loss = dy.average([network.loss(one) for one in examples[start : start + batch]])
        losses.append(loss.value())
        loss.backward()
        trainer.update()
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"loss": losses[0], "seconds": statistics.median(seconds[WARM:])}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
