"""The demo's model: a child-sum Tree-LSTM (Tai, Socher and Manning 2015) as plain recursive Python.

It takes one syntax tree and returns one score for each package. There is no batch dimension, no padding and no level
by level processing: the recursion follows the tree, whatever its shape, and the framework finds out by itself which
nodes of which trees can be computed together.
"""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import Tensor, nn
from weft.demo.syntax_trees import UNKNOWN, Tree, kind_of

State = tuple[Tensor, Tensor]


class TreeLSTM(nn.Module):
    """Classifies trees with the given labels; a label that is not among them counts as its kind."""

    def __init__(self, labels: Sequence[str], classes: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.number = {label: weft.tensor(i) for i, label in enumerate(labels)}
        # Four gates: input, output, update, forget.
        self.gates_of_label = nn.Embedding(len(labels), 4 * width)
        self.gates_of_child = nn.Linear(width, 4 * width)
        self.dropout = nn.Dropout(0.5)
        self.classify = nn.Linear(width, classes)
        nn.init.normal_(self.gates_of_label.weight, std=0.1)

    def look_up(self, label: str) -> Tensor:
        """The label's share in the gates: (4 width)."""
        number = self.number.get(label)
        if number is None:
            number = self.number.get(kind_of(label), self.number[UNKNOWN])
        return self.gates_of_label(number)

    def encode(self, tree: Tree) -> State:
        """The hidden and the cell state of a tree's root: (width), (width)."""
        three, gates = 3 * self.width, self.look_up(tree.label)
        if not tree.children:
            return self.combine(gates[:three])
        states = [self.encode(child) for child in tree.children]
        told = weft.stack([self.gates_of_child(hidden) for hidden, _ in states])  # (k, 4 width)
        forget = (gates[three:] + told[:, three:]).sigmoid()  # (width) + (k, width) -> (k, width)
        kept = (forget * weft.stack([cell for _, cell in states])).sum(0)  # (k, width) -> (width)
        return self.combine(gates[:three] + told[:, :three].sum(0), kept)

    def combine(self, gates: Tensor, kept: Tensor | None = None) -> State:
        """The state from the input, output and update gates and what the children's cells keep."""
        width = self.width
        input_output, update = gates[: 2 * width].sigmoid(), gates[2 * width :].tanh()
        cell = input_output[:width] * update
        if kept is not None:
            cell = cell + kept
        return input_output[width:] * cell.tanh(), cell

    def forward(self, tree: Tree) -> Tensor:
        """The scores of the classes: (classes)."""
        hidden, _ = self.encode(tree)
        return self.classify(self.dropout(hidden))
